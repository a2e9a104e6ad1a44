/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * soft_stream: random programs, recorded through soft and decoded by libipt.
 * The instructions of every thread must come back, in order and complete; with
 * injected overflow, in order and with the holes reported.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <intel-pt.h>
#include <internal/x86_insn.h>

#include "pt_encode.h"
#include "soft.h"
#include "tap.h"

#define BASE UINT64_C(0x7f12345f0000)
#define IMAGE_SIZE (96 << 10)
#define FAR_BASE UINT64_C(0x401000)	/* the second half is mapped here */
#define MAX_BLOCKS 4096
#define MAX_THREADS 5
#define STACK 300
#define GAP UINT64_MAX

static uint64_t rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 20) % n);
}

struct list {
	uint64_t *v;
	size_t n, cap;
};

static void add(struct list *l, uint64_t v)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 1024;
		l->v = realloc(l->v, l->cap * sizeof(*l->v));
		if (!l->v)
			abort();
	}
	l->v[l->n++] = v;
}

/* ---- the program ---- */

struct program {
	uint8_t image[2 * IMAGE_SIZE];
	size_t n_image;
	struct soft_block b[MAX_BLOCKS];
	uint32_t insn_off[MAX_BLOCKS][16];	/* of each instruction */
	uint32_t n;
};

static uint64_t addr_of(size_t off)
{
	return off < IMAGE_SIZE ? BASE + off : FAR_BASE + off - IMAGE_SIZE;
}

static void put_insn(struct program *p, const void *bytes, size_t n)
{
	memcpy(p->image + p->n_image, bytes, n);
	p->n_image += n;
}

static const struct {
	uint8_t cls, size;
	uint8_t bytes[6];
	bool far_ok;	/* rel32: leaves the 2 GB */
} ends[] = {
	{ X86_OTHER, 3, { 0x48, 0x89, 0xc0 }, 1 },
	{ X86_COND, 6, { 0x0f, 0x84 }, 0 },
	{ X86_COND, 6, { 0x0f, 0x8f }, 0 },
	{ X86_COND, 6, { 0x0f, 0x85 }, 0 },
	{ X86_JUMP, 5, { 0xe9 }, 0 },
	{ X86_CALL, 5, { 0xe8 }, 0 },
	{ X86_CALL, 5, { 0xe8 }, 0 },
	{ X86_RET, 1, { 0xc3 }, 1 },
	{ X86_RET, 3, { 0xc2, 8, 0 }, 1 },
	{ X86_IND_JUMP, 2, { 0xff, 0xe0 }, 1 },
	{ X86_IND_CALL, 2, { 0xff, 0xd0 }, 1 },
	{ X86_SYSCALL, 2, { 0x0f, 0x05 }, 1 },
	{ X86_PTWRITE, 5, { 0xf3, 0x48, 0x0f, 0xae, 0xe0 }, 1 },
};

static void make_block(struct program *p)
{
	static const uint8_t nops[2][5] = { { 0x90 },
					    { 0x0f, 0x1f, 0x44, 0, 0 } };
	struct soft_block *b = &p->b[p->n];
	uint32_t i, k = rnd(8), e = rnd(sizeof(ends) / sizeof(*ends));
	size_t start = p->n_image;

	for (i = 0; i < k; i++) {
		p->insn_off[p->n][i] = (uint32_t)(p->n_image - start);
		put_insn(p, nops[i & 1], i & 1 ? 5 : 1);
	}
	p->insn_off[p->n][k] = (uint32_t)(p->n_image - start);
	put_insn(p, ends[e].bytes, ends[e].size);
	b->start = addr_of(start);
	b->end = addr_of(p->n_image - 1) + 1;
	b->n_insns = k + 1;
	b->cls = ends[e].cls;
	b->last_size = ends[e].size;
	p->n++;
}

