/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * calltree: sums and call counts of small trees, recursion, gaps, stack switches, folding,
 * order and names; and random calls compared with a list of whole stacks.
 */
#include <stdlib.h>

#include "decode/callstack/calltree.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define N_FUNCS 12
#define DEEP	4096

/* In place of the engine's: functions a to l. */
static struct call_func funcs[N_FUNCS];
static char names[N_FUNCS][2];

size_t calls_n_funcs(const struct calls *c)
{
	(void)c;
	return N_FUNCS;
}

struct call_func *calls_func(const struct calls *c, uint32_t id)
{
	(void)c;
	return id < N_FUNCS ? &funcs[id] : NULL;
}

size_t call_func_name(const struct call_func *f, char *buf, size_t len)
{
	return (size_t)snprintf(buf, len, "[%u]", f->id);
}

static const char *comm_of(void *priv, uint32_t tid, uint64_t time)
{
	(void)priv;
	(void)time;
	return tid == 9 ? NULL : "prog";
}

static const struct sink_host host = { .comm = comm_of };

/* A thread with two stacks, and a driver of it. */
struct fake {
	struct call_thread th;
	struct calltree_thread ct;
	struct call_frame stacks[2][DEEP];
	uint32_t depths[2];
};

static struct fake *new_fake(uint32_t pid, uint32_t tid)
{
	struct fake *f = calloc(1, sizeof(*f));

	if (!f)
		exit(1);
	f->th.pid = pid;
	f->th.tid = tid;
	f->th.stream = 3;
	f->th.frames = f->stacks[0];
	f->th.now.ns = 1000;
	return f;
}

static void run(struct fake *f, uint64_t n)
{
	f->th.now.insns += n;
	f->th.now.branches += n / 3;
	f->th.now.cycles += n * 2;
	f->th.now.ns += n * 10;
}

static int enter(struct calltree *t, struct fake *f, unsigned func)
{
	f->th.frames[f->th.depth++] = (struct call_frame){
		.func = &funcs[func], .at = f->th.now, .kind = CALL_CALL,
		.to = 0x1000 * (func + 1)
	};
	return calltree_enter(t, &f->ct, &f->th);
}

static int leave(struct calltree *t, struct fake *f)
{
	int err = calltree_leave(t, &f->ct, &f->th, CALL_END_RET);

	f->th.depth--;
	return err;
}

static int turn(struct calltree *t, struct fake *f)
{
	uint32_t to = !f->th.context;

	f->depths[!to] = f->th.depth;
	f->th.frames = f->stacks[to];
	f->th.depth = f->depths[to];
	f->th.context = to;
	return calltree_turn(t, &f->ct, &f->th);
}

static void new_tree(struct calltree *t, unsigned per, uint32_t max_nodes,
		     uint32_t max_depth)
{
	struct calltree_config c = { .host = &host, .per = per,
				     .max_nodes = max_nodes,
				     .max_depth = max_depth };

	if (calltree_init(t, &c))
		exit(1);
}

/* By a path of one letter each from the root's child on; 0: none. */
static uint32_t find(const struct calltree *t, uint32_t node, const char *path)
{
	uint32_t i;

	if (!*path)
		return node;
	for (i = t->nodes[node].child; i; i = t->nodes[i].next)
		if (t->nodes[i].func < N_FUNCS &&
		    names[t->nodes[i].func][0] == *path)
			return find(t, i, path + 1);
	return 0;
}

static const struct calltree_node *at(const struct calltree *t,
				      const char *path)
{
	return &t->nodes[find(t, t->nodes[0].child, path)];
}

/* a: 5, b: 7, c below b: 11, b again: 13, a: 1 */
static void feed(struct calltree *t, struct fake *f)
{
	enter(t, f, 0);
	run(f, 5);
	enter(t, f, 1);
	run(f, 7);
	enter(t, f, 2);
	run(f, 11);
	leave(t, f);
	leave(t, f);
	enter(t, f, 1);
	run(f, 13);
	leave(t, f);
	run(f, 1);
	leave(t, f);
}

