/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page: report.html with what belongs where it says {{NAME}}, its style and
 * scripts (web/), and the data as blocks. Paths of web/ are from the project's
 * root, where the compiler runs; the Makefile says that this file depends on
 * them.
 *
 * No part of the recording's text is in a script element that runs; blocks are
 * base64. The Content-Security-Policy of report.html allows nothing from
 * outside.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "common/array.h"
#include "common/embed.h"
#include "common/workers.h"
#include "decode/report/impl.h"

EMBED(page_html, "decode/report/web/report.html");
EMBED(page_css, "decode/report/web/report.css");
EMBED(data_js, "decode/report/web/data.js");
EMBED(view_js, "decode/report/web/view.js");
EMBED(chart_js, "decode/report/web/chart.js");
EMBED(draw_js, "decode/report/web/draw.js");
EMBED(lanes_js, "decode/report/web/lanes.js");
EMBED(range_js, "decode/report/web/range.js");
EMBED(detail_js, "decode/report/web/detail.js");
EMBED(code_js, "decode/report/web/code.js");
EMBED(flame_js, "decode/report/web/flame.js");
EMBED(table_js, "decode/report/web/table.js");
EMBED(main_js, "decode/report/web/report.js");

struct part {
	const char *text, *end;
};

/* The scripts in the order in which they use each other. */
static const struct part scripts[] = {
	{ data_js, data_js_end },     { view_js, view_js_end },
	{ chart_js, chart_js_end },   { draw_js, draw_js_end },
	{ lanes_js, lanes_js_end },   { range_js, range_js_end },
	{ detail_js, detail_js_end }, { code_js, code_js_end },
	{ flame_js, flame_js_end },   { table_js, table_js_end },
	{ main_js, main_js_end },
};

#define N_SCRIPTS (sizeof(scripts) / sizeof(scripts[0]))

/* ---- blocks: see impl.h. Only this file calls zlib. ---- */

#ifdef HAVE_Z
#include <zlib.h>
#endif

/* LEB128: seven bits a byte, the lowest first. A failure is kept in the
 * column. */
void column_put(struct column_bytes *c, uint64_t v)
{
	uint8_t *grown;

	if (c->max - c->n < 10) {
		size_t max = c->max ? 2 * c->max : 4096;

		grown = c->failed ? NULL : realloc(c->p, max);
		if (!grown) {
			c->failed = 1;
			return;
		}
		c->p = grown;
		c->max = max;
	}
	for (; v > 127; v >>= 7)
		c->p[c->n++] = (uint8_t)(v | 128);
	c->p[c->n++] = (uint8_t)v;
}

static void put_block(struct outbuf *out, const char *kind, int z,
		      const uint8_t *p, size_t n)
{
	outbuf_printf(out, "<script type=\"text/plain\" class=\"block\" "
		      "data-kind=\"%s\" data-z=\"%d\">", kind, z);
	outbuf_base64(out, p, n);
	outbuf_str(out, "</script>\n");
}

/* A block: what is in it, then the same deflated. */
struct report_block {
	struct work work;	/* first */
	const char *kind;
	uint8_t *bytes;
	size_t len;
	uint8_t *z;		/* NULL: not yet, or there was no memory */
	size_t n_z;
};

/* 0 or -AUX_E_NOMEM. */
static int deflate_bytes(const void *bytes, size_t len, uint8_t **z, size_t *n_z)
{
#ifdef HAVE_Z
	uLongf n = compressBound(len);
	int rc;

	*z = malloc(n);
	rc = *z ? compress2(*z, &n, bytes, len, 5) : Z_MEM_ERROR;
	*n_z = n;
	if (rc == Z_OK)
		return 0;
	free(*z);
	*z = NULL;
	return -AUX_E_NOMEM;
#else
	*z = malloc(len + 1);
	*n_z = len;
	if (!*z)
		return -AUX_E_NOMEM;
	memcpy(*z, bytes, len);
	return 0;
#endif
}

static void put_packed(struct outbuf *out, const char *kind, const uint8_t *z,
		       size_t n)
{
#ifdef HAVE_Z
	put_block(out, kind, 1, z, n);
#else
	put_block(out, kind, 0, z, n);
#endif
}

int report_pack(struct outbuf *out, const char *kind, const void *bytes,
		size_t len)
{
	uint8_t *z;
	size_t n;
	int err = deflate_bytes(bytes, len, &z, &n);

	if (err)
		return err;
	put_packed(out, kind, z, n);
	free(z);
	return outbuf_failed(out) ? -AUX_E_NOMEM : 0;
}

/* Little endian; returns what follows. */
static uint8_t *put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		*p++ = (uint8_t)(v >> 8 * i);
	return p;
}

