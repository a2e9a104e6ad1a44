/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_calls: what was called, from where, how long it took, and what happened
 * inside. For reading as a tree (calls_tree.c), with -F as rows
 * (calls_row.c). What is not known is said: gaps and losses stand where they
 * are, and so do frames that never ended.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/sink/calls.h"
#include "decode/sink/sink.h"

static void close_calls(void *sink)
{
	struct calls_sink *s = sink;
	struct call_view *v, *next;

	if (!s)
		return;
	for (size_t i = 0; s->calls && i < calls_n_funcs(s->calls); i++)
		free(calls_func(s->calls, (uint32_t)i)->user);
	calls_free(s->calls);
	for (v = s->views; v; v = next) {
		next = v->next;
		free(v);
	}
	free(s);
}

static int open_calls(void **sink, const struct sink_config *config,
		      struct aux_diag *diag)
{
	struct calls_sink *s = calloc(1, sizeof(*s));
	unsigned flags = config->stubs ? CALLS_KEEPS_STUBS : 0;
	int err = 0;

	*sink = NULL;
	if (!s)
		return -AUX_E_NOMEM;
	s->config = *config;
	s->rows = config->fields;
	if (s->rows)
		err = calls_row_parse(s, config->fields, diag);
	if (!err)
		err = calls_new(&s->calls, config->host, flags,
				s->rows ? &calls_row_ops : &calls_tree_ops, s);
	if (err) {
		close_calls(s);
		return err;
	}
	*sink = s;
	return 0;
}

uint32_t calls_sink_depth_of(const struct calls_sink *s,
			     const struct call_thread *t)
{
	const struct call_view *v = t->user;

	/* another stack of the thread may be lower */
	if (!s->config.symbol || !v || v->below >= t->depth)
		return t->depth;
	return t->depth - v->below;
}

bool calls_sink_shows_one(const struct calls_sink *s,
			  const struct call_thread *t)
{
	const struct call_view *v = t->user;

	if (s->config.symbol && (!v || !v->n_inside))
		return false;
	return !s->config.max_depth ||
	       calls_sink_depth(s, t) <= s->config.max_depth;
}

/* Brackets, unless a demangled name has its own. */
const struct call_text *calls_sink_make_text(struct call_func *f)
{
	static const union {
		struct call_text text;
		char bytes[sizeof(struct call_text) + FMT_SLACK];
	} unknown;
	bool own = f->name && f->name != f->raw && strchr(f->name, '(');
	char buf[4096];
	struct call_text *text;
	const char *name = f->name;
	size_t n;

	if (!name)
		call_func_name(f, buf, sizeof(buf));
	name = name ? name : buf;
	n = strnlen(name, UINT32_MAX / 2);
	text = calloc(1, sizeof(*text) + n + 2 + FMT_SLACK);
	if (!text)
		return &unknown.text;
	f->user = text;
	for (size_t i = 0; i < n; i++)
		text->text[i] = (unsigned char)name[i] < ' ' ? '?' : name[i];
	memcpy(text->text + n, "()", 2);
	text->n_name = (uint32_t)n;
	text->n = (uint32_t)n + (own ? 0 : 2);
	return text;
}

static struct call_view *view_of(struct calls_sink *s, struct call_thread *t)
{
	struct call_view *v = t->user;

	if (v)
		return v;
	v = calloc(1, sizeof(*v));
	if (!v)
		return NULL;
	v->next = s->views;
	s->views = v;
	t->user = v;
	return v;
}

static bool is_named(const struct calls_sink *s, const struct call_func *f)
{
	const char *want = s->config.symbol;
	size_t n = want ? strlen(want) : 0;

	if (!want || !f->name)
		return false;
	/* with or without its parameters, or mangled */
	return (!strncmp(f->name, want, n) && (!f->name[n] ||
					       f->name[n] == '(')) ||
	       !strcmp(f->raw, want);
}

int calls_sink_count_one(struct calls_sink *s, struct call_thread *t, int by)
{
	struct call_view *v;

	if (!is_named(s, t->frames[t->depth - 1].func))
		return 0;
	v = view_of(s, t);
	if (!v)
		return -AUX_E_NOMEM;
	if (by > 0 && !v->n_inside)
		v->below = t->depth - 1;
	v->n_inside += (uint32_t)by;
	return 0;
}

int calls_sink_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	static const struct flow_ctx nobody = { .pid = UINT32_MAX,
						.tid = UINT32_MAX, .cpu = -1 };
	struct calls_sink *s = priv;

	print_gap(s->config.out, s->config.host, t ? t->ctx : &nobody, ev, 0);
	return 0;
}

static int flow_calls(void *sink, const struct flow_ctx *ctx,
		      const struct aux_flow *ev, size_t n)
{
	struct calls_sink *s = sink;
	int rc = calls_flow(s->calls, ctx, ev, n);

	s->config.report->n_insns = calls_n_insns(s->calls);
	if (!rc && outbuf_failed(s->config.out))
		rc = -AUX_E_IO;
	return rc;
}

static int finish_calls(void *sink, struct aux_diag *diag)
{
	struct calls_sink *s = sink;
	uint64_t limit = s->config.limit;
	int rc;

	(void)diag;
	if (limit && s->config.report->n_lines >= limit)
		return 0;
	rc = calls_finish(s->calls);
	if (rc < 0)
		return rc;
	return s->rows ? 0 : calls_tree_finish(s);
}

const struct sink_ops sink_calls = {
	.name = "calls",
	.help = "calls and returns as a tree: time, duration, instructions",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES,
	.fields = calls_row_fields,
	.open = open_calls,
	.flow = flow_calls,
	.finish = finish_calls,
	.close = close_calls,
};
