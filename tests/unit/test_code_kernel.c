/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * codeview of the kernel: vmlinux moved by KASLR, kcore checked against kallsyms, build
 * ids, modules in kcore, names; and files that are refused.
 */
#include "tests/unit/codeview_file.h"

#define LINKED UINT64_C(0xffffffff81000000)
#define MOVED  UINT64_C(0xffffffff9a200000)
#define MODULE UINT64_C(0xffffffffc0100000)

static const struct mkelf_symbol syms[] = {
	{ "_text", LINKED, 0 },
	{ "do_work", LINKED + 0x40, 0x20 },
};

static void make(const char *path, uint64_t addr, uint8_t byte, uint8_t id,
		 bool named)
{
	uint8_t code[512];
	struct mkelf m = { .addr = addr, .code = code, .len = sizeof(code),
			   .id = id, .syms = syms, .n_syms = named ? 2 : 0 };

	for (size_t i = 0; i < sizeof(code); i++)
		code[i] = (uint8_t)(byte + i);
	ok(mkelf_write(&m, path), "made %s", path + strlen(view_dir));
}

static bool record(struct view *v, uint8_t id,
		   const struct codeview_config *config)
{
	mk_init(&v->mk, 0);
	view_mmap(&v->mk, 0, 0, MOVED, 0x100000, MOVED,
		  "[kernel.kallsyms]_text", id, true);
	view_mmap(&v->mk, 0, 0, MODULE, 0x1000, 0, "[some_mod]", 0, true);
	view_mmap(&v->mk, 7, 0, 0x500000, 0x1000, 0, "/no/file", 0, false);
	return view_open(v, config);
}

static void vmlinux(void)
{
	char path[128];
	struct codeview_config config = { .vmlinux = path }, none = { 0 };
	struct view v;

	snprintf(path, sizeof(path), "%s", view_path("/vmlinux"));
	make(path, LINKED, 1, 0x11, true);
	if (!record(&v, 0x11, &config))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED), 1, "the first byte of vmlinux");
	is_u64(view_byte(&v, 7, 1, MOVED + 0x50), 0x51, "and another");
	is_u64(view_byte(&v, 7, 1, MOVED + 0x300), -1, "behind its end");
	is_str(view_name(&v, 7, 1, MOVED + 0x50), "do_work", "a name of it");
	ok(strstr(view_why(&v, 7, 1, MODULE), "[some_mod]") &&
	   strstr(view_why(&v, 7, 1, MODULE), "--kcore"), "%s",
	   view_why(&v, 7, 1, MODULE));
	if (!view_again(&v, &none))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED), -1, "never this machine's kernel");
	ok(strstr(view_why(&v, 7, 1, MOVED), "--vmlinux"), "%s",
	   view_why(&v, 7, 1, MOVED));
	view_close(&v);
	if (!record(&v, 0x22, &config))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED), -1, "a vmlinux with another id");
	ok(strstr(view_why(&v, 7, 1, MOVED), "111111") &&
	   strstr(view_why(&v, 7, 1, MOVED), "222222"), "%s",
	   view_why(&v, 7, 1, MOVED));
	make(view_path("/cache/.build-id/22/22222222222222222222222222222222"
		       "222222/vmlinux"), LINKED, 5, 0x22, true);
	if (!view_again(&v, &none))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED + 1), 6, "by its id from the cache");
	view_close(&v);
}

/* The list of a boot, with the kernel at an address. */
static void make_list(const char *path, uint64_t text)
{
	char list[512];

	snprintf(list, sizeof(list),
		 "0000000000000000 A fixed_percpu_data\n"
		 "%016" PRIx64 " T _text\n%016" PRIx64 " T do_work\n"
		 "%016" PRIx64 " t do_less\n"
		 "%016" PRIx64 " t mod_func\t[some_mod]\n"
		 "%016" PRIx64 " t other_func\t[other_mod]\n",
		 text, text + 0x40, text + 0x80, MODULE, MODULE + 0x100);
	ok(mkelf_text(path, list), "made %s", path + strlen(view_dir));
}

