/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_snapshot: the ini files of a snapshot directory, put together.
 *
 * A source that has no device file is left out: its protocol is unknown, and
 * the decoder says so where its bytes come. Every core gets a process of its
 * own, with a pid that Linux does not give.
 *
 * Specification: OpenCSD's decoder/docs/specs/ARM Trace and Debug Snapshot file
 * format 0v2.pdf.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <aux/decoder.h>

#include "common/diag.h"
#include "decode/lib/import/impl.h"

#define FIRST_PID ((1U << 22) + 1)	/* above Linux's PID_MAX_LIMIT */
#define MAX_CPU 4096

#define SNAPSHOT_DEVICES 1024	/* at most; buffers too */

struct snapshot_device {
	struct ini ini;
	const char *name, *class, *type;	/* never NULL */
};

struct snapshot_buffer {
	const char *id;		/* its section */
	const char *name, *file, *format;	/* never NULL */
};

/* A source that wrote into a buffer. */
struct snapshot_link {
	const struct snapshot_device *source;
	size_t buffer;
	const struct snapshot_device *core;	/* NULL: of no core */
	uint32_t pid;		/* stands for the core; -1: none */
	uint32_t cpu;		/* its own number; -1: none */
};

struct snapshot_dir {
	char *dir;
	bool anywhere;		/* files may be outside of it; */
	bool code_anywhere;	/* memory dumps, too */
	const struct import_options *o;
	struct ini top, trace;
	struct snapshot_device *devices;
	size_t n_devices;
	struct snapshot_buffer *buffers;
	size_t n_buffers;
	struct snapshot_link *links;
	size_t n_links;
};

static int fail_nomem(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

/* ini_parse makes a copy of the text, so the mapping ends here. */
static int read_ini(struct ini *ini, const struct snapshot_dir *s, const char *name,
		    bool anywhere, struct aux_diag *diag)
{
	struct import_file f;
	int rc = import_map_named(&f, s->dir, name, anywhere, diag);

	if (rc == 0)
		rc = ini_parse(ini, f.data, f.len, name, diag);
	import_unmap_file(&f);
	return rc;
}

/* So that strings of a device need no checks for NULL. */
static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static bool is_section(const struct ini *ini, size_t i, const char *name)
{
	return !strcasecmp(ini->sections[ini->items[i].section].name, name);
}

/*
 * [device_list] of snapshot.ini: each value is a file with [device] and [regs].
 * Strings point into the device's ini, so devices[] is allocated once and never
 * moves.
 */
static int read_devices(struct snapshot_dir *s, struct aux_diag *diag)
{
	int rc = 0;

	s->devices = calloc(SNAPSHOT_DEVICES, sizeof(*s->devices));
	if (!s->devices)
		return fail_nomem(diag);
	for (size_t i = 0; rc == 0 && i < s->top.n_items; i++) {
		struct snapshot_device *d = &s->devices[s->n_devices];

		if (!is_section(&s->top, i, "device_list"))
			continue;
		if (s->n_devices == SNAPSHOT_DEVICES)
			return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
					"more than %d devices",
					SNAPSHOT_DEVICES);
		s->n_devices++;
		rc = read_ini(&d->ini, s, s->top.items[i].value, s->anywhere, diag);
		d->name = or_empty(ini_get(&d->ini, "device", "name"));
		d->class = or_empty(ini_get(&d->ini, "device", "class"));
		d->type = or_empty(ini_get(&d->ini, "device", "type"));
	}
	return rc;
}

/* The next of a, b, c; NULL at the end. *list moves on. */
static char *next_word(char **list)
{
	char *word;

	do {
		word = strsep(list, ", \t");
	} while (word && !*word);
	return word;
}

/*
 * id: a word of buffers=, which lives only as long as the list: the section's
 * name, the same string, is kept instead. The array has one entry more than may
 * be used.
 */
static int add_buffer(struct snapshot_dir *s, const char *id,
		      struct aux_diag *diag)
{
	struct snapshot_buffer *b = &s->buffers[s->n_buffers];
	const char *file = ini_get(&s->trace, id, "file");

