/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: blocks and edges by file and offset, so that neither the load
 * address nor the number of processes matters. Code of no file (of a JIT
 * compiler) has no offset that means anything in another run: it is counted as
 * homeless and left out.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include <aux/flow.h>

#include "common/array.h"
#include "decode/callstack/names.h"
#include "decode/coverage/impl.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/insn.h"
#include "decode/lib/session/expand.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/sideband/sideband.h"

#define NO_MODULE UINT32_MAX

int cover_tally_init(struct cover_tally *t, const struct sink_host *host)
{
	struct walk_config wc = { .host = host };

	*t = (struct cover_tally){ .host = host };
	return walk_new(&t->walk, &wc);
}

void cover_tally_fini(struct cover_tally *t)
{
	cover_ahead_free(t->ahead);
	walk_free(t->walk);
	for (size_t i = 0; i < t->n_modules; i++)
		free(t->modules[i].views);
	free(t->modules);
	free(t->blocks);
	free(t->edges);
	free(t->block_index.slots);
	free(t->edge_index.slots);
}

/*
 * True if offsets in a mapping belong to a file that another run has, too.
 * Shared memory and memfds have paths but no file.
 */
static bool is_file(const struct mapping *m)
{
	return m->kind == MAPPING_KERNEL || m->kind == MAPPING_MODULE ||
	       !strcmp(m->path, "[vdso]") ||
	       (m->path[0] == '/' && m->path[1] != '/' &&
		strncmp(m->path, "/memfd:", 7) &&
		strncmp(m->path, "/dev/zero", 9) &&
		strncmp(m->path, "/SYSV", 5));
}

/* The same file: path and build id. One rebuilt during the recording counts as
 * another. */
static bool is_same(const struct cover_tally *t, const struct cover_module *a,
		    const struct mapping *m)
{
	if (a->code || (t->by_base && a->base != m->start - m->pgoff))
		return false;
	return a->kind == m->kind && a->build_id_size == m->build_id_size &&
	       !memcmp(a->build_id, m->build_id, sizeof(a->build_id)) &&
	       !strcmp(a->path, m->path);
}

/*
 * Finds the ELF image that the code view reads for ip, and shift. Offsets
 * differ if that is not the file that was mapped.
 */
static void find_image(struct cover_tally *t, struct cover_module *mod,
		       const struct space *space, const struct mapping *m,
		       uint64_t ip)
{
	uint64_t off;

	if (!t->host->image || t->host->image(t->host->priv, space, ip,
					      &mod->image, &off) < 0)
		mod->image = NULL;
	else
		mod->shift = off - (ip - m->start + m->pgoff);
	if (mod->image)
		cover_ahead_add(t->ahead, mod->image);
}

/* Room for a new module at the end; NULL: out of memory. */
static struct cover_module *new_module(struct cover_tally *t)
{
	if (array_grow(&t->modules, t->n_modules, &t->cap_modules,
		 sizeof(*t->modules)) < 0) {
		t->nomem = true;
		return NULL;
	}
	return &t->modules[t->n_modules];
}

bool cover_address(const struct cover_module *m, uint64_t off,
		   const struct space **space, uint64_t *ip)
{
	for (size_t i = 0; i < m->n_views; i++) {
		const struct cover_view *v = &m->views[i];

		if (off < v->off || off >= v->end)
			continue;
		*space = v->space;
		*ip = v->ip + (off - v->off);
		return true;
	}
	return false;
}

/* Remembers where a module is mapped, unless that part is known. */
static void add_view(struct cover_tally *t, struct cover_module *mod,
		     const struct cover_view *v)
{
	const struct space *space;
	uint64_t ip;

	if (t->all_code && !(cover_address(mod, v->off, &space, &ip) &&
			     cover_address(mod, v->end - 1, &space, &ip)))
		t->nomem |= array_append(&mod->views, &mod->n_views,
					 &mod->cap_views, v, sizeof(*v)) < 0;
}

