/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The model of decode/tui without a terminal: functions, the call tree and its open
 * nodes, threads over time, gaps, of a fixture whose 57 instructions are known.
 */
#include <stdlib.h>
#include <unistd.h>

#include "common/outbuf.h"
#include "decode/callstack/names.h"
#include "decode/tui/impl.h"
#include "tests/unit/tap.h"

#define DATA "fixtures/hello_emulate.data"

static struct model m;
static struct session_config session = {
	.path = DATA, .tid = -1, .cpu = -1, .time_to = UINT64_MAX,
	.code = { .symfs = "fixtures/symfs" },
};
static struct tui_config config = { .session = &session };

/* All of it is decoded, or that failed. */
static struct model_status decode(void)
{
	struct model_status st;

	if (model_start(&m, &config))
		exit(1);
	while (st = model_status(&m), st.state < MODEL_DONE)
		usleep(1000);
	return st;
}

static void test_functions(void)
{
	struct rows_query q = { .filter = "" };
	struct func_rows rows = { .n = 0 };

	model_lock(&m);
	ok(!rows_functions(&m, &q, &rows) && rows.n == 2, "two functions ran");
	tap_eq(rows.all, 57, __FILE__, __LINE__, "57 instructions");
	ok(!strcmp(rows.v[0].name, "work") && rows.v[0].own == 30 &&
	   rows.v[0].total == 30 && rows.v[0].calls == 6, "work: 30 in 6 calls");
	ok(!strcmp(rows.v[1].name, "_start") && rows.v[1].own == 27 &&
	   rows.v[1].total == 57 && rows.v[1].calls == 1, "_start: 27, and 57 in all");
	q.order = ROWS_BY_TOTAL;
	ok(!rows_functions(&m, &q, &rows) && !strcmp(rows.v[0].name, "_start"),
	   "by total _start is first");
	q.filter = "WOR";
	ok(!rows_functions(&m, &q, &rows) && rows.n == 1 && rows.n_all == 2 &&
	   rows.all == 57, "a filter, whatever its case, leaves what is 100 %%");
	q.filter = "nothing";
	ok(!rows_functions(&m, &q, &rows) && rows.n == 0, "nothing fits");
	q = (struct rows_query){ .filter = "", .who = { .one = true, .tid = 1 } };
	ok(!rows_functions(&m, &q, &rows) && rows.n == 0 && rows.all == 0,
	   "another thread has nothing");
	model_unlock(&m);
	func_rows_fini(&rows);
}

static void test_tree(void)
{
	struct rows_query q = { .filter = "work" };
	struct tree_rows rows = { .n = 0 };
	struct open_nodes open = { .n = 0 };
	uint32_t node;

	model_lock(&m);
	ok(!rows_tree(&m, &q, &open, &rows) && rows.n == 1 && rows.v[0].has_more &&
	   !rows.v[0].is_open && rows.v[0].total == 57, "closed: the thread alone");
	node = rows_place(&m, &q, CALLTREE_ROOT, 0);
	ok(node && !rows_place(&m, &q, CALLTREE_ROOT, 1), "one place has the name");
	rows_open_above(&m, &open, node);
	ok(!rows_tree(&m, &q, &open, &rows) && rows.n == 3 && rows.v[2].node == node &&
	   rows.v[2].depth == 2 && rows.v[2].own == 30 && rows.v[2].calls == 6 &&
	   !rows.v[2].has_more, "open above it: it is there");
	ok(!strncmp(rows.v[0].name, "hello_asm/", 10) &&
	   !strcmp(rows.v[1].name, "_start"), "below its callers");
	rows_close_below(&m, &open, rows.v[0].node);
	ok(!rows_tree(&m, &q, &open, &rows) && rows.n == 1, "closed again");
	rows_open_below(&m, &open, rows.v[0].node, 100);
	ok(!rows_tree(&m, &q, &open, &rows) && rows.n == 3, "all is open");
	model_unlock(&m);
	tree_rows_fini(&rows);
	free(open.v);
}

static void test_lanes(void)
{
	struct rows_query q = { .filter = "" };
	struct lane_rows rows = { .n = 0 };
	struct lane_bucket all, part = { .insns = 0 }, sum;
	uint64_t from, to, at;

	model_lock(&m);
	from = m.lanes.from;
	to = m.lanes.to + 1;
	ok(!rows_lanes(&m, &q, &rows) && rows.n == 1 && rows.v[0].insns == 57 &&
	   rows.v[0].percent == 100, "one thread, all instructions");
	all = lane_sum(&m.lanes, rows.v[0].lane, from, to);
	ok(all.insns > 56.9f && all.insns < 57.1f, "its lane has them (%g)",
	   (double)all.insns);
	for (unsigned i = 0; i < 7; i++) {
		at = from + (to - from) * i / 7;
		sum = lane_sum(&m.lanes, rows.v[0].lane, at,
			       from + (to - from) * (i + 1) / 7);
		part.insns += sum.insns;
		part.part[LANE_SELF] += sum.part[LANE_SELF];
		part.part[LANE_KERNEL] += sum.part[LANE_KERNEL];
	}
	ok(part.insns > all.insns * 0.99f && part.insns < all.insns * 1.01f &&
	   part.part[LANE_SELF] >= all.part[LANE_SELF] * 0.99f &&
	   part.part[LANE_KERNEL] < all.part[LANE_KERNEL] * 1.01f,
	   "seven parts of it add up to it");
	model_unlock(&m);
	lane_rows_fini(&rows);
}

