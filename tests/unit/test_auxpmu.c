/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * What differs between AUX PMUs: AUXTRACE_INFO word by word, clock conversion, and finding
 * the new bytes of an overwritten buffer. The test itself plays the hardware that writes it.
 */
#include <fcntl.h>

#include "common/bytes.h"

#include "capture/event/auxpmu.h"
#include "tests/unit/sysfs.h"
#include "tests/unit/tap.h"

#define N(a) (sizeof(a) / sizeof(*(a)))

/* The kernel's side: what was produced, and where it lies. */
struct source {
	uint8_t buf[3 * 8192];
	size_t size;
	uint64_t produced;
	bool growing;
	uint64_t mode;		/* 0 noise, 1 mostly zeros, 2 runs of PAD,
				 * 3 longer than what is kept verbatim */
	uint64_t state;
};

static uint8_t next_byte(struct source *s)
{
	s->state = s->state * UINT64_C(6364136223846793005) + 1;
	switch (s->mode) {
	case 1:
		return s->produced % 1021 ? 0 : (uint8_t)(s->state >> 56 | 1);
	case 2:
		return s->produced / 3000 % 2 ? 0 : (uint8_t)(s->state >> 56);
	case 3:
		return s->produced / 6000 % 2 ? 0 : (uint8_t)(s->state >> 56);
	default:
		return (uint8_t)(s->state >> 56);
	}
}

static void produce(struct source *s, uint64_t n)
{
	for (; n; n--, s->produced++)
		s->buf[s->produced % s->size] = next_byte(s);
}

struct look {
	uint64_t end, len, skipped;
};

static struct look snapshot(struct auxpmu_wrap *w, const struct source *s)
{
	struct look l = { 0 };

	w->buf = s->buf;
	w->size = s->size;
	w->head = s->growing ? s->produced : s->produced % s->size;
	if (auxpmu_intel_pt.snapshot(w, &l.end, &l.len, &l.skipped))
		exit(1);
	auxpmu_intel_pt.remember(w, l.len);
	return l;
}

/* Is the buffer from h on, m bytes, cyclic, what it was? */
static bool same(const struct source *s, const uint8_t *old, size_t h, size_t m)
{
	for (; m; m--, h++)
		if (s->buf[h % s->size] != old[h % s->size])
			return false;
	return true;
}

/*
 * n bytes more: is what we get right? An offset tells of a wrap by bytes that
 * differ; where none does (mode is not noise), fewer than FEW say nothing.
 */
static bool step(struct source *s, struct auxpmu_wrap *w, uint64_t n)
{
	static uint8_t old[sizeof(s->buf)];
	uint64_t len = n < s->size ? n : s->size, lost = n - len, rest;
	struct look l;

	memcpy(old, s->buf, s->size);
	produce(s, n);
	l = snapshot(w, s);
	rest = s->size - n % s->size;
	if (!s->growing && lost + (n == s->size))
		lost = UINT64_MAX;
	/* Not compared: less than a block of 256 behind the head. */
	if (!s->growing && n >= s->size && l.len < s->size &&
	    same(s, old, (s->produced + (rest > 4096 ? 255 : 0)) % s->size,
		 rest - (rest > 4096 ? 255 : 0))) {
		len = n % s->size;
		lost = 0;
	}
	if (!s->growing && len < s->size && rest < 64)
		lost = UINT64_MAX;
	if (l.len == len && l.skipped == lost && l.end == s->produced % s->size)
		return true;
	printf("# %s: %llu more: len %llu (%llu), skipped %lld (%lld), end "
	       "%llu\n", s->growing ? "growing" : "offset",
	       (unsigned long long)n, (unsigned long long)l.len,
	       (unsigned long long)len, (long long)l.skipped, (long long)lost,
	       (unsigned long long)l.end);
	return false;
}

