/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: the bytes and names at an address; see code.h for the order of
 * sources.
 *
 * What is found for a mapping of the timeline (struct place) is kept, and so is
 * every file that was opened: bytes handed out stay valid as long as the view,
 * and a block cache may point into them. All worker threads call; cv->lock
 * guards the tables that grow. One lock is enough: a decoder asks once for a
 * stretch of code and caches what it made of it.
 *
 * libipt's image wants a file and an offset, so saved bytes are also written to
 * a memfd, whose offsets are mapping.saved_offset.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/bytes.h"
#include "common/diag.h"
#include "common/uprobes.h"

#include "decode/lib/code/impl.h"
#include "perfdata/perfdata.h"

/* Writes to the memfd with all saved code. */
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

/* A memfd with a piece missing would give wrong code, so then decoders get no
 * path. */
static void name_saved(struct codeview *cv, bool is_whole)
{
	cv->saved_broken |= !is_whole;
	if (cv->saved_broken)
		*cv->saved_path = '\0';
	else
		snprintf(cv->saved_path, sizeof(cv->saved_path),
			 "/proc/self/fd/%d", cv->saved_fd);
}

/* The blobs of AUX_FEAT_AUXKIT_CODE, at offset 0 of the memfd: see
 * saved_offset. */
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

static bool keep(char **copy, const char *s)
{
	*copy = s ? strdup(s) : NULL;
	return !s || *copy;
}

/* perf's cache. A bundle is closed: what this machine has cached does not count
 * unless it is named. */
static bool keep_cache(struct codeview *cv, const char *dir)
{
	const char *home = getenv("HOME");

	if (!dir && cv->closed)
		dir = "";
	if (!dir)
		dir = getenv("PERF_BUILDID_DIR");
	if (dir || !home)
		return keep(&cv->cache, dir && *dir ? dir : NULL);
	return asprintf(&cv->cache, "%s/.debug", home) >= 0;
}

/* A path that does not exist is an error now, not missing code at the end. */
static int set_config(struct codeview *cv, const struct codeview_config *c,
		       struct aux_diag *diag)
{
	/* table */
	const struct {
		const char *name, *path;
	} paths[] = { { "symfs", c->symfs },	 { "vdso", c->vdso },
		      { "vmlinux", c->vmlinux }, { "kcore", c->kcore },
		      { "kallsyms", c->kallsyms } };
	struct stat st;

	cv->debuginfod = c->debuginfod;
	if (!keep(&cv->symfs, c->symfs) || !keep(&cv->vdso, c->vdso) ||
	    !keep(&cv->vmlinux, c->vmlinux) || !keep(&cv->kcore, c->kcore) ||
	    !keep(&cv->kallsyms, c->kallsyms) ||
	    !keep_cache(cv, c->buildid_dir))
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!paths[i].path)
			continue;
		if (stat(paths[i].path, &st) < 0)
			return diag_why(diag, AUX_WHY_SETTING,
					diag_set(diag, AUX_E_NOENT,
						 AUX_NO_OFFSET, "%s %s: %m",
						 paths[i].name,
						 paths[i].path));
		if (i == 0)
			cv->symfs_is_file = !S_ISDIR(st.st_mode);
	}
	return 0;
}

/*
 * `perf record --kcore` makes a directory with the trace in data and the
 * kernel's memory in kcore_dir. kernel.c checks that it is of the recorded
 * boot, as for any kcore.
 */
static bool find_kcore(struct codeview *cv, const char *path)
{
	const char *base = strrchr(path, '/');
	struct stat st;
	int n;

	if (cv->kcore)
		return true;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		n = asprintf(&cv->kcore, "%s/kcore_dir", path);
	else if (base && !strcmp(base, "/data"))
		n = asprintf(&cv->kcore, "%.*s/kcore_dir", (int)(base - path),
			     path);
	else
		return true;
	if (n >= 0 && stat(cv->kcore, &st) < 0) {
		free(cv->kcore);
		cv->kcore = NULL;
	}
	return n >= 0;
}

