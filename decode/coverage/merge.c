/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coverage: merges files of coverage. Each is read into the structures that the
 * writers of files.c and formats.c take (their heads name the specifications),
 * so what comes out has the form of one recording's.
 *
 * Files may be written by other tools: records that are not needed are skipped,
 * line ends may be CR LF, and every length and index is checked against the
 * file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/coverage/impl.h"

enum merge_kind {
	MERGE_NONE = 0,
	MERGE_LCOV,
	MERGE_DRCOV,
	MERGE_SANCOV,
	MERGE_AFL,
};

/* A file in memory, followed by a NUL. Parsers may write NULs into it. */
struct merge_text {
	char *p;
	size_t n;
	struct aux_diag *diag;
};

/* The sum of all files so far; which members are used depends on kind. */
struct merged {
	enum merge_kind kind;
	bool parts;		/* of one recording */
	struct cover_lines lines;
	struct cover_tally tally;	/* drcov: modules and blocks alone */
	uint64_t *pcs;
	size_t n_pcs;
	char **texts;		/* the files: names point into them */
	size_t n_texts;
	uint8_t map[AFL_MAP_SIZE];
};

/* -AUX_E_FORMAT with diag; at: where in the file. */
static int malformed(const struct merge_text *t, size_t at, const char *what)
{
	return diag_set(t->diag, AUX_E_FORMAT, at, "%s", what);
}

/* Reads a decimal number that sep follows, and moves *p past both (not past a
 * NUL). */
static bool parse_number(char **p, char sep, uint64_t *v)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	*v = strtoull(*p, &end, 10);
	if (*end != sep)
		return false;
	*p = end + (sep != '\0');
	return true;
}

/* ---- lcov ---- */

/* The parsers of lcov records return 0, 1 if the record is malformed, or
 * -AUX_E_NOMEM. */
static int add_file(struct cover_lines *l, const char *name)
{
	if (array_grow(&l->files, l->n_files, &l->cap_files, sizeof(*l->files)) < 0)
		return -AUX_E_NOMEM;
	l->files[l->n_files] = strdup(name);
	if (!l->files[l->n_files])
		return -AUX_E_NOMEM;
	l->n_files++;
	return 0;
}

/* DA: "LINE,COUNT[,CHECKSUM]" */
static int parse_line(struct cover_lines *l, char *p)
{
	uint64_t line, n;

	if (!parse_number(&p, ',', &line) || line > UINT32_MAX ||
	    (!parse_number(&p, '\0', &n) && !parse_number(&p, ',', &n)))
		return 1;
	if (array_grow(&l->lines, l->n_lines, &l->cap_lines, sizeof(*l->lines)) < 0)
		return -AUX_E_NOMEM;
	l->lines[l->n_lines++] = (struct cover_line){
		(uint32_t)l->n_files - 1, (uint32_t)line, n,
	};
	return 0;
}

/* FN: "LINE,NAME", without a count; FNDA: "COUNT,NAME", without a line.
 * fold_functions of files.c joins the two. */
static int parse_function(struct cover_lines *l, char *p, bool is_count)
{
	uint64_t v;

	if (!parse_number(&p, ',', &v) || (!is_count && v > UINT32_MAX))
		return 1;
	if (array_grow(&l->functions, l->n_functions, &l->cap_functions,
		 sizeof(*l->functions)) < 0)
		return -AUX_E_NOMEM;
	l->functions[l->n_functions++] = (struct cover_function){
		.file = (uint32_t)l->n_files - 1, .name = p,
		.line = is_count ? 0 : (uint32_t)v, .n = is_count ? v : 0,
	};
	return 0;
}

/* BRDA: "LINE,BLOCK,WAY,COUNT"; COUNT is "-" if the branch never ran. */
static int parse_branch(struct cover_lines *l, char *p)
{
	uint64_t line, block, way, n = 0;
	bool ran;

	if (!parse_number(&p, ',', &line) || !parse_number(&p, ',', &block) ||
	    !parse_number(&p, ',', &way) || line > UINT32_MAX ||
	    block > UINT32_MAX || way > UINT32_MAX)
		return 1;
	ran = strcmp(p, "-");
	if (ran && !parse_number(&p, '\0', &n))
		return 1;
	if (array_grow(&l->branches, l->n_branches, &l->cap_branches,
		 sizeof(*l->branches)) < 0)
		return -AUX_E_NOMEM;
	l->branches[l->n_branches++] = (struct cover_branch){
		(uint32_t)l->n_files - 1, (uint32_t)line, (uint32_t)block,
		(uint32_t)way, ran, n,
	};
	return 0;
}

