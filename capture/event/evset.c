/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evset: opens the events of an evlist on a target, and switches them.
 *
 * First the operations on an open set, then the opening, which decides which
 * event goes on which CPU and thread, into which group and ring, and what is
 * removed from the request when the kernel refuses it.
 *
 * Specification: perf_event_open(2); kernel/events/core.c of Linux 6.1.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/event/auxpmu.h"
#include "capture/event/evset.h"
#include "capture/event/explain.h"
#include "common/array.h"
#include "common/diag.h"

static const char *name_of(const struct evlist *l, const struct evset_fd *f)
{
	const char *name = l->events[f->event].name;

	return name ? name : "event";
}

int evset_attach(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag)
{
	const struct evset_fd *f;
	size_t i;

	for (i = 0; i < s->n_fds; i++) {
		f = &s->fds[i];
		if (s->rings[f->ring].fd == f->fd ||
		    !ioctl(f->fd, PERF_EVENT_IOC_SET_OUTPUT,
			   s->rings[f->ring].fd))
			continue;
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"%.100s cannot write to the ring of CPU %d: %s",
				name_of(l, f), f->cpu, strerror(errno));
	}
	return 0;
}

static const char *why_no_filter(const struct evlist_event *e, int err)
{
	if (err == EOPNOTSUPP)
		return "; the PMU has not that many filters, or not of this "
		       "kind";
	if (err == EINVAL && e->attr.type == PERF_TYPE_TRACEPOINT)
		return "; its fields are in events/SUBSYSTEM/NAME/format below "
		       "/sys/kernel/tracing, as --filter 'prev_pid == 0'";
	if (err == EINVAL && !(e->pmu && e->pmu->n_addr_filters))
		return "; only tracepoints and PMUs with address filters "
		       "(nr_addr_filters in sysfs) take one";
	if (err == EINVAL)
		return "; ranges of files need a task, kernel ranges an event "
		       "that traces the kernel";
	if (err == ENOENT)
		return "; the file is not there";
	return "";
}

int evset_filter(struct evset *s, const struct evlist *l,
		 struct aux_diag *diag)
{
	const struct evlist_event *e;
	size_t i;
	int err;

	for (i = 0; i < s->n_fds; i++) {
		e = &l->events[s->fds[i].event];
		if (!e->filter)
			continue;
		if (!ioctl(s->fds[i].fd, PERF_EVENT_IOC_SET_FILTER, e->filter))
			continue;
		err = errno;
		if (err == ESRCH)	/* its thread has ended */
			continue;
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%.100s: the kernel refuses the filter "
				"'%.150s': %s%s", name_of(l, &s->fds[i]),
				e->filter, strerror(err),
				why_no_filter(e, err));
	}
	return 0;
}

static int switch_fd(const struct evset_fd *f, bool on)
{
	int err;

	if (!ioctl(f->fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
		   0))
		return 0;
	err = errno;
	return err == ESRCH ? 0 : -err;
}

static int explain_switch(int err, bool on, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "events cannot be %s: "
			"%s", on ? "enabled" : "disabled", strerror(-err));
}

/* From last to first: side-band, which evlist puts last, runs before the
 * trace. */
int evset_enable(struct evset *s, const struct evlist *l, struct aux_diag *diag)
{
	int ret, first = 0;
	size_t i;

	for (i = s->n_fds; i-- > 0;) {
		if (l->events[s->fds[i].event].held)
			continue;
		ret = switch_fd(&s->fds[i], true);
		if (ret && !first)
			first = ret;
	}
	return first ? explain_switch(first, true, diag) : 0;
}

bool evset_can_pause(const struct evlist *l)
{
	struct perf_event_attr attr = l->events[0].attr;
	long fd;

	if (!l->n_aux)
		return true;
	attr.disabled = 1;
	attr.inherit = attr.enable_on_exec = 0;
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1,
		     (unsigned long)PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close((int)fd);
	/* Any other error will be met, and explained, when it is opened. */
	return fd >= 0 || (errno != EINVAL && errno != EOPNOTSUPP && errno != E2BIG);
}

