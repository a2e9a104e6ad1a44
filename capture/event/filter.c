/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * filter: translates --filter of an AUX event into the kernel's notation.
 *
 * Invariant: the result has numbers only, offsets in files whose paths are
 * absolute and resolved, and each filter can match; what the kernel would
 * silently resolve to an empty range is refused here.
 * Specification: perf_event_parse_addr_filter() in kernel/events/core.c of
 * Linux 6.1; perf-record(1), --filter.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>

#include "capture/event/event.h"
#include "capture/event/impl.h"
#include "common/diag.h"

#define OVERLAYFS 0x794c7630	/* statfs.f_type */
#define NAME_MAX_LEN 4096
#define KALLSYMS "/proc/kallsyms"

/* The kernel's symbols, from /proc/kallsyms: proc(5); nm(1) explains the
 * letters. */

struct kallsym {
	uint64_t addr;
	char type;
	const char *name;
};

/* Parses "ADDRESS TYPE NAME[\t[MODULE]]"; name points into line. */
static bool parse_kallsym(char *line, struct kallsym *k)
{
	char *p;

	k->addr = strtoull(line, &p, 16);
	if (p[0] != ' ' || !p[1] || p[2] != ' ')
		return false;
	k->type = p[1];
	k->name = p + 3;
	p[3 + strcspn(p + 3, "\t\n")] = '\0';
	return true;
}

/* kallsyms has no sizes: a symbol extends to the next higher address of any
 * symbol. */
static void update_sizes(struct filter_syms *s, uint64_t addr)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		if (addr > s->v[i].addr &&
		    (!s->v[i].size || addr - s->v[i].addr < s->v[i].size))
			s->v[i].size = addr - s->v[i].addr;
}

static int add_kallsym(struct filter_syms *s, const struct kallsym *k,
		      const char *name)
{
	struct filter_sym f = { .addr = k->addr };

	if (!strcmp(k->name, "_stext"))
		s->first = k->addr;
	if (!strcmp(k->name, "_etext"))
		s->last = k->addr;
	if (!name || strcmp(k->name, name) || !strchr("tTwW", k->type))
		return 0;
	f.bind = isupper((unsigned char)k->type) ? 'g' : 'l';
	if (k->type == 'w' || k->type == 'W')
		f.bind = 'w';
	return filter_sym_add(s, &f);
}

/* All code symbols of that name, and the extent of the kernel's text.
 * kptr_restrict shows every address as 0, which is an error here: such a filter
 * matches nothing. */
static int kernel_syms(const char *kallsyms, const char *name,
			     struct filter_syms *s, struct aux_diag *diag)
{
	FILE *f = fopen(kallsyms, "re");
	struct kallsym k;
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	memset(s, 0, sizeof(*s));
	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"--filter: %s: %s; give the kernel's addresses "
				"instead of names", kallsyms, strerror(errno));
	while (!ret && getline(&line, &room, f) > 0)
		if (parse_kallsym(line, &k))
			ret = add_kallsym(s, &k, name);
	rewind(f);	/* modules are not in order: a second pass for the sizes */
	while (!ret && s->n && getline(&line, &room, f) > 0)
		if (parse_kallsym(line, &k))
			update_sizes(s, k.addr);
	free(line);
	fclose(f);
	filter_sym_sort(s);
	if (!ret && ((s->n && !s->v[0].addr) || (!s->n && !s->last)))
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"--filter: the kernel hides its addresses; "
				"show them: sudo sysctl kernel.kptr_restrict=0 "
				"kernel.perf_event_paranoid=1, or be root");
	return ret;
}

/* The text. */

/* One end of a range, as written. */
struct endpoint {
	enum { END_NONE, END_ADDR, END_SYMBOL, END_ALL } kind;
	uint64_t addr;
	char name[NAME_MAX_LEN];
	long select;		/* #N, from 1; 0: global; -1: not given */
};

struct filter {
	const char *action;	/* the kernel's word: "tracestop" is a "stop" range */
	bool range;		/* the action needs a size */
	struct endpoint from, to;
	bool to_given;		/* "/ SOMETHING": a size or an end symbol */
	char file[PATH_MAX];	/* as written; "": the kernel */
	char real[PATH_MAX];	/* resolved by find_file */
};

struct parser {
	const char *text, *p;	/* the whole text; the position in it */
	struct aux_diag *diag;
	bool soft;		/* for a software source: any path will do */
};

