/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * timeline: the kernel over time: its image and relocation, modules, symbols of KSYMBOL
 * records, BPF programs; patched code compared with an array of bytes at each time.
 */
#include "tests/unit/mkside.h"

#define KERNEL PERF_RECORD_MISC_KERNEL
#define TEXT UINT64_C(0xffffffff81000000)
#define MODULE UINT64_C(0xffffffffc0000000)

static const struct mapping *find(const struct side *f, uint64_t time,
				  uint64_t addr)
{
	return space_find(timeline_space(f->tl, UINT32_MAX, time), addr);
}

static void image(void)
{
	const struct mapping *m;
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_ksymbol(&f.mk, 0, MODULE + 0x8000, 64, false, "bpf_prog_early");
	mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 500, MODULE, 0x4000, 0,
		 "/lib/modules/6.1/kernel/fs/x.ko");
	for (unsigned i = 0; i < 2; i++)	/* the second one adds nothing */
		mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 500, TEXT,
			 MODULE + 0x100000 - TEXT, TEXT + 0x40,
			 "[kernel.kallsyms]_stext");
	mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 500, MODULE + 0x4000, 0x1000, 0,
		 "[nf_tables]");
	mk_mmap(&f.mk, (struct mk_id){ 10, 10, 600, 0 }, 0x1000, 0x1000, 0,
		"/bin/x");
	if (!side_open(&f))
		return;
	m = find(&f, 0, TEXT + 0x123);
	ok(m && m->kind == MAPPING_KERNEL &&
	   !strcmp(m->path, "[kernel.kallsyms]") && m->ref_name &&
	   !strcmp(m->ref_name, "_stext") && m->ref_addr == TEXT + 0x40 &&
	   m->pgoff == TEXT, "the image, its symbol and where that lies");
	m = find(&f, 0, MODULE + 0x3fff);
	ok(m && m->kind == MAPPING_MODULE && m->pgoff == 0 && !m->ref_name &&
	   m->end == MODULE + 0x4000,
	   "a module, said before the image that reaches over it");
	m = find(&f, 0, MODULE + 0x5000);
	ok(m && m->kind == MAPPING_KERNEL && m->pgoff == m->start &&
	   m->ref_addr == TEXT + 0x40, "the image behind it");
	m = find(&f, 0, MODULE + 0x4000);
	ok(m && m->kind == MAPPING_MODULE && !strcmp(m->path, "[nf_tables]"),
	   "a module without a file");
	m = find(&f, 0, MODULE + 0x8000);
	ok(m && m->kind == MAPPING_KSYMBOL, "a KSYMBOL of before all, too");
	m = space_find(timeline_space(f.tl, 10, 600), TEXT);
	ok(m && m->kind == MAPPING_KERNEL, "every process has it");
	m = space_next_kernel(timeline_space(f.tl, 10, 600), 0);
	ok(m && m->start == TEXT && !space_next(timeline_space(f.tl, 10, 600),
						0x2000), "walking");
	side_close(&f);
}

/* What a recorder writes that may not know addresses. */
static void hidden_image(void)
{
	const struct mapping *m;

	for (int bits = 32; bits <= 64; bits += 32) {
		struct side f = { 0 };

		mk_init(&f.mk, 0);
		mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 0, 0, 0, 0,
			 "[kernel.kallsyms]_text");
		if (bits == 32)
			mk_feature(&f.mk, AUX_FEAT_ARCH, "\5\0\0\0i686", 9);
		if (!side_open(&f))
			return;
		m = find(&f, 0, bits == 32 ? 0xc0001000 : TEXT);
		ok(m && m->kind == MAPPING_KERNEL && !m->ref_addr,
		   "%d bits: somewhere in the kernel's half", bits);
		ok(!find(&f, 0, 0x401000), "and not in a process's");
		side_close(&f);
		mk_init(&f.mk, 0);
		mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 0, TEXT + 0x40, 0x1000, 0,
			 "[kernel.kallsyms]_stext");
		if (!side_open(&f))
			return;
		m = find(&f, 0, TEXT + 0x40);
		ok(m && m->ref_addr == TEXT + 0x40 && m->pgoff == m->start,
		   "simpleperf: the image starts at the symbol");
		side_close(&f);
	}
}