int codeview_new(struct codeview **cvp, struct aux_reader *r,
		 const struct codeview_config *config, struct aux_diag *diag)
{
	struct codeview *cv = calloc(1, sizeof(*cv));
	int rc;

	*cvp = NULL;
	if (!cv)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	pthread_mutex_init(&cv->lock, NULL);
	cv->saved_fd = -1;
	cv->release = aux_reader_info(r)->os_release;
	cv->is_a64 = aux_reader_info(r)->arch && !strcmp(aux_reader_info(r)->arch, "aarch64");
	cv->closed = bundle_symbols_expected(r);
	cv->own_dir = reader_container_dir(r);
	rc = set_config(cv, config, diag);
	if (!rc && (!find_kcore(cv, aux_reader_path(r)) ||
		    codeview_read_records(cv, r) < 0 ||
		    bundle_symbols_new(&cv->names, r) < 0))
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	if (rc < 0) {
		codeview_free(cv);
		return rc;
	}
	keep_saved(cv, r);
	*cvp = cv;
	return 0;
}

static void free_source(struct source *s)
{
	while (s->modules) {
		struct module *m = s->modules;

		s->modules = m->next;
		elfmodule_free(m->code);
		free(m);
	}
	elfimage_close(s->image);
	free(s->name);
	free(s->path);
	free(s->other);
	free(s);
}

static void free_lists(struct codeview *cv)
{
	while (cv->sources) {
		struct source *s = cv->sources;

		cv->sources = s->next;
		free_source(s);
	}
	while (cv->saved) {
		struct saved_image *s = cv->saved;

		cv->saved = s->next;
		elfimage_close(s->image);
		free(s);
	}
	for (size_t i = 0; i < cv->n_own; i++)
		free(cv->own[i].bytes);
	for (size_t i = 0; i < cv->n_notes; i++)
		free(cv->notes[i].text);
}

void codeview_free(struct codeview *cv)
{
	if (!cv)
		return;
	free_lists(cv);
	codeview_kernel_free(cv->kernel);
	codeview_jit_free(cv->jits);
	codeview_map_free(cv->maps);
	codeview_fetch_free(cv->fetch);
	bundle_symbols_free(cv->names);
	if (cv->saved_fd >= 0)
		close(cv->saved_fd);
	for (size_t i = 0; i < cv->cap_places; i++)
		free(cv->places[i]);
	free(cv->places);
	free(cv->uprobes);
	free(cv->ids);
	free(cv->own);
	free(cv->markers);
	free(cv->forks);
	free(cv->notes);
	free(cv->symfs);
	free(cv->vdso);
	free(cv->cache);
	free(cv->vmlinux);
	free(cv->kcore);
	free(cv->kallsyms);
	pthread_mutex_destroy(&cv->lock);
	free(cv);
}

void codeview_add_note(struct codeview *cv, enum aux_why why, const char *fmt,
		       ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		cv->nomem = true;
		return;
	}
	for (size_t i = 0; i < cv->n_notes; i++) {
		if (!strcmp(cv->notes[i].text, text))
			goto drop;
	}
	if (array_grow(&cv->notes, cv->n_notes, &cv->cap_notes,
		       sizeof(*cv->notes)) < 0) {
		cv->nomem = true;
		goto drop;
	}
	cv->notes[cv->n_notes++] = (struct code_note){ text, why };
	return;
drop:
	free(text);
}

bool codeview_nomem(struct codeview *cv)
{
	bool nomem;

	pthread_mutex_lock(&cv->lock);
	nomem = cv->nomem;
	for (struct source *s = cv->sources; s && !nomem; s = s->next) {
		nomem = s->nomem || s->error == -AUX_E_NOMEM ||
			elfimage_nomem(s->image);
		for (struct module *m = s->modules; m; m = m->next)
			nomem |= !m->code && m->nomem;
	}
	for (struct saved_image *s = cv->saved; s && !nomem; s = s->next)
		nomem = elfimage_nomem(s->image);
	pthread_mutex_unlock(&cv->lock);
	return nomem;
}

const char *codeview_note(const struct codeview *cv, size_t i, int *why)
{
	if (i >= cv->n_notes)
		return NULL;
	if (why)
		*why = cv->notes[i].why;
	return cv->notes[i].text;
}

bool codeview_is_vdso(const char *name)
{
	return !strcmp(name, "[vdso]");
}

bool codeview_is_file(const char *name)
{
	return name[0] == '/' && name[1] != '/' &&
	       strncmp(name, "/memfd:", 7) && strncmp(name, "/dev/zero", 9) &&
	       strncmp(name, "/SYSV", 5);
}

/*
 * Bytes of the recording, without those parts where a JIT compiler logged code.
 */
