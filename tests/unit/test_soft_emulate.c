/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * soft_emulate: the reader of the rings that the object in qemu fills. The rings are filled
 * by hand, correctly and as a program that overwrites them would; where qemu is installed,
 * real programs are compared with their truth.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/truth.h"
#include "common/x86_insn.h"

#include "capture/soft/emulate.h"
#include "tests/unit/qemu.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

struct rig {
	struct emu e;
	struct soft *soft;
	struct writer *w;
	struct aux_diag diag;
	char path[64], truth[64];
};

static uint64_t rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((next_random(&rng) >> 20) % n);
}

static int temp_file(char path[64])
{
	int fd;

	snprintf(path, 64, "/tmp/auxkit-emulate-XXXXXX");
	fd = mkstemp(path);
	if (fd >= 0)
		close(fd);
	return fd;
}

static int open_soft(struct rig *r, bool truth)
{
	struct perf_event_attr attr = {
		.type = 8, .size = sizeof(attr), .sample_id_all = 1,
		.sample_type = SYNTH_SAMPLE_TYPE,
	};
	struct soft_config config = {
		.tsc = true, .branch = true, .n_cpus = 1, .psb_period = 0,
		.event_id = 1, .pmu_type = 8, .start_ns = 1000,
		.truth_path = truth ? r->truth : NULL,
	};
	uint64_t id = 1;

	if (temp_file(r->path) < 0 || temp_file(r->truth) < 0 ||
	    writer_open(&r->w, r->path, NULL, &r->diag) < 0)
		return -1;
	writer_attr_add(r->w, &attr, "intel_pt//u", &id, 1);
	return soft_open(&r->soft, &config, r->w, &r->diag);
}

static struct soft_stats close_soft(struct rig *r)
{
	struct soft_stats st = { 0 };

	soft_close(r->soft, &st, &r->diag);
	writer_close(r->w, &r->diag);
	unlink(r->path);
	unlink(r->truth);
	return st;
}

/* ---- a producer ---- */

static void put32(struct shm_ring *r, uint32_t v)
{
	*(uint32_t *)(uintptr_t)r->cur = v;
	r->cur += 4;
}

static void put_raw(struct shm_ring *r, const void *p, size_t len)
{
	memcpy((void *)(uintptr_t)r->cur, p, len);
	r->cur += len;
}

static void escape(struct rig *r, uint32_t slot, enum shm_escape kind,
		   uint64_t a, uint64_t b)
{
	struct shm_ring *ring = &shm_thread(r->e.shm, slot)->ring;

	put32(ring, SHM_ESC | kind);
	put32(ring, (uint32_t)a);
	put32(ring, (uint32_t)(a >> 32));
	put32(ring, (uint32_t)b);
	put32(ring, (uint32_t)(b >> 32));
	put32(ring, SHM_ESC_END);
}

static void blocks(struct rig *r, uint32_t slot, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put32(&shm_thread(r->e.shm, slot)->ring, ids[i]);
}

#define BLOCKS(r, slot, ...) do {					\
	const uint32_t ids_[] = { __VA_ARGS__ };			\
	blocks(r, slot, ids_, sizeof(ids_) / sizeof(ids_[0]));		\
} while (0)

static void start_thread(struct rig *r, uint32_t slot, uint32_t proc)
{
	struct shm_thread *t = shm_thread(r->e.shm, slot);

	t->ring.base = t->ring.cur = (uintptr_t)shm_ring_data(t);
	t->truth.base = t->truth.cur = (uintptr_t)shm_truth_data(t);
	t->pid = (uint32_t)getpid();
	t->tid = t->pid + slot - 1;
	t->proc = proc;
	atomic_store(&t->state, SHM_LIVE);
	atomic_store(&r->e.header->thread_taken[slot], 1);
}

static void define(struct rig *r, uint32_t proc, uint64_t start, uint32_t n,
		   uint8_t cls, uint64_t target, bool rep)
{
	struct shm_log_block b = {
		.head = { sizeof(b) + 8, SHM_LOG_BLOCK, 0 },
		.start = start, .end = start + 2 * n, .target = target,
		.n_insns = n, .cls = cls, .last_size = 2, .rep = rep,
	};
	const uint8_t sizes[8] = { 2, 2, 2, 2, 2, 2, 2, 2 };

	put_raw(&shm_proc(r->e.shm, proc)->log, &b, sizeof(b));
	put_raw(&shm_proc(r->e.shm, proc)->log, sizes, 8);
}

