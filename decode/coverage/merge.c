/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage_merge: see merge.h. What is read becomes what the writers of
 * these formats take, and is written by them.
 *
 * Specification: as in files.c and formats.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/coverage/merge.h"
#include "decode/coverage/merge_impl.h"

#define MAX_FILE (UINT64_C(1) << 30)

static enum merge_kind kind_of(const char *p, size_t n)
{
	static const uint8_t sancov[] = { 0x64, 0xff, 0xff, 0xff,
					  0xff, 0xff, 0xbf, 0xc0 };
	size_t digits = 0;

	if (n >= 3 && (!memcmp(p, "TN:", 3) || !memcmp(p, "SF:", 3)))
		return MERGE_LCOV;
	if (n >= 14 && !memcmp(p, "DRCOV VERSION:", 14))
		return MERGE_DRCOV;
	if (n >= 8 && !memcmp(p, sancov, 8))
		return MERGE_SANCOV;
	while (digits < n && digits < 7 && p[digits] >= '0' && p[digits] <= '9')
		digits++;
	return digits == 6 && n > 7 && p[6] == ':' ? MERGE_AFL : MERGE_NONE;
}

bool coverage_merge_is_file(const char *path)
{
	FILE *f = fopen(path, "re");
	char head[16];
	size_t n;

	if (!f)
		return false;
	n = fread(head, 1, sizeof(head), f);
	fclose(f);
	return kind_of(head, n) != MERGE_NONE;
}

/* A whole file, with a NUL behind it. */
static int read_file(const char *path, struct merge_text *t,
		     struct aux_diag *diag)
{
	FILE *f = fopen(path, "re");
	size_t cap = 0, n;
	char *p;

	*t = (struct merge_text){ .diag = diag };
	if (!f)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%m");
	do {
		cap = cap ? 2 * cap : 1 << 16;
		p = cap <= MAX_FILE ? realloc(t->p, cap + 1) : NULL;
		if (!p) {
			fclose(f);
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"too large");
		}
		t->p = p;
		n = fread(p + t->n, 1, cap - t->n, f);
		t->n += n;
	} while (t->n == cap);
	t->p[t->n] = '\0';
	fclose(f);
	return 0;
}

int coverage_merge_bad(const struct merge_text *t, size_t at, const char *what)
{
	return diag_set(t->diag, AUX_E_FORMAT, at, "%s", what);
}

/* ---- AFL ---- */

static int read_afl(struct merged *m, const struct merge_text *t)
{
	unsigned edge, n;
	int len;

	for (size_t at = 0; at < t->n; at += (size_t)len) {
		len = 0;
		if (sscanf(t->p + at, "%6u:%3u%n", &edge, &n, &len) != 2 ||
		    !len || edge >= AFL_MAP_SIZE || n > 255 ||
		    t->p[at + (size_t)len] != '\n')
			return coverage_merge_bad(t, at, "no EDGE:COUNT line");
		len++;
		if (n > m->map[edge])
			m->map[edge] = (uint8_t)n;
	}
	return 0;
}

static void write_afl(const struct merged *m, struct outbuf *out)
{
	for (unsigned i = 0; i < AFL_MAP_SIZE; i++) {
		if (m->map[i])
			outbuf_printf(out, "%06u:%u\n", i, m->map[i]);
	}
}

/* ---- sancov ---- */

static int read_sancov(struct merged *m, const struct merge_text *t)
{
	size_t n = t->n / 8 - 1;
	uint64_t *v;

	if (t->n % 8)
		return coverage_merge_bad(t, t->n, "cut: addresses have 8 "
					  "bytes");
	v = reallocarray(m->pcs, m->n_pcs + n + 1, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	m->pcs = v;
	memcpy(v + m->n_pcs, t->p + 8, 8 * n);
	m->n_pcs += n;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void write_sancov(struct merged *m, struct outbuf *out)
{
	const uint64_t magic = UINT64_C(0xc0bfffffffffff64);

	outbuf_put(out, (const char *)&magic, 8);
	if (m->n_pcs)
		qsort(m->pcs, m->n_pcs, sizeof(*m->pcs), by_value);
	for (size_t i = 0; i < m->n_pcs; i++) {
		if (!i || m->pcs[i] != m->pcs[i - 1])
			outbuf_put(out, (const char *)&m->pcs[i], 8);
	}
}

/* ---- all ---- */

static int read_one(struct merged *m, const struct merge_text *t)
{
	switch (m->kind) {
	case MERGE_LCOV:
		return coverage_merge_lcov(&m->lines, t);
	case MERGE_DRCOV:
		return coverage_merge_drcov(m, t);
	case MERGE_SANCOV:
		return read_sancov(m, t);
	default:
		return read_afl(m, t);
	}
}

static int write_all(struct merged *m, struct outbuf *out)
{
	int rc = 0;

	switch (m->kind) {
	case MERGE_LCOV:
		rc = cover_lines_sort(&m->lines);
		if (!rc)
			cover_print_lcov(&m->lines, out);
		break;
	case MERGE_DRCOV:
		cover_tally_sort(&m->tally);
		cover_print_drcov(&m->tally, out);
		break;
	case MERGE_SANCOV:
		write_sancov(m, out);
		break;
	default:
		write_afl(m, out);
	}
	return rc;
}

static void free_merged(struct merged *m)
{
	cover_lines_fini(&m->lines);
	cover_tally_fini(&m->tally);
	for (size_t i = 0; i < m->n_texts; i++)
		free(m->texts[i]);
	free(m->texts);
	free(m->pcs);
	free(m);
}

/* Reads a file; its text lives as m does: names point into it. */
static int take_file(struct merged *m, const char *path, struct aux_diag *diag)
{
	struct merge_text t;
	char **texts = reallocarray(m->texts, m->n_texts + 1, sizeof(char *));
	enum merge_kind kind;
	int rc;

	if (!texts)
		return -AUX_E_NOMEM;
	m->texts = texts;
	rc = read_file(path, &t, diag);
	texts[m->n_texts++] = t.p;
	if (rc < 0)
		return rc;
	kind = kind_of(t.p, t.n);
	if (m->kind == MERGE_NONE)
		m->kind = kind;
	if (kind == MERGE_NONE || kind != m->kind)
		return coverage_merge_bad(&t, 0, "not coverage of the format "
					  "of the first file");
	return read_one(m, &t);
}

int coverage_merge(const char *const *paths, size_t n, struct outbuf *out,
		   const char **which, struct aux_diag *diag)
{
	struct merged *m = calloc(1, sizeof(*m));
	int rc = m ? 0 : -AUX_E_NOMEM;

	for (size_t i = 0; i < n && !rc; i++) {
		*which = paths[i];
		rc = take_file(m, paths[i], diag);
	}
	if (!rc)
		rc = write_all(m, out);
	if (m)
		free_merged(m);
	return rc;
}
