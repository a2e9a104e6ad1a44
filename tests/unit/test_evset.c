/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Sets of events on this machine's kernel: which events are opened on which CPU or thread,
 * which ring each one writes to, and what the rings deliver.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include "capture/event/auxpmu.h"
#include "tests/unit/evset_list.h"

#define RING_PAGES 8

static void nap_ms(long ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

struct maps {
	struct perf_event_mmap_page *page[64];
	size_t n;
};

static size_t ring_bytes(void)
{
	return (size_t)(RING_PAGES + 1) * (size_t)sysconf(_SC_PAGESIZE);
}

static bool map_rings(struct maps *m, const struct evset *s)
{
	m->n = 0;
	for (; m->n < s->n_rings && m->n < 64; m->n++) {
		m->page[m->n] = mmap(NULL, ring_bytes(), PROT_READ | PROT_WRITE,
				     MAP_SHARED, s->rings[m->n].fd, 0);
		if (m->page[m->n] == MAP_FAILED)
			return false;
	}
	return true;
}

static void unmap_rings(struct maps *m)
{
	while (m->n)
		munmap(m->page[--m->n], ring_bytes());
}

/* Records of a type in all rings, and of samples those of an event. */
static unsigned count_records(const struct maps *m, uint32_t type)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = RING_PAGES * page;
	unsigned n = 0;
	size_t i;

	for (i = 0; i < m->n; i++) {
		uint64_t head = __atomic_load_n(&m->page[i]->data_head,
						__ATOMIC_ACQUIRE);
		uint64_t at = head > size ? head : 0;

		while (at < head) {
			struct perf_event_header h;
			const char *p = (const char *)m->page[i] + page;

			memcpy(&h, p + at % size, sizeof(h));
			if (!h.size)
				break;
			n += h.type == type;
			at += h.size;
		}
	}
	return n;
}

static uint64_t data_bytes(const struct maps *m)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < m->n; i++)
		sum += __atomic_load_n(&m->page[i]->data_head,
				       __ATOMIC_ACQUIRE);
	return sum;
}

