/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * Records that auxkit adds: each kind, truncated at every length; compressed trace in intact,
 * damaged and truncated frames; and the file that a killed recorder leaves.
 */
#include <stdlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "decode/lib/trace/trace.h"
#include "tests/unit/mkperf.h"
#include "tests/unit/tap.h"

struct file {
	struct mk mk;
	struct aux_reader *r;
	struct aux_diag diag;
};

static bool file_open(struct file *f)
{
	f->diag = (struct aux_diag){ 0 };
	if (!f->mk.p || aux_reader_open_mem(&f->r, f->mk.p, f->mk.n, "made",
					    &f->diag) < 0) {
		ok(0, "opening: %s", f->diag.text);
		return false;
	}
	return true;
}

static void file_close(struct file *f)
{
	aux_reader_close(f->r);
	free(f->mk.p);
}

static int next(struct file *f, struct aux_event *ev)
{
	return aux_reader_next(f->r, ev, &f->diag);
}

static const char source[] = "source=kernel\nclock=hardware\n";

static void put_all(struct mk *m)
{
	static const struct aux_ledger_entry ledger[2] = {
		{ .idx = 3, .cause = AUX_LEDGER_SAVED, .bytes = 100, .n = 2 },
		{ .idx = 3, .cause = AUX_LEDGER_STALLED, .bytes = 0, .n = 1 },
	};
	static const char name[64] = "cycles";

	mk_own(m, AUX_OWN_SOURCE, source, sizeof(source) - 1, NULL, 0);
	mk_loss(m, 3, AUX_LEDGER_STALLED, 0x1234, 77);
	mk_snapshot(m, 5, "slow request");
	mk_code(m, 10, 20, 0x1000, 9, "\x90\xc3\x90", 3);
	mk_code(m, 10, 30, 0x2000, 9, NULL, 2);
	mk_own(m, AUX_OWN_LEDGER, ledger, sizeof(ledger), NULL, 0);
	mk_own(m, 99, "later", 5, NULL, 0);
	mk_own(m, AUX_OWN_LOSS, &(struct aux_own_loss){ .idx = 4 },
	       sizeof(struct aux_own_loss), "more of it", 10);
	/* perf's, of old */
	size_t at = mk_begin(m, AUX_RECORD_EVENT_TYPE, 0);
	mk_u64(m, 7);
	mk_put(m, name, sizeof(name));
	mk_end(m, at, NULL);
}

static void check_records(struct file *f)
{
	struct aux_event ev;

	ok(next(f, &ev) == 1 && ev.own.kind == AUX_OWN_SOURCE &&
	   ev.own.source.len == sizeof(source) - 1 &&
	   !memcmp(ev.own.source.data, source, sizeof(source) - 1), "SOURCE");
	ok(next(f, &ev) == 1 && ev.type == AUX_RECORD_EVENT_TYPE &&
	   ev.own.kind == AUX_OWN_LOSS && ev.own.version == 1 &&
	   ev.own.loss.idx == 3 && ev.own.loss.cause == AUX_LEDGER_STALLED &&
	   ev.own.loss.offset == 0x1234 && ev.own.loss.bytes == 77 &&
	   ev.own.loss.cpu == UINT32_MAX, "LOSS");
	ok(next(f, &ev) == 1 && ev.own.kind == AUX_OWN_SNAPSHOT &&
	   ev.own.snapshot.h.number == 5 && ev.own.snapshot.h.label_len == 12 &&
	   !memcmp(ev.own.snapshot.label, "slow request", 12), "SNAPSHOT");
	ok(next(f, &ev) == 1 && ev.own.kind == AUX_OWN_CODE &&
	   ev.own.code.h.len == 3 && ev.own.code.bytes &&
	   ev.own.code.bytes[1] == 0xc3 && ev.own.code.h.blob == 9, "CODE");
	ok(next(f, &ev) == 1 && ev.own.kind == AUX_OWN_CODE &&
	   !ev.own.code.bytes && ev.own.code.h.addr == 0x2000,
	   "CODE of an earlier record's bytes");
	ok(next(f, &ev) == 1 && ev.own.kind == AUX_OWN_LEDGER &&
	   ev.own.ledger.len == 80, "LEDGER");
	ok(next(f, &ev) == 1 && ev.own.kind == 99 && ev.own.payload.len == 5,
	   "an unknown kind");
	ok(next(f, &ev) == 1 && ev.own.loss.idx == 4, "a longer one");
	ok(next(f, &ev) == 1 && ev.type == AUX_RECORD_EVENT_TYPE &&
	   ev.own.kind == 0 && ev.raw.len == 80, "perf's own of this type");
	ok(next(f, &ev) == 0, "the end");
}

