/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file's bytes in the program: EMBED(name, "path") makes name[] of them, with
 * a NUL after the last; EMBED_SIZE(name) is their number. The assembler reads
 * the file: path is from the project's root, where the compiler runs, and the
 * Makefile says that the object depends on it. The labels are local to the
 * object file; hidden, as an address through the global offset table would lose
 * its place in the section on arm64.
 */
#ifndef COMMON_EMBED_H
#define COMMON_EMBED_H

#define EMBED(name, path)                                                   \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n"  \
		#name "_end:\n.byte 0\n.popsection\n");                     \
	extern const char name[] __attribute__((visibility("hidden"))),     \
		name##_end[] __attribute__((visibility("hidden")))

#define EMBED_SIZE(name) ((size_t)(name##_end - name))

#endif