static char *const spin_argv[] = {
	(char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c",
	(char *)(uintptr_t)"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
	NULL,
};

static void test_child(void)
{
	struct target_spec spec = { .argv = spin_argv };
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	struct evlist l;
	struct target t;
	struct evset s;
	struct maps m;
	size_t i, distinct = 0, hint = 0;

	make_list(&l, ev);
	if (!ok(!target_open(&t, &spec, &diag), "a program") ||
	    !ok(!evset_open(&s, &l, &t, &diag), "events open %s", diag.text))
		return;
	is_u64(s.n_rings, t.n_cpus, "a ring for each CPU");
	is_u64(s.n_fds, 2 * t.n_cpus, "an fd for each event and CPU");
	ok(l.events[0].attr.enable_on_exec && l.events[0].attr.disabled,
	   "enabled by exec");
	for (i = 1; i < s.n_fds; i++)
		distinct += s.fds[i].id != s.fds[i - 1].id && s.fds[i].id;
	is_u64(distinct, s.n_fds - 1, "ids differ");
	ok(map_rings(&m, &s) && !evset_attach(&s, &l, &diag), "rings mapped");
	nap_ms(20);
	is_u64(data_bytes(&m), 0, "nothing before the exec");
	ok(evset_ring_live(&s, 0, &hint) == s.rings[0].fd, "its task lives");
	ok(!target_start(&t, &diag), "started");
	target_wait(&t);
	ok(count_records(&m, PERF_RECORD_COMM) == 1, "its name, once: %u",
	   count_records(&m, PERF_RECORD_COMM));
	ok(count_records(&m, PERF_RECORD_EXIT) == 1, "its end, once");
	ok(count_records(&m, PERF_RECORD_MMAP2) > 0, "its maps");
	ok(count_records(&m, PERF_RECORD_SAMPLE) > 0, "samples in the same "
	   "rings: %u", count_records(&m, PERF_RECORD_SAMPLE));
	ok(evset_ring_live(&s, 0, &hint) == -1, "no task lives");
	ok(!evset_disable(&s, &diag), "disabled");
	unmap_rings(&m);
	evset_close(&s);
	target_close(&t);
}

static void *spin_thread(void *arg)
{
	volatile int *stop = arg;

	while (!*stop)
		;
	return NULL;
}

/* -p of ourselves with two more threads, per CPU or per thread. */
static void test_process(bool per_thread)
{
	char text[32];
	struct target_spec spec = { .pids = text, .per_thread = per_thread };
	const char *mode = per_thread ? "per thread" : "per CPU";
	volatile int stop = 0;
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	pthread_t th[2];
	struct evlist l;
	struct target t;
	struct evset s;
	struct maps m;
	uint64_t bytes;
	int i;

	for (i = 0; i < 2; i++)
		pthread_create(&th[i], NULL, spin_thread, (void *)&stop);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	make_list(&l, ev);
	ev[0].attr.inherit = ev[1].attr.inherit = !per_thread;
	if (!ok(!target_open(&t, &spec, &diag) && t.n_tids == 3 &&
		!evset_open(&s, &l, &t, &diag), "%s: three threads %s", mode,
		diag.text))
		goto out;
	is_u64(s.n_rings, per_thread ? 3 : t.n_cpus, "rings");
	is_u64(s.n_fds, 2 * 3 * (per_thread ? 1 : t.n_cpus), "fds");
	ok(!ev[0].attr.enable_on_exec, "not enabled by exec");
	ok(map_rings(&m, &s) && !evset_attach(&s, &l, &diag), "%s: attached %s",
	   mode, diag.text);
	nap_ms(20);
	is_u64(data_bytes(&m), 0, "nothing before they are enabled");
	ok(!evset_enable(&s, &l, &diag), "enabled");
	/* the threads spin, but may have to wait for a CPU */
	for (i = 0; i < 300 && count_records(&m, PERF_RECORD_SAMPLE) <= 5; i++)
		nap_ms(100);
	ok(count_records(&m, PERF_RECORD_SAMPLE) > 5, "%s: samples: %u", mode,
	   count_records(&m, PERF_RECORD_SAMPLE));
	ok(!evset_disable(&s, &diag), "disabled");
	bytes = data_bytes(&m);
	nap_ms(50);
	is_u64(data_bytes(&m), bytes, "nothing more comes");
	unmap_rings(&m);
	evset_close(&s);
out:
	stop = 1;
	for (i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	target_close(&t);
}

static void test_wide(void)
{
	struct target_spec spec = { .all_cpus = true };
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	struct evlist l;
	struct target t;
	struct evset s;

	make_list(&l, ev);
	if (target_open(&t, &spec, &diag))
		return;
	if (evset_open(&s, &l, &t, &diag)) {
		ok(strstr(diag.text, "perf_event_paranoid") != NULL, "%s",
		   diag.text);
		target_close(&t);
		return;
	}
	is_u64(s.n_fds, 2 * t.n_cpus, "-a: an fd for each event and CPU");
	ok(s.cpu_wide_switch && s.fds[0].tid == -1, "switches of all tasks");
	evset_close(&s);
	spec = (struct target_spec){ .cgroup = "/" };
	target_close(&t);
	if (!target_open(&t, &spec, &diag)) {
		if (!evset_open(&s, &l, &t, &diag))
			ok(s.n_fds > 0, "-G: the root cgroup");
		else if (strstr(diag.text, "hierarchy"))
			skip("hardware: perf_event is of a hierarchy that is "
			     "not mounted");
		else
			ok(false, "-G: the root cgroup: %s", diag.text);
		evset_close(&s);
	}
	target_close(&t);
}

/* A dummy for all tasks beside events of our own task. */
static void test_any_task(void)
{
	char text[32];
	struct target_spec spec = { .tids = text };
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	struct evlist l;
	struct target t;
	struct evset s;
	size_t i, n_any = 0;

	snprintf(text, sizeof(text), "%d", (int)getpid());
	make_list(&l, ev);
	ev[1].any_task = true;
	if (!ok(!target_open(&t, &spec, &diag) &&
		!evset_open(&s, &l, &t, &diag), "any task %s", diag.text))
		return;
	for (i = 0; i < s.n_fds; i++)
		n_any += s.fds[i].event == 1 && s.fds[i].tid == -1;
	is_u64(n_any, s.cpu_wide_switch ? t.n_cpus : 0,
	       "all of its fds, or none");
	is_u64(s.n_fds, 2 * t.n_cpus, "one on each CPU either way");
	evset_close(&s);
	target_close(&t);
}

static const struct auxpmu_ops fake_aux = { .name = "fake" };

/* Which ring each event writes to; two events claim an AUX area. */
static void test_rings(void)
{
	char text[32];
	struct target_spec spec = { .tids = text, .cpus = "0" };
	struct aux_diag diag = { 0 };
	struct evlist_event ev[5];
	struct evlist l;
	struct target t;
	struct evset s;

	snprintf(text, sizeof(text), "%d", (int)getpid());
	memset(ev, 0, sizeof(ev));
	make_list(&l, ev);
	ev[4] = ev[1];
	ev[4].leader = 4;
	ev[1] = ev[2] = ev[3] = ev[0];
	ev[0].aux = ev[1].aux = &fake_aux;
	ev[1].leader = 1;
	ev[2].leader = 2;
	ev[2].attr.write_backward = 1;
	ev[3].leader = 0;	/* a member */
	l.n = 5;
	l.n_aux = 2;
	l.sideband = 4;
	if (!ok(!target_open(&t, &spec, &diag) &&
		!evset_open(&s, &l, &t, &diag), "five events %s", diag.text))
		return;
	is_u64(s.n_rings, 3, "rings: two AUX, one backward");
	ok(s.rings[0].aux_event == 0 && s.rings[1].aux_event == 1 &&
	   s.rings[2].aux_event == -1 && s.rings[2].backward,
	   "in the order of the events");
	ok(s.fds[3].event == 3 && s.fds[3].ring == 0 && s.fds[4].ring == 0,
	   "the others write to the first");
	is_u64(evset_aux_enable(&s, &l, true), 0, "AUX events on");
	is_u64(evset_aux_restart(&s, &l, 1), 0, "one started again");
	is_u64(evset_aux_enable(&s, &l, false), 0, "AUX events off");
	evset_close(&s);
	target_close(&t);
}

static void all(void)
{
	test_child();
	test_process(false);
	test_process(true);
	test_wide();
	test_any_task();
	test_rings();
}

int main(void)
{
	return run_tests(all);
}
