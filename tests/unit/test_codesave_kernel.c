/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The kernel's code from a hand-made kcore: text, a module, BPF programs, with
 * a hole; each saved byte is compared with what kcore has at that address.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/bytes.h"

#include "capture/describe/describe.h"
#include "tests/unit/tap.h"

#define TEXT UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0200000)
#define BPF UINT64_C(0xffffffffc0400000)

static char dir[] = "/tmp/auxkit-kcore.XXXXXX";
static char out[128];
static uint8_t file[4 << 20];
static uint64_t n_text, n_module, n_bpf, n_wrong, n_names;

static uint8_t byte_of(uint64_t addr)
{
	return (uint8_t)(addr * 13 + (addr >> 12));
}

static void put(const char *name, const void *data, size_t len)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	if (write(fd, data, len) != (ssize_t)len)
		exit(1);
	close(fd);
}

static const struct {
	uint64_t addr, len;
} parts[] = {
	{ TEXT, 0x5000 }, { MODULE, 0x2000 }, { MODULE + 0x3000, 0x1000 },
	{ BPF, 0x3000 },
};
#define N_PARTS (sizeof(parts) / sizeof(*parts))

static void make_kcore(void)
{
	static uint8_t k[0x20000];
	Elf64_Ehdr e = { .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = N_PARTS, .e_phoff = sizeof(e) };
	Elf64_Phdr p = { .p_type = PT_LOAD };
	uint64_t at = 0x1000, i, b;

	memcpy(e.e_ident, ELFMAG "\2\1\1", 7);
	memcpy(k, &e, sizeof(e));
	for (i = 0; i < N_PARTS; i++) {
		p.p_vaddr = parts[i].addr;
		p.p_memsz = p.p_filesz = parts[i].len;
		p.p_offset = at;
		memcpy(k + sizeof(e) + i * sizeof(p), &p, sizeof(p));
		for (b = 0; b < parts[i].len; b++)
			k[at + b] = byte_of(parts[i].addr + b);
		at += parts[i].len;
	}
	put("kcore", k, at);
}

static void take_code(struct cursor c)
{
	uint64_t addr, len, i;
	const uint8_t *p;

	cursor_u64(&c);
	addr = cursor_u64(&c);
	len = cursor_u64(&c);
	cursor_u64(&c);
	if (cursor_u32(&c) != UINT32_MAX || cursor_u32(&c) != AUX_CODE_KERNEL)
		n_wrong++;
	p = cursor_left(&c) >= len ? cursor_bytes(&c, len) : NULL;
	for (i = 0; p && i < len; i++)
		n_wrong += p[i] != byte_of(addr + i);
	if (addr < MODULE)
		n_text += len;
	else if (addr < BPF)
		n_module += len;
	else
		n_bpf += len;
}

static void load(void)
{
	int fd = open(out, O_RDONLY);
	ssize_t n = read(fd, file, sizeof(file));
	struct cursor c = cursor_init(file + 40, 16, false);
	uint64_t at = cursor_u64(&c), size = cursor_u64(&c);

	close(fd);
	n_text = n_module = n_bpf = n_wrong = n_names = 0;
	c = cursor_init(file + at, n < 0 ? 0 : size, false);
	while (cursor_left(&c) >= 8) {
		uint32_t type = cursor_u32(&c), rest = cursor_u32(&c) >> 16;
		struct cursor r = cursor_init(cursor_bytes(&c, rest - 8),
					      rest - 8, false);
		uint32_t kind;

		if (type != AUX_RECORD_EVENT_TYPE ||
		    cursor_u64(&r) != AUX_OWN_MAGIC)
			continue;
		kind = cursor_u32(&r) & 0xffff;
		if (kind == AUX_OWN_FILE)
			n_names += cursor_u32(&r) - 24 -
				   strlen("/proc/kallsyms");
		cursor_u32(&r);
		if (kind == AUX_OWN_CODE)
			take_code(r);
	}
}

static uint64_t save(void)
{
	struct perf_event_attr a = { .type = 1, .config = 9,
				     .size = sizeof(a) };
	struct aux_diag diag = { 0 };
	uint64_t id = 1, unsaved = 0;
	struct writer *w;

	unlink(out);
	if (writer_open(&w, out, NULL, &diag) ||
	    writer_attr_add(w, &a, "dummy", &id, 1))
		exit(1);
	ok(codesave_kernel(dir, w, &unsaved) == 0, "the kernel is saved");
	if (writer_close(w, &diag))
		exit(1);
	load();
	return unsaved;
}

int main(void)
{
	static const char names[] =
		"ffffffff81000000 T _text\n"
		"ffffffff81001000 T _stext\n"
		"ffffffff81002345 t some\n"
		"ffffffff81004000 T _etext\n"
		"ffffffffc0200000 t init\t[mod]\n"
		"ffffffffc0400010 t bpf_prog_1_a\t[bpf]\n"
		"ffffffffc0400800 t bpf_prog_2_b\t[bpf]\n"
		"ffffffffc0402000 t bpf_prog_3_c\t[bpf]\n";
	static const char modules[] =
		"mod 16384 0 - Live 0xffffffffc0200000\n"
		"hidden 4096 0 - Live 0x0000000000000000\n";
	char path[160];
	uint64_t unsaved;

	if (!mkdtemp(dir))
		return 1;
	snprintf(out, sizeof(out), "%s/out", dir);
	put("kallsyms", names, sizeof(names) - 1);
	put("modules", modules, sizeof(modules) - 1);
	unsaved = save();
	ok(unsaved == UINT64_MAX && !n_text, "without kcore nothing is saved");
	make_kcore();
	unsaved = save();
	ok(n_text == 0x3000, "_stext to _etext: %#" PRIx64, n_text);
	ok(n_module == 0x3000 && unsaved == 0x1000,
	   "a module but for its hole: %#" PRIx64 ", %#" PRIx64, n_module,
	   unsaved);
	ok(n_bpf == 0x7f0 + 0x800 + 0x1000, "BPF programs: %#" PRIx64, n_bpf);
	ok(n_wrong == 0, "all bytes are those of kcore");
	ok(n_names == sizeof(names) - 1, "the names, whole: %" PRIu64, n_names);
	put("kcore", "\177ELF\2\1\1garbage", 14);
	unsaved = save();
	ok(unsaved == UINT64_MAX, "a kcore that is none");
	snprintf(path, sizeof(path), "%s/kcore", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/kallsyms", dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/modules", dir);
	unlink(path);
	unlink(out);
	rmdir(dir);
	return plan_done();
}
