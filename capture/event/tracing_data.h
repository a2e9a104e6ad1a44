/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tracing_data: what a reader needs to parse the payload of tracepoints: formats and
 * printk formats in the layout of trace.dat (version 0.6, trace-cmd.dat.v6(5)), which
 * perf stores as HEADER_TRACING_DATA, and in pipe mode as a record.
 */
#ifndef CAPTURE_EVENT_TRACING_DATA_H
#define CAPTURE_EVENT_TRACING_DATA_H

#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

/* Where tracefs is mounted: "/sys/kernel/tracing" or below debugfs; NULL: nowhere. */
const char *tracing_root(void);

/* The id of SUBSYSTEM:NAME, or -AUX_E_NOENT / -AUX_E_IO with the cause and the
 * fix (mount it, permission). */
int64_t tracing_id(const char *root, const char *subsystem, const char *name,
		   struct aux_diag *diag);

/* The blob for these events ("sched:sched_switch"); free *data. */
int tracing_data(const char *root, const char *const *events, size_t n,
		 void **data, size_t *len, struct aux_diag *diag);

#endif
