/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * names: see names.h.
 *
 * What was found out of a name is kept by its text: demangling is slow, and the
 * few functions of a program come again and again. The order in which names
 * came is kept, too, so that hints are the same in each run.
 */
#include <fnmatch.h>
#include <regex.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_IBERTY
#include <libiberty/demangle.h>
#endif

#include "common/array.h"
#include "common/diag.h"
#include "common/options.h"
#include "decode/callstack/names.h"

struct pattern {
	char *text;		/* without ABI tags */
	const char *given;
	char *go;		/* the same as go_name() has it; NULL: a regex or glob */
	bool is_regex, is_name, hit;	/* is_name: no glob either */
	regex_t regex;
	char **met;		/* of a name: the different ones that it fitted */
	size_t n_met, max_met;
};

struct name {
	char *raw;
	char *shown;		/* NULL: raw */
	char *cut;		/* names_cut(); NULL: not asked for yet */
	bool fits;
};

struct module {
	const char *text;
	bool hit;
};

#define N_MODULES 8

struct names {
	struct module *modules;
	size_t n_modules;
	char *seen[N_MODULES];	/* modules that did not fit, the first ones */
	struct pattern *patterns;
	size_t n_patterns;
	bool mangled;
	struct name *all;
	size_t n, max;
	uint32_t *slots;	/* index in all and 1, 0: free */
	size_t n_slots;		/* a power of two, or 0 */
	void *cuts;		/* all there are, as tsearch() keeps them */
};

/* ---- demangling ---- */

#ifdef HAVE_IBERTY
/* The demangler recurses: longer names, which only made-up files have, stay as
 * they are. */
#define MAX_NAME 65536

/* Without params neither arguments nor the type that it returns. */
static char *demangle(const char *raw, bool params)
{
	if (raw[0] != '_' || strnlen(raw, MAX_NAME) == MAX_NAME)
		return NULL;
	return cplus_demangle(raw, DMGL_AUTO | DMGL_ANSI |
				   (params ? DMGL_PARAMS : 0));
}
#else
static char *demangle(const char *raw, bool params)
{
	(void)raw, (void)params;
	return NULL;
}
#endif

/* What linkers append ("@plt", "@@V1") is no part of what is mangled. */
static char *demangle_all(const char *raw, bool params)
{
	const char *at = strchr(raw, '@');
	char *name = at ? NULL : demangle(raw, params), *front, *whole = NULL;

	if (name || !at || raw[0] != '_')
		return name;
	front = strndup(raw, (size_t)(at - raw));
	name = front ? demangle(front, params) : NULL;
	if (name && asprintf(&whole, "%s%s", name, at) < 0)
		whole = NULL;
	free(front);
	free(name);
	return whole;
}

char *names_demangle(const char *raw)
{
	return demangle_all(raw, true);
}

char *names_demangle_bare(const char *raw)
{
	return demangle_all(raw, false);
}

/* ---- patterns ---- */

/* Takes "[abi:...]" out of a text, in place. */
static void drop_tags(char *s)
{
	char *tag, *end;

	while ((tag = strstr(s, "[abi:")) && (end = strchr(tag, ']')))
		memmove(tag, end + 1, strlen(end + 1) + 1);
}

/* The length without "(...)" at the end, and without what may follow that
 * ("const"). "operator()" is a name. */
static size_t bare_len(const char *name)
{
	size_t len = strlen(name), i;
	int depth = 0;

	for (i = len; i > 0; i--) {
		if (name[i - 1] == ')')
			depth++;
		else if (name[i - 1] == '(' && --depth == 0)
			break;
	}
	return i > 1 && strncmp(name + i - 1, "()", 3) ? i - 1 : len;
}

/* "operator[]" is a name. */
static bool is_glob(const char *text)
{
	const char *open = strchr(text, '[');

	return strpbrk(text, "*?") ? !strstr(text, "operator") :
				     open && open[1] != ']';
}

