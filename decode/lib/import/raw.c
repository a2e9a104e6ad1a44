/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * import_raw: a buffer of Intel PT packets and nothing else, with the code
 * that goes with it named by the caller, as libipt's ptxed takes them.
 *
 * pt: FILE[:BEGIN[-END]]; image: FILE[:OFFSET[-END]]@ADDR, or FILE[@ADDR] with
 * an ELF file, whose segments say the rest. It is one thread, with pid and tid
 * 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>
#include "common/diag.h"

#include "decode/lib/import/impl.h"

#define RAW_PID 1
#define NORETCOMP_BIT 0x800	/* IA32_RTIT_CTL.DisRETC */

/* A file and the bytes [begin, end) of it; both as the caller named them. */
struct part {
	char *name;
	uint64_t begin, end;
	bool whole;	/* no part was named */
};

/* A fault of the command line, not of a file: AUX_WHY_SETTING lets the command
 * name its option. */
static int fail_setting(struct aux_diag *diag, const char *setting,
			const char *form, const char *arg)
{
	return diag_why(diag, AUX_WHY_SETTING,
			diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				 "%s wants %s, not \"%s\"", setting, form,
				 arg));
}

/* A number and nothing else up to end. */
static bool parse_number(const char *s, const char *end, uint64_t *v)
{
	char *stop;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*v = strtoull(s, &stop, 0);
	return !errno && stop == end;
}

/* BEGIN[-END] after the last colon; a name may hold colons of its own. */
static bool parse_part(struct part *p, const char *s, size_t len)
{
	const char *end = s + len, *colon = memrchr(s, ':', len), *dash;

	*p = (struct part){ .end = UINT64_MAX, .whole = true };
	if (colon) {
		dash = memchr(colon, '-', (size_t)(end - colon));
		p->whole = !parse_number(colon + 1, dash ? dash : end,
					 &p->begin) ||
			   (dash && !parse_number(dash + 1, end, &p->end));
	}
	if (p->whole) {
		p->begin = 0;
		p->end = UINT64_MAX;
	} else {
		len = (size_t)(colon - s);
	}
	p->name = strndup(s, len);
	return p->name && *p->name && p->begin < p->end;
}

/* Clips the part to the file. An end that was named has to be in it: what is
 * missing there is a mistake, and not the end of the trace. */
static int fit_part(struct part *p, const struct import_file *f,
		    struct aux_diag *diag)
{
	if (p->begin >= f->len || (!p->whole && p->end != UINT64_MAX &&
				   p->end > f->len))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"%s has %llu bytes: there is no part 0x%llx to "
				"0x%llx", p->name, (unsigned long long)f->len,
				(unsigned long long)p->begin,
				(unsigned long long)p->end);
	if (p->end > f->len)
		p->end = f->len;
	return 0;
}

/* An ELF file says where it goes; other bytes need an address. */
static int map_image(struct import_build *b, const char *arg,
		     struct part *p, struct import_map *m, bool has_addr,
		     struct aux_diag *diag)
{
	struct import_file f;
	int rc = import_map_file(&f, NULL, p->name, diag);

	if (rc == 0)
		rc = fit_part(p, &f, diag);
	if (rc == 0 && p->whole) {
		if (!has_addr && (f.len < 4 || memcmp(f.data, "\177ELF", 4)))
			rc = fail_setting(diag, "image", "FILE@ADDR for a "
					  "file that is no ELF image", arg);
		else
			rc = import_elf_map(b, &f, m, has_addr, diag);
	} else if (rc == 0) {
		m->path = f.path;
		m->pgoff = p->begin;
		m->len = p->end - p->begin;
		import_build_map(b, m);
	}
	import_unmap_file(&f);
	return rc;
}

static int add_image(struct import_build *b, const char *arg,
		     struct aux_diag *diag)
{
	struct import_map m = { .pid = RAW_PID };
	const char *at = strrchr(arg, '@'), *end = arg + strlen(arg);
	bool has_addr = at && parse_number(at + 1, end, &m.addr);
	struct part p;
	int rc;

	if (!parse_part(&p, arg, (size_t)((has_addr ? at : end) - arg)) ||
	    (!p.whole && !has_addr))
		rc = fail_setting(diag, "image",
				 "FILE[:OFFSET[-END]]@ADDR or ELF-FILE[@ADDR]",
				 arg);
	else
		rc = map_image(b, arg, &p, &m, has_addr, diag);
	free(p.name);
	return rc;
}

