/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_gdbserver: a recording as the target of a debugger (decode/gdb). It listens on
 * this machine alone, serves one debugger, and ends with it. cmd_gdb: the same with a
 * gdb that is started here, over a socket that only the user's programs reach.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/diag.h"
#include "decode/cmd/impl.h"
#include "decode/gdb/gdb.h"

enum { AT_END = 0, AT_BEGIN };

struct gdbserver_options {
	const char *port;	/* a number, or "-"; NULL: any */
	uint64_t pid;		/* 0: the process with which the trace begins */
	unsigned at;		/* AT_* */
};

#define PLACE_ROWS							\
	{ .name = "pid", .arg = "PID", .max = UINT32_MAX - 1,		\
	  .zero = "is no process of a program",				\
	  .help = "the process (default: the one with which the trace begins)", \
	  OPTION_NUMBER(struct gdbserver_options, pid) },		\
	{ .name = "at", .arg = "PLACE", .values = "end begin",		\
	  .help = "where it stands at first: at the end, to go back from there\n" \
		  "(default), or at the beginning",				\
	  OPTION_CHOICE(struct gdbserver_options, at) },		\
	{ .name = NULL }

/* table */
static const struct option_row server_rows[] = {
	{ .name = "port", .arg = "N|-",
	  .help = "a TCP port of this machine (default: any that is free); -: standard\n"
		  "input and output, for `target remote | auxdecode gdbserver ..`",
	  OPTION_TEXT(struct gdbserver_options, port) },
	PLACE_ROWS,
}, gdb_rows[] = { PLACE_ROWS };

const struct cmd_own cmd_gdbserver_own = {
	.options = server_rows,
	.config_size = sizeof(struct gdbserver_options),
}, cmd_gdb_own = {
	.options = gdb_rows,
	.config_size = sizeof(struct gdbserver_options),
};

#define SCRIPT "python exec(gdb.execute(\"monitor script\", to_string=True))"

#define PROCESSES 6	/* that are named */

/* Which processes there are, where there are several to choose from. */
static void name_processes(struct session *s)
{
	const struct timeline *tl = session_timeline(s);
	struct outbuf *o = outbuf_new(-1);
	unsigned n = 0;
	uint32_t tid;
	size_t i = 0;

	while (o && timeline_next_thread(tl, &i, &tid)) {
		if (!tid || timeline_pid(tl, tid, UINT64_MAX - 1) != tid)
			continue;
		if (n++ < PROCESSES)
			outbuf_printf(o, "%s%s/%u", n > 1 ? ", " : "",
				      timeline_comm(tl, tid, UINT64_MAX - 1), tid);
	}
	if (o && n > 1)
		cmd_line("auxdecode: %u processes: %.*s%s; this is the one with which the "
			 "trace begins, --pid PID is another", n,
			 (int)(o->p - o->buf), o->buf, n > PROCESSES ? ", .." : "");
	outbuf_free(o);
}

static int serve(const struct cmd_options *o, struct session *s, int in, int out)
{
	const struct gdbserver_options *own = o->own;
	const struct gdb_config config = {
		.session = s, .in = in, .out = out,
		.pid = own->pid ? (int64_t)own->pid : -1,
		.at_begin = own->at == AT_BEGIN, .gap_text = advice_gap,
	};
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int err, status;

	signal(SIGPIPE, SIG_IGN);
	if (!own->pid)
		name_processes(s);
	err = gdb_serve(&config, &diag);
	status = err ? cmd_failed(o->path, err, &diag) : CMD_OK;
	if (err == -AUX_E_NOENT)
		cmd_line("auxdecode: `auxdecode insn FILE` says what is missing");
	return status;
}

static int fail(const char *what, int fd)
{
	cmd_line("auxdecode: error: %s: %s", what, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int cmd_listen(uint64_t port, unsigned *got)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fail("no socket", -1);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &len)) {
		cmd_line("auxdecode: error: port %llu: %s%s",
			 (unsigned long long)port, strerror(errno),
			 errno == EADDRINUSE ? "; without --port a free one is taken" :
					       "");
		close(fd);
		return -1;
	}
	*got = ntohs(a.sin_port);
	return fd;
}

int cmd_accept(int fd)
{
	int client;

	do {
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	} while (client < 0 && errno == EINTR);
	if (client < 0)
		return fail("nobody came", fd);
	close(fd);
	return client;
}

static int serve_port(const struct cmd_options *o, struct session *s, uint64_t port)
{
	unsigned got;
	int fd = cmd_listen(port, &got), client, status;

	if (fd < 0)
		return CMD_FAILED;
	cmd_line("auxdecode: waiting for a debugger: gdb -ex 'target remote :%u' "
		 "-ex '" SCRIPT "'", got);
	client = cmd_accept(fd);
	if (client < 0)
		return CMD_FAILED;
	status = serve(o, s, client, client);
	close(client);
	return status;
}

/* ---- with a gdb of its own ---- */

