/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist: parses -e into events, and fills their attrs.
 *
 * Invariant: events with an AUX area come first, leaders before their groups,
 * the side-band last; whatever cannot be honoured is refused. AUX events must
 * lead: the kernel requires it of a group whose members use aux_output,
 * aux_sample_size or aux_action (perf_get_aux_event()), and AUXTRACE_INFO
 * describes the first event.
 *
 * In order: the attrs, groups, parsing, the side-band, evlist_open.
 *
 * Specification: perf-record(1) on -e and --filter; perf_event_open(2); what
 * perf record 6.1 sets (evsel__config()).
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/event/auxpmu.h"
#include "capture/event/evlist.h"
#include "capture/event/impl.h"
#include "capture/event/probe.h"
#include "common/options.h"
#include "common/array.h"
#include "common/diag.h"

/*
 * sample_type of every attr. With sample_id_all every record ends with the same
 * trailer, and IDENTIFIER has a fixed place in it: a reader finds a record's
 * event without knowing it beforehand.
 */
#define SAMPLE_TYPE                                                       \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

#define DEFAULT_FREQ 4000	/* perf record's */
/* A record's size has 16 bits, and a sample holds more than the trace: perf
 * record has the same limit (MAX_AUX_SAMPLE_SIZE,
 * tools/perf/util/auxtrace.c). */
#define MAX_AUX_SAMPLE (60 * 1024)

/* Terms of any event that are not the PMU's. */
static const char *const evlist_words[] = { "period", "freq", "name", "aux-output",
					    "aux-sample-size", "aux-action", NULL };
const char *const evlist_aux_words[] = { "name", "aux-action", NULL };

/* The u32 before sig_data: __reserved_3, since Linux 6.13 a union with
 * aux_action. By offset, so that older headers build the same program. */
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

/* Whether the PMU takes exclude_guest. perf sets it by default; PMUs that
 * cannot tell a guest from the host refuse it (PERF_PMU_CAP_NO_EXCLUDE). */
static bool knows_guests(const struct evlist_event *ev)
{
	if (ev->pmu)
		return !strncmp(ev->pmu->name, "cpu", 3) ||
		       !strcmp(ev->pmu->name, "intel_pt");
	return ev->attr.type == PERF_TYPE_HARDWARE ||
	       ev->attr.type == PERF_TYPE_HW_CACHE ||
	       ev->attr.type == PERF_TYPE_RAW;
}

/* The modifier P: the highest precise_ip of this CPU (caps/max_precise). */
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

/*
 * Sets what all events have in common: ids, inheritance, levels from the
 * modifiers. type and config are set already. inherit follows a process and its
 * threads; it cannot be mapped per thread (perf_mmap() refuses inherit with cpu
 * -1) and is pointless system wide.
 */
