/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An external merge sort; see sorter.h. A record in the file is its key, the length and
 * the bytes. Most of what is sorted here is nearly in order, or has few different
 * first numbers: parts that are in order already are left as they are.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <aux/error.h>

#include "common/array.h"
#include "decode/export/export.h"
#include "decode/export/sorter.h"

#define HEAD (3 * sizeof(uint64_t) + sizeof(uint32_t))	/* of a record in the file */
#define READ_SIZE 65536		/* bytes that are read at once, of each part */

struct entry {
	uint64_t key[3];
	uint32_t at, len;	/* of its bytes in the buffer */
};

/* A sorted part in the file. */
struct part {
	uint64_t at, end;	/* what is not read */
	uint8_t *buf;
	size_t pos, n;		/* of buf: read, and in it */
	struct sorter_item item; /* the next one; valid while has_item */
	bool has_item;
};

struct sorter {
	size_t memory;
	uint8_t *buf;
	size_t n, max;		/* bytes of buf */
	struct entry *entries, *other;	/* other: of the same size, to sort */
	size_t n_entries, max_entries;
	int fd;			/* -1: none yet */
	uint64_t file_size;
	struct part *parts;
	size_t n_parts, max_parts;
	bool reading;
	size_t next;		/* of entries, while there are no parts */
	struct part **heap;	/* the part with the least key first */
	size_t n_heap;
};

struct sorter *sorter_new(size_t memory)
{
	struct sorter *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->memory = memory;
	s->fd = -1;
	return s;
}

void sorter_free(struct sorter *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_parts; i++)
		free(s->parts[i].buf);
	free(s->parts);
	free(s->heap);
	free(s->buf);
	free(s->entries);
	free(s->other);
	if (s->fd >= 0)
		close(s->fd);
	free(s);
}

/* ---- in memory ---- */

static bool is_less(const uint64_t a[3], const uint64_t b[3])
{
	if (a[0] != b[0])
		return a[0] < b[0];
	if (a[1] != b[1])
		return a[1] < b[1];
	return a[2] < b[2];
}

static bool is_sorted(const struct sorter *s)
{
	for (size_t i = 1; i < s->n_entries; i++)
		if (is_less(s->entries[i].key, s->entries[i - 1].key))
			return false;
	return true;
}

/* The byte of the key, 0 the lowest of all 24. */
static unsigned key_byte(const struct entry *e, unsigned i)
{
	return e->key[2 - i / 8] >> 8 * (i % 8) & 0xff;
}

