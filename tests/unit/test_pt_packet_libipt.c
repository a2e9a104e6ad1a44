/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: decode */
/*
 * ptpkt against libipt's packet decoder, on random bytes and on every Intel PT
 * stream of the corpus.
 */
#include <glob.h>
#include <stdlib.h>

#include <aux/decoder.h>
#include <aux/reader.h>

#include "decode/lib/packet/packet.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#ifdef HAVE_IPT
#include <intel-pt.h>

static bool same_ip(const struct ptpkt *a, const struct pt_packet *b)
{
	return a->count == b->payload.ip.ipc && a->payload == b->payload.ip.ip;
}

/* PWRE.HW is bit 7 in the SDM and in perf; libipt 2.0.5 looks at bit 3. */
static bool same_power(const struct ptpkt *a, const struct pt_packet *b)
{
	switch (b->type) {
	case ppt_exstop:
		return a->type == PTPKT_EXSTOP &&
		       a->flags == b->payload.exstop.ip;
	case ppt_mwait:
		return a->type == PTPKT_MWAIT &&
		       a->payload == b->payload.mwait.hints &&
		       a->payload2 == b->payload.mwait.ext;
	case ppt_pwre:
		return a->type == PTPKT_PWRE &&
		       a->payload == b->payload.pwre.state &&
		       a->payload2 == b->payload.pwre.sub_state;
	case ppt_pwrx:
		return a->type == PTPKT_PWRX &&
		       a->payload == b->payload.pwrx.last &&
		       a->payload2 == b->payload.pwrx.deepest &&
		       (a->flags & 1) == b->payload.pwrx.interrupt &&
		       (a->flags >> 2 & 1) == b->payload.pwrx.store &&
		       (a->flags >> 3 & 1) == b->payload.pwrx.autonomous;
	case ppt_ptw:
		return a->type == PTPKT_PTW &&
		       a->payload == b->payload.ptw.payload &&
		       a->count == pt_ptw_size(b->payload.ptw.plc) &&
		       a->flags == b->payload.ptw.ip;
	default:
		return false;
	}
}

static bool same_time(const struct ptpkt *a, const struct pt_packet *b)
{
	switch (b->type) {
	case ppt_cbr:
		return a->type == PTPKT_CBR &&
		       a->payload == b->payload.cbr.ratio;
	case ppt_tsc:
		return a->type == PTPKT_TSC && a->payload == b->payload.tsc.tsc;
	case ppt_tma:
		return a->type == PTPKT_TMA &&
		       a->payload == b->payload.tma.ctc &&
		       a->payload2 == b->payload.tma.fc;
	case ppt_mtc:
		return a->type == PTPKT_MTC && a->payload == b->payload.mtc.ctc;
	case ppt_cyc:
		return a->type == PTPKT_CYC &&
		       a->payload == b->payload.cyc.value;
	default:
		return same_power(a, b);
	}
}

static bool same_mode(const struct ptpkt *a, const struct pt_packet *b)
{
	if (b->payload.mode.leaf == pt_mol_exec)
		return a->type == PTPKT_MODE_EXEC &&
		       (a->flags & 1) == b->payload.mode.bits.exec.csl &&
		       (a->flags >> 1 & 1) == b->payload.mode.bits.exec.csd;
	return a->type == PTPKT_MODE_TSX &&
	       (a->flags & 1) == b->payload.mode.bits.tsx.intx &&
	       (a->flags >> 1 & 1) == b->payload.mode.bits.tsx.abrt;
}

static bool same_packet(const struct ptpkt *a, const struct pt_packet *b)
{
	switch (b->type) {
	case ppt_pad:
		return a->type == PTPKT_PAD;
	case ppt_psb:
		return a->type == PTPKT_PSB;
	case ppt_psbend:
		return a->type == PTPKT_PSBEND;
	case ppt_ovf:
		return a->type == PTPKT_OVF;
	case ppt_stop:
		return a->type == PTPKT_TRACESTOP;
	case ppt_fup:
		return a->type == PTPKT_FUP && same_ip(a, b);
	case ppt_tip:
		return a->type == PTPKT_TIP && same_ip(a, b);
	case ppt_tip_pge:
		return a->type == PTPKT_TIP_PGE && same_ip(a, b);
	case ppt_tip_pgd:
		return a->type == PTPKT_TIP_PGD && same_ip(a, b);
	case ppt_tnt_8:
	case ppt_tnt_64:
		return a->type == PTPKT_TNT &&
		       a->count == b->payload.tnt.bit_size &&
		       a->payload == b->payload.tnt.payload;
	case ppt_mode:
		return same_mode(a, b);
	case ppt_pip:
		return a->type == PTPKT_PIP &&
		       a->payload == b->payload.pip.cr3 &&
		       a->flags == b->payload.pip.nr;
	case ppt_vmcs:
		return a->type == PTPKT_VMCS &&
		       a->payload == b->payload.vmcs.base;
	case ppt_mnt:
		return a->type == PTPKT_MNT &&
		       a->payload == b->payload.mnt.payload;
	default:
		return same_time(a, b);
	}
}

