/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair: one walk over the records of a file that may end anywhere, which
 * finds where they end and what the missing sections need; then the file is
 * completed in place or written anew.
 *
 * Framing and decompression are the reader's. An early end is: the end of the
 * file inside a record, or zeros where a record should begin. Zeros are what a
 * file system gives for a place that was never written: threads write at places
 * handed out before, so a killed recorder can leave holes, and a crashed
 * machine too. All else that is no record is damage, and is left to people.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"

#include "perfdata/impl.h"
#include "perfdata/perfdata.h"
#include "perfdata/repair.h"

#define SWAPPED_MAGIC 0x50455246494c4532ULL
#define MIN_ATTR 64	/* PERF_ATTR_SIZE_VER0 */
#define MAX_TYPE 1024	/* beyond any record there is or will soon be */
#define MISC_BUILD_ID_SIZE (1 << 15)
#define MAX_SECTION (64 << 20)
/* perf makes buffers of this size for decompression; of a killed `perf record
 * -z` it is not known, so it is larger than any of its buffers. */
#define COMP_MMAP_LEN (8 << 20)

/* What the records say for the sections. */
struct found {
	bool swap;
	uint64_t first_ns, last_ns;	/* 0: no record has a time */
	struct build_id_set build_ids;
	struct rewrite_bytes features[AUX_FEAT_PERF_LAST + 1];
	struct rewrite_bytes pieces;	/* of the section in hand, as they come */
	uint64_t pieces_total;
	bool oom;
};

struct job {
	const char *path;
	const struct repair_options *o;
	struct repair_result *r;
	int fd;			/* locked, so that no recorder is at work */
	struct aux_reader *reader;
	uint64_t end;		/* after the last whole record */
	struct found found;

	/* REPAIR_APPEND only */
	struct aux_file_header h;
	struct aux_auxtrace_index_entry *index;
	size_t n_index, cap_index;
	uint64_t clip;		/* of the last record's trace, what is there; or 0 */
	uint64_t clip_at;	/* where that record begins */
	bool marked;		/* an earlier repair recorded the loss at the end */
	bool compressed;	/* there are COMPRESSED records */
};

static int fail_errno(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", what,
			strerror(errno));
}

/* The same of the file that is written. */
static int fail_write(struct aux_diag *diag, const char *path, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s: %s", path, what,
			strerror(errno));
}

static int fail_nomem(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

/* ---- what the sections need ---- */

static void find_time(struct found *f, const struct aux_event *ev)
{
	/* time 0: made up by the recorder, for what was there before */
	if (!(ev->id.present & PERF_SAMPLE_TIME) || !ev->id.time)
		return;
	if (!f->first_ns || ev->id.time < f->first_ns)
		f->first_ns = ev->id.time;
	if (ev->id.time > f->last_ns)
		f->last_ns = ev->id.time;
}

static void find_map(struct found *f, const struct aux_event *ev)
{
	const char *path = ev->mmap.path;

	if (!ev->mmap.build_id_size || !path || !*path)
		return;
	f->oom |= build_id_set_add(&f->build_ids, ev->mmap.pid, ev->misc, path,
				   ev->mmap.build_id,
				   ev->mmap.build_id_size) < 0;
}

/* BUILD_ID: u32 pid, the id in 24 bytes, of which the 21st is its size,
 * path. */
static void find_build_id(struct found *f, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->raw.data, ev->raw.len, f->swap);
	const uint8_t *id;
	const char *path;
	uint8_t size = BUILDID_MAX;
	uint32_t pid;

	cursor_bytes(&c, sizeof(struct perf_event_header));
	pid = cursor_u32(&c);
	id = cursor_bytes(&c, 24);
	path = cursor_string(&c, cursor_left(&c));
	if (!path)
		return;
	if (ev->misc & MISC_BUILD_ID_SIZE && id[20] && id[20] <= BUILDID_MAX)
		size = id[20];
	f->oom |= build_id_set_add(&f->build_ids, pid, ev->misc, path, id,
				   size) < 0;
}

/* HEADER_FEATURE: u64 bit, then what the section would hold. */
static void find_feature(struct found *f, const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->raw.data, ev->raw.len, f->swap);
	uint64_t bit;

	cursor_bytes(&c, sizeof(struct perf_event_header));
	bit = cursor_u64(&c);
	/* what the walk finds itself is better */
	if (c.bad || !cursor_left(&c) || bit <= AUX_FEAT_BUILD_ID ||
	    bit > AUX_FEAT_PERF_LAST || bit == AUX_FEAT_AUXTRACE ||
	    bit == AUX_FEAT_SAMPLE_TIME)
		return;
	f->features[bit].len = 0;
	rewrite_bytes_put(&f->features[bit], c.p, cursor_left(&c));
	f->oom |= f->features[bit].oom;
}

