/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The etm decoder on random packets, intact and broken: its flow equals that of OpenCSD,
 * depends on the bytes alone, and shows only code that exists. With exceptions and a return
 * stack it is tested alone: on broken packets OpenCSD then shows code that did not run, or
 * reads out of bounds.
 */
#include "decode/lib/packet/packet.h"
#include "tests/unit/test_etm.h"

#define N_CODE 256
#define N_ROUNDS 400

static uint64_t seed;
static uint32_t code[2][N_CODE];
static struct packet_bytes trace;
static struct fixture f, g;

static uint32_t rnd(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 20) % n);
}

static uint32_t make_insn(uint32_t at)
{
	uint32_t to = rnd(N_CODE) - at;

	switch (rnd(16)) {
	case 0:
		return 0xb5000000 | (to & 0x7ffff) << 5;
	case 1:
		return 0x54000001 | (to & 0x7ffff) << 5;
	case 2:
		return 0x94000000 | (to & 0x3ffffff);
	case 3:
		return 0x14000000 | (to & 0x3ffffff);
	case 4:
		return 0x36000000 | (to & 0x3fff) << 5;
	case 5:
		return 0xd65f03c0;
	case 6:
		return 0xd61f0020;
	case 7:
		return 0xd63f0020;
	case 8:
		return rnd(2) ? 0xd69f03e0 : 0xd5033fdf;
	case 9:
		return 0xd503205f;
	default:
		return 0xd503201f;
	}
}

static void put1(uint32_t b)
{
	trace.b[trace.n++] = (uint8_t)b;
}

static void put_address(void)
{
	uint64_t ip = 0x1000 + 4 * rnd(N_CODE) + (rnd(100) ? 0 : 0x4000);

	switch (rnd(6)) {
	case 0:
		put1(0x90 + rnd(3));
		break;
	case 1:
		put1(0x95);
		put1(rnd(128));
		break;
	case 2:
		put1(0x95);
		put1((ip >> 2 & 0x7f) | 0x80);
		put1((uint32_t)(ip >> 9));
		break;
	case 3:
		put1(0x9a);
		put1(ip >> 2 & 0x7f);
		put1(ip >> 9 & 0x7f);
		put1((uint32_t)(ip >> 16));
		put1(0);
		break;
	default:
		v4_address(&trace, ip);
	}
}

static void put_place(bool cc)
{
	v4_sync(&trace, cc);
	if (rnd(2))
		put1(0x04);
	v4_context(&trace, rnd(3), 1 + rnd(3));
	put_address();
}

static void put_some(const struct registers *r, bool exceptions)
{
	static uint64_t ts = 1000;

	switch (rnd(16)) {
	case 0:
		put_place(r->configr & CCI);
		break;
	case 1:
		ts += rnd(50);
		v4_time(&trace, ts);
		break;
	case 2:
		v4_context(&trace, rnd(3), 1 + rnd(3));
		break;
	case 3:
		put1(0x10 + rnd(4));
		break;
	case 4:
		put1(0x70 + rnd(16));
		break;
	case 5:
		if (ete_version && rnd(2))
			PUT(&trace, 0x09, 1, 2, 3, 4, 5, 6, 7, 8, 9);
		else if (r->arch == AUX_ETM_ETE)
			PUT(&trace, 0xb4, 0x81, 0x08);
		break;
	case 6:
		if (exceptions)
			v4_exception(&trace, 2 + rnd(13), 1 + rnd(2),
				     0x1000 + 4 * rnd(N_CODE));
		if (exceptions && !rnd(3)) {	/* a context as before, in it */
			memmove(trace.b + trace.n - 8, trace.b + trace.n - 9, 9);
			trace.b[trace.n++ - 9] = 0x80;
		}
		break;
	case 7:
		if (!rnd(3)) {
			put1(0);
			put1(rnd(2) ? 3 : 5);
			put_place(r->configr & CCI);
		}
		break;
	case 8: case 9: case 10:
		put_address();
		break;
	default:
		put1(0xc0 + rnd(64));
		put1(0xf6 + rnd(2));
	}
}