static void map_anon(struct rig *r, uint32_t proc, uint64_t addr, uint64_t seq)
{
	struct shm_log_map m = {
		.head = { sizeof(m) + 8, SHM_LOG_MAP, seq },
		.addr = addr, .len = 4096, .prot = 5, .flags = 2,
	};

	put_raw(&shm_proc(r->e.shm, proc)->log, &m, sizeof(m));
	put_raw(&shm_proc(r->e.shm, proc)->log, "//anon\0", 8);
}

/*
 * Process on slot 1 with its first thread on slot 1. Blocks, 2-byte instructions:
 * 0: 1000 1002 1004; 1: 1006 1008(rep); 2: 1008(rep); 3: 100a syscall;
 * 4: 100c 100e 1010(jcc 100c); 5: 100e 1010(jcc 100c)
 */
static int open_rig(struct rig *r)
{
	struct shm_proc *p;

	memset(r, 0, sizeof(*r));
	if (open_soft(r, false) < 0)
		return -1;
	r->e.soft = r->soft;
	r->e.diag = &r->diag;
	r->e.fd = -1;
	r->e.machine = EM_X86_64;
	r->e.shm = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r->e.shm == MAP_FAILED)
		return -1;
	r->e.header = r->e.shm;
	start_thread(r, 0, 0);
	start_thread(r, 1, 1);
	p = shm_proc(r->e.shm, 1);
	p->pid = (uint32_t)getpid();
	p->log.base = p->log.cur = (uintptr_t)shm_log_data(p);
	map_anon(r, 1, 0x1000, 1);
	define(r, 1, 0x1000, 3, X86_OTHER, 0, false);
	define(r, 1, 0x1006, 2, X86_OTHER, 0, true);
	define(r, 1, 0x1008, 1, X86_OTHER, 0, true);
	define(r, 1, 0x100a, 1, X86_SYSCALL, 0, false);
	define(r, 1, 0x100c, 3, X86_COND, 0x100c, false);
	define(r, 1, 0x100e, 2, X86_COND, 0x100c, false);
	escape(r, 0, SHM_ESC_EXEC, 1, 0);
	escape(r, 1, SHM_ESC_SYNC, 1, 0);
	emu_thread_new(&r->e, 0);
	return 0;
}

static void drain(struct rig *r)
{
	bool any = true;

	while (any && !r->e.err) {
		any = false;
		for (struct emu_thread *t = r->e.threads; t; t = t->next)
			any |= emu_thread_drain(&r->e, t);
	}
}

static struct soft_stats close_rig(struct rig *r)
{
	for (struct emu_thread *t = r->e.threads; t; t = t->next)
		emu_thread_end(&r->e, t);
	while (r->e.threads)
		emu_thread_free(&r->e, r->e.threads);
	while (r->e.procs)
		emu_proc_free(&r->e, r->e.procs);
	munmap(r->e.shm, SHM_BYTES);
	return close_soft(r);
}

static void expect(struct rig *r, uint64_t n_insns, uint64_t n_unfinished,
		   const char *what)
{
	struct soft_stats st;
	int err;

	drain(r);
	err = r->e.err;
	st = close_rig(r);
	ok(!err && st.n_insns == n_insns && !st.n_unexplained &&
	   st.n_killed == n_unfinished,
	   "%s: %llu of %llu instructions, %llu unexplained, error %d (%s)",
	   what, (unsigned long long)st.n_insns, (unsigned long long)n_insns,
	   (unsigned long long)st.n_unexplained, err, r->diag.text);
}

/* ---- streams ---- */

static void check_syscall(void)
{
	struct rig r;

	if (!ok(!open_rig(&r), "rig"))
		return;
	escape(&r, 1, SHM_ESC_BACK, 0x1000, 0);
	BLOCKS(&r, 1, 0, 1, 3);
	escape(&r, 1, SHM_ESC_SYSCALL, 39, 0);
	escape(&r, 1, SHM_ESC_BACK, 0x100c, 100);
	BLOCKS(&r, 1, 4, 4, 4);
	escape(&r, 1, SHM_ESC_LEFT, 0x1012, 0);
	escape(&r, 1, SHM_ESC_EXIT, 0, 0);
	expect(&r, 3 + 2 + 1 + 3 * 3, 0, "syscall and exit");
}