static void test_wrap(const char *name, size_t size, bool growing,
		      uint64_t mode)
{
	/* table */
	const uint64_t steps[] = {
		100, 0, 0, 1, size - 1, size, 2 * size, 17, size + 1, 0,
		size - 17, 4096, 4095, 4097, 3 * size - 1, 5, 2 * size + 4096,
		1, 1, 1, size - 2, size, size, 0, 0, 7 * size + 3000, 8,
	};
	struct source s = { .size = size, .growing = growing, .mode = mode,
			    .state = size };
	struct auxpmu_wrap w = { 0 };
	unsigned failed = 0;
	size_t i;

	for (i = 0; i < N(steps); i++)
		failed += !step(&s, &w, steps[i]);
	for (i = 0; i < 600; i++) {
		uint64_t r = (s.state * 31 + i) >> 7;

		failed += !step(&s, &w, r % (i % 3 ? size : 4 * size));
	}
	ok(!failed, "%s, %zu bytes, mode %u: %u wrong", name, size,
	   (unsigned)mode, failed);
	auxpmu_intel_pt.release(&w);
	ok(!w.mark, "released");
	auxpmu_intel_pt.release(&w);
}

static void test_zeros(void)
{
	struct source s = { .size = 3 * 8192, .mode = 0 };
	struct auxpmu_wrap w = { 0 };
	struct look l;

	/* Round once, with a long PAD run at the end of the buffer. */
	produce(&s, 10000);
	s.produced = s.size;
	s.produced += 100;
	l = snapshot(&w, &s);
	ok(l.len == s.size && l.skipped == UINT64_MAX,
	   "a wrap that left zeros before the old head");
	auxpmu_release(&w);
}

/* The first look after the writer went round, and never-written parts. */
static void test_first(void)
{
	struct source s = { .size = 8192, .mode = 0 };
	struct auxpmu_wrap w = { 0 };
	struct look l = snapshot(&w, &s);

	ok(!l.len && !l.skipped, "nothing was written");
	auxpmu_release(&w);
	w = (struct auxpmu_wrap){ 0 };
	produce(&s, 5000);
	l = snapshot(&w, &s);
	ok(l.len == 5000 && !l.skipped, "the rest was never written");
	l = snapshot(&w, &s);
	ok(!l.len && !l.skipped, "nothing since");
	auxpmu_release(&w);
	w = (struct auxpmu_wrap){ 0 };
	produce(&s, 5000);
	l = snapshot(&w, &s);
	ok(l.len == 8192 && l.skipped == UINT64_MAX && l.end == 10000 % 8192,
	   "the first look comes after a wrap");
	auxpmu_release(&w);
	/* A kernel whose head grows, seen first when it is beyond the size. */
	s.growing = true;
	w = (struct auxpmu_wrap){ 0 };
	l = snapshot(&w, &s);
	ok(l.len == 8192 && l.skipped == 10000 - 8192, "growing, at first sight");
	s.growing = false;
	auxpmu_release(&w);
}

static uint64_t word(const uint8_t *p, size_t i)
{
	uint64_t v;

	memcpy(&v, p + 8 * i, 8);
	return v;
}

static uint8_t file[1 << 16];
static size_t file_len;

static void load(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, file, sizeof(file));

	file_len = n > 0 ? (size_t)n : 0;
	if (fd >= 0)
		close(fd);
}

/* The record of that type in the data section; its length. */
static const uint8_t *find_record(uint32_t type, size_t *len)
{
	uint64_t at = word(file, 5), end = at + word(file, 6);

	while (at + 8 <= end && end <= file_len) {
		struct perf_event_header h;

		memcpy(&h, file + at, sizeof(h));
		if (h.size < 8)
			break;
		*len = h.size;
		if (h.type == type)
			return file + at;
		at += h.size;
	}
	*len = 0;
	return NULL;
}

static void page_init(struct perf_event_mmap_page *page)
{
	memset(page, 0, sizeof(*page));
	page->cap_user_time_zero = 1;
	page->time_shift = 10;
	page->time_mult = 341;
	page->time_zero = 12345;
}

/* A file with that event, its description and nothing else. */
static bool write_file(const char *path, const char *text,
		       const struct evlist_options *more,
		       const struct auxpmu_env *env)
{
	struct evlist_word w = { .text = text };
	struct evlist_options o = *more;
	struct aux_diag d = { 0 };
	struct writer *out = NULL;
	struct evlist l;
	uint64_t id = 1;
	size_t i;
	int ret;

	o.words = &w;
	o.n_words = 1;
	o.sysfs = sysfs_root;
	ret = evlist_open(&l, &o, &d);
	if (!ret)
		ret = writer_open(&out, path, NULL, &d);
	for (i = 0; !ret && i < l.n; i++, id++)
		ret = writer_attr_add(out, &l.events[i].attr, l.events[i].name,
				      &id, 1);
	if (!ret)
		ret = l.events[0].aux->info(&l.events[0], env, out, &d);
	evlist_close(&l);
	i = (size_t)writer_close(out, &d);
	load(path);
	return ok(!ret && !i && file_len, "%s: %s", text, d.text);
}

