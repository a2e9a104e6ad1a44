/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values of options that only auxcap has: rings, sizes with a suffix, rotation.
 * A value is right as a whole or refused; nothing is wrapped or read in part.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/cmd/cmd.h"

/* A number and one of the suffixes, which multiplies it by the factor beside
 * it. */
/* False also where the product would not fit. */
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

/* Bytes: the suffix is needed, since a bare number means pages elsewhere. */
static bool parse_size(const char *s, uint64_t *v)
{
	static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, 1 << 30 };

	return s[strspn(s, "0123456789")] &&
	       parse_scaled(s, "BKMG", factors, v);
}

/* "30s", "10m", "1h", "1d" as perf record --switch-output has them; at most 49
 * days. */
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

static bool parse_u32(const char *s, uint32_t *v)
{
	uint64_t n;

	if (!option_read_number(s, UINT32_MAX, &n))
		return false;
	*v = (uint32_t)n;
	return true;
}

/* Pages, or bytes with a suffix; rounded up to a power of two of pages. */
static bool parse_pages(const char *s, size_t *pages)
{
	uint64_t v, page = (uint64_t)sysconf(_SC_PAGESIZE), n = 1;

	if (parse_size(s, &v))
		v = (v + page - 1) / page;
	else if (!option_read_number(s, UINT64_MAX, &v))
		return false;
	if (!v || v > UINT64_C(1) << 30)
		return false;
	while (n < v)
		n *= 2;
	*pages = n;
	return true;
}

/* DATA[,AUX]; DATA may be empty where AUX is there. */
/* perf record -m takes the same words. */
static bool parse_rings(struct kernel_options *k, const char *text)
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

/* Rows of these parsers have no offset: most values are in two or three
 * members. */
static struct kernel_options *kernel_of(void *config)
{
	return &((struct cmd_options *)config)->kernel;
}

/* "-D wants WHAT, not "X""; right: the value was. */
static int check(bool right, const struct option_row *row, const char *what,
		 const char *arg, struct aux_diag *diag)
{
	struct option_label label;

	return right ? 0 :
		option_refuse(diag, "%s wants %s, not \"%s\"",
			      option_label(row, &label), what, arg ? arg : "");
}

int cmd_parse_when(const struct option_row *row, void *config, const char *arg,
		   struct aux_diag *diag)
{
	(void)row;
	return trigger_add(&((struct cmd_options *)config)->when, arg, diag);
}

int cmd_parse_window(const struct option_row *row, void *config, const char *arg,
		     struct aux_diag *diag)
{
	struct triggers *t = &((struct cmd_options *)config)->windows;
	const struct trigger *tr = &t->v[t->n];
	int err = trigger_add(t, arg, diag);

	(void)row;
	if (err)
		return err;
	if (tr->kind == TRIGGER_FUNCTION && tr->name && strchr(tr->name, '+'))
		return option_refuse(diag, "--window \"%.60s\": a window ends where the call "
				     "returns: the kernel pauses a trace at an event, not "
				     "after a time. -S --when FUNCTION --when-delay TIME "
				     "takes what came after", arg);
	if ((tr->kind == TRIGGER_FUNCTION || (tr->kind == TRIGGER_KPROBE && !tr->addr)) &&
	    !tr->longer_ns)
		return 0;
	return option_refuse(diag, "--window wants a function, which begins and returns, not "
			     "\"%.60s\"; -S --when takes others", arg);
}

int cmd_parse_mmap(const struct option_row *row, void *config, const char *arg,
		   struct aux_diag *diag)
{
	return check(parse_rings(kernel_of(config), arg), row,
		     "DATA[,AUX] in pages or bytes (512K,8M)", arg, diag);
}

/* As perf record: a bare --switch-output means "signal". */
int cmd_parse_switch(const struct option_row *row, void *config,
		     const char *arg, struct aux_diag *diag)
{
	struct kernel_options *k = kernel_of(config);

	k->switch_signal = !arg || !strcmp(arg, "signal");
	return check(k->switch_signal || parse_time_ms(arg, &k->switch_ms) ||
		     parse_size(arg, &k->switch_size), row,
		     "a size (1G), a time (30s) or signal", arg, diag);
}

/* As perf record -D; -1 starts with all events disabled. */
int cmd_parse_delay(const struct option_row *row, void *config, const char *arg,
		    struct aux_diag *diag)
{
	struct kernel_options *k = kernel_of(config);
	uint64_t v = 0;

	if (!strcmp(arg, "-1")) {
		k->delay_ms = KERNEL_START_DISABLED;
		return 0;
	}
	if (check(option_read_number(arg, INT32_MAX, &v), row,
		  "milliseconds or -1", arg, diag))
		return -AUX_E_INVAL;
	k->delay_ms = (int)v;
	return 0;
}

/* The levels of zstd; perf record -z takes the same ones, 1 by default. */
int cmd_parse_level(const struct option_row *row, void *config, const char *arg,
		    struct aux_diag *diag)
{
	struct cmd_options *o = config;
	uint64_t v = 1;

	if (check(!arg || (option_read_number(arg, 22, &v) && v), row,
		  "a level from 1 to 22", arg, diag))
		return -AUX_E_INVAL;
	o->writer.zstd_level = (int)v;
	return 0;
}

int cmd_parse_threads(const struct option_row *row, void *config,
		      const char *arg, struct aux_diag *diag)
{
	struct kernel_options *k = kernel_of(config);

	return check(parse_u32(arg, &k->n_threads) && k->n_threads, row,
		     "a number", arg, diag);
}

int cmd_parse_max_size(const struct option_row *row, void *config,
		       const char *arg, struct aux_diag *diag)
{
	struct kernel_options *k = kernel_of(config);

	return check(parse_size(arg, &k->max_size) && k->max_size, row,
		     "a size as 512M", arg, diag);
}

int cmd_parse_keep(const struct option_row *row, void *config, const char *arg,
		   struct aux_diag *diag)
{
	struct cmd_options *o = config;

	return check(parse_u32(arg, &o->switch_keep), row, "a number", arg,
		     diag);
}

int cmd_parse_inject(const struct option_row *row, void *config,
		     const char *arg, struct aux_diag *diag)
{
	struct cmd_options *o = config;

	return check(parse_u32(arg, &o->inject_overflow), row, "a number", arg,
		     diag);
}

int cmd_parse_aux_sample(const struct option_row *row, void *config,
			 const char *arg, struct aux_diag *diag)
{
	struct kernel_options *k = kernel_of(config);
	bool right = true;
	uint64_t v = 4096;

	if (arg)
		right = parse_size(arg, &v) ||
			option_read_number(arg, UINT64_MAX, &v);
	/* perf's limit: a sample's size has 16 bits, of which other fields take
	 * some */
	right = right && v >= 8 && v <= 61440 && v % 8 == 0;
	k->aux_sample_size = right ? (uint32_t)v : 0;
	return check(right, row, "a multiple of 8 bytes up to 61440", arg,
		     diag);
}

int cmd_stop_with_flag(const struct option_row *row, void *config,
		       const char *arg, struct aux_diag *diag)
{
	option_flag(row, config, arg, diag);
	return OPTION_STOP;
}

int cmd_stop_with_text(const struct option_row *row, void *config,
		       const char *arg, struct aux_diag *diag)
{
	option_text(row, config, arg, diag);
	return OPTION_STOP;
}
