/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_firefox's file: meta, threads with their samples and markers, and the
 * tables that all threads share: stacks, frames, functions, files, strings.
 *
 * Specification: github.com/firefox-devtools/profiler, src/types/profile.ts and
 * docs-developer/CHANGELOG-formats.md. Version 60: the last whose tables are
 * plain columns, and the first whose tables all threads share.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "decode/export/firefox.h"
#include "decode/lib/code/code.h"
#include "decode/lib/elf/elf.h"
#include "decode/lib/session/session.h"
#include "decode/lib/sideband/sideband.h"
#include "decode/lib/trace/trace.h"

#define VERSION "60"
#define GECKO_VERSION "31"

/* table */
static const struct {
	const char *name, *color;
} categories[] = {
	{ "Other", "grey" },	      { "User", "yellow" },
	{ "Kernel", "orange" },	      { "JIT", "blue" },
	{ "Off CPU", "transparent" }, { "Not traced", "darkgrey" },
	{ "Lost", "red" },	      { "Values", "purple" },
};

/* table */
static const char *const mark_columns[N_MARK_COLUMNS] = {
	"name", "startTime", "endTime", "phase", "category", "data",
};

static void put_ms(struct outbuf *out, uint64_t ns)
{
	char buf[32];

	outbuf_put(out, buf, (size_t)(firefox_fmt_ms(buf, ns) - buf));
}

static uint32_t use_text(struct firefox *f, const char *text)
{
	return firefox_string(f, export_intern(f->x, text));
}

/* ---- the tables of the file ---- */

/* The mapping that a function is from; NULL: none is known. */
static const struct mapping *mapping_of(const struct call_func *c)
{
	return c && c->space ? space_find(c->space, c->start) : NULL;
}

/* The last part of a path. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The file of a function; NO_INDEX: none. */
static uint32_t use_lib(struct firefox *f, const struct call_func *c)
{
	const struct mapping *m = mapping_of(c);
	const char *path = m ? m->path : c ? c->dso : NULL;
	struct firefox_lib lib = { .path = path };
	const struct export_name *name;
	uint64_t id = 0;
	int64_t at;

	if (!path)
		return NO_INDEX;
	if (m) {
		lib.build_id_size = m->build_id_size < 20 ? m->build_id_size
							  : 20;
		memcpy(lib.build_id, m->build_id, lib.build_id_size);
		memcpy(&id, lib.build_id, sizeof(id));
	}
	lib.resource_name = use_text(f, base_name(path));
	name = export_intern(f->x, path);
	at = name ? export_map_find(&f->lib_map, name->id, id,
				    lib.build_id_size) : -AUX_E_NOMEM;
	if (at < 0 || ((size_t)at == f->n_libs &&
		       array_append(&f->libs, &f->n_libs, &f->max_libs, &lib,
				    sizeof(lib)))) {
		f->nomem = true;
		return NO_INDEX;
	}
	return (uint32_t)at;
}

/* Where a function is in its file, as linked: what addr2line takes. */
static uint64_t address_of(const struct firefox *f, const struct call_func *c)
{
	const struct sink_host *host = f->x->env.host;
	const struct mapping *m = mapping_of(c);
	struct elfimage *im;
	uint64_t offset, addr;

	if (host->image && c->space &&
	    !host->image(host->priv, c->space, c->start, &im, &offset) &&
	    elfimage_addr(im, offset, &addr))
		return addr;
	return m ? c->start - m->start + m->pgoff : c->start;
}

/* By function: NO_INDEX for what has no file, and for JIT code, whose addresses
 * are of no file. */
static uint32_t add_native(struct firefox *f, const struct firefox_func *func)
{
	struct firefox_native v = { .lib = NO_INDEX };

	if (func->call && firefox_category_of(func->call) != CAT_JIT)
		v.lib = use_lib(f, func->call);
	if (v.lib == NO_INDEX)
		return NO_INDEX;
	v.name = firefox_string(f, func->name);
	v.address = address_of(f, func->call);
	v.size = func->call->size;
	if (array_append(&f->natives, &f->n_natives, &f->max_natives, &v,
			 sizeof(v))) {
		f->nomem = true;
		return NO_INDEX;
	}
	return (uint32_t)f->n_natives - 1;
}

