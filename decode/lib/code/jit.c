/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: code that JIT compilers logged (elf/jitdump.h), laid over the
 * mappings of their processes.
 *
 * Code that was logged once for an address counts for all times, since nothing
 * else ran there. Time matters only where different code was logged for the
 * same place: each such change begins an epoch of the process, and
 * codeview_space divides the spaces of the timeline at epochs. A log and a
 * recording that share no clock give no epochs; places with different code then
 * have none at all, rather than a wrong one.
 *
 * Loads are sorted by address and form a balanced tree by their middles, each
 * with the largest end in its subtree (an interval tree without pointers), so
 * all code around an address is found in O(log n).
 *
 * A process that was forked from one with a log has its code, until it execs.
 *
 * Specification: tools/perf/Documentation/jitdump-specification.txt of Linux.
 * Times are CLOCK_MONOTONIC, or the CPU's counter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/lib/code/impl.h"
#include "decode/lib/elf/jitdump.h"

#define JIT_SPACES 256	/* hash slots: divided spaces of one process */
#define JIT_PIDS   1024	/* slots of a cache by pid */

struct jit_log {
	const char *path;	/* as recorded */
	struct elfimage *file;	/* its bytes; NULL: the recording has them */
	struct jitdump *dump;	/* NULL: the log was not found */
};

struct jit_load {
	const struct jitdump_code *code;
	const struct jit_log *log;
	uint64_t time;		/* perf clock, when the jit is timed */
	size_t order;		/* in the log, among equal times */
	uint64_t max_end;	/* of the subtree */
};

/* The part of a space in one epoch; the high bits of its id say so. */
struct jit_space {
	struct jit_space *next;
	const struct space *base;
	struct jit *jit;
	size_t epoch;
	struct space space;
};

/* One process. Immutable once loaded, but for spaces, which cv->lock guards. */
struct jit {
	struct jit *next;
	uint32_t pid;
	bool timed;		/* log and recording share a clock */
	const char *missing;	/* a log that cannot be read; NULL: none */
	struct jit_log *logs;
	size_t n_logs;
	struct jit_load *loads;
	size_t n_loads, cap_loads;
	uint64_t *epochs;	/* when they start; the first is 0 */
	size_t n_epochs;
	uint32_t first_serial;	/* of its first epoch; serials count the epochs
				 * of all processes from 1 */
	struct jit_space *spaces[JIT_SPACES];
};

struct jits {
	struct jit *list;
	uint32_t n_serials;
	struct jit_pid {
		bool known;
		uint32_t pid;
		struct jit *jit;	/* NULL: logs nothing */
	} pids[JIT_PIDS];	/* the last answer of each slot */
};

/* ---- the table of a process ---- */

/* How many older pieces are compared with a new one; beyond that the code
 * counts as changed. Bounds the work for a log that reuses one address again
 * and again. */
#define MAX_COMPARED 64

/* The part [lo, hi) of the tree. True: see ended the walk. */
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

/* Calls see for all code that overlaps [start, end), until it returns true. */
static void walk(const struct jit *j, uint64_t start, uint64_t end,
			      bool (*see)(void *priv, const struct jit_load *l),
			      void *priv)
{
	walk_part(j, 0, j->n_loads, start, end, see, priv);
}

/* Fills max_end of the subtree [lo, hi) and returns it. */
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

/* Of two that overlap: whether they have the same bytes where they do. */
static bool same_bytes(const struct jitdump_code *a,
			      const struct jitdump_code *b)
{
	uint64_t start = a->addr > b->addr ? a->addr : b->addr;
	uint64_t end = a->addr + a->size < b->addr + b->size ?
			       a->addr + a->size : b->addr + b->size;

	return !memcmp(a->bytes + (start - a->addr),
		       b->bytes + (start - b->addr), end - start);
}

static bool is_older(const struct jit_load *a,
			       const struct jit_load *b)
{
	return a->time != b->time ? a->time < b->time : a->order < b->order;
}