int evset_disable(struct evset *s, struct aux_diag *diag)
{
	int ret, first = 0;
	size_t i;

	for (i = 0; i < s->n_fds; i++) {
		ret = switch_fd(&s->fds[i], false);
		if (ret && !first)
			first = ret;
	}
	return first ? explain_switch(first, false, diag) : 0;
}

int evset_aux_enable(struct evset *s, const struct evlist *l, bool on)
{
	int ret, first = 0;
	size_t i;

	for (i = 0; i < s->n_fds; i++) {
		if (!l->events[s->fds[i].event].aux)
			continue;
		ret = switch_fd(&s->fds[i], on);
		if (ret && !first)
			first = -AUX_E_IO;
	}
	return first;
}

enum { AUX_OFF = 1, AUX_ON };

/* how: what is done to each of the ring's AUX events, AUX_OFF first. */
static int switch_aux(struct evset *s, const struct evlist *l, uint32_t ring,
		      int how)
{
	const struct evset_fd *f;
	int first = 0;
	size_t i;

	for (i = 0; i < s->n_fds; i++) {
		f = &s->fds[i];
		if (f->ring != ring || !l->events[f->event].aux)
			continue;
		if (((how & AUX_OFF && switch_fd(f, false)) ||
		     (how & AUX_ON && switch_fd(f, true))) && !first)
			first = -AUX_E_IO;
	}
	return first;
}

int evset_aux_restart(struct evset *s, const struct evlist *l, uint32_t ring)
{
	return switch_aux(s, l, ring, AUX_OFF | AUX_ON);
}

int evset_aux_stop(struct evset *s, const struct evlist *l, uint32_t ring)
{
	return switch_aux(s, l, ring, AUX_OFF);
}

int evset_aux_resume(struct evset *s, const struct evlist *l, uint32_t ring)
{
	return switch_aux(s, l, ring, AUX_ON);
}

int evset_ring_live(const struct evset *s, uint32_t ring, size_t *hint)
{
	struct pollfd p = { .events = POLLIN };

	for (; *hint < s->n_fds; ++*hint) {
		if (s->fds[*hint].ring != ring)
			continue;
		p.fd = s->fds[*hint].fd;
		if (poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLNVAL)))
			return p.fd;
	}
	return -1;
}

/* One event's lost count from read(2) with FORMAT_ID | FORMAT_LOST: value, id,
 * lost; with FORMAT_GROUP a count first, then these three of each member. */
static uint64_t lost_of(const struct evset_fd *f, bool group, uint64_t *v,
			size_t size)
{
	ssize_t got = read(f->fd, v, size);
	size_t n = got > 0 ? (size_t)got / sizeof(*v) : 0, i;

	for (i = group; i + 2 < n; i += 3)
		if (v[i + 1] == f->id)
			return v[i + 2];
	return 0;
}

uint64_t evset_lost(const struct evset *s, const struct evlist *l)
{
	size_t size = (1 + 3 * l->n) * sizeof(uint64_t), i;
	uint64_t *v = malloc(size), sum = 0;

	for (i = 0; v && i < s->n_fds; i++) {
		uint64_t format = l->events[s->fds[i].event].attr.read_format;

		if (format & PERF_FORMAT_LOST &&
		    !s->rings[s->fds[i].ring].backward)
			sum += lost_of(&s->fds[i], format & PERF_FORMAT_GROUP,
				       v, size);
	}
	free(v);
	return sum;
}

/* The member or leader that is opened with the event on the CPU; -1: none. */
static int leader_fd(const struct evset *s, const struct evlist *l,
		     const struct evset_fd *f)
{
	size_t leader = l->events[f->event].leader, i;

	for (i = 0; leader != f->event && i < s->n_fds; i++)
		if (s->fds[i].event == leader && s->fds[i].cpu == f->cpu &&
		    s->fds[i].tid < 0)
			return s->fds[i].fd;
	return -1;
}

