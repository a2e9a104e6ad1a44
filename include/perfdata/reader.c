/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The perf.data reader: open, header, and the record loop.
 *
 * Invariant: after open only the position changes; a pipe's attrs and features
 * are collected by open, in one walk over the record headers. The first error
 * of next stays until rewind.
 *
 * Specification: tools/perf/Documentation/perf.data-file-format.txt and
 * tools/perf/util/{header,session}.c of Linux.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/mapped.h"
#include "perfdata/impl.h"

/*
 * Framing: where each record of the data section begins and ends.
 *
 * Invariant: pos moves past a whole record and its payload or not at all.
 * header.size does not cover the payload of AUXTRACE and TRACING_DATA, and is
 * wrong in a COMPRESSED2 that was too long for its 16 bits (perf 6.16).
 */

#define HEADER 8
#define COMPRESSED2_HEADER 16

bool reader_header(const struct aux_reader *r, const uint8_t *p, size_t len,
		   struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, p, len);

	ev->type = cursor_u32(&c);
	ev->misc = cursor_u16(&c);
	ev->size = cursor_u16(&c);
	if (ev->type >= SIMPLEPERF_FIRST) {
		ev->size |= (uint32_t)ev->misc << 16;
		ev->misc = 0;
	}
	return !c.bad;
}

static int fail_cut(struct aux_reader *r, uint64_t at, const char *what,
		    struct aux_diag *diag)
{
	if (r->seg->at_end)
		return diag_set(diag, AUX_E_TRUNCATED, at,
				"the file ends inside %s: what comes before it "
				"was read", what);
	return diag_set(diag, AUX_E_FORMAT, at,
			"the data section ends inside %s", what);
}

static int end_of_data(struct aux_reader *r, struct aux_diag *diag)
{
	if (!r->seg->cut)
		return 0;
	return diag_set(diag, AUX_E_TRUNCATED, r->seg->end,
			"the file was cut: at least %llu bytes of records are "
			"missing", (unsigned long long)r->seg->cut);
}

/*
 * perf 6.16 stores ALIGN(16 + data_size, 8) in the 16-bit size, and pads only
 * when that did not overflow: then the record is 16 + data_size bytes, whether
 * all of them are in the file or not.
 */
static uint64_t compressed2_size(const struct aux_reader *r, const uint8_t *p,
				 uint64_t left, uint32_t size)
{
	struct cursor c = reader_cursor(r, p, left);
	uint64_t want;

	cursor_bytes(&c, HEADER);
	want = cursor_u64(&c);
	if (c.bad || want > r->file.len || COMPRESSED2_HEADER + want <= size)
		return size;
	want += COMPRESSED2_HEADER;
	return (uint16_t)((want + 7) & ~UINT64_C(7)) == size ? want : size;
}

static bool is_auxtrace(uint32_t type)
{
	return type == AUX_RECORD_AUXTRACE ||
	       type == AUX_RECORD_AUXKIT_AUXTRACE_ZSTD;
}

/* Bytes that follow a record and are not in its size. */
static uint64_t payload_size(const struct aux_reader *r,
			     const struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, ev->raw.data, ev->raw.len);
	uint64_t size;

	cursor_bytes(&c, HEADER);
	if (is_auxtrace(ev->type))
		return cursor_u64(&c);
	if (ev->type != AUX_RECORD_TRACING_DATA)
		return 0;
	size = cursor_u32(&c);
	return (size + 7) & ~UINT64_C(7);
}

/*
 * Steps over the payload. A record whose trace is cut is returned all the same,
 * since what is there can be decoded; the error is what comes next.
 */
static int skip_payload(struct aux_reader *r, struct aux_event *ev,
			struct aux_diag *diag)
{
	uint64_t size = payload_size(r, ev);
	uint64_t left = r->seg->end - r->pos;

