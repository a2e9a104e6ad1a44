/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Length and branch kind of one 64-bit mode instruction.
 *
 * Two tables say what follows each opcode of the legacy maps; the other maps
 * (0F38, 0F3A, VEX, EVEX, XOP) are regular. Opcodes that no CPU defines are
 * given the length their map implies: what ran was valid, so only the bytes
 * that can never start an instruction are refused.
 *
 * Specification: Intel SDM volume 2, chapter 2 and appendix A; chapter "Intel
 * Processor Trace" for the kinds. Near branches keep 32-bit displacements under
 * an operand-size prefix, as Intel (not AMD) does in 64-bit mode.
 */
#include <stdbool.h>
#include <string.h>

#include "internal/x86_insn.h"

/* What follows an opcode. Low nibble: immediate, M: ModRM. */
enum {
	IB = 1,		/* 1 byte */
	IW = 2,		/* 2 bytes */
	IZ = 3,		/* 4, or 2 under 66 without REX.W */
	IV = 4,		/* IZ, but 8 with REX.W */
	AO = 5,		/* an address: 8, or 4 under 67 */
	EN = 6,		/* ENTER: 2 + 1 */
	J1 = 7,		/* branch displacement of 1 byte */
	J4 = 8,		/* branch displacement of 4 bytes */
	G3 = 9,		/* F6, F7: an immediate only for TEST */
	IMM = 0xf,
	M = 0x10,
	PF = 0x20,	/* prefix or escape, not an opcode */
	XX = 0x40,	/* invalid in 64-bit mode */
	MB = M | IB,
	MZ = M | IZ,
	MG = M | G3,
};

/* table */
static const uint8_t one_byte[256] = {
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, PF,		/* 00 */
	M, M, M, M, IB, IZ, XX, XX, M, M, M, M, IB, IZ, XX, XX,
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,		/* 20 */
	M, M, M, M, IB, IZ, PF, XX, M, M, M, M, IB, IZ, PF, XX,
	PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF, PF,	/* 40 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	XX, XX, PF, M, PF, PF, PF, PF, IZ, MZ, IB, MB, 0, 0, 0, 0,	/* 60 */
	J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1, J1,
	MB, MZ, XX, MB, M, M, M, M, M, M, M, M, M, M, M, M,		/* 80 */
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, XX, 0, 0, 0, 0, 0,
	AO, AO, AO, AO, 0, 0, 0, 0, IB, IZ, 0, 0, 0, 0, 0, 0,		/* a0 */
	IB, IB, IB, IB, IB, IB, IB, IB, IV, IV, IV, IV, IV, IV, IV, IV,
	MB, MB, IW, 0, PF, PF, MB, MZ, EN, 0, IW, 0, 0, IB, XX, 0,	/* c0 */
	M, M, M, M, XX, PF, XX, 0, M, M, M, M, M, M, M, M,
	J1, J1, J1, J1, IB, IB, IB, IB, J4, J4, XX, J1, 0, 0, 0, 0,	/* e0 */
	PF, 0, PF, PF, 0, 0, MG, MG, 0, 0, 0, 0, 0, 0, M, M,
};

/* table */
static const uint8_t two_byte[256] = {
	M, M, M, M, XX, 0, 0, 0, 0, 0, XX, 0, XX, M, 0, MB,		/* 00 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, XX, XX, XX, XX, M, M, M, M, M, M, M, M,		/* 20 */
	0, 0, 0, 0, 0, 0, XX, 0, PF, XX, PF, XX, XX, XX, XX, XX,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 40 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* 60 */
	MB, MB, MB, MB, M, M, M, 0, M, M, XX, XX, M, M, M, M,
	J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4, J4,	/* 80 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	0, 0, 0, M, MB, M, M, M, 0, 0, 0, M, MB, M, M, M,		/* a0 */
	M, M, M, M, M, M, M, M, M, M, MB, M, M, M, M, M,
	M, M, MB, M, MB, MB, MB, M, 0, 0, 0, 0, 0, 0, 0, 0,		/* c0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,			/* e0 */
	M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
};

/* Opcode maps, numbered as VEX.mmmmm and XOP.map_select do. */
enum {
	MAP_1BYTE = 0, MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3, MAP_EVEX4 = 4,
	MAP_5 = 5, MAP_6 = 6, MAP_7 = 7, MAP_XOP8 = 8, MAP_XOP9 = 9,
	MAP_XOPA = 10,
};

struct decoder {
	const uint8_t *p;	/* the next byte */
	const uint8_t *end;
	uint8_t map, op, modrm;
	uint8_t imm_size;
	bool opsize, addrsize, lock, repne, rep;
	bool rex, rex_w;
	bool vector;		/* VEX, EVEX or XOP */
};

static bool read_legacy_prefix(struct decoder *d, uint8_t b)
{
	switch (b) {
	case 0x66:
		d->opsize = true;
		return true;
	case 0x67:
		d->addrsize = true;
		return true;
	case 0xf0:
		d->lock = true;
		return true;
	case 0xf2:	/* of F2 and F3 the last one counts */
		d->repne = true;
		d->rep = false;
		return true;
	case 0xf3:
		d->rep = true;
		d->repne = false;
		return true;
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
		return true;
	default:
		return false;
	}
}

