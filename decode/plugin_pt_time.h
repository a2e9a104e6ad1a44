/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time in Intel PT: TSC, TMA, MTC, CYC and CBR packets as one TSC that never runs
 * backwards between two PSBs, and how far it may be off.
 *
 * A PSB forgets everything, so what a piece of trace gives does not depend on what
 * was decoded before it. No allocation, no host; CYC is the hot one.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", sections
 * "Timing Packets" and "Decoder Synchronization".
 */
#ifndef PLUGIN_PT_TIME_H
#define PLUGIN_PT_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>

struct pt_time {
	uint64_t tsc;		/* the estimate; valid when known */
	uint64_t bound;		/* the true time is within tsc +- bound; 0: tsc
				 * was in a packet */
	bool known;		/* there was a TSC since the PSB */
	/* the rest is its own */
	const struct aux_pt_config *config;
};

void pt_time_init(struct pt_time *t, const struct aux_pt_config *config);
void pt_time_psb(struct pt_time *t);
void pt_time_tsc(struct pt_time *t, uint64_t tsc);
void pt_time_tma(struct pt_time *t, uint16_t ctc, uint16_t fc);
void pt_time_mtc(struct pt_time *t, uint8_t ctc);
void pt_time_cyc(struct pt_time *t, uint64_t cycles);
void pt_time_cbr(struct pt_time *t, uint8_t ratio);
void pt_time_ovf(struct pt_time *t);	/* packets were lost here */

#endif
