/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The reader: files built here in both byte orders, truncated at every offset, pipes, and
 * files that are refused. Inputs are heap copies of the exact size, so that a sanitizer sees
 * every read past the end.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <aux/reader.h>

#include "tests/unit/readerfile.h"
#include "tests/unit/tap.h"

static void check_records(struct aux_reader *r, const char *what)
{
	struct aux_event e;
	bool good = true;
	unsigned n = 0;

	while (aux_reader_next(r, &e, NULL) == 1) {
		if (e.type == PERF_RECORD_COMM)
			good &= e.comm.pid == 10 && e.comm.tid == 11 &&
				e.comm.exec && !strcmp(e.comm.comm, "prog") &&
				e.id.pid == 10 && e.id.tid == 11 &&
				e.id.time == 1000 && e.id.cpu == 3 &&
				e.id.id == 77 && e.id.present == TYPE &&
				e.attr == aux_reader_attr(r, 0);
		else if (e.type == PERF_RECORD_MMAP2)
			good &= e.mmap.addr == 0x401000 && e.mmap.prot == 5 &&
				e.mmap.pgoff == 0x1000 && e.mmap.flags == 2 &&
				e.mmap.build_id_size == 20 &&
				!memcmp(e.mmap.build_id, "ABCDE", 5) &&
				!strcmp(e.mmap.path, "/bin/prog");
		else if (e.type == AUX_RECORD_AUXTRACE_INFO)
			good &= e.auxtrace_info.trace_type == 1 &&
				e.auxtrace_info.n_priv == 2 &&
				e.auxtrace_info.priv[0] ==
					0x1122334455667788 &&
				e.auxtrace_info.priv[1] == 31;
		else if (e.type == PERF_RECORD_SWITCH_CPU_WIDE)
			good &= e.sw.out && e.sw.preempt && e.sw.cpu_wide &&
				e.sw.next_prev_tid == 21 && e.id.cpu == 2;
		else if (e.type == PERF_RECORD_SAMPLE)
			good &= e.id.id == 78 && e.id.tid == 11 &&
				e.id.time == 1003 && e.id.cpu == 1;
		else if (e.type == PERF_RECORD_AUX)
			good &= e.aux.offset == 64 && e.aux.size == 21 &&
				e.aux.flags == 5 && e.id.time == 1004;
		else if (e.type == AUX_RECORD_AUXTRACE)
			good &= e.auxtrace.h.size == sizeof(payload) &&
				e.auxtrace.h.idx == 3 &&
				e.auxtrace.h.tid == UINT32_MAX &&
				e.auxtrace.payload.len == sizeof(payload) &&
				!memcmp(e.auxtrace.payload.data, payload,
					sizeof(payload));
		else
			continue;
		n++;
		if (!good) {
			ok(false, "%s: fields of type %u", what, e.type);
			return;
		}
	}
	ok(n == N_RECORDS - 1, "%s: every field of %u records", what, n);
}

static void check_attr(const struct aux_reader *r, size_t size,
		       const char *what)
{
	const struct aux_attr *a = aux_reader_attr(r, 0);

	ok(a && a->file_size == size && a->attr.type == 9 &&
	   a->attr.config == 0x300e601 && a->attr.sample_type == TYPE &&
	   a->attr.mmap && a->attr.comm && a->attr.sample_id_all &&
	   a->attr.context_switch && !a->attr.inherit && !a->attr.freq &&
	   a->attr.wakeup_events == 7 && a->attr.bp_type == 8 &&
	   a->n_ids == 2 && a->ids[0] == 77 && a->ids[1] == 78 &&
	   aux_reader_attr_by_id(r, 78) == a && !aux_reader_attr_by_id(r, 1) &&
	   !aux_reader_attr(r, 1), "%s: the attr", what);
	if (a && size >= 112)
		ok(a->attr.sample_stack_user == 0x1234 &&
		   a->attr.clockid == -3 && a->attr.aux_watermark == 0x8000 &&
		   a->attr.sample_max_stack == 127, "%s: its tail", what);
}

static void check_features(const struct aux_reader *r, const char *what)
{
	const struct aux_file_info *f = aux_reader_info(r);
	const char *s = aux_reader_source(r, "backend");

	ok(f->hostname && !strcmp(f->hostname, "box") && f->cmdline &&
	   !strcmp(f->cmdline, "perf record ls") && !f->arch && s &&
	   !strcmp(s, "step") && !aux_reader_source(r, "back"),
	   "%s: the features", what);
}

