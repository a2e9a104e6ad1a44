/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * text: lines and prefixes of all lengths are written unchanged, with the prefix apart or in
 * the text; a full store drops all of its entries at once.
 */
#include <stdlib.h>

#include "decode/sink/text.h"
#include "tests/unit/tap.h"

static char letters[4096];

static void make_letters(void)
{
	for (size_t i = 0; i < sizeof(letters); i++)
		letters[i] = (char)('a' + i * 7 % 26);
}

/* n lines of so many bytes, more or less. Returns what is wrong. */
static int compare(size_t lead_len, size_t n, size_t len)
{
	struct text_maker m = { 0 };
	struct outbuf *want = outbuf_new(-1), *got = outbuf_new(-1);
	struct text_whole *whole;
	struct text *t;
	char *lead = calloc(1, lead_len + TEXT_PAD);
	size_t size, half = n / 2, bytes = 0;
	int bad = 0;

	text_maker_init(&m);
	memcpy(lead, letters + 13, lead_len);
	for (size_t i = 0; i < n; i++) {
		size_t this = 1 + (len + i * 5) % (len + 1);

		outbuf_put(m.lines, letters + i % 100, this);
		bad |= text_maker_end_line(&m);
		outbuf_put(want, lead, lead_len);
		outbuf_put(want, letters + i % 100, this);
		if (i + 1 == half)
			bytes = (size_t)(want->p - want->buf);
	}
	t = text_maker_write(&m, malloc(text_maker_size(&m)));
	whole = text_maker_write_whole(
		&m, malloc(text_maker_size_whole(&m, lead_len)), lead,
		lead_len);
	text_put(got, lead, lead_len, t, t->n);
	size = (size_t)(want->p - want->buf);
	bad |= got->p - got->buf != (ptrdiff_t)size ||
	       memcmp(got->buf, want->buf, size);
	bad |= whole->size != size || memcmp(whole->lines, want->buf, size);
	got->p = got->buf;
	text_put(got, lead, lead_len, t, (uint32_t)half);
	bad |= got->p - got->buf != (ptrdiff_t)bytes ||
	       memcmp(got->buf, want->buf, bytes);
	free(t);
	free(whole);
	free(lead);
	text_maker_fini(&m);
	outbuf_free(want);
	outbuf_free(got);
	return bad;
}

static void lengths(void)
{
	int bad = 0;

	for (size_t lead = 0; lead < 60; lead++)
		for (size_t len = 1; len < 130; len += 3)
			bad |= compare(lead, 1 + (lead + len) % 9, len);
	ok(!bad, "leads and lines of all lengths");
	ok(!compare(5, 20000, 20), "many lines");
	ok(!compare(5, 3, 3000) && !compare(300, 700, 800), "long ones");
	ok(!compare(4, 0, 1), "none");
}

static void stores(void)
{
	struct text_store s;
	uint64_t a[3] = { 0 }, b[3];
	void *at;

	text_store_init(&s, 256);
	ok(!text_store_find(&s, a), "nothing is kept at first");
	at = text_store_get(&s, 100);
	a[0] = s.epoch;
	a[1] = (uintptr_t)at;
	ok(at && text_store_find(&s, a) == at, "kept and found");
	b[1] = (uintptr_t)text_store_get(&s, 100);
	b[0] = s.epoch;
	ok(text_store_find(&s, a) && text_store_find(&s, b), "both");
	ok(!text_store_has_room(&s, 100) && text_store_get(&s, 100) == at,
	   "full: from the start again");
	ok(!text_store_find(&s, a) && !text_store_find(&s, b),
	   "and all is forgotten");
	ok(!text_store_get(&s, 300), "never more than there is");
	text_store_fini(&s);
}

int main(void)
{
	make_letters();
	lengths();
	stores();
	return plan_done();
}
