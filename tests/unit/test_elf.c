/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * elfimage: names against nm and objdump, on this program and on libc; separate
 * debug files; compressed files; other classes, byte orders and machines.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/codeview_file.h"
#include "decode/lib/elf/elf.h"

#define CORPUS "fixtures/corpus/elf/"

/* "start size type name" lines of nm; addresses inside have that name. */
static void compare_nm(const char *path, const char *options)
{
	unsigned n = 0, n_bad = 0;
	char command[PATH_MAX + 64], line[4096], type, name[3000];
	struct elfimage_symbol s;
	struct elfimage *im;
	uint64_t addr, size, off, left, start;
	FILE *nm;

	snprintf(command, sizeof(command), "nm -S --defined-only %s '%s'",
		 options, path);
	nm = popen(command, "r");
	if (!ok(nm && elfimage_open(&im, path) == 0, "nm of %s", path))
		return;
	while (fgets(line, sizeof(line), nm)) {
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %c %2999s", &addr,
			   &size, &type, name) != 4 ||
		    !strchr("tTwWi", type) || !size)
			continue;
		n++;
		/* Aliases share a start; the start is what must agree. */
		if (!elfimage_offset(im, addr + size / 2, &off, &left) ||
		    elfimage_symbol(im, off, &s) < 0 ||
		    !elfimage_addr(im, s.start, &start) || start < addr ||
		    start > addr + size / 2) {
			n_bad++;
			printf("# %s", line);
		}
	}
	pclose(nm);
	ok(n > 20 && !n_bad, "%u of %u functions, nm %s", n - n_bad, n,
	   options);
	elfimage_close(im);
}

/* "0000000000401030 <puts@plt>:" lines of objdump. */
static void compare_plt(const char *path, const char *objdump, bool is_all)
{
	char command[PATH_MAX + 128], line[4096], name[3000];
	unsigned n = 0, n_bad = 0;
	struct elfimage_symbol s;
	struct elfimage *im;
	uint64_t addr, off, left;
	FILE *f;

	snprintf(command, sizeof(command), "command -v %s >/dev/null", objdump);
	if (system(command)) {
		snprintf(command, sizeof(command), "no %s", objdump);
		skip(command);
		return;
	}
	snprintf(command, sizeof(command), "%s -d -j .plt -j .plt.sec "
		 "-j .plt.got '%s' 2>/dev/null", objdump, path);
	f = popen(command, "r");
	if (!ok(f && elfimage_open(&im, path) == 0, "stubs of %s", path))
		return;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 " <%2999[^>]>:", &addr, name) != 2 ||
		    !strstr(name, "@plt") || strstr(name, "@plt-") ||
		    *name == '*')
			continue;
		n++;
		if (!elfimage_offset(im, addr + 4, &off, &left) ||
		    elfimage_symbol(im, off, &s) < 0 || strcmp(s.name, name)) {
			n_bad++;
			printf("# %s", line);
		}
	}
	pclose(f);
	ok(n >= (is_all ? 10 : 1) && !n_bad, "%u of %u stubs by %s", n - n_bad,
	   n, objdump);
	elfimage_close(im);
}

/* Where libc is, from our own mappings. */
static bool find_libc(char path[PATH_MAX])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[PATH_MAX + 128];

	*path = '\0';
	while (maps && fgets(line, sizeof(line), maps)) {
		char *p = strchr(line, '/');

		if (!p || !strstr(p, "/libc.so"))
			continue;
		p[strcspn(p, "\n")] = '\0';
		snprintf(path, PATH_MAX, "%s", p);
	}
	if (maps)
		fclose(maps);
	return *path;
}

/* The name at an address of a file; "" when there is none. */
static const char *name_at(const char *path, const char *root, uint64_t addr)
{
	static char name[256];
	struct elfimage_symbol s;
	struct elfimage *im;
	uint64_t off, left;

	*name = '\0';
	if (elfimage_open(&im, path) < 0)
		return "no file";
	if (root)
		elfimage_debug_from(im, root, path + strlen(root));
	if (elfimage_offset(im, addr, &off, &left) &&
	    elfimage_symbol(im, off, &s) == 0)
		snprintf(name, sizeof(name), "%s", s.name);
	elfimage_close(im);
	return name;
}

