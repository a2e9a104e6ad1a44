/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: capture */
/*
 * pt_encode: every packet it makes, read back by libipt's packet decoder.
 */
#include <stdlib.h>

#include <intel-pt.h>

#include "capture/soft/pt_encode.h"
#include "tests/unit/encoded.h"
#include "tests/unit/tap.h"

static uint8_t buf[4 * PT_GROUP_MAX];

static int take(void *ctx, const uint8_t *bytes, size_t n)
{
	(void)ctx;
	return keep_encoded(bytes, n);
}

static struct pt_encode_config conf = { .tsc = true, .branch = true };

static void start(struct pt_encoder *e)
{
	n_out = n_sunk = 0;
	pt_encode_init(e, &conf, buf, sizeof(buf), take, NULL);
	e->tsc = 1000;
}

/* All packets of out; returns their number, 0 when a byte is wrong. */
static size_t read_back(struct pt_encoder *e, struct pt_packet *p, size_t max)
{
	struct pt_packet_decoder *d;
	struct pt_config c;
	size_t n = 0;
	int err = 0;

	if (pt_encode_flush(e) || !n_out)
		return 0;
	pt_config_init(&c);
	c.begin = out;
	c.end = out + n_out;
	d = pt_pkt_alloc_decoder(&c);
	err = pt_pkt_sync_set(d, 0);
	while (err >= 0 && n < max) {
		err = pt_pkt_next(d, &p[n], sizeof(*p));
		n += err > 0;
	}
	pt_pkt_free_decoder(d);
	return err == -pte_eos ? n : 0;
}

static struct pt_packet pk[200000];

/* The packets' types, in order, ended by -1. */
static void is_types(struct pt_encoder *e, const char *what, const int *types)
{
	size_t i, n = read_back(e, pk, 1000);

	for (i = 0; types[i] >= 0; i++)
		if (i >= n || (int)pk[i].type != types[i])
			break;
	ok(types[i] < 0 && i == n, "%s: %zu packets", what, n);
	for (; types[i] >= 0 && i < n; i++)
		printf("#   %zu: type %d, want %d\n", i, pk[i].type, types[i]);
}

static void test_psb(void)
{
	static const int with_time[] = {
		ppt_psb, ppt_tsc, ppt_tma, ppt_cbr, ppt_mode, ppt_psbend,
		ppt_tip_pge, ppt_tip_pgd, ppt_tsc, ppt_tma, ppt_tip_pge,
		ppt_fup, ppt_tip_pgd, -1
	};
	static const int bare[] = { ppt_psb, ppt_cbr, ppt_mode, ppt_psbend,
				    ppt_tip_pge, -1 };
	struct pt_encoder e;

	conf.mtc = true;
	start(&e);
	pt_encode_enable(&e, 0x401000);
	pt_encode_disable(&e);
	e.tsc = 123456789;
	pt_encode_enable(&e, 0x401002);
	pt_encode_disable_async(&e, 0x401004);
	is_types(&e, "PSB+, PGE, PGD", with_time);
	ok(pk[1].payload.tsc.tsc == 1000 && pk[2].payload.tma.ctc == 25 &&
	   pk[2].payload.tma.fc == 0, "TSC 1000, TMA 25 and 0");
	ok(pk[9].payload.tma.ctc == (123456789 / 40 & 0xffff) &&
	   pk[9].payload.tma.fc == 123456789 % 40, "TSC and TMA agree");
	ok(pk[3].payload.cbr.ratio == PT_BUS_RATIO, "CBR");
	ok(pk[4].payload.mode.leaf == pt_mol_exec &&
	   pk[4].payload.mode.bits.exec.csl &&
	   !pk[4].payload.mode.bits.exec.csd, "MODE.Exec: 64 bit");
	ok(pk[6].payload.ip.ipc == pt_ipc_sext_48 &&
	   pk[6].payload.ip.ip == 0x401000, "the first IP is complete");
	ok(pk[7].payload.ip.ipc == pt_ipc_suppressed, "PGD without an IP");
	ok(pk[10].payload.ip.ipc == pt_ipc_update_16, "PGE after that: 16 bit");
	conf.mtc = conf.tsc = false;
	start(&e);
	pt_encode_enable(&e, 0x401000);
	is_types(&e, "PSB+ without time", bare);
	conf.tsc = true;
}

