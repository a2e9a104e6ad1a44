/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bundle: the logs of JIT compilers (jit-PID.dump) as AUX_OWN_FILE, whole: they
 * have the code, its times and its names. They are known by their mapping, as
 * for perf; what the recording has already, and what is not here, is left out.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "decode/edit/bundle_impl.h"
#include "decode/lib/sideband/sideband.h"

struct log {
	const char *path;
	size_t len;
	uint32_t pid;
	bool there;	/* in the recording */
};

struct logs {
	struct log *v;
	size_t n, cap;
};

/* ".../jit-123.dump" */
static bool is_log(const char *path)
{
	const char *name = strrchr(path, '/');
	size_t digits;

	if (*path != '/' || strncmp(name, "/jit-", 5) != 0)
		return false;
	digits = strspn(name + 5, "0123456789");
	return digits && !strcmp(name + 5 + digits, ".dump");
}

static int add_log(struct logs *l, const struct log *log)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].len != log->len ||
		    memcmp(l->v[i].path, log->path, log->len) != 0)
			continue;
		l->v[i].there |= log->there;
		return 0;
	}
	if (array_grow(&l->v, l->n, &l->cap, sizeof(*log)) < 0)
		return -AUX_E_NOMEM;
	l->v[l->n++] = *log;
	return 0;
}

static int take_own(struct logs *l, const struct aux_event *ev, bool swapped)
{
	const uint8_t *p = ev->own.payload.data;
	struct log log = { .there = true };
	uint32_t len;

	if (ev->own.payload.len < sizeof(struct aux_own_file))
		return 0;
	memcpy(&len, p + 16, sizeof(len));
	log.len = swapped ? __builtin_bswap32(len) : len;
	log.path = (const char *)p + sizeof(struct aux_own_file);
	return log.len > ev->own.payload.len - sizeof(struct aux_own_file) ?
		       0 : add_log(l, &log);
}

static int find_logs(struct aux_reader *r, struct logs *l)
{
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_event ev;
	int rc = 0;

	aux_reader_rewind(r);
	while (rc == 0 && aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == AUX_RECORD_EVENT_TYPE &&
		    ev.own.kind == AUX_OWN_FILE)
			rc = take_own(l, &ev, swapped);
		else if ((ev.type == PERF_RECORD_MMAP ||
			  ev.type == PERF_RECORD_MMAP2) &&
			 is_log(ev.mmap.path))
			rc = add_log(l, &(struct log){ ev.mmap.path,
						       strlen(ev.mmap.path),
						       ev.mmap.pid, false });
	}
	return rc;
}

static void write_part(struct rewrite *w, const struct log *log, bool swapped,
		       const uint8_t *p, uint64_t at, uint64_t total)
{
	uint64_t n = total - at;
	struct rewrite_bytes b = { .swap = swapped };

	if (n > AUX_OWN_FILE_MAX)
		n = AUX_OWN_FILE_MAX;
	rewrite_bytes_u64(&b, at);
	rewrite_bytes_u64(&b, total);
	rewrite_bytes_u32(&b, (uint32_t)log->len);
	rewrite_bytes_u32(&b, log->pid);
	rewrite_bytes_put(&b, log->path, log->len);
	rewrite_bytes_put(&b, p + at, n);
	if (!b.oom)
		rewrite_own(w, AUX_OWN_FILE, b.data, b.len);
	free(b.data);
}

/* Not a file, or not to be read: then it is as missing as for a decode. */
static void write_log(struct rewrite *w, const struct log *log, bool swapped,
		      const char *symfs)
{
	char path[8192];
	struct stat st;
	uint8_t *p = MAP_FAILED;
	int fd;

	snprintf(path, sizeof(path), "%s%.*s", symfs ? symfs : "",
		 (int)log->len, log->path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size)
		p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd,
			 0);
	if (fd >= 0)
		close(fd);
	if (p == MAP_FAILED)
		return;
	for (uint64_t at = 0; at < (uint64_t)st.st_size &&
			      !rewrite_failed(w); at += AUX_OWN_FILE_MAX)
		write_part(w, log, swapped, p, at, (uint64_t)st.st_size);
	munmap(p, (size_t)st.st_size);
}

int bundle_write_logs(struct aux_reader *r, struct rewrite *w,
		      const char *symfs)
{
	struct logs l = { 0 };
	int rc = find_logs(r, &l);

	for (size_t i = 0; rc == 0 && i < l.n; i++)
		if (!l.v[i].there && l.v[i].len < 4096)
			write_log(w, &l.v[i], aux_reader_info(r)->swapped,
				  symfs);
	free(l.v);
	return rc;
}
