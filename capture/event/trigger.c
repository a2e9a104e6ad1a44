/* SPDX-License-Identifier: BSD-2-Clause */
/* trigger: see trigger.h. What is typed. */
#include <ctype.h>
#include <limits.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/event/evlist.h"
#include "capture/event/trigger.h"
#include "common/diag.h"
#include "common/options.h"

/* table: names without SIG, of signals that a program may wait for */
static const struct {
	const char *name;
	int signo;
	bool fatal;		/* with a core file, by default: signal(7) */
} signals[] = {
	{ "SEGV", SIGSEGV, true }, { "ABRT", SIGABRT, true }, { "BUS", SIGBUS, true },
	{ "ILL", SIGILL, true }, { "FPE", SIGFPE, true }, { "TRAP", SIGTRAP, true },
	{ "SYS", SIGSYS, true }, { "QUIT", SIGQUIT, true }, { "XCPU", SIGXCPU, true },
	{ "XFSZ", SIGXFSZ, true }, { "HUP", SIGHUP, false }, { "INT", SIGINT, false },
	{ "USR1", SIGUSR1, false }, { "USR2", SIGUSR2, false },
	{ "PIPE", SIGPIPE, false }, { "ALRM", SIGALRM, false },
	{ "TERM", SIGTERM, false }, { "CHLD", SIGCHLD, false },
	{ "VTALRM", SIGVTALRM, false }, { "PROF", SIGPROF, false },
	{ "IO", SIGIO, false }, { "PWR", SIGPWR, false }, { "URG", SIGURG, false },
	{ "WINCH", SIGWINCH, false },
};
#define N_SIGNALS (sizeof(signals) / sizeof(signals[0]))

bool trigger_in_file(const struct trigger *tr)
{
	return tr->kind == TRIGGER_FUNCTION || tr->kind == TRIGGER_LINE ||
	       tr->kind == TRIGGER_USDT;
}

bool trigger_is_fatal(int signo)
{
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (signals[i].signo == signo)
			return signals[i].fatal;
	return false;
}

static int parse_signal(struct trigger *tr, const char *name, struct aux_diag *diag)
{
	uint64_t v;

	tr->kind = TRIGGER_SIGNAL;
	if (!strcmp(name, "crash") || !strcmp(name, "exit") || !strcmp(name, "oom")) {
		tr->kind = *name == 'c' ? TRIGGER_CRASH : *name == 'e' ? TRIGGER_EXIT :
			   TRIGGER_OOM;
		return 0;
	}
	if (option_read_number(name, 64, &v) && v) {
		tr->signo = (int)v;
		return 0;
	}
	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (size_t i = 0; i < N_SIGNALS; i++)
		if (!strcmp(signals[i].name, name))
			tr->signo = signals[i].signo;
	if (tr->signo)
		return 0;
	return option_refuse(diag, "--when: no signal \"%.40s\": signal=SEGV, a number, "
			     "crash, exit or oom", name);
}

static char *trimmed(const char *s, size_t n)
{
	while (n && isspace((unsigned char)*s))
		s++, n--;
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	return n ? strndup(s, n) : NULL;
}

/* "> 200us" after a function, which ends where that begins. Not the > of a template: a time
 * follows this one. */
static int parse_longer(struct trigger *tr, const char *text, size_t *n,
			struct aux_diag *diag)
{
	const char *gt = strrchr(text, '>'), *at, *end;

	if (!gt || gt == text)
		return 0;
	at = gt + 1 + strspn(gt + 1, " ");
	if (!isdigit((unsigned char)*at))
		return 0;
	end = option_read_time(at, &tr->longer_ns);
	if (!end || *end || !tr->longer_ns)
		return option_refuse(diag, "--when: \"%.40s\" is no time as 200us, 1.5ms "
				     "or 2 (seconds)", at);
	*n = (size_t)(gt - text);
	return 0;
}

static int parse_address(struct trigger *tr, struct aux_diag *diag)
{
	char *end;

	tr->addr = strtoull(tr->name, &end, 16);
	if (*end || end == tr->name + 2)
		return option_refuse(diag, "--when: \"%.40s\" is no address as 0x401136",
				     tr->name);
	free(tr->name);
	tr->name = NULL;
	return 0;
}

/* server.c:120. A name of C++ has no number after a colon. */
static bool parse_line(struct trigger *tr)
{
	char *colon = strrchr(tr->name, ':'), *end;
	unsigned long line;

	if (!colon || colon == tr->name || colon[-1] == ':' ||
	    !isdigit((unsigned char)colon[1]))
		return false;
	line = strtoul(colon + 1, &end, 10);
	if (*end || !line || line > INT_MAX)
		return false;
	*colon = '\0';
	tr->line = (unsigned)line;
	tr->kind = TRIGGER_LINE;
	return true;
}

