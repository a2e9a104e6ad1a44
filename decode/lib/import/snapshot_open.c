/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_snapshot_open: a snapshot directory as a perf.data.
 *
 * Each buffer is a stream, each source a block of AUXTRACE_INFO, each core a
 * process that maps its memory dumps. Dumps are mapped by their real place: the
 * file may also come later. The memory space of a dump is not kept.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <aux/decoder.h>
#include "common/diag.h"

#include "decode/lib/import/builder.h"
#include "decode/lib/import/cs.h"
#include "decode/lib/import/snapshot.h"

#define AUX_FORMAT_CORESIGHT_RAW 0x100	/* of PERF_RECORD_AUX's flags */
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

static enum layout find_layout(const char *format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcasecmp(formats[i].name, format))
			return formats[i].layout;
	return LAYOUT_NONE;
}

static int put_info(struct container_build *b, const struct snapshot_dir *s,
		    struct aux_diag *diag)
{
	uint64_t *words = calloc(AUX_CS_N_HEADER +
					 s->n_links * CONTAINER_CS_BLOCK,
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
		container_cs_block(words + n, &l->source->ini, l->source->type,
				   core, l->cpu);
		is_64 |= container_cs_version(core) >= 8;
		n += CONTAINER_CS_BLOCK;
		n_sources++;
	}
	words[AUX_CS_PMU_CPUS] = (uint64_t)CONTAINER_PMU << 32 | n_sources;
	container_build_feature(b, AUX_FEAT_ARCH, is_64 ? "aarch64" : "arm");
	container_build_info(b, AUX_TRACE_CS_ETM, words, n);
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
static int fit_dump(struct container_map *m, const char *dir, const char *file,
		    char **path)
{
	struct container_file f;
	uint64_t len = 0;
	int rc = container_map_file(&f, dir, file, NULL);

	if (rc == 0) {
		len = f.len > m->pgoff ? f.len - m->pgoff : 0;
		if (m->len > len)
			m->len = len;
		*path = strdup(f.path);
	} else {
		*path = container_absent(dir, file);
		m->len = m->len == UINT64_MAX ? 0 : m->len;
	}
	container_unmap_file(&f);
	return *path ? 0 : -AUX_E_NOMEM;
}

static int put_dump(struct container_build *b, const struct snapshot_dir *s,
		    const struct snapshot_link *l, size_t section,
		    struct aux_diag *diag)
{
	const struct ini *ini = &l->core->ini;
	const char *name = ini->sections[section].name;
	const char *file = ini_get_in(ini, section, "file");
	const char *len = ini_get_in(ini, section, "length");
	const char *offset = ini_get_in(ini, section, "offset");
	struct container_map m = { .pid = l->pid, .len = UINT64_MAX };
	char *path = NULL;

	if (!file ||
	    !ini_number(ini_get_in(ini, section, "address"), &m.addr))
		return fail_dump(diag, l->core, name,
				 "a memory dump wants file= and address=");
	if ((len && !ini_number(len, &m.len)) ||
	    (offset && !ini_number(offset, &m.pgoff)))
		return fail_dump(diag, l->core, name,
				 "length= or offset= is no number");
	if (fit_dump(&m, s->dir, file, &path) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	m.path = path;
	if (m.len)
		container_build_map(b, &m);
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

static int put_core(struct container_build *b, const struct snapshot_dir *s,
		    size_t i, struct aux_diag *diag)
{
	const struct snapshot_link *l = &s->links[i];
	const struct container_who who = { l->pid, l->pid, l->cpu, 0 };
	int rc = 0;

	if (!l->core)
		return 0;
	if (is_first_of(s, i)) {
		const struct ini *ini = &l->core->ini;

		container_build_comm(b, who, l->core->name);
		for (size_t k = 0; rc == 0 && k < ini->n_sections; k++)
			if (is_dump(ini->sections[k].name))
				rc = put_dump(b, s, l, k, diag);
	}
	container_build_runs(b, who);
	return rc;
}

static int put_dstream(struct container_build *b, struct container_stream *st,
		    struct aux_diag *diag)
{
	uint8_t *port = malloc(st->len + 1);
	uint8_t *frames = malloc(CONTAINER_CS_ROOM(st->len));
	int rc = 0;

	if (port && frames) {
		st->len = container_cs_dstream(port, st->data, st->len);
		st->len = container_cs_frames(frames, port, st->len);
		st->data = frames;
		container_build_stream(b, st);
	} else {
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	}
	free(frames);
	free(port);
	return rc;
}

/* Frames of several sources belong to the CPU of the first. */
static int put_buffer(struct container_build *b, const struct snapshot_dir *s,
		      size_t i, struct aux_diag *diag)
{
	const struct snapshot_buffer *buf = &s->buffers[i];
	enum layout layout = find_layout(buf->format);
	struct container_stream st = { .who = { -1U, -1U, -1U, 0 } };
	struct container_file f;
	int rc;

	if (layout == LAYOUT_NONE)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"trace buffer %.80s has format \"%.40s\"; known "
				"are source_data, coresight, dstream_coresight",
				buf->name, buf->format);
	for (size_t k = s->n_links; k-- > 0;)
		if (s->links[k].buffer == i)
			st.who.cpu = s->links[k].cpu;
	rc = container_map_file(&f, s->dir, buf->file, diag);
	if (rc < 0)
		return rc;
	st.file = &f;
	st.data = f.data;
	st.len = f.len;
	st.flags = layout == LAYOUT_RAW ? AUX_FORMAT_CORESIGHT_RAW : 0;
	if (layout == LAYOUT_DSTREAM)
		rc = put_dstream(b, &st, diag);
	else
		container_build_stream(b, &st);
	container_unmap_file(&f);
	return rc;
}

static bool probe(const struct container_source *s)
{
	const char *name = strrchr(s->path, '/');
	char *ini;
	struct container_file f;
	bool is_there;

	if (!s->is_dir)
		return !strcmp(name ? name + 1 : s->path, "snapshot.ini") ||
		       memmem(s->head, s->n_head, "[snapshot]", 10);
	ini = container_join(s->path, "snapshot.ini");
	is_there = ini && container_map_file(&f, NULL, ini, NULL) == 0;
	if (is_there)
		container_unmap_file(&f);
	free(ini);
	return is_there;
}

static int open_snapshot(struct aux_reader **r,
			 const struct container_source *src,
			 struct aux_diag *diag)
{
	struct container_build b;
	struct snapshot_dir s;
	int rc = snapshot_read(&s, src->path, src->is_dir, diag);

	container_build_init(&b, "cs_etm//", 0);
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
		rc = container_build_open(&b, r, src->path, diag);
	container_build_fini(&b);
	snapshot_fini(&s);
	return rc;
}

const struct container_format container_snapshot = {
	"OpenCSD or DS-5 snapshot", false, probe, open_snapshot,
};
