/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * synth_code: code of running processes that no file will have later: the vdso,
 * anonymous and writable memory, deleted files.
 *
 * Invariant: what is saved was in the process's memory when it was read. Pages
 * of anonymous memory that were never touched are skipped, since nothing can
 * have run there, and do not count as missing.
 * Specification: proc(5), /proc/PID/mem and /proc/PID/pagemap.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/describe/impl.h"
#include "common/array.h"
#include "common/jitname.h"

#define CHUNK (1u << 20)	/* the largest entry */
#define N_FLAGS 512		/* pages read from pagemap at a time */

/* enum aux_code_kind; 0: its file has the code. */
static uint32_t kind_of(const struct synth_vma *v)
{
	const struct synth_map *m = &v->map;

	if (!strcmp(m->path, "[vdso]"))
		return AUX_CODE_VDSO;
	if (!strcmp(m->path, "[vsyscall]"))
		return 0;	/* cannot be read, emulated by the kernel */
	if (!m->ino || (m->prot & PROT_WRITE))
		return AUX_CODE_ANON;
	return v->deleted ? AUX_CODE_FILE : 0;
}

static int put_bytes(struct synth_run *run, const struct synth_range *v,
		     uint64_t addr, const void *bytes, size_t len)
{
	struct aux_code_entry e = {
		.time_ns = run->o->id.time,
		.addr = addr,
		.len = len,
		.pid = (uint32_t)v->pid,
		.kind = v->kind,
	};

	run->r->n_code += len;
	run->code_left -= len;
	return writer_code(run->w, &e, bytes);
}

/* Saves [addr, end); a page that cannot be read is skipped and counted. */
static int save_range(struct synth_run *run, const struct synth_range *v,
		      int fd, uint64_t addr, uint64_t end)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int ret = 0;

	while (!ret && addr < end) {
		size_t want = end - addr < CHUNK ? end - addr : CHUNK;
		ssize_t n;

		if (want > run->code_left || synth_late(run)) {
			run->r->n_code_unread += end - addr;
			return 0;
		}
		n = pread(fd, run->buf, want, (off_t)addr);
		if (n > 0) {
			ret = put_bytes(run, v, addr, run->buf, (size_t)n);
			addr += (uint64_t)n;
		} else {
			uint64_t next = addr - addr % page + page;

			run->r->n_code_unread += next - addr;
			addr = next;
		}
	}
	return ret;
}

/* flags[i]: page i from addr is present or swapped out (bits 63, 62 of its
 * pagemap entry). False: pagemap cannot be read. */
static bool read_flags(int fd, uint64_t addr, uint64_t page, size_t n,
		       uint64_t *flags)
{
	size_t i;

	if (fd < 0 || pread(fd, flags, n * 8, (off_t)(addr / page * 8)) !=
			      (ssize_t)(n * 8))
		return false;
	for (i = 0; i < n; i++)
		flags[i] &= 3ull << 62;
	return true;
}

/* Anonymous memory: saves the runs of pages that were ever touched. */
static int save_touched(struct synth_run *run, const struct synth_range *v,
			int fd, int pagemap, uint64_t end)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t addr = v->addr, from = end, flags[N_FLAGS];
	int ret = 0;

	while (!ret && addr < end) {
		size_t i, n = (end - addr + page - 1) / page;

		if (n > N_FLAGS)
			n = N_FLAGS;
		if (!read_flags(pagemap, addr, page, n, flags))
			return save_range(run, v, fd, from < addr ? from : addr,
					  end);
		for (i = 0; i < n && !ret; i++, addr += page) {
			if (flags[i] && from == end)
				from = addr;
			if (flags[i] || from == end)
				continue;
			ret = save_range(run, v, fd, from, addr);
			from = end;
		}
	}
	return ret ? ret : save_range(run, v, fd, from, end);
}

/*
 * For a process whose memory we may not read: its vdso is the same as ours if
 * it is a 64-bit one. 32-bit processes have theirs below 4 GB.
 */
static int save_own_vdso(struct synth_run *run, const struct synth_range *v)
{
	const void *own = (const void *)getauxval(AT_SYSINFO_EHDR);

	if (v->kind == AUX_CODE_VDSO && own && sizeof(own) == 8 &&
	    v->addr >> 32 && v->len <= 16384)
		return put_bytes(run, v, v->addr, own, v->len);
	run->r->n_code_unread += v->len;
	return 0;
}

static int open_proc(const struct synth_run *run, pid_t pid, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%d/%s", run->proc, pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Saves a mapped file through its link in map_files. That is permitted with
 * PTRACE_MODE_READ, where /proc/PID/mem needs PTRACE_MODE_ATTACH. */
static int save_link(struct synth_run *run, const struct synth_range *v)
{
	char name[64];
	uint64_t done = 0;
	int fd, ret = 0;

	snprintf(name, sizeof(name), "map_files/%llx-%llx",
		 (unsigned long long)v->addr,
		 (unsigned long long)(v->addr + v->len));
	fd = v->file ? open_proc(run, v->pid, name) : -1;
	if (fd < 0)
		return save_own_vdso(run, v);
	while (!ret && done < v->len && run->code_left >= CHUNK) {
		size_t want = v->len - done < CHUNK ? v->len - done : CHUNK;
		ssize_t n = pread(fd, run->buf, want,
				  (off_t)(v->pgoff + done));

		if (n <= 0)	/* the file is shorter than its mapping */
			break;
		ret = put_bytes(run, v, v->addr + done, run->buf,
				(size_t)n);
		done += (uint64_t)n;
	}
	run->r->n_code_unread += v->len - done;
	close(fd);
	return ret;
}

static int save(struct synth_run *run, const struct synth_range *v)
{
	uint64_t end = v->addr + v->len;
	int fd = open_proc(run, v->pid, "mem"), pagemap, ret;

	if (fd < 0)
		return save_link(run, v);
	if (v->kind == AUX_CODE_ANON && !v->file) {
		pagemap = open_proc(run, v->pid, "pagemap");
		ret = save_touched(run, v, fd, pagemap, end);
		if (pagemap >= 0)
			close(pagemap);
	} else {
		ret = save_range(run, v, fd, v->addr, end);
	}
	close(fd);
	return ret;
}

int synth_code_add(struct synth_run *run, const struct synth_vma *v)
{
	struct synth_range r = {
		.addr = v->map.addr, .len = v->map.len, .pgoff = v->map.pgoff,
		.pid = v->pid, .kind = kind_of(v), .file = v->map.ino,
	};

	if (run->o->save && jitname_is_dump(v->map.path))
		codesave_dump(run->o->save, (uint32_t)v->pid, v->map.path);
	if (!r.kind)
		return 0;
	if (run->o->save)
		codesave_watch(run->o->save, (uint32_t)v->pid, r.addr, r.len,
			       r.kind);
	if (array_grow(&run->ranges, run->n_ranges, &run->cap_ranges, sizeof(r)))
		return -AUX_E_NOMEM;
	run->ranges[run->n_ranges++] = r;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct synth_range *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->addr > y->addr) - (x->addr < y->addr);
}

int synth_code_save(struct synth_run *run)
{
	size_t i;
	int ret = 0;

	if (!run->n_ranges)
		return 0;
	run->buf = malloc(CHUNK);
	if (!run->buf)
		return -AUX_E_NOMEM;
	qsort(run->ranges, run->n_ranges, sizeof(*run->ranges), compare_ranges);
	for (i = 0; i < run->n_ranges && !ret; i++)
		ret = save(run, &run->ranges[i]);
	return ret;
}
