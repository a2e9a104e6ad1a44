/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * timeline: threads and processes that exit, reused ids, namespaces, cgroups, names from
 * before the recording, and who runs according to sched_switch samples; in files made by
 * hand.
 */
#include "tests/unit/mkside.h"
#include "decode/lib/sideband/impl.h"

#define ID(p, t, time) ((struct mk_id){ p, t, time, 0 })

static void check_maps(const struct side *f, uint32_t pid, uint64_t time,
		       const char *a, const char *b, const char *what)
{
	const struct space *s = timeline_space(f->tl, pid, time);
	const struct mapping *m = space_find(s, 0x1000);
	const struct mapping *n = space_find(s, 0x5000);

	ok((a ? m && !strcmp(m->path, a) : !m) &&
	   (b ? n && !strcmp(n->path, b) : !n), "%s", what);
}

/* pid 20 ends; its number is taken by a fork, then without one. */
static void reuse(void)
{
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_comm(&f.mk, ID(1, 1, 5), false, "init");
	mk_mmap(&f.mk, ID(1, 1, 6), 0x5000, 0x1000, 0, "/init");
	mk_comm(&f.mk, ID(20, 20, 10), true, "old");
	mk_mmap(&f.mk, ID(20, 20, 11), 0x1000, 0x1000, 0, "/old");
	mk_fork(&f.mk, ID(20, 21, 12), 20, 20);
	mk_exit(&f.mk, ID(20, 20, 20));		/* the leader alone */
	mk_mmap(&f.mk, ID(20, 21, 21), 0x5000, 0x1000, 0, "/late");
	mk_exit(&f.mk, ID(20, 21, 30));
	mk_switch(&f.mk, (struct mk_id){ 20, 21, 31, 3 }, true);
	mk_fork(&f.mk, ID(20, 20, 40), 1, 1);
	mk_exit(&f.mk, ID(20, 20, 50));
	mk_comm(&f.mk, ID(20, 20, 60), false, "new");
	mk_mmap(&f.mk, ID(20, 20, 61), 0x1000, 0x1000, 0, "/new");
	mk_fork(&f.mk, ID(1, 21, 70), 1, 1);
	if (!side_open(&f))
		return;
	check_maps(&f, 20, 25, "/old", "/late",
		   "a process lives on without its leader");
	check_maps(&f, 20, 39, "/old", "/late", "and is what it was at its end");
	is_str(timeline_comm(f.tl, 20, 39), "old", "so is its name");
	is_u64(timeline_who(f.tl, 3, 30).tid, 21, "it may still be switched");
	check_maps(&f, 20, 40, NULL, "/init", "a fork takes the number: all new");
	is_str(timeline_comm(f.tl, 20, 40), "init", "the parent's name");
	check_maps(&f, 20, 60, NULL, NULL, "taken without a fork: nothing left");
	check_maps(&f, 20, 61, "/new", NULL, "but what came since");
	is_str(timeline_comm(f.tl, 20, 60), "new", "its own name");
	is_u64(timeline_pid(f.tl, 21, 69), 20, "a thread's process, before");
	is_u64(timeline_pid(f.tl, 21, 70), 1, "and in its next life");
	is_str(timeline_comm(f.tl, 21, 70), "init", "with its name");
	side_close(&f);
}

/* What recorders make up for who was there: its own maps, not the parent's. */
static void told_forks(void)
{
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_comm(&f.mk, ID(1, 1, 0), false, "init");
	mk_mmap(&f.mk, ID(1, 1, 0), 0x1000, 0x1000, 0, "/init");
	mk_task(&f.mk, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC,
		ID(2, 2, 7), 1, 1);
	mk_comm(&f.mk, ID(2, 2, 7), false, "sh");
	mk_mmap(&f.mk, ID(2, 2, 7), 0x5000, 0x1000, 0, "/sh");
	mk_task(&f.mk, PERF_RECORD_FORK, 0, ID(3, 3, 0), 1, 1);
	mk_mmap(&f.mk, ID(3, 3, 0), 0x5000, 0x1000, 0, "/old-perf");
	if (!side_open(&f))
		return;
	check_maps(&f, 2, 8, NULL, "/sh", "marked as made up");
	check_maps(&f, 3, 8, NULL, "/old-perf", "not marked, but of no time");
	is_str(timeline_comm(f.tl, 3, 8), "", "no name of a parent's");
	side_close(&f);
}

