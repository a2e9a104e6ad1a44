/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls_throw: which activation of a function an exception lands in: the tables of
 * the unwinder say, for the address of each call, where an exception that leaves it
 * goes. Nothing of the file is trusted; what cannot be read matches nothing.
 *
 * Specification: Linux Standard Base 5.0, ".eh_frame", ".eh_frame_hdr"; Itanium C++
 * ABI, "Exception Handling", language-specific data area as gcc and clang write it.
 */
#include <elf.h>
#include <string.h>

#include "decode/callstack/impl.h"
#include "decode/lib/elf/elf.h"

#define OMIT 0xff

/* Bytes of the file from an address on. */
struct bytes {
	const uint8_t *p, *end;
	uint64_t addr;		/* of p */
	bool bad;
};

static struct bytes bytes_at(const struct elfimage *im, uint64_t addr)
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

static uint64_t take(struct bytes *b, unsigned n)
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

static uint64_t take_leb(struct bytes *b, bool is_signed)
{
	unsigned shift = 0;
	uint64_t v = 0, byte;

	do {
		byte = take(b, 1);
		if (b->bad || shift > 63)
			return b->bad = true, 0;
		v |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		v |= -(UINT64_C(1) << shift);
	return v;
}

/* A value by DW_EH_PE_*; base is that of datarel. An indirect one is none. */
static uint64_t take_encoded(struct bytes *b, uint8_t enc, uint64_t base)
{
	uint64_t at = b->addr, v;

	switch (enc & 0x0f) {
	case 0x00: case 0x04: case 0x0c:
		v = take(b, 8);
		break;
	case 0x01: case 0x09:
		v = take_leb(b, (enc & 0x0f) == 0x09);
		break;
	case 0x02:
		v = take(b, 2);
		break;
	case 0x03:
		v = take(b, 4);
		break;
	case 0x0a:
		v = (uint64_t)(int16_t)take(b, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int32_t)take(b, 4);
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

/* Where .eh_frame_hdr is loaded; 0: there is none. Of 64-bit files alone. */
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

/* The address of the frame description that covers addr; 0: none. */
static uint64_t find_description(const struct elfimage *im, uint64_t addr)
{
	uint64_t head = find_header(im), n, low = 0, high;
	struct bytes b = bytes_at(im, head), at;
	uint8_t version, ptr, count, table;

	if (!head)
		return 0;
	version = (uint8_t)take(&b, 1);
	ptr = (uint8_t)take(&b, 1);
	count = (uint8_t)take(&b, 1);
	table = (uint8_t)take(&b, 1);
	take_encoded(&b, ptr, head);
	n = take_encoded(&b, count, head);
	if (b.bad || version != 1 || table != 0x3b ||
	    n > (uint64_t)(b.end - b.p) / 8 || !n)
		return 0;
	for (high = n; high - low > 1;) {
		uint64_t mid = low + (high - low) / 2;

		at = b;
		at.p += mid * 8;
		if (head + (uint64_t)(int32_t)take(&at, 4) <= addr)
			low = mid;
		else
			high = mid;
	}
	at = b;
	at.p += low * 8 + 4;
	return head + (uint64_t)(int32_t)take(&at, 4);
}

/* How a common part says that descriptions are written. */
struct common {
	uint8_t fde, lsda;	/* DW_EH_PE_* */
	bool augmented;
};

static bool read_common(const struct elfimage *im, uint64_t addr,
			struct common *c)
{
	struct bytes b = bytes_at(im, addr);
	char names[9] = "";
	unsigned n = 0, version;

	*c = (struct common){ .lsda = OMIT };
	take(&b, 8);		/* length, id */
	version = (unsigned)take(&b, 1);
	do {
		names[n] = (char)take(&b, 1);
	} while (!b.bad && names[n] && ++n < sizeof(names));
	if (b.bad || n == sizeof(names))
		return false;
	take_leb(&b, false);
	take_leb(&b, true);
	if (version == 1)
		take(&b, 1);
	else
		take_leb(&b, false);
	c->augmented = names[0] == 'z';
	if (!c->augmented)
		return !b.bad;
	take_leb(&b, false);
	for (n = 1; names[n] && !b.bad; n++) {
		if (names[n] == 'L')
			c->lsda = (uint8_t)take(&b, 1);
		else if (names[n] == 'R')
			c->fde = (uint8_t)take(&b, 1);
		else if (names[n] == 'P')
			take_encoded(&b, (uint8_t)take(&b, 1), 0);
	}
	return !b.bad;
}

/* The table of a function, and where the function begins; 0: it has none. */
static uint64_t find_table(const struct elfimage *im, uint64_t addr,
			   uint64_t *start)
{
	uint64_t fde = find_description(im, addr), back, at, len;
	struct bytes b = bytes_at(im, fde);
	struct common c;

	if (!fde)
		return 0;
	len = take(&b, 4);
	at = b.addr;
	back = take(&b, 4);
	if (b.bad || len == UINT32_MAX || !back ||
	    !read_common(im, at - back, &c) || !c.augmented || c.lsda == OMIT)
		return 0;
	*start = take_encoded(&b, c.fde, 0);
	len = take_encoded(&b, c.fde & 0x0f, 0);
	take_leb(&b, false);
	at = take_encoded(&b, c.lsda, 0);
	return b.bad || addr - *start >= len ? 0 : at;
}

/* Where an exception that leaves the call around addr lands; 0: it does not. */
static uint64_t find_pad(const struct elfimage *im, uint64_t addr)
{
	uint64_t start, table = find_table(im, addr, &start), pads, left;
	struct bytes b = bytes_at(im, table);
	const uint8_t *end;
	uint8_t enc;

	if (!table)
		return 0;
	enc = (uint8_t)take(&b, 1);
	pads = enc == OMIT ? start : take_encoded(&b, enc, 0);
	enc = (uint8_t)take(&b, 1);
	if (enc != OMIT)
		take_leb(&b, false);
	enc = (uint8_t)take(&b, 1);
	left = take_leb(&b, false);
	if (b.bad || left > (uint64_t)(b.end - b.p))
		return 0;
	end = b.p + left;
	while (b.p < end && !b.bad) {
		uint64_t from = take_encoded(&b, enc, 0);
		uint64_t len = take_encoded(&b, enc, 0);
		uint64_t pad = take_encoded(&b, enc, 0);

		take_leb(&b, false);
		if (!b.bad && addr - start >= from && addr - start - from < len)
			return pad ? pads + pad : 0;
	}
	return 0;
}

/* Does an exception that leaves the call that returns to back land at to? */
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

uint32_t calls_throw_find(const struct calls *c, const struct thread *t,
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
