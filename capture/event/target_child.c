/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * target_child: the program that we start.
 *
 * It is forked early and waits on a pipe, so that events with enable_on_exec can be
 * opened on it; if we die first, the pipe closes and it exits. It execs with the
 * signals that our user gave us. A second pipe, close-on-exec, delivers the errno of a
 * failed exec: end of file means success.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/impl.h"

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

int target_check_program(const char *name, struct aux_diag *diag)
{
	const char *p = getenv("PATH"), *end;
	char path[4096];

	if (strchr(name, '/')) {
		if (is_program(name))
			return 0;
		p = NULL;
	}
	for (; p; p = *end ? end + 1 : NULL) {
		end = strchrnul(p, ':');
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - p), p,
			 end > p ? "/" : "./", name);
		if (is_program(path))
			return 0;
	}
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

/* sigaction refuses SIGKILL, SIGSTOP and libc's internal signals; that is ignored. */
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

int target_fork(struct target *t, const struct target_spec *spec,
		struct aux_diag *diag)
{
	int start[2] = { -1, -1 }, error[2] = { -1, -1 }, err;
	struct target_signals now;
	sigset_t all, was;
	pid_t pid = -1;

	if (!spec->signals)
		target_signals_save(&now);
	/* Until the child has restored its signals, none may reach our handlers. */
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

/* Writes the byte that lets the child exec. If it was killed meanwhile the pipe has no
 * reader: consumes the SIGPIPE, unless one was pending before. */
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
