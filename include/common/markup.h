/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * markup: foreign text in JSON and in HTML. What is no UTF-8, and what could turn
 * the order of characters around (clean.h), becomes U+FFFD.
 */
#ifndef COMMON_MARKUP_H
#define COMMON_MARKUP_H

struct outbuf;

/* A string with its quotes; "<" is escaped, so that it may stand in a script
 * element. */
void outbuf_json(struct outbuf *out, const char *s);
/* Text, or the value of an attribute in quotes. Tabs and line feeds become
 * blanks. */
void outbuf_html(struct outbuf *out, const char *s);

#endif
