/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json: a text in JSON as a tree, by jansson, which is included here alone; without it
 * parse refuses. Nodes live until the tree is freed. NULL is allowed as a node and has
 * nothing in it, so that a chain of lookups needs one check at its end.
 */
#ifndef DECODE_LIB_JSON_JSON_H
#define DECODE_LIB_JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct json_t;

int json_tree_parse(struct json_t **root, const void *text, size_t len,
		      struct aux_diag *diag);
void json_tree_free(struct json_t *root);

bool json_tree_is_object(const struct json_t *n);
bool json_tree_is_array(const struct json_t *n);
/* A member of an object, or NULL. */
const struct json_t *json_tree_get(const struct json_t *n, const char *key);
/* An element of an array, or NULL after the last. */
const struct json_t *json_tree_at(const struct json_t *n, size_t i);
/* NULL: not a string. */
const char *json_tree_text(const struct json_t *n);
/* false: no number that is not negative. */
bool json_tree_number(const struct json_t *n, uint64_t *v);
/* The same with a sign. */
bool json_tree_integer(const struct json_t *n, int64_t *v);

#endif