	for (size_t i = 0; i < s->trace.n_sections; i++)
		if (!strcmp(s->trace.sections[i].name, id))
			b->id = s->trace.sections[i].name;
	if (!file || !b->id)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"trace buffer \"%.80s\" has no section with a "
				"file", id);
	for (size_t i = 0; i < s->n_buffers; i++)
		if (!strcmp(s->buffers[i].id, id))
			return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
					"trace buffer \"%.80s\" is listed "
					"twice", id);
	if (s->n_buffers == SNAPSHOT_DEVICES - 1)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"more than %d trace buffers",
				SNAPSHOT_DEVICES - 1);
	b->file = file;
	b->name = ini_get(&s->trace, id, "name");
	b->name = b->name ? b->name : b->id;
	b->format = or_empty(ini_get(&s->trace, id, "format"));
	s->n_buffers++;
	return 0;
}

static int read_buffers(struct snapshot_dir *s, struct aux_diag *diag)
{
	const char *all = ini_get(&s->trace, "trace_buffers", "buffers");
	char *list = strdup(or_empty(all)), *p = list, *word;
	int rc = 0;

	s->buffers = calloc(SNAPSHOT_DEVICES, sizeof(*s->buffers));
	if (!list || !s->buffers)
		rc = fail_nomem(diag);
	while (rc == 0 && (word = next_word(&p)))
		rc = add_buffer(s, word, diag);
	free(list);
	if (rc == 0 && !s->n_buffers)
		rc = diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			      "the snapshot names no trace buffer: its trace "
			      "metadata wants [trace_buffers] buffers=");
	return rc;
}

static struct snapshot_device *find_device(const struct snapshot_dir *s,
					   const char *name)
{
	for (size_t i = 0; i < s->n_devices; i++)
		if (!strcmp(s->devices[i].name, name))
			return &s->devices[i];
	return NULL;
}

/* The core that a source traces; a lone core needs no line. */
static const struct snapshot_device *find_core(const struct snapshot_dir *s,
					       const char *source)
{
	const struct snapshot_device *one = NULL;
	size_t n = 0;

	for (size_t i = 0; i < s->trace.n_items; i++)
		if (is_section(&s->trace, i, "core_trace_sources") &&
		    !strcmp(s->trace.items[i].value, source))
			return find_device(s, s->trace.items[i].key);
	for (size_t i = 0; i < s->n_devices; i++) {
		if (strcasecmp(s->devices[i].class, "core"))
			continue;
		one = &s->devices[i];
		n++;
	}
	return n == 1 && !ini_get(&s->trace, "core_trace_sources", one->name) ?
		       one : NULL;
}

/*
 * A source may be listed with several buffers, and a buffer with several
 * sources. What is not known (a source without a device file) is no error. An
 * STM is no core's: software of all cores writes into it.
 */
static int add_link(struct snapshot_dir *s, const char *source,
		    const char *buffer, struct aux_diag *diag)
{
	const struct snapshot_device *d = find_device(s, source);

	for (size_t i = 0; d && i < s->n_buffers; i++) {
		struct snapshot_link *l = &s->links[s->n_links];

		if (strcmp(s->buffers[i].name, buffer) &&
		    strcmp(s->buffers[i].id, buffer))
			continue;
		if (s->n_links == SNAPSHOT_DEVICES)
			return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
					"more than %d sources",
					SNAPSHOT_DEVICES);
		*l = (struct snapshot_link){ .source = d, .buffer = i,
					     .pid = UINT32_MAX,
					     .cpu = UINT32_MAX };
		if (strncasecmp(d->type, "STM", 3))
			l->core = find_core(s, source);
		if (l->core)
			l->pid = FIRST_PID + (uint32_t)(l->core - s->devices);
		s->n_links++;
		break;
	}
	return 0;
}

static int read_links(struct snapshot_dir *s, struct aux_diag *diag)
{
	int rc = 0;

	/* one more, for add_link to look at */
	s->links = calloc(SNAPSHOT_DEVICES + 1, sizeof(*s->links));
	if (!s->links)
		return fail_nomem(diag);
	for (size_t i = 0; rc == 0 && i < s->trace.n_items; i++) {
		const struct ini_item *it = &s->trace.items[i];
		char *list, *p, *word;

		if (!is_section(&s->trace, i, "source_buffers"))
			continue;
		list = p = strdup(it->value);
		if (!list)
			return fail_nomem(diag);
		while (rc == 0 && (word = next_word(&p)))
			rc = add_link(s, it->key, word, diag);
		free(list);
	}
	return rc;
}

/* Does the name up to end say that a number of a CPU follows: "cpu", "core", or
 * what ends with a separator? Cortex-M4 and Cortex-A53 are names of a model. */
