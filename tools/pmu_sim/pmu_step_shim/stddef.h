/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <stddef.h>, in a kernel. */
#ifndef TOOLS_PMU_SIM_PMU_STEP_SHIM_STDDEF_H
#define TOOLS_PMU_SIM_PMU_STEP_SHIM_STDDEF_H

#include <linux/stddef.h>

#endif
