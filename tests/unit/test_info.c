/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * info: namespaces, cgroups and guests of a file, with names that want to break the
 * line; and the cgroup column of insn, from the file to the line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "decode/cmd/cmd.h"
#include "decode/cmd/impl.h"
#include "tests/unit/mkpt.h"
#include "tests/unit/mkside.h"

#define ID(pid, tid, time) ((struct mk_id){ pid, tid, time, 0 })
#define TEXT UINT64_C(0xffffffff81000000)
#define MODULES UINT64_C(0xffffffffc0000000)

/* ID_INDEX of one event, which counts in a guest. */
static void put_index(struct mk *m, uint32_t machine)
{
	const uint64_t index[] = { 1, 1, 0, 0, UINT64_MAX, machine, 3 };
	size_t at = mk_begin(m, AUX_RECORD_ID_INDEX, 0);

	mk_put(m, index, sizeof(index));
	mk_end(m, at, NULL);
}

/* Runs a command on the file; returns its output, to be freed. */
static char *run(struct mk *m, const char *command, struct cmd_options o)
{
	char path[] = "/tmp/auxkit-test-XXXXXX", *text = calloc(1, 65536);
	char result[sizeof(path) + 4];
	int fd = mkstemp(path);
	FILE *f;

	if (fd < 0 || !text || write(fd, m->p, m->n) != (ssize_t)m->n) {
		printf("Bail out! no file in /tmp\n");
		exit(1);
	}
	close(fd);
	snprintf(result, sizeof(result), "%s.out", path);
	o.command = cmd_find(command);
	o.path = path;
	o.output.path = result;
	is_u64((uint64_t)o.command->run(&o), CMD_OK, command);
	f = fopen(result, "r");
	if (f) {
		text[fread(text, 1, 65535, f)] = 0;
		fclose(f);
	}
	unlink(path);
	unlink(result);
	return text;
}

/* The part of info between the side-band's times and the streams. */
static void is_part(struct mk *m, const char *want, const char *what)
{
	char *text = run(m, "info", (struct cmd_options){ 0 });
	char *part = strstr(text, "side-band: "), *end;

	part = part ? strchr(part, '\n') + 1 : text;
	end = strstr(part, "AUX streams:");
	if (end)
		*end = 0;
	is_str(part, want, what);
	free(text);
	free(m->p);
}

static void namespaces(void)
{
	struct mk m;

	mk_init(&m, 0);
	mk_comm(&m, ID(1, 1, 1), false, "init");
	mk_namespaces(&m, ID(1, 1, 1), 10, 15);
	mk_fork(&m, ID(5, 5, 2), 1, 1);
	mk_fork(&m, ID(6, 6, 3), 1, 1);
	mk_comm(&m, ID(6, 6, 4), true, "a\033b");
	mk_namespaces(&m, ID(6, 6, 5), 20, 25);
	mk_fork(&m, ID(6, 7, 6), 6, 6);
	mk_fork(&m, ID(6, 8, 7), 6, 6);
	mk_namespaces(&m, ID(6, 8, 8), 20, 15);
	mk_finish(&m);
	is_part(&m, "namespaces: all of the first process, and in which others "
		    "differ from it\n"
		    "  2 threads, the first 1/1 init: net:[10] uts:[11] "
		    "ipc:[12] pid:[13] user:[14] mnt:[15] cgroup:[16]\n"
		    "  2 threads, the first 6/6 a?b: net:[20] mnt:[25]\n"
		    "  1 thread, the first 6/8 a?b: net:[20]\n",
		"namespaces: threads in the same ones share a line");
}

static void cgroups(void)
{
	struct mk m;

	mk_init(&m, 0);
	mk_cgroup(&m, 72, "/system.slice/x\ny");
	mk_cgroup(&m, 7, "/");
	mk_comm(&m, ID(1, 1, 1), false, "init");
	mk_finish(&m);
	is_part(&m, "cgroups: id and path\n"
		    "  72 /system.slice/x?y\n"
		    "  7 /\n", "cgroups in the order of the file");
}

static void guests(void)
{
	const struct mk_id id = ID(10, 11, 1);
	struct mk m;

	mk_init(&m, 0);
	mk_comm(&m, ID(77, 77, 1), false, "kvm\t");
	mk_mmap1(&m, PERF_RECORD_MISC_GUEST_KERNEL, 0, 0, TEXT, 0x1000, TEXT,
		 "[guest.kernel.kallsyms]_text");
	mk_mmap1(&m, PERF_RECORD_MISC_GUEST_KERNEL, 77, 0, MODULES, 0x1000, 0,
		 "[kvm_intel]");
	mk_mmap1(&m, PERF_RECORD_MISC_GUEST_USER, 77, 0, 0x1000, 0x1000, 0,
		 "/init");
	mk_finish(&m);
	is_part(&m, "guests: what records tell of them\n"
		    "  the only guest: 0 processes, 0 threads, "
		    "[guest.kernel.kallsyms] at 0xffffffff81000000\n"
		    "  of process 77 kvm?: 1 process, 0 threads, 1 module\n",
		"guests by cpumode");
	for (uint32_t machine = 0; machine < 4322; machine += 4321) {
		mk_init(&m, 0);
		put_index(&m, machine);
		mk_comm(&m, id, false, "x");
		mk_finish(&m);
		is_part(&m, machine ? "guests: what records tell of them\n"
				      "  of process 4321 : 1 process, "
				      "1 thread\n" : "",
			machine ? "a guest by ID_INDEX" :
				  "events of the host are no guest's");
	}
}

