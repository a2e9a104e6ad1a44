/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: threads, processes, who runs. Called in order of time.
 *
 * What a thread is known for goes on until something else is said, also past its
 * end: the kernel still works for it then. But whoever takes its number next
 * inherits nothing. A process ends with its leader and all known threads.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "decode/lib/sideband/impl.h"

static struct cpu_line *get_cpu(struct timeline *tl, uint64_t key)
{
	int64_t slot;

	if (array_grow(&tl->cpu, tl->n_cpu, &tl->cap_cpu,
		       sizeof(*tl->cpu)) < 0)
		return NULL;
	slot = idmap_add(&tl->cpus, key, (uint32_t)tl->n_cpu);
	if (slot == (int64_t)tl->n_cpu)
		tl->cpu[tl->n_cpu++] = (struct cpu_line){ 0 };
	return slot < 0 ? NULL : &tl->cpu[slot];
}

static struct thread_line *get_thread(struct timeline *tl, uint64_t key)
{
	int64_t slot;

	if (array_grow(&tl->thread, tl->n_thread, &tl->cap_thread,
		       sizeof(*tl->thread)) < 0)
		return NULL;
	slot = idmap_add(&tl->tids, key, (uint32_t)tl->n_thread);
	if (slot == (int64_t)tl->n_thread)
		tl->thread[tl->n_thread++] = (struct thread_line){ 0 };
	return slot < 0 ? NULL : &tl->thread[slot];
}

struct process_line *timeline_process(struct timeline *tl, uint32_t machine,
				      uint32_t pid)
{
	int64_t slot;

	if (array_grow(&tl->process, tl->n_process, &tl->cap_process,
		       sizeof(*tl->process)) < 0)
		return NULL;
	slot = idmap_add(&tl->pids, machine_key(machine, pid),
			 (uint32_t)tl->n_process);
	if (slot == (int64_t)tl->n_process)
		tl->process[tl->n_process++] = (struct process_line){ 0 };
	return slot < 0 ? NULL : &tl->process[slot];
}

int timeline_revive(struct process_line *l, uint64_t time)
{
	if (!l->leader_ended || l->n_live)
		return 0;
	l->leader_ended = false;
	l->root = NULL;
	return timeline_set_version(&l->v, time, NULL);
}

static int set_space(struct process_line *l, uint64_t time,
		     const struct map_node *root)
{
	l->root = root;
	return timeline_set_version(&l->v, time, root);
}

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* A thread comes to life in a process, or leaves it. */
static int count_live(struct timeline *tl, uint32_t machine, uint32_t pid,
		      int by)
{
	struct process_line *l;

	if (pid == UINT32_MAX)
		return 0;
	l = timeline_process(tl, machine, pid);
	if (!l)
		return -AUX_E_NOMEM;
	if (by > 0)
		l->n_live++;
	else if (l->n_live)
		l->n_live--;
	return 0;
}

static int move_thread(struct timeline *tl, uint32_t machine,
		       struct thread_line *l, uint32_t pid)
{
	uint32_t old = l->n && !l->ended ? l->e[l->n - 1].pid : UINT32_MAX;

	l->ended = false;
	if (old == pid)
		return 0;
	if (count_live(tl, machine, old, -1) < 0)
		return -AUX_E_NOMEM;
	return count_live(tl, machine, pid, 1);
}

static void inherit(struct thread_entry *e, const struct thread_entry *from)
{
	if (e->pid == UINT32_MAX)
		e->pid = from->pid;
	if (!e->comm)
		e->comm = from->comm;
	if (!e->ns)
		e->ns = from->ns;
	if (!e->cgroup)
		e->cgroup = from->cgroup;
}

/*
 * What is known of a thread from e.from on; what e leaves open stays as it was,
 * unless the thread is fresh.
 */
