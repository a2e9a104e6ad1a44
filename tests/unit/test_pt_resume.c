/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Where the Intel PT engine goes on after missing code, and after code that
 * contradicts the trace: packets made by hand, and noise.
 */
#include "tests/unit/test_pt.h"

#define GAP_NO_CODE "gap2:"
#define GAP_LOST_CALL "gap16:"
#define GAP_DESYNC "gap4:"

/* A flow up to a return to 5000, where there is no code. */
#define PIECE "1000-1002/2:cond " GAP_LOST_CALL "1002 "
#define LOST "on:1000 1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret " \
	     GAP_NO_CODE "5000 "

static void put_lost(struct pt *p)
{
	*p = (struct pt){ .n = 0 };
	pt_psb(p, 0, 0x1000);
	pt_tnt(p, "N");
	pt_tip(p, 0x5000);
}

/* TIP with the low two bytes of its IP */
static void pt_short_tip(struct pt *p, uint16_t ip)
{
	pt_u8(p, 0x2d);
	pt_bytes(p, &ip, 2);
}

/* PTWRITE with its IP to come */
static void pt_ptw_ip(struct pt *p, uint32_t value)
{
	pt_bytes(p, "\x02\x92", 2);
	pt_bytes(p, &value, 4);
}

static void flows(const struct pt *p, uint64_t end_ip, const char *expected,
		  const char *what)
{
	static struct fixture f;

	for (int paths = 0; paths < 2; paths++) {
		begin(&f, "pt", paths);
		f.host.sync_only = 0;
		ok(run(&f, p, end_ip), "%s: ends", what);
		is_str(text(&f), expected, what);
		f.ops->close(f.dec);
	}
}

static void branches(void)
{
	struct pt p;

	put_lost(&p);
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	flows(&p, 0, LOST "on:1009 1009-1009/1:syscall off ", "at a TIP");

	put_lost(&p);
	pt_tip(&p, 0x5100);
	pt_short_tip(&p, 0x5200);
	pt_short_tip(&p, 0x1009);
	pt_pgd(&p);
	flows(&p, 0, LOST "on:1009 1009-1009/1:syscall off ",
	      "one gap for all that has no code; IPs are known meanwhile");

	put_lost(&p);
	pt_tnt(&p, "TNTTNN");
	pt_tip(&p, 0x1009);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	flows(&p, 0, LOST "on:1009 1009-1009/1:syscall " PIECE
	      "on:1000 1000-1002/2:taken ",
	      "at TIPs after a full TNT to a branch that its bits may belong to");

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_tip(&p, 0x1009);
	pt_mode64(&p);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ",
	      "MODE.Exec says that the TNTs are complete");
}

/* A TNT that is not full, its TIPs, and what forced them out. */
static void partial_tnts(void)
{
	static const struct {
		const char *bits, *forced;	/* after the TIPs */
		size_t n;
		const char *what;
	} ambiguous[] = {
		{ "T", "\x59\x07", 2, "MTC" },
		{ "TNTTN", "\x02\x03\x21\x00", 4, "CBR" },
		{ "TN", "\x00", 1, "PAD" },
	};
	bool shown;
	struct pt p;

	put_lost(&p);
	pt_tnt(&p, "TNTTN");
	pt_tip(&p, 0x1009);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1009 1009-1009/1:syscall 1000-1002/2:not ",
	      "at the last TIP between a partial TNT and another");

	put_lost(&p);
	pt_tnt(&p, "NT");
	pt_bytes(&p, "\x13", 1);	/* CYC */
	pt_tip(&p, 0x1000);
	pt_bytes(&p, "\x1b", 1);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ",
	      "CYC goes with a packet and forces nothing out");

	for (size_t i = 0; i < sizeof(ambiguous) / sizeof(ambiguous[0]); i++) {
		for (int before = 0; before < 2; before++) {
			put_lost(&p);
			pt_tnt(&p, ambiguous[i].bits);
			if (before)
				pt_bytes(&p, ambiguous[i].forced, ambiguous[i].n);
			pt_tip(&p, 0x1000);
			if (!before)
				pt_bytes(&p, ambiguous[i].forced, ambiguous[i].n);
			pt_tnt(&p, "N");
			pt_psb(&p, 0, 0x1000);
			pt_tnt(&p, "T");
			/* a CBR might be of an interrupt on the way */
			shown = before || strcmp(ambiguous[i].what, "CBR");
			flows(&p, 0, shown ?
			      LOST "on:1000 " PIECE "on:1000 1000-1002/2:taken " :
			      LOST "on:1000 1000-1002/2:taken ",
			      ambiguous[i].what);
		}
	}

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_tip(&p, 0x1000);
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	flows(&p, 0, LOST "on:1000 1000-1002/2:taken ",
	      "not where nothing shows what forced the TNT out");

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_tip(&p, 0x5100);
	pt_tnt(&p, "TNTTNN");
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	flows(&p, 0, LOST "on:1000 " PIECE "on:1000 1000-1002/2:taken ",
	      "the latest TNT counts");
}

