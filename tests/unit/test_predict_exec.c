/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * soft_exec: what execve would run, told from files made here, and the command
 * line that runs it under qemu.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/predict_exec.h"

#include "tests/unit/tap.h"

static char dir[64];
static const struct soft_exec_on x86 = { EM_X86_64, "", false };
static const struct soft_exec_on a64 = { EM_AARCH64, "", false };

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static unsigned int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static const char *make_file(const char *name, const void *bytes, size_t n)
{
	const char *path = in_dir(name);
	FILE *f = fopen(path, "w");

	if (f) {
		fwrite(bytes, 1, n, f);
		fclose(f);
	}
	chmod(path, 0755);
	return path;
}

/* A program header's worth of an ELF file; interp NULL: static. */
static const char *make_elf(const char *name, int machine, int data,
			    const char *interp)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		char interp[128];
	} f = { 0 };

	memcpy(f.eh.e_ident, ELFMAG, SELFMAG);
	f.eh.e_ident[EI_CLASS] = ELFCLASS64;
	f.eh.e_ident[EI_DATA] = (unsigned char)data;
	f.eh.e_machine = (Elf64_Half)machine;
	f.eh.e_phentsize = sizeof(f.ph);
	f.eh.e_phoff = sizeof(f.eh);
	f.eh.e_phnum = interp ? 1 : 0;
	f.ph.p_type = PT_INTERP;
	f.ph.p_offset = sizeof(f.eh) + sizeof(f.ph);
	if (interp) {
		snprintf(f.interp, sizeof(f.interp), "%s", interp);
		f.ph.p_filesz = strlen(interp) + 1;
	}
	return make_file(name, &f, sizeof(f));
}

static int resolve(const struct soft_exec_on *on, const char *path)
{
	char *const argv[] = { (char *)"program", NULL };
	struct soft_exec x;
	int ret = soft_exec_resolve(&x, on, path, argv, NULL);

	if (ret == SOFT_EXEC_NATIVE)
		ret = 100 + (int)x.why;
	soft_exec_fini(&x);
	return ret;
}

/* What /bin/sh is for: the machine of its file. */
static bool shell_is_a64(void)
{
	Elf64_Half machine = 0;
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, &machine, sizeof(machine), offsetof(Elf64_Ehdr, e_machine)) < 0)
		machine = 0;
	if (fd >= 0)
		close(fd);
	return machine == EM_AARCH64;
}

static void check_scripts(void)
{
	const struct soft_exec_on *own = shell_is_a64() ? &a64 : &x86;
	const struct soft_exec_on *other = own == &x86 ? &a64 : &x86;
	char *const argv[] = { (char *)"script", (char *)"a", NULL };
	static const char text[] = "#! /bin/sh  -e x \necho\n";
	const char *path = make_file("script", text, sizeof(text) - 1);
	struct soft_exec x;

	chmod(path, 0644);
	ok(soft_exec_resolve(&x, own, path, argv, NULL) == SOFT_EXEC_FAIL,
	   "a script that is not executable");
	soft_exec_fini(&x);
	chmod(path, 0755);
	ok(soft_exec_resolve(&x, own, path, argv, NULL) == SOFT_EXEC_TRACE &&
	   x.argc == 4 && !strcmp(x.path, "/bin/sh") &&
	   !strcmp(x.argv[0], "/bin/sh") && !strcmp(x.argv[1], "-e x") &&
	   !strcmp(x.argv[2], path) && !strcmp(x.argv[3], "a"),
	   "an interpreter line");
	soft_exec_fini(&x);
	ok(soft_exec_resolve(&x, own, "/proc/self/exe", argv, path) ==
		   SOFT_EXEC_TRACE && !strcmp(x.argv[2], path),
	   "/proc/self/exe is the program's, not qemu's");
	soft_exec_fini(&x);
	is_u64(resolve(other, path), 100 + SOFT_WHY_ARCH,
	       "an interpreter of this machine, from a program of another");
	path = make_file("text", "echo no interpreter line\n", 25);
	is_u64(resolve(own, path), 100 + SOFT_WHY_ARCH, "neither ELF nor script");
}

