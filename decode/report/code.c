/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Source and instructions of functions, with exact counts: annotate (coverage/) gets
 * the flow that report gets, and what ran most goes into the page, within a small part
 * of its size. The others have the command.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"
#include "decode/coverage/coverage.h"
#include "decode/report/impl.h"

#define MAX_ROOM ((uint64_t)1 << 20)	/* bytes of JSON, before they are deflated */
#define ROOM_SHARE 16		/* of --max-size; in the page it is some sixtieth */

/* Without it (this build has no disassembler) the page has no code. */
int report_code_open(struct report *r)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct sink_env env = r->env;
	void *config = calloc(1, sink_annotate.config_size);
	int err = -AUX_E_NOMEM;

	env.report = &r->code_report;
	if (config)
		err = sink_annotate.open(&r->code, &env, config, &diag);
	free(config);
	if (r->code)
		annotate_beside_calls(r->code);
	return err == -AUX_E_NOMEM ? err : 0;
}

/* Functions by symbol. */
struct known {
	const char *raw, *dso;
	uint32_t id;
};

struct known_all {
	struct known *v;
	size_t n;
};

static int by_symbol(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int c = strcmp(x->raw, y->raw);

	return c ? c : strcmp(x->dso, y->dso);
}

/* Of several of one name the first: they come sorted by what they are, not by number. */
static int by_symbol_and_id(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int c = by_symbol(a, b);

	return c ? c : (x->id > y->id) - (x->id < y->id);
}

static int64_t number_of(void *priv, const char *name, const char *dso)
{
	const struct known_all *all = priv;
	struct known key = { .raw = name, .dso = dso ? dso : "" };
	const struct known *k;

	k = all->n ? bsearch(&key, all->v, all->n, sizeof(*all->v), by_symbol) : NULL;
	while (k && k > all->v && !by_symbol(k - 1, &key))
		k--;
	return k ? (int64_t)k->id : -1;
}

static int list_functions(const struct calls *calls, struct known_all *all)
{
	size_t n = calls_n_funcs(calls);

	all->v = calloc(n + 1, sizeof(*all->v));
	if (!all->v)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct call_func *f = calls_func(calls, (uint32_t)i);

		if (f->raw)
			all->v[all->n++] = (struct known){
				f->raw, f->dso ? f->dso : "", (uint32_t)i };
	}
	qsort(all->v, all->n, sizeof(*all->v), by_symbol_and_id);
	return 0;
}

int report_put_code(struct report_writer *w)
{
	struct report *r = w->r;
	uint64_t room = r->config.max_size / ROOM_SHARE;
	struct outbuf *rows = outbuf_new(-1), *text = outbuf_new(-1);
	struct known_all all = { .n = 0 };
	int err = rows && text ? 0 : -AUX_E_NOMEM;

	if (!err && r->code)
		err = annotate_count(r->code);
	if (!err && r->code)
		err = list_functions(r->calls, &all);
	if (!err && r->code)
		err = annotate_page(r->code, room < MAX_ROOM ? room : MAX_ROOM,
				    number_of, &all, rows);
	if (!err) {
		outbuf_str(text, "[");
		outbuf_put(text, rows->buf, (size_t)(rows->p - rows->buf));
		outbuf_str(text, "]\n");
		err = rows->error || text->error ? -AUX_E_NOMEM :
			report_pack(w->code, "code", text->buf,
				    (size_t)(text->p - text->buf));
	}
	free(all.v);
	outbuf_free(rows);
	outbuf_free(text);
	return err;
}
