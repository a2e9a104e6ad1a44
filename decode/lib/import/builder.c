/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_build: see builder.h.
 *
 * The file: header, records, feature sections, then attrs and ids, which are
 * known last. Payloads are written straight from where they lie; the result is
 * mapped, so neither has to fit into memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <aux/decoder.h>

#include "decode/lib/import/builder.h"
#include "perfdata/impl.h"

#define BUFFER 65536
#define SAMPLE_TYPE \
	(PERF_SAMPLE_TID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)
#define TRAILER(b) ((b)->timed ? 32 : 24)
#define STRING_ALIGN 64	/* as perf pads the strings of its features */

static void fail(struct container_build *b, int code, const char *text)
{
	if (!b->error.code)
		diag_set(&b->error, code, AUX_NO_OFFSET, "%s", text);
}

static void write_at(struct container_build *b, const void *p, size_t n,
		     uint64_t at)
{
	if (b->error.code || !n)
		return;
	if (spool_write(b->fd, p, n, at) < 0)
		diag_set(&b->error, AUX_E_IO, AUX_NO_OFFSET,
			 "cannot write a temporary file (set TMPDIR to a larger "
			 "disk): %s", strerror(errno));
}

static void flush(struct container_build *b)
{
	write_at(b, b->buf, b->n, b->end - b->n);
	b->n = 0;
}

static void put(struct container_build *b, const void *p, size_t n)
{
	if (b->error.code || !n)
		return;
	if (n > BUFFER - b->n)
		flush(b);
	if (n > BUFFER) {
		write_at(b, p, n, b->end);
	} else {
		memcpy(b->buf + b->n, p, n);
		b->n += n;
	}
	b->end += n;
}

