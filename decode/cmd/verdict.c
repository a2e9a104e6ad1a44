/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verdict: what was lost or missing, said once at the end. An empty result is
 * an error: the reason, then what to do. With -v a table shows what each stage
 * had, so that one sees where everything went.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/callstack/names.h"
#include "decode/cmd/impl.h"
#include "decode/sink/columns.h"

/*
 * Counts a GAP; for missing code it also keeps the reason, once for each text.
 * The text starts with the address ("no code at 0x7f..: "), which differs each
 * time and is cut off, so that one missing file is one line of the verdict.
 */
void verdict_gap(struct verdict *v, const struct sink_host *host,
		 const struct flow_ctx *ctx, const struct aux_flow *ev)
{
	char text[512] = "", *at;

	if (ev->what < GAP_N_CAUSES)
		v->n_gaps[ev->what]++;
	if (ev->what != AUX_GAP_NO_CODE || !host->explain || !ctx->space ||
	    !(ev->flags & AUX_FLOW_HAS_IP))
		return;
	host->explain(host->priv, ctx->space, ev->gap.ip, text, sizeof(text));
	at = strstr(text, ": "); /* "no code at 0x7f..: " */
	at = at ? at + 2 : text;
	for (unsigned i = 0; i < v->n_texts; i++) {
		if (!strcmp(v->missing[i], at)) {
			v->n_missing[i]++;
			return;
		}
	}
	if (!*at || v->n_texts == VERDICT_MISSING)
		return;
	v->missing[v->n_texts] = strdup(at);
	if (v->missing[v->n_texts])
		v->n_missing[v->n_texts++] = 1;
}

void verdict_free(struct verdict *v)
{
	for (unsigned i = 0; i < v->n_texts; i++)
		free(v->missing[i]);
}

/* The filters that were given, as one line. */
struct filters {
	char text[512];
	size_t n;
};

/* One more; what does not fit is left out. */
__attribute__((format(printf, 2, 3)))
static void say_filter(struct filters *f, const char *fmt, ...)
{
	size_t room = sizeof(f->text) - f->n;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(f->text + f->n, room, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n + 1 >= room) {
		f->text[f->n] = '\0';
		return;
	}
	f->n += (size_t)n;
	f->text[f->n++] = ' ';
	f->text[f->n] = '\0';
}

static bool is_timed(const struct cmd_options *o)
{
	return o->filter.time_from || o->filter.time_to != UINT64_MAX;
}

static void say_time(struct filters *f, const struct cmd_filter *filter)
{
	char from[40] = "", to[40] = "";

	if (filter->time_from)
		*fmt_time(from, filter->time_from) = '\0';
	if (filter->time_to != UINT64_MAX)
		*fmt_time(to, filter->time_to) = '\0';
	say_filter(f, "--time %s,%s", from, to);
}

/* Those of the flow as they could be typed again; "" without any. */
static struct filters list_filters(const struct cmd_options *o)
{
	struct filters f = { 0 };

	if (o->filter.tid >= 0)
		say_filter(&f, "--tid %" PRId64, o->filter.tid);
	for (size_t i = 0; i < o->filter.n_pids; i++)
		say_filter(&f, "--pid %" PRIu32, o->filter.pids[i]);
	for (size_t i = 0; i < o->filter.n_comms; i++)
		say_filter(&f, "--comm %s", o->filter.comms[i]);
	if (o->filter.cpu >= 0)
		say_filter(&f, "--cpu %" PRId64, o->filter.cpu);
	if (is_timed(o))
		say_time(&f, &o->filter);
	if (o->filter.last_ns)
		say_filter(&f, "--last %" PRIu64 "ns", o->filter.last_ns);
	if (o->filter.chunks)
		say_filter(&f, "--chunk %" PRIu64 "-%" PRIu64, o->filter.chunk_from,
			   o->filter.chunk_to);
	if (o->filter.snapshot)
		say_filter(&f, "--snapshot %" PRIu64, o->filter.snapshot);
	if (f.n)
		f.text[f.n - 1] = '\0';
	return f;
}

