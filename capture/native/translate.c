/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies of instructions that run elsewhere: relative operands are moved,
 * branches become records and jumps, the rest is the same bytes.
 *
 * Specification: Intel SDM volume 2, chapter 2 (prefixes, ModRM) and the pages
 * of CALL, RET, JRCXZ and SYSCALL.
 */
#include <string.h>

#include "capture/native/native.h"
#include "common/x86_insn.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

#define SLOT(name) ((uint32_t)offsetof(struct native_slots, name))
#define NEAR (INT64_C(1) << 31)
#define MAX_CONSTANTS NATIVE_MAX_INSNS
#define ROUNDS_INSNS 96	/* of a loop that is copied several times */
#define MAX_DIFFERS 512
#define MAX_CONDITIONS 15	/* of a loop that is copied several times */
#define SAME_MAX 48	/* bytes that are compared at once, and an instruction */
#define MAX_SAME 16	/* ranges that are known to be the same */

/* A copy in the making. */
struct gen {
	struct native_area *area;
	uint8_t *p;
	/* 8 bytes that a displacement refers to, put after the code */
	struct {
		uint8_t *disp;
		uint64_t value;
	} constants[MAX_CONSTANTS];
	unsigned n_constants;
};

/* Of one instruction: what decides how it is copied. */
struct shape {
	const uint8_t *bytes;
	uint8_t size, cls;
	uint8_t n_prefixes;	/* before REX and opcode */
	uint8_t rex, op;	/* op: the byte after them */
	uint8_t modrm_at;	/* 0: it has none */
	bool p66, p67, f3, fs, gs;
	bool relative;		/* a RIP-relative operand */
	int32_t disp;		/* its displacement */
};

static uint64_t here(const struct gen *g)
{
	return g->area->at + (uint64_t)(g->p - g->area->mem);
}

static void put(struct gen *g, const void *bytes, size_t n)
{
	memcpy(g->p, bytes, n);
	g->p += n;
}

#define PUT(g, ...) put(g, (const uint8_t[]){ __VA_ARGS__ }, \
			sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void put32(struct gen *g, uint32_t v)
{
	put(g, &v, sizeof(v));
}

static void put64(struct gen *g, uint64_t v)
{
	put(g, &v, sizeof(v));
}

/* mov %reg, %gs:slot and back; registers 0 to 7 */
static void save(struct gen *g, unsigned reg, uint32_t slot)
{
	PUT(g, 0x65, 0x48, 0x89, (uint8_t)(4 | reg << 3), 0x25);
	put32(g, slot);
}

static void load(struct gen *g, unsigned reg, uint32_t slot)
{
	PUT(g, 0x65, 0x48, 0x8b, (uint8_t)(4 | reg << 3), 0x25);
	put32(g, slot);
}

static void move_address(struct gen *g, unsigned reg, uint64_t v)
{
	PUT(g, 0x48, (uint8_t)(0xb8 | reg));
	put64(g, v);
}

/* The rel8 at p leads here. */
static void land8(struct gen *g, uint8_t *p)
{
	*p = (uint8_t)(g->p - (p + 1));
}

static void land32(struct gen *g, uint8_t *p)
{
	int32_t rel = (int32_t)(g->p - (p + 4));

	memcpy(p, &rel, sizeof(rel));
}

static void align(struct gen *g, unsigned to, unsigned ahead)
{
	while ((here(g) + ahead) % to)
		PUT(g, 0x90);
}

/* ---- one instruction ---- */

static void read_prefixes(struct shape *s)
{
	unsigned i;

	for (i = 0; i < s->size; i++) {
		switch (s->bytes[i]) {
		case 0x64: s->fs = true; break;
		case 0x65: s->gs = true; break;
		case 0x66: s->p66 = true; break;
		case 0x67: s->p67 = true; break;
		case 0xf3: s->f3 = true; break;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0xf0: case 0xf2:
			break;
		default:
			s->n_prefixes = (uint8_t)i;
			if ((s->bytes[i] & 0xf0) == 0x40)
				s->rex = s->bytes[i++];
			s->op = i < s->size ? s->bytes[i] : 0;
			return;
		}
	}
}

static struct shape shape_of(const uint8_t *bytes, const struct x86_insn *x)
{
	struct shape s = { .bytes = bytes, .size = x->size, .cls = x->cls };
	uint8_t modrm;

	read_prefixes(&s);
	s.modrm_at = (uint8_t)x86_insn_modrm(bytes, x->size);
	if (!s.modrm_at)
		return s;
	modrm = bytes[s.modrm_at];
	s.relative = (modrm & 0xc7) == 5;
	if (s.relative)
		memcpy(&s.disp, bytes + s.modrm_at + 1, sizeof(s.disp));
	return s;
}

