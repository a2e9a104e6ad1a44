/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist: the attrs. Every record gets the trailer of EVLIST_SAMPLE_TYPE, so a
 * reader finds its event without knowing which one wrote it.
 *
 * Specification: perf_event_open(2); what perf record 6.1 asks for.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/auxpmu.h"
#include "capture/event/evlist_impl.h"

#define DEFAULT_FREQ 4000
/* A sample's size is 16 bits, and it holds more than trace. */
#define MAX_AUX_SAMPLE (60 * 1024)

const char *const evlist_words[] = { "period", "freq", "name", "aux-output",
				     "aux-sample-size", "aux-action", NULL };
const char *const evlist_aux_words[] = { "name", "aux-action", NULL };

/* The u32 before sig_data; a union since Linux 6.13. */
#define AUX_ACTION_AT (offsetof(struct perf_event_attr, sig_data) - 4)

uint32_t evlist_aux_action(const struct perf_event_attr *attr)
{
	uint32_t bits;

	memcpy(&bits, (const char *)attr + AUX_ACTION_AT, sizeof(bits));
	return bits;
}

static void set_aux_action(struct perf_event_attr *attr, uint32_t bits)
{
	memcpy((char *)attr + AUX_ACTION_AT, &bits, sizeof(bits));
}

/* Guests are left out where the PMU can tell them from the host; others
 * refuse to be asked. */
static bool knows_guests(const struct evlist_event *ev)
{
	if (ev->pmu)
		return !strncmp(ev->pmu->name, "cpu", 3) ||
		       !strcmp(ev->pmu->name, "intel_pt");
	return ev->attr.type == PERF_TYPE_HARDWARE ||
	       ev->attr.type == PERF_TYPE_HW_CACHE ||
	       ev->attr.type == PERF_TYPE_RAW;
}

static uint64_t most_precise(const struct evlist_options *o)
{
	uint64_t max = 0;
	struct pmu *pmu;

	if (!pmu_open(&pmu, o->sysfs ? o->sysfs : PMU_SYSFS, "cpu", NULL)) {
		max = pmu_cap(pmu, "max_precise", 0);
		pmu_close(pmu);
	}
	return max > 3 ? 3 : max;
}

void evlist_attr_common(struct evlist_event *ev, const struct evlist_options *o)
{
	struct perf_event_attr *a = &ev->attr;
	const struct event_spec *s = &ev->spec;

	a->size = sizeof(*a);
	a->sample_type = EVLIST_SAMPLE_TYPE;
	a->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
	a->sample_id_all = 1;
	a->disabled = 1;
	a->inherit = !o->per_thread && !o->system_wide;
	a->exclude_user = !s->user;
	a->exclude_kernel = !s->kernel;
	a->exclude_hv = !s->hypervisor;
	a->exclude_idle = s->no_idle;
	a->exclude_guest = s->guest || s->host ? !s->guest : knows_guests(ev);
	a->exclude_host = (s->guest || s->host) && !s->host;
	a->precise_ip = s->precise & 3;
	if (s->precise_max)
		a->precise_ip = most_precise(o) & 3;
	a->pinned = s->pinned;
	a->exclusive = s->exclusive;
}

