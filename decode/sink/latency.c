/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_latency: how long the calls of a function took: a histogram with
 * percentiles, and the slowest calls with what ran inside of them.
 *
 * In the histogram is every call that is whole, those inside of another call of
 * the function too; "total" and the slowest are of the outermost alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/clean.h"
#include "common/markup.h"
#include "common/diag.h"
#include "common/outbuf.h"
#include "decode/callstack/calltimes.h"
#include "decode/callstack/names.h"
#include "decode/sink/columns.h"
#include "decode/sink/find.h"
#include "decode/sink/sink.h"

/*
 * ---- what ran inside of one call ----
 *
 * A tree of places: a function, called from where its parent is, with how often
 * and what it took. The nodes are allocated at once and do not move, for frames
 * point to them (frame.user). Calls at places beyond TREE_NODES are counted,
 * and no more. Trees of calls that were not among the slowest are used again.
 */

#define TREE_NODES 4096

struct tree_node {
	struct call_func *func;
	struct tree_node *parent, *child, *next;
	struct tree *tree;
	uint64_t n;			/* calls that ended */
	struct call_count total, own;
	uint32_t id;
};

struct tree {
	struct tree_node *nodes;	/* nodes[0] is the call itself */
	uint32_t n, max;
	uint64_t n_left_out;		/* calls: there are too many places */
	struct tree *next_idle, *next;
};

/* All there are, and those of them that wait to be used. Starts zeroed. */
struct trees {
	struct tree *idle, *all;
};

/* An idle tree, or a new one; NULL: out of memory. It has its root alone. */
static struct tree *new_tree(struct trees *all,
				       struct call_func *func)
{
	struct tree *t = all->idle;

	if (t) {
		all->idle = t->next_idle;
	} else {
		t = calloc(1, sizeof(*t));
		if (!t)
			return NULL;
		/* nodes do not move: frames point to them */
		t->nodes = calloc(TREE_NODES, sizeof(*t->nodes));
		t->max = TREE_NODES;
		t->next = all->all;
		all->all = t;
		if (!t->nodes)
			return NULL;
	}
	t->n = 1;
	t->n_left_out = 0;
	t->nodes[0] = (struct tree_node){ .func = func, .tree = t };
	return t;
}

/* Back to those that wait; NULL is allowed. */
static void release_tree(struct trees *all, struct tree *t)
{
	if (!t)
		return;
	t->next_idle = all->idle;
	all->idle = t;
}

/* All trees, idle or not. */
static void free_trees(struct trees *all)
{
	while (all->all) {
		struct tree *next = all->all->next;

		free(all->all->nodes);
		free(all->all);
		all->all = next;
	}
	all->idle = NULL;
}

/* The place of a call of func inside of node; NULL: there are too many. */
static struct tree_node *child_of(struct tree_node *node,
					 struct call_func *func)
{
	struct tree *t = node->tree;
	struct tree_node **link = &node->child, *n;

	for (; (n = *link); link = &n->next) {
		if (n->func != func)
			continue;
		*link = n->next; /* to the front: it will come again */
		n->next = node->child;
		node->child = n;
		return n;
	}
	if (t->n == t->max)
		return NULL;
	n = &t->nodes[t->n];
	*n = (struct tree_node){ .func = func, .parent = node, .tree = t,
				 .id = t->n, .next = node->child };
	t->n++;
	node->child = n;
	return n;
}

/* ---- as text ---- */

struct shown {
	struct tree_node *node;
	uint64_t amount;
};

static int by_amount(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	if (x->amount != y->amount)
		return x->amount > y->amount ? -1 : 1;
	return x->node->id < y->node->id ? -1 : 1;
}

struct tree_text {
	struct outbuf *out;
	enum find_by by;
	const struct sink_env *env;
	struct shown *shown;	/* largest first */
	uint32_t n;
};

/* What own holds of the function itself: self time, instructions, cycles. */
static uint64_t own_amount(enum find_by by, const struct call_count *own)
{
	return by == FIND_BY_TIME ? call_self_ns(own) : find_amount(by, own);
}

/* What the function took itself and is no self time, where it happened; "": that
 * is little. */
