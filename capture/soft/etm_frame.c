/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CoreSight formatter (Arm IHI 0029, "Formatter"; DDI 0314 describes the
 * same frames for the ETB).
 *
 * In a frame, bytes 0, 2, ... 14 hold an ID (bit 0 set) or data, whose own
 * bit 0 is then in byte 15; odd ones hold data. For an ID, that bit of byte 15
 * says that the one data byte after it still belongs to the former source:
 * that is how sources change where an odd byte is next.
 */
#include <string.h>

#include "capture/soft/etm_frame.h"

/* A data byte at the next position; the caller emits full frames. */
static void put_byte(struct etm_frame *f, uint8_t v)
{
	if (!(f->n & 1)) {
		f->b[15] |= (uint8_t)((v & 1) << f->n / 2);
		v &= 0xfe;
	}
	f->b[f->n++] = v;
}

/* Copies a full frame to out and starts the next one. */
static size_t emit(struct etm_frame *f, uint8_t *out)
{
	if (f->n < 15)
		return 0;
	memcpy(out, f->b, ETM_FRAME_SIZE);
	f->b[15] = 0;
	f->n = 0;
	return ETM_FRAME_SIZE;
}

/* The bytes that follow are of source id. n is below 15 before and after. */
static size_t change(struct etm_frame *f, uint8_t id, uint8_t *out)
{
	uint8_t head = (uint8_t)(id << 1 | 1), at = f->n / 2, last;

	if (f->id == id)
		return 0;
	f->id = id;
	if (f->n & 1) {
		/* the last byte moves after the ID */
		last = (uint8_t)(f->b[f->n - 1] | (f->b[15] >> at & 1));
		f->b[15] |= (uint8_t)(1 << at);
		f->b[f->n - 1] = head;
		f->b[f->n++] = last;
	} else {
		f->b[f->n++] = head;
	}
	return emit(f, out);
}

/*
 * 15 bytes of one source make a frame. The usual case for a single CPU, so all
 * low bits of the even bytes are moved at once: the multiplication gathers bits 0,
 * 16, 32 and 48 in the top bits.
 */
static void put_frame(uint8_t *out, const uint8_t *in)
{
	const uint64_t even = UINT64_C(0x0001000100010001);
	const uint64_t gather = UINT64_C(0x0001000200040008);
	uint64_t a, b = 0, flags;

	memcpy(&a, in, 8);
	memcpy(&b, in + 8, 7);
	flags = ((a & even) * gather >> 48 & 15) |
		((b & even) * gather >> 48 & 15) << 4;
	a &= ~even;
	b = (b & ~even) | flags << 56;
	memcpy(out, &a, 8);
	memcpy(out + 8, &b, 8);
}

size_t etm_frame_put(struct etm_frame *f, uint8_t id, const uint8_t *bytes,
		     size_t n, uint8_t *out)
{
	uint8_t *p = out;

	if (!n)
		return 0;
	p += change(f, id, p);
	while (n) {
		if (!f->n && n >= 15) {
			put_frame(p, bytes);
			p += ETM_FRAME_SIZE;
			bytes += 15;
			n -= 15;
			continue;
		}
		put_byte(f, *bytes++);
		n--;
		p += emit(f, p);
	}
	return (size_t)(p - out);
}

size_t etm_frame_end(struct etm_frame *f, uint8_t *out)
{
	size_t done = 0;

	if (f->n)
		done = change(f, 0, out);
	if (f->n) {
		memset(f->b + f->n, 0, 15u - f->n);
		f->n = 15;
		done += emit(f, out + done);
	}
	f->id = 0;
	return done;
}

size_t etm_frame_pad(uint8_t *out, size_t n)
{
	size_t i;

	memset(out, 0, n);
	for (i = 0; i < n; i += ETM_FRAME_SIZE)
		out[i] = 1;	/* ID 0 */
	return n;
}
