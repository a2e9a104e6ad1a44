/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options: see options.h. getopt_long(3) splits the words; everything else, its
 * messages included, comes from the rows.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options.h"

/* Rows of one command line, in all of its groups. test_cmd parses a line of
 * every command, so a table that grows past this fails there. */
#define MAX_ROWS 96

unsigned text_distance(const char *a, size_t la, const char *b, size_t lb)
{
	unsigned row[TEXT_DISTANCE_MAX + 1], diag, up, best;

	if (la > TEXT_DISTANCE_MAX || lb > TEXT_DISTANCE_MAX)
		return UINT_MAX;
	for (unsigned j = 0; j <= lb; j++)
		row[j] = j;
	for (size_t i = 1; i <= la; i++) {
		diag = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			up = row[j];
			best = diag + (a[i - 1] != b[j - 1]);
			best = up + 1 < best ? up + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diag = up;
			row[j] = best;
		}
	}
	return row[lb];
}

/* For the parsers of all rows: returns -AUX_E_INVAL, so that they can end with
 * it. */
int option_refuse(struct aux_diag *diag, const char *fmt, ...)
{
	va_list ap;

	diag->code = AUX_E_INVAL;
	diag->offset = AUX_NO_OFFSET;
	va_start(ap, fmt);
	vsnprintf(diag->text, sizeof(diag->text), fmt, ap);
	va_end(ap);
	return -AUX_E_INVAL;
}

/* As a person would have written it: the letter where there is one. */
const char *option_label(const struct option_row *row, struct option_label *buf)
{
	if (row->letter)
		snprintf(buf->text, sizeof(buf->text), "-%c", row->letter);
	else
		snprintf(buf->text, sizeof(buf->text), "--%s", row->name);
	return buf->text;
}

const struct option_row *option_find(const struct option_row *rows,
				     const char *name)
{
	for (; rows && rows->name; rows++)
		if (!strcmp(rows->name, name))
			return rows;
	return NULL;
}

/* ---- values ---- */

/* The field of the config struct that the row names; its type is the parser's
 * affair. */
static void *value_of(const struct option_row *row, void *config)
{
	return (char *)config + row->offset;
}

/* strtoull would also take a sign, spaces and 0x; all of them are refused
 * here. */
bool option_read_number(const char *s, uint64_t max, uint64_t *v)
{
	char *end;

	errno = 0;
	*v = strtoull(s, &end, 10);
	return *s >= '0' && *s <= '9' && !*end && !errno && *v <= max;
}

/* Nanoseconds of the unit s[0..len), seconds without one; 0: there is none of
 * that name. */
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

/*
 * In integers, as a double would round the nanoseconds of an uptime above 104
 * days: the part after the point is scaled digit by digit. Ends at a comma,
 * which separates the two times of a range; returns the place after the time,
 * NULL when it is none.
 */
const char *option_read_time(const char *s, uint64_t *ns)
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

int option_flag(const struct option_row *row, void *config, const char *arg,
		struct aux_diag *diag)
{
	(void)arg, (void)diag;
	*(bool *)value_of(row, config) = true;
	return 0;
}

int option_text(const struct option_row *row, void *config, const char *arg,
		struct aux_diag *diag)
{
	(void)diag;
	*(const char **)value_of(row, config) = arg;
	return 0;
}

int option_number(const struct option_row *row, void *config, const char *arg,
		  struct aux_diag *diag)
{
	uint64_t max = row->max ? row->max : UINT64_MAX;
	uint64_t *v = value_of(row, config);
	struct option_label label;

	if (!option_read_number(arg, max, v))
		return option_refuse(diag,
				     "%s wants a number up to %llu, not \"%s\"",
				     option_label(row, &label),
				     (unsigned long long)max, arg);
	if (!*v && row->zero)
		return option_refuse(diag, "%s %s", option_label(row, &label),
				     row->zero);
	return 0;
}

int option_size(const struct option_row *row, void *config, const char *arg,
		struct aux_diag *diag)
{
	static const char units[] = "KMG";
	size_t n = strspn(arg, "0123456789");
	const char *unit = arg[n] ? strchr(units, arg[n]) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	/* headroom: what is computed from a size must not overflow */
	uint64_t max = (row->max ? row->max : UINT64_MAX >> 16) >> shift;
	uint64_t *v = value_of(row, config);
	struct option_label label;
	char digits[24];

	option_label(row, &label);
	if (!n || n >= sizeof(digits) || (arg[n] && (!unit || arg[n + 1])))
		return option_refuse(diag, "%s wants a size as 64M, not \"%s\"",
				     label.text, arg);
	memcpy(digits, arg, n);
	digits[n] = '\0';
	if (!option_read_number(digits, max, v))
		return option_refuse(diag, "%s wants at most %llu%s, not \"%s\"",
				     label.text, (unsigned long long)max,
				     arg + n, arg);
	if (!*v)
		return option_refuse(diag, "%s wants at least 1 byte",
				     label.text);
	*v <<= shift;
	return 0;
}

