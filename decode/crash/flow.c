/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last of what a thread ran, found by going back: its instructions, the branches that
 * it took, the calls that it made, and those that called what runs at the end.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/flow.h>

#include "common/array.h"
#include "decode/crash/impl.h"

#define MAX_BACK (1u << 18)	/* records that are gone through for calls */
#define MAX_LOOK 256		/* returns that wait for their calls */
#define CODE_BYTES 16

struct backwards {
	struct crash *c;
	struct replay_place at;
	struct replay_state state;
	struct aux_diag *diag;
	struct disasm *disasm;
	size_t n;
	/* the record after the one at hand: where it begins, if that is known */
	uint64_t next;
	bool has_next;
	uint64_t *returns;	/* where returns led to whose calls are still to come */
	size_t n_returns, cap_returns;
};

static size_t read_code(const struct crash *c, uint64_t ip, uint8_t *buf)
{
	struct aux_code code;
	size_t done = 0;

	while (c->space && done < CODE_BYTES &&
	       !c->host.code(c->host.priv, c->space, ip + done, &code) &&
	       ip + done >= code.start && ip + done < code.end) {
		uint64_t left = code.end - (ip + done);
		size_t n = left < CODE_BYTES - done ? (size_t)left : CODE_BYTES - done;

		memcpy(buf + done, code.bytes + (ip + done - code.start), n);
		done += n;
	}
	return done;
}

/* Does the last instruction lead to where it ended? */
static bool joins_end(const struct crash *c)
{
	return c->has_ip && !c->gap;
}

static void read_effect(struct backwards *b, uint64_t ip, struct insn_effect *e)
{
	uint8_t code[CODE_BYTES];
	size_t n = read_code(b->c, ip, code);

	*e = (struct insn_effect){ .kind = INSN_ANYTHING };
	if (n && b->disasm && (b->c->mode & AUX_FLOW_MODE_MASK) == AUX_FLOW_MODE_X86_64)
		disasm_effect(b->disasm, code, n, ip, e);
	else if (n)
		e->size = (uint8_t)insn_length(code, n, b->c->mode);
}

/* ---- instructions ---- */

static void add_operand(struct crash_insn *in, const struct insn_place *p)
{
	if (p->kind == INSN_AT_REG)
		in->operands |= (uint16_t)(1u << p->reg);
	if (p->kind != INSN_AT_MEM)
		return;
	if (p->base != INSN_NO_REG)
		in->operands |= (uint16_t)(1u << p->base);
	if (p->index != INSN_NO_REG)
		in->operands |= (uint16_t)(1u << p->index);
}

static void set_insn(struct crash_insn *in, const struct insn_effect *e, uint64_t ip,
		     uint64_t time_ns, bool ran)
{
	*in = (struct crash_insn){ .ip = ip, .time_ns = time_ns, .ran = ran,
				   .effect = *e };
	/* what a register had that is only written to is of no use */
	if (e->dst.kind != INSN_AT_REG ||
	    (e->kind != INSN_MOVE && e->kind != INSN_MOVE_ZERO &&
	     e->kind != INSN_MOVE_SIGN && e->kind != INSN_ADDRESS && e->kind != INSN_POP))
		add_operand(in, &e->dst);
	add_operand(in, &e->src);
}

/* The last instructions, newest first in steps; how many, or an error. */
struct steps {
	struct proof_insn v[CRASH_PROOF];
	uint64_t time_ns[CRASH_PROOF];
	size_t n;
};

/* Does the next instruction follow without anything between? */
static bool follows(const struct proof_insn *in, uint64_t next, unsigned end)
{
	switch (end) {
	case AUX_END_RET:
	case AUX_END_IND_JUMP:
	case AUX_END_IND_CALL:
	case AUX_END_JUMP:
	case AUX_END_CALL:
	case AUX_END_COND_TAKEN:
		return true;
	}
	return in->effect.size && next == in->ip + in->effect.size;
}

static int step_back(struct backwards *b, struct steps *s)
{
	struct replay_why why = { .stop = REPLAY_DONE };
	uint64_t next = b->c->ip;
	bool known = joins_end(b->c);
	int err = 0;

	while (s->n < CRASH_PROOF) {
		struct proof_insn *in = &s->v[s->n];

		err = replay_state(b->c->replay, &b->at, &b->state, b->diag);
		if (err || b->state.no_code)
			break;
		in->ip = b->state.pc;
		read_effect(b, in->ip, &in->effect);
		in->parted = known && (!follows(in, next, b->state.end) ||
				      (why.interrupted && b->state.end != AUX_END_FALL));
		s->time_ns[s->n++] = b->state.time_ns;
		next = in->ip;
		known = true;
		err = replay_step(b->c->replay, &b->at, b->c->tid, true, &why, b->diag);
		if (err || why.stop != REPLAY_DONE)
			break;
	}
	b->c->begins |= why.stop == REPLAY_GAP && s->n < b->n;
	return err;
}

