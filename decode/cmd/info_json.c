/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The numbers of info as members of an object, for --json. What has no member
 * of its own (containers, sources of trace, snapshots, features) is in the
 * lines of "text", as info prints them.
 */
#include <aux/perfdata.h>

#include "common/markup.h"
#include "decode/cmd/impl.h"

static void put_file(struct outbuf *out, struct aux_reader *r)
{
	const struct aux_file_info *f = aux_reader_info(r);

	outbuf_json_number(out, "bytes", f->size);
	outbuf_json_number(out, "files", f->n_files);
	outbuf_json_bool(out, "pipe", f->pipe);
	outbuf_json_bool(out, "foreign_byte_order", f->swapped);
	outbuf_json_text(out, "made_from", f->container);
	outbuf_printf(out, ",\n\"machine\":{\"cpus_online\":%u",
		      f->n_cpus_online);
	outbuf_json_number(out, "cpus", f->n_cpus_avail);
	outbuf_json_text(out, "host", f->hostname);
	outbuf_json_text(out, "os_release", f->os_release);
	outbuf_json_text(out, "arch", f->arch);
	outbuf_json_text(out, "cpu", f->cpu_desc);
	outbuf_json_text(out, "cpuid", f->cpuid);
	outbuf_str(out, "}");
	outbuf_json_text(out, "command", f->cmdline);
	outbuf_json_text(out, "version", f->version);
	outbuf_json_text(out, "source", aux_reader_source(r, "source"));
	outbuf_json_text(out, "backend", aux_reader_source(r, "backend"));
	outbuf_json_text(out, "terms", aux_reader_source(r, "terms"));
}

static void put_events(struct outbuf *out, const struct info_json *in)
{
	const struct aux_attr *a;

	outbuf_str(out, ",\n\"events\":[");
	for (size_t i = 0; (a = aux_reader_attr(in->r, i)); i++) {
		outbuf_str(out, i ? ",\n{\"name\":" : "\n{\"name\":");
		outbuf_json(out, a->name ? a->name : "");
		outbuf_json_number(out, "type", a->attr.type);
		outbuf_json_hex(out, "config", a->attr.config);
		outbuf_json_bool(out, "trace", in->pmu_type &&
				 a->attr.type == in->pmu_type);
		outbuf_json_bool(out, "user", !a->attr.exclude_user);
		outbuf_json_bool(out, "kernel", !a->attr.exclude_kernel);
		outbuf_json_number(out, "ids", a->n_ids);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

static void put_records(struct outbuf *out, const struct info_json *in)
{
	struct name_buf buf;

	outbuf_printf(out, ",\n\"records\":{\"total\":%llu",
		      (unsigned long long)in->n_records);
	for (uint32_t i = 0; i < in->n_types; i++)
		if (in->n_by_type[i])
			outbuf_json_number(out, record_name(i, &buf),
					   in->n_by_type[i]);
	if (in->n_other)
		outbuf_json_number(out, "others", in->n_other);
	outbuf_printf(out, "},\n\"side_band\":{\"records\":%llu",
		      (unsigned long long)in->n_timed);
	outbuf_json_number(out, "first_ns", in->n_timed ? in->time_min : 0);
	outbuf_json_number(out, "last_ns", in->n_timed ? in->time_max : 0);
	outbuf_str(out, "}");
}

static void put_streams(struct outbuf *out, const struct info_json *in)
{
	const struct chunks *c = in->chunks;

	outbuf_json_number(out, "aux_bytes", c->aux_bytes);
	outbuf_json_number(out, "trace_type", c->trace_type);
	outbuf_json_number(out, "samples", c->n_samples);
	outbuf_str(out, ",\n\"streams\":[");
	for (size_t i = 0; i < c->n; i++) {
		const struct queue *q = &c->queues[i];

		outbuf_printf(out, "%s{\"stream\":%u,\"cpu\":%d,\"tid\":%d",
			      i ? ",\n" : "\n", q->idx, q->cpu, q->tid);
		outbuf_json_number(out, "bytes", q->n_bytes);
		outbuf_json_number(out, "pieces", q->n_pieces);
		outbuf_json_number(out, "aux_records", q->n_marks);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

/* Entries as the recorder wrote them: what it saved and what it lost. */
static void put_ledger(struct outbuf *out, const struct info_json *in)
{
	outbuf_str(out, ",\n\"ledger\":[");
	for (uint32_t i = 0; i < in->losses->n; i++) {
		const struct aux_ledger_entry *e = &in->losses->e[i];
		const struct loss_text *t = losses_text(e->cause);

		outbuf_printf(out, "%s{\"stream\":%d", i ? ",\n" : "\n",
			      (int32_t)e->idx);
		outbuf_json_number(out, "cause", e->cause);
		outbuf_json_text(out, "unit", t ? t->many : NULL);
		outbuf_json_text(out, "text", t ? t->info : NULL);
		outbuf_json_bool(out, "loss", t && t->verdict);
		outbuf_json_number(out, "amount", e->bytes);
		outbuf_json_number(out, "times", e->n);
		outbuf_json_number(out, "first_ns", e->first_ns);
		outbuf_json_number(out, "last_ns", e->last_ns);
		outbuf_str(out, "}");
	}
	outbuf_str(out, "]");
}

static void put_verdict(struct outbuf *out, const struct info_json *in)
{
	const struct chunks *c = in->chunks;

	outbuf_printf(out, ",\n\"verdict\":{\"complete\":%s",
		      in->lossy ? "false" : "true");
	outbuf_json_bool(out, "damaged", in->damaged);
	outbuf_json_bool(out, "unfinished", aux_reader_info(in->r)->unfinished);
	outbuf_json_number(out, "bad_features", in->n_bad);
	outbuf_json_number(out, "truncated", in->n_by_flag[0]);
	outbuf_json_number(out, "overwrite", in->n_by_flag[1]);
	outbuf_json_number(out, "partial", in->n_by_flag[2]);
	outbuf_json_number(out, "collision", in->n_by_flag[3]);
	outbuf_json_number(out, "lost_records", in->lost_records);
	outbuf_json_number(out, "lost_samples", in->lost_samples);
	outbuf_json_number(out, "throttled", in->n_throttled);
	outbuf_json_number(out, "aux_without_data", c->n_orphan_aux);
	outbuf_json_number(out, "auxtrace_damaged", c->n_damaged);
	outbuf_json_number(out, "unknown_sources", in->n_unknown_sources);
	outbuf_json_bool(out, "bad_sources", in->bad_sources);
	outbuf_json_bool(out, "bad_ledger", in->bad_ledger);
	outbuf_str(out, "}");
}

void info_json_put(struct outbuf *out, const struct info_json *in)
{
	put_file(out, in->r);
	put_events(out, in);
	put_records(out, in);
	put_streams(out, in);
	put_ledger(out, in);
	put_verdict(out, in);
}
