/* SPDX-License-Identifier: BSD-2-Clause */
/* session: one pass of flows into a sink: that of the session, or of a worker. */
#ifndef DECODE_LIB_SESSION_RUN_H
#define DECODE_LIB_SESSION_RUN_H

#include "decode/lib/session/impl.h"

struct jobs;

struct run_state {
	struct session *s;
	struct feed *feeds;
	size_t n;
	const struct aux_decoder_ops *decoder;
	struct feed_wants wants;
	const struct sink_ops *ops;
	void *sink;
	struct session_stats *stats;
	bool enough;
	bool filtered;
	bool timeless;		/* nobody asks what time it is */
	bool ticks;		/* the sink reads TIMEs itself */
	struct jobs *jobs;	/* NULL: one thread does it all */
	/* told of each event that changes the view, once it is taken, and of a
	 * GAP behind which all was given; NULL: nobody */
	int (*on_event)(struct run_state *r, struct feed *f,
			const struct aux_flow *ev);
};

/*
 * A pass in steps, as session_run makes it: r has s, ops, sink and stats, the rest
 * 0. A step gives what one feed has until another is earlier, at most a batch;
 * 1: there is more. finish is the caller's. close after open, failed or not.
 */
int session_run_open(struct run_state *r, struct aux_diag *diag);
int session_run_step(struct run_state *r, struct aux_diag *diag);
void session_run_close(struct run_state *r);

/*
 * Gives events of f until one is later than limit (at limit: when !or_at), or none
 * is left.
 */
int session_give(struct run_state *r, struct feed *f,
		 const struct feed_place *limit, bool or_at);
/* Has f's next event to wait for that of another feed, at limit? */
bool session_is_later(struct feed *f, const struct feed_place *limit,
		      bool or_at);
/* Counts a GAP; any other event is none. */
void session_count_gap(struct session_stats *st, const struct aux_flow *ev);
/* Is the place or the thread another one from ev on? */
bool session_changes_view(const struct feed *f, const struct aux_flow *ev);

#endif
