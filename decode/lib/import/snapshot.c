/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_snapshot: the ini files of a snapshot directory, put together.
 *
 * A source that has no device file is left out: nobody knows what its bytes
 * mean, and the decoder says so where they come. Every core gets a process of
 * its own, with a pid that Linux does not give.
 *
 * Specification: OpenCSD's decoder/docs/specs/ARM Trace and Debug Snapshot file
 * format 0v2.pdf.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/diag.h"

#include "decode/lib/import/snapshot.h"

#define FIRST_PID ((1U << 22) + 1)	/* above Linux's PID_MAX_LIMIT */
#define MAX_CPU 4096

static int fail_nomem(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static int read_ini(struct ini *ini, const char *dir, const char *name,
		    struct aux_diag *diag)
{
	struct container_file f;
	int rc = container_map_file(&f, dir, name, diag);

	if (rc == 0)
		rc = ini_parse(ini, f.data, f.len, name, diag);
	container_unmap_file(&f);
	return rc;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

static bool is_section(const struct ini *ini, size_t i, const char *name)
{
	return !strcasecmp(ini->sections[ini->items[i].section].name, name);
}

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
		rc = read_ini(&d->ini, s->dir, s->top.items[i].value, diag);
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

/* The number that a name ends with, or -1. */
static uint32_t tail_number(const char *name)
{
	const char *p = name + strlen(name);
	unsigned long v;

	while (p > name && p[-1] >= '0' && p[-1] <= '9')
		p--;
	v = *p && strlen(p) < 5 ? strtoul(p, NULL, 10) : MAX_CPU;
	return v < MAX_CPU ? (uint32_t)v : UINT32_MAX;
}

/* The link of the same source that comes first, or l itself. */
struct snapshot_link *snapshot_first(const struct snapshot_dir *s,
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

int snapshot_read(struct snapshot_dir *s, const char *path, bool is_dir,
		  struct aux_diag *diag)
{
	const char *file = strrchr(path, '/');
	const char *trace;
	int rc;

	*s = (struct snapshot_dir){ 0 };
	s->dir = is_dir ? strdup(path) : container_dirname(path);
	if (!s->dir)
		return fail_nomem(diag);
	file = is_dir ? "snapshot.ini" : file ? file + 1 : path;
	rc = read_ini(&s->top, s->dir, file, diag);
	if (rc < 0)
		return rc;
	trace = ini_get(&s->top, "trace", "metadata");
	if (!trace)
		return diag_set(diag, AUX_E_FORMAT, AUX_NO_OFFSET,
				"the snapshot has no trace: %s has no [trace] "
				"metadata=", file);
	rc = read_devices(s, diag);
	if (rc == 0)
		rc = read_ini(&s->trace, s->dir, trace, diag);
	if (rc == 0)
		rc = read_buffers(s, diag);
	if (rc == 0)
		rc = read_links(s, diag);
	if (rc == 0)
		number_cpus(s);
	return rc;
}

void snapshot_fini(struct snapshot_dir *s)
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
