/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ptrace back end's own: processes with their code, and threads with the
 * one instruction that each is stepping over. step.c runs them, step_proc.c
 * knows their code and mappings. All on the thread that traces, as ptrace(2)
 * requires.
 */
#ifndef CAPTURE_SOFT_STEP_H
#define CAPTURE_SOFT_STEP_H

#include <sys/types.h>
#include <sys/user.h>

#include "common/x86_insn.h"

#include "capture/soft/soft.h"
#include "capture/soft/step_machine.h"

#define STEP_PAGE 4096u		/* of code that is saved at once: the smallest page */
#define STEP_BLOCK_MAX 64	/* instructions of one block */
#define STEP_BATCH 512		/* blocks, before soft_run */
#define STEP_TRUTH 2048		/* addresses, before soft_truth */
#define STEP_TRAP_FLAG 0x100u	/* of EFLAGS */
#define STEP_NATIVE_PARTS 3	/* mappings of the code cache */

/* EXIT: the last stop at which a dying thread's registers can be read. */
#define STEP_OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |       \
		      PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC |       \
		      PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)

struct step_insn {
	uint64_t ip;
	uint64_t target;	/* of a direct branch */
	uint8_t size;		/* 0: no code can be read there */
	uint8_t cls;
	bool rep;
	bool pushf, popf;	/* stores, loads the flags */
	bool load_exclusive, store_exclusive;
	bool check;		/* its bytes may change any time */
};

struct step_map {
	uint64_t start, end, pgoff, ino;
	uint32_t prot, flags, maj, min;
	bool save;		/* no lasting file has its bytes */
	bool check;		/* its bytes may change any time */
	char *path;
};

/* A page whose bytes are in the file. */
struct step_page {
	uint64_t addr;
	uint8_t bytes[STEP_PAGE];
};

/* Open addressing by address; value 0 is free. */
struct step_hash {
	struct step_hash_entry {
		uint64_t key;
		uint32_t value;	/* index + 1 */
	} *e;
	size_t n, used;
};

struct native_time;

/* An instruction at which a thread is looked at: step_trigger.c. */
struct step_mark {
	uint64_t addr;
	uint32_t triggers;	/* that begin there, a bit each; 0: calls return there */
};

/* A call whose duration matters. */
struct step_call {
	uint64_t sp, ret;	/* when it began, and where it returns to */
	uint64_t from_ns;
	uint32_t trigger;
};

/* What was waited for. */
struct step_moment {
	const struct trigger *trigger;
	uint64_t time_ns, took_ns;
	uint32_t pid, tid, cpu;
};

struct step_trigger {
	uint64_t n_hits, n_taken, n_passed;	/* passed over: too soon */
	uint64_t last_ns;	/* when one was taken */
	uint64_t due_ns;	/* when that which waits is taken; 0: none does */
	struct step_moment waits;
	uint32_t found;		/* triggers that some file had a function of */
	bool counted;		/* how many processes the kernel has killed for want of */
	uint64_t n_oom;		/* memory when we began, and those that were told since */
};

struct step_process {
	struct step_process *next;
	struct step *step;
	pid_t pid;
	int mem_fd, pagemap_fd;
	uint32_t n_threads;
	struct step_map *maps;	/* executable ones */
	size_t n_maps;
	struct step_insn *insns;
	size_t n_insns, cap_insns;
	struct step_hash insn_at;
	struct soft_block *blocks;
	size_t n_blocks, cap_blocks;
	struct step_hash block_at;
	struct step_page **pages;
	size_t n_pages;
	struct step_hash page_at;
	struct step_mark *marks;
	size_t n_marks, cap_marks;
	struct step_hash mark_at;
	struct step_native *native;	/* NULL: it is stepped */
	uint64_t native_at[STEP_NATIVE_PARTS]; /* where it is, here or in what
						* the process was forked from */
	bool native_off;	/* not to be tried (again) */
	bool native_shares;	/* memory, with what it was forked from */
	bool ran_before;	/* us: what it has asked of the kernel holds */
};

/* What a PTWRITE writes. */
struct step_operand {
	uint64_t value;		/* or where it is */
	bool is_memory;
	int size;		/* 4 or 8 */
};

