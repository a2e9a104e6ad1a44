/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: functions as text, JSON and HTML.
 *
 * All three show the instructions in the order of their addresses. In text and
 * HTML each source line stands before the instructions that were made from it,
 * again whenever the instructions come back to it, and with its count the first
 * time. That count is gcov's (lines.c): how often the line was executed, which
 * is not the sum of its instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/embed.h"
#include "common/markup.h"
#include "common/outbuf.h"
#include "decode/coverage/annotate_impl.h"

EMBED(annotate_css, "decode/coverage/web/annotate.css");

/* ---- text ---- */

static void text_peers(const struct annotate_printer *p, const char *what,
		       const struct annotate_peers *peers)
{
	char name[ANNOTATE_MAX_TEXT];

	if (!peers->n)
		return;
	outbuf_printf(p->out, "# %s", what);
	for (size_t i = 0; i < peers->n && i < 8; i++) {
		annotate_peer_name(p, &peers->v[i], name, sizeof(name));
		outbuf_str(p->out, i ? ", " : " ");
		outbuf_clean(p->out, name);
		outbuf_printf(p->out, " %llu", (unsigned long long)peers->v[i].n);
	}
	if (peers->n > 8)
		outbuf_printf(p->out, ", %zu more", peers->n - 8);
	outbuf_str(p->out, "\n");
}

static void text_head(const struct annotate_printer *p, uint64_t total)
{
	const struct annotate_function *f = p->f;

	outbuf_str(p->out, "# ");
	outbuf_clean(p->out, annotate_shown_name(p, f->name));
	outbuf_str(p->out, " in ");
	outbuf_clean(p->out, f->dso ? f->dso : "?");
	outbuf_printf(p->out, ": entered %llu times, %llu instructions, "
		      "%.2f %% of all\n", (unsigned long long)f->entered,
		      (unsigned long long)f->n_insns,
		      annotate_percent(f->n_insns, total));
	if (p->cycles)
		outbuf_printf(p->out, "# %llu cycles, %.2f %% of all, IPC %.2f\n",
			      (unsigned long long)cover_whole_cycles(f->cycles),
			      annotate_percent(f->cycles, p->a->tally.cycles), annotate_ipc(f));
	text_peers(p, "called by", &f->callers);
	text_peers(p, "calls", &f->callees);
}

static void text_cycles(const struct annotate_printer *p, uint64_t cycles)
{
	if (p->cycles)
		outbuf_printf(p->out, "%*llu  ", p->width,
			      (unsigned long long)cover_whole_cycles(cycles));
}

/* Count, cycles, file:line, text. A count that was shown before is left out. */
static void text_line(struct annotate_printer *p, const struct source_line *at,
		      const char *inlined)
{
	const struct cover_line *l = annotate_line_of(p->f, at);
	size_t i = l ? (size_t)(l - p->f->lines.lines) : 0;
	char where[64], text[ANNOTATE_MAX_SOURCE];

	if (l && !p->lines[i].shown) {
		outbuf_printf(p->out, "%*llu  ", p->width, (unsigned long long)l->n);
		text_cycles(p, p->lines[i].cycles);
		p->lines[i].shown = true;
	} else {
		outbuf_printf(p->out, "%*s", (p->width + 2) * (p->cycles ? 2 : 1), "");
	}
	snprintf(where, sizeof(where), "%.40s:%u", annotate_base_of(at->file), at->line);
	outbuf_clean_printf(p->out, "%-18s", where);
	annotate_read_line(p, at, text, sizeof(text));
	if (*text) {
		outbuf_str(p->out, " ");
		outbuf_clean(p->out, text);
	}
	if (*inlined) {
		outbuf_str(p->out, "  # inlined: ");
		outbuf_clean(p->out, inlined);
	}
	outbuf_str(p->out, "\n");
}

