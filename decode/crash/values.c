/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values that follow from a core file backwards.
 *
 * The registers at the end are known. Before an instruction that does not write to a
 * register it was the same; an addition is undone; a copy says what was copied; a
 * constant is known by itself, forwards. Memory is that of the core file unless an
 * instruction after it wrote there, or to a place that is not known, or into the kernel
 * (which may write anywhere). What is learned this way leads to addresses, and these to
 * more: so it goes through all instructions until nothing new comes.
 *
 * Each value is proven or not there. A value that contradicts another one shows that the
 * core file is not of this end, or that something ran that is not in the trace: then
 * nothing is proven.
 */
#include <string.h>

#include "common/bytes.h"
#include "decode/crash/impl.h"

#define ROUNDS 8
#define FS_BYTES 0x80	/* of a thread's block; beyond it the kernel writes (rseq) */

static void learn(struct proof *p, size_t i, unsigned reg, uint64_t v)
{
	if (reg >= INSN_REGS)
		return;
	if (p->known[i] & 1u << reg) {
		p->contradiction |= p->before[i][reg] != v;
		return;
	}
	p->before[i][reg] = v;
	p->known[i] |= (uint16_t)(1u << reg);
	p->changed = true;
}

static bool get(const struct proof *p, size_t i, unsigned reg, uint64_t *v)
{
	if (reg >= INSN_REGS || !(p->known[i] & 1u << reg))
		return false;
	*v = p->before[i][reg];
	return true;
}

static uint64_t cut(uint64_t v, unsigned size)
{
	return size >= 8 ? v : v & ((UINT64_C(1) << 8 * size) - 1);
}

/* ---- memory ---- */

/* The base of FS is the thread's as long as it made no system call since. */
static bool fs_base(const struct proof *p, size_t i, uint64_t *v)
{
	for (size_t k = i; k < p->n; k++)
		if (p->insns[k].effect.kind == INSN_SYSCALL ||
		    p->insns[k].effect.kind == INSN_ANYTHING || p->insns[k].parted)
			return false;
	*v = p->regs->fs_base;
	return true;
}

/* The address of a place, with the registers before instruction i. */
static bool address_of(const struct proof *p, size_t i, const struct insn_place *m,
		       uint64_t *addr)
{
	uint64_t base = 0, index = 0, segment = 0;

	if (m->kind != INSN_AT_MEM || m->gs ||
	    (m->base != INSN_NO_REG && !get(p, i, m->base, &base)) ||
	    (m->index != INSN_NO_REG && !get(p, i, m->index, &index)))
		return false;
	if (m->fs && (m->base != INSN_NO_REG || m->index != INSN_NO_REG || m->disp < 0 ||
		      m->disp >= FS_BYTES || !fs_base(p, i, &segment)))
		return false;
	*addr = segment + base + index * m->scale + (uint64_t)m->disp;
	return true;
}

enum touch { TOUCH_NOT, TOUCH_SOME, TOUCH_ALL, TOUCH_UNKNOWN };

/* What instruction i writes to memory, as far as [addr, addr + n) is concerned. */
static enum touch touches(const struct proof *p, size_t i, uint64_t addr, size_t n)
{
	const struct insn_effect *e = &p->insns[i].effect;
	uint64_t at = 0, size = 8;
	bool known;

	if (e->kind == INSN_ANYTHING || e->kind == INSN_SYSCALL || p->insns[i].parted)
		return TOUCH_UNKNOWN;
	if (e->kind == INSN_PUSH || e->kind == INSN_CALL) {
		known = get(p, i + 1, INSN_RSP, &at);
	} else if (e->dst.kind == INSN_AT_MEM) {
		known = address_of(p, i, &e->dst, &at);
		size = e->dst.size;
	} else {
		return TOUCH_NOT;
	}
	if (!known)
		return TOUCH_UNKNOWN;
	if (at + size <= addr || addr + n <= at)
		return TOUCH_NOT;
	return at == addr && size == n ? TOUCH_ALL : TOUCH_SOME;
}