static void kinds(void)
{
	struct file f;

	mk_init(&f.mk, 0);
	put_all(&f.mk);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	is_str(aux_reader_source(f.r, "clock"), "hardware",
	       "the source, without a section");
	ok(aux_reader_info(f.r)->unfinished, "no section: unfinished");
	check_records(&f);
	aux_reader_rewind(f.r);
	check_records(&f);
	file_close(&f);

	mk_init(&f.mk, 0);
	put_all(&f.mk);
	mk_feature(&f.mk, AUX_FEAT_HOSTNAME, "\4\0\0\0abc", 8);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(!aux_reader_info(f.r)->unfinished, "with a section: finished");
	file_close(&f);

	mk_init(&f.mk, 0);
	mk_itrace(&f.mk, (struct mk_id){ 1, 1, 1, 1 });
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(!aux_reader_info(f.r)->unfinished,
	   "another's file without sections: finished");
	file_close(&f);
}

/* A killed recorder: what it knew of the machine is among its records. */
static void killed(void)
{
	struct aux_bytes b;
	struct file f;
	size_t at;

	mk_init(&f.mk, 0);
	at = mk_begin(&f.mk, AUX_RECORD_HEADER_FEATURE, 0);
	mk_u64(&f.mk, AUX_FEAT_HOSTNAME);
	mk_u32(&f.mk, 8);
	mk_put(&f.mk, "machine\0\0\0\0\0", 12);
	mk_end(&f.mk, at, NULL);
	mk_own(&f.mk, AUX_OWN_SOURCE, source, sizeof(source) - 1, NULL, 0);
	mk_itrace(&f.mk, (struct mk_id){ 1, 1, 1, 1 });
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	is_str(aux_reader_info(f.r)->hostname, "machine", "its host name");
	ok(aux_reader_feature(f.r, AUX_FEAT_HOSTNAME, &b, NULL) == 1 &&
	   aux_reader_info(f.r)->unfinished, "as a section, and unfinished");
	file_close(&f);

	mk_init(&f.mk, 0);
	mk_own(&f.mk, AUX_OWN_SOURCE, source, sizeof(source) - 1, NULL, 0);
	mk_auxtrace(&f.mk, 0, 0, 0, 0, "12345678", 8);
	mk_own(&f.mk, AUX_OWN_SOURCE, "clock=virtual\nmore=1\n", 21, NULL, 0);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	is_str(aux_reader_source(f.r, "clock"), "hardware",
	       "what it says first");
	for (int i = 0; i < 2; i++) {
		struct aux_event ev;

		while (next(&f, &ev) == 1)
			;
		is_str(aux_reader_source(f.r, "clock"), "virtual",
		       "what it says at last");
		aux_reader_rewind(f.r);
	}
	file_close(&f);

	/* data.size 0: as perf leaves it */
	mk_init(&f.mk, 0);
	mk_itrace(&f.mk, (struct mk_id){ 1, 1, 1, 1 });
	mk_finish(&f.mk);
	memset(f.mk.p + 48, 0, 8);
	if (!file_open(&f))
		return;
	ok(aux_reader_info(f.r)->unfinished, "no size: unfinished");
	file_close(&f);
}