#if LIBIPT_VERSION >= 0x201
/* Event trace, known from 2.1 on. */
static bool same_event(const struct ptpkt *a, const struct pt_packet *b)
{
	if (b->type == ppt_cfe)
		return a->type == PTPKT_CFE && a->count == b->payload.cfe.type &&
		       a->payload == b->payload.cfe.vector &&
		       a->flags == b->payload.cfe.ip;
	if (b->type == ppt_evd)
		/* its type has six bits, of which libipt reads five */
		return a->type == PTPKT_EVD &&
		       (a->count & 0x1f) == b->payload.evd.type &&
		       a->payload == b->payload.evd.payload;
#if LIBIPT_VERSION >= 0x202
	if (b->type == ppt_trig)
		return a->type == PTPKT_TRIG && a->count == b->payload.trig.trbv &&
		       a->flags == (b->payload.trig.ip | b->payload.trig.icntv << 1 |
				    b->payload.trig.mult << 2) &&
		       (!b->payload.trig.icntv || a->payload == b->payload.trig.icnt);
#endif
	return same_packet(a, b);
}
#else
#define same_event same_packet
#endif

/* Packets that one libipt or another does not know. */
static bool is_newer(const struct ptpkt *a)
{
	return a->type == PTPKT_BBP || a->type == PTPKT_BEP ||
	       a->type == PTPKT_CFE || a->type == PTPKT_EVD ||
	       a->type == PTPKT_TRIG;
}

struct diff {
	uint64_t n_same, n_newer, n_bad, n_cut, n_wrong;
	uint64_t first_wrong;
};

/* Compares the packet at each position: at = +1, or packet by packet. */
static void compare(uint8_t *data, size_t len, bool every, struct diff *d)
{
	struct pt_packet_decoder *dec;
	struct pt_config config;
	struct pt_packet want;
	struct ptpkt got;

	pt_config_init(&config);
	config.begin = data;
	config.end = data + len;
	dec = pt_pkt_alloc_decoder(&config);
	for (size_t at = 0; dec && at < len;) {
		int n = ptpkt_decode(data + at, data + len, &got);
		int ret = pt_pkt_sync_set(dec, at);

		/* libipt leaves some flags as they were. */
		memset(&want, 0, sizeof(want));
		if (!ret)
			ret = pt_pkt_next(dec, &want, sizeof(want));
		if (ret > 0 && n == ret && same_event(&got, &want))
			d->n_same++;
		else if (ret == -pte_bad_opc && is_newer(&got))
			d->n_newer++;
		else if ((ret == -pte_bad_opc || ret == -pte_bad_packet) &&
			 n == -1)
			d->n_bad++;
		else if (ret == -pte_eos && n == 0)
			d->n_cut++;
		else if (!d->n_wrong++)
			d->first_wrong = at;
		at += every || n <= 0 ? 1 : (size_t)n;
	}
	pt_pkt_free_decoder(dec);
}

static void report(const struct diff *d, const char *what)
{
	ok(!d->n_wrong && d->n_same,
	   "%s: %" PRIu64 " packets as libipt's, %" PRIu64 " newer, %" PRIu64
	   " no packet, %" PRIu64 " cut", what, d->n_same, d->n_newer,
	   d->n_bad, d->n_cut);
	if (d->n_wrong)
		printf("#   %" PRIu64 " differ, first at %#" PRIx64 "\n",
		       d->n_wrong, d->first_wrong);
}

static void test_random(void)
{
	enum { SIZE = 1 << 20 };
	uint8_t *b = malloc(SIZE);
	uint64_t seed = 7;
	struct diff d = { 0 };

	for (size_t i = 0; b && i < SIZE; i++)
		b[i] = (uint8_t)(next_random(&seed) >> 32);
	compare(b, SIZE, true, &d);
	report(&d, "random bytes");
	/* Mostly extended opcodes, every second byte. */
	memset(&d, 0, sizeof(d));
	for (size_t i = 0; b && i < SIZE; i++)
		if (next_random(&seed) >> 62)
			b[i] = i & 1 ? (uint8_t)(next_random(&seed) >> 32) : 2;
	compare(b, SIZE, true, &d);
	report(&d, "random extended packets");
	free(b);
}

static void compare_file(const char *path)
{
	struct aux_reader *r;
	struct aux_event ev;
	struct diff d = { 0 };
	bool is_pt = false;

	if (aux_reader_open(&r, path, NULL))
		return;
	while (aux_reader_next(r, &ev, NULL) == 1) {
		uint8_t *copy;

		if (ev.type == AUX_RECORD_AUXTRACE_INFO)
			is_pt = ev.auxtrace_info.trace_type ==
				AUX_TRACE_INTEL_PT;
		if (!is_pt || ev.type != AUX_RECORD_AUXTRACE)
			continue;
		copy = malloc(ev.auxtrace.payload.len + 1);
		memcpy(copy, ev.auxtrace.payload.data, ev.auxtrace.payload.len);
		compare(copy, ev.auxtrace.payload.len, false, &d);
		free(copy);
	}
	if (is_pt)
		report(&d, strrchr(path, '/') + 1);
	aux_reader_close(r);
}

static void test_corpus(void)
{
	const char *dir = getenv("AUXKIT_CORPUS");
	char pattern[4096];
	glob_t g = { 0 };

	snprintf(pattern, sizeof(pattern), "%s/wrapped/*.perf.data",
		 dir ? dir : "../shared/corpus");
	if (glob(pattern, 0, NULL, &g)) {
		skip("corpus: no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	snprintf(pattern, sizeof(pattern), "%s/quipper/src/quipper/testdata/"
		 "perf.data.intel_pt*[0-9]", dir ? dir : "../shared/corpus");
	glob(pattern, GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++)
		compare_file(g.gl_pathv[i]);
	globfree(&g);
}

int main(void)
{
	test_random();
	test_corpus();
	return plan_done();
}
#else
int main(void)
{
	skip("built without libipt");
	return plan_done();
}
#endif
