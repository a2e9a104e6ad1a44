/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_fleet: runs the units of many recordings, here or by a scheduler that is there, and
 * joins what comes of them.
 *
 *	DIR/units	what plan prints
 *	DIR/parts/	a part for each unit that is done
 *	DIR/logs/	what each unit said
 *	DIR/index/	of recordings that have several units
 *	DIR/result	of all of them
 *	DIR/Makefile, DIR/task, DIR/finish	how others run them
 *
 * A unit that is done is not done again, so `fleet run` with the same words, or with
 * --resume alone, goes on with what was interrupted. Who schedules is told nothing but
 * commands: no more is known here of Slurm or make.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/markup.h"
#include "decode/cmd/units.h"

enum { ON_LOCAL = 0, ON_MAKE, ON_SLURM, ON_PARALLEL, ON_SSH };

struct fleet_options {
	struct plan_options plan;
	unsigned by, on;
	uint64_t per_task;	/* units in a task of Slurm; 0: as many as make few tasks */
	const char *hosts;	/* of ssh; NULL: none */
	bool resume;
};

/* table */
static const struct option_row fleet_rows[] = {
	UNITS_DO(struct fleet_options, plan.what),
	UNITS_BY(struct fleet_options, by),
	{ .name = "on", .arg = "WHERE", .values = "local make slurm parallel ssh",
	  .help = "local (the default): this machine's CPUs; make: a Makefile;\n"
		  "slurm: an array of jobs, and one that joins them;\n"
		  "parallel: a script that does task N, for whatever runs it;\n"
		  "ssh: the machines of --hosts, which have the same files",
	  OPTION_CHOICE(struct fleet_options, on) },
	{ .name = "unit-size", .arg = "SIZE", .help = "trace in a unit, about (default 64M)",
	  .zero = "wants at least 1 byte", OPTION_SIZE(struct fleet_options, plan.unit_size) },
	{ .name = "hosts", .arg = "HOST,...",
	  .help = "ssh: where tasks run, N/HOST: N at a time (default: its CPUs)",
	  OPTION_TEXT(struct fleet_options, hosts) },
	{ .name = "resume",
	  .help = "go on with the run that DIR has; begin none. Without INPUTs: with those,\n"
		  "and with the --do, that it was begun with",
	  OPTION_FLAG(struct fleet_options, resume) },
	{ .name = "per-task", .arg = "N",
	  .help = "slurm, parallel, ssh: units in a task (default: at most 1000 tasks)",
	  .zero = "wants at least one", OPTION_NUMBER(struct fleet_options, per_task) },
	{ .name = NULL },
};

const struct cmd_own cmd_fleet_own = {
	.options = fleet_rows, .config_size = sizeof(struct fleet_options),
};

#define MAX_SLOTS 1024	/* tasks at a time on one machine, by ssh */
#define MAX_SAID 10	/* units without a part, by status */
#define TASKS 1000	/* at most, by default: Slurm's MaxArraySize is 1001 */

struct fleet {
	const struct cmd_options *o;
	const struct fleet_options *own;
	const struct fleet_kind *kind;
	const char *dir;
	struct fleet_plan_list list;
	bool *done;		/* by unit */
	size_t n_done, n_failed;
};

/* ---- files of the directory ---- */

static char *path_in(const struct fleet *f, const char *name, const char *end)
{
	char *path = NULL;

	return asprintf(&path, "%s/%s%s", f->dir, name, end) < 0 ? NULL : path;
}

static int fail(const char *path)
{
	struct aux_diag diag;

	diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s", strerror(errno));
	return cmd_error(path, &diag);
}

static int make_dir(const struct fleet *f, const char *name)
{
	char *path = path_in(f, name, "");
	int status = CMD_OK;

	if (!path || (mkdir(path, 0777) && errno != EEXIST))
		status = fail(path ? path : f->dir);
	free(path);
	return status;
}

/* A file is made as a whole or not at all. */
static int write_file(const struct fleet *f, const char *name, const struct outbuf *text,
		      mode_t mode)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct outfile to = OUTFILE_NONE;
	char *path = path_in(f, name, "");
	size_t n = (size_t)(text->p - text->buf), at = 0;
	int rc = path && !outbuf_failed(text) ? outfile_open(&to, path, mode, 0, &diag) :
						-AUX_E_NOMEM;

	while (!rc && at < n) {
		ssize_t w = write(to.fd, text->buf + at, n - at);

		if (w < 0 && errno != EINTR)
			rc = diag_set(&diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s", path,
				      strerror(errno));
		at += w > 0 ? (size_t)w : 0;
	}
	if (!rc)
		rc = outfile_commit(&to, &diag);
	else
		outfile_discard(&to);
	free(path);
	return rc ? cmd_failed(NULL, rc, &diag) : CMD_OK;
}

