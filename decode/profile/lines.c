/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: from ranges to counts by function and source line, with inlined
 * functions as the compiler nested them. AutoFDO profiles (autofdo.c, gcov.c)
 * are written from these.
 *
 * Ranges overlap, so they are turned into the points at which the count
 * changes; between two of them all instructions ran equally often. Each
 * instruction that ran is then visited once.
 *
 * The count of a place (line and discriminator) is the maximum over its
 * instructions, as in AutoFDO's create_llvm_prof: the sum would count a line
 * once per instruction.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/elf/elf.h"
#include "decode/profile/impl.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/elf/insn.h"

#define MAX_INLINES 128
#define MAX_NAMES ((size_t)1 << 24)

/* From offset on the count is larger by add; modulo 2^64, so it may be
 * negative. */
struct change {
	uint64_t offset;
	uint64_t add;
	bool first;	/* an instruction starts here */
};

struct maker {
	struct profile_lines *lines;
	const struct profile_module *m;
	struct profile_result *result;
	const uint8_t *code;
	uint64_t len;
	unsigned mode;
	struct inline_frame frames[MAX_INLINES];
};

static void add_count(uint64_t *sum, uint64_t n)
{
	if (__builtin_add_overflow(*sum, n, sum))
		*sum = UINT64_MAX;
}

/*
 * ---- Discriminators of LLVM ----
 *
 * include/llvm/IR/DebugInfoMetadata.h packs three components into one number:
 * base discriminator, duplication factor (of unrolling and vectorizing), copy
 * identifier. A component is one bit 1 if it is 0; else a bit 0 and 5 bits of
 * value, or, if bit 6 is set, 12 bits of it.
 */

static uint32_t decode_component(uint32_t d)
{
	if (d & 1)
		return 0;
	d >>= 1;
	return d & 0x20 ? (d >> 1 & 0xfe0) | (d & 0x1f) : d & 0x1f;
}

static uint32_t next_component(uint32_t d)
{
	if (d & 1)
		return d >> 1;
	return d >> (d & 0x40 ? 14 : 7);
}

static uint32_t base_of(const struct profile_lines *l, uint32_t d)
{
	return l->clang ? decode_component(d) : 0;
}

static uint32_t factor_of(const struct profile_lines *l, uint32_t d)
{
	uint32_t factor = decode_component(next_component(d));

	return l->clang && factor ? factor : 1;
}

/* ---- Places ---- */

static const char *name_of(const struct inline_frame *f)
{
	return f->linkage ? f->linkage : f->name;
}

/* Lines are relative to the function, so that edits above it do not invalidate
 * a profile. Compilers keep 16 bits of the difference. */
static uint32_t line_in(const struct inline_frame *f, uint32_t line)
{
	return (line - f->decl_line) & 0xffff;
}

/*
 * Names of functions, each once; their indexes are the numbers of gcov.c's
 * table of names. A hash table (FNV-1a), since C++ programs have many and long
 * ones.
 */
static size_t find_slot(const struct profile_lines *l, const char *name)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	size_t i;

	for (const char *p = name; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	i = (size_t)(h ^ h >> 32) & (l->n_name_slots - 1);
	while (l->name_slots[i] &&
	       strcmp(l->names[l->name_slots[i] - 1], name) != 0)
		i = (i + 1) & (l->n_name_slots - 1);
	return i;
}

/* Doubles names and slots; slots are twice as many, so they are half full at
 * most. */
static int grow_names(struct profile_lines *l)
{
	size_t max = l->max_names ? 2 * l->max_names : 256;
	uint32_t *slots;
	char **names;

	if (max > MAX_NAMES)
		return -AUX_E_LIMIT;
	names = reallocarray(l->names, max, sizeof(*names));
	if (!names)
		return -AUX_E_NOMEM;
	l->names = names;
	slots = calloc(2 * max, sizeof(*slots));
	if (!slots)
		return -AUX_E_NOMEM;
	free(l->name_slots);
	l->name_slots = slots;
	l->n_name_slots = 2 * max;
	l->max_names = max;
	for (size_t i = 0; i < l->n_names; i++)
		slots[find_slot(l, names[i])] = (uint32_t)i + 1;
	return 0;
}

