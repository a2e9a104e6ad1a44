/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of the traced programs as text for other tools. They may hold any
 * bytes; what leaves here is valid UTF-8, and inside of JSON no character that
 * JSON forbids.
 *
 * Specification: RFC 3629 (UTF-8), RFC 8259 (JSON).
 */
#include "common/clean.h"
#include "decode/export/export.h"

static const char bad[] = "\xef\xbf\xbd"; /* U+FFFD */

/* How many of the first len bytes of s are ASCII, which most names are made of;
 * eight at a time. */
static size_t count_ascii(const char *s, size_t len)
{
	size_t n = 0;
	uint64_t w;

	for (; len - n >= sizeof(w); n += sizeof(w)) {
		memcpy(&w, s + n, sizeof(w));
		if (w & UINT64_C(0x8080808080808080))
			break;
	}
	while (n < len && !((unsigned char)s[n] & 0x80))
		n++;
	return n;
}

/* ASCII control characters stay: each format has its own way to write them.
 * Called twice by those who need memory: first with to NULL. */
size_t export_clean(char *to, const char *s, size_t len)
{
	size_t at = count_ascii(s, len), out = at;

	if (to)
		memcpy(to, s, at);
	while (at < len) {
		size_t took, n = clean_char(s + at, len - at, &took);
		bool kept = n || !((unsigned char)s[at] & 0x80);
		const char *from = kept ? s + at : bad;
		size_t size = kept ? took : sizeof(bad) - 1;

		if (to)
			memcpy(to + out, from, size);
		out += size;
		at += took;
	}
	return out;
}

/* Bytes 10xxxxxx go on a character: none is cut inside. */
size_t export_cut(const char *s, size_t len, size_t max)
{
	if (len <= max)
		return len;
	while (max && ((unsigned char)s[max] & 0xc0) == 0x80)
		max--;
	return max;
}

/* 0x7f too, which JSON allows: terminals do not. */
static void put_escape(struct outbuf *out, unsigned char c)
{
	static const char hex[] = "0123456789abcdef";
	char esc[] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

	switch (c) {
	case '"':
		outbuf_put(out, "\\\"", 2);
		break;
	case '\\':
		outbuf_put(out, "\\\\", 2);
		break;
	case '\n':
		outbuf_put(out, "\\n", 2);
		break;
	case '\t':
		outbuf_put(out, "\\t", 2);
		break;
	default:
		outbuf_put(out, esc, sizeof(esc));
	}
}

/* Runs of bytes that need no escape are copied as they are. */
void export_json_text(struct outbuf *out, const char *s, size_t len)
{
	size_t done = 0, i;

	for (i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
			continue;
		outbuf_put(out, s + done, i - done);
		put_escape(out, c);
		done = i + 1;
	}
	outbuf_put(out, s + done, i - done);
}

/* In pieces, so that no memory is needed whatever the length. */
void export_json_string(struct outbuf *out, const char *s)
{
	size_t len = strlen(s), n;
	char piece[192];

	outbuf_put(out, "\"", 1);
	while (len) {
		/* pieces end where a character does, as far as there are any */
		size_t take = export_cut(s, len, 64);

		take = take ? take : len < 64 ? len : 64;
		n = export_clean(piece, s, take);
		export_json_text(out, piece, n);
		s += take;
		len -= take;
	}
	outbuf_put(out, "\"", 1);
}

void export_put_us(struct outbuf *out, uint64_t ns)
{
	char buf[32], *p = fmt_dec(buf, ns / 1000);
	unsigned rest = (unsigned)(ns % 1000);

	if (rest) {
		*p++ = '.';
		*p++ = (char)('0' + rest / 100);
		*p++ = (char)('0' + rest / 10 % 10);
		*p++ = (char)('0' + rest % 10);
	}
	outbuf_put(out, buf, (size_t)(p - buf));
}