/* "GUID and age" of Breakpad: the build id's first 16 bytes, the first three
 * fields of which are little-endian. */
static void put_breakpad_id(struct outbuf *out, const struct firefox_lib *lib)
{
	static const uint8_t order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11,
					   12, 13, 14, 15 };
	char buf[3];

	outbuf_put(out, "\"", 1);
	for (unsigned i = 0; i < 16 && lib->build_id_size; i++) {
		snprintf(buf, sizeof(buf), "%02X", lib->build_id[order[i]]);
		outbuf_put(out, buf, 2);
	}
	outbuf_str(out, lib->build_id_size ? "0\"" : "\"");
}

static void put_lib(struct firefox *f, const struct firefox_lib *lib, const char *arch)
{
	struct outbuf *out = f->x->out;
	char buf[3];

	outbuf_str(out, "{\"arch\":");
	export_json_string(out, arch);
	outbuf_str(out, ",\"name\":");
	export_json_string(out, base_name(lib->path));
	outbuf_str(out, ",\"path\":");
	export_json_string(out, lib->path);
	outbuf_str(out, ",\"debugName\":");
	export_json_string(out, base_name(lib->path));
	outbuf_str(out, ",\"debugPath\":");
	export_json_string(out, lib->path);
	outbuf_str(out, ",\"breakpadId\":");
	put_breakpad_id(out, lib);
	outbuf_str(out, ",\"codeId\":");
	outbuf_str(out, lib->build_id_size ? "\"" : "null");
	for (unsigned i = 0; i < lib->build_id_size; i++) {
		snprintf(buf, sizeof(buf), "%02x", lib->build_id[i]);
		outbuf_put(out, buf, 2);
	}
	outbuf_str(out, lib->build_id_size ? "\"}" : "}");
}

/* One column of a table: a value for each of its rows. */
#define PUT_COLUMN(OUT, NAME, N, I, PUT)                    \
	do {                                                \
		outbuf_str(OUT, "\"" NAME "\":[");          \
		for (size_t I = 0; I < (N); I++) {          \
			if (I)                              \
				outbuf_put(OUT, ",", 1);    \
			PUT;                                \
		}                                           \
		outbuf_str(OUT, "],\n");                    \
	} while (0)

static void put_length(struct outbuf *out, size_t n)
{
	outbuf_str(out, "\"length\":");
	firefox_put_u64(out, n);
	outbuf_put(out, "}", 1);
}

/* v, or none. */
static void put_index(struct outbuf *out, uint32_t v, const char *none)
{
	if (v == NO_INDEX)
		outbuf_str(out, none);
	else
		firefox_put_u64(out, v);
}

static void put_stacks(struct firefox *f)
{
	struct outbuf *out = f->x->out;
	const struct export_map *m = &f->stack_map;

	outbuf_str(out, "\"stackTable\":{");
	PUT_COLUMN(out, "frame", m->n, i, firefox_put_u64(out, m->keys[i][1]));
	PUT_COLUMN(out, "prefix", m->n, i,
		   put_index(out, (uint32_t)m->keys[i][0] - 1, "null"));
	put_length(out, m->n);
}

