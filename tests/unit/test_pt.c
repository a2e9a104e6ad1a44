/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The Intel PT engine: packets made by hand, and noise, side by side with libipt
 * where that is built in.
 */
#include "tests/unit/test_pt.h"
#include "tests/unit/libipt_version.h"

static bool have_libipt(void)
{
	return decoders_find("libipt", 0, NULL);
}

static bool has_gap(const struct fixture *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->ev[i].kind == AUX_FLOW_GAP)
			return true;
	return false;
}

/* Is all that f has but gaps and TIMEs in ref too, in that order? The last one
 * before a gap may be missing: how sure of it each is depends on the error that it
 * met. */
static bool is_part(const struct fixture *ref, const struct fixture *f)
{
	size_t at = 0;

	for (size_t i = 0; i < f->n; i++) {
		bool last = i + 1 < f->n && f->ev[i + 1].kind == AUX_FLOW_GAP;
		size_t k = at;

		if (f->ev[i].kind == AUX_FLOW_GAP || f->ev[i].kind == AUX_FLOW_TIME)
			continue;
		while (k < ref->n && (!last || k == at) &&
		       !same_event(&ref->ev[k], &f->ev[i]))
			k++;
		if (k < ref->n && same_event(&ref->ev[k], &f->ev[i]))
			at = k + 1;
		else if (!last)
			return false;
	}
	return true;
}

/* Does libipt say the same? From 2.1 on it reads no further ahead than it needs: it
 * shows more before an error, and resumes at a PSB that 2.0, and so pt, has passed. */
static bool agrees(const struct fixture *ref, const struct fixture *f)
{
	return same_flow(ref, f) ||
	       (is_libipt_v21() && has_gap(ref) && has_gap(f) && is_part(ref, f));
}

/* The same from both, and what is expected. NULL: whatever libipt says. */
static void both(const struct pt *p, uint64_t end_ip, const char *expected,
		 const char *what)
{
	static struct fixture f, ref;

	for (int paths = 0; paths < 2; paths++) {
		begin(&f, "pt", paths);
		ok(run(&f, p, end_ip), "%s: ends", what);
		if (expected)
			is_str(text(&f), expected, what);
		if (have_libipt()) {
			begin(&ref, "libipt", false);
			ok(run(&ref, p, end_ip) && agrees(&ref, &f),
			   "%s: as libipt has it", what);
			ref.ops->close(ref.dec);
		}
		f.ops->close(f.dec);
	}
}

static void flow(void)
{
	struct pt p = { .n = 0 };

	put_small_flow(&p);
	both(&p, 0,
	     "t50 on:1000 1000-1002/2:taken 1000-1002/2:taken 1000-1002/2:not "
	     "1004-1004/1:call 1010-1010/1:ret 1009-1009/1:syscall off t60 "
	     "on:100b 100b-100c/2:ijump 1000-1000/1:fall async:1002-0 off ",
	     "the flow");
}

static void returns(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "NT");	/* the return is a bit */
	pt_tip(&p, 0x1014);	/* the syscall */
	pt_tip(&p, 0x2000);	/* an indirect call: returns to 1016 */
	pt_tnt(&p, "TTTTNT");
	pt_tip(&p, 0x1028);
	pt_tnt(&p, "TNT");	/* inside, another call returns */
	both(&p, 0,
	     "on:1000 1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	     "1009-1009/1:syscall 1014-1014/1:icall 2000-2001/2:ret "
	     "1016-101d/3:jump 1021-1021/1:call 1026-1026/1:taken "
	     "1000-1002/2:taken 1000-1002/2:taken 1000-1002/2:not "
	     "1004-1004/1:call 1010-1010/1:ret 1009-1009/1:syscall "
	     "1028-1028/1:call 1010-1010/1:ret 102d-102d/1:jump "
	     "1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret ",
	     "compressed returns");
	p.n = 0;
	pt_psb(&p, 0, 0x1010);
	pt_tnt(&p, "T");
	both(&p, 0, "on:1010 gap4:1010 ", "a return without its call");
}