static bool value_of(struct proof *p, size_t i, const struct insn_place *s, uint64_t *v);

/* What instruction i stored at just this place, of this size. */
static bool stored(struct proof *p, size_t i, uint64_t *v)
{
	const struct insn_effect *e = &p->insns[i].effect;

	if (e->kind == INSN_CALL) {
		*v = p->insns[i].ip + e->size;
		return true;
	}
	if ((e->kind != INSN_MOVE && e->kind != INSN_PUSH) || e->src.kind == INSN_AT_MEM)
		return false;
	return value_of(p, i, &e->src, v);
}

/* What instruction i loaded from just this place, which is known from where it went. */
static bool loaded(struct proof *p, size_t i, uint64_t addr, size_t n, uint64_t *v)
{
	const struct insn_effect *e = &p->insns[i].effect;
	uint64_t at;

	if (n != 8)
		return false;
	if (e->kind == INSN_POP && e->dst.kind == INSN_AT_REG)
		return get(p, i, INSN_RSP, &at) && at == addr &&
		       get(p, i + 1, e->dst.reg, v);
	return e->kind == INSN_MOVE && e->src.kind == INSN_AT_MEM && e->src.size == 8 &&
	       e->dst.kind == INSN_AT_REG && address_of(p, i, &e->src, &at) &&
	       at == addr && get(p, i + 1, e->dst.reg, v);
}

/* The memory before instruction i, from the end: as long as nothing wrote to it. */
static bool memory_later(struct proof *p, size_t i, uint64_t addr, size_t n, uint64_t *v)
{
	uint8_t bytes[8];

	for (size_t k = i; k < p->n; k++) {
		if (loaded(p, k, addr, n, v))
			return true;
		if (touches(p, k, addr, n) != TOUCH_NOT)
			return false;
	}
	if (!p->core || !elfcore_is_private(p->core, addr, n) ||
	    elfcore_read(p->core, addr, bytes, n) != n)
		return false;
	*v = cut(load_le64(memcpy((uint8_t[8]){ 0 }, bytes, n)), (unsigned)n);
	return true;
}

/* The same from what was stored there before. */
static bool memory_before(struct proof *p, size_t i, uint64_t addr, size_t n, uint64_t *v)
{
	for (size_t k = i; k-- > 0;) {
		enum touch t = touches(p, k, addr, n);

		if (t == TOUCH_ALL && stored(p, k, v)) {
			*v = cut(*v, (unsigned)n);
			return true;
		}
		if (t != TOUCH_NOT)
			return false;
		if (loaded(p, k, addr, n, v))
			return true;
	}
	return false;
}

static bool memory_at(struct proof *p, size_t i, uint64_t addr, size_t n, uint64_t *v)
{
	if (p->shared || !n || n > 8 || addr > UINT64_MAX - 8)
		return false;
	return memory_later(p, i, addr, n, v) || memory_before(p, i, addr, n, v);
}

/* ---- operands ---- */

/* An operand before instruction i, of its size. */
static bool value_of(struct proof *p, size_t i, const struct insn_place *s, uint64_t *v)
{
	uint64_t addr;

	switch (s->kind) {
	case INSN_CONSTANT:
		*v = (uint64_t)s->disp;
		return true;
	case INSN_AT_REG:
		if (!get(p, i, s->reg, v))
			return false;
		*v = cut(s->high ? *v >> 8 : *v, s->size);
		return true;
	case INSN_AT_MEM:
		return address_of(p, i, s, &addr) && memory_at(p, i, addr, s->size, v);
	}
	return false;
}

