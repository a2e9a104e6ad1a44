/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Length and branch kind of one x86 instruction.
 *
 * A table says what follows each opcode of the legacy maps; the other maps
 * (0F38, 0F3A, VEX, EVEX, XOP) are regular. Opcodes that no CPU defines are
 * given the length their map implies: what ran was valid, so only the bytes
 * that can never start an instruction are refused. Instructions without a
 * prefix other than REX take a fast path with almost no branches; both paths
 * read the same table.
 *
 * Specification: Intel SDM volume 2, chapter 2 and appendix A; chapter "Intel
 * Processor Trace" for the kinds; Intel APX architecture specification. Near
 * branches keep 32-bit displacements under an operand-size prefix, as Intel
 * (not AMD) does in 64-bit mode.
 */
#include <stdbool.h>
#include <string.h>

#include "common/x86_insn.h"

/* ---- what follows each opcode, as a number ---- */

/*
 * What follows an opcode, as one number. Bits 0 to 3 and 28 to 31 serve the
 * quick way: a mask for the size of ModRM with what it brings, and the
 * immediate's size where no prefix changes it. Bits 8 to 15 are the class.
 */
enum {
	M = 7,			/* there is a ModRM */
	WIDE = 1 << 3,		/* 8 bytes of immediate with REX.W */
	CLASS_SHIFT = 8,
	KIND_SHIFT = 16,	/* of the immediate */
	OPZ = 1 << 22,		/* the immediate is 2 bytes under 66 */
	REL = 1 << 23,		/* the immediate is a displacement */
	STR = 1 << 24,		/* string instruction */
	GROUP = 1 << 25,	/* ModRM decides */
	XX = 1 << 26,		/* invalid */
	PF = 1 << 27,		/* prefix or escape, not an opcode */
	SIZE_SHIFT = 28,
	NOT_QUICK = GROUP | XX | PF,
};

/* Immediates, as the shift that gives their size in a word of sizes. */
#define KIND(k, size) \
	((k) << 2 << KIND_SHIFT | (int)((unsigned)(size) << SIZE_SHIFT))
enum {
	IB = KIND(1, 1),
	IW = KIND(2, 2),
	IZ = KIND(3, 4) | OPZ,		/* as wide as operands, at most 4 */
	IV = KIND(4, 4) | OPZ | WIDE,	/* IZ, but 8 with REX.W */
	AO = KIND(5, 8),		/* an address */
	EN = KIND(6, 3),		/* ENTER: 2 + 1 */
	JZ = KIND(7, 4),		/* IZ; always 4 in 64-bit mode */
	FP = KIND(8, 6),		/* far pointer: IZ + 2 */
	IMM = KIND(15, 15) | OPZ | WIDE,
};

static unsigned kind_of(unsigned form)
{
	return form >> KIND_SHIFT & 0x3c;
}

enum {
	MB = M | IB,
	MZ = M | IZ,
	MG = M | GROUP,
	CC = IB | REL | X86_COND << CLASS_SHIFT,
	CZ = JZ | REL | X86_COND << CLASS_SHIFT,
	JB = IB | REL | X86_JUMP << CLASS_SHIFT,
	JJ = JZ | REL | X86_JUMP << CLASS_SHIFT,
	CA = JZ | REL | X86_CALL << CLASS_SHIFT,
	RE = X86_RET << CLASS_SHIFT,
	RW = IW | RE,
	SY = X86_SYSCALL << CLASS_SHIFT,
	SI = IB | SY,
	FA = X86_FAR << CLASS_SHIFT,
	FW = IW | FA,
};