/* Is the file just this text? */
static bool is_same(const char *path, const struct outbuf *text)
{
	size_t n = (size_t)(text->p - text->buf);
	char *got = malloc(n + 1);
	FILE *f = fopen(path, "re");
	bool same = got && f && fread(got, 1, n + 1, f) == n && !memcmp(got, text->buf, n);

	if (f)
		fclose(f);
	free(got);
	return same;
}

static int nothing_to_resume(const char *path)
{
	return cmd_usage("%s has no run to resume: without --resume one begins", path);
}

/* The plan: of a directory that has one already, it must be the same. */
static int settle_plan(const struct fleet *f)
{
	struct outbuf *text = outbuf_new(-1);
	char *path = path_in(f, "units", "");
	int status = CMD_OK;

	if (!text || !path) {
		status = fail(f->dir);
	} else {
		fleet_plan_write(&f->list, f->kind, false, text);
		if (access(path, F_OK) && f->own->resume)
			status = nothing_to_resume(f->dir);
		else if (access(path, F_OK))
			status = write_file(f, "units", text, 0666);
		else if (!is_same(path, text))
			status = cmd_usage("%s is of another plan: its inputs, --do or "
					   "--unit-size differ; name another directory", path);
	}
	outbuf_free(text);
	free(path);
	return status;
}

static char *part_of(const struct fleet *f, size_t i, const char *dir, const char *end)
{
	char name[FLEET_NAME], *path = NULL;

	fleet_unit_text(name, &f->list.v[i].unit);
	return asprintf(&path, "%s/%s/%s%s", f->dir, dir, name, end) < 0 ? NULL : path;
}

/* A part is written under its name when it is complete. */
static void look_done(struct fleet *f, size_t i)
{
	char *path = f->done[i] ? NULL : part_of(f, i, "parts", ".part");

	if (path && !access(path, R_OK)) {
		f->done[i] = true;
		f->n_done++;
	}
	free(path);
}

static int find_done(struct fleet *f)
{
	f->done = calloc(f->list.n + 1, sizeof(*f->done));
	if (!f->done)
		return fail(f->dir);
	for (size_t i = 0; i < f->list.n; i++)
		look_done(f, i);
	return CMD_OK;
}

/* Of each recording that has several units to be done: one that cannot have an index is
 * decoded without it, and what is wrong with a recording its units say. */
static int make_indexes(const struct fleet *f)
{
	char *dir = path_in(f, "index", "");
	int status = dir ? make_dir(f, "index") : fail(f->dir);

	for (size_t i = 0; i < f->list.n && !status; i++) {
		const struct fleet_planned *u = &f->list.v[i];
		bool first = !i || strcmp(u->unit.id, u[-1].unit.id);

		if (first && !u->unit.whole && f->n_done < f->list.n)
			index_make(f->o, u->path, dir, false);
	}
	free(dir);
	return status;
}

/* ---- this machine ---- */

/* In a child: what it says goes into its log. */
static void run_unit(const struct fleet *f, size_t i)
{
	struct cmd_options o = *f->o;
	const struct fleet_planned *u = &f->list.v[i];
	char *log = part_of(f, i, "logs", ".log"), *part = part_of(f, i, "parts", ".part");
	char *indexes = path_in(f, "index", "");
	const char *paths[1] = { u->path };
	char name[FLEET_NAME];
	int fd = log ? open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;

	if (fd < 0 || !part || !indexes || dup2(fd, STDERR_FILENO) < 0)
		_exit(CMD_FAILED);
	o.output.path = part;
	o.output.progress = 0;
	o.path = u->path;
	o.paths = paths;
	o.n_paths = 1;
	o.decoding.n_workers = 1;
	_exit(fleet_map(&o, f->kind, fleet_unit_text(name, &u->unit), indexes));
}

struct running {
	pid_t pid;
	size_t unit;
};

/* Waits for one to end. */
static int reap(struct fleet *f, struct running *jobs, size_t *n)
{
	char name[FLEET_NAME];
	int how;
	pid_t pid;
	size_t i;

	do
		pid = waitpid(-1, &how, 0);
	while (pid < 0 && errno == EINTR);
	if (pid < 0)
		return fail(f->dir);
	for (i = 0; i < *n && jobs[i].pid != pid; i++)
		;
	if (i == *n)
		return CMD_OK;
	if (WIFEXITED(how) && (WEXITSTATUS(how) == CMD_OK || WEXITSTATUS(how) == CMD_GAPS)) {
		f->done[jobs[i].unit] = true;
		f->n_done++;
	} else {
		fleet_unit_text(name, &f->list.v[jobs[i].unit].unit);
		f->n_failed++;
		if (WIFSIGNALED(how))
			cmd_warn(f->list.v[jobs[i].unit].path, "unit %s was ended by signal %d",
				 name, WTERMSIG(how));
		else
			cmd_warn(f->list.v[jobs[i].unit].path, "unit %s failed: %s/logs/%s.log",
				 name, f->dir, name);
	}
	jobs[i] = jobs[--*n];
	return CMD_OK;
}