static const char *beside_text(char *out, size_t len, const struct call_count *own)
{
	char text[FIND_OFF_TEXT], kernel[40];
	bool in_kernel = find_is_kernel_mostly(own);
	size_t n = 0;

	*out = 0;
	if (own->off_ns)
		n = (size_t)snprintf(out, len, "  # off CPU %s",
				     find_off_text(text, own));
	find_amount_text(kernel, FIND_BY_TIME, own->kernel_ns);
	if (in_kernel && n < len)
		snprintf(out + n, len - n, "  # in the kernel %s", kernel);
	return out;
}

/* In a line that has other columns, and where it is to fit short. */
static void put_name(const struct sink_env *env, const struct call_func *f,
		     unsigned others)
{
	const unsigned least = 30;
	char name[512];

	if (f->raw) {
		outbuf_clean(env->out, names_cut(env->host->names, f->raw,
			     !env->width ? 0 : env->width > others + least ?
			     env->width - others : least));
		return;
	}
	call_func_name(f, name, sizeof(name));
	outbuf_clean(env->out, name);
}

static void put_line(const struct tree_text *tt, const struct tree_node *node,
		     unsigned depth)
{
	char total[40], own[40], n[40], beside[2 * FIND_OFF_TEXT] = "";
	unsigned indent = 2 * (depth < 20 ? depth : 20);

	find_took_text(total, tt->by, find_amount(tt->by, &node->total),
		       tt->env->resolution);
	find_took_text(own, tt->by, own_amount(tt->by, &node->own), tt->env->resolution);
	find_number_text(n, node->n);
	outbuf_printf(tt->out, "  %12s %12s %9s  %*s", total, own, n,
		      (int)indent, "");
	if (tt->by == FIND_BY_TIME)
		beside_text(beside, sizeof(beside), &node->own);
	put_name(tt->env, node->func, 39 + indent + (unsigned)strlen(beside));
	outbuf_printf(tt->out, "%s\n", beside);
}

/* A node, and below it those of its children that are shown, largest first. */
static void put_node(const struct tree_text *tt, const struct tree_node *node,
		     unsigned depth)
{
	put_line(tt, node, depth);
	for (uint32_t i = 0; i < tt->n; i++)
		if (tt->shown[i].node->parent == node)
			put_node(tt, tt->shown[i].node, depth + 1);
}

/* The largest places as a tree, at most max lines. */
static void put_tree(struct tree *t, const struct sink_env *env, enum find_by by,
		     unsigned max)
{
	struct outbuf *out = env->out;
	struct tree_text tt = { .out = out, .by = by,
				.env = env };
	uint64_t left_out = t->n_left_out;
	char n[40];

	tt.shown = calloc(t->n, sizeof(*tt.shown));
	if (!tt.shown) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	/* A parent has no less than its child, and a smaller id: it is shown
	 * where the child is */
	for (uint32_t i = 0; i < t->n; i++)
		tt.shown[i] = (struct shown){
			&t->nodes[i], i ? find_amount(by, &t->nodes[i].total) :
					  UINT64_MAX
		};
	qsort(tt.shown, t->n, sizeof(*tt.shown), by_amount);
	tt.n = t->n < max ? t->n : max;
	outbuf_printf(out, "  %12s %12s %9s\n", "total",
		      by == FIND_BY_TIME ? "self" : "own", "calls");
	put_node(&tt, &t->nodes[0], 0);
	for (uint32_t i = tt.n; i < t->n; i++)
		left_out += tt.shown[i].node->n;
	if (left_out)
		outbuf_printf(out, "  (%s smaller calls inside are not shown)\n",
			      find_number_text(n, left_out));
	free(tt.shown);
}

#define N_SLOWEST  5
#define MAX_SLOWEST 1000
#define TREE_LINES 12
#define N_NAMES	   5

/* frame.user: its tree_node; or this, where there are too many places */
static const char left_out;

struct slow_call {
	struct tree *tree;
	uint64_t from_ns, to_ns;
	uint32_t pid, tid;
};

struct latency_config {
	uint64_t limit;		/* -n: slowest calls, 0: the default */
	enum find_by by;	/* --by */
};

