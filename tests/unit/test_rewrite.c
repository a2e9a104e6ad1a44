/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Writing recordings from recordings: a copy has the same content, in either byte order; its
 * index is right; equal ids in two files become different ids when the files are merged, and
 * stay equal when the files are parts of one recording.
 */
#include <stdlib.h>
#include <unistd.h>

#include "decode/lib/code/impl.h"
#include "decode/edit/edit.h"
#include "tests/unit/mkperf.h"
#include "perfdata/rewrite.h"
#include "tests/unit/tap.h"

static char dir[] = "/tmp/auxkit-rewrite-XXXXXX";
static char path_a[64], path_b[64], path_out[64];

static void save(const char *path, struct mk *m)
{
	FILE *f = fopen(path, "w");

	mk_finish(m);
	if (!f || fwrite(m->p, 1, m->n, f) != m->n || fclose(f))
		ok(0, "saving %s", path);
	free(m->p);
}

static struct aux_reader *load(const char *path)
{
	struct aux_diag diag = { 0 };
	struct aux_reader *r;

	if (aux_reader_open(&r, path, &diag) < 0)
		ok(0, "opening %s: %s", path, diag.text);
	return r;
}

/* ---- a copy ---- */

static const char trace[] = "the bytes of a trace";

static void make_original(struct mk *m)
{
	static const uint8_t version[68] = { 64, 0, 0, 0, '6', '.', '1' };
	struct mk_id id = { 10, 11, 1000, 1 };

	mk_init(m, 0x400);
	mk_pt_info(m);
	mk_comm(m, id, true, "program");
	mk_mmap(m, id, 0x1000, 0x1000, 0, "/bin/program");
	mk_own(m, AUX_OWN_SOURCE, "source=kernel\n", 14, NULL, 0);
	mk_aux(m, id, 0, sizeof(trace), 0);
	mk_auxtrace(m, 1, 1, UINT32_MAX, 0, trace, sizeof(trace));
	mk_auxtrace(m, 1, 1, UINT32_MAX, sizeof(trace), trace, 8);
	mk_feature(m, AUX_FEAT_VERSION, version, sizeof(version));
}

static bool copy(const char *from, const char *to, const char *source)
{
	const struct rewrite_filter f = { .source = source };
	struct aux_reader *r = load(from);
	struct aux_diag diag = { 0 };
	struct rewrite *w;
	int rc;

	if (!r)
		return false;
	rc = rewrite_open(&w, to, from, aux_reader_info(r)->swapped, &diag);
	if (rc == 0) {
		rewrite_attrs_of(w, r);
		rewrite_copy(w, r, &f);
		rc = rewrite_close(w, &diag);
	}
	aux_reader_close(r);
	return ok(rc == 0, "copied%s%s", rc ? ": " : "", rc ? diag.text : "");
}

/* The next record that is not SOURCE. */
static int next(struct aux_reader *r, struct aux_event *ev)
{
	int rc;

	do
		rc = aux_reader_next(r, ev, NULL);
	while (rc > 0 && ev->type == AUX_RECORD_EVENT_TYPE &&
	       ev->own.kind == AUX_OWN_SOURCE);
	return rc;
}

static bool same_trace(const struct aux_event *a, const struct aux_event *b)
{
	return a->auxtrace.h.size == b->auxtrace.h.size &&
	       a->auxtrace.h.offset == b->auxtrace.h.offset &&
	       a->auxtrace.h.idx == b->auxtrace.h.idx &&
	       a->auxtrace.h.cpu == b->auxtrace.h.cpu &&
	       a->auxtrace.h.tid == b->auxtrace.h.tid &&
	       a->auxtrace.payload.len == b->auxtrace.payload.len &&
	       !memcmp(a->auxtrace.payload.data, b->auxtrace.payload.data,
		       a->auxtrace.payload.len);
}

static unsigned compare(struct aux_reader *a, struct aux_reader *b)
{
	struct aux_event x, y;
	unsigned n = 0;
	int rx, ry;

	for (;; n++) {
		rx = next(a, &x);
		ry = next(b, &y);
		if (rx <= 0 || ry <= 0)
			break;
		if (x.type != y.type || x.raw.len != y.raw.len ||
		    memcmp(x.raw.data, y.raw.data, x.raw.len) != 0 ||
		    (x.type == AUX_RECORD_AUXTRACE && !same_trace(&x, &y)))
			break;
	}
	ok(rx == 0 && ry == 0, "record by record (%u)", n);
	return n;
}

