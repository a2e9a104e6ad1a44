/* SPDX-License-Identifier: BSD-2-Clause */
/* probe: see probe.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/event/probe.h"
#include "common/array.h"
#include "common/diag.h"

struct finding {
	struct probes *p;
	const struct triggers *list;
	const struct target_spec *spec;
	const struct target *target;
	struct probe_files files;
	bool listed, window;
	struct aux_diag *diag;
};

static int out_of_memory(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET, "out of memory");
}

static int list_files(struct finding *f)
{
	const char *program = f->spec->argv ? f->spec->argv[0] : NULL;
	int err = 0;

	if (f->listed)
		return 0;
	f->listed = true;
	if (program)
		err = probe_files_program(&f->files, program);
	if (!err && !f->target->traces_child && !(f->target->system_wide && program))
		err = probe_files_processes(&f->files, f->target->system_wide ? NULL :
					    f->target->tids,
					    f->target->system_wide ? 0 :
					    f->target->n_tids);
	return err ? out_of_memory(f->diag) : 0;
}

/* A copy that lives as long as the probes. */
static const char *keep(struct probes *p, const char *text)
{
	char *copy = strdup(text);

	if (!copy || array_append(&p->paths, &p->n_paths, &p->cap_paths, &copy,
				  sizeof(copy))) {
		free(copy);
		return NULL;
	}
	return copy;
}

static int add(struct finding *f, const struct probe *probe)
{
	if (f->p->n >= PROBES_MAX)
		return diag_set(f->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"\"%.60s\": with it there are more than %d places "
				"to wait at, each an event on each CPU: name fewer",
				probe->name, PROBES_MAX);
	return array_append(&f->p->v, &f->p->n, &f->p->cap, probe, sizeof(*probe)) ?
		       out_of_memory(f->diag) : 0;
}

/* A place is one event, or two where it matters how long a call takes. */
static int add_place(struct finding *f, const struct probe *at)
{
	struct probe p = *at;
	int err;

	if (!f->window && !f->list->v[at->trigger - 1].longer_ns)
		return add(f, &p);
	p.what = f->window ? PROBE_OPEN : PROBE_CALL;
	err = add(f, &p);
	p.what = f->window ? PROBE_SHUT : PROBE_RETURN;
	return err ? err : add(f, &p);
}

/* How many places the trigger has in the file; each inode once. */
static int find_in(struct finding *f, size_t i, const char *path, const char *file,
		   bool program)
{
	const struct trigger *tr = &f->list->v[i];
	struct probe p = { .trigger = (uint32_t)i + 1, .name = tr->text };
	struct trigger_places at;
	int err = trigger_places(tr, path, file, program, &at);

	if (err)
		return out_of_memory(f->diag);
	if (at.n && !(p.where = keep(f->p, file)))
		err = out_of_memory(f->diag);
	for (size_t k = 0; k < at.n && !err; k++) {
		p.offset = at.v[k].offset;
		p.semaphore = at.v[k].semaphore;
		err = add_place(f, &p);
	}
	free(at.v);
	return err ? err : (int)at.n;
}

/* "@ FILE" that is there as it stands. */
static int find_in_named(struct finding *f, size_t i)
{
	const char *path = f->list->v[i].path;
	const struct triggers *list = f->list;
	struct triggers one = *list;
	char real[PATH_MAX];
	int n;

	if (!path || access(path, R_OK) || !realpath(path, real))
		return 0;
	one.v[i].path = real;
	f->list = &one;
	n = find_in(f, i, real, real, true);
	f->list = list;
	return n;
}

static int find_in_listed(struct finding *f, size_t i, size_t from)
{
	int n = 0, sum = 0;

	for (size_t k = from; k < f->files.n && n >= 0; k++) {
		const struct probe_file *pf = &f->files.v[k];

		n = find_in(f, i, pf->path, pf->file, pf->program);
		sum += n > 0 ? n : 0;
	}
	return n < 0 ? n : sum;
}

static int not_found(const struct finding *f, const struct trigger *tr)
{
	if (tr->path)
		return diag_set(f->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"\"%.80s\": no file \"%.100s\" that can be read has "
				"it: the name is as nm -C shows it, or 0xADDRESS; a line "
				"needs debug information", tr->text, tr->path);
	return diag_set(f->diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"\"%.80s\": none of the %zu files that %s has it: the name is "
			"as nm -C shows it; of a file that is mapped later, or that another "
			"program maps: '%.60s @ FILE'; of a stripped one: "
			"0xADDRESS", tr->text, f->files.n,
			f->target->traces_child ? "the program maps at its start" :
						  "are mapped", tr->text);
}

static int find_trigger(struct finding *f, size_t i)
{
	const struct trigger *tr = &f->list->v[i];
	size_t before;
	int n = find_in_named(f, i);

	if (n)
		return n < 0 ? n : 0;
	n = list_files(f);
	if (!n)
		n = find_in_listed(f, i, 0);
	before = f->files.n;
	if (!n && tr->path && !strchr(tr->path, '/')) {	/* dlopen will find it so */
		if (probe_files_library(&f->files, tr->path))
			return out_of_memory(f->diag);
		n = find_in_listed(f, i, before);
	}
	if (n < 0)
		return n;
	return n ? 0 : not_found(f, tr);
}

static int add_kernel(struct finding *f, size_t i)
{
	const struct trigger *tr = &f->list->v[i];
	const struct probe p = {
		.trigger = (uint32_t)i + 1, .kernel = true, .where = tr->name,
		.offset = tr->addr, .name = tr->text, .filter = tr->filter,
	};

	return add_place(f, &p);
}

int probes_find(struct probes *p, const struct triggers *list, bool window,
		const struct target_spec *spec, const struct target *target,
		struct aux_diag *diag)
{
	struct finding f = { .p = p, .list = list, .spec = spec, .target = target,
			     .window = window, .diag = diag };
	int err = 0;

	for (size_t i = 0; i < list->n && !err; i++) {
		if (trigger_in_file(&list->v[i]))
			err = find_trigger(&f, i);
		if (list->v[i].kind == TRIGGER_KPROBE)
			err = add_kernel(&f, i);
	}
	probe_files_free(&f.files);
	if (err)
		probes_free(p);
	return err;
}

void probes_free(struct probes *p)
{
	probes_undefine(p);
	for (size_t i = 0; i < p->n_paths; i++)
		free(p->paths[i]);
	free(p->paths);
	free(p->v);
	*p = (struct probes){ 0 };
}
