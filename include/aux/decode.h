/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libauxdecode: the flow of a recording, for programs of your own.
 *
 * Open a recording, then take its flow: pull it with aux_decode_next, or have a
 * sink called by aux_decode_run. flow.h says what the events are; a RANGE
 * stands for many instructions, aux_decode_expand gives their addresses. GAP
 * carries all loss: who ignores it sees jumps that never happened.
 *
 * A recording that is cut, damaged or unfinished opens, and gives what is there:
 * its end is no error. That it is not whole is a GAP too (since version 5), the
 * last one, of no thread and no stream where it belongs to none; the same is
 * lossy of aux_decode_get_stats, and aux_decode_missing says it in words. A
 * program that met a GAP of loss should not exit with 0: auxdecode has 3 for it.
 *
 * Nothing is global, nothing is printed, nothing exits: any number of
 * recordings may be open, each used by one thread at a time. Functions return 0
 * or a count, or -AUX_E_* with text in a diag, which may be NULL.
 *
 * Pulling works in steps of the caller's own thread: aux_decode_next decodes
 * until a batch is there, and keeps no more than that; no thread waits for a
 * slow caller, and none has to be stopped. Decoding itself uses n_workers
 * threads either way.
 *
 * Stability. Functions are never removed, nor do they change their meaning,
 * while the number behind .so is the same. Structs only grow, at their end;
 * those that you fill begin with their size, and what a shorter one lacks is 0.
 * Those that the library hands out may be longer than yours. Enumerations grow:
 * skip what you do not know. A decoder plugin is bound to AUX_DECODER_ABI
 * instead (decoder.h).
 */
#ifndef AUX_DECODE_H
#define AUX_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>
#include <aux/flow.h>
#include <aux/reader.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when functions are added. */
#define AUX_DECODE_VERSION 5
/* That of the library that is linked. */
unsigned aux_decode_version(void);

struct aux_decode;	/* a recording that is open */
struct aux_decode_space; /* code that was mapped; lives as the recording does */

/* aux_decode_options.flags */
#define AUX_DECODE_ONE_TID 1	/* only what tid ran */
#define AUX_DECODE_ONE_CPU 2	/* only what ran on cpu */
#define AUX_DECODE_CHUNKS 4	/* chunk_from to chunk_to of each stream */
#define AUX_DECODE_DEBUGINFOD 8	/* ask the servers of $DEBUGINFOD_URLS */
#define AUX_DECODE_NO_TIMES 16	/* time_ns may be old: faster */
#define AUX_DECODE_ANY_PATH 32	/* a snapshot may name files outside of it */

/*
 * What of a recording, and where its code is; as the options of auxdecode(1).
 * All 0 but size: everything. Strings are copied.
 */
struct aux_decode_options {
	uint32_t size;		/* sizeof(struct aux_decode_options) */
	uint32_t flags;
	uint32_t tid, cpu;
	uint64_t time_from, time_to;	/* ns; time_to 0: to the end */
	uint64_t last_ns;	/* so much before the end; 0: all */
	uint64_t chunk_from, chunk_to;
	uint64_t snapshot;	/* this one alone, from 1; 0: all */
	uint32_t n_workers;	/* threads; 0: one for each CPU. The flow does
				 * not depend on it */
	uint32_t chunk_min;	/* bytes of trace decoded in one go; 0: default */
	uint64_t max_memory;	/* for what decoders learn, and threads decode
				 * ahead; 0: default, 512 MiB */
	const char *decoder;	/* by name; NULL: the best for the trace */
	const char *plugin;	/* a decoder from this file */
	const char *symfs, *vdso, *vmlinux, *kcore, *kallsyms;
	const char *buildid_dir; /* NULL: perf's own; "": none */
	/* packets without a recording around them: path is not used then */
	const char *pt;		/* FILE or FILE:BEGIN-END */
	const char *const *images;	/* their code; see --image */
	uint64_t n_images;
	const char *cpu_model;	/* F/M/S */
	/* the recording is here, not in a file; outlives it. path is for
	 * messages */
	const void *data;
	uint64_t n_data;
	/* programs that ran, of pt and of snapshots: ELF-FILE[@ADDR]; see --elf */
	const char *const *elfs;
	uint64_t n_elfs;
};

/*
 * path: whatever auxdecode reads (perf.data file or directory, snapshot,
 * bundle); "-": standard input. options NULL: all 0. On error *d is NULL.
 */
