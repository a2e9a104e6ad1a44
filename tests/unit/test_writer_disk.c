/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Which of the writer's records are on the disk, and when: large input, a disk that fills
 * up, and a writer that is killed, is slow or discards its file.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/unit/tap.h"
#include "tests/unit/writer_dir.h"

/* Many records, and AUX pieces above and below the size that is copied. */
static int put_much(struct writer *w, int n)
{
	uint8_t *big = calloc(1, 300001);
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	uint64_t offset = 0;
	int i, ret = 0;

	put_info(w);
	put_sideband(w);
	for (i = 0; i < n && !ret; i++) {
		size_t len = i % 3 ? 100 + (size_t)i : 300001;

		synth_aux(w, &id, offset, len, 0);
		ret = put_trace(w, big, len, offset);
		offset += len;
	}
	free(big);
	return ret;
}

static void test_large(void)
{
	struct writer *w = start();
	uint64_t aux, size;
	struct file f;

	put_much(w, 60);
	ok(!writer_close(w, NULL), "a file with large AUX pieces is written");
	f = load();
	is_u64(count_records(&f, &aux), 1 + 15 + 120, "all records are there");
	ok(aux >= 20 * 300001 && feature(&f, AUX_FEAT_AUXTRACE, &size) &&
	   size == 8 + 60 * 16, "all AUX bytes are there and in the index");
	free(f.data);
}

/* A disk that fills up, at many places; the file stays valid. */
static void test_full(void)
{
	struct rlimit lim = { 0, RLIM_INFINITY }, was;
	int bad = 0, hits = 0, n = 0;
	uint64_t limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	for (limit = 2001; limit < 7000000; limit += 150001) {
		struct aux_diag diag = { 0 };
		struct writer *w;
		uint64_t aux, size;
		struct file f;

		lim.rlim_cur = limit;
		setrlimit(RLIMIT_FSIZE, &lim);
		w = start();
		put_much(w, 60);
		if (writer_close(w, &diag) != -AUX_E_IO ||
		    !strstr(diag.text, "File too large"))
			bad++;
		setrlimit(RLIMIT_FSIZE, &was);
		f = load();
		n++;
		if (count_records(&f, &aux) < 1 || f.len > limit ||
		    (feature(&f, AUX_FEAT_AUXTRACE, &size) &&
		     (size - 8) / 16 > aux))
			bad++;
		if (aux && have_perf() && n % 12 == 0)
			bad += perf("script -D", "xyz", &hits) != 0;
		free(f.data);
		if (aux > 19 * 300000)
			break;
	}
	ok(n > 30 && !bad, "a disk filled at %d places leaves a valid file", n);
	signal(SIGXFSZ, SIG_DFL);
}

static void test_killed(void)
{
	struct file f;
	uint64_t aux;
	int status, hits;
	pid_t pid = fork();

	if (!pid) {
		struct writer *w = start();

		put_info(w);
		put_sideband(w);
		put_trace(w, pt, sizeof(pt), 0);
		writer_flush(w);
		put_much(w, 10);
		raise(SIGKILL);
	}
	waitpid(pid, &status, 0);
	f = load();
	ok(count_records(&f, &aux) >= 17 && aux >= 48,
	   "a killed writer leaves whole records");
	ok(f.len > 1000000 && f.len > u64_at(&f, 40) + u64_at(&f, 48),
	   "what came after the last flush is behind them");
	ok(!has_features(&f), "no feature bit says that it is unfinished");
	if (have_perf()) {
		ok(!perf("script -D", "TIP.PGE 0x401000", &hits) && hits == 1,
		   "perf reads it at once");
		ok(!perf("script --itrace=i0ns -F tid,ip", "40100", &hits) &&
		   hits == 2, "and decodes it");
	}
	free(f.data);
}

/* A slow source: what waits is pushed out by what comes later. */
static void test_slow(void)
{
	struct synth_id id = { 77, 77, 5000, 0, 21 };
	struct writer *w = start();
	struct stat st;

	synth_switch(w, &id, false);
	synth_switch(w, &id, true);
	usleep(300000);
	synth_switch(w, &id, false);
	ok(!stat(path, &st) && st.st_size == (off_t)writer_size(w),
	   "records do not wait long in memory");
	writer_close(w, NULL);
}

static void test_discard(void)
{
	struct stat before, after;
	struct writer *w;

	stat(path, &before);
	w = start();
	put_info(w);
	writer_discard(w, NULL);
	ok(!stat(path, &after) && before.st_ino == after.st_ino &&
	   before.st_size == after.st_size, "discard puts the old file back");
	ok(!writer_open(&w, "/dev/null", NULL, NULL), "discard of a device");
	writer_discard(w, NULL);
	ok(!access("/dev/null", W_OK), "leaves it alone");
	writer_discard(NULL, NULL);
}

int main(void)
{
	int n_fds = count_fds();

	if (!make_dir())
		return 1;
	test_large();
	test_full();
	test_killed();
	test_slow();
	test_discard();
	is_u64(count_fds(), n_fds, "no descriptor is left open");
	if (!remove_dir())
		return 1;
	return plan_done();
}
