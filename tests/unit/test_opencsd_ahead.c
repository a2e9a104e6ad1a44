/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * The OpenCSD decoder emits the time of a run before it asks for the run's code, if the host
 * may switch code at that time: in the trace a timestamp follows the first instructions
 * that it dates. A run without a timestamp does not take that of another run.
 */
#include "tests/unit/opencsd_fixture.h"
#include "tests/unit/tap.h"

/* nop; cbnz x0, to the nop */
static const uint32_t code[2] = { 0xd503201f, 0xb5ffffe0 };
/* the same, an instruction more */
static const uint32_t other[3] = { 0xd503201f, 0xd503201f, 0xb5ffffc0 };

static void configure(struct fixture *f, unsigned arch)
{
	struct aux_etm_config *etm = &f->config.etm;

	begin(f, arch);
	etm->trcconfigr = 0x8c0;	/* TS, VMID, CID */
	etm->trcidr0 = 0x28000ea1;
	etm->trcidr1 = 0x4100f403;
	etm->trcidr2 = 0x1088;
	etm->ts_is_clock = 1;
	if (arch == AUX_ETM_ETE) {
		etm->trcidr1 = 0x4100fff0;
		etm->trcdevarch = 0x47705a13;
	}
	f->host.horizon_tsc = 0;
	f->host.context_switches = 1;
	add_area(f, 0x1000, code, sizeof(code));
	start_decoder(f);
}

static void enter(struct packet_bytes *p)
{
	PUT(p, 0x04);
	v4_context(p, 0, 7);
	v4_address(p, 0x1000);
}

static void call_kernel(struct packet_bytes *p)
{
	v4_exception(p, 2, 1, 0x1000);
	v4_context(p, 1, 7);
}

static void begin_trace(struct packet_bytes *p)
{
	p->n = 0;
	v4_sync(p, false);
}

/* The trace begins in user code. */
static void begin_user(struct packet_bytes *p)
{
	begin_trace(p);
	enter(p);
}

/* The context comes before the Trace On, the timestamp behind the first atom. */
static void put_late_time(struct packet_bytes *p)
{
	v4_context(p, 0, 7);
	PUT(p, 0x04);
	v4_address(p, 0x1000);
	v4_atoms(p, "E");
	v4_time(p, 500);
}

/* What it gives, and that it ends each time. */
static void gives(struct fixture *f, const struct packet_bytes *p, const char *want,
		  const char *name)
{
	bool same = true;

	ok(run(f, p->b, p->n, 16), "%s: ends", name);
	is_str(text(f), want, name);
	for (size_t i = 1; i < f->n; i++)
		same &= f->ev[i].offset >= f->ev[i - 1].offset;
	ok(same, "%s: offsets do not go back", name);
}

static void runs(unsigned arch)
{
	struct fixture f;
	struct packet_bytes p;

	configure(&f, arch);
	begin_user(&p);
	v4_atoms(&p, "E");
	v4_time(&p, 500);
	v4_atoms(&p, "E");
	v4_time(&p, 510);
	call_kernel(&p);
	gives(&f, &p, "on el4/7/0 t500+0 1000-1004/2:taken "
	      "1000-1004/2:taken t510+0 async2:1000>0 el5/7/0 ",
	      "the first timestamp of a run, and no other");

	begin_user(&p);
	call_kernel(&p);
	v4_time(&p, 500);
	enter(&p);
	v4_atoms(&p, "E");
	call_kernel(&p);
	enter(&p);
	v4_atoms(&p, "EE");
	v4_time(&p, 700);
	gives(&f, &p, "on el4/7/0 t500+0 async2:1000>0 el5/7/0 off "
	      "on el4/7/0 1000-1004/2:taken async2:1000>0 el5/7/0 off "
	      "on el4/7/0 t700+0 1000-1004/2:taken 1000-1004/2:taken ",
	      "of the exception that ends it; or none");
	f.ops->close(f.dec);
}

/* All that may stand between an address and the timestamp. */
static void between(unsigned arch)
{
	struct fixture f;
	struct packet_bytes p;

	configure(&f, arch);
	begin_user(&p);
	v4_atoms(&p, "E");
	PUT(&p, 0x95, 0x82, 0x20);	/* short addresses: 1000, */
	v4_atoms(&p, "E");
	PUT(&p, 0x90, 0x70, 0x7f);	/* the same, ignore, an event */
	v4_atoms(&p, "E");
	PUT(&p, 0x9a, 0x00, 0x08, 0, 0);	/* 32 bits */
	v4_atoms(&p, "E");
	v4_address(&p, 0x1000);
	PUT(&p, 0x0e, 0x02, 0x13, 0x0d, 0xf1);	/* cycles */
	if (arch == AUX_ETM_ETE)
		PUT(&p, 0x88);
	v4_time(&p, 0x123456789abcdef);
	ok(run(&f, p.b, p.n, 16), "ends");
	ok(f.n > 3 && f.ev[2].kind == AUX_FLOW_TIME &&
	   f.ev[2].time.tsc == 0x123456789abcdef,
	   "behind addresses, events and cycles");

	begin_trace(&p);
	put_late_time(&p);
	call_kernel(&p);
	PUT(&p, 0x04);
	v4_address_context(&p, 0x1000, 0, 0x02020202);
	v4_atoms(&p, "E");
	PUT(&p, 0x02, 0x75);		/* the low bits alone */
	gives(&f, &p, "el4/7/0 on:1000 t500+0 1000-1004/2:taken async2:1000>0 "
	      "el5/7/0 "
	      "off on:1000 el4/2020202/0 t501+0 1000-1004/2:taken ",
	      "without a context, and with one in the address");
	f.ops->close(f.dec);
}

