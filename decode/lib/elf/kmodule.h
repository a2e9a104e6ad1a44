/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * elfmodule: the code of a kernel module from its file.
 *
 * A .ko is an object file: its sections are placed as the kernel's loader does it,
 * and branches point where they pointed in memory. What the file cannot know (a
 * branch to a function of another module, code that the kernel patches when it loads:
 * alternatives, jump labels, static calls, retpolines) is a hole: no code at that
 * address, rather than wrong code.
 */
#ifndef DECODE_LIB_ELF_KMODULE_H
#define DECODE_LIB_ELF_KMODULE_H

#include "decode/lib/elf/elf.h"

struct elfmodule;

/*
 * The module of an object that was loaded at base. find returns the address of a
 * symbol of the kernel or of another module, 0 when it is not known. The image
 * outlives the module. 0, -AUX_E_FORMAT (no object, or relocations of its code
 * that cannot be read), -AUX_E_IO, -AUX_E_NOMEM.
 */
int elfmodule_new(struct elfmodule **m, const struct elfimage *im,
		  uint64_t base, uint64_t (*find)(void *priv, const char *name),
		  void *priv);
void elfmodule_free(struct elfmodule *m);

struct elfmodule_code {
	const uint8_t *bytes;
	uint64_t start, end;	/* addresses, counted from base */
	const char *path;	/* a file that holds the same; NULL: none */
	uint64_t offset;	/* of bytes in it, and in the module's file */
};

/* The code around an address (from base): 0, -AUX_E_NOENT outside, or
 * -AUX_E_UNSUPPORTED in a hole. */
int elfmodule_code(const struct elfmodule *m, uint64_t addr,
		   struct elfmodule_code *code);

#endif
