/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * regular, mapped: a name that leads to no regular file is not opened, by what reads
 * files that a recording names; the file of an address. elf: what is unpacked is
 * counted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/mapped.h"
#include "common/regular.h"
#include "decode/lib/elf/elf.h"
#include "perfdata/perfdata.h"
#include "tests/unit/tap.h"

#define CORPUS "fixtures/corpus/elf/"

static char fifo[256], file[256];

/* Was it opened since it is watched? The kernel tells of each open(2), but not of
 * one with O_PATH. */
static bool was_opened(int watch)
{
	char buf[4096];

	return read(watch, buf, sizeof(buf)) > 0;
}

static void not_opened(void)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	uint8_t id[BUILDID_MAX];
	struct elfimage *im;
	struct stat st;
	int fd;

	ok(inotify_add_watch(watch, fifo, IN_OPEN) >= 0 &&
	   inotify_add_watch(watch, file, IN_OPEN) >= 0, "two files are watched");
	fd = regular_open(fifo, &st);
	ok(fd < 0 && errno == EINVAL && S_ISFIFO(st.st_mode), "a FIFO is refused");
	ok(!was_opened(watch), "and was not opened");
	ok(elfimage_open(&im, fifo) < 0 && !was_opened(watch), "nor as an image");
	ok(buildid_read(fifo, id) < 0 && !was_opened(watch), "nor for a build id");
	fd = regular_open(file, &st);
	ok(fd >= 0 && st.st_size == 3, "a file is opened");
	ok(was_opened(watch), "which the watch tells");
	close(fd);
	close(watch);
	ok(regular_open("/nonexistent/x", &st) < 0 && errno == ENOENT && !st.st_mode,
	   "a name of nothing");
	ok(regular_open("/", &st) < 0 && errno == EINVAL && S_ISDIR(st.st_mode),
	   "a directory");
}

static void found(void)
{
	uint64_t offset = 0, len = 3;
	const char *name = "";
	struct stat st;
	int fd = regular_open(file, &st);
	const char *p = mapped_open(fd, len, file), *q;

	ok(p && !memcmp(p, "abc", 3), "a file is mapped");
	ok(mapped_find(p + 2, &name, &offset) && offset == 2 && !strcmp(name, file),
	   "an address of it is found");
	ok(!mapped_find(p + 3, &name, &offset) && !mapped_find(p - 1, &name, &offset),
	   "one beside it is not");
	q = mapped_open(fd, len, "x\n");
	ok(mapped_find(q, &name, &offset) && !strcmp(name, "x?"), "names are for people");
	mapped_close(p, len);
	ok(!mapped_find(p, &name, &offset) && mapped_find(q, &name, &offset),
	   "one that is unmapped is not found, the other is");
	mapped_close(q, len);
	ok(!mapped_open(-1, len, "none"), "no file, no mapping");
	close(fd);
}

#ifdef HAVE_Z
static void unpacked(void)
{
	struct elfimage *im;

	ok(mapped_charge(MAPPED_MADE_MAX - 100), "all but 100 bytes are used up");
	ok(elfimage_open(&im, CORPUS "exe.gz") == -AUX_E_LIMIT, "a packed file does not fit");
	ok(!elfimage_open(&im, CORPUS "exe"), "one that is not packed does");
	elfimage_close(im);
	mapped_discharge(MAPPED_MADE_MAX - 100);
	ok(!elfimage_open(&im, CORPUS "exe.gz"), "and the other one once there is room");
	ok(!mapped_charge(MAPPED_MADE_MAX), "it is counted");
	elfimage_close(im);
	ok(mapped_charge(MAPPED_MADE_MAX), "until it is closed");
	mapped_discharge(MAPPED_MADE_MAX);
}
#else
static void unpacked(void)
{
	skip("built without zlib");
}
#endif

int main(void)
{
	const char *dir = getenv("SCRATCH");
	FILE *f;

	snprintf(fifo, sizeof(fifo), "%s/regular.fifo", dir ? dir : "/tmp");
	snprintf(file, sizeof(file), "%s/regular.file", dir ? dir : "/tmp");
	unlink(fifo);
	f = fopen(file, "w");
	ok(!mkfifo(fifo, 0600) && f && fputs("abc", f) >= 0 && !fclose(f), "a FIFO and a file");
	not_opened();
	found();
	unpacked();
	unlink(fifo);
	unlink(file);
	return plan_done();
}
