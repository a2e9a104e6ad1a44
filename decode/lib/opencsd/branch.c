/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opencsd: branches that the library does not know, and code that it did not read.
 *
 * It takes branches newer than itself, and words that are not allocated, for plain
 * instructions and continues after them: the flow is wrong, and no error is reported.
 * So the code of each range is checked here. A branch that ends a range is one that the
 * library knows; anywhere else, these words make the flow wrong from there on:
 *
 *  - A64: what a64_insn.h calls unknown; cb<cc>, bc.cond, retaasppc, texit, drps.
 *  - A32: words between the branches of "Miscellaneous" (DDI 0487, F4.1.2) and of
 *    rfe/srs that are not allocated; eret.
 *  - T32: branch future, loops (DDI 0553, "Branches and miscellaneous control") and
 *    bxaut. A branch future moves the flow at a later place that has no branch.
 */
#include "common/a64_insn.h"
#include "decode/lib/opencsd/impl.h"

static bool is_young_a64(uint32_t word)
{
	struct a64_insn insn;

	switch (a64_insn_decode(word, &insn)) {
	case A64_UNKNOWN:
		return true;
	case A64_COND:
		return (word & 0x7e000000) == 0x74000000 ||
		       (word & 0xff000010) == 0x54000010;
	case A64_RET:
		return word >> 24 == 0x55 ||
		       ((word & 0xfffff800) == 0xd65f0800 && (word & 0x1f) != 0x1f);
	case A64_FAR:
		return (word & 0xfffffbff) == 0xd6ff03e0 || word == 0xd6bf03e0;
	default:
		return false;
	}
}

static bool is_young_a32(uint32_t word)
{
	uint32_t op = word >> 21 & 3, op2 = word >> 4 & 7;

	if (word >> 28 == 0xf)	/* rfe has the one bit, srs the other */
		return (word & 0xfe000000) == 0xf8000000 &&
		       !((word >> 22 ^ word >> 20) & 1);
	if ((word & 0x0f900080) != 0x01000000)
		return false;
	switch (op2) {
	case 1:			/* bx, clz */
		return !(op & 1);
	case 2: case 3:		/* bxj; blx */
		return op != 1;
	case 6:			/* eret */
		return true;
	default:
		return false;
	}
}

/* word: the first half-word on top. */
static bool is_young_t32(uint32_t word)
{
	if ((word & 0xfff00ff0) == 0xfb500f10)
		return true;	/* bxaut */
	if ((word & 0xf800d001) != 0xf000c001)
		return false;
	/* dls, dlstp, lctp: they say how often to loop */
	return (word & 0xff80ffff) != 0xf000e001 || (word >> 20 & 7) > 4;
}

static uint32_t load16(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8;
}

/* The instruction at ip; its size, 0: it is not there. */
static unsigned read_insn(struct opencsd *d, const ocsd_generic_trace_elem *e,
			  uint64_t ip, bool *young)
{
	uint8_t b[4];
	uint32_t word;

	if (e->isa == ocsd_isa_thumb2) {
		if (opencsd_copy_code(d, ip, 2, b) < 2)
			return 0;
		word = load16(b) << 16;
		*young = false;
		if (word >> 27 < 0x1d)
			return 2;
		if (opencsd_copy_code(d, ip + 2, 2, b) < 2)
			return 0;
		*young = is_young_t32(word | load16(b));
		return 4;
	}
	if ((e->isa != ocsd_isa_aarch64 && e->isa != ocsd_isa_arm) ||
	    opencsd_copy_code(d, ip, 4, b) < 4)
		return 0;
	word = load16(b) | load16(b + 2) << 16;
	*young = e->isa == ocsd_isa_aarch64 ? is_young_a64(word) :
					      is_young_a32(word);
	return 4;
}

/* Up to an exception the library walks over branches, whatever they are: none
 * of them was taken. */
static bool is_walk(const struct opencsd *d)
{
	return d->src.in_order && !opencsd_is_atoms(d) && !opencsd_is_source(d) &&
	       !d->untraced.pending;
}

bool opencsd_find_young(struct opencsd *d, const ocsd_generic_trace_elem *e,
			struct opencsd_young *y)
{
	uint64_t *seen = d->code.checked[(e->st_addr >> 1) % OPENCSD_CHECKED];
	uint64_t ip = e->st_addr;
	unsigned size;
	bool young;

	*y = (struct opencsd_young){ .ip = ip };
	if (seen[0] == ip && seen[1] == e->en_addr &&
	    seen[2] == d->code.generation)
		return false;
	if (e->en_addr <= ip || is_walk(d))
		return false;
	/* with speculation a range comes later than its packet: it may be of any */
	y->missing = opencsd_is_source(d) || !d->src.in_order;
	if (e->en_addr - ip > OPENCSD_WALK_MAX)
		return y->missing;
	while (ip < e->en_addr) {
		size = read_insn(d, e, ip, &young);
		if (!size) {
			y->ip = ip;
			return y->missing;
		}
		if (young && (ip + size < e->en_addr ||
			      e->last_i_type == OCSD_INSTR_OTHER)) {
			y->ip = ip;
			y->missing = false;
			return true;
		}
		y->n++;
		y->size = size;
		ip += size;
	}
	seen[0] = e->st_addr;
	seen[1] = e->en_addr;
	seen[2] = d->code.generation;
	return false;
}
