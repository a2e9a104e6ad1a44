/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: threads, processes, and who runs where. All ops come in order of
 * time.
 *
 * What is known of a thread holds until something else is said, also past its
 * exit: the kernel still runs on its behalf until the last switch. A new thread
 * with the same tid inherits nothing. A process ends when its leader and all
 * its known threads have exited: then its pid may be taken by another one
 * (timeline_revive).
 *
 * The second half reads sched:sched_switch samples, which recorders used before
 * Linux 4.3 had SWITCH records. Offsets come from the event's format in the
 * file's tracing data; without it the layout that all kernels had so far is
 * assumed.
 *
 * Specification: trace-cmd.dat.v6(5); kernel/trace/trace_events.c for the text
 * of a format.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "decode/lib/sideband/impl.h"

/* The line of key in a table of the timeline (*lines: *n of them, size bytes
 * each); a new one is zeroed. NULL: no memory. */
static void *get_line(struct timeline *tl, struct idmap *ids, uint64_t key,
		      void *lines, size_t *n, size_t *cap, size_t size)
{
	int64_t slot;
	uint8_t *v;

	if (array_grow_within(&tl->memory, lines, *n, cap, size) < 0)
		return NULL;
	slot = idmap_add(ids, key, (uint32_t)*n);
	if (slot < 0)
		return NULL;
	memcpy(&v, lines, sizeof(v));
	v += (size_t)slot * size;
	if ((size_t)slot == *n) {
		memset(v, 0, size);
		++*n;
	}
	return v;
}

static struct cpu_line *get_cpu(struct timeline *tl, uint32_t cpu)
{
	return get_line(tl, &tl->cpus.ids, cpu, &tl->cpus.v, &tl->cpus.n,
			&tl->cpus.cap, sizeof(*tl->cpus.v));
}

static struct thread_line *get_thread(struct timeline *tl, uint64_t key)
{
	size_t n = tl->threads.n;
	struct thread_line *l =
		get_line(tl, &tl->threads.ids, key, &tl->threads.v, &tl->threads.n,
			 &tl->threads.cap, sizeof(*tl->threads.v));

	if (l && tl->threads.n > n) {
		l->key = key;
		tl->machines.v[key >> 32].n_threads++;
	}
	return l;
}

struct process_line *timeline_process(struct timeline *tl, uint32_t machine,
				      uint32_t pid)
{
	size_t n = tl->processes.n;
	struct process_line *l =
		get_line(tl, &tl->processes.ids, machine_key(machine, pid),
			 &tl->processes.v, &tl->processes.n,
			 &tl->processes.cap, sizeof(*tl->processes.v));

	tl->machines.v[machine].n_processes += tl->processes.n - n;
	return l;
}

/* Clears the space of a process all of whose threads have exited: its pid was
 * taken again. */
int timeline_revive(struct timeline *tl, struct process_line *l, uint64_t time)
{
	if (!l->leader_ended || l->n_live)
		return 0;
	l->leader_ended = false;
	l->root = NULL;
	return timeline_set_version(tl, &l->v, time, NULL);
}

static int set_space(struct timeline *tl, struct process_line *l, uint64_t time,
		     const struct map_node *root)
{
	l->root = root;
	return timeline_set_version(tl, &l->v, time, root);
}

static bool same_name(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

/* A known thread begins (by 1) or ceases (by -1) to belong to a process. */
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

/* Keeps n_live of the old and new process of a thread. An ended thread was
 * counted out by apply_exit. */
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

/* What e leaves open stays as it was in from. */
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

/* Adds what is known of a thread from e.from on. Without fresh, what e leaves
 * open stays as it was; a fresh thread is a new one with an old tid. */
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
	/* A thread known by name alone was in this process before, too. */
	if (named_only && !fresh)
		last->pid = e.pid;
	if (last && last->from == e.from) {
		*last = e;
		return 0;
	}
	return array_append_within(&tl->memory, &l->e, &l->n, &l->cap, &e, sizeof(e));
}

/* What is known last of a thread, or NULL. */
static const struct thread_entry *last_entry(const struct timeline *tl,
					     uint32_t machine, uint32_t tid)
{
	int64_t slot = idmap_find(&tl->threads.ids, machine_key(machine, tid));
	const struct thread_line *l = slot < 0 ? NULL : &tl->threads.v[slot];

	return l && l->n ? &l->e[l->n - 1] : NULL;
}

/*
 * A child has its parent's name, namespaces and memory. A FORK that the
 * recorder synthesized for a task that existed before (OP_EXEC) copies no
 * memory: MMAP records for the task follow.
 */
