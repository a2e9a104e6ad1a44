/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * text: see text.h. The copy loops are what printing costs: one line takes a
 * handful of loads and stores and no branch that depends on its length, because
 * copies have a fixed size and may run past the end of a line (TEXT_PAD). What
 * they write too much is overwritten by the next line.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/sink/text.h"

#define PIECE ((size_t)64 << 10) /* bytes of output asked for at once */
#define LONG_LEAD 48

/* Lines into to. Leads are copied lead_room bytes at a time, lines room bytes;
 * if any may be longer, the rest follows. */
static inline __attribute__((always_inline)) char *
copy_lines(char *restrict to, const char *restrict lead, size_t lead_len,
	   const char *restrict from, const uint32_t *restrict len, size_t n,
	   size_t lead_room, size_t room, bool any)
{
	for (size_t i = 0; i < n; i++) {
		memcpy(to, lead, lead_room);
		to += lead_len;
		memcpy(to, from, room);
		if (any && len[i] > room)
			memcpy(to + room, from + room, len[i] - room);
		to += len[i];
		from += len[i];
	}
	return to;
}

/* Chooses the copy size by the longest line (max). Each call is inlined with
 * constants: four loops, without a test in them. */
static inline __attribute__((always_inline)) char *
copy_by_room(char *to, const char *lead, size_t lead_len, const char *from,
	     const uint32_t *len, size_t n, uint32_t max, size_t lead_room)
{
	if (max <= 16)
		return copy_lines(to, lead, lead_len, from, len, n, lead_room,
				  16, false);
	if (max <= 32)
		return copy_lines(to, lead, lead_len, from, len, n, lead_room,
				  32, false);
	if (max <= 64)
		return copy_lines(to, lead, lead_len, from, len, n, lead_room,
				  64, false);
	return copy_lines(to, lead, lead_len, from, len, n, lead_room, TEXT_PAD,
			  true);
}

/* A text too long for one piece of output, or a lead too long for the loops. */
static void put_pieces(struct outbuf *out, const char *lead, size_t lead_len,
		       const struct text *t, uint32_t n)
{
	const char *from = text_lines(t);

	for (uint32_t i = 0; i < n; i++) {
		outbuf_put(out, lead, lead_len);
		outbuf_put(out, from, t->len[i]);
		from += t->len[i];
	}
}

void text_put(struct outbuf *out, const char *lead, size_t lead_len,
	      const struct text *t, uint32_t n)
{
	const char *from = text_lines(t);
	size_t most = n * lead_len + t->size + TEXT_PAD + LONG_LEAD;
	char *to;

	if (lead_len > LONG_LEAD || most > PIECE) {
		put_pieces(out, lead, lead_len, t, n);
		return;
	}
	to = outbuf_room(out, most);
	if (!to)
		return;
	if (lead_len <= 16)
		to = copy_by_room(to, lead, lead_len, from, t->len, n, t->max,
				  16);
	else
		to = copy_by_room(to, lead, lead_len, from, t->len, n, t->max,
				  LONG_LEAD);
	out->p = to;
}

int text_maker_init(struct text_maker *m)
{
	m->lines = outbuf_new(-1);
	return m->lines ? 0 : -AUX_E_NOMEM;
}

void text_maker_fini(struct text_maker *m)
{
	outbuf_free(m->lines);
	free(m->len);
}

void text_maker_reset(struct text_maker *m)
{
	m->lines->p = m->lines->buf;
	m->n = m->n_left_out = m->start = 0;
}

/* Room for n lengths. Doubles by hand: n may be far ahead
 * (text_maker_append). */
static int grow_lines(struct text_maker *m, size_t n)
{
	size_t max = m->max_n ? m->max_n : 64;
	uint32_t *len;

	while (max < n)
		max *= 2;
	if (max == m->max_n)
		return 0;
	len = realloc(m->len, max * sizeof(*len));
	if (!len)
		return -AUX_E_NOMEM;
	m->len = len;
	m->max_n = max;
	return 0;
}

int text_maker_end_line(struct text_maker *m)
{
	size_t end = (size_t)(m->lines->p - m->lines->buf);

	if (outbuf_failed(m->lines) || end - m->start > UINT32_MAX ||
	    grow_lines(m, m->n + 1))
		return -AUX_E_NOMEM;
	m->len[m->n++] = (uint32_t)(end - m->start);
	m->start = end;
	return 0;
}

/* Appends the lines of a finished text as they are. */
int text_maker_append(struct text_maker *m, const struct text *t)
{
	outbuf_put(m->lines, text_lines(t), t->size);
	if (outbuf_failed(m->lines) || grow_lines(m, m->n + t->n))
		return -AUX_E_NOMEM;
	memcpy(m->len + m->n, t->len, t->n * sizeof(*t->len));
	m->n += t->n;
	m->n_left_out += t->n_left_out;
	m->start += t->size;
	return 0;
}

size_t text_maker_size(const struct text_maker *m)
{
	if (outbuf_failed(m->lines) || m->start > UINT32_MAX / 2 ||
	    m->n + m->n_left_out > UINT32_MAX / 8)
		return 0;
	return sizeof(struct text) + m->n * sizeof(*m->len) + m->start +
	       TEXT_PAD;
}

struct text *text_maker_write(const struct text_maker *m, void *at)
{
	struct text *t = at;

