/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The tracing data byte by byte from a hand-made tracefs; the errors a user
 * meets; the real one, where it is mounted and may be read.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bytes.h"
#include <sys/wait.h>
#include <sys/mount.h>
#include <sched.h>

#include "capture/event/evlist.h"
#include "tests/unit/tap.h"

static char root[] = "/tmp/auxkit-tracing.XXXXXX";

static void put(const char *name, const char *text)
{
	char path[256], *p;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "we");
	if (f && fputs(text, f) >= 0)
		fclose(f);
}

static void make_tracefs(void)
{
	put("events/header_page", "the page\n");
	put("events/header_event", "the event\n");
	put("events/sched/sched_switch/format", "name: sched_switch\n");
	put("events/sched/sched_switch/id", "316\n");
	put("events/sched/sched_waking/format", "name: sched_waking\n");
	put("events/irq/irq_handler_entry/format", "name: irq\n");
}

/* The next len bytes are these. */
static void is_bytes(struct cursor *c, const void *want, size_t len,
		     const char *what)
{
	const uint8_t *p = cursor_bytes(c, len);

	ok(p && !memcmp(p, want, len), "%s", what);
}

static void is_text(struct cursor *c, const char *want)
{
	is_u64(cursor_u64(c), strlen(want), "its size");
	is_bytes(c, want, strlen(want), "its text");
}

static void test_layout(void)
{
	static const char *const events[] = {
		"sched:sched_switch", "irq:irq_handler_entry",
		"sched:sched_waking", "sched:sched_switch",
	};
	struct aux_diag diag = { 0 };
	struct cursor c;
	void *data;
	size_t len;

	put("printk_formats", "0xffff : \"x\"\n");
	ok(!tracing_data(root, events, 4, &data, &len, &diag), "made");
	c = cursor_init(data, len, false);
	is_bytes(&c, "\x17\x08\x44tracing0.6", 14, "magic and version");
	is_u64(cursor_u8(&c), 0, "little endian");
	is_u64(cursor_u8(&c), sizeof(long), "size of long");
	is_u64(cursor_u32(&c), sysconf(_SC_PAGESIZE), "page size");
	is_bytes(&c, "header_page", 12, "header_page");
	is_text(&c, "the page\n");
	is_bytes(&c, "header_event", 13, "header_event");
	is_text(&c, "the event\n");
	is_u64(cursor_u32(&c), 0, "no events of ftrace");
	is_u64(cursor_u32(&c), 2, "two subsystems");
	is_bytes(&c, "sched", 6, "sched");
	is_u64(cursor_u32(&c), 2, "two events, one of them given twice");
	is_text(&c, "name: sched_switch\n");
	is_text(&c, "name: sched_waking\n");
	is_bytes(&c, "irq", 4, "irq");
	is_u64(cursor_u32(&c), 1, "one event");
	is_text(&c, "name: irq\n");
	is_u64(cursor_u32(&c), 0, "no kallsyms");
	is_u64(cursor_u32(&c), 13, "printk formats");
	is_bytes(&c, "0xffff : \"x\"\n", 13, "printk formats");
	is_u64(cursor_u64(&c), 0, "no command lines");
	ok(!c.bad && !cursor_left(&c), "nothing behind");
	free(data);
}

/* Root may read everything: a child that is nobody asks. */
static void test_refused(void)
{
	struct aux_diag diag = { 0 };
	char path[256];
	int status = 1;
	pid_t pid;

	put("events/secret/x/id", "1\n");
	snprintf(path, sizeof(path), "%s/events/secret", root);
	chmod(path, 0);
	chmod(root, 0755);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (!geteuid() && setresuid(65534, 65534, 65534))
			_exit(2);
		_exit(tracing_id(root, "secret", "x", &diag) != -AUX_E_IO ||
		      !strstr(diag.text, "remount"));
	}
	ok(waitpid(pid, &status, 0) == pid && !status,
	   "what may not be read is an error that says how to mend it");
	chmod(path, 0755);
}

static void test_errors(void)
{
	static const char *const missing[] = { "sched:no_such" };
	static const char *const bad[] = { "sched", ":x", "x:", "../x:y",
					   "x:../y", "a:b:c" };
	struct aux_diag diag = { 0 };
	size_t i, len;
	void *data;

	is_u64(tracing_id(root, "sched", "sched_switch", &diag), 316, "id");
	ok(tracing_id(root, "sched", "no_such", &diag) == -AUX_E_NOENT &&
	   strstr(diag.text, "no such tracepoint"), "%s", diag.text);
	ok(tracing_id(NULL, "sched", "sched_switch", &diag) == -AUX_E_IO &&
	   strstr(diag.text, "mount -t tracefs"), "%s", diag.text);
	ok(tracing_data(root, missing, 1, &data, &len, &diag) == -AUX_E_NOENT &&
	   !data, "%s", diag.text);
	ok(tracing_data(NULL, missing, 1, &data, &len, &diag) == -AUX_E_IO,
	   "no tracefs");
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ok(tracing_data(root, bad + i, 1, &data, &len, &diag) ==
		   -AUX_E_INVAL, "'%s' is refused", bad[i]);
	test_refused();
}

/* In a name space of its own, for a machine where nobody has mounted it. */
static const char *mount_tracefs(void)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/real", root);
	if (mkdir(path, 0755) || unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("nodev", path, "tracefs", 0, NULL))
		return NULL;
	return path;
}

static void test_real(void)
{
	static const char *const events[] = { "sched:sched_switch" };
	const char *real = tracing_root();
	struct aux_diag diag = { 0 };
	size_t len = 0;
	void *data;
	int ret;

	if (!real)
		real = mount_tracefs();
	if (!real || tracing_id(real, "sched", "sched_switch", &diag) < 0) {
		skip("hardware: this kernel lets us see no tracefs");
		return;
	}
	ret = tracing_data(real, events, 1, &data, &len, &diag);
	ok(!ret && memmem(data, len, "prev_comm", 9),
	   "the kernel's own: %zu bytes", len);
	free(data);
}

int main(void)
{
	char command[sizeof(root) + 16];

	if (!mkdtemp(root))
		return 1;
	make_tracefs();
	test_layout();
	test_errors();
	test_real();
	snprintf(command, sizeof(command), "%s/real", root);
	umount(command);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	if (system(command))
		return 1;
	return plan_done();
}
