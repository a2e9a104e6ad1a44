/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A consumer in place of soft/stream.c: it expands what a back end says ran into
 * addresses and compares them with the truth as both arrive, thread by thread.
 * And it checks what a packet encoder rests on: each block is where the end of
 * the one before leads, entering and leaving alternate, and code is known by
 * then (as mapped files and saved bytes), whose last instruction is of the
 * block's class.
 *
 * Includes the definitions: for one .c file, which links no soft/stream.c.
 */
#ifndef TESTS_UNIT_FAKESOFT_H
#define TESTS_UNIT_FAKESOFT_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/a64_insn.h"

#include "capture/soft/soft.h"
#include "tests/unit/tap.h"

struct fake_map {
	uint64_t start, end, pgoff;
	char path[256];
	struct fake_map *next;
};

struct fake_page {	/* saved code */
	uint64_t addr;
	uint8_t bytes[4096];
	struct fake_page *next;
};

struct fake_proc {
	uint32_t pid;
	unsigned int n_threads;
	struct fake_map *maps;		/* newest first */
	struct fake_page *pages;	/* newest first, but older than maps.. */
	struct fake_proc *next;
};

struct soft_thread {
	struct soft *s;
	struct fake_proc *proc;
	uint32_t tid;
	bool inside;
	bool have_prev;
	struct soft_block prev;
	uint64_t enter_ip;	/* of the block that comes next, when !have_prev */
	/* what one side (0 flow, 1 truth) is ahead of the other */
	uint64_t *ahead;
	size_t first, n, max;
	int side;
	uint64_t n_equal;
	struct soft_thread *next;
};

struct soft {
	struct fake_proc *procs;
	struct soft_thread *threads, *ended;
	struct soft_stats stats;
	char program[128], why[128];	/* not traced */
	uint64_t n_code, n_maps, n_comm, n_classes[16];
	uint64_t keep_tid, n_kept, max_kept;	/* truth of the first thread */
	uint64_t *kept;
	int n_bad;
};

__attribute__((format(printf, 2, 3)))
static void fake_bad(struct soft *s, const char *fmt, ...)
{
	va_list ap;

	if (s->n_bad++ >= 10)
		return;
	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
}

/* ---- flow against truth ---- */

static void fake_push(struct soft_thread *t, int side, uint64_t ip)
{
	if (t->n && t->side != side) {
		if (t->ahead[t->first] != ip)
			fake_bad(t->s, "tid %u, instruction %llu: %s %#llx, the "
				 "other says %#llx", t->tid,
				 (unsigned long long)t->n_equal,
				 side ? "truth" : "flow", (unsigned long long)ip,
				 (unsigned long long)t->ahead[t->first]);
		t->first++;
		t->n--;
		t->n_equal++;
		return;
	}
	if (!t->n)
		t->first = 0;
	if (t->first + t->n == t->max) {
		if (t->first)
			memmove(t->ahead, t->ahead + t->first,
				t->n * sizeof(ip));
		t->first = 0;
		if (t->n * 2 >= t->max) {
			t->max = t->max * 2 + 4096;
			t->ahead = realloc(t->ahead, t->max * sizeof(ip));
		}
	}
	t->side = side;
	t->ahead[t->first + t->n++] = ip;
}

int soft_truth(struct soft *s, uint32_t tid, const uint64_t *ips, size_t n)
{
	struct soft_thread *t = s->threads;

	while (t && t->tid != tid)
		t = t->next;
	for (size_t i = 0; t && i < n; i++)
		fake_push(t, 1, ips[i]);
	if (!t)
		fake_bad(s, "truth of thread %u, which is none", tid);
	if (!s->keep_tid)
		s->keep_tid = tid;
	for (size_t i = 0; i < n && tid == s->keep_tid; i++)
		if (s->n_kept < s->max_kept)
			s->kept[s->n_kept++] = ips[i];
	return 0;
}

/* ---- code ---- */