/*
 * A name of Go without type arguments and brackets, as one says it: main.Store.Put of
 * "main.(*Store[go.shape.string_0]).Put". NULL: out of memory.
 */
static char *go_name(const char *raw)
{
	char *name = strdup(raw), *to = name;
	unsigned depth = 0;

	for (const char *p = raw; name && *p; p++) {
		depth += *p == '[';
		if (!depth && !strchr("(*)", *p))
			*to++ = *p;
		depth -= *p == ']' && depth;
	}
	if (name)
		*to = '\0';
	return name;
}

/* Whether a name may be one of Go: of a package, without arguments. */
static bool is_go(const char *raw)
{
	return strstr(raw, ".(") || (strchr(raw, '.') && !strpbrk(raw, "(<: "));
}

static int parse_pattern(struct pattern *p, const char *option,
			 const char *text, struct aux_diag *diag)
{
	size_t len = strlen(text);
	char why[128];
	int rc;

	p->given = text;
	if (!len)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s wants a name", option);
	p->is_regex = len > 2 && text[0] == '/' && text[len - 1] == '/';
	p->text = p->is_regex ? strndup(text + 1, len - 2) : strdup(text);
	if (!p->text) {
		p->is_regex = false;
		return -AUX_E_NOMEM;
	}
	if (!p->is_regex) {
		drop_tags(p->text);
		p->is_name = !is_glob(p->text);
		p->go = p->is_name || strstr(p->text, "(*") ? go_name(p->text) : NULL;
		return 0;
	}
	rc = regcomp(&p->regex, p->text, REG_EXTENDED | REG_NOSUB);
	if (!rc)
		return 0;
	p->is_regex = false;
	regerror(rc, &p->regex, why, sizeof(why));
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s %s is no regular expression: %s", option, text, why);
}

static bool fits_text(const struct pattern *p, const char *name)
{
	if (p->is_regex)
		return !regexec(&p->regex, name, 0, NULL, 0);
	return !strcmp(p->text, name) || !fnmatch(p->text, name, 0);
}

/* The forms of a name; NULL: there is none such. */
struct forms {
	const char *raw;
	char *shown, *bare;
	char *brief, *plain;	/* add<>, add */
	char *go;		/* main.Store.Put */
};

/* Takes the brackets of template arguments out of a brief name. NULL: out of memory. */
static char *drop_brackets(const char *brief)
{
	char *plain = strdup(brief), *at = plain;

	while (at && (at = strstr(at, "<>"))) {
		if (at > plain && at[-1] != ' ')
			memmove(at, at + 2, strlen(at + 2) + 1);
		else
			at += 2;
	}
	return plain;
}

/*
 * What interpreters call their code in a perf map or jitdump, without prefix, mark and
 * place: "py::handle:/srv/app.py" is py::handle, "JS:*handle /srv/app.js:2:16" and
 * "LazyCompile:~handle /srv/app.js:2" are handle. NULL: it is no such name.
 */
static char *script_name(const char *raw)
{
	static const char *const prefixes[] = { "JS:", "LazyCompile:", "Function:" };
	size_t n;

	if (!strncmp(raw, "py::", 4)) {
		n = 4 + strcspn(raw + 4, ":");
		return raw[n] && n > 4 ? strndup(raw, n) : NULL;
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		n = strlen(prefixes[i]);
		if (strncmp(raw, prefixes[i], n))
			continue;
		raw += n + strspn(raw + n, "~*^+'");
		n = strcspn(raw, " ");
		return n ? strndup(raw, n) : NULL;
	}
	return NULL;
}

/* raw may be a text with arguments itself, as made code has it. */
static struct forms forms_of(const char *raw)
{
	struct forms f = { .raw = raw, .shown = demangle_all(raw, true) };
	size_t len = bare_len(raw);

