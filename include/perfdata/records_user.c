/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bodies of the records that no kernel writes: perf's (types 64 and up, without
 * a trailer) and auxkit's own, which have the type of a record perf gave up.
 *
 * Specification: tools/lib/perf/include/perf/event.h, <aux/extension.h>.
 */
#include "perfdata/impl.h"

#define ERROR_MSG 64

struct aux_bytes records_array(struct cursor *c, uint64_t n, size_t size)
{
	struct aux_bytes b = { 0 };

	if (n > cursor_left(c) / size) {
		c->bad = true;
		return b;
	}
	b.data = cursor_bytes(c, (size_t)n * size);
	b.len = b.data ? n * size : 0;
	return b;
}

/*
 * The payload follows the record and is not part of its size. Where the file
 * ends inside it, as much as there is: the framing has let it pass, as the last
 * record.
 */
void records_auxtrace(struct aux_reader *r, struct cursor *c,
		      struct aux_event *ev)
{
	struct aux_rec_auxtrace *h = &ev->auxtrace.h;
	uint64_t left;

	h->size = cursor_u64(c);
	h->offset = cursor_u64(c);
	h->reference = cursor_u64(c);
	h->idx = cursor_u32(c);
	h->tid = cursor_u32(c);
	h->cpu = cursor_u32(c);
	h->reserved = cursor_u32(c);
	ev->auxtrace.payload_offset = ev->offset + ev->size;
	left = r->seg->end - ev->auxtrace.payload_offset;
	ev->auxtrace.clipped = h->size > left;
	/* the record itself may be in an index */
	ev->auxtrace.payload.data = r->file.data + ev->auxtrace.payload_offset;
	ev->auxtrace.payload.len = h->size > left ? left : h->size;
}

/*
 * The event says what an AUXTRACE with the same bytes would: its size is the
 * exact length without padding, and the payload is what was in the frame.
 */
int records_auxtrace_zstd(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev, struct aux_diag *diag)
{
	struct aux_bytes frame;
	uint64_t raw_size;

	records_auxtrace(r, c, ev);
	raw_size = cursor_u64(c);
	ev->auxtrace.zstd_size = cursor_u64(c);
	ev->type = AUX_RECORD_AUXTRACE;
	if (c->bad)
		return 0;
	frame = ev->auxtrace.payload;
	if (frame.len > ev->auxtrace.zstd_size)
		frame.len = ev->auxtrace.zstd_size;
	ev->auxtrace.h.size = raw_size;
	ev->auxtrace.exact = true;
	return r->salvage ? 0 : unpack_auxtrace(r, frame, ev, diag);
}

void records_auxtrace_info(struct aux_reader *r, struct cursor *c,
				struct aux_event *ev)
{
	uint64_t *priv;
	size_t n;

	ev->auxtrace_info.trace_type = cursor_u32(c);
	cursor_u32(c);
	n = c->bad ? 0 : cursor_left(c) / 8;
	if (!n)
		return;
	priv = arena_alloc(&r->arena, n * 8);
	if (!priv) {
		c->bad = true;
		return;
	}
	ev->auxtrace_info.n_priv = (uint32_t)n;
	ev->auxtrace_info.priv = priv;
	for (size_t i = 0; i < n; i++)
		priv[i] = cursor_u64(c);
}

void records_auxtrace_error(struct cursor *c, struct aux_event *ev)
{
	uint32_t format;
	uint64_t time;
	size_t n;

	ev->auxtrace_error.error_type = cursor_u32(c);
	ev->auxtrace_error.code = cursor_u32(c);
	ev->auxtrace_error.cpu = cursor_u32(c);
	ev->auxtrace_error.pid = cursor_u32(c);
	ev->auxtrace_error.tid = cursor_u32(c);
	format = cursor_u32(c);
	ev->auxtrace_error.ip = cursor_u64(c);
	/* Format 0 has no time. Its message is cut to what is there. */
	time = format ? cursor_u64(c) : 0;
	ev->auxtrace_error.time = time;
	n = cursor_left(c) < ERROR_MSG ? cursor_left(c) : ERROR_MSG;
	ev->auxtrace_error.msg = cursor_string(c, n);
	if (format < 2 || cursor_left(c) < 8)
		return;
	ev->auxtrace_error.machine_pid = cursor_u32(c);
	ev->auxtrace_error.vcpu = cursor_u32(c);
}