static void put_u32(struct container_build *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

static void put_u64(struct container_build *b, uint64_t v)
{
	put(b, &v, sizeof(v));
}

static void put_zeros(struct container_build *b, size_t n)
{
	static const uint8_t zeros[STRING_ALIGN];

	put(b, zeros, n);
}

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static void put_header(struct container_build *b, uint32_t type, uint16_t misc,
		       size_t body)
{
	struct perf_event_header h = {
		.type = type, .misc = misc,
		.size = (uint16_t)(sizeof(h) + body),
	};

	if (body > UINT16_MAX - sizeof(h))
		fail(b, AUX_E_LIMIT, "a record would be too long for perf.data: "
				     "too many sources, or too long a path");
	put(b, &h, sizeof(h));
}

static void put_trailer(struct container_build *b, struct container_who who,
			uint64_t id)
{
	put_u32(b, who.pid);
	put_u32(b, who.tid);
	if (b->timed)
		put_u64(b, who.time);
	put_u32(b, who.cpu);
	put_u32(b, 0);
	put_u64(b, id);
}

void container_build_init(struct container_build *b, const char *event,
			  uint64_t config)
{
	memset(b, 0, sizeof(*b));
	b->event = event;
	b->config = config;
	b->fd = spool_open();
	b->buf = malloc(BUFFER);
	if (!b->buf)
		fail(b, AUX_E_NOMEM, "out of memory");
	else if (b->fd < 0)
		fail(b, AUX_E_IO, "cannot make a temporary file");
	put_zeros(b, sizeof(struct aux_file_header) - STRING_ALIGN);
	put_zeros(b, STRING_ALIGN);
}

void container_build_fini(struct container_build *b)
{
	if (b->fd >= 0)
		close(b->fd);
	for (size_t i = 0; i < b->n_features; i++)
		free(b->features[i].text);
	free(b->streams);
	free(b->uses);
	free(b->buf);
	b->fd = -1;
}

void container_build_feature(struct container_build *b, unsigned bit,
			     const char *text)
{
	struct container_feature *f = &b->features[b->n_features];

	if (b->error.code || b->n_features == CONTAINER_FEATURES)
		return;
	f->bit = bit;
	f->text = strdup(text);
	if (f->text)
		b->n_features++;
	else
		fail(b, AUX_E_NOMEM, "out of memory");
}

void container_build_info(struct container_build *b, uint32_t type,
			  const uint64_t *priv, size_t n)
{
	put_header(b, AUX_RECORD_AUXTRACE_INFO, 0, 8 + n * sizeof(*priv));
	put_u32(b, type);
	put_u32(b, 0);
	put(b, priv, n * sizeof(*priv));
}

void container_build_comm(struct container_build *b, struct container_who who,
			  const char *comm)
{
	size_t len = strlen(comm) + 1;

	put_header(b, PERF_RECORD_COMM, 0, 8 + padded(len) + TRAILER(b));
	put_u32(b, who.pid);
	put_u32(b, who.tid);
	put(b, comm, len);
	put_zeros(b, padded(len) - len);
	put_trailer(b, who, 1);
}

void container_build_map(struct container_build *b,
			 const struct container_map *m)
{
	bool all = m->pid == UINT32_MAX;
	uint16_t misc = all ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;
	size_t len = strlen(m->path) + 1;
	uint8_t id[24] = { m->build_id_size };

	if (m->build_id_size)
		misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
	memcpy(id + 4, m->build_id, sizeof(m->build_id));
	put_header(b, PERF_RECORD_MMAP2, misc, 64 + padded(len) + TRAILER(b));
	put_u32(b, m->pid);
	put_u32(b, all ? 0 : m->pid);
	put_u64(b, m->addr);
	put_u64(b, m->len);
	put_u64(b, m->pgoff);
	put(b, id, sizeof(id));
	put_u32(b, 5);	/* r-x */
	put_u32(b, 2);	/* private */
	put(b, m->path, len);
	put_zeros(b, padded(len) - len);
	put_trailer(b, (struct container_who){ m->pid, m->pid, UINT32_MAX, 0 },
		    1);
}

void container_build_runs(struct container_build *b, struct container_who who)
{
	put_header(b, PERF_RECORD_ITRACE_START, 0, 8 + TRAILER(b));
	put_u32(b, who.pid);
	put_u32(b, who.tid);
	put_trailer(b, who, 1);
}

void container_build_record(struct container_build *b, uint32_t type,
			    uint16_t misc, const void *body, size_t len,
			    struct container_who who)
{
	put_header(b, type, misc, len + TRAILER(b));
	put(b, body, len);
	put_trailer(b, who, 1);
}

static void grow_streams(struct container_build *b)
{
	size_t cap = b->cap_streams ? 2 * b->cap_streams : 16;
	void *v = reallocarray(b->streams, cap, sizeof(*b->streams));
	void *u = reallocarray(b->uses, cap, sizeof(*b->uses));

	if (v)
		b->streams = v;
	if (u)
		b->uses = u;
	if (v && u)
		b->cap_streams = cap;
	else
		fail(b, AUX_E_NOMEM, "out of memory");
}

static bool add_stream(struct container_build *b, struct container_who who)
{
	if (b->n_streams == CONTAINER_STREAMS)
		fail(b, AUX_E_LIMIT, "more than 4096 trace buffers");
	if (!b->error.code && b->n_streams == b->cap_streams)
		grow_streams(b);
	if (b->error.code)
		return false;
	b->streams[b->n_streams++] = who;
	return true;
}

static bool may_use(struct container_build *b, const struct container_file *f)
{
	size_t i = 0;

	while (i < b->n_uses &&
	       (b->uses[i].ino != f->ino || b->uses[i].dev != f->dev))
		i++;
	if (i == b->n_uses)
		b->uses[b->n_uses++] = (struct container_use){ f->dev, f->ino,
							       0 };
	if (b->uses[i].n++ < CONTAINER_USES)
		return true;
	fail(b, AUX_E_LIMIT, "one file is the buffer of more than 16 streams");
	return false;
}

void container_build_stream(struct container_build *b,
			    const struct container_stream *s)
{
	uint64_t idx = b->n_streams, size = (s->len + 7) & ~UINT64_C(7);

	if (!add_stream(b, s->who) || !may_use(b, s->file))
		return;
	put_header(b, PERF_RECORD_AUX, 0, 24 + TRAILER(b));
	put_u64(b, 0);
	put_u64(b, s->len);
	put_u64(b, s->flags);
	put_trailer(b, s->who, idx + 1);
	put_header(b, AUX_RECORD_AUXTRACE, 0, sizeof(struct aux_rec_auxtrace));
	put_u64(b, size);
	put_u64(b, 0);
	put_u64(b, 0);
	put_u32(b, (uint32_t)idx);
	put_u32(b, s->who.cpu == UINT32_MAX ? s->who.tid : UINT32_MAX);
	put_u32(b, s->who.cpu);
	put_u32(b, 0);
	put(b, s->data, s->len);
	put_zeros(b, size - s->len);
}

/* -1 stays -1. */
static void put_wide(struct container_build *b, uint32_t v)
{
	put_u64(b, v == UINT32_MAX ? UINT64_MAX : v);
}

/* Which event's records belong to which queue; a record, so among the data. */
static void put_index(struct container_build *b)
{
	size_t at = 0, n;

	while (at < b->n_streams) {
		n = b->n_streams - at < 1024 ? b->n_streams - at : 1024;
		put_header(b, AUX_RECORD_ID_INDEX, 0, 8 + 32 * n);
		put_u64(b, n);
		for (size_t end = at + n; at < end; at++) {
			const struct container_who *w = &b->streams[at];

			put_u64(b, at + 1);
			put_u64(b, at);
			put_wide(b, w->cpu);
			put_wide(b, w->cpu == UINT32_MAX ? w->tid : UINT32_MAX);
		}
	}
}

static void put_string(struct container_build *b, const char *s)
{
	size_t len = strlen(s) + 1;
	size_t room = (len + STRING_ALIGN - 1) & ~(size_t)(STRING_ALIGN - 1);

	put_u32(b, (uint32_t)room);
	put(b, s, len);
	put_zeros(b, room - len);
}

static struct perf_event_attr make_attr(const struct container_build *b)
{
	return (struct perf_event_attr){
		.type = CONTAINER_PMU, .size = sizeof(struct perf_event_attr),
		.config = b->config,
		.sample_type = SAMPLE_TYPE | (b->timed ? PERF_SAMPLE_TIME : 0),
		.sample_id_all = 1,
	};
}

static void put_ids(struct container_build *b)
{
	for (size_t i = 0; i == 0 || i < b->n_streams; i++)
		put_u64(b, i + 1);
}

static void put_event_desc(struct container_build *b)
{
	struct perf_event_attr attr = make_attr(b);

	put_u32(b, 1);
	put_u32(b, sizeof(attr));
	put(b, &attr, sizeof(attr));
	put_u32(b, b->n_streams ? (uint32_t)b->n_streams : 1);
	put_string(b, b->event);
	put_ids(b);
}

static int by_bit(const void *x, const void *y)
{
	const struct container_feature *p = x, *q = y;

	return p->bit < q->bit ? -1 : p->bit > q->bit;
}

/* The table lies right behind the records; its sections follow. */
static void put_features(struct container_build *b, struct aux_file_header *h)
{
	struct aux_file_section s[CONTAINER_FEATURES + 1];
	uint64_t table = b->end;
	size_t n = b->n_features;

	if (n < CONTAINER_FEATURES)
		b->features[n++].bit = AUX_FEAT_EVENT_DESC;
	qsort(b->features, n, sizeof(b->features[0]), by_bit);
	put_zeros(b, 0);
	for (size_t i = 0; i < n; i++)
		put_zeros(b, sizeof(s[0]));
	for (size_t i = 0; i < n; i++) {
		const struct container_feature *f = &b->features[i];

		h->features[f->bit / 64] |= UINT64_C(1) << f->bit % 64;
		s[i].offset = b->end;
		if (f->text)
			put_string(b, f->text);
		else
			put_event_desc(b);
		s[i].size = b->end - s[i].offset;
	}
	b->n_features = n;
	flush(b);
	write_at(b, s, n * sizeof(s[0]), table);
}

static void put_ends(struct container_build *b)
{
	struct aux_file_header h = {
		.magic = AUX_PERF_MAGIC2, .size = sizeof(h),
		.attr_size = sizeof(struct perf_event_attr) +
			     sizeof(struct aux_file_section),
	};
	struct perf_event_attr attr = make_attr(b);
	struct aux_file_section ids;

	put_index(b);
	h.data.offset = sizeof(h);
	h.data.size = b->end - sizeof(h);
	put_features(b, &h);
	ids.offset = b->end;
	put_ids(b);
	ids.size = b->end - ids.offset;
	h.attrs.offset = b->end;
	h.attrs.size = h.attr_size;
	put(b, &attr, sizeof(attr));
	put(b, &ids, sizeof(ids));
	flush(b);
	write_at(b, &h, sizeof(h), 0);
}

int container_build_open(struct container_build *b, struct aux_reader **r,
			 const char *name, struct aux_diag *diag)
{
	void *map;

	*r = NULL;
	put_ends(b);
	if (b->error.code) {
		if (diag)
			*diag = b->error;
		return -b->error.code;
	}
	map = mmap(NULL, b->end, PROT_READ, MAP_PRIVATE, b->fd, 0);
	if (map == MAP_FAILED)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
				"cannot map a temporary file: %s",
				strerror(errno));
	return reader_open_map(r, map, b->end, name, diag);
}
