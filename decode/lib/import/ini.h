/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * container_ini: the ini files of OpenCSD and DS-5 snapshots.
 *
 * [section], then key=value lines. A comment is a line that starts with ; or #,
 * or what follows one of these after white space. Keys and sections keep their
 * order; a section may come more than once.
 */
#ifndef DECODE_LIB_IMPORT_INI_H
#define DECODE_LIB_IMPORT_INI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>

struct ini_item {
	uint32_t section;	/* number of its section, from 0 */
	uint32_t line;		/* from 1 */
	const char *key, *value;
};

struct ini_section {
	const char *name;
	size_t first;		/* of its items */
};

struct ini {
	char *text;		/* a copy, cut into strings */
	struct ini_section *sections;
	size_t n_sections, cap_sections;
	struct ini_item *items;
	size_t n_items, cap_items;
};

/* name is for messages, whose offset is that of the line. Zeroes *ini first;
 * fini is allowed after an error, too. */
int ini_parse(struct ini *ini, const void *text, size_t len, const char *name,
	      struct aux_diag *diag);
void ini_fini(struct ini *ini);

/* The value of a key in any section of that name, or NULL. Case does not matter,
 * nor what is in brackets after the key: X(size:64). */
const char *ini_get(const struct ini *ini, const char *section,
		    const char *key);
/* The same in one section. */
const char *ini_get_in(const struct ini *ini, size_t section, const char *key);
/* A number in any base of C, and nothing else. */
bool ini_number(const char *s, uint64_t *v);

#endif
