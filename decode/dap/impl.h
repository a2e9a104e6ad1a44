/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to decode/dap: message.c has the messages, server.c what they ask for, step.c
 * moves by lines and calls, source.c knows lines and their addresses, view.c shows where
 * it is.
 */
#ifndef DECODE_DAP_IMPL_H
#define DECODE_DAP_IMPL_H

#include "common/outbuf.h"
#include "decode/dap/dap.h"
#include "decode/lib/json/json.h"

#define DAP_MESSAGE_MAX ((size_t)4 << 20)	/* bytes of one */

/* ---- message.c ---- */

struct message {
	struct message *next;
	struct json_t *root;
	uint64_t seq;
	const char *command;	/* root's */
	const struct json_t *args;
};

struct wire {
	int in;
	struct outbuf *to;
	char *buf;		/* what was read, and is no message yet */
	size_t n, cap;
	bool ended;		/* the other side is gone */
	struct message *first, **last;	/* read, and not answered */
	uint64_t seq;		/* of what was sent last */
};

/* The next request; NULL: there are no more, or *err is set. Free it. */
struct message *wire_next(struct wire *w, struct aux_diag *diag, int *err);
void message_free(struct message *m);
/* Whether a request came that ends what runs (pause, disconnect, terminate); does not
 * wait. */
bool wire_is_broken(struct wire *w);
void wire_fini(struct wire *w);
/* A response; body: what is inside its braces, NULL: none. error: why it failed, NULL:
 * it did not. */
int wire_respond(struct wire *w, const struct message *m, const struct outbuf *body,
		 const char *error);
int wire_event(struct wire *w, const char *name, const struct outbuf *body);

/* ---- breakpoints ---- */

enum point_kind { POINT_LINE = 0, POINT_FUNCTION, POINT_INSTRUCTION };

struct point {
	uint64_t addr;
	uint32_t id;
	uint8_t kind;		/* enum point_kind */
	char *source;		/* of a LINE: which file it was set in */
	int64_t tid;		/* only there; -1: in any thread */
	uint64_t ignore;	/* hits that do not stop */
	uint64_t n_hits;
};

struct points {
	struct point *v;
	size_t n, cap;
	uint64_t *addrs;	/* sorted, each once: for replay_run */
	size_t n_addrs;
};

struct server {
	const struct dap_config *config;
	struct wire wire;
	struct session *session;	/* NULL: nothing is launched */
	struct replay *replay;
	struct codeview *codeview;
	struct sink_host host;
	struct disasm *disasm;		/* NULL: there is no capstone */
	struct replay_place at;
	uint32_t tid;			/* of at */
	struct points points;
	uint32_t n_ids;
	bool stops_at_gaps, at_begin;
	bool ended;
	struct outbuf *body;		/* of the response */
	char error[512];		/* "": none */
	struct aux_diag *diag;
};

/* ---- source.c ---- */

struct place_line {
	const char *file;	/* NULL: no line is known */
	uint32_t line;
};

struct place_line source_line_of(struct server *s, const struct space *space,
				 uint64_t ip);
/* The addresses where a line of a file begins, in each function that has it; of a line
 * without code, of the next one that has some: *line is what was found. How many, at most
 * max. */
size_t source_addresses(struct server *s, const char *path, uint32_t *line,
			uint64_t *addrs, size_t max);
/* Where functions of a name begin. */
size_t source_functions(struct server *s, const char *name, uint64_t *addrs,
			size_t max);

/* ---- step.c ---- */

enum step_by { STEP_IN = 0, STEP_OVER, STEP_OUT };

/* As replay_run, and on where a breakpoint is not to stop, or a gap. */
int step_run(struct server *s, bool back, struct replay_why *why);
/* A step of a thread. by_instruction: else by line. */
int step_thread(struct server *s, uint32_t tid, enum step_by by, bool back,
		bool by_instruction, struct replay_why *why);

/* ---- view.c: bodies of responses ---- */

int dap_view_threads(struct server *s);
int dap_view_stack(struct server *s, const struct json_t *args);
int dap_view_scopes(struct server *s, const struct json_t *args);
int dap_view_variables(struct server *s, const struct json_t *args);
int dap_view_disassembly(struct server *s, const struct json_t *args);
int dap_view_memory(struct server *s, const struct json_t *args);
int dap_view_evaluate(struct server *s, const struct json_t *args);

/* The place of a thread. 1, 0: it is nowhere near, or an error. */
int dap_place(struct server *s, uint32_t tid, struct replay_place *at);
int dap_go(struct server *s, const struct replay_place *at);
/* Moved by other means than a request to step: the client is told. */
int dap_stopped(struct server *s, const char *reason, const char *text);

static inline const struct space *dap_space(struct server *s)
{
	struct replay_state st;

	return replay_state(s->replay, &s->at, &st, s->diag) ? NULL : st.space;
}

#endif
