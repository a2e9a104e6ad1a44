/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The writer's other modes: auxkit's own records, the pipe format, compressed records and
 * AUX data; auxkit's own byte by byte, the others as perf 6.1 reads them.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "tests/unit/tap.h"
#include "tests/unit/writer_dir.h"

static void put_features(struct writer *w)
{
	static const uint8_t host[] = "\x08\0\0\0" "ahost\0\0";

	writer_feature(w, AUX_FEAT_HOSTNAME, host, 12);
	writer_feature(w, AUX_FEAT_AUXKIT_SOURCE, "\1\0\0\0\2\0\0\0a\n", 10);
}

static void put_own(struct writer *w)
{
	struct aux_own_loss loss = { .idx = 0, .cause = AUX_LEDGER_TRUNCATED };
	struct aux_own_snapshot snap = { .number = 1, .label_len = 5 };
	struct aux_code_entry e = { .time_ns = 6000, .addr = 0x7000, .len = 3,
				    .pid = 77, .kind = AUX_CODE_ANON };

	writer_own(w, AUX_OWN_LOSS, &loss, sizeof(loss), NULL, 0);
	writer_own(w, AUX_OWN_SNAPSHOT, &snap, sizeof(snap), "label", 5);
	writer_own(w, 999, NULL, 0, "unknown", 7);
	writer_code(w, &e, "\x90\x90\xc3");
}

/* The small recording with everything that is ours in it. */
static int make(const struct writer_options *o)
{
	struct writer *w = start_small(path, o);

	if (!w)
		return -1;
	put_features(w);
	put_info(w);
	put_own(w);
	put_sideband(w);
	put_trace(w, pt, sizeof(pt), 0);
	synth_finished_round(w);
	writer_feature(w, AUX_FEAT_AUXKIT_LEDGER, "\2\0\0\0\1\0\0\0" "\0\0\0\0\0\0\0\0"
		       "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0"
		       "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0", 48);
	return writer_close(w, NULL);
}

static bool has_own(const struct file *f, uint64_t at, uint64_t end,
		    unsigned kind, uint32_t len)
{
	uint64_t rec = at;

	for (; next_record(f, &at, end); rec = at)
		if (u32_at(f, rec) == 65 &&
		    u64_at(f, rec + 8) == AUX_OWN_MAGIC &&
		    u32_at(f, rec + 16) == (kind | 1U << 16) &&
		    u32_at(f, rec + 20) == len)
			return true;
	return false;
}

static void check_own(const struct file *f, uint64_t at, uint64_t end)
{
	ok(has_own(f, at, end, AUX_OWN_LOSS, 48) &&
	   has_own(f, at, end, AUX_OWN_SNAPSHOT, 29) &&
	   has_own(f, at, end, AUX_OWN_CODE, 43) &&
	   has_own(f, at, end, AUX_OWN_SOURCE, 2) &&
	   has_own(f, at, end, AUX_OWN_LEDGER, 40) &&
	   has_own(f, at, end, 999, 7), "our records are there");
}

/* Of perf.data's two forms, the one with a whole header. */
static bool is_file(const char *name)
{
	struct file f = load_file(name);
	bool file = f.len > 16 && u64_at(&f, 8) > 16;

	free(f.data);
	return file;
}

/* All that perf is asked to do with a file; in "-": from a pipe. (From a file
 * on its stdin perf 6.1 cannot read AUX data: it seeks to the wrong place.) */
static void check_perf(const char *what, const char *in)
{
	char inject[128], args[256];
	int hits;

	if (!have_perf()) {
		skip("no perf here");
		return;
	}
	snprintf(args, sizeof(args), "script --itrace=i0ns -F tid,ip -i %s", in);
	ok(!perf_alarms(args, path, "40100", &hits) && hits == 2,
	   "%s: perf script decodes the two instructions", what);
	snprintf(args, sizeof(args), "script -D -i %s", in);
	ok(!perf_alarms(args, path, "TIP.PGE 0x401000", &hits) && hits == 1,
	   "%s: perf script -D", what);
	snprintf(args, sizeof(args), "report --stdio -i %s", in);
	ok(!perf_alarms(args, path, "#", &hits), "%s: perf report", what);
	snprintf(args, sizeof(args),
		 "script --show-task-events --show-mmap-events -i %s", in);
	ok(!perf_alarms(args, path, "intel_pt", &hits) &&
	   !perf_alarms(args, path, "tiny", &hits) && hits > 2,
	   "%s: perf script shows the side-band", what);
	snprintf(inject, sizeof(inject), "%s/injected", dir);
	snprintf(args, sizeof(args), "inject -o %s -i %s", inject, in);
	ok(!perf_alarms(args, path, "x", &hits), "%s: perf inject", what);
	/* A pipe's records, too; from perf 7.2 on a file, whatever it was made of. */
	snprintf(args, sizeof(args), "script --itrace=i0ns -F tid,ip -i %s",
		 *in && is_file(inject) ? "" : in);
	ok(!perf_alarms(args, inject, "40100", &hits) && hits == 2,
	   "%s: and what it made", what);
	unlink(inject);
}