static void add_mapping(struct cover_tally *t, struct cover_module *mod,
			const struct space *space, const struct mapping *m)
{
	struct cover_view v = { .space = space, .off = m->pgoff,
				.end = m->pgoff + (m->end - m->start),
				.ip = m->start };

	add_view(t, mod, &v);
}

/* The module of a mapping, a new one if need be; NO_MODULE: out of memory. */
static uint32_t add_module(struct cover_tally *t, const struct space *space,
			   const struct mapping *m, uint64_t ip)
{
	struct cover_module *mod;

	for (size_t i = 0; i < t->n_modules; i++) {
		mod = &t->modules[i];
		if (!is_same(t, mod, m))
			continue;
		if (m->start - m->pgoff == mod->base && m->end > mod->end)
			mod->end = m->end;
		add_mapping(t, mod, space, m);
		return (uint32_t)i;
	}
	mod = new_module(t);
	if (!mod)
		return NO_MODULE;
	*mod = (struct cover_module){
		.path = m->path, .build_id_size = m->build_id_size,
		.kind = m->kind, .pid = space->pid, .end = m->end,
		.base = m->start - m->pgoff,
	};
	memcpy(mod->build_id, m->build_id, sizeof(mod->build_id));
	find_image(t, mod, space, m, ip);
	add_mapping(t, mod, space, m);
	return (uint32_t)t->n_modules++;
}

/*
 * The module of code that is in no file, by the place of its bytes, which is the
 * same in all spaces that have it. path: of the mapping. NO_MODULE: there are no
 * bytes, or no memory.
 */
static uint32_t find_code(struct cover_tally *t, const struct space *space,
			  uint64_t ip, const char *path, uint64_t *off)
{
	struct cover_module *mod;
	struct aux_code area;
	uint32_t *last;

	if (!space || t->host->code(t->host->priv, space, ip, &area) ||
	    ip < area.start || ip >= area.end)
		return NO_MODULE;
	*off = ip - area.start;
	last = &t->last_code[((uintptr_t)area.bytes >> 4 ^
			      (uintptr_t)area.bytes >> 14) & 1023];
	if (*last && t->modules[*last - 1].code == area.bytes)
		return *last - 1;
	for (size_t i = 0; i < t->n_modules; i++) {
		if (t->modules[i].code != area.bytes)
			continue;
		*last = (uint32_t)i + 1;
		return (uint32_t)i;
	}
	mod = new_module(t);
	if (!mod)
		return NO_MODULE;
	*mod = (struct cover_module){
		.path = path, .pid = space->pid, .base = area.start,
		.end = area.end, .code = area.bytes,
	};
	add_view(t, mod, &(struct cover_view){
		.space = space, .end = area.end - area.start, .ip = area.start });
	*last = (uint32_t)++t->n_modules;
	return *last - 1;
}

static bool is_named(const char *path, const char *name)
{
	const char *base = strrchr(path, '/');

	return !strcmp(path, name) || (base && !strcmp(base + 1, name));
}

/* The module of an address, and the offset in it; NO_MODULE: none, or not
 * --module. */
static uint32_t find_module(struct cover_tally *t, const struct space *space,
			    uint64_t ip, uint64_t *off)
{
	const struct mapping *m = space ? space_find(space, ip) : NULL;
	size_t i = ((uintptr_t)m >> 4 ^ (uintptr_t)m >> 12) & 63;

	if (!m || t->last_map[i] != m) {
		if (t->all_code && (!m || !is_file(m)))
			return find_code(t, space, ip, m ? m->path : "", off);
		if (!m || !is_file(m) || (t->only && !is_named(m->path, t->only)))
			return NO_MODULE;
		t->last_module[i] = add_module(t, space, m, ip);
		t->last_map[i] = m;
	}
	*off = ip - m->start + m->pgoff;
	return t->last_module[i];
}