int option_duration(const struct option_row *row, void *config, const char *arg,
		    struct aux_diag *diag)
{
	uint64_t *ns = value_of(row, config);
	const char *end = option_read_time(arg, ns);
	struct option_label label;

	if (end && !*end && *ns)
		return 0;
	return option_refuse(diag,
			     "%s wants a time as 10ms, or in seconds, not "
			     "\"%s\"",
			     option_label(row, &label), arg);
}

/* "intel att", "auto always never" -> "auto, always or never". */
static void list_words(const char *values, char *buf, size_t size)
{
	size_t n = 0, len;

	buf[0] = '\0';
	for (const char *w = values; *w && n < size; w += len) {
		w += *w == ' ';
		len = strcspn(w, " ");
		n += (size_t)snprintf(buf + n, size - n, "%s%.*s",
				      w == values ? "" :
				      w[len]	  ? ", " : " or ",
				      (int)len, w);
	}
}

int option_choice(const struct option_row *row, void *config, const char *arg,
		  struct aux_diag *diag)
{
	struct option_label label;
	const char *other = habit_find(row->others, arg);
	unsigned at = 0;
	char list[128];
	size_t len;

	for (const char *w = row->values; *w; w += len, at++) {
		w += *w == ' ';
		len = strcspn(w, " ");
		if (strlen(arg) != len || memcmp(arg, w, len))
			continue;
		*(unsigned *)value_of(row, config) = at;
		return 0;
	}
	list_words(row->values, list, sizeof(list));
	return option_refuse(diag, "%s is %s, not \"%s\"%s%s",
			     option_label(row, &label), list, arg, other ? ": " : "",
			     other ? other : "");
}

/* ---- a command line ---- */

/* The rows of all groups in getopt's words: option i is rows[i], its val 256 +
 * i. */
struct parser {
	const struct option_row *rows[MAX_ROWS];
	void *configs[MAX_ROWS];
	size_t n;
	struct option longs[2 * MAX_ROWS + 1];	/* rows, then their other names */
	char shorts[3 * MAX_ROWS + 3];
};

static bool has_row(const struct parser *p, const struct option_row *row)
{
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->rows[i]->name, row->name))
			return true;
	return false;
}

/* Groups may share a row; the first that has the name counts, with its config.
 * false: there is no room. */
static bool add_row(struct parser *p, const struct option_row *row,
		    void *config)
{
	char *s = p->shorts + strlen(p->shorts);
	size_t n = p->n;

	if (has_row(p, row))
		return true;
	if (n == MAX_ROWS)
		return false;
	p->longs[n] = (struct option){
		.name = row->name,
		.has_arg = !row->arg	 ? no_argument :
			   row->optional ? optional_argument :
					   required_argument,
		.val = 256 + (int)n,
	};
	p->rows[n] = row;
	p->configs[n] = config;
	p->n++;
	if (!row->letter)
		return true;
	*s++ = row->letter;
	if (row->arg)
		*s++ = ':';
	if (row->arg && row->optional)
		*s++ = ':';
	*s = '\0';
	return true;
}

/* "+" first: getopt stops at the first word that is no option, so that the
 * options of a program that is run are left to it. */
static bool init_parser(struct parser *p, const struct option_line *line)
{
	memset(p, 0, sizeof(*p));
	/* ':' tells a missing argument from an unknown option */
	snprintf(p->shorts, sizeof(p->shorts), line->stops ? "+:" : ":");
	for (size_t i = 0; i < line->n_groups; i++)
		for (const struct option_row *row = line->groups[i].rows;
		     row && row->name; row++)
			if (!add_row(p, row, line->groups[i].config))
				return false;
	for (size_t i = 0, n = p->n; i < p->n; i++) {
		if (!p->rows[i]->also)
			continue;
		p->longs[n] = p->longs[i];
		p->longs[n++].name = p->rows[i]->also;
	}
	return true;
}

/* What getopt_long returned for it: a letter, or 256 and its index. */
static size_t find_row(const struct parser *p, int id)
{
	size_t i = 0;

	if (id >= 256)
		return (size_t)id - 256;
	while (i < p->n && p->rows[i]->letter != id)
		i++;
	return i;
}

/* For "did you mean": NULL when nothing is close. */
static const char *find_nearest(const struct parser *p, const char *word)
{
	const char *best = NULL;
	unsigned min = 3;	/* more than two changes is another word */

	for (size_t i = 0; i < p->n; i++) {
		unsigned d = text_distance(word, strlen(word), p->rows[i]->name,
					   strlen(p->rows[i]->name));

		if (d < min) {
			min = d;
			best = p->rows[i]->name;
		}
	}
	return best;
}

