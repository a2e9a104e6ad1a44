/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tap.h: the smallest TAP producer. A unit test is one program:
 *
 *	int main(void)
 *	{
 *		ok(1 + 1 == 2, "sum of %d and %d", 1, 1);
 *		skip("no such CPU here");
 *		return plan_done();
 *	}
 *
 * ok() returns its condition, so a test can stop early. plan_done() prints the
 * plan and returns the exit status: 0, or 1 when anything failed or nothing ran.
 */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static unsigned int tap_count;
static unsigned int tap_failed;

__attribute__((format(printf, 4, 5), unused))
static int tap_ok(int cond, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	tap_count++;
	if (!cond)
		tap_failed++;
	printf("%sok %u - ", cond ? "" : "not ", tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (!cond)
		printf("#   at %s:%d\n", file, line);
	fflush(stdout);
	return cond;
}

__attribute__((unused))
static int tap_eq(uint64_t got, uint64_t want, const char *file, int line, const char *what)
{
	int same = tap_ok(got == want, file, line, "%s", what);

	if (!same)
		printf("#   got  %" PRIu64 " (%#" PRIx64 ")\n#   want %" PRIu64 " (%#" PRIx64 ")\n",
		       got, got, want, want);
	return same;
}

__attribute__((unused))
static int tap_str(const char *got, const char *want, const char *file, int line, const char *what)
{
	int same = tap_ok(got && want ? !strcmp(got, want) : got == want, file, line, "%s", what);

	if (!same)
		printf("#   got  \"%s\"\n#   want \"%s\"\n", got ? got : "(null)",
		       want ? want : "(null)");
	return same;
}

/* One test that cannot run here, counted as passed by TAP, with the reason shown. */
__attribute__((unused))
static void skip(const char *reason)
{
	tap_count++;
	printf("ok %u - skipped # SKIP %s\n", tap_count, reason);
	fflush(stdout);
}

__attribute__((unused))
static int plan_done(void)
{
	printf("1..%u\n", tap_count);
	fflush(stdout);
	return tap_failed || !tap_count;
}

#define ok(cond, ...)		tap_ok(!!(cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_u64(got, want, what)	tap_eq((uint64_t)(got), (uint64_t)(want), __FILE__, __LINE__, what)
#define is_str(got, want, what)	tap_str(got, want, __FILE__, __LINE__, what)

#endif
