/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * markup: foreign text in JSON, in HTML, in a shell. What is no UTF-8, and what could turn
 * the order of characters around (clean.h), becomes U+FFFD.
 */
#ifndef COMMON_MARKUP_H
#define COMMON_MARKUP_H

#include <stdbool.h>
#include <stdint.h>

struct outbuf;

/* A string with its quotes; "<" is escaped, so that it may stand in a script
 * element. */
void outbuf_json(struct outbuf *out, const char *s);
/* A member that is not the first of its object: a comma, the key, the value. s
 * NULL: null. hex: a string, for no double holds all of 64 bits. */
void outbuf_json_text(struct outbuf *out, const char *key, const char *s);
void outbuf_json_number(struct outbuf *out, const char *key, uint64_t v);
void outbuf_json_bool(struct outbuf *out, const char *key, bool v);
void outbuf_json_hex(struct outbuf *out, const char *key, uint64_t v);
/* One word, in quotes where a shell would take it apart. */
void outbuf_shell(struct outbuf *out, const char *s);
/* Text, or the value of an attribute in quotes. Tabs and line feeds become
 * blanks. */
void outbuf_html(struct outbuf *out, const char *s);

#endif