static uint64_t max_freq(void)
{
	char text[32];
	int fd = open("/proc/sys/kernel/perf_event_max_sample_rate",
		      O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return UINT64_MAX;
	text[n] = '\0';
	return strtoull(text, NULL, 10);
}

static int use_freq(struct evlist_event *ev, uint64_t freq,
		    struct aux_diag *diag)
{
	uint64_t max = max_freq();

	if (!freq || freq > max)
		return event_refuse(diag, &ev->spec, "a frequency of %llu Hz "
				    "is not possible; legal: 1 to %llu "
				    "(sysctl kernel.perf_event_max_sample_rate)",
				    (unsigned long long)freq,
				    (unsigned long long)max);
	ev->attr.freq = 1;
	ev->attr.sample_freq = freq;
	ev->attr.sample_type |= PERF_SAMPLE_PERIOD;
	return 0;
}

static void use_period(struct evlist_event *ev, uint64_t period)
{
	ev->attr.freq = 0;
	ev->attr.sample_period = period;
}

int evlist_attr_sampling(struct evlist_event *ev,
			 const struct evlist_options *o, struct aux_diag *diag)
{
	struct perf_event_attr *a = &ev->attr;
	bool each = a->type == PERF_TYPE_TRACEPOINT ||
		    (a->type == PERF_TYPE_SOFTWARE &&
		     (a->config == PERF_COUNT_SW_DUMMY ||
		      a->config == PERF_COUNT_SW_BPF_OUTPUT));
	uint64_t max;

	if (a->type == PERF_TYPE_TRACEPOINT || each)
		a->sample_type |= PERF_SAMPLE_PERIOD;
	if (a->type == PERF_TYPE_TRACEPOINT ||
	    (each && a->config == PERF_COUNT_SW_BPF_OUTPUT))
		a->sample_type |= PERF_SAMPLE_RAW;
	if (o->callgraph)
		a->sample_type |= PERF_SAMPLE_CALLCHAIN;
	a->write_backward = o->overwrite;
	if (o->period)
		use_period(ev, o->period);
	else if (each)
		use_period(ev, 1);
	else if (o->freq)
		return use_freq(ev, o->freq, diag);
	else
		return max = max_freq(), use_freq(ev, max < DEFAULT_FREQ ?
						  max : DEFAULT_FREQ, diag);
	return 0;
}

static int take_action(struct evlist_event *ev, const char *value,
		       struct aux_diag *diag)
{
	static const struct {
		const char *name;
		uint32_t bits;
	} actions[] = {
		{ "start-paused", EVLIST_START_PAUSED },
		{ "pause", EVLIST_PAUSE },
		{ "resume", EVLIST_RESUME },
	};
	size_t i;

	for (i = 0; value && i < 3; i++) {
		if (strcmp(value, actions[i].name) || !ev->aux != !!i)
			continue;
		set_aux_action(&ev->attr, actions[i].bits);
		return 0;
	}
	return event_refuse(diag, &ev->spec, "aux-action=%.40s is not possible; "
			    "legal: %s", value ? value : "",
			    ev->aux ? "start-paused" :
				      "pause, resume (start-paused is for the "
				      "event that has the AUX area)");
}

static int take_sample_size(struct evlist_event *ev, uint64_t v,
			    struct aux_diag *diag)
{
	if (v > MAX_AUX_SAMPLE || v % 8)
		return event_refuse(diag, &ev->spec, "aux-sample-size=%llu is "
				    "not possible; legal: 0 to %d, a multiple "
				    "of 8", (unsigned long long)v,
				    MAX_AUX_SAMPLE);
	ev->attr.aux_sample_size = (uint32_t)v;
	if (v)
		ev->attr.sample_type |= PERF_SAMPLE_AUX;
	return 0;
}

static int take_term(struct evlist_event *ev, const struct event_term *t,
		     struct aux_diag *diag)
{
	uint64_t v;

	if (!strcmp(t->name, "name")) {
		free(ev->name);
		ev->name = strdup(t->value ? t->value : "");
		return ev->name ? 0 : diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					       "out of memory");
	}
	if (!strcmp(t->name, "aux-action"))
		return take_action(ev, t->value, diag);
	if (!event_number(t->value, &v) ||
	    (strcmp(t->name, "aux-output") && !t->value))
		return event_refuse(diag, &ev->spec, "%s takes a number",
				    t->name);
	if (!strcmp(t->name, "freq"))
		return use_freq(ev, v, diag);
	if (!strcmp(t->name, "aux-sample-size"))
		return take_sample_size(ev, v, diag);
	if (!strcmp(t->name, "aux-output")) {
		ev->attr.aux_output = v & 1;
		return 0;
	}
	if (!v || v > INT64_MAX)
		return event_refuse(diag, &ev->spec, "period=%.40s is not "
				    "possible; legal: 1 and more", t->value);
	use_period(ev, v);
	return 0;
}