/* Selectors and bases of GS: 0F xx, and MOV to a segment register. */
static bool touches_gs(const struct shape *s)
{
	const uint8_t *after = s->bytes + s->n_prefixes + !!s->rex + 1;
	uint8_t modrm = s->modrm_at ? s->bytes[s->modrm_at] : 0;
	unsigned reg = modrm >> 3 & 7;

	if (s->gs || (s->op == 0x8e && reg == 5))
		return true;
	if (s->op != 0x0f)
		return false;
	switch (*after) {
	case 0x01:
		return modrm == 0xf8;
	case 0xa9:
	case 0xb5:
		return true;
	case 0xae:	/* RDGSBASE, WRGSBASE */
		return s->f3 && modrm >> 6 == 3 && (reg & 5) == 1;
	default:
		return false;
	}
}

/* What is not copied: a branch that 66 cuts to 16 bits (on AMD), far branches,
 * interrupts, what loads the trap flag, transactions (XBEGIN has a target), and
 * the prefixes whose other forms are not known here. */
static bool is_odd(const struct shape *s)
{
	bool branch = s->cls != X86_OTHER && s->cls != X86_SYSCALL;

	if (touches_gs(s) || (s->relative && s->p67))
		return true;
	if (s->cls == X86_FAR || s->cls == X86_PTWRITE)
		return true;
	if (s->cls == X86_SYSCALL)
		return s->size != 2 || s->bytes[0] != 0x0f || s->bytes[1] != 5;
	if (branch && s->p66 && !(s->rex & 8))
		return true;
	if (s->p67 && (s->cls == X86_RET || s->cls == X86_IND_JUMP ||
		       s->cls == X86_IND_CALL))
		return true;
	if ((s->cls == X86_IND_JUMP || s->cls == X86_IND_CALL) &&
	    (s->op != 0xff || (s->relative && s->fs)))
		return true;
	if (s->op == 0x9d || s->op == 0xd5)
		return true;
	return s->op == 0xc7 && s->bytes[s->modrm_at] == 0xf8;
}

/* ---- operands ---- */

/* True: the RIP-relative operand of an instruction of so many bytes that is
 * copied to here(). */
static bool reaches(const struct gen *g, uint64_t target, unsigned size)
{
	int64_t d = (int64_t)(target - (here(g) + size));

	return d >= -NEAR && d < NEAR;
}

/* vvvv of VEX and EVEX as a register, else the one that is named anyway. */
static unsigned third_register(const struct shape *s, unsigned reg)
{
	const uint8_t *p = s->bytes + s->n_prefixes;

	if (s->rex || (*p != 0xc4 && *p != 0xc5 && *p != 0x62))
		return reg;
	return ~(p[*p == 0xc5 ? 1 : 2] >> 3) & 15;
}

/* RSI, RDI and RBX have no implicit use with a memory operand, but CMPXCHG8B's
 * of RBX. */
static unsigned pick_register(const struct shape *s)
{
	static const uint8_t candidates[] = { RSI, RDI, RBX };
	unsigned reg = s->bytes[s->modrm_at] >> 3 & 7, third, i;

	third = third_register(s, reg) & 7;
	for (i = 0; candidates[i] == reg || candidates[i] == third; i++)
		;
	return candidates[i];
}

/* The bit that extends the base register is void in RIP-relative operands, but
 * counts now. */
static void clear_extension(uint8_t *bytes, const struct shape *s)
{
	uint8_t *p = bytes + s->n_prefixes;

	if (s->rex)
		*p &= (uint8_t)~1;
	else if (*p == 0xc4 || *p == 0x62)
		p[1] |= 0x20;
	else if (*p == 0x8f && (p[1] & 0x1f) >= 8)
		p[1] |= 0x20;
}

/* Far: by way of a register, which the copy gives back. */
static void put_far(struct gen *g, const struct shape *s, uint64_t target,
		    struct native_insn *in)
{
	unsigned reg = pick_register(s), at = s->modrm_at;
	uint8_t bytes[16];

	memcpy(bytes, s->bytes, s->size);
	clear_extension(bytes, s);
	bytes[at] = (uint8_t)((bytes[at] & 0x38) | reg);
	in->far = (uint8_t)reg;
	save(g, reg, SLOT(far));
	move_address(g, reg, target);
	put(g, bytes, at + 1u);
	put(g, bytes + at + 5, s->size - at - 5u);
	load(g, reg, SLOT(far));
}

static void put_plain(struct gen *g, const struct shape *s,
		      struct native_insn *in)
{
	uint64_t target = in->ip + s->size + (uint64_t)(int64_t)s->disp;
	uint32_t disp;

	if (!s->relative) {
		put(g, s->bytes, s->size);
	} else if (reaches(g, target, s->size)) {
		disp = (uint32_t)(target - (here(g) + s->size));
		put(g, s->bytes, s->modrm_at + 1u);
		put32(g, disp);
		put(g, s->bytes + s->modrm_at + 5, s->size - s->modrm_at - 5u);
	} else {
		put_far(g, s, target, in);
	}
}

