/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Targets: a program that is started stopped, runs with its user's signals, or reports why it
 * cannot be run; threads, processes, CPUs and cgroups that exist, exit or never existed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/event/target.h"
#include "tests/unit/fds.h"
#include "tests/unit/emulated.h"
#include "tests/unit/tap.h"

static void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static bool ends_within(struct target *t, int timeout_ms)
{
	for (; timeout_ms > 0; timeout_ms -= 5) {
		if (target_ended(t))
			return true;
		nap_ms(5);
	}
	return target_ended(t);
}

static void test_contradictions(void)
{
	static char *const argv[] = { (char *)(uintptr_t)"true", NULL };
	/* table */
	static const struct {
		struct target_spec spec;
		const char *word;
	} cases[] = {
		{ { 0 }, "nothing to record" },
		{ { .pids = "1", .tids = "1" }, "-p and -t" },
		{ { .pids = "1", .all_cpus = true }, "-a" },
		{ { .tids = "1", .cgroup = "x" }, "-G" },
		{ { .cpus = "0", .all_cpus = true }, "-C" },
		{ { .argv = argv, .all_cpus = true, .per_thread = true },
		  "--per-thread" },
		{ { .cpus = "0", .per_thread = true, .pids = "1" },
		  "--per-thread" },
		{ { .cpus = "0,x" }, "list of CPUs" },
		{ { .cpus = "" }, "list of CPUs" },
		{ { .cpus = "3-1" }, "list of CPUs" },
		{ { .cpus = "0," }, "list of CPUs" },
		{ { .cpus = "9999" }, "online" },
		{ { .cpus = "99999999999999" }, "list of CPUs" },
		{ { .pids = "x" }, "list of numbers" },
		{ { .pids = "1," }, "list of numbers" },
		{ { .tids = "-1" }, "list of numbers" },
		{ { .pids = "99999999999" }, "list of numbers" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct aux_diag diag = { 0 };
		struct target t;
		int ret = target_open(&t, &cases[i].spec, &diag);

		ok(ret == -AUX_E_INVAL && strstr(diag.text, cases[i].word),
		   "refused: %s", diag.text);
		target_close(&t);
	}
}

static void test_cpus(void)
{
	struct target_spec spec = { .cpus = "0" };
	struct target t;
	int *cpus = NULL;
	size_t n = 0;

	ok(!target_cpus_online(&cpus, &n, NULL) &&
	   (long)n == sysconf(_SC_NPROCESSORS_ONLN), "all CPUs online");
	free(cpus);
	ok(!target_cpus_parse("0,0-0", &cpus, &n, NULL) && n == 1 && !cpus[0],
	   "a CPU named twice counts once");
	free(cpus);
	ok(!target_open(&t, &spec, NULL) && t.system_wide && t.n_cpus == 1 &&
	   t.n_tids == 1 && t.tids[0] == -1 && !t.traces_child,
	   "-C alone is system wide");
	ok(!target_ended(&t), "and never ends");
	target_close(&t);
}

static void sh_argv(const char *script, char *argv[4])
{
	argv[0] = (char *)(uintptr_t)"sh";
	argv[1] = (char *)(uintptr_t)"-c";
	argv[2] = (char *)(uintptr_t)script;
	argv[3] = NULL;
}

static void test_child(void)
{
	char *argv[4];
	struct target_spec spec = { .argv = argv };
	struct aux_diag diag;
	char path[64], exe[64] = "";
	struct target t;

	sh_argv("exit 7", argv);
	if (!ok(!target_open(&t, &spec, &diag), "a program is prepared"))
		return;
	ok(t.traces_child && !t.system_wide && t.n_tids == 1 &&
	   t.tids[0] == t.child, "it is what is recorded");
	nap_ms(50);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)t.child);
	if (is_emulated())
		skip("emulated: the executable is qemu in /proc");
	else
		ok(readlink(path, exe, sizeof(exe) - 1) > 0 &&
			   !strcmp(strrchr(exe, '/'), "/test_target"),
		   "and waits before its exec");
	ok(!target_ended(&t), "it has not ended");
	ok(!target_start(&t, &diag), "it starts");
	ok(ends_within(&t, 30000), "and ends");
	ok(WIFEXITED(target_wait(&t)) && WEXITSTATUS(target_wait(&t)) == 7,
	   "with its status");
	target_kill(&t, SIGKILL);
	target_close(&t);

	sh_argv("exit 7", argv);
	ok(!target_open(&t, &spec, &diag) && t.child > 0, "another");
	target_close(&t);
	ok(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
	   "a program that is not started leaves no process");

	sh_argv("sleep 60", argv);
	ok(!target_open(&t, &spec, &diag) && !target_start(&t, &diag),
	   "a long one");
	target_kill(&t, SIGTERM);
	ok(WIFSIGNALED(target_wait(&t)) && WTERMSIG(t.child_status) == SIGTERM,
	   "is ended by target_kill");
	target_close(&t);
}

