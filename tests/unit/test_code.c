/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * codeview and elfimage on this test program's own file: bytes, names, build ids, symfs,
 * saved code, and the reason that is given when there is no code.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "decode/cmd/impl.h"
#include "decode/lib/trace/gap.h"
#include "decode/lib/code/code.h"
#include "decode/lib/code/impl.h"
#include "decode/lib/elf/elf.h"
#include "tests/unit/mkperf.h"
#include "tests/unit/tap.h"

__attribute__((noinline)) int codeview_target(int x);

int codeview_target(int x)
{
	return x * 3 + 1;
}

struct file {
	struct mk mk;
	struct aux_reader *r;
	struct timeline *tl;
	struct codeview *cv;
};

static bool open_file(struct file *f, const struct codeview_config *config)
{
	struct aux_diag diag = { 0 };

	mk_finish(&f->mk);
	if (aux_reader_open_mem(&f->r, f->mk.p, f->mk.n, "made", &diag) < 0 ||
	    timeline_new(&f->tl, f->r, 0, &diag) < 0 ||
	    codeview_new(&f->cv, f->r, config, &diag) < 0)
		return ok(0, "opening: %s", diag.text);
	return true;
}

static void close_file(struct file *f)
{
	codeview_free(f->cv);
	timeline_free(f->tl);
	aux_reader_close(f->r);
	free(f->mk.p);
}

/* The file offset of a function of this program, from /proc/self/maps. */
static uint64_t own_offset(uint64_t addr)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end, off, found = 0;
	char line[PATH_MAX + 128];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start,
			   &end, &off) == 3 && addr >= start && addr < end)
			found = addr - start + off;
	}
	if (maps)
		fclose(maps);
	return found;
}

static void own_file(void)
{
	static const struct codeview_config none;
	uint64_t off = own_offset((uintptr_t)codeview_target);
	uint64_t ip = 0x500000 + off;
	char self[PATH_MAX] = { 0 };
	const struct space *s;
	struct aux_code c;
	struct symbol sym;
	struct file f;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return;
	mk_init(&f.mk, 0);
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x500000, 1 << 30, 0,
		self);
	if (!open_file(&f, &none))
		return;
	s = timeline_space(f.tl, 1, 0);
	ok(!codeview_code(f.cv, s, ip, &c) && ip >= c.start && ip < c.end,
	   "bytes of a mapped file");
	ok(!memcmp(c.bytes + (ip - c.start), (void *)codeview_target, 8),
	   "are the ones that run here");
	is_str(c.path, self, "their path");
	ok(c.end < 0x500000 + (1 << 30), "they end with the file");
	ok(!codeview_symbol(f.cv, s, ip + 2, &sym) && sym.start == ip,
	   "the symbol's start");
	is_str(sym.name, "codeview_target", "its name");
	is_str(sym.dso, self, "its file");
	ok(codeview_code(f.cv, s, 0x400000, &c) == -AUX_E_NOENT, "outside");
	close_file(&f);
}

static void wrong_id(void)
{
	struct {
		struct perf_event_header h;
		uint32_t pid;
		uint8_t id[24];
		char path[PATH_MAX];
	} __attribute__((packed)) b = {
		.h = { .misc = 1 << 15, .size = 36 },
		.id = { [0] = 0xab, [20] = 20 },
	};
	static const struct codeview_config none;
	char self[PATH_MAX] = { 0 }, why[512];
	const struct space *s;
	struct aux_code c;
	struct file f;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return;
	snprintf(b.path, sizeof(b.path), "%s", self);
	b.h.size = (uint16_t)(36 + ((strlen(self) + 8) & ~(size_t)7));
	mk_init(&f.mk, 0);
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x500000, 4096, 0, self);
	mk_feature(&f.mk, AUX_FEAT_BUILD_ID, &b, b.h.size);
	if (!open_file(&f, &none))
		return;
	s = timeline_space(f.tl, 1, 0);
	ok(codeview_code(f.cv, s, 0x500000, &c) == -AUX_E_NOENT,
	   "a file with another build id is refused");
	codeview_explain(f.cv, s, 0x500000, why, sizeof(why));
	ok(strstr(why, "ab00000000") && strstr(why, "has build id") &&
	   strstr(why, self), "%s", why);
	close_file(&f);
}

