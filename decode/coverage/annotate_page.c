/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: functions for the page of report, as JSON that is short: its script knows
 * what stands where.
 *
 *   {"i":the caller's number,"addr":"401136","entered":..,"insns":..,"cycles":..,
 *    "callers":[["main",3],..],"callees":[..],"files":[path,..],"rows":[..]}
 *
 * A row is an instruction, [offset in the function, executed, cycles, text, branches],
 * or a source line, [file, line, executed, cycles, text, inlined], in which executed is
 * -1 where it is not known or was said before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h"
#include "common/outbuf.h"
#include "decode/coverage/annotate_impl.h"

#define MAX_PEERS 20
#define MAX_FILES 256

struct page {
	struct annotate_printer *p;
	const char *files[MAX_FILES];
	unsigned n_files;
	uint64_t start;		/* the function's address */
};

static void put_peers(const struct annotate_printer *p, const char *key,
		      const struct annotate_peers *peers)
{
	char name[ANNOTATE_MAX_TEXT];

	outbuf_printf(p->out, ",\"%s\":[", key);
	for (size_t i = 0; i < peers->n && i < MAX_PEERS; i++) {
		annotate_peer_name(p, &peers->v[i], name, sizeof(name));
		outbuf_str(p->out, i ? ",[" : "[");
		outbuf_json(p->out, name);
		outbuf_printf(p->out, ",%llu]", (unsigned long long)peers->v[i].n);
	}
	outbuf_str(p->out, "]");
}

/* The number of a file; those that are too many share the last. */
static unsigned file_of(struct page *g, const char *file)
{
	for (unsigned i = 0; i < g->n_files; i++)
		if (!strcmp(g->files[i], file))
			return i;
	if (g->n_files == MAX_FILES)
		return MAX_FILES - 1;
	g->files[g->n_files] = file;
	return g->n_files++;
}

static void put_line(struct page *g, const struct annotate_view *v)
{
	struct annotate_printer *p = g->p;
	const struct cover_line *l = annotate_line_of(p->f, &v->at);
	struct annotate_line *state = l ? &p->lines[l - p->f->lines.lines] : NULL;
	char text[ANNOTATE_MAX_SOURCE], inlined[3 * ANNOTATE_MAX_TEXT];
	bool counts = state && !state->shown;

	outbuf_printf(p->out, "[%u,%u,%lld,%llu,", file_of(g, v->at.file), v->at.line,
		      counts ? (long long)l->n : -1,
		      counts ? (unsigned long long)cover_whole_cycles(state->cycles) : 0);
	if (counts)
		state->shown = true;
	annotate_read_line(p, &v->at, text, sizeof(text));
	outbuf_json(p->out, text);
	annotate_inlined(p, v, inlined, sizeof(inlined));
	outbuf_str(p->out, ",");
	outbuf_json(p->out, inlined);
	outbuf_str(p->out, "],\n");
}

static void put_insn(const struct page *g, const struct annotate_view *v)
{
	struct outbuf *out = g->p->out;
	char text[2 * ANNOTATE_MAX_TEXT + 4], branch[3 * ANNOTATE_MAX_TEXT];

	snprintf(text, sizeof(text), *v->target ? "%s <%s>" : "%s", v->text,
		 v->target);
	annotate_describe_branch(g->p, v, branch, sizeof(branch));
	outbuf_printf(out, "[%llu,%llu,%llu,",
		      (unsigned long long)(v->in->off - g->p->f->off),
		      (unsigned long long)v->in->n,
		      (unsigned long long)cover_whole_cycles(v->in->cycles));
	outbuf_json(out, text);
	outbuf_str(out, ",");
	outbuf_json(out, branch);
	outbuf_str(out, "]");
}

static int put_rows(struct page *g)
{
	const struct annotate_function *f = g->p->f;
	struct annotate_view v, before = { .ip = 0 };
	int err = 0;

	outbuf_str(g->p->out, ",\"rows\":[");
	for (size_t i = 0; i < f->n && !err; i++) {
		err = annotate_look(g->p, &f->insns[i], &v);
		outbuf_str(g->p->out, i ? ",\n" : "");
		if (v.at.file && (!i || !annotate_same_place(&v, &before)))
			put_line(g, &v);
		put_insn(g, &v);
		free(v.branch.targets.v);
		v.branch.targets.v = NULL;
		before = v;
	}
	outbuf_str(g->p->out, "]");
	return err;
}

int annotate_page_function(struct annotate_printer *p, int64_t id)
{
	const struct annotate_function *f = p->f;
	struct page g = { .p = p };
	const struct space *space;
	int err = annotate_line_cycles(p);

	if (err)
		return err;
	cover_address(f->module, f->off, &space, &g.start);
	outbuf_printf(p->out, "{\"i\":%lld,\"addr\":\"%llx\",\"entered\":%llu,"
		      "\"insns\":%llu,\"cycles\":%llu", (long long)id,
		      (unsigned long long)g.start, (unsigned long long)f->entered,
		      (unsigned long long)f->n_insns,
		      (unsigned long long)cover_whole_cycles(f->cycles));
	put_peers(p, "callers", &f->callers);
	put_peers(p, "callees", &f->callees);
	err = put_rows(&g);
	outbuf_str(p->out, ",\"files\":[");
	for (unsigned i = 0; i < g.n_files; i++) {
		outbuf_str(p->out, i ? "," : "");
		outbuf_json(p->out, g.files[i]);
	}
	outbuf_str(p->out, "]}");
	free(p->lines);
	return err;
}