/* Opens one event anew and keeps its old descriptor. */
static int reopen(struct evset *s, const struct evlist *l, struct evset_fd *f,
		  int cgroup_fd)
{
	const struct evlist_event *e = &l->events[f->event];
	struct perf_event_attr attr = e->attr;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC |
			      (cgroup_fd >= 0 && !e->any_task ?
				       PERF_FLAG_PID_CGROUP : 0);
	int err, fd;

	if (array_grow(&s->old, s->n_old, &s->cap_old, sizeof(*s->old)))
		return -ENOMEM;
	attr.disabled = 1;
	attr.enable_on_exec = 0;
	fd = (int)syscall(SYS_perf_event_open, &attr,
			  flags & PERF_FLAG_PID_CGROUP ? cgroup_fd : -1, f->cpu,
			  leader_fd(s, l, f), flags);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, s->rings[f->ring].fd) ||
	    (e->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, e->filter)) ||
	    ioctl(fd, PERF_EVENT_IOC_ID, &f->id)) {
		err = errno;
		close(fd);
		return -err;
	}
	s->old[s->n_old++] = f->fd;
	f->fd = fd;
	return 0;
}

/* Events of a group are opened after their leader, as in the set. What was
 * opened before an error stays, disabled; the next attempt opens all again. */
int evset_reopen(struct evset *s, const struct evlist *l, int cpu, int cgroup_fd)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < s->n_fds && !ret; i++)
		if (s->fds[i].cpu == cpu && s->fds[i].tid < 0)
			ret = reopen(s, l, &s->fds[i], cgroup_fd);
	return ret;
}

void evset_reopened(struct evset *s, const struct evlist *l, int cpu, bool all)
{
	size_t i;

	for (i = s->n_fds; i-- > 0;)
		if (s->fds[i].cpu == cpu && s->fds[i].tid < 0 &&
		    (all || l->events[s->fds[i].event].immediate))
			switch_fd(&s->fds[i], true);
}

void evset_close(struct evset *s)
{
	size_t i;

	for (i = 0; i < s->n_old; i++)
		close(s->old[i]);
	free(s->old);
	s->old = NULL;
	s->n_old = s->cap_old = 0;

	for (i = 0; i < s->n_fds; i++)
		close(s->fds[i].fd);
	free(s->fds);
	free(s->rings);
	s->fds = NULL;
	s->rings = NULL;
	s->n_fds = s->n_rings = s->cap_fds = s->cap_rings = 0;
}

/*
 * Opening. When the kernel refuses an event, retry_without() removes what
 * nothing depends on: attr bits of newer kernels, and the kernel's part of an
 * event whose modifiers did not ask for it. CPUs that are offline and threads
 * that have ended are skipped. Anything else is an error.
 */

#define NONE UINT32_MAX
#define FDS_OTHER 128	/* other descriptors of a recorder: files, pipes, logs */

/* The state of evset_open. The tables hold indices, NONE if there is none. */
struct opening {
	struct evset *s;
	struct evlist *l;
	const struct target *t;
	struct aux_diag *diag;
	struct explain_system sys;
	uint32_t *fd_of;	/* [event][cpu][tid]: index in s->fds */
	/* [row][column]: index in s->rings. Rows: one per event (its AUX ring),
	 * then the ring shared by all, then the backward ring. Columns: one per
	 * CPU, or per thread with --per-thread. */
	uint32_t *ring_of;
	size_t n_columns;
	unsigned n_dropped;	/* bits of drop_bit() removed so far */
	bool user_only;		/* the note of narrow() was made */
};

/* One perf_event_open: which event on which CPU and thread. */
struct spot {
	size_t event, cpu, tid;	/* indices in the evlist and the target */
	bool wide;		/* pid -1: any task on the CPU */
};

