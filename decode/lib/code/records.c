/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: what the recording says of files: build ids, logs of JIT compilers,
 * and files that it contains itself.
 *
 * A JIT compiler that logs maps its log executable for a moment: that MMAP
 * record is how perf learns where the log is. The mapping may be gone when the
 * code runs, so the records are searched, not the timeline.
 *
 * Specification: struct perf_record_header_build_id in
 * tools/lib/perf/include/perf/event.h of Linux; jitdump-specification.txt for
 * the mapping; <aux/extension.h> for own files.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/jitname.h"

#include "decode/lib/code/impl.h"

#define BUILD_ID_MISC_SIZE (1 << 15) /* PERF_RECORD_MISC_BUILD_ID_SIZE */
#define MAX_OWN_FILE ((uint64_t)1 << 30)
#define MAX_FILES    4096 /* logs, and own files: searches are linear */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct known_id *)a)->path,
		      ((const struct known_id *)b)->path);
}

/*
 * The feature section: records with their own header of 36 bytes before the
 * path. Older versions of perf did not record the size of an id; it is 20 then.
 */
static int read_build_ids(struct codeview *cv, struct aux_reader *r)
{
	struct aux_bytes s;
	struct cursor c;
	size_t cap = 0;

	if (aux_reader_feature(r, AUX_FEAT_BUILD_ID, &s, NULL) <= 0)
		return 0;
	c = cursor_init(s.data, s.len, aux_reader_info(r)->swapped);
	while (cursor_left(&c) > 36) {
		struct known_id k = { 0 };
		const uint8_t *id;
		uint16_t misc, size;

		cursor_u32(&c);
		misc = cursor_u16(&c);
		size = cursor_u16(&c);
		if (size <= 36)
			break;
		cursor_u32(&c);
		id = cursor_bytes(&c, 24);
		k.path = cursor_string(&c, size - 36u);
		if (!id || !k.path)
			break;
		memcpy(k.id.bytes, id, sizeof(k.id.bytes));
		k.id.size = misc & BUILD_ID_MISC_SIZE && id[20] <= 20 ? id[20] :
									20;
		if (array_grow(&cv->ids, cv->n_ids, &cap, sizeof(k)))
			return -AUX_E_NOMEM;
		cv->ids[cv->n_ids++] = k;
	}
	if (cv->n_ids)
		qsort(cv->ids, cv->n_ids, sizeof(*cv->ids), by_path);
	return 0;
}

/* The same log may be mapped several times. */
static int add_marker(struct codeview *cv, const struct aux_event *ev)
{
	if (!ev->mmap.path || !jitname_is_dump(ev->mmap.path) ||
	    cv->n_markers == MAX_FILES)
		return 0;
	for (size_t i = 0; i < cv->n_markers; i++) {
		if (cv->markers[i].pid == ev->mmap.pid &&
		    !strcmp(cv->markers[i].path, ev->mmap.path))
			return 0;
	}
	if (array_grow(&cv->markers, cv->n_markers, &cv->cap_markers,
		  sizeof(*cv->markers)))
		return -AUX_E_NOMEM;
	cv->markers[cv->n_markers++] = (struct jit_marker){ ev->mmap.pid,
							    ev->mmap.path };
	return 0;
}

/* Threads (pid equal) do not count. ppid -1: pid has run exec. */
static int add_fork(struct codeview *cv, uint32_t pid, uint32_t ppid)
{
	if (pid == ppid)
		return 0;
	if (array_grow(&cv->forks, cv->n_forks, &cv->cap_forks,
		       sizeof(*cv->forks)))
		return -AUX_E_NOMEM;
	cv->forks[cv->n_forks++] = (struct fork){ pid, ppid };
	return 0;
}

