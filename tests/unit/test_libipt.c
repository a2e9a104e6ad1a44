/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: IPT */
/* links: decode */
/*
 * The libipt decoder against packets made by hand, and against noise.
 */
#include <stdbool.h>
#include <stdlib.h>

#include <aux/decoder.h>

#include "tests/unit/mkpt.h"
#include "decode/lib/session/decoders.h"
#include "tests/unit/tap.h"

/*
 * 1000 dec eax	     1002 jne 1000	1004 call 1010	   1009 syscall
 * 100b nop	     100c jmp *rax	1010 ret	   1011 nop
 * 1012 jmp 1012
 */
static const uint8_t code_bytes[] = {
	0xff, 0xc8, 0x75, 0xfc, 0xe8, 0x07, 0, 0, 0, 0x0f, 0x05, 0x90,
	0xff, 0xe0, 0x90, 0x90, 0xc3, 0x90, 0xeb, 0xfe,
};

struct fixture {
	struct aux_decoder_config config;
	struct aux_decoder_host host;
	const struct aux_decoder_ops *ops;
	void *dec;
	struct aux_flow ev[4096];
	size_t n;
	unsigned asked;		/* calls of code */
};

static int give_code(void *priv, uint64_t ip, struct aux_code *c)
{
	struct fixture *f = priv;

	f->asked++;
	if (ip < 0x1000 || ip >= 0x1000 + sizeof(code_bytes))
		return -AUX_E_NOENT;
	*c = (struct aux_code){ .start = 0x1000,
				.end = 0x1000 + sizeof(code_bytes),
				.bytes = code_bytes };
	return 0;
}

static void begin(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->config.size = sizeof(f->config);
	f->config.clock.mult = 1;
	f->host = (struct aux_decoder_host){ .size = sizeof(f->host), .priv = f,
					     .code = give_code, .generation = 1,
					     .horizon_tsc = UINT64_MAX };
	f->ops = decoders_find("libipt", 0, NULL);
	if (!f->ops || f->ops->open(&f->dec, &f->config, &f->host, NULL) < 0)
		abort();
}

/* Decodes all; out of place when it does not end. */
static bool run(struct fixture *f, const uint8_t *data, size_t len,
		uint64_t end_ip)
{
	struct aux_chunk c = { .size = sizeof(c), .data = data, .len = len,
			       .stream_offset = 100, .end_ip = end_ip,
			       .flags = end_ip ? AUX_CHUNK_HAS_END_IP : 0 };
	int rc;

	f->n = 0;
	if (f->ops->start(f->dec, &c) < 0)
		return false;
	for (int i = 0; i < 20000; i++) {
		if (f->n + 16 > 4096)
			f->n = 0;
		rc = f->ops->decode(f->dec, f->ev + f->n, 16);
		if (rc <= 0)
			return rc == 0;
		f->n += (size_t)rc;
	}
	return false;
}

static char *text(const struct fixture *f)
{
	static const char *const ends[] = {
		"fall", "taken", "not", "jump", "call", "ret", "ijump",
		"icall", "syscall", "far", "cond",
	};
	static char buf[4096];
	size_t n = 0;

	buf[0] = 0;
	for (size_t i = 0; i < f->n && n < sizeof(buf); i++) {
		const struct aux_flow *e = &f->ev[i];
		char *p = buf + n;
		size_t left = sizeof(buf) - n;
		int k = 0;

		if (e->kind == AUX_FLOW_RANGE)
			k = snprintf(p, left, "%" PRIx64 "-%" PRIx64 "/%u:%s ",
				     e->range.first, e->range.last, e->n,
				     ends[e->what]);
		else if (e->kind == AUX_FLOW_TIME)
			k = snprintf(p, left, "t%" PRIu64 " ", e->time.ns);
		else if (e->kind == AUX_FLOW_TRACE_ON)
			k = snprintf(p, left, "on:%" PRIx64 " ", e->trace.ip);
		else if (e->kind == AUX_FLOW_TRACE_OFF)
			k = snprintf(p, left, "off ");
		else if (e->kind == AUX_FLOW_ASYNC)
			k = snprintf(p, left, "async:%" PRIx64 " ",
				     e->async.from);
		else if (e->kind == AUX_FLOW_GAP)
			k = snprintf(p, left, "gap%u:%" PRIx64 " ", e->what,
				     e->gap.ip);
		else
			k = snprintf(p, left, "kind%u ", e->kind);
		n += (size_t)k;
	}
	return buf;
}

static void flow(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f);
	pt_psb(&p, 50, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "TTN");	/* loop; the call needs nothing */
	pt_tip(&p, 0x1009);	/* the ret */
	pt_pgd(&p);		/* the syscall */
	pt_tsc(&p, 60);
	pt_pge(&p, 0x100b);
	pt_tip(&p, 0x1000);
	pt_fup(&p, 0x1002);
	pt_pgd(&p);
	ok(run(&f, p.b, p.n, 0), "ends");
	is_str(text(&f),
	       "t50 on:1000 1000-1002/2:taken 1000-1002/2:taken "
	       "1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	       "1009-1009/1:syscall off t60 on:100b 100b-100c/2:ijump "
	       "1000-1000/1:fall async:1002 off ", "the flow");
	ok(f.n > 2 && f.ev[2].flags == 2, "size of the last instruction");
	f.ops->close(f.dec);
}

