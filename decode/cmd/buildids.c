/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_buildids: the build id of each file that the recording knows, in the format
 * of perf buildid-list, which other programs read. They are those of
 * HEADER_BUILD_ID, of BUILD_ID records and of MMAP2 records, each file once. perf
 * prints the first kind alone of a recording with AUX trace. Of an ELF file it is
 * its own.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/markup.h"
#include "decode/cmd/impl.h"
#include "decode/lib/import/import.h"
#include "perfdata/perfdata.h"

/* An entry of HEADER_BUILD_ID, and a BUILD_ID record: header, pid, 20 bytes of id,
 * its size (with MISC_BUILD_ID_SIZE) in 4 more, path. */
#define ENTRY_ID   12
#define ENTRY_PATH 36
#define MISC_BUILD_ID_SIZE (1 << 15)

struct file_id {
	const char *path;	/* of path_len bytes */
	size_t path_len;
	uint8_t size, id[BUILDID_MAX];
};

struct buildids {
	const struct cmd_options *o;
	struct aux_reader *r;
	struct outbuf *out;
	void *seen;		/* tsearch: struct file_id */
	uint64_t n;
	uint64_t without;	/* MMAP2 records of files of which no id is known */
	bool broken;		/* the header's list cannot be read to its end */
};

static int compare_ids(const void *a, const void *b)
{
	const struct file_id *x = a, *y = b;
	size_t len = x->path_len < y->path_len ? x->path_len : y->path_len;
	int d = memcmp(x->path, y->path, len);

	if (d || x->path_len != y->path_len)
		return d ? d : x->path_len < y->path_len ? -1 : 1;
	d = (int)x->size - (int)y->size;
	return d ? d : memcmp(x->id, y->id, x->size);
}

static void id_text(char hex[2 * BUILDID_MAX + 1], const uint8_t *id, unsigned size)
{
	*hex = 0;
	for (unsigned i = 0; i < size; i++)
		snprintf(hex + (size_t)2 * i, 3, "%02x", id[i]);
}

static void put_id(struct buildids *b, const struct file_id *f)
{
	char hex[2 * BUILDID_MAX + 1];
	char *path = strndup(f->path, f->path_len);

	id_text(hex, f->id, f->size);
	if (!path) {
		outbuf_fail(b->out, ENOMEM);
		return;
	}
	if (b->o->output.json) {
		outbuf_printf(b->out, "%s{\"build_id\":\"%s\"", b->n ? ",\n" : "\n",
			      hex);
		outbuf_json_text(b->out, "path", path);
		outbuf_str(b->out, "}");
	} else {
		outbuf_printf(b->out, "%s ", hex);
		outbuf_clean(b->out, path);
		outbuf_str(b->out, "\n");
	}
	b->n++;
	free(path);
}

/* Without the symbol that a record of the kernel's mapping has after its name:
 * "[kernel.kallsyms]_text". */
static size_t name_len(const char *path, size_t len)
{
	const char *end = *path == '[' ? memchr(path, ']', len) : NULL;

	return end && end + 1 < path + len && end[1] == '_' ? (size_t)(end - path) + 1 : len;
}

/* 0 or -AUX_E_NOMEM. */
static int add_id(struct buildids *b, const char *path, size_t path_len,
		  const uint8_t *id, unsigned size)
{
	struct file_id *f, **known;

	if (!size || size > BUILDID_MAX || !path_len)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -AUX_E_NOMEM;
	f->path = path;
	f->path_len = name_len(path, path_len);
	f->size = (uint8_t)size;
	memcpy(f->id, id, size);
	known = tsearch(f, &b->seen, compare_ids);
	if (known && *known == f) {
		put_id(b, f);
		return 0;
	}
	free(f);
	return known ? 0 : -AUX_E_NOMEM;
}

static int add_entry(struct buildids *b, const uint8_t *p, size_t len)
{
	bool swap = aux_reader_info(b->r)->swapped;
	const char *path = (const char *)p + ENTRY_PATH;
	unsigned size = BUILDID_MAX;
	uint16_t misc;

	if (len <= ENTRY_PATH)
		return 0;
	memcpy(&misc, p + offsetof(struct perf_event_header, misc), sizeof(misc));
	misc = swap ? __builtin_bswap16(misc) : misc;
	if (misc & MISC_BUILD_ID_SIZE)
		size = p[ENTRY_ID + BUILDID_MAX];
	return add_id(b, path, strnlen(path, len - ENTRY_PATH), p + ENTRY_ID, size);
}

