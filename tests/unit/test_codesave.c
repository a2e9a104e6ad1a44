/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Saving code that a program generates: a child writes to executable memory on request,
 * records say where, and the bytes and times in the file are compared with what the child
 * wrote.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/bytes.h"

#include "capture/describe/describe.h"
#include "capture/event/ring.h"
#include "perfdata/impl.h"
#include "tests/unit/tap.h"

#define PAGE 4096u
#define N_PAGES 8u
#define MAX_CODES 64

struct code {
	struct aux_own_code h;
	const uint8_t *bytes;	/* of its blob; NULL: none */
};

static char dir[] = "/tmp/auxkit-codesave.XXXXXX";
static char out[128];
static uint8_t file[8 << 20];
static struct code codes[MAX_CODES];
static size_t n_codes;
static uint8_t *memory;
static pid_t child;
static int to_child, from_child;
static struct writer *w;
static struct codesave *cs;

static struct perfclock perf_time;

static uint64_t now_ns(void)
{
	return perfclock_now(&perf_time);
}

/* What the child does: fills len bytes at an offset with a value. */
struct order {
	uint32_t at, len;
	uint8_t value, step;
};

static void serve(int in, int answer)
{
	struct order o;
	uint32_t i;

	while (read(in, &o, sizeof(o)) == sizeof(o)) {
		for (i = 0; i < o.len; i++)
			memory[o.at + i] = (uint8_t)(o.value + i * o.step);
		if (write(answer, "", 1) != 1)
			break;
	}
	_exit(0);
}

static void order(uint32_t at, uint32_t len, uint8_t value, uint8_t step)
{
	struct order o = { at, len, value, step };
	char c;

	if (write(to_child, &o, sizeof(o)) != sizeof(o) ||
	    read(from_child, &c, 1) != 1)
		ok(0, "the child obeys");
}

