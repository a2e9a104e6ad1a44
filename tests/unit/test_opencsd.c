/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * The OpenCSD decoder against packets made by hand: ETMv4 and ETE.
 */
#include "tests/unit/etm_flow.h"
#include "tests/unit/tap.h"

static void begin_v4(struct fixture *f, unsigned arch, uint32_t configr)
{
	begin(f, arch);
	f->config.etm.trcconfigr = configr;
	f->config.etm.trcidr0 = 0x28000ea1;
	f->config.etm.trcidr1 = 0x4100f403;
	f->config.etm.trcidr2 = 0x488;
	if (arch == AUX_ETM_ETE) {
		f->config.etm.trcidr1 = 0x4100fff0;
		f->config.etm.trcidr2 = 0xd0001088;
		f->config.etm.trcdevarch = 0x47705a13;
	}
	start_decoder(f);
	add_area(f, 0x1000, etm_code, ETM_CODE_BASE);
}

static void flow(unsigned arch)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin_v4(&f, arch, CID | TS);
	put_small_flow(&p);
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f), SMALL_FLOW, "the flow");
	ok(f.n > 4 && f.ev[3].flags == (AUX_FLOW_MODE_A64 | 4),
	   "mode, and size of the last instruction");
	is_u64(f.ev[2].offset, 100 + 12 + 2 + 1 + 6 + 9, "place of a packet");
	f.ops->close(f.dec);
}

/* Addresses with contexts, and an exception at the target of a branch. */
static void contexts(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin_v4(&f, AUX_ETM_V4, CID | TS);
	v4_sync(&p, false);
	PUT(&p, 0x04);
	v4_address_context(&p, 0x1028, 1, 7);
	v4_atoms(&p, "E");	/* eret */
	PUT(&p, 0x06, 0x5c);	/* irq, at once */
	v4_address_context(&p, 0x1014, 0, 8);
	v4_address_context(&p, 0x1024, 1, 8);
	v4_atoms(&p, "E");
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f),
	       "on:1028 el5/7/0 1028-1028/1:far el4/8/0 async1:1014>1024 "
	       "el5/8/0 1024-1024/1:icall ", "each context once");
	f.ops->close(f.dec);
}

static void cycles(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin_v4(&f, AUX_ETM_V4, TS | CCI);
	begin_cycles(&p);
	PUT(&p, 0x03, 0x09, 0x04); /* timestamp with cycles */
	v4_atoms(&p, "N");
	PUT(&p, 0x71);		/* event 0 */
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f), "on:1000 el4/0/0 1000-1004/2:taken 1000-1004/2:taken "
	       "t9+7 1000-1004/2:not kind10:0=1 ",
	       "cycles come with the timestamp");
	ok(f.n && f.ev[f.n - 1].kind == AUX_FLOW_EVENT &&
	   f.ev[f.n - 1].payload.value == 1, "an event");
	f.ops->close(f.dec);
	begin_v4(&f, AUX_ETM_V4, CCI);
	ok(run(&f, p.b, p.n - 1, 64), "ends");
	is_str(text(&f), "on:1000 el4/0/0 1000-1004/2:taken t0+3 "
	       "1000-1004/2:taken t0+4 t9+0 1000-1004/2:not ",
	       "or alone, where there are none");
	f.ops->close(f.dec);
}

static void gaps(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin_v4(&f, AUX_ETM_V4, CID | TS);
	put_losses(&p);
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f),
	       "on:1000 el4/7/0 1000-1004/2:taken gap2:5000 1004-1004/1:taken "
	       "gap1:1000 on:1000 el4/7/0 1000-1004/2:taken gap3:1004 "
	       "on:1000 el4/7/0 1000-1004/2:taken gap3:1004 "
	       "on:1000 el4/7/0 1000-1004/2:not ",
	       "each loss is emitted once, flow resumes");
	f.ops->close(f.dec);
}

static void ends(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };
	char first[4096];

	begin_v4(&f, AUX_ETM_V4, CID | TS);
	PUT(&p, 0xf7, 0x12, 0x34);
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f), "gap5:0 ", "without a sync point there is nothing");
	begin_flow(&p);
	v4_atoms(&p, "E");
	v4_time(&p, 9);
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f), "gap5:0 on:1000 el4/7/0 1000-1004/2:taken t9+0 ",
	       "what is before it is told; the last packet is given");
	is_u64(f.ev[0].offset, 100, "from the chunk's start on");
	snprintf(first, sizeof(first), "%s", text(&f));
	p.n -= 1;
	ok(run(&f, p.b, p.n, 64), "cut in a packet");
	ok(!strstr(text(&f), "t9"), "that packet is not there");
	PUT(&p, 0x09);
	ok(run(&f, p.b, p.n, 16), "again");
	is_str(text(&f), first, "nothing is left of the chunk before");
	f.ops->close(f.dec);
}

