/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event: names of EVENTs, those that the packets have in a dump. Scripts look for
 * them in JSON: they never change.
 */
#include <stdio.h>

#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/event.h"

const char *event_source(const struct aux_flow *ev)
{
	switch (ev->n) {
	case AUX_EVENT_CFE:
		return "cfe";
	case AUX_EVENT_EVD:
		return "evd";
	case AUX_EVENT_TRIG:
		return "trig";
	case AUX_EVENT_IF:
		return "if";
	default:
		return "cpu-event";
	}
}

const char *event_name(const struct aux_flow *ev, char buf[EVENT_NAME])
{
	const char *name = NULL;

	switch (ev->n) {
	case AUX_EVENT_CFE:
		name = ptpkt_cfe_name(ev->what);
		break;
	case AUX_EVENT_EVD:
		name = ptpkt_evd_name(ev->what);
		break;
	case AUX_EVENT_IF:
		return ev->what ? "on" : "off";
	case AUX_EVENT_TRIG:
		snprintf(buf, EVENT_NAME, "%#x", ev->what);
		return buf;
	case AUX_EVENT_ETM:
		snprintf(buf, EVENT_NAME, "%u", (unsigned)ev->payload.value);
		return buf;
	}
	if (name)
		return name;
	snprintf(buf, EVENT_NAME, "%u", ev->what);
	return buf;
}