static void start_child(void)
{
	int there[2], back[2];

	memory = mmap(NULL, N_PAGES * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || pipe(there) || pipe(back))
		exit(1);
	child = fork();
	if (!child) {
		close(there[1]);
		close(back[0]);
		serve(there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	to_child = there[1];
	from_child = back[0];
}

static void end_child(void)
{
	close(to_child);
	close(from_child);
	waitpid(child, NULL, 0);
	munmap(memory, N_PAGES * PAGE);
}

static void note_map(uint32_t pid, uint64_t addr, uint64_t len,
		     const char *path, uint64_t time)
{
	struct {
		struct perf_event_header h;
		uint32_t pid, tid;
		uint64_t addr, len, pgoff;
		uint8_t inode[24];
		uint32_t prot, flags;
		char path[256];
	} m = {
		.h = { PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, sizeof(m) },
		.pid = pid, .tid = pid, .addr = addr, .len = len,
		.prot = PROT_READ | PROT_EXEC | PROT_WRITE,
	};

	snprintf(m.path, sizeof(m.path), "%s", path);
	codesave_inspect(cs, &m.h, time);
}

static void note_task_at(uint32_t type, uint16_t misc, uint32_t pid,
			 uint32_t ppid, uint64_t time)
{
	struct {
		struct perf_event_header h;
		uint32_t w[4];
	} r = { { type, misc, sizeof(r) }, { pid, ppid, pid, ppid } };

	codesave_inspect(cs, &r.h, time);
}

static void note_task(uint32_t type, uint16_t misc, uint32_t pid, uint32_t ppid)
{
	note_task_at(type, misc, pid, ppid, now_ns());
}

static void begin(const struct codesave_config *config)
{
	struct perf_event_attr a = { .type = 1, .config = 9,
				     .size = sizeof(a) };
	struct aux_diag diag = { 0 };
	uint64_t id = 1;

	unlink(out);
	if (writer_open(&w, out, NULL, &diag) ||
	    writer_attr_add(w, &a, "dummy", &id, 1) ||
	    codesave_new(&cs, config))
		exit(1);
	writer_codes_new(w, 1, 2);
	codesave_output(cs, w);
}

static void take_code(struct cursor c)
{
	struct code *k = &codes[n_codes++];
	size_t i;

	k->h.time_ns = cursor_u64(&c);
	k->h.addr = cursor_u64(&c);
	k->h.len = cursor_u64(&c);
	k->h.blob = cursor_u64(&c);
	k->h.pid = cursor_u32(&c);
	k->h.kind = cursor_u32(&c);
	k->bytes = k->h.blob && cursor_left(&c) >= k->h.len ?
			   cursor_bytes(&c, k->h.len) : NULL;
	for (i = 0; i + 1 < n_codes && !k->bytes && k->h.blob; i++)
		if (codes[i].h.blob == k->h.blob)
			k->bytes = codes[i].bytes;
}

/* Closes the file and reads its code records, or those of AUX_OWN_FILE. */
static size_t end(uint8_t *dump, size_t room)
{
	struct aux_diag diag = { 0 };
	uint64_t at, size;
	struct cursor c;
	size_t n_dump = 0;
	ssize_t n;
	int fd;

	ok(codesave_finish(cs) == 0, "the looks succeed");
	codesave_free(cs);
	ok(writer_close(w, &diag) == 0, "the file is written");
	fd = open(out, O_RDONLY);
	n = read(fd, file, sizeof(file));
	close(fd);
	c = cursor_init(file + 40, 16, false);
	at = cursor_u64(&c);
	size = cursor_u64(&c);
	c = cursor_init(file + at, n < 0 ? 0 : size, false);
	n_codes = 0;
	while (cursor_left(&c) >= 8) {
		uint32_t type = cursor_u32(&c), rest = cursor_u32(&c) >> 16;
		struct cursor r = cursor_init(cursor_bytes(&c, rest - 8),
					      rest - 8, false);
		uint32_t kind, len;

		if (type != AUX_RECORD_EVENT_TYPE ||
		    cursor_u64(&r) != AUX_OWN_MAGIC)
			continue;
		kind = cursor_u32(&r) & 0xffff;
		len = cursor_u32(&r);
		if (kind == AUX_OWN_CODE && n_codes < MAX_CODES) {
			take_code(r);
		} else if (kind == AUX_OWN_FILE && dump) {
			uint64_t offset = cursor_u64(&r);
			uint32_t path_len, part;

			cursor_u64(&r);
			path_len = cursor_u32(&r);
			cursor_u32(&r);
			cursor_bytes(&r, path_len);
			part = len - 24 - path_len;
			if (offset + part <= room)
				memcpy(dump + offset, cursor_bytes(&r, part),
				       part);
			n_dump += part;
		}
	}
	return n_dump;
}

/* The code that holds at addr and time, by the rule of extension.h. */
static const struct code *code_at(uint32_t pid, const uint8_t *p, uint64_t time)
{
	const struct code *found = NULL;
	uint64_t addr = (uint64_t)(uintptr_t)p;
	size_t i;

	for (i = 0; i < n_codes; i++) {
		const struct aux_own_code *h = &codes[i].h;

		if (h->pid == pid && addr >= h->addr &&
		    addr - h->addr < h->len && h->time_ns <= time &&
		    (!found || h->time_ns >= found->h.time_ns))
			found = &codes[i];
	}
	return found;
}

static int byte_at(uint32_t pid, const uint8_t *p, uint64_t time)
{
	const struct code *k = code_at(pid, p, time);

	if (!k || !k->bytes)
		return k ? -2 : -1;	/* unknown; nothing */
	return k->bytes[(uint64_t)(uintptr_t)p - k->h.addr];
}

/* Grows, and at the pace of another clock. */
static void test_clock(void)
{
	struct timespec a, b, wait = { .tv_nsec = 30000000 };
	uint64_t first, last, mono;
	int i, ordered = 1;

	clock_gettime(CLOCK_MONOTONIC, &a);
	first = last = now_ns();
	nanosleep(&wait, NULL);
	for (i = 0; i < 1000; i++) {
		uint64_t next = now_ns();

		ordered &= next > last;
		last = next;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	mono = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000 +
	       (uint64_t)(b.tv_nsec - a.tv_nsec);
	ok(ordered, "1000 times, each later than the one before");
	ok(last - first >= 30000000 && last - first <= mono + mono / 100,
	   "%" PRIu64 " ns passed, %" PRIu64 " by another clock", last - first,
	   mono);
}

static void test_change(void)
{
	const struct codesave_config config = { .self = (uint32_t)getpid() };
	uint64_t mapped, first, written, second, third;
	uint32_t pid;

	begin(&config);
	start_child();
	pid = (uint32_t)child;
	mapped = now_ns();
	note_map(pid, (uint64_t)(uintptr_t)memory, N_PAGES * PAGE, "//anon",
		 mapped);
	order(0, 64, 0x10, 1);
	codesave_scan(cs);
	first = now_ns();
	order(64, 64, 0x50, 1);		/* where nothing was */
	order(PAGE, 32, 0x70, 1);	/* on a page that was not there */
	written = now_ns();
	codesave_scan(cs);
	second = now_ns();
	order(16, 32, 0x90, 1);		/* in place of other code */
	codesave_scan(cs);
	third = now_ns();
	codesave_scan(cs);		/* nothing new */
	end(NULL, 0);
	end_child();
	ok(byte_at(pid, memory, mapped) == 0x10,
	   "what was written before the first look holds from the mapping on");
	ok(byte_at(pid, memory + 64, written) == 0x50,
	   "what is added later holds before the look that finds it");
	ok(byte_at(pid, memory + PAGE + 1, first) == 0x71, "on a new page, too");
	ok(byte_at(pid, memory + 16, first) == 0x20 &&
	   byte_at(pid, memory + 16, third) == 0x90,
	   "what is replaced: old bytes before, new ones after");
	ok(byte_at(pid, memory + 16, second) == -2 &&
	   byte_at(pid, memory + 47, second) == -2,
	   "and nobody knows what ran in between");
	ok(byte_at(pid, memory + 15, second) == 0x1f &&
	   byte_at(pid, memory + 48, second) == 0x40,
	   "but what did not change is known all the time");
	ok(byte_at(pid, memory + 2 * PAGE, third) == -1,
	   "pages that were never touched are not in the file");
	ok(n_codes == 6, "each change once: %zu records of 6", n_codes);
}

/* What a program writes and runs after the last look is not known: not the zeros that
 * stood there. */
static void test_ended(void)
{
	const struct codesave_config config = { .self = (uint32_t)getpid() };
	uint32_t pid;

	begin(&config);
	start_child();
	pid = (uint32_t)child;
	note_map(pid, (uint64_t)(uintptr_t)memory, N_PAGES * PAGE, "//anon",
		 now_ns());
	order(0, 64, 0x10, 1);
	order(96, 32, 0xcc, 0);
	order(128, 16, 0x30, 1);
	codesave_scan(cs);
	order(64, 64, 0x50, 1);
	end_child();
	end(NULL, 0);
	ok(byte_at(pid, memory + 63, UINT64_MAX) == 0x4f &&
	   byte_at(pid, memory + 128, UINT64_MAX) == 0x30,
	   "a program ended: what the last look found is known");
	ok(byte_at(pid, memory + 64, UINT64_MAX) == -1 &&
	   byte_at(pid, memory + 127, UINT64_MAX) == -1,
	   "and what it may have written over nothing is not");
}

static void test_tasks(void)
{
	const struct codesave_config config = { 0 };
	uint32_t pid;

	begin(&config);
	start_child();
	pid = (uint32_t)child;
	note_map(pid, (uint64_t)(uintptr_t)memory, PAGE, "//anon", now_ns());
	note_map(pid, (uint64_t)(uintptr_t)memory + PAGE, PAGE, "[vdso]",
		 now_ns());
	note_map(pid, (uint64_t)(uintptr_t)memory + 2 * PAGE, PAGE,
		 "/tmp/x (deleted)", now_ns());
	order(0, 3 * PAGE, 0x33, 0);
	codesave_scan(cs);
	note_task(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, pid, 0);
	order(0, 3 * PAGE, 0x44, 0);
	codesave_scan(cs);
	end(NULL, 0);
	end_child();
	ok(n_codes == 2 && codes[0].h.kind == AUX_CODE_ANON &&
	   codes[1].h.kind == AUX_CODE_ANON,
	   "no vdso, and nothing after an exec: %zu records", n_codes);
}

/* A child that was forked has what its parent had, and then its own. */
static void test_fork(void)
{
	const struct codesave_config config = { 0 };
	uint64_t mapped, forked;
	const struct code *k;
	uint32_t pid;

	begin(&config);
	start_child();
	pid = (uint32_t)child;
	mapped = now_ns();
	/* the memory is the same in both; the parent is not there any more */
	note_map(0x7ffffffe, (uint64_t)(uintptr_t)memory, PAGE, "//anon",
		 mapped);
	forked = now_ns();
	note_task_at(PERF_RECORD_FORK, 0, pid, 0x7ffffffe, forked);
	order(0, 64, 0x10, 1);
	codesave_scan(cs);
	end(NULL, 0);
	end_child();
	k = code_at(pid, memory, UINT64_MAX);
	ok(k && k->bytes && k->bytes[1] == 0x11, "a forked child's own code");
	ok(k && k->h.time_ns == forked, "from the fork on, and not before it");
}

static void test_limit(void)
{
	const struct codesave_config config = { .limit = 2 * PAGE };
	const struct codesave_stats *s;

	begin(&config);
	start_child();
	note_map((uint32_t)child, (uint64_t)(uintptr_t)memory, N_PAGES * PAGE,
		 "//anon", now_ns());
	order(0, 4 * PAGE, 1, 3);
	codesave_scan(cs);
	s = codesave_stats(cs);
	ok(s->n_saved == 2 * PAGE && s->n_unsaved == 2 * PAGE,
	   "a limit: saved %" PRIu64 ", not saved %" PRIu64, s->n_saved,
	   s->n_unsaved);
	end(NULL, 0);
	end_child();
}

/* The thread finds it by itself, and the dump is in the file. */
static void test_thread(void)
{
	const struct codesave_config config = { 0 };
	static uint8_t text[200000], dump[200000];
	char path[160];
	uint32_t pid;
	size_t i, n;
	int fd;

	for (i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7 + i / 256);
	snprintf(path, sizeof(path), "%s/jit-77.dump", dir);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	n = (size_t)write(fd, text, sizeof(text));
	close(fd);
	begin(&config);
	ok(codesave_start(cs) == 0, "a thread looks");
	start_child();
	pid = (uint32_t)child;
	note_map(pid, 0x5000000, PAGE, path, now_ns());
	note_map(pid, (uint64_t)(uintptr_t)memory, N_PAGES * PAGE, "", 1);
	order(0, 100, 0x21, 1);
	usleep(100000);
	n = end(dump, sizeof(dump));
	end_child();
	ok(byte_at(pid, memory + 5, UINT64_MAX) == 0x26, "what the child wrote");
	ok(n == sizeof(text) && !memcmp(text, dump, n),
	   "the jitdump is whole in the file: %zu bytes", n);
	unlink(path);
}

static void put_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

/* A process in a container: its root is a directory of ours, where it is process 5. */
static void test_container(void)
{
	char proc[64], path[256], dump[64];
	struct codesave_config config = { .proc = proc };
	size_t n;

	snprintf(proc, sizeof(proc), "%s/proc", dir);
	snprintf(path, sizeof(path), "mkdir -p %s/4242/root/tmp %s/4242/root/d "
		 "&& ln -s /d %s/4242/root/link", proc, proc, proc);
	if (system(path))
		ok(0, "%s", path);
	snprintf(path, sizeof(path), "%s/4242/status", proc);
	put_text(path, "Name:\tx\nNSpid:\t4242\t77\t5\n");
	begin(&config);
	note_map(4242, 0x5000000, PAGE, "/link/jit-5.dump", now_ns());
	note_map(4242, 0x6000000, PAGE, "//anon", now_ns());
	codesave_scan(cs);
	/* written later, and read when the process is gone */
	snprintf(path, sizeof(path), "%s/4242/root/tmp/perf-5.map", proc);
	put_text(path, "6000000 10 name\n");
	snprintf(path, sizeof(path), "%s/4242/root/d/jit-5.dump", proc);
	put_text(path, "JiTD");
	snprintf(path, sizeof(path), "mv %s/4242 %s/gone", proc, proc);
	if (system(path))
		ok(0, "%s", path);
	n = end((uint8_t *)dump, sizeof(dump));
	/* the test puts what it reads of each file at the same place */
	ok(n == 20 && !memcmp(dump, "6000000 10 name\n", 16),
	   "the logs of a process in a container are saved: %zu bytes", n);
	snprintf(path, sizeof(path), "rm -r %s", proc);
	if (system(path))
		ok(0, "%s", path);
}

/* A file of the directory with len bytes at an offset, and a hole before them. */
static void put_at(const char *path, const void *bytes, size_t len, uint64_t at)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);

	if (fd < 0 || pwrite(fd, bytes, len, (off_t)at) != (ssize_t)len)
		ok(0, "%s is made", path);
	close(fd);
}

/* A kernel of Arm with larger pages: pagemap has an entry for each of those. */
static void test_page_size(uint32_t size)
{
	enum { ADDR = 0x400000, N = 6 };
	const uint32_t len = N * size;
	uint64_t touched[N] = { 0, UINT64_C(1) << 63, 0, UINT64_C(1) << 62 };
	char proc[64], path[256];
	struct codesave_config config = { .proc = proc, .page = size };
	uint8_t *bytes = malloc(len), dump[64];
	uint32_t i, bad = 0;

	snprintf(proc, sizeof(proc), "%s/proc", dir);
	snprintf(path, sizeof(path), "mkdir -p %s/4243", proc);
	if (system(path))
		ok(0, "%s", path);
	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)(1 + i / PAGE + i % 16);
	snprintf(path, sizeof(path), "%s/4243/mem", proc);
	put_at(path, bytes, len, ADDR);
	snprintf(path, sizeof(path), "%s/4243/pagemap", proc);
	put_at(path, &bytes[0], 1, ADDR);	/* as long as the kernel's */
	put_at(path, touched, sizeof(touched), ADDR / size * 8);
	begin(&config);
	note_map(4243, ADDR, len, "//anon", 1);
	codesave_scan(cs);
	end(dump, sizeof(dump));
	for (i = 0; i < len; i += PAGE) {
		const uint8_t *at = (const uint8_t *)(uintptr_t)(ADDR + i);
		int want = touched[i / size] ? bytes[i] : -1;

		bad += byte_at(4243, at, UINT64_MAX) != want;
	}
	ok(!bad, "pages of %u bytes: what was touched is saved, and no more; "
	   "%u of %u are wrong", size, bad, len / PAGE);
	free(bytes);
	snprintf(path, sizeof(path), "rm -r %s", proc);
	if (system(path))
		ok(0, "%s", path);
}

