/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <string.h>, in a kernel. */
#ifndef PMU_STEP_SHIM_STRING_H
#define PMU_STEP_SHIM_STRING_H

#include <linux/string.h>

#endif
