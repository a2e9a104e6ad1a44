/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: notes which pages of code a flow used, and writes them, the names of
 * that code, and the logs of JIT compilers.
 *
 * Invariant: a page is in the table once for each process and mapping, so the
 * number of pages does not depend on which streams used them, or in what order.
 *
 * A decode of the result must find the same bytes and names as one on this
 * machine. Hence pages carry the time of their mapping (or of the fork that
 * copied it): the reader of AUX_OWN_CODE then replaces and drops them on exec,
 * munmap and fork as it does mappings. Pages are noted at 4 KB granularity
 * although only some instructions of them ran: decoders read ahead, and a page
 * costs little.
 *
 * The caller's thread alone uses a bundle; there are no locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/a64_insn.h"
#include "common/array.h"
#include "common/jitname.h"
#include "common/mapped.h"
#include "common/regular.h"
#include "common/x86_insn.h"
#include "decode/edit/edit.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/trace.h"

#define BUNDLE_PAGE 4096

/*
 * A page of code that was used: which bytes were at which address of which
 * process, and since when. bytes and region point into a file that codeview
 * keeps mapped for as long as the session lives; the page owns nothing.
 */
struct bundle_page {
	uint64_t addr, len;	/* runtime address; at most BUNDLE_PAGE bytes */
	uint64_t time;		/* ns: when it was mapped, or forked */
	const uint8_t *bytes;
	const uint8_t *region, *region_end; /* the whole mapping around bytes */
	const struct space *space;	/* any one in which it was used */
	uint32_t pid;		/* -1: the kernel */
	uint32_t kind;		/* enum aux_code_kind */
};

/* A FORK record of a process (not of a thread): pid starts as a copy at
 * time. */
struct bundle_fork {
	uint64_t time;
	uint32_t pid;
};

/*
 * A direct-mapped cache of addresses [lo, hi] that are noted already, or that
 * have no code. Most ranges of a flow hit it, so the mapping is rarely looked
 * up.
 */
struct bundle_slot {
	const struct space *space;
	uint64_t lo, hi;
};
#define BUNDLE_SLOTS 4096

struct bundle {
	struct session *s;
	struct bundle_page *pages;
	size_t n_pages, cap_pages;
	uint32_t *slots;	/* hash table of pages: index + 1, 0: free */
	size_t n_slots;		/* a power of two, or 0 */
	struct bundle_fork *forks;	/* by pid, then time */
	size_t n_forks, cap_forks;
	uint64_t blob;		/* the first blob number the input does not use */
	uint64_t n_insns;
	bool oom;		/* sticky; bundle_write reports it */
	struct bundle_slot known[BUNDLE_SLOTS];
	struct bundle_slot untaken[BUNDLE_SLOTS];	/* branches, as known */
};

/*
 * The longest instruction of x86 (SDM vol. 2, 2.3.11), and longer than any of
 * aarch64. A decoder may read this much from the last instruction's start,
 * which may reach into the next page.
 */
#define LONGEST_INSN 15

/* ---- forks: side-band that the timeline has no accessor for ---- */

static int by_pid(const void *a, const void *b)
{
	const struct bundle_fork *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->time < y->time ? -1 : x->time > y->time;
}

/* Threads share the address space of their process, so only processes count. */
static int add_fork(struct bundle *b, const struct aux_event *ev)
{
	if (ev->task.pid == ev->task.ppid)
		return 0;	/* a thread */
	if (array_grow(&b->forks, b->n_forks, &b->cap_forks,
		       sizeof(*b->forks)) < 0)
		return -AUX_E_NOMEM;
	b->forks[b->n_forks++] = (struct bundle_fork){
		.time = ev->id.present & PERF_SAMPLE_TIME ? ev->id.time :
							    ev->task.time,
		.pid = ev->task.pid,
	};
	return 0;
}

/*
 * One pass before any decode: collects the forks, and finds a free range of
 * blob numbers, because a recording may hold saved code already (an earlier
 * bundle), whose blobs keep theirs.
 */
static int read_records(struct bundle *b)
{
	struct aux_reader *r = session_reader(b->s);
	struct aux_event ev;

	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == PERF_RECORD_FORK && add_fork(b, &ev) < 0)
			return -AUX_E_NOMEM;
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_CODE && ev.own.code.h.blob >= b->blob)
			b->blob = ev.own.code.h.blob + 1;
	}
	if (b->n_forks)
		qsort(b->forks, b->n_forks, sizeof(*b->forks), by_pid);
	return 0;
}

/*
 * The index after the last fork of pid at or before time. Forks are sorted by
 * pid, then time, so the entry before it is that fork if its pid matches.
 */