/* Opcodes of one byte in 64-bit mode, then those after 0F. table */
static const uint32_t opcodes[512] = {
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, PF,		/* 00 */
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, XX,
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,		/* 20 */
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,
	PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF,	/* 40 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	XX, XX, PF, M, PF, PF, PF, PF, IZ, MZ, IB, MB, STR, STR, STR, STR,
	CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC, CC,
	MB, MZ, XX, MB, M, M, M, M, M, M, M, M, M, M, M, MG,		/* 80 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, XX, 0, 0, 0, 0, 0,
	AO, AO, AO, AO, STR, STR, STR, STR, IB, IZ, STR, STR, STR, STR, STR, STR,
	IB, IB, IB, IB, IB, IB, IB, IB, IV, IV, IV, IV, IV, IV, IV, IV,
	MB, MB, RW, RE, PF, PF, MB, MZ, EN, 0, FW, FA, SY, SI, XX, FA,	/* c0 */
	M, M, M, M, XX, PF, XX, 0, M, M, M, M, M, M, M, M,
	CC, CC, CC, CC, IB, IB, IB, IB, CA, JJ, XX, JB, 0, 0, 0, 0,	/* e0 */
	PF, SY, PF, PF, 0, 0, MG, MG, 0, 0, 0, 0, 0, 0, M, MG,

	M, MG, M, M, XX, SY, 0, FA, 0, 0, XX, 0, XX, M, 0, MB,		/* 00 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	MG, MG, MG, MG, XX, XX, XX, XX, M, M, M, M, M, M, M, M,		/* 20 */
	0, 0, 0, 0, SY, FA, XX, 0, PF, XX, PF, XX, XX, XX, XX, XX,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 40 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 60 */
	MB, MB, MB, MB, M, M, M, 0, MG, M, XX, XX, M, M, M, M,
	CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ, CZ,	/* 80 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	0, 0, 0, M, MB, M, M, M, 0, 0, FA, M, MB, M, MG, M,		/* a0 */
	M, M, M, M, M, M, M, M, M, M, MB, M, M, M, M, M,
	M, M, MB, M, MB, MB, MB, M, 0, 0, 0, 0, 0, 0, 0, 0,		/* c0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* e0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
};

/* ModRM, SIB and displacement, without what a SIB without base adds. table */
static const uint8_t modrm_sizes[256] = {
#define ROW(a, sib, rip) a, a, a, a, sib, rip, a, a
#define MOD(a, sib, rip) \
	ROW(a, sib, rip), ROW(a, sib, rip), ROW(a, sib, rip), \
	ROW(a, sib, rip), ROW(a, sib, rip), ROW(a, sib, rip), \
	ROW(a, sib, rip), ROW(a, sib, rip)
	MOD(1, 2, 5), MOD(2, 3, 2), MOD(5, 6, 5), MOD(1, 1, 1),
#undef MOD
#undef ROW
};

/* The kinds of prefix; struct decoder.before has a bit for each that was
 * there. */
enum {
	OPSIZE = 1,
	ADDRSIZE = 2,
	LOCK = 4,
	REPNE = 8,
	REP = 0x10,
	SEGMENT = 0x20,
	REX = 0x40,
	REX_W = 0x80,
};

/* table */
static const uint8_t prefixes[256] = {
	[0x26] = SEGMENT, [0x2e] = SEGMENT, [0x36] = SEGMENT, [0x3e] = SEGMENT,
	[0x64] = SEGMENT, [0x65] = SEGMENT, [0x66] = OPSIZE, [0x67] = ADDRSIZE,
	[0xf0] = LOCK, [0xf2] = REPNE, [0xf3] = REP,
};

/* ---- instructions ---- */

#define INSN_MAX 15
#define PADDED 32	/* reads never go further, whatever the prefixes and fields */

/* Opcode maps, numbered as VEX.mmmmm and XOP.map_select do. */
enum {
	MAP_1BYTE = 0, MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3, MAP_EVEX4 = 4,
	MAP_5 = 5, MAP_6 = 6, MAP_7 = 7, MAP_XOP8 = 8, MAP_XOP9 = 9,
	MAP_XOPA = 10,
};

/* The decoder reads up to PADDED bytes from where it starts. */
struct decoder {
	const uint8_t *p;	/* the next byte */
	enum x86_mode mode;
	uint8_t before;		/* OPSIZE... */
	uint8_t map, op, modrm;
	bool vector;		/* VEX, EVEX or XOP */
	bool rex2;
};

static inline uint32_t load32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static int64_t read_rel(const uint8_t *p, unsigned size)
{
	uint32_t v = load32(p);

	return size == 1 ? (int8_t)v : size == 2 ? (int16_t)v : (int32_t)v;
}

/* ---- any instruction ---- */

/* Leaves p on the escape, VEX-like prefix or opcode. */
static int read_prefixes(struct decoder *d)
{
	const uint8_t *end = d->p + INSN_MAX;
	uint8_t before = 0, bits;

	for (; d->p < end; d->p++) {
		bits = prefixes[*d->p];
		if (bits) {		/* a REX before it is void */
			before &= (uint8_t)~(REX | REX_W);
			if (bits & (REP | REPNE))	/* the last one counts */
				before &= (uint8_t)~(REP | REPNE);
			before |= bits;
		} else if ((*d->p & 0xf0) == 0x40 && d->mode == X86_MODE_64) {
			before &= (uint8_t)~REX_W;
			before |= REX | (*d->p & 8 ? REX_W : 0);
		} else {
			d->before = before;
			return 0;
		}
	}
	return -1;
}

/* A VEX-like prefix: bytes between its first one and the opcode, and the
 * map. */
static int read_vector_prefix(struct decoder *d, size_t n_payload)
{
	if (d->before & (REX | OPSIZE | REP | REPNE | LOCK))
		return -1;
	d->vector = true;
	if (n_payload == 1) {		/* C5 */
		d->map = MAP_0F;
	} else if (*d->p == 0x62) {	/* bits 3 and up of P0 are registers */
		d->map = d->p[1] & 7;
		d->before |= (d->p[2] & 3) == 1 ? OPSIZE : 0;
		d->before |= d->p[2] & 0x80 ? REX_W : 0;
	} else {			/* C4, 8F */
		d->map = d->p[1] & 0x1f;
	}
	d->p += n_payload + 1;
	return d->map == MAP_1BYTE ? -1 : 0;
}

/* REX2 (APX): a payload byte whose top bit selects the map. */
static int read_rex2(struct decoder *d)
{
	if (d->before & REX)
		return -1;
	d->rex2 = true;
	d->before |= d->p[1] & 8 ? REX_W : 0;
	d->map = d->p[1] & 0x80 ? MAP_0F : MAP_1BYTE;
	d->p += 2;
	return 0;
}

static void read_escape(struct decoder *d)
{
	d->p++;
	d->map = MAP_0F;
	if (*d->p != 0x38 && *d->p != 0x3a)
		return;
	d->map = *d->p == 0x38 ? MAP_0F38 : MAP_0F3A;
	d->p++;
}

/* Out of 64-bit mode, LES, LDS and BOUND have their opcodes, and want
 * memory. */
static bool is_vector(const struct decoder *d)
{
	return d->mode == X86_MODE_64 || d->p[1] >= 0xc0;
}

static int read_opcode(struct decoder *d)
{
	int err = 0;

	switch (*d->p) {
	case 0x0f:
		read_escape(d);
		break;
	case 0xc5:
		err = is_vector(d) ? read_vector_prefix(d, 1) : 0;
		break;
	case 0xc4:
		err = is_vector(d) ? read_vector_prefix(d, 2) : 0;
		break;
	case 0x62:
		err = is_vector(d) ? read_vector_prefix(d, 3) : 0;
		break;
	case 0x8f:	/* POP, or XOP when the map would be 8 or more */
		if ((d->p[1] & 0x1f) >= MAP_XOP8)
			err = read_vector_prefix(d, 2);
		break;
	case 0xd5:
		err = d->mode == X86_MODE_64 ? read_rex2(d) : 0;
		break;
	}
	d->op = *d->p++;
	return err;
}

/* What follows an opcode under VEX, EVEX or XOP. */
static unsigned vector_form(const struct decoder *d)
{
	unsigned one = opcodes[d->op], two = opcodes[256 + d->op];

	switch (d->map) {
	case MAP_0F:
		if (d->op == 0x77)	/* VZEROUPPER, VZEROALL */
			return 0;
		return M | ((two & IMM) == IB ? IB : 0);
	case MAP_0F38:
	case MAP_5:
	case MAP_6:
	case MAP_XOP9:
		return M;
	case MAP_0F3A:
	case MAP_XOP8:
		return MB;
	case MAP_EVEX4:	/* APX: legacy opcodes with three operands */
		if (d->op == 0x24 || d->op == 0x2c || d->op == 0xd4)
			return MB;	/* SHLD, SHRD, SHA1RNDS4 */
		if ((d->op >= 0x40 && d->op <= 0x4f) || !(one & M))
			return M;
		return M | (one & (IMM | GROUP));
	case MAP_7:	/* always 4 bytes, as JZ is in 64-bit mode */
	case MAP_XOPA:
		return M | JZ;
	default:
		return XX;
	}
}

/* One-byte opcodes that differ outside 64-bit mode. */
static unsigned legacy_form(uint8_t op)
{
	switch (op) {
	case 0x06: case 0x07: case 0x0e: case 0x16: case 0x17: case 0x1e:
	case 0x1f: case 0x27: case 0x2f: case 0x37: case 0x3f:
	case 0x40 ... 0x4f: case 0x60: case 0x61: case 0xd6:
		return 0;
	case 0x62: case 0xc4: case 0xc5:
		return M;
	case 0x82:
		return MB;
	case 0x9a: case 0xea:
		return FP | FA;
	case 0xce:
		return SY;
	case 0xd4: case 0xd5:
		return IB;
	default:
		return opcodes[op];
	}
}

/* Rows of the opcode maps that REX2 makes reserved. */
static bool is_reserved(const struct decoder *d)
{
	unsigned row = d->op >> 4;

	if (d->map == MAP_0F)
		return row == 3 || row == 8;
	return row == 4 || row == 7 || row == 0xa || row == 0xe;
}

static unsigned opcode_form(const struct decoder *d)
{
	if (d->vector)
		return vector_form(d);
	if (d->rex2 && d->map == MAP_1BYTE && d->op == 0xa1)
		/* JMPABS: PT gives a TIP */
		return d->before & ~SEGMENT ? XX :
			AO | X86_IND_JUMP << CLASS_SHIFT;
	if (d->rex2 && is_reserved(d))
		return XX;
	switch (d->map) {
	case MAP_1BYTE:
		return d->mode == X86_MODE_64 ? opcodes[d->op] :
						legacy_form(d->op);
	case MAP_0F:
		if (d->op == 0x78 && d->before & (OPSIZE | REPNE))
			return M | IW;	/* EXTRQ, INSERTQ: two bytes */
		return opcodes[256 + d->op];
	case MAP_0F38:
		return M;
	default:
		return MB;
	}
}

static bool is_wide(const struct decoder *d, unsigned bit)
{
	return (d->mode != X86_MODE_16) ^ !!(d->before & bit);
}

static void skip_modrm(struct decoder *d)
{
	uint8_t m = d->modrm = *d->p;

	/* moves from and to control and debug registers ignore mod */
	if (m >= 0xc0 || (d->map == MAP_0F && !d->vector && d->op >= 0x20 &&
			  d->op <= 0x23)) {
		d->p++;
	} else if (d->mode == X86_MODE_64 || is_wide(d, ADDRSIZE)) {
		if ((m & 0xc7) == 4 && (d->p[1] & 7) == 5)
			d->p += 4;
		d->p += modrm_sizes[m];
	} else {
		d->p += m >= 0x80 || (m & 0xc7) == 6 ? 3 : m >= 0x40 ? 2 : 1;
	}
}

/* F6, F7: an immediate only for TEST */
static unsigned group3_form(uint8_t op, uint8_t modrm)
{
	return modrm & 0x30 ? M : op & 1 ? MZ : MB;
}

static unsigned imm_size(const struct decoder *d, unsigned form)
{
	bool w = d->before & REX_W, in64 = d->mode == X86_MODE_64;
	unsigned z = w || is_wide(d, OPSIZE) ? 4 : 2;
	unsigned a = is_wide(d, ADDRSIZE) ? 4 : 2;
	uint64_t sizes;

	if (in64)
		a = d->before & ADDRSIZE ? 4 : 8;
	if (form & GROUP && (d->op & 0xfe) == 0xf6 && d->map != MAP_0F)
		form = group3_form(d->op, d->modrm);
	sizes = UINT64_C(1) << kind_of(IB) | UINT64_C(2) << kind_of(IW) |
		UINT64_C(3) << kind_of(EN) | (uint64_t)z << kind_of(IZ) |
		(uint64_t)(w ? 8 : z) << kind_of(IV) |
		(uint64_t)a << kind_of(AO) |
		(uint64_t)(in64 ? 4 : z) << kind_of(JZ) |
		((uint64_t)z + 2) << kind_of(FP);
	return sizes >> kind_of(form) & 0xf;
}

static uint8_t class_group5(uint8_t modrm)
{
	static const uint8_t classes[8] = {
		[2] = X86_IND_CALL, [3] = X86_FAR, [4] = X86_IND_JUMP,
		[5] = X86_FAR,
	};

	return classes[modrm >> 3 & 7];
}

static uint8_t class_group7(const struct decoder *d)
{
	switch (d->modrm) {
	case 0xc1:	/* VMCALL */
	case 0xc2:	/* VMLAUNCH */
	case 0xc3:	/* VMRESUME */
		return X86_FAR;
	case 0xca:	/* ERETU, ERETS; else CLAC */
		return d->before & (REP | REPNE) ? X86_FAR : X86_OTHER;
	case 0xec:	/* UIRET */
		return d->before & REP ? X86_FAR : X86_OTHER;
	default:
		return X86_OTHER;
	}
}

/* The kind of an instruction whose opcode alone does not determine it. */
static uint8_t group_class(const struct decoder *d)
{
	if (d->map == MAP_1BYTE)
		return d->op == 0xff ? class_group5(d->modrm) : X86_OTHER;
	if (d->op == 0x01)
		return class_group7(d);
	if (d->op == 0xae && d->before & REP && (d->modrm >> 3 & 7) == 4)
		return X86_PTWRITE;
	return X86_OTHER;
}

static int decode_any(const uint8_t *p, enum x86_mode mode,
		      struct x86_insn *insn)
{
	struct decoder d = { .p = p, .mode = mode };
	unsigned form, size;

	if (read_prefixes(&d) < 0 || read_opcode(&d) < 0)
		return 0;
	form = opcode_form(&d);
	if (form & (XX | PF))
		return 0;
	if (form & M)
		skip_modrm(&d);
	size = imm_size(&d, form);
	if ((size_t)(d.p - p) + size > INSN_MAX)
		return 0;
	insn->size = (uint8_t)((size_t)(d.p - p) + size);
	insn->cls = (uint8_t)(form >> CLASS_SHIFT);
	if (form & GROUP && !d.vector)
		insn->cls = group_class(&d);
	insn->rep_string = form & STR && d.before & (REP | REPNE);
	insn->ip16 = form & REL && size && mode != X86_MODE_64 &&
		     !is_wide(&d, OPSIZE);
	insn->disp = form & REL ? read_rel(d.p, size) : 0;
	return insn->size;
}

/*
 * Copies the last bytes of a buffer, so that reads past max see zeros. The
 * attribute is spelled with underscores because noinline is a macro in the
 * kernel, where tools/pmu_sim compiles this file.
 */
__attribute__((__noinline__))
static int decode_checked(const uint8_t *p, size_t max, enum x86_mode mode,
			  struct x86_insn *insn)
{
	uint8_t padded[PADDED] = { 0 };
	int size;

	if (max >= PADDED)
		return decode_any(p, mode, insn);
	memcpy(padded, p, max);
	size = decode_any(padded, mode, insn);
	return (size_t)size <= max ? size : 0;
}

/* ---- the fast path ---- */

/* The form of a group that ModRM selects; XX: left to decode_any. */
static unsigned fast_group(unsigned op, unsigned modrm)
{
	if ((op | 1) == 0xf7)
		return group3_form((uint8_t)op, (uint8_t)modrm);
	if (op == 0xff)
		return M | (unsigned)class_group5((uint8_t)modrm) << CLASS_SHIFT;
	return XX;
}

/* Tell the compiler which condition to make a branch (predictable) and which a
 * conditional move (REX or not is a coin toss in real code). */
#define RARELY(x) __builtin_expect_with_probability(!!(x), 0, 0.999)
#define EITHER(x) __builtin_expect_with_probability(!!(x), 1, 0.5)

/*
 * w holds opcode, ModRM and SIB: a REX before them is skipped by selecting the
 * second of two words, and 0F is shifted out. prefix: the first byte is a
 * legacy prefix other than 67 (which would change the ModRM's size). groups:
 * decode group opcodes too; the first attempt does not. in32: in 32-bit mode, where
 * the opcodes of REX are INC and DEC, and the others that differ are no opcodes of
 * 64-bit mode. Returns the size, or 0 to leave it to decode_any.
 */
__attribute__((__always_inline__))
static inline int decode_fast(const uint8_t *p, bool prefix, bool groups, bool in32,
			       struct x86_insn *insn)
{
	unsigned rex, rex_w, form, op, n, size;
	uint32_t w = load32(p + prefix), after_rex = load32(p + prefix + 1);

	rex = !in32 && (w & 0xf0) == 0x40;
	rex_w = w & rex << 3;
	w = EITHER(rex) ? after_rex : w;
	n = prefix + rex + 1;
	op = w & 0xff;
	if (op == 0x0f) {
		w >>= 8;
		n++;
		op = 0x100 + (w & 0xff);
	}
	form = in32 && (op & 0x1f0) == 0x40 ? 0 : opcodes[op];
	if (groups && form & GROUP)
		form = fast_group(op, w >> 8 & 0xff);
	if (in32 && RARELY(form == (unsigned)AO || (prefix && form & REL)))
		return 0;
	if (RARELY(form & NOT_QUICK || (prefix && form & STR)))
		return 0;
	n += modrm_sizes[w >> 8 & 0xff] & form;
	if (RARELY((w & 0x07c700) == 0x050400))
		n += form & 4;		/* a SIB without base */
	size = form >> SIZE_SHIFT;
	if (prefix && *p == 0x66 && form & OPZ && !rex_w)
		size = 2;
	if (RARELY(form & rex_w))	/* WIDE */
		size = 8;
	*insn = (struct x86_insn){ .size = (uint8_t)(n + size),
				   .cls = (uint8_t)(form >> CLASS_SHIFT) };
	if (form & REL)
		insn->disp = read_rel(p + n, size);
	return (int)(n + size);
}

__attribute__((__noinline__))
static int decode_slowly(const uint8_t *p, size_t max, struct x86_insn *insn)
{
	int size;

	if (prefixes[*p] & (uint8_t)~ADDRSIZE)
		size = decode_fast(p, true, true, false, insn);
	else
		size = decode_fast(p, false, true, false, insn);
	return size ? size : decode_checked(p, max, X86_MODE_64, insn);
}

__attribute__((__noinline__))
static int decode_32_slowly(const uint8_t *p, size_t max, struct x86_insn *insn)
{
	int size;

	if (prefixes[*p] & (uint8_t)~ADDRSIZE)
		size = decode_fast(p, true, true, true, insn);
	else
		size = decode_fast(p, false, true, true, insn);
	return size ? size : decode_checked(p, max, X86_MODE_32, insn);
}

static int decode_32(const uint8_t *p, size_t max, struct x86_insn *insn)
{
	int size;

	if (RARELY(max < INSN_MAX))
		return decode_checked(p, max, X86_MODE_32, insn);
	size = decode_fast(p, false, false, true, insn);
	return size ? size : decode_32_slowly(p, max, insn);
}

int x86_insn_decode(const uint8_t *p, size_t max, struct x86_insn *insn)
{
	int size;

	if (RARELY(max < INSN_MAX))
		return decode_checked(p, max, X86_MODE_64, insn);
	size = decode_fast(p, false, false, false, insn);
	return size ? size : decode_slowly(p, max, insn);
}

int x86_insn_decode_in(const uint8_t *p, size_t max, enum x86_mode mode,
		       struct x86_insn *insn)
{
	if (mode == X86_MODE_64)
		return x86_insn_decode(p, max, insn);
	if (mode == X86_MODE_32)
		return decode_32(p, max, insn);
	return decode_checked(p, max, mode, insn);
}

int x86_insn_modrm(const uint8_t *p, size_t size)
{
	uint8_t padded[PADDED] = { 0 };
	struct decoder d = { .p = padded, .mode = X86_MODE_64 };
	unsigned form;

	memcpy(padded, p, size < INSN_MAX ? size : INSN_MAX);
	if (read_prefixes(&d) < 0 || read_opcode(&d) < 0)
		return 0;
	form = opcode_form(&d);
	return form & M && !(form & (XX | PF)) ? (int)(d.p - padded) : 0;
}
