/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a file's unwind tables (.eh_frame) tell of its functions; stripped files have them,
 * too. Addresses are as linked. The file is read at each call, in time logarithmic in the
 * number of functions; any thread may call.
 *
 * Specification: Linux Standard Base 5.0, ".eh_frame" and ".eh_frame_hdr"; DWARF 5, 6.4;
 * Itanium C++ ABI, "Exception Handling", with the language-specific data area (LSDA) as gcc
 * and clang write it.
 */
#ifndef DECODE_LIB_ELF_EH_FRAME_H
#define DECODE_LIB_ELF_EH_FRAME_H

#include <stdbool.h>
#include <stdint.h>

struct elfimage;

/*
 * The function around an address, or a part of one. False: no table covers it. *called:
 * the frame is as right after a call where it begins; else it is a part that the compiler
 * put elsewhere ("name.cold"), with a frame already, or a restorer of signals. A part whose
 * function has no frame yet looks like a function.
 */
bool eh_frame_function(const struct elfimage *im, uint64_t addr, uint64_t *start,
		       uint64_t *size, bool *called);

/* Where an exception that leaves the call at an address is caught in the same function (the
 * landing pad); 0: nowhere. */
uint64_t eh_frame_landing(const struct elfimage *im, uint64_t addr);

#endif
