/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The etm decoder on packets made by hand, compared with OpenCSD; and its contract with the
 * host: code, paths, and traces that it refuses.
 */
#include "tests/unit/test_etm.h"

static void flow(unsigned arch)
{
	struct packet_bytes p = { .n = 0 };

	put_small_flow(&p);
	gives((struct registers){ arch, CID | TS, false }, &p,
	      SMALL_FLOW, "the flow");
}

/* Every address packet, and what they lean on. */
static void addresses(void)
{
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	v4_atoms(&p, "N");
	PUT(&p, 0x95, 0x04);		/* 1010 */
	v4_atoms(&p, "E");
	PUT(&p, 0x91);			/* 1000 */
	v4_atoms(&p, "N");
	PUT(&p, 0x92);			/* 1000 again: a match is pushed */
	v4_atoms(&p, "N");
	PUT(&p, 0x95, 0x88, 0x08);	/* 1020 */
	v4_atoms(&p, "E");
	PUT(&p, 0x9a, 0x09, 0x08, 0x00, 0x00);	/* 1024 */
	v4_atoms(&p, "E");
	v4_address_context(&p, 0x1028, 0, 7);
	v4_atoms(&p, "E");
	PUT(&p, 0x90);
	v4_atoms(&p, "E");
	gives((struct registers){ AUX_ETM_V4, CID, false }, &p,
	      "on:1000 el4/7/0 1000-1004/2:not 1010-1010/1:ijump 1000-1004/2:not "
	      "1000-1004/2:not 1020-1020/1:ret 1024-1024/1:icall 1028-1028/1:far "
	      "1028-1028/1:far ", "addresses");
}

/* Every format of atoms, on code where each is a branch. */
static void atoms(void)
{
	static const struct { uint8_t header; const char *atoms; } all[] = {
		{ 0xf6, "N" }, { 0xf7, "E" }, { 0xd8, "NN" }, { 0xd9, "EN" },
		{ 0xda, "NE" }, { 0xdb, "EE" }, { 0xf8, "NNN" }, { 0xfc, "NNE" },
		{ 0xfb, "EEN" }, { 0xdc, "NEEE" }, { 0xdd, "NNNN" },
		{ 0xde, "NENE" }, { 0xdf, "ENEN" }, { 0xd5, "NNNNN" },
		{ 0xd6, "NENEN" }, { 0xd7, "ENENE" }, { 0xf5, "NEEEE" },
		{ 0xc0, "EEEE" }, { 0xe0, "EEEN" },
		{ 0xd4, "EEEEEEEEEEEEEEEEEEEEEEEE" },
		{ 0xf4, "EEEEEEEEEEEEEEEEEEEEEEEN" },
	};
	static uint32_t code[64];
	static struct fixture f;

	for (size_t i = 0; i < 64; i++)
		code[i] = 0xb5000020;		/* cbnz x0, behind it */
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct packet_bytes p = { .n = 0 };
		char got[32] = "";

		set_up(&f, "etm", (struct registers){ AUX_ETM_V4, CID, false });
		start_decoder(&f);
		add_area(&f, 0x1000, code, sizeof(code));
		begin_flow(&p);
		put(&p, &all[i].header, 1);
		run_exact(&f, p.b, p.n, 64);
		for (size_t k = 2; k < f.n && k < 30; k++)
			got[k - 2] = f.ev[k].what == AUX_END_COND_TAKEN ? 'E' :
									  'N';
		is_str(got, all[i].atoms, "atoms");
		f.ops->close(f.dec);
	}
}

static void cycles(void)
{
	struct packet_bytes p = { .n = 0 };

	begin_cycles(&p);
	PUT(&p, 0x0e, 0x82, 0x01, 0x0f);
	PUT(&p, 0x03, 0x09, 0x04);
	v4_atoms(&p, "N");
	PUT(&p, 0x71);
	gives((struct registers){ AUX_ETM_V4, TS | CCI, false }, &p,
	      "on:1000 el4/0/0 1000-1004/2:taken 1000-1004/2:taken "
	      "t9+138 1000-1004/2:not kind10:0=1 ", "cycles");
	p.n--;
	gives((struct registers){ AUX_ETM_V4, CCI, false }, &p,
	      "on:1000 el4/0/0 1000-1004/2:taken t0+3 1000-1004/2:taken "
	      "t0+131 t0+4 t9+0 1000-1004/2:not ", "cycles alone");
}