static void saved_code(struct codeview *cv, const struct space *space,
		       const struct mapping *m, uint64_t ip,
		       struct aux_code *code)
{
	code->start = m->start;
	code->end = m->end;
	codeview_jit_clip(cv, space, ip, &code->start, &code->end);
	code->bytes = m->saved + (code->start - m->start);
	code->path = *cv->saved_path ? cv->saved_path : NULL;
	code->path_offset = m->saved_offset + (code->start - m->start);
}

/*
 * Whether logged code replaces what is mapped there. Saved bytes are facts of
 * their time: only code logged later replaces them. A file may have been mapped
 * after the JIT's memory was freed. Anonymous memory has no contents of its
 * own.
 */
static bool is_over(const struct jit_hit *j, const struct space *space,
		    const struct mapping *m)
{
	if (m && m->saved)
		return j->time != UINT64_MAX && m->time <= j->time;
	return !m || !codeview_is_file(m->path) ||
	       (j->time >= m->time && j->time <= space->from);
}

bool codeview_is_jit(struct codeview *cv, const struct space *space,
		     const struct mapping *m, uint64_t ip)
{
	struct jit_hit j;

	return codeview_jit_find(cv, space, m, ip, &j) &&
	       ((m && m->saved) || is_over(&j, space, m));
}

bool codeview_is_logged(struct codeview *cv, const struct space *space,
			uint64_t ip)
{
	return codeview_is_jit(cv, space, space_find(space, ip), ip);
}

static int jit_code(const struct jit_hit *j, struct aux_code *code)
{
	code->start = j->start;
	code->end = j->end;
	code->bytes = j->bytes;
	code->path = j->path;
	code->path_offset = j->offset;
	return j->bytes ? 0 : -AUX_E_NOENT;
}

/* The whole part of the mapping that the file has bytes of. */
static int file_code(struct codeview *cv, const struct space *space,
		     const struct mapping *m, uint64_t ip,
		     struct aux_code *code)
{
	struct place *p = codeview_place(cv, space, m);
	const uint8_t *data;
	uint64_t len;

	if (!p || !p->source || !p->source->image)
		return -AUX_E_NOENT;
	data = elfimage_data(p->source->image, &len);
	if (m->pgoff >= len || ip - m->start >= len - m->pgoff)
		return -AUX_E_NOENT;
	code->start = m->start;
	code->end = m->end - m->start > len - m->pgoff ?
			    m->start + (len - m->pgoff) : m->end;
	code->bytes = data + m->pgoff;
	code->path = elfimage_path(p->source->image);
	code->path_offset = m->pgoff;
	return 0;
}

/*
 * The kernel's page for uprobes. An instruction with a probe on it runs there as a copy, and
 * the kernel takes over after it; a return with a probe goes to the page's start. There the
 * kernel takes over at once, or, of x86-64 since Linux 6.11, by a system call, whose code is
 * known. Which copy stood in a slot when is known to nobody. The trace tells where the kernel
 * took over, so anything that goes on to there does for it: the flow is right before and
 * after, and in the page it is as many instructions as the copy had bytes.
 *
 * Specification: uretprobe_trampoline_entry in arch/x86/kernel/uprobes.c of Linux.
 */
#define UPROBES_SIZE 4096

static bool is_uprobes(const struct mapping *m)
{
	return m->kind == MAPPING_USER && !strcmp(m->path, "[uprobes]") &&
	       m->end - m->start == UPROBES_SIZE;
}

static int uprobes_code(struct codeview *cv, uint64_t start, struct aux_code *code)
{
	/* push rax, rcx, r11; mov rax, 335; syscall; pop r11, rcx; ret */
	static const uint8_t back[] = {
		0x50, 0x51, 0x41, 0x53, 0x48, 0xc7, 0xc0, 0x4f, 0x01, 0x00, 0x00,
		0x0f, 0x05, 0x41, 0x5b, 0x59, 0xc3,
	};
	static const uint8_t nop[] = { 0x90 };
	static const uint8_t nop_a64[] = { 0x1f, 0x20, 0x03, 0xd5 };
	const uint8_t *v = cv->is_a64 ? nop_a64 : nop;
	size_t n = cv->is_a64 ? sizeof(nop_a64) : sizeof(nop);

	pthread_mutex_lock(&cv->lock);
	if (!cv->uprobes && (cv->uprobes = malloc(UPROBES_SIZE)))
		for (size_t i = 0; i < UPROBES_SIZE; i++)
			cv->uprobes[i] = !cv->is_a64 && i < sizeof(back) ? back[i] : v[i % n];
	cv->nomem |= !cv->uprobes;
	code->bytes = cv->uprobes;
	pthread_mutex_unlock(&cv->lock);
	if (!code->bytes)
		return -AUX_E_NOENT;
	code->start = start;
	code->end = start + UPROBES_SIZE;
	code->path = NULL;
	return 0;
}

