/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of options: numbers and times. A value is right as a whole or refused;
 * nothing is rounded, wrapped or taken in part.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decode/cmd/cmd.h"

int cmd_parse_number(const char *name, const char *s, uint64_t max, uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || *v > max)
		return cmd_usage("%s wants a number up to %llu, not \"%s\"",
				 name, (unsigned long long)max, s);
	return CMD_OK;
}

/* The unit whose name is s[0..len); 0: none. No name is seconds. */
static uint64_t find_unit(const char *s, size_t len)
{
	/* table */
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ns", 1 },
		      { "us", 1000 },
		      { "ms", 1000000 },
		      { "s", 1000000000 },
		      { "", 1000000000 } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strlen(units[i].name) == len &&
		    !memcmp(s, units[i].name, len))
			return units[i].ns;
	return 0;
}

/* One time, up to a comma or the end; where it ends, or NULL: it is none. */
static const char *parse_time(const char *s, uint64_t *ns)
{
	const char *p = s + strspn(s, "0123456789.");
	size_t len = strcspn(p, ",");
	uint64_t unit = find_unit(p, len), whole = 0, frac = 0, scale;
	const char *start = s;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *s - '0', &whole))
			return NULL;
	if (*s == '.') {
		scale = unit;
		for (s++; *s >= '0' && *s <= '9'; s++) {
			if (scale % 10 && *s != '0')
				return NULL; /* finer than a nanosecond */
			scale /= 10;
			frac += (uint64_t)(*s - '0') * scale;
		}
	}
	if (!unit || s != p || s == start ||
	    (s == start + 1 && *start == '.') ||
	    __builtin_mul_overflow(whole, unit, ns) ||
	    __builtin_add_overflow(*ns, frac, ns))
		return NULL;
	return p + len;
}

int cmd_parse_times(const char *s, uint64_t *from, uint64_t *to)
{
	const char *p = s;

	if (*p != ',')
		p = parse_time(p, from);
	if (p && *p == ',' && p[1])
		p = parse_time(p + 1, to);
	else if (p)
		p = *p == ',' ? p + 1 : NULL;
	if (!p || *p || !strcmp(s, ","))
		return cmd_usage("--time wants A,B in seconds (12.345678901) "
				 "or with ns, us, ms behind, not \"%s\"",
				 s);
	if (*from > *to)
		return cmd_usage("--time %s ends before it begins", s);
	return CMD_OK;
}

int cmd_parse_duration(const char *name, const char *s, uint64_t *ns)
{
	const char *end = parse_time(s, ns);

	if (!end || *end || !*ns)
		return cmd_usage("%s wants a time as 10ms, or in seconds, not "
				 "\"%s\"", name, s);
	return CMD_OK;
}

int cmd_parse_span(const char *name, const char *s, uint64_t *from,
		   uint64_t *to)
{
	size_t n = strcspn(s, "-");
	char first[24];

	if (n >= sizeof(first))
		return cmd_usage("%s wants N or N-M, not \"%s\"", name, s);
	memcpy(first, s, n);
	first[n] = '\0';
	if (cmd_parse_number(name, first, UINT64_MAX - 1, from) != CMD_OK)
		return CMD_USAGE;
	*to = *from;
	if (s[n] && cmd_parse_number(name, s + n + 1, UINT64_MAX - 1, to) !=
			    CMD_OK)
		return CMD_USAGE;
	if (*to < *from)
		return cmd_usage("%s %s ends before it begins", name, s);
	return CMD_OK;
}

int cmd_parse_size(const char *name, const char *s, uint64_t *v)
{
	static const char units[] = "KMG";
	char digits[24];
	size_t n = strspn(s, "0123456789");
	const char *unit = s[n] ? strchr(units, s[n]) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

	if (!n || n >= sizeof(digits) || (s[n] && (!unit || s[n + 1])))
		return cmd_usage("%s wants a size as 64M, not \"%s\"", name, s);
	memcpy(digits, s, n);
	digits[n] = '\0';
	if (cmd_parse_number(name, digits, UINT64_MAX >> 16 >> shift, v) !=
	    CMD_OK)
		return CMD_USAGE;
	if (!*v)
		return cmd_usage("%s wants at least 1 byte", name);
	*v <<= shift;
	return CMD_OK;
}
