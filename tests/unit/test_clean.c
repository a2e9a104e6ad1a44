/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * clean: what a terminal must not see, at every place among eight bytes, as the fast
 * path takes them; and all code points, against what the standard says of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/outbuf.h"
#include "tests/unit/tap.h"

static const struct {
	const char *in, *out;
} cases[] = {
	{ "", "" },
	{ "plain text ~", "plain text ~" },
	{ "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80",
	  "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80" },
	{ "\x1b]0;x\x07y\nz\t", "?]0;x?y?z?" },
	{ "a\x7f" "b", "a?b" },
	{ "\xc2\x9b" "31m\xc2\x80\xc2\xa0", "?31m?\xc2\xa0" },	/* C1; NBSP stays */
	{ "\xe2\x80\xae" "cba\xe2\x81\xa6\xe2\x81\xa9", "?cba??" },	/* bidi */
	{ "\xe2\x80\xa8\xe2\x80\xa9\xd8\x9c\xe2\x80\x8f", "????" },	/* LS, PS, ALM, RLM */
	{ "\xff\xfe\x80" "a", "???a" },
	{ "\xc0\xaf\xe0\x80\xaf", "?????" },			/* overlong */
	{ "\xed\xa0\x80", "???" },				/* a surrogate */
	{ "\xf4\x90\x80\x80", "????" },			/* above U+10FFFF */
	{ "cut\xe2\x82", "cut??" },
};

static void clean_in_place(char *s)
{
	s[clean_text(s, s, strlen(s))] = '\0';
}

static void strings(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char buf[64];

		snprintf(buf, sizeof(buf), "%s", cases[i].in);
		clean_in_place(buf);
		is_str(buf, cases[i].out, "a string");
	}
}

static void places(void)
{
	unsigned bad = 0;

	for (unsigned at = 0; at < 24; at++) {
		for (unsigned c = 1; c < 256; c++) {
			char s[33] = "abcdefghijklmnopqrstuvwxyz012345";
			char want[33];

			s[at] = (char)c;
			memcpy(want, s, sizeof(s));
			if (c < 0x20 || c >= 0x7f)
				want[at] = '?';
			clean_in_place(s);
			bad += strcmp(s, want) != 0;
		}
	}
	is_u64(bad, 0, "each byte at each place");
}

static size_t encode(uint32_t c, char *s)
{
	if (c < 0x80)
		return s[0] = (char)c, 1;
	if (c < 0x800)
		return s[0] = (char)(0xc0 | c >> 6), s[1] = (char)(0x80 | (c & 63)), 2;
	if (c < 0x10000)
		return s[0] = (char)(0xe0 | c >> 12), s[1] = (char)(0x80 | (c >> 6 & 63)),
		       s[2] = (char)(0x80 | (c & 63)), 3;
	return s[0] = (char)(0xf0 | c >> 18), s[1] = (char)(0x80 | (c >> 12 & 63)),
	       s[2] = (char)(0x80 | (c >> 6 & 63)), s[3] = (char)(0x80 | (c & 63)), 4;
}

static void code_points(void)
{
	unsigned n_refused = 0, n_wrong = 0;

	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		size_t size, n, len;
		char s[4];

		if (c >= 0xd800 && c < 0xe000)
			continue;
		len = encode(c, s);
		n = clean_char(s, len, &size);
		n_wrong += size != len || (n && n != len);
		n_refused += !n;
	}
	is_u64(n_wrong, 0, "sizes");
	/* C0, DEL, C1; ALM, LRM, RLM; U+2028 to 202E, 2066 to 2069; FFFE, FFFF */
	is_u64(n_refused, 32 + 1 + 32 + 3 + 7 + 4 + 2, "and no more are refused");
}

static void formatted(void)
{
	struct outbuf *out = outbuf_new(-1);

	if (!out) {
		ok(0, "out of memory");
		return;
	}
	outbuf_clean_printf(out, "a %s\n", "b\nc");
	outbuf_clean_printf(out, "%s", "d\n");
	outbuf_put(out, "", 1);
	is_str(out->buf, "a b?c\nd?", "only the line feed of the format stays");
	outbuf_free(out);
}

int main(void)
{
	strings();
	places();
	code_points();
	formatted();
	return plan_done();
}