/* struct bpf_prog_info and its arrays, as perf writes them. */
struct bpf_section {
	uint32_t count;
	struct aux_feat_bpf_prog head;
	uint8_t info[192];
	struct {
		uint8_t code[16];
		uint64_t ksyms[2];
		uint32_t lens[2];
		uint8_t tags[2][8];
	} data;
} __attribute__((packed));

static void fill_bpf(struct bpf_section *s)
{
	*s = (struct bpf_section){ .count = 1 };
	s->head = (struct aux_feat_bpf_prog){
		sizeof(s->info), sizeof(s->data),
		1 << AUX_BPF_JITED_INSNS | 1 << AUX_BPF_JITED_KSYMS |
			1 << AUX_BPF_JITED_FUNC_LENS | 1 << AUX_BPF_PROG_TAGS,
	};
	memcpy(s->info + 16, &(uint32_t){ 16 }, 4);
	memcpy(s->info + 24, &(uint64_t){ 0 }, 8);
	memcpy(s->info + 104, (uint32_t[]){ 2, 2 }, 8);
	memcpy(s->info + 112, (uint64_t[]){ 16, 32 }, 16);
	memcpy(s->info + 180, &(uint32_t){ 2 }, 4);
	memcpy(s->info + 184, &(uint64_t){ 40 }, 8);
	memcpy(s->data.code, "0123456789abcdef", 16);
	s->data.ksyms[0] = MODULE + 0x1000;
	s->data.ksyms[1] = MODULE + 0x2000;
	s->data.lens[0] = 10;
	s->data.lens[1] = 6;
	memset(s->data.tags[0], 0xaa, 8);
	memset(s->data.tags[1], 0xbb, 8);
}

static void bpf(void)
{
	const struct mapping *m;
	struct bpf_section s;
	struct side f = { 0 };

	fill_bpf(&s);
	mk_init(&f.mk, 0);
	mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 0, TEXT, MODULE + 0x100000 - TEXT,
		 TEXT, "[kernel.kallsyms]_text");
	mk_ksymbol(&f.mk, 50, MODULE + 0x1000, 12, false,
		   "bpf_prog_cccccccccccccccc_old");
	mk_ksymbol(&f.mk, 90, MODULE + 0x1000, 12, true,
		   "bpf_prog_cccccccccccccccc_old");
	mk_ksymbol(&f.mk, 100, MODULE + 0x1000, 10, false,
		   "bpf_prog_aaaaaaaaaaaaaaaa_main");
	mk_ksymbol(&f.mk, 200, MODULE + 0x1000, 10, true,
		   "bpf_prog_aaaaaaaaaaaaaaaa_main");
	mk_feature(&f.mk, AUX_FEAT_BPF_PROG_INFO, &s, sizeof(s));
	if (!side_open(&f))
		return;
	m = find(&f, 99, MODULE + 0x1000);
	ok(m && m->kind == MAPPING_KERNEL, "before and between: the kernel's");
	m = find(&f, 50, MODULE + 0x1005);
	ok(m && m->kind == MAPPING_KSYMBOL && !m->saved,
	   "another program was at that place: not these bytes");
	m = find(&f, 100, MODULE + 0x1009);
	ok(m && m->kind == MAPPING_KSYMBOL && m->saved &&
	   !memcmp(m->saved, "0123456789", 10) && m->end == m->start + 10 &&
	   strstr(m->path, "_main") && m->pgoff == 0, "a program's bytes");
	m = find(&f, 200, MODULE + 0x1009);
	ok(m && m->kind == MAPPING_KERNEL, "until it is unloaded");
	m = find(&f, 0, MODULE + 0x2005);
	ok(m && m->saved && m->saved[5] == 'f' && m->end == m->start + 6 &&
	   !strcmp(m->path, "bpf_prog_bbbbbbbbbbbbbbbb"),
	   "a function that no record names, under its own tag");
	ok(timeline_saved(f.tl, 0) && timeline_saved(f.tl, 1) &&
	   timeline_stats(f.tl)->n_bad_code == 0, "both are kept for decoders");
	side_close(&f);
}

