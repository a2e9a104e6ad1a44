/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls: in which activation of a function an exception is caught. The
 * unwinder's tables say, for the address of each call, where an exception that
 * leaves it goes (its landing pad). A recursive function may be on the stack
 * many times; only one of its calls leads to the address where control
 * appeared.
 *
 * Nothing in the file is trusted; what cannot be read matches nothing. 64-bit
 * little-endian files only, with the sorted table that ld, gold and lld write.
 *
 * Specification: Linux Standard Base 5.0, ".eh_frame" and ".eh_frame_hdr";
 * Itanium C++ ABI, "Exception Handling", with the language-specific data area
 * as gcc and clang write it.
 */
#include <elf.h>
#include <string.h>

#include "decode/callstack/impl.h"
#include "decode/lib/elf/elf.h"

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

/* The address of a function's LSDA, and of the function in *start; 0: it has
 * none. */
static uint64_t find_table(const struct elfimage *im, uint64_t addr,
			   uint64_t *start)
{
	uint64_t fde = find_description(im, addr), back, at, len;
	struct bytes b = bytes_from(im, fde);
	struct common c;

	if (!fde)
		return 0;
	len = read_le(&b, 4);
	at = b.addr;
	back = read_le(&b, 4);
	if (b.bad || len == UINT32_MAX || !back ||
	    !read_common(im, at - back, &c) || !c.augmented || c.lsda == OMIT)
		return 0;
	*start = read_encoded(&b, c.fde, 0);
	len = read_encoded(&b, c.fde & 0x0f, 0);
	read_leb(&b, false);
	at = read_encoded(&b, c.lsda, 0);
	return b.bad || addr - *start >= len ? 0 : at;
}

/* The landing pad for an exception that leaves the call at addr; 0: it is not
 * caught here. The LSDA's call sites are sorted, but of variable length. */
static uint64_t find_pad(const struct elfimage *im, uint64_t addr)
{
	uint64_t start, table = find_table(im, addr, &start), pads, left;
	struct bytes b = bytes_from(im, table);
	const uint8_t *end;
	uint8_t enc;

	if (!table)
		return 0;
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

/* Whether an exception that leaves the call with return address back is caught
 * at to. The call lies before back, so back - 1 is in it. */
static bool leads_to(const struct calls *c, uint64_t back, uint64_t to)
{
	const struct sink_host *h = c->code.host;
	uint64_t from_offset, to_offset, from, land;
	struct elfimage *im, *other;

	return h->image(h->priv, c->space, back - 1, &im, &from_offset) >= 0 &&
	       h->image(h->priv, c->space, to, &other, &to_offset) >= 0 &&
	       im == other && elfimage_addr(im, from_offset, &from) &&
	       elfimage_addr(im, to_offset, &land) && find_pad(im, from) == land;
}

bool calls_unwind_leads(const struct calls *c, uint64_t back, uint64_t to)
{
	return c->code.host->image && c->space && back && leads_to(c, back, to);
}

uint32_t calls_unwind_find(const struct calls *c, const struct thread *t,
			  const struct func *f, uint64_t to)
{
	const struct call_frame *frames = t->pub.frames;
	uint64_t last = 0;

	if (!c->code.host->image || !c->space)
		return 0;
	for (uint32_t i = t->pub.depth, n = 0; i > 1 && n < 4096; i--, n++) {
		uint64_t back = frames[i - 1].back;

		if (!back || back == last ||
		    !func_is_same(func_of(frames[i - 2].func), f))
			continue;
		if (leads_to(c, back, to))
			return i - 1;
		last = back;
	}
	return 0;
}
