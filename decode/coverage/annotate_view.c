/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: what is said of lines and instructions, whatever the format is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/outbuf.h"
#include "common/regular.h"
#include "decode/callstack/names.h"
#include "decode/coverage/annotate_impl.h"

#define MAX_INSN 15
#define MAX_SOURCE (32 << 20)
#define TAB 8
#define N_TARGETS 3

struct annotate_source {
	const char *file;
	char *text;		/* NULL: it cannot be read */
	size_t len;
	uint32_t line;		/* the one that at is the start of */
	size_t at;
};

/* ---- what is shown ---- */

const char *annotate_shown_name(const struct annotate_printer *p, const char *raw)
{
	return names_cut(p->a->coverage.env.host->names, raw, p->columns);
}

void annotate_peer_name(const struct annotate_printer *p,
			  const struct annotate_peer *peer, char *buf,
			  size_t len)
{
	if (peer->name)
		snprintf(buf, len, "%s", annotate_shown_name(p, peer->name));
	else
		snprintf(buf, len, "0x%llx", (unsigned long long)peer->ip);
}

static void find_target(const struct annotate_printer *p, struct annotate_view *v,
			const uint8_t *code, size_t len)
{
	const struct sink_host *host = p->a->coverage.env.host;
	const struct annotate_function *f = p->f;
	struct symbol sym = { .name = NULL };
	uint64_t to, off;

	if (!insn_target(code, len, v->ip, f->mode, &to))
		return;
	off = v->in->off + (to - v->ip);
	if ((off >= f->off && off < f->end) || !host->symbol ||
	    host->symbol(host->priv, v->space, to, &sym))
		return;
	if (sym.name && (!sym.size || to - sym.start < sym.size))
		snprintf(v->target, sizeof(v->target), "%s",
			 annotate_shown_name(p, sym.name));
}

/* v->branch.targets.v is to be freed. 0 or -AUX_E_NOMEM. */
int annotate_look(const struct annotate_printer *p, const struct annotate_insn *in,
		   struct annotate_view *v)
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
					    v->frames, ANNOTATE_MAX_FRAMES);
	if (v->n_frames > ANNOTATE_MAX_FRAMES)
		v->n_frames = ANNOTATE_MAX_FRAMES;
	return annotate_branch(p->a, p->f, in, &v->branch);
}

/* Debug information has the name with template arguments, and not mangled. */
static void inline_name(const struct annotate_printer *p, const struct inline_frame *f,
			char *buf, size_t len)
{
	const char *name = f->name;
	char *cut = name && p->columns ? names_short(name, NAMES_SHORT, p->columns) :
					 NULL;

	if (!name && f->linkage)
		name = annotate_shown_name(p, f->linkage);
	snprintf(buf, len, "%s", cut ? cut : name ? name : "?");
	free(cut);
}

#define SHORT_FRAMES 4	/* on a terminal */

void annotate_inlined(const struct annotate_printer *p, const struct annotate_view *v,
			 char *buf, size_t len)
{
	static const char more[] = " in ..";
	char name[3 * ANNOTATE_MAX_TEXT];
	size_t n = 0;

	*buf = '\0';
	for (int i = 0; i + 1 < v->n_frames; i++) {
		inline_name(p, &v->frames[i], name, sizeof(name));
		if (i && (n + strlen(name) + 2 * sizeof(more) > len ||
			  (p->columns && i == SHORT_FRAMES))) {
			snprintf(buf + n, len - n, "%s", more);
			return;
		}
		n += (size_t)snprintf(buf + n, len - n, "%s%.*s", i ? " in " : "",
				      (int)(len - 2 * sizeof(more)), name);
	}
}

bool annotate_same_place(const struct annotate_view *a, const struct annotate_view *b)
{
	return a->at.line == b->at.line && a->n_frames == b->n_frames &&
	       !a->at.file == !b->at.file &&
	       (!a->at.file || !strcmp(a->at.file, b->at.file)) &&
	       (a->n_frames <= 1 || a->frames[0].id == b->frames[0].id);
}

/* The line of f with a count; NULL: it has none. */
const struct cover_line *annotate_line_of(const struct annotate_function *f,
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
int annotate_line_cycles(struct annotate_printer *p)
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
			l = annotate_line_of(f, &at);
		last = at;
		if (l)
			p->lines[l - f->lines.lines].cycles += f->insns[i].cycles;
	}
	return 0;
}

double annotate_percent(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0;
}

/* Instructions of a function for each cycle in which it ran. */
double annotate_ipc(const struct annotate_function *f)
{
	return f->cycles ? (double)f->n_insns /
			   ((double)f->cycles / (1 << COVER_CYCLE_BITS)) : 0;
}

/* "taken 5 of 8 (62.50 %)", "to f 5, g 3"; "": it is no branch of such kinds. */
void annotate_describe_branch(const struct annotate_printer *p, const struct annotate_view *v,
			    char *buf, size_t len)
{
	const struct annotate_branch *b = &v->branch;
	uint64_t n = b->taken + b->not_taken;
	char name[ANNOTATE_MAX_TEXT];
	size_t at = 0;

	*buf = '\0';
	if (n)
		snprintf(buf, len, "taken %llu of %llu (%.2f %%)",
			 (unsigned long long)b->taken, (unsigned long long)n,
			 annotate_percent(b->taken, n));
	for (size_t i = 0; i < b->targets.n && i < N_TARGETS && at < len; i++) {
		annotate_peer_name(p, &b->targets.v[i], name, sizeof(name));
		at += (size_t)snprintf(buf + at, len - at, "%s%s %llu",
				       i ? ", " : "to ", name,
				       (unsigned long long)b->targets.v[i].n);
	}
	if (b->targets.n > N_TARGETS && at < len)
		snprintf(buf + at, len - at, ", %zu more",
			 b->targets.n - N_TARGETS);
}

/* ---- source text ---- */

static char *read_source(const struct annotate_printer *p, const char *file, size_t *len)
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

static struct annotate_source *source_of(struct annotate_printer *p, const char *file)
{
	struct annotate_source s = { .file = file, .line = 1 };

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
static bool seek_line(struct annotate_source *s, uint32_t line)
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
void annotate_read_line(struct annotate_printer *p, const struct source_line *at,
		      char *buf, size_t len)
{
	struct annotate_source *s = source_of(p, at->file);
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

const char *annotate_base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void annotate_printer_fini(struct annotate_printer *p)
{
	for (size_t i = 0; i < p->n_sources; i++)
		free(p->sources[i].text);
	free(p->sources);
}