/* With those of functions; nothing without any. */
static void say_filters(const struct cmd_options *o)
{
	struct filters f = list_filters(o);

	if (f.n)
		f.text[f.n - 1] = ' ';
	for (size_t i = 0; i < o->filter.n_symbols; i++)
		say_filter(&f, o->command->named ? "%s" : "--symbol %s",
			   o->filter.symbols[i]);
	for (size_t i = 0; i < o->filter.n_modules; i++)
		say_filter(&f, "--module %s", o->filter.modules[i]);
	if (f.n) {
		f.text[f.n - 1] = '\0';
		cmd_line("  filters:             %s", f.text);
	}
}

/* A stage and how much passed it. */
static void say_row(const char *what, uint64_t n)
{
	cmd_line("  %-24s %12llu", what, (unsigned long long)n);
}

/* The likeliest reason for an empty result, the earliest stage first: a file
 * without trace needs no word about filters. */
static const char *hint(const struct verdict *v, const struct cmd_options *o,
			const struct session_stats *st, const char *unnamed)
{
	static char text[800];	/* of the one that is said */
	struct filters f = list_filters(o);

	if (!st->n_streams && st->cut)
		return "what is left of the file holds no AUX trace; `auxdecode "
		       "info` shows what it has";
	if (!st->n_streams)
		return "the file holds no AUX trace: it was recorded without "
		       "intel_pt or cs_etm; `auxdecode info` shows its events";
	if (!st->aux_bytes)
		return "the AUX streams are empty: nothing ran while tracing "
		       "was on, or the recording lost it";
	if (v->report.n_insns && unnamed[0] && o->filter.n_symbols &&
	    advice_is_place(o->filter.symbols[0]) && !strstr(unnamed, "; ")) {
		snprintf(text, sizeof(text), "%.200s has no symbol, and no unwind table "
			 "says where it ends, if it ran; `auxdecode calls` shows its "
			 "calls, --module is all of a file", o->filter.symbols[0]);
		return text;
	}
	if (v->report.n_insns && unnamed[0]) {
		const char *script = advice_script();

		snprintf(text, sizeof(text), "%s%s%s", unnamed,
			 strstr(unnamed, "; ") || script ? "" :
			 "; `auxdecode summary` lists what did", script ? script : "");
		return text;
	}
	if (v->n_gaps[AUX_GAP_NO_CODE] && v->n_texts) {
		snprintf(text, sizeof(text), "there is no code: %s", v->missing[0]);
		return text;
	}
	if (v->n_gaps[AUX_GAP_NO_CODE])
		return "the code is missing: give its place with --symfs";
	if (v->report.hint[0])
		return v->report.hint;
	if (v->report.n_insns)
		return "what was asked for did not run";
	if (f.n) {
		snprintf(text, sizeof(text), "nothing ran with %s; `auxdecode "
			 "info` shows when and where something did", f.text);
		return text;
	}
	if (st->aux_decoded)
		return "the trace holds no instructions; `auxdecode insn` "
		       "shows values that programs wrote (STM, ITM, ptwrite), "
		       "`auxdecode raw` the packets";
	return "`auxdecode raw` shows the packets";
}

/* Every stage from the file to the output with its count: the first 0 is where
 * it was lost. */
static int say_empty(const struct verdict *v, const struct cmd_options *o,
		     const struct session_stats *st)
{
	char unnamed[512];

	fflush(stdout);
	names_hint(v->names, unnamed, sizeof(unnamed));
	cmd_line("auxdecode: error: %s: nothing to show: %s", v->path,
		 hint(v, o, st, unnamed));
	if (!o->output.verbose)
		return CMD_FAILED;
	cmd_line("auxdecode: what each stage had:");
	say_row("records read", st->n_records);
	say_row("AUX streams", st->n_streams);
	say_row("AUX bytes", st->aux_bytes);
	say_row("AUX bytes decoded", st->aux_decoded);
	say_row("instructions decoded", st->n_insns);
	say_row("past the filters", v->report.n_insns);
	if (names_select(v->names))
		say_row("in other functions", v->report.n_filtered);
	for (unsigned i = 0; i < v->report.n_drops; i++)
		say_row(v->report.drops[i].what, v->report.drops[i].n);
	say_row("shown", v->report.n_lines);
	say_filters(o);
	return CMD_FAILED;
}