	if (size <= left) {
		r->pos += size;
		return 1;
	}
	if (!is_auxtrace(ev->type))
		return fail_cut(r, ev->offset, "tracing data", diag);
	fail_cut(r, ev->offset, "the payload of this AUXTRACE", &r->error);
	r->pos = r->seg->end;
	return 1;
}

/* Where the record at pos is: in the index, if all of it is there, else in the file. What
 * follows tracing data is read with it. */
static const uint8_t *find_bytes(const struct aux_reader *r, uint64_t left)
{
	struct aux_event ev = { 0 };
	uint64_t n = 0;
	const uint8_t *p = r->index ? reader_index_at(r->index, r->pos, &n) : NULL;

	n = n < left ? n : left;
	if (!p || !reader_header(r, p, n, &ev) || ev.type == AUX_RECORD_TRACING_DATA ||
	    ev.size > n ||
	    (ev.type == AUX_RECORD_COMPRESSED2 && compressed2_size(r, p, n, ev.size) > n))
		return r->file.data + r->pos;
	return p;
}

/* The next record at the top level: 1 with type, misc, size, offset and raw
 * filled, 0 at the end of the segment, or an error. */
static int reader_frame(struct aux_reader *r, struct aux_event *ev,
			struct aux_diag *diag)
{
	uint64_t left = r->seg->end - r->pos;
	const uint8_t *p = find_bytes(r, left);
	uint64_t size;

	if (!left) {
		int ret = end_of_data(r, diag);

		if (!ret && r->gather)
			reader_index_end(r);
		return ret;
	}
	if (!reader_header(r, p, left, ev))
		return fail_cut(r, r->pos, "a record's header", diag);
	size = ev->size;
	if (ev->type == AUX_RECORD_COMPRESSED2)
		size = compressed2_size(r, p, left, ev->size);
	if (size < HEADER)
		return diag_set(diag, AUX_E_FORMAT, r->pos,
				"a record of type %u has size %u, less than its "
				"header: what follows cannot be read", ev->type,
				ev->size);
	if (size > left)
		return fail_cut(r, r->pos, "a record", diag);
	ev->offset = r->pos;
	ev->raw = (struct aux_bytes){ p, size };
	r->pos += size;
	if (r->gather)
		reader_index_pass(r, ev->offset, p, size);
	return skip_payload(r, ev, diag);
}

/* ---- the bytes of a file ---- */

/*
 * A regular file is mapped; a pipe is copied to an
 * unlinked temporary file first, and that is mapped, so a stream larger than
 * memory can be read. Also the reader's arena.
 */

#define SPOOL_BUFFER (1 << 20)
#define ARENA_BLOCK 16384

struct arena_block {
	struct arena_block *next;
	size_t used, size;
	uint64_t mem[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_block *b = a->head;
	size_t cap;
	void *p;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + 7) & ~(size_t)7;
	if (!b || size > b->size - b->used) {
		cap = size > ARENA_BLOCK ? size : ARENA_BLOCK;
		b = calloc(1, sizeof(*b) + cap);
		if (!b)
			return NULL;
		b->size = cap;
		b->next = a->head;
		a->head = b;
	}
	p = (uint8_t *)b->mem + b->used;
	b->used += size;
	return p;
}

char *arena_string(struct arena *a, const void *s, size_t len)
{
	char *p = arena_alloc(a, len + 1);

	if (p && len)
		memcpy(p, s, len);
	return p;
}

static void arena_fini(struct arena *a)
{
	struct arena_block *next;

	while (a->head) {
		next = a->head->next;
		free(a->head);
		a->head = next;
	}
}

static int fail_io(struct aux_diag *diag, const char *what)
{
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", what,
			strerror(errno));
}

