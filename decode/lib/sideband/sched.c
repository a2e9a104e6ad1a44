/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: sched:sched_switch samples, what recorders used before SWITCH records.
 *
 * Where a payload has what is in the event's format, which the file's tracing data
 * holds; without it the layout that every kernel had so far is assumed.
 *
 * Specification: trace-cmd's trace.dat (6), kernel/trace/trace_events.c: "format".
 */
#include <stdlib.h>
#include <string.h>

#include "common/bytes.h"

#include "decode/lib/sideband/build.h"

#define COMM_LEN 16

/* The known layout: prev_state, in the middle, is a long. */
static const struct sched_format layout64 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 },
	.next_comm = { 40, 16 }, .next_pid = { 56, 4 },
};
static const struct sched_format layout32 = {
	.prev_comm = { 8, 16 }, .prev_pid = { 24, 4 },
	.next_comm = { 36, 16 }, .next_pid = { 52, 4 },
};

/* ---- the format ---- */

/* The number behind key, in [p, end). */
static bool find_number(const char *p, const char *end, const char *key,
			uint64_t *v)
{
	const char *at = memmem(p, (size_t)(end - p), key, strlen(key));

	if (!at)
		return false;
	at += strlen(key);
	while (at < end && *at == ' ')
		at++;
	if (at == end || *at < '0' || *at > '9')
		return false;
	for (*v = 0; at < end && *at >= '0' && *at <= '9'; at++)
		if (*v < UINT32_MAX)
			*v = *v * 10 + (uint64_t)(*at - '0');
	return true;
}

/* "field:char prev_comm[16];	offset:8;	size:16;	signed:0;" */
static struct sched_field find_field(const char *text, const char *end,
				     const char *name)
{
	struct sched_field none = { 0, 0 };
	const char *at = memmem(text, (size_t)(end - text), name, strlen(name));
	const char *line;
	uint64_t offset, size;

	if (!at)
		return none;
	line = memchr(at, '\n', (size_t)(end - at));
	if (!line)
		line = end;
	if (!find_number(at, line, "offset:", &offset) ||
	    !find_number(at, line, "size:", &size) || offset > UINT16_MAX ||
	    size > UINT16_MAX)
		return none;
	return (struct sched_field){ (uint32_t)offset, (uint32_t)size };
}

static bool take_format(struct sched_format *f, const char *text, size_t len)
{
	const char *end = text + len;
	const char name[] = "name: sched_switch\n";

	if (len < sizeof(name) || memcmp(text, name, sizeof(name) - 1) ||
	    !find_number(text, end, "\nID:", &f->config))
		return false;
	f->prev_comm = find_field(text, end, " prev_comm[");
	f->prev_pid = find_field(text, end, " prev_pid;");
	f->next_comm = find_field(text, end, " next_comm[");
	f->next_pid = find_field(text, end, " next_pid;");
	f->known = f->next_pid.size == 4;
	return f->known;
}

static const char *next_string(struct cursor *c)
{
	const uint8_t *end = memchr(c->p, 0, cursor_left(c));

	if (!end) {
		c->bad = true;
		return NULL;
	}
	return cursor_string(c, (size_t)(end - c->p) + 1);
}

/* A name, u64 size and as many bytes. */
static void skip_header(struct cursor *c)
{
	uint64_t size;

	next_string(c);
	size = cursor_u64(c);
	if (size > cursor_left(c))
		c->bad = true;
	else
		cursor_bytes(c, size);
}

/* u32 count, then u64 size and text of each. True: found. */
static bool search_events(struct cursor *c, struct sched_format *f)
{
	uint32_t n = cursor_u32(c);

	while (n-- && !c->bad) {
		uint64_t size = cursor_u64(c);
		const uint8_t *text;

		if (size > cursor_left(c)) {
			c->bad = true;
			return false;
		}
		text = cursor_bytes(c, size);
		if (text && take_format(f, (const char *)text, size))
			return true;
	}
	return false;
}

void timeline_sched_format(struct build *b, struct aux_bytes d)
{
	static const uint8_t magic[] = "\x17\x08\x44tracing";
	struct cursor c = cursor_init(d.data, d.len, false);
	const uint8_t *start = cursor_bytes(&c, sizeof(magic) - 1);
	struct sched_format f = { 0 };
	uint32_t n;

	if (!start || memcmp(start, magic, sizeof(magic) - 1) ||
	    !next_string(&c))
		return;
	/* Its own byte order, as a flag; this machine's is little endian. */
	c.swap = cursor_u8(&c) != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	b->is_32bit = cursor_u8(&c) == 4;
	cursor_u32(&c);
	skip_header(&c);
	skip_header(&c);
	if (search_events(&c, &f))
		goto found;
	n = cursor_u32(&c);
	while (n-- && !c.bad) {
		next_string(&c);
		if (search_events(&c, &f))
			goto found;
	}
	return;
found:
	b->sched = f;
}

/* ---- samples ---- */

static bool is_switch(const struct build *b, const struct aux_event *ev)
{
	const struct aux_attr *a = ev->attr;

	if (!a || a->attr.type != PERF_TYPE_TRACEPOINT)
		return false;
	if (b->sched.known && a->attr.config == b->sched.config)
		return true;
	return !b->sched.known && a->name && strstr(a->name, "sched_switch");
}

static const uint8_t *get_field(struct aux_bytes raw, struct sched_field f,
				size_t size)
{
	return f.size == size && f.at <= raw.len && size <= raw.len - f.at ?
		       raw.data + f.at : NULL;
}

static uint32_t get_pid(const struct build *b, struct aux_bytes raw,
			struct sched_field f)
{
	const uint8_t *p = get_field(raw, f, 4);
	struct cursor c;

	if (!p)
		return UINT32_MAX;
	c = cursor_init(p, 4, b->swapped);
	return cursor_u32(&c);
}

/* Recorders with SWITCH records too have them say it, at the very moment. */
static bool is_wanted(const struct build *b)
{
	return b->sched_mode == 1 || !b->has_switches;
}

int timeline_sched_switch(const struct build *b, const struct aux_event *ev,
			  struct op *op)
{
	struct aux_bytes raw = ev->sample.raw_data;
	const struct sched_format *f = &b->sched;

	if (!is_wanted(b) || !is_switch(b, ev))
		return 0;
	if (!f->known)
		f = b->is_32bit ? &layout32 : &layout64;
	op->tid = get_pid(b, raw, f->next_pid);
	if (op->tid == UINT32_MAX)
		return 0;
	op->pid = op->tid ? UINT32_MAX : 0;
	op->comm = (const char *)get_field(raw, f->next_comm, COMM_LEN);
	op->ptid = get_pid(b, raw, f->prev_pid);
	/* The sample is the old one's, which knows its process. */
	op->ppid = ev->id.present & PERF_SAMPLE_TID &&
		   ev->id.tid == op->ptid ? ev->id.pid : UINT32_MAX;
	if (op->ptid != UINT32_MAX)
		op->flags |= OP_HAS_PREV;
	return 1;
}
