/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: CAPSTONE IPT */
/* links: decode */
/*
 * The length decoder over whole programs of this machine, and over made-up bytes
 * in three modes, against capstone (length, branch groups) and libipt (length,
 * class). Each difference has its reason in explain(); none is in a program.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <intel-pt.h>
/* both capstone and we have an x86_insn */
#define x86_insn our_insn
#include "common/x86_insn.h"
#undef x86_insn
#include <capstone/capstone.h>

#include "tests/unit/tap.h"

struct text {
	const uint8_t *bytes;
	uint64_t addr, len;
};

struct sweep {
	csh cs;
	cs_insn *ci;
	struct pt_insn_decoder *pt;
	uint8_t trace[32];	/* one PSB+, see make_trace */
	size_t fup;
	struct text t;
	enum x86_mode mode;
	long n, cs_unknown, cs_bad, pt_bad;
};

/* PSB, MODE.Exec, FUP with a full address, PSBEND */
static size_t make_trace(struct sweep *s)
{
	static const uint8_t exec[] = { [X86_MODE_64] = 1, [X86_MODE_32] = 2 };
	size_t n = 0;

	while (n < 16) {
		s->trace[n++] = 0x02;
		s->trace[n++] = 0x82;
	}
	s->trace[n++] = 0x99;
	s->trace[n++] = s->mode == X86_MODE_16 ? 0 : exec[s->mode];
	s->trace[n++] = 0xdd;
	s->fup = n;
	n += 8;
	s->trace[n++] = 0x02;
	s->trace[n++] = 0x23;
	return n;
}

static int read_text(uint8_t *buf, size_t n, const struct pt_asid *asid,
		     uint64_t ip, void *arg)
{
	const struct text *t = arg;

	(void)asid;
	if (ip < t->addr || ip - t->addr >= t->len)
		return -pte_nomap;
	if (n > t->len - (ip - t->addr))
		n = t->len - (ip - t->addr);
	memcpy(buf, t->bytes + (ip - t->addr), n);
	return (int)n;
}

static bool pt_class_is(enum pt_insn_class c, uint8_t cls)
{
	switch (c) {
	case ptic_other:
		return cls == X86_OTHER;
	case ptic_call:
		return cls == X86_CALL || cls == X86_IND_CALL;
	case ptic_return:
		return cls == X86_RET;
	case ptic_jump:
		return cls == X86_JUMP || cls == X86_IND_JUMP;
	case ptic_cond_jump:
		return cls == X86_COND;
	case ptic_far_call:
	case ptic_far_return:
	case ptic_far_jump:
		return cls == X86_SYSCALL || cls == X86_FAR;
	case ptic_ptwrite:
		return cls == X86_PTWRITE;
	default:
		return false;
	}
}

/* A decoder put at ip by a synthetic PSB+ gives the instruction there. */
static struct pt_insn ask_libipt(struct sweep *s, uint64_t ip)
{
	struct pt_insn pi = { 0 };
	struct pt_event ev;
	int st;

	memcpy(s->trace + s->fup, &ip, sizeof(ip));
	st = pt_insn_sync_set(s->pt, 0);
	while (st >= 0 && (st & pts_event_pending))
		st = pt_insn_event(s->pt, &ev, sizeof(ev));
	if (st >= 0)
		pt_insn_next(s->pt, &pi, sizeof(pi));
	return pi;
}

static bool libipt_agrees(struct sweep *s, uint64_t ip,
			  const struct our_insn *in)
{
	struct pt_insn pi = ask_libipt(s, ip);

	return pi.ip == ip && pi.size == in->size &&
	       pt_class_is(pi.iclass, in->cls);
}

static bool capstone_agrees(struct sweep *s, const struct our_insn *in)
{
	const cs_insn *ci = s->ci;
	bool rel = in->cls == X86_COND || in->cls == X86_JUMP ||
		   in->cls == X86_CALL;
	bool ret = cs_insn_group(s->cs, ci, CS_GRP_RET);
	/* capstone counts XBEGIN, PT does not */
	bool cs_rel = cs_insn_group(s->cs, ci, CS_GRP_BRANCH_RELATIVE) &&
		      ci->id != X86_INS_XBEGIN;

	if (ci->size != in->size)
		return false;
	if (rel && (uint64_t)ci->detail->x86.operands[0].imm !=
		   ci->address + in->size + (uint64_t)in->disp)
		return false;
	return rel == cs_rel &&
	       (in->cls == X86_RET ? ret : !ret || in->cls == X86_FAR);
}

