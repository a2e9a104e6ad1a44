/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_pprof: a profile of pprof: for each stack of functions how often its
 * top was called, and what it took itself: instructions, time, cycles. Gaps and
 * time that is not traced are functions "[gap]" and "[not traced]". The file
 * grows with the number of different stacks, not with the trace.
 *
 * Specification: pprof's profile.proto; the file is gzip'ed.
 */
#include <stdlib.h>

#include "decode/callstack/calltree.h"
#include "common/outbuf.h"
#include "common/protobuf.h"
#include "decode/export/export.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/sideband/sideband.h"

enum field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_DURATION = 10,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT = 14,
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
	LABEL_KEY = 1,
	LABEL_STR = 2,
	LABEL_NUM = 3,
	MAPPING_ID = 1,
	MAPPING_START = 2,
	MAPPING_LIMIT = 3,
	MAPPING_OFFSET = 4,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID = 6,
	MAPPING_HAS_FUNCTIONS = 7,
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM = 3,
	FUNCTION_FILE = 4,
	FUNCTION_LINE = 5,
};

struct pprof {
	struct export *x;
	struct calltree tree;
	struct calltree_thread **threads;	/* to be freed */
	size_t n_threads;
	struct protobuf pb;
	struct gzip *gzip;
	struct export_ids strings;	/* index; 0: not written */
	uint32_t n_strings;
	struct export_map mappings;
	struct export_ids done;		/* functions whose location is written */
};

/* Messages are small: each goes to gzip as it is complete. */
static int flush_message(struct pprof *f)
{
	int err = f->pb.failed ? -AUX_E_NOMEM
			       : gzip_put(f->gzip, f->pb.buf, f->pb.n);

	protobuf_reset(&f->pb);
	return err;
}

/*
 * Index of a string; 0 is the empty one. A new one is written at once: it is a
 * field of the profile itself, so strings are asked for before a message
 * begins.
 */
static uint64_t use_string(struct pprof *f, const char *s)
{
	const struct export_name *name = s && *s ? export_intern(f->x, s) : NULL;
	uint32_t *index;

	if (!name)
		return 0;
	index = export_ids_at(&f->strings, name->id);
	if (!index) {
		f->pb.failed = true;
		return 0;
	}
	if (!*index) {
		*index = ++f->n_strings;
		protobuf_bytes(&f->pb, PROFILE_STRING, name->text, name->len);
	}
	return *index;
}

/* The strings first, then the message that refers to them. */
static void put_type(struct pprof *f, const char *type, const char *unit)
{
	uint64_t t = use_string(f, type), u = use_string(f, unit);
	size_t m = protobuf_begin(&f->pb, PROFILE_SAMPLE_TYPE);

	protobuf_u64(&f->pb, TYPE_TYPE, t);
	protobuf_u64(&f->pb, TYPE_UNIT, u);
	protobuf_end(&f->pb, m);
}

/* The kinds of values that each sample has, in their order. */
static int put_types(struct pprof *f)
{
	uint64_t s;

	protobuf_str(&f->pb, PROFILE_STRING, "");
	put_type(f, "calls", "count");
	put_type(f, "instructions", "count");
	put_type(f, "branches", "count");
	put_type(f, "cycles", "count");
	put_type(f, "time", "nanoseconds");
	s = use_string(f, f->x->timed ? "time" : "instructions");
	protobuf_u64(&f->pb, PROFILE_DEFAULT, s);
	if (!strcmp(export_clock(f->x), "virtual")) {
		s = use_string(f, "software-made trace: times are of a "
				  "virtual clock");
		protobuf_u64(&f->pb, PROFILE_COMMENT, s);
	}
	if (sink_has_parts(f->x->env.host)) {
		s = use_string(f, PPROF_PART);
		protobuf_u64(&f->pb, PROFILE_COMMENT, s);
	}
	if (f->x->timed)
		protobuf_u64(&f->pb, PROFILE_DURATION,
			     f->x->last_ns - f->x->first_ns);
	return flush_message(f);
}