static void link_block(struct program *p, uint32_t i)
{
	struct soft_block *b = &p->b[i];
	bool high = b->start >= BASE;
	const struct soft_block *to;
	int32_t rel;
	size_t off;

	if (b->cls != X86_COND && b->cls != X86_JUMP && b->cls != X86_CALL)
		return;
	/*
	 * A loop of direct jumps alone sends no packet, so how often it ran
	 * before an interrupt cannot be known: only conditions go backwards.
	 */
	do
		to = &p->b[b->cls == X86_COND ? rnd(p->n) : i + rnd(p->n - i)];
	while ((to->start >= BASE) != high || (to == b && rnd(100)));
	b->target = to != b && rnd(10) ? to->start : b->end;
	rel = (int32_t)(b->target - b->end);
	off = (high ? b->end - BASE : b->end - FAR_BASE + IMAGE_SIZE) - 4;
	memcpy(p->image + off, &rel, 4);
}

static void make_program(struct program *p)
{
	uint32_t i, half;

	memset(p, 0, sizeof(*p));
	while (p->n < MAX_BLOCKS / 2 - 1 && p->n_image < IMAGE_SIZE - 200)
		make_block(p);
	p->b[p->n - 1].cls = X86_OTHER;
	half = p->n;
	p->n_image = IMAGE_SIZE;
	while (p->n < MAX_BLOCKS - 1 && p->n_image < 2 * IMAGE_SIZE - 200)
		make_block(p);
	/* what runs off an end must not: end both halves with a jump */
	for (i = half - 1; i < p->n; i += p->n - half) {
		uint64_t e = p->b[i].end;
		size_t off = e - p->b[i].last_size >= BASE ?
				     e - p->b[i].last_size - BASE :
				     e - p->b[i].last_size - FAR_BASE +
					     IMAGE_SIZE;

		p->image[off] = 0xc3;
		p->b[i].end = e - p->b[i].last_size + 1;
		p->b[i].last_size = 1;
		p->b[i].cls = X86_RET;
	}
	for (i = 0; i < p->n; i++)
		link_block(p, i);
}

static uint32_t block_at(const struct program *p, uint64_t ip)
{
	uint32_t i;

	for (i = 0; i < p->n; i++)
		if (p->b[i].start == ip)
			return i;
	return UINT32_MAX;
}

/* ---- running it ---- */

struct run {
	struct soft *s;
	struct program *p;
	struct list truth[MAX_THREADS];
	struct soft_thread *t[MAX_THREADS];
	uint32_t cur[MAX_THREADS];	/* next block */
	uint64_t stack[MAX_THREADS][STACK];
	uint32_t depth[MAX_THREADS];
	bool user[MAX_THREADS];
	uint32_t *next_of;		/* block index at b.end and b.target */
	uint32_t *target_of;
};

static void record_truth(struct run *r, uint32_t k, uint32_t b, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		add(&r->truth[k], r->p->b[b].start + r->p->insn_off[b][i]);
}

static uint32_t anywhere(struct run *r)
{
	return rnd(r->p->n);
}

static void push(struct run *r, uint32_t k, uint32_t b)
{
	if (r->depth[k] < STACK)
		r->stack[k][r->depth[k]++] = r->next_of[b];
}

/* Where block b goes this time. */
static uint32_t next_block(struct run *r, uint32_t k, uint32_t b)
{
	switch (r->p->b[b].cls) {
	case X86_COND:
		return rnd(2) ? r->next_of[b] : r->target_of[b];
	case X86_JUMP:
		return r->target_of[b];
	case X86_CALL:
		push(r, k, b);
		return r->target_of[b];
	case X86_IND_CALL:
		push(r, k, b);
		return anywhere(r);
	case X86_IND_JUMP:
		return anywhere(r);
	case X86_RET:
		if (!r->depth[k] || !rnd(30))
			return anywhere(r);
		return (uint32_t)r->stack[k][--r->depth[k]];
	default:
		return r->next_of[b];
	}
}

static void enter(struct run *r, uint32_t k, uint32_t b)
{
	soft_enter(r->t[k], r->p->b[b].start, rnd(3000));
	r->user[k] = true;
}

static void go_async(struct run *r, uint32_t k)
{
	uint32_t b = r->cur[k], n = rnd(r->p->b[b].n_insns);
	uint64_t ip = r->p->b[b].start + r->p->insn_off[b][n];

	if (rnd(2)) {
		n = 0;
		ip = r->p->b[b].start;
	} else {
		soft_cut(r->t[k], &r->p->b[b], n, ip);
		record_truth(r, k, b, n);
	}
	soft_leave(r->t[k], SOFT_LEAVE_ASYNC, ip);
	r->user[k] = false;
	/* it goes on elsewhere, as a signal handler does, or where it was */
	r->cur[k] = n ? anywhere(r) : b;
}

