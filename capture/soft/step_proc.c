/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The executable mappings and the code of a stepped process.
 *
 * Mappings are compared with /proc/PID/maps after each system call that can
 * change them: the kernel's view counts, not the call's arguments, which only
 * decide whether to look. Any change drops the cached code.
 *
 * Invariant: before an instruction is stepped, the recording has a mapping for
 * it, and its bytes if no lasting file has them. What was batched is flushed
 * before either is reported, so that soft's clock puts it before the change.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/soft/step.h"
#include "common/array.h"
#include "common/mapspath.h"
#include "perfdata/perfdata.h"

static void free_maps(struct step_map *maps, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		free(maps[i].path);
	free(maps);
}

static void clear_maps(struct step_process *proc)
{
	free_maps(proc->maps, proc->n_maps);
	proc->maps = NULL;
	proc->n_maps = 0;
}

static int copy_maps(struct step_process *proc,
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

/* Parses a line of /proc/PID/maps; false: not executable, or not understood. */
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
	/* written code may differ from the file; a deleted file cannot be
	 * opened */
	m->save = !ino || perm[1] == 'w' || strstr(line + at, " (deleted)");
	m->check = perm[1] == 'w' || perm[3] == 's';
	m->path = strdup(line[at] ? line + at : "//anon");
	if (m->path)
		mapspath_decode(m->path, ino);
	return m->path;
}

/* The process's executable mappings, for the caller to free with
 * free_maps(); none of a process that is gone. 0 or -AUX_E_*. */
