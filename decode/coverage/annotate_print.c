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
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clean.h"
#include "common/embed.h"
#include "common/markup.h"
#include "common/outbuf.h"
#include "common/regular.h"
#include "decode/callstack/names.h"
#include "decode/coverage/impl.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/insn.h"

#define MAX_INSN 15
#define MAX_TEXT 192
#define MAX_FRAMES 16
#define MAX_SOURCE (32 << 20)
#define MAX_SHOWN 200	/* characters of a source line */
#define TAB 8
#define N_TARGETS 3

EMBED(annotate_css, "decode/coverage/web/annotate.css");

struct source {
	const char *file;
	char *text;		/* NULL: it cannot be read */
	size_t len;
	uint32_t line;		/* the one that at is the start of */
	size_t at;
};

struct line_state {
	uint64_t cycles;	/* of its instructions */
	bool shown;		/* its count was */
};

struct printer {
	const struct annotate *a;
	const struct annotate_function *f;
	struct outbuf *out;
	struct source *sources;
	size_t n_sources, cap_sources;
	uint64_t max;		/* the largest count of f */
	bool cycles;		/* some are known */
	struct line_state *lines;	/* by line of f */
};

/* An instruction with all that is said of it. */
struct view {
	const struct annotate_insn *in;
	const struct space *space;
	uint64_t ip;
	char text[MAX_TEXT];
	char target[MAX_TEXT];	/* the function that a direct branch leads to;
				 * "": none, or the same function */
	struct source_line at;	/* file NULL: not known */
	struct inline_frame frames[MAX_FRAMES];
	int n_frames;
	struct annotate_branch branch;
};

/* ---- what is shown ---- */

static const char *shown_name(const struct printer *p, const char *raw)
{
	return names_shown(p->a->coverage.env.host->names, raw);
}

static void put_peer_name(const struct printer *p,
			  const struct annotate_peer *peer, char *buf,
			  size_t len)
{
	if (peer->name)
		snprintf(buf, len, "%s", shown_name(p, peer->name));
	else
		snprintf(buf, len, "0x%llx", (unsigned long long)peer->ip);
}

static void find_target(const struct printer *p, struct view *v,
			const uint8_t *code, size_t len)
{
	const struct annotate_function *f = p->f;
	struct symbol sym;
	uint64_t to;

	if (!insn_target(code, len, v->ip, f->mode, &to))
		return;
	to = v->in->off + (to - v->ip);
	if (to >= f->off && to < f->end)
		return;
	annotate_symbol(p->a, f->module, to, &sym);
	if (sym.name)
		snprintf(v->target, sizeof(v->target), "%s",
			 shown_name(p, sym.name));
}

/* v->branch.targets.v is to be freed. 0 or -AUX_E_NOMEM. */
static int look_at(const struct printer *p, const struct annotate_insn *in,
		   struct view *v)
{
	const struct sink_host *host = p->a->coverage.env.host;
	uint8_t code[MAX_INSN];
	size_t len;

	memset(v, 0, sizeof(*v));
	v->in = in;
	if (!cover_address(p->f->module, in->off, &v->space, &v->ip))
		return 0;
	len = annotate_code(p->a, p->f->module, in->off, code, in->size);
	if (in->is_data)
		snprintf(v->text, sizeof(v->text), "(%u bytes, no code)",
			 in->size);
	else if (p->a->disasm && !disasm_text(p->a->disasm, code, len, v->ip,
					      p->f->mode, v->text,
					      sizeof(v->text)))
		snprintf(v->text, sizeof(v->text), "(bad)");
	if (!in->is_data)
		find_target(p, v, code, len);
	if (!host->line || host->line(host->priv, v->space, v->ip, &v->at))
		v->at.file = NULL;
	if (host->inlines)
		v->n_frames = host->inlines(host->priv, v->space, v->ip,
					    v->frames, MAX_FRAMES);
	if (v->n_frames > MAX_FRAMES)
		v->n_frames = MAX_FRAMES;
	return annotate_branch(p->a, p->f, in, &v->branch);
}

/* The functions inlined at an instruction: "min in clamp"; "": none. */
static void name_inlined(const struct printer *p, const struct view *v,
			 char *buf, size_t len)
{
	size_t n = 0;

	*buf = '\0';
	for (int i = 0; i + 1 < v->n_frames && n < len; i++) {
		const char *name = v->frames[i].name;

		if (!name && v->frames[i].linkage)
			name = shown_name(p, v->frames[i].linkage);
		n += (size_t)snprintf(buf + n, len - n, "%s%s",
				      i ? " in " : "", name ? name : "?");
	}
}