static void test_own(void)
{
	struct file f;
	struct writer *w;
	static uint8_t much[WRITER_OWN_MAX + 1];

	ok(!make(NULL), "own records in a file");
	f = load_file(path);
	check_own(&f, u64_at(&f, 40), u64_at(&f, 40) + u64_at(&f, 48));
	check_perf("own records", "");
	free(f.data);
	w = start_small(path, NULL);
	ok(!writer_own(w, 999, much, 100, much, WRITER_OWN_MAX - 100),
	   "the longest own record");
	ok(writer_own(w, 999, much, 100, much, WRITER_OWN_MAX - 99) ==
	   -AUX_E_INVAL, "a longer one is refused");
	writer_close(w, NULL);
}

static uint64_t find(const struct file *f, uint64_t at, uint32_t type,
		     uint64_t word)
{
	uint64_t rec = at;

	for (; next_record(f, &at, f->len); rec = at)
		if (u32_at(f, rec) == type && u64_at(f, rec + 8) == word)
			return rec;
	return 0;
}

static void test_pipe(void)
{
	const struct writer_options o = { .pipe = true };
	struct file f;
	uint64_t at = 16, rec = at, n = 0, odd = 0;

	ok(!make(&o), "the pipe format");
	f = load_file(path);
	ok(!memcmp(f.data, "PERFILE2\x10\0\0\0\0\0\0\0", 16), "16 bytes of header");
	is_u64(u64_at(&f, 16), AUX_RECORD_HEADER_ATTR |
	       (8 + ATTR_SIZE + 16) << 48, "HEADER_ATTR with two ids");
	is_u64(u64_at(&f, 24 + ATTR_SIZE), 11, "its first id");
	ok(find(&f, 16, AUX_RECORD_EVENT_UPDATE, 2) != 0, "EVENT_UPDATE");
	ok(find(&f, 16, AUX_RECORD_HEADER_FEATURE, AUX_FEAT_HOSTNAME) &&
	   find(&f, 16, AUX_RECORD_HEADER_FEATURE, AUX_FEAT_EVENT_DESC) &&
	   find(&f, 16, AUX_RECORD_HEADER_FEATURE, AUX_FEAT_SAMPLE_TIME),
	   "HEADER_FEATURE");
	ok(find(&f, 16, AUX_RECORD_BUILD_ID, 0xefbeaddeffffffff) != 0,
	   "HEADER_BUILD_ID");
	check_own(&f, 16, f.len);
	for (; next_record(&f, &at, f.len); rec = at, n++) {
		uint32_t size = u32_at(&f, rec + 4) >> 16;

		odd += size % 8 || (u32_at(&f, rec) == AUX_RECORD_EVENT_TYPE &&
				    size < AUX_OWN_RECORD_MIN);
	}
	ok(at == f.len && n > 25, "records to the end");
	is_u64(odd, 0, "all of a size that perf 7.2 takes");
	check_perf("pipe format", "-");
	free(f.data);
}

static void test_broken_pipe(void)
{
	const struct writer_options o = { .pipe = true };
	struct aux_diag diag = { 0 };
	static uint8_t much[100000];
	const struct writer_stream *s;
	sigset_t pending;
	struct writer *w;
	int fds[2], was = dup(STDOUT_FILENO), ret;
	size_t n;

	fflush(stdout);
	if (pipe(fds))
		return;
	dup2(fds[1], STDOUT_FILENO);
	w = start_small("-", NULL);
	dup2(was, STDOUT_FILENO);
	close(was);
	close(fds[1]);
	put_info(w);
	ret = writer_flush(w);
	close(fds[0]);
	ok(!ret, "- is standard output");
	ok(put_trace(w, much, sizeof(much), 0) == -AUX_E_IO &&
	   put_trace(w, much, 50, sizeof(much)) == -AUX_E_IO,
	   "a closed pipe is an error");
	sigpending(&pending);
	ok(!sigismember(&pending, SIGPIPE), "and leaves no signal");
	writer_finish(w);
	s = writer_streams(w, &n);
	ok(n == 1 && s->saved == 0 && s->unwritten == sizeof(much) + 50 &&
	   s->end == sizeof(much) + 50, "what it did not take is counted");
	ok(writer_close(w, &diag) == -AUX_E_IO &&
	   strstr(diag.text, "Broken pipe"), "with its cause at close");
	ok(writer_open(&w, dir, &o, &diag) == -AUX_E_IO, "a directory");
}

