/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Saved code bytes as AUX_OWN_CODE records.
 *
 * A program that generates code for hours must not fill our memory or the file:
 * tables of fixed size remember where equal bytes may already be, by a hash of
 * 128 bits with a random key, and what was said last of a range. Invariant: a
 * record is left out only when no later one, no mapping, exec or fork, may have
 * touched its range since it was written.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "perfdata/impl.h"

#define N_SEEN 8192	/* powers of two */
#define N_RANGES 8192
#define N_PAGES 65536
#define N_PIDS 1024
#define PAGE_SHIFT 12

struct hash {
	uint64_t a, b;
};

struct seen {
	struct hash hash;
	uint64_t len;	/* 0: free */
	uint64_t blob;
};

struct range {
	uint64_t addr, len;	/* 0: free */
	uint64_t blob;
	uint64_t seq;
	uint32_t pid, kind;
};

struct writer_codes {
	struct hash key;
	uint64_t n_blobs;
	uint64_t seq;		/* of the last record or note */
	struct seen seen[N_SEEN];
	struct range ranges[N_RANGES];
	/* by hash of pid and page, of pid: when something there changed last */
	uint64_t pages[N_PAGES];
	uint64_t pids[N_PIDS];
};

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0xff51afd7ed558ccd;
	return h ^ h >> 32;
}

static struct hash hash_bytes(struct hash h, const uint8_t *p, uint64_t len)
{
	uint64_t word;

	h.a = mix(h.a, len);
	for (; len; p += sizeof(word), len -= sizeof(word)) {
		word = 0;
		if (len < sizeof(word)) {
			memcpy(&word, p, len);
			len = sizeof(word);
		} else {
			memcpy(&word, p, sizeof(word));
		}
		h.a = mix(h.a, word);
		h.b = (h.b ^ word) * 0x9e3779b97f4a7c15;
		h.b ^= h.b >> 29;
	}
	return h;
}

struct writer_codes *writer_codes_new(struct writer *w, uint64_t a, uint64_t b)
{
	w->codes = calloc(1, sizeof(*w->codes));
	if (w->codes)
		w->codes->key = (struct hash){ a, b };
	else
		writer_fail(w, AUX_E_NOMEM, "%s: out of memory", w->path);
	return w->codes;
}

static struct writer_codes *get_codes(struct writer *w)
{
	uint64_t key[2];

	if (w->codes)
		return w->codes;
	if (getrandom(key, sizeof(key), GRND_NONBLOCK) < 0) {
		key[0] = (uint64_t)time(NULL);
		key[1] = (uint64_t)(uintptr_t)w;
	}
	return writer_codes_new(w, key[0], key[1]);
}

void writer_codes_free(struct writer_codes *c)
{
	free(c);
}

static uint64_t *page_slot(struct writer_codes *c, uint32_t pid, uint64_t page)
{
	return &c->pages[mix(page * 0x9e3779b97f4a7c15, pid) & (N_PAGES - 1)];
}

static uint64_t *pid_slot(struct writer_codes *c, uint32_t pid)
{
	return &c->pids[mix(0, pid) & (N_PIDS - 1)];
}

void writer_codes_note(struct writer *w, const struct perf_event_header *rec)
{
	uint32_t pid;

	if (!w->codes || rec->size < sizeof(*rec) + sizeof(pid))
		return;
	switch (rec->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		memcpy(&pid, rec + 1, sizeof(pid));
		*pid_slot(w->codes, pid) = ++w->codes->seq;
	}
}

/* Nothing has touched the range since r was written. */
static bool still_holds(struct writer_codes *c, const struct range *r)
{
	uint64_t page = r->addr >> PAGE_SHIFT;
	uint64_t last = (r->addr + r->len - 1) >> PAGE_SHIFT;

	if (*pid_slot(c, r->pid) > r->seq)
		return false;
	for (; page <= last; page++)
		if (*page_slot(c, r->pid, page) > r->seq)
			return false;
	return true;
}

static void touch(struct writer_codes *c, const struct range *r)
{
	uint64_t page = r->addr >> PAGE_SHIFT;
	uint64_t last = (r->addr + r->len - 1) >> PAGE_SHIFT;

	for (; page <= last; page++)
		*page_slot(c, r->pid, page) = r->seq;
}

static struct range *range_slot(struct writer_codes *c,
				const struct aux_own_code *e)
{
	uint64_t h = mix(mix(mix(c->key.a, e->addr), e->len), e->pid);

	return &c->ranges[h & (N_RANGES - 1)];
}

/* One record, at most AUX_OWN_CODE_MAX bytes. */
static int put_piece(struct writer *w, struct aux_own_code *e,
		     const uint8_t *bytes)
{
	struct writer_codes *c = w->codes;
	struct hash h = hash_bytes(c->key, bytes, bytes ? e->len : 0);
	struct seen *s = &c->seen[h.a & (N_SEEN - 1)];
	struct range *r = range_slot(c, e);
	bool known = s->len == e->len && s->hash.a == h.a && s->hash.b == h.b;

	if (e->kind == AUX_CODE_UNKNOWN) {
		e->blob = 0;
		*r = (struct range){ e->addr, e->len, 0, ++c->seq, e->pid,
				     e->kind };
		touch(c, r);
		return writer_append_own(w, AUX_OWN_CODE, e, sizeof(*e), NULL,
					 0);
	}
	if (!known)
		*s = (struct seen){ h, e->len, ++c->n_blobs };
	e->blob = s->blob;
	if (known && r->len == e->len && r->addr == e->addr &&
	    r->pid == e->pid && r->kind == e->kind && r->blob == e->blob &&
	    still_holds(c, r))
		return 0;
	*r = (struct range){ e->addr, e->len, e->blob, ++c->seq, e->pid,
			     e->kind };
	touch(c, r);
	return writer_append_own(w, AUX_OWN_CODE, e, sizeof(*e), bytes,
				 known ? 0 : e->len);
}

int writer_code(struct writer *w, const struct aux_code_entry *entry,
		const void *bytes)
{
	uint64_t at = 0;

	pthread_mutex_lock(&w->lock);
	if (get_codes(w) && !w->started)
		writer_start(w);
	while (!w->error && at < entry->len) {
		struct aux_own_code e = {
			.time_ns = entry->time_ns,
			.addr = entry->addr + at,
			.len = entry->len - at,
			.pid = entry->pid,
			.kind = entry->kind,
		};

		/* whole pages: pieces of one range do not touch each other */
		if (e.len > AUX_OWN_CODE_MAX)
			e.len = AUX_OWN_CODE_MAX -
				(e.addr & ((1 << PAGE_SHIFT) - 1));
		put_piece(w, &e, bytes ? (const uint8_t *)bytes + at : NULL);
		at += e.len;
	}
	return writer_leave(w);
}
