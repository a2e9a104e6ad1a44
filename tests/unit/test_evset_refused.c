/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Sets of events that cannot be opened completely: which events are dropped, which are
 * refused, and the message in each case.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/unit/evset_list.h"

static int open_with(struct evlist *l, struct aux_diag *diag)
{
	char text[32];
	struct target_spec spec = { .tids = text, .per_thread = true };
	struct target t;
	struct evset s;
	int ret;

	snprintf(text, sizeof(text), "%d", (int)getpid());
	ret = target_open(&t, &spec, diag);
	if (!ret)
		ret = evset_open(&s, l, &t, diag);
	if (!ret)
		evset_close(&s);
	target_close(&t);
	return ret;
}

static void test_refused(void)
{
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	struct pmu pmu = { .cpus = (int[]){ 9999 }, .n_cpus = 1 };
	struct target_spec spec = { .tids = "0", .cpus = "0" };
	struct target t;
	struct evlist l;
	struct evset s;
	char text[32];

	make_list(&l, ev);
	ev[0].attr.config = 9999;
	ok(open_with(&l, &diag) == -AUX_E_UNSUPPORTED, "%s", diag.text);
	make_list(&l, ev);
	ev[0].attr.type = 99999;
	ok(open_with(&l, &diag) == -AUX_E_UNSUPPORTED, "%s", diag.text);
	make_list(&l, ev);
	ev[0].attr.size = 4096;	/* and what is behind it in ev is not zero */
	ok(open_with(&l, &diag) == -AUX_E_UNSUPPORTED &&
	   strstr(diag.text, "first"), "%s", diag.text);
	make_list(&l, ev);
	ev[0].attr.aux_output = 1;
	ok(open_with(&l, &diag) == -AUX_E_UNSUPPORTED, "%s", diag.text);
	make_list(&l, ev);
	ev[0].pmu = &pmu;
	snprintf(text, sizeof(text), "%d", (int)getpid());
	spec.tids = text;
	ok(!target_open(&t, &spec, &diag) &&
	   evset_open(&s, &l, &t, &diag) == -AUX_E_TARGET &&
	   strstr(diag.text, "PMU"), "%s", diag.text);
	target_close(&t);
}

/* Threads that end meanwhile are passed over; all of them is an error. */
static void test_gone(void)
{
	struct aux_diag diag = { 0 };
	pid_t tids[2] = { getpid(), 0 }, pid = fork();
	int any = -1;
	struct target t = { .cpus = &any, .n_cpus = 1, .tids = tids,
		.n_tids = 2, .per_thread = true, .cgroup_fd = -1 };
	struct evlist_event ev[2];
	struct evlist l;
	struct evset s;

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	tids[1] = pid;
	make_list(&l, ev);
	ok(!evset_open(&s, &l, &t, &diag) && s.gone == 2 && s.n_fds == 2,
	   "a thread that has ended is passed over %s", diag.text);
	evset_close(&s);
	tids[0] = pid;
	ok(evset_open(&s, &l, &t, &diag) == -AUX_E_TARGET, "%s", diag.text);
	evset_close(&s);
}

static void test_nofile(void)
{
	struct rlimit was, few;
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	struct evlist l;
	int ret;

	getrlimit(RLIMIT_NOFILE, &was);
	few = was;
	few.rlim_cur = (rlim_t)count_fds();
	make_list(&l, ev);
	setrlimit(RLIMIT_NOFILE, &few);
	ret = open_with(&l, &diag);
	getrlimit(RLIMIT_NOFILE, &few);
	setrlimit(RLIMIT_NOFILE, &was);
	ok(!ret && few.rlim_cur > (rlim_t)count_fds(),
	   "the limit of open files is raised %s", diag.text);
}

static void test_filter(void)
{
	struct aux_diag diag = { 0 };
	struct evlist_event ev[2];
	char filter[] = "filter 0x0/0x10@/bin/true", text[32];
	struct target_spec spec = { .tids = text, .per_thread = true };
	struct target t;
	struct evlist l;
	struct evset s;

	make_list(&l, ev);
	ev[0].filter = filter;
	snprintf(text, sizeof(text), "%d", (int)getpid());
	ok(!target_open(&t, &spec, &diag) && !evset_open(&s, &l, &t, &diag) &&
	   evset_filter(&s, &l, &diag) == -AUX_E_INVAL &&
	   strstr(diag.text, "cpu-clock"), "%s", diag.text);
	evset_close(&s);
	target_close(&t);
}

static void all(void)
{
	test_refused();
	test_gone();
	test_nofile();
	test_filter();
}

int main(void)
{
	return run_tests(all);
}
