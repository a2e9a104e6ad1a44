/* SPDX-License-Identifier: GPL-2.0-only */
/* What the project's own freestanding C asks of <stddef.h>, in a kernel. */
#ifndef PMU_STEP_SHIM_STDDEF_H
#define PMU_STEP_SHIM_STDDEF_H

#include <linux/stddef.h>

#endif
