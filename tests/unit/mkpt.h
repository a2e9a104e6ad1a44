/* SPDX-License-Identifier: BSD-2-Clause */
/* mkpt: Intel PT packets by hand, for the decoders' tests. */
#ifndef TESTS_UNIT_MKPT_H
#define TESTS_UNIT_MKPT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pt {
	uint8_t b[4096];
	size_t n;
};

static void pt_bytes(struct pt *p, const void *data, size_t len)
{
	if (p->n + len > sizeof(p->b))
		return;
	memcpy(p->b + p->n, data, len);
	p->n += len;
}

static void pt_u8(struct pt *p, uint8_t v)
{
	pt_bytes(p, &v, 1);
}

/* An IP packet with a full IP; op: its low five bits */
static void pt_ip(struct pt *p, uint8_t op, uint64_t ip)
{
	pt_u8(p, 0xc0 | op);
	pt_bytes(p, &ip, 8);
}

__attribute__((unused))
static void pt_tip(struct pt *p, uint64_t ip)
{
	pt_ip(p, 0x0d, ip);
}

__attribute__((unused))
static void pt_pge(struct pt *p, uint64_t ip)
{
	pt_ip(p, 0x11, ip);
}

__attribute__((unused))
static void pt_fup(struct pt *p, uint64_t ip)
{
	pt_ip(p, 0x1d, ip);
}

/* TIP.PGD without an IP */
__attribute__((unused))
static void pt_pgd(struct pt *p)
{
	pt_u8(p, 0x01);
}

__attribute__((unused))
static void pt_tsc(struct pt *p, uint64_t tsc)
{
	pt_u8(p, 0x19);
	pt_bytes(p, &tsc, 7);
}

__attribute__((unused))
static void pt_mode64(struct pt *p)
{
	pt_bytes(p, "\x99\x01", 2);
}

/* bits: oldest first, at most 6 of "TN" */
__attribute__((unused))
static void pt_tnt(struct pt *p, const char *bits)
{
	uint8_t v = 1;

	for (; *bits; bits++)
		v = (uint8_t)(v << 1 | (*bits == 'T'));
	pt_u8(p, (uint8_t)(v << 1));
}

__attribute__((unused))
static void pt_ovf(struct pt *p)
{
	pt_bytes(p, "\x02\xf3", 2);
}

/* PSB+; ip 0: tracing is off here. tsc 0: none. */
__attribute__((unused))
static void pt_psb(struct pt *p, uint64_t tsc, uint64_t ip)
{
	for (int i = 0; i < 8; i++)
		pt_bytes(p, "\x02\x82", 2);
	if (tsc)
		pt_tsc(p, tsc);
	if (ip) {
		pt_mode64(p);
		pt_fup(p, ip);
	}
	pt_bytes(p, "\x02\x23", 2);
}

#endif
