/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The kinds of A64 instructions, against the architecture's own examples and, word
 * by word, against capstone: over the libraries of the cross compiler, and over
 * words of every encoding group, allocated or not.
 *
 * Known to differ: what capstone 4 does not have (pointer authentication, bc,
 * udf), which the table of cases covers.
 */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_CAPSTONE
#include <capstone/capstone.h>
#endif

#include "common/a64_insn.h"
#include "tests/unit/tap.h"

struct insn_case {
	uint32_t word;
	uint8_t cls;
	int32_t disp;
	const char *text;
};

/* table */
static const struct insn_case cases[] = {
	{ 0x14000000, A64_JUMP, 0, "b ." },
	{ 0x17ffffff, A64_JUMP, -4, "b .-4" },
	{ 0x15ffffff, A64_JUMP, 0x7fffffc, "b .+0x7fffffc" },
	{ 0x16000000, A64_JUMP, -0x8000000, "b .-0x8000000" },
	{ 0x94000001, A64_CALL, 4, "bl .+4" },
	{ 0x97fffff0, A64_CALL, -64, "bl .-64" },
	{ 0x54000040, A64_COND, 8, "b.eq .+8" },
	{ 0x54ffffee, A64_COND, -4, "b.al .-4" },
	{ 0x5480000f, A64_COND, -0x100000, "b.nv .-0x100000" },
	{ 0x54000051, A64_COND, 8, "bc.ne .+8" },
	{ 0x34000041, A64_COND, 8, "cbz w1, .+8" },
	{ 0xb5ffffe2, A64_COND, -4, "cbnz x2, .-4" },
	{ 0x36080041, A64_COND, 8, "tbz w1, #1, .+8" },
	{ 0xb7ffffe2, A64_COND, -4, "tbnz x2, #63, .-4" },
	{ 0x3603ffe0, A64_COND, 0x7ffc, "tbz w0, #0, .+0x7ffc" },
	{ 0x37040000, A64_COND, -0x8000, "tbnz w0, #0, .-0x8000" },
	{ 0xd65f03c0, A64_RET, 0, "ret" },
	{ 0xd65f0120, A64_RET, 0, "ret x9" },
	{ 0xd65f0bff, A64_RET, 0, "retaa" },
	{ 0xd65f0fff, A64_RET, 0, "retab" },
	{ 0xd61f0200, A64_IND_JUMP, 0, "br x16" },
	{ 0xd61f081f, A64_IND_JUMP, 0, "braaz x0" },
	{ 0xd61f0c3f, A64_IND_JUMP, 0, "brabz x1" },
	{ 0xd71f0801, A64_IND_JUMP, 0, "braa x0, x1" },
	{ 0xd71f0c5f, A64_IND_JUMP, 0, "brab x2, sp" },
	{ 0xd63f0100, A64_IND_CALL, 0, "blr x8" },
	{ 0xd63f089f, A64_IND_CALL, 0, "blraaz x4" },
	{ 0xd63f0cbf, A64_IND_CALL, 0, "blrabz x5" },
	{ 0xd73f0883, A64_IND_CALL, 0, "blraa x4, x3" },
	{ 0xd73f0c83, A64_IND_CALL, 0, "blrab x4, x3" },
	{ 0xd4000001, A64_SYSCALL, 0, "svc #0" },
	{ 0xd41fffe1, A64_SYSCALL, 0, "svc #0xffff" },
	{ 0xd4000002, A64_SYSCALL, 0, "hvc #0" },
	{ 0xd4000003, A64_SYSCALL, 0, "smc #0" },
	{ 0xd4200020, A64_SYSCALL, 0, "brk #1" },
	{ 0xd45e0000, A64_SYSCALL, 0, "hlt #0xf000" },
	{ 0xd4a00001, A64_SYSCALL, 0, "dcps1" },
	{ 0xd4a00003, A64_SYSCALL, 0, "dcps3" },
	{ 0x00000000, A64_SYSCALL, 0, "udf #0" },
	{ 0x0000ffff, A64_SYSCALL, 0, "udf #0xffff" },
	{ 0xd69f03e0, A64_FAR, 0, "eret" },
	{ 0xd69f0bff, A64_FAR, 0, "eretaa" },
	{ 0xd69f0fff, A64_FAR, 0, "eretab" },
	{ 0xd6bf03e0, A64_FAR, 0, "drps" },
	{ 0xd5033fdf, A64_ISB, 0, "isb" },
	{ 0xd50330df, A64_ISB, 0, "isb #0" },
	{ 0xd5033f9f, A64_OTHER, 0, "dsb sy" },
	{ 0xd50330ff, A64_OTHER, 0, "sb" },
	{ 0xd503201f, A64_OTHER, 0, "nop" },
	{ 0xd503203f, A64_OTHER, 0, "yield" },
	{ 0xd503205f, A64_OTHER, 0, "wfe" },
	{ 0xd503207f, A64_OTHER, 0, "wfi" },
	{ 0xd503233f, A64_OTHER, 0, "paciasp" },
	{ 0xd503245f, A64_OTHER, 0, "bti c" },
	{ 0xd4600000, A64_OTHER, 0, "tcancel #0" },
	/* FEAT_CMPBR, FEAT_PAuth_LR, FEAT_TEV */
	{ 0xf4df0025, A64_COND, 4, "cbeq x5, xzr, .+4" },
	{ 0x74c28041, A64_COND, 8, "cbbeq w1, w2, .+8" },
	{ 0x7423a005, A64_COND, -1024, "cbbge w5, w3, .-1024" },
	{ 0x7462fffe, A64_COND, -4, "cbhhs w30, w2, .-4" },
	{ 0x74e21fe0, A64_COND, 1020, "cbne w0, w2, .+1020" },
	{ 0x7500bfe3, A64_COND, -4, "cbgt w3, #1, .-4" },
	{ 0xf5e78020, A64_COND, 4, "cbne x0, #15, .+4" },
	{ 0x74420020, A64_COND, 4, "cbhi w0, w2, .+4" },
	{ 0x551fffbf, A64_RET, 0, "retaasppc .-0x3fff4" },
	{ 0x553ffffe, A64_UNKNOWN, 0, "no retabsppc: op2 is 30" },
	{ 0x553fffff, A64_RET, 0, "retabsppc .-0x3fffc" },
	{ 0xd65f0bf7, A64_RET, 0, "retaasppc x23" },
	{ 0xd65f0fe1, A64_RET, 0, "retabsppc x1" },
	{ 0xd6ff03e0, A64_FAR, 0, "texit" },
	{ 0xd6ff07e0, A64_FAR, 0, "texit nb" },
	{ 0xd4e00020, A64_SYSCALL, 0, "tenter #1" },
	{ 0xd4e20fe0, A64_SYSCALL, 0, "tenter #0x7f, nb" },
	/* between those: not allocated */
	{ 0x74820020, A64_UNKNOWN, 0, "no cb<cc>: cc is 4" },
	{ 0x75a20020, A64_UNKNOWN, 0, "no cb<cc>: cc is 5" },
	{ 0x74024020, A64_UNKNOWN, 0, "no cb<cc>: size 1" },
	{ 0xf4028020, A64_UNKNOWN, 0, "no cbb<cc> of 64 bits" },
	{ 0x75004020, A64_UNKNOWN, 0, "no cb<cc> #imm: bit 14" },
	{ 0x76000000, A64_UNKNOWN, 0, "0x76" },
	{ 0xf7ffffff, A64_UNKNOWN, 0, "0xf7" },
	{ 0x555fffbf, A64_UNKNOWN, 0, "miscellaneous branch, opc 2" },
	{ 0x56000000, A64_UNKNOWN, 0, "0x56" },
	{ 0x57ffffff, A64_UNKNOWN, 0, "0x57" },
	{ 0xd6ff0be0, A64_UNKNOWN, 0, "no texit: op3 is 2" },
	{ 0xd6ff03e1, A64_UNKNOWN, 0, "no texit: op4 is 1" },
	{ 0xd4000000, A64_UNKNOWN, 0, "no svc: LL is 0" },
	{ 0xd4c00000, A64_UNKNOWN, 0, "exception, opc 6" },
	{ 0xd4e40000, A64_UNKNOWN, 0, "no tenter: bit 18" },
	{ 0xd65f03c1, A64_UNKNOWN, 0, "no ret: op4 is 1" },
	{ 0xd65f0bdf, A64_UNKNOWN, 0, "no retaa: Rn is 30" },
	{ 0xd67f03c0, A64_UNKNOWN, 0, "unallocated opc 3" },
	{ 0xd7ff03e0, A64_UNKNOWN, 0, "unallocated opc 15" },
	{ 0xd61e0200, A64_UNKNOWN, 0, "no br: op2 is 30" },
	{ 0xd71f0001, A64_UNKNOWN, 0, "opc 8 without authentication" },
	/* no branches, allocated or not */
	{ 0xd5031000, A64_OTHER, 0, "wfet x0" },
	{ 0xd5233060, A64_OTHER, 0, "tstart x0" },
	{ 0xd5900000, A64_OTHER, 0, "tchangef" },
	{ 0xd57fffff, A64_OTHER, 0, "mrrs" },
	{ 0x00010000, A64_OTHER, 0, "reserved, no udf" },
};

