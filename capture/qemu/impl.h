/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Private to the helper object that runs inside qemu-user.
 *
 * plugin.c: callbacks, and following execve; ring.c: producing into shared
 * memory; code.c: what blocks consist of; map.c: where code comes from;
 * hooks.c: libc calls of qemu that reveal signals, forks and threads;
 * machine.c: what differs between the emulated machines.
 *
 * Facts of qemu-user this rests on: at the entry of a block's callback all
 * guest registers are in CPUArchState, which x86-64 hosts keep in %rbp, PC and
 * SP where machine.c says; guest addresses are host addresses. All three are
 * checked before the first instruction runs. The plugin interface has no way
 * to read registers in version 1, and a slow one later; hence %rbp.
 *
 * Threads: each guest thread is one host thread and the only writer of its
 * qp_self and of its rings. qp.lock guards the log, the tables of code.c and
 * map.c and the list of threads. The code runs inside qemu's own process, so it
 * must leave errno, signals and file descriptors as it finds them.
 */
#ifndef CAPTURE_QEMU_IMPL_H
#define CAPTURE_QEMU_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/qemu/shm.h"

/*
 * qemu's plugin API, as far as it is needed here; Debian 12 ships no header for it.
 * From version 3 on (qemu 9.1) insn_data copies: code.c. A qemu takes objects of
 * some versions alone, so ours says what the qemu that loads it has: plugin.c.
 */

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

struct qemu_info {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	int smp_vcpus, max_vcpus;	/* of full emulation alone */
};

typedef void (*qemu_exec_cb)(unsigned int cpu, void *arg);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
	void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
	qemu_exec_cb cb, int flags, void *arg);
extern void qemu_plugin_register_vcpu_insn_exec_cb(
	struct qemu_plugin_insn *insn, qemu_exec_cb cb, int flags, void *arg);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
	void (*cb)(qemu_plugin_id_t id, unsigned int cpu, int64_t num,
		   uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
		   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id,
	void (*cb)(qemu_plugin_id_t id, unsigned int cpu, int64_t num,
		   int64_t ret));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(
	const struct qemu_plugin_tb *tb, size_t i);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
/* weak: qemu-user 10.0 leaves it out */
extern __attribute__((weak)) const char *qemu_plugin_path_to_binary(void);

extern int qemu_plugin_version;
int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info,
			int argc, char **argv);

/* The system calls that matter, whatever their numbers are. */
enum qp_call {
	QP_CALL_NONE = 0,
	QP_CALL_EXIT,
	QP_CALL_EXIT_GROUP,
	QP_CALL_MMAP,
	QP_CALL_MUNMAP,
	QP_CALL_MREMAP,
	QP_CALL_PRCTL,
	QP_CALL_CLONE,
	QP_CALL_CLONE3,
	QP_CALL_EXECVE,
	QP_CALL_EXECVEAT,
	QP_CALL_N,
};

/* The end of a block. */
struct qp_insn {
	uint8_t cls;		/* as in struct shm_log_block */
	bool rep;		/* a REP string instruction */
	int64_t disp;		/* direct branches: target - end */
};

/* What is emulated. */
struct qp_machine {
	const char *name;	/* qemu's */
	uint32_t elf;		/* e_machine */
	unsigned int sp, pc;	/* which words of CPUArchState these are */
	uint8_t size;		/* of each instruction, 0: it varies */
	/* True: these bytes are one instruction. */
	bool (*decode)(const uint8_t *bytes, size_t size, struct qp_insn *in);
	int32_t calls[QP_CALL_N];	/* their numbers */
};

enum qp_state {
	QP_NEW = 0,	/* the image's first block comes next */
	QP_RUNNING,	/* in user code since the last block's callback */
	QP_STOPPED,	/* at stop_ip, between blocks; not in the ring yet */
	QP_THROWN,	/* qemu jumped out of the last block at stop_ip; not in
			 * the ring yet */
	QP_CAUGHT,	/* same, and a signal follows: stop_ip is exact */
	QP_REPORTED,	/* stopped, and the ring says where */
	QP_SYSCALL,	/* in a system call, and the ring says so */
};

/*
 * A guest thread; thread-local, lives as long as its host thread. Others read
 * state and clear shm->ring.limit while they hold qp.lock, nothing else.
 */
struct qp_thread {
	struct shm_thread *shm;
	uint64_t *env;		/* NULL before the first block */
	enum qp_state state;
	bool attention;		/* the next block's callback must take the slow
				 * path: limit is kept at 0 */
	uint64_t stop_ip;	/* in QP_STOPPED, QP_THROWN and QP_CAUGHT */
	uint64_t stop_ns;	/* when it left user code; not in QP_RUNNING */
	enum qp_call call;	/* the one it is in, or was in last */
	int64_t sysno;
	uint64_t args[6];
	struct qp_thread *next;	/* of the process */
};