/* ---- the ways out ---- */

/* Leaves the record of an exit; RCX, which is in this slot, is as before. */
static uint8_t *put_record(struct gen *g, uint32_t id, struct native_exit *e,
			   uint32_t rcx)
{
	uint8_t *full;

	load(g, RCX, SLOT(cur));
	PUT(g, 0xe3, 0);		/* jrcxz full */
	full = g->p - 1;
	e->record = here(g);
	PUT(g, 0x65, 0xc7, 0x01);	/* movl $id, %gs:(%rcx) */
	put32(g, id);
	PUT(g, 0x48, 0x8d, 0x49, 4);	/* lea 4(%rcx), %rcx */
	save(g, RCX, SLOT(cur));
	load(g, RCX, rcx);
	return full;
}

/* A jump that native_link() directs; to e->miss, which follows. */
static void put_link(struct gen *g, const struct native_source *src,
		     struct native_exit *e)
{
	e->far = src->area_at(src->priv, e->target) != g->area->at;
	align(g, e->far ? 8 : 4, e->far ? 6 : 1);
	if (e->far)
		PUT(g, 0xff, 0x25, 0, 0, 0, 0);	/* jmp *0(%rip) */
	else
		PUT(g, 0xe9);
	e->link = here(g);
	if (e->far)
		put64(g, here(g) + 8);
	else
		put32(g, 0);
	e->miss = here(g);
	PUT(g, 0xcc);
}

static void put_direct(struct gen *g, const struct native_source *src,
		       uint32_t id, struct native_exit *e)
{
	uint8_t *full;

	save(g, RCX, SLOT(rcx));
	full = put_record(g, id, e, SLOT(rcx));
	put_link(g, src, e);
	land8(g, full);
	e->full = here(g);
	PUT(g, 0xcc);
}

/* The time stamp counter, in RAX and RDX, to beside the record that RCX is at. */
static void put_time(struct gen *g, int32_t at)
{
	PUT(g, 0x0f, 0x31);			/* rdtsc */
	PUT(g, 0x65, 0x89, 0x04, 0x8d);		/* mov %eax, %gs:at(,%rcx,4) */
	put32(g, (uint32_t)(at - NATIVE_RING));
	PUT(g, 0x65, 0x89, 0x14, 0x8d);
	put32(g, (uint32_t)(at - NATIVE_RING) + 4);
	load(g, RAX, SLOT(rax));
	load(g, RDX, SLOT(rdx));
}

/* An INT3 that runs if RCX is zero; its address. */
static uint64_t put_trap_if_zero(struct gen *g)
{
	PUT(g, 0xe3, 2, 0xeb, 1, 0xcc);	/* jrcxz over jmp over int3 */
	return here(g) - 1;
}

/* The record is the last that is done before the call: where a thread stops between them
 * the record can be taken back. RCX is free: SYSCALL overwrites it. */
static void put_call(struct gen *g, uint32_t id, struct native_exit *e)
{
	load(g, RCX, SLOT(cur));
	e->full = put_trap_if_zero(g);
	e->record = here(g);
	put_time(g, 0);
	PUT(g, 0x65, 0xc7, 0x01);	/* movl $id, %gs:(%rcx) */
	put32(g, id);
	PUT(g, 0x48, 0x8d, 0x49, 4);	/* lea 4(%rcx), %rcx */
	save(g, RCX, SLOT(cur));
	e->call = here(g);
	PUT(g, 0x0f, 0x05);
	e->after = here(g);
	save(g, RAX, SLOT(rax));
	save(g, RDX, SLOT(rdx));
	load(g, RCX, SLOT(cur));
	put_time(g, 8 - 16);
}

/* A call whose number is not plain traps before anything is done. The kernel
 * leaves the address of the next instruction in RCX. */
static void put_syscall(struct gen *g, const struct native_source *src,
			uint32_t id, struct native_exit *e)
{
	save(g, RAX, SLOT(rax));
	save(g, RCX, SLOT(rcx));
	save(g, RDX, SLOT(rdx));
	PUT(g, 0x0f, 0xb7, 0xc8);		/* movzwl %ax, %ecx */
	load(g, RDX, SLOT(calls));
	PUT(g, 0x0f, 0xb6, 0x0c, 0x0a);		/* movzbl (%rdx,%rcx), %ecx */
	load(g, RDX, SLOT(rdx));
	e->trap = put_trap_if_zero(g);
	put_call(g, id, e);
	move_address(g, RCX, e->target);
	put_link(g, src, e);
}

