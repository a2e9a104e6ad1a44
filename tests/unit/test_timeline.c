/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * timeline: who ran and what was mapped, in files made by hand; and the tree of mappings
 * compared with an array that does the same the slow way.
 */
#include <stdlib.h>
#include <time.h>

#include "decode/lib/sideband/sideband.h"
#include "tests/unit/mkside.h"

static void switches(void)
{
	struct side f;
	struct who w;

	mk_init(&f.mk, 0);
	mk_pt_info(&f.mk);
	mk_switch(&f.mk, (struct mk_id){ 10, 10, 300, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 10, 100, 1 }, false);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 400, 1 }, false);
	mk_itrace(&f.mk, (struct mk_id){ 20, 21, 50, 2 });
	mk_switch_wide(&f.mk, (struct mk_id){ 20, 21, 500, 2 }, true, 30, 31);
	mk_switch_wide(&f.mk, (struct mk_id){ 40, 41, 600, 2 }, false, 30, 31);
	if (!side_open(&f))
		return;
	w = timeline_who(f.tl, 1, 99);
	ok(w.tid == UINT32_MAX && w.until == 100, "nobody before the first");
	w = timeline_who(f.tl, 1, 100);
	ok(w.tid == 10 && w.pid == 10 && w.until == 300, "in, though unsorted");
	w = timeline_who(f.tl, 1, 399);
	ok(w.tid == UINT32_MAX && w.until == 400, "out: nobody");
	w = timeline_who(f.tl, 1, 1000);
	ok(w.tid == 11 && w.until == UINT64_MAX, "the last one stays");
	ok(timeline_who(f.tl, 2, 60).tid == 21, "ITRACE_START");
	ok(timeline_who(f.tl, 2, 500).tid == 31, "CPU wide out: the next one");
	ok(timeline_who(f.tl, 2, 600).pid == 40, "CPU wide in");
	ok(timeline_who(f.tl, 7, 600).tid == UINT32_MAX, "an unknown CPU");
	is_u64(timeline_pid(f.tl, 31, 700), 30, "pid of a thread");
	is_u64(timeline_pid(f.tl, 99, 700), UINT32_MAX, "pid of nobody");
	side_close(&f);
}

/* exec by a thread that is not the leader: its tid goes over to it. */
static void thread_exec(void)
{
	struct side f;
	struct who w;

	mk_init(&f.mk, 0);
	mk_pt_info(&f.mk);
	mk_comm(&f.mk, (struct mk_id){ 10, 10, 50, 2 }, false, "name");
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 100, 1 }, false);
	mk_comm(&f.mk, (struct mk_id){ 10, 11, 150, 1 }, false, "thread");
	mk_comm(&f.mk, (struct mk_id){ 10, 10, 200, 1 }, true, "new");
	mk_switch(&f.mk, (struct mk_id){ 10, 10, 300, 1 }, true);
	if (!side_open(&f))
		return;
	w = timeline_who(f.tl, 1, 199);
	ok(w.tid == 11 && w.pid == 10 && w.until == 200, "the thread, before");
	w = timeline_who(f.tl, 1, 200);
	ok(w.tid == 10 && w.pid == 10 && w.until == 300, "the leader, after");
	ok(timeline_who(f.tl, 2, 60).tid == UINT32_MAX,
	   "a new name alone tells nothing of a CPU");
	is_str(timeline_comm(f.tl, 10, 200), "new", "its name");
	is_str(timeline_comm(f.tl, 11, 199), "thread", "the thread's");
	side_close(&f);
}