static bool same_place(const struct view *a, const struct view *b)
{
	return a->at.line == b->at.line && a->n_frames == b->n_frames &&
	       !a->at.file == !b->at.file &&
	       (!a->at.file || !strcmp(a->at.file, b->at.file)) &&
	       (a->n_frames <= 1 || a->frames[0].id == b->frames[0].id);
}

/* The line of f with a count; NULL: it has none. */
static const struct cover_line *line_of(const struct annotate_function *f,
					const struct source_line *at)
{
	const struct cover_lines *l = &f->lines;

	for (size_t i = 0; at->file && i < l->n_lines; i++)
		if (l->lines[i].line == at->line &&
		    !strcmp(l->files[l->lines[i].file], at->file))
			return &l->lines[i];
	return NULL;
}

/* The cycles of the function's lines. 0 or -AUX_E_NOMEM. */
static int find_line_cycles(struct printer *p)
{
	const struct annotate_function *f = p->f;
	const struct sink_host *host = p->a->coverage.env.host;
	const struct cover_line *l = NULL;
	const struct space *space;
	struct source_line at, last = { 0 };
	uint64_t ip;

	p->lines = calloc(f->lines.n_lines + 1, sizeof(*p->lines));
	if (!p->lines)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < f->n && p->cycles && host->line; i++) {
		if (!f->insns[i].cycles ||
		    !cover_address(f->module, f->insns[i].off, &space, &ip) ||
		    host->line(host->priv, space, ip, &at))
			continue;
		if (at.line != last.line || at.file != last.file)
			l = line_of(f, &at);
		last = at;
		if (l)
			p->lines[l - f->lines.lines].cycles += f->insns[i].cycles;
	}
	return 0;
}

static double percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

/* Instructions of a function for each cycle in which it ran. */
static double ipc_of(const struct annotate_function *f)
{
	return f->cycles ? (double)f->n_insns /
			   ((double)f->cycles / (1 << COVER_CYCLE_BITS)) : 0;
}

/* "taken 5 of 8 (62.50 %)", "to f 5, g 3"; "": it is no branch of such kinds. */
static void describe_branch(const struct printer *p, const struct view *v,
			    char *buf, size_t len)
{
	const struct annotate_branch *b = &v->branch;
	uint64_t n = b->taken + b->not_taken;
	char name[MAX_TEXT];
	size_t at = 0;

	*buf = '\0';
	if (n)
		snprintf(buf, len, "taken %llu of %llu (%.2f %%)",
			 (unsigned long long)b->taken, (unsigned long long)n,
			 percent(b->taken, n));
	for (size_t i = 0; i < b->targets.n && i < N_TARGETS && at < len; i++) {
		put_peer_name(p, &b->targets.v[i], name, sizeof(name));
		at += (size_t)snprintf(buf + at, len - at, "%s%s %llu",
				       i ? ", " : "to ", name,
				       (unsigned long long)b->targets.v[i].n);
	}
	if (b->targets.n > N_TARGETS && at < len)
		snprintf(buf + at, len - at, ", %zu more",
			 b->targets.n - N_TARGETS);
}

/* ---- source text ---- */

static char *read_source(const struct printer *p, const char *file, size_t *len)
{
	const char *root = p->a->coverage.env.symfs;
	char path[4096];
	struct stat st;
	char *text = NULL;
	int fd = -1;
	ssize_t n;

	if (root && snprintf(path, sizeof(path), "%s/%s", root, file) <
			    (int)sizeof(path))
		fd = regular_open(path, &st);
	if (fd < 0)
		fd = regular_open(file, &st);
	if (fd < 0)
		return NULL;
	*len = 0;
	if (st.st_size >= 0 && st.st_size <= MAX_SOURCE) {
		text = malloc((size_t)st.st_size + 1);
		if (!text)
			outbuf_fail(p->out, ENOMEM);
	}
	while (text && *len < (size_t)st.st_size &&
	       (n = read(fd, text + *len, (size_t)st.st_size - *len)) > 0)
		*len += (size_t)n;
	close(fd);
	return text;
}

