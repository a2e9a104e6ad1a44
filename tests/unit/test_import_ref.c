/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: decode */
/*
 * Snapshot directories of the corpus against what trc_pkt_lister of OpenCSD 1.8.0
 * listed of them: per trace id, the ranges that ran, the addresses whose code
 * was missing, where exceptions came, timestamps, and software trace, in order and
 * without any difference. Where it listed packets alone, their bytes. What the
 * lists do not hold is said in the table.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/lib/trace/trace.h"
#include "decode/lib/import/import.h"
#include "decode/lib/packet/packet.h"
#include "decode/lib/session/session.h"
#include "tests/unit/tap.h"

#define N_IDS 128

enum what { RANGE = 1, NACC, EXCEPTION, TIME, SOFTWARE };

/* RANGE: first, last, n. NACC: where. EXCEPTION: where, 0 not known. TIME: value.
 * SOFTWARE: channel, value, n 1: a marker. */
struct element {
	uint64_t what, first, last, n;
};

struct list {
	struct element *v;
	size_t n, cap;
};

/* Of one decode: by trace id. */
struct lists {
	struct list id[N_IDS];
	const struct session *s;
	uint32_t queue;
};

static void add(struct list *l, uint64_t what, uint64_t first, uint64_t last,
		uint64_t n)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 1024;
		l->v = realloc(l->v, l->cap * sizeof(*l->v));
		if (!l->v)
			abort();
	}
	l->v[l->n++] = (struct element){ what, first, last, n };
}

static void clear(struct lists *l)
{
	for (unsigned i = 0; i < N_IDS; i++)
		free(l->id[i].v);
	memset(l, 0, sizeof(*l));
}

/* ---- ours ---- */

static void see_one(struct list *l, const struct aux_flow *ev)
{
	if (ev->kind == AUX_FLOW_RANGE)
		add(l, RANGE, ev->range.first, ev->range.last, ev->n);
	else if (ev->kind == AUX_FLOW_GAP && ev->what == AUX_GAP_NO_CODE)
		add(l, NACC, ev->gap.ip, 0, 0);
	else if (ev->kind == AUX_FLOW_ASYNC)
		add(l, EXCEPTION,
		    ev->flags & AUX_FLOW_HAS_IP ? ev->async.from : 0, 0, 0);
	else if (ev->kind == AUX_FLOW_TIME && ev->flags & AUX_FLOW_HAS_TSC)
		add(l, TIME, ev->time.tsc, 0, 0);
	else if (ev->kind == AUX_FLOW_PAYLOAD)
		add(l, SOFTWARE, ev->payload.ip, ev->payload.value,
		    ev->what == AUX_PAYLOAD_MARKER);
}

static int see(void *sink, const struct flow_ctx *ctx,
	       const struct aux_flow *ev, size_t n)
{
	struct lists *l = sink;
	const struct stream *st = NULL;
	struct list *to;

	for (size_t i = 0; (st = session_stream(l->s, i)); i++)
		if (st->idx == ctx->stream)
			break;
	if (!st || st->queue != l->queue || !st->source)
		return 0;
	to = &l->id[st->source->raw ? 0 : st->source->id % N_IDS];
	for (size_t i = 0; i < n; i++)
		see_one(to, &ev[i]);
	return 0;
}

static int finish(void *sink, struct aux_diag *diag)
{
	(void)sink, (void)diag;
	return 0;
}

static const struct sink_ops ops = { .name = "lists", .flow = see,
				     .finish = finish };

static bool decode(const char *path, const char *symfs, struct lists *l)
{
	struct session_config c = { .path = path, .tid = -1, .cpu = -1,
				    .time_to = UINT64_MAX, .n_workers = 1,
				    .code = { .symfs = symfs } };
	struct session_stats st = { 0 };
	struct aux_diag diag = { 0 };
	struct session *s;
	int rc = session_open(&s, &c, &diag);

	if (rc == 0) {
		l->s = s;
		rc = session_run(s, &ops, l, &st, &diag);
		session_close(s);
		l->s = NULL;
	}
	if (rc < 0)
		printf("# %s: %s\n", path, diag.text);
	return rc == 0;
}

/* ---- the lister's ---- */

static void take_range(struct list *l, const char *s)
{
	uint64_t from, to, n, size;

	if (sscanf(s, "exec range=%" SCNx64 ":[%" SCNx64 "] num_i(%" SCNu64
		   ") last_sz(%" SCNu64 ")", &from, &to, &n, &size) == 4)
		add(l, RANGE, from, to - size, n);
}

/* The number behind a word, or 0. */
static uint64_t value_of(const char *s, const char *word)
{
	const char *p = strstr(s, word);

	return p ? strtoull(p + strlen(word), NULL, 16) : 0;
}

/* "(Ma:0x41; Ch:0x01) 0x10000001; +Mrk", or a marker alone. How fast timestamps
 * count is nothing that a program said. */
