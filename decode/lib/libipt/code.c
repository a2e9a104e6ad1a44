/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code that libipt decodes: an image for each generation of the host; and
 * what the last instruction of a block does. libipt gives its class, but
 * neither its size nor its target nor whether a jump is indirect, so its bytes
 * are looked at again.
 *
 * Instruction formats: Intel SDM volume 2, appendix A (opcode map).
 */
#include <string.h>

#include "decode/lib/libipt/impl.h"

/* ---- code bytes ---- */

/* libipt's callback for code that is in no section of its image: that of the
 * host. */
static int read_memory(uint8_t *buf, size_t size, const struct pt_asid *asid,
		       uint64_t ip, void *priv)
{
	struct libipt *d = priv;
	struct aux_code c = { 0 };
	uint64_t left;

	(void)asid;
	if (d->host->code(d->host->priv, ip, &c) < 0 || ip < c.start ||
	    ip >= c.end) {
		d->code.missed = true;
		d->code.miss_ip = ip;
		return -pte_nomap;
	}
	left = c.end - ip;
	if (size > left)
		size = left;
	memcpy(buf, c.bytes + (ip - c.start), size);
	if (c.path && d->code.n_wanted < N_WANTED)
		d->code.wanted[d->code.n_wanted++] = c;
	return (int)size;
}

void libipt_map_files(struct libipt *d)
{
	for (unsigned i = 0; i < d->code.n_wanted; i++) {
		const struct aux_code *c = &d->code.wanted[i];
		int isid = pt_iscache_add_file(d->code.iscache, c->path,
					       c->path_offset,
					       c->end - c->start, c->start);

		if (isid > 0)
			pt_image_add_cached(d->code.image->image, d->code.iscache, isid,
					    NULL);
	}
	d->code.n_wanted = 0;
}

/* A free slot, or that of the image used longest ago. */
static struct image_slot *oldest_image(struct libipt *d)
{
	struct image_slot *old = &d->code.images[0];

	for (unsigned i = 1; i < N_IMAGES && old->image; i++) {
		if (!d->code.images[i].image || d->code.images[i].used < old->used)
			old = &d->code.images[i];
	}
	return old;
}

int libipt_use_image(struct libipt *d)
{
	uint64_t generation = d->host->generation;
	struct image_slot *slot = NULL;

	if (d->code.image && d->code.image->generation == generation)
		return 0;
	for (unsigned i = 0; i < N_IMAGES && !slot; i++) {
		if (d->code.images[i].image &&
		    d->code.images[i].generation == generation)
			slot = &d->code.images[i];
	}
	if (!slot) {
		struct pt_image *image = pt_image_alloc(NULL);

		if (!image)
			return -pte_nomem;
		pt_image_set_callback(image, read_memory, d);
		slot = oldest_image(d);
		/* The slot in use is never the oldest one. */
		pt_image_free(slot->image);
		slot->image = image;
		slot->generation = generation;
		slot->serial = ++d->code.serial;
	}
	slot->used = ++d->code.clock;
	d->code.image = slot;
	return pt_blk_set_image(d->in.blk, slot->image);
}

/* ---- the last instruction of a block ---- */

