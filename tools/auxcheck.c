/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcheck: is each byte that pmu_sim made in the file, or known to be lost?
 *
 * Reads a perf.data recorded from the module's pattern (byte k of CPU c is byte
 * k % 8 of the little-endian word c << 56 | k / 8) and its debugfs `stat` and
 * `sessions`. Proves that every stream is in order, that no byte is there
 * twice, that chunks meet, that AUX records cover exactly the bytes, and that
 * what lacks has a mark. Lines are a word, then key=value pairs.
 *
 * Exit status: 0 proven, 1 not (the first offence is named), 2 unreadable.
 */
#include <errno.h>
#include <getopt.h>

#include <aux/reader.h>

#include "auxcheck.h"

/* ---- full trace ---- */

/* The chunks must meet: padding of at most 7 bytes is cut off. */
static void join_chunks(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	struct piece *last = s->records.n ? &s->records.p[s->records.n - 1] : NULL;
	size_t i;

	for (i = 0; i < s->chunks.n; i++) {
		struct piece *k = &s->chunks.p[i];
		uint64_t next = i + 1 < s->chunks.n ? k[1].at :
				last && last->end > k->at ? last->end : k->end;

		if (k->end > next && k->end - next < 8) {
			s->padding += k->end - next;
			k->end = next;
		}
		if (i + 1 < s->chunks.n && k->end != next)
			offend(c, "chunks stream=%u end=%" PRIu64 " next=%" PRIu64,
			       n, k->end, next);
		s->bytes += k->end - k->at;
	}
}

