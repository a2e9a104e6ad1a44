/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT: pauses of tracing, from TIP.PGD to TIP.PGE, with what comes while tracing is
 * off: the engine looks at such a pause as a whole. Here each is also cut at each byte,
 * and broken at each byte, against libipt.
 */
/* links: decode */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/test_pt.h"

/* The decoder's state has the name that packets have here. */
#define pt pt_decoder
#include "decode/lib/pt/impl.h"
#undef pt

static bool have_libipt(void)
{
	return decoders_find("libipt", 0, NULL);
}

static void put_pad(struct pt *p, unsigned n)
{
	while (n--)
		pt_u8(p, 0);
}

static void put_pgd_to(struct pt *p, uint64_t ip)
{
	pt_ip(p, 0x01, ip);
}

static void put_pip(struct pt *p)
{
	pt_bytes(p, "\x02\x43\x00\x91\xc8\x48\x00\x00", 8);
}

static void put_cbr(struct pt *p)
{
	pt_bytes(p, "\x02\x03\x26\x00", 4);
}

/* A PSB+ while tracing is off: TSX, PIP, VMCS and CBR in it, no IP. */
static void put_psb_off(struct pt *p)
{
	for (int i = 0; i < 8; i++)
		pt_bytes(p, "\x02\x82", 2);
	pt_bytes(p, "\x99\x20", 2);
	put_pad(p, 3);
	put_pip(p);
	pt_bytes(p, "\x02\xc8\x00\xe0\x56\x3b\x00", 7);
	put_cbr(p);
	pt_bytes(p, "\x02\x23", 2);
}

/* The ways into a pause: a far branch, a TIP.PGD with an IP at an indirect branch, at a
 * conditional one, at a direct call whose target is filtered, and to another region. */
static void put_pauses(struct pt *p)
{
	pt_psb(p, 50, 0x1000);
	pt_tnt(p, "TTN");
	pt_tip(p, 0x1009);
	put_pad(p, 3);
	pt_pgd(p);
	put_pad(p, 2);
	pt_mode64(p);
	pt_pge(p, 0x100b);
	put_pgd_to(p, 0x7000);
	put_pad(p, 9);
	pt_pge(p, 0x1000);
	pt_tnt(p, "T");
	put_pgd_to(p, 0x1004);
	put_pip(p);
	put_psb_off(p);
	put_pad(p, 4);
	put_psb_off(p);
	pt_mode64(p);
	pt_pge(p, 0x1028);
	put_pgd_to(p, 0x1010);
	put_cbr(p);
	put_cbr(p);
	pt_pge(p, 0x102f);
	pt_tip(p, 0x1004);
	pt_tip(p, 0x1009);
	pt_pgd(p);
	pt_tsc(p, 60);
	put_cbr(p);
	put_psb_off(p);
	pt_pge(p, 0x102f);
	put_pgd_to(p, 0x2000);
	pt_pge(p, 0x1000);
	put_pgd_to(p, 0x1000);
	pt_pge(p, 0x100b);
	pt_fup(p, 0x100c);
	pt_pgd(p);
	pt_pge(p, 0x100c);
	pt_tip(p, 0x1000);
	pt_tnt(p, "TTTN");
}

static void whole(void)
{
	static struct fixture f, ref;
	struct pt p = { .n = 0 };

	put_pauses(&p);
	for (int paths = 0; paths < 3; paths++) {
		begin(&f, "pt", paths);
		f.host.paths = paths;
		ok(run(&f, &p, 0), "pauses: ends");
		is_str(text(&f),
		       "t50 on:1000 1000-1002/2:taken 1000-1002/2:taken "
		       "1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
		       "1009-1009/1:syscall off on:100b 100b-100c/2:ijump off "
		       "on:1000 1000-1002/2:taken 1000-1002/2:not off "
		       "k6.0:48c891000,0 k6.0:48c891000,0 "
		       "k6.0:48c891000,3b56e000000 k9.5:0,26 "
		       "k6.0:48c891000,3b56e000000 k6.0:48c891000,3b56e000000 "
		       "k9.5:0,26 on:1028 1028-1028/1:call off k9.5:0,26 "
		       "k9.5:0,26 on:102f 102f-102f/1:jump 2000-2001/2:ret "
		       "1004-1004/1:call 1010-1010/1:ret 1009-1009/1:syscall "
		       "off t60 k9.5:0,26 k6.0:48c891000,3b56e000000 "
		       "k6.0:48c891000,3b56e000000 k9.5:0,26 on:102f "
		       "102f-102f/1:jump off on:1000 off on:100b "
		       "100b-100b/1:fall async:100c-0 off on:100c "
		       "100c-100c/1:ijump 1000-1002/2:taken 1000-1002/2:taken "
		       "1000-1002/2:taken 1000-1002/2:not ", "pauses");
		if (have_libipt()) {
			begin(&ref, "libipt", false);
			ok(run(&ref, &p, 0) && same_flow(&ref, &f),
			   "pauses: as libipt has them");
			ref.ops->close(ref.dec);
		}
		f.ops->close(f.dec);
	}
}

