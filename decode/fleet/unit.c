/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Units of work: see fleet.h. A recording is known by what it holds: its size, its head,
 * and of each stream the sizes and places of its AUX records and its first bytes. That is
 * read in no time, and two recordings that agree in all of it are copies.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/sha256.h"
#include "decode/fleet/fleet.h"

#define HEAD 4096	/* bytes of each stream */

char *fleet_unit_text(char text[FLEET_NAME], const struct fleet_unit *u)
{
	if (u->whole)
		snprintf(text, FLEET_NAME, "%s", u->id);
	else if (u->chunk_to == FLEET_END)
		snprintf(text, FLEET_NAME, "%s.%" PRIu32 ".%" PRIu64 "-", u->id, u->stream,
			 u->chunk_from);
	else
		snprintf(text, FLEET_NAME, "%s.%" PRIu32 ".%" PRIu64 "-%" PRIu64, u->id,
			 u->stream, u->chunk_from, u->chunk_to);
	return text;
}

/* Digits up to a character that is not one; NULL: there are none, or too many. */
static const char *read_number(const char *s, uint64_t max, uint64_t *v)
{
	const char *p = s;

	for (*v = 0; *p >= '0' && *p <= '9'; p++) {
		if (*v > (max - (uint64_t)(*p - '0')) / 10)
			return NULL;
		*v = *v * 10 + (uint64_t)(*p - '0');
	}
	return p == s ? NULL : p;
}

int fleet_unit_parse(struct fleet_unit *u, const char *text)
{
	uint64_t stream;
	const char *p = text + FLEET_ID;

	*u = (struct fleet_unit){ .whole = true };
	if (strspn(text, "0123456789abcdef") != FLEET_ID)
		return -AUX_E_INVAL;
	memcpy(u->id, text, FLEET_ID);
	if (!*p)
		return 0;
	u->whole = false;
	p = *p == '.' ? read_number(p + 1, UINT32_MAX, &stream) : NULL;
	p = p && *p == '.' ? read_number(p + 1, FLEET_END - 1, &u->chunk_from) : NULL;
	if (!p || *p != '-')
		return -AUX_E_INVAL;
	u->stream = (uint32_t)stream;
	u->chunk_to = FLEET_END;
	if (!p[1])
		return 0;
	p = read_number(p + 1, FLEET_END - 1, &u->chunk_to);
	return p && !*p && u->chunk_to >= u->chunk_from ? 0 : -AUX_E_INVAL;
}

bool fleet_unit_overlap(const struct fleet_unit *a, const struct fleet_unit *b)
{
	if (strcmp(a->id, b->id))
		return false;
	return a->whole || b->whole ||
	       (a->stream == b->stream && a->chunk_from <= b->chunk_to &&
		b->chunk_from <= a->chunk_to);
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

int fleet_unit_compare(const struct fleet_unit *a, const struct fleet_unit *b)
{
	int rc = strcmp(a->id, b->id);

	if (!rc)
		rc = compare(!a->whole, !b->whole);
	if (!rc)
		rc = compare(a->stream, b->stream);
	if (!rc)
		rc = compare(a->chunk_from, b->chunk_from);
	return rc ? rc : compare(a->chunk_to, b->chunk_to);
}

/* ---- what a recording is known by ---- */

static void add_number(struct sha256 *h, uint64_t v)
{
	uint8_t b[8];

	for (unsigned i = 0; i < 8; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	sha256_update(h, b, sizeof(b));
}

static void add_text(struct sha256 *h, const char *s)
{
	sha256_update(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void add_queue(struct sha256 *h, const struct queue *q)
{
	uint64_t left = HEAD;

	add_number(h, q->idx);
	add_number(h, (uint64_t)(int64_t)q->cpu);
	add_number(h, (uint64_t)(int64_t)q->tid);
	for (size_t i = 0; i < q->n_pieces; i++) {
		const struct piece *p = &q->pieces[i];
		uint64_t n = p->len < left ? p->len : left;

		add_number(h, p->len);
		add_number(h, p->reference);
		sha256_update(h, p->data, n);
		left -= n;
	}
}

void fleet_recording_id(char id[FLEET_ID + 1], const struct session *s)
{
	const struct aux_file_info *info = aux_reader_info(session_reader(s));
	const struct chunks *c = session_chunks(s);
	struct sha256 h;
	char text[65];

	sha256_init(&h);
	add_number(&h, info->size);
	add_number(&h, info->data_size);
	add_text(&h, info->container);
	add_text(&h, info->hostname);
	add_text(&h, info->os_release);
	add_text(&h, info->cmdline);
	add_number(&h, c->trace_type);
	for (uint32_t i = 0; i < c->n_metadata; i++)
		add_number(&h, c->metadata[i]);
	for (size_t i = 0; i < c->n; i++)
		add_queue(&h, &c->queues[i]);
	sha256_final(&h, text);
	memcpy(id, text, FLEET_ID);
	id[FLEET_ID] = '\0';
}

/* ---- what to do ---- */

struct plan {
	struct fleet_unit *v;
	size_t n, cap;
	char id[FLEET_ID + 1];
};

static int add_unit(struct plan *p, const struct fleet_unit *u)
{
	if (array_grow(&p->v, p->n, &p->cap, sizeof(*p->v)))
		return -AUX_E_NOMEM;
	p->v[p->n] = *u;
	memcpy(p->v[p->n++].id, p->id, sizeof(p->id));
	return 0;
}

/* Units of one stream, as even as its chunks allow. The last goes on to the end, for a
 * stream may have more chunks than its bytes say: each break begins one. */
static int add_stream(struct plan *p, const struct stream *st, uint64_t unit_size)
{
	uint64_t n_chunks = st->n_bytes / FLEET_CHUNK + 1;
	uint64_t n = (st->n_bytes + unit_size - 1) / unit_size, from = 0;
	int rc = 0;

	n = !n ? 1 : n > n_chunks ? n_chunks : n;
	for (uint64_t i = 0; i < n && !rc; i++) {
		uint64_t to = i + 1 == n ? FLEET_END : n_chunks * (i + 1) / n - 1;
		struct fleet_unit u = {
			.stream = st->idx, .chunk_from = from, .chunk_to = to,
			.bytes = st->n_bytes / n + (i < st->n_bytes % n),
		};

		rc = add_unit(p, &u);
		from = to + 1;
	}
	return rc;
}

int fleet_plan(struct fleet_unit **units, size_t *n, struct session *s, uint64_t unit_size)
{
	const struct chunks *c = session_chunks(s);
	struct fleet_unit all = { .whole = true };
	const struct stream *st;
	struct plan p = { 0 };
	bool one = !unit_size || c->trace_type != AUX_TRACE_INTEL_PT;
	int rc = 0;

	fleet_recording_id(p.id, s);
	for (size_t i = 0; (st = session_stream(s, i)); i++)
		all.bytes += st->n_bytes;
	/* the chunks of CoreSight need those before them */
	one |= all.bytes <= unit_size;
	if (one)
		rc = add_unit(&p, &all);
	for (size_t i = 0; !one && !rc && (st = session_stream(s, i)); i++)
		rc = add_stream(&p, st, unit_size);
	if (rc)
		free(p.v);
	*units = rc ? NULL : p.v;
	*n = rc ? 0 : p.n;
	return rc;
}
