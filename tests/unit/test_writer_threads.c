/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The writer under several threads at a time: nothing is lost, torn or out of
 * order, on a good disk, on one that fills up, and when it is killed.
 *
 * Under ThreadSanitizer, by hand:
 * make BUILD=/tmp/tsan CFLAGS="-O1 -g -fsanitize=thread" LDFLAGS=-fsanitize=thread
 *	/tmp/tsan/tests/test_writer_threads && /tmp/tsan/tests/test_writer_threads
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"
#include "tests/unit/writer_small.h"

#define N_THREADS 4
#define RING (1 << 20)

static char dir[] = "/dev/shm/auxkit-writer.XXXXXX";
static char path[64];

struct job {
	pthread_t thread;
	struct writer *w;
	uint32_t idx;
	uint64_t bytes;		/* to write */
	uint64_t given, n_records;
	uint64_t flushed;	/* bytes given at the last flush */
	int reports;		/* a pipe that takes one after each record; 0 */
	int ret;
};

/* What a thread has written so far. */
struct report {
	uint64_t idx, flushed;
};

/* Byte n of stream idx, never zero as padding is. */
static uint8_t pattern(uint32_t idx, uint64_t n)
{
	return (uint8_t)((n * 2654435761u >> 9) + idx * 37) | 1;
}

static void put_record(struct job *j)
{
	struct synth_id id = { 77, 77, 5000 + j->n_records, j->idx, 21 };
	struct aux_code_entry e = { .addr = j->n_records, .len = 5,
				    .pid = j->idx, .kind = AUX_CODE_ANON };

	if (!synth_comm(j->w, &id, j->idx, (uint32_t)j->n_records, "x", false))
		j->n_records++;
	if (j->n_records % 16 == 0)
		writer_code(j->w, &e, "12345");
	if (j->n_records % 24 == 0 && !writer_flush(j->w))
		j->flushed = j->given;
}

static void report(const struct job *j)
{
	const struct report r = { j->idx, j->flushed };

	if (write(j->reports, &r, sizeof(r)) != sizeof(r))
		_exit(1);
}

/* As a recorder's thread: pieces of a ring, with its wrap, and records. */
static void *run(void *arg)
{
	struct job *j = arg;
	uint8_t *ring = malloc(RING);
	uint64_t seed = j->idx + 1, head = 0, tail = 0;

	while (tail < j->bytes && !j->ret) {
		struct aux_rec_auxtrace a = { .offset = tail, .idx = j->idx };
		struct iovec iov[2];
		uint64_t at = tail % RING;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		a.size = (seed >> 33) % (seed >> 63 ? RING : 3000) + 1;
		for (; head < tail + a.size; head++)
			ring[head % RING] = pattern(j->idx, head);
		iov[0].iov_base = ring + at;
		iov[0].iov_len = a.size < RING - at ? a.size : RING - at;
		iov[1].iov_base = ring;
		iov[1].iov_len = a.size - iov[0].iov_len;
		j->ret = writer_auxtrace(j->w, &a, iov, 2);
		tail += a.size;
		j->given = tail;
		put_record(j);
		if (j->reports)
			report(j);
	}
	free(ring);
	return NULL;
}

static void run_some(struct writer *w, struct job *jobs, uint32_t n_threads,
		     uint64_t bytes, int reports)
{
	uint32_t i;

	put_info(w);
	for (i = 0; i < n_threads; i++) {
		jobs[i] = (struct job){ .w = w, .idx = i, .bytes = bytes,
					.reports = reports };
		pthread_create(&jobs[i].thread, NULL, run, &jobs[i]);
	}
	for (i = 0; i < n_threads; i++)
		pthread_join(jobs[i].thread, NULL);
}

static void run_all(struct writer *w, struct job *jobs, uint64_t bytes)
{
	run_some(w, jobs, N_THREADS, bytes, 0);
}

struct found {
	uint64_t aux[N_THREADS], comms[N_THREADS];
	uint64_t n_aux, n_bad;
};

