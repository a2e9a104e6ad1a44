/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_maps: MMAP2 records from /proc/PID/maps.
 *
 * Invariant: names are those the kernel would give in a record of its own:
 * "//anon" for memory without a file, paths unescaped, " (deleted)" kept.
 * Specification: proc(5), perf_event_mmap_event() of Linux 6.1.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "capture/describe/synth_impl.h"

/* seq_file writes a newline in a name as \012, and nothing else so. */
static void unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (!strncmp(s, "\\012", 4)) {
			*to++ = '\n';
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

/* "[anon:name]" is how maps shows a name that records do not carry. */
static const char *record_name(char *name)
{
	if (!*name || !strncmp(name, "[anon:", 6) ||
	    !strncmp(name, "[stack:", 7))
		return "//anon";
	if (!strncmp(name, "[anon_shmem:", 12))
		return "/dev/zero (deleted)";
	unescape(name);
	return name;
}

/* One line; the path stays in it. */
static bool parse_line(char *line, struct synth_vma *v)
{
	unsigned long long start, end, pgoff, ino;
	struct synth_map *m = &v->map;
	char perm[5];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, perm,
		   &pgoff, &m->maj, &m->min, &ino, &at) < 7 || !at ||
	    end <= start)
		return false;
	m->addr = start;
	m->len = end - start;
	m->pgoff = pgoff;
	m->ino = ino;
	m->prot = (perm[0] == 'r' ? PROT_READ : 0u) |
		  (perm[1] == 'w' ? PROT_WRITE : 0u) |
		  (perm[2] == 'x' ? PROT_EXEC : 0u);
	m->flags = perm[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	m->path = record_name(line + at);
	v->deleted = ends_with(m->path, " (deleted)");
	return true;
}

/* Opening a link of map_files gives the mapped file itself, whatever is now at
 * its path, but wants a capability. */
static int read_file_id(const struct synth_run *run, const struct synth_vma *v,
			uint8_t *id)
{
	const struct synth_map *m = &v->map;
	char path[PATH_MAX + 64];
	struct stat st;
	int n;

	snprintf(path, sizeof(path), "%s/%d/map_files/%llx-%llx", run->proc,
		 v->pid, (unsigned long long)m->addr,
		 (unsigned long long)(m->addr + m->len));
	n = buildid_read(path, id);
	if (n >= 0 || v->deleted)
		return n;
	snprintf(path, sizeof(path), "%s/%d/root%s", run->proc, v->pid,
		 m->path);
	n = buildid_read(path, id);
	if (n >= 0)
		return n;
	if (stat(m->path, &st) || st.st_ino != m->ino)
		return -AUX_E_NOENT;	/* of another mount namespace */
	return buildid_read(m->path, id);
}

/* NULL for want of memory. */
static const struct synth_file *find_file(struct synth_run *run,
					  const struct synth_vma *v)
{
	const struct synth_map *m = &v->map;
	struct synth_file **bucket, *f;
	int n;

	bucket = &run->files[(m->ino * 31 + m->min) % SYNTH_FILE_BUCKETS];
	for (f = *bucket; f; f = f->next)
		if (f->ino == m->ino && f->maj == m->maj && f->min == m->min)
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	n = read_file_id(run, v, f->id);
	f->id_size = n > 0 ? (uint8_t)n : 0;
	f->ino = m->ino;
	f->maj = m->maj;
	f->min = m->min;
	f->next = *bucket;
	*bucket = f;
	return f;
}

void synth_maps_fini(struct synth_run *run)
{
	size_t i;

	for (i = 0; i < SYNTH_FILE_BUCKETS; i++) {
		while (run->files[i]) {
			struct synth_file *f = run->files[i];

			run->files[i] = f->next;
			free(f);
		}
	}
	free(run->ranges);
	free(run->buf);
}

static int put_map(struct synth_run *run, struct synth_vma *v)
{
	struct synth_id id = run->o->id;
	const struct synth_file *f;
	struct synth_map *m = &v->map;
	int ret;

	if (!(m->prot & PROT_EXEC) &&
	    (!run->o->data_maps || !(m->prot & PROT_READ)))
		return 0;
	if (run->o->build_ids && m->ino && m->path[0] == '/' &&
	    (m->prot & PROT_EXEC)) {
		f = find_file(run, v);
		if (!f)
			return -AUX_E_NOMEM;
		memcpy(m->build_id, f->id, sizeof(m->build_id));
		m->build_id_size = f->id_size;
	}
	id.pid = id.tid = (uint32_t)v->pid;
	ret = synth_mmap2(run->w, &id, id.pid, id.pid, m);
	if (!ret)
		run->r->n_maps++;
	if (!ret && (m->prot & PROT_EXEC))
		ret = synth_code_note(run, v);
	return ret;
}

static int put_lines(struct synth_run *run, pid_t pid, FILE *f, size_t *n_lines)
{
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	while (!ret && getline(&line, &room, f) > 0) {
		struct synth_vma v = { .pid = pid };

		++*n_lines;
		if (!parse_line(line, &v))
			continue;
		v.map.cut = synth_run_late(run);
		ret = put_map(run, &v);
		if (!ret && v.map.cut)
			ret = -AUX_E_TARGET;
	}
	/* it may end, or exec something we may not read, at any time */
	if (!ret && ferror(f) && errno != ESRCH)
		ret = -AUX_E_TARGET;
	free(line);
	return ret;
}

int synth_maps(struct synth_run *run, pid_t pid, pid_t tid, size_t *n_lines)
{
	char path[PATH_MAX];
	FILE *f;
	int ret;

	snprintf(path, sizeof(path), "%s/%d/task/%d/maps", run->proc, pid, tid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT || errno == ESRCH ? -AUX_E_NOENT :
							   -AUX_E_TARGET;
	errno = 0;
	ret = put_lines(run, pid, f, n_lines);
	fclose(f);
	return ret;
}