static void check_cases(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct insn_case *c = &cases[i];
		struct a64_insn in;
		int cls = a64_insn_decode(c->word, &in);

		ok(cls == c->cls && in.cls == cls && in.disp == c->disp,
		   "%s: class %d, %d", c->text, cls, in.disp);
	}
}

#ifdef HAVE_CAPSTONE
struct sweep {
	csh cs;
	cs_insn *ci;
	long n, n_unknown, n_branches, n_bad;
};

static int class_by_capstone(const cs_insn *ci)
{
	/* capstone 4 has no ids for these, as it knows neither */
	if (!strcmp(ci->mnemonic, "udf"))
		return A64_SYSCALL;
	if (!strncmp(ci->mnemonic, "bc.", 3))
		return A64_COND;
	switch (ci->id) {
	case ARM64_INS_B:
		return ci->detail->arm64.cc == ARM64_CC_INVALID &&
		       !strcmp(ci->mnemonic, "b") ? A64_JUMP : A64_COND;
	case ARM64_INS_CBZ: case ARM64_INS_CBNZ:
	case ARM64_INS_TBZ: case ARM64_INS_TBNZ:
		return A64_COND;
	case ARM64_INS_BL:
		return A64_CALL;
	case ARM64_INS_BR:
		return A64_IND_JUMP;
	case ARM64_INS_BLR:
		return A64_IND_CALL;
	case ARM64_INS_RET:
		return A64_RET;
	case ARM64_INS_SVC: case ARM64_INS_HVC: case ARM64_INS_SMC:
	case ARM64_INS_BRK: case ARM64_INS_HLT:
	case ARM64_INS_DCPS1: case ARM64_INS_DCPS2: case ARM64_INS_DCPS3:
		return A64_SYSCALL;
	case ARM64_INS_ERET: case ARM64_INS_DRPS:
		return A64_FAR;
	case ARM64_INS_ISB:
		return A64_ISB;
	default:
		return A64_OTHER;
	}
}

