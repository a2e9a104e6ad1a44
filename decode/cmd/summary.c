/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * summary: the first screen (`auxdecode summary FILE`, and `auxdecode FILE` on
 * a terminal): what was recorded, is it complete, what ran most, and the
 * commands to go on with. On a terminal a large recording is decoded for some
 * seconds only, and what that means is said.
 *
 * It decodes through <aux/decode.h>, as diff does, and shares diff's counting:
 * one pass that adds up instructions and calls by function and thread. Nothing
 * is printed until that pass is over, since the verdict stands above the lists.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/markup.h"
#include "decode/callstack/names.h"
#include "decode/cmd/impl.h"
#include "common/clock.h"
#include "common/term.h"
#include "decode/sink/columns.h"
#include "decode/sink/sink.h"
#include "decode/compare/diff.h"

#define QUICK_NS UINT64_C(2000000000)
#define N_FUNCS 10
#define N_THREADS 8

struct summary_config {
	uint64_t limit;		/* -n: functions, 0: the default */
};

/* table */
static const struct option_row option_rows[] = {
	SINK_LIMIT(struct summary_config, "list N functions (default 10)"),
	{ .name = NULL },
};

const struct cmd_own cmd_summary_own = {
	.options = option_rows,
	.config_size = sizeof(struct summary_config),
};

struct start {
	const struct cmd_options *o;
	const struct colour *colour;
	struct outbuf *out;
	struct names *names;
	struct aux_decode *d;
	struct diff_code code;
	struct diff_sum sum;
	struct diff_funcs funcs;
	struct cmd_progress progress;
	struct aux_decode_stats stats;
	uint64_t began_ns, n_ticks;
	uint64_t first_ns, last_ns;
	bool cut;		/* not all was decoded */
};

/* Also ends a quick look after QUICK_NS: long enough for most recordings, short
 * enough for somebody who only typed a file name. */
static void tick(void *priv, const struct aux_decode *d)
{
	struct start *s = priv;
	struct aux_decode_stats st = { .size = sizeof(st) };

	if (s->n_ticks++ % 256)
		return;
	aux_decode_get_stats(d, &st);
	cmd_progress_show(&s->progress, st.aux_decoded, st.aux_wanted);
	if (s->o->quick && clock_ns() - s->began_ns > QUICK_NS)
		s->sum.enough = true;
}

static void put_label(struct start *s, const char *label)
{
	outbuf_printf(s->out, "%s%-12s%s", s->colour->head, label,
		      s->colour->end);
}