/* usdt:PROVIDER:NAME, without usdt: from here on. */
static int parse_usdt(struct trigger *tr, const char *text, struct aux_diag *diag)
{
	char *colon = strchr(tr->name + 5, ':');

	if (tr->longer_ns || !colon || colon == tr->name + 5 || !colon[1])
		return option_refuse(diag, "--when: \"%.60s\" is no probe as "
				     "usdt:PROVIDER:NAME, which is a point and takes no time",
				     text);
	memmove(tr->name, tr->name + 5, strlen(tr->name + 5) + 1);
	tr->kind = TRIGGER_USDT;
	return 0;
}

/* FUNCTION or another place in a file, and " @ FILE". */
static int parse_function(struct trigger *tr, const char *text, struct aux_diag *diag)
{
	size_t n = strlen(text);
	const char *at;
	int err = parse_longer(tr, text, &n, diag);

	if (err)
		return err;
	at = memmem(text, n, " @ ", 3);
	tr->kind = TRIGGER_FUNCTION;
	tr->name = trimmed(text, at ? (size_t)(at - text) : n);
	if (at)
		tr->path = trimmed(at + 3, n - (size_t)(at + 3 - text));
	if (!tr->name || (at && !tr->path))
		return option_refuse(diag, "--when wants FUNCTION, 'FUNCTION > TIME', "
				     "FILE:LINE, signal=NAME, crash or exit, not \"%.60s\"",
				     text);
	if (!strncmp(tr->name, "0x", 2))
		return parse_address(tr, diag);
	if (!strncmp(tr->name, "usdt:", 5))
		return parse_usdt(tr, text, diag);
	if (parse_line(tr) && tr->longer_ns)
		return option_refuse(diag, "--when: a line takes no time: name the function "
				     "in place of \"%.60s\"", text);
	return 0;
}

/* kprobe:FUNCTION[+OFFSET][/FILTER/][ > TIME] */
static int parse_kprobe(struct trigger *tr, const char *text, struct aux_diag *diag)
{
	size_t n = strlen(text), used;
	int err = parse_longer(tr, text, &n, diag);
	const char *plus;
	char *all, *end;

	if (err)
		return err;
	tr->kind = TRIGGER_KPROBE;
	all = trimmed(text + 7, n - 7);
	if (!all)
		return option_refuse(diag, "--when: kprobe: wants a function of the kernel");
	used = strcspn(all, "/");
	n = strlen(all);
	if (all[used] && (n < used + 3 || all[n - 1] != '/')) {
		free(all);
		return option_refuse(diag, "--when \"%.60s\": a filter stands between "
				     "slashes", text);
	}
	if (all[used])
		tr->filter = strndup(all + used + 1, n - used - 2);
	plus = memchr(all, '+', used);
	tr->name = trimmed(all, plus ? (size_t)(plus - all) : used);
	tr->addr = plus ? strtoull(plus + 1, &end, 0) : 0;
	err = plus && (end == plus + 1 || end != all + used);
	free(all);
	if (err || !tr->name || (plus && tr->longer_ns))
		return option_refuse(diag, "--when: \"%.60s\" is no place as kprobe:vfs_read "
				     "or kprobe:vfs_read+0x10 (which takes no time)", text);
	return 0;
}

/* What the kernel counts by software: names with a hyphen, which no function has. Clocks
 * count nothing that happens. */
static bool parse_counter(struct trigger *tr, const char *text)
{
	size_t n = strcspn(text, ":");
	uint64_t config;
	uint32_t type;
	char *name = strndup(text, n);
	bool yes = name && memchr(name, '-', n) && !strstr(name, "clock") &&
		   !strstr(name, "bpf") && evlist_name_find(name, &type, &config) &&
		   type == PERF_TYPE_SOFTWARE;

	free(name);
	if (!yes)
		return false;
	tr->kind = TRIGGER_COUNTER;
	tr->name = strdup(text);
	return true;
}

/* mem:ADDRESS[/LENGTH][:ACCESS]: a hardware breakpoint, which evlist reads. */
static bool parse_memory(struct trigger *tr, const char *text)
{
	if (strncmp(text, "mem:", 4))
		return false;
	tr->kind = TRIGGER_COUNTER;
	tr->name = strdup(text);
	return true;
}