static void check_machines(void)
{
	const char *own = make_elf("own", EM_X86_64, ELFDATA2LSB, NULL);
	const char *arm = make_elf("arm", EM_AARCH64, ELFDATA2LSB, NULL);
	const char *big = make_elf("big", EM_AARCH64, ELFDATA2MSB, NULL);

	is_u64(resolve(&x86, own), SOFT_EXEC_TRACE, "x86-64 from x86-64");
	is_u64(resolve(&x86, arm), 100 + SOFT_WHY_ARCH, "AArch64 from x86-64");
	is_u64(resolve(&a64, arm), SOFT_EXEC_TRACE, "AArch64 from AArch64");
	is_u64(resolve(&a64, own), 100 + SOFT_WHY_ARCH, "x86-64 from AArch64");
	is_u64(resolve(&a64, big), 100 + SOFT_WHY_ARCH, "a big-endian program");
	ok(!strcmp(soft_why_text(SOFT_WHY_ARCH, EM_AARCH64),
		   "not an AArch64 ELF program") &&
	   !strcmp(soft_why_text(SOFT_WHY_ARCH, EM_X86_64),
		   "not an x86-64 ELF program") &&
	   soft_why_text(99, EM_X86_64), "reasons name the machine");
}

/* The loader is below the sysroot, or where the program says. */
static void check_loaders(void)
{
	const struct soft_exec_on below = { EM_AARCH64, dir, false };
	const char *path;
	char interp[128];

	make_file("ld-test.so", "x", 1);
	path = make_elf("dynamic", EM_AARCH64, ELFDATA2LSB, "/ld-test.so");
	is_u64(resolve(&below, path), SOFT_EXEC_TRACE, "a loader below -L");
	is_u64(resolve(&a64, path), SOFT_EXEC_FAIL, "which is not found without");
	snprintf(interp, sizeof(interp), "%s/ld-test.so", dir);
	path = make_elf("dynamic", EM_AARCH64, ELFDATA2LSB, interp);
	is_u64(resolve(&below, path), SOFT_EXEC_TRACE, "a loader outside of -L");
}

static int find_word(char *const *words, const char *word)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -1;
}

static void check_command(void)
{
	const struct soft_exec_on below = { EM_AARCH64, "/sys/root", true };
	const struct soft_exec_on guess = { EM_AARCH64, "/sys/root", false };
	char *const argv[] = { (char *)"name", (char *)"arg", NULL };
	char *const env[] = { (char *)"A=1", (char *)"LD_PRELOAD=/x",
			      (char *)"QEMU_LD_PREFIX=/y", NULL };
	const char *path = make_elf("arm", EM_AARCH64, ELFDATA2LSB, NULL);
	char **a = NULL, **e = NULL;
	struct soft_exec x;
	int at;

	soft_exec_resolve(&x, &below, path, argv, NULL);
	if (!ok(!soft_exec_command(&x, &below, "/usr/bin/qemu-aarch64", "p.so,a=1",
				   env, &a, &e), "a command line"))
		return;
	at = find_word(a, "-L");
	ok(at > 0 && !strcmp(a[at + 1], "/sys/root"), "with the sysroot");
	ok(find_word(a, "LD_PRELOAD=/x") > 0 &&
	   find_word(a, "QEMU_LD_PREFIX=/y") > 0 && !strcmp(e[0], "A=1") && !e[1],
	   "what would act on qemu goes to the program alone");
	at = find_word(a, "-0");
	ok(at > 0 && !strcmp(a[at + 1], "name") && !strcmp(a[at + 2], path) &&
	   !strcmp(a[at + 3], "arg") && !a[at + 4], "and the program's words");
	free(a);
	free(e);
	a = e = NULL;
	ok(!x.dynamic && !soft_exec_command(&x, &guess, "qemu", "p", env, &a, &e) &&
	   find_word(a, "-L") < 0, "one that nobody named is not for static programs");
	free(a);
	free(e);
	soft_exec_fini(&x);
}

int main(void)
{
	static const char *const made[] = { "script", "text", "own", "arm", "big",
					    "ld-test.so", "dynamic" };

	snprintf(dir, sizeof(dir), "/tmp/auxkit-exec-XXXXXX");
	if (!ok(mkdtemp(dir) != NULL, "a directory"))
		return plan_done();
	check_scripts();
	check_machines();
	check_loaders();
	check_command();
	for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		unlink(in_dir(made[i]));
	rmdir(dir);
	return plan_done();
}
