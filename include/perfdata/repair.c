/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair: opens the file, decides whether there is anything to do, and has a
 * resumed writer complete it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/diag.h"

#include "perfdata/repair_scan.h"

#define SWAPPED_MAGIC 0x50455246494c4532ULL
#define MIN_ATTR 64

static int fail_errno(struct aux_diag *diag, const char *path, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s: %s", path, what,
			strerror(errno));
}

static int open_file(struct repair_scan *s, bool write, struct aux_diag *diag)
{
	struct stat st;

	s->fd = open(s->path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC |
		     O_NOCTTY | O_NONBLOCK);
	if (s->fd < 0)
		return fail_errno(diag, s->path, "cannot open");
	if (fstat(s->fd, &st))
		return fail_errno(diag, s->path, "cannot look at it");
	if (!S_ISREG(st.st_mode))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s is not a regular file", s->path);
	if (flock(s->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s is being written by a running auxcap: stop "
				"it first", s->path);
	s->file_size = (uint64_t)st.st_size;
	return 0;
}

static bool inside(uint64_t file_size, struct aux_file_section sec)
{
	return sec.offset <= file_size && sec.size <= file_size - sec.offset;
}

static int fail_format(const struct repair_scan *s, struct aux_diag *diag,
		       const char *what)
{
	return diag_set(diag, AUX_E_FORMAT, 0, "%s: %s", s->path, what);
}

static int read_header(struct repair_scan *s, struct aux_diag *diag)
{
	struct aux_file_header *h = &s->h;
	ssize_t n = pread(s->fd, h, sizeof(*h), 0);

	if (n < 0)
		return fail_errno(diag, s->path, "cannot read");
	if (n < 16 || (h->magic != AUX_PERF_MAGIC2 &&
		       h->magic != SWAPPED_MAGIC))
		return fail_format(s, diag, "not a perf.data file, or it was "
				   "killed before its header was written");
	if (h->magic == SWAPPED_MAGIC)
		return diag_set(diag, AUX_E_UNSUPPORTED, 0,
				"%s was written on a machine of the other byte "
				"order: repair it there", s->path);
	if (h->size == 16)
		return diag_set(diag, AUX_E_UNSUPPORTED, 0,
				"%s is in pipe format: there is nothing to "
				"repair, perf and auxdecode read it to its "
				"last record", s->path);
	if (n < (ssize_t)sizeof(*h) || h->size != sizeof(*h))
		return fail_format(s, diag, "a header of unknown size");
	if (h->attr_size < MIN_ATTR + sizeof(struct aux_file_section) ||
	    h->attr_size > 4096 || !h->attrs.size ||
	    h->attrs.size % h->attr_size || !inside(s->file_size, h->attrs))
		return fail_format(s, diag, "its events are not in the file");
	if (h->data.offset < sizeof(*h) || h->data.offset > s->file_size ||
	    h->data.offset < h->attrs.offset + h->attrs.size)
		return fail_format(s, diag, "no data");
	return 0;
}

/* Its writer came to the end, and all that it wrote is here. */
static bool is_complete(const struct repair_scan *s)
{
	const struct aux_file_header *h = &s->h;
	struct aux_file_section sec;
	uint64_t at = h->data.offset + h->data.size;
	unsigned i, n = 0;

	if (!h->data.size || !inside(s->file_size, h->data))
		return false;
	for (i = 0; i < 4; i++)
		n += (unsigned)__builtin_popcountll(h->features[i]);
	for (i = 0; i < n; i++, at += sizeof(sec))
		if (pread(s->fd, &sec, sizeof(sec), (off_t)at) !=
			    sizeof(sec) || !inside(s->file_size, sec))
			return false;
	return n > 0;
}

/* The whole file as it is, for --output. */
static int copy_file(const struct repair_scan *s, const char *to,
		     struct aux_diag *diag)
{
	int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char buf[64 << 10];
	uint64_t at = 0;

	if (fd < 0)
		return fail_errno(diag, to, "cannot create");
	while (at < s->end) {
		uint64_t left = s->end - at;
		ssize_t n = pread(s->fd, buf, left < sizeof(buf) ? left :
				  sizeof(buf), (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || pwrite(fd, buf, (size_t)n, (off_t)at) != n) {
			fail_errno(diag, to, "cannot copy");
			close(fd);
			unlink(to);
			return -AUX_E_IO;
		}
		at += (uint64_t)n;
	}
	return fd;
}

/* From here on the file is changed. Takes s->w. */
static int commit(struct repair_scan *s, const struct repair_options *o,
		  struct aux_diag *diag)
{
	struct aux_own_loss loss = {
		.idx = UINT32_MAX, .cause = AUX_LEDGER_UNREAD,
		.offset = UINT64_MAX, .first_ns = s->last_ns,
		.cpu = UINT32_MAX, .tid = UINT32_MAX,
	};
	struct writer *w = s->w;
	int fd, ret;

	s->w = NULL;
	fd = o->output ? copy_file(s, o->output, diag) :
			 fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		writer_resume_abandon(w);
		return o->output ? -diag->code :
				   fail_errno(diag, s->path, "no descriptor");
	}
	w->fd = fd;
	if (s->clip && pwrite(fd, &s->clip, sizeof(s->clip),
			      (off_t)s->clip_at + 8) != sizeof(s->clip)) {
		writer_resume_abandon(w);
		return fail_errno(diag, s->path, "cannot write");
	}
	ret = writer_resume_commit(w, s->end, s->marked ? NULL : &loss, diag);
	if (!o->output)
		fsync(s->fd);	/* it was in danger once already */
	return ret;
}

static int repair(struct repair_scan *s, const struct repair_options *o,
		  struct aux_diag *diag)
{
	int ret = read_header(s, diag);

	if (ret)
		return ret;
	s->r->declared = s->h.data.size;
	s->r->complete = is_complete(s);
	if (s->r->complete)
		return 0;
	ret = writer_resume(&s->w, o->output ? o->output : s->path, -1, &s->h,
			    diag);
	if (!ret)
		ret = repair_scan(s, diag);
	if (ret)
		return ret;
	if (!s->r->n_records)
		return fail_format(s, diag, "not one record reached the file: "
				   "there is nothing to repair");
	return o->dry_run ? 0 : commit(s, o, diag);
}

int repair_file(const char *path, const struct repair_options *o,
		struct repair_result *r, struct aux_diag *diag)
{
	struct repair_scan s = { .path = path, .fd = -1, .r = r };
	struct aux_diag own = { 0 };
	int ret;

	memset(r, 0, sizeof(*r));
	ret = open_file(&s, !o->dry_run && !o->output, &own);
	if (!ret)
		ret = repair(&s, o, &own);
	writer_resume_abandon(s.w);
	if (s.fd >= 0)
		close(s.fd);
	if (ret && diag)
		*diag = own;
	return ret;
}
