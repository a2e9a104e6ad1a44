/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json: see json.h. Keys that come twice are
 * refused: which one counts differs from parser to parser.
 */
#ifdef HAVE_JSON
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#endif

#include "common/diag.h"

#include "decode/lib/json/json.h"

#ifdef HAVE_JSON

/*
 * jansson's integers have 64 bits with a sign, and it refuses a larger one;
 * those of a description have 64 without. So these become strings before it
 * reads the text: WIDE and the digits. A text that begins so on its own is no
 * name of anything.
 */
#define WIDE "\\u0001"
#define IS_WIDE '\1'
#define LONG_MIN_DIGITS 19	/* of the smallest that it refuses */

static bool is_part_of_number(char c)
{
	return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' ||
	       c == 'e' || c == 'E';
}

/* Is the number [s, s + n) an integer above INT64_MAX? */
static bool is_wide(const char *s, size_t n)
{
	char digits[32];

	if (n < LONG_MIN_DIGITS || *s == '0' || *s == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return false;
	if (n >= sizeof(digits))
		return true;
	memcpy(digits, s, n);
	digits[n] = '\0';
	errno = 0;
	return strtoull(digits, NULL, 10) > INT64_MAX || errno;
}

/* The text with its wide integers as strings; free it. NULL: no memory. */
static char *quote_wide(const char *text, size_t len, size_t *n)
{
	/* what is added to a number is shorter than the shortest such */
	char *to = malloc(2 * len + 1), *out = to;
	bool in_string = false;
	size_t i = 0, k;

	while (to && i < len) {
		for (k = 0; !in_string && i + k < len &&
			    is_part_of_number(text[i + k]); k++)
			;
		if (k && is_wide(text + i, k)) {
			out = mempcpy(out, "\"" WIDE, 1 + strlen(WIDE));
			out = mempcpy(out, text + i, k);
			*out++ = '"';
		} else if (k) {
			out = mempcpy(out, text + i, k);
		} else if (in_string && text[i] == '\\' && i + 1 < len) {
			k = 2;
			out = mempcpy(out, text + i, k);
		} else {
			k = 1;
			in_string ^= text[i] == '"';
			*out++ = text[i];
		}
		i += k;
	}
	*n = to ? (size_t)(out - to) : 0;
	return to;
}

/*
 * jansson bounds the depth (2,048), so a hostile text cannot exhaust the stack.
 * It does not take NULL for an empty text.
 */
int json_tree_parse(struct json_t **root, const void *text, size_t len,
		      struct aux_diag *diag)
{
	size_t n;
	char *wide = quote_wide(text ? text : "", len, &n);
	json_error_t e;

	*root = NULL;
	if (!wide)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	*root = json_loadb(wide, n, JSON_REJECT_DUPLICATES, &e);
	free(wide);
	if (*root)
		return 0;
	return diag_set(diag, AUX_E_FORMAT, (uint64_t)e.position,
			"no JSON, line %d: %s", e.line, e.text);
}

void json_tree_free(struct json_t *root)
{
	json_decref(root);
}

bool json_tree_is_object(const struct json_t *n)
{
	return json_is_object(n);
}

bool json_tree_is_array(const struct json_t *n)
{
	return json_is_array(n);
}

const struct json_t *json_tree_get(const struct json_t *n, const char *key)
{
	return json_object_get(n, key);
}

const struct json_t *json_tree_at(const struct json_t *n, size_t i)
{
	return json_array_get(n, i);
}

const char *json_tree_text(const struct json_t *n)
{
	const char *s = json_string_value(n);

	return s && *s == IS_WIDE ? NULL : s;
}

/* Reals are no numbers here: 1e3 for an address would be a mistake. */
bool json_tree_number(const struct json_t *n, uint64_t *v)
{
	const char *s = json_string_value(n);
	char *end;

	if (s && *s == IS_WIDE) {
		errno = 0;
		*v = strtoull(s + 1, &end, 10);
		return !errno && !*end;
	}
	if (!json_is_integer(n) || json_integer_value(n) < 0)
		return false;
	*v = (uint64_t)json_integer_value(n);
	return true;
}

bool json_tree_integer(const struct json_t *n, int64_t *v)
{
	*v = json_integer_value(n);
	return json_is_integer(n);
}

#else

int json_tree_parse(struct json_t **root, const void *text, size_t len,
		      struct aux_diag *diag)
{
	(void)text, (void)len;
	*root = NULL;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"this is JSON, and this build has none: "
			"install libjansson-dev and build again");
}

void json_tree_free(struct json_t *root)
{
	(void)root;
}

bool json_tree_is_object(const struct json_t *n)
{
	(void)n;
	return false;
}

bool json_tree_is_array(const struct json_t *n)
{
	(void)n;
	return false;
}

const struct json_t *json_tree_get(const struct json_t *n, const char *key)
{
	(void)n, (void)key;
	return NULL;
}

const struct json_t *json_tree_at(const struct json_t *n, size_t i)
{
	(void)n, (void)i;
	return NULL;
}

const char *json_tree_text(const struct json_t *n)
{
	(void)n;
	return NULL;
}

bool json_tree_number(const struct json_t *n, uint64_t *v)
{
	(void)n, (void)v;
	return false;
}

bool json_tree_integer(const struct json_t *n, int64_t *v)
{
	(void)n, (void)v;
	return false;
}

#endif