/* Parts of a section that no record of perf's can hold, in order. */
static void find_piece(struct found *f, const struct aux_event *ev)
{
	const struct aux_bytes *b = &ev->own.payload;
	struct cursor c = cursor_init(b->data, b->len, f->swap);
	uint64_t offset, total;
	uint32_t bit;

	bit = cursor_u32(&c);
	cursor_u32(&c);
	offset = cursor_u64(&c);
	total = cursor_u64(&c);
	if (c.bad)
		return;
	if (!offset)
		f->pieces.len = 0;
	if (bit != AUX_FEAT_TRACING_DATA || offset != f->pieces.len ||
	    total > MAX_SECTION || cursor_left(&c) > total - offset)
		return;
	rewrite_bytes_put(&f->pieces, c.p, cursor_left(&c));
	f->oom |= f->pieces.oom;
	f->pieces_total = total;
}

static void find_in(struct found *f, const struct aux_event *ev)
{
	find_time(f, ev);
	switch (ev->type) {
	case PERF_RECORD_MMAP2:
		find_map(f, ev);
		break;
	case AUX_RECORD_BUILD_ID:
		find_build_id(f, ev);
		break;
	case AUX_RECORD_HEADER_FEATURE:
		find_feature(f, ev);
		break;
	case AUX_RECORD_EVENT_TYPE:
		if (ev->own.kind == AUX_OWN_PIECE)
			find_piece(f, ev);
		break;
	}
}

static void found_fini(struct found *f)
{
	build_id_set_fini(&f->build_ids);
	for (size_t i = 0; i <= AUX_FEAT_PERF_LAST; i++)
		free(f->features[i].data);
	free(f->pieces.data);
}

/* ---- the walk ---- */

static bool is_compressed(const struct aux_event *ev)
{
	return ev->type == AUX_RECORD_COMPRESSED ||
	       ev->type == AUX_RECORD_COMPRESSED2;
}

/* It stands in the file itself, not in a compressed record. */
static bool is_framed(const struct job *j, const struct aux_event *ev)
{
	return ev->raw.data == j->reader->file.data + ev->offset;
}

/* In place, what follows damage would be cut off: so it is looked for more
 * strictly than a reader does, which may not know all types. */
static bool is_record(const struct job *j, const struct aux_event *ev)
{
	if (j->o->way == REPAIR_REWRITE || !is_framed(j, ev))
		return true;
	if (ev->type == AUX_RECORD_AUXTRACE)	/* with compressed trace too */
		return ev->raw.len >= sizeof(struct perf_event_header) +
				      sizeof(struct aux_rec_auxtrace);
	return ev->type && ev->type <= MAX_TYPE;
}

/* The mark of an earlier repair that could not be completed. */
static bool is_mark(const struct aux_event *ev)
{
	return ev->type == AUX_RECORD_EVENT_TYPE &&
	       ev->own.kind == AUX_OWN_LOSS &&
	       ev->own.loss.idx == UINT32_MAX &&
	       ev->own.loss.cause == AUX_LEDGER_UNREAD;
}

/* Bytes of trace as they stand in the file, as far as they are there. */
static uint64_t payload_there(struct job *j, const struct aux_event *ev,
			      uint64_t size)
{
	uint64_t there = j->reader->file.len - ev->offset - ev->raw.len;

	return size < there ? size : there;
}

/*
 * An AUXTRACE record; the trace of the last one may be cut. 1: it counts, 0:
 * the file ends before it.
 */
static int take_auxtrace(struct job *j, const struct aux_event *ev)
{
	struct cursor c = reader_cursor(j->reader, ev->raw.data, ev->raw.len);
	bool append = j->o->way == REPAIR_APPEND;
	uint64_t size, there;

	cursor_u64(&c);
	size = cursor_u64(&c);
	there = payload_there(j, ev, size);
	if (there == size) {
		j->end = j->reader->pos;
	} else {
		if (append && (ev->auxtrace.zstd_size || there < 8))
			return 0;	/* half a frame is of no use */
		if (!ev->auxtrace.zstd_size) {
			j->clip_at = ev->offset;
			j->clip = there & ~UINT64_C(7);
			j->r->missing = size - j->clip;
			j->end = ev->offset + ev->raw.len + j->clip;
			size = j->clip;
		}
	}
	j->r->n_auxtrace++;
	j->r->aux_bytes += !append && ev->auxtrace.zstd_size ?
				   ev->auxtrace.payload.len : size;
	if (!append)
		return 1;
	if (array_grow(&j->index, j->n_index, &j->cap_index, sizeof(*j->index)))
		j->found.oom = true;
	else
		j->index[j->n_index++] = (struct aux_auxtrace_index_entry){
			ev->offset, ev->raw.len,
		};
	return 1;
}

