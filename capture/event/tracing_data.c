/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tracing_data: collects the formats of tracepoints from tracefs.
 *
 * Invariant: the blob is complete or there is none. Saved command lines and
 * kallsyms are left empty (size 0 is legal): COMM records and the kernel's maps
 * have the same content, valid for the time of the recording.
 * Specification: trace-cmd.dat.v6(5), "INITIAL FORMAT" to "PROCESS
 * INFORMATION"; the order in which perf reads:
 * tools/perf/util/trace-event-read.c of Linux 6.1.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "common/diag.h"

#include "capture/event/evlist.h"

#define TRACEFS 0x74726163	/* statfs.f_type */
#define FILE_MAX (64u << 20)	/* no tracefs file is nearly that large */

/* Grows as it is written to. Once bad (out of memory) it is not used. */
struct blob {
	char *data;
	size_t len, cap;
	bool bad;
};

/* Room for len more bytes, not yet part of the blob; NULL: out of memory. */
static char *reserve(struct blob *b, size_t len)
{
	size_t cap = b->cap ? b->cap : 4096;
	char *data;

	while (cap - b->len < len)
		cap *= 2;
	if (cap != b->cap) {
		data = realloc(b->data, cap);
		if (!data) {
			b->bad = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	return b->data + b->len;
}

static void add(struct blob *b, const void *p, size_t len)
{
	char *to = reserve(b, len);

	if (to) {
		memcpy(to, p, len);
		b->len += len;
	}
}

static void add_u32(struct blob *b, uint32_t v)
{
	add(b, &v, sizeof(v));
}

static void add_u64(struct blob *b, uint64_t v)
{
	add(b, &v, sizeof(v));
}

const char *tracing_root(void)
{
	static const char *const roots[] = {
		"/sys/kernel/tracing", "/sys/kernel/debug/tracing/."
	};
	struct statfs fs;
	size_t i;

	for (i = 0; i < sizeof(roots) / sizeof(*roots); i++)
		if (!statfs(roots[i], &fs) && (uint32_t)fs.f_type == TRACEFS)
			return roots[i];
	return NULL;
}

/* Why path below root cannot be read, and the fix. */
static int explain(struct aux_diag *diag, const char *root, const char *path,
		   int err)
{
	if (err == EACCES || err == EPERM)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"%s: permission denied; allow a group of yours "
				"to read it: sudo mount -o remount,mode=0750,"
				"gid=GROUP %s, or record as root", path, root);
	if (err == ENOENT)
		return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
				"%s: there is no such tracepoint; `auxcap "
				"list` shows those of this kernel", path);
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path,
			strerror(err));
}

static int check_root(const char *root, struct aux_diag *diag)
{
	if (root)
		return 0;
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			"tracepoints need tracefs, which is not mounted; mount "
			"it: sudo mount -t tracefs nodev /sys/kernel/tracing");
}

/* Appends a file and returns its length, or -1. Reads to the end: tracefs
 * reports size 0 for all files. */
static ssize_t add_file(struct blob *b, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	size_t start = b->len;
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	do {
		char *to = reserve(b, 4096);

		if (!to || b->len - start > FILE_MAX) {
			errno = to ? EFBIG : ENOMEM;
			n = -1;
			break;
		}
		n = read(fd, to, 4096);
		if (n > 0)
			b->len += (size_t)n;
	} while (n > 0 || (n < 0 && errno == EINTR));
	err = errno;
	close(fd);
	errno = err;
	return n < 0 ? -1 : (ssize_t)(b->len - start);
}

/* Appends u64 size, then the file. */
static int add_sized_file(struct blob *b, const char *root, const char *path,
			  struct aux_diag *diag)
{
	size_t at = b->len;
	uint64_t size;
	ssize_t n;

	add_u64(b, 0);
	n = add_file(b, path);
	if (n < 0)
		return explain(diag, root, path, errno);
	size = (uint64_t)n;
	memcpy(b->data + at, &size, sizeof(size));
	return 0;
}

/* "INITIAL FORMAT" up to the formats of ftrace's own events, of which there are
 * none. */
static int add_heads(struct blob *b, const char *root, struct aux_diag *diag)
{
	static const char *const names[] = { "header_page", "header_event" };
	static const unsigned char magic[3] = { 23, 8, 68 };
	const uint16_t probe = 1;
	unsigned char big_endian = !*(const unsigned char *)&probe;
	unsigned char long_size = sizeof(long);
	char path[PATH_MAX];
	int i, ret = 0;

	add(b, magic, sizeof(magic));
	add(b, "tracing", 7);
	add(b, "0.6", 4);
	add(b, &big_endian, 1);
	add(b, &long_size, 1);
	add_u32(b, (uint32_t)sysconf(_SC_PAGESIZE));
	for (i = 0; i < 2 && !ret; i++) {
		snprintf(path, sizeof(path), "%s/events/%s", root, names[i]);
		add(b, names[i], strlen(names[i]) + 1);
		ret = add_sized_file(b, root, path, diag);
	}
	add_u32(b, 0);
	return ret;
}