/* exec by a thread whose leader is gone by then, and its other threads. */
static void exec_by_thread(void)
{
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_comm(&f.mk, ID(30, 30, 1), false, "p");
	mk_mmap(&f.mk, ID(30, 30, 2), 0x1000, 0x1000, 0, "/p");
	mk_fork(&f.mk, ID(30, 31, 3), 30, 30);
	mk_fork(&f.mk, ID(30, 32, 4), 30, 30);
	mk_exit(&f.mk, ID(30, 32, 8));
	mk_exit(&f.mk, ID(30, 30, 9));
	mk_comm(&f.mk, ID(30, 30, 10), true, "q");
	mk_mmap(&f.mk, ID(30, 30, 11), 0x5000, 0x1000, 0, "/q");
	mk_exit(&f.mk, ID(30, 30, 20));
	mk_mmap(&f.mk, ID(30, 30, 30), 0x1000, 0x1000, 0, "/r");
	if (!side_open(&f))
		return;
	check_maps(&f, 30, 9, "/p", NULL, "the space until then");
	check_maps(&f, 30, 10, NULL, NULL, "exec drops it");
	check_maps(&f, 30, 11, NULL, "/q", "the new one");
	check_maps(&f, 30, 30, "/r", NULL,
		   "no thread of before the exec keeps it alive");
	side_close(&f);
}

static void namespaces(void)
{
	const struct timeline_ns_id *n;
	struct side f = { 0 };
	uint32_t tid[2];
	size_t at = 0;

	mk_init(&f.mk, 0);
	mk_namespaces(&f.mk, ID(1, 1, 10), 100, 105);
	mk_fork(&f.mk, ID(2, 2, 20), 1, 1);
	mk_namespaces(&f.mk, ID(2, 2, 30), 200, 205);
	if (!side_open(&f))
		return;
	n = timeline_namespaces(f.tl, 1, 50);
	ok(n && n[TIMELINE_NS_MNT].dev == 4 && n[TIMELINE_NS_MNT].inode == 105,
	   "a mount namespace");
	n = timeline_namespaces(f.tl, 2, 29);
	is_u64(n ? n[TIMELINE_NS_NET].inode : 0, 100, "a fork's is its parent's");
	n = timeline_namespaces(f.tl, 2, 30);
	ok(n && n[TIMELINE_NS_NET].inode == 200 &&
	   n[TIMELINE_NS_CGROUP].inode == 16, "until it has its own");
	ok(!timeline_namespaces(f.tl, 9, 30), "unknown");
	ok(timeline_next_thread(f.tl, &at, &tid[0]) &&
	   timeline_next_thread(f.tl, &at, &tid[1]) && tid[0] == 1 &&
	   tid[1] == 2 && !timeline_next_thread(f.tl, &at, &tid[1]),
	   "the list of threads");
	side_close(&f);
}

static void groups(void)
{
	struct perf_event_attr a = mk_attr(PERF_TYPE_SOFTWARE, 0);
	struct side f = { 0 };
	uint64_t id = 0;

	a.sample_type |= PERF_SAMPLE_CGROUP;
	mk_init_attrs(&f.mk, &a, 1);
	for (uint64_t i = 1; i < 3; i++) {
		mk_cgroup_sample(&f.mk, 1, ID(10, 11, 100 * i), 70 + i);
		mk_cgroup(&f.mk, 70 + i, i == 1 ? "/user.slice" :
						  "/system.slice");
	}
	if (!side_open(&f))
		return;
	is_str(timeline_cgroup_at(f.tl, 1, &id), "/system.slice", "the second");
	ok(id == 72 && !timeline_cgroup_at(f.tl, 2, &id), "its id, and no third");
	is_str(timeline_cgroup(f.tl, 11, 150), "/user.slice", "of a thread");
	is_str(timeline_cgroup(f.tl, 11, 200), "/system.slice", "moved");
	is_u64(timeline_pid(f.tl, 11, 200), UINT32_MAX,
	       "a sample alone says nothing of a process");
	ok(!timeline_cgroup(f.tl, 12, 150), "of nobody");
	side_close(&f);
}

