/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Address filters: the grammar, symbols of a hand-made executable whose
 * addresses, offsets and bindings are known, of this program, of the kernel.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/event/impl.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/auxkit-filter.XXXXXX";
static char prog[64];

/* A segment of code at 0x401000, offset 0x800 in the file. */
#define VADDR 0x401000ull
#define OFFSET 0x800ull

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[4];
	Elf64_Sym sym[9];
	char str[64];
	_Alignas(OFFSET) char code[0x1000];
};

static const char names[] = "\0main\0twice\0bare\0data\0weak\0gone\0both";

static uint32_t name_at(const char *name)
{
	return (uint32_t)((char *)memmem(names, sizeof(names), name,
					 strlen(name) + 1) - names);
}

static Elf64_Sym symbol(const char *name, int bind, int type, uint64_t at,
			uint64_t size)
{
	return (Elf64_Sym){ .st_name = name_at(name),
			    .st_info = ELF64_ST_INFO(bind, type),
			    .st_shndx = 1, .st_value = at, .st_size = size };
}

static void fill_symbols(struct image *m)
{
	m->sym[1] = symbol("main", STB_GLOBAL, STT_FUNC, VADDR + 0x10, 0x20);
	m->sym[2] = symbol("twice", STB_LOCAL, STT_FUNC, VADDR + 0x80, 8);
	m->sym[3] = symbol("twice", STB_LOCAL, STT_FUNC, VADDR + 0x40, 4);
	m->sym[4] = symbol("bare", STB_GLOBAL, STT_NOTYPE, VADDR + 0x90, 0);
	m->sym[5] = symbol("data", STB_GLOBAL, STT_OBJECT, VADDR + 0xa0, 8);
	m->sym[6] = symbol("weak", STB_WEAK, STT_FUNC, VADDR + 0xb0, 16);
	m->sym[7] = symbol("both", STB_LOCAL, STT_FUNC, VADDR + 0xc0, 1);
	m->sym[8] = symbol("both", STB_GLOBAL, STT_FUNC, VADDR + 0xd0, 2);
}

static void make_prog(const char *path)
{
	static struct image m;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	memcpy(m.eh.e_ident, ELFMAG, SELFMAG);
	m.eh.e_ident[EI_CLASS] = ELFCLASS64;
	m.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	m.eh.e_ident[EI_VERSION] = m.eh.e_version = EV_CURRENT;
	m.eh.e_type = ET_EXEC;
	m.eh.e_machine = EM_X86_64;
	m.eh.e_ehsize = sizeof(m.eh);
	m.eh.e_phoff = offsetof(struct image, ph);
	m.eh.e_phentsize = sizeof(m.ph);
	m.eh.e_phnum = 1;
	m.eh.e_shoff = offsetof(struct image, sh);
	m.eh.e_shentsize = sizeof(m.sh[0]);
	m.eh.e_shnum = 4;
	m.ph = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_X | PF_R,
			     .p_offset = OFFSET, .p_vaddr = VADDR,
			     .p_filesz = 0x1000, .p_memsz = 0x1000 };
	m.sh[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB, .sh_link = 3,
				.sh_offset = offsetof(struct image, sym),
				.sh_size = sizeof(m.sym),
				.sh_entsize = sizeof(m.sym[0]) };
	m.sh[3] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct image, str),
				.sh_size = sizeof(m.str) };
	memcpy(m.str, names, sizeof(names));
	fill_symbols(&m);
	ok(offsetof(struct image, code) == OFFSET && fd >= 0 &&
	   write(fd, &m, sizeof(m)) == sizeof(m), "an executable by hand");
	close(fd);
}

/* text with each % replaced by the program's path. */
static char *expand(const char *text, const char *path)
{
	static char buf[2][8192];
	static int which;
	char *out = buf[which ^= 1];
	size_t n = 0, len = sizeof(buf[0]);

	for (; *text; text++)
		n += (size_t)snprintf(out + n, len - n, "%.*s",
				      *text == '%' ? INT_MAX : 1,
				      *text == '%' ? path : text);
	out[n] = '\0';
	return out;
}

