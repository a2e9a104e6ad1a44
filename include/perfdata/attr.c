/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attrs of a perf.data file: any size, either byte order; and from an event id
 * to its attr.
 *
 * Invariant: the stride of the attrs is the header's attr_size, the size of one
 * is its own size field. A foreign-endian attr's bitfield word is not swapped:
 * its bits are reversed within each byte (that is how compilers lay them out).
 */
#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#include "perfdata/impl.h"

#define ATTR_MIN_SIZE 64	/* PERF_ATTR_SIZE_VER0 */
#define ATTR_MAX_SIZE 4096	/* the kernel's limit too */
#define IDS_SECTION 16

/* Widths of perf_event_attr's fields in order; the word of bitfields is 0. What
 * a later kernel adds after them keeps its byte order: it has no meaning here.
 * table */
static const uint8_t attr_fields[] = {
	4, 4, 8, 8, 8, 8, 0, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8,
};

static void reverse_bits(uint8_t *p, size_t n)
{
	while (n--) {
		uint8_t v = *p;

		v = (uint8_t)((v & 0xf0) >> 4 | (v & 0x0f) << 4);
		v = (uint8_t)((v & 0xcc) >> 2 | (v & 0x33) << 2);
		v = (uint8_t)((v & 0xaa) >> 1 | (v & 0x55) << 1);
		*p++ = v;
	}
}

static void swap_field(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		uint8_t v = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = v;
	}
}

void attr_swap(uint8_t *p, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < sizeof(attr_fields); i++) {
		size_t width = attr_fields[i] ? attr_fields[i] : 8;

		if (at + width > n)
			return;
		if (attr_fields[i])
			swap_field(p + at, width);
		else
			reverse_bits(p + at, width);
		at += width;
	}
}

/*
 * Copies what this build knows of the attr; the rest is zero, or left out. Size
 * 0 is what the first kernels wrote (PERF_ATTR_SIZE_VER0). Returns the size in
 * the file, or -AUX_E_FORMAT.
 */
static int attr_parse(const struct aux_reader *r, const uint8_t *p,
		      size_t avail, struct aux_attr *attr)
{
	struct cursor c = reader_cursor(r, p, avail);
	uint8_t image[sizeof(attr->attr)] = { 0 };
	size_t size, n;

	cursor_u32(&c);
	size = cursor_u32(&c);
	if (c.bad)
		return -AUX_E_FORMAT;
	if (!size)
		size = ATTR_MIN_SIZE;
	if (size < ATTR_MIN_SIZE || size > ATTR_MAX_SIZE || size % 8 ||
	    size > avail)
		return -AUX_E_FORMAT;
	n = size < sizeof(image) ? size : sizeof(image);
	memcpy(image, p, n);
	if (r->info.swapped)
		attr_swap(image, n);
	memcpy(&attr->attr, image, sizeof(image));
	attr->file_size = (uint32_t)size;
	return (int)size;
}

static unsigned count_bits(uint64_t v)
{
	return (unsigned)__builtin_popcountll(v);
}

#define TRAILER_FIELDS                                                         \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |                 \
	 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

/*
 * Where records of this event hold its id, counted in words: in a SAMPLE from
 * the start, in other records from the end. False: they do not hold it.
 * IDENTIFIER (Linux 3.12) was added for this: it is first or last, whatever
 * else is there.
 */
static bool find_id_pos(const struct perf_event_attr *a, unsigned *id_pos,
			unsigned *trailer_pos)
{
	uint64_t t = a->sample_type;

	if (t & PERF_SAMPLE_IDENTIFIER) {
		*id_pos = 0;
		*trailer_pos = 1;
		return true;
	}
	*id_pos = count_bits(t & (PERF_SAMPLE_IP | PERF_SAMPLE_TID |
				  PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR));
	*trailer_pos = 1 + count_bits(t & (PERF_SAMPLE_STREAM_ID |
					   PERF_SAMPLE_CPU));
	return t & PERF_SAMPLE_ID;
}