__attribute__((format(printf, 2, 3)))
static int fail(struct parser *a, const char *fmt, ...)
{
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--filter '%.80s', at '%.40s': %s", a->text,
			*a->p ? a->p : "its end", what);
}

static void skip_space(struct parser *a)
{
	a->p += strspn(a->p, " \t\n");
}

static int parse_action(struct parser *a, struct filter *f)
{
	static const struct {
		const char *word, *kernel;
		bool range;
	} actions[] = {
		{ "filter", "filter", true },
		{ "start", "start", false },
		{ "stop", "stop", false },
		{ "tracestop", "stop", true },
	};
	size_t i, n = strcspn(a->p, " \t\n,/@");

	for (i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
		if (strlen(actions[i].word) != n ||
		    strncmp(a->p, actions[i].word, n))
			continue;
		f->action = actions[i].kernel;
		f->range = actions[i].range;
		a->p += n;
		return 0;
	}
	return fail(a, "a filter begins with filter, start, stop or tracestop");
}

/* Parses #N, counted by address from 1, or #0, #g, #G: the global one. */
static int parse_select(struct parser *a, struct endpoint *pl)
{
	char *end;

	pl->select = -1;
	skip_space(a);
	if (*a->p != '#')
		return 0;
	a->p++;
	if (*a->p == 'g' || *a->p == 'G') {
		pl->select = 0;
		a->p++;
		return 0;
	}
	if (!isdigit((unsigned char)*a->p))
		return fail(a, "a number, g or G must follow #");
	errno = 0;
	pl->select = strtol(a->p, &end, 10);
	if (errno)
		return fail(a, "the number after # is too large");
	a->p = end;
	return 0;
}

/* Parses an address (a number in any base), a symbol with its selection, or
 * "*". */
static int parse_endpoint(struct parser *a, struct endpoint *pl)
{
	size_t n;
	char *end;

	skip_space(a);
	n = strcspn(a->p, " \t\n,/@#");
	if (!n)
		return fail(a, "an address or a symbol is missing");
	if (n >= sizeof(pl->name))
		return fail(a, "the symbol is too long");
	memcpy(pl->name, a->p, n);
	pl->name[n] = '\0';
	errno = 0;
	pl->addr = strtoull(pl->name, &end, 0);
	if (isdigit((unsigned char)*pl->name)) {
		if (*end || errno)
			return fail(a, "'%.40s' is no number", pl->name);
		pl->kind = END_ADDR;
		a->p += n;
		return 0;
	}
	pl->kind = strcmp(pl->name, "*") ? END_SYMBOL : END_ALL;
	a->p += n;
	return parse_select(a, pl);
}

static int parse_file(struct parser *a, struct filter *f)
{
	size_t n;

	skip_space(a);
	n = strcspn(a->p, " \t\n,");
	if (!n)
		return fail(a, "a file must follow @");
	if (n >= sizeof(f->file))
		return fail(a, "the file's name is too long");
	memcpy(f->file, a->p, n);
	f->file[n] = '\0';
	a->p += n;
	return 0;
}

/* Parses one filter: ACTION [FROM [/ SIZE-OR-SYMBOL]] [@ FILE]. */
static int parse_filter(struct parser *a, struct filter *f)
{
	int ret;

	memset(f, 0, sizeof(*f));
	ret = parse_action(a, f);
	if (!ret)
		ret = parse_endpoint(a, &f->from);
	if (ret)
		return ret;
	skip_space(a);
	if (*a->p == '/') {
		a->p++;
		f->to_given = true;
		ret = parse_endpoint(a, &f->to);
		if (!ret && f->from.kind == END_ALL)
			ret = fail(a, "* is the whole, and takes no size");
		if (!ret && f->to.kind == END_ALL)
			ret = fail(a, "* cannot be an end");
		skip_space(a);
	}
	if (!ret && *a->p == '@') {
		a->p++;
		ret = parse_file(a, f);
	}
	return ret;
}

/*
 * Resolves the path and refuses what the kernel cannot match: it splits the
 * text at blanks and commas, and it compares inodes (perf_addr_filter_match()),
 * which overlayfs reports differently for a path than for a mapping.
 */
