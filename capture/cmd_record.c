/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap record: runs a program, records its trace, and says what came of it.
 *
 * Invariant: whatever goes wrong, what was recorded is completed in the file,
 * and the exit status and the last line tell of every loss.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <internal/diag.h>

#include "cmd.h"
#include "features.h"
#include "source.h"

/* table: all sources */
static const struct source_ops *const sources[] = {
	&source_soft_pt,
};
#define N_SOURCES (sizeof(sources) / sizeof(*sources))

static volatile bool stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = true;
}

__attribute__((format(printf, 1, 2)))
static void say(const char *fmt, ...)
{
	static const char name[] = "auxcap: ";
	char line[1024] = "auxcap: ";
	size_t room = sizeof(line) - sizeof(name) - 1;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line + sizeof(name) - 1, room, fmt, ap);
	va_end(ap);
	n = n < 0 ? 0 : (size_t)n < room ? n : (int)room - 1;
	n += (int)sizeof(name) - 1;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;	/* nowhere left to say it */
}

int cmd_error(const struct aux_diag *diag)
{
	say("error: %s", diag->text[0] ? diag->text : aux_strerror(diag->code));
	return diag->code == AUX_E_INVAL ? CMD_USAGE : CMD_FAILED;
}

/*
 * An ignored SIGHUP (nohup) stays ignored. SIGINT is caught even so: a shell
 * ignores it for a job in the background, which "kill -INT" shall stop.
 */
static void catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal }, was;
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &was) &&
		    (signals[i] != SIGHUP || was.sa_handler != SIG_IGN))
			sigaction(signals[i], &sa, NULL);
}

static bool is_real_pmu(const char *name)
{
	static const char *const known[] = {
		"intel_pt", "intel_bts", "cs_etm", "arm_spe_0", "hisi_ptt",
	};
	char path[128];
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(name, known[i]))
			return true;
	snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%.64s",
		 name);
	return !access(path, F_OK);
}

static const struct source_ops *find_source(const char *pmu,
					    struct aux_diag *diag)
{
	char names[128] = "";
	size_t i, used = 0;

	for (i = 0; i < N_SOURCES; i++) {
		if (!strcmp(sources[i]->name, pmu))
			return sources[i];
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used,
						 sizeof(names) - used, "%s%s",
						 i ? ", " : "",
						 sources[i]->name);
	}
	if (is_real_pmu(pmu))
		diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			 "%.64s: capture from a real PMU is not in this "
			 "version; use soft_pt//u", pmu);
	else
		diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			 "there is no event source '%.64s'; there is: %s", pmu,
			 names);
	return NULL;
}

static bool is_program(const char *path)
{
	struct stat st;

	return !access(path, X_OK) && !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Why name is no program, and what to do. */
static const char *why_not(const char *name)
{
	struct stat st;

	if (!strchr(name, '/'))
		return "there is no such program in PATH (a file needs its "
		       "path, as ./name)";
	if (stat(name, &st))
		return strerror(errno);
	if (S_ISDIR(st.st_mode))
		return "it is a directory";
	return "it is not executable (chmod +x makes it so)";
}

/* Before any file is touched: a mistyped name costs nothing. */
static int check_program(const char *name, struct aux_diag *diag)
{
	const char *p = getenv("PATH"), *end;
	char path[4096];

	if (strchr(name, '/')) {
		if (is_program(name))
			return 0;
		p = NULL;
	}
	for (; p; p = *end ? end + 1 : NULL) {
		end = strchrnul(p, ':');
		snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - p), p,
			 end > p ? "/" : "./", name);
		if (is_program(path))
			return 0;
	}
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"cannot run '%.200s': %s", name, why_not(name));
}

/* The directory of the helper objects: beside us, or ../libexec/auxkit. */
static void find_self_dir(char *dir, size_t len)
{
	static const char *const places[] = { "", "/../libexec/auxkit" };
	char self[4096], path[4200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	size_t i;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s%s/auxkit-qemu.so", self,
			 places[i]);
		if (!access(path, R_OK))
			break;
	}
	snprintf(dir, len, "%s%s", self, places[i < 2 ? i : 0]);
}