__attribute__((format(printf, 2, 3)))
static void add_note(struct evset *s, const char *fmt, ...)
{
	size_t used = strlen(s->notes), room = sizeof(s->notes) - used;
	va_list ap;

	if (used && room > 2) {
		memcpy(s->notes + used, "; ", 3);
		used += 2;
		room -= 2;
	}
	va_start(ap, fmt);
	vsnprintf(s->notes + used, room, fmt, ap);
	va_end(ap);
}

/*
 * Clears the i-th bit that an older kernel may not know; returns whether it was
 * set. Newest first, that is from the last bit of struct perf_event_attr to the
 * first: a kernel that lacks one lacks all newer ones, so they are removed in
 * this order until it accepts. perf detects the same in
 * evsel__detect_missing_features().
 */
static bool drop_bit(struct perf_event_attr *a, unsigned i, const char **name)
{
	bool was = false;

#define DROP(n, bit) case n: was = a->bit; a->bit = 0; *name = #bit; break
	switch (i) {
	case 0:			/* Linux 6.0; no record is lost by it: no note */
		was = a->read_format & PERF_FORMAT_LOST;
		a->read_format &= ~(uint64_t)PERF_FORMAT_LOST;
		break;
	DROP(1, build_id);
	DROP(2, text_poke);
	DROP(3, cgroup);
	DROP(4, bpf_event);
	DROP(5, ksymbol);
	DROP(6, namespaces);
	DROP(7, comm_exec);
	DROP(8, mmap2);
	}
#undef DROP
	return was;
}
#define N_DROP 9

/* Removes bits from all events until one is gone that this attr had. False:
 * none is left, so the EINVAL has another cause. */
static bool drop_next(struct opening *o, const struct perf_event_attr *attr)
{
	struct perf_event_attr copy = *attr;
	const char *name = "";
	bool has = false;
	size_t i;

	while (!has && o->n_dropped < N_DROP) {
		has = drop_bit(&copy, o->n_dropped, &name);
		for (i = 0; i < o->l->n; i++)
			drop_bit(&o->l->events[i].attr, o->n_dropped, &name);
		o->n_dropped++;
	}
	if (has && *name)
		add_note(o->s, "this kernel has no '%s' records: done without",
			 name);
	return has;
}

/*
 * After EACCES or EPERM: restricts the event to what perf_event_paranoid 2
 * permits. An event with modifiers keeps them: the user asked for the kernel by
 * name, and gets the error. Side-band first loses the records that need
 * privilege: namespaces (perfmon_capable) and text_poke (the kernel's
 * addresses).
 */
static bool narrow(struct opening *o, struct evlist_event *e)
{
	bool privileged = e->attr.namespaces || e->attr.text_poke;

	if (e->sideband && privileged) {
		e->attr.namespaces = e->attr.text_poke = 0;
		return true;
	}
	if (e->attr.exclude_kernel || e->attr.type == PERF_TYPE_TRACEPOINT ||
	    (e->spec.has_modifiers && !e->sideband))
		return false;
	e->attr.exclude_kernel = e->attr.exclude_hv = 1;
	e->spec.kernel = false;
	if (!e->sideband && !o->user_only) {
		add_note(o->s, "%.60s: user space only, since "
			 "kernel.perf_event_paranoid is %d (u as modifier says "
			 "so; sudo sysctl kernel.perf_event_paranoid=1 lets "
			 "you see the kernel)", e->name ? e->name : "event",
			 o->sys.paranoid);
		o->user_only = true;
	}
	return true;
}

/* Raises the soft limit of open files, and the hard one where permitted. */
static bool raise_nofile(size_t need)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur >= need)
		return false;
	if (r.rlim_max < need) {
		struct rlimit more = { need, need };

		if (!setrlimit(RLIMIT_NOFILE, &more))
			return true;
	}
	if (r.rlim_cur == r.rlim_max)
		return false;
	r.rlim_cur = r.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &r);
}

