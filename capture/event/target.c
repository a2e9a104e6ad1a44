/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target: builds a struct target from the options, and finds out when it has ended;
 * starts the program, and finds processes, threads and cgroups.
 *
 * What perf_event_open gets as pid and cpu:
 *	program, -p, -t		each thread, each online CPU (or those of -C)
 *	with --per-thread	each thread, cpu -1
 *	-a, -C			pid -1, each CPU
 *	-G			the cgroup's fd as pid (PERF_FLAG_PID_CGROUP), each CPU
 * Threads per CPU: a thread's event on CPU n counts while the thread runs there, so
 * each CPU has one ring, in time order, whatever the number of threads.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"

#include "capture/event/target.h"

#define CPUS_ONLINE "/sys/devices/system/cpu/online"
#define CPUS_MAX 65536
#define MAX_PASSES 16

/*
 * ---- Processes, threads and cgroups ----
 *
 * Threads come and go while /proc is read: a process's task directory is read
 * again until a pass finds nothing new.
 */

char target_task_state(int fd, const char *path, pid_t *parent)
{
	char buf[512], *p;
	ssize_t n;
	int f = openat(fd, path, O_RDONLY | O_CLOEXEC);

	if (f < 0)
		return 0;
	n = read(f, buf, sizeof(buf) - 1);
	close(f);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	p = strrchr(buf, ')');	/* the name in () may itself contain ')' */
	if (!p || strlen(p) < 4)
		return 0;
	if (parent)
		*parent = (pid_t)strtol(p + 3, NULL, 10);
	return p[2];
}

static bool is_alive(char state)
{
	return state && state != 'Z' && state != 'X' && state != 'x';
}

/* Whether the process's task directory lists a thread that is alive. */
static bool any_thread_lives(int proc_fd)
{
	int fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	bool lives = false;
	char path[300];

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!lives && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/stat", e->d_name);
		lives = isdigit((unsigned char)e->d_name[0]) &&
			is_alive(target_task_state(fd, path, NULL));
	}
	closedir(dir);
	return lives;
}

/* A process lives as long as any of its threads, even after the first has
 * exited (which then is a zombie until the last one ends). */
static bool watch_ended(struct target_watch *w)
{
	char path[32];

	if (w->ended)
		return true;
	if (w->process) {
		w->ended = !is_alive(target_task_state(w->proc_fd, "stat", NULL)) &&
			   !any_thread_lives(w->proc_fd);
	} else {
		snprintf(path, sizeof(path), "task/%d/stat", (int)w->id);
		w->ended = !is_alive(target_task_state(w->proc_fd, path, NULL));
	}
	return w->ended;
}

/* 1: added, 0: known. */
static int add_tid(struct target *t, pid_t tid)
{
	size_t i;

	for (i = 0; i < t->n_tids; i++)
		if (t->tids[i] == tid)
			return 0;
	if (array_grow(&t->tids, t->n_tids, &t->cap_tids, sizeof(*t->tids)))
		return -AUX_E_NOMEM;
	t->tids[t->n_tids++] = tid;
	return 1;
}

/* Adds the threads that exist now; returns how many were new. -AUX_E_IO: errno
 * says why they cannot be listed. */
static int read_threads(struct target *t, int proc_fd)
{
	int fd = openat(proc_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int n = 0, ret = 0, err = errno;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		errno = err;
		return err == ENOENT || err == ESRCH ? 0 : -AUX_E_IO;
	}
	while (ret >= 0 && (e = readdir(dir))) {
		long tid = strtol(e->d_name, NULL, 10);

		if (tid > 0) {
			ret = add_tid(t, (pid_t)tid);
			n += ret > 0;
		}
	}
	closedir(dir);
	return ret < 0 ? ret : n;
}