int codeview_code(struct codeview *cv, const struct space *space, uint64_t ip,
		  struct aux_code *code)
{
	const struct mapping *m = space_find(space, ip);
	struct jit_hit j;

	if (codeview_jit_find(cv, space, m, ip, &j) && is_over(&j, space, m))
		return jit_code(&j, code);
	if (!m)		/* a thread that is not recorded may have mapped it */
		return uprobes_has(ip) ? uprobes_code(cv, ip & ~(uint64_t)0xfff, code) :
					 -AUX_E_NOENT;
	if (m->saved) {
		saved_code(cv, space, m, ip, code);
		return 0;
	}
	if (m->kind != MAPPING_USER)
		return codeview_kernel_code(cv, space, m, ip, code);
	if (is_uprobes(m))
		return uprobes_code(cv, m->start, code);
	return file_code(cv, space, m, ip, code);
}

/* The vdso, if its saved bytes are a whole ELF image, for its names. */
static struct elfimage *find_saved(struct codeview *cv, const struct mapping *m)
{
	const uint8_t *start = m->saved;
	struct saved_image *s;

	if (!codeview_is_vdso(m->path) || m->pgoff || m->end - m->start < 4 ||
	    memcmp(start, "\177ELF", 4))
		return NULL;
	pthread_mutex_lock(&cv->lock);
	for (s = cv->saved; s && s->bytes != start; s = s->next)
		;
	if (!s && (s = calloc(1, sizeof(*s)))) {
		s->bytes = start;
		cv->nomem |= elfimage_open_mem(&s->image, start,
					       m->end - m->start) ==
			     -AUX_E_NOMEM;
		s->next = cv->saved;
		cv->saved = s;
	}
	cv->nomem |= !s;
	pthread_mutex_unlock(&cv->lock);
	return s ? s->image : NULL;
}

/* From the file, else from the names that a bundle brings. */
static int file_symbol(struct codeview *cv, const struct space *space,
		       const struct mapping *m, uint64_t ip, struct symbol *sym)
{
	uint64_t offset = ip - m->start + m->pgoff;
	struct elfimage_symbol es, brought;
	struct elfimage *im = NULL;
	struct place *p;
	int rc;

	if (m->saved)
		im = find_saved(cv, m);
	if (!im && m->kind == MAPPING_USER &&
	    (codeview_is_file(m->path) || codeview_is_vdso(m->path))) {
		p = codeview_place(cv, space, m);
		im = p && p->source ? p->source->image : NULL;
	}
	rc = im ? elfimage_symbol(im, offset, &es) : -AUX_E_NOENT;
	if ((rc < 0 || es.unnamed) && cv->names &&
	    bundle_symbols_find(cv->names, m, offset, &brought) == 0) {
		es = brought;
		rc = 0;
	}
	if (rc < 0)
		return -AUX_E_NOENT;
	sym->name = es.name;
	sym->start = es.start - m->pgoff + m->start;
	sym->size = es.size;
	return 0;
}

/* Memory that no file names: only a JIT compiler knows what it is. */
static bool is_unnamed(const struct mapping *m)
{
	return m->kind == MAPPING_USER && !codeview_is_vdso(m->path) &&
	       (!codeview_is_file(m->path) || strstr(m->path, " (deleted)"));
}

int codeview_symbol(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct symbol *sym)
{
	const struct mapping *m = space_find(space, ip);
	struct jit_hit j;

	memset(sym, 0, sizeof(*sym));
	if (codeview_jit_find(cv, space, m, ip, &j) &&
	    ((m && m->saved) || is_over(&j, space, m))) {
		*sym = (struct symbol){ j.name, j.sym_start, j.sym_size,
					"[jit]" };
		return 0;
	}
	if (!m)
		return -AUX_E_NOENT;
	sym->dso = m->kind != MAPPING_USER || codeview_is_file(m->path) ||
				   *m->path == '[' ? m->path : "[anon]";
	if (m->kind != MAPPING_USER &&
	    codeview_kernel_symbol(cv, space, m, ip, sym) == 0)
		return 0;
	if (file_symbol(cv, space, m, ip, sym) == 0)
		return 0;
	return is_unnamed(m) && codeview_map_find(cv, space, ip, sym) ?
		       0 : -AUX_E_NOENT;
}