static bool is_direct(int cls)
{
	return cls == A64_COND || cls == A64_JUMP || cls == A64_CALL;
}

static void compare_word(struct sweep *s, uint32_t word)
{
	const uint8_t *p = (const uint8_t *)&word;
	const uint64_t ip = 0x10000000;
	size_t left = sizeof(word);
	uint64_t at = ip;
	struct a64_insn in;
	const cs_arm64 *d;
	bool same;

	a64_insn_decode(word, &in);
	s->n++;
	if (!cs_disasm_iter(s->cs, &p, &left, &at, s->ci)) {
		s->n_unknown++;
		return;
	}
	d = &s->ci->detail->arm64;
	s->n_branches += in.cls != A64_OTHER;
	/* a word that capstone knows is no unknown branch */
	same = in.cls == class_by_capstone(s->ci);
	if (same && is_direct(in.cls))
		same = d->op_count && (uint64_t)d->operands[d->op_count - 1].imm ==
		       ip + (uint64_t)(int64_t)in.disp;
	if (!same && s->n_bad++ < 5)
		printf("# %08x: class %u, %d; capstone: %s %s\n", word, in.cls,
		       in.disp, s->ci->mnemonic, s->ci->op_str);
}

static void sweep_sections(struct sweep *s, const uint8_t *f, size_t size)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;
	uint32_t word;

	memcpy(&eh, f, sizeof(eh));
	for (size_t i = 0; i < eh.e_shnum && eh.e_machine == EM_AARCH64; i++) {
		if (eh.e_shoff + (i + 1) * sizeof(sh) > size)
			return;
		memcpy(&sh, f + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (!(sh.sh_flags & SHF_EXECINSTR) || sh.sh_type != SHT_PROGBITS ||
		    sh.sh_offset > size || sh.sh_size > size - sh.sh_offset)
			continue;
		for (size_t at = 0; at + 4 <= sh.sh_size; at += 4) {
			memcpy(&word, f + sh.sh_offset + at, 4);
			compare_word(s, word);
		}
	}
}