/* What the program finds, by /proc/self/status of a cat that sh execs. */
static void read_masks(struct target_spec *spec, uint64_t *ignored,
		       uint64_t *blocked)
{
	char out[] = "/tmp/auxkit-target-XXXXXX", script[128], line[256];
	int fd = mkstemp(out);
	struct target t;
	char *argv[4];
	FILE *f;

	*ignored = *blocked = UINT64_MAX;
	snprintf(script, sizeof(script), "exec cat /proc/self/status >%s", out);
	sh_argv(script, argv);
	spec->argv = argv;
	if (!target_open(&t, spec, NULL) && !target_start(&t, NULL))
		target_wait(&t);
	target_close(&t);
	f = fdopen(fd, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "SigIgn:", 7))
			*ignored = strtoull(line + 7, NULL, 16);
		if (!strncmp(line, "SigBlk:", 7))
			*blocked = strtoull(line + 7, NULL, 16);
	}
	if (f)
		fclose(f);
	unlink(out);
}

#define BIT(sig) (UINT64_C(1) << ((sig) - 1))

static void on_signal(int sig)
{
	(void)sig;
}

static void test_signals(void)
{
	struct target_signals user;
	struct target_spec spec = { .signals = &user };
	uint64_t ignored, blocked;
	sigset_t set, now;

	signal(SIGHUP, SIG_IGN);	/* nohup */
	target_signals_save(&user);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGUSR2, on_signal);
	signal(SIGHUP, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	read_masks(&spec, &ignored, &blocked);
	ok(ignored & BIT(SIGHUP), "what the user ignored stays ignored");
	ok(!(ignored & (BIT(SIGPIPE) | BIT(SIGUSR2))),
	   "what we ignore is not (%#" PRIx64 ")", ignored);
	is_u64(blocked, 0, "what we block is not blocked");
	sigprocmask(SIG_BLOCK, NULL, &now);
	ok(sigismember(&now, SIGINT) && sigismember(&now, SIGUSR2) &&
	   !sigismember(&now, SIGTERM), "our own mask is as it was");
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
}

static void test_no_program(void)
{
	char dir[] = "/tmp/auxkit-target-XXXXXX", path[64];
	char *argv[2] = { path, NULL };
	struct target_spec spec = { .argv = argv };
	struct aux_diag diag = { 0 };
	struct target t;
	int fd;

	if (!mkdtemp(dir))
		return;
	snprintf(path, sizeof(path), "auxkit-no-such-program");
	ok(target_open(&t, &spec, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "PATH"), "%s", diag.text);
	target_close(&t);
	snprintf(path, sizeof(path), "%s", dir);
	ok(target_open(&t, &spec, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "directory"), "%s", diag.text);
	target_close(&t);
	snprintf(path, sizeof(path), "%s/x", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0755);
	ok(fd >= 0 && write(fd, "#!/no/such/shell\n", 17) == 17,
	   "a script without its interpreter");
	close(fd);
	ok(!target_open(&t, &spec, &diag), "is found");
	ok(target_start(&t, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "interpreter"), "%s", diag.text);
	target_close(&t);
	unlink(path);
	rmdir(dir);
}

static void *sleeper(void *arg)
{
	pid_t *tid = arg;

	*tid = (pid_t)syscall(SYS_gettid);
	for (;;)
		nap_ms(1000);
	return NULL;
}

static bool has_tid(const struct target *t, pid_t tid)
{
	size_t i;

	for (i = 0; i < t->n_tids; i++)
		if (t->tids[i] == tid)
			return true;
	return false;
}

