/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the Intel PT decoders share: a little program in two regions, a
 * host for it, and flows side by side with libipt's.
 */
#ifndef TESTS_UNIT_TEST_PT_H
#define TESTS_UNIT_TEST_PT_H

#include <stdbool.h>
#include <stdlib.h>

#include <aux/decoder.h>

#include "tests/unit/mkpt.h"
#include "decode/lib/session/decoders.h"
#include "tests/unit/tap.h"

/*
 * 1000 dec eax	     1002 jne 1000	1004 call 1010	   1009 syscall
 * 100b nop	     100c jmp *rax	100e nop, nop	   1010 ret
 * 1011 nop	     1012 jmp 1012	1014 call *rax	   1016 ptwrite eax
 * 101a mov cr3, rax 101d jmp 1021	101f nop, nop	   1021 call 1026
 * 1026 je 1000	     1028 call 1010	102d jmp 1000	   102f jmp 2000
 * 1034 nop, nop
 */
/* table */
static const uint8_t code_low[] = {
	0xff, 0xc8, 0x75, 0xfc, 0xe8, 0x07, 0, 0, 0, 0x0f, 0x05, 0x90,
	0xff, 0xe0, 0x90, 0x90, 0xc3, 0x90, 0xeb, 0xfe, 0xff, 0xd0,
	0xf3, 0x0f, 0xae, 0xe0, 0x0f, 0x22, 0xd8, 0xeb, 0x02, 0x90, 0x90,
	0xe8, 0, 0, 0, 0, 0x74, 0xd8, 0xe8, 0xe3, 0xff, 0xff, 0xff,
	0xeb, 0xd1, 0xe9, 0xcc, 0x0f, 0, 0, 0x90, 0x90,
};

/* 2000 nop, ret     2002 jne 1000	2008 nop, jmp *rbx  200b jmpabs 1000 */
/* table */
static const uint8_t code_high[] = {
	0x90, 0xc3, 0x0f, 0x85, 0xf8, 0xef, 0xff, 0xff, 0x90, 0xff, 0xe3,
	0xd5, 0x00, 0xa1, 0x00, 0x10, 0, 0, 0, 0, 0, 0,
};

/* 2000 nop, nop, ret */
/* table */
static const uint8_t code_other[sizeof(code_high)] = { 0x90, 0x90, 0xc3 };

/* Is there code at ip, until it goes? */
__attribute__((unused))
static bool is_code(uint64_t ip)
{
	return ip - 0x1000 < sizeof(code_low) || ip - 0x2000 < sizeof(code_high);
}

/* A loop, a call and its return, a system call; then a jump and an interrupt. */
__attribute__((unused))
static void put_small_flow(struct pt *p)
{
	pt_psb(p, 50, 0);
	pt_mode64(p);
	pt_pge(p, 0x1000);
	pt_tnt(p, "TTN");	/* loop; the call needs nothing */
	pt_tip(p, 0x1009);	/* the ret */
	pt_pgd(p);		/* the syscall */
	pt_tsc(p, 60);
	pt_pge(p, 0x100b);
	pt_tip(p, 0x1000);
	pt_fup(p, 0x1002);
	pt_pgd(p);
}

/* An address without code, an overflow, and, last, what is no packet. */
__attribute__((unused))
static void put_losses(struct pt *p)
{
	pt_psb(p, 0, 0x1000);
	pt_tnt(p, "N");
	pt_tip(p, 0x5000);	/* no code */
	pt_tnt(p, "T");
	pt_psb(p, 0, 0x1000);
	pt_tnt(p, "T");
	pt_ovf(p);
	pt_fup(p, 0x100b);
	pt_tip(p, 0x1009);
	pt_pgd(p);
	pt_u8(p, 0xd5);		/* no packet */
}

#define MAX_EVENTS 4096