/* Every byte of the section in turn made large: no harm. */
static void bad_bpf(void)
{
	static const uint8_t bad[] = { 0xff, 0x80, 0x11 };
	struct bpf_section s;
	unsigned n = 0;

	for (size_t i = 0; i < 3 * sizeof(s); i++) {
		struct side f = { 0 };
		uint8_t *copy = malloc(sizeof(s));

		fill_bpf(&s);
		((uint8_t *)&s)[i / 3] = bad[i % 3];
		memcpy(copy, &s, sizeof(s));
		mk_init(&f.mk, 0);
		mk_comm(&f.mk, (struct mk_id){ 1, 1, 0, 0 }, false, "x");
		mk_feature(&f.mk, AUX_FEAT_BPF_PROG_INFO, copy,
			   i % 3 ? sizeof(s) : i / 3);
		if (!side_open(&f))
			return;
		n += timeline_stats(f.tl)->n_bad_code > 0;
		side_close(&f);
		free(copy);
	}
	ok(n > 100, "%u sections that cannot be", n);
}

/* ---- patched code ---- */

#define N_BYTES 48
#define N_TIMES 400

/* known: what is said of a byte from a time on; -1: nothing. */
static int16_t model[N_TIMES + 1][N_BYTES];

static void model_set(unsigned time, unsigned at, const uint8_t *p, unsigned n)
{
	for (unsigned t = time; t <= N_TIMES; t++)
		for (unsigned i = 0; i < n; i++)
			model[t][at + i] = p ? p[i] : -1;
}

/* The kernel's real bytes, from which old bytes come. */
static void make_pokes(struct mk *m, uint64_t seed)
{
	uint8_t real[N_BYTES], new[8];
	int poked[N_BYTES] = { 0 };

	for (unsigned i = 0; i < N_BYTES; i++)
		real[i] = (uint8_t)(i * 37 + 11);
	memset(model, 0xff, sizeof(model));
	for (unsigned t = 1; t <= N_TIMES; t++) {
		unsigned n, at;

		seed = seed * 6364136223846793005 + 1442695040888963407;
		n = 1 + (seed >> 33) % 8;
		at = (seed >> 40) % (N_BYTES - n);
		if (seed >> 62)		/* three of four: few in the first */
			n = n > 5 ? 5 : n;
		for (unsigned i = 0; i < n; i++) {
			new[i] = (uint8_t)(seed >> (8 + i));
			/* Before its first poke a byte was what that says. */
			for (unsigned k = 0; !poked[at + i] && k < t; k++)
				model[k][at + i] = real[at + i];
			poked[at + i] = 1;
		}
		mk_poke(m, t, TEXT + at, real + at, (uint16_t)n, new,
			(uint16_t)n);
		memcpy(real + at, new, n);
		model_set(t, at, new, n);
	}
}

static void check_model(const struct side *f, const char *what)
{
	unsigned n = 0, bad = 0;

	for (unsigned t = 0; t <= N_TIMES; t++) {
		for (unsigned i = 0; i < N_BYTES; i++) {
			const struct mapping *m = find(f, t, TEXT + i);
			int got = m && m->saved ?
					  m->saved[TEXT + i - m->start] : -1;

			n++;
			bad += !m || got != model[t][i] ||
			       strcmp(m->path, "[kernel.kallsyms]") ||
			       m->pgoff != m->start;
		}
	}
	ok(!bad, "%s: %u bytes at their times, %u wrong", what, n, bad);
}

static void pokes(void)
{
	struct side f = { 0 };

	for (uint64_t seed = 1; seed < 4; seed++) {
		mk_init(&f.mk, 0);
		make_pokes(&f.mk, seed);
		/* Said late, and twice: it was there before. */
		for (unsigned i = 0; i < 2; i++)
			mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 200, TEXT, 0x1000,
				 TEXT, "[kernel.kallsyms]_text");
		if (!side_open(&f))
			return;
		check_model(&f, "patched code");
		side_close(&f);
	}
}

