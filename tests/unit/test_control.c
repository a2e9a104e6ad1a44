/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The control FIFO: what opens, how bytes become commands in whatever pieces
 * they come, and answers that never wait for a reader.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/record/impl.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/auxkit-control.XXXXXX";
static char orders[64], acks[64], plain[64];

static void put(int fd, const char *text)
{
	size_t n = strlen(text);

	if (write(fd, text, n) != (ssize_t)n)
		ok(0, "write '%.20s'", text);
}

static void test_open(void)
{
	/* table */
	static const struct {
		const char *text;
		int code;
		const char *says;
	} cases[] = {
		{ "nonsense", AUX_E_INVAL, "fifo:COMMANDS[,ACKS] or fd:N" },
		{ "", AUX_E_INVAL, "not ''" },
		{ "fifo:/absent/fifo", AUX_E_IO, "mkfifo" },
		{ "fd:", AUX_E_INVAL, "no open descriptor" },
		{ "fd:x", AUX_E_INVAL, "no open descriptor" },
		{ "fd:-1", AUX_E_INVAL, "no open descriptor" },
		{ "fd:0x1", AUX_E_INVAL, "no open descriptor" },
		{ "fd:999", AUX_E_INVAL, "no open descriptor" },
		{ "fd:0,998", AUX_E_INVAL, "'998'" },
	};
	struct aux_diag diag;
	struct control *c;
	char text[200];
	size_t i;
	int ret;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memset(&diag, 0, sizeof(diag));
		ret = control_open(&c, cases[i].text, &diag);
		ok(ret == -cases[i].code && !c &&
		   strstr(diag.text, cases[i].says), "'%s': %s", cases[i].text,
		   diag.text);
	}
	snprintf(text, sizeof(text), "fifo:%s", plain);
	ok(control_open(&c, text, &diag) == -AUX_E_INVAL &&
	   strstr(diag.text, "is no FIFO"), "%s", diag.text);
	snprintf(text, sizeof(text), "fifo:%s,%s", orders, plain);
	ok(control_open(&c, text, &diag) == -AUX_E_INVAL && !c,
	   "nor is that for answers: %s", diag.text);
	snprintf(text, sizeof(text), "fifo:%s", orders);
	ok(!control_open(&c, text, &diag) && c->fd >= 0 && c->ack_fd < 0,
	   "a FIFO for commands alone");
	control_ack(c, "ack");	/* goes nowhere */
	control_close(c);
	control_close(NULL);
}

/* Opened once, for the tests that follow; *in is our end of the commands. */
static struct control *open_both(int *in, int *out)
{
	struct control *c;
	char text[200];

	snprintf(text, sizeof(text), "fifo:%s,%s", orders, acks);
	if (control_open(&c, text, NULL))
		return NULL;
	*in = open(orders, O_WRONLY | O_NONBLOCK);
	*out = open(acks, O_RDONLY | O_NONBLOCK);
	return c;
}

static void test_commands(struct control *c, int in)
{
	/* table */
	static const struct {
		const char *line;
		enum control_command command;
		const char *arg;
	} cases[] = {
		{ "enable\n", CONTROL_ENABLE, "" },
		{ "disable\n", CONTROL_DISABLE, "" },
		{ "snapshot\n", CONTROL_SNAPSHOT, "" },
		{ "snapshot after the crash\n", CONTROL_SNAPSHOT,
		  "after the crash" },
		{ "snapshot \t x\n", CONTROL_SNAPSHOT, "x" },
		{ "switch\n", CONTROL_SWITCH, "" },
		{ "ping\n", CONTROL_PING, "" },
		{ "stop\n", CONTROL_STOP, "" },
		{ "evlist\n", CONTROL_EVLIST, "" },
		{ "ping\r\n", CONTROL_PING, "" },
		{ "pin\n", CONTROL_UNKNOWN, "pin" },
		{ "pings\n", CONTROL_UNKNOWN, "pings" },
		{ "Enable\n", CONTROL_UNKNOWN, "Enable" },
		{ " enable\n", CONTROL_UNKNOWN, "" },
	};
	const char *arg;
	size_t i;

	ok(control_next(c, &arg) == CONTROL_NONE, "nothing yet");
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		enum control_command got;

		put(in, cases[i].line);
		got = control_next(c, &arg);
		ok(got == cases[i].command && !strcmp(arg, cases[i].arg),
		   "'%.*s' is %d '%s'", (int)strcspn(cases[i].line, "\r\n"),
		   cases[i].line, got, arg);
		if (control_next(c, &arg) != CONTROL_NONE)
			ok(0, "and nothing else");
	}
}

static void test_pieces(struct control *c, int in)
{
	static const char text[] = "ping\nsnapshot one\n\n\nstop\n";
	const char *arg;
	size_t i, n = 0;
	bool early = false;

	put(in, text);
	ok(control_next(c, &arg) == CONTROL_PING &&
	   control_next(c, &arg) == CONTROL_SNAPSHOT && !strcmp(arg, "one") &&
	   control_next(c, &arg) == CONTROL_STOP &&
	   control_next(c, &arg) == CONTROL_NONE,
	   "three lines at once, and empty ones between them");
	for (i = 0; text[i]; i++) {
		char one[2] = { text[i], '\0' };
		enum control_command got;

		put(in, one);
		got = control_next(c, &arg);
		early |= got != CONTROL_NONE && text[i] != '\n';
		n += got == CONTROL_PING || got == CONTROL_STOP ||
		     (got == CONTROL_SNAPSHOT && !strcmp(arg, "one"));
	}
	ok(n == 3 && !early, "the same byte by byte");
}

