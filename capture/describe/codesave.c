/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: what is to be scanned, when, and the scan of one range.
 *
 * Readers of the rings queue requests, which costs them a lock and a copy;
 * scans run on our own thread. A scan takes as long as there is code; the next
 * starts not before SHARE times that, so that scanning never costs more than a
 * twentieth of a CPU.
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
#include <unistd.h>

#include "capture/describe/impl.h"
#include "common/array.h"
#include "common/clock.h"
#include "common/jitname.h"

/*
 * The scan of one range.
 *
 * Invariant: bytes are declared valid from the last scan's time on only where
 * nothing else can have run since: where there was no page, or filler. Where
 * other bytes stood, the interval up to this scan is UNKNOWN.
 *
 *	last scan            change                this scan        read_by
 *	seen_ns              (time unknown)        began_ns         |
 *	|  new bytes valid if nothing stood there: from seen_ns     |
 *	|  else UNKNOWN from seen_ns                  new bytes from here
 *
 * Specification: proc(5), /proc/PID/mem and /proc/PID/pagemap.
 */

#define N_PAGES 256u	/* read at a time */
#define GROUP 16u	/* granularity of the filler test: filler is one repeated byte,
			 * which a runtime pads its code memory with (0, int3) */
#define NO_CLOCK_NS UINT64_C(10000000000)	/* 10 s */
#define PRESENT (UINT64_C(3) << 62)	/* pagemap: in memory, or swapped out */