static size_t count_forks(const struct bundle *b, uint32_t pid, uint64_t time)
{
	size_t lo = 0, n = b->n_forks;

	while (n) {
		const struct bundle_fork *f = &b->forks[lo + n / 2];

		if (f->pid < pid || (f->pid == pid && f->time <= time)) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo;
}

struct bundle *bundle_new(struct session *s)
{
	struct bundle *b = calloc(1, sizeof(*b));

	if (b) {
		b->s = s;
		b->blob = 1;
		if (read_records(b) < 0) {
			bundle_free(b);
			b = NULL;
		}
	}
	return b;
}

void bundle_free(struct bundle *b)
{
	if (!b)
		return;
	free(b->pages);
	free(b->slots);
	free(b->forks);
	free(b);
}

/* ---- the table of pages (open addressing) ---- */

/*
 * bytes is an address in this process, so the order of slots changes with the
 * address layout of each run. Nothing reads the table in that order.
 */
static uint64_t hash(const struct bundle_page *p)
{
	uint64_t h = p->addr / BUNDLE_PAGE * 0x9e3779b97f4a7c15;

	h = (h ^ p->pid ^ p->time) * 0xff51afd7ed558ccd;
	h = (h ^ (uintptr_t)p->bytes) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 29;
}

static bool is_same(const struct bundle_page *x, const struct bundle_page *y)
{
	return x->addr == y->addr && x->time == y->time && x->pid == y->pid &&
	       x->bytes == y->bytes && x->len == y->len;
}

/* Doubles the table, which add_page keeps at most half full. */
static int grow_slots(struct bundle *b)
{
	size_t n = b->n_slots ? 2 * b->n_slots : 1024;
	uint32_t *v = calloc(n, sizeof(*v));

	if (!v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < b->n_pages; i++) {
		size_t at = hash(&b->pages[i]) & (n - 1);

		while (v[at])
			at = (at + 1) & (n - 1);
		v[at] = (uint32_t)i + 1;
	}
	free(b->slots);
	b->slots = v;
	b->n_slots = n;
	return 0;
}

/* Adds a copy of *p, unless the set has an equal page. */
static int add_page(struct bundle *b, const struct bundle_page *p)
{
	size_t at;

	if (2 * b->n_pages >= b->n_slots && grow_slots(b) < 0)
		return -AUX_E_NOMEM;
	at = hash(p) & (b->n_slots - 1);
	while (b->slots[at]) {
		if (is_same(&b->pages[b->slots[at] - 1], p))
			return 0;
		at = (at + 1) & (b->n_slots - 1);
	}
	if (array_grow(&b->pages, b->n_pages, &b->cap_pages,
		       sizeof(*b->pages)) < 0 || b->n_pages >= UINT32_MAX)
		return -AUX_E_NOMEM;
	b->pages[b->n_pages++] = *p;
	b->slots[at] = (uint32_t)b->n_pages;
	return 0;
}

/* ---- what the flow used ---- */

/* Tells a decoder how to label the code when the file itself is absent. */
static uint32_t kind_of(const struct mapping *m, bool kernel)
{
	if (kernel)
		return AUX_CODE_KERNEL;
	if (!strcmp(m->path, "[vdso]"))
		return AUX_CODE_VDSO;
	return *m->path == '/' ? AUX_CODE_FILE : AUX_CODE_ANON;
}

/*
 * True for code that came from a JIT compiler's log. The bundle brings the
 * whole log (bundle_write_logs), so its pages must not be saved a second time.
 */
static bool is_logged(struct bundle *b, const struct space *space, uint64_t ip)
{
	return codeview_is_logged(session_codeview(b->s), space, ip);
}

/*
 * Adds a page of a process, from the time of its mapping or, if that is later,
 * of the fork that copied the mapping. One space may span several forks: when a
 * pid is reused and the new process starts with the mappings of the old one,
 * the space goes on. So the page is repeated for each fork within the life of
 * the space.
 */
static int add_own(struct bundle *b, struct bundle_page *p, uint64_t mapped)
{
	const struct space *space = p->space;
	size_t i = count_forks(b, space->pid, space->from);
	uint64_t forked = i && b->forks[i - 1].pid == space->pid ?
				  b->forks[i - 1].time : 0;
	int rc;

	p->time = mapped > forked ? mapped : forked;
	rc = add_page(b, p);
	for (; rc == 0 && i < b->n_forks && b->forks[i].pid == space->pid &&
	       b->forks[i].time < space->until; i++) {
		p->time = b->forks[i].time;
		rc = add_page(b, p);
	}
	return rc;
}

/*
 * Notes the page around ip, clipped to its mapping and to the bytes that its
 * file has. Sets *slot to the addresses that need no second look: the page, or
 * ip alone if there is no code. hi is inclusive so that the last page of the
 * address space does not overflow.
 */
static void note(struct bundle *b, const struct space *space, uint64_t ip,
		 struct bundle_slot *slot)
{
	uint64_t lo = ip & ~(uint64_t)(BUNDLE_PAGE - 1);
	uint64_t hi = lo + (BUNDLE_PAGE - 1);	/* may be the last byte */
	const struct mapping *m = space_find(space, ip);
	struct bundle_page p = { .space = space, .pid = space->pid };
	struct aux_code c = { 0 };
	bool kernel;

	*slot = (struct bundle_slot){ space, ip, ip };
	if (!m || codeview_code(session_codeview(b->s), space, ip, &c) < 0)
		return;
	lo = lo < c.start ? c.start : lo;
	hi = hi > c.end - 1 ? c.end - 1 : hi;
	slot->lo = lo;
	slot->hi = hi;
	if (m->saved || is_logged(b, space, ip))
		return;
	kernel = addrspace_find(space->kernel, ip) == m;
	p.addr = lo;
	p.len = hi - lo + 1;
	p.time = m->time;
	p.bytes = c.bytes + (lo - c.start);
	p.region = c.bytes;
	p.region_end = c.bytes + (c.end - c.start);
	p.pid = kernel ? UINT32_MAX : space->pid;
	p.kind = kind_of(m, kernel);
	b->oom |= (kernel ? add_page(b, &p) : add_own(b, &p, m->time)) < 0;
}

/* Returns the last address that is known to be noted together with ip. */
static uint64_t note_once(struct bundle *b, const struct space *space,
			  uint64_t ip)
{
	size_t at = (ip / BUNDLE_PAGE ^ space->id) & (BUNDLE_SLOTS - 1);
	struct bundle_slot *slot = &b->known[at];

	if (slot->space != space || ip < slot->lo || ip > slot->hi)
		note(b, space, ip, slot);
	return slot->hi;
}

void bundle_ask(void *priv, const struct space *space, uint64_t ip)
{
	if (space)
		note_once(priv, space, ip);
}

/*
 * last is the start of the last instruction; its length is not known here, so
 * the longest is assumed.
 */
static void note_range(struct bundle *b, const struct space *space,
		       uint64_t first, uint64_t last)
{
	uint64_t end;

	if (__builtin_add_overflow(last, LONGEST_INSN, &last))
		last = UINT64_MAX;
	while (first <= last) {
		end = note_once(b, space, first);
		if (end >= last)
			return;
		first = end + 1;
	}
}

/* The target of the conditional branch at ip; false: its code is not known. */
static bool find_target(struct bundle *b, const struct space *space, uint64_t ip,
			unsigned mode, uint64_t *to)
{
	struct a64_insn a64;
	struct x86_insn x86;
	struct aux_code c;
	const uint8_t *p;

	if (codeview_code(session_codeview(b->s), space, ip, &c) < 0)
		return false;
	p = c.bytes + (ip - c.start);
	if (mode == AUX_FLOW_MODE_X86_64 && x86_insn_decode(p, c.end - ip, &x86)) {
		*to = ip + x86.size + (uint64_t)x86.disp;
		return true;
	}
	if (mode != AUX_FLOW_MODE_A64 || c.end - ip < 4)
		return false;
	a64_insn_decode(p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
			(uint32_t)p[3] << 24, &a64);
	*to = ip + (uint64_t)(int64_t)a64.disp;
	return true;
}

/* Text shows where a branch leads that was not taken: the name there is needed. */
static void note_untaken(struct bundle *b, const struct space *space,
			 const struct aux_flow *range)
{
	uint64_t ip = range->range.last, to;
	struct bundle_slot *slot = &b->untaken[(ip ^ space->id) & (BUNDLE_SLOTS - 1)];

	if (slot->space == space && slot->lo == ip)
		return;
	*slot = (struct bundle_slot){ space, ip, ip };
	if (find_target(b, space, ip, range->flags & AUX_FLOW_MODE_MASK, &to))
		note_once(b, space, to);
}

int bundle_flow(void *priv, const struct flow_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	struct bundle *b = priv;

	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE)
			continue;
		b->n_insns += ev[i].n;
		if (!ctx->space || ev[i].range.first > ev[i].range.last)
			continue;
		note_range(b, ctx->space, ev[i].range.first, ev[i].range.last);
		if (ev[i].what == AUX_END_COND_NOT_TAKEN)
			note_untaken(b, ctx->space, &ev[i]);
	}
	return b->oom ? -AUX_E_NOMEM : 0;
}