/* Every length that a record names, wrong. */
static void bad_lengths(void)
{
	static const uint16_t kind[] = { AUX_OWN_LOSS, AUX_OWN_SNAPSHOT,
					 AUX_OWN_CODE };
	static const uint8_t zero[64];
	unsigned refused = 0, wanted = 0;
	struct aux_event ev;
	struct file f;

	for (unsigned i = 0; i < 3; i++)
		for (size_t len = 0; len < 48; len++) {
			size_t full = i == 0 ? 48 : i == 1 ? 24 : 40;

			mk_init(&f.mk, 0);
			mk_own(&f.mk, kind[i], zero, len, NULL, 0);
			mk_finish(&f.mk);
			if (!file_open(&f))
				return;
			wanted += len < full;
			refused += next(&f, &ev) == -AUX_E_FORMAT;
			file_close(&f);
		}
	is_u64(refused, wanted, "short structs are refused");
	mk_init(&f.mk, 0);
	mk_own(&f.mk, AUX_OWN_SNAPSHOT,
	       &(struct aux_own_snapshot){ .label_len = 9 }, 24, "12345678", 8);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(next(&f, &ev) == -AUX_E_FORMAT, "a label that is too long");
	file_close(&f);
	mk_init(&f.mk, 0);
	mk_own(&f.mk, AUX_OWN_CODE, &(struct aux_own_code){ .len = 9 }, 40,
	       "12345678", 8);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(next(&f, &ev) == -AUX_E_FORMAT, "code that is too long");
	file_close(&f);
	mk_init(&f.mk, 0);
	mk_own(&f.mk, 99, zero, 8, NULL, 0);
	memcpy(f.mk.p + f.mk.data_at + 20, &(uint32_t){ 9 }, 4);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(next(&f, &ev) == -AUX_E_FORMAT, "a payload that is too long");
	file_close(&f);
}

#ifdef HAVE_ZSTD
static uint8_t raw[300001], frame[400000];
static size_t n_frame;

static void make_frame(void)
{
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(raw); i++) {
		x = x * 1103515245 + 12345;
		raw[i] = i % 3 ? (uint8_t)(x >> 28) : 7;
	}
	n_frame = ZSTD_compress(frame, sizeof(frame), raw, sizeof(raw), 1);
}

static void zstd_whole(void)
{
	struct aux_event ev, again;
	struct file f;

	mk_init(&f.mk, 0);
	mk_auxtrace_zstd(&f.mk, 0, 0x40, frame, n_frame, sizeof(raw));
	mk_auxtrace_zstd(&f.mk, 1, 0, frame, n_frame, sizeof(raw));
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	ok(next(&f, &ev) == 1 && ev.type == AUX_RECORD_AUXTRACE &&
	   ev.auxtrace.h.offset == 0x40 && ev.auxtrace.h.size == sizeof(raw) &&
	   ev.auxtrace.zstd_size == n_frame && ev.auxtrace.exact &&
	   !ev.auxtrace.clipped, "comes as AUXTRACE");
	ok(ev.auxtrace.payload.len == sizeof(raw) &&
	   !memcmp(ev.auxtrace.payload.data, raw, sizeof(raw)), "the bytes");
	ok(next(&f, &again) == 1 && again.auxtrace.h.idx == 1 &&
	   !memcmp(again.auxtrace.payload.data, raw, sizeof(raw)), "another");
	ok(next(&f, &again) == 0, "the end");
	aux_reader_rewind(f.r);
	ok(next(&f, &again) == 1 &&
	   again.auxtrace.payload.data == ev.auxtrace.payload.data,
	   "unpacked once");
	file_close(&f);
}