static void check_rep(void)
{
	struct rig r;

	if (!ok(!open_rig(&r), "rig"))
		return;
	/* entered in 1, interrupted, resumed in 2, iterated */
	escape(&r, 1, SHM_ESC_BACK, 0x1006, 0);
	BLOCKS(&r, 1, 1);
	escape(&r, 1, SHM_ESC_LEFT, 0x1008, 0);
	escape(&r, 1, SHM_ESC_BACK, 0x100c, 5);		/* handler */
	BLOCKS(&r, 1, 4);
	escape(&r, 1, SHM_ESC_LEFT, 0x1012, 0);
	escape(&r, 1, SHM_ESC_BACK, 0x1008, 5);
	BLOCKS(&r, 1, 2);
	map_anon(&r, 1, 0x2000, 2);
	escape(&r, 1, SHM_ESC_SYNC, 2, 0);	/* hides the repetition */
	BLOCKS(&r, 1, 2, 3);
	escape(&r, 1, SHM_ESC_SYSCALL, 39, 0);
	escape(&r, 1, SHM_ESC_EXIT, 0, 0);
	expect(&r, 1 + 3 + 1 + 1, 0, "interrupted REP counts once");
}

static void check_cut(void)
{
	struct rig r;

	if (!ok(!open_rig(&r), "rig"))
		return;
	escape(&r, 1, SHM_ESC_BACK, 0x100c, 0);
	BLOCKS(&r, 1, 4, 4);
	escape(&r, 1, SHM_ESC_LEFT_CUT, 0x100e, 0);	/* a fault */
	escape(&r, 1, SHM_ESC_BACK, 0x1000, 7);
	BLOCKS(&r, 1, 0);
	escape(&r, 1, SHM_ESC_LEFT_CUT, 0x1000, 0);	/* at its first */
	escape(&r, 1, SHM_ESC_BACK, 0x1000, 0);		/* tried again */
	BLOCKS(&r, 1, 0, 1, 3);
	escape(&r, 1, SHM_ESC_LEFT_CUT, 0x100c, 0);	/* a trap, behind it */
	escape(&r, 1, SHM_ESC_BACK, 0x100c, 3);
	BLOCKS(&r, 1, 4);
	escape(&r, 1, SHM_ESC_LEFT_CUT, 0x1010, 0);
	escape(&r, 1, SHM_ESC_BACK, 0x100e, 3);
	BLOCKS(&r, 1, 5);	/* killed in here */
	expect(&r, 3 + 1 + 3 + 2 + 1 + 2, 1, "faults cut blocks");
}

static void check_order(void)
{
	struct rig r;
	uint64_t before;

	if (!ok(!open_rig(&r), "rig"))
		return;
	/* 6 replaces 4, by thread 1; thread 2 runs 4, then 6 */
	start_thread(&r, 2, 1);
	escape(&r, 1, SHM_ESC_THREAD, 2, 0);
	escape(&r, 2, SHM_ESC_BACK, 0x100c, 0);
	map_anon(&r, 1, 0x1000, 2);
	define(&r, 1, 0x100c, 3, X86_COND, 0x100c, false);
	BLOCKS(&r, 2, 4, 4, 6, 6);
	drain(&r);
	before = soft_stats(r.soft)->n_insns;
	ok(before == 3, "thread 2 waits for thread 1's change of code (%llu)",
	   (unsigned long long)before);
	escape(&r, 1, SHM_ESC_SYNC, 2, 0);
	drain(&r);
	is_u64(soft_stats(r.soft)->n_insns, 9, "and goes on behind it");
	escape(&r, 2, SHM_ESC_LEFT, 0x1012, 0);
	expect(&r, 12, 0, "order");
}

static void check_wrap(void)
{
	struct rig r;
	struct shm_ring *ring;
	uint64_t sent = 0;

	if (!ok(!open_rig(&r), "rig"))
		return;
	ring = &shm_thread(r.e.shm, 1)->ring;
	escape(&r, 1, SHM_ESC_BACK, 0x100c, 0);
	for (int round = 0; round < 5; round++) {
		while (ring->cur < ring->base + SHM_RING_BYTES) {
			put32(ring, 4);
			sent++;
		}
		drain(&r);
		atomic_fetch_add(&ring->lap, SHM_RING_BYTES);
		ring->cur = ring->base;
	}
	escape(&r, 1, SHM_ESC_LEFT, 0x1012, 0);
	expect(&r, sent * 3, 0, "the ring turns over");
}

