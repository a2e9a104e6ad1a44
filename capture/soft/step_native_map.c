/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code cache's mappings in a traced process, which it makes itself: system
 * calls are put into its registers while it is stopped, and stepped over in the
 * vdso, where there is an instruction for them.
 *
 * Only a process that has not been told otherwise may be made to do so: not one
 * with a seccomp filter, nor one that shares its memory with another.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/soft/step_native.h"
#include "common/array.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define MB (UINT64_C(1) << 20)
#define LOWEST (256 * MB)	/* above the heap of programs that are linked low */
#define ANYWHERE (65536 * MB)
#define REACH (1600 * MB)	/* of relative operands, from all of an area */

struct place {
	uint64_t start, end;
};

struct places {
	struct place *maps;
	size_t n;
};

/* A thread that makes system calls for us. */
struct helper {
	struct step_thread *t;
	struct user_regs_struct saved;
	uint64_t mask;
	uint64_t vdso, syscall_at;
	bool lost;		/* it ends */
	bool stops;		/* with all of its process */
	siginfo_t sent;		/* SIGTRAP, which somebody sent to it */
};

/* False: there is no SYSCALL instruction in a vdso. */
static bool find_syscall(struct helper *h)
{
	struct step_process *proc = h->t->proc;
	uint8_t bytes[4 * STEP_PAGE];
	size_t i, n = 0;

	for (i = 0; i < proc->n_maps; i++)
		if (!strcmp(proc->maps[i].path, "[vdso]"))
			h->vdso = proc->maps[i].start;
	if (h->vdso)
		n = step_memory_read(proc, h->vdso, bytes, sizeof(bytes));
	for (i = 0; i + 1 < n && !h->syscall_at; i++)
		if (bytes[i] == 0x0f && bytes[i + 1] == 0x05)
			h->syscall_at = h->vdso + i;
	return h->syscall_at;
}

/* The process has a seccomp filter, or cannot be read. */
static bool is_filtered(pid_t pid)
{
	return step_status(pid, "Seccomp", NULL) != 0;
}

/* Sent by us, as far as the kernel lets one say it was not. */
void step_native_send_again(const struct step_thread *t, const siginfo_t *si)
{
	siginfo_t s = *si;

	if (s.si_code == SI_USER || s.si_code == SI_TKILL)
		s.si_code = SI_QUEUE;	/* no process may say the former of another one */
	syscall(SYS_rt_tgsigqueueinfo, t->proc->pid, t->tid, s.si_signo, &s);
}

/* One step, all signals but SIGTRAP being blocked: a system call, unless somebody has sent
 * that one. */
static bool step_call(struct helper *h)
{
	pid_t tid = h->t->tid;
	siginfo_t si;
	int status;

	do {
		if (ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) ||
		    !step_wait(h->t, &status))
			return false;
		h->stops |= status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
	} while (status >> 16 == PTRACE_EVENT_STOP);
	if (status >> 16 || ptrace(PTRACE_GETSIGINFO, tid, NULL, &si))
		return false;
	if (si.si_code <= 0)
		h->sent = si;
	return true;
}

/* One system call; its result or a negative errno. */
static int64_t call(struct helper *h, long nr, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d, uint64_t e, uint64_t f)
{
	struct user_regs_struct r = h->saved;
	pid_t tid = h->t->tid;

	r.rax = (uint64_t)nr;
	r.orig_rax = UINT64_MAX;
	r.rip = h->syscall_at;
	r.rdi = a;
	r.rsi = b;
	r.rdx = c;
	r.r10 = d;
	r.r8 = e;
	r.r9 = f;
	r.eflags &= ~(uint64_t)STEP_TRAP_FLAG;
	if (h->lost || ptrace(PTRACE_SETREGS, tid, NULL, &r))
		return -ESRCH;
	do {
		if (!step_call(h) || ptrace(PTRACE_GETREGS, tid, NULL, &r)) {
			h->lost = true;
			return -ESRCH;
		}
	} while (r.rip == h->syscall_at);
	return (int64_t)r.rax;
}