struct change {
	const struct jit_load *l;
	unsigned n;
	bool found;
};

/* Whether c->l replaces different code that was there before. */
static bool see_older(void *priv, const struct jit_load *l)
{
	struct change *c = priv;

	c->found = is_older(l, c->l) &&
		   (++c->n > MAX_COMPARED || !same_bytes(l->code, c->l->code));
	return c->found;
}

static int by_time(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The times at which code at some address changed, sorted, each once. */
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

		walk(j, l->code->addr,
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

/* Appends the code of a log, with times on the perf clock. */
static int add_loads(struct jit *j, const struct jit_log *log,
		     const struct aux_clock *clock)
{
	const struct jitdump_info *info = jitdump_info(log->dump);
	const struct jitdump_code *code;

	for (size_t i = 0; (code = jitdump_code(log->dump, i)); i++) {
		if (array_grow(&j->loads, j->n_loads, &j->cap_loads,
			       sizeof(*j->loads)) < 0)
			return -AUX_E_NOMEM;
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

/* From the recording, else from this machine (a bundle: only under symfs). */
static int open_log(struct codeview *cv, struct jit_log *log, uint32_t pid)
{
	const struct own_file *own = codeview_own(cv, log->path, pid);
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
			codeview_add_note(cv, AUX_WHY_NONE, "%s: %s", path, diag.text);
	}
	free(path);
	return rc;
}

static void note_damage(struct codeview *cv, const struct jit_log *log)
{
	const struct jitdump_info *info = jitdump_info(log->dump);

	if (info->damage.code)
		codeview_add_note(cv, AUX_WHY_NONE, "%s@0x%llx: %s; code that was logged "
				  "later is not known", log->path,
				  (unsigned long long)info->damage.offset,
				  info->damage.text);
}

/* Reads all logs of a process into one table. */
static int load_logs(struct codeview *cv, struct jit *j,
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
		if (open_log(cv, log, j->pid) < 0 || !log->dump) {
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

/* ---- spaces ---- */

/* Serials of epochs stand in the ids of spaces above EPOCH_SHIFT. */
#define MAX_EPOCHS   (UINT32_C(1) << 24)
#define EPOCH_SHIFT  36
#define MAX_FORKS    64 /* generations looked back */

/* The last epoch that begins at or before time. */
static size_t epoch_at(const struct jit *j, uint64_t time)
{
	size_t lo = 0, n = j->n_epochs;

	while (n) {
		size_t half = n / 2;

		if (j->epochs[lo + half] <= time) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return lo - 1;
}

uint32_t codeview_parent(const struct codeview *cv, uint32_t pid)
{
	uint32_t parent = UINT32_MAX;

	for (size_t i = 0; i < cv->n_forks; i++) {
		if (cv->forks[i].pid != pid)
			continue;
		if (cv->forks[i].ppid == UINT32_MAX)
			return UINT32_MAX;
		parent = cv->forks[i].ppid;
	}
	return parent;
}

/* The process whose log describes pid's code: its own, or that of an ancestor
 * that it was forked from without an exec since. UINT32_MAX: none. */
static uint32_t find_logged(const struct codeview *cv, uint32_t pid)
{
	for (unsigned hops = 0; pid != UINT32_MAX && hops < MAX_FORKS; hops++) {
		for (size_t i = 0; i < cv->n_markers; i++) {
			if (cv->markers[i].pid == pid)
				return pid;
		}
		pid = codeview_parent(cv, pid);
	}
	return UINT32_MAX;
}

/* The logs that describe pid's code, loaded at the first question; NULL: none.
 * Holds cv->lock. */
static struct jit *find_jit(struct codeview *cv, uint32_t pid,
			    const struct aux_clock *clock)
{
	struct jit_pid *known = &cv->jits->pids[pid % JIT_PIDS];
	struct jit *j;
	uint32_t logged;

	if (known->known && known->pid == pid)
		return known->jit;
	logged = find_logged(cv, pid);
	for (j = cv->jits->list; j && j->pid != logged; j = j->next)
		;
	if (!j && logged != UINT32_MAX && (j = calloc(1, sizeof(*j)))) {
		j->pid = logged;
		j->next = cv->jits->list;
		cv->jits->list = j;
		if (load_logs(cv, j, clock) < 0) {
			cv->nomem = true;
			j->n_loads = 0;
		}
		j->first_serial = cv->jits->n_serials + 1;
		cv->jits->n_serials += j->n_epochs;
	}
	cv->nomem |= !j && logged != UINT32_MAX;
	*known = (struct jit_pid){ .known = true, .pid = pid, .jit = j };
	return j;
}

/* The part of a space that lies in an epoch. Out of memory it is the whole
 * space. */
static const struct space *divide(struct jit *j, const struct space *s,
				  size_t epoch)
{
	size_t slot = (s->id ^ epoch * 31) % JIT_SPACES;
	struct jit_space *d;

	for (d = j->spaces[slot]; d; d = d->next) {
		if (d->base == s && d->epoch == epoch)
			return &d->space;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return s;
	d->base = s;
	d->epoch = epoch;
	d->jit = j;
	d->space = *s;
	d->space.id |= (uint64_t)(j->first_serial + epoch) << EPOCH_SHIFT;
	if (epoch && j->epochs[epoch] > s->from)
		d->space.from = j->epochs[epoch];
	if (epoch + 1 < j->n_epochs && j->epochs[epoch + 1] < s->until)
		d->space.until = j->epochs[epoch + 1];
	d->next = j->spaces[slot];
	j->spaces[slot] = d;
	return &d->space;
}

/* Spaces are divided only in recordings with JIT logs; else this is
 * timeline_space without a lock. */
const struct space *codeview_space(struct codeview *cv,
				   const struct timeline *tl, uint32_t pid,
				   uint64_t time)
{
	const struct space *s = timeline_space(tl, pid, time);
	struct jit *j;

	if (!cv->n_markers || pid == UINT32_MAX || !s->pid)
		return s;
	pthread_mutex_lock(&cv->lock);
	if (!cv->jits)
		cv->jits = calloc(1, sizeof(*cv->jits));
	cv->nomem |= !cv->jits;
	j = cv->jits ? find_jit(cv, pid, timeline_clock(tl)) : NULL;
	if (j && j->n_epochs && cv->jits->n_serials < MAX_EPOCHS)
		s = divide(j, s, epoch_at(j, time));
	pthread_mutex_unlock(&cv->lock);
	return s;
}

void codeview_jit_free(struct jits *jits)
{
	while (jits && jits->list) {
		struct jit *j = jits->list;

		jits->list = j->next;
		for (size_t i = 0; i < JIT_SPACES; i++) {
			while (j->spaces[i]) {
				struct jit_space *d = j->spaces[i];

				j->spaces[i] = d->next;
				free(d);
			}
		}
		for (size_t i = 0; i < j->n_logs; i++) {
			jitdump_free(j->logs[i].dump);
			elfimage_close(j->logs[i].file);
		}
		free(j->logs);
		free(j->loads);
		free(j->epochs);
		free(j);
	}
	free(jits);
}

/* ---- questions ---- */

/* A divided space is part of a struct jit_space; the high bits of its id tell
 * it from the timeline's own. */
static const struct jit_space *jit_of(const struct codeview *cv,
				      const struct space *space)
{
	if (!cv->n_markers || !space || !(space->id >> EPOCH_SHIFT))
		return NULL;
	return (const struct jit_space *)((const char *)space -
					  offsetof(struct jit_space, space));
}

struct question {
	const struct jit *jit;
	const struct mapping *saved;	/* bytes that were there; NULL: unknown */
	uint64_t ip, until;
	const struct jit_load *best;
	bool unclear;		/* several differ, and no clock tells which */
	uint64_t start, end;	/* clipped by what is newer than best */
};

/* Without a clock, saved bytes tell which of several pieces was there. */
static bool is_saved(const struct mapping *m, const struct jitdump_code *c)
{
	uint64_t start = c->addr > m->start ? c->addr : m->start;
	uint64_t end = c->addr + c->size < m->end ? c->addr + c->size : m->end;

	return !memcmp(c->bytes + (start - c->addr),
		       m->saved + (start - m->start), end - start);
}

/* Finds the newest code that existed before the epoch ends. */
static bool see_best(void *priv, const struct jit_load *l)
{
	struct question *q = priv;

	if (q->jit->timed && l->time >= q->until)
		return false;
	if (!q->jit->timed && q->saved && !is_saved(q->saved, l->code))
		return false;
	if (!q->best) {
		q->best = l;
		return false;
	}
	if (!q->jit->timed && !same_bytes(q->best->code, l->code))
		q->unclear = true;
	if (is_older(q->best, l))
		q->best = l;
	return false;
}

/* Clips the best code where newer code lies over it. */
static bool see_newer(void *priv, const struct jit_load *l)
{
	struct question *q = priv;
	uint64_t start = l->code->addr, end = start + l->code->size;

	if (l == q->best || (q->jit->timed && (l->time >= q->until ||
					       is_older(l, q->best))))
		return false;
	if (end <= q->ip && end > q->start)
		q->start = end;
	if (start > q->ip && start < q->end)
		q->end = start;
	return false;
}

bool codeview_jit_find(struct codeview *cv, const struct space *space,
		       const struct mapping *m, uint64_t ip,
		       struct jit_hit *hit)
{
	const struct jit_space *d = jit_of(cv, space);
	struct question q = { .ip = ip, .until = UINT64_MAX,
			      .saved = m && m->saved ? m : NULL };
	const struct jitdump_code *c;

	if (!d || ip == UINT64_MAX)
		return false;
	q.jit = d->jit;
	if (d->epoch + 1 < d->jit->n_epochs)
		q.until = d->jit->epochs[d->epoch + 1];
	walk(d->jit, ip, ip + 1, see_best, &q);
	if (!q.best)
		return false;
	c = q.best->code;
	q.start = c->addr;
	q.end = c->addr + c->size;
	walk(d->jit, q.start, q.end, see_newer, &q);
	*hit = (struct jit_hit){
		.name = c->name, .sym_start = c->addr, .sym_size = c->size,
		.start = q.start, .end = q.end,
		.bytes = q.unclear ? NULL : c->bytes + (q.start - c->addr),
		.time = d->jit->timed ? q.best->time : UINT64_MAX,
		.log = q.best->log->path,
		.path = q.best->log->file ?
				elfimage_path(q.best->log->file) : NULL,
		.offset = c->offset + (q.start - c->addr),
	};
	return true;
}

/* Clips around ip by any logged code. */
static bool see_any(void *priv, const struct jit_load *l)
{
	struct question *q = priv;
	uint64_t start = l->code->addr, end = start + l->code->size;

	if (end <= q->ip && end > q->start)
		q->start = end;
	if (start > q->ip && start < q->end)
		q->end = start;
	return false;
}

void codeview_jit_clip(struct codeview *cv, const struct space *space,
		       uint64_t ip, uint64_t *start, uint64_t *end)
{
	const struct jit_space *d = jit_of(cv, space);
	struct question q = { .ip = ip, .start = *start, .end = *end };
	uint64_t near = ip & ~UINT64_C(4095);

	if (!d)
		return;
	/* A page is enough: a larger area would mean more loads to clip by. */
	if (q.start < near)
		q.start = near;
	if (q.end - near > 4096)
		q.end = near + 4096;
	walk(d->jit, q.start, q.end, see_any, &q);
	*start = q.start;
	*end = q.end;
}

const char *codeview_jit_missing(const struct codeview *cv,
				 const struct space *space)
{
	const struct jit_space *d = jit_of(cv, space);

	return d ? d->jit->missing : NULL;
}
