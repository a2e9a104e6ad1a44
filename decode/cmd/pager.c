/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pager: standard output through a pager, coloured; the contract is in cmd.h.
 *
 * auxdecode --pipe--> colouring process --pipe--> pager. Each child inherits
 * the standard output of the moment when it is started, so the pager is started
 * first.
 *
 * $LESS, unless the user has set it, lets less pass colours on (R), end at once
 * when all fits on the screen (F), and leave that there (X), as git does. An
 * interrupt ends this program but not the pager, which is waited for: otherwise
 * the shell and the pager would both read from the terminal.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/term.h"
#include "decode/cmd/cmd.h"

#define LINE_MAX_BYTES 65536	/* a longer one goes through in pieces */

/* A coloured line takes at most this many times its own bytes. The worst is "#"
 * alone, one byte in two escape sequences. */
#define PAGER_GROWTH 12

bool pager_wants_colour(enum cmd_color color, const char *out_path)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (color != CMD_COLOR_AUTO)
		return color == CMD_COLOR_ALWAYS;
	if (out_path || (no && *no) || !term || !strcmp(term, "dumb"))
		return false;
	return isatty(STDOUT_FILENO);
}

static size_t put(char *out, const char *s, size_t n)
{
	memcpy(out, s, n);
	return n;
}

static size_t put_str(char *out, const char *s)
{
	return put(out, s, strlen(s));
}

static bool is_name_byte(unsigned char c)
{
	return isalnum(c) || c >= 0x80 || strchr("_.@$:~<>", c);
}

/* How much of line[0..at) is the name that ends there. */
static size_t name_before(const char *line, size_t at)
{
	size_t n = 0;

	while (n < at && line[at - 1 - n] &&
	       is_name_byte((unsigned char)line[at - 1 - n]))
		n++;
	return n;
}

/* A symbol name is what stands before "+0x". */
/* len bytes of line into out, with names coloured; returns the bytes written.
 * Text such as "main+0x1f" is how every command prints a place. */
static size_t colour_names(const struct colour *c, const char *line, size_t len,
			   char *out)
{
	size_t done = 0, n = 0;

	for (size_t i = 1; i + 2 < len; i++) {
		size_t name;

		if (line[i] != '+' || line[i + 1] != '0' || line[i + 2] != 'x')
			continue;
		name = name_before(line + done, i - done);
		if (!name)
			continue;
		n += put(out + n, line + done, i - name - done);
		n += put_str(out + n, c->name);
		n += put(out + n, line + i - name, name);
		n += put_str(out + n, c->end);
		done = i;
	}
	return n + put(out + n, line + done, len - done);
}

static bool begins(const char *line, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(line, with, strlen(with));
}

/* One line without its end into out, which has room for PAGER_GROWTH times len
 * bytes; returns the bytes written. Gaps and errors red, other "#" lines
 * dim. */
static size_t pager_colour_line(const char *line, size_t len, char *out)
{
	const struct colour *c = colour_get(true);
	const char *how = NULL;
	size_t n;

	if (memchr(line, '\033', len))	/* it has its own */
		return put(out, line, len);
	if (begins(line, len, "# gap") || begins(line, len, "auxdecode: error"))
		how = c->bad;
	else if (begins(line, len, "#"))
		how = c->dim;
	if (!how)
		return colour_names(c, line, len, out);
	n = put_str(out, how);
	n += put(out + n, line, len);
	return n + put_str(out + n, c->end);
}

static bool write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return false;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

/* Whole lines of buf[0..n), or all of it; returns what is left. */
static size_t colour_lines(char *buf, size_t n, bool all, char *out, bool *fine)
{
	size_t done = 0, m = 0;

	while (done < n) {
		const char *end = memchr(buf + done, '\n', n - done);
		size_t len = end ? (size_t)(end - buf) - done : n - done;

		if (!end && !all && n < LINE_MAX_BYTES)
			break;
		m += pager_colour_line(buf + done, len, out + m);
		if (end)
			out[m++] = '\n';
		done += len + (end != NULL);
	}
	*fine = write_all(STDOUT_FILENO, out, m);
	memmove(buf, buf + done, n - done);
	return n - done;
}

/* The process between this program and the terminal. */
static void colour_all(void)
{
	char *buf = malloc(LINE_MAX_BYTES);
	char *out = malloc((PAGER_GROWTH + 1) * LINE_MAX_BYTES);
	size_t n = 0;
	bool fine = buf && out;
	ssize_t r = 1;

	while (fine && r > 0) {
		r = read(STDIN_FILENO, buf + n, LINE_MAX_BYTES - n);
		if (r < 0 && errno == EINTR) {
			r = 1;
			continue;
		}
		n = colour_lines(buf, n + (r > 0 ? (size_t)r : 0), r <= 0, out,
				 &fine);
	}
	free(buf);
	free(out);
}

/* A child that reads what is written to standard output from now on. */
/* The parent's standard output becomes the pipe. command NULL: the child
 * colours. It ignores SIGINT so that what was printed before an interrupt still
 * comes out. Returns 0 where there is no pipe or process: the output then stays
 * as it was. */
static pid_t start_child(const struct pager *p, const char *command)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds) < 0)
		return 0;
	pid = fork();
	if (pid == 0) {
		dup2(fds[0], STDIN_FILENO);
		close(fds[0]);
		close(fds[1]);
		if (command) {
			signal(SIGPIPE, SIG_DFL);
			execl("/bin/sh", "sh", "-c", command, (char *)NULL);
			_exit(127);
		}
		signal(SIGINT, SIG_IGN);
		colour_all();
		_exit(0);
	}
	if (pid > 0) {
		dup2(fds[1], STDOUT_FILENO);
		if (p->both)
			dup2(fds[1], STDERR_FILENO);
	}
	close(fds[0]);
	close(fds[1]);
	return pid > 0 ? pid : 0;
}

static const char *find_pager(void)
{
	const char *s = getenv("AUXDECODE_PAGER");

	s = s ? s : getenv("PAGER");
	s = s ? s : "less";
	return *s && strcmp(s, "cat") ? s : NULL;
}

/* The pager, for the handler. */
static struct pager *running(struct pager *set)
{
	static struct pager *p;

	if (set)
		p = set;
	return p;
}

/* The output is closed and read to its end before the signal has its usual
 * effect, so that the exit status is that of a killed program. */
static void on_signal(int sig)
{
	pager_wait(running(NULL));
	signal(sig, SIG_DFL);
	raise(sig);
}

void pager_start(struct pager *p, bool page, bool colour)
{
	const char *command = page && isatty(STDOUT_FILENO) ? find_pager() :
							     NULL;

	*p = (struct pager){ .both = isatty(STDOUT_FILENO) &&
				     isatty(STDERR_FILENO) && command };
	if (!command && !colour)
		return;
	if (command) {
		setenv("LESS", "FRX", 0);
		p->pids[0] = start_child(p, command);
	}
	if (colour)
		p->pids[1] = start_child(p, NULL);
	running(p);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
}

/* The reader at the near end is waited for first: the pager sees the end of its
 * input only when the colouring process is gone. */
void pager_wait(struct pager *p)
{
	if (!p->pids[0] && !p->pids[1])
		return;
	close(STDOUT_FILENO);
	if (p->both)
		close(STDERR_FILENO);
	for (unsigned i = 2; i-- > 0;)
		while (p->pids[i] && waitpid(p->pids[i], NULL, 0) < 0 &&
		       errno == EINTR)
			;
	p->pids[0] = p->pids[1] = 0;
}
