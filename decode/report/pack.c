/* SPDX-License-Identifier: BSD-2-Clause */
/* sink_report_pack: see pack.h. Only this file calls zlib. */
#include <stdlib.h>
#include <string.h>
#ifdef HAVE_Z
#include <zlib.h>
#endif

#include "decode/report/pack.h"

#include <aux/error.h>

void column_put(struct column_bytes *c, uint64_t v)
{
	uint8_t *grown;

	if (c->max - c->n < 10) {
		size_t max = c->max ? 2 * c->max : 4096;

		grown = c->failed ? NULL : realloc(c->p, max);
		if (!grown) {
			c->failed = 1;
			return;
		}
		c->p = grown;
		c->max = max;
	}
	for (; v > 127; v >>= 7)
		c->p[c->n++] = (uint8_t)(v | 128);
	c->p[c->n++] = (uint8_t)v;
}

static void put_base64(struct outbuf *out, const uint8_t *p, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	char *to = outbuf_room(out, n / 3 * 4 + 4);

	if (!to)
		return;
	for (; n >= 3; n -= 3, p += 3) {
		uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];

		*to++ = digit[v >> 18];
		*to++ = digit[v >> 12 & 63];
		*to++ = digit[v >> 6 & 63];
		*to++ = digit[v & 63];
	}
	if (n) {
		uint32_t v = (uint32_t)p[0] << 16 |
			     (n > 1 ? (uint32_t)p[1] << 8 : 0);

		*to++ = digit[v >> 18];
		*to++ = digit[v >> 12 & 63];
		*to++ = n > 1 ? digit[v >> 6 & 63] : '=';
		*to++ = '=';
	}
	out->p = to;
}

static void put_block(struct outbuf *out, const char *kind, int z,
		      const uint8_t *p, size_t n)
{
	outbuf_printf(out, "<script type=\"text/plain\" class=\"block\" "
		      "data-kind=\"%s\" data-z=\"%d\">", kind, z);
	put_base64(out, p, n);
	outbuf_str(out, "</script>\n");
}

int report_pack(struct outbuf *out, const char *kind, const void *bytes,
		size_t len)
{
#ifdef HAVE_Z
	uLongf n = compressBound(len);
	uint8_t *z = malloc(n);
	int rc = z ? compress2(z, &n, bytes, len, 5) : Z_MEM_ERROR;

	if (rc == Z_OK)
		put_block(out, kind, 1, z, n);
	free(z);
	if (rc != Z_OK)
		return -AUX_E_NOMEM;
#else
	put_block(out, kind, 0, bytes, len);
#endif
	return outbuf_failed(out) ? -AUX_E_NOMEM : 0;
}

static uint8_t *put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		*p++ = (uint8_t)(v >> 8 * i);
	return p;
}

int report_pack_columns(struct outbuf *out, const char *kind, uint32_t n,
			uint32_t more, struct column_bytes *columns,
			unsigned n_columns)
{
	size_t len = 16;
	uint8_t *bytes, *p;
	int err;

	for (unsigned i = 0; i < n_columns; i++) {
		if (columns[i].failed)
			return -AUX_E_NOMEM;
		len += 4 + columns[i].n;
	}
	bytes = malloc(len);
	if (!bytes)
		return -AUX_E_NOMEM;
	p = put_u32(put_u32(put_u32(put_u32(bytes, n), n_columns), more), 0);
	for (unsigned i = 0; i < n_columns; i++) {
		p = put_u32(p, (uint32_t)columns[i].n);
		if (columns[i].n)
			memcpy(p, columns[i].p, columns[i].n);
		p += columns[i].n;
		columns[i].n = 0;
	}
	err = report_pack(out, kind, bytes, len);
	free(bytes);
	return err;
}

/* ---- text ---- */

/* Bytes of the UTF-8 character at s; 0: it is none. */
static unsigned utf8_len(const unsigned char *s)
{
	uint32_t c = *s;
	unsigned n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 :
		     c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;

	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = i == 1 ? (c & (0x7fu >> n)) << 6 | (s[1] & 0x3f) :
			     c << 6 | (s[i] & 0x3f);
	}
	if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
	    (n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	return n;
}

static void put_text(struct outbuf *out, const char *text,
		     const char *(*escape)(unsigned char c, char *buf))
{
	const unsigned char *s = (const unsigned char *)text;
	char buf[16];

	while (*s) {
		unsigned n = utf8_len(s);
		const char *as = n == 1 ? escape(*s, buf) : NULL;

		if (!n)
			outbuf_str(out, "\xef\xbf\xbd");
		else if (as)
			outbuf_str(out, as);
		else
			outbuf_put(out, (const char *)s, n);
		s += n ? n : 1;
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

void report_json(struct outbuf *out, const char *s)
{
	outbuf_put(out, "\"", 1);
	put_text(out, s, escape_json);
	outbuf_put(out, "\"", 1);
}

void report_html(struct outbuf *out, const char *s)
{
	put_text(out, s, escape_html);
}

void report_shell(struct outbuf *out, const char *s)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./+:,=@%-";

	if (*s && *s != '-' && strspn(s, plain) == strlen(s)) {
		outbuf_str(out, s);
		return;
	}
	outbuf_str(out, *s == '-' ? "./'" : "'");
	for (; *s; s++)
		if (*s == '\'')
			outbuf_str(out, "'\\''");
		else
			outbuf_put(out, s, 1);
	outbuf_put(out, "'", 1);
}
