/* SPDX-License-Identifier: BSD-2-Clause */
/* What session.c opens and session_run.c works on. */
#ifndef AUXDECODE_SESSION_PRIV_H
#define AUXDECODE_SESSION_PRIV_H

#include "chunks.h"
#include "session.h"

struct session {
	char *path, *decoder, *plugin;
	struct session_config config;	/* its strings are not used */
	struct aux_reader *reader;
	struct timeline *timeline;
	struct codeview *codeview;
	struct chunks chunks;
	struct stream *streams;
	struct aux_decoder_config dec_config;
	void *plugin_handle;
	const struct aux_decoder_ops *plugin_ops;	/* NULL: none */
	struct losses losses;
	uint64_t ledger_lost;	/* bytes */
	uint64_t ledger_events;	/* records, processes, losses of any size */
	bool timed;	/* the trace has times that the records share */
};

/* session_config.c: what the file says of how the trace was made. */
void session_find_config(struct session *s);
void session_sum_losses(struct session *s);

#endif
