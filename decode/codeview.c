/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: which file's bytes lie behind an address, see codeview.h.
 *
 * Files are opened once each and kept: bytes handed out stay valid as long as
 * the view. A file counts only when its build id is the recorded one. Saved
 * bytes are also put into a memory file, so a decoder that wants a path gets one.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <internal/bytes.h>
#include <internal/diag.h>

#include "codeview.h"
#include "elfimage.h"

#define ID_TEXT (2 * 20 + 1)
#define BUILD_ID_MISC_SIZE (1 << 15) /* PERF_RECORD_MISC_BUILD_ID_SIZE */

/* A recorded path and build id, and the file that stands for it. */
struct file {
	struct file *next;
	char *name;		/* as recorded */
	uint8_t id[20];
	uint8_t id_size;	/* 0: none recorded */
	char *path;		/* on this machine */
	struct elfimage *image;	/* NULL: see error */
	int error;		/* -AUX_E_*: NOENT missing, FORMAT wrong id */
};

/* A whole saved mapping that is an ELF image: the vdso, for its names. */
struct saved_image {
	struct saved_image *next;
	const uint8_t *bytes;
	struct elfimage *image;
};

struct known_id {
	const char *path;
	uint8_t id[20];
	uint8_t id_size;
};

struct codeview {
	pthread_mutex_t lock;
	char *symfs, *vdso;
	bool symfs_is_file;
	struct file *files;
	struct saved_image *saved;
	struct known_id *ids;	/* AUX_FEAT_BUILD_ID */
	size_t n_ids;
	char saved_path[64];	/* "" when nothing is saved */
	int saved_fd;
	bool saved_broken;	/* it is not whole */
};

static void read_build_ids(struct codeview *cv, struct aux_reader *r)
{
	struct aux_bytes s;
	struct cursor c;
	size_t cap = 0;

	if (aux_reader_feature(r, AUX_FEAT_BUILD_ID, &s, NULL) <= 0)
		return;
	c = cursor_init(s.data, s.len, aux_reader_info(r)->swapped);
	while (cursor_left(&c) > 36) {
		struct known_id *k;
		const uint8_t *id;
		uint16_t misc, size;

		cursor_u32(&c);
		misc = cursor_u16(&c);
		size = cursor_u16(&c);
		if (size <= 36)
			return;
		cursor_u32(&c);
		id = cursor_bytes(&c, 24);
		if (cv->n_ids == cap) {
			cap = cap ? 2 * cap : 16;
			k = reallocarray(cv->ids, cap, sizeof(*k));
			if (!k)
				return;
			cv->ids = k;
		}
		k = &cv->ids[cv->n_ids];
		k->path = cursor_string(&c, size - 36u);
		if (!id || !k->path)
			return;
		memcpy(k->id, id, sizeof(k->id));
		k->id_size = misc & BUILD_ID_MISC_SIZE && id[20] <= 20 ?
				     id[20] : 20;
		cv->n_ids++;
	}
}

/* Puts bytes into the file without a name that stands for all saved code. */
static bool write_saved(struct codeview *cv, const uint8_t *p, uint64_t n,
			uint64_t at)
{
	if (cv->saved_fd < 0)
		cv->saved_fd = memfd_create("auxkit-code", MFD_CLOEXEC);
	while (cv->saved_fd >= 0 && n) {
		ssize_t w = pwrite(cv->saved_fd, p, n, (off_t)at);

		if (w <= 0)
			return false;
		p += w;
		at += (uint64_t)w;
		n -= (uint64_t)w;
	}
	return cv->saved_fd >= 0;
}

static void name_saved(struct codeview *cv, bool is_whole)
{
	cv->saved_broken |= !is_whole;
	if (cv->saved_broken)
		*cv->saved_path = '\0';
	else
		snprintf(cv->saved_path, sizeof(cv->saved_path),
			 "/proc/self/fd/%d", cv->saved_fd);
}

/* The blobs of AUX_FEAT_AUXKIT_CODE. */
static void keep_saved(struct codeview *cv, struct aux_reader *r)
{
	struct aux_bytes s;
	struct cursor c;
	uint64_t head;
	uint32_t n;

	if (aux_reader_feature(r, AUX_FEAT_AUXKIT_CODE, &s, NULL) <= 0)
		return;
	c = cursor_init(s.data, s.len, aux_reader_info(r)->swapped);
	cursor_u32(&c);
	n = cursor_u32(&c);
	head = sizeof(struct aux_feat_code) +
	       (uint64_t)n * sizeof(struct aux_code_entry);
	if (c.bad || head >= s.len)
		return;
	name_saved(cv, write_saved(cv, s.data + head, s.len - head, 0));
}