/* The same where each thread has a stream: that goes on as the leader's. */
static void thread_exec_stream(void)
{
	static const struct {
		uint64_t cpu;
		uint32_t tid, comm_pid, want;
		const char *what;
	} t[] = {
		{ UINT64_MAX, 11, 10, 10, "a stream is taken over" },
		{ UINT64_MAX, 10, 10, UINT32_MAX, "the leader keeps its own" },
		{ UINT64_MAX, 11, 20, UINT32_MAX, "not by another process" },
		{ 0, 11, 10, UINT32_MAX, "a CPU's stream is nobody's" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const uint64_t entry[] = { 1, 1, 3, t[i].cpu, t[i].tid };
		const struct mk_id id = { t[i].comm_pid, t[i].comm_pid, 200,
					  1 };
		struct side f;
		size_t at;

		mk_init(&f.mk, 0);
		mk_pt_info(&f.mk);
		at = mk_begin(&f.mk, AUX_RECORD_ID_INDEX, 0);
		mk_put(&f.mk, entry, sizeof(entry));
		mk_end(&f.mk, at, NULL);
		mk_comm(&f.mk, (struct mk_id){ 10, 11, 0, 0 }, false, "t");
		mk_comm(&f.mk, id, true, "new");
		if (!side_open(&f))
			return;
		is_u64(timeline_stream(f.tl, 3, 200).tid, t[i].want,
		       t[i].what);
		ok(timeline_stream(f.tl, 3, 199).tid == UINT32_MAX &&
		   timeline_stream(f.tl, 2, 200).tid == UINT32_MAX,
		   "not before, no other stream");
		side_close(&f);
	}
}

/* Mappings of one time are written in place, but not into what a fork took. */
static void one_moment(void)
{
	const struct space *parent, *child;
	struct mk_id id = { 1, 1, 20, 0 };
	struct side f;

	mk_init(&f.mk, 0);
	mk_comm(&f.mk, (struct mk_id){ 1, 1, 10, 0 }, true, "sh");
	for (uint64_t i = 1; i <= 64; i++)
		mk_mmap(&f.mk, id, i << 16, 0x1000, 0, "/a");
	mk_fork(&f.mk, (struct mk_id){ 2, 2, 20, 0 }, 1, 1);
	for (uint64_t i = 1; i <= 64; i++)
		mk_mmap(&f.mk, id, (i << 16) + 0x1000, 0x1000, 0, "/b");
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 30, 0 }, 0, 1 << 24, 0, "/c");
	if (!side_open(&f))
		return;
	child = timeline_space(f.tl, 2, 40);
	is_u64(child->n_maps, 64, "the child has what was mapped before the fork");
	ok(!space_find(child, 0x11000), "and nothing after it");
	parent = timeline_space(f.tl, 1, 20);
	is_u64(parent->n_maps, 128, "the parent has all of that time");
	is_u64(timeline_space(f.tl, 1, 30)->n_maps, 1, "a later one changes");
	side_close(&f);
}

static void processes(void)
{
	struct side f;
	const struct space *s, *t;

	mk_init(&f.mk, 0);
	mk_comm(&f.mk, (struct mk_id){ 1, 1, 10, 0 }, true, "sh");
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 20, 0 }, 0x1000, 0x3000, 0, "/a");
	mk_fork(&f.mk, (struct mk_id){ 2, 2, 30, 0 }, 1, 1);
	mk_mmap(&f.mk, (struct mk_id){ 1, 1, 40, 0 }, 0x2000, 0x1000, 7, "/b");
	mk_comm(&f.mk, (struct mk_id){ 2, 2, 50, 0 }, true, "ls");
	mk_mmap(&f.mk, (struct mk_id){ 2, 2, 60, 0 }, 0x1000, 0x3000, 0, "/a");
	mk_fork(&f.mk, (struct mk_id){ 2, 3, 70, 0 }, 2, 2);
	if (!side_open(&f))
		return;
	s = timeline_space(f.tl, 1, 15);
	ok(s->n_maps == 0 && s->until == 20, "nothing is mapped yet");
	s = timeline_space(f.tl, 1, 30);
	t = timeline_space(f.tl, 2, 30);
	ok(s->id == t->id && s->id, "a fork has the same contents");
	ok(t->until == 50 && s->until == 40, "until the next change");
	ok(timeline_space(f.tl, 2, 50)->n_maps == 0, "exec clears");
	is_u64(timeline_space(f.tl, 2, 60)->id, s->id,
	       "the same maps again have the same id");
	s = timeline_space(f.tl, 1, 40);
	ok(s->n_maps == 3, "an overlap cuts in three");
	is_str(space_find(s, 0x1fff)->path, "/a", "below");
	is_str(space_find(s, 0x2000)->path, "/b", "inside");
	is_u64(space_find(s, 0x3000)->pgoff, 0x2000, "offset of the tail");
	ok(!space_find(s, 0x4000) && !space_find(s, 0xfff), "outside");
	ok(space_next(s, 0)->start == 0x1000 && !space_next(s, 0x4000),
	   "walking");
	ok(!timeline_space(f.tl, 77, 40)->n_maps, "an unknown process");
	is_str(timeline_comm(f.tl, 2, 45), "sh", "a fork keeps its name");
	is_str(timeline_comm(f.tl, 3, 80), "ls", "a thread has its process's");
	is_u64(timeline_pid(f.tl, 3, 80), 2, "and its pid");
	side_close(&f);
}

