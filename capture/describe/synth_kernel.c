/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_kernel: MMAP records of the kernel and its modules.
 *
 * Invariant: the kernel's record starts at the address of the symbol in its
 * name and has that address as pgoff, by which perf relocates the symbols of
 * vmlinux (KASLR, map__fixup_start). Without addresses (kptr_restrict) there is
 * no record.
 * Specification: proc(5); tools/perf/util/machine.c and
 * tools/perf/util/synthetic-events.c of Linux 6.1.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/describe/impl.h"

#define MODULES_LINE 4096

struct kernel_range {
	uint64_t text, stext, etext;
};

#ifdef __x86_64__
#define TEXT_LOWEST UINT64_C(0xffffffff80000000)	/* __START_KERNEL_map */

/* kptr_restrict 2 hides addresses from everyone; kcore would still show them to
 * root, which must not put into a file what the administrator chose to hide. */
static bool is_hidden(const char *proc)
{
	char path[PATH_MAX], c = '2';
	int fd;

	snprintf(path, sizeof(path), "%s/sys/kernel/kptr_restrict", proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (read(fd, &c, 1) != 1)
		c = '2';
	close(fd);
	return c == '2';
}

/* kcore has the kernel as one segment, from _text to the end of its data: two
 * reads, where kallsyms has 50,000 lines before _etext. Segments of modules
 * have no physical address. */
static bool read_kcore(const char *proc, struct kernel_range *k)
{
	char path[PATH_MAX];
	Elf64_Phdr p;
	Elf64_Ehdr e;
	bool found = false;
	unsigned i;
	int fd;

	memset(k, 0, sizeof(*k));
	snprintf(path, sizeof(path), "%s/kcore", proc);
	fd = is_hidden(proc) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (pread(fd, &e, sizeof(e), 0) != sizeof(e) ||
	    memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_machine != EM_X86_64 ||
	    e.e_phentsize != sizeof(p))
		e.e_phnum = 0;
	for (i = 0; i < e.e_phnum && !found; i++) {
		if (pread(fd, &p, sizeof(p), (off_t)(e.e_phoff +
						     i * sizeof(p))) !=
		    sizeof(p))
			break;
		found = p.p_type == PT_LOAD && p.p_vaddr >= TEXT_LOWEST &&
			p.p_paddr != UINT64_MAX && p.p_paddr != 0 &&
			p.p_memsz && p.p_memsz < -p.p_vaddr;
	}
	close(fd);
	if (found) {
		k->text = p.p_vaddr;
		k->etext = p.p_vaddr + p.p_memsz;
	}
	return found;
}
#else
static bool read_kcore(const char *proc, struct kernel_range *k)
{
	(void)proc;
	(void)k;
	return false;
}
#endif

/* Finds the range in kallsyms; stops at _etext, some 50,000 of 100,000 lines
 * in. */
static bool read_range(const char *path, struct kernel_range *k)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	memset(k, 0, sizeof(*k));
	while (f && getline(&line, &room, f) > 0) {
		char *name;
		uint64_t addr = strtoull(line, &name, 16);

		if (strlen(name) < 4)
			continue;
		name += 3;	/* " T " */
		name[strcspn(name, "\t\n")] = '\0';
		if (!strcmp(name, "_text"))
			k->text = addr;
		else if (!strcmp(name, "_stext"))
			k->stext = addr;
		else if (!strcmp(name, "_etext"))
			k->etext = addr;
		if ((k->text || k->stext) && k->etext)
			break;
	}
	free(line);
	if (f)
		fclose(f);
	return (k->text || k->stext) && k->etext;
}

/* MMAP of the kernel, and its build id. */
static int put_kernel(struct synth_run *run)
{
	const struct synth_proc_options *o = run->o;
	struct kernel_range k;
	char path[PATH_MAX];
	uint8_t id[BUILDID_MAX];
	uint64_t start;
	int n;

	snprintf(path, sizeof(path), "%s/kallsyms", run->proc);
	if (!read_kcore(run->proc, &k) && !read_range(path, &k)) {
		run->r->kernel_hidden = true;
		return 0;
	}
	start = k.text ? k.text : k.stext;
	n = o->build_ids ? buildid_notes("/sys/kernel/notes", id) : 0;
	if (n > 0)
		writer_build_id(run->w, UINT32_MAX, PERF_RECORD_MISC_KERNEL,
				"[kernel.kallsyms]", id, (size_t)n);
	run->r->n_maps++;
	return synth_mmap_kernel(run->w, &o->id, start, k.etext - start, start,
				 k.text ? "[kernel.kallsyms]_text" :
					  "[kernel.kallsyms]_stext");
}

/* Whether a path in modules.dep is that of the module: the kernel writes '_' in
 * its name where the file may have '-'. */
static bool is_module(const char *path, size_t len, const char *name)
{
	const char *base = memrchr(path, '/', len);
	size_t i, n = strlen(name);

	base = base ? base + 1 : path;
	if ((size_t)(path + len - base) < n + 3 ||
	    strncmp(base + n, ".ko", 3))
		return false;
	for (i = 0; i < n; i++)
		if ((base[i] == '-' ? '_' : base[i]) != name[i])
			return false;
	return true;
}

/* The path of a module by modules.dep of the running kernel, else "[name]". */
static void find_module(const char *name, char *out, size_t len)
{
	struct utsname u;
	char *line = NULL, dep[512];
	size_t room = 0;
	FILE *f = NULL;

	snprintf(out, len, "[%s]", name);
	if (!uname(&u)) {
		snprintf(dep, sizeof(dep), "/lib/modules/%s/modules.dep",
			 u.release);
		f = fopen(dep, "re");
	}
	while (f && getline(&line, &room, f) > 0) {
		size_t n = strcspn(line, ":\n");

		if (!is_module(line, n, name))
			continue;
		if (line[0] == '/')
			snprintf(out, len, "%.*s", (int)n, line);
		else
			snprintf(out, len, "/lib/modules/%s/%.*s", u.release,
				 (int)n, line);
		break;
	}
	free(line);
	if (f)
		fclose(f);
}

/* One line of /proc/modules: name size refcount users state address. */
static int put_module(struct synth_run *run, const char *line)
{
	unsigned long long size, addr;
	char name[128], path[PATH_MAX], notes[PATH_MAX];
	uint8_t id[BUILDID_MAX];
	int n;

	if (sscanf(line, "%127s %llu %*s %*s %*s %llx", name, &size, &addr) < 3)
		return 0;
	if (!addr) {	/* kptr_restrict */
		run->r->kernel_hidden = true;
		return 0;
	}
	find_module(name, path, sizeof(path));
	snprintf(notes, sizeof(notes),
		 "/sys/module/%s/notes/.note.gnu.build-id", name);
	n = run->o->build_ids ? buildid_notes(notes, id) : 0;
	if (n > 0)
		writer_build_id(run->w, UINT32_MAX, PERF_RECORD_MISC_KERNEL,
				path, id, (size_t)n);
	run->r->n_maps++;
	return synth_mmap_kernel(run->w, &run->o->id, addr, size, 0, path);
}

int synth_kernel(struct synth_run *run)
{
	char path[PATH_MAX], line[MODULES_LINE];
	int ret = put_kernel(run);
	FILE *f;

	snprintf(path, sizeof(path), "%s/modules", run->proc);
	f = fopen(path, "re");	/* none: a kernel without modules */
	while (f && !ret && fgets(line, sizeof(line), f))
		ret = put_module(run, line);
	if (f)
		fclose(f);
	return ret;
}