static int run_local(struct fleet *f)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t max = f->o->decoding.n_workers ? f->o->decoding.n_workers :
		     cpus > 0 ? (size_t)cpus : 1, n = 0;
	struct running *jobs = calloc(max, sizeof(*jobs));
	struct cmd_progress progress;
	int status = jobs ? CMD_OK : fail(f->dir);

	cmd_progress_init(&progress, f->o, "units");
	for (size_t i = 0; i < f->list.n && !status; i++) {
		pid_t pid;

		if (f->done[i])
			continue;
		while (n == max && !status)
			status = reap(f, jobs, &n);
		fflush(NULL);
		pid = status ? 0 : fork();
		if (!pid && !status)
			run_unit(f, i);
		if (pid < 0)
			status = fail(f->dir);
		else if (!status)
			jobs[n++] = (struct running){ pid, i };
		cmd_progress_show(&progress, f->n_done, f->list.n);
	}
	while (n && reap(f, jobs, &n) == CMD_OK)
		cmd_progress_show(&progress, f->n_done, f->list.n);
	cmd_progress_end(&progress);
	free(jobs);
	return status;
}

/* ---- commands for others ---- */

/* This program, in the shell's words. */
static void put_program(struct outbuf *out)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0) {
		outbuf_str(out, "auxdecode");
		return;
	}
	exe[n] = '\0';
	outbuf_shell(out, exe);
}

/* The program with a command, and with the user's options that say how code is found. */
static void put_command(struct outbuf *out, const char *name)
{
	struct outbuf *text = outbuf_new(-1);

	put_program(out);
	if (text)
		follow_put(text, name);
	else
		outbuf_fail(out, ENOMEM);
	if (text && text->p > text->buf + 9)	/* after "auxdecode" */
		outbuf_put(out, text->buf + 9, (size_t)(text->p - text->buf) - 9);
	outbuf_free(text);
}

static void put_map(const struct fleet *f, struct outbuf *out)
{
	put_command(out, "map");
	outbuf_printf(out, " -j1 --no-progress --do %s --index \"$dir/index\"", f->kind->name);
}

/* "cd" to where the user's words were typed, and the directory as $dir. */
static void put_place(const struct fleet *f, struct outbuf *out)
{
	char *cwd = getcwd(NULL, 0);

	outbuf_str(out, "dir=");
	outbuf_shell(out, f->dir);
	outbuf_str(out, " && cd ");
	outbuf_shell(out, cwd ? cwd : "/");
	free(cwd);
}

static void put_reduce(const struct fleet *f, struct outbuf *out)
{
	const char *by = FLEET_BY_VALUES;

	for (unsigned i = 0; i < f->own->by; i++)
		by = strchr(by, ' ') + 1;
	outbuf_str(out, "find \"$dir/parts\" -name '*.part' | LC_ALL=C sort "
			">\"$dir/parts.list\" && ");
	put_command(out, "reduce");
	outbuf_printf(out, " --units \"$dir/units\" --by %.*s -o \"$dir/result\" "
		      "\"@$dir/parts.list\"", (int)strcspn(by, " "), by);
}

/* $ is make(1)'s. */
static void put_make(struct outbuf *out, const struct outbuf *text)
{
	for (const char *s = text->buf; s < text->p; s++)
		outbuf_put(out, *s == '$' ? "$$" : s, *s == '$' ? 2 : 1);
}

static void put_rule(const struct fleet *f, size_t i, struct outbuf *line, struct outbuf *out)
{
	char name[FLEET_NAME];

	fleet_unit_text(name, &f->list.v[i].unit);
	outbuf_printf(out, "parts/%s.part:\n\t@", name);
	line->p = line->buf;
	put_place(f, line);
	outbuf_str(line, " && { ");
	put_map(f, line);
	outbuf_printf(line, " --unit %s -o \"$dir/parts/%s.part\" ", name, name);
	outbuf_shell(line, f->list.v[i].path);
	outbuf_printf(line, " 2>\"$dir/logs/%s.log\" || [ $? = 3 ]; }", name);
	put_make(out, line);
	outbuf_str(out, "\n");
}

