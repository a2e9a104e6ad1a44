/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * ptpkt against a table of hand-made packets, and against libipt's packet
 * decoder on random bytes and on every Intel PT stream of the corpus.
 */
#include <glob.h>
#include <stdlib.h>
#ifdef HAVE_IPT
#include <intel-pt.h>
#endif

#include <aux/decoder.h>
#include <aux/reader.h>

#include "ptpkt.h"
#include "tap.h"

struct row {
	const char *text;
	uint8_t n;
	uint8_t bytes[16];
};

/* table */
static const struct row rows[] = {
	{ "pad", 1, { 0 } },
	{ "tnt 1: .", 1, { 0x04 } },
	{ "tnt 6: !!!!!!", 1, { 0xfe } },
	{ "tnt 4: !.!.", 1, { 0x34 } },
	{ "tnt 47: !..............................................", 8,
	  { 0x02, 0xa3, 0, 0, 0, 0, 0, 0xc0 } },
	{ "tip 0: no ip", 1, { 0x0d } },
	{ "tip 1: 0x1234", 3, { 0x2d, 0x34, 0x12 } },
	{ "tip.pge 2: 0x401000", 5, { 0x51, 0x00, 0x10, 0x40, 0x00 } },
	{ "tip.pgd 3: 0xffff12345678", 7,
	  { 0x61, 0x78, 0x56, 0x34, 0x12, 0xff, 0xff } },
	{ "fup 4: 0x7f0012345678", 7,
	  { 0x9d, 0x78, 0x56, 0x34, 0x12, 0x00, 0x7f } },
	{ "fup 6: 0xff00000012345678", 9,
	  { 0xdd, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0xff } },
	{ "pip cr3 0x12345000 nr", 8,
	  { 0x02, 0x43, 0x01, 0x45, 0x23, 0x01, 0, 0 } },
	{ "mode.exec cs.l", 2, { 0x99, 0x01 } },
	{ "mode.exec cs.d if", 2, { 0x99, 0x06 } },
	{ "mode.tsx intx abrt", 2, { 0x99, 0x23 } },
	{ "tracestop", 2, { 0x02, 0x83 } },
	{ "cbr 29", 4, { 0x02, 0x03, 0x1d, 0x00 } },
	{ "tsc 0x7654321fedcba", 8,
	  { 0x19, 0xba, 0xdc, 0xfe, 0x21, 0x43, 0x65, 0x07 } },
	{ "mtc 0x48", 2, { 0x59, 0x48 } },
	{ "tma ctc 0xb23c fc 0x130", 7,
	  { 0x02, 0x73, 0x3c, 0xb2, 0x00, 0x30, 0x01 } },
	{ "cyc 31", 1, { 0xfb } },
	{ "cyc 32", 2, { 0x07, 0x02 } },
	{ "cyc 4096", 3, { 0x07, 0x01, 0x02 } },
	{ "vmcs 0x123456789a000", 7,
	  { 0x02, 0xc8, 0x9a, 0x78, 0x56, 0x34, 0x12 } },
	{ "ovf", 2, { 0x02, 0xf3 } },
	{ "psb", 16, { 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
		       2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82 } },
	{ "psbend", 2, { 0x02, 0x23 } },
	{ "mnt 0x807060504030201", 11,
	  { 0x02, 0xc3, 0x88, 1, 2, 3, 4, 5, 6, 7, 8 } },
	{ "ptw 4: 0x4030201", 6, { 0x02, 0x12, 1, 2, 3, 4 } },
	{ "ptw 8: 0x807060504030201 ip", 10,
	  { 0x02, 0xb2, 1, 2, 3, 4, 5, 6, 7, 8 } },
	{ "exstop", 2, { 0x02, 0x62 } },
	{ "exstop ip", 2, { 0x02, 0xe2 } },
	{ "mwait hints 0x21 ext 0x1", 10,
	  { 0x02, 0xc2, 0x21, 0, 0, 0, 1, 0, 0, 0 } },
	{ "pwre c6.1 hw", 4, { 0x02, 0x22, 0x80, 0x61 } },
	{ "pwrx last c6 deepest c3 wake 0x4", 7,
	  { 0x02, 0xa2, 0x63, 0x04, 0, 0, 0 } },
	{ "bbp type 5, 8-byte items", 3, { 0x02, 0x63, 0x05 } },
	{ "bbp type 1, 4-byte items", 3, { 0x02, 0x63, 0x81 } },
	{ "bep", 2, { 0x02, 0x33 } },
	{ "bep ip", 2, { 0x02, 0xb3 } },
	{ "cfe type 1 vector 14 ip", 4, { 0x02, 0x13, 0x81, 0x0e } },
	{ "evd type 2: 0x807060504030201", 11,
	  { 0x02, 0x53, 0x02, 1, 2, 3, 4, 5, 6, 7, 8 } },
};