static void run_chunk(struct run *r, uint32_t k)
{
	uint32_t ids[64], n = 0, want = 1 + rnd(64), b = 0;

	if (!r->user[k])
		enter(r, k, r->cur[k]);
	while (n < want) {
		b = r->cur[k];
		ids[n++] = b;
		record_truth(r, k, b, r->p->b[b].n_insns);
		r->cur[k] = next_block(r, k, b);
		if (r->p->b[b].cls == X86_SYSCALL ||
		    r->p->b[b].cls == X86_PTWRITE)
			break;
	}
	soft_run(r->t[k], r->p->b, ids, n);
	if (r->p->b[b].cls == X86_SYSCALL) {
		soft_leave(r->t[k], SOFT_LEAVE_SYSCALL,
			   r->p->b[b].end - r->p->b[b].last_size);
		r->user[k] = false;
	} else if (r->p->b[b].cls == X86_PTWRITE) {
		soft_ptwrite(r->t[k], r->p->b[b].end - 5, rng, rnd(2) ? 4 : 8);
	} else if (!rnd(30)) {
		go_async(r, k);
	}
}

static void index_blocks(struct run *r)
{
	uint32_t i;

	r->next_of = calloc(r->p->n, sizeof(*r->next_of));
	r->target_of = calloc(r->p->n, sizeof(*r->target_of));
	for (i = 0; i < r->p->n; i++) {
		r->next_of[i] = block_at(r->p, r->p->b[i].end);
		r->target_of[i] = block_at(r->p, r->p->b[i].target);
	}
}

static struct writer *open_writer(const char *path)
{
	struct perf_event_attr attr = {
		.type = 8, .size = sizeof(attr), .sample_id_all = 1,
		.sample_type = SYNTH_SAMPLE_TYPE, .exclude_kernel = 1,
	};
	struct aux_diag diag = { 0 };
	struct writer *w = NULL;
	uint64_t id = 7;

	if (writer_open(&w, path, NULL, &diag)) {
		printf("# %s\n", diag.text);
		return NULL;
	}
	writer_attr_add(w, &attr, "intel_pt//", &id, 1);
	return w;
}

static bool record(struct run *r, const struct soft_config *c, uint32_t threads,
		   uint32_t chunks, const char *path)
{
	static const struct synth_map map = { .addr = 0x1000, .len = 0x1000,
					      .path = "//anon" };
	struct writer *w = open_writer(path);
	struct soft_stats st;
	uint32_t i, k;

	if (!w || soft_open(&r->s, c, w, NULL))
		return false;
	index_blocks(r);
	for (k = 0; k < threads; k++) {
		r->t[k] = soft_thread_add(r->s, 100, 100 + k,
					  k ? r->t[0] : NULL);
		r->cur[k] = anywhere(r);
	}
	for (i = 0; i < chunks; i++) {
		k = rnd(threads);
		run_chunk(r, k);
		if (!rnd(200))
			soft_mmap(r->t[rnd(threads)], &map);
		if (!rnd(200))
			soft_code(r->t[rnd(threads)], 0x1000, "x", 1,
				  AUX_CODE_ANON);
	}
	for (k = 0; k < threads; k++) {
		if (r->user[k])
			soft_leave(r->t[k], SOFT_LEAVE_ASYNC,
				   r->p->b[r->cur[k]].start);
		soft_thread_exit(r->t[k]);
	}
	soft_close(r->s, &st, NULL);
	free(r->next_of);
	free(r->target_of);
	if (st.n_unexplained)
		printf("# unexplained: %ju\n", (uintmax_t)st.n_unexplained);
	return !writer_close(w, NULL) && !st.n_unexplained;
}

/* ---- reading it back ---- */

struct sw {
	uint64_t time;
	uint32_t cpu, tid;
};

struct file {
	struct list aux[MAX_THREADS];		/* bytes, one per element */
	uint32_t tid[MAX_THREADS];		/* of the stream, or -1 */
	struct sw sw[200000];
	size_t n_sw;
	uint64_t n_aux_records, n_offset_errors, n_round_errors;
};

