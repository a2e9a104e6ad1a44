/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stack of a thread of a core file, by libdw and the unwind tables of the files that
 * were mapped. The files are ours to choose: only those whose first page is what the
 * core has there. Debug information is not looked for, on this machine or elsewhere:
 * what unwinds is in the files themselves (.eh_frame).
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "decode/lib/elf/core_impl.h"

#ifdef HAVE_DW
#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include "common/regular.h"

#define FIRST_BYTES 4096

struct unwinding {
	const struct elfcore *core;
	const struct elfcore_thread *t;
	struct elfcore_regs regs;	/* where it starts */
	struct elfcore_frame *frames;
	size_t n, max;
	bool started;
};

static int no_elf(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base,
		  char **file, Elf **elf)
{
	(void)mod, (void)user, (void)name, (void)base, (void)file, (void)elf;
	return -1;
}

static int no_debug(Dwfl_Module *mod, void **user, const char *name, Dwarf_Addr base,
		    const char *file, const char *link, GElf_Word crc, char **found)
{
	(void)mod, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc;
	(void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = { .find_elf = no_elf,
					  .find_debuginfo = no_debug };

/* Is it the file that the process had there? */
static bool is_same(const struct elfcore *core, const struct core_file *f, int fd)
{
	uint8_t here[FIRST_BYTES], there[FIRST_BYTES];
	size_t n = elfcore_read(core, f->start, there, sizeof(there));
	ssize_t got = pread(fd, here, sizeof(here), 0);

	return got > SELFMAG && n >= (size_t)got && !memcmp(here, there, (size_t)got) &&
	       !memcmp(here, ELFMAG, SELFMAG);
}

/* Each file that is mapped from its beginning. */
static void add_files(struct unwinding *u, Dwfl *dwfl)
{
	for (size_t i = 0; i < u->core->n_files; i++) {
		const struct core_file *f = &u->core->files[i];
		struct stat st;
		int fd;

		if (f->offset)
			continue;
		fd = regular_open(f->path, &st);
		if (fd < 0)
			continue;
		/* libdw closes what it takes */
		if (!is_same(u->core, f, fd) ||
		    !dwfl_report_elf(dwfl, f->path, f->path, fd, f->start, false))
			close(fd);
	}
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct unwinding *u = arg;

	(void)dwfl;
	if (u->started)
		return 0;
	u->started = true;
	*thread_arg = u;
	return (pid_t)u->t->tid;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *word, void *arg)
{
	const struct unwinding *u = arg;

	(void)dwfl;
	return elfcore_read(u->core, addr, word, sizeof(*word)) == sizeof(*word);
}

/* DWARF has an order of its own: System V ABI, AMD64 supplement, 3.6.2. */
static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	static const uint8_t order[INSN_REGS] = {
		INSN_RAX, INSN_RDX, INSN_RCX, INSN_RBX, INSN_RSI, INSN_RDI, INSN_RBP,
		INSN_RSP, INSN_R8, INSN_R9, INSN_R10, INSN_R11, INSN_R12, INSN_R13,
		INSN_R14, INSN_R15,
	};
	const struct unwinding *u = arg;
	Dwarf_Word v[INSN_REGS + 1];

	for (size_t i = 0; i < INSN_REGS; i++)
		v[i] = u->regs.gpr[order[i]];
	v[INSN_REGS] = u->regs.rip;
	return dwfl_thread_state_registers(thread, 0, INSN_REGS + 1, v);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.memory_read = read_word,
	.set_initial_registers = set_registers,
};

static int add_frame(Dwfl_Frame *frame, void *arg)
{
	struct unwinding *u = arg;
	bool activation = false;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &activation) || u->n == u->max)
		return DWARF_CB_ABORT;
	u->frames[u->n++] = (struct elfcore_frame){ pc, activation };
	return u->n == u->max ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/*
 * No unwind table knows an address without code. One that was called has its return
 * address on top of the stack: it goes on from there.
 */
static bool leave_nowhere(struct unwinding *u, Dwfl *dwfl)
{
	uint64_t back, sp = u->regs.gpr[INSN_RSP];

	if (dwfl_addrmodule(dwfl, u->regs.rip) ||
	    elfcore_read(u->core, sp, &back, sizeof(back)) != sizeof(back) ||
	    !dwfl_addrmodule(dwfl, back))
		return false;
	u->frames[u->n++] = (struct elfcore_frame){ u->regs.rip, true };
	u->regs.rip = back;
	u->regs.gpr[INSN_RSP] += sizeof(back);
	return true;
}

static const char *unwind(struct unwinding *u, Dwfl *dwfl)
{
	bool called;
	int rc;

	dwfl_report_begin(dwfl);
	add_files(u, dwfl);
	if (dwfl_report_end(dwfl, NULL, NULL))
		return "its files cannot be read";
	called = leave_nowhere(u, dwfl);
	if (!dwfl_attach_state(dwfl, NULL, (pid_t)elfcore_pid(u->core),
			       &thread_callbacks, u))
		return "none of its files is here";
	rc = dwfl_getthread_frames(dwfl, (pid_t)u->t->tid, add_frame, u);
	if (called && u->n > 1)
		u->frames[1].activation = false;
	if (!rc || u->n == u->max)
		return NULL;
	return "its unwind tables lead no further";
}

size_t elfcore_unwind(struct elfcore *core, const struct elfcore_thread *t,
		      struct elfcore_frame *frames, size_t max, const char **end)
{
	struct unwinding u = { .core = core, .t = t, .regs = t->regs, .frames = frames,
			       .max = max };
	Dwfl *dwfl = max > 1 ? dwfl_begin(&callbacks) : NULL;

	*end = "out of memory";
	if (!dwfl)
		return 0;
	*end = unwind(&u, dwfl);
	dwfl_end(dwfl);
	return u.n;
}
#else
size_t elfcore_unwind(struct elfcore *core, const struct elfcore_thread *t,
		      struct elfcore_frame *frames, size_t max, const char **end)
{
	(void)core, (void)t, (void)frames, (void)max;
	*end = "this build has no libdw";
	return 0;
}
#endif