static void sweep_file(struct sweep *s, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *f = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st) && st.st_size >= (off_t)sizeof(Elf64_Ehdr))
		f = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (f == MAP_FAILED)
		return;
	if (!memcmp(f, ELFMAG, SELFMAG))
		sweep_sections(s, f, (size_t)st.st_size);
	munmap(f, (size_t)st.st_size);
}

static void sweep_libraries(struct sweep *s, const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	char path[512];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (strstr(e->d_name, ".so") && !lstat(path, &st) &&
		    S_ISREG(st.st_mode))
			sweep_file(s, path);
	}
	if (d)
		closedir(d);
	ok(s->n > 1000000 && s->n_branches > 100000 && !s->n_bad,
	   "%s: %ld words, %ld branches and the like, %ld unknown to capstone, "
	   "%ld differ", dir, s->n, s->n_branches, s->n_unknown, s->n_bad);
}

/* Every upper half, with lower halves that set its fields to many values. */
static void sweep_encodings(struct sweep *s)
{
	static const uint16_t low[] = {
		0, 1, 2, 3, 0x1f, 0x20, 0x3c0, 0x3c1, 0x3e0, 0x7e0, 0x1f00,
		0x30df, 0x3fdf, 0x3f9f, 0x33bf, 0xffff, 0x8000, 0x7fe1,
	};

	for (uint32_t high = 0; high < 0x10000; high++)
		for (size_t i = 0; i < sizeof(low) / sizeof(low[0]); i++)
			compare_word(s, high << 16 | low[i]);
	ok(!s->n_bad, "all upper halves: %ld words, %ld unknown to capstone, %ld "
	   "differ", s->n, s->n_unknown, s->n_bad);
}

static void sweep(void)
{
	struct sweep s = { 0 }, all = { 0 };

	if (!ok(!cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, &s.cs), "capstone"))
		return;
	cs_option(s.cs, CS_OPT_DETAIL, CS_OPT_ON);
	s.ci = cs_malloc(s.cs);
	all.cs = s.cs;
	all.ci = s.ci;
	sweep_libraries(&s, "/usr/aarch64-linux-gnu/lib");
	sweep_encodings(&all);
	cs_free(s.ci, 1);
	cs_close(&s.cs);
}
#else
static void sweep(void)
{
	skip("built without capstone");
}
#endif

int main(void)
{
	check_cases();
	sweep();
	return plan_done();
}
