/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etmscript: a trace that an ETMv4 or ETE could have made, of any bytes: a walk
 * through A64 code by a script, as ptscript.h has it.
 *
 * Specification: IHI 0064 (ETMv4), DDI 0487 chapter D6 (ETE), "Packets".
 */
#ifndef TESTS_FUZZ_ETMSCRIPT_H
#define TESTS_FUZZ_ETMSCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/a64_insn.h"

#define CODE_WORDS 256		/* of each half */
#define CODE_LOW 0x401000
#define CODE_HIGH UINT64_C(0x7f1234567000)
#define TRACE_MAX 8192
#define STEPS 4000		/* instructions without a byte of the script */

struct etmscript {
	uint32_t code[2][CODE_WORDS];
	const uint8_t *p, *end;
	uint8_t trace[TRACE_MAX + 64];
	size_t n;
	uint64_t ip, ts, history[3];
	unsigned atoms, n_atoms;	/* that wait; the first in bit 0 */
	uint64_t stack[16];
	unsigned top, depth;
	bool on, ete, returns, cycles, contexts, broken;
	unsigned sources;	/* taken P0 instructions as source addresses */
	uint8_t context;
	uint64_t ran[STEPS];	/* instructions, if not broken */
	size_t n_ran;
};

/* ---- code ---- */

/* table */
static const struct {
	uint32_t word;
	uint8_t bits, shift;	/* of a displacement in words */
} es_insns[] = {
	{ 0xd503201f, 0, 0 },	/* nop */
	{ 0x91000400, 0, 0 },	/* add */
	{ 0xaa0103e0, 0, 0 },
	{ 0x54000001, 19, 5 },	/* b.ne */
	{ 0x5400000b, 19, 5 },
	{ 0xb4000000, 19, 5 },	/* cbz */
	{ 0x35000003, 19, 5 },	/* cbnz */
	{ 0x36080004, 14, 5 },	/* tbz */
	{ 0x14000000, 26, 0 },	/* b */
	{ 0x94000000, 26, 0 },	/* bl */
	{ 0x94000000, 26, 0 },
	{ 0xd65f03c0, 0, 0 },	/* ret */
	{ 0xd65f03c0, 0, 0 },
	{ 0xd61f0020, 0, 0 },	/* br */
	{ 0xd63f0040, 0, 0 },	/* blr */
	{ 0xd4000001, 0, 0 },	/* svc */
	{ 0xd69f03e0, 0, 0 },	/* eret */
	{ 0xd5033fdf, 0, 0 },	/* isb */
	{ 0xd503205f, 0, 0 },	/* wfe */
};