static void set_common(struct evlist_event *ev,
			       const struct evlist_options *o)
{
	struct perf_event_attr *a = &ev->attr;
	const struct event_spec *s = &ev->spec;

	a->size = sizeof(*a);
	a->sample_type = SAMPLE_TYPE;
	a->read_format = PERF_FORMAT_ID | PERF_FORMAT_LOST;
	a->sample_id_all = 1;
	a->disabled = 1;
	a->inherit = !o->per_thread && !o->system_wide;
	a->exclude_user = !s->user || o->all_kernel;
	a->exclude_kernel = !s->kernel || o->all_user;
	a->exclude_hv = !s->hypervisor || o->all_user;
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

/*
 * Sampling of an event without an AUX area: by period, or by frequency, which
 * needs PERIOD in each sample, or one sample for each occurrence (tracepoints
 * and software events that count nothing). Tracepoints bring their payload
 * (RAW).
 */
static int set_sampling(struct evlist_event *ev,
				const struct evlist_options *o,
				struct aux_diag *diag)
{
	struct perf_event_attr *a = &ev->attr;
	bool each = a->type == PERF_TYPE_TRACEPOINT || a->type == PERF_TYPE_BREAKPOINT ||
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

/* aux-action=: start-paused is for the AUX event, pause and resume for members
 * of its group, whose samples pause and resume it (Linux 6.13). */
static int parse_action(struct evlist_event *ev, const char *value,
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

/* aux_sample_size: each sample carries so much trace. The kernel wants
 * multiples of 8, as of any field of a record. */
static int set_sample_size(struct evlist_event *ev, uint64_t v,
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

static int parse_term(struct evlist_event *ev, const struct event_term *t,
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
		return parse_action(ev, t->value, diag);
	if (!event_number(t->value, &v) ||
	    (strcmp(t->name, "aux-output") && !t->value))
		return event_refuse(diag, &ev->spec, "%s takes a number",
				    t->name);
	if (!strcmp(t->name, "freq"))
		return use_freq(ev, v, diag);
	if (!strcmp(t->name, "aux-sample-size"))
		return set_sample_size(ev, v, diag);
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

/* The terms that any event may have; the PMU's own are pmu_config's. */
static int set_terms(struct evlist_event *ev, struct aux_diag *diag)
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
		ret = parse_term(ev, &ev->spec.terms[i], diag);
		if (ret)
			return ret;
	}
	return 0;
}

/* The first event of the group that can sample: an AUX event cannot. */
static size_t find_sampler(const struct evlist *l, size_t leader)
{
	size_t i;

	for (i = leader; i < l->n; i++)
		if (l->events[i].leader == leader && !l->events[i].aux)
			return i;
	return leader;
}

/*
 * The modifier S: one event samples, and each of its samples reads the counts
 * of the whole group (PERF_SAMPLE_READ). Many kernels refuse that together with
 * inherit, so the whole group loses it. The others only count.
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

/* The kernel's perf_get_aux_event() would answer EINVAL; this names the
 * cause. */
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

/* --aux-sample: for every member of an AUX event's group that samples and has
 * no aux-sample-size of its own. */
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
		    set_sample_size(ev, o->aux_sample_size, diag))
			return -AUX_E_INVAL;
	}
	if (n)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--aux-sample needs an event whose samples carry the "
			"trace, in a group after the one with the AUX area: "
			"-e '{intel_pt//u,branch-misses:u}'");
}

/* As perf: what needs an AUX event of its group and is in none joins the last one
 * before it. */
static void join_aux(struct evlist *l)
{
	size_t i, j, aux = SIZE_MAX;

	for (i = 0; i < l->n; i++) {
		struct evlist_event *ev = &l->events[i];

		if (ev->aux)
			aux = ev->leader == i ? i : SIZE_MAX;
		if (ev->aux || ev->leader != i || aux == SIZE_MAX ||
		    !needs_aux(&ev->attr))
			continue;
		for (j = i + 1; j < l->n && l->events[j].leader != i; j++)
			;
		if (j == l->n)
			ev->leader = aux;
	}
}

/* Settles what depends on the whole group, after all events have been added. */
static int set_groups(struct evlist *l, const struct evlist_options *o,
			      struct aux_diag *diag)
{
	size_t i;
	int ret;

	join_aux(l);
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
		/* Members run with their leader, and the kernel refuses these
		 * bits in a member. */
		if (ev->leader != i)
			ev->attr.disabled = ev->attr.pinned =
				ev->attr.exclusive = 0;
		if (ev->spec.sample_read)
			read_group(l, ev->leader);
	}
	return 0;
}

#define NO_LEADER SIZE_MAX

/* The state of evlist_open while it parses. */
struct build {
	struct evlist *l;
	const struct evlist_options *o;
	const struct evlist_word *word;	/* the -e being parsed */
	size_t leader;			/* of the current group, or NO_LEADER */
	const char *group_modifiers;	/* those after its brace; "" */
	struct aux_diag *diag;
};