struct latency {
	struct sink_env env;
	struct latency_config config;
	enum find_by by;
	struct find_watch *watch;
	struct calltimes times;
	struct callrows rows;
	struct call_count total, own;	/* of whole calls; total: outermost */
	uint64_t n_ends[CALL_END_TRACE + 1];	/* of whole calls */
	uint64_t n_faults[FIND_N_FAULTS];
	uint64_t longest[FIND_N_FAULTS];
	struct slowest slowest;
	struct slow_call *slow;
	struct trees trees;
};

/* ---- what happens ---- */

/* NULL also for frames whose place was left out. */
static struct tree_node *node_of(const struct call_frame *f)
{
	return f->user == &left_out ? NULL : f->user;
}

/* Inside of a call that is watched, or beginning one: the frame gets its
 * place. */
static int on_enter(void *priv, struct call_thread *t, unsigned marks)
{
	struct latency *l = priv;
	struct call_frame *f = &t->frames[t->depth - 1];
	struct call_frame *up = t->depth > 1 ? f - 1 : NULL;
	struct tree *tree;
	struct tree_node *node;

	if (up && up->user) {
		node = node_of(up);
		tree = node ? node->tree : NULL;
		if (node)
			node = child_of(node, f->func);
		if (tree && !node)
			tree->n_left_out++;
		f->user = node ? (void *)node : (void *)&left_out;
		return 0;
	}
	if (!(marks & FIND_THIS) || !l->slowest.max)
		return 0;
	tree = new_tree(&l->trees, f->func);
	if (!tree)
		return -AUX_E_NOMEM;
	f->user = &tree->nodes[0];
	return 0;
}

static void add_inner(struct tree_node *node, const struct call_count *took,
		      const struct call_count *own)
{
	node->n++;
	node->total = call_plus(node->total, *took);
	node->own = call_plus(node->own, *own);
}

/* The outermost call ends: its tree is kept, or released. */
static void offer(struct latency *l, const struct call_thread *t,
		  struct tree *tree, enum find_fault fault,
		  const struct call_count *took)
{
	int64_t slot = fault ? -1 :
			       slowest_offer(&l->slowest,
					     find_amount(l->by, took));

	if (slot < 0) {
		release_tree(&l->trees, tree);
		return;
	}
	release_tree(&l->trees, l->slow[slot].tree);
	l->slow[slot] = (struct slow_call){
		.tree = tree, .from_ns = t->now.ns - took->ns,
		.to_ns = t->now.ns, .pid = t->pid, .tid = t->tid
	};
}

/* A whole call goes into the histogram, one with a fault into its own row. */
static int count_call(struct latency *l, bool outermost, enum call_end end,
		      enum find_fault fault,
		      const struct call_count *took,
		      const struct call_count *own)
{
	uint64_t amount = find_amount(l->by, took);

	if (fault) {
		l->n_faults[fault]++;
		if (amount > l->longest[fault])
			l->longest[fault] = amount;
		return 0;
	}
	l->n_ends[end]++;
	callrows_add(&l->rows, amount);
	l->own = call_plus(l->own, *own);
	if (outermost)
		l->total = call_plus(l->total, *took);
	return calltimes_add(&l->times, amount);
}

/* Each call of the function counts, but the tree and the slowest are of the
 * outermost alone: an inner call is part of that. */
static int on_leave(void *priv, struct call_thread *t, unsigned marks,
		    enum call_end end, enum find_fault fault,
		    const struct call_count *took)
{
	struct latency *l = priv;
	struct call_frame *f = &t->frames[t->depth - 1];
	struct call_count own = call_minus(*took, f->children);
	struct tree_node *node = node_of(f);
	int rc = 0;

	if (marks & FIND_THIS)
		rc = count_call(l, node && !node->parent, end, fault, took,
				&own);
	if (!node)
		return rc;
	add_inner(node, took, &own);
	if (!node->parent)
		offer(l, t, node->tree, fault, took);
	return rc;
}

/* ---- what is shown ---- */

static void put_amount(struct latency *l, const char *what, uint64_t v)
{
	char text[40];

	outbuf_printf(l->env.out, "  %s %s", what,
		      find_took_text(text, l->by, v, l->env.resolution));
}

