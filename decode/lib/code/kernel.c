/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: kernel code, from kcore, vmlinux and the files of modules.
 *
 * kcore is a copy of a running kernel's memory: right in every byte, but for
 * one boot. That it is the recorded boot is checked with kallsyms beside it,
 * since the recording names a symbol of the kernel and its address (KASLR moves
 * the kernel at every boot).
 *
 * vmlinux is the kernel before it patched itself (alternatives, static keys,
 * ftrace), at the addresses it was linked for. The same symbol says how far it
 * was moved.
 *
 * Modules come from kcore, or from their files as far as these can tell
 * (elf/kmodule.c).
 *
 * /proc of the machine that decodes is never read: its kernel is another one.
 *
 * Specification: /proc/kcore is an ELF core file (fs/proc/kcore.c),
 * /proc/kallsyms is text (kernel/kallsyms.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <aux/error.h>

#include "decode/lib/code/impl.h"

struct kernel_code {
	const struct mapping *ref;	/* the kernel's image; NULL: not recorded */
	struct elfimage *kcore;
	struct kallsyms *syms;		/* checked; NULL: none of this boot */
	struct source vmlinux;
	bool no_kallsyms;	/* why: there is none beside kcore */
	char why[512];		/* why a given file is not used; "": all are */
};

static bool is_guest(const struct mapping *m)
{
	return !strncmp(m->path, "[guest.", 7);
}

/*
 * The kernel's image in a space, preferably one with the address of a symbol.
 */
static const struct mapping *find_ref(const struct space *space)
{
	const struct mapping *m, *found = NULL;
	uint64_t at = 0;

	while (space && (m = addrspace_next(space->kernel, at))) {
		if (m->kind == MAPPING_KERNEL && !is_guest(m) &&
		    (!found || m->ref_addr))
			found = m;
		if (m->end <= at || (found && found->ref_addr))
			break;
		at = m->end;
	}
	return found;
}

/* The list, if it is of the recorded boot; else NULL, and why. */
static struct kallsyms *check_syms(struct kernel_code *k, const uint8_t *text,
				   uint64_t len, const char *path)
{
	struct kallsyms *syms;
	uint64_t addr;

	if (kallsyms_new(&syms, text, len) < 0) {
		snprintf(k->why, sizeof(k->why), "%s lists no addresses", path);
		return NULL;
	}
	if (!k->ref || !k->ref->ref_name || !k->ref->ref_addr) {
		snprintf(k->why, sizeof(k->why), "the recording does not say "
			 "where its kernel was, so %s cannot be checked", path);
		kallsyms_free(syms);
		return NULL;
	}
	addr = kallsyms_address(syms, k->ref->ref_name);
	if (addr == k->ref->ref_addr)
		return syms;
	snprintf(k->why, sizeof(k->why), "%s is of another boot: %s is at "
		 "0x%llx there and was at 0x%llx", path, k->ref->ref_name,
		 (unsigned long long)addr,
		 (unsigned long long)k->ref->ref_addr);
	kallsyms_free(syms);
	return NULL;
}

/* Reads a file of symbols; false when it is not there. */
static bool read_syms(struct kernel_code *k, const char *path)
{
	struct elfimage *text;
	const uint8_t *p;
	uint64_t len;

	if (k->syms || elfimage_open(&text, path) < 0)
		return k->syms;
	p = elfimage_data(text, &len);
	k->syms = check_syms(k, p, len, path);
	elfimage_close(text);
	return true;
}

/* kcore, and kallsyms in the same directory. kcore without kallsyms is not
 * used: it may be of another boot, where everything is elsewhere. */
static void open_kcore(struct codeview *cv, struct kernel_code *k)
{
	char *file = NULL, *list = NULL;
	const char *slash = strrchr(cv->kcore, '/');
	struct stat st;
	int rc, dir;

	dir = !stat(cv->kcore, &st) && S_ISDIR(st.st_mode);
	if (dir) {
		rc = asprintf(&file, "%s/kcore", cv->kcore);
		rc |= asprintf(&list, "%s/kallsyms", cv->kcore);
	} else {
		rc = asprintf(&file, "%s", cv->kcore);
		rc |= asprintf(&list, "%.*skallsyms",
			       slash ? (int)(slash - cv->kcore) + 1 : 0,
			       cv->kcore);
	}
	if (rc < 0)
		goto out;
	if (!k->syms && !read_syms(k, list)) {
		snprintf(k->why, sizeof(k->why), "there is no kallsyms beside "
			 "%s to check it by", file);
		k->no_kallsyms = true;
	}
	if (!k->syms)
		goto out;
	if (elfimage_open(&k->kcore, file) < 0 ||
	    !elfimage_is_elf(k->kcore)) {
		snprintf(k->why, sizeof(k->why), "%s is no kcore", file);
		elfimage_close(k->kcore);
		k->kcore = NULL;
	}
out:
	free(file);
	free(list);
}

/* perf keeps kallsyms of each kernel in its cache, by build id. It may be of
 * another boot of the same kernel, which is no error. */
static void cached_syms(struct codeview *cv, struct kernel_code *k,
			const struct file_id *id)
{
	char text[CODEVIEW_ID_TEXT], why[sizeof(k->why)], *path;

	if (k->syms || !cv->cache || cv->closed || !id->size)
		return;
	codeview_id_text(id, text);
	if (asprintf(&path, "%s/.build-id/%.2s/%s/kallsyms", cv->cache, text,
		     text + 2) < 0)
		return;
	memcpy(why, k->why, sizeof(why));
	read_syms(k, path);
	/* Nothing was asked for, so nothing is to be reported. */
	memcpy(k->why, why, sizeof(why));
	free(path);
}

static struct file_id kernel_id(const struct codeview *cv,
				const struct mapping *m)
{
	struct file_id id = { .size = m->build_id_size };

	memcpy(id.bytes, m->build_id, sizeof(id.bytes));
	for (size_t i = 0; !id.size && i < cv->n_ids; i++) {
		if (!strcmp(cv->ids[i].path, m->path))
			id = cv->ids[i].id;
	}
	return id;
}

/* The given vmlinux, if it has the recorded build id or none was recorded. */
static void open_vmlinux(struct codeview *cv, struct kernel_code *k)
{
	struct source *s = &k->vmlinux;
	const uint8_t *id;
	size_t n;

	if (elfimage_open(&s->image, cv->vmlinux) < 0) {
		snprintf(k->why, sizeof(k->why), "%s cannot be read",
			 cv->vmlinux);
		k->no_kallsyms = false;
		return;
	}
	n = elfimage_build_id(s->image, &id);
	if (!s->id.size || (n == s->id.size && !memcmp(id, s->id.bytes, n)))
		return;
	s->other_id.size = (uint8_t)n;
	memcpy(s->other_id.bytes, id, n);
	elfimage_close(s->image);
	s->image = NULL;
}

void codeview_kernel_open(struct codeview *cv, const struct space *space)
{
	const struct own_file *own = codeview_own_kernel(cv, "/kallsyms");
	struct kernel_code *k;

	if (cv->kernel)
		return;
	k = calloc(1, sizeof(*k));
	cv->nomem |= !k;
	if (!k)
		return;
	k->ref = find_ref(space);
	if (k->ref)
		k->vmlinux.id = kernel_id(cv, k->ref);
	if (cv->kallsyms)
		read_syms(k, cv->kallsyms);
	if (!k->syms && own)
		k->syms = check_syms(k, own->bytes, own->len, "kallsyms");
	if (cv->kcore)
		open_kcore(cv, k);
	cached_syms(cv, k, &k->vmlinux.id);
	if (cv->vmlinux)
		open_vmlinux(cv, k);
	cv->kernel = k;
}

void codeview_kernel_free(struct kernel_code *k)
{
	if (!k)
		return;
	elfimage_close(k->kcore);
	elfimage_close(k->vmlinux.image);
	kallsyms_free(k->syms);
	free(k);
}

/* Opens the kernel's files at the first question. NULL: out of memory. */
static struct kernel_code *need(struct codeview *cv, const struct space *space)
{
	pthread_mutex_lock(&cv->lock);
	codeview_kernel_open(cv, space);
	pthread_mutex_unlock(&cv->lock);
	return cv->kernel;
}

uint64_t codeview_kernel_address(void *priv, const char *name)
{
	struct codeview *cv = priv;

	return cv->kernel && cv->kernel->syms ?
		       kallsyms_address(cv->kernel->syms, name) : 0;
}

/* How far the kernel was moved from where it was linked. Without a symbol in
 * the recording it is used only where it was linked. */
static bool find_shift(const struct mapping *m, struct elfimage *im,
		       uint64_t *shift)
{
	uint64_t linked;

	if (m->ref_name && m->ref_addr) {
		if (!elfimage_find(im, m->ref_name, &linked))
			return false;
		*shift = m->ref_addr - linked;
		return true;
	}
	*shift = 0;
	return (elfimage_find(im, "_text", &linked) && linked == m->start) ||
	       (elfimage_find(im, "_stext", &linked) && linked == m->start);
}

/* Code of an image that is linked at the recorded addresses minus shift. */
static int image_code(const struct elfimage *im, uint64_t shift,
		      const struct mapping *m, uint64_t ip,
		      struct aux_code *code)
{
	struct elfimage_area a;
	const uint8_t *data;
	uint64_t len;

	if (!elfimage_area(im, ip - shift, &a))
		return -AUX_E_NOENT;
	data = elfimage_data(im, &len);
	code->start = a.start + shift;
	code->end = a.end + shift;
	code->path_offset = a.offset;
	if (code->start < m->start) {
		code->path_offset += m->start - code->start;
		code->start = m->start;
	}
	if (code->end > m->end)
		code->end = m->end;
	code->bytes = data + code->path_offset;
	code->path = elfimage_path(im);
	return ip >= code->start && ip < code->end ? 0 : -AUX_E_NOENT;
}

static struct elfimage *vmlinux_of(struct codeview *cv,
				   const struct kernel_code *k,
				   const struct space *space,
				   const struct mapping *m)
{
	struct place *p;

	if (k->vmlinux.image && !is_guest(m))
		return k->vmlinux.image;
	p = codeview_place(cv, space, m);
	return p && p->source ? p->source->image : NULL;
}

/* True if a path names a module: "[nf_tables]" and "/lib/modules/../nf-
 * tables.ko.xz" are both nf_tables, since file names may have dashes. */
static bool is_module(const char *path, const char *name)
{
	const char *p = strrchr(path, '/');

	p = p ? p + 1 : path;
	p += *p == '[';
	while (*name && (*p == *name || (*p == '-' && *name == '_')))
		p++, name++;
	return !*name && (*p == ']' || !strncmp(p, ".ko", 3));
}

/* kcore is a snapshot of one moment. Modules, BPF programs and trampolines come
 * and go: they are in it only if kallsyms has them at the same address. */
static bool is_in_kcore(const struct kernel_code *k, const struct mapping *m,
			uint64_t ip)
{
	struct kallsyms_symbol s;

	if (!k->kcore || is_guest(m))
		return false;
	if (m->kind == MAPPING_KERNEL)
		return true;
	if (!kallsyms_find(k->syms, ip, &s))
		return false;
	if (m->kind == MAPPING_MODULE)
		return s.module && is_module(m->path, s.module);
	return s.start == m->start - m->pgoff && !strcmp(s.name, m->path);
}

/* A module's code as far as it can be told from its object file. */
static int module_code(struct codeview *cv, const struct space *space,
		       const struct mapping *m, uint64_t ip,
		       struct aux_code *code)
{
	struct place *p = codeview_place(cv, space, m);
	struct elfmodule_code c;
	uint64_t base = m->start - m->pgoff;

	if (!p || !p->module || elfmodule_code(p->module, ip - base, &c) < 0)
		return -AUX_E_NOENT;
	code->start = base + c.start;
	code->end = base + c.end;
	code->bytes = c.bytes;
	code->path = c.path;
	code->path_offset = c.offset;
	if (code->start < m->start) {
		code->bytes += m->start - code->start;
		code->path_offset += m->start - code->start;
		code->start = m->start;
	}
	if (code->end > m->end)
		code->end = m->end;
	return 0;
}

int codeview_kernel_code(struct codeview *cv, const struct space *space,
			 const struct mapping *m, uint64_t ip,
			 struct aux_code *code)
{
	struct kernel_code *k = need(cv, space);
	struct elfimage *im;
	uint64_t shift;

	if (!k)
		return -AUX_E_NOENT;
	if (is_in_kcore(k, m, ip) && image_code(k->kcore, 0, m, ip, code) == 0)
		return 0;
	if (m->kind == MAPPING_MODULE)
		return module_code(cv, space, m, ip, code);
	if (m->kind != MAPPING_KERNEL)
		return -AUX_E_NOENT;
	im = vmlinux_of(cv, k, space, m);
	if (!im || !find_shift(m, im, &shift))
		return -AUX_E_NOENT;
	return image_code(im, shift, m, ip, code);
}

/* The symbol of an image around an address; symbols of an image have file
 * offsets. */
static int image_symbol(struct elfimage *im, uint64_t shift, uint64_t ip,
			struct symbol *sym)
{
	struct elfimage_symbol es;
	uint64_t off, left, addr;

	if (!elfimage_offset(im, ip - shift, &off, &left) ||
	    elfimage_symbol(im, off, &es) < 0 ||
	    !elfimage_addr(im, es.start, &addr))
		return -AUX_E_NOENT;
	sym->name = es.name;
	sym->start = addr + shift;
	sym->size = es.size;
	return 0;
}

int codeview_kernel_symbol(struct codeview *cv, const struct space *space,
			   const struct mapping *m, uint64_t ip,
			   struct symbol *sym)
{
	struct kernel_code *k = need(cv, space);
	struct kallsyms_symbol s;
	struct elfimage *im;
	struct place *p;
	uint64_t shift;

	if (!k)
		return -AUX_E_NOENT;
	if (m->kind == MAPPING_KSYMBOL) {
		sym->name = m->path;
		sym->start = m->start - m->pgoff;
		sym->size = m->end - sym->start;
		return 0;
	}
	if (k->syms && !is_guest(m) && kallsyms_find(k->syms, ip, &s)) {
		sym->name = s.name;
		sym->start = s.start;
		sym->size = s.end - s.start;
		return 0;
	}
	if (m->kind == MAPPING_MODULE) {
		p = codeview_place(cv, space, m);
		im = p && p->source ? p->source->image : NULL;
		return im ? image_symbol(im, m->start - m->pgoff, ip, sym) :
			    -AUX_E_NOENT;
	}
	im = vmlinux_of(cv, k, space, m);
	if (!im || !find_shift(m, im, &shift))
		return -AUX_E_NOENT;
	return image_symbol(im, shift, ip, sym);
}

bool codeview_kernel_image(struct codeview *cv, const struct space *space,
			   const struct mapping *m, uint64_t ip,
			   struct elfimage **im, uint64_t *offset,
			   uint64_t *shift)
{
	struct kernel_code *k = need(cv, space);
	struct place *p;
	uint64_t left;

	if (!k || m->kind == MAPPING_KSYMBOL)
		return false;
	if (m->kind == MAPPING_MODULE) {
		p = codeview_place(cv, space, m);
		*im = p && p->source ? p->source->image : NULL;
		*shift = m->start - m->pgoff;
	} else {
		*im = vmlinux_of(cv, k, space, m);
		if (*im && !find_shift(m, *im, shift))
			return false;
	}
	return *im && elfimage_offset(*im, ip - *shift, offset, &left);
}

void codeview_kernel_cause(struct codeview *cv, const struct space *space,
			   struct code_cause *c)
{
	struct kernel_code *k = need(cv, space);
	char want[CODEVIEW_ID_TEXT], have[CODEVIEW_ID_TEXT];

	if (!k)
		return;
	if (!*k->why && cv->vmlinux && !k->vmlinux.image)
		snprintf(k->why, sizeof(k->why), "%s has build id %s, the "
			 "recorded kernel has %s", cv->vmlinux,
			 codeview_id_text(&k->vmlinux.other_id, have),
			 codeview_id_text(&k->vmlinux.id, want));
	c->kernel = k->why;
	c->no_kallsyms = k->no_kallsyms;
}
