/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_proc_file.h: what synth_proc writes, as text and as the code that it
 * saved, and a folder for it.
 */
#ifndef TESTS_UNIT_SYNTH_PROC_FILE_H
#define TESTS_UNIT_SYNTH_PROC_FILE_H

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bytes.h"

#include "capture/describe/describe.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/auxkit-sproc.XXXXXX";
static char out[128];
static uint8_t file[(16 << 20) + 64];
static struct cursor data;	/* the records */

static void load(void)
{
	int fd = open(out, O_RDONLY);
	ssize_t n = read(fd, file, sizeof(file) - 64);
	struct cursor c;
	uint64_t at, size;

	close(fd);
	memset(file + (n < 0 ? 0 : n), 0, 64);
	c = cursor_init(file + 40, 16, false);
	at = cursor_u64(&c);
	size = cursor_u64(&c);
	data = cursor_init(file + at, size, false);
}

/* Runs synth_proc into a file and loads it. */
static int run(const struct synth_proc_options *o, struct synth_proc_result *r)
{
	struct perf_event_attr a = { .type = 1, .config = 9,
				     .size = sizeof(a),
				     .sample_id_all = 1,
				     .sample_type = SYNTH_SAMPLE_TYPE };
	struct aux_diag diag = { 0 };
	struct writer *w;
	uint64_t id = 77;
	int ret;

	unlink(out);
	if (writer_open(&w, out, NULL, &diag) ||
	    writer_attr_add(w, &a, "dummy", &id, 1))
		return -1;
	ret = synth_proc(w, o, r, &diag);
	if (ret)
		printf("# %s\n", diag.text);
	if (writer_close(w, &diag))
		printf("# close: %s\n", diag.text);
	load();
	return ret;
}

/* One record as text: "COMM 5/6 name", "MMAP2 5 addr len pgoff prot path". */
static bool next_text(struct cursor *all, char *text, size_t len)
{
	struct cursor c;
	uint32_t type, misc, size, pid, tid, prot, flags;
	uint64_t addr, n, off;

	if (cursor_left(all) < 8)
		return false;
	type = cursor_u32(all);
	misc = cursor_u16(all);
	size = cursor_u16(all);
	c = cursor_init(cursor_bytes(all, size - 8u), size - 8u, false);
	pid = cursor_u32(&c);
	tid = cursor_u32(&c);
	switch (type) {
	case PERF_RECORD_COMM:
		snprintf(text, len, "COMM %d/%d %s", (int)pid, (int)tid,
			 (const char *)c.p);
		break;
	case PERF_RECORD_FORK:
		prot = cursor_u32(&c);	/* tid; the second was ppid */
		snprintf(text, len, "FORK %d<%d %d<%d misc %x", (int)pid,
			 (int)tid, (int)prot, (int)cursor_u32(&c), misc);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		addr = cursor_u64(&c);
		n = cursor_u64(&c);
		off = cursor_u64(&c);
		if (type == PERF_RECORD_MMAP) {
			snprintf(text, len, "MMAP %d %#" PRIx64 "+%#" PRIx64
				 "@%#" PRIx64 " %x %s", (int)pid, addr, n, off,
				 misc, (const char *)c.p);
			break;
		}
		cursor_bytes(&c, 24);
		prot = cursor_u32(&c);
		flags = cursor_u32(&c);
		snprintf(text, len, "MMAP2 %d %#" PRIx64 "+%#" PRIx64 "@%#"
			 PRIx64 " %u/%u %x %s", (int)pid, addr, n, off, prot,
			 flags, misc, (const char *)c.p);
		break;
	default:
		snprintf(text, len, "type %u", type);
	}
	return true;
}

static bool has_record(const char *start, const char *end)
{
	struct cursor c = data;
	char text[PATH_MAX + 128];

	while (next_text(&c, text, sizeof(text))) {
		size_t n = strlen(text), k = strlen(end);

		if (!strncmp(text, start, strlen(start)) && n >= k &&
		    !strcmp(text + n - k, end))
			return true;
	}
	return false;
}

/* ---- saved code ---- */

struct code {
	uint64_t addr, len, blob;
	uint32_t pid, kind;
	const uint8_t *bytes;	/* NULL: those of an earlier record */
};

/* The next AUX_OWN_CODE record. */
static bool next_code(struct cursor *all, struct code *k)
{
	while (cursor_left(all) >= 8) {
		uint32_t type = cursor_u32(all), size = cursor_u32(all) >> 16;
		struct cursor c = cursor_init(cursor_bytes(all, size - 8),
					      size - 8, false);
		uint32_t len;

		if (type != AUX_RECORD_EVENT_TYPE ||
		    cursor_u64(&c) != AUX_OWN_MAGIC ||
		    cursor_u16(&c) != AUX_OWN_CODE)
			continue;
		cursor_u16(&c);
		len = cursor_u32(&c);
		cursor_u64(&c);
		k->addr = cursor_u64(&c);
		k->len = cursor_u64(&c);
		k->blob = cursor_u64(&c);
		k->pid = cursor_u32(&c);
		k->kind = cursor_u32(&c);
		k->bytes = len > 40 ? c.p : NULL;
		return true;
	}
	return false;
}

static const uint8_t *find_blob(uint64_t blob)
{
	struct cursor c = data;
	struct code k;

	while (next_code(&c, &k))
		if (k.blob == blob && k.bytes)
			return k.bytes;
	return NULL;
}

/* The saved byte of a process at an address, -1: none. */
static int code_at(uint32_t pid, uint64_t addr, uint32_t kind)
{
	struct cursor c = data;
	struct code k;

	while (next_code(&c, &k)) {
		const uint8_t *p = k.bytes ? k.bytes : find_blob(k.blob);

		if (p && k.pid == pid && k.kind == kind && addr >= k.addr &&
		    addr - k.addr < k.len)
			return p[addr - k.addr];
	}
	return -1;
}

/* ---- the folder ---- */

static bool make_dir(void)
{
	if (!mkdtemp(dir))
		return false;
	snprintf(out, sizeof(out), "%s/out.data", dir);
	return true;
}

/* Not where KEEP is set. */
static bool remove_dir(void)
{
	char command[sizeof(dir) + 16];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return getenv("KEEP") || !system(command);
}

#endif
