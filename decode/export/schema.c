/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema: see impl.h. A line is a rule, words apart by blanks, "#" begins a
 * comment:
 *
 *	ptwrite|stm|itm|marker|ite PLACE counter|span-begin|span-end|event NAME FIELD...
 *
 * PLACE is *, an address or SYMBOL[+0xOFFSET], MASTER/CHANNEL, PORT; FIELD is
 * name:LOW[-HIGH][:signed][=VALUE]. The first rule that fits a value is taken, so
 * special rules stand before general ones. The whole file is checked before
 * anything is decoded: a rule that silently never fits would be worse than an
 * error.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/export/impl.h"

#define MAX_SIZE  ((size_t)1 << 20)
#define MAX_RULES 65536
#define MAX_WORDS (4 + SCHEMA_FIELDS)

struct schema {
	struct schema_rule *rules;
	size_t n;
};

/* Where the parser is, for messages. offset is that of the line. */
struct parse {
	struct schema *s;
	const char *what;
	struct aux_diag *diag;
	uint32_t line;
	size_t offset;
};

/* -AUX_E_INVAL, with file, line and text in diag. */
__attribute__((format(printf, 2, 3)))
static int refuse(const struct parse *p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (p->diag) {
		p->diag->code = AUX_E_INVAL;
		p->diag->offset = p->offset;
		snprintf(p->diag->text, sizeof(p->diag->text),
			 "%.80s, line %u: %s", p->what, p->line, text);
	}
	return -AUX_E_INVAL;
}

/* Decimal, or 0x; the whole word. No sign: strtoull would take one. */
static bool parse_number(const char *s, uint64_t *v)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*v = strtoull(s, &end, 0);
	return !*end && !errno;
}

/* An address, or a function: all of it, or an offset in it. */
static int parse_ptwrite(const struct parse *p, struct schema_rule *r,
			 const char *word)
{
	const char *plus = strchr(word, '+');

	if (*word >= '0' && *word <= '9')
		return parse_number(word, &r->place)
			       ? 0 : refuse(p, "%s is no address", word);
	if (plus && !parse_number(plus + 1, &r->place))
		return refuse(p, "%s is no offset", plus + 1);
	r->symbol = plus ? strndup(word, (size_t)(plus - word)) : strdup(word);
	r->anywhere = false;
	/* without an offset all of the function */
	if (!plus)
		r->place = UINT64_MAX;
	return r->symbol ? 0 : -AUX_E_NOMEM;
}

/* "*" as master is any; the channel is a number. */
static int parse_stm(const struct parse *p, struct schema_rule *r, char *word)
{
	char *slash = strchr(word, '/');
	uint64_t master = 0, channel;

	if (!slash)
		return refuse(p, "%s: a place of STM is MASTER/CHANNEL", word);
	*slash = 0;
	r->any_master = !strcmp(word, "*");
	if ((!r->any_master && !parse_number(word, &master)) ||
	    !parse_number(slash + 1, &channel) || master > UINT32_MAX ||
	    channel > UINT32_MAX)
		return refuse(p, "%s/%s: a place of STM is MASTER/CHANNEL",
			      word, slash + 1);
	r->place = AUX_STM_IP(master, channel);
	return 0;
}

/* By the kind of payload. */
static int parse_place(const struct parse *p, struct schema_rule *r, char *word)
{
	if (!strcmp(word, "*")) {
		r->anywhere = true;
		return 0;
	}
	switch (r->from) {
	case AUX_PAYLOAD_PTWRITE:
		return parse_ptwrite(p, r, word);
	case AUX_PAYLOAD_ITM:
		return parse_number(word, &r->place)
			       ? 0 : refuse(p, "%s is no port", word);
	case AUX_PAYLOAD_ITE:
		return parse_number(word, &r->place)
			       ? 0 : refuse(p, "%s is no exception level", word);
	default:
		return parse_stm(p, r, word);
	}
}