static bool is_wanted(const struct cover_tally *t, const struct space *space,
		      uint64_t ip)
{
	struct symbol sym = { 0 };

	if (t->all_code || !names_select(t->host->names))
		return true;
	if (!t->host->symbol ||
	    t->host->symbol(t->host->priv, space, ip, &sym))
		sym.name = NULL;
	return names_fit(t->host->names, sym.name, sym.dso);
}

static struct aux_flow flow_of(const struct cover_range *r)
{
	return (struct aux_flow){ .kind = AUX_FLOW_RANGE, .what = r->what,
				  .flags = r->flags, .n = r->n,
				  .range = { r->first, r->last } };
}

/*
 * The first address after a range; 0 if the range does not fit the code at
 * hand. Events that do not have the size of their last instruction need the
 * code for it.
 */
static uint64_t end_of(struct cover_tally *t, const struct space *space,
		       const struct cover_range *r)
{
	struct aux_flow ev = flow_of(r);
	struct walk_range w;
	unsigned size = r->flags & AUX_FLOW_SIZE_MASK;
	int err;

	err = walk_once(t->walk, space, &ev, &w);
	t->nomem |= err == -AUX_E_NOMEM;
	return err ? 0 : r->last + (size ? size : w.last_size);
}

/* ---- Adding up ---- */

static int by_block(const void *a, const void *b)
{
	const struct cover_block *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static int by_edge(const void *a, const void *b)
{
	const struct cover_edge *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	if (x->to_module != y->to_module)
		return x->to_module < y->to_module ? -1 : 1;
	if (x->to != y->to)
		return x->to < y->to ? -1 : 1;
	return x->what < y->what ? -1 : x->what > y->what;
}

/*
 * What ran often was met by many units, of each worker: equal blocks and edges are
 * added up where they come, for to sort all of them would take as long as to decode a
 * short trace.
 */
static size_t hash_words(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = a * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 32 ^ b) * UINT64_C(0xc2b2ae3d27d4eb4f);
	h = (h ^ h >> 29 ^ c) * UINT64_C(0x165667b19e3779f9);
	return (size_t)(h ^ h >> 32);
}

static size_t hash_block(const void *array, size_t i)
{
	const struct cover_block *b = (const struct cover_block *)array + i;

	return hash_words(b->off, b->module, b->size);
}

static size_t hash_edge(const void *array, size_t i)
{
	const struct cover_edge *e = (const struct cover_edge *)array + i;

	return hash_words(e->from, e->to ^ (uint64_t)e->what << 56,
			  (uint64_t)e->module << 32 | e->to_module);
}

