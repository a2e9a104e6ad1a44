/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: why there is no code at an address, as a code and as a sentence
 * with the facts: the file, both build ids, when it was mapped. What the user
 * can do about it depends on the program's options, so the program says that.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "decode/lib/code/impl.h"

struct answer {
	char *buf;
	size_t len, used;
};

__attribute__((format(printf, 2, 3)))
/* Appends to the answer; a full buffer ends it. */
static void say(struct answer *a, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (a->used >= a->len)
		return;
	va_start(ap, fmt);
	n = vsnprintf(a->buf + a->used, a->len - a->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		a->used += (size_t)n;
}

/* " (build id ab.., mapped at 1.000000002)" */
static void say_mapping(struct answer *a, const struct mapping *m,
			const struct file_id *id)
{
	char text[CODEVIEW_ID_TEXT];

	if (!id->size && !m->time)
		return;
	say(a, " (");
	if (id->size)
		say(a, "build id %s%s", codeview_id_text(id, text),
		    m->time ? ", " : "");
	if (m->time)
		say(a, "mapped at %" PRIu64 ".%09" PRIu64,
		    m->time / 1000000000, m->time % 1000000000);
	say(a, ")");
}

/* The code of elfimage_open in words; others mean a damaged file. */
static const char *reason(int error)
{
	switch (error) {
	case -AUX_E_NOENT:
		return "not found";
	case -AUX_E_IO:
		return "cannot be read";
	case -AUX_E_LIMIT:
		return "unpacks to more than 512 MiB, or than 1 GiB with the "
		       "others";
	case -AUX_E_UNSUPPORTED:
		return "is compressed in a way that this build does not know";
	case -AUX_E_NOMEM:
		return "does not fit into memory";
	default:
		return "is damaged";
	}
}

/* Only a file with another build id was found: both ids, so that one can see
 * which is newer. */
static void say_other(struct answer *a, const struct mapping *m,
		      const struct source *s)
{
	char want[CODEVIEW_ID_TEXT], have[CODEVIEW_ID_TEXT];

	say(a, "%s has build id %s, the recording has %s", s->other,
	    codeview_id_text(&s->other_id, have),
	    codeview_id_text(&s->id, want));
	if (m->time)
		say(a, " (mapped at %" PRIu64 ".%09" PRIu64 ")",
		    m->time / 1000000000, m->time % 1000000000);
}

/* A mapping of a file. The image may be there and still end before the address:
 * it was truncated, or is another file without a build id. */
static void explain_source(struct answer *a, const struct codeview *cv,
			   const struct mapping *m, const struct source *s,
			   struct code_cause *c)
{
	if (s->image) {
		c->why = CODE_WHY_PAST_END;
		say(a, "%s ends before that place",
		    s->path ? s->path : s->name);
	} else if (s->other) {
		c->why = CODE_WHY_OTHER_ID;
		say_other(a, m, s);
	} else if (codeview_is_vdso(m->path)) {
		c->why = CODE_WHY_VDSO;
		say(a, "the vdso");
		say_mapping(a, m, &s->id);
		say(a, " was not saved");
	} else {
		c->why = CODE_WHY_NO_FILE;
		c->has_id = s->id.size;
		c->in_bundle = cv->closed && !cv->symfs;
		c->asked_servers = cv->debuginfod;
		say(a, "%s", s->path ? s->path : s->name);
		say_mapping(a, m, &s->id);
		say(a, " %s", reason(s->error));
		if (c->in_bundle)
			say(a, "; the bundle was made without it");
	}
}

/* Kernel code: what is missing decides which files could supply it. */
static void explain_kernel(struct answer *a, struct codeview *cv,
			   const struct space *space, const struct mapping *m,
			   uint64_t ip, struct code_cause *c)
{
	struct place *p = codeview_place(cv, space, m);
	const struct source *s = p ? p->source : NULL;
	struct elfmodule_code code;

	if (m->kind == MAPPING_KERNEL)
		c->why = CODE_WHY_KERNEL;
	else if (m->kind == MAPPING_MODULE && !(s && s->image))
		c->why = CODE_WHY_MODULE;
	else
		c->why = CODE_WHY_ONLY_KCORE;
	codeview_kernel_cause(cv, space, c);
	say(a, "%s", m->path);
	say_mapping(a, m, s ? &s->id : &(struct file_id){ 0 });
	if (m->kind == MAPPING_KSYMBOL)
		say(a, " was compiled by the kernel, and its bytes were not "
		       "saved");
	else if (p && p->module &&
		 elfmodule_code(p->module, ip - (m->start - m->pgoff), &code) ==
			 -AUX_E_UNSUPPORTED)
		say(a, ": what runs here the kernel decided when it loaded the "
		       "module, its file does not tell");
	else if (s && s->image && m->kind == MAPPING_MODULE)
		say(a, ": %s has no code there", s->path);
	else if (s && s->other)
		say(a, ": its file %s has another build id", s->other);
	else
		say(a, " is not there");
}

/* Code that no file of the mapping can supply: nothing mapped, or anonymous. */
static void explain_no_file(struct answer *a, const struct space *space,
			    const struct mapping *m, struct code_cause *c)
{
	if (!m) {
		c->why = CODE_WHY_UNMAPPED;
		say(a, "nothing is known to be mapped there%s",
		    space && space->n_maps ? "" : " (no mappings of this "
						  "process were recorded)");
	} else {
		c->why = CODE_WHY_ANONYMOUS;
		say(a, "%s", *m->path ? m->path : "[anon]");
		say_mapping(a, m, &(struct file_id){ 0 });
		say(a, " is no file, and its bytes were not saved");
	}
	if (c->jit_log)
		say(a, "; the JIT compiler's log %s was not found", c->jit_log);
}

void codeview_cause(struct codeview *cv, const struct space *space, uint64_t ip,
		    struct code_cause *c)
{
	const struct mapping *m = space_find(space, ip);
	struct answer a = { c->text, sizeof(c->text), 0 };
	struct place *p = NULL;
	struct jit_hit j;

	*c = (struct code_cause){ .kernel = "" };
	say(&a, "no code at 0x%" PRIx64 ": ", ip);
	if (codeview_jit_find(cv, space, m, ip, &j) && !j.bytes) {
		c->why = CODE_WHY_JIT_TIMES;
		say(&a, "%s logs different code for that place, and its times "
			"are not the recording's (record with the clock mono)",
		    j.log);
		return;
	}
	if (m && m->kind != MAPPING_USER) {
		explain_kernel(&a, cv, space, m, ip, c);
		return;
	}
	if (m && !m->saved)
		p = codeview_place(cv, space, m);
	if (p && p->source) {
		explain_source(&a, cv, m, p->source, c);
		return;
	}
	c->jit_log = codeview_jit_missing(cv, space);
	explain_no_file(&a, space, m, c);
}

void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len)
{
	struct code_cause c;

	codeview_cause(cv, space, ip, &c);
	if (*c.kernel)
		snprintf(buf, len, "%s (%s)", c.text, c.kernel);
	else
		snprintf(buf, len, "%s", c.text);
}
