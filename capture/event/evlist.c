/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * evlist: the text of -e into events.
 *
 * Invariant: events with an AUX area come first, a leader before its group, the
 * side-band last; whatever cannot be honoured is refused.
 * Specification: perf-record(1) on -e and --filter.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "capture/event/filter.h"
#include "capture/event/auxpmu.h"
#include "capture/event/evlist_impl.h"
#include "capture/event/tracing_data.h"

#define NO_LEADER SIZE_MAX

struct build {
	struct evlist *l;
	const struct evlist_options *o;
	const struct evlist_word *word;
	size_t leader;		/* of the group we are in */
	const char *group_modifiers;
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

struct evlist_event *evlist_event_add(struct evlist *l)
{
	struct evlist_event *all;

	all = reallocarray(l->events, l->n + 1, sizeof(*all));
	if (!all)
		return NULL;
	l->events = all;
	memset(&all[l->n], 0, sizeof(*all));
	all[l->n].leader = l->n;
	return &all[l->n++];
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
	if (ev->spec.n_terms && !event_has(&ev->spec, "period") &&
	    !event_has(&ev->spec, "name"))
		return event_refuse(b->diag, &ev->spec, "a tracepoint has the "
				    "terms period and name");
	id = tracing_id(root, ev->spec.pmu, ev->spec.tracepoint, b->diag);
	if (id == -AUX_E_NOENT) {	/* the user's mistake, as in open_pmu */
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

/* Such events have no terms but ours. */
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

static int no_such_event(struct build *b, const struct evlist_event *ev,
			 const struct aux_diag *why)
{
	/* A name that means nothing is the user's mistake. */
	int code = why->code == AUX_E_NOENT ? AUX_E_INVAL : why->code;

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
	if (!evlist_name_find(ev->spec.pmu, &ev->attr.type, &config))
		return open_pmu(b, ev);
	ev->attr.config = config;
	return check_named(b, ev);
}

/* As perf names it: a group's modifiers go behind its own. */
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

/* attr.sample_read and its kin mean the members of a group that sample. */
static void drop_sampling_modifiers(struct evlist_event *ev)
{
	ev->spec.precise = 0;
	ev->spec.precise_max = ev->spec.sample_read = false;
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
	evlist_attr_common(ev, b->o);
	if (ev->aux) {
		ev->attr.sample_period = 1;
		ret = ev->aux->configure(ev, b->o, b->diag);
	} else {
		ret = evlist_attr_sampling(ev, b->o, b->diag);
	}
	if (!ret)
		ret = evlist_attr_terms(ev, b->diag);
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
	ev = evlist_event_add(b->l);
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

/* Up to a comma or a brace that is not between slashes. */
static size_t event_length(const char *text)
{
	bool inside = false;
	size_t n;

	for (n = 0; text[n]; n++) {
		if (text[n] == '/')
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

/* "{a,b}:u"; *p moves behind it. */
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
			return bad_word(b, "too many modifiers behind '}'");
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

/* Stable, and leaders go where their events go. */
static int put_aux_first(struct evlist *l, struct aux_diag *diag)
{
	struct evlist_event *all = calloc(l->n + 1, sizeof(*all));
	size_t *place = calloc(l->n + 1, sizeof(*place)), i, n = 0;
	int aux;

	if (!all || !place) {
		free(all);
		free(place);
		return out_of_memory(diag);
	}
	for (aux = 1; aux >= 0; aux--) {
		for (i = 0; i < l->n; i++) {
			if ((l->events[i].aux != NULL) != aux)
				continue;
			place[i] = n;
			all[n++] = l->events[i];
		}
		if (aux)
			l->n_aux = n;
	}
	for (i = 0; i < n; i++)
		all[i].leader = place[all[i].leader];
	free(l->events);
	free(place);
	l->events = all;
	return 0;
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
		ret = evlist_attr_groups(l, o, diag);
	if (!ret)
		ret = put_aux_first(l, diag);
	if (!ret)
		ret = evlist_sideband_add(l, o, diag);
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
