/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Records for what exists already: from a hand-made /proc, where every case can
 * be had, and of this very process, which has a thread, generated code, a
 * deleted library and a memfd mapped.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <internal/bytes.h>

#include "../../capture/buildid.h"
#include "../../capture/synth_proc.h"
#include "tap.h"

static char dir[] = "/tmp/auxkit-sproc.XXXXXX";
static char out[128], proc[128];
static uint8_t file[(16 << 20) + 64];
static struct cursor data;	/* the records */

static void load(void)
{
	int fd = open(out, O_RDONLY);
	ssize_t n = read(fd, file, sizeof(file) - 64);
	struct cursor c;
	uint64_t at, size;

	close(fd);
	memset(file + (n < 0 ? 0 : n), 0, 64);
	c = cursor_init(file + 40, 16, false);
	at = cursor_u64(&c);
	size = cursor_u64(&c);
	data = cursor_init(file + at, size, false);
}

/* Runs synth_proc into a file and loads it. */
static int run(const struct synth_proc_options *o, struct synth_proc_result *r)
{
	struct perf_event_attr a = { .type = 1, .config = 9,
				     .size = sizeof(a),
				     .sample_id_all = 1,
				     .sample_type = SYNTH_SAMPLE_TYPE };
	struct aux_diag diag = { 0 };
	struct writer *w;
	uint64_t id = 77;
	int ret;

	unlink(out);
	if (writer_open(&w, out, NULL, &diag) ||
	    writer_attr_add(w, &a, "dummy", &id, 1))
		return -1;
	ret = synth_proc(w, o, r, &diag);
	if (ret)
		printf("# %s\n", diag.text);
	if (writer_close(w, &diag))
		printf("# close: %s\n", diag.text);
	load();
	return ret;
}

/* One record as text: "COMM 5/6 name", "MMAP2 5 addr len pgoff prot path". */
static bool next_text(struct cursor *all, char *text, size_t len)
{
	struct cursor c;
	uint32_t type, misc, size, pid, tid, prot, flags;
	uint64_t addr, n, off;

	if (cursor_left(all) < 8)
		return false;
	type = cursor_u32(all);
	misc = cursor_u16(all);
	size = cursor_u16(all);
	c = cursor_init(cursor_bytes(all, size - 8u), size - 8u, false);
	pid = cursor_u32(&c);
	tid = cursor_u32(&c);
	switch (type) {
	case PERF_RECORD_COMM:
		snprintf(text, len, "COMM %d/%d %s", (int)pid, (int)tid,
			 (const char *)c.p);
		break;
	case PERF_RECORD_FORK:
		prot = cursor_u32(&c);	/* tid; the second was ppid */
		snprintf(text, len, "FORK %d<%d %d<%d misc %x", (int)pid,
			 (int)tid, (int)prot, (int)cursor_u32(&c), misc);
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		addr = cursor_u64(&c);
		n = cursor_u64(&c);
		off = cursor_u64(&c);
		if (type == PERF_RECORD_MMAP) {
			snprintf(text, len, "MMAP %d %#" PRIx64 "+%#" PRIx64
				 "@%#" PRIx64 " %x %s", (int)pid, addr, n, off,
				 misc, (const char *)c.p);
			break;
		}
		cursor_bytes(&c, 24);
		prot = cursor_u32(&c);
		flags = cursor_u32(&c);
		snprintf(text, len, "MMAP2 %d %#" PRIx64 "+%#" PRIx64 "@%#"
			 PRIx64 " %u/%u %x %s", (int)pid, addr, n, off, prot,
			 flags, misc, (const char *)c.p);
		break;
	default:
		snprintf(text, len, "type %u", type);
	}
	return true;
}

/* The records are these lines, in this order. */
static void is_records(const char *const *want, const char *what)
{
	struct cursor c = data;
	char text[PATH_MAX + 128];
	size_t i = 0;
	bool same = true;

	while (next_text(&c, text, sizeof(text))) {
		if (!strncmp(text, "type ", 5))
			continue;	/* saved code, features */
		if (!want[i] || strcmp(text, want[i])) {
			printf("# got  %s\n# want %s\n", text,
			       want[i] ? want[i] : "(end)");
			same = false;
		}
		i += !!want[i];
	}
	ok(same && !want[i], "%s: %zu records", what, i);
}