static void read_auxtrace(struct file *f, const uint8_t *p)
{
	struct aux_rec_auxtrace a;
	uint64_t i;

	memcpy(&a, p + 8, sizeof(a));
	if (a.idx >= MAX_THREADS || a.offset != f->aux[a.idx].n) {
		f->n_offset_errors++;
		return;
	}
	f->tid[a.idx] = a.tid;
	for (i = 0; i < a.size; i++)
		add(&f->aux[a.idx], p[48 + i]);
	/* the writer may pad: PAD packets, outside the stream's offsets */
}

static void read_switch(struct file *f, const uint8_t *p)
{
	struct sw s;
	uint32_t cpu;

	memcpy(&s.tid, p + 8 + 4, 4);
	memcpy(&s.time, p + 8 + 8, 8);
	memcpy(&cpu, p + 8 + 16, 4);
	s.cpu = cpu;
	f->sw[f->n_sw++] = s;
}

static bool read_file(struct file *f, const char *path)
{
	struct aux_file_header head;
	struct stat sb;
	int fd = open(path, O_RDONLY);
	uint8_t *map, *p, *end;

	memset(f, 0, sizeof(*f));
	if (fd < 0 || fstat(fd, &sb))
		return false;
	map = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return false;
	memcpy(&head, map, sizeof(head));
	p = map + head.data.offset;
	end = p + head.data.size;
	while (p < end) {
		struct perf_event_header h;
		uint64_t payload = 0;

		memcpy(&h, p, sizeof(h));
		if (h.size < 8)
			break;
		if (h.type == AUX_RECORD_AUXTRACE) {
			memcpy(&payload, p + 8, 8);
			read_auxtrace(f, p);
		}
		if (h.type == PERF_RECORD_SWITCH &&
		    !(h.misc & PERF_RECORD_MISC_SWITCH_OUT))
			read_switch(f, p);
		f->n_aux_records += h.type == PERF_RECORD_AUX;
		p += h.size + payload;
	}
	munmap(map, (size_t)sb.st_size);
	return p == end;
}

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid,
		     uint64_t ip, void *context)
{
	const struct program *p = context;
	size_t n;

	(void)asid;
	if (ip >= BASE && ip < BASE + IMAGE_SIZE)
		ip -= BASE;
	else if (ip >= FAR_BASE && ip < FAR_BASE + IMAGE_SIZE)
		ip = ip - FAR_BASE + IMAGE_SIZE;
	else
		return -pte_nomap;
	n = 2 * IMAGE_SIZE - ip;
	n = n < size ? n : size;
	memcpy(buffer, p->image + ip, n);
	return (int)n;
}

/* Consecutive instructions of one thread in one stream. */
struct slice {
	uint64_t tsc;
	uint32_t order, thread;
	size_t first, n;	/* in all */
};

struct decoded {
	struct list all;
	struct slice slices[100000];
	uint32_t n_slices;
	struct list ips[MAX_THREADS];
	unsigned n_errors, n_ovf, n_ptw, n_ticks, n_time_errors;
};

static uint32_t tid_at(const struct file *f, uint32_t idx, uint64_t tsc,
		       bool per_thread)
{
	uint32_t tid = 100;
	size_t i;

	if (per_thread)
		return f->tid[idx];
	for (i = 0; i < f->n_sw; i++)
		if (f->sw[i].cpu == idx && f->sw[i].time < tsc)
			tid = f->sw[i].tid;
	return tid;
}

struct cursor_state {
	uint64_t tsc;
	uint32_t tid;
	uint64_t last_tsc;
};

static void add_ip(struct decoded *out, const struct cursor_state *c,
		   uint64_t ip)
{
	struct slice *s = &out->slices[out->n_slices];

	if (!out->n_slices || s[-1].tsc != c->tsc ||
	    s[-1].thread != c->tid - 100) {
		*s = (struct slice){ .tsc = c->tsc, .thread = c->tid - 100,
				     .order = out->n_slices,
				     .first = out->all.n };
		out->n_slices++;
		s++;
	}
	add(&out->all, ip);
	s[-1].n++;
}

