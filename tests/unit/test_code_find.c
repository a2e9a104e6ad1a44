/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * codeview: each place where a file is searched, tested alone; files that the build id rules
 * out; and the reason given when none is found. Recorded build ids are 0x11..; one byte of
 * code tells the files apart.
 */
#include <signal.h>
#include <sys/wait.h>

#include "tests/unit/codeview_file.h"

#define AT    0x500000u
#define LATER 2000000000u

static const struct mkelf_symbol syms[] = { { "in_file", 0x10, 0x20 } };

/* A file whose code is one byte, many times. */
static bool make(const char *path, uint8_t byte, uint8_t id)
{
	uint8_t code[256];
	struct mkelf m = { .code = code, .len = sizeof(code), .id = id,
			   .syms = syms, .n_syms = 1 };

	memset(code, byte, sizeof(code));
	return ok(mkelf_write(&m, path), "made %s",
		  path + strlen(view_dir));
}

static bool record(struct view *v, const char *path, uint8_t id,
		   const struct codeview_config *config)
{
	mk_init(&v->mk, 0);
	view_mmap(&v->mk, 7, 1500000000, AT, 0x1000, MKELF_CODE, path, id,
		  false);
	return view_open(v, config);
}

/* Alone, a place gives the file of the recorded id. */
static void by_id(const char *place, const struct codeview_config *config,
		  const char *what)
{
	struct view v;

	if (!make(place, 0x90, 0x11) ||
	    !record(&v, "/no/where/prog", 0x11, config))
		return;
	is_u64(view_byte(&v, 7, LATER, AT + 5), 0x90, what);
	is_str(view_name(&v, 7, LATER, AT + 0x15), "in_file", "and its names");
	view_close(&v);
	/* without a recorded id, or with another, it is not taken */
	if (!record(&v, "/no/where/prog", 0, config))
		return;
	is_u64(view_byte(&v, 7, LATER, AT + 5), -1, "not without a build id");
	ok(strstr(view_why(&v, 7, LATER, AT), "give its place with --symfs"),
	   "%s", view_why(&v, 7, LATER, AT));
	view_close(&v);
	if (!record(&v, "/no/where/prog", 0x22, config))
		return;
	is_u64(view_byte(&v, 7, LATER, AT + 5), -1, "not for another build id");
	view_close(&v);
	remove(place);
}

static void places(void)
{
	static const char id[] =
		"/.build-id/11/11111111111111111111111111111111111111";
	char root[128], tree[256];
	struct codeview_config cache = { .buildid_dir = root };
	struct codeview_config symfs = { .symfs = root };
	static const struct codeview_config env;

	snprintf(root, sizeof(root), "%s", view_path("/root"));
	snprintf(tree, sizeof(tree), "%s%s/elf", root, id);
	by_id(tree, &cache, "--buildid-dir, as perf makes it");
	rmdir(view_path("/root/.build-id/11/"
			"11111111111111111111111111111111111111"));
	snprintf(tree, sizeof(tree), "%s%s", root, id);
	by_id(tree, &cache, "--buildid-dir, as perf made it");
	by_id(tree, &symfs, "a .build-id tree under symfs");
	snprintf(tree, sizeof(tree), "%s/usr/lib/debug%s", root, id);
	by_id(tree, &symfs, "symfs/usr/lib/debug/.build-id");
	snprintf(tree, sizeof(tree), "%s/usr/lib%s", root, id);
	by_id(tree, &symfs, "symfs/usr/lib/.build-id");
	by_id(view_path("/root/prog"), &symfs, "the name alone under symfs");
	snprintf(tree, sizeof(tree), "%s%s/elf", view_path("/cache"), id);
	by_id(tree, &env, "$PERF_BUILDID_DIR");
}

static void named(void)
{
	char root[128], path[128], gone[160];
	struct codeview_config symfs = { .symfs = root }, none = { 0 };
	const char *why;
	struct view v;

	snprintf(root, sizeof(root), "%s", view_path("/named"));
	snprintf(path, sizeof(path), "%s", view_path("/named/bin/prog"));
	make(path, 0x91, 0x22);
	if (!record(&v, "/bin/prog", 0, &symfs))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), 0x91, "symfs without a build id");
	view_close(&v);
	if (!record(&v, path, 0x11, &none))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), -1, "another file in its place");
	why = view_why(&v, 7, LATER, AT);
	ok(strstr(why, "222222222222") && strstr(why, "1111111111") &&
	   strstr(why, path) && strstr(why, "mapped at 1.500000000") &&
	   strstr(why, "--symfs"), "%s", why);
	view_close(&v);
	snprintf(gone, sizeof(gone), "%s (deleted)", path);
	if (!record(&v, gone, 0x22, &none))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), 0x91, "deleted, and there again");
	view_close(&v);
	if (!record(&v, gone, 0, &none))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), -1, "but not without its build id");
	view_close(&v);
}