/* A line is at most so long that it can be kept; the rest of it is no command. */
static void test_long(struct control *c, int in)
{
	char line[4000];
	const char *arg;

	memset(line, 'x', sizeof(line));
	memcpy(line, "snapshot ", 9);
	line[200] = '\n';
	line[201] = '\0';
	put(in, line);
	ok(control_next(c, &arg) == CONTROL_SNAPSHOT && strlen(arg) == 191,
	   "a label of 191 bytes");
	line[200] = line[201] = 'x';
	memcpy(line + 2000, "\nstop\n", 7);
	memcpy(line + 1000, "stop", 4);
	put(in, line);
	ok(control_next(c, &arg) == CONTROL_STOP &&
	   control_next(c, &arg) == CONTROL_NONE,
	   "a line of 2000 bytes is left out, the next one is not");
	put(in, "stop");
	ok(control_next(c, &arg) == CONTROL_NONE, "a line without its end");
	put(in, "\n");
	ok(control_next(c, &arg) == CONTROL_STOP, "when that comes");
}

static void test_acks(struct control *c, int out)
{
	char buf[600], big[600];
	size_t n = 0;
	ssize_t got;

	control_ack(c, "ack");
	control_ack(c, "error: no such thing");
	got = read(out, buf, sizeof(buf) - 1);
	buf[got > 0 ? got : 0] = '\0';
	is_str(buf, "ack\nerror: no such thing\n", "answers are lines");
	memset(big, 'y', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	control_ack(c, big);
	got = read(out, buf, sizeof(buf) - 1);
	ok(got > 100 && got < 257 && buf[got - 1] == '\n',
	   "a long one is cut, and still a line");
	for (n = 0; n < 100000; n++)	/* much more than a pipe holds */
		control_ack(c, "ack");
	ok(1, "nobody reads: it does not wait");
	while (read(out, buf, sizeof(buf)) > 0)
		;
}

/* A client that leaves is not the end: the next one is heard. */
static void test_leave(struct control *c, int *in)
{
	const char *arg;

	put(*in, "pi");
	close(*in);
	ok(control_next(c, &arg) == CONTROL_NONE, "a client leaves in mid-word");
	*in = open(orders, O_WRONLY | O_NONBLOCK);
	ok(*in >= 0, "another one finds a reader");
	put(*in, "ng\nping\n");
	ok(control_next(c, &arg) == CONTROL_PING &&
	   control_next(c, &arg) == CONTROL_PING, "and is heard");
}

/* Descriptors of the caller's: an end of file says nothing, for ever. */
static void test_descriptors(void)
{
	struct control *c;
	char text[64], buf[16];
	const char *arg;
	int p[2], q[2];

	if (pipe(p) || pipe(q)) {
		ok(0, "pipes");
		return;
	}
	snprintf(text, sizeof(text), "fd:%d,%d", p[0], q[1]);
	if (!ok(!control_open(&c, text, NULL), "fd:N,M"))
		return;
	ok(control_next(c, &arg) == CONTROL_NONE, "a pipe does not block");
	put(p[1], "snapshot a b\nsto");
	ok(control_next(c, &arg) == CONTROL_SNAPSHOT && !strcmp(arg, "a b"),
	   "a command of a pipe");
	control_ack(c, "ack");
	ok(read(q[0], buf, sizeof(buf)) == 4, "its answer");
	close(p[1]);
	ok(control_next(c, &arg) == CONTROL_NONE &&
	   control_next(c, &arg) == CONTROL_NONE, "the end of file is no command");
	control_close(c);
	ok(fcntl(p[0], F_GETFD) >= 0 && fcntl(q[1], F_GETFD) >= 0,
	   "they stay the caller's");
	close(p[0]);
	close(q[0]);
	close(q[1]);
}

int main(void)
{
	struct control *c;
	int in = -1, out = -1, fd;

	if (!mkdtemp(dir))
		return 1;
	snprintf(orders, sizeof(orders), "%s/orders", dir);
	snprintf(acks, sizeof(acks), "%s/acks", dir);
	snprintf(plain, sizeof(plain), "%s/plain", dir);
	fd = open(plain, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || mkfifo(orders, 0600) || mkfifo(acks, 0600))
		return 1;
	close(fd);
	test_open();
	c = open_both(&in, &out);
	if (ok(c && in >= 0 && out >= 0, "both FIFOs")) {
		test_commands(c, in);
		test_pieces(c, in);
		test_long(c, in);
		test_acks(c, out);
		test_leave(c, &in);
	}
	control_close(c);
	close(in);
	close(out);
	test_descriptors();
	unlink(orders);
	unlink(acks);
	unlink(plain);
	rmdir(dir);
	return plan_done();
}