/* A result goes to a register: one of 4 bytes clears the others, smaller ones stay. */
static void result(struct proof *p, size_t i, const struct insn_place *d, uint64_t v)
{
	uint64_t old, mask;
	unsigned shift = d->high ? 8 : 0;

	if (d->kind != INSN_AT_REG)
		return;
	if (d->size >= 4) {
		learn(p, i + 1, d->reg, cut(v, d->size));
		return;
	}
	mask = ((UINT64_C(1) << 8 * d->size) - 1) << shift;
	if (get(p, i, d->reg, &old))
		learn(p, i + 1, d->reg, (old & ~mask) | (v << shift & mask));
}

static void prove_move(struct proof *p, size_t i, const struct insn_effect *e)
{
	uint64_t v, addr;

	if (value_of(p, i, &e->src, &v)) {
		if (e->kind == INSN_MOVE_SIGN && e->src.size < 8 && e->src.size)
			v = (uint64_t)((int64_t)(v << (64 - 8 * e->src.size)) >>
				       (64 - 8 * e->src.size));
		result(p, i, &e->dst, v);
	}
	if (e->kind != INSN_MOVE || e->src.kind != INSN_AT_REG || e->src.size != 8)
		return;
	if (e->dst.kind == INSN_AT_REG && get(p, i + 1, e->dst.reg, &v))
		learn(p, i, e->src.reg, v);
	if (e->dst.kind == INSN_AT_MEM && address_of(p, i, &e->dst, &addr) &&
	    !p->shared && memory_later(p, i + 1, addr, 8, &v))
		learn(p, i, e->src.reg, v);
}

static void prove_address(struct proof *p, size_t i, const struct insn_effect *e)
{
	const struct insn_place *m = &e->src;
	uint64_t v;

	if (m->fs || m->gs)
		return;
	if (address_of(p, i, m, &v))
		result(p, i, &e->dst, v);
	if (m->index == INSN_NO_REG && m->base != INSN_NO_REG &&
	    e->dst.size == 8 && get(p, i + 1, e->dst.reg, &v))
		learn(p, i, m->base, v - (uint64_t)m->disp);
}

static uint64_t combine(unsigned kind, uint64_t a, uint64_t b)
{
	switch (kind) {
	case INSN_ADD:
		return a + b;
	case INSN_SUB:
		return a - b;
	case INSN_XOR:
		return a ^ b;
	case INSN_AND:
		return a & b;
	default:
		return a | b;
	}
}

static void prove_arithmetic(struct proof *p, size_t i, const struct insn_effect *e)
{
	const struct insn_place *d = &e->dst;
	bool same = e->src.kind == INSN_AT_REG && d->kind == INSN_AT_REG &&
		    e->src.reg == d->reg;
	uint64_t a, b, v;

	if (same && (e->kind == INSN_XOR || e->kind == INSN_SUB) &&
	    e->src.high == d->high)
		result(p, i, d, 0);
	if (!value_of(p, i, &e->src, &b))
		return;
	if (value_of(p, i, d, &a))
		result(p, i, d, combine(e->kind, a, b));
	if (d->kind != INSN_AT_REG || d->size != 8 || same || !get(p, i + 1, d->reg, &v))
		return;
	if (e->kind == INSN_ADD)
		learn(p, i, d->reg, v - b);
	else if (e->kind == INSN_SUB)
		learn(p, i, d->reg, v + b);
	else if (e->kind == INSN_XOR)
		learn(p, i, d->reg, v ^ b);
}

/* The stack pointer moves by a number that is known. */
static void prove_stack(struct proof *p, size_t i, int64_t by)
{
	uint64_t v;

	if (get(p, i, INSN_RSP, &v))
		learn(p, i + 1, INSN_RSP, v + (uint64_t)by);
	if (get(p, i + 1, INSN_RSP, &v))
		learn(p, i, INSN_RSP, v - (uint64_t)by);
}

static void prove_push(struct proof *p, size_t i, const struct insn_effect *e)
{
	uint64_t sp, v;

	prove_stack(p, i, -8);
	if (e->src.kind == INSN_AT_REG && e->src.size == 8 && e->src.reg != INSN_RSP &&
	    !p->shared && get(p, i + 1, INSN_RSP, &sp) &&
	    memory_later(p, i + 1, sp, 8, &v))
		learn(p, i, e->src.reg, v);
}

