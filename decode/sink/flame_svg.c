/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flame graph as an SVG file that needs nothing else. The frames are drawn
 * here, for a width of 1200; the script (web/flame.js) moves them when one is
 * made the whole width, or the window is another. Without script it is a still
 * picture. Whatever a name holds, the file is well-formed XML in UTF-8.
 *
 * A node is drawn as wide as what it took with all below; children lie side by
 * side from where their parent begins, sorted by the call tree. With --symbol
 * only what is below that function, and what leads there, has a width.
 */
#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/embed.h"
#include "decode/callstack/names.h"
#include "decode/sink/impl.h"

EMBED(flame_css, "decode/sink/web/flame.css");
EMBED(flame_js, "decode/sink/web/flame.js");

#define WIDTH	  1200
#define MARGIN	  10
#define ROW	  17
#define TOP	  64	/* heading */
#define BOTTOM	  30
#define CHAR	  7.25	/* width of one, of 12 px */
#define MIN_WIDTH 0.25	/* pixels; what is smaller is not drawn */

struct svg {
	struct outbuf *out;
	const struct calltree *tree;
	const struct calls *calls;
	struct flamesvg_config config;
	uint64_t *sum;		/* of each node: what is drawn of it */
	uint64_t *at;		/* where it begins */
	uint64_t total;
	uint32_t depth;
	uint64_t n_drawn, n_small, small;
};

/* ---- text as XML ---- */

/* At most max characters, escaped. Returns whether there were more. */
static bool put_xml(struct outbuf *out, const char *text, size_t max)
{
	for (; *text && max; max--) {
		size_t size, n = clean_char(text, strnlen(text, 4), &size);

		if (!n)
			outbuf_str(out, "?");
		else if (*text == '<')
			outbuf_str(out, "&lt;");
		else if (*text == '>')
			outbuf_str(out, "&gt;");
		else if (*text == '&')
			outbuf_str(out, "&amp;");
		else if (*text == '"')
			outbuf_str(out, "&quot;");
		else
			outbuf_put(out, text, n);
		text += size;
	}
	return *text != 0;
}

/* 1234567 as 1,234,567. */
static void put_count(struct outbuf *out, uint64_t v)
{
	char buf[24], *end = fmt_dec(buf, v);

	for (char *p = buf; p < end; p++) {
		outbuf_put(out, p, 1);
		if ((end - p) % 3 == 1 && p + 1 < end)
			outbuf_put(out, ",", 1);
	}
}

/* ---- frames ---- */

static double percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

/* The colour: what kind of code, and a hash of the name, so that a function has
 * the same colour everywhere. */
static const char *class_of(const struct calltree_node *n, const char *name,
			    char buf[8])
{
	uint32_t h = 2166136261u;

	switch (n->func) {
	case CALLTREE_GAP:
		return "g";
	case CALLTREE_OFF:
	case CALLTREE_OFF_CPU:
	case CALLTREE_IN_KERNEL:
	case CALLTREE_FILTERED:
	case CALLTREE_FOLDED:
		return "o";
	case CALLTREE_ROOT:
		return "r";
	}
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	snprintf(buf, 8, "%c%u", n->is_kernel ? 'k' : 'u', (h >> 8) % 6);
	return buf;
}

/* Pixels. */
static double x_of(const struct svg *s, uint64_t at)
{
	return MARGIN + (WIDTH - 2 * MARGIN) * (double)at / (double)s->total;
}

/* What a pointer that rests on it shows. */
static void put_title(struct svg *s, uint32_t node, const char *name)
{
	const struct calltree_node *n = &s->tree->nodes[node];
	uint64_t own = calltree_get(&n->own, s->config.by);
	const struct call_func *f;
	struct outbuf *out = s->out;

	outbuf_str(out, "<title>");
	put_xml(out, name, SIZE_MAX);
	outbuf_str(out, "\n");
	put_count(out, s->sum[node]);
	outbuf_printf(out, " %s (%.2f %%), own ", s->config.unit,
		      percent(s->sum[node], s->total));
	put_count(out, own);
	if (n->calls && n->func < CALLTREE_FOLDED) {
		outbuf_str(out, "\ncalls: ");
		put_count(out, n->calls);
		f = calls_func(s->calls, n->func);
		if (f->dso) {
			outbuf_str(out, "\n");
			put_xml(out, f->dso, SIZE_MAX);
		}
	}
	outbuf_str(out, "</title>");
}