static void make_trace(const struct registers *r, bool exceptions)
{
	trace.n = 0;
	put_place(r->configr & CCI);
	for (uint32_t n = 20 + rnd(150); n; n--)
		put_some(r, exceptions);
	for (uint32_t n = rnd(2) ? rnd(5) : 0; n; n--)
		trace.b[rnd((uint32_t)trace.n)] = (uint8_t)rnd(256);
	for (size_t i = 0; !exceptions && i < trace.n; i++)
		if (trace.b[i] == 0x06)
			trace.b[i] = 0x70;
	trace.n -= rnd(8);
}

static void add_code(struct fixture *to, unsigned which)
{
	to->n_areas = 0;
	add_area(to, 0x1000, code[which], 0x200);
	add_area(to, 0x1200, (char *)code[which] + 0x200, N_CODE * 4 - 0x200);
}

/* The host has other code behind each third event at which it may switch. */
static int run_pull(struct fixture *d, size_t max)
{
	struct aux_chunk c = { .size = sizeof(c), .data = trace.b,
			       .len = trace.n, .stream_offset = 100 };
	unsigned n = 0;
	int rc = d->ops->start(d->dec, &c);

	d->n = 0;
	add_code(d, 0);
	d->host.generation = 1;
	while (rc >= 0 && d->n + max <= N_EVENTS) {
		rc = d->ops->decode(d->dec, d->ev + d->n, max);
		if (rc <= 0)
			break;
		d->n += (size_t)rc;
		if (d->ev[d->n - 1].kind != AUX_FLOW_CONTEXT &&
		    !(d->ev[d->n - 1].flags & AUX_FLOW_HAS_TSC))
			continue;
		n += d->config.etm.ts_is_clock;
		d->host.generation = 1 + n / 3 % 2;
		add_code(d, n / 3 % 2);
	}
	return rc;
}

static bool is_sane(const struct fixture *d)
{
	uint64_t last = 100;

	for (size_t i = 0; i < d->n; i++) {
		const struct aux_flow *e = &d->ev[i];

		if (e->offset < last || e->offset > 100 + trace.n)
			return false;
		last = e->offset;
		if (e->kind == AUX_FLOW_RANGE &&
		    (!e->n || e->range.first > e->range.last ||
		     e->range.last >= 0x1000 + N_CODE * 4))
			return false;
	}
	return true;
}

static void show_event(const struct fixture *d, size_t i)
{
	char line[200] = "none";

	if (i < d->n)
		print_event(line, sizeof(line), &d->ev[i]);
	printf("# at %" PRIu64 ": %s flags %x\n",
	       i < d->n ? d->ev[i].offset - 100 : 0, line,
	       i < d->n ? d->ev[i].flags : 0);
}

static bool is_alike(int rc)
{
	size_t i = find_difference(&f, &g);

	if (i == g.n && (i == f.n || rc == -AUX_E_UNSUPPORTED))
		return true;
	printf("# seed %#" PRIx64 ": %zu of %zu and %zu events are alike\n", seed,
	       i, f.n, g.n);
	show_event(&f, i);
	show_event(&g, i);
	return false;
}

/* What etmpkt, which raw prints with, takes for packets: the text of each at its
 * offset, up to bytes that are none. */
static char texts[sizeof(trace.b) + 1][ETMPKT_TEXT];
static size_t n_parsed, n_compared;

static void parse_texts(const struct aux_etm_config *config)
{
	struct etmpkt s;
	size_t at = etmpkt_find_sync(trace.b, trace.n);
	int n = 1;

	memset(texts, 0, sizeof(texts));
	etmpkt_init(&s, config);
	for (; at < trace.n && n > 0; at += (size_t)n) {
		n = etmpkt_next(&s, trace.b + at, trace.n - at, texts[at]);
		if (n <= 0)
			break;
	}
	n_parsed = at;
}

/* The decoder's packets are those of etmpkt: its events are where one begins. After
 * what either takes for damage, both look for sync. */
static bool has_packets(const struct fixture *d)
{
	for (size_t i = 0; i < d->n; i++) {
		const struct aux_flow *e = &d->ev[i];
		const char *t = texts[e->offset - 100];

		if (e->offset - 100 >= n_parsed ||
		    (e->kind == AUX_FLOW_GAP && e->what != AUX_GAP_OVERFLOW &&
		     e->what != AUX_GAP_NO_CODE && e->what != AUX_GAP_NO_SYNC))
			return true;
		n_compared++;
		if (*t || (e->kind == AUX_FLOW_GAP && e->what == AUX_GAP_NO_SYNC))
			continue;
		printf("# seed %#" PRIx64 ": there is \"%s\"\n", seed, t);
		show_event(d, i);
		return false;
	}
	return true;
}