/* The file that a part belongs to; NULL: out of memory, or too many files. */
static struct own_file *find_own(struct codeview *cv, const char *path,
				 uint32_t path_len, uint32_t pid)
{
	struct own_file *f;

	for (size_t i = 0; i < cv->n_own; i++) {
		f = &cv->own[i];
		if (f->pid == pid && f->path_len == path_len &&
		    !memcmp(f->path, path, path_len))
			return f;
	}
	if (cv->n_own == MAX_FILES ||
	    array_grow(&cv->own, cv->n_own, &cv->cap_own, sizeof(*f)))
		return NULL;
	f = &cv->own[cv->n_own++];
	*f = (struct own_file){ .path = path, .path_len = path_len, .pid = pid };
	return f;
}

/* Appends a part of a file. Offset 0 starts it anew. */
static int add_own(struct codeview *cv, const struct aux_event *ev,
		   bool swapped)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len, swapped);
	uint64_t offset = cursor_u64(&c), total = cursor_u64(&c), len;
	struct own_file *f;
	uint32_t path_len, pid;
	const uint8_t *path;
	uint8_t *p;

	path_len = cursor_u32(&c);
	pid = cursor_u32(&c);
	path = cursor_bytes(&c, path_len);
	if (!path)
		return 0;
	f = find_own(cv, (const char *)path, path_len, pid);
	if (!f)
		return cv->n_own == MAX_FILES ? 0 : -AUX_E_NOMEM;
	if (!offset)
		f->len = 0;
	len = cursor_left(&c);
	/* After a missing part the rest cannot be used. */
	if (offset != f->len || !len || len > MAX_OWN_FILE - offset)
		return 0;
	p = realloc(f->bytes, offset + len);
	if (!p)
		return -AUX_E_NOMEM;
	memcpy(p + offset, c.p, len);
	f->bytes = p;
	f->len = offset + len;
	f->total = total;
	return 0;
}

static int handle_record(struct codeview *cv, const struct aux_event *ev,
		       bool swapped)
{
	switch (ev->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return add_marker(cv, ev);
	case PERF_RECORD_FORK:
		return add_fork(cv, ev->task.pid, ev->task.ppid);
	case PERF_RECORD_COMM:
		return ev->comm.exec ? add_fork(cv, ev->comm.pid, UINT32_MAX) :
				       0;
	case AUX_RECORD_EVENT_TYPE:
		return ev->own.kind == AUX_OWN_FILE ?
			       add_own(cv, ev, swapped) : 0;
	default:
		return 0;
	}
}

/* Whether perf times are CLOCK_MONOTONIC, as in jitdump files (perf record -k
 * mono). A virtual clock matches none. */
static void find_clock(struct codeview *cv, const struct aux_reader *r)
{
	const char *clock = aux_reader_source(r, "clock");
	const struct aux_attr *a;

	cv->virtual_clock = clock && !strcmp(clock, "virtual");
	for (size_t i = 0; (a = aux_reader_attr(r, i)); i++) {
		if (a->attr.use_clockid && a->attr.clockid == CLOCK_MONOTONIC)
			cv->jit_clock = true;
	}
}

int codeview_read_records(struct codeview *cv, struct aux_reader *r)
{
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;
	int rc = read_build_ids(cv, r);

	aux_reader_rewind(r);
	while (!rc && aux_reader_next(r, &ev, NULL) > 0)
		rc = handle_record(cv, &ev, swapped);
	aux_reader_rewind(r);
	find_clock(cv, r);
	return rc;
}

const struct own_file *codeview_own(const struct codeview *cv, const char *path,
				    uint32_t pid)
{
	const struct own_file *any = NULL;
	size_t len = strlen(path);

	for (size_t i = 0; i < cv->n_own; i++) {
		const struct own_file *f = &cv->own[i];

		if (!f->len || f->path_len != len ||
		    memcmp(f->path, path, len) != 0)
			continue;
		if (f->pid == pid)
			return f;
		any = any ? any : f;
	}
	return any;
}

const struct own_file *codeview_own_kernel(const struct codeview *cv,
					   const char *end)
{
	size_t len = strlen(end);

	for (size_t i = 0; i < cv->n_own; i++) {
		const struct own_file *f = &cv->own[i];

		if (f->len && f->pid == UINT32_MAX && f->path_len >= len &&
		    !memcmp(f->path + f->path_len - len, end, len))
			return f;
	}
	return NULL;
}