/* The word at ip as a decoder would find it; false when it could not. */
static bool fake_word(struct fake_proc *p, uint64_t ip, uint32_t *word)
{
	struct fake_map *m = p->maps;
	bool got;
	int fd;

	for (struct fake_page *c = p->pages; c; c = c->next)
		if (ip >= c->addr && ip + 4 <= c->addr + 4096) {
			memcpy(word, c->bytes + (ip - c->addr), 4);
			return true;
		}
	while (m && (ip < m->start || ip >= m->end))
		m = m->next;
	if (!m || m->path[0] != '/')
		return false;
	fd = open(m->path, O_RDONLY | O_CLOEXEC);
	got = pread(fd, word, 4, (off_t)(ip - m->start + m->pgoff)) == 4;
	if (fd >= 0)
		close(fd);
	return got;
}

int soft_mmap(struct soft_thread *t, const struct synth_map *map)
{
	struct fake_map *m = calloc(1, sizeof(*m));
	struct fake_page **at = &t->proc->pages, *c;

	*m = (struct fake_map){ .start = map->addr, .end = map->addr + map->len,
				.pgoff = map->pgoff, .next = t->proc->maps };
	snprintf(m->path, sizeof(m->path), "%s", map->path);
	t->proc->maps = m;
	t->s->n_maps++;
	while ((c = *at)) {	/* what was there is no more */
		if (c->addr >= m->start && c->addr < m->end) {
			*at = c->next;
			free(c);
		} else {
			at = &c->next;
		}
	}
	return 0;
}

int soft_code(struct soft_thread *t, uint64_t addr, const void *bytes,
	      size_t len, enum aux_code_kind kind)
{
	struct fake_page *c = calloc(1, sizeof(*c));

	(void)kind;
	if (len != 4096)
		fake_bad(t->s, "%zu bytes of code", len);
	c->addr = addr;
	memcpy(c->bytes, bytes, len < 4096 ? len : 4096);
	c->next = t->proc->pages;
	t->proc->pages = c;
	t->s->n_code++;
	return 0;
}

/* ---- flow ---- */

static bool fake_follows(const struct soft_thread *t, uint64_t ip)
{
	const struct soft_block *p = &t->prev;

	if (!t->have_prev)
		return ip == t->enter_ip;
	switch (p->cls) {
	case A64_OTHER:
	case A64_ISB:
		return ip == p->end;
	case A64_COND:
		return ip == p->end || ip == p->target;
	case A64_JUMP:
	case A64_CALL:
		return ip == p->target;
	case A64_RET:
	case A64_IND_JUMP:
	case A64_IND_CALL:
		return true;
	default:
		return false;	/* the kernel comes between */
	}
}

static void fake_block(struct soft_thread *t, const struct soft_block *b)
{
	struct a64_insn in;
	uint32_t word;

	if (!t->inside || !fake_follows(t, b->start))
		fake_bad(t->s, "tid %u: from %#llx (class %u) to %#llx, %s",
			 t->tid, (unsigned long long)(t->have_prev ?
			 t->prev.end - 4 : t->enter_ip), t->prev.cls,
			 (unsigned long long)b->start,
			 t->inside ? "inside" : "outside");
	for (uint64_t ip = b->start; ip < b->end; ip += 4)
		fake_push(t, 0, ip);
	t->s->stats.n_insns += b->n_insns;
	t->s->n_classes[b->cls & 15]++;
	t->prev = *b;
	t->have_prev = true;
	if (b->flags)
		return;
	if (!fake_word(t->proc, b->end - 4, &word))
		fake_bad(t->s, "no code at %#llx", (unsigned long long)b->end - 4);
	else if ((uint8_t)a64_insn_decode(word, &in) != b->cls)
		fake_bad(t->s, "class %u of %#x at %#llx", b->cls, word,
			 (unsigned long long)b->end - 4);
}

int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct soft_block b = table[ids[i]];

		/* read its code once; a cut block ends where it will */
		b.flags = table[ids[i]].flags || b.target == b.end;
		fake_block(t, &b);
		((struct soft_block *)(uintptr_t)table)[ids[i]].flags = 1;
	}
	return 0;
}