int target_rescan(struct target *t, struct aux_diag *diag)
{
	int n = 0, got, tries;
	size_t i;

	for (i = 0; i < t->n_watches; i++) {
		if (!t->watches[i].process)
			continue;
		for (tries = 0; tries < MAX_PASSES; tries++) {
			got = read_threads(t, t->watches[i].proc_fd);
			if (got < 0)
				return diag_set(diag, -got, AUX_NO_OFFSET,
						"the threads of process %d cannot "
						"be listed: %s",
						(int)t->watches[i].id,
						strerror(got == -AUX_E_IO ?
							 errno : ENOMEM));
			n += got;
			if (!got)
				break;
		}
	}
	return n;
}

/* The error for a task that is not there or cannot be looked at. */
static int explain_missing(const char *what, long id, int err,
			   struct aux_diag *diag)
{
	if (err == ENOENT || err == ESRCH)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"there is no %s %ld (or /proc is mounted with "
				"hidepid); ps -eLf shows them", what, id);
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET, "%s %ld: %s", what,
			id, strerror(err));
}

/* Watches a process or thread by its /proc directory; it must be alive. A
 * thread is added to tids here, a process's threads by target_rescan. */
static int add_watch(struct target *t, long id, bool process,
		     struct aux_diag *diag)
{
	const char *what = process ? "process" : "thread";
	struct target_watch *w;
	char path[64];
	int fd;

	if (array_grow(&t->watches, t->n_watches, &t->cap_watches, sizeof(*w)))
		return -AUX_E_NOMEM;
	snprintf(path, sizeof(path), "/proc/%ld", id);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return explain_missing(what, id, errno, diag);
	w = &t->watches[t->n_watches++];
	*w = (struct target_watch){
		.id = (pid_t)id, .proc_fd = fd, .process = process,
	};
	if (watch_ended(w))
		return explain_missing(what, id, ESRCH, diag);
	return process ? 0 : add_tid(t, (pid_t)id);
}

/* list: numbers separated by commas. Ids are checked to exist, so that a
 * mistyped one is an error rather than an empty recording. */
static int find_tasks(struct target *t, const char *list, bool processes,
		      struct aux_diag *diag)
{
	const char *p = list;
	char *end;
	long id;
	int ret;

	for (;; p = end + 1) {
		id = strtol(p, &end, 10);
		if (!isdigit((unsigned char)*p) || id < 1 || id > INT32_MAX ||
		    (*end && *end != ','))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"'%.100s' is no list of numbers, as "
					"%s 123,456", list,
					processes ? "-p" : "-t");
		ret = add_watch(t, id, processes, diag);
		if (ret < 0)
			return ret;
		if (!*end)
			break;
	}
	ret = target_rescan(t, diag);
	if (ret >= 0 && !t->n_tids)
		return explain_missing("process", id, ESRCH, diag);
	return ret < 0 ? ret : 0;
}

/* Whether word is one of the comma separated mount options. */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	const char *p;

	for (p = list; (p = strstr(p, word)); p += len)
		if ((p == list || p[-1] == ',') &&
		    (!p[len] || p[len] == ',' || p[len] == ' '))
			return true;
	return false;
}

/* The hierarchy that perf_event uses: v1 with that controller if mounted, else
 * v2. */
static bool find_mount(char *mount, size_t len)
{
	char line[4096], dir[2048], type[64], opts[1024];
	FILE *f = fopen("/proc/self/mounts", "re");
	bool v1 = false;

	mount[0] = '\0';
	while (f && !v1 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %2047s %63s %1023s", dir, type, opts) < 3)
			continue;
		v1 = !strcmp(type, "cgroup") && has_word(opts, "perf_event");
		if (v1 || (!mount[0] && !strcmp(type, "cgroup2")))
			snprintf(mount, len, "%s", dir);
	}
	if (f)
		fclose(f);
	return mount[0] != '\0';
}

/* name is relative to the hierarchy's mount point, or begins with it. */
static int find_cgroup(struct target *t, const char *name,
		       struct aux_diag *diag)
{
	char mount[2048], path[4096];
	size_t len;

