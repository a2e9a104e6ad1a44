/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Records for what existed before the recording, from a /proc made by hand, which has every
 * case.
 */
#include <stdarg.h>
#include <sys/stat.h>

#include "tests/unit/synth_proc_file.h"

static char proc[128];

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
	if (!make_dir())
		return 1;
	snprintf(proc, sizeof(proc), "%s/proc", dir);
	test_fake();
	test_fake_all();
	test_timeout();
	if (!remove_dir())
		return 1;
	return plan_done();
}