/* A malformed entry ends the section, since the next cannot be found; broken says so. */
static int read_section(struct buildids *b)
{
	struct aux_bytes s = { 0 };
	uint16_t size;
	int rc = aux_reader_feature(b->r, AUX_FEAT_BUILD_ID, &s, NULL);

	b->broken = rc < 0;
	if (rc <= 0)
		return 0;
	rc = 0;
	while (s.len >= sizeof(struct perf_event_header) && !rc) {
		memcpy(&size, s.data + offsetof(struct perf_event_header, size),
		       sizeof(size));
		size = aux_reader_info(b->r)->swapped ? __builtin_bswap16(size) : size;
		if (size < sizeof(struct perf_event_header) || size > s.len) {
			b->broken = true;
			break;
		}
		rc = add_entry(b, s.data, size);
		s.data += size;
		s.len -= size;
	}
	return rc;
}

static int read_record(struct buildids *b, const struct aux_event *ev)
{
	if (ev->type == AUX_RECORD_BUILD_ID)
		return add_entry(b, ev->raw.data, ev->raw.len);
	if (ev->type != PERF_RECORD_MMAP2)
		return 0;
	if (!ev->mmap.build_id_size && ev->mmap.path && *ev->mmap.path == '/')
		b->without++;
	return add_id(b, ev->mmap.path, ev->mmap.path ? strlen(ev->mmap.path) : 0,
		      ev->mmap.build_id, ev->mmap.build_id_size);
}

/* A recording that ends early gives what it has, and CMD_GAPS. */
static int put_all(struct buildids *b)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_event ev;
	int rc = read_section(b), next = rc ? 0 : 1;

	while (next == 1 && !rc) {
		next = aux_reader_next(b->r, &ev, &diag);
		if (next == 1)
			rc = read_record(b, &ev);
	}
	tdestroy(b->seen, free);
	outbuf_flush(b->out);
	if (rc || next < 0)
		cmd_failed(b->o->path, rc ? rc : next, &diag);
	if (b->broken)
		cmd_warn(b->o->path, "the header's list of build ids is damaged: those after the "
			 "damage are missing, unless a record has them");
	if (rc || (next < 0 && !b->n))
		return CMD_FAILED;
	if (!b->n && !b->broken)
		cmd_warn(b->o->path, "no build id is in it%s", b->without ?
			 ": perf record writes them at its end, unless it has -B" : "");
	return next < 0 || b->broken ? CMD_GAPS : CMD_OK;
}

static int put_json(struct buildids *b)
{
	int status;

	json_begin(b->out, b->o, b->r);
	outbuf_str(b->out, ",\n\"files\":[");
	status = put_all(b);
	outbuf_str(b->out, "]");
	outbuf_json_number(b->out, "n_files", b->n);
	json_end(b->out, b->o, status);
	return status;
}

/* Of an ELF file, as perf does: its own. */
static int put_elf(struct outbuf *out, const struct cmd_options *o, const uint8_t *id,
		   unsigned size)
{
	char hex[2 * BUILDID_MAX + 1];

	id_text(hex, id, size);
	if (o->output.json) {
		json_begin(out, o, NULL);
		outbuf_printf(out, ",\n\"files\":[{\"build_id\":\"%s\"", hex);
		outbuf_json_text(out, "path", o->path);
		outbuf_str(out, "}],\n\"n_files\":1");
		json_end(out, o, CMD_OK);
	} else {
		outbuf_printf(out, "%s\n", hex);
	}
	return CMD_OK;
}

int cmd_buildids(const struct cmd_options *o)
{
	uint8_t id[BUILDID_MAX];
	int size = buildid_read(o->path, id);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct buildids b = { .o = o };
	struct cmd_out out;
	int status;

	if (size <= 0 && import_open(&b.r, o->path, &o->import.options, &diag) < 0)
		return cmd_error(o->path, &diag);
	status = cmd_out_open(&out, o);
	b.out = out.buf;
	if (!status)
		status = cmd_out_close(&out, o,
				       size > 0 ? put_elf(out.buf, o, id, (unsigned)size) :
				       o->output.json ? put_json(&b) : put_all(&b));
	aux_reader_close(b.r);
	return status;
}
