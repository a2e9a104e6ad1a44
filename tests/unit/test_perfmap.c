/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * perfmap: lines that are entries and lines that are not, overlaps against a slow
 * search, cut anywhere; and where codeview takes maps from.
 */
#include "tests/unit/codeview_file.h"
#include "decode/lib/elf/perfmap.h"

static struct perfmap *parse(const char *text, size_t len)
{
	struct perfmap *p;

	if (perfmap_new(&p, (const uint8_t *)text, len) < 0)
		exit(1);
	return p;
}

static const char *name_at(const struct perfmap *p, uint64_t ip)
{
	const struct perfmap_entry *e = perfmap_find(p, ip);

	return e ? e->name : "-";
}

static void lines(void)
{
	static const char text[] =
		"1000 10 one\n"
		"0x2000 0X20 two words, (and) <more>\r\n"
		"\n"
		"3000 0 empty\n"
		"nothing\n"
		"4000\n"
		"4000 10\n"
		"4000 10 \n"
		"-4000 10 minus\n"
		"10000000000000000 10 too long\n"
		"ffffffffffffffff 2 wraps\n"
		"5000\t8\ttabs\n"
		"6000 8 last";
	struct perfmap *p = parse(text, sizeof(text) - 1);
	const struct perfmap_entry *e = perfmap_find(p, 0x201f);

	ok(perfmap_info(p)->n_entries == 4 && perfmap_info(p)->n_skipped == 8,
	   "4 entries, 8 lines that are none");
	ok(!strcmp(name_at(p, 0x1000), "one") &&
	   !strcmp(name_at(p, 0x100f), "one") &&
	   !strcmp(name_at(p, 0x1010), "-") && !strcmp(name_at(p, 0xfff), "-"),
	   "from start to end");
	ok(e && e->start == 0x2000 && e->size == 0x20 &&
	   !strcmp(e->name, "two words, (and) <more>"),
	   "a name goes up to the end of the line");
	ok(!strcmp(name_at(p, 0x5007), "tabs") &&
	   !strcmp(name_at(p, 0x6000), "last"), "the last line may have no end");
	perfmap_free(p);
	for (size_t n = 0; n < sizeof(text); n++)
		perfmap_free(parse(text, n));
	p = parse("", 0);
	ok(!perfmap_find(p, 0), "an empty map");
	perfmap_free(p);
}

#define N_RANDOM 300u
#define SPACE 2000u

/* A small linear congruential generator: the same entries each time. */
static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static void overlaps(void)
{
	static char text[N_RANDOM * 32];
	static uint32_t last[SPACE + 64];
	uint32_t seed = 1;
	size_t n = 0, bad = 0;
	struct perfmap *p;

	for (uint32_t i = 1; i <= N_RANDOM; i++) {
		uint32_t start = next_random(&seed) % SPACE;
		uint32_t size = 1 + next_random(&seed) % (i % 7 ? 20 : 60);

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%x %x %u\n",
				      start, size, i);
		for (uint32_t at = start; at < start + size; at++)
			last[at] = i;
	}
	p = parse(text, n);
	for (uint32_t at = 0; at < SPACE + 64; at++) {
		const struct perfmap_entry *e = perfmap_find(p, at);

		bad += (e ? strtoul(e->name, NULL, 10) : 0) != last[at];
	}
	ok(perfmap_info(p)->n_entries == N_RANDOM && !bad,
	   "of overlapping entries the last one counts: %zu differ", bad);
	perfmap_free(p);
}

static void limits(void)
{
	size_t n_lines = PERFMAP_MAX_ENTRIES + 5, len = 0;
	char *text = malloc(n_lines * 16);
	struct perfmap *p;

	if (!text)
		exit(1);
	for (size_t i = 0; i < n_lines; i++)
		len += (size_t)snprintf(text + len, 16, "1 %zx a\n",
					n_lines - i);
	p = parse(text, len);
	ok(perfmap_info(p)->n_entries == PERFMAP_MAX_ENTRIES &&
	   perfmap_info(p)->n_over == 5, "entries beyond the limit are counted");
	perfmap_free(p);
	memset(text, 'n', 3 * PERFMAP_MAX_NAME);
	memcpy(text, "1 1 ", 4);
	p = parse(text, 3 * PERFMAP_MAX_NAME);
	ok(strlen(name_at(p, 1)) == PERFMAP_MAX_NAME, "a long name is cut");
	perfmap_free(p);
	free(text);
}