static void test_ip(void)
{
	static const struct {
		uint64_t from, to;
		enum pt_ip_compression ipc;
	} t[] = {
		{ 0x401000, 0x401000, pt_ipc_update_16 },
		{ 0x401000, 0x40ffff, pt_ipc_update_16 },
		{ 0x401000, 0x411000, pt_ipc_update_32 },
		{ 0x7f0000000000, 0x7f00ffffffff, pt_ipc_update_32 },
		{ 0x401000, 0x7f0000401000, pt_ipc_sext_48 },
		{ 0x401000, 0x7fffffffffff, pt_ipc_sext_48 },
		{ 0x401000, 0xffffffff81000000, pt_ipc_sext_48 },
		{ 0xffffffff81000000, 0x401000, pt_ipc_sext_48 },
		{ 0x401000, 0xff800000401000, pt_ipc_full },
		{ 0xff800000401000, 0xff810000401000, pt_ipc_update_48 },
	};
	struct pt_encoder e;
	size_t i, n;
	uint64_t ip;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		start(&e);
		pt_encode_enable(&e, t[i].from);
		pt_encode_tip(&e, t[i].to, false);
		n = read_back(&e, pk, 100);
		ip = pk[n - 1].payload.ip.ip;
		ok(n && pk[n - 1].type == ppt_tip &&
		   pk[n - 1].payload.ip.ipc == t[i].ipc &&
		   !((ip ^ t[i].to) & (t[i].ipc == pt_ipc_update_16 ? 0xffff :
				       t[i].ipc == pt_ipc_update_32 ?
				       0xffffffff : 0xffffffffffff)),
		   "%#jx after %#jx: IPBytes %d", (uintmax_t)t[i].to,
		   (uintmax_t)t[i].from, t[i].ipc);
	}
}

/* n bits, then a TIP: the same bits come back, in few packets. */
static void test_tnt(void)
{
	bool same = true;
	size_t i, j, n, bits;
	uint64_t want, got;
	struct pt_encoder e;

	for (i = 0; i <= PT_TNT_MAX; i++) {
		start(&e);
		pt_encode_enable(&e, 0x401000);
		want = got = 0;
		for (j = 0; j < i; j++) {
			bool bit = (i * 7 + j * j) % 3 == 0;

			want = want << 1 | bit;
			pt_encode_tnt(&e, bit);
		}
		pt_encode_tip(&e, 0x401234, false);
		n = read_back(&e, pk, 100);
		for (j = bits = 0; j < n; j++) {
			const struct pt_packet_tnt *t = &pk[j].payload.tnt;

			if (pk[j].type != ppt_tnt_8 && pk[j].type != ppt_tnt_64)
				continue;
			got = got << t->bit_size | t->payload;
			bits += t->bit_size;
		}
		same = same && n && got == want && bits == i &&
		       pk[n - 1].type == ppt_tip;
	}
	ok(same, "0 to %d TNT bits before a TIP", PT_TNT_MAX);
}

static void test_cyc(void)
{
	static const uint64_t steps[] = { 1, 31, 32, 4095, 4096, 1 << 19,
					  UINT64_C(1) << 40 };
	struct pt_encoder e;
	uint64_t sum = 0;
	size_t i, n;

	conf.cyc = true;
	start(&e);
	e.cyc_tsc = e.tsc;
	pt_encode_enable(&e, 0x401000);
	for (i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		e.tsc += steps[i];
		pt_encode_tip(&e, 0x401234, false);
	}
	n = read_back(&e, pk, 100);
	for (i = 0; i < n; i++)
		if (pk[i].type == ppt_cyc)
			sum += pk[i].payload.cyc.value;
	is_u64(sum, e.tsc - 1000, "CYC packets add up to the time");
	conf.cyc_thresh = 5;
	start(&e);
	e.cyc_tsc = e.tsc;
	pt_encode_enable(&e, 0x401000);
	e.tsc += 15;
	pt_encode_tip(&e, 0x401234, false);
	e.tsc += 1;
	pt_encode_tip(&e, 0x401234, false);
	n = read_back(&e, pk, 100);
	ok(n == 9 && pk[6].type == ppt_tip && pk[7].type == ppt_cyc &&
	   pk[7].payload.cyc.value == 16, "a CYC threshold of 16 cycles");
	conf.cyc = false;
	conf.cyc_thresh = 0;
}

static void test_mtc(void)
{
	struct pt_encoder e;
	uint8_t ctc = 0;
	bool in_step = true;
	size_t i, n, mtcs = 0;

	conf.mtc = true;
	conf.mtc_period = 3;
	start(&e);
	pt_encode_enable(&e, 0x401000);
	ctc = (uint8_t)(1000 / 320);
	for (i = 0; i < 1000; i++) {
		if (e.tsc + 100 >= e.event_tsc)
			pt_encode_time(&e, e.tsc + 100);
		e.tsc += 100;
	}
	n = read_back(&e, pk, 1000);
	for (i = 0; i < n; i++) {
		if (pk[i].type != ppt_mtc)
			continue;
		in_step = in_step && pk[i].payload.mtc.ctc == (uint8_t)++ctc;
		mtcs++;
	}
	ok(in_step && mtcs == 101000 / 320 - 1000 / 320,
	   "an MTC each 8 CTC ticks: %zu", mtcs);
	conf.mtc = false;
}

