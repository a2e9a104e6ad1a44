/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * disasm: text and length in every mode, both syntaxes, and the .byte fallback.
 * Expected text is objdump's or the Arm ARM's, in capstone's spelling.
 */
#include <aux/flow.h>

#include "decode/lib/elf/insn.h"
#include "tests/unit/tap.h"
#include "decode/lib/session/expand.h"

struct row {
	unsigned mode;
	uint8_t code[15];
	uint8_t len; /* bytes given */
	int size; /* expected */
	const char *text, *att; /* att NULL: not tried */
};

/* table */
static const struct row rows[] = {
	{ AUX_FLOW_MODE_X86_64, { 0x90 }, 1, 1, "nop", "nop" },
	{ AUX_FLOW_MODE_X86_64,
	  { 0x48, 0x89, 0xe5 },
	  3,
	  3,
	  "mov rbp, rsp",
	  "movq %rsp, %rbp" },
	{ AUX_FLOW_MODE_X86_64,
	  { 0xe8, 0x07, 0, 0, 0 },
	  5,
	  5,
	  "call 0x40100c",
	  "callq 0x40100c" },
	{ AUX_FLOW_MODE_X86_64,
	  { 0x75, 0xfe },
	  2,
	  2,
	  "jne 0x401000",
	  "jne 0x401000" },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x48, 0xa5, 0xcc }, 4, 3, NULL, NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xe8, 0x07, 0 }, 3, 0, "", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0x06 }, 1, 0, "", NULL },
	{ AUX_FLOW_MODE_X86_32, { 0x40, 0x90 }, 2, 1, "inc eax", "incl %eax" },
	{ AUX_FLOW_MODE_X86_32,
	  { 0xb8, 1, 0, 0, 0 },
	  5,
	  5,
	  "mov eax, 1",
	  NULL },
	{ AUX_FLOW_MODE_X86_16, { 0xb8, 1, 0, 0x90 }, 4, 3, "mov ax, 1", NULL },
	/* of Debian's binutils 2.40, but ERETU and ERETS (2.42) and JMPABS (2.44) */
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x0f, 0x01, 0xec }, 4, 4, "uiret", "uiret" },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x0f, 0x01, 0xee }, 4, 4, "clui", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xf2, 0x0f, 0x01, 0xca }, 4, 4, "erets", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x0f, 0x01, 0xca }, 4, 4, "eretu", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0x0f, 0x01, 0xca }, 3, 3, "clac", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0x0f, 0x01, 0xe8 }, 3, 3, "serialize", NULL },
	{ AUX_FLOW_MODE_X86_32, { 0xf2, 0x0f, 0x01, 0xe9 }, 4, 4, "xresldtrk", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x0f, 0x09 }, 3, 3, "wbnoinvd", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0x0f, 0x09 }, 2, 2, "wbinvd", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x41, 0x0f, 0xc7, 0xf7 }, 5, 5, "senduipi r15",
	  "senduipi %r15" },
	{ AUX_FLOW_MODE_X86_64, { 0x0f, 0xc7, 0xf7 }, 3, 3, "rdrand edi", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xf3, 0x48, 0x0f, 0xae, 0xe9 }, 5, 5, "incsspq rcx",
	  "incsspq %rcx" },
	{ AUX_FLOW_MODE_X86_64, { 0x0f, 0xae, 0xe8 }, 3, 3, "lfence", NULL },
	{ AUX_FLOW_MODE_X86_64, { 0xd5, 0, 0xa1, 8, 7, 6, 5, 4, 3, 2, 1 }, 11, 11,
	  "jmpabs 0x102030405060708", "jmpabs $0x102030405060708" },
	{ AUX_FLOW_MODE_A64, { 0xc0, 0x03, 0x5f, 0xd6 }, 4, 4, "ret", NULL },
	{ AUX_FLOW_MODE_A64, { 0x1f, 0x20, 0x03, 0xd5 }, 4, 4, "nop", NULL },
	{ AUX_FLOW_MODE_A64, { 0x1f, 0x20, 0x03 }, 3, 0, "", NULL },
	{ AUX_FLOW_MODE_A32, { 0x1e, 0xff, 0x2f, 0xe1 }, 4, 4, "bx lr", NULL },
	{ AUX_FLOW_MODE_T32, { 0x70, 0x47 }, 2, 2, "bx lr", NULL },
	{ AUX_FLOW_MODE_T32,
	  { 0x00, 0xf0, 0x00, 0xf8 },
	  4,
	  4,
	  "bl #0x401004",
	  NULL },
	{ AUX_FLOW_MODE_T32, { 0x00, 0xf0 }, 2, 0, "", NULL },
};

