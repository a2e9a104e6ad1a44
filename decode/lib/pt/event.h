/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What packets of Intel PT tell beside TNT and TIP: events, and the packets that
 * they wait for.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#ifndef DECODE_LIB_PT_EVENT_H
#define DECODE_LIB_PT_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum pt_event_type {
	PT_EV_ENABLED = 1,
	PT_EV_DISABLED,
	PT_EV_ASYNC_DISABLED,
	PT_EV_ASYNC_BRANCH,
	PT_EV_PAGING,
	PT_EV_ASYNC_PAGING,
	PT_EV_VMCS,
	PT_EV_ASYNC_VMCS,
	PT_EV_OVERFLOW,
	PT_EV_MODE,
	PT_EV_TSX,
	PT_EV_STOP,
	PT_EV_EXSTOP,
	PT_EV_MWAIT,
	PT_EV_PWRE,
	PT_EV_PWRX,
	PT_EV_PTWRITE,
	PT_EV_CBR,
	PT_EV_NOTHING,		/* MNT and others that tell nothing */
	PT_EV_CFE,
	PT_EV_EVD,
};

/* The packet that gives an event its ip. */
enum pt_binding { PT_BIND_NONE = 0, PT_BIND_PSBEND, PT_BIND_TIP, PT_BIND_FUP };

struct pt_event {
	uint8_t type;
	uint8_t binding;
	bool has_ip;		/* to, or where it is */
	bool status;		/* of a PSB+ */
	bool timed;
	uint8_t size, what;	/* of a payload; of CFE, EVD */
	uint64_t ip, from;
	uint64_t value, value2;
	uint64_t tsc;		/* valid with timed */
};

#define PT_EVENTS 24

#endif
