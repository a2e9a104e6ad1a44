/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sorter: records by a key of three numbers, in constant memory. What is more than a
 * buffer is sorted part by part and waits in a temporary file without a name; reading
 * merges the parts. Equal keys come in any order.
 */
#ifndef DECODE_EXPORT_SORTER_H
#define DECODE_EXPORT_SORTER_H

#include <stddef.h>
#include <stdint.h>

struct sorter;

struct sorter_item {
	uint64_t key[3];
	const uint8_t *data;
	uint32_t len;
};

/* memory: bytes of the buffer. NULL: out of memory. */
struct sorter *sorter_new(size_t memory);
void sorter_free(struct sorter *s);	/* accepts NULL */
#define SORTER_DATA 4096	/* bytes of an item, at most */
/* 0, -AUX_E_NOMEM, -AUX_E_IO: the temporary file cannot be written; -AUX_E_INVAL: the item
 * is too long. */
int sorter_put(struct sorter *s, const struct sorter_item *item);
/* After the last put: the next in order, valid until the next call. 1; 0: there are no
 * more; or an error. */
int sorter_next(struct sorter *s, struct sorter_item *item);

#endif
