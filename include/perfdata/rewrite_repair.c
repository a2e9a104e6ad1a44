/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rewrite_repair: what is there is looked at in one pass, which finds the end and
 * what the features need, and copied in another.
 *
 * A file is complete when its header says how far its data reach and all its
 * feature sections are there. Where no record stands and there are not only
 * zeros (what was never written), that is damage and no early end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/rewrite_features.h"
#include "perfdata/rewrite_repair.h"

struct job {
	const char *path;
	const struct repair_options *o;
	struct repair_result *r;
	struct aux_reader *reader;
	int fd;
	uint64_t end;		/* behind the last whole record */
	bool ended;		/* by the end of the file, or zeros */
	struct rewrite_found found;
};

static int fail_errno(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", what,
			strerror(errno));
}

static int open_file(struct job *j, struct aux_diag *diag)
{
	struct stat st;

	j->fd = open(j->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (j->fd < 0)
		return fail_errno(diag, "cannot open");
	if (fstat(j->fd, &st))
		return fail_errno(diag, "cannot look at it");
	if (!S_ISREG(st.st_mode))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s is not a regular file", j->path);
	if (flock(j->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s is being written by a running auxcap: stop "
				"it first", j->path);
	return aux_reader_open(&j->reader, j->path, diag);
}

static bool is_complete(const struct job *j)
{
	const struct aux_file_info *info = aux_reader_info(j->reader);
	struct aux_bytes b;
	unsigned n = 0;

	if (info->unfinished || j->end != info->data_offset + info->data_size)
		return false;
	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++) {
		int rc = aux_reader_feature(j->reader, bit, &b, NULL);

		if (rc < 0)
			return false;
		n += rc > 0;
	}
	return n > 0;
}

static uint64_t get_u64(const uint8_t *p, bool swap)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return swap ? __builtin_bswap64(v) : v;
}

/* Behind a record that the file has whole, or as far as it is there. */
static void take_place(struct job *j, const struct aux_event *ev)
{
	bool swapped = aux_reader_info(j->reader)->swapped;
	uint64_t end = ev->offset + ev->raw.len;

	if (ev->type == AUX_RECORD_AUXTRACE) {
		uint64_t size = get_u64(ev->raw.data + 8, swapped);
		uint64_t there = ev->auxtrace.payload.len;

		if (ev->auxtrace.clipped && !ev->auxtrace.zstd_size) {
			there &= ~UINT64_C(7);
			j->r->missing = size - there;
			size = there;
		}
		j->r->n_auxtrace++;
		j->r->aux_bytes += there;
		end += size;
	}
	/* what was compressed lies in a record that came before */
	if (end > j->end && end <= aux_reader_info(j->reader)->size)
		j->end = end;
}

/* Only zeros from a byte on: a hole that was never written. */
static bool is_zero(const struct job *j, uint64_t at)
{
	uint8_t buf[64 << 10];
	ssize_t n;

	while ((n = pread(j->fd, buf, sizeof(buf), (off_t)at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (buf[i])
				return false;
		at += (uint64_t)n;
	}
	return n == 0;
}

static int scan(struct job *j, struct aux_diag *diag)
{
	const struct aux_file_info *info = aux_reader_info(j->reader);
	struct aux_diag why = { 0 };
	struct aux_event ev;
	int rc;

	j->end = info->data_offset;
	while ((rc = aux_reader_next(j->reader, &ev, &why)) > 0) {
		j->r->n_records += ev.type != AUX_RECORD_COMPRESSED &&
				   ev.type != AUX_RECORD_COMPRESSED2;
		take_place(j, &ev);
		if (rewrite_found_take(&j->found, j->reader, &ev) < 0)
			return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
					"out of memory");
	}
	if (info->unfinished || info->data_offset + info->data_size <= j->end)
		j->r->cut = info->size > j->end ? info->size - j->end : 0;
	if (rc == -AUX_E_FORMAT && !is_zero(j, j->end))
		return diag_set(diag, AUX_E_FORMAT, why.offset,
				"%s; this is damage, not an early end",
				why.text);
	return 0;
}

static int write_file(struct job *j, struct aux_diag *diag)
{
	const char *out = j->o->output ? j->o->output : j->path;
	const struct rewrite_filter f = { .keep = NULL };
	struct rewrite *w;
	int rc;

	j->r->writing = true;
	rc = rewrite_open(&w, out, j->o->output ? j->path : NULL,
			  aux_reader_info(j->reader)->swapped, diag);
	if (rc < 0)
		return rc;
	rewrite_attrs_of(w, j->reader);
	if (rewrite_copy(w, j->reader, &f) == 0)
		rewrite_found_set(&j->found, w);
	return rewrite_close(w, diag);
}

static int repair(struct job *j, struct aux_diag *diag)
{
	int rc = open_file(j, diag);

	if (rc < 0)
		return rc;
	if (aux_reader_info(j->reader)->pipe)
		return diag_set(diag, AUX_E_UNSUPPORTED, 0,
				"it is in pipe format: there is nothing to "
				"repair, perf and auxdecode read it to its "
				"last record");
	j->found.swap = aux_reader_info(j->reader)->swapped;
	rc = scan(j, diag);
	if (rc < 0)
		return rc;
	j->r->complete = is_complete(j);
	if (j->r->complete)
		return 0;
	if (!j->r->n_records)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"not one record reached the file: there is "
				"nothing to repair");
	return j->o->dry_run ? 0 : write_file(j, diag);
}

int rewrite_repair(const char *path, const struct repair_options *o,
		   struct repair_result *r, struct aux_diag *diag)
{
	struct job j = { .path = path, .o = o, .r = r, .fd = -1 };
	int rc;

	*r = (struct repair_result){ 0 };
	rc = repair(&j, diag);
	rewrite_found_fini(&j.found);
	aux_reader_close(j.reader);
	if (j.fd >= 0)
		close(j.fd);
	return rc;
}