const char *habit_find(const struct habit *table, const char *word)
{
	size_t len = strlen(word), n;

	for (; table && table->words; table++)
		for (const char *w = table->words; *w; w += n) {
			w += *w == ' ';
			n = strcspn(w, " ");
			if (n == len && !memcmp(w, word, n))
				return table->answer;
		}
	return NULL;
}

/* Programs whose options are long after one dash: "-trigger" would be taken
 * for -t rigger. */
static const char *single_dash(const struct option_line *line, int argc,
			       char **argv)
{
	const char *word = optind < 1 ? argv[1] : argv[optind];

	if ((optind < 1 ? 1 : optind) >= argc || word[0] != '-' ||
	    word[1] == '-' || strlen(word) < 3)
		return NULL;
	return habit_find(line->habits, word) ? word : NULL;
}

/* getopt_long refused word: why. */
static int refuse_word(const struct option_line *line, const struct parser *p,
		       int what, const char *word, struct aux_diag *diag)
{
	const char letter[] = { '-', (char)optopt, '\0' };
	const char *near, *habit;
	char name[64];

	if (what == ':')
		return option_refuse(diag, "%s wants an argument; see `%s`",
				     word, line->help);
	if (strncmp(word, "--", 2)) {
		habit = habit_find(line->habits, letter);
		return habit ? option_refuse(diag, "%s takes no %s: %s",
					     line->command, letter, habit) :
			       option_refuse(diag, "%s takes no %s; see `%s`",
					     line->command, letter, line->help);
	}
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
	habit = habit_find(line->habits, name);
	if (habit)
		return option_refuse(diag, "%s takes no %s: %s", line->command,
				     name, habit);
	memmove(name, name + 2, strlen(name) - 1);
	for (size_t i = 0; i < p->n; i++)
		if (!strcmp(p->rows[i]->name, name))
			return option_refuse(diag, "--%s takes no argument",
					     name);
	if (line->is_known && line->is_known(name))
		return option_refuse(diag, "%s takes no --%s; see `%s`",
				     line->command, name, line->help);
	near = find_nearest(p, name);
	return near ? option_refuse(diag, "no option --%s; did you mean --%s?",
				    name, near) :
		      option_refuse(diag, "no option --%s; see `%s`", name,
				    line->help);
}

/* False: no room. */
static bool keep_given(struct option_line *line, const struct option_row *row,
		       const char *arg)
{
	if (!line->given)
		return true;
	if (line->n_given == line->max_given)
		return false;
	line->given[line->n_given++] = (struct option_given){ row, arg };
	return true;
}

/* The next word, where it is one that may be the argument of a long option without
 * being joined to it; it is then behind us. NULL: it is not. */
static const char *take_apart(const struct option_row *row, int argc, char **argv)
{
	const char *word = optind < argc ? argv[optind] : NULL;
	size_t len = word ? strcspn(word, ",") : 0, n;

	for (const char *w = row->apart; word && w && *w; w += n) {
		w += *w == ' ';
		n = strcspn(w, " ");
		if (n != len || memcmp(w, word, n))
			continue;
		optind++;
		return word;
	}
	return NULL;
}

/* Errors come as text in diag, never from getopt on stderr: callers print it
 * and choose the exit code. */
int options_parse(struct option_line *line, int argc, char **argv,
		  int *first, struct aux_diag *diag)
{
	struct parser p;
	int id, rc = 0;

	if (!init_parser(&p, line))
		return option_refuse(diag, "%s has more than %d options",
				     line->command, MAX_ROWS);
	opterr = 0;
	optind = 0;	/* of glibc and musl: also forget the line before */
	while (rc == 0) {
		const char *dash = single_dash(line, argc, argv), *arg;
		size_t i;

		if (dash) {
			rc = option_refuse(diag, "no option %s: %s", dash,
					   habit_find(line->habits, dash));
			break;
		}
		id = getopt_long(argc, argv, p.shorts, p.longs, NULL);
		if (id == -1)
			break;
		i = find_row(&p, id);
		if (i >= p.n) {
			rc = refuse_word(line, &p, id, argv[optind - 1], diag);
			break;
		}
		if (p.rows[i]->marked)
			line->marked = p.rows[i];
		arg = optarg || id < 256 ? optarg : take_apart(p.rows[i], argc, argv);
		if (!keep_given(line, p.rows[i], arg)) {
			rc = option_refuse(diag, "more than %zu options",
					   line->max_given);
			break;
		}
		rc = p.rows[i]->parse(p.rows[i], p.configs[i], arg, diag);
	}
	*first = optind;
	return rc;
}

void option_left(const struct option_row *row, char *buf, size_t size)
{
	snprintf(buf, size, "%c%c%c --%s%s%s%s", row->letter ? '-' : ' ',
		 row->letter ? row->letter : ' ', row->letter ? ',' : ' ',
		 row->name,
		 !row->arg	   ? "" :
		 row->optional ? "[=" : " ",
		 row->arg ? row->arg : "",
		 row->arg && row->optional ? "]" : "");
}
