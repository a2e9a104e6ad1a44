/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * The OpenCSD decoder on broken trace: it ends, its offsets never go back, it shows only
 * code that exists, and batches of any size give the same events. Also STM.
 */
#include "tests/unit/opencsd_fixture.h"
#include "tests/unit/tap.h"

#define N_ROUNDS 400

/* table: A64 of test_opencsd.c */
static const uint32_t a64[] = {
	0xd503201f, 0xb5ffffe0, 0x94000006, 0xd4000001, 0xd61f0020, 0xd503201f,
	0xd503201f, 0x14000000, 0xd65f03c0, 0xd63f0020, 0xd69f03e0, 0xd503201f,
};

static void configure(struct fixture *f, unsigned arch)
{
	struct aux_etm_config *etm = &f->config.etm;

	begin(f, arch);
	etm->etmcr = 0x1000c000;
	etm->etmidr = arch == AUX_ETM_V3 ? 0x410cf250 : 0x411cf312;
	etm->etmccer = arch == AUX_ETM_V3 ? 0x344008f2 : 0x34c01ac2;
	etm->trcconfigr = 0x1840;
	etm->trcidr0 = 0x28000ea1;
	etm->trcidr1 = arch == AUX_ETM_V4 ? 0x4100f403 : 0x4100fff0;
	etm->trcidr2 = 0x488;
	etm->trcdevarch = 0x47705a13;
	if (arch == AUX_ETM_ETE) {	/* one that looks ahead */
		etm->ts_is_clock = 1;
		f->host.horizon_tsc = 0;
		f->host.context_switches = 1;
	}
	start_decoder(f);
	add_area(f, 0x1000, a64, sizeof(a64));
}

static void make_v4(struct packet_bytes *p)
{
	for (unsigned i = 0; i < 6; i++) {
		v4_sync(p, false);
		PUT(p, 0x04);
		v4_context(p, i & 1, 7 + i);
		v4_address(p, 0x1000);
		v4_atoms(p, "EENEE");
		v4_time(p, 900 + 10 * i);
		v4_address(p, 0x1010);
		v4_exception(p, 14, 1, 0x1010);
		v4_address(p, 0x1024);
		v4_atoms(p, "E");
		PUT(p, 0x95, 0x04, 0xdb, 0x71, 0x96, 0x04, 0xf9);
	}
}

static void make_v7(struct packet_bytes *p, unsigned arch)
{
	for (unsigned i = 0; i < 6; i++) {
		v7_sync(p);
		if (arch == AUX_ETM_V3)
			PUT(p, 0x08, 1, 0, 0, 0, 0x21, 0x00, 0x10, 0, 0);
		else
			PUT(p, 0x08, 0x00, 0x10, 0, 0, 0x21, 1, 0, 0, 0);
		PUT(p, 0x84, 0x88, 0x84);
		v7_time(p, 900 + 10 * i);
		v7_context(p, i);
		PUT(p, 0x85, 0x20, 0x86, 0x8b, 0x20, 0x84);
	}
}

static bool is_sane(const struct fixture *f, size_t len)
{
	uint64_t last = 100;

	for (size_t i = 0; i < f->n; i++) {
		const struct aux_flow *e = &f->ev[i];

		if (e->offset < last || e->offset > 100 + len)
			return false;
		last = e->offset;
		if (e->kind == AUX_FLOW_RANGE &&
		    (!e->n || e->range.first < 0x1000 ||
		     e->range.first > e->range.last ||
		     e->range.last >= 0x1000 + sizeof(a64)))
			return false;
	}
	return true;
}

static void noise(unsigned arch, const char *name)
{
	static struct fixture f, g;
	struct packet_bytes good = { .n = 0 }, p;
	uint64_t seed = 7 + arch;
	bool fine = true, same = true;

	configure(&f, arch);
	configure(&g, arch);
	if (arch == AUX_ETM_V4 || arch == AUX_ETM_ETE)
		make_v4(&good);
	else
		make_v7(&good, arch);
	for (int i = 0; fine && i < N_ROUNDS; i++) {
		p = good;
		for (int j = 0; j < 1 + i % 5; j++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			p.b[(seed >> 33) % p.n] = (uint8_t)(seed >> 20);
		}
		p.n -= (seed >> 40) % 16;
		fine &= run(&f, p.b, p.n, 1024) && is_sane(&f, p.n);
		same &= run(&g, p.b, p.n, 16) && f.n == g.n &&
			!memcmp(f.ev, g.ev, f.n * sizeof(f.ev[0]));
	}
	ok(fine, "%s: %d broken traces", name, N_ROUNDS);
	ok(same, "and nothing depends on the size of a batch");
	f.ops->close(f.dec);
	g.ops->close(g.dec);
}

/* Packets as in the recorded trace that OpenCSD comes with, by hand. */
static void stm(void)
{
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	begin(&f, AUX_ETM_STM);
	f.config.etm.stmtcsr = 0x00100005;
	start_decoder(&f);
	/* A-Sync, version 3, master 0x40, channel 0x480 */
	PUT(&p, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	    0x0f, 0x0f, 0x30, 0x10, 0x04, 0x3f, 0x40, 0x08);
	/* D32M 0x01021010, padding; D32 0x15; D32 0xffffff00 */
	PUT(&p, 0xaf, 0x10, 0x20, 0x01, 0x01, 0x06, 0x00, 0x00, 0x10, 0x65);
	PUT(&p, 0xff, 0xff, 0xff, 0x00);
	ok(run(&f, p.b, p.n, 64), "ends");
	is_str(text(&f), "p3:4000000480=1021010/4 p1:4000000480=15/4 "
	       "p1:4000000480=ffffff00/4 ", "what the program gave");
	f.ops->close(f.dec);
}

/* What would take the library a time that grows with the square of the length. */
static void floods(void)
{
	static uint8_t zeros[1 << 22], events[1 << 20];
	struct fixture f;
	struct packet_bytes p = { .n = 0 };

	configure(&f, AUX_ETM_PTM);
	ok(run(&f, zeros, sizeof(zeros), 64) && !f.n, "PTM: 4 MiB of zeros");
	f.ops->close(f.dec);
	configure(&f, AUX_ETM_V4);
	v4_sync(&p, false);
	memset(events, 0x71, sizeof(events));
	memcpy(events, p.b, p.n);
	ok(run(&f, events, sizeof(events), 64) && f.n &&
	   f.ev[f.n - 1].kind == AUX_FLOW_GAP &&
	   f.ev[f.n - 1].what == AUX_GAP_DECODER,
	   "ETMv4: a million packets and no atom");
	f.ops->close(f.dec);
}

int main(void)
{
	floods();
	noise(AUX_ETM_V4, "ETMv4");
	noise(AUX_ETM_ETE, "ETE");
	noise(AUX_ETM_V3, "ETMv3");
	noise(AUX_ETM_PTM, "PTM");
	stm();
	return plan_done();
}
