/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/* What --when says: kinds, names, times; and what it is to the kernel. */
#include <signal.h>
#include <string.h>

#include "capture/event/trigger.h"
#include "tests/unit/tap.h"

static struct triggers list;

static const struct trigger *parse(const char *text)
{
	struct aux_diag diag;

	triggers_fini(&list);
	return trigger_add(&list, text, &diag) ? NULL : &list.v[0];
}

static void test_functions(void)
{
	const struct trigger *t = parse("serve");

	ok(t && t->kind == TRIGGER_FUNCTION && !strcmp(t->name, "serve") && !t->path &&
	   !t->longer_ns, "a name");
	t = parse("shop::till::ring(unsigned int) > 200us");
	ok(t && !strcmp(t->name, "shop::till::ring(unsigned int)") &&
	   t->longer_ns == 200000, "a name of C++, and a time");
	t = parse("std::vector<int>::push_back");
	ok(t && !strcmp(t->name, "std::vector<int>::push_back") && !t->longer_ns,
	   "a template is no time");
	t = parse("read @ libc.so.6 > 1.5ms");
	ok(t && !strcmp(t->name, "read") && !strcmp(t->path, "libc.so.6") &&
	   t->longer_ns == 1500000, "of a file");
	t = parse("0x401136");
	ok(t && !t->name && t->addr == 0x401136, "an address");
	ok(!parse("0x40113z") && !parse("f > 0") && !parse("f > 2x") && !parse(" > 2us") &&
	   !parse("f @ ") && !parse("/a(/") && !parse(""), "what is none of these");
}

static void test_places(void)
{
	const struct trigger *t = parse("shop/till.cc:25 @ moments");

	ok(t && t->kind == TRIGGER_LINE && !strcmp(t->name, "shop/till.cc") && t->line == 25 &&
	   !strcmp(t->path, "moments"), "a line");
	t = parse("main.c:7");
	ok(t && t->kind == TRIGGER_LINE && t->line == 7, "of any file");
	t = parse("a::b1");
	ok(t && t->kind == TRIGGER_FUNCTION, "a name of C++ is no line");
	ok(!parse("main.c:7 > 2us"), "a line takes no time");
	t = parse("usdt:shop:sale @ moments");
	ok(t && t->kind == TRIGGER_USDT && !strcmp(t->name, "shop:sale") &&
	   !strcmp(t->path, "moments"), "USDT");
	ok(!parse("usdt:shop") && !parse("usdt::x") && !parse("usdt:shop:") &&
	   !parse("usdt:a:b > 2us"), "which is a point and has two names");
	t = parse("kprobe:vfs_read > 1ms");
	ok(t && t->kind == TRIGGER_KPROBE && !strcmp(t->name, "vfs_read") && !t->addr &&
	   t->longer_ns == 1000000 && !t->filter, "a function of the kernel that takes long");
	t = parse("kprobe:vfs_read+0x10/common_pid == 7/");
	ok(t && t->kind == TRIGGER_KPROBE && !strcmp(t->name, "vfs_read") && t->addr == 16 &&
	   !strcmp(t->filter, "common_pid == 7"), "a place in one, with a filter");
	ok(!parse("kprobe:") && !parse("kprobe:f/x") && !parse("kprobe:f+") &&
	   !parse("kprobe:f+4x") && !parse("kprobe:f+4 > 2us"), "what is none of these");
	t = parse("page-faults");
	ok(t && t->kind == TRIGGER_COUNTER && !strcmp(t->name, "page-faults"),
	   "what the kernel counts");
	t = parse("cpu-clock");
	ok(t && t->kind == TRIGGER_FUNCTION, "a clock is nothing that happens");
	ok(parse("signal=oom")->kind == TRIGGER_OOM, "no memory");
}

static void test_signals(void)
{
	const struct trigger *t = parse("signal=SEGV");

	ok(t && t->kind == TRIGGER_SIGNAL && t->signo == SIGSEGV, "a signal");
	t = parse("signal=SIGABRT");
	ok(t && t->signo == SIGABRT, "with SIG");
	t = parse("signal=34");
	ok(t && t->signo == 34, "a number");
	t = parse("signal=crash");
	ok(t && t->kind == TRIGGER_CRASH && parse("crash")->kind == TRIGGER_CRASH &&
	   parse("exit")->kind == TRIGGER_EXIT, "a crash, an end");
	ok(!parse("signal=") && !parse("signal=0") && !parse("signal=65") &&
	   !parse("signal=NONE"), "no signals");
	ok(trigger_is_fatal(SIGSEGV) && !trigger_is_fatal(SIGTERM) && !trigger_is_fatal(0),
	   "which leave a core file");
}

static void test_kernel(void)
{
	char event[128], filter[256], label[TRIGGER_LABEL];
	const struct trigger_moment m = { 12345678901, 251004, 4711, 4712, 1 };
	const struct trigger *t = parse("sched:sched_switch/prev_pid == 1/");

	ok(t && trigger_tracepoint(t, event, sizeof(event), filter, sizeof(filter)) &&
	   !strcmp(event, "sched:sched_switch") && !strcmp(filter, "prev_pid == 1"),
	   "a tracepoint and its filter");
	t = parse("sched:sched_switch");
	ok(t && trigger_tracepoint(t, event, sizeof(event), filter, sizeof(filter)) &&
	   !*filter, "without one");
	t = parse("signal=USR1");
	ok(t && trigger_tracepoint(t, event, sizeof(event), filter, sizeof(filter)) &&
	   !strcmp(event, "signal:signal_deliver") && !strcmp(filter, "sig == 10"),
	   "a signal");
	t = parse("crash");
	ok(t && trigger_tracepoint(t, event, sizeof(event), filter, sizeof(filter)) &&
	   !strncmp(filter, "sa_handler == 0 && (sig == 11 || ", 33) &&
	   filter[strlen(filter) - 1] == ')', "a crash: %s", filter);
	t = parse("a:b/c");
	ok(t && t->kind == TRIGGER_FUNCTION, "a filter ends");
	t = parse("f > 200us");
	ok(t && !trigger_tracepoint(t, event, sizeof(event), filter, sizeof(filter)),
	   "a function is no tracepoint");
	trigger_label(t, &m, label);
	is_str(label, "f > 200us: 4711/4712 on cpu 1 at 12.345678901, took 251.004 us",
	       "a label");
}

int main(void)
{
	struct aux_diag diag;

	test_functions();
	test_places();
	test_signals();
	test_kernel();
	triggers_fini(&list);
	for (unsigned i = 0; i < TRIGGERS_MAX; i++)
		trigger_add(&list, "f", &diag);
	ok(list.n == TRIGGERS_MAX && trigger_add(&list, "f", &diag), "no more than there is "
	   "room for");
	triggers_fini(&list);
	return plan_done();
}