static void small_tree(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree t;
	char buf[CALLTREE_NAME];

	new_tree(&t, CALLTREE_PER_THREAD, 0, 0);
	feed(&t, f);
	calltree_sum(&t);
	is_u64(t.nodes[0].total.insns, 37, "all: instructions");
	is_u64(t.nodes[0].total.cycles, 74, "cycles");
	is_u64(t.nodes[0].total.ns, 370, "time");
	is_u64(t.nodes[0].total.branches, f->th.now.branches, "branches");
	is_u64(at(&t, "a")->own.insns, 6, "a: own");
	is_u64(at(&t, "a")->total.insns, 37, "a: total");
	is_u64(at(&t, "ab")->own.insns, 20, "b: own, of two calls");
	is_u64(at(&t, "ab")->calls, 2, "b: calls");
	is_u64(at(&t, "abc")->total.insns, 11, "c");
	is_str(calltree_name(&t, NULL, t.nodes[0].child, buf), "prog/8",
	       "a thread's name");
	is_str(calltree_name(&t, NULL, find(&t, t.nodes[0].child, "ab"), buf),
	       "b", "a function's name");
	calltree_fini(&t);
	free(f);
}

static void roots(void)
{
	struct fake *f = new_fake(7, 8), *g = new_fake(7, 9);
	struct fake *h = new_fake(UINT32_MAX, UINT32_MAX);
	char buf[CALLTREE_NAME];
	struct calltree t;

	new_tree(&t, CALLTREE_PER_THREAD, 0, 0);
	feed(&t, f);
	feed(&t, g);
	feed(&t, h);
	calltree_sum(&t);
	ok(!calltree_sort_names(&t, NULL), "sorted by name");
	is_str(calltree_name(&t, NULL, t.nodes[0].child, buf), "[unknown]/9",
	       "a thread without a name, first");
	is_str(calltree_name(&t, NULL, t.nodes[t.nodes[0].child].next, buf),
	       "[unknown]/stream 3", "one that nobody knows");
	is_u64(t.nodes[0].total.insns, 3 * 37, "three threads");
	is_u64(at(&t, "ab")->own.insns, 20, "each has its own");
	calltree_fini(&t);

	f->ct = g->ct = (struct calltree_thread){ .root = 0 };
	f->th.now = g->th.now = (struct call_count){ .ns = 1 };
	new_tree(&t, CALLTREE_PER_PROCESS, 0, 0);
	feed(&t, f);
	feed(&t, g);
	calltree_sum(&t);
	is_u64(at(&t, "ab")->own.insns, 40, "threads of a process together");
	is_str(calltree_name(&t, NULL, t.nodes[0].child, buf), "prog/7",
	       "a process's name");
	calltree_fini(&t);

	f->ct = (struct calltree_thread){ .root = 0 };
	f->th.now = (struct call_count){ .ns = 1 };
	new_tree(&t, CALLTREE_PER_ALL, 0, 0);
	feed(&t, f);
	calltree_sum(&t);
	is_u64(t.nodes[find(&t, 0, "ab")].own.insns, 20, "all: no root");
	calltree_fini(&t);
	free(f);
	free(g);
	free(h);
}

/* a calls itself; each call's own is added once to what a took in all. */
static void recursion(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree_func *v;
	struct calltree t;

	new_tree(&t, CALLTREE_PER_THREAD, 0, 0);
	for (int i = 0; i < 3; i++) {
		enter(&t, f, 0);
		run(f, 10);
		enter(&t, f, 1);
		run(f, 1);
	}
	while (f->th.depth)
		leave(&t, f);
	calltree_sum(&t);
	v = calltree_funcs(&t, N_FUNCS);
	is_u64(v[0].total.insns, 33, "a's total");
	is_u64(v[0].own.insns, 30, "its own");
	is_u64(v[0].calls, 3, "its calls");
	is_u64(v[1].total.insns, 23, "b's total, from its first call on");
	ok(at(&t, "aba")->is_inner && !at(&t, "ab")->is_inner, "inner nodes");
	free(v);
	calltree_fini(&t);
	free(f);
}

static struct call_count away(const struct calltree *t, uint32_t func)
{
	struct call_count sum = { 0 };

	for (uint32_t i = 0; i < t->n; i++)
		if (t->nodes[i].func == func)
			sum = call_plus(sum, t->nodes[i].own);
	return sum;
}