/* perf's --per-thread files have no times: exec takes nothing away. */
static void untimed(void)
{
	struct perf_event_attr attr = mk_attr(MK_PMU, 0);
	const struct mk_id id = { 10, 10, 0, 0 };
	const struct space *s;

	attr.sample_id_all = 0;
	for (int clash = 0; clash < 2; clash++) {
		struct side f;

		mk_init_attrs(&f.mk, &attr, 1);
		mk_pt_info(&f.mk);
		mk_mmap(&f.mk, id, 0x1000, 0x2000, 0x100, "/old");
		mk_comm(&f.mk, id, true, "new");
		mk_mmap(&f.mk, id, 0x5000, 0x1000, 0, "/new");
		mk_mmap(&f.mk, id, 0x2000, 0x3000, 0x1100,
			clash ? "/new" : "/old");
		if (!side_open(&f))
			return;
		s = timeline_space(f.tl, 10, 1000);
		ok(space_find(s, 0x1000) && space_find(s, 0x5000),
		   "untimed: the old code and the new");
		is_u64(timeline_stats(f.tl)->n_unordered, (uint64_t)clash,
		       clash ? "untimed: one in place of another is told" :
			       "untimed: the same again is not");
		side_close(&f);
	}
}

struct code_section {
	struct aux_feat_code head;
	struct aux_code_entry e[3];
	uint8_t blob[64];
};

static void saved_code(void)
{
	struct code_section c = {
		.head = { 1, 3, sizeof(c.blob) },
		.e = { { 100, 0x1010, 16, 0, 5, AUX_CODE_ANON },
		       { 100, 0x2000, 8, 60, 5, AUX_CODE_ANON },
		       { 100, UINT64_MAX - 2, 8, 0, 5, AUX_CODE_ANON } },
	};
	const struct mapping *m;
	struct side f;

	for (size_t i = 0; i < sizeof(c.blob); i++)
		c.blob[i] = (uint8_t)i;
	mk_init(&f.mk, 0);
	mk_mmap(&f.mk, (struct mk_id){ 5, 5, 100, 0 }, 0x1000, 0x1000, 0x40,
		"/lib");
	mk_mmap(&f.mk, (struct mk_id){ 5, 5, 200, 0 }, 0x1018, 0x8, 0, "/new");
	mk_feature(&f.mk, AUX_FEAT_AUXKIT_CODE, &c, sizeof(c));
	if (!side_open(&f))
		return;
	m = space_find(timeline_space(f.tl, 5, 100), 0x1011);
	ok(m && m->saved && m->saved[0] == 0 && m->start == 0x1010,
	   "saved bytes lie over a mapping of the same time");
	ok(m && !strcmp(m->path, "/lib") && m->pgoff == 0x50,
	   "and keep its name");
	m = space_find(timeline_space(f.tl, 5, 200), 0x1018);
	ok(m && !m->saved && !strcmp(m->path, "/new"), "a later mmap replaces");
	m = space_find(timeline_space(f.tl, 5, 200), 0x1010);
	ok(m && m->saved && m->end == 0x1018, "a part of it");
	is_u64(timeline_stats(f.tl)->n_bad_code, 2, "entries out of bounds");
	side_close(&f);
}

/* Code among the records: as that of the section, and by number. */
static void own_code(void)
{
	struct code_section c = {
		.head = { 1, 1, sizeof(c.blob) },
		.e = { { 50, 0x3000, 16, 0, 5, AUX_CODE_ANON } },
	};
	const struct mapping *m, *n;
	struct side f;

	mk_init(&f.mk, 0);
	mk_code(&f.mk, 5, 100, 0x1010, 7, "0123456789abcdef", 16);
	mk_mmap(&f.mk, (struct mk_id){ 5, 5, 100, 0 }, 0x1000, 0x1000, 0x40,
		"/lib");
	mk_mmap(&f.mk, (struct mk_id){ 5, 5, 200, 0 }, 0x1018, 0x8, 0, "/new");
	mk_code(&f.mk, 6, 300, 0x2000, 7, NULL, 8);
	mk_code(&f.mk, 5, 400, 0x1018, 3, "xy", 2);
	mk_code(&f.mk, 5, 10, 0x4000, 7, NULL, 17);	/* longer than it is */
	mk_code(&f.mk, 5, 10, 0x4000, 8, NULL, 1);	/* not there */
	mk_code(&f.mk, 5, 10, 0x4000, 9, NULL, 1);	/* comes later */
	mk_code(&f.mk, 5, 500, 0x5000, 9, "z", 1);
	mk_code(&f.mk, 5, 10, UINT64_MAX - 2, 7, NULL, 8);
	mk_feature(&f.mk, AUX_FEAT_AUXKIT_CODE, &c, 16 + 40 * 3 + 64);
	if (!side_open(&f))
		return;
	m = space_find(timeline_space(f.tl, 5, 100), 0x1011);
	ok(m && m->saved && m->saved[1] == '1' && m->start == 0x1010 &&
	   !strcmp(m->path, "/lib") && m->pgoff == 0x50,
	   "over a mapping of the same time, though before it in the file");
	m = space_find(timeline_space(f.tl, 5, 200), 0x1018);
	ok(m && !m->saved, "a later mmap replaces");
	m = space_find(timeline_space(f.tl, 5, 400), 0x1018);
	ok(m && m->saved && m->saved[1] == 'y' && m->end == 0x101a,
	   "and later code replaces that");
	n = space_find(timeline_space(f.tl, 5, 100), 0x1010);
	m = space_find(timeline_space(f.tl, 6, 300), 0x2000);
	ok(m && n && m->saved == n->saved && m->end == 0x2008 &&
	   m->saved_offset == n->saved_offset, "bytes of an earlier record");
	ok(!space_find(timeline_space(f.tl, 6, 299), 0x2000), "not before");
	m = space_find(timeline_space(f.tl, 5, 60), 0x3000);
	ok(m && m->saved && m->saved_offset == 0, "the section's, too");
	ok(timeline_saved(f.tl, 0)->offset >= sizeof(c.blob) &&
	   timeline_saved(f.tl, 2) && !timeline_saved(f.tl, 3),
	   "places behind the section's");
	is_u64(timeline_stats(f.tl)->n_bad_code, 4, "what cannot be");
	side_close(&f);
}

