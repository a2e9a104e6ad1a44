/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --json: one object for a command that sums up. This file has what is around
 * the command's own numbers: the schema, the file and its clock before them;
 * the verdict, the exit status and the commands to go on with after them. What
 * is said on standard error is the same as without --json.
 *
 * A later version may add members, and does not change those that are there:
 * then the number in "schema" would grow. auxdecode.1 has them, section JSON.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h"
#include "decode/cmd/impl.h"

void json_begin(struct outbuf *out, const struct cmd_options *o,
		const struct aux_reader *r)
{
	const char *clock = r ? aux_reader_source(r, "clock") : NULL;

	outbuf_printf(out, "{\"schema\":\"auxdecode/%s/1\",\n\"file\":",
		      o->command->name);
	outbuf_json(out, o->path);
	if (o->n_paths > 1)
		outbuf_json_text(out, "other", o->paths[1]);
	if (r)
		outbuf_json_text(out, "clock", clock ? clock : "recording");
}

static void put_command(struct outbuf *out, const char *words)
{
	struct outbuf *text = outbuf_new(-1);

	if (!text) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	follow_put(text, words);
	outbuf_put(text, "", 1);
	outbuf_json_text(out, "command", text->buf);
	outbuf_free(text);
}

void json_end(struct outbuf *out, const struct cmd_options *o, int status)
{
	const struct advice_next *next;
	bool first = true;

	outbuf_printf(out, ",\n\"status\":%d,\n\"next\":[", status);
	for (size_t i = 0; (next = advice_next(o->command->name, i)); i++) {
		outbuf_str(out, first ? "\n{\"what\":" : ",\n{\"what\":");
		first = false;
		outbuf_json(out, next->what);
		put_command(out, next->words);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]}\n");
}

void json_lines(struct outbuf *out, const char *key, const struct outbuf *text)
{
	const char *p = text->buf, *end = text->p, *line;
	bool first = true;
	char *copy;

	outbuf_printf(out, ",\n\"%s\":[", key);
	for (; p < end; p = line + 1) {
		line = memchr(p, '\n', (size_t)(end - p));
		line = line ? line : end;
		copy = strndup(p, (size_t)(line - p));
		if (!copy) {
			outbuf_fail(out, ENOMEM);
			return;
		}
		outbuf_str(out, first ? "\n" : ",\n");
		first = false;
		outbuf_json(out, copy);
		free(copy);
	}
	outbuf_str(out, "]");
}

/* Losses at capture: sums over all streams, by cause. */
static void put_losses(struct outbuf *out, const struct session *s)
{
	const struct losses *l = session_losses(s);
	struct aux_ledger_entry sum[AUX_LEDGER_N_CAUSES] = { 0 };
	bool first = true;

	for (uint32_t i = 0; i < l->n; i++) {
		if (l->e[i].cause >= AUX_LEDGER_N_CAUSES)
			continue;
		sum[l->e[i].cause].bytes += l->e[i].bytes;
		sum[l->e[i].cause].n += l->e[i].n;
	}
	outbuf_str(out, "],\n\"lost_at_capture\":[");
	for (uint32_t i = 0; i < AUX_LEDGER_N_CAUSES; i++) {
		const struct loss_text *t = losses_text(i);

		if (!(sum[i].bytes | sum[i].n) || !t || !t->verdict)
			continue;
		outbuf_str(out, first ? "{\"unit\":" : ",\n{\"unit\":");
		first = false;
		outbuf_json(out, t->many);
		outbuf_json_text(out, "text", t->verdict);
		outbuf_json_number(out, "amount", sum[i].bytes);
		outbuf_json_number(out, "times", sum[i].n);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

/* One element of "gaps". */
void json_gap(struct outbuf *out, bool *first, unsigned cause, uint64_t n)
{
	outbuf_str(out, *first ? "{\"cause\":" : ",\n{\"cause\":");
	*first = false;
	outbuf_json(out, aux_gap_name(cause));
	outbuf_json_text(out, "text", advice_gap(cause));
	outbuf_json_number(out, "n", n);
	outbuf_str(out, "}");
}

/* What the records and the file itself say of loss. */
static void put_records(struct outbuf *out, const struct session *s)
{
	const struct timeline_stats *ts = timeline_stats(session_timeline(s));

	outbuf_json_number(out, "side_band_lost", ts->n_lost);
	outbuf_json_number(out, "aux_flagged", ts->n_aux_flagged);
	outbuf_json_number(out, "throttled", ts->n_throttled);
	outbuf_json_number(out, "bad_code", ts->n_bad_code);
	outbuf_json_number(out, "unordered", ts->n_unordered);
	outbuf_json_bool(out, "damaged", ts->damaged);
	outbuf_json_bool(out, "unfinished",
			 aux_reader_info(session_reader(s))->unfinished);
}

void json_verdict(struct outbuf *out, const struct verdict *v,
		  const struct session *s, const struct session_stats *stats)
{
	bool first = true;

	outbuf_str(out, ",\n\"verdict\":{\"gaps\":[");
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		if (v->n_gaps[i] && i != GAP_SNAPSHOT)
			json_gap(out, &first, i, v->n_gaps[i]);
	outbuf_str(out, "],\n\"missing_code\":[");
	for (unsigned i = 0; i < v->n_texts; i++) {
		outbuf_str(out, i ? ",\n{\"text\":" : "{\"text\":");
		outbuf_json(out, v->missing[i]);
		outbuf_json_number(out, "n", v->n_missing[i]);
		outbuf_str(out, "}");
	}
	put_losses(out, s);
	put_records(out, s);
	outbuf_json_number(out, "mismatches", v->report.n_mismatches);
	outbuf_json_number(out, "chunks", stats->n_chunks);
	outbuf_json_number(out, "chunks_handed",
			   stats->n_handed_whole + stats->n_handed_part);
	outbuf_json_number(out, "chunks_left", stats->n_left);
	outbuf_json_number(out, "instructions", v->report.n_insns);
	if (v->report.note[0])
		outbuf_json_text(out, "note", v->report.note);
	outbuf_str(out, "}");
}