static int write_makefile(const struct fleet *f)
{
	struct outbuf *out = outbuf_new(-1), *line = outbuf_new(-1);
	char name[FLEET_NAME];
	int status;

	if (out && line) {
		outbuf_str(out, "# make -j: units of auxdecode fleet; status 3 is gaps in the "
				"trace\nall: result\nPARTS =");
		for (size_t i = 0; i < f->list.n; i++)
			outbuf_printf(out, " \\\n\tparts/%s.part",
				      fleet_unit_text(name, &f->list.v[i].unit));
		outbuf_str(out, "\n");
		for (size_t i = 0; i < f->list.n; i++)
			put_rule(f, i, line, out);
		outbuf_str(out, "result: $(PARTS)\n\t@");
		line->p = line->buf;
		put_place(f, line);
		outbuf_str(line, " && { ");
		put_reduce(f, line);
		outbuf_str(line, " || [ $? = 3 ]; }");
		put_make(out, line);
		outbuf_str(out, "\n");
	}
	status = out && line ? write_file(f, "Makefile", out, 0666) : fail(f->dir);
	outbuf_free(out);
	outbuf_free(line);
	return status;
}

/* Lines of units; a name has what would end it escaped, as printf %b undoes. */
#define TASK_SCRIPT							\
	"tab=$(printf '\\t')\n"						\
	"sed -n \"$((from + 2)),$((to + 2))p\" \"$dir/units\" |\n"	\
	"while IFS=$tab read -r unit bytes ms file; do\n"		\
	"\tpart=$dir/parts/$unit.part\n"				\
	"\t[ -f \"$part\" ] && continue\n"				\
	"\tfile=$(printf '%b_' \"$file\")\n\t"

/* A task of an array: so many units, from that many times the task's number on. */
static int write_task(const struct fleet *f, uint64_t per)
{
	struct outbuf *out = outbuf_new(-1);
	int status;

	if (!out)
		return fail(f->dir);
	outbuf_str(out, "#!/bin/sh\n# A task: some lines of units. Gaps in the trace are no "
			"failure, and a unit that fails is not the others'.\n");
	put_place(f, out);
	outbuf_printf(out, " || exit 1\nfrom=$((${1:-${SLURM_ARRAY_TASK_ID:-"
			   "$JOB_COMPLETION_INDEX}} * %" PRIu64
		      "))\nto=$((from + %" PRIu64 "))\n", per, per - 1);
	outbuf_str(out, TASK_SCRIPT);
	put_map(f, out);
	outbuf_str(out, " --unit \"$unit\" -o \"$part\" \"${file%_}\" "
			"2>\"$dir/logs/$unit.log\" </dev/null\n"
			"\t[ -f \"$part\" ] || echo \"unit $unit failed\" >&2\n"
			"done\n");
	status = write_file(f, "task", out, 0777);
	outbuf_free(out);
	return status;
}

static int write_finish(const struct fleet *f)
{
	struct outbuf *out = outbuf_new(-1);
	int status;

	if (!out)
		return fail(f->dir);
	outbuf_str(out, "#!/bin/sh\n# What all tasks made, as one result; finish.log says what is "
			"missing.\n");
	put_place(f, out);
	outbuf_str(out, " || exit 1\n");
	put_reduce(f, out);
	outbuf_str(out, " 2>\"$dir/finish.log\"\nstatus=$?\n"
			"[ $status = 3 ] && status=0\nexit $status\n");
	status = write_file(f, "finish", out, 0777);
	outbuf_free(out);
	return status;
}

/* Runs a command and reads the number that its output begins with. 0: it failed. */
static uint64_t submit(const char *const *argv)
{
	int ends[2];
	char text[256] = "";
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int how = 0;

	if (pipe2(ends, O_CLOEXEC))
		return 0;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (dup2(ends[1], STDOUT_FILENO) >= 0)
			execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	while (pid > 0 && n < sizeof(text) - 1 &&
	       (got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &how, 0) < 0 || !WIFEXITED(how) || WEXITSTATUS(how))
		return 0;
	return strtoull(text, NULL, 10);
}

static uint64_t units_per_task(const struct fleet *f)
{
	return f->own->per_task ? f->own->per_task : (f->list.n + TASKS - 1) / TASKS;
}

static bool is_task_done(const struct fleet *f, uint64_t per, uint64_t task)
{
	for (size_t i = task * per; i < f->list.n && i < (task + 1) * per; i++)
		if (!f->done[i])
			return false;
	return true;
}

