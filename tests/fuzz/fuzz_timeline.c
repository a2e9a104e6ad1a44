/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timeline over any bytes: built, then asked about every process, thread, CPU
 * and guest at every time that the records name. Answers must keep what
 * sideband/sideband.h promises: times that contain the one asked for, mappings in order
 * that do not overlap, equal ids for equal contents.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decode/lib/sideband/sideband.h"

#define MAX_ASKED 200	/* records whose ids and times are asked about */
#define MAX_WALKED 200

#define ASSERT(c)                                                              \
	do {                                                                   \
		if (!(c))                                                      \
			abort();                                               \
	} while (0)

static uint64_t sum;	/* of what was handed out, so that it is read */

static void look_at_mapping(const struct mapping *m)
{
	ASSERT(m->start < m->end && m->path);
	sum += strlen(m->path) + m->build_id[0];
	ASSERT(m->build_id_size <= sizeof(m->build_id));
	if (m->ref_name)
		sum += strlen(m->ref_name);
	if (m->saved)
		sum += m->saved[0] + m->saved[m->end - m->start - 1];
}

static void walk(const struct space *s,
		 const struct mapping *(*next)(const struct space *, uint64_t))
{
	const struct mapping *m = next(s, 0);
	uint64_t end = 0;

	for (unsigned i = 0; m && i < MAX_WALKED; i++) {
		look_at_mapping(m);
		ASSERT(m->start >= end);
		ASSERT(next != space_next || space_find(s, m->start) == m);
		end = m->end;
		m = next(s, end);
	}
}

static void look_at_space(const struct space *s, uint64_t time)
{
	ASSERT(s && s->id);
	ASSERT(s->from <= time && (time < s->until || s->until == UINT64_MAX));
	walk(s, space_next);
	walk(s, space_next_kernel);
	ASSERT(!space_find(s, UINT64_MAX) ||
	       space_find(s, UINT64_MAX)->end == UINT64_MAX);
}

static void ask(const struct timeline *tl, uint32_t id, uint64_t time)
{
	const struct space *s = timeline_space(tl, id, time);
	struct who w = timeline_who(tl, id, time);
	const struct timeline_ns_id *ns;
	struct timeline_guest guest;

	ASSERT(w.until > time || w.until == UINT64_MAX);
	look_at_space(s, time);
	ASSERT(timeline_space(tl, id, time) == s);
	sum += timeline_stream(tl, id, time).tid + timeline_pid(tl, id, time);
	sum += strlen(timeline_comm(tl, id, time));
	ns = timeline_namespaces(tl, id, time);
	if (ns)
		sum += ns[TIMELINE_NS_MNT].inode;
	if (timeline_cgroup(tl, id, time))
		sum += strlen(timeline_cgroup(tl, id, time));
	for (size_t i = 0; i < 4 && timeline_guest(tl, i, &guest); i++)
		look_at_space(timeline_guest_space(tl, guest.machine, id, time),
			      time);
}

static void ask_all(const struct timeline *tl, struct aux_reader *r)
{
	struct aux_event ev;

	aux_reader_rewind(r);
	for (unsigned n = 0; n < MAX_ASKED; n++) {
		if (aux_reader_next(r, &ev, NULL) != 1)
			break;
		ask(tl, ev.id.pid, ev.id.time);
		ask(tl, ev.id.tid, ev.id.time + 1);
		ask(tl, ev.id.cpu, ev.id.time - 1);
		/* The first words of most bodies are a pid and a tid. */
		if (ev.type <= PERF_RECORD_MMAP2)
			ask(tl, ev.mmap.pid, ev.id.time);
	}
	ask(tl, UINT32_MAX, 0);
	ask(tl, 0, UINT64_MAX);
}

static void look_at_rest(const struct timeline *tl)
{
	struct timeline_guest guest;
	const char *path;
	uint32_t tid;
	uint64_t id;
	size_t at = 0, n = 0;

	while (timeline_next_thread(tl, &at, &tid))
		n++;
	for (size_t i = 0; timeline_guest(tl, i, &guest); i++)
		n += guest.n_threads;
	ASSERT(n == at);
	for (size_t i = 0; (path = timeline_cgroup_at(tl, i, &id)); i++)
		sum += strlen(path) + id;
	const struct timeline_loss *l;
	const struct saved_code *c;
	uint64_t end = 0;

	for (size_t i = 0; (l = timeline_loss(tl, i)); i++)
		ASSERT(l->from <= l->until);
	for (size_t i = 0; (c = timeline_saved(tl, i)); i++) {
		ASSERT(c->offset >= end || !i);
		end = c->offset + c->len;
		sum += c->len ? c->bytes[0] + c->bytes[c->len - 1] : 0;
	}
	ASSERT(timeline_stats(tl)->lost_from <= timeline_stats(tl)->lost_until);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct aux_diag diag = { 0 };
	struct timeline *tl = NULL;
	struct aux_reader *r = NULL;

	if (aux_reader_open_mem(&r, data, len, "fuzz", &diag))
		return 0;
	if (timeline_new(&tl, r, 0, &diag) == 0) {
		ask_all(tl, r);
		look_at_rest(tl);
	}
	timeline_free(tl);
	aux_reader_close(r);
	return 0;
}