/* Leaves p on the escape, VEX-like prefix or opcode. */
static int read_prefixes(struct decoder *d)
{
	for (; d->p < d->end; d->p++) {
		if (read_legacy_prefix(d, *d->p)) {
			d->rex = d->rex_w = false; /* a REX before it is void */
		} else if ((*d->p & 0xf0) == 0x40) {
			d->rex = true;
			d->rex_w = *d->p & 8;
		} else {
			return 0;
		}
	}
	return -1;
}

/* Bytes between a VEX-like prefix's first byte and the opcode, and the map. */
static int read_vector_prefix(struct decoder *d, size_t n_payload)
{
	if ((size_t)(d->end - d->p) < n_payload + 1)
		return -1;
	if (d->rex || d->opsize || d->rep || d->repne || d->lock)
		return -1;
	d->vector = true;
	if (n_payload == 1) {		/* C5 */
		d->map = MAP_0F;
	} else if (*d->p == 0x62) {	/* bits 3 and up of P0 are registers */
		d->map = d->p[1] & 7;
		d->opsize = (d->p[2] & 3) == 1;
		d->rex_w = d->p[2] & 0x80;
	} else {			/* C4, 8F */
		d->map = d->p[1] & 0x1f;
	}
	d->p += n_payload + 1;
	return d->map == MAP_1BYTE ? -1 : 0;
}

/* REX2 (APX): a payload byte whose top bit selects the map. */
static int read_rex2(struct decoder *d)
{
	if (d->rex || d->end - d->p < 2)
		return -1;
	d->rex_w = d->p[1] & 8;
	d->map = d->p[1] & 0x80 ? MAP_0F : MAP_1BYTE;
	d->p += 2;
	return 0;
}

static int read_escape(struct decoder *d)
{
	if (d->end - d->p < 2)
		return -1;
	d->p++;
	d->map = MAP_0F;
	if (*d->p != 0x38 && *d->p != 0x3a)
		return 0;
	d->map = *d->p == 0x38 ? MAP_0F38 : MAP_0F3A;
	d->p++;
	return 0;
}

static int read_opcode(struct decoder *d)
{
	int err = 0;

	switch (*d->p) {
	case 0x0f:
		err = read_escape(d);
		break;
	case 0xc5:
		err = read_vector_prefix(d, 1);
		break;
	case 0xc4:
		err = read_vector_prefix(d, 2);
		break;
	case 0x62:
		err = read_vector_prefix(d, 3);
		break;
	case 0x8f:	/* POP, or XOP when the map would be 8 or more */
		if (d->end - d->p > 1 && (d->p[1] & 0x1f) >= MAP_XOP8)
			err = read_vector_prefix(d, 2);
		break;
	case 0xd5:
		err = read_rex2(d);
		break;
	}
	if (err || d->p >= d->end)
		return -1;
	d->op = *d->p++;
	return 0;
}

/* What follows an opcode under VEX, EVEX or XOP. */
static uint8_t vector_form(const struct decoder *d)
{
	switch (d->map) {
	case MAP_0F:
		if (d->op == 0x77)	/* VZEROUPPER, VZEROALL */
			return 0;
		return M | ((two_byte[d->op] & IMM) == IB ? IB : 0);
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
			return MB;
		if (d->op >= 0x40 && d->op <= 0x4f)
			return M;
		return M | ((one_byte[d->op] & M) ? one_byte[d->op] & IMM : 0);
	case MAP_7:
	case MAP_XOPA:
		return M | J4;	/* always 4 bytes */
	default:
		return XX;
	}
}

static uint8_t opcode_form(const struct decoder *d)
{
	if (d->vector)
		return vector_form(d);
	switch (d->map) {
	case MAP_1BYTE:
		return one_byte[d->op];
	case MAP_0F:
		if (d->op == 0x78 && (d->opsize || d->repne))
			return M | IW;	/* EXTRQ, INSERTQ: two bytes */
		return two_byte[d->op];
	case MAP_0F38:
		return M;
	default:
		return MB;
	}
}

static int skip_bytes(struct decoder *d, size_t n)
{
	if ((size_t)(d->end - d->p) < n)
		return -1;
	d->p += n;
	return 0;
}

static int skip_modrm(struct decoder *d)
{
	uint8_t mod, rm, base;
	bool sib;

	if (d->p >= d->end)
		return -1;
	d->modrm = *d->p++;
	mod = d->modrm >> 6;
	rm = base = d->modrm & 7;
	/* moves from and to control and debug registers ignore mod */
	if (mod == 3 || (d->map == MAP_0F && !d->vector && d->op >= 0x20 &&
			 d->op <= 0x23))
		return 0;
	sib = rm == 4;
	if (sib) {
		if (d->p >= d->end)
			return -1;
		base = *d->p++ & 7;
	}
	if (mod == 1)
		return skip_bytes(d, 1);
	return skip_bytes(d, mod == 2 || base == 5 ? 4 : 0);
}