	*t = (struct text){ .n = (uint32_t)m->n,
			    .n_left_out = (uint32_t)m->n_left_out,
			    .size = (uint32_t)m->start };
	for (size_t i = 0; i < m->n; i++) {
		t->len[i] = m->len[i];
		if (m->len[i] > t->max)
			t->max = m->len[i];
	}
	memcpy(t->len + m->n, m->lines->buf, m->start);
	return t;
}

size_t text_maker_size_whole(const struct text_maker *m, size_t lead_len)
{
	size_t size = m->start + m->n * lead_len;

	if (!text_maker_size(m) || size > UINT32_MAX / 2)
		return 0;
	return sizeof(struct text_whole) + size;
}

struct text_whole *text_maker_write_whole(const struct text_maker *m, void *at,
					  const char *lead, size_t lead_len)
{
	struct text_whole *t = at;
	const char *from = m->lines->buf;
	char *to = t->lines;

	for (size_t i = 0; i < m->n; i++) {
		memcpy(to, lead, lead_len);
		memcpy(to + lead_len, from, m->len[i]);
		to += lead_len + m->len[i];
		from += m->len[i];
	}
	t->n = (uint32_t)m->n;
	t->n_left_out = (uint32_t)m->n_left_out;
	t->size = (uint32_t)(to - t->lines);
	return t;
}

void text_store_init(struct text_store *s, size_t size)
{
	*s = (struct text_store){ .size = size };
}

void text_store_fini(struct text_store *s)
{
	free(s->base);
}

bool text_store_has_room(const struct text_store *s, size_t n)
{
	return n <= s->size - s->used;
}

/* A new epoch forgets all texts at once: users compare the epoch that they
 * hold. */
void *text_store_get(struct text_store *s, size_t n)
{
	void *at;

	n = (n + 15) & ~(size_t)15;
	if (n > s->size)
		return NULL;
	if (!s->base) {
		s->base = malloc(s->size);
		if (!s->base)
			return NULL;
		s->epoch = 1;
	}
	if (n > s->size - s->used) {
		s->used = 0;
		s->epoch++;
	}
	at = s->base + s->used;
	s->used += n;
	return at;
}

/*
 * ---- texts of whole paths ----
 *
 * The store is small, so that what is in it stays in the cache. Paths enter
 * after min_visits visits; each time the store is full it is emptied and
 * min_visits doubles, so that in a large program only what comes very often is
 * kept.
 */

#define PATH_BYTES ((size_t)16 << 20)

uint32_t text_needs(const char *fields)
{
	bool offsets = fields && strstr(fields, "offset");

	return SINK_NEEDS_TIME | SINK_TAKES_PATHS |
	       (offsets ? SINK_EXACT_OFFSETS : 0);
}

int text_paths_init(struct text_paths *t, const struct columns *c)
{
	text_store_init(&t->store, PATH_BYTES);
	t->min_visits = 4;
	t->steady =
		!(c->has & (COLUMN_BIT(COL_TIME) | COLUMN_BIT(COL_OFFSET)));
	return text_maker_init(&t->maker);
}

void text_paths_fini(struct text_paths *t)
{
	text_store_fini(&t->store);
	text_maker_fini(&t->maker);
}

static size_t lead_len(const struct lead *l)
{
	return (size_t)(l->text->p - l->text->buf);
}

/* A steady lead (no time, no offset) was copied into the text itself; it is of
 * use only for just that lead. */
bool text_paths_put(struct text_paths *t, struct outbuf *out, struct lead *lead,
		    const struct text_ends *ends, struct sink_report *report)
{
	const struct text_whole *whole = (const void *)(ends + 1);
	const struct text *text = (const void *)(ends + 1);

	if (!t->steady) {
		text_put(out, lead->text->buf, lead_len(lead), text, text->n);
		report->n_lines += text->n;
		report->n_filtered += text->n_left_out;
		return true;
	}
	if (whole->lead != lead_id(lead))
		return false;
	outbuf_put(out, whole->lines, whole->size);
	report->n_lines += whole->n;
	report->n_filtered += whole->n_left_out;
	return true;
}

bool text_paths_is_due(struct text_paths *t, struct aux_path *path)
{
	return path->kept && ++path->user[2] >= t->min_visits;
}

/* Room of that size: where the path's text of another lead was, or new. NULL:
 * none. */
static struct text_ends *find_place(struct text_paths *t,
				    const struct aux_path *path, size_t size)
{
	struct text_ends *old = text_store_find(&t->store, path->user);
	const struct text_whole *whole;

	if (t->steady && old) {
		whole = (const void *)(old + 1);
		if (sizeof(*whole) + whole->size >= size)
			return old;
	}
	size += sizeof(*old);
	if (!text_store_has_room(&t->store, size))
		t->min_visits *= 2;
	return text_store_get(&t->store, size);
}

void text_paths_keep(struct text_paths *t, struct lead *lead,
		     struct aux_path *path)
{
	const struct aux_step *step = path->steps[path->n_steps - 1];
	size_t size = t->steady ? text_maker_size_whole(&t->maker,
							lead_len(lead))
				: text_maker_size(&t->maker);
	struct text_ends *at = size ? find_place(t, path, size) : NULL;

	if (!at)
		return;
	if (t->steady)
		text_maker_write_whole(&t->maker, at + 1, lead->text->buf,
				       lead_len(lead))
			->lead = lead_id(lead);
	else
		text_maker_write(&t->maker, at + 1);
	at->first = path->steps[0]->ranges[0].range.first;
	at->last = step->ranges[step->n_ranges - 1];
	path->user[0] = t->store.epoch;
	path->user[1] = (uintptr_t)at;
}
