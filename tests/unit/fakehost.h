/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host for sinks, in memory: one small program, hand assembled, three
 * functions, in one space; and the flow events to feed a sink with.
 */
#ifndef TESTS_UNIT_FAKEHOST_H
#define TESTS_UNIT_FAKEHOST_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "decode/lib/code/code.h"
#include "decode/lib/session/sink.h"
#include "decode/lib/sideband/sideband.h"

#define BASE 0x401000

/* table */
static const uint8_t fake_code[] = {
	0x55,				/* 00 main: push rbp */
	0x48, 0x89, 0xe5,		/* 01 mov rbp, rsp */
	0xe8, 0x07, 0x00, 0x00, 0x00,	/* 04 call f (10) */
	0x85, 0xc0,			/* 09 test eax, eax */
	0x75, 0xf7,			/* 0b jne 04 */
	0x5d,				/* 0d pop rbp */
	0xc3,				/* 0e ret */
	0x90,				/* 0f nop */
	0xf3, 0x0f, 0x1e, 0xfa,		/* 10 f: endbr64 */
	0x31, 0xc0,			/* 14 xor eax, eax */
	0xc3,				/* 16 ret */
	0x0f, 0x05,			/* 17 (no symbol) syscall */
};

struct fake {
	unsigned n_code, n_symbol;	/* calls */
	uint64_t split;	/* code is in two areas, cut here; 0: in one */
};

static int fake_get_code(void *priv, const struct space *space, uint64_t ip,
			 struct aux_code *code)
{
	struct fake *f = priv;
	uint64_t start = BASE, end = BASE + sizeof(fake_code);

	f->n_code++;
	if (!space || ip < start || ip >= end)
		return -AUX_E_NOENT;
	if (f->split && ip < f->split)
		end = f->split;
	else if (f->split)
		start = f->split;
	*code = (struct aux_code){ .start = start,
				   .end = end,
				   .bytes = fake_code + (start - BASE) };
	return 0;
}

static int fake_symbol(void *priv, const struct space *space, uint64_t ip,
		       struct symbol *sym)
{
	struct fake *f = priv;

	(void)space;
	f->n_symbol++;
	*sym = (struct symbol){ .dso = NULL };
	if (ip < BASE || ip >= BASE + sizeof(fake_code))
		return -AUX_E_NOENT;
	sym->dso = "/bin/fake";
	if (ip < BASE + 0x10) {
		sym->name = "main";
		sym->start = BASE;
	} else if (ip < BASE + 0x17) {
		sym->name = "f";
		sym->start = BASE + 0x10;
	}
	return sym->name ? 0 : -AUX_E_NOENT;
}

static void fake_explain(void *priv, const struct space *space, uint64_t ip,
			 char *buf, size_t len)
{
	(void)priv;
	(void)space;
	snprintf(buf, len, "no code at 0x%llx: /lib/gone.so not found",
		 (unsigned long long)ip);
}

static const char *fake_comm(void *priv, uint32_t tid, uint64_t time)
{
	(void)priv;
	(void)time;
	return tid == 7 ? "seven" : "other";
}

/* Thread 7 moves at 1 us; its path wants to break the line. */
static const char *fake_cgroup(void *priv, uint32_t tid, uint64_t time)
{
	(void)priv;
	return tid != 7 ? NULL : time < 1000 ? "/a\nb" : "/c";
}

__attribute__((unused))
static struct sink_host fake_host(struct fake *f)
{
	return (struct sink_host){ .priv = f,
				   .code = fake_get_code,
				   .symbol = fake_symbol,
				   .explain = fake_explain,
				   .comm = fake_comm,
				   .cgroup = fake_cgroup };
}

static inline struct aux_flow range(uint64_t first, uint64_t last, uint32_t n,
				    unsigned what, unsigned size)
{
	return (struct aux_flow){ .kind = AUX_FLOW_RANGE,
				  .what = (uint8_t)what,
				  .flags = (uint16_t)size,
				  .n = n,
				  .offset = 0x40,
				  .range = { first, last } };
}

#endif
