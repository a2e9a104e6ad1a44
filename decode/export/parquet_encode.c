/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * parquet_encode: see parquet_file.h. Most columns of a trace have one value, or few; so
 * whether all are equal is known first, with the least and the greatest, and a dictionary
 * is given up as soon as it is too large, for that and some more groups.
 *
 * Format: github.com/apache/parquet-format, Encodings.md.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <aux/error.h>

#include "decode/export/parquet_encode.h"
#include "decode/export/parquet_file.h"

#define SLOTS 65536		/* a power of two; numbers in a dictionary: a quarter */
#define MAX_NUMBERS (SLOTS / 4)
#define MAX_RANGE_TEXT 256	/* bytes of a least or greatest text; longer ones are left out */
#define DEAR_GROUPS 15
#define BLOCK 128		/* numbers in a block of DELTA_BINARY_PACKED */
#define MINI 32			/* of them in a miniblock */

struct parquet_encoder {
	uint32_t slots[SLOTS];		/* index + 1 in dictionary; 0: free */
	uint64_t dictionary[PARQUET_ROWS];
	uint64_t index[PARQUET_ROWS + 8];	/* of each value; zeros at the end */
	struct export_ids ids;		/* of text: index + 1 */
};

struct parquet_encoder *parquet_encoder_new(void)
{
	return calloc(1, sizeof(struct parquet_encoder));
}

void parquet_encoder_free(struct parquet_encoder *e)
{
	if (e)
		export_ids_fini(&e->ids);
	free(e);
}

/* ---- bits ---- */

static unsigned bits_of(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)v | 0x80;
	*p++ = (uint8_t)v;
	return p;
}

static uint8_t *put_zigzag(uint8_t *p, uint64_t v)
{
	return put_varint(p, v << 1 ^ (uint64_t)-(v >> 63));
}

/* n, a multiple of 8, numbers of width bits each, the lowest bits first. Up to 7 bytes
 * more are written. */
static uint8_t *pack(uint8_t *p, const uint64_t *v, size_t n, unsigned width)
{
	uint64_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n && width; i++) {
		uint64_t word;

		bits |= v[i] << have;
		have += width;
		if (have < 64)
			continue;
		word = htole64(bits);
		memcpy(p, &word, sizeof(word));
		p += sizeof(word);
		have -= 64;
		bits = have ? v[i] >> (width - have) : 0;
	}
	bits = htole64(bits);
	memcpy(p, &bits, sizeof(bits));
	return p + have / 8;
}

/* ---- runs: RLE and bit-packed groups of 8 ---- */

static size_t equal_from(const uint64_t *v, size_t i, size_t n)
{
	size_t k = i + 1;

	while (k < n && v[k] == v[i])
		k++;
	return k - i;
}

/* As many groups of 8 as there are before 16 equal values; the last one may be padded. */
static size_t packed_from(const uint64_t *v, size_t i, size_t n)
{
	size_t k = i;

	while (k < n && equal_from(v, k, k + 16 < n ? k + 16 : n) < 16)
		k += 8;
	return k - i;
}

static int put_run(struct outbuf *out, uint64_t v, size_t n, unsigned width)
{
	uint8_t *p = (uint8_t *)outbuf_room(out, 32);

	if (!p)
		return -AUX_E_NOMEM;
	p = put_varint(p, (uint64_t)n << 1);
	for (unsigned b = 0; b < width; b += 8)
		*p++ = (uint8_t)(v >> b);
	out->p = (char *)p;
	return 0;
}

/* v has 8 zeros after its n values. */
static int put_runs(struct outbuf *out, const uint64_t *v, size_t n, unsigned width)
{
	size_t i = 0;

	while (i < n) {
		size_t m = equal_from(v, i, n);
		uint8_t *p;

		if (m >= 16 || m == n - i) {
			if (put_run(out, v[i], m, width))
				return -AUX_E_NOMEM;
			i += m;
			continue;
		}
		m = packed_from(v, i, n);
		p = (uint8_t *)outbuf_room(out, m * width / 8 + 32);
		if (!p)
			return -AUX_E_NOMEM;
		p = put_varint(p, (uint64_t)m / 8 << 1 | 1);
		out->p = (char *)pack(p, v + i, m, width);
		i += m;
	}
	return 0;
}

