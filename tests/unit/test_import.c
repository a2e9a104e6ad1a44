/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The parts of which container readers are made: ini files and their quirks, the stream of
 * a trace port, registers of CoreSight sources, ELF segments.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "decode/lib/import/impl.h"
#include "tests/unit/tap.h"

/* ---- ini ---- */

static const char quirks[] =
	"\xef\xbb\xbf; a comment\r\n"
	"# another\r\n"
	"\r\n"
	"[ device ]\r\n"
	"name = cpu_0 ; the first\r\n"
	"path=a;b#c.bin\r\n"
	"empty=\r\n"
	"[regs]\r\n"
	"X0(size:64)=0x10\r\n"
	"TRCIDR1(0x079)=0x4100F403\r\n"
	"TRCIDR1 (id:0x79)=7\r\n"
	"trcidr10(id:0x7A)=0\r\n"
	"R1=012\r\n"
	"[dump]\r\n"
	"file=one\r\n"
	"[dump]\r\n"
	"file=two=2\r\n"
	"last=end";

static void test_ini(void)
{
	struct aux_diag diag = { 0 };
	struct ini ini;
	uint64_t v;

	ok(!ini_parse(&ini, quirks, sizeof(quirks) - 1, "x", &diag),
	   "an ini file with everything %s", diag.text);
	is_str(ini_get(&ini, "device", "name"), "cpu_0",
	       "a comment behind a value");
	is_str(ini_get(&ini, "DEVICE", "path"), "a;b#c.bin",
	       "; and # in a name are no comment");
	is_str(ini_get(&ini, "device", "empty"), "", "no value");
	is_str(ini_get(&ini, "regs", "X0"), "0x10", "a key with a size");
	is_str(ini_get(&ini, "regs", "TRCIDR1"), "0x4100F403",
	       "a key with an offset; the first counts");
	is_str(ini_get(&ini, "regs", "TRCIDR10"), "0",
	       "a key in another case, that begins like others");
	ok(!ini_get(&ini, "regs", "TRCIDR"), "a part of a key is none");
	ok(!ini_get(&ini, "none", "file"), "no such section");
	ok(ini.n_sections == 4 &&
	   !strcmp(ini_get_in(&ini, 2, "file"), "one") &&
	   !strcmp(ini_get_in(&ini, 3, "file"), "two=2") &&
	   !strcmp(ini_get_in(&ini, 3, "last"), "end") &&
	   !ini_get_in(&ini, 2, "last") && !ini_get_in(&ini, 4, "file"),
	   "two sections of one name stay two");
	ok(ini_number("0x4100F403", &v) && v == 0x4100f403 &&
	   ini_number("18446744073709551615", &v) && v == UINT64_MAX &&
	   ini_number("012", &v) && v == 10, "numbers in any base");
	ok(!ini_number("18446744073709551616", &v) && !ini_number("-1", &v) &&
	   !ini_number("", &v) && !ini_number(NULL, &v) &&
	   !ini_number("0x", &v) && !ini_number("1 2", &v), "and what is none");
	ini_fini(&ini);
}

static void refuse(const char *text, size_t n, int code, const char *what)
{
	char *copy = malloc(n ? n : 1);
	struct aux_diag diag = { 0 };
	struct ini ini;

	memcpy(copy, text, n);
	ok(ini_parse(&ini, copy, n, "x", &diag) == -code && diag.text[0],
	   "%s: %s", what, diag.text);
	ini_fini(&ini);
	free(copy);
}

static void test_bad_ini(void)
{
	static char big[(1 << 18) + 1];
	struct ini ini;

	refuse("[a]\nb\n", 6, AUX_E_FORMAT, "a key alone");
	refuse("b=1\n", 4, AUX_E_FORMAT, "a key in no section");
	refuse("[a]\nb=\0\n", 8, AUX_E_FORMAT, "a NUL");
	memset(big, '\n', sizeof(big));
	refuse(big, sizeof(big), AUX_E_LIMIT, "more than 256 KB");
	ok(!ini_parse(&ini, NULL, 0, "x", NULL) && !ini.n_sections,
	   "an empty file");
	ini_fini(&ini);
}

/* ---- a trace port ---- */

