/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Feature sections: what a perf.data file says of its machine and its events.
 *
 * File mode: a table of {offset, size} after the data, one entry per set bit in
 * order of the bits. Pipe mode: HEADER_FEATURE records. A section whose
 * contents do not parse leaves its fields of aux_file_info at NULL.
 *
 * Specification: tools/perf/util/header.c of Linux (write_* and process_*).
 */
#include <string.h>

#include "perfdata/impl.h"

static bool is_set(const uint64_t bits[4], unsigned bit)
{
	return bits[bit / 64] >> (bit % 64) & 1;
}

/* The table is where the header lets the data end, even when the file is cut
 * before that: then its sections are there in name only (FEATURE_CUT). */
void features_locate(struct aux_reader *r, const uint64_t bits[4])
{
	uint64_t at = r->info.data_offset + r->info.data_size + r->first.cut;
	struct feature *f;
	struct cursor c;

	for (unsigned bit = 0; bit < AUX_FEAT_BITS; bit++) {
		if (!is_set(bits, bit))
			continue;
		f = &r->features[bit];
		f->state = FEATURE_CUT;
		f->offset = at;
		if (!reader_has(r, at, 16))
			continue;
		c = reader_cursor(r, r->file.data + at, 16);
		f->offset = cursor_u64(&c);
		f->size = cursor_u64(&c);
		if (reader_has(r, f->offset, f->size))
			f->state = FEATURE_OK;
		at += 16;
	}
}

/* HEADER_FEATURE: u64 bit, then what the section would hold. */
void features_record(struct aux_reader *r, const struct aux_event *ev)
{
	struct cursor c = reader_cursor(r, ev->raw.data, ev->raw.len);
	uint64_t bit;

	cursor_u64(&c);
	bit = cursor_u64(&c);
	if (c.bad || bit >= AUX_FEAT_BITS)
		return;
	r->features[bit] = (struct feature){
		FEATURE_OK, ev->offset + 16, cursor_left(&c),
	};
}

int aux_reader_feature(const struct aux_reader *r, unsigned bit,
		       struct aux_bytes *out, struct aux_diag *diag)
{
	const struct feature *f;

	*out = (struct aux_bytes){ 0 };
	if (bit >= AUX_FEAT_BITS)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"feature bits go from 0 to %d",
				AUX_FEAT_BITS - 1);
	f = &r->features[bit];
	if (f->state == FEATURE_NONE)
		return 0;
	if (f->state == FEATURE_CUT)
		return diag_set(diag, AUX_E_TRUNCATED, f->offset,
				"the file ends before its feature section %u",
				bit);
	out->data = r->file.data + f->offset;
	out->len = f->size;
	return 1;
}

/* Over no bytes when there is no such section: all reads then give 0 and
 * bad. */
static struct cursor open_section(const struct aux_reader *r, unsigned bit)
{
	struct aux_bytes b;

	aux_reader_feature(r, bit, &b, NULL);
	return reader_cursor(r, b.data ? b.data : r->file.data, b.len);
}

/* u32 length, then that many bytes, NUL terminated and padded. */
static const char *read_string(struct cursor *c)
{
	uint32_t len = cursor_u32(c);

	return cursor_string(c, len);
}

static const char *load_string(const struct aux_reader *r, unsigned bit)
{
	struct cursor c = open_section(r, bit);

	return read_string(&c);
}

static void load_nrcpus(struct aux_reader *r)
{
	struct cursor c = open_section(r, AUX_FEAT_NRCPUS);
	uint32_t avail = cursor_u32(&c), online = cursor_u32(&c);

	if (c.bad)
		return;
	r->info.n_cpus_avail = avail;
	r->info.n_cpus_online = online;
}

/* u32 count, then strings: joined with spaces. */
static int load_cmdline(struct aux_reader *r)
{
	struct cursor c = open_section(r, AUX_FEAT_CMDLINE);
	uint32_t n = cursor_u32(&c);
	char *line, *p;
	size_t len;

	if (c.bad)
		return 0;
	/* The words lie in the section, so its size holds them all. */
	p = line = arena_alloc(&r->arena, cursor_left(&c) + 1);
	if (!line)
		return -AUX_E_NOMEM;
	while (n--) {
		const char *word = read_string(&c);

		if (!word)
			return 0;
		len = strlen(word);
		if (p != line)
			*p++ = ' ';
		memcpy(p, word, len);
		p += len;
	}
	r->info.cmdline = line;
	return 0;
}

/*
 * One event: attr, u32 count of ids, name, ids. False at the end or damage. The
 * attr is found by its first id, one without ids by its place. A name that an
 * EVENT_UPDATE has given stays.
 */
static bool load_event_name(struct aux_reader *r, struct cursor *c,
			    uint32_t attr_size, size_t index)
{
	struct aux_attr *attr = NULL;
	uint32_t n_ids;
	const char *name;

	cursor_bytes(c, attr_size);
	n_ids = cursor_u32(c);
	name = read_string(c);
	if (c->bad || n_ids > cursor_left(c) / 8)
		return false;
	if (n_ids) {
		attr = attr_table_find(&r->attrs, cursor_u64(c));
		cursor_bytes(c, (size_t)(n_ids - 1) * 8);
	}
	if (!attr && index < r->attrs.n)
		attr = r->attrs.v[index];
	if (attr && !attr->name)
		attr->name = name;
	return true;
}

static void load_event_desc(struct aux_reader *r)
{
	struct cursor c = open_section(r, AUX_FEAT_EVENT_DESC);
	uint32_t n = cursor_u32(&c), attr_size = cursor_u32(&c);

	for (size_t i = 0; i < n && !c.bad; i++)
		if (!load_event_name(r, &c, attr_size, i))
			return;
}

/* A copy of the text with its lines ended by NUL. */
int reader_keep_source(struct aux_reader *r, const void *text, size_t len)
{
	char *copy = arena_string(&r->arena, text, len);

	if (!copy)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < len; i++)
		if (copy[i] == '\n')
			copy[i] = '\0';
	r->source = copy;
	r->source_len = len;
	return 0;
}

static int load_source(struct aux_reader *r)
{
	struct cursor c = open_section(r, AUX_FEAT_AUXKIT_SOURCE);
	uint32_t version = cursor_u32(&c), len = cursor_u32(&c);
	const uint8_t *text = cursor_bytes(&c, len);

	if (!text || version != 1)
		return 0;
	r->source_offset = UINT64_MAX;
	return reader_keep_source(r, text, len);
}

const char *aux_reader_source(const struct aux_reader *r, const char *key)
{
	size_t key_len = strlen(key);
	const char *p = r->source, *end = p ? p + r->source_len : NULL;

	while (p && p < end) {
		if (!strncmp(p, key, key_len) && p[key_len] == '=')
			return p + key_len + 1;
		p += strlen(p) + 1;
	}
	return NULL;
}

int features_load(struct aux_reader *r)
{
	int ret;

	r->info.hostname = load_string(r, AUX_FEAT_HOSTNAME);
	r->info.os_release = load_string(r, AUX_FEAT_OSRELEASE);
	r->info.version = load_string(r, AUX_FEAT_VERSION);
	r->info.arch = load_string(r, AUX_FEAT_ARCH);
	r->info.cpu_desc = load_string(r, AUX_FEAT_CPUDESC);
	r->info.cpuid = load_string(r, AUX_FEAT_CPUID);
	load_nrcpus(r);
	load_event_desc(r);
	ret = load_cmdline(r);
	return ret ? ret : load_source(r);
}