/* Tasks that have something to do, as "0-7,9"; how many. */
static uint64_t put_tasks(const struct fleet *f, uint64_t per, struct outbuf *out)
{
	uint64_t n = (f->list.n + per - 1) / per, n_tasks = 0, to;

	for (uint64_t i = 0; i < n; i = to + 1) {
		to = i;
		if (is_task_done(f, per, i))
			continue;
		while (to + 1 < n && !is_task_done(f, per, to + 1))
			to++;
		outbuf_printf(out, n_tasks ? ",%" PRIu64 : "%" PRIu64, i);
		if (to > i)
			outbuf_printf(out, "-%" PRIu64, to);
		n_tasks += to - i + 1;
	}
	outbuf_put(out, "", 1);
	return n_tasks;
}

/* What a number of a task does, and what joins them. */
static int write_scripts(const struct fleet *f, uint64_t per)
{
	int status = write_task(f, per);

	return status ? status : write_finish(f);
}

/* For GNU parallel, xargs, an indexed job of Kubernetes: whoever counts. */
static int write_parallel(const struct fleet *f)
{
	uint64_t per = units_per_task(f), n = (f->list.n + per - 1) / per;
	int status = write_scripts(f, per);

	if (!status)
		cmd_say(f->dir, "%" PRIu64 " tasks of %" PRIu64 " units: %s/task N does one, "
			"from 0 on, and %s/finish joins them; as in: seq 0 %" PRIu64
			" | parallel -S HOST,HOST %s/task && %s/finish", n, per, f->dir,
			f->dir, n - 1, f->dir, f->dir);
	return status;
}

/* The array, and what joins it whatever became of its tasks: the plan says what is
 * missing. */
static int run_slurm(struct fleet *f)
{
	uint64_t per = units_per_task(f), n, array, last;
	struct outbuf *range = outbuf_new(-1);
	char after[64], *log = path_in(f, "logs/slurm-%a.log", "");
	char *task = path_in(f, "task", ""), *finish = path_in(f, "finish", "");
	char *said = path_in(f, "finish.out", "");
	const char *tasks[] = { "sbatch", "--parsable", "--requeue", "--job-name=auxkit",
				NULL, "--output", log, task, NULL };
	const char *const end[] = { "sbatch", "--parsable", "--requeue",
				    "--job-name=auxkit-join", "--kill-on-invalid-dep=yes", after,
				    "--output", said, finish, NULL };
	int status = log && task && finish && said && range ? write_scripts(f, per) :
							      fail(f->dir);

	if (range)
		outbuf_str(range, "--array=");
	n = range ? put_tasks(f, per, range) : 0;
	if (!status && outbuf_failed(range))
		status = fail(f->dir);
	tasks[4] = range ? range->buf : NULL;
	array = status || !n ? 0 : submit(tasks);
	/* all are done: it is joined at once */
	snprintf(after, sizeof(after), n ? "--dependency=afterany:%" PRIu64 : "--begin=now",
		 array);
	last = array || (!status && !n) ? submit(end) : 0;
	if (!status && !last)
		status = cmd_usage("sbatch took no job: `sinfo` shows whether Slurm is there");
	if (!status)
		cmd_say(f->dir, "job %" PRIu64 ": %" PRIu64 " tasks of %" PRIu64 " units; job %"
			PRIu64 " joins them into result; fleet status %s shows how far "
			"it is", array, n, per, last, f->dir);
	outbuf_free(range);
	free(log);
	free(task);
	free(finish);
	free(said);
	return status;
}

/* ---- ssh ---- */

/* Tasks at a time on a machine are so many slots. */
struct slot {
	char *host;
	bool lost;	/* ssh could not reach it, or the machine went away */
	pid_t pid;	/* 0: nothing runs in it */
	uint64_t task;
};

struct ssh_run {
	struct fleet *f;
	struct slot *v;
	size_t n, cap, n_running;
	uint64_t per;	/* units in a task */
	uint64_t *todo;	/* tasks, the next one last */
	size_t n_todo;
};

#define SSH "ssh", "-n", "-o", "BatchMode=yes", "--"

/* How many tasks a machine takes at a time; 0: it cannot be reached, or lacks the files. */
static uint64_t ask_host(const struct fleet *f, const char *host, uint64_t n)
{
	struct outbuf *text = outbuf_new(-1);
	const char *argv[] = { SSH, host, NULL, NULL };

	if (!text)
		return 0;
	outbuf_str(text, "test -x ");
	put_program(text);
	outbuf_str(text, " && test -w ");
	outbuf_shell(text, f->dir);
	if (n)
		outbuf_printf(text, "/parts && echo %" PRIu64, n);
	else
		outbuf_str(text, "/parts && getconf _NPROCESSORS_ONLN");
	outbuf_put(text, "", 1);
	argv[6] = text->buf;
	n = outbuf_failed(text) ? 0 : submit(argv);
	outbuf_free(text);
	return n > MAX_SLOTS ? MAX_SLOTS : n;
}

