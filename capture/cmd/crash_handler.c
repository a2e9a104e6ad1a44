/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap crash-handler: what the kernel starts for each process that dumps core, with the
 * core on standard input (core_pattern), on a machine where auxcap -S records all the time.
 * It has a snapshot taken while the process still stands, as the kernel waits for it, and
 * saves the core beside it.
 *
 * Whatever goes wrong with one of the two, the other is done. There is nobody to read what it
 * prints, so errors go to the kernel's log, too.
 *
 * Specification: core(5).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"
#include "common/clock.h"
#include "common/options.h"

#define WAIT_MS 10000	/* for the snapshot; the process stands as long */
#define BLOCK 65536

struct handler {
	const char *control, *dir;
	uint64_t pid, tid, signo;
	char comm[32];
};

__attribute__((format(printf, 1, 2)))
static void complain(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cmd_say("error: %s", text);
	if (fd < 0)
		return;
	dprintf(fd, "auxcap: crash-handler: %s\n", text);
	close(fd);
}

/* ---- the snapshot ---- */

/* The two names of "fifo:COMMANDS,ACKS". */
static bool split(const char *control, char commands[PATH_MAX], char acks[PATH_MAX])
{
	const char *comma = strchr(control, ',');

	if (strncmp(control, "fifo:", 5) || !comma || comma == control + 5 || !comma[1] ||
	    comma - control >= PATH_MAX || strlen(comma) > PATH_MAX)
		return false;
	snprintf(commands, PATH_MAX, "%.*s", (int)(comma - control - 5), control + 5);
	snprintf(acks, PATH_MAX, "%s", comma + 1);
	return true;
}

/* The recorder's answer, without its newline. False: there was none in time. */
static bool read_answer(int fd, char text[256])
{
	uint64_t until = clock_ms() + WAIT_MS, now;
	size_t used = 0;

	while ((now = clock_ms()) < until && used < 255) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, (int)(until - now)) <= 0)
			continue;
		n = read(fd, text + used, 1);
		if (n == 1 && text[used] == '\n') {
			text[used] = '\0';
			return true;
		}
		used += n == 1;
	}
	return false;
}

static bool ask(const struct handler *h, int commands, int acks)
{
	char line[256], answer[256];
	int n = snprintf(line, sizeof(line), "snapshot crash: %llu/%llu signal %llu %s\n",
			 (unsigned long long)h->pid, (unsigned long long)h->tid,
			 (unsigned long long)h->signo, h->comm);

	if (write(commands, line, (size_t)n) != n) {
		complain("the recorder takes no command: %s", strerror(errno));
		return false;
	}
	if (!read_answer(acks, answer)) {
		complain("no snapshot of process %llu: the recorder did not answer in %d s",
			 (unsigned long long)h->pid, WAIT_MS / 1000);
		return false;
	}
	if (strcmp(answer, "ack"))
		complain("no snapshot of process %llu: %s", (unsigned long long)h->pid,
			 answer);
	return !strcmp(answer, "ack");
}

static bool take_snapshot(const struct handler *h)
{
	char commands[PATH_MAX], acks[PATH_MAX];
	bool taken = false;
	int in, out;

	if (!split(h->control, commands, acks))
		return false;
	in = open(acks, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	out = in < 0 ? -1 : open(commands, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (out < 0)
		complain("%s: %s", in < 0 ? acks : commands, errno == ENXIO ?
			 "no recorder reads it" : strerror(errno));
	else
		taken = ask(h, out, in);
	if (out >= 0)
		close(out);
	if (in >= 0)
		close(in);
	return taken;
}

/* ---- the core ---- */

static bool is_zero(const char *p, size_t n)
{
	return !n || (!p[0] && !memcmp(p, p + 1, n - 1));
}

/* All of standard input; memory that was never written to becomes a hole. 0 or errno. */
static int copy_core(int fd)
{
	static char block[BLOCK];
	off_t size = 0;
	bool ended = false;

	while (!ended) {
		size_t used = 0;

		while (used < BLOCK && !ended) {
			ssize_t n = read(STDIN_FILENO, block + used, BLOCK - used);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return errno;
			ended = !n;
			used += (size_t)n;
		}
		size += (off_t)used;
		if (is_zero(block, used) ? lseek(fd, (off_t)used, SEEK_CUR) < 0 :
					   write(fd, block, used) != (ssize_t)used)
			return errno ? errno : ENOSPC;
	}
	return ftruncate(fd, size) ? errno : 0;
}

/* Its owner's alone, under its name only when it is whole. A file that is there already may be
 * somebody else's, who would then read the memory of the process: it is not written to. */
static bool save_core(const struct handler *h)
{
	char path[PATH_MAX], part[PATH_MAX];
	int fd, err;

	if (snprintf(path, sizeof(path), "%s/core.%llu", h->dir,
		     (unsigned long long)h->pid) >= (int)sizeof(path) - 8)
		return false;
	snprintf(part, sizeof(part), "%.4000s.part", path);
	unlink(part);	/* of one that was killed */
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = fd < 0 ? errno : copy_core(fd);
	if (fd >= 0 && close(fd) && !err)
		err = errno;
	if (!err && rename(part, path))
		err = errno;
	if (!err)
		return true;
	unlink(part);
	complain("%s: %s", path, strerror(err));
	return false;
}

/* ---- the command ---- */

static void read_comm(struct handler *h)
{
	char path[64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%llu/comm", (unsigned long long)h->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, h->comm, sizeof(h->comm) - 1);
		close(fd);
	}
	h->comm[n > 0 ? n : 0] = '\0';
	h->comm[strcspn(h->comm, "\n")] = '\0';
}

int cmd_crash_handler(const struct cmd_options *o)
{
	struct handler h = { .control = o->kernel.control, .dir = o->path };
	char *const *w = o->words_left;
	char a[PATH_MAX], b[PATH_MAX];
	struct stat st;
	bool taken, saved;

	if (!w[0] || !w[1] || !w[2] || w[3] || !option_read_number(w[0], INT_MAX, &h.pid) ||
	    !option_read_number(w[1], INT_MAX, &h.tid) ||
	    !option_read_number(w[2], 64, &h.signo))
		return cmd_usage("crash-handler takes a process, a thread and a signal: "
				 "core_pattern has %%P %%I %%s");
	if (!h.control || !split(h.control, a, b))
		return cmd_usage("crash-handler needs --control fifo:COMMANDS,ACKS, the same "
				 "two FIFOs as the recorder has");
	if (h.dir && (stat(h.dir, &st) || !S_ISDIR(st.st_mode)))
		return cmd_usage("crash-handler -o %s: no directory", h.dir);
	signal(SIGPIPE, SIG_IGN);
	read_comm(&h);
	taken = take_snapshot(&h);
	saved = !h.dir || save_core(&h);
	return taken && saved ? CMD_OK : CMD_FAILED;
}