	if (!find_mount(mount, sizeof(mount)))
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"-G %.100s: no cgroup file system is mounted; "
				"mount -t cgroup2 none /sys/fs/cgroup", name);
	len = strlen(mount);
	if (!strncmp(name, mount, len) && (!name[len] || name[len] == '/'))
		name += len;
	snprintf(path, sizeof(path), "%s/%s", mount, name);
	t->cgroup_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->cgroup_fd < 0)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"there is no cgroup '%.100s' below %.100s: %s; "
				"systemd-cgls shows them all, "
				"/proc/PID/cgroup that of a process", name,
				mount, strerror(errno));
	return 0;
}

/*
 * ---- The program that we start ----
 *
 * It is forked early and waits on a pipe, so that events with enable_on_exec
 * can be opened on it; if we die first, the pipe closes and it exits. It execs
 * with the signals that our user gave us. A second pipe, close-on-exec,
 * delivers the errno of a failed exec: end of file means success.
 */

static bool is_program(const char *path)
{
	struct stat st;

	return !access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Why name cannot be run, with the fix. */
static const char *why_not(const char *name)
{
	struct stat st;

	if (!strchr(name, '/'))
		return "there is no such program in PATH (a file needs its "
		       "path, as ./name)";
	if (stat(name, &st))
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "it is a directory";
	return "it is not executable (chmod +x makes it so)";
}

bool target_find_program(const char *name, char *path)
{
	const char *p = getenv("PATH"), *end;

	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		return is_program(name);
	}
	for (; p; p = *end ? end + 1 : NULL) {
		end = strchrnul(p, ':');
		snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - p), p,
			 end > p ? "/" : "./", name);
		if (is_program(path))
			return true;
	}
	return false;
}

int target_check_program(const char *name, struct aux_diag *diag)
{
	char path[PATH_MAX];

	if (target_find_program(name, path))
		return 0;
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"cannot run '%.200s': %s", name, why_not(name));
}

void target_signals_save(struct target_signals *s)
{
	struct sigaction sa;
	int sig;

	sigemptyset(&s->ignored);
	for (sig = 1; sig < NSIG; sig++)
		if (!sigaction(sig, NULL, &sa) && sa.sa_handler == SIG_IGN)
			sigaddset(&s->ignored, sig);
	if (sigprocmask(SIG_BLOCK, NULL, &s->blocked))
		sigemptyset(&s->blocked);
}

/* sigaction refuses SIGKILL, SIGSTOP and libc's internal signals; that is
 * ignored. */
static void restore_signals(const struct target_signals *s)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	int sig;

	for (sig = 1; sig < NSIG; sig++) {
		sa.sa_handler = sigismember(&s->ignored, sig) == 1 ? SIG_IGN :
								     SIG_DFL;
		sigaction(sig, &sa, NULL);
	}
	sigprocmask(SIG_SETMASK, &s->blocked, NULL);
}