/* Both parts of "sched:sched_switch" must be plain names. */
static bool is_name(const char *s, size_t len)
{
	return len && len < 256 && s[0] != '.' && !memchr(s, '/', len);
}

static int check_event(const char *event, struct aux_diag *diag)
{
	size_t sys = strcspn(event, ":");

	if (event[sys] && is_name(event, sys) &&
	    is_name(event + sys + 1, strlen(event + sys + 1)) &&
	    !strchr(event + sys + 1, ':'))
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"'%s' is no tracepoint; name one as SUBSYSTEM:NAME",
			event);
}

static bool same_system(const char *a, const char *b)
{
	size_t n = strcspn(a, ":");

	return !strncmp(a, b, n + 1);
}

/* Appends the subsystem of events[first]: name, count, and the format of each
 * event, once even if it is requested several times. */
static int add_system(struct blob *b, const char *root,
		      const char *const *events, size_t first, size_t n,
		      struct aux_diag *diag)
{
	int sys = (int)strcspn(events[first], ":"), ret = 0;
	size_t i, j, at;
	uint32_t count = 0;
	char path[PATH_MAX];

	add(b, events[first], (size_t)sys);
	add(b, "", 1);
	at = b->len;
	add_u32(b, 0);
	for (i = first; i < n && !ret; i++) {
		if (!same_system(events[first], events[i]))
			continue;
		for (j = first; strcmp(events[j], events[i]); j++)
			;
		if (j < i)
			continue;
		snprintf(path, sizeof(path), "%s/events/%.*s/%s/format", root,
			 sys, events[i], events[i] + sys + 1);
		ret = add_sized_file(b, root, path, diag);
		count++;
	}
	if (!b->bad)
		memcpy(b->data + at, &count, sizeof(count));
	return ret;
}

/* "EVENT FORMATS": count of subsystems, then each once. */
static int add_systems(struct blob *b, const char *root,
		       const char *const *events, size_t n,
		       struct aux_diag *diag)
{
	size_t i, j, at = b->len;
	uint32_t count = 0;
	int ret = 0;

	add_u32(b, 0);
	for (i = 0; i < n && !ret; i++) {
		for (j = 0; !same_system(events[j], events[i]); j++)
			;
		if (j < i)
			continue;
		ret = add_system(b, root, events, i, n, diag);
		count++;
	}
	if (!b->bad)
		memcpy(b->data + at, &count, sizeof(count));
	return ret;
}

/* Kallsyms (empty), printk formats (empty if only root may read them), command
 * lines (empty). */
static void add_rest(struct blob *b, const char *root)
{
	char path[PATH_MAX];
	size_t at;
	uint32_t size;
	ssize_t n;

	add_u32(b, 0);
	at = b->len;
	add_u32(b, 0);
	snprintf(path, sizeof(path), "%s/printk_formats", root);
	n = add_file(b, path);
	if (n < 0)
		b->len = at + sizeof(size);
	size = n < 0 ? 0 : (uint32_t)n;
	if (!b->bad)
		memcpy(b->data + at, &size, sizeof(size));
	add_u64(b, 0);
}

int64_t tracing_id(const char *root, const char *subsystem, const char *name,
		   struct aux_diag *diag)
{
	char path[PATH_MAX], event[600], text[32] = "";
	int fd, ret = check_root(root, diag);
	ssize_t n;

	snprintf(event, sizeof(event), "%s:%s", subsystem, name);
	if (!ret)
		ret = check_event(event, diag);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/events/%s/%s/id", root, subsystem,
		 name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return explain(diag, root, path, errno);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0 || text[0] < '0' || text[0] > '9')
		return explain(diag, root, path, EIO);
	return strtoll(text, NULL, 10);
}

int tracing_data(const char *root, const char *const *events, size_t n,
		 void **data, size_t *len, struct aux_diag *diag)
{
	struct blob b = { 0 };
	int ret = check_root(root, diag);
	size_t i;

	*data = NULL;
	*len = 0;
	for (i = 0; i < n && !ret; i++)
		ret = check_event(events[i], diag);
	if (!ret)
		ret = add_heads(&b, root, diag);
	if (!ret)
		ret = add_systems(&b, root, events, n, diag);
	if (!ret)
		add_rest(&b, root);
	if (b.bad)
		ret = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory for tracepoint formats");
	if (ret) {
		free(b.data);
		return ret;
	}
	*data = b.data;
	*len = b.len;
	return 0;
}