static const struct {
	const char *text, *want;
} good[] = {
	{ "filter 0x1000/0x200@%", "filter 0x1000/0x200@%" },
	{ "filter 0x1000 / 512 @ %", "filter 0x1000/0x200@%" },
	{ "filter 0xffffffff81000000/0x100",
	  "filter 0xffffffff81000000/0x100" },
	{ "start 0x10@%", "start 0x10@%" },
	{ "stop 0x10", "stop 0x10" },
	{ "tracestop 0x10/4@%", "stop 0x10/0x4@%" },
	{ "filter main @ %", "filter 0x810/0x20@%" },
	{ "filter main@%", "filter 0x810/0x20@%" },
	{ "start main @ %", "start 0x810@%" },
	{ "filter main/8 @ %", "filter 0x810/0x8@%" },
	{ "filter main / weak @ %", "filter 0x810/0xb0@%" },
	{ "filter twice #1 @ %", "filter 0x840/0x4@%" },
	{ "filter twice#2@%", "filter 0x880/0x8@%" },
	{ "filter twice #1 / twice #2 @ %", "filter 0x840/0x48@%" },
	{ "filter both #g @ %", "filter 0x8d0/0x2@%" },
	{ "filter both #G @ %", "filter 0x8d0/0x2@%" },
	{ "filter both #0 @ %", "filter 0x8d0/0x2@%" },
	{ "filter bare @ %", "filter 0x890/0x20@%" },
	{ "filter weak @ %", "filter 0x8b0/0x10@%" },
	{ "filter * @ %", "filter 0/0x1800@%" },
	{ "filter main @ %, start twice #1 @ % ,stop 5@%",
	  "filter 0x810/0x20@%,start 0x840@%,stop 0x5@%" },
	{ "filter main @ % filter weak @ %",
	  "filter 0x810/0x20@%,filter 0x8b0/0x10@%" },
};

static void test_good(void)
{
	struct aux_diag diag;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		char *out;
		int ret;

		memset(&diag, 0, sizeof(diag));
		ret = addrfilter_resolve(expand(good[i].text, prog), 4, &out,
					 &diag);
		if (ret)
			printf("# %s\n", diag.text);
		is_str(out, expand(good[i].want, prog), good[i].text);
		free(out);
	}
}

static const struct {
	const char *text;
	int code;
	const char *says;
} bad[] = {
	{ "", AUX_E_INVAL, "no filter" },
	{ " , ", AUX_E_INVAL, "no filter" },
	{ "trace main @ %", AUX_E_INVAL, "begins with" },
	{ "filter", AUX_E_INVAL, "missing" },
	{ "filter main #x @ %", AUX_E_INVAL, "must follow #" },
	{ "filter main @", AUX_E_INVAL, "a file must follow" },
	{ "filter main / @ %", AUX_E_INVAL, "missing" },
	{ "filter 0x10zz/4 @ %", AUX_E_INVAL, "no number" },
	{ "filter 99999999999999999999/4", AUX_E_INVAL, "no number" },
	{ "filter 0x10 @ %", AUX_E_INVAL, "0xSIZE" },
	{ "filter 0x10/0 @ %", AUX_E_INVAL, "0xSIZE" },
	{ "filter */4 @ %", AUX_E_INVAL, "takes no size" },
	{ "filter weak / main @ %", AUX_E_INVAL, "exchange" },
	{ "filter twice @ %", AUX_E_INVAL, "#1 0x840 (local) #2 0x880" },
	{ "filter twice #3 @ %", AUX_E_INVAL, "#1 0x840" },
	{ "filter twice #g @ %", AUX_E_INVAL, "#1 0x840" },
	{ "filter data @ %", AUX_E_INVAL, "no function data" },
	{ "filter gone @ %", AUX_E_INVAL, "no function gone" },
	{ "filter main @ /no/such", AUX_E_IO, "No such file" },
	{ "filter main @ /dev/null", AUX_E_IO, "no file" },
	{ "filter no_such_function_of_a_kernel", AUX_E_INVAL, "add @ FILE" },
	{ "filter 1/1 filter 2/1 filter 3/1 filter 4/1 filter 5/1",
	  AUX_E_LIMIT, "4 address filters" },
};