/* The same in compressed records, one of which ends inside an own one. */
static void compressed(void)
{
	static uint8_t out[1 << 16];
	ZSTD_CStream *z = ZSTD_createCStream();
	struct file f, in;
	struct aux_event ev;
	size_t half;

	mk_init(&in.mk, 0);
	put_all(&in.mk);
	half = (in.mk.n - in.mk.data_at) / 2 | 1;
	mk_init(&f.mk, 0);
	for (int i = 0; z && i < 2; i++) {
		const uint8_t *p = in.mk.p + in.mk.data_at + (i ? half : 0);
		ZSTD_inBuffer from = { p, i ? (size_t)(in.mk.p + in.mk.n - p) :
					      half, 0 };
		ZSTD_outBuffer to = { out, sizeof(out), 0 };
		size_t at = mk_begin(&f.mk, AUX_RECORD_COMPRESSED, 0);

		ZSTD_compressStream2(z, &to, &from, ZSTD_e_flush);
		mk_put(&f.mk, out, to.pos);
		mk_end(&f.mk, at, NULL);
	}
	ZSTD_freeCStream(z);
	free(in.mk.p);
	mk_finish(&f.mk);
	if (!file_open(&f))
		return;
	is_str(aux_reader_source(f.r, "source"), "kernel",
	       "compressed: the source is known from open on");
	ok(aux_reader_info(f.r)->unfinished, "and that it is unfinished");
	for (int i = 0, n = 0; i < 2; i++) {
		for (n = 0; next(&f, &ev) == 1;)
			n += ev.type == AUX_RECORD_EVENT_TYPE;
		is_u64(n, 9, i ? "all records, again" : "all records");
		aux_reader_rewind(f.r);
	}
	file_close(&f);
}

/* What is given of a frame whose len bytes are there; the damage. */
static const char *try_frame(const void *p, size_t len, uint64_t n_raw,
			     uint64_t *have)
{
	const char *damage = "not read";
	struct aux_event ev;
	struct file f;

	mk_init(&f.mk, 0);
	mk_auxtrace_zstd(&f.mk, 0, 0, p, len, n_raw);
	mk_itrace(&f.mk, (struct mk_id){ 1, 1, 1, 1 });
	mk_finish(&f.mk);
	if (!file_open(&f))
		return damage;
	if (next(&f, &ev) == 1) {
		damage = ev.auxtrace.damage;
		*have = ev.auxtrace.payload.len;
		if (*have && memcmp(ev.auxtrace.payload.data, raw, *have) != 0)
			damage = "other bytes";
		if (damage && !ev.auxtrace.clipped)
			damage = "not marked";
		if (next(&f, &ev) != 1 || ev.type != PERF_RECORD_ITRACE_START)
			damage = "what follows is lost";
	}
	file_close(&f);
	return damage;
}

static void zstd_damaged(void)
{
	static uint8_t copy[sizeof(frame)];
	uint64_t have = 0;
	unsigned told = 0;

	ok(!try_frame(frame, n_frame, sizeof(raw), &have) &&
	   have == sizeof(raw), "whole");
	is_str(try_frame(frame, n_frame, sizeof(raw) + 1, &have),
	       "its frame holds another number of bytes", "more is promised");
	is_str(try_frame(frame, n_frame, UINT64_MAX, &have),
	       "its frame holds another number of bytes", "much more");
	is_str(try_frame("no frame", 8, 5, &have), "it is no zstd frame",
	       "no frame");
	is_str(try_frame(frame, 0, 5, &have), "it is no zstd frame", "nothing");
	ok(try_frame(frame, n_frame - 5000, sizeof(raw), &have) && have > 1000,
	   "cut: what is there comes");
	for (size_t at = 0; at < n_frame; at += n_frame / 37) {
		memcpy(copy, frame, n_frame);
		copy[at] ^= 0x55;
		try_frame(copy, n_frame, sizeof(raw), &have);
		told++;
	}
	ok(told >= 37, "a flipped byte anywhere: no crash");
}

static void zstd_cut_file(void)
{
	struct aux_event ev;
	struct file f;

	mk_init(&f.mk, 0);
	mk_auxtrace_zstd(&f.mk, 0, 0, frame, n_frame, sizeof(raw));
	mk_finish(&f.mk);
	f.mk.n -= n_frame / 2;
	if (!file_open(&f))
		return;
	ok(next(&f, &ev) == 1 && ev.auxtrace.clipped &&
	   ev.auxtrace.payload.len > 1000 &&
	   !memcmp(ev.auxtrace.payload.data, raw, ev.auxtrace.payload.len),
	   "a file cut in the frame gives its start");
	ok(next(&f, &ev) == -AUX_E_TRUNCATED, "and says that it is cut");
	file_close(&f);
}
#endif

