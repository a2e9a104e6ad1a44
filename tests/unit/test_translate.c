/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/* host: x86_64 */
/*
 * Random instructions, run as they are and from copies of them: registers, flags, memory
 * and all of the stack are the same afterwards, what is below its pointer, too. The
 * copies are near to what their operands are relative to, or far from it. Then some code is
 * copied once more along the way that it took, and takes it again, or another one, as
 * memory and registers are other ones. This process
 * is the traced one and the tracer: it translates in a handler of SIGTRAP.
 *
 *	test_translate [SEED [PROGRAMS]]
 */
#include "tests/unit/tap.h"

#include <asm/prctl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/native/native.h"
#include "common/x86_insn.h"

#include "tests/unit/xorshift.h"

#define CODE_BYTES 8192
#define DATA_BYTES 4096
#define AREA_BYTES ((size_t)4 << 20)
#define MAX_UNITS 4096
#define MAX_EXITS 65536
#define MAX_INSNS 65536
#define MAX_RECORDS 65536
#define N_WAYS 4
#define N_FUNCTIONS 4
#define N_REGS 16	/* RAX ... R15; RSP is not used */

/* What run_code() loads and stores; by name, as assembler refers to it. */
uint64_t regs_in[N_REGS], regs_out[N_REGS], flags_in, flags_out, saved_sp, entry;
uint8_t xmm_in[4][16], xmm_out[4][16];
uint8_t stack[8192] __attribute__((aligned(64)));
void run_code(void);

/* Registers 4 (RSP) stay; the stack is our own. */
__asm__(".text\n.globl run_code\nrun_code:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"mov %rsp, saved_sp(%rip)\n"
	"lea stack+4096(%rip), %rsp\n"
	"movups xmm_in(%rip), %xmm0; movups xmm_in+16(%rip), %xmm1\n"
	"movups xmm_in+32(%rip), %xmm2; movups xmm_in+48(%rip), %xmm3\n"
	"pushq flags_in(%rip); popfq\n"
	"mov regs_in(%rip), %rax; mov regs_in+8(%rip), %rcx\n"
	"mov regs_in+16(%rip), %rdx; mov regs_in+24(%rip), %rbx\n"
	"mov regs_in+40(%rip), %rbp; mov regs_in+48(%rip), %rsi\n"
	"mov regs_in+56(%rip), %rdi; mov regs_in+64(%rip), %r8\n"
	"mov regs_in+72(%rip), %r9; mov regs_in+80(%rip), %r10\n"
	"mov regs_in+88(%rip), %r11; mov regs_in+96(%rip), %r12\n"
	"mov regs_in+104(%rip), %r13; mov regs_in+112(%rip), %r14\n"
	"mov regs_in+120(%rip), %r15\n"
	"call *entry(%rip)\n"
	"mov %rax, regs_out(%rip); mov %rcx, regs_out+8(%rip)\n"
	"mov %rdx, regs_out+16(%rip); mov %rbx, regs_out+24(%rip)\n"
	"mov %rsp, regs_out+32(%rip)\n"
	"mov %rbp, regs_out+40(%rip); mov %rsi, regs_out+48(%rip)\n"
	"mov %rdi, regs_out+56(%rip); mov %r8, regs_out+64(%rip)\n"
	"mov %r9, regs_out+72(%rip); mov %r10, regs_out+80(%rip)\n"
	"mov %r11, regs_out+88(%rip); mov %r12, regs_out+96(%rip)\n"
	"mov %r13, regs_out+104(%rip); mov %r14, regs_out+112(%rip)\n"
	"mov %r15, regs_out+120(%rip)\n"
	"mov saved_sp(%rip), %rsp\n"
	"pushfq; popq flags_out(%rip)\n"
	"movups %xmm0, xmm_out(%rip); movups %xmm1, xmm_out+16(%rip)\n"
	"movups %xmm2, xmm_out+32(%rip); movups %xmm3, xmm_out+48(%rip)\n"
	"cld\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n");

/* ---- random programs ---- */

static uint8_t *code, *data;	/* one mapping */
static uint8_t *at;		/* the next byte of code */
static uint8_t *functions[N_FUNCTIONS];
static uint64_t seed = 1;

