/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_stream_run: what the back ends call to say what ran, for all kinds of
 * trace. A thread is put on a stream when there is something to say of it, and
 * is taken off when a shared sink is emptied.
 */
#include "capture/soft/stream.h"

/* Back on a stream before anything is said of t. */
static int ensure_on(struct soft_thread *t, uint64_t ip)
{
	if (!t->user) {
		/* a back end's mistake: it never entered */
		t->s->stats.n_unexplained++;
		soft_enter(t, ip, 0);
	}
	return t->on ? t->s->error : soft_resume(t);
}

int soft_run(struct soft_thread *t, const struct soft_block *table,
	     const uint32_t *ids, size_t n)
{
	uint64_t *now, tsc;
	size_t i = 0;

	if (!n)
		return 0;
	if (ensure_on(t, table[ids[0]].start))
		return t->s->error;
	t->st->used = ++t->s->order;
	t->pinned = false;
	now = soft_clock(t->st);
	while (i < n) {
		tsc = *now;
		if (t->resync && tsc <= t->proc->floor)
			tsc = t->proc->floor + 1;
		i += t->s->ops->run(t, table, ids + i, n - i);
		t->s->stats.n_insns += *now - tsc;
		if (t->s->out.full)
			soft_flush_streams(t->s);
		if (!t->on && ensure_on(t, t->last.start))
			break;
	}
	return soft_note(t->s, soft_stream_error(t->st));
}

int soft_cut(struct soft_thread *t, const struct soft_block *b,
	     uint32_t n_insns, uint64_t ip)
{
	if (ensure_on(t, b->start))
		return t->s->error;
	t->s->ops->run_block(t, b, n_insns);
	t->s->stats.n_insns += n_insns;
	t->last = soft_at_ip(ip);
	t->pinned = false;
	return soft_note(t->s, soft_stream_error(t->st));
}

/* The class is of either architecture. */
static bool enters_kernel(const struct soft_block *b)
{
	return b->cls == X86_SYSCALL || b->cls == X86_FAR;
}

int soft_leave(struct soft_thread *t, enum soft_leave_kind kind, uint64_t ip)
{
	const struct soft_trace_ops *ops = t->s->ops;

	if (ensure_on(t, ip))
		return t->s->error;
	if (kind == SOFT_LEAVE_ASYNC) {
		ops->interrupt(t, ip);
	} else if (enters_kernel(&t->last)) {
		ops->call(t);
	} else {
		t->s->stats.n_unexplained++;
		ops->mistake(t, ip);
	}
	t->clock = *soft_clock(t->st);
	t->on = t->user = t->resync = t->pinned = false;
	return soft_note(t->s, soft_stream_error(t->st));
}

int soft_enter(struct soft_thread *t, uint64_t ip, uint64_t kernel_ns)
{
	if (t->user && t->on) {
		t->s->stats.n_unexplained++;
		t->s->ops->mistake(t, ip);
		t->clock = *soft_clock(t->st);
		t->on = false;
	}
	t->clock += kernel_ns;
	t->last = soft_at_ip(ip);
	t->user = true;
	t->pinned = false;
	return t->s->error;
}

int soft_ptwrite(struct soft_thread *t, uint64_t ip, uint64_t value, int size)
{
	const struct soft_config *c = &t->s->config;

	if (!c->ptw || c->trace != SOFT_TRACE_PT)
		return 0;
	if (ensure_on(t, ip))
		return t->s->error;
	if (t->st->e.pos >= t->st->e.limit && !t->st->e.lost &&
	    (!t->pinned || !t->st->e.config.branch))
		pt_encode_checkpoint(&t->st->e, t->last.start);
	pt_encode_ptwrite(&t->st->e, ip, value, size, c->fup_on_ptw);
	t->pinned = true;
	return t->s->error;
}