void codeview_save(struct codeview *cv, const struct saved_code *code)
{
	name_saved(cv, write_saved(cv, code->bytes, code->len, code->offset));
}

int codeview_new(struct codeview **cvp, struct aux_reader *r,
		 const struct codeview_config *config, struct aux_diag *diag)
{
	struct codeview *cv = calloc(1, sizeof(*cv));
	struct stat st;

	*cvp = NULL;
	if (!cv)
		goto nomem;
	pthread_mutex_init(&cv->lock, NULL);
	cv->saved_fd = -1;
	if (config->symfs) {
		cv->symfs = strdup(config->symfs);
		if (!cv->symfs)
			goto nomem;
		if (stat(config->symfs, &st) < 0) {
			codeview_free(cv);
			return diag_set(diag, AUX_E_NOENT, AUX_NO_OFFSET,
					"--symfs %s: %m", config->symfs);
		}
		cv->symfs_is_file = !S_ISDIR(st.st_mode);
	}
	if (config->vdso && !(cv->vdso = strdup(config->vdso)))
		goto nomem;
	read_build_ids(cv, r);
	keep_saved(cv, r);
	*cvp = cv;
	return 0;
nomem:
	codeview_free(cv);
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

void codeview_free(struct codeview *cv)
{
	if (!cv)
		return;
	while (cv->files) {
		struct file *f = cv->files;

		cv->files = f->next;
		elfimage_close(f->image);
		free(f->name);
		free(f->path);
		free(f);
	}
	while (cv->saved) {
		struct saved_image *s = cv->saved;

		cv->saved = s->next;
		elfimage_close(s->image);
		free(s);
	}
	if (cv->saved_fd >= 0)
		close(cv->saved_fd);
	free(cv->ids);
	free(cv->symfs);
	free(cv->vdso);
	pthread_mutex_destroy(&cv->lock);
	free(cv);
}

static bool is_vdso(const char *name)
{
	return !strcmp(name, "[vdso]");
}

/* Only a path names a file: not "[heap]", "//anon", "anon_inode:..", "". */
static bool is_file(const char *name)
{
	return name[0] == '/' && name[1] != '/' &&
	       strncmp(name, "/memfd:", 7) && strncmp(name, "/dev/zero", 9) &&
	       strncmp(name, "/SYSV", 5);
}

static char *local_path(const struct codeview *cv, const char *name)
{
	char *path = NULL;

	if (is_vdso(name))
		return cv->vdso ? strdup(cv->vdso) : NULL;
	if (!is_file(name))
		return NULL;
	if (!cv->symfs)
		return strdup(name);
	if (cv->symfs_is_file)
		return strdup(cv->symfs);
	return asprintf(&path, "%s%s", cv->symfs, name) < 0 ? NULL : path;
}

static void recorded_id(const struct codeview *cv, const struct mapping *m,
			struct file *f)
{
	f->id_size = m->build_id_size;
	memcpy(f->id, m->build_id, sizeof(f->id));
	for (size_t i = 0; !f->id_size && i < cv->n_ids; i++) {
		if (strcmp(cv->ids[i].path, m->path))
			continue;
		f->id_size = cv->ids[i].id_size;
		memcpy(f->id, cv->ids[i].id, sizeof(f->id));
	}
}

static bool same_id(const struct file *f)
{
	const uint8_t *id;
	size_t n = elfimage_build_id(f->image, &id);

	return n && n <= f->id_size && !memcmp(id, f->id, n);
}

static void open_file(struct file *f)
{
	if (!f->path) {
		f->error = -AUX_E_NOENT;
		return;
	}
	f->error = elfimage_open(&f->image, f->path);
	if (!f->error && f->id_size && !same_id(f))
		f->error = -AUX_E_FORMAT;
}

/* The file of a mapping; NULL: out of memory. Opens it the first time. */
static struct file *find_file(struct codeview *cv, const struct mapping *m)
{
	struct file want = { 0 }, *f;

	recorded_id(cv, m, &want);
	pthread_mutex_lock(&cv->lock);
	for (f = cv->files; f; f = f->next) {
		if (f->id_size == want.id_size &&
		    !memcmp(f->id, want.id, sizeof(f->id)) &&
		    !strcmp(f->name, m->path))
			goto out;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		goto out;
	*f = want;
	f->name = strdup(m->path);
	f->path = local_path(cv, m->path);
	if (!f->name) {
		free(f->path);
		free(f);
		f = NULL;
		goto out;
	}
	open_file(f);
	f->next = cv->files;
	cv->files = f;
out:
	pthread_mutex_unlock(&cv->lock);
	return f;
}

int codeview_code(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct aux_code *code)
{
	const struct mapping *m = space_find(space, ip);
	const uint8_t *data;
	struct file *f;
	uint64_t len;

	if (!m)
		return -AUX_E_NOENT;
	code->start = m->start;
	code->end = m->end;
	if (m->saved) {
		code->bytes = m->saved;
		code->path = *cv->saved_path ? cv->saved_path : NULL;
		code->path_offset = m->saved_offset;
		return 0;
	}
	f = find_file(cv, m);
	if (!f || f->error)
		return -AUX_E_NOENT;
	data = elfimage_data(f->image, &len);
	if (m->pgoff >= len)
		return -AUX_E_NOENT;
	if (code->end - code->start > len - m->pgoff)
		code->end = code->start + (len - m->pgoff);
	if (ip >= code->end)
		return -AUX_E_NOENT;
	code->bytes = data + m->pgoff;
	code->path = f->path;
	code->path_offset = m->pgoff;
	return 0;
}

/* A saved mapping that holds an ELF image from its first byte. */
static struct elfimage *find_saved(struct codeview *cv, const struct mapping *m)
{
	const uint8_t *start = m->saved;
	struct saved_image *s;

	if (!is_vdso(m->path) || m->pgoff || m->end - m->start < 4 ||
	    memcmp(start, "\177ELF", 4))
		return NULL;
	pthread_mutex_lock(&cv->lock);
	for (s = cv->saved; s && s->bytes != start; s = s->next)
		;
	if (!s && (s = calloc(1, sizeof(*s)))) {
		s->bytes = start;
		elfimage_open_mem(&s->image, start, m->end - m->start);
		s->next = cv->saved;
		cv->saved = s;
	}
	pthread_mutex_unlock(&cv->lock);
	return s ? s->image : NULL;
}

int codeview_symbol(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct symbol *sym)
{
	const struct mapping *m = space_find(space, ip);
	struct elfimage *im = NULL;
	struct elfimage_symbol es;
	struct file *f;

	memset(sym, 0, sizeof(*sym));
	if (!m)
		return -AUX_E_NOENT;
	sym->dso = is_file(m->path) || *m->path == '[' ? m->path : "[anon]";
	if (m->saved)
		im = find_saved(cv, m);
	if (!im && (is_file(m->path) || is_vdso(m->path))) {
		f = find_file(cv, m);
		if (f && !f->error)
			im = f->image;
	}
	if (!im || elfimage_symbol(im, ip - m->start + m->pgoff, &es) < 0)
		return -AUX_E_NOENT;
	sym->name = es.name;
	sym->start = es.start - m->pgoff + m->start;
	sym->size = es.size;
	return 0;
}

static const char *id_text(const uint8_t *id, size_t n, char text[ID_TEXT])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[id[i] >> 4];
		text[2 * i + 1] = digits[id[i] & 15];
	}
	text[2 * n] = 0;
	return n ? text : "none";
}

