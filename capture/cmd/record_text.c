/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a person reads of a recording: progress on the terminal, and one line at
 * the end that says how much there is and what is missing.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"

void cmd_say(const char *fmt, ...)
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
	cmd_say("error: %s", diag->text[0] ? diag->text : aux_strerror(diag->code));
	return diag->code == AUX_E_INVAL ? CMD_USAGE : CMD_FAILED;
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

#define CLEAR_LINE "\r\033[K"

/* One line on the terminal, each time over the last. */
void cmd_progress_show(void *priv, uint64_t n_insns, uint64_t aux_bytes)
{
	struct cmd_progress *p = priv;
	double s = (double)(now_ns() - p->started_ns) / 1e9;
	double rate = (double)n_insns / (s > 0 ? s : 1);
	bool fast = rate >= 1e6;
	char insns[32], size[32], line[160];
	int n;

	if (!n_insns)
		n = snprintf(line, sizeof(line), CLEAR_LINE
			     "auxcap: %.0f s, %s of trace", s,
			     size_text(aux_bytes, size));
	else
		n = snprintf(line, sizeof(line),
		     CLEAR_LINE "auxcap: %.0f s, %s instructions (%.0f %c/s), "
		     "%s of trace", s, group(n_insns, insns),
		     rate / (fast ? 1e6 : 1e3), fast ? 'M' : 'K',
		     size_text(aux_bytes, size));
	p->shown = write(STDERR_FILENO, line, (size_t)n) > 0;
}

void cmd_progress_clear(const struct cmd_progress *p)
{
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
		cmd_say("not traced: %.*s", (int)n, lines);
	}
}

static void say_program_end(const char *program, const struct source_result *r)
{
	int status = r->status;

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM &&
	    (r->stopped || r->full || r->terminated))
		return;	/* that was us */
	if (WIFSIGNALED(status))
		cmd_say("%s was killed by signal %d (%s)", program,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status))
		cmd_say("%s exited with status %d", program,
			WEXITSTATUS(status));
}

struct line {
	char text[768];
	size_t used;
};

__attribute__((format(printf, 2, 3)))
static void put(struct line *l, const char *fmt, ...)
{
	size_t room = sizeof(l->text) - l->used;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->text + l->used, room, fmt, ap);
	va_end(ap);
	l->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void put_software(struct line *l, const struct source_result *r,
			 uint64_t bytes)
{
	char a[32], b[32];

	put(l, "%s instructions, %s thread%s, ", group(r->n_insns, a),
	    group(r->n_threads, b), plural(r->n_threads));
	put(l, "%s of trace", size_text(bytes, a));
	if (r->n_insns) {
		double bits = (double)bytes * 8 / (double)r->n_insns;

		put(l, " (%.*f bits/insn)", bits < 1 ? 2 : 1, bits);
	}
}

/* Bytes, how fast, and what it cost. */
static void put_kernel(struct line *l, const struct source_result *r,
		       uint64_t bytes)
{
	double s = (double)r->wall_ns / 1e9;
	char a[32];

	if (r->sampling) {
		put(l, "%s of trace in ", size_text(r->sampled_bytes, a));
	} else if (r->has_aux) {
		put(l, "%s of trace", size_text(bytes, a));
		if (s > 0)
			put(l, " (%s/s)", size_text((uint64_t)((double)bytes / s),
						    a));
		put(l, ", ");
	}
	if (r->n_snapshots)
		put(l, "%s snapshot%s, ", group(r->n_snapshots, a),
		    plural(r->n_snapshots));
	if (r->n_samples || !r->has_aux || r->sampling)
		put(l, "%s sample%s, ", group(r->n_samples, a),
		    plural(r->n_samples));
	put(l, "%s wake-up%s, ", group(r->n_wakeups, a), plural(r->n_wakeups));
	put(l, "%.2f s of CPU", (double)r->cpu_ns / 1e9);
}

/* Where it is: rotation gives names of its own. */
static void put_place(struct line *l, const struct cmd_options *o,
		      const struct source_result *r)
{
	if (r->n_switched) {
		put(l, " in %u files %s.*", r->n_switched + 1, o->path);
		if (o->switch_keep && o->switch_keep <= r->n_switched)
			put(l, " (the newest %u are kept)", o->switch_keep);
	} else if (!strcmp(o->path, "-")) {
		put(l, " on standard output");
	} else {
		put(l, " in %s", o->path);
	}
}

/* One line: how much, and what is missing. */
static void say_verdict(const struct cmd_options *o,
			const struct source_result *r, const struct ledger *l,
			const char *loss, bool failed)
{
	uint64_t bytes = ledger_total(l, AUX_LEDGER_SAVED);
	const char *tail = *loss ? "lost: " : "nothing lost";
	struct line line = { .used = 0 };

	if (failed)
		tail = *loss ? "incomplete, and lost: " : "incomplete";
	if (r->kernel)
		put_kernel(&line, r, bytes);
	else
		put_software(&line, r, bytes);
	put_place(&line, o, r);
	put(&line, "; %s%s", tail, loss);
	if (r->n_restarts)
		put(&line, " (started again %llu time%s)",
		    (unsigned long long)r->n_restarts, plural(r->n_restarts));
	if (r->kernel && !r->n_snapshots &&
	    (o->kernel.snapshot || o->kernel.overwrite))
		put(&line, "; no snapshot was asked for (SIGUSR2, --control, "
		    "or %s: at the end)", o->kernel.snapshot ? "-Se" :
		    "--overwrite=e");
	if (r->never_enabled)
		put(&line, "; the events were never enabled (-D)");
	if (r->n_unreadable)
		put(&line, "; maps of %llu process%s could not be read",
		    (unsigned long long)r->n_unreadable,
		    r->n_unreadable == 1 ? "" : "es");
	if (r->code_unsaved)
		put(&line, "; %llu KB of code that programs made could not be "
		    "saved", (unsigned long long)(r->code_unsaved + 1023) / 1024);
	if (r->n_kernel_unsaved)
		put(&line, "; --kcore: %s of the kernel could be read",
		    r->n_kernel_unsaved == UINT64_MAX ? "nothing" : "not all");
	if (r->kernel_hidden)
		put(&line, "; the kernel's addresses are hidden (sysctl "
		    "kernel.kptr_restrict)");
	cmd_say("%s%s", line.text, r->full ? "; ended by --max-size" :
		r->stopped ? "; stopped early" : "");
}

void cmd_record_verdict(const struct cmd_options *o,
			const struct source_result *r, const struct ledger *l,
			bool failed)
{
	bool any = !failed || r->n_insns || r->kernel;
	char loss[512];

	ledger_text(l, loss, sizeof(loss));
	say_not_traced(r->not_traced);
	if (!o->quiet && any && o->words_left[0])
		say_program_end(o->words_left[0], r);
	if (!o->quiet && *r->notes)
		cmd_say("%s", r->notes);
	if ((!o->quiet || *loss) && any)
		say_verdict(o, r, l, loss, failed);
}
