/* SPDX-License-Identifier: BSD-2-Clause */
/* record_text: what its files share. Each function puts the fields of one kind. */
#ifndef DECODE_CMD_RECORD_TEXT_IMPL_H
#define DECODE_CMD_RECORD_TEXT_IMPL_H

#include <stdint.h>

#include "decode/cmd/record_text.h"

/* pid_t fields: -1 is more telling than 4294967295. */
#define PID(x) ((int32_t)(x))

typedef void (*text_fn)(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev);

/* What is no printable ASCII as \xNN. s: NULL, or n bytes up to a NUL. */
void record_text_string(struct outbuf *o, const char *s, size_t n);
void record_text_hex(struct outbuf *o, const uint8_t *p, size_t n);

/* record_text_side.c */
void record_text_ksymbol(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev);
void record_text_poke(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev);
void record_text_bpf(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev);
void record_text_namespaces(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev);
void record_text_cgroup(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev);
void record_text_hw_id(struct outbuf *o, const struct aux_reader *r,
		       const struct aux_event *ev);
void record_text_read(struct outbuf *o, const struct aux_reader *r,
		      const struct aux_event *ev);
void record_text_callchain(struct outbuf *o, const struct aux_reader *r,
			   const struct aux_event *ev);
void record_text_id_index(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev);
void record_text_thread_map(struct outbuf *o, const struct aux_reader *r,
			    const struct aux_event *ev);
void record_text_cpu_map(struct outbuf *o, const struct aux_reader *r,
			 const struct aux_event *ev);
void record_text_build_id(struct outbuf *o, const struct aux_reader *r,
			  const struct aux_event *ev);
void record_text_tracing_data(struct outbuf *o, const struct aux_reader *r,
			      const struct aux_event *ev);

#endif
