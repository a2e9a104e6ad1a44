/* SPDX-License-Identifier: BSD-2-Clause */
/* Units of work: see fleet.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "decode/fleet/fleet.h"

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

const char *fleet_number(const char *s, uint64_t max, uint64_t *v)
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
	p = *p == '.' ? fleet_number(p + 1, UINT32_MAX, &stream) : NULL;
	p = p && *p == '.' ? fleet_number(p + 1, FLEET_END - 1, &u->chunk_from) : NULL;
	if (!p || *p != '-')
		return -AUX_E_INVAL;
	u->stream = (uint32_t)stream;
	u->chunk_to = FLEET_END;
	if (!p[1])
		return 0;
	p = fleet_number(p + 1, FLEET_END - 1, &u->chunk_to);
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

void fleet_recording_id(char id[FLEET_ID + 1], const struct session *s)
{
	snprintf(id, FLEET_ID + 1, "%016" PRIx64, session_identity(s));
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
