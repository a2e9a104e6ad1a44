/* SPDX-License-Identifier: BSD-2-Clause */
/* Records, feature bits and AUX flags as text for people. */
#ifndef DECODE_CMD_RECORD_TEXT_H
#define DECODE_CMD_RECORD_TEXT_H

#include <stdint.h>

#include <aux/reader.h>

#include "common/outbuf.h"

/* "MMAP2"; "TYPE_99" (in buf) for a type that is not known. */
struct name_buf {
	char text[24];
};
const char *record_name(uint32_t type, struct name_buf *buf);

/* "hostname"; "feature 200" */
const char *feature_name(unsigned bit, struct name_buf *buf);

/* PERF_AUX_FLAG_*: "truncated,partial", "none" */
void aux_flags_text(struct outbuf *o, uint64_t flags);

/*
 * One line without its end: offset, size, name, fields, and " | " with the
 * trailer. What has no parser is shown as its first bytes.
 */
void record_text(struct outbuf *o, const struct aux_reader *r,
		 const struct aux_event *ev);

/* record_text: what its files share. Each function puts the fields of one kind. */

/* pid_t fields: -1 is more telling than 4294967295. */
#define PID(x) ((int32_t)(x))

typedef void (*text_fn)(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev);

#endif