static int find_file(struct parser *a, struct filter *f)
{
	struct statfs fs;

	if (!*f->file)
		return 0;
	if (!realpath(f->file, f->real))
		return diag_set(a->diag, AUX_E_IO, AUX_NO_OFFSET,
				"--filter: %.300s: %s", f->file,
				strerror(errno));
	if (a->soft)
		return 0;
	if (f->real[strcspn(f->real, " ,\n")])
		return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--filter: %.300s: the kernel takes no path "
				"with a blank or a comma; copy the file",
				f->real);
	if (!statfs(f->real, &fs) && (uint32_t)fs.f_type == OVERLAYFS)
		return diag_set(a->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"--filter: %.300s is on overlayfs, where the "
				"kernel finds no mapping for a filter (it "
				"becomes 0-0); copy it to another file "
				"system, a tmpfs for example, and run that",
				f->real);
	return 0;
}

/* The error for an ambiguous symbol: its candidates with their #N. */
static int list_choices(struct parser *a, const struct filter *f,
			const struct endpoint *pl, const struct filter_syms *s)
{
	char list[300] = "";
	size_t i, len = 0;

	for (i = 0; i < s->n && len < sizeof(list) - 40; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len,
					" #%zu %#" PRIx64 " (%s)", i + 1,
					s->v[i].addr,
					s->v[i].bind == 'g' ? "global" :
					s->v[i].bind == 'w' ? "weak" : "local");
	return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--filter: %zu symbols %.60s in %.60s:%s; choose one "
			"by '%.60s #N', or the global one by #g", s->n,
			pl->name, *f->file ? f->file : "the kernel", list,
			pl->name);
}

/* Selects the symbol that pl means; several and no selection is an error. */
static int choose(struct parser *a, const struct filter *f,
		  const struct endpoint *pl, const struct filter_syms *s,
		  struct filter_sym *out)
{
	size_t i, n_global = 0;

	if (!s->n)
		return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--filter: no function %.100s in %.200s%s",
				pl->name, *f->file ? f->file : "the kernel",
				*f->file ? "" : "; for a program's add @ FILE");
	if (pl->select > 0 && (size_t)pl->select <= s->n) {
		*out = s->v[pl->select - 1];
		return 0;
	}
	for (i = 0; i < s->n; i++) {
		if (pl->select < 0 || s->v[i].bind != 'g')
			continue;
		*out = s->v[i];
		n_global++;
	}
	if (n_global == 1 && !pl->select)
		return 0;
	if (s->n > 1 || pl->select >= 0)
		return list_choices(a, f, pl, s);
	*out = s->v[0];
	return 0;
}

/* Looks up the symbol of an endpoint in the filter's file, or in the kernel. */
static int find_symbol(struct parser *a, const struct filter *f,
		       const struct endpoint *pl, struct filter_sym *out)
{
	struct filter_syms s;
	int ret = *f->file ? filter_syms_elf(f->real, pl->name, &s, a->diag) :
			     kernel_syms(KALLSYMS, pl->name, &s, a->diag);

	if (!ret)
		ret = choose(a, f, pl, &s, out);
	free(s.v);
	return ret;
}

/* "*": the whole file, or the kernel's text. */
static int find_all(struct parser *a, const struct filter *f,
		    struct filter_sym *out)
{
	struct filter_syms s;
	int ret = *f->file ? filter_syms_elf(f->real, NULL, &s, a->diag) :
			     kernel_syms(KALLSYMS, NULL, &s, a->diag);

	out->addr = s.first;
	out->size = s.last - s.first;
	free(s.v);
	return ret;
}

/* Sets the size: as written, or up to the end of the second symbol; without
 * either the first symbol's own stays. */
static int find_size(struct parser *a, const struct filter *f,
		     struct filter_sym *at)
{
	struct filter_sym end;
	int ret;

	if (!f->to_given)
		return 0;
	if (f->to.kind == END_ADDR) {
		at->size = f->to.addr;
		return 0;
	}
	ret = find_symbol(a, f, &f->to, &end);
	if (ret)
		return ret;
	if (end.addr < at->addr)
		return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--filter: %.100s lies before %.100s; exchange "
				"them", f->to.name, f->from.name);
	at->size = end.addr + end.size - at->addr;
	return 0;
}

