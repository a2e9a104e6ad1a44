/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: formats of fuzzers and binary tools. Modules come in the order of their
 * paths, so that equal runs give equal bytes whatever was mapped first.
 *
 * Specifications:
 * - drcov: DynamoRIO, the headers of drcov and of its module table. A text head with a table of
 *   modules, then 8 bytes for each block: start (u32), size (u16), module (u16), little
 *   endian. Version 2 is what lighthouse and other readers take;
 * - sancov: LLVM, "SanitizerCoverage", "Sancov Data Format": a magic of 8 bytes, then
 *   addresses of 8 bytes;
 * - AFL: "Technical details", 1 (Coverage measurements): map[cur ^ prev >> 1]++ for
 *   each edge, 65536 counters of 8 bits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/diag.h"

#include "decode/coverage/impl.h"
#include "decode/lib/elf/elf.h"
#include "common/outbuf.h"

static int by_path(const void *a, const void *b)
{
	const struct cover_module *x = *(const struct cover_module *const *)a;
	const struct cover_module *y = *(const struct cover_module *const *)b;
	int c = strcmp(x->path, y->path);

	if (c)
		return c;
	return memcmp(x->build_id, y->build_id, sizeof(x->build_id));
}

static const struct cover_module **sort_modules(const struct cover_tally *t)
{
	const struct cover_module **v;

	v = reallocarray(NULL, t->n_modules + 1, sizeof(*v));
	if (!v)
		return NULL;
	for (size_t i = 0; i < t->n_modules; i++)
		v[i] = &t->modules[i];
	if (t->n_modules)
		qsort(v, t->n_modules, sizeof(*v), by_path);
	return v;
}

/* The address of an offset as the file is linked; the offset if it cannot be read. */
static uint64_t linked(const struct cover_module *m, uint64_t off)
{
	uint64_t addr;

	return m->image && elfimage_addr(m->image, off + m->shift, &addr) ?
		       addr : off;
}

/* ---- drcov ---- */

static void put_le(struct outbuf *out, uint64_t v, unsigned n)
{
	char b[8];

	for (unsigned i = 0; i < n; i++)
		b[i] = (char)(v >> (8 * i));
	outbuf_put(out, b, n);
}

/* False for blocks that the fields of drcov cannot hold: start 32 bits, size 16. */
static bool fits(const struct cover_module *m, const struct cover_block *b)
{
	return linked(m, b->off) <= UINT32_MAX && b->size <= UINT16_MAX;
}

uint64_t cover_print_drcov(const struct cover_tally *t, struct outbuf *out)
{
	const struct cover_module **v = sort_modules(t);
	uint64_t n = 0;

	if (!v)
		return 0;
	outbuf_printf(out, "DRCOV VERSION: 2\nDRCOV FLAVOR: drcov\n"
			   "Module Table: version 2, count %zu\n"
			   "Columns: id, base, end, entry, checksum, "
			   "timestamp, path\n", t->n_modules);
	for (size_t i = 0; i < t->n_modules; i++) {
		const struct cover_module *m = v[i];

		outbuf_printf(out, "%3zu, 0x%016llx, 0x%016llx, 0x%016x, "
			      "0x%08x, 0x%08x, %s\n", i,
			      (unsigned long long)m->base,
			      (unsigned long long)m->end, 0, 0, 0, m->path);
		for (size_t k = m->block; k < m->block + m->n_blocks; k++)
			n += fits(m, &t->blocks[k]);
	}
	outbuf_printf(out, "BB Table: %llu bbs\n", (unsigned long long)n);
	for (size_t i = 0; i < t->n_modules; i++) {
		for (size_t k = v[i]->block;
		     k < v[i]->block + v[i]->n_blocks; k++) {
			const struct cover_block *b = &t->blocks[k];

			if (!fits(v[i], b))
				continue;
			put_le(out, linked(v[i], b->off), 4);
			put_le(out, b->size, 2);
			put_le(out, i, 2);
		}
	}
	free(v);
	return n;
}

