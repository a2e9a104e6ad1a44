/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_report_write: the page, made of report.html with what belongs where it says
 * {{NAME}}. No part of the recording's text is in a script; blocks are base64.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/report/write.h"

/* Where calls are so short that a nanosecond would hold many, ticks stay. */
static unsigned shift_of(const struct report *r)
{
	const struct call_count *all = &r->tree.nodes[0].total;

	return r->timed && all->ns && all->insns / 3 > all->ns ? 0 : 4;
}

static uint64_t length(const struct outbuf *o)
{
	return (uint64_t)(o->p - o->buf);
}

/* Nodes, until they fit into what is left of the file's size. */
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

static uint64_t page_length(void)
{
	struct report_part part;
	uint64_t n = report_page_html().len + report_page_css().len;

	for (unsigned i = 0; (part = report_page_js(i)).text; i++)
		n += part.len;
	return n;
}

/* As long as names and sums alone take more than what was asked for, nothing helps:
 * told on the page, and to who asked. */
static int check_size(struct report_writer *w)
{
	struct sink_report *to = w->r->config.report;
	uint64_t max = w->r->config.max_size, size;
	struct outbuf *head = outbuf_new(-1);

	if (!head)
		return -AUX_E_NOMEM;
	report_put_title(w, head);
	report_put_head(w, head);
	size = page_length() + length(head) + length(w->json) +
	       length(w->places) + length(w->tree) + length(w->nodes);
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
	struct report_part part;

	for (unsigned i = 0; (part = report_page_js(i)).text; i++)
		outbuf_put(out, part.text, part.len);
}

static void put_slot(struct report_writer *w, struct outbuf *out,
		     const char *name, size_t len)
{
	struct report_part css = report_page_css();

	if (len == 5 && !memcmp(name, "TITLE", 5))
		report_put_title(w, out);
	else if (len == 4 && !memcmp(name, "HEAD", 4))
		report_put_head(w, out);
	else if (len == 3 && !memcmp(name, "CSS", 3))
		outbuf_put(out, css.text, css.len);
	else if (len == 2 && !memcmp(name, "JS", 2))
		put_scripts(out);
	else if (len == 4 && !memcmp(name, "DATA", 4)) {
		put_memory(out, w->json);
		put_memory(out, w->places);
		put_memory(out, w->tree);
		put_memory(out, w->nodes);
	}
}

static void put_page(struct report_writer *w, struct outbuf *out)
{
	struct report_part html = report_page_html();
	const char *p = html.text, *end = p + html.len, *open, *close;

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

static int make(struct report_writer *w)
{
	uint64_t max = w->r->config.max_size, used;
	int err = report_pack_tree(w, w->tree);

	/* once to know its size, then with the slow calls' numbers */
	if (!err)
		err = report_put_json(w);
	if (err)
		return err;
	used = page_length() + length(w->tree) + length(w->json) * 5 / 4;
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
	report_sites_fini(&w->sites);
}

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
	if (!err && (!w.nodes || !w.tree || !w.json || !w.roots || !w.places))
		err = -AUX_E_NOMEM;
	if (!err)
		err = report_sites_init(&w.sites);
	if (!err) {
		w.shift = shift_of(r);
		err = make(&w);
	}
	if (!err)
		err = check_size(&w);
	if (!err)
		put_page(&w, r->config.out);
	free_writer(&w);
	return err;
}