static void kcore(void)
{
	char dir[128], file[160], list[160];
	struct codeview_config config = { .kcore = dir };
	struct codeview_config alone = { .kcore = file };
	struct codeview_config both = { .kcore = file, .kallsyms = list };
	struct view v;

	snprintf(dir, sizeof(dir), "%s", view_path("/kcore_dir"));
	snprintf(file, sizeof(file), "%s/kcore", dir);
	snprintf(list, sizeof(list), "%s", view_path("/list"));
	make(file, MOVED, 9, 0, false);
	make_list(view_path("/kcore_dir/kallsyms"), MOVED);
	if (!record(&v, 0x11, &config))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED + 0x50), 0x59, "kcore");
	is_str(view_name(&v, 7, 1, MOVED + 0x50), "do_work", "kallsyms");
	is_str(view_name(&v, 7, 1, MODULE + 4), "mod_func", "of a module");
	is_u64(view_byte(&v, 7, 1, MODULE + 4), -1, "that is not in kcore");
	make_list(view_path("/kcore_dir/kallsyms"), MOVED + 0x1000000);
	if (!view_again(&v, &config))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED + 0x50), -1, "of another boot");
	ok(strstr(view_why(&v, 7, 1, MOVED), "another boot") &&
	   strstr(view_why(&v, 7, 1, MOVED), "0xffffffff9b200000"), "%s",
	   view_why(&v, 7, 1, MOVED));
	remove(view_path("/kcore_dir/kallsyms"));
	if (!view_again(&v, &alone))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED + 0x50), -1, "without a list");
	ok(strstr(view_why(&v, 7, 1, MOVED), "--kallsyms"), "%s",
	   view_why(&v, 7, 1, MOVED));
	make_list(list, MOVED);
	if (!view_again(&v, &both))
		return;
	is_u64(view_byte(&v, 7, 1, MOVED + 0x50), 0x59, "with --kallsyms");
	view_close(&v);
}

/* What is in kcore at a module's place counts if it is that module. */
static void module_in_kcore(void)
{
	char dir[128];
	struct codeview_config config = { .kcore = dir };
	struct view v;

	snprintf(dir, sizeof(dir), "%s", view_path("/kcore2"));
	make(view_path("/kcore2/kcore"), MODULE, 0x20, 0, false);
	make_list(view_path("/kcore2/kallsyms"), MOVED);
	if (!record(&v, 0, &config))
		return;
	is_u64(view_byte(&v, 7, 1, MODULE + 8), 0x28, "a module in kcore");
	is_u64(view_byte(&v, 7, 1, MODULE + 0x108), -1,
	       "but not where another module is listed");
	view_close(&v);
}

/* A module's file, compressed: an object at the address of its mapping. */
static void module_file(const char *pack)
{
	static const char source[] =
		".globl f\n.type f, @function\nf: nop\n call ext\n"
		" call do_work\n ret\n.size f, . - f\n";
	char root[128], list[128], command[1024];
	struct codeview_config file = { .symfs = root };
	struct codeview_config both = { .symfs = root, .kallsyms = list };
	struct view v;

	snprintf(root, sizeof(root), "%s", view_path("/mods"));
	snprintf(list, sizeof(list), "%s", view_path("/list"));
	make_list(list, MOVED);
	snprintf(command, sizeof(command), "cd '%s/lib/modules' && rm -f m.ko* "
		 "&& " X86_TOOL("as") " -o m.ko m.s && %s m.ko", root, pack);
	ok(mkelf_text(view_path("/mods/lib/modules/m.s"), source) &&
	   system(command) == 0, "a module, %s", pack);
	mk_init(&v.mk, 0);
	view_mmap(&v.mk, 0, 0, MOVED, 0x100000, MOVED,
		  "[kernel.kallsyms]_text", 0, true);
	view_mmap(&v.mk, 0, 0, MODULE, 0x1000, 0, "/lib/modules/m.ko", 0, true);
	view_mmap(&v.mk, 7, 0, 0x500000, 0x1000, 0, "/no/file", 0, false);
	if (!view_open(&v, &file))
		return;
	is_u64(view_byte(&v, 7, 1, MODULE), 0x90, "its code");
	is_str(view_name(&v, 7, 1, MODULE + 11), "f", "its names");
	is_u64(view_byte(&v, 7, 1, MODULE + 1), -1, "a call of the kernel");
	ok(strstr(view_why(&v, 7, 1, MODULE + 1), "its file does not tell"),
	   "%s", view_why(&v, 7, 1, MODULE + 1));
	is_u64(view_byte(&v, 7, 1, MODULE + 11), 0xc3, "the code behind");
	if (view_again(&v, &both)) {
		is_u64(view_byte(&v, 7, 1, MODULE + 1), -1, "still not known");
		/* do_work - (MODULE + 11) */
		is_u64(view_byte(&v, 7, 1, MODULE + 7),
		       (uint8_t)(MOVED + 0x40 - (MODULE + 11)),
		       "a call that kallsyms resolves");
	}
	view_close(&v);
}

int main(void)
{
	if (!ok(view_start(), "a scratch directory"))
		return plan_done();
	vmlinux();
	kcore();
	module_in_kcore();
	module_file("true");
#ifdef HAVE_Z
	module_file("gzip");
#endif
	view_stop();
	return plan_done();
}