static void test_table(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		struct ptpkt pkt;
		char text[128] = "";
		bool cut = true;

		if (ptpkt_decode(r->bytes, r->bytes + r->n, &pkt) == r->n)
			ptpkt_text(text, sizeof(text), &pkt);
		is_str(text, r->text, "a packet's text");
		for (uint8_t n = 0; n < r->n; n++) {
			uint8_t *copy = malloc(n ? n : 1);

			memcpy(copy, r->bytes, n);
			cut &= ptpkt_decode(copy, copy + n, &pkt) == 0;
			free(copy);
		}
		ok(cut, "%s: incomplete at every shorter length", r->text);
	}
}

static void test_bad(void)
{
	static const uint8_t bad[][3] = {
		{ 0x05 }, { 0xad }, { 0xed }, { 0x99, 0x40 }, { 0x02, 0x00 },
		{ 0x02, 0x52 }, { 0x02, 0xc3, 0x87 }, { 0x02, 0x82, 0x03 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ptpkt pkt;

		ok(ptpkt_decode(bad[i], bad[i] + 3, &pkt) == -1 &&
		   pkt.type == PTPKT_BAD,
		   "%02x %02x %02x is no packet", bad[i][0], bad[i][1],
		   bad[i][2]);
	}
}

static void test_block(void)
{
	static const uint8_t b[] = {
		0x02, 0x63, 0x84,		/* bbp, 4 byte items */
		0x0c, 1, 2, 3, 4,		/* bip id 1 */
		0x59, 0x01,			/* mtc stays inside */
		0x24, 5, 6, 7, 8,		/* bip id 4 */
		0x02, 0x33,			/* bep */
		0x0c,				/* tnt again */
	};
	static const uint8_t want[] = { PTPKT_BBP, PTPKT_BIP, PTPKT_MTC,
					PTPKT_BIP, PTPKT_BEP, PTPKT_TNT };
	const uint8_t *p = b, *end = b + sizeof(b);
	unsigned block = 0;
	struct ptpkt pkt;

	for (size_t i = 0; i < sizeof(want); i++) {
		int n = ptpkt_next(p, end, &block, &pkt);

		ok(n > 0 && pkt.type == want[i], "block packet %zu is %s", i,
		   ptpkt_name(want[i]));
		if (pkt.type == PTPKT_BIP)
			ok(pkt.payload == (i == 1 ? 0x04030201 : 0x08070605) &&
			   pkt.count == (i == 1 ? 1 : 4), "item %zu", i);
		p += n > 0 ? n : 1;
	}
	ok(p == end && !block, "the block ends with BEP");
}

static void test_ip(void)
{
	struct ptpkt pkt = { .type = PTPKT_TIP };
	uint64_t last = UINT64_C(0x1122334455667788);
	static const struct {
		uint8_t count;
		uint64_t payload, want;
	} t[] = {
		{ 0, 0, UINT64_C(0x1122334455667788) },
		{ 1, 0xaaaa, UINT64_C(0x112233445566aaaa) },
		{ 2, 0xbbbbbbbb, UINT64_C(0x11223344bbbbbbbb) },
		{ 4, UINT64_C(0xcccccccccccc), UINT64_C(0x1122cccccccccccc) },
		{ 3, UINT64_C(0x800000000000), UINT64_C(0xffff800000000000) },
		{ 3, UINT64_C(0x7fffffffffff), UINT64_C(0x7fffffffffff) },
		{ 6, UINT64_C(0x0123456789abcdef),
		  UINT64_C(0x0123456789abcdef) },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		pkt.count = t[i].count;
		pkt.payload = t[i].payload;
		ok(ptpkt_ip(&pkt, &last) == (t[i].count != 0),
		   "IPBytes %u: an ip or none", t[i].count);
		is_u64(last, t[i].want, "the expanded ip");
	}
}

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static const uint8_t *find_slowly(const uint8_t *p, const uint8_t *end)
{
	for (; end - p >= 16; p++) {
		size_t i = 0;

		while (i < 16 && p[i] == (i & 1 ? 0x82 : 0x02))
			i++;
		if (i == 16)
			return p;
	}
	return NULL;
}

/* Buffers made of long and short runs of the pattern, at every alignment. */
static void test_psb(void)
{
	uint64_t seed = 42;
	unsigned wrong = 0, found = 0;

	for (int round = 0; round < 20000; round++) {
		size_t n = next_random(&seed) % 80;
		uint8_t *b = malloc(n ? n : 1);

		for (size_t i = 0; i < n;) {
			size_t run = next_random(&seed) % 24;

			while (run-- && i < n) {
				b[i] = run & 1 ? 0x02 : 0x82;
				i++;
			}
			if (i < n)
				b[i++] = (uint8_t)next_random(&seed);
		}
		found += ptpkt_find_psb(b, b + n) != NULL;
		wrong += ptpkt_find_psb(b, b + n) != find_slowly(b, b + n);
		free(b);
	}
	ok(!wrong && found > 1000, "PSB search: %u buffers with one, %u wrong",
	   found, wrong);
}

/* ---- listings of libipt's ptdump ---- */

/* The packet as ptdump shows it, with the expanded ip in place of its bytes. */
static void ptdump_text(const struct ptpkt *pkt, uint64_t ip, char *buf,
			size_t len)
{
	char *p = buf;

	ptpkt_text(buf, len, pkt);
	switch (pkt->type) {
	case PTPKT_TNT:
		p = strchr(buf, ':') + 2;
		memmove(buf + 6, p, strlen(p) + 1);
		memcpy(buf, "tnt.8 ", 6);
		break;
	case PTPKT_TIP:
	case PTPKT_TIP_PGE:
	case PTPKT_TIP_PGD:
	case PTPKT_FUP:
		snprintf(buf, len, "%s %016" PRIx64, ptpkt_name(pkt->type), ip);
		if (!pkt->count)
			snprintf(buf, len, "%s <suppressed>",
				 ptpkt_name(pkt->type));
		break;
	case PTPKT_PIP:
		snprintf(buf, len, "pip %016" PRIx64, pkt->payload);
		break;
	case PTPKT_TMA:
		snprintf(buf, len, "tma %" PRIx64 ", %" PRIx64, pkt->payload,
			 pkt->payload2);
		break;
	case PTPKT_TSC:
	case PTPKT_MTC:
	case PTPKT_CBR:
		snprintf(buf, len, "%s %" PRIx64, ptpkt_name(pkt->type),
			 pkt->payload);
		break;
	default:
		break;
	}
}

/* "OFFSET  name  payload" with "ip X" or "cr3 X" behind: name and X. */
static uint64_t ptdump_line(char *line, char *buf, size_t len)
{
	char name[32] = "", a[80] = "", b[80] = "", c[80] = "", d[80] = "";
	uint64_t offset = strtoull(line, NULL, 16);
	int n = sscanf(line, "%*s %31s %79s %79s %79s %79s", name, a, b, c, d);

	if (!strcmp(c, "ip"))
		snprintf(buf, len, "%s %s", name, d);
	else if (!strcmp(b, "cr3"))
		snprintf(buf, len, "%s %s", name, c);
	else if (n == 3)
		snprintf(buf, len, "%s %s %s", name, a, b);
	else
		snprintf(buf, len, "%s%s%s", name, *a ? " " : "", a);
	return offset;
}

static void compare_listing(const struct aux_bytes *b, const char *path)
{
	const uint8_t *p = b->data, *end = p + b->len;
	char cmd[4200], line[256], want[200], got[200];
	unsigned n_same = 0, n_wrong = 0;
	uint64_t last = 0;
	struct ptpkt pkt;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "gzip -dc '%s'", path);
	f = popen(cmd, "r");
	while (p < end) {
		int n = ptpkt_decode(p, end, &pkt);

		if (n <= 0)
			break;
		p += n;
		if (pkt.type == PTPKT_PAD)
			continue;
		if (pkt.type == PTPKT_PSB)
			last = 0;
		if (pkt.type >= PTPKT_TIP && pkt.type <= PTPKT_FUP)
			ptpkt_ip(&pkt, &last);
		ptdump_text(&pkt, last, got, sizeof(got));
		if (!f || !fgets(line, sizeof(line), f))
			break;
		if (ptdump_line(line, want, sizeof(want)) !=
		    (uint64_t)(p - n - b->data) || strcmp(want, got)) {
			if (!n_wrong++)
				printf("# want %s, got %s\n", want, got);
		} else {
			n_same++;
		}
	}
	ok(n_same && !n_wrong && p == end && f && !fgets(line, 256, f),
	   "%s: %u packets as ptdump's", strrchr(path, '/') + 1, n_same);
	if (f)
		pclose(f);
}