static void thread_map(void)
{
	struct side f = { 0 };
	size_t at;

	mk_init(&f.mk, 0);
	at = mk_begin(&f.mk, AUX_RECORD_THREAD_MAP, 0);
	mk_u64(&f.mk, 2);
	mk_u64(&f.mk, 11);
	mk_put(&f.mk, "early\0\0\0\0\0\0\0\0\0\0", 16);
	mk_u64(&f.mk, UINT64_MAX);
	mk_put(&f.mk, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	mk_end(&f.mk, at, NULL);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 100, 1 }, false);
	mk_comm(&f.mk, ID(10, 11, 200), false, "late");
	if (!side_open(&f))
		return;
	is_str(timeline_comm(f.tl, 11, 50), "early", "a name from the start");
	is_u64(timeline_pid(f.tl, 11, 50), 10, "its process, told later");
	is_str(timeline_comm(f.tl, 11, 200), "late", "a new name");
	is_str(timeline_comm(f.tl, UINT32_MAX, 200), "", "-1 is nobody");
	side_close(&f);
}

static uint64_t swap_if(bool big, uint64_t v, unsigned size)
{
	return !big ? v : size == 4 ? __builtin_bswap32((uint32_t)v) :
				      __builtin_bswap64(v);
}

/* trace-cmd's format, as far as it matters; fields where the kernel has not. */
static size_t make_format(uint8_t *p, uint64_t id, bool big)
{
	char text[512];
	size_t n = 0;
	uint64_t len = (uint64_t)snprintf(text, sizeof(text),
		"name: sched_switch\nID: %u\nformat:\n"
		"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\n\n"
		"\tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
		"\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n"
		"\tfield:pid_t next_pid;\toffset:28;\tsize:4;\tsigned:1;\n"
		"\tfield:char next_comm[16];\toffset:32;\tsize:16;\n",
		(unsigned)id);
	const uint32_t one = (uint32_t)swap_if(big, 1, 4), none = 0;
	const uint64_t size = swap_if(big, len, 8);
	const uint64_t two = swap_if(big, 2, 8);

#define PUT(s, len) (memcpy(p + n, s, len), n += (len))
	PUT("\x17\x08\x44tracing0.6\0", 14);
	p[n++] = big;
	p[n++] = 8;
	PUT("\0\x10\0\0", 4);
	PUT("header_page\0", 12);
	PUT(&two, 8);
	PUT("xx", 2);
	PUT("header_event\0\0\0\0\0\0\0\0\0", 21);
	PUT(&none, 4);		/* events of ftrace */
	PUT(&one, 4);		/* systems */
	PUT("sched\0", 6);
	PUT(&one, 4);
	PUT(&size, 8);
	PUT(text, len);
	return n;
}

static void put_switch(struct mk *m, struct mk_id id, const uint8_t *raw,
		       uint32_t len)
{
	size_t at = mk_begin(m, PERF_RECORD_SAMPLE, 0);

	mk_u64(m, 1);
	mk_u32(m, id.pid);
	mk_u32(m, id.tid);
	mk_u64(m, id.time);
	mk_u32(m, id.cpu);
	mk_u32(m, 0);
	mk_u32(m, len);
	mk_put(m, raw, len);
	mk_end(m, at, NULL);
}