/* The short form of a name that is a longer one; NULL: there is none. To be freed. */
static char *short_of(const struct svg *s, uint32_t node, const char *name)
{
	uint32_t id = s->tree->nodes[node].func;
	const struct call_func *f = id < CALLTREE_FOLDED ? calls_func(s->calls, id) :
							   NULL;
	char *text;

	if (!f || !f->raw || s->config.full_names ||
	    !strcmp(f->name, f->raw))
		return NULL;
	text = names_short(f->raw, NAMES_SHORT, 0);
	if (text && strcmp(text, name) != 0)
		return text;
	free(text);
	return NULL;
}

/* What fits: the name, or its short form, or that without its middle. */
static void put_label(struct outbuf *out, const char *name, const char *short_name,
		      size_t fits)
{
	char *cut;

	if (strlen(name) <= fits) {
		put_xml(out, name, SIZE_MAX);
		return;
	}
	cut = strdup(short_name ? short_name : name);
	if (!cut) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	names_cut_middle(cut, (unsigned)fits);
	put_xml(out, cut, strlen(cut) > fits ? fits : SIZE_MAX);
	free(cut);
}

/* data-x and data-w are what the script zooms by, data-s the short name. */
static void put_frame(struct svg *s, uint32_t node)
{
	const struct calltree_node *n = &s->tree->nodes[node];
	double x = x_of(s, s->at[node]);
	double w = x_of(s, s->at[node] + s->sum[node]) - x;
	double y = TOP + (double)(s->depth - n->depth) * ROW;
	char buf[CALLTREE_NAME], class[8];
	const char *name = calltree_name(s->tree, s->calls, node, buf);
	char *short_name;
	struct outbuf *out = s->out;
	size_t fits = w > 3 * CHAR ? (size_t)((w - 6) / CHAR) : 0;

	outbuf_printf(out, "<g class=\"f %s\" data-x=\"%llu\" data-w=\"%llu\"",
		      class_of(n, name, class),
		      (unsigned long long)s->at[node],
		      (unsigned long long)s->sum[node]);
	short_name = short_of(s, node, name);
	if (short_name) {
		outbuf_str(out, " data-s=\"");
		put_xml(out, short_name, SIZE_MAX);
		outbuf_str(out, "\"");
	}
	outbuf_str(out, ">");
	put_title(s, node, name);
	outbuf_printf(out,
		      "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>"
		      "<text x=\"%.2f\" y=\"%.0f\">",
		      x, y, w, ROW - 1, x + 3, y + 12);
	if (fits)
		put_label(out, name, short_name, fits);
	outbuf_str(out, "</text></g>\n");
	free(short_name);
	s->n_drawn++;
}

/* ---- what is drawn, and where ---- */

static bool is_symbol(const struct svg *s, uint32_t node)
{
	uint32_t func = s->tree->nodes[node].func;

	return func < CALLTREE_FOLDED && calls_func(s->calls, func)->wanted;
}

/*
 * Sums of what is below the symbol, and of what leads there; of all without
 * one. Parents have smaller numbers than their children, so one pass down and
 * one up will do.
 */
static void sum_up(struct svg *s)
{
	const struct calltree_node *nodes = s->tree->nodes;

	for (uint32_t i = 0; i < s->tree->n; i++) {
		bool in = !s->config.symbol || is_symbol(s, i) ||
			  (i && s->at[nodes[i].parent]);

		s->at[i] = in; /* a mark, for now */
		s->sum[i] = in ? calltree_get(&nodes[i].own, s->config.by) : 0;
	}
	for (uint32_t i = s->tree->n - 1; i; i--)
		s->sum[nodes[i].parent] += s->sum[i];
	s->total = s->sum[0];
}

/* Too narrow to be seen, or less than --min. */
static bool is_small(struct svg *s, uint32_t node)
{
	double min = s->config.min_percent;

	if (!min)
		min = 100 * MIN_WIDTH / (WIDTH - 2 * MARGIN);
	return percent(s->sum[node], s->total) < min;
}