static size_t fds_wanted(const struct opening *o)
{
	return o->l->n * o->t->n_cpus * o->t->n_tids + FDS_OTHER;
}

static uint32_t *fd_slot(const struct opening *o, const struct spot *at,
			 size_t event)
{
	return &o->fd_of[(event * o->t->n_cpus + at->cpu) * o->t->n_tids +
			 at->tid];
}

static int group_fd(const struct opening *o, const struct spot *at)
{
	size_t leader = o->l->events[at->event].leader;
	uint32_t i;

	if (leader == at->event)
		return -1;
	i = *fd_slot(o, at, leader);
	return i == NONE ? -1 : o->s->fds[i].fd;
}

/* Removes what may have caused err. True: another attempt is worth while.
 * first: no instance of this event is open yet; later its attr must stay the
 * same. */
static bool retry_without(struct opening *o, struct evlist_event *e, int err,
			  bool first)
{
	if (err == EINTR)
		return true;
	if (err == EMFILE)
		return raise_nofile(fds_wanted(o));
	if (!first)
		return false;
	if (err == EINVAL)
		return drop_next(o, &e->attr);
	return (err == EACCES || err == EPERM) && narrow(o, e);
}

/* An fd, or -errno. */
static int open_fd(struct opening *o, const struct spot *at, bool first)
{
	struct evlist_event *e = &o->l->events[at->event];
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;
	int cpu = o->t->cpus[at->cpu], pid = o->t->tids[at->tid];
	int group = group_fd(o, at), err;
	long fd;

	if (at->wide) {
		pid = -1;
	} else if (o->t->cgroup_fd >= 0) {
		pid = o->t->cgroup_fd;
		flags |= PERF_FLAG_PID_CGROUP;
	}
	do {
		fd = syscall(SYS_perf_event_open, &e->attr, pid, cpu, group,
			     flags);
		err = errno;
	} while (fd < 0 && retry_without(o, e, err, first));
	/* A software event always exists, and so does that of a PMU in sysfs:
	 * ENOENT is the cgroup's, a directory of a hierarchy without the
	 * perf_event controller. */
	if (fd < 0 && err == ENOENT && flags & PERF_FLAG_PID_CGROUP &&
	    (e->attr.type == PERF_TYPE_SOFTWARE || e->pmu))
		err = EBADF;
	return fd < 0 ? -err : (int)fd;
}

static struct evset_ring *add_ring(struct evset *s)
{
	if (array_grow(&s->rings, s->n_rings, &s->cap_rings, sizeof(*s->rings)))
		return NULL;
	return &s->rings[s->n_rings++];
}

/* The ring that the event writes to there; if it is new, fd is the one to map.
 * NONE: out of memory. */
static uint32_t choose_ring(struct opening *o, const struct spot *at, int fd)
{
	const struct evlist_event *e = &o->l->events[at->event];
	size_t column = o->t->per_thread ? at->tid : at->cpu;
	size_t main_row = o->l->n, row = main_row;
	uint32_t *slot, *main_slot;
	struct evset_ring *r;

	if (e->aux)
		row = at->event;
	else if (e->attr.write_backward)
		row = main_row + 1;
	slot = &o->ring_of[row * o->n_columns + column];
	if (*slot != NONE)
		return *slot;
	r = add_ring(o->s);
	if (!r)
		return NONE;
	*r = (struct evset_ring){
		.fd = fd,
		.aux_event = e->aux ? (int)at->event : -1,
		.backward = e->attr.write_backward,
		.cpu = o->t->cpus[at->cpu],
		.tid = o->t->per_thread ? o->t->tids[at->tid] : -1,
	};
	*slot = (uint32_t)(o->s->n_rings - 1);
	main_slot = &o->ring_of[main_row * o->n_columns + column];
	if (*main_slot == NONE && !r->backward)
		*main_slot = *slot;
	return *slot;
}

