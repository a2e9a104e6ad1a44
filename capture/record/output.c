/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output: a sequence of writers, and the names of the files they completed.
 *
 * Invariant: the list of finished files, from which the oldest are deleted,
 * holds only files that this run created under names that did not exist before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "capture/record/record.h"
#include "common/array.h"
#include "common/diag.h"

struct output {
	struct output_options opt;
	char *path;
	struct writer *w;
	char **done;		/* names of finished files, oldest first */
	size_t n_done, cap_done;
	unsigned n_switched;
};

/* Digits after the dot, as perf's switch_output: YYYYMMDDHHMMSS and 1/100 s. */
#define STAMP_LEN 16

static int fail_nomem(const struct output *o, struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "%s: out of memory",
			o->path ? o->path : "output");
}

int output_open(struct output **out, const struct output_options *opt,
		struct aux_diag *diag)
{
	struct output *o = calloc(1, sizeof(*o));
	int ret;

	*out = NULL;
	if (!o)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	o->opt = *opt;
	o->path = strdup(opt->path);
	o->opt.path = o->path;
	ret = o->path ? writer_open(&o->w, o->path, &opt->w, diag) :
			fail_nomem(o, diag);
	if (ret) {
		output_discard(o, NULL);
		return ret;
	}
	*out = o;
	return 0;
}

struct writer *output_writer(const struct output *o)
{
	return o->w;
}

bool output_is_pipe(const struct output *o)
{
	return o->opt.w.pipe || !strcmp(o->path, "-");
}

unsigned output_n_switched(const struct output *o)
{
	return o->n_switched;
}

/* Completes and closes the present file. An error of the close is reported
 * rather than one of finish, since it is usually its cause (disk full). */
static int finish_present(struct output *o, struct aux_diag *diag)
{
	struct aux_diag at_close = { 0 };
	int ret = 0, err;

	if (!o->w)
		return 0;
	err = writer_finish(o->w);
	if (writer_headless(o->w)) {
		/* Without a header it is no file; finish still runs, for the
		 * losses to be counted. */
		if (o->opt.finish)
			o->opt.finish(o->opt.priv, o->w);
		writer_discard(o->w, diag);
		o->w = NULL;
		return err;
	}
	if (o->opt.finish)
		ret = o->opt.finish(o->opt.priv, o->w);
	if (ret)
		diag_set(diag, -ret, AUX_NO_OFFSET,
			 "%s: the end could not be written: %s", o->path,
			 aux_strerror(ret));
	err = writer_close(o->w, &at_close);
	o->w = NULL;
	if (err && diag)
		*diag = at_close;
	return err ? err : ret;
}

/* path.YYYYMMDDHHMMSSuu for tv in local time. */
static int make_name(const struct output *o, char *buf, size_t len,
		     struct timeval tv)
{
	struct tm tm;
	size_t n;

	if (!localtime_r(&tv.tv_sec, &tm))
		return -AUX_E_IO;
	n = (size_t)snprintf(buf, len, "%s.", o->path);
	n += strftime(buf + n, len - n, "%Y%m%d%H%M%S", &tm);
	snprintf(buf + n, len - n, "%02d", (int)(tv.tv_usec / 10000));
	return 0;
}

/* Renames without replacing: link() fails if the name exists. On file systems
 * without hard links (FAT, some FUSE) we check first, which leaves a race. */
static int rename_new(const char *from, const char *to)
{
	if (!link(from, to)) {
		unlink(from);
		return 0;
	}
	if (errno == EEXIST)
		return -1;
	if (!access(to, F_OK)) {
		errno = EEXIST;
		return -1;
	}
	return rename(from, to);
}

/* Renames the completed file to its dated name; two switches within 1/100 s get
 * different ones, since a name in use makes us try the next hundredth. */
static int rename_dated(struct output *o, char *name, size_t len,
		     struct aux_diag *diag)
{
	struct timeval tv;
	int tries;

	gettimeofday(&tv, NULL);
	for (tries = 0; tries < 6000; tries++) {
		if (make_name(o, name, len, tv))
			break;
		if (!rename_new(o->path, name))
			return 0;
		if (errno != EEXIST)
			break;
		tv.tv_usec += 10000;
		if (tv.tv_usec >= 1000000) {
			tv.tv_usec -= 1000000;
			tv.tv_sec++;
		}
	}
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			"cannot name the finished file %s: %s", name,
			strerror(errno));
}

/* Deletes the oldest files beyond opt.keep. One that cannot be deleted is
 * forgotten, rather than tried again at each switch. */
static void remove_oldest(struct output *o)
{
	size_t i, n;

	if (!o->opt.keep || o->n_done <= o->opt.keep)
		return;
	n = o->n_done - o->opt.keep;
	for (i = 0; i < n; i++) {
		unlink(o->done[i]);
		free(o->done[i]);
	}
	o->n_done -= n;
	memmove(o->done, o->done + n, o->n_done * sizeof(*o->done));
}

/* Moves the completed file to its dated name and lists it. */
static int retire(struct output *o, struct aux_diag *diag)
{
	size_t len = strlen(o->path) + 1 + STAMP_LEN + 16;
	char *name = malloc(len);
	int ret;

	if (!name || array_grow(&o->done, o->n_done, &o->cap_done,
				sizeof(*o->done))) {
		free(name);
		return fail_nomem(o, diag);
	}
	ret = rename_dated(o, name, len, diag);
	if (ret) {
		free(name);
		return ret;
	}
	o->done[o->n_done++] = name;
	remove_oldest(o);
	return 0;
}

/* If the completed file cannot be renamed, the next one is not opened: it would
 * replace it. */
int output_switch(struct output *o, struct aux_diag *diag)
{
	struct aux_diag at_open = { 0 };
	int ret, err;

	if (output_is_pipe(o))
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"a pipe has one recording: it cannot be "
				"switched (-o names a file)");
	ret = finish_present(o, diag);
	err = retire(o, ret ? NULL : diag);
	if (err)	/* opening path again would move this file to path.old */
		return ret ? ret : err;
	o->n_switched++;
	err = writer_open(&o->w, o->path, &o->opt.w, &at_open);
	if (err) {
		o->w = NULL;
		if (diag)
			*diag = at_open;
	}
	return err ? err : ret;
}

static void free_output(struct output *o)
{
	size_t i;

	for (i = 0; i < o->n_done; i++)
		free(o->done[i]);
	free(o->done);
	free(o->path);
	free(o);
}

int output_close(struct output *o, struct aux_diag *diag)
{
	int ret, err = 0;

	if (!o)
		return 0;
	if (o->w && o->n_switched) {
		ret = finish_present(o, diag);
		err = retire(o, ret ? NULL : diag);
	} else {
		ret = finish_present(o, diag);
	}
	free_output(o);
	return ret ? ret : err;
}

void output_discard(struct output *o, struct aux_diag *diag)
{
	if (!o)
		return;
	writer_discard(o->w, diag);
	free_output(o);
}
