/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON through jansson, which is included here alone. Keys that come twice are refused:
 * which one counts differs from parser to parser.
 */
#ifdef HAVE_JSON
#include <jansson.h>
#endif

#include "common/diag.h"

#include "decode/lib/import/impl.h"

#ifdef HAVE_JSON

/*
 * jansson bounds the depth (2,048), so a hostile text cannot exhaust the stack, and
 * refuses integers beyond 64 bits signed. It does not take NULL for an empty text.
 */
int container_json_parse(struct json_t **root, const void *text, size_t len,
			 struct aux_diag *diag)
{
	json_error_t e;

	*root = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, &e);
	if (*root)
		return 0;
	return diag_set(diag, AUX_E_FORMAT, (uint64_t)e.position,
			"no JSON, line %d: %s", e.line, e.text);
}

void container_json_free(struct json_t *root)
{
	json_decref(root);
}

bool container_json_is_object(const struct json_t *n)
{
	return json_is_object(n);
}

bool container_json_is_array(const struct json_t *n)
{
	return json_is_array(n);
}

const struct json_t *container_json_get(const struct json_t *n,
					const char *key)
{
	return json_object_get(n, key);
}

const struct json_t *container_json_at(const struct json_t *n, size_t i)
{
	return json_array_get(n, i);
}

const char *container_json_text(const struct json_t *n)
{
	return json_string_value(n);
}

/* Reals are no numbers here: 1e3 for an address would be a mistake. */
bool container_json_number(const struct json_t *n, uint64_t *v)
{
	if (!json_is_integer(n) || json_integer_value(n) < 0)
		return false;
	*v = (uint64_t)json_integer_value(n);
	return true;
}

#else

int container_json_parse(struct json_t **root, const void *text, size_t len,
			 struct aux_diag *diag)
{
	(void)text, (void)len;
	*root = NULL;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"an LLDB trace bundle, but this build has no JSON: "
			"install libjansson-dev and build again");
}

void container_json_free(struct json_t *root)
{
	(void)root;
}

bool container_json_is_object(const struct json_t *n)
{
	(void)n;
	return false;
}

bool container_json_is_array(const struct json_t *n)
{
	(void)n;
	return false;
}

const struct json_t *container_json_get(const struct json_t *n,
					const char *key)
{
	(void)n, (void)key;
	return NULL;
}

const struct json_t *container_json_at(const struct json_t *n, size_t i)
{
	(void)n, (void)i;
	return NULL;
}

const char *container_json_text(const struct json_t *n)
{
	(void)n;
	return NULL;
}

bool container_json_number(const struct json_t *n, uint64_t *v)
{
	(void)n, (void)v;
	return false;
}

#endif