/* name:LOW[-HIGH][:signed][=VALUE]; the word is cut in pieces, in place. */
static int parse_field(const struct parse *p, struct schema_rule *r, char *word)
{
	struct schema_field *f = &r->fields[r->n_fields];
	char *want = strchr(word, '='), *bits = strchr(word, ':'), *more, *dash;
	uint64_t low, high;

	if (want)
		*want++ = 0;
	if (!bits || bits == word || (want && bits > want))
		return refuse(p, "%s is no field: name:LOW-HIGH", word);
	*bits++ = 0;
	more = strchr(bits, ':');
	if (more)
		*more++ = 0;
	dash = strchr(bits, '-');
	if (dash)
		*dash++ = 0;
	if (!parse_number(bits, &low) ||
	    (dash ? !parse_number(dash, &high) : (high = low, false)) ||
	    high > 63 || low > high)
		return refuse(p, "field %s: bits are LOW-HIGH, from 0 to 63",
			      word);
	if (more && strcmp(more, "signed"))
		return refuse(p, "field %s: \"%s\" is not \"signed\"", word,
			      more);
	if (want && !parse_number(want, &f->want))
		return refuse(p, "field %s: \"%s\" is no number", word, want);
	f->low = (uint8_t)low;
	f->high = (uint8_t)high;
	f->is_signed = more;
	f->has_want = want;
	f->name = strdup(word);
	if (!f->name)
		return -AUX_E_NOMEM;
	r->n_fields++;
	return 0;
}

/* -1: none of them. */
static int find_word(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(word, words[i]))
			return (int)i;
	return -1;
}

/* The rule is in the list already: schema_free frees what it has on failure. */
static int parse_rule(const struct parse *p, struct schema_rule *r,
		      char **words, unsigned n)
{
	static const char *const from[] = { "ptwrite", "stm", "itm", "marker",
					    "ite" };
	static const char *const what[] = { "counter", "span-begin", "span-end",
					    "event" };
	int i, err;

	if (n < 4)
		return refuse(p, "a rule is: KIND PLACE WHAT NAME [FIELD...]");
	i = find_word(words[0], from, 5);
	if (i < 0)
		return refuse(p, "\"%s\" is not one of ptwrite, stm, itm, marker, ite",
			      words[0]);
	r->from = (uint8_t)i;
	i = find_word(words[2], what, 4);
	if (i < 0)
		return refuse(p, "\"%s\" is not one of counter, span-begin, "
			      "span-end, event", words[2]);
	r->what = (enum schema_what)i;
	err = parse_place(p, r, words[1]);
	if (err)
		return err;
	r->name = strdup(words[3]);
	if (!r->name)
		return -AUX_E_NOMEM;
	for (unsigned k = 4; k < n && !err; k++)
		err = parse_field(p, r, words[k]);
	return err;
}

/* Cuts the line in words, in place. */
static int parse_line(struct parse *p, char *line)
{
	char *words[MAX_WORDS + 1], *hash = strchr(line, '#');
	struct schema_rule *r;
	unsigned n = 0;

	if (hash)
		*hash = 0;
	for (char *w = line; *(w += strspn(w, " \t\r")); n++) {
		if (n == MAX_WORDS)
			return refuse(p, "more than %d fields", SCHEMA_FIELDS);
		words[n] = w;
		w += strcspn(w, " \t\r");
		if (*w)
			*w++ = 0;
	}
	if (!n)
		return 0;
	if (p->s->n == MAX_RULES)
		return refuse(p, "more than %d rules", MAX_RULES);
	r = reallocarray(p->s->rules, p->s->n + 1, sizeof(*r));
	if (!r)
		return -AUX_E_NOMEM;
	p->s->rules = r;
	r += p->s->n++;
	*r = (struct schema_rule){ .line = p->line };
	return parse_rule(p, r, words, n);
}

