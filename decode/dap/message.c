/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: messages: a header with the length, an empty line, and a request in JSON. Nothing
 * that comes in is trusted: a length that is none, or too large, ends the connection; a
 * text that is no request is left out.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"
#include "common/markup.h"
#include "decode/dap/impl.h"

#define HEADER_MAX 4096
#define LENGTH "Content-Length:"

/* More bytes, waiting for them. False: there are none, and never will be. */
static bool fill(struct wire *w)
{
	size_t want = w->n + 65536;
	char *buf = want > w->cap ? realloc(w->buf, want) : w->buf;
	ssize_t n;

	if (!buf) {
		w->ended = true;
		return false;
	}
	w->buf = buf;
	w->cap = want > w->cap ? want : w->cap;
	do {
		n = read(w->in, w->buf + w->n, w->cap - w->n);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		w->ended = true;
	else
		w->n += (size_t)n;
	return n > 0;
}

/* The header that is there. 1: whole, with the length of what follows it; 0: not whole;
 * -AUX_E_FORMAT. */
static int read_header(const struct wire *w, size_t *header, size_t *len)
{
	const char *end = memmem(w->buf, w->n, "\r\n\r\n", 4);
	const char *at;
	unsigned long long v;
	char *rest;

	if (!end)
		return w->n > HEADER_MAX ? -AUX_E_FORMAT : 0;
	*header = (size_t)(end - w->buf) + 4;
	at = memmem(w->buf, *header, LENGTH, sizeof(LENGTH) - 1);
	if (!at)
		return -AUX_E_FORMAT;
	v = strtoull(at + sizeof(LENGTH) - 1, &rest, 10);
	if (*rest != '\r' || !v || v > DAP_MESSAGE_MAX)
		return -AUX_E_FORMAT;
	*len = (size_t)v;
	return 1;
}

static struct message *new_message(struct json_t *root)
{
	const char *type = json_tree_text(json_tree_get(root, "type"));
	struct message *m = calloc(1, sizeof(*m));

	if (!m || !type || strcmp(type, "request")) {
		free(m);
		return NULL;
	}
	m->root = root;
	m->command = json_tree_text(json_tree_get(root, "command"));
	m->args = json_tree_get(root, "arguments");
	if (!json_tree_number(json_tree_get(root, "seq"), &m->seq) || !m->command) {
		free(m);
		return NULL;
	}
	return m;
}

/* What has no number cannot be answered: the client's console gets it. */
static void refuse(struct wire *w, const char *why)
{
	struct outbuf *o = outbuf_new(-1);

	if (!o)
		return;
	outbuf_str(o, "\"category\":\"stderr\",\"output\":");
	outbuf_json(o, why);
	wire_event(w, "output", o);
	outbuf_free(o);
}

/* A message that is whole goes into the list. 1; 0: there is none; -AUX_E_FORMAT. */
static int take(struct wire *w, struct aux_diag *diag)
{
	size_t header, len;
	struct json_t *root;
	struct message *m;
	int rc = read_header(w, &header, &len);

	if (rc < 0)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"the client sent no header of a message of at most %zu "
				"bytes", DAP_MESSAGE_MAX);
	if (!rc || w->n - header < len)
		return 0;
	if (json_tree_parse(&root, w->buf + header, len, diag))
		root = NULL;
	w->n -= header + len;
	memmove(w->buf, w->buf + header + len, w->n);
	m = root ? new_message(root) : NULL;
	if (!m) {
		json_tree_free(root);
		refuse(w, root ? "no request" : diag->text);
		return 1;
	}
	*w->last = m;
	w->last = &m->next;
	return 1;
}

struct message *wire_next(struct wire *w, struct aux_diag *diag, int *err)
{
	struct message *m;

	*err = 0;
	while (!w->first) {
		int rc = w->buf ? take(w, diag) : 0;

		if (rc < 0) {
			*err = rc;
			return NULL;
		}
		if (!rc && !fill(w))
			return NULL;
	}
	m = w->first;
	w->first = m->next;
	if (!w->first)
		w->last = &w->first;
	return m;
}

void message_free(struct message *m)
{
	if (m)
		json_tree_free(m->root);
	free(m);
}

bool wire_is_broken(struct wire *w)
{
	struct pollfd fd = { .fd = w->in, .events = POLLIN };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };

	while (!w->ended && w->n < DAP_MESSAGE_MAX && poll(&fd, 1, 0) > 0)
		fill(w);
	while (w->buf && take(w, &diag) > 0)
		;
	for (const struct message *m = w->first; m; m = m->next)
		if (!strcmp(m->command, "pause") || !strcmp(m->command, "disconnect") ||
		    !strcmp(m->command, "terminate"))
			return true;
	return w->ended;
}

void wire_fini(struct wire *w)
{
	while (w->first) {
		struct message *m = w->first;

		w->first = m->next;
		message_free(m);
	}
	free(w->buf);
}

/* o is freed. */
static int send_object(struct wire *w, struct outbuf *o, const struct outbuf *body)
{
	int err;

	if (body && body->p > body->buf) {
		outbuf_str(o, ",\"body\":{");
		outbuf_put(o, body->buf, (size_t)(body->p - body->buf));
		outbuf_str(o, "}");
	}
	outbuf_str(o, "}");
	err = outbuf_failed(o) || (body && outbuf_failed(body)) ? -AUX_E_NOMEM : 0;
	if (!err) {
		outbuf_printf(w->to, LENGTH " %zu\r\n\r\n", (size_t)(o->p - o->buf));
		outbuf_put(w->to, o->buf, (size_t)(o->p - o->buf));
		err = outbuf_flush(w->to);
		w->ended |= err < 0;
	}
	outbuf_free(o);
	return err;
}

int wire_respond(struct wire *w, const struct message *m, const struct outbuf *body,
		 const char *error)
{
	struct outbuf *o = outbuf_new(-1);

	if (!o)
		return -AUX_E_NOMEM;
	outbuf_printf(o, "{\"seq\":%" PRIu64 ",\"type\":\"response\",\"request_seq\":%"
		      PRIu64 ",\"success\":%s,\"command\":", ++w->seq, m->seq,
		      error ? "false" : "true");
	outbuf_json(o, m->command);
	if (error)
		outbuf_json_text(o, "message", error);
	return send_object(w, o, error ? NULL : body);
}

int wire_event(struct wire *w, const char *name, const struct outbuf *body)
{
	struct outbuf *o = outbuf_new(-1);

	if (!o)
		return -AUX_E_NOMEM;
	outbuf_printf(o, "{\"seq\":%" PRIu64 ",\"type\":\"event\",\"event\":\"%s\"",
		      ++w->seq, name);
	return send_object(w, o, body);
}
