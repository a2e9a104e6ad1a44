/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * The OpenCSD decoder's contract with its host: it returns after each event at which the
 * host may switch code, and has not read any code of what follows. The host gives other code
 * after each such event, so that code read too early shows.
 */
#include <pthread.h>

#include "tests/unit/opencsd_fixture.h"
#include "tests/unit/tap.h"

/* table: the loop has two instructions, or three; the last one goes back */
static const uint32_t a64[2][3] = {
	{ 0xd503201f, 0xb5ffffe0, 0xd503201f },
	{ 0xd503201f, 0xd503201f, 0xb5ffffc0 },
};

/* table */
static const uint32_t a32[2][3] = {
	{ 0xe1a00000, 0x1afffffd, 0xe1a00000 },
	{ 0xe1a00000, 0xe1a00000, 0x1afffffc },
};

static void configure(struct fixture *f, unsigned arch)
{
	struct aux_etm_config *etm = &f->config.etm;

	begin(f, arch);
	if (arch == AUX_ETM_V3 || arch == AUX_ETM_PTM) {
		etm->etmcr = 0x1000c000; /* timestamps, context ids of 32 bits */
		etm->etmidr = arch == AUX_ETM_V3 ? 0x410cf250 : 0x411cf312;
		etm->etmccer = arch == AUX_ETM_V3 ? 0x344008f2 : 0x34c01ac2;
		return;
	}
	etm->trcconfigr = 0x840;
	etm->trcidr0 = 0x28000ea1;
	etm->trcidr1 = 0x4100f403;
	etm->trcidr2 = 0x488;
	if (arch == AUX_ETM_ETE) {
		etm->trcidr1 = 0x4100fff0;
		etm->trcdevarch = 0x47705a13;
	}
}

/* Once round the loop of n instructions. */
static void go_round(struct packet_bytes *p, unsigned arch, unsigned n)
{
	if (arch == AUX_ETM_V4 || arch == AUX_ETM_ETE)
		v4_atoms(p, "E");
	else if (arch == AUX_ETM_PTM)
		PUT(p, 0x84);
	else if (n == 2)
		PUT(p, 0x88);	/* an atom for each instruction */
	else
		PUT(p, 0x8c);
}

static void begin_trace(struct packet_bytes *p, unsigned arch)
{
	p->n = 0;
	if (arch == AUX_ETM_V4 || arch == AUX_ETM_ETE) {
		v4_sync(p, false);
		PUT(p, 0x04);
		v4_context(p, 0, 1);
		v4_address(p, 0x1000);
		return;
	}
	v7_sync(p);
	if (arch == AUX_ETM_V3)
		PUT(p, 0x08, 1, 0, 0, 0, 0x21, 0x00, 0x10, 0, 0);
	else
		PUT(p, 0x08, 0x00, 0x10, 0, 0, 0x21, 1, 0, 0, 0);
}

/* TIME and CONTEXT in turn, the loop in between. */
static void make_trace(struct packet_bytes *p, unsigned arch, unsigned first)
{
	bool v7 = arch == AUX_ETM_V3 || arch == AUX_ETM_PTM;
	unsigned n = first;

	begin_trace(p, arch);
	for (uint32_t i = 0; i < 40; i++) {
		go_round(p, arch, 2 + n % 2);
		if (i % 2 && v7)
			v7_context(p, 2 + i);
		else if (i % 2)
			v4_context(p, 0, 2 + i);
		else if (v7)
			v7_time(p, 500 + i);
		else
			v4_time(p, 500 + i);
		n++;
	}
}

/* Runs it; the code changes at each return behind a TIME or CONTEXT. */
static bool decode(struct fixture *f, const struct packet_bytes *p, unsigned arch,
		   unsigned *n_switch, size_t max)
{
	struct aux_chunk c = { .size = sizeof(c), .data = p->b, .len = p->n };
	bool v7 = arch == AUX_ETM_V3 || arch == AUX_ETM_PTM;
	int rc;

	*n_switch = 0;
	f->n = 0;
	f->host.generation = 0;
	f->n_areas = 0;
	add_area(f, 0x1000, v7 ? a32[0] : a64[0], 12);
	f->ops->start(f->dec, &c);
	while ((rc = f->ops->decode(f->dec, f->ev + f->n, max)) > 0) {
		for (int i = 0; i + 1 < rc; i++) {
			uint8_t kind = f->ev[f->n + (size_t)i].kind;

			if (kind == AUX_FLOW_TIME || kind == AUX_FLOW_CONTEXT)
				return false;
		}
		f->n += (size_t)rc;
		if (f->ev[f->n - 1].kind != AUX_FLOW_TIME &&
		    f->ev[f->n - 1].kind != AUX_FLOW_CONTEXT)
			continue;
		++*n_switch;
		f->host.generation = *n_switch % 2;
		f->n_areas = 0;
		add_area(f, 0x1000, v7 ? a32[*n_switch % 2] : a64[*n_switch % 2],
			 12);
	}
	return rc == 0;
}

