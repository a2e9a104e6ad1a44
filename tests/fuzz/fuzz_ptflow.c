/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our Intel PT engine against libipt, over traces that a CPU could have made and
 * some that are broken (ptscript.h): the same flow, as RANGEs in large and small
 * batches and as PATHs, with all TIMEs and with hardly any, with room for all of the
 * code and for little; and nothing that did not run, in that order. Some of the code
 * may be missing. Where the horizon is far, it is reached at the same places whether
 * packets of time are skipped or not. The bytes: code, CPU, host, then the script.
 */
#include <string.h>

#include "common/x86_insn.h"

#include "tests/fuzz/flowdiff.h"
#include "decode/lib/pt/impl.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/packet/packet.h"
#include "tests/fuzz/ptscript.h"

#define N_HEAD 4
#define NO_INSN PT_E_INSN
#define BAD_QUERY 8		/* pte_bad_query; its header has the names of the engine */
#define SMALL_STORE ((size_t)4096)
#define START 1000
#define HIDDEN 48		/* bytes of each half that are missing */

struct host {
	struct aux_decoder_host h;
	struct aux_decoder_config config;
	const struct ptscript *s;
	struct flow_hole hole;
	uint64_t step;		/* of the horizon */
	struct flow_list *list;
};

static int give_code(void *priv, uint64_t ip, struct aux_code *c)
{
	const struct host *h = priv;
	const uint8_t *p;
	size_t n = ps_at(&h->s->c, ip, &p), at = CODE_SIZE - n;
	size_t from = 0, to = CODE_SIZE;

	if (!n || !flow_around_hole(h->hole, at, &from, &to))
		return -AUX_E_NOENT;
	*c = (struct aux_code){ .start = ip - at + from, .end = ip - at + to,
				.bytes = p - at + from };
	return 0;
}

/* The horizon goes on; the code stays. */
static void act(void *priv, const struct aux_flow *last)
{
	struct host *h = priv;

	if (last->kind != AUX_FLOW_TIME || !h->h.horizon_tsc)
		return;
	if (last->time.tsc >= h->h.horizon_tsc)
		flow_add_time(h->list, last->time.tsc);
	h->h.horizon_tsc = last->time.tsc + h->step;
}

/* How a trace is decoded. */
struct way {
	size_t max;		/* events of a batch; 0: as the bytes say, few */
	enum aux_paths paths;
	uint64_t time_step;
	bool small;		/* the store has room for little */
	bool far;		/* is the horizon, and packets of time are skipped */
	bool early;		/* go on before a sync point, which libipt cannot */
};

static uint64_t first_horizon(const uint8_t *head, struct way way)
{
	return way.far ? 1 : head[2] & 1 ? 0 : UINT64_MAX;
}

static void configure(struct host *h, const struct ptscript *s,
		      const uint8_t *head, struct way way)
{
	*h = (struct host){ .s = s, .hole = { CODE_SIZE, HIDDEN }, .step = 500 };
	if (way.far)
		h->step = UINT64_C(2000) << (head[3] & 7);
	if (head[2] >> 5 == 5)
		h->hole.start = (head[2] >> 2 & 7) * 128u + 40;
	h->config.size = sizeof(h->config);
	h->config.clock.mult = 1;
	h->config.pt = (struct aux_pt_config){
		.mtc_period = 3, .max_nonturbo_ratio = 20,
		.tsc_ctc_ratio_n = 40, .tsc_ctc_ratio_d = 1,
	};
	h->h = (struct aux_decoder_host){
		.size = sizeof(h->h), .priv = h, .code = give_code,
		.generation = 1, .forget = flow_forget,
		.paths = way.paths, .time_step = way.time_step,
		.sync_only = !way.early,
		.horizon_tsc = first_horizon(head, way),
	};
}

