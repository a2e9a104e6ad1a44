/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the EVENTs of <aux/flow.h>, for people and for scripts. */
#ifndef DECODE_LIB_TRACE_EVENT_H
#define DECODE_LIB_TRACE_EVENT_H

#include <aux/flow.h>

/* Whose event it is: "cfe", "evd", "trig", "if"; "cpu-event": another's. */
const char *event_source(const struct aux_flow *ev);

/* What happened: "vmexit", "cr2", "on"; as a number where there is no name, then
 * in buf. */
#define EVENT_NAME 16
const char *event_name(const struct aux_flow *ev, char buf[EVENT_NAME]);

#endif
