/* SPDX-License-Identifier: BSD-2-Clause */
/* evlist: what its files share. */
#ifndef CAPTURE_EVENT_EVLIST_IMPL_H
#define CAPTURE_EVENT_EVLIST_IMPL_H

#include "capture/event/evlist.h"

/* sample_type of every attr; the trailer is the same for all records. */
#define EVLIST_SAMPLE_TYPE                                                \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

/* Whatever the event: modifiers, inheritance, ids. type and config stand. */
void evlist_attr_common(struct evlist_event *ev,
			const struct evlist_options *o);
/* How an event without an AUX area samples: period, freq, -g, tracepoint. */
int evlist_attr_sampling(struct evlist_event *ev,
			 const struct evlist_options *o,
			 struct aux_diag *diag);
/* The terms of evlist_words. */
int evlist_attr_terms(struct evlist_event *ev, struct aux_diag *diag);
/* What the events of a group owe to each other; all have been added. */
int evlist_attr_groups(struct evlist *l, const struct evlist_options *o,
		       struct aux_diag *diag);

/* Adds the dummies, at the end. */
int evlist_sideband_add(struct evlist *l, const struct evlist_options *o,
			struct aux_diag *diag);
/* Room for one more, zeroed, its own leader. */
struct evlist_event *evlist_event_add(struct evlist *l);

#endif