static void check_row(struct disasm *d, const struct row *r, const char *want,
		      const char *what)
{
	char text[128], name[160];
	int size = disasm_text(d, r->code, r->len, 0x401000, r->mode, text,
			       sizeof(text));

	snprintf(name, sizeof(name), "%s mode %#x: size of \"%s\"", what,
		 r->mode, want ? want : "any");
	is_u64(size, r->size, name);
	snprintf(name, sizeof(name), "%s mode %#x: text", what, r->mode);
	if (want)
		is_str(text, want, name);
	is_u64(disasm_text(d, r->code, r->len, 0x401000, r->mode, NULL, 0),
	       r->size, "the same length without text");
}

static void check_fallback(struct disasm *d)
{
	/* newer than some capstones */
	static const uint8_t code[] = { 0x0f, 0x01, 0xe8 };
	char text[64], tiny[9];
	int n = disasm_text(d, code, sizeof(code), 0, AUX_FLOW_MODE_X86_64,
			    text, sizeof(text));

	is_u64(n, 3, "serialize has a length");
	ok(!strcmp(text, ".byte 0x0f, 0x01, 0xe8") ||
		   !strcmp(text, "serialize"),
	   "serialize is shown as bytes or by name, not as \"%s\"", text);
	is_u64(disasm_text(d, (const uint8_t[4]){ 0 }, 4, 0, AUX_FLOW_MODE_A64,
			   text, sizeof(text)), 4, "udf has a length");
	ok(!strcmp(text, ".byte 0x00, 0x00, 0x00, 0x00") ||
		   !strcmp(text, "udf #0"),
	   "udf is shown as bytes or by name, not as \"%s\"", text);
	disasm_text(d, (const uint8_t[]){ 0x48, 0x89, 0xe5 }, 3, 0,
		    AUX_FLOW_MODE_X86_64, tiny, sizeof(tiny));
	ok(strlen(tiny) < sizeof(tiny), "text is cut to the buffer");
	is_u64(disasm_text(d, code, 3, 0, 0x70, text, sizeof(text)), 0,
	       "an unknown mode has no instructions");
}

/* Lengths and targets in each mode; where a direct branch leads wraps at the mode's width
 * of ip. */
static void targets_x86(void)
{
	static const struct {
		unsigned mode;
		uint8_t code[8];
		uint64_t ip, to;
		int size;	/* to 0: no direct branch */
	} t[] = {
		{ AUX_FLOW_MODE_X86_64, { 0xeb, 0xfe }, 0x1000, 0x1000, 2 },
		{ AUX_FLOW_MODE_X86_64, { 0xe8, 0, 0, 0, 0x80 }, 0x90000000, 0x10000005, 5 },
		{ AUX_FLOW_MODE_X86_32, { 0x40 }, 0x1000, 0, 1 },
		{ AUX_FLOW_MODE_X86_32, { 0x75, 0x10 }, 0xfffffff8, 0xa, 2 },
		{ AUX_FLOW_MODE_X86_32, { 0xe8, 0, 0, 0, 0x80 }, 0x90000000, 0x10000005, 5 },
		{ AUX_FLOW_MODE_X86_32, { 0x66, 0xe9, 0x10, 0 }, 0x12345678, 0x568c, 4 },
		{ AUX_FLOW_MODE_X86_32, { 0xff, 0xe0 }, 0x1000, 0, 2 },
		{ AUX_FLOW_MODE_X86_16, { 0xe9, 0x10, 0 }, 0xfff8, 0xb, 3 },
		{ AUX_FLOW_MODE_X86_16, { 0xb8, 1, 2 }, 0x100, 0, 3 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		uint64_t to = 0;
		bool is = insn_target(t[i].code, 8, t[i].ip, t[i].mode, &to);

		ok(insn_length(t[i].code, 8, t[i].mode) == t[i].size &&
		   is == (t[i].to != 0) && to == t[i].to,
		   "length and target of x86, row %zu: %d, 0x%llx", i,
		   insn_length(t[i].code, 8, t[i].mode), (unsigned long long)to);
	}
}

int main(void)
{
	struct disasm *intel, *att;

	ok(disasm_new(&intel, DISASM_INTEL, NULL) == 0 &&
		   disasm_new(&att, DISASM_ATT, NULL) == 0, "two syntaxes");
#ifdef HAVE_CAPSTONE
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		check_row(intel, &rows[i], rows[i].text, "intel");
		if (rows[i].att)
			check_row(att, &rows[i], rows[i].att, "att");
	}
	check_fallback(intel);
#else
	(void)rows;
	(void)check_row;
	(void)check_fallback;
	skip("built without capstone");
#endif
	is_u64(insn_length(rows[1].code, 3, AUX_FLOW_MODE_X86_64), 3,
	       "insn_length x86-64");
	targets_x86();
	disasm_free(intel);
	disasm_free(att);
	disasm_free(NULL);
	return plan_done();
}