/* Adds an open fd, which the set owns from here on, and finds its ring. */
static int add_fd(struct opening *o, const struct spot *at, int fd)
{
	struct evset *s = o->s;
	struct evset_fd *f;

	if (array_grow(&s->fds, s->n_fds, &s->cap_fds, sizeof(*f))) {
		close(fd);
		return -AUX_E_NOMEM;
	}
	f = &s->fds[s->n_fds++];
	*f = (struct evset_fd){
		.fd = fd,
		.event = (uint32_t)at->event,
		.cpu = o->t->cpus[at->cpu],
		.tid = at->wide ? -1 : o->t->tids[at->tid],
	};
	*fd_slot(o, at, at->event) = (uint32_t)(o->s->n_fds - 1);
	if (ioctl(fd, PERF_EVENT_IOC_ID, &f->id))
		return diag_set(o->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"this kernel does not tell the ids of events "
				"(%s): Linux 3.12 or later is needed",
				strerror(errno));
	f->ring = choose_ring(o, at, fd);
	return f->ring == NONE ? -AUX_E_NOMEM : 0;
}

static bool pmu_has_cpu(const struct pmu *pmu, int cpu)
{
	size_t i;

	if (!pmu || !pmu->cpus || cpu < 0)
		return true;
	for (i = 0; i < pmu->n_cpus; i++)
		if (pmu->cpus[i] == cpu)
			return true;
	return false;
}

/* 1: opened, 0: skipped, or an error. */
static int open_spot(struct opening *o, const struct spot *at, bool first)
{
	const struct evlist_event *e = &o->l->events[at->event];
	int cpu = o->t->cpus[at->cpu], fd, ret;

	if (!pmu_has_cpu(e->pmu, cpu)) {
		o->s->cpuless++;
		return 0;
	}
	fd = open_fd(o, at, first);
	if (fd == -ESRCH && !at->wide && o->t->tids[at->tid] > 0) {
		o->s->gone++;
		return 0;
	}
	if (fd == -ENODEV && cpu >= 0) {
		o->s->cpuless++;
		return 0;
	}
	if (fd < 0)
		return explain_open(e->name, &e->attr, cpu,
				    at->wide ? -1 : o->t->tids[at->tid], -fd,
				    &o->sys, o->diag);
	ret = add_fd(o, at, fd);
	return ret ? ret : 1;
}

/*
 * Removes what an unprivileged side-band event cannot have, or has no use for:
 * namespaces require CAP_PERFMON at any paranoid level; text_poke is of use
 * only to who may trace the kernel. Removed up front, so that try_wide() below
 * fails only for whole-CPU permission.
 */
static void drop_privileged(const struct opening *o, struct evlist_event *e)
{
	if (!e->sideband || o->sys.cap_perfmon || o->sys.cap_admin)
		return;
	e->attr.namespaces = 0;
	if (o->sys.paranoid > 1)
		e->attr.text_poke = 0;
}

/* Whether an any_task event may be opened with pid -1: probed on one CPU. Needs
 * paranoid <= 0 or CAP_PERFMON; else it is opened on the target's own tasks. */
static bool try_wide(struct opening *o, size_t event)
{
	const struct evlist_event *e = &o->l->events[event];
	struct spot at = { .event = event, .wide = true };
	int fd = -1;

	if (!e->any_task || o->t->per_thread)
		return false;
	for (; at.cpu < o->t->n_cpus; at.cpu++) {
		if (!pmu_has_cpu(e->pmu, o->t->cpus[at.cpu]))
			continue;
		fd = (int)syscall(SYS_perf_event_open, &e->attr, -1,
				  o->t->cpus[at.cpu], -1,
				  (unsigned long)PERF_FLAG_FD_CLOEXEC);
		if (fd >= 0 || (errno != ENODEV && errno != EINTR))
			break;
	}
	if (fd >= 0)
		close(fd);
	/* Any other error will be met, and explained, when it is opened. */
	return fd >= 0 || (errno != EACCES && errno != EPERM);
}

