/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * export: text that is not valid UTF-8, spools that grow side by side, gzip, protobuf; and
 * the sink on a flow with a gap, without a thread, and with times that go back.
 */
#include <stdlib.h>
#include <unistd.h>
#ifdef HAVE_Z
#include <zlib.h>
#endif

#include "common/outbuf.h"
#include "common/protobuf.h"
#include "decode/export/export.h"
#include "tests/unit/sinkrun.h"
#include "tests/unit/tap.h"

static void is_text(struct outbuf *o, const char *want, const char *what)
{
	char *s = take_text(o);

	is_str(s, want, what);
	free(s);
}

static void test_clean(void)
{
	/* table */
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" },
		{ "\xff", "\xef\xbf\xbd" },
		{ "a\x80z", "a\xef\xbf\xbdz" },
		{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf4\x90\x80\x80",
		  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd" },
	};
	char buf[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = strlen(cases[i].in), n;

		n = export_clean(NULL, cases[i].in, len);
		is_u64(n, strlen(cases[i].out), "length");
		buf[export_clean(buf, cases[i].in, len)] = 0;
		is_str(buf, cases[i].out, "cleaned");
	}
	is_u64(export_cut("ab\xe2\x82\xac", 5, 4), 2, "cut at a character");
	is_u64(export_cut("ab\xe2\x82\xac", 5, 5), 5, "nothing to cut");
}

static void test_json(void)
{
	struct outbuf *o = outbuf_new(-1);
	char long_text[201], want[300] = "\"";

	export_json_string(o, "a\"\\\n\t\x01\x7f\xff<");
	is_text(o, "\"a\\\"\\\\\\n\\t\\u0001\\u007f\xef\xbf\xbd<\"", "JSON");
	/* characters that lie across the pieces it is cleaned in */
	memset(long_text, 'x', 200);
	for (size_t i = 62; i < 198; i += 3)
		memcpy(long_text + i, "\xe2\x82\xac", 3);
	long_text[200] = 0;
	memcpy(want + 1, long_text, 200);
	memcpy(want + 201, "\"", 2);
	o = outbuf_new(-1);
	export_json_string(o, long_text);
	is_text(o, want, "a long one stays whole");
	o = outbuf_new(-1);
	export_put_us(o, 12345678);
	outbuf_put(o, " ", 1);
	export_put_us(o, 12000);
	outbuf_put(o, " ", 1);
	export_put_us(o, 7);
	is_text(o, "12345.678 12 0.007", "microseconds keep nanoseconds");
}

static void test_spool(void)
{
	struct export_spool *s = export_spool_new();
	struct export_piece *p[3];
	unsigned n[3] = { 0 };
	bool same = true;

	for (unsigned k = 0; k < 3; k++)
		p[k] = export_spool_piece(s);
	for (unsigned i = 0; i < 30000; i++) {
		char line[32];
		unsigned k = i * 7919u % 3 * (i % 5 != 0);
		int len = snprintf(line, sizeof(line), "%u of %u\n", n[k]++, k);

		same &= !export_spool_put(s, p[k], line, (size_t)len);
	}
	ok(same, "put");
	for (unsigned k = 0; k < 3; k++) {
		struct outbuf *o = outbuf_new(-1), *want = outbuf_new(-1);

		ok(!export_spool_write(s, p[k], o), "written");
		for (unsigned i = 0; i < n[k]; i++)
			outbuf_printf(want, "%u of %u\n", i, k);
		ok(o->p - o->buf == want->p - want->buf &&
			   !memcmp(o->buf, want->buf, (size_t)(o->p - o->buf)),
		   "piece %u: %u lines", k, n[k]);
		outbuf_free(o);
		outbuf_free(want);
	}
	export_spool_free(s);
}