int import_elf_arg(struct import_build *b, const char *arg, const char *setting,
		   uint32_t pid, struct aux_diag *diag)
{
	struct import_map m = { .pid = pid };
	const char *at = strrchr(arg, '@');
	bool has_addr = at && parse_number(at + 1, arg + strlen(arg), &m.addr);
	char *name = strndup(arg, has_addr ? (size_t)(at - arg) : strlen(arg));
	struct import_file f = { 0 };
	int rc;

	if (!name)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	rc = import_map_file(&f, NULL, name, diag);
	if (rc == 0 && (f.len < 4 || memcmp(f.data, "\177ELF", 4)))
		rc = fail_setting(diag, setting, "an ELF-FILE[@ADDR]", arg);
	if (rc == 0)
		rc = import_elf_map(b, &f, &m, has_addr, diag);
	import_unmap_file(&f);
	free(name);
	return rc;
}

int import_cpu_model(const char *arg, unsigned model[3], struct aux_diag *diag)
{
	char rest;
	int n;

	model[2] = 0;
	n = sscanf(arg, "%u/%u/%u%c", &model[0], &model[1], &model[2], &rest);
	if (n < 2 || n > 3 || strspn(arg, "0123456789/") != strlen(arg) ||
	    model[0] > UINT16_MAX || model[1] > UINT8_MAX ||
	    model[2] > UINT8_MAX)
		return fail_setting(diag, "cpu-model", "FAMILY/MODEL[/STEPPING] "
				   "in decimal, 6/158/10 say", arg);
	return 0;
}

/* As the decimal numbers of CPUID in perf.data: what is made of this buffer says it,
 * too. */
static int add_model(struct import_build *b, const char *arg,
		     struct aux_diag *diag)
{
	unsigned model[3];
	char text[64];
	int rc = import_cpu_model(arg, model, diag);

	if (rc < 0)
		return rc;
	snprintf(text, sizeof(text), "GenuineIntel,%u,%u,%u", model[0],
		 model[1], model[2]);
	import_build_feature(b, AUX_FEAT_CPUID, text);
	return 0;
}

/*
 * The config is 0, so return compression counts as on (DisRETC clear). That
 * reads a trace without it, too: its returns all have a TIP, which is allowed
 * with it as well.
 */
static int add_trace(struct import_build *b, struct aux_diag *diag)
{
	const struct import_who who = { RAW_PID, RAW_PID, UINT32_MAX, 0 };
	uint64_t priv[AUX_PT_N_PRIV] = {
		[AUX_PT_PMU_TYPE] = IMPORT_PMU, [AUX_PT_TIME_MULT] = 1,
		[AUX_PT_NORETCOMP_BIT] = NORETCOMP_BIT,
	};

	(void)diag;
	import_build_info(b, AUX_TRACE_INTEL_PT, priv, AUX_PT_N_PRIV);
	import_build_comm(b, who, "raw");
	import_build_runs(b, who);
	return 0;
}

/* Images before the stream: mappings have to precede the trace that runs in
 * them. */
static int build_raw(struct import_build *b,
		     const struct import_options *o, struct aux_diag *diag)
{
	struct import_stream stream = {
		.who = { RAW_PID, RAW_PID, UINT32_MAX, 0 },
	};
	struct import_file f = { 0 };
	struct part p;
	int rc;

	if (!parse_part(&p, o->pt, strlen(o->pt)))
		rc = fail_setting(diag, "pt", "FILE[:BEGIN[-END]]", o->pt);
	else
		rc = import_map_file(&f, NULL, p.name, diag);
	if (rc == 0)
		rc = fit_part(&p, &f, diag);
	if (rc == 0 && o->cpu_model)
		rc = add_model(b, o->cpu_model, diag);
	if (rc == 0)
		rc = add_trace(b, diag);
	for (size_t i = 0; rc == 0 && i < o->n_images; i++)
		rc = add_image(b, o->images[i], diag);
	for (size_t i = 0; rc == 0 && i < o->n_elfs; i++)
		rc = import_elf_arg(b, o->elfs[i], "elf", RAW_PID, diag);
	if (rc == 0) {
		stream.file = &f;
		stream.data = f.data + p.begin;
		stream.len = p.end - p.begin;
		import_build_stream(b, &stream);
	}
	import_unmap_file(&f);
	free(p.name);
	return rc;
}

/* No look at the path: packets have no magic, so only the option can say so. */
static bool probe(const struct import_source *s)
{
	return s->o->pt;
}

static int open_raw(struct aux_reader **r, const struct import_source *s,
		    struct aux_diag *diag)
{
	struct import_build b;
	int rc = import_build_init(&b, "intel_pt//", 0, diag);

	if (rc == 0)
		rc = build_raw(&b, s->o, diag);
	if (rc == 0)
		rc = import_build_open(&b, r, s->path, diag);
	import_build_fini(&b);
	return rc;
}

const struct import_format import_raw = {
	"raw buffer", false, probe, open_raw,
};
