/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash of a sequence of instruction addresses that composes: the hash of a
 * block can be computed once and appended in constant time. A polynomial over
 * the field of 2^61 - 1: H(s . ip) = H(s) * M + ip + 1.
 *
 * Printed as 16 hex digits. Equal sequences have equal hashes however they are
 * cut into ranges.
 */
#ifndef COMMON_IPHASH_H
#define COMMON_IPHASH_H

#include <stdint.h>

#define IPHASH_P ((UINT64_C(1) << 61) - 1)
#define IPHASH_M UINT64_C(0x15d3c1a7f0b94e27)

struct iphash {
	uint64_t value;
	uint64_t n;	/* instructions */
};

static inline uint64_t iphash_reduce(unsigned __int128 x)
{
	uint64_t r = (uint64_t)(x & IPHASH_P) + (uint64_t)(x >> 61);

	r = (r & IPHASH_P) + (r >> 61);
	return r == IPHASH_P ? 0 : r;
}

static inline void iphash_add(struct iphash *h, uint64_t ip)
{
	h->value = iphash_reduce((unsigned __int128)h->value * IPHASH_M + ip +
				 1);
	h->n++;
}

/* The same for a sequence that is appended often: computed once. */
struct iphash_block {
	uint64_t value;	/* hash of the block alone */
	uint64_t power;	/* M^n */
	uint64_t n;
};

static inline struct iphash_block iphash_block_init(void)
{
	return (struct iphash_block){ .power = 1 };
}

static inline void iphash_block_add(struct iphash_block *b, uint64_t ip)
{
	b->value = iphash_reduce((unsigned __int128)b->value * IPHASH_M + ip +
				 1);
	b->power = iphash_reduce((unsigned __int128)b->power * IPHASH_M);
	b->n++;
}

/* a becomes a . b */
static inline void iphash_block_append(struct iphash_block *a,
				       const struct iphash_block *b)
{
	a->value = iphash_reduce((unsigned __int128)a->value * b->power +
				 b->value);
	a->power = iphash_reduce((unsigned __int128)a->power * b->power);
	a->n += b->n;
}

/* H(s . block) = H(s) * M^n + H(block) */
static inline void iphash_append_block(struct iphash *h,
				       const struct iphash_block *b)
{
	h->value = iphash_reduce((unsigned __int128)h->value * b->power +
				 b->value);
	h->n += b->n;
}

/*
 * The same for sums that grow by the billion: no value is reduced further than
 * it has to be, power8 is 8 * M^n. What comes back of iphash_fold is below 2^61
 * + 8; after it three iphash_extend fit 64 bits, and then it is due. add is
 * below 2^61.
 */
static inline uint64_t iphash_extend(uint64_t value, uint64_t power8,
				     uint64_t add)
{
	unsigned __int128 x = (unsigned __int128)value * power8;

	return (uint64_t)(x >> 64) + ((uint64_t)x >> 3) + add;
}

static inline uint64_t iphash_fold(uint64_t value)
{
	return (value & IPHASH_P) + (value >> 61);
}

static inline uint64_t iphash_join(uint64_t value, uint64_t power8, uint64_t add)
{
	return iphash_fold(iphash_extend(value, power8, add));
}

/* M^n */
static inline uint64_t iphash_power(uint64_t n)
{
	unsigned __int128 base = IPHASH_M % IPHASH_P, power = 1;

	for (; n; n >>= 1) {
		if (n & 1)
			power = iphash_reduce(power * base);
		base = iphash_reduce(base * base);
	}
	return (uint64_t)power;
}

#endif
