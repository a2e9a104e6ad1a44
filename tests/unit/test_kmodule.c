/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * elfmodule: an object that the assembler made, placed and relocated, against the
 * same object linked by ld at the same address; and the holes.
 */
#include "decode/lib/elf/elf.h"
#include "tests/unit/codeview_file.h"

#define BASE UINT64_C(0xffffffffc0100000)
#define EXT  UINT64_C(0xffffffff81234560)

/* Branches to itself, to another section, to the kernel; data; patched code. */
static const char source[] =
	".text\n"
	"first: call __fentry__\n"		/* 0 */
	" call ext\n"				/* 5 */
	" jne unknown\n"			/* a */
	" lea data(%rip), %rax\n"		/* 10 */
	" jmp second\n"				/* 17 */
	"alt: nop\n nop\n nop\n"		/* 1c */
	"key: .byte 0x0f, 0x1f, 0x44, 0, 0\n"	/* 1f */
	" call __x86_indirect_thunk_rax\n"	/* 24 */
	" ret\n"				/* 29 */
	".globl global\n"
	"global: call global\n"			/* 2a */
	" ret\n"
	".section .init.text, \"ax\"\n"
	"init: ret\n"
	".section .text.late, \"ax\"\n"
	".balign 16\n"
	"second: call first\n"
	" jmp global\n"
	".data\n"
	"data: .quad 0\n"
	".section .altinstructions, \"a\"\n"
	" .long alt - .\n .long second - .\n"
	" .short 1\n .byte 3, 3\n"
	".section __jump_table, \"aw\"\n"
	" .long key - .\n .long global - .\n .quad 0\n";

static uint64_t find(void *priv, const char *name)
{
	(void)priv;
	return !strcmp(name, "ext") ? EXT :
	       !strcmp(name, "__x86_indirect_thunk_rax") ? EXT + 64 : 0;
}

static bool run(const char *format, const char *a, const char *b)
{
	char command[1024];

	snprintf(command, sizeof(command), format, a, b);
	return ok(system(command) == 0, "%s", command);
}

/* The sections in the loader's order, linked at BASE: what ld says. */
static bool link_it(const char *object, char linked[256])
{
	char script[256], text[1024];

	snprintf(linked, 256, "%s", view_path("/linked"));
	snprintf(script, sizeof(script), "%s", view_path("/script"));
	snprintf(text, sizeof(text),
		 "SECTIONS { . = 0x%" PRIx64 "; .text : { *(.text) }\n"
		 ".text.late : { *(.text.late) } . = 0x%" PRIx64 ";\n"
		 ".data : { *(.data) } /DISCARD/ : { *(.altinstructions)\n"
		 "*(__jump_table) *(.init.text) } }\n"
		 "ext = 0x%" PRIx64 "; unknown = 0x%" PRIx64 ";\n"
		 "__fentry__ = 0x%" PRIx64 ";"
		 "__x86_indirect_thunk_rax = 0x%" PRIx64 ";\n",
		 BASE, BASE + 0x1000, EXT, EXT + 8, EXT + 16, EXT + 64);
	return ok(mkelf_text(script, text), "a linker script") &&
	       run(X86_TOOL("ld") " -e 0 -o '%2$s' -T \"$(dirname '%2$s')\"/script '%1$s'",
		   object, linked);
}

static const uint8_t *byte_of(const struct elfmodule *m, uint64_t at)
{
	struct elfmodule_code c;

	return elfmodule_code(m, at, &c) < 0 ? NULL : c.bytes + (at - c.start);
}

/* Every byte that counts for the flow is ld's. */
static void compare(const struct elfmodule *m, const char *linked)
{
	static const struct {
		uint64_t from, to;
	} same[] = { { 5, 10 }, { 0x17, 0x1c }, { 0x29, 0x30 },
		     { 0x30, 0x3a } };
	struct elfimage *im;
	const uint8_t *data, *p;
	uint64_t len, off, left;
	unsigned n_bad = 0;

	if (!ok(elfimage_open(&im, linked) == 0, "the linked file"))
		return;
	data = elfimage_data(im, &len);
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		for (uint64_t at = same[i].from; at < same[i].to; at++) {
			p = byte_of(m, at);
			if (!elfimage_offset(im, BASE + at, &off, &left) ||
			    !p || *p != data[off]) {
				printf("# at 0x%" PRIx64 "\n", at);
				n_bad++;
			}
		}
	}
	ok(!n_bad, "branches lead where ld makes them lead");
	elfimage_close(im);
}

static void holes(const struct elfmodule *m)
{
	static const struct {
		uint64_t at, len;
		const char *what;
	} rows[] = {
		{ 0xa, 6, "a branch to what is not known" },
		{ 0x1c, 3, "alternatives" },
		{ 0x1f, 5, "a jump label" },
		{ 0x24, 5, "an indirect branch through a thunk" },
	};
	struct elfmodule_code c;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool all = true;

		for (uint64_t k = 0; k < rows[i].len; k++)
			all &= elfmodule_code(m, rows[i].at + k, &c) ==
			       -AUX_E_UNSUPPORTED;
		ok(all, "no code: %s", rows[i].what);
	}
	ok(byte_of(m, 9) && byte_of(m, 0x10) && byte_of(m, 0x29),
	   "and code around");
	ok(byte_of(m, 0) && !memcmp(byte_of(m, 0), "\x0f\x1f\x44\0", 5),
	   "the call of function tracing is none");
	ok(elfmodule_code(m, 0x3a, &c) == -AUX_E_NOENT, "outside");
}

int main(void)
{
	char file[128], object[128], linked[256];
	struct elfimage_symbol s;
	struct elfimage *im;
	struct elfmodule *m;
	uint64_t off, left;

	if (!ok(view_start(), "a scratch directory"))
		return plan_done();
	snprintf(file, sizeof(file), "%s", view_path("/m.s"));
	snprintf(object, sizeof(object), "%s", view_path("/m.ko"));
	ok(mkelf_text(file, source), "made m.s");
	if (run(X86_TOOL("as") " -o '%2$s' '%1$s'", file, object) &&
	    link_it(object, linked) &&
	    ok(elfimage_open(&im, object) == 0 && elfimage_is_object(im) &&
	       elfmodule_new(&m, im, BASE, find, NULL) == 0, "the module")) {
		compare(m, linked);
		holes(m);
		ok(elfimage_offset(im, 0x35, &off, &left) &&
		   !elfimage_symbol(im, off, &s) && !strcmp(s.name, "second"),
		   "names of all sections");
		elfmodule_free(m);
		elfimage_close(im);
	}
	view_stop();
	return plan_done();
}