/* perf prints "AUX data lost N times"; the ledger also knows how many bytes,
 * except where the kernel itself did not count them (0 of n times). */
static void say_loss(const struct aux_ledger_entry *sum,
		     const struct loss_text *t)
{
	char n[160], times[40] = "";

	if (t->bytes && !sum->bytes)
		snprintf(n, sizeof(n), "an unknown number of %s", t->many);
	else
		snprintf(n, sizeof(n), "%llu %s", (unsigned long long)sum->bytes,
			 sum->bytes == 1 ? t->one : t->many);
	if (t->bytes && sum->n > 1)
		snprintf(times, sizeof(times), " (%llu times)",
			 (unsigned long long)sum->n);
	cmd_line("auxdecode: lost at capture: %s%s%s", n, t->verdict, times);
}

/* Sums over all streams, one line a cause. True: something was lost. */
static bool say_ledger(const struct session *s)
{
	const struct losses *l = session_losses(s);
	struct aux_ledger_entry sum[AUX_LEDGER_N_CAUSES] = { 0 };
	bool lost = false;

	for (uint32_t i = 0; i < l->n; i++) {
		if (l->e[i].cause >= AUX_LEDGER_N_CAUSES)
			continue;
		sum[l->e[i].cause].bytes += l->e[i].bytes;
		sum[l->e[i].cause].n += l->e[i].n;
	}
	for (uint32_t i = 0; i < AUX_LEDGER_N_CAUSES; i++) {
		const struct loss_text *t = losses_text(i);

		if (!(sum[i].bytes | sum[i].n) || !t || !t->verdict)
			continue;
		say_loss(&sum[i], t);
		lost = true;
	}
	return lost;
}

/* True: there was something to say, hence loss. */
static bool say_count(uint64_t n, const char *what)
{
	if (n)
		cmd_line("auxdecode: %llu %s", (unsigned long long)n,
			what);
	return n;
}

bool verdict_cut(const char *path, const struct session *s)
{
	const struct timeline_stats *ts = timeline_stats(session_timeline(s));

	if (ts->damaged) {
		cmd_error(path, &ts->damage);
		cmd_line("auxdecode: what comes before was decoded");
	} else if (aux_reader_info(session_reader(s))->unfinished) {
		cmd_line("auxdecode: the recording was not finished (its "
			"writer was stopped); all that is there was "
			"decoded");
	}
	return ts->damaged || aux_reader_info(session_reader(s))->unfinished;
}

/* What the records and the file itself say of loss. */
static bool say_records(const struct verdict *v, const struct session *s)
{
	const struct timeline_stats *ts = timeline_stats(session_timeline(s));
	bool said = false;

	said |= say_count(ts->n_lost, "side-band records lost at capture: who "
				      "ran, and which code, may be wrong");
	said |= say_count(ts->n_aux_flagged, "AUX records flagged truncated or "
					     "partial");
	said |= say_count(ts->n_throttled, "times throttled by the kernel");
	said |= say_count(ts->n_bad_code, "pieces of saved code are damaged");
	said |= say_count(ts->n_unordered, "times a mapping replaced another one, and no "
			  "record says when: code may be wrong there");
	said |= verdict_cut(v->path, s);
	return said;
}

/* Chunks that this decoder does not support: decoded by the reference decoder
 * instead, or left out where --decoder forbids that. */
static void say_handed(const struct session_stats *st)
{
	uint64_t n = st->n_handed_whole + st->n_handed_part;

	if (n)
		cmd_line("auxdecode: %llu of %llu chunks hold what %s "
			"cannot decode; %s decoded %s",
			(unsigned long long)n,
			(unsigned long long)st->n_chunks, st->decoder,
			st->reference, n == 1 ? "it" : "them");
	if (st->n_left)
		cmd_line("auxdecode: %llu of %llu chunks hold what %s "
			"cannot decode: without --decoder another one would",
			(unsigned long long)st->n_left,
			(unsigned long long)st->n_chunks, st->decoder);
}