	if (!f.shown && (f.bare = script_name(raw)))
		return f;
	if (!f.shown && is_go(raw))
		f.go = go_name(raw);
	if (f.shown)
		f.bare = demangle_all(raw, false);
	else if (raw[len] && !f.go)
		f.bare = strndup(raw, len);
	if (f.shown)
		drop_tags(f.shown);
	if (f.bare)
		drop_tags(f.bare);
	f.brief = f.shown || f.bare ? names_short(raw, NAMES_SHORT, 0) : NULL;
	if (f.brief) {
		drop_tags(f.brief);
		f.plain = drop_brackets(f.brief);
	}
	return f;
}

/* A name, or what stands after a "::" in it; after one at its beginning nothing may
 * stand before. */
static bool ends_in(const char *name, const char *text)
{
	size_t n = strlen(name), len;
	bool whole = !strncmp(text, "::", 2);

	text += whole ? 2 : 0;
	len = strlen(text);
	if (!len || len > n || strcmp(name + n - len, text) != 0)
		return false;
	return len == n || (!whole && n - len >= 2 && name[n - len - 1] == ':' &&
			    name[n - len - 2] == ':');
}

/* What compilers of C append to parts and copies of a function. */
static bool is_suffix(const char *text)
{
	static const char *const words[] = { "cold", "part", "constprop", "isra", "lto_priv",
					     "llvm", "localalias", "resolver", "clone" };
	size_t n = strcspn(text, ".");

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (n == strlen(words[i]) && !strncmp(text, words[i], n))
			return true;
	return n == strspn(text, "0123456789");
}

/* What stands in a name of Go after its package, its type, or a part of its path. */
static bool ends_go(const char *name, const char *text)
{
	size_t n = strlen(name), len = strlen(text);

	return len && len < n && !strcmp(name + n - len, text) &&
	       strchr("./", name[n - len - 1]) && !is_suffix(text);
}

/* By the end of its name, without template arguments, too. */
static bool fits_end(const struct pattern *p, const struct forms *f)
{
	const char *const forms[] = { f->bare ? f->bare : f->raw, f->brief, f->plain };

	for (size_t i = 0; p->is_name && i < sizeof(forms) / sizeof(*forms); i++)
		if (forms[i] && ends_in(forms[i], p->text))
			return true;
	return f->go && p->go && (!strcmp(f->go, p->go) || ends_go(f->go, p->go));
}

/* For names_note(); what there is no memory for is left out. */
static void note_met(struct pattern *p, const struct forms *f)
{
	const char *name = f->bare ? f->bare : f->raw;
	char *copy;

	for (size_t i = 0; i < p->n_met; i++)
		if (!strcmp(p->met[i], name))
			return;
	copy = strdup(name);
	if (!copy || array_append(&p->met, &p->n_met, &p->max_met, &copy, sizeof(copy)))
		free(copy);
}

static bool fits_pattern(struct pattern *p, const struct forms *f)
{
	bool fits = fits_text(p, f->raw) || (f->shown && fits_text(p, f->shown));

	if (!fits && f->bare && !p->is_regex)
		fits = fits_text(p, f->bare);
	if (!fits)
		fits = fits_end(p, f);
	if (fits && p->is_name)
		note_met(p, f);
	p->hit |= fits;
	return fits;
}

static bool fits_any(struct names *n, const char *raw)
{
	struct forms f;
	bool fits = false;

	if (!n->n_patterns)
		return true;
	f = forms_of(raw);
	/* all of them: each remembers that it fitted */
	for (size_t i = 0; i < n->n_patterns; i++)
		fits |= fits_pattern(&n->patterns[i], &f);
	free(f.shown);
	free(f.bare);
	free(f.brief);
	free(f.plain);
	free(f.go);
	return fits;
}

/* ---- names that came ---- */

static uint64_t hash_text(const char *s)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	return h ^ h >> 31;
}

/* The slot of a name, or the free one where it belongs. */
static uint32_t *find_slot(const struct names *n, const char *raw)
{
	size_t at = hash_text(raw) & (n->n_slots - 1);

	while (n->slots[at] && strcmp(n->all[n->slots[at] - 1].raw, raw) != 0)
		at = (at + 1) & (n->n_slots - 1);
	return &n->slots[at];
}

