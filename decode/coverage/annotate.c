/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * annotate: the sink that shows a function as its instructions, with how often
 * each ran, which way its branches went, and who called whom.
 *
 * Counts are those of coverage, of all processes and threads together, and exact:
 * an instruction ran as often as the blocks that have it as one of their
 * instructions. Blocks may overlap, and even be out of step with each other
 * (code that jumps over a LOCK prefix), so that each is taken apart by itself.
 * What did not run is decoded from where the code before it ends.
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/options.h"
#include "decode/callstack/names.h"
#include "decode/coverage/annotate_impl.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/insn.h"
#include "common/outbuf.h"

#define DEFAULT_FUNCTIONS 1
#define MAX_SAME 8	/* functions of one name in one file */
#define MAX_INSN 15
#define PAGE_FUNCTIONS 200
#define PAGE_CODE 65536	/* bytes of one of them */
#define PAGE_MISSES 16	/* functions in a row that are too large for what is left */
#define MAX_FUNCTION (UINT64_C(16) << 20)	/* bytes; a file may say anything */

static void find_symbol(const struct annotate *a, const struct cover_module *m,
			uint64_t off, struct symbol *sym)
{
	const struct sink_host *host = a->coverage.env.host;
	const struct space *space;
	uint64_t ip;

	*sym = (struct symbol){ .name = NULL };
	if (!host->symbol || !cover_address(m, off, &space, &ip) ||
	    host->symbol(host->priv, space, ip, sym))
		sym->name = NULL;
	if (sym->name && sym->size && ip - sym->start >= sym->size)
		sym->name = NULL;
}

size_t annotate_code(const struct annotate *a, const struct cover_module *m,
		     uint64_t off, uint8_t *code, size_t len)
{
	const struct sink_host *host = a->coverage.env.host;
	const struct space *space;
	struct aux_code area;
	size_t n = 0, part;
	uint64_t ip;

	if (!cover_address(m, off, &space, &ip))
		return 0;
	while (n < len) {
		if (host->code(host->priv, space, ip + n, &area) ||
		    ip + n < area.start || ip + n >= area.end)
			break;
		part = area.end - (ip + n) < len - n ?
			       (size_t)(area.end - (ip + n)) : len - n;
		memcpy(code + n, area.bytes + (ip + n - area.start), part);
		n += part;
	}
	return n;
}

/* ---- functions ---- */

struct functions {
	struct annotate_function *v;
	size_t n, cap;
	const char *name, *dso;	/* only these; NULL: what was asked for */
};

static bool is_wanted(const struct functions *fs, struct names *names,
		      const struct symbol *sym)
{
	if (!fs->name)
		return names_fit(names, sym->name, sym->dso);
	return !strcmp(sym->name, fs->name) &&
	       !strcmp(sym->dso ? sym->dso : "", fs->dso ? fs->dso : "");
}

static void free_function(struct annotate_function *f)
{
	free(f->insns);
	free(f->callers.v);
	free(f->callees.v);
	cover_lines_fini(&f->lines);
}

/* The function of a symbol around off, at the end of the list if it is the last
 * one that was added. NULL: out of memory. */
static struct annotate_function *add_function(struct functions *fs,
					      const struct cover_module *m,
					      const struct symbol *sym,
					      uint64_t ip, uint64_t off)
{
	struct annotate_function *f = fs->n ? &fs->v[fs->n - 1] : NULL;
	uint64_t size = sym->size < MAX_FUNCTION ? sym->size : MAX_FUNCTION;
	uint64_t start = off - (ip - sym->start < off ? ip - sym->start : off);

	if (f && f->module == m && f->off == start)
		return f;
	if (array_grow(&fs->v, fs->n, &fs->cap, sizeof(*fs->v)) < 0)
		return NULL;
	f = &fs->v[fs->n++];
	*f = (struct annotate_function){
		.module = m, .name = sym->name, .dso = sym->dso, .off = start,
		.end = start + size,
	};
	return f;
}

/* The functions that a block has code of; one whose symbol has no size ends
 * where the last of its blocks does. */
