/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeline: code bytes in the recording itself: what the recorder saved (the
 * section AUXKIT_CODE, and records AUX_OWN_CODE), and the machine code of BPF
 * programs.
 *
 * Saved code applies after the records of its own time, since it lies over
 * their mappings. A blob number stands for the bytes of the first record that
 * has them; later records refer to it.
 *
 * A decoder that wants a file and an offset (libipt's image) gets saved bytes
 * from one file that codeview makes of them: mapping.saved_offset counts in
 * that file, where the blobs of AUXKIT_CODE come first.
 *
 * Specification: <aux/extension.h>; for BPF, AUX_FEAT_BPF_PROG_INFO in
 * <aux/perfdata.h> and struct bpf_prog_info in <linux/bpf.h>.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "decode/lib/sideband/impl.h"

/* Pieces up to this size share one place with equal ones: code that is patched
 * again and again (static keys, ftrace) alternates between a few forms. */
#define SHARED_MAX 64

static uint64_t hash_bytes(const uint8_t *p, uint64_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) + n;

	while (n--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h;
}

/* Only the first of several pieces with one hash is found again; others get
 * places of their own. */
int timeline_save(struct timeline *tl, const uint8_t *bytes, uint64_t len,
		  uint64_t *offset)
{
	struct saved_code *s;

	if (len <= SHARED_MAX) {
		int64_t i = idmap_add(&tl->saved.by_hash, hash_bytes(bytes, len),
				      (uint32_t)tl->saved.n);

		if (i < 0)
			return -AUX_E_NOMEM;
		s = (size_t)i < tl->saved.n ? &tl->saved.v[i] : NULL;
		if (s && s->len == len && !memcmp(s->bytes, bytes, len)) {
			*offset = s->offset;
			return 0;
		}
	}
	if (array_grow_within(&tl->memory, &tl->saved.v, tl->saved.n, &tl->saved.cap,
		       sizeof(*tl->saved.v)) < 0)
		return -AUX_E_NOMEM;
	*offset = tl->saved.end;
	tl->saved.v[tl->saved.n++] = (struct saved_code){ bytes, len, *offset };
	tl->saved.end += len;
	return 0;
}

/*
 * One op that maps saved bytes. bytes NULL: a range whose code changed unseen.
 */
static int add_code(struct build *b, const struct aux_code_entry *e,
		    const uint8_t *bytes)
{
	struct mapping *m = map_arena_alloc(&b->arena, sizeof(*m));
	struct op *op = timeline_add_op(b, OP_MMAP, e->time_ns);

	if (!m || !op)
		return -AUX_E_NOMEM;
	m->start = e->addr;
	m->end = e->addr + e->len;
	m->time = e->time_ns;
	m->path = e->kind == AUX_CODE_VDSO ? "[vdso]" :
		  bytes ? "[anon]" : "[changed code]";
	m->saved = bytes;
	m->saved_offset = e->blob_offset;
	op->order |= ORDER_CODE;
	op->flags = e->pid == UINT32_MAX ? OP_KERNEL : 0;
	op->pid = e->pid;
	op->tid = e->pid;
	op->map = m;
	return 0;
}

/* One entry of AUXKIT_CODE. */
static int add_entry(struct build *b, struct cursor *c, const uint8_t *blobs,
		     uint64_t blob_size)
{
	struct aux_code_entry e;

	e.time_ns = cursor_u64(c);
	e.addr = cursor_u64(c);
	e.len = cursor_u64(c);
	e.blob_offset = cursor_u64(c);
	e.pid = cursor_u32(c);
	e.kind = cursor_u32(c);
	if (e.len && e.blob_offset <= blob_size &&
	    e.len <= blob_size - e.blob_offset && e.addr + e.len >= e.addr)
		return add_code(b, &e, blobs + e.blob_offset);
	b->tl->stats.n_bad_code++;
	return 0;
}

/* The section AUX_FEAT_AUXKIT_CODE. *end: where offsets of other saved code may
 * start. */
static int add_section(struct build *b, struct aux_reader *r, uint64_t *end)
{
	struct aux_bytes s;
	struct cursor c;
	uint32_t version, n;
	uint64_t blob_size, head;

	*end = 0;
	if (aux_reader_feature(r, AUX_FEAT_AUXKIT_CODE, &s, NULL) <= 0)
		return 0;
	*end = s.len;
	c = cursor_init(s.data, s.len, b->swapped);
	version = cursor_u32(&c);
	n = cursor_u32(&c);
	blob_size = cursor_u64(&c);
	head = sizeof(struct aux_feat_code) +
	       (uint64_t)n * sizeof(struct aux_code_entry);
	if (c.bad || version != 1 || head > s.len || blob_size > s.len - head) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	for (uint32_t i = 0; i < n; i++)
		if (add_entry(b, &c, s.data + head, blob_size) < 0)
			return -AUX_E_NOMEM;
	return 0;
}

int timeline_keep_code(struct build *b, const struct aux_event *ev)
{
	if (ev->own.kind != AUX_OWN_CODE)
		return 0;
	if (array_grow_within(&b->tl->memory, &b->codes, b->n_codes, &b->cap_codes,
		       sizeof(*b->codes)) < 0)
		return -AUX_E_NOMEM;
	b->codes[b->n_codes++] = (struct own_code){ ev->own.code.h,
						    ev->own.code.bytes };
	return 0;
}

/* A blob number and the record that has its bytes. */
struct blob {
	uint64_t number;
	size_t code, saved;
};

static int by_number(const void *a, const void *b)
{
	const struct blob *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->code < y->code ? -1 : x->code > y->code;
}

/* The first record that has the bytes of a blob, if it does not come after the
 * record that refers to it. v ends with a sentinel. */
static const struct blob *find_blob(const struct blob *v, size_t n,
				    uint64_t number, size_t code)
{
	size_t lo = 0;

	while (n) {
		size_t half = n / 2;

		if (v[lo + half].number < number) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	v += lo;
	return v->number == number && v->code <= code ? v : NULL;
}

/* Assigns offsets to the bytes of all records. v has room for one more element,
 * the sentinel. */
static int collect_blobs(struct build *b, struct blob *v)
{
	struct timeline *tl = b->tl;
	size_t n = 0;

	for (size_t i = 0; i < b->n_codes; i++) {
		const struct own_code *c = &b->codes[i];

		if (!c->bytes)
			continue;
		if (array_grow_within(&tl->memory, &tl->saved.v, tl->saved.n, &tl->saved.cap,
			       sizeof(*tl->saved.v)) < 0)
			return -AUX_E_NOMEM;
		v[n++] = (struct blob){ c->h.blob, i, tl->saved.n };
		tl->saved.v[tl->saved.n++] = (struct saved_code){
			c->bytes, c->h.len, tl->saved.end,
		};
		tl->saved.end += c->h.len;
	}
	qsort(v, n, sizeof(*v), by_number);
	v[n] = (struct blob){ UINT64_MAX, SIZE_MAX, 0 };
	return 0;
}

static int add_own(struct build *b, const struct blob *v, size_t code)
{
	const struct aux_own_code *h = &b->codes[code].h;
	const struct blob *blob = find_blob(v, b->tl->saved.n, h->blob, code);
	const struct saved_code *s = blob ? &b->tl->saved.v[blob->saved] : NULL;
	struct aux_code_entry e = { .time_ns = h->time_ns, .addr = h->addr,
				    .len = h->len, .pid = h->pid,
				    .kind = h->kind };

	if (h->kind == AUX_CODE_UNKNOWN && h->len && h->addr + h->len >= h->addr)
		return add_code(b, &e, NULL);
	if (!s || !h->len || h->len > s->len || h->addr + h->len < h->addr) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	e.blob_offset = s->offset;
	return add_code(b, &e, s->bytes);
}

int timeline_add_code(struct build *b, struct aux_reader *r)
{
	struct blob *v;
	size_t size;
	int rc = add_section(b, r, &b->tl->saved.end);

	if (rc < 0 || !b->n_codes)
		return rc;
	size = (b->n_codes + 1) * sizeof(*v);
	if (array_take(&b->tl->memory, size) < 0)
		return -AUX_E_NOMEM;
	v = calloc(1, size);
	rc = v ? collect_blobs(b, v) : -AUX_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < b->n_codes; i++)
		rc = add_own(b, v, i);
	free(v);
	array_give(&b->tl->memory, size);
	return rc;
}

/*
 * ---- BPF programs ----
 *
 * A program has several functions: their code lies in one piece, their
 * addresses and lengths in two arrays. A KSYMBOL says when a function was at
 * its address, and has the function's tag in its name. A function that no
 * KSYMBOL names existed all the time.
 */

/* Offsets in struct bpf_prog_info. The struct grows from kernel to kernel, so
 * this one may be shorter or longer than <linux/bpf.h> of the build. */
enum {
	INFO_TAG = 8,
	INFO_JITED_LEN = 16,
	INFO_JITED_INSNS = 24,
	INFO_N_KSYMS = 104,
	INFO_KSYMS = 112,
	INFO_MIN = 128,
	INFO_N_TAGS = 180,	/* later kernels */
	INFO_TAGS = 184,
	INFO_END = 192,
};

#define MAX_SAME_ADDR 64	/* programs looked at for one address */

/* One program of the section. */
struct prog {
	struct aux_bytes data;
	uint8_t tag[8];
	uint32_t jited_len, n_ksyms, n_lens, n_tags;
	uint64_t jited_at, ksyms_at, lens_at, tags_at;	/* in data */
};

/* A cursor on the bytes from an offset on. */
static struct cursor at(const uint8_t *p, size_t n, size_t offset, bool swapped)
{
	return cursor_init(p + offset, n - offset, swapped);
}

/* False: it has no code, or its sizes cannot be right. */
static bool parse_info(struct prog *p, const uint8_t *info, size_t len,
		       uint64_t arrays, bool swapped)
{
	const uint64_t need = 1 << AUX_BPF_JITED_INSNS |
			      1 << AUX_BPF_JITED_KSYMS |
			      1 << AUX_BPF_JITED_FUNC_LENS;
	struct cursor c;

	if (len < INFO_MIN || (arrays & need) != need)
		return false;
	memcpy(p->tag, info + INFO_TAG, sizeof(p->tag));
	c = at(info, len, INFO_JITED_LEN, swapped);
	p->jited_len = cursor_u32(&c);
	c = at(info, len, INFO_JITED_INSNS, swapped);
	p->jited_at = cursor_u64(&c);
	c = at(info, len, INFO_N_KSYMS, swapped);
	p->n_ksyms = cursor_u32(&c);
	p->n_lens = cursor_u32(&c);
	p->ksyms_at = cursor_u64(&c);
	p->lens_at = cursor_u64(&c);
	if (len < INFO_END || !(arrays >> AUX_BPF_PROG_TAGS & 1))
		return true;
	c = at(info, len, INFO_N_TAGS, swapped);
	p->n_tags = cursor_u32(&c);
	p->tags_at = cursor_u64(&c);
	return true;
}

/* Whether n elements of size bytes lie in the data at an offset. */
static bool has_array(const struct prog *p, uint64_t offset, uint64_t n,
		      size_t size)
{
	return offset <= p->data.len && n <= (p->data.len - offset) / size;
}

/* A function's tag: its own, or that of a program with one function. */
static const uint8_t *find_tag(const struct prog *p, uint32_t i)
{
	if (p->n_tags == p->n_ksyms && has_array(p, p->tags_at, p->n_tags, 8))
		return p->data.data + p->tags_at + 8 * (size_t)i;
	return p->n_ksyms == 1 ? p->tag : NULL;
}

static int add_function(struct timeline *tl, const uint8_t *tag, uint64_t addr,
			const uint8_t *bytes, uint64_t len)
{
	struct bpf_code *f;

	if (!len || addr + len < addr)
		return 0;
	if (array_grow_within(&tl->memory, &tl->bpf.v, tl->bpf.n, &tl->bpf.cap,
		       sizeof(*tl->bpf.v)) < 0)
		return -AUX_E_NOMEM;
	f = &tl->bpf.v[tl->bpf.n++];
	*f = (struct bpf_code){ .addr = addr, .len = len, .bytes = bytes,
				.tag = tag };
	return 0;
}

static int add_functions(struct build *b, const struct prog *p)
{
	struct cursor ksyms, lens;
	uint64_t left = p->jited_len;
	const uint8_t *code;

	if (p->n_ksyms != p->n_lens ||
	    !has_array(p, p->jited_at, p->jited_len, 1) ||
	    !has_array(p, p->ksyms_at, p->n_ksyms, 8) ||
	    !has_array(p, p->lens_at, p->n_lens, 4)) {
		b->tl->stats.n_bad_code++;
		return 0;
	}
	code = p->data.data + p->jited_at;
	ksyms = at(p->data.data, p->data.len, p->ksyms_at, b->swapped);
	lens = at(p->data.data, p->data.len, p->lens_at, b->swapped);
	for (uint32_t i = 0; i < p->n_ksyms; i++) {
		uint64_t addr = cursor_u64(&ksyms), len = cursor_u32(&lens);

		if (len > left) {
			b->tl->stats.n_bad_code++;
			return 0;
		}
		if (add_function(b->tl, find_tag(p, i), addr, code, len) < 0)
			return -AUX_E_NOMEM;
		code += len;
		left -= len;
	}
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct bpf_code *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void put_tag(char text[17], const uint8_t *tag)
{
	for (int i = 0; i < 8; i++)
		snprintf(text + 2 * i, 3, "%02x", tag[i]);
}

/*
 * True if a name "bpf_prog_TAG" (with or without a suffix) has another
 * program's tag: two programs may have been at one address, one after the
 * other.
 */
static bool names_another(const char *name, const struct bpf_code *f)
{
	char tag[17];

	if (!f->tag || strncmp(name, "bpf_prog_", 9) ||
	    strspn(name + 9, "0123456789abcdef") < 16)
		return false;
	put_tag(tag, f->tag);
	return strncmp(name + 9, tag, 16);
}

struct bpf_code *timeline_find_bpf(const struct timeline *tl,
				   const struct mapping *m)
{
	size_t lo = 0, n = tl->bpf.n;

	while (n) {
		size_t half = n / 2;

		if (tl->bpf.v[lo + half].addr < m->start) {
			lo += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	n = lo + MAX_SAME_ADDR < tl->bpf.n ? lo + MAX_SAME_ADDR : tl->bpf.n;
	for (; lo < n && tl->bpf.v[lo].addr == m->start; lo++)
		if (!names_another(m->path, &tl->bpf.v[lo]))
			return &tl->bpf.v[lo];
	return NULL;
}

/* Reads the section into a table sorted by address. */
static int load_section(struct build *b, struct aux_reader *r)
{
	struct timeline *tl = b->tl;
	struct aux_bytes s;
	struct cursor c;
	uint32_t n;

	if (aux_reader_feature(r, AUX_FEAT_BPF_PROG_INFO, &s, NULL) <= 0)
		return 0;
	c = cursor_init(s.data, s.len, b->swapped);
	n = cursor_u32(&c);
	while (n-- && cursor_left(&c)) {
		uint32_t info_len = cursor_u32(&c), len = cursor_u32(&c);
		uint64_t arrays = cursor_u64(&c);
		const uint8_t *info = cursor_bytes(&c, info_len);
		struct prog p = { .data = { cursor_bytes(&c, len), len } };

		if (!info || !p.data.data) {
			tl->stats.n_bad_code++;
			break;
		}
		if (parse_info(&p, info, info_len, arrays, b->swapped) &&
		    add_functions(b, &p) < 0)
			return -AUX_E_NOMEM;
	}
	if (tl->bpf.n)
		qsort(tl->bpf.v, tl->bpf.n, sizeof(*tl->bpf.v), by_addr);
	return 0;
}

/* Adds an op as a KSYMBOL from before the trace would. */
static int name_function(struct build *b, const struct bpf_code *f)
{
	struct op *op = timeline_add_op(b, OP_KSYMBOL, 0);
	struct mapping *m = map_arena_alloc(&b->arena, sizeof(*m));
	char *name = map_arena_alloc(&b->tl->arena, 32);

	if (!op || !m || !name)
		return -AUX_E_NOMEM;
	memcpy(name, "bpf_prog", 9);
	if (f->tag) {
		name[8] = '_';
		put_tag(name + 9, f->tag);
	}
	*m = (struct mapping){ .start = f->addr, .end = f->addr + f->len,
			       .path = name, .kind = MAPPING_KSYMBOL };
	op->map = m;
	return 0;
}

int timeline_load_bpf(struct build *b, struct aux_reader *r)
{
	int rc = load_section(b, r);

	for (size_t i = 0; rc == 0 && b->tl->bpf.n && i < b->n; i++) {
		const struct op *op = &b->ops[i];
		struct bpf_code *f =
			op->kind == OP_KSYMBOL && !(op->flags & OP_REMOVE) ?
				timeline_find_bpf(b->tl, op->map) : NULL;

		if (f)
			f->used = true;
	}
	for (size_t i = 0; rc == 0 && i < b->tl->bpf.n; i++)
		if (!b->tl->bpf.v[i].used)
			rc = name_function(b, &b->tl->bpf.v[i]);
	return rc;
}