/* All signals wait but that of a step. */
static bool hold_signals(struct helper *h)
{
	uint64_t all = ~(UINT64_C(1) << (SIGTRAP - 1));
	pid_t tid = h->t->tid;

	return !ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(h->mask), &h->mask) &&
	       !ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(all), &all);
}

static void release_signals(struct helper *h)
{
	pid_t tid = h->t->tid;

	ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(h->mask), &h->mask);
	if (h->sent.si_signo)
		step_native_send_again(h->t, &h->sent);
	if (h->stops)		/* it is to be told again */
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
}

static bool can_call(struct helper *h)
{
	return find_syscall(h) && !is_filtered(h->t->proc->pid);
}

static bool begin_calls(struct helper *h)
{
	return can_call(h) && !ptrace(PTRACE_GETREGS, h->t->tid, NULL, &h->saved) &&
	       hold_signals(h);
}

static void end_calls(struct helper *h)
{
	ptrace(PTRACE_SETREGS, h->t->tid, NULL, &h->saved);
	release_signals(h);
}

/* The memfd, made by the process and opened here too; *fd is its own. NULL: no
 * memory, or not allowed. */
static uint8_t *make_memory(struct helper *h, int64_t *fd)
{
	size_t size = NATIVE_DATA_BYTES + NATIVE_N_AREAS * NATIVE_AREA_BYTES;
	/* the empty string, in the vdso's ELF header */
	uint64_t name = h->vdso + EI_PAD;
	uint8_t *mem = MAP_FAILED;
	char path[64];
	int here;

	*fd = call(h, SYS_memfd_create, name, MFD_CLOEXEC | MFD_EXEC, 0, 0, 0, 0);
	if (*fd == -EINVAL)
		*fd = call(h, SYS_memfd_create, name, MFD_CLOEXEC, 0, 0, 0, 0);
	if (*fd < 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", h->t->tid, (int)*fd);
	here = open(path, O_RDWR | O_CLOEXEC);
	if (here >= 0 && !ftruncate(here, (off_t)size))
		mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, here,
			   0);
	if (here >= 0)
		close(here);
	return mem == MAP_FAILED ? NULL : mem;
}

/* An address in the middle of the largest gap between mappings in [low, high);
 * 0: there is none of that size. */
static uint64_t find_gap(const struct places *p, uint64_t low, uint64_t high,
			 uint64_t size)
{
	uint64_t from = low, best = 0, at = 0;
	size_t i;

	for (i = 0; i <= p->n && from < high; i++) {
		uint64_t to = i < p->n ? p->maps[i].start : high;

		to = to < high ? to : high;
		if (to > from && to - from >= size && to - from > best) {
			best = to - from;
			at = from + (best - size) / 2;
		}
		if (i < p->n && p->maps[i].end > from)
			from = p->maps[i].end;
	}
	at = (at + 2 * MB - 1) & ~(2 * MB - 1);
	return best >= size + 2 * MB ? at : 0;
}

/* All mappings of the process, in order. False: they cannot be read. */
static bool read_places(pid_t pid, struct places *p)
{
	char path[64], *line = NULL;
	size_t cap = 0, room = 0;
	struct place m;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &m.start, &m.end) != 2 ||
		    array_grow(&p->maps, p->n, &cap, sizeof(m)))
			break;
		p->maps[p->n++] = m;
	}
	free(line);
	if (f)
		fclose(f);
	return p->n;
}

static void take_place(struct places *p, uint64_t at, uint64_t size)
{
	size_t i;

	for (i = p->n; i && p->maps[i - 1].start > at; i--)
		p->maps[i] = p->maps[i - 1];
	p->maps[i] = (struct place){ at, at + size };
	p->n++;
}

/* Where the parts go: the first area near the libraries, the second one near the
 * program, data anywhere. Each below what it is near to, where the kernel and the
 * program's heap do not grow. 0: no room. */
