/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcheck: is each byte that pmu_sim made in the file, or known to be lost?
 *
 * Reads a perf.data recorded from the module's pattern (byte k of CPU c is byte
 * k % 8 of the little-endian word c << 56 | k / 8) and its debugfs `stat` and
 * `sessions`. Proves that every stream is in order, that no byte is there
 * twice, that chunks meet, that AUX records cover exactly the bytes, that what
 * lacks has a mark, and that auxcap's ledger says just that; of snapshots also
 * that none overlaps, that each has a label and is as long as it could be.
 * Lines are a word, then key=value pairs.
 *
 * Exit status: 0 proven, 1 not (the first offence is named), 2 unreadable.
 */
#include <errno.h>
#include <getopt.h>

#include <aux/reader.h>

#include "tools/auxcheck.h"
#include "tools/auxcheck_full.h"
#include "tools/auxcheck_own.h"
#include "tools/auxcheck_pattern.h"

/* ---- snapshots and samples: each by itself ---- */

/* Padding may look as what would have come behind r: but the stop is known. */
static uint64_t stop_in(const struct check *c, const struct run *r, const uint8_t *p, uint64_t len)
{
	uint64_t n;

	if (!r || is_session(&c->cpu[r->cpu], r->end + len, true))
		return len;
	for (n = len; n-- > 0 && !p[n];)
		if (is_session(&c->cpu[r->cpu], r->end + n, true))
			return n;
	return len;
}

/*
 * One run, in front of it zeros of an area never filled, behind it padding.
 * A jump is right where another stream's session lies between.
 */