void records_time_conv(struct cursor *c, struct aux_event *ev)
{
	struct aux_rec_time_conv *t = &ev->time_conv;

	t->time_shift = cursor_u64(c);
	t->time_mult = cursor_u64(c);
	t->time_zero = cursor_u64(c);
	if (cursor_left(c) < 24)	/* of an older perf */
		return;
	t->time_cycles = cursor_u64(c);
	t->time_mask = cursor_u64(c);
	t->cap_user_time_zero = cursor_u8(c);
	t->cap_user_time_short = cursor_u8(c);
}

void records_id_index(struct cursor *c, struct aux_event *ev)
{
	uint64_t n = cursor_u64(c);

	ev->id_index.n = n;
	ev->id_index.entries =
		records_array(c, n, sizeof(struct aux_rec_id_index_entry));
	if (!c->bad &&
	    cursor_left(c) / sizeof(struct aux_rec_id_index_guest) >= n)
		ev->id_index.guests = records_array(
			c, n, sizeof(struct aux_rec_id_index_guest));
}

/* Its bytes follow the record, as those of AUXTRACE. */
void records_tracing_data(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev)
{
	uint32_t size = cursor_u32(c);

	if (!reader_has(r, ev->offset + ev->size, size))
		return;
	ev->tracing_data.data.data = ev->raw.data + ev->size;
	ev->tracing_data.data.len = size;
}

void records_thread_map(struct cursor *c, struct aux_event *ev)
{
	uint64_t n = cursor_u64(c);

	ev->thread_map.n = n;
	ev->thread_map.entries =
		records_array(c, n, sizeof(struct aux_rec_thread_map_entry));
}

/* PERF_CPU_MAP__*: a list, a bitmap of longs of the writing machine, a
 * range. */
void records_cpu_map(struct cursor *c, struct aux_event *ev)
{
	ev->cpu_map.type = cursor_u16(c);
	switch (ev->cpu_map.type) {
	case AUX_CPU_MAP_CPUS:
		ev->cpu_map.n = cursor_u16(c);
		ev->cpu_map.data = records_array(c, ev->cpu_map.n, 2);
		break;
	case AUX_CPU_MAP_MASK:
		ev->cpu_map.n = cursor_u16(c);
		ev->cpu_map.long_size = cursor_u16(c);
		if (ev->cpu_map.long_size == 8)
			cursor_bytes(c, 4);
		else if (ev->cpu_map.long_size != 4)
			return;
		ev->cpu_map.data = records_array(c, ev->cpu_map.n,
						 ev->cpu_map.long_size);
		break;
	case AUX_CPU_MAP_RANGE:
		ev->cpu_map.any = cursor_u8(c);
		cursor_u8(c);
		ev->cpu_map.start = cursor_u16(c);
		ev->cpu_map.end = cursor_u16(c);
		break;
	}
}

/* ---- auxkit's own ---- */

static void parse_loss(struct cursor *c, struct aux_own_loss *l)
{
	l->idx = cursor_u32(c);
	l->cause = cursor_u32(c);
	l->offset = cursor_u64(c);
	l->bytes = cursor_u64(c);
	l->first_ns = cursor_u64(c);
	l->last_ns = cursor_u64(c);
	l->cpu = cursor_u32(c);
	l->tid = cursor_u32(c);
}

static void parse_snapshot(struct cursor *c, struct aux_event *ev)
{
	struct aux_own_snapshot *h = &ev->own.snapshot.h;

	h->number = cursor_u64(c);
	h->time_ns = cursor_u64(c);
	h->reason = cursor_u32(c);
	h->label_len = cursor_u32(c);
	ev->own.snapshot.label = cursor_bytes(c, h->label_len);
}