/* Records outside of SF .. end_of_record are skipped. */
static int parse_record(struct cover_lines *l, char *p, bool *in_file)
{
	if (!strncmp(p, "SF:", 3)) {
		*in_file = true;
		return add_file(l, p + 3);
	}
	if (!strcmp(p, "TN:" COVER_PART))
		l->part = true;
	if (!strcmp(p, "end_of_record"))
		*in_file = false;
	if (!*in_file)
		return 0;
	if (!strncmp(p, "DA:", 3))
		return parse_line(l, p + 3);
	if (!strncmp(p, "FN:", 3))
		return parse_function(l, p + 3, false);
	if (!strncmp(p, "FNDA:", 5))
		return parse_function(l, p + 5, true);
	if (!strncmp(p, "BRDA:", 5))
		return parse_branch(l, p + 5);
	return 0;
}

static int read_lcov(struct cover_lines *l, const struct merge_text *t)
{
	bool in_file = false;
	char *end;
	int rc = 0;

	for (char *p = t->p; p < t->p + t->n; p = end + 1) {
		end = memchr(p, '\n', t->n - (size_t)(p - t->p));
		if (!end)
			end = t->p + t->n;
		*end = '\0';
		for (char *cr = end; cr > p && cr[-1] == '\r'; cr--)
			cr[-1] = '\0';
		rc = parse_record(l, p, &in_file);
		if (rc)
			return rc < 0 ? rc : malformed(
				t, (size_t)(p - t->p), "no lcov record");
	}
	return 0;
}

/* ---- drcov ---- */

/* The line at *at, with a NUL for its end; NULL: there is no complete one. */
static char *next_line(const struct merge_text *t, size_t *at)
{
	char *p = t->p + *at, *end = memchr(p, '\n', t->n - *at);

	if (!end)
		return NULL;
	*end = '\0';
	*at = (size_t)(end - t->p) + 1;
	return p;
}

/* How many columns precede the path: "Columns: id, base, ..., path". Versions
 * of drcov differ in them. */
static unsigned count_columns(const char *p)
{
	unsigned n = 0;

	for (; *p; p++)
		n += *p == ',';
	return n;
}

/*
 * A row of the module table: "id, base, end, ..., path", with n_before columns
 * before the path. *number is the module of that path, which may be known from
 * another file: runs number their modules differently, so paths identify them.
 * 1: malformed.
 */
static int parse_module(struct merged *m, char *row, unsigned n_before,
		       uint32_t *number)
{
	struct cover_tally *k = &m->tally;
	unsigned long long base = 0, end = 0;
	char *p = row;

	if (sscanf(row, " %*u , %llx , %llx", &base, &end) != 2)
		return 1;
	for (unsigned i = 0; i < n_before; i++) {
		p = strchr(p, ',');
		if (!p)
			return 1;
		p++;
	}
	while (*p == ' ')
		p++;
	for (*number = 0; *number < k->n_modules; ++*number) {
		if (!strcmp(k->modules[*number].path, p))
			return 0;
	}
	if (array_grow(&k->modules, k->n_modules, &k->cap_modules,
		 sizeof(*k->modules)) < 0)
		return -AUX_E_NOMEM;
	k->modules[k->n_modules++] = (struct cover_module){
		.path = p, .base = base, .end = end,
	};
	return 0;
}

static uint64_t get_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

/* The binary table of n blocks at offset at. numbers: the file's module ids to
 * ours. */
static int parse_blocks(struct merged *m, const struct merge_text *t, size_t at,
		       uint64_t n, const uint32_t *numbers, size_t n_numbers)
{
	struct cover_tally *k = &m->tally;

	if (n > (t->n - at) / 8)
		return malformed(t, at, "the table of blocks is cut");
	for (uint64_t i = 0; i < n; i++, at += 8) {
		const uint8_t *p = (const uint8_t *)t->p + at;
		uint64_t id = get_le(p + 6, 2);

		if (id >= n_numbers)
			return malformed(t, at, "a block of a module "
						  "that is not there");
		if (array_grow(&k->blocks, k->n_blocks, &k->cap_blocks,
			 sizeof(*k->blocks)) < 0)
			return -AUX_E_NOMEM;
		k->blocks[k->n_blocks++] = (struct cover_block){
			.off = get_le(p, 4), .size = (uint32_t)get_le(p + 4, 2),
			.n = 1, .module = numbers[id],
		};
	}
	return 0;
}

/* What follows the count of modules: columns, n modules, and the table of
 * blocks. */
static int parse_tables(struct merged *m, const struct merge_text *t, size_t at,
		       uint32_t *numbers, size_t n)
{
	unsigned long long n_blocks;
	char *row = next_line(t, &at);
	unsigned before;
	int rc = 0;

	if (!row || strncmp(row, "Columns:", 8))
		return malformed(t, at, "no columns of modules");
	before = count_columns(row);
	for (size_t i = 0; i < n && !rc; i++) {
		row = next_line(t, &at);
		rc = row ? parse_module(m, row, before, &numbers[i]) : 1;
	}
	if (rc < 0)
		return rc;
	row = rc ? NULL : next_line(t, &at);
	if (!row || sscanf(row, "BB Table: %llu bbs", &n_blocks) != 1)
		return malformed(t, at, "no drcov module or table");
	return parse_blocks(m, t, at, n_blocks, numbers, n);
}