int report_add_columns(struct report_blocks *b, const char *kind, uint32_t n,
		       uint32_t more, struct column_bytes *columns,
		       unsigned n_columns)
{
	struct report_block block = { .kind = kind, .len = 16 };
	uint8_t *p;

	for (unsigned i = 0; i < n_columns; i++) {
		if (columns[i].failed)
			return -AUX_E_NOMEM;
		block.len += 4 + columns[i].n;
	}
	block.bytes = p = malloc(block.len);
	if (!p || array_append(&b->v, &b->n, &b->max, &block, sizeof(block))) {
		free(p);
		return -AUX_E_NOMEM;
	}
	p = put_u32(put_u32(put_u32(put_u32(p, n), n_columns), more), 0);
	for (unsigned i = 0; i < n_columns; i++) {
		p = put_u32(p, (uint32_t)columns[i].n);
		if (columns[i].n)
			memcpy(p, columns[i].p, columns[i].n);
		p += columns[i].n;
		columns[i].n = 0;
	}
	return 0;
}

/* What workers do. */
static enum work_state deflate_block(void *priv, struct work *w)
{
	struct report_block *b = (struct report_block *)w;

	(void)priv;
	if (deflate_bytes(b->bytes, b->len, &b->z, &b->n_z) == 0) {
		free(b->bytes);
		b->bytes = NULL;
	}
	return WORK_DONE;
}

static void free_block(struct report_block *b)
{
	free(b->bytes);
	free(b->z);
	b->bytes = b->z = NULL;
}

void report_blocks_fini(struct report_blocks *b)
{
	for (size_t i = 0; i < b->n; i++)
		free_block(&b->v[i]);
	free(b->v);
	*b = (struct report_blocks){ 0 };
}

/* In order; what no worker has deflated is deflated here. */
static int put_in_order(struct report_blocks *b, struct outbuf *out,
			struct workers *ws)
{
	int err = 0;

	for (size_t i = 0; i < b->n && !err; i++) {
		struct report_block *v = &b->v[i];

		if (ws) {
			workers_lock(ws);
			while (v->work.state != WORK_DONE)
				workers_wait(ws, &v->work);
			workers_remove(ws, &v->work);
			workers_unlock(ws);
		} else {
			deflate_block(NULL, &v->work);
		}
		if (v->z)
			put_packed(out, v->kind, v->z, v->n_z);
		err = v->z && !outbuf_failed(out) ? 0 : -AUX_E_NOMEM;
		free_block(v);
	}
	return err;
}

int report_put_blocks(struct report_blocks *b, struct outbuf *out,
		      unsigned n_threads)
{
	unsigned n = b->n < n_threads ? (unsigned)b->n : n_threads;
	struct workers *ws = NULL;
	int err;

	/* the caller's thread waits nearly all the time */
	if (n > 1 && workers_new(&ws, n, deflate_block, NULL) == 0) {
		workers_lock(ws);
		for (size_t i = 0; i < b->n; i++)
			workers_add(ws, &b->v[i].work);
		workers_unlock(ws);
	}
	err = put_in_order(b, out, ws);
	workers_free(ws);
	report_blocks_fini(b);
	return err;
}

/*
 * ---- writing ----
 *
 * The size of the file is kept by making the nodes last: they get what the rest
 * leaves.
 */

/* Nanoseconds are enough, unless calls are so short that one would hold many:
 * then ticks of 1/16 stay. Three instructions in a nanosecond are that. */
static unsigned shift_of(const struct report *r)
{
	const struct call_count *all = &r->tree.nodes[0].total;

	return r->timed && all->ns && all->insns / 3 > all->ns ? 0 : 4;
}

static uint64_t length(const struct outbuf *o)
{
	return (uint64_t)(o->p - o->buf);
}

/* Nodes, until they fit into room. Their packed size is known only afterwards,
 * so the next try is by the size of the last one. */
static int make_nodes(struct report_writer *w, uint64_t room)
{
	uint64_t n = room / 5, size;
	int err = 0;

	for (int turn = 0; turn < 6 && !err; turn++) {
		err = report_fit(w->r, n);
		if (!err)
			err = report_pack_nodes(w);
		w->places->p = w->places->buf;
		if (!err)
			err = report_put_sites(w);
		size = length(w->nodes) + length(w->places);
		if (err || size <= room)
			break;
		n = (uint64_t)((double)w->r->n_nodes * 0.95 * (double)room /
			       (double)size);
	}
	return err;
}

/* What the page takes without the recording. */
static uint64_t page_length(void)
{
	uint64_t n = EMBED_SIZE(page_html) + EMBED_SIZE(page_css);

	for (size_t i = 0; i < N_SCRIPTS; i++)
		n += (uint64_t)(scripts[i].end - scripts[i].text);
	return n;
}

/* As long as names and sums alone take more than what was asked for, nothing
 * helps: the page says so, and so does the verdict. */