static uint32_t es_draw(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static uint64_t es_base(unsigned half)
{
	return half ? CODE_HIGH : CODE_LOW;
}

static void es_make_code(struct etmscript *s, uint8_t seed)
{
	unsigned n_kinds = sizeof(es_insns) / sizeof(es_insns[0]), k;
	uint32_t state = seed * 2654435761u + 7;

	for (unsigned i = 0; i < 2 * CODE_WORDS; i++) {
		int32_t at = (int32_t)(i % CODE_WORDS), to;

		k = es_draw(&state) % (n_kinds + 6);
		if (k >= n_kinds)
			k %= 3;
		to = (int32_t)(es_draw(&state) % CODE_WORDS);
		if (to == at + 1)
			to = at;	/* taken or not would be the same */
		s->code[i / CODE_WORDS][at] = es_insns[k].word |
			((uint32_t)(to - at) & ((1u << es_insns[k].bits) - 1))
				<< es_insns[k].shift;
	}
}

/* The words from ip on to the end of its half; how many. */
static size_t es_at(const struct etmscript *s, uint64_t ip, const uint32_t **p)
{
	for (unsigned half = 0; half < 2; half++)
		if (ip - es_base(half) < 4 * CODE_WORDS) {
			*p = s->code[half] + (ip - es_base(half)) / 4;
			return CODE_WORDS - (size_t)(ip - es_base(half)) / 4;
		}
	return 0;
}

/* ---- packets ---- */

static uint8_t es_byte(struct etmscript *s)
{
	return s->p < s->end ? *s->p++ : 0;
}

static void es_put(struct etmscript *s, const void *p, size_t n)
{
	if (s->n + n > TRACE_MAX)
		return;
	memcpy(s->trace + s->n, p, n);
	s->n += n;
}

static void es_put_byte(struct etmscript *s, unsigned v)
{
	uint8_t b = (uint8_t)v;

	es_put(s, &b, 1);
}

static void es_flush(struct etmscript *s)
{
	if (s->n_atoms == 1)
		es_put_byte(s, 0xf6 | s->atoms);
	else if (s->n_atoms == 2)
		es_put_byte(s, 0xd8 | s->atoms);
	else if (s->n_atoms == 3)
		es_put_byte(s, 0xf8 | s->atoms);
	s->n_atoms = s->atoms = 0;
}

static void es_atom(struct etmscript *s, bool taken)
{
	s->atoms |= (unsigned)taken << s->n_atoms;
	if (++s->n_atoms == 3)
		es_flush(s);
}

static void es_run_of_atoms(struct etmscript *s, unsigned n, bool last)
{
	es_flush(s);
	es_put_byte(s, (last ? 0xc0 : 0xe0) + n);
}

/* The address bytes behind a header; n of 4 or 8. */
static void es_address(struct etmscript *s, uint64_t ip, unsigned n)
{
	es_put_byte(s, ip >> 2 & 0x7f);
	es_put_byte(s, ip >> 9 & 0x7f);
	for (unsigned i = 2; i < n; i++)
		es_put_byte(s, ip >> 8 * i & 0xff);
}

static void es_push_history(struct etmscript *s, uint64_t ip)
{
	s->history[2] = s->history[1];
	s->history[1] = s->history[0];
	s->history[0] = ip;
}

static void es_context_info(struct etmscript *s)
{
	es_put_byte(s, s->context | (s->contexts ? 0x80 : 0));
	if (s->contexts)
		es_put(s, "\x41\x39\x00\x00", 4);
}

static void es_target_packet(struct etmscript *s, uint64_t ip, uint8_t b)
{
	es_flush(s);
	for (unsigned i = 0; i < 3 && b & 1; i++)
		if (s->history[i] == ip) {
			es_put_byte(s, 0x90 + i);
			es_push_history(s, ip);
			return;
		}
	if (!((ip ^ s->history[0]) >> 17) && b & 2) {
		es_put_byte(s, 0x95);
		if ((ip ^ s->history[0]) >> 9) {
			es_put_byte(s, 0x80 | (ip >> 2 & 0x7f));
			es_put_byte(s, ip >> 9 & 0xff);
		} else {
			es_put_byte(s, ip >> 2 & 0x7f);
		}
	} else if (!((ip ^ s->history[0]) >> 32) && b & 4) {
		es_put_byte(s, b & 8 ? 0x82 : 0x9a);
		es_address(s, ip, 4);
		if (b & 8)
			es_context_info(s);
	} else {
		es_put_byte(s, b & 8 ? 0x85 : 0x9d);
		es_address(s, ip, 8);
		if (b & 8)
			es_context_info(s);
	}
	es_push_history(s, ip);
}

static uint64_t es_target(struct etmscript *s)
{
	uint8_t b = es_byte(s);

	if (b == 0xfe)
		return 0xdead000;
	return es_base(b & 1) + 4 * ((b >> 1) * 5u % CODE_WORDS);
}

static void es_sync(struct etmscript *s)
{
	es_flush(s);
	es_put(s, "\0\0\0\0\0\0\0\0\0\0\0\x80\x01\x01\0", 15);
	memset(s->history, 0, sizeof(s->history));
	s->top = s->depth = 0;
	if (s->on)
		es_target_packet(s, s->ip, 8);
}

static void es_begin(struct etmscript *s)
{
	s->ip = es_target(s);
	es_flush(s);
	es_put_byte(s, 4);
	es_target_packet(s, s->ip, 8);
	s->on = true;
	s->top = s->depth = 0;
}

/* type: 1 reset, 2 call, 10 alignment.., 14 IRQ */
static void es_exception(struct etmscript *s, unsigned type, uint64_t from,
			 uint8_t b)
{
	es_flush(s);
	es_put_byte(s, 6);
	es_put_byte(s, 1 | type << 1);
	es_target_packet(s, from, b & 6);
	if (b & 0x30) {		/* what the kernel does is not traced */
		s->on = false;
		return;
	}
	s->ip = es_target(s);
	es_target_packet(s, s->ip, b | 8);
}

/* A taken P0 instruction, by an atom or by where it is. */
static void es_taken(struct etmscript *s, uint64_t at)
{
	if (!s->sources) {
		es_atom(s, true);
		return;
	}
	s->sources--;
	es_flush(s);
	if (s->sources & 1 && !((at ^ s->history[0]) >> 9)) {
		es_put_byte(s, 0xb4);
		es_put_byte(s, at >> 2 & 0x7f);
	} else {
		es_put_byte(s, 0xb8);
		es_address(s, at, 8);
	}
	es_push_history(s, at);
}

/* ---- what happens between instructions ---- */

static void es_time(struct etmscript *s)
{
	uint64_t v;

	es_flush(s);
	s->ts += 100 + es_byte(s);
	v = s->ts;
	es_put_byte(s, 2);
	for (; v >> 7; v >>= 7)
		es_put_byte(s, 0x80 | (v & 0x7f));
	es_put_byte(s, v & 0x7f);
}

static void es_context(struct etmscript *s)
{
	es_flush(s);
	es_put_byte(s, 0x81);
	es_context_info(s);
}

static void es_break(struct etmscript *s)
{
	uint8_t b = es_byte(s);

	s->broken = true;
	if (b & 0x80 && s->n) {
		s->trace[s->n - 1] ^= (uint8_t)(1 << (b & 7));
	} else if (b & 0x40) {
		es_atom(s, b & 1);
	} else if (b & 0x20) {
		es_run_of_atoms(s, b & 15, b & 16);
	} else {
		for (unsigned n = 1 + (b & 7); n; n--)
			es_put_byte(s, es_byte(s));
	}
}

static void es_happen(struct etmscript *s, uint8_t b)
{
	switch (b >> 4) {
	case 0:
	case 1:
		es_time(s);
		break;
	case 2:
	case 3:
		es_sync(s);
		break;
	case 4:
	case 5:
		if (s->on)
			es_exception(s, 14, s->ip, es_byte(s));
		break;
	case 6:
		es_flush(s);
		es_put(s, "\0\x05", 2);		/* overflow */
		s->on = false;
		break;
	case 7:
		es_break(s);
		break;
	case 8:
		es_context(s);
		break;
	case 9:
		es_flush(s);
		es_put_byte(s, 0x71 + (es_byte(s) & 3));	/* event */
		break;
	case 10:
		if (s->on)
			es_begin(s);
		break;
	case 11:
		s->sources = s->ete ? es_byte(s) : 0;
		break;
	default:
		es_flush(s);
		es_put_byte(s, 0x70);		/* ignore */
		break;
	}
}

/* ---- the walk ---- */

static void es_indirect(struct etmscript *s, uint64_t at, uint8_t b, bool is_ret)
{
	es_taken(s, at);
	if (is_ret && s->returns && s->depth) {
		uint64_t to = s->stack[(s->top - 1) % 16];

		if (b & 7) {
			s->top--;
			s->depth--;
			s->ip = to;
			return;
		}
		s->top = s->depth = 0;	/* not to be asked again */
	}
	s->ip = es_target(s);
	es_target_packet(s, s->ip, b >> 3 & 7);
}

static void es_push(struct etmscript *s, uint64_t ip)
{
	if (!s->returns)
		return;
	s->stack[s->top++ % 16] = ip;
	s->depth += s->depth < 16;
}

/* True: the script decides what is next. */
static bool es_step(struct etmscript *s, const struct a64_insn *insn, uint8_t b)
{
	uint64_t at = s->ip, next = at + 4;
	uint64_t target = at + (uint64_t)(int64_t)insn->disp;

	s->ran[s->n_ran++] = at;
	s->ip = next;
	switch (insn->cls) {
	case A64_COND:
		if (b & 1)
			es_taken(s, at);
		else
			es_atom(s, false);
		s->ip = b & 1 ? target : next;
		return true;
	case A64_CALL:
		es_push(s, next);
		/* fall through */
	case A64_JUMP:
		es_taken(s, at);
		s->ip = target;
		return false;
	case A64_ISB:
		es_taken(s, at);
		return false;
	case A64_IND_CALL:
		es_push(s, next);
		/* fall through */
	case A64_IND_JUMP:
		es_indirect(s, at, b, false);
		return true;
	case A64_RET:
	case A64_FAR:
		es_indirect(s, at, b, insn->cls == A64_RET);
		return true;
	case A64_SYSCALL:
		es_exception(s, 2, next, b);
		return true;
	default:
		return false;
	}
}

static void es_run(struct etmscript *s, uint8_t b, unsigned *steps)
{
	struct a64_insn insn;
	const uint32_t *p;

	while (s->on && ++*steps < STEPS && s->n < TRACE_MAX) {
		if (!es_at(s, s->ip, &p)) {
			es_exception(s, 11, s->ip, b | 0x10);
			return;
		}
		a64_insn_decode(*p, &insn);
		if (es_step(s, &insn, b) || (b & 0x80 && !(b & 0x70)))
			return;
	}
}

static void es_make(struct etmscript *s, uint8_t seed, uint8_t flags,
		    const uint8_t *data, size_t len)
{
	unsigned steps = 0;

	memset(s, 0, sizeof(*s));
	es_make_code(s, seed);
	s->returns = flags & 1;
	s->contexts = flags & 2;
	s->ete = flags & 4;
	s->context = 0x30;		/* EL0, 64-bit, not secure */
	s->p = data;
	s->end = data + len;
	s->ts = 0x1000;
	es_sync(s);
	while (s->p < s->end && s->n < TRACE_MAX && steps < STEPS) {
		uint8_t b = es_byte(s);

		if ((b & 15) == 15)
			es_happen(s, b);
		else if (!s->on)
			es_begin(s);
		else
			es_run(s, b, &steps);
	}
	es_flush(s);
}

#endif
