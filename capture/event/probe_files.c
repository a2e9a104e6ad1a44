/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files with code that processes have mapped, or that a program will map when it starts.
 *
 * The latter are found as ld.so(8) does it: the interpreter that the program names, then
 * DT_NEEDED of all, searched in DT_RPATH or DT_RUNPATH, LD_LIBRARY_PATH, /etc/ld.so.cache
 * and the default directories. What LD_PRELOAD and dlopen(3) add is not known.
 *
 * Specification: elf(5), ld.so(8); for the cache the structures of glibc 2.2 and later, as
 * ldconfig(8) writes them: a header of 48 bytes, entries of 24, strings by their offset from
 * the header.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/event/probe.h"
#include "common/array.h"
#include "common/regular.h"

void probe_files_free(struct probe_files *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].path);
		free(f->v[i].file);
	}
	free(f->v);
	*f = (struct probe_files){ 0 };
}

/* Adds a file unless it is there; 1: it is new. */
static int add_file(struct probe_files *f, const char *path, const char *file, bool program)
{
	struct probe_file new = { .program = program };
	struct stat st;

	if (stat(file, &st) || !S_ISREG(st.st_mode))
		return 0;
	new.dev = st.st_dev;
	new.ino = st.st_ino;
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].dev == new.dev && f->v[i].ino == new.ino) {
			f->v[i].program |= program;
			return 0;
		}
	new.path = strdup(path);
	new.file = strdup(file);
	if (new.path && new.file && !array_append(&f->v, &f->n, &f->cap, &new, sizeof(new)))
		return 1;
	free(new.path);
	free(new.file);
	return -AUX_E_NOMEM;
}

/* ---- processes ---- */