static void sweep_text(struct sweep *s)
{
	uint64_t off = 0;

	while (off < s->t.len) {
		struct our_insn in;
		const uint8_t *p = s->t.bytes + off;
		size_t left = s->t.len - off;
		uint64_t ip = s->t.addr + off;

		if (!x86_insn_decode(p, left, &in)) {
			off++;	/* data between functions */
			continue;
		}
		s->n++;
		if (!libipt_agrees(s, ip, &in) && s->pt_bad++ < 5)
			printf("# libipt differs at %#lx\n", (long)ip);
		if (!cs_disasm_iter(s->cs, &p, &left, &ip, s->ci))
			s->cs_unknown++;
		else if (!capstone_agrees(s, &in) && s->cs_bad++ < 5)
			printf("# capstone differs at %#lx: %s %s\n",
			       (long)s->ci->address, s->ci->mnemonic,
			       s->ci->op_str);
		off += in.size;
	}
}

static void sweep_sections(struct sweep *s, const uint8_t *f, size_t size)
{
	Elf64_Ehdr eh;
	Elf64_Shdr sh;

	memcpy(&eh, f, sizeof(eh));
	for (size_t i = 0; i < eh.e_shnum; i++) {
		if (eh.e_shoff + (i + 1) * sizeof(sh) > size)
			return;
		memcpy(&sh, f + eh.e_shoff + i * sizeof(sh), sizeof(sh));
		if (!(sh.sh_flags & SHF_EXECINSTR) ||
		    sh.sh_offset > size || sh.sh_size > size - sh.sh_offset)
			continue;
		s->t = (struct text){ f + sh.sh_offset, sh.sh_addr,
				      sh.sh_size };
		sweep_text(s);
	}
}

static int open_decoders(struct sweep *s)
{
	static const cs_mode modes[] = { [X86_MODE_64] = CS_MODE_64,
		[X86_MODE_32] = CS_MODE_32, [X86_MODE_16] = CS_MODE_16 };
	struct pt_config config;

	pt_config_init(&config);
	config.begin = s->trace;
	config.end = s->trace + make_trace(s);
	s->pt = pt_insn_alloc_decoder(&config);
	if (!s->pt || cs_open(CS_ARCH_X86, modes[s->mode], &s->cs))
		return -1;
	cs_option(s->cs, CS_OPT_DETAIL, CS_OPT_ON);
	s->ci = cs_malloc(s->cs);
	pt_image_set_callback(pt_insn_get_image(s->pt), read_text, &s->t);
	return 0;
}

static void sweep_file(const char *path)
{
	struct sweep s = { 0 };
	struct stat st;
	void *f = MAP_FAILED;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && !fstat(fd, &st) && st.st_size >= (off_t)sizeof(Elf64_Ehdr))
		f = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (f == MAP_FAILED || memcmp(f, ELFMAG, SELFMAG)) {
		ok(false, "%s is an ELF file", path);
		return;
	}
	if (ok(!open_decoders(&s), "decoders for %s", path)) {
		sweep_sections(&s, f, (size_t)st.st_size);
		ok(s.n > 50 && !s.cs_bad && !s.pt_bad, "%s: %ld instructions, "
		   "%ld unknown to capstone, %ld differ from it, %ld from libipt",
		   path, s.n, s.cs_unknown, s.cs_bad, s.pt_bad);
		cs_free(s.ci, 1);
		cs_close(&s.cs);
	}
	pt_insn_free_decoder(s.pt);
	munmap(f, (size_t)st.st_size);
}

/* ---- made-up bytes ---- */

#define N_RANDOM 60000

static uint32_t roll(uint32_t *seed, uint32_t n)
{
	*seed = *seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)*seed * n >> 32);
}

/* Prefixes, escapes and VEX-like prefixes are more frequent than by chance. */
static void make_bytes(uint8_t b[32], uint32_t *seed)
{
	static const uint8_t before[] = { 0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e,
		0x3e, 0x64, 0x48, 0x41 };
	static const uint8_t escapes[8][2] = { { 0x0f }, { 0x0f },
		{ 0x0f, 0x38 }, { 0x0f, 0x3a }, { 0xc4 }, { 0xc5 }, { 0x62 } };
	const uint8_t *e = escapes[roll(seed, 8)];
	int n = 0;

	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)roll(seed, 256);
	while (n < 4 && !roll(seed, 3))
		b[n++] = before[roll(seed, sizeof(before))];
	for (int i = 0; i < 2 && e[i]; i++)
		b[n++] = e[i];
}

