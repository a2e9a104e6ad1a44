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

#include "common/clean.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "common/outfile.h"
#include "decode/coverage/impl.h"
#include "decode/lib/elf/elf.h"

/* The address of an offset as the file is linked; the offset if it cannot be
 * read. */
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

/* False for blocks that the fields of drcov cannot hold: start 32 bits, size
 * and number of the module 16. */
static bool fits(const struct cover_module *m, size_t number,
		 const struct cover_block *b)
{
	return linked(m, b->off) <= UINT32_MAX && b->size <= UINT16_MAX &&
	       number <= UINT16_MAX;
}

/* The path is the last column; readers cut the line at commas all the same. */
static int put_path(struct outbuf *out, const char *path)
{
	char *text = strdup(path);

	if (!text)
		return -AUX_E_NOMEM;
	for (char *p = text; (p = strchr(p, ',')); p++)
		*p = '?';
	outbuf_clean(out, text);
	free(text);
	return 0;
}

int cover_print_drcov(const struct cover_tally *t, struct outbuf *out,
		      uint64_t *lines)
{
	const struct cover_module *v = t->modules;
	uint64_t n = 0;
	int err = 0;

	outbuf_printf(out, "DRCOV VERSION: 2\nDRCOV FLAVOR: drcov\n"
			   "Module Table: version 2, count %zu\n"
			   "Columns: id, base, end, entry, checksum, "
			   "timestamp, path\n", t->n_modules);
	for (size_t i = 0; i < t->n_modules && !err; i++) {
		const struct cover_module *m = &v[i];

		outbuf_printf(out, "%3zu, 0x%016llx, 0x%016llx, 0x%016x, "
			      "0x%08x, 0x%08x, ", i,
			      (unsigned long long)m->base,
			      (unsigned long long)m->end, 0, 0, 0);
		err = put_path(out, m->path);
		outbuf_put(out, "\n", 1);
		for (size_t k = m->block; k < m->block + m->n_blocks; k++)
			n += fits(m, i, &t->blocks[k]);
	}
	outbuf_printf(out, "BB Table: %llu bbs\n", (unsigned long long)n);
	for (size_t i = 0; i < t->n_modules; i++) {
		for (size_t k = v[i].block;
		     k < v[i].block + v[i].n_blocks; k++) {
			const struct cover_block *b = &t->blocks[k];

			if (!fits(&v[i], i, b))
				continue;
			put_le(out, linked(&v[i], b->off), 4);
			put_le(out, b->size, 2);
			put_le(out, i, 2);
		}
	}
	*lines = n;
	return err;
}

/* ---- AFL ---- */

/*
 * Stands for the random number that AFL's compiler gives a block. It is a hash
 * (FNV-1a) of the file's name without its directory and the offset, so maps of
 * two runs agree wherever the file was installed.
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
 * Counts saturate at 255, as 8 bits would with afl-showmap -r (AFL's own wrap
 * around), so an edge that ran never shows as 0.
 */
int cover_print_afl(const struct cover_tally *t, struct outbuf *out,
		    uint64_t *lines)
{
	uint64_t *map = calloc(AFL_MAP_SIZE, sizeof(*map)), n = 0;

	if (!map)
		return -AUX_E_NOMEM;
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
	*lines = n;
	return 0;
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

static int write_pcs(const char *path, const uint64_t *pcs, size_t n,
		     struct aux_diag *diag)
{
	uint64_t magic = SANCOV_64;
	struct outfile file;
	struct outbuf *out;
	int rc = outfile_open(&file, path, 0666, 0, diag);

	if (rc < 0)
		return rc;
	out = outbuf_new(file.fd);
	if (out) {
		outbuf_put(out, (const char *)&magic, 8);
		outbuf_put(out, (const char *)pcs, 8 * n);
	}
	rc = out ? outbuf_flush(out) : -AUX_E_NOMEM;
	if (rc == -AUX_E_IO)
		diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: cannot write: %s",
			 path, strerror(out->error));
	outbuf_free(out);
	if (!rc)
		return outfile_commit(&file, diag);
	outfile_discard(&file);
	return rc;
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

static const char *base_name(const struct cover_module *m)
{
	const char *slash = strrchr(m->path, '/');

	return slash ? slash + 1 : m->path;
}

/*
 * One NAME.PID.sancov, as the sanitizer runtime names its files; adds to *total. A
 * reader finds the program by NAME, so files of one name stand in directories: that of
 * the second is DIR/2.
 */
static char *name_file(const struct cover_module *v, size_t i,
		       const char *dir, uint32_t pid)
{
	const char *name = base_name(&v[i]);
	unsigned nth = 1;
	char *path;
	int n;

	for (size_t k = 0; k < i; k++)
		nth += v[k].n_blocks && !strcmp(base_name(&v[k]), name);
	if (nth == 1)
		n = asprintf(&path, "%s/%s.%u.sancov", dir, name, pid);
	else
		n = asprintf(&path, "%s/%u/%s.%u.sancov", dir, nth, name, pid);
	return n < 0 ? NULL : path;
}

/* All but the last part of path. */
static int make_dir(char *path, struct aux_diag *diag)
{
	char *slash = strrchr(path, '/');
	int rc = 0;

	*slash = '\0';
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		rc = fail(diag, path);
	*slash = '/';
	return rc;
}

static int write_module(const struct cover_tally *t,
			const struct cover_module *m, char *path,
			uint64_t *total, struct aux_diag *diag)
{
	uint64_t *pcs = reallocarray(NULL, m->n_blocks + 1, sizeof(*pcs));
	size_t n = 0;
	int rc;

	if (!pcs)
		return -AUX_E_NOMEM;
	for (size_t i = m->block; i < m->block + m->n_blocks; i++)
		pcs[n++] = linked(m, t->blocks[i].off);
	n = cover_sort_pcs(pcs, n);
	rc = make_dir(path, diag);
	if (!rc)
		rc = write_pcs(path, pcs, n, diag);
	*total += n;
	free(pcs);
	return rc;
}

int cover_write_sancov(const struct cover_tally *t, const char *dir,
		       uint32_t pid, uint64_t *n, struct aux_diag *diag)
{
	const struct cover_module *v = t->modules;
	int rc = 0;

	*n = 0;
	if (!rc && mkdir(dir, 0777) < 0 && errno != EEXIST)
		rc = fail(diag, dir);
	for (size_t i = 0; i < t->n_modules && !rc; i++) {
		char *path;

		if (!v[i].n_blocks)
			continue;
		path = name_file(v, i, dir, pid);
		rc = path ? write_module(t, &v[i], path, n, diag) : -AUX_E_NOMEM;
		free(path);
	}
	return rc;
}