/* Children are side by side from where their parent begins, in their order.
 * Those of what is not drawn are not looked at. */
static void place_children(struct svg *s, uint32_t node)
{
	const struct calltree_node *nodes = s->tree->nodes;
	uint64_t at = s->at[node];

	for (uint32_t i = nodes[node].child; i; i = nodes[i].next) {
		s->at[i] = at;
		at += s->sum[i];
		if (!s->sum[i])
			continue;
		if (is_small(s, i)) {
			s->n_small++;
			s->small += s->sum[i];
			s->sum[i] = 0;
		} else if (nodes[i].depth > s->depth) {
			s->depth = nodes[i].depth;
		}
	}
}

/* Parents come before their children. What is not drawn takes those below it
 * with it. */
static void place_all(struct svg *s)
{
	s->at[0] = 0;
	for (uint32_t i = 0; i < s->tree->n; i++) {
		if (s->sum[i])
			place_children(s, i);
		else	/* so that nothing below it is drawn */
			for (uint32_t k = s->tree->nodes[i].child; k;
			     k = s->tree->nodes[k].next)
				s->sum[k] = 0;
	}
}

static void put_head(struct svg *s)
{
	struct outbuf *out = s->out;
	unsigned height = TOP + (s->depth + 1) * ROW + BOTTOM;

	outbuf_printf(out,
		      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" "
		      "width=\"%d\" height=\"%u\" viewBox=\"0 0 %d %u\">\n",
		      WIDTH, height, WIDTH, height);
	outbuf_str(out, "<style>\n");
	outbuf_put(out, flame_css, EMBED_SIZE(flame_css));
	outbuf_str(out, "</style>\n");
	outbuf_str(out, "<text class=\"h\" x=\"10\" y=\"24\">Flame graph");
	if (s->config.file) {
		outbuf_str(out, ": ");
		put_xml(out, s->config.file, 80);
	}
	outbuf_str(out, "</text>\n<text class=\"s\" x=\"10\" y=\"44\">");
	put_count(out, s->total);
	outbuf_printf(out, " %s", s->config.unit);
	if (s->config.symbol) {
		outbuf_str(out, " in ");
		put_xml(out, s->config.symbol, 60);
	}
	if (s->n_small)
		outbuf_printf(out, "; %llu frames too narrow to be seen are "
				   "left out (%.2f %%, their callers show it)",
			      (unsigned long long)s->n_small,
			      percent(s->small, s->total));
	if (s->tree->n_folded_calls)
		outbuf_printf(out, "; %llu calls are folded",
			      (unsigned long long)s->tree->n_folded_calls);
	outbuf_str(out, "</text>\n<g id=\"frames\">\n");
}

static void put_tail(struct svg *s)
{
	struct outbuf *out = s->out;

	outbuf_printf(out,
		      "</g>\n<text class=\"s\" id=\"info\" x=\"10\" y=\"%u\"> "
		      "</text>\n<script><![CDATA[\nvar total=%llu,unit=\"%s\";\n",
		      TOP + (s->depth + 1) * ROW + 18,
		      (unsigned long long)s->total, s->config.unit);
	outbuf_put(out, flame_js, EMBED_SIZE(flame_js));
	outbuf_str(out, "]]></script>\n</svg>\n");
}

static void draw(struct svg *s)
{
	place_all(s);
	put_head(s);
	for (uint32_t i = 0; i < s->tree->n; i++)
		if (s->sum[i])
			put_frame(s, i);
	put_tail(s);
}

int flamesvg_write(struct outbuf *out, const struct calltree *t,
		   const struct calls *c, const struct flamesvg_config *config)
{
	struct svg s = { .out = out, .tree = t, .calls = c, .config = *config };

	s.sum = calloc(t->n, sizeof(*s.sum));
	s.at = calloc(t->n, sizeof(*s.at));
	if (!s.sum || !s.at) {
		free(s.sum);
		free(s.at);
		return -AUX_E_NOMEM;
	}
	sum_up(&s);
	if (s.total)
		draw(&s);
	free(s.sum);
	free(s.at);
	return s.total != 0;
}