static unsigned pick(unsigned n)
{
	return (unsigned)(next_random(&seed) >> 20) % n;
}

static void emit(const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	at += n;
}

#define EMIT(...) emit((const uint8_t[]){ __VA_ARGS__ }, \
		       sizeof((const uint8_t[]){ __VA_ARGS__ }))

static void emit32(uint32_t v)
{
	emit(&v, sizeof(v));
}

/* RBX and R15 point to data, R14 counts rounds. */
static unsigned pick_reg(void)
{
	static const uint8_t regs[] = { 0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13 };

	return regs[pick(sizeof(regs))];
}

/* An operand: a register; in data, at a base or relative to RIP, before imm more bytes
 * of the instruction. The bits for REX. */
static unsigned emit_modrm(uint8_t *rex, unsigned reg, unsigned imm, bool memory)
{
	unsigned kind = memory ? 1 + pick(4) : pick(5), rm = pick_reg();
	unsigned disp = 256 + pick(DATA_BYTES - 512);

	*rex |= (uint8_t)(reg >> 3 << 2);
	reg &= 7;
	switch (kind) {
	case 0:
		*rex |= (uint8_t)(rm >> 3);
		EMIT((uint8_t)(0xc0 | reg << 3 | (rm & 7)));
		break;
	case 1:	/* disp32(%rbx) */
		EMIT((uint8_t)(0x83 | reg << 3));
		emit32(disp);
		break;
	case 2:	/* disp8(%r15) */
		*rex |= 1;
		EMIT((uint8_t)(0x47 | reg << 3), (uint8_t)(64 | (disp & 63)));	/* not a pointer */
		break;
	default:
		*rex |= (uint8_t)pick(2);	/* void */
		EMIT((uint8_t)(5 | reg << 3));
		emit32((uint32_t)(data + disp - (at + 4 + imm)));
	}
	return kind;
}

/* REX, whose place is before what was emitted since from. */
static void put_rex(uint8_t *from, uint8_t rex)
{
	*from = 0x40 | rex;
}

static void emit_alu(void)
{
	uint8_t rex = pick(2) ? 8 : 0, *r = at;

	EMIT(0, (uint8_t)(pick(8) << 3 | (pick(2) << 1) | 1));
	emit_modrm(&rex, pick_reg(), 0, false);
	put_rex(r, rex);
}

static void emit_alu_imm(void)
{
	uint8_t rex = pick(2) ? 8 : 0, *r = at;
	bool wide = pick(2);

	EMIT(0, wide ? 0x81 : 0x83);
	emit_modrm(&rex, pick(8), wide ? 4 : 1, false);
	if (wide)
		emit32((uint32_t)next_random(&seed));
	else
		EMIT((uint8_t)pick(256));
	put_rex(r, rex);
}

static void emit_shift(void)
{
	static const uint8_t ops[] = { 0, 1, 2, 3, 4, 5, 7 };
	uint8_t rex = pick(2) ? 8 : 0, *r = at;
	bool by_cl = pick(2);

	EMIT(0, by_cl ? 0xd3 : 0xc1);
	emit_modrm(&rex, ops[pick(sizeof(ops))], !by_cl, false);
	if (!by_cl)
		EMIT((uint8_t)pick(64));
	put_rex(r, rex);
}

/* cmov, set, movzx, movsx, imul, xadd, cmpxchg, bsf */
static void emit_0f(void)
{
	static const uint8_t ops[] = { 0xb6, 0xb7, 0xbe, 0xbf, 0xaf, 0xc1, 0xb1, 0xbc };
	unsigned i = pick(4);
	uint8_t rex = pick(2) ? 8 : 0, *r = at, op;

	if (i == 0)
		op = (uint8_t)(0x40 | pick(16));	/* CMOVcc */
	else if (i == 1)
		op = (uint8_t)(0x90 | pick(16));	/* SETcc */
	else
		op = ops[pick(sizeof(ops))];
	EMIT(0, 0x0f, op);
	emit_modrm(&rex, pick_reg(), 0, false);
	put_rex(r, rex);
}