/* User code from entry to system call, four times; the third is another thread's. */
static void cgroup_column(void)
{
	const struct cmd_options all = { .filter = { .tid = -1, .cpu = -1,
						     .stream = -1,
						     .time_to = UINT64_MAX } };
	const struct command *insn = cmd_find("insn");
	struct perf_event_attr a[2] = { mk_attr(MK_PMU, 0x400),
					mk_attr(PERF_TYPE_SOFTWARE, 0) };
	void *own = calloc(1, insn->sink->config_size);
	struct cmd_options o = all;
	struct pt p = { .n = 0 };
	const struct option_row *row;
	struct aux_diag diag;
	char *text;
	struct mk m;

	pt_psb(&p, 5, 0);
	pt_mode64(&p);
	for (uint64_t t = 100; t < 500; t += 100) {
		pt_tsc(&p, t);
		pt_pge(&p, t == 300 ? 0x2002 : 0x1002);
		pt_pgd(&p);
	}
	a[1].sample_type |= PERF_SAMPLE_CGROUP;
	mk_init_attrs(&m, a, 2);
	mk_pt_info(&m);
	mk_cgroup(&m, 72, "/b");
	mk_cgroup(&m, 71, "/a");
	mk_switch(&m, ID(10, 10, 100), false);
	mk_cgroup_sample(&m, 2, ID(10, 10, 150), 71);
	mk_cgroup_sample(&m, 2, ID(10, 10, 250), 72);
	mk_switch(&m, ID(20, 20, 300), false);
	mk_switch(&m, ID(10, 10, 400), false);
	mk_auxtrace(&m, 0, 0, UINT32_MAX, 0, p.b, p.n);
	mk_feature(&m, AUX_FEAT_AUXKIT_CODE, &mk_syscalls, sizeof(mk_syscalls));
	mk_finish(&m);
	row = option_find(insn->sink->options, "fields");
	ok(own && row && row->parse(row, own, "tid,cgroup,ip", &diag) == 0,
	   "-F takes cgroup");
	o.own = own;
	text = run(&m, "insn", o);
	is_str(text, "10 - 1002\n10 /a 1002\n20 - 2002\n10 /b 1002\n",
	       "the cgroup of each time");
	free(text);
	free(own);
	free(m.p);
}

/* What perf 6.16 to 7.3 write, by number, has a name. */
static void newest(void)
{
	static const struct { uint32_t type; const char *name; } records[] = {
		{ 83, "COMPRESSED2" }, { 84, "BPF_METADATA" },
		{ 85, "SCHEDSTAT_CPU" }, { 86, "SCHEDSTAT_DOMAIN" },
	};
	static const struct { unsigned bit; const char *name; } features[] = {
		{ 32, "cpu_domain_info" }, { 33, "e_machine" }, { 34, "cln_size" },
	};
	const uint64_t zeros[4] = { 0 };
	struct cmd_options o = { 0 };
	struct mk m;
	char *text;

	mk_init(&m, 0);
	for (size_t i = 2; i < 4; i++) {	/* the others are read */
		size_t at = mk_begin(&m, records[i].type, 0);

		mk_put(&m, zeros, sizeof(zeros));
		mk_end(&m, at, NULL);
	}
	for (size_t i = 0; i < 3; i++)
		mk_feature(&m, features[i].bit, zeros, sizeof(zeros));
	mk_finish(&m);
	o.own = calloc(1, cmd_find("dump")->own->config_size);
	text = run(&m, "dump", o);
	free((void *)(uintptr_t)o.own);
	for (size_t i = 2; i < 4; i++)
		ok(strstr(text, records[i].name) != NULL, "%s", records[i].name);
	ok(!strstr(text, "TYPE_"), "no record is only a number");
	free(text);
	text = run(&m, "info", (struct cmd_options){ 0 });
	for (size_t i = 0; i < 3; i++)
		ok(strstr(text, features[i].name) != NULL, "%s", features[i].name);
	ok(!strstr(text, "feature_"), "no feature is only a number");
	free(text);
	free(m.p);
	for (size_t i = 0; i < 4; i++) {
		struct name_buf buf;

		is_str(record_name(records[i].type, &buf), records[i].name,
		       records[i].name);
	}
}

int main(void)
{
	newest();
	namespaces();
	cgroups();
	guests();
	cgroup_column();
	return plan_done();
}