/* 1234567 as "1,234,567" */
static const char *group(uint64_t v, char buf[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
	int i, k = 0;

	for (i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			buf[k++] = ',';
		buf[k++] = digits[i];
	}
	buf[k] = '\0';
	return buf;
}

/* Bytes for a person: "0 bytes", "456 KB", "1.2 GB". */
static const char *size_text(uint64_t v, char buf[32])
{
	static const char *const units[] = { "KB", "MB", "GB", "TB" };
	double d = (double)v / 1024;
	int i = 0;

	if (v < 1024) {
		snprintf(buf, 32, "%llu byte%s", (unsigned long long)v,
			 v == 1 ? "" : "s");
		return buf;
	}
	for (; d >= 1024 && i < 3; i++)
		d /= 1024;
	snprintf(buf, 32, "%.*f %s", d < 10, d, units[i]);
	return buf;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

struct progress {
	uint64_t started_ns;
	bool shown;
};

#define CLEAR_LINE "\r\033[K"

/* One line on the terminal, each time over the last. */
static void show_progress(void *priv, uint64_t n_insns, uint64_t aux_bytes)
{
	struct progress *p = priv;
	double s = (double)(now_ns() - p->started_ns) / 1e9;
	double rate = (double)n_insns / (s > 0 ? s : 1);
	bool fast = rate >= 1e6;
	char insns[32], size[32], line[160];
	int n;

	n = snprintf(line, sizeof(line),
		     CLEAR_LINE "auxcap: %.0f s, %s instructions (%.0f %c/s), "
		     "%s of trace", s, group(n_insns, insns),
		     rate / (fast ? 1e6 : 1e3), fast ? 'M' : 'K',
		     size_text(aux_bytes, size));
	p->shown = write(STDERR_FILENO, line, (size_t)n) > 0;
}

static void clear_progress(const struct source_job *job)
{
	const struct progress *p = job->progress_priv;

	if (p->shown && write(STDERR_FILENO, CLEAR_LINE,
			      sizeof(CLEAR_LINE) - 1) < 0)
		return;	/* nobody sees it */
}

/* Lines of a source: one of ours each. */
static void say_not_traced(const char *lines)
{
	size_t n;

	for (; *lines; lines += n + (lines[n] != '\0')) {
		n = strcspn(lines, "\n");
		say("not traced: %.*s", (int)n, lines);
	}
}

static void say_program_end(const struct cmd_options *o, int status)
{
	if (WIFSIGNALED(status))
		say("%s was killed by signal %d (%s)", o->program[0],
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		say("%s exited with status %d", o->program[0],
		    WEXITSTATUS(status));
}

/* One line: how much, and what is missing. */
static void say_verdict(const struct cmd_options *o,
			const struct source_result *r, const struct ledger *l,
			const char *loss, bool failed)
{
	uint64_t bytes = ledger_total(l, AUX_LEDGER_SAVED);
	char insns[32], threads[32], size[32], bits[48] = "";
	const char *tail = *loss ? "lost: " : "nothing lost";

	if (failed)
		tail = *loss ? "incomplete, and lost: " : "incomplete";
	if (r->n_insns) {
		double b = (double)bytes * 8 / (double)r->n_insns;

		snprintf(bits, sizeof(bits), " (%.*f bits/insn)", b < 1 ? 2 : 1,
			 b);
	}
	say("%s instructions, %s thread%s, %s of trace%s in %s; %s%s%s",
	    group(r->n_insns, insns), group(r->n_threads, threads),
	    r->n_threads == 1 ? "" : "s", size_text(bytes, size), bits,
	    o->path, tail, loss, stop ? "; stopped early" : "");
}

/* Records into w. Features that need the end of the recording come last. */
static int record(const struct cmd_options *o, const struct source_ops *ops,
		  void *src, struct writer *w, struct ledger *ledger,
		  struct source_result *r, struct aux_diag *diag)
{
	struct aux_diag at_close = { 0 };
	int ret, err;

	ret = features_host(w, o->argc, o->argv);
	if (ret)
		diag_set(diag, -ret, AUX_NO_OFFSET, "%s", aux_strerror(ret));
	else
		ret = ops->run(src, w, ledger, r, diag);
	if (!ret && !r->n_insns)
		ret = diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			       "nothing was recorded: %s ended before its "
			       "first instruction", o->program[0]);
	if (ret && !r->n_insns && !ledger_total(ledger, AUX_LEDGER_SAVED)) {
		writer_discard(w, diag); /* the recording before it stays */
		return ret;
	}
	ledger_save(ledger, w);
	err = writer_close(w, &at_close);
	if (err)	/* the cause of whatever else went wrong */
		*diag = at_close;
	return err ? err : ret;
}

static int finish(const struct cmd_options *o, const struct source_result *r,
		  const struct ledger *l, int ret, const struct aux_diag *diag)
{
	int status = CMD_OK;
	char loss[512];

	ledger_text(l, loss, sizeof(loss));
	if (ret)
		status = cmd_error(diag);
	else if (*loss || ledger_lossy(l))
		status = CMD_LOSS;
	say_not_traced(r->not_traced);
	if (!o->quiet && (!ret || r->n_insns))
		say_program_end(o, r->status);
	if ((!o->quiet || *loss) && (!ret || r->n_insns))
		say_verdict(o, r, l, loss, ret != 0);
	if (ret)
		return CMD_FAILED;
	if (status == CMD_OK && o->exit_status)
		return WIFSIGNALED(r->status) ? 128 + WTERMSIG(r->status) :
						WEXITSTATUS(r->status);
	return status;
}

static int run_job(const struct cmd_options *o, const struct source_ops *ops,
		   const struct source_job *job)
{
	struct source_result result = { 0 };
	struct aux_diag diag = { 0 };
	struct ledger ledger = { 0 };
	struct writer *w;
	void *src;
	int ret;

	if (ops->open(&src, job, &diag))
		return cmd_error(&diag);
	ret = check_program(o->program[0], &diag);
	if (!ret)
		ret = writer_open(&w, o->path, &diag);
	if (ret) {
		ops->close(src);
		return cmd_error(&diag);
	}
	catch_signals();
	ret = record(o, ops, src, w, &ledger, &result, &diag);
	clear_progress(job);
	ops->close(src);
	ret = finish(o, &result, &ledger, ret, &diag);
	ledger_fini(&ledger);
	return ret;
}

int cmd_record(const struct cmd_options *o)
{
	struct aux_diag diag = { 0 };
	const struct source_ops *ops;
	struct event_spec event;
	char self_dir[4200];
	int ret;

	if (event_parse(&event, o->event, &diag))
		return cmd_error(&diag);
	find_self_dir(self_dir, sizeof(self_dir));
	ops = find_source(event.pmu, &diag);
	if (ops) {
		struct progress progress = { .started_ns = now_ns() };
		struct source_job job = {
			.event = &event,
			.argv = o->program,
			.self_dir = self_dir,
			.truth_path = o->truth,
			.inject_overflow = o->inject_overflow,
			.per_thread = o->per_thread,
			.progress = show_progress,
			.progress_priv = &progress,
			.stop = &stop,
		};

		if (o->quiet || !isatty(STDERR_FILENO))
			job.progress = NULL;
		ret = run_job(o, ops, &job);
	} else {
		ret = cmd_error(&diag);
	}
	event_fini(&event);
	return ret;
}