static ssize_t read_retry(int fd, void *buf, size_t len)
{
	ssize_t n;

	do
		n = read(fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n;
}

__attribute__((noreturn))
static void run_child(const struct target_spec *spec,
		      const struct target_signals *signals, int start_fd,
		      int error_fd)
{
	int32_t err;
	char go;

	restore_signals(signals);
	if (read_retry(start_fd, &go, 1) != 1)
		_exit(0);	/* auxcap gave up */
	if (spec->stdout_taken)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(spec->argv[0], spec->argv);
	err = errno;
	if (write(error_fd, &err, sizeof(err)) != (ssize_t)sizeof(err))
		_exit(126);	/* auxcap is gone */
	_exit(127);
}

/* Forks; the child waits on a pipe for target_start. */
static int fork_program(struct target *t, const struct target_spec *spec,
			struct aux_diag *diag)
{
	int start[2] = { -1, -1 }, error[2] = { -1, -1 }, err;
	struct target_signals now;
	sigset_t all, was;
	pid_t pid = -1;

	if (!spec->signals)
		target_signals_save(&now);
	/* Until the child has restored its signals, none may reach our
	 * handlers. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &was);
	if (!pipe2(start, O_CLOEXEC) && !pipe2(error, O_CLOEXEC))
		pid = fork();
	if (!pid) {
		close(start[1]);
		close(error[0]);
		run_child(spec, spec->signals ? spec->signals : &now, start[0],
			  error[1]);
	}
	err = errno;
	sigprocmask(SIG_SETMASK, &was, NULL);
	if (start[0] >= 0)
		close(start[0]);
	if (error[1] >= 0)
		close(error[1]);
	t->child_fd = start[1];
	t->exec_error_fd = error[0];
	if (pid < 0)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"cannot start '%.200s': %s", spec->argv[0],
				strerror(err));
	t->child = pid;
	return 0;
}

/* Writes the byte that lets the child exec. If it was killed meanwhile the pipe
 * has no reader: consumes the SIGPIPE, unless one was pending before. */
static bool write_go(int fd)
{
	sigset_t pipe_set, was, pending;
	struct timespec none = { 0 };
	bool had, good;

	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	had = !sigpending(&pending) && sigismember(&pending, SIGPIPE) == 1;
	sigprocmask(SIG_BLOCK, &pipe_set, &was);
	good = write(fd, "", 1) == 1;
	if (!good && errno == EPIPE && !had)
		sigtimedwait(&pipe_set, NULL, &none);
	sigprocmask(SIG_SETMASK, &was, NULL);
	return good;
}

static int explain_exec(int err, struct aux_diag *diag)
{
	const char *hint = "";

	if (err == ENOENT)
		hint = " (the file, or the interpreter that its first line or "
		       "its ELF header names, is not there)";
	else if (err == EACCES)
		hint = " (chmod +x, or the file system is mounted noexec)";
	else if (err == ENOEXEC)
		hint = " (made for another CPU, or damaged; see file(1))";
	else if (err == E2BIG)
		hint = " (arguments and environment are too long)";
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"the program could not be run: %s%s", strerror(err),
			hint);
}

int target_start(struct target *t, struct aux_diag *diag)
{
	int32_t err = 0;
	ssize_t n;

	if (!t->child || t->child_fd < 0)
		return 0;
	write_go(t->child_fd);
	close(t->child_fd);
	t->child_fd = -1;
	n = read_retry(t->exec_error_fd, &err, sizeof(err));
	close(t->exec_error_fd);
	t->exec_error_fd = -1;
	if (n == (ssize_t)sizeof(err)) {
		target_wait(t);
		return explain_exec(err, diag);
	}
	return 0;
}

/* ---- The options ---- */

/* Parses "A" or "A-B" at *p and advances it. */
static bool parse_range(const char **p, long *first, long *last)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	*first = *last = strtol(*p, &end, 10);
	if (*end == '-') {
		if (end[1] < '0' || end[1] > '9')
			return false;
		*last = strtol(end + 1, &end, 10);
	}
	*p = end;
	return *first <= *last && *last < CPUS_MAX;
}

/* Marks the CPUs of a list in a map of CPUS_MAX. */
static bool mark_cpus(const char *text, bool *map)
{
	long first, last;

	for (;; text++) {
		if (!parse_range(&text, &first, &last))
			return false;
		for (; first <= last; first++)
			map[first] = true;
		if (*text != ',')
			return !*text || !strcmp(text, "\n");
	}
}

/* The marked CPUs as an array; free *cpus. */
static int collect_cpus(const bool *map, int **cpus, size_t *n)
{
	size_t i, k = 0;

	for (i = 0; i < CPUS_MAX; i++)
		k += map[i];
	*cpus = calloc(k ? k : 1, sizeof(**cpus));
	if (!*cpus)
		return -AUX_E_NOMEM;
	*n = k;
	for (i = 0, k = 0; i < CPUS_MAX; i++)
		if (map[i])
			(*cpus)[k++] = (int)i;
	return 0;
}

