/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the log of a traced process: its blocks and the changes of its code.
 *
 * Invariant: every record is copied out of shared memory once, then checked,
 * then used, since the traced program can change shared memory at any time. The
 * tables are auxcap's own. Block numbers are positions in the log, so a stream
 * that names a block not yet read is ahead of a barrier and has to wait.
 *
 * The tables are reserved at their maximal size and never move: emulate.c keeps
 * pointers to blocks, and a fork copies them with memcpy. Only touched pages
 * cost memory.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perfdata/perfdata.h"
#include "common/a64_insn.h"
#include "common/x86_insn.h"
#include "capture/soft/emulate.h"

#define USER_END (UINT64_C(1) << 47)

/* Address space for a table of maximal size: it never moves, and costs only
 * what is used. */
static void *reserve(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* A pidfd, unlike a pid, cannot come to mean another process. -1: gone
 * already. */
static int open_pid(uint32_t pid)
{
	return pid ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;
}

struct emu_proc *emu_proc_new(struct emu *e, uint32_t slot)
{
	struct emu_proc *p = calloc(1, sizeof(*p));

	if (!p)
		goto fail;
	p->slot = slot;
	p->shm = shm_proc(e->shm, slot);
	p->pid = p->shm->pid;
	p->pidfd = open_pid(p->pid);
	p->table = reserve(SHM_MAX_BLOCKS * sizeof(*p->table));
	p->info = reserve(SHM_MAX_BLOCKS * sizeof(*p->info));
	if (!p->table || !p->info)
		goto fail;
	p->next = e->procs;
	e->procs = p;
	return p;
fail:
	emu_fail(e, AUX_E_NOMEM, "out of memory for a traced process");
	if (p) {
		if (p->table)
			munmap(p->table, SHM_MAX_BLOCKS * sizeof(*p->table));
		if (p->pidfd >= 0)
			close(p->pidfd);
	}
	free(p);
	return NULL;
}

/* The slot goes back to the producers, cleared; not after a failure, when its
 * producer may still run. */
void emu_proc_free(struct emu *e, struct emu_proc *p)
{
	struct emu_proc **at = &e->procs;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	if (!e->err) {	/* else it may run on */
		memset(p->shm, 0, sizeof(*p->shm));
		atomic_store(&e->header->proc_taken[p->slot], 0);
	}
	munmap(p->table, SHM_MAX_BLOCKS * sizeof(*p->table));
	munmap(p->info, SHM_MAX_BLOCKS * sizeof(*p->info));
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p->sizes);
	free(p->cut_keys);
	free(p->cut_index);
	free(p);
}

/* Sizes of all instructions, one block after another; indexed with 32 bits. */
static int add_sizes(struct emu *e, struct emu_proc *p, const uint8_t *sizes,
		     size_t n)
{
	if (p->n_sizes + n > p->max_sizes) {
		size_t max = p->max_sizes * 2 + n + 4096;
		uint8_t *more = realloc(p->sizes, max);

		if (!more)
			return emu_fail(e, AUX_E_NOMEM, "out of memory for code");
		p->sizes = more;
		p->max_sizes = max;
	}
	memcpy(p->sizes + p->n_sizes, sizes, n);
	p->n_sizes += n;
	return p->n_sizes > UINT32_MAX ?
		       emu_fail(e, AUX_E_LIMIT, "a program with too much code") :
		       0;
}

/* All sizes are copied, of later blocks too: indexes stay valid. */
int emu_proc_inherit(struct emu *e, struct emu_proc *p,
		     const struct emu_proc *parent, uint32_t n)
{
	memcpy(p->table, parent->table, n * sizeof(*p->table));
	memcpy(p->info, parent->info, n * sizeof(*p->info));
	p->n_blocks = n;
	return add_sizes(e, p, parent->sizes, parent->n_sizes);
}

uint32_t emu_proc_index(const struct emu_proc *p, uint32_t id, uint64_t ip)
{
	const struct soft_block *b = &p->table[id];
	const uint8_t *sizes = p->sizes + p->info[id].sizes_at;
	uint64_t at = b->start;
	uint32_t i = 0;

	while (i < b->n_insns && at != ip)
		at += sizes[i++];
	return i;
}