#ifdef HAVE_ZSTD
static uint8_t *expand(const struct file *f, size_t *len)
{
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), rec = at;
	ZSTD_DStream *z = ZSTD_createDStream();
	uint8_t *all = malloc(64 << 20);
	ZSTD_outBuffer out = { all, 64 << 20, 0 };

	for (; next_record(f, &at, end); rec = at)
		if (u32_at(f, rec) == AUX_RECORD_COMPRESSED) {
			ZSTD_inBuffer in = { f->data + rec + 8, at - rec - 8, 0 };

			while (in.pos < in.size)
				ZSTD_decompressStream(z, &out, &in);
		}
	ZSTD_freeDStream(z);
	*len = out.pos;
	return all;
}

/* Many different records, so that frames and pieces of frames come about. */
static void test_records(void)
{
	const struct writer_options o = { .zstd_level = 3 };
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	struct writer *w = start_small(path, &o);
	uint64_t seed = 1, aux;
	struct file f;
	uint8_t *all, big[60000];
	size_t i, len;
	int ret = 0;

	put_info(w);
	put_sideband(w);
	for (i = 0; i < 60; i++) {
		size_t k;

		for (k = 0; k < sizeof(big); k++) {
			seed = seed * 6364136223846793005 + 1;
			big[k] = (uint8_t)(seed >> 56);
		}
		ret |= writer_own(w, 999, NULL, 0, big, sizeof(big));
		for (k = 0; k < 2000; k++)
			ret |= synth_switch(w, &id, k & 1);
		if (i == 30)
			ret |= put_trace(w, pt, sizeof(pt), 0);
	}
	ok(!ret && !writer_close(w, NULL), "many records are compressed");
	f = load_file(path);
	ok(count_records(&f, &aux) > 60, "into whole records");
	ok(feature(&f, AUX_FEAT_COMPRESSED, &aux) != 0, "COMPRESSED is said");
	all = expand(&f, &len);
	ok(len > 60 * (60000 + 2000 * 40) && f.len < len * 9 / 20,
	   "that hold them all");
	if (have_perf()) {
		int hits;

		ok(!perf_alarms("script --show-switch-events -i", path,
				"PERF_RECORD_SWITCH ", &hits) &&
		   hits == 60 * 2000 + 2, "perf script sees each of them");
	}
	free(all);
	free(f.data);
}

/* AUX data that shrink and that do not. */
static void test_aux(void)
{
	const struct writer_options o = { .zstd_aux = true };
	struct writer *w = start_small(path, &o);
	static uint8_t zeros[300000], noise[5000], out[300000];
	uint64_t at, size, seed = 7;
	struct file f;
	size_t i;

	for (i = 0; i < sizeof(noise); i++) {
		seed = seed * 6364136223846793005 + 1;
		noise[i] = (uint8_t)(seed >> 56);
	}
	put_info(w);
	put_trace(w, zeros, sizeof(zeros), 0);
	put_trace(w, noise, sizeof(noise), sizeof(zeros));
	ok(!writer_close(w, NULL), "AUX data are compressed");
	f = load_file(path);
	ok(count_records(&f, &size) == 9 && size == 5000,
	   "where it makes them shorter");
	at = feature(&f, AUX_FEAT_AUXTRACE, &size);
	is_u64(size, 8 + 2 * 16, "both are in the index");
	at = u64_at(&f, at + 8);
	ok(u64_at(&f, at) == (AUX_RECORD_AUXKIT_AUXTRACE_ZSTD | 64ULL << 48) &&
	   u64_at(&f, at + 16) == 0 && u64_at(&f, at + 48) == sizeof(zeros) &&
	   u64_at(&f, at + 8) == ((u64_at(&f, at + 56) + 7) & ~7ULL),
	   "the record tells both sizes");
	ok(ZSTD_decompress(out, sizeof(out), f.data + at + 64,
			   u64_at(&f, at + 56)) == sizeof(zeros) &&
	   !memcmp(out, zeros, sizeof(zeros)), "and holds the bytes");
	free(f.data);
}

/* A record that does not shrink may be longer than what is compressed at a time.
 * All others stand in one piece: where the file is cut, they do not suffer. */