static void choose_places(struct step_process *proc)
{
	uint64_t low = UINT64_MAX, high = 0, near[2], at;
	struct places p = { .maps = NULL };
	size_t i;

	for (i = 0; i < proc->n_maps; i++) {
		const struct step_map *m = &proc->maps[i];

		if (m->path[0] != '/' || m->path[1] == '/')
			continue;
		low = m->start < low ? m->start : low;
		high = m->start > high ? m->start : high;
	}
	near[0] = high;
	near[1] = low;
	if (high && read_places(proc->pid, &p) &&
	    !array_grow(&p.maps, p.n + 3, &(size_t){ p.n }, sizeof(*p.maps))) {
		for (i = 0; i < 2; i++) {
			at = find_gap(&p, near[i] > REACH ? near[i] - REACH :
				      LOWEST, near[i], NATIVE_AREA_BYTES);
			if (!at)
				at = find_gap(&p, near[i], near[i] + REACH,
					      NATIVE_AREA_BYTES);
			if (at)
				take_place(&p, at, NATIVE_AREA_BYTES);
			proc->native_at[i + 1] = at;
		}
		proc->native_at[0] = find_gap(&p, LOWEST, high > ANYWHERE ?
					      high : ANYWHERE, NATIVE_DATA_BYTES);
	}
	free(p.maps);
}

static void unmap_parts(struct helper *h, int n)
{
	while (n--)
		call(h, SYS_munmap, h->t->proc->native_at[n],
		     n ? NATIVE_AREA_BYTES : NATIVE_DATA_BYTES, 0, 0, 0, 0);
}

/* True: the parts are mapped. */
static bool map_parts(struct helper *h, int64_t fd, bool again)
{
	const uint64_t *at = h->t->proc->native_at;
	uint64_t off = 0, len, how;
	int64_t got;
	int i;

	how = MAP_SHARED | (again ? MAP_FIXED : MAP_FIXED_NOREPLACE);
	for (i = 0; i < STEP_NATIVE_PARTS; i++, off += len) {
		len = i ? NATIVE_AREA_BYTES : NATIVE_DATA_BYTES;
		got = call(h, SYS_mmap, at[i], len,
			   PROT_READ | (i ? PROT_EXEC : PROT_WRITE), how,
			   (uint64_t)fd, off);
		if (got == (int64_t)at[i]) {
			/* gigabytes that are not the program's: not into its core */
			call(h, SYS_madvise, at[i], len, MADV_DONTDUMP, 0, 0, 0);
			continue;
		}
		if (got > 0)
			call(h, SYS_munmap, (uint64_t)got, len, 0, 0, 0, 0);
		unmap_parts(h, i);
		return false;
	}
	return true;
}

/* The time stamp counter can be read there, which prctl(2) may forbid. */
static bool has_tsc(struct helper *h, const struct step_native *nc)
{
	int how = PR_TSC_SIGSEGV;

	if (call(h, SYS_prctl, PR_GET_TSC, h->t->proc->native_at[0], 0, 0, 0, 0) < 0)
		return false;
	memcpy(&how, nc->mem, sizeof(how));
	memset(nc->mem, 0, sizeof(how));
	return how == PR_TSC_ENABLE;
}

static void init_cache(struct step_native *nc, const uint64_t *at)
{
	struct native_unit none = { .dead = true };
	uint32_t i;

	nc->data_at = at[0];
	for (i = 0; i < NATIVE_N_AREAS; i++) {
		struct native_area *a = &nc->areas[i];

		a->at = at[i + 1];
		a->mem = nc->mem + NATIVE_DATA_BYTES + i * NATIVE_AREA_BYTES;
		a->size = NATIVE_AREA_BYTES;
		native_area_init(a);
	}
	for (i = 0; i < NATIVE_KNOWN_CALLS; i++)
		nc->mem[NATIVE_CALLS_AT + i] = native_call_is_plain(i);
	nc->units = malloc(sizeof(none));
	if (!nc->units)
		return;
	nc->units[0] = none;
	nc->n_units = nc->cap_units = 1;
}

