/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the functions of a trigger begin in a file.
 *
 * A name fits as names of auxdecode do (decode/callstack/names.h): as the file has it, as
 * the source has it, or that without arguments. An address becomes an offset by the program
 * header that maps it. Specification: elf(5).
 */
#include <errno.h>
#include <fnmatch.h>
#include <gelf.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_IBERTY
#include <libiberty/demangle.h>
#endif

#include "capture/event/trigger.h"
#include "common/array.h"
#include "common/regular.h"

struct lookup {
	const struct trigger *tr;
	bool program;
	Elf *elf;
	regex_t re;
	bool has_re, is_glob;
	uint64_t *v;
	size_t n, cap;
};

static bool fits_text(const struct lookup *l, const char *name)
{
	if (l->has_re)
		return !regexec(&l->re, name, 0, NULL, 0);
	if (l->is_glob)
		return !fnmatch(l->tr->name, name, 0);
	return !strcmp(l->tr->name, name);
}

/* As the source has it, with and without its arguments. */
static bool fits_source(const struct lookup *l, const char *name)
{
#ifdef HAVE_IBERTY
	static const int styles[] = { DMGL_PARAMS | DMGL_ANSI, DMGL_NO_OPTS };
	bool fits = false;

	if (strncmp(name, "_Z", 2) && strncmp(name, "_R", 2))
		return false;
	for (size_t i = 0; i < 2 && !fits; i++) {
		char *text = cplus_demangle(name, styles[i] | DMGL_AUTO);

		fits = text && fits_text(l, text);
		free(text);
	}
	return fits;
#else
	(void)l, (void)name;
	return false;
#endif
}

/* "name@VERSION", as some tables have it, is name. */
static bool fits(const struct lookup *l, const char *name)
{
	const char *at = strchr(name, '@');
	char *plain = NULL;
	bool yes;

	if (!at)
		return fits_text(l, name) || fits_source(l, name);
	plain = strndup(name, (size_t)(at - name));
	yes = plain && (fits_text(l, plain) || fits_source(l, plain));
	free(plain);
	return yes;
}

static int add_address(struct lookup *l, uint64_t addr)
{
	size_t n;

	if (elf_getphdrnum(l->elf, &n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;
		uint64_t offset;

		if (!gelf_getphdr(l->elf, (int)i, &p) || p.p_type != PT_LOAD ||
		    !(p.p_flags & PF_X) || addr < p.p_vaddr ||
		    addr - p.p_vaddr >= p.p_filesz)
			continue;
		offset = addr - p.p_vaddr + p.p_offset;
		for (size_t k = 0; k < l->n; k++)
			if (l->v[k] == offset)
				return 0;
		return array_append(&l->v, &l->n, &l->cap, &offset, sizeof(offset)) ?
			       -AUX_E_NOMEM : 0;
	}
	return 0;
}

static int scan_table(struct lookup *l, Elf_Scn *scn, const GElf_Shdr *h)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = data && h->sh_entsize ? data->d_size / h->sh_entsize : 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		const char *name;
		GElf_Sym sym;

		if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
		    GELF_ST_TYPE(sym.st_info) != STT_FUNC)
			continue;
		name = elf_strptr(l->elf, h->sh_link, sym.st_name);
		if (name && *name && fits(l, name))
			err = add_address(l, sym.st_value);
	}
	return err;
}

static int scan(struct lookup *l)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr h;
	int err = 0;

	if (!l->tr->name)
		return l->program || l->tr->path ? add_address(l, l->tr->addr) : 0;
	while (!err && (scn = elf_nextscn(l->elf, scn)))
		if (gelf_getshdr(scn, &h) &&
		    (h.sh_type == SHT_SYMTAB || h.sh_type == SHT_DYNSYM))
			err = scan_table(l, scn, &h);
	return err;
}

static bool is_path(const struct trigger *tr, const char *path)
{
	const char *base = strrchr(path, '/');

	return !tr->path || !strcmp(tr->path, path) ||
	       (base && !strcmp(tr->path, base + 1));
}

static bool make_pattern(struct lookup *l)
{
	const char *name = l->tr->name;
	size_t n = name ? strlen(name) : 0;
	char *text;

	if (n < 3 || name[0] != '/' || name[n - 1] != '/') {
		l->is_glob = name && strpbrk(name, "*?[");
		return true;
	}
	text = strndup(name + 1, n - 2);
	l->has_re = text && !regcomp(&l->re, text, REG_EXTENDED | REG_NOSUB);
	free(text);
	return l->has_re;
}

int trigger_offsets(const struct trigger *tr, const char *path, const char *file,
		    bool program, uint64_t **v, size_t *n)
{
	struct lookup l = { .tr = tr, .program = program };
	struct stat st;
	int fd, err = 0;

	*v = NULL;
	*n = 0;
	if (tr->kind != TRIGGER_FUNCTION || !is_path(tr, path) || !make_pattern(&l))
		return 0;
	fd = regular_open(file, &st);
	elf_version(EV_CURRENT);
	l.elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	if (l.elf && elf_kind(l.elf) == ELF_K_ELF)
		err = scan(&l);
	elf_end(l.elf);
	if (fd >= 0)
		close(fd);
	if (l.has_re)
		regfree(&l.re);
	if (err) {
		free(l.v);
		return err;
	}
	*v = l.v;
	*n = l.n;
	return 0;
}