/* Marks the CPUs that are online; text becomes their list, for messages. */
static bool mark_online(bool *map, char *text, size_t len)
{
	FILE *f = fopen(CPUS_ONLINE, "re");
	long i, n;

	text[0] = '\0';
	if (f && !fgets(text, (int)len, f))
		text[0] = '\0';
	if (f)
		fclose(f);
	text[strcspn(text, "\n")] = '\0';
	if (text[0])
		return mark_cpus(text, map);
	n = sysconf(_SC_NPROCESSORS_ONLN);	/* /sys is not mounted */
	snprintf(text, len, "0-%ld", n - 1);
	for (i = 0; i < n && i < CPUS_MAX; i++)
		map[i] = true;
	return n > 0;
}

int target_cpus_online(int **cpus, size_t *n, struct aux_diag *diag)
{
	bool *map = calloc(CPUS_MAX, sizeof(*map));
	char text[512];
	int ret;

	if (!map)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	if (mark_online(map, text, sizeof(text)))
		ret = collect_cpus(map, cpus, n);
	else
		ret = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			       CPUS_ONLINE " reads '%.100s', which is no list "
			       "of CPUs", text);
	free(map);
	return ret;
}

int target_cpus_parse(const char *text, int **cpus, size_t *n,
		      struct aux_diag *diag)
{
	bool *map = calloc(CPUS_MAX, 2 * sizeof(*map)), *online;
	char are[512];
	int i, ret;

	if (!map)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	online = map + CPUS_MAX;
	if (!mark_cpus(text, map)) {
		ret = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			       "'%.100s' is no list of CPUs; write it as "
			       "0-3,5", text);
		goto out;
	}
	if (mark_online(online, are, sizeof(are)))
		for (i = 0; i < CPUS_MAX; i++)
			if (map[i] && !online[i]) {
				ret = diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					       "CPU %d is not online; those "
					       "online are %.200s", i, are);
				goto out;
			}
	ret = collect_cpus(map, cpus, n);
out:
	free(map);
	return ret;
}

/* Refuses options that contradict one another, or that name nothing to
 * record. */
static int check_spec(const struct target_spec *s, struct aux_diag *diag)
{
	bool tasks = s->pids || s->tids;
	bool wide = s->all_cpus || s->cgroup || (s->cpus && !tasks);
	const char *why = NULL;

	if (s->pids && s->tids)
		why = "-p and -t exclude each other: -t takes threads, -p all "
		      "threads of a process";
	else if (tasks && s->all_cpus)
		why = "-a records every process: leave out -a, or -p and -t";
	else if (tasks && s->cgroup)
		why = "-G records a cgroup: leave out -G, or -p and -t";
	else if (s->all_cpus && s->cpus)
		why = "-a means all CPUs: leave out -a, or -C";
	else if (s->per_thread && (wide || s->cpus))
		why = "--per-thread follows threads over all CPUs: it goes "
		      "with a program, -p or -t, not with -a, -C or -G";
	else if (!s->argv && !tasks && !wide)
		why = "nothing to record: give a program, -p PID, -t TID, "
		      "-C CPUS, -G CGROUP or -a";
	if (!why)
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "%s", why);
}

/* The CPUs that events are opened on; -1, any CPU, with --per-thread. */
static int choose_cpus(struct target *t, const struct target_spec *s,
		       struct aux_diag *diag)
{
	if (t->per_thread) {
		t->cpus = calloc(1, sizeof(*t->cpus));
		if (!t->cpus)
			return -AUX_E_NOMEM;
		t->cpus[0] = -1;
		t->n_cpus = 1;
		return 0;
	}
	if (s->cpus)
		return target_cpus_parse(s->cpus, &t->cpus, &t->n_cpus, diag);
	return target_cpus_online(&t->cpus, &t->n_cpus, diag);
}

