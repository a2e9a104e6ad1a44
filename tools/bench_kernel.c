/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_kernel: one recording of pmu_sim's intel_pt, measured from outside.
 *
 *   bench_kernel run RATE REPORT LOG RECORDER [ARGUMENT...]
 *	records while the PMU makes RATE bytes a second on each CPU, and prints
 *	one line of KEY=VALUE: what it cost the recorder, what the PMU says
 *   bench_kernel work sleep|spin SECONDS REPORT [SNAPSHOTS]
 *	is what the recorder runs; asks it for snapshots by SIGUSR2; leaves in
 *	REPORT what it used itself, as that is no cost of the recorder, and what
 *	the recorder used and stored after the first quarter of that time
 *
 * Exit status: 0; 1 when it cannot measure, never for what the recorder did.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PARAMETERS "/sys/module/pmu_sim/parameters/"
#define DEBUGFS "/sys/kernel/debug/pmu_sim/"

static int fail(const char *what)
{
	fprintf(stderr, "bench_kernel: %s: %s\n", what, strerror(errno));
	return 1;
}

static uint64_t clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t cpu_us(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* ---- what the PMU counted ---- */

struct counts {
	uint64_t produced, stored, lost, unmade, truncated, begin_failed;
	uint64_t min_stored;	/* of the CPUs that made anything */
	uint64_t n_gaps, gap_ns, max_gap_ns;	/* from a stop to the next start */
};

/* Sums over the CPUs of lines "intel_pt.cpuN.NAME VALUE". */
static int read_counts(struct counts *c)
{
	FILE *f = fopen(DEBUGFS "stat", "r");
	char line[160], name[64];
	uint64_t v, made = 0;
	unsigned int cpu;

	memset(c, 0, sizeof(*c));
	c->min_stored = UINT64_MAX;
	if (!f)
		return fail(DEBUGFS "stat");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "intel_pt.cpu%u.%63s %" SCNu64, &cpu, name,
			   &v) != 3)
			continue;
		if (!strcmp(name, "produced"))
			c->produced += made = v;
		else if (!strcmp(name, "stored")) {
			c->stored += v;
			if (made && v < c->min_stored)
				c->min_stored = v;
		} else if (!strcmp(name, "lost"))
			c->lost += v;
		else if (!strcmp(name, "unmade"))
			c->unmade += v;
		else if (!strcmp(name, "truncated"))
			c->truncated += v;
		else if (!strcmp(name, "begin_failed"))
			c->begin_failed += v;
	}
	fclose(f);
	return 0;
}

/* ---- the recorded program ---- */

/* Until the clock says so: without system calls, as a program computes. */
static void pass_time(bool spin, uint64_t until_us)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until_us / 1000000),
		.tv_nsec = (long)(until_us % 1000000) * 1000,
	};

	if (spin)
		while (clock_us(CLOCK_MONOTONIC) < until_us)
			;
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts,
				       NULL) == EINTR)
			;
}

/* What a recorder has used so far, all its threads, and what was stored. */
struct state {
	uint64_t cpu_ns, stored;
};

static int read_state(pid_t recorder, struct state *s)
{
	char pattern[64];
	struct counts c;
	uint64_t ns;
	glob_t g;
	size_t i;
	FILE *f;

	s->cpu_ns = 0;
	snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/schedstat", recorder);
	if (glob(pattern, 0, NULL, &g))
		return fail(pattern);
	for (i = 0; i < g.gl_pathc; i++) {
		f = fopen(g.gl_pathv[i], "r");
		if (f && fscanf(f, "%" SCNu64, &ns) == 1)
			s->cpu_ns += ns;
		if (f)
			fclose(f);
	}
	globfree(&g);
	if (read_counts(&c))
		return 1;
	s->stored = c.stored;
	return 0;
}

static int work(const char *how, double seconds, const char *path,
		unsigned int n_snapshots)
{
	uint64_t start = clock_us(CLOCK_MONOTONIC), i;
	uint64_t step = (uint64_t)(seconds * 1e6) / (n_snapshots + 1);
	bool spin = !strcmp(how, "spin");
	struct state from = { 0 }, to = { 0 };
	FILE *f;

	/* What starting costs is over by then. */
	if (!n_snapshots) {
		pass_time(spin, start + (uint64_t)(seconds * 1e6) / 4);
		if (read_state(getppid(), &from))
			return 1;
	}
	for (i = 1; i <= n_snapshots; i++) {
		pass_time(spin, start + i * step);
		kill(getppid(), SIGUSR2);
	}
	pass_time(spin, start + (n_snapshots + 1) * step);
	if (!n_snapshots && read_state(getppid(), &to))
		return 1;
	f = fopen(path, "w");
	if (!f)
		return fail(path);
	fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		clock_us(CLOCK_PROCESS_CPUTIME_ID),
		(to.cpu_ns - from.cpu_ns) / 1000, to.stored - from.stored);
	return fclose(f) ? fail(path) : 0;
}