/*
 * A program that has a process's memory open as a file can write code to it
 * without any mapping changing. From then on no cache runs its writes: they are
 * stepped, and what they may have changed is forgotten.
 */
static void watch_writes(struct step *st)
{
	static const uint16_t writes[] = { SYS_write, SYS_writev, SYS_pwrite64,
					   SYS_pwritev, SYS_pwritev2 };
	const struct step_process *proc;
	size_t i;

	st->memory_open = true;
	for (proc = st->procs; proc; proc = proc->next)
		for (i = 0; proc->native && i < sizeof(writes) / sizeof(*writes); i++)
			__atomic_store_n(&proc->native->mem[NATIVE_CALLS_AT + writes[i]],
					 0, __ATOMIC_RELEASE);
}

/* Some descriptor of the process is such a file; or they cannot be read. */
static bool holds_memory(pid_t pid)
{
	const struct dirent *e;
	bool found = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return true;
	while (!found && (e = readdir(dir)))
		found = e->d_name[0] != '.' &&
			step_is_memory(pid, (uint32_t)strtoul(e->d_name, NULL, 10));
	closedir(dir);
	return found;
}

/* The message in the call that returned has control data: descriptors, perhaps. */
static bool has_control(struct step_thread *t)
{
	uint64_t at = t->regs.rsi + offsetof(struct msghdr, msg_controllen);
	uint64_t size;

	return step_memory_read(t->proc, at, &size, sizeof(size)) !=
		       sizeof(size) || size;
}

void step_native_called(struct step_thread *t, int64_t result)
{
	struct step *st = t->proc->step;
	bool found = false;

	if (t->regs.orig_rax == SYS_prctl && t->regs.rdi == PR_SET_TSC && result >= 0)
		t->proc->native_off |= t->regs.rsi != PR_TSC_ENABLE;
	if (!st->native || st->memory_open || result < 0)
		return;
	switch (t->regs.orig_rax) {
	case SYS_open:
	case SYS_creat:
	case SYS_openat:
	case SYS_openat2:
	case SYS_open_by_handle_at:
	case SYS_pidfd_getfd:
		found = step_is_memory(t->tid, (uint32_t)result);
		break;
	case SYS_recvmsg:
		found = has_control(t) && holds_memory(t->tid);
		break;
	case SYS_recvmmsg:
		found = holds_memory(t->tid);
		break;
	case SYS_io_uring_setup:	/* opens without a system call */
		found = true;
		break;
	default:
		break;
	}
	if (found)
		watch_writes(st);
}

bool step_native_open(struct step_thread *t)
{
	struct step_process *proc = t->proc;
	struct helper h = { .t = t };
	struct step_native *nc = calloc(1, sizeof(*nc));
	bool again = proc->native_at[0], mapped = false;
	int64_t fd = -1;

	proc->native_off = true;
	proc->step->counts[STEP_N_ALONE]++;	/* unless it succeeds */
	if (!nc || !begin_calls(&h)) {
		free(nc);
		return false;
	}
	if (!again)
		choose_places(proc);
	if (proc->native_at[0] && proc->native_at[1] && proc->native_at[2])
		nc->mem = make_memory(&h, &fd);
	if (nc->mem)
		mapped = map_parts(&h, fd, again);
	if (mapped && !has_tsc(&h, nc)) {
		unmap_parts(&h, STEP_NATIVE_PARTS);
		mapped = false;
	}
	if (fd >= 0)
		call(&h, SYS_close, (uint64_t)fd, 0, 0, 0, 0, 0);
	end_calls(&h);
	proc->native = nc;
	if (mapped)
		init_cache(nc, proc->native_at);
	if (!nc->n_units || step_maps_update(t, false)) {
		step_native_close(proc);
		proc->native_off = true;
		return false;
	}
	proc->native_off = false;
	proc->step->counts[STEP_N_ALONE]--;
	if (proc->step->memory_open || holds_memory(proc->pid))
		watch_writes(proc->step);
	return true;
}