/* Every entry of the index is the place of an AUXTRACE record. */
static void check_index(const char *path)
{
	struct aux_reader *r = load(path);
	bool swapped = aux_reader_info(r)->swapped;
	struct aux_bytes s = { 0 };
	struct aux_event ev;
	uint64_t place, n = 0;

	ok(aux_reader_feature(r, AUX_FEAT_AUXTRACE, &s, NULL) == 1 &&
	   s.len >= 8, "there is an index");
	while (s.data && aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type != AUX_RECORD_AUXTRACE || 8 + 16 * n + 16 > s.len)
			continue;
		memcpy(&place, s.data + 8 + 16 * n++, 8);
		place = swapped ? __builtin_bswap64(place) : place;
		if (place != ev.offset)
			ok(0, "entry %u", (unsigned)n);
	}
	is_u64(s.len, 8 + 16 * n, "it has all AUXTRACE records");
	aux_reader_close(r);
}

static void test_copy(void)
{
	struct aux_reader *a, *b;
	struct mk m;

	make_original(&m);
	save(path_a, &m);
	if (!copy(path_a, path_out, "bundle=1\n"))
		return;
	a = load(path_a);
	b = load(path_out);
	is_u64(compare(a, b), 6, "nothing is left out");
	ok(aux_reader_source(b, "source") &&
	   !strcmp(aux_reader_source(b, "source"), "kernel") &&
	   bundle_symbols_expected(b) && !bundle_symbols_expected(a),
	   "the source is kept and added to");
	ok(aux_reader_info(b)->version &&
	   !strcmp(aux_reader_info(b)->version, "6.1"), "features are kept");
	ok(aux_reader_attr(b, 0) && !aux_reader_attr(b, 1) &&
	   !memcmp(&aux_reader_attr(a, 0)->attr, &aux_reader_attr(b, 0)->attr,
		   sizeof(struct perf_event_attr)) &&
	   aux_reader_attr_by_id(b, 1), "so is the event with its id");
	aux_reader_close(a);
	aux_reader_close(b);
	check_index(path_out);
}

/* ---- the other byte order ---- */

static void test_swapped(void)
{
	struct aux_attr attr = { .attr = mk_attr(MK_PMU, 0x12345678),
				 .file_size = 64, .n_ids = 2,
				 .ids = (const uint64_t[]){ 7, 9 },
				 .name = "event" };
	const struct aux_rec_auxtrace h = { .offset = 16, .idx = 3, .cpu = 2,
					    .tid = UINT32_MAX };
	struct rewrite_bytes loss = { .swap = true };
	struct aux_diag diag = { 0 };
	const struct aux_attr *got;
	struct aux_reader *r, *c;
	struct aux_event ev;
	struct rewrite *w;

	attr.attr.exclude_kernel = attr.attr.context_switch = 1;
	ok(rewrite_open(&w, path_a, NULL, true, &diag) == 0, "swapped");
	rewrite_attr(w, &attr);
	rewrite_bytes_u32(&loss, 5);
	rewrite_bytes_u32(&loss, AUX_LEDGER_STALLED);
	for (int i = 0; i < 5; i++)
		rewrite_bytes_u64(&loss, 100 + (uint64_t)i);
	rewrite_own(w, AUX_OWN_LOSS, loss.data, loss.len);
	rewrite_auxtrace(w, &h, trace, sizeof(trace));
	ok(rewrite_close(w, &diag) == 0, "written");
	free(loss.data);
	copy(path_a, path_out, NULL);
	r = load(path_a);
	c = load(path_out);
	got = aux_reader_attr(r, 0);
	ok(aux_reader_info(r)->swapped && got && got->n_ids == 2 &&
	   got->ids[1] == 9 && got->attr.config == 0x12345678 &&
	   got->attr.sample_id_all && got->attr.exclude_kernel &&
	   got->attr.context_switch && !got->attr.inherit &&
	   got->name && !strcmp(got->name, "event"), "the event is read");
	ok(aux_reader_next(r, &ev, NULL) == 1 && ev.own.loss.idx == 5 &&
	   ev.own.loss.offset == 100 && ev.own.loss.last_ns == 103,
	   "so is a record of ours");
	ok(aux_reader_next(r, &ev, NULL) == 1 && ev.auxtrace.h.idx == 3 &&
	   ev.auxtrace.h.offset == 16 && ev.auxtrace.h.size == 24 &&
	   !memcmp(ev.auxtrace.payload.data, trace, sizeof(trace)),
	   "and the trace");
	aux_reader_rewind(r);
	is_u64(compare(r, c), 2, "a copy of it is the same");
	aux_reader_close(r);
	aux_reader_close(c);
	check_index(path_out);
}

