/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: what there is to look at, and when.
 *
 * Readers of the rings leave notes, which cost them a lock and a copy; the looks
 * are our own thread's. A look takes as long as there is code; the next comes
 * not before twenty times that, so that it never costs more than a twentieth of
 * one CPU.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/codesave_impl.h"

/*
 * codesave: one look at one range of a process's memory.
 *
 * Invariant: bytes are given from the last look's time on only where nothing
 * else can have run meanwhile: where there was no page, or filler. Where other
 * bytes stood the time up to this look is UNKNOWN.
 * Specification: proc(5), /proc/PID/mem and /proc/PID/pagemap.
 */

#define N_PAGES 256u	/* read in one go */
#define GROUP 16u	/* what is judged to be filler, or code */
#define NO_CLOCK_NS UINT64_C(10000000000)
#define PRESENT (UINT64_C(3) << 62)	/* in memory, or in swap */

static int look(struct codesave *s);

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

/*
 * Reads what is there of a range and saves what differs from the last look;
 * began_ns: when this one began. Sets gone when the process is. *changed: there
 * was something.
 */
static int codesave_read(struct codesave *s, struct code_range *r,
			 struct writer *w, uint64_t began_ns, bool *changed)
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

#define FIRST_MS 2	/* after a mapping appeared */
#define PAUSE_MIN_MS 20
#define PAUSE_MAX_MS 100
#define SHARE 20
#define RANGE_MAX ((uint64_t)16 << 30)

static uint64_t codesave_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

int codesave_new(struct codesave **sp, const struct codesave_config *config)
{
	struct codesave *s = calloc(1, sizeof(*s));
	pthread_condattr_t a;

	*sp = s;
	if (!s)
		return -AUX_E_NOMEM;
	s->config = *config;
	if (!s->config.proc)
		s->config.proc = "/proc";
	if (!s->config.limit)
		s->config.limit = CODESAVE_LIMIT;
	s->pause_ms = PAUSE_MIN_MS;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->looking, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &a);
	pthread_condattr_destroy(&a);
	return 0;
}

static void free_range(struct code_range *r)
{
	uint64_t i;

	for (i = 0; r->pages && i < r->len / CODE_PAGE; i++)
		code_copy_put(r->pages[i]);
	free(r->pages);
}

static void stop_thread(struct codesave *s)
{
	bool running;

	pthread_mutex_lock(&s->lock);
	running = s->running;
	s->running = false;
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (running)
		pthread_join(s->thread, NULL);
}

void codesave_free(struct codesave *s)
{
	size_t i;

	if (!s)
		return;
	stop_thread(s);
	perfclock_close(&s->clock);
	for (i = 0; i < s->n_ranges; i++)
		free_range(&s->ranges[i]);
	for (i = 0; i < s->n_notes; i++)
		free(s->notes[i].path);
	for (i = 0; i < s->n_dumps; i++)
		free(s->dumps[i].path);
	free(s->ranges);
	free(s->notes);
	free(s->dumps);
	free(s->buf);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->looking);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* Room for one more; false: out of memory. */
static bool codesave_grow(void *array, size_t *cap, size_t n, size_t size)
{
	void **p = array, *q;

	if (n < *cap)
		return true;
	q = realloc(*p, (*cap ? 2 * *cap : 16) * size);
	if (!q)
		return false;
	*p = q;
	*cap = *cap ? 2 * *cap : 16;
	return true;
}

/* What is mapped anew at a place takes it from what was there. */
static void cut_ranges(struct codesave *s, const struct code_note *n)
{
	size_t i, k = 0;

	for (i = 0; i < s->n_ranges; i++) {
		struct code_range *r = &s->ranges[i];

		if (r->pid == n->pid && r->addr >= n->addr &&
		    r->addr + r->len <= n->addr + n->len)
			free_range(r);
		else
			s->ranges[k++] = *r;
	}
	s->n_ranges = k;
}

static int add_range(struct codesave *s, const struct code_range *r)
{
	struct code_range *n;

	if (r->len > RANGE_MAX)
		s->stats.n_unsaved += r->len;
	if (!r->len || r->len > RANGE_MAX)
		return 0;
	if (!codesave_grow(&s->ranges, &s->cap_ranges, s->n_ranges, sizeof(*n)))
		return -AUX_E_NOMEM;
	n = &s->ranges[s->n_ranges];
	*n = *r;
	n->pages = calloc(r->len / CODE_PAGE, sizeof(*n->pages));
	if (!n->pages)
		return -AUX_E_NOMEM;
	s->n_ranges++;
	return 0;
}