static void clocks(void)
{
	static const struct aux_clock c[] = {
		{ .mult = 1, .shift = 0 },
		{ .mult = 581029125, .shift = 31,
		  .zero = UINT64_C(18444502336406842448) },
		{ .mult = 4000000000u, .shift = 30, .zero = 123 },
	};
	bool good = true;

	for (size_t i = 0; i < 3; i++) {
		for (uint64_t tsc = UINT64_C(0x2fa1088fac0000);
		     tsc < UINT64_C(0x2fa1088fac4000); tsc += 7) {
			uint64_t ns = clock_to_ns(&c[i], tsc);
			uint64_t h = clock_horizon(&c[i], ns);

			good &= clock_to_ns(&c[i], h) >= ns &&
				clock_to_ns(&c[i], h - 1) < ns && h <= tsc;
		}
	}
	ok(good, "the horizon is the first tick of its nanosecond");
	is_u64(clock_to_ns(&c[1], UINT64_C(0x2fa1088fac05e2)),
	       UINT64_C(1385530563941550), "a TSC of a real recording");
}

#define SLOTS 512

static void random_trees(void)
{
	struct map_arena a = { 0 };
	const struct map_node *root = NULL, *old = NULL;
	uint64_t model[SLOTS] = { 0 }, kept[SLOTS] = { 0 };
	uint64_t seed = 1;
	bool good = true;

	for (uint64_t n = 1; n < 3000; n++) {
		struct mapping m = { .path = "/x", .time = n };

		seed = seed * 6364136223846793005 + 1442695040888963407;
		m.start = (seed >> 33) % SLOTS;
		m.end = m.start + 1 + (seed >> 50) % 40;
		if (m.end > SLOTS)
			m.end = SLOTS;
		m.pgoff = 1000 * n + m.start;
		root = addrspace_insert(&a, root, &m);
		for (uint64_t i = m.start; i < m.end; i++)
			model[i] = 1000 * n + i;
		if (n == 1500) {
			old = root;
			memcpy(kept, model, sizeof(kept));
		}
		for (uint64_t i = 0; i < SLOTS; i += 3) {
			const struct mapping *f = addrspace_find(root, i);

			good &= model[i] == (f ? f->pgoff + i - f->start : 0);
		}
	}
	ok(good, "3000 random mappings equal an array");
	for (uint64_t i = 0; i < SLOTS; i++) {
		const struct mapping *f = addrspace_find(old, i);

		good &= kept[i] == (f ? f->pgoff + i - f->start : 0);
	}
	ok(good, "an old version did not change");
	map_arena_free(&a);
}

static void many_maps(void)
{
	struct side f;
	clock_t t = clock();
	bool good = true;
	const uint64_t n = 100000;

	mk_init(&f.mk, 0);
	for (uint64_t i = 0; i < n; i++)
		mk_mmap(&f.mk, (struct mk_id){ 1, 1, i + 1, 0 }, i * 0x1000,
			0x1000, i, "/x");
	if (!side_open(&f))
		return;
	for (uint64_t i = 0; i < n; i += 10) {
		const struct space *s = timeline_space(f.tl, 1, i + 1);

		good &= s->n_maps == i + 1 && space_find(s, i * 0x1000) &&
			!space_find(s, (i + 1) * 0x1000);
	}
	t = clock() - t;
	ok(good, "100,000 versions of a space, each right");
	ok(t < 20 * CLOCKS_PER_SEC, "in %.2f s", (double)t / CLOCKS_PER_SEC);
	side_close(&f);
}

int main(void)
{
	switches();
	thread_exec();
	thread_exec_stream();
	one_moment();
	processes();
	untimed();
	saved_code();
	own_code();
	clocks();
	random_trees();
	many_maps();
	return plan_done();
}