/* native: a row of nativeSymbols for each function. */
static void put_frames(struct firefox *f, const uint32_t *native)
{
	struct outbuf *out = f->x->out;
	size_t n = f->n_frames;
	const struct firefox_frame *v = f->frames;

	outbuf_str(out, ",\n\"frameTable\":{");
	outbuf_str(out, "\"address\":[");
	for (size_t i = 0; i < n; i++) {
		uint32_t at = native[v[i].func];

		outbuf_str(out, i ? "," : "");
		if (at == NO_INDEX)
			outbuf_str(out, "-1");
		else
			firefox_put_u64(out, f->natives[at].address);
	}
	outbuf_str(out, "],\n");
	PUT_COLUMN(out, "inlineDepth", n, i, outbuf_put(out, "0", 1));
	PUT_COLUMN(out, "category", n, i, firefox_put_u64(out, v[i].category));
	PUT_COLUMN(out, "subcategory", n, i,
		   outbuf_put(out, v[i].guessed ? "1" : "0", 1));
	PUT_COLUMN(out, "func", n, i, firefox_put_u64(out, v[i].func));
	PUT_COLUMN(out, "nativeSymbol", n, i,
		   put_index(out, native[v[i].func], "null"));
	PUT_COLUMN(out, "innerWindowID", n, i, outbuf_put(out, "0", 1));
	PUT_COLUMN(out, "line", n, i, outbuf_str(out, "null"));
	PUT_COLUMN(out, "column", n, i, outbuf_str(out, "null"));
	put_length(out, n);
}

/* Of each function: its file of code, its file of source. */
struct places {
	uint32_t *native;	/* rows of nativeSymbols */
	uint32_t *resource;	/* rows of resourceTable, which are libs */
	uint32_t *source, *line; /* rows of sources */
	uint32_t *sources;	/* names of files */
	size_t n_sources, max_sources;
	struct export_ids source_of;
};

static void put_funcs(struct firefox *f, const struct places *p)
{
	struct outbuf *out = f->x->out;
	size_t n = f->n_funcs;

	outbuf_str(out, ",\n\"funcTable\":{");
	PUT_COLUMN(out, "name", n, i,
		   firefox_put_u64(out, firefox_string(f, f->funcs[i].name)));
	PUT_COLUMN(out, "isJS", n, i, outbuf_str(out, "false"));
	PUT_COLUMN(out, "relevantForJS", n, i, outbuf_str(out, "false"));
	PUT_COLUMN(out, "resource", n, i, put_index(out, p->resource[i], "-1"));
	PUT_COLUMN(out, "source", n, i, put_index(out, p->source[i], "null"));
	PUT_COLUMN(out, "lineNumber", n, i,
		   put_index(out, p->line[i] ? p->line[i] : NO_INDEX, "null"));
	PUT_COLUMN(out, "columnNumber", n, i, outbuf_str(out, "null"));
	put_length(out, n);
}

static void put_resources(struct firefox *f)
{
	struct outbuf *out = f->x->out;
	size_t n = f->n_libs;

	outbuf_str(out, ",\n\"resourceTable\":{");
	PUT_COLUMN(out, "lib", n, i, firefox_put_u64(out, i));
	PUT_COLUMN(out, "name", n, i, firefox_put_u64(out, f->libs[i].resource_name));
	PUT_COLUMN(out, "host", n, i, outbuf_str(out, "null"));
	PUT_COLUMN(out, "type", n, i, outbuf_put(out, "1", 1));
	put_length(out, n);
	n = f->n_natives;
	outbuf_str(out, ",\n\"nativeSymbols\":{");
	PUT_COLUMN(out, "libIndex", n, i, firefox_put_u64(out, f->natives[i].lib));
	PUT_COLUMN(out, "address", n, i, firefox_put_u64(out, f->natives[i].address));
	PUT_COLUMN(out, "name", n, i, firefox_put_u64(out, f->natives[i].name));
	PUT_COLUMN(out, "functionSize", n, i,
		   if (f->natives[i].size) firefox_put_u64(out, f->natives[i].size);
		   else outbuf_str(out, "null"));
	put_length(out, n);
}

/* Strings last: all that use them are written. */
static void put_strings(struct firefox *f, const struct places *p)
{
	struct outbuf *out = f->x->out;

	outbuf_str(out, ",\n\"sources\":{");
	PUT_COLUMN(out, "uuid", p->n_sources, i, outbuf_str(out, "null"));
	PUT_COLUMN(out, "filename", p->n_sources, i,
		   firefox_put_u64(out, p->sources[i]));
	put_length(out, p->n_sources);
	outbuf_str(out, ",\n\"stringArray\":[");
	for (size_t i = 0; i < f->n_names; i++) {
		outbuf_str(out, i ? ",\n\"" : "\n\"");
		export_json_text(out, f->names[i]->text, f->names[i]->len);
		outbuf_put(out, "\"", 1);
	}
	outbuf_str(out, "]}");
}

