/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread -rdynamic */
/* build: -Wl,--unresolved-symbols=ignore-all -Wl,-z,lazy */
/*
 * Calls into a library through the PLT, bound when first called. The library,
 * stack_lib, is given by LD_PRELOAD.
 */
#include "stack_plt.h"