static void text_insn(const struct annotate_printer *p, const struct annotate_view *v)
{
	char branch[3 * ANNOTATE_MAX_TEXT];

	outbuf_printf(p->out, "%*llu  ", p->width, (unsigned long long)v->in->n);
	text_cycles(p, v->in->cycles);
	outbuf_printf(p->out, "%18llx   ", (unsigned long long)v->ip);
	outbuf_clean(p->out, v->text);
	if (*v->target) {
		outbuf_str(p->out, " <");
		outbuf_clean(p->out, v->target);
		outbuf_str(p->out, ">");
	}
	annotate_describe_branch(p, v, branch, sizeof(branch));
	if (*branch) {
		outbuf_str(p->out, "  # ");
		outbuf_clean(p->out, branch);
	}
	outbuf_str(p->out, "\n");
}

static void text_titles(const struct annotate_printer *p, const char *rest)
{
	outbuf_printf(p->out, "#%*s  ", p->width - 1, "executed");
	if (p->cycles)
		outbuf_printf(p->out, "%*s  ", p->width, "cycles");
	outbuf_printf(p->out, "%s\n", rest);
}

static int text_code(struct annotate_printer *p)
{
	struct annotate_view v, before = { .ip = 0 };
	char inlined[3 * ANNOTATE_MAX_TEXT];
	int err = 0;

	text_titles(p, "address, or line   code");
	for (size_t i = 0; i < p->f->n && !err; i++) {
		err = annotate_look(p, &p->f->insns[i], &v);
		if (v.at.file && (!i || !annotate_same_place(&v, &before))) {
			annotate_inlined(p, &v, inlined, sizeof(inlined));
			text_line(p, &v.at, inlined);
		}
		text_insn(p, &v);
		free(v.branch.targets.v);
		v.branch.targets.v = NULL;
		before = v;
	}
	return err;
}

/* All lines of the function, in the order of the source. */
static void text_lines(struct annotate_printer *p)
{
	const struct cover_lines *l = &p->f->lines;

	text_titles(p, "line               text");
	for (size_t i = 0; i < l->n_lines; i++)
		text_line(p, &(struct source_line){
			.file = l->files[l->lines[i].file],
			.line = l->lines[i].line }, "");
}

static int text_function(struct annotate_printer *p, uint64_t total)
{
	text_head(p, total);
	if (!p->a->config.lines)
		return text_code(p);
	text_lines(p);
	return 0;
}

/* ---- JSON ---- */

static void json_number(struct outbuf *out, const char *key, uint64_t n)
{
	outbuf_printf(out, ",\"%s\":%llu", key, (unsigned long long)n);
}

static void json_text(struct outbuf *out, const char *key, const char *s)
{
	outbuf_printf(out, ",\"%s\":", key);
	if (s)
		outbuf_json(out, s);
	else
		outbuf_str(out, "null");
}

static void json_peers(const struct annotate_printer *p, const char *key,
		       const struct annotate_peers *peers)
{
	outbuf_printf(p->out, ",\"%s\":[", key);
	for (size_t i = 0; i < peers->n; i++) {
		const struct annotate_peer *peer = &peers->v[i];

		outbuf_printf(p->out, "%s{\"count\":%llu", i ? "," : "",
			      (unsigned long long)peer->n);
		json_text(p->out, "name", peer->name ?
			  annotate_shown_name(p, peer->name) : NULL);
		json_number(p->out, "address", peer->ip);
		outbuf_str(p->out, "}");
	}
	outbuf_str(p->out, "]");
}

static void json_insn(const struct annotate_printer *p, const struct annotate_view *v)
{
	const struct annotate_branch *b = &v->branch;
	struct outbuf *out = p->out;
	char inlined[3 * ANNOTATE_MAX_TEXT];

	outbuf_printf(out, "{\"address\":%llu", (unsigned long long)v->ip);
	json_number(out, "offset", v->in->off);
	json_number(out, "size", v->in->size);
	json_number(out, "executed", v->in->n);
	if (p->cycles)
		json_number(out, "cycles", cover_whole_cycles(v->in->cycles));
	if (p->a->disasm)
		json_text(out, "text", v->text);
	if (v->at.file) {
		json_text(out, "file", v->at.file);
		json_number(out, "line", v->at.line);
	}
	annotate_inlined(p, v, inlined, sizeof(inlined));
	if (*inlined)
		json_text(out, "inlined", inlined);
	if (*v->target)
		json_text(out, "target", v->target);
	if (b->taken + b->not_taken) {
		json_number(out, "taken", b->taken);
		json_number(out, "not_taken", b->not_taken);
	}
	if (b->targets.n)
		json_peers(p, "targets", &b->targets);
	outbuf_str(out, "}");
}

