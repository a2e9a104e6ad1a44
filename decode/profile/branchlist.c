/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * branchlist: the tables of branches and ranges, their order, and the text form
 * (auxdecode.1, BRANCH LISTS). Lists are merged by reading them into one.
 *
 * Entries lie in one array per table, in the order in which they were met; a
 * hash table of indexes finds them by key. Indexes are thus stable while
 * entries are added, so that profile_collect can keep them with paths; sorting
 * is left to the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clean.h"
#include "common/array.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/profile/branchlist.h"

/* Of a table: indexes are int, and a text that is not trusted must not exhaust
 * them. */
#define MAX_ENTRIES ((size_t)1 << 28)

/* table */
static const char *const kind_names[BRANCHLIST_N_KINDS] = {
	[BRANCHLIST_COND] = "cond",
	[BRANCHLIST_JUMP] = "jmp",
	[BRANCHLIST_CALL] = "call",
	[BRANCHLIST_RET] = "ret",
	[BRANCHLIST_IND_JUMP] = "indjmp",
	[BRANCHLIST_IND_CALL] = "indcall",
	[BRANCHLIST_SYSCALL] = "syscall",
	[BRANCHLIST_FAR] = "far",
	[BRANCHLIST_ASYNC] = "async",
	[BRANCHLIST_INTERRUPT] = "intr",
	[BRANCHLIST_EXCEPTION] = "except",
};

const char *branchlist_kind_name(unsigned kind)
{
	return kind < BRANCHLIST_N_KINDS ? kind_names[kind] : NULL;
}

void branchlist_table_init(struct branchlist_table *t, size_t size, size_t key)
{
	*t = (struct branchlist_table){ .size = size, .key = key };
}

void branchlist_table_fini(struct branchlist_table *t)
{
	free(t->v);
	free(t->slots);
}

void branchlist_init(struct branchlist *l)
{
	*l = (struct branchlist){ 0 };
	branchlist_table_init(&l->branches, sizeof(struct branchlist_branch),
			      offsetof(struct branchlist_branch, count));
	branchlist_table_init(&l->ranges, sizeof(struct branchlist_range),
			      offsetof(struct branchlist_range, count));
}

void branchlist_fini(struct branchlist *l)
{
	for (size_t i = 0; i < l->n_modules; i++) {
		free(l->modules[i].path);
		free(l->modules[i].file);
	}
	free(l->modules);
	free(l->pieces);
	branchlist_table_fini(&l->branches);
	branchlist_table_fini(&l->ranges);
	*l = (struct branchlist){ 0 };
}

/* Keys are whole words without padding, so their bytes can be hashed and
 * compared. */