struct fixture {
	struct aux_decoder_config config;
	struct aux_decoder_host host;
	const struct aux_decoder_ops *ops;
	void *dec;
	struct aux_flow ev[MAX_EVENTS];
	size_t n;
	unsigned asked;		/* calls of code */
	uint64_t moved;		/* the generation that has no high code */
	uint64_t other;		/* the one that has other high code */
	int rc;			/* of the last decode */
};

static int give_code(void *priv, uint64_t ip, struct aux_code *c)
{
	struct fixture *f = priv;

	f->asked++;
	if (ip >= 0x1000 && ip < 0x1000 + sizeof(code_low))
		*c = (struct aux_code){ .start = 0x1000, .bytes = code_low,
					.end = 0x1000 + sizeof(code_low) };
	else if (ip >= 0x2000 && ip < 0x2000 + sizeof(code_high) &&
		 f->host.generation != f->moved)
		*c = (struct aux_code){
			.start = 0x2000, .end = 0x2000 + sizeof(code_high),
			.bytes = f->other && f->host.generation == f->other ?
					 code_other : code_high };
	else
		return -AUX_E_NOENT;
	return 0;
}

static void begin(struct fixture *f, const char *name, bool paths)
{
	memset(f, 0, sizeof(*f));
	f->config.size = sizeof(f->config);
	f->config.clock.mult = 1;
	f->host = (struct aux_decoder_host){ .size = sizeof(f->host), .priv = f,
					     .code = give_code, .generation = 1,
					     .sync_only = 1, /* as libipt is */
					     .paths = paths ? AUX_PATHS_JOINED :
							     AUX_PATHS_NONE,
					     .horizon_tsc = UINT64_MAX };
	f->ops = decoders_find(name, 0, NULL);
	if (!f->ops || f->ops->open(&f->dec, &f->config, &f->host, NULL) < 0)
		abort();
}

/* The event, or the RANGEs that it stands for. */
static void keep(struct fixture *f, const struct aux_flow *e)
{
	const struct aux_path *p = e->path.path;

	if (e->kind != AUX_FLOW_PATH) {
		if (f->n < MAX_EVENTS)
			f->ev[f->n++] = *e;
		return;
	}
	for (uint32_t i = 0; i < p->n_steps; i++) {
		for (uint32_t k = 0; k < p->steps[i]->n_ranges; k++) {
			if (f->n == MAX_EVENTS)
				return;
			f->ev[f->n] = p->steps[i]->ranges[k];
			f->ev[f->n++].offset = e->offset;
		}
	}
}

/* Decodes all in batches of max; false when it does not end. */
static bool run_in(struct fixture *f, const uint8_t *data, size_t len,
		   uint64_t end_ip, size_t max)
{
	struct aux_chunk c = { .size = sizeof(c), .data = data, .len = len,
			       .stream_offset = 100, .end_ip = end_ip,
			       .flags = end_ip ? AUX_CHUNK_HAS_END_IP : 0 };
	struct aux_flow out[64];

	f->n = 0;
	f->rc = f->ops->start(f->dec, &c);
	for (int i = 0; i < 20000 && f->rc >= 0; i++) {
		f->rc = f->ops->decode(f->dec, out, max);
		if (f->rc <= 0)
			return f->rc == 0;
		for (int k = 0; k < f->rc; k++)
			keep(f, &out[k]);
	}
	return false;
}

__attribute__((unused))
static bool run(struct fixture *f, const struct pt *p, uint64_t end_ip)
{
	return run_in(f, p->b, p->n, end_ip, 64);
}

