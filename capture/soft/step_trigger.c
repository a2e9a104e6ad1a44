/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Triggers: a thread that comes to the first instruction of a function, or back from a call
 * of it.
 *
 * Such an instruction is a mark of its process, by address. Marks are not copied into the
 * code cache: a thread comes out before one, steps over it, and goes in again. They are made
 * when the file is mapped, before anything of it runs, so none is missed. The call of a
 * function whose duration matters is remembered with its stack pointer; where it returns to
 * becomes a mark, too. A return leaves all calls whose stack pointer lies below, by whatever
 * way they ended: longjmp and exceptions leave calls without a return, and recursion has
 * frames of its own.
 */
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "capture/soft/step.h"
#include "common/array.h"
#include "common/clock.h"

/* ---- marks ---- */

static struct step_mark *find_mark(const struct step_process *proc, uint64_t addr)
{
	uint32_t i = proc->n_marks ? step_hash_get(&proc->mark_at, addr) : 0;

	return i ? &proc->marks[i - 1] : NULL;
}

bool step_marked(const struct step_process *proc, uint64_t ip)
{
	return proc->n_marks && find_mark(proc, ip);
}

static int add_mark(struct step_process *proc, uint64_t addr, uint32_t triggers)
{
	struct step_mark *m = find_mark(proc, addr), new = { addr, triggers };

	if (m) {
		m->triggers |= triggers;
		return 0;
	}
	if (array_append(&proc->marks, &proc->n_marks, &proc->cap_marks, &new,
			 sizeof(new)) ||
	    step_hash_put(&proc->mark_at, addr, (uint32_t)proc->n_marks))
		return -AUX_E_NOMEM;
	step_native_forget(proc, addr, addr + 1);
	return 0;
}

static bool is_program(const struct step_process *proc, const char *path)
{
	char link[64], exe[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", proc->pid);
	n = readlink(link, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	return !strcmp(exe, path);
}

/* How many processes the kernel of this machine has killed for want of memory. */
static uint64_t count_oom(void)
{
	unsigned long long n = 0;
	char line[128];
	FILE *f = fopen("/proc/vmstat", "re");

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "oom_kill %llu", &n) != 1)
		;
	if (f)
		fclose(f);
	return n;
}

int step_trigger_map(struct step_process *proc, const struct step_map *m)
{
	const struct triggers *list = proc->step->p->triggers;
	struct trigger_places at;
	char file[PATH_MAX + 32];
	int err = 0;

	if (!list)
		return 0;
	if (!proc->step->trigger.counted) {
		proc->step->trigger.counted = true;
		proc->step->trigger.n_oom = count_oom();
	}
	for (size_t i = 0; i < proc->n_marks; i++)	/* of what was there before */
		if (proc->marks[i].addr >= m->start && proc->marks[i].addr < m->end)
			proc->marks[i].triggers = 0;
	if (m->path[0] != '/')
		return 0;
	snprintf(file, sizeof(file), "/proc/%d/root%s", proc->pid, m->path);
	for (size_t i = 0; i < list->n && !err; i++) {
		err = trigger_places(&list->v[i], m->path, file,
				     is_program(proc, m->path), &at);
		for (size_t k = 0; k < at.n && !err; k++)
			if (at.v[k].offset >= m->pgoff &&
			    at.v[k].offset - m->pgoff < m->end - m->start)
				err = add_mark(proc, m->start +
					       (at.v[k].offset - m->pgoff), 1u << i);
		proc->step->trigger.found |= at.n ? 1u << i : 0;
		free(at.v);
	}
	return err;
}

int step_trigger_inherit(struct step_process *proc, const struct step_process *parent)
{
	int err = 0;

	for (size_t i = 0; parent && i < parent->n_marks && !err; i++)
		err = add_mark(proc, parent->marks[i].addr, parent->marks[i].triggers);
	return err;
}

/* A fork is in the same calls; a thread is in none. */
int step_trigger_fork(struct step_thread *t, const struct step_thread *parent)
{
	int err = 0;

	for (size_t i = 0; t->proc != parent->proc && i < parent->n_calls && !err; i++)
		err = array_append(&t->calls, &t->n_calls, &t->cap_calls,
				   &parent->calls[i], sizeof(*t->calls));
	return err ? -AUX_E_NOMEM : 0;
}

