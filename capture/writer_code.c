/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Saved code bytes on their way to AUX_FEAT_AUXKIT_CODE.
 *
 * A program that generates code for hours must not fill our memory: entries and
 * bytes go to two unlinked files beside the recording, and only a table of fixed
 * size remembers where equal bytes may already be. Invariant: bytes are shared
 * only after they have been compared.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "writer_priv.h"

#define N_SEEN 8192	/* a power of two */
#define N_PENDING 128
#define COPY_SIZE (128 << 10)

struct seen {
	uint64_t hash;
	uint64_t offset;
	uint64_t len;	/* 0: free */
};

struct codespool {
	int entries_fd;
	int blobs_fd;
	uint64_t n;		/* entries, pending ones included */
	uint64_t blob_size;
	uint64_t last_ns;
	bool unsorted;		/* some entry is older than the one before */
	size_t n_pending;
	struct aux_code_entry pending[N_PENDING];
	struct seen seen[N_SEEN];
};

/* An unlinked file in the directory of path: same disk, gone with us. */
static int open_unlinked(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) + 1 : 0;
	static const char name[] = ".auxcap.XXXXXX";
	char *tmp = malloc(len + sizeof(name));
	int fd = -1;

	if (!tmp)
		return -1;
	memcpy(tmp, path, len);
	memcpy(tmp + len, name, sizeof(name));
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0) {	/* /dev/null and the like */
		free(tmp);
		tmp = strdup("/tmp/.auxcap.XXXXXX");
		fd = tmp ? mkostemp(tmp, O_CLOEXEC) : -1;
	}
	if (fd >= 0)
		unlink(tmp);
	free(tmp);
	return fd;
}

int codespool_new(struct codespool **out, const char *path)
{
	struct codespool *cs = calloc(1, sizeof(*cs));

	*out = NULL;
	if (!cs)
		return -AUX_E_NOMEM;
	cs->entries_fd = open_unlinked(path);
	cs->blobs_fd = open_unlinked(path);
	if (cs->entries_fd < 0 || cs->blobs_fd < 0) {
		codespool_free(cs);
		return -AUX_E_IO;
	}
	*out = cs;
	return 0;
}

void codespool_free(struct codespool *cs)
{
	if (!cs)
		return;
	if (cs->entries_fd >= 0)
		close(cs->entries_fd);
	if (cs->blobs_fd >= 0)
		close(cs->blobs_fd);
	free(cs);
}

