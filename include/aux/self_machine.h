/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two instructions of self-monitoring: reading the time stamp counter, and
 * a hardware event counter. On x86 and arm64; elsewhere both functions return
 * 0, and no kernel sets the capabilities that would make self.h use them.
 *
 * Specification: Intel SDM volume 2, RDTSC and RDPMC; Arm DDI 0487, CNTVCT_EL0,
 * PMEVCNTR<n>_EL0, PMCCNTR_EL0.
 */
#ifndef AUX_SELF_MACHINE_H
#define AUX_SELF_MACHINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The time stamp counter that the page's parameters refer to: TSC on x86,
 * CNTVCT_EL0 on arm64. RDTSC is not serializing; ISB keeps CNTVCT from being
 * read early.
 */
static inline uint64_t aux_self_cycles(void)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t v;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(v) : : "memory");
	return v;
#else
	return 0;
#endif
}

#if defined(__aarch64__)
#define AUX_SELF_PMC(n)                                                   \
	case n:                                                           \
		__asm__ volatile("mrs %0, pmevcntr" #n "_el0" : "=r"(v)); \
		break
#endif

/*
 * Hardware counter number pmc (aux_self_state.index - 1), raw: only the lower
 * pmc_width bits are valid. Faults (SIGSEGV, SIGILL) unless AUX_SELF_CAP_RDPMC
 * is set and index is not 0. On arm64 the event must be opened with bit 1 of
 * attr.config1 (rdpmc), and 31 is the cycle counter.
 */
static inline uint64_t aux_self_pmc(uint32_t pmc)
{
#if defined(__x86_64__) || defined(__i386__)
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(pmc));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t v = 0;

	switch (pmc) {
	AUX_SELF_PMC(0); AUX_SELF_PMC(1); AUX_SELF_PMC(2); AUX_SELF_PMC(3);
	AUX_SELF_PMC(4); AUX_SELF_PMC(5); AUX_SELF_PMC(6); AUX_SELF_PMC(7);
	AUX_SELF_PMC(8); AUX_SELF_PMC(9); AUX_SELF_PMC(10); AUX_SELF_PMC(11);
	AUX_SELF_PMC(12); AUX_SELF_PMC(13); AUX_SELF_PMC(14); AUX_SELF_PMC(15);
	AUX_SELF_PMC(16); AUX_SELF_PMC(17); AUX_SELF_PMC(18); AUX_SELF_PMC(19);
	AUX_SELF_PMC(20); AUX_SELF_PMC(21); AUX_SELF_PMC(22); AUX_SELF_PMC(23);
	AUX_SELF_PMC(24); AUX_SELF_PMC(25); AUX_SELF_PMC(26); AUX_SELF_PMC(27);
	AUX_SELF_PMC(28); AUX_SELF_PMC(29); AUX_SELF_PMC(30);
	case 31:
		__asm__ volatile("mrs %0, pmccntr_el0" : "=r"(v));
		break;
	}
	return v;
#else
	(void)pmc;
	return 0;
#endif
}

#ifdef __cplusplus
}
#endif
#endif