static void horizon(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };
	struct aux_chunk c = { .size = sizeof(c) };
	int rc;

	begin(&f);
	pt_psb(&p, 50, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x100b);
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	pt_tsc(&p, 70);
	pt_pge(&p, 0x1000);
	pt_tnt(&p, "N");
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	c.data = p.b;
	c.len = p.n;
	f.host.horizon_tsc = 0;
	f.ops->start(f.dec, &c);
	rc = f.ops->decode(f.dec, f.ev, 16);
	ok(rc == 1 && f.ev[0].kind == AUX_FLOW_TIME && !f.asked,
	   "returns at the first TIME, before it asks for code");
	f.host.horizon_tsc = 70;
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 2 && f.ev[rc - 1].kind == AUX_FLOW_TIME &&
	   f.ev[rc - 1].time.tsc == 70, "and at the one that reaches it");
	f.asked = 0;
	f.host.horizon_tsc = UINT64_MAX;
	f.host.generation = 2;
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 0 && f.ev[0].kind == AUX_FLOW_TRACE_ON && f.asked,
	   "a new generation asks for code again");
	is_u64(f.ops->decode(f.dec, f.ev, 64), 0, "the end");
	p.n = 0;
	pt_psb(&p, 500, 0x5000);
	pt_tnt(&p, "T");
	pt_psb(&p, 100, 0x1000);
	pt_tnt(&p, "T");
	c.len = p.n;
	f.ops->start(f.dec, &c);
	rc = f.ops->decode(f.dec, f.ev, 64);
	ok(rc > 2 && f.ev[rc - 1].kind == AUX_FLOW_TIME &&
	   f.ev[rc - 1].time.tsc == 100, "and where time goes back");
	f.ops->close(f.dec);
}

static void gaps(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f);
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "N");
	pt_tip(&p, 0x5000);	/* no code */
	pt_tnt(&p, "T");
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	pt_ovf(&p);
	pt_fup(&p, 0x100b);
	pt_tip(&p, 0x1009);
	pt_pgd(&p);
	pt_u8(&p, 0xd5);	/* no packet */
	pt_u8(&p, 0xff);
	pt_u8(&p, 0xff);
	pt_psb(&p, 0, 0);
	pt_mode64(&p);
	pt_pge(&p, 0x1009);
	pt_pgd(&p);
	ok(run(&f, p.b, p.n, 0), "ends");
	is_str(text(&f),
	       "on:1000 1000-1002/2:not 1004-1004/1:call 1010-1010/1:ret "
	       "gap2:5000 on:1000 1000-1002/2:cond gap1:100b "
	       "100b-100c/2:ijump gap3:100c on:1009 1009-1009/1:syscall off ",
	       "each loss is told, flow resumes");
	f.ops->close(f.dec);
}

static void ends(void)
{
	struct fixture f;
	struct pt p = { .n = 0 };

	begin(&f);
	pt_psb(&p, 0, 0x1000);
	pt_tnt(&p, "T");
	ok(run(&f, p.b, p.n, 0), "ends");
	is_str(text(&f), "on:1000 1000-1002/2:cond ",
	       "nothing is walked behind the last packet");
	ok(run(&f, p.b, p.n, 0x1002), "with an end ip");
	is_str(text(&f), "on:1000 1000-1002/2:taken 1000-1000/1:fall ",
	       "walked to there");
	ok(run(&f, p.b, p.n, 0x1011), "with one that cannot be reached");
	ok(f.n && f.ev[f.n - 1].kind == AUX_FLOW_GAP, "a gap");
	p.n = 0;
	pt_psb(&p, 0, 0x1012);
	pt_fup(&p, 0x1009);
	pt_pgd(&p);
	ok(run(&f, p.b, p.n, 0), "an endless loop that the trace does not end");
	is_str(text(&f), "on:1012 gap4:1012 ", "none of its rounds is shown");
	f.ops->close(f.dec);
}

/* Broken trace ends, keeps its offsets in order, and never invents code. */
static void noise(void)
{
	struct fixture f;
	struct pt good = { .n = 0 }, p;
	uint64_t seed = 7;
	bool fine = true;

	begin(&f);
	for (int i = 0; i < 6; i++) {
		pt_psb(&good, 50 + (uint64_t)i, 0x1000);
		pt_tnt(&good, "TTTTN");
		pt_tip(&good, 0x1009);
		pt_pgd(&good);
		pt_pge(&good, 0x100b);
		pt_tip(&good, 0x1000);
		pt_tnt(&good, "TT");
	}
	for (int i = 0; fine && i < 3000; i++) {
		uint64_t last = 0;

		p = good;
		for (int j = 0; j < 1 + i % 5; j++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			p.b[(seed >> 33) % p.n] = (uint8_t)(seed >> 20);
		}
		fine &= run(&f, p.b, p.n - (seed >> 40) % 16, 0);
		for (size_t j = 0; j < f.n; j++) {
			const struct aux_flow *e = &f.ev[j];

			fine &= e->offset >= last && e->offset >= 100 &&
				e->offset <= 100 + p.n;
			last = e->offset;
			if (e->kind == AUX_FLOW_RANGE)
				fine &= e->n && e->range.first >= 0x1000 &&
					e->range.first <= e->range.last &&
					e->range.last < 0x1014;
		}
	}
	ok(fine, "3000 broken traces");
	f.ops->close(f.dec);
}

int main(void)
{
	flow();
	horizon();
	gaps();
	ends();
	noise();
	return plan_done();
}