static bool same_trailer(const struct perf_event_attr *a,
			 const struct perf_event_attr *b)
{
	return a->sample_id_all == b->sample_id_all &&
	       !((a->sample_type ^ b->sample_type) & TRAILER_FIELDS);
}

static bool same_sample(const struct perf_event_attr *a,
			const struct perf_event_attr *b)
{
	return a->sample_type == b->sample_type &&
	       a->read_format == b->read_format &&
	       a->branch_sample_type == b->branch_sample_type &&
	       a->sample_regs_user == b->sample_regs_user &&
	       a->sample_regs_intr == b->sample_regs_intr;
}

/* Keeps what all attrs so far agree on; the first one sets it. */
static void merge_layout(struct attr_table *t, const struct aux_attr *attr)
{
	struct attr_layout *l = &t->layout;
	unsigned id_pos, trailer_pos;
	bool has_id = find_id_pos(&attr->attr, &id_pos, &trailer_pos);

	if (!t->n) {
		*l = (struct attr_layout){ true, true, has_id, id_pos,
					   trailer_pos };
		return;
	}
	l->same_trailer &= same_trailer(&t->v[0]->attr, &attr->attr);
	l->same_sample &= same_sample(&t->v[0]->attr, &attr->attr);
	l->has_id &= has_id && id_pos == l->id_pos &&
		     trailer_pos == l->trailer_pos;
}

static int add_ids(struct attr_table *t, const struct aux_attr *attr,
		   size_t index)
{
	for (uint32_t i = 0; i < attr->n_ids; i++) {
		if (array_grow(&t->ids, t->n_ids, &t->cap_ids,
			       sizeof(*t->ids)))
			return -AUX_E_NOMEM;
		t->ids[t->n_ids++] = (struct attr_id){ attr->ids[i], index };
	}
	t->sorted = false;
	return 0;
}

static int add_attr(struct attr_table *t, struct aux_attr *attr)
{
	if (array_grow(&t->v, t->n, &t->cap, sizeof(*t->v)))
		return -AUX_E_NOMEM;
	merge_layout(t, attr);
	t->v[t->n] = attr;
	return add_ids(t, attr, t->n++);
}

static int compare_ids(const void *a, const void *b)
{
	const struct attr_id *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->attr < y->attr ? -1 : x->attr > y->attr;
}

void attr_table_sort(struct attr_table *t)
{
	if (!t->sorted && t->n_ids)
		qsort(t->ids, t->n_ids, sizeof(*t->ids), compare_ids);
	t->sorted = true;
}

/* Should two events claim one id, the first of the file has it. */
struct aux_attr *attr_table_find(const struct attr_table *t, uint64_t id)
{
	size_t lo = 0, hi = t->n_ids;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (t->ids[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == t->n_ids || t->ids[lo].id != id)
		return NULL;
	return t->v[t->ids[lo].attr];
}

/* The ids, copied to host order. */
static int set_ids(struct aux_reader *r, struct aux_attr *attr,
		   const uint8_t *p, size_t n)
{
	struct cursor c = reader_cursor(r, p, n * 8);
	uint64_t *ids;

	if (!n)
		return 0;
	ids = arena_alloc(&r->arena, n * 8);
	if (!ids)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		ids[i] = cursor_u64(&c);
	attr->ids = ids;
	attr->n_ids = (uint32_t)n;
	return 0;
}

static bool read_section(const struct aux_reader *r, const uint8_t *p,
			 struct aux_file_section *s)
{
	struct cursor c = reader_cursor(r, p, IDS_SECTION);