/* The same memory again (mprotect) goes on as what it was. */
static bool is_known(const struct codesave *s, const struct code_note *n)
{
	size_t i;

	for (i = 0; i < s->n_ranges; i++) {
		const struct code_range *r = &s->ranges[i];

		if (r->pid == n->pid && r->addr <= n->addr &&
		    n->addr + n->len <= r->addr + r->len &&
		    r->kind == n->code)
			return true;
	}
	return false;
}

static int take_map(struct codesave *s, const struct code_note *n)
{
	struct code_range r = {
		.addr = n->addr, .len = n->len, .look_ns = n->time_ns,
		.pid = n->pid, .kind = n->code,
	};

	if (n->code && is_known(s, n))
		return 0;
	cut_ranges(s, n);
	return n->code ? add_range(s, &r) : 0;
}

/* A child has all that its parent had, and readers know that. */
static int take_fork(struct codesave *s, const struct code_note *n)
{
	size_t i, had = s->n_ranges;
	uint64_t k;
	int ret = 0;

	for (i = 0; i < had && !ret; i++) {
		struct code_range r = s->ranges[i];
		struct code_copy **from = r.pages;

		if (r.pid != n->ppid)
			continue;
		r.pid = n->pid;
		r.look_ns = n->time_ns;	/* what it has of its own came later */
		ret = add_range(s, &r);
		for (k = 0; !ret && k < r.len / CODE_PAGE; k++) {
			s->ranges[s->n_ranges - 1].pages[k] = from[k];
			if (from[k])
				from[k]->n_refs++;
		}
	}
	return ret;
}

static int take_dump(struct codesave *s, struct code_note *n)
{
	size_t i;

	for (i = 0; i < s->n_dumps; i++)
		if (s->dumps[i].pid == n->pid &&
		    !strcmp(s->dumps[i].path, n->path))
			return 0;
	if (!codesave_grow(&s->dumps, &s->cap_dumps, s->n_dumps, sizeof(*s->dumps)))
		return -AUX_E_NOMEM;
	s->dumps[s->n_dumps++] = (struct code_dump){ n->path, n->pid };
	n->path = NULL;
	return 0;
}

static void drop_process(struct codesave *s, uint32_t pid)
{
	struct code_note all = { .pid = pid, .len = UINT64_MAX };

	cut_ranges(s, &all);
}

static int take_note(struct codesave *s, struct code_note *n)
{
	switch (n->kind) {
	case NOTE_MAP:
		return take_map(s, n);
	case NOTE_FORK:
		return take_fork(s, n);
	case NOTE_DROP:
		drop_process(s, n->pid);
		return 0;
	case NOTE_KERNEL:
		return codesave_read_kernel(s->config.proc, s->w, n->addr,
					    n->len, n->time_ns,
					    &s->stats.n_unsaved);
	default:
		return take_dump(s, n);
	}
}

static int take_notes(struct codesave *s)
{
	struct code_note *notes;
	size_t i, n;
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	notes = s->notes;
	n = s->n_notes;
	s->notes = NULL;
	s->n_notes = s->cap_notes = 0;
	s->stats.n_unsaved += s->lost_notes;
	s->lost_notes = false;
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n; i++) {
		if (!ret)
			ret = take_note(s, &notes[i]);
		free(notes[i].path);
	}
	free(notes);
	return ret;
}

/* When the next look is due, CLOCK_MONOTONIC; UINT64_MAX: no need. lock held. */
static uint64_t due_ms(const struct codesave *s)
{
	uint64_t noted = UINT64_MAX;

	if (s->n_notes)
		noted = s->noted_ms + FIRST_MS;
	if (s->n_notes && noted < s->free_ms)
		noted = s->free_ms;
	return s->n_ranges && s->due_ms < noted ? s->due_ms : noted;
}

static int look_at_all(struct codesave *s, bool *changed)
{
	uint64_t began_ns = perfclock_now(&s->clock);
	size_t i, k = 0;
	int ret = 0;

	for (i = 0; i < s->n_ranges; i++) {
		struct code_range *r = &s->ranges[i];

		if (!ret)
			ret = codesave_read(s, r, s->w, began_ns,
					    changed);
		if (r->gone)
			free_range(r);
		else
			s->ranges[k++] = *r;
	}
	s->n_ranges = k;
	return ret;
}