#define AT 0x700000u

static void put_own(struct view *v, uint32_t pid, const char *path,
		    const char *text, uint64_t total)
{
	struct aux_own_file h = { .total = total, .pid = pid,
				  .path_len = (uint32_t)strlen(path) };
	char more[512];
	size_t n = strlen(text);

	memcpy(more, path, h.path_len);
	memcpy(more + h.path_len, text, n);
	mk_own(&v->mk, AUX_OWN_FILE, &h, sizeof(h), more, h.path_len + n);
}

/* pid 7 has a map in the file, by another pid's name; 8 is its child, 9 a child that ran
 * exec; 11 has none but on disk. */
static bool record(struct view *v, const struct codeview_config *config)
{
	struct perf_event_attr attr = mk_attr(MK_PMU, 0);

	mk_init_attrs(&v->mk, &attr, 1);
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 2, 0 }, AT, 0x10000, 0, "//anon");
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 3, 0 }, AT + 0x20000, 0x1000, 0,
		"/no/such/file");
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 3, 0 }, AT + 0x30000, 0x1000, 0,
		"/memfd:jit (deleted)");
	mk_mmap(&v->mk, (struct mk_id){ 7, 7, 3, 0 }, AT + 0x40000, 0x1000, 0,
		"[heap]");
	mk_mmap(&v->mk, (struct mk_id){ 11, 11, 3, 0 }, AT, 0x10000, 0, "//anon");
	mk_fork(&v->mk, (struct mk_id){ 8, 8, 1000, 0 }, 7, 7);
	mk_fork(&v->mk, (struct mk_id){ 9, 9, 1001, 0 }, 7, 7);
	mk_comm(&v->mk, (struct mk_id){ 9, 9, 1002, 0 }, true, "other");
	mk_mmap(&v->mk, (struct mk_id){ 9, 9, 1003, 0 }, AT, 0x10000, 0, "//anon");
	put_own(v, 7, "/tmp/perf-1.map",
		"700000 50000 all\n700010 10 inner\ngarbage\n", 1000);
	put_own(v, 12, "/tmp/perf-1.map", "700000 50000 stranger\n", 22);
	return view_open(v, config);
}

static const char *name_of(struct view *v, uint32_t pid, uint64_t ip)
{
	static struct symbol s;
	const struct space *space = codeview_space(v->cv, v->tl, pid, 5000);

	return codeview_symbol(v->cv, space, ip, &s) == 0 ? s.name : "-";
}

static void sources(void)
{
	struct codeview_config config = { .symfs = view_dir };
	unsigned n_skipped = 0, n_large = 0;
	struct view v = { 0 };
	const char *note;
	FILE *f;

	mkdir(view_path("/tmp"), 0700);
	f = fopen(view_path("/tmp/perf-11.map"), "w");
	if (!f || !record(&v, &config)) {
		ok(0, "a recording is made");
		return;
	}
	fputs("700000 100 from_disk\n", f);
	fclose(f);
	is_str(name_of(&v, 7, AT + 0x10), "inner", "from the recording");
	is_str(name_of(&v, 7, AT + 0x20), "all", "and the entry around it");
	is_str(name_of(&v, 7, AT + 0x20000), "-", "no name where a file is");
	is_str(name_of(&v, 7, AT + 0x30000), "all", "a memfd");
	is_str(name_of(&v, 7, AT + 0x40000), "all", "the heap");
	is_str(name_of(&v, 8, AT + 0x10), "inner", "a forked child");
	is_str(name_of(&v, 9, AT + 0x10), "-", "not after its exec");
	is_str(name_of(&v, 11, AT + 0x10), "from_disk", "from a file under symfs");
	for (size_t i = 0; (note = codeview_note(v.cv, i, NULL)); i++) {
		n_skipped += strstr(note, "perf-7.map: lines that are no \"START SIZE NAME\" "
				       "were skipped: 1") != NULL;
		n_large += strstr(note, "perf-7.map is too large") != NULL;
	}
	ok(n_skipped == 1 && n_large == 1, "what was left out is noted");
	view_close(&v);
}

int main(void)
{
	lines();
	overlaps();
	limits();
	if (!view_start())
		return 1;
	sources();
	view_stop();
	return plan_done();
}
