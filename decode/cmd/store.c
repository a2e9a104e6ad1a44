/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_store: the code of many recordings, by build id, in the layout that debuginfod serves
 * and its clients keep:
 *
 *	DIR/buildid/ID/executable
 *	DIR/buildid/ID/debuginfo
 *
 * So any machine decodes the recordings with --store DIR, and a web server that gives out
 * DIR is a debuginfod for --store URL.
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/idmap.h"
#include "common/outfile.h"
#include "decode/cmd/units.h"
#include "decode/lib/elf/elf.h"

/* A mapped file, as recordings have it. */
struct store_file {
	char *path;
	char id[41];		/* "": not recorded */
	bool missing;
	size_t recording;	/* the last that maps it, from 1 on */
	size_t n;		/* how many do */
	uint32_t next;		/* another of the same hash, + 1; 0: none */
};

struct store {
	const struct cmd_options *o;
	const char *dir;
	struct store_file *v;
	size_t n, cap;
	struct idmap index;	/* by hash of path and id */
	size_t n_recordings, n_new, n_there;
	uint64_t n_bytes;	/* new ones */
};

/* ---- files of the store ---- */

static int make_dirs(const struct store *s, const char *id, struct aux_diag *diag)
{
	const char *ends[][2] = { { "", "" }, { "/buildid", "" }, { "/buildid/", id } };
	char *path;
	int rc = 0;

	for (unsigned i = 0; i < 3 && !rc; i++) {
		if (asprintf(&path, "%s%s%s", s->dir, ends[i][0], ends[i][1]) < 0)
			return -AUX_E_NOMEM;
		if (mkdir(path, 0777) && errno != EEXIST)
			rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path,
				      strerror(errno));
		free(path);
	}
	return rc;
}

static int write_all(int fd, const uint8_t *p, uint64_t n)
{
	while (n) {
		ssize_t w = write(fd, p, n < (1 << 30) ? n : 1 << 30);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -AUX_E_IO;
		p += w;
		n -= (uint64_t)w;
	}
	return 0;
}