static int out_of_memory(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static int bad_word(const struct build *b, const char *why)
{
	return diag_set(b->diag, AUX_E_INVAL, AUX_NO_OFFSET, "-e '%.100s': %s",
			b->word->text, why);
}

/* Appends an event, zeroed and its own leader. Moves the others. */
static struct evlist_event *append(struct evlist *l)
{
	struct evlist_event *ev;

	if (array_grow(&l->events, l->n, &l->cap, sizeof(*l->events)))
		return NULL;
	ev = &l->events[l->n];
	memset(ev, 0, sizeof(*ev));
	ev->leader = l->n++;
	return ev;
}

/* Events known by name, and tracepoints, have no terms but those of any event. */
static int check_named(struct build *b, const struct evlist_event *ev)
{
	const char *const *words;
	size_t i;

	for (i = 0; i < ev->spec.n_terms; i++) {
		for (words = evlist_words; *words; words++)
			if (!strcmp(*words, ev->spec.terms[i].name))
				break;
		if (!*words)
			return event_refuse(b->diag, &ev->spec, "no term "
					    "'%.40s'; it has: period, freq, "
					    "name, aux-output, aux-sample-size,"
					    " aux-action",
					    ev->spec.terms[i].name);
	}
	return 0;
}

static int open_tracepoint(struct build *b, struct evlist_event *ev)
{
	const char *root = b->o->tracefs ? b->o->tracefs : tracing_root();
	int64_t id;

	if (!root)
		return diag_set(b->diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"event '%.80s': tracefs is not mounted; as "
				"root: mount -t tracefs tracefs "
				"/sys/kernel/tracing", ev->spec.text);
	if (check_named(b, ev))
		return -AUX_E_INVAL;
	id = tracing_id(root, ev->spec.pmu, ev->spec.tracepoint, b->diag);
	if (id == -AUX_E_NOENT) {	/* a usage error, as in open_pmu */
		if (b->diag)
			b->diag->code = AUX_E_INVAL;
		return -AUX_E_INVAL;
	}
	if (id < 0)
		return (int)id;
	ev->attr.type = PERF_TYPE_TRACEPOINT;
	ev->attr.config = (uint64_t)id;
	b->l->uses_tracepoints = true;
	return 0;
}

const char *evlist_instead(const char *pmu)
{
	/* table */
	static const struct habit pmus[] = {
		{ "intel_pt", "-e soft_pt//u makes the same packets by software; "
			      "auxcap doctor says why this machine has none" },
		{ "cs_etm", "-e soft_etm//u makes the same packets of an aarch64 "
			    "program by software; auxcap doctor says why this "
			    "machine has none" },
		{ "cs-etm", "the event is cs_etm//u" },
		{ "intel-pt pt", "the event is intel_pt//u" },
		{ "etm coresight", "the event is cs_etm//u" },
		{ NULL, NULL },
	};

	return habit_find(pmus, pmu);
}

static int no_such_event(struct build *b, const struct evlist_event *ev,
			 const struct aux_diag *why)
{
	/* An unknown name is a usage error. */
	int code = why->code == AUX_E_NOENT ? AUX_E_INVAL : why->code;
	const char *instead = evlist_instead(ev->spec.pmu);

	if (instead && why->code == AUX_E_NOENT)
		return diag_set(b->diag, code, AUX_NO_OFFSET,
				"no PMU '%.64s' on this machine: %s",
				ev->spec.pmu, instead);
	if (ev->spec.slashes || code != AUX_E_INVAL)
		return diag_set(b->diag, code, AUX_NO_OFFSET, "%.500s",
				why->text);
	return diag_set(b->diag, code, AUX_NO_OFFSET, "no event '%.64s': not "
			"one by name (cycles, page-faults ...), and %.300s; "
			"see auxcap list", ev->spec.pmu, why->text);
}

static int open_pmu(struct build *b, struct evlist_event *ev)
{
	struct aux_diag why = { .code = AUX_E_NOENT };
	int ret;

	if (!strcmp(ev->spec.pmu, "breakpoint"))
		return event_refuse(b->diag, &ev->spec, "a breakpoint is -e mem:ADDRESS:x, of "
				    "data -e mem:ADDRESS/LENGTH:w (or rw)");
	ret = pmu_open(&ev->pmu, b->o->sysfs ? b->o->sysfs : PMU_SYSFS,
		       ev->spec.pmu, &why);
	if (ret)
		return no_such_event(b, ev, &why);
	ev->attr.type = ev->pmu->type;
	ev->aux = auxpmu_find(ev->pmu);
	if (ev->aux)
		return event_only(&ev->spec, "ukhGHDeI", b->diag);
	return pmu_config(ev->pmu, &ev->spec, evlist_words, &ev->attr, b->diag);
}

static int find_event(struct build *b, struct evlist_event *ev)
{
	uint64_t config;

	if (ev->spec.tracepoint)
		return open_tracepoint(b, ev);
	if (ev->spec.bp_type) {
		ev->attr.type = PERF_TYPE_BREAKPOINT;
		ev->attr.bp_type = ev->spec.bp_type;
		ev->attr.bp_addr = ev->spec.bp_addr;
		ev->attr.bp_len = ev->spec.bp_len;
		return 0;
	}
	if (!evlist_name_find(ev->spec.pmu, &ev->attr.type, &config))
		return open_pmu(b, ev);
	ev->attr.config = config;
	return check_named(b, ev);
}

/* Names the event as perf does: its text, then the modifiers of its group. */
static int name_event(struct build *b, struct evlist_event *ev)
{
	const char *m = b->group_modifiers;
	bool colon = *m && !ev->spec.slashes && !*ev->spec.modifiers;

	if (ev->name)
		return 0;
	return asprintf(&ev->name, "%s%s%s", ev->spec.text, colon ? ":" : "",
			m) < 0 ? (ev->name = NULL, out_of_memory(b->diag)) : 0;
}

static int set_filter(struct build *b, struct evlist_event *ev)
{
	const char *text = b->word->filter;

	if (!text)
		return 0;
	if (!ev->aux && !ev->spec.tracepoint)
		return event_refuse(b->diag, &ev->spec, "--filter is for "
				    "tracepoints and for events with an AUX "
				    "area; this is neither");
	if (ev->aux && !ev->pmu->n_addr_filters)
		return event_refuse(b->diag, &ev->spec, "%s has no address "
				    "filters here", ev->pmu->name);
	ev->filter_text = strdup(text);
	if (!ev->filter_text)
		return out_of_memory(b->diag);
	if (ev->aux)
		return addrfilter_resolve(text, ev->pmu->n_addr_filters,
					  &ev->filter, b->diag);
	ev->filter = strdup(text);
	return ev->filter ? 0 : out_of_memory(b->diag);
}

/* A group's modifiers p, P and S are meant for the members that sample. */
static void drop_sampling_modifiers(struct evlist_event *ev)
{
	ev->spec.precise = 0;
	ev->spec.precise_max = ev->spec.sample_read = false;
}

/* The stack pointer, which tells which call has returned. asm/perf_regs.h */
#if defined(__x86_64__) || defined(__i386__)
#define SP_BIT (UINT64_C(1) << 7)
#elif defined(__aarch64__)
#define SP_BIT (UINT64_C(1) << 31)
#elif defined(__arm__)
#define SP_BIT (UINT64_C(1) << 13)
#elif defined(__riscv)
#define SP_BIT (UINT64_C(1) << 2)
#else
#define SP_BIT UINT64_C(0)
#endif

static void finish_probe(struct build *b, struct evlist_event *ev)
{
	ev->attr.freq = 0;
	ev->attr.sample_period = 1;
	set_aux_action(&ev->attr, b->word->action);
	if (ev->probe->what == PROBE_MOMENT || b->word->action || !SP_BIT)
		return;
	ev->attr.sample_type |= PERF_SAMPLE_REGS_INTR;
	ev->attr.sample_regs_intr = SP_BIT;
}

static int configure(struct build *b, struct evlist_event *ev)
{
	int ret = find_event(b, ev);

	if (!ret)
		ret = event_modify(&ev->spec, b->group_modifiers, b->diag);
	if (ret)
		return ret;
	if (ev->aux)
		drop_sampling_modifiers(ev);
	set_common(ev, b->o);
	if (ev->aux) {
		/* An AUX event takes no samples; a period makes it one that
		 * records, not counts (is_sampling_event()), as perf sets
		 * it. */
		ev->attr.sample_period = 1;
		ret = ev->aux->configure(ev, b->o, b->diag);
		if (b->o->start_paused)
			set_aux_action(&ev->attr, EVLIST_START_PAUSED);
	} else {
		ret = set_sampling(ev, b->o, b->diag);
	}
	if (!ret)
		ret = set_terms(ev, b->diag);
	ev->trigger = b->word->trigger;
	ev->probe = b->word->probe;
	if (ev->probe)
		finish_probe(b, ev);
	if (ev->trigger) {	/* each one, whatever -F and -c say */
		ev->attr.freq = 0;
		ev->attr.sample_period = 1;
		/* whoever wants memory, the victim is another */
		ev->any_task = !b->o->system_wide && !strcmp(ev->spec.text, EVLIST_OOM);
	}
	if (!ret)
		ret = name_event(b, ev);
	return ret ? ret : set_filter(b, ev);
}

static int add_event(struct build *b, const char *text, size_t len)
{
	struct evlist_event *ev;
	char *copy;
	int ret;

	if (!len)
		return bad_word(b, "an event is empty");
	ev = append(b->l);
	copy = strndup(text, len);
	if (!ev || !copy) {
		free(copy);
		return out_of_memory(b->diag);
	}
	if (b->leader != NO_LEADER)
		ev->leader = b->leader;
	ret = event_parse(&ev->spec, copy, b->diag);
	free(copy);
	return ret ? ret : configure(b, ev);
}

/*
 * ---- Probes ----
 *
 * A uprobe or kprobe as perf_event_open takes it, which has no name in tracefs: config1 points
 * to the file or function, config2 is the offset. Its event cannot be inherited: the kernel
 * would read config1 again in the process that forks, where it points nowhere, and the fork
 * would fail with EFAULT (seen on Linux 6.1). So it counts whatever task runs there, and
 * who reads its samples tells whose they are.
 */

static int set_probe_config(struct build *b, struct evlist_event *ev, const struct probe *p)
{
	const struct pmu_format *ret = pmu_format_find(ev->pmu, "retprobe");
	const struct pmu_format *counter = pmu_format_find(ev->pmu, "ref_ctr_offset");

	if ((probe_is_return(p) && (!ret || pmu_format_set(ret, &ev->attr, 1))) ||
	    (p->semaphore && (!counter || pmu_format_set(counter, &ev->attr, p->semaphore))))
		return diag_set(b->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"\"%.80s\": this kernel has no %s", p->name,
				p->semaphore ? "semaphores of USDT (Linux 4.20 has)" :
					       "probes of returns");
	ev->attr.config1 = (uint64_t)(uintptr_t)p->where;
	ev->attr.config2 = p->offset;
	return 0;
}

static int add_probe(struct build *b, const struct probe *p)
{
	const char *name = p->kernel ? "kprobe" : "uprobe";
	struct evlist_event *ev = append(b->l);
	struct aux_diag why = { 0 };
	int ret;

	if (!ev || asprintf(&ev->name, "%s%s", p->name, probe_is_return(p) ?
			    " (return)" : "") < 0)
		return out_of_memory(b->diag);
	ret = event_parse(&ev->spec, p->kernel ? "kprobe//" : "uprobe//u", b->diag);
	if (ret)
		return ret;
	if (pmu_open(&ev->pmu, b->o->sysfs ? b->o->sysfs : PMU_SYSFS, name, &why))
		return diag_set(b->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"\"%.80s\": this kernel has no %ss "
				"(CONFIG_%s_EVENTS, Linux 4.17)", p->name, name,
				p->kernel ? "KPROBE" : "UPROBE");
	ev->attr.type = ev->pmu->type;
	set_common(ev, b->o);
	ev->attr.inherit = 0;
	ev->any_task = !b->o->system_wide;
	ev->trigger = b->word->trigger;
	ev->probe = p;
	finish_probe(b, ev);
	if (p->filter && !(ev->filter = strdup(p->filter)))
		return out_of_memory(b->diag);
	return set_probe_config(b, ev, p);
}

/* The length up to a comma or a brace that is not between slashes. mem:ADDRESS/LENGTH has
 * one alone. */
static size_t event_length(const char *text)
{
	bool inside = false, memory = !strncmp(text, "mem:", 4);
	size_t n;

	for (n = 0; text[n]; n++) {
		if (text[n] == '/' && !memory)
			inside = !inside;
		else if (!inside && strchr(",{}", text[n]))
			break;
	}
	return n;
}

static int add_members(struct build *b, const char *p, const char *end)
{
	int ret = 0;

	b->leader = b->l->n;
	while (!ret && p <= end) {
		size_t n = event_length(p);

		ret = add_event(b, p, n);
		p += n + 1;
	}
	b->leader = NO_LEADER;
	return ret;
}

/* Parses "{a,b}:u" and advances *p past it. */
static int add_group(struct build *b, const char **p)
{
	const char *open = *p + 1, *end = open;
	char modifiers[16];
	size_t n;
	int ret;

	for (end += event_length(end); *end == ','; end += event_length(end))
		end++;
	if (*end != '}')
		return bad_word(b, *end ? "a group within a group" :
				"'}' is missing");
	*p = end + 1;
	if (**p == ':') {
		n = strcspn(*p + 1, ",");
		if (n >= sizeof(modifiers))
			return bad_word(b, "too many modifiers after '}'");
		memcpy(modifiers, *p + 1, n);
		modifiers[n] = '\0';
		*p += n + 1;
		b->group_modifiers = modifiers;
	}
	ret = add_members(b, open, end);
	b->group_modifiers = "";
	return ret;
}

static int add_word(struct build *b)
{
	const char *p = b->word->text;
	int ret;

	if (b->word->probe && !*b->word->probe->event)
		return add_probe(b, b->word->probe);
	for (;;) {
		if (*p == '{') {
			ret = add_group(b, &p);
		} else {
			size_t n = event_length(p);

			ret = add_event(b, p, n);
			p += n;
		}
		if (ret || !*p)
			return ret;
		if (*p++ != ',')
			return bad_word(b, "a comma belongs between events, "
					"braces around a group: {a,b},c");
	}
}

/* Moves AUX events to the front, keeping the order otherwise, and renumbers
 * leaders. */
static int put_aux_first(struct evlist *l, struct aux_diag *diag)
{
	struct evlist_event *all = calloc(l->n + 1, sizeof(*all));
	size_t *moved = calloc(l->n + 1, sizeof(*moved)), i, n = 0;
	int aux;

	if (!all || !moved) {
		free(all);
		free(moved);
		return out_of_memory(diag);
	}
	for (aux = 1; aux >= 0; aux--) {
		for (i = 0; i < l->n; i++) {
			if ((l->events[i].aux != NULL) != aux)
				continue;
			moved[i] = n;
			all[n++] = l->events[i];
		}
		if (aux)
			l->n_aux = n;
	}
	for (i = 0; i < n; i++)
		all[i].leader = moved[all[i].leader];
	free(l->events);
	free(moved);
	l->events = all;
	l->cap = l->n + 1;
	return 0;
}

/*
 * The side-band: dummy events that count nothing and carry the records a
 * decoder needs: which code was mapped where, and which task ran when.
 *
 * The records could be requested of the AUX event itself, but that one is
 * disabled for snapshots and restarts, and the records made meanwhile would be
 * lost. exclude_kernel lets unprivileged users open a dummy; it does not change
 * what it reports.
 */

static struct evlist_event *add_dummy(struct evlist *l,
				      const struct evlist_options *o,
				      struct aux_diag *diag)
{
	struct evlist_event *ev = append(l);

	if (!ev || event_parse(&ev->spec, "dummy:u", diag))
		return NULL;
	ev->attr.type = PERF_TYPE_SOFTWARE;
	ev->attr.config = PERF_COUNT_SW_DUMMY;
	ev->name = strdup("dummy:u");
	if (!ev->name)
		return NULL;
	set_common(ev, o);
	ev->attr.exclude_hv = 1;
	ev->attr.sample_period = 1;
	ev->attr.disabled = 0;
	ev->sideband = true;
	ev->immediate = true;
	return ev;
}

/* Any event includes the kernel, whose code changes while it runs: modules and
 * BPF (ksymbol, bpf_event), jump labels and ftrace (text_poke). */
static bool sees_kernel(const struct evlist *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		if (!l->events[i].attr.exclude_kernel)
			return true;
	return false;
}

/* Appends the dummies: one, or two where tasks are traced by CPU. */
static int add_sideband(struct evlist *l, const struct evlist_options *o,
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
	 * Trace of tasks, in buffers per CPU: with every switch on the CPU, if
	 * we may see them, each byte can be attributed to its task. Only one
	 * event may have context_switch: perf's decoder fails on a SWITCH
	 * record where AUXTRACE_INFO promised SWITCH_CPU_WIDE.
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

int evlist_open(struct evlist *l, const struct evlist_options *o,
		struct aux_diag *diag)
{
	struct build b = { .l = l, .o = o, .leader = NO_LEADER,
			   .group_modifiers = "", .diag = diag };
	size_t i;
	int ret = 0;

	memset(l, 0, sizeof(*l));
	for (i = 0; !ret && i < o->n_words; i++) {
		b.word = &o->words[i];
		ret = add_word(&b);
	}
	if (!ret)
		ret = set_groups(l, o, diag);
	if (!ret)
		ret = put_aux_first(l, diag);
	if (!ret)
		ret = add_sideband(l, o, diag);
	if (ret)
		evlist_close(l);
	return ret;
}

void evlist_close(struct evlist *l)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		event_fini(&l->events[i].spec);
		pmu_close(l->events[i].pmu);
		free(l->events[i].name);
		free(l->events[i].filter_text);
		free(l->events[i].filter);
	}
	free(l->events);
	memset(l, 0, sizeof(*l));
}