/* Lines are copied one by one: the parser writes NULs between words. */
int schema_parse(struct schema **out, const char *text, size_t len,
		 const char *what, struct aux_diag *diag)
{
	struct parse p = { .what = what, .diag = diag };
	int err = 0;

	*out = NULL;
	p.s = calloc(1, sizeof(*p.s));
	if (!p.s)
		return -AUX_E_NOMEM;
	while (p.offset < len && !err) {
		const char *start = text + p.offset;
		const char *nl = memchr(start, '\n', len - p.offset);
		size_t n = nl ? (size_t)(nl - start) : len - p.offset;
		char *line = strndup(start, n);

		p.line++;
		if (!line)
			err = -AUX_E_NOMEM;
		else if (strlen(line) != n)
			err = refuse(&p, "a NUL byte: this is no text");
		else
			err = parse_line(&p, line);
		free(line);
		p.offset += n + 1;
	}
	if (!err && !p.s->n)
		err = refuse(&p, "no rule in it");
	if (err)
		schema_free(p.s);
	else
		*out = p.s;
	return err;
}

/* At most MAX_SIZE is read, so a device or a wrong file does no harm. */
int schema_load(struct schema **s, const char *path, struct aux_diag *diag)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t n = 0;
	int err = 0;

	*s = NULL;
	if (f)
		text = malloc(MAX_SIZE + 1);
	if (f && text)
		n = fread(text, 1, MAX_SIZE + 1, f);
	if (!f || (text && ferror(f)) || n > MAX_SIZE) {
		err = -AUX_E_INVAL;
		if (diag) {
			diag->code = AUX_E_INVAL;
			snprintf(diag->text, sizeof(diag->text),
				 "--schema %.300s: %s", path,
				 n > MAX_SIZE ? "larger than 1 MB: this is no "
						"schema" : strerror(errno));
		}
	} else {
		err = text ? schema_parse(s, text, n, path, diag)
			   : -AUX_E_NOMEM;
	}
	free(text);
	if (f)
		fclose(f);
	return err;
}

void schema_free(struct schema *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		for (uint32_t k = 0; k < s->rules[i].n_fields; k++)
			free(s->rules[i].fields[k].name);
		free(s->rules[i].symbol);
		free(s->rules[i].name);
	}
	free(s->rules);
	free(s);
}

/* A shift by 64 is undefined, so all 64 bits are a case of their own. */
uint64_t schema_value(const struct schema_field *f, uint64_t value)
{
	unsigned n = f->high - f->low + 1u;
	uint64_t v = value >> f->low;

	if (n == 64)
		return v;
	v &= (UINT64_C(1) << n) - 1;
	if (f->is_signed && v >> (n - 1))
		v |= ~UINT64_C(0) << n;
	return v;
}

const struct schema_field *schema_field(const struct schema_rule *r,
					const char *name)
{
	for (uint32_t i = 0; i < r->n_fields; i++)
		if (!strcmp(r->fields[i].name, name))
			return &r->fields[i];
	return NULL;
}

struct place_of {
	schema_symbol_fn *symbol;
	void *priv;
	bool asked, known;
	const char *name;
	uint64_t offset;
};

/* The symbol is looked up for the first rule that needs it, once per value. */
static bool fits_place(const struct schema_rule *r, const struct aux_flow *ev,
		       struct place_of *at)
{
	if (r->anywhere)
		return true;
	if (ev->what == AUX_PAYLOAD_PTWRITE && !(ev->flags & AUX_FLOW_HAS_IP))
		return false;
	if (!r->symbol)
		return r->any_master ? (uint32_t)r->place ==
					       (uint32_t)ev->payload.ip
				     : r->place == ev->payload.ip;
	if (!at->asked) {
		at->asked = true;
		at->known = at->symbol && at->symbol(at->priv, ev->payload.ip,
						     &at->name, &at->offset);
	}
	return at->known && !strcmp(at->name, r->symbol) &&
	       (r->place == UINT64_MAX || r->place == at->offset);
}

const struct schema_rule *schema_find(const struct schema *s,
				      const struct aux_flow *ev,
				      schema_symbol_fn *symbol, void *priv)
{
	struct place_of at = { .symbol = symbol, .priv = priv };

	for (size_t i = 0; s && i < s->n; i++) {
		const struct schema_rule *r = &s->rules[i];
		bool fits = r->from == ev->what && fits_place(r, ev, &at);

		for (uint32_t k = 0; fits && k < r->n_fields; k++)
			fits = !r->fields[k].has_want ||
			       schema_value(&r->fields[k], ev->payload.value) ==
				       r->fields[k].want;
		if (fits)
			return r;
	}
	return NULL;
}
