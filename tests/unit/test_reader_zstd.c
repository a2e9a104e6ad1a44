/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * The reader on compressed records: COMPRESSED and COMPRESSED2, in pieces of any size, with
 * the overflow of perf 6.16, and truncated.
 */
#include <stdbool.h>
#include <stdlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include <aux/reader.h>

#include "tests/unit/readerfile.h"
#include "tests/unit/tap.h"

#ifdef HAVE_ZSTD

static void put_compressed(struct buf *b, uint32_t type, const uint8_t *p,
			   size_t n)
{
	size_t at = begin(b, type, 0);

	if (type == AUX_RECORD_COMPRESSED2)
		u64(b, n);
	put(b, p, n);
	if (type == AUX_RECORD_COMPRESSED2)
		zeros(b, -n & 7);
	end(b, at);
}

/* As perf 6.16 does when its 16 bits overflow: total in the first, no pad. */
static void put_overflown(struct buf *b, const uint8_t *p, size_t n)
{
	size_t at = begin(b, AUX_RECORD_COMPRESSED2, 0), start = b->n;
	size_t first = n > 65519 ? 65519 : n, sub;

	u64(b, 0);
	put(b, p, first);
	if (n > first) {
		sub = begin(b, AUX_RECORD_COMPRESSED2, 0);
		u64(b, 0xdeadbeef);
		put(b, p + first, n - first);
		end(b, sub);
	}
	patch(b, start, b->n - at - 16, 8);
	patch(b, at + 6, (b->n - at + 7) & ~7UL, 2);
}

/* n records whose bytes do not compress well. */
static void many_records(struct buf *b, unsigned n)
{
	uint64_t s = 88172645463325252;

	b->n = 0;
	b->swap = false;
	for (unsigned i = 0; i < n; i++) {
		size_t at = begin(b, PERF_RECORD_AUX, 0);

		for (int k = 0; k < 3; k++) {
			s ^= s << 13;
			s ^= s >> 7;
			s ^= s << 17;
			u64(b, k ? s : i);
		}
		trailer(b, i, i + 1, 0, 77);
		end(b, at);
	}
}

/* Reads all; returns how many AUX records came in order, ~0 on an error. */
static unsigned count_in_order(struct aux_reader *r, const void **last)
{
	struct aux_diag diag;
	struct aux_event e;
	unsigned n = 0;
	int ret;

	while ((ret = aux_reader_next(r, &e, &diag)) == 1) {
		if (e.type != PERF_RECORD_AUX)
			continue;
		if (e.aux.offset != n || e.id.time != n + 1)
			return ~0U;
		*last = e.raw.data;
		n++;
	}
	if (ret)
		printf("# %s\n", diag.text);
	return ret ? ~0U : n;
}

static void test_compressed(struct buf *b, uint32_t type, size_t step,
			    bool overflow)
{
	static struct buf in;
	static uint8_t z[1 << 18];
	const unsigned want = overflow ? 3500 : 400;
	const void *first = NULL, *second = NULL;
	struct aux_reader *r;
	size_t n, at;
	void *p;

	many_records(&in, want);
	n = ZSTD_compress(z, sizeof(z), in.p, in.n, 1);
	b->n = 0;
	b->swap = false;
	u64(b, AUX_PERF_MAGIC2);
	u64(b, 16);
	at = begin(b, AUX_RECORD_HEADER_ATTR, 0);
	attr(b, 128, TYPE);
	u64(b, 77);
	end(b, at);
	for (size_t k = 0; k < n && !overflow; k += step)
		put_compressed(b, type, z + k, n - k < step ? n - k : step);
	if (overflow && step)
		put_overflown(b, z, n);
	else if (overflow) {
		put_overflown(b, z, 65519);
		put_compressed(b, type, z + 65519, n - 65519);
	}
	p = copy_of(b, b->n);
	if (!ok(!aux_reader_open_mem(&r, p, b->n, "x", NULL), "opens"))
		return;
	is_u64(count_in_order(r, &first), want,
	       overflow ? "records of an overflown COMPRESSED2" :
	       type == AUX_RECORD_COMPRESSED ? "records of COMPRESSED" :
					       "records of COMPRESSED2");
	aux_reader_rewind(r);
	ok(count_in_order(r, &second) == want && first == second,
	   "a second pass gives the same pointers");
	aux_reader_close(r);
	free(p);
	/* Cut: an error or (between records) the end, equal on every pass. */
	for (size_t cut = 200; cut < b->n; cut += 1 + b->n / 64) {
		struct aux_event e;
		int ret1, ret2;

		p = copy_of(b, cut);
		if (aux_reader_open_mem(&r, p, cut, "x", NULL))
			continue;
		while ((ret1 = aux_reader_next(r, &e, NULL)) == 1)
			;
		aux_reader_rewind(r);
		while ((ret2 = aux_reader_next(r, &e, NULL)) == 1)
			;
		if (ret1 != ret2)
			ok(false, "cut at %zu: %d, then %d", cut, ret1, ret2);
		aux_reader_close(r);
		free(p);
	}
}

static void test_zstd(struct buf *b)
{
	test_compressed(b, AUX_RECORD_COMPRESSED, 1001, false);
	test_compressed(b, AUX_RECORD_COMPRESSED, 7, false);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 1001, false);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 1, true);
	test_compressed(b, AUX_RECORD_COMPRESSED2, 0, true);
}
#else
static void test_zstd(struct buf *b)
{
	(void)b;
	skip("built without libzstd");
}
#endif

int main(void)
{
	static struct buf b;

	test_zstd(&b);
	return plan_done();
}