static void id_text(char text[41], const uint8_t *id, size_t n)
{
	text[0] = '\0';
	for (size_t i = 0; i < n && i < 20; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

/* Copies what an image is of, unless the store has it. */
static int add_image(struct store *s, const struct elfimage *im, const char *name,
		     struct aux_diag *diag)
{
	struct outfile to = OUTFILE_NONE;
	const uint8_t *id, *data;
	uint64_t len;
	char text[41], *path;
	size_t n = elfimage_build_id(im, &id);
	int rc;

	id_text(text, id, n);
	data = elfimage_data(im, &len);
	if (!*text || !data)
		return 0;
	if (asprintf(&path, "%s/buildid/%s/%s", s->dir, text, name) < 0)
		return -AUX_E_NOMEM;
	if (!access(path, F_OK)) {
		s->n_there++;
		free(path);
		return 0;
	}
	rc = make_dirs(s, text, diag);
	if (!rc)
		rc = outfile_open(&to, path, 0644, OUTFILE_REGULAR, diag);
	if (!rc && write_all(to.fd, data, len))
		rc = diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path, strerror(errno));
	if (!rc)
		rc = outfile_commit(&to, diag);
	else
		outfile_discard(&to);
	s->n_new += !rc;
	s->n_bytes += rc ? 0 : len;
	free(path);
	return rc;
}

/* An executable, and its debug file where one is found. */
static int add_code(struct store *s, struct elfimage *im, struct aux_diag *diag)
{
	const char *path = elfimage_debug_file(im);
	struct elfimage *debug;
	int rc = add_image(s, im, "executable", diag);

	if (rc || !path || elfimage_open(&debug, path))
		return rc;
	rc = add_image(s, debug, "debuginfo", diag);
	elfimage_close(debug);
	return rc;
}

/* ---- recordings ---- */

/* FNV-1a */
static uint64_t hash_of(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return h;
}

/* Ten thousand recordings map the same few thousand files. NULL: out of memory. */
static struct store_file *find_file(struct store *s, const char *path, const char *id)
{
	uint64_t key = hash_of(hash_of(UINT64_C(0xcbf29ce484222325) ^ s->index.salt, id), path);
	int64_t at = idmap_find(&s->index, key), first = at;
	struct store_file f = { .path = NULL };

	for (; at >= 0; at = (int64_t)s->v[at].next - 1)
		if (!strcmp(s->v[at].path, path) && !strcmp(s->v[at].id, id))
			return &s->v[at];
	memcpy(f.id, id, strlen(id) + 1);
	f.next = first < 0 ? 0 : s->v[first].next;
	f.path = s->n < UINT32_MAX ? strdup(path) : NULL;
	if (!f.path || array_append(&s->v, &s->n, &s->cap, &f, sizeof(f))) {
		free(f.path);
		return NULL;
	}
	if (first >= 0) {
		s->v[first].next = (uint32_t)s->n;
	} else if (idmap_add(&s->index, key, (uint32_t)s->n - 1) < 0) {
		free(s->v[--s->n].path);
		return NULL;
	}
	return &s->v[s->n - 1];
}

/* A file that code was mapped from, once for each recording. */
static int add_mapping(struct store *s, struct session *session, const struct space *space,
		       const struct mapping *m, struct aux_diag *diag)
{
	struct codeview *cv = session_codeview(session);
	struct store_file *f;
	struct elfimage *im;
	struct code_cause why;
	uint64_t offset;
	char id[41];

	if (m->kind != MAPPING_USER || *m->path != '/' || m->saved)
		return 0;
	id_text(id, m->build_id, m->build_id_size);
	f = find_file(s, m->path, id);
	if (!f)
		return -AUX_E_NOMEM;
	if (f->recording == s->n_recordings)
		return 0;
	f->recording = s->n_recordings;
	f->n++;
	if (f->n > 1 && !f->missing)
		return 0;
	if (!codeview_image(cv, space, m->start, &im, &offset)) {
		f->missing = false;
		return add_code(s, im, diag);
	}
	codeview_cause(cv, space, m->start, &why);
	f->missing = !why.in_bundle;	/* a bundle has what it needs */
	return 0;
}

static int add_recording(struct store *s, const char *path, struct aux_diag *diag)
{
	struct session_config config = cmd_session_config(s->o);
	struct session *session;
	struct aux_event ev;
	int rc;

	config.path = path;
	rc = session_open(&session, &config, diag);
	if (rc)
		return rc;
	s->n_recordings++;
	aux_reader_rewind(session_reader(session));
	while (!rc && aux_reader_next(session_reader(session), &ev, NULL) > 0) {
		const struct space *space;
		const struct mapping *m;
		uint64_t time = ev.id.present & PERF_SAMPLE_TIME ? ev.id.time : UINT64_MAX;

		if ((ev.type != PERF_RECORD_MMAP && ev.type != PERF_RECORD_MMAP2) ||
		    (ev.type == PERF_RECORD_MMAP2 && !(ev.mmap.prot & PROT_EXEC)))
			continue;
		space = codeview_space(session_codeview(session), session_timeline(session),
				       ev.mmap.pid, time);
		m = space ? space_find(space, ev.mmap.addr) : NULL;
		if (m)
			rc = add_mapping(s, session, space, m, diag);
	}
	session_close(session);
	return rc;
}

/* ---- inputs ---- */

enum input { INPUT_OTHER, INPUT_ELF, INPUT_RECORDING };

static enum input look(const char *path)
{
	char magic[8] = { 0 };
	struct stat st;
	FILE *f = stat(path, &st) || !S_ISREG(st.st_mode) ? NULL : fopen(path, "re");
	size_t n = f ? fread(magic, 1, 8, f) : 0;

	if (f)
		fclose(f);
	if (n == 8 && !memcmp(magic, "PERFILE2", 8))
		return INPUT_RECORDING;
	return n == 8 && !memcmp(magic, "\177ELF", 4) ? INPUT_ELF : INPUT_OTHER;
}

static int add_elf(struct store *s, const char *path, struct aux_diag *diag)
{
	struct elfimage *im;
	int rc = elfimage_open(&im, path);

	if (rc)
		return rc == -AUX_E_NOMEM ? rc : diag_set(diag, -rc, AUX_NO_OFFSET, "cannot read");
	rc = add_image(s, im, elfimage_is_debug(im) ? "debuginfo" : "executable", diag);
	elfimage_close(im);
	return rc;
}

/* A bad file costs itself, not the others. */
static int add_file(struct store *s, const char *path, bool named)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	enum input what = look(path);
	int rc = what == INPUT_ELF ? add_elf(s, path, &diag) :
		 what == INPUT_RECORDING || named ? add_recording(s, path, &diag) : 0;

	return rc ? cmd_failed(path, rc, &diag) : CMD_OK;
}