static int apply_fork(struct timeline *tl, const struct op *op)
{
	struct thread_entry e = { .from = op->time, .pid = op->pid };
	const struct thread_entry *parent =
		last_entry(tl, op->machine, op->ptid);
	const struct map_node *root;
	struct process_line *l;
	bool recorded = !(op->flags & OP_EXEC);
	int64_t from;

	if (parent && recorded)
		inherit(&e, parent);
	if (set_thread(tl, op->machine, op->tid, e, recorded) < 0)
		return -AUX_E_NOMEM;
	if (op->pid == op->ppid || !recorded)
		return 0;
	from = idmap_find(&tl->processes.ids, machine_key(op->machine, op->ppid));
	root = from < 0 ? NULL : tl->processes.v[from].root;
	l = timeline_process(tl, op->machine, op->pid);
	if (!l)
		return -AUX_E_NOMEM;
	if (op->flags & OP_UNTIMED && l->root)
		return 0;
	l->leader_ended = false;
	l->n_live = 1;
	return set_space(tl, l, op->time, root);
}

static int apply_exit(struct timeline *tl, const struct op *op)
{
	struct thread_line *t = get_thread(tl, machine_key(op->machine, op->tid));
	struct process_line *l = timeline_process(tl, op->machine, op->pid);

	if (!t || !l)
		return -AUX_E_NOMEM;
	if (!t->n) {
		/* First seen at its exit: it existed before. */
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

/* Adds an entry, unless it says what the last one says. */
static int add_run(struct timeline *tl, struct cpu_line *l, struct cpu_entry e)
{
	struct cpu_entry *last = l->n ? &l->e[l->n - 1] : NULL;

	if (last && last->pid == e.pid && last->tid == e.tid)
		return 0;
	if (last && last->from == e.from) {
		*last = e;
		return 0;
	}
	return array_append_within(&tl->memory, &l->e, &l->n, &l->cap, &e, sizeof(e));
}

/* A switch names a thread: it exists. One that exited may still be switched
 * away from, with the same pid; with another pid its tid was taken again. */
static int meet_thread(struct timeline *tl, const struct op *op, uint32_t pid,
		       uint32_t tid, const char *comm)
{
	int64_t slot = idmap_find(&tl->threads.ids, machine_key(op->machine, tid));
	const struct thread_line *l = slot < 0 ? NULL : &tl->threads.v[slot];
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

/* A guest's switch names its threads, and says nothing of the host's CPU. */
static int apply_run(struct timeline *tl, const struct op *op)
{
	bool has_prev = op->flags & OP_HAS_PREV && op->ptid != UINT32_MAX;
	struct cpu_line *l;

	if ((has_prev && meet_thread(tl, op, op->ppid, op->ptid, NULL) < 0) ||
	    meet_thread(tl, op, op->pid, op->tid, op->comm) < 0)
		return -AUX_E_NOMEM;
	if (op->machine != HOST_SLOT)
		return 0;
	l = get_cpu(tl, op->cpu);
	if (!l)
		return -AUX_E_NOMEM;
	/* The first thread to leave ran from the beginning. */
	if (has_prev && !l->n &&
	    add_run(tl, l, (struct cpu_entry){ 0, op->ppid, op->ptid }) < 0)
		return -AUX_E_NOMEM;
	return add_run(tl, l, (struct cpu_entry){ op->time, op->pid, op->tid });
}

/*
 * A thread that is no leader execs and takes the leader's tid: its AUX stream
 * goes on under that tid. One event id may stand for many threads (soft_pt), so
 * both must be of one process.
 */
static int inherit_stream(struct timeline *tl, const struct op *op)
{
	const struct thread_entry *old =
		last_entry(tl, op->machine, op->ptid);
	struct cpu_line *l;

	if (!op->cpu || op->machine != HOST_SLOT || op->ptid == op->tid ||
	    !old || old->pid != op->pid)
		return 0;
	l = get_cpu(tl, op->cpu);
	if (!l)
		return -AUX_E_NOMEM;
	return add_run(tl, l, (struct cpu_entry){ op->time, op->pid, op->tid });
}

/* An exec ends the process' other threads and clears its memory. pid -1:
 * THREAD_MAP, a name alone. */
static int apply_comm(struct timeline *tl, const struct op *op)
{
	struct thread_entry e = { .from = op->time, .pid = op->pid,
				  .comm = op->comm };
	struct process_line *l;

	if (inherit_stream(tl, op) < 0 ||
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
	return set_space(tl, l, op->time, NULL);
}

/*
 * A name for a pid or tid that ended: a new task has it, whose FORK was lost.
 */
static int apply_new_comm(struct timeline *tl, const struct op *op)
{
	int64_t slot = idmap_find(&tl->processes.ids, machine_key(op->machine, op->pid));

	if (slot >= 0 && timeline_revive(tl, &tl->processes.v[slot], op->time) < 0)
		return -AUX_E_NOMEM;
	slot = idmap_find(&tl->threads.ids, machine_key(op->machine, op->tid));
	if (slot >= 0 && tl->threads.v[slot].ended) {
		struct thread_entry e = { .from = op->time, .pid = op->pid,
					  .comm = op->comm };

		if (set_thread(tl, op->machine, op->tid, e, true) < 0)
			return -AUX_E_NOMEM;
	}
	return apply_comm(tl, op);
}

/* Namespaces, and the cgroup that a sample saw. */
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

/* ---- sched_switch: payload ---- */

#define COMM_LEN 16

/* prev_state, between the two, is a long: so the layout depends on the kernel's
 * word. */
static const struct sched_format layout64 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 }, .prev_state = { 32, 8 },
	.next_comm = { 40, 16 }, .next_pid = { 56, 4 },
};
static const struct sched_format layout32 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 }, .prev_state = { 32, 4 },
	.next_comm = { 36, 16 }, .next_pid = { 52, 4 },
};