static void gaps(void)
{
	struct packet_bytes p = { .n = 0 };

	put_losses(&p);
	PUT(&p, 0x00, 0x03);	/* discard */
	begin_flow(&p);
	v4_exception(&p, 14, 1, 0x2000); /* where there is no code */
	PUT(&p, 0x00, 0x05);
	gives((struct registers){ AUX_ETM_V4, CID | TS, false }, &p,
	      "on:1000 el4/7/0 1000-1004/2:taken gap2:5000 1004-1004/1:taken "
	      "gap1:1000 on:1000 el4/7/0 1000-1004/2:taken gap3:1004 "
	      "on:1000 el4/7/0 1000-1004/2:taken gap3:1004 "
	      "on:1000 el4/7/0 1000-1004/2:not off on:1000 el4/7/0 "
	      "1000-1038/15:jump gap2:103c async1:2000>0 gap1:0 ",
	      "each loss is emitted once, flow resumes");
	p.n = 0;
	PUT(&p, 0xf7, 0x12, 0x34, 0, 0, 0);
	gives((struct registers){ AUX_ETM_V4, CID, false }, &p, "gap5:0 ",
	      "without a sync point there is nothing");
	begin_flow(&p);
	v4_atoms(&p, "E");
	PUT(&p, 0x9d, 0x12);
	gives((struct registers){ AUX_ETM_V4, CID, false }, &p,
	      "gap5:0 on:1000 el4/7/0 1000-1004/2:taken gap4:1004 ",
	      "cut in a packet");
}

/* An exception that returns to where the flow cannot have been: it was last where
 * there is no code. */
static void lost_behind(void)
{
	struct packet_bytes p;

	for (int told = 0; told < 2; told++) {
		p.n = 0;
		begin_flow(&p);
		v4_atoms(&p, "E");
		v4_address(&p, 0x5000);
		if (told)
			v4_atoms(&p, "E");
		v4_exception(&p, 14, 1, 0x1010);
		v4_address(&p, 0x1000);
		v4_atoms(&p, "E");
		gives((struct registers){ AUX_ETM_V4, CID, false }, &p,
		      "on:1000 el4/7/0 1000-1004/2:taken gap2:5000 "
		      "async1:1010>1000 1000-1004/2:taken ",
		      told ? "no code, an atom of it, then elsewhere: one gap" :
			     "no code, and then elsewhere: a gap");
	}
}

static void stack(void)
{
	struct registers r = { AUX_ETM_V4, CID | RS, false };
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	v4_atoms(&p, "NEE");	/* call, ret to 100c by the stack */
	v4_atoms(&p, "E");
	v4_address(&p, 0x1008);
	PUT(&p, 0xfb);		/* EEN: all in one packet */
	v4_address(&p, 0x1008);
	v4_atoms(&p, "E");
	PUT(&p, 0xdb);		/* a return that is on the stack, inside */
	v4_address(&p, 0x1000);
	v4_atoms(&p, "N");
	gives(r, &p, "on:1000 el4/7/0 1000-1004/2:not 1008-1008/1:call "
	      "1020-1020/1:ret 100c-1010/2:ijump 1008-1008/1:call 1020-1020/1:ret "
	      "100c-1010/2:not 1008-1008/1:call 1020-1020/1:ret 100c-1010/2:ijump "
	      "1000-1004/2:not ", "returns by the stack");
	p.n = 0;
	begin_flow(&p);
	v4_address(&p, 0x1020);
	PUT(&p, 0xdb);		/* nothing is on it */
	v4_atoms(&p, "E");
	begin_flow(&p);
	v4_atoms(&p, "N");
	gives(r, &p, "on:1000 el4/7/0 gap4:0 on:1000 el4/7/0 1000-1004/2:not ",
	      "a stack that is empty");
}

/* More calls than the stack has room for: the oldest are forgotten. */
static void depth(void)
{
	struct packet_bytes p = { .n = 0 };
	char want[4096];
	size_t n = (size_t)snprintf(want, sizeof(want), "on:1000 el4/7/0 ");

	begin_flow(&p);
	for (int i = 0; i < 20; i++) {
		v4_address(&p, 0x1008);
		v4_atoms(&p, "E");
		n += (size_t)snprintf(want + n, sizeof(want) - n,
				      "1008-1008/1:call ");
	}
	for (int i = 0; i < 16; i++) {
		v4_atoms(&p, "EE");
		v4_address(&p, 0x1020);
		n += (size_t)snprintf(want + n, sizeof(want) - n,
				      "1020-1020/1:ret 100c-1010/2:ijump ");
	}
	v4_atoms(&p, "EE");
	snprintf(want + n, sizeof(want) - n, "1020-1020/1:ret gap4:1020 ");
	gives((struct registers){ AUX_ETM_V4, CID | RS, false }, &p, want,
	      "deeper than it is");
}

