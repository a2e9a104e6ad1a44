/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * truthcmp_flow.h: a flow as text, line by line, of any length: "TID HEX" and
 * anything behind it.
 */
#ifndef TOOLS_TRUTHCMP_FLOW_H
#define TOOLS_TRUTHCMP_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define FLOW_LINE_MAX 4096

/* A line, which ends with a NUL; of a longer one its head. */
typedef void flow_line_fn(void *ctx, const char *line);

static inline const char *flow_skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

static inline int flow_hex_digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	ch |= 0x20;
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* "TID HEX", blanks around, anything behind. The line ends with a NUL. */
static inline bool flow_parse(const char *p, uint32_t *tid, uint64_t *ip)
{
	uint64_t v = 0;
	int d;

	p = flow_skip_blanks(p);
	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (uint64_t)(*p - '0');
	if (*p != ' ' && *p != '\t')
		return false;
	*tid = (uint32_t)v;
	p = flow_skip_blanks(p);
	if (p[0] == '0' && p[1] == 'x')
		p += 2;
	if (flow_hex_digit(*p) < 0)
		return false;
	for (v = 0; (d = flow_hex_digit(*p)) >= 0; p++)
		v = v << 4 | (uint64_t)d;
	*ip = v;
	return *p == 0 || *p == ' ' || *p == '\t' || *p == '\r';
}

/* Reads the flow in large pieces; lines are cut in place. 0, or -1: errno. */
static inline int flow_read(int fd, flow_line_fn *take, void *ctx)
{
	static char buf[(1 << 20) + FLOW_LINE_MAX + 1];
	size_t kept = 0;
	ssize_t got;

	while ((got = read(fd, buf + kept, 1 << 20)) > 0) {
		char *p = buf, *end = buf + kept + got, *nl;

		while ((nl = memchr(p, '\n', (size_t)(end - p)))) {
			*nl = 0;
			take(ctx, p);
			p = nl + 1;
		}
		kept = (size_t)(end - p);
		if (kept > FLOW_LINE_MAX)	/* no line of ours: its head */
			kept = FLOW_LINE_MAX;
		memmove(buf, p, kept);
	}
	if (kept) {
		buf[kept] = 0;
		take(ctx, buf);
	}
	return got < 0 ? -1 : 0;
}

#endif