/*
 * ---- cuts ----
 *
 * The first n instructions of a block, as blocks of their own, for streams that
 * leave a block in the middle (signals, faults). Made once per (block, n), at
 * the far end of the table, so that they have ids that the log cannot use.
 */

static uint32_t *cut_slot(const struct emu_proc *p, uint64_t key)
{
	uint32_t mask = p->cut_index_size - 1;
	uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 40) & mask;

	while (p->cut_index[i] && p->cut_keys[p->cut_index[i] - 1] != key)
		i = (i + 1) & mask;
	return &p->cut_index[i];
}

static int grow_cuts(struct emu *e, struct emu_proc *p)
{
	uint32_t n = p->cut_index_size ? p->cut_index_size * 2 : 64;
	uint32_t *index = calloc(n, sizeof(*index));
	uint64_t *keys = realloc(p->cut_keys, n * sizeof(*keys));

	if (keys)
		p->cut_keys = keys;
	if (!index || !keys) {
		free(index);
		return emu_fail(e, AUX_E_NOMEM, "out of memory for code");
	}
	free(p->cut_index);
	p->cut_index = index;
	p->cut_index_size = n;
	for (uint32_t k = 0; k < p->n_cuts; k++)
		*cut_slot(p, p->cut_keys[k]) = k + 1;
	return 0;
}

int emu_proc_cut(struct emu *e, struct emu_proc *p, uint32_t id, uint32_t n,
		 uint32_t *cut)
{
	const uint8_t *sizes = p->sizes + p->info[id].sizes_at;
	uint64_t key = (uint64_t)id << 32 | n;
	struct soft_block *b;
	uint32_t *slot;

	if (p->n_cuts * 2 >= p->cut_index_size && grow_cuts(e, p) < 0)
		return -AUX_E_NOMEM;
	slot = cut_slot(p, key);
	if (!*slot) {
		if (p->n_blocks + p->n_cuts + 1 >= SHM_MAX_BLOCKS)
			return emu_fail(e, AUX_E_LIMIT, "too many blocks");
		p->cut_keys[p->n_cuts] = key;
		*slot = ++p->n_cuts;
		b = &p->table[SHM_MAX_BLOCKS - *slot];
		b->start = b->end = p->table[id].start;
		for (uint32_t i = 0; i < n; i++)
			b->end += sizes[i];
		b->target = b->end;
		b->n_insns = n;
		b->cls = X86_OTHER;
		b->last_size = sizes[n - 1];
	}
	*cut = SHM_MAX_BLOCKS - *slot;
	return 0;
}

/* ---- the log ---- */

/* Whether a block is consistent in itself: sizes possible for the machine, and
 * adding up to end. What it contains is the helper's word. */
static bool block_is_sane(const struct emu *e, const struct shm_log_block *r,
			  const uint8_t *sizes)
{
	bool a64 = e->machine == EM_AARCH64;
	uint8_t least = a64 ? 4 : 1, most = a64 ? 4 : 16;
	uint64_t end = r->start;

	if (!r->n_insns || r->n_insns > SHM_MAX_INSNS ||
	    r->head.size < sizeof(*r) + r->n_insns ||
	    r->cls > (a64 ? A64_ISB : X86_PTWRITE))
		return false;
	for (uint32_t i = 0; i < r->n_insns; i++) {
		if (sizes[i] < least || sizes[i] > most)
			return false;
		end += sizes[i];
	}
	return end == r->end && r->last_size == sizes[r->n_insns - 1];
}

/* p->record defines the next block id. */
static int add_block(struct emu *e, struct emu_proc *p)
{
	struct shm_log_block r;
	const uint8_t *sizes = p->record + sizeof(r);
	uint32_t id = p->n_blocks;

	memcpy(&r, p->record, sizeof(r));
	if (!block_is_sane(e, &r, sizes) || id + p->n_cuts >= SHM_MAX_BLOCKS)
		return emu_fail(e, AUX_E_FORMAT, "process %u: a damaged block "
				"in shared memory", p->pid);
	p->table[id] = (struct soft_block){
		.start = r.start, .end = r.end, .target = r.target,
		.n_insns = r.n_insns, .cls = r.cls, .last_size = r.last_size,
	};
	p->info[id].sizes_at = (uint32_t)p->n_sizes;
	p->info[id].rep = r.rep;
	p->n_blocks++;
	return add_sizes(e, p, sizes, r.n_insns);
}