/* looking is held. */
static int look(struct codesave *s)
{
	uint64_t began = codesave_mono_ns(), took;
	bool changed = false;
	int ret = take_notes(s);

	if (!ret && s->w && s->n_ranges)
		ret = look_at_all(s, &changed);
	took = (codesave_mono_ns() - began) / 1000000;
	s->pause_ms = changed ? PAUSE_MIN_MS : 2 * s->pause_ms;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	s->free_ms = began / 1000000 + took + SHARE * took;
	s->due_ms = began / 1000000 + took + s->pause_ms;
	if (s->due_ms < s->free_ms)
		s->due_ms = s->free_ms;
	s->stats.n_looks++;
	if (ret && !s->error)
		s->error = ret;
	return ret;
}

int codesave_look(struct codesave *s)
{
	int ret;

	pthread_mutex_lock(&s->looking);
	ret = look(s);
	pthread_mutex_unlock(&s->looking);
	return ret;
}

/* Until the next look is due; false: there is to be none. */
static bool wait_until_due(struct codesave *s)
{
	uint64_t due, now;
	bool stop;

	pthread_mutex_lock(&s->lock);
	while (!s->stop && (due = due_ms(s)) > (now = codesave_mono_ns() / 1000000)) {
		struct timespec ts = {
			.tv_sec = (time_t)(due / 1000),
			.tv_nsec = (long)(due % 1000 * 1000000),
		};

		if (due == UINT64_MAX)
			pthread_cond_wait(&s->wake, &s->lock);
		else
			pthread_cond_timedwait(&s->wake, &s->lock, &ts);
	}
	stop = s->stop;
	pthread_mutex_unlock(&s->lock);
	return !stop;
}

static void *run(void *arg)
{
	struct codesave *s = arg;

	/* the readers of the rings come first */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5);
	while (wait_until_due(s) && !codesave_look(s))
		;
	return NULL;
}

int codesave_start(struct codesave *s)
{
	s->running = !pthread_create(&s->thread, NULL, run, s);
	return s->running ? 0 : -AUX_E_NOMEM;
}

int codesave_finish(struct codesave *s)
{
	size_t i;

	stop_thread(s);
	codesave_look(s);
	for (i = 0; i < s->n_dumps && s->w && !s->error; i++)
		s->error = codesave_file(s->w, s->dumps[i].path,
					 s->dumps[i].path, s->dumps[i].pid);
	return s->error;
}

/* All is new to the file. */
static void forget(struct code_range *r)
{
	uint64_t k;

	for (k = 0; k < r->len / CODE_PAGE; k++) {
		code_copy_put(r->pages[k]);
		r->pages[k] = NULL;
	}
}

void codesave_output(struct codesave *s, struct writer *w)
{
	size_t i;

	pthread_mutex_lock(&s->looking);
	for (i = 0; i < s->n_ranges && s->w; i++)
		forget(&s->ranges[i]);
	s->w = w;
	s->stats.n_saved = 0;
	pthread_mutex_lock(&s->lock);
	s->due_ms = s->free_ms = 0;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_unlock(&s->looking);
}

const struct codesave_stats *codesave_stats(const struct codesave *s)
{
	return &s->stats;
}

/*
 * codesave: what the kernel's records tell of code that no file has.
 *
 * Readers of the rings come here with every record: most go in one comparison,
 * the others are noted for the next look.
 */

#define MAX_NOTES 65536

/* An MMAP2 record up to its path. */
struct mmap2 {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
};

static void add_note(struct codesave *s, const struct code_note *n)
{
	if (s->n_notes < MAX_NOTES &&
	    codesave_grow(&s->notes, &s->cap_notes, s->n_notes, sizeof(*n))) {
		if (!s->n_notes)
			s->noted_ms = codesave_mono_ns() / 1000000;
		s->notes[s->n_notes++] = *n;
		pthread_cond_signal(&s->wake);
		return;
	}
	s->lost_notes = true;
	free(n->path);
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && !strcmp(s + n - m, with);
}