static void deferred(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x100b);
	pt_tnt(&p, "TTNT");	/* the bits of what comes behind the jump */
	pt_tip(&p, 0x1000);
	pt_tip(&p, 0x1009);
	both(&p, 0,
	     "on:100b 100b-100c/2:ijump 1000-1002/2:taken 1000-1002/2:taken "
	     "1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	     "1009-1009/1:syscall ", "a deferred TIP");
}

static void long_tnt(void)
{
	struct pt p = { .n = 0 };
	uint64_t bits = (UINT64_C(1) << 47) - 1;
	static struct fixture f;

	pt_psb(&p, 0, 0x1000);
	pt_bytes(&p, "\x02\xa3", 2);
	pt_bytes(&p, &bits, 6);	/* 46 times taken */
	pt_tnt(&p, "N");
	both(&p, 0, NULL, "a long TNT");
	begin(&f, "pt", true);
	run(&f, &p, 0);
	is_u64(f.n, 1 + 46 + 1, "all its bits");
	f.ops->close(f.dec);
}

static void regions(void)
{
	struct pt p = { .n = 0 };
	static struct fixture f;
	struct aux_chunk c = { .size = sizeof(c), .data = p.b };
	struct aux_flow out[64];
	int rc;

	pt_psb(&p, 50, 0x102f);
	pt_tip(&p, 0x1000);	/* the return behind the jump to 2000 */
	pt_tnt(&p, "N");
	pt_tip(&p, 0x2002);
	pt_tnt(&p, "TN");
	pt_tip(&p, 0x1034);
	pt_tnt(&p, "T");
	both(&p, 0, NULL, "from one region into another");

	p.n = 0;
	pt_psb(&p, 50, 0x2000);
	pt_tip(&p, 0x2000);
	pt_tsc(&p, 60);
	pt_tip(&p, 0x2000);
	c.len = p.n;
	begin(&f, "pt", true);
	f.moved = 2;
	f.host.horizon_tsc = 60;
	f.ops->start(f.dec, &c);
	do
		rc = f.ops->decode(f.dec, out, 64);
	while (rc > 0 && (out[rc - 1].kind != AUX_FLOW_TIME ||
			  out[rc - 1].time.tsc != 60));
	ok(rc > 0, "returns at the horizon");
	f.host.generation = 2;
	f.host.horizon_tsc = UINT64_MAX;
	rc = f.ops->decode(f.dec, out, 64);
	ok(rc == 1 && out[0].kind == AUX_FLOW_GAP &&
	   out[0].what == AUX_GAP_NO_CODE && out[0].gap.ip == 0x2000,
	   "code that is gone is asked for again");
	f.ops->close(f.dec);
}

/* A path that leads through two regions holds where both are mapped, and no longer. */
static void across(void)
{
	static const uint64_t generations[] = { 1, 1, 2, 1, 4, 4, 1, 2, 4, 3, 1 };
#define THERE "t50 on:1000 1000-1002/2:taken 1000-1002/2:not 1004-1004/1:call "	\
	      "1010-1010/1:ret 102f-102f/1:jump "
	static const char *const flows[] = {
		[1] = THERE "2000-2001/2:ret 1000-1002/2:taken ",
		[2] = THERE "gap2:2000 ",
		[3] = THERE "2000-2001/2:ret 1000-1002/2:taken ",
		[4] = THERE "2000-2002/3:ret 1000-1002/2:taken ",
	};
	static struct fixture f;
	struct pt p = { .n = 0 };

	pt_psb(&p, 50, 0x1000);
	pt_tnt(&p, "TN");
	pt_bytes(&p, "\x2d\x2f\x10", 3);	/* TIPs of 16 bits, for the fast path */
	pt_bytes(&p, "\x2d\x00\x10", 3);
	pt_tnt(&p, "T");
	for (int i = 0; i < 32; i++)
		pt_u8(&p, 0);	/* the last packets are left to the slow path */
	for (int paths = 0; paths < 3; paths++) {
		begin(&f, "pt", paths);
		f.host.paths = paths;
		f.moved = 2;
		f.other = 4;
		for (size_t i = 0; i < sizeof(generations) / sizeof(*generations);
		     i++) {
			f.host.generation = generations[i];
			run(&f, &p, 0);
			is_str(text(&f), flows[generations[i]],
			       "through two regions");
		}
		f.ops->close(f.dec);
	}
}