/* The row of a source file; NO_INDEX: the lines of this function are not
 * known. */
static uint32_t use_source(struct firefox *f, struct places *p,
			   const struct call_func *c, uint32_t *at_line)
{
	const struct sink_host *host = f->x->env.host;
	struct source_line line = { 0 };
	uint32_t name, *at;

	*at_line = 0;
	if (!c || !host->line ||
	    host->line(host->priv, c->space, c->start, &line) || !line.file)
		return NO_INDEX;
	*at_line = line.line;
	name = use_text(f, line.file);
	at = export_ids_at(&p->source_of, name);
	if (!at || (!*at && array_append(&p->sources, &p->n_sources,
					 &p->max_sources, &name,
					 sizeof(name)))) {
		f->nomem = true;
		return NO_INDEX;
	}
	if (!*at)
		*at = (uint32_t)p->n_sources;
	return *at - 1;
}

static void free_places(struct places *p)
{
	free(p->native);
	free(p->resource);
	free(p->source);
	free(p->line);
	free(p->sources);
	export_ids_fini(&p->source_of);
}

static int find_places(struct firefox *f, struct places *p)
{
	size_t n = f->n_funcs + 1;

	*p = (struct places){
		.native = calloc(n, sizeof(uint32_t)),
		.resource = calloc(n, sizeof(uint32_t)),
		.source = calloc(n, sizeof(uint32_t)),
		.line = calloc(n, sizeof(uint32_t)),
	};
	if (!p->native || !p->resource || !p->source || !p->line)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < f->n_funcs; i++) {
		const struct call_func *c = f->funcs[i].call;

		p->native[i] = add_native(f, &f->funcs[i]);
		p->resource[i] = c ? use_lib(f, c) : NO_INDEX;
		p->source[i] = use_source(f, p, c, &p->line[i]);
	}
	return f->nomem ? -AUX_E_NOMEM : 0;
}

static int put_shared(struct firefox *f)
{
	struct places p;
	int err = find_places(f, &p);

	if (!err) {
		outbuf_str(f->x->out, ",\n\"shared\":{");
		put_stacks(f);
		put_frames(f, p.native);
		put_funcs(f, &p);
		put_resources(f);
		put_strings(f, &p);
	}
	free_places(&p);
	return err;
}

/* ---- threads ---- */

static int put_samples(struct firefox *f, const struct firefox_thread *th)
{
	struct outbuf *out = f->x->out;
	int err;

	outbuf_str(out, ",\"samples\":{\"stack\":[");
	err = export_spool_write(f->spool, th->stack, out);
	outbuf_str(out, "],\n\"timeDeltas\":[");
	if (th->n_samples)
		put_ms(out, firefox_after_base(f, th->first));
	if (!err)
		err = export_spool_write(f->spool, th->delta, out);
	outbuf_str(out, "],\n\"threadCPUDelta\":[");
	outbuf_str(out, th->n_samples ? "0" : "");
	if (!err)
		err = export_spool_write(f->spool, th->cpu, out);
	outbuf_str(out, "],\n\"weight\":[");
	if (!err)
		err = export_spool_write(f->spool, th->weight, out);
	outbuf_str(out, f->by_insns ? "],\n\"weightType\":\"samples\","
				    : "],\n\"weightType\":\"tracing-ms\",");
	put_length(out, th->n_samples);
	return err;
}

static int put_markers(struct firefox *f, const struct firefox_thread *th)
{
	struct outbuf *out = f->x->out;
	int err = 0;

	outbuf_str(out, ",\n\"markers\":{");
	for (unsigned i = 0; i < N_MARK_COLUMNS; i++) {
		outbuf_put(out, "\"", 1);
		outbuf_str(out, mark_columns[i]);
		outbuf_str(out, "\":[");
		if (th->marks[i] && !err)
			err = export_spool_write(f->spool, th->marks[i], out);
		outbuf_str(out, "],\n");
	}
	put_length(out, th->n_marks);
	return err;
}