/* Which rows are there: runs of one bit, with their length before them. */
static int put_levels(struct outbuf *out, const struct parquet_column *c, size_t n_rows)
{
	size_t n = (n_rows + 7) / 8;
	uint8_t *p = (uint8_t *)outbuf_room(out, n + 32), *begin = p;
	uint32_t len;

	if (!p)
		return -AUX_E_NOMEM;
	p += sizeof(len);
	if (!c->n || c->n == n_rows) {
		p = put_varint(p, (uint64_t)n_rows << 1);
		*p++ = c->n != 0;
	} else {
		p = put_varint(p, (uint64_t)n << 1 | 1);
		memcpy(p, c->present, n);
		p += n;
	}
	len = htole32((uint32_t)(p - begin - (ptrdiff_t)sizeof(len)));
	memcpy(begin, &len, sizeof(len));
	out->p = (char *)p;
	return 0;
}

/* ---- numbers ---- */

static void find_range(const struct parquet_column *c, struct parquet_chunk *k)
{
	int64_t least = (int64_t)c->values[0], greatest = least;

	for (size_t i = 1; i < c->n; i++) {
		int64_t v = (int64_t)c->values[i];

		least = v < least ? v : least;
		greatest = v > greatest ? v : greatest;
	}
	k->range[0] = (uint64_t)least;
	k->range[1] = (uint64_t)greatest;
	k->least = (struct parquet_bytes){ &k->range[0], sizeof(k->range[0]) };
	k->greatest = (struct parquet_bytes){ &k->range[1], sizeof(k->range[1]) };
	k->has_range = true;
}

/* Small ranges have a slot for each value. */
static inline uint32_t first_slot(uint64_t v, uint64_t least, bool direct)
{
	return direct ? (uint32_t)(v - least)
		      : (uint32_t)(v * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

/* The number of entries; 0: there are too many. */
static uint32_t find_numbers(struct parquet_encoder *e, const struct parquet_column *c,
			     const struct parquet_chunk *k)
{
	uint64_t least = k->range[0], range = k->range[1] - least;
	bool direct = range < SLOTS;
	size_t most = c->n / 4 + 1 < MAX_NUMBERS ? c->n / 4 + 1 : MAX_NUMBERS;
	uint32_t n = 0;

	memset(e->slots, 0, (direct ? range + 1 : SLOTS) * sizeof(e->slots[0]));
	for (size_t i = 0; i < c->n; i++) {
		uint64_t v = c->values[i];
		uint32_t at = first_slot(v, least, direct);

		while (e->slots[at] && e->dictionary[e->slots[at] - 1] != v)
			at = (at + 1) & (SLOTS - 1);
		if (!e->slots[at]) {
			if (n == most)
				return 0;
			e->dictionary[n++] = v;
			e->slots[at] = n;
		}
		e->index[i] = e->slots[at] - 1;
	}
	return n;
}

static int put_plain(struct outbuf *out, const uint64_t *v, size_t n)
{
	char *p = outbuf_room(out, n * sizeof(*v));

	if (!p)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		uint64_t le = htole64(v[i]);

		memcpy(p + i * sizeof(le), &le, sizeof(le));
	}
	out->p = p + n * sizeof(*v);
	return 0;
}

/* The differences to the number before, of a block: to the least of them, in as few bits
 * as each miniblock takes. */
static uint8_t *put_block(uint8_t *p, const uint64_t *v, size_t n)
{
	uint64_t d[BLOCK];
	int64_t least = INT64_MAX;
	uint8_t *widths;

	for (size_t i = 0; i < n; i++) {
		d[i] = v[i] - v[i - 1];
		least = (int64_t)d[i] < least ? (int64_t)d[i] : least;
	}
	for (size_t i = 0; i < BLOCK; i++)
		d[i] = i < n ? d[i] - (uint64_t)least : 0;
	widths = p = put_zigzag(p, (uint64_t)least);
	p += BLOCK / MINI;
	for (size_t m = 0; m < BLOCK / MINI; m++) {
		uint64_t all = 0;

		for (size_t i = 0; i < MINI; i++)
			all |= d[m * MINI + i];
		widths[m] = (uint8_t)bits_of(all);
		if (m * MINI < n)
			p = pack(p, d + m * MINI, MINI, widths[m]);
	}
	return p;
}

static int put_deltas(struct outbuf *out, const uint64_t *v, size_t n)
{
	uint8_t *p = (uint8_t *)outbuf_room(out, 64);

	if (!p)
		return -AUX_E_NOMEM;
	p = put_varint(p, BLOCK);
	p = put_varint(p, BLOCK / MINI);
	p = put_varint(p, n);
	out->p = (char *)put_zigzag(p, v[0]);
	for (size_t i = 1; i < n; i += BLOCK) {
		p = (uint8_t *)outbuf_room(out, BLOCK * sizeof(*v) + 64);
		if (!p)
			return -AUX_E_NOMEM;
		out->p = (char *)put_block(p, v + i, n - i < BLOCK ? n - i : BLOCK);
	}
	return 0;
}

/* Readers add differences up in 64 bits or in more, so none may overflow. */
static int encode_deltas(const struct parquet_column *c, struct parquet_chunk *k)
{
	size_t start = (size_t)(k->data->p - k->data->buf);
	int err = 0;

	k->encoding = PARQUET_DELTA;
	if (k->range[1] - k->range[0] < UINT64_C(1) << 62) {
		err = put_deltas(k->data, c->values, c->n);
		if (err || (size_t)(k->data->p - k->data->buf) - start <
			   c->n * sizeof(*c->values))
			return err;
	}
	k->data->p = k->data->buf + start;
	k->encoding = PARQUET_PLAIN;
	return put_plain(k->data, c->values, c->n);
}

/* ---- text ---- */

static bool is_before(const struct export_name *a, const struct export_name *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int order = memcmp(a->text, b->text, n);

	return order ? order < 0 : a->len < b->len;
}

static const struct export_name *name_at(uint64_t v)
{
	return (const struct export_name *)(uintptr_t)v;
}

/* The dictionary; 0, or -AUX_E_NOMEM. */
static int find_names(struct parquet_encoder *e, const struct parquet_column *c,
		      struct parquet_chunk *k)
{
	const struct export_name *least = name_at(c->values[0]), *greatest = least;
	uint32_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct export_name *v = name_at(c->values[i]);
		uint32_t *at = export_ids_at(&e->ids, v->id);

		if (!at)
			return -AUX_E_NOMEM;
		if (!*at) {
			e->dictionary[n++] = c->values[i];
			*at = n;
			least = is_before(v, least) ? v : least;
			greatest = is_before(greatest, v) ? v : greatest;
		}
		e->index[i] = *at - 1;
	}
	for (uint32_t i = 0; i < n; i++)
		*export_ids_at(&e->ids, name_at(e->dictionary[i])->id) = 0;
	k->n_dictionary = n;
	k->has_range = least->len <= MAX_RANGE_TEXT && greatest->len <= MAX_RANGE_TEXT;
	k->least = (struct parquet_bytes){ least->text, least->len };
	k->greatest = (struct parquet_bytes){ greatest->text, greatest->len };
	return 0;
}