	s->offset = cursor_u64(&c);
	s->size = cursor_u64(&c);
	return s->size % 8 == 0 && s->size / 8 <= UINT32_MAX &&
	       (!s->size || reader_has(r, s->offset, s->size));
}

/*
 * The ids section is the end of the entry. perf itself looks after attr.size,
 * which is the same place unless a tool changed one and not the other.
 */
static int load_one(struct aux_reader *r, uint64_t at, uint64_t stride,
		    uint64_t *id_bytes, struct aux_diag *diag)
{
	const uint8_t *p = r->file.data + at;
	struct aux_attr *attr = arena_alloc(&r->arena, sizeof(*attr));
	struct aux_file_section s;
	int size;

	if (!attr)
		return -AUX_E_NOMEM;
	size = attr_parse(r, p, stride - IDS_SECTION, attr);
	if (size < 0)
		return diag_set(diag, AUX_E_FORMAT, at,
				"an event attr has a size that does not fit "
				"its entry of %llu bytes",
				(unsigned long long)stride);
	if (!read_section(r, p + stride - IDS_SECTION, &s) &&
	    !read_section(r, p + size, &s))
		return diag_set(diag, AUX_E_TRUNCATED, at,
				"the ids of an event are not in the file");
	/* a few bytes of header must not make us copy the file many times */
	*id_bytes += s.size;
	if (*id_bytes > r->file.len)
		return diag_set(diag, AUX_E_FORMAT, at,
				"the events' id sections overlap");
	if (s.size && set_ids(r, attr, r->file.data + s.offset, s.size / 8))
		return -AUX_E_NOMEM;
	return add_attr(&r->attrs, attr);
}

int attr_table_load(struct aux_reader *r, uint64_t offset, uint64_t size,
		    uint64_t stride, struct aux_diag *diag)
{
	uint64_t id_bytes = 0;
	int ret;

	if (!size)
		return 0;
	if (stride < ATTR_MIN_SIZE + IDS_SECTION ||
	    stride > ATTR_MAX_SIZE + IDS_SECTION || size % stride)
		return diag_set(diag, AUX_E_FORMAT, 16,
				"attr_size %llu does not fit attrs of %llu "
				"bytes", (unsigned long long)stride,
				(unsigned long long)size);
	if (!reader_has(r, offset, size))
		return diag_set(diag, AUX_E_TRUNCATED, 24,
				"the file ends before its event attrs (at "
				"%#llx)", (unsigned long long)offset);
	for (uint64_t at = offset; at < offset + size; at += stride) {
		ret = load_one(r, at, stride, &id_bytes, diag);
		if (ret == -AUX_E_NOMEM)
			return diag_set(diag, AUX_E_NOMEM, at, "out of memory");
		if (ret)
			return ret;
	}
	return 0;
}

/* HEADER_ATTR of pipe mode: the attr, then ids to the end of the record. */
static int record_attr(struct aux_reader *r, const struct aux_event *ev)
{
	struct aux_attr *attr = arena_alloc(&r->arena, sizeof(*attr));
	size_t left = ev->raw.len - 8;
	int size;

	if (!attr)
		return -AUX_E_NOMEM;
	size = attr_parse(r, ev->raw.data + 8, left, attr);
	if (size < 0)
		return size;
	left -= (size_t)size;
	if (set_ids(r, attr, ev->raw.data + 8 + size, left / 8))
		return -AUX_E_NOMEM;
	return add_attr(&r->attrs, attr);
}

int attr_table_record(struct aux_reader *r, const struct aux_event *ev,
		      struct aux_diag *diag)
{
	int ret = record_attr(r, ev);

	if (ret == -AUX_E_FORMAT)
		return diag_set(diag, AUX_E_FORMAT, ev->offset,
				"an event attr does not fit its record");
	if (ret)
		return diag_set(diag, -ret, ev->offset, "out of memory");
	return 0;
}

/* EVENT_UPDATE: u64 type (2: name), u64 id, then the value. */
void attr_table_update(struct aux_reader *r, const struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, ev->raw.data + 8, ev->raw.len - 8);
	uint64_t type = cursor_u64(&c), id = cursor_u64(&c);
	const char *name = cursor_string(&c, cursor_left(&c));
	struct aux_attr *attr = attr_table_find(&r->attrs, id);

	if (!c.bad && type == 2 && attr)
		attr->name = name;
}

void attr_table_fini(struct attr_table *t)
{
	free(t->v);
	free(t->ids);
}
