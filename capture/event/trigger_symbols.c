/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in a file the functions of a trigger begin, its line, its built-in probe.
 *
 * A name fits as names of auxdecode do (decode/callstack/names.h): as the file has it, as
 * the source has it, or that without arguments. An address becomes an offset by the program
 * header that maps it. Specification: elf(5); for USDT the notes of SystemTap, as its wiki
 * describes them (UserSpaceProbeImplementation).
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

#include "capture/event/impl.h"
#include "capture/event/trigger.h"
#include "common/array.h"
#include "common/regular.h"

struct lookup {
	const struct trigger *tr;
	bool program;
	Elf *elf;		/* what is mapped, */
	Elf *names;		/* and what has its symbols, which may be the same */
	regex_t re;
	bool has_re, is_glob;
	struct trigger_places *out;
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

/* The offset in the file of an address; false: no segment has it from there. */
static bool to_offset(const struct lookup *l, uint64_t addr, bool code, uint64_t *offset)
{
	size_t n;

	if (elf_getphdrnum(l->elf, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(l->elf, (int)i, &p) || p.p_type != PT_LOAD ||
		    (code && !(p.p_flags & PF_X)) || addr < p.p_vaddr ||
		    addr - p.p_vaddr >= p.p_filesz)
			continue;
		*offset = addr - p.p_vaddr + p.p_offset;
		return true;
	}
	return false;
}

static int add_place(struct lookup *l, uint64_t addr, uint64_t semaphore)
{
	struct trigger_places *out = l->out;
	struct trigger_place p = { 0 };

	if (!to_offset(l, addr, true, &p.offset))
		return 0;
	if (semaphore && !to_offset(l, semaphore, false, &p.semaphore))
		return 0;	/* without it the program would pass the probe by */
	for (size_t k = 0; k < out->n; k++)
		if (out->v[k].offset == p.offset)
			return 0;
	return array_append(&out->v, &out->n, &out->cap, &p, sizeof(p)) ?
		       -AUX_E_NOMEM : 0;
}

static int add_address(void *arg, uint64_t addr)
{
	return add_place(arg, addr, 0);
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
		name = elf_strptr(l->names, h->sh_link, sym.st_name);
		if (name && *name && fits(l, name))
			err = add_address(l, sym.st_value);
	}
	return err;
}

static int scan_symbols(struct lookup *l)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr h;
	int err = 0;

	while (!err && (scn = elf_nextscn(l->names, scn)))
		if (gelf_getshdr(scn, &h) &&
		    (h.sh_type == SHT_SYMTAB || h.sh_type == SHT_DYNSYM))
			err = scan_table(l, scn, &h);
	return err;
}

/* ---- USDT ---- */

#define NT_STAPSDT 3

/* One note: the probe's address, that of .stapsdt.base when it was linked, and of the
 * semaphore, then PROVIDER and NAME. base: where that section is now: a prelinker may have
 * moved it. */
static int take_note(struct lookup *l, const uint8_t *desc, size_t len, uint64_t base)
{
	size_t word = gelf_getclass(l->elf) == ELFCLASS64 ? 8 : 4, plen, nlen;
	const char *text = (const char *)desc + 3 * word;
	const char *colon = strchr(l->tr->name, ':');
	uint64_t v[3] = { 0 };

	if (len <= 3 * word)
		return 0;
	for (size_t i = 0; i < 3; i++)
		memcpy(&v[i], desc + i * word, word);
	len -= 3 * word;
	plen = strnlen(text, len);
	if (plen == len)
		return 0;
	nlen = strnlen(text + plen + 1, len - plen - 1);
	if (plen + 1 + nlen == len || plen != (size_t)(colon - l->tr->name) ||
	    memcmp(text, l->tr->name, plen) || strcmp(text + plen + 1, colon + 1))
		return 0;
	if (base && v[1])
		v[0] += base - v[1];
	if (base && v[1] && v[2])
		v[2] += base - v[1];
	return add_place(l, v[0], v[2]);
}

static int scan_notes(struct lookup *l)
{
	size_t shstr, at = 0, name, desc;
	Elf_Data *data = NULL;
	Elf_Scn *scn = NULL;
	uint64_t base = 0;
	GElf_Shdr h;
	GElf_Nhdr note;
	int err = 0;

	if (elf_getshdrstrndx(l->elf, &shstr))
		return 0;
	while ((scn = elf_nextscn(l->elf, scn))) {
		const char *s = gelf_getshdr(scn, &h) ?
				elf_strptr(l->elf, shstr, h.sh_name) : NULL;

		if (s && !strcmp(s, ".stapsdt.base"))
			base = h.sh_addr;
		if (s && !strcmp(s, ".note.stapsdt"))
			data = elf_getdata(scn, NULL);
	}
	while (data && !err && (at = gelf_getnote(data, at, &note, &name, &desc)))
		if (note.n_type == NT_STAPSDT && note.n_namesz == 8 &&
		    !memcmp((const char *)data->d_buf + name, "stapsdt", 8))
			err = take_note(l, (const uint8_t *)data->d_buf + desc,
					note.n_descsz, base);
	return err;
}

static int scan(struct lookup *l)
{
	switch (l->tr->kind) {
	case TRIGGER_LINE:
		return trigger_line_addresses(l->names, l->tr->name, l->tr->line,
					      add_address, l);
	case TRIGGER_USDT:
		return scan_notes(l);
	default:
		if (!l->tr->name)
			return l->program || l->tr->path ? add_address(l, l->tr->addr) :
							   0;
		return scan_symbols(l);
	}
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

	if (l->tr->kind != TRIGGER_FUNCTION)
		return true;
	if (n < 3 || name[0] != '/' || name[n - 1] != '/') {
		l->is_glob = name && strpbrk(name, "*?[");
		return true;
	}
	text = strndup(name + 1, n - 2);
	l->has_re = text && !regcomp(&l->re, text, REG_EXTENDED | REG_NOSUB);
	free(text);
	return l->has_re;
}

/*
 * What a stripped file has no name of may be in its file of debug information. That of the
 * program, or of a file that was named: those of all libraries would be read for nothing,
 * and their inner functions are not what is meant.
 */
static int scan_debug(struct lookup *l, const char *path, const char *file)
{
	int fd, err;

	if (!l->tr->name || l->tr->kind == TRIGGER_USDT || !(l->program || l->tr->path))
		return 0;
	l->names = trigger_debug_open(l->elf, path, file, &fd);
	if (!l->names)
		return 0;
	err = scan(l);
	elf_end(l->names);
	close(fd);
	return err;
}

int trigger_places(const struct trigger *tr, const char *path, const char *file,
		   bool program, struct trigger_places *v)
{
	struct lookup l = { .tr = tr, .program = program, .out = v };
	struct stat st;
	int fd, err = 0;

	*v = (struct trigger_places){ 0 };
	if (!trigger_in_file(tr) || !is_path(tr, path) || !make_pattern(&l))
		return 0;
	fd = regular_open(file, &st);
	elf_version(EV_CURRENT);
	l.elf = fd >= 0 ? elf_begin(fd, ELF_C_READ, NULL) : NULL;
	l.names = l.elf;
	if (l.elf && elf_kind(l.elf) == ELF_K_ELF) {
		err = scan(&l);
		if (!err && !v->n)
			err = scan_debug(&l, path, file);
	}
	elf_end(l.elf);
	if (fd >= 0)
		close(fd);
	if (l.has_re)
		regfree(&l.re);
	if (err) {
		free(v->v);
		*v = (struct trigger_places){ 0 };
	}
	return err;
}