/* perf must take the description for what it is. */
static void ask_perf(const char *path, const char *says)
{
	char cmd[400];
	int ret;

	if (system("perf --version >/dev/null 2>&1")) {
		skip("no perf here");
		return;
	}
	snprintf(cmd, sizeof(cmd), "out=$(perf script -D -i %s 2>&1 </dev/null)"
		 " || { echo \"$out\" | tail -n 20 | sed 's/^/# /'; exit 1; };"
		 " echo \"$out\" | grep -q '%s'", path, says);
	ret = system(cmd);
	ok(!ret, "perf reads %s", says);
}

static void test_pt_info(void)
{
	struct perf_event_mmap_page page;
	struct evlist_options o = { 0 };
	int cpus[] = { 0, 1 };
	struct auxpmu_env env = { .page = &page, .cpus = cpus, .n_cpus = 2,
				  .cpu_wide_switch = true, .snapshot = true,
				  .filter = "filter 0x10/0x20@/a" };
	/* table */
	const uint64_t want[] = { 8, 10, 341, 12345, 1, 1 << 10, 1 << 11, 3, 1,
				  1, 1 << 9, 0x3c000, 250, 2, 2, 30, 19 };
	const uint8_t *r, *info;
	char path[96];
	size_t len, i;

	page_init(&page);
	snprintf(path, sizeof(path), "%s/pt.data", sysfs_root);
	if (!write_file(path, "intel_pt//u", &o, &env))
		return;
	info = r = find_record(AUX_RECORD_AUXTRACE_INFO, &len);
	is_u64(len, 16 + 8 * (17 + 3), "AUXTRACE_INFO");
	if (!r)
		return;
	is_u64(word(r, 1), 1, "Intel PT");
	for (i = 0; i < N(want); i++)
		is_u64(word(r, 2 + i), want[i], "a word of it");
	is_str((const char *)r + 16 + 8 * 17, env.filter, "the filter");
	r = find_record(AUX_RECORD_TIME_CONV, &len);
	ok(r && word(r, 1) == 10 && word(r, 2) == 341 && word(r, 3) == 12345 &&
	   r[48] == 1, "TIME_CONV");
	ok(r < info, "in front of AUXTRACE_INFO, where perf 7.2 wants it");
	ask_perf(path, "Filter string.*filter 0x10/0x20@/a");
	env = (struct auxpmu_env){ .per_thread = true, .cpus = cpus,
				   .n_cpus = 2, .switch_records = true };
	o.per_thread = true;
	if (!write_file(path, "intel_pt//u", &o, &env))
		return;
	r = find_record(AUX_RECORD_AUXTRACE_INFO, &len);
	ok(r && len == 16 + 8 * 17 && !word(r, 2 + AUX_PT_HAVE_SCHED_SWITCH) &&
	   !word(r, 2 + AUX_PT_PER_CPU_MMAPS) && !word(r, 2 + 4) &&
	   !find_record(AUX_RECORD_TIME_CONV, &len),
	   "per thread, and a machine without a clock");
}

/* table */
static const uint64_t etm_words[] = {
	1, UINT64_C(9) << 32 | 2, 0,
	UINT64_C(0x4040404040404040), 0, 7, 0x1840, 0x10,
	0x28000ea1, 0x4100f403, 0x488, 0, 0xcc,
	UINT64_C(0x5050505050505050), 1, 8, 0x1840, 0x12,
	0x28000ee1, 0x4100fff3, 0x20001088, 7, 0xcc, 0x47705a13,
};