static void look_at(const struct file *f, uint64_t rec, struct found *x)
{
	uint32_t type = u32_at(f, rec), idx;
	uint64_t i, n, off;

	if (type == PERF_RECORD_COMM) {
		idx = u32_at(f, rec + 8) % N_THREADS;
		x->n_bad += u32_at(f, rec + 12) != (uint32_t)x->comms[idx]++;
	}
	if (type != AUX_RECORD_AUXTRACE)
		return;
	n = u64_at(f, rec + 8);
	off = u64_at(f, rec + 16);
	idx = u32_at(f, rec + 32) % N_THREADS;
	x->n_bad += off != x->aux[idx];
	for (i = 0; i < n && f->data[rec + 48 + i]; i++)
		x->n_bad += f->data[rec + 48 + i] != pattern(idx, off + i);
	x->aux[idx] += i;
	x->n_bad += n - i > 7;
	for (; i < n; i++)
		x->n_bad += f->data[rec + 48 + i] != 0;
	x->n_aux++;
}

/* The whole of the data: false when it does not consist of records. */
static bool check_data(const struct file *f, struct found *x)
{
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), rec = at;

	memset(x, 0, sizeof(*x));
	for (; next_record(f, &at, end); rec = at)
		look_at(f, rec, x);
	return at == end && end <= f->len;
}

static bool check_index(const struct file *f, uint64_t n)
{
	uint64_t size = 0, at = feature(f, AUX_FEAT_AUXTRACE, &size), i;

	if (!at || u64_at(f, at) != n || size != 8 + n * 16)
		return n == 0;
	for (i = 0; i < n; i++)
		if (u32_at(f, u64_at(f, at + 8 + i * 16)) !=
		    AUX_RECORD_AUXTRACE)
			return false;
	return true;
}

static void test_stress(void)
{
	struct writer *w = start_small(path, NULL);
	struct job jobs[N_THREADS];
	const struct writer_stream *s;
	uint64_t given = 0, saved = 0;
	struct found x;
	struct file f;
	bool right = true;
	size_t i, n;

	run_all(w, jobs, 20 << 20);
	writer_finish(w);
	s = writer_streams(w, &n);
	for (i = 0; i < n; i++) {
		given += jobs[i].given;
		saved += s[i].saved;
		right &= s[i].end == jobs[s[i].idx].given && !s[i].unwritten;
	}
	ok(n == N_THREADS && right && given == saved, "all is counted as saved");
	ok(!writer_close(w, NULL), "%d threads write", N_THREADS);
	f = load_file(path);
	ok(check_data(&f, &x), "whole records");
	is_u64(x.n_bad, 0, "each stream in order, each byte in its place");
	for (right = true, i = 0; i < N_THREADS; i++)
		right &= x.aux[i] == jobs[i].given &&
			 x.comms[i] == jobs[i].n_records;
	ok(right, "nothing is missing");
	ok(check_index(&f, x.n_aux), "the index names each AUXTRACE");
	free(f.data);
}

/* Wherever the disk ends: what is in the file is what is said to be there. */
static void test_full(void)
{
	struct rlimit lim = { 0, RLIM_INFINITY }, was;
	int bad = 0, n_runs = 0;
	uint64_t limit;

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	for (limit = 1 << 20; limit < 16 << 20; limit += 1500007) {
		struct job jobs[N_THREADS];
		const struct writer_stream *s;
		uint64_t saved = 0, found = 0;
		struct found x;
		struct writer *w;
		struct file f;
		size_t i, n;

		lim.rlim_cur = limit;
		setrlimit(RLIMIT_FSIZE, &lim);
		w = start_small(path, NULL);
		run_all(w, jobs, 5 << 20);
		bad += writer_finish(w) != -AUX_E_IO;
		s = writer_streams(w, &n);
		for (i = 0; i < n; i++) {
			saved += s[i].saved;
			bad += s[i].saved + s[i].unwritten !=
			       jobs[s[i].idx].given;
		}
		bad += writer_close(w, NULL) != -AUX_E_IO;
		setrlimit(RLIMIT_FSIZE, &was);
		f = load_file(path);
		bad += !check_data(&f, &x) || x.n_bad || f.len > limit;
		for (i = 0; i < N_THREADS; i++)
			found += x.aux[i];
		bad += found != saved;
		n_runs++;
		free(f.data);
	}
	ok(n_runs > 8 && !bad, "a disk that fills up at %d places", n_runs);
	signal(SIGXFSZ, SIG_DFL);
}