static void noise(struct registers r, bool alone)
{
	bool packets = true;
	unsigned n_alike = 0, n_left = 0;
	bool sane = true, alike = true;

	seed = 88172645463325252 + r.arch + r.configr;
	for (unsigned i = 0; sane && alike && i < N_ROUNDS; i++) {
		int rc;

		for (uint32_t k = 0; k < N_CODE; k++) {
			code[0][k] = make_insn(k);
			code[1][k] = rnd(3) ? code[0][k] : make_insn(k);
		}
		make_trace(&r, alone);
		open_one(&f, alone ? "etm" : "opencsd", r);
		open_one(&g, "etm", r);
		run_pull(&f, 1000);
		rc = run_pull(&g, 16);
		sane &= is_sane(&g) && (rc == 0 || rc == -AUX_E_UNSUPPORTED);
		alike &= is_alike(rc);
		parse_texts(&g.config.etm);
		packets &= has_packets(&g);
		n_alike += rc == 0;
		n_left += rc == -AUX_E_UNSUPPORTED;
		f.ops->close(f.dec);
		g.ops->close(g.dec);
	}
	ok(sane, "etm %u/%x/%d: ends, in order, with code that is there", r.arch,
	   r.configr, r.pull);
	ok(alike, "the same %s: %u whole traces, %u left to others",
	   alone ? "in small batches" : "as the reference gives", n_alike,
	   n_left);
	ok(packets && n_compared > N_ROUNDS,
	   "its packets are those that raw prints, at %zu events", n_compared);
	ok(n_alike > N_ROUNDS / 2, "most of them are whole");
}

/*
 * What is a packet for one parser is one for the other: header h, with fields that are
 * complete whatever it has. Except that the decoder leaves some to others, and takes
 * for damage what may not be where nothing is speculated.
 */
static bool has_header(const struct fixture *at, uint8_t h)
{
	static struct fixture d;
	size_t first;
	char line[ETMPKT_TEXT];
	bool is_speculated = h >= 0x2e && h <= 0x3f, bad = false;
	struct etmpkt s;
	int rc, n;

	d = *at;
	start_decoder(&d);
	trace.n = 0;
	v4_sync(&trace, false);
	put1(0x04);
	v4_context(&trace, 0, 7);
	v4_address(&trace, 0x1000);
	put1(0xf7);
	first = trace.n;
	put1(h);
	for (unsigned i = 0; i < 16; i++)
		put1(0x11);
	rc = run_pull(&d, 1000);
	for (size_t i = 0; i < d.n; i++)
		bad |= d.ev[i].kind == AUX_FLOW_GAP &&
		       d.ev[i].what == AUX_GAP_BAD_PACKET &&
		       d.ev[i].offset - 100 <= first + 1;
	d.ops->close(d.dec);
	etmpkt_init(&s, &d.config.etm);
	n = etmpkt_next(&s, trace.b + first, trace.n - first, line);
	if (n > 0 ? !bad || is_speculated : n < 0 && (bad || rc == -AUX_E_UNSUPPORTED))
		return true;
	printf("# header %02x: \"%s\", the decoder: %s, %d\n", h, n > 0 ? line : "",
	       bad ? "bad" : "good", rc);
	return false;
}

static void headers(unsigned arch, unsigned version, bool q)
{
	static struct fixture at;
	bool alike = true;

	ete_version = arch == AUX_ETM_ETE ? 0x47705a13 | version << 16 : 0;
	set_up(&at, "etm", (struct registers){ arch, CID | TS, false });
	ete_version = 0;
	if (arch == AUX_ETM_V4)
		at.config.etm.trcidr1 = 0x4100f403 | version << 4;
	if (q)
		at.config.etm.trcidr0 |= 0x18000;
	/* 0 begins a packet of two bytes or more */
	for (unsigned h = 1; h < 256; h++)
		alike &= has_header(&at, (uint8_t)h);
	ok(alike, "%s, version %u%s: both parsers know the same headers",
	   arch == AUX_ETM_ETE ? "ETE" : "ETMv4", version, q ? ", Q" : "");
}