/* "HOST", or "4/HOST". A machine that does not answer costs itself, not the others. */
static int add_host(struct ssh_run *r, const char *word, size_t len)
{
	uint64_t n = 0;
	const char *name = fleet_number(word, MAX_SLOTS, &n);
	char *host;
	int status = CMD_OK;

	if (name && *name == '/' && n)
		name++;
	else
		name = word, n = 0;
	len -= (size_t)(name - word);
	if (!len || *name == '-')
		return cmd_usage("--hosts wants HOST,... or N/HOST,...: names that ssh knows");
	host = strndup(name, len);
	n = host ? ask_host(r->f, host, n) : 0;
	if (host && !n)
		cmd_warn(host, "is not used: ssh cannot reach it, or it has not the same program "
			 "and %s", r->f->dir);
	while (n-- && !status) {
		struct slot slot = { .host = strdup(host) };

		if (!slot.host ||
		    array_append(&r->v, &r->n, &r->cap, &slot, sizeof(slot))) {
			free(slot.host);
			status = fail(r->f->dir);
		}
	}
	status = host ? status : fail(r->f->dir);
	free(host);
	return status;
}

static int add_hosts(struct ssh_run *r, const char *words)
{
	int status = words ? CMD_OK : cmd_usage("--on ssh wants --hosts HOST,...");

	for (const char *s = words; s && !status; s += strcspn(s, ",")) {
		s += s != words;
		status = add_host(r, s, strcspn(s, ","));
		if (!s[strcspn(s, ",")])
			break;
	}
	if (!status && !r->n)
		status = cmd_usage("no machine of --hosts can be used: each needs `ssh HOST` "
				   "without a password, and the same files at the same place");
	return status;
}

static bool list_tasks(struct ssh_run *r)
{
	const struct fleet *f = r->f;
	uint64_t n;

	r->per = f->own->per_task ? f->own->per_task : (f->list.n + r->n * 8 - 1) / (r->n * 8);
	n = (f->list.n + r->per - 1) / r->per;
	r->todo = calloc(n + 1, sizeof(*r->todo));
	for (uint64_t i = n; i-- && r->todo;)
		if (!is_task_done(f, r->per, i))
			r->todo[r->n_todo++] = i;
	return r->todo;
}

static int begin_task(struct ssh_run *r, struct slot *slot)
{
	struct outbuf *text = outbuf_new(-1);
	const char *argv[] = { SSH, slot->host, NULL, NULL };
	int status = CMD_OK;

	slot->task = r->todo[--r->n_todo];
	if (text) {
		outbuf_shell(text, r->f->dir);
		outbuf_printf(text, "/task %" PRIu64, slot->task);
		outbuf_put(text, "", 1);
	}
	if (!text || outbuf_failed(text)) {
		outbuf_free(text);
		return fail(r->f->dir);
	}
	argv[6] = text->buf;
	fflush(NULL);
	slot->pid = fork();
	if (!slot->pid) {
		execvp(argv[0], (char *const *)argv);
		_exit(255);
	}
	if (slot->pid < 0) {
		slot->pid = 0;
		status = fail(r->f->dir);
	} else {
		r->n_running++;
	}
	outbuf_free(text);
	return status;
}

/* Status 255 is ssh's own: what the machine did not do, another does. */
static int end_task(struct ssh_run *r)
{
	struct fleet *f = r->f;
	struct slot *slot = NULL;
	int how;
	pid_t pid;

	do
		pid = waitpid(-1, &how, 0);
	while (pid < 0 && errno == EINTR);
	if (pid < 0)
		return fail(f->dir);
	for (size_t i = 0; i < r->n && !slot; i++)
		slot = r->v[i].pid == pid ? &r->v[i] : NULL;
	if (!slot)
		return CMD_OK;
	slot->pid = 0;
	r->n_running--;
	if (!WIFEXITED(how) || WEXITSTATUS(how) == 255) {
		cmd_warn(slot->host, "is lost: other machines do its task %" PRIu64, slot->task);
		slot->lost = true;
		r->todo[r->n_todo++] = slot->task;
	}
	for (size_t i = slot->task * r->per; i < f->list.n && i < (slot->task + 1) * r->per; i++)
		look_done(f, i);
	return CMD_OK;
}