void step_trigger_reset(struct step_process *proc)
{
	step_hash_clear(&proc->mark_at);
	proc->n_marks = 0;
}

/* ---- moments ---- */

static void flush_all(struct step *st)
{
	for (struct step_thread *t = st->threads; t; t = t->next)
		if (t->proc && t->soft)
			step_flush_thread(t);
}

static int take(struct step *st, const struct step_moment *m)
{
	struct soft_moment label = { .time_ns = m->time_ns, .took_ns = m->took_ns,
				     .pid = m->pid, .tid = m->tid, .cpu = m->cpu };
	const struct trigger_moment when = { m->time_ns, m->took_ns, m->pid, m->tid, m->cpu };
	char text[TRIGGER_LABEL];
	int err;

	trigger_label(m->trigger, &when, text);
	flush_all(st);
	label.text = text;
	err = soft_moment(st->s, &label);
	if (err && !st->error)
		st->error = err;
	return err;
}

/* A snapshot that waits is taken when its time has come; at the end it is due. */
void step_trigger_due(struct step *st, bool end)
{
	struct step_trigger *g = &st->trigger;

	if (!g->due_ns || (!end && clock_ns() < g->due_ns))
		return;
	g->due_ns = 0;
	take(st, &g->waits);
}

static void fire(struct step *st, const struct step_moment *m)
{
	const struct triggers *list = st->p->triggers;
	struct step_trigger *g = &st->trigger;

	g->n_hits++;
	if (list->count && g->n_taken == list->count)
		return;
	if (g->due_ns || (g->n_taken && list->cooldown_ns &&
			  m->time_ns < g->last_ns + list->cooldown_ns)) {
		g->n_passed++;
		return;
	}
	g->n_taken++;
	g->last_ns = m->time_ns;
	if (!list->delay_ns || !st->p->snapshot) {
		take(st, m);
		return;
	}
	g->waits = *m;
	g->due_ns = clock_ns() + list->delay_ns;
	step_alarm(list->delay_ns);
}

static struct step_moment moment_of(const struct step_thread *t, const struct trigger *tr)
{
	struct step_moment m = { .trigger = tr, .pid = (uint32_t)t->proc->pid,
				 .tid = (uint32_t)t->tid };

	soft_when(t->soft, &m.time_ns, &m.cpu);
	return m;
}

/* ---- calls ---- */

/* The thread is about to step over an instruction that has a mark. */
void step_trigger_before(struct step_thread *t)
{
	t->mark_sp = step_sp_read(t->tid);
	t->mark_ret = step_return_read(t);
}

/* A call begins. One of the same function at the same place of the stack has ended without
 * a return. */
static void begin_call(struct step_thread *t, unsigned i)
{
	struct step_call call = { .sp = t->mark_sp, .ret = t->mark_ret, .trigger = i };
	uint32_t cpu;

	soft_when(t->soft, &call.from_ns, &cpu);
	for (size_t k = t->n_calls; k-- > 0 && t->calls[k].sp == call.sp;)
		if (t->calls[k].trigger == i) {
			t->calls[k] = call;
			return;
		}
	if (array_append(&t->calls, &t->n_calls, &t->cap_calls, &call, sizeof(call)) ||
	    add_mark(t->proc, call.ret, 0))
		step_note(t, -AUX_E_NOMEM);
}

/* Calls whose frames lie below sp are over. The one that returned just here is measured. */
static void end_calls(struct step_thread *t, uint64_t ip, uint64_t sp)
{
	const struct triggers *list = t->proc->step->p->triggers;

	while (t->n_calls) {
		const struct step_call c = t->calls[t->n_calls - 1];
		struct step_moment m = moment_of(t, &list->v[c.trigger]);

		if (STEP_PUSHED ? c.sp >= sp : c.sp > sp)
			return;
		t->n_calls--;
		m.took_ns = m.time_ns - c.from_ns;
		if (c.ret == ip && c.sp + STEP_PUSHED == sp &&
		    m.took_ns > m.trigger->longer_ns)
			fire(t->proc->step, &m);
	}
}

