/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * The writer: a small file byte by byte and as perf 6.1 reads it, saved code, and mistakes of
 * callers.
 */
#include "perfdata/impl.h"
#include "tests/unit/tap.h"
#include "tests/unit/writer_dir.h"

static void put_code(struct writer *w)
{
	static const uint8_t bytes[2][16] = { { 0xc3 }, { 0x90, 0xc3 } };
	struct aux_code_entry e = { .len = 16, .pid = 77,
				    .kind = AUX_CODE_ANON };
	int i;

	writer_codes_new(w, 1, 2);
	for (i = 0; i < 1000; i++) {
		e.time_ns = (uint64_t)(i * 7919 % 500);	/* two of each */
		e.addr = (uint64_t)i;
		writer_code(w, &e, bytes[i & 1]);
	}
}

/* Writes the small file that most checks look at. */
static int make_small(void)
{
	struct writer *w = start();
	const struct writer_stream *s;
	size_t n;

	if (!w)
		return -1;
	put_info(w);
	put_sideband(w);
	put_trace(w, pt, sizeof(pt), 0);
	synth_finished_round(w);
	put_code(w);
	s = writer_streams(w, &n);
	ok(n == 1 && s->idx == 0 && s->end == sizeof(pt) &&
	   s->saved == sizeof(pt) && s->n_chunks == 1,
	   "the AUX bytes of each queue are counted");
	writer_feature(w, AUX_FEAT_HOSTNAME, "\x08\0\0\0wrong\0\0", 12);
	writer_feature(w, AUX_FEAT_HOSTNAME, "\x08\0\0\0" "ahost\0\0\0", 12);
	writer_feature(w, AUX_FEAT_AUXKIT_SOURCE, "\1\0\0\0\2\0\0\0a\n", 10);
	return writer_close(w, NULL);
}

static void check_header(const struct file *f)
{
	const uint64_t stride = ATTR_SIZE + 16;

	ok(!memcmp(f->data, "PERFILE2", 8), "magic");
	is_u64(u64_at(f, 8), 104, "header size");
	is_u64(u64_at(f, 16), stride, "attr_size covers the ids section");
	is_u64(u64_at(f, 24), 104 + 3 * 8, "attrs lie behind the ids");
	is_u64(u64_at(f, 32), 2 * stride, "size of attrs");
	is_u64(u64_at(f, 40), 128 + 2 * stride, "data lie behind the attrs");
	is_u64(u64_at(f, 104), 11, "first id");
	is_u64(u64_at(f, 120), 21, "last id");
	is_u64(u32_at(f, 128), 8, "attr 0: type");
	is_u64(u32_at(f, 132), ATTR_SIZE, "attr 0: size");
	is_u64(u64_at(f, 136), 0x300e601, "attr 0: config");
	is_u64(u64_at(f, 128 + ATTR_SIZE), 104, "attr 0: ids offset");
	is_u64(u64_at(f, 128 + ATTR_SIZE + 8), 16, "attr 0: ids size");
	is_u64(u64_at(f, 128 + stride + ATTR_SIZE), 120, "attr 1: ids offset");
	is_u64(u64_at(f, 128 + stride + ATTR_SIZE + 8), 8, "attr 1: ids size");
}