static int check_size(struct report_writer *w)
{
	struct sink_report *to = w->r->env.report;
	uint64_t max = w->r->config.max_size, size;
	struct outbuf *head = outbuf_new(-1);

	if (!head)
		return -AUX_E_NOMEM;
	report_put_title(w, head);
	report_put_head(w, head);
	size = page_length() + length(head) + length(w->json) +
	       length(w->places) + length(w->tree) + length(w->nodes) +
	       length(w->code);
	outbuf_free(head);
	if (size <= max)
		return 0;
	w->over = size;
	snprintf(to->note, sizeof(to->note),
		 "warning: the page has %llu KB, more than the %llu KB of "
		 "--max-size: the page itself, names and sums need so much, "
		 "with calls merged as far as they can be",
		 (unsigned long long)(size + 1023) / 1024,
		 (unsigned long long)max / 1024);
	return 0;
}

static void put_memory(struct outbuf *out, const struct outbuf *from)
{
	outbuf_put(out, from->buf, (size_t)(from->p - from->buf));
}

static void put_scripts(struct outbuf *out)
{
	for (size_t i = 0; i < N_SCRIPTS; i++)
		outbuf_put(out, scripts[i].text,
			   (size_t)(scripts[i].end - scripts[i].text));
}

/* What belongs to a {{NAME}}; an unknown one is nothing. */
static void put_slot(struct report_writer *w, struct outbuf *out,
		     const char *name, size_t len)
{
	if (len == 5 && !memcmp(name, "TITLE", 5))
		report_put_title(w, out);
	else if (len == 4 && !memcmp(name, "HEAD", 4))
		report_put_head(w, out);
	else if (len == 3 && !memcmp(name, "CSS", 3))
		outbuf_put(out, page_css, EMBED_SIZE(page_css));
	else if (len == 2 && !memcmp(name, "JS", 2))
		put_scripts(out);
	else if (len == 4 && !memcmp(name, "DATA", 4)) {
		put_memory(out, w->json);
		put_memory(out, w->places);
		put_memory(out, w->tree);
		put_memory(out, w->nodes);
		put_memory(out, w->code);
	}
}

static void put_page(struct report_writer *w, struct outbuf *out)
{
	const char *p = page_html, *end = page_html_end, *open, *close;

	while ((open = memmem(p, (size_t)(end - p), "{{", 2))) {
		close = memmem(open, (size_t)(end - open), "}}", 2);
		if (!close)
			break;
		outbuf_put(out, p, (size_t)(open - p));
		put_slot(w, out, open + 2, (size_t)(close - open - 2));
		p = close + 2;
	}
	outbuf_put(out, p, (size_t)(end - p));
}

/* All blocks. json is made twice: once to know its size, then with the slow
 * calls' numbers. */
static int make(struct report_writer *w)
{
	uint64_t max = w->r->config.max_size, used;
	int err = report_pack_tree(w, w->tree);

	/* once to know its size, then with the slow calls' numbers */
	if (!err)
		err = report_put_json(w);
	if (!err)
		err = report_put_code(w);
	if (err)
		return err;
	used = page_length() + length(w->tree) + length(w->json) * 5 / 4 +
	       length(w->code);
	w->json->p = w->json->buf;
	err = make_nodes(w, max > used + max / 20 ? max - used - max / 20 :
						    max / 20);
	if (!err)
		err = report_put_json(w);
	return err;
}

static void free_writer(struct report_writer *w)
{
	outbuf_free(w->nodes);
	outbuf_free(w->tree);
	outbuf_free(w->json);
	outbuf_free(w->roots);
	outbuf_free(w->places);
	outbuf_free(w->code);
	report_sites_fini(&w->sites);
}

/* All times are known from here on. */
int report_write(struct report *r, struct aux_diag *diag)
{
	struct report_writer w = { .r = r };
	int err = 0;

	(void)diag;
	for (uint32_t i = 0; i < r->n_lanes && !err; i++)
		err = report_lane_settle(r, r->lanes[i]);
	if (r->first > r->last)
		r->first = r->last = 0;
	r->first -= r->first % REPORT_TICKS; /* whole nanoseconds */
	w.nodes = outbuf_new(-1);
	w.tree = outbuf_new(-1);
	w.json = outbuf_new(-1);
	w.roots = outbuf_new(-1);
	w.places = outbuf_new(-1);
	w.code = outbuf_new(-1);
	if (!err && (!w.nodes || !w.tree || !w.json || !w.roots || !w.places ||
		     !w.code))
		err = -AUX_E_NOMEM;
	if (!err)
		err = report_sites_init(&w.sites);
	if (!err) {
		w.shift = shift_of(r);
		err = make(&w);
	}
	if (!err && (w.nodes->error || w.tree->error || w.json->error ||
		     w.roots->error || w.places->error || w.code->error))
		err = -AUX_E_NOMEM;
	if (!err)
		err = check_size(&w);
	if (!err)
		put_page(&w, r->env.out);
	free_writer(&w);
	return err;
}
