/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: one look at one range of a process's memory.
 *
 * Invariant: bytes are given from the last look's time on only where nothing
 * else can have run meanwhile: where there was no page, or filler. Where other
 * bytes stood the time up to this look is UNKNOWN.
 * Specification: proc(5), /proc/PID/mem and /proc/PID/pagemap.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/describe/codesave_impl.h"

#define N_PAGES 256u	/* read in one go */
#define GROUP 16u	/* what is judged to be filler, or code */
#define NO_CLOCK_NS UINT64_C(10000000000)
#define PRESENT (UINT64_C(3) << 62)	/* in memory, or in swap */

struct look {
	struct codesave *s;
	struct code_range *r;
	struct writer *w;
	uint64_t began_ns;
	bool changed;
};

static int open_proc(const struct codesave *s, uint32_t pid, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%u/%s", s->config.proc, pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static bool is_uniform(const uint8_t *p, size_t n)
{
	return !memcmp(p, p + 1, n - 1);
}

static int put(struct look *l, uint64_t addr, uint64_t len, uint64_t time_ns,
	       uint32_t kind, const uint8_t *bytes)
{
	struct aux_code_entry e = {
		.time_ns = time_ns, .addr = addr, .len = len,
		.pid = l->r->pid, .kind = kind,
	};

	if (kind == AUX_CODE_UNKNOWN)
		l->s->stats.n_unknown += len;
	else
		l->s->stats.n_saved += len;
	return writer_code(l->w, &e, bytes);
}

/* Marks what was replaced; true in *any: there was something. */
static int put_unknown(struct look *l, uint64_t addr, const uint8_t *old,
		       const uint8_t *new, bool *any)
{
	unsigned at, from = CODE_PAGE;
	int ret = 0;

	for (at = 0; at <= CODE_PAGE && !ret; at += GROUP) {
		bool replaced = at < CODE_PAGE &&
				memcmp(old + at, new + at, GROUP) &&
				!is_uniform(old + at, GROUP);

		if (replaced && from == CODE_PAGE)
			from = at;
		if (replaced || from == CODE_PAGE)
			continue;
		ret = put(l, addr + from, at - from, l->r->look_ns,
			  AUX_CODE_UNKNOWN, NULL);
		from = CODE_PAGE;
		*any = true;
	}
	return ret;
}

/* A time at which the bytes had been read. Without a clock nobody can tell when
 * that was: then the end of the doubt lies far off. */
static uint64_t read_by(struct look *l)
{
	uint64_t now = perfclock_now(&l->s->clock);

	return now ? now : l->r->look_ns + NO_CLOCK_NS;
}

static int save_page(struct look *l, uint64_t i, const uint8_t *new)
{
	struct code_copy *c = l->r->pages[i];
	uint64_t addr = l->r->addr + i * CODE_PAGE;
	bool replaced = false;
	int ret;

	if (l->s->stats.n_saved >= l->s->config.limit) {
		l->s->stats.n_unsaved += CODE_PAGE;
		return 0;
	}
	l->changed = true;
	ret = put(l, addr, CODE_PAGE, l->r->look_ns, l->r->kind, new);
	if (!ret && c)
		ret = put_unknown(l, addr, c->bytes, new, &replaced);
	if (!ret && replaced)
		ret = put(l, addr, CODE_PAGE, read_by(l), l->r->kind, new);
	if (c && c->n_refs > 1) {
		c->n_refs--;
		c = l->r->pages[i] = NULL;
	}
	if (!c) {
		c = l->r->pages[i] = malloc(sizeof(*c));
		if (!c)
			return -AUX_E_NOMEM;
		c->n_refs = 1;
	}
	memcpy(c->bytes, new, CODE_PAGE);
	return ret;
}

/* Pages [i, i + n) that are in buf. */
static int compare(struct look *l, uint64_t i, uint64_t n)
{
	const uint8_t *p = l->s->buf;
	int ret = 0;

	for (; n && !ret; n--, i++, p += CODE_PAGE) {
		const struct code_copy *c = l->r->pages[i];

		if (c ? memcmp(c->bytes, p, CODE_PAGE) != 0 :
			*p || !is_uniform(p, CODE_PAGE))
			ret = save_page(l, i, p);
	}
	return ret;
}

/* Reads pages [i, i + n); those that cannot be read are left out. */
static int read_pages(struct look *l, int fd, uint64_t i, uint64_t n)
{
	while (n) {
		ssize_t got = pread(fd, l->s->buf, n * CODE_PAGE,
				    (off_t)(l->r->addr + i * CODE_PAGE));
		uint64_t done = got > 0 ? (uint64_t)got / CODE_PAGE : 0;
		int ret = compare(l, i, done);

		if (ret)
			return ret;
		if (!got) {	/* no memory behind it: the process is gone */
			l->r->gone = true;
			return 0;
		}
		if (!done)
			done = 1;	/* not there any more */
		i += done;
		n -= done;
	}
	return 0;
}

/* Pages that were ever touched: nothing can have run in the others. */
static int read_touched(struct look *l, int fd, int map)
{
	uint64_t n_all = l->r->len / CODE_PAGE, i = 0;
	uint64_t flags[N_PAGES];
	int ret = 0;

	while (i < n_all && !ret && !l->r->gone) {
		uint64_t n = n_all - i < N_PAGES ? n_all - i : N_PAGES, k = 0;
		off_t at = (off_t)((l->r->addr / CODE_PAGE + i) * 8);

		if (map < 0 || pread(map, flags, n * 8, at) != (ssize_t)(n * 8))
			memset(flags, 0xff, sizeof(flags));
		while (k < n && !ret) {
			uint64_t from = k;

			while (k < n && flags[k] & PRESENT)
				k++;
			if (k > from)
				ret = read_pages(l, fd, i + from, k - from);
			else
				k++;
		}
		i += n;
	}
	return ret;
}

int codesave_read(struct codesave *s, struct code_range *r, struct writer *w,
		  uint64_t began_ns, bool *changed)
{
	struct look l = { s, r, w, began_ns, false };
	int fd, map = -1, ret;

	if (!s->buf)
		s->buf = malloc(N_PAGES * CODE_PAGE);
	if (!s->buf)
		return -AUX_E_NOMEM;
	fd = open_proc(s, r->pid, "mem");
	if (fd < 0) {
		if (errno != ENOENT && errno != ESRCH)
			s->stats.n_unsaved += r->len;
		r->gone = true;
		return 0;
	}
	if (r->kind == AUX_CODE_ANON)
		map = open_proc(s, r->pid, "pagemap");
	ret = read_touched(&l, fd, map);
	if (map >= 0)
		close(map);
	close(fd);
	if (began_ns > r->look_ns)
		r->look_ns = began_ns;
	*changed |= l.changed;
	return ret;
}