/* The name of a thread's process: that of its main thread, as far as it is
 * there. */
static const char *process_name(const struct firefox *f,
				const struct export_track *t)
{
	const struct export_track *p;

	for (p = f->x->tracks; p; p = p->next)
		if (p->thread == p && p->pid == t->pid && p->tid == p->pid)
			break;
	p = p ? p : t;
	return (int32_t)p->tid < 0 ? "[unknown]" : p->comm ? p->comm->text : "?";
}

/* Times of processes are not known: those of what ran stand for them. */
static void put_lifetime(struct firefox *f, const struct firefox_thread *th)
{
	struct outbuf *out = f->x->out;
	uint64_t from = firefox_after_base(f, th->n_samples ? th->first : f->base);
	uint64_t to = firefox_after_base(f, th->n_samples ? th->previous : f->base);

	outbuf_str(out, ",\"processType\":\"default\",\"processStartupTime\":0,"
			"\"processShutdownTime\":null,\"registerTime\":");
	put_ms(out, from);
	outbuf_str(out, ",\"unregisterTime\":");
	put_ms(out, to);
	outbuf_str(out, ",\"pausedRanges\":[],\"showMarkersInTimeline\":true");
}

static int put_thread(struct firefox *f, const struct export_track *t)
{
	const struct firefox_thread *th = ((const struct firefox_track *)t->user)->thread;
	struct outbuf *out = f->x->out;
	char buf[128];
	int err;

	outbuf_str(out, "{\"name\":");
	export_track_name(t, buf, sizeof(buf));
	export_json_string(out, (int32_t)t->tid < 0 ? buf :
				t->comm ? t->comm->text : "?");
	outbuf_str(out, t->pid == t->tid || (int32_t)t->tid < 0
				? ",\"isMainThread\":true"
				: ",\"isMainThread\":false");
	outbuf_str(out, ",\"processName\":");
	export_json_string(out, process_name(f, t));
	outbuf_str(out, ",\"pid\":\"");
	if ((int32_t)t->pid < 0)
		outbuf_str(out, "stream ");
	firefox_put_u64(out, (int32_t)t->pid < 0 ? t->stream : t->pid);
	outbuf_str(out, "\",\"tid\":");
	firefox_put_u64(out, export_tid(t));
	put_lifetime(f, th);
	err = put_samples(f, th);
	if (!err)
		err = put_markers(f, th);
	outbuf_put(out, "}", 1);
	return err;
}

static bool is_shown(const struct export_track *t)
{
	const struct firefox_thread *th = ((const struct firefox_track *)t->user)->thread;

	return t->thread == t && th->n_samples + th->n_marks;
}

static int put_counters(struct firefox *f)
{
	struct outbuf *out = f->x->out;
	char buf[24];
	int err = 0;

	outbuf_str(out, ",\n\"counters\":[");
	for (size_t i = 0; i < f->n_counters && !err; i++) {
		const struct firefox_counter *c = &f->counters[i];
		uint64_t index = 0;

		for (const struct export_track *t = f->x->tracks;
		     t != c->track; t = t->next)
			index += is_shown(t);
		outbuf_str(out, i ? ",\n{\"name\":\"" : "\n{\"name\":\"");
		export_json_text(out, c->name->text, c->name->len);
		outbuf_str(out, "\",\"category\":\"Values\",\"description\":"
				"\"written by the program\",\"pid\":\"");
		firefox_put_u64(out, export_pid(c->track));
		outbuf_str(out, "\",\"mainThreadIndex\":");
		firefox_put_u64(out, index);
		outbuf_str(out, ",\"samples\":{\"timeDeltas\":[");
		put_ms(out, c->first - f->base);
		err = export_spool_write(f->spool, c->delta, out);
		outbuf_str(out, "],\"count\":[");
		outbuf_put(out, buf,
			   (size_t)(fmt_sdec(buf, c->first_value) - buf));
		if (!err)
			err = export_spool_write(f->spool, c->count, out);
		outbuf_str(out, "],");
		put_length(out, c->n);
		outbuf_put(out, "}", 1);
	}
	outbuf_put(out, "]", 1);
	return err;
}