static void take_software(struct list *l, const char *s)
{
	uint64_t master, channel, value = 0;
	int n = sscanf(s, " (Ma:%" SCNx64 "; Ch:%" SCNx64 ") %" SCNx64, &master,
		       &channel, &value);

	if (value_of(s, "TS=")) /* 0 is none */
		add(l, TIME, value_of(s, "TS="), 0, 0);
	if (n >= 2 && !strstr(s, "Freq"))
		add(l, SOFTWARE, AUX_STM_IP(master, channel), value,
		    strstr(s, "+Mrk") != NULL);
}

static void take_line(struct lists *l, const char *line, bool raw)
{
	static const char mark[] = "OCSD_GEN_TRC_ELEM_";
	const char *id = strstr(line, "; ID:"), *e = strstr(line, mark);
	struct list *to;

	if (!id || !e)
		return;
	to = &l->id[raw ? 0 : strtoul(id + 5, NULL, 16) % N_IDS];
	e += sizeof(mark) - 1;
	if (!strncmp(e, "INSTR_RANGE(", 12))
		take_range(to, e + 12);
	else if (!strncmp(e, "ADDR_NACC(", 10))
		add(to, NACC, strtoull(e + 10, NULL, 16), 0, 0);
	else if (!strncmp(e, "EXCEPTION(", 10))
		add(to, EXCEPTION, value_of(e, "ret addr:"), 0, 0);
	else if (!strncmp(e, "TIMESTAMP(", 10))
		add(to, TIME, value_of(e, "TS="), 0, 0);
	else if (!strncmp(e, "SWTRACE(", 8))
		take_software(to, e + 8);
}

static bool read_list(const char *path, bool raw, struct lists *l)
{
	char cmd[4200], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "gzip -dc '%s'", path);
	f = popen(cmd, "r");
	while (f && getline(&line, &size, f) > 0)
		take_line(l, line, raw);
	free(line);
	return f && pclose(f) == 0;
}

/* The buffers of a snapshot are all of one format. */
static bool is_raw(const char *dir)
{
	char path[4200], text[4096] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/trace.ini", dir);
	f = fopen(path, "r");
	if (f && !fread(text, 1, sizeof(text) - 1, f))
		*text = '\0';
	if (f)
		fclose(f);
	return strstr(text, "source_data");
}

/* ---- bytes ---- */

struct bytes {
	uint8_t p[1 << 17];
	size_t n;
};

static void add_bytes(struct bytes *b, const char *s)
{
	unsigned v;
	int used;

	while (b->n < sizeof(b->p) && sscanf(s, " %x%n", &v, &used) == 1) {
		b->p[b->n++] = (uint8_t)v;
		s += used;
	}
}

/* "ID_DATA[0x01]; 00 9d", or "ID:0; [0x01 0x00 ];" of a packet. */
static bool read_bytes(const char *path, struct bytes *b)
{
	char cmd[4200], *line = NULL;
	bool frames = false;
	size_t size = 0;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "gzip -dc '%s'", path);
	f = popen(cmd, "r");
	while (f && getline(&line, &size, f) > 0) {
		const char *data = strstr(line, "ID_DATA[0x01];");
		const char *packet = strstr(line, "; [0x");

		frames |= data != NULL;
		if (data)
			add_bytes(b, data + 14);
		else if (packet && !frames)
			add_bytes(b, packet + 3);
	}
	free(line);
	return f && pclose(f) == 0;
}

/* The bytes of trace id 1, or all of raw trace, of the first buffer. */
static void our_bytes(const char *path, struct bytes *b)
{
	struct aux_diag diag = { 0 };
	struct cs_frame_pick pick;
	struct aux_reader *r;
	struct aux_event e;
	bool raw = false;

	if (import_open(&r, path, NULL, &diag) < 0) {
		printf("# %s: %s\n", path, diag.text);
		return;
	}
	cs_frame_pick_init(&pick, 1);
	while (aux_reader_next(r, &e, NULL) == 1 &&
	       e.type != AUX_RECORD_AUXTRACE)
		if (e.type == PERF_RECORD_AUX) {
			raw = e.aux.flags & 0x100;
			b->n = e.aux.size;
		}
	if (!raw) {
		cs_frame_pick_add(&pick, e.auxtrace.payload.data, b->n);
		b->n = pick.n;
	}
	if (b->n <= sizeof(b->p))
		memcpy(b->p, raw ? e.auxtrace.payload.data : pick.data, b->n);
	cs_frame_pick_fini(&pick);
	aux_reader_close(r);
}

static void test_bytes(const char *name, const char *path, const char *ref)
{
	static struct bytes a, b;

	a.n = b.n = 0;
	our_bytes(path, &a);
	ok(read_bytes(ref, &b), "%s: the list is read", name);
	ok(b.n && a.n == b.n && !memcmp(a.p, b.p, a.n),
	   "%s: %zu of %zu bytes as the packets hold", name, a.n, b.n);
}

/* ---- both ---- */

static void print(const char *who, const struct list *l, size_t i)
{
	if (i < l->n)
		printf("#   %s[%zu]: kind %" PRIu64 " %#" PRIx64 " %#" PRIx64
		       " %" PRIu64 "\n", who, i, l->v[i].what, l->v[i].first,
		       l->v[i].last, l->v[i].n);
	else
		printf("#   %s ends at %zu\n", who, l->n);
}