/* From 10000 of a unit on the next one is used, so small sizes stay exact. */
static void put_size(struct start *s, uint64_t n)
{
	static const char *const units[] = { "bytes", "KB", "MB", "GB", "TB" };
	unsigned u = 0;
	double v = (double)n;

	while (v >= 10000 && u < 4) {
		v /= 1024;
		u++;
	}
	outbuf_printf(s->out, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static void put_count(struct start *s, uint64_t n, const char *what)
{
	outbuf_printf(s->out, "%s%" PRIu64 "%s %s%s", s->colour->number, n,
		      s->colour->end, what, n == 1 ? "" : "s");
}

/* The first and last time of any record; 0 where no record has one. */
/* One pass over the records, which is short beside a decode: trace payloads are
 * not looked at. */
static void find_times(struct start *s)
{
	struct aux_reader *r = aux_decode_reader(s->d);
	struct aux_event ev;

	aux_reader_rewind(r);
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (!(ev.id.present & PERF_SAMPLE_TIME) || !ev.id.time)
			continue;
		if (!s->first_ns || ev.id.time < s->first_ns)
			s->first_ns = ev.id.time;
		if (ev.id.time > s->last_ns)
			s->last_ns = ev.id.time;
	}
}

/* Strings come from the file, so each goes through outbuf_clean(): an escape
 * sequence in a host name must not reach the terminal. */
static void put_file(struct start *s)
{
	const struct aux_file_info *info =
		aux_reader_info(aux_decode_reader(s->d));
	const char *clock = aux_reader_source(aux_decode_reader(s->d), "clock");

	put_label(s, "recording");
	outbuf_clean(s->out, s->o->path);
	outbuf_str(s->out, ", ");
	put_size(s, info->size);
	outbuf_str(s->out, "\n");
	if (info->cmdline) {
		put_label(s, "made by");
		outbuf_clean(s->out, info->cmdline);
		outbuf_str(s->out, "\n");
	}
	if (info->hostname || info->cpu_desc) {
		put_label(s, "on");
		outbuf_clean(s->out, info->hostname ? info->hostname : "-");
		outbuf_str(s->out, info->os_release ? ", Linux " : "");
		outbuf_clean(s->out, info->os_release ? info->os_release : "");
		outbuf_str(s->out, info->cpu_desc ? ", " : "");
		outbuf_clean(s->out, info->cpu_desc ? info->cpu_desc : "");
		outbuf_str(s->out, "\n");
	}
	put_label(s, "time");
	if (!s->last_ns) {
		outbuf_str(s->out, "not in the trace\n");
		return;
	}
	outbuf_printf(s->out, "%.6f s, from %.9f to %.9f%s\n",
		      (double)(s->last_ns - s->first_ns) / 1e9,
		      (double)s->first_ns / 1e9, (double)s->last_ns / 1e9,
		      clock && !strcmp(clock, "virtual") ?
			      " (of a virtual clock: software-made trace)" : "");
}

/* How much there is; with a quick look also how much of it was seen. */
static void put_what(struct start *s)
{
	const struct aux_decode_stats *st = &s->stats;

	put_label(s, "trace");
	put_size(s, st->aux_bytes);
	outbuf_str(s->out, " in ");
	put_count(s, st->n_streams, "stream");
	outbuf_str(s->out, ", ");
	put_count(s, st->n_insns, "instruction");
	outbuf_str(s->out, " in ");
	put_count(s, s->sum.n, "thread");
	if (s->sum.n_payloads) {
		outbuf_str(s->out, ", ");
		put_count(s, s->sum.n_payloads, "value");
		outbuf_str(s->out, " that the program wrote");
	}
	outbuf_str(s->out, "\n");
	if (s->cut)
		outbuf_printf(s->out, "%-12s%sonly the first %.0f %% was "
			      "decoded; all of it: ",
			      "", s->colour->bad, st->aux_wanted ?
			      100.0 * (double)st->aux_decoded /
			      (double)st->aux_wanted : 0.0);
	if (s->cut)
		follow_put(s->out, "summary FILE");
	if (s->cut)
		outbuf_printf(s->out, "%s\n", s->colour->end);
}

/* What is missing, by cause, each with the fix where there is one. */
static void put_verdict(struct start *s)
{
	const struct aux_decode_stats *st = &s->stats;
	uint64_t n;

	put_label(s, "verdict");
	if (!st->lossy) {
		outbuf_printf(s->out, "%s%s%s\n", s->colour->good,
			      s->cut ? "nothing is missing so far" :
				       "complete: nothing is missing",
			      s->colour->end);
		return;
	}
	outbuf_printf(s->out, "%sparts are missing%s", s->colour->bad,
		      s->colour->end);
	if (st->lost_bytes)
		outbuf_printf(s->out, "; %" PRIu64 " bytes of trace were lost "
			      "at capture", st->lost_bytes);
	follow_expand(s->out, st->n_gaps ? "\n" : "; `auxdecode info` says what\n",
		      NULL);
	for (unsigned i = 0; i < 32; i++) {
		n = aux_decode_count_gaps(s->d, i);
		if (n && aux_gap_is_loss(i))
			outbuf_printf(s->out, "%-12s%s%6" PRIu64 " %-13s%s %s\n",
				      "", s->colour->bad, n, aux_gap_name(i),
				      s->colour->end, advice_gap(i));
	}
}

static double percent(const struct start *s, uint64_t n)
{
	return s->stats.n_insns ? 100.0 * (double)n / (double)s->stats.n_insns :
				  0;
}

#define BESIDE_NAMES 54	/* columns: numbers, and the file behind */

/* Of the function that ran most, and has a name. */
static void go_on_with(const struct start *s, struct diff_func **v)
{
	char name[512];

	for (size_t i = 0; i < s->funcs.n; i++) {
		if (!v[i]->name)
			continue;
		names_typed(s->names, v[i]->name, name, sizeof(name));
		follow_about(name, "");
		return;
	}
}

/* By instructions, not by time: instructions are exact in a trace, and the
 * clock of software-made trace is virtual. */
static void put_functions(struct start *s)
{
	const struct summary_config *config = s->o->own;
	struct diff_func **v = diff_funcs_sort(&s->funcs);
	uint64_t limit = config->limit ? config->limit : N_FUNCS;
	unsigned width = s->o->output.width;

	if (width)
		width = width > BESIDE_NAMES + 26 ? width - BESIDE_NAMES : 26;
	if (!v) {
		outbuf_fail(s->out, ENOMEM);
		return;
	}
	go_on_with(s, v);
	outbuf_printf(s->out, "\n%s%13s %6s %11s  functions that ran most%s\n",
		      s->colour->head, "instructions", "%", "calls",
		      s->colour->end);
	for (size_t i = 0; i < s->funcs.n && i < limit; i++) {
		outbuf_printf(s->out, "%s%13" PRIu64 "%s %6.2f %11" PRIu64
			      "  %s", s->colour->number, v[i]->insns[0],
			      s->colour->end, percent(s, v[i]->insns[0]),
			      v[i]->calls[0], s->colour->name);
		outbuf_clean(s->out, v[i]->name ? names_cut(s->names, v[i]->name, width) :
						  "[no symbol]");
		outbuf_printf(s->out, "%s %s(", s->colour->end, s->colour->dim);
		outbuf_clean(s->out, v[i]->dso);
		outbuf_printf(s->out, ")%s\n", s->colour->end);
	}
	free(v);
}

/* Most instructions first; the tid makes the order the same in each run. */
static int compare_threads(const void *pa, const void *pb)
{
	const struct diff_thread *a = *(struct diff_thread *const *)pa;
	const struct diff_thread *b = *(struct diff_thread *const *)pb;

	if (a->hash.n != b->hash.n)
		return a->hash.n < b->hash.n ? 1 : -1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Nothing for one thread: its numbers are those of the whole. */
static void put_threads(struct start *s)
{
	struct diff_thread **v = s->sum.threads;
	size_t n = s->sum.n;

	if (n < 2)
		return;
	qsort(v, n, sizeof(struct diff_thread *), compare_threads);
	outbuf_printf(s->out, "\n%s%13s %6s %11s  threads%s\n", s->colour->head,
		      "instructions", "%", "tid", s->colour->end);
	for (size_t i = 0; i < n && i < N_THREADS; i++) {
		outbuf_printf(s->out, "%s%13" PRIu64 "%s %6.2f ",
			      s->colour->number, v[i]->hash.n, s->colour->end,
			      percent(s, v[i]->hash.n));
		if (v[i]->tid == UINT32_MAX)
			outbuf_printf(s->out, "%11s  ", "-");
		else
			outbuf_printf(s->out, "%11" PRIu32 "  ", v[i]->tid);
		outbuf_clean(s->out, v[i]->tid == UINT32_MAX ? "(not known)" :
				     v[i]->comm);
		outbuf_str(s->out, "\n");
	}
	if (n > N_THREADS)
		outbuf_printf(s->out, "%13s %zu more", "", n - N_THREADS);
	if (n > N_THREADS)
		follow_expand(s->out, "; `auxdecode count` lists them\n", NULL);
}

#define NEXT_WIDTH 72	/* what is longer moves its comment alone */

/* A command, and how many letters it has. */
static size_t put_command(struct outbuf *out, const char *words)
{
	struct outbuf *text = outbuf_new(-1);
	size_t len;

	if (!text) {
		outbuf_fail(out, ENOMEM);
		return 0;
	}
	follow_put(text, words);
	len = (size_t)(text->p - text->buf);
	outbuf_put(out, text->buf, len);
	outbuf_free(text);
	return len;
}

/* What shows the flow by time is of no use where there is none. */
static const struct advice_next *next_of(const struct start *s, size_t *i)
{
	const struct advice_next *next;

	while ((next = advice_next("summary", (*i)++)))
		if (s->last_ns || !strstr(next->words, "--last"))
			return next;
	return NULL;
}

/* Comments stand below each other. */
static void put_next(struct start *s)
{
	const struct advice_next *next;
	size_t width = 0, len;
	struct outbuf *none = outbuf_new(-1);

	for (size_t i = 0; none && (next = next_of(s, &i));) {
		len = put_command(none, next->words);
		width = len > width && len <= NEXT_WIDTH ? len : width;
	}
	if (!none || outbuf_failed(none))
		outbuf_fail(s->out, ENOMEM);
	outbuf_free(none);
	outbuf_printf(s->out, "\n%sto go on%s\n", s->colour->head,
		      s->colour->end);
	for (size_t i = 0; (next = next_of(s, &i));) {
		outbuf_str(s->out, "  ");
		len = put_command(s->out, next->words);
		outbuf_printf(s->out, "%*s  %s# %s%s\n",
			      len < width ? (int)(width - len) : 0, "",
			      s->colour->dim, next->what, s->colour->end);
	}
}

/* ---- --json ---- */

static void json_file(struct start *s)
{
	const struct aux_file_info *info =
		aux_reader_info(aux_decode_reader(s->d));
	const struct aux_decode_stats *st = &s->stats;
	struct outbuf *out = s->out;

	outbuf_printf(out, ",\n\"recording\":{\"bytes\":%" PRIu64, info->size);
	outbuf_json_text(out, "made_by", info->cmdline);
	outbuf_json_text(out, "host", info->hostname);
	outbuf_json_text(out, "os_release", info->os_release);
	outbuf_json_text(out, "cpu", info->cpu_desc);
	outbuf_json_number(out, "first_ns", s->first_ns);
	outbuf_json_number(out, "last_ns", s->last_ns);
	outbuf_printf(out, "},\n\"trace\":{\"bytes\":%" PRIu64,
		      st->aux_bytes);
	outbuf_json_number(out, "streams", st->n_streams);
	outbuf_json_number(out, "instructions", st->n_insns);
	outbuf_json_number(out, "threads", s->sum.n);
	outbuf_json_number(out, "payloads", s->sum.n_payloads);
	outbuf_json_number(out, "bytes_decoded", st->aux_decoded);
	outbuf_json_number(out, "bytes_wanted", st->aux_wanted);
	outbuf_json_bool(out, "all_decoded", !s->cut);
	outbuf_str(out, "}");
}

static void json_gaps(struct start *s)
{
	const struct aux_decode_stats *st = &s->stats;
	bool first = true;
	uint64_t n;

	outbuf_str(s->out, ",\n\"verdict\":{\"gaps\":[");
	for (unsigned i = 0; i < 32; i++) {
		n = aux_decode_count_gaps(s->d, i);
		if (n && aux_gap_is_loss(i))
			json_gap(s->out, &first, i, n);
	}
	outbuf_str(s->out, "]");
	outbuf_json_number(s->out, "lost_bytes", st->lost_bytes);
	outbuf_json_bool(s->out, "complete", !st->lossy);
	outbuf_str(s->out, "}");
}

static void json_functions(struct start *s)
{
	const struct summary_config *config = s->o->own;
	struct diff_func **v = diff_funcs_sort(&s->funcs);
	uint64_t limit = config->limit ? config->limit : N_FUNCS;
	struct outbuf *out = s->out;

	if (v)
		go_on_with(s, v);
	outbuf_str(out, ",\n\"functions\":[");
	for (size_t i = 0; v && i < s->funcs.n && i < limit; i++) {
		outbuf_str(out, i ? ",\n{\"function\":" : "\n{\"function\":");
		outbuf_json(out, v[i]->name ? names_shown(s->names, v[i]->name)
					    : "[no symbol]");
		outbuf_json_text(out, "dso", v[i]->dso);
		outbuf_json_number(out, "instructions", v[i]->insns[0]);
		outbuf_printf(out, ",\"percent\":%.2f",
			      percent(s, v[i]->insns[0]));
		outbuf_json_number(out, "calls", v[i]->calls[0]);
		outbuf_str(out, "}");
	}
	outbuf_printf(out, "],\"n_functions\":%zu", s->funcs.n);
	if (!v)
		outbuf_fail(out, ENOMEM);
	free(v);
}

static void json_threads(struct start *s)
{
	struct diff_thread **v = s->sum.threads;
	struct outbuf *out = s->out;

	qsort(v, s->sum.n, sizeof(struct diff_thread *), compare_threads);
	outbuf_str(out, ",\n\"threads\":[");
	for (size_t i = 0; i < s->sum.n; i++) {
		outbuf_printf(out, "%s{\"tid\":%d", i ? ",\n" : "\n",
			      (int32_t)v[i]->tid);
		outbuf_json_text(out, "comm", v[i]->comm);
		outbuf_json_number(out, "instructions", v[i]->hash.n);
		outbuf_printf(out, ",\"percent\":%.2f",
			      percent(s, v[i]->hash.n));
		outbuf_json_number(out, "gaps", v[i]->n_gaps);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

/* summary has the shared --tid, which cmd_api_options leaves out. */
static struct aux_decode_options options_of(const struct cmd_options *o)
{
	struct aux_decode_options a = cmd_api_options(o);

	/* no time of the flow is shown */
	a.flags |= AUX_DECODE_NO_TIMES;
	if (o->filter.tid >= 0) {
		a.flags |= AUX_DECODE_ONE_TID;
		a.tid = (uint32_t)o->filter.tid;
	}
	return a;
}

/* One pass for everything. On an error s is as far filled as it came; the
 * caller frees it either way. */
static int read_flow(struct start *s, struct aux_diag *diag)
{
	struct aux_decode_options options = options_of(s->o);
	int rc = aux_decode_open(&s->d, s->o->path, &options, diag);

	if (rc == 0)
		rc = diff_funcs_init(&s->funcs);
	if (rc == 0)
		rc = diff_code_init(&s->code, s->d, &s->funcs);
	if (rc < 0)
		return rc;
	advice_of(aux_decode_reader(s->d));
	find_times(s);
	s->sum = (struct diff_sum){ .code = &s->code, .tick = tick,
				    .tick_priv = s };
	s->began_ns = clock_ns();
	cmd_progress_init(&s->progress, s->o, "decoding");
	rc = diff_sum_run(&s->sum, diag);
	if (rc == 0)
		rc = diff_funcs_settle(&s->funcs);
	cmd_progress_end(&s->progress);
	s->cut = s->sum.enough;
	s->stats.size = sizeof(s->stats);
	aux_decode_get_stats(s->d, &s->stats);
	return rc;
}

/* All that is missing is the code. */
static bool lacks_code(const struct start *s)
{
	bool lacks = aux_decode_count_gaps(s->d, AUX_GAP_NO_CODE) != 0;

	for (unsigned i = 0; i < 32; i++)
		lacks &= i == AUX_GAP_NO_CODE || !aux_gap_is_loss(i) ||
			 !aux_decode_count_gaps(s->d, i);
	return lacks;
}

/* A failure, with the likeliest reason, after what is known of the file. */
static int fail_empty(const struct start *s)
{
	outbuf_flush(s->out);
	if (lacks_code(s)) {
		cmd_line("auxdecode: error: %s: nothing of the trace can be followed: %s",
			 s->o->path, advice_gap(AUX_GAP_NO_CODE));
		return CMD_FAILED;
	}
	cmd_line("auxdecode: error: %s: nothing that ran was traced: %s",
		 s->o->path,
		 !s->stats.n_streams ?
			 "it was recorded without intel_pt or cs_etm" :
		 !s->stats.aux_bytes ? "the streams are empty" :
			 "`auxdecode raw` shows the packets, `auxdecode count -v` "
			 "what each stage dropped");
	return CMD_FAILED;
}

static int status_of(const struct start *s)
{
	if (!s->stats.n_insns && !s->sum.n_payloads)
		return fail_empty(s);
	return s->stats.lossy ? CMD_GAPS : CMD_OK;
}

static int print_json(struct start *s)
{
	int status;

	json_begin(s->out, s->o, aux_decode_reader(s->d));
	json_file(s);
	json_functions(s);
	if (s->sum.n)
		json_threads(s);
	json_gaps(s);
	status = status_of(s);
	json_end(s->out, s->o, status);
	return status;
}

/* Returns the status. */
static int print(struct start *s)
{
	put_file(s);
	put_what(s);
	put_verdict(s);
	if (s->stats.n_insns) {
		put_functions(s);
		put_threads(s);
		put_next(s);
		return s->stats.lossy ? CMD_GAPS : CMD_OK;
	}
	if (s->sum.n_payloads) {
		outbuf_str(s->out, "no instructions, but values that the "
				   "program wrote: ");
		follow_put(s->out, "insn FILE");
		outbuf_str(s->out, "\n");
		return s->stats.lossy ? CMD_GAPS : CMD_OK;
	}
	return fail_empty(s);
}

int cmd_summary(const struct cmd_options *o)
{
	struct start s = { .o = o, .colour = colour_get(o->output.colour) };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct cmd_out out = { 0 };
	int rc = cmd_names(&s.names, o, &diag), status;

	if (!rc)
		rc = read_flow(&s, &diag);
	if (rc < 0)
		status = cmd_failed(o->path, rc, &diag);
	else
		status = cmd_out_open(&out, o);
	if (rc == 0 && status == CMD_OK) {
		s.out = out.buf;
		status = cmd_out_close(&out, o, o->output.json ?
						print_json(&s) : print(&s));
	}
	diff_sum_fini(&s.sum);
	diff_code_fini(&s.code);
	diff_funcs_fini(&s.funcs);
	aux_decode_close(s.d);
	names_free(s.names);
	return status;
}
