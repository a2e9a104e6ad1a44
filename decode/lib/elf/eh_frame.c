/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing in the file is trusted; what cannot be read is not there. 64-bit little-endian
 * files only, with the sorted table that ld, gold and lld write.
 */
#include <string.h>

#include "decode/lib/elf/eh_frame.h"
#include "decode/lib/elf/impl.h"

#define OMIT 0xff	/* DW_EH_PE_omit */

/* Bytes of the file from an address on. */
struct bytes {
	const uint8_t *p, *end;
	uint64_t addr;		/* of p */
	bool bad;
};

/* The bytes of the file from an address on, as far as its segment goes. */
static struct bytes bytes_from(const struct elfimage *im, uint64_t addr)
{
	struct bytes b = { .addr = addr, .bad = true };
	uint64_t len, offset, left;
	const uint8_t *data = elfimage_data(im, &len);

	if (!elfimage_offset(im, addr, &offset, &left) || offset >= len)
		return b;
	if (left > len - offset)
		left = len - offset;
	b.p = data + offset;
	b.end = b.p + left;
	b.bad = false;
	return b;
}

/* n bytes, little endian; 0 with bad set past the end. */
static uint64_t read_le(struct bytes *b, unsigned n)
{
	uint64_t v = 0;

	if (b->bad || (size_t)(b->end - b->p) < n) {
		b->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)b->p[i] << 8 * i;
	b->p += n;
	b->addr += n;
	return v;
}

/* LEB128, of 64 bits at most. */
static uint64_t read_leb(struct bytes *b, bool is_signed)
{
	unsigned shift = 0;
	uint64_t v = 0, byte;

	do {
		byte = read_le(b, 1);
		if (b->bad || shift > 63)
			return b->bad = true, 0;
		v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		v |= -(UINT64_C(1) << shift);
	return v;
}

/* A value with encoding DW_EH_PE_*; base is that of datarel. Indirect ones
 * cannot be read: they need the memory. */
static uint64_t read_encoded(struct bytes *b, uint8_t enc, uint64_t base)
{
	uint64_t at = b->addr, v;

	switch (enc & 0x0f) {
	case 0x00: case 0x04: case 0x0c:
		v = read_le(b, 8);
		break;
	case 0x01: case 0x09:
		v = read_leb(b, (enc & 0x0f) == 0x09);
		break;
	case 0x02:
		v = read_le(b, 2);
		break;
	case 0x03:
		v = read_le(b, 4);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)read_le(b, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)read_le(b, 4);
		break;
	default:
		return b->bad = true, 0;
	}
	if (!v)
		return 0;
	if ((enc & 0x70) == 0x10)
		return v + at;
	return (enc & 0x70) == 0x30 ? v + base : v;
}

/* The address of .eh_frame_hdr (PT_GNU_EH_FRAME); 0: none. */
static uint64_t find_header(const struct elfimage *im)
{
	uint64_t len, at;
	const uint8_t *d = elfimage_data(im, &len);
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (!elfimage_is_elf(im) || len < sizeof(eh))
		return 0;
	memcpy(&eh, d, sizeof(eh));
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh.e_phentsize != sizeof(ph))
		return 0;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		at = eh.e_phoff + (uint64_t)i * sizeof(ph);
		if (eh.e_phoff > len || at > len - sizeof(ph))
			return 0;
		memcpy(&ph, d + at, sizeof(ph));
		if (ph.p_type == PT_GNU_EH_FRAME)
			return ph.p_vaddr;
	}
	return 0;
}

/* The address of the FDE that covers addr; 0: none. 0x3b is datarel, sdata4:
 * the one encoding of the table that allows a binary search. */
static uint64_t find_description(const struct elfimage *im, uint64_t addr)
{
	uint64_t head = find_header(im), n, low = 0, high;
	struct bytes b = bytes_from(im, head), at;
	uint8_t version, ptr, count, table;

	if (!head)
		return 0;
	version = (uint8_t)read_le(&b, 1);
	ptr = (uint8_t)read_le(&b, 1);
	count = (uint8_t)read_le(&b, 1);
	table = (uint8_t)read_le(&b, 1);
	read_encoded(&b, ptr, head);
	n = read_encoded(&b, count, head);
	if (b.bad || version != 1 || table != 0x3b ||
	    n > (uint64_t)(b.end - b.p) / 8 || !n)
		return 0;
	for (high = n; high - low > 1;) {
		uint64_t mid = low + (high - low) / 2;

		at = b;
		at.p += mid * 8;
		if (head + (uint64_t)(int32_t)read_le(&at, 4) <= addr)
			low = mid;
		else
			high = mid;
	}
	at = b;
	at.p += low * 8 + 4;
	return head + (uint64_t)(int32_t)read_le(&at, 4);
}

/* What a CIE says about its FDEs. */
struct common {
	uint8_t fde, lsda;	/* DW_EH_PE_* */
	bool augmented;
};

/* Parses a CIE: version, augmentation string, alignments, return register,
 * augmentation. */
static bool read_common(const struct elfimage *im, uint64_t addr,
			struct common *c)
{
	struct bytes b = bytes_from(im, addr);
	char names[9] = "";
	unsigned n = 0, version;