/* Bytes of ModRM, SIB and displacement; 0: there are none. */
static unsigned modrm_size(const uint8_t *p, size_t n, bool addr16)
{
	unsigned mod, rm, size = 1;

	if (!n)
		return 0;
	mod = p[0] >> 6;
	rm = p[0] & 7;
	if (mod == 3)
		return 1;
	if (addr16)
		return mod == 0 ? (rm == 6 ? 3 : 1) : 1 + mod;
	if (rm == 4) {
		size++;
		if (n > 1 && mod == 0 && (p[1] & 7) == 5)
			size += 4;
	} else if (mod == 0 && rm == 5) {
		size += 4;
	}
	return size + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

static int64_t get_disp(const uint8_t *p, unsigned size)
{
	int32_t d32;
	int16_t d16;

	if (size == 1)
		return (int8_t)*p;
	if (size == 2) {
		memcpy(&d16, p, 2);
		return d16;
	}
	memcpy(&d32, p, 4);
	return d32;
}

/* Opcodes after 0F. wide: bytes of a wide displacement. Adds to len and sets
 * kind; returns bytes of displacement. */
static unsigned classify_0f(const uint8_t *p, size_t n, unsigned wide,
			    unsigned *len, uint8_t *kind)
{
	if (!n)
		return 0;
	*len += 1;
	if (p[0] >= 0x80 && p[0] <= 0x8f) {
		*kind = AUX_END_COND;
		return wide;
	}
	if (p[0] == 0x05 || p[0] == 0x34)
		*kind = AUX_END_SYSCALL;
	else if (p[0] == 0x07 || p[0] == 0x35 || p[0] == 0xaa)
		*kind = AUX_END_FAR;
	else if (p[0] == 0x01 && n > 1 && p[1] >= 0xc1 && p[1] <= 0xc3) {
		*kind = AUX_END_FAR; /* vmcall, vmlaunch, vmresume */
		*len += 1;
	}
	return 0;
}

/* One-byte opcodes. The same. */
static unsigned classify_1(uint8_t op, const uint8_t *p, size_t n,
			   unsigned wide, bool addr16, unsigned *len,
			   uint8_t *kind)
{
	switch (op) {
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3:
		*kind = AUX_END_COND;
		return 1;
	case 0xeb:
		*kind = AUX_END_JUMP;
		return 1;
	case 0xe9:
		*kind = AUX_END_JUMP;
		return wide;
	case 0xe8:
		*kind = AUX_END_CALL;
		return wide;
	case 0xc2:
		*len += 2;
		/* fall through */
	case 0xc3:
		*kind = AUX_END_RET;
		return 0;
	case 0xca:
		*len += 2;
		/* fall through */
	case 0xcb:
	case 0xcf:
		*kind = AUX_END_FAR;
		return 0;
	case 0xcd:
		*len += 1;
		/* fall through */
	case 0xcc:
	case 0xce:
	case 0xf1:
		*kind = AUX_END_SYSCALL;
		return 0;
	case 0x9a:
	case 0xea:
		*len += wide + 2;
		*kind = AUX_END_FAR;
		return 0;
	case 0xff:
		if (!n || (p[0] >> 3 & 7) < 2 || (p[0] >> 3 & 7) > 5)
			return 0;
		*len += modrm_size(p, n, addr16);
		*kind = (p[0] >> 3 & 7) == 2 ? AUX_END_IND_CALL :
			(p[0] >> 3 & 7) == 4 ? AUX_END_IND_JUMP : AUX_END_FAR;
		return 0;
	case 0x0f:
		return classify_0f(p, n, wide, len, kind);
	default:
		return 0;
	}
}

/* Sets *end if the bytes are a branch; else it is AUX_END_FALL with size 0. */
static void classify(const uint8_t *p, size_t n, uint64_t ip,
		     enum pt_exec_mode mode, struct insn_end *end)
{
	bool opsize = mode == ptem_16bit, addr16 = mode == ptem_16bit;
	unsigned i = 0, len, disp;

	*end = (struct insn_end){ .kind = AUX_END_FALL };
	for (; i < n; i++) {
		uint8_t b = p[i];

		if (b == 0x66)
			opsize = mode != ptem_16bit;
		else if (b == 0x67)
			addr16 = mode == ptem_32bit;
		else if (b != 0xf2 && b != 0xf3 && b != 0xf0 && b != 0x2e &&
			 b != 0x36 && b != 0x3e && b != 0x26 && b != 0x64 &&
			 b != 0x65 &&
			 !(mode == ptem_64bit && (b & 0xf0) == 0x40))
			break;
	}
	if (i >= n)
		return;
	len = i + 1;
	disp = classify_1(p[i], p + i + 1, n - i - 1,
			  opsize && mode != ptem_64bit ? 2 : 4, addr16, &len,
			  &end->kind);
	if (end->kind == AUX_END_FALL)
		return;
	if (len + disp > n) {
		end->kind = AUX_END_FALL;
		return;
	}
	end->size = (uint8_t)(len + disp);
	end->next = ip + end->size;
	if (disp)
		end->target = end->next + (uint64_t)get_disp(p + len, disp);
	if (mode != ptem_64bit)
		end->target &= opsize ? 0xffff : 0xffffffff;
}

/* What libipt classes as a branch is one, even if its bytes are not there or
 * not known. */
static void adopt_class(struct insn_end *end, enum pt_insn_class iclass)
{
	static const uint8_t kinds[] = {
		[ptic_call] = AUX_END_IND_CALL, [ptic_return] = AUX_END_RET,
		[ptic_jump] = AUX_END_IND_JUMP, [ptic_cond_jump] = AUX_END_COND,
		[ptic_far_call] = AUX_END_FAR, [ptic_far_return] = AUX_END_FAR,
		[ptic_far_jump] = AUX_END_FAR,
	};

	if (end->kind == AUX_END_FALL &&
	    (unsigned)iclass < sizeof(kinds) / sizeof(kinds[0]))
		end->kind = kinds[iclass];
}

void libipt_fill_end(struct libipt *d, const struct pt_block *b,
		     struct end_slot *s)
{
	struct aux_code c;
	uint64_t left;

	*s = (struct end_slot){ .ip = b->end_ip, .mode = (uint8_t)b->mode,
				.image = b->truncated ? 0 : d->code.image->serial };
	if (b->truncated) {
		classify(b->raw, b->size <= sizeof(b->raw) ? b->size : 0,
			 b->end_ip, b->mode, &s->end);
	} else if (d->host->code(d->host->priv, b->end_ip, &c) == 0) {
		left = c.end - b->end_ip;
		classify(c.bytes + (b->end_ip - c.start), left < 15 ? left : 15,
			 b->end_ip, b->mode, &s->end);
	}
	adopt_class(&s->end, b->iclass);
}