/* mov, xchg, test, movsxd */
static void emit_mov(void)
{
	static const uint8_t ops[] = { 0x89, 0x8b, 0x88, 0x8a, 0x87, 0x85, 0x63 };
	uint8_t rex = pick(2) ? 8 : 0, *r = at;

	EMIT(0, ops[pick(sizeof(ops))]);
	emit_modrm(&rex, pick_reg(), 0, false);
	put_rex(r, rex);
}

static void emit_lea(void)
{
	uint8_t rex = 8, *r = at;

	EMIT(0, 0x8d);
	emit_modrm(&rex, pick_reg(), 0, true);
	put_rex(r, rex);
}

/* not, neg, mul, imul; test with an immediate */
static void emit_unary(void)
{
	static const uint8_t ops[] = { 0, 2, 3, 4, 5 };
	uint8_t rex = pick(2) ? 8 : 0, *r = at;
	unsigned op = ops[pick(sizeof(ops))];

	EMIT(0, 0xf7);
	emit_modrm(&rex, op, op ? 0 : 4, false);
	if (!op)
		emit32((uint32_t)next_random(&seed));
	put_rex(r, rex);
}

/* Of the SSE instructions those without REX: xmm0 ... xmm3 and a memory operand */
static void emit_sse(void)
{
	static const uint8_t ops[] = { 0x6f, 0x7f, 0x10, 0x58 };
	uint8_t none = 0;

	EMIT(0xf3, 0x0f, ops[pick(sizeof(ops))]);
	if (emit_modrm(&none, pick(4), 0, true) == 2)
		at[-2] = 0x43 | (at[-2] & 0x38);	/* disp8(%rbx), as RBX is R15 */
}

static void emit_push_pop(void)
{
	unsigned a = pick_reg() & 7, b = pick_reg() & 7;

	a = a == 4 ? 0 : a == 3 ? 1 : a;
	b = b == 4 ? 0 : b == 3 ? 1 : b;
	EMIT((uint8_t)(0x50 | a));
	if (pick(2))
		EMIT(0x9c, 0x58);		/* pushfq; pop %rax */
	EMIT((uint8_t)(0x58 | b));
}

static void emit_plain(void)
{
	static void (*const kinds[])(void) = {
		emit_alu, emit_alu, emit_alu_imm, emit_shift, emit_0f, emit_0f,
		emit_mov, emit_mov, emit_lea, emit_unary, emit_sse, emit_push_pop,
	};

	kinds[pick(sizeof(kinds) / sizeof(*kinds))]();
}

static void emit_some(unsigned most)
{
	unsigned n = pick(most + 1);

	while (n--)
		emit_plain();
}

/* Over a few instructions, or not. */
static void emit_forward(void)
{
	static const uint8_t odd[] = { 0xe0, 0xe1, 0xe2, 0xe3 };
	bool wide = pick(3) == 0;
	unsigned kind = pick(8);
	uint8_t *from;
	int32_t rel;

	if (kind == 0)
		EMIT(0xeb, 0);
	else if (kind == 1)
		EMIT(odd[pick(4)], 0);
	else if (wide)
		EMIT(0x0f, (uint8_t)(0x80 | pick(16)), 0, 0, 0, 0);
	else
		EMIT((uint8_t)(0x70 | pick(16)), 0);
	from = at;
	emit_some(5);
	rel = (int32_t)(at - from);
	if (kind > 1 && wide)
		memcpy(from - 4, &rel, 4);
	else
		from[-1] = (uint8_t)rel;
}

static void emit_loop(void)
{
	uint8_t *head;

	EMIT(0x41, 0xbe);			/* mov $n, %r14d */
	emit32(1 + pick(200));
	head = at;
	emit_some(4);
	EMIT(0x49, 0xff, 0xce);			/* dec %r14 */
	EMIT(0x75, (uint8_t)(head - (at + 2)));
}

/* Direct, by way of a register or a pointer in data, or as a jump that is a RET. */
static void emit_call(void)
{
	unsigned f = pick(N_FUNCTIONS), kind = pick(4);

	switch (kind) {
	case 0:
		EMIT(0xe8);
		emit32((uint32_t)(functions[f] - (at + 4)));
		break;
	case 1:
		EMIT(0xff, 0x15);		/* call *pointer(%rip) */
		emit32((uint32_t)(data + 8 * f - (at + 4)));
		break;
	case 2:
		EMIT(0x48, 0x8b, 0x43, (uint8_t)(8 * f), 0xff, 0xd0);
		break;
	default:				/* call +0; push pointer; ret */
		EMIT(0xe8, 0, 0, 0, 0, 0x58, 0x48, 0x8d, 0x40, 10, 0x50);
		EMIT(0xff, 0x73, (uint8_t)(8 * f), 0xc3);
	}
}