static void gaps(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree t;

	new_tree(&t, CALLTREE_PER_THREAD, 0, 0);
	enter(&t, f, 0);
	run(f, 5);
	calltree_gap(&t, &f->ct, &f->th);
	f->th.now.ns += 1000;
	f->th.now.lost_ns += 1000;
	f->th.now.cycles += 30;
	calltree_back(&t, &f->ct, &f->th);
	run(f, 2);
	calltree_off(&t, &f->ct, &f->th, false);
	f->th.now.ns += 300;
	f->th.now.untraced_ns += 200;
	f->th.now.off_ns += 100;
	f->th.now.cycles += 70;
	calltree_off(&t, &f->ct, &f->th, true);
	run(f, 1);
	calltree_gap(&t, &f->ct, &f->th);
	f->th.now.ns += 50;
	f->th.now.lost_ns += 50;
	calltree_leave(&t, &f->ct, &f->th, CALL_END_LOST);
	f->th.depth = 0;
	enter(&t, f, 1);
	run(f, 4);
	leave(&t, f);
	calltree_sum(&t);
	is_u64(away(&t, CALLTREE_GAP).ns, 1050, "time in gaps");
	is_u64(away(&t, CALLTREE_OFF).ns, 200, "time not traced");
	is_u64(away(&t, CALLTREE_OFF_CPU).ns, 100, "time off the CPU");
	is_u64(t.nodes[0].total.off_ns, 100, "in the total, too");
	is_u64(away(&t, CALLTREE_GAP).cycles, 30, "cycles in gaps");
	is_u64(away(&t, CALLTREE_OFF).cycles, 70, "cycles not traced");
	is_u64(at(&t, "a")->own.cycles, 16, "the function's own cycles");
	is_u64(t.nodes[0].total.cycles, f->th.now.cycles, "no cycle is lost");
	is_u64(at(&t, "a")->own.ns, 80, "the function's own time");
	is_u64(at(&t, "a")->own.insns, 8, "its instructions");
	is_u64(at(&t, "b")->own.insns, 4, "those behind the gap");
	is_u64(t.nodes[0].total.ns, f->th.now.ns - 1000, "no time is lost");
	calltree_fini(&t);
	free(f);
}

/* As the events of a trace come: the cycles up to a packet, then what ran for it. */
static void packet(struct calltree *t, struct fake *f, uint64_t cycles)
{
	calltree_tick(t, &f->ct, &f->th);
	f->th.now.cycles += cycles;
}

/* Cycles are of what runs up to the next packet, by its instructions. */
static void ticks(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree t;

	new_tree(&t, CALLTREE_PER_THREAD, 0, 0);
	enter(&t, f, 0);
	packet(&t, f, 100);	/* a 10, b 30, a 10: 20, 60, 20 */
	f->th.now.insns += 10;
	enter(&t, f, 1);
	f->th.now.insns += 30;
	leave(&t, f);
	f->th.now.insns += 10;
	packet(&t, f, 3);	/* nothing: they wait */
	packet(&t, f, 7);	/* b 2, c 1: of 10 */
	enter(&t, f, 1);
	f->th.now.insns += 2;
	enter(&t, f, 2);
	f->th.now.insns += 1;
	leave(&t, f);
	packet(&t, f, 9);	/* b, before it is off */
	f->th.now.insns += 1;
	calltree_off(&t, &f->ct, &f->th, false);
	packet(&t, f, 1000);
	calltree_off(&t, &f->ct, &f->th, true);
	packet(&t, f, 5);	/* b, though nothing runs */
	calltree_gap(&t, &f->ct, &f->th);
	f->th.now.cycles += 50;
	leave(&t, f);
	packet(&t, f, 4);	/* a, at the end */
	f->th.now.insns += 3;
	calltree_flush(&t, &f->ct, &f->th);
	calltree_sum(&t);
	is_u64(at(&t, "a")->own.cycles, 20 + 20 + 4, "ticks: a's share");
	is_u64(at(&t, "ab")->own.cycles, 60 + 6 + 9 + 5, "b's");
	is_u64(at(&t, "abc")->own.cycles, 4, "c's");
	is_u64(away(&t, CALLTREE_OFF).cycles, 1000, "not traced");
	is_u64(away(&t, CALLTREE_GAP).cycles, 50, "in a gap");
	is_u64(t.nodes[0].total.cycles, f->th.now.cycles, "nothing is lost");
	calltree_fini(&t);
	free(f);
}

/* More nodes between two packets than are kept apart. */
static void many_slices(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree t;

	new_tree(&t, CALLTREE_PER_ALL, 40, 20);
	packet(&t, f, 100000);
	for (unsigned i = 0; i < 300; i++) {
		enter(&t, f, i % N_FUNCS);
		f->th.now.insns += 1 + i % 7;
		if (i % 3 == 2)
			leave(&t, f);
	}
	calltree_flush(&t, &f->ct, &f->th);
	calltree_sum(&t);
	is_u64(t.nodes[0].total.cycles, 100000, "many nodes: nothing is lost");
	calltree_fini(&t);
	free(f);
}