static void test_etm_info(void)
{
	struct perf_event_mmap_page page = { .version = 0 };
	struct evlist_options o = { 0 };
	int cpus[] = { 0, 1, 5 };	/* 5 has no trace unit */
	struct auxpmu_env env = { .page = &page, .cpus = cpus, .n_cpus = 3 };
	const uint8_t *r;
	char path[96];
	size_t len, i;

	snprintf(path, sizeof(path), "%s/etm.data", sysfs_root);
	if (!write_file(path, "cs_etm/@tmc_etr0,retstack/u", &o, &env))
		return;
	r = find_record(AUX_RECORD_AUXTRACE_INFO, &len);
	is_u64(len, 16 + sizeof(etm_words), "AUXTRACE_INFO");
	if (!r)
		return;
	is_u64(word(r, 1), 3, "CoreSight");
	for (i = 0; i < N(etm_words); i++)
		is_u64(word(r, 2 + i), etm_words[i], "a word of it");
	ask_perf(path, "TRCDEVARCH *47705a13");
}

static void test_etmv3_info(void)
{
	struct evlist_options o = { .per_thread = true };
	int cpus[] = { 0 };
	struct auxpmu_env env = { .per_thread = true, .snapshot = true,
				  .cpus = cpus, .n_cpus = 1 };
	/* table */
	const uint64_t want[] = { 1, UINT64_C(9) << 32 | 1, 1,
				  UINT64_C(0x3030303030303030), 0, 4,
				  1 << 12, 0x10, 0x34000008, 0x4114f250 };
	const uint8_t *r;
	char path[96];
	size_t len, i;

	for (i = 0; i < 9; i++) {
		snprintf(path, sizeof(path), "%s/cs_etm/cpu0/trcidr/trcidr%zu",
			 sysfs_root, i);
		remove(path);
	}
	sysfs_put("cs_etm/cpu0/mgmt/etmccer", "0x34000008");
	sysfs_put("cs_etm/cpu0/mgmt/etmidr", "0x4114f250");
	snprintf(path, sizeof(path), "%s/etm3.data", sysfs_root);
	if (!write_file(path, "cs_etm/cycacc/u", &o, &env))
		return;
	r = find_record(AUX_RECORD_AUXTRACE_INFO, &len);
	for (i = 0; r && i < N(want); i++)
		is_u64(word(r, 2 + i), want[i], "ETMv3");
	is_u64(len, 16 + sizeof(want), "its length");
	cpus[0] = 3;
	/* no CPU with registers */
	{
		struct evlist_word w = { .text = "cs_etm//u" };
		struct aux_diag d = { 0 };
		struct evlist l;

		o.words = &w;
		o.n_words = 1;
		o.sysfs = sysfs_root;
		if (!ok(!evlist_open(&l, &o, &d), "%s", d.text))
			return;
		ok(l.events[0].aux->info(&l.events[0], &env, NULL, &d) ==
		   -AUX_E_NOENT, "%s", d.text);
		evlist_close(&l);
	}
}

static const struct auxpmu_ops *find(const char *name)
{
	const struct auxpmu_ops *ops = NULL;
	struct pmu *p;

	if (!pmu_open(&p, sysfs_root, name, NULL))
		ops = auxpmu_find(p);
	pmu_close(p);
	return ops;
}

static void test_find(void)
{
	struct pmu *p;

	ok(find("intel_pt") == &auxpmu_intel_pt, "intel_pt");
	ok(find("cs_etm") == &auxpmu_cs_etm, "cs_etm");
	ok(find("aux_sim") == &auxpmu_raw, "any other with an AUX area");
	ok(!find("cpu") && !find("software") && !find("uncore_imc"), "none");
	if (pmu_open(&p, PMU_SYSFS, "msr", NULL)) {
		skip("no msr PMU here");
		return;
	}
	ok(!auxpmu_find(p), "msr has none: the kernel was asked");
	pmu_close(p);
}

int main(void)
{
	static const size_t sizes[] = { 4096, 8192, 3 * 8192, 1000, 5000 };
	size_t i, mode;

	sysfs_make();
	for (i = 0; i < N(sizes); i++)
		for (mode = 0; mode < 4; mode++) {
			test_wrap("offset", sizes[i], false, mode);
			test_wrap("growing", sizes[i], true, mode);
		}
	test_first();
	test_zeros();
	test_find();
	test_pt_info();
	test_etm_info();
	test_etmv3_info();
	return plan_done();
}
