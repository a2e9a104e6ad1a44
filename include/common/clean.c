/* SPDX-License-Identifier: BSD-2-Clause */
/* clean: see clean.h. UTF-8 is that of RFC 3629: no overlong forms, no
 * surrogates. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/outbuf.h"

/* Eight bytes from blank to "~": the usual case. */
static bool is_plain(const char *s)
{
	uint64_t v;

	memcpy(&v, s, sizeof(v));
	return !((v | (v - UINT64_C(0x2020202020202020)) |
		  (v + UINT64_C(0x0101010101010101))) &
		 UINT64_C(0x8080808080808080));
}

/* The character at s and its size; size 0: no UTF-8. */
static uint32_t decode(const unsigned char *s, size_t n, size_t *size)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t want = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 :
		      s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
	uint32_t c = want > 1 ? s[0] & (0x7fu >> want) : s[0];

	*size = 0;
	if (!want || want > n)
		return 0;
	for (size_t i = 1; i < want; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < least[want] || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
		return 0;
	*size = want;
	return c;
}

static bool is_shown(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	return c != 0x61c && c != 0xfffe && c != 0xffff && c != 0x200e && c != 0x200f &&
	       (c < 0x2028 || c > 0x202e) && (c < 0x2066 || c > 0x2069);
}

size_t clean_char(const char *s, size_t n, size_t *size)
{
	uint32_t c = decode((const unsigned char *)s, n, size);

	if (!*size) {
		*size = 1;
		return 0;
	}
	return is_shown(c) ? *size : 0;
}

size_t clean_text(char *to, const char *s, size_t n)
{
	size_t at = 0, out = 0, size, shown;

	while (at < n) {
		if (n - at >= 8 && is_plain(s + at)) {
			memmove(to + out, s + at, 8);
			at += 8;
			out += 8;
			continue;
		}
		shown = clean_char(s + at, n - at, &size);
		if (shown)
			memmove(to + out, s + at, shown);
		else
			to[out] = '?';
		out += shown ? shown : 1;
		at += size;
	}
	return out;
}

void outbuf_clean_n(struct outbuf *out, const char *s, size_t n)
{
	char *p = outbuf_room(out, n);

	if (p)
		out->p = p + clean_text(p, s, n);
}

void outbuf_clean(struct outbuf *out, const char *s)
{
	outbuf_clean_n(out, s, strlen(s));
}

void outbuf_clean_printf(struct outbuf *out, const char *fmt, ...)
{
	size_t n_fmt = strlen(fmt);
	bool line = n_fmt && fmt[n_fmt - 1] == '\n';
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		outbuf_fail(out, ENOMEM);
		return;
	}
	outbuf_clean_n(out, text, (size_t)n - line);
	if (line)
		outbuf_put(out, "\n", 1);
	free(text);
}