/* Whatever is in shared memory, the consumer ends with an error or without. */
static void check_damage(void)
{
	int failed = 0, n = 200;

	for (int i = 0; i < n; i++) {
		struct rig r;
		char *ring, *log;

		if (open_rig(&r) < 0)
			break;
		escape(&r, 1, SHM_ESC_BACK, 0x1000, 0);
		BLOCKS(&r, 1, 0, 1, 3);
		escape(&r, 1, SHM_ESC_SYSCALL, 39, 0);
		start_thread(&r, 2, 1);
		escape(&r, 1, SHM_ESC_THREAD, 2, 0);
		escape(&r, 1, SHM_ESC_BACK, 0x100c, 100);
		BLOCKS(&r, 1, 4, 4, 5);
		escape(&r, 1, SHM_ESC_LEFT_CUT, 0x100e, 0);
		escape(&r, 1, SHM_ESC_COMM, rnd(1000), rnd(1000));
		ring = shm_ring_data(shm_thread(r.e.shm, 1));
		log = shm_log_data(shm_proc(r.e.shm, 1));
		for (uint32_t k = rnd(4); k < 4; k++) {
			ring[rnd(220)] = (char)rnd(256);
			log[rnd(500)] = (char)rnd(256);
		}
		if (!rnd(8))
			shm_thread(r.e.shm, 1)->ring.cur ^= 1ull << rnd(40);
		drain(&r);
		failed += r.e.err != 0;
		close_rig(&r);
	}
	ok(failed > 0 && failed < n, "%d of %d damaged streams are refused, "
	   "none does harm", failed, n);
}

/* ---- real programs ---- */

/* Instructions in a truth file; UINT64_MAX when it is malformed. */
static uint64_t count_truth(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct truth_block b;
	uint64_t n = 0;
	char head[16];

	if (fd < 0)
		return UINT64_MAX;
	if (read(fd, head, 16) != 16 || memcmp(head, TRUTH_MAGIC, 8))
		n = UINT64_MAX;
	while (n != UINT64_MAX && read(fd, &b, sizeof(b)) == sizeof(b)) {
		n += b.n_insns;
		lseek(fd, b.n_bytes, SEEK_CUR);
	}
	close(fd);
	return n;
}

static void run_program(char *const *argv, int want_status)
{
	const char *build = getenv("BUILD");
	struct rig r = { 0 };
	struct soft_program p = {
		.argv = argv, .self_dir = build ? build : "build", .truth = true,
	};
	struct soft_stats st;
	uint64_t truth;
	int status = 0, ret;

	if (!ok(!open_soft(&r, true), "recording of '%s'", argv[2]))
		return;
	ret = soft_emulate_run(r.soft, &p, &status, &r.diag);
	st = *soft_stats(r.soft);
	soft_close(r.soft, &st, &r.diag);
	r.soft = NULL;
	truth = count_truth(r.truth);
	ok(!ret && st.n_insns && st.n_insns == truth && !st.n_unexplained,
	   "'%s': %llu instructions, truth %llu, %llu unexplained (%s)",
	   argv[2], (unsigned long long)st.n_insns,
	   (unsigned long long)truth, (unsigned long long)st.n_unexplained,
	   r.diag.text);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == want_status,
	   "and its status is %#x", status);
	close_soft(&r);
}

static bool have_plugin(void)
{
	char path[512];
	const char *build = getenv("BUILD");

	snprintf(path, sizeof(path), "%s/auxkit-qemu.so",
		 build ? build : "build");
	return !access(path, R_OK);
}

static void check_programs(void)
{
	char *const ls[] = { (char *)"/bin/sh", (char *)"-c",
			     (char *)"exec ls / >/dev/null", NULL };
	char *const pipe[] = { (char *)"/bin/sh", (char *)"-c",
			       (char *)"ls / | wc >/dev/null; exit 3", NULL };
	char *const none[] = { (char *)"/nonexistent/program", NULL };
	struct soft_program p = { .argv = none, .self_dir = getenv("BUILD") };
	struct rig r = { 0 };
	const char *lacks = qemu_lacks("qemu-x86_64");
	int status;

	p.self_dir = p.self_dir ? p.self_dir : "build";
	if (lacks) {
		skip(lacks);
		return;
	}
	if (!ok(have_plugin(), "the plugin is built"))
		return;
	run_program(pipe, 3);
	run_program(ls, 0);
	if (open_soft(&r, false) < 0)
		return;
	ok(soft_emulate_run(r.soft, &p, &status, &r.diag) < 0 && r.diag.text[0],
	   "a missing program: %s", r.diag.text);
	close_soft(&r);
}

int main(void)
{
	check_syscall();
	check_rep();
	check_cut();
	check_order();
	check_wrap();
	check_damage();
	check_programs();
	return plan_done();
}