static uint64_t hash_key(const struct branchlist_table *t, const void *key)
{
	const uint8_t *p = key;
	uint64_t h = 0, w;

	for (size_t i = 0; i < t->key; i += sizeof(w)) {
		memcpy(&w, p + i, sizeof(w));
		h = (h ^ w) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static void *entry(const struct branchlist_table *t, size_t i)
{
	return (char *)t->v + i * t->size;
}

/* The slot of a key, or the free one where it belongs. */
static size_t find_slot(const struct branchlist_table *t, const void *key)
{
	size_t i = (size_t)hash_key(t, key) & (t->n_slots - 1);

	while (t->slots[i] &&
	       memcmp(entry(t, t->slots[i] - 1), key, t->key) != 0)
		i = (i + 1) & (t->n_slots - 1);
	return i;
}

/* Makes the hash table anew, with n_slots slots (a power of two). */
static int fill_slots(struct branchlist_table *t, size_t n_slots)
{
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -AUX_E_NOMEM;
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	for (size_t i = 0; i < t->n; i++)
		slots[find_slot(t, entry(t, i))] = (uint32_t)i + 1;
	return 0;
}

/* Doubles the entries. There are twice as many slots, so the table is half full
 * at most. */
static int grow_table(struct branchlist_table *t)
{
	size_t max = t->max ? t->max * 2 : 1024;
	void *v;
	int err;

	if (max > MAX_ENTRIES)
		return -AUX_E_LIMIT;
	v = reallocarray(t->v, max, t->size);
	if (!v)
		return -AUX_E_NOMEM;
	t->v = v;
	err = fill_slots(t, max * 2);
	if (!err)
		t->max = max;	/* else the next call tries again */
	return err;
}

int branchlist_table_find(struct branchlist_table *t, const void *key)
{
	size_t i;
	int err;

	if (t->n == t->max) {
		err = grow_table(t);
		if (err)
			return err;
	}
	i = find_slot(t, key);
	if (t->slots[i])
		return (int)t->slots[i] - 1;
	memset(entry(t, t->n), 0, t->size);
	memcpy(entry(t, t->n), key, t->key);
	t->slots[i] = (uint32_t)++t->n;
	return (int)t->n - 1;
}

int branchlist_branch(struct branchlist *l, const struct branchlist_branch *b)
{
	return branchlist_table_find(&l->branches, b);
}

int branchlist_range(struct branchlist *l, const struct branchlist_range *r)
{
	return branchlist_table_find(&l->ranges, r);
}

static int grow_modules(struct branchlist *l)
{
	size_t max = l->max_modules ? l->max_modules * 2 : 16;
	struct branchlist_module *m;

	if (max > 1 << 20)
		return -AUX_E_LIMIT;
	m = reallocarray(l->modules, max, sizeof(*m));
	if (!m)
		return -AUX_E_NOMEM;
	l->modules = m;
	l->max_modules = max;
	return 0;
}

/* A linear search: recordings have few modules, and place.c caches its
 * answers. */
int branchlist_module(struct branchlist *l, const char *path, const char *id)
{
	struct branchlist_module *m;
	int err;

	for (size_t i = 0; i < l->n_modules; i++) {
		m = &l->modules[i];
		if (!strcmp(m->path, path) && !strcmp(m->id, id))
			return (int)i;
	}
	err = l->n_modules == l->max_modules ? grow_modules(l) : 0;
	if (err)
		return err;
	m = &l->modules[l->n_modules];
	*m = (struct branchlist_module){ .path = strdup(path) };
	if (!m->path)
		return -AUX_E_NOMEM;
	memcpy(m->id, id, strnlen(id, sizeof(m->id) - 1));
	return (int)l->n_modules++;
}

void branchlist_sum(struct branchlist *l)
{
	const struct branchlist_range *r = branchlist_ranges(l);

	for (size_t i = 0; i < l->n_modules; i++)
		l->modules[i].n_insns = 0;
	for (size_t i = 0; i < l->ranges.n; i++)
		l->modules[r[i].module].n_insns += r[i].n_insns * r[i].count;
}

/* ---- Order: by path and address, so that equal runs give equal text ---- */

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int order_modules(const void *a, const void *b, void *list)
{
	const struct branchlist *l = list;
	const struct branchlist_module *x = &l->modules[*(const uint32_t *)a];
	const struct branchlist_module *y = &l->modules[*(const uint32_t *)b];
	int c = strcmp(x->path, y->path);

	return c ? c : strcmp(x->id, y->id);
}

static int order_branches(const void *a, const void *b)
{
	const struct branchlist_branch *x = a, *y = b;
	int c = ORDER(x->from_module, y->from_module);

	c = c ? c : ORDER(x->from, y->from);
	c = c ? c : ORDER(x->to_module, y->to_module);
	c = c ? c : ORDER(x->to, y->to);
	return c ? c : ORDER(x->kind, y->kind);
}

static int order_ranges(const void *a, const void *b)
{
	const struct branchlist_range *x = a, *y = b;
	int c = ORDER(x->module, y->module);

	c = c ? c : ORDER(x->first, y->first);
	c = c ? c : ORDER(x->last, y->last);
	c = c ? c : ORDER(x->outside, y->outside);
	return c ? c : ORDER(x->n_insns, y->n_insns);
}

/* Maps the module indexes of all entries, which changes their keys: slots are
 * stale then. */
static void renumber(struct branchlist *l, const uint32_t *to)
{
	struct branchlist_branch *b = branchlist_branches(l);
	struct branchlist_range *r = branchlist_ranges(l);

	for (size_t i = 0; i < l->branches.n; i++) {
		b[i].from_module = to[b[i].from_module];
		if (b[i].to_module != BRANCHLIST_NOWHERE)
			b[i].to_module = to[b[i].to_module];
	}
	for (size_t i = 0; i < l->ranges.n; i++)
		r[i].module = to[r[i].module];
	for (size_t i = 0; i < l->n_pieces; i++)
		l->pieces[i].module = to[l->pieces[i].module];
}

/* Sorts modules and renumbers entries; sort_table makes the hash tables valid
 * again. */
static int sort_modules(struct branchlist *l)
{
	struct branchlist_module *sorted = calloc(l->n_modules, sizeof(*sorted));
	uint32_t *from = calloc(l->n_modules, sizeof(*from));
	uint32_t *to = calloc(l->n_modules, sizeof(*to));
	int err = -AUX_E_NOMEM;

	if (!sorted || !from || !to)
		goto out;
	for (uint32_t i = 0; i < l->n_modules; i++)
		from[i] = i;
	qsort_r(from, l->n_modules, sizeof(*from), order_modules, l);
	for (uint32_t i = 0; i < l->n_modules; i++) {
		sorted[i] = l->modules[from[i]];
		to[from[i]] = i;
	}
	memcpy(l->modules, sorted, l->n_modules * sizeof(*sorted));
	renumber(l, to);
	err = 0;
out:
	free(sorted);
	free(from);
	free(to);
	return err;
}

/* Sorting moves entries, so their slots are found anew. */
static int sort_table(struct branchlist_table *t,
		      int (*order)(const void *a, const void *b))
{
	if (!t->n)
		return 0;
	qsort(t->v, t->n, t->size, order);
	return fill_slots(t, t->n_slots);
}

int branchlist_sort(struct branchlist *l)
{
	int err = l->n_modules ? sort_modules(l) : 0;

	if (!err)
		err = sort_table(&l->branches, order_branches);
	return err ? err : sort_table(&l->ranges, order_ranges);
}

/*
 * ---- Text ----
 *
 * Line by line, words separated by blanks; addresses are hexadecimal, all else
 * is decimal. A reader checks numbers for overflow, modules for having been
 * declared, and words for being known, so that any text gives a valid list or
 * an error with its line.
 */

#define MAX_MODULES (1 << 20)	/* a bound for texts that are not trusted */

/* ---- Writing ---- */

/* What clean.h does not show, and \ itself, are written as \ooo: a reader gets
 * the path as it was. */
static void put_path(struct outbuf *out, const char *path)
{
	for (size_t size; *path; path += size) {
		size_t n = clean_char(path, strnlen(path, 4), &size);

		if (n && *path != '\\') {
			outbuf_put(out, path, n);
			continue;
		}
		for (size_t i = 0; i < size; i++)
			outbuf_printf(out, "\\%03o", (unsigned char)path[i]);
	}
}

static void put_hex(struct outbuf *out, uint64_t v)
{
	char buf[20], *p = buf;

	*p++ = ' ';
	p = fmt_hex(p, v);
	outbuf_put(out, buf, (size_t)(p - buf));
}

static void put_dec(struct outbuf *out, uint64_t v)
{
	char buf[24], *p = buf;

	*p++ = ' ';
	p = fmt_dec(p, v);
	outbuf_put(out, buf, (size_t)(p - buf));
}

static void put_branch(struct outbuf *out, const struct branchlist_branch *b)
{
	outbuf_str(out, "branch");
	put_dec(out, b->from_module);
	put_hex(out, b->from);
	if (b->to_module == BRANCHLIST_NOWHERE) {
		outbuf_str(out, " - -");
	} else {
		put_dec(out, b->to_module);
		put_hex(out, b->to);
	}
	outbuf_put(out, " ", 1);
	outbuf_str(out, branchlist_kind_name(b->kind));
	put_dec(out, b->count);
	outbuf_put(out, "\n", 1);
}

static void put_range(struct outbuf *out, const struct branchlist_range *r)
{
	outbuf_str(out, "range");
	put_dec(out, r->module);
	put_hex(out, r->first);
	put_hex(out, r->last);
	put_dec(out, r->n_insns);
	put_dec(out, r->count);
	outbuf_str(out, r->outside ? " out\n" : " in\n");
}

static void put_cut(struct outbuf *out, uint64_t at)
{
	if (at == BRANCHLIST_NO_CUT)
		outbuf_str(out, " -");
	else
		put_hex(out, at);
}

static void put_piece(struct outbuf *out, const struct branchlist_piece *p)
{
	outbuf_str(out, "piece");
	put_dec(out, p->stream);
	put_cut(out, p->head);
	put_cut(out, p->tail);
	put_dec(out, p->module);
	put_hex(out, p->first);
	put_hex(out, p->last);
	put_dec(out, p->n_insns);
	outbuf_str(out, p->outside ? " out\n" : " in\n");
}

/* Modules come first, since a reader must know them before entries name
 * them. */
uint64_t branchlist_write(const struct branchlist *l, struct outbuf *out,
			  uint64_t max)
{
	const struct branchlist_branch *b = branchlist_branches(l);
	const struct branchlist_range *r = branchlist_ranges(l);
	uint64_t n = 0;

	outbuf_str(out, BRANCHLIST_MAGIC);
	outbuf_str(out, "# module N BUILD-ID main|lib PATH\n"
			"# branch MODULE FROM MODULE TO KIND COUNT\n"
			"# range MODULE FIRST LAST INSTRUCTIONS COUNT in|out\n");
	if (l->n_pieces)
		outbuf_str(out, "part\n");
	for (size_t i = 0; i < l->n_modules; i++) {
		const struct branchlist_module *m = &l->modules[i];

		outbuf_printf(out, "module %zu %s %s ", i, *m->id ? m->id : "-",
			      m->main ? "main" : "lib");
		put_path(out, m->path);
		outbuf_put(out, "\n", 1);
	}
	if (l->n_gaps)
		outbuf_printf(out, "gaps %llu\n",
			      (unsigned long long)l->n_gaps);
	for (size_t i = 0; i < l->branches.n && (!max || n < max); i++) {
		n += b[i].count != 0;
		if (b[i].count)
			put_branch(out, &b[i]);
	}
	for (size_t i = 0; i < l->ranges.n && (!max || n < max); i++) {
		n += r[i].count != 0;
		if (r[i].count)
			put_range(out, &r[i]);
	}
	if (l->n_pieces)
		outbuf_str(out, "# piece STREAM FROM-CUT TO-CUT MODULE FIRST "
				"LAST INSTRUCTIONS in|out\n");
	for (size_t i = 0; i < l->n_pieces && (!max || n < max); i++, n++)
		put_piece(out, &l->pieces[i]);
	return n;
}

/* ---- Reading ---- */

/* One line, word by word. bad is sticky, so callers check it once, at the
 * end. */
struct line {
	const char *p, *end;
	bool bad;
};

/* Saturates: a sum that wraps around would look like a small count. */
void branchlist_add_count(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

struct parser {
	struct branchlist *list;
	bool part;		/* of one recording, as others may be */
	uint32_t *map;		/* module numbers of the text -> of the list */
	size_t n_map, max_map;
};

/* The length of the next word, which starts at *word; an empty one makes the
 * line bad. */
static size_t next_word(struct line *l, const char **word)
{
	while (l->p < l->end && *l->p == ' ')
		l->p++;
	*word = l->p;
	while (l->p < l->end && *l->p != ' ')
		l->p++;
	l->bad |= l->p == *word;
	return (size_t)(l->p - *word);
}

/* True if the word of n bytes at w is text. */
static bool is_word(const char *w, size_t n, const char *text)
{
	return n == strlen(text) && !memcmp(w, text, n);
}

/* 99: no digit of any base. */
static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static uint64_t parse_number(struct line *l, unsigned base)
{
	const char *w;
	size_t n = next_word(l, &w);
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned d = (unsigned)digit_of(w[i]);

		l->bad |= d >= base || __builtin_mul_overflow(v, base, &v) ||
			  __builtin_add_overflow(v, d, &v);
	}
	return l->bad ? 0 : v;
}

/* The module of a number of the text. It must have been declared above. */
static uint32_t parse_module(struct parser *p, struct line *l)
{
	uint64_t v = parse_number(l, 10);

	l->bad |= v >= p->n_map;
	return l->bad ? 0 : p->map[v];
}

static uint32_t parse_kind(struct line *l)
{
	const char *w;
	size_t n = next_word(l, &w);

	for (unsigned i = 0; i < BRANCHLIST_N_KINDS; i++) {
		const char *name = branchlist_kind_name(i);

		if (name && is_word(w, n, name))
			return i;
	}
	l->bad = true;
	return 0;
}

static int parse_branch(struct parser *p, struct line *l)
{
	struct branchlist_branch b = { .from_module = parse_module(p, l) };
	uint64_t count;
	int i;

	b.from = parse_number(l, 16);
	while (l->p < l->end && *l->p == ' ')
		l->p++;
	if (l->end - l->p > 4 && !memcmp(l->p, "- - ", 4)) {
		b.to_module = BRANCHLIST_NOWHERE;
		l->p += 4;
	} else {
		b.to_module = parse_module(p, l);
		b.to = parse_number(l, 16);
	}
	b.kind = parse_kind(l);
	count = parse_number(l, 10);
	if (l->bad || l->p != l->end)
		return -AUX_E_FORMAT;
	i = branchlist_branch(p->list, &b);
	if (i >= 0)
		branchlist_add_count(&branchlist_branches(p->list)[i].count, count);
	return i < 0 ? i : 0;
}

/*
 * The last instruction starts at last, and each before it has one byte at
 * least: more instructions than bytes are malformed.
 */
static int parse_range(struct parser *p, struct line *l)
{
	struct branchlist_range r = { .module = parse_module(p, l) };
	uint64_t count, n_insns;
	const char *w;
	size_t n;
	int i;

	r.first = parse_number(l, 16);
	r.last = parse_number(l, 16);
	n_insns = parse_number(l, 10);
	r.n_insns = (uint32_t)n_insns;
	count = parse_number(l, 10);
	n = next_word(l, &w);
	r.outside = is_word(w, n, "out");
	if (l->bad || l->p != l->end || r.last < r.first || !r.n_insns ||
	    n_insns > UINT32_MAX || r.last - r.first < n_insns - 1 ||
	    (!r.outside && !is_word(w, n, "in")))
		return -AUX_E_FORMAT;
	i = branchlist_range(p->list, &r);
	if (i >= 0)
		branchlist_add_count(&branchlist_ranges(p->list)[i].count, count);
	return i < 0 ? i : 0;
}

static uint64_t parse_cut(struct line *l)
{
	uint64_t at;

	while (l->p < l->end && *l->p == ' ')
		l->p++;
	if (l->end - l->p > 2 && !memcmp(l->p, "- ", 2)) {
		l->p++;
		return BRANCHLIST_NO_CUT;
	}
	at = parse_number(l, 16);
	l->bad |= at == BRANCHLIST_NO_CUT;
	return at;
}

/* One with two cuts must not end before it begins. */
static int parse_piece(struct parser *p, struct line *l)
{
	struct branchlist_piece c = { 0 };
	uint64_t stream = parse_number(l, 10), n_insns;
	const char *w;
	size_t n;

	c.stream = (uint32_t)stream;
	c.head = parse_cut(l);
	c.tail = parse_cut(l);
	c.module = parse_module(p, l);
	c.first = parse_number(l, 16);
	c.last = parse_number(l, 16);
	n_insns = parse_number(l, 10);
	c.n_insns = (uint32_t)n_insns;
	n = next_word(l, &w);
	c.outside = is_word(w, n, "out");
	if (l->bad || l->p != l->end || stream > UINT32_MAX ||
	    n_insns > UINT32_MAX || c.last < c.first ||
	    (n_insns && c.last - c.first < n_insns - 1) ||
	    (c.head == BRANCHLIST_NO_CUT && c.tail == BRANCHLIST_NO_CUT) ||
	    (c.head != BRANCHLIST_NO_CUT && c.tail <= c.head) ||
	    (!c.outside && !is_word(w, n, "in")))
		return -AUX_E_FORMAT;
	return branchlist_piece(p->list, &c);
}

/* The rest of the line, \ooo decoded; a NUL makes the line bad. The caller
 * frees it; NULL: out of memory. */
static char *parse_path(struct line *l)
{
	char *path = malloc((size_t)(l->end - l->p) + 1), *to = path;

	l->bad |= l->p == l->end;
	while (path && l->p < l->end) {
		const char *s = l->p;

		if (*s == '\\' && l->end - s >= 4 && digit_of(s[1]) < 4 &&
		    digit_of(s[2]) < 8 && digit_of(s[3]) < 8) {
			*to++ = (char)(digit_of(s[1]) << 6 |
				       digit_of(s[2]) << 3 | digit_of(s[3]));
			l->p += 4;
		} else {
			*to++ = *s;
			l->p++;
		}
		l->bad |= !to[-1];
	}
	if (path)
		*to = '\0';
	return path;
}

/* Modules must be numbered 0, 1, 2, ... so that the map cannot be made huge. */
static int map_module(struct parser *p, uint64_t number, int module)
{
	if (module < 0)
		return module;
	if (number != p->n_map || number >= MAX_MODULES)
		return -AUX_E_FORMAT;
	if (array_grow(&p->map, p->n_map, &p->max_map, sizeof(*p->map)) < 0)
		return -AUX_E_NOMEM;
	p->map[p->n_map++] = (uint32_t)module;
	return 0;
}

/* A part may begin before the program was mapped, and take its loader for it: what
 * is a library in one part is none in the others. */
static int add_module(struct parser *p, uint64_t number, const char *path,
		      const char *id, bool is_main)
{
	size_t n = p->list->n_modules;
	int k = branchlist_module(p->list, path, id), rc;

	rc = map_module(p, number, k);
	if (rc)
		return rc;
	if (p->part && p->list->n_modules == n)
		p->list->modules[k].main &= is_main;
	else
		p->list->modules[k].main |= is_main;
	if (!p->list->modules[k].file && *path == '/')
		p->list->modules[k].file = strdup(path);
	return 0;
}

/* "module N BUILD-ID main|lib PATH"; BUILD-ID is "-" if it is not known. */
static int parse_module_line(struct parser *p, struct line *l)
{
	uint64_t number = parse_number(l, 10);
	const char *w, *role;
	char id[41] = "", *path;
	size_t n = next_word(l, &w), n_role;
	bool bad = n >= sizeof(id);
	int rc;

	for (size_t i = 0; i < n && !bad && !is_word(w, n, "-"); i++) {
		bad = digit_of(w[i]) > 15;
		id[i] = w[i];
	}
	n_role = next_word(l, &role);
	if (bad || l->bad || l->end - l->p < 2 ||
	    (!is_word(role, n_role, "main") && !is_word(role, n_role, "lib")))
		return -AUX_E_FORMAT;
	l->p++;
	path = parse_path(l);
	rc = !path ? -AUX_E_NOMEM : l->bad ? -AUX_E_FORMAT :
	     add_module(p, number, path, id, is_word(role, n_role, "main"));
	free(path);
	return rc;
}

/* Lines that start with # are comments. 0, -AUX_E_FORMAT, -AUX_E_NOMEM or
 * -AUX_E_LIMIT. */
static int parse_line(struct parser *p, struct line *l)
{
	const char *w;
	size_t n;

	if (l->p == l->end || *l->p == '#')
		return 0;
	n = next_word(l, &w);
	if (is_word(w, n, "branch"))
		return parse_branch(p, l);
	if (is_word(w, n, "range"))
		return parse_range(p, l);
	if (is_word(w, n, "piece"))
		return parse_piece(p, l);
	if (is_word(w, n, "module"))
		return parse_module_line(p, l);
	if (is_word(w, n, "part") && l->p == l->end) {
		p->part = true;
		return 0;
	}
	if (!is_word(w, n, "gaps"))
		return -AUX_E_FORMAT;
	branchlist_add_count(&p->list->n_gaps, parse_number(l, 10));
	return l->bad || l->p != l->end ? -AUX_E_FORMAT : 0;
}

int branchlist_read(struct branchlist *l, const char *text, size_t len,
		    struct aux_diag *diag)
{
	const char *p = text, *end = text + len, *nl;
	struct parser parser = { .list = l };
	unsigned long long n = 0;
	int rc = 0;

	if (len < strlen(BRANCHLIST_MAGIC) ||
	    memcmp(text, BRANCHLIST_MAGIC, strlen(BRANCHLIST_MAGIC)) != 0)
		return diag_set(diag, AUX_E_FORMAT, 0, "is no branch list (or "
				"one of a later version)");
	for (; p < end && !rc; p = nl + 1) {
		struct line line = { .p = p };

		n++;
		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl) {
			rc = diag_set(diag, AUX_E_TRUNCATED,
				      (uint64_t)(p - text),
				      "line %llu is cut", n);
			break;
		}
		line.end = nl;
		rc = parse_line(&parser, &line);
		if (rc == -AUX_E_FORMAT)
			diag_set(diag, AUX_E_FORMAT, (uint64_t)(p - text),
				 "line %llu is not one of a branch list", n);
	}
	free(parser.map);
	return rc;
}

/* ---- Files ---- */

/* The text of a file or pipe; the caller frees it, also after an error. */
static int read_all(int fd, char **text, size_t *len)
{
	size_t max = 0, n = 0;
	ssize_t got = 1;

	*text = NULL;
	while (got > 0) {
		if (max - n < 65536) {
			char *more = realloc(*text, max = max * 2 + 131072);

			if (!more)
				return -AUX_E_NOMEM;
			*text = more;
		}
		got = read(fd, *text + n, max - n);
		n += got > 0 ? (size_t)got : 0;
	}
	*len = n;
	return got < 0 ? -AUX_E_IO : 0;
}

int branchlist_read_file(struct branchlist *l, const char *path,
			 struct aux_diag *diag)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
	char *text = NULL;
	size_t len = 0;

	if (fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot open: %s",
				strerror(errno));
	rc = read_all(fd, &text, &len);
	if (rc == -AUX_E_IO)
		diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot read: %s",
			 strerror(errno));
	close(fd);
	if (!rc)
		rc = branchlist_read(l, text, len, diag);
	free(text);
	return rc;
}

bool branchlist_is_file(const char *path)
{
	char head[sizeof(BRANCHLIST_MAGIC)] = "";
	struct stat st;
	bool is = false;
	int fd;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		/* any version: a later one is an error of its own */
		is = read(fd, head, sizeof(head) - 1) > 23 &&
		     !memcmp(head, BRANCHLIST_MAGIC, 23);
		close(fd);
	}
	return is;
}
