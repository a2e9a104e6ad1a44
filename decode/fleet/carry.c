/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is carried over the borders of units: see the head of fleet.h.
 *
 * A unit's sink gives each partial result of the session, in its order, to a row. Later the
 * rows of all units of a recording are joined as the session joins the partial results of
 * its workers (merge.c of session/): of the streams the one whose next stint has the lowest
 * key, of equal ones the first. A stint's key is the time where it begins; keys of a stream
 * never go back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/callstack/flowtree.h"
#include "decode/fleet/fleet.h"
#include "decode/fleet/squeeze.h"

/* ---- of a unit ---- */

/* Joining a byte takes half the time of decoding a byte of trace: where the pieces of a unit
 * become so much larger than their trace (code of a virtual machine that returns in ways of its
 * own), the others are left out, and the recording is decoded. */
#define MAX_TIMES 4
#define MAX_ANYWAY (32u << 20)
#define LEFT_OUT "-"	/* in place of its data */

struct carry {
	struct sink_env env;
	struct fleet_sink_config config;
	struct flowtree tree;	/* makes parts, and is never filled */
	struct outbuf *bytes;	/* of a piece, in memory */
	struct squeeze squeeze;
	uint32_t n_pieces;
	uint64_t n_bytes, n_trace;	/* of pieces, of their trace */
	bool left_out;	/* a piece was, so no others are needed */
};

static void close_carry(void *sink)
{
	struct carry *k = sink;

	if (!k)
		return;
	flowtree_fini(&k->tree);
	outbuf_free(k->bytes);
	squeeze_fini(&k->squeeze);
	free(k);
}

static int open_carry(void **sink, const struct sink_env *env, const void *config,
		      struct aux_diag *diag)
{
	struct carry *k = calloc(1, sizeof(*k));

	(void)diag;
	*sink = k;
	if (!k)
		return -AUX_E_NOMEM;
	k->env = *env;
	k->config = *(const struct fleet_sink_config *)config;
	k->bytes = outbuf_new(-1);
	k->tree.ticks = true;
	k->tree.keeps_short = true;
	return k->bytes ? flowtree_init(&k->tree, env->host, CALLTREE_PER_ALL, 0) : -AUX_E_NOMEM;
}

static bool begins_at_seam(const struct carry *k)
{
	const struct sink_host *host = k->env.host;
	struct sink_part part;

	for (size_t i = 0; host->part && host->part(host->priv, i, &part); i++)
		if (part.stream == k->config.unit->stream)
			return part.comes_from;
	return false;
}

/* The row of what is in bytes. In numbers of a fixed width, so that rows are in order. */
static int put_piece(struct carry *k)
{
	struct outbuf *out = k->env.out;
	const struct fleet_unit *u = k->config.unit;
	const struct fleet_kind *kind = k->config.kind;
	int rc = k->left_out ? 0 : squeeze(&k->squeeze, (const uint8_t *)k->bytes->buf,
					   (size_t)(k->bytes->p - k->bytes->buf));

	if (rc)
		return rc;
	outbuf_printf(out, FLEET_CARRIED "%s %010" PRIu32 " %020" PRIu64 " %010" PRIu32 " %d ",
		      u->id, u->stream, u->chunk_from, k->n_pieces,
		      !k->n_pieces && begins_at_seam(k));
	k->n_pieces++;
	if (k->left_out)
		outbuf_str(out, LEFT_OUT);
	else
		outbuf_base64(out, k->squeeze.bytes, k->squeeze.n);
	for (unsigned i = 1; i < kind->n_keys; i++)
		outbuf_str(out, "\t-");
	for (unsigned i = 0; i < kind->n_values; i++)
		outbuf_str(out, "\t0");
	outbuf_str(out, "\n");
	return 0;
}

static int save_part(struct carry *k, void *part, uint32_t stint)
{
	uint64_t span = flowpart_span(part);
	bool known = k->left_out;
	int rc;

	k->bytes->p = k->bytes->buf;
	rc = flowpart_save(part, stint, k->bytes);
	if (rc > 0) {
		k->n_bytes += (uint64_t)(k->bytes->p - k->bytes->buf);
		k->n_trace += span;
	}
	k->left_out |= k->n_bytes > MAX_ANYWAY && k->n_bytes / MAX_TIMES > k->n_trace;
	if (rc > 0 && !known)
		rc = put_piece(k);
	if (rc == -AUX_E_UNSUPPORTED)
		snprintf(k->env.report->error, sizeof(k->env.report->error), "its calls cannot "
			 "be carried over the borders of units: plan it as one, with a larger "
			 "--unit-size");
	return rc < 0 ? rc : 0;
}

