/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * disasm and insn_target for A64, A32 and T32: branches by the Arm ARM's formulas
 * worked out by hand, IT blocks, and a whole program against its objdump listing.
 */
#include <stdbool.h>
#include <stdlib.h>

#include <aux/flow.h>

#include "decode/lib/elf/insn.h"
#include "tests/unit/tap.h"
#include "decode/lib/session/expand.h"

#define A64 AUX_FLOW_MODE_A64
#define A32 AUX_FLOW_MODE_A32
#define T32 AUX_FLOW_MODE_T32

struct row {
	unsigned mode;
	uint32_t word;	/* T32: the first halfword is the low one */
	int size;
	const char *text;
	uint64_t to;	/* 0: no direct branch */
};

/* All at 0x10000. table */
static const struct row rows[] = {
	{ A64, 0x14000004, 4, "b #0x10010", 0x10010 },
	{ A64, 0x97ffffff, 4, "bl #0xfffc", 0xfffc },
	{ A64, 0x54000041, 4, "b.ne #0x10008", 0x10008 },
	{ A64, 0xb4ffffe1, 4, "cbz x1, #0xfffc", 0xfffc },
	{ A64, 0x35000042, 4, "cbnz w2, #0x10008", 0x10008 },
	{ A64, 0x37080043, 4, "tbnz w3, #1, #0x10008", 0x10008 },
	{ A64, 0x36fffffe, 4, "tbz w30, #0x1f, #0xfffc", 0xfffc },
	{ A64, 0xd65f03c0, 4, "ret", 0 },
	{ A64, 0xd61f0220, 4, "br x17", 0 },
	{ A64, 0x1e602001, 4, NULL, 0 },
	/* as LLVM 20 writes them, with the target in place of the offset */
	{ A64, 0xd65f0bff, 4, "retaa", 0 },
	{ A64, 0xd65f0fff, 4, "retab", 0 },
	{ A64, 0xd69f0bff, 4, "eretaa", 0 },
	{ A64, 0xd61f0a3f, 4, "braaz x17", 0 },
	{ A64, 0xd63f0d1f, 4, "blrabz x8", 0 },
	{ A64, 0xd71f0a30, 4, "braa x17, x16", 0 },
	{ A64, 0xd73f0d1f, 4, "blrab x8, sp", 0 },
	{ A64, 0x5500003f, 4, "retaasppc #0xfffc", 0 },
	{ A64, 0x5520003f, 4, "retabsppc #0xfffc", 0 },
	{ A64, 0xd65f0be5, 4, "retaasppcr x5", 0 },
	{ A64, 0xd6ff03e0, 4, "texit", 0 },
	{ A64, 0x54000050, 4, "bc.eq #0x10008", 0x10008 },
	{ A64, 0xf4df0025, 4, "cbeq x5, xzr, #0x10004", 0x10004 },
	{ A64, 0x7423a005, 4, "cbbge w5, w3, #0xfc00", 0xfc00 },
	{ A64, 0x7443e005, 4, "cbhhi w5, w3, #0xfc00", 0xfc00 },
	{ A64, 0xf53fa005, 4, "cblt x5, #63, #0xfc00", 0xfc00 },
	{ A64, 0x74e10040, 4, "cbne w0, w1, #0x10008", 0x10008 },
	{ A32, 0xea000002, 4, "b #0x10010", 0x10010 },
	{ A32, 0xebfffffe, 4, "bl #0x10000", 0x10000 },
	{ A32, 0x0affffff, 4, "beq #0x10004", 0x10004 },
	{ A32, 0xfb000000, 4, "blx #0x1000a", 0x1000a },
	{ A32, 0xe12fff1e, 4, "bx lr", 0 },
	{ A32, 0xe8bd8010, 4, "pop {r4, pc}", 0 },
	{ T32, 0xd0fe, 2, "beq #0x10000", 0x10000 },
	{ T32, 0xe7fd, 2, "b #0xfffe", 0xfffe },
	{ T32, 0xdf01, 2, "svc #1", 0 },
	{ T32, 0xdefe, 2, "trap", 0 },
	{ T32, 0xb108, 2, "cbz r0, #0x10006", 0x10006 },
	{ T32, 0xbb01, 2, "cbnz r1, #0x10044", 0x10044 },
	{ T32, 0x4770, 2, "bx lr", 0 },
	{ T32, 0xf800f000, 4, "bl #0x10004", 0x10004 },
	{ T32, 0xfffef7ff, 4, "bl #0x10000", 0x10000 },
	{ T32, 0xe802f000, 4, "blx #0x10008", 0x10008 },
	{ T32, 0xb802f000, 4, "b.w #0x10008", 0x10008 },
	{ T32, 0x8002f000, 4, "beq.w #0x10008", 0x10008 },
	{ T32, 0x8f4ff3bf, 4, "dsb sy", 0 },
	{ T32, 0xbd10, 2, "pop {r4, pc}", 0 },
};

