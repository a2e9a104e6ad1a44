/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is in a file that the recorder made of fakekernel.h's rings, held against
 * a pattern in which each byte of AUX tells its place.
 */
#ifndef TESTS_UNIT_FAKEKERNEL_FILE_H
#define TESTS_UNIT_FAKEKERNEL_FILE_H

#include <stdlib.h>
#include <string.h>
#include <linux/perf_event.h>

#include <aux/extension.h>
#include <aux/perfdata.h>

#include "tests/unit/tap.h"
#include "tests/unit/writer_file.h"

#define N_RINGS 4	/* at most */
#define TRAILER 32	/* tid, time, cpu, identifier */

/* Never zero, as padding is. */
static uint8_t pattern(uint32_t ring, uint64_t n)
{
	return (uint8_t)((n * 2654435761u >> 11) + ring * 37) | 1;
}

struct found {
	uint64_t n_of[128];	/* records by type, those of the kernel */
	uint64_t last_time[N_RINGS];
	bool in_order;
	uint64_t n_chunks, bytes;
	uint64_t at[N_RINGS];	/* the stream's end so far */
	uint64_t gaps;		/* bytes of streams between chunks */
	bool true_bytes, padded;
	uint64_t n_own[8];
	struct aux_own_loss loss;	/* the last */
	struct aux_own_snapshot snap[8];
	char label[64];		/* the last one's */
	uint64_t first_own_at;	/* records of the kernel before the label */
};

/* Where the kernel had made each chunk, if not at its offset. */
static const uint64_t *made_at;

static void found_chunk(struct found *w, const uint8_t *p)
{
	uint64_t size, offset, i, from;
	uint32_t idx;

	memcpy(&size, p + 8, 8);
	memcpy(&offset, p + 16, 8);
	memcpy(&idx, p + 32, 4);
	w->padded &= size % 8 == 0;
	from = made_at ? made_at[w->n_chunks] : offset;
	w->n_chunks++;
	if (idx >= N_RINGS || offset < w->at[idx]) {
		w->in_order = false;
		return;
	}
	w->gaps += offset - w->at[idx];
	/* size has the padding, zeros, which the pattern never is */
	for (i = 0; i < size && p[48 + i]; i++)
		w->true_bytes &= p[48 + i] == pattern(idx, from + i);
	w->bytes += i;
	w->at[idx] = offset + i;
	w->padded &= size - i < 8;
	for (; i < size; i++)
		w->padded &= !p[48 + i];
}

static void found_own(struct found *w, const uint8_t *p)
{
	struct aux_own_record own;

	memcpy(&own, p + 8, sizeof(own));
	if (own.magic != AUX_OWN_MAGIC || own.kind >= 8)
		return;
	w->n_own[own.kind]++;
	if (own.kind == AUX_OWN_LOSS)
		memcpy(&w->loss, p + 24, sizeof(w->loss));
	if (own.kind == AUX_OWN_SNAPSHOT) {
		struct aux_own_snapshot *s =
			&w->snap[(w->n_own[own.kind] - 1) % 8];

		memcpy(s, p + 24, sizeof(*s));
		snprintf(w->label, sizeof(w->label), "%.*s", (int)s->label_len,
			 (const char *)p + 24 + sizeof(*s));
		w->first_own_at = w->n_of[PERF_RECORD_AUX];
	}
}

static void found_record(struct found *w, const struct perf_event_header *h,
			 const uint8_t *p)
{
	uint64_t t[4];

	w->n_of[h->type]++;
	if (h->size < sizeof(*h) + TRAILER)
		return;
	memcpy(t, p + h->size - TRAILER, TRAILER);
	if (t[2] >= N_RINGS || t[1] <= w->last_time[t[2]])
		w->in_order = false;
	else
		w->last_time[t[2]] = t[1];
}

static struct found look(struct file *f)
{
	struct found w = { .in_order = true, .true_bytes = true,
			   .padded = true };
	uint64_t pos = u64_at(f, 40), stop = pos + u64_at(f, 48), size;
	struct perf_event_header h;

	for (; pos + sizeof(h) <= stop && stop <= f->len; pos += h.size) {
		memcpy(&h, f->data + pos, sizeof(h));
		if (h.size < sizeof(h) || h.size % 8)
			break;
		if (h.type == AUX_RECORD_AUXTRACE) {
			memcpy(&size, f->data + pos + 8, 8);
			found_chunk(&w, f->data + pos);
			pos += size;
		} else if (h.type == AUX_RECORD_EVENT_TYPE) {
			found_own(&w, f->data + pos);
		} else if (h.type < 64) {
			found_record(&w, &h, f->data + pos);
		}
	}
	ok(pos == stop && f->len, "the file is whole records");
	free(f->data);
	return w;
}

#endif
