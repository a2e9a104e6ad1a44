/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A set of open events: into rings, filtered, on and off. Opening is in
 * evset_open.c.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/auxpmu.h"
#include "capture/event/evset.h"

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

/* From the last to the first: side-band runs before the trace begins. */
int evset_enable(struct evset *s, struct aux_diag *diag)
{
	int ret, first = 0;
	size_t i;

	for (i = s->n_fds; i-- > 0;) {
		ret = switch_fd(&s->fds[i], true);
		if (ret && !first)
			first = ret;
	}
	return first ? explain_switch(first, true, diag) : 0;
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

static int aux_on(struct evset *s, const struct evlist *l, uint32_t ring,
		  bool off_first)
{
	const struct evset_fd *f;
	int first = 0;
	size_t i;

	for (i = 0; i < s->n_fds; i++) {
		f = &s->fds[i];
		if (f->ring != ring || !l->events[f->event].aux)
			continue;
		if (((off_first && switch_fd(f, false)) ||
		     switch_fd(f, true)) && !first)
			first = -AUX_E_IO;
	}
	return first;
}

int evset_aux_restart(struct evset *s, const struct evlist *l, uint32_t ring)
{
	return aux_on(s, l, ring, true);
}

int evset_aux_resume(struct evset *s, const struct evlist *l, uint32_t ring)
{
	return aux_on(s, l, ring, false);
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

/* One event's, out of what read(2) gives: value, id, lost; of a group their
 * number first, then these of each member. */
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

void evset_close(struct evset *s)
{
	size_t i;

	for (i = 0; i < s->n_fds; i++)
		close(s->fds[i].fd);
	free(s->fds);
	free(s->rings);
	s->fds = NULL;
	s->rings = NULL;
	s->n_fds = s->n_rings = 0;
}