static int new_carry_part(void **part, const void *sink)
{
	const struct carry *k = sink;

	return flowpart_new(part, &k->tree);
}

static int join_carry(void *sink, void *part, uint32_t stint)
{
	return save_part(sink, part, stint);
}

/* A GAP between chunks, which is in no partial result. */
static int flow_carry(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev, size_t n)
{
	struct carry *k = sink;
	void *part;
	int rc = flowpart_new(&part, &k->tree);

	if (!rc)
		rc = flowpart_flow(part, 0, ctx, ev, n);
	if (!rc)
		rc = flowpart_end(part);
	if (!rc)
		rc = save_part(k, part, 0);
	flowpart_free(part);
	return rc;
}

static int finish_carry(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

const struct sink_ops fleet_sink_carry = {
	.name = "map",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES | SINK_OWN_FORMAT |
		 FLOWPART_NEEDS | SINK_OF_UNITS,
	.open = open_carry, .flow = flow_carry, .finish = finish_carry, .close = close_carry,
	.partial_new = new_carry_part, .partial_flow = flowpart_flow,
	.partial_end = flowpart_end, .partial_bytes = flowpart_bytes,
	.partial_join = join_carry, .partial_free = flowpart_free,
};

/* ---- of all units ---- */

struct carried_piece {
	char id[FLEET_ID + 1];
	bool seam, left_out;
	uint32_t stream, number;
	uint64_t chunk;
	off_t at;	/* of its row */
};

struct fleet_carried {
	FILE *rows;
	const struct fleet_head *head;
	struct carried_piece *v;	/* by recording, stream, and then in order */
	size_t n, cap;
};

static int refuse(const struct fleet_carried *c, const struct carried_piece *p,
		  struct aux_diag *diag)
{
	const struct fleet_unit *u = fleet_head_find(c->head, p->id, p->stream, p->chunk);
	char name[FLEET_NAME];

	return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET, "what is carried from unit to unit is "
			"damaged in the part of %s: map it again",
			u ? fleet_unit_text(name, u) : "a unit that is not known");
}

/* A number and a blank; NULL: there are none. */
static const char *take(const char *s, uint64_t max, uint64_t *v)
{
	s = s ? fleet_number(s, max, v) : NULL;
	return s && *s == ' ' ? s + 1 : NULL;
}

/* What a line says of its piece; the data, or NULL: it says something else. */
static const char *parse(struct carried_piece *p, const char *line)
{
	const char *s = line + strlen(FLEET_CARRIED);
	uint64_t stream, number, seam;

	if (strspn(s, "0123456789abcdef") != FLEET_ID || s[FLEET_ID] != ' ')
		return NULL;
	memcpy(p->id, s, FLEET_ID);
	p->id[FLEET_ID] = '\0';
	s = take(s + FLEET_ID + 1, UINT32_MAX, &stream);
	s = take(s, FLEET_END - 1, &p->chunk);
	s = take(s, UINT32_MAX, &number);
	s = take(s, 1, &seam);
	if (!s)
		return NULL;
	p->stream = (uint32_t)stream;
	p->number = (uint32_t)number;
	p->seam = seam;
	p->left_out = *s == *LEFT_OUT;
	return s;
}

static bool is_carried(const struct fleet_row *row)
{
	return !strncmp(row->line, FLEET_CARRIED, strlen(FLEET_CARRIED));
}

/* Of a unit there are all pieces up to the last, in order, and so are units. */
static bool follows(const struct fleet_carried *c, const struct carried_piece *p)
{
	const struct carried_piece *last = c->n ? &c->v[c->n - 1] : NULL;
	int rc = last ? strcmp(last->id, p->id) : -1;

	if (!rc && last->stream == p->stream && last->chunk == p->chunk)
		return p->number == last->number + 1;
	if (p->number || !fleet_head_find(c->head, p->id, p->stream, p->chunk))
		return false;
	return rc < 0 || (!rc && (last->stream < p->stream ||
				  (last->stream == p->stream && last->chunk < p->chunk)));
}

static int take_row(struct fleet_carried *c, const struct fleet_row *row, off_t at,
		    struct aux_diag *diag)
{
	struct carried_piece p = { .at = at };

	if (at < 0 || !parse(&p, row->line) || !follows(c, &p))
		return refuse(c, &p, diag);
	return array_append(&c->v, &c->n, &c->cap, &p, sizeof(p)) ? -AUX_E_NOMEM : 0;
}