int spool_open(void)
{
	const char *dir = getenv("TMPDIR");
	int fd = open(dir && *dir ? dir : "/tmp",
		      O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd >= 0 ? fd : memfd_create("auxkit-spool", MFD_CLOEXEC);
}

/* 0, or -1 with errno set. */
static int write_all(int fd, const char *p, size_t n)
{
	ssize_t ret;

	while (n) {
		ret = write(fd, p, n);
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			return -1;
		p += ret;
		n -= (size_t)ret;
	}
	return 0;
}

/* Can it become a perf.data? It is looked at where the first eight bytes are there:
 * what has no end, such as /dev/zero, would fill the disk. */
static bool has_magic(const char head[8])
{
	return !memcmp(head, "PERFILE2", 8) || !memcmp(head, "2ELIFREP", 8) ||
	       !memcmp(head, "PERFFILE", 8);
}

/* Writes n bytes that come at place at. False: no more is wanted. */
static bool spool_piece(int out, char head[8], uint64_t at, const char *p, size_t n,
			int *err)
{
	for (size_t i = 0; i < n && at + i < 8; i++)
		head[at + i] = p[i];
	*err = write_all(out, p, n);
	return !*err && (at + n < 8 || has_magic(head));
}

/* Copies what is left of in to a temporary file; returns its descriptor. */
static int spool(int in, struct aux_diag *diag)
{
	char *buf = malloc(SPOOL_BUFFER), head[8];
	int out = spool_open();
	uint64_t at = 0;
	ssize_t n = 0;
	int err = 0;

	if (!buf || out < 0) {
		err = fail_io(diag, "cannot make a temporary file");
		goto done;
	}
	for (;;) {
		n = read(in, buf, SPOOL_BUFFER);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 ||
		    !spool_piece(out, head, at, buf, (size_t)n, &err))
			break;
		at += (uint64_t)n;
	}
	if (err) {
		err = fail_io(diag, "cannot spool the input (set TMPDIR to a "
				    "larger disk)");
		goto done;
	}
	if (n < 0)
		err = fail_io(diag, "cannot read");
done:
	free(buf);
	if (err && out >= 0)
		close(out);
	return err ? err : out;
}

static int map_fd(struct backing *b, int fd, uint64_t size, const char *name,
		  struct aux_diag *diag)
{
	if (!size)
		return diag_set(diag, AUX_E_FORMAT, 0,
				"the file is empty: not a perf.data file");
	if (size > SIZE_MAX)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"the file is too large for this machine");
	b->map = mapped_open(fd, size, name);
	if (!b->map)
		return fail_io(diag, "cannot map the file");
	b->data = b->map;
	b->len = size;
	b->on_disk = true;
	return 0;
}

static int refuse_dir(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"is a directory, not a perf.data file");
}

static int load_fd(struct backing *b, int fd, const char *name,
		   struct aux_diag *diag)
{
	struct stat st;
	int tmp, ret;

	if (fstat(fd, &st))
		return fail_io(diag, "cannot stat");
	if (S_ISDIR(st.st_mode))
		return refuse_dir(diag);
	if (S_ISREG(st.st_mode) && lseek(fd, 0, SEEK_CUR) == 0)
		return map_fd(b, fd, (uint64_t)st.st_size, name, diag);
	tmp = spool(fd, diag);
	if (tmp < 0)
		return tmp;
	ret = fstat(tmp, &st) ? fail_io(diag, "cannot stat") :
				map_fd(b, tmp, (uint64_t)st.st_size, name, diag);
	close(tmp);
	return ret;
}

static int backing_open(struct backing *b, const char *path,
			struct aux_diag *diag)
{
	int fd, ret;

	if (!strcmp(path, "-"))
		return load_fd(b, STDIN_FILENO, "standard input", diag);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail_io(diag, "cannot open");
	ret = load_fd(b, fd, path, diag);
	close(fd);
	return ret;
}

static void backing_close(struct backing *b)
{
	if (b->map)
		mapped_close(b->map, b->len);
	b->map = NULL;
}

/* More than the kernel's fault-around (64 KB) and what a large folio covers. */
#define AROUND ((uintptr_t)256 << 10)

