/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch: what happens to the machine and to auxcap itself while it records, and
 * that no ring tells.
 *
 * When a CPU goes offline the kernel takes the events of any task off it, for
 * good: the stream ends there without a record, and stays silent when the CPU
 * is back. So the list of online CPUs is compared, and the kernel's messages
 * about devices (uevents) are read, which tell of a CPU that was away between
 * two looks, and at once. The ledger says which stream misses what; when the
 * CPU is back, its events are opened again on the old rings. Events of tasks
 * are not affected: a task does not run there.
 *
 * Everything here runs on the main thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "capture/describe/describe.h"
#include "capture/record/impl.h"
#include "common/clock.h"

#define ONLINE "/sys/devices/system/cpu/online"
#define LOOK_MS 100
#define CPUS_MAX 8192
#define SLEPT_NS 10000000	/* CLOCK_BOOTTIME ahead of CLOCK_MONOTONIC by more */

#define CLOSE_NS 1000000	/* of one clock, read before and after the other */
#define MAX_READS 8

static uint64_t read_ns(clockid_t clock)
{
	struct timespec t = { 0 };

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * How long the machine has slept since it was booted: at least and at most. Another
 * program may run between the reading of both clocks, for longer than a short sleep.
 */
static void slept_ns(uint64_t *least, uint64_t *most)
{
	uint64_t before, boot, after, best = UINT64_MAX;

	for (int i = 0; i < MAX_READS && best > CLOSE_NS; i++) {
		before = read_ns(CLOCK_MONOTONIC);
		boot = read_ns(CLOCK_BOOTTIME);
		after = read_ns(CLOCK_MONOTONIC);
		if (after - before >= best)
			continue;
		best = after - before;
		*least = boot > after ? boot - after : 0;
		*most = boot - before;
	}
}

/* The list as the kernel prints it; "" where it cannot be read. */
static void read_online(char *text, size_t len)
{
	int fd = open(ONLINE, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, len - 1);

	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

/* Without this socket, as in a container, the list alone tells. */
void watch_open(struct kernel *k)
{
	struct sockaddr_nl at = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	struct rec_watch *v = &k->watch;
	uint64_t least;

	slept_ns(&least, &v->slept_ns);
	v->looked_ms = clock_ms();
	read_online(v->online, sizeof(v->online));
	v->fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       NETLINK_KOBJECT_UEVENT);
	if (v->fd >= 0 && bind(v->fd, (struct sockaddr *)&at, sizeof(at))) {
		close(v->fd);
		v->fd = -1;
	}
}

void watch_close(struct kernel *k)
{
	if (k->watch.fd >= 0)
		close(k->watch.fd);
	k->watch.fd = -1;
}

/* Whether the ring has an event that ends when its CPU goes: one of any
 * task. */
static bool depends_on_cpu(const struct kernel *k, size_t ring)
{
	size_t i;

	for (i = 0; i < k->set.n_fds; i++)
		if (k->set.fds[i].ring == ring && k->set.fds[i].tid < 0 &&
		    k->set.fds[i].cpu >= 0)
			return true;
	return false;
}

/* The ring's CPU has gone. All locks are held, and the rings were read. */
static int enter_offline(struct kernel *k, size_t ring, uint64_t now)
{
	struct rec_ring *rr = &k->recorder->rings[ring];

	if (rr->offline || !depends_on_cpu(k, ring))
		return 0;
	rr->offline = true;
	return rec_enter_end(k->recorder, rr, AUX_LEDGER_OFFLINE, now);
}

/* PERF_RECORD_ID_INDEX of the events that were opened again, and their ids with
 * the attrs. */
static int describe_again(struct kernel *k, int cpu)
{
	struct writer *w = output_writer(k->out);
	size_t i;
	int ret = 0;

	for (i = 0; i < k->set.n_fds && !ret; i++) {
		const struct evset_fd *f = &k->set.fds[i];
		struct aux_rec_id_index_entry e = {
			.id = f->id, .idx = f->ring, .cpu = (uint64_t)cpu,
			.tid = UINT64_MAX,
		};

		if (f->cpu != cpu || f->tid >= 0)
			continue;
		ret = writer_attr_more(w, f->event, f->id);
		if (!ret)
			ret = synth_id_index(w, &e, 1);
	}
	return ret;
}

/* The CPU is back. A pipe has said already which ids there are: nothing is
 * opened again there, and the gap lasts to the end. */
static int enter_online(struct kernel *k, int cpu, uint64_t now)
{
	struct recorder *r = k->recorder;
	bool any = false;
	size_t i;
	int ret;

	for (i = 0; i < r->n_rings; i++)
		any |= r->rings[i].offline && r->rings[i].set->cpu == cpu;
	if (!any || output_is_pipe(k->out))
		return 0;
	if (evset_reopen(&k->set, &k->events, cpu, k->target.cgroup_fd))
		return 0;	/* gone again, or refused: still missing */
	ret = describe_again(k, cpu);
	if (!ret)
		evset_reopened(&k->set, &k->events, cpu, k->enabled);
	for (i = 0; i < r->n_rings; i++) {
		struct rec_ring *rr = &r->rings[i];

		if (!rr->offline || rr->set->cpu != cpu)
			continue;
		rr->offline = false;
		rr->reopened = true;
		ledger_until(k->ledger, rr->aux ? rr->idx : LEDGER_NO_STREAM,
			     AUX_LEDGER_OFFLINE, now);
	}
	return ret;
}

/* Whether the kernel's list, "0-3,6", has the CPU. */
static bool in_list(const char *text, long cpu)
{
	char *end;

	while (*text >= '0' && *text <= '9') {
		long first = strtol(text, &end, 10), last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
		text = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* CPUs that were not there when the recording began have no events: what runs
 * on them is not traced. Entered once for each. */
static void enter_new(struct kernel *k, const char *online, uint64_t now)
{
	const struct target *t = &k->target;
	const char *was = k->watch.online;
	long cpu;
	size_t i;

	if (t->per_thread || k->o->target.cpus)
		return;
	for (cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!in_list(online, cpu) || in_list(was, cpu))
			continue;
		for (i = 0; i < t->n_cpus && t->cpus[i] != cpu; i++)
			;
		if (i == t->n_cpus)
			ledger_add(k->ledger, LEDGER_NO_STREAM,
				   AUX_LEDGER_OFFLINE, 0, now, now);
	}
}

/* Compares each ring's CPU with the list. blinked: this CPU went, and may be
 * back. */
static int compare(struct kernel *k, const char *online, long blinked)
{
	struct recorder *r = k->recorder;
	uint64_t now;
	size_t i;
	int ret = recorder_hold(r);

	now = recorder_now(r);
	for (i = 0; i < r->n_rings && !ret; i++) {
		long cpu = r->rings[i].set->cpu;

		if (cpu >= 0 && (cpu == blinked || !in_list(online, cpu)))
			ret = enter_offline(k, i, now);
	}
	for (i = 0; i < r->n_rings && !ret; i++) {
		long cpu = r->rings[i].set->cpu;

		if (r->rings[i].offline && in_list(online, cpu))
			ret = enter_online(k, (int)cpu, now);
	}
	recorder_release(r);
	return ret;
}

/* "offline@/devices/system/cpu/cpu3": that CPU; -1: something else. */
static long offline_cpu(const char *text)
{
	static const char prefix[] = "offline@/devices/system/cpu/cpu";

	if (strncmp(text, prefix, sizeof(prefix) - 1))
		return -1;
	return strtol(text + sizeof(prefix) - 1, NULL, 10);
}

static int read_uevents(struct kernel *k)
{
	char text[4096], online[sizeof(k->watch.online)];
	ssize_t n;
	int ret = 0;

	while (!ret && k->watch.fd >= 0 &&
	       (n = recv(k->watch.fd, text, sizeof(text) - 1, 0)) > 0) {
		long cpu;

		text[n] = '\0';
		cpu = offline_cpu(text);
		if (cpu < 0)
			continue;
		read_online(online, sizeof(online));
		if (*online)
			ret = compare(k, online, cpu);
	}
	return ret;
}

/* We were stopped, and may have been for long: the time of the last look is the
 * last that is known before it. What was lost meanwhile the rings tell. */
void watch_continued(struct kernel *k)
{
	uint64_t now = recorder_now(k->recorder);
	uint64_t away = (clock_ms() - k->watch.looked_ms) * 1000000;

	ledger_add(k->ledger, LEDGER_NO_STREAM, AUX_LEDGER_HALTED, 1,
		   now > away ? now - away : 0, now);
}

static void look_for_sleep(struct kernel *k)
{
	uint64_t least, most, now;

	slept_ns(&least, &most);
	if (least < k->watch.slept_ns + SLEPT_NS)
		return;
	k->watch.slept_ns = most;
	now = recorder_now(k->recorder);
	ledger_add(k->ledger, LEDGER_NO_STREAM, AUX_LEDGER_SUSPENDED, 1, now,
		   now);
}

int watch_look(struct kernel *k, bool final)
{
	char online[sizeof(k->watch.online)];
	uint64_t now = clock_ms();
	int ret = read_uevents(k);
	bool waits = false;
	size_t i;

	if (ret || (!final && now - k->watch.looked_ms < LOOK_MS))
		return ret;
	k->watch.looked_ms = now;
	look_for_sleep(k);
	read_online(online, sizeof(online));
	for (i = 0; i < k->recorder->n_rings; i++)
		waits |= k->recorder->rings[i].offline;
	if (!*online || (!waits && !strcmp(online, k->watch.online)))
		return 0;
	enter_new(k, online, recorder_now(k->recorder));
	memcpy(k->watch.online, online, sizeof(online));
	return compare(k, online, -1);
}
