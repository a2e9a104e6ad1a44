/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Source lines and inlined functions, of this program itself: from several threads,
 * and from bytes that are damaged. With arguments (FILE, addresses on standard
 * input) it answers as `addr2line -a -i -f -e FILE` does, for t_lines.sh.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <aux/error.h>

#include "decode/lib/elf/elf.h"
#include "tests/unit/tap.h"

#define MAX_FRAMES 64
#define N_THREADS  4

static volatile int number = 3;

static inline __attribute__((always_inline)) int twice(int n)
{
	return n * 2 + number;
}

enum { HERE_LINE = __LINE__ + 3 };
static __attribute__((noinline)) int here(int n)
{
	return twice(n) + number;
}

static void print_line(const struct source_line *l)
{
	printf("%s:%u\n", l->file ? l->file : "??", l->line);
}

static void print_name(const struct inline_frame *f)
{
	const char *name = f->linkage ? f->linkage : f->name;

	puts(name ? name : "??");
}

static void print_frames(struct elfimage *im, uint64_t addr)
{
	struct inline_frame f[MAX_FRAMES];
	struct source_line line = { 0 };
	uint64_t off, left;
	int n = 0;

	printf("0x%016" PRIx64 "\n", addr);
	if (elfimage_offset(im, addr, &off, &left)) {
		elfimage_line(im, off, &line);
		n = elfimage_inlines(im, off, f, MAX_FRAMES);
	}
	if (n <= 0) {
		puts("??");
		print_line(&line);
		return;
	}
	for (int i = 0; i < n && i < MAX_FRAMES; i++) {
		print_name(&f[i]);
		print_line(i ? &f[i - 1].call : &line);
	}
}

static int print_all(const char *path)
{
	struct elfimage *im;
	char text[64];

	if (elfimage_open(&im, path) < 0)
		return 1;
	elfimage_debug_from(im, "", path);
	while (fgets(text, sizeof(text), stdin))
		print_frames(im, strtoull(text, NULL, 16));
	elfimage_close(im);
	return 0;
}

static int find_base(struct dl_phdr_info *info, size_t size, void *priv)
{
	(void)size;
	*(uint64_t *)priv = info->dlpi_addr;
	return 1; /* the program comes first */
}

/* The offset in the file of here(). */
static uint64_t find_here(const struct elfimage *im)
{
	uint64_t base = 0, off = 0, left;

	dl_iterate_phdr(find_base, &base);
	elfimage_offset(im, (uint64_t)(uintptr_t)here - base, &off, &left);
	return off;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = s ? strlen(s) : 0, k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static void check_lines(struct elfimage *im, uint64_t at)
{
	struct inline_frame f[2];
	struct source_line line;
	unsigned n_inlined = 0;
	bool met = false;

	ok(elfimage_line(im, at, &line) == 0 &&
	   ends_with(line.file, "/tests/unit/test_sourceline.c") &&
	   line.file[0] == '/', "the file, with its directory");
	for (uint64_t i = at; i < at + 256; i++) {
		int n = elfimage_inlines(im, i, f, 2);

		if (n < 1 || n > 2 || f[n - 1].entry != at)
			break; /* another function */
		if (elfimage_line(im, i, &line) == 0 && line.line == HERE_LINE)
			met = true;
		if (n != 2)
			continue;
		n_inlined++;
		if (strcmp(f[0].name, "twice") || strcmp(f[1].name, "here") ||
		    f[0].call.line != HERE_LINE || f[1].call.line ||
		    f[0].entry < at || f[0].id == f[1].id)
			ok(0, "frames at %" PRIu64, i - at);
	}
	ok(met, "the line of a statement");
	ok(n_inlined, "an inlined function, its caller, and where");
	ok(elfimage_inlines(im, at, NULL, 0) >= 1, "how many, of none wanted");
	ok(elfimage_line(im, 1, &line) == -AUX_E_NOENT, "no line in a header");
	ok(elfimage_line(im, UINT64_MAX, &line) == -AUX_E_NOENT,
	   "no line beyond the file");
}

struct job {
	struct elfimage *im;
	uint64_t from, sum;
};

static void *ask(void *priv)
{
	struct job *j = priv;
	struct inline_frame f[MAX_FRAMES];
	struct source_line line;

	for (uint64_t i = 0; i < 20000; i += 3) {
		if (elfimage_line(j->im, j->from + i, &line) == 0)
			j->sum += line.line;
		j->sum += (uint64_t)elfimage_inlines(j->im, j->from + i, f,
						     MAX_FRAMES);
	}
	return NULL;
}

static void check_threads(const char *path, uint64_t at)
{
	struct job jobs[N_THREADS];
	pthread_t threads[N_THREADS];
	struct elfimage *im;
	bool same = true;

	if (!ok(elfimage_open(&im, path) == 0, "opened again"))
		return;
	for (int i = 0; i < N_THREADS; i++) {
		jobs[i] = (struct job){ im, at, 0 };
		pthread_create(&threads[i], NULL, ask, &jobs[i]);
	}
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(threads[i], NULL);
		same &= jobs[i].sum == jobs[0].sum;
	}
	ok(same && jobs[0].sum, "%d threads get the same", N_THREADS);
	elfimage_close(im);
}