static void compare(const char *name, unsigned id, const struct list *a,
		    const struct list *b)
{
	size_t k = 0;

	while (k < a->n && k < b->n &&
	       !memcmp(&a->v[k], &b->v[k], sizeof(*a->v)))
		k++;
	if (ok(k == a->n && k == b->n, "%s: id %#x: %zu of %zu elements", name,
	       id, k, b->n))
		return;
	for (size_t i = k > 2 ? k - 2 : 0; i < k + 4; i++) {
		print("ours  ", a, i);
		print("theirs", b, i);
	}
}

struct test_case {
	const char *dir, *ref;	/* in the corpus */
	const char *symfs;	/* a file that the directory lacks */
	uint32_t queue;		/* the lister decodes one buffer */
	size_t n;		/* elements; 0: bytes of packets */
};

#define SNAPSHOT(name, n) \
	{ "opencsd/snapshots/" name, "opencsd/ref-1.8.0/" name ".ppl.gz", \
	  NULL, 0, n }
#define SNAPSHOT_ETE(name, n) \
	{ "opencsd/snapshots-ete/" name, "opencsd/ref-1.8.0/" name ".ppl.gz", \
	  NULL, 0, n }
#define FIB(name, n) \
	{ "coresight-decoder/tests/fib/" name, \
	  "coresight-decoder/tests/ref/fib." name ".ppl.gz", NULL, 0, n }

/*
 * Two differ from the others: of a55-test-tpiu and init-short-addr there is no
 * code, and the lister listed packets alone. event_test has one event and no
 * flow. juno_r1_1 holds a second buffer, which is that of stm_only-juno; behind
 * the STM's bytes it has others of no frame: the lister stops there, and we tell
 * of 118 ids that the snapshot does not know. TC2's ITM, which the lister
 * refused, wrote nothing.
 */
static const struct test_case cases[] = {
	SNAPSHOT("Snowball", 1351),
	SNAPSHOT("TC2", 18299),
	SNAPSHOT("a55-test-tpiu", 0),
	SNAPSHOT("a57_single_step", 3),
	SNAPSHOT("init-short-addr", 0),
	SNAPSHOT("juno-uname-001", 10097),
	SNAPSHOT("juno_r1_1", 15223),
	{ "opencsd/snapshots/juno_r1_1",
	  "opencsd/ref-1.8.0/stm_only-juno.ppl.gz", NULL, 1, 41 },
	SNAPSHOT("stm-issue-27", 183),
	SNAPSHOT("stm_only", 6272),
	SNAPSHOT("stm_only-juno", 41),
	SNAPSHOT("test-file-mem-offsets", 21835),
	SNAPSHOT("trace_cov_a15", 22),
	SNAPSHOT_ETE("ete_ip", 706),
	SNAPSHOT_ETE("ete_spec_1", 64),
	SNAPSHOT_ETE("event_test", 0),
	SNAPSHOT_ETE("q_elem", 378),
	SNAPSHOT_ETE("src_addr", 2711),
	SNAPSHOT_ETE("tme_simple", 50),
	SNAPSHOT_ETE("trace_file_vmid", 6993),
	FIB("trace1", 15699),
	FIB("trace2", 15707),
	FIB("trace3", 15699),
	FIB("trace4", 15701),
	{ "simpleperf/snapshot-unformatted",
	  "simpleperf/ref/snapshot-unformatted.ppl.gz",
	  "simpleperf/symfs/data/local/tmp/etm_test_loop", 0, 208 },
};

static void test_one(const char *corpus, const struct test_case *c)
{
	char dir[4096], ref[4096], symfs[4096];
	struct lists ours = { .queue = c->queue }, theirs = { 0 };
	size_t n = 0;

	snprintf(dir, sizeof(dir), "%s/%s", corpus, c->dir);
	snprintf(ref, sizeof(ref), "%s/%s", corpus, c->ref);
	snprintf(symfs, sizeof(symfs), "%s/%s", corpus,
		 c->symfs ? c->symfs : "");
	if (!c->n) {
		test_bytes(c->dir, dir, ref);
		return;
	}
	ok(decode(dir, c->symfs ? symfs : NULL, &ours) &&
	   read_list(ref, is_raw(dir), &theirs), "%s is decoded", c->dir);
	for (unsigned i = 0; i < N_IDS; i++) {
		if (ours.id[i].n || theirs.id[i].n)
			compare(c->dir, i, &ours.id[i], &theirs.id[i]);
		n += theirs.id[i].n;
	}
	is_u64(n, c->n, "so many elements are in the list");
	clear(&ours);
	clear(&theirs);
}

int main(void)
{
	const char *corpus = getenv("AUXKIT_CORPUS");

	if (!corpus)
		corpus = "../shared/corpus";
	if (access(corpus, R_OK)) {
		skip("corpus: no recorded traces: set AUXKIT_CORPUS");
		return plan_done();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		test_one(corpus, &cases[i]);
	return plan_done();
}