static bool counts_cpus(const char *name, const char *end)
{
	size_t n = (size_t)(end - name);

	return (n && strchr("_.#: ", end[-1])) ||
	       (n >= 3 && !strncasecmp(end - 3, "cpu", 3)) ||
	       (n >= 4 && !strncasecmp(end - 4, "core", 4));
}

/* The number of the CPU that a name ends with, or -1. */
static uint32_t tail_number(const char *name)
{
	const char *p = name + strlen(name);
	unsigned long v;

	while (p > name && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (!counts_cpus(name, p))
		return UINT32_MAX;
	v = *p && strlen(p) < 5 ? strtoul(p, NULL, 10) : MAX_CPU;
	return v < MAX_CPU ? (uint32_t)v : UINT32_MAX;
}

/* The link of the same source that comes first, or l itself. */
static struct snapshot_link *snapshot_first(const struct snapshot_dir *s,
					    struct snapshot_link *l)
{
	for (size_t i = 0; &s->links[i] < l; i++)
		if (s->links[i].source == l->source)
			return &s->links[i];
	return l;
}

static bool is_taken(const struct snapshot_dir *s, uint32_t cpu)
{
	for (size_t i = 0; i < s->n_links; i++)
		if (s->links[i].cpu == cpu)
			return true;
	return false;
}

/* cpu_3 is CPU 3. A name without a number, a number that is taken, a second
 * source of one core: the next free one. */
static void number_cpus(struct snapshot_dir *s)
{
	uint32_t next = 0;

	for (size_t i = 0; i < s->n_links; i++) {
		struct snapshot_link *l = &s->links[i];
		uint32_t cpu = l->core ? tail_number(l->core->name) :
					 UINT32_MAX;

		if (cpu != UINT32_MAX && !is_taken(s, cpu))
			l->cpu = cpu;
	}
	for (size_t i = 0; i < s->n_links; i++) {
		struct snapshot_link *l = &s->links[i];

		if (snapshot_first(s, l) != l)
			l->cpu = snapshot_first(s, l)->cpu;
		if (!l->core || l->cpu != UINT32_MAX)
			continue;
		while (is_taken(s, next))
			next++;
		l->cpu = next;
	}
}

/* src: the directory, or its snapshot.ini. Call fini after an error, too. */
static int snapshot_read(struct snapshot_dir *s, const struct import_source *src,
			 struct aux_diag *diag)
{
	const char *path = src->path, *file = strrchr(path, '/');
	const char *trace;
	int rc;

	*s = (struct snapshot_dir){
		.anywhere = src->o->anywhere,
		.code_anywhere = src->o->anywhere || !src->o->copied,
	};
	s->dir = src->is_dir ? strdup(path) : import_dirname(path);
	if (!s->dir)
		return fail_nomem(diag);
	file = src->is_dir ? "snapshot.ini" : file ? file + 1 : path;
	rc = read_ini(&s->top, s, file, true, diag);	/* the user named it */
	if (rc < 0)
		return rc;
	trace = ini_get(&s->top, "trace", "metadata");
	if (!trace)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"the snapshot has no trace: %s has no [trace] "
				"metadata=", file);
	rc = read_devices(s, diag);
	if (rc == 0)
		rc = read_ini(&s->trace, s, trace, s->anywhere, diag);
	if (rc == 0)
		rc = read_buffers(s, diag);
	if (rc == 0)
		rc = read_links(s, diag);
	if (rc == 0)
		number_cpus(s);
	return rc;
}

static void snapshot_fini(struct snapshot_dir *s)
{
	for (size_t i = 0; i < s->n_devices; i++)
		ini_fini(&s->devices[i].ini);
	ini_fini(&s->top);
	ini_fini(&s->trace);
	free(s->devices);
	free(s->buffers);
	free(s->links);
	free(s->dir);
	*s = (struct snapshot_dir){ 0 };
}

/*
 * import_snapshot_open: a snapshot directory as a perf.data.
 *
 * Each buffer is a stream, each source a block of AUXTRACE_INFO, each core a
 * process that maps its memory dumps. Dumps are mapped by their real place: the
 * file may also come later. The memory space of a dump is not kept.
 */

#define MAX_SOURCES 256

/* How a buffer's bytes are laid out. */
enum layout { LAYOUT_RAW, LAYOUT_FRAMES, LAYOUT_DSTREAM, LAYOUT_NONE };

/* table: format= of a buffer */
static const struct {
	const char *name;
	enum layout layout;
} formats[] = {
	{ "source_data", LAYOUT_RAW },
	{ "coresight", LAYOUT_FRAMES },
	{ "dstream_coresight", LAYOUT_DSTREAM },
};