/*
 * ---- Logs of JIT compilers ----
 *
 * perf maps, /tmp/perf-PID.map, are copied for each process with memory that is
 * no file; jit-PID.dump files
 * (tools/perf/Documentation/jitdump-specification.txt in the kernel's sources)
 * are copied whole as AUX_OWN_FILE: they hold the code, its times and its
 * names. As for perf inject --jit, the mapping that the compiler makes of its
 * log is what reveals it. Logs that the recording holds already and logs that
 * cannot be read here are left out.
 */

struct log {
	const char *path;
	size_t len;
	uint32_t pid;
	bool there;	/* the recording holds it already */
	char *made;	/* path, if it is ours to free */
};

#define MAX_LOGS 4096	/* as many as readers take; searches are linear */

struct logs {
	struct log *v;
	size_t n, cap;
};

/* Adds a log, or merges it with the entry of the same path and process. */
static int add_log(struct logs *l, const struct log *log)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].len != log->len || l->v[i].pid != log->pid ||
		    memcmp(l->v[i].path, log->path, log->len) != 0)
			continue;
		l->v[i].there |= log->there;
		return 0;
	}
	if (l->n == MAX_LOGS)
		return 0;
	if (array_grow(&l->v, l->n, &l->cap, sizeof(*log)) < 0)
		return -AUX_E_NOMEM;
	l->v[l->n++] = *log;
	return 0;
}