/* Hexadecimal, at most 20 bytes of it. */
static void fmt_build_id(const struct mapping *m, char *to)
{
	static const char hex[] = "0123456789abcdef";
	unsigned n = m->build_id_size < 20 ? m->build_id_size : 20;

	for (unsigned i = 0; i < n; i++) {
		*to++ = hex[m->build_id[i] >> 4];
		*to++ = hex[m->build_id[i] & 15];
	}
	*to = 0;
}

/* The mapping's id; 0: none is known. Mappings of several processes that are
 * equal have one id; end and offset share a word of the key. */
static uint64_t use_mapping(struct pprof *f, const struct call_func *func)
{
	const struct mapping *m = func->space ? space_find(func->space,
							   func->start) : NULL;
	uint64_t path, id;
	char build_id[41];
	uint32_t had = f->mappings.n;
	int64_t at;
	size_t msg;

	if (!m)
		return 0;
	path = use_string(f, m->path);
	at = export_map_find(&f->mappings, path, m->start, m->end ^ m->pgoff);
	if (at < 0) {
		f->pb.failed = true;
		return 0;
	}
	if (f->mappings.n == had)
		return (uint64_t)at + 1;
	fmt_build_id(m, build_id);
	id = use_string(f, build_id);
	msg = protobuf_begin(&f->pb, PROFILE_MAPPING);
	protobuf_u64(&f->pb, MAPPING_ID, (uint64_t)at + 1);
	protobuf_u64(&f->pb, MAPPING_START, m->start);
	protobuf_u64(&f->pb, MAPPING_LIMIT, m->end);
	protobuf_u64(&f->pb, MAPPING_OFFSET, m->pgoff);
	protobuf_u64(&f->pb, MAPPING_FILE, path);
	if (id)
		protobuf_u64(&f->pb, MAPPING_BUILD_ID, id);
	protobuf_u64(&f->pb, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_end(&f->pb, msg);
	return (uint64_t)at + 1;
}

/* A function and the location that stands for it, with one id. */
static int put_place(struct pprof *f, uint64_t id, uint64_t mapping,
		     uint64_t address, uint64_t name, uint64_t raw,
		     uint64_t file, uint32_t line)
{
	size_t msg = protobuf_begin(&f->pb, PROFILE_FUNCTION), sub;

	protobuf_u64(&f->pb, FUNCTION_ID, id);
	protobuf_u64(&f->pb, FUNCTION_NAME, name);
	protobuf_u64(&f->pb, FUNCTION_SYSTEM, raw ? raw : name);
	if (file) {
		protobuf_u64(&f->pb, FUNCTION_FILE, file);
		protobuf_u64(&f->pb, FUNCTION_LINE, line);
	}
	protobuf_end(&f->pb, msg);
	msg = protobuf_begin(&f->pb, PROFILE_LOCATION);
	protobuf_u64(&f->pb, LOCATION_ID, id);
	if (mapping)
		protobuf_u64(&f->pb, LOCATION_MAPPING, mapping);
	if (address)
		protobuf_u64(&f->pb, LOCATION_ADDRESS, address);
	sub = protobuf_begin(&f->pb, LOCATION_LINE);
	protobuf_u64(&f->pb, LINE_FUNCTION, id);
	if (line)
		protobuf_u64(&f->pb, LINE_LINE, line);
	protobuf_end(&f->pb, sub);
	protobuf_end(&f->pb, msg);
	return flush_message(f);
}

/* All strings before the message that refers to them. */
static int put_func(struct pprof *f, uint64_t id, uint32_t func)
{
	const struct call_func *fn = calls_func(f->x->calls, func);
	const struct sink_host *host = f->x->env.host;
	struct source_line line = { 0 };
	uint64_t name, raw, file, mapping;
	char buf[512];

	if (!fn->name)
		call_func_name(fn, buf, sizeof(buf));
	name = use_string(f, fn->name ? fn->name : buf);
	raw = use_string(f, fn->raw);
	if (host->line && host->line(host->priv, fn->space, fn->start, &line))
		line = (struct source_line){ 0 };
	file = use_string(f, line.file);
	mapping = use_mapping(f, fn);
	return put_place(f, id, mapping, fn->start, name, raw, file,
			 line.line);
}

/* Locations are functions: their ids after those of what is no function, which are
 * from 1 on. */
static int use_location(struct pprof *f, uint32_t func, uint64_t *id)
{
	uint64_t name;
	uint32_t *done;
	*id = func < CALLTREE_FOLDED ? (uint64_t)func + CALLTREE_N_OTHERS + 1
				     : (uint64_t)(CALLTREE_GAP - func) + 1;
	done = export_ids_at(&f->done, (uint32_t)*id);
	if (!done)
		return -AUX_E_NOMEM;
	if (*done)
		return 0;
	*done = 1;
	if (func < CALLTREE_FOLDED)
		return put_func(f, *id, func);
	name = use_string(f, calltree_other(func));
	return put_place(f, *id, 0, 0, name, name, 0, 0);
}

/* A node that stands for a thread, above its functions. */
static bool is_root(const struct pprof *f, uint32_t node)
{
	return f->tree.nodes[node].func == CALLTREE_ROOT;
}

static bool is_symbol(const struct pprof *f, uint32_t node)
{
	uint32_t func = f->tree.nodes[node].func;

	return func < CALLTREE_FOLDED &&
	       calls_func(f->x->calls, func)->wanted;
}

/* With --symbol: the outermost node of that name, 0: the stack has none. */
static uint32_t find_bottom(const struct pprof *f, uint32_t node)
{
	uint32_t bottom = 0;

	for (; node && !is_root(f, node); node = f->tree.nodes[node].parent)
		if (!f->x->env.symbol || is_symbol(f, node))
			bottom = node;
	return bottom;
}

/* Those of the stack that are new: before the sample. */
static int put_locations(struct pprof *f, uint32_t node, uint32_t bottom)
{
	uint64_t id;
	int err;

	for (uint32_t i = node;; i = f->tree.nodes[i].parent) {
		err = use_location(f, f->tree.nodes[i].func, &id);
		if (err || i == bottom)
			return err;
	}
}

/* A text, or a number where str is 0. */
static void put_label(struct pprof *f, uint64_t key, uint64_t str, uint64_t num)
{
	size_t label = protobuf_begin(&f->pb, SAMPLE_LABEL);

	protobuf_u64(&f->pb, LABEL_KEY, key);
	protobuf_u64(&f->pb, str ? LABEL_STR : LABEL_NUM, str ? str : num);
	protobuf_end(&f->pb, label);
}

/* One stack: locations from the top down, values, the thread as labels. */
static int put_sample(struct pprof *f, uint32_t node, uint32_t bottom,
		      uint32_t root)
{
	const struct calltree_node *n = &f->tree.nodes[node];
	uint64_t key = use_string(f, "thread"), tid = use_string(f, "tid"), name;
	size_t sample, list;
	char buf[CALLTREE_NAME];

	name = use_string(f, calltree_name(&f->tree, f->x->calls, root, buf));
	sample = protobuf_begin(&f->pb, PROFILE_SAMPLE);
	list = protobuf_begin(&f->pb, SAMPLE_LOCATION);
	for (uint32_t i = node;; i = f->tree.nodes[i].parent) {
		uint64_t id = 0;

		use_location(f, f->tree.nodes[i].func, &id);
		protobuf_packed(&f->pb, id);
		if (i == bottom)
			break;
	}
	protobuf_end(&f->pb, list);
	list = protobuf_begin(&f->pb, SAMPLE_VALUE);
	protobuf_packed(&f->pb, n->calls);
	protobuf_packed(&f->pb, n->own.insns);
	protobuf_packed(&f->pb, n->own.branches);
	protobuf_packed(&f->pb, n->own.cycles);
	protobuf_packed(&f->pb, n->own.ns);
	protobuf_end(&f->pb, list);
	put_label(f, key, name, 0);
	if ((int32_t)f->tree.nodes[root].id >= 0)
		put_label(f, tid, 0, f->tree.nodes[root].id);
	protobuf_end(&f->pb, sample);
	f->x->env.report->n_lines++;
	return flush_message(f);
}

/* Nodes without anything of their own are no samples; the path to them is in
 * others. */
static int put_node(struct pprof *f, uint32_t node)
{
	const struct calltree_node *n = &f->tree.nodes[node];
	uint32_t bottom, root = node;
	int err;

	if (is_root(f, node) || !(n->calls | n->own.insns | n->own.ns |
				  n->own.branches | n->own.cycles))
		return 0;
	bottom = find_bottom(f, node);
	if (!bottom)
		return 0;
	while (!is_root(f, root))
		root = f->tree.nodes[root].parent;
	err = put_locations(f, node, bottom);
	return err ? err : put_sample(f, node, bottom, root);
}

/* The gzip stream is begun here: before, nothing is known for sure. */
static int finish_pprof(void *format, struct aux_diag *diag)
{
	struct pprof *f = format;
	int err;

	(void)diag;
	f->gzip = gzip_new(f->x->out);
	err = f->gzip ? put_types(f) : -AUX_E_NOMEM;
	for (uint32_t i = 1; i < f->tree.n && !err; i++)
		err = put_node(f, i);
	return err ? err : gzip_finish(f->gzip);
}

/* ---- calls, into the tree ---- */

/* NULL: out of memory. */
static struct calltree_thread *thread_of(struct pprof *f, struct call_thread *t)
{
	struct calltree_thread **v;

	if (t->user)
		return t->user;
	v = reallocarray(f->threads, f->n_threads + 1, sizeof(*v));
	if (!v)
		return NULL;
	f->threads = v;
	v[f->n_threads] = calloc(1, sizeof(**v));
	t->user = v[f->n_threads];
	f->n_threads += t->user != NULL;
	return t->user;
}

/* The callbacks hand all to the call tree, which has no need of slices. */
static int on_enter(void *priv, struct call_thread *t)
{
	struct pprof *f = priv;
	struct calltree_thread *ct = thread_of(f, t);

	return ct ? calltree_enter(&f->tree, ct, t) : -AUX_E_NOMEM;
}

static int on_leave(void *priv, struct call_thread *t, enum call_end end,
		    unsigned flags)
{
	struct pprof *f = priv;
	struct calltree_thread *ct = thread_of(f, t);

	(void)flags;
	return ct ? calltree_leave(&f->tree, ct, t, end) : -AUX_E_NOMEM;
}

static int on_turn(void *priv, struct call_thread *t, uint32_t from)
{
	struct pprof *f = priv;
	struct calltree_thread *ct = thread_of(f, t);

	(void)from;
	return ct ? calltree_turn(&f->tree, ct, t) : -AUX_E_NOMEM;
}

/* A gap of no thread is in no stack. */
static int on_gap(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	struct pprof *f = priv;
	struct calltree_thread *ct = t ? thread_of(f, t) : NULL;

	(void)ev;
	if (!t)
		return 0;
	return ct ? calltree_gap(&f->tree, ct, t) : -AUX_E_NOMEM;
}

static int on_off(void *priv, struct call_thread *t, bool on)
{
	struct pprof *f = priv;
	struct calltree_thread *ct = thread_of(f, t);

	return ct ? calltree_off(&f->tree, ct, t, on) : -AUX_E_NOMEM;
}

static const struct calls_ops to_tree = {
	.enter = on_enter,
	.leave = on_leave,
	.turn = on_turn,
	.gap = on_gap,
	.off = on_off,
};

/* One tree per thread, so that a sample can name its thread. */
static int open_pprof(void **format, struct export *x, struct aux_diag *diag)
{
	struct calltree_config config = { .host = x->env.host,
					  .per = CALLTREE_PER_THREAD };
	struct pprof *f = calloc(1, sizeof(*f));

	(void)diag;
	*format = f;
	if (!f)
		return -AUX_E_NOMEM;
	f->x = x;
	return calltree_init(&f->tree, &config);
}

static void close_pprof(void *format)
{
	struct pprof *f = format;

	calltree_fini(&f->tree);
	for (size_t i = 0; i < f->n_threads; i++)
		free(f->threads[i]);
	free(f->threads);
	protobuf_fini(&f->pb);
	gzip_free(f->gzip);
	export_ids_fini(&f->strings);
	export_ids_fini(&f->done);
	export_map_fini(&f->mappings);
	free(f);
}

const struct export_ops export_pprof = {
	.name = "pprof",
	.help = "a profile of pprof: stacks with what they took",
	.flags = EXPORT_BINARY,
	.open = open_pprof,
	.raw = &to_tree,
	.finish = finish_pprof,
	.close = close_pprof,
};