/* Is the flow of these bytes that of a decoder that looks ahead at each item? */
static bool is_same(struct fixture *f, struct fixture *ref, const uint8_t *b,
		    size_t n)
{
	if (run_in(f, b, n, 0, 64) != run_in(ref, b, n, 0, 64) ||
	    f->rc != ref->rc || f->n != ref->n)
		return false;
	for (size_t i = 0; i < f->n; i++)
		if (!same_event(&f->ev[i], &ref->ev[i]) ||
		    f->ev[i].offset != ref->ev[i].offset)
			return false;
	return true;
}

static void put_mtc(struct pt *p, uint8_t ctc)
{
	pt_u8(p, 0x59);
	pt_u8(p, ctc);
}

static void put_cyc(struct pt *p, unsigned n)
{
	pt_u8(p, (uint8_t)(n << 3 | 3));
}

/* Packets of time in all places of a pause. The long loop before it is where timing
 * becomes lazy. */
static void put_timed_pauses(struct pt *p)
{
	pt_psb(p, 50, 0x1000);
	pt_bytes(p, "\x02\x73\x05\x00\x00\x00\x00", 7);	/* TMA */
	for (uint8_t i = 0; i < 40; i++) {
		put_cyc(p, 7);
		pt_tnt(p, "TTTTT");
		put_mtc(p, i);
	}
	for (uint8_t i = 40; i < 44; i++) {
		pt_tnt(p, "N");
		pt_tip(p, 0x1009);
		put_cyc(p, 3);
		pt_pgd(p);
		put_mtc(p, i);
		put_pip(p);
		put_cyc(p, 9);
		pt_mode64(p);
		put_cyc(p, 1);
		put_pad(p, 2);
		put_mtc(p, (uint8_t)(i + 1));
		pt_pge(p, 0x1000);
		put_cyc(p, 2);
		pt_tnt(p, "T");
	}
	pt_tnt(p, "N");
	pt_tip(p, 0x1009);
	pt_pgd(p);
	put_mtc(p, 45);
	put_cbr(p);
	pt_tsc(p, 5000);
	put_psb_off(p);
	pt_tsc(p, 6000);
	pt_mode64(p);
	put_cyc(p, 30);
	pt_pge(p, 0x1000);
	pt_tnt(p, "TTTN");
	pt_tip(p, 0x1009);
	pt_pgd(p);
	put_psb_off(p);
	pt_tsc(p, 5500);	/* goes back */
	pt_pge(p, 0x1000);
	pt_tnt(p, "TTTN");
	pt_tip(p, 0x1009);
}

/* The same flow and TIMEs, by the state in which packets are looked at one by one. */
static void timed(void)
{
	static const uint64_t steps[] = { 0, 100, UINT64_MAX };
	static const uint64_t horizons[] = { 5200, 5999, UINT64_MAX };
	static struct fixture f, ref;
	unsigned differ = 0, n_runs = 0;
	struct pt p = { .n = 0 };

	put_timed_pauses(&p);
	for (unsigned i = 0; i < 3 * 3 * 3; i++) {
		begin(&f, "pt", i % 3);
		f.config.pt.tsc_ctc_ratio_n = f.config.pt.tsc_ctc_ratio_d = 4;
		f.config.pt.max_nonturbo_ratio = 38;
		f.config.pt.mtc_period = 3;
		begin(&ref, "pt", i % 3);
		ref.config = f.config;
		f.host.paths = ref.host.paths = i % 3;
		f.host.time_step = ref.host.time_step = steps[i / 3 % 3];
		f.host.horizon_tsc = ref.host.horizon_tsc = horizons[i / 9];
		((struct pt_decoder *)f.dec)->min_periods = 1;
		((struct pt_decoder *)ref.dec)->no_checks = true;
		for (size_t n = 1; n <= p.n; n++, n_runs++)
			differ += !is_same(&f, &ref, p.b, n);
		ref.ops->close(ref.dec);
		f.ops->close(f.dec);
	}
	ok(n_runs > 8000, "packets of time in pauses: %u runs", n_runs);
	is_u64(differ, 0, "packets of time in pauses: as without checks");
}

/* A PSB+ while tracing is off that may be like the one before. */
static void put_psb_like(struct pt *p, uint8_t tsx, uint8_t cr3, uint8_t vmcs)
{
	for (int i = 0; i < 8; i++)
		pt_bytes(p, "\x02\x82", 2);
	pt_u8(p, 0x99);
	pt_u8(p, tsx);
	put_pad(p, 2);
	pt_bytes(p, "\x02\x43", 2);
	pt_u8(p, cr3);
	pt_bytes(p, "\x91\xc8\x48\x00\x00", 5);
	pt_bytes(p, "\x02\xc8", 2);
	pt_u8(p, vmcs);
	pt_bytes(p, "\xe0\x56\x3b\x00", 4);
	put_cbr(p);
	pt_bytes(p, "\x02\x23", 2);
}

/* The same PSB+ again and again, changed ones between them, and what else comes while
 * tracing is off. Without a TSC, and after one. */