/* An exception at the target of an indirect branch: the library pops too much. */
static void stack(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin_v4(&f, AUX_ETM_V4, CID | RS);
	begin_flow(&p);
	v4_atoms(&p, "NEE");	/* call, ret to 100c by the stack */
	v4_atoms(&p, "E");	/* br */
	v4_address(&p, 0x1008);
	v4_atoms(&p, "EE");	/* call; ret, not by the stack, for once */
	v4_exception(&p, 12, 2, 0x1014);
	v4_address(&p, 0x1028);
	v4_atoms(&p, "E");
	v4_address(&p, 0x1000);
	v4_atoms(&p, "N");
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f),
	       "on:1000 el4/7/0 1000-1004/2:not 1008-1008/1:call "
	       "1020-1020/1:ret 100c-1010/2:ijump 1008-1008/1:call "
	       "1020-1020/1:ret async2:1014>1028 1028-1028/1:far "
	       "1000-1004/2:not ", "with addresses all is well");
	p.n = 0;
	begin_flow(&p);
	v4_atoms(&p, "NE");	/* call: 100c is on the stack */
	v4_atoms(&p, "E");	/* ret by it */
	v4_atoms(&p, "E");	/* br */
	v4_address(&p, 0x1008);
	v4_atoms(&p, "E");	/* call: 100c, */
	v4_exception(&p, 12, 1, 0x1020);
	v4_address(&p, 0x1008);
	v4_atoms(&p, "E");	/* and again */
	v4_exception(&p, 12, 1, 0x1020);
	v4_address(&p, 0x1024);
	v4_atoms(&p, "E");	/* blr: 1028 */
	v4_exception(&p, 12, 2, 0x1014); /* popped */
	v4_address(&p, 0x1020);
	v4_atoms(&p, "EN");	/* ret to 1028: the library knows no better */
	v4_address(&p, 0x1000);
	v4_atoms(&p, "N");
	ok(run(&f, p.b, p.n, 64), "ends");
	ok(strstr(text(&f), "1020-1020/1:ret gap4:1020 1000-1004/2:not "),
	   "a return by a stack that is wrong is a gap");
	f.ops->close(f.dec);
}

/*
 * An exception returns to where the flow, from 2000 on, cannot have been. The code
 * that the library walks through for it ends in a nop, or in a branch.
 */
static void walks(void)
{
	static const uint32_t ends[] = {
		0xd503201f, 0x54000000, 0x14000000, 0x94000000, 0xd65f03c0,
	};

	for (unsigned i = 0; i < 5; i++) {
		uint32_t code[2] = { 0xd503201f, ends[i] };
		struct packet_bytes p = { .n = 0 };
		struct fixture f;

		begin_v4(&f, AUX_ETM_V4, CID);
		add_area(&f, 0x2000, code, sizeof(code));
		begin_flow(&p);
		v4_address(&p, 0x2000);
		v4_exception(&p, 14, 1, 0x1010);
		v4_address(&p, 0x1000);
		v4_atoms(&p, "E");
		ok(run(&f, p.b, p.n, 64), "ends");
		is_str(text(&f), "on:1000 el4/7/0 gap4:2000 async1:1010>1000 "
		       "1000-1004/2:taken ", "nothing of the walk ran");
		f.ops->close(f.dec);
	}
}

/* Behind an overflow the library waits for A-Sync: it takes no notice of an
 * exception in between, which never gets its address. */
static void forgets(unsigned arch)
{
	for (unsigned i = 0; i < 2; i++) {
		struct packet_bytes p = { .n = 0 };
		struct fixture f;

		begin_v4(&f, arch, CID | TS);
		begin_flow(&p);
		v4_atoms(&p, "E");
		PUT(&p, 0x00, 0x05, 0x01, 0x00); /* overflow, Trace Info */
		PUT(&p, 0x06, 0x05);
		if (i)
			v4_atoms(&p, "E");
		v4_sync(&p, false);
		PUT(&p, 0x04);
		v4_context(&p, 1, 8);
		v4_address(&p, 0x1000);
		v4_atoms(&p, "E");
		ok(run(&f, p.b, p.n, 64), "ends");
		is_str(text(&f), "on:1000 el4/7/0 1000-1004/2:taken gap1:1000 "
		       "on:1000 el5/8/0 1000-1004/2:taken ",
		       "the context is told");
		f.ops->close(f.dec);
	}
}

/* What the library cannot do, and registers that make no sense. */
static void odd(void)
{
	static const unsigned archs[] = { AUX_ETM_NONE, AUX_ETM_ITM, 99 };
	struct fixture f;
	struct packet_bytes p = { .n = 0 };
	uint64_t seed = 1;
	bool fine = true;

	begin_flow(&p);
	v4_atoms(&p, "E");
	for (unsigned i = 0; i < 3; i++) {
		begin(&f, archs[i]);
		start_decoder(&f);
		ok(run(&f, p.b, p.n, 64), "ends");
		is_str(text(&f), "gap10:0 ", "a gap");
		f.ops->close(f.dec);
	}
	for (unsigned i = 0; i < 500; i++) {
		uint32_t *r = &f.config.etm.trcconfigr;

		begin(&f, 1 + i % 6);
		for (; r <= &f.config.etm.itmtcr; r++) {
			seed = seed * 6364136223846793005 + 1;
			*r = (uint32_t)(seed >> 32);
		}
		f.config.etm.trace_id = (uint32_t)(seed >> 24) & 0xff;
		start_decoder(&f);
		add_area(&f, 0x1000, etm_code, ETM_CODE_BASE);
		fine &= run(&f, p.b, p.n, 16);
		f.ops->close(f.dec);
	}
	ok(fine, "500 sets of registers");
	begin(&f, AUX_ETM_V4);
	f.ops->close(NULL);
}

int main(void)
{
	flow(AUX_ETM_V4);
	flow(AUX_ETM_ETE);
	contexts();
	cycles();
	gaps();
	ends();
	stack();
	walks();
	forgets(AUX_ETM_V4);
	forgets(AUX_ETM_ETE);
	odd();
	return plan_done();
}