int aux_decode_open(struct aux_decode **d, const char *path,
		    const struct aux_decode_options *options,
		    struct aux_diag *diag);
/* NULL is allowed. All that came from d ends with it. */
void aux_decode_close(struct aux_decode *d);

/* Who ran, where, when. Holds for the events that come with it. */
struct aux_decode_ctx {
	const struct aux_decode_space *space;	/* NULL: no code is known */
	uint64_t space_id;	/* equal ids, equal code; 0: space is NULL */
	uint64_t time_ns;	/* perf clock; 0: unknown */
	uint64_t tsc;		/* raw; 0: unknown */
	uint32_t pid, tid;	/* -1: unknown */
	int32_t cpu;		/* -1: unknown, or a stream per thread */
	uint32_t stream;	/* number of the AUX stream; -1: of none, see below */
};

/*
 * Events of one context, in order. A GAP is the last of its batch. Times never
 * go back from one batch of a stream to the next, unless the recording's do;
 * batches of several streams come merged by time.
 *
 * The last batches may be a GAP that belongs to no thread, CPU or stream (pid, tid, cpu
 * and stream -1, no time): "file", the recording is cut, damaged or unfinished, and no gap
 * before told so; "unplaced", records were lost, or bytes of which no gap before
 * told. Filters do not hide them: what is missing may be what was asked for.
 */
struct aux_decode_batch {
	struct aux_decode_ctx ctx;
	const struct aux_flow *events;
	size_t n;
};

/*
 * Pull: the next batch, valid until the next call with d. Returns 1, or 0 at
 * the end (and from then on), or -AUX_E_*. aux_decode_rewind begins anew.
 */
int aux_decode_next(struct aux_decode *d, struct aux_decode_batch *batch,
		    struct aux_diag *diag);
void aux_decode_rewind(struct aux_decode *d);
/* Rewinds; the next pass is what tid ran alone, as with AUX_DECODE_ONE_TID. -1:
 * what all threads ran. Cheaper than to open the recording again. Since version
 * 3. */
void aux_decode_select_tid(struct aux_decode *d, int64_t tid);

/* aux_decode_sink.flags */
#define AUX_DECODE_PATHS 1	/* PATH events in place of many RANGEs */

/* Push: flow is called with what a batch has, in the thread of
 * aux_decode_run. */
struct aux_decode_sink {
	uint32_t size;		/* sizeof(struct aux_decode_sink) */
	uint32_t flags;
	void *priv;
	/*
	 * 0: go on; 1: enough, aux_decode_run returns 0; -AUX_E_*: it returns
	 * that. Events are valid until it returns; of paths see flow.h: what is
	 * kept in user of a path or step stays through one run.
	 */
	int (*flow)(void *priv, const struct aux_decode_ctx *ctx,
		    const struct aux_flow *events, size_t n);
};

/* The whole flow into a sink, from the beginning. Ends what is being pulled. */
int aux_decode_run(struct aux_decode *d, const struct aux_decode_sink *sink,
		   struct aux_diag *diag);

/* Of what was given since the last open, rewind or run. Before anything is
 * given: what the file says of itself, be it lossy, too. */
struct aux_decode_stats {
	uint32_t size;		/* sizeof(struct aux_decode_stats), as yours is */
	uint32_t lossy;		/* something is missing: a gap, loss, damage */
	uint64_t n_insns;
	uint64_t n_gaps;	/* of all causes that are loss */
	uint64_t aux_bytes;	/* of trace in the file, */
	uint64_t aux_decoded;	/* decoded so far, */
	uint64_t aux_wanted;	/* and to be decoded in all */
	uint64_t lost_bytes;	/* that the recorder says it lost */
	uint64_t n_streams, n_records;
	uint64_t n_chunks, n_handed;	/* chunks, and those of them that the
				 * reference decoder had to do */
	const char *decoder;	/* its name; NULL before it is chosen */
};
/* -AUX_E_INVAL without a size. */
int aux_decode_get_stats(const struct aux_decode *d,
			 struct aux_decode_stats *stats);
/* Why lossy is set, one line: what the file lacks ("at offset 0x3740 the file ends
 * inside a record ..."), else that the flow has gaps; "": it is not. Since version
 * 5. */
