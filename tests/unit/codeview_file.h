/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview_file: a made recording with its timeline and view, a scratch directory,
 * and records that mkperf.h does not make.
 */
#ifndef TESTS_UNIT_CODEVIEW_FILE_H
#define TESTS_UNIT_CODEVIEW_FILE_H

#include <ftw.h>
#include <unistd.h>

#include "decode/cmd/impl.h"
#include "decode/lib/code/code.h"
#include "tests/unit/mkelf.h"
#include "tests/unit/mkperf.h"
#include "tests/unit/tap.h"

/* as or ld for x86-64, whatever this machine is. */
#define X86_TOOL(name) "$(command -v x86_64-linux-gnu-" name " || echo " name ")"

struct view {
	struct mk mk;
	struct aux_reader *r;
	struct timeline *tl;
	struct codeview *cv;
};

static char view_dir[64];

__attribute__((unused))
static const char *view_path(const char *name)
{
	static char path[4][4096];
	static unsigned n;

	n = (n + 1) % 4;
	snprintf(path[n], sizeof(path[n]), "%s%s", view_dir, name);
	return path[n];
}

/* Nothing of this machine may count: no cache but the test's. */
__attribute__((unused))
static bool view_start(void)
{
	snprintf(view_dir, sizeof(view_dir), "/tmp/auxkit-test-XXXXXX");
	return mkdtemp(view_dir) &&
	       !setenv("PERF_BUILDID_DIR", view_path("/cache"), 1);
}

static int view_remove(const char *path, const struct stat *st, int type,
		       struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

__attribute__((unused))
static void view_stop(void)
{
	nftw(view_dir, view_remove, 16, FTW_DEPTH | FTW_PHYS);
}

__attribute__((unused))
static bool view_open(struct view *v, const struct codeview_config *config)
{
	struct aux_diag diag = { 0 };

	mk_finish(&v->mk);
	v->cv = NULL;
	if (aux_reader_open_mem(&v->r, v->mk.p, v->mk.n, "made", &diag) < 0 ||
	    timeline_new(&v->tl, v->r, 0, &diag) < 0 ||
	    codeview_new(&v->cv, v->r, config, &diag) < 0)
		return ok(0, "opening: %s", diag.text);
	return true;
}

__attribute__((unused))
static void view_close(struct view *v)
{
	codeview_free(v->cv);
	timeline_free(v->tl);
	aux_reader_close(v->r);
	free(v->mk.p);
}

/* Opens another view on the same recording. */
__attribute__((unused))
static bool view_again(struct view *v, const struct codeview_config *config)
{
	struct aux_diag diag = { 0 };

	codeview_free(v->cv);
	v->cv = NULL;
	return codeview_new(&v->cv, v->r, config, &diag) == 0 ||
	       ok(0, "opening: %s", diag.text);
}

/* MMAP2 with a build id; kernel: the record of the kernel or a module. */
__attribute__((unused))
static void view_mmap(struct mk *m, uint32_t pid, uint64_t time, uint64_t addr,
		      uint64_t len, uint64_t pgoff, const char *path, uint8_t id,
		      bool kernel)
{
	struct mk_id who = { kernel ? UINT32_MAX : pid, kernel ? 0 : pid, time, 0 };

	mk_mmap2(m, kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER, who,
		 (struct mk_map){ addr, len, pgoff, path, id });
}

/* The first byte at ip of pid at a time; -1: there is none. */
__attribute__((unused))
static int view_byte(struct view *v, uint32_t pid, uint64_t time, uint64_t ip)
{
	const struct space *s = codeview_space(v->cv, v->tl, pid, time);
	struct aux_code c;

	if (codeview_code(v->cv, s, ip, &c) < 0)
		return -1;
	if (ip < c.start || ip >= c.end)
		return -2;
	return c.bytes[ip - c.start];
}

__attribute__((unused))
static const char *view_name(struct view *v, uint32_t pid, uint64_t time,
			     uint64_t ip)
{
	const struct space *s = codeview_space(v->cv, v->tl, pid, time);
	struct symbol sym;

	return codeview_symbol(v->cv, s, ip, &sym) < 0 ? NULL : sym.name;
}

/* With the program's advice. */
__attribute__((unused))
static const char *view_why(struct view *v, uint32_t pid, uint64_t time,
			    uint64_t ip)
{
	static char text[1024];

	advice_code(v->cv, codeview_space(v->cv, v->tl, pid, time), ip, text,
		    sizeof(text));
	return text;
}

#endif