static int read_maps(pid_t pid, struct step_map **maps, size_t *n)
{
	char path[64], *line = NULL;
	size_t cap = 0, room = 0;
	ssize_t len;
	bool nomem;
	FILE *f;

	*maps = NULL;
	*n = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT || errno == ESRCH ? 0 :
		       errno == ENOMEM ? -AUX_E_NOMEM : -AUX_E_IO;
	while ((errno = 0, len = getline(&line, &room, f)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		if (array_grow(maps, *n, &cap, sizeof(**maps))) {
			errno = ENOMEM;
			break;
		}
		errno = 0;
		if (parse_map(line, &(*maps)[*n]))
			++*n;
		else if (errno == ENOMEM)
			break;
	}
	/* at the end of the file errno may be what an allocation that went well left */
	nomem = errno == ENOMEM && !feof(f);
	free(line);
	fclose(f);
	return nomem ? -AUX_E_NOMEM : 0;
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

static const struct step_map *find_map(const struct step_process *proc,
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

/* The build id of a mapping's file, which is read once; NULL: no lasting
 * file. */
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

/* The vdso comes from the kernel: no file has it, and a reader may run another
 * one. */
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

void step_hash_clear(struct step_hash *h)
{
	if (h->n)
		memset(h->e, 0, h->n * sizeof(*h->e));
	h->used = 0;
}

/* Drops cached instructions and the lookup of blocks. The blocks themselves
 * stay: soft may still refer to them by index. */
static void drop_cache(struct step_process *proc)
{
	step_hash_clear(&proc->insn_at);
	step_hash_clear(&proc->block_at);
	proc->n_insns = 0;
}

static void drop_pages(struct step_process *proc, uint64_t start,
			    uint64_t end)
{
	size_t i, n = 0;

	for (i = 0; i < proc->n_pages; i++) {
		struct step_page *pg = proc->pages[i];

		if (pg->addr >= start && pg->addr < end)
			free(pg);
		else
			proc->pages[n++] = pg;
	}
	if (n == proc->n_pages)
		return;
	proc->n_pages = n;
	step_hash_clear(&proc->page_at);
	for (i = 0; i < n; i++)	/* there was room for more of them */
		step_hash_put(&proc->page_at, proc->pages[i]->addr,
			      (uint32_t)i + 1);
}

/* What the code cache has of mappings that are not as they were. */
static void forget_gone(struct step_process *proc, const struct step_map *maps,
			size_t n)
{
	const struct step_map *m;
	size_t i, k;

	for (i = 0; i < proc->n_maps; i++) {
		m = &proc->maps[i];
		for (k = 0; k < n && !same_map(m, &maps[k]); k++)
			;
		if (k == n)
			step_native_forget(proc, m->start, m->end);
	}
}

/* Copies of code in one of ours, which nobody branches to by its address. */
static bool is_cache(const struct step_process *proc, const struct step_map *m)
{
	int i;

	for (i = 1; i < STEP_NATIVE_PARTS; i++)
		if (m->start == proc->native_at[i] && !strncmp(m->path, "/memfd:", 7))
			return true;
	return false;
}

/* A mapping that only vanished is not reported: perf has no record for that. */
int step_maps_update(struct step_thread *t, bool is_new)
{
	struct step_process *proc = t->proc;
	struct step_map *maps;
	size_t i, n;
	int err = read_maps(proc->pid, &maps, &n);
	bool changed = n != proc->n_maps;

	/* A process that is being killed has no mappings left. */
	if (err || !n) {
		free_maps(maps, n);
		return err;
	}
	err = step_flush_process(proc);
	for (i = 0; i < n && !err; i++) {
		if (find_same(proc, &maps[i]))
			continue;
		changed = true;
		drop_pages(proc, maps[i].start, maps[i].end);
		step_native_forget(proc, maps[i].start, maps[i].end);
		if (is_cache(proc, &maps[i]))
			continue;
		err = report_map(t, &maps[i]);
		if (!err)
			err = step_trigger_map(proc, &maps[i]);
	}
	forget_gone(proc, maps, n);
	free_maps(proc->maps, proc->n_maps);
	proc->maps = maps;
	proc->n_maps = n;
	if (changed)
		drop_cache(proc);
	return err || !is_new ? err : step_vdso_save(t);
}

/*
 * ---- instructions and blocks ----
 *
 * Decoded once and cached until a mapping changes or the program writes to the file
 * /proc/PID/mem, for which no mapping needs to be writable; not cached where the
 * mapping is writable or shared, as the bytes may then change between two steps. Code
 * that no lasting file has is saved page by page before it runs, and again when
 * the bytes about to run differ from the saved ones.
 */

/* Fibonacci hashing: addresses differ in few, low bits. */
static size_t hash_slot(const struct step_hash *h, uint64_t key)
{
	size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (i &= h->n - 1; h->e[i].value && h->e[i].key != key;)
		i = (i + 1) & (h->n - 1);
	return i;
}

uint32_t step_hash_get(const struct step_hash *h, uint64_t key)
{
	return h->n ? h->e[hash_slot(h, key)].value : 0;
}

static int hash_grow(struct step_hash *h)
{
	struct step_hash old = *h;
	size_t i;

	h->n = old.n ? old.n * 2 : 1024;
	h->e = calloc(h->n, sizeof(*h->e));
	if (!h->e) {
		*h = old;
		return -AUX_E_NOMEM;
	}
	for (i = 0; i < old.n; i++)
		if (old.e[i].value)
			h->e[hash_slot(h, old.e[i].key)] = old.e[i];
	free(old.e);
	return 0;
}

int step_hash_put(struct step_hash *h, uint64_t key, uint32_t value)
{
	size_t i;

	if (h->used * 2 >= h->n && hash_grow(h))
		return -AUX_E_NOMEM;
	i = hash_slot(h, key);
	h->used += !h->e[i].value;
	h->e[i].key = key;
	h->e[i].value = value;
	return 0;
}

/* /proc/PID/mem, which unlike PEEKTEXT reads any length in one call. A read
 * that fails is tried again up to the end of the page: the next one may not be
 * mapped. */
size_t step_memory_read(struct step_process *proc, uint64_t addr, void *buf,
			size_t len)
{
	ssize_t n = pread(proc->mem_fd, buf, len, (off_t)addr);
	size_t left = STEP_PAGE - addr % STEP_PAGE;

	if (n < 0 && left < len)
		n = pread(proc->mem_fd, buf, left, (off_t)addr);
	return n < 0 ? 0 : (size_t)n;
}

static void close_memory(struct step_process *proc)
{
	if (proc->mem_fd >= 0)
		close(proc->mem_fd);
	if (proc->pagemap_fd >= 0)
		close(proc->pagemap_fd);
}

/* Again after an exec: the descriptors refer to the old address space. */
static void open_memory(struct step_process *proc)
{
	char path[64];

	close_memory(proc);
	snprintf(path, sizeof(path), "/proc/%d/mem", proc->pid);
	proc->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", proc->pid);
	proc->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/*
 * The process wrote to this page of a file that it has mapped privately, as a
 * program does that patches itself and then makes its text read-only again:
 * the file does not have these bytes. Bits of pagemap (kernel,
 * Documentation/admin-guide/mm/pagemap.rst): 63 present, 62 swapped, 61 it is
 * the file's.
 */
static bool is_written(const struct step_process *proc, uint64_t addr)
{
	uint64_t e;

	if (pread(proc->pagemap_fd, &e, sizeof(e),
		  (off_t)(addr / proc->step->page_size * sizeof(e))) != sizeof(e))
		return false;
	return e >> 62 && !(e >> 61 & 1);
}

static void free_pages(struct step_process *proc)
{
	size_t i;

	for (i = 0; i < proc->n_pages; i++)
		free(proc->pages[i]);
	free(proc->pages);
	proc->pages = NULL;
	proc->n_pages = 0;
	step_hash_clear(&proc->page_at);
}

/* The blocks, too: nothing of the old image is batched any more. */
void step_code_reset(struct step_process *proc)
{
	clear_maps(proc);
	drop_cache(proc);
	proc->n_blocks = 0;
	free_pages(proc);
	open_memory(proc);
}

struct step_process *step_process_new(struct step *st, pid_t pid,
				      const struct step_process *parent)
{
	struct step_process *proc = calloc(1, sizeof(*proc));

	if (!proc)
		return NULL;
	proc->step = st;
	proc->pid = pid;
	proc->mem_fd = proc->pagemap_fd = -1;
	if (parent && (copy_maps(proc, parent) || step_trigger_inherit(proc, parent))) {
		step_process_free(proc);
		return NULL;
	}
	open_memory(proc);
	if (parent)
		step_native_inherit(proc, parent);
	return proc;
}

void step_process_free(struct step_process *proc)
{
	if (!proc)
		return;
	step_native_close(proc);
	clear_maps(proc);
	free_pages(proc);
	free(proc->insns);
	free(proc->insn_at.e);
	free(proc->blocks);
	free(proc->block_at.e);
	free(proc->page_at.e);
	free(proc->marks);
	free(proc->mark_at.e);
	close_memory(proc);
	free(proc);
}

static struct step_page *find_page(struct step_process *proc, uint64_t addr)
{
	uint32_t i = step_hash_get(&proc->page_at, addr);

	return i ? proc->pages[i - 1] : NULL;
}

static struct step_page *add_page(struct step_process *proc, uint64_t addr)
{
	struct step_page **pages, *pg;

	pages = realloc(proc->pages, (proc->n_pages + 1) * sizeof(*pages));
	if (!pages)
		return NULL;
	proc->pages = pages;	/* the old one is gone, whatever fails now */
	pg = calloc(1, sizeof(*pg));
	if (!pg)
		return NULL;
	pg->addr = addr;
	pages[proc->n_pages++] = pg;
	if (!step_hash_put(&proc->page_at, addr, (uint32_t)proc->n_pages))
		return pg;
	free(pages[--proc->n_pages]);
	return NULL;
}

/*
 * The n bytes at addr, within one page, are about to run: the file must have
 * them. If they differ from what was saved, saves the page again.
 */
static int save_page(struct step_thread *t, uint64_t addr, const uint8_t *bytes,
		     size_t n)
{
	struct step_process *proc = t->proc;
	uint64_t base = addr & ~(uint64_t)(STEP_PAGE - 1);
	struct step_page *pg = find_page(proc, base);
	uint8_t now[STEP_PAGE];

	if (pg && !memcmp(pg->bytes + (addr - base), bytes, n))
		return 0;
	if (n == STEP_PAGE)
		memcpy(now, bytes, n);
	else if (step_memory_read(proc, base, now, STEP_PAGE) != STEP_PAGE)
		return 0;
	if (pg)
		step_native_changed(proc, base, pg->bytes, now);
	else if (!(pg = add_page(proc, base)))
		return -AUX_E_NOMEM;
	memcpy(pg->bytes, now, STEP_PAGE);
	drop_cache(proc);
	if (step_flush_process(proc))
		return -AUX_E_IO;
	return soft_code(t->soft, base, pg->bytes, STEP_PAGE, AUX_CODE_ANON);
}

/* save_page for an instruction that may straddle two pages. */
static int save_insn(struct step_thread *t, uint64_t ip, const uint8_t *bytes,
		     size_t n)
{
	size_t left = STEP_PAGE - ip % STEP_PAGE;
	int err = save_page(t, ip, bytes, n < left ? n : left);

	if (!err && n > left)
		err = save_page(t, ip + left, bytes + left, n - left);
	return err;
}

int step_code_page(struct step_thread *t, uint64_t page, uint8_t *bytes)
{
	struct step_process *proc = t->proc;
	const struct step_map *m = find_map(proc, page);
	int err;

	if (!m && (err = step_maps_update(t, false)))
		return err;
	m = find_map(proc, page);
	if (!m || step_memory_read(proc, page, bytes, STEP_PAGE) != STEP_PAGE)
		return 0;
	if ((m->save || m->check || is_written(proc, page)) &&
	    strcmp(m->path, "[vdso]")) {
		if (proc->native_shares)
			return 0;	/* the other's file would lack it */
		err = save_page(t, page, bytes, STEP_PAGE);
		if (err)
			return err;
	}
	return m->check ? STEP_CODE_CHANGES : STEP_CODE_STAYS;
}

static int add_insn(struct step_process *proc, const struct step_insn *insn)
{
	if (array_grow(&proc->insns, proc->n_insns, &proc->cap_insns,
		       sizeof(*insn)))
		return -AUX_E_NOMEM;
	proc->insns[proc->n_insns++] = *insn;
	return step_hash_put(&proc->insn_at, insn->ip, (uint32_t)proc->n_insns);
}

/* Decodes the instruction at ip. insn->size 0: there is none to be read. An
 * unknown address first updates the mappings: a thread may run a mapping that
 * another thread's system call has just made. */
static int fetch_insn(struct step_thread *t, uint64_t ip,
		      struct step_insn *insn)
{
	struct step_process *proc = t->proc;
	const struct step_map *m = find_map(proc, ip);
	uint8_t bytes[STEP_INSN_MAX];
	size_t n;
	int size, err;

	*insn = (struct step_insn){ .ip = ip };
	if (!m && (err = step_maps_update(t, false)))
		return err;
	m = find_map(proc, ip);
	n = step_memory_read(proc, ip, bytes, sizeof(bytes));
	size = m ? step_insn_decode(bytes, n, insn) : 0;
	if (!size)
		return 0;
	insn->check = m->check;
	if ((m->save || is_written(proc, ip) ||
	     is_written(proc, ip + (uint64_t)size - 1)) &&
	    strcmp(m->path, "[vdso]")) {
		err = save_insn(t, ip, bytes, (size_t)size);
		if (err)
			return err;
	}
	return insn->check ? 0 : add_insn(proc, insn);
}

int step_insn_get(struct step_thread *t, uint64_t ip, struct step_insn *insn)
{
	uint32_t i = t->proc->step->n_writing ?
			     0 : step_hash_get(&t->proc->insn_at, ip);

	if (i) {
		*insn = t->proc->insns[i - 1];
		return 0;
	}
	return fetch_insn(t, ip, insn);
}

/* By its name, as a descriptor may come from elsewhere: /proc/PID/mem and
 * /proc/PID/task/TID/mem, in any mount of proc. */
bool step_is_memory(pid_t tid, uint32_t fd)
{
	char path[64], name[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%u", tid, fd);
	n = readlink(path, name, sizeof(name));
	return n > 4 && !memcmp(name + n - 4, "/mem", 4);
}

bool step_writes_memory(const struct step_thread *t)
{
	switch (step_call_number(t)) {
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_pwritev2:
		return step_is_memory(t->tid, (uint32_t)step_call_arg(t, 0));
	default:
		return false;
	}
}

/* Of all processes, for the file may be that of another one. What a thread is about
 * to run is fetched again, too. */
void step_memory_written(struct step *st)
{
	struct step_process *proc;
	struct step_thread *t;

	for (proc = st->procs; proc; proc = proc->next) {
		drop_cache(proc);
		step_native_forget(proc, 0, UINT64_MAX);
	}
	for (t = st->threads; t; t = t->next)
		t->insn.check = true;
}

/*
 * Only the latest block at a start is looked up: another length or end is rare
 * (a signal, a condition at the size limit), and a duplicate costs nothing but
 * memory.
 */
int64_t step_block_id(struct step_process *proc, uint64_t start, uint32_t n,
		      const struct step_insn *last)
{
	struct soft_block b = {
		.start = start, .end = last->ip + last->size,
		.target = last->target, .n_insns = n, .cls = last->cls,
		.last_size = last->size,
	};
	uint32_t i = step_hash_get(&proc->block_at, start);

	if (i && !memcmp(&proc->blocks[i - 1], &b, sizeof(b)))
		return i - 1;
	if (array_grow(&proc->blocks, proc->n_blocks, &proc->cap_blocks,
		       sizeof(b)))
		return -1;
	proc->blocks[proc->n_blocks++] = b;
	if (step_hash_put(&proc->block_at, start, (uint32_t)proc->n_blocks))
		return -1;
	return (int64_t)proc->n_blocks - 1;
}