static int sort_rows(struct fleet_carried *c, struct outbuf *plain, struct aux_diag *diag)
{
	struct fleet_row row = { .line = NULL };
	off_t at = ftello(c->rows);
	int rc;

	while ((rc = fleet_row_read(&row, c->rows, c->head->kind, diag)) > 0) {
		if (!is_carried(&row))
			fleet_row_write(plain, &row, c->head->kind);
		else if ((rc = take_row(c, &row, at, diag)))
			break;
		at = ftello(c->rows);
	}
	fleet_row_fini(&row);
	return rc;
}

int fleet_carried_take(struct fleet_carried **out, FILE *rows, FILE **plain,
		       const struct fleet_head *head, struct aux_diag *diag)
{
	struct fleet_carried *c = calloc(1, sizeof(*c));
	struct outbuf *to = NULL;
	int rc = -AUX_E_NOMEM;

	*out = c;
	*plain = tmpfile();
	if (c && *plain)
		to = outbuf_new(fileno(*plain));
	if (to) {
		c->rows = rows;
		c->head = head;
		rc = sort_rows(c, to, diag);
	}
	if (!rc && (outbuf_flush(to) || fseeko(*plain, 0, SEEK_SET)))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot write a temporary file");
	outbuf_free(to);
	return rc;
}

void fleet_carried_free(struct fleet_carried *c)
{
	if (c)
		free(c->v);
	free(c);
}

const char *fleet_carried_id(const struct fleet_carried *c, size_t i)
{
	for (size_t k = 0; k < c->n; k++)
		if ((!k || strcmp(c->v[k - 1].id, c->v[k].id)) && !i--)
			return c->v[k].id;
	return NULL;
}

/* ---- joining ---- */

/* A stream of the recording: the part that is due, and those after it. */
struct lane {
	uint32_t stream;
	size_t next, end;	/* pieces */
	void *part;		/* NULL: none is left */
	uint32_t stint;
	uint64_t key;
	bool gap;		/* the last piece ended in one */
};

struct weave {
	const struct fleet_carried *c;
	const struct sink_ops *ops;
	void *sink;
	struct aux_diag *diag;
	struct lane *lanes;
	size_t n;
	struct fleet_row row;
	uint8_t *bytes;		/* of a piece, as they were squeezed */
	size_t cap;
	struct squeeze squeeze;
};

#define DECODE 1	/* what functions return where the trace itself is needed */

static int digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Bytes of base64 up to a tab; false: it is none. */
static bool decode_base64(struct weave *w, const char *s, size_t *n)
{
	signed char of[256];
	size_t len = strcspn(s, "\t");

	for (int i = 0; i < 256; i++)
		of[i] = (signed char)digit((char)i);
	*n = 0;
	if (!len || len % 4 || array_grow(&w->bytes, len, &w->cap, 1) < 0)
		return false;
	for (size_t i = 0; i < len; i += 4) {
		size_t pad = i + 4 < len || s[i + 3] != '=' ? 0 : s[i + 2] == '=' ? 2 : 1;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = k < 4 - pad ? of[(uint8_t)s[i + k]] : 0;

			if (d < 0)
				return false;
			v = v << 6 | (uint32_t)d;
		}
		for (size_t k = 0; k < 3 - pad; k++)
			w->bytes[(*n)++] = (uint8_t)(v >> (16 - 8 * k));
	}
	return true;
}

/* Reads the row of a piece, and makes it the lane's part. */
static int load_piece(struct weave *w, struct lane *l)
{
	const struct carried_piece *p = &w->c->v[l->next++];
	FILE *f = w->c->rows;
	struct carried_piece same;
	const char *data;
	size_t n;
	int rc;

	if (fseeko(f, p->at, SEEK_SET))
		return -AUX_E_IO;
	rc = fleet_row_read(&w->row, f, w->c->head->kind, w->diag);
	if (rc <= 0)
		return rc ? rc : refuse(w->c, p, w->diag);
	data = parse(&same, w->row.line);
	if (!data || !decode_base64(w, data, &n))
		return refuse(w->c, p, w->diag);
	rc = unsqueeze(&w->squeeze, w->bytes, n);
	if (!rc)
		rc = w->ops->partial_new(&l->part, w->sink);
	if (!rc)
		rc = flowpart_load(l->part, l->stream, w->squeeze.bytes, w->squeeze.n);
	if (rc == -AUX_E_UNSUPPORTED)
		return diag_set(w->diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET, "a part was written by "
				"another version of auxdecode, or by one that has zstd: map its "
				"unit again with this one");
	return rc == -AUX_E_FORMAT ? refuse(w->c, p, w->diag) : rc;
}