/* A socket in a directory that is the user's alone. */
struct meeting {
	char dir[64];
	struct sockaddr_un at;
	int fd;
};

static int meet(struct meeting *m)
{
	const char *tmp = getenv("TMPDIR");

	m->fd = -1;
	if (snprintf(m->dir, sizeof(m->dir), "%s/auxdecode-XXXXXX",
		     tmp && *tmp ? tmp : "/tmp") >= (int)sizeof(m->dir))
		snprintf(m->dir, sizeof(m->dir), "/tmp/auxdecode-XXXXXX");
	if (!mkdtemp(m->dir))
		return fail("no place for a socket", -1);
	m->at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(m->at.sun_path, sizeof(m->at.sun_path), "%s/gdb", m->dir);
	m->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (m->fd < 0 || bind(m->fd, (struct sockaddr *)&m->at, sizeof(m->at)) ||
	    listen(m->fd, 1))
		return fail("no socket for gdb", -1);
	return 0;
}

static void part(struct meeting *m)
{
	if (m->fd >= 0)
		close(m->fd);
	if (m->dir[0]) {
		unlink(m->at.sun_path);
		rmdir(m->dir);
	}
}

/* $GDB, else a gdb for all machines, else gdb. Does not return. */
static void run_gdb(const struct meeting *m)
{
	const char *names[] = { getenv("GDB"), "gdb-multiarch", "gdb" };
	char target[sizeof(m->at.sun_path) + 16];

	snprintf(target, sizeof(target), "target remote %s", m->at.sun_path);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i] && *names[i])
			execlp(names[i], names[i], "-q", "-ex", target, "-ex", SCRIPT,
			       (char *)NULL);
	cmd_line("auxdecode: error: gdb cannot be run: %s; it is Debian's package gdb "
		 "(gdb-multiarch for Arm), $GDB names another, and `auxdecode "
		 "gdbserver` serves one that is elsewhere", strerror(errno));
	_exit(127);
}

/* gdb's own connection, or -1: it ended before. */
static int accept_gdb(const struct meeting *m, pid_t gdb)
{
	struct pollfd p = { .fd = m->fd, .events = POLLIN };
	siginfo_t ended = { .si_pid = 0 };

	while (poll(&p, 1, 100) <= 0)
		if (waitid(P_PID, (id_t)gdb, &ended, WEXITED | WNOHANG | WNOWAIT) ||
		    ended.si_pid)
			return -1;
	return accept4(m->fd, NULL, NULL, SOCK_CLOEXEC);
}

/* An interrupt is gdb's: it asks the server to stop. */
static int serve_gdb(const struct cmd_options *o, struct session *s,
		     const struct meeting *m)
{
	int client, wait_status = 0, status = CMD_OK;
	pid_t gdb = fork();

	if (gdb < 0) {
		fail("gdb", -1);
		return CMD_FAILED;
	}
	if (!gdb)
		run_gdb(m);
	signal(SIGINT, SIG_IGN);
	client = accept_gdb(m, gdb);
	if (client >= 0) {
		status = serve(o, s, client, client);
		close(client);
	}
	while (waitpid(gdb, &wait_status, 0) < 0 && errno == EINTR)
		;
	if (status == CMD_OK && !(WIFEXITED(wait_status) && !WEXITSTATUS(wait_status)))
		status = CMD_FAILED;
	return status;
}

int cmd_gdb(const struct cmd_options *o)
{
	struct session_config config = cmd_flow_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct meeting m = { .dir = "" };
	struct session *s = NULL;
	int status = CMD_FAILED, err;

	if (o->output.path)
		return cmd_usage("gdb writes no FILE; leave out -o %s", o->output.path);
	err = session_open(&s, &config, &diag);
	if (err)
		return cmd_failed(o->path, err, &diag);
	if (!meet(&m))
		status = serve_gdb(o, s, &m);
	part(&m);
	session_close(s);
	return status;
}

int cmd_gdbserver(const struct cmd_options *o)
{
	const struct gdbserver_options *own = o->own;
	struct session_config config = cmd_flow_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	bool stdio = own->port && !strcmp(own->port, "-");
	struct session *s = NULL;
	uint64_t port = 0;
	int status, err;

	if (o->output.path)
		return cmd_usage("gdbserver writes no FILE; without -o it answers a "
				 "debugger");
	if (own->port && !stdio && !option_read_number(own->port, 65535, &port))
		return cmd_usage("--port %s: not a port, 1 to 65535, nor -", own->port);
	if (stdio && !strcmp(o->path, "-"))
		return cmd_usage("standard input cannot be both the recording and the "
				 "debugger: without --port - it is a TCP port");
	err = session_open(&s, &config, &diag);
	if (err)
		return cmd_failed(o->path, err, &diag);
	status = stdio ? serve(o, s, STDIN_FILENO, STDOUT_FILENO) :
			 serve_port(o, s, port);
	session_close(s);
	return status;
}