static int write_at(int fd, const void *data, size_t len, uint64_t pos)
{
	const char *p = data;

	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -AUX_E_IO;
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int read_at(int fd, void *data, size_t len, uint64_t pos)
{
	char *p = data;

	while (len) {
		ssize_t n = pread(fd, p, len, (off_t)pos);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -AUX_E_IO;
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static uint64_t hash_bytes(const uint8_t *p, uint64_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15, word;

	for (; len; p += sizeof(word), len -= sizeof(word)) {
		word = 0;
		if (len < sizeof(word)) {
			memcpy(&word, p, len);
			len = sizeof(word);
		} else {
			memcpy(&word, p, sizeof(word));
		}
		h = (h ^ word) * 0xff51afd7ed558ccd;
		h ^= h >> 32;
	}
	return h;
}

/* Whether the spool holds these bytes at this place. */
static bool same_bytes(const struct codespool *cs, uint64_t offset,
		       const uint8_t *bytes, uint64_t len)
{
	uint8_t buf[4096];

	while (len) {
		size_t n = len < sizeof(buf) ? len : sizeof(buf);

		if (read_at(cs->blobs_fd, buf, n, offset) ||
		    memcmp(buf, bytes, n))
			return false;
		bytes += n;
		offset += n;
		len -= n;
	}
	return true;
}

/* Finds or adds the bytes. */
static int place_bytes(struct codespool *cs, const void *bytes, uint64_t len,
		       uint64_t *offset)
{
	uint64_t hash = hash_bytes(bytes, len);
	struct seen *s = &cs->seen[hash & (N_SEEN - 1)];
	int ret;

	if (s->len == len && s->hash == hash &&
	    same_bytes(cs, s->offset, bytes, len)) {
		*offset = s->offset;
		return 0;
	}
	ret = write_at(cs->blobs_fd, bytes, len, cs->blob_size);
	if (ret)
		return ret;
	*offset = cs->blob_size;
	*s = (struct seen){ .hash = hash, .offset = *offset, .len = len };
	cs->blob_size += len;
	return 0;
}

static int flush_pending(struct codespool *cs)
{
	uint64_t done = cs->n - cs->n_pending;
	int ret = write_at(cs->entries_fd, cs->pending,
			   cs->n_pending * sizeof(*cs->pending),
			   done * sizeof(*cs->pending));

	if (!ret)
		cs->n_pending = 0;
	return ret;
}

int codespool_add(struct codespool *cs, const struct aux_code_entry *e,
		  const void *bytes)
{
	struct aux_code_entry entry = *e;
	int ret;

	if (!e->len)
		return 0;
	if (cs->n == UINT32_MAX)	/* the section's count is 32 bits */
		return -AUX_E_LIMIT;
	ret = place_bytes(cs, bytes, e->len, &entry.blob_offset);
	if (!ret && cs->n_pending == N_PENDING)
		ret = flush_pending(cs);
	if (ret)
		return ret;
	if (e->time_ns < cs->last_ns)
		cs->unsorted = true;
	cs->last_ns = e->time_ns;
	cs->pending[cs->n_pending++] = entry;
	cs->n++;
	return 0;
}

static void merge(const struct aux_code_entry *from, struct aux_code_entry *to,
		  uint64_t a, uint64_t b, uint64_t end)
{
	uint64_t i = a, j = b, k;

	for (k = a; k < end; k++)
		to[k] = i < b && (j >= end || from[i].time_ns <= from[j].time_ns)
			? from[i++] : from[j++];
}

/* Sorts by time, equal times in order of arrival. Sorted is *fd afterwards. */
static int sort_entries(struct codespool *cs, const char *path)
{
	size_t size = cs->n * sizeof(struct aux_code_entry);
	int other = open_unlinked(path), ret = -AUX_E_IO;
	struct aux_code_entry *a = MAP_FAILED, *b = MAP_FAILED;
	uint64_t width, i;

	if (other >= 0 && !ftruncate(other, (off_t)size)) {
		a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 cs->entries_fd, 0);
		b = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, other,
			 0);
	}
	if (a == MAP_FAILED || b == MAP_FAILED)
		goto out;
	for (width = 1; width < cs->n; width *= 2) {
		struct aux_code_entry *t = a;
		int fd = cs->entries_fd;

		for (i = 0; i < cs->n; i += 2 * width)
			merge(a, b, i, i + width < cs->n ? i + width : cs->n,
			      i + 2 * width < cs->n ? i + 2 * width : cs->n);
		a = b;
		b = t;
		cs->entries_fd = other;
		other = fd;
	}
	ret = 0;
out:
	if (a != MAP_FAILED)
		munmap(a, size);
	if (b != MAP_FAILED)
		munmap(b, size);
	if (other >= 0)
		close(other);
	return ret;
}

static int copy_file(int fd, uint64_t len, struct writer *w)
{
	char *buf = malloc(COPY_SIZE);
	uint64_t pos = 0;
	int ret = buf ? 0 : -AUX_E_NOMEM;

	while (!ret && pos < len) {
		size_t n = len - pos < COPY_SIZE ? len - pos : COPY_SIZE;

		ret = read_at(fd, buf, n, pos);
		if (!ret)
			ret = writer_put(w, buf, n);
		pos += n;
	}
	free(buf);
	return ret;
}

int codespool_emit(struct codespool *cs, struct writer *w)
{
	struct aux_feat_code h = {
		.version = 1,
		.n_entries = (uint32_t)cs->n,
		.blob_size = cs->blob_size,
	};
	int ret = flush_pending(cs);

	if (!ret && cs->unsorted)
		ret = sort_entries(cs, w->path);
	if (!ret)
		ret = writer_put(w, &h, sizeof(h));
	if (!ret)
		ret = copy_file(cs->entries_fd,
				cs->n * sizeof(struct aux_code_entry), w);
	if (!ret)
		ret = copy_file(cs->blobs_fd, cs->blob_size, w);
	if (ret)
		return writer_fail(w, -ret,
				   "%s: cannot copy the saved code bytes",
				   w->path);
	return 0;
}