static void json_lines(const struct annotate_printer *p)
{
	const struct cover_lines *l = &p->f->lines;

	outbuf_str(p->out, ",\"lines\":[");
	for (size_t i = 0; i < l->n_lines; i++) {
		outbuf_printf(p->out, "%s{\"line\":%u", i ? "," : "",
			      l->lines[i].line);
		json_number(p->out, "executed", l->lines[i].n);
		if (p->cycles)
			json_number(p->out, "cycles",
				    cover_whole_cycles(p->lines[i].cycles));
		json_text(p->out, "file", l->files[l->lines[i].file]);
		outbuf_str(p->out, "}");
	}
	outbuf_str(p->out, "]");
}

static int json_function(struct annotate_printer *p)
{
	const struct annotate_function *f = p->f;
	struct outbuf *out = p->out;
	struct annotate_view v;
	int err = 0;

	outbuf_str(out, "{\"name\":");
	outbuf_json(out, annotate_shown_name(p, f->name));
	json_text(out, "linkage_name", f->name);
	json_text(out, "module", f->dso);
	json_number(out, "offset", f->off);
	json_number(out, "size", f->end - f->off);
	json_number(out, "entered", f->entered);
	json_number(out, "instructions", f->n_insns);
	if (p->cycles)
		json_number(out, "cycles", cover_whole_cycles(f->cycles));
	json_peers(p, "callers", &f->callers);
	json_peers(p, "callees", &f->callees);
	json_lines(p);
	outbuf_str(out, ",\"code\":[");
	for (size_t i = 0; i < f->n && !err && !p->a->config.lines; i++) {
		err = annotate_look(p, &f->insns[i], &v);
		outbuf_str(out, i ? ",\n" : "\n");
		json_insn(p, &v);
		free(v.branch.targets.v);
	}
	outbuf_str(out, "]}");
	return err;
}

/* ---- HTML ---- */

/* The class of a row: how much of the largest count it has, in ten steps. */
static unsigned heat(const struct annotate_printer *p, uint64_t n)
{
	return n ? 1 + (unsigned)(annotate_percent(n, p->max) * 8.99 / 100) : 0;
}

static void html_count(const struct annotate_printer *p, uint64_t n)
{
	outbuf_printf(p->out, "<td class=\"n h%u\">%llu</td>", heat(p, n),
		      (unsigned long long)n);
}

static void html_cycles(const struct annotate_printer *p, uint64_t cycles)
{
	if (p->cycles)
		outbuf_printf(p->out, "<td class=\"n\">%llu</td>",
			      (unsigned long long)cover_whole_cycles(cycles));
}

static void html_line(struct annotate_printer *p, const struct source_line *at,
		      const char *inlined)
{
	const struct cover_line *l = annotate_line_of(p->f, at);
	size_t i = l ? (size_t)(l - p->f->lines.lines) : 0;
	char text[ANNOTATE_MAX_SOURCE];

	outbuf_str(p->out, "<tr class=\"s\">");
	if (l && !p->lines[i].shown) {
		html_count(p, l->n);
		html_cycles(p, p->lines[i].cycles);
		p->lines[i].shown = true;
	} else {
		outbuf_str(p->out, "<td class=\"n\"></td>");
		outbuf_str(p->out, p->cycles ? "<td class=\"n\"></td>" : "");
	}
	outbuf_str(p->out, "<td class=\"a\" title=\"");
	outbuf_html(p->out, at->file);
	outbuf_str(p->out, "\">");
	outbuf_html(p->out, annotate_base_of(at->file));
	outbuf_printf(p->out, ":%u</td><td class=\"c\">", at->line);
	annotate_read_line(p, at, text, sizeof(text));
	outbuf_html(p->out, text);
	outbuf_str(p->out, "</td><td class=\"b\">");
	if (*inlined) {
		outbuf_str(p->out, "inlined: ");
		outbuf_html(p->out, inlined);
	}
	outbuf_str(p->out, "</td></tr>\n");
}