/* The records, in order, with the sizes that the formats give them. */
static void check_records(const struct file *f)
{
	static const struct { uint32_t type; uint16_t misc, size; } want[] = {
		{ 79, 0, 56 }, { 70, 0, 16 + 17 * 8 }, { 69, 0, 16 + 3 * 32 },
		{ 73, 0, 16 + 24 }, { 74, 0, 16 }, { 82, 0, 8 },
		{ 7, 0, 8 + 24 + 32 }, { 3, 0x2000, 8 + 8 + 8 + 32 },
		{ 10, 0x4002, 8 + 64 + 32 + 32 }, { 10, 2, 8 + 64 + 8 + 32 },
		{ 12, 0, 8 + 8 + 32 }, { 14, 0, 8 + 32 },
		{ 14, 0x2000, 8 + 32 }, { 11, 0, 8 + 24 + 32 },
		{ 4, 0, 8 + 24 + 32 }, { 71, 0, 48 }, { 68, 0, 8 },
	};
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), aux = 0, size;
	size_t i;

	ok(u32_at(f, at) == 80 && u64_at(f, at + 8) == AUX_FEAT_EVENT_DESC,
	   "the events are described at once, for who repairs the file");
	next_record(f, &at, end);
	for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
		if (!ok(u32_at(f, at) == want[i].type &&
			u32_at(f, at + 4) == (want[i].misc |
					      (uint32_t)want[i].size << 16),
			"record %zu: type %u, misc %#x, size %u", i,
			want[i].type, want[i].misc, want[i].size))
			return;
		if (want[i].type == 71) {
			aux = at;
			at += u64_at(f, at + 8);
		}
		at += want[i].size;
	}
	while (u32_at(f, at) == 65 || u32_at(f, at) == 80)
		next_record(f, &at, end);
	is_u64(at, end, "then code and features, to the end of the data");
	is_u64(u64_at(f, aux + 8), 48, "AUXTRACE: 41 bytes padded to 48");
	ok(!memcmp(f->data + aux + 48, pt, sizeof(pt)), "AUXTRACE: payload");
	ok(!memcmp(f->data + aux + 48 + 41, "\0\0\0\0\0\0\0", 7), "padding");
	at = feature(f, AUX_FEAT_AUXTRACE, &size);
	is_u64(size, 8 + 16, "AUXTRACE index: one entry");
	is_u64(u64_at(f, at), 1, "AUXTRACE index: count");
	is_u64(u64_at(f, at + 8), aux, "AUXTRACE index: file offset");
	is_u64(u64_at(f, at + 16), 48, "AUXTRACE index: the record's size");
}

static void check_trailer(const struct file *f)
{
	/* the FORK record is the eighth: its trailer follows 8 + 24 bytes */
	uint64_t at = u64_at(f, 40);

	next_record(f, &at, f->len);
	at += 56 + 152 + 112 + 40 + 16 + 8;
	is_u64(u64_at(f, at + 8), 77 | 1ULL << 32, "FORK: pid, ppid");
	is_u64(u64_at(f, at + 24), 5000, "FORK: time");
	is_u64(u64_at(f, at + 32), 77 | 77ULL << 32, "trailer: pid, tid");
	is_u64(u64_at(f, at + 40), 5000, "trailer: time");
	is_u64(u64_at(f, at + 48), 0, "trailer: cpu");
	is_u64(u64_at(f, at + 56), 21, "trailer: identifier");
}

static void check_features(const struct file *f)
{
	uint64_t at, size = 0, end;

	at = feature(f, AUX_FEAT_BUILD_ID, &size);
	is_u64(size, 36 + 64, "BUILD_ID: one file");
	is_u64(u64_at(f, at), 0x00648002ULL << 32, "BUILD_ID: misc and size");
	is_u64(u32_at(f, at + 8), UINT32_MAX, "BUILD_ID: the host");
	is_u64(u32_at(f, at + 12), 0xefbeadde, "BUILD_ID: id");
	is_u64(f->data[at + 32], 20, "BUILD_ID: size of id");
	ok(!strcmp((char *)f->data + at + 36, tiny), "BUILD_ID: path");
	at = feature(f, AUX_FEAT_HOSTNAME, &size);
	ok(size == 12 && !strcmp((char *)f->data + at + 4, "ahost"),
	   "the last bytes given for a feature win");
	at = feature(f, AUX_FEAT_EVENT_DESC, &size);
	is_u64(size, 8 + 2 * (ATTR_SIZE + 4 + 4 + 64) + 3 * 8, "EVENT_DESC");
	is_u64(u64_at(f, at), 2 | ATTR_SIZE << 32, "EVENT_DESC: counts");
	ok(!strcmp((char *)f->data + at + 16 + ATTR_SIZE, "intel_pt//u"),
	   "EVENT_DESC: name");
	at = feature(f, AUX_FEAT_SAMPLE_TIME, &size);
	ok(size == 16 && u64_at(f, at) == 5000 && u64_at(f, at + 8) == 20000,
	   "SAMPLE_TIME");
	end = at + size;
	ok(!feature(f, AUX_FEAT_AUXKIT_SOURCE, &size),
	   "no section that perf does not know");
	is_u64(end, f->len, "the last section ends with the file");
}