/* How many RANGEs end where the code of their time does. */
static unsigned count_right(const struct fixture *f, unsigned *n_taken)
{
	unsigned n_switch = 0, right = 0;

	*n_taken = 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct aux_flow *e = &f->ev[i];

		if (e->kind == AUX_FLOW_TIME || e->kind == AUX_FLOW_CONTEXT)
			n_switch++;
		if (e->kind != AUX_FLOW_RANGE || e->what != AUX_END_COND_TAKEN)
			continue;
		++*n_taken;
		right += e->range.last == 0x1004 + 4 * (n_switch % 2);
	}
	return right;
}

static void pull(unsigned arch, const char *name)
{
	struct fixture f;
	struct packet_bytes p;
	unsigned n_switch, n_taken;

	configure(&f, arch);
	f.host.horizon_tsc = 0;
	f.host.context_switches = 1;
	start_decoder(&f);
	for (size_t max = 16; max <= 1024; max *= 8) {
		make_trace(&p, arch, 1);
		ok(decode(&f, &p, arch, &n_switch, max),
		   "%s: each TIME and CONTEXT ends its batch", name);
		is_u64(n_switch, 41, "so often the code has changed");
		is_u64(count_right(&f, &n_taken), 40,
		       "what runs is what was there at the time");
		is_u64(n_taken, 40, "each round");
	}
	f.ops->close(f.dec);
}

/* Nobody has to switch: TIME and CONTEXT are nothing special. */
static void no_switch(void)
{
	struct fixture f;
	struct packet_bytes p;

	configure(&f, AUX_ETM_V4);
	start_decoder(&f);
	make_trace(&p, AUX_ETM_V4, 0);
	add_area(&f, 0x1000, a64[0], 12);
	ok(run(&f, p.b, p.n, 512) && f.n == 82, "all events");
	is_u64(f.asked, 1, "the code is asked for once");
	ok(run(&f, p.b, p.n, 512) && f.n == 82 && f.asked == 1,
	   "not again for another chunk");
	f.host.generation++;
	ok(run(&f, p.b, p.n, 512) && f.n == 82 && f.asked == 2,
	   "but for another generation");
	f.host.generation--;
	ok(run(&f, p.b, p.n, 512) && f.n == 82 && f.asked == 2,
	   "and that one is still known");
	f.ops->close(f.dec);
}

static void *work(void *arg)
{
	static const unsigned archs[] = { AUX_ETM_V4, AUX_ETM_ETE, AUX_ETM_V3,
					  AUX_ETM_PTM };
	struct fixture *f = arg;
	struct packet_bytes p;
	unsigned n_switch, n_taken;
	bool fine = true;

	for (unsigned i = 0; i < 200; i++) {
		unsigned arch = archs[i % 4];

		configure(f, arch);
		f->host.horizon_tsc = 0;
		f->host.context_switches = 1;
		start_decoder(f);
		make_trace(&p, arch, 1);
		fine &= decode(f, &p, arch, &n_switch, 64) &&
			count_right(f, &n_taken) == 40;
		f->ops->close(f->dec);
	}
	return fine ? f : NULL;
}

static void threads(void)
{
	static struct fixture f[4];
	pthread_t t[4];
	bool fine = true;
	void *r;

	for (unsigned i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, &f[i]);
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(t[i], &r);
		fine &= r != NULL;
	}
	ok(fine, "four threads with decoders of their own");
}

int main(void)
{
	pull(AUX_ETM_V4, "ETMv4");
	pull(AUX_ETM_ETE, "ETE");
	pull(AUX_ETM_V3, "ETMv3");
	pull(AUX_ETM_PTM, "PTM");
	no_switch();
	threads();
	return plan_done();
}
