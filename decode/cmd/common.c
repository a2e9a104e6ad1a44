/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all commands share: messages and the output. Every message is one line
 * that starts with "auxdecode: " and is written with one call, so messages of
 * several processes do not mix.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decode/cmd/impl.h"

/* len as snprintf returned it for a buffer of that size: a longer line is cut. */
static void emit(const char *line, int len, size_t size)
{
	if (len < 0)
		return;
	if ((size_t)len >= size)
		len = (int)size - 1;
	if (write(STDERR_FILENO, line, (size_t)len) < 0)
		return; /* nowhere left to say it */
}

int cmd_error(const char *path, const struct aux_diag *diag)
{
	const char *text =
		diag->text[0] ? diag->text : aux_strerror(diag->code);
	const char *sep = path ? ": " : "";
	char line[1024], at[24] = "";
	int n;

	if (path && diag->offset != AUX_NO_OFFSET)
		snprintf(at, sizeof(at), "@0x%llx",
			 (unsigned long long)diag->offset);
	n = snprintf(line, sizeof(line), "auxdecode: error: %s%s%s%s%s%s\n",
		     path ? path : "", at, sep, advice_before(diag->why), text,
		     advice_after(diag->why));
	emit(line, n, sizeof(line));
	return diag->code == AUX_E_INVAL ? CMD_USAGE : CMD_FAILED;
}

int cmd_usage(const char *fmt, ...)
{
	struct aux_diag diag = { .code = AUX_E_INVAL, .offset = AUX_NO_OFFSET };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(diag.text, sizeof(diag.text), fmt, ap);
	va_end(ap);
	return cmd_error(NULL, &diag);
}

void cmd_warn(const char *path, const char *fmt, ...)
{
	char line[1024], text[768];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = snprintf(line, sizeof(line), "auxdecode: warning: %s%s%s\n",
		     path ? path : "", path ? ": " : "", text);
	emit(line, n, sizeof(line));
}

static int io_error(const char *path, const char *what, int err)
{
	struct aux_diag diag = { .code = AUX_E_IO, .offset = AUX_NO_OFFSET };

	snprintf(diag.text, sizeof(diag.text), "%s: %s", what, strerror(err));
	return cmd_error(path, &diag);
}

/* Writing would empty what is read, or is to be. */
static bool is_input(const struct cmd_options *o)
{
	struct stat in, out;

	return o->path && !stat(o->path, &in) && !stat(o->output.path, &out) &&
	       S_ISREG(out.st_mode) && in.st_dev == out.st_dev &&
	       in.st_ino == out.st_ino;
}

/* The file is emptied here, so a command that reads one FILE opens that first. */
int cmd_out_open(struct outbuf **out, const struct cmd_options *o)
{
	int fd = STDOUT_FILENO;

	*out = NULL;
	if (o->output.path) {
		if (is_input(o))
			return cmd_usage("-o %s is the file that is read",
					 o->output.path);
		fd = open(o->output.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			  0666);
		if (fd < 0)
			return io_error(o->output.path, "cannot create", errno);
	}
	*out = outbuf_new(fd);
	if (*out)
		return CMD_OK;
	if (o->output.path)
		close(fd);
	return io_error(NULL, "output buffer", ENOMEM);
}

/* close() may be the first to report a full disk or quota (NFS), so it counts. */
int cmd_out_close(struct outbuf *out, const struct cmd_options *o, int status)
{
	int err, fd;

	if (!out)
		return status;
	outbuf_flush(out);
	err = out->error;
	fd = out->fd;
	outbuf_free(out);
	if (o->output.path && close(fd) < 0 && !err)
		err = errno;
	if (!err)
		return status;
	if (err == EPIPE && !o->output.path)
		return CMD_OK;
	return io_error(o->output.path ? o->output.path : "standard output",
			"cannot write (is the disk full?)", err);
}