/* SUBSYSTEM:NAME or SUBSYSTEM:NAME/FILTER/. False: it is none. */
static bool parse_event(struct trigger *tr, const char *text)
{
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
				   "0123456789";
	size_t a = strspn(text, word), b, n = strlen(text);

	if (!a || text[a] != ':')
		return false;
	b = strspn(text + a + 1, word);
	if (!b || strspn(text + a + 1, "0123456789") == b ||	/* a line of a file */
	    (text[a + 1 + b] && (text[a + 1 + b] != '/' || text[n - 1] != '/' ||
				       n < a + b + 4)))
		return false;
	tr->kind = TRIGGER_EVENT;
	tr->name = strndup(text, a + 1 + b);
	if (text[a + 1 + b])
		tr->filter = strndup(text + a + b + 2, n - (a + b + 3));
	return true;
}

bool trigger_tracepoint(const struct trigger *tr, char *event, size_t event_len,
			char *filter, size_t filter_len)
{
	const char *name = "signal:signal_deliver";
	size_t used;

	*filter = '\0';
	if (trigger_in_file(tr) || tr->kind == TRIGGER_KPROBE)
		return false;
	if (tr->kind == TRIGGER_EXIT)
		name = "sched:sched_process_exit";
	if (tr->kind == TRIGGER_OOM)
		name = EVLIST_OOM;
	if (tr->kind == TRIGGER_EVENT || tr->kind == TRIGGER_COUNTER)
		name = tr->name;
	snprintf(event, event_len, "%s", name);
	if (tr->kind == TRIGGER_SIGNAL)
		snprintf(filter, filter_len, "sig == %d", tr->signo);
	if (tr->kind == TRIGGER_EVENT && tr->filter)
		snprintf(filter, filter_len, "%s", tr->filter);
	if (tr->kind != TRIGGER_CRASH)
		return true;
	/* SIG_DFL is 0 */
	used = (size_t)snprintf(filter, filter_len, "sa_handler == 0 && (");
	for (size_t i = 0; i < N_SIGNALS && used < filter_len; i++)
		if (signals[i].fatal)
			used += (size_t)snprintf(filter + used, filter_len - used,
						 "%ssig == %d", i ? " || " : "",
						 signals[i].signo);
	if (used < filter_len)
		snprintf(filter + used, filter_len - used, ")");
	return true;
}

/* A regular expression that cannot be one is refused now. */
static int check_name(const struct trigger *tr, struct aux_diag *diag)
{
	size_t n = tr->name ? strlen(tr->name) : 0;
	char *text;
	regex_t re;
	int bad;

	if (tr->kind != TRIGGER_FUNCTION || n < 3 || tr->name[0] != '/' ||
	    tr->name[n - 1] != '/')
		return 0;
	text = strndup(tr->name + 1, n - 2);
	bad = text ? regcomp(&re, text, REG_EXTENDED | REG_NOSUB) : 0;
	if (text && !bad)
		regfree(&re);
	free(text);
	if (bad)
		return option_refuse(diag, "--when: \"%.60s\" is no regular expression",
				     tr->name);
	return text ? 0 : -AUX_E_NOMEM;
}

int trigger_add(struct triggers *t, const char *text, struct aux_diag *diag)
{
	struct trigger *tr = &t->v[t->n];
	int err;

	if (t->n == TRIGGERS_MAX)
		return option_refuse(diag, "more than %d of --when at \"%.40s\"",
				     TRIGGERS_MAX, text);
	*tr = (struct trigger){ .text = text };
	t->n++;
	if (!strncmp(text, "signal=", 7))
		return parse_signal(tr, text + 7, diag);
	if (!strcmp(text, "crash") || !strcmp(text, "exit"))
		return parse_signal(tr, text, diag);
	if (!strncmp(text, "kprobe:", 7))
		return parse_kprobe(tr, text, diag);
	if (parse_counter(tr, text) || parse_memory(tr, text))
		return 0;
	if (strncmp(text, "usdt:", 5) && parse_event(tr, text))
		return 0;
	err = parse_function(tr, text, diag);
	return err ? err : check_name(tr, diag);
}

void trigger_label(const struct trigger *tr, const struct trigger_moment *m,
		   char text[TRIGGER_LABEL])
{
	int n = snprintf(text, TRIGGER_LABEL, "%.120s: %u/%u on cpu %u at %llu.%09llu",
			 tr->text, m->pid, m->tid, m->cpu,
			 (unsigned long long)(m->time_ns / 1000000000),
			 (unsigned long long)(m->time_ns % 1000000000));

	if (m->took_ns && n > 0 && n < TRIGGER_LABEL)
		snprintf(text + n, (size_t)(TRIGGER_LABEL - n), ", took %llu.%03llu us",
			 (unsigned long long)(m->took_ns / 1000),
			 (unsigned long long)(m->took_ns % 1000));
}

void triggers_fini(struct triggers *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].name);
		free(t->v[i].path);
		free(t->v[i].filter);
	}
	t->n = 0;
}