/* known: the file says where the fields are; else the kernel's usual places. */
static void sched_switch(bool known, bool is_32bit)
{
	struct perf_event_attr a = mk_attr(PERF_TYPE_TRACEPOINT, 314);
	const size_t at_next = known ? 28 : is_32bit ? 52 : 56;
	const size_t at_comm = known ? 32 : is_32bit ? 36 : 40;
	uint8_t format[1024], raw[68] = { 0 };
	/* u32 count, u32 size of attr; attr, u32 ids, name, id */
	uint8_t desc[8 + sizeof(a) + 4 + 4 + 24 + 8] = { 0 };
	struct side f = { 0 };
	struct who w;

	a.sample_type |= PERF_SAMPLE_RAW;
	mk_init_attrs(&f.mk, &a, 1);
	memcpy(raw + (known ? 8 : 24), &(uint32_t){ 11 }, 4);
	memcpy(raw + at_next, &(uint32_t){ 21 }, 4);
	memcpy(raw + at_comm, "next", 5);
	put_switch(&f.mk, (struct mk_id){ 10, 11, 100, 2 }, raw, sizeof(raw));
	memcpy(raw + at_next, &(uint32_t){ 0 }, 4);
	put_switch(&f.mk, (struct mk_id){ 20, 21, 200, 2 }, raw, sizeof(raw));
	mk_comm(&f.mk, ID(20, 21, 300), false, "told");
	if (known)
		mk_feature(&f.mk, AUX_FEAT_TRACING_DATA, format,
			   make_format(format, 314, false));
	if (is_32bit)
		mk_feature(&f.mk, AUX_FEAT_ARCH, "\6\0\0\0armv7", 10);
	memcpy(desc, (uint32_t[]){ 1, sizeof(a) }, 8);
	memcpy(desc + 8, &a, sizeof(a));
	memcpy(desc + 8 + sizeof(a), (uint32_t[]){ 1, 24 }, 8);
	memcpy(desc + 16 + sizeof(a), "sched:sched_switch", 19);
	memcpy(desc + 40 + sizeof(a), &(uint64_t){ 1 }, 8);
	if (!known)
		mk_feature(&f.mk, AUX_FEAT_EVENT_DESC, desc, sizeof(desc));
	if (!side_open(&f))
		return;
	w = timeline_who(f.tl, 2, 50);
	ok(w.tid == 11 && w.pid == 10 && w.until == 100, "who leaves first");
	w = timeline_who(f.tl, 2, 100);
	ok(w.tid == 21 && w.pid == 20 && w.until == 200,
	   "who comes; its process is told later");
	w = timeline_who(f.tl, 2, 200);
	ok(w.tid == 0 && w.pid == 0, "idle");
	is_str(timeline_comm(f.tl, 21, 150), "next", "a name from a switch");
	is_str(timeline_comm(f.tl, 21, 300), "told", "then from a record");
	side_close(&f);
}

/* The other byte order, and cut anywhere. */
static void formats(void)
{
	uint8_t format[1024];
	size_t n = make_format(format, 314, true);
	struct build b = { 0 };
	bool fine = true;

	timeline_sched_format(&b, (struct aux_bytes){ format, n });
	ok(b.sched.known && b.sched.config == 314 && !b.is_32bit &&
	   b.sched.next_pid.at == 28 && b.sched.prev_comm.size == 16,
	   "a format of the other byte order");
	for (size_t len = 0; len < n; len++) {
		uint8_t *copy = malloc(len + !len);

		memcpy(copy, format, len);
		b.sched.known = false;
		timeline_sched_format(&b, (struct aux_bytes){ copy, len });
		fine &= !b.sched.known;
		free(copy);
	}
	ok(fine, "cut short: none");
}