static int add_maps(struct probe_files *f, pid_t pid)
{
	char name[64], exe[PATH_MAX], file[PATH_MAX + 32], *line = NULL;
	size_t cap = 0;
	ssize_t n;
	FILE *maps;
	int err = 0;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	n = readlink(name, exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	maps = fopen(name, "re");
	while (maps && err >= 0 && (n = getline(&line, &cap, maps)) > 0) {
		char perms[8] = "";
		int at = 0;

		line[n - 1] = '\0';
		if (sscanf(line, "%*s %7s %*s %*s %*s %n", perms, &at) < 1 ||
		    perms[2] != 'x' || !at || line[at] != '/')
			continue;
		snprintf(file, sizeof(file), "/proc/%d/root%s", pid, line + at);
		err = add_file(f, line + at, file, !strcmp(exe, line + at));
	}
	if (maps)
		fclose(maps);
	free(line);
	return err < 0 ? err : 0;
}

int probe_files_processes(struct probe_files *f, const pid_t *tids, size_t n)
{
	struct dirent *e;
	DIR *d;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = add_maps(f, tids[i]);
	d = n ? NULL : opendir("/proc");
	while (d && !err && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			err = add_maps(f, (pid_t)strtol(e->d_name, NULL, 10));
	if (d)
		closedir(d);
	return err;
}

/* ---- what the loader will map ---- */

struct loading {
	struct probe_files *f;
	int machine, class;	/* as the program is */
	char *path;		/* DT_RPATH or DT_RUNPATH of the file at hand */
	char origin[PATH_MAX];	/* its directory */
};

static Elf *open_elf(const char *file, int *fd)
{
	struct stat st;
	Elf *elf;

	elf_version(EV_CURRENT);
	*fd = regular_open(file, &st);
	elf = *fd >= 0 ? elf_begin(*fd, ELF_C_READ, NULL) : NULL;
	if (elf && elf_kind(elf) != ELF_K_ELF) {
		elf_end(elf);
		elf = NULL;
	}
	return elf;
}

static void close_elf(Elf *elf, int fd)
{
	elf_end(elf);
	if (fd >= 0)
		close(fd);
}

/* Adds it if it is code of the same kind; 1: found. */
static int try_library(struct loading *l, const char *file)
{
	GElf_Ehdr h = { 0 };
	char real[PATH_MAX];
	Elf *elf;
	int fd, err;

	elf = open_elf(file, &fd);
	if (elf && !gelf_getehdr(elf, &h))
		h.e_machine = EM_NONE;
	close_elf(elf, fd);
	if (!elf || (l->machine && (h.e_machine != l->machine ||
				    h.e_ident[EI_CLASS] != l->class)))
		return 0;
	err = realpath(file, real) ? add_file(l->f, real, real, false) : 0;
	return err < 0 ? err : 1;
}

/* In the directories of a list with colons, with $ORIGIN. */
static int try_path(struct loading *l, const char *list, const char *name)
{
	char file[PATH_MAX];
	const char *end;
	int found = 0;

	for (const char *p = list; p && !found; p = *end ? end + 1 : NULL) {
		const char *rest = p;

		end = strchrnul(p, ':');
		if (!strncmp(p, "$ORIGIN", 7) || !strncmp(p, "${ORIGIN}", 9))
			rest += p[1] == '{' ? 9 : 7;
		if (rest > end)
			continue;
		if (snprintf(file, sizeof(file), "%s%.*s/%s", rest > p ? l->origin : "",
			     (int)(end - rest), rest, name) < (int)sizeof(file))
			found = try_library(l, file);
	}
	return found;
}

#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define CACHE_HEADER 48
#define CACHE_ENTRY 24

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* A string of the cache; NULL: it does not end inside. */
static const char *cache_text(const uint8_t *head, size_t len, uint32_t at)
{
	return at < len && memchr(head + at, 0, len - at) ? (const char *)head + at : NULL;
}

static int scan_cache(struct loading *l, const uint8_t *data, size_t len, const char *name)
{
	const uint8_t *head = memmem(data, len, CACHE_MAGIC, sizeof(CACHE_MAGIC) - 1);
	uint32_t n;
	int found = 0;

	if (!head || (len -= (size_t)(head - data)) < CACHE_HEADER)
		return 0;
	n = u32_at(head + 20);
	if (n > (len - CACHE_HEADER) / CACHE_ENTRY)
		return 0;
	for (uint32_t i = 0; i < n && !found; i++) {
		const uint8_t *e = head + CACHE_HEADER + (size_t)i * CACHE_ENTRY;
		const char *key = cache_text(head, len, u32_at(e + 4));
		const char *value = cache_text(head, len, u32_at(e + 8));

		if (key && value && !strcmp(key, name))
			found = try_library(l, value);
	}
	return found;
}

static int try_cache(struct loading *l, const char *name)
{
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC), found = 0;
	struct stat st;
	uint8_t *data;

	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) && st.st_size > 0 && st.st_size < 1 << 28 &&
	    (data = malloc((size_t)st.st_size))) {
		ssize_t n = read(fd, data, (size_t)st.st_size);

		if (n > 0)
			found = scan_cache(l, data, (size_t)n, name);
		free(data);
	}
	close(fd);
	return found;
}

static int find_library(struct loading *l, const char *name)
{
	int found;

	if (strchr(name, '/'))
		return try_library(l, name);
	found = try_path(l, l->path, name);
	if (!found)
		found = try_path(l, getenv("LD_LIBRARY_PATH"), name);
	if (!found)
		found = try_cache(l, name);
	if (!found)
		found = try_path(l, "/lib:/usr/lib:/lib64:/usr/lib64", name);
	return found;
}