#define SYNC 0xff, 0xff, 0xff, 0x7f
#define HALF 0xff, 0x7f
#define FRAME(x) x, 1, x, 3, x, 5, x, 7, x, 9, x, 11, x, 13, x, 15

static void frames(const char *what, const uint8_t *in, size_t n,
		   const uint8_t *want, size_t n_want)
{
	uint8_t *copy = malloc(n ? n : 1), *out = malloc(IMPORT_CS_ROOM(n));
	size_t got;

	memcpy(copy, in, n);
	got = import_cs_frames(out, copy, n);
	ok(got == n_want && !memcmp(out, want, n_want), "%s: %zu of %zu bytes",
	   what, got, n_want);
	free(copy);
	free(out);
}

static void test_port(void)
{
	static const uint8_t whole[] = { SYNC, FRAME(0x20), SYNC, SYNC,
					 FRAME(0x40), FRAME(0x60) };
	static const uint8_t halves[] = { HALF, 0x20, 1, 0x20, 3, HALF, 0x20, 5,
					  HALF, HALF, 0x20, 7, 0x20, 9, 0x20,
					  11, 0x20, 13, 0x20, 15, HALF };
	static const uint8_t cut[] = { FRAME(0x20), 0x40, 1, 0x40, 3, SYNC,
				       FRAME(0x60), 0x40 };
	static const uint8_t all[] = { FRAME(0x20), FRAME(0x40), FRAME(0x60) };
	static const uint8_t barrier[] = { FRAME(0x20), SYNC, SYNC, SYNC, SYNC,
					   FRAME(0x60), 0x40 };
	static uint8_t blocks[1100], data[1100];
	uint8_t worst[600], *out;
	size_t n = 0;

	frames("full syncs between frames", whole, sizeof(whole), all,
	       sizeof(all));
	frames("half syncs inside a frame", halves, sizeof(halves), all, 16);
	frames("a frame that a sync cuts: a barrier in its place", cut,
	       sizeof(cut), barrier, sizeof(barrier));
	frames("nothing", whole, 0, all, 0);
	for (size_t i = 0; i < sizeof(worst); i += 6)
		memcpy(worst + i, (uint8_t[]){ 0x20, 1, SYNC }, 6);
	out = malloc(IMPORT_CS_ROOM(sizeof(worst)));
	is_u64(import_cs_frames(out, worst, sizeof(worst)), 1600,
	       "syncs in every frame fit into the room");
	free(out);
	for (size_t i = 0; i < sizeof(blocks); i++) {
		blocks[i] = (uint8_t)(i * 7);
		if (i % 512 < 504)
			data[n++] = blocks[i];
	}
	out = malloc(sizeof(blocks));
	ok(import_cs_dstream(out, blocks, sizeof(blocks)) == n &&
	   !memcmp(out, data, n), "DSTREAM's blocks without their ends");
	free(out);
}

/* ---- sources ---- */

static void test_source(void)
{
	static const char etm[] = "[regs]\nTRCTRACEIDR(id:0x10)=0x12\n"
				  "TRCIDR1=0x4100F403\nTRCDEVARCH=5\n";
	static const char itm[] = "[regs]\nITM_CTRL(0x3A0)=0x00200006\n";
	uint64_t words[IMPORT_CS_BLOCK];
	const uint64_t *w = words + AUX_CS_NR_PARAMS + 1;
	struct ini ini;

	ini_parse(&ini, etm, sizeof(etm) - 1, "x", NULL);
	import_cs_block(words, &ini, "ETM4.4", "Cortex-R52", 3);
	ok(words[AUX_CS_MAGIC] == AUX_CS_MAGIC_OWN && words[AUX_CS_CPU] == 3 &&
	   words[AUX_CS_NR_PARAMS] == AUX_CS_OWN_N &&
	   w[AUX_CS_OWN_ARCH] == AUX_ETM_V4 &&
	   w[AUX_CS_OWN_TRACE_ID] == 0x12 &&
	   w[AUX_CS_OWN_TRCIDR1] == 0x4100f403 &&
	   w[AUX_CS_OWN_TRCDEVARCH] == 5 && !w[AUX_CS_OWN_TRCIDR0] &&
	   w[AUX_CS_OWN_CORE_VERSION] == 8 &&
	   w[AUX_CS_OWN_CORE_PROFILE] == 'R', "an ETMv4 of a Cortex-R52");
	import_cs_block(words, &ini, "tape", NULL, UINT32_MAX);
	ok(words[AUX_CS_CPU] == UINT64_MAX &&
	   w[AUX_CS_OWN_ARCH] == AUX_ETM_NONE, "a source of no known type");
	ini_fini(&ini);
	ini_parse(&ini, itm, sizeof(itm) - 1, "x", NULL);
	import_cs_block(words, &ini, "ITM", NULL, UINT32_MAX);
	ok(w[AUX_CS_OWN_ARCH] == AUX_ETM_ITM &&
	   w[AUX_CS_OWN_TRACE_ID] == 0x20 &&
	   w[AUX_CS_OWN_ITMTCR] == 0x200006, "an ITM by the name DS-5 gives");
	ini_fini(&ini);
	ok(import_cs_version("Cortex-A9") == 7 &&
	   import_cs_version("Cortex-A53") == 8 &&
	   import_cs_version("Cortex-A510") == 8 &&
	   import_cs_version("ARM-AA64") == 8 &&
	   import_cs_version("cortex-m4") == 7 &&
	   !import_cs_version("Z80") && !import_cs_version(NULL),
	   "the architecture of cores");
}