static uint8_t imm_size(const struct decoder *d, uint8_t form)
{
	uint8_t z = d->opsize && !d->rex_w ? 2 : 4;

	switch (form & IMM) {
	case IB:
	case J1:
		return 1;
	case IW:
		return 2;
	case IZ:
		/* XBEGIN shares C7, and has IZ's rule too */
		return z;
	case IV:
		return d->rex_w ? 8 : z;
	case AO:
		return d->addrsize ? 4 : 8;
	case EN:
		return 3;
	case J4:
		return 4;
	case G3:
		if (d->modrm & 0x30)
			return 0;
		return d->op & 1 ? z : 1;
	default:
		return 0;
	}
}

static uint8_t class_group5(const struct decoder *d)
{
	switch (d->modrm >> 3 & 7) {
	case 2:
		return X86_IND_CALL;
	case 4:
		return X86_IND_JUMP;
	case 3:
	case 5:
		return X86_FAR;
	default:
		return X86_OTHER;
	}
}

static uint8_t class_1byte(const struct decoder *d)
{
	switch (d->op) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		return X86_COND;
	case 0xe8:
		return X86_CALL;
	case 0xe9:
	case 0xeb:
		return X86_JUMP;
	case 0xc2:
	case 0xc3:
		return X86_RET;
	case 0xca:
	case 0xcb:
	case 0xcf:
		return X86_FAR;
	case 0xcc:
	case 0xcd:
	case 0xf1:
		return X86_SYSCALL;
	case 0xff:
		return class_group5(d);
	default:
		return X86_OTHER;
	}
}

static uint8_t class_group7(const struct decoder *d)
{
	switch (d->modrm) {
	case 0xc1:	/* VMCALL */
	case 0xc2:	/* VMLAUNCH */
	case 0xc3:	/* VMRESUME */
		return X86_FAR;
	case 0xca:	/* ERETU, ERETS; else CLAC */
		return d->rep || d->repne ? X86_FAR : X86_OTHER;
	case 0xec:	/* UIRET */
		return d->rep ? X86_FAR : X86_OTHER;
	default:
		return X86_OTHER;
	}
}

static uint8_t class_0f(const struct decoder *d)
{
	switch (d->op) {
	case 0x80 ... 0x8f:
		return X86_COND;
	case 0x01:
		return class_group7(d);
	case 0x05:
	case 0x34:
		return X86_SYSCALL;
	case 0x07:
	case 0x35:
	case 0xaa:	/* RSM */
		return X86_FAR;
	case 0xae:
		return d->rep && (d->modrm >> 3 & 7) == 4 ? X86_PTWRITE :
							    X86_OTHER;
	default:
		return X86_OTHER;
	}
}

static bool is_rep_string(const struct decoder *d)
{
	if (!d->rep && !d->repne)
		return false;
	return (d->op >= 0x6c && d->op <= 0x6f) ||
	       (d->op >= 0xa4 && d->op <= 0xa7) ||
	       (d->op >= 0xaa && d->op <= 0xaf);
}

/* A direct branch's displacement: the immediate just skipped. */
static int64_t read_disp(const struct decoder *d, uint8_t form)
{
	int32_t v;

	if ((form & IMM) == J1)
		return (int8_t)d->p[-1];
	memcpy(&v, d->p - 4, sizeof(v));
	return v;
}

static void classify(const struct decoder *d, uint8_t form,
		     struct x86_insn *insn)
{
	insn->cls = X86_OTHER;
	insn->rep_string = 0;
	insn->disp = 0;
	if (d->vector)
		return;
	if (d->map == MAP_1BYTE) {
		insn->cls = class_1byte(d);
		insn->rep_string = is_rep_string(d);
	} else if (d->map == MAP_0F) {
		insn->cls = class_0f(d);
	}
	if ((form & IMM) == J1 || (form & IMM) == J4)
		insn->disp = read_disp(d, form);
}

int x86_insn_decode(const uint8_t *p, size_t max, struct x86_insn *insn)
{
	struct decoder d = { .p = p, .end = p + (max < 15 ? max : 15) };
	bool rex2;
	uint8_t form;

	if (read_prefixes(&d) < 0)
		return 0;
	rex2 = *d.p == 0xd5;
	if (read_opcode(&d) < 0)
		return 0;
	form = opcode_form(&d);
	if (rex2 && d.map == MAP_1BYTE && d.op == 0xa1)
		form = AO;	/* JMPABS: PT gives a TIP */
	if (form & (XX | PF))
		return 0;
	if ((form & M) && skip_modrm(&d) < 0)
		return 0;
	if (skip_bytes(&d, imm_size(&d, form)) < 0)
		return 0;
	classify(&d, form, insn);
	if (rex2 && d.map == MAP_1BYTE && d.op == 0xa1)
		insn->cls = X86_IND_JUMP;
	insn->size = (uint8_t)(d.p - p);
	return insn->size;
}

int x86_insn_decode_in(const uint8_t *p, size_t max, enum x86_mode mode,
		       struct x86_insn *insn)
{
	return mode == X86_MODE_64 ? x86_insn_decode(p, max, insn) : 0;
}
