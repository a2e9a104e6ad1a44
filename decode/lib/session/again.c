/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: chunks that a decoder cannot decode (-AUX_E_UNSUPPORTED).
 *
 * What it gave of such a chunk is right. The reference decodes the chunk again
 * from its start, where all is as it was then, and as many instructions and other
 * events are left out as were given. TIMEs are not counted, for one decoder may
 * give more of them; those that are left out are still taken by the decoder's
 * view, which goes along.
 */
#include <string.h>

#include "decode/lib/session/impl.h"
#include "decode/lib/session/expand.h"

void session_count_given(struct feed *f, size_t from)
{
	const struct aux_flow *ev = f->buf + from, *end = f->buf + f->n;
	uint64_t n_insns = 0, n_events = 0;

	ev = session_skip_plain(ev, end, &n_insns);
	if (!from && !f->source) {	/* a source's may yet be changed */
		f->n_plain = (size_t)(ev - f->buf);
		f->plain_insns = n_insns;
	}
	while (ev < end) {
		n_events += ev->kind != AUX_FLOW_TIME;
		ev = session_skip_plain(ev + 1, end, &n_insns);
	}
	f->again.n_insns += n_insns;
	f->again.n_events += n_events;
	if (f->n > from)
		f->again.offset = f->buf[f->n - 1].offset;
}

/* Nobody can decode the rest. */
static void give_up(struct feed *f)
{
	f->buf[f->n++] = (struct aux_flow){ .kind = AUX_FLOW_GAP,
					    .what = AUX_GAP_DECODER,
					    .offset = f->again.offset };
	f->in_chunk = false;
}

static int open_reference(struct feed *f)
{
	struct aux_diag diag = { 0 };
	int rc;

	if (f->reference)
		return 0;
	pthread_mutex_lock(&f->s->open_lock);
	rc = f->wants.reference->open(&f->reference, &f->config, &f->host,
				      &diag);
	if (rc < 0) {
		f->wants.reference->close(f->reference);
		f->reference = NULL;
	}
	pthread_mutex_unlock(&f->s->open_lock);
	return rc;
}

int session_decode_again(struct feed *f, struct session_stats *stats)
{
	struct feed_again *a = &f->again;
	int rc;

	a->refused = false;
	if (!f->wants.reference) {
		stats->n_left++;
		give_up(f);
		return 0;
	}
	if (a->n_insns || a->n_events)
		stats->n_handed_part++;
	else
		stats->n_handed_whole++;
	*session_ahead(f) = a->view;
	session_find_who(f, session_ahead(f));
	f->host.paths = 0;
	a->on = true;
	a->skip_insns = a->n_insns;
	a->skip_events = a->n_events;
	rc = open_reference(f);
	if (rc == 0)
		rc = f->wants.reference->start(f->reference, &f->it.chunk);
	if (rc == -AUX_E_NOMEM)
		return rc;
	if (rc < 0) {
		stats->n_left++;
		a->on = false;
		give_up(f);
	}
	return 0;
}

static int code_for_walk(void *priv, const struct space *space, uint64_t ip,
			 struct aux_code *code)
{
	return codeview_code(priv, space, ip, code);
}

/* Takes the first skip instructions off a RANGE. False: nobody knows where the
 * next one is. */
static bool cut_range(struct feed *f, struct aux_flow *ev, uint64_t skip)
{
	struct sink_host host = { .priv = f->s->codeview,
				  .code = code_for_walk };
	struct walk_config config = { .host = &host };
	struct walk_range r;
	struct walk *w;
	bool known;

	if (walk_new(&w, &config) < 0)
		return false;
	known = walk_once(w, session_ahead(f)->ctx.space, ev, &r) == 0 &&
		skip < r.n;
	if (known) {
		ev->range.first += r.off[skip];
		ev->n -= (uint32_t)skip;
	}
	walk_free(w);
	return known;
}

/* An event of the reference; true: it is left out. */
static bool leave_out(struct feed *f, struct aux_flow *ev)
{
	struct feed_again *a = &f->again;

	if (ev->kind == AUX_FLOW_TIME) {
		session_take_time(f, session_ahead(f), ev);
		return true;
	}
	if (!session_is_plain(ev)) {
		if (!a->skip_events)
			return false;
		a->skip_events--;
		if (ev->kind == AUX_FLOW_CONTEXT && f->source)
			session_take_context(f, session_ahead(f), ev);
		return true;
	}
	if (!a->skip_insns)
		return false;
	if (ev->n <= a->skip_insns) {
		a->skip_insns -= ev->n;
		return true;
	}
	if (!cut_range(f, ev, a->skip_insns))
		*ev = (struct aux_flow){ .kind = AUX_FLOW_GAP,
					 .what = AUX_GAP_DECODER,
					 .offset = ev->offset };
	a->skip_insns = 0;
	return false;
}

void session_leave_out(struct feed *f, size_t from)
{
	struct feed_again *a = &f->again;
	size_t n = from, i = from;

	for (; i < f->n && (a->skip_insns || a->skip_events); i++) {
		if (!leave_out(f, &f->buf[i]))
			f->buf[n++] = f->buf[i];
	}
	memmove(&f->buf[n], &f->buf[i], (f->n - i) * sizeof(*f->buf));
	f->n -= i - n;
	/* the two may name another packet for the same */
	for (i = from; i < f->n && f->buf[i].offset < a->offset; i++)
		f->buf[i].offset = a->offset;
}