/* ---- names of a bundle ---- */

static size_t put_names(uint8_t *p)
{
	struct aux_own_symbols h = { .build_id = { 1, 2 }, .build_id_size = 2,
				     .path_len = 5, .n = 2, .names_len = 10 };
	const struct aux_own_symbol s[2] = {
		{ 0x100, 0x110, 0xf0, 0x20, 0 }, { 0x110, 0x111, 0x110, 1, 5 },
	};

	memcpy(p, &h, sizeof(h));
	memcpy(p + sizeof(h), "/a/so", 5);
	memcpy(p + sizeof(h) + 5, s, sizeof(s));
	memcpy(p + sizeof(h) + 5 + sizeof(s), "four\0next", 10);
	return sizeof(h) + 5 + sizeof(s) + 10;
}

static void test_names(void)
{
	struct mapping m = { .path = "/a/so", .build_id = { 1, 2 },
			     .build_id_size = 2 }, other = m;
	struct elfimage_symbol sym = { 0 };
	struct bundle_symbols *b;
	struct aux_reader *r;
	uint8_t payload[256];
	size_t len = put_names(payload);
	struct mk mk;
	int bad = 0;

	other.build_id[0] = 9;
	mk_init(&mk, 0);
	/* every cut of the record, and then the record */
	for (size_t n = 0; n <= len; n++)
		mk_own(&mk, AUX_OWN_SYMBOLS, payload, n, NULL, 0);
	for (size_t i = 0; i < len; i++) {
		payload[i] ^= 0xff;
		mk_own(&mk, AUX_OWN_SYMBOLS, payload, i, NULL, 0);
		payload[i] ^= 0xff;
	}
	save(path_a, &mk);
	r = load(path_a);
	ok(bundle_symbols_new(&b, r) == 0 && b, "names are read");
	ok(bundle_symbols_find(b, &m, 0x10f, &sym) == 0 &&
	   !strcmp(sym.name, "four") && sym.start == 0xf0 && sym.size == 0x20,
	   "the last byte of a range");
	ok(bundle_symbols_find(b, &m, 0x110, &sym) == 0 &&
	   !strcmp(sym.name, "next"), "the first of the next");
	bad += bundle_symbols_find(b, &m, 0xff, &sym) == 0;
	bad += bundle_symbols_find(b, &m, 0x111, &sym) == 0;
	bad += bundle_symbols_find(b, &other, 0x100, &sym) == 0;
	is_u64((uint64_t)bad, 0, "none before, behind, or in another file");
	bundle_symbols_free(b);
	aux_reader_close(r);
}

/* ---- merging ---- */

static void make_part(const char *path, uint64_t time, uint64_t offset,
		      const char *bytes, uint32_t cpu)
{
	struct mk_id id = { 10, 11, time, cpu };
	struct mk m;
	size_t at;

	mk_init(&m, 0x400);
	mk_pt_info(&m);
	at = mk_begin(&m, AUX_RECORD_ID_INDEX, 0);
	mk_u64(&m, 1);
	mk_u64(&m, 1);
	mk_u64(&m, cpu);
	mk_u64(&m, cpu);
	mk_u64(&m, UINT64_MAX);
	mk_end(&m, at, NULL);
	mk_comm(&m, (struct mk_id){ 10, 11, 0, 0 }, false, "program");
	mk_aux(&m, id, offset, 32, 0);
	mk_code(&m, 10, time, 0x5000, 1, bytes, 32);
	mk_auxtrace(&m, cpu, cpu, UINT32_MAX, offset, bytes, 32);
	save(path, &m);
}

static struct aux_reader *merge(const char *a, const char *b,
				struct merge_stats *st)
{
	const char *const paths[] = { a, b };
	struct aux_diag diag = { 0 };
	const char *which;
	struct rewrite *w;
	struct merge *m;
	int rc = merge_open(&m, paths, 2, NULL, 0, &which, &diag);

	if (rc == 0)
		rc = rewrite_open(&w, path_out, NULL, merge_swapped(m), &diag);
	if (rc == 0) {
		merge_write(m, w, NULL, NULL, &diag);
		*st = *merge_stats(m);
		rc = rewrite_close(w, &diag);
	}
	ok(rc == 0, "merged%s%s", rc ? ": " : "", rc ? diag.text : "");
	merge_close(m);
	return rc ? NULL : load(path_out);
}