static void events(void)
{
	struct pt p;

	put_lost(&p);
	pt_tnt(&p, "TTN");
	pt_pgd(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ", "at a TIP.PGE");

	put_lost(&p);
	pt_tnt(&p, "TTN");
	pt_pgd(&p);
	pt_pge(&p, 0x6000);
	pt_tnt(&p, "T");
	pt_pgd(&p);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ",
	      "not at one where there is no code, but at the next");

	put_lost(&p);
	pt_tnt(&p, "TTN");
	pt_fup(&p, 0x5004);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ", "where an interrupt leads");

	put_lost(&p);
	pt_fup(&p, 0x5004);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not ",
	      "... also of the one on the way to which the code is missing");

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_ptw_ip(&p, 7);
	pt_fup(&p, 0x1016);
	pt_bytes(&p, "\x02\x43\x00\x10\0\0\0\0", 8);	/* mov cr3 */
	flows(&p, 0, LOST "on:1016 1016-1016/1:fall k8.0:1016,7 "
	      "101a-101a/1:fall k6.0:10000,0 ", "at a PTWRITE with its IP");

	put_lost(&p);
	pt_ptw_ip(&p, 7);
	pt_fup(&p, 0x1016);
	pt_fup(&p, 0x101d);
	pt_pgd(&p);
	flows(&p, 0, LOST "on:1016 1016-1016/1:fall k8.0:1016,7 "
	      "101a-101a/1:fall async:101d-0 off ",
	      "... also at the one on the way to which the code is missing");

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_bytes(&p, "\x99\x21", 2);	/* a transaction begins */
	pt_fup(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "k7.0:1000,0 on:1000 1000-1002/2:not! ",
	      "at the begin of a transaction");

	put_lost(&p);
	pt_tnt(&p, "T");
	pt_ovf(&p);
	pt_fup(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "gap1:1000 1000-1002/2:not ", "at an overflow");
}

/* Where code and trace contradict each other, the trace may be wrong. */
static void contradictions(void)
{
	struct pt p = { .n = 0 };

	pt_psb(&p, 0, 0x1009);	/* syscall */
	pt_tnt(&p, "T");
	pt_mode64(&p);
	pt_short_tip(&p, 0x1000);
	pt_mode64(&p);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, "on:1009 " GAP_DESYNC "1009 on:1000 1000-1002/2:not ",
	      "after a contradiction: only at a whole IP");

	p.n = 0;
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "N");	/* leads to a ret */
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "N");	/* no ret is not taken */
	flows(&p, 0, "on:1000 1000-1002/2:not " GAP_DESYNC "1004 on:1000 "
	      "1000-1002/2:not ",
	      "at a PSB that the code does not lead to");
}

static void returns(void)
{
	struct pt p;

	put_lost(&p);
	pt_tip(&p, 0x1028);	/* a call, its return, a jump, a loop, a call, */
	pt_tnt(&p, "TNT");
	pt_tip(&p, 0x1010);	/* and a return to before the gap */
	pt_tnt(&p, "T");
	pt_fup(&p, 0x5000);
	pt_tip(&p, 0x100b);
	pt_tip(&p, 0x1009);
	flows(&p, 0, LOST "on:1028 1028-1028/1:call 1010-1010/1:ret "
	      "102d-102d/1:jump 1000-1002/2:not 1004-1004/1:call "
	      "1010-1010/1:ret 1009-1009/1:syscall 1010-1010/1:ret "
	      "gap16:1010 on:100b 100b-100c/2:ijump ",
	      "a return to a call that the gap hides");
}

