/* SPDX-License-Identifier: BSD-2-Clause */
/* evlist: what its files share. */
#ifndef CAPTURE_EVENT_EVLIST_IMPL_H
#define CAPTURE_EVENT_EVLIST_IMPL_H

#include "capture/event/evlist.h"

/* sample_type of every attr; the trailer is the same for all records. */
#define EVLIST_SAMPLE_TYPE                                                \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

#endif