/* The entries of a dynamic section: its search path first, then what it needs. */
static int load_dynamic(struct loading *l, Elf *elf, Elf_Scn *scn, const GElf_Shdr *h)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t n = data && h->sh_entsize ? data->d_size / h->sh_entsize : 0;
	int err = 0;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n && err >= 0; i++) {
			const char *text;
			GElf_Dyn d;

			if (!gelf_getdyn(data, (int)i, &d) ||
			    (pass ? d.d_tag != DT_NEEDED :
				    d.d_tag != DT_RPATH && d.d_tag != DT_RUNPATH))
				continue;
			text = elf_strptr(elf, h->sh_link, (size_t)d.d_un.d_val);
			if (!text || !*text)
				continue;
			if (pass) {
				err = find_library(l, text);
				continue;
			}
			free(l->path);
			l->path = strdup(text);
		}
	return err < 0 ? err : 0;
}

static void set_origin(struct loading *l, const char *file)
{
	const char *slash = strrchr(file, '/');

	snprintf(l->origin, sizeof(l->origin), "%.*s",
		 slash ? (int)(slash - file) : 1, slash ? file : ".");
	free(l->path);
	l->path = NULL;
}

static int add_interpreter(struct loading *l, Elf *elf)
{
	size_t n, size = 0;
	const char *image = elf_rawfile(elf, &size);

	for (size_t i = 0; image && !elf_getphdrnum(elf, &n) && i < n; i++) {
		GElf_Phdr p;
		int err;

		if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_INTERP ||
		    p.p_offset >= size || p.p_filesz > size - p.p_offset ||
		    !p.p_filesz || image[p.p_offset + p.p_filesz - 1])
			continue;
		err = try_library(l, image + p.p_offset);
		return err < 0 ? err : 0;
	}
	return 0;
}

/* Adds what one file needs; of the first one, its interpreter too. */
static int load_needed(struct loading *l, size_t at)
{
	Elf_Scn *scn = NULL;
	GElf_Ehdr h;
	GElf_Shdr sh;
	int fd, err = 0;
	Elf *elf = open_elf(l->f->v[at].file, &fd);

	set_origin(l, l->f->v[at].file);
	if (elf && !l->machine && gelf_getehdr(elf, &h)) {
		l->machine = h.e_machine;
		l->class = h.e_ident[EI_CLASS];
		err = add_interpreter(l, elf);
	}
	while (elf && !err && (scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && sh.sh_type == SHT_DYNAMIC)
			err = load_dynamic(l, elf, scn, &sh);
	close_elf(elf, fd);
	return err;
}

/* "#!/bin/sh -e": what runs is the interpreter. False: it is no script. */
static bool read_script(const char *file, char interpreter[PATH_MAX])
{
	char line[PATH_MAX], *p, *end;
	FILE *f = fopen(file, "re");
	bool yes = f && fgets(line, sizeof(line), f) && line[0] == '#' && line[1] == '!';

	if (f)
		fclose(f);
	if (!yes)
		return false;
	p = line + 2 + strspn(line + 2, " \t");
	end = p + strcspn(p, " \t\n");
	*end = '\0';
	snprintf(interpreter, PATH_MAX, "%s", p);
	return *interpreter;
}

int probe_files_program(struct probe_files *f, const char *name)
{
	struct loading l = { .f = f };
	char file[PATH_MAX], script[PATH_MAX], real[PATH_MAX];
	int err = 0;

	if (!target_find_program(name, file) || !realpath(file, real))
		return 0;
	if (read_script(real, script) && !realpath(script, real))
		return 0;
	err = add_file(f, real, real, true);
	for (size_t i = 0; i < f->n && err >= 0; i++)
		err = load_needed(&l, i);
	free(l.path);
	return err < 0 ? err : 0;
}

int probe_files_library(struct probe_files *f, const char *name)
{
	struct loading l = { .f = f };
	GElf_Ehdr h;
	int fd, err;
	Elf *elf = f->n ? open_elf(f->v[0].file, &fd) : NULL;

	if (elf && gelf_getehdr(elf, &h)) {
		l.machine = h.e_machine;
		l.class = h.e_ident[EI_CLASS];
	}
	if (elf)
		close_elf(elf, fd);
	err = find_library(&l, name);
	free(l.path);
	return err < 0 ? err : 0;
}