static void test_pieces(void)
{
	const struct writer_options o = { .zstd_level = 19 };
	struct writer *w = start_small(path, &o);
	static uint8_t noise[WRITER_OWN_MAX];
	uint64_t seed = 3, at, rec, end;
	ZSTD_DStream *z = ZSTD_createDStream();
	uint8_t *out = malloc(1 << 20);
	int cut = 0, small = 0, odd = 0, n = 0;
	struct file f;
	size_t i;

	for (i = 0; i < sizeof(noise); i++) {
		seed = seed * 6364136223846793005 + 1;
		noise[i] = (uint8_t)(seed >> 56);
	}
	for (i = 0; i < 9; i++) {
		put_sideband(w);
		writer_own(w, 999, NULL, 0, noise, i % 3 ? i * 8000 :
						   sizeof(noise));
	}
	ok(!writer_close(w, NULL), "the longest records are compressed");
	f = load_file(path);
	at = rec = u64_at(&f, 40);
	end = at + u64_at(&f, 48);
	for (; next_record(&f, &at, end); rec = at) {
		ZSTD_inBuffer in = { f.data + rec + 8, at - rec - 8, 0 };
		ZSTD_outBuffer to = { out, 1 << 20, 0 };
		size_t p = 0;

		odd += (at - rec) % 8 != 0;
		if (u32_at(&f, rec) != AUX_RECORD_COMPRESSED)
			continue;
		ZSTD_decompressStream(z, &to, &in);
		small += in.pos < in.size || !to.pos;
		while (p + 8 <= to.pos && out[p + 6] + out[p + 7] * 256U >= 8)
			p += out[p + 6] + out[p + 7] * 256U;
		cut += p != to.pos;
		n++;
	}
	ok(at == end && !odd, "records keep their alignment");
	ok(n > 9 && !small, "one call reads each compressed record");
	ok(cut == 6, "only the 3 longest are in two pieces");
	ZSTD_freeDStream(z);
	free(out);
	free(f.data);
}

/* The disk is full somewhere: what was compressed last is not there, and what is
 * written for the end must be readable without it. */
static void test_full(void)
{
	struct writer_options o = { .zstd_level = 1 };
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	struct rlimit was, lim;
	struct aux_diag diag;
	int bad = 0, n = 0;
	struct file f;
	uint64_t aux;

	getrlimit(RLIMIT_FSIZE, &was);
	signal(SIGXFSZ, SIG_IGN);
	for (lim = was, lim.rlim_cur = 3000; n < 12; lim.rlim_cur += 3217, n++) {
		struct writer *w = start_small(path, &o);
		int ret = 0, hits, i;

		setrlimit(RLIMIT_FSIZE, &lim);
		put_info(w);
		for (i = 0; i < 100000 && !ret; i++) {
			id.time = 5000 + (uint64_t)(i * i % 9973);
			ret = synth_switch(w, &id, i % 3);
			if (i % 999 == 0)
				writer_flush(w);
		}
		setrlimit(RLIMIT_FSIZE, &was);
		put_features(w);
		bad += writer_close(w, &diag) != -AUX_E_IO;
		f = load_file(path);
		bad += count_records(&f, &aux) < 6 || !has_features(&f);
		free(f.data);
		bad += have_perf() && n % 4 == 0 &&
		       (perf_alarms("script --show-switch-events -i", path,
				    "SWITCH", &hits) || !hits);
	}
	signal(SIGXFSZ, SIG_DFL);
	ok(!bad, "a disk filled at %d places leaves a valid file", n);
}
#endif

static void test_zstd(void)
{
	struct writer_options o = { .zstd_level = 3 };
	struct aux_diag diag = { 0 };
	struct writer *w;
	int ret = writer_open(&w, path, &o, &diag);

	if (ret == -AUX_E_INVAL) {
		ok(strstr(diag.text, "libzstd") != NULL, "no zstd: the reason");
		o = (struct writer_options){ .zstd_aux = true };
		ok(writer_open(&w, path, &o, &diag) == -AUX_E_INVAL,
		   "nor for AUX data");
		skip("no libzstd in this build");
		return;
	}
	writer_close(w, NULL);
#ifdef HAVE_ZSTD
	ok(!make(&o), "records are compressed");
	check_perf("compressed", "");
	test_records();
	test_pieces();
	test_full();
	o.pipe = true;
	ok(!make(&o), "records are compressed for a pipe");
	check_perf("compressed pipe", "-");
	test_aux();
	o.zstd_level = 99;
	ok(writer_open(&w, path, &o, &diag) == -AUX_E_INVAL,
	   "a level that does not exist");
#endif
}

int main(void)
{
	if (!make_dir())
		return 1;
	test_own();
	test_pipe();
	test_broken_pipe();
	test_zstd();
	if (!remove_dir())
		return 1;
	return plan_done();
}