/* ---- what the recorder lost, and meta ---- */

/* What no gap of the flow tells: the recorder's ledger, by stream and cause, as
 * markers of a thread of its own. */
static int mark_losses(struct firefox *f, struct firefox_thread *th)
{
	const struct losses *l = f->x->session ? session_losses(f->x->session)
					       : NULL;
	int err = 0;

	for (uint32_t i = 0; l && i < l->n && !err; i++) {
		const struct aux_ledger_entry *e = &l->e[i];
		const struct loss_text *text = losses_text(e->cause);
		struct outbuf *out;

		if (!text || !text->verdict || !(e->bytes | e->n))
			continue;
		out = firefox_begin_mark(f, "Loss");
		outbuf_str(out, ",\"stream\":");
		firefox_put_u64(out, e->idx);
		outbuf_str(out, ",\"amount\":");
		firefox_put_u64(out, e->bytes);
		outbuf_str(out, ",\"unit\":");
		export_json_string(out, text->many);
		outbuf_str(out, ",\"times\":");
		firefox_put_u64(out, e->n);
		outbuf_str(out, ",\"text\":");
		export_json_string(out, text->verdict);
		err = firefox_end_mark(f, th, export_intern(f->x, "lost at capture"),
			       CAT_LOST, e->first_ns,
			       e->last_ns > e->first_ns ? e->last_ns
							: e->first_ns);
	}
	return err;
}

/* A thread that has markers alone. */
static int put_loss_thread(struct firefox *f, struct firefox_thread *th, bool first)
{
	struct outbuf *out = f->x->out;

	outbuf_str(out, first ? "\n" : ",\n");
	outbuf_str(out, "{\"name\":\"lost at capture\",\"isMainThread\":true,"
			"\"processName\":\"recording\",\"pid\":\"recording\","
			"\"tid\":0");
	put_lifetime(f, th);
	outbuf_str(out, ",\"samples\":{\"stack\":[],\"timeDeltas\":[],"
			"\"threadCPUDelta\":[],\"weight\":[],\"weightType\":");
	outbuf_str(out, f->by_insns ? "\"samples\",\"length\":0}"
				    : "\"tracing-ms\",\"length\":0}");
	if (put_markers(f, th))
		return -AUX_E_IO;
	outbuf_put(out, "}", 1);
	return 0;
}

/* An entry of meta.extra. */
static void put_entry(struct firefox *f, bool *first, const char *label,
		      const char *text, uint64_t number)
{
	struct outbuf *out = f->x->out;

	outbuf_str(out, *first ? "\n{\"label\":" : ",\n{\"label\":");
	*first = false;
	export_json_string(out, label);
	if (text) {
		outbuf_str(out, ",\"format\":\"string\",\"value\":");
		export_json_string(out, text);
	} else {
		outbuf_str(out, ",\"format\":\"integer\",\"value\":");
		firefox_put_u64(out, number);
	}
	outbuf_put(out, "}", 1);
}

/* How the numbers are to be read, and what is missing. */
static void put_extra(struct firefox *f, const struct firefox_thread *losses)
{
	struct export *x = f->x;
	uint64_t n = 0;
	bool first = true;
	char label[64];

	outbuf_str(x->out, ",\n\"extra\":[{\"label\":\"auxdecode\","
			   "\"entries\":[");
	put_entry(f, &first, "Weights", f->by_insns
		  ? "instructions that ran while the stack was the same; exact"
		  : "time on the CPU while the stack was the same; exact, not "
		    "sampled", 0);
	put_entry(f, &first, "Times", !x->timed
		  ? "the trace has none: 1 ns is one instruction of the thread"
		  : !strcmp(export_clock(x), "virtual")
		  ? "of a virtual clock, not of the hardware"
		  : "of the recording's clock", 0);
	put_entry(f, &first, "Instructions", NULL, x->env.report->n_insns);
	if (sink_has_parts(x->env.host))
		put_entry(f, &first, "Part", "of a recording: stacks begin in "
			  "the middle of calls", 0);
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		n += f->n_gaps[i];
	put_entry(f, &first, "Gaps", NULL, n);
	for (unsigned i = 0; i < GAP_N_CAUSES; i++) {
		if (!f->n_gaps[i])
			continue;
		snprintf(label, sizeof(label), "Gaps: %s", gap_name(i));
		put_entry(f, &first, label, NULL, f->n_gaps[i]);
	}
	put_entry(f, &first, "Losses at capture", NULL, losses->n_marks);
	outbuf_str(x->out, "]}]");
}

