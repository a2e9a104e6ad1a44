/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * self_count: the smallest program that uses <aux/self.h>. It counts the instructions
 * of a piece of its own code without a system call, and times it on perf's clock.
 *
 *	cc -Iinclude tools/examples/self_count.c -o self_count
 *	self_count
 *
 * On a machine without hardware counters (many virtual machines) it counts the task
 * clock instead, which the kernel keeps; aux_self_count_read then calls read(2).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <aux/self.h>

/* An event that counts the calling thread in user code. Returns its descriptor, or -1
 * with errno set. */
static int open_event(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = type;
	attr.config = config;
	attr.exclude_kernel = 1; /* permitted at perf_event_paranoid 2 */
	attr.exclude_hv = 1;
	/* what aux_self_count_read expects of read(2) */
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			   PERF_FORMAT_TOTAL_TIME_RUNNING;
#if defined(__aarch64__)
	if (type == PERF_TYPE_HARDWARE)
		attr.config1 = 2; /* rdpmc: allow user space to read the counter */
#endif
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1,
			    PERF_FLAG_FD_CLOEXEC);
}

static uint64_t work(void)
{
	volatile uint64_t sum = 0;

	for (uint64_t i = 0; i < 1000000; i++)
		sum += i;
	return sum;
}

int main(void)
{
	const char *unit = "instructions";
	struct aux_self_count before, after, diff;
	struct perf_event_mmap_page *page;
	uint64_t start = 0, end = 0;
	int fd, ret, timed;

	fd = open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	if (fd < 0) {
		unit = "ns of task clock";
		fd = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK);
	}
	if (fd < 0) {
		perror("self_count: perf_event_open");
		return 1;
	}
	/* The first page alone: counting needs no ring. */
	page = (struct perf_event_mmap_page *)mmap(
		NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		perror("self_count: mmap");
		return 1;
	}

	timed = !aux_self_now(page, &start);
	ret = aux_self_count_read(page, fd, &before);
	work();
	if (!ret)
		ret = aux_self_count_read(page, fd, &after);
	timed = timed && !aux_self_now(page, &end);
	if (ret) {
		fprintf(stderr, "self_count: aux_self_count_read: error %d\n", -ret);
		return 1;
	}

	/* Other events may have used the hardware counter part of the time. */
	diff.value = after.value - before.value;
	diff.enabled_ns = after.enabled_ns - before.enabled_ns;
	diff.running_ns = after.running_ns - before.running_ns;
	printf("%" PRIu64 " %s, %s\n", aux_self_scaled(&diff), unit,
	       aux_self_count_read(page, -1, &after) ? "by read(2)" : "from the page");
	if (timed)
		printf("%" PRIu64 " ns on perf's clock\n", end - start);
	else
		printf("no perf clock in the page\n");
	return 0;
}