/*
 * MADV_DONTNEED of whole pages: the kernel reads them again from the file when
 * they are touched, so this never loses anything. Only of a file's mapping: of
 * anonymous memory it would read as zeros.
 */
static void backing_release(const struct backing *b, const void *p, uint64_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)b->map;
	uintptr_t from = (uintptr_t)p, to;

	if (!b->on_disk || from < base || from - base > b->len ||
	    len > b->len - (from - base))
		return;
	to = (from + len) & ~(page - 1);
	/* a page fault maps pages around it too, some of them released
	 * before */
	from -= from - base < AROUND ? from - base : AROUND;
	from &= ~(page - 1);
	if (to > from)
		madvise((uint8_t *)b->map + (from - base), to - from,
			MADV_DONTNEED);
}

#define PIPE_HEADER 16
/* AUX_OWN_SOURCE and HEADER_FEATUREs stand among the first records: after the
 * events, before the first trace. */
#define OWN_WITHIN 256
#define OLD_HEADER 72	/* before the feature bitmap */

static const char magic1[] = "PERFFILE";
static const char magic2[] = "PERFILE2";
static const char magic2_swapped[] = "2ELIFREP";

struct header {
	uint64_t size, attr_size;
	struct aux_file_section attrs, data;
	uint64_t features[4];
};

/* Version 1 has no byte order in its magic: the header's size shows it. */
static bool is_swapped_v1(const uint8_t *data, size_t len)
{
	struct cursor c = cursor_init(data, len, false);

	cursor_u64(&c);
	return cursor_u64(&c) >> 32;
}

static int check_magic(struct aux_reader *r, struct aux_diag *diag)
{
	const uint8_t *p = r->file.data;

	if (r->head_len < PIPE_HEADER)
		return diag_set(diag, AUX_E_FORMAT, 0,
				"%llu bytes are too short for a perf.data file",
				(unsigned long long)r->head_len);
	if (!memcmp(p, magic2, 8))
		return 0;
	r->info.swapped = true;
	if (!memcmp(p, magic2_swapped, 8))
		return 0;
	r->info.swapped = is_swapped_v1(p, r->file.len);
	if (!memcmp(p, magic1, 8))
		return 0;
	return diag_set(diag, AUX_E_FORMAT, 0,
			"not a perf.data file: no PERFILE2 at its start");
}

/*
 * The bitmap is an array of the writer's longs (perf's DECLARE_BITMAP), so in
 * the file of a 32-bit writer of the other byte order the halves of each u64 are
 * exchanged once it is swapped. Every writer
 * sets HOSTNAME: where that bit stands shows it, as perf itself does it.
 */
static void fix_features(struct header *h, bool swapped)
{
	if (!swapped || h->features[0] >> AUX_FEAT_HOSTNAME & 1)
		return;
	if (!(h->features[0] >> (32 + AUX_FEAT_HOSTNAME) & 1))
		return;
	for (int i = 0; i < 4; i++)
		h->features[i] = h->features[i] << 32 | h->features[i] >> 32;
}

static int read_header(struct aux_reader *r, struct header *h,
		       struct aux_diag *diag)
{
	struct cursor c = reader_cursor(r, r->file.data, r->head_len);

	memset(h, 0, sizeof(*h));
	cursor_u64(&c);
	h->size = cursor_u64(&c);
	r->info.pipe = h->size == PIPE_HEADER;
	if (r->info.pipe)
		return 0;
	if (h->size < OLD_HEADER || h->size > 4096)
		return diag_set(diag, AUX_E_FORMAT, 8,
				"a header of %llu bytes is not perf.data",
				(unsigned long long)h->size);
	h->attr_size = cursor_u64(&c);
	h->attrs.offset = cursor_u64(&c);
	h->attrs.size = cursor_u64(&c);
	h->data.offset = cursor_u64(&c);
	h->data.size = cursor_u64(&c);
	cursor_bytes(&c, 16);
	for (int i = 0; i < 4 && h->size >= sizeof(struct aux_file_header); i++)
		h->features[i] = cursor_u64(&c);
	fix_features(h, r->info.swapped);
	if (c.bad)
		return diag_set(diag, AUX_E_TRUNCATED, r->head_len,
				"the file ends inside its header");
	return 0;
}