static bool one_run(struct check *c, unsigned int n, struct piece *k, struct run *out,
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
	tail = stop_in(c, r, k->data + from, tail);
	take(c, n, k->data + from, tail, at + from);
	*n_zeros = zeros;
	if (c->runs.n == first)
		return false;
	c->streams[n].padding += left - from - tail;
	k->end = at + from + tail;
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

/* The first word of CPU 0 is zeros, too. */
static void take_first_word(struct run *r, uint64_t *zeros)
{
	if (r->cpu || r->pos != 8 || *zeros < 8)
		return;
	r->pos = 0;
	*zeros -= 8;
}

/* All there was: what is new since the last one, or the whole area. */
static void check_size(struct check *c, struct stream *s, const struct source *o,
		       const struct run *r, uint64_t number)
{
	uint64_t since = o->snapshot_end == NONE ? o->before : o->snapshot_end;
	uint64_t fresh = r->end - since, len = r->end - r->pos;
	uint64_t want = fresh < c->aux_size ? fresh : c->aux_size;

	if (r->pos > since)
		s->hole += r->pos - since;
	/* Where the head is an offset, auxcap cannot know whether these few were
	 * overwritten, nor that the writer came to the same place. */
	if (fresh <= c->aux_size && c->aux_size - fresh < 64)
		s->slack += c->aux_size;
	if (c->aux_size && len != want)
		offend(c, "size cpu=%u number=%" PRIu64 " bytes=%" PRIu64 " available=%" PRIu64,
		       r->cpu, number, len, want);
}

/* -w: a source that only snapshots stop has no session that none took. */
static void check_taken(struct check *c, const struct source *o, const struct run *r,
			uint64_t number)
{
	uint64_t from = o->snapshot_end == NONE ? o->before : o->snapshot_end, at = from;
	size_t i;

	for (i = 0; c->alone && i < o->sessions.n; i++) {
		if (o->sessions.p[i].end <= at || o->sessions.p[i].end >= r->end)
			continue;
		at = o->sessions.p[i].end;
		offend(c, "left_out cpu=%u number=%" PRIu64 " stopped_at=%" PRIu64, r->cpu,
		       number, at);
	}
}

static void check_snapshot(struct check *c, unsigned int n, struct piece *k)
{
	struct stream *s = &c->streams[n];
	struct run r;
	struct source *o;
	uint64_t zeros, overlap = 0, number = k->snapshot ? k->snapshot : c->n_snapshots;
	const char *newest = "unknown";

	if (!one_run(c, n, k, &r, &zeros)) {
		printf("snapshot stream=%u n=%" PRIu64 " bytes=%" PRIu64 " empty\n", n, number,
		       k->end - k->at);
		return;
	}
	o = &c->cpu[r.cpu];
	take_first_word(&r, &zeros);
	if (o->snapshot_end != NONE && r.pos < o->snapshot_end)
		overlap = o->snapshot_end - r.pos;
	c->overlap += overlap;
	if (overlap)
		offend(c, "overlap stream=%u snapshot=%" PRIu64 " bytes=%" PRIu64, n, number,
		       overlap);
	if (o->sessions.n)
		newest = is_session(o, r.end, true) ? "yes" : "no";
	if (!strcmp(newest, "no"))
		offend(c, "stale stream=%u snapshot=%" PRIu64 " end=%" PRIu64, n, number, r.end);
	if (c->own && (!k->snapshot || k->snapshot == o->snapshot_n))
		offend(c, "label stream=%u offset=%" PRIu64 " has none of its own", n, k->at);
	if (c->own && zeros)
		offend(c, "zeros stream=%u snapshot=%" PRIu64 " bytes=%" PRIu64, n, number, zeros);
	check_size(c, s, o, &r, number);
	check_taken(c, o, &r, number);
	printf("snapshot stream=%u n=%" PRIu64 " cpu=%u bytes=%" PRIu64 " zeros=%" PRIu64 " first=%"
	       PRIu64 " end=%" PRIu64 " overlap=%" PRIu64 " hole=%" PRIu64 " newest=%s\n",
	       n, number, r.cpu, k->end - k->at, zeros, r.pos, r.end, overlap,
	       o->snapshot_end != NONE && r.pos > o->snapshot_end ? r.pos - o->snapshot_end : 0,
	       newest);
	o->bytes += r.end - r.pos - overlap;
	o->first = o->first == NONE ? r.pos : o->first;
	o->last = o->snapshot_end = r.end;
	o->snapshot_n = k->snapshot;
}

static void check_snapshots(struct check *c, unsigned int n)
{
	struct stream *s = &c->streams[n];
	size_t i;

	for (i = 0; i < s->chunks.n; i++) {
		c->n_snapshots++;
		check_snapshot(c, n, &s->chunks.p[i]);
		s->bytes += s->chunks.p[i].end - s->chunks.p[i].at;
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
		s->idx = ev->auxtrace.h.idx;
		PUSH(&s->chunks, (struct piece){ .at = ev->auxtrace.h.offset,
			.end = ev->auxtrace.h.offset + ev->auxtrace.payload.len,
			.data = ev->auxtrace.payload.data, .snapshot = c->labels.n });
		c->clipped += ev->auxtrace.clipped ? ev->auxtrace.payload.len : 0;
		if (ev->auxtrace.clipped && !c->allow_tail)
			offend(c, "clipped offset=%" PRIu64, ev->offset);
	} else if (payload && ev->type == AUX_RECORD_EVENT_TYPE) {
		add_own(c, ev);
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
		/* A killed recorder leaves a record that is cut. */
		if (ret < 0 && pass == 0 && !(c->allow_tail && ret == -AUX_E_TRUNCATED))
			offend(c, "reading offset=%" PRIu64 " %s", diag.offset, diag.text);
	}
	end_of_file(c);
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

/* No other CPU made anything: a thread's stream is all of this one. */
static bool made_alone(const struct check *c, unsigned int cpu)
{
	unsigned int i;

	for (i = 0; i < N_CPU; i++)
		if (i != cpu && c->cpu[i].produced)
			return false;
	return true;
}

/* Stored bytes that the recorder says it could not save; of threads' streams only
 * where their CPU is known. */
static uint64_t told_unsaved(const struct check *c, unsigned int cpu)
{
	bool alone = made_alone(c, cpu);
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < c->n_streams; i++)
		if (c->streams[i].cpu == cpu || (c->streams[i].cpu == UINT32_MAX && alone))
			n += ledger_of(c, &c->streams[i].idx, AUX_LEDGER_UNREAD).bytes +
				ledger_of(c, &c->streams[i].idx, AUX_LEDGER_UNWRITTEN).bytes;
	return n;
}

/* produced = in the file + lost + skipped + never read */
static void check_balance(struct check *c, unsigned int cpu, bool overwrite)
{
	struct source *o = &c->cpu[cpu];
	uint64_t lost = o->lost + o->skipped, missing = o->produced - o->bytes;
	uint64_t tail = o->last == NONE ? o->produced : o->before + o->produced - o->last;
	bool sane = o->produced == o->stored + lost && o->bytes <= o->stored;
	bool whole = overwrite || o->bytes + told_unsaved(c, cpu) == o->stored ||
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
	bool overwrite = c->n_snapshots || c->n_samples || c->labels.n;
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
		if (c->have_stat && !overwrite)
			check_tail(c, i);
	}
	check_own(c, overwrite);
	if (!bytes && !c->n_samples)
		offend(c, "empty no pattern in the file");
	printf("total bytes=%" PRIu64 " gaps=%" PRIu64 " missing=%" PRIu64 " unmarked=%" PRIu64
	       " lost=%" PRIu64 " duplicate=%" PRIu64 " garbage=%" PRIu64 " snapshots=%" PRIu64
	       " overlap=%" PRIu64 " samples=%" PRIu64 " lost_records=%" PRIu64 " clipped=%" PRIu64
	       " offences=%" PRIu64 "\n", bytes, gaps, missing, unmarked, lost, c->duplicate, c->garbage,
	       c->n_snapshots, c->overlap, c->n_samples, c->n_lost_records, c->clipped,
	       c->n_offences);
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
	free(c->losses.p);
	free(c->ledger.p);
	free(c->file_ledger.p);
	free(c->labels.p);
}