/* Copies a complete record to p->record; false: none has arrived. */
static bool read_record(struct emu *e, struct emu_proc *p)
{
	const char *data = shm_log_data(p->shm);
	uint64_t tail = atomic_load(&p->shm->log.tail);
	uint64_t head = emu_ring_head(e, &p->shm->log);
	struct shm_log_head h;

	if (e->err || head - tail < sizeof(h))
		return false;
	emu_ring_copy(data, tail, &h, sizeof(h));
	if (h.size < sizeof(h) || h.size > SHM_LOG_MAX || h.size % 8) {
		emu_fail(e, AUX_E_FORMAT, "process %u: a damaged record in "
			 "shared memory", p->pid);
		return false;
	}
	if (head - tail < h.size)
		return false;
	/* strings and sizes that were truncated end in zeros, not in old
	 * bytes */
	memset(p->record + h.size, 0, h.size < SHM_LOG_MAX ? 8 : 0);
	emu_ring_copy(data, tail, p->record, h.size);
	/* the head that was checked: the ring's may have changed since */
	memcpy(p->record, &h, sizeof(h));
	emu_ring_advance(e, &p->shm->log, tail + h.size);
	return true;
}

bool emu_proc_read_log(struct emu *e, struct emu_proc *p)
{
	bool any = false;

	while (!p->barrier && read_record(e, p)) {
		struct shm_log_head h;

		any = true;
		memcpy(&h, p->record, sizeof(h));
		if (h.kind == SHM_LOG_BLOCK) {
			if (h.size < sizeof(struct shm_log_block) ||
			    add_block(e, p) < 0)
				return true;
		} else {
			p->barrier = true;
			p->barrier_seq = h.seq;
		}
	}
	return any;
}

/* The build ID is read now, while the file is most likely the one that is
 * mapped. */
static int apply_map(struct emu *e, struct emu_proc *p, struct soft_thread *t)
{
	struct shm_log_map r;
	const char *path = (const char *)p->record + sizeof(r);
	struct synth_map m;
	int n = 0;

	memcpy(&r, p->record, sizeof(r));
	if (r.head.size <= sizeof(r) || r.addr >= USER_END ||
	    r.len > USER_END - r.addr ||
	    !memchr(path, 0, r.head.size - sizeof(r)))
		return emu_fail(e, AUX_E_FORMAT, "process %u: a damaged mapping "
				"in shared memory", p->pid);
	m = (struct synth_map){
		.addr = r.addr, .len = r.len, .pgoff = r.pgoff,
		.maj = r.maj, .min = r.min, .ino = r.ino,
		.prot = r.prot, .flags = r.flags, .path = path,
	};
	if (path[0] == '/' && path[1] != '/')
		n = buildid_read(path, m.build_id);
	m.build_id_size = n > 0 ? (uint8_t)n : 0;
	return soft_mmap(t, &m);
}

static int apply_code(struct emu *e, struct emu_proc *p, struct soft_thread *t)
{
	struct shm_log_code r;

	memcpy(&r, p->record, sizeof(r));
	if (r.head.size < sizeof(r) || r.len > r.head.size - sizeof(r) ||
	    r.kind < AUX_CODE_VDSO || r.kind > AUX_CODE_FILE)
		return emu_fail(e, AUX_E_FORMAT, "process %u: damaged code in "
				"shared memory", p->pid);
	return soft_code(t, r.addr, p->record + sizeof(r), r.len,
			 (enum aux_code_kind)r.kind);
}

int emu_proc_apply(struct emu *e, struct emu_proc *p, struct soft_thread *t)
{
	struct shm_log_head h;
	int err;

	memcpy(&h, p->record, sizeof(h));
	p->barrier = false;
	if (h.kind == SHM_LOG_MAP)
		err = apply_map(e, p, t);
	else if (h.kind == SHM_LOG_CODE)
		err = apply_code(e, p, t);
	else
		return emu_fail(e, AUX_E_FORMAT, "process %u: an unknown record "
				"in shared memory", p->pid);
	if (err < 0 && !e->err)
		e->err = err;
	return err;
}
