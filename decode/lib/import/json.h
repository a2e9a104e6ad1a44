/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_json: reading JSON. The only user of jansson; without it parse
 * refuses. Nodes live until the document is freed; NULL is allowed as a node and
 * has nothing in it.
 */
#ifndef DECODE_LIB_IMPORT_JSON_H
#define DECODE_LIB_IMPORT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct json_t;

int container_json_parse(struct json_t **root, const void *text, size_t len,
			 struct aux_diag *diag);
void container_json_free(struct json_t *root);

bool container_json_is_object(const struct json_t *n);
bool container_json_is_array(const struct json_t *n);
/* A member of an object, or NULL. */
const struct json_t *container_json_get(const struct json_t *n,
					const char *key);
/* An element of an array, or NULL after the last. */
const struct json_t *container_json_at(const struct json_t *n, size_t i);
/* NULL: not a string. */
const char *container_json_text(const struct json_t *n);
/* false: no number that is not negative. */
bool container_json_number(const struct json_t *n, uint64_t *v);

#endif
