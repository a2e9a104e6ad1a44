/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ini files of snapshots, parsed in one copy of the text, which is cut into
 * strings in place: names and values point into it and live as long as it does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/diag.h"

#include "decode/lib/import/impl.h"

#define MAX_TEXT (1 << 18)	/* real ones have a few kilobytes */
#define SPACE " \t\r\v\f"

static bool is_space(char c)
{
	return c && strchr(SPACE, c);
}

/* In place; returns a pointer into s, which is not to be freed. */
static char *trim(char *s)
{
	char *end;

	s += strspn(s, SPACE);
	end = s + strlen(s);
	while (end > s && is_space(end[-1]))
		end--;
	*end = '\0';
	return s;
}

/* A name may hold these characters: they begin a comment only after a space. */
static void cut_comment(char *s)
{
	for (char *p = s; *p; p++) {
		if ((*p == ';' || *p == '#') && (p == s || is_space(p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

/* s: after the [. Without a ] the whole line is the name. false: out of
 * memory. */
static bool add_section(struct ini *ini, char *s)
{
	if (array_grow(&ini->sections, ini->n_sections, &ini->cap_sections,
		       sizeof(*ini->sections)))
		return false;
	s[strcspn(s, "]")] = '\0';
	ini->sections[ini->n_sections++] = (struct ini_section){
		.name = trim(s), .first = ini->n_items,
	};
	return true;
}

/* There is a section: parse_line sees to that. false: out of memory. */
static bool add_item(struct ini *ini, char *key, char *value, uint32_t line)
{
	if (array_grow(&ini->items, ini->n_items, &ini->cap_items,
		       sizeof(*ini->items)))
		return false;
	ini->items[ini->n_items++] = (struct ini_item){
		.section = (uint32_t)ini->n_sections - 1, .line = line,
		.key = trim(key), .value = trim(value),
	};
	return true;
}

/*
 * s is cut into pieces, in place. A line that is neither is an error and not
 * skipped: a file that only looks like an ini file would else be an empty
 * snapshot.
 */
static int parse_line(struct ini *ini, char *s, uint32_t line, const char *name,
		     struct aux_diag *diag)
{
	uint64_t at = (uint64_t)(s - ini->text);
	bool fits;
	char *eq;

	cut_comment(s);
	s = trim(s);
	if (!*s)
		return 0;
	eq = strchr(s, '=');
	if (*s == '[') {
		fits = add_section(ini, s + 1);
	} else if (eq && ini->n_sections) {
		*eq = '\0';
		fits = add_item(ini, s, eq + 1, line);
	} else {
		return diag_set(diag, AUX_E_FORMAT, at,
				"%s, line %u is neither [section] nor "
				"key=value: %.40s", name, line, s);
	}
	return fits ? 0 : diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				   "out of memory");
}

int ini_parse(struct ini *ini, const void *text, size_t len, const char *name,
	      struct aux_diag *diag)
{
	uint32_t line = 1;
	char *s, *end;
	int rc = 0;

	*ini = (struct ini){ 0 };
	if (len > MAX_TEXT)
		return diag_set(diag, AUX_E_LIMIT, AUX_NO_OFFSET,
				"%s: %zu bytes are no ini file", name, len);
	if (len && memchr(text, 0, len))
		return diag_set(diag, AUX_E_FORMAT,
				(uint64_t)((const char *)memchr(text, 0, len) -
					   (const char *)text),
				"%s is no text", name);
	ini->text = s = malloc(len + 1);
	if (!s)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	if (len)
		memcpy(s, text, len);
	s[len] = '\0';
	if (!strncmp(s, "\xef\xbb\xbf", 3))
		s += 3;
	for (; rc == 0 && *s; s = end, line++) {
		end = s + strcspn(s, "\n");
		if (*end)
			*end++ = '\0';
		rc = parse_line(ini, s, line, name, diag);
	}
	return rc;
}

void ini_fini(struct ini *ini)
{
	free(ini->items);
	free(ini->sections);
	free(ini->text);
	*ini = (struct ini){ 0 };
}

/* Device files qualify registers: TRCIDR0(0x78), X0(size:64). The part in
 * brackets says where and how wide, which is not needed for a value. */
static bool is_key(const char *have, const char *want)
{
	size_t n = strlen(want);

	return !strncasecmp(have, want, n) &&
	       (!have[n] || have[n] == '(' || is_space(have[n]));
}

const char *ini_get_in(const struct ini *ini, size_t section, const char *key)
{
	size_t i = section < ini->n_sections ? ini->sections[section].first :
					       ini->n_items;

	for (; i < ini->n_items && ini->items[i].section == section; i++)
		if (is_key(ini->items[i].key, key))
			return ini->items[i].value;
	return NULL;
}

/* The first one wins. A linear search is enough: real files have some hundred
 * lines. */
const char *ini_get(const struct ini *ini, const char *section, const char *key)
{
	for (size_t i = 0; i < ini->n_items; i++)
		if (!strcasecmp(ini->sections[ini->items[i].section].name,
				section) &&
		    is_key(ini->items[i].key, key))
			return ini->items[i].value;
	return NULL;
}

/* Registers are written as 0x.., indices in decimal. A sign or a space is no
 * number. */
bool ini_number(const char *s, uint64_t *v)
{
	char *end;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	*v = strtoull(s, &end, 0);
	return !errno && !*end;
}