/* Why one of the others may read these bytes in another way; NULL: it may not. */
static const char *explain(const struct sweep *s, const uint8_t *b,
			   const struct our_insn *in)
{
	bool opsize = false, rep = false, any = false;
	bool in64 = s->mode == X86_MODE_64;
	uint8_t op;

	for (;; b++) {
		bool rex = in64 && (*b & 0xf0) == 0x40;

		if (!rex && !memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf0\xf2"
				    "\xf3", *b, 11))
			break;
		opsize |= *b == 0x66;
		rep |= *b == 0xf2 || *b == 0xf3;
		any |= rex || *b == 0x66 || *b >= 0xf0;
	}
	op = b[0] == 0x0f ? b[1] : b[0];
	if (!in->size && any && memchr("\x62\x8f\xc4\xc5", op, 4))
		return "the SDM forbids these prefixes before VEX";
	if (b[0] == 0x62)
		return "capstone counts a rounding control's register twice";
	if (b[0] == 0x0f && (op == 0xff || op == 0xb9))
		return "UD0 and UD1 have a ModRM, which both leave out";
	if (b[0] == 0x0f && op == 0x78)
		return "EXTRQ and INSERTQ are VMREAD for capstone";
	if (b[0] == 0x0f && op == 0x0f)
		return "libipt knows no 3DNow!";
	if (b[0] == 0x0f && (op == 0xa6 || op == 0xa7))
		return "libipt knows no PadLock";
	if (b[0] == 0x0f && op == 0xaa)
		return "RSM is no branch for libipt";
	if (opsize && in->disp)
		return "capstone takes 66 of a near branch as AMD does";
	if (opsize && rep)
		return "capstone forgets 66 under F2 and F3";
	return NULL;
}

/* The quick way and the other one, which has no more than the instruction. */
static bool agrees_with_itself(const uint8_t *b, const struct our_insn *in)
{
	struct our_insn again = { 0 };

	if (in->size > 14)
		return true;
	return x86_insn_decode(b, in->size, &again) == in->size &&
	       again.cls == in->cls && again.disp == in->disp &&
	       again.rep_string == in->rep_string && again.ip16 == in->ip16;
}

static void random_mode(enum x86_mode mode, const char *text)
{
	struct sweep s = { .mode = mode };
	long alike = 0, explained = 0, bad = 0;
	uint32_t seed = 20;
	uint8_t b[32];

	if (!ok(!open_decoders(&s), "decoders for %s", text))
		return;
	s.t = (struct text){ b, 0x1000, sizeof(b) };
	for (int i = 0; i < N_RANDOM; i++) {
		struct our_insn in = { 0 };
		const uint8_t *p = b;
		size_t left = sizeof(b);
		uint64_t ip = s.t.addr;
		struct pt_insn pi;

		make_bytes(b, &seed);
		x86_insn_decode_in(b, sizeof(b), mode, &in);
		if (mode == X86_MODE_64 && in.size)
			s.cs_bad += !agrees_with_itself(b, &in);
		if (!cs_disasm_iter(s.cs, &p, &left, &ip, s.ci))
			continue;
		pi = ask_libipt(&s, s.t.addr);
		if (s.ci->size == in.size && pi.size == in.size &&
		    pt_class_is(pi.iclass, in.cls))
			alike++;
		else if (explain(&s, b, &in))
			explained++;
		else if (bad++ < 5)
			printf("# %d, capstone %d, libipt %d: %02x %02x %02x "
			       "%02x %02x %s\n", in.size, s.ci->size, pi.size,
			       b[0], b[1], b[2], b[3], b[4], s.ci->mnemonic);
	}
	ok(alike > N_RANDOM / 4 && !bad && explained < alike / 50,
	   "%s: %ld alike, %ld with a reason, %ld without", text, alike,
	   explained, bad);
	ok(!s.cs_bad, "%s: both ways are one", text);
	cs_free(s.ci, 1);
	cs_close(&s.cs);
	pt_insn_free_decoder(s.pt);
}

int main(void)
{
	random_mode(X86_MODE_64, "64 bits");
	random_mode(X86_MODE_32, "32 bits");
	random_mode(X86_MODE_16, "16 bits");
	sweep_file("/bin/bash");
	sweep_file("/lib/x86_64-linux-gnu/libc.so.6");
	sweep_file("/usr/bin/make");
	return plan_done();
}
