/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What precedes the data of a kernel recording.
 *
 * kernel_header writes what every reader needs before the first ring record:
 * attrs with their ids, feature sections, AUXTRACE_INFO and TIME_CONV, ID_INDEX
 * (which maps ids to rings for perf's auxtrace queues). kernel_describe writes
 * what existed before the events were enabled. After a rotation both run again:
 * each file stands alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/version.h"

#include "capture/event/auxpmu.h"
#include "capture/describe/describe.h"
#include "capture/record/impl.h"
#include "capture/event/evlist.h"

#define SYNTH_TIMEOUT_MS 10000

static int nomem(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static int failed(int ret, struct aux_diag *diag)
{
	return diag_set(diag, -ret, AUX_NO_OFFSET, "%s", aux_strerror(ret));
}

/* HEADER_EVENT_DESC and attrs, each event with the ids of all its file
 * descriptors: by these a reader finds the event of a record. */
static int add_attrs(const struct kernel *k, struct writer *w)
{
	const struct evset *s = &k->set;
	uint64_t *ids = malloc((s->n_fds + 1) * sizeof(*ids));
	size_t i, j;
	int ret = ids ? 0 : -AUX_E_NOMEM;

	for (i = 0; i < k->events.n && !ret; i++) {
		const struct evlist_event *ev = &k->events.events[i];
		struct perf_event_attr attr = ev->attr;
		uint32_t n = 0;

		if (ev->probe && !*ev->probe->event)
			attr.config1 = 0;	/* a pointer of ours */
		for (j = 0; j < s->n_fds; j++)
			if (s->fds[j].event == i)
				ids[n++] = s->fds[j].id;
		ret = writer_attr_add(w, &attr, ev->name, ids, n);
	}
	free(ids);
	return ret;
}

/* HEADER_GROUP_DESC: groups of two or more events. */
static int add_groups(const struct kernel *k, struct writer *w)
{
	const struct evlist *l = &k->events;
	struct features_group *g = calloc(l->n + 1, sizeof(*g));
	uint32_t n = 0;
	size_t i, j;
	int ret;

	if (!g)
		return -AUX_E_NOMEM;
	for (i = 0; i < l->n; i++) {
		if (l->events[i].leader != i)
			continue;
		g[n].leader = (uint32_t)i;
		for (j = i; j < l->n; j++)
			g[n].n_members += l->events[j].leader == i;
		n += g[n].n_members > 1;
		g[n].n_members = 0;
	}
	ret = features_groups(w, g, n);
	free(g);
	return ret;
}

/* PERF_RECORD_ID_INDEX; idx is the ring, as in AUXTRACE.idx. */
static int add_id_index(const struct kernel *k, struct writer *w)
{
	const struct evset *s = &k->set;
	struct aux_rec_id_index_entry *e = calloc(s->n_fds + 1, sizeof(*e));
	size_t i;
	int ret;

	if (!e)
		return -AUX_E_NOMEM;
	for (i = 0; i < s->n_fds; i++) {
		e[i].id = s->fds[i].id;
		e[i].idx = s->fds[i].ring;
		e[i].cpu = (uint64_t)(int64_t)s->fds[i].cpu;
		e[i].tid = (uint64_t)(int64_t)s->fds[i].tid;
	}
	ret = synth_id_index(w, e, s->n_fds);
	free(e);
	return ret;
}

/* HEADER_PMU_MAPPINGS: attr.type of each PMU that sysfs lists. */
static int add_pmus(struct writer *w)
{
	struct features_pmu *pmus = NULL;
	char **names = NULL;
	int n = pmu_list(PMU_SYSFS, &names, NULL), i, ret = 0;
	uint32_t used = 0;

	if (n > 0 && !(pmus = calloc((size_t)n, sizeof(*pmus))))
		ret = -AUX_E_NOMEM;
	if (n == -AUX_E_NOMEM)
		ret = n;
	for (i = 0; i < n && !ret; i++) {
		struct pmu *pmu;
		int err = pmu_open(&pmu, PMU_SYSFS, names[i], NULL);

		if (err == -AUX_E_NOMEM)
			ret = err;
		if (err)
			continue;
		pmus[used].type = pmu->type;
		pmus[used++].name = names[i];
		pmu_close(pmu);
	}
	if (used && !ret)
		ret = features_pmu_mappings(w, pmus, used);
	for (i = 0; i < n; i++)
		free(names[i]);
	free(names);
	free(pmus);
	return ret;
}

/* Our own feature: what recorded this file, as KEY=VALUE lines. */
static int add_source(const struct kernel *k, struct writer *w)
{
	char text[512];
	size_t i, used;

	used = (size_t)snprintf(text, sizeof(text),
		"source=kernel\nclock=hardware\ntool=auxcap " AUXKIT_VERSION
		"\nmode=%s\n", k->o->snapshot ? "snapshot" :
		k->events.n_aux ? "full" : "samples");
	for (i = 0; i < k->events.n_aux && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "pmu.%zu=%.64s\n", i,
					 k->events.events[i].pmu->name);
	return features_source(w, text);
}

/* The names as tracefs has them: an event's own name may be set by name=, or
 * carry modifiers. The caller frees names[0..*n), also on error. */
static int tracepoint_names(const struct kernel *k, char **names, size_t *n)
{
	size_t i;

	for (i = 0; i < k->events.n; i++) {
		const struct event_spec *s = &k->events.events[i].spec;

		if (k->events.events[i].attr.type != PERF_TYPE_TRACEPOINT)
			continue;
		if (asprintf(&names[*n], "%s:%s", s->pmu, s->tracepoint) < 0)
			return -AUX_E_NOMEM;
		++*n;
	}
	return 0;
}

/* HEADER_TRACING_DATA: the formats of the tracepoints, for perf script. */
static int add_tracing_data(const struct kernel *k, struct writer *w,
			    struct aux_diag *diag)
{
	size_t n = 0, len = 0;
	void *data = NULL;
	char **names;
	int ret;

	if (!k->events.uses_tracepoints)
		return 0;
	names = calloc(k->events.n, sizeof(*names));
	if (!names || tracepoint_names(k, names, &n))
		ret = nomem(diag);
	else
		ret = tracing_data(tracing_root(), (const char *const *)names,
				   n, &data, &len, diag);
	while (n)
		free(names[--n]);
	free(names);
	if (ret)
		return ret;
	ret = writer_feature(w, AUX_FEAT_TRACING_DATA, data, len);
	free(data);
	return ret ? failed(ret, diag) : 0;
}

/* Whether any event asks for context switches. */
static bool records_switches(const struct kernel *k)
{
	size_t i;

	for (i = 0; i < k->events.n; i++)
		if (k->events.events[i].attr.context_switch)
			return true;
	return false;
}

/* AUXTRACE_INFO of the first AUX event; evlist puts these first. Per thread the
 * event may run on any CPU, so its metadata (CoreSight) name all that are
 * online. */
static int add_trace_info(const struct kernel *k, struct writer *w,
			  struct aux_diag *diag)
{
	const struct evlist_event *ev = &k->events.events[0];
	struct auxpmu_env env = {
		.page = k->rings[0].page,
		.snapshot = k->o->snapshot,
		.per_thread = k->target.per_thread,
		.system_wide = k->target.system_wide,
		.cpu_wide_switch = k->set.cpu_wide_switch,
		.switch_records = records_switches(k),
		.filter = ev->filter,
	};
	int *online = NULL;
	int ret;

	if (!k->events.n_aux)
		return 0;
	env.cpus = k->target.cpus;
	env.n_cpus = k->target.n_cpus;
	if (k->target.per_thread) {
		ret = target_cpus_online(&online, &env.n_cpus, diag);
		if (ret)
			return ret;
		env.cpus = online;
	}
	ret = ev->aux->info(ev, &env, w, diag);
	free(online);
	return ret;
}

/* Whether any event, side-band apart, includes the kernel. */
static bool records_kernel(const struct kernel *k)
{
	size_t i;

	for (i = 0; i < k->events.n; i++)
		if (!k->events.events[i].sideband &&
		    !k->events.events[i].attr.exclude_kernel)
			return true;
	return false;
}

/* The program before its exec still bears our name; all that follows, from its
 * exec on, the kernel records. */
static int describe_child(const struct kernel *k, struct writer *w,
			  const struct synth_id *id)
{
	uint32_t pid = (uint32_t)k->target.child;

	return synth_comm(w, id, pid, pid, "auxcap", false);
}

/*
 * Synthesizes processes and the kernel. Before the exec of our own program
 * there is nothing to say of it but its name; afterwards (again) its maps must
 * be read from /proc, since the kernel's records of them are in the previous
 * file, and so must those of every process that the targets have forked.
 */
static int describe_existing(struct kernel *k, struct writer *w, bool again,
			     struct aux_diag *diag)
{
	const struct evset *s = &k->set;
	struct synth_proc_options o = {
		.tids = k->target.tids,
		.n_tids = k->target.n_tids,
		.since = again ? k->opened : 0,
		.kernel = records_kernel(k),
		.build_ids = k->events.events[k->events.sideband].attr.build_id,
		.timeout_ms = SYNTH_TIMEOUT_MS,
		.save = k->save,
	};
	struct synth_proc_result r = { 0 };
	size_t i;
	int ret;

	o.id.cpu = UINT32_MAX;
	for (i = 0; i < s->n_fds; i++)
		if (s->fds[i].event == k->events.sideband)
			break;
	o.id.id = i < s->n_fds ? s->fds[i].id : 0;
	if (k->target.system_wide)
		o.n_tids = 0, o.tids = NULL;
	else if (k->target.traces_child && !again)
		o.n_tids = 0;	/* only the kernel's maps */
	ret = synth_proc(w, &o, &r, diag);
	/* Of the whole machine some may belong to others, and need not run:
	 * that is told. Of what was asked for by name it is a loss. */
	k->result->n_unreadable = r.n_unreadable;
	if (r.n_unreadable && (o.tids || r.timed_out))
		ledger_add(k->ledger, LEDGER_NO_STREAM, AUX_LEDGER_UNDESCRIBED,
			   r.n_unreadable, 0, 0);
	k->result->kernel_hidden = r.kernel_hidden && records_kernel(k);
	if (!ret && k->target.traces_child && !again)
		ret = describe_child(k, w, &o.id);
	if (!ret && k->o->kcore && o.kernel)
		ret = codesave_kernel(NULL, w, &k->result->n_kernel_unsaved);
	return ret;
}

int kernel_header(struct kernel *k, struct writer *w, struct aux_diag *diag)
{
	int ret = features_host(w, k->job->argc, k->job->args);

	if (!ret)
		ret = features_topology(w);
	if (!ret)
		ret = add_attrs(k, w);
	if (!ret)
		ret = add_groups(k, w);
	if (!ret)
		ret = add_pmus(w);
	if (!ret)
		ret = add_source(k, w);
	if (ret)
		return failed(ret, diag);
	ret = add_tracing_data(k, w, diag);
	if (!ret)
		ret = add_trace_info(k, w, diag);
	if (ret)
		return ret;
	ret = add_id_index(k, w);
	return ret ? failed(ret, diag) : 0;
}

int kernel_describe(struct kernel *k, struct writer *w, bool again,
		    struct aux_diag *diag)
{
	int ret = 0;

	if (!k->o->no_synth)
		ret = describe_existing(k, w, again, diag);
	if (ret)
		return ret;
	ret = synth_finished_init(w);
	return ret ? failed(ret, diag) : 0;
}
