/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the logs of a process, read into one table, and when what is at an
 * address changed.
 *
 * Specification: elf/jitdump.h; times are those of CLOCK_MONOTONIC, or the CPU's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/code/jit.h"

#define MAX_COMPARED 64 /* older code looked at for each */

/* Calls see for all code that overlaps [start, end), until it returns true. */
static bool walk_part(const struct jit *j, size_t lo, size_t hi,
		      uint64_t start, uint64_t end,
		      bool (*see)(void *priv, const struct jit_load *l),
		      void *priv)
{
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct jit_load *l = &j->loads[mid];

		if (l->max_end <= start)
			return false;
		if (walk_part(j, lo, mid, start, end, see, priv))
			return true;
		if (l->code->addr >= end)
			return false;
		if (l->code->addr + l->code->size > start && see(priv, l))
			return true;
		lo = mid + 1;
	}
	return false;
}

void codeview_jit_walk(const struct jit *j, uint64_t start, uint64_t end,
	      bool (*see)(void *priv, const struct jit_load *l), void *priv)
{
	walk_part(j, 0, j->n_loads, start, end, see, priv);
}

static uint64_t fill_max(struct jit *j, size_t lo, size_t hi)
{
	size_t mid = lo + (hi - lo) / 2;
	struct jit_load *l = &j->loads[mid];
	uint64_t max, sub;

	if (lo >= hi)
		return 0;
	max = l->code->addr + l->code->size;
	sub = fill_max(j, lo, mid);
	max = sub > max ? sub : max;
	sub = fill_max(j, mid + 1, hi);
	l->max_end = sub > max ? sub : max;
	return l->max_end;
}

bool codeview_jit_same(const struct jitdump_code *a, const struct jitdump_code *b)
{
	uint64_t start = a->addr > b->addr ? a->addr : b->addr;
	uint64_t end = a->addr + a->size < b->addr + b->size ?
			       a->addr + a->size : b->addr + b->size;

	return !memcmp(a->bytes + (start - a->addr),
		       b->bytes + (start - b->addr), end - start);
}

bool codeview_jit_older(const struct jit_load *a, const struct jit_load *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

struct change {
	const struct jit_load *l;
	unsigned n;
	bool found;
};

static bool see_older(void *priv, const struct jit_load *l)
{
	struct change *c = priv;

	c->found = codeview_jit_older(l, c->l) &&
		   (++c->n > MAX_COMPARED || !codeview_jit_same(l->code, c->l->code));
	return c->found;
}

static int by_time(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int find_epochs(struct jit *j)
{
	size_t n = 0;

	j->epochs = calloc(j->n_loads + 1, sizeof(*j->epochs));
	if (!j->epochs)
		return -AUX_E_NOMEM;
	j->epochs[j->n_epochs++] = 0;
	for (size_t i = 0; j->timed && i < j->n_loads; i++) {
		const struct jit_load *l = &j->loads[i];
		struct change c = { .l = l };

		codeview_jit_walk(j, l->code->addr,
			 l->code->addr + l->code->size, see_older, &c);
		if (c.found)
			j->epochs[j->n_epochs++] = l->time;
	}
	qsort(j->epochs, j->n_epochs, sizeof(*j->epochs), by_time);
	for (size_t i = 0; i < j->n_epochs; i++) {
		if (!i || j->epochs[i] != j->epochs[i - 1])
			j->epochs[n++] = j->epochs[i];
	}
	j->n_epochs = n;
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct jit_load *x = a, *y = b;

	if (x->code->addr != y->code->addr)
		return x->code->addr < y->code->addr ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int add_loads(struct jit *j, const struct jit_log *log,
		     const struct aux_clock *clock)
{
	const struct jitdump_info *info = jitdump_info(log->dump);
	const struct jitdump_code *code;

	for (size_t i = 0; (code = jitdump_code(log->dump, i)); i++) {
		if (j->n_loads == j->cap_loads) {
			size_t cap = j->cap_loads ? 2 * j->cap_loads : 256;
			struct jit_load *p = reallocarray(j->loads, cap,
							  sizeof(*p));

			if (!p)
				return -AUX_E_NOMEM;
			j->loads = p;
			j->cap_loads = cap;
		}
		j->loads[j->n_loads] = (struct jit_load){
			.code = code, .log = log, .order = j->n_loads,
			.time = info->arch_clock ?
					clock_to_ns(clock, code->time) :
					code->time,
		};
		j->n_loads++;
	}
	return 0;
}

/* The log in the recording, or on this machine. */
static int open_log(struct codeview *cv, struct jit_log *log)
{
	const struct own_file *own = codeview_own(cv, log->path);
	const char *root = cv->symfs && !cv->symfs_is_file ? cv->symfs : "";
	struct aux_diag diag = { 0 };
	const uint8_t *p;
	uint64_t len;
	char *path;
	int rc;

	if (own)
		return jitdump_new(&log->dump, own->bytes, own->len, &diag);
	if (cv->closed && !*root)
		return -AUX_E_NOENT;
	if (asprintf(&path, "%s%s", root, log->path) < 0)
		return -AUX_E_NOMEM;
	rc = elfimage_open(&log->file, path);
	if (!rc) {
		p = elfimage_data(log->file, &len);
		rc = jitdump_new(&log->dump, p, len, &diag);
		if (rc < 0)
			codeview_add_note(cv, "%s: %s", path, diag.text);
	}
	free(path);
	return rc;
}

static void note_damage(struct codeview *cv, const struct jit_log *log)
{
	const struct jitdump_info *info = jitdump_info(log->dump);

	if (info->damage.code)
		codeview_add_note(cv, "%s@0x%llx: %s; code that was logged "
				  "later is not known", log->path,
				  (unsigned long long)info->damage.offset,
				  info->damage.text);
}

/* All logs of a process. */
int codeview_jit_load(struct codeview *cv, struct jit *j,
		      const struct aux_clock *clock)
{
	size_t n = 0;

	for (size_t i = 0; i < cv->n_markers; i++)
		n += cv->markers[i].pid == j->pid;
	j->logs = calloc(n ? n : 1, sizeof(*j->logs));
	if (!j->logs)
		return -AUX_E_NOMEM;
	j->timed = !cv->virtual_clock;
	for (size_t i = 0; i < cv->n_markers; i++) {
		struct jit_log *log = &j->logs[j->n_logs];

		if (cv->markers[i].pid != j->pid)
			continue;
		log->path = cv->markers[i].path;
		j->n_logs++;
		if (open_log(cv, log) < 0 || !log->dump) {
			if (!j->missing)
				j->missing = log->path;
			continue;
		}
		note_damage(cv, log);
		j->timed &= jitdump_info(log->dump)->arch_clock ?
				    clock->mult != 0 : cv->jit_clock;
		if (add_loads(j, log, clock) < 0)
			return -AUX_E_NOMEM;
	}
	if (j->n_loads)
		qsort(j->loads, j->n_loads, sizeof(*j->loads), by_addr);
	fill_max(j, 0, j->n_loads);
	return find_epochs(j);
}