int evlist_attr_terms(struct evlist_event *ev, struct aux_diag *diag)
{
	const char *const *words = ev->aux ? evlist_aux_words : evlist_words;
	size_t i, k;
	int ret;

	for (i = 0; i < ev->spec.n_terms; i++) {
		for (k = 0; words[k]; k++)
			if (!strcmp(words[k], ev->spec.terms[i].name))
				break;
		if (!words[k])
			continue;
		ret = take_term(ev, &ev->spec.terms[i], diag);
		if (ret)
			return ret;
	}
	return 0;
}

/* The first event of the group that can sample. */
static size_t find_sampler(const struct evlist *l, size_t leader)
{
	size_t i;

	for (i = leader; i < l->n; i++)
		if (l->events[i].leader == leader && !l->events[i].aux)
			return i;
	return leader;
}

/*
 * S: one event samples, and each of its samples reads the whole group. Reads
 * and inheritance exclude each other in the kernel, for the group as a whole.
 */
static void read_group(struct evlist *l, size_t leader)
{
	size_t sampler = find_sampler(l, leader), i, n = 0;
	struct perf_event_attr *from = &l->events[sampler].attr;

	for (i = 0; i < l->n; i++)
		n += l->events[i].leader == leader;
	from->sample_type |= PERF_SAMPLE_READ;
	for (i = 0; i < l->n; i++) {
		struct perf_event_attr *a = &l->events[i].attr;

		if (l->events[i].leader != leader)
			continue;
		a->inherit = 0;
		if (l->events[i].aux)
			continue;
		if (n > 1)
			a->read_format |= PERF_FORMAT_GROUP;
		if (i == sampler)
			continue;
		a->freq = 0;
		a->sample_period = 0;
		a->write_backward = 0;
		a->sample_type = from->sample_type;
	}
}

static bool needs_aux(const struct perf_event_attr *a)
{
	return a->aux_output || a->aux_sample_size || evlist_aux_action(a);
}

static int check_member(const struct evlist *l, size_t i, struct aux_diag *diag)
{
	const struct evlist_event *ev = &l->events[i];
	const struct evlist_event *leader = &l->events[ev->leader];

	if (ev->aux && leader != ev)
		return event_refuse(diag, &ev->spec, "it has an AUX area and "
				    "must come first in its group: "
				    "{%.40s,%.40s}", ev->spec.text,
				    leader->spec.text);
	if (!ev->aux && !leader->aux && needs_aux(&ev->attr))
		return event_refuse(diag, &ev->spec, "aux-output, "
				    "aux-sample-size and aux-action need a "
				    "group that an event with an AUX area "
				    "leads: {intel_pt//u,%.40s}",
				    ev->spec.text);
	return 0;
}

/* --aux-sample, for whoever can have it and says nothing itself. */
static int spread_aux_sample(struct evlist *l, const struct evlist_options *o,
			     struct aux_diag *diag)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++) {
		struct evlist_event *ev = &l->events[i];

		if (ev->aux || !l->events[ev->leader].aux ||
		    evlist_aux_action(&ev->attr) || ev->attr.aux_output)
			continue;
		n++;
		if (!event_has(&ev->spec, "aux-sample-size") &&
		    take_sample_size(ev, o->aux_sample_size, diag))
			return -AUX_E_INVAL;
	}
	if (n)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--aux-sample needs an event whose samples carry the "
			"trace, in a group behind the one with the AUX area: "
			"-e '{intel_pt//u,branch-misses:u}'");
}

int evlist_attr_groups(struct evlist *l, const struct evlist_options *o,
		       struct aux_diag *diag)
{
	size_t i;
	int ret;

	if (o->aux_sample_size) {
		ret = spread_aux_sample(l, o, diag);
		if (ret)
			return ret;
	}
	for (i = 0; i < l->n; i++) {
		struct evlist_event *ev = &l->events[i];

		ret = check_member(l, i, diag);
		if (ret)
			return ret;
		/* The leader's state is the group's. */
		if (ev->leader != i)
			ev->attr.disabled = ev->attr.pinned =
				ev->attr.exclusive = 0;
		if (ev->spec.sample_read)
			read_group(l, ev->leader);
	}
	return 0;
}