static int grow(struct names *n)
{
	uint32_t *old = n->slots;

	n->slots = calloc(n->n_slots ? 2 * n->n_slots : 256, sizeof(*n->slots));
	if (!n->slots) {
		n->slots = old;
		return -AUX_E_NOMEM;
	}
	n->n_slots = n->n_slots ? 2 * n->n_slots : 256;
	free(old);
	for (size_t i = 0; i < n->n; i++)
		*find_slot(n, n->all[i].raw) = (uint32_t)i + 1;
	return 0;
}

/* NULL: out of memory. */
static const struct name *name_of(struct names *n, const char *raw)
{
	struct name *name;
	uint32_t *slot;

	if (2 * n->n >= n->n_slots && grow(n))
		return NULL;
	slot = find_slot(n, raw);
	if (*slot)
		return &n->all[*slot - 1];
	if (array_grow(&n->all, n->n, &n->max, sizeof(*n->all)) < 0)
		return NULL;
	name = &n->all[n->n];
	*name = (struct name){ .raw = strdup(raw) };
	if (!name->raw)
		return NULL;
	if (!n->mangled)
		name->shown = demangle_all(raw, true);
	name->fits = fits_any(n, raw);
	*slot = (uint32_t)++n->n;
	return name;
}

const char *names_shown(struct names *n, const char *raw)
{
	const struct name *name = n && raw ? name_of(n, raw) : NULL;

	return name && name->shown ? name->shown : raw;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* None of the texts that other names are shown as; NULL: out of memory. */
static char *make_cut(const struct names *n, const struct name *name, unsigned width)
{
	char *cut = NULL, *numbered;

	for (unsigned how = NAMES_SHORT; how <= NAMES_FULL; how++) {
		free(cut);
		cut = names_short(name->raw, how, width);
		if (!cut || !tfind(cut, &n->cuts, compare_texts))
			return cut;
	}
	names_cut_middle(cut, width > 24 ? width - 8 : width);
	if (asprintf(&numbered, "%s~%zu", cut, (size_t)(name - n->all)) < 0)
		numbered = NULL;
	free(cut);
	return numbered;
}

/* The tree has the texts themselves, which belong to the names. */
static void keep_in_place(void *cut)
{
	(void)cut;
}

const char *names_cut(struct names *n, const char *raw, unsigned width)
{
	const struct name *found = n && raw && width && !n->mangled ?
				   name_of(n, raw) : NULL;
	struct name *name;

	if (!found)
		return names_shown(n, raw);
	name = &n->all[found - n->all];
	if (!name->cut) {
		name->cut = make_cut(n, name, width < 16 ? 16 : width);
		if (name->cut)
			(void)tsearch(name->cut, &n->cuts, compare_texts);
	}
	return name->cut ? name->cut : names_shown(n, raw);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* For the hint; what there is no memory for is left out. */
static void note_module(struct names *n, const char *dso)
{
	size_t i = 0;

	while (i < N_MODULES && n->seen[i] && strcmp(n->seen[i], dso))
		i++;
	if (i < N_MODULES && !n->seen[i])
		n->seen[i] = strdup(dso);
}

static bool fits_module(struct names *n, const char *dso)
{
	bool fits = !n->n_modules;

	for (size_t i = 0; dso && i < n->n_modules; i++) {
		struct module *m = &n->modules[i];
		const char *path = strchr(m->text, '/') ? dso : last_part(dso);

		if (strcmp(m->text, path) && fnmatch(m->text, path, 0))
			continue;
		m->hit = true;
		fits = true;
	}
	if (!fits && dso)
		note_module(n, last_part(dso));
	return fits;
}

bool names_fit(struct names *n, const char *raw, const char *dso)
{
	const struct name *name;

	if (!names_select(n))
		return true;
	if (!fits_module(n, dso))
		return false;
	if (!n->n_patterns)
		return true;
	name = raw ? name_of(n, raw) : NULL;
	return name ? name->fits : raw && fits_any(n, raw);
}

bool names_select(const struct names *n)
{
	return n && (n->n_patterns || n->n_modules);
}

bool names_met(const struct names *n)
{
	bool met = n && !n->n_patterns, in = n && !n->n_modules;

	for (size_t i = 0; n && i < n->n_patterns; i++)
		met |= n->patterns[i].hit;
	for (size_t i = 0; n && i < n->n_modules; i++)
		in |= n->modules[i].hit;
	return met && in;
}

void names_typed(const struct names *n, const char *raw, char *buf, size_t len)
{
	char *bare = n && n->mangled ? NULL : names_demangle_bare(raw);

	if (snprintf(buf, len, "%s", bare ? bare : raw) >= (int)len)
		buf[0] = '\0';
	free(bare);
}

bool names_are_mangled(const struct names *n)
{
	return n && n->mangled;
}

int names_new(struct names **names, const char *option,
	      const char *const *texts, size_t n_texts, bool mangled,
	      struct aux_diag *diag)
{
	struct names *n = calloc(1, sizeof(*n));
	int err = 0;

	*names = NULL;
	if (!n)
		return -AUX_E_NOMEM;
	n->mangled = mangled;
	n->patterns = calloc(n_texts + 1, sizeof(*n->patterns));
	if (!n->patterns)
		err = -AUX_E_NOMEM;
	for (size_t i = 0; i < n_texts && !err; i++)
		err = parse_pattern(&n->patterns[n->n_patterns++], option,
				    texts[i], diag);
	if (err)
		names_free(n);
	else
		*names = n;
	return err;
}

int names_modules(struct names *n, const char *const *texts, size_t n_texts)
{
	n->modules = calloc(n_texts + 1, sizeof(*n->modules));
	if (!n->modules)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n_texts; i++)
		n->modules[n->n_modules++].text = texts[i];
	return 0;
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < N_MODULES; i++)
		free(n->seen[i]);
	free(n->modules);
	for (size_t i = 0; i < n->n_patterns; i++) {
		if (n->patterns[i].is_regex)
			regfree(&n->patterns[i].regex);
		for (size_t k = 0; k < n->patterns[i].n_met; k++)
			free(n->patterns[i].met[k]);
		free(n->patterns[i].met);
		free(n->patterns[i].text);
		free(n->patterns[i].go);
	}
	for (size_t i = 0; i < n->n; i++) {
		free(n->all[i].raw);
		free(n->all[i].shown);
		free(n->all[i].cut);
	}
	tdestroy(n->cuts, keep_in_place);
	free(n->patterns);
	free(n->all);
	free(n->slots);
	free(n);
}

