/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * columns: what sinks that print lines have in common: the columns of -F, the
 * part of a line that says who, where and when, symbols as text, gap lines.
 *
 * Without -F (or with -F +LIST, which adds to it) columns are aligned for
 * reading; with -F LIST they are exactly those, one space between, no padding.
 */
#ifndef DECODE_SINK_COLUMNS_H
#define DECODE_SINK_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/flow.h>

#include "decode/lib/code/code.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/trace/gap.h"

enum column {
	COL_CPU,
	COL_PID,
	COL_TID,
	COL_WHO,	/* pid/tid */
	COL_TIME,
	COL_COMM,
	COL_CGROUP,
	COL_OFFSET,
	COL_IP,		/* from here on: known from code and address alone */
	COL_SYM,
	COL_DSO,
	COL_BYTES,
	COL_INSN,
	COL_KIND,
	COL_FROM,
	COL_FROM_SYM,
	COL_FROM_DSO,
	COL_ARROW,
	COL_TO,
	COL_TO_SYM,
	COL_TO_DSO,
	COL_N,
};

#define COLUMNS_MAX 24

struct columns {
	uint8_t col[COLUMNS_MAX];	/* enum column, in order */
	unsigned n;
	unsigned n_lead;	/* leading columns that are of the context */
	bool mixed;		/* a context column follows a code column */
	bool aligned;
	uint32_t has;		/* bit per enum column */
};

#define COLUMN_BIT(c) (UINT32_C(1) << (c))

/*
 * allowed: names that the sink takes, comma separated; standard: its default
 * (names too, and "pid/tid", "->"). -AUX_E_INVAL with diag for an unknown name.
 */
int columns_parse(struct columns *c, const char *fields, const char *allowed,
		  const char *standard, struct aux_diag *diag);

/* The "# cpu  pid/tid ..." line, aligned output only. */
void columns_header(const struct columns *c, struct outbuf *out);

/*
 * Columns are rendered into an outbuf in memory. column_pad aligns column i,
 * whose text starts start bytes into the buffer, when it has to; the last
 * column gets no trailing blanks.
 */
void column_pad(const struct columns *c, unsigned i, struct outbuf *out,
		size_t start);
/* One context column, not padded. */
void column_ctx(const struct columns *c, struct outbuf *out, enum column col,
		const struct flow_ctx *ctx, const struct sink_host *host,
		uint64_t offset);

/* The leading columns, rendered again only from the first on that changed. */
#define LEAD_MAX  48	/* a longer one has an id of its own each time */
#define LEAD_SEEN 64	/* power of two */

struct lead {
	struct outbuf *text;
	uint64_t serial;	/* changes with any context column; 0: none yet */
	uint64_t id;		/* that of a text that was seen lately: equal
				 * ids, equal texts. 0: not asked for */
	struct flow_ctx ctx;
	uint64_t offset;
	uint32_t start[COLUMNS_MAX];	/* of each, in text */
	struct {
		uint64_t id;		/* 0: none */
		size_t len;
		char text[LEAD_MAX];
	} seen[LEAD_SEEN];
};
/* The id of the text as it is. */
uint64_t lead_id(struct lead *l);
void lead_update(struct lead *l, const struct columns *c,
		 const struct flow_ctx *ctx, const struct sink_host *host,
		 uint64_t offset);

/* "name+0x1f", the path of the dso; "-" when it is not known. Aligned: the
 * file's name for want of a symbol, blank for want of both. */
void column_symbol(const struct columns *c, struct outbuf *out,
		   const struct sink_host *host, const struct symbol *sym,
		   uint64_t ip);
void column_dso(const struct columns *c, struct outbuf *out,
		const struct symbol *sym);
/* The symbol of ip: name NULL when there is none, dso too without a mapping. */
void find_symbol(const struct sink_host *host, const struct space *space,
		 uint64_t ip, struct symbol *sym);
/* Whether --symbol means the function at ip; true without --symbol. */
bool in_symbol(const struct sink_host *host, const struct space *space,
	       uint64_t ip);

/* "# gap CAUSE at offset 0x.. after 0x..: text"; after 0: not known. */
void print_gap(struct outbuf *out, const struct sink_host *host,
	       const struct flow_ctx *ctx, const struct aux_flow *ev,
	       uint64_t after);
/* The same for a range that walk_find refused with err. */
void print_mismatch(struct outbuf *out, const struct sink_host *host,
		    const struct flow_ctx *ctx, const struct aux_flow *ev,
		    int err);

/* "# ptwrite 0xVALUE at 0xIP SYMBOL (cpu C, pid/tid P/T, at TIME)": a value
 * that the program wrote, with all that is known of where and when, as a
 * recording of nothing else has no instruction beside it. The time is ns, 0:
 * not known. */
void print_payload(struct outbuf *out, const struct sink_host *host,
		   const struct flow_ctx *ctx, uint64_t ns,
		   const struct aux_flow *ev);

/* The last address of a PATH. */
uint64_t flow_last_ip(const struct aux_flow *ev);

/* The last address of each stream, for gap lines. Starts zeroed. */
struct last_ips {
	struct last_ip {
		uint32_t stream;
		uint64_t ip;
	} *v;
	size_t n, current;
};
/* The place for a stream; NULL when out of memory. */
uint64_t *last_ip_of(struct last_ips *l, uint32_t stream);

#endif
