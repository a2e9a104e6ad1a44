/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ptscript: a trace that a CPU could have made, of any bytes.
 *
 * The bytes are a script for a walk through code: which way branches go, when
 * something else happens, and (where the script says so) what is wrong with the
 * packets. Most inputs are right in all but a few places, so a decoder gets deep.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace".
 */
#ifndef TESTS_FUZZ_PTSCRIPT_H
#define TESTS_FUZZ_PTSCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/x86_insn.h"

#include "tests/fuzz/ptcode.h"

#define TRACE_MAX 8192
#define STEPS 4000		/* instructions without a byte of the script */

struct ptscript {
	struct ptcode c;
	/* the script */
	const uint8_t *p, *end;
	/* the trace */
	uint8_t trace[TRACE_MAX + 64];
	size_t n;
	uint64_t last_ip, ip, tsc;
	uint64_t bits;		/* TNT bits that wait, below a stop bit */
	unsigned n_bits;
	uint64_t stack[64];
	unsigned top, depth;
	bool on, compress, broken, full, in_tx;
	bool untrue;		/* packets tell of what did not happen */
	bool split;		/* of branches before a PSB the TNT is behind it */
	uint8_t ctc;
	uint64_t ran[STEPS];	/* instructions, if not broken or untrue */
	size_t n_ran;
};

/* ---- packets ---- */