/* ---- names that were perhaps meant ---- */

#define N_NEAR	 5
#define SAME_BAD (TEXT_DISTANCE_MAX / 3)

/* How far name is from what was asked for; SAME_BAD: too far. A part of the
 * name is near. */
static unsigned how_far(const char *text, const char *name)
{
	size_t la = strlen(text), lb = bare_len(name);
	unsigned d;

	if (la >= 3 && strcasestr(name, text))
		return 1;
	d = text_distance(text, la, name, lb);
	return d <= 1 + la / 4 ? d : SAME_BAD;
}

struct near {
	const char *name;
	unsigned far;
};

/* Inserts into a sorted array of the N_NEAR nearest; equal names once. */
static void keep_near(struct near *near, const char *name, unsigned far)
{
	unsigned i = N_NEAR;

	for (unsigned k = 0; k < N_NEAR; k++)
		if (near[k].name && !strcmp(near[k].name, name))
			return;
	for (; i > 0 && (!near[i - 1].name || near[i - 1].far > far); i--)
		if (i < N_NEAR)
			near[i] = near[i - 1];
	if (i < N_NEAR)
		near[i] = (struct near){ name, far };
}

static void append(char *hint, size_t len, const char *text)
{
	size_t at = strlen(hint);

	for (; *text && at + 1 < len; text++) /* names are the file's */
		hint[at++] = (unsigned char)*text < ' ' ? '?' : *text;
	hint[at] = 0;
}