struct scan {
	struct codesave *s;
	struct code_range *r;
	struct writer *w;
	uint64_t began_ns;	/* perf clock */
	bool changed;		/* out: something was saved */
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

static int put(struct scan *l, uint64_t addr, uint64_t len, uint64_t time_ns,
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

/* Nothing runs there: a process that ends before the next scan may have written code over
 * it and run that, which only a gap tells. */
static bool is_empty(const uint8_t *group)
{
	return (!*group || *group == 0xcc) && is_uniform(group, GROUP);
}

/* Saves what is not empty of a page. */
static int put_code(struct scan *l, uint64_t addr, uint64_t time_ns,
		    const uint8_t *page)
{
	unsigned at, from = 0;
	int ret = 0;

	for (at = 0; at <= CODE_PAGE && !ret; at += GROUP) {
		if (at < CODE_PAGE && !is_empty(page + at))
			continue;
		if (at > from)
			ret = put(l, addr + from, at - from, time_ns, l->r->kind,
				  page + from);
		from = at + GROUP;
	}
	return ret;
}

/* Marks the groups where code was replaced; *any becomes true if there are
 * any. */
static int put_unknown(struct scan *l, uint64_t addr, const uint8_t *old,
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
		ret = put(l, addr + from, at - from, l->r->seen_ns,
			  AUX_CODE_UNKNOWN, NULL);
		from = CODE_PAGE;
		*any = true;
	}
	return ret;
}

/* A time by which the bytes had been read: the end of the unknown interval.
 * Without a clock an interval of NO_CLOCK_NS is assumed to contain it. */
static uint64_t read_by(struct scan *l)
{
	uint64_t now = perfclock_now(&l->s->clock);

	return now ? now : l->r->seen_ns + NO_CLOCK_NS;
}

/* Saves a page that changed, and remembers its bytes. A copy shared with a
 * forked child (n_refs > 1) is left to the others. */
static int save_page(struct scan *l, uint64_t i, const uint8_t *new)
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
	ret = put_code(l, addr, l->r->seen_ns, new);
	if (!ret && c)
		ret = put_unknown(l, addr, c->bytes, new, &replaced);
	if (!ret && replaced)
		ret = put_code(l, addr, read_by(l), new);
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

/* Compares pages [i, i + n), now in buf, with their copies and saves those that
 * differ. A page never seen counts as all zeros. */
static int compare(struct scan *l, uint64_t i, uint64_t n)
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

/* Reads pages [i, i + n); skips those that cannot be read. */
static int read_pages(struct scan *l, int fd, uint64_t i, uint64_t n)
{
	while (n) {
		ssize_t got = pread(fd, l->s->buf, n * CODE_PAGE,
				    (off_t)(l->r->addr + i * CODE_PAGE));
		uint64_t done = got > 0 ? (uint64_t)got / CODE_PAGE : 0;
		int ret = compare(l, i, done);

		if (ret)
			return ret;
		if (!got) {	/* end of file: the address space is gone */
			l->r->gone = true;
			return 0;
		}
		if (!done)
			done = 1;	/* unmapped meanwhile */
		i += done;
		n -= done;
	}
	return 0;
}

/* Whether [i, i + n) were ever touched, of which pagemap tells in the kernel's pages:
 * each has as many of ours as fit. All, where that cannot be read. */
static void read_flags(const struct scan *l, int map, uint64_t i, uint64_t n,
		       uint64_t flags[N_PAGES])
{
	uint64_t size = l->s->config.page, addr = l->r->addr + i * CODE_PAGE;
	uint64_t first = addr / size, k;
	uint64_t bytes = ((addr + n * CODE_PAGE - 1) / size + 1 - first) * 8;

	if (map < 0 || pread(map, flags, bytes, (off_t)(first * 8)) != (ssize_t)bytes) {
		memset(flags, 0xff, n * sizeof(*flags));
		return;
	}
	for (k = n; k--;)	/* from behind: none is taken after it was replaced */
		flags[k] = flags[(addr + k * CODE_PAGE) / size - first];
}

/* Reads the pages that were ever touched: nothing can have run in the others,
 * and runtimes reserve gigabytes. Without pagemap (map < 0) all are read. */
static int read_touched(struct scan *l, int fd, int map)
{
	uint64_t n_all = l->r->len / CODE_PAGE, i = 0;
	uint64_t flags[N_PAGES];
	int ret = 0;

	while (i < n_all && !ret && !l->r->gone) {
		uint64_t n = n_all - i < N_PAGES ? n_all - i : N_PAGES, k = 0;

		read_flags(l, map, i, n, flags);
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
 * Reads a range and saves what differs from the last scan; began_ns is when
 * this one began. Sets r->gone if the process is gone, *changed if something
 * was saved.
 */
static int scan_range(struct codesave *s, struct code_range *r,
			 struct writer *w, uint64_t began_ns, bool *changed)
{
	struct scan l = { s, r, w, began_ns, false };
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
	if (began_ns > r->seen_ns)
		r->seen_ns = began_ns;
	*changed |= l.changed;
	return ret;
}

#define FIRST_MS 2	/* from a new mapping to its first scan */
#define PAUSE_MIN_MS 20	/* between scans that find changes; doubles without */
#define PAUSE_MAX_MS 100
#define SHARE 20	/* pause at least so many times the scan's duration */
#define RANGE_MAX ((uint64_t)16 << 30)	/* more address space is not watched */

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
	if (s->config.page < CODE_PAGE)
		s->config.page = (uint32_t)sysconf(_SC_PAGESIZE);
	s->pause_ms = PAUSE_MIN_MS;
	pthread_mutex_init(&s->queue.lock, NULL);
	pthread_mutex_init(&s->scan_lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&s->queue.wake, &a);
	pthread_condattr_destroy(&a);
	return jitfiles_new(&s->jit, s->config.proc);
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

	pthread_mutex_lock(&s->queue.lock);
	running = s->queue.running;
	s->queue.running = false;
	s->queue.stop = true;
	pthread_cond_signal(&s->queue.wake);
	pthread_mutex_unlock(&s->queue.lock);
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
	for (i = 0; i < s->queue.n_requests; i++)
		free(s->queue.requests[i].path);
	jitfiles_free(s->jit);
	free(s->ranges);
	free(s->queue.requests);
	free(s->buf);
	pthread_cond_destroy(&s->queue.wake);
	pthread_mutex_destroy(&s->scan_lock);
	pthread_mutex_destroy(&s->queue.lock);
	free(s);
}

/* A new mapping replaces the ranges that lie within it. */
static void cut_ranges(struct codesave *s, const struct code_request *n)
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

/* Adds a range without pages yet; one beyond RANGE_MAX only counts as
 * unsaved. */
static int add_range(struct codesave *s, const struct code_range *r)
{
	struct code_range *n;

	if (r->len > RANGE_MAX)
		s->stats.n_unsaved += r->len;
	if (!r->len || r->len > RANGE_MAX)
		return 0;
	if (array_grow(&s->ranges, s->n_ranges, &s->cap_ranges, sizeof(*n)))
		return -AUX_E_NOMEM;
	n = &s->ranges[s->n_ranges];
	*n = *r;
	n->pages = calloc(r->len / CODE_PAGE, sizeof(*n->pages));
	if (!n->pages)
		return -AUX_E_NOMEM;
	s->n_ranges++;
	return 0;
}

/* mprotect makes an MMAP2 record of memory that is being watched already: it
 * keeps its pages. */
static bool is_known(const struct codesave *s, const struct code_request *n)
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

/* A new mapping: with code that no file has it is watched, else it ends the
 * watching of what it replaces. */
static int apply_map(struct codesave *s, const struct code_request *n)
{
	struct code_range r = {
		.addr = n->addr, .len = n->len, .seen_ns = n->time_ns,
		.pid = n->pid, .kind = n->code,
	};

	int ret;

	if (n->code && is_known(s, n))
		return 0;
	cut_ranges(s, n);
	ret = n->code ? jitfiles_add_map(s->jit, n->pid) : 0;
	return n->code && !ret ? add_range(s, &r) : ret;
}

/* A child inherits its parent's memory, and readers of the file apply that too:
 * it starts with the parent's copies, so that only later changes are saved for
 * it. */
static int apply_fork(struct codesave *s, const struct code_request *n)
{
	size_t i, had = s->n_ranges;
	uint64_t k;
	int ret = jitfiles_add_child(s->jit, n->pid, n->ppid);

	for (i = 0; i < had && !ret; i++) {
		struct code_range r = s->ranges[i];
		struct code_copy **from = r.pages;

		if (r.pid != n->ppid)
			continue;
		r.pid = n->pid;
		r.seen_ns = n->time_ns;	/* its own changes are later */
		ret = add_range(s, &r);
		for (k = 0; !ret && k < r.len / CODE_PAGE; k++) {
			s->ranges[s->n_ranges - 1].pages[k] = from[k];
			if (from[k])
				from[k]->n_refs++;
		}
	}
	return ret;
}

static void drop_process(struct codesave *s, uint32_t pid)
{
	struct code_request all = { .pid = pid, .len = UINT64_MAX };

	cut_ranges(s, &all);
}

static int apply_request(struct codesave *s, const struct code_request *n)
{
	switch (n->kind) {
	case REQUEST_MAP:
		return apply_map(s, n);
	case REQUEST_FORK:
		return apply_fork(s, n);
	case REQUEST_DROP:
		drop_process(s, n->pid);
		return 0;
	case REQUEST_KERNEL:
		/* Between two files: the next one gets the whole kernel anyway
		 * (codesave_kernel). */
		if (!s->w)
			return 0;
		return codesave_read_kernel(s->config.proc, s->w, n->addr,
					    n->len, n->time_ns,
					    &s->stats.n_unsaved);
	default:
		return jitfiles_add_dump(s->jit, n->pid, n->path);
	}
}

/* Applies all requests in order. They are detached first, so that readers of
 * the rings wait for two assignments, not for kcore. */
static int apply_requests(struct codesave *s)
{
	struct code_request *requests;
	size_t i, n;
	int ret = 0;

	pthread_mutex_lock(&s->queue.lock);
	requests = s->queue.requests;
	n = s->queue.n_requests;
	s->queue.requests = NULL;
	s->queue.n_requests = s->queue.cap_requests = 0;
	s->stats.n_unsaved += s->queue.lost_requests;
	s->queue.lost_requests = false;
	pthread_mutex_unlock(&s->queue.lock);
	for (i = 0; i < n; i++) {
		if (!ret)
			ret = apply_request(s, &requests[i]);
		free(requests[i].path);
	}
	free(requests);
	return ret;
}

/* When the next scan is due, CLOCK_MONOTONIC; UINT64_MAX: nothing to scan.
 * Holds queue.lock. */
static uint64_t next_due_ms(const struct codesave *s)
{
	uint64_t new = UINT64_MAX;

	if (s->queue.n_requests)
		new = s->queue.requested_ms + FIRST_MS;
	if (s->queue.n_requests && new < s->free_ms)
		new = s->free_ms;
	return s->n_ranges && s->due_ms < new ? s->due_ms : new;
}

/* Scans every range; drops those of processes that are gone. */
static int scan_ranges(struct codesave *s, bool *changed)
{
	uint64_t began_ns = perfclock_now(&s->clock);
	size_t i, k = 0;
	int ret = 0;

	for (i = 0; i < s->n_ranges; i++) {
		struct code_range *r = &s->ranges[i];

		if (!ret)
			ret = scan_range(s, r, s->w, began_ns, changed);
		if (r->gone)
			free_range(r);
		else
			s->ranges[k++] = *r;
	}
	s->n_ranges = k;
	return ret;
}

/* Applies the requests, scans all ranges, and sets the time of the next scan.
 * Holds scan_lock. */
static int scan(struct codesave *s)
{
	uint64_t began = clock_ns(), took;
	bool changed = false;
	int ret = apply_requests(s);

	if (!ret && s->w && s->n_ranges)
		ret = scan_ranges(s, &changed);
	took = (clock_ns() - began) / 1000000;
	s->pause_ms = changed ? PAUSE_MIN_MS : 2 * s->pause_ms;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	s->free_ms = began / 1000000 + took + SHARE * took;
	s->due_ms = began / 1000000 + took + s->pause_ms;
	if (s->due_ms < s->free_ms)
		s->due_ms = s->free_ms;
	s->stats.n_scans++;
	if (ret && !s->error)
		s->error = ret;
	return ret;
}

int codesave_scan(struct codesave *s)
{
	int ret;

	pthread_mutex_lock(&s->scan_lock);
	ret = scan(s);
	pthread_mutex_unlock(&s->scan_lock);
	return ret;
}

/* Waits until the next scan is due; false: the thread is to end. */
static bool wait_until_due(struct codesave *s)
{
	uint64_t due, now;
	bool stop;

	pthread_mutex_lock(&s->queue.lock);
	while (!s->queue.stop && (due = next_due_ms(s)) > (now = clock_ms())) {
		struct timespec ts = {
			.tv_sec = (time_t)(due / 1000),
			.tv_nsec = (long)(due % 1000 * 1000000),
		};

		if (due == UINT64_MAX)
			pthread_cond_wait(&s->queue.wake, &s->queue.lock);
		else
			pthread_cond_timedwait(&s->queue.wake, &s->queue.lock, &ts);
	}
	stop = s->queue.stop;
	pthread_mutex_unlock(&s->queue.lock);
	return !stop;
}

static void *run(void *arg)
{
	struct codesave *s = arg;

	/* The readers of the rings take precedence. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 5);
	while (wait_until_due(s) && !codesave_scan(s))
		;
	return NULL;
}

int codesave_start(struct codesave *s)
{
	s->queue.running = !pthread_create(&s->thread, NULL, run, s);
	return s->queue.running ? 0 : -AUX_E_NOMEM;
}

int codesave_finish(struct codesave *s)
{
	stop_thread(s);
	codesave_scan(s);
	if (s->w && !s->error)
		s->error = jitfiles_save(s->jit, s->w);
	return s->error;
}

/* Drops the copies: everything is new to the next file. */
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

	pthread_mutex_lock(&s->scan_lock);
	for (i = 0; i < s->n_ranges && s->w; i++)
		forget(&s->ranges[i]);
	s->w = w;
	s->stats.n_saved = 0;
	pthread_mutex_lock(&s->queue.lock);
	s->due_ms = s->free_ms = 0;
	pthread_cond_signal(&s->queue.wake);
	pthread_mutex_unlock(&s->queue.lock);
	pthread_mutex_unlock(&s->scan_lock);
}

const struct codesave_stats *codesave_stats(const struct codesave *s)
{
	return &s->stats;
}

/*
 * Records of the kernel become requests for the next scan. Readers of the rings
 * call this with every record: most are dismissed by their type alone, before
 * the lock.
 */

#define MAX_REQUESTS 65536

/* PERF_RECORD_MMAP2 up to its path. */
struct mmap2 {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
};

/* Queues a request, whose path it owns from here on. A full queue (a program
 * that maps endlessly while scans are slow) loses it; that is counted. Holds
 * queue.lock. */
static void add_request(struct codesave *s, const struct code_request *n)
{
	struct code_queue *q = &s->queue;

	if (q->n_requests < MAX_REQUESTS &&
	    !array_grow(&q->requests, q->n_requests, &q->cap_requests,
			sizeof(*n))) {
		if (!q->n_requests)
			q->requested_ms = clock_ms();
		q->requests[q->n_requests++] = *n;
		pthread_cond_signal(&q->wake);
		return;
	}
	q->lost_requests = true;
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

/* enum aux_code_kind of a mapping, 0 if a file has its code; the rule of
 * synth_code.c, applied to the names that records carry. */
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

static void inspect_mmap2(struct codesave *s, const struct perf_event_header *h,
		       uint64_t time_ns)
{
	struct code_request n = { .kind = REQUEST_MAP, .time_ns = time_ns };
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
	if (jitname_is_dump(path)) {
		n.kind = REQUEST_DUMP;
		n.path = strdup(path);
		if (!n.path)
			return;
	}
	add_request(s, &n);
}

/* PERF_RECORD_KSYMBOL: u64 addr, u32 len, u16 ksym_type, u16 flags, name. */
static void inspect_ksymbol(struct codesave *s, const struct perf_event_header *h,
			 uint64_t time_ns)
{
	struct code_request n = { .kind = REQUEST_KERNEL, .time_ns = time_ns };
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
		add_request(s, &n);
}

/* FORK of a process (not of a thread) copies its parent's ranges; COMM of an
 * exec drops all. */
static void inspect_task(struct codesave *s, const struct perf_event_header *h,
		      uint64_t time_ns)
{
	struct code_request n = { .kind = REQUEST_DROP, .time_ns = time_ns };
	uint32_t w[4];

	if (h->size < sizeof(*h) + sizeof(w))
		return;
	memcpy(w, h + 1, sizeof(w));
	n.pid = w[0];
	if (h->type == PERF_RECORD_FORK) {	/* pid, ppid, tid, ptid */
		n.kind = REQUEST_FORK;
		n.ppid = w[1];
		if (n.pid == n.ppid)
			return;
	} else if (!(h->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		return;
	}
	add_request(s, &n);
}

void codesave_inspect(struct codesave *s, const struct perf_event_header *h,
		   uint64_t time_ns)
{
	if (h->type != PERF_RECORD_MMAP2 && h->type != PERF_RECORD_FORK &&
	    h->type != PERF_RECORD_COMM && h->type != PERF_RECORD_KSYMBOL)
		return;
	pthread_mutex_lock(&s->queue.lock);
	if (h->type == PERF_RECORD_MMAP2)
		inspect_mmap2(s, h, time_ns);
	else if (h->type == PERF_RECORD_KSYMBOL)
		inspect_ksymbol(s, h, time_ns);
	else
		inspect_task(s, h, time_ns);
	pthread_mutex_unlock(&s->queue.lock);
}

void codesave_watch(struct codesave *s, uint32_t pid, uint64_t addr,
		    uint64_t len, uint32_t kind)
{
	struct code_request n = {
		.kind = REQUEST_MAP, .code = (uint8_t)kind, .pid = pid,
		.addr = addr, .len = len & ~(uint64_t)(CODE_PAGE - 1),
	};

	if (kind == AUX_CODE_VDSO || pid == s->config.self)
		return;
	pthread_mutex_lock(&s->queue.lock);
	add_request(s, &n);
	pthread_mutex_unlock(&s->queue.lock);
}

void codesave_dump(struct codesave *s, uint32_t pid, const char *path)
{
	struct code_request n = {
		.kind = REQUEST_DUMP, .pid = pid, .path = strdup(path),
	};

	if (!n.path)
		return;
	pthread_mutex_lock(&s->queue.lock);
	add_request(s, &n);
	pthread_mutex_unlock(&s->queue.lock);
}