void step_native_close(struct step_process *proc)
{
	struct step_native *nc = proc->native;
	size_t i;

	proc->native = NULL;
	proc->native_off = proc->native_shares = false;
	memset(proc->native_at, 0, sizeof(proc->native_at));
	if (!nc)
		return;
	if (nc->n_sharing) {
		nc->n_sharing--;
		return;
	}
	if (nc->mem)
		munmap(nc->mem, NATIVE_DATA_BYTES +
				NATIVE_N_AREAS * NATIVE_AREA_BYTES);
	for (i = 0; i < nc->n_pages; i++)
		free(nc->pages[i]);
	for (i = 0; i < NATIVE_N_AREAS; i++)
		free(nc->order[i]);
	for (i = 0; i < nc->n_paths; i++)
		free(nc->paths[i].tail);
	free(nc->paths);
	free(nc->pages);
	free(nc->units);
	free(nc->insns);
	free(nc->exits);
	free(nc->blocks);
	free(nc->heat);
	free(nc->by_ip.e);
	free(nc->waiting.e);
	free(nc->doors.e);
	free(nc->page_at.e);
	free(nc);
}

/* A child that shares the memory shares the cache; where the recording has code of the
 * parent's, which it would need of the child, too, it is stepped until it executes
 * something. What cannot be found out counts as shared. */
void step_native_inherit(struct step_process *proc,
			 const struct step_process *parent)
{
	if (!parent->step->native)
		return;
	memcpy(proc->native_at, parent->native_at, sizeof(proc->native_at));
	proc->ran_before = parent->ran_before;
	proc->native_shares = syscall(SYS_kcmp, parent->pid, proc->pid, KCMP_VM,
				      0, 0) <= 0;
	proc->native_off = parent->native_off || proc->native_shares;
	if (!proc->native_shares || !parent->native || parent->native_off ||
	    parent->n_pages)
		return;
	proc->native = parent->native;
	proc->native->n_sharing++;
	proc->native_off = false;
}

/*
 * At the entry of a system call the kernel would take the first of ours for another
 * number of it, and not run its instruction. So the thread does not make it: it is 2
 * bytes back, where it will.
 */
static bool leave_entry(struct helper *h)
{
	struct step_thread *t = h->t;
	struct user_regs_struct r;
	siginfo_t si;

	if (ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si) ||
	    ptrace(PTRACE_GETREGS, t->tid, NULL, &r))
		return false;
	if ((si.si_code & ~0x80) != SIGTRAP || (int64_t)r.rax != -ENOSYS ||
	    (int64_t)r.orig_rax < 0)
		return true;
	r.rax = r.orig_rax;
	r.orig_rax = UINT64_MAX;
	r.rip -= 2;
	return !ptrace(PTRACE_SETREGS, t->tid, NULL, &r) && step_call(h);
}

/* Whatever it has of a cache, its own or its parent's, is gone. sig: what the thread
 * is stopped by, as it is afterwards. */
void step_native_remove(struct step_thread *t, int sig)
{
	struct step_process *proc = t->proc;
	struct helper h = { .t = t };
	siginfo_t si;
	bool has_si;

	if (!proc->native_at[0] || proc->native_shares || !can_call(&h) || !hold_signals(&h))
		return;
	has_si = sig && !ptrace(PTRACE_GETSIGINFO, t->tid, NULL, &si);
	if (leave_entry(&h) && !ptrace(PTRACE_GETREGS, t->tid, NULL, &h.saved)) {
		unmap_parts(&h, STEP_NATIVE_PARTS);
		ptrace(PTRACE_SETREGS, t->tid, NULL, &h.saved);
	}
	release_signals(&h);
	if (has_si)
		ptrace(PTRACE_SETSIGINFO, t->tid, NULL, &si);
}