/* 1: go on, 0: the records end before this one. */
static int take_record(struct job *j, const struct aux_event *ev)
{
	if (ev->type != AUX_RECORD_AUXTRACE)
		j->end = j->reader->pos;
	else if (!take_auxtrace(j, ev))
		return 0;
	if (is_framed(j, ev))
		j->marked = is_mark(ev);
	j->compressed |= is_compressed(ev);
	/* what is in it is counted, unless it stays closed */
	if (!is_compressed(ev) || j->reader->inflate.broken.code)
		j->r->n_records++;
	find_in(&j->found, ev);
	return 1;
}

/* Eight zeros where a record should begin, or the end of the file. */
static bool is_hole(const struct job *j)
{
	static const uint8_t zeros[8];
	const struct backing *f = &j->reader->file;

	return f->len - j->end < sizeof(zeros) ||
	       !memcmp(f->data + j->end, zeros, sizeof(zeros));
}

static int fail_damage(const struct job *j, const struct aux_diag *why,
		       struct aux_diag *diag)
{
	if (j->o->way == REPAIR_REWRITE)
		return diag_set(diag, AUX_E_FORMAT, why->offset,
				"%s; this is damage, not an early end",
				why->text);
	return diag_set(diag, AUX_E_FORMAT, j->end,
			"what stands at byte %llu is no record: this is "
			"damage, not an early end",
			(unsigned long long)j->end);
}

static int scan(struct job *j, struct aux_diag *diag)
{
	const struct aux_file_info *info = aux_reader_info(j->reader);
	struct aux_diag why = { 0 };
	struct aux_event ev;
	int rc;

	if (j->o->way == REPAIR_APPEND)
		reader_salvage(j->reader);
	j->end = info->data_offset;
	j->found.swap = info->swapped;
	while ((rc = aux_reader_next(j->reader, &ev, &why)) > 0) {
		if (!is_record(j, &ev))
			return fail_damage(j, &why, diag);
		if (!take_record(j, &ev))
			break;
	}
	if (j->found.oom)
		return fail_nomem(diag);
	if (rc == -AUX_E_FORMAT && !is_hole(j))
		return fail_damage(j, &why, diag);
	if (rc == -AUX_E_NOMEM || rc == -AUX_E_IO || rc == -AUX_E_UNSUPPORTED) {
		*diag = why;	/* it ends for us, not for everyone */
		return rc;
	}
	j->r->data_size = j->end - info->data_offset;
	if (info->unfinished || info->data_offset + info->data_size <= j->end)
		j->r->cut = info->size - j->end;
	return 0;
}

/* The header says how far the data reach, and all that it announces is
 * there. */
static bool is_complete(const struct aux_reader *r)
{
	struct aux_bytes b;

	/* the last thing that a writer does is to set these bits */
	if (r->info.unfinished || r->first.cut || !r->has_features)
		return false;
	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++)
		if (aux_reader_feature(r, bit, &b, NULL) < 0)
			return false;
	return true;
}

/* ---- the file is completed in place ---- */

static bool inside(uint64_t file_size, struct aux_file_section sec)
{
	return sec.offset <= file_size && sec.size <= file_size - sec.offset;
}

static int fail_format(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_FORMAT, 0, "%s", what);
}

/* Only what a new header can be made of. */
static int read_header(struct job *j, uint64_t file_size, struct aux_diag *diag)
{
	struct aux_file_header *h = &j->h;
	ssize_t n = pread(j->fd, h, sizeof(*h), 0);

	if (n < 0)
		return fail_errno(diag, "cannot read");
	if (n < 16 || (h->magic != AUX_PERF_MAGIC2 &&
		       h->magic != SWAPPED_MAGIC))
		return fail_format(diag, "not a perf.data file, or it was "
				   "killed before its header was written");
	if (h->magic == SWAPPED_MAGIC)
		return diag_set(diag, AUX_E_UNSUPPORTED, 0,
				"it was written on a machine of the other byte "
				"order: repair it there");
	if (h->size == 16)
		return 0;	/* the reader says that it is a pipe's */
	if (n < (ssize_t)sizeof(*h) || h->size != sizeof(*h))
		return fail_format(diag, "a header of unknown size");
	if (h->attr_size < MIN_ATTR + sizeof(struct aux_file_section) ||
	    h->attr_size > 4096 || !h->attrs.size ||
	    h->attrs.size % h->attr_size || !inside(file_size, h->attrs))
		return fail_format(diag, "its events are not in the file");
	if (h->data.offset < sizeof(*h) || h->data.offset > file_size ||
	    h->data.offset < h->attrs.offset + h->attrs.size)
		return fail_format(diag, "no data");
	return 0;
}