static int add_block(const struct annotate *a, struct functions *fs,
		     const struct cover_module *m, const struct cover_block *b)
{
	struct names *names = a->coverage.env.host->names;
	uint64_t off = b->off, end = b->off + b->size, ip, rest;
	struct annotate_function *f;
	const struct space *space;
	struct symbol sym;

	while (off < end) {
		find_symbol(a, m, off, &sym);
		if (!sym.name || !cover_address(m, off, &space, &ip))
			return 0;
		if (is_wanted(fs, names, &sym)) {
			f = add_function(fs, m, &sym, ip, off);
			if (!f)
				return -AUX_E_NOMEM;
			if (!sym.size && f->end < end)
				f->end = end;
			f->mode = b->mode;
			f->n_insns += off == b->off ? b->n * b->n_insns : 0;
		}
		rest = sym.size ? sym.size - (ip - sym.start) : end - off;
		if (rest >= end - off)
			return 0;
		off += rest;
	}
	return 0;
}

static int find_functions(const struct annotate *a, struct functions *fs)
{
	const struct cover_tally *t = &a->tally;
	int err = 0;

	for (size_t i = 0; i < t->n_modules && !err; i++) {
		const struct cover_module *m = &t->modules[i];

		for (size_t k = 0; k < m->n_blocks && !err; k++)
			err = add_block(a, fs, m, &t->blocks[m->block + k]);
	}
	return err;
}

static int by_insns(const void *a, const void *b)
{
	const struct annotate_function *x = a, *y = b;

	if (x->n_insns != y->n_insns)
		return x->n_insns > y->n_insns ? -1 : 1;
	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	return x->off < y->off ? -1 : x->off > y->off;
}

/* ---- instructions ---- */

static int add_insn(struct annotate_function *f, uint64_t off, unsigned size,
		    uint64_t n, uint64_t cycles, bool is_data)
{
	struct annotate_insn in = { .off = off, .n = n, .cycles = cycles,
				    .size = (uint8_t)size, .is_data = is_data };

	return array_append(&f->insns, &f->n, &f->cap, &in, sizeof(in));
}

/* The size of the instruction at an offset; 0: there is none. */
static unsigned size_at(const struct annotate *a,
			const struct annotate_function *f, uint64_t off)
{
	uint8_t code[MAX_INSN];
	size_t len = annotate_code(a, f->module, off, code, sizeof(code));
	int n = insn_length(code, len, f->mode);

	return n > 0 ? (unsigned)n : 0;
}

/* Those of a block that lie in the function. */
static int take_block(const struct annotate *a, struct annotate_function *f,
		      const struct cover_block *b)
{
	uint64_t off = b->off, end = b->off + b->size;
	uint64_t left = b->cycles, insns = b->n_insns, cycles;
	unsigned size;

	for (; off < end && off < f->end; off += size) {
		size = size_at(a, f, off);
		if (!size)
			return 0;
		cycles = insns ? left / insns : left;
		left -= cycles;
		insns -= insns > 0;
		if (off >= f->off && add_insn(f, off, size, b->n, cycles, false))
			return -AUX_E_NOMEM;
	}
	return 0;
}

