/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_repeat: a recording whose trace comes many times over, for what does not
 * show in a small file: memory, and the work per byte.
 *
 * The side-band stays as it is; each queue's AUXTRACE records follow one another
 * again and again, at growing offsets. Its times go back at each repetition.
 *
 *	bench_repeat FILE OUT BYTES
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/reader.h>

#include "perfdata/rewrite.h"

struct part {
	struct aux_rec_auxtrace h;
	struct aux_bytes payload;
};

struct parts {
	struct part *v;
	size_t n;
	uint64_t bytes;
};

static int find_parts(struct aux_reader *r, struct parts *p, struct aux_diag *diag)
{
	struct aux_event ev;
	struct part *v;
	int more;

	while ((more = aux_reader_next(r, &ev, diag)) > 0) {
		if (ev.type != AUX_RECORD_AUXTRACE || !ev.auxtrace.payload.len)
			continue;
		v = realloc(p->v, (p->n + 1) * sizeof(*v));
		if (!v)
			return -AUX_E_NOMEM;
		p->v = v;
		v[p->n++] = (struct part){ ev.auxtrace.h, ev.auxtrace.payload };
		p->bytes += ev.auxtrace.payload.len;
	}
	return more;
}

/* How far the offsets of a queue go on with each repetition. */
static uint64_t span_of(const struct parts *p, uint32_t idx)
{
	uint64_t end = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct part *a = &p->v[i];

		if (a->h.idx == idx && a->h.offset + a->payload.len > end)
			end = a->h.offset + a->payload.len;
	}
	return end;
}

static int repeat(struct rewrite *w, const struct parts *p, uint64_t bytes)
{
	uint64_t done = 0;

	for (uint64_t k = 0; done < bytes && !rewrite_failed(w); k++, done += p->bytes)
		for (size_t i = 0; i < p->n; i++) {
			struct aux_rec_auxtrace h = p->v[i].h;

			h.offset += k * span_of(p, h.idx);
			rewrite_auxtrace(w, &h, p->v[i].payload.data, p->v[i].payload.len);
		}
	return rewrite_failed(w);
}

/* AUX records tell the length of the first copy alone. */
static bool is_kept(void *priv, const struct aux_event *ev)
{
	(void)priv;
	return ev->type != PERF_RECORD_AUX;
}

int main(int argc, char **argv)
{
	const struct rewrite_filter no_trace = { .keep = is_kept, .no_trace = true };
	struct aux_diag diag = { 0 };
	struct parts parts = { 0 };
	struct rewrite *w = NULL;
	struct aux_reader *r = NULL, *again = NULL;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: bench_repeat FILE OUT BYTES\n");
		return 2;
	}
	rc = aux_reader_open(&r, argv[1], &diag);
	if (rc >= 0)
		rc = find_parts(r, &parts, &diag);
	if (rc >= 0 && !parts.n)
		rc = -AUX_E_NOENT;
	if (rc >= 0)
		rc = aux_reader_open(&again, argv[1], &diag);
	if (rc >= 0)
		rc = rewrite_open(&w, argv[2], argv[1], aux_reader_info(r)->swapped, &diag);
	if (rc >= 0) {
		rewrite_attrs_of(w, again);
		rc = rewrite_copy(w, again, &no_trace);
	}
	if (rc >= 0)
		rc = repeat(w, &parts, strtoull(argv[3], NULL, 0));
	if (rc >= 0) {
		rc = rewrite_close(w, &diag);
		w = NULL;
	}
	rewrite_discard(w);
	aux_reader_close(again);
	aux_reader_close(r);
	free(parts.v);
	if (rc < 0)
		fprintf(stderr, "bench_repeat: %s: %s\n", argv[1],
			*diag.text ? diag.text : "no trace in it, or it cannot be written");
	return rc < 0;
}