static void events(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 50, 0x1014);
	pt_bytes(&p, "\x99\x21", 2);	/* a transaction begins at 1014 */
	pt_fup(&p, 0x1014);
	pt_tip(&p, 0x1016);
	pt_bytes(&p, "\x02\x12\x01\x02\x03\x04", 6);	/* ptwrite */
	pt_bytes(&p, "\x02\x43\x00\x10\0\0\0\0", 8);	/* mov cr3 */
	pt_bytes(&p, "\x99\x22", 2);	/* it aborts */
	pt_fup(&p, 0x101f);
	pt_tip(&p, 0x1000);
	both(&p, 0, NULL, "TSX, ptwrite, a new CR3");
	p.n = 0;
	pt_psb(&p, 50, 0x1000);
	pt_fup(&p, 0x1002);	/* an interrupt, with CR3 and VMCS */
	pt_bytes(&p, "\x02\x43\x00\x20\0\0\0\0", 8);
	pt_bytes(&p, "\x02\xc8\x01\x02\x03\x04\x05", 7);
	pt_tip(&p, 0x1028);
	pt_bytes(&p, "\x02\xe2", 2);	/* EXSTOP */
	pt_fup(&p, 0x1010);
	pt_bytes(&p, "\x02\x03\x0a\0", 4);	/* CBR */
	pt_ovf(&p);
	pt_fup(&p, 0x2002);
	pt_tnt(&p, "T");
	pt_ovf(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x1009);
	pt_pgd(&p);
	both(&p, 0, NULL, "interrupts, power, overflows");
}

/* Packets and instructions that libipt 2.0 does not know. */
static void newer(void)
{
	struct pt p = { .n = 0 };
	static struct fixture f;

	pt_psb(&p, 0, 0x1000);
	pt_bytes(&p, "\x02\x13\x01\x20", 4);	/* CFE, interrupt 32 */
	pt_fup(&p, 0x1002);
	pt_tip(&p, 0x200b);
	pt_tip(&p, 0x1000);			/* the JMPABS */
	pt_bytes(&p, "\x02\x53\x01\1\2\3\4\5\6\7\x08", 11);	/* EVD */
	pt_bytes(&p, "\x02\x63\x84", 3);	/* a block of PEBS items */
	pt_bytes(&p, "\x04\1\2\3\4\x0c\1\2\3\4", 10);
	pt_bytes(&p, "\x02\x33", 2);
	pt_tnt(&p, "TN");
	begin(&f, "pt", true);
	ok(run(&f, &p, 0), "newer packets: end");
	is_str(text(&f),
	       "on:1000 1000-1000/1:fall k10.1:1002,20 async:1002-200b "
	       "200b-200b/1:ijump k10.1:0,807060504030201 1000-1002/2:taken "
	       "1000-1002/2:not ", "CFE, EVD, BIP, JMPABS");
	f.ops->close(f.dec);
}

/* Values of the program alone (branch=0): each has the time of the last MTC or CYC,
 * that of no TSC long ago. */
static void timed_values(void)
{
	struct pt p = { .n = 0 };
	static struct fixture f;

	pt_psb(&p, 0, 0);
	pt_tsc(&p, 1000000);
	pt_bytes(&p, "\x02\x73\0\0\0\0\0", 7);	/* TMA */
	pt_bytes(&p, "\x02\x03\x14\0", 4);	/* CBR: a tick is a cycle */
	pt_u8(&p, 31 << 3 | 3);			/* CYC */
	pt_bytes(&p, "\x02\x12\1\0\0\0", 6);
	pt_bytes(&p, "\x59\x01", 2);		/* MTC: 320 ticks */
	pt_bytes(&p, "\x02\x92\2\0\0\0", 6);	/* with its IP */
	pt_fup(&p, 0x1016);
	pt_u8(&p, 31 << 3 | 3);			/* CYC */
	pt_bytes(&p, "\x02\xa2\0\0\0\0\0", 7);	/* PWRX */
	pt_bytes(&p, "\x59\x02", 2);
	pt_bytes(&p, "\x02\x12\3\0\0\0", 6);
	begin(&f, "pt", true);
	f.config.pt = (struct aux_pt_config){
		.mtc_period = 3, .max_nonturbo_ratio = 20,
		.tsc_ctc_ratio_n = 40, .tsc_ctc_ratio_d = 1 };
	ok(run(&f, &p, 0), "values: end");
	is_str(text(&f),
	       "t1000000 k9.5:0,14 t1000031 k8.0:0,1 t1000320 k8.0:1016,2 "
	       "t1000351 k9.3:0,0 t1000640 k8.0:0,3 ",
	       "values and power events at their times");
	f.ops->close(f.dec);
}