/* The oldest first, and the one that did not run. */
static void put_steps(struct backwards *b, const struct steps *s)
{
	struct crash *c = b->c;
	size_t n = s->n < b->n ? s->n : b->n;
	struct insn_effect e;

	for (size_t i = n; i-- > 0;)
		set_insn(&c->insns[c->n_insns++], &s->v[i].effect, s->v[i].ip,
			 s->time_ns[i], true);
	if (!c->has_ip)
		return;
	read_effect(b, c->ip, &e);
	if (e.size)
		set_insn(&c->insns[c->n_insns++], &e, c->ip, c->time_ns, false);
}

/* ---- values ---- */

/* Another thread may write to memory at any time. */
static bool has_threads(const struct crash *c)
{
	size_t i = 0, n = 0;
	uint32_t tid;

	while (replay_next_thread(c->replay, &i, &tid))
		n++;
	return n > 1;
}

static void take_values(struct crash *c, struct proof *p)
{
	size_t first = p->n - (c->n_insns - (c->n_insns && !c->insns[c->n_insns - 1].ran));

	for (size_t i = 0; i < c->n_insns; i++) {
		struct crash_insn *in = &c->insns[i];

		memcpy(in->before, p->before[first + i], sizeof(in->before));
		in->known = p->known[first + i];
		in->memory = proof_memory(p, first + i);
	}
}

/*
 * The proof has the oldest first, and at its end the one that did not run, whose registers
 * are the core's.
 */
static int prove_values(struct backwards *b, const struct steps *s)
{
	struct crash *c = b->c;
	struct proof_insn *v = calloc(s->n + 1, sizeof(*v));
	struct proof p = { .core = c->core, .regs = &c->thread->regs, .insns = v,
			   .n = s->n, .shared = has_threads(c) };

	p.before = calloc(s->n + 2, sizeof(*p.before));
	p.known = calloc(s->n + 2, sizeof(*p.known));
	if (v && p.before && p.known) {
		for (size_t i = 0; i < s->n; i++)
			v[i] = s->v[s->n - 1 - i];
		if (c->n_insns && !c->insns[c->n_insns - 1].ran)
			v[s->n] = (struct proof_insn){
				.effect = c->insns[c->n_insns - 1].effect, .ip = c->ip };
		if (!proof_run(&p))
			c->unproven = "registers of the core file contradict what ran: "
				      "it is of another end, or something ran unseen";
		else
			take_values(c, &p);
	}
	free(p.before);
	free(p.known);
	free(v);
	return v && p.before && p.known ? 0 : -AUX_E_NOMEM;
}

/* ---- branches and calls ---- */

static bool is_taken(unsigned end)
{
	return end != AUX_END_FALL && end != AUX_END_COND_NOT_TAKEN && end != AUX_END_COND;
}

/* A call that returns to back: true if a return to there was met, later. */
static bool has_returned(struct backwards *b, uint64_t back)
{
	for (size_t i = b->n_returns, n = 0; i-- && n < MAX_LOOK; n++)
		if (b->returns[i] == back) {
			b->n_returns = i;
			return true;
		}
	return false;
}

static int take_record(struct backwards *b)
{
	struct crash *c = b->c;
	const struct replay_state *st = &b->state;
	bool call = st->end == AUX_END_CALL || st->end == AUX_END_IND_CALL;
	struct insn_effect e;

	if (b->has_next && is_taken(st->end) && c->n_branches < b->n)
		c->branches[c->n_branches++] = (struct crash_branch){
			st->pc, b->next, st->time_ns, st->end };
	if (st->end == AUX_END_RET && b->has_next)
		return array_append(&b->returns, &b->n_returns, &b->cap_returns,
				    &b->next, sizeof(b->next)) ? -AUX_E_NOMEM : 0;
	if (!call || !b->has_next)
		return 0;
	read_effect(b, st->pc, &e);
	if (b->next == st->pc + e.size)
		return 0;	/* a call of what follows it is no call */
	c->calls[c->n_calls].returned = has_returned(b, st->pc + e.size);
	c->calls[c->n_calls].from = st->pc;
	c->calls[c->n_calls].to = b->next;
	c->calls[c->n_calls].depth = (unsigned)b->n_returns;
	c->calls[c->n_calls++].time_ns = st->time_ns;
	return 0;
}

