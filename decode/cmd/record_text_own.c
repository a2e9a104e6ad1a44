/* SPDX-License-Identifier: BSD-2-Clause */
/* record_text: auxkit's own records, and perf's of the same type. */
#include <inttypes.h>

#include "common/bytes.h"

#include "decode/lib/trace/losses.h"
#include "decode/cmd/record_text.h"

/* -1 is more telling than 4294967295. */
#define ID(x) ((int32_t)(x))

static void put_text(struct outbuf *o, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		outbuf_printf(o, p[i] >= ' ' && p[i] < 0x7f ? "%c" : "\\x%02x",
			      p[i]);
}

static void put_cause(struct outbuf *o, uint32_t cause)
{
	static const char *const names[AUX_LEDGER_N_CAUSES] = {
		"saved", "truncated", "partial", "collision", "lost-records",
		"overwritten", "throttled", "not-traced", "killed", "endless",
		"unexplained", "injected", "stalled", "unwritten", "unread",
	};

	if (cause < AUX_LEDGER_N_CAUSES)
		outbuf_printf(o, " %s", names[cause]);
	else
		outbuf_printf(o, " cause %u", cause);
}

static void put_loss(struct outbuf *o, const struct aux_own_loss *l)
{
	outbuf_str(o, " auxkit-loss");
	put_cause(o, l->cause);
	outbuf_printf(o, " stream %d", ID(l->idx));
	if (l->offset != UINT64_MAX)
		outbuf_printf(o, " offset %#" PRIx64, l->offset);
	outbuf_printf(o, " bytes %" PRIu64 " from %" PRIu64 " to %" PRIu64
			 " cpu %d tid %d",
		      l->bytes, l->first_ns, l->last_ns, ID(l->cpu),
		      ID(l->tid));
}

static void put_snapshot(struct outbuf *o, const struct aux_event *ev)
{
	const struct aux_own_snapshot *h = &ev->own.snapshot.h;

	outbuf_printf(o, " auxkit-snapshot %" PRIu64 " time %" PRIu64
			 " reason %u label \"", h->number, h->time_ns,
		      h->reason);
	put_text(o, ev->own.snapshot.label, h->label_len);
	outbuf_str(o, "\"");
}

static void put_code(struct outbuf *o, const struct aux_event *ev)
{
	const struct aux_own_code *h = &ev->own.code.h;

	outbuf_printf(o, " auxkit-code pid %d addr %#" PRIx64 " len %" PRIu64
			 " time %" PRIu64 " kind %u blob %" PRIu64 "%s",
		      ID(h->pid), h->addr, h->len, h->time_ns, h->kind,
		      h->blob, ev->own.code.bytes ? "" : " (of before)");
}

static void put_ledger(struct outbuf *o, const struct aux_reader *r,
		       const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.ledger.data, ev->own.ledger.len,
				      aux_reader_info(r)->swapped);

	outbuf_str(o, " auxkit-ledger");
	while (cursor_left(&c) >= sizeof(struct aux_ledger_entry)) {
		uint32_t idx = cursor_u32(&c), cause = cursor_u32(&c);
		uint64_t bytes = cursor_u64(&c);

		cursor_bytes(&c, 16);
		outbuf_printf(o, " (stream %d", ID(idx));
		put_cause(o, cause);
		outbuf_printf(o, " %" PRIu64, bytes);
		outbuf_printf(o, " n %" PRIu64 ")", cursor_u64(&c));
	}
}

/* The path behind a head of head_len bytes, path_len at at. */
static void put_path(struct outbuf *o, const struct aux_event *ev,
		     uint64_t head_len, uint32_t path_len)
{
	const struct aux_bytes *p = &ev->own.payload;

	if (p->len >= head_len && path_len <= p->len - head_len)
		put_text(o, p->data + head_len, path_len);
}

static void put_file(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len,
				      aux_reader_info(r)->swapped);
	uint64_t offset = cursor_u64(&c), total = cursor_u64(&c);
	uint32_t path_len = cursor_u32(&c), pid = cursor_u32(&c);

	outbuf_printf(o, " auxkit-file pid %d offset %" PRIu64 " of %" PRIu64
			 " ", ID(pid), offset, total);
	put_path(o, ev, sizeof(struct aux_own_file), path_len);
}

static void put_symbols(struct outbuf *o, const struct aux_reader *r,
			const struct aux_event *ev)
{
	struct cursor c = cursor_init(ev->own.payload.data,
				      ev->own.payload.len,
				      aux_reader_info(r)->swapped);
	uint32_t path_len, n;

	cursor_bytes(&c, 20);	/* build id */
	cursor_u32(&c);
	path_len = cursor_u32(&c);
	n = cursor_u32(&c);
	outbuf_printf(o, " auxkit-symbols n %u ", n);
	put_path(o, ev, sizeof(struct aux_own_symbols), path_len);
}

void record_text_own(struct outbuf *o, const struct aux_reader *r,
		     const struct aux_event *ev)
{
	switch (ev->own.kind) {
	case 0:
		record_text_bytes(o, r, ev);
		return;
	case AUX_OWN_LOSS:
		put_loss(o, &ev->own.loss);
		return;
	case AUX_OWN_SNAPSHOT:
		put_snapshot(o, ev);
		return;
	case AUX_OWN_CODE:
		put_code(o, ev);
		return;
	case AUX_OWN_SOURCE:
		outbuf_str(o, " auxkit-source ");
		put_text(o, ev->own.source.data, ev->own.source.len);
		return;
	case AUX_OWN_LEDGER:
		put_ledger(o, r, ev);
		return;
	case AUX_OWN_FILE:
		put_file(o, r, ev);
		return;
	case AUX_OWN_SYMBOLS:
		put_symbols(o, r, ev);
		return;
	case AUX_OWN_PIECE:
		outbuf_printf(o, " auxkit-piece of a section, %" PRIu64
				 " bytes", ev->own.payload.len);
		return;
	}
	outbuf_printf(o, " auxkit-%u version %u, %" PRIu64 " bytes",
		      ev->own.kind, ev->own.version, ev->own.payload.len);
}