/* The head of an AUX_OWN_FILE names a log that need not be copied. */
static int note_saved_log(struct logs *l, const struct aux_event *ev, bool swapped)
{
	const uint8_t *p = ev->own.payload.data;
	struct log log = { .there = true };
	uint32_t len, pid;

	if (ev->own.payload.len < sizeof(struct aux_own_file))
		return 0;
	memcpy(&len, p + 16, sizeof(len));
	memcpy(&pid, p + 20, sizeof(pid));
	log.len = swapped ? __builtin_bswap32(len) : len;
	log.pid = swapped ? __builtin_bswap32(pid) : pid;
	log.path = (const char *)p + sizeof(struct aux_own_file);
	return log.len > ev->own.payload.len - sizeof(struct aux_own_file) ?
		       0 : add_log(l, &log);
}

/* A map of the process is there, by the name that it has in a container, or
 * ours. */
static bool has_map(const struct logs *l, uint32_t pid)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct log *log = &l->v[i];
		char path[64];

		if (log->pid != pid || log->len >= sizeof(path))
			continue;
		memcpy(path, log->path, log->len);
		path[log->len] = '\0';
		if (jitname_is_map(path))
			return true;
	}
	return false;
}

/* The perf map of a process, if it has memory that is no file: it needs no
 * mapping. The name is made here, and kept in l. */
static int add_map(struct logs *l, uint32_t pid)
{
	struct log log = { .pid = pid };
	char *path;
	int n;

	if (l->n == MAX_LOGS || has_map(l, pid))
		return 0;
	n = asprintf(&path, "/tmp/perf-%u.map", pid);
	if (n < 0)
		return -AUX_E_NOMEM;
	log.path = log.made = path;
	log.len = (size_t)n;
	if (add_log(l, &log) == 0)
		return 0;
	free(path);
	return -AUX_E_NOMEM;
}

static int note_mapping(struct logs *l, const struct aux_event *ev)
{
	const char *path = ev->mmap.path;

	if (*path == '/' && jitname_is_dump(path))
		return add_log(l, &(struct log){ .path = path,
						 .len = strlen(path),
						 .pid = ev->mmap.pid });
	if (*path == '/' && path[1] != '/' && strncmp(path, "/memfd:", 7) != 0)
		return 0;
	return ev->mmap.pid != UINT32_MAX && strcmp(path, "[vdso]") ?
		       add_map(l, ev->mmap.pid) : 0;
}

static int find_logs(struct aux_reader *r, struct logs *l)
{
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;
	int rc = 0;

	/* saved files first: they come last, and a map may have another name
	 * there */
	aux_reader_rewind(r);
	while (rc == 0 && aux_reader_next(r, &ev, NULL) > 0)
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_FILE)
			rc = note_saved_log(l, &ev, swapped);
	aux_reader_rewind(r);
	while (rc == 0 && aux_reader_next(r, &ev, NULL) > 0)
		if ((ev.type == PERF_RECORD_MMAP ||
		     ev.type == PERF_RECORD_MMAP2) && ev.mmap.path)
			rc = note_mapping(l, &ev);
	return rc;
}

/* One record of at most AUX_OWN_FILE_MAX bytes: perf.data limits a record to 64
 * KB. */