static void emit_part(bool calls)
{
	switch (pick(calls ? 6 : 5)) {
	case 0:
	case 1:
		emit_forward();
		break;
	case 2:
		emit_loop();
		break;
	case 5:
		emit_call();
		break;
	default:
		emit_some(8);
	}
}

/* The entry of a new program. */
static uint8_t *make_program(void)
{
	uint8_t *start;
	unsigned i, n;

	at = code;
	for (i = 0; i < N_FUNCTIONS; i++) {
		functions[i] = at;
		for (n = pick(3); n; n--)
			emit_part(false);
		if (pick(2))
			EMIT(0xc3);
		else
			EMIT(0xf3, 0xc3);
	}
	start = at;
	for (n = 4 + pick(12); n; n--)
		emit_part(true);
	EMIT(0xc3);
	return start;
}

/* ---- the tracer ---- */

static struct native_area area;
static struct native_copy copy;
static struct unit {
	uint64_t start, code;
	uint32_t first_insn;
	bool door;
} units[MAX_UNITS];
static struct native_exit exits[MAX_EXITS];
static struct native_insn insns[MAX_INSNS];
static uint32_t n_units, n_exits, n_insns;
static uint32_t records[MAX_RECORDS], n_records;
static int64_t records_from;	/* as slots->cur */
static int64_t *tables;
static uint8_t *slots_mem;
static struct native_slots *slots;
static const char *trouble;
static unsigned n_full;

static size_t fetch(void *priv, uint64_t ip, uint8_t *bytes)
{
	(void)priv;
	if (ip - (uintptr_t)code >= CODE_BYTES)
		return 0;
	memcpy(bytes, code + (ip - (uintptr_t)code), 15);
	return 15;
}

static bool changes(void *priv, uint64_t ip)
{
	(void)priv;
	return n_units % 3 == 0 && ip;
}

static uint32_t find(uint64_t ip)
{
	uint32_t i;

	for (i = n_units - 1; i && units[i].start != ip; i--)
		;
	return i;
}

static bool known(void *priv, uint64_t ip)
{
	(void)priv;
	return find(ip);
}

static uint64_t area_at(void *priv, uint64_t ip)
{
	(void)priv, (void)ip;
	return area.at;
}

static const struct native_source source = { fetch, changes, known, area_at, NULL };

static uint32_t make_unit(uint64_t ip, const struct native_way *way)
{
	if (n_units == MAX_UNITS || n_exits > MAX_EXITS - NATIVE_MAX_EXITS ||
	    n_insns > MAX_INSNS - NATIVE_MAX_INSNS ||
	    area.size - area.used < 2 * NATIVE_MAX_CODE) {
		trouble = "no room";
		return 0;
	}
	native_translate(&area, &source, way, ip, n_units, n_exits, &copy);
	memcpy(exits + n_exits, copy.exits, copy.n_exits * sizeof(*exits));
	memcpy(insns + n_insns, copy.insns, copy.n_insns * sizeof(*insns));
	units[n_units] = (struct unit){ .start = ip, .code = copy.code,
					.first_insn = n_insns };
	n_exits += copy.n_exits;
	n_insns += copy.n_insns;
	return n_units++;
}

/* The unit for ip; 0: it is not of the program, or something is wrong. */
static uint32_t get_unit(uint64_t ip)
{
	uint32_t id = find(ip);

	if (id || ip - (uintptr_t)code >= CODE_BYTES)
		return id;
	return make_unit(ip, NULL);
}

static void add_door(uint32_t id)
{
	uint64_t ip = units[id].start;
	int64_t *entry_at = &tables[(ip >> 16) % 2 * NATIVE_N_TARGETS + (ip & 0xffff)];

	if (units[id].door)
		return;
	units[id].door = true;
	*entry_at = (int64_t)(native_make_door(&area, ip, units[id].code,
					       area.miss + (uint64_t)*entry_at).code -
			      area.miss);
}

