/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: decode */
/*
 * Time in Intel PT compared with libipt: on the packets of a simulated core, where the truth
 * shows which of the two is nearer, and on recorded traces.
 */
#include <aux/reader.h>
#include <intel-pt.h>
#include <unistd.h>

#include "decode/lib/trace/trace.h"
#include "tests/unit/ptclock.h"
#include "tests/unit/tap.h"

struct peer {
	uint8_t *bytes;
	size_t n, size;
	size_t compared, beyond;
	uint64_t sum, worst;	/* of the differences */
	uint64_t off, our_off;	/* sums of what is off the truth */
};

static void add_bytes(struct peer *p, const void *data, size_t n)
{
	if (n > p->size - p->n)
		return;
	memcpy(p->bytes + p->n, data, n);
	p->n += n;
}

static void add_cyc(struct peer *p, uint64_t n)
{
	uint8_t b = (uint8_t)(3 | (n & 0x1f) << 3);

	n >>= 5;
	b |= n ? 4 : 0;
	add_bytes(p, &b, 1);
	while (n) {
		b = (uint8_t)((n & 0x7f) << 1);
		n >>= 7;
		b |= n ? 1 : 0;
		add_bytes(p, &b, 1);
	}
}

static void add_item(struct peer *p, const struct item *i)
{
	uint8_t b[8] = { 0x02 };

	switch (i->type) {
	case PTPKT_PSB:
		for (int k = 0; k < 8; k++)
			add_bytes(p, "\x02\x82", 2);
		break;
	case PTPKT_PSBEND:	/* at a made-up place in 64-bit code */
		add_bytes(p, "\x99\x01\xdd\x00\x10\x40\0\0\0\0\0\x02\x23", 13);
		break;
	case PTPKT_TSC:
		b[0] = 0x19;
		memcpy(b + 1, &i->a, 7);
		add_bytes(p, b, 8);
		break;
	case PTPKT_TMA:
		b[1] = 0x73;
		memcpy(b + 2, &i->a, 2);
		memcpy(b + 5, &i->b, 2);
		add_bytes(p, b, 7);
		break;
	case PTPKT_MTC:
		b[0] = 0x59;
		b[1] = (uint8_t)i->a;
		add_bytes(p, b, 2);
		break;
	case PTPKT_CBR:
		b[1] = 0x03;
		b[2] = (uint8_t)i->a;
		add_bytes(p, b, 4);
		break;
	case PTPKT_CYC:
		add_cyc(p, i->a);
		break;
	}
}

/* From one PSB up to the next; a TNT behind each packet asks for the time. */
static size_t add_segment(struct peer *p, const struct list *l, size_t i)
{
	bool header = true;

	p->n = 0;
	do {
		add_item(p, &l->at[i]);
		if (!header)
			add_bytes(p, "\x06", 1);
		if (l->at[i].type == PTPKT_PSBEND)
			header = false;
		i++;
	} while (i < l->n && l->at[i].type != PTPKT_PSB &&
		 l->at[i].type != PTPKT_OVF);
	return i;
}

/* libipt's time at the next TNT, never backwards; false: there is none. */
static bool next_time(struct pt_query_decoder *q, int *status, uint64_t *tsc)
{
	struct pt_event ev;
	uint64_t now;
	int taken;

	while (*status >= 0 && (*status & pts_event_pending))
		*status = pt_qry_event(q, &ev, sizeof(ev));
	if (*status >= 0)
		*status = pt_qry_cond_branch(q, &taken);
	if (*status < 0 || pt_qry_time(q, &now, NULL, NULL) < 0)
		return false;
	if (*tsc < now)
		*tsc = now;
	return true;
}