/* A traced process image. */
struct qp_proc {
	void *shm;
	struct shm_header *header;
	struct shm_proc *log;
	uint32_t log_slot;
	int fd;			/* of shm */
	int who_fd;		/* of /proc/thread-self, the link itself; -1: none */
	uint32_t argc;		/* what the first stack must hold */
	int api;		/* version of qemu's plugin interface */
	bool truth;
	bool always;		/* static programs get sysroot, too */
	const struct qp_machine *machine;	/* set before all else */
	uint64_t address;	/* mask of a pointer's address bits: all 64, or 56
				 * once the guest enabled tagged addresses */
	uint32_t parked;	/* futex: threads stop before their next block */
	qemu_plugin_id_t id;
	pthread_mutex_t lock;	/* log, code tables, thread list */
	struct qp_thread *threads;
	char qemu[4096], object[4096], sysroot[SHM_PATH_MAX];
};

extern struct qp_proc qp;
extern __thread struct qp_thread qp_self;
/* never NULL: a ring without room stands in while the thread has no slot */
extern __thread struct shm_ring *qp_ring;
extern __thread struct shm_ring *qp_truth;

/* ring.c: entries for the consumer; all may wait while the ring is full */
void qp_put32(struct shm_ring *r, uint32_t word);
void qp_put64(struct shm_ring *r, uint64_t word);
void qp_put_bytes(struct shm_ring *r, const void *data, size_t len);
void qp_escape(struct shm_ring *r, enum shm_escape kind, uint64_t a, uint64_t b);
/* The word stored last; SHM_ESC_END for a ring never used. */
uint32_t qp_ring_last(const struct shm_ring *r);
void qp_ring_attach(struct shm_ring *r, char *data);
uint64_t qp_now_ns(void);
void *qp_reserve(size_t len);	/* zeroed, never NULL, for munmap */
/* Claim a free slot; 0 when all are in use. */
uint32_t qp_thread_claim(void);
uint32_t qp_proc_claim(void);
/* This process becomes the producer of the slot's log. */
void qp_log_attach(uint32_t slot);
/* The calling host thread becomes the producer of the slot's rings. */
void qp_thread_start(uint32_t slot, enum qp_state state);
/* Ends the process; auxcap prints the message from shared memory. */
__attribute__((noreturn, format(printf, 1, 2)))
void qp_die(const char *fmt, ...);

/* plugin.c */
/* Makes the thread's next block take the slow path. */
void qp_attention(struct qp_thread *t);
/* Emits where the thread stopped, if it did and the ring does not say so yet;
 * next_ip is where it resumes. */
void qp_emit_stop(struct qp_thread *t, uint64_t next_ip);

/* code.c */
/* qemu translated tb: numbers it, and has its execution reported. */
void qp_translate(struct qemu_plugin_tb *tb);
uint32_t qp_n_blocks(void);
uint64_t qp_block_start(uint32_t id);
/* ip is in block id or is its end */
bool qp_block_reaches(uint32_t id, uint64_t ip);
/* the last entry is a block that ended with the REP instruction that id is */
bool qp_repeats(uint32_t last, uint32_t id);
void qp_code_init(void);

/* map.c; qp.lock is held in all but qp_unmapped and qp_mapped */
#define QP_PAGE 4096u
void qp_map_init(void);
/* Makes the log describe the bytes of [start, end). True: it had to be
 * extended. */
bool qp_ensure_code(uint64_t start, uint64_t end);
/* The guest unmapped or replaced this range: it is looked up again when it
 * runs. */
void qp_unmapped(uint64_t addr, uint64_t len);
/* The guest mapped a file executable at addr: logs it if nothing that runs
 * would. */
void qp_mapped(uint64_t addr);

/* trampolines, written in assembly: they add CPUArchState as third argument */
__attribute__((visibility("hidden")))
void qp_exec_block(unsigned int cpu, void *id);
void qp_exec_rep(unsigned int cpu, void *id);
void qp_exec_insn(unsigned int cpu, void *ip);
void qp_exec_rep_insn(unsigned int cpu, void *ip);

/* hooks.c. -1: qemu lacks a call that must be seen. */
int qp_hooks_install(void);

/* machine.c */
/* By qemu's name; NULL: not supported. */
const struct qp_machine *qp_machine_find(const char *name);
enum qp_call qp_machine_call(const struct qp_machine *m, int64_t number);
/* The instruction at ip may run only in part, and then again: REP of x86. */
bool qp_machine_repeats(const struct qp_machine *m, uint64_t ip);

static inline uint64_t qp_pc(const uint64_t *env)
{
	return env[qp.machine->pc];
}

#endif