static void ahead(void)
{
	struct registers r = { AUX_ETM_V4, CID | TS, true };
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	v4_atoms(&p, "E");
	v4_time(&p, 500);
	v4_atoms(&p, "E");
	v4_time(&p, 510);
	v4_exception(&p, 2, 1, 0x1000);
	v4_context(&p, 1, 7);
	PUT(&p, 0x04);
	v4_context(&p, 0, 7);
	v4_address(&p, 0x1000);
	v4_exception(&p, 2, 1, 0x1000);
	v4_context(&p, 1, 7);
	v4_time(&p, 700);
	gives(r, &p, "on el4/7/0 t500+0 1000-1004/2:taken 1000-1004/2:taken t510+0 "
	      "async2:1000>0 el5/7/0 off on el4/7/0 t700+0 async2:1000>0 el5/7/0 ",
	      "a run's time before it");
	r.pull = false;
	gives(r, &p, "on:1000 el4/7/0 1000-1004/2:taken t500+0 1000-1004/2:taken "
	      "t510+0 async2:1000>0 el5/7/0 off on:1000 el4/7/0 "
	      "async2:1000>0 el5/7/0 t700+0 ", "a host that never switches");
}

static void sources(void)
{
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	PUT(&p, 0xb4, 0x02);	/* 1008: call */
	v4_time(&p, 4);
	PUT(&p, 0xb4, 0x08);	/* 1020: ret */
	v4_address(&p, 0x1014);
	PUT(&p, 0xb6, 0x0c, 0x08, 0, 0, 0xb0);	/* isb, and again */
	PUT(&p, 0xb8, 0, 0x28, 0, 0, 0, 0, 0, 0); /* no code */
	gives((struct registers){ AUX_ETM_ETE, CID | TS, false }, &p,
	      "on:1000 el4/7/0 1000-1008/3:call t4+0 1020-1020/1:ret "
	      "1014-1030/8:fall 1030-1030/1:fall gap2:5000 ",
	      "source addresses");
}

/* Code that is missing on the way to a return may have called: where atoms after it
 * run is not known, and is no contradiction. The library does not pop its stack at the
 * next source address: it cannot go on. */
static void return_past_hole(void)
{
	static const char *const atoms[] = { "N", "E", "NN" };
	struct registers r = { AUX_ETM_ETE, CID | RS, false };
	static struct fixture f;

	for (unsigned i = 0; i < 6; i++) {
		struct packet_bytes p = { .n = 0 };
		bool engine = i < 3;

		if (!engine && !has_reference())
			break;
		v4_sync(&p, false);
		PUT(&p, 0x04);
		v4_context(&p, 0, 7);
		v4_address(&p, 0xff0);
		PUT(&p, 0xb8, 0x08, 0x08, 0, 0, 0, 0, 0, 0); /* 1020: ret */
		v4_atoms(&p, atoms[i % 3]);
		PUT(&p, 0xb4, 0x01);	/* 1004: cbnz */
		v4_atoms(&p, "N");
		open_one(&f, engine ? "etm" : "opencsd", r);
		ok(run_exact(&f, p.b, p.n, 1000) == 0, "a return past a hole: ends");
		is_str(text(&f), engine ?
		       "on:ff0 el4/7/0 gap2:ff0 1020-1020/1:ret gap2:ff0 "
		       "1004-1004/1:taken 1000-1004/2:not " :
		       "on:ff0 el4/7/0 gap2:ff0 1020-1020/1:ret gap2:ff0 gap10:1020 ",
		       "a return past a hole, and atoms");
		f.ops->close(f.dec);
	}
}

/* Source addresses that the code, or the packets before, contradict. */
static void wrong_sources(void)
{
	struct registers r = { AUX_ETM_ETE, CID, false };
	struct packet_bytes p = { .n = 0 }, q = { .n = 0 };
	static struct fixture f;

	begin_flow(&p);
	PUT(&p, 0xb4, 0x08);	/* 1020: ret, to where? */
	PUT(&p, 0xb4, 0x02);
	begin_flow(&p);
	PUT(&p, 0xb4, 0x05);	/* 1014: nop */
	v4_atoms(&p, "N");
	begin_flow(&p);
	v4_atoms(&p, "E");
	gives(r, &p, "on:1000 el4/7/0 1000-1020/9:ret gap4:1020 on:1000 el4/7/0 "
	      "gap4:0 on:1000 el4/7/0 1000-1004/2:taken ", "wrong source addresses");

	begin_flow(&q);
	PUT(&q, 0xb4, 0x02, 0xb4, 0x08);	/* call, and return */
	PUT(&q, 0xb4, 0x04);
	v4_address(&q, 0x1020);
	PUT(&q, 0xb4, 0x08, 0xb4, 0x04);	/* with nothing to return to */
	r.configr |= RS;
	open_one(&f, "etm", r);
	ok(run_exact(&f, q.b, q.n, 16) == 0, "returns and source addresses");
	is_str(text(&f), "on:1000 el4/7/0 1000-1008/3:call 1020-1020/1:ret "
	       "100c-1010/2:ijump 1020-1020/1:ret gap4:1020 ",
	       "returns to source addresses");
	f.ops->close(f.dec);
	if (!has_reference())
		return;
	open_one(&f, "opencsd", r);
	run_exact(&f, q.b, q.n, 1000);
	is_str(text(&f), "on:1000 el4/7/0 1000-1008/3:call 1020-1020/1:ret "
	       "gap10:1020 ", "the reference knows no return to one");
	f.ops->close(f.dec);
}