static void put_runs(struct pt *p, bool tx)
{
	static const struct { uint8_t tsx, cr3, vmcs; unsigned n, pads; } runs[] = {
		{ 0x20, 0, 0, 3, 0 }, { 0x20, 0, 2, 1, 5 }, { 0x20, 0, 0, 2, 1 },
		{ 0x21, 0, 0, 3, 9 }, { 0x20, 2, 4, 9, 0 }, { 0x22, 2, 4, 2, 3 },
		{ 0x20, 4, 4, 2, 0 },
	};

	pt_psb(p, 50, 0x1000);
	for (int turn = 0; turn < 2; turn++) {
		pt_tnt(p, "TTN");
		pt_tip(p, 0x1009);
		pt_pgd(p);
		put_pip(p);
		for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
			for (unsigned k = 0; k < runs[i].n; k++) {
				put_psb_like(p, tx ? runs[i].tsx : 0x20,
					     runs[i].cr3, runs[i].vmcs);
				put_pad(p, runs[i].pads);
			}
			if (i == 3)
				put_cbr(p);
			if (i == 4 && turn)
				pt_tsc(p, 70);
		}
		pt_mode64(p);
		pt_pge(p, 0x1000);
	}
	pt_tnt(p, "TTTN");
	pt_tip(p, 0x1009);
}

static void put_repeats(struct pt *p)
{
	put_runs(p, false);
}

/* In transactions, which begin and end where nobody looks. */
static void put_tx_repeats(struct pt *p)
{
	put_runs(p, true);
}

static void repeated(void)
{
	static struct fixture f, ref;
	struct pt p = { .n = 0 };

	put_repeats(&p);
	for (int paths = 0; have_libipt() && paths < 3; paths++) {
		begin(&f, "pt", paths);
		f.host.paths = paths;
		begin(&ref, "libipt", false);
		ok(run(&f, &p, 0) && run(&ref, &p, 0) && same_flow(&ref, &f),
		   "the same PSB+ again: as libipt has it");
		ref.ops->close(ref.dec);
		f.ops->close(f.dec);
	}
}

static void broken(void (*put)(struct pt *p), const char *what)
{
	static const uint8_t flips[] = { 0x01, 0x02, 0x04, 0x10, 0x20, 0x40, 0x80, 0xff };
	static struct fixture f, ref;
	unsigned cut = 0, flip = 0, n_flips = 0;
	struct pt p = { .n = 0 };

	put(&p);
	for (int paths = 0; paths < 3; paths++) {
		begin(&f, "pt", paths);
		begin(&ref, "pt", paths);
		f.host.paths = ref.host.paths = paths;
		((struct pt_decoder *)ref.dec)->no_checks = true;
		for (size_t n = 1; n <= p.n; n++)
			cut += !is_same(&f, &ref, p.b, n);
		for (size_t i = 0; i < 8 * p.n; i++) {
			p.b[i / 8] ^= flips[i % 8];
			flip += !is_same(&f, &ref, p.b, p.n);
			p.b[i / 8] ^= flips[i % 8];
			n_flips++;
		}
		ref.ops->close(ref.dec);
		f.ops->close(f.dec);
	}
	ok(!cut, "%s, cut at each byte: as without checks (%u differ)", what, cut);
	ok(!flip, "%s, each byte changed: as without checks (%u differ)", what, flip);
	ok(n_flips > 8000, "%s: %u changed", what, n_flips);
}

/* On Skylake an OVF may lack its FUP: not where tracing was off. */
static void overflow(void)
{
	static struct fixture f, ref;
	struct pt p = { .n = 0 };

	pt_psb(&p, 50, 0x1000);
	pt_tnt(&p, "T");
	pt_ovf(&p);
	put_pad(&p, 6);
	put_psb_off(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x100b);
	pt_tip(&p, 0x1000);
	pt_tnt(&p, "TN");
	pt_ovf(&p);
	put_pip(&p);
	pt_mode64(&p);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "TTN");
	begin(&f, "pt", true);
	f.ops->close(f.dec);
	f.config.pt.cpu_intel = 1;
	f.config.pt.cpu_family = 6;
	f.config.pt.cpu_model = 0x5e;
	if (f.ops->open(&f.dec, &f.config, &f.host, NULL) < 0)
		abort();
	ok(run(&f, &p, 0), "an OVF of Skylake: ends, %d", f.rc);
	if (have_libipt()) {
		begin(&ref, "libipt", false);
		ref.ops->close(ref.dec);
		ref.config = f.config;
		if (ref.ops->open(&ref.dec, &ref.config, &ref.host, NULL) < 0)
			abort();
		ok(run(&ref, &p, 0) && same_flow(&ref, &f),
		   "an OVF of Skylake: as libipt has it");
		ref.ops->close(ref.dec);
	}
	f.ops->close(f.dec);
}

int main(void)
{
	whole();
	broken(put_pauses, "pauses");
	repeated();
	broken(put_tx_repeats, "the same PSB+");
	timed();
	overflow();
	return plan_done();
}