/* source_data is the stream of one source, unformatted; the others come from a
 * sink with a formatter. LAYOUT_NONE: unknown. */
static enum layout find_layout(const char *format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcasecmp(formats[i].name, format))
			return formats[i].layout;
	return LAYOUT_NONE;
}

/*
 * A block for each source, once, however many buffers it has. One core of Armv8
 * or later makes the machine an aarch64: ARCH has a single value for all of
 * them.
 */
static int put_info(struct import_build *b, const struct snapshot_dir *s,
		    struct aux_diag *diag)
{
	uint64_t *words = calloc(AUX_CS_N_HEADER +
					 s->n_links * IMPORT_CS_BLOCK,
				 sizeof(*words));
	size_t n = AUX_CS_N_HEADER, n_sources = 0;
	bool is_64 = false;

	if (!words)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	words[AUX_CS_VERSION] = 1;
	for (size_t i = 0; i < s->n_links; i++) {
		const struct snapshot_link *l = &s->links[i];
		const char *core = l->core ? l->core->type : NULL;

		if (snapshot_first(s, &s->links[i]) != l)
			continue;
		import_cs_block(words + n, &l->source->ini, l->source->type,
				core, l->cpu);
		is_64 |= import_cs_version(core) >= 8;
		n += IMPORT_CS_BLOCK;
		n_sources++;
	}
	words[AUX_CS_PMU_CPUS] = (uint64_t)IMPORT_PMU << 32 | n_sources;
	import_build_feature(b, AUX_FEAT_ARCH, is_64 ? "aarch64" : "arm");
	import_build_info(b, AUX_TRACE_CS_ETM, words, n);
	free(words);
	return 0;
}

static int fail_dump(struct aux_diag *diag, const struct snapshot_device *core,
		     const char *section, const char *what)
{
	return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
			"[%.40s] of device \"%.80s\": %s", section, core->name,
			what);
}

/* Clips the mapping to its file; without one it stands as it was said. */
static int fit_dump(struct import_map *m, const char *dir, const char *file,
		    char **path)
{
	struct import_file f;
	uint64_t len = 0;
	int rc = import_map_file(&f, dir, file, NULL);

	if (rc == 0) {
		len = f.len > m->pgoff ? f.len - m->pgoff : 0;
		if (m->len > len)
			m->len = len;
		*path = strdup(f.path);
	} else {
		*path = import_absent(dir, file);
		m->len = m->len == UINT64_MAX ? 0 : m->len;
	}
	import_unmap_file(&f);
	return *path ? 0 : -AUX_E_NOMEM;
}

/* length= and offset= are optional: then the file is mapped from its start, to
 * its end. A dump of no bytes is left out. */
static int put_dump(struct import_build *b, const struct snapshot_dir *s,
		    const struct snapshot_link *l, size_t section,
		    struct aux_diag *diag)
{
	const struct ini *ini = &l->core->ini;
	const char *name = ini->sections[section].name;
	const char *file = ini_get_in(ini, section, "file");
	const char *len = ini_get_in(ini, section, "length");
	const char *offset = ini_get_in(ini, section, "offset");
	struct import_map m = { .pid = l->pid, .len = UINT64_MAX };
	char *path = NULL;

	if (!file ||
	    !ini_number(ini_get_in(ini, section, "address"), &m.addr))
		return fail_dump(diag, l->core, name,
				 "a memory dump wants file= and address=");
	if ((len && !ini_number(len, &m.len)) ||
	    (offset && !ini_number(offset, &m.pgoff)))
		return fail_dump(diag, l->core, name,
				 "length= or offset= is no number");
	if (!s->code_anywhere && import_is_outside(s->dir, file, diag))
		return -AUX_E_UNSUPPORTED;
	if (fit_dump(&m, s->dir, file, &path) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	m.path = path;
	if (m.len)
		import_build_map(b, &m);
	free(path);
	return 0;
}

static bool is_dump(const char *section)
{
	return !strncasecmp(section, "dump", 4);
}

/* A core that two sources traced is one process. */
static bool is_first_of(const struct snapshot_dir *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (s->links[k].core == s->links[i].core)
			return false;
	return true;
}

/* Each source of a core has a CPU number of its own (number_cpus), where the
 * core's process runs; the process is described once. */
static int put_core(struct import_build *b, const struct snapshot_dir *s,
		    size_t i, struct aux_diag *diag)
{
	const struct snapshot_link *l = &s->links[i];
	const struct import_who who = { l->pid, l->pid, l->cpu, 0 };
	int rc = 0;

	if (!l->core)
		return 0;
	if (is_first_of(s, i)) {
		const struct ini *ini = &l->core->ini;

		import_build_comm(b, who, l->core->name);
		for (size_t k = 0; rc == 0 && k < ini->n_sections; k++)
			if (is_dump(ini->sections[k].name))
				rc = put_dump(b, s, l, k, diag);
		for (size_t k = 0; rc == 0 && k < s->o->n_elfs; k++)
			rc = import_elf_arg(b, s->o->elfs[k], "elf", l->pid, diag);
	}
	import_build_runs(b, who);
	return rc;
}

/* The bytes as the formatter put them out; builder.c copies them, so both
 * buffers are ours. One byte more: malloc(0) may be NULL. */
static int put_dstream(struct import_build *b, struct import_stream *st,
		       struct aux_diag *diag)
{
	uint8_t *port = malloc(st->len + 1);
	uint8_t *frames = malloc(IMPORT_CS_ROOM(st->len));
	int rc = 0;

