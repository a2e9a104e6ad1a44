/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ETMv4 and ETE: the time of a run before its first instruction.
 *
 * A timestamp packet follows the first P0 element that it dates. A host that
 * switches address spaces by time needs it earlier: before code is read for
 * that element. So where the flow resumes (after Trace On, at the start of a
 * chunk, back in user code) decoders scan the packets of the run up to its
 * first timestamp.
 *
 * A run ends with an exception: user code is left in no other way. An exec, an
 * mmap or a switch can lie between two runs, never inside one, so nothing past
 * that exception counts but a timestamp of its own. Each byte is scanned once
 * at most, as a run is scanned only where it begins.
 *
 * Specification: Arm IHI 0064, chapter 6; DDI 0487, "ETE protocol".
 */
#ifndef COMMON_ETM_LOOKAHEAD_H
#define COMMON_ETM_LOOKAHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>

/* What a decoder is about to do. */
enum etm_lookahead {
	ETM_LOOKAHEAD_NONE = 0,
	ETM_LOOKAHEAD_AT_ADDRESS,	/* a run begins: scan after its address */
	ETM_LOOKAHEAD_NOW,		/* scan before the next packet */
};

struct etm_scan_config {
	unsigned n_vmid, n_cid;		/* bytes in a context packet */
	bool has_commit;		/* TRCIDR0.COMMOPT 0: cycle counts have a
					 * commit field */
};

/* Has the source instrumentation packets (FEAT_ITE, ETE 1.3)? Where TRCDEVARCH
 * is not known, yes: no other packet ever had that header. */
static inline bool etm_has_ite(const struct aux_etm_config *etm)
{
	return etm->arch == AUX_ETM_ETE &&
	       (!etm->trcdevarch || (etm->trcdevarch >> 16 & 0xf) >= 3);
}

/*
 * The first timestamp of the run that begins at p. last: the timestamp before
 * it; bits that the packet leaves out are those of last. False: the run has
 * none.
 */
bool etm_scan_timestamp(const struct etm_scan_config *config, const uint8_t *p,
			const uint8_t *end, uint64_t last, uint64_t *ts);

#endif