/* When the event starts: with the child's exec (enable_on_exec works only for
 * an event on that task), when evset_enable is called, or at once (immediate).
 * A wide event beside a child starts at once, since exec cannot enable it. */
static void set_start(struct opening *o, struct evlist_event *e, bool wide)
{
	bool of_child = o->t->starts_at_exec && !wide;

	if (e->held) {
		e->attr.disabled = 1;
		e->attr.enable_on_exec = 0;
		return;
	}
	e->attr.disabled = !e->immediate && (!o->t->starts_at_exec || of_child);
	e->attr.enable_on_exec = e->attr.disabled && of_child;
}

static int none_opened(struct opening *o, const struct evlist_event *e)
{
	if (o->s->gone)
		return diag_set(o->diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"all threads that were to be recorded ended "
				"before their events were open");
	return diag_set(o->diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"%.100s: none of the CPUs to be recorded has this PMU "
			"(see its file cpumask or cpus in "
			"/sys/bus/event_source/devices) or is online: choose "
			"others with -C", e->name ? e->name : "event");
}

static int open_event(struct opening *o, size_t event)
{
	struct evlist_event *e = &o->l->events[event];
	struct spot at = { .event = event };
	size_t n_tids, n = 0;
	int ret;

	drop_privileged(o, e);
	at.wide = try_wide(o, event);
	n_tids = at.wide ? 1 : o->t->n_tids;
	set_start(o, e, at.wide);
	for (at.cpu = 0; at.cpu < o->t->n_cpus; at.cpu++)
		for (at.tid = 0; at.tid < n_tids; at.tid++) {
			ret = open_spot(o, &at, !n);
			if (ret < 0)
				return ret;
			n += (size_t)ret;
		}
	if (!n)
		return none_opened(o, e);
	if (e->attr.context_switch && (at.wide || o->t->system_wide))
		o->s->cpu_wide_switch = true;
	return 0;
}

/* Opens leaders before their members, whose group_fd they are. */
static int open_all(struct opening *o)
{
	bool *done = calloc(o->l->n, sizeof(*done));
	size_t i, leader;
	int ret = done ? 0 : -AUX_E_NOMEM;

	for (i = 0; !ret && i < o->l->n; i++) {
		leader = o->l->events[i].leader;
		if (!done[leader])
			ret = open_event(o, leader);
		done[leader] = true;
		if (!ret && !done[i])
			ret = open_event(o, i);
		done[i] = true;
	}
	free(done);
	return ret;
}

/* a * b * c entries, all NONE. */
static uint32_t *alloc_none(size_t a, size_t b, size_t c)
{
	uint32_t *p = NULL;
	size_t n;

	if (!__builtin_mul_overflow(a, b, &n) &&
	    !__builtin_mul_overflow(n, c, &n))
		p = reallocarray(NULL, n ? n : 1, sizeof(*p));
	if (p)
		memset(p, 0xff, n * sizeof(*p));
	return p;
}

int evset_open(struct evset *s, struct evlist *l, const struct target *t,
	       struct aux_diag *diag)
{
	struct opening o = { .s = s, .l = l, .t = t, .diag = diag };
	int ret = -AUX_E_NOMEM;

	memset(s, 0, sizeof(*s));
	explain_system(&o.sys);
	raise_nofile(fds_wanted(&o));
	o.n_columns = t->per_thread ? t->n_tids : t->n_cpus;
	o.fd_of = alloc_none(l->n, t->n_cpus, t->n_tids);
	o.ring_of = alloc_none(l->n + 2, o.n_columns, 1);
	if (o.fd_of && o.ring_of)
		ret = open_all(&o);
	if (ret == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	free(o.fd_of);
	free(o.ring_of);
	if (ret)
		evset_close(s);
	return ret;
}
