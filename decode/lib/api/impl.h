/* SPDX-License-Identifier: BSD-2-Clause */
/* libauxdecode: the recording as it is open, see aux/decode.h. Like all of the
 * API it is for one thread at a time. */
#ifndef DECODE_LIB_API_IMPL_H
#define DECODE_LIB_API_IMPL_H

#include <aux/decode.h>

#include "decode/lib/session/expand.h"
#include "decode/lib/session/session.h"

/* Events of one call of flow, from events[from] on. */
struct api_part {
	struct aux_decode_ctx ctx;
	size_t from, n;
};

struct aux_decode {
	struct session *session;
	struct sink_host host;
	struct walk *walk;	/* NULL until something is expanded */
	struct session_stats stats;
	struct session_pass *pass;	/* NULL: none was begun, or it ended */
	struct sink_ops ops;		/* of the pass; its sink is this struct */
	struct aux_decode_sink sink;	/* of aux_decode_run */
	bool ended;
	bool enough;		/* the caller's sink said so */
	int error;		/* what ended it, and its text */
	struct aux_diag diag;
	/* pulled, and not given yet */
	struct api_part *parts;
	struct aux_flow *events;
	size_t n_parts, max_parts, at_part;
	size_t n_events, max_events;
};

#endif