static void prove_pop(struct proof *p, size_t i, const struct insn_effect *e)
{
	uint64_t sp, v;

	if (e->dst.kind == INSN_AT_REG && e->dst.reg == INSN_RSP)
		return;
	prove_stack(p, i, 8);
	if (e->dst.kind == INSN_AT_REG && get(p, i, INSN_RSP, &sp) &&
	    memory_at(p, i, sp, 8, &v))
		learn(p, i + 1, e->dst.reg, v);
}

static void prove_leave(struct proof *p, size_t i)
{
	uint64_t v, saved;

	if (get(p, i + 1, INSN_RSP, &v))
		learn(p, i, INSN_RBP, v - 8);
	if (!get(p, i, INSN_RBP, &v))
		return;
	learn(p, i + 1, INSN_RSP, v + 8);
	if (memory_at(p, i, v, 8, &saved))
		learn(p, i + 1, INSN_RBP, saved);
}

static void prove_kept(struct proof *p, size_t i, uint16_t writes)
{
	uint64_t v;

	for (unsigned r = 0; r < INSN_REGS; r++) {
		if (writes & 1u << r)
			continue;
		if (get(p, i + 1, r, &v))
			learn(p, i, r, v);
		else if (get(p, i, r, &v))
			learn(p, i + 1, r, v);
	}
}

static void prove(struct proof *p, size_t i)
{
	const struct insn_effect *e = &p->insns[i].effect;

	if (e->kind == INSN_ANYTHING || p->insns[i].parted)
		return;
	prove_kept(p, i, e->writes);
	switch (e->kind) {
	case INSN_MOVE:
	case INSN_MOVE_ZERO:
	case INSN_MOVE_SIGN:
		prove_move(p, i, e);
		break;
	case INSN_ADDRESS:
		prove_address(p, i, e);
		break;
	case INSN_ADD:
	case INSN_SUB:
	case INSN_XOR:
	case INSN_AND:
	case INSN_OR:
		prove_arithmetic(p, i, e);
		break;
	case INSN_PUSH:
		prove_push(p, i, e);
		break;
	case INSN_POP:
		prove_pop(p, i, e);
		break;
	case INSN_CALL:
		prove_stack(p, i, -8);
		break;
	case INSN_RET:
		prove_stack(p, i, 8 + (e->src.kind == INSN_CONSTANT ? e->src.disp : 0));
		break;
	case INSN_LEAVE:
		prove_leave(p, i);
		break;
	case INSN_SYSCALL:
		learn(p, i + 1, INSN_RCX, p->insns[i].ip + e->size);
		break;
	}
}

bool proof_run(struct proof *p)
{
	memset(p->known, 0, (p->n + 1) * sizeof(*p->known));
	memcpy(p->before[p->n], p->regs->gpr, sizeof(p->regs->gpr));
	p->known[p->n] = UINT16_MAX;
	p->changed = true;
	for (unsigned k = 0; k < ROUNDS && p->changed && !p->contradiction; k++) {
		p->changed = false;
		for (size_t i = p->n; i-- > 0;)
			prove(p, i);
		for (size_t i = 0; i < p->n; i++)
			prove(p, i);
	}
	return !p->contradiction;
}

struct crash_memory proof_memory(struct proof *p, size_t i)
{
	const struct insn_effect *e = &p->insns[i].effect;
	const struct insn_place *m = e->dst.kind == INSN_AT_MEM ? &e->dst : &e->src;
	struct crash_memory out = { .size = 0 };

	if (e->kind == INSN_ANYTHING || e->kind == INSN_ADDRESS ||
	    !address_of(p, i, m, &out.addr))
		return out;
	out.has_addr = true;
	if (m->size <= 8 && memory_at(p, i, out.addr, m->size, &out.value))
		out.size = m->size;
	return out;
}
