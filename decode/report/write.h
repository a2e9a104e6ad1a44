/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writing the report: what its parts share. Texts are gathered in memory first, for
 * the nodes get what the rest leaves of the file's size.
 */
#ifndef DECODE_REPORT_WRITE_H
#define DECODE_REPORT_WRITE_H

#include "common/outbuf.h"
#include "decode/report/report.h"
#include "decode/report/pack.h"

/* A place that calls come from. */
struct report_site {
	uint64_t addr;
	uint32_t func;
};

struct report_sites {
	struct report_site *v;
	uint32_t *slots, n;
};

struct report_writer {
	struct report *r;
	unsigned shift;		/* ticks of the file are 2^shift of ours */
	struct outbuf *nodes, *tree, *json, *roots, *places; /* in memory */
	struct report_sites sites;
	uint64_t n_merged;	/* calls that are drawn as part of many */
	uint64_t over;		/* the page's size, where it is more than was
				 * asked for; else 0 */
};

/* nodes.c */
int report_sites_init(struct report_sites *s);
void report_sites_fini(struct report_sites *s);
uint32_t report_site(struct report_sites *s, uint64_t addr, uint32_t func);
int report_pack_nodes(struct report_writer *w);
int report_pack_tree(struct report_writer *w, struct outbuf *out);

/* json.c: names, functions, lanes and their spans, into json; places of
 * calls into places. As blocks. */
int report_put_json(struct report_writer *w);
int report_put_sites(struct report_writer *w);

/* text.c: what was recorded and what is missing, as HTML. */
void report_put_title(struct report_writer *w, struct outbuf *out);
void report_put_head(struct report_writer *w, struct outbuf *out);

#endif
