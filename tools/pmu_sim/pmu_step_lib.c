/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The packet encoder and the instruction decoder of the project, compiled for
 * the kernel: the same sources that soft_pt uses, behind pmu_step_shim/.
 */
#include "capture/soft/pt_encode.c"
#include "common/x86_insn.c"