static uint8_t ps_byte(struct ptscript *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static void ps_put(struct ptscript *s, const void *p, size_t n)
{
	if (s->full || s->n + n > TRACE_MAX) {
		s->full = s->broken = true;	/* maybe inside of a packet */
		return;
	}
	memcpy(s->trace + s->n, p, n);
	s->n += n;
}

static void ps_put_value(struct ptscript *s, uint64_t v, size_t n)
{
	ps_put(s, &v, n);	/* little endian, as the packets are */
}

static void ps_flush(struct ptscript *s)
{
	uint64_t v = (uint64_t)1 << s->n_bits | s->bits;

	if (!s->n_bits)
		return;
	if (s->n_bits <= 6) {
		ps_put_value(s, v << 1, 1);
	} else {
		ps_put(s, "\x02\xa3", 2);
		ps_put_value(s, v, 6);
	}
	s->n_bits = 0;
	s->bits = 0;
}

static void ps_bit(struct ptscript *s, bool taken)
{
	s->bits = s->bits << 1 | taken;
	if (++s->n_bits == 47)
		ps_flush(s);
}

/* op: low five bits. The shortest of the forms that fit, or the full one. */
static void ps_ip(struct ptscript *s, uint8_t op, uint64_t ip, bool full)
{
	uint64_t differ = ip ^ s->last_ip;

	if (full) {
		ps_put_value(s, 0xc0 | op, 1);
		ps_put_value(s, ip, 8);
	} else if (!(differ >> 16)) {
		ps_put_value(s, 0x20 | op, 1);
		ps_put_value(s, ip, 2);
	} else if (!(differ >> 32)) {
		ps_put_value(s, 0x40 | op, 1);
		ps_put_value(s, ip, 4);
	} else {
		ps_put_value(s, 0x60 | op, 1);
		ps_put_value(s, ip, 6);
	}
	s->last_ip = ip;
}

#define OP_TIP 0x0d
#define OP_PGE 0x11
#define OP_PGD 0x01
#define OP_FUP 0x1d

static void ps_tsc(struct ptscript *s)
{
	s->tsc += 100 + ps_byte(s);
	ps_put_value(s, 0x19, 1);
	ps_put_value(s, s->tsc, 7);
}

static void ps_mode(struct ptscript *s)
{
	ps_put(s, "\x99\x01", 2);
}

static void ps_psb(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	if (b & 1)
		ps_flush(s);
	s->split |= s->n_bits;
	s->untrue |= s->split;
	for (unsigned i = 0; i < 8; i++)
		ps_put(s, "\x02\x82", 2);
	s->last_ip = 0;
	if (!(b & 0x70))
		ps_tsc(s);
	if (b & 2 && !(b & 0x70))
		ps_put(s, "\x02\x73\x12\x34\x00\x10\x00", 7);	/* TMA */
	if (b & 4)
		ps_put(s, "\x02\x03\x1a\x00", 4);	/* CBR */
	if (b & 8)
		ps_put(s, "\x02\x43\x00\x20\x00\x00\x00\x00", 8);	/* PIP */
	if (s->in_tx)
		ps_put(s, "\x99\x21", 2);
	ps_mode(s);
	if (s->on)
		ps_ip(s, OP_FUP, s->ip, b & 0x80);
	ps_put(s, "\x02\x23", 2);
	s->depth = s->top = 0;
}

/* An address to go to: the begin of some instruction, or nowhere. */
static uint64_t ps_target(struct ptscript *s)
{
	unsigned b = ps_byte(s), half = b & 1, i = (b >> 1) * 3;

	if (b == 0xfe)
		return 0xdead000;
	return ps_base(half) + s->c.starts[half][i % s->c.n_starts[half]];
}

static void ps_off(struct ptscript *s, bool with_ip, uint64_t ip)
{
	ps_flush(s);
	if (with_ip)
		ps_ip(s, OP_PGD, ip, false);
	else
		ps_put_value(s, OP_PGD, 1);
	s->on = false;
}

static void ps_turn_on(struct ptscript *s)
{
	s->ip = ps_target(s);
	if (s->ip & 1)
		ps_mode(s);
	ps_ip(s, OP_PGE, s->ip, s->ip & 2);
	s->on = true;
}

/* ---- what happens between instructions ---- */

static void ps_time(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	switch (b & 7) {
	case 0:
		ps_tsc(s);
		break;
	case 1:
		ps_put(s, "\x59", 1);
		s->ctc = (uint8_t)(s->ctc + 1 + (b >> 5));
		ps_put_value(s, s->ctc, 1);
		break;
	case 2:
		ps_put(s, "\x02\x03", 2);
		ps_put_value(s, 10 + (b >> 4), 2);
		break;
	case 3:
		ps_put_value(s, 0x7, 1);	/* a long CYC */
		ps_put_value(s, b & 0xfe, 1);
		break;
	case 4:
		ps_put(s, "\x00\x00\x00", 3);
		break;
	default:
		ps_put_value(s, (b & 0xf8) | 3, 1);	/* CYC */
		break;
	}
}

static void ps_async(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	ps_flush(s);
	ps_ip(s, OP_FUP, s->ip, b & 1);
	if (b & 2) {
		ps_off(s, b & 4, CODE_LOW);
		return;
	}
	s->ip = ps_target(s);
	ps_ip(s, OP_TIP, s->ip, b & 8);
}

static void ps_overflow(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	if (b & 1)
		ps_flush(s);
	s->n_bits = 0;
	s->bits = 0;
	ps_put(s, "\x02\xf3", 2);
	s->depth = s->top = 0;
	s->last_ip = 0;
	if (b & 2) {
		s->ip = ps_target(s);
		ps_ip(s, OP_FUP, s->ip, true);
		s->on = true;
	} else {
		s->on = false;
	}
}

static void ps_transaction(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	ps_flush(s);
	if (s->in_tx && b & 1) {	/* abort */
		ps_put(s, "\x99\x22", 2);
		ps_ip(s, OP_FUP, s->ip, false);
		s->ip = ps_target(s);
		ps_ip(s, OP_TIP, s->ip, false);
		s->in_tx = false;
		return;
	}
	s->in_tx = !s->in_tx;
	ps_put_value(s, 0x99, 1);
	ps_put_value(s, 0x20 | s->in_tx, 1);
	ps_ip(s, OP_FUP, s->ip, false);
}

/* Event trace and triggers. A return and a VM entry are of the instruction at their
 * IP, which need not be one, nor run. */
static void ps_event(struct ptscript *s)
{
	uint8_t b = ps_byte(s), type = b >> 3 & 15;

	ps_flush(s);
	switch (b & 7) {
	case 0:
	case 1:
		s->untrue |= type == AUX_CFE_IRET || type == AUX_CFE_UIRET ||
			     type == AUX_CFE_VMENTRY;
		ps_put(s, "\x02\x13", 2);		/* CFE */
		ps_put_value(s, type | (b & 1) << 7, 1);
		ps_put_value(s, 0x20, 1);
		break;
	case 2:
		ps_put(s, "\x02\x53", 2);		/* EVD */
		ps_put_value(s, type, 1);
		ps_put_value(s, b, 8);
		break;
	case 3:
		ps_put(s, "\xd9\x40\x01\x02\x00", 5);	/* TRIG */
		break;
	case 4:
		ps_put(s, "\xd9\x80\x01", 3);
		break;
	default:
		ps_put(s, b & 8 ? "\x99\x05" : "\x99\x01", 2); /* CLI, STI */
		break;
	}
	if ((b & 7) == 1 || (b & 7) > 3)
		ps_ip(s, OP_FUP, s->ip, b & 0x80);
}

static void ps_other(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	if (b & 0x80)
		ps_flush(s);
	/* PIP, VMCS and PTW are of an instruction that does not come */
	s->untrue |= (b & 7) < 3;
	switch (b & 7) {
	case 0:
		ps_put(s, "\x02\x43", 2);		/* PIP */
		ps_put_value(s, (uint64_t)b << 8, 6);
		break;
	case 1:
		ps_put(s, "\x02\xc8\x00\x10\x00\x00\x00", 7);	/* VMCS */
		break;
	case 2:
		ps_put(s, "\x02\x12\x01\x02\x03\x04", 6);	/* PTW */
		break;
	case 3:
		ps_flush(s);
		ps_put(s, "\x02\xc2", 2);		/* MWAIT */
		ps_put_value(s, b >> 3, 8);
		ps_put(s, "\x02\xe2", 2);		/* EXSTOP, with its IP */
		ps_ip(s, OP_FUP, s->ip, b & 8);
		break;
	case 4:
		ps_put(s, "\x02\x22\x00\x60", 4);	/* PWRE */
		break;
	case 5:
		ps_put(s, "\x02\xa2\x66\x01\x00\x00\x00", 7);	/* PWRX */
		break;
	case 6:
		ps_put(s, "\x02\x62", 2);		/* EXSTOP */
		break;
	default:
		if (b == 0xff)
			ps_event(s);
		else
			ps_put(s, "\x02\x83", 2);	/* TRACESTOP */
		break;
	}
}

/* Bytes as the script has them, or a bit that is wrong. */
static void ps_break(struct ptscript *s)
{
	uint8_t b = ps_byte(s);

	s->broken = true;
	if (b & 0x80 && s->n) {
		s->trace[s->n - 1] ^= (uint8_t)(1 << (b & 7));
		return;
	}
	if (b & 0x40) {
		ps_bit(s, b & 1);
		return;
	}
	for (unsigned n = 1 + (b & 7); n; n--)
		ps_put_value(s, ps_byte(s), 1);
}

/* ---- the walk ---- */

static void ps_push(struct ptscript *s, uint64_t ip)
{
	s->stack[s->top++ % 64] = ip;
	s->depth += s->depth < 64;
}

static void ps_return(struct ptscript *s, uint8_t b)
{
	bool known = s->depth && s->compress;
	uint64_t to = known ? s->stack[(s->top - 1) % 64] : 0;

	if (known) {
		s->top--;
		s->depth--;
	}
	if (known && b & 7) {
		ps_bit(s, true);
		s->ip = to;
		return;
	}
	s->depth = s->top = 0;
	s->ip = b & 8 && to ? to : ps_target(s);
	ps_flush(s);
	ps_ip(s, OP_TIP, s->ip, b & 0x10);
}

static void ps_far(struct ptscript *s, uint8_t b)
{
	ps_flush(s);
	if (b & 3) {
		s->untrue |= b & 4;	/* that is where others lead to, too */
		ps_off(s, b & 4, CODE_HIGH);
		return;
	}
	s->ip = ps_target(s);
	ps_ip(s, OP_TIP, s->ip, b & 8);
}

/* On to the instruction behind one of a kind that takes a packet. */
static void ps_branch(struct ptscript *s, const struct x86_insn *insn,
		      uint64_t next, uint8_t b)
{
	uint64_t target = next + (uint64_t)insn->disp;

	switch (insn->cls) {
	case X86_COND:
		ps_bit(s, b & 1);
		s->ip = b & 1 ? target : next;
		break;
	case X86_RET:
		ps_return(s, b);
		break;
	case X86_IND_CALL:
		ps_push(s, next);
		/* fall through */
	case X86_IND_JUMP:
		ps_flush(s);
		s->ip = ps_target(s);
		ps_ip(s, OP_TIP, s->ip, b & 0x10);
		break;
	default:
		ps_far(s, b);
		break;
	}
}

/* Runs to the next branch that takes a packet, and over it. */
static void ps_run(struct ptscript *s, uint8_t b, unsigned *steps)
{
	struct x86_insn insn;
	const uint8_t *p;
	uint64_t next;

	while (s->on && ++*steps < STEPS) {
		size_t n = ps_at(&s->c, s->ip, &p);

		if (!n || !x86_insn_decode(p, n, &insn)) {
			ps_async(s);	/* a fault, say */
			return;
		}
		next = s->ip + insn.size;
		s->ran[s->n_ran++] = s->ip;
		/* a MOV to CR3 has no PIP here, and tracing may end at it */
		s->untrue |= n > 1 && p[0] == 0x0f && p[1] == 0x22;
		switch (insn.cls) {
		case X86_OTHER:
		case X86_PTWRITE:
			s->ip = next;
			if (b & 0x80 && !(b & 0x70))
				return;	/* something happens here */
			break;
		case X86_CALL:
			if (insn.disp)
				ps_push(s, next);
			/* fall through */
		case X86_JUMP:
			s->ip = next + (uint64_t)insn.disp;
			break;
		default:
			ps_branch(s, &insn, next, b);
			return;
		}
	}
}

static void ps_happen(struct ptscript *s, uint8_t b)
{
	switch (b >> 4) {
	case 0:
	case 1:
	case 2:
		ps_time(s);
		break;
	case 3:
	case 4:
		ps_psb(s);
		break;
	case 5:
		if (s->on)
			ps_async(s);
		break;
	case 6:
		ps_overflow(s);
		break;
	case 7:
		if (s->on)
			ps_transaction(s);
		break;
	case 8:
		ps_break(s);
		break;
	default:
		ps_other(s);
		break;
	}
}

/* The trace of a script. seed: which code; flags: what the CPU does. */
static void ps_make(struct ptscript *s, uint8_t seed, uint8_t flags,
		    const uint8_t *data, size_t len)
{
	unsigned steps = 0;

	memset(s, 0, sizeof(*s));
	ps_make_code(&s->c, seed);
	s->compress = flags & 1;
	s->p = data;
	s->end = data + len;
	s->tsc = 0x100000;
	s->ip = CODE_LOW;
	s->on = !(flags & 2);
	ps_psb(s);
	while (s->p < s->end && !s->full && steps < STEPS) {
		uint8_t b = ps_byte(s);

		if ((b & 15) == 15)
			ps_happen(s, b);
		else if (!s->on)
			ps_turn_on(s);
		else
			ps_run(s, b, &steps);
	}
	ps_flush(s);
}

#endif