/* The data section, clipped to the file; size 0 is what a killed perf
 * leaves. */
static int set_data(struct aux_reader *r, const struct aux_file_section *data,
		    struct aux_diag *diag)
{
	uint64_t len = r->head_len, end = data->offset + data->size;

	if (end < data->offset || data->offset < OLD_HEADER)
		return diag_set(diag, AUX_E_FORMAT, 40,
				"the data section %#llx+%#llx is not possible",
				(unsigned long long)data->offset,
				(unsigned long long)data->size);
	r->info.data_offset = data->offset;
	r->info.unfinished = !data->size;
	if (r->info.unfinished || end > len) {
		r->first.cut = end > len ? end - len : 0;
		end = len;
	}
	r->first.end = end;
	r->first.at_end = end == len;
	/* Cut before the first record: nothing to read, and next says so. */
	if (data->offset > len)
		r->info.data_offset = len;
	r->first.start = r->info.data_offset;
	r->info.data_size = end - r->info.data_offset;
	return 0;
}

static int open_file_mode(struct aux_reader *r, struct header *h,
			  struct aux_diag *diag)
{
	int ret = set_data(r, &h->data, diag);

	if (!ret)
		ret = attr_table_load(r, h->attrs.offset, h->attrs.size,
				      h->attr_size, diag);
	for (int i = 0; i < 4; i++)
		r->has_features |= h->features[i] != 0;
	/* A killed writer has set the bits, but not written the sections. */
	if (!ret && !r->info.unfinished)
		features_locate(r, h->features);
	return ret;
}

/*
 * A pipe has no tables: its attrs and features are records, which may stand
 * anywhere before they are needed, so open looks at all of them. updates: the
 * second pass, for names, which refer to ids of the first. The walk ends at the
 * first damaged record: next will report that one.
 */
static int scan_pipe(struct aux_reader *r, bool updates, struct aux_diag *diag)
{
	struct aux_event ev = { 0 };
	int ret = 0;

	while (!ret && !r->error.code && reader_frame(r, &ev, NULL) == 1) {
		if (ev.type == AUX_RECORD_EVENT_UPDATE && updates)
			attr_table_update(r, &ev);
		else if (ev.type == AUX_RECORD_HEADER_ATTR && !updates)
			ret = attr_table_record(r, &ev, diag);
		else if (ev.type == AUX_RECORD_HEADER_FEATURE && !updates)
			features_record(r, &ev);
	}
	aux_reader_rewind(r);
	return ret;
}

static int open_pipe_mode(struct aux_reader *r, struct aux_diag *diag)
{
	int ret;

	r->info.data_offset = PIPE_HEADER;
	r->info.data_size = r->head_len - PIPE_HEADER;
	r->first = (struct segment){ PIPE_HEADER, r->head_len, 0, true };
	aux_reader_rewind(r);
	ret = scan_pipe(r, false, diag);
	attr_table_sort(&r->attrs);
	return ret ? ret : scan_pipe(r, true, diag);
}

/*
 * auxcap writes no sections of its own kind, and a killed one has none at all:
 * the first records say what made the file and, as in a pipe, what is known of
 * the machine. Damage is not reported here: next meets it again.
 */