/* A thread in the code cache of its process. */
struct step_native_thread {
	uint32_t slot;		/* its slots and ring, + 1; 0: none yet */
	uint32_t last;		/* exit of its latest record, if not ~0 */
	uint64_t target;	/* where the unit begins that it is in, or goes to; */
	bool tip;		/* not known: its latest record is of an indirect branch */
	uint64_t step_ip;	/* is stepped, not run from the cache */
	uint64_t gs;		/* the program's base of GS */
	uint64_t back_ns;	/* when it went there from the kernel; 0: no */
	int64_t done;		/* of the ring that is read, as slots.cur */
	const struct native_time *call;	/* its latest record is of it; NULL: of none, or
				 * it is out */
	uint8_t half;		/* of its two rings, which it fills; */
	uint8_t reading;	/* and which is read: another one is full */
	bool inside;
	bool draining;
};

struct step_thread {
	struct step_thread *next;
	struct step_process *proc;
	struct soft_thread *soft;
	pid_t tid;
	bool user;		/* in user code, as soft knows it */
	bool in_syscall;	/* its system call was reported already */
	bool injected;		/* resumed with a signal */
	bool restart;		/* the system call may run again */
	bool running;		/* resumed, no stop seen since */
	bool fresh;		/* attached, and its first stop is to come */
	bool exiting;		/* its PTRACE_EVENT_EXIT was seen */
	bool listens;		/* stays in the stop of its process */
	uint64_t stalled_ns;	/* it stands still since; 0: it does not */
	bool trap_blocked;	/* SIGTRAP, by the program; by us it is not */
	bool popped;		/* insn before was a POPF */
	bool paused;		/* by forget_trap_flag(): stops at once */
	int first;		/* what waitpid() said of its first stop; 0: not yet */
	bool vsyscall;		/* resumed at a vsyscall, of which ip is the return */
	bool writing;		/* in a call that writes to a process's memory */
	struct step_native_thread native;
	uint64_t ip;		/* of insn, which is next or being stepped */
	struct step_insn insn;
	struct user_regs_struct regs; /* at a system call */
	uint64_t over_end;	/* runs to there at once (step_insn_before); 0: it does not */
	uint64_t mark_sp, mark_ret;	/* before an instruction with a mark: the stack
					 * pointer, and what is there */
	struct step_call *calls;
	size_t n_calls, cap_calls;
	struct step_operand ptw; /* of the PTWRITE that insn is */
	uint64_t left_ns;
	uint64_t block_start;
	uint32_t block_n;
	uint32_t n_ids, n_truth;
	uint32_t ids[STEP_BATCH];
	uint64_t truth[STEP_TRUTH];
};

struct step_build_id {
	struct step_build_id *next;
	uint64_t ino;
	uint32_t maj, min;
	uint8_t id[20];
	uint8_t size;
};

/* Why threads that ran from the code cache were stopped, or could not go there. */
enum step_count {
	STEP_N_STEPS,		/* instructions stepped */
	STEP_N_FULL,		/* rings */
	STEP_N_NEW,		/* direct branches to what was not copied yet */
	STEP_N_INDIRECT,	/* indirect ones that were not in the table */
	STEP_N_CALLS,		/* system calls that are not plain */
	STEP_N_INSNS,		/* instructions that are not copied */
	STEP_N_SIGNALS,		/* and events */
	STEP_N_SETTLE,		/* steps, to bring a thread out */
	STEP_N_CHANGED,		/* code that was copied is gone or other code */
	STEP_N_ALONE,		/* processes that were stepped from end to end */
	STEP_N_COUNTS,
};

struct step {
	struct soft *s;
	const struct soft_program *p;
	struct aux_diag *diag;
	struct step_process *procs;
	struct step_thread *threads;
	struct step_build_id *build_ids;
	pid_t main_pid;
	int status;
	pid_t ended;		/* while only it was waited for; 0: none */
	int end_status;
	bool native;		/* from a code cache, where that can be */
	bool memory_open;	/* as a file, by a process that has a cache */
	bool started;		/* the program's exec was seen, or attached */
	bool detaching;		/* who stops is let go */
	int error;
	uint32_t n_writing;	/* threads: no cached instruction is trusted */
	struct step_trigger trigger;
	struct step_reader *reader;	/* of full rings, beside; NULL: none */
	uint64_t shown_ns, ticked_ns, looked_ns;
	pid_t gave_up;		/* as this thread stood still: all are let go of; 0: no */
	uint64_t page_size;	/* of the kernel; STEP_PAGE or more */
	uint64_t began_ns, began_tsc;	/* the same moment by two clocks */
	uint64_t counts[STEP_N_COUNTS];
	/* the first and last SIGKILL, or interrupt to let go; 0: none */
	uint64_t killed_ns, kill_ns;
};

/* step.c. A thread; proc NULL: not known yet. */
struct step_thread *step_thread_new(struct step *st, struct step_process *proc,
				    pid_t tid);