/* The library read wildly there. */
static void top(void)
{
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	v4_address(&p, UINT64_MAX - 3);
	v4_atoms(&p, "E");
	PUT(&p, 0xb8, 0x7f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
	gives((struct registers){ AUX_ETM_ETE, CID, false }, &p,
	      "on:1000 el4/7/0 gap2:fffffffffffffffc "
	      "gap2:fffffffffffffffc ", "the last instruction of all");
}

/* Waypoints that fall through, and a system call behind one. */
static void waypoints(void)
{
	struct packet_bytes p = { .n = 0 };

	begin_flow(&p);
	v4_address(&p, 0x102c);
	v4_atoms(&p, "EEE");
	v4_address(&p, 0x1030);
	v4_atoms(&p, "E");
	v4_exception(&p, 2, 1, 0x1034);
	gives((struct registers){ AUX_ETM_V4, CID, false }, &p,
	      "on:1000 el4/7/0 102c-1030/2:fall 1034-1034/1:fall "
	      "1038-1038/1:jump 1030-1030/1:syscall async2:1034>0 ",
	      "isb and wfe");
}

#define ITE 0x09, 0x01, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0xf1

/* Instrumentation: its values are known wherever packets are, and the flow goes on. */
static void instrumentation(void)
{
	struct registers r = { AUX_ETM_ETE, CID | TS, false };
	struct packet_bytes p = { .n = 0 };

	put(&p, "\0\0\0\0\0\0\0\0\0\0\0\x80", 12);
	PUT(&p, ITE);			/* before Trace Info */
	begin_flow(&p);
	v4_atoms(&p, "E");
	PUT(&p, ITE);
	v4_atoms(&p, "EN");
	PUT(&p, ITE, ITE);
	v4_atoms(&p, "E");
	PUT(&p, 0x00, 0x05, ITE);	/* overflow */
	begin_flow(&p);
	v4_atoms(&p, "E");
	PUT(&p, ITE);
	ete_version = 0x47735a13;
	gives(r, &p, "p4:1=f123456789abcdef/8 on:1000 el4/7/0 1000-1004/2:taken "
	      "p4:1=f123456789abcdef/8 1000-1004/2:taken 1000-1004/2:not "
	      "p4:1=f123456789abcdef/8 p4:1=f123456789abcdef/8 "
	      "1008-1008/1:call gap1:1000 p4:1=f123456789abcdef/8 on:1000 el4/7/0 "
	      "1000-1004/2:taken p4:1=f123456789abcdef/8 ", "instrumentation");
	r.pull = true;
	p.n = 0;
	begin_flow(&p);
	PUT(&p, ITE);
	v4_atoms(&p, "E");
	v4_time(&p, 500);
	gives(r, &p, "on el4/7/0 t500+0 p4:1=f123456789abcdef/8 "
	      "1000-1004/2:taken ", "a timestamp behind instrumentation");
	r.pull = false;
	p.n -= 3;
	PUT(&p, 0x09, 0x01, 0xef);
	gives(r, &p, "on:1000 el4/7/0 p4:1=f123456789abcdef/8 1000-1004/2:taken "
	      "gap4:1004 ", "instrumentation that is cut");
	ete_version = 0x47725a13;
	gives(r, &p, "on:1000 el4/7/0 gap3:0 ", "ETE 1.2 has none");
	ete_version = 0;
}

int main(void)
{
	flow(AUX_ETM_V4);
	flow(AUX_ETM_ETE);
	addresses();
	atoms();
	cycles();
	gaps();
	lost_behind();
	stack();
	depth();
	ahead();
	sources();
	wrong_sources();
	return_past_hole();
	top();
	waypoints();
	instrumentation();
	return plan_done();
}