/* Makes room for element n of the array. 0 or -AUX_E_NOMEM. */
static int grow_index(struct cover_index *index, const void *array, size_t n,
		      size_t (*hash)(const void *array, size_t i))
{
	size_t n_slots = index->n_slots ? 2 * index->n_slots : 1024;
	uint32_t *slots;

	if (2 * n < index->n_slots)
		return 0;
	slots = n < UINT32_MAX / 4 ? calloc(n_slots, sizeof(*slots)) : NULL;
	if (!slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		size_t at = hash(array, i) & (n_slots - 1);

		while (slots[at])
			at = (at + 1) & (n_slots - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(index->slots);
	*index = (struct cover_index){ slots, n_slots };
	return 0;
}

/* The slot of the element like the last one, number n, of an array of elements of that
 * size. */
static uint32_t *find_slot(struct cover_index *index, const void *array, size_t n,
			   size_t size, size_t hash,
			   int (*compare)(const void *a, const void *b))
{
	const uint8_t *v = array;
	size_t at = hash & (index->n_slots - 1);

	while (index->slots[at] &&
	       compare(v + (index->slots[at] - 1) * size, v + n * size))
		at = (at + 1) & (index->n_slots - 1);
	return &index->slots[at];
}

static int add_block(struct cover_tally *t, const struct cover_block *b)
{
	size_t n = t->n_blocks;
	uint32_t *slot;

	if (array_grow(&t->blocks, n, &t->cap_blocks, sizeof(*b)) < 0 ||
	    grow_index(&t->block_index, t->blocks, n, hash_block) < 0)
		return -AUX_E_NOMEM;
	t->blocks[n] = *b;
	slot = find_slot(&t->block_index, t->blocks, n, sizeof(*b),
			 hash_block(t->blocks, n), by_block);
	if (*slot) {
		t->blocks[*slot - 1].n += b->n;
		t->blocks[*slot - 1].cycles += b->cycles;
	} else {
		*slot = (uint32_t)++t->n_blocks;
	}
	return 0;
}

static int add_edge(struct cover_tally *t, const struct cover_edge *e)
{
	size_t n = t->n_edges;
	uint32_t *slot;

	if (array_grow(&t->edges, n, &t->cap_edges, sizeof(*e)) < 0 ||
	    grow_index(&t->edge_index, t->edges, n, hash_edge) < 0)
		return -AUX_E_NOMEM;
	t->edges[n] = *e;
	slot = find_slot(&t->edge_index, t->edges, n, sizeof(*e),
			 hash_edge(t->edges, n), by_edge);
	if (*slot)
		t->edges[*slot - 1].n += e->n;
	else
		*slot = (uint32_t)++t->n_edges;
	return 0;
}

int cover_tally_range(struct cover_tally *t, const struct space *space,
		      const struct cover_range *r, uint64_t n, uint64_t cycles)
{
	uint64_t off, end = end_of(t, space, r);
	uint32_t module;

	t->n_insns += n * r->n;
	t->cycles += cycles;
	if (!end) {
		t->n_mismatches += n;
		return 0;
	}
	if (!is_wanted(t, space, r->first)) {
		t->n_filtered += n * r->n;
		return 0;
	}
	module = find_module(t, space, r->first, &off);
	if (module == NO_MODULE) {
		t->n_homeless += n * r->n;
		return 0;
	}
	t->modules[module].mode = r->flags & AUX_FLOW_MODE_MASK;
	return add_block(t, &(struct cover_block){
		.off = off, .n = n, .cycles = cycles, .module = module,
		.size = (uint32_t)(end - r->first), .n_insns = r->n,
		.mode = r->flags & AUX_FLOW_MODE_MASK,
	});
}

/* System calls and far branches leave user code: where they go is not
 * coverage. */
int cover_tally_edge(struct cover_tally *t, const struct space *space,
		     const struct cover_range *r, const struct space *to_space,
		     uint64_t to, uint64_t n)
{
	struct cover_edge e = { .n = n, .what = r->what };

	if (r->what == AUX_END_FALL || r->what == AUX_END_SYSCALL ||
	    r->what == AUX_END_FAR || !is_wanted(t, space, r->first))
		return 0;
	e.module = find_module(t, space, r->last, &e.from);
	e.to_module = find_module(t, to_space, to, &e.to);
	if (e.module == NO_MODULE || e.to_module == NO_MODULE)
		return 0;
	return add_edge(t, &e);
}

int cover_tally_end(struct cover_tally *t, const struct space *space,
		    const struct cover_range *r, uint64_t n)
{
	uint8_t code[16];
	uint64_t to;
	size_t len;

	if (r->what == AUX_END_COND_NOT_TAKEN) {
		to = end_of(t, space, r);
		return to ? cover_tally_edge(t, space, r, space, to, n) : 0;
	}
	if (r->what != AUX_END_COND_TAKEN && r->what != AUX_END_JUMP &&
	    r->what != AUX_END_CALL)
		return 0;
	len = walk_bytes(t->walk, space, r->last, code, sizeof(code));
	if (!insn_target(code, len, r->last, r->flags & AUX_FLOW_MODE_MASK,
			 &to))
		return 0;
	return cover_tally_edge(t, space, r, space, to, n);
}

/* ---- Sorting ---- */

static int by_path(const void *a, const void *b)
{
	const struct cover_module *x = *(const struct cover_module *const *)a;
	const struct cover_module *y = *(const struct cover_module *const *)b;
	int c = strcmp(x->path, y->path);

	if (!c)
		c = memcmp(x->build_id, y->build_id, sizeof(x->build_id));
	return c ? c : (x->base > y->base) - (x->base < y->base);
}

/* Modules come in the order in which workers met them: by path, what is made of
 * them is the same in each run. */
static int sort_modules(struct cover_tally *t)
{
	struct cover_module **order = calloc(t->n_modules + 1, sizeof(*order));
	struct cover_module *all = calloc(t->n_modules + 1, sizeof(*all));
	uint32_t *to = calloc(t->n_modules + 1, sizeof(*to));
	int rc = order && all && to ? 0 : -AUX_E_NOMEM;

	for (size_t i = 0; i < t->n_modules && !rc; i++)
		order[i] = &t->modules[i];
	if (!rc && t->n_modules)
		qsort(order, t->n_modules, sizeof(*order), by_path);
	for (size_t i = 0; i < t->n_modules && !rc; i++) {
		all[i] = *order[i];
		to[order[i] - t->modules] = (uint32_t)i;
	}
	for (size_t i = 0; i < t->n_blocks && !rc; i++)
		t->blocks[i].module = to[t->blocks[i].module];
	for (size_t i = 0; i < t->n_edges && !rc; i++) {
		t->edges[i].module = to[t->edges[i].module];
		t->edges[i].to_module = to[t->edges[i].to_module];
	}
	if (!rc && t->n_modules)
		memcpy(t->modules, all, t->n_modules * sizeof(*all));
	free(order);
	free(all);
	free(to);
	return rc;
}

static void sort_blocks(struct cover_tally *t)
{
	size_t n = 0;

	if (t->n_blocks)
		qsort(t->blocks, t->n_blocks, sizeof(*t->blocks), by_block);
	for (size_t i = 0; i < t->n_blocks; i++) {
		if (n && !by_block(&t->blocks[n - 1], &t->blocks[i])) {
			t->blocks[n - 1].n += t->blocks[i].n;
			t->blocks[n - 1].cycles += t->blocks[i].cycles;
		} else {
			t->blocks[n++] = t->blocks[i];
		}
	}
	t->n_blocks = n;
	for (size_t i = n; i-- > 0;) {
		t->modules[t->blocks[i].module].block = i;
		t->modules[t->blocks[i].module].n_blocks++;
	}
}

int cover_tally_sort(struct cover_tally *t)
{
	size_t n = 0;

	if (sort_modules(t) < 0)
		return -AUX_E_NOMEM;
	sort_blocks(t);
	if (t->n_edges)
		qsort(t->edges, t->n_edges, sizeof(*t->edges), by_edge);
	for (size_t i = 0; i < t->n_edges; i++) {
		if (n && !by_edge(&t->edges[n - 1], &t->edges[i]))
			t->edges[n - 1].n += t->edges[i].n;
		else
			t->edges[n++] = t->edges[i];
	}
	t->n_edges = n;
	for (size_t i = n; i-- > 0;) {
		t->modules[t->edges[i].module].edge = i;
		t->modules[t->edges[i].module].n_edges++;
	}
	return 0;
}

const struct cover_edge *cover_edges_from(const struct cover_tally *t,
					  const struct cover_module *m,
					  uint64_t off,
					  const struct cover_edge **end)
{
	const struct cover_edge *e = t->edges + m->edge;
	size_t lo = 0, n = m->n_edges;

	*end = e + n;
	while (n) {
		size_t half = n / 2;

		if (e[lo + half].from < off) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return e + lo;
}