/* Instructions of a function: annotate's text. */
static void test_annotator(void)
{
	struct outbuf *out = outbuf_new(-1);
	const struct call_func *f;
	struct annotator a = { .started = false };

	model_lock(&m);
	f = rows_named(&m, "work", 4);
	ok(f && !rows_named(&m, "wor", 3), "a function by its name");
	model_unlock(&m);
	if (!out || !f || !f->raw || annotator_start(&a, &config))
		exit(1);
	while (annotator_is_busy(&a))
		usleep(1000);
	ok(!a.error && !annotator_text(&a, f->raw, f->dso, out), "its text");
	outbuf_put(out, "", 1);
	ok(strstr(out->buf, "# work in ") && strstr(out->buf, "entered 6 times, 30 "),
	   "6 calls, 30 instructions");
	ok(annotator_text(&a, "nothing", f->dso, out) == 1 &&
	   annotator_text(&a, f->raw, "/elsewhere", out) == 1, "what did not run");
	annotator_end(&a);
	outbuf_free(out);
}

/* Two lanes by hand: the axis grows by a factor of a million. */
static void test_axis(void)
{
	struct flowtree t = { .calls = NULL };
	struct calltree_config c = { .per = CALLTREE_PER_THREAD };
	struct call_thread th[2] = { { .tid = 1 }, { .tid = 2 } };
	struct flowtree_thread ft[2] = { { .thread = &th[0] }, { .thread = &th[1] } };
	struct lanes l = { .from = UINT64_MAX, .timed = true };
	struct lane_bucket b;
	uint64_t step = 1;

	ok(!calltree_init(&t.tree, &c), "a tree");
	for (unsigned i = 0; i < 40; i++, step = step * 3 / 2 + 1) {
		for (unsigned k = 0; k < 2; k++) {
			ft[k].ct.root = k + 1;
			th[k].now.ns += i ? step : 1000;
			th[k].now.insns += i ? 10 : 0;
			th[k].now.off_ns += i && k ? step : 0;
			lanes_seen(&l, &t, &ft[k], 0);
		}
	}
	tap_eq(l.n, 2, __FILE__, __LINE__, "two lanes");
	ok((l.to - l.from) / l.width < LANE_BUCKETS, "the axis has room for all");
	b = lane_sum(&l, l.v[0], 0, UINT64_MAX);
	ok(b.insns > 389.9f && b.insns < 390.1f &&
	   b.part[LANE_SELF] > 0.999f * (float)(th[0].now.ns - 1000) &&
	   b.part[LANE_SELF] < 1.001f * (float)(th[0].now.ns - 1000),
	   "the first has run all the time");
	b = lane_sum(&l, l.v[1], 0, UINT64_MAX);
	ok(b.part[LANE_SELF] == 0 &&
	   b.part[LANE_OFF] > 0.999f * (float)th[1].now.off_ns &&
	   b.part[LANE_OFF] < 1.001f * (float)th[1].now.off_ns,
	   "the second was off CPU");
	lanes_fini(&l);
	calltree_fini(&t.tree);
}

/* The text of the gaps, to be freed. */
static char *gaps(void)
{
	struct rows_query q = { .filter = "" };
	struct outbuf *out = outbuf_new(-1);
	char *text;

	if (!out || rows_gaps(&m, &q, out))
		exit(1);
	text = strndup(out->buf, (size_t)(out->p - out->buf));
	outbuf_free(out);
	return text;
}

int main(void)
{
	struct model_status st = decode();
	char *text;

	ok(st.state == MODEL_DONE && st.n_insns == 57 && !st.lossy && st.n_threads == 1 &&
	   st.done == st.wanted, "decoded, nothing is missing");
	test_functions();
	test_tree();
	test_lanes();
	test_annotator();
	text = gaps();
	ok(!strncmp(text, "0 gaps", 6), "no gaps");
	free(text);
	model_end(&m);
	test_axis();
	session.code.symfs = NULL;
	st = decode();
	text = gaps();
	ok(st.n_gaps == 1 && st.lossy && !st.n_insns, "without code: a gap");
	ok(strstr(text, "1 no-code") && strstr(text, "0x401000"), "which is listed");
	free(text);
	model_end(&m);
	session.path = "fixtures/absent";
	st = decode();
	ok(st.state == MODEL_FAILED && m.error && *m.diag.text, "no such file: an error");
	model_end(&m);
	return plan_done();
}