static void write_part(struct rewrite *w, const struct log *log, bool swapped,
		       const uint8_t *p, uint64_t at, uint64_t total)
{
	uint64_t n = total - at;
	struct rewrite_bytes b = { .swap = swapped };

	if (n > AUX_OWN_FILE_MAX)
		n = AUX_OWN_FILE_MAX;
	rewrite_bytes_u64(&b, at);
	rewrite_bytes_u64(&b, total);
	rewrite_bytes_u32(&b, (uint32_t)log->len);
	rewrite_bytes_u32(&b, log->pid);
	rewrite_bytes_put(&b, log->path, log->len);
	rewrite_bytes_put(&b, p + at, n);
	rewrite_own_bytes(w, AUX_OWN_FILE, &b);
	free(b.data);
}

/*
 * A log that is no regular file, or that cannot be read, is skipped without an
 * error: a decode here would miss it as well. A perf map counts as when
 * decoding: from root or its reader.
 */
static void write_log(struct rewrite *w, const struct log *log, bool swapped,
		      const char *symfs)
{
	char path[8192];
	struct stat st;
	uint8_t *p = NULL;
	int fd;

	snprintf(path, sizeof(path), "%s%.*s", symfs ? symfs : "",
		 (int)log->len, log->path);
	fd = regular_open(path, &st);
	if (fd >= 0 && st.st_size &&
	    (!log->made || symfs || !st.st_uid || st.st_uid == geteuid() ||
	     !geteuid()))
		p = mapped_open(fd, (uint64_t)st.st_size, path);
	if (fd >= 0)
		close(fd);
	if (!p)
		return;
	for (uint64_t at = 0; at < (uint64_t)st.st_size &&
			      !rewrite_failed(w); at += AUX_OWN_FILE_MAX)
		write_part(w, log, swapped, p, at, (uint64_t)st.st_size);
	mapped_close(p, (uint64_t)st.st_size);
}

int bundle_write_logs(struct aux_reader *r, struct rewrite *w,
		      const char *symfs)
{
	struct logs l = { 0 };
	int rc = find_logs(r, &l);

	for (size_t i = 0; rc == 0 && i < l.n; i++)
		if (!l.v[i].there && l.v[i].len < 4096)
			write_log(w, &l.v[i], aux_reader_info(r)->swapped,
				  symfs);
	for (size_t i = 0; i < l.n; i++)
		free(l.v[i].made);
	free(l.v);
	return rc;
}

/*
 * ---- Names ----
 *
 * AUX_OWN_SYMBOLS: a symbol lookup is made for each byte of the saved code, and
 * equal answers are joined to ranges. Writing answers instead of the symbol
 * table guarantees that the bundle names code as a decode here does (PLT
 * entries, overlapping symbols, separate debug files) and leaves out the
 * symbols not used.
 */

#define NAMES_MAX 24000	/* bytes of names, and of entries, in one record */

/* A record that is being filled. */
struct names {
	struct rewrite *w;
	const struct mapping *m;
	struct rewrite_bytes entries, names;
	struct aux_own_symbol last;	/* not yet in entries */
	const char *last_name;
	uint64_t last_place;	/* among the names */
	uint32_t n;
	uint64_t *n_symbols;
	bool swapped, oom;
};

/* Moves the entry that is being extended to the record. */
static void close_entry(struct names *o)
{
	const struct aux_own_symbol *s = &o->last;

	if (!o->last_name)
		return;
	rewrite_bytes_u64(&o->entries, s->first);
	rewrite_bytes_u64(&o->entries, s->end);
	rewrite_bytes_u64(&o->entries, s->start);
	rewrite_bytes_u64(&o->entries, s->size);
	rewrite_bytes_u64(&o->entries, s->name);
	o->last_name = NULL;
	o->n++;
	++*o->n_symbols;
}

/* Writes the record, if it has entries, and starts the next. */
static void write_record(struct names *o)
{
	size_t path_len = strlen(o->m->path);
	struct rewrite_bytes b = { .swap = o->swapped };

	close_entry(o);
	if (!o->n || path_len > 4096)
		goto out;
	rewrite_bytes_put(&b, o->m->build_id, sizeof(o->m->build_id));
	rewrite_bytes_u32(&b, o->m->build_id_size);
	rewrite_bytes_u32(&b, (uint32_t)path_len);
	rewrite_bytes_u32(&b, o->n);
	rewrite_bytes_u32(&b, (uint32_t)o->names.len);
	rewrite_bytes_u32(&b, 0);
	rewrite_bytes_put(&b, o->m->path, path_len);
	rewrite_bytes_put(&b, o->entries.data, o->entries.len);
	rewrite_bytes_put(&b, o->names.data, o->names.len);
	o->oom |= b.oom | o->entries.oom | o->names.oom;
	if (!o->oom)
		rewrite_own(o->w, AUX_OWN_SYMBOLS, b.data, b.len);
out:
	free(b.data);
	o->entries.len = o->names.len = 0;
	o->n = 0;
}