static int run_tasks(struct ssh_run *r)
{
	struct cmd_progress progress;
	int status = CMD_OK;

	cmd_progress_init(&progress, r->f->o, "units");
	while (!status) {
		for (size_t i = 0; i < r->n && r->n_todo && !status; i++)
			if (!r->v[i].pid && !r->v[i].lost)
				status = begin_task(r, &r->v[i]);
		if (status || !r->n_running)
			break;
		status = end_task(r);
		cmd_progress_show(&progress, r->f->n_done, r->f->list.n);
	}
	cmd_progress_end(&progress);
	if (!status && r->n_todo)
		cmd_warn(r->f->dir, "no machine is left for %zu tasks", r->n_todo);
	return status;
}

static int run_ssh(struct fleet *f)
{
	struct ssh_run r = { .f = f };
	char name[FLEET_NAME];
	int status = add_hosts(&r, f->own->hosts);

	if (!status && !list_tasks(&r))
		status = fail(f->dir);
	if (!status)
		status = write_scripts(f, r.per);
	if (!status)
		status = run_tasks(&r);
	for (size_t i = 0; i < f->list.n && !status; i++) {
		if (f->done[i])
			continue;
		fleet_unit_text(name, &f->list.v[i].unit);
		f->n_failed++;
		cmd_warn(f->list.v[i].path, "unit %s failed: %s/logs/%s.log", name, f->dir, name);
	}
	while (r.n)
		free(r.v[--r.n].host);
	free(r.v);
	free(r.todo);
	return status;
}

/* ---- result ---- */

static int join(struct fleet *f)
{
	const struct reduce_options reduce = { .by = f->own->by,
					       .units = path_in(f, "units", "") };
	struct cmd_options o = *f->o;
	struct cmd_files parts = { 0 };
	char *result = path_in(f, "result", "");
	int status = reduce.units && result ? CMD_OK : fail(f->dir);

	for (size_t i = 0; i < f->list.n && !status; i++) {
		char *part = f->done[i] ? part_of(f, i, "parts", ".part") : NULL;

		if (f->done[i] && (!part || cmd_files_add(&parts, part)))
			status = fail(f->dir);
		free(part);
	}
	o.output.path = result;
	o.paths = (const char *const *)parts.v;
	o.n_paths = parts.n;
	if (!status && !parts.n)
		status = CMD_FAILED;	/* each unit was said to fail */
	if (!status)
		status = fleet_reduce_to(&o, &reduce);
	cmd_files_fini(&parts);
	free((char *)reduce.units);
	free(result);
	return status;
}

/* The units and the kind of the run that is resumed. */
static int take_plan(struct fleet *f)
{
	char *path = path_in(f, "units", "");
	int status;

	if (!path)
		status = fail(f->dir);
	else if (access(path, F_OK))
		status = nothing_to_resume(f->dir);
	else
		status = fleet_plan_read(&f->list, &f->kind, path);
	free(path);
	return status;
}

static int run(struct fleet *f, const char *const *words, size_t n)
{
	int planned = CMD_OK, status;

	if (n)
		planned = fleet_plan_make(&f->list, f->o, &f->own->plan, words, n);
	if (planned != CMD_OK && planned != CMD_GAPS)
		return planned;
	status = n ? settle_plan(f) : take_plan(f);
	if (!status)
		status = make_dir(f, "parts");
	if (!status)
		status = make_dir(f, "logs");
	if (!status)
		status = find_done(f);
	if (!status)
		status = make_indexes(f);
	if (!status && f->n_done)
		cmd_say(f->dir, "%zu of %zu units are done already", f->n_done, f->list.n);
	if (status)
		return status;
	if (f->own->on == ON_SLURM)
		return run_slurm(f);
	if (f->own->on == ON_PARALLEL)
		return write_parallel(f);
	if (f->own->on == ON_MAKE) {
		status = write_makefile(f);
		if (!status)
			cmd_say(f->dir, "%zu units for make -j -C %s", f->list.n, f->dir);
		return status;
	}
	status = f->own->on == ON_SSH ? run_ssh(f) : run_local(f);
	if (!status)
		status = join(f);
	return status ? status : f->n_failed ? CMD_GAPS : planned;
}

/* ---- status ---- */

struct state {
	uint64_t n, n_done, n_failed, bytes, done;
	time_t first, last;	/* when parts were made */
};

/* What a unit that has no part said last: why it failed, or how far it is. */
static void say_log(const char *path, int len, const char *unit)
{
	FILE *in = fopen(path, "re");
	struct outbuf *text = outbuf_new(-1);
	char *line = NULL, *last = NULL;
	size_t cap = 0;

	while (in && getline(&line, &cap, in) > 0) {
		line[strcspn(line, "\r\n")] = 0;
		if (!line[0])
			continue;
		free(last);
		last = strdup(line);
	}
	if (last && text) {
		outbuf_clean(text, last);
		outbuf_put(text, "", 1);
		if (!outbuf_failed(text))
			printf("no part %.*s: %s\n", len, unit, text->buf);
	}
	outbuf_free(text);
	free(last);
	free(line);
	if (in)
		fclose(in);
}

