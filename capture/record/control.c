/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control: turns lines from a FIFO into commands.
 *
 * Invariant: nothing here blocks. Both ends are non-blocking, and an
 * acknowledgement that does not fit into the pipe is dropped, so a client that
 * never reads its acks cannot stall the recording.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/record/impl.h"

/* Opened for reading and writing, so that the FIFO always has both a reader and
 * a writer: open does not wait for a client, and poll reports no POLLHUP when
 * one leaves. */
static int open_fifo(const char *path, struct aux_diag *diag)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"--control: %s: %s%s", path, strerror(errno),
				errno == ENOENT ? " (make it: mkfifo)" : "");
	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode)) {
		close(fd);
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--control: %s is no FIFO", path);
	}
	return fd;
}

/* An inherited descriptor; it stays the caller's. */
static int parse_fd(const char *s, struct aux_diag *diag)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || n > 1 << 20 ||
	    fcntl((int)n, F_GETFD) < 0)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--control: '%s' is no open descriptor", s);
	fcntl((int)n, F_SETFL, fcntl((int)n, F_GETFL) | O_NONBLOCK);
	return (int)n;
}

static int open_ends(struct control *c, char *first, struct aux_diag *diag)
{
	int (*open_end)(const char *, struct aux_diag *) = open_fifo;
	char *second;

	c->ours = true;
	if (!strncmp(first, "fifo:", 5)) {
		first += 5;
	} else if (!strncmp(first, "fd:", 3)) {
		first += 3;
		c->ours = false;
		open_end = parse_fd;
	} else {
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"--control takes fifo:COMMANDS[,ACKS] or "
				"fd:N[,M], not '%s'", first);
	}
	second = strchr(first, ',');
	if (second)
		*second++ = '\0';
	c->fd = open_end(first, diag);
	if (c->fd >= 0 && second)
		c->ack_fd = open_end(second, diag);
	if (c->fd < 0)
		return c->fd;
	return second && c->ack_fd < 0 ? c->ack_fd : 0;
}

int control_open(struct control **out, const char *text, struct aux_diag *diag)
{
	struct control *c = calloc(1, sizeof(*c));
	char *copy = strdup(text);
	int ret;

	*out = NULL;
	if (c)
		c->fd = c->ack_fd = -1;
	if (!c || !copy)
		ret = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory");
	else
		ret = open_ends(c, copy, diag);
	free(copy);
	if (ret) {
		control_close(c);
		return ret;
	}
	*out = c;
	return 0;
}

void control_close(struct control *c)
{
	if (!c)
		return;
	if (c->ours && c->fd >= 0)
		close(c->fd);
	if (c->ours && c->ack_fd >= 0)
		close(c->ack_fd);
	free(c);
}

static enum control_command parse(char *line, const char **arg)
{
	static const struct {
		const char *word;
		enum control_command command;
	} words[] = {
		{ "enable", CONTROL_ENABLE }, { "disable", CONTROL_DISABLE },
		{ "snapshot", CONTROL_SNAPSHOT }, { "switch", CONTROL_SWITCH },
		{ "ping", CONTROL_PING }, { "stop", CONTROL_STOP },
		{ "evlist", CONTROL_EVLIST },
	};
	size_t i, n = strcspn(line, " \t\r"), skip;

	skip = n + strspn(line + n, " \t\r");
	*arg = line + skip;
	line[n] = '\0';
	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(line, words[i].word))
			return words[i].command;
	*arg = line;
	return CONTROL_UNKNOWN;
}

/*
 * The first half of buf collects input; a complete line is copied into the
 * second half, where *arg may point into it until the next call. A line longer
 * than half of buf is skipped up to its newline.
 */
enum control_command control_next(struct control *c, const char **arg)
{
	for (;;) {
		char *nl = memchr(c->buf, '\n', c->used);
		static const size_t half = sizeof(c->buf) / 2;
		ssize_t n;

		if (nl) {
			size_t len = (size_t)(nl - c->buf);
			char *line = c->buf + half;
			bool skipped = c->skipping;

			*nl = '\0';
			memcpy(line, c->buf, len + 1);
			c->used -= len + 1;
			memmove(c->buf, nl + 1, c->used);
			c->skipping = false;
			if (!skipped && *line)
				return parse(line, arg);
			continue;
		}
		if (c->used == half - 1) {
			c->used = 0;
			c->skipping = true;
		}
		n = read(c->fd, c->buf + c->used, half - 1 - c->used);
		if (n <= 0)
			return CONTROL_NONE;
		c->used += (size_t)n;
	}
}

void control_ack(struct control *c, const char *text)
{
	char line[256];
	int n;

	if (c->ack_fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%.250s\n", text);
	if (write(c->ack_fd, line, (size_t)n) < 0)
		return;	/* no reader, or it does not read: dropped */
}