static void test_ptwrite_and_overflow(void)
{
	static const int types[] = {
		ppt_psb, ppt_tsc, ppt_cbr, ppt_mode, ppt_psbend, ppt_tip_pge,
		ppt_tnt_8, ppt_ptw, ppt_ptw, ppt_fup, ppt_ovf, ppt_fup,
		ppt_ovf, ppt_tsc, ppt_tip_pge, -1
	};
	struct pt_encoder e;

	start(&e);
	pt_encode_enable(&e, 0x401000);
	pt_encode_tnt(&e, true);
	pt_encode_ptwrite(&e, 0x401000, 0x1122334455667788, 4, false);
	pt_encode_ptwrite(&e, 0x401005, 0x1122334455667788, 8, true);
	pt_encode_overflow(&e, 0x401010, true);
	pt_encode_overflow(&e, 0x401010, false);
	ok(!e.on, "an overflow without an IP ends tracing");
	pt_encode_enable(&e, 0x401010);
	is_types(&e, "PTW and OVF", types);
	ok(pk[7].payload.ptw.payload == 0x55667788 && !pk[7].payload.ptw.ip &&
	   pk[7].payload.ptw.plc == 0, "PTW of 4 bytes");
	ok(pk[8].payload.ptw.payload == 0x1122334455667788 &&
	   pk[8].payload.ptw.ip && pk[8].payload.ptw.plc == 1,
	   "PTW of 8 bytes with FUP");
	ok(pk[11].payload.ip.ipc == pt_ipc_sext_48 &&
	   pk[14].payload.ip.ipc == pt_ipc_sext_48,
	   "complete IPs behind OVF");
}

static void test_ret(void)
{
	struct pt_encoder e;
	bool good = true;
	int i;

	start(&e);
	ok(!pt_encode_ret_pop(&e, 5), "no return address, no compression");
	for (i = 0; i < 100; i++)
		pt_encode_call(&e, 1000 + (uint64_t)i);
	for (i = 99; i >= 36; i--)
		good = good && pt_encode_ret_pop(&e, 1000 + (uint64_t)i);
	ok(good && !pt_encode_ret_pop(&e, 1035), "64 returns are remembered");
	pt_encode_call(&e, 1);
	pt_encode_call(&e, 2);
	ok(!pt_encode_ret_pop(&e, 1) && !pt_encode_ret_pop(&e, 1),
	   "a mismatch forgets all");
}

static void test_defer(void)
{
	static const int types[] = {
		ppt_psb, ppt_tsc, ppt_cbr, ppt_mode, ppt_psbend, ppt_tip_pge,
		ppt_tnt_8, ppt_tip, ppt_tip, ppt_tip, -1
	};
	struct pt_encoder e;

	conf.defer_tip = true;
	start(&e);
	pt_encode_enable(&e, 0x401000);
	pt_encode_tnt(&e, true);
	pt_encode_tip(&e, 0x401010, true);
	pt_encode_tnt(&e, false);
	pt_encode_tip(&e, 0x411010, true);
	pt_encode_tnt(&e, true);
	pt_encode_tip(&e, 0x411011, false);
	is_types(&e, "deferred TIPs", types);
	ok(pk[6].payload.tnt.bit_size == 3 && pk[6].payload.tnt.payload == 5,
	   "three bits in one TNT");
	conf.defer_tip = false;
}

/* Much of everything: the sink sees whole packets, PSB+ come on time. */
static void test_periods(void)
{
	struct pt_encoder e;
	size_t i, n, off = 0, last = 0, psbs = 0;
	bool on_time = true;

	conf.psb_period = 1;
	conf.mtc = conf.cyc = true;
	start(&e);
	pt_encode_enable(&e, 0x401000);
	for (i = 0; i < 60000; i++) {
		uint64_t ip = 0x401000 + i * i % 65536 * 4096;

		e.tsc += 17;
		if (i % 3)
			pt_encode_tnt(&e, i & 4);
		else
			pt_encode_tip(&e, ip, true);
		if (e.tsc >= e.event_tsc)
			pt_encode_time(&e, e.tsc);
		if (e.pos >= e.limit)
			pt_encode_checkpoint(&e, ip);
	}
	pt_encode_disable(&e);
	n = read_back(&e, pk, sizeof(pk) / sizeof(*pk));
	for (i = 0; i < n; off += pk[i++].size) {
		if (pk[i].type != ppt_psb)
			continue;
		on_time = on_time && (!psbs || (off - last >= 4096 &&
						off - last < 4096 + 100));
		last = off;
		psbs++;
	}
	ok(n && on_time && psbs > 20 && n_sunk > 20,
	   "%zu packets, %zu PSBs, in %zu pieces", n, psbs, n_sunk);
}

int main(void)
{
	test_psb();
	test_ip();
	test_tnt();
	test_cyc();
	test_mtc();
	test_ptwrite_and_overflow();
	test_ret();
	test_defer();
	test_periods();
	return plan_done();
}