static int find_own(struct aux_reader *r, struct aux_diag *diag)
{
	struct aux_event ev = { 0 };
	bool found = false;

	for (int i = 0; i < OWN_WITHIN && ev.type != AUX_RECORD_AUXTRACE &&
			aux_reader_next(r, &ev, NULL) == 1; i++) {
		/* a section is a place in the file: not of a compressed one */
		if (ev.type != AUX_RECORD_HEADER_FEATURE || r->info.pipe ||
		    r->has_features ||
		    ev.raw.data != r->file.data + ev.offset)
			continue;
		features_record(r, &ev);
		found = true;
	}
	aux_reader_rewind(r);
	if (found && features_load(r) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return 0;
}

static int open_bytes(struct aux_reader *r, struct aux_diag *diag)
{
	struct header h;
	int ret = check_magic(r, diag);

	r->info.size = r->head_len;
	for (size_t i = 0; i < r->n_more; i++)
		r->info.size += r->more[i].end - r->more[i].start;
	r->info.n_files = (uint32_t)r->n_more + 1;
	if (!ret)
		ret = read_header(r, &h, diag);
	if (!ret)
		ret = r->info.pipe ? open_pipe_mode(r, diag) :
				     open_file_mode(r, &h, diag);
	if (ret)
		return ret;
	attr_table_sort(&r->attrs);
	aux_reader_rewind(r);
	if (features_load(r))
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return r->source ? 0 : find_own(r, diag);
}

static struct aux_reader *new_reader(const char *path, struct aux_diag *diag)
{
	struct aux_reader *r = calloc(1, sizeof(*r));

	if (r)
		r->path = strdup(path);
	if (!r || !r->path) {
		free(r);
		diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
		return NULL;
	}
	return r;
}

static int finish_open(struct aux_reader **out, struct aux_reader *r, int ret,
		       struct aux_diag *diag)
{
	r->seg = &r->first;
	if (!r->head_len)
		r->head_len = r->file.len;
	if (!ret)
		ret = open_bytes(r, diag);
	if (ret) {
		aux_reader_close(r);
		r = NULL;
	}
	*out = r;
	return ret;
}

/* Files from so many bytes on are mostly trace; records of more are not worth the memory. */
#define INDEX_FROM ((uint64_t)4 << 20)
#define INDEX_MAX ((uint64_t)8 << 20)

int aux_reader_open(struct aux_reader **out, const char *path,
		    struct aux_diag *diag)
{
	struct aux_reader *r = new_reader(path, diag);
	int rc;

	*out = NULL;
	if (!r)
		return -AUX_E_NOMEM;
	rc = finish_open(out, r, backing_open(&r->file, path, diag), diag);
	if (!rc && r->file.len >= INDEX_FROM && !reader_index_begin(r, INDEX_MAX))
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
	if (rc && *out) {
		aux_reader_close(*out);
		*out = NULL;
	}
	return rc;
}

int aux_reader_open_mem(struct aux_reader **out, const void *data, size_t len,
			const char *name, struct aux_diag *diag)
{
	struct aux_reader *r = new_reader(name ? name : "(memory)", diag);

	*out = NULL;
	if (!r)
		return -AUX_E_NOMEM;
	r->file.data = data;
	r->file.len = len;
	return finish_open(out, r, 0, diag);
}

int reader_open_fd(struct aux_reader **out, int fd, const char *name,
		   struct aux_diag *diag)
{
	struct aux_reader *r = new_reader(name, diag);

	*out = NULL;
	if (!r)
		return -AUX_E_NOMEM;
	return finish_open(out, r, load_fd(&r->file, fd, name, diag), diag);
}

static uint64_t round_up(uint64_t n, uint64_t page)
{
	return (n + page - 1) & ~(page - 1);
}

/* Moves the mappings next to each other. What lies between reads as zeros. */
static int join_maps(struct aux_reader *r, struct reader_map *files, size_t n,
		     struct aux_diag *diag)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = 0, len = 0;
	struct backing *all = &r->file;

	for (size_t i = 0; i < n; i++)
		len += round_up(files[i].len, page);
	all->map = mmap(NULL, len, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all->map == MAP_FAILED) {
		all->map = NULL;
		return fail_io(diag, "cannot map the files");
	}
	all->data = all->map;
	all->len = len;
	for (size_t i = 0; i < n; i++) {
		struct reader_map *f = &files[i];

		if (i)
			r->more[i - 1] = (struct segment){ at, at + f->len, 0,
							   true };
		if (f->len && mremap((void *)(uintptr_t)f->data, f->len, f->len,
				     MREMAP_MAYMOVE | MREMAP_FIXED,
				     (uint8_t *)all->map + at) == MAP_FAILED)
			return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
					"cannot map %s: %s", f->path,
					strerror(errno));
		mapped_moved(f->data, (uint8_t *)all->map + at);
		f->data = NULL;
		at += round_up(f->len, page);
	}
	return 0;
}