static void ends(void)
{
	struct pt p;

	put_lost(&p);
	pt_tnt(&p, "T");
	flows(&p, 0x1000, LOST, "lost at the end");

	put_lost(&p);
	pt_tip(&p, 0x100b);
	pt_tip(&p, 0x1000);
	flows(&p, 0x1002, LOST "on:100b 100b-100c/2:ijump 1000-1000/1:fall ",
	      "goes on to the end ip");

	put_lost(&p);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_tip(&p, 0x5000);
	pt_pgd(&p);
	pt_bytes(&p, "\x99\x00", 2);	/* 16 bit */
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "N");
	flows(&p, 0, LOST "on:1000 1000-1002/2:not 1004-1004/1:call "
	      "1010-1010/1:ret " GAP_NO_CODE "5000 on:1000 gap10:1000 "
	      "on:1000 1000-1002/2:not ",
	      "what only libipt decodes is not left to it then");

	put_lost(&p);
	pt_ptw_ip(&p, 7);
	pt_fup(&p, 0x2015);	/* the last byte: no instruction */
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	flows(&p, 0, LOST "on:2015 gap4:2015 on:1009 1009-1009/1:syscall off ",
	      "no instruction where the flow goes on");
}

static uint64_t seed = 11;

static uint32_t draw(uint32_t n)
{
	seed = seed * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

static void put_some(struct pt *p)
{
	static const uint16_t ips[] = { 0x1000, 0x1014, 0x100b, 0x5000, 0x2008 };

	pt_psb(p, 50, 0x1000);
	for (int i = 0; i < 30; i++) {
		switch (draw(8)) {
		case 0: pt_tnt(p, "TN"); break;
		case 1: pt_tnt(p, "T"); break;
		case 2: pt_tip(p, ips[draw(5)]); break;
		case 3: pt_short_tip(p, ips[draw(5)]); break;
		case 4: pt_pgd(p); pt_pge(p, ips[draw(5)]); break;
		case 5: pt_fup(p, ips[draw(5)]); pt_tip(p, ips[draw(5)]); break;
		case 6: pt_ptw_ip(p, i); pt_fup(p, ips[draw(5)]); break;
		case 7: pt_ovf(p); pt_fup(p, ips[draw(5)]); break;
		}
	}
}

/* Trace that hardly fits the code: it ends, in order, at code that is there; and
 * the same whether as PATHs or not, in large batches or small ones. */
static void noise(void)
{
	static struct fixture f, g;
	bool fine = true, same = true;
	unsigned n_on = 0;

	begin(&f, "pt", true);
	begin(&g, "pt", false);
	f.host.sync_only = g.host.sync_only = 0;
	for (int i = 0; i < 5000; i++) {
		struct pt p = { .n = 0 };
		uint64_t last = 0;

		put_some(&p);
		put_some(&p);
		for (int k = draw(3); k > 0; k--)
			p.b[draw((uint32_t)p.n)] = (uint8_t)draw(256);
		fine &= run_in(&f, p.b, p.n, 0, 64) || f.rc == -AUX_E_UNSUPPORTED;
		fine &= run_in(&g, p.b, p.n, 0, 16) || g.rc == -AUX_E_UNSUPPORTED;
		same &= f.rc == g.rc && (f.rc || same_flow(&f, &g));
		for (size_t k = 0; k < f.n; k++) {
			fine &= f.ev[k].offset >= last &&
				f.ev[k].offset <= 100 + p.n;
			last = f.ev[k].offset;
			fine &= f.ev[k].kind != AUX_FLOW_RANGE ||
				(is_code(f.ev[k].range.first) &&
				 is_code(f.ev[k].range.last));
			n_on += f.ev[k].kind == AUX_FLOW_TRACE_ON;
		}
	}
	ok(fine, "5000 traces that hardly fit: they end, offsets in order");
	ok(same, "as PATHs and in small batches, too");
	ok(n_on > 20000, "most of them go on before a PSB: %u", n_on);
	f.ops->close(f.dec);
	g.ops->close(g.dec);
}

int main(void)
{
	branches();
	partial_tnts();
	events();
	contradictions();
	returns();
	ends();
	noise();
	return plan_done();
}