/* A page that comes (no old bytes) and goes (no new ones). */
static void trampolines(void)
{
	const struct mapping *m;
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_mmap1(&f.mk, KERNEL, UINT32_MAX, 0, TEXT, MODULE + 0x100000 - TEXT,
		 TEXT, "[kernel.kallsyms]_text");
	mk_ksymbol(&f.mk, 100, MODULE, 0x1000, false, "kprobe_insn_page");
	mk_poke(&f.mk, 100, MODULE + 0x10, NULL, 0, "\x90\xe9zzzz", 6);
	mk_poke(&f.mk, 150, MODULE + 0x10, "\x90\xe9zzzz", 6, "\xcc\xe9", 2);
	mk_poke(&f.mk, 200, MODULE + 0x10, "\xcc\xe9", 2, NULL, 0);
	mk_ksymbol(&f.mk, 300, MODULE, 0x1000, true, "kprobe_insn_page");
	mk_poke(&f.mk, 400, MODULE + 0x10, "old", 3, "new", 3);
	if (!side_open(&f))
		return;
	m = find(&f, 99, MODULE + 0x10);
	ok(m && !m->saved && m->kind == MAPPING_KERNEL, "nothing before");
	m = find(&f, 149, MODULE + 0x11);
	ok(m && m->saved && m->saved[1] == 0xe9 && m->pgoff == 0x10 &&
	   !strcmp(m->path, "kprobe_insn_page"), "new bytes, in what has a name");
	m = find(&f, 149, MODULE + 0x20);
	ok(m && !m->saved && m->kind == MAPPING_KSYMBOL, "the rest of the page");
	m = find(&f, 150, MODULE + 0x10);
	ok(m && m->saved && m->saved[0] == 0xcc && m->end == m->start + 2 &&
	   !find(&f, 150, MODULE + 0x12)->saved, "fewer bytes than before");
	ok(!find(&f, 200, MODULE + 0x10)->saved &&
	   find(&f, 200, MODULE + 0x10)->kind == MAPPING_KSYMBOL, "removed");
	ok(find(&f, 300, MODULE + 0x10)->kind == MAPPING_KERNEL, "the page too");
	m = find(&f, 399, MODULE + 0x10);
	ok(m && m->saved && !memcmp(m->saved, "old", 3) &&
	   !find(&f, 299, MODULE + 0x10)->saved,
	   "old bytes reach back to the last change, no further");
	is_u64(timeline_stats(f.tl)->n_bad_code, 0, "nothing wrong with it");
	side_close(&f);
}

/* A version for each poke, and all versions asked for. */
static void many_pokes(void)
{
	const uint64_t n = 100000;
	struct side f = { 0 };
	const struct space *s;
	uint64_t n_saved = 0, ids = 0, last = 0;

	mk_init(&f.mk, 0);
	for (uint64_t i = 1; i <= n; i++)
		mk_poke(&f.mk, i, TEXT + 16 * (i % 1000),
			i / 1000 & 1 ? "\xe9zzzz" : "\x0f\x1f\x44\0\0", 5,
			i / 1000 & 1 ? "\x0f\x1f\x44\0\0" : "\xe9zzzz", 5);
	if (!side_open(&f))
		return;
	while (timeline_saved(f.tl, n_saved))
		n_saved++;
	ok(n_saved == 2, "equal bytes are kept once");
	for (uint64_t i = 1; i <= n; i += 7) {
		s = timeline_space(f.tl, 5, i);
		ids += s->id != last && s->from == i && s->until == i + 1 -
		       (i == n) + (i == n ? UINT64_MAX - n : 0);
		last = s->id;
	}
	is_u64(ids, (n + 6) / 7, "each version of its own");
	ok(timeline_space(f.tl, 5, n) == timeline_space(f.tl, 6, n + 9),
	   "asked again: the same space");
	s = timeline_space(f.tl, 5, 1000);
	is_u64(timeline_space(f.tl, 5, 3000)->id, s->id,
	       "the same code again has the same id");
	side_close(&f);
}

/* Where the kernel is not traced its changes are no reason to switch. */
static void user_only(void)
{
	struct side f = { 0 };
	const struct space *s;

	mk_init(&f.mk, 0);
	mk_pt_info(&f.mk);
	mk_mmap(&f.mk, (struct mk_id){ 10, 10, 5, 0 }, 0x1000, 0x1000, 0, "/x");
	mk_poke(&f.mk, 100, TEXT, "a", 1, "b", 1);
	if (!side_open(&f))
		return;
	s = timeline_space(f.tl, 10, 50);
	ok(s == timeline_space(f.tl, 10, 150) && s->until == UINT64_MAX,
	   "a trace of user code: one space");
	side_close(&f);
}

int main(void)
{
	image();
	hidden_image();
	bpf();
	bad_bpf();
	pokes();
	trampolines();
	many_pokes();
	user_only();
	return plan_done();
}