	if (port && frames) {
		st->len = import_cs_dstream(port, st->data, st->len);
		st->len = import_cs_frames(frames, port, st->len);
		st->data = frames;
		import_build_stream(b, st);
	} else {
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	}
	free(frames);
	free(port);
	return rc;
}

/* Frames of several sources belong to the CPU of the first. */
static int put_buffer(struct import_build *b, const struct snapshot_dir *s,
		      size_t i, struct aux_diag *diag)
{
	const struct snapshot_buffer *buf = &s->buffers[i];
	enum layout layout = find_layout(buf->format);
	struct import_stream st = { .who = { -1U, -1U, -1U, 0 } };
	struct import_file f;
	int rc;

	if (layout == LAYOUT_NONE)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"trace buffer %.80s has format \"%.40s\"; known "
				"are source_data, coresight, dstream_coresight",
				buf->name, buf->format);
	for (size_t k = s->n_links; k-- > 0;)
		if (s->links[k].buffer == i)
			st.who.cpu = s->links[k].cpu;
	rc = import_map_named(&f, s->dir, buf->file, s->anywhere, diag);
	if (rc < 0)
		return rc;
	st.file = &f;
	st.data = f.data;
	st.len = f.len;
	st.flags = layout == LAYOUT_RAW ? AUX_FORMAT_CORESIGHT_RAW : 0;
	if (layout == LAYOUT_DSTREAM)
		rc = put_dstream(b, &st, diag);
	else
		import_build_stream(b, &st);
	import_unmap_file(&f);
	return rc;
}

/* A file of any other name counts when it begins with a [snapshot] section. */
static bool probe(const struct import_source *s)
{
	const char *name = strrchr(s->path, '/');
	char *ini;
	struct import_file f;
	bool is_there;

	if (!s->is_dir)
		return !strcmp(name ? name + 1 : s->path, "snapshot.ini") ||
		       memmem(s->head, s->n_head, "[snapshot]", 10);
	ini = import_join(s->path, "snapshot.ini");
	is_there = ini && import_map_file(&f, NULL, ini, NULL) == 0;
	if (is_there)
		import_unmap_file(&f);
	free(ini);
	return is_there;
}

static int open_snapshot(struct aux_reader **r,
			 const struct import_source *src,
			 struct aux_diag *diag)
{
	struct import_build b;
	struct snapshot_dir s;
	int rc = import_build_init(&b, "cs_etm//", 0, diag);

	if (rc < 0)
		return rc;
	rc = snapshot_read(&s, src, diag);
	s.o = src->o;
	if (rc == 0 && s.n_links > MAX_SOURCES)
		rc = diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
			      "more than %d trace sources", MAX_SOURCES);
	if (rc == 0)
		rc = put_info(&b, &s, diag);
	for (size_t i = 0; rc == 0 && i < s.n_links; i++)
		rc = put_core(&b, &s, i, diag);
	for (size_t i = 0; rc == 0 && i < s.n_buffers; i++)
		rc = put_buffer(&b, &s, i, diag);
	if (rc == 0)
		rc = import_build_open(&b, r, src->path, diag);
	import_build_fini(&b);
	snapshot_fini(&s);
	return rc;
}

const struct import_format import_snapshot = {
	"OpenCSD or DS-5 snapshot", false, probe, open_snapshot,
};