int reader_open_maps(struct aux_reader **out, struct reader_map *files,
		     size_t n, const char *name, struct aux_diag *diag)
{
	struct aux_reader *r = new_reader(name, diag);
	int rc = 0;

	*out = NULL;
	if (!r)
		return -AUX_E_NOMEM;
	r->head_len = files[0].len;
	r->n_more = n - 1;
	r->more = calloc(n, sizeof(*r->more));
	if (!r->more)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	else if (!files[0].len)
		rc = diag_set(diag, AUX_E_FORMAT, 0, "its file `data` is empty: "
			      "not a perf.data file");
	if (rc == 0)
		rc = join_maps(r, files, n, diag);
	return finish_open(out, r, rc, diag);
}

void reader_set_container(struct aux_reader *r, const char *name, char *dir)
{
	r->info.container = name;
	free(r->container_dir);
	r->container_dir = dir;
}

const char *reader_container_dir(const struct aux_reader *r)
{
	return r->container_dir;
}

void aux_reader_close(struct aux_reader *r)
{
	if (!r)
		return;
	reader_index_free(r->index);
	reader_index_free(r->gather);
	inflate_fini(&r->inflate);
	unpack_fini(&r->spool);
	attr_table_fini(&r->attrs);
	arena_fini(&r->arena);
	backing_close(&r->file);
	free(r->more);
	free(r->path);
	free(r->container_dir);
	free(r);
}

const char *aux_reader_path(const struct aux_reader *r)
{
	return r->path;
}

const struct aux_file_info *aux_reader_info(const struct aux_reader *r)
{
	return &r->info;
}

const struct aux_attr *aux_reader_attr(const struct aux_reader *r, size_t i)
{
	return i < r->attrs.n ? r->attrs.v[i] : NULL;
}

const struct aux_attr *aux_reader_attr_by_id(const struct aux_reader *r,
					     uint64_t id)
{
	return attr_table_find(&r->attrs, id);
}

/* Of the file; what is in a compressed one comes next. */
static int next_framed(struct aux_reader *r, struct aux_event *ev,
		       struct aux_diag *diag)
{
	int ret = reader_frame(r, ev, diag), err;

	if (!ret && r->inflate.pos != r->inflate.end)
		return diag_set(diag, AUX_E_TRUNCATED, r->inflate.offset,
				"the compressed records end inside a record");
	if (ret != 1 || (ev->type != AUX_RECORD_COMPRESSED &&
			 ev->type != AUX_RECORD_COMPRESSED2))
		return ret;
	err = inflate_feed(r, ev, diag);
	return err && !r->salvage ? err : 1;
}

/* From what was decompressed, else from the file. */
static int next_record(struct aux_reader *r, struct aux_event *ev,
		       struct aux_diag *diag)
{
	int ret = inflate_next(r, ev, diag);

	if (ret < 0 && r->salvage) {
		r->inflate.broken = *diag;
		inflate_leave(&r->inflate);
		ret = 0;
	}
	if (!ret)
		ret = next_framed(r, ev, diag);
	if (ret != 1)
		return ret;
	if (ev->type == AUX_RECORD_EVENT_UPDATE)
		attr_table_update(r, ev);
	ret = records_parse(r, ev, diag);
	return ret == -AUX_E_FORMAT && r->salvage ? 1 : ret;
}