static void put_push(struct gen *g, uint64_t value)
{
	if (value < (uint64_t)NEAR) {
		PUT(g, 0x68);
		put32(g, (uint32_t)value);
		return;
	}
	PUT(g, 0xff, 0x35);
	g->constants[g->n_constants].disp = g->p;
	g->constants[g->n_constants++].value = value;
	put32(g, 0);
}

/* mov operand, %rcx */
static void put_operand(struct gen *g, const struct shape *s, uint64_t ip)
{
	uint64_t target = ip + s->size + (uint64_t)(int64_t)s->disp;
	unsigned at = s->modrm_at;

	if (s->relative && !reaches(g, target, 7)) {
		move_address(g, RCX, target);
		PUT(g, 0x48, 0x8b, 0x09);	/* mov (%rcx), %rcx */
		return;
	}
	if (s->fs)
		PUT(g, 0x64);
	PUT(g, (uint8_t)(0x48 | (s->rex & 3)), 0x8b,
	    (uint8_t)((s->bytes[at] & 0xc7) | RCX << 3));
	if (s->relative)
		put32(g, (uint32_t)(target - (here(g) + 4)));
	else
		put(g, s->bytes + at + 1, s->size - at - 1u);
}

/* To the first door for where RCX says: each branch has a jump of its own, which the CPU
 * can predict. */
static void put_lookup(struct gen *g)
{
	PUT(g, 0x0f, 0xb7, 0xc1);		/* movzwl %cx, %eax */
	PUT(g, 0x65, 0x0f, 0xb6, 0x14, 0x25);	/* movzbl %gs:target + 2, %edx */
	put32(g, SLOT(target) + 2);
	PUT(g, 0x65, 0x48, 0x8b, 0x14, 0xd5);	/* mov %gs:tables(,%rdx,8), %rdx */
	put32(g, SLOT(tables));
	PUT(g, 0x48, 0x8b, 0x04, 0xc2);		/* mov (%rdx,%rax,8), %rax */
	load(g, RDX, SLOT(miss));
	PUT(g, 0x48, 0x8d, 0x14, 0x02);		/* lea (%rdx,%rax), %rdx */
	PUT(g, 0xff, 0xe2);			/* jmp *%rdx */
}

/* Where the branch goes is in RCX and in its slot afterwards, and what it does to the
 * stack is done. From the first save on the program's RAX, RCX and RDX are in their slots;
 * nothing else has changed. */
static void put_target(struct gen *g, const struct shape *s, uint64_t ip)
{
	uint32_t drop = 8;
	uint16_t more = 0;

	save(g, RAX, SLOT(rax));
	save(g, RCX, SLOT(rcx));
	save(g, RDX, SLOT(rdx));
	if (s->cls == X86_RET) {
		if (s->op == 0xc2)
			memcpy(&more, s->bytes + s->size - 2, sizeof(more));
		drop += more;
		PUT(g, 0x48, 0x8b, 0x0c, 0x24);	/* mov (%rsp), %rcx */
		PUT(g, 0x48, 0x8d, 0xa4, 0x24);	/* lea drop(%rsp), %rsp */
		put32(g, drop);
	} else {
		put_operand(g, s, ip);
		if (s->cls == X86_IND_CALL)
			put_push(g, ip + s->size);
	}
	save(g, RCX, SLOT(target));
}

/* After put_target(). */
static void put_indirect(struct gen *g, uint32_t id, struct native_exit *e)
{
	uint8_t *full = put_record(g, id, e, SLOT(target));

	put_lookup(g);
	land8(g, full);
	e->full = here(g);
	PUT(g, 0xcc);
}

/* The same where it is expected to go to ip, with which the copy goes on; the place of a
 * rel32 to where it is left otherwise. */
static uint8_t *put_expect(struct gen *g, uint64_t ip)
{
	uint8_t *other;

	move_address(g, RAX, -ip);
	PUT(g, 0x48, 0x8d, 0x0c, 0x01);	/* lea (%rcx,%rax), %rcx */
	PUT(g, 0xe3, 5, 0xe9);
	other = g->p;
	put32(g, 0);
	load(g, RAX, SLOT(rax));
	load(g, RCX, SLOT(rcx));
	return other;
}

/* The bytes of a condition, or of its opposite, without the displacement; the place of
 * a rel32. Only Jcc has an opposite. */
static uint8_t *put_condition(struct gen *g, const struct shape *s, bool opposite)
{
	unsigned cc = s->op == 0x0f ? s->bytes[s->n_prefixes + !!s->rex + 1] :
				      s->op;

	if (s->op != 0x0f && s->op >= 0xe0) {
		if (s->p67)
			PUT(g, 0x67);
		PUT(g, s->op, 2, 0xeb, 5, 0xe9);
	} else {
		PUT(g, 0x0f, (uint8_t)(0x80 | ((cc & 15) ^ opposite)));
	}
	put32(g, 0);
	return g->p - 4;
}

/* ---- a unit ---- */