/* Paths that are known go another way: the last time counts. */
static void decode(struct flow_list *l, const char *name,
		   const struct ptscript *s, const uint8_t *head,
		   const struct aux_chunk *c, struct way way)
{
	const struct aux_decoder_ops *ops = decoders_find(name, 0, NULL);
	struct aux_diag diag;
	struct host h;
	void *dec;

	configure(&h, s, head, way);
	ASSERT(ops->open(&dec, &h.config, &h.h, &diag) == 0);
	if (way.small && !strcmp(name, "pt"))
		((struct pt *)dec)->memo.limit = SMALL_STORE * (head[3] & 7);
	if (way.far && !strcmp(name, "pt")) {
		((struct pt *)dec)->guard_bytes = head[3] >> 4;
		((struct pt *)dec)->min_periods = 1;
	}
	h.list = l;
	for (int i = way.paths ? 2 : 1; i; i--) {
		h.h.horizon_tsc = first_horizon(head, way);
		flow_decode(l, ops, dec, c, way.max, act, &h);
	}
	ops->close(dec);
}

/* A TMA that goes with a TSC. What libipt makes of MTCs in between is its own. */
static bool is_tma_due(bool due, unsigned type)
{
	return type == PTPKT_TSC ||
	       (due && type != PTPKT_PSB && type != PTPKT_TMA);
}

/* A PIP or VMCS waits for the TIP of its branch. */
static bool is_pip_due(bool due, unsigned type)
{
	return type == PTPKT_PIP || type == PTPKT_VMCS ||
	       (due && type != PTPKT_PSBEND && type != PTPKT_TIP &&
		type != PTPKT_TIP_PGE && type != PTPKT_TIP_PGD);
}

/* Where libipt 2.0.5 takes the next FUP for that of the packet before p, wrongly:
 * an MWAIT whose EXSTOP has no IP; or for that of an interrupt: the FUP of a
 * MODE.Exec. */
static bool is_fup_misread(const struct ptpkt *pkt, const uint8_t *p,
			   const uint8_t *end, bool header)
{
	const unsigned skip = 1U << PTPKT_PAD | 1U << PTPKT_TSC | 1U << PTPKT_TMA |
			      1U << PTPKT_MTC | 1U << PTPKT_CYC | 1U << PTPKT_CBR |
			      1U << PTPKT_PWRE;
	struct ptpkt next = { 0 };

	if (pkt->type != PTPKT_MWAIT && (pkt->type != PTPKT_MODE_EXEC || header))
		return false;
	do
		p += next.size;
	while (ptpkt_decode(p, end, &next) > 0 && skip >> next.type & 1);
	return pkt->type == PTPKT_MWAIT ?
		       next.type != PTPKT_EXSTOP || !next.flags :
		       next.type == PTPKT_FUP;
}

/*
 * What libipt 2.0.5 does not know; and a TMA without its TSC, or a second one, or a
 * CBR of 0: libipt gives up there, the engine takes no time from them, and the
 * flow goes on. Where an OVF took the TIP behind a PIP or VMCS, libipt has that wait
 * for the next TIP, of whatever branch, and loses what runs from there to a TIP.PGD.
 */
static bool is_known_from(const uint8_t *p, const uint8_t *end, int *n)
{
	struct ptpkt pkt;
	bool tma = false, pip = false, header = false;

	for (*n = 1; *n > 0 && p < end; p += *n) {
		*n = ptpkt_decode(p, end, &pkt);
		if (*n <= 0)
			break;
		if (pkt.type >= PTPKT_BBP || pkt.type == PTPKT_MNT ||
		    (pkt.type == PTPKT_TMA && !tma) ||
		    (pkt.type == PTPKT_CBR && !pkt.payload) ||
		    (pkt.type == PTPKT_OVF && pip) ||
		    is_fup_misread(&pkt, p + *n, end, header))
			return false;
		header = header ? pkt.type != PTPKT_PSBEND : pkt.type == PTPKT_PSB;
		tma = is_tma_due(tma, pkt.type);
		pip = is_pip_due(pip, pkt.type);
	}
	return true;
}