static int put_names(struct outbuf *out, const uint64_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct export_name *name = name_at(v[i]);
		uint32_t len = htole32(name->len);

		outbuf_put(out, (const char *)&len, sizeof(len));
		outbuf_put(out, name->text, name->len);
	}
	return outbuf_failed(out) ? -AUX_E_NOMEM : 0;
}

/* ---- the whole ---- */

static int encode_indexes(struct parquet_encoder *e, const struct parquet_column *c,
			  struct parquet_chunk *k)
{
	unsigned width = bits_of(k->n_dictionary - 1);
	char w = (char)width;
	int err = c->text ? put_names(k->dictionary, e->dictionary, k->n_dictionary)
			  : put_plain(k->dictionary, e->dictionary, k->n_dictionary);

	if (err)
		return err;
	k->encoding = PARQUET_DICTIONARY;
	outbuf_put(k->data, &w, 1);
	if (!width)
		return put_run(k->data, 0, c->n, 0);
	memset(e->index + c->n, 0, 8 * sizeof(e->index[0]));
	return put_runs(k->data, e->index, c->n, width);
}

static int encode_numbers(struct parquet_encoder *e, struct parquet_column *c,
			  struct parquet_chunk *k)
{
	find_range(c, k);
	if (k->range[0] == k->range[1]) {
		e->dictionary[0] = k->range[0];
		k->n_dictionary = 1;
	} else if (!c->dear) {
		k->n_dictionary = find_numbers(e, c, k);
		c->dear = k->n_dictionary ? 0 : DEAR_GROUPS;
	} else {
		c->dear--;
	}
	return k->n_dictionary ? encode_indexes(e, c, k) : encode_deltas(c, k);
}

int parquet_encode(struct parquet_encoder *e, struct parquet_column *c, size_t n_rows,
		   struct parquet_chunk *k)
{
	int err = 0;

	k->dictionary->p = k->dictionary->buf;
	k->data->p = k->data->buf;
	k->encoding = PARQUET_PLAIN;
	k->n_dictionary = 0;
	k->has_range = false;
	if (c->optional)
		err = put_levels(k->data, c, n_rows);
	if (err || !c->n)
		return err;
	if (!c->text)
		return encode_numbers(e, c, k);
	err = find_names(e, c, k);
	return err ? err : encode_indexes(e, c, k);
}