/* table */
static const char schemas[] =
	"\n\"markerSchema\":["
	"{\"name\":\"Gap\",\"display\":[\"marker-chart\",\"marker-table\","
	"\"timeline-overview\"],\"tableLabel\":\"{marker.data.cause}: "
	"{marker.data.text}\",\"fields\":["
	"{\"key\":\"cause\",\"label\":\"Cause\",\"format\":\"string\"},"
	"{\"key\":\"text\",\"label\":\"Meaning\",\"format\":\"string\"},"
	"{\"key\":\"offset\",\"label\":\"Offset in the stream\","
	"\"format\":\"string\"},"
	"{\"key\":\"ip\",\"label\":\"Address\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Loss\",\"display\":[\"marker-chart\",\"marker-table\","
	"\"timeline-overview\"],\"tableLabel\":\"{marker.data.text}\","
	"\"fields\":["
	"{\"key\":\"stream\",\"label\":\"Stream\",\"format\":\"integer\"},"
	"{\"key\":\"amount\",\"label\":\"Lost\",\"format\":\"integer\"},"
	"{\"key\":\"unit\",\"label\":\"Of\",\"format\":\"string\"},"
	"{\"key\":\"times\",\"label\":\"Times\",\"format\":\"integer\"},"
	"{\"key\":\"text\",\"label\":\"Meaning\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Call\",\"display\":[\"marker-chart\",\"marker-table\"],"
	"\"isStackBased\":true,\"fields\":["
	"{\"key\":\"insns\",\"label\":\"Instructions\",\"format\":\"integer\"},"
	"{\"key\":\"selfInsns\",\"label\":\"Own instructions\","
	"\"format\":\"integer\"},"
	"{\"key\":\"self\",\"label\":\"Self time\",\"format\":\"nanoseconds\"},"
	"{\"key\":\"offCpu\",\"label\":\"Off CPU itself\",\"format\":\"nanoseconds\"},"
	"{\"key\":\"totalOffCpu\",\"label\":\"Off CPU, with callees\","
	"\"format\":\"nanoseconds\"},"
	"{\"key\":\"end\",\"label\":\"Ended by\",\"format\":\"string\"},"
	"{\"key\":\"guessed\",\"label\":\"Guessed\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Event\",\"display\":[\"marker-chart\",\"marker-table\","
	"\"timeline-overview\"],\"tableLabel\":\"{marker.data.value} "
	"{marker.data.fields}\",\"fields\":["
	"{\"key\":\"source\",\"label\":\"Source\",\"format\":\"string\"},"
	"{\"key\":\"value\",\"label\":\"Value\",\"format\":\"string\"},"
	"{\"key\":\"ip\",\"label\":\"Address\",\"format\":\"string\"},"
	"{\"key\":\"fields\",\"label\":\"Fields\",\"format\":\"string\"}]},\n"
	"{\"name\":\"Span\",\"display\":[\"marker-chart\",\"marker-table\","
	"\"timeline-overview\"],\"tableLabel\":\"{marker.data.edge} "
	"{marker.data.id} {marker.data.fields}\",\"fields\":["
	"{\"key\":\"edge\",\"label\":\"Edge\",\"format\":\"string\"},"
	"{\"key\":\"id\",\"label\":\"Number\",\"format\":\"integer\"},"
	"{\"key\":\"lost\",\"label\":\"Lost\",\"format\":\"string\"},"
	"{\"key\":\"fields\",\"label\":\"Fields\",\"format\":\"string\"}]}]";

