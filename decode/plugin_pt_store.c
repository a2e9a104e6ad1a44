/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pt: the memory of the store. What is asked for is in blocks that go as a whole; what
 * is looked up all over is in tables.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugin_pt.h"

#define BLOCK_SIZE ((size_t)1 << 18)
#define SLOTS_FIRST 4096
#define HUGE_PAGE ((size_t)2 << 20)
#define WHERES 65536		/* pt_entry_where */

/* Zeros. What is large is looked up all over: huge pages spare the TLB. */
void *pt_store_table(size_t size)
{
	void *p;

	if (size < HUGE_PAGE)
		return calloc(1, size);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_HUGEPAGE);
	return p;
}

void pt_store_free_table(void *table, size_t size)
{
	if (table && size >= HUGE_PAGE)
		munmap(table, size);
	else
		free(table);
}

int pt_store_init(struct pt_store *s, const struct aux_decoder_host *host)
{
	*s = (struct pt_store){ .host = host };
	s->nodes = calloc(SLOTS_FIRST, sizeof(*s->nodes));
	s->paths = calloc(SLOTS_FIRST, sizeof(*s->paths));
	s->seen = calloc(PT_SEEN, sizeof(*s->seen));
	s->ready = malloc(WHERES * sizeof(*s->ready));
	s->ready_regions = malloc(PT_REGIONS * sizeof(*s->ready_regions));
	s->node_mask = SLOTS_FIRST - 1;
	s->max_paths = SLOTS_FIRST;
	s->path_mask = pt_path_mask(SLOTS_FIRST);
	s->n_regions = 1;
	if (!s->nodes || !s->paths || !s->seen || !s->ready ||
	    !s->ready_regions)
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
	pt_store_free_table(s->nodes, (s->node_mask + (size_t)1) *
				      sizeof(*s->nodes));
	pt_store_free_table(s->paths, s->max_paths * sizeof(*s->paths));
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
	s->n_free = s->used = s->n_free_path = 0;
	pt_store_forget_ready(s);
	s->regions = s->last = NULL;
	s->n_regions = 1;
	s->n_nodes = s->n_paths = 0;
	memset(s->nodes, 0, (s->node_mask + (size_t)1) * sizeof(*s->nodes));
	memset(s->paths, 0, s->max_paths * sizeof(*s->paths));
	memset(s->seen, 0, PT_SEEN * sizeof(*s->seen));
}

static void *alloc_block(struct pt_store *s, size_t size)
{
	struct pt_block *b;

	if (s->used + size > STORE_LIMIT)
		return NULL;
	b = aligned_alloc(size < HUGE_PAGE ? 64 : HUGE_PAGE, size);
	if (!b) {
		s->nomem = true;
		return NULL;
	}
	if (size >= HUGE_PAGE)
		madvise(b, size, MADV_HUGEPAGE);
	b->next = s->blocks;
	s->blocks = b;
	s->used += size;
	return b;
}

void *pt_store_alloc(struct pt_store *s, size_t size)
{
	void *p;

	size = (size + 15) & ~(size_t)15;
	if (size > BLOCK_SIZE / 4) {
		p = alloc_block(s, (size + 64 + 63) & ~(size_t)63);
		return p ? (uint8_t *)p + 64 : NULL;
	}
	if (s->n_free < size) {
		size_t block = s->used < HUGE_PAGE ? BLOCK_SIZE : HUGE_PAGE;

		p = alloc_block(s, block);
		if (!p)
			return NULL;
		s->free = (uint8_t *)p + 64;
		s->n_free = block - 64;
	}
	p = s->free;
	s->free += size;
	s->n_free -= size;
	return p;
}

struct pt_path *pt_store_path(struct pt_store *s, unsigned n_sites)
{
	size_t size = sizeof(struct pt_path) + n_sites * sizeof(uint64_t);
	uint8_t *p;

	size = (size + PT_LINE - 1) & ~(size_t)(PT_LINE - 1);
	if (s->n_free_path < size) {
		size_t block = s->used < HUGE_PAGE ? BLOCK_SIZE / 4 : HUGE_PAGE;

		p = alloc_block(s, block);
		if (!p)
			return NULL;
		s->free_path = p + PT_LINE;
		s->n_free_path = block - PT_LINE;
	}
	p = s->free_path;
	s->n_free_path -= size;
	s->free_path += size;
	return (struct pt_path *)p;
}
