/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Records for what existed before the recording, of this process itself: it has a second
 * thread, generated code, a deleted library and a mapped memfd.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "perfdata/perfdata.h"
#include "tests/unit/emulated.h"
#include "tests/unit/synth_proc_file.h"

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

/* The maps of executable memory that no file is left of, and its bytes. */
static void test_code(const uint8_t *gone, const uint8_t *memfd, const uint8_t *jit)
{
	pid_t self = getpid();
	char text[64];

	snprintf(text, sizeof(text), "MMAP2 %d ", self);
	ok(has_record(text, "/lib gone.so (deleted)"), "the deleted file");
	ok(has_record(text, " /memfd:jit (deleted)"), "the memfd");
	ok(has_record(text, " 7/2 2 //anon"), "the generated code");
	is_u64(code_at((uint32_t)self, (uintptr_t)gone + 4095, AUX_CODE_FILE),
	       0x90, "bytes of the deleted file");
	is_u64(code_at((uint32_t)self, (uintptr_t)memfd, AUX_CODE_FILE), 0x91,
	       "bytes of the memfd");
	is_u64(code_at((uint32_t)self, (uintptr_t)jit + 4096 * 1000,
		       AUX_CODE_ANON), 0xc3, "bytes of the generated code");
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
	if (is_emulated())
		skip("emulated: no memory of this process is executable in /proc");
	else
		test_code(gone, memfd, jit);
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
	if (is_emulated())
		skip("emulated: the executable is qemu in /proc");
	else
		ok(found, "the build id of this program in its map");
}

int main(void)
{
	if (!make_dir())
		return 1;
	test_self();
	test_build_id();
	if (!remove_dir())
		return 1;
	return plan_done();
}