static bool has_record(const char *start, const char *end)
{
	struct cursor c = data;
	char text[PATH_MAX + 128];

	while (next_text(&c, text, sizeof(text))) {
		size_t n = strlen(text), k = strlen(end);

		if (!strncmp(text, start, strlen(start)) && n >= k &&
		    !strcmp(text + n - k, end))
			return true;
	}
	return false;
}

/* ---- saved code ---- */

struct code {
	uint64_t addr, len, blob;
	uint32_t pid, kind;
	const uint8_t *bytes;	/* NULL: those of an earlier record */
};

/* The next AUX_OWN_CODE record. */
static bool next_code(struct cursor *all, struct code *k)
{
	while (cursor_left(all) >= 8) {
		uint32_t type = cursor_u32(all), size = cursor_u32(all) >> 16;
		struct cursor c = cursor_init(cursor_bytes(all, size - 8),
					      size - 8, false);
		uint32_t len;

		if (type != AUX_RECORD_EVENT_TYPE ||
		    cursor_u64(&c) != AUX_OWN_MAGIC ||
		    cursor_u16(&c) != AUX_OWN_CODE)
			continue;
		cursor_u16(&c);
		len = cursor_u32(&c);
		cursor_u64(&c);
		k->addr = cursor_u64(&c);
		k->len = cursor_u64(&c);
		k->blob = cursor_u64(&c);
		k->pid = cursor_u32(&c);
		k->kind = cursor_u32(&c);
		k->bytes = len > 40 ? c.p : NULL;
		return true;
	}
	return false;
}

static const uint8_t *find_blob(uint64_t blob)
{
	struct cursor c = data;
	struct code k;

	while (next_code(&c, &k))
		if (k.blob == blob && k.bytes)
			return k.bytes;
	return NULL;
}

/* The saved byte of a process at an address, -1: none. */
static int code_at(uint32_t pid, uint64_t addr, uint32_t kind)
{
	struct cursor c = data;
	struct code k;

	while (next_code(&c, &k)) {
		const uint8_t *p = k.bytes ? k.bytes : find_blob(k.blob);

		if (p && k.pid == pid && k.kind == kind && addr >= k.addr &&
		    addr - k.addr < k.len)
			return p[addr - k.addr];
	}
	return -1;
}

/* ---- a hand-made /proc ---- */