/* The index of a name, a new one if need be; or -AUX_E_NOMEM, -AUX_E_LIMIT. */
static int find_name(struct profile_lines *l, const char *name)
{
	size_t i;
	int err = l->n_names == l->max_names ? grow_names(l) : 0;

	if (err)
		return err;
	i = find_slot(l, name);
	if (l->name_slots[i])
		return (int)l->name_slots[i] - 1;
	l->names[l->n_names] = strdup(name);
	if (!l->names[l->n_names])
		return -AUX_E_NOMEM;
	l->name_slots[i] = (uint32_t)++l->n_names;
	return (int)l->n_names - 1;
}

static int find_func(struct profile_lines *l, uint32_t parent,
		     const struct inline_frame *f, uint32_t line, uint32_t disc)
{
	struct profile_lines_func key = { .parent = parent, .line = line,
					  .disc = disc };
	int name = find_name(l, name_of(f));

	if (name < 0)
		return name;
	key.name = (uint32_t)name;
	return branchlist_table_find(&l->funcs, &key);
}

/* Sets mk->frames, innermost first, all with names; returns how many, 0: not
 * known. */
static int find_frames(struct maker *mk, uint64_t offset,
		       struct source_line *line)
{
	int n;

	if (elfimage_line(mk->m->image, offset, line) || !line->line)
		return 0;
	n = elfimage_inlines(mk->m->image, offset, mk->frames, MAX_INLINES);
	if (n < 0 || n > MAX_INLINES)
		return 0;
	for (int i = 0; i < n; i++)
		if (!name_of(&mk->frames[i]))
			return 0;
	return n;
}

/*
 * Sets *key to the innermost function at an offset and the place in it;
 * functions around it are added as they are met. 1; 0: no source line is known;
 * or -AUX_E_*.
 */
static int find_place(struct maker *mk, uint64_t offset,
		      struct profile_lines_place *key, uint32_t *factor)
{
	struct profile_lines *l = mk->lines;
	struct source_line line = { 0 };
	int n = find_frames(mk, offset, &line), func;

	if (!n)
		return 0;
	func = find_func(l, PROFILE_LINES_ROOT, &mk->frames[n - 1], 0, 0);
	for (int i = n - 1; i > 0 && func >= 0; i--) {
		const struct source_line *call = &mk->frames[i - 1].call;

		func = find_func(l, (uint32_t)func, &mk->frames[i - 1],
				 line_in(&mk->frames[i], call->line),
				 base_of(l, call->discriminator));
	}
	if (func < 0)
		return func;
	*key = (struct profile_lines_place){
		.func = (uint32_t)func,
		.line = line_in(&mk->frames[0], line.line),
		.disc = base_of(l, line.discriminator),
	};
	*factor = factor_of(l, line.discriminator);
	return 1;
}

/*
 * Adds one instruction that ran count times. A place of which the compiler made
 * factor copies ran so much more often.
 */
static int add_insn(struct maker *mk, uint64_t offset, uint64_t count)
{
	struct profile_lines_place key, *place;
	uint32_t factor;
	int rc = find_place(mk, offset, &key, &factor);

	if (rc <= 0) {
		add_count(&mk->result->n_no_line, rc ? 0 : count);
		return rc;
	}
	rc = branchlist_table_find(&mk->lines->places, &key);
	if (rc < 0)
		return rc;
	if (__builtin_mul_overflow(count, factor, &count))
		count = UINT64_MAX;
	place = (struct profile_lines_place *)mk->lines->places.v + rc;
	if (place->count < count)
		place->count = count;
	return 0;
}

/* ---- Instructions ---- */

