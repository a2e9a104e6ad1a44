/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * soft_step_maps: the executable mappings of a stepped process.
 *
 * They are compared with /proc/PID/maps after each system call that can change
 * them: the kernel's view is the truth, not the call's arguments. Any change
 * drops what was cached of the code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perfdata/buildid.h"
#include "capture/soft/step.h"

static void free_maps(struct step_map *maps, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(maps[i].path);
	free(maps);
}

void step_maps_free(struct step_process *proc)
{
	free_maps(proc->maps, proc->n_maps);
	proc->maps = NULL;
	proc->n_maps = 0;
}

int step_maps_copy(struct step_process *proc,
		   const struct step_process *parent)
{
	size_t i;

	proc->maps = calloc(parent->n_maps + 1, sizeof(*proc->maps));
	if (!proc->maps)
		return -AUX_E_NOMEM;
	for (i = 0; i < parent->n_maps; i++) {
		proc->maps[i] = parent->maps[i];
		proc->maps[i].path = strdup(parent->maps[i].path);
		if (!proc->maps[i].path)
			return -AUX_E_NOMEM;
		proc->n_maps++;
	}
	return 0;
}

/* One line of /proc/PID/maps; false: not executable, or not understood. */
static bool parse_map(const char *line, struct step_map *m)
{
	unsigned long start, end, pgoff, ino;
	char perm[5];
	int at = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perm,
		   &pgoff, &m->maj, &m->min, &ino, &at) < 7 || !at ||
	    perm[2] != 'x' || !strcmp(line + at, "[vsyscall]"))
		return false;
	m->start = start;
	m->end = end;
	m->pgoff = pgoff;
	m->ino = ino;
	m->prot = PROT_EXEC | (perm[0] == 'r' ? PROT_READ : 0) |
		  (perm[1] == 'w' ? PROT_WRITE : 0);
	m->flags = perm[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	m->save = !ino || perm[1] == 'w' || strstr(line + at, " (deleted)");
	m->check = perm[1] == 'w' || perm[3] == 's';
	m->path = strdup(line[at] ? line + at : "//anon");
	return m->path;
}

static int read_maps(pid_t pid, struct step_map **maps, size_t *n)
{
	char path[64], *line = NULL;
	size_t cap = 0, room = 0;
	ssize_t len;
	FILE *f;

	*maps = NULL;
	*n = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return -AUX_E_IO;
	while ((len = getline(&line, &room, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (step_grow((void **)maps, *n, &cap, sizeof(**maps)))
			break;
		if (parse_map(line, &(*maps)[*n]))
			++*n;
	}
	free(line);
	fclose(f);
	return 0;
}

static bool same_map(const struct step_map *a, const struct step_map *b)
{
	return a->start == b->start && a->end == b->end &&
	       a->pgoff == b->pgoff && a->ino == b->ino &&
	       a->prot == b->prot && a->flags == b->flags &&
	       a->maj == b->maj && a->min == b->min &&
	       !strcmp(a->path, b->path);
}

static const struct step_map *find_same(const struct step_process *proc,
					const struct step_map *m)
{
	size_t i;

	for (i = 0; i < proc->n_maps; i++)
		if (same_map(&proc->maps[i], m))
			return &proc->maps[i];
	return NULL;
}

const struct step_map *step_map_at(const struct step_process *proc,
				   uint64_t addr)
{
	size_t i;

	for (i = 0; i < proc->n_maps; i++)
		if (addr >= proc->maps[i].start && addr < proc->maps[i].end)
			return &proc->maps[i];
	return NULL;
}

bool step_maps_overlap(const struct step_process *proc, uint64_t start,
		       uint64_t end)
{
	size_t i;

	for (i = 0; i < proc->n_maps; i++)
		if (start < proc->maps[i].end && end > proc->maps[i].start)
			return true;
	return false;
}

/* Build ids are read once a file. */
static const struct step_build_id *find_build_id(struct step *st,
						 const struct step_map *m)
{
	struct step_build_id *b;
	int n;

	if (!m->ino || m->path[0] != '/' || m->save)
		return NULL;
	for (b = st->build_ids; b; b = b->next)
		if (b->ino == m->ino && b->maj == m->maj && b->min == m->min)
			return b;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	n = buildid_read(m->path, b->id);
	b->size = n > 0 ? (uint8_t)n : 0;
	b->ino = m->ino;
	b->maj = m->maj;
	b->min = m->min;
	b->next = st->build_ids;
	st->build_ids = b;
	return b;
}

static int report_map(struct step_thread *t, const struct step_map *m)
{
	const struct step_build_id *b = find_build_id(t->proc->step, m);
	struct synth_map sm = {
		.addr = m->start, .len = m->end - m->start, .pgoff = m->pgoff,
		.maj = m->maj, .min = m->min, .ino = m->ino,
		.prot = m->prot, .flags = m->flags, .path = m->path,
	};

	if (b && b->size) {
		memcpy(sm.build_id, b->id, sizeof(sm.build_id));
		sm.build_id_size = b->size;
	}
	return soft_mmap(t->soft, &sm);
}

int step_vdso_save(struct step_thread *t)
{
	const struct step_process *proc = t->proc;
	const struct step_map *m = NULL;
	uint8_t *bytes;
	size_t i, n;
	int err = 0;

	for (i = 0; i < proc->n_maps; i++)
		if (!strcmp(proc->maps[i].path, "[vdso]"))
			m = &proc->maps[i];
	if (!m)
		return 0;
	n = m->end - m->start;
	bytes = malloc(n);
	if (!bytes)
		return -AUX_E_NOMEM;
	if (step_memory_read(t->proc, m->start, bytes, n) == n)
		err = soft_code(t->soft, m->start, bytes, n, AUX_CODE_VDSO);
	free(bytes);
	return err;
}

int step_maps_update(struct step_thread *t, bool is_new)
{
	struct step_process *proc = t->proc;
	struct step_map *maps;
	size_t i, n;
	int err = read_maps(proc->pid, &maps, &n);
	bool changed = n != proc->n_maps;

	/* a process that is being killed has no maps any more */
	if (err || !n) {
		free_maps(maps, n);
		return 0;
	}
	err = step_flush_process(proc);
	for (i = 0; i < n && !err; i++) {
		if (find_same(proc, &maps[i]))
			continue;
		changed = true;
		step_pages_drop(proc, maps[i].start, maps[i].end);
		err = report_map(t, &maps[i]);
	}
	free_maps(proc->maps, proc->n_maps);
	proc->maps = maps;
	proc->n_maps = n;
	if (changed)
		step_cache_drop(proc);
	return err || !is_new ? err : step_vdso_save(t);
}