	*c = (struct common){ .lsda = OMIT };
	read_le(&b, 8);		/* length, id */
	version = (unsigned)read_le(&b, 1);
	do {
		names[n] = (char)read_le(&b, 1);
	} while (!b.bad && names[n] && ++n < sizeof(names));
	if (b.bad || n == sizeof(names))
		return false;
	read_leb(&b, false);
	read_leb(&b, true);
	if (version == 1)
		read_le(&b, 1);
	else
		read_leb(&b, false);
	c->augmented = names[0] == 'z';
	if (!c->augmented)
		return !b.bad;
	read_leb(&b, false);
	for (n = 1; names[n] && !b.bad; n++) {
		if (names[n] == 'L')
			c->lsda = (uint8_t)read_le(&b, 1);
		else if (names[n] == 'R')
			c->fde = (uint8_t)read_le(&b, 1);
		else if (names[n] == 'P')
			read_encoded(&b, (uint8_t)read_le(&b, 1), 0);
	}
	return !b.bad;
}

/* An FDE: the function it is of, its LSDA (0: none), and its instructions. */
struct description {
	uint64_t start, size, lsda;
	struct bytes code;
};

/* Reads that of the function around addr; false: there is none. */
static bool read_description(const struct elfimage *im, uint64_t addr,
			     struct description *d)
{
	uint64_t fde = find_description(im, addr), back, at, len;
	struct bytes b = bytes_from(im, fde);
	struct common c;

	*d = (struct description){ .lsda = 0 };
	if (!fde)
		return false;
	len = read_le(&b, 4);
	at = b.addr;
	if (b.bad || len == UINT32_MAX || len > (uint64_t)(b.end - b.p))
		return false;
	b.end = b.p + len;
	back = read_le(&b, 4);
	if (b.bad || !back || !read_common(im, at - back, &c))
		return false;
	d->start = read_encoded(&b, c.fde, 0);
	d->size = read_encoded(&b, c.fde & 0x0f, 0);
	if (c.augmented) {
		len = read_leb(&b, false);
		if (b.bad || len > (uint64_t)(b.end - b.p))
			return false;
		d->code = b;
		d->code.p += len;
		d->code.addr += len;
		if (c.lsda != OMIT)
			d->lsda = read_encoded(&b, c.lsda, 0);
	} else {
		d->code = b;
	}
	return !b.bad && addr - d->start < d->size;
}

/* Skips the operands of a call frame instruction (DWARF 5, 6.4.2) that has nothing to do
 * with the frame's address; false: it has, or is not known. */
static bool skip_rule(struct bytes *b, uint8_t op)
{
	switch (op & 0xc0 ? op & 0xc0 : op) {
	case 0x80:		/* offset */
	case 0x06: case 0x07: case 0x08: case 0x2e:
		/* restore_extended, undefined, same_value, GNU_args_size */
		read_leb(b, false);
		return true;
	case 0xc0:		/* restore */
	case 0x00: case 0x0a: case 0x0b: case 0x2d:
		/* nop, remember_state, restore_state, AARCH64_negate_ra_state */
		return true;
	case 0x05: case 0x09: case 0x11: case 0x14: case 0x15:
		/* offset_extended, register, offset_extended_sf, val_offset(_sf) */
		read_leb(b, false);
		read_leb(b, false);
		return true;
	default:
		return false;
	}
}

/* Whether the frame is where it is right after a call, as the CIE has it, when control is
 * at the first address. */
static bool is_entered_by_call(struct bytes code)
{
	while (code.p < code.end) {
		uint8_t op = (uint8_t)read_le(&code, 1);

		if ((op & 0xc0) == 0x40 || (op >= 0x01 && op <= 0x04) || op == 0x1d)
			return true; /* advance_loc and its kin: the next address */
		if (!skip_rule(&code, op) || code.bad)
			return false;
	}
	return true;
}

bool eh_frame_function(const struct elfimage *im, uint64_t addr, uint64_t *start,
		       uint64_t *size, bool *called)
{
	struct description d;

	if (!read_description(im, addr, &d))
		return false;
	*called = is_entered_by_call(d.code);
	*start = d.start;
	*size = d.size;
	return true;
}

/* The LSDA's call sites are sorted, but of variable length. */
uint64_t eh_frame_landing(const struct elfimage *im, uint64_t addr)
{
	struct description d;
	uint64_t start, pads, left;
	const uint8_t *end;
	struct bytes b;
	uint8_t enc;

	if (!read_description(im, addr, &d) || !d.lsda)
		return 0;
	start = d.start;
	b = bytes_from(im, d.lsda);
	enc = (uint8_t)read_le(&b, 1);
	pads = enc == OMIT ? start : read_encoded(&b, enc, 0);
	enc = (uint8_t)read_le(&b, 1);
	if (enc != OMIT)
		read_leb(&b, false);
	enc = (uint8_t)read_le(&b, 1);
	left = read_leb(&b, false);
	if (b.bad || left > (uint64_t)(b.end - b.p))
		return 0;
	end = b.p + left;
	while (b.p < end && !b.bad) {
		uint64_t from = read_encoded(&b, enc, 0);
		uint64_t len = read_encoded(&b, enc, 0);
		uint64_t pad = read_encoded(&b, enc, 0);

		read_leb(&b, false);
		if (!b.bad && addr - start >= from && addr - start - from < len)
			return pad ? pads + pad : 0;
	}
	return 0;
}