static void test_ptdump(void)
{
	const char *dir = getenv("AUXKIT_CORPUS");
	char path[4096];
	struct aux_reader *r;
	struct aux_event ev;

	if (!dir)
		dir = "../shared/corpus";
	snprintf(path, sizeof(path),
		 "%s/quipper/src/quipper/testdata/perf.data.intel_pt-4.14", dir);
	if (aux_reader_open(&r, path, NULL)) {
		skip("no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	while (aux_reader_next(r, &ev, NULL) == 1) {
		if (ev.type != AUX_RECORD_AUXTRACE)
			continue;
		snprintf(path, sizeof(path),
			 "%s/quipper/ref/intel_pt-4.14.cpu%u.ptdump.txt.gz", dir,
			 ev.auxtrace.h.cpu);
		compare_listing(&ev.auxtrace.payload, path);
	}
	aux_reader_close(r);
}

/* ---- libipt ---- */

#ifdef HAVE_IPT

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

/* Packets that libipt 2.0.5 does not know. */
static bool is_newer(const struct ptpkt *a)
{
	return a->type == PTPKT_BBP || a->type == PTPKT_BEP ||
	       a->type == PTPKT_CFE || a->type == PTPKT_EVD;
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
		if (ret > 0 && n == ret && same_packet(&got, &want))
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
		skip("no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	snprintf(pattern, sizeof(pattern), "%s/quipper/src/quipper/testdata/"
		 "perf.data.intel_pt*[0-9]", dir ? dir : "../shared/corpus");
	glob(pattern, GLOB_APPEND, NULL, &g);
	for (size_t i = 0; i < g.gl_pathc; i++)
		compare_file(g.gl_pathv[i]);
	globfree(&g);
}

static void test_libipt(void)
{
	test_random();
	test_corpus();
}
#else
static void test_libipt(void)
{
	skip("built without libipt");
}
#endif

int main(void)
{
	test_table();
	test_bad();
	test_block();
	test_ip();
	test_psb();
	test_libipt();
	test_ptdump();
	return plan_done();
}