/* Turns a parsed filter into an address and a size. */
static int resolve(struct parser *a, struct filter *f, struct filter_sym *at)
{
	int ret = find_file(a, f);

	memset(at, 0, sizeof(*at));
	if (ret)
		return ret;
	if (f->from.kind == END_ADDR)
		at->addr = f->from.addr;
	else if (f->from.kind == END_ALL)
		ret = find_all(a, f, at);
	else
		ret = find_symbol(a, f, &f->from, at);
	if (!ret)
		ret = find_size(a, f, at);
	if (ret || !f->range || at->size)
		return ret;
	return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--filter: the size of %.100s is not known; give it: "
			"%.100s/0xSIZE", f->from.name, f->from.name);
}

/* Appends the filter in the kernel's notation. */
static int print_filter(FILE *out, const struct filter *f,
			const struct filter_sym *at, bool first)
{
	fprintf(out, "%s%s %#" PRIx64, first ? "" : ",", f->action, at->addr);
	if (f->range || f->to_given)
		fprintf(out, "/%#" PRIx64, at->size);
	if (*f->file)
		fprintf(out, "@%s", f->real);
	return ferror(out) ? -AUX_E_NOMEM : 0;
}

static int resolve_all(struct parser *a, unsigned n_max, FILE *out)
{
	struct filter *f = malloc(sizeof(*f));
	struct filter_sym at;
	unsigned n = 0;
	int ret = f ? 0 : -AUX_E_NOMEM;

	while (!ret) {
		a->p += strspn(a->p, " \t\n,");
		if (!*a->p)
			break;
		if (n == n_max) {
			ret = diag_set(a->diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				       "--filter: this PMU has %u address "
				       "filters, and more are given%s", n_max,
				       n_max ? "" : "; leave --filter out");
			break;
		}
		ret = parse_filter(a, f);
		if (!ret)
			ret = resolve(a, f, &at);
		if (!ret)
			ret = print_filter(out, f, &at, !n);
		n++;
	}
	free(f);
	if (!ret && !n)
		ret = fail(a, "there is no filter in it");
	return ret;
}

int addrfilter_resolve(const char *text, unsigned n_max, char **out,
		       struct aux_diag *diag)
{
	struct parser a = { .text = text, .p = text, .diag = diag };
	size_t len;
	FILE *f;
	int ret;

	*out = NULL;
	f = open_memstream(out, &len);
	if (!f)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	ret = resolve_all(&a, n_max, f);
	if (fclose(f) && !ret)
		ret = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory");
	if (ret) {
		free(*out);
		*out = NULL;
	}
	return ret;
}

void addrfilter_free(struct addrfilter *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

/* What a CPU has, and the kernel's driver takes, and a software source can do. */
static int check_soft(struct parser *a, const struct filter *f)
{
	if (strcmp(f->action, "filter"))
		return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--filter: software sources have ranges "
				"('filter START/SIZE @ FILE'), not start, stop or "
				"tracestop");
	if (!*f->file)
		return diag_set(a->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--filter: a range without a file is the kernel's, "
				"and software sources follow user code; add @ FILE");
	return 0;
}

static int add_soft(struct parser *a, const struct filter *f,
		    const struct filter_sym *at, struct addrfilter **v, size_t *n)
{
	struct addrfilter *more = realloc(*v, (*n + 1) * sizeof(**v));

	if (more)
		*v = more;
	if (more)
		more[*n] = (struct addrfilter){ at->addr, at->size,
						strdup(f->real) };
	if (!more || !more[*n].path)
		return diag_set(a->diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	++*n;
	return 0;
}

int addrfilter_list(const char *text, struct addrfilter **v, size_t *n,
		    struct aux_diag *diag)
{
	struct parser a = { .text = text, .p = text, .diag = diag, .soft = true };
	struct filter *f = malloc(sizeof(*f));
	struct filter_sym at;
	int ret = f ? 0 : -AUX_E_NOMEM;

	*v = NULL;
	*n = 0;
	while (!ret) {
		a.p += strspn(a.p, " \t\n,");
		if (!*a.p)
			break;
		ret = parse_filter(&a, f);
		if (!ret)
			ret = check_soft(&a, f);
		if (!ret)
			ret = resolve(&a, f, &at);
		if (!ret)
			ret = add_soft(&a, f, &at, v, n);
	}
	free(f);
	if (!ret && !*n)
		ret = fail(&a, "there is no filter in it");
	if (ret) {
		addrfilter_free(*v, *n);
		*v = NULL;
		*n = 0;
	}
	return ret;
}
