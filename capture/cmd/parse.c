/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of options: numbers, sizes and times. A value is right as a whole or
 * refused; nothing is wrapped or taken in part.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"

/* A number with one of suffixes behind it, whose factors are given. */
static bool parse_scaled(const char *s, const char *suffixes,
			 const uint64_t *factors, uint64_t *v)
{
	const char *f;
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || errno)
		return false;
	if (!*end)
		return true;
	f = end[1] ? NULL : strchr(suffixes, *end);
	if (!f || *v > UINT64_MAX / factors[f - suffixes])
		return false;
	*v *= factors[f - suffixes];
	return true;
}

bool cmd_parse_size(const char *s, uint64_t *v)
{
	static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, 1 << 30 };

	return s[strspn(s, "0123456789")] &&
	       parse_scaled(s, "BKMG", factors, v);
}

static bool parse_time_ms(const char *s, unsigned *ms)
{
	static const uint64_t factors[] = { 1000, 60000, 3600000, 86400000 };
	uint64_t v;

	if (!s[strspn(s, "0123456789")] ||
	    !parse_scaled(s, "smhd", factors, &v) || !v || v > UINT32_MAX)
		return false;
	*ms = (unsigned)v;
	return true;
}

bool cmd_parse_u64(const char *s, uint64_t *v)
{
	return parse_scaled(s, "", NULL, v);
}

bool cmd_parse_u32(const char *s, uint32_t *v)
{
	uint64_t n;

	if (!cmd_parse_u64(s, &n) || n > UINT32_MAX)
		return false;
	*v = (uint32_t)n;
	return true;
}

/* Pages, or bytes with a suffix; rounded up to a power of two of pages. */
static bool parse_pages(const char *s, size_t *pages)
{
	uint64_t v, page = (uint64_t)sysconf(_SC_PAGESIZE), n = 1;

	if (cmd_parse_size(s, &v))
		v = (v + page - 1) / page;
	else if (!cmd_parse_u64(s, &v))
		return false;
	if (!v || v > UINT64_C(1) << 30)
		return false;
	while (n < v)
		n *= 2;
	*pages = n;
	return true;
}

bool cmd_parse_mmap(struct kernel_options *k, const char *text)
{
	char buf[64], *comma;

	if (snprintf(buf, sizeof(buf), "%s", text) >= (int)sizeof(buf))
		return false;
	comma = strchr(buf, ',');
	if (comma)
		*comma++ = '\0';
	if (*buf && !parse_pages(buf, &k->data_pages))
		return false;
	return comma ? parse_pages(comma, &k->aux_pages) : *buf;
}

bool cmd_parse_switch(struct kernel_options *k, const char *text)
{
	k->switch_signal = !text || !strcmp(text, "signal");
	return k->switch_signal || parse_time_ms(text, &k->switch_ms) ||
	       cmd_parse_size(text, &k->switch_size);
}

bool cmd_parse_delay(int *ms, const char *text)
{
	uint32_t v;

	if (!strcmp(text, "-1")) {
		*ms = KERNEL_START_DISABLED;
		return true;
	}
	if (!cmd_parse_u32(text, &v) || v > INT32_MAX)
		return false;
	*ms = (int)v;
	return true;
}

bool cmd_parse_level(struct cmd_options *o, const char *text)
{
	uint32_t v = 1;

	if (text && (!cmd_parse_u32(text, &v) || !v || v > 22))
		return false;
	o->writer.zstd_level = (int)v;
	return true;
}