static void parse_signal(struct cursor *c, struct aux_own_signal *s)
{
	s->time_ns = cursor_u64(c);
	s->pid = cursor_u32(c);
	s->tid = cursor_u32(c);
	s->what = cursor_u32(c);
	s->signo = cursor_u32(c);
	s->code = (int32_t)cursor_u32(c);
	s->flags = cursor_u32(c);
	s->ip = cursor_u64(c);
	s->addr = cursor_u64(c);
	s->sender = cursor_u32(c);
	s->reserved = cursor_u32(c);
}

static void parse_moment(struct cursor *c, struct aux_event *ev)
{
	struct aux_own_moment *h = &ev->own.moment.h;

	h->time_ns = cursor_u64(c);
	h->took_ns = cursor_u64(c);
	h->pid = cursor_u32(c);
	h->tid = cursor_u32(c);
	h->cpu = cursor_u32(c);
	h->label_len = cursor_u32(c);
	ev->own.moment.label = cursor_bytes(c, h->label_len);
}

static void parse_code(struct cursor *c, struct aux_event *ev)
{
	struct aux_own_code *h = &ev->own.code.h;

	h->time_ns = cursor_u64(c);
	h->addr = cursor_u64(c);
	h->len = cursor_u64(c);
	h->blob = cursor_u64(c);
	h->pid = cursor_u32(c);
	h->kind = cursor_u32(c);
	/* A later version may add fields, and then a record without bytes has
	 * something left all the same. */
	if (cursor_left(c) >= h->len || ev->own.version == 1)
		ev->own.code.bytes = cursor_left(c) ?
					     cursor_bytes(c, h->len) : NULL;
}

/* The payload, by kind; of an unknown kind only its bytes are given. */
static void parse_payload(struct aux_reader *r, struct cursor *c,
			  struct aux_event *ev)
{
	struct aux_bytes all = ev->own.payload;

	switch (ev->own.kind) {
	case AUX_OWN_LOSS:
		parse_loss(c, &ev->own.loss);
		break;
	case AUX_OWN_SNAPSHOT:
		parse_snapshot(c, ev);
		break;
	case AUX_OWN_CODE:
		parse_code(c, ev);
		break;
	case AUX_OWN_MOMENT:
		parse_moment(c, ev);
		break;
	case AUX_OWN_SIGNAL:
		parse_signal(c, &ev->own.signal);
		break;
	case AUX_OWN_SOURCE:
		ev->own.source = all;
		/* The last one has it all; passes go over them again. */
		if (r->source && ev->offset <= r->source_offset)
			break;
		r->source_offset = ev->offset;
		c->bad = reader_keep_source(r, all.data, all.len) < 0;
		break;
	case AUX_OWN_LEDGER:
		all.len -= all.len % sizeof(struct aux_ledger_entry);
		ev->own.ledger = all;
		break;
	}
}

/*
 * Without the magic it is an EVENT_TYPE that an old perf wrote: left raw.
 * The first record of ours also decides how far the file goes.
 */
void records_own(struct aux_reader *r, struct cursor *c, struct aux_event *ev)
{
	struct cursor payload;
	uint32_t len;

	if (cursor_left(c) < sizeof(struct aux_own_record) ||
	    cursor_u64(c) != AUX_OWN_MAGIC)
		return;
	ev->own.kind = cursor_u16(c);
	ev->own.version = cursor_u16(c);
	len = cursor_u32(c);
	ev->own.payload.data = cursor_bytes(c, len);
	ev->own.payload.len = len;
	if (c->bad)
		return;
	/* auxcap writes sections when it ends; without any it was killed, and
	 * the header has the size of the data as of its last update. */
	if (!r->info.pipe && !r->has_features)
		reader_extend(r);
	payload = reader_cursor(r, ev->own.payload.data, len);
	parse_payload(r, &payload, ev);
	c->bad = payload.bad;
}