static void missing(void)
{
	static const struct codeview_config symfs = { .symfs = "/tmp" };
	static const struct codeview_config bad = { .symfs = "/nowhere/x" };
	struct aux_diag diag = { 0 };
	struct codeview *cv;
	const struct space *s;
	struct aux_code c;
	char why[512];
	struct file f;

	mk_init(&f.mk, 0);
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x500000, 4096, 0,
		"/no/such.so");
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x600000, 4096, 0,
		"[vdso]");
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x700000, 4096, 0,
		"//anon");
	if (!open_file(&f, &symfs))
		return;
	s = timeline_space(f.tl, 1, 0);
	ok(codeview_code(f.cv, s, 0x500000, &c) == -AUX_E_NOENT, "no file");
	codeview_explain(f.cv, s, 0x500000, why, sizeof(why));
	ok(strstr(why, "/tmp/no/such.so"), "%s", why);
	ok(codeview_code(f.cv, s, 0x600000, &c) == -AUX_E_NOENT,
	   "never this machine's vdso");
	advice_code(f.cv, s, 0x600000, why, sizeof(why));
	ok(strstr(why, "--vdso"), "%s", why);
	codeview_explain(f.cv, s, 0x600000, why, sizeof(why));
	ok(strstr(why, "vdso") && !strstr(why, "--"),
	   "the library names no option: %s", why);
	codeview_explain(f.cv, s, 0x700000, why, sizeof(why));
	ok(strstr(why, "//anon"), "%s", why);
	codeview_explain(f.cv, s, 0x10, why, sizeof(why));
	ok(strstr(why, "mapped"), "%s", why);
	ok(codeview_new(&cv, f.r, &bad, &diag) == -AUX_E_NOENT && !cv &&
	   diag.why == AUX_WHY_SETTING &&
	   !strncmp(diag.text, "symfs /nowhere/x: ", 18), "%s", diag.text);
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		ok(!strncmp(advice_gap(i), gap_text(i), strlen(gap_text(i))) &&
		   !strstr(gap_text(i), "--"), "%s", advice_gap(i));
	close_file(&f);
}

static void saved(void)
{
	static const struct {
		struct aux_feat_code head;
		struct aux_code_entry e;
		uint8_t blob[4];
	} __attribute__((packed)) code = {
		{ 1, 1, 4 }, { 0, 0x700010, 2, 2, 1, AUX_CODE_ANON },
		{ 1, 2, 0x90, 0xc3 },
	};
	static const struct codeview_config none;
	const struct space *s;
	uint8_t back[2] = { 0 };
	struct aux_code c;
	struct file f;
	FILE *file;

	mk_init(&f.mk, 0);
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x700000, 4096, 0,
		"//anon");
	mk_feature(&f.mk, AUX_FEAT_AUXKIT_CODE, &code, sizeof(code));
	if (!open_file(&f, &none))
		return;
	s = timeline_space(f.tl, 1, 0);
	ok(!codeview_code(f.cv, s, 0x700011, &c) && c.start == 0x700010 &&
	   c.end == 0x700012 && c.bytes[0] == 0x90, "saved bytes");
	file = c.path ? fopen(c.path, "r") : NULL;
	ok(file && !fseek(file, (long)c.path_offset, SEEK_SET) &&
	   fread(back, 1, 2, file) == 2 && back[0] == 0x90 && back[1] == 0xc3,
	   "a path holds the same");
	if (file)
		fclose(file);
	close_file(&f);
}

/*
 * A place stays where it is when the table of places grows: a worker reads it without
 * the lock while another one adds places.
 */
static void places_stay(void)
{
	static const struct codeview_config none;
	const struct space *s;
	struct place *first;
	struct file f;

	mk_init(&f.mk, 0);
	for (unsigned i = 0; i < 200; i++)
		mk_mmap(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, 0x700000 + 0x2000 * i,
			4096, 0, "/none/such");
	if (!open_file(&f, &none))
		return;
	s = timeline_space(f.tl, 1, 0);
	first = codeview_place(f.cv, s, space_find(s, 0x700000));
	for (unsigned i = 1; i < 200; i++)
		codeview_place(f.cv, s, space_find(s, 0x700000 + 0x2000 * i));
	ok(first && codeview_place(f.cv, s, space_find(s, 0x700000)) == first &&
	   first->m->start == 0x700000, "a place does not move");
	close_file(&f);
}

/* Whatever the bytes, an image opens or does not; it never goes astray. */
static void broken_images(void)
{
	char self[PATH_MAX] = { 0 };
	struct elfimage *im, *own;
	struct elfimage_symbol sym;
	const uint8_t *data;
	uint64_t len, seed = 3;
	uint8_t *copy;
	size_t n = 65536;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    elfimage_open(&own, self) < 0)
		return;
	data = elfimage_data(own, &len);
	n = len < n ? len : n;
	copy = malloc(n);
	for (int i = 0; copy && i < 300; i++) {
		memcpy(copy, data, n);
		for (int j = 0; j < 8; j++) {
			seed = seed * 6364136223846793005 + 1442695040888963407;
			copy[(seed >> 33) % (j < 4 ? 1024 : n)] =
				(uint8_t)(seed >> 20);
		}
		if (elfimage_open_mem(&im, copy, n - (seed >> 50) % 999) == 0) {
			elfimage_symbol(im, 0x1000, &sym);
			elfimage_close(im);
		}
	}
	ok(true, "300 broken images");
	free(copy);
	elfimage_close(own);
	ok(elfimage_open(&im, "/no/such") == -AUX_E_NOENT && !im, "no file");
	ok(elfimage_open(&im, "/tmp") == -AUX_E_NOENT && !im, "a directory");
}

int main(void)
{
	own_file();
	wrong_id();
	missing();
	saved();
	places_stay();
	broken_images();
	return plan_done();
}