/* The tasks that events are opened on; needs t->child if that is the target. */
static int choose_tasks(struct target *t, const struct target_spec *s,
			struct aux_diag *diag)
{
	int ret;

	if (s->pids || s->tids)
		return find_tasks(t, s->pids ? s->pids : s->tids,
				  s->pids != NULL, diag);
	if (s->cgroup) {
		ret = find_cgroup(t, s->cgroup, diag);
		if (ret)
			return ret;
	}
	t->tids = calloc(1, sizeof(*t->tids));
	if (!t->tids)
		return -AUX_E_NOMEM;
	t->n_tids = 1;
	t->tids[0] = t->system_wide ? -1 : t->child;
	return 0;
}

/* Forks only after everything else has been checked: until then a wrong
 * argument leaves nothing to undo. */
int target_open(struct target *t, const struct target_spec *s,
		struct aux_diag *diag)
{
	bool tasks = s->pids || s->tids;
	int ret;

	memset(t, 0, sizeof(*t));
	t->cgroup_fd = t->child_fd = t->exec_error_fd = -1;
	ret = check_spec(s, diag);
	if (ret)
		return ret;
	t->system_wide = !tasks && (s->all_cpus || s->cgroup || s->cpus);
	t->per_thread = s->per_thread;
	t->traces_child = s->argv && !tasks && !t->system_wide;
	t->starts_at_exec = t->traces_child;
	ret = choose_cpus(t, s, diag);
	if (!ret && s->argv)
		ret = target_check_program(s->argv[0], diag);
	if (!ret && !t->traces_child)
		ret = choose_tasks(t, s, diag);
	if (!ret && s->argv)
		ret = fork_program(t, s, diag);
	if (!ret && t->traces_child)
		ret = choose_tasks(t, s, diag);
	if (ret == -AUX_E_NOMEM)
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "no memory");
	if (ret)
		target_close(t);
	return ret;
}

/* Collects the child's status once; false: it still runs (WNOHANG). */
static bool reap(struct target *t, int flags)
{
	pid_t got;

	if (t->child_reaped)
		return true;
	do
		got = waitpid(t->child, &t->child_status, flags);
	while (got < 0 && errno == EINTR);
	if (got < 0)	/* ECHILD: SIGCHLD is ignored, the kernel reaped it */
		t->child_status = 0;
	t->child_reaped = got != 0;
	return t->child_reaped;
}

bool target_ended(struct target *t)
{
	size_t i, n_ended = 0;

	if (t->child && reap(t, WNOHANG))
		return true;
	for (i = 0; i < t->n_watches; i++)
		n_ended += watch_ended(&t->watches[i]);
	return t->n_watches && n_ended == t->n_watches;
}

void target_kill(struct target *t, int sig)
{
	if (t->child && !reap(t, WNOHANG))
		kill(t->child, sig);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

bool target_child_ended(struct target *t, int *status)
{
	*status = 0;
	if (!t->child)
		return true;
	close_fd(&t->child_fd);
	if (!reap(t, WNOHANG))
		return false;
	*status = t->child_status;
	return true;
}

/* Closes the start pipe first, so that a program not yet started exits. */
int target_wait(struct target *t)
{
	if (!t->child)
		return 0;
	close_fd(&t->child_fd);
	reap(t, 0);
	return t->child_status;
}

void target_close(struct target *t)
{
	bool waits = t->child && t->child_fd >= 0;
	size_t i;

	close_fd(&t->child_fd);
	if (waits)
		reap(t, 0);
	close_fd(&t->exec_error_fd);
	close_fd(&t->cgroup_fd);
	for (i = 0; i < t->n_watches; i++)
		close_fd(&t->watches[i].proc_fd);
	free(t->watches);
	free(t->cpus);
	free(t->tids);
	memset(t, 0, sizeof(*t));
	t->cgroup_fd = t->child_fd = t->exec_error_fd = -1;
}