static void losses(void)
{
	const struct timeline_loss *l;
	const struct timeline_stats *st;
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_switch(&f.mk, (struct mk_id){ 10, 10, 100, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 10, 150, 2 }, true);
	mk_lost(&f.mk, PERF_RECORD_LOST, (struct mk_id){ 0, 0, 300, 1 }, 7);
	mk_lost(&f.mk, PERF_RECORD_LOST_SAMPLES, (struct mk_id){ 0, 0, 400, 2 },
		5);
	if (!side_open(&f))
		return;
	st = timeline_stats(f.tl);
	ok(st->n_lost == 12 && st->lost_from == 100 && st->lost_until == 400,
	   "how much, and between which times");
	l = timeline_loss(f.tl, 0);
	ok(l && l->from == 100 && l->until == 300 && l->n == 7 && l->cpu == 1 &&
	   !l->samples, "one loss");
	l = timeline_loss(f.tl, 1);
	ok(l && l->from == 150 && l->until == 400 && l->samples, "samples");
	ok(!timeline_loss(f.tl, 2), "no more");
	side_close(&f);
}

static uint64_t sum_off(const struct timeline *tl, uint32_t tid, uint64_t from,
			uint64_t to)
{
	struct off_span s;
	uint64_t sum = 0;

	for (; timeline_off_cpu(tl, tid, from, to, &s); from = s.to)
		sum += s.to - s.from;
	return sum;
}

/* -1: it is on */
static unsigned why_at(const struct timeline *tl, uint32_t tid, uint64_t ns)
{
	struct off_span s;

	return timeline_off_cpu(tl, tid, ns, ns + 1, &s) ? s.why : (unsigned)-1;
}

/* Where one record has the bit "preempted", the others say that it waited. */
static void off_why(void)
{
	struct side f = { 0 };

	mk_init(&f.mk, 0);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 100, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 200, 1 }, false);
	mk_switch_preempt(&f.mk, (struct mk_id){ 10, 11, 300, 1 });
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 400, 1 }, false);
	if (!side_open(&f))
		return;
	is_u64(why_at(f.tl, 11, 150), OFF_BLOCKED, "it waited");
	is_u64(why_at(f.tl, 11, 350), OFF_PREEMPTED, "it was preempted");
	is_u64(why_at(f.tl, 11, 250), (unsigned)-1, "it ran");
	side_close(&f);
}

/* Records of two CPUs, not in the order of time; one that says again what is
 * known, one that stays open, one of another thread. */
static void off_cpu(void)
{
	struct side f = { 0 };
	struct off_span s = { .cpu = -2 };

	mk_init(&f.mk, 0);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 500, 2 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 50, 1 }, false);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 100, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 120, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 11, 200, 2 }, false);
	mk_switch(&f.mk, (struct mk_id){ 10, 12, 130, 1 }, true);
	mk_switch(&f.mk, (struct mk_id){ 10, 12, 140, 1 }, false);
	if (!side_open(&f))
		return;
	is_u64(sum_off(f.tl, 11, 0, 100), 0, "on, as far as is known");
	is_u64(sum_off(f.tl, 11, 0, 300), 100, "off, all of it");
	timeline_off_cpu(f.tl, 11, 0, 300, &s);
	is_u64((uint32_t)s.cpu, 2, "it came back on another CPU");
	timeline_off_cpu(f.tl, 11, 0, 150, &s);
	is_u64((uint32_t)s.cpu, UINT32_MAX, "and not yet before that");
	is_u64(sum_off(f.tl, 11, 150, 160), 10, "inside of it");
	is_u64(sum_off(f.tl, 11, 190, 510), 20, "the ends of two");
	is_u64(sum_off(f.tl, 11, 600, 700), 100, "it never came back");
	is_u64(sum_off(f.tl, 12, 0, 900), 10, "another thread");
	is_u64(sum_off(f.tl, 13, 0, 900), 0, "of which nothing is known");
	ok(timeline_knows_off_cpu(f.tl), "records say when");
	is_u64(why_at(f.tl, 11, 100), OFF_UNKNOWN, "and not why: the kernel is unknown");
	side_close(&f);
}

int main(void)
{
	off_cpu();
	off_why();
	reuse();
	told_forks();
	exec_by_thread();
	namespaces();
	groups();
	thread_map();
	sched_switch(true, false);
	sched_switch(false, false);
	sched_switch(false, true);
	formats();
	losses();
	return plan_done();
}