/* ---- ELF ---- */

struct image {
	Elf64_Ehdr e;
	Elf64_Phdr p[3];
	uint8_t code[64];
};

/* As the kernel's: per-CPU data at 0 lie behind the text in the file. */
static void make_image(struct image *im)
{
	*im = (struct image){
		.e = { .e_ident = ELFMAG, .e_phoff = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3 },
		.p = { { .p_type = PT_LOAD, .p_vaddr = 0x10000,
			 .p_offset = 0, .p_filesz = 32 },
		       { .p_type = PT_NOTE, .p_filesz = 8 },
		       { .p_type = PT_LOAD, .p_vaddr = 0, .p_offset = 64,
			 .p_filesz = 1 << 20 } },
	};
	im->e.e_ident[EI_CLASS] = ELFCLASS64;
	im->e.e_ident[EI_VERSION] = EV_CURRENT;
	im->e.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ?
					 ELFDATA2MSB : ELFDATA2LSB;
}

/* Its mappings: "addr len pgoff" each. */
static void mapped(const void *data, size_t n, bool has_base, const char *want,
		   const char *what)
{
	struct import_file f = { data, n, 0, 0, (char *)(uintptr_t)"/x" };
	struct import_map m = { .pid = 7, .addr = 0x500000 };
	struct import_build b;
	struct aux_diag diag = { 0 };
	struct aux_reader *r = NULL;
	struct aux_event ev;
	char got[256] = "";
	int rc = import_build_init(&b, "x", 0, &diag);

	if (rc == 0)
		rc = import_elf_map(&b, &f, &m, has_base, &diag);
	if (rc == 0)
		rc = import_build_open(&b, &r, "x", &diag);
	while (rc == 0 && aux_reader_next(r, &ev, NULL) == 1)
		if (ev.type == PERF_RECORD_MMAP2)
			snprintf(got + strlen(got), sizeof(got) - strlen(got),
				 "%" PRIx64 " %" PRIx64 " %" PRIx64 ";",
				 ev.mmap.addr, ev.mmap.len, ev.mmap.pgoff);
	is_str(rc ? diag.text : got, want, what);
	aux_reader_close(r);
	import_build_fini(&b);
}

static void test_elf(void)
{
	struct image im;

	make_image(&im);
	mapped(&im, sizeof(im), false, "10000 20 0;0 e8 40;", "as linked");
	mapped(&im, sizeof(im), true, "500000 20 0;4f0000 e8 40;",
	       "what is first in the file comes to the address");
	mapped(&im, sizeof(Elf64_Ehdr) + 20, true,
	       "/x: an ELF file without a segment to load", "a cut header");
	im.e.e_phoff = UINT64_MAX - 8;
	mapped(&im, sizeof(im), true,
	       "/x: an ELF file without a segment to load", "headers nowhere");
	mapped("code", 4, true, "500000 4 0;", "no ELF file");
}

int main(void)
{
	test_ini();
	test_bad_ini();
	test_port();
	test_source();
	test_elf();
	return plan_done();
}
