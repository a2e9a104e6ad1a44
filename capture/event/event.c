/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * event: parses event specifications, and turns terms into config bits.
 *
 * Invariant: nothing is ignored. A term, a value or a modifier that cannot be
 * honoured is an error that names the legal ones.
 *
 *	spec      = name [ ":" modifiers ]
 *	          | subsystem ":" tracepoint [ ":" modifiers ]
 *	          | name "/" [ terms ] "/" [ modifiers ]
 *	          | "mem:" address [ "/" length ] [ ":" access ] [ ":" modifiers ]
 *	          | subsystem ":" tracepoint "/" [ terms ] "/" [ modifiers ]
 *	terms     = term { "," term }
 *	term      = name [ "=" value ] | "@" name
 *	modifiers = one or more of EVENT_MODIFIERS
 *
 * Specification: perf-record(1) on -e, "a symbolically formed PMU event"; the
 * format directories under /sys/bus/event_source/devices.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "capture/event/event.h"

#define TEXT_MAX 1024

int event_refuse(struct aux_diag *diag, const struct event_spec *spec,
		 const char *fmt, ...)
{
	char text[384];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET, "event '%.80s': %s",
			spec->text, text);
}

/* A list for a message, truncated at the end of its buffer. */
struct list {
	char text[320];
	size_t len;
};

__attribute__((format(printf, 2, 3)))
static void list_add(struct list *l, const char *fmt, ...)
{
	size_t room = sizeof(l->text) - l->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->text + l->len, room, fmt, ap);
	va_end(ap);
	l->len += (size_t)n < room ? (size_t)n : room - 1;
}

static const char *modifier_text(char c)
{
	switch (c) {
	case 'u':
		return "u (user)";
	case 'k':
		return "k (kernel)";
	case 'h':
		return "h (hypervisor)";
	case 'p':
		return "p (precise, up to ppp)";
	case 'P':
		return "P (as precise as can be)";
	case 'S':
		return "S (read the group in samples)";
	case 'G':
		return "G (guests)";
	case 'H':
		return "H (the host)";
	case 'D':
		return "D (pinned)";
	case 'e':
		return "e (exclusive)";
	default:
		return "I (not when idle)";
	}
}

/* The error for a modifier: legal is a string of the possible ones. */
static int refuse_modifier(struct aux_diag *diag, const struct event_spec *spec,
			   char c, const char *legal)
{
	struct list l = { .len = 0 };

	for (; *legal; legal++)
		list_add(&l, "%s%s", !l.len ? "" : legal[1] ? ", " : " and ",
			 modifier_text(*legal));
	return event_refuse(diag, spec, "modifier '%c' %s; legal are %s", c,
			    strchr(EVENT_MODIFIERS, c) ? "has no use here" :
							 "is unknown", l.text);
}

static bool set_modifier(struct event_spec *spec, char c)
{
	switch (c) {
	case 'u':
		spec->user = true;
		return true;
	case 'k':
		spec->kernel = true;
		return true;
	case 'h':
		spec->hypervisor = true;
		return true;
	case 'p':
		return ++spec->precise <= 3;
	case 'P':
		spec->precise_max = true;
		return true;
	case 'S':
		spec->sample_read = true;
		return true;
	case 'G':
		spec->guest = true;
		return true;
	case 'H':
		spec->host = true;
		return true;
	case 'D':
		spec->pinned = true;
		return true;
	case 'e':
		spec->exclusive = true;
		return true;
	case 'I':
		spec->no_idle = true;
		return true;
	}
	return false;
}

int event_modify(struct event_spec *spec, const char *modifiers,
		 struct aux_diag *diag)
{
	bool levels = strpbrk(spec->modifiers, "ukh");