static int by_off(const void *a, const void *b)
{
	const struct annotate_insn *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

/* What did not run, between two places that did, or from the start on; up to
 * where there are no bytes. */
static int fill(const struct annotate *a, struct annotate_function *f,
		uint64_t off, uint64_t end)
{
	unsigned size;

	while (off < end) {
		uint8_t byte;
		bool is_data;

		if (!annotate_code(a, f->module, off, &byte, 1))
			return 0;
		size = size_at(a, f, off);
		is_data = !size || size > end - off;
		if (is_data)
			size = end - off < MAX_INSN ? (unsigned)(end - off) :
						      MAX_INSN;
		if (add_insn(f, off, size, 0, 0, is_data))
			return -AUX_E_NOMEM;
		off += size;
	}
	return 0;
}

/* The holes between the instructions that ran; sorts. */
static int fill_holes(const struct annotate *a, struct annotate_function *f)
{
	uint64_t at = f->off;
	size_t n = f->n;

	for (size_t i = 0; i < n; i++) {
		uint64_t off = f->insns[i].off, end = off + f->insns[i].size;

		if (fill(a, f, at, off))
			return -AUX_E_NOMEM;
		at = end > at ? end : at;
	}
	if (fill(a, f, at, f->end))
		return -AUX_E_NOMEM;
	if (f->n)
		qsort(f->insns, f->n, sizeof(*f->insns), by_off);
	return 0;
}

/* Sorts, and makes one of equal ones. */
static void add_up(struct annotate_function *f)
{
	size_t n = 0;

	if (f->n)
		qsort(f->insns, f->n, sizeof(*f->insns), by_off);
	for (size_t i = 0; i < f->n; i++) {
		if (n && f->insns[n - 1].off == f->insns[i].off) {
			f->insns[n - 1].n += f->insns[i].n;
			f->insns[n - 1].cycles += f->insns[i].cycles;
		} else {
			f->insns[n++] = f->insns[i];
		}
	}
	f->n = n;
}

static int make_insns(const struct annotate *a, struct annotate_function *f)
{
	const struct cover_module *m = f->module;
	const struct cover_block *b = a->tally.blocks + m->block;

	for (size_t i = 0; i < m->n_blocks && b[i].off < f->end; i++)
		if (b[i].off + b[i].size > f->off && take_block(a, f, &b[i]))
			return -AUX_E_NOMEM;
	add_up(f);
	f->n_insns = f->cycles = 0;
	for (size_t i = 0; i < f->n; i++) {
		f->n_insns += f->insns[i].n;
		f->cycles += f->insns[i].cycles;
	}
	f->entered = f->n && f->insns[0].off == f->off ? f->insns[0].n : 0;
	return fill_holes(a, f);
}

/* ---- callers, callees, targets ---- */

static int add_peer(const struct annotate *a, struct annotate_peers *p,
		    const struct cover_module *m, uint64_t off, uint64_t n)
{
	struct annotate_peer peer = { .n = n };
	const struct space *space;
	struct symbol sym;

	find_symbol(a, m, off, &sym);
	peer.name = sym.name;
	cover_address(m, off, &space, &peer.ip);
	return array_append(&p->v, &p->n, &p->cap, &peer, sizeof(peer));
}

static int by_name(const void *a, const void *b)
{
	const struct annotate_peer *x = a, *y = b;

	if (!x->name != !y->name)
		return x->name ? -1 : 1;
	if (x->name)
		return strcmp(x->name, y->name);
	return x->ip < y->ip ? -1 : x->ip > y->ip;
}

static int by_count(const void *a, const void *b)
{
	const struct annotate_peer *x = a, *y = b;

	return x->n != y->n ? (x->n > y->n ? -1 : 1) : by_name(a, b);
}

/* One of each name, most calls first. */
static void sum_peers(struct annotate_peers *p)
{
	size_t n = 0;

	if (!p->n)
		return;
	qsort(p->v, p->n, sizeof(*p->v), by_name);
	for (size_t i = 0; i < p->n; i++) {
		if (n && !by_name(&p->v[n - 1], &p->v[i]))
			p->v[n - 1].n += p->v[i].n;
		else
			p->v[n++] = p->v[i];
	}
	p->n = n;
	qsort(p->v, p->n, sizeof(*p->v), by_count);
}

static bool is_call(const struct cover_edge *e)
{
	return e->what == AUX_END_CALL || e->what == AUX_END_IND_CALL;
}

static bool is_inside(const struct annotate *a,
		      const struct annotate_function *f, uint32_t module,
		      uint64_t off)
{
	return &a->tally.modules[module] == f->module && off >= f->off &&
	       off < f->end;
}

/* A call, or a jump from one function to the beginning of another. */
static bool enters(const struct annotate *a, const struct cover_edge *e,
		   bool outside)
{
	const struct cover_module *m = &a->tally.modules[e->to_module];
	const struct space *space;
	struct symbol sym;
	uint64_t ip;

	if (is_call(e))
		return true;
	if (!outside || e->what == AUX_END_RET ||
	    e->what == AUX_END_COND_NOT_TAKEN)
		return false;
	find_symbol(a, m, e->to, &sym);
	return sym.name && cover_address(m, e->to, &space, &ip) &&
	       ip == sym.start;
}

static int find_peers(const struct annotate *a, struct annotate_function *f)
{
	const struct cover_tally *t = &a->tally;
	int err = 0;

	for (size_t i = 0; i < t->n_edges && !err; i++) {
		const struct cover_edge *e = &t->edges[i];
		bool from = is_inside(a, f, e->module, e->from);
		bool to = is_inside(a, f, e->to_module, e->to);

		if ((!from && !to) || !enters(a, e, from != to))
			continue;
		if (to)
			err = add_peer(a, &f->callers, &t->modules[e->module],
				       e->from, e->n);
		if (from && !err)
			err = add_peer(a, &f->callees,
				       &t->modules[e->to_module], e->to, e->n);
	}
	sum_peers(&f->callers);
	sum_peers(&f->callees);
	return err;
}

int annotate_branch(const struct annotate *a, const struct annotate_function *f,
		    const struct annotate_insn *in, struct annotate_branch *b)
{
	const struct cover_tally *t = &a->tally;
	const struct cover_edge *e, *end;
	int err = 0;

	*b = (struct annotate_branch){ .taken = 0 };
	for (e = cover_edges_from(t, f->module, in->off, &end);
	     e < end && e->from == in->off && !err; e++) {
		switch (e->what) {
		case AUX_END_COND_TAKEN:
			b->taken += e->n;
			break;
		case AUX_END_COND_NOT_TAKEN:
			b->not_taken += e->n;
			break;
		case AUX_END_COND:
			if (&t->modules[e->to_module] == f->module &&
			    e->to == in->off + in->size)
				b->not_taken += e->n;
			else
				b->taken += e->n;
			break;
		case AUX_END_IND_JUMP:
		case AUX_END_IND_CALL:
			err = add_peer(a, &b->targets,
				       &t->modules[e->to_module], e->to, e->n);
		}
	}
	sum_peers(&b->targets);
	return err;
}

/* ---- the sink ---- */

static void close_annotate(void *sink)
{
	struct annotate *a = sink;

	if (!a)
		return;
	coverage_fini(&a->coverage);
	cover_tally_fini(&a->tally);
	disasm_free(a->disasm);
	free(a);
}

static int open_annotate(void **sink, const struct sink_env *env,
			 const void *options, struct aux_diag *diag)
{
	const struct annotate_config *config = options;
	struct annotate *a = calloc(1, sizeof(*a));
	int err;

	*sink = NULL;
	if (!a)
		return -AUX_E_NOMEM;
	a->config = *config;
	err = coverage_init(&a->coverage, env);
	if (!err && env->host->counts_cycles &&
	    env->host->counts_cycles(env->host->priv)) {
		a->coverage.counter.cycles =
			calloc(1, sizeof(*a->coverage.counter.cycles));
		err = a->coverage.counter.cycles ? 0 : -AUX_E_NOMEM;
	}
	if (!err)
		err = cover_tally_init(&a->tally, env->host);
	a->tally.all_code = true;
	if (!err && !config->lines)
		err = disasm_new(&a->disasm, config->syntax ? DISASM_ATT :
							      DISASM_INTEL,
				 diag);
	if (err) {
		close_annotate(a);
		return err;
	}
	*sink = a;
	return 0;
}

static int complete(const struct annotate *a, struct annotate_function *f)
{
	int err = make_insns(a, f);

	if (!err)
		err = find_peers(a, f);
	if (!err)
		err = cover_lines_of(&f->lines, &a->tally, f->module, f->off);
	return err;
}

static int print_functions(struct annotate *a, struct functions *fs, size_t max)
{
	struct sink_report *r = a->coverage.env.report;
	int err = find_functions(a, fs);

	if (fs->n)
		qsort(fs->v, fs->n, sizeof(*fs->v), by_insns);
	if (max > fs->n)
		max = fs->n;
	for (size_t i = 0; i < max && !err; i++) {
		err = complete(a, &fs->v[i]);
		r->n_lines += fs->v[i].n;
	}
	r->n_filtered = 0;
	return err || !max ? err : annotate_print(a, fs->v, max, fs->n);
}

static void free_functions(struct functions *fs)
{
	for (size_t i = 0; i < fs->n; i++)
		free_function(&fs->v[i]);
	free(fs->v);
}

void annotate_beside_calls(void *sink)
{
	struct annotate *a = sink;

	a->coverage.counter.word = 2;
}

int annotate_count(void *sink)
{
	struct annotate *a = sink;

	return coverage_tally(&a->coverage, &a->tally);
}

int annotate_function(void *sink, const char *name, const char *dso,
		      struct outbuf *out)
{
	struct functions fs = { .name = name, .dso = dso };
	struct annotate *a = sink;
	int err;

	a->coverage.env.out = out;
	err = print_functions(a, &fs, MAX_SAME);
	if (!err && !fs.n)
		err = 1;
	free_functions(&fs);
	return err;
}

/* Writes one, and takes it back if there is no room for it: *room is what is left. */
static int put_on_page(struct annotate *a, struct annotate_printer *p,
		       struct annotate_function *f, int64_t id, uint64_t *room)
{
	size_t before = (size_t)(p->out->p - p->out->buf), n;
	int err = complete(a, f);

	p->f = f;
	outbuf_str(p->out, before ? ",\n" : "");
	if (!err)
		err = annotate_page_function(p, id);
	n = (size_t)(p->out->p - p->out->buf) - before;
	if (err || n > *room) {
		p->out->p = p->out->buf + before;
		return err ? err : 1;
	}
	*room -= n;
	return 0;
}

int annotate_page(void *sink, uint64_t room,
		  int64_t (*id)(void *priv, const char *name, const char *dso),
		  void *priv, struct outbuf *out)
{
	struct annotate *a = sink;
	struct annotate_printer p = { .a = a, .out = out,
				      .cycles = cover_whole_cycles(a->tally.cycles) };
	struct functions fs = { .n = 0 };
	int err = find_functions(a, &fs), rc = 0;
	unsigned n = 0, misses = 0;

	if (fs.n)
		qsort(fs.v, fs.n, sizeof(*fs.v), by_insns);
	for (size_t i = 0; i < fs.n && !err && n < PAGE_FUNCTIONS &&
			   misses < PAGE_MISSES; i++) {
		int64_t number = id(priv, fs.v[i].name, fs.v[i].dso);

		if (number < 0 || fs.v[i].end - fs.v[i].off > PAGE_CODE)
			continue;
		rc = put_on_page(a, &p, &fs.v[i], number, &room);
		n += !rc;
		misses = rc > 0 ? misses + 1 : 0;
		err = rc < 0 ? rc : 0;
	}
	free_functions(&fs);
	annotate_printer_fini(&p);
	return err;
}

/* ---- what was asked for, and is no function of its own ---- */

#define INLINED_LOOKS 500000	/* instructions that are looked at */

/* Whether code is of a function that was asked for, and inlined there; then the hint
 * says so. */
static bool say_inlined(struct annotate *a, const struct space *space, uint64_t ip)
{
	const struct sink_host *host = a->coverage.env.host;
	struct sink_report *r = a->coverage.env.report;
	struct inline_frame f[ANNOTATE_MAX_FRAMES];
	int n = host->inlines(host->priv, space, ip, f, ANNOTATE_MAX_FRAMES);
	struct symbol sym = { .name = NULL };

	if (n < 2 || n > ANNOTATE_MAX_FRAMES || !host->symbol ||
	    host->symbol(host->priv, space, ip, &sym) || !sym.name)
		return false;
	for (int i = 0; i + 1 < n; i++) {
		const char *name = f[i].linkage ? f[i].linkage : f[i].name;

		if (!name || !names_fit(host->names, name, sym.dso))
			continue;
		names_typed(host->names, sym.name, r->function, sizeof(r->function));
		snprintf(r->hint, sizeof(r->hint), "%.160s was inlined: its code is in "
			 "that of %.160s, whose annotate marks it",
			 f[i].name ? f[i].name : name, r->function);
		return true;
	}
	return false;
}

static void find_inlined(struct annotate *a)
{
	const struct cover_tally *t = &a->tally;
	size_t looks = 0;
	unsigned size;

	for (size_t i = 0; i < t->n_blocks; i++) {
		const struct cover_block *b = &t->blocks[i];
		struct annotate_function f = { .module = &t->modules[b->module],
					       .mode = b->mode };
		const struct space *space;
		uint64_t off, ip;

		for (off = b->off; off < b->off + b->size; off += size) {
			size = size_at(a, &f, off);
			if (!size || looks++ >= INLINED_LOOKS ||
			    !cover_address(f.module, off, &space, &ip))
				break;
			if (say_inlined(a, space, ip))
				return;
		}
	}
}

static int finish_annotate(void *sink, struct aux_diag *diag)
{
	struct functions fs = { .n = 0 };
	struct annotate *a = sink;
	int err = coverage_tally(&a->coverage, &a->tally);

	a->coverage.env.report->n_mismatches = a->tally.n_mismatches;
	if (!err)
		err = print_functions(a, &fs, a->config.limit ? a->config.limit :
								DEFAULT_FUNCTIONS);
	if (!err && !fs.n && names_select(a->coverage.env.host->names) &&
	    a->coverage.env.host->inlines)
		find_inlined(a);
	free_functions(&fs);
	if (err == -AUX_E_NOMEM)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	return err;
}

/* Which cycles are whose is known from the flow of all chunks in order. */
static int new_partial(void **partial, const void *sink)
{
	const struct annotate *a = sink;

	*partial = NULL;
	return a->coverage.counter.cycles ? -AUX_E_UNSUPPORTED :
					    cover_partial_new(partial, sink);
}

/* table */
static const struct option_row annotate_options[] = {
	{ .name = "to", .arg = "FORMAT", .values = "text json html",
	  .help = "text (the default), json or html",
	  OPTION_CHOICE(struct annotate_config, format) },
	{ .name = "limit", .letter = 'n', .arg = "N",
	  .help = "the N functions that ran most, of those that fit (default 1)",
	  .zero = "0 would show nothing",
	  OPTION_NUMBER(struct annotate_config, limit) },
	{ .name = "lines",
	  .help = "source lines alone, with how often each ran",
	  OPTION_FLAG(struct annotate_config, lines) },
	{ .name = "syntax", .arg = "NAME", .values = "intel att",
	  .help = "of x86 instructions: intel (the default) or att",
	  OPTION_CHOICE(struct annotate_config, syntax) },
	{ .name = NULL },
};

#define ANNOTATE_NEEDS (SINK_TAKES_PATHS | SINK_ANY_STREAM_ORDER | SINK_CYCLES)

/* Text begins with what is to be known of the recording. */
static uint32_t needs_of_annotate(const void *options)
{
	const struct annotate_config *config = options;

	return ANNOTATE_NEEDS |
	       (config->format == ANNOTATE_TEXT ? 0 : SINK_OWN_FORMAT);
}

const struct sink_ops sink_annotate = {
	.name = "annotate",
	.needs = ANNOTATE_NEEDS | SINK_OWN_FORMAT,
	.needs_of = needs_of_annotate,
	.options = annotate_options,
	.config_size = sizeof(struct annotate_config),
	.open = open_annotate,
	.flow = coverage_flow,
	.finish = finish_annotate,
	.close = close_annotate,
	.partial_new = new_partial,
	.partial_flow = cover_partial_flow,
	.partial_join = cover_partial_join,
	.partial_free = cover_partial_free,
};