/* Decoded again and again, several packets become one path. */
static void noise_joined(struct registers r)
{
	static struct aux_flow all[N_EVENTS];
	size_t n_joined = 0, first = 0;
	bool sound = true, alike = true;

	seed = 88172645463325252 + r.arch + r.configr + r.pull;
	for (unsigned i = 0; alike && i < N_ROUNDS; i++) {
		for (uint32_t k = 0; k < N_CODE; k++) {
			code[0][k] = make_insn(k);
			code[1][k] = rnd(3) ? code[0][k] : make_insn(k);
		}
		make_trace(&r, true);
		open_one(&f, "etm", r);
		open_one(&g, "etm", r);
		g.host.paths = AUX_PATHS_JOINED;
		for (unsigned round = 0; round < 4; round++) {
			int rc = run_pull(&f, 1000);
			size_t n;

			alike &= run_pull(&g, round == 3 ? 16 : 1000) == rc;
			n = expand(&g, all, &sound);
			/* of what is left to others, more or less is given */
			alike &= rc || n == f.n;
			alike &= is_joined(all, f.ev, n < f.n ? n : f.n);
			first = round ? first : g.n;
			n_joined += rc == 0 && g.n < first;
		}
		if (!alike)
			printf("# trace %u\n", i);
		f.ops->close(f.dec);
		g.ops->close(g.dec);
	}
	ok(sound && alike, "etm %u/%x/%d: joined paths are the same ranges",
	   r.arch, r.configr, r.pull);
	ok(n_joined > 0 || r.configr & RS, "there are such: %zu", n_joined);
}

/* A chunk decoded after others, and by a decoder that never saw another: nothing of
 * the one before has an influence. */
static void order(const char *decoder, struct registers r)
{
	unsigned n = 0;
	bool alike = true;

	if (!decoders_find(decoder, 0, NULL))
		return;
	seed = 88172645463325252 + r.arch + r.configr;
	for (uint32_t k = 0; k < N_CODE; k++)
		code[0][k] = code[1][k] = make_insn(k);
	open_one(&g, decoder, r);
	for (; alike && n < N_ROUNDS; n++) {
		make_trace(&r, true);
		if (rnd(2)) {	/* it begins without a context */
			trace.n = 0;
			v4_sync(&trace, r.configr & CCI);
			put1(0x04);
			put_address();
			v4_exception(&trace, 2 + rnd(13), 1, 0x1000);
			memmove(trace.b + trace.n - 8, trace.b + trace.n - 9, 9);
			trace.b[trace.n++ - 9] = 0x80;
			v4_atoms(&trace, "EN");
			put_some(&r, true);
		}
		open_one(&f, decoder, r);
		run_pull(&f, 1000);
		alike &= is_alike(run_pull(&g, 1000));
		f.ops->close(f.dec);
	}
	ok(alike, "%s: %u chunks, the same in any order", decoder, n);
	g.ops->close(g.dec);
}

int main(void)
{
	order("etm", (struct registers){ AUX_ETM_V4, CID | TS, false });
	order("etm", (struct registers){ AUX_ETM_V4, CID | CCI | RS, false });
	order("opencsd", (struct registers){ AUX_ETM_V4, CID | TS, false });
	order("opencsd", (struct registers){ AUX_ETM_V4, CID | CCI | RS, false });
	for (unsigned arch = AUX_ETM_V4; arch <= AUX_ETM_ETE; arch++) {
		for (unsigned version = 0; version < 7; version++)
			headers(arch, version, version & 1);
		for (int pull = 0; pull < 2; pull++) {
			if (has_reference()) {
				noise((struct registers){ arch, CID | TS, pull },
				      false);
				noise((struct registers){ arch, CID | CCI, pull },
				      false);
				ete_version = 0x47735a13;	/* has ITE */
				noise((struct registers){ arch, CID | TS, pull },
				      false);
				ete_version = 0;
			}
			noise((struct registers){ arch, CID | TS, pull }, true);
			noise((struct registers){ arch, CID | TS | RS, pull },
			      true);
			noise_joined((struct registers){ arch, CID | TS, pull });
			noise_joined((struct registers){ arch, CID | CCI, pull });
			noise_joined((struct registers){ arch, CID | TS | RS,
							 pull });
		}
	}
	return plan_done();
}