/*
 * s is the answer for the byte at offset, start the symbol's own start; both
 * are offsets in the file. Extends the last entry if it is the same symbol.
 * Calls come in ascending order of offset.
 */
static void add_symbol(struct names *o, const struct symbol *s, uint64_t start,
		       uint64_t offset)
{
	size_t len = strlen(s->name) + 1;

	if (o->last_name && o->last.end == offset && o->last.start == start &&
	    o->last.size == s->size && !strcmp(o->last_name, s->name)) {
		o->last.end++;
		return;
	}
	close_entry(o);
	if (len > NAMES_MAX)
		return;
	if (o->entries.len + sizeof(o->last) > NAMES_MAX ||
	    o->names.len + len > NAMES_MAX)
		write_record(o);
	o->last = (struct aux_own_symbol){ offset, offset + 1, start, s->size,
					   o->names.len };
	o->last_name = s->name;
	rewrite_bytes_put(&o->names, s->name, len);
}

/*
 * Writes the symbols of len bytes of code that start at page, as a decode on
 * this machine would name them. The bytes are contiguous in one mapping. Adds
 * to *n_symbols. 0, or -AUX_E_NOMEM.
 */
static int write_page_names(struct bundle *b, struct rewrite *w,
			    const struct bundle_page *page, uint64_t len,
			    uint64_t *n_symbols)
{
	struct codeview *cv = session_codeview(b->s);
	bool swapped = aux_reader_info(session_reader(b->s))->swapped;
	struct names o = { .w = w, .swapped = swapped, .n_symbols = n_symbols,
			   .m = space_find(page->space, page->addr) };
	struct symbol s;

	o.entries.swap = swapped;
	for (uint64_t i = 0; o.m && i < len; i++) {
		uint64_t ip = page->addr + i;
		uint64_t to_offset = o.m->pgoff - o.m->start;

		/* a perf map comes along whole */
		if (codeview_symbol(cv, page->space, ip, &s) == 0 && s.name &&
		    strcmp(s.dso, "[jit]") != 0)
			add_symbol(&o, &s, s.start + to_offset,
				   ip + to_offset);
		else
			close_entry(&o);
	}
	if (o.m)
		write_record(&o);
	free(o.entries.data);
	free(o.names.data);
	return o.oom ? -AUX_E_NOMEM : 0;
}

/*
 * ---- writing ----
 *
 * Writes the pages as AUX_OWN_CODE.
 *
 * Adjacent pages of a file are joined to blobs, so that a decoder sees few
 * sections. Blobs with equal contents are written once: the first record has
 * the bytes, later ones name its number (a library in many processes, pages
 * after a fork).
 *
 * Invariant: no blob crosses a point where any mapping of its file starts or
 * ends. Each record maps a whole blob, so otherwise a process would get bytes
 * that it never mapped.
 *
 * Where a file is mapped in this process changes from run to run, so an order by
 * address only joins pages and finds blobs. Blobs are numbered and written, and
 * their names too, in the order in which the processes use them: the bundle's
 * bytes depend on the recording alone.
 */

/* Contiguous bytes of a file. Blobs are sorted by bytes and disjoint. */
struct blob {
	const uint8_t *bytes;
	uint64_t len;
	uint64_t number;	/* of the first blob with the same bytes */
	size_t owner;		/* index of that blob, whose record brings them */
	size_t page;		/* index of the first page that uses it */
	bool used;		/* it is in order */
	bool written;		/* a record has brought its bytes */
};

struct blob_list {
	struct blob *v;
	size_t n;
	size_t *order;		/* of v's indexes, by first use */
	size_t n_order;
	const uint8_t **breaks;	/* sorted; no blob crosses one */
	size_t n_breaks;
	uint32_t *slots;	/* hash table by contents: index + 1 */
	size_t n_slots;
};

static int by_bytes(const void *a, const void *b)
{
	const struct bundle_page *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->len < y->len ? -1 : x->len > y->len;
}

/*
 * The order of the records: as the mappings came. Address comes late, so that
 * write_page sees the adjacent pages of one mapping together. Pages that are
 * alike in all that are interchangeable.
 */
static int by_process(const void *a, const void *b)
{
	const struct bundle_page *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return memcmp(x->bytes, y->bytes, x->len);
}

static int by_pointer(const void *a, const void *b)
{
	const uint8_t *x = *(const uint8_t *const *)a;
	const uint8_t *y = *(const uint8_t *const *)b;

	return x < y ? -1 : x > y;
}