static void test_files(struct buf *b)
{
	static const size_t sizes[] = { 64, 72, 112, 128, 136, 4096 };

	for (unsigned i = 0; i < 12; i++) {
		bool swap = i & 1;
		size_t size = sizes[i / 2];
		struct aux_diag diag = { 0 };
		struct aux_reader *r;
		char what[64];
		void *p;

		build_file(b, swap, size);
		p = copy_of(b, b->n);
		snprintf(what, sizeof(what), "attr of %zu bytes, %s order",
			 size, swap ? "foreign" : "native");
		if (!ok(!aux_reader_open_mem(&r, p, b->n, "x", &diag), "%s%s",
			what, diag.text))
			continue;
		check_attr(r, size, what);
		check_features(r, what);
		check_records(r, what);
		aux_reader_rewind(r);
		check_records(r, "once more");
		aux_reader_close(r);
		free(p);
	}
}

/* Offsets of the ends of the records (and payloads) of b. */
static size_t whole_records(const size_t *ends, size_t n, size_t cut)
{
	size_t k = 0;

	while (k < n && ends[k] <= cut)
		k++;
	return k;
}

/* A file cut anywhere: all whole records, then -AUX_E_TRUNCATED. */
static void test_cuts(struct buf *b, bool unfinished)
{
	struct place pl = build_file(b, false, 112);
	size_t ends[N_RECORDS], n = 0, wrong = 0, clipped = 0;
	struct aux_reader *r;
	struct aux_event e;

	if (unfinished)
		patch(b, 48, 0, 8);
	for (size_t at = pl.data; at < pl.data_end; n++) {
		at += b->p[at + 6] | b->p[at + 7] << 8;
		if (n == 6)
			at += sizeof(payload);
		ends[n] = at;
	}
	for (size_t cut = 0; cut < pl.data_end; cut++) {
		struct aux_diag diag = { .offset = 1 };
		void *p = copy_of(b, cut);
		size_t want = whole_records(ends, n, cut), got = 0;
		int ret = aux_reader_open_mem(&r, p, cut, "x", &diag);

		if (ret) {
			wrong += cut >= pl.data || !diag.text[0];
			free(p);
			continue;
		}
		while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
			if (e.type == AUX_RECORD_AUXTRACE &&
			    e.auxtrace.clipped) {
				want++;
				clipped++;
				wrong += e.auxtrace.payload.len !=
					 cut - e.auxtrace.payload_offset;
			}
			got++;
		}
		if (unfinished && cut == (want ? ends[want - 1] : pl.data))
			wrong += ret != 0;
		else
			wrong += ret != -AUX_E_TRUNCATED || !diag.text[0] ||
				 diag.offset > cut;
		wrong += got != want || aux_reader_next(r, &e, NULL) != ret;
		aux_reader_close(r);
		free(p);
	}
	ok(!wrong && clipped == sizeof(payload),
	   "%s file cut at each of %zu places", unfinished ? "an unfinished" :
	   "a finished", pl.data_end);
}

static void build_pipe(struct buf *b, bool swap)
{
	size_t at;

	b->n = 0;
	b->swap = swap;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
	attr(b, 136, TYPE);
	u64(b, 77);
	u64(b, 78);
	end(b, at);
	at = begin(b, AUX_RECORD_EVENT_UPDATE, 0);
	u64(b, 2);
	u64(b, 78);
	string(b, "intel_pt//u", 16);
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_HOSTNAME);
	feature_string(b, "box");
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_CMDLINE);
	cmdline(b);
	end(b, at);
	at = begin(b, AUX_RECORD_HEADER_FEATURE, 0);
	u64(b, AUX_FEAT_AUXKIT_SOURCE);
	source(b);
	end(b, at);
	records(b);
}