/* By the bytes of the key that differ, the lowest first. */
static void sort_by_bytes(struct sorter *s)
{
	uint64_t differs[3] = { 0 };

	for (size_t i = 1; i < s->n_entries; i++)
		for (unsigned k = 0; k < 3; k++)
			differs[k] |= s->entries[i].key[k] ^ s->entries[0].key[k];
	for (unsigned b = 0; b < 24; b++) {
		size_t at[256] = { 0 }, sum = 0;
		struct entry *from = s->entries;

		if (!(differs[2 - b / 8] >> 8 * (b % 8) & 0xff))
			continue;
		for (size_t i = 0; i < s->n_entries; i++)
			at[key_byte(&from[i], b)]++;
		for (unsigned i = 0; i < 256; i++) {
			size_t n = at[i];

			at[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < s->n_entries; i++)
			s->other[at[key_byte(&from[i], b)]++] = from[i];
		s->entries = s->other;
		s->other = from;
	}
}

static int sort_entries(struct sorter *s)
{
	if (is_sorted(s))
		return 0;
	if (!s->other)
		s->other = reallocarray(NULL, s->max_entries, sizeof(*s->other));
	if (!s->other)
		return -AUX_E_NOMEM;
	sort_by_bytes(s);
	return 0;
}

/* ---- the file ---- */

static int add_to_file(struct sorter *s, const uint8_t *p, size_t n)
{
	int err;

	if (s->fd < 0)
		s->fd = export_temp_file();
	if (s->fd < 0)
		return -AUX_E_IO;
	err = export_write_at(s->fd, p, n, s->file_size);
	s->file_size += n;
	return err;
}

/* Sorts what is in memory, and stores it as a part. */
static int store_part(struct sorter *s)
{
	uint8_t buf[READ_SIZE + HEAD + SORTER_DATA];
	uint64_t start = s->file_size;
	size_t n = 0;
	int err = sort_entries(s);

	if (!err && array_grow(&s->parts, s->n_parts, &s->max_parts, sizeof(*s->parts)))
		err = -AUX_E_NOMEM;
	for (size_t i = 0; i < s->n_entries && !err; i++) {
		const struct entry *e = &s->entries[i];

		memcpy(buf + n, e->key, sizeof(e->key));
		memcpy(buf + n + sizeof(e->key), &e->len, sizeof(e->len));
		if (e->len)	/* there may be no buffer: indexes have keys alone */
			memcpy(buf + n + HEAD, s->buf + e->at, e->len);
		n += HEAD + e->len;
		if (n < READ_SIZE)
			continue;
		err = add_to_file(s, buf, n);
		n = 0;
	}
	if (!err && n)
		err = add_to_file(s, buf, n);
	if (err)
		return err;
	s->parts[s->n_parts++] = (struct part){ .at = start, .end = s->file_size };
	s->n = s->n_entries = 0;
	return 0;
}

int sorter_put(struct sorter *s, const struct sorter_item *item)
{
	struct entry *e;
	int err = item->len > SORTER_DATA ? -AUX_E_INVAL : 0;

	if (!err && s->n + item->len + (s->n_entries + 1) * 2 * sizeof(*e) > s->memory &&
	    s->n_entries)
		err = store_part(s);
	if (!err && array_grow(&s->entries, s->n_entries, &s->max_entries, sizeof(*e)))
		err = -AUX_E_NOMEM;
	while (!err && s->max - s->n < item->len)
		if (array_grow(&s->buf, s->max, &s->max, 1))
			err = -AUX_E_NOMEM;
	if (err)
		return err;
	e = &s->entries[s->n_entries++];
	memcpy(e->key, item->key, sizeof(e->key));
	e->at = (uint32_t)s->n;
	e->len = item->len;
	if (item->len)
		memcpy(s->buf + s->n, item->data, item->len);
	s->n += item->len;
	return 0;
}

/* ---- reading ---- */

/* Reads on, so that a whole record is in the part's buffer, if there is one more. */
static int fill_part(struct sorter *s, struct part *p)
{
	size_t room;

	memmove(p->buf, p->buf + p->pos, p->n - p->pos);
	p->n -= p->pos;
	p->pos = 0;
	room = READ_SIZE - p->n;
	if (room > p->end - p->at)
		room = p->end - p->at;
	while (room) {
		ssize_t r = pread(s->fd, p->buf + p->n, room, (off_t)p->at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -AUX_E_IO;
		p->n += (size_t)r;
		p->at += (uint64_t)r;
		room -= (size_t)r;
	}
	return 0;
}

static int next_of_part(struct sorter *s, struct part *p)
{
	int err = 0;

	p->has_item = false;
	if (p->n - p->pos < HEAD + SORTER_DATA && p->at < p->end)
		err = fill_part(s, p);
	if (err || p->pos == p->n)
		return err;
	memcpy(p->item.key, p->buf + p->pos, sizeof(p->item.key));
	memcpy(&p->item.len, p->buf + p->pos + sizeof(p->item.key), sizeof(p->item.len));
	p->item.data = p->buf + p->pos + HEAD;
	p->pos += HEAD + p->item.len;
	p->has_item = true;
	return 0;
}

/* The part at i may be greater than those below it. */
static void sift_down(struct sorter *s, size_t i)
{
	struct part *p = s->heap[i];

	for (;;) {
		size_t k = 2 * i + 1;

		if (k >= s->n_heap)
			break;
		if (k + 1 < s->n_heap &&
		    is_less(s->heap[k + 1]->item.key, s->heap[k]->item.key))
			k++;
		if (!is_less(s->heap[k]->item.key, p->item.key))
			break;
		s->heap[i] = s->heap[k];
		i = k;
	}
	s->heap[i] = p;
}

static int start_reading(struct sorter *s)
{
	int err;

	s->reading = true;
	if (!s->n_parts)
		return sort_entries(s);
	err = s->n_entries ? store_part(s) : 0;
	free(s->buf);
	free(s->entries);
	free(s->other);
	s->buf = NULL;
	s->entries = s->other = NULL;
	s->heap = reallocarray(NULL, s->n_parts, sizeof(struct part *));
	if (!err && !s->heap)
		err = -AUX_E_NOMEM;
	for (size_t i = 0; i < s->n_parts && !err; i++) {
		struct part *p = &s->parts[i];

		p->buf = malloc(READ_SIZE);
		err = p->buf ? next_of_part(s, p) : -AUX_E_NOMEM;
		s->heap[s->n_heap++] = p;
	}
	for (size_t i = s->n_heap / 2; i-- > 0 && !err;)
		sift_down(s, i);
	return err;
}

int sorter_next(struct sorter *s, struct sorter_item *item)
{
	int err = s->reading ? 0 : start_reading(s);
	const struct entry *e;

	if (err)
		return err;
	if (s->n_parts) {
		/* the item that was given last is no longer needed */
		if (s->next++ && s->n_heap) {
			err = next_of_part(s, s->heap[0]);
			if (err)
				return err;
			if (!s->heap[0]->has_item)
				s->heap[0] = s->heap[--s->n_heap];
			if (s->n_heap)
				sift_down(s, 0);
		}
		if (!s->n_heap)
			return 0;
		*item = s->heap[0]->item;
		return 1;
	}
	if (s->next == s->n_entries)
		return 0;
	e = &s->entries[s->next++];
	*item = (struct sorter_item){ .data = s->buf + e->at, .len = e->len };
	memcpy(item->key, e->key, sizeof(e->key));
	return 1;
}