static int usage(void)
{
	fprintf(stderr, "usage: auxcheck [-vtw] [-p PMU] [-b STAT_BEFORE] [-m AUX_BYTES] "
		"[-n SNAPSHOTS] [-f FILE]... FILE [STAT...]\n"
		"  -v  each gap   -t  the newest bytes may be unread   -p  of STAT's PMUs\n"
		"  -f  files before FILE, of a rotation   -m  area: snapshots are whole\n"
		"  -n  so many were asked for   -w  nothing but snapshots stops the PMU\n");
	return 2;
}

static int open_and_read(struct check *c, struct aux_reader **r, const char *path)
{
	struct aux_diag diag = { 0 };

	if (aux_reader_open(r, path, &diag)) {
		fprintf(stderr, "auxcheck: %s\n", diag.text);
		return -1;
	}
	read_file(c, *r);
	return 0;
}

/* Files of a rotation are one recording. */
static int check_files(struct check *c, char **paths, size_t n)
{
	struct aux_reader **readers = calloc(n, sizeof(*readers));
	int ret = readers ? 0 : 2;
	size_t i;

	for (i = 0; !ret && i < n; i++)
		ret = open_and_read(c, &readers[i], paths[i]) ? 2 : 0;
	for (i = 0; !ret && i < c->n_streams; i++) {
		count_stops(&c->streams[i]);
		c->streams[i].overwrite |= c->labels.n > 0;
		if (c->streams[i].overwrite)
			check_snapshots(c, (unsigned int)i);
		else
			check_full(c, (unsigned int)i);
	}
	if (!ret) {
		check_runs(c);
		ret = report(c);
	}
	for (i = 0; readers && i < n; i++)
		aux_reader_close(readers[i]);
	free(readers);
	return ret;
}

int main(int argc, char **argv)
{
	struct check check = { .want_labels = NONE }, *c = &check;
	const char *before = NULL;
	size_t n_files = 0;
	char **files = calloc((size_t)argc + 1, sizeof(*files));
	unsigned int i;
	int o, ret = files ? 0 : 2;

	while (!ret && (o = getopt(argc, argv, "vtwp:b:m:n:f:")) != -1) {
		switch (o) {
		case 'v': c->verbose = true; break;
		case 't': c->allow_tail = true; break;
		case 'w': c->alone = true; break;
		case 'p': c->pmu = optarg; break;
		case 'b': before = optarg; break;
		case 'm': c->aux_size = strtoull(optarg, NULL, 0); break;
		case 'n': c->want_labels = strtoull(optarg, NULL, 0); break;
		case 'f': files[n_files++] = optarg; break;
		default: ret = usage();
		}
	}
	if (!ret && optind >= argc)
		ret = usage();
	for (i = 0; i < N_CPU; i++)
		c->cpu[i].first = c->cpu[i].last = c->cpu[i].snapshot_end = NONE;
	if (!ret)
		files[n_files++] = argv[optind++];
	if (!ret && before)
		ret = read_stat(c, before, -1) ? 2 : 0;
	for (; !ret && optind < argc; optind++)
		ret = read_stat(c, argv[optind], 1) ? 2 : 0;
	if (!ret)
		ret = check_files(c, files, n_files);
	free_check(c);
	free(files);
	return ret;
}