/* The instruction at ip, which has a mark, has run. */
void step_trigger_ran(struct step_thread *t, uint64_t ip)
{
	const struct step_mark *m = find_mark(t->proc, ip);
	const struct triggers *list = t->proc->step->p->triggers;
	uint32_t triggers = m ? m->triggers : 0;

	if (!m || !t->soft || step_flush_thread(t))
		return;
	end_calls(t, ip, t->mark_sp);
	for (unsigned i = 0; i < list->n; i++) {
		struct step_moment now;

		if (!(triggers & 1u << i))
			continue;
		if (list->v[i].longer_ns) {
			begin_call(t, i);
			continue;
		}
		now = moment_of(t, &list->v[i]);
		fire(t->proc->step, &now);
	}
}

/* ---- signals and ends ---- */

/* Neither caught nor ignored, as /proc/TID/status says. */
static bool is_default(pid_t tid, int sig)
{
	char path[64], line[256];
	unsigned long long mask;
	bool other = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigCgt: %llx", &mask) == 1 ||
		    sscanf(line, "SigIgn: %llx", &mask) == 1)
			other |= mask >> (sig - 1) & 1;
	if (f)
		fclose(f);
	return !other;
}

void step_trigger_signal(struct step_thread *t, int sig)
{
	const struct triggers *list = t->proc->step->p->triggers;

	for (size_t i = 0; list && i < list->n; i++) {
		const struct trigger *tr = &list->v[i];
		struct step_moment m;

		if (!(tr->kind == TRIGGER_SIGNAL && tr->signo == sig) &&
		    !(tr->kind == TRIGGER_CRASH && trigger_is_fatal(sig) &&
		      is_default(t->tid, sig)))
			continue;
		m = moment_of(t, tr);
		fire(t->proc->step, &m);
	}
}

/* Nothing tells a tracer who sent SIGKILL; the kernel's count has grown when it was the
 * kernel for want of memory. */
static bool ended_by_oom(struct step *st, int status)
{
	uint64_t n;

	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return false;
	n = count_oom();
	if (n == st->trigger.n_oom)
		return false;
	st->trigger.n_oom++;
	return true;
}

void step_trigger_exit(struct step_thread *t, int status)
{
	struct step *st = t->proc->step;
	const struct triggers *list = st->p->triggers;
	bool oom = list && t->tid == t->proc->pid && ended_by_oom(st, status);

	for (size_t i = 0; list && i < list->n && t->tid == t->proc->pid; i++) {
		struct step_moment m;

		if (list->v[i].kind != TRIGGER_EXIT && !(list->v[i].kind == TRIGGER_OOM && oom))
			continue;
		m = moment_of(t, &list->v[i]);
		fire(st, &m);
	}
}

/* ---- the end ---- */

void step_trigger_notes(const struct step *st)
{
	const struct triggers *list = st->p->triggers;
	const struct step_trigger *g = &st->trigger;
	size_t used = strlen(st->p->notes), room = st->p->notes_size;
	int n;

	if (!list || !list->n || used >= room)
		return;
	n = snprintf(st->p->notes + used, room - used, "%s--when: %llu time%s, taken %llu",
		     used ? "; " : "", (unsigned long long)g->n_hits,
		     g->n_hits == 1 ? "" : "s", (unsigned long long)g->n_taken);
	used += n > 0 ? (size_t)n : 0;
	if (g->n_passed && used < room)
		used += (size_t)snprintf(st->p->notes + used, room - used,
					 ", %llu within --cooldown or --when-delay of "
					 "another", (unsigned long long)g->n_passed);
	for (size_t i = 0; i < list->n && used < room; i++)
		if (trigger_in_file(&list->v[i]) && !(g->found & 1u << i))
			used += (size_t)snprintf(st->p->notes + used, room - used,
						 "; no file that was mapped has \"%.60s\"",
						 list->v[i].text);
}