struct unit {
	struct gen g;
	const struct native_source *src;
	struct native_copy *copy;
	const struct native_way *way;	/* NULL: there is none */
	unsigned at;			/* branches of it that are copied */
	uint32_t unit, exit;
	uint8_t *taken[NATIVE_MAX_EXITS];	/* rel32 of what leads to exits */
	uint16_t n_conditions;
	uint16_t round, round_conditions;	/* of a loop; 0: there is none */
	/* code that was compared in this unit, and not stored to since */
	struct {
		uint64_t from, to;
	} same[MAX_SAME];
	unsigned n_same;
	/* jumps of comparisons, rel32, to exits; in their order */
	struct {
		uint8_t *disp;
		uint16_t exit;
	} differs[MAX_DIFFERS];
	unsigned n_differs;
};

static struct native_exit *new_exit(struct unit *u, uint8_t kind,
				    uint64_t target)
{
	struct native_exit *e = &u->copy->exits[u->copy->n_exits++];

	u->taken[e - u->copy->exits] = NULL;
	*e = (struct native_exit){ .kind = kind, .target = target,
				   .unit = u->unit,
				   .n_insns = (uint16_t)u->copy->n_insns };
	return e;
}

static uint32_t last_exit_id(const struct unit *u)
{
	return u->exit + u->copy->n_exits - 1;
}

static void end_direct(struct unit *u, uint64_t target)
{
	struct native_exit *e = new_exit(u, NATIVE_DIRECT, target);

	put_direct(&u->g, u->src, last_exit_id(u), e);
}

static void end_trap(struct unit *u, uint64_t ip)
{
	struct native_exit *e = new_exit(u, NATIVE_TRAP, ip);

	e->trap = here(&u->g);
	PUT(&u->g, 0xcc);
}

/* Where the way goes from the branch that is being copied; 0: it ends here. */
static uint64_t way_of(struct unit *u)
{
	return u->way && u->at < u->way->n ? u->way->to[u->at++] : 0;
}

/* A branch to ip was copied, which the way goes on with (0: it does not). Returns where
 * the copy goes on, 0: the unit ends here. */
static uint64_t follow(struct unit *u, uint64_t ip, uint64_t way)
{
	if (u->way && way == ip && u->at < u->way->n)
		return ip;
	end_direct(u, ip);
	return 0;
}

/* A loop over the unit so far is copied several times, one after another: it leaves a
 * record only when it is left, or after the last. */
static bool goes_round(struct unit *u, const struct shape *s,
		       const struct native_insn *in)
{
	unsigned n = u->copy->n_insns;

	if (in->target != u->copy->insns[0].ip ||
	    (s->op != 0x0f && s->op >= 0xe0))
		return false;
	if (!u->round) {
		u->round = (uint16_t)n;
		u->round_conditions = u->n_conditions + 1;
	}
	return n + u->round <= ROUNDS_INSNS &&
	       u->n_conditions + u->round_conditions <= MAX_CONDITIONS;
}

/* A condition; with a way it may be the fall-through that leaves the unit. */
static uint64_t copy_condition(struct unit *u, const struct shape *s,
			       const struct native_insn *in)
{
	uint64_t next = in->ip + in->size, way = way_of(u);
	bool opposite = s->op == 0x0f || s->op < 0xe0, again;
	struct native_exit *e;

	if (u->way)
		again = opposite && way == in->target && way != next;
	else
		again = goes_round(u, s, in);
	e = new_exit(u, NATIVE_DIRECT, again ? next : in->target);
	u->taken[e - u->copy->exits] = put_condition(&u->g, s, again);
	u->n_conditions++;
	if (u->way)
		return follow(u, again ? in->target : next, way);
	return again ? in->target : next;
}

/* Copies a branch or system call; returns as follow(). */
static uint64_t copy_branch(struct unit *u, const struct shape *s,
			    const struct native_insn *in)
{
	uint64_t next = in->ip + in->size, way;
	struct native_exit *e;

	switch (s->cls) {
	case X86_COND:
		return copy_condition(u, s, in);
	case X86_CALL:
		put_push(&u->g, next);
		return follow(u, in->target, way_of(u));
	case X86_JUMP:
		return follow(u, in->target, way_of(u));
	case X86_SYSCALL:
		e = new_exit(u, NATIVE_SYSCALL, next);
		put_syscall(&u->g, u->src, last_exit_id(u), e);
		return 0;
	default:
		e = new_exit(u, NATIVE_INDIRECT, 0);
		put_target(&u->g, s, in->ip);
		way = way_of(u);
		if (!way || u->at == u->way->n) {
			put_indirect(&u->g, last_exit_id(u), e);
			return 0;
		}
		u->taken[e - u->copy->exits] = put_expect(&u->g, way);
		return way;
	}
}