void aux_decode_missing(const struct aux_decode *d, char *buf, size_t len);
/* How many of a cause; and each cause's word ("overflow") and what it means and
 * what to do, one line. The causes are enum aux_gap_cause, and some after
 * AUX_GAP_N_CAUSES that no decoder gives; aux_gap_is_loss: all but one of these
 * ("snapshot": nothing was recorded there on purpose). */
uint64_t aux_decode_count_gaps(const struct aux_decode *d, unsigned cause);
const char *aux_gap_name(unsigned cause);
const char *aux_gap_text(unsigned cause);
int aux_gap_is_loss(unsigned cause);

/*
 * Addresses of the instructions of a RANGE: fills ips, at most max. Returns how
 * many there are (events[i].n), -AUX_E_NOENT where code is missing,
 * -AUX_E_FORMAT where range and code disagree (then none of them is certain),
 * -AUX_E_INVAL for any other event.
 */
int64_t aux_decode_expand(struct aux_decode *d,
			  const struct aux_decode_space *space,
			  const struct aux_flow *range, uint64_t *ips,
			  size_t max);
/* As aux_decoder_host.code: bytes that contain ip. They live as d does. */
int aux_decode_code(struct aux_decode *d, const struct aux_decode_space *space,
		    uint64_t ip, struct aux_code *code);
/* Why there is none: file, build ids, when it was mapped; "" when nothing is
 * known. */
void aux_decode_explain(struct aux_decode *d,
			const struct aux_decode_space *space, uint64_t ip,
			char *buf, size_t len);

struct aux_decode_symbol {
	uint32_t size;		/* sizeof(struct aux_decode_symbol) */
	uint32_t reserved;
	const char *name;	/* mangled; NULL: none known */
	uint64_t start, n_bytes; /* where it is at run time */
	const char *dso;	/* path of the mapping, "[vdso]", "[jit]"..; NULL:
				 * nothing is mapped there */
	uint64_t dso_offset;	/* of ip, in the file; 0 without a file */
};
/* Looked up when asked for, then kept. 0 even if all that is known is that
 * nothing is; -AUX_E_NOENT when nothing is mapped at ip. */
int aux_decode_symbol(struct aux_decode *d,
		      const struct aux_decode_space *space, uint64_t ip,
		      struct aux_decode_symbol *sym);

/* One of the functions that an instruction belongs to. Strings live as d
 * does. */
struct aux_decode_frame {
	const char *function;	/* mangled where the file has that; NULL: unknown */
	const char *file;	/* with its directory; NULL: unknown */
	uint32_t line, column;	/* first frame: what ip was made from; next ones:
				 * where they call the one before; 0: unknown */
	uint32_t discriminator;	/* of several blocks of a line; 0: none */
	uint32_t decl_line;	/* of function; 0: unknown */
	uint64_t entry;		/* lowest address of this instance; 0: unknown */
	uint32_t id;		/* of this instance, in its file; 0: unknown */
	uint32_t reserved;
};
/*
 * Source line and inlined functions of the instruction at ip: innermost first,
 * the function itself last. From DWARF of the file at ip, or of its separate
 * debug file, read when first asked for; without DWARF the symbol alone. Fills
 * frames, of frame_size (sizeof(struct aux_decode_frame)) each, at most max.
 * Returns how many there are, be it more than max (max 0: frames may be NULL);
 * 0: the file says nothing of ip; -AUX_E_NOENT: nothing is mapped there;
 * -AUX_E_INVAL, -AUX_E_NOMEM.
 */
int aux_decode_frames(struct aux_decode *d,
		      const struct aux_decode_space *space, uint64_t ip,
		      struct aux_decode_frame *frames, size_t frame_size,
		      size_t max);
/* The thread's name at a time; never NULL. */
const char *aux_decode_comm(const struct aux_decode *d, uint32_t tid,
			    uint64_t time_ns);
/* The records of the recording, and what it says of itself. It is d's: read
 * from it, rewind it, do not close it. */
struct aux_reader *aux_decode_reader(const struct aux_decode *d);

/*
 * The decoders themselves, for those who have their own packets and their own
 * code (decoder.h): by index (NULL after the last), or by name (NULL: the best
 * one) for an AUX_TRACE_*.
 */
const struct aux_decoder_ops *aux_decoder_get(size_t i);
const struct aux_decoder_ops *aux_decoder_find(const char *name,
					       uint32_t trace_type,
					       struct aux_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
