/* SPDX-License-Identifier: BSD-2-Clause */
/* The head of the page: what was recorded, how long, how much, and what is
 * missing, in plain words; it needs no script to be read. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <aux/reader.h>

#include "decode/sink/columns.h"
#include "decode/lib/session/session.h"
#include "decode/report/impl.h"

/* 1234567 as 1,234,567; 32 bytes. */
static const char *grouped(uint64_t v, char *buf)
{
	char digits[24], *p = buf;
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);

	for (int i = 0; i < n; i++) {
		*p++ = digits[i];
		if ((n - 1 - i) % 3 == 0 && i + 1 < n)
			*p++ = ',';
	}
	*p = 0;
	return buf;
}

/* Four digits of the largest unit of which there is one. */
static const char *duration(uint64_t ns, char *buf, size_t len)
{
	static const struct {
		double unit;
		const char *name;
	} units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "\u00b5s" },
		      { 1, "ns" } };
	unsigned i = 0;

	while (i < 3 && (double)ns < units[i].unit)
		i++;
	snprintf(buf, len, "%.4g %s", (double)ns / units[i].unit,
		 units[i].name);
	return buf;
}

static void put_count(struct outbuf *o, uint64_t n, const char *one,
		      const char *many)
{
	char buf[32];

	outbuf_printf(o, "%s %s", grouped(n, buf), n == 1 ? one : many);
}

static const struct aux_file_info *info_of(const struct report *r)
{
	return r->session ? aux_reader_info(session_reader(r->session)) : NULL;
}

static const char *path_of(const struct report *r)
{
	return r->env.path ? r->env.path : "";
}

static uint32_t count_threads(const struct report *r)
{
	return r->n_lanes - (r->threadless ? 1 : 0);
}

/* The name of the thread that did most; the file's name when none is known. */
static const char *main_comm(const struct report *r)
{
	const char *comm = NULL;
	uint64_t most = 0;

	for (uint32_t i = 0; i < r->n_lanes; i++) {
		const struct report_lane *l = r->lanes[i];

		if (l->comm && *l->comm && l->count.insns >= most) {
			comm = l->comm;
			most = l->count.insns;
		}
	}
	return comm ? comm : path_of(r);
}

void report_put_title(struct report_writer *w, struct outbuf *out)
{
	outbuf_html(out, main_comm(w->r));
}

/* ---- what is missing ---- */

struct missing {
	struct outbuf *list; /* <li>.. */
	unsigned n;
};

/* A snapshot's beginning is no loss, so it is listed and not counted. */
static void put_gaps(const struct report *r, struct missing *m)
{
	char buf[32];

	for (unsigned i = 0; i < GAP_N_CAUSES; i++) {
		if (!r->n_gaps[i])
			continue;
		m->n += i != GAP_SNAPSHOT;
		outbuf_printf(m->list, "<li><b>%s</b> %s in the flow (%s): ",
			      grouped(r->n_gaps[i], buf),
			      r->n_gaps[i] == 1 ? "gap" : "gaps", gap_name(i));
		outbuf_html(m->list, sink_gap_text(r->env.host, i));
		outbuf_str(m->list, "</li>");
	}
}

static void put_ledger(const struct report *r, struct missing *m)
{
	const struct losses *l = session_losses(r->session);
	char buf[32];

	for (uint32_t c = 0; c < AUX_LEDGER_N_CAUSES; c++) {
		const struct loss_text *t = losses_text(c);
		uint64_t bytes = 0, n = 0;

		for (uint32_t i = 0; i < l->n; i++) {
			bytes += l->e[i].cause == c ? l->e[i].bytes : 0;
			n += l->e[i].cause == c ? l->e[i].n : 0;
		}
		if (!(bytes | n) || !t || !t->verdict)
			continue;
		m->n++;
		outbuf_str(m->list, "<li>At capture: ");
		if (t->bytes && !bytes)
			outbuf_printf(m->list, "an unknown number of %s",
				      t->many);
		else
			outbuf_printf(m->list, "<b>%s</b> %s",
				      grouped(bytes, buf),
				      bytes == 1 ? t->one : t->many);
		outbuf_html(m->list, t->verdict);
		outbuf_str(m->list, "</li>");
	}
}

static void put_one(struct missing *m, uint64_t n, const char *what)
{
	char buf[32];

	if (!n)
		return;
	m->n++;
	outbuf_printf(m->list, "<li><b>%s</b> %s</li>", grouped(n, buf), what);
}

static void put_records(const struct report *r, struct missing *m)
{
	const struct timeline_stats *ts =
		timeline_stats(session_timeline(r->session));

	put_one(m, ts->n_lost, "side-band records lost at capture: who ran, and "
			       "which code, may be wrong");
	put_one(m, ts->n_aux_flagged,
		"AUX records flagged truncated or partial");
	put_one(m, ts->n_throttled, "times throttled by the kernel");
	put_one(m, ts->n_bad_code, "pieces of saved code are damaged");
	put_one(m, ts->n_unordered, "times a mapping replaced another one, and no record "
				    "says when: code may be wrong there");
	if (ts->damaged) {
		m->n++;
		outbuf_str(m->list, "<li>The file is damaged: ");
		outbuf_html(m->list, ts->damage.text);
		outbuf_str(m->list, "; what comes before was decoded</li>");
	} else if (info_of(r)->unfinished) {
		m->n++;
		outbuf_str(m->list, "<li>The recording was not finished (its "
				    "writer was stopped); all that is there "
				    "was decoded</li>");
	}
}

