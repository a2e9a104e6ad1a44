/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_dump: every record of the file on one line each; with --packets the
 * packets of each AUXTRACE payload below its record.
 */
#include <stdlib.h>

#include <aux/decoder.h>

#include "common/diag.h"
#include "decode/sink/sink.h"
#include "decode/cmd/impl.h"
#include "decode/lib/packet/packet.h"
#include "decode/lib/trace/trace.h"

/* A packet may go on in the next AUXTRACE of the same queue. */
struct dump_queue {
	uint32_t idx;
	struct packets packets;
};

/* How much of an AUXTRACE payload is no padding. */
struct payload {
	uint64_t file_offset, len, offset;
};

struct dump_config {
	uint64_t limit;		/* -n, 0: none */
	bool packets;		/* of AUX data, too */
};

/* table */
static const struct option_row option_rows[] = {
	{ .name = "packets",
	  .help = "the packets of AUX data below their records",
	  OPTION_FLAG(struct dump_config, packets) },
	SINK_LIMIT(struct dump_config, SINK_LIMIT_LINES),
	{ .name = NULL },
};

const struct cmd_own cmd_dump_own = {
	.options = option_rows,
	.config_size = sizeof(struct dump_config),
};

struct dump {
	const struct cmd_options *o;
	const struct dump_config *config;
	struct outbuf *out;
	struct aux_reader *r;
	struct dump_queue *queues;
	size_t n_queues;
	struct payload *payloads;	/* by file_offset */
	size_t n_payloads;
	bool is_pt;
	uint64_t n_lines;
};

static int compare_payloads(const void *a, const void *b)
{
	const struct payload *x = a, *y = b;

	return x->file_offset < y->file_offset ? -1 :
	       x->file_offset > y->file_offset;
}

/* Fills d->payloads, sorted for bsearch, from the pieces of all streams: a
 * piece is the part of a payload that is trace and that no earlier payload had
 * (snapshots overlap). -AUX_E_NOMEM at worst. */
static int collect_payloads(struct dump *d, const struct chunks *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->queues[i].n_pieces;
	d->payloads = calloc(n ? n : 1, sizeof(*d->payloads));
	if (!d->payloads)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < c->n; i++)
		for (size_t k = 0; k < c->queues[i].n_pieces; k++) {
			const struct piece *p = &c->queues[i].pieces[k];

			d->payloads[d->n_payloads++] = (struct payload){
				p->file_offset, p->len, p->offset,
			};
		}
	qsort(d->payloads, n, sizeof(*d->payloads), compare_payloads);
	return 0;
}

/* One pass ahead: the true lengths are known only from what comes later. */
static int measure_payloads(struct dump *d, struct aux_diag *diag)
{
	struct chunks c = { 0 };
	/* The pass that prints meets the damage again, and reports it. */
	int ret = chunks_read(&c, d->r, 0, cmd_memory(d->o), diag);

	d->is_pt = c.trace_type == AUX_TRACE_INTEL_PT;
	if (!ret)
		ret = collect_payloads(d, &c);
	chunks_fini(&c);
	aux_reader_rewind(d->r);
	return ret;
}

/* The packet decoder of a stream, made when its first AUXTRACE is met; NULL: no
 * memory. The pointer is good until the next call: the array may move. */
static struct packets *get_packets(struct dump *d, uint32_t idx)
{
	struct dump_queue *v;

	for (size_t i = 0; i < d->n_queues; i++)
		if (d->queues[i].idx == idx)
			return &d->queues[i].packets;
	v = reallocarray(d->queues, d->n_queues + 1, sizeof(*v));
	if (!v)
		return NULL;
	d->queues = v;
	v += d->n_queues++;
	v->idx = idx;
	packets_init(&v->packets, d->out, !d->is_pt, 0);
	return &v->packets;
}

/* Packets of one AUXTRACE. --limit counts records and packets alike, so what is
 * left of it is handed on. */
static int dump_payload(struct dump *d, const struct aux_event *ev)
{
	struct payload key = { .file_offset = ev->auxtrace.payload_offset };
	const struct payload *pl = bsearch(&key, d->payloads, d->n_payloads,
					   sizeof(key), compare_payloads);
	struct packets *p = get_packets(d, ev->auxtrace.h.idx);
	uint64_t before;

	if (!p)
		return -AUX_E_NOMEM;
	if (!pl) /* all of it was in earlier payloads */
		return 0;
	before = p->n_lines;
	p->limit = d->config->limit ? before + d->config->limit - d->n_lines : 0;
	packets_feed(p, ev->auxtrace.payload.data, pl->len, pl->offset);
	d->n_lines += p->n_lines - before;
	return 0;
}

/* -n was reached, or the output is gone: a closed pipe ends a dump early. */
static bool is_full(const struct dump *d)
{
	return (d->config->limit && d->n_lines >= d->config->limit) ||
	       outbuf_failed(d->out);
}

/* 1 to go on, as aux_reader_next() returns, or an error with diag. */
static int dump_record(struct dump *d, const struct aux_event *ev,
		       struct aux_diag *diag)
{
	record_text(d->out, d->r, ev);
	outbuf_put(d->out, "\n", 1);
	d->n_lines++;
	if (ev->type != AUX_RECORD_AUXTRACE || !d->config->packets || is_full(d))
		return 1;
	if (dump_payload(d, ev))
		return diag_set(diag, AUX_E_NOMEM, ev->offset, "out of memory");
	return 1;
}

/* The end of each stream. Returns CMD_GAPS, and says so, where any had bytes that
 * are no packets. */
static int finish_streams(struct dump *d)
{
	struct packets sum = { .out = d->out };

	for (size_t i = 0; i < d->n_queues; i++) {
		struct packets *p = &d->queues[i].packets;

		p->limit = 0;
		if (!is_full(d))
			packets_finish(p);
		sum.n_bad += p->n_bad;
		sum.n_skipped += p->n_skipped;
	}
	return cmd_packets_status(d->o, &sum, 0);
}

/* CMD_GAPS where something was printed before damage ended it, or where packets
 * did not parse. Damage is reported after what comes before it. */
static int dump_all(struct dump *d)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_event ev;
	int ret = 1, status;

	while (ret == 1 && !is_full(d)) {
		ret = aux_reader_next(d->r, &ev, &diag);
		if (ret == 1)
			ret = dump_record(d, &ev, &diag);
	}
	status = finish_streams(d);
	if (ret >= 0)
		return status;
	outbuf_flush(d->out);
	cmd_error(d->o->path, &diag);
	return d->n_lines ? CMD_GAPS : CMD_FAILED;
}

int cmd_dump(const struct cmd_options *o)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct dump d = { .o = o, .config = o->own };
	struct cmd_out out;
	int status, rc;

	if (import_open(&d.r, o->path, &o->import.options, &diag) < 0)
		return cmd_error(o->path, &diag);
	if (d.config->packets && (rc = measure_payloads(&d, &diag)) < 0) {
		status = cmd_failed(o->path, rc, &diag);
	} else {
		status = cmd_out_open(&out, o);
		d.out = out.buf;
		if (!status)
			status = cmd_out_close(&out, o, dump_all(&d));
	}
	free(d.queues);
	free(d.payloads);
	aux_reader_close(d.r);
	return status;
}