static struct source *source_of(struct printer *p, const char *file)
{
	struct source s = { .file = file, .line = 1 };

	for (size_t i = 0; i < p->n_sources; i++)
		if (!strcmp(p->sources[i].file, file))
			return &p->sources[i];
	s.text = read_source(p, file, &s.len);
	if (array_append(&p->sources, &p->n_sources, &p->cap_sources, &s,
			 sizeof(s))) {
		free(s.text);
		outbuf_fail(p->out, ENOMEM);
		return NULL;
	}
	return &p->sources[p->n_sources - 1];
}

/* Goes to the start of a line; false: the file has fewer. */
static bool seek_line(struct source *s, uint32_t line)
{
	if (line < s->line) {
		s->line = 1;
		s->at = 0;
	}
	while (s->line < line) {
		const char *end = memchr(s->text + s->at, '\n', s->len - s->at);

		if (!end)
			return false;
		s->at = (size_t)(end + 1 - s->text);
		s->line++;
	}
	return s->at < s->len;
}

/* The text of a line, tabs expanded; "": it is not at hand. */
static void read_line(struct printer *p, const struct source_line *at,
		      char *buf, size_t len)
{
	struct source *s = source_of(p, at->file);
	size_t n = 0;

	*buf = '\0';
	if (!s || !s->text || !at->line || !seek_line(s, at->line))
		return;
	for (size_t i = s->at; i < s->len && s->text[i] != '\n'; i++) {
		unsigned blanks = s->text[i] == '\t' ? TAB - n % TAB : 1;

		if (n + blanks + 1 >= len)
			break;
		if (s->text[i] == '\t')
			memset(buf + n, ' ', blanks);
		else
			buf[n] = s->text[i];
		if (s->text[i] != '\r')
			n += blanks;
	}
	while (n && buf[n - 1] == ' ')
		n--;
	buf[n] = '\0';
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- text ---- */

static void text_peers(const struct printer *p, const char *what,
		       const struct annotate_peers *peers)
{
	char name[MAX_TEXT];

	if (!peers->n)
		return;
	outbuf_printf(p->out, "# %s", what);
	for (size_t i = 0; i < peers->n && i < 8; i++) {
		put_peer_name(p, &peers->v[i], name, sizeof(name));
		outbuf_str(p->out, i ? ", " : " ");
		outbuf_clean(p->out, name);
		outbuf_printf(p->out, " %llu", (unsigned long long)peers->v[i].n);
	}
	if (peers->n > 8)
		outbuf_printf(p->out, ", %zu more", peers->n - 8);
	outbuf_str(p->out, "\n");
}

static void text_head(const struct printer *p, uint64_t total)
{
	const struct annotate_function *f = p->f;

	outbuf_str(p->out, "# ");
	outbuf_clean(p->out, shown_name(p, f->name));
	outbuf_str(p->out, " in ");
	outbuf_clean(p->out, f->dso ? f->dso : "?");
	outbuf_printf(p->out, ": entered %llu times, %llu instructions, "
		      "%.2f %% of all\n", (unsigned long long)f->entered,
		      (unsigned long long)f->n_insns,
		      percent(f->n_insns, total));
	if (p->cycles)
		outbuf_printf(p->out, "# %llu cycles, %.2f %% of all, IPC %.2f\n",
			      (unsigned long long)cover_whole_cycles(f->cycles),
			      percent(f->cycles, p->a->tally.cycles), ipc_of(f));
	text_peers(p, "called by", &f->callers);
	text_peers(p, "calls", &f->callees);
}

static void text_cycles(const struct printer *p, uint64_t cycles)
{
	if (p->cycles)
		outbuf_printf(p->out, "%14llu  ",
			      (unsigned long long)cover_whole_cycles(cycles));
}

/* Count, cycles, file:line, text. A count that was shown before is left out. */
static void text_line(struct printer *p, const struct source_line *at,
		      const char *inlined)
{
	const struct cover_line *l = line_of(p->f, at);
	size_t i = l ? (size_t)(l - p->f->lines.lines) : 0;
	char where[64], text[MAX_SHOWN];

	if (l && !p->lines[i].shown) {
		outbuf_printf(p->out, "%14llu  ", (unsigned long long)l->n);
		text_cycles(p, p->lines[i].cycles);
		p->lines[i].shown = true;
	} else {
		outbuf_printf(p->out, "%14s  %*s", "", p->cycles ? 16 : 0, "");
	}
	snprintf(where, sizeof(where), "%.40s:%u", base_of(at->file), at->line);
	outbuf_clean_printf(p->out, "%-18s", where);
	read_line(p, at, text, sizeof(text));
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

static void text_insn(const struct printer *p, const struct view *v)
{
	char branch[3 * MAX_TEXT];

	outbuf_printf(p->out, "%14llu  ", (unsigned long long)v->in->n);
	text_cycles(p, v->in->cycles);
	outbuf_printf(p->out, "%18llx   ", (unsigned long long)v->ip);
	outbuf_clean(p->out, v->text);
	if (*v->target) {
		outbuf_str(p->out, " <");
		outbuf_clean(p->out, v->target);
		outbuf_str(p->out, ">");
	}
	describe_branch(p, v, branch, sizeof(branch));
	if (*branch) {
		outbuf_str(p->out, "  # ");
		outbuf_clean(p->out, branch);
	}
	outbuf_str(p->out, "\n");
}

static int text_code(struct printer *p)
{
	struct view v, before = { .ip = 0 };
	char inlined[3 * MAX_TEXT];
	int err = 0;

	outbuf_printf(p->out, "#     executed  %saddress, or line   code\n",
		      p->cycles ? "        cycles  " : "");
	for (size_t i = 0; i < p->f->n && !err; i++) {
		err = look_at(p, &p->f->insns[i], &v);
		if (v.at.file && (!i || !same_place(&v, &before))) {
			name_inlined(p, &v, inlined, sizeof(inlined));
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
static void text_lines(struct printer *p)
{
	const struct cover_lines *l = &p->f->lines;

	outbuf_printf(p->out, "#     executed  %sline               text\n",
		      p->cycles ? "        cycles  " : "");
	for (size_t i = 0; i < l->n_lines; i++)
		text_line(p, &(struct source_line){
			.file = l->files[l->lines[i].file],
			.line = l->lines[i].line }, "");
}

static int text_function(struct printer *p, uint64_t total)
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

static void json_peers(const struct printer *p, const char *key,
		       const struct annotate_peers *peers)
{
	outbuf_printf(p->out, ",\"%s\":[", key);
	for (size_t i = 0; i < peers->n; i++) {
		const struct annotate_peer *peer = &peers->v[i];

		outbuf_printf(p->out, "%s{\"count\":%llu", i ? "," : "",
			      (unsigned long long)peer->n);
		json_text(p->out, "name", peer->name ?
			  shown_name(p, peer->name) : NULL);
		json_number(p->out, "address", peer->ip);
		outbuf_str(p->out, "}");
	}
	outbuf_str(p->out, "]");
}

static void json_insn(const struct printer *p, const struct view *v)
{
	const struct annotate_branch *b = &v->branch;
	struct outbuf *out = p->out;
	char inlined[3 * MAX_TEXT];

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
	name_inlined(p, v, inlined, sizeof(inlined));
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

static void json_lines(const struct printer *p)
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

static int json_function(struct printer *p)
{
	const struct annotate_function *f = p->f;
	struct outbuf *out = p->out;
	struct view v;
	int err = 0;

	outbuf_str(out, "{\"name\":");
	outbuf_json(out, shown_name(p, f->name));
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
		err = look_at(p, &f->insns[i], &v);
		outbuf_str(out, i ? ",\n" : "\n");
		json_insn(p, &v);
		free(v.branch.targets.v);
	}
	outbuf_str(out, "]}");
	return err;
}

/* ---- HTML ---- */

/* The class of a row: how much of the largest count it has, in ten steps. */
static unsigned heat(const struct printer *p, uint64_t n)
{
	return n ? 1 + (unsigned)(percent(n, p->max) * 8.99 / 100) : 0;
}

static void html_count(const struct printer *p, uint64_t n)
{
	outbuf_printf(p->out, "<td class=\"n h%u\">%llu</td>", heat(p, n),
		      (unsigned long long)n);
}

static void html_cycles(const struct printer *p, uint64_t cycles)
{
	if (p->cycles)
		outbuf_printf(p->out, "<td class=\"n\">%llu</td>",
			      (unsigned long long)cover_whole_cycles(cycles));
}

static void html_line(struct printer *p, const struct source_line *at,
		      const char *inlined)
{
	const struct cover_line *l = line_of(p->f, at);
	size_t i = l ? (size_t)(l - p->f->lines.lines) : 0;
	char text[MAX_SHOWN];

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
	outbuf_html(p->out, base_of(at->file));
	outbuf_printf(p->out, ":%u</td><td class=\"c\">", at->line);
	read_line(p, at, text, sizeof(text));
	outbuf_html(p->out, text);
	outbuf_str(p->out, "</td><td class=\"b\">");
	if (*inlined) {
		outbuf_str(p->out, "inlined: ");
		outbuf_html(p->out, inlined);
	}
	outbuf_str(p->out, "</td></tr>\n");
}

static void html_insn(const struct printer *p, const struct view *v)
{
	char branch[3 * MAX_TEXT];

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
	describe_branch(p, v, branch, sizeof(branch));
	outbuf_str(p->out, "</td><td class=\"b\">");
	outbuf_html(p->out, branch);
	outbuf_str(p->out, "</td></tr>\n");
}

static void html_peers(const struct printer *p, const char *what,
		       const struct annotate_peers *peers)
{
	char name[MAX_TEXT];

	if (!peers->n)
		return;
	outbuf_printf(p->out, "<p><b>%s</b>", what);
	for (size_t i = 0; i < peers->n; i++) {
		put_peer_name(p, &peers->v[i], name, sizeof(name));
		outbuf_str(p->out, i ? ", " : " ");
		outbuf_html(p->out, name);
		outbuf_printf(p->out, "&nbsp;<i>%llu</i>",
			      (unsigned long long)peers->v[i].n);
	}
	outbuf_str(p->out, "</p>\n");
}

static void html_head(const struct printer *p, uint64_t total)
{
	const struct annotate_function *f = p->f;

	outbuf_str(p->out, "<section><h2>");
	outbuf_html(p->out, shown_name(p, f->name));
	outbuf_str(p->out, "</h2><p>in ");
	outbuf_html(p->out, f->dso ? f->dso : "?");
	outbuf_printf(p->out, ": entered <i>%llu</i> times, <i>%llu</i> "
		      "instructions, %.2f %% of all",
		      (unsigned long long)f->entered,
		      (unsigned long long)f->n_insns,
		      percent(f->n_insns, total));
	if (p->cycles)
		outbuf_printf(p->out, "; <i>%llu</i> cycles, %.2f %% of all, "
			      "IPC %.2f",
			      (unsigned long long)cover_whole_cycles(f->cycles),
			      percent(f->cycles, p->a->tally.cycles), ipc_of(f));
	outbuf_str(p->out, "</p>\n");
	html_peers(p, "Called by", &f->callers);
	html_peers(p, "Calls", &f->callees);
	outbuf_printf(p->out, "<table><thead><tr><th>executed</th>%s<th>place</th>"
		      "<th>code</th><th>branches</th></tr></thead><tbody>\n",
		      p->cycles ? "<th>cycles</th>" : "");
}

static int html_function(struct printer *p, uint64_t total)
{
	struct view v, before = { .ip = 0 };
	char inlined[3 * MAX_TEXT];
	int err = 0;

	html_head(p, total);
	for (size_t i = 0; i < p->f->n && !err && !p->a->config.lines; i++) {
		err = look_at(p, &p->f->insns[i], &v);
		if (v.at.file && (!i || !same_place(&v, &before))) {
			name_inlined(p, &v, inlined, sizeof(inlined));
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

static void put_start(const struct printer *p)
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

static void put_end(const struct printer *p, size_t n, size_t n_all)
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

static int put_function(struct printer *p, size_t i)
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

int annotate_print(const struct annotate *a, const struct annotate_function *v,
		   size_t n, size_t n_all)
{
	struct printer p = { .a = a, .out = a->coverage.env.out,
			     .cycles = cover_whole_cycles(a->tally.cycles) };
	int err = 0;

	put_start(&p);
	for (size_t i = 0; i < n && !err; i++) {
		p.f = &v[i];
		p.max = 0;
		for (size_t k = 0; k < v[i].n; k++)
			if (v[i].insns[k].n > p.max)
				p.max = v[i].insns[k].n;
		err = find_line_cycles(&p);
		if (!err)
			err = put_function(&p, i);
		free(p.lines);
	}
	put_end(&p, n, n_all);
	for (size_t i = 0; i < p.n_sources; i++)
		free(p.sources[i].text);
	free(p.sources);
	return err;
}