/* As it may be typed, which need not be all of it; to be freed. */
static char *bare_of(const struct names *n, const char *shown)
{
	char *bare = NULL;

	for (size_t i = 0; i < n->n && !bare && !n->mangled; i++)
		if (n->all[i].shown == shown)
			bare = names_demangle_bare(n->all[i].raw);
	return bare ? bare : strdup(shown);
}

/* Overloads are one name. */
static void put_near(const struct names *n, const struct near *near, char *hint,
		     size_t len)
{
	char *bare[N_NEAR] = { NULL };
	unsigned k;

	for (unsigned i = 0; i < N_NEAR && near[i].name; i++) {
		bare[i] = bare_of(n, near[i].name);
		for (k = 0; bare[i] && k < i; k++)
			if (bare[k] && !strcmp(bare[k], bare[i]))
				break;
		if (!bare[i] || k < i)
			continue;
		append(hint, len, i ? ", " : "; near to it: ");
		append(hint, len, bare[i]);
	}
	for (unsigned i = 0; i < N_NEAR; i++)
		free(bare[i]);
}

/* The nearest by name as shown, or else as the file has it. */
static void append_near(const struct names *n, const char *text, char *hint,
			size_t len)
{
	struct near near[N_NEAR] = { 0 };
	char bare[TEXT_DISTANCE_MAX + 1];
	size_t m = 0;

	for (; *text && m < TEXT_DISTANCE_MAX; text++)
		if (!strchr("*?/^$\\[]", *text))
			bare[m++] = *text;
	bare[m] = 0;
	for (size_t i = 0; i < n->n; i++) {
		const struct name *name = &n->all[i];
		const char *shown = name->shown ? name->shown : name->raw;
		unsigned far = how_far(bare, shown);

		if (far >= SAME_BAD && name->shown)
			far = how_far(bare, name->raw);
		if (far < SAME_BAD)
			keep_near(near, shown, far);
	}
	put_near(n, near, hint, len);
}

void names_hint(const struct names *n, char *hint, size_t len)
{
	hint[0] = 0;
	for (size_t i = 0; n && i < n->n_patterns; i++) {
		const struct pattern *p = &n->patterns[i];

		if (p->hit)
			continue;
		append(hint, len, hint[0] ? "; no function \"" :
					    "no function \"");
		append(hint, len, p->given);
		append(hint, len, "\" ran");
		append_near(n, p->text, hint, len);
	}
	for (size_t i = 0; n && i < n->n_modules; i++) {
		if (n->modules[i].hit)
			continue;
		append(hint, len, hint[0] ? "; nothing of \"" : "nothing of \"");
		append(hint, len, n->modules[i].text);
		append(hint, len, "\" ran");
		for (size_t k = 0; k < N_MODULES && n->seen[k]; k++) {
			append(hint, len, k ? ", " : "; there ran ");
			append(hint, len, n->seen[k]);
		}
	}
}

#define N_NOTED 4

void names_note(const struct names *n, char *note, size_t len)
{
	char count[64];

	note[0] = 0;
	for (size_t i = 0; n && i < n->n_patterns; i++) {
		const struct pattern *p = &n->patterns[i];

		if (p->n_met < 2)
			continue;
		append(note, len, note[0] ? "; \"" : "\"");
		append(note, len, p->given);
		snprintf(count, sizeof(count), "\" is %zu functions: ", p->n_met);
		append(note, len, count);
		for (size_t k = 0; k < p->n_met && k < N_NOTED; k++) {
			append(note, len, k ? ", " : "");
			append(note, len, p->met[k]);
		}
		append(note, len, p->n_met > N_NOTED ? ", ..." : "");
	}
}