static void explain_file(const struct file *f, uint64_t ip, char *buf,
			 size_t len)
{
	char want[ID_TEXT], have[ID_TEXT];
	const uint8_t *id;
	size_t n;

	id_text(f->id, f->id_size, want);
	if (f->error == -AUX_E_FORMAT) {
		n = elfimage_build_id(f->image, &id);
		snprintf(buf, len, "no code at 0x%" PRIx64 ": %s has build id "
			 "%s, the recording has %s; give the recorded file's "
			 "root with --symfs", ip, f->path,
			 id_text(id, n, have), f->id_size ? want : "none");
	} else if (!f->error) {
		snprintf(buf, len, "no code at 0x%" PRIx64 ": %s ends before "
			 "that place", ip, f->path);
	} else {
		snprintf(buf, len, "no code at 0x%" PRIx64 ": %s%s%s%s not "
			 "found; give its place with --symfs", ip, f->path,
			 f->id_size ? " (build id " : "",
			 f->id_size ? want : "", f->id_size ? ")" : "");
	}
}

void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len)
{
	const struct mapping *m = space_find(space, ip);
	struct file *f;

	if (!m) {
		snprintf(buf, len, "no code at 0x%" PRIx64 ": nothing is known "
			 "to be mapped there%s", ip,
			 space && space->n_maps ? "" : " (no mappings of this "
						       "process were recorded)");
		return;
	}
	f = m->saved ? NULL : find_file(cv, m);
	if (f && f->path)
		explain_file(f, ip, buf, len);
	else if (is_vdso(m->path))
		snprintf(buf, len, "no code at 0x%" PRIx64 ": the vdso was not "
			 "saved; give the recorded machine's with --vdso", ip);
	else
		snprintf(buf, len, "no code at 0x%" PRIx64 ": %s is no file, "
			 "and its bytes were not saved", ip,
			 *m->path ? m->path : "[anon]");
}