/* As synth_code.c decides of what existed before. */
static uint8_t kind_of(const struct mmap2 *m, const char *path)
{
	if (!strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]") ||
	    !strcmp(path, "[uprobes]"))
		return 0;
	if (*path != '/' || starts(path, "//anon") || m->prot & PROT_WRITE)
		return AUX_CODE_ANON;
	return ends(path, " (deleted)") || starts(path, "/memfd:") ||
	       starts(path, "/dev/zero") || starts(path, "/SYSV") ?
		       AUX_CODE_FILE : 0;
}

/* A runtime that writes DIR/jit-PID.dump maps its first page, executable. */
static bool is_jitdump(const char *path)
{
	const char *base = strrchr(path, '/');

	return base && starts(base, "/jit-") && ends(base, ".dump");
}

static void note_mmap2(struct codesave *s, const struct perf_event_header *h,
		       uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_MAP, .time_ns = time_ns };
	const char *path = (const char *)h + sizeof(struct mmap2);
	struct mmap2 m;

	if (h->size <= sizeof(m) ||
	    !memchr(path, '\0', h->size - sizeof(m)))
		return;
	memcpy(&m, h, sizeof(m));
	if (!(m.prot & PROT_EXEC) || h->misc & PERF_RECORD_MISC_MMAP_DATA ||
	    m.pid == s->config.self || m.len > UINT64_MAX - m.addr)
		return;
	n.pid = m.pid;
	n.code = kind_of(&m, path);
	n.addr = m.addr & ~(uint64_t)(CODE_PAGE - 1);
	n.len = (m.addr + m.len - n.addr) & ~(uint64_t)(CODE_PAGE - 1);
	if (is_jitdump(path)) {
		n.kind = NOTE_DUMP;
		n.path = strdup(path);
		if (!n.path)
			return;
	}
	add_note(s, &n);
}

/* addr, len, ksym_type, flags, name */
static void note_ksymbol(struct codesave *s, const struct perf_event_header *h,
			 uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_KERNEL, .time_ns = time_ns };
	uint16_t type, flags;
	uint32_t len;

	if (h->size < sizeof(*h) + 16 || !s->config.kernel)
		return;
	memcpy(&n.addr, h + 1, sizeof(n.addr));
	memcpy(&len, (const uint8_t *)(h + 1) + 8, sizeof(len));
	memcpy(&type, (const uint8_t *)(h + 1) + 12, sizeof(type));
	memcpy(&flags, (const uint8_t *)(h + 1) + 14, sizeof(flags));
	n.len = len;
	if (!(flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) && len)
		add_note(s, &n);
}

static void note_task(struct codesave *s, const struct perf_event_header *h,
		      uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_DROP, .time_ns = time_ns };
	uint32_t w[4];

	if (h->size < sizeof(*h) + sizeof(w))
		return;
	memcpy(w, h + 1, sizeof(w));
	n.pid = w[0];
	if (h->type == PERF_RECORD_FORK) {	/* pid, ppid, tid, ptid */
		n.kind = NOTE_FORK;
		n.ppid = w[1];
		if (n.pid == n.ppid)
			return;
	} else if (!(h->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		return;
	}
	add_note(s, &n);
}

void codesave_note(struct codesave *s, const struct perf_event_header *h,
		   uint64_t time_ns)
{
	if (h->type != PERF_RECORD_MMAP2 && h->type != PERF_RECORD_FORK &&
	    h->type != PERF_RECORD_COMM && h->type != PERF_RECORD_KSYMBOL)
		return;
	pthread_mutex_lock(&s->lock);
	if (h->type == PERF_RECORD_MMAP2)
		note_mmap2(s, h, time_ns);
	else if (h->type == PERF_RECORD_KSYMBOL)
		note_ksymbol(s, h, time_ns);
	else
		note_task(s, h, time_ns);
	pthread_mutex_unlock(&s->lock);
}

void codesave_watch(struct codesave *s, uint32_t pid, uint64_t addr,
		    uint64_t len, uint32_t kind)
{
	struct code_note n = {
		.kind = NOTE_MAP, .code = (uint8_t)kind, .pid = pid,
		.addr = addr, .len = len & ~(uint64_t)(CODE_PAGE - 1),
	};

	if (kind == AUX_CODE_VDSO || pid == s->config.self)
		return;
	pthread_mutex_lock(&s->lock);
	add_note(s, &n);
	pthread_mutex_unlock(&s->lock);
}