static void test_threads(void)
{
	struct target_spec spec = { 0 };
	struct aux_diag diag = { 0 };
	pthread_t th[3];
	volatile pid_t tids[3] = { 0 };
	char text[64];
	struct target t;
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, sleeper, (void *)&tids[i]);
	while (!tids[0] || !tids[1])
		nap_ms(1);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	spec.pids = text;
	ok(!target_open(&t, &spec, &diag) && has_tid(&t, getpid()) &&
	   has_tid(&t, tids[0]) && has_tid(&t, tids[1]) && !t.system_wide,
	   "-p takes all threads");
	is_u64(target_rescan(&t, &diag), 0, "none is new");
	pthread_create(&th[2], NULL, sleeper, (void *)&tids[2]);
	while (!tids[2])
		nap_ms(1);
	ok(target_rescan(&t, &diag) == 1 && has_tid(&t, tids[2]),
	   "a new one is found");
	ok(!target_ended(&t), "the process lives");
	target_close(&t);

	snprintf(text, sizeof(text), "%d", (int)tids[0]);
	spec = (struct target_spec){ .tids = text, .per_thread = true };
	ok(!target_open(&t, &spec, &diag) && t.n_tids == 1 &&
	   t.n_cpus == 1 && t.cpus[0] == -1, "-t takes one, per thread");
	ok(!target_ended(&t), "it lives");
	pthread_cancel(th[0]);
	pthread_join(th[0], NULL);
	ok(ends_within(&t, 30000), "it has ended, though the process lives");
	target_close(&t);
	ok(target_open(&t, &spec, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "no thread"), "%s", diag.text);
	for (i = 1; i < 3; i++) {
		pthread_cancel(th[i]);
		pthread_join(th[i], NULL);
	}
}

/* A process whose first thread has ended, and a zombie. */
static void *outlive(void *arg)
{
	char c;

	if (read(*(int *)arg, &c, 1) == 0) /* until the test closes it */
		_exit(0);
	return NULL;
}

/* "PID (NAME) STATE": the first thread's. */
static char state_of(pid_t pid)
{
	char path[64], text[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 && strrchr(text, ')') ? strrchr(text, ')')[2] : '?';
}

static void test_process_end(void)
{
	struct target_spec spec = { 0 };
	struct aux_diag diag = { 0 };
	struct target t;
	pthread_t th;
	char text[64];
	int ends[2];
	pid_t pid;

	if (!ok(!pipe(ends), "a pipe"))
		return;
	pid = fork();
	if (!pid) {
		close(ends[1]);
		pthread_create(&th, NULL, outlive, &ends[0]);
		pthread_exit(NULL);
	}
	close(ends[0]);
	snprintf(text, sizeof(text), "%d", (int)pid);
	spec.pids = text;
	while (state_of(pid) != 'Z')
		nap_ms(1);
	ok(!target_open(&t, &spec, &diag) && !target_ended(&t),
	   "a process outlives its first thread");
	close(ends[1]);
	ok(ends_within(&t, 30000), "and has ended as a zombie");
	target_close(&t);
	ok(target_open(&t, &spec, &diag) == -AUX_E_TARGET,
	   "a zombie cannot be recorded: %s", diag.text);
	waitpid(pid, NULL, 0);
}

static void test_cgroup(void)
{
	struct target_spec spec = { .cgroup = "/" };
	struct aux_diag diag = { 0 };
	struct target t;
	int ret = target_open(&t, &spec, &diag);

	if (ret && strstr(diag.text, "mounted")) {
		skip("no cgroup file system here");
		return;
	}
	ok(!ret && t.cgroup_fd >= 0 && t.system_wide, "the root cgroup");
	target_close(&t);
	spec.cgroup = "auxkit-no-such";
	ok(target_open(&t, &spec, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "cgroup"), "%s", diag.text);
}

int main(void)
{
	int before = count_fds();

	alarm(60);
	test_contradictions();
	test_cpus();
	test_child();
	test_signals();
	test_no_program();
	test_threads();
	test_process_end();
	test_cgroup();
	is_u64(count_fds(), before, "no file is left open");
	return plan_done();
}