static int by_time(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* A thread moves between CPUs: its instructions are in order of time. */
static void merge(struct decoded *d)
{
	uint32_t i;
	size_t j;

	qsort(d->slices, d->n_slices, sizeof(*d->slices), by_time);
	for (i = 0; i < d->n_slices; i++)
		for (j = 0; j < d->slices[i].n; j++)
			add(&d->ips[d->slices[i].thread],
			    d->all.v[d->slices[i].first + j]);
}

static int on_event(struct pt_insn_decoder *d, struct decoded *out,
		    struct cursor_state *c)
{
	struct pt_event ev;
	int status = pt_insn_event(d, &ev, sizeof(ev));

	if (status < 0)
		return status;
	if (ev.has_tsc && ev.tsc < c->last_tsc)
		out->n_time_errors++;
	if (ev.has_tsc)
		c->last_tsc = ev.tsc;
	out->n_ptw += ev.type == ptev_ptwrite;
	out->n_ticks += ev.type == ptev_tick;
	if (ev.type == ptev_overflow) {
		out->n_ovf++;
		add_ip(out, c, GAP);
	}
	return status;
}

static void decode_stream(const struct file *f, uint32_t idx, struct program *p,
			  const struct soft_config *conf, struct decoded *out)
{
	size_t i, n = f->aux[idx].n;
	uint8_t *bytes = malloc(n + 1);
	struct cursor_state c = { .tid = 100 };
	struct pt_insn_decoder *d;
	struct pt_config cfg;
	struct pt_insn insn;
	uint64_t tsc;
	int status;

	for (i = 0; i < n; i++)
		bytes[i] = (uint8_t)f->aux[idx].v[i];
	pt_config_init(&cfg);
	cfg.begin = bytes;
	cfg.end = bytes + n;
	cfg.mtc_freq = (uint8_t)conf->mtc_period;
	cfg.nom_freq = PT_BUS_RATIO;
	cfg.cpuid_0x15_eax = PT_TSC_CTC_D;
	cfg.cpuid_0x15_ebx = PT_TSC_CTC_N;
	d = pt_insn_alloc_decoder(&cfg);
	pt_image_set_callback(pt_insn_get_image(d), read_code, p);
	status = n ? pt_insn_sync_forward(d) : -pte_eos;
	while (status >= 0) {
		while (status >= 0 && status & pts_event_pending) {
			status = on_event(d, out, &c);
			tsc = 0;
			if (status >= 0 && !pt_insn_time(d, &tsc, NULL, NULL) &&
			    tsc != c.tsc) {
				c.tsc = tsc;
				c.tid = tid_at(f, idx, tsc, conf->per_thread);
			}
		}
		if (status < 0 || status & pts_eos)
			break;
		status = pt_insn_next(d, &insn, sizeof(insn));
		if (status >= 0 || insn.iclass != ptic_error)
			add_ip(out, &c, insn.ip);
	}
	if (status < 0 && status != -pte_eos) {
		uint64_t off = 0;

		pt_insn_get_offset(d, &off);
		printf("# stream %u: %s at %#jx of %#zx\n", idx,
		       pt_errstr(pt_errcode(status)), (uintmax_t)off, n);
		out->n_errors++;
	}
	pt_insn_free_decoder(d);
	free(bytes);
}

/* Each piece between gaps must be found, in order; pieces may be lost. */
static bool covers(const struct list *truth, const struct list *got)
{
	size_t pos = 0, i = 0, j, len;

	while (i < got->n) {
		if (got->v[i] == GAP) {
			i++;
			continue;
		}
		for (len = 0; i + len < got->n && got->v[i + len] != GAP; len++)
			;
		for (;; pos++) {
			if (pos + len > truth->n)
				return false;
			for (j = 0; j < len; j++)
				if (truth->v[pos + j] != got->v[i + j])
					break;
			if (j == len)
				break;
		}
		pos += len;
		i += len;
	}
	return true;
}

static bool compare(const struct run *r, const struct decoded *d, uint32_t k,
		    bool holes)
{
	const struct list *a = &r->truth[k], *b = &d->ips[k];
	size_t i;

	if (holes)
		return covers(a, b);
	for (i = 0; i < a->n && i < b->n && a->v[i] == b->v[i]; i++)
		;
	if (i == a->n && i == b->n)
		return true;
	printf("# thread %u: %zu of %zu true, %zu decoded\n", k, i, a->n, b->n);
	return false;
}

static void check_one(const char *name, const struct soft_config *c,
		      uint32_t threads, uint32_t chunks)
{
	char path[] = "/tmp/test_soft_XXXXXX", old[64];
	struct program *p = malloc(sizeof(*p));
	struct run *r = calloc(1, sizeof(*r));
	struct file *f = malloc(sizeof(*f));
	struct decoded *d = calloc(1, sizeof(*d));
	size_t n = 0, bytes = 0, got = 0;
	bool same = true;
	uint32_t k;

	close(mkstemp(path));
	snprintf(old, sizeof(old), "%s.old", path);
	make_program(p);
	r->p = p;
	same = record(r, c, threads, chunks, path) && read_file(f, path);
	for (k = 0; same && k < MAX_THREADS; k++)
		decode_stream(f, k, p, c, d);
	merge(d);
	for (k = 0; k < threads; k++) {
		same = compare(r, d, k, c->inject_overflow) && same;
		n += r->truth[k].n;
		got += d->ips[k].n;
	}
	for (k = 0; k < MAX_THREADS; k++)
		bytes += f->aux[k].n;
	ok(same && !d->n_errors && !f->n_offset_errors && !d->n_time_errors,
	   "%s: %zu instructions, %zu back, %zu bytes", name, n, got, bytes);
	if (d->n_errors || f->n_offset_errors || d->n_time_errors)
		printf("# errors %u, offsets %ju, time %u; cyc %d thresh %u "
		       "mtc %d/%u\n",
		       d->n_errors, (uintmax_t)f->n_offset_errors,
		       d->n_time_errors, c->cyc, c->cyc_thresh, c->mtc,
		       c->mtc_period);
	if (c->inject_overflow && bytes > (threads + 1) * c->inject_overflow *
						  (4096u << c->psb_period))
		ok(d->n_ovf && got < n + d->n_ovf, "%s: %u overflows", name,
		   d->n_ovf);
	if (c->ptw)
		ok(d->n_ptw, "%s: %u ptwrites", name, d->n_ptw);
	for (k = 0; k < MAX_THREADS; k++) {
		free(r->truth[k].v);
		free(d->ips[k].v);
		free(f->aux[k].v);
	}
	unlink(path);
	unlink(old);
	free(p);
	free(r);
	free(f);
	free(d->all.v);
	free(d);
}

static const struct soft_config base = {
	.tsc = true, .branch = true, .n_cpus = 2, .event_id = 7,
	.sideband_id = 8,
	.pmu_type = 8, .start_ns = 1000000000, .mtc_period = 3,
};

int main(void)
{
	struct soft_config c = base;
	const char *more = getenv("SOFT_RANDOM");
	int i, n_random = more ? (int)strtol(more, NULL, 0) : 24;

	check_one("one thread", &c, 1, 3000);
	c.retcomp = true;
	check_one("retcomp", &c, 1, 3000);
	c.defer_tip = true;
	check_one("retcomp, deferred TIPs", &c, 1, 3000);
	c.retcomp = false;
	check_one("deferred TIPs", &c, 1, 3000);
	c = base;
	check_one("4 threads on 2 CPUs", &c, 4, 3000);
	c.per_thread = true;
	check_one("4 threads, a stream each", &c, 4, 3000);
	c = base;
	c.ptw = true;
	check_one("ptwrite", &c, 3, 3000);
	c.fup_on_ptw = true;
	check_one("ptwrite with FUP", &c, 3, 3000);
	c = base;
	c.inject_overflow = 3;
	check_one("overflow", &c, 1, 3000);
	for (i = 0; i < n_random; i++) {
		c = base;
		c.retcomp = rnd(2);
		c.defer_tip = rnd(2);
		c.mtc = rnd(2);
		c.cyc = rnd(2);
		c.cyc_thresh = rnd(2) ? rnd(8) : 0;
		c.mtc_period = (uint32_t[]){ 0, 3, 6, 9 }[rnd(4)];
		c.psb_period = rnd(4);
		c.n_cpus = 1 + rnd(3);
		c.per_thread = rnd(2);
		c.ptw = rnd(2);
		c.fup_on_ptw = rnd(2);
		c.inject_overflow = rnd(4) ? 0 : 1 + rnd(4);
		check_one("random options", &c, 1 + rnd(5), 1500);
	}
	return plan_done();
}