/* Stream bytes [at, end); returns how many the file has. */
static uint64_t take_range(struct check *c, unsigned int n, uint64_t at, uint64_t end)
{
	struct stream *s = &c->streams[n];
	size_t lo = 0, hi = s->chunks.n;
	uint64_t had = 0;

	while (lo < hi) {	/* the first chunk that ends behind at */
		size_t mid = lo + (hi - lo) / 2;

		if (s->chunks.p[mid].end > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	for (; lo < s->chunks.n && s->chunks.p[lo].at < end; lo++) {
		struct piece *k = &s->chunks.p[lo];
		uint64_t a = k->at > at ? k->at : at, b = k->end < end ? k->end : end;

		if (a >= b)
			continue;
		take(c, n, k->data + (a - k->at), b - a, a);
		had += b - a;
	}
	return had;
}

static void check_full(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	uint64_t at, top;
	size_t i;

	join_chunks(c, n);
	at = s->chunks.n ? s->chunks.p[0].at : 0;
	top = s->chunks.n ? s->chunks.p[s->chunks.n - 1].end : 0;
	for (i = 0; i < s->records.n; i++) {
		struct piece *r = &s->records.p[i];

		if (r->at > at)
			s->uncovered += take_range(c, n, at, r->at);
		else if (r->at < at && r->end > r->at)
			offend(c, "record stream=%u offset=%" PRIu64 " before=%" PRIu64,
			       n, r->at, at);
		if (take_range(c, n, r->at > at ? r->at : at, r->end) !=
		    r->end - r->at && r->at >= at)
			offend(c, "record stream=%u offset=%" PRIu64 " size=%" PRIu64
			       " not all in the file", n, r->at, r->end - r->at);
		if (r->end > at)
			at = r->end;
	}
	if (top > at)
		s->uncovered += take_range(c, n, at, top);
	if (s->uncovered)
		offend(c, "uncovered stream=%u bytes=%" PRIu64 " lost_records=%" PRIu64,
		       n, s->uncovered, c->n_lost_records);
}

static int by_place(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

static void note_gap(struct check *c, const struct run *a, const struct run *b)
{
	struct source *o = &c->cpu[b->cpu];
	uint64_t n = b->pos - a->end, flags = flags_at(&c->streams[a->stream], a->at_end) |
		flags_at(&c->streams[b->stream], b->at);

	o->n_gaps++;
	o->missing += n;
	if (c->verbose)
		printf("gap cpu=%u index=%" PRIu64 " bytes=%" PRIu64 " stream=%u offset=%" PRIu64
		       " flags=%#" PRIx64 "\n", b->cpu, a->end / 8, n, b->stream, b->at, flags);
	if (flags & LOSS)
		return;
	o->unmarked += n;
	if (!o->n_unmarked++)
		offend(c, "unmarked cpu=%u index=%" PRIu64 " bytes=%" PRIu64 " stream=%u offset=%"
		       PRIu64, b->cpu, a->end / 8, n, b->stream, b->at);
}

/* All runs of each CPU, whichever stream they are in. */
static void check_runs(struct check *c)
{
	const struct run *a = NULL;
	size_t i;

	for (i = 1; i < c->runs.n; i++) {
		const struct run *p = &c->runs.p[i];

		if (p[-1].stream == p->stream && p[-1].cpu == p->cpu && p->pos < p[-1].end)
			offend(c, "order stream=%u offset=%" PRIu64 " cpu=%u index=%" PRIu64
			       " after=%" PRIu64, p->stream, p->at, p->cpu, p->pos / 8,
			       p[-1].end / 8);
	}
	if (c->runs.n)
		qsort(c->runs.p, c->runs.n, sizeof(*c->runs.p), by_place);
	for (i = 0; i < c->runs.n; i++) {
		const struct run *b = &c->runs.p[i];
		struct source *o = &c->cpu[b->cpu];

		if (o->first == NONE)
			o->first = b->pos;
		else if (b->pos > a->end)
			note_gap(c, a, b);
		else if (b->pos < a->end && !c->duplicate++)
			offend(c, "duplicate cpu=%u index=%" PRIu64 " stream=%u offset=%" PRIu64,
			       b->cpu, b->pos / 8, b->stream, b->at);
		o->bytes += b->end - b->pos;
		if (o->last == NONE || b->end > o->last) {
			o->last = b->end;
			a = b;
		}
	}
}

/* ---- snapshots and samples: each by itself ---- */

/*
 * One run, in front of it zeros of an area never filled, behind it padding.
 * A jump is right where another stream's session lies between.
 */
static bool one_run(struct check *c, unsigned int n, const struct piece *k, struct run *out,
		    uint64_t *n_zeros)
{
	static const uint8_t padding[8];
	uint64_t at = k->at, left = k->end - k->at, zeros = 0, tail, from, m, i;
	size_t first = c->runs.n;
	const struct run *r;

	while (zeros + 8 <= left && !word_at(k->data + zeros))
		zeros += 8;
	tail = left - zeros < 8 ? left - zeros : 8;
	from = left - tail;
	take(c, n, k->data + zeros, from - zeros, at + zeros);
	r = c->runs.n > first ? &c->runs.p[c->runs.n - 1] : NULL;
	m = r ? match(k->data + from, tail, r->cpu, r->end) : 0;
	if (m && !memcmp(k->data + from + m, padding, tail - m))
		tail = m;
	take(c, n, k->data + from, tail, at + from);
	*n_zeros = zeros;
	if (c->runs.n == first)
		return false;
	r = &c->runs.p[first];
	*out = *r;
	for (i = first + 1; i < c->runs.n; i++, r++) {
		const struct source *o = &c->cpu[r[1].cpu];

		if (!is_session(&c->cpu[r->cpu], r->end, true) ||
		    !is_session(o, r[1].pos, false))
			offend(c, "torn stream=%u offset=%" PRIu64 " cpu=%u index=%" PRIu64
			       " then=%" PRIu64, n, r[1].at, r[1].cpu, r->end / 8,
			       r[1].pos / 8);
	}
	out->cpu = r->cpu;
	out->end = r->end;
	c->runs.n = first;
	return true;
}

static void check_snapshots(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	size_t i;

	for (i = 0; i < s->chunks.n; i++) {
		struct piece *k = &s->chunks.p[i];
		struct run r;
		struct source *o;
		uint64_t zeros, overlap = 0;
		const char *newest = "unknown";

		s->bytes += k->end - k->at;
		c->n_snapshots++;
		if (!one_run(c, n, k, &r, &zeros)) {
			printf("snapshot stream=%u n=%zu bytes=%" PRIu64 " empty\n", n, i,
			       k->end - k->at);
			continue;
		}
		o = &c->cpu[r.cpu];
		if (o->snapshot_end != NONE && r.pos < o->snapshot_end)
			overlap = o->snapshot_end - r.pos;
		c->overlap += overlap;
		if (overlap)
			offend(c, "overlap stream=%u snapshot=%zu bytes=%" PRIu64, n, i, overlap);
		if (o->sessions.n)
			newest = is_session(o, r.end, true) ? "yes" : "no";
		if (!strcmp(newest, "no"))
			offend(c, "stale stream=%u snapshot=%zu end=%" PRIu64, n, i, r.end);
		printf("snapshot stream=%u n=%zu cpu=%u bytes=%" PRIu64 " zeros=%" PRIu64 " first=%"
		       PRIu64 " end=%" PRIu64 " overlap=%" PRIu64 " hole=%" PRIu64 " newest=%s\n",
		       n, i, r.cpu, k->end - k->at, zeros, r.pos, r.end, overlap,
		       o->snapshot_end != NONE && r.pos > o->snapshot_end ?
		       r.pos - o->snapshot_end : 0, newest);
		o->bytes += r.end - r.pos - overlap;
		o->first = o->first == NONE ? r.pos : o->first;
		o->last = o->snapshot_end = r.end;
	}
}

static void check_sample(struct check *c, const struct aux_bytes *b)
{
	unsigned int cpu;
	uint64_t pos, zeros = 0;

	while (zeros + 8 <= b->len && !word_at(b->data + zeros))
		zeros += 8;
	c->n_samples++;
	if (!find_place(b->data + zeros, b->len - zeros, &cpu, &pos) ||
	    match(b->data + zeros, b->len - zeros, cpu, pos) != b->len - zeros)
		offend(c, "sample n=%" PRIu64 " bytes=%" PRIu64, c->n_samples, b->len);
}

/* ---- input ---- */

static void add_record(struct check *c, const struct aux_event *ev)
{
	static const uint64_t bits[4] = { PERF_AUX_FLAG_TRUNCATED, PERF_AUX_FLAG_OVERWRITE,
		PERF_AUX_FLAG_PARTIAL, PERF_AUX_FLAG_COLLISION };
	uint32_t cpu = ev->id.present & PERF_SAMPLE_CPU ? ev->id.cpu : (uint32_t)-1;
	struct stream *s = NULL;
	size_t i;

	/* A CPU's own stream, else that of the thread. */
	for (i = 0; i < c->n_streams && !s; i++)
		if (cpu != (uint32_t)-1 && c->streams[i].cpu == cpu)
			s = &c->streams[i];
	if (!s)
		s = find_stream(c, (uint32_t)-1, ev->id.tid);
	PUSH(&s->records, (struct piece){ .at = ev->aux.offset,
		.end = ev->aux.offset + ev->aux.size, .flags = ev->aux.flags });
	s->flags |= ev->aux.flags;
	s->overwrite |= !!(ev->aux.flags & PERF_AUX_FLAG_OVERWRITE);
	for (i = 0; i < 4; i++)
		s->n_flag[i] += !!(ev->aux.flags & bits[i]);
}

static void add_event(struct check *c, const struct aux_event *ev, bool payload)
{
	struct stream *s;

	if (payload && ev->type == AUX_RECORD_AUXTRACE) {
		s = find_stream(c, ev->auxtrace.h.cpu, ev->auxtrace.h.tid);
		PUSH(&s->chunks, (struct piece){ .at = ev->auxtrace.h.offset,
			.end = ev->auxtrace.h.offset + ev->auxtrace.payload.len,
			.data = ev->auxtrace.payload.data });
		if (ev->auxtrace.clipped)
			offend(c, "clipped offset=%" PRIu64, ev->offset);
	} else if (!payload && ev->type == PERF_RECORD_AUX) {
		add_record(c, ev);
	} else if (!payload && ev->type == PERF_RECORD_LOST) {
		c->n_lost_records += ev->lost.lost;
	} else if (!payload && ev->type == PERF_RECORD_SAMPLE && ev->sample.aux.len) {
		check_sample(c, &ev->sample.aux);
	}
}

/* Twice: the streams must be known before AUX records look for theirs. */
static void read_file(struct check *c, struct aux_reader *r)
{
	struct aux_diag diag = { 0 };
	struct aux_event ev;
	int pass, ret;

	for (pass = 0; pass < 2; pass++) {
		aux_reader_rewind(r);
		while ((ret = aux_reader_next(r, &ev, &diag)) > 0)
			add_event(c, &ev, pass == 0);
		if (ret < 0 && pass == 0)
			offend(c, "reading offset=%" PRIu64 " %s", diag.offset, diag.text);
	}
}

static uint64_t *stat_field(struct source *o, const char *name)
{
	return !strcmp(name, "produced") ? &o->produced : !strcmp(name, "stored") ? &o->stored :
	       !strcmp(name, "lost") ? &o->lost : !strcmp(name, "skipped") ? &o->skipped : NULL;
}

/* sign -1: what was counted before the recording. */
static int read_stat(struct check *c, const char *path, int sign)
{
	char line[256], pmu[64], name[64];
	FILE *f = fopen(path, "re");
	uint64_t v, v2, *field;
	unsigned int cpu;

	if (!f) {
		fprintf(stderr, "auxcheck: %s: %s\n", path, strerror(errno));
		return -1;
	}
	while (fgets(line, sizeof(line), f)) {
		int n = sscanf(line, "%63[^.].cpu%u.%63s %" SCNu64 " %" SCNu64, pmu, &cpu, name,
			       &v, &v2);

		if (n < 4 || cpu >= N_CPU || (c->pmu && strcmp(pmu, c->pmu)))
			continue;
		if (n == 5 && !strcmp(name, "session") && sign > 0)
			PUSH(&c->cpu[cpu].sessions, (struct run){ .pos = v, .end = v2 });
		field = stat_field(&c->cpu[cpu], name);
		if (!field || n != 4)
			continue;
		c->cpu[cpu].known = true;
		if (sign < 0 && field == &c->cpu[cpu].produced)
			c->cpu[cpu].before += v;
		*field += sign > 0 ? v : -v;
	}
	fclose(f);
	c->have_stat = true;
	return 0;
}

/* ---- output ---- */

static void print_stream(const struct stream *s, size_t n)
{
	printf("stream n=%zu cpu=%d tid=%d mode=%s bytes=%" PRIu64 " padding=%" PRIu64
	       " chunks=%zu records=%zu uncovered=%" PRIu64 " flags=%#" PRIx64 " truncated=%" PRIu64
	       " overwrite=%" PRIu64 " partial=%" PRIu64 " collision=%" PRIu64 "\n", n, (int)s->cpu,
	       (int)s->tid, s->overwrite ? "snapshot" : "full", s->bytes, s->padding, s->chunks.n,
	       s->records.n, s->uncovered, s->flags, s->n_flag[0], s->n_flag[1], s->n_flag[2],
	       s->n_flag[3]);
}

/* produced = in the file + lost + skipped + never read */
static void check_balance(struct check *c, unsigned int cpu, bool overwrite)
{
	struct source *o = &c->cpu[cpu];
	uint64_t lost = o->lost + o->skipped, missing = o->produced - o->bytes;
	uint64_t tail = o->last == NONE ? o->produced : o->before + o->produced - o->last;
	bool sane = o->produced == o->stored + lost && o->bytes <= o->stored;
	bool whole = overwrite || o->bytes == o->stored ||
		(c->allow_tail && o->stored - o->bytes <= tail);

	printf("balance cpu=%u produced=%" PRIu64 " in_file=%" PRIu64 " missing=%" PRIu64 " lost=%"
	       PRIu64 " skipped=%" PRIu64 " tail=%" PRIu64 " unread=%" PRId64 " %s\n", cpu,
	       o->produced, o->bytes, missing, o->lost, o->skipped, tail,
	       (int64_t)(o->stored - o->bytes), sane && whole ? "ok" : "BAD");
	if (!sane || !whole)
		offend(c, "balance cpu=%u in_file=%" PRIu64 " stored=%" PRIu64, cpu, o->bytes,
		       o->stored);
}

static void print_source(const struct source *o, unsigned int cpu)
{
	printf("source cpu=%u bytes=%" PRIu64 " first=%" PRIu64 " last=%" PRIu64 " gaps=%" PRIu64
	       " missing=%" PRIu64 " unmarked_gaps=%" PRIu64 " unmarked=%" PRIu64 "\n", cpu,
	       o->bytes, o->first / 8, (o->last - 1) / 8, o->n_gaps, o->missing, o->n_unmarked,
	       o->unmarked);
}

static int report(struct check *c)
{
	uint64_t bytes = 0, gaps = 0, missing = 0, unmarked = 0, lost = 0;
	bool overwrite = c->n_snapshots || c->n_samples;
	unsigned int i;

	for (i = 0; i < c->n_streams; i++)
		print_stream(&c->streams[i], i);
	for (i = 0; i < N_CPU; i++) {
		struct source *o = &c->cpu[i];

		bytes += o->bytes;
		gaps += o->n_gaps;
		missing += o->missing;
		unmarked += o->unmarked;
		lost += o->lost;
		if (o->first != NONE)
			print_source(o, i);
		if (c->have_stat && (o->known || o->bytes))
			check_balance(c, i, overwrite);
	}
	if (!bytes && !c->n_samples)
		offend(c, "empty no pattern in the file");
	printf("total bytes=%" PRIu64 " gaps=%" PRIu64 " missing=%" PRIu64 " unmarked=%" PRIu64
	       " lost=%" PRIu64 " duplicate=%" PRIu64 " garbage=%" PRIu64 " snapshots=%" PRIu64
	       " overlap=%" PRIu64 " samples=%" PRIu64 " lost_records=%" PRIu64 " offences=%" PRIu64
	       "\n", bytes, gaps, missing, unmarked, lost, c->duplicate, c->garbage,
	       c->n_snapshots, c->overlap, c->n_samples, c->n_lost_records, c->n_offences);
	printf("verdict=%s%s%s\n", c->n_offences ? "not-proven" : "proven",
	       c->n_offences ? " first: " : "", c->first);
	return c->n_offences ? 1 : 0;
}

static void free_check(struct check *c)
{
	size_t i;

	for (i = 0; i < c->n_streams; i++) {
		free(c->streams[i].chunks.p);
		free(c->streams[i].records.p);
	}
	for (i = 0; i < N_CPU; i++)
		free(c->cpu[i].sessions.p);
	free(c->streams);
	free(c->runs.p);
}

static int usage(void)
{
	fprintf(stderr, "usage: auxcheck [-v] [-t] [-p PMU] [-b STAT_BEFORE] FILE [STAT...]\n"
		"  -v  each gap   -t  the newest bytes may be unread   -p  of STAT's PMUs\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct check check = { 0 }, *c = &check;
	const char *before = NULL, *path;
	struct aux_reader *r = NULL;
	struct aux_diag diag = { 0 };
	unsigned int i;
	int o, ret = 2;

	while ((o = getopt(argc, argv, "vtp:b:")) != -1) {
		switch (o) {
		case 'v': c->verbose = true; break;
		case 't': c->allow_tail = true; break;
		case 'p': c->pmu = optarg; break;
		case 'b': before = optarg; break;
		default: return usage();
		}
	}
	if (optind >= argc)
		return usage();
	path = argv[optind++];
	for (i = 0; i < N_CPU; i++)
		c->cpu[i].first = c->cpu[i].last = c->cpu[i].snapshot_end = NONE;
	if (before && read_stat(c, before, -1))
		return 2;
	for (; optind < argc; optind++)
		if (read_stat(c, argv[optind], 1))
			return 2;
	if (aux_reader_open(&r, path, &diag)) {
		fprintf(stderr, "auxcheck: %s\n", diag.text);
		return 2;
	}
	read_file(c, r);
	for (i = 0; i < c->n_streams; i++)
		if (c->streams[i].overwrite)
			check_snapshots(c, i);
		else
			check_full(c, i);
	check_runs(c);
	ret = report(c);
	aux_reader_close(r);
	free_check(c);
	return ret;
}