static int set_thread(struct timeline *tl, uint32_t machine, uint32_t tid,
		      struct thread_entry e, bool fresh)
{
	struct thread_line *l = get_thread(tl, machine_key(machine, tid));
	struct thread_entry *last;
	bool named_only;

	if (!l)
		return -AUX_E_NOMEM;
	last = l->n ? &l->e[l->n - 1] : NULL;
	named_only = l->n == 1 && last->pid == UINT32_MAX && !l->ended;
	if (last && !fresh)
		inherit(&e, last);
	if (move_thread(tl, machine, l, e.pid) < 0)
		return -AUX_E_NOMEM;
	if (last && last->pid == e.pid && same_name(last->comm, e.comm) &&
	    last->ns == e.ns && last->cgroup == e.cgroup)
		return 0;
	/* A process that is first told now was the one before, too. */
	if (named_only && !fresh)
		last->pid = e.pid;
	if (last && last->from == e.from) {
		*last = e;
		return 0;
	}
	if (array_grow(&l->e, l->n, &l->cap, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	l->e[l->n++] = e;
	return 0;
}

/* What is known last, or NULL. */
static const struct thread_entry *last_entry(const struct timeline *tl,
					     uint32_t machine, uint32_t tid)
{
	int64_t slot = idmap_find(&tl->tids, machine_key(machine, tid));
	const struct thread_line *l = slot < 0 ? NULL : &tl->thread[slot];

	return l && l->n ? &l->e[l->n - 1] : NULL;
}

/* A fork that a recorder made up for who was there before it has no memory: the
 * records that follow tell it. */
static int apply_fork(struct timeline *tl, const struct op *op)
{
	struct thread_entry e = { .from = op->time, .pid = op->pid };
	const struct thread_entry *parent =
		last_entry(tl, op->machine, op->ptid);
	const struct map_node *root;
	struct process_line *l;
	bool told = !(op->flags & OP_EXEC);
	int64_t from;

	if (parent && told)
		inherit(&e, parent);
	if (set_thread(tl, op->machine, op->tid, e, told) < 0)
		return -AUX_E_NOMEM;
	if (op->pid == op->ppid || !told)
		return 0;
	from = idmap_find(&tl->pids, machine_key(op->machine, op->ppid));
	root = from < 0 ? NULL : tl->process[from].root;
	l = timeline_process(tl, op->machine, op->pid);
	if (!l)
		return -AUX_E_NOMEM;
	if (op->flags & OP_UNTIMED && l->root)
		return 0;
	l->leader_ended = false;
	l->n_live = 1;
	return set_space(l, op->time, root);
}

static int apply_exit(struct timeline *tl, const struct op *op)
{
	struct thread_line *t = get_thread(tl, machine_key(op->machine, op->tid));
	struct process_line *l = timeline_process(tl, op->machine, op->pid);

	if (!t || !l)
		return -AUX_E_NOMEM;
	if (!t->n) {
		/* Who is first met at the end was there before. */
		struct thread_entry e = { .from = op->time, .pid = op->pid };

		if (set_thread(tl, op->machine, op->tid, e, false) < 0)
			return -AUX_E_NOMEM;
		t = get_thread(tl, machine_key(op->machine, op->tid));
		l = timeline_process(tl, op->machine, op->pid);
	}
	if (!t->ended && l->n_live)
		l->n_live--;
	t->ended = true;
	l->leader_ended |= op->tid == op->pid;
	return 0;
}

static int add_run(struct cpu_line *l, struct cpu_entry e)
{
	struct cpu_entry *last = l->n ? &l->e[l->n - 1] : NULL;

	if (last && last->pid == e.pid && last->tid == e.tid)
		return 0;
	if (last && last->from == e.from) {
		*last = e;
		return 0;
	}
	if (array_grow(&l->e, l->n, &l->cap, sizeof(*l->e)) < 0)
		return -AUX_E_NOMEM;
	l->e[l->n++] = e;
	return 0;
}

/* A thread that a switch names. One that ended may still be switched, but not
 * under another process. */
static int meet_thread(struct timeline *tl, const struct op *op, uint32_t pid,
		       uint32_t tid, const char *comm)
{
	int64_t slot = idmap_find(&tl->tids, machine_key(op->machine, tid));
	const struct thread_line *l = slot < 0 ? NULL : &tl->thread[slot];
	const struct thread_entry *last = l && l->n ? &l->e[l->n - 1] : NULL;
	struct thread_entry e = { .from = op->time, .pid = pid };
	bool ended = last && l->ended;

	if (tid == UINT32_MAX || (ended && (last->pid == pid ||
					    pid == UINT32_MAX)))
		return 0;
	if (comm && !(last && last->comm)) {
		char *copy = map_arena_alloc(&tl->arena, 17);

		if (!copy)
			return -AUX_E_NOMEM;
		e.comm = memcpy(copy, comm, 16);
	}
	if (pid == UINT32_MAX && !e.comm)
		return 0;
	return set_thread(tl, op->machine, tid, e, ended);
}

static int apply_run(struct timeline *tl, const struct op *op)
{
	struct cpu_line *l = get_cpu(tl, machine_key(op->machine, op->cpu));

	if (!l)
		return -AUX_E_NOMEM;
	if (op->flags & OP_HAS_PREV && op->ptid != UINT32_MAX) {
		if (meet_thread(tl, op, op->ppid, op->ptid, NULL) < 0)
			return -AUX_E_NOMEM;
		/* Who leaves first was there before. */
		if (!l->n && add_run(l, (struct cpu_entry){ 0, op->ppid,
							    op->ptid }) < 0)
			return -AUX_E_NOMEM;
	}
	if (meet_thread(tl, op, op->pid, op->tid, op->comm) < 0)
		return -AUX_E_NOMEM;
	return add_run(l, (struct cpu_entry){ op->time, op->pid, op->tid });
}

/* A thread's stream goes on as the leader's; one id may stand for many threads
 * (soft_pt), so it has to be of the same process. */
static int take_stream(struct timeline *tl, const struct op *op)
{
	const struct thread_entry *old =
		last_entry(tl, op->machine, op->ptid);
	struct cpu_line *l;

	if (!op->cpu || op->ptid == op->tid || !old || old->pid != op->pid)
		return 0;
	l = get_cpu(tl, machine_key(op->machine, op->cpu));
	if (!l)
		return -AUX_E_NOMEM;
	return add_run(l, (struct cpu_entry){ op->time, op->pid, op->tid });
}

/* exec ends the other threads, and clears the space. pid -1: a mere name. */
static int apply_comm(struct timeline *tl, const struct op *op)
{
	struct thread_entry e = { .from = op->time, .pid = op->pid,
				  .comm = op->comm };
	struct process_line *l;

	if (take_stream(tl, op) < 0 ||
	    set_thread(tl, op->machine, op->tid, e, false) < 0)
		return -AUX_E_NOMEM;
	if (op->pid == UINT32_MAX)
		return 0;
	l = timeline_process(tl, op->machine, op->pid);
	if (!l)
		return -AUX_E_NOMEM;
	if (op->tid == op->pid)
		l->leader_ended = false;
	if (!(op->flags & OP_EXEC))
		return 0;
	l->n_live = 1;
	return set_space(l, op->time, NULL);
}

/* A name for what an ended process left is a new one. */
static int apply_new_comm(struct timeline *tl, const struct op *op)
{
	int64_t slot = idmap_find(&tl->pids, machine_key(op->machine, op->pid));

	if (slot >= 0 && timeline_revive(&tl->process[slot], op->time) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_find(&tl->tids, machine_key(op->machine, op->tid));
	if (slot >= 0 && tl->thread[slot].ended) {
		struct thread_entry e = { .from = op->time, .pid = op->pid,
					  .comm = op->comm };

		if (set_thread(tl, op->machine, op->tid, e, true) < 0)
			return -AUX_E_NOMEM;
	}
	return apply_comm(tl, op);
}

static int apply_more(struct timeline *tl, const struct op *op)
{
	struct thread_entry e = { .from = op->time, .pid = UINT32_MAX };

	if (op->kind == OP_NS) {
		e.pid = op->pid;
		e.ns = op->ns;
	} else {
		e.cgroup = timeline_cgroup_path(tl, op->cgroup);
		if (!e.cgroup)
			return 0;
	}
	return set_thread(tl, op->machine, op->tid, e, false);
}

int timeline_apply_task(struct timeline *tl, const struct op *op)
{
	switch (op->kind) {
	case OP_COMM:
		return apply_new_comm(tl, op);
	case OP_FORK:
		return apply_fork(tl, op);
	case OP_EXIT:
		return apply_exit(tl, op);
	case OP_RUN:
		return apply_run(tl, op);
	default:
		return apply_more(tl, op);
	}
}

/*
 * timeline: sched:sched_switch samples, what recorders used before SWITCH records.
 *
 * Where a payload has what is in the event's format, which the file's tracing data
 * holds; without it the layout that every kernel had so far is assumed.
 *
 * Specification: trace-cmd's trace.dat (6), kernel/trace/trace_events.c: "format".
 */

#define COMM_LEN 16

/* The known layout: prev_state, in the middle, is a long. */
static const struct sched_format layout64 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 },
	.next_comm = { 40, 16 }, .next_pid = { 56, 4 },
};
static const struct sched_format layout32 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 },
	.next_comm = { 36, 16 }, .next_pid = { 52, 4 },
};