/* The whole records as they are, for an output of its own. */
static int copy_records(const struct job *j, struct aux_diag *diag)
{
	const char *to = j->o->output;
	int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char buf[64 << 10];
	uint64_t at = 0;

	if (fd < 0)
		return fail_write(diag, to, "cannot create");
	while (at < j->end) {
		uint64_t left = j->end - at;
		ssize_t n = pread(j->fd, buf, left < sizeof(buf) ? left :
				  sizeof(buf), (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || pwrite(fd, buf, (size_t)n, (off_t)at) != n) {
			fail_write(diag, to, "cannot copy");
			close(fd);
			unlink(to);
			return -AUX_E_IO;
		}
		at += (uint64_t)n;
	}
	return fd;
}

/* What was found becomes the writer's, to write it as sections. */
static void hand_over(struct job *j, struct writer *w)
{
	/* version, type (zstd), level, ratio, size of perf's buffer */
	static const uint32_t comp[5] = { 1, 1, 1, 1, COMP_MMAP_LEN };
	struct found *f = &j->found;

	for (unsigned bit = 0; bit <= AUX_FEAT_PERF_LAST; bit++)
		if (f->features[bit].len)
			writer_feature(w, bit, f->features[bit].data,
				       f->features[bit].len);
	if (f->pieces.len && f->pieces.len == f->pieces_total)
		writer_feature(w, AUX_FEAT_TRACING_DATA, f->pieces.data,
			       f->pieces.len);
	/* without this feature perf reads no compressed records */
	if (j->compressed && !f->features[AUX_FEAT_COMPRESSED].len)
		writer_feature(w, AUX_FEAT_COMPRESSED, comp, sizeof(comp));
	if (f->last_ns) {
		writer_time(w, f->first_ns);
		writer_time(w, f->last_ns);
	}
	w->build_ids = f->build_ids;
	f->build_ids = (struct build_id_set){ 0 };
	for (size_t i = 0; i < j->n_index; i++)
		writer_resume_chunk(w, j->index[i].file_offset,
				    (uint16_t)j->index[i].size);
}

/* From here on the file is changed. */
static int append(struct job *j, struct aux_diag *diag)
{
	const struct repair_options *o = j->o;
	const char *to = o->output ? o->output : j->path;
	struct aux_own_loss loss = {
		.idx = UINT32_MAX, .cause = AUX_LEDGER_UNREAD,
		.offset = UINT64_MAX, .first_ns = j->found.last_ns,
		.cpu = UINT32_MAX, .tid = UINT32_MAX,
	};
	struct writer *w;
	int fd, ret;

	j->r->writing = true;
	fd = o->output ? copy_records(j, diag) :
			 fcntl(j->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return o->output ? -AUX_E_IO :
				   fail_write(diag, to, "no descriptor");
	if (j->clip && pwrite(fd, &j->clip, sizeof(j->clip),
			      (off_t)j->clip_at + 8) != sizeof(j->clip)) {
		close(fd);
		return fail_write(diag, to, "cannot write");
	}
	ret = writer_resume(&w, to, fd, &j->h, diag);
	if (ret) {
		close(fd);
		return ret;
	}
	hand_over(j, w);
	ret = writer_resume_commit(w, j->end, j->marked ? NULL : &loss, diag);
	if (!o->output)
		fsync(j->fd);	/* it was in danger once already */
	return ret;
}

/* ---- the file is written anew ---- */

static void set(struct rewrite *w, unsigned bit, const void *data, size_t len)
{
	if (len && !rewrite_has_feature(w, bit))
		rewrite_feature(w, bit, data, len);
}

/* Sections that the file has are better than what was found. */
static void set_found(const struct found *f, struct rewrite *w,
		      struct rewrite_bytes *build_ids,
		      struct rewrite_bytes *times)
{
	for (unsigned bit = 0; bit <= AUX_FEAT_PERF_LAST; bit++)
		if (bit != AUX_FEAT_COMPRESSED)	/* nothing is, any more */
			set(w, bit, f->features[bit].data, f->features[bit].len);
	build_id_set_put(&f->build_ids, build_ids);
	set(w, AUX_FEAT_BUILD_ID, build_ids->data, build_ids->len);
	if (f->pieces.len == f->pieces_total)
		set(w, AUX_FEAT_TRACING_DATA, f->pieces.data, f->pieces.len);
	rewrite_bytes_u64(times, f->first_ns);
	rewrite_bytes_u64(times, f->last_ns);
	if (f->last_ns)
		set(w, AUX_FEAT_SAMPLE_TIME, times->data, times->len);
	if (build_ids->oom || times->oom)
		rewrite_fail(w, AUX_E_NOMEM, "out of memory");
}

static int rewrite_all(struct job *j, struct aux_diag *diag)
{
	const char *out = j->o->output ? j->o->output : j->path;
	const struct rewrite_filter f = { .keep = NULL };
	struct rewrite_bytes build_ids = { .swap = j->found.swap };
	struct rewrite_bytes times = { .swap = j->found.swap };
	struct rewrite *w;
	int rc;

	j->r->writing = true;
	rc = rewrite_open(&w, out, j->o->output ? j->path : NULL, j->found.swap,
			  diag);
	if (rc < 0)
		return rc;
	rewrite_attrs_of(w, j->reader);
	if (rewrite_copy(w, j->reader, &f) == 0)
		set_found(&j->found, w, &build_ids, &times);
	rc = rewrite_close(w, diag);
	free(build_ids.data);
	free(times.data);
	return rc;
}

/* ---- both ---- */

static int open_file(struct job *j, struct aux_diag *diag)
{
	bool write = j->o->way == REPAIR_APPEND && !j->o->dry_run &&
		     !j->o->output;
	struct stat st;
	int rc;

	j->fd = open(j->path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC |
		     O_NOCTTY | O_NONBLOCK);
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
	if (j->o->way == REPAIR_APPEND) {
		rc = read_header(j, (uint64_t)st.st_size, diag);
		if (rc)
			return rc;
		j->r->declared = j->h.data.size;
	}
	return reader_open_fd(&j->reader, j->fd, j->path, diag);
}

static int repair(struct job *j, struct aux_diag *diag)
{
	const struct aux_file_info *info;
	uint64_t data_end;
	bool complete;
	int rc = open_file(j, diag);

	if (rc < 0)
		return rc;
	info = aux_reader_info(j->reader);
	if (info->pipe)
		return diag_set(diag, AUX_E_UNSUPPORTED, 0,
				"it is in pipe format: there is nothing to "
				"repair, perf and auxdecode read it to its "
				"last record");
	complete = is_complete(j->reader);
	data_end = info->data_offset + info->data_size;
	/* in place nothing is lost by trusting the header */
	if (!complete || j->o->way == REPAIR_REWRITE)
		rc = scan(j, diag);
	if (rc < 0)
		return rc;
	if (j->o->way == REPAIR_REWRITE)
		complete &= j->end == data_end;
	j->r->complete = complete;
	if (complete)
		return 0;
	if (!j->r->n_records)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"not one record reached the file: there is "
				"nothing to repair");
	if (j->o->dry_run)
		return 0;
	return j->o->way == REPAIR_APPEND ? append(j, diag) :
					    rewrite_all(j, diag);
}

int repair_file(const char *path, const struct repair_options *o,
		struct repair_result *r, struct aux_diag *diag)
{
	struct job j = { .path = path, .o = o, .r = r, .fd = -1 };
	struct aux_diag own = { 0 };
	int rc;

	*r = (struct repair_result){ 0 };
	rc = repair(&j, &own);
	found_fini(&j.found);
	free(j.index);
	aux_reader_close(j.reader);
	if (j.fd >= 0)
		close(j.fd);
	if (rc && diag)
		*diag = own;
	return rc;
}

void repair_text(char *buf, size_t len, const struct repair_result *r,
		 bool dry_run)
{
	char cut[64] = "", missing[64] = "";

	if (r->missing)
		snprintf(missing, sizeof(missing), " (%" PRIu64 " more were "
			 "on their way)", r->missing);
	if (r->cut)
		snprintf(cut, sizeof(cut), ", %" PRIu64 " byte%s of a cut record "
			 "left out", r->cut, r->cut == 1 ? "" : "s");
	snprintf(buf, len,
		 "%s: %" PRIu64 " record%s, %" PRIu64 " byte%s of trace%s%s",
		 dry_run ? "unfinished, can be repaired" : "repaired",
		 r->n_records, r->n_records == 1 ? "" : "s", r->aux_bytes,
		 r->aux_bytes == 1 ? "" : "s", missing, cut);
}