/* Sorted starts and ends of all mappings that have a page, each once. */
static int find_breaks(const struct bundle *b, struct blob_list *l)
{
	size_t n = 0;

	l->breaks = calloc(2 * b->n_pages + 1, sizeof(*l->breaks));
	if (!l->breaks)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < b->n_pages; i++) {
		l->breaks[n++] = b->pages[i].region;
		l->breaks[n++] = b->pages[i].region_end;
	}
	qsort(l->breaks, n, sizeof(*l->breaks), by_pointer);
	for (size_t i = 0; i < n; i++)
		if (!i || l->breaks[i] != l->breaks[l->n_breaks - 1])
			l->breaks[l->n_breaks++] = l->breaks[i];
	return 0;
}

/* The first break after p, or NULL. */
static const uint8_t *next_break(const struct blob_list *l, const uint8_t *p)
{
	size_t lo = 0, n = l->n_breaks;

	while (n) {
		if (l->breaks[lo + n / 2] <= p) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return lo < l->n_breaks ? l->breaks[lo] : NULL;
}

/*
 * Appends [p, end) to the last blob if it is adjacent, no break lies between
 * and the size fits into one record; starts new blobs where one of these fails.
 */
static void add_bytes(struct blob_list *l, const uint8_t *p, const uint8_t *end)
{
	while (p < end) {
		struct blob *last = l->n ? &l->v[l->n - 1] : NULL;
		const uint8_t *stop = next_break(l, p);
		uint64_t n = (uint64_t)(end - p);

		if (stop && stop < end)
			n = (uint64_t)(stop - p);
		if (last && last->bytes + last->len == p &&
		    next_break(l, last->bytes) == stop &&
		    last->len + n <= AUX_OWN_CODE_MAX)
			last->len += n;
		else
			l->v[l->n++] = (struct blob){ .bytes = p, .len = n };
		p += n;
	}
}

/*
 * Joins all pages to blobs. Pages may overlap (one file at addresses that
 * differ by less than a page), so each contributes only what the pages before
 * it did not. Room: a blob starts at a page or at a break.
 */
static int make_blobs(struct bundle *b, struct blob_list *l)
{
	const uint8_t *end = NULL;
	size_t n = b->n_pages;

	if (find_breaks(b, l) < 0)
		return -AUX_E_NOMEM;
	l->v = calloc(n + l->n_breaks + 1, sizeof(*l->v));
	if (!l->v)
		return -AUX_E_NOMEM;
	if (n)
		qsort(b->pages, n, sizeof(*b->pages), by_bytes);
	for (size_t i = 0; i < n; i++) {
		const struct bundle_page *p = &b->pages[i];
		const uint8_t *from = p->bytes;

		if (end && from < end)
			from = end;
		if (from >= p->bytes + p->len)
			continue;
		add_bytes(l, from, p->bytes + p->len);
		end = p->bytes + p->len;
	}
	return 0;
}

/* A hash of contents; equality is checked with memcmp, so collisions are
 * harmless. */
static uint64_t hash_bytes(const uint8_t *p, uint64_t len)
{
	uint64_t h = len, v;

	for (; len >= 8; len -= 8, p += 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	while (len--)
		h = (h ^ *p++) * 0xc4ceb9fe1a85ec53;
	return h ^ h >> 29;
}

/* The blob that contains *p. */
static struct blob *find_blob(struct blob_list *l, const uint8_t *p)
{
	size_t lo = 0, n = l->n;

	while (n) {
		if (l->v[lo + n / 2].bytes <= p) {
			lo += n / 2 + 1;
			n -= n / 2 + 1;
		} else {
			n /= 2;
		}
	}
	return &l->v[lo - 1];	/* every byte of a page is in one */
}

/* Sorts the pages as they are written, and the blobs by the first that uses
 * them. */
static int order_blobs(struct bundle *b, struct blob_list *l)
{
	l->order = calloc(l->n + 1, sizeof(*l->order));
	if (!l->order)
		return -AUX_E_NOMEM;
	if (b->n_pages)
		qsort(b->pages, b->n_pages, sizeof(*b->pages), by_process);
	for (size_t i = 0; i < b->n_pages; i++) {
		const struct bundle_page *p = &b->pages[i];
		const uint8_t *at = p->bytes;

		while (at < p->bytes + p->len) {
			struct blob *r = find_blob(l, at);

			if (!r->used) {
				r->used = true;
				r->page = i;
				l->order[l->n_order++] = (size_t)(r - l->v);
			}
			at = r->bytes + r->len;
		}
	}
	return 0;
}

/* Sets each blob's number to that of the first one with its bytes. Numbers
 * continue after those the input uses. */
static int number_blobs(struct bundle *b, struct blob_list *l)
{
	for (l->n_slots = 1024; l->n_slots < 2 * l->n;)
		l->n_slots *= 2;
	l->slots = calloc(l->n_slots, sizeof(*l->slots));
	if (!l->slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < l->n_order; i++) {
		struct blob *r = &l->v[l->order[i]];
		size_t at = hash_bytes(r->bytes, r->len) & (l->n_slots - 1);

		r->owner = l->order[i];
		r->number = b->blob + i;
		for (; l->slots[at]; at = (at + 1) & (l->n_slots - 1)) {
			const struct blob *o = &l->v[l->slots[at] - 1];

			if (o->len != r->len ||
			    memcmp(o->bytes, r->bytes, r->len) != 0)
				continue;
			r->owner = o->owner;
			r->number = o->number;
			break;
		}
		if (!l->slots[at])
			l->slots[at] = (uint32_t)l->order[i] + 1;
	}
	return 0;
}

/*
 * One AUX_OWN_CODE: blob r at addr, for the process of p since p's time.
 * with_bytes is false if an earlier record has brought the bytes.
 */
static void write_code(struct rewrite *w, const struct bundle_page *p,
		       const struct blob *r, uint64_t addr, bool swapped,
		       bool with_bytes)
{
	struct rewrite_bytes out = { .swap = swapped };

	rewrite_bytes_u64(&out, p->time);
	rewrite_bytes_u64(&out, addr);
	rewrite_bytes_u64(&out, r->len);
	rewrite_bytes_u64(&out, r->number);
	rewrite_bytes_u32(&out, p->pid);
	rewrite_bytes_u32(&out, p->kind);
	if (with_bytes)
		rewrite_bytes_put(&out, r->bytes, r->len);
	rewrite_own_bytes(w, AUX_OWN_CODE, &out);
	free(out.data);
}

/*
 * Writes a record for each blob that the page touches. Pages of one mapping
 * come in ascending order, so a blob that spans several is written with the
 * first: again is true if the page before has the same process, time and
 * displacement from address to bytes, and reaches into this blob.
 */
static void write_page(struct bundle *b, struct rewrite *w, struct blob_list *l,
		       const struct bundle_page *p,
		       const struct bundle_page *last,
		       struct bundle_stats *stats)
{
	bool swapped = aux_reader_info(session_reader(b->s))->swapped;
	const uint8_t *at = p->bytes, *end = p->bytes + p->len;

	while (at < end) {
		struct blob *r = find_blob(l, at), *owner = &l->v[r->owner];
		uint64_t addr = p->addr - (uint64_t)(p->bytes - r->bytes);
		bool again = last && last->pid == p->pid &&
			     last->time == p->time &&
			     last->addr - (uintptr_t)last->bytes ==
				     p->addr - (uintptr_t)p->bytes &&
			     last->bytes + last->len > r->bytes;

		if (!again) {
			write_code(w, p, r, addr, swapped, !owner->written);
			stats->n_bytes += owner->written ? 0 : r->len;
			owner->written = true;
		}
		at = r->bytes + r->len;
	}
}

/*
 * Names are written once for each blob. The first page that uses it stands for
 * all: symbols belong to the file.
 */
static int write_names(struct bundle *b, struct rewrite *w,
		       const struct blob_list *l, struct bundle_stats *stats)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->n_order; i++) {
		const struct blob *r = &l->v[l->order[i]];
		struct bundle_page p = b->pages[r->page];

		p.addr += (uint64_t)(r->bytes - p.bytes);
		p.bytes = r->bytes;
		stats->n_pages += (r->len + BUNDLE_PAGE - 1) / BUNDLE_PAGE;
		rc = write_page_names(b, w, &p, r->len, &stats->n_symbols);
	}
	return rc;
}

int bundle_write(struct bundle *b, struct rewrite *w, struct bundle_stats *stats)
{
	struct blob_list l = { 0 };
	int rc = b->oom ? -AUX_E_NOMEM : make_blobs(b, &l);

	*stats = (struct bundle_stats){ .n_insns = b->n_insns };
	if (rc == 0)
		rc = order_blobs(b, &l);
	if (rc == 0)
		rc = number_blobs(b, &l);
	if (rc == 0)
		rc = write_names(b, w, &l, stats);
	for (size_t i = 0; rc == 0 && i < b->n_pages; i++) {
		write_page(b, w, &l, &b->pages[i],
			   i ? &b->pages[i - 1] : NULL, stats);
		rc = rewrite_failed(w);
	}
	/* names that there was no memory for */
	if (rc == 0 && (codeview_nomem(session_codeview(b->s)) ||
			timeline_nomem(session_timeline(b->s))))
		rc = -AUX_E_NOMEM;
	free(l.v);
	free(l.order);
	free(l.breaks);
	free(l.slots);
	return rc;
}
