/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the memory of the store. What is asked for is in blocks that go as a whole; what
 * is looked up all over is in tables.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "decode/lib/pt/engine.h"

#define BLOCK_MIN 4096
#define SLOTS_FIRST 4096
#define HUGE_PAGE ((size_t)2 << 20)
#define WHERES 65536		/* pt_entry_where */
#define LIMIT ((size_t)96 << 20)

/* Written at once: what is read first has a page of zeros, and its own costs a second
 * fault and an interrupt of the other threads. What is large is looked up all over:
 * huge pages spare the TLB. */
void *pt_store_table(size_t size)
{
	void *p = aligned_alloc(size < HUGE_PAGE ? PT_LINE : HUGE_PAGE, size);

	if (!p)
		return NULL;
	if (size >= HUGE_PAGE)
		madvise(p, size, MADV_HUGEPAGE);
	return memset(p, 0, size);
}

/* Fresh pages are dear: its are blocks from now on. */
void pt_store_reuse(struct pt_store *s, void *table, size_t size)
{
	struct pt_block *b = table;

	b->size = size;
	b->next = s->spare;
	s->spare = b;
}

int pt_store_init(struct pt_store *s, const struct aux_decoder_host *host)
{
	*s = (struct pt_store){ .host = host, .limit = LIMIT };
	s->nodes = pt_store_table(SLOTS_FIRST * sizeof(*s->nodes));
	s->paths = pt_store_table(SLOTS_FIRST * sizeof(*s->paths));
	s->ready = malloc(WHERES * sizeof(*s->ready));
	s->ready_regions = malloc(PT_REGIONS * sizeof(*s->ready_regions));
	s->node_mask = SLOTS_FIRST - 1;
	s->max_paths = SLOTS_FIRST;
	s->path_mask = pt_path_mask(SLOTS_FIRST);
	s->n_regions = 1;
	if (!s->nodes || !s->paths || !s->ready || !s->ready_regions)
		return -AUX_E_NOMEM;
	for (unsigned i = 0; i < WHERES; i++)
		s->ready[i] = PT_UNKNOWN;
	return 0;
}

static void free_blocks(void *what)
{
	struct pt_block *b = what, *next;

	for (; b; b = next) {
		next = b->next;
		free(b);
	}
}

void pt_store_fini(struct pt_store *s)
{
	free_blocks(s->blocks);
	free_blocks(s->spare);
	free(s->nodes);
	free(s->paths);
	free(s->seen);
	free(s->ready);
	free(s->ready_regions);
}

void pt_store_forget_ready(struct pt_store *s)
{
	for (uint32_t i = 0; i < s->n_ready; i++)
		for (unsigned end = 0; end < PT_N_ENDS; end++)
			s->ready[end * PT_REGIONS + s->ready_regions[i]] =
				PT_UNKNOWN;
	s->n_ready = 0;
}

void pt_store_drop(struct pt_store *s)
{
	if (s->host->forget && s->blocks)
		s->host->forget(s->host->priv, free_blocks, s->blocks);
	else
		free_blocks(s->blocks);
	s->blocks = NULL;
	s->free = NULL;
	s->free_regions = NULL;
	s->n_free = s->used = s->n_free_line = 0;
	s->full = false;
	pt_store_forget_ready(s);
	s->regions = s->last = NULL;
	s->n_regions = 1;
	s->n_nodes = s->n_paths = 0;
	memset(s->nodes, 0, (s->node_mask + (size_t)1) * sizeof(*s->nodes));
	memset(s->paths, 0, s->max_paths * sizeof(*s->paths));
	if (s->seen)
		memset(s->seen, 0, PT_SEEN * sizeof(*s->seen));
}

static struct pt_block *make_block(struct pt_store *s, size_t size)
{
	struct pt_block *b;

	b = aligned_alloc(size < HUGE_PAGE ? PT_LINE : HUGE_PAGE, size);
	if (!b) {
		s->nomem = true;
		return NULL;
	}
	if (size >= HUGE_PAGE)
		madvise(b, size, MADV_HUGEPAGE);
	b->size = size;
	return b;
}

static void link_block(struct pt_store *s, struct pt_block *b)
{
	b->next = s->blocks;
	s->blocks = b;
	s->used += b->size;
}

/* At least so large. */
static struct pt_block *add_block(struct pt_store *s, size_t size)
{
	struct pt_block **at = &s->spare, *b;

	while (*at && (*at)->size < size)
		at = &(*at)->next;
	b = *at;
	if (s->used + (b ? b->size : size) > s->limit) {
		s->full = true;
		return NULL;
	}
	if (b)
		*at = b->next;
	else
		b = make_block(s, size);
	if (b)
		link_block(s, b);
	return b;
}

/* Without one there is no code: they are few, and the limit is not for them. */
struct pt_region *pt_store_region(struct pt_store *s)
{
	struct pt_region *r = s->free_regions, *end;
	struct pt_block *b;

	if (!r) {
		b = make_block(s, BLOCK_MIN);
		if (!b)
			return NULL;
		link_block(s, b);
		end = (struct pt_region *)((uint8_t *)b + BLOCK_MIN);
		for (r = (struct pt_region *)((uint8_t *)b + PT_LINE);
		     r + 1 <= end; r++) {
			r->next = s->free_regions;
			s->free_regions = r;
		}
		r = s->free_regions;
	}
	s->free_regions = r->next;
	return r;
}

/* Small ones first: most traces are short. */
static size_t block_size(const struct pt_store *s)
{
	size_t small = s->limit / 384 & ~(size_t)(PT_LINE - 1);

	return s->used >= HUGE_PAGE ? HUGE_PAGE :
	       small > BLOCK_MIN ? small : BLOCK_MIN;
}

void *pt_store_alloc(struct pt_store *s, size_t size)
{
	struct pt_block *b;
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (size > block_size(s) / 4) {
		b = add_block(s, (size + PT_LINE + PT_LINE - 1) &
				 ~(size_t)(PT_LINE - 1));
		return b ? (uint8_t *)b + PT_LINE : NULL;
	}
	if (s->n_free < size) {
		b = add_block(s, block_size(s));
		if (!b)
			return NULL;
		s->free = (uint8_t *)b + PT_LINE;
		s->n_free = b->size - PT_LINE;
	}
	p = s->free;
	s->free += size;
	s->n_free -= size;
	return p;
}

void *pt_store_lines(struct pt_store *s, size_t size)
{
	struct pt_block *b;
	void *p;

	size = (size + PT_LINE - 1) & ~(size_t)(PT_LINE - 1);
	if (s->n_free_line < size) {
		b = add_block(s, block_size(s));
		if (!b)
			return NULL;
		s->free_line = (uint8_t *)b + PT_LINE;
		s->n_free_line = b->size - PT_LINE;
	}
	p = s->free_line;
	s->free_line += size;
	s->n_free_line -= size;
	return p;
}