/* Through a real pipe, so that the bytes are spooled. */
static void test_pipe(struct buf *b, bool swap)
{
	const char *what = swap ? "a foreign pipe" : "a pipe";
	struct aux_reader *r;
	struct aux_diag diag = { 0 };
	char path[32];
	int fd[2];

	build_pipe(b, swap);
	if (pipe(fd) || write(fd[1], b->p, b->n) != (ssize_t)b->n) {
		ok(false, "cannot fill a pipe");
		return;
	}
	close(fd[1]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd[0]);
	if (ok(!aux_reader_open(&r, path, &diag), "%s%s", what, diag.text)) {
		check_attr(r, 136, what);
		is_str(aux_reader_attr(r, 0)->name, "intel_pt//u",
		       "EVENT_UPDATE names it");
		check_features(r, what);
		check_records(r, what);
		ok(aux_reader_info(r)->pipe, "%s is known as one", what);
		aux_reader_close(r);
	}
	close(fd[0]);
}

/* Attrs whose trailers differ: the id at the end tells which. */
static void test_two_attrs(struct buf *b)
{
	const uint64_t type[2] = { TYPE, TYPE & ~(uint64_t)PERF_SAMPLE_CPU };
	struct aux_reader *r;
	struct aux_event e[4];
	unsigned n = 0;
	size_t at;

	b->n = 0;
	b->swap = false;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	for (uint64_t i = 0; i < 2; i++) {
		at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
		attr(b, 128, type[i]);
		u64(b, 77 + i);
		end(b, at);
	}
	for (uint64_t i = 0; i < 3; i++) {
		at = begin(b, PERF_RECORD_COMM, 0);
		u64(b, 0);
		string(b, "x", 8);
		u64(b, 5);
		u64(b, 100 + i);
		if (i != 1)
			u64(b, 6);
		u64(b, i < 2 ? 77 + i : 0);
		end(b, at);
	}
	at = begin(b, PERF_RECORD_SAMPLE, 0);
	u64(b, 78);
	u64(b, 5);
	u64(b, 103);
	end(b, at);
	if (!ok(!aux_reader_open_mem(&r, b->p, b->n, "x", NULL), "opens"))
		return;
	while (n < 4 && aux_reader_next(r, &e[n], NULL) == 1)
		n += e[n].type < 64;
	ok(n == 4 && e[0].attr == aux_reader_attr(r, 0) &&
	   e[0].id.time == 100 && e[0].id.cpu == 6 &&
	   e[1].attr == aux_reader_attr(r, 1) && e[1].id.time == 101 &&
	   e[1].id.present == type[1] && e[1].id.pid == 5 &&
	   !strcmp(e[1].comm.comm, "x"), "each record by its own attr");
	ok(n == 4 && e[2].attr == aux_reader_attr(r, 0) && !e[2].id.present,
	   "id 0 where trailers differ: nothing is guessed");
	ok(n == 4 && e[3].attr == aux_reader_attr(r, 1) &&
	   e[3].id.time == 103 && e[3].id.id == 78, "a sample by its attr");
	aux_reader_close(r);
}

static void refuse(const char *path, int code, const char *what)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;
	int ret = aux_reader_open(&r, path, &diag);

	ok(ret == -code && !r && diag.code == code && diag.text[0], "%s: %s",
	   what, diag.text);
}

static void test_refusals(struct buf *b)
{
	struct aux_reader *r;
	struct aux_event e;
	struct aux_diag diag;
	struct place pl;
	int n = 0, ret;

	refuse("/", AUX_E_UNSUPPORTED, "a directory");
	refuse("/dev/null", AUX_E_FORMAT, "an empty file");
	refuse("/proc/self/exe", AUX_E_FORMAT, "another format");
	refuse("/no/such/file", AUX_E_IO, "no file");

	pl = build_file(b, false, 112);
	patch(b, pl.data + 56 + 6, 0, 2);
	if (!ok(!aux_reader_open_mem(&r, b->p, b->n, "x", NULL), "opens"))
		return;
	while ((ret = aux_reader_next(r, &e, &diag)) == 1)
		n++;
	ok(n == 1 && ret == -AUX_E_FORMAT && diag.offset == pl.data + 56,
	   "a record of size 0 ends the reading, and is named");
	aux_reader_close(r);
}

int main(void)
{
	static struct buf b;

	test_files(&b);
	test_cuts(&b, false);
	test_cuts(&b, true);
	test_pipe(&b, false);
	test_pipe(&b, true);
	test_two_attrs(&b);
	test_refusals(&b);
	return plan_done();
}
