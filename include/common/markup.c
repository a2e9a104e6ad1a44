/* SPDX-License-Identifier: BSD-2-Clause */
/* markup: see markup.h. Specification: RFC 8259; HTML, "Syntax of attributes". */
#include "common/markup.h"

#include <string.h>

#include "common/clean.h"
#include "common/outbuf.h"

/* escape: what to put for a character; NULL: itself. */
static void put_text(struct outbuf *out, const char *text,
		     const char *(*escape)(unsigned char c, char *buf))
{
	char buf[16];

	while (*text) {
		unsigned char c = (unsigned char)*text;
		size_t size, n = clean_char(text, strnlen(text, 4), &size);
		const char *as = c < 0x80 ? escape(c, buf) : NULL;

		if (as)
			outbuf_str(out, as);
		else if (n)
			outbuf_put(out, text, n);
		else
			outbuf_str(out, "\xef\xbf\xbd");
		text += size;
	}
}

/* '<' too, so that no script element ends in a string. */
static const char *escape_json(unsigned char c, char *buf)
{
	char *p = buf;

	if (c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != 0x7f)
		return NULL;
	*p++ = '\\';
	*p++ = 'u';
	p = fmt_hex_pad(p, c, 4);
	*p = 0;
	return buf;
}

/* For text and attributes in quotes. */
static const char *escape_html(unsigned char c, char *buf)
{
	(void)buf;
	switch (c) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	case '\n':
	case '\t':
		return " ";
	}
	return c < 0x20 || c == 0x7f ? "\xef\xbf\xbd" : NULL;
}

void outbuf_json(struct outbuf *out, const char *s)
{
	outbuf_put(out, "\"", 1);
	put_text(out, s, escape_json);
	outbuf_put(out, "\"", 1);
}

void outbuf_html(struct outbuf *out, const char *s)
{
	put_text(out, s, escape_html);
}

void outbuf_json_text(struct outbuf *out, const char *key, const char *s)
{
	outbuf_printf(out, ",\"%s\":", key);
	if (s)
		outbuf_json(out, s);
	else
		outbuf_str(out, "null");
}

void outbuf_json_number(struct outbuf *out, const char *key, uint64_t v)
{
	outbuf_printf(out, ",\"%s\":%llu", key, (unsigned long long)v);
}

void outbuf_json_bool(struct outbuf *out, const char *key, bool v)
{
	outbuf_printf(out, ",\"%s\":%s", key, v ? "true" : "false");
}

void outbuf_json_hex(struct outbuf *out, const char *key, uint64_t v)
{
	outbuf_printf(out, ",\"%s\":\"0x%llx\"", key, (unsigned long long)v);
}

void outbuf_shell(struct outbuf *out, const char *s)
{
	const char *quote;

	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_-+=.,:/@%")]) {
		outbuf_str(out, s);
		return;
	}
	outbuf_put(out, "'", 1);
	for (; (quote = strchr(s, '\'')); s = quote + 1) {
		outbuf_clean_n(out, s, (size_t)(quote - s));
		outbuf_str(out, "'\\''");
	}
	outbuf_clean(out, s);
	outbuf_put(out, "'", 1);
}