/* From each PSB: a decoder may begin there that another runs past, in broken
 * packets. */
static bool is_comparable(const struct aux_chunk *c, bool *cut)
{
	const uint8_t *end = c->data + c->len, *p = ptpkt_find_psb(c->data, end);
	int n = 1;

	for (; p; p = ptpkt_find_psb(p + 1, end))
		if (!is_known_from(p, end, &n))
			return false;
	*cut = !n && !(c->flags & AUX_CHUNK_HAS_END_IP);
	return true;
}

/* REX2 (APX), which libipt 2.0.5 takes for an AAD: then all may differ from there. */
static bool has_rex2(const struct ptscript *s, const struct flow_list *l, size_t i)
{
	const struct aux_flow *f = &l->ev[i];
	struct x86_insn insn;
	const uint8_t *p;
	size_t n;

	if (i >= l->n || f->kind != AUX_FLOW_RANGE)
		return false;
	for (uint64_t ip = f->range.first; ip <= f->range.last; ip += insn.size) {
		n = ps_at(&s->c, ip, &p);
		if (n && *p == 0xd5)
			return true;
		if (!n || x86_insn_decode(p, n < 15 ? n : 15, &insn) <= 0)
			return false;
	}
	return false;
}

/*
 * No CPU keeps a TNT back over a PSB. The engine and libipt 2.0 take its bits for those of
 * what ran before, as the code says; libipt 2.1 has nothing for that branch, which is an
 * error there and not in a. Seen with 2.1.2: bad_query where the first bit is asked for.
 */
static bool misses_bits(const struct ptscript *s, const struct flow_list *a, size_t i,
			const struct flow_list *b, size_t k)
{
	size_t y = flow_error(b, k);

	return s->split && y < b->n && b->ev[y].what == AUX_GAP_DESYNC &&
	       b->ev[y].gap.detail == BAD_QUERY && flow_error(a, i) == a->n;
}

/* With a script b is libipt's. */
static void compare(const char *what, const struct flow_list *a,
		    const struct flow_list *b, const struct ptscript *s)
{
	size_t k = 0;
	size_t i = s ? flow_compare(a, b, &k) : flow_compare_own(a, b);

	if (i == SIZE_MAX || (s && (has_rex2(s, a, i) || misses_bits(s, a, i, b, k))))
		return;
	if (!s)
		k = i;
	flow_differ(what, a, i, b, k);
}

/* What is shown of a trace that is not broken ran, in this order. */
static void check_ran(const struct flow_list *l, const struct ptscript *s)
{
	struct x86_insn insn;
	const uint8_t *p;
	size_t k = 0, n, before;

	for (size_t i = 0; i < l->n && !s->broken && !s->untrue; i++) {
		const struct aux_flow *f = &l->ev[i];

		if (f->kind != AUX_FLOW_RANGE)
			continue;
		for (uint64_t ip = f->range.first; ip <= f->range.last;
		     ip += insn.size) {
			before = k;
			while (k < s->n_ran && s->ran[k] != ip)
				k++;
			n = ps_at(&s->c, ip, &p);
			if (k++ < s->n_ran && n && x86_insn_decode(p, n, &insn) > 0)
				continue;
			fprintf(stderr, "%#" PRIx64 " did not run, event %zu:\n", ip, i);
			flow_print("engine", l, i > 4 ? i - 4 : 0, i + 6);
			flow_print_ran(s->ran, s->n_ran, before);
			abort();
		}
	}
}

static void print_packets(const struct aux_chunk *c)
{
	const uint8_t *end = c->data + c->len, *p = c->data;
	struct ptpkt pkt;
	char text[80];
	int n;

	while (p < end && (n = ptpkt_decode(p, end, &pkt)) != 0) {
		if (n < 0)
			snprintf(text, sizeof(text), "bad");
		else
			ptpkt_text(text, sizeof(text), &pkt);
		fprintf(stderr, "%#zx: %s\n", START + (size_t)(p - c->data), text);
		p += n > 0 ? n : 1;
	}
}

