/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: one stream decoded by two decoders, event by event, side by side.
 *
 * Where a decoder cuts a RANGE is its own affair: instructions are compared,
 * not RANGEs. Everything else that happens must be in the same place among
 * them, but for TIME, which has rules of its own (verify_time.c). Memory does
 * not grow with the trace.
 */
#ifndef DECODE_COMPARE_VERIFY_H
#define DECODE_COMPARE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>

struct outbuf;
struct session;

struct verify_config {
	const char *decoder;	/* what is tested; NULL: our own engine */
	const char *reference;	/* NULL: libipt or OpenCSD, by trace type */
	bool all;		/* go on after a difference */
	struct outbuf *out;	/* differences, for a person */
	/* called now and then with the bytes of the stream that are done */
	void (*progress)(void *priv, uint64_t bytes);
	void *progress_priv;
};

struct verify_result {
	uint64_t n_insns;	/* equal ones */
	uint64_t n_branches;	/* RANGEs that end with one */
	uint64_t n_events;	/* of other kinds, without TIME */
	uint64_t n_times;	/* TIMEs of the reference */
	uint64_t n_exact;	/* of these: TSC packets, timestamps */
	uint64_t n_alone;	/* TIMEs that only one has, between others */
	uint64_t max_ticks, max_ns;	/* largest difference of estimates */
	uint64_t n_vague;	/* branches that one left open (COND) */
	uint64_t n_moved;	/* events in another order at one place */
	uint64_t n_hidden;	/* TRACE_OFFs that one has at an overflow */
	uint64_t n_chunks;
	uint64_t n_handed;	/* chunks that the decoder would not decode */
	uint64_t first_handed;	/* its offset */
	uint64_t n_given_up;	/* chunks that the reference gave up on */
	uint64_t first_given_up; /* offset: the rest of the chunk is not compared */
	uint64_t n_paths;	/* PATHs that were expanded and compared */
	uint64_t n_differences;
};

/* The two decoders, by name, as verify_stream will use them. */
int verify_decoders(const struct session *s, const struct verify_config *config,
		    const struct aux_decoder_ops *ops[2],
		    struct aux_diag *diag);

/*
 * Stream i of s by ops[0] and ops[1]. paths: ops[0] is asked for PATHs, which
 * are expanded. Adds to r. 0, also with differences, or an error of the
 * decoders.
 */
int verify_stream(struct session *s, size_t i,
		  const struct verify_config *config,
		  const struct aux_decoder_ops *const ops[2], bool paths,
		  struct verify_result *r, struct aux_diag *diag);

#endif
