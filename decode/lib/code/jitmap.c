/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: names from the perf maps of JIT compilers (elf/perfmap.h), for
 * memory that is no file. A map has names alone: the code comes from what was
 * saved.
 *
 * The recording's own copy counts; else /tmp/perf-PID.map of this machine, or
 * under symfs, where PID is the recorded one. A map of this machine must belong
 * to root or to the reader, as for perf; root takes anyone's, for it records
 * the processes of others. A process that was forked from
 * one with a map has its names until it execs, unless it wrote a map itself.
 *
 * A map is read at the first question about its process, with the lock held,
 * and never changes or moves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/jitname.h"
#include "common/regular.h"
#include "decode/lib/code/impl.h"
#include "decode/lib/elf/perfmap.h"

#define MAP_BUCKETS 256
#define MAX_FORKS   64	/* generations looked back */

struct jitmap {
	struct jitmap *next;	/* of the bucket */
	uint32_t pid;
	struct perfmap *map;	/* NULL: has none */
};

struct jitmaps {
	struct jitmap *buckets[MAP_BUCKETS];
};

static const struct own_file *own_map(const struct codeview *cv, uint32_t pid)
{
	for (size_t i = 0; i < cv->n_own; i++) {
		const struct own_file *f = &cv->own[i];
		char path[64];

		if (f->pid != pid || !f->len || f->path_len >= sizeof(path))
			continue;
		memcpy(path, f->path, f->path_len);
		path[f->path_len] = '\0';
		if (jitname_is_map(path))
			return f;
	}
	return NULL;
}

/* Opens a regular file that this user, or root, owns: anybody may put a map
 * into /tmp, whose names are shown then. For root any will do, as will saved
 * ones. */
static int open_map(const char *path, bool any_owner, uint64_t *size)
{
	struct stat st;
	int fd = regular_open(path, &st);
	uid_t self = geteuid();

	if (fd < 0)
		return -1;
	if (any_owner || !self || !st.st_uid || st.st_uid == self) {
		*size = (uint64_t)st.st_size;
		return fd;
	}
	close(fd);
	return -1;
}

/* Reads up to len bytes; fewer if the file has become shorter. */
static uint64_t read_all(int fd, uint8_t *buf, uint64_t len)
{
	uint64_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, buf + done, len - done);

		if (n <= 0)
			break;
		done += (uint64_t)n;
	}
	return done;
}

static int read_file(const struct codeview *cv, uint32_t pid,
		     struct perfmap **map)
{
	const char *root = cv->symfs && !cv->symfs_is_file ? cv->symfs : "";
	uint64_t size = 0;
	char *path;
	uint8_t *buf;
	int fd, rc;

	if (cv->closed && !*root)
		return 0;
	if (asprintf(&path, "%s/tmp/perf-%u.map", root, pid) < 0)
		return -AUX_E_NOMEM;
	fd = open_map(path, *root, &size);
	free(path);
	if (fd < 0)
		return 0;
	if (size > PERFMAP_MAX_BYTES)
		size = PERFMAP_MAX_BYTES + 1;	/* perfmap notes the rest */
	buf = malloc(size ? size : 1);
	rc = buf ? perfmap_new(map, buf, read_all(fd, buf, size)) :
		   -AUX_E_NOMEM;
	free(buf);
	close(fd);
	return rc;
}

static void note_map(struct codeview *cv, uint32_t pid,
		     const struct perfmap *map, bool is_cut)
{
	const struct perfmap_info *info = perfmap_info(map);

	if (info->n_skipped)
		codeview_add_note(cv, AUX_WHY_NONE, "perf-%u.map: lines that "
				  "are no \"START SIZE NAME\" were skipped: %zu",
				  pid, info->n_skipped);
	if (info->n_over || is_cut)
		codeview_add_note(cv, AUX_WHY_NONE, "perf-%u.map is too large; "
				  "names at its end are not known", pid);
}

/* The map of exactly this process; NULL: it has none. */
static struct perfmap *load(struct codeview *cv, uint32_t pid)
{
	const struct own_file *own = own_map(cv, pid);
	struct perfmap *map = NULL;
	int rc = own ? perfmap_new(&map, own->bytes, own->len) :
		       read_file(cv, pid, &map);

	if (rc < 0)
		codeview_add_note(cv, AUX_WHY_NONE, "perf-%u.map does not fit "
				  "into memory; its names are not known", pid);
	else if (map)
		note_map(cv, pid, map, own && own->total > own->len);
	return map;
}

static const struct perfmap *get(struct codeview *cv, uint32_t pid)
{
	struct jitmap **b, *m;

	if (!cv->maps && !(cv->maps = calloc(1, sizeof(*cv->maps)))) {
		cv->nomem = true;
		return NULL;
	}
	b = &cv->maps->buckets[pid % MAP_BUCKETS];
	for (m = *b; m && m->pid != pid; m = m->next)
		;
	if (!m && (m = calloc(1, sizeof(*m)))) {
		m->pid = pid;
		m->map = load(cv, pid);
		m->next = *b;
		*b = m;
	}
	cv->nomem |= !m;
	return m ? m->map : NULL;
}

bool codeview_map_find(struct codeview *cv, const struct space *space,
		       uint64_t ip, struct symbol *sym)
{
	const struct perfmap *map = NULL;
	const struct perfmap_entry *e;
	uint32_t pid = space->pid;

	pthread_mutex_lock(&cv->lock);
	for (unsigned i = 0; !map && pid != UINT32_MAX && i < MAX_FORKS; i++) {
		map = get(cv, pid);
		pid = codeview_parent(cv, pid);
	}
	pthread_mutex_unlock(&cv->lock);
	e = map ? perfmap_find(map, ip) : NULL;
	if (!e)
		return false;
	*sym = (struct symbol){ e->name, e->start, e->size, "[jit]" };
	return true;
}

void codeview_map_free(struct jitmaps *maps)
{
	for (size_t i = 0; maps && i < MAP_BUCKETS; i++) {
		struct jitmap *m;

		while ((m = maps->buckets[i])) {
			maps->buckets[i] = m->next;
			perfmap_free(m->map);
			free(m);
		}
	}
	free(maps);
}