/* interval: what a viewer that counts samples takes for the length of one. */
static void put_meta(struct firefox *f, const struct firefox_thread *losses)
{
	const struct export *x = f->x;
	const struct aux_file_info *info =
		x->session ? aux_reader_info(session_reader(x->session)) : NULL;
	struct outbuf *out = x->out;

	outbuf_str(out, "{\"meta\":{\"preprocessedProfileVersion\":" VERSION
			",\"version\":" GECKO_VERSION ",\"interval\":0.001,"
			"\"startTime\":0,\"processType\":0,\"stackwalk\":1,"
			"\"debug\":false,\"symbolicated\":true,"
			"\"symbolicationNotSupported\":true,"
			"\"usesOnlyOneStackType\":true,"
			"\"sourceCodeIsNotOnSearchfox\":true,"
			"\"keepProfileThreadOrder\":true,"
			"\"importedFrom\":\"auxdecode\",\"product\":");
	export_json_string(out, x->env.path ? x->env.path : "auxdecode");
	if (x->timed) {
		outbuf_str(out, ",\"startTimeAsClockMonotonicNanosecondsSinceBoot"
				"\":");
		firefox_put_u64(out, f->base);
	}
	if (info && info->cmdline) {
		outbuf_str(out, ",\"arguments\":");
		export_json_string(out, info->cmdline);
	}
	if (info && info->cpu_desc) {
		outbuf_str(out, ",\"CPUName\":");
		export_json_string(out, info->cpu_desc);
	}
	if (info && info->os_release) {
		outbuf_str(out, ",\"oscpu\":");
		export_json_string(out, info->os_release);
	}
	outbuf_str(out, ",\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":"
			"\"ms\",\"threadCPUDelta\":\"ns\"},\n\"categories\":[");
	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
		outbuf_str(out, i ? ",{\"name\":\"" : "{\"name\":\"");
		outbuf_str(out, categories[i].name);
		outbuf_str(out, "\",\"color\":\"");
		outbuf_str(out, categories[i].color);
		outbuf_str(out, "\",\"subcategories\":[\"Other\","
				"\"Guessed\"]}");
	}
	outbuf_str(out, "],");
	outbuf_str(out, schemas);
	put_extra(f, losses);
	outbuf_put(out, "}", 1);
}

/* Threads before the tables: what they use comes last. */
static int put_threads(struct firefox *f, struct firefox_thread *losses)
{
	struct outbuf *out = f->x->out;
	bool first = true;
	int err = 0;

	outbuf_str(out, ",\n\"threads\":[");
	for (struct export_track *t = f->x->tracks; t && !err; t = t->next) {
		if (!is_shown(t))
			continue;
		outbuf_str(out, first ? "\n" : ",\n");
		first = false;
		err = put_thread(f, t);
	}
	if (!err && losses->n_marks)
		err = put_loss_thread(f, losses, first);
	outbuf_str(out, "]");
	return err;
}

static void put_libs(struct firefox *f)
{
	const struct aux_file_info *info = f->x->session
		? aux_reader_info(session_reader(f->x->session)) : NULL;

	outbuf_str(f->x->out, ",\n\"libs\":[");
	for (size_t i = 0; i < f->n_libs; i++) {
		outbuf_str(f->x->out, i ? ",\n" : "\n");
		put_lib(f, &f->libs[i], info && info->arch ? info->arch : "");
	}
	outbuf_str(f->x->out, "],\"pages\":[]}\n");
}

int firefox_write(struct firefox *f)
{
	struct firefox_thread losses = { 0 };
	int err = mark_losses(f, &losses);

	if (!err)
		put_meta(f, &losses);
	if (!err)
		err = put_threads(f, &losses);
	if (!err)
		err = put_counters(f);
	if (!err)
		err = put_shared(f);
	if (!err)
		put_libs(f);
	return f->nomem ? -AUX_E_NOMEM : err;
}
