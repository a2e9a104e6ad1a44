/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <stdint.h>, in a kernel. */
#ifndef TOOLS_PMU_SIM_PMU_STEP_SHIM_STDINT_H
#define TOOLS_PMU_SIM_PMU_STEP_SHIM_STDINT_H

#include <linux/kernel.h>
#include <linux/types.h>

#ifndef UINT64_C
#define UINT64_C(x) x##ull
#endif
#ifndef UINT64_MAX
#define UINT64_MAX UINT64_C(0xffffffffffffffff)
#endif

#endif