static void ends(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	both(&p, 0, "on:1000 1000-1002/2:taken ",
	     "nothing is walked behind the last packet");
	both(&p, 0x1002, "on:1000 1000-1002/2:taken 1000-1000/1:fall ",
	     "with an end ip: walked to there");
	both(&p, 0x1011, NULL, "with one that cannot be reached");
	pt_tsc(&p, 2000);
	both(&p, 0x1002, "on:1000 1000-1002/2:taken t2000 1000-1000/1:fall ",
	     "behind a time, which is told before");
	p.n = 0;
	pt_psb(&p, 0, 0x1012);
	pt_fup(&p, 0x1009);
	pt_pgd(&p);
	both(&p, 0, "on:1012 gap4:1012 ", "an endless loop");
	p.n = 0;
	pt_psb(&p, 0, 0x1012);
	pt_tnt(&p, "T");
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	both(&p, 0, "on:1012 gap4:1012 on:1000 1000-1002/2:taken ",
	     "one in front of a TNT");
}

static void gaps(void)
{
	struct pt p = { .n = 0 };

	put_losses(&p);
	pt_psb(&p, 0, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x1009);
	pt_pgd(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "TTTTN");	/* not taken by libipt: look what follows */
	pt_u8(&p, 0xff);
	pt_u8(&p, 0xd5);
	both(&p, 0, NULL, "each loss is told, flow resumes");
}

static uint64_t seed = 7;

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

/* Trace that fits the code, over and over, with some bytes of it changed. */
static void noise(void)
{
	static struct fixture f, ref;
	struct pt good = { .n = 0 }, p;
	unsigned n_same = 0, n_ref = 0;
	bool fine = true;

	begin(&f, "pt", true);
	if (have_libipt())
		begin(&ref, "libipt", false);
	for (unsigned i = 0; i < 6; i++) {
		pt_psb(&good, 50 + i, 0x1000);
		pt_tnt(&good, "TTTTN");
		pt_tip(&good, 0x1009);
		pt_pgd(&good);
		pt_mode64(&good);
		pt_pge(&good, 0x100b);
		pt_tip(&good, 0x1014);
		pt_tip(&good, 0x2000);
		pt_tnt(&good, "TTTNTT");
	}
	for (int i = 0; i < 3000; i++) {
		uint64_t last = 0;
		size_t len;

		p = good;
		for (int k = draw(4); k >= 0; k--)
			p.b[draw((uint32_t)p.n)] = (uint8_t)draw(256);
		len = p.n - draw(16);
		f.host.paths = draw(3);
		fine &= run_in(&f, p.b, len, 0, draw(2) ? 16 : 64) ||
			f.rc == -AUX_E_UNSUPPORTED;
		for (size_t k = 0; k < f.n; k++) {
			fine &= f.ev[k].offset >= last &&
				f.ev[k].offset <= 100 + p.n;
			last = f.ev[k].offset;
		}
		if (!ref.dec || f.rc < 0)
			continue;
		n_ref++;
		run_in(&ref, p.b, len, 0, 64);
		n_same += agrees(&ref, &f);
	}
	ok(fine, "3000 broken traces: they end, offsets in order");
	if (!ref.dec) {
		skip("built without libipt");
		f.ops->close(f.dec);
		return;
	}
	/* But for packets that libipt does not know; and where pt meets a wrong
	 * packet and libipt 2.1 a contradiction before it, only pt keeps the last
	 * branches. */
	ok(n_ref && n_same + (is_libipt_v21() ? 10 : 5) >= n_ref,
	   "%u of %u as libipt has them", n_same, n_ref);
	f.ops->close(f.dec);
	ref.ops->close(ref.dec);
}