static void put_missing(const struct report *r, struct missing *m)
{
	put_gaps(r, m);
	if (!r->session)
		return;
	put_ledger(r, m);
	put_records(r, m);
}

/* ---- the head ---- */

static void put_sentence(const struct report_writer *w, struct outbuf *o)
{
	const struct report *r = w->r;
	const struct call_count *all = &r->tree.nodes[0].total;
	char buf[64];

	put_count(o, all->insns, "instruction", "instructions");
	outbuf_str(o, " in ");
	put_count(o, r->n_calls, "call", "calls");
	outbuf_str(o, " of ");
	put_count(o, calls_n_funcs(r->calls), "function", "functions");
	outbuf_str(o, ", ");
	put_count(o, count_threads(r), "thread", "threads");
	if (r->timed)
		outbuf_printf(o, ", over %s",
			      duration((r->last - r->first) / REPORT_TICKS,
				       buf, sizeof(buf)));
	outbuf_str(o, r->timed ? "." : "; the trace has no times.");
}

static void put_fact(struct outbuf *o, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	outbuf_printf(o, "<dt>%s</dt><dd>", name);
	outbuf_html(o, value);
	outbuf_str(o, "</dd>");
}

static void put_machine(struct outbuf *o, const struct aux_file_info *f)
{
	const char *const v[] = { f->hostname, f->os_release, f->arch,
				  f->cpu_desc };
	const char *sep = "";

	outbuf_str(o, "<dt>Machine</dt><dd>");
	for (unsigned i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		if (!v[i] || !*v[i])
			continue;
		outbuf_str(o, sep);
		outbuf_html(o, v[i]);
		sep = ", ";
	}
	outbuf_str(o, "</dd>");
}

static void put_clock(const struct report *r, struct outbuf *o)
{
	const char *clock = aux_reader_source(session_reader(r->session),
					      "clock");

	if (clock && !strcmp(clock, "virtual"))
		put_fact(o, "Clock", "virtual: the trace was made by software; "
			 "1 ns for each instruction, and time in the kernel as "
			 "measured. Times are not the hardware's.");
	else if (!r->timed)
		put_fact(o, "Clock", "none: the trace has no times, all places "
				     "are in instructions of the thread");
}

static void put_drawn(const struct report_writer *w, struct outbuf *o)
{
	char buf[32], more[32];

	outbuf_str(o, "<dt>Drawn</dt><dd>");
	if (w->n_merged)
		outbuf_printf(o, "%s calls each on its own; %s short ones are "
			      "merged where they are (the page holds the "
			      "longest and, of each function, the slowest). "
			      "Counts and sums are of all calls.",
			      grouped(w->r->n_calls > w->n_merged ?
				      w->r->n_calls - w->n_merged : 0, buf),
			      grouped(w->n_merged, more));
	else
		outbuf_str(o, "every call");
	outbuf_str(o, "</dd>");
}

static void put_size(const struct report_writer *w, struct outbuf *o)
{
	char buf[32], more[32];

	if (w->over)
		outbuf_printf(o, "<dt>Size</dt><dd>%s bytes, more than the %s "
			      "asked for: the page itself, names and sums need "
			      "so much.</dd>",
			      grouped(w->over, buf),
			      grouped(w->r->config.max_size, more));
}

static void put_facts(const struct report_writer *w, struct outbuf *o)
{
	const struct aux_file_info *f = info_of(w->r);

	outbuf_str(o, "<dl class=\"facts\">");
	put_fact(o, "File", path_of(w->r));
	if (f) {
		put_fact(o, "Command", f->cmdline);
		put_machine(o, f);
		put_fact(o, "Recorded by", f->version);
		put_clock(w->r, o);
	}
	put_drawn(w, o);
	put_size(w, o);
	outbuf_str(o, "</dl>");
}

void report_put_head(struct report_writer *w, struct outbuf *out)
{
	struct missing m = { .list = outbuf_new(-1) };

	if (!m.list) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	put_missing(w->r, &m);
	outbuf_printf(out, "<p class=\"verdict %s\"><strong>%s</strong> ",
		      m.n ? "bad" : "good",
		      m.n ? "Not complete." : "Complete: nothing was lost.");
	put_sentence(w, out);
	outbuf_str(out, "</p>\n");
	if (m.list->p > m.list->buf) {
		outbuf_str(out, "<ul class=\"missing\">");
		outbuf_put(out, m.list->buf,
			   (size_t)(m.list->p - m.list->buf));
		outbuf_str(out, "</ul>\n");
	}
	outbuf_str(out, "<details class=\"about\"><summary>About this recording"
			"</summary>");
	put_facts(w, out);
	outbuf_str(out, "</details>\n");
	outbuf_free(m.list);
}