static uint64_t differ(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/*
 * Tolerance: twice our bound; 64 for libipt's 8 bits of fraction and what it
 * drops at a packet; a tick for each MTC with an odd ratio; and 1/32 of the
 * period, as it lets time run ahead of the next MTC.
 */
static void compare_time(struct peer *p, const struct pt_time *t, uint64_t tsc,
			 size_t n_mtc, const struct item *i)
{
	uint64_t off = differ(t->tsc, tsc);
	uint64_t most = 64 + t->period_tsc / 32;

	if (t->period_part)
		most += n_mtc;
	p->compared++;
	p->beyond += off / 2 > t->bound && off - 2 * t->bound > most;
	p->sum += off;
	if (off > p->worst)
		p->worst = off;
	p->our_off += differ(t->tsc, i->truth);
	p->off += differ(tsc, i->truth);
}

static struct pt_query_decoder *open_libipt(const struct peer *p,
					    const struct aux_pt_config *config)
{
	struct pt_config c;

	pt_config_init(&c);
	c.begin = p->bytes;
	c.end = p->bytes + p->n;
	c.mtc_freq = (uint8_t)config->mtc_period;
	c.nom_freq = (uint8_t)config->max_nonturbo_ratio;
	c.cpuid_0x15_eax = config->tsc_ctc_ratio_d;
	c.cpuid_0x15_ebx = config->tsc_ctc_ratio_n;
	return pt_qry_alloc_decoder(&c);
}

static size_t compare_segment(struct peer *p, const struct list *l, size_t i,
			      const struct aux_pt_config *config)
{
	size_t end = add_segment(p, l, i), n_mtc = 0;
	struct pt_query_decoder *q = open_libipt(p, config);
	struct pt_time t;
	uint64_t ip, tsc = 0;
	bool header = true;
	int status = q ? pt_qry_sync_set(q, &ip, 0) : -1;

	pt_time_init(&t, config);
	for (; i < end; i++) {
		const struct item *it = &l->at[i];

		feed(&t, it);
		n_mtc = it->type == PTPKT_TSC ? 0 :
						n_mtc + (it->type == PTPKT_MTC);
		if (it->type == PTPKT_PSBEND)
			header = false;
		else if (!header && next_time(q, &status, &tsc) && t.known &&
			 it->type != PTPKT_CBR)
			compare_time(p, &t, tsc, n_mtc, it);
	}
	if (status < 0 && !header)
		printf("# libipt: %s\n", pt_errstr(pt_errcode(status)));
	pt_qry_free_decoder(q);
	return end;
}

static void compare_list(struct peer *p, const struct list *l,
			 const struct aux_pt_config *config)
{
	for (size_t i = 0; i < l->n;) {
		if (l->at[i].type == PTPKT_PSB)
			i = compare_segment(p, l, i, config);
		else
			i++;
	}
}

static void check_libipt(struct list *l, struct peer *p,
			 const struct core_case *c)
{
	struct aux_pt_config config = make_config(c);
	struct core k = { .out = l };

	run_core(&k, c, 12345);
	*p = (struct peer){ .bytes = p->bytes, .size = p->size };
	compare_list(p, l, &config);
	ok(p->compared > 30000 && p->our_off < p->off + p->compared &&
	   (c->apart || !p->beyond),
	   "%s: %zu times as libipt's, %zu too far; apart %.1f (worst %" PRIu64
	   "), off by %.1f, libipt %.1f", c->text, p->compared, p->beyond,
	   (double)p->sum / (double)p->compared, p->worst,
	   (double)p->our_off / (double)p->compared,
	   (double)p->off / (double)p->compared);
}

/* ---- recorded traces ---- */

/* The timing packets of a trace, and which of its PSB+ are whole. */
static void read_items(struct list *l, const uint8_t *p, const uint8_t *end)
{
	unsigned block = 0;
	struct ptpkt pkt;

	l->n = 0;
	p = ptpkt_find_psb(p, end);
	while (p && p < end && l->n < N_ITEMS) {
		int n = ptpkt_next(p, end, &block, &pkt);

		if (n <= 0) {
			p = ptpkt_find_psb(p + 1, end);
			block = 0;
			continue;
		}
		if (pkt.type == PTPKT_TSC || pkt.type == PTPKT_TMA ||
		    pkt.type == PTPKT_MTC || pkt.type == PTPKT_CYC ||
		    pkt.type == PTPKT_CBR || pkt.type == PTPKT_PSB ||
		    pkt.type == PTPKT_PSBEND || pkt.type == PTPKT_OVF)
			l->at[l->n++] = (struct item){ .type = pkt.type,
				.a = pkt.payload, .b = pkt.payload2 };
		p += n;
	}
}

static struct aux_pt_config read_config(const struct aux_reader *r,
					const struct chunks *c)
{
	const uint64_t *w = c->metadata;
	const struct aux_attr *a;
	struct aux_pt_config pt = { 0 };

	if (c->n_metadata <= AUX_PT_MAX_NONTURBO_RATIO)
		return pt;
	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++)
		if (a->attr.type == w[AUX_PT_PMU_TYPE])
			pt.attr_config = a->attr.config;
	pt.mtc_period = (uint32_t)(pt.attr_config >> 14 & 0xf);
	pt.tsc_ctc_ratio_n = (uint32_t)w[AUX_PT_TSC_CTC_N];
	pt.tsc_ctc_ratio_d = (uint32_t)w[AUX_PT_TSC_CTC_D];
	pt.max_nonturbo_ratio = (uint32_t)w[AUX_PT_MAX_NONTURBO_RATIO];
	return pt;
}

static void check_recorded(struct list *l, struct peer *p, const char *corpus,
			   const char *name, size_t least)
{
	struct aux_reader *r = NULL;
	struct aux_pt_config config;
	struct aux_diag diag = { 0 };
	struct chunks c = { 0 };
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	if (!ok(aux_reader_open(&r, path, &diag) == 0 &&
		chunks_read(&c, r, 0, 0, &diag) == 0, "%s opens", name))
		goto out;
	*p = (struct peer){ .bytes = p->bytes, .size = p->size };
	config = read_config(r, &c);
	for (size_t i = 0; i < c.n; i++) {
		for (size_t k = 0; k < c.queues[i].n_pieces; k++) {
			const struct piece *b = &c.queues[i].pieces[k];

			read_items(l, b->data, b->data + b->len);
			compare_list(p, l, &config);
		}
	}
	ok(p->compared > least && !p->beyond, "%s: %zu times as libipt's, %zu "
	   "too far; apart %.1f (worst %" PRIu64 ")", name, p->compared,
	   p->beyond, (double)p->sum / (double)(p->compared + 1), p->worst);
out:
	chunks_fini(&c);
	aux_reader_close(r);
}

int main(void)
{
	const char *corpus = getenv("AUXKIT_CORPUS");
	struct list l = { calloc(N_ITEMS, sizeof(struct item)), 0 };
	struct peer p = { .size = N_ITEMS * 16 };

	p.bytes = malloc(p.size);
	if (!ok(l.at && p.bytes, "memory"))
		return plan_done();
	for (size_t i = 0; i < sizeof(core_cases) / sizeof(core_cases[0]); i++)
		check_libipt(&l, &p, &core_cases[i]);
	if (!corpus || !*corpus)
		corpus = "../shared/corpus";
	if (!access(corpus, R_OK)) {
		check_recorded(&l, &p, corpus,
			       "wrapped/dynamorio-hello.perf.data", 10);
		check_recorded(&l, &p, corpus, "quipper/src/quipper/testdata/"
			       "perf.data.intel_pt-4.14", 2000);
	} else {
		skip("corpus: no recorded traces: set AUXKIT_CORPUS");
	}
	free(p.bytes);
	free(l.at);
	return plan_done();
}
