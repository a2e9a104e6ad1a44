/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as what /proc says of a process ("@@ maps", "@@ comm", "@@ status",
 * "@@ stat") and as the perf map that it writes ("@@ map"): names that the process
 * chose. What the recorder makes of them reads back whole, and the perf map is in it
 * byte for byte.
 */
#include <errno.h>
#include <sys/stat.h>

#include "capture/describe/describe.h"
#include "tests/fuzz/files.h"

#define PID 10

static char proc[96], out_path[112];

/* table */
static const struct {
	const char *name, *to;
} places[] = {
	{ "maps", "10/task/10/maps" }, { "comm", "10/task/10/comm" },
	{ "status", "10/status" }, { "stat", "10/stat" },
	{ "kallsyms", "kallsyms" }, { "modules", "modules" },
};

static void end_proc(void)
{
	char path[160];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", proc, places[i].to);
		unlink(path);
	}
	unlink(out_path);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const dirs[] = { "/10/task/10", "/10/task",
						    "/10", "" };

		snprintf(path, sizeof(path), "%s%s", proc, dirs[i]);
		rmdir(path);
	}
}

static void start_proc(void)
{
	char path[160];

	if (*proc)
		return;
	snprintf(proc, sizeof(proc), "/dev/shm/auxkit-fuzz-proc-XXXXXX");
	ASSERT(mkdtemp(proc));
	snprintf(out_path, sizeof(out_path), "%s/out", proc);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const dirs[] = { "/10", "/10/task",
						    "/10/task/10" };

		snprintf(path, sizeof(path), "%s%s", proc, dirs[i]);
		ASSERT(!mkdir(path, 0700));
	}
	atexit(end_proc);
}

/* Links what files_make wrote to where /proc has it. */
static void place_files(void)
{
	char from[160], to[160];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(from, sizeof(from), "%s/%s", files_dir, places[i].name);
		snprintf(to, sizeof(to), "%s/%s", proc, places[i].to);
		unlink(to);
		if (link(from, to))
			ASSERT(errno == ENOENT || errno == EEXIST);
	}
}

static void record(struct writer *w)
{
	const pid_t tids[] = { PID };
	struct synth_proc_options o = { .proc = proc, .tids = tids,
					.n_tids = 1, .kernel = true,
					.id = { .id = 77, .cpu = -1u } };
	struct synth_proc_result r = { 0 };
	struct aux_diag diag = { 0 };
	struct jitfiles *j;
	char map[96];

	synth_proc(w, &o, &r, &diag);
	snprintf(map, sizeof(map), "%s/map", files_dir);
	ASSERT(!jitfiles_new(&j, proc) && !jitfiles_add_dump(j, PID, map));
	ASSERT(!jitfiles_save(j, w));
	jitfiles_free(j);
}

static void walk(void)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;

	ASSERT(!aux_reader_open(&r, out_path, &diag));
	files_walk(r);
	aux_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct perf_event_attr a = { .type = 1, .config = 9, .size = sizeof(a),
				     .sample_id_all = 1,
				     .sample_type = SYNTH_SAMPLE_TYPE };
	struct aux_diag diag = { 0 };
	struct writer *w;
	uint64_t id = 77;

	start_proc();
	files_make(data, len);
	place_files();
	unlink(out_path);
	ASSERT(!writer_open(&w, out_path, NULL, &diag));
	ASSERT(!writer_attr_add(w, &a, "dummy", &id, 1));
	record(w);
	ASSERT(!writer_close(w, &diag));
	walk();
	return 0;
}