/* The same small program in other forms, made by binutils. */
static void forms(void)
{
	static const char *const files[] = { "exe", "exe.xz", "exe.gz",
					     "exe.zst", "exe-mini" };
	char path[256];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), CORPUS "%s", files[i]);
#ifndef HAVE_LZMA
		if (i == 1 || i == 4)
			continue;
#endif
#ifndef HAVE_Z
		if (i == 2)
			continue;
#endif
#ifndef HAVE_ZSTD
		if (i == 3)
			continue;
#endif
		is_str(name_at(path, NULL, 0x400112), "start", files[i]);
		is_str(name_at(path, NULL, 0x400111), "work", files[i]);
	}
	is_str(name_at(CORPUS "elf32-be", NULL, 0x8021), "thumb_fn",
	       "ELF32, big endian: a Thumb function");
	is_str(name_at(CORPUS "elf32-be", NULL, 0x8000), "arm_fn",
	       "and no mapping symbol");
	ok(*name_at(CORPUS "elf32", NULL, 0x08049005), "ELF32");
	is_str(name_at(CORPUS "exe-stripped", NULL, 0x400112), "",
	       "stripped, nothing else");
}

static bool copy(const char *from, const char *to)
{
	char command[1024];

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s')\" && "
		 "cp '%s' '%s' 2>&1", to, from, to);
	return system(command) == 0;
}

/* exe-stripped has a build id and a debug link to exe.debug. */
static void separate(void)
{
	static const char *const places[] = {
		"/sys/bin/exe.debug", "/sys/bin/.debug/exe.debug",
		"/sys/usr/lib/debug/bin/exe.debug",
	};
	char root[128], exe[256], tree[256], id[64] = "", command[512];
	FILE *f;

	snprintf(root, sizeof(root), "%s", view_path("/sys"));
	snprintf(exe, sizeof(exe), "%s/bin/exe", root);
	ok(copy(CORPUS "exe-stripped", exe), "a stripped program");
	for (size_t i = 0; i < 3; i++) {
		ok(copy(CORPUS "exe", view_path(places[i])), "%s", places[i]);
		is_str(name_at(exe, root, 0x400112), "start", places[i]);
		copy(CORPUS "so", view_path(places[i]));
		is_str(name_at(exe, root, 0x400112), "", "of another file");
		remove(view_path(places[i]));
	}
	snprintf(command, sizeof(command), "readelf -n %s | "
		 "sed -n 's/.*Build ID: //p'", CORPUS "exe");
	f = popen(command, "r");
	ok(f && fscanf(f, "%63s", id) == 1 && strlen(id) == 40, "its id");
	pclose(f);
	snprintf(tree, sizeof(tree), "%s/usr/lib/debug/.build-id/%.2s/%s.debug",
		 root, id, id + 2);
	ok(copy(CORPUS "exe", tree), "a tree by build id");
	is_str(name_at(exe, root, 0x400112), "start", "by build id");
}

static void damaged(void)
{
	static const uint8_t head[] = { 0xfd, '7', 'z', 'X', 'Z', 0, 1, 2, 3 };
	const char *path = view_path("/bad.xz");
	struct elfimage *im;
	FILE *f = mkelf_create(path);
	int rc;

	ok(f && fwrite(head, sizeof(head), 1, f) == 1 && !fclose(f), "bad.xz");
	rc = elfimage_open(&im, path);
	ok((rc == -AUX_E_FORMAT || rc == -AUX_E_UNSUPPORTED) && !im,
	   "a damaged compressed file is refused");
}

int main(void)
{
	char self[PATH_MAX] = { 0 }, libc[PATH_MAX];

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    !view_start())
		return 1;
	compare_nm(self, "");
	/* under qemu-user objdump is another machine's */
#ifdef __aarch64__
	compare_plt(self, "aarch64-linux-gnu-objdump", true);
#else
	compare_plt(self, "objdump", true);
#endif
	if (find_libc(libc))
		compare_nm(libc, "-D");
	compare_plt(CORPUS "so", "x86_64-linux-gnu-objdump", false);
	compare_plt(CORPUS "so-arm64", "aarch64-linux-gnu-objdump", false);
	forms();
	separate();
	damaged();
	view_stop();
	return plan_done();
}