/* ---- the format ---- */

/* The number behind key, in [p, end). */
static bool find_number(const char *p, const char *end, const char *key,
			uint64_t *v)
{
	const char *at = memmem(p, (size_t)(end - p), key, strlen(key));

	if (!at)
		return false;
	at += strlen(key);
	while (at < end && *at == ' ')
		at++;
	if (at == end || *at < '0' || *at > '9')
		return false;
	for (*v = 0; at < end && *at >= '0' && *at <= '9'; at++)
		if (*v < UINT32_MAX)
			*v = *v * 10 + (uint64_t)(*at - '0');
	return true;
}

/* "field:char prev_comm[16];	offset:8;	size:16;	signed:0;" */
static struct sched_field find_field(const char *text, const char *end,
				     const char *name)
{
	struct sched_field none = { 0, 0 };
	const char *at = memmem(text, (size_t)(end - text), name, strlen(name));
	const char *line;
	uint64_t offset, size;

	if (!at)
		return none;
	line = memchr(at, '\n', (size_t)(end - at));
	if (!line)
		line = end;
	if (!find_number(at, line, "offset:", &offset) ||
	    !find_number(at, line, "size:", &size) || offset > UINT16_MAX ||
	    size > UINT16_MAX)
		return none;
	return (struct sched_field){ (uint32_t)offset, (uint32_t)size };
}

