/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What calls are measured in, as text for people and from them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/diag.h"

#include "common/outbuf.h"
#include "decode/sink/find.h"

int find_by_parse(enum find_by *by, const char *text, struct aux_diag *diag)
{
	/* table */
	static const char *const names[] = { [FIND_BY_TIME] = "time",
					     [FIND_BY_INSNS] = "insns",
					     [FIND_BY_CYCLES] = "cycles" };

	*by = FIND_BY_TIME;
	if (!text)
		return 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(text, names[i])) {
			*by = i;
			return 0;
		}
	}
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"--by is time, insns or cycles here, not \"%s\"", text);
}

/* Nanoseconds of a unit; 0: there is none of that name. */
static uint64_t unit_of(const char *s)
{
	return !strcmp(s, "ns") ? 1 :
	       !strcmp(s, "us") ? 1000 :
	       !strcmp(s, "ms") ? 1000000 :
	       !strcmp(s, "") || !strcmp(s, "s") ? 1000000000 : /* as --time */
						   0;
}

/* Digits, a point and digits, a unit; false: it is none, or too large. */
static bool parse_amount(const char *s, bool is_time, uint64_t *v)
{
	const char *end = s + strspn(s, is_time ? "0123456789." : "0123456789");
	uint64_t unit = is_time ? unit_of(end) : !*end, whole = 0, frac = 0;
	bool digits = false;

	for (; *s >= '0' && *s <= '9'; s++, digits = true)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
			return false;
	if (*s == '.') {
		uint64_t scale = unit;

		for (s++; *s >= '0' && *s <= '9'; s++, digits = true) {
			if (scale % 10 && *s != '0')
				return false; /* finer than it is counted */
			scale /= 10;
			frac += (uint64_t)(*s - '0') * scale;
		}
	}
	return unit && digits && s == end &&
	       !__builtin_mul_overflow(whole, unit, v) &&
	       !__builtin_add_overflow(*v, frac, v);
}

int find_amount_parse(uint64_t *v, enum find_by by, const char *option,
		      const char *text, struct aux_diag *diag)
{
	if (parse_amount(text, by == FIND_BY_TIME, v))
		return 0;
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			by == FIND_BY_TIME ?
				"%s wants a time as 1ms or 20us, not \"%s\"" :
				"%s wants a number with this --by, not \"%s\"",
			option, text);
}

uint64_t find_amount(enum find_by by, const struct call_count *n)
{
	return by == FIND_BY_TIME  ? n->ns :
	       by == FIND_BY_INSNS ? n->insns :
				     n->cycles;
}

char *find_number_text(char *out, uint64_t v)
{
	char digits[24];
	size_t len = (size_t)(fmt_dec(digits, v) - digits), n = 0;

	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			out[n++] = ',';
		out[n++] = digits[i];
	}
	out[n] = 0;
	return out;
}

char *find_amount_text(char *out, enum find_by by, uint64_t v)
{
	static const char *const units[] = { "us", "ms", "s" };
	uint64_t unit = 1000;
	unsigned i = 0, digits;

	if (by != FIND_BY_TIME)
		return find_number_text(out, v);
	if (v < 1000) {
		snprintf(out, 40, "%" PRIu64 " ns", v);
		return out;
	}
	for (; i < 2 && v / 1000 >= unit; i++)
		unit *= 1000;
	digits = v / unit >= 100 ? 1 : v / unit >= 10 ? 2 : 3;
	if (v % unit == 0)
		digits = 0;
	snprintf(out, 40, "%.*f %s", (int)digits, (double)v / (double)unit,
		 units[i]);
	return out;
}

/* In quotes where a shell would take it apart. */
static void put_word(struct outbuf *out, const char *s)
{
	if (*s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
			       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789_-+=.,:/@%")]) {
		outbuf_str(out, s);
		return;
	}
	outbuf_put(out, "'", 1);
	for (; *s; s++)
		outbuf_str(out, *s == '\'' ? "'\\''" :
				(unsigned char)*s < ' ' ?
					     "?" :
					     (char[]){ *s, 0 });
	outbuf_put(out, "'", 1);
}

void find_put_range(struct outbuf *out, uint64_t from_ns, uint64_t to_ns,
		    uint32_t tid, const char *path)
{
	char text[64], *p;

	outbuf_str(out, "--time ");
	p = fmt_time(text, from_ns);
	*p++ = ',';
	p = fmt_time(p, to_ns);
	outbuf_put(out, text, (size_t)(p - text));
	if (tid != UINT32_MAX)
		outbuf_printf(out, " --tid %u", tid);
	outbuf_put(out, " ", 1);
	put_word(out, path ? path : "FILE");
}
