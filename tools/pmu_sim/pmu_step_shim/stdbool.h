/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <stdbool.h>, in a kernel. */
#ifndef TOOLS_PMU_SIM_PMU_STEP_SHIM_STDBOOL_H
#define TOOLS_PMU_SIM_PMU_STEP_SHIM_STDBOOL_H

#include <linux/types.h>

#endif
