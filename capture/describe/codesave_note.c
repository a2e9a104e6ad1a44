/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codesave: what the kernel's records tell of code that no file has.
 *
 * Readers of the rings come here with every record: most go in one comparison,
 * the others are noted for the next look.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/describe/codesave_impl.h"

#define MAX_NOTES 65536

/* An MMAP2 record up to its path. */
struct mmap2 {
	struct perf_event_header h;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
};

static void add_note(struct codesave *s, const struct code_note *n)
{
	if (s->n_notes < MAX_NOTES &&
	    codesave_grow(&s->notes, &s->cap_notes, s->n_notes, sizeof(*n))) {
		if (!s->n_notes)
			s->noted_ms = codesave_mono_ns() / 1000000;
		s->notes[s->n_notes++] = *n;
		pthread_cond_signal(&s->wake);
		return;
	}
	s->lost_notes = true;
	free(n->path);
}

static bool starts(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), m = strlen(with);

	return n >= m && !strcmp(s + n - m, with);
}

/* As synth_code.c decides of what existed before. */
static uint8_t kind_of(const struct mmap2 *m, const char *path)
{
	if (!strcmp(path, "[vdso]") || !strcmp(path, "[vsyscall]") ||
	    !strcmp(path, "[uprobes]"))
		return 0;
	if (*path != '/' || starts(path, "//anon") || m->prot & PROT_WRITE)
		return AUX_CODE_ANON;
	return ends(path, " (deleted)") || starts(path, "/memfd:") ||
	       starts(path, "/dev/zero") || starts(path, "/SYSV") ?
		       AUX_CODE_FILE : 0;
}

/* A runtime that writes DIR/jit-PID.dump maps its first page, executable. */
static bool is_jitdump(const char *path)
{
	const char *base = strrchr(path, '/');

	return base && starts(base, "/jit-") && ends(base, ".dump");
}

static void note_mmap2(struct codesave *s, const struct perf_event_header *h,
		       uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_MAP, .time_ns = time_ns };
	const char *path = (const char *)h + sizeof(struct mmap2);
	struct mmap2 m;

	if (h->size <= sizeof(m) ||
	    !memchr(path, '\0', h->size - sizeof(m)))
		return;
	memcpy(&m, h, sizeof(m));
	if (!(m.prot & PROT_EXEC) || h->misc & PERF_RECORD_MISC_MMAP_DATA ||
	    m.pid == s->config.self || m.len > UINT64_MAX - m.addr)
		return;
	n.pid = m.pid;
	n.code = kind_of(&m, path);
	n.addr = m.addr & ~(uint64_t)(CODE_PAGE - 1);
	n.len = (m.addr + m.len - n.addr) & ~(uint64_t)(CODE_PAGE - 1);
	if (is_jitdump(path)) {
		n.kind = NOTE_DUMP;
		n.path = strdup(path);
		if (!n.path)
			return;
	}
	add_note(s, &n);
}

/* addr, len, ksym_type, flags, name */
static void note_ksymbol(struct codesave *s, const struct perf_event_header *h,
			 uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_KERNEL, .time_ns = time_ns };
	uint16_t type, flags;
	uint32_t len;

	if (h->size < sizeof(*h) + 16 || !s->config.kernel)
		return;
	memcpy(&n.addr, h + 1, sizeof(n.addr));
	memcpy(&len, (const uint8_t *)(h + 1) + 8, sizeof(len));
	memcpy(&type, (const uint8_t *)(h + 1) + 12, sizeof(type));
	memcpy(&flags, (const uint8_t *)(h + 1) + 14, sizeof(flags));
	n.len = len;
	if (!(flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) && len)
		add_note(s, &n);
}

static void note_task(struct codesave *s, const struct perf_event_header *h,
		      uint64_t time_ns)
{
	struct code_note n = { .kind = NOTE_DROP, .time_ns = time_ns };
	uint32_t w[4];

	if (h->size < sizeof(*h) + sizeof(w))
		return;
	memcpy(w, h + 1, sizeof(w));
	n.pid = w[0];
	if (h->type == PERF_RECORD_FORK) {	/* pid, ppid, tid, ptid */
		n.kind = NOTE_FORK;
		n.ppid = w[1];
		if (n.pid == n.ppid)
			return;
	} else if (!(h->misc & PERF_RECORD_MISC_COMM_EXEC)) {
		return;
	}
	add_note(s, &n);
}

void codesave_note(struct codesave *s, const struct perf_event_header *h,
		   uint64_t time_ns)
{
	if (h->type != PERF_RECORD_MMAP2 && h->type != PERF_RECORD_FORK &&
	    h->type != PERF_RECORD_COMM && h->type != PERF_RECORD_KSYMBOL)
		return;
	pthread_mutex_lock(&s->lock);
	if (h->type == PERF_RECORD_MMAP2)
		note_mmap2(s, h, time_ns);
	else if (h->type == PERF_RECORD_KSYMBOL)
		note_ksymbol(s, h, time_ns);
	else
		note_task(s, h, time_ns);
	pthread_mutex_unlock(&s->lock);
}

void codesave_watch(struct codesave *s, uint32_t pid, uint64_t addr,
		    uint64_t len, uint32_t kind)
{
	struct code_note n = {
		.kind = NOTE_MAP, .code = (uint8_t)kind, .pid = pid,
		.addr = addr, .len = len & ~(uint64_t)(CODE_PAGE - 1),
	};

	if (kind == AUX_CODE_VDSO || pid == s->config.self)
		return;
	pthread_mutex_lock(&s->lock);
	add_note(s, &n);
	pthread_mutex_unlock(&s->lock);
}