/* It goes on at ip; e: by this exit. */
static void go_on(greg_t *r, uint64_t ip, struct native_exit *e)
{
	uint32_t id = get_unit(ip);

	r[REG_RIP] = (greg_t)(id ? units[id].code : ip);
	if (!id)
		return;
	if (e)
		native_link(&area, e, units[id].code);
	else
		add_door(id);
}

static void read_ring(void)
{
	int64_t where;

	for (where = records_from; where < slots->cur && n_records < MAX_RECORDS; where += 4)
		memcpy(&records[n_records++], slots_mem + NATIVE_RING + where, 4);
	records_from = -NATIVE_RING;
}

static void empty_ring(greg_t *r, uint64_t record)
{
	n_full++;
	read_ring();
	slots->cur = -NATIVE_RING;
	r[REG_RCX] = -NATIVE_RING;
	r[REG_RIP] = (greg_t)record;
}

static void on_trap(int sig, siginfo_t *info, void *ctx)
{
	greg_t *r = ((ucontext_t *)ctx)->uc_mcontext.gregs;
	uint64_t pc = (uint64_t)r[REG_RIP] - 1;
	uint32_t i;

	(void)sig, (void)info;
	if (pc == area.miss) {
		r[REG_RAX] = (greg_t)slots->rax;
		r[REG_RCX] = (greg_t)slots->rcx;
		r[REG_RDX] = (greg_t)slots->rdx;
		go_on(r, slots->target, NULL);
		return;
	}
	for (i = 0; i < n_exits; i++) {
		if (pc == exits[i].miss) {
			go_on(r, exits[i].target, &exits[i]);
			return;
		}
		if (pc == exits[i].full) {
			empty_ring(r, exits[i].record);
			return;
		}
	}
	trouble = "a trap of nobody's";
	_exit(3);
}

/* ---- comparing ---- */

static void fill(void *p, size_t n, uint64_t s)
{
	uint8_t *q = p;

	while (n--)
		*q++ = (uint8_t)next_random(&s);
}

static void run_from(uint64_t where, uint64_t s)
{
	unsigned i;

	fill(stack, sizeof(stack), s);
	fill(data + 8 * N_FUNCTIONS, DATA_BYTES - 8 * N_FUNCTIONS, s);
	fill(regs_in, sizeof(regs_in), s);
	fill(xmm_in, sizeof(xmm_in), s);
	for (i = 0; i < N_FUNCTIONS; i++)
		memcpy(data + 8 * i, &functions[i], 8);
	regs_in[3] = regs_in[15] = (uintptr_t)data;
	flags_in = 0x202 | (s & 0x8d5);
	entry = where;
	run_code();
}

/* What a run has left. */
static struct outcome {
	uint8_t data[DATA_BYTES], stack[sizeof(stack)], xmm[4][16];
	uint64_t regs[N_REGS], flags;
} alone, copied;

static void take_outcome(struct outcome *o)
{
	memcpy(o->data, data, DATA_BYTES);
	memcpy(o->stack, stack, sizeof(stack));
	memcpy(o->regs, regs_out, sizeof(regs_out));
	memcpy(o->xmm, xmm_out, sizeof(xmm_out));
	o->flags = flags_out;
}

/* The program as it is, and from its copies. */
static bool differ(uint8_t *start, uint64_t s)
{
	memset(&alone, 0, sizeof(alone));
	memset(&copied, 0, sizeof(copied));
	run_from((uintptr_t)start, s);
	take_outcome(&alone);
	n_records = 0;
	records_from = slots->cur = -(int64_t)(4 + s % 64 * 4);	/* soon full */
	run_from(units[find((uintptr_t)start)].code, s);
	take_outcome(&copied);
	read_ring();
	return memcmp(&alone, &copied, sizeof(alone));
}

