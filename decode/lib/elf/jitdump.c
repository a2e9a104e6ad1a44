/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jitdump: see jitdump.h. Records for others (source lines, unwinding) are
 * checked for their size and skipped.
 *
 * The file is appended to while the program runs, and may end anywhere: the
 * records before the first one that does not fit are used.
 */
#include <stdlib.h>

#include "common/bytes.h"
#include "common/diag.h"

#include "decode/lib/elf/jitdump.h"

#define MAGIC	       0x4a695444u	/* "JiTD" */
#define MIN_HEADER     40
#define PREFIX	       16	/* of a record: id, total size, time */
#define FLAG_ARCH      1	/* times are the CPU's counter */

enum record {
	CODE_LOAD = 0,
	CODE_MOVE = 1,
	CODE_DEBUG_INFO = 2,
	CODE_CLOSE = 3,
	CODE_UNWINDING_INFO = 4,
};

struct jitdump {
	const uint8_t *data;
	struct jitdump_info info;
	struct jitdump_code *codes;
	size_t n, cap;
	uint32_t *slots;	/* hash by index: position in codes + 1; 0: free.
				 * Of equal indexes the last counts */
	size_t n_slots;		/* power of two */
};

/* The slot of an index, or the free one where it belongs. */
static size_t find_slot(const struct jitdump *j, uint64_t index)
{
	uint64_t h = index * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(h >> 32) & (j->n_slots - 1);

	while (j->slots[i] && j->codes[j->slots[i] - 1].index != index)
		i = (i + 1) & (j->n_slots - 1);
	return i;
}

/* Doubles codes and slots together; half of the slots stay free. */
static int grow(struct jitdump *j)
{
	size_t cap = j->cap ? 2 * j->cap : 256;
	struct jitdump_code *p;

	if (cap > UINT32_MAX / 2)
		return -AUX_E_NOMEM;
	p = reallocarray(j->codes, cap, sizeof(*p));
	if (!p)
		return -AUX_E_NOMEM;
	j->codes = p;
	j->cap = cap;
	free(j->slots);
	j->n_slots = 2 * cap;
	j->slots = calloc(j->n_slots, sizeof(*j->slots));
	if (!j->slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < j->n; i++)
		j->slots[find_slot(j, j->codes[i].index)] = (uint32_t)i + 1;
	return 0;
}

/* Empty code, or code that wraps around, is counted and skipped. */
static int add_code(struct jitdump *j, const struct jitdump_code *code)
{
	if (!code->size || code->addr + code->size < code->addr) {
		j->info.n_skipped++;
		return 0;
	}
	if (j->n == j->cap && grow(j) < 0)
		return -AUX_E_NOMEM;
	j->codes[j->n] = *code;
	j->slots[find_slot(j, code->index)] = (uint32_t)++j->n;
	return 0;
}

/*
 * JIT_CODE_LOAD: pid, tid, vma, code_addr, code_size, code_index, name, code.
 */
static int parse_load(struct jitdump *j, struct cursor *c, uint64_t time)
{
	struct jitdump_code code = { .time = time };
	size_t len;

	cursor_u64(c); /* pid, tid */
	cursor_u64(c); /* vma; code_addr is where it runs */
	code.addr = cursor_u64(c);
	code.size = cursor_u64(c);
	code.index = cursor_u64(c);
	if (c->bad || code.size > cursor_left(c))
		return -AUX_E_FORMAT;
	len = cursor_left(c) - code.size;
	code.name = cursor_string(c, strnlen((const char *)c->p, len) + 1);
	if (c->bad || cursor_left(c) < code.size)
		return -AUX_E_FORMAT;
	/* Some writers pad the record after the code. */
	code.bytes = c->p;
	code.offset = (uint64_t)(c->p - j->data);
	return add_code(j, &code);
}

/* JIT_CODE_MOVE: the same bytes at another address from now on. */
static int parse_move(struct jitdump *j, struct cursor *c, uint64_t time)
{
	struct jitdump_code code;
	uint64_t addr, size, index;
	size_t slot;

	cursor_u64(c);
	cursor_u64(c);
	cursor_u64(c); /* old address */
	addr = cursor_u64(c);
	size = cursor_u64(c);
	index = cursor_u64(c);
	if (c->bad)
		return -AUX_E_FORMAT;
	slot = j->n_slots ? find_slot(j, index) : 0;
	if (!j->n_slots || !j->slots[slot] ||
	    size > j->codes[j->slots[slot] - 1].size) {
		j->info.n_skipped++;
		return 0;
	}
	code = j->codes[j->slots[slot] - 1];
	code.time = time;
	code.addr = addr;
	code.size = size;
	return add_code(j, &code);
}