/* nftw has no argument for it. */
static struct cmd_files *found;

static int note_file(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)at;
	return type == FTW_F && S_ISREG(st->st_mode) && look(path) != INPUT_OTHER &&
	       cmd_files_add(found, path) ? -1 : 0;
}

static int add_input(struct store *s, const char *path)
{
	struct cmd_files in = { 0 };
	struct stat st;
	int status = CMD_OK;
	char *data = NULL;

	/* a directory is searched, unless it is a recording itself */
	if (stat(path, &st) || !S_ISDIR(st.st_mode) || asprintf(&data, "%s/data", path) < 0 ||
	    !access(data, F_OK)) {
		free(data);
		return add_file(s, path, true);
	}
	free(data);
	found = &in;
	if (nftw(path, note_file, 32, FTW_PHYS))
		status = CMD_FAILED;
	for (size_t i = 0; i < in.n; i++)
		status = add_file(s, in.v[i], false) ? CMD_FAILED : status;
	cmd_files_fini(&in);
	return status;
}

/* ---- result ---- */

static int compare_files(const void *a, const void *b)
{
	const struct store_file *x = a, *y = b;
	int rc = strcmp(x->path, y->path);

	return rc ? rc : strcmp(x->id, y->id);
}

/* What no recording found, once; how many. */
static size_t print_missing(struct store *s)
{
	struct outbuf *out = outbuf_new(STDOUT_FILENO);
	size_t n = 0;

	if (s->n)
		qsort(s->v, s->n, sizeof(*s->v), compare_files);
	for (size_t i = 0; i < s->n && out; i++) {
		if (!s->v[i].missing)
			continue;
		if (!n++)
			outbuf_str(out, "#missing\trecordings\tpath\n");
		outbuf_printf(out, "%s\t%zu\t", *s->v[i].id ? s->v[i].id : "-", s->v[i].n);
		fleet_put_escaped(out, s->v[i].path);
		outbuf_str(out, "\n");
	}
	if (out)
		outbuf_flush(out);
	outbuf_free(out);
	return n;
}

int cmd_store(const struct cmd_options *o)
{
	struct store s = { .o = o, .dir = o->output.path, .index = { .salt = idmap_salt() } };
	struct cmd_files files = { 0 };
	size_t n_missing;
	int status;

	if (o->n_paths < 2 || strcmp(o->paths[0], "add") || !s.dir)
		return cmd_usage("store wants add FILE... -o DIR");
	status = cmd_files_take(&files, o->paths + 1, o->n_paths - 1);
	if (status)
		return status;
	for (size_t i = 0; i < files.n; i++)
		status = add_input(&s, files.v[i]) ? CMD_FAILED : status;
	n_missing = print_missing(&s);
	cmd_say(s.dir, "%zu files are new (%.1f MB), %zu were there; %zu recording%s, %zu of whose "
		"files %s missing", s.n_new, (double)s.n_bytes / 1e6, s.n_there, s.n_recordings,
		s.n_recordings == 1 ? "" : "s", n_missing, n_missing == 1 ? "is" : "are");
	cmd_files_fini(&files);
	while (s.n)
		free(s.v[--s.n].path);
	free(s.v);
	idmap_fini(&s.index);
	return status ? status : n_missing ? CMD_GAPS : CMD_OK;
}