/* The instruction at ip. False: there is none that is to be copied. */
static bool get_insn(const struct unit *u, uint64_t ip, uint8_t *bytes,
		     struct x86_insn *x, struct shape *s)
{
	size_t n = u->src->fetch(u->src->priv, ip, bytes);

	if (!n || x86_insn_decode(bytes, n, x) <= 0)
		return false;
	*s = shape_of(bytes, x);
	return !is_odd(s);
}

/* ---- code that may change ---- */

/* Opcodes 0F xx that only read a memory operand: bit xx % 8 of byte xx / 8. */
static const uint8_t reads_0f[32] = {
	[0x10 / 8] = 0x55, [0x18 / 8] = 0x81, [0x28 / 8] = 0xf5 & ~0x08,
	[0x40 / 8] = 0xff, [0x48 / 8] = 0xff, [0x50 / 8] = 0xff,
	[0x58 / 8] = 0xff, [0x60 / 8] = 0xff, [0x68 / 8] = 0xff,
	[0x70 / 8] = 0x7f, [0xa8 / 8] = 0x80, [0xb0 / 8] = 0xc0,
	[0xb8 / 8] = 0xc0,
};

/* The same of opcodes without a prefix; some by the reg field. */
static bool only_reads(uint8_t op, unsigned reg)
{
	if (op < 0x40)
		return (op & 7) == 2 || (op & 7) == 3 || (op & 0xfe) == 0x38;
	if (op >= 0x80 && op <= 0x83)
		return reg == 7;
	if (op == 0xf6 || op == 0xf7)
		return reg < 2 || reg >= 4;
	if (op == 0xff)
		return reg >= 2;
	return op == 0x63 || op == 0x69 || op == 0x6b || op == 0x84 ||
	       op == 0x85 || op == 0x8a || op == 0x8b || op == 0x8d;
}

/* Might write to code. The stack is taken for none. */
static bool may_store(const struct shape *s)
{
	const uint8_t *p = s->bytes + s->n_prefixes;
	uint8_t modrm = s->modrm_at ? s->bytes[s->modrm_at] : 0xc0;
	uint8_t op = s->op;

	if (!s->rex && (*p == 0xc5 || *p == 0xc4 || *p == 0x62)) {
		if (*p != 0xc5 && (p[1] & 7) != 1)
			return modrm >> 6 != 3;
		op = s->bytes[s->modrm_at - 1];
		return modrm >> 6 != 3 && !(reads_0f[op / 8] >> op % 8 & 1);
	}
	if (!s->modrm_at)
		return (op >= 0xa2 && op <= 0xa5) || op == 0xaa || op == 0xab ||
		       op == 0x6c || op == 0x6d;
	if (modrm >> 6 == 3 || ((modrm & 7) == 4 && !(s->rex & 1) &&
				(s->bytes[s->modrm_at + 1] & 7) == 4))
		return false;
	if (op != 0x0f)
		return !only_reads(op, modrm >> 3 & 7);
	op = p[!!s->rex + 1];
	return !(reads_0f[op / 8] >> op % 8 & 1);
}

/* How many bytes from ip on are run before anything can have changed them. */
static uint64_t same_length(const struct unit *u, uint64_t ip)
{
	uint8_t bytes[32] = { 0 };
	struct x86_insn x;
	struct shape s;
	uint64_t at = ip;

	while (at - ip < SAME_MAX && u->src->changes(u->src->priv, at) &&
	       get_insn(u, at, bytes, &x, &s)) {
		at += x.size;
		if ((x.cls != X86_OTHER && x.cls != X86_COND) || may_store(&s))
			break;
	}
	return at - ip;
}

/* What a comparison uses: RCX, and of RAX what holds the flags. Only they tell two values
 * apart in one instruction with the branch. */
static void begin_compare(struct gen *g)
{
	save(g, RAX, SLOT(rax));
	save(g, RCX, SLOT(rcx));
	PUT(g, 0x9f);			/* lahf */
	PUT(g, 0x0f, 0x90, 0xc0);	/* seto %al */
}

static void end_compare(struct gen *g)
{
	PUT(g, 0x04, 0x7f);		/* add $0x7f, %al: overflows if it is 1 */
	PUT(g, 0x9e);			/* sahf */
	load(g, RAX, SLOT(rax));
	load(g, RCX, SLOT(rcx));
}

/* cmp imm, code: of n bytes, 4 or 1. base: what RCX holds, 0: nothing. */
static void put_compare_short(struct gen *g, uint64_t ip, uint64_t base, const uint8_t *now,
			      unsigned n)
{
	uint8_t op = n == 4 ? 0x81 : 0x80;

	if (base) {
		PUT(g, op, 0x79, (uint8_t)(ip - base));
	} else {
		PUT(g, op, 0x3d);
		put32(g, (uint32_t)(ip - (here(g) + 4 + n)));
	}
	put(g, now, n);
}