/* Between two snapshots nothing was to be recorded: no gap for the exit
 * status. */
static uint64_t count_gaps(const struct verdict *v)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		n += i == GAP_SNAPSHOT ? 0 : v->n_gaps[i];
	return n;
}

/* Where advice_code() begins to say what to do; the end: it says nothing. */
static const char *fix_in(const char *text)
{
	const char *fix = strstr(text, "give ");

	return fix && fix - text > 2 ? fix : text + strlen(text);
}

/* What was needed and is not there, file by file; what to do once below those that it
 * is the same for. */
static void say_needed(const struct verdict *v)
{
	for (unsigned i = 0; i < v->n_texts; i++) {
		const char *text = v->missing[i], *fix = fix_in(text);
		size_t facts = (size_t)(fix - text) - (*fix ? 2 : 0);

		cmd_line("  needed, for %llu of them: %.*s",
			 (unsigned long long)v->n_missing[i], (int)facts, text);
		if (*fix && (i + 1 == v->n_texts ||
			     strcmp(fix, fix_in(v->missing[i + 1]))))
			cmd_line("    %s", fix);
	}
}

/* Gaps by cause, then the reasons for missing code. */
static void say_gaps(const struct verdict *v)
{
	uint64_t n = count_gaps(v);

	if (n)
		cmd_line("auxdecode: %llu gap%s in the flow:",
			(unsigned long long)n, n == 1 ? "" : "s");
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		if (v->n_gaps[i] && i != GAP_SNAPSHOT)
			cmd_line("  %6llu %-13s %s",
				(unsigned long long)v->n_gaps[i], gap_name(i),
				advice_gap(i));
	say_needed(v);
	if (v->report.n_mismatches)
		cmd_line("auxdecode: %llu ranges of the decoder do not fit the "
			"code and were not shown; please report this",
			(unsigned long long)v->report.n_mismatches);
}

/* No function that was asked for ran, whatever else came out. */
static bool is_unnamed(const struct verdict *v)
{
	return v->report.n_insns && names_select(v->names) &&
	       !names_met(v->names);
}

/* Loss in the order of its stages: the decoder's, the recorder's, the
 * file's. */
int verdict_print(const struct verdict *v, const struct cmd_options *o,
		  const struct session *s, const struct session_stats *stats)
{
	bool lossy = v->report.n_mismatches || count_gaps(v);
	char unnamed[512];

	say_gaps(v);
	/* an erratum may lead to an address where no code is */
	if ((v->n_gaps[AUX_GAP_DESYNC] || v->n_gaps[AUX_GAP_BAD_PACKET] ||
	     v->n_gaps[AUX_GAP_NO_CODE]) && session_lacks_model(s))
		cmd_line("auxdecode: the recording does not name its CPU, so no "
			 "errata were worked around: --cpu-model 6/158/10, as "
			 "/proc/cpuinfo has it");
	say_handed(stats);
	lossy |= say_ledger(s);
	lossy |= say_records(v, s);
	if (stats->lossy && !lossy)
		cmd_line("auxdecode: parts of the recording are missing;"
				" `auxdecode info` lists them");
	lossy |= stats->lossy;
	if ((!v->report.n_lines && !v->report.n_payloads) || is_unnamed(v))
		return say_empty(v, o, stats);
	names_hint(v->names, unnamed, sizeof(unnamed));
	if (unnamed[0])
		cmd_warn(v->path, "%s", unnamed);
	names_note(v->names, unnamed, sizeof(unnamed));
	if (unnamed[0])
		cmd_line("auxdecode: %s", unnamed);
	if (v->report.note[0])
		cmd_line("auxdecode: %s", v->report.note);
	return lossy ? CMD_GAPS : CMD_OK;
}