/* What records and packets say to the nanosecond, 0 included. */
static void put_known(struct latency *l, const char *what, uint64_t v)
{
	char text[40];

	outbuf_printf(l->env.out, "  %s %s", what,
		      find_amount_text(text, l->by, v));
}

/* A pattern may have matched several functions. */
static void put_names(struct latency *l)
{
	struct calls *c = find_watch_calls(l->watch);
	struct outbuf *out = l->env.out;
	unsigned n = 0;

	for (size_t i = 0; i < calls_n_funcs(c); i++) {
		const struct call_func *f = calls_func(c, (uint32_t)i);
		const char *base;

		if (!((uintptr_t)f->user & FIND_THIS) || n++ >= N_NAMES)
			continue;
		outbuf_str(out, n > 1 ? ", " : "");
		put_name(&l->env, f, 49);
		base = f->dso ? strrchr(f->dso, '/') : NULL;
		if (!f->dso)
			continue;
		outbuf_str(out, " (");
		outbuf_clean(out, base ? base + 1 : f->dso);
		outbuf_str(out, ")");
	}
	if (n > N_NAMES)
		outbuf_printf(out, " and %u more", n - N_NAMES);
}

/* Of the total, where it is not all self time: see struct call_count. */
static void put_kinds(struct latency *l)
{
	const struct call_count *n = &l->total;
	char text[FIND_OFF_TEXT];

	if (l->by != FIND_BY_TIME || n->ns == call_self_ns(n))
		return;
	outbuf_str(l->env.out, "  of the total:");
	if (l->env.host->off_cpu) {
		put_amount(l, "on CPU", n->ns - n->off_ns);
		outbuf_printf(l->env.out, "  off CPU %s", find_off_text(text, n));
	}
	put_known(l, "in the kernel", n->kernel_ns);
	put_known(l, "filtered", n->filtered_ns);
	put_known(l, "not traced", call_other_ns(n));
	put_known(l, "lost", n->lost_ns);
	outbuf_str(l->env.out, "\n");
}

static void put_sums(struct latency *l)
{
	/* table */
	static const struct {
		const char *name;
		double q;
	} ps[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 },
		   { "p99.9", 0.999 } };
	char text[40];

	outbuf_printf(l->env.out, "\n  calls %s",
		      find_number_text(text, l->times.n));
	put_amount(l, "total", find_amount(l->by, &l->total));
	put_amount(l, "self", own_amount(l->by, &l->own));
	put_known(l, "mean", l->times.sum / l->times.n); /* chance evens out */
	outbuf_str(l->env.out, "\n");
	put_amount(l, "min", l->times.min);
	for (size_t i = 0; i < sizeof(ps) / sizeof(ps[0]); i++)
		put_amount(l, ps[i].name, calltimes_at(&l->times, ps[i].q));
	put_amount(l, "max", l->times.max);
	outbuf_str(l->env.out, "\n");
	put_kinds(l);
	outbuf_str(l->env.out, "\n");
}

/* Columns of the terminal; 80 when it is not a terminal. */
static unsigned width_of(const struct outbuf *out)
{
	struct winsize w;

	if (out->fd >= 0 && !ioctl(out->fd, TIOCGWINSZ, &w) && w.ws_col >= 40)
		return w.ws_col < 200 ? w.ws_col : 200;
	return 80;
}

/* A row of the histogram. What is there has one "#" at least. */
static void put_row(struct latency *l, const struct callrow *row, uint64_t most,
		    unsigned width)
{
	char from[40], to[40], n[40], bar[200];
	unsigned full = (unsigned)((unsigned __int128)row->n * width / most);

	if (row->n && !full)
		full = 1;
	memset(bar, '#', full);
	bar[full] = 0;
	find_amount_text(from, l->by, row->from);
	find_amount_text(to, l->by, row->to);
	find_number_text(n, row->n);
	if (l->by == FIND_BY_TIME && !row->from)
		outbuf_printf(l->env.out, "  %11s %-13s", row->to > 1 ? "below" :
			      "~0 ns", row->to > 1 ? to : "");
	else
		outbuf_printf(l->env.out, "  %11s - %-11s", from,
			      row->to == UINT64_MAX ? "" : to);
	outbuf_printf(l->env.out, " %11s %5.1f%% |%s\n", n,
		      100.0 * (double)row->n / (double)l->times.n, bar);
}