/* Without paths none are skipped. */
static void compare_times(const char *engine, const struct ptscript *s,
			  const uint8_t *head, const struct aux_chunk *c, bool early)
{
	static struct flow_list all, some;
	struct way way = { .max = FLOW_BATCH, .time_step = UINT64_MAX, .far = true,
			   .early = early };

	decode(&all, engine, s, head, c, way);
	way.paths = AUX_PATHS_JOINED;
	decode(&some, engine, s, head, c, way);
	compare("a far horizon", &all, &some, NULL);
	if (flow_same_times(&all, &some) || all.full || some.full)
		return;
	fprintf(stderr, "the horizon is reached elsewhere:\n");
	for (size_t i = 0; i < all.n_times || i < some.n_times; i++)
		fprintf(stderr, "%#" PRIx64 " %" PRIu64 ", %#" PRIx64 " %" PRIu64 "\n",
			all.time[i].tsc, all.time[i].n_insns,
			some.time[i].tsc, some.time[i].n_insns);
	abort();
}

/* One flow, whatever the host wants of it. */
static void decode_all_ways(struct flow_list *one, const char *engine,
			    const struct ptscript *s, const uint8_t *head,
			    const struct aux_chunk *c, bool early)
{
	static struct flow_list two;
	struct { const char *name; struct way way; } ways[] = {
		{ "small batches", { .paths = AUX_PATHS_NONE } },
		{ "PATHs", { .max = FLOW_BATCH, .paths = AUX_PATHS_JOINED } },
		{ "PATHs, hardly a TIME",
		  { .max = FLOW_BATCH, .paths = AUX_PATHS_JOINED,
		    .time_step = UINT64_MAX } },
		{ "PATHs of one packet", { .paths = AUX_PATHS_PACKET } },
		{ "a small store",
		  { .max = FLOW_BATCH, .paths = AUX_PATHS_JOINED,
		    .small = true } },
	};

	decode(one, engine, s, head, c,
	       (struct way){ .max = FLOW_BATCH, .early = early });
	check_ran(one, s);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!ways[i].way.max)
			ways[i].way.max = 16 + head[3];
		ways[i].way.early = early;
		decode(&two, engine, s, head, c, ways[i].way);
		compare(ways[i].name, one, &two, NULL);
	}
	compare_times(engine, s, head, c, early);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct ptscript s;
	static struct flow_list ref, one, early;
	const char *engine = getenv("ENGINE") ? getenv("ENGINE") : "pt";
	const uint8_t *head = data;
	struct aux_chunk c = { .size = sizeof(c), .stream_offset = START };
	uint8_t *trace;

	if (len < N_HEAD || !decoders_find(engine, 0, NULL) ||
	    !decoders_find("libipt", 0, NULL))
		return 0;
	ps_make(&s, head[0], head[1], data + N_HEAD, len - N_HEAD);
	trace = malloc(s.n ? s.n : 1);	/* so that reads behind it are seen */
	ASSERT(trace);
	memcpy(trace, s.trace, s.n);
	c.data = trace;
	c.len = s.n;
	if (head[2] & 2 && s.on && !s.broken) {
		c.flags = AUX_CHUNK_HAS_END_IP;
		c.end_ip = s.ip;
	}
	if (getenv("VERBOSE"))
		print_packets(&c);
	decode_all_ways(&early, engine, &s, head, &c, true);
	decode_all_ways(&one, engine, &s, head, &c, false);
	/* more is shown, not less */
	ASSERT(early.n_insns >= one.n_insns || early.unsupported ||
	       early.full || s.broken || s.untrue);
	one.no_insn = NO_INSN;
	if (is_comparable(&c, &one.cut)) {
		decode(&ref, "libipt", &s, head, &c,
		       (struct way){ .max = FLOW_BATCH });
		compare("libipt", &one, &ref, &s);
	}
	free(trace);
	return 0;
}