__attribute__((format(printf, 2, 3)))
static void put(const char *name, const char *fmt, ...)
{
	char path[PATH_MAX], *p;
	va_list ap;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	for (p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "we");
	if (!f)
		return;
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

static void put_mem(const char *name, uint64_t addr, int byte, size_t len)
{
	char path[PATH_MAX];
	uint8_t *bytes = malloc(len);
	int fd;

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	memset(bytes, byte, len);
	ok(pwrite(fd, bytes, len, (off_t)addr) == (ssize_t)len,
	   "memory of the hand-made process at %#" PRIx64, addr);
	close(fd);
	free(bytes);
}

static void make_proc(void)
{
	put("kallsyms", "%s",
	    "ffffffff81000000 T startup_64\n"
	    "ffffffff81000000 T _stext\nffffffff81000000 T _text\n"
	    "ffffffff81000100 t _text_not\nffffffff82000000 T _etext\n"
	    "ffffffffc0000000 t x\t[no_such]\n");
	put("modules", "%s",
	    "no_such_module 40960 1 a,b, Live 0xffffffffc0000000 (OE)\n"
	    "other 4096 0 - Live 0x0000000000000000\n");
	put("10/status", "Name:\tx\nTgid:\t10\nPid:\t10\nPPid:\t1\n");
	put("10/task/10/comm", "a b\n");
	put("10/task/12/comm", "worker\n");
	put("10/task/10/maps", "%s",
	    "00400000-00401000 r-xp 00002000 08:01 42"
	    "                         /opt/with space/x\n"
	    "00401000-00402000 r--p 00003000 08:01 42 /opt/with space/x\n"
	    "00500000-00501000 r-xp 00001000 08:01 43 /lib/y.so (deleted)\n"
	    "00600000-00602000 rwxp 00000000 00:00 0 \n"
	    "00700000-00701000 r-xp 00000000 00:00 0 [anon:jit code]\n"
	    "00800000-00801000 r-xs 00000000 00:01 44 /memfd:a\\012b "
	    "(deleted)\n"
	    "00900000-00a00000 rw-p 00000000 00:00 0 [heap]\n"
	    "7ffff000-7ffff800 r-xp 00000000 00:00 0 [vdso]\n"
	    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 "
	    "[vsyscall]\n");
	/* the leader has ended, its thread has the maps */
	put("20/status", "Name:\ty\nTgid:\t20\nPid:\t20\nPPid:\t10\n");
	put("20/task/20/comm", "zombie\n");
	put("20/task/20/maps", "%s", "");
	put("20/task/21/comm", "lives\n");
	put("20/task/21/maps", "00400000-00401000 r-xp 0 08:01 9 /z\n");
	/* a thread id may be asked for */
	put("12/status", "Name:\tworker\nTgid:\t10\nPid:\t12\nPPid:\t1\n");
	/* no maps may be read: a directory where a file should be */
	put("30/status", "Name:\tz\nTgid:\t30\nPid:\t30\nPPid:\t1\n");
	put("30/task/30/comm", "secret\n");
	put("30/task/30/maps/x", "%s", "");
}

#define R10                                                              \
	"FORK 10<1 10<1 misc 2000", "COMM 10/10 a b",                    \
	"MMAP2 10 0x400000+0x1000@0x2000 5/2 2 /opt/with space/x",       \
	"MMAP2 10 0x500000+0x1000@0x1000 5/2 2 /lib/y.so (deleted)",     \
	"MMAP2 10 0x600000+0x2000@0 7/2 2 //anon",                       \
	"MMAP2 10 0x700000+0x1000@0 5/2 2 //anon",                       \
	"MMAP2 10 0x800000+0x1000@0 5/1 2 /memfd:a\nb (deleted)",        \
	"MMAP2 10 0x7ffff000+0x800@0 5/2 2 [vdso]",                      \
	"MMAP2 10 0xffffffffff600000+0x1000@0 4/2 2 [vsyscall]",         \
	"FORK 10<10 12<10 misc 2000", "COMM 10/12 worker"
#define R20                                                              \
	"FORK 20<10 20<10 misc 2000", "COMM 20/20 zombie",               \
	"MMAP2 20 0x400000+0x1000@0 5/2 2 /z",                           \
	"FORK 20<20 21<20 misc 2000", "COMM 20/21 lives"

static void test_fake(void)
{
	static const char *const one[] = { R10, NULL };
	struct synth_proc_options o = { .proc = proc, .id = { .id = 77,
							      .cpu = -1u } };
	const pid_t tids[] = { 12, 10, 4000 };
	struct synth_proc_result r;

	make_proc();
	put_mem("10/mem", 0x500000, 'f', 0x1000);
	put_mem("10/mem", 0x600000, 'w', 0x2000);
	put_mem("10/mem", 0x700000, 'j', 0x1000);
	put_mem("10/mem", 0x800000, 'm', 0x1000);
	put_mem("10/mem", 0x7ffff000, 'v', 0x800);
	o.tids = tids;
	o.n_tids = 3;
	ok(!run(&o, &r), "one process, by two of its threads, and one gone");
	is_records(one, "one process");
	is_u64(r.n_processes, 1, "processes");
	is_u64(r.n_threads, 2, "threads");
	is_u64(r.n_maps, 7, "maps");
	is_u64(r.n_gone, 1, "gone");
	is_u64(r.n_unreadable, 0, "unreadable");
	is_u64(r.n_code, 0x5800, "code bytes saved");
	is_u64(r.n_code_unread, 0, "code bytes not saved");
	is_u64(code_at(10, 0x500fff, AUX_CODE_FILE), 'f', "deleted file");
	is_u64(code_at(10, 0x601fff, AUX_CODE_ANON), 'w', "writable code");
	is_u64(code_at(10, 0x700000, AUX_CODE_ANON), 'j', "anonymous code");
	is_u64(code_at(10, 0x800000, AUX_CODE_FILE), 'm', "memfd");
	is_u64(code_at(10, 0x7ffff7ff, AUX_CODE_VDSO), 'v', "vdso");
	ok(code_at(10, 0x400000, AUX_CODE_FILE) < 0, "a file is left in place");
}

static void test_fake_all(void)
{
	static const char *const want[] = {
		"MMAP -1 0xffffffff81000000+0x1000000@0xffffffff81000000 1 "
		"[kernel.kallsyms]_text",
		"MMAP -1 0xffffffffc0000000+0xa000@0 1 [no_such_module]",
		R10, R20, "FORK 30<1 30<1 misc 2000", "COMM 30/30 secret", NULL
	};
	struct synth_proc_options o = { .proc = proc, .kernel = true,
					.id = { .id = 77, .cpu = -1u } };
	struct synth_proc_result r;
	char path[PATH_MAX];

	/* threads are not listed in /proc itself */
	snprintf(path, sizeof(path), "%s/12/status", proc);
	unlink(path);
	ok(!run(&o, &r), "all processes and the kernel");
	is_records(want, "all");
	is_u64(r.n_processes, 3, "processes");
	is_u64(r.n_gone, 1, "gone: no status");
	is_u64(r.n_unreadable, 1, "unreadable: a process");
	ok(r.kernel_hidden, "hidden: a module's address");
	o.data_maps = true;
	ok(!run(&o, &r), "data maps, too");
	ok(has_record("MMAP2 10 0x900000+0x100000@0 3/2 2002", " [heap]"),
	   "the heap, marked as data");
	o.proc = "/no/such/proc";
	ok(run(&o, &r) == -AUX_E_IO, "no /proc: an error");
}

/* ---- this process ---- */

static int thread_pipe[2];

static void *wait_thread(void *arg)
{
	char c;

	prctl(PR_SET_NAME, "a thread");
	if (write(*(int *)arg, "x", 1) == 1 && read(thread_pipe[0], &c, 1) < 0)
		return NULL;
	return NULL;
}

/* Executable memory of one page with a file behind it that is then gone. */
static uint8_t *map_deleted(int fd, int byte)
{
	uint8_t page[4096];
	void *p;

	memset(page, byte, sizeof(page));
	if (fd < 0 || write(fd, page, sizeof(page)) != sizeof(page))
		return MAP_FAILED;
	p = mmap(NULL, sizeof(page), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	return p;
}

static void test_self(void)
{
	struct synth_proc_options o = {
		.kernel = true, .build_ids = true, .timeout_ms = 10000,
		.id = { .id = 77, .cpu = -1u },
	};
	pid_t self = getpid();
	struct synth_proc_result r;
	char path[PATH_MAX], text[PATH_MAX], c;
	uint8_t *gone, *memfd, *jit;
	int ready[2];
	pthread_t t;

	snprintf(path, sizeof(path), "%s/lib gone.so", dir);
	gone = map_deleted(open(path, O_RDWR | O_CREAT | O_EXCL, 0700), 0x90);
	unlink(path);
	memfd = map_deleted(memfd_create("jit", 0), 0x91);
	jit = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE | PROT_EXEC,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ok(gone != MAP_FAILED && memfd != MAP_FAILED && jit != MAP_FAILED,
	   "executable memory without files");
	jit[4096 * 1000] = 0xc3;
	if (pipe(thread_pipe) || pipe(ready) ||
	    pthread_create(&t, NULL, wait_thread, &ready[1]) ||
	    read(ready[0], &c, 1) != 1)
		return;
	o.tids = &self;
	o.n_tids = 1;
	ok(!run(&o, &r), "this process");
	ok(write(thread_pipe[1], "x", 1) == 1 && !pthread_join(t, NULL),
	   "the thread ends");
	is_u64(r.n_processes, 1, "one process");
	ok(r.n_threads >= 2, "%" PRIu64 " threads", r.n_threads);
	snprintf(text, sizeof(text), "COMM %d/", self);
	ok(has_record(text, " a thread"), "the thread's name");
	snprintf(text, sizeof(text), "MMAP2 %d ", self);
	ok(has_record(text, " [vdso]"), "the vdso's map");
	ok(has_record(text, "/lib gone.so (deleted)"), "the deleted file");
	ok(has_record(text, " /memfd:jit (deleted)"), "the memfd");
	ok(has_record(text, " 7/2 2 //anon"), "the generated code");
	is_u64(code_at((uint32_t)self, (uintptr_t)gone + 4095, AUX_CODE_FILE),
	       0x90, "bytes of the deleted file");
	is_u64(code_at((uint32_t)self, (uintptr_t)memfd, AUX_CODE_FILE), 0x91,
	       "bytes of the memfd");
	is_u64(code_at((uint32_t)self, (uintptr_t)jit + 4096 * 1000,
		       AUX_CODE_ANON), 0xc3, "bytes of the generated code");
	ok(r.n_code < 16 << 20, "untouched pages are not saved");
	is_u64(r.n_code_unread, 0, "nothing unread");
	munmap(gone, 4096);
	munmap(memfd, 4096);
	munmap(jit, 64 << 20);
}

/* MMAP2 with the build id that the file has. */
static void test_build_id(void)
{
	struct synth_proc_options o = { .build_ids = true,
					.id = { .id = 77, .cpu = -1u } };
	struct synth_proc_result r;
	uint8_t id[BUILDID_MAX];
	pid_t self = getpid();
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct cursor c;
	bool found = false;
	int size;

	exe[n < 0 ? 0 : n] = '\0';
	size = buildid_read(exe, id);
	if (size <= 0) {
		skip("tools: the linker makes no build ids");
		return;
	}
	o.tids = &self;
	o.n_tids = 1;
	ok(!run(&o, &r), "with build ids");
	c = data;
	while (cursor_left(&c) >= 8) {
		uint32_t type = cursor_u32(&c), misc = cursor_u16(&c);
		uint32_t len = cursor_u16(&c);
		const uint8_t *p = cursor_bytes(&c, len - 8);

		if (!p || type != PERF_RECORD_MMAP2 ||
		    strcmp((const char *)p + 64, exe))
			continue;
		found = misc & PERF_RECORD_MISC_MMAP_BUILD_ID &&
			p[32] == size && !memcmp(p + 36, id, (size_t)size);
	}
	ok(found, "the build id of this program in its map");
}

/* Late from the start: what was left out is counted. */
static void test_timeout(void)
{
	struct synth_proc_options o = { .timeout_ms = 1,
					.id = { .id = 77, .cpu = -1u } };
	struct synth_proc_result r;
	char name[64];
	int i;

	for (i = 100; i < 2100; i++) {
		snprintf(name, sizeof(name), "%d/status", i);
		put(name, "Name:\tq\nTgid:\t%d\nPid:\t%d\nPPid:\t1\n", i, i);
		snprintf(name, sizeof(name), "%d/task/%d/comm", i, i);
		put(name, "q\n");
		snprintf(name, sizeof(name), "%d/task/%d/maps", i, i);
		put(name, "00400000-00401000 r-xp 0 08:01 9 /z\n");
	}
	o.proc = proc;
	ok(!run(&o, &r), "2000 processes in a millisecond");
	ok(r.timed_out, "it takes longer");
	ok(r.n_processes + r.n_unreadable + r.n_gone >= 2003,
	   "%" PRIu64 " read, %" PRIu64 " counted", r.n_processes,
	   r.n_unreadable);
}

int main(void)
{
	char command[sizeof(dir) + 16];

	if (!mkdtemp(dir))
		return 1;
	snprintf(out, sizeof(out), "%s/out.data", dir);
	snprintf(proc, sizeof(proc), "%s/proc", dir);
	test_fake();
	test_fake_all();
	test_self();
	test_build_id();
	test_timeout();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (!getenv("KEEP") && system(command))
		return 1;
	return plan_done();
}