/* The key of what is due in the lane, after what it had. */
static int find_next(struct weave *w, struct lane *l)
{
	uint64_t ns;
	int rc = 0;

	while (l->part && !flowpart_next(l->part, &l->stint, &ns)) {
		w->ops->partial_free(l->part);
		l->part = NULL;
	}
	if (!l->part) {
		if (l->next == l->end)
			return 0;
		/* A gap where the trace goes on: one process begins anew there. */
		if (w->c->v[l->next].seam && l->gap)
			return DECODE;
		rc = load_piece(w, l);
		if (rc)
			return rc;
		l->gap = flowpart_ends_in_gap(l->part);
		flowpart_next(l->part, &l->stint, &ns);
	}
	if (ns > l->key)
		l->key = ns;
	return 0;
}

static int weave(struct weave *w)
{
	int rc = 0;

	for (size_t i = 0; i < w->n && !rc; i++)
		rc = find_next(w, &w->lanes[i]);
	while (!rc) {
		struct lane *first = NULL;

		for (size_t i = 0; i < w->n; i++)
			if (w->lanes[i].part && (!first || w->lanes[i].key < first->key))
				first = &w->lanes[i];
		if (!first)
			break;
		rc = w->ops->partial_join(w->sink, first->part, first->stint);
		if (rc == -AUX_E_UNSUPPORTED)
			rc = DECODE;
		if (!rc)
			rc = find_next(w, first);
	}
	return rc;
}

/* The lanes of a recording, in the order of the session's streams; DECODE: a piece was left
 * out. */
static int find_lanes(struct weave *w, const struct session *s, const char *id)
{
	const struct fleet_carried *c = w->c;
	const struct stream *st;

	for (size_t k = 0; k < c->n; k++)
		if (c->v[k].left_out && !strcmp(c->v[k].id, id))
			return DECODE;
	for (w->n = 0; session_stream(s, w->n); w->n++)
		;
	w->lanes = calloc(w->n + 1, sizeof(*w->lanes));
	if (!w->lanes)
		return -AUX_E_NOMEM;
	for (size_t i = 0; (st = session_stream(s, i)); i++) {
		struct lane *l = &w->lanes[i];
		size_t k = 0;

		l->stream = st->idx;
		while (k < c->n && (strcmp(c->v[k].id, id) || c->v[k].stream != st->idx))
			k++;
		l->next = l->end = k;
		while (l->end < c->n && !strcmp(c->v[l->end].id, id) &&
		       c->v[l->end].stream == st->idx)
			l->end++;
	}
	return 0;
}

/* Each stream has all of its units: where one is missing, it is not known what the next one
 * begins in. */
int fleet_carried_check(const struct fleet_carried *c, size_t n, const struct session *s,
			struct aux_diag *diag)
{
	const char *id = fleet_carried_id(c, n);
	const struct stream *st;

	for (size_t i = 0; (st = session_stream(s, i)); i++) {
		const struct fleet_unit *u;
		uint64_t chunk = 0;

		while (chunk <= FLEET_END && (u = fleet_head_find(c->head, id, st->idx, chunk)))
			chunk = u->chunk_to + 1;
		if (chunk != FLEET_END + 1)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "the unit is missing "
					"that begins with chunk %" PRIu64 " of stream %" PRIu32
					", and calls cross the borders of units", chunk, st->idx);
	}
	return 0;
}

/* All of the recording, as one process does it. */
static int decode_all(struct session *s, const struct sink_ops *ops, const struct sink_env *env,
		      const struct fleet_sink_config *config, struct aux_diag *diag)
{
	void *sink;
	int rc = ops->open(&sink, env, config, diag);

	if (!rc)
		rc = session_run(s, ops, sink, NULL, diag);
	if (sink)
		ops->close(sink);
	return rc < 0 ? rc : 0;
}

int fleet_carried_join(struct fleet_carried *c, size_t i, struct session *s,
		       const struct sink_env *env, bool *decoded, struct aux_diag *diag)
{
	const char *id = fleet_carried_id(c, i);
	const struct fleet_kind *kind = c->head->kind;
	const struct fleet_sink_config config = { .kind = kind, .id = id };
	struct weave w = { .c = c, .ops = kind->sink, .diag = diag };
	int rc = w.ops->open(&w.sink, env, &config, diag);

	*decoded = false;
	if (!rc)
		rc = find_lanes(&w, s, id);
	if (!rc)
		rc = weave(&w);
	if (!rc)
		rc = w.ops->finish(w.sink, diag);
	for (size_t k = 0; w.lanes && k < w.n; k++)
		w.ops->partial_free(w.lanes[k].part);
	if (w.sink)
		w.ops->close(w.sink);
	free(w.lanes);
	free(w.bytes);
	squeeze_fini(&w.squeeze);
	fleet_row_fini(&w.row);
	if (rc != DECODE)
		return rc;
	*decoded = true;
	return decode_all(s, kind->sink, env, &config, diag);
}
