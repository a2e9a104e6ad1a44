/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of functions: those that fit a pattern, and those that were perhaps meant.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/distance.h"
#include "common/diag.h"

#include "decode/sink/find.h"

#define N_NEAR	 5
#define SAME_BAD (TEXT_DISTANCE_MAX / 3)

int find_pattern_init(struct find_pattern *p, const char *option,
		      const char *text, struct aux_diag *diag)
{
	size_t len = text ? strlen(text) : 0;
	char why[128], *inner;
	int rc;

	*p = (struct find_pattern){ .text = text };
	if (!text)
		return 0;
	if (!len)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s wants a name", option);
	if (len < 3 || text[0] != '/' || text[len - 1] != '/')
		return 0;
	inner = strndup(text + 1, len - 2);
	if (!inner)
		return -AUX_E_NOMEM;
	rc = regcomp(&p->regex, inner, REG_EXTENDED | REG_NOSUB);
	free(inner);
	p->is_regex = rc == 0;
	if (rc == 0)
		return 0;
	regerror(rc, &p->regex, why, sizeof(why));
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"%s %s is no regular expression: %s", option, text,
			why);
}

void find_pattern_fini(struct find_pattern *p)
{
	if (p->is_regex)
		regfree(&p->regex);
	p->is_regex = false;
}

/* Without "(...)" at its end, and what may stand behind that. */
static size_t bare_len(const char *name)
{
	size_t len = strlen(name), i;
	int depth = 0;

	for (i = len; i > 0; i--) {
		if (name[i - 1] == ')')
			depth++;
		else if (name[i - 1] == '(' && --depth == 0)
			break;
	}
	/* "operator()" is a name */
	return i > 1 && strncmp(name + i - 1, "()", 3) ? i - 1 : len;
}

static bool fits_text(const struct find_pattern *p, const char *name)
{
	char bare[512];
	size_t len;

	if (!name)
		return false;
	if (p->is_regex)
		return !regexec(&p->regex, name, 0, NULL, 0);
	if (!strcmp(p->text, name) || !fnmatch(p->text, name, 0))
		return true;
	len = bare_len(name);
	if (!name[len] || len >= sizeof(bare))
		return false;
	memcpy(bare, name, len);
	bare[len] = 0;
	return !strcmp(p->text, bare) || !fnmatch(p->text, bare, 0);
}

bool find_pattern_fits(const struct find_pattern *p, const struct call_func *f)
{
	char text[512];

	if (!p->text)
		return true;
	if (!f->name && !f->raw) {
		call_func_name(f, text, sizeof(text));
		return fits_text(p, text);
	}
	return fits_text(p, f->name) || fits_text(p, f->raw);
}

/* How far name is from what was asked for; SAME_BAD: too far. */
static unsigned how_far(const char *text, const char *name)
{
	size_t la = strlen(text), lb = bare_len(name);
	unsigned d;

	if (la >= 3 && strcasestr(name, text))
		return 1;
	d = text_distance(text, la, name, lb);
	return d <= 1 + la / 4 ? d : SAME_BAD;
}

struct near {
	const char *name;
	unsigned far;
};

static void keep_near(struct near *near, const char *name, unsigned far)
{
	unsigned i = N_NEAR;

	for (unsigned k = 0; k < N_NEAR; k++)
		if (near[k].name && !strcmp(near[k].name, name))
			return;
	for (; i > 0 && (!near[i - 1].name || near[i - 1].far > far); i--)
		if (i < N_NEAR)
			near[i] = near[i - 1];
	if (i < N_NEAR)
		near[i] = (struct near){ name, far };
}

static void append(char *hint, size_t len, const char *text)
{
	size_t at = strlen(hint);

	for (; *text && at + 1 < len; text++) /* names are the file's */
		hint[at++] = (unsigned char)*text < ' ' ? '?' : *text;
	hint[at] = 0;
}

void find_nearest(const struct calls *c, const char *text, char *hint,
		  size_t len)
{
	struct near near[N_NEAR] = { 0 };
	char bare[TEXT_DISTANCE_MAX + 1];
	size_t n = 0;

	for (; *text && n < TEXT_DISTANCE_MAX; text++)
		if (!strchr("*?/^$\\[]", *text))
			bare[n++] = *text;
	bare[n] = 0;
	for (size_t i = 0; i < calls_n_funcs(c); i++) {
		const struct call_func *f = calls_func(c, (uint32_t)i);
		unsigned far = f->name ? how_far(bare, f->name) : SAME_BAD;

		if (far < SAME_BAD)
			keep_near(near, f->name, far);
	}
	for (unsigned i = 0; i < N_NEAR && near[i].name; i++) {
		append(hint, len, i ? ", " : "; near to it: ");
		append(hint, len, near[i].name);
	}
}