/* Rows that begin below the resolution as one, from 0 on; how many are left. */
static unsigned join_short(const struct latency *l, struct callrow *rows, unsigned n)
{
	unsigned i = 1;

	if (l->by != FIND_BY_TIME || !n || rows[0].from >= l->env.resolution)
		return n;
	rows[0].from = 0;
	for (; i < n && rows[i].from < l->env.resolution; i++) {
		rows[0].n += rows[i].n;
		rows[0].to = rows[i].to;
	}
	memmove(&rows[1], &rows[i], (n - i) * sizeof(*rows));
	return n - i + 1;
}

static void put_rows(struct latency *l)
{
	struct callrow rows[CALLROWS_SHOWN];
	unsigned n = join_short(l, rows, callrows_get(&l->rows, rows));
	unsigned width = width_of(l->env.out) - 48;
	uint64_t most = 1;

	for (unsigned i = 0; i < n; i++)
		most = rows[i].n > most ? rows[i].n : most;
	width = width > 160 ? 24 : width < 10 ? 10 : width;
	for (unsigned i = 0; i < n; i++)
		put_row(l, &rows[i], most, width);
}

/* How whole calls ended, where not all by a return; and those that are not
 * counted. */
static void put_apart(struct latency *l)
{
	struct outbuf *out = l->env.out;
	char n[40], most[40];

	if (l->n_ends[CALL_END_TAIL])
		outbuf_printf(out, "  %s of them ended by a tail call: time up "
			      "to that\n",
			      find_number_text(n, l->n_ends[CALL_END_TAIL]));
	if (l->n_ends[CALL_END_UNWOUND])
		outbuf_printf(out, "  %s of them were left by longjmp or an "
			      "exception\n",
			      find_number_text(n, l->n_ends[CALL_END_UNWOUND]));
	for (unsigned i = 1; i < FIND_N_FAULTS; i++) {
		if (!l->n_faults[i])
			continue;
		outbuf_printf(out, "  # not in it: %s with %s (at least up to %s)\n",
			      find_number_text(n, l->n_faults[i]),
			      find_fault_text(i),
			      find_amount_text(most, l->by, l->longest[i]));
	}
}

static void put_slow(struct latency *l, unsigned rank, const struct slow *s)
{
	const struct slow_call *c = &l->slow[s->slot];
	struct outbuf *out = l->env.out;
	char text[64], *p;

	outbuf_printf(out, "\n%u. %s", rank,
		      find_took_text(text, l->by, s->value, l->env.resolution));
	if (c->from_ns) {
		p = fmt_time(text, c->from_ns);
		*p = 0;
		outbuf_printf(out, " at %s", text);
	}
	if (c->tid != UINT32_MAX)
		outbuf_printf(out, ", tid %u", c->tid);
	outbuf_str(out, "\n");
	put_tree(c->tree, &l->env, l->by, TREE_LINES);
	if (!c->from_ns)
		return;
	outbuf_str(out, "  ");
	find_put_see(out, &l->env, c->from_ns, c->to_ns, c->tid);
	outbuf_str(out, "\n");
}

/* ---- --json ---- */