static void test_bad(void)
{
	struct aux_diag diag;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *out = (char *)1;
		int ret;

		memset(&diag, 0, sizeof(diag));
		ret = addrfilter_resolve(expand(bad[i].text, prog), 4, &out,
					 &diag);
		if (strstr(diag.text, "hides its addresses")) {
			skip("privileges: kallsyms shows no addresses");
			continue;
		}
		ok(ret == -bad[i].code && !out && strstr(diag.text,
							 bad[i].says),
		   "'%s' is refused: %s", bad[i].text, diag.text);
	}
}

static void test_files(void)
{
	char path[128], text[256], cwd[PATH_MAX], *out;
	struct aux_diag diag = { 0 };

	snprintf(path, sizeof(path), "%s/link", dir);
	ok(!symlink(prog, path), "a link");
	snprintf(text, sizeof(text), "filter 1/1@%s", path);
	ok(!addrfilter_resolve(text, 1, &out, &diag), "through a link");
	snprintf(text, sizeof(text), "filter 0x1/0x1@%s", prog);
	is_str(out, text, "the real path");
	free(out);
	ok(getcwd(cwd, sizeof(cwd)) && !chdir(dir), "into the directory");
	ok(!addrfilter_resolve("filter 1/1@./prog", 1, &out, &diag),
	   "a relative path");
	is_str(out, text, "made absolute");
	free(out);
	ok(!chdir(cwd), "and back");
	snprintf(path, sizeof(path), "%s/a b", dir);
	snprintf(text, sizeof(text), "%s/blank", dir);
	ok(!mkdir(path, 0700) && !symlink(path, text), "a blank in a path");
	snprintf(path, sizeof(path), "%s/a b/prog", dir);
	make_prog(path);
	snprintf(text, sizeof(text), "filter 1/1@%s/blank/prog", dir);
	ok(addrfilter_resolve(text, 1, &out, &diag) == -AUX_E_INVAL &&
	   strstr(diag.text, "blank"), "%s", diag.text);
}

static void test_self(void)
{
	struct aux_diag diag = { 0 };
	char *out, want[PATH_MAX + 16];
	char exe[PATH_MAX] = "";
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	(void)n;
	if (addrfilter_resolve("filter test_self @ /proc/self/exe", 1, &out,
			       &diag)) {
		if (diag.code == AUX_E_UNSUPPORTED)
			skip("this program lies on overlayfs");
		else
			ok(0, "%s", diag.text);
		return;
	}
	snprintf(want, sizeof(want), "@%s", exe);
	ok(strstr(out, want), "%s", out);
	free(out);
}

static void test_kernel(void)
{
	struct aux_diag diag = { 0 };
	char *out;
	int ret = addrfilter_resolve("filter __schedule", 1, &out, &diag);

	if (ret == -AUX_E_IO) {
		skip("privileges: kallsyms shows no addresses");
		return;
	}
	ok(!ret && strstr(out, "filter 0xffff") && strchr(out, '/'),
	   "a function of the kernel: %s", ret ? diag.text : out);
	free(out);
	ret = addrfilter_resolve("filter *", 1, &out, &diag);
	ok(!ret && strstr(out, "filter 0xffff"), "all of the kernel: %s",
	   ret ? diag.text : out);
	free(out);
}

static void test_overlay(void)
{
	char options[256], text[256], path[64], *out;
	struct aux_diag diag = { 0 };
	const char *const sub[] = { "lower", "upper", "work", "merged" };
	size_t i;

	for (i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, sub[i]);
		mkdir(path, 0700);
	}
	snprintf(text, sizeof(text), "%s/lower/prog", dir);
	make_prog(text);
	snprintf(options, sizeof(options),
		 "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir,
		 dir, dir);
	if (mount("overlay", path, "overlay", 0, options)) {
		skip("privileges: overlayfs cannot be mounted");
		return;
	}
	snprintf(text, sizeof(text), "filter main @ %s/prog", path);
	ok(addrfilter_resolve(text, 1, &out, &diag) == -AUX_E_UNSUPPORTED &&
	   strstr(diag.text, "overlayfs"), "%s", diag.text);
	umount(path);
}

int main(void)
{
	char command[sizeof(dir) + 16];

	if (!mkdtemp(dir))
		return 1;
	snprintf(prog, sizeof(prog), "%s/prog", dir);
	make_prog(prog);
	test_good();
	test_bad();
	test_files();
	test_self();
	test_kernel();
	test_overlay();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command))
		return 1;
	return plan_done();
}