/* Checks the lists of records that are not used. False: they do not fit. */
static bool skip_rest(struct cursor *c, uint32_t id)
{
	uint64_t n, len;

	if (id == CODE_UNWINDING_INFO) {
		len = cursor_u64(c);
		cursor_u64(c);
		cursor_u64(c);
		return !c->bad && len <= cursor_left(c);
	}
	if (id == CODE_DEBUG_INFO) {
		cursor_u64(c);
		n = cursor_u64(c);
		return !c->bad && n <= cursor_left(c) / 16;
	}
	return true; /* unknown types are allowed */
}

static int parse_record(struct jitdump *j, struct cursor *c, uint32_t id,
		       uint64_t time)
{
	switch (id) {
	case CODE_LOAD:
		return parse_load(j, c, time);
	case CODE_MOVE:
		return parse_move(j, c, time);
	case CODE_CLOSE:
		j->info.closed = true;
		return 0;
	default:
		return skip_rest(c, id) ? 0 : -AUX_E_FORMAT;
	}
}

/* Damage ends the list and is noted; it is no error. Returns -AUX_E_NOMEM at
 * worst. */
static int parse_records(struct jitdump *j, struct cursor *c)
{
	while (cursor_left(c) && !j->info.closed) {
		uint64_t at = (uint64_t)(c->p - j->data), time;
		uint32_t id = cursor_u32(c), size = cursor_u32(c);
		struct cursor body;
		const uint8_t *p;
		int rc;

		time = cursor_u64(c);
		if (c->bad || size < PREFIX ||
		    !(p = cursor_bytes(c, size - PREFIX))) {
			diag_set(&j->info.damage, AUX_E_TRUNCATED, at,
				 "the record of type %u and %u bytes does not "
				 "fit into the file", id, size);
			return 0;
		}
		body = cursor_init(p, size - PREFIX, c->swap);
		rc = parse_record(j, &body, id, time);
		if (rc == -AUX_E_NOMEM)
			return rc;
		if (rc < 0) {
			diag_set(&j->info.damage, AUX_E_FORMAT, at,
				 "the record of type %u contradicts its size",
				 id);
			return 0;
		}
	}
	return 0;
}

/* total_size in the header says where the records begin. */
static int parse_header(struct jitdump *j, struct cursor *c,
		       struct aux_diag *diag)
{
	uint32_t magic = cursor_u32(c), version, size;
	uint64_t flags;

	c->swap = magic == __builtin_bswap32(MAGIC);
	if (magic != MAGIC && !c->swap)
		return diag_set(diag, AUX_E_FORMAT, 0, "not a jitdump file");
	version = cursor_u32(c);
	size = cursor_u32(c);
	j->info.machine = cursor_u32(c);
	cursor_u32(c);		/* padding */
	j->info.pid = cursor_u32(c);
	cursor_u64(c);		/* when the file was made */
	flags = cursor_u64(c);
	j->info.arch_clock = flags & FLAG_ARCH;
	if (!c->bad && (version < 1 || version > 2))
		return diag_set(diag, AUX_E_UNSUPPORTED, 4,
				"jitdump version %u is not known", version);
	if (c->bad || size < MIN_HEADER || !cursor_bytes(c, size - MIN_HEADER))
		return diag_set(diag, AUX_E_FORMAT, 8,
				"the header of %u bytes does not fit", size);
	return 0;
}

int jitdump_new(struct jitdump **jp, const uint8_t *data, size_t len,
		struct aux_diag *diag)
{
	struct jitdump *j = calloc(1, sizeof(*j));
	struct cursor c = cursor_init(data, len, false);
	int rc;

	*jp = NULL;
	if (!j)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	j->data = data;
	rc = parse_header(j, &c, diag);
	if (!rc && parse_records(j, &c) < 0)
		rc = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			      "out of memory");
	if (rc < 0)
		jitdump_free(j);
	else
		*jp = j;
	return rc;
}

void jitdump_free(struct jitdump *j)
{
	if (!j)
		return;
	free(j->codes);
	free(j->slots);
	free(j);
}

const struct jitdump_info *jitdump_info(const struct jitdump *j)
{
	return &j->info;
}

const struct jitdump_code *jitdump_code(const struct jitdump *j, size_t i)
{
	return i < j->n ? &j->codes[i] : NULL;
}