/* A child that writes until it is killed, and reports to the pipe: that the file
 * is open, then each record. */
static pid_t start_writing(uint32_t n_threads, int reports)
{
	struct job jobs[N_THREADS], opened = { .reports = reports };
	pid_t pid = fork();
	struct writer *w;

	if (pid)
		return pid;
	w = start_small(path, NULL);
	report(&opened);
	run_some(w, jobs, n_threads, UINT64_C(8) << 30, reports);
	_exit(0);
}

/* Whether the header names data. */
static bool has_data(void)
{
	int fd = open(path, O_RDONLY);
	uint64_t size = 0;
	bool has = fd >= 0 && pread(fd, &size, 8, 48) == 8 && size;

	if (fd >= 0)
		close(fd);
	return has;
}

/* Waits for n reports, and with_data until there are data. flushed: of each
 * stream, as last reported. */
static bool wait_reports(int fd, unsigned int n, bool with_data,
			 uint64_t flushed[N_THREADS])
{
	struct report r;

	memset(flushed, 0, N_THREADS * sizeof(*flushed));
	while (n || (with_data && !has_data())) {
		if (read(fd, &r, sizeof(r)) != sizeof(r))
			return false;
		flushed[r.idx % N_THREADS] = r.flushed;
		n -= n > 0;
	}
	return true;
}

/* Whether the killed child's file is valid. */
static bool survived(struct found *x)
{
	struct file f = load_file(path);
	bool right = true;

	memset(x, 0, sizeof(*x));
	if (f.len)
		right = check_data(&f, x) && !x->n_bad && !has_features(&f);
	free(f.data);
	return right;
}

/*
 * At any moment, from before the file is open until each thread has flushed: the
 * header names whole records and no hole. What one thread alone has flushed it
 * names all; several may be at places before it.
 */
static void test_killed(void)
{
	int i, bad = 0, with_flush = 0;

	for (i = 0; i < 40; i++) {
		uint32_t n_threads = i % 2 ? N_THREADS : 1;
		unsigned int n = (unsigned int)(i / 2 * (i / 2));
		uint64_t flushed[N_THREADS];
		struct found x;
		int p[2];
		pid_t pid;

		unlink(path);
		if (pipe(p))
			exit(1);
		pid = start_writing(n_threads, p[1]);
		bad += !wait_reports(p[0], n, n > 100, flushed);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(p[0]);
		close(p[1]);
		bad += !survived(&x) || (n > 100 && !x.n_aux);
		if (n_threads == 1) {
			bad += x.aux[0] < flushed[0];
			with_flush += flushed[0] > 0;
		}
	}
	/* It flushes after 24 records, and the first report is not of one. */
	ok(!bad && with_flush == 15,
	   "killed at 40 moments: valid, with all that was flushed (%d)", bad);
}

int main(void)
{
	char cmd[64];

	if (!mkdtemp(dir)) {	/* no such place: then a disk will do */
		snprintf(dir, sizeof(dir), "/tmp/auxkit-writer.XXXXXX");
		if (!mkdtemp(dir))
			return 1;
	}
	snprintf(path, sizeof(path), "%s/perf.data", dir);
	snprintf(tiny, sizeof(tiny), "%s/tiny", dir);
	test_stress();
	test_full();
	test_killed();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd))
		return 1;
	return plan_done();
}