/* Compares n bytes at ip, 8, 4 or 1, with those of now. */
static void put_compare(struct unit *u, uint64_t ip, uint64_t base, const uint8_t *now,
			unsigned n)
{
	struct gen *g = &u->g;
	uint64_t value;

	if (n == 8) {
		memcpy(&value, now, n);
		move_address(g, RCX, value);
		PUT(g, 0x48, 0x39, 0x0d);	/* cmp %rcx, code(%rip) */
		put32(g, (uint32_t)(ip - (here(g) + 4)));
	} else {
		put_compare_short(g, ip, base, now, n);
	}
	PUT(g, 0x0f, 0x85);			/* jne to the exit */
	u->differs[u->n_differs].disp = g->p;
	u->differs[u->n_differs++].exit = (uint16_t)(u->copy->n_exits - 1);
	put32(g, 0);
}

/* Until the next store. */
static void note_same(struct unit *u, uint64_t from, uint64_t to)
{
	unsigned i = u->n_same < MAX_SAME ? u->n_same++ : to % MAX_SAME;

	u->same[i].from = from;
	u->same[i].to = to;
}

/* The size bytes at ip were compared. */
static bool is_same(const struct unit *u, uint64_t ip, unsigned size)
{
	unsigned i;

	for (i = 0; i < u->n_same; i++)
		if (ip >= u->same[i].from && ip + size <= u->same[i].to)
			return true;
	return false;
}

/* Before the copy of the instruction at ip. */
static void compare_code(struct unit *u, uint64_t ip)
{
	struct native_exit *e;
	uint64_t at, n = same_length(u, ip), base = 0;
	uint8_t bytes[15];
	unsigned size;

	e = new_exit(u, NATIVE_CHANGED, ip);
	e->compare = here(&u->g);
	begin_compare(&u->g);
	if (!reaches(&u->g, ip, 0) || !reaches(&u->g, ip + n, NATIVE_MAX_CODE)) {
		base = ip;
		move_address(&u->g, RCX, ip);
	}
	for (at = ip; at < ip + n; at += size) {
		size = ip + n - at >= 8 && !base ? 8 : ip + n - at >= 4 ? 4 : 1;
		if (u->src->fetch(u->src->priv, at, bytes) < size)
			break;
		put_compare(u, at, base, bytes, size);
	}
	end_compare(&u->g);
	e->compared = here(&u->g);
	note_same(u, ip, ip + n);
}

/* Copies the instruction at ip; returns as follow(). */
static uint64_t copy_insn(struct unit *u, uint64_t ip)
{
	struct native_insn *in = &u->copy->insns[u->copy->n_insns];
	uint8_t bytes[32] = { 0 };
	struct x86_insn x;
	struct shape s;

	if (!get_insn(u, ip, bytes, &x, &s)) {
		end_trap(u, ip);
		return 0;
	}
	if (u->src->changes(u->src->priv, ip) && !is_same(u, ip, x.size))
		compare_code(u, ip);
	*in = (struct native_insn){ .ip = ip, .size = x.size, .cls = x.cls,
				    .target = ip + x.size + (uint64_t)x.disp,
				    .at = here(&u->g), .far = NATIVE_NO_REG };
	u->copy->n_insns++;
	if (may_store(&s))
		u->n_same = 0;
	if (x.cls != X86_OTHER)
		ip = copy_branch(u, &s, in);
	else
		put_plain(&u->g, &s, in);
	in->end = here(&u->g);
	return x.cls != X86_OTHER ? ip : ip + x.size;
}

/* The exits of branches and comparisons, then constants. */
static void put_tail(struct unit *u)
{
	struct gen *g = &u->g;
	unsigned i, k = 0;

	for (i = 0; i < u->copy->n_exits; i++) {
		struct native_exit *e = &u->copy->exits[i];

		if (e->kind == NATIVE_CHANGED) {
			for (; k < u->n_differs && u->differs[k].exit == i; k++)
				land32(g, u->differs[k].disp);
			end_compare(g);
			e->trap = here(g);
			PUT(g, 0xcc);
			continue;
		}
		if (!u->taken[i])
			continue;
		land32(g, u->taken[i]);
		if (e->kind == NATIVE_INDIRECT)
			put_indirect(g, u->exit + i, e);
		else
			put_direct(g, u->src, u->exit + i, e);
	}
	align(g, 8, 0);
	for (i = 0; i < g->n_constants; i++) {
		land32(g, g->constants[i].disp);
		put64(g, g->constants[i].value);
	}
}

/* A unit ends where another one begins, or when it is long. */
static bool is_long(const struct unit *u, uint64_t ip)
{
	if (u->copy->n_insns == NATIVE_MAX_INSNS ||
	    u->n_differs > MAX_DIFFERS - SAME_MAX / 2)
		return true;
	return !u->way && (u->src->known(u->src->priv, ip) ||
			   u->copy->n_insns >= (u->round ? ROUNDS_INSNS :
							   NATIVE_UNIT_INSNS));
}