/* A debug file has the build id and no code. */
static void debug_file(void)
{
	static const struct mkelf_symbol more[] = { { "in_debug", 0x40, 0x10 } };
	char root[128], path[256];
	struct codeview_config symfs = { .symfs = root };
	struct mkelf m = { .len = 256, .id = 0x11, .syms = more, .n_syms = 1,
			   .debug = true };
	uint8_t code[256] = { 0 };
	struct view v;

	snprintf(root, sizeof(root), "%s", view_path("/dbg"));
	snprintf(path, sizeof(path), "%s/.build-id/11/11111111111111111111111"
		 "111111111111111", root);
	ok(mkelf_write(&m, path), "made a debug file");
	if (!record(&v, "/bin/prog", 0x11, &symfs))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), -1, "a debug file is no code");
	ok(strstr(view_why(&v, 7, LATER, AT), "/bin/prog") &&
	   strstr(view_why(&v, 7, LATER, AT), "not found"), "%s",
	   view_why(&v, 7, LATER, AT));
	view_close(&v);
	m = (struct mkelf){ .code = code, .len = 256, .id = 0x11 };
	ok(mkelf_write(&m, view_path("/dbg/bin/prog")), "made a file");
	if (!record(&v, "/bin/prog", 0x11, &symfs))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), 0, "code of the file");
	is_str(view_name(&v, 7, LATER, AT + 0x45), NULL, "no names in it");
	view_close(&v);
}

static void vdso(void)
{
	char path[128];
	struct codeview_config config = { .vdso = path }, none = { 0 };
	struct view v;

	snprintf(path, sizeof(path), "%s", view_path("/vdso.so"));
	make(path, 0x92, 0x11);
	if (!record(&v, "[vdso]", 0x11, &config))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), 0x92, "--vdso");
	view_close(&v);
	if (!record(&v, "[vdso]", 0x22, &config))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), -1, "--vdso of another machine");
	ok(strstr(view_why(&v, 7, LATER, AT), "1111111") &&
	   strstr(view_why(&v, 7, LATER, AT), "2222222"), "%s",
	   view_why(&v, 7, LATER, AT));
	view_close(&v);
	make(view_path("/cache/.build-id/22/222222222222222222222222222222"
		       "22222222/vdso"), 0x93, 0x22);
	if (!record(&v, "[vdso]", 0x22, &none))
		return;
	is_u64(view_byte(&v, 7, LATER, AT), 0x93, "the vdso in perf's cache");
	view_close(&v);
}

/* A process with another root; 0 when we have no right to make one. */
static pid_t start_contained(void)
{
	int ready[2];
	char ok_byte = 0;
	pid_t pid;

	if (pipe(ready) < 0 || (pid = fork()) < 0)
		return 0;
	if (!pid) {
		if (chroot(view_dir) == 0 && write(ready[1], "x", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &ok_byte, 1) != 1)
		waitpid(pid, NULL, 0);
	close(ready[0]);
	return ok_byte ? pid : 0;
}

/* The file of a process that still runs is read through its root. */
static void contained(void)
{
	static const struct codeview_config none;
	pid_t pid = start_contained();
	struct view v;

	make(view_path("/inside/prog"), 0x95, 0x11);
	for (uint8_t id = 0x11; pid && id <= 0x33; id += 0x22) {
		mk_init(&v.mk, 0);
		view_mmap(&v.mk, (uint32_t)pid, 5, AT, 0x1000, MKELF_CODE,
			  "/inside/prog", id, false);
		if (!view_open(&v, &none))
			return;
		is_u64(view_byte(&v, (uint32_t)pid, 9, AT),
		       id == 0x11 ? 0x95 : -1,
		       "through /proc/PID/root, with the build id alone");
		ok(id != 0x11 || strstr(codeview_note(v.cv, 0, NULL), "/root"),
		   "and it is said");
		view_close(&v);
	}
	if (!pid)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void container(void)
{
	static const struct codeview_config none;
	char path[128];
	struct view v;

	snprintf(path, sizeof(path), "%s", view_path("/old/prog"));
	make(path, 0x94, 0x11);
	mk_init(&v.mk, 0);
	view_mmap(&v.mk, (uint32_t)getpid(), 5, AT, 0x1000, MKELF_CODE, path,
		  0x33, false);
	if (!view_open(&v, &none))
		return;
	is_u64(view_byte(&v, (uint32_t)getpid(), 9, AT), -1,
	       "not when the build id differs");
	is_str(codeview_note(v.cv, 0, NULL), NULL, "and nothing is said");
	view_close(&v);
}

int main(void)
{
	if (!ok(view_start(), "a scratch directory"))
		return plan_done();
	places();
	named();
	debug_file();
	vdso();
	container();
	contained();
	view_stop();
	return plan_done();
}