static void html_insn(const struct annotate_printer *p, const struct annotate_view *v)
{
	char branch[3 * ANNOTATE_MAX_TEXT];

	outbuf_printf(p->out, "<tr class=\"%c\">", v->in->n ? 'i' : 'z');
	html_count(p, v->in->n);
	html_cycles(p, v->in->cycles);
	outbuf_printf(p->out, "<td class=\"a\">%llx</td><td class=\"c\">",
		      (unsigned long long)v->ip);
	outbuf_html(p->out, v->text);
	if (*v->target) {
		outbuf_str(p->out, " &lt;");
		outbuf_html(p->out, v->target);
		outbuf_str(p->out, "&gt;");
	}
	annotate_describe_branch(p, v, branch, sizeof(branch));
	outbuf_str(p->out, "</td><td class=\"b\">");
	outbuf_html(p->out, branch);
	outbuf_str(p->out, "</td></tr>\n");
}

static void html_peers(const struct annotate_printer *p, const char *what,
		       const struct annotate_peers *peers)
{
	char name[ANNOTATE_MAX_TEXT];

	if (!peers->n)
		return;
	outbuf_printf(p->out, "<p><b>%s</b>", what);
	for (size_t i = 0; i < peers->n; i++) {
		annotate_peer_name(p, &peers->v[i], name, sizeof(name));
		outbuf_str(p->out, i ? ", " : " ");
		outbuf_html(p->out, name);
		outbuf_printf(p->out, "&nbsp;<i>%llu</i>",
			      (unsigned long long)peers->v[i].n);
	}
	outbuf_str(p->out, "</p>\n");
}

static void html_head(const struct annotate_printer *p, uint64_t total)
{
	const struct annotate_function *f = p->f;

	outbuf_str(p->out, "<section><h2>");
	outbuf_html(p->out, annotate_shown_name(p, f->name));
	outbuf_str(p->out, "</h2><p>in ");
	outbuf_html(p->out, f->dso ? f->dso : "?");
	outbuf_printf(p->out, ": entered <i>%llu</i> times, <i>%llu</i> "
		      "instructions, %.2f %% of all",
		      (unsigned long long)f->entered,
		      (unsigned long long)f->n_insns,
		      annotate_percent(f->n_insns, total));
	if (p->cycles)
		outbuf_printf(p->out, "; <i>%llu</i> cycles, %.2f %% of all, "
			      "IPC %.2f",
			      (unsigned long long)cover_whole_cycles(f->cycles),
			      annotate_percent(f->cycles, p->a->tally.cycles), annotate_ipc(f));
	outbuf_str(p->out, "</p>\n");
	html_peers(p, "Called by", &f->callers);
	html_peers(p, "Calls", &f->callees);
	outbuf_printf(p->out, "<table><thead><tr><th>executed</th>%s<th>place</th>"
		      "<th>code</th><th>branches</th></tr></thead><tbody>\n",
		      p->cycles ? "<th>cycles</th>" : "");
}

static int html_function(struct annotate_printer *p, uint64_t total)
{
	struct annotate_view v, before = { .ip = 0 };
	char inlined[3 * ANNOTATE_MAX_TEXT];
	int err = 0;

	html_head(p, total);
	for (size_t i = 0; i < p->f->n && !err && !p->a->config.lines; i++) {
		err = annotate_look(p, &p->f->insns[i], &v);
		if (v.at.file && (!i || !annotate_same_place(&v, &before))) {
			annotate_inlined(p, &v, inlined, sizeof(inlined));
			html_line(p, &v.at, inlined);
		}
		html_insn(p, &v);
		free(v.branch.targets.v);
		v.branch.targets.v = NULL;
		before = v;
	}
	for (size_t i = 0; i < p->f->lines.n_lines && p->a->config.lines; i++) {
		const struct cover_line *l = &p->f->lines.lines[i];

		html_line(p, &(struct source_line){
			.file = p->f->lines.files[l->file],
			.line = l->line }, "");
	}
	outbuf_str(p->out, "</tbody></table></section>\n");
	return err;
}

/* ---- all functions ---- */

