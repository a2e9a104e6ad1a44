/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist: the side-band, dummy events that count nothing and carry what a
 * decoder must know: which code was mapped where, and who ran when.
 *
 * They are none of the AUX event's, so they go on while it is stopped for a
 * snapshot. exclude_kernel lets users without privilege open them; it does not
 * change what they report.
 */
#include <string.h>
#include <stdlib.h>

#include "common/diag.h"

#include "capture/event/evlist_impl.h"

static struct evlist_event *add_dummy(struct evlist *l,
				      const struct evlist_options *o,
				      struct aux_diag *diag)
{
	struct evlist_event *ev = evlist_event_add(l);

	if (!ev || event_parse(&ev->spec, "dummy:u", diag))
		return NULL;
	ev->attr.type = PERF_TYPE_SOFTWARE;
	ev->attr.config = PERF_COUNT_SW_DUMMY;
	ev->name = strdup("dummy:u");
	if (!ev->name)
		return NULL;
	evlist_attr_common(ev, o);
	ev->attr.exclude_hv = 1;
	ev->attr.sample_period = 1;
	ev->attr.disabled = 0;
	ev->sideband = true;
	ev->immediate = true;
	return ev;
}

/* Code of the kernel changes while it runs: modules, bpf, jump labels. */
static bool sees_kernel(const struct evlist *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (!l->events[i].attr.exclude_kernel)
			return true;
	return false;
}

int evlist_sideband_add(struct evlist *l, const struct evlist_options *o,
			struct aux_diag *diag)
{
	bool kernel = sees_kernel(l);
	bool by_cpu = l->n_aux && !o->per_thread;
	bool alone = by_cpu && !o->system_wide;
	struct evlist_event *ev = add_dummy(l, o, diag);
	struct perf_event_attr *a;

	if (!ev)
		goto fail;
	l->sideband = l->n - 1;
	a = &ev->attr;
	a->mmap = a->mmap2 = a->comm = a->comm_exec = a->task = 1;
	a->build_id = 1;
	a->ksymbol = a->bpf_event = kernel;
	a->text_poke = kernel && l->n_aux;
	a->context_switch = by_cpu && !alone;
	if (!alone)
		return 0;
	/*
	 * Trace of tasks by CPU: every switch on that CPU, if we may see them,
	 * tells for each byte whose it is. One event has them, never two:
	 * perf stops at a SWITCH where it was promised SWITCH_CPU_WIDE.
	 */
	ev = add_dummy(l, o, diag);
	if (!ev)
		goto fail;
	ev->attr.context_switch = 1;
	ev->any_task = true;
	return 0;
fail:
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}