static void folding(void)
{
	struct fake *f = new_fake(7, 8);
	struct calltree_func *v;
	struct calltree t;

	new_tree(&t, CALLTREE_PER_THREAD, 0, 10);
	for (unsigned i = 0; i < 1000; i++) {
		enter(&t, f, i % 3);
		run(f, 1 + i % 3);
	}
	while (f->th.depth)
		leave(&t, f);
	calltree_sum(&t);
	ok(t.n < 15, "deep: %u nodes", t.n);
	is_u64(t.nodes[0].total.insns, 334 + 2 * 333 + 3 * 333, "nothing lost");
	v = calltree_funcs(&t, N_FUNCS);
	is_u64(v[0].own.insns, 334, "own of a, folded or not");
	is_u64(v[2].own.insns, 999, "own of c");
	is_u64(v[1].calls, 333, "calls of b");
	ok(t.n_folded_calls > 900, "said: %" PRIu64, t.n_folded_calls);
	free(v);
	calltree_fini(&t);
	free(f);
}

/* ---- random calls, against a list of stacks as text ---- */

struct ref {
	char path[64];
	uint64_t own, calls;
};

static struct ref refs[20000];
static size_t n_refs;

static struct ref *ref_of(const struct fake *f, uint32_t depth)
{
	char path[64];
	size_t i;

	for (i = 0; i < depth; i++)
		path[i] = f->th.frames[i].func->name[0];
	path[depth] = 0;
	for (i = 0; i < n_refs; i++)
		if (!strcmp(refs[i].path, path))
			return &refs[i];
	memcpy(refs[n_refs].path, path, sizeof(path));
	return &refs[n_refs++];
}

static void wander(struct calltree *t, struct fake *f, uint64_t *seed)
{
	for (int i = 0; i < 20000; i++) {
		uint64_t r = next_random(seed);
		uint64_t n = r >> 8 & 15;

		run(f, n);
		ref_of(f, f->th.depth)->own += n;
		if (r % 64 == 0) {
			turn(t, f);
		} else if (f->th.depth < 6 && r % 3) {
			enter(t, f, (unsigned)(r >> 16) % N_FUNCS);
			ref_of(f, f->th.depth)->calls++;
		} else if (f->th.depth) {
			leave(t, f);
		}
	}
}

static void random_calls(uint32_t max_nodes)
{
	struct fake *f = new_fake(7, 8);
	uint64_t seed = 4242, sum = 0;
	struct calltree t;
	unsigned bad = 0;

	memset(refs, 0, sizeof(refs));
	n_refs = 0;
	new_tree(&t, CALLTREE_PER_THREAD, max_nodes, 0);
	wander(&t, f, &seed);
	calltree_flush(&t, &f->ct, &f->th);
	calltree_sum(&t);
	for (size_t i = 0; i < n_refs; i++) {
		const struct calltree_node *n = at(&t, refs[i].path);

		bad += n->own.insns != refs[i].own ||
		       n->calls != refs[i].calls;
		sum += refs[i].own;
	}
	if (max_nodes)
		ok(t.n <= 2 * max_nodes, "few nodes: %u", t.n);
	else
		is_u64(bad, 0, "random calls: each stack as in the list");
	is_u64(t.nodes[0].total.insns, sum, "the sum of it");
	ok(!calltree_sort(&t, CALLTREE_BY_INSNS), "sorted by instructions");
	bad = 0;
	for (uint32_t i = 0; i < t.n; i++) {
		uint32_t c = t.nodes[i].child, next;

		for (; c && (next = t.nodes[c].next); c = next)
			bad += t.nodes[c].total.insns <
				       t.nodes[next].total.insns ||
			       t.nodes[next].parent != i;
	}
	is_u64(bad, 0, "siblings are in order");
	calltree_fini(&t);
	free(f);
}

int main(void)
{
	for (uint32_t i = 0; i < N_FUNCS; i++) {
		names[i][0] = (char)('a' + i);
		funcs[i] = (struct call_func){ .id = i, .name = names[i] };
	}
	small_tree();
	roots();
	recursion();
	gaps();
	ticks();
	many_slices();
	folding();
	random_calls(0);
	random_calls(100);
	return plan_done();
}