/* Newest first, as they were found, and depths count down from there. */
static void turn(struct crash *c)
{
	unsigned open = 0, least = UINT32_MAX;

	/* one that has not returned is a level of its own */
	for (size_t i = 0; i < c->n_calls; i++) {
		unsigned up = c->calls[i].returned ? c->calls[i].depth : 0;

		open += !c->calls[i].returned;
		c->calls[i].depth = CRASH_LINES + MAX_LOOK + up - open;
		least = c->calls[i].depth < least ? c->calls[i].depth : least;
	}
	for (size_t i = 0; i < c->n_calls; i++)
		c->calls[i].depth -= least;
	for (size_t i = 0; i < c->n_calls / 2; i++) {
		struct crash_call t = c->calls[i];

		c->calls[i] = c->calls[c->n_calls - 1 - i];
		c->calls[c->n_calls - 1 - i] = t;
	}
	for (size_t i = 0; i < c->n_branches / 2; i++) {
		struct crash_branch t = c->branches[i];

		c->branches[i] = c->branches[c->n_branches - 1 - i];
		c->branches[c->n_branches - 1 - i] = t;
	}
}

/* Record after record: their ends are where branches are. */
static int find_branches(struct backwards *b)
{
	struct replay_why why;
	int err = 0;

	b->next = b->c->ip;
	b->has_next = joins_end(b->c);
	for (unsigned k = 0; k < MAX_BACK && !err; k++) {
		err = replay_state(b->c->replay, &b->at, &b->state, b->diag);
		if (!err)
			err = take_record(b);
		if (err || b->c->n_calls == b->n)
			break;
		b->at.insn = 0;
		err = replay_state(b->c->replay, &b->at, &b->state, b->diag);
		b->next = b->state.pc;
		b->has_next = true;
		if (!err)
			err = replay_step(b->c->replay, &b->at, b->c->tid, true, &why,
					  b->diag);
		if (err || why.stop == REPLAY_EDGE)
			break;
		if (why.stop == REPLAY_GAP || why.interrupted)
			b->has_next = false;
	}
	turn(b->c);
	free(b->returns);
	return err;
}

/* ---- callers ---- */

static void add_frame(struct crash *c, uint64_t pc, uint64_t call, bool interrupted)
{
	if (c->n_flow < CRASH_FRAMES)
		c->flow[c->n_flow++] = (struct crash_frame){
			.pc = pc, .call = call, .interrupted = interrupted };
}

/*
 * The callers of the last instruction; and if that was a call, whose first instruction did
 * not run, its own place. A return that led nowhere leaves its caller out.
 */
static int find_callers(struct backwards *b, const struct replay_place *at)
{
	struct replay_frame frames[CRASH_FRAMES];
	struct crash *c = b->c;
	struct insn_effect e;
	size_t skip = 0;
	int n, err = replay_state(c->replay, at, &b->state, b->diag);

	if (err)
		return err;
	read_effect(b, b->state.pc, &e);
	add_frame(c, c->has_ip ? c->ip : b->state.pc, c->has_ip ? c->ip : b->state.pc,
		  true);
	if (joins_end(c) && c->ip != b->state.pc + e.size &&
	    (b->state.end == AUX_END_CALL || b->state.end == AUX_END_IND_CALL))
		add_frame(c, b->state.pc + e.size, b->state.pc, false);
	n = replay_callers(c->replay, at, frames, CRASH_FRAMES, b->diag);
	if (n > 0 && b->state.end == AUX_END_RET && joins_end(c) &&
	    c->ip == frames[0].back)
		skip = 1;
	c->bad_return = n > 0 && !skip && b->state.end == AUX_END_RET &&
			joins_end(c) && c->signal.signo;
	for (size_t i = skip; n > 0 && i < (size_t)n; i++)
		add_frame(c, frames[i].back, frames[i].call, frames[i].interrupted);
	return n < 0 ? n : 0;
}

int crash_flow(struct crash *c, const struct replay_place *at, size_t n,
	       struct aux_diag *diag)
{
	struct backwards b = { .c = c, .diag = diag, .n = n, .at = *at };
	struct steps *s = calloc(1, sizeof(*s));
	int err = s ? 0 : -AUX_E_NOMEM;

	if (disasm_new(&b.disasm, DISASM_INTEL, NULL))
		b.disasm = NULL;
	if (!err)
		err = step_back(&b, s);
	if (!err)
		put_steps(&b, s);
	if (!err && c->thread && !c->unproven)
		err = prove_values(&b, s);
	b.at = *at;
	if (!err)
		err = find_branches(&b);
	if (!err)
		err = find_callers(&b, at);
	disasm_free(b.disasm);
	free(s);
	return err;
}