/* The next file of a directory; false: that was the last one. */
static bool next_segment(struct aux_reader *r)
{
	size_t next = r->seg == &r->first ? 0 :
					    (size_t)(r->seg - r->more) + 1;

	if (next >= r->n_more)
		return false;
	r->seg = &r->more[next];
	r->pos = r->seg->start;
	memset(&r->error, 0, sizeof(r->error));
	return true;
}

/* Puts the file of a directory in front of the text, and makes the offset one
 * in that file. */
static void name_part(const struct aux_reader *r, struct aux_diag *why)
{
	size_t n = strlen(why->text), room = sizeof(why->text);
	char name[32] = "in `data`: ";
	size_t len;

	if (!r->n_more || why->code == AUX_E_NOMEM)
		return;
	if (r->seg != &r->first)
		snprintf(name, sizeof(name), "in data.%zu: ",
			 (size_t)(r->seg - r->more));
	len = strlen(name);
	if (!strncmp(why->text, name, len))
		return;	/* the sticky error, named before */
	if (r->seg != &r->first && why->offset != AUX_NO_OFFSET)
		why->offset -= r->seg->start;
	if (n + len >= room)
		n = room - len - 1;
	memmove(why->text + len, why->text, n);
	memcpy(why->text, name, len);
	why->text[len + n] = '\0';
}

/*
 * Damage of one file of a directory does not keep the others from being read:
 * it is reported at the end. Not after a compressed stream that broke: the next
 * pass would have to decompress it again to get past.
 */
static bool go_on(struct aux_reader *r, int ret, const struct aux_diag *why)
{
	bool broke = r->inflate.broken.code && r->inflate.owner == r->seg;

	if (ret > 0 || broke || why->code == AUX_E_NOMEM || !next_segment(r))
		return false;
	if (ret < 0 && !r->skipped.code)
		r->skipped = *why;
	inflate_leave(&r->inflate);
	return true;
}

#define KEEP_PASSED (16U << 20)

/* What was passed need not stay in memory: a large file is mostly AUX bytes,
 * and it would count as our memory. */
static void release_passed(struct aux_reader *r)
{
	uint64_t n = r->pos - r->kept_pos;

	if (r->pos >= r->kept_pos && n < KEEP_PASSED)
		return;
	if (!r->index && r->pos > r->kept_pos && reader_has(r, r->kept_pos, n))
		backing_release(&r->file, r->file.data + r->kept_pos, n);
	r->kept_pos = r->pos;
}

int aux_reader_next(struct aux_reader *r, struct aux_event *ev,
		    struct aux_diag *diag)
{
	struct aux_diag why;
	int ret;

	release_passed(r);
	do {
		memset(ev, 0, sizeof(*ev));
		why = r->error;
		ret = why.code ? -why.code : next_record(r, ev, &why);
		if (ret < 0)
			name_part(r, &why);
	} while (go_on(r, ret, &why));
	if (!ret && r->skipped.code) {
		why = r->skipped;
		ret = -why.code;
	}
	if (ret < 0) {
		r->error = why;
		if (diag)
			*diag = why;
	}
	return ret;
}

void aux_reader_let_go(const struct aux_reader *r, const void *p, uint64_t len)
{
	backing_release(&r->file, p, len);
}

void aux_reader_rewind(struct aux_reader *r)
{
	reader_index_restart(r);
	r->pos = r->info.data_offset;
	r->seg = &r->first;
	memset(&r->error, 0, sizeof(r->error));
	memset(&r->skipped, 0, sizeof(r->skipped));
	inflate_rewind(&r->inflate);
}

void reader_extend(struct aux_reader *r)
{
	r->info.unfinished = true;
	r->first.end = r->head_len;
	r->first.at_end = true;
	r->info.data_size = r->first.end - r->info.data_offset;
}

void reader_salvage(struct aux_reader *r)
{
	r->salvage = true;
	r->first.cut = 0;
	reader_extend(r);
	aux_reader_rewind(r);
}