void native_translate(struct native_area *a, const struct native_source *src,
		      const struct native_way *way, uint64_t ip, uint32_t unit,
		      uint32_t exit, struct native_copy *copy)
{
	struct unit u;	/* its arrays, of many KB, are not all cleared */

	u.g.area = a;
	u.g.p = a->mem + a->used;
	u.g.n_constants = 0;
	u.src = src;
	u.copy = copy;
	u.way = way;
	u.at = u.n_same = u.n_differs = 0;
	u.unit = unit;
	u.exit = exit;
	u.n_conditions = u.round = u.round_conditions = 0;
	copy->n_insns = copy->n_exits = 0;
	align(&u.g, 16, 0);
	copy->code = here(&u.g);
	for (;;) {
		ip = copy_insn(&u, ip);
		if (!ip)
			break;
		if (is_long(&u, ip)) {
			end_direct(&u, ip);
			break;
		}
	}
	put_tail(&u);
	copy->end = here(&u.g);
	a->used = (size_t)(u.g.p - a->mem);
}

void native_link(struct native_area *a, const struct native_exit *e,
		 uint64_t code)
{
	uint8_t *p = a->mem + (e->link - a->at);
	uint64_t to = code ? code : e->miss;

	if (e->far)
		__atomic_store_n((uint64_t *)(void *)p, to, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)(void *)p,
				 (uint32_t)(to - (e->link + 4)),
				 __ATOMIC_RELEASE);
}

/* ---- doors ---- */

void native_area_init(struct native_area *a)
{
	struct gen g = { .area = a, .p = a->mem + a->used };

	a->miss = here(&g);
	PUT(&g, 0xcc);
	a->used = (size_t)(g.p - a->mem);
}

/* RCX: where the program goes, which is in its slot, too; RAX and RDX are free. The sum
 * of an address and its negative is zero: lea adds without flags, and jrcxz tests
 * without. */
struct native_door native_make_door(struct native_area *a, uint64_t ip, uint64_t code,
				    uint64_t next)
{
	struct gen g = { .area = a, .p = a->mem + a->used };
	struct native_door d;
	uint8_t *found;

	align(&g, 16, 0);
	d.code = here(&g);
	move_address(&g, RAX, -ip);
	PUT(&g, 0x48, 0x8d, 0x0c, 0x01);	/* lea (%rcx,%rax), %rcx */
	PUT(&g, 0xe3, 0);
	found = g.p - 1;
	load(&g, RCX, SLOT(target));
	align(&g, 8, 6);
	PUT(&g, 0xff, 0x25, 0, 0, 0, 0);	/* jmp *0(%rip) */
	d.link = here(&g);
	put64(&g, next);
	land8(&g, found);
	load(&g, RAX, SLOT(rax));
	load(&g, RDX, SLOT(rdx));
	load(&g, RCX, SLOT(rcx));
	PUT(&g, 0xe9);
	put32(&g, (uint32_t)(code - (here(&g) + 4)));
	a->used = (size_t)(g.p - a->mem);
	return d;
}

void native_link_door(struct native_area *a, const struct native_door *d, uint64_t next)
{
	uint8_t *p = a->mem + (d->link - a->at);

	__atomic_store_n((uint64_t *)(void *)p, next, __ATOMIC_RELEASE);
}

/* ---- system calls ---- */

/*
 * Not plain: what makes or ends threads, processes and mappings, replaces
 * registers or the mask of signals, makes descriptors that may be those of a
 * process's memory, or must be answered by the tracer; and what is newer than
 * this list. Numbers of the x32 ABI are among the latter.
 */
bool native_call_is_plain(uint32_t number)
{
	static const uint16_t traps[] = {
		2, 85, 257, 304, 437,	/* open ... openat2 */
		47, 299, 425, 438,	/* recvmsg, recvmmsg, io_uring_setup,
					 * pidfd_getfd */
		9, 10, 11,		/* mmap, mprotect, munmap */
		14, 15,			/* rt_sigprocmask, rt_sigreturn */
		25, 30, 67, 216,	/* mremap, shmat, shmdt, remap_file_pages */
		56, 57, 58, 59, 60, 231, 322, 435,	/* clone ... clone3 */
		101, 135, 154, 157, 158, 205,	/* ptrace ... arch_prctl ... */
		128, 130, 270, 271, 281, 441,	/* calls with a mask */
		219,			/* restart_syscall */
		272, 308, 310, 311, 317, 323, 329, 334, 440, 453,
	};
	size_t i;

	for (i = 0; i < sizeof(traps) / sizeof(*traps); i++)
		if (traps[i] == number)
			return false;
	return number < NATIVE_KNOWN_CALLS;
}