static bool take_format(struct sched_format *f, const char *text, size_t len)
{
	const char *end = text + len;
	const char name[] = "name: sched_switch\n";

	if (len < sizeof(name) || memcmp(text, name, sizeof(name) - 1) ||
	    !find_number(text, end, "\nID:", &f->config))
		return false;
	f->prev_comm = find_field(text, end, " prev_comm[");
	f->prev_pid = find_field(text, end, " prev_pid;");
	f->next_comm = find_field(text, end, " next_comm[");
	f->next_pid = find_field(text, end, " next_pid;");
	f->known = f->next_pid.size == 4;
	return f->known;
}

static const char *next_string(struct cursor *c)
{
	const uint8_t *end = memchr(c->p, 0, cursor_left(c));

	if (!end) {
		c->bad = true;
		return NULL;
	}
	return cursor_string(c, (size_t)(end - c->p) + 1);
}

/* A name, u64 size and as many bytes. */
static void skip_header(struct cursor *c)
{
	uint64_t size;

	next_string(c);
	size = cursor_u64(c);
	if (size > cursor_left(c))
		c->bad = true;
	else
		cursor_bytes(c, size);
}

/* u32 count, then u64 size and text of each. True: found. */
static bool search_events(struct cursor *c, struct sched_format *f)
{
	uint32_t n = cursor_u32(c);

	while (n-- && !c->bad) {
		uint64_t size = cursor_u64(c);
		const uint8_t *text;

		if (size > cursor_left(c)) {
			c->bad = true;
			return false;
		}
		text = cursor_bytes(c, size);
		if (text && take_format(f, (const char *)text, size))
			return true;
	}
	return false;
}