/* Trace of the kernel, too: no Trace On tells that user code goes on. */
static void kernel(void)
{
	struct fixture f;
	struct packet_bytes p;

	configure(&f, AUX_ETM_V4);
	begin_trace(&p);
	v4_context(&p, 1, 7);
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
	v4_time(&p, 400);
	v4_atoms(&p, "E");
	v4_context(&p, 0, 7);
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
	v4_time(&p, 500);
	v4_exception(&p, 2, 1, 0x1000);
	v4_context(&p, 1, 7);
	v4_address(&p, 0x1000);
	v4_atoms(&p, "E");
	v4_time(&p, 600);
	gives(&f, &p, "el5/7/0 t400+0 1000-1004/2:taken 1000-1004/2:taken "
	      "el4/7/0 t500+0 1000-1004/2:taken async2:1000>0 el5/7/0 "
	      "1000-1004/2:taken t600+0 ",
	      "at the beginning, and back in user code; not in the kernel");
	f.ops->close(f.dec);
}

/* Cycles are told once, whether the time was told before or not. */
static void cycles(void)
{
	struct fixture f;
	struct packet_bytes p;

	configure(&f, AUX_ETM_V4);
	begin_user(&p);
	v4_atoms(&p, "E");
	PUT(&p, 0x03, 0x64, 0x05);	/* 100, 5 cycles */
	v4_atoms(&p, "E");
	PUT(&p, 0x03, 0x65, 0x06);
	gives(&f, &p, "on el4/7/0 t100+0 1000-1004/2:taken t100+5 "
	      "1000-1004/2:taken t101+6 ", "cycles");
	f.ops->close(f.dec);
}

/* Nobody asks for it, or nobody could use it. */
static void not_wanted(void)
{
	static const char late[] = "el4/7/0 on:1000 1000-1004/2:taken t500+0 ";
	struct fixture f;
	struct packet_bytes p;

	begin_trace(&p);
	put_late_time(&p);
	configure(&f, AUX_ETM_V4);
	f.host.horizon_tsc = UINT64_MAX;
	f.host.context_switches = 0;
	gives(&f, &p, late, "a host that never switches");
	f.ops->close(f.dec);

	configure(&f, AUX_ETM_V4);
	f.config.etm.ts_is_clock = 0;
	gives(&f, &p, late, "timestamps of no clock");
	f.ops->close(f.dec);
}

/* The chunk ends anywhere in it. */
static void cut(void)
{
	struct fixture f;
	struct packet_bytes p;
	bool fine = true;

	configure(&f, AUX_ETM_ETE);
	begin_trace(&p);
	PUT(&p, 0x04);
	v4_address_context(&p, 0x1000, 0, 7);
	v4_atoms(&p, "E");
	PUT(&p, 0x9a, 0x00, 0x08, 0, 0, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x0e,
	    0x85, 0x01);
	v4_exception(&p, 2, 1, 0x1000);
	v4_context(&p, 1, 7);
	v4_time(&p, UINT64_MAX >> 1);
	for (size_t n = 0; n <= p.n; n++) {
		uint8_t *exact = malloc(n + !n);

		memcpy(exact, p.b, n);
		fine &= run(&f, exact, n, 16);
		free(exact);
	}
	ok(fine, "a chunk that ends anywhere");
	f.ops->close(f.dec);
}

/* One process, other code by each TIME. */
static void switches(void)
{
	struct aux_chunk c = { .size = sizeof(c) };
	struct fixture f;
	struct packet_bytes p;
	unsigned n = 0, right = 0;
	bool late = false;
	int rc;

	configure(&f, AUX_ETM_V4);
	begin_trace(&p);
	for (unsigned i = 0; i < 40; i++) {
		enter(&p);
		v4_atoms(&p, "EE");
		v4_time(&p, 500 + i);
		call_kernel(&p);
	}
	c.data = p.b;
	c.len = p.n;
	f.ops->start(f.dec, &c);
	while ((rc = f.ops->decode(f.dec, f.ev, 64)) > 0) {
		for (int i = 0; i < rc; i++) {
			const struct aux_flow *e = &f.ev[i];

			right += e->kind == AUX_FLOW_RANGE &&
				 e->range.last == 0x1004 + 4 * (n % 2);
			if (e->kind != AUX_FLOW_TIME)
				continue;
			late |= i + 1 < rc;
			f.host.generation = 1 + ++n % 2;
			f.n_areas = 0;
			add_area(&f, 0x1000, n % 2 ? other : code,
				 n % 2 ? sizeof(other) : sizeof(code));
		}
	}
	ok(rc == 0 && !late, "each TIME is the last of its batch");
	is_u64(n, 40, "one in each run");
	is_u64(right, 80, "whose code is the one of its time");
	f.ops->close(f.dec);
}

int main(void)
{
	runs(AUX_ETM_V4);
	runs(AUX_ETM_ETE);
	between(AUX_ETM_V4);
	between(AUX_ETM_ETE);
	kernel();
	cycles();
	not_wanted();
	cut();
	switches();
	return plan_done();
}