	/* As perf's {a:u,b}:k: an event's own levels win over the group's. */
	if (!levels && strpbrk(modifiers, "ukh"))
		spec->user = spec->kernel = spec->hypervisor = false;
	for (; *modifiers; modifiers++) {
		spec->has_modifiers = true;
		if (levels && strchr("ukh", *modifiers))
			continue;
		if (!set_modifier(spec, *modifiers))
			return refuse_modifier(diag, spec, *modifiers,
					       EVENT_MODIFIERS);
	}
	return 0;
}

int event_only(const struct event_spec *spec, const char *legal,
	       struct aux_diag *diag)
{
	const char *p = spec->modifiers + strspn(spec->modifiers, legal);

	return *p ? refuse_modifier(diag, spec, *p, legal) : 0;
}

/* The event's own modifiers; without u, k or h all levels are traced. */
static int parse_modifiers(struct event_spec *spec, const char *p,
			   struct aux_diag *diag)
{
	spec->modifiers = "";
	spec->user = spec->kernel = spec->hypervisor = true;
	if (event_modify(spec, p, diag))
		return -AUX_E_INVAL;
	spec->modifiers = p;
	return 0;
}

/* Splits the text between the slashes into terms, in place. */
static int parse_terms(struct event_spec *spec, char *p, struct aux_diag *diag)
{
	size_t n = 1;
	char *s;

	if (!*p)
		return 0;
	for (s = p; *s; s++)
		n += *s == ',';
	spec->terms = calloc(n, sizeof(*spec->terms));
	if (!spec->terms)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	while (p) {
		struct event_term *t = &spec->terms[spec->n_terms++];
		char *next = strchr(p, ','), *eq;

		if (next)
			*next++ = '\0';
		eq = strchr(p, '=');
		if (eq)
			*eq++ = '\0';
		if (!*p || (eq && !*eq))
			return event_refuse(diag, spec, eq && *p ?
				      "a term has no value after its '='" :
				      "a term is empty");
		t->name = p;
		t->value = eq;
		p = next;
	}
	return 0;
}

static bool is_name(const char *s)
{
	return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz"
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")];
}

/* What follows a colon: the name of a tracepoint, or modifiers? "sched:k" is
 * taken as an event with a modifier, since all its characters are modifiers. */
static bool is_tracepoint(const char *p)
{
	size_t n = strcspn(p, ":/");

	return n && (p[n] || strspn(p, EVENT_MODIFIERS) < n);
}

/* r, w, rw or x; 0: something else. */
static uint32_t breakpoint_type(const char *p, size_t n)
{
	static const struct {
		const char *text;
		uint32_t type;
	} types[] = {
		{ "r", HW_BREAKPOINT_R }, { "w", HW_BREAKPOINT_W },
		{ "rw", HW_BREAKPOINT_RW }, { "wr", HW_BREAKPOINT_RW },
		{ "x", HW_BREAKPOINT_X },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strlen(types[i].text) == n && !memcmp(types[i].text, p, n))
			return types[i].type;
	return 0;
}

/* What follows mem: as perf takes it. Without an access: rw. */
static int parse_breakpoint(struct event_spec *spec, char *p, struct aux_diag *diag)
{
	static const char form[] = "the form is mem:ADDRESS[/LENGTH][:r|w|rw|x][:MODIFIERS], as "
				   "mem:0x401136:x or mem:0x404040/8:w";
	bool has_len;
	char *end;
	size_t n;

	spec->pmu = "mem";
	errno = 0;
	spec->bp_addr = strtoull(p, &end, 0);
	if (*p < '0' || *p > '9' || errno)
		return event_refuse(diag, spec, "%s", form);
	has_len = *end == '/';
	if (has_len)
		spec->bp_len = strtoull(end + 1, &end, 0);
	spec->bp_type = HW_BREAKPOINT_RW;
	n = *end == ':' ? strcspn(end + 1, ":") : 0;
	if (n && breakpoint_type(end + 1, n)) {
		spec->bp_type = breakpoint_type(end + 1, n);
		end += 1 + n;
	}
	if (!has_len)
		spec->bp_len = spec->bp_type == HW_BREAKPOINT_X ? sizeof(long) :
								  HW_BREAKPOINT_LEN_4;
	if (!spec->bp_len || spec->bp_len > HW_BREAKPOINT_LEN_8 ||
	    (*end && (*end != ':' || !end[1] ||
		      end[1 + strspn(end + 1, EVENT_MODIFIERS)])))
		return event_refuse(diag, spec, "%s", form);
	return parse_modifiers(spec, *end ? end + 1 : end, diag);
}

