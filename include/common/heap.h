/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap: the heap of a program on huge pages, where the kernel has some.
 *
 * Of what it takes to decode a short trace once, a third were first touches of pages
 * (1.2 us each in a virtual machine, three times as many as there are kilobytes of
 * trace); huge pages cost 17 us for 2 MiB. For programs alone: a library leaves the
 * heap of its process as it is.
 */
#ifndef COMMON_HEAP_H
#define COMMON_HEAP_H

/* Where main begins. Nothing changes where it does not work. */
void heap_prepare(void);

/* Where a thread begins that will allocate much. Nothing, unless heap_prepare was
 * called. */
void heap_prepare_thread(void);

#endif