struct step_thread *step_thread_find(struct step *st, pid_t tid);
/* Frees it, and its process with the last one. */
void step_thread_drop(struct step *st, struct step_thread *t);
struct step_process *step_process_get(struct step *st, pid_t pid,
				      const struct step_process *parent);
pid_t step_tgid_of(pid_t tid);
/* A number of /proc/TID/status; -1: there is none. state: its letter; NULL: not wanted. */
long step_status(pid_t tid, const char *key, char *state);
void step_report_comm(struct step_thread *t);
/* Keeps the first error; it ends the recording. */
int step_note(struct step_thread *t, int err);
int step_flush_truth(struct step_thread *t);
/* Reports the complete blocks; the one being formed stays. */
int step_flush_thread(struct step_thread *t);
/* The thread is in the kernel from here on, unless it was already. */
void step_leave(struct step_thread *t, enum soft_leave_kind kind, uint64_t ip);
/* Called when the next instruction has run: only then did it return to user
 * code. */
void step_enter(struct step_thread *t, uint64_t ip);
/* t's system call instruction ran: reported once. */
void step_enter_syscall(struct step_thread *t);
/* Runs a stopped thread on from t->ip, with a signal or 0. */
int step_resume(struct step_thread *t, int sig);
/* What waitpid() says of a stopped thread; runs it on. */
int step_stop(struct step *st, pid_t tid, int status);
/* The next stop of a thread that was resumed. False: it is gone; the loop reports its
 * end. */
bool step_wait(const struct step_thread *t, int *status);
/* Reports all that it ran; it is in the kernel from here on. */
void step_finish(struct step_thread *t);
/* Blocks SIGTRAP, or not. True: it was blocked. */
bool step_mask_trap(pid_t tid, bool block);

/*
 * step_reader.c: a thread that reads full rings while the traced threads go on. All
 * that is reported, and what it is made from, belongs to who holds the lock: the
 * tracing thread does but while it waits for a stop. Without a reader these do nothing.
 */
void step_reader_start(struct step *st);
void step_reader_stop(struct step *st);
void step_lock(struct step *st);
void step_unlock(struct step *st);
/* There is a full ring. The caller has the lock. */
void step_reader_wake(struct step *st);

/* step_attach.c, for what runs already. Makes all threads of p->target, or all below
 * us, stop,
 * reports what exists, and lets them go on by steps. */
int step_attach(struct step *st);
/* False: the recording is over, and all are let go of. */
bool step_goes_on(struct step *st);
/*
 * How a thread ended, as far as that is told: one that is exiting is waited for, as it is
 * about to. The first thread of a process whose others live on is not told of before they
 * end.
 */
bool step_has_ended(const struct step_thread *t, int *status);
/* A stopped thread runs on without us. Frees t, unless it has to stop once
 * more. */
int step_let_go(struct step_thread *t, int sig);
/* The trap of a step that ended is still to be taken by the thread. */
bool step_trap_queued(pid_t tid);
/* That of an INT3. */
bool step_int3_queued(pid_t tid);
/* True: tid is the program whose end ends the recording. */
bool step_beside(struct step *st, pid_t tid, int status);
/* Ends that program; its status. */
int step_end_beside(struct step *st);

/* Has all stop, to be let go; again and again until none is left (false), or the
 * wait is over. */
bool step_detach(struct step *st);

/* step_exec.c. The system call in t->regs, which is about to be made, executes a program
 * with more rights than it would have if it is traced: its name. */
bool step_gains_rights(struct step_thread *t, char *name, size_t size);

/* step_watch.c. The letter of its state; 0: there is no such thread. */
char step_state(pid_t tid);
/* Called now and then: finds threads that stand still because of us. */
void step_watch(struct step *st);
/* The thread stands still, and did so long enough. *since: when that began, 0 at first. */
bool step_stalled(pid_t tid, uint64_t *since);
/* Lets go of those that stand still, with st->detaching. */
void step_release_stalled(struct step *st);
/* Waits for the end of a program that was let go of. */
void step_await_program(struct step *st);

/* step_proc.c. parent NULL: a first process; else a fork, with the parent's
 * code. */
struct step_process *step_process_new(struct step *st, pid_t pid,
				      const struct step_process *parent);
void step_process_free(struct step_process *proc);
/* After an exec: forgets the code of the old program. */
void step_code_reset(struct step_process *proc);
/* Reads memory of the process; returns the bytes read, fewer at an unmapped
 * page. */
size_t step_memory_read(struct step_process *proc, uint64_t addr, void *buf,
			size_t len);
/* The instruction at ip; its bytes are compared and saved again if they may
 * change. */