/* All functions of the file, and whether here() is one, with its rows. */
static void check_list(struct elfimage *im, uint64_t at)
{
	const struct source_row *rows;
	struct elfimage_function *f;
	uint64_t off, left;
	size_t n, found = 0;

	if (!ok(elfimage_functions(im, &f, &n) == 0 && n > 50, "functions"))
		return;
	for (size_t i = 0; i < n; i++) {
		if (!elfimage_offset(im, f[i].entry, &off, &left) || off != at)
			continue;
		found += f[i].is_c && f[i].has_value && f[i].n_areas == 1 &&
			 f[i].line == HERE_LINE - 2 &&
			 elfimage_rows(im, f[i].entry, &rows) > 2 &&
			 rows->addr == f[i].entry;
	}
	ok(found == 1, "a function with its declaration and rows");
	free(f);
}

/*
 * Memory that malloc found elsewhere, since the heap cannot grow in place, is no want of
 * memory, though malloc leaves ENOMEM in errno: so it is on arm64 under qemu-user.
 */
static void check_memory(const char *path, uint64_t at)
{
	void *end = sbrk(0), *p, *old = NULL;
	struct elfimage_function *f = NULL;
	struct source_line line;
	struct elfimage *im;
	size_t n;

	p = mmap((void *)(((uintptr_t)end + 0xffff) & ~(uintptr_t)0xffff), 65536, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (!ok(elfimage_open(&im, path) == 0 && elfimage_line(im, at, &line) == 0,
		"opened once more"))
		return;
	errno = 0;
	/* Used up: what was left of the heap, and most of the megabyte that malloc then
	 * takes elsewhere. old is the list of what is taken. */
	for (int left = 1000, i = 0; i < 8192 && left; i++) {
		void **next = malloc(1024);

		if (!next)
			break;
		*next = old;
		old = next;
		left -= errno == ENOMEM;
	}
	ok(p != MAP_FAILED && errno == ENOMEM, "a heap that cannot grow in place");
	ok(elfimage_functions(im, &f, &n) == 0 && !elfimage_nomem(im),
	   "functions, and no word of a want of memory");
	free(f);
	elfimage_close(im);
	while (old) {
		void **next = *(void **)old;

		free(old);
		old = next;
	}
	if (p != MAP_FAILED)
		munmap(p, 65536);
}

int main(int argc, char **argv)
{
	struct elfimage *im;
	uint64_t at;

	if (argc > 1)
		return print_all(argv[1]);
	number = here(number);
	if (!ok(elfimage_open(&im, argv[0]) == 0, "this program"))
		return plan_done();
	at = find_here(im);
	check_lines(im, at);
	check_list(im, at);
	check_threads(argv[0], at);
	check_memory(argv[0], at);
	elfimage_close(im);
	return plan_done();
}