/* ---- AFL ---- */

/*
 * Stands for the random number that AFL's compiler gives a block. It is a hash (FNV-1a) of
 * the file's name without its directory and the offset, so maps of two runs agree
 * wherever the file was installed.
 */
static uint32_t hash_place(const struct cover_module *m, uint64_t off)
{
	const char *name = strrchr(m->path, '/');
	uint64_t h = 14695981039346656037u;

	for (const char *p = name ? name + 1 : m->path; *p; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(1099511628211);
	h = (h ^ off) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 48);
}

/*
 * Counts saturate at 255, as 8 bits would with afl-showmap -r (AFL's own wrap around), so
 * an edge that ran never shows as 0.
 */
uint64_t cover_print_afl(const struct cover_tally *t, struct outbuf *out)
{
	uint64_t *map = calloc(AFL_MAP_SIZE, sizeof(*map)), n = 0;

	if (!map)
		return 0;
	for (size_t i = 0; i < t->n_edges; i++) {
		const struct cover_edge *e = &t->edges[i];

		map[(hash_place(&t->modules[e->module], e->from) >> 1 ^
		     hash_place(&t->modules[e->to_module], e->to)) &
		    (AFL_MAP_SIZE - 1)] += e->n;
	}
	for (unsigned i = 0; i < AFL_MAP_SIZE; i++) {
		if (!map[i])
			continue;
		outbuf_printf(out, "%06u:%u\n", i,
			      map[i] > 255 ? 255 : (unsigned)map[i]);
		n++;
	}
	free(map);
	return n;
}

/* ---- sancov ---- */

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int fail(struct aux_diag *diag, const char *path)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path,
			strerror(errno));
}

static int write_pcs(const char *path, const uint64_t *pcs, size_t n)
{
	uint64_t magic = SANCOV_64;
	FILE *f = fopen(path, "we");
	bool bad;

	if (!f)
		return -AUX_E_IO;
	bad = fwrite(&magic, 8, 1, f) != 1 || fwrite(pcs, 8, n, f) != n;
	return fclose(f) || bad ? -AUX_E_IO : 0;
}

size_t cover_sort_pcs(uint64_t *v, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 0; i < n; i++) {
		if (!kept || v[kept - 1] != v[i])
			v[kept++] = v[i];
	}
	return kept;
}

/* One NAME.PID.sancov, as the sanitizer runtime names its files; adds to *total. */
static int write_module(const struct cover_tally *t,
			const struct cover_module *m, const char *dir,
			uint32_t pid, uint64_t *total, struct aux_diag *diag)
{
	const char *name = strrchr(m->path, '/');
	uint64_t *pcs = reallocarray(NULL, m->n_blocks + 1, sizeof(*pcs));
	char *path = NULL;
	size_t n = 0;
	int rc = 0;

	if (!pcs || asprintf(&path, "%s/%s.%u.sancov", dir,
			     name ? name + 1 : m->path, pid) < 0) {
		free(pcs);
		return -AUX_E_NOMEM;
	}
	for (size_t i = m->block; i < m->block + m->n_blocks; i++)
		pcs[n++] = linked(m, t->blocks[i].off);
	n = cover_sort_pcs(pcs, n);
	if (write_pcs(path, pcs, n) < 0)
		rc = fail(diag, path);
	*total += n;
	free(pcs);
	free(path);
	return rc;
}

int cover_write_sancov(const struct cover_tally *t, const char *dir,
		       uint32_t pid, uint64_t *n, struct aux_diag *diag)
{
	int rc = 0;

	*n = 0;
	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		return fail(diag, dir);
	for (size_t i = 0; i < t->n_modules && !rc; i++)
		if (t->modules[i].n_blocks)
			rc = write_module(t, &t->modules[i], dir, pid, n,
					  diag);
	return rc;
}