static void put_word(uint8_t p[4], uint32_t w)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(w >> 8 * i);
}

static void check_rows(struct disasm *d)
{
	char text[128], name[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint64_t to = 0;
		uint8_t p[4];

		put_word(p, r->word);
		snprintf(name, sizeof(name), "mode %#x, %#x", r->mode, r->word);
		is_u64(disasm_text(d, p, 4, 0x10000, r->mode, text,
				   sizeof(text)), r->size, name);
#ifdef HAVE_CAPSTONE
		if (r->text)
			is_str(text, r->text, name);
#endif
		if (!insn_target(p, 4, 0x10000, r->mode, &to))
			to = 0;
		is_u64(to, r->to, name);
		ok(!insn_target(p, (size_t)r->size - 1, 0x10000, r->mode, &to),
		   "none when it is cut");
	}
}

#ifdef HAVE_CAPSTONE
/* it eq; mov r0, r1 -- and the mov elsewhere */
static void check_it(struct disasm *d)
{
	static const uint8_t code[] = { 0x08, 0xbf, 0x08, 0x46 };
	char text[64];

	disasm_text(d, code, 2, 0x100, T32, text, sizeof(text));
	is_str(text, "it eq", "an IT instruction");
	disasm_text(d, code + 2, 2, 0x102, T32, text, sizeof(text));
	is_str(text, "moveq r0, r1", "has a condition for the next one");
	disasm_text(d, code, 2, 0x100, T32, text, sizeof(text));
	disasm_text(d, code + 2, 2, 0x9000, T32, text, sizeof(text));
	is_str(text, "mov r0, r1", "not for one elsewhere");
}

/* Other words for the same instruction. */
static bool same_mnemonic(const char *a, const char *b)
{
	/* table */
	static const char *const pairs[][2] = {
		{ "b.hs", "b.cs" }, { "b.lo", "b.cc" }, { "movz", "mov" },
		{ "movn", "mov" },  { "orr", "mov" },
	};

	if (!strcmp(a, b))
		return true;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		if (!strcmp(a, pairs[i][0]) && !strcmp(b, pairs[i][1]))
			return true;
	}
	return false;
}

/* Lines "     660:	9400002e 	bl	718 <call_weak_fn>" */
static void check_listing(struct disasm *d, FILE *f)
{
	unsigned n = 0, n_bad = 0, n_to = 0;
	char line[512], text[128], theirs[64], operands[256], ours[64];

	while (fgets(line, sizeof(line), f)) {
		uint64_t ip, to, want;
		uint32_t word;
		uint8_t p[4];
		char *last;

		*operands = '\0';
		if (sscanf(line, " %" SCNx64 ": %8x %63s %255[^\n<]", &ip,
			   &word, theirs, operands) < 3 || *theirs == '.')
			continue;
		put_word(p, word);
		n++;
		if (disasm_text(d, p, 4, ip, A64, text, sizeof(text)) != 4 ||
		    sscanf(text, "%63s", ours) != 1 ||
		    !same_mnemonic(ours, theirs)) {
			printf("# %s: %s", text, line);
			n_bad++;
		}
		if (!insn_target(p, 4, ip, A64, &to))
			continue;
		last = strrchr(operands, ' ');
		while (last && !last[1]) { /* blanks behind it */
			*last = '\0';
			last = strrchr(operands, ' ');
		}
		want = strtoull(last ? last + 1 : operands, NULL, 16);
		n_to++;
		if (want != to) {
			printf("# to %#" PRIx64 ": %s", to, line);
			n_bad++;
		}
	}
	ok(n > 100 && n_to > 20 && !n_bad, "%u instructions of a listing by "
	   "objdump, %u direct branches", n, n_to);
}
#endif

int main(void)
{
	const char *corpus = getenv("AUXKIT_CORPUS");
	struct disasm *d;
	char path[4096];
	FILE *f;

	if (!ok(disasm_new(&d, DISASM_INTEL, NULL) == 0, "a disassembler"))
		return plan_done();
	check_rows(d);
	snprintf(path, sizeof(path), "%s/coresight-decoder/tests/fib/"
		 "fib.objdump", corpus ? corpus : "../shared/corpus");
	f = fopen(path, "r");
#ifdef HAVE_CAPSTONE
	check_it(d);
	if (f)
		check_listing(d, f);
#endif
	if (!f)
		skip("corpus: no recorded traces here");
	else
		fclose(f);
	disasm_free(d);
	return plan_done();
}