int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip)
{
	bool call = t->have_prev &&
		    (t->prev.cls == A64_SYSCALL || t->prev.cls == A64_FAR);

	if (!t->inside || (kind == SOFT_LEAVE_SYSCALL) != call)
		fake_bad(t->s, "tid %u leaves at %#llx, %d, class %u", t->tid,
			 (unsigned long long)ip, kind, t->prev.cls);
	else if (!call && !fake_follows(t, ip))
		fake_bad(t->s, "tid %u stops at %#llx behind %#llx", t->tid,
			 (unsigned long long)ip, (unsigned long long)t->prev.end);
	t->inside = false;
	return 0;
}

int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns)
{
	(void)kernel_ns;
	if (t->inside)
		fake_bad(t->s, "tid %u enters twice", t->tid);
	t->inside = true;
	t->have_prev = false;
	t->enter_ip = ip;
	return 0;
}

/* ---- threads ---- */

static struct fake_proc *fake_new_proc(struct soft *s, uint32_t pid,
				       const struct fake_proc *parent)
{
	struct fake_proc *p = calloc(1, sizeof(*p));
	struct fake_map **m = &p->maps;
	struct fake_page **c = &p->pages;

	p->pid = pid;
	p->next = s->procs;
	s->procs = p;
	for (struct fake_map *o = parent ? parent->maps : NULL; o; o = o->next) {
		*m = malloc(sizeof(**m));
		**m = *o;
		m = &(*m)->next;
	}
	for (struct fake_page *o = parent ? parent->pages : NULL; o; o = o->next) {
		*c = malloc(sizeof(**c));
		**c = *o;
		c = &(*c)->next;
	}
	return p;
}

static void fake_forget_code(struct fake_proc *p)
{
	for (struct fake_map *m = p->maps, *n; m; m = n) {
		n = m->next;
		free(m);
	}
	for (struct fake_page *c = p->pages, *n; c; c = n) {
		n = c->next;
		free(c);
	}
	p->maps = NULL;
	p->pages = NULL;
}

struct soft_thread *soft_thread_add(struct soft *s, uint32_t pid, uint32_t tid,
				    struct soft_thread *parent)
{
	struct soft_thread *t = calloc(1, sizeof(*t));

	t->s = s;
	t->tid = tid;
	t->proc = parent && parent->proc->pid == pid ? parent->proc :
		  fake_new_proc(s, pid, parent ? parent->proc : NULL);
	t->proc->n_threads++;
	t->next = s->threads;
	s->threads = t;
	s->stats.n_threads++;
	return t;
}

void soft_thread_exit(struct soft_thread *t)
{
	struct soft *s = t->s;
	struct soft_thread **at = &s->threads;

	if (t->n)
		fake_bad(s, "tid %u: %s has %zu instructions more, from %#llx",
			 t->tid, t->side ? "truth" : "flow", t->n,
			 (unsigned long long)t->ahead[t->first]);
	if (t->inside)
		fake_bad(s, "tid %u ends inside", t->tid);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	if (!--t->proc->n_threads) {
		struct fake_proc **p = &s->procs;

		while (*p != t->proc)
			p = &(*p)->next;
		*p = t->proc->next;
		fake_forget_code(t->proc);
		free(t->proc);
	}
	free(t->ahead);
	free(t);
}

int soft_comm(struct soft_thread *t, const char *comm, bool exec)
{
	(void)comm;
	t->s->n_comm++;
	if (exec)
		fake_forget_code(t->proc);
	return 0;
}

void soft_not_traced(struct soft *s, uint32_t pid, const char *program,
		     const char *why)
{
	(void)pid;
	s->stats.n_not_traced++;
	snprintf(s->program, sizeof(s->program), "%s", program);
	snprintf(s->why, sizeof(s->why), "%s", why);
}

int soft_signal(struct soft_thread *t, const struct soft_signal *sig)
{
	(void)t, (void)sig;
	return 0;
}

int soft_ended(struct soft *s, uint32_t pid, uint32_t tid, int status)
{
	(void)s, (void)pid, (void)tid, (void)status;
	return 0;
}

void soft_killed(struct soft *s)
{
	s->stats.n_killed++;
}

int soft_tick(struct soft *s)
{
	(void)s;
	return 0;
}

const struct soft_stats *soft_stats(const struct soft *s)
{
	return &s->stats;
}

#endif