/* Neither another user's map nor one from before the process counts. */
static void test_stranger(void)
{
	const struct codesave_config config = { 0 };
	struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
	uint8_t dump[64];
	char path[64];
	size_t n;

	start_child();
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)child);
	put_text(path, "6000000 10 name\n");
	begin(&config);
	note_map((uint32_t)child, (uint64_t)(uintptr_t)memory, PAGE, "//anon", 1);
	n = end(dump, sizeof(dump));
	ok(n == 16, "a perf map is saved: %zu bytes", n);
	utimensat(AT_FDCWD, path, old, 0);
	begin(&config);
	note_map((uint32_t)child, (uint64_t)(uintptr_t)memory, PAGE, "//anon", 1);
	n = end(dump, sizeof(dump));
	ok(!n, "one of an earlier process with that pid is not");
	unlink(path);
	if (symlink(out, path))
		ok(0, "a link is made");
	begin(&config);
	note_map((uint32_t)child, (uint64_t)(uintptr_t)memory, PAGE, "//anon", 1);
	n = end(dump, sizeof(dump));
	ok(!n, "nor what a link leads to");
	unlink(path);
	end_child();
}

static void test_damage(void)
{
	const struct codesave_config config = { .kernel = true };
	uint8_t r[64];
	unsigned i;

	begin(&config);
	for (i = 0; i < 2000; i++) {
		struct perf_event_header h = {
			.type = i % 4 == 0 ? PERF_RECORD_MMAP2 :
				i % 4 == 1 ? PERF_RECORD_FORK :
				i % 4 == 2 ? PERF_RECORD_COMM :
					     PERF_RECORD_KSYMBOL,
			.misc = (uint16_t)i, .size = (uint16_t)(8 + i % 24),
		};

		memset(r, 0xff, sizeof(r));
		memcpy(r, &h, sizeof(h));
		codesave_inspect(cs, (void *)r, i);
	}
	note_map(0x7fffffff, 0, UINT64_MAX, "//anon", 1);
	note_map(1, UINT64_MAX - 1, 100, "//anon", 1);
	codesave_scan(cs);
	end(NULL, 0);
	ok(1, "short records and ranges that cannot be do no harm");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(dir))
		return 1;
	snprintf(out, sizeof(out), "%s/out", dir);
	if (now_ns()) {
		test_clock();
		test_change();
		test_ended();
		test_tasks();
		test_fork();
		test_limit();
		test_thread();
	test_container();
	test_page_size(4096);
	test_page_size(16384);
	test_page_size(65536);
	test_stranger();
	} else {
		skip("hardware: no perf events here");
	}
	test_damage();
	perfclock_close(&perf_time);
	unlink(out);
	rmdir(dir);
	return plan_done();
}