/* ---- the recorder ---- */

static int put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) ==
				     (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok ? 0 : fail(path);
}

/*
 * How long each source stood still between two sessions, by the module's clock:
 * lines "intel_pt.cpuN.session FROM TO FROM_NS TO_NS", in order for each CPU.
 */
static int read_gaps(struct counts *c)
{
	FILE *f = fopen(DEBUGFS "sessions", "r");
	uint64_t start_ns, end_ns, gap, last_ns = 0;
	unsigned int cpu, last_cpu = UINT32_MAX;
	char line[200];

	if (!f)
		return fail(DEBUGFS "sessions");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "intel_pt.cpu%u.session %*u %*u %" SCNu64
			   " %" SCNu64, &cpu, &start_ns, &end_ns) != 3)
			continue;
		if (cpu == last_cpu) {
			gap = start_ns - last_ns;
			c->n_gaps++;
			c->gap_ns += gap;
			if (gap > c->max_gap_ns)
				c->max_gap_ns = gap;
		}
		last_cpu = cpu;
		last_ns = end_ns;
	}
	fclose(f);
	return 0;
}

/* Returns -1 when that is impossible. */
static pid_t start(char *const argv[], const char *log)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	pid_t pid = fd < 0 ? -1 : fork();

	if (!pid) {
		dup2(fd, STDOUT_FILENO);
		dup2(fd, STDERR_FILENO);
		close(fd);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (fd >= 0)
		close(fd);
	return pid;
}

/* What the program used, and what the recorder used and stored while it ran, but
 * for the first quarter. */
struct report {
	uint64_t work_us, steady_us, steady_stored;
};

static struct report read_report(const char *path)
{
	FILE *f = fopen(path, "r");
	struct report r = { 0 };

	if (f && fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu64, &r.work_us,
			&r.steady_us, &r.steady_stored) != 3)
		r = (struct report){ 0 };
	if (f)
		fclose(f);
	return r;
}

static int run(const char *rate, const char *report, const char *log,
	       char *const argv[])
{
	uint64_t before, wall, cpu;
	struct report rep;
	struct rusage u;
	struct counts c;
	int status;
	pid_t pid;

	unlink(report);
	if (put_text(PARAMETERS "rate", rate) || put_text(DEBUGFS "reset", "1"))
		return 1;
	before = clock_us(CLOCK_MONOTONIC);
	pid = start(argv, log);
	if (pid < 0 || wait4(pid, &status, 0, &u) != pid)
		return fail(argv[0]);
	wall = clock_us(CLOCK_MONOTONIC) - before;
	if (read_counts(&c) || read_gaps(&c))
		return 1;
	rep = read_report(report);
	cpu = cpu_us(&u);	/* with that of the children it waited for */
	cpu = cpu > rep.work_us ? cpu - rep.work_us : 0;
	printf("status=%d wall_us=%" PRIu64 " cpu_us=%" PRIu64 " work_us=%"
	       PRIu64 " rss_kb=%ld", WIFEXITED(status) ? WEXITSTATUS(status) :
	       128 + WTERMSIG(status), wall, cpu, rep.work_us, u.ru_maxrss);
	printf(" steady_us=%" PRIu64 " steady_stored=%" PRIu64, rep.steady_us,
	       rep.steady_stored);
	printf(" produced=%" PRIu64 " stored=%" PRIu64 " lost=%" PRIu64
	       " unmade=%" PRIu64 " stops=%" PRIu64 " least=%" PRIu64,
	       c.produced, c.stored, c.lost, c.unmade,
	       c.truncated + c.begin_failed,
	       c.min_stored == UINT64_MAX ? 0 : c.min_stored);
	printf(" gaps=%" PRIu64 " gap_ns=%" PRIu64 " max_gap_ns=%" PRIu64 "\n",
	       c.n_gaps, c.gap_ns, c.max_gap_ns);
	return 0;
}

int main(int argc, char *argv[])
{
	if (argc >= 6 && !strcmp(argv[1], "run"))
		return run(argv[2], argv[3], argv[4], argv + 5);
	if (argc >= 5 && !strcmp(argv[1], "work"))
		return work(argv[2], strtod(argv[3], NULL), argv[4],
			    argc > 5 ? (unsigned int)strtoul(argv[5], NULL, 10) : 0);
	fputs("usage: bench_kernel run RATE REPORT LOG RECORDER [ARGUMENT...]\n"
	      "       bench_kernel work sleep|spin SECONDS REPORT [SNAPSHOTS]\n",
	      stderr);
	return 1;
}
