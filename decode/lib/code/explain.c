/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: why there is no code at an address, in one sentence: the file, both
 * build ids, when it was mapped, and how to supply what is missing.
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

static const char *reason(int error)
{
	switch (error) {
	case -AUX_E_NOENT:
		return "not found";
	case -AUX_E_IO:
		return "cannot be read";
	case -AUX_E_LIMIT:
		return "unpacks to more than a file of code may have";
	case -AUX_E_UNSUPPORTED:
		return "is compressed in a way that this build does not know";
	case -AUX_E_NOMEM:
		return "does not fit into memory";
	default:
		return "is damaged";
	}
}

/* How to supply a file: what needs the build id works only with one. */
static void say_how(struct answer *a, const struct codeview *cv,
		    const struct source *s)
{
	if (cv->closed && !cv->symfs)
		say(a, "; the bundle was made without it: give its place with "
		       "--symfs");
	else if (!s->id.size)
		say(a, "; give its place with --symfs");
	else
		say(a, "; give its place with --symfs, or a build-id cache with "
		       "--buildid-dir%s", cv->debuginfod ? "" :
				       ", or try --debuginfod");
}

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
	say(a, "; give the recorded file's root with --symfs, or a build-id "
	       "cache with --buildid-dir");
}

static void explain_source(struct answer *a, const struct codeview *cv,
			   const struct mapping *m, const struct source *s)
{
	if (s->image) {
		say(a, "%s ends before that place",
		    s->path ? s->path : s->name);
	} else if (s->other) {
		say_other(a, m, s);
	} else if (codeview_is_vdso(m->path)) {
		say(a, "the vdso");
		say_mapping(a, m, &s->id);
		say(a, " was not saved; give the recorded machine's with "
		       "--vdso");
	} else {
		say(a, "%s", s->path ? s->path : s->name);
		say_mapping(a, m, &s->id);
		say(a, " %s", reason(s->error));
		say_how(a, cv, s);
	}
}

static void explain_kernel(struct answer *a, struct codeview *cv,
			   const struct space *space, const struct mapping *m,
			   uint64_t ip)
{
	const char *why = codeview_kernel_why(cv, space);
	struct place *p = codeview_place(cv, space, m);
	const struct source *s = p ? p->source : NULL;
	struct elfmodule_code c;

	say(a, "%s", m->path);
	say_mapping(a, m, s ? &s->id : &(struct file_id){ 0 });
	if (m->kind == MAPPING_KSYMBOL)
		say(a, " was compiled by the kernel, and its bytes were not "
		       "saved");
	else if (p && p->module &&
		 elfmodule_code(p->module, ip - (m->start - m->pgoff), &c) ==
			 -AUX_E_UNSUPPORTED)
		say(a, ": what runs here the kernel decided when it loaded the "
		       "module, its file does not tell");
	else if (s && s->image && m->kind == MAPPING_MODULE)
		say(a, ": %s has no code there", s->path);
	else if (s && s->other)
		say(a, ": its file %s has another build id", s->other);
	else
		say(a, " is not there");
	say(a, "; give the recorded kernel's memory with --kcore%s",
	    m->kind == MAPPING_KERNEL ? ", or its file with --vmlinux" :
	    m->kind == MAPPING_MODULE && !(s && s->image) ?
					", or the module with --symfs" : "");
	if (*why)
		say(a, " (%s)", why);
}

void codeview_explain(struct codeview *cv, const struct space *space,
		      uint64_t ip, char *buf, size_t len)
{
	const struct mapping *m = space_find(space, ip);
	const char *log = codeview_jit_missing(cv, space);
	struct answer a = { buf, len, 0 };
	struct jit_hit j;
	struct place *p;

	say(&a, "no code at 0x%" PRIx64 ": ", ip);
	if (codeview_jit_find(cv, space, m, ip, &j) && !j.bytes) {
		say(&a, "%s logs different code for that place, and its times "
			"are not the recording's (record with the clock mono)",
		    j.log);
		return;
	}
	if (!m) {
		say(&a, "nothing is known to be mapped there%s",
		    space && space->n_maps ? "" : " (no mappings of this "
						  "process were recorded)");
	} else if (m->kind != MAPPING_USER) {
		explain_kernel(&a, cv, space, m, ip);
		return;
	} else {
		p = m->saved ? NULL : codeview_place(cv, space, m);
		if (p && p->source) {
			explain_source(&a, cv, m, p->source);
			return;
		}
		say(&a, "%s", *m->path ? m->path : "[anon]");
		say_mapping(&a, m, &(struct file_id){ 0 });
		say(&a, " is no file, and its bytes were not saved");
	}
	if (log)
		say(&a, "; the JIT compiler's log %s was not found, give its "
			"place with --symfs", log);
}
