/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What all commands share: messages and the output. Every message is one line
 * that starts with "auxdecode: " and is written with one call, so messages of
 * several processes do not mix.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clean.h"
#include "decode/cmd/impl.h"

/* A longer line is cut. All of it is cleaned: names and paths are in it. path:
 * the file that the commands in it are about, NULL: the user's first. */
static void put_line(const char *path, const char *text)
{
	struct outbuf *full = outbuf_new(-1);
	char line[4096];
	size_t n;

	if (full)
		follow_expand(full, text, path);
	if (full && !outbuf_failed(full)) {
		outbuf_put(full, "", 1);
		text = full->buf;
	}
	snprintf(line, sizeof(line) - 1, "%s", text);
	outbuf_free(full);
	n = clean_text(line, line, strlen(line));
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return; /* nowhere left to say it */
}

void cmd_line(const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(line, sizeof(line), fmt, ap) >= 0)
		put_line(NULL, line);
	va_end(ap);
}

int cmd_error(const char *path, const struct aux_diag *diag)
{
	const char *text =
		diag->text[0] ? diag->text : aux_strerror(diag->code);
	const char *sep = path ? ": " : "";
	char at[24] = "", line[1024];

	if (path && diag->offset != AUX_NO_OFFSET)
		snprintf(at, sizeof(at), "@0x%llx",
			 (unsigned long long)diag->offset);
	snprintf(line, sizeof(line), "auxdecode: error: %s%s%s%s%s%s",
		 path ? path : "", at, sep, advice_before(diag->why), text,
		 advice_after(diag->why));
	put_line(path, line);
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
	char text[768], line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "auxdecode: warning: %s%s%s",
		 path ? path : "", path ? ": " : "", text);
	put_line(path, line);
}

static int io_error(const char *path, const char *what, int err)
{
	struct aux_diag diag = { .code = AUX_E_IO, .offset = AUX_NO_OFFSET };

	snprintf(diag.text, sizeof(diag.text), "%s: %s", what, strerror(err));
	return cmd_error(path, &diag);
}

/* Writing would replace what is read, or is to be. */
static bool is_input(const char *path, const char *output)
{
	struct stat in, out;

	return path && !stat(path, &in) && !stat(output, &out) &&
	       S_ISREG(out.st_mode) && in.st_dev == out.st_dev &&
	       in.st_ino == out.st_ino;
}

int cmd_out_check(const struct cmd_options *o)
{
	bool is = o->output.path && is_input(o->path, o->output.path);

	for (size_t i = 0; o->output.path && i < o->n_paths && !is; i++)
		is = is_input(o->paths[i], o->output.path);
	return is ? cmd_usage("-o %s is the file that is read",
			      o->output.path) : CMD_OK;
}

int cmd_out_open(struct cmd_out *out, const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int status = cmd_out_check(o);

	*out = (struct cmd_out){ .file = OUTFILE_NONE };
	if (status)
		return status;
	if (o->output.path &&
	    outfile_open(&out->file, o->output.path, 0666, 0, &diag) < 0)
		return cmd_error(NULL, &diag);
	out->buf = outbuf_new(o->output.path ? out->file.fd : STDOUT_FILENO);
	if (out->buf)
		return CMD_OK;
	outfile_discard(&out->file);
	return io_error(NULL, "output buffer", ENOMEM);
}

/* The errno of the first failed write, 0: none. */
static int finish(struct cmd_out *out)
{
	int err;

	outbuf_flush(out->buf);
	err = out->buf->error;
	outbuf_free(out->buf);
	out->buf = NULL;
	return err;
}

int cmd_out_close(struct cmd_out *out, const struct cmd_options *o, int status)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	bool whole = status == CMD_OK || status == CMD_GAPS || out->keep;
	int err;

	if (!out->buf)
		return status;
	err = finish(out);
	if (!err && whole && o->output.path)
		return outfile_commit(&out->file, &diag) < 0 ?
			       cmd_error(NULL, &diag) : status;
	if (o->output.path)
		outfile_discard(&out->file);
	if (!err)
		return status;
	if (err == EPIPE && !o->output.path)
		return CMD_OK;
	if (err == ENOMEM)
		return io_error(NULL, "output", err);
	return io_error(o->output.path ? o->output.path : "standard output",
			"cannot write (is the disk full?)", err);
}