/* Splits spec->words in place by its first '/' or ':'. */
static int parse(struct event_spec *spec, struct aux_diag *diag)
{
	char *p = strpbrk(spec->words, "/:"), *terms = NULL, *end;
	int ret;

	if (!strncmp(spec->words, "mem:", 4))
		return parse_breakpoint(spec, spec->words + 4, diag);
	spec->pmu = spec->words;
	if (p && *p == ':' && is_tracepoint(p + 1)) {
		*p = '\0';
		spec->tracepoint = p + 1;
		p = strpbrk(p + 1, "/:");
	}
	if (p && *p == '/') {
		terms = p + 1;
		end = strchr(terms, '/');
		if (!end)
			return event_refuse(diag, spec, "the '/' after the "
					    "terms is missing: "
					    "PMU/TERMS/MODIFIERS");
		*end = '\0';
		spec->slashes = true;
	} else {
		end = p;
	}
	if (p)
		*p = '\0';
	if (!is_name(spec->pmu))
		return event_refuse(diag, spec, "no name of a PMU before '/'; "
				    "the form is PMU/TERMS/MODIFIERS");
	if (spec->tracepoint && !is_name(spec->tracepoint))
		return event_refuse(diag, spec, "no name of a tracepoint "
				    "after ':'; the form is SUBSYSTEM:NAME, each its own -e: "
				    "`auxcap list %.40s` lists them", spec->pmu);
	ret = parse_modifiers(spec, end ? end + 1 : "", diag);
	if (!ret && terms)
		ret = parse_terms(spec, terms, diag);
	return ret;
}

int event_parse(struct event_spec *spec, const char *text,
		struct aux_diag *diag)
{
	int ret;

	memset(spec, 0, sizeof(*spec));
	if (strlen(text) > TEXT_MAX)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"an event of more than %d characters",
				TEXT_MAX);
	spec->text = strdup(text);
	spec->words = strdup(text);
	if (!spec->text || !spec->words)
		ret = diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
			       "out of memory");
	else
		ret = parse(spec, diag);
	if (ret)
		event_fini(spec);
	return ret;
}

void event_fini(struct event_spec *spec)
{
	free(spec->text);
	free(spec->words);
	free(spec->terms);
	memset(spec, 0, sizeof(*spec));
}

const struct event_term *event_term(const struct event_spec *spec,
				    const char *name)
{
	size_t i;

	for (i = spec->n_terms; i-- > 0;)
		if (!strcmp(spec->terms[i].name, name))
			return &spec->terms[i];
	return NULL;
}

bool event_has(const struct event_spec *spec, const char *name)
{
	return event_term(spec, name) != NULL;
}

/* The largest value of the field's width. */
static uint64_t field_max(const struct event_field *f)
{
	return (UINT64_C(2) << (f->hi - f->lo)) - 1;
}