static const char one[] = "one one one one one one one one";
static const char two[] = "two two two two two two two two";

/* Rotated files: the stream goes on. */
static void test_parts(void)
{
	struct merge_stats st = { 0 };
	struct aux_reader *r;
	struct aux_event ev;
	unsigned n_trace = 0, n_comm = 0, n_same = 0;

	make_part(path_a, 2000, 32, two, 1);
	make_part(path_b, 1000, 0, one, 1);
	r = merge(path_a, path_b, &st);
	if (!r)
		return;
	while (aux_reader_next(r, &ev, NULL) > 0) {
		n_comm += ev.type == PERF_RECORD_COMM;
		if (ev.type != AUX_RECORD_AUXTRACE)
			continue;
		n_same += ev.auxtrace.h.idx == 1 &&
			  ev.auxtrace.h.offset == 32 * n_trace &&
			  !memcmp(ev.auxtrace.payload.data,
				  n_trace ? two : one, 32);
		n_trace++;
	}
	ok(st.n_parts == 1 && n_trace == 2 && n_same == 2,
	   "parts of a stream follow each other");
	ok(n_comm == 1 && !aux_reader_attr(r, 1), "what both say is said once");
	aux_reader_close(r);
	check_index(path_out);
}

/* Two recordings with the same numbers. */
static void test_apart(void)
{
	struct merge_stats st = { 0 };
	struct aux_reader *r;
	struct aux_event ev;
	uint64_t ids = 0, index = 0, blobs = 0;
	uint32_t streams = 0;

	make_part(path_a, 1000, 0, one, 1);
	make_part(path_b, 2000, 0, two, 1);
	r = merge(path_a, path_b, &st);
	if (!r)
		return;
	while (aux_reader_next(r, &ev, NULL) > 0) {
		if (ev.type == AUX_RECORD_AUXTRACE)
			streams |= 1u << ev.auxtrace.h.idx;
		else if (ev.type == PERF_RECORD_AUX)
			ids |= UINT64_C(1) << ev.id.id;
		else if (ev.type == AUX_RECORD_ID_INDEX)
			index |= UINT64_C(1) << (ev.id_index.entries.data[0] +
					8 * ev.id_index.entries.data[8]);
		else if (ev.type == AUX_RECORD_EVENT_TYPE &&
			 ev.own.kind == AUX_OWN_CODE)
			blobs |= UINT64_C(1) << ev.own.code.h.blob;
	}
	is_u64(st.n_parts, 0, "they are no parts");
	is_u64(streams, 1u << 1 | 1u << 3, "streams have numbers of their own");
	is_u64(ids, 1u << 1 | 1u << 2, "so have events, in records");
	is_u64(index, 1u << 9 | 1u << 26, "and in the index of ids");
	is_u64((uint64_t)__builtin_popcountll(blobs), 2, "and blobs of code");
	ok(aux_reader_attr_by_id(r, 1) && aux_reader_attr_by_id(r, 2),
	   "the events are declared");
	aux_reader_close(r);
}

static void test_refused(void)
{
	struct aux_diag diag = { 0 };
	struct rewrite *w;

	ok(rewrite_open(&w, path_a, path_a, false, &diag) == -AUX_E_INVAL &&
	   rewrite_open(&w, dir, NULL, false, &diag) == -AUX_E_INVAL &&
	   rewrite_open(&w, "-", NULL, false, &diag) == -AUX_E_INVAL &&
	   rewrite_open(&w, "/nonexistent/x", NULL, false, &diag) ==
		   -AUX_E_IO, "what cannot be written is refused");
	unlink(path_out);
	ok(rewrite_open(&w, path_out, NULL, false, &diag) == 0, "begun");
	rewrite_discard(w);
	ok(access(path_out, F_OK) != 0, "and given up: there is no file");
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(path_a, sizeof(path_a), "%s/a.data", dir);
	snprintf(path_b, sizeof(path_b), "%s/b.data", dir);
	snprintf(path_out, sizeof(path_out), "%s/out.data", dir);
	test_copy();
	test_swapped();
	test_names();
	test_parts();
	test_apart();
	test_refused();
	unlink(path_a);
	unlink(path_b);
	unlink(path_out);
	rmdir(dir);
	return plan_done();
}