/* A line of units. */
static void look_at(const struct fleet *f, struct state *s, const char *line)
{
	char path[4400], *end;
	size_t len = strcspn(line, "\t");
	struct stat st;
	uint64_t bytes = line[len] ? strtoull(line + len + 1, &end, 10) : 0;

	s->n++;
	s->bytes += bytes;
	snprintf(path, sizeof(path), "%s/parts/%.*s.part", f->dir, (int)len, line);
	if (!stat(path, &st)) {
		s->n_done++;
		s->done += bytes;
		s->first = !s->first || st.st_mtime < s->first ? st.st_mtime : s->first;
		s->last = st.st_mtime > s->last ? st.st_mtime : s->last;
		return;
	}
	snprintf(path, sizeof(path), "%s/logs/%.*s.log", f->dir, (int)len, line);
	if (stat(path, &st) || !st.st_size)
		return;
	if (s->n_failed++ < MAX_SAID)
		say_log(path, (int)len, line);
}

static int show_status(const struct fleet *f)
{
	char *path = path_in(f, "units", ""), *result = path_in(f, "result", ""), *line = NULL;
	FILE *in = path ? fopen(path, "re") : NULL;
	struct state s = { 0 };
	struct stat st;
	size_t cap = 0;
	double rate;

	if (!in || !result) {
		int status = fail(path ? path : f->dir);

		free(path);
		free(result);
		return status;
	}
	while (getline(&line, &cap, in) > 0)
		if (line[0] != '#')
			look_at(f, &s, line);
	fclose(in);
	free(line);
	printf("units   %" PRIu64 " of %" PRIu64 " done, %" PRIu64 " running or failed\n", s.n_done,
	       s.n, s.n_failed);
	printf("trace   %.1f of %.1f MB\n", (double)s.done / 1e6, (double)s.bytes / 1e6);
	rate = s.last > s.first ? (double)s.done / (double)(s.last - s.first) : 0;
	if (rate > 0)
		printf("rate    %.1f MB/s", rate / 1e6);
	if (rate > 0 && s.done < s.bytes)
		printf(", %.0f s left", (double)(s.bytes - s.done) / rate);
	if (rate > 0)
		printf("\n");
	if (stat(result, &st))
		printf("result  not yet\n");
	else	/* a run that goes on leaves the result of before in its place */
		printf("result  %s%s\n", result, s.n_done < s.n || st.st_mtime < s.last ?
			", of the units that were done then" : "");
	free(path);
	free(result);
	return s.n_done == s.n ? CMD_OK : CMD_GAPS;
}

/* The directory is made, and known by its whole path: jobs run elsewhere. */
static char *settle_dir(const char *path, bool make)
{
	if (make && mkdir(path, 0777) && errno != EEXIST)
		return NULL;
	return realpath(path, NULL);
}

int cmd_fleet(const struct cmd_options *o)
{
	struct cmd_options mine = *o;	/* its FILEs are those after "run" */
	struct fleet f = { .o = &mine, .own = o->own };
	const char *what = o->n_paths ? o->paths[0] : "";
	bool runs = !strcmp(what, "run");
	const char *path = runs ? o->output.path : o->n_paths == 2 ? o->paths[1] : NULL;
	char *dir;
	int status;

	f.kind = fleet_kind(f.own->plan.what);
	if (!runs && strcmp(what, "status"))
		return cmd_usage("fleet wants run INPUT... -o DIR, or status DIR");
	if (runs && (!path || (o->n_paths < 2 && !f.own->resume)))
		return cmd_usage("fleet run wants its INPUTs, and -o DIR: where results go");
	if (!runs && !path)
		return cmd_usage("fleet status wants the DIR of a run");
	mine.path = o->n_paths > 1 ? o->paths[1] : NULL;
	mine.paths = o->paths + 1;
	mine.n_paths = o->n_paths - 1;
	follow_init(&mine);
	dir = settle_dir(path, runs && !f.own->resume);
	if (!dir)
		return runs && f.own->resume ? nothing_to_resume(path) : fail(path);
	f.dir = dir;
	status = runs ? run(&f, mine.paths, mine.n_paths) : show_status(&f);
	follow_init(o);
	fleet_plan_fini(&f.list);
	free(f.done);
	free(dir);
	return status;
}
