/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <string.h>, in a kernel. */
#ifndef TOOLS_PMU_SIM_PMU_STEP_SHIM_STRING_H
#define TOOLS_PMU_SIM_PMU_STEP_SHIM_STRING_H

#include <linux/string.h>

#endif