#ifdef HAVE_Z
static void test_gzip(void)
{
	struct outbuf *o = outbuf_new(-1);
	struct gzip *g = gzip_new(o);
	static char in[300000], out[sizeof(in) + 1];
	z_stream z = { 0 };

	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (char)(i * i >> 7);
	ok(!gzip_put(g, in, 10) && !gzip_put(g, in + 10, 0) &&
		   !gzip_put(g, in + 10, sizeof(in) - 10) &&
		   !gzip_finish(g), "gzip");
	inflateInit2(&z, 15 + 16);
	z.next_in = (Bytef *)o->buf;
	z.avail_in = (uInt)(o->p - o->buf);
	z.next_out = (Bytef *)out;
	z.avail_out = sizeof(out);
	is_u64((uint64_t)inflate(&z, Z_FINISH), Z_STREAM_END, "zlib reads it");
	ok(z.total_out == sizeof(in) && !z.avail_in &&
		   !memcmp(in, out, sizeof(in)), "all of it");
	inflateEnd(&z);
	gzip_free(g);
	outbuf_free(o);
}
#else
static void test_gzip(void)
{
	skip("built without zlib");
}
#endif

static void test_protobuf(void)
{
	static const uint8_t want[] = { 0x08, 0x96, 0x01, 0x12, 0x04, 0x1a,
					0x02, 'h',  'i',  0x18, 0xff, 0xff,
					0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff, 0x01 };
	struct protobuf p = { 0 };
	size_t outer;
	char text[300];

	protobuf_u64(&p, 1, 150);	/* the specification's example */
	outer = protobuf_begin(&p, 2);
	protobuf_str(&p, 3, "hi");
	protobuf_end(&p, outer);
	protobuf_i64(&p, 3, -1);
	ok(p.n == sizeof(want) && !memcmp(p.buf, want, p.n), "bytes");
	protobuf_reset(&p);
	memset(text, 'x', sizeof(text));
	outer = protobuf_begin(&p, 2);
	protobuf_bytes(&p, 1, text, sizeof(text));
	protobuf_end(&p, outer);
	is_u64(p.n, 306, "a length of two bytes");
	ok(p.buf[1] == 0xaf && p.buf[2] == 0x02 && p.buf[3] == 0x0a &&
		   p.buf[305] == 'x', "in front of what moved");
	protobuf_fini(&p);
}

static void test_map(void)
{
	struct export_map m = { 0 };
	bool same = true;

	for (uint64_t i = 0; i < 5000; i++)
		same &= export_map_find(&m, i % 7, i, i << 40) == (int64_t)i;
	for (uint64_t i = 0; i < 5000; i++)
		same &= export_map_find(&m, i % 7, i, i << 40) == (int64_t)i;
	ok(same && m.n == 5000, "numbers in the order met");
	export_map_fini(&m);
}

/* ---- the sink ---- */

static const struct space space = { .id = 5, .pid = 7 };

static struct flow_ctx ctx_of(uint32_t tid, uint64_t time)
{
	return (struct flow_ctx){ .space = (int32_t)tid < 0 ? NULL : &space,
				  .pid = (int32_t)tid < 0 ? tid : 7,
				  .tid = tid,
				  .cpu = 2,
				  .time_ns = time };
}

static int feed(struct run *r, uint32_t tid, uint64_t time, struct aux_flow ev)
{
	struct flow_ctx ctx = ctx_of(tid, time);
	struct aux_flow at = { .kind = AUX_FLOW_TIME, .time = { .ns = time } };
	int err = sink_export.flow(r->sink, &ctx, &at, 1);

	return err ? err : sink_export.flow(r->sink, &ctx, &ev, 1);
}

static int start(struct run *r, const char *to)
{
	r->config.to = to;
	return run_open(r, &sink_export);
}

static char *finish(struct run *r)
{
	char *text = run_close(r);

	ok(!r->finished, "finish");
	return text;
}