/* ---- sched_switch: format in TRACING_DATA ---- */

/* The decimal number after key in [p, end), limited to 32 bits. */
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

/*
 * The line of a field: "field:char prev_comm[16]; offset:8; size:16; signed:0;"
 */
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

/* The text of one event's format file. True when it is sched_switch's, and
 * usable. */
static bool parse_format(struct sched_format *f, const char *text, size_t len)
{
	const char *end = text + len;
	const char name[] = "name: sched_switch\n";

	if (len < sizeof(name) || memcmp(text, name, sizeof(name) - 1) ||
	    !find_number(text, end, "\nID:", &f->config))
		return false;
	f->prev_comm = find_field(text, end, " prev_comm[");
	f->prev_pid = find_field(text, end, " prev_pid;");
	f->prev_state = find_field(text, end, " prev_state;");
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

/* header_page and header_event: a name, u64 size, and so many bytes. */
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

/* u32 count, then a u64 size and the text of each format. True: found. */
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
		if (text && parse_format(f, (const char *)text, size))
			return true;
	}
	return false;
}

/*
 * Reads the head of a trace.dat 6 as perf embeds it: magic, version string,
 * byte order, word size, page size, two headers, ftrace's events, then those of
 * each subsystem.
 */
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
	/* Byte order of the rest: 0 little, 1 big endian. */
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

/* ---- sched_switch: samples ---- */

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

/*
 * SWITCH records are written at the very moment of a switch, so they win where
 * the file has both; unless AUXTRACE_INFO says to use the samples
 * (have_sched_switch 1).
 */
static bool is_wanted(const struct build *b)
{
	return b->sched_mode == 1 || !b->has_switches;
}

static const struct sched_format *format_of(const struct build *b)
{
	return b->sched.known ? &b->sched : b->is_32bit ? &layout32 : &layout64;
}

#define STATE_WAITS 0xff	/* bits S to I; R has none, R+ one above */

enum off_why timeline_why_sample(const struct build *b,
				 const struct aux_event *ev)
{
	struct sched_field f = format_of(b)->prev_state;
	const uint8_t *p = get_field(ev->sample.raw_data, f, f.size);
	struct cursor c;
	uint64_t state;

	if (!p || (f.size != 4 && f.size != 8))
		return OFF_UNKNOWN;
	c = cursor_init(p, f.size, b->swapped);
	state = f.size == 8 ? cursor_u64(&c) : cursor_u32(&c);
	return state & STATE_WAITS ? OFF_BLOCKED : OFF_PREEMPTED;
}

int timeline_sched_switch(const struct build *b, const struct aux_event *ev,
			  struct op *op)
{
	struct aux_bytes raw = ev->sample.raw_data;
	const struct sched_format *f = format_of(b);

	if (!is_wanted(b) || !is_switch(b, ev))
		return 0;
	op->tid = get_pid(b, raw, f->next_pid);
	if (op->tid == UINT32_MAX)
		return 0;
	op->pid = op->tid ? UINT32_MAX : 0;
	op->comm = (const char *)get_field(raw, f->next_comm, COMM_LEN);
	op->ptid = get_pid(b, raw, f->prev_pid);
	/* The previous thread took the sample, so its pid is known. */
	op->ppid = ev->id.present & PERF_SAMPLE_TID &&
		   ev->id.tid == op->ptid ? ev->id.pid : UINT32_MAX;
	if (op->ptid != UINT32_MAX)
		op->flags |= OP_HAS_PREV;
	return 1;
}