static char *text(const struct fixture *f)
{
	static const char *const ends[] = {
		"fall", "taken", "not", "jump", "call", "ret", "ijump",
		"icall", "syscall", "far", "cond",
	};
	static char buf[2][8192];
	static unsigned turn;
	char *s = buf[turn ^= 1];
	size_t n = 0;

	s[0] = 0;
	for (size_t i = 0; i < f->n && n < sizeof(buf[0]) - 200; i++) {
		const struct aux_flow *e = &f->ev[i];
		size_t left = sizeof(buf[0]) - n;

		if (e->kind == AUX_FLOW_RANGE)
			n += (size_t)snprintf(s + n, left, "%" PRIx64 "-%" PRIx64
					     "/%u:%s%s ", e->range.first,
					     e->range.last, e->n, ends[e->what],
					     e->flags & AUX_FLOW_IN_TX ? "!" : "");
		else if (e->kind == AUX_FLOW_TIME)
			n += (size_t)snprintf(s + n, left, "t%" PRIu64 " ",
					     e->time.tsc);
		else if (e->kind == AUX_FLOW_TRACE_ON)
			n += (size_t)snprintf(s + n, left, "on:%" PRIx64 " ",
					     e->trace.ip);
		else if (e->kind == AUX_FLOW_TRACE_OFF)
			n += (size_t)snprintf(s + n, left, "off ");
		else if (e->kind == AUX_FLOW_ASYNC)
			n += (size_t)snprintf(s + n, left, "async:%" PRIx64 "-%" PRIx64
					     " ", e->async.from, e->async.to);
		else if (e->kind == AUX_FLOW_GAP)
			n += (size_t)snprintf(s + n, left, "gap%u:%" PRIx64 " ",
					     e->what, e->gap.ip);
		else
			n += (size_t)snprintf(s + n, left, "k%u.%u:%" PRIx64 ",%"
					     PRIx64 " ", e->kind, e->what,
					     e->payload.ip, e->payload.value);
	}
	return s;
}

static bool is_cond(const struct aux_flow *e)
{
	return e->kind == AUX_FLOW_RANGE &&
	       (e->what == AUX_END_COND || e->what == AUX_END_COND_TAKEN ||
		e->what == AUX_END_COND_NOT_TAKEN);
}

/* TIMEs apart, and the outcome of a branch, which only one may know. */
static bool same_event(const struct aux_flow *a, const struct aux_flow *b)
{
	if (a->kind != b->kind || a->flags != b->flags || a->n != b->n)
		return false;
	if (a->what != b->what &&
	    !(is_cond(a) && is_cond(b) &&
	      (a->what == AUX_END_COND || b->what == AUX_END_COND)))
		return false;
	if (a->kind == AUX_FLOW_GAP)
		return a->gap.ip == b->gap.ip;
	if (a->kind == AUX_FLOW_TRACE_ON || a->kind == AUX_FLOW_TRACE_OFF ||
	    a->kind == AUX_FLOW_TX)
		return a->trace.ip == b->trace.ip;
	return a->payload.ip == b->payload.ip &&
	       a->payload.value == b->payload.value;
}

/* One that a cut alone ended goes on in the next. */
static size_t join(const struct aux_flow *from, size_t n, struct aux_flow *to)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		struct aux_flow *last = k ? &to[k - 1] : NULL;

		if (from[i].kind == AUX_FLOW_TIME)
			continue;
		if (last && last->kind == AUX_FLOW_RANGE &&
		    last->what == AUX_END_FALL &&
		    from[i].kind == AUX_FLOW_RANGE &&
		    from[i].range.first - last->range.last - 1 < 15 &&
		    (from[i].flags & 0xfff0) == (last->flags & 0xfff0)) {
			last->n += from[i].n;
			last->range.last = from[i].range.last;
			last->what = from[i].what;
			last->flags = from[i].flags;
			continue;
		}
		to[k++] = from[i];
	}
	return k;
}

__attribute__((unused))
static bool same_flow(const struct fixture *a, const struct fixture *b)
{
	static struct aux_flow x[MAX_EVENTS], y[MAX_EVENTS];
	size_t n = join(a->ev, a->n, x), m = join(b->ev, b->n, y);

	if (n != m)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!same_event(&x[i], &y[i]))
			return false;
	return true;
}

#endif
