/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Repair: a recording truncated at every byte, as a killed perf and a killed auxcap leave it.
 * Complete, foreign or damaged files are not changed.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perfdata/repair.h"
#include "tests/unit/tap.h"
#include "tests/unit/writer_small.h"

static char dir[] = "/tmp/auxkit-repair.XXXXXX";
static char path[64], other[64];

static void save(const uint8_t *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (write(fd, data, len) != (ssize_t)len)
		ok(false, "scratch file");
	close(fd);
}

/* What a writer leaves behind when it is killed. */
static struct file make_killed_as(const struct writer_options *o)
{
	pid_t pid = fork();

	if (!pid) {
		struct writer *w = start_small(path, o);

		writer_feature(w, AUX_FEAT_HOSTNAME, "\x08\0\0\0" "ahost\0\0",
			       12);
		put_info(w);
		put_sideband(w);
		put_trace(w, pt, sizeof(pt), 0);
		synth_finished_round(w);
		writer_flush(w);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	return load_file(path);
}

static struct file make_killed(void)
{
	return make_killed_as(NULL);
}

static void put_u64(struct file *f, uint64_t at, uint64_t v)
{
	memcpy(f->data + at, &v, sizeof(v));
}

static bool same_file(const struct file *f)
{
	struct file now = load_file(path);
	bool same = now.len == f->len && !memcmp(now.data, f->data, f->len);

	free(now.data);
	return same;
}

static int mend_as(enum repair_way way, struct repair_result *r)
{
	const struct repair_options o = { .way = way };
	struct aux_diag diag = { 0 };
	int ret = repair_file(path, &o, r, &diag);

	if (ret)
		printf("# %s\n", diag.text);
	return ret;
}

static int mend(struct repair_result *r)
{
	return mend_as(REPAIR_APPEND, r);
}

/* What repair found, be the records compressed or not. */
static void check_found(const struct file *f)
{
	uint64_t size = 0, at;

	at = feature(f, AUX_FEAT_AUXTRACE, &size);
	ok(size == 24 && u64_at(f, at) == 1 &&
	   u32_at(f, u64_at(f, at + 8)) == AUX_RECORD_AUXTRACE,
	   "the index is rebuilt");
	at = feature(f, AUX_FEAT_SAMPLE_TIME, &size);
	ok(u64_at(f, at) == 5000 && u64_at(f, at + 8) == 20000,
	   "the times are found");
	at = feature(f, AUX_FEAT_BUILD_ID, &size);
	ok(size == 100 && u32_at(f, at + 12) == 0xefbeadde,
	   "the build id is found");
	at = feature(f, AUX_FEAT_HOSTNAME, &size);
	ok(size >= 12 && !strcmp((char *)f->data + at + 4, "ahost"),
	   "features that stand among the data are features again");
	ok(feature(f, AUX_FEAT_EVENT_DESC, &size) != 0, "the events too");
}

static void check_perf(void)
{
	int hits;

	if (!have_perf()) {
		skip("no perf here");
		return;
	}
	ok(!perf_alarms("script --itrace=i0ns -F tid,ip -i", path, "40100",
			&hits) && hits == 2, "perf decodes it");
	ok(!perf_alarms("report --stdio --header -i", path, "ahost", &hits) &&
	   hits > 0, "perf report knows the host");
}

static void check_repaired(void)
{
	struct file f = load_file(path);
	uint64_t aux;

	ok(count_records(&f, &aux) == 2 + 16 + 2 && aux == 48,
	   "all records and the mark of the loss are there");
	check_found(&f);
	free(f.data);
	check_perf();
}

static void test_killed(void)
{
	struct file f = make_killed(), mended;
	struct repair_options o = { .dry_run = true };
	struct repair_result r;

	ok(!repair_file(path, &o, &r, NULL) && !r.complete &&
	   r.n_records == 19 && r.n_auxtrace == 1 && r.aux_bytes == 48 &&
	   !r.cut && same_file(&f), "a dry run tells and changes nothing");
	o.dry_run = false;
	o.output = other;
	ok(!repair_file(path, &o, &r, NULL) && same_file(&f),
	   "with an output the file is left alone");
	ok(!mend(&r) && r.declared == r.data_size, "a killed file is repaired");
	check_repaired();
	mended = load_file(path);
	ok(!mend(&r) && r.complete && same_file(&mended), "once is enough");
	free(f.data);
	f = load_file(other);
	ok(f.len == mended.len && !memcmp(f.data, mended.data, f.len),
	   "the output is the same");
	ok(repair_file(path, &o, &r, NULL) == 0 &&
	   repair_file(other, &o, &r, NULL) == 0, "complete ones are left");
	free(f.data);
	free(mended.data);
}

/* As perf leaves it: data size 0, feature bits without sections. */
static void test_perf_killed(void)
{
	struct file f = make_killed();
	struct repair_result r;

	put_u64(&f, 48, 0);
	put_u64(&f, 72, 0xfffffffe);
	save(f.data, f.len);
	ok(!mend(&r) && !r.complete && !r.declared, "data size 0 is repaired");
	check_repaired();
	free(f.data);
}

/* Bytes of a repaired file are those of before, but for the length of trace that
 * was cut. */
static bool same_data(const struct file *m, const struct file *f, uint64_t start,
		      const struct repair_result *r)
{
	uint64_t at = start, end = start + r->data_size, size;

	if (!r->missing)
		return !memcmp(m->data + start, f->data + start, r->data_size);
	for (; at + 16 <= end; at += size) {
		size = u32_at(m, at + 4) >> 16;
		if (u32_at(m, at) != AUX_RECORD_AUXTRACE)
			continue;
		if (at + size + u64_at(m, at + 8) == end)
			break;
		size += u64_at(m, at + 8);
	}
	return at < end && u64_at(m, at + 8) + r->missing == u64_at(f, at + 8) &&
	       !memcmp(m->data + start, f->data + start, at + 8 - start) &&
	       !memcmp(m->data + at + 16, f->data + at + 16, end - at - 16);
}

static void test_cut(const struct writer_options *wo, const char *what)
{
	struct file f = make_killed_as(wo), m;
	uint64_t start = u64_at(&f, 40), len, aux, most = 0;
	long n, last = 0, all = count_records(&f, &aux);
	int bad = 0, refused = 0, clipped = 0;

	for (len = 0; len <= f.len; len++) {
		struct repair_result r;
		struct repair_options o = { 0 };
		int ret;

		save(f.data, len);
		ret = repair_file(path, &o, &r, NULL);
		m = load_file(path);
		if (ret) {
			refused++;
			bad += m.len != len || last > 0 ||
			       memcmp(m.data, f.data, len) != 0;
		} else {
			n = count_records(&m, &aux);
			bad += n < last || n < 2 || r.cut != len - start -
			       r.data_size || !has_features(&m) ||
			       r.n_records < most ||
			       !same_data(&m, &f, start, &r);
			clipped += r.missing != 0;
			last = n;
			most = r.n_records;
		}
		free(m.data);
	}
	ok(!bad && refused >= (int)start && last == all + 1 &&
	   clipped == 40, "%s, cut at every byte: repaired or left alone", what);
	free(f.data);
}

#ifdef HAVE_ZSTD
/* What is in compressed records is found as if they were not. */
static void test_compressed(void)
{
	const struct writer_options o = { .zstd_level = 1 };
	struct file f = make_killed_as(&o), m;
	struct repair_result r;
	uint64_t size, at = u64_at(&f, 40), rec = at;

	ok(!mend(&r) && r.n_records == 20, "compressed records are counted");
	m = load_file(path);
	check_found(&m);
	check_perf();
	ok(feature(&m, AUX_FEAT_COMPRESSED, &size) && size >= 20,
	   "the file says that they are there");
	ok(!mend_as(REPAIR_REWRITE, &r) && r.complete && same_file(&m),
	   "it is complete for both ways of repair");
	free(m.data);
	while (next_record(&f, &at, f.len) &&
	       u32_at(&f, rec) != AUX_RECORD_COMPRESSED)
		rec = at;
	put_u64(&f, rec + 8, 0x1234567);	/* no zstd frame */
	save(f.data, f.len);
	ok(!mend(&r) && r.n_records < 20 && !r.cut,
	   "what cannot be read is kept as it is");
	m = load_file(path);
	ok(!memcmp(m.data + 104, f.data + 104, f.len - 104) &&
	   feature(&m, AUX_FEAT_HOSTNAME, &size) &&
	   !feature(&m, AUX_FEAT_BUILD_ID, &size),
	   "and what it tells is missing");
	free(m.data);
	free(f.data);
	test_cut(&o, "compressed");
}
#endif

/* Sections that no record of perf's can hold: without TRACING_DATA perf does not
 * open a file with tracepoints. */
static void test_pieces(const struct writer_options *o, const char *what)
{
	static uint8_t formats[150000];
	struct repair_result r;
	uint64_t size, at;
	struct file f;
	size_t i;
	pid_t pid;

	for (i = 0; i < sizeof(formats); i++)
		formats[i] = (uint8_t)(i * i >> 7);
	pid = fork();
	if (!pid) {
		struct writer *w = start_small(path, o);

		writer_feature(w, AUX_FEAT_TRACING_DATA, formats,
			       sizeof(formats));
		put_info(w);
		writer_flush(w);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	ok(!mend(&r), "%s: a long section is repaired", what);
	f = load_file(path);
	at = feature(&f, AUX_FEAT_TRACING_DATA, &size);
	ok(at && size == sizeof(formats) &&
	   !memcmp(f.data + at, formats, size), "%s: byte by byte", what);
	free(f.data);
}

static void test_damage(void)
{
	struct file f = make_killed();
	struct repair_result r;
	uint64_t at = u64_at(&f, 40), second;
	int i, bad = 0;

	next_record(&f, &at, f.len);
	second = at;
	put_u64(&f, second, 0x0003000000000007);	/* size 3 */
	save(f.data, f.len);
	ok(mend(&r) == -AUX_E_FORMAT && same_file(&f), "damage is not repaired");
	memset(f.data + second, 0, f.len - second);
	save(f.data, f.len);
	ok(!mend(&r) && r.n_records == 1 && r.cut == f.len - second,
	   "zeros are what was never written");
	memset(f.data + second + 8, 0xff, f.len - second - 8);
	for (i = 0; i < 2; i++) {	/* a thread was killed before another */
		save(f.data, f.len);
		ok(!mend_as((enum repair_way)i, &r) && r.n_records == 1,
		   "so are they before other data");
	}
	free(f.data);
	f = make_killed();
	for (i = 0; i < 104; i += 8) {	/* no header makes it crash or write */
		uint64_t was = u64_at(&f, (uint64_t)i);
		struct repair_options o = { .dry_run = true };

		put_u64(&f, (uint64_t)i, UINT64_MAX - 5);
		save(f.data, f.len);
		repair_file(path, &o, &r, NULL);
		bad += !same_file(&f);
		put_u64(&f, (uint64_t)i, was);
	}
	ok(!bad, "headers full of nonsense");
	save((const uint8_t *)"hello world, this is no recording", 30);
	ok(mend(&r) == -AUX_E_FORMAT, "another file");
	free(f.data);
}

static void test_busy(void)
{
	struct repair_options o = { 0 };
	struct aux_diag diag = { 0 };
	struct repair_result r;
	struct writer *w = start_small(path, NULL);

	put_info(w);
	writer_flush(w);
	ok(repair_file(path, &o, &r, &diag) == -AUX_E_INVAL &&
	   strstr(diag.text, "running"), "a file at work is left alone");
	ok(!writer_close(w, NULL) && !repair_file(path, &o, &r, NULL) &&
	   r.complete, "until it is complete");
	ok(repair_file("/nonexistent", &o, &r, &diag) == -AUX_E_IO &&
	   repair_file("/dev/null", &o, &r, &diag) == -AUX_E_INVAL &&
	   repair_file(dir, &o, &r, &diag) < 0, "what is no file is refused");
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/perf.data", dir);
	snprintf(other, sizeof(other), "%s/other.data", dir);
	snprintf(tiny, sizeof(tiny), "%s/tiny", dir);
	if (!make_tiny())
		return 1;
	test_killed();
	test_perf_killed();
	test_cut(NULL, "records");
	test_pieces(NULL, "pieces");
#ifdef HAVE_ZSTD
	test_compressed();
	test_pieces(&(struct writer_options){ .zstd_level = 1 },
		    "compressed pieces");
#else
	skip("no libzstd in this build");
#endif
	test_damage();
	test_busy();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		return 1;
	return plan_done();
}