/* A loop, with a CYC before each TNT, and MTCs of 200 periods of 320 ticks. */
static void make_loop(struct pt *p)
{
	pt_psb(p, 0, 0x1000);
	pt_tsc(p, 1000000);
	pt_bytes(p, "\x02\x73\0\0\0\0\0", 7);	/* TMA */
	pt_bytes(p, "\x02\x03\x14\0", 4);	/* CBR: a tick is a cycle */
	for (unsigned ctc = 0; p->n < sizeof(p->b) - 32; ctc += 200) {
		pt_u8(p, 0x59);
		pt_u8(p, (uint8_t)ctc);
		for (unsigned i = 0; i < 8; i++) {
			pt_u8(p, 31 << 3 | 3);
			pt_tnt(p, i & 1 ? "TT" : "T");
		}
	}
}

/* The loop where nobody asks for times, up to a horizon, which is told behind so many
 * batches. Returns how many there are. */
static unsigned run_to(struct fixture *f, const struct pt *p, bool paths,
		       uint64_t horizon, unsigned late)
{
	struct aux_chunk c = { .size = sizeof(c), .data = p->b, .len = p->n };
	struct aux_flow out[32];
	unsigned n = 0;

	begin(f, "pt", paths);
	f->config.pt = (struct aux_pt_config){
		.mtc_period = 3, .max_nonturbo_ratio = 20,
		.tsc_ctc_ratio_n = 40, .tsc_ctc_ratio_d = 1 };
	f->host.time_step = UINT64_MAX;
	f->host.horizon_tsc = late ? UINT64_MAX : horizon;
	f->ops->start(f->dec, &c);
	while ((f->rc = f->ops->decode(f->dec, out, 32)) > 0) {
		for (int k = 0; k < f->rc; k++)
			keep(f, &out[k]);
		if (++n >= late)
			f->host.horizon_tsc = horizon;
	}
	f->ops->close(f->dec);
	return n;
}

static bool same_place(const struct fixture *a, const struct fixture *b)
{
	bool same = a->n == b->n;

	for (size_t k = 0; same && k < a->n; k++)
		same = a->ev[k].kind == b->ev[k].kind &&
		       a->ev[k].range.first == b->ev[k].range.first &&
		       a->ev[k].range.last == b->ev[k].range.last;
	return same;
}

/* Where packets of time are skipped the horizon is met where it would be. */
static void far_horizons(void)
{
	static struct fixture all, some;
	struct pt p = { .n = 0 };
	const uint64_t begins = 1000000, ends = 15200000;	/* of the loop */
	const uint64_t before = 220000;		/* a batch */
	unsigned n_same[2] = { 0 }, n_met = 0, n = 0, n_batches;

	make_loop(&p);
	n_batches = run_to(&some, &p, true, UINT64_MAX, 0);
	for (uint64_t h = begins + 500000; h < ends; h += 150001) {
		unsigned n_times = 0;

		run_to(&all, &p, false, h, 0);
		for (unsigned late = 0; late < 2; late++) {
			run_to(&some, &p, true, h,
			       (unsigned)(late * n_batches * (h - begins - before) /
					  (ends - begins)));
			n_same[late] += same_place(&all, &some);
		}
		for (size_t k = 0; k < all.n; k++)
			n_times += all.ev[k].kind == AUX_FLOW_TIME;
		n_met += n_times > 1;
		n++;
	}
	ok(n_same[0] == n && n_met > n / 2, "horizons are met at the same places: "
	   "%u of %u, %u met", n_same[0], n, n_met);
	ok(n_same[1] == n, "and those that are told late: %u", n_same[1]);
}

int main(void)
{
	flow();
	returns();
	deferred();
	long_tnt();
	regions();
	across();
	events();
	newer();
	timed_values();
	ends();
	far_horizons();
	gaps();
	noise();
	return plan_done();
}