static const struct event_field *find_field(const struct event_field *fields,
					    size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

uint64_t event_get(const struct event_field *fields, size_t n_fields,
		   const char *name, uint64_t config)
{
	const struct event_field *f = find_field(fields, n_fields, name);

	return f ? config >> f->lo & field_max(f) : 0;
}

/* Whether name is one of the caller's own terms. */
static bool in_words(const char *const *words, const char *name)
{
	for (; words && *words; words++)
		if (!strcmp(*words, name))
			return true;
	return false;
}

/* The legal values as "0-3, 6, 9". */
static void list_values(struct list *l, const struct event_field *f)
{
	uint64_t v, end, max = field_max(f);

	for (v = 0; v <= max; v = end + 1) {
		end = v;
		if (!(f->legal >> v & 1))
			continue;
		while (end < max && f->legal >> (end + 1) & 1)
			end++;
		list_add(l, "%s%llu", l->len ? ", " : "",
			 (unsigned long long)v);
		if (end > v)
			list_add(l, "%s%llu", end > v + 1 ? "-" : ", ",
				 (unsigned long long)end);
	}
}

/* The error for a value: lists the legal ones and what limits them. */
static int refuse_value(struct aux_diag *diag, const struct event_spec *spec,
			const struct event_field *f, const char *value)
{
	struct list l = { .len = 0 };

	list_values(&l, f);
	return event_refuse(diag, spec, "%s=%.40s is not possible; legal: %s%s%s%s",
		      f->name, value, l.text, f->why ? " (" : "",
		      f->why ? f->why : "", f->why ? ")" : "");
}

/* The error for an unknown term: lists the known ones. */
static int refuse_term(struct aux_diag *diag, const struct event_spec *spec,
		       const struct event_field *fields, size_t n,
		       const char *const *words, const char *name)
{
	struct list l = { .len = 0 };
	size_t i;

	for (i = 0; i < n; i++)
		list_add(&l, "%s%s", i ? ", " : "", fields[i].name);
	for (; words && *words; words++)
		list_add(&l, ", %s", *words);
	return event_refuse(diag, spec, "%s has no term '%.40s'; it has: %s",
		      spec->pmu, name, l.text);
}

bool event_number(const char *s, uint64_t *v)
{
	char *end;

	if (!s) {
		*v = 1;
		return true;
	}
	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*v = strtoull(s, &end, 0);
	return !*end && !errno;
}

/* After config=N: every field must have a legal value, and no bit lie
 * outside. */
static int check_config(const struct event_spec *spec,
			const struct event_field *fields, size_t n,
			uint64_t config, struct aux_diag *diag)
{
	uint64_t rest = config;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct event_field *f = &fields[i];
		uint64_t v = config >> f->lo & field_max(f);
		char text[24];

		rest &= ~(field_max(f) << f->lo);
		if (f->legal >> v & 1)
			continue;
		snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
		return refuse_value(diag, spec, f, text);
	}
	if (rest)
		return event_refuse(diag, spec, "config bits %#llx mean nothing to "
			      "%s", (unsigned long long)rest, spec->pmu);
	return 0;
}

int event_config(const struct event_spec *spec,
		 const struct event_field *fields, size_t n_fields,
		 const char *const *words, uint64_t *config,
		 struct aux_diag *diag)
{
	uint64_t bits = *config, v = 0;
	size_t i;
	int ret = event_only(spec, "uk", diag);

	for (i = 0; !ret && i < spec->n_terms; i++) {
		const struct event_term *t = &spec->terms[i];
		const struct event_field *f;
		bool number = event_number(t->value, &v);

		if (in_words(words, t->name)) {
			if (t->value)
				return event_refuse(diag, spec,
					      "%s takes no value", t->name);
			continue;
		}
		if (!strcmp(t->name, "config") && t->value && number) {
			bits = v;
			continue;
		}
		f = find_field(fields, n_fields, t->name);
		if (!f)
			return refuse_term(diag, spec, fields, n_fields, words,
					   t->name);
		if (!number || v > field_max(f) || !(f->legal >> v & 1))
			return refuse_value(diag, spec, f,
					    t->value ? t->value : "1");
		bits = (bits & ~(field_max(f) << f->lo)) | v << f->lo;
	}
	if (!ret)
		ret = check_config(spec, fields, n_fields, bits, diag);
	if (!ret)
		*config = bits;
	return ret;
}