/* Where the branches went from record k on; returns how many. */
static unsigned find_way(uint32_t k, uint64_t *to)
{
	unsigned n = 0, n_all = 0, most = 1 + pick(NATIVE_MAX_INSNS), i;

	for (; k + 1 < n_records; k++) {
		const struct native_exit *e = &exits[records[k]];
		const struct native_insn *in = insns + units[e->unit].first_insn;
		uint64_t next = e->kind == NATIVE_INDIRECT ?
					units[exits[records[k + 1]].unit].start :
					e->target;

		n_all += e->n_insns;
		if (n_all > most)
			break;
		for (i = 0; i < e->n_insns; i++)
			if (in[i].cls != X86_OTHER)
				to[n++] = i + 1u < e->n_insns ? in[i + 1].ip : next;
	}
	return n;
}

/* Copies some code along the way that it took. */
static void add_way(void)
{
	uint32_t k = n_records ? pick(n_records) : 0, id, i;
	uint64_t to[NATIVE_MAX_INSNS], start;
	struct native_way way = { to, 0 };

	way.n = n_records ? find_way(k, to) : 0;
	if (!way.n)
		return;
	start = units[exits[records[k]].unit].start;
	id = make_unit(start, &way);
	if (!id)
		return;
	add_door(id);
	for (i = 0; i < n_exits; i++)
		if (exits[i].link && exits[i].target == start)
			native_link(&area, &exits[i], units[id].code);
}

/* A program that ran differently. */
static bool differs(uint8_t *start, uint64_t s)
{
	bool bad;
	unsigned i;

	n_units = 1;
	n_exits = n_insns = 0;
	area.used = 0;
	memset(tables, 0, 2 * NATIVE_N_TARGETS * sizeof(*tables));
	native_area_init(&area);
	slots->miss = area.miss;
	get_unit((uintptr_t)start);
	bad = differ(start, s);
	for (i = 0; i < N_WAYS && !bad && !trouble; i++) {
		add_way();
		bad = differ(start, i % 2 ? s : next_random(&s) | 1);
	}
	return bad;
}

static void *map_at(uintptr_t where, size_t size, int prot)
{
	void *p = mmap((void *)where, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return p;
}

static void compare_programs(const char *text, uint64_t distance, unsigned n)
{
	const int rwx = PROT_READ | PROT_WRITE | PROT_EXEC;
	unsigned i, bad = 0;
	uint64_t first = 0;

	area = (struct native_area){ .size = AREA_BYTES };
	area.mem = map_at((uintptr_t)code + distance, AREA_BYTES, rwx);
	area.at = (uintptr_t)area.mem;
	n_full = 0;
	for (i = 0; i < n && !trouble; i++) {
		uint64_t s = next_random(&seed) | 1, before = seed;

		if (differs(make_program(), s) && !bad++)
			first = before;
	}
	munmap(area.mem, AREA_BYTES);
	ok(!bad && !trouble, "%s: %u of %u programs differ (first: %#llx)%s", text, bad,
	       i, (unsigned long long)first, trouble ? trouble : "");
	ok(n_full > 0, "%s: rings were full", text);
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	unsigned n = getenv("LONG") ? 200000 : 1500;
	stack_t ss = { .ss_size = 65536 };
	unsigned i;

	if (argc > 2)
		n = (unsigned)strtoul(argv[2], NULL, 0);
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0) | 1;
	ss.ss_sp = map_at(0, ss.ss_size, PROT_READ | PROT_WRITE);
	sigaltstack(&ss, NULL);
	sigaction(SIGTRAP, &sa, NULL);
	code = map_at((uintptr_t)1 << 40, CODE_BYTES + DATA_BYTES,
		      PROT_READ | PROT_WRITE | PROT_EXEC);
	data = code + CODE_BYTES;
	tables = map_at(0, 2 * NATIVE_N_TARGETS * sizeof(*tables), PROT_READ | PROT_WRITE);
	slots_mem = map_at(0, NATIVE_RING + sizeof(*slots), PROT_READ | PROT_WRITE);
	slots = (void *)(slots_mem + NATIVE_RING);
	for (i = 0; i < NATIVE_N_TABLES; i++)
		slots->tables[i] = (uintptr_t)(tables + i % 2 * NATIVE_N_TARGETS);
	syscall(SYS_arch_prctl, ARCH_SET_GS, slots);
	compare_programs("near", (uint64_t)64 << 20, n);
	compare_programs("far", (uint64_t)64 << 30, n);
	return plan_done();
}