static void json_names(struct latency *l)
{
	struct calls *c = find_watch_calls(l->watch);
	struct outbuf *out = l->env.out;
	bool first = true;
	char name[512];

	outbuf_str(out, ",\n\"functions\":[");
	for (size_t i = 0; i < calls_n_funcs(c); i++) {
		const struct call_func *f = calls_func(c, (uint32_t)i);

		if (!((uintptr_t)f->user & FIND_THIS))
			continue;
		call_func_name(f, name, sizeof(name));
		outbuf_str(out, first ? "{\"function\":" : ",{\"function\":");
		first = false;
		outbuf_json(out, name);
		outbuf_json_text(out, "dso", f->dso);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

/* One in a hundred calls took longer: those are to be looked at. */
static void note_longer(struct latency *l)
{
	struct sink_report *to = l->env.report;

	if (l->by == FIND_BY_TIME && l->times.n)
		snprintf(to->longer, sizeof(to->longer), "%lluns",
			 (unsigned long long)calltimes_at(&l->times, 0.99));
}

static void json_sums(struct latency *l)
{
	const struct call_count *n = &l->total;
	bool timed = n->ns, away = timed && l->env.host->off_cpu;
	struct outbuf *out = l->env.out;

	outbuf_json_number(out, "calls", l->times.n);
	outbuf_json_number(out, "total", find_amount(l->by, n));
	outbuf_json_number(out, "self", own_amount(l->by, &l->own));
	outbuf_json_number(out, "mean", l->times.sum / l->times.n);
	outbuf_json_number(out, "min", l->times.min);
	outbuf_json_number(out, "p50", calltimes_at(&l->times, 0.5));
	outbuf_json_number(out, "p90", calltimes_at(&l->times, 0.9));
	outbuf_json_number(out, "p99", calltimes_at(&l->times, 0.99));
	outbuf_json_number(out, "p99.9", calltimes_at(&l->times, 0.999));
	outbuf_json_number(out, "max", l->times.max);
	find_json_known(out, "on_cpu_ns", n->ns - n->off_ns, away);
	find_json_known(out, "off_cpu_ns", n->off_ns, away);
	find_json_known(out, "blocked_ns", n->blocked_ns, away);
	find_json_known(out, "preempted_ns", n->preempted_ns, away);
	find_json_known(out, "untraced_ns", n->untraced_ns, timed);
	find_json_known(out, "kernel_ns", n->kernel_ns, timed);
	find_json_known(out, "filtered_ns", n->filtered_ns, timed);
	find_json_known(out, "lost_ns", n->lost_ns, timed);
	outbuf_json_number(out, "ended_by_tail_call", l->n_ends[CALL_END_TAIL]);
	outbuf_json_number(out, "unwound", l->n_ends[CALL_END_UNWOUND]);
}

static void json_rows(struct latency *l)
{
	struct callrow rows[CALLROWS_SHOWN];
	unsigned n = callrows_get(&l->rows, rows);
	struct outbuf *out = l->env.out;
	bool first = true;

	outbuf_str(out, ",\n\"histogram\":[");
	for (unsigned i = 0; i < n; i++) {
		outbuf_printf(out, "%s{\"from\":%llu", i ? ",\n" : "\n",
			      (unsigned long long)rows[i].from);
		if (rows[i].to == UINT64_MAX)
			outbuf_json_text(out, "to", NULL);
		else
			outbuf_json_number(out, "to", rows[i].to);
		outbuf_json_number(out, "calls", rows[i].n);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "],\n\"left_out\":[");
	for (unsigned i = 1; i < FIND_N_FAULTS; i++) {
		if (!l->n_faults[i])
			continue;
		outbuf_str(out, first ? "{\"why\":" : ",\n{\"why\":");
		first = false;
		outbuf_json(out, find_fault_text(i));
		outbuf_json_number(out, "calls", l->n_faults[i]);
		outbuf_json_number(out, "longest", l->longest[i]);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

static void json_slowest(struct latency *l)
{
	struct outbuf *out = l->env.out;

	outbuf_str(out, ",\n\"slowest\":[");
	for (uint32_t i = 0; i < l->slowest.n; i++) {
		const struct slow *s = &l->slowest.v[i];
		const struct slow_call *c = &l->slow[s->slot];

		outbuf_printf(out, "%s{\"value\":%llu,\"tid\":%d",
			      i ? ",\n" : "\n", (unsigned long long)s->value,
			      (int32_t)c->tid);
		outbuf_json_number(out, "from_ns", c->from_ns);
		outbuf_json_number(out, "to_ns", c->to_ns);
		if (c->from_ns)
			find_json_see(out, &l->env, c->from_ns, c->to_ns, c->tid);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

static void put_json(struct latency *l)
{
	note_longer(l);
	static const char *const units[] = { "ns", "instructions", "cycles" };

	outbuf_json_text(l->env.out, "by", units[l->by]);
	json_names(l);
	json_sums(l);
	json_rows(l);
	json_slowest(l);
}

static void put_text(struct latency *l)
{
	struct outbuf *out = l->env.out;

	outbuf_str(out, "latency of ");
	put_names(l);
	outbuf_str(out, "\n");
	put_sums(l);
	put_rows(l);
	put_apart(l);
	if (l->slowest.n)
		outbuf_str(out, "\nslowest:\n");
	for (uint32_t i = 0; i < l->slowest.n; i++)
		put_slow(l, i + 1, &l->slowest.v[i]);
}

/* Why there is no whole call, for the table of an empty result. */
static void report_drops(struct latency *l)
{
	struct sink_report *r = l->env.report;

	for (unsigned i = 1; i < FIND_N_FAULTS; i++) {
		if (!l->n_faults[i])
			continue;
		r->drops[r->n_drops].what = find_fault_text(i);
		r->drops[r->n_drops++].n = l->n_faults[i];
	}
	if (r->n_drops)
		snprintf(r->hint, sizeof(r->hint), "none of its calls is whole, "
			 "such as %llu with \"%s\"; `auxdecode find` shows them",
			 (unsigned long long)r->drops[0].n, r->drops[0].what);
}

static int finish_latency(void *sink, struct aux_diag *diag)
{
	struct latency *l = sink;
	int rc = find_watch_finish(l->watch);

	if (rc < 0)
		return rc;
	if (!l->times.n) {
		rc = find_watch_check(l->watch, diag);
		if (rc)
			return rc;
		report_drops(l);
		return 0;
	}
	slowest_sort(&l->slowest);
	if (l->env.json)
		put_json(l);
	else
		put_text(l);
	l->env.report->n_lines = l->times.n;
	return outbuf_failed(l->env.out) ? -AUX_E_IO : 0;
}

/* ---- the sink ---- */

static void close_latency(void *sink)
{
	struct latency *l = sink;

	if (!l)
		return;
	find_watch_free(l->watch);
	free_trees(&l->trees);
	slowest_fini(&l->slowest);
	calltimes_fini(&l->times);
	free(l->slow);
	free(l);
}

static const struct find_ops latency_ops = { .enter = on_enter,
					     .leave = on_leave };

static int open_parts(struct latency *l, struct aux_diag *diag)
{
	const struct latency_config *config = &l->config;
	struct find_watch_config watch = { .env = &l->env,
					   .ops = &latency_ops,
					   .priv = l,
					   .all = true };
	uint64_t n = config->limit ? config->limit : N_SLOWEST;

	if (!l->env.symbol)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"latency wants a function: auxdecode latency "
				"NAME FILE");
	if (n > MAX_SLOWEST)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"-n wants at most %d calls", MAX_SLOWEST);
	l->by = config->by;
	watch.by = l->by;
	l->slow = calloc(n, sizeof(*l->slow));
	if (!l->slow || slowest_init(&l->slowest, (uint32_t)n))
		return -AUX_E_NOMEM;
	return find_watch_new(&l->watch, &watch, diag);
}

static int open_latency(void **sink, const struct sink_env *env,
			const void *options, struct aux_diag *diag)
{
	const struct latency_config *config = options;
	struct latency *l = calloc(1, sizeof(*l));
	int err;

	*sink = NULL;
	if (!l)
		return -AUX_E_NOMEM;
	l->env = *env;
	l->config = *config;
	err = open_parts(l, diag);
	if (err)
		close_latency(l);
	else
		*sink = l;
	return err;
}

static int flow_latency(void *sink, const struct flow_ctx *ctx,
			const struct aux_flow *ev, size_t n)
{
	struct latency *l = sink;

	return find_watch_flow(l->watch, ctx, ev, n);
}

/* table */
static const struct option_row latency_options[] = {
	SINK_LIMIT(struct latency_config, "list the N slowest calls (default 5)"),
	SINK_BY(struct latency_config, FIND_BY_VALUES, FIND_BY_HELP),
	{ .name = NULL },
};

const struct sink_ops sink_latency = {
	.name = "latency",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS,
	.options = latency_options,
	.config_size = sizeof(struct latency_config),
	.open = open_latency,
	.flow = flow_latency,
	.finish = finish_latency,
	.close = close_latency,
};