static void check_code(const struct file *f)
{
	uint64_t at = u64_at(f, 40), end = at + u64_at(f, 48), rec = at;
	uint64_t n = 0, n_bytes = 0, blobs[2] = { 0, 0 };
	bool right = true;

	for (; next_record(f, &at, end); rec = at) {
		uint64_t e = rec + 24, size = at - rec;

		if (u32_at(f, rec) != 65 || u64_at(f, rec + 8) != AUX_OWN_MAGIC ||
		    u32_at(f, rec + 16) != (AUX_OWN_CODE | 1 << 16))
			continue;
		right &= u64_at(f, e + 8) == n && u64_at(f, e + 16) == 16 &&
			 u64_at(f, e) == n * 7919 % 500 &&
			 u64_at(f, e + 32) == (77 | 2ULL << 32);
		if (n < 2) {
			blobs[n] = u64_at(f, e + 24);
			right &= f->data[e + 40] == (n ? 0x90 : 0xc3);
		}
		right &= u64_at(f, e + 24) == blobs[n & 1] &&
			 u32_at(f, rec + 20) == 40 + (n < 2 ? 16 : 0) &&
			 size == AUX_OWN_RECORD_MIN;
		n_bytes += u32_at(f, rec + 20) - 40;
		n++;
	}
	is_u64(n, 1000, "CODE: a record for each entry");
	is_u64(n_bytes, 32, "CODE: equal bytes are kept once");
	ok(right && blobs[0] != blobs[1], "CODE: the records name their bytes");
}

/* Said again it changes nothing, until something may have changed there. */
static void test_code(void)
{
	struct aux_code_entry e = { .addr = 0x1ff8, .len = 100000, .pid = 7,
				    .kind = AUX_CODE_ANON };
	uint8_t *bytes = malloc(e.len);
	struct synth_id id = { 7, 7, 5000, 0, 21 };
	struct synth_map map = { .addr = 0x1000, .len = 0x1000, .prot = 5,
				 .path = "x" };
	struct writer *w = start();
	uint64_t size;
	size_t i;

	writer_codes_new(w, 1, 2);
	for (i = 0; i < e.len; i++)
		bytes[i] = (uint8_t)(i * 7 >> 3);
	writer_code(w, &e, bytes);
	size = writer_size(w);
	ok(size > e.len && size < e.len + 5000, "code in two pieces");
	writer_code(w, &e, bytes);
	is_u64(writer_size(w), size, "the same again adds nothing");
	e.pid = 8;
	writer_code(w, &e, bytes);
	is_u64(writer_size(w), size += 2 * AUX_OWN_RECORD_MIN, "in another process: no bytes");
	e.addr += 0x20000;
	e.len = 16;
	writer_code(w, &e, bytes + 1);
	e.addr -= 0x20000;
	e.len = 100000;
	size = writer_size(w);
	writer_code(w, &e, bytes);
	is_u64(writer_size(w), size, "others beside it do not matter");
	e.addr += 50000;
	e.len = 16;
	writer_code(w, &e, bytes);
	e.addr -= 50000;
	e.len = 100000;
	size = writer_size(w);
	writer_code(w, &e, bytes);
	is_u64(writer_size(w), size + AUX_OWN_RECORD_MIN, "the piece written over comes again");
	e.pid = 7;
	synth_mmap2(w, &id, 7, 7, &map);
	size = writer_size(w);
	writer_code(w, &e, bytes);
	is_u64(writer_size(w), size + 2 * AUX_OWN_RECORD_MIN, "and all after a new mapping");
	ok(!writer_close(w, NULL), "code is written");
	free(bytes);
}

