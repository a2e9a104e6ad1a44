/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page in which the kernel runs what a uprobe displaced: the last of a process's address
 * space, unless the process has taken that.
 *
 * An instruction with a probe on it traps, runs in that page as a copy, and traps again; the
 * return from a function with a probe on it goes to the page's first byte, which traps, or
 * calls the kernel and returns to the caller (x86-64 since Linux 6.11).
 * Specification: kernel/events/uprobes.c of Linux, xol_add_vma(): TASK_SIZE - PAGE_SIZE.
 */
#ifndef COMMON_UPROBES_H
#define COMMON_UPROBES_H

#include <stdbool.h>
#include <stdint.h>

static inline bool uprobes_has(uint64_t ip)
{
	uint64_t page = ip >> 12;

	return page == UINT64_C(0x7fffffffe) ||		/* x86-64, 47 bits */
	       page == UINT64_C(0xffffffffffe) ||	/* 56 bits */
	       page == UINT64_C(0xfffffffff);		/* AArch64, 48 bits */
}

#endif
