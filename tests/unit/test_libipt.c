/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: decode */
/*
 * The libipt decoder against packets made by hand, and against noise.
 */
#include "tests/unit/libipt_version.h"
#include "tests/unit/test_pt.h"

static void flow(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f, "libipt", false);
	put_small_flow(&p);
	ok(run(&f, &p, 0), "ends");
	is_str(text(&f),
	       "t50 on:1000 1000-1002/2:taken 1000-1002/2:taken "
	       "1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	       "1009-1009/1:syscall off t60 on:100b 100b-100c/2:ijump "
	       "1000-1000/1:fall async:1002-0 off ", "the flow");
	ok(f.n > 2 && f.ev[2].flags == 2, "size of the last instruction");
	f.ops->close(f.dec);
}

static void horizon(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };
	struct aux_chunk c = { .size = sizeof(c) };
	int rc;

	begin(&f, "libipt", false);
	pt_psb(&p, 50, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x100b);
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	pt_tsc(&p, 70);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	c.data = p.b;
	c.len = p.n;
	f.host.horizon_tsc = 0;
	f.ops->start(f.dec, &c);
	rc = f.ops->decode(f.dec, f.ev, 16);
	ok(rc == 1 && f.ev[0].kind == AUX_FLOW_TIME && !f.asked,
	   "returns at the first TIME, before it asks for code");
	f.host.horizon_tsc = 70;
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 2 && f.ev[rc - 1].kind == AUX_FLOW_TIME &&
	   f.ev[rc - 1].time.tsc == 70, "and at the one that reaches it");
	f.asked = 0;
	f.host.horizon_tsc = UINT64_MAX;
	f.host.generation = 2;
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 0 && f.ev[0].kind == AUX_FLOW_TRACE_ON && f.asked,
	   "a new generation asks for code again");
	is_u64(f.ops->decode(f.dec, f.ev, 64), 0, "the end");
	p.n = 0;
	pt_psb(&p, 500, 0x5000);
	pt_tnt(&p, "T");
	pt_psb(&p, 100, 0x1000);
	pt_tnt(&p, "T");
	c.len = p.n;
	f.ops->start(f.dec, &c);
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 2 && f.ev[rc - 1].kind == AUX_FLOW_TIME &&
	   f.ev[rc - 1].time.tsc == 100, "and where time goes back");
	f.ops->close(f.dec);
}

static void gaps(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f, "libipt", false);
	put_losses(&p);
	pt_u8(&p, 0xff);
	pt_u8(&p, 0xff);
	pt_psb(&p, 0, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x1009);
	pt_pgd(&p);
	ok(run(&f, &p, 0), "ends");
	/* 2.0 reads ahead and stops at what is no packet before the TIP's target */
	is_str(text(&f),
	       is_libipt_v21() ?
	       "on:1000 1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	       "gap2:5000 on:1000 1000-1002/2:cond gap1:100b "
	       "100b-100c/2:ijump 1009-1009/1:syscall off gap3:1009 on:1009 "
	       "1009-1009/1:syscall off " :
	       "on:1000 1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	       "gap2:5000 on:1000 1000-1002/2:cond gap1:100b "
	       "100b-100c/2:ijump gap3:100c on:1009 1009-1009/1:syscall off ",
	       "each loss is told, flow resumes");
	f.ops->close(f.dec);
}

static void ends(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f, "libipt", false);
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	ok(run(&f, &p, 0), "ends");
	is_str(text(&f), "on:1000 1000-1002/2:cond ",
	       "nothing is walked behind the last packet");
	ok(run(&f, &p, 0x1002), "with an end ip");
	is_str(text(&f), "on:1000 1000-1002/2:taken 1000-1000/1:fall ",
	       "walked to there");
	ok(run(&f, &p, 0x1011), "with one that cannot be reached");
	ok(f.n && f.ev[f.n - 1].kind == AUX_FLOW_GAP, "a gap");
	p.n = 0;
	pt_psb(&p, 0, 0x1012);
	pt_fup(&p, 0x1009);
	pt_pgd(&p);
	ok(run(&f, &p, 0), "an endless loop that the trace does not end");
	is_str(text(&f), "on:1012 gap4:1012 ", "none of its rounds is shown");
	f.ops->close(f.dec);
}

/* Broken trace ends, keeps its offsets in order, and never invents code. */
static void noise(void)
{
	struct fixture f;
	struct pt good = { .n = 0 }, p;
	uint64_t seed = 7;
	bool fine = true;

	begin(&f, "libipt", false);
	for (int i = 0; i < 6; i++) {
		pt_psb(&good, 50 + (uint64_t)i, 0x1000);
		pt_tnt(&good, "TTTTN");
		pt_tip(&good, 0x1009);
		pt_pgd(&good);
		pt_pge(&good, 0x100b);
		pt_tip(&good, 0x1000);
		pt_tnt(&good, "TT");
	}
	for (int i = 0; fine && i < 3000; i++) {
		uint64_t last = 0;

		p = good;
		for (int j = 0; j < 1 + i % 5; j++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			p.b[(seed >> 33) % p.n] = (uint8_t)(seed >> 20);
		}
		fine &= run_in(&f, p.b, p.n - (seed >> 40) % 16, 0, 16);
		for (size_t j = 0; j < f.n; j++) {
			const struct aux_flow *e = &f.ev[j];

			fine &= e->offset >= last && e->offset >= 100 &&
				e->offset <= 100 + p.n;
			last = e->offset;
			if (e->kind == AUX_FLOW_RANGE)
				fine &= e->n && is_code(e->range.first) &&
					e->range.first <= e->range.last &&
					is_code(e->range.last);
		}
	}
	ok(fine, "3000 broken traces");
	f.ops->close(f.dec);
}

int main(void)
{
	flow();
	horizon();
	gaps();
	ends();
	noise();
	return plan_done();
}