static int by_offset(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The *n changes of the module's ranges, sorted; the caller frees them. NULL:
 * out of memory. */
static struct change *list_changes(const struct profile_module *m, size_t *n)
{
	const struct branchlist_range *r = branchlist_ranges(m->list);
	struct change *c = calloc(m->list->ranges.n + 1, 2 * sizeof(*c));

	*n = 0;
	for (size_t i = 0; c && i < m->list->ranges.n; i++) {
		if (r[i].module != m->index || !r[i].count)
			continue;
		c[(*n)++] = (struct change){ r[i].first, r[i].count, true };
		c[(*n)++] = (struct change){ r[i].last + 1, -r[i].count, false };
	}
	if (c)
		qsort(c, *n, sizeof(*c), by_offset);
	return c;
}

/* Bytes that are no instruction are stepped over one by one. */
static uint64_t insn_size(const struct maker *mk, uint64_t offset)
{
	int n = insn_length(mk->code + offset, mk->len - offset, mk->mode);

	return n > 0 ? (uint64_t)n : 1;
}

/*
 * Visits each instruction at which the count is not 0; where it is 0, skips to
 * the next change. Instructions are decoded in sequence, so `at` stays on their
 * starts. 0 or -AUX_E_*.
 */
static int walk_changes(struct maker *mk, const struct change *c, size_t n)
{
	uint64_t at = 0, count = 0;
	size_t i = 0;
	int rc = 0;

	while (rc >= 0) {
		if (!count && i < n)
			at = c[i].offset;
		for (; i < n && c[i].offset <= at; i++)
			count += c[i].add;
		if (!count && i == n)
			break;
		if (!count)
			continue;
		if (at >= mk->len) {
			add_count(&mk->result->n_no_code, count);
			return 0;
		}
		rc = add_insn(mk, at, count);
		at += insn_size(mk, at);
	}
	return rc;
}

static unsigned mode_of(const uint8_t *elf, uint64_t len)
{
	unsigned machine = len < 20 ? 0 :
		elf[EI_DATA] == ELFDATA2MSB ? elf[18] << 8 | elf[19]
					    : elf[19] << 8 | elf[18];

	switch (machine) {
	case EM_AARCH64:
		return AUX_FLOW_MODE_A64;
	case EM_386:
		return AUX_FLOW_MODE_X86_32;
	case EM_ARM:
		return AUX_FLOW_MODE_T32;
	default:
		return AUX_FLOW_MODE_X86_64;
	}
}

static int add_ranges(struct maker *mk)
{
	size_t n;
	struct change *c = list_changes(mk->m, &n);
	int rc = c ? walk_changes(mk, c, n) : -AUX_E_NOMEM;

	free(c);
	return rc;
}

/* ---- Calls ---- */

/* True if the branch leaves its function; a jump back to its start is a
 * loop. */
static bool leaves(const struct maker *mk, const struct branchlist_branch *b)
{
	struct elfimage_symbol sym;

	return b->from_module != b->to_module ||
	       elfimage_symbol(mk->m->image, b->from, &sym) ||
	       sym.start != b->to;
}

static bool is_call(const struct maker *mk, const struct branchlist_branch *b)
{
	switch (b->kind) {
	case BRANCHLIST_CALL:
	case BRANCHLIST_IND_CALL:
		return true;
	case BRANCHLIST_JUMP:
	case BRANCHLIST_IND_JUMP:
	case BRANCHLIST_COND:
		return leaves(mk, b); /* a tail call */
	default:
		return false;
	}
}

static bool is_indirect(unsigned kind)
{
	return kind == BRANCHLIST_IND_CALL || kind == BRANCHLIST_IND_JUMP;
}

/* True if a function starts at the offset. gcc's .cold parts are symbols but no
 * functions: the jump into one is no call. */
static bool is_entry(const struct maker *mk, uint64_t offset)
{
	struct elfimage_symbol sym;

	return !elfimage_symbol(mk->m->image, offset, &sym) &&
	       sym.start == offset && !strstr(sym.name, ".cold");
}

/* Counts a call from the place of b, which may be in an inlined function. */
static int add_callee(struct maker *mk, const struct branchlist_branch *b,
		      uint32_t callee)
{
	struct profile_lines_place place;
	struct profile_lines_call key = { .name = callee }, *call;
	uint32_t factor;
	int rc = find_place(mk, b->from, &place, &factor);

	if (rc <= 0)
		return rc;
	key.func = place.func;
	key.line = place.line;
	key.disc = place.disc;
	rc = branchlist_table_find(&mk->lines->calls, &key);
	if (rc < 0)
		return rc;
	call = (struct profile_lines_call *)mk->lines->calls.v + rc;
	add_count(&call->count, b->count);
	add_count(&call->indirect, is_indirect(b->kind) ? b->count : 0);
	return 0;
}

/* A branch into a function of the module: counts its entry and, if the branch
 * is in the module as well, the call. */
static int add_call(struct maker *mk, const struct branchlist_branch *b)
{
	struct source_line line;
	struct profile_lines_func *f;
	int n, func;

	if (b->to_module != mk->m->index || !b->count ||
	    !is_entry(mk, b->to) || !is_call(mk, b))
		return 0;
	n = find_frames(mk, b->to, &line);
	if (!n)
		return 0;
	func = find_func(mk->lines, PROFILE_LINES_ROOT, &mk->frames[n - 1], 0,
			 0);
	if (func < 0)
		return func;
	f = (struct profile_lines_func *)mk->lines->funcs.v + func;
	add_count(&f->head, b->count);
	if (b->from_module != mk->m->index)
		return 0;
	return add_callee(mk, b, f->name);
}

/* Children have higher indexes than their parents, so one pass from the end
 * does. */
static void sum_totals(struct profile_lines *l)
{
	const struct profile_lines_place *p = l->places.v;
	struct profile_lines_func *f = l->funcs.v;

	for (size_t i = 0; i < l->places.n; i++)
		add_count(&f[p[i].func].total, p[i].count);
	for (size_t i = l->funcs.n; i > 0; i--)
		if (f[i - 1].parent != PROFILE_LINES_ROOT)
			add_count(&f[f[i - 1].parent].total, f[i - 1].total);
}

int profile_lines_new(struct profile_lines *l, const struct profile_module *m,
		      bool clang, struct profile_result *result)
{
	struct maker mk = { .lines = l, .m = m, .result = result };
	const struct branchlist_branch *b = branchlist_branches(m->list);
	int rc;

	*l = (struct profile_lines){ .clang = clang };
	branchlist_table_init(&l->funcs, sizeof(struct profile_lines_func),
			      offsetof(struct profile_lines_func, head));
	branchlist_table_init(&l->places, sizeof(struct profile_lines_place),
			      offsetof(struct profile_lines_place, count));
	branchlist_table_init(&l->calls, sizeof(struct profile_lines_call),
			      offsetof(struct profile_lines_call, count));
	if (!m->image) {
		result->n_no_code = m->list->modules[m->index].n_insns;
		return 0;
	}
	mk.code = elfimage_data(m->image, &mk.len);
	mk.mode = mode_of(mk.code, mk.len);
	rc = add_ranges(&mk);
	for (size_t i = 0; i < m->list->branches.n && rc >= 0; i++)
		rc = add_call(&mk, &b[i]);
	sum_totals(l);
	return rc < 0 ? rc : 0;
}

void profile_lines_free(struct profile_lines *l)
{
	branchlist_table_fini(&l->funcs);
	branchlist_table_fini(&l->places);
	branchlist_table_fini(&l->calls);
	for (size_t i = 0; i < l->n_names; i++)
		free(l->names[i]);
	free(l->names);
	free(l->name_slots);
	free(l->order);
	*l = (struct profile_lines){ 0 };
}
