/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_build: writes a perf.data in a temporary file, and opens it.
 *
 * The file is a temporary one of rewrite.h, whose attrs and ids come last: a
 * stream gets its id when it is met. Payloads are written straight from where
 * they lie, and the result is mapped, so neither has to fit into memory.
 *
 * There is one event. Each stream has an id of its own (from 1, its queue + 1),
 * which ID_INDEX ties to a CPU or a thread: as perf record does it.
 */
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/array.h"

#include "decode/lib/import/impl.h"

#define SAMPLE_TYPE \
	(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)
#define TRAILER(b) ((b)->timed ? 32 : 24)

/* Sticky, as every error of rewrite.h: callers go on, and open returns the
 * first. */
static void fail(struct import_build *b, int code, const char *text)
{
	rewrite_fail(b->w, code, "%s", text);
}

static void put(struct import_build *b, const void *p, size_t n)
{
	rewrite_record(b->w, p, n);
}

static void put_u32(struct import_build *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

static void put_u64(struct import_build *b, uint64_t v)
{
	put(b, &v, sizeof(v));
}

static void put_zeros(struct import_build *b, size_t n)
{
	static const uint8_t zeros[8];

	put(b, zeros, n);
}

static size_t padded(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

/*
 * body: bytes after the header, the trailer among them. The size field has 16
 * bits. After a failure the bytes are still passed on, and dropped by
 * rewrite.h.
 */
static void put_header(struct import_build *b, uint32_t type, uint16_t misc,
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

/* sample_id_all for SAMPLE_TYPE: TID, (TIME,) CPU, IDENTIFIER. */
static void put_trailer(struct import_build *b, struct import_who who,
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

/* Nothing is written yet: records follow the call, the event comes last. */
int import_build_init(struct import_build *b, const char *event,
		      uint64_t config, struct aux_diag *diag)
{
	*b = (struct import_build){ .event = event, .config = config };
	return rewrite_open_temp(&b->w, diag);
}

/* w is NULL after open, which hands it over. */
void import_build_fini(struct import_build *b)
{
	rewrite_discard(b->w);
	for (size_t i = 0; i < b->n_features; i++)
		free(b->features[i].data);
	free(b->streams);
	free(b->uses);
}

/* rewrite.h keeps a pointer to the bytes, so they live in b until fini. */
void import_build_feature(struct import_build *b, unsigned bit,
			  const char *text)
{
	struct rewrite_bytes *f = &b->features[b->n_features];

	if (b->n_features == IMPORT_FEATURES)
		return;
	b->n_features++;
	rewrite_bytes_string(f, text);
	if (f->oom)
		fail(b, AUX_E_NOMEM, "out of memory");
	else
		rewrite_feature(b->w, bit, f->data, f->len);
}

void import_build_info(struct import_build *b, uint32_t type,
		       const uint64_t *priv, size_t n)
{
	put_header(b, AUX_RECORD_AUXTRACE_INFO, 0, 8 + n * sizeof(*priv));
	put_u32(b, type);
	put_u32(b, 0);
	put(b, priv, n * sizeof(*priv));
}

void import_build_comm(struct import_build *b, struct import_who who,
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

/*
 * MMAP2 with a build id in place of device and inode (since Linux 5.12);
 * without one these are 0. What all processes share counts as the kernel's, as
 * perf has it: its mappings have pid -1.
 */
void import_build_map(struct import_build *b,
		      const struct import_map *m)
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
	put_trailer(b, (struct import_who){ m->pid, m->pid, UINT32_MAX, 0 },
		    1);
}

void import_build_runs(struct import_build *b, struct import_who who)
{
	put_header(b, PERF_RECORD_ITRACE_START, 0, 8 + TRAILER(b));
	put_u32(b, who.pid);
	put_u32(b, who.tid);
	put_trailer(b, who, 1);
}

void import_build_record(struct import_build *b, uint32_t type,
			 uint16_t misc, const void *body, size_t len,
			 struct import_who who)
{
	put_header(b, type, misc, len + TRAILER(b));
	put(b, body, len);
	put_trailer(b, who, 1);
}

/* Room for one more stream, and for the file that it may be the first to use:
 * uses never has more entries than streams. */
static bool add_stream(struct import_build *b, struct import_who who)
{
	if (b->n_streams == IMPORT_STREAMS)
		fail(b, AUX_E_LIMIT, "more than 4096 trace buffers");
	else if (array_grow(&b->streams, b->n_streams, &b->cap_streams,
			    sizeof(*b->streams)) ||
		 array_grow(&b->uses, b->n_streams, &b->cap_uses,
			    sizeof(*b->uses)))
		fail(b, AUX_E_NOMEM, "out of memory");
	if (rewrite_failed(b->w))
		return false;
	b->streams[b->n_streams++] = who;
	return true;
}

/* The same file may be named again and again, and each time its bytes are
 * copied: a small description must not fill the disk. */
static bool may_use(struct import_build *b, const struct import_file *f)
{
	size_t i = 0;

	while (i < b->n_uses &&
	       (b->uses[i].ino != f->ino || b->uses[i].dev != f->dev))
		i++;
	if (i == b->n_uses)
		b->uses[b->n_uses++] = (struct import_use){ f->dev, f->ino,
							    0 };
	if (b->uses[i].n++ < IMPORT_USES)
		return true;
	fail(b, AUX_E_LIMIT, "one file is the buffer of more than 16 streams");
	return false;
}

/*
 * The AUX record has the exact length; AUXTRACE has it padded to 8, as perf
 * writes it, for records to stay aligned.
 */
void import_build_stream(struct import_build *b,
			 const struct import_stream *s)
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
/* cpu and tid of ID_INDEX have 64 bits, those of other records 32. */
static void put_wide(struct import_build *b, uint32_t v)
{
	put_u64(b, v == UINT32_MAX ? UINT64_MAX : v);
}

/* Which event's records belong to which queue; a record, so among the data. */
static void put_index(struct import_build *b)
{
	size_t at = 0, n;

	while (at < b->n_streams) {
		n = b->n_streams - at < 1024 ? b->n_streams - at : 1024;
		put_header(b, AUX_RECORD_ID_INDEX, 0, 8 + 32 * n);
		put_u64(b, n);
		for (size_t end = at + n; at < end; at++) {
			const struct import_who *w = &b->streams[at];

			put_u64(b, at + 1);
			put_u64(b, at);
			put_wide(b, w->cpu);
			put_wide(b, w->cpu == UINT32_MAX ? w->tid : UINT32_MAX);
		}
	}
}

/* One event for all streams, with an id for each; for none, one id. */
static void put_event(struct import_build *b)
{
	uint32_t n = b->n_streams ? (uint32_t)b->n_streams : 1;
	uint64_t *ids = calloc(n, sizeof(*ids));
	struct aux_attr a = {
		.attr = {
			.type = IMPORT_PMU, .size = sizeof(a.attr),
			.config = b->config,
			.sample_type = SAMPLE_TYPE |
				       (b->timed ? PERF_SAMPLE_TIME : 0),
			.sample_id_all = 1,
		},
		.file_size = sizeof(a.attr),
		.ids = ids, .n_ids = n, .name = b->event,
	};

	for (uint32_t i = 0; ids && i < n; i++)
		ids[i] = i + 1;
	if (ids)
		rewrite_attr(b->w, &a);
	else
		fail(b, AUX_E_NOMEM, "out of memory");
	free(ids);
}

/* rewrite_reader frees w in any case: fini then finds nothing to discard. */
int import_build_open(struct import_build *b, struct aux_reader **r,
		      const char *name, struct aux_diag *diag)
{
	struct rewrite *w = b->w;

	put_index(b);
	put_event(b);
	b->w = NULL;
	return rewrite_reader(w, r, name, diag);
}