int step_insn_get(struct step_thread *t, uint64_t ip, struct step_insn *insn);
/* Is this descriptor the file that a process's memory is? */
bool step_is_memory(pid_t tid, uint32_t fd);
/* Is the system call in t->regs a write to such a file? */
bool step_writes_memory(const struct step_thread *t);
/* Such a call came back: any code may be another one. */
void step_memory_written(struct step *st);
/* The id of the block of n instructions from start that ends with last; -1: out
 * of memory. */
int64_t step_block_id(struct step_process *proc, uint64_t start, uint32_t n,
		      const struct step_insn *last);

uint32_t step_hash_get(const struct step_hash *h, uint64_t key);
int step_hash_put(struct step_hash *h, uint64_t key, uint32_t value);
void step_hash_clear(struct step_hash *h);
/*
 * The bytes of a page of code; what no file has of it is saved. 0: there is no code.
 * CHANGES: they may be other ones any time, unseen.
 */
enum { STEP_CODE_STAYS = 1, STEP_CODE_CHANGES };
int step_code_page(struct step_thread *t, uint64_t page, uint8_t *bytes);

/*
 * step_native.c: instead of by steps, a thread runs from a cache of translated
 * code (capture/native/native.h), which this process writes. It comes back here
 * for what the cache cannot do, with the registers and at the address that it
 * would have without it.
 *
 * True: it runs there from t->ip.
 */
bool step_native_enter(struct step_thread *t);
/* A thread that was there stopped, as waitpid() says in *status. True: it runs
 * on; else it is at t->ip, as if it had been stepped. */
bool step_native_stop(struct step_thread *t, int *status);
/* It was there when it was killed, without a last stop. */
void step_native_gone(struct step_thread *t);
/* Reports what it ran there so far. */
void step_native_drain(struct step_thread *t);
/* Reports at most so much of what full rings of any thread hold. False: none is
 * full. */
bool step_native_drain_full(struct step *st, size_t max_records);
/* The code in [start, end) is gone or other code. */
void step_native_forget(struct step_process *proc, uint64_t start,
			uint64_t end);
/* A page that may change any time is other code now, of which the recording has
 * the bytes. */
void step_native_changed(struct step_process *proc, uint64_t page,
			 const uint8_t *before, const uint8_t *now);
/* The system call in t->regs, which was stepped, came back. */
void step_native_called(struct step_thread *t, int64_t result);
/* What there is to say at the end. */
void step_native_notes(const struct step *st);
/* The thread has ended; the process has, or executes another program. */
void step_native_drop(struct step_thread *t);
void step_native_close(struct step_process *proc);
/* The last thread of a process is let go of: so is the cache. */
void step_native_remove(struct step_thread *t, int sig);
/* A fork: does it share the memory of its parent? */
void step_native_inherit(struct step_process *proc,
			 const struct step_process *parent);

/* Compares /proc/PID/maps with the last state and reports new executable
 * mappings. */
int step_maps_update(struct step_thread *t, bool is_new);
bool step_maps_overlap(const struct step_process *proc, uint64_t start,
		       uint64_t end);
/* Saves the vdso's bytes of a process whose exec we have not seen. */
int step_vdso_save(struct step_thread *t);

/* Decodes the operand of a PTWRITE before it executes. False: not one. */
bool step_ptwrite_operand(const uint8_t *bytes, size_t size, uint64_t ip,
			  const struct user_regs_struct *regs,
			  struct step_operand *op);

/* step_trigger.c. Is an instruction there that is not run from the cache? */
bool step_marked(const struct step_process *proc, uint64_t ip);
/* A file is mapped: functions of it that are waited for get marks. */
int step_trigger_map(struct step_process *proc, const struct step_map *m);
int step_trigger_inherit(struct step_process *proc, const struct step_process *parent);
int step_trigger_fork(struct step_thread *t, const struct step_thread *parent);
void step_trigger_reset(struct step_process *proc);
/* The thread is about to step over an instruction with a mark; it did. */
void step_trigger_before(struct step_thread *t);
void step_trigger_ran(struct step_thread *t, uint64_t ip);
void step_trigger_signal(struct step_thread *t, int sig);
void step_trigger_exit(struct step_thread *t, int status);	/* as wait(2) has it */
/* Called now and then: takes the snapshot that waits, if it is time or the end. */
void step_trigger_due(struct step *st, bool end);
void step_trigger_notes(const struct step *st);
/* step.c: wakes the loop after so long. */
void step_alarm(uint64_t ns);

/* Reports to soft all that the process's threads have run. */
int step_flush_process(struct step_process *proc);

#endif