static void read_losses(struct file *f, struct losses *l)
{
	struct chunks c;

	ok(chunks_read(&c, f->r, 0, 0, &f->diag) == 0 &&
	   losses_read(l, f->r, &c) == 0, "ledger");
	chunks_fini(&c);
}

/* The section, else the last record of its kind, else the sum of losses. */
static void ledgers(void)
{
	static const struct {
		struct aux_feat_ledger h;
		uint32_t v1[2][8];
	} old = { { 1, 2 }, { { 0, 0, 100 }, { 0, 1, 50 } } };
	static const struct {
		struct aux_feat_ledger h;
		struct aux_ledger_entry e;
	} now = { { 2, 1 }, { 0, AUX_LEDGER_UNREAD, 10, 1, 2, 3 } },
	  many = { { 2, 2 }, { 0 } };
	struct aux_ledger_entry rec = { 7, AUX_LEDGER_UNWRITTEN, 5, 0, 0, 1 };
	struct losses l;
	struct file f;

	for (int i = 0; i < 3; i++) {
		mk_init(&f.mk, 0);
		mk_own(&f.mk, AUX_OWN_LEDGER, &rec, sizeof(rec), NULL, 0);
		mk_feature(&f.mk, AUX_FEAT_AUXKIT_LEDGER,
			   i == 0 ? (const void *)&old :
			   i == 1 ? (const void *)&now : (const void *)&many,
			   i == 0 ? sizeof(old) : sizeof(now));
		mk_finish(&f.mk);
		if (!file_open(&f))
			return;
		read_losses(&f, &l);
		if (i == 0)
			ok(l.n == 2 && l.e[1].bytes == 50 && !l.e[1].n &&
			   l.origin == LOSSES_SECTION, "version 1");
		else if (i == 1)
			ok(l.n == 1 && l.e[0].n == 3 && l.e[0].last_ns == 2,
			   "version 2");
		else
			ok(l.bad && !l.n, "more entries than there are");
		losses_fini(&l);
		file_close(&f);
	}
	for (int i = 0; i < 2; i++) {
		mk_init(&f.mk, 0);
		mk_loss(&f.mk, 2, AUX_LEDGER_TRUNCATED, 10, 5);
		mk_loss(&f.mk, 1, AUX_LEDGER_STALLED, 10, 0);
		mk_loss(&f.mk, 2, AUX_LEDGER_TRUNCATED, 20, 6);
		if (i) {
			rec.bytes++;
			mk_own(&f.mk, AUX_OWN_LEDGER, &rec, sizeof(rec), NULL,
			       0);
			rec.bytes++;
			mk_own(&f.mk, AUX_OWN_LEDGER, &rec, sizeof(rec), NULL,
			       0);
		}
		mk_finish(&f.mk);
		if (!file_open(&f))
			return;
		read_losses(&f, &l);
		if (i)
			ok(l.n == 1 && l.e[0].bytes == 7 && l.e[0].idx == 7 &&
			   l.origin == LOSSES_RECORD, "the last record");
		else
			ok(l.n == 2 && l.e[0].idx == 1 && l.e[0].n == 1 &&
			   l.e[1].bytes == 11 && l.e[1].n == 2 &&
			   l.origin == LOSSES_SUMMED, "the sum of losses");
		losses_fini(&l);
		file_close(&f);
	}
}

int main(void)
{
	kinds();
	killed();
	bad_lengths();
#ifdef HAVE_ZSTD
	make_frame();
	compressed();
	zstd_whole();
	zstd_damaged();
	zstd_cut_file();
#endif
	ledgers();
	return plan_done();
}