/* main calls f; a gap inside of f; f goes on, and back to main; a gap of nobody. */
static void feed_gaps(struct run *r)
{
	const struct aux_flow gap = { .kind = AUX_FLOW_GAP,
				      .what = AUX_GAP_OVERFLOW,
				      .offset = 99 };

	feed(r, 7, 1000, range(BASE + 0, BASE + 4, 3, AUX_END_CALL, 0));
	feed(r, 7, 1010, range(BASE + 0x10, BASE + 0x14, 2, AUX_END_FALL, 0));
	feed(r, 7, 1020, gap);
	feed(r, 7, 1500, range(BASE + 0x16, BASE + 0x16, 1, AUX_END_RET, 0));
	feed(r, 7, 1400, range(BASE + 9, BASE + 0xb, 2, AUX_END_FALL, 0));
	feed(r, -1, 1600, gap);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

static void test_gaps(void)
{
	struct run r = { 0 };
	char *text;

	if (!ok(!start(&r, "jsonl"), "open: %s", r.diag.text))
		return;
	feed_gaps(&r);
	text = finish(&r);
	ok(!strncmp(text, "{\"type\":\"header\"", 16), "the header is first");
	is_u64(count(text, "\"type\":\"gap\""), 2, "both gaps are shown");
	is_u64(count(text, "\"type\":\"gap-end\""), 2, "and end");
	ok(strstr(text, "{\"type\":\"gap\",\"ts\":1020,\"track\":0,"
			"\"cause\":\"overflow\""), "where it is");
	ok(strstr(text, "{\"type\":\"gap-end\",\"ts\":1500,\"track\":0}"),
	   "until flow goes on");
	is_u64(count(text, "\"type\":\"call\""), count(text, "\"type\":\"return\""),
	      "what begins ends");
	ok(!strstr(text, "\"ts\":14"), "times never go back");
	ok(strstr(text, "\"insns\":8}\n"), "the last line has the sum");
	is_u64(r.report.n_insns, 8, "instructions");
	free(text);
}

/* Events of the CPU have the names of their types, and where they were. */
static void test_events(void)
{
	const struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_EVENT, .n = AUX_EVENT_EVD,
		  .what = AUX_EVD_VMXR, .payload = { .value = 0x30 } },
		{ .kind = AUX_FLOW_EVENT, .n = AUX_EVENT_CFE,
		  .what = AUX_CFE_VMEXIT_INTR, .flags = AUX_FLOW_HAS_IP,
		  .payload = { .ip = BASE + 4, .value = 0x20 } },
		{ .kind = AUX_FLOW_EVENT, .n = AUX_EVENT_IF, .what = 1 },
		{ .kind = AUX_FLOW_EVENT, .payload = { .value = 2 } },
	};
	struct run r = { 0 };
	char *text;

	if (!ok(!start(&r, "jsonl"), "open: %s", r.diag.text))
		return;
	feed(&r, 7, 1000, range(BASE + 0, BASE + 4, 3, AUX_END_CALL, 0));
	for (size_t i = 0; i < sizeof(ev) / sizeof(ev[0]); i++)
		feed(&r, 7, 1001 + i, ev[i]);
	text = finish(&r);
	ok(strstr(text, "\"name\":\"evd-vmxr\",\"source\":\"evd\","
			"\"value\":\"0x30\"}"), "EVD");
	ok(strstr(text, "\"name\":\"cfe-vmexit_intr\",\"source\":\"cfe\","
			"\"value\":\"0x20\",\"ip\":\"0x401004\"}"), "CFE");
	ok(strstr(text, "\"name\":\"if-on\",\"source\":\"if\","), "IF");
	ok(strstr(text, "\"name\":\"cpu-event\",\"source\":\"cpu-event\","
			"\"value\":\"0x2\"}"), "another's");
	free(text);
}

static void test_refused(void)
{
	struct run r = { 0 };

	is_u64((uint64_t)-start(&r, NULL), AUX_E_INVAL, "no format");
	outbuf_free(r.env.out);
	is_u64((uint64_t)-start(&r, "word"), AUX_E_INVAL, "another one");
	ok(strstr(r.diag.text, "there is none of that name"), "%s", r.diag.text);
	outbuf_free(r.env.out);
	r.config.schema = "/nonexistent";
	is_u64((uint64_t)-start(&r, "fxt"), AUX_E_INVAL, "no schema");
	outbuf_free(r.env.out);
}

/* Every format takes a flow with gaps, and a flow of nothing. */
static void test_formats(void)
{
	const struct export_ops *ops;

	for (size_t i = 0; (ops = export_format(i)); i++) {
		struct run r = { 0 };

		if (ops->flags & (EXPORT_OWN_FILE | EXPORT_NEEDS_DIR))
			continue;
		ok(!start(&r, ops->name), "%s: open", ops->name);
		feed_gaps(&r);
		free(finish(&r));
		r = (struct run){ 0 };
		ok(!start(&r, ops->name), "%s: nothing", ops->name);
		free(finish(&r));
	}
	sink_export.close(NULL);
}

int main(void)
{
	test_clean();
	test_json();
	test_spool();
	test_gzip();
	test_protobuf();
	test_map();
	test_gaps();
	test_events();
	test_refused();
	test_formats();
	return plan_done();
}
