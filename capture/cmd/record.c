/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcap record: chooses the source, owns the signals and the file, and says
 * what came of it.
 *
 * Invariant: whatever goes wrong, what was recorded is completed in the file,
 * and the exit status and the last line tell of every loss.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"
#include "capture/describe/describe.h"
#include "capture/event/auxpmu.h"
#include "common/clock.h"
#include "common/diag.h"

/*
 * What a person reads of a recording: progress on the terminal, and one line at
 * the end that says how much there is and what is missing.
 */

/* One write for the whole line: the recorded program shares this standard
 * error. */
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

int cmd_usage(const char *fmt, ...)
{
	struct aux_diag diag = { .code = AUX_E_INVAL, .offset = AUX_NO_OFFSET };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(diag.text, sizeof(diag.text), fmt, ap);
	va_end(ap);
	return cmd_error(&diag);
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
/* buf is what it returns. Powers of 1024, as -m and --max-size take them. */
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

#define CLEAR_LINE "\r\033[K"

/* One line on the terminal, each time over the last. */
void cmd_progress_show(void *priv, uint64_t n_insns, uint64_t aux_bytes)
{
	struct cmd_progress *p = priv;
	double s = (double)(clock_ns() - p->started_ns) / 1e9;
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

static void cmd_progress_clear(const struct cmd_progress *p)
{
	if (p->shown && write(STDERR_FILENO, CLEAR_LINE,
			      sizeof(CLEAR_LINE) - 1) < 0)
		return;	/* the terminal is gone: nothing to clear */
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

/* Nothing where the program ended well, or by our own SIGTERM. */
static void say_program_end(const char *program, const struct source_result *r)
{
	int status = r->status;

	if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM ||
				    (WTERMSIG(status) == SIGKILL && r->full && !r->kernel)) &&
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
/* Appends; what has no room is cut off, so the line is always terminated. */
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

/* bits/insn: how dense the trace is; a loop takes few, branches that depend on
 * data take many. */
static void put_software(struct line *l, const struct source_result *r,
			 uint64_t bytes)
{
	char a[32], b[32];

	put(l, "%s instructions, %s thread%s, ", group(r->n_insns, a),
	    group(r->n_threads, b), plural(r->n_threads));
	put(l, "%s of trace", size_text(bytes, a));
	if (r->n_snapshots) {
		put(l, ", %s snapshot%s", group(r->n_snapshots, a),
		    plural(r->n_snapshots));
	} else if (r->n_insns) {
		double bits = (double)bytes * 8 / (double)r->n_insns;

		put(l, " (%.*f bits/insn)", bits < 1 ? 2 : 1, bits);
	}
}

/* Bytes, how fast, and what it cost. */
/* CPU time is that of auxcap itself: how much the recording took from the
 * machine.
 * */
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
/*
 * In the place of perf record's "[ perf record: Captured and wrote ... ]".
 * Unlike that it always says whether something is missing, since a person must
 * be able to tell "nothing was lost" from "nothing was checked".
 */
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
	if (!r->n_snapshots && (o->kernel.snapshot || o->kernel.overwrite))
		put(&line, "; no snapshot was %s", o->when.n ? "taken: what --when waits "
		    "for did not come" : !r->kernel ? "asked for (SIGUSR2, --when, or -Se: "
		    "at the end)" : o->kernel.snapshot ? "asked for (SIGUSR2, --control, or "
		    "-Se: at the end)" : "asked for (SIGUSR2, --control, or --overwrite=e: "
		    "at the end)");
	if (r->never_enabled)
		put(&line, "; the events were never enabled (-D)");
	if (r->n_unreadable && !ledger_total(l, AUX_LEDGER_UNDESCRIBED))
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

/* -q leaves only losses and what was not traced. */
static void cmd_record_verdict(const struct cmd_options *o,
			       const struct source_result *r,
			       const struct ledger *l, bool failed)
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

/* table: sources that are no PMU of the kernel */
static const struct source_ops *const software[] = {
	&source_soft_pt,
	&source_soft_etm,
};
#define N_SOFTWARE (sizeof(software) / sizeof(*software))

#define WAIT_MS 100	/* SIGCHLD wakes, unless we were started to ignore it */
#define SAY_WAIT_NS 1000000000
#define SAME_NS 300000000

static volatile sig_atomic_t stop, asked;

/*
 * The first signal asks for the end, the second one has the program killed, and
 * a third kills us: whatever we hang in, there is a way out. Those that come
 * within SAME_NS are the same: timeout(1) sends two, to us and to our group.
 */
static void on_signal(int sig)
{
	static volatile uint64_t last_ns;
	uint64_t now = clock_ns();

	if (stop && now - last_ns < SAME_NS)
		return;
	last_ns = now;
	if (++stop < 3)
		return;
	signal(sig, SIG_DFL);
	raise(sig);
}

/* --max-size of software sources: as the first signal. */
static void end_by_size(void)
{
	if (!stop)
		stop = 1;
}

static void on_asked(int sig)
{
	(void)sig;
	asked++;
}

static void on_nothing(int sig)
{
	(void)sig;
}

/* table: signals that end a recording, which is then complete. Each would
 * kill. */
static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU,
			      SIGVTALRM, SIGPROF, SIGPWR };
#define N_ENDING (sizeof(ending) / sizeof(*ending))

/* An ignored signal stays ignored (nohup). SIGINT and SIGQUIT are taken even
 * so: a shell ignores them for a job in the background, which "kill -INT" shall
 * stop. */
static bool stays_ignored(int sig)
{
	struct sigaction was;

	return sig != SIGINT && sig != SIGQUIT && sig != SIGTERM &&
	       !sigaction(sig, NULL, &was) && was.sa_handler == SIG_IGN;
}

/*
 * Signals that shall not end a recording: a write to a pipe without a reader,
 * or beyond the limit of file sizes, fails with an error and the recording ends
 * by that; SIGUSR1 means nothing. Handlers, not SIG_IGN: a program that is
 * recorded would inherit that through its exec.
 */
static void survive_signals(void)
{
	static const int signals[] = { SIGPIPE, SIGXFSZ, SIGUSR1 };
	struct sigaction sa = { .sa_handler = on_nothing,
				.sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!stays_ignored(signals[i]))
			sigaction(signals[i], &sa, NULL);
}

/* For software sources. SIGUSR2 asks for a snapshot, or means nothing. */
static void catch_signals(bool snapshot)
{
	struct sigaction sa = { .sa_handler = on_signal }, was;
	size_t i;

	for (i = 0; i < N_ENDING; i++)
		if (!stays_ignored(ending[i]))
			sigaction(ending[i], &sa, NULL);
	/* waitpid() comes back: the snapshot is taken at once */
	sa = (struct sigaction){ .sa_handler = snapshot ? on_asked : on_nothing,
				 .sa_flags = snapshot ? 0 : SA_RESTART };
	if (!sigaction(SIGUSR2, NULL, &was) && (snapshot || was.sa_handler == SIG_DFL))
		sigaction(SIGUSR2, &sa, NULL);
	survive_signals();
}

/*
 * For the kernel source, before anything else: a signal that comes early waits.
 * The program gets the mask and the ignored signals back that we were given.
 * SIGCONT, which goes on whether blocked or not, tells that we were stopped.
 */
static int block_signals(struct target_signals *was)
{
	sigset_t set;
	size_t i;

	target_signals_save(was);
	sigemptyset(&set);
	for (i = 0; i < N_ENDING; i++)
		if (!stays_ignored(ending[i]))
			sigaddset(&set, ending[i]);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGCONT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	survive_signals();
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* By the name before "/" or ":", as -e has it; NULL: it is for the kernel. */
static const struct source_ops *software_of(const char *event)
{
	size_t i, n;

	for (i = 0; i < N_SOFTWARE; i++) {
		n = strlen(software[i]->name);
		if (!strncmp(event, software[i]->name, n) &&
		    (!event[n] || strchr("/:", event[n])))
			return software[i];
	}
	return NULL;
}

/* The source of the events: software when one of them is; NULL: the kernel. */
/* With a software source among several events it is chosen, so that the mixture
 * is refused with a message and not given to the kernel. */
static const struct source_ops *find_software(const struct cmd_options *o)
{
	const struct source_ops *ops = NULL;
	size_t i;

	for (i = 0; i < o->n_words && !ops; i++)
		ops = software_of(o->words[i].text);
	return ops;
}

/* What this machine's own programs are traced with where no PMU can. */
#ifdef __aarch64__
#define SOFT_DEFAULT "soft_etm//u"
#define SOFT_TRACES ""
#else
#define SOFT_DEFAULT "soft_pt/cyc/u"	/* times of single calls: see auxcap(1) */
#define SOFT_TRACES "-e soft_pt//u traces what runs already, and makes it some times slower; "
#endif

/* The best source of this machine, for user code. */
/* A PMU in sysfs need not be one that we may open; then the message of the
 * kernel source says so, which is better than a recording of another kind. */
static const char *default_event(void)
{
	static const char *const pmus[] = { "intel_pt", "cs_etm" };
	static const char *const events[] = { "intel_pt//u", "cs_etm//u" };
	char path[128];
	size_t i;

	for (i = 0; i < sizeof(pmus) / sizeof(*pmus); i++) {
		snprintf(path, sizeof(path), PMU_SYSFS "/%s", pmus[i]);
		if (!access(path, F_OK))
			return events[i];
	}
	return SOFT_DEFAULT;
}

bool cmd_helper_dir(char dir[CMD_HELPER_DIR_MAX])
{
	static const char *const places[] = { "", "/../libexec/auxkit" };
	char self[4096], path[CMD_HELPER_DIR_MAX + sizeof("/" CMD_HELPER)];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;
	size_t i;

	self[n > 0 ? n : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash)
		*slash = '\0';
	for (i = 0; i < 2; i++) {
		snprintf(dir, CMD_HELPER_DIR_MAX, "%s%s", self, places[i]);
		snprintf(path, sizeof(path), "%s/" CMD_HELPER, dir);
		if (!access(path, R_OK))
			return true;
	}
	snprintf(dir, CMD_HELPER_DIR_MAX, "%s", self);
	return false;
}

/* One recording, in one file or several. */
struct recording {
	const struct cmd_options *o;
	const struct source_ops *ops;
	void *src;
	struct ledger ledger;	/* of the present file */
	struct ledger total;
	struct source_result result;
};

/* The present file is complete but for its ledger. */
/* Called by output for each file, also when rotation ends it: each file has its
 * own ledger, so it can be judged without the others. */
static int finish_file(void *priv, struct writer *w)
{
	struct recording *rec = priv;
	int ret;

	if (writer_finish(w) &&
	    !ledger_times(&rec->ledger, AUX_LEDGER_UNWRITTEN))
		ledger_add(&rec->ledger, LEDGER_NO_STREAM,
			   AUX_LEDGER_UNWRITTEN, 0, 0, 0);
	ret = ledger_save(&rec->ledger, w);
	ledger_merge(&rec->total, &rec->ledger);
	ledger_fini(&rec->ledger);
	memset(&rec->ledger, 0, sizeof(rec->ledger));
	return ret;
}

/* Nothing at all was recorded: the file that -o would replace is worth more. */
static bool came_to_nothing(const struct recording *rec)
{
	return !rec->result.n_insns && !rec->result.aux_bytes &&
	       !rec->result.n_samples &&
	       !ledger_total(&rec->total, AUX_LEDGER_SAVED) &&
	       !ledger_total(&rec->ledger, AUX_LEDGER_SAVED);
}

static int nothing(const struct cmd_options *o, struct aux_diag *diag)
{
	if (o->kernel.target.pids || o->kernel.target.tids)
		return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
				"nothing was recorded: no thread ran as long as "
				"the recording lasted");
	return diag_set(diag, AUX_E_TARGET, AUX_NO_OFFSET,
			"nothing was recorded: %s ended before its first "
			"instruction", o->words_left[0]);
}

/* Runs the source and completes the file. An error that the output reports last
 * hides that of the source, since a disk that is full explains both. 0 or an
 * error with diag. */
static int record(struct recording *rec, struct output *out,
		  struct aux_diag *diag)
{
	struct aux_diag at_close = { 0 };
	const struct cmd_options *o = rec->o;
	int ret, err;

	ret = rec->ops->run(rec->src, out, &rec->ledger, &rec->result, diag);
	if (!ret && !rec->result.kernel && !rec->result.n_insns)
		ret = nothing(o, diag);
	if (ret && came_to_nothing(rec)) {
		output_discard(out, diag); /* the recording before it stays */
		return ret;
	}
	err = output_close(out, &at_close);
	if (err)	/* the cause of whatever else went wrong */
		*diag = at_close;
	err = err ? err : ret;
	if (!err && rec->total.nomem)	/* what the verdict would count */
		err = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory for the ledger of losses");
	/* the end of a file, when all before it was written */
	if (err == -AUX_E_IO &&
	    !ledger_times(&rec->total, AUX_LEDGER_UNWRITTEN) &&
	    !ledger_times(&rec->ledger, AUX_LEDGER_UNWRITTEN))
		ledger_add(&rec->ledger, LEDGER_NO_STREAM,
			   AUX_LEDGER_UNWRITTEN, 0, 0, 0);
	return err;
}

/* Prints the verdict and returns the exit status; --exit-status is the
 * program's only if nothing failed and nothing was lost. */
static int finish(struct recording *rec, int ret, const struct aux_diag *diag)
{
	const struct cmd_options *o = rec->o;
	int status = CMD_OK;

	ledger_merge(&rec->total, &rec->ledger);
	rec->result.stopped |= stop != 0;
	if (ret)
		status = cmd_error(diag);
	else if (ledger_lossy(&rec->total))
		status = CMD_LOSS;
	cmd_record_verdict(o, &rec->result, &rec->total, ret != 0);
	ledger_fini(&rec->ledger);
	ledger_fini(&rec->total);
	if (ret)
		return CMD_FAILED;
	if (status == CMD_OK && o->exit_status)
		return WIFSIGNALED(rec->result.status) ?
			       128 + WTERMSIG(rec->result.status) :
			       WEXITSTATUS(rec->result.status);
	return status;
}

/* Whether a signal came that ends a recording; those of before are taken
 * off. */
static bool took_signal(int fd)
{
	struct signalfd_siginfo si;
	bool stops = false;

	while (read(fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		stops |= si.ssi_signo != SIGCHLD && si.ssi_signo != SIGUSR2 &&
			 si.ssi_signo != SIGCONT;
	return stops;
}

/*
 * The program has got SIGTERM and may ignore it. The file is complete: it waits
 * for nothing. One more signal, sent by somebody who has seen that, is not
 * asked; those that come at once are the first again: timeout(1) sends two, to
 * us and to our group.
 */
static void wait_program(struct recording *rec)
{
	struct pollfd p = { .fd = rec->o->kernel.signal_fd, .events = POLLIN };
	uint64_t since = clock_ns();
	bool said = rec->o->quiet;
	int sig = 0;

	if (!rec->ops->ended)
		return;
	while (!rec->ops->ended(rec->src, sig, &rec->result.status)) {
		poll(&p, 1, WAIT_MS);
		sig = took_signal(p.fd) && clock_ns() - since > SAME_NS ?
			      SIGKILL : 0;
		if (said || clock_ns() - since < SAY_WAIT_NS)
			continue;
		said = true;
		cmd_say("the recording is closed; waiting for %s, which does not end on "
			"SIGTERM (another signal to auxcap kills it)",
			rec->o->words_left[0]);
	}
}

/*
 * The order matters: the source before the output, so that a mistake in -e
 * leaves an existing FILE as it is; signals are caught only when there is a
 * file to complete; the program is waited for after the file is closed. Returns
 * the exit status.
 */
static int run_job(struct recording *rec, const struct source_job *job)
{
	const struct cmd_options *o = rec->o;
	struct output_options oo = {
		.path = o->path, .w = o->writer, .keep = o->switch_keep,
		.finish = finish_file, .priv = rec,
	};
	struct aux_diag diag = { 0 };
	struct output *out;
	int ret;

	ret = rec->ops->open(&rec->src, job, &diag);
	if (ret)
		return cmd_error(&diag);
	if (job->event && !job->attach)
		ret = target_check_program(o->words_left[0], &diag);
	if (!ret)
		ret = output_open(&out, &oo, &diag);
	if (ret) {
		rec->ops->close(rec->src);
		return cmd_error(&diag);
	}
	if (job->event) {
		catch_signals(job->ring_bytes);
		if (!strcmp(o->path, "-"))	/* as stdout_taken */
			dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	ret = record(rec, out, &diag);
	cmd_progress_clear(job->progress_priv);
	wait_program(rec);
	rec->ops->close(rec->src);
	return finish(rec, ret, &diag);
}

static volatile pid_t guarded;

static void forward_signal(int sig)
{
	if (guarded > 0)
		kill(guarded, sig);
}

/* In the process that a person sees: passes signals on, and waits. */
static int stand_in_front(pid_t pid)
{
	struct sigaction sa = { .sa_handler = forward_signal };
	int status = 0;
	size_t i;

	guarded = pid;
	for (i = 0; i < N_ENDING; i++)
		if (!stays_ignored(ending[i]))
			sigaction(ending[i], &sa, NULL);
	survive_signals();
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	cmd_say("error: the recording process %d was killed by signal %d (%s)",
		pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
	return CMD_FAILED;
}

/*
 * A program that is single-stepped dies with its tracer: the kernel leaves the
 * trap flag behind. A program that ran before us must not. So the tracer is a
 * child, whom the kernel tells by a signal when this process is killed; it then
 * lets the program go, and completes the file.
 */
static int run_guarded(struct recording *rec, const struct source_job *job)
{
	pid_t front = getpid(), pid;
	sigset_t all, was;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &was);
	pid = fork();
	if (pid < 0) {
		sigprocmask(SIG_SETMASK, &was, NULL);
		cmd_say("error: cannot fork: %s", strerror(errno));
		return CMD_FAILED;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		sigprocmask(SIG_SETMASK, &was, NULL);
		return getppid() == front ? run_job(rec, job) : CMD_FAILED;
	}
	guarded = pid;
	sigprocmask(SIG_SETMASK, &was, NULL);
	return stand_in_front(pid);
}

/* "WHAT WHY; see auxcap --help"; returns CMD_USAGE. */
static int usage(struct aux_diag *diag, const char *what, const char *why)
{
	diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "%s %s; see auxcap --help",
		 what, why);
	return cmd_error(diag);
}

#define SOFT_RING (4 << 20)	/* bytes that -S keeps of a CPU, unless -m says so */

/* -S and --when as soft_pt has them. */
static int take_ring(struct recording *rec, struct source_job *job)
{
	struct cmd_options *o = (struct cmd_options *)(uintptr_t)rec->o;
	const struct kernel_options *k = &o->kernel;
	bool pt = rec->ops == &source_soft_pt;

	if (!pt && (k->snapshot || o->when.n))
		return cmd_usage("%s: %s has it not; soft_pt has", k->snapshot ? "-S" :
				 "--when", rec->ops->name);
	if (!o->when.n && (o->when.count || o->when.cooldown_ns || o->when.delay_ns))
		return cmd_usage("--when-count, --cooldown and --when-delay go with "
				 "--when");
	for (size_t i = 0; i < o->when.n; i++)
		if (o->when.v[i].kind == TRIGGER_EVENT ||
		    o->when.v[i].kind == TRIGGER_COUNTER ||
		    o->when.v[i].kind == TRIGGER_KPROBE)
			return cmd_usage("--when %.60s: what happens in the kernel needs an "
					 "event of the kernel (-e), not %s",
					 o->when.v[i].text, rec->ops->name);
	if (o->when.delay_ns && !k->snapshot)
		return cmd_usage("--when-delay needs -S: without it all is recorded");
	job->triggers = o->when.n ? &o->when : NULL;
	job->snapshot_at_exit = k->snapshot_at_exit;
	job->asked = &asked;
	if (k->snapshot)
		job->ring_bytes = k->aux_pages ? k->aux_pages *
				  (size_t)sysconf(_SC_PAGESIZE) : SOFT_RING;
	return CMD_OK;
}

/* What is about samples or rings of the kernel, and changes nothing without them. */
static void say_needless(const struct cmd_options *o)
{
	const struct kernel_options *k = &o->kernel;
	bool rings = k->data_pages || (k->aux_pages && !k->snapshot);
	char more[64];

	snprintf(more, sizeof(more), "%s%s%s%s%s", k->callgraph ? " -g" : "",
		 k->freq ? " -F" : "", k->period ? " -c" : "", rings ? " -m" : "",
		 k->n_threads ? " --threads" : "");
	cmd_needless_say(o, more + (*more != '\0'), "a trace by software has every instruction "
			 "and call, with thread, CPU and time, and waits where a ring "
			 "would be full");
}

/* -D, --max-size, and whose code, as software sources have them. */
static int take_limits(struct recording *rec, struct source_job *job)
{
	const struct cmd_options *o = rec->o;

	if (o->all_kernel)
		return cmd_usage("--all-kernel: %s follows user code alone; the kernel needs "
				 "trace hardware: -e intel_pt//k", rec->ops->name);
	if (o->kernel.delay_ms == KERNEL_START_DISABLED)
		return cmd_usage("-D -1 needs an event of the kernel, which --control enables; "
				 "`auxcap -e soft_pt//u -p PID` traces from now on what runs "
				 "already");
	if (o->kernel.delay_ms && rec->ops != &source_soft_pt)
		return cmd_usage("-D: %s emulates a program from its start; soft_pt joins it "
				 "later", rec->ops->name);
	job->delay_ms = (unsigned)o->kernel.delay_ms;
	job->max_size = o->kernel.max_size;
	job->end = end_by_size;
	return CMD_OK;
}

/* Checks what software sources do not have, then records. Every such option is
 * refused by name: a recording without -a would look like one with it. */
static int record_software(struct recording *rec, struct source_job *job,
			   bool by_default)
{
	struct cmd_options *o = (struct cmd_options *)(uintptr_t)rec->o;
	struct target_spec target = {
		.pids = o->kernel.target.pids, .tids = o->kernel.target.tids,
		.argv = o->words_left[0] ? o->words_left : NULL,
		.stdout_taken = !strcmp(o->path, "-"),
	};
	bool attach = target.pids || target.tids;
	struct aux_diag diag = { 0 };
	struct event_spec event;
	int ret;

	if (attach && by_default)
		return cmd_usage("%s: no PMU of this machine has an AUX area to "
				 "take by default. " SOFT_TRACES
				 "-e cpu-clock samples it", target.pids ? "-p" : "-t");
	if (o->kernel_option)
		return usage(&diag, o->kernel_option, by_default ?
			     "needs an event of the kernel (-e), and no PMU of "
			     "this machine has an AUX area to take by default: "
			     "-e cpu-clock has samples alone, `auxcap -- PROGRAM` "
			     "traces a program by software" :
			     "needs an event of the kernel, not soft_pt, which "
			     "traces all of a program (-- PROGRAM) or of what runs "
			     "already (-p PID, -t TID), into one file; -S --when "
			     "keeps parts of it");
	if (o->n_words > 1)
		return usage(&diag, rec->ops->name,
			     "must be the only event (-e): others go into a recording of "
			     "their own, `auxcap -e EVENT -o FILE -- PROGRAM`");
	if (take_ring(rec, job) != CMD_OK || take_limits(rec, job) != CMD_OK)
		return CMD_USAGE;
	if (!o->words_left[0] && !attach)
		return usage(&diag, "no program", "to record was named");
	if (event_parse(&event, o->words[0].text, &diag))
		return cmd_error(&diag);
	job->event = &event;
	job->filter = o->words[0].filter;
	job->attach = attach ? &target : NULL;
	say_needless(o);
	ret = attach ? run_guarded(rec, job) : run_job(rec, job);
	event_fini(&event);
	return ret;
}

/* --when as events of the kernel. */
static int take_triggers(struct cmd_options *o)
{
	if (!o->when.n && (o->when.count || o->when.cooldown_ns || o->when.delay_ns))
		return cmd_usage("--when-count, --cooldown and --when-delay go with "
				 "--when");
	if (o->when.delay_ns && !o->kernel.snapshot && !o->kernel.overwrite)
		return cmd_usage("--when-delay needs -S: without it all is recorded");
	for (size_t i = 0; i < o->when.n; i++) {
		struct evlist_word *w = &o->words[o->n_words];

		if (!trigger_tracepoint(&o->when.v[i], o->when_event[i],
					sizeof(o->when_event[i]), o->when_filter[i],
					sizeof(o->when_filter[i])))
			continue;	/* a probe: capture/event/probe.h */
		if (o->n_words == CMD_EVENTS_MAX)
			return cmd_usage("more than %d events", CMD_EVENTS_MAX);
		*w = (struct evlist_word){ .text = o->when_event[i],
					   .trigger = (uint32_t)i + 1 };
		if (*o->when_filter[i])
			w->filter = o->when_filter[i];
		o->n_words++;
	}
	o->kernel.triggers = o->when.n ? &o->when : NULL;
	o->kernel.windows = o->windows.n ? &o->windows : NULL;
	return CMD_OK;
}

/* Whether every event has an AUX area, so that nothing is sampled. */
static bool traces_alone(const struct cmd_options *o)
{
	bool alone = true;
	char name[64];

	for (size_t i = 0; i < o->n_words && alone; i++) {
		const char *text = o->words[i].text;
		struct pmu *pmu = NULL;

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, "/:"), text);
		alone = !pmu_open(&pmu, PMU_SYSFS, name, NULL) && auxpmu_find(pmu);
		pmu_close(pmu);
	}
	return alone;
}

/* Checks what needs other options beside it, then records. */
static int record_kernel(struct recording *rec, struct source_job *job)
{
	struct cmd_options *o = (struct cmd_options *)(uintptr_t)rec->o;
	struct kernel_options *k = &o->kernel;
	struct aux_diag diag = { 0 };
	struct target_signals signals;
	int ret;

	if (o->truth || o->inject_overflow)
		return usage(&diag, o->truth ? "--truth" : "--inject-overflow",
			     "needs a software source (-e soft_pt//u)");
	if (k->callgraph && o->callgraph)
		return cmd_usage("--call-graph=%.40s: leave it out: with a trace auxdecode "
				 "knows calls exactly; for samples alone the kernel has "
				 "frame pointers (fp)", o->callgraph);
	if (o->all_user && o->all_kernel)
		return cmd_usage("--all-user and --all-kernel leave nothing");
	if (!traces_alone(o) && cmd_needless_check(o) != CMD_OK)
		return CMD_USAGE;
	k->all_user = o->all_user;
	k->all_kernel = o->all_kernel;
	cmd_needless_say(o, "", NULL);
	if (take_triggers(o) != CMD_OK)
		return CMD_USAGE;
	if (k->delay_ms == KERNEL_START_DISABLED && !k->control)
		return usage(&diag, "-D -1", "needs --control, to enable it");
	if ((k->switch_signal || k->switch_ms || k->switch_size) &&
	    !strcmp(o->path, "-"))
		return usage(&diag, "--switch-output", "needs a file (-o): a "
			     "pipe has one recording");
	if (o->switch_keep && !k->control && !k->switch_signal &&
	    !k->switch_ms && !k->switch_size)
		return usage(&diag, "--switch-max-files", "needs "
			     "--switch-output, which makes several");
	k->signal_fd = block_signals(&signals);
	k->words = o->words;
	k->n_words = o->n_words;
	k->target.signals = &signals;
	k->target.stdout_taken = !strcmp(o->path, "-");
	if (o->words_left[0])
		k->target.argv = o->words_left;
	job->kernel = k;
	ret = run_job(rec, job);
	close(k->signal_fd);
	return ret;
}

/* o: the words are completed here (the default event), hence not const. */
int cmd_record(struct cmd_options *o)
{
	struct cmd_progress progress = { .started_ns = clock_ns() };
	struct recording rec = { .o = o };
	bool by_default = !o->n_words;
	char self_dir[CMD_HELPER_DIR_MAX];
	int status;
	struct source_job job = {
		.argc = o->argc,
		.args = o->argv,
		.argv = o->words_left,
		.self_dir = self_dir,
		.truth_path = o->truth,
		.inject_overflow = o->inject_overflow,
		.per_thread = o->kernel.target.per_thread,
		.verbose = o->verbose,
		.progress = cmd_progress_show,
		.progress_priv = &progress,
		.stop = &stop,
	};

	if (by_default)
		o->words[o->n_words++].text = default_event();
	cmd_helper_dir(self_dir); /* missing: the source says so */
	if (o->quiet || !isatty(STDERR_FILENO))
		job.progress = NULL;
	rec.ops = find_software(o);
	if (!rec.ops)
		rec.ops = &source_kernel;
	status = rec.ops == &source_kernel ? record_kernel(&rec, &job) :
					     record_software(&rec, &job, by_default);
	triggers_fini(&o->when);
	triggers_fini(&o->windows);
	return status;
}
