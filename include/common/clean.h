/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clean: text that a file or a process made, for a terminal and for formats of
 * lines.
 *
 * Names and paths hold whatever a program chose. What could end a line, command
 * the terminal or turn the order of the characters around becomes "?": control
 * characters (also those from U+0080 on), line and paragraph separators, marks
 * of direction, and bytes that are no UTF-8.
 */
#ifndef COMMON_CLEAN_H
#define COMMON_CLEAN_H

#include <stddef.h>

struct outbuf;

/* How many of the n > 0 bytes at s are one character that may be shown; 0: it
 * may not, and *size (not NULL) is how many it takes. */
size_t clean_char(const char *s, size_t n, size_t *size);
/* To to, which may be s, and has room for n bytes. Returns how many came
 * out. */
size_t clean_text(char *to, const char *s, size_t n);
void outbuf_clean(struct outbuf *out, const char *s);
void outbuf_clean_n(struct outbuf *out, const char *s, size_t n);
/* As outbuf_printf, all of it cleaned but a line feed at the end of fmt: a line
 * or a part of one, with foreign text in it. */
void outbuf_clean_printf(struct outbuf *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