static void put_start(const struct annotate_printer *p)
{
	const struct sink_env *env = &p->a->coverage.env;

	if (p->a->config.format == ANNOTATE_JSON) {
		outbuf_printf(p->out, "{\"schema\":\"auxkit-annotate-1\","
			      "\"instructions\":%llu",
			      (unsigned long long)p->a->tally.n_insns);
		if (p->cycles)
			json_number(p->out, "cycles",
				    cover_whole_cycles(p->a->tally.cycles));
		outbuf_str(p->out, ",\"file\":");
		outbuf_json(p->out, env->path);
		outbuf_str(p->out, ",\"functions\":[\n");
	} else if (p->a->config.format == ANNOTATE_HTML) {
		outbuf_str(p->out, "<!DOCTYPE html>\n<html lang=\"en\"><head>"
			   "<meta charset=\"utf-8\"><meta name=\"viewport\" "
			   "content=\"width=device-width\"><title>");
		outbuf_html(p->out, env->path);
		outbuf_str(p->out, ": annotate</title><style>\n");
		outbuf_put(p->out, annotate_css, EMBED_SIZE(annotate_css));
		outbuf_str(p->out, "</style></head><body><h1>");
		outbuf_html(p->out, env->path);
		outbuf_str(p->out, "</h1>\n");
	}
}

static void put_end(const struct annotate_printer *p, size_t n, size_t n_all)
{
	if (p->a->config.format == ANNOTATE_JSON)
		outbuf_printf(p->out, "],\"fitting\":%zu}\n", n_all);
	else if (p->a->config.format == ANNOTATE_HTML)
		outbuf_printf(p->out, "<p>%zu of %zu functions</p></body>"
			      "</html>\n", n, n_all);
	else if (n < n_all)
		outbuf_printf(p->out, "# %zu of %zu functions; -n shows more\n",
			      n, n_all);
}

static int put_function(struct annotate_printer *p, size_t i)
{
	uint64_t total = p->a->tally.n_insns;

	switch (p->a->config.format) {
	case ANNOTATE_JSON:
		outbuf_str(p->out, i ? ",\n" : "");
		return json_function(p);
	case ANNOTATE_HTML:
		return html_function(p, total);
	default:
		outbuf_str(p->out, i ? "\n" : "");
		return text_function(p, total);
	}
}

#define MIN_WIDTH 10	/* of the titles */

/* The largest count of an instruction, and the columns that all numbers need: no more,
 * for the code is to be seen beside them on a terminal of 80. */
static void find_max(struct annotate_printer *p)
{
	const struct annotate_function *f = p->f;
	uint64_t max = cover_whole_cycles(f->cycles);

	p->max = 0;
	for (size_t i = 0; i < f->n; i++)
		if (f->insns[i].n > p->max)
			p->max = f->insns[i].n;
	max = p->max > max ? p->max : max;
	for (size_t i = 0; i < f->lines.n_lines; i++)
		if (f->lines.lines[i].n > max)
			max = f->lines.lines[i].n;
	p->width = snprintf(NULL, 0, "%llu", (unsigned long long)max);
	p->width = p->width > MIN_WIDTH ? p->width : MIN_WIDTH;
}

#define NAME_COLUMNS 40	/* where names are short: there are others in the line */

int annotate_print(const struct annotate *a, const struct annotate_function *v,
		   size_t n, size_t n_all)
{
	struct annotate_printer p = { .a = a, .out = a->coverage.env.out,
			     .cycles = cover_whole_cycles(a->tally.cycles) };
	int err = 0;

	if (a->config.format != ANNOTATE_JSON && a->config.format != ANNOTATE_HTML &&
	    a->coverage.env.width)
		p.columns = a->coverage.env.width / 2 > NAME_COLUMNS ? NAME_COLUMNS :
			    a->coverage.env.width / 2;
	put_start(&p);
	for (size_t i = 0; i < n && !err; i++) {
		p.f = &v[i];
		find_max(&p);
		err = annotate_line_cycles(&p);
		if (!err)
			err = put_function(&p, i);
		free(p.lines);
	}
	put_end(&p, n, n_all);
	annotate_printer_fini(&p);
	return err;
}