static int read_drcov(struct merged *m, const struct merge_text *t)
{
	uint32_t *numbers;
	unsigned long long n = 0;
	size_t at = 0;
	char *row;
	int rc;

	do {
		row = next_line(t, &at);
	} while (row && strncmp(row, "Module Table:", 13));
	if (!row || sscanf(row, "Module Table: version 2, count %llu", &n) != 1)
		return malformed(t, at, "no module table of version "
					  "2");
	if (n > t->n)
		return malformed(t, at, "too many modules");
	numbers = calloc(n + 1, sizeof(*numbers));
	if (!numbers)
		return -AUX_E_NOMEM;
	rc = parse_tables(m, t, at, numbers, n);
	free(numbers);
	return rc;
}

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

/* Reads a whole file into t->p, which the caller frees, also after an error. */
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

/* ---- AFL ---- */

/* Counts of an edge are maxima, not sums: 8 bits say how often in one run. Those
 * of parts of one run add up to that. */
static int read_afl(struct merged *m, const struct merge_text *t)
{
	unsigned edge, n;
	int len;

	for (size_t at = 0; at < t->n; at += (size_t)len) {
		len = 0;
		if (sscanf(t->p + at, "%6u:%3u%n", &edge, &n, &len) != 2 ||
		    !len || edge >= AFL_MAP_SIZE || n > 255 ||
		    t->p[at + (size_t)len] != '\n')
			return malformed(t, at, "no EDGE:COUNT line");
		len++;
		if (m->parts)
			n = n + m->map[edge] < 255 ? n + m->map[edge] : 255;
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

/* kind_of has seen the magic, so t->n is at least 8. */
static int read_sancov(struct merged *m, const struct merge_text *t)
{
	size_t n = t->n / 8 - 1;
	uint64_t *v;

	if (t->n % 8)
		return malformed(t, t->n, "cut: addresses have 8 "
					  "bytes");
	v = reallocarray(m->pcs, m->n_pcs + n + 1, sizeof(*v));
	if (!v)
		return -AUX_E_NOMEM;
	m->pcs = v;
	memcpy(v + m->n_pcs, t->p + 8, 8 * n);
	m->n_pcs += n;
	return 0;
}

static void write_sancov(struct merged *m, struct outbuf *out)
{
	const uint64_t magic = SANCOV_64;

	outbuf_put(out, (const char *)&magic, 8);
	m->n_pcs = cover_sort_pcs(m->pcs, m->n_pcs);
	for (size_t i = 0; i < m->n_pcs; i++)
		outbuf_put(out, (const char *)&m->pcs[i], 8);
}

/* ---- All formats ---- */

static int read_one(struct merged *m, const struct merge_text *t)
{
	switch (m->kind) {
	case MERGE_LCOV:
		return read_lcov(&m->lines, t);
	case MERGE_DRCOV:
		return read_drcov(m, t);
	case MERGE_SANCOV:
		return read_sancov(m, t);
	default:
		return read_afl(m, t);
	}
}

static int write_all(struct merged *m, struct outbuf *out)
{
	uint64_t n;
	int rc = 0;

	switch (m->kind) {
	case MERGE_LCOV:
		rc = cover_lines_sort(&m->lines);
		if (!rc)
			cover_print_lcov(&m->lines, out);
		break;
	case MERGE_DRCOV:
		rc = cover_tally_sort(&m->tally);
		if (!rc)
			rc = cover_print_drcov(&m->tally, out, &n);
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

/* Reads a file and adds it. The first one decides about the format. */
static int add_input(struct merged *m, const char *path, struct aux_diag *diag)
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
		return malformed(&t, 0, "not coverage of the format "
					  "of the first file");
	return read_one(m, &t);
}

static int merge_files(bool parts, const char *const *paths, size_t n,
		       struct outbuf *out, const char **which,
		       struct aux_diag *diag)
{
	struct merged *m = calloc(1, sizeof(*m));
	int rc = m ? 0 : -AUX_E_NOMEM;

	if (m)
		m->parts = parts;
	for (size_t i = 0; i < n && !rc; i++) {
		*which = paths[i];
		rc = add_input(m, paths[i], diag);
	}
	if (!rc)
		rc = write_all(m, out);
	if (m && !rc && m->lines.part)
		rc = COVERAGE_MERGED_PARTS;
	if (m)
		free_merged(m);
	return rc;
}

int coverage_merge(const char *const *paths, size_t n, struct outbuf *out,
		   const char **which, struct aux_diag *diag)
{
	return merge_files(false, paths, n, out, which, diag);
}

int coverage_merge_parts(const char *const *paths, size_t n, struct outbuf *out,
			 const char **which, struct aux_diag *diag)
{
	return merge_files(true, paths, n, out, which, diag);
}