void timeline_sched_format(struct build *b, struct aux_bytes d)
{
	static const uint8_t magic[] = "\x17\x08\x44tracing";
	struct cursor c = cursor_init(d.data, d.len, false);
	const uint8_t *start = cursor_bytes(&c, sizeof(magic) - 1);
	struct sched_format f = { 0 };
	uint32_t n;

	if (!start || memcmp(start, magic, sizeof(magic) - 1) ||
	    !next_string(&c))
		return;
	/* Its own byte order, as a flag; this machine's is little endian. */
	c.swap = cursor_u8(&c) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	b->is_32bit = cursor_u8(&c) == 4;
	cursor_u32(&c);
	skip_header(&c);
	skip_header(&c);
	if (search_events(&c, &f))
		goto found;
	n = cursor_u32(&c);
	while (n-- && !c.bad) {
		next_string(&c);
		if (search_events(&c, &f))
			goto found;
	}
	return;
found:
	b->sched = f;
}

/* ---- samples ---- */

static bool is_switch(const struct build *b, const struct aux_event *ev)
{
	const struct aux_attr *a = ev->attr;

	if (!a || a->attr.type != PERF_TYPE_TRACEPOINT)
		return false;
	if (b->sched.known && a->attr.config == b->sched.config)
		return true;
	return !b->sched.known && a->name && strstr(a->name, "sched_switch");
}

static const uint8_t *get_field(struct aux_bytes raw, struct sched_field f,
				size_t size)
{
	return f.size == size && f.at <= raw.len && size <= raw.len - f.at ?
		       raw.data + f.at : NULL;
}

static uint32_t get_pid(const struct build *b, struct aux_bytes raw,
			struct sched_field f)
{
	const uint8_t *p = get_field(raw, f, 4);
	struct cursor c;

	if (!p)
		return UINT32_MAX;
	c = cursor_init(p, 4, b->swapped);
	return cursor_u32(&c);
}

/* Recorders with SWITCH records too have them say it, at the very moment. */
static bool is_wanted(const struct build *b)
{
	return b->sched_mode == 1 || !b->has_switches;
}

int timeline_sched_switch(const struct build *b, const struct aux_event *ev,
			  struct op *op)
{
	struct aux_bytes raw = ev->sample.raw_data;
	const struct sched_format *f = &b->sched;

	if (!is_wanted(b) || !is_switch(b, ev))
		return 0;
	if (!f->known)
		f = b->is_32bit ? &layout32 : &layout64;
	op->tid = get_pid(b, raw, f->next_pid);
	if (op->tid == UINT32_MAX)
		return 0;
	op->pid = op->tid ? UINT32_MAX : 0;
	op->comm = (const char *)get_field(raw, f->next_comm, COMM_LEN);
	op->ptid = get_pid(b, raw, f->prev_pid);
	/* The sample is the old one's, which knows its process. */
	op->ppid = ev->id.present & PERF_SAMPLE_TID &&
		   ev->id.tid == op->ptid ? ev->id.pid : UINT32_MAX;
	if (op->ptid != UINT32_MAX)
		op->flags |= OP_HAS_PREV;
	return 1;
}
