/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -finstrument-functions -fno-omit-frame-pointer */
/* build: -fno-optimize-sibling-calls -fno-inline -pthread -rdynamic */
/* build: -Wl,--unresolved-symbols=ignore-all -Wl,-z,lazy */
/* build: -fcf-protection -Wl,-z,ibtplt */
/* host: x86_64 */
/*
 * As stack_plt_lazy, through two tables: .plt.sec, that calls lead to, jumps to .plt
 * until the function is bound.
 */
#include "stack_plt.h"