static void check_perf(void)
{
	int hits;

	if (!have_perf()) {
		skip("no perf here");
		return;
	}
	ok(!perf("script -D", "PERF_RECORD_AUXTRACE size: 0x30", &hits) &&
	   hits == 1, "perf script -D shows the AUXTRACE record");
	ok(!perf("script -D", "TIP.PGE 0x401000", &hits) && hits == 1,
	   "perf script -D shows the packets");
	ok(!perf("script -D", "<de", &hits), "perf script -D: no complaint");
	ok(!perf("report --stdio", "#", &hits), "perf report: no complaint");
	perf("report --header-only", "intel_pt//u", &hits);
	ok(hits == 1, "perf report --header-only names the event");
	ok(!perf("buildid-list", "deadbeef", &hits) && hits == 1,
	   "perf buildid-list shows the build id");
	ok(!perf("script --show-task-events --show-mmap-events", "tiny",
		 &hits) && hits > 2, "perf script shows the side-band");
	ok(!perf("script --itrace=i0ns -F tid,ip", "40100", &hits) && hits == 2,
	   "perf script decodes the two instructions");
}

static void test_small(void)
{
	struct file f;

	ok(!make_small(), "a small file is written");
	f = load();
	if (!ok(f.len > 1000, "and can be read back"))
		return;
	check_header(&f);
	check_records(&f);
	check_trailer(&f);
	check_features(&f);
	check_code(&f);
	check_perf();
	free(f.data);
}

static void test_old(void)
{
	struct stat st;
	struct aux_diag diag = { 0 };
	char old_path[80];
	struct writer *w;

	snprintf(old_path, sizeof(old_path), "%s.old", path);
	ok(!make_small() && !stat(old_path, &st) && st.st_size > 1000,
	   "an existing file is kept as .old");
	ok(writer_open(&w, "/nonexistent/x", NULL, &diag) == -AUX_E_IO && !w &&
	   strstr(diag.text, "/nonexistent/x"), "a bad path is an error");
	ok(!writer_open(&w, "/dev/null", NULL, &diag) && !writer_close(w, &diag),
	   "/dev/null will do");
	ok(!access("/dev/null", W_OK) && access("/dev/null.old", F_OK),
	   "and is left in its place");
}

static void test_misuse(void)
{
	struct perf_event_header bad = { .type = 3, .size = 12 };
	struct aux_rec_auxtrace a = { .size = 5 };
	struct iovec iov = { (void *)(uintptr_t)pt, 4 };
	struct perf_event_attr attr[N_ATTRS];
	struct aux_diag diag = { 0 };
	struct writer *w = start();
	struct file f;
	uint64_t aux;

	fill_attrs(attr);
	ok(writer_auxtrace(w, &a, &iov, 1) == -AUX_E_INVAL,
	   "AUX data of another size than declared are refused");
	ok(synth_finished_round(w) == -AUX_E_INVAL, "errors are sticky");
	ok(writer_close(w, &diag) == -AUX_E_INVAL && strstr(diag.text, "AUX"),
	   "and are told at close");
	w = start();
	put_info(w);
	ok(writer_record(w, &bad) == -AUX_E_INVAL, "a record of odd size");
	ok(writer_attr_add(w, attr, "x", NULL, 0) == -AUX_E_INVAL,
	   "an event after a record");
	writer_close(w, NULL);
	f = load();
	is_u64(count_records(&f, &aux), 7, "what came before is kept");
	free(f.data);
	ok(!writer_close(NULL, NULL), "close accepts NULL");
}

int main(void)
{
	int n_fds = count_fds();

	if (!make_dir())
		return 1;
	test_small();
	test_old();
	test_misuse();
	test_code();
	is_u64(count_fds(), n_fds, "no descriptor is left open");
	if (!remove_dir())
		return 1;
	return plan_done();
}
