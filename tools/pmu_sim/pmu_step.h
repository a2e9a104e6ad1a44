/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmu_step: the parts of the stepping PMU and what they share.
 *
 * pmu_step_main.c is the perf side, pmu_step_aux.c the AUX area and the packet
 * encoder's way into it, pmu_step_flow.c the followed task, and
 * pmu_step_truth.c what debugfs shows. Invariant: everything below is touched
 * on its own CPU with interrupts off, so nothing is locked but the truth.
 */
#ifndef TOOLS_PMU_SIM_PMU_STEP_H
#define TOOLS_PMU_SIM_PMU_STEP_H

#include <linux/atomic.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/user-return-notifier.h>

#include "common/x86_insn.h"
#include "capture/soft/pt_encode.h"

#define STEP_STAGE (4 * PT_GROUP_MAX)	/* as pt_encode_init() demands */
#define STEP_SPILL 1024	/* staged bytes that go out after a step */
/* One step with all that may follow, twice: the last ones end the stream. */
#define STEP_ROOM (2 * (STEP_SPILL + PT_GROUP_MAX) + PT_GROUP_MAX)

/* config bits that are honoured; the other formats need real hardware */
#define STEP_CONFIG_PT BIT_ULL(0)
#define STEP_CONFIG_TSC BIT_ULL(10)
#define STEP_CONFIG_NORETCOMP BIT_ULL(11)
#define STEP_CONFIG_BRANCH BIT_ULL(13)
#define STEP_CONFIG_PSB_SHIFT 24
#define STEP_CONFIG_PSB GENMASK_ULL(27, 24)

/* One AUX area: its packets are one stream, whichever tasks they tell of. */
struct step_buf {
	struct pt_encoder e;
	void **pages;
	unsigned long size;
	bool overwrite;
	u64 loop_mark, loop_ip;	/* where an endless loop may close */
	u32 loop_n;
	u8 stage[STEP_STAGE];
};

struct step_cpu {
	struct perf_output_handle handle;
	struct perf_event *event;	/* running here, or NULL */
	struct step_buf *buf;		/* of event */
	unsigned long written;		/* into handle */
	bool paused;	/* by another event: nobody is followed */
	bool owed;	/* something was lost that no OVF tells of yet */

	/* The task that is in traced user code, or NULL; the rest is its. */
	struct task_struct *task;
	u64 ip;			/* what runs next */
	struct x86_insn insn;	/* at ip; size 0: not readable */
	u8 bytes[15];
	bool tf_own;		/* the program has set TF itself */

	struct user_return_notifier urn;
};

DECLARE_PER_CPU(struct step_cpu, step_cpus);

enum step_stat {
	STEP_N_INSNS,		/* that ran and were seen */
	STEP_N_SYSCALLS,
	STEP_N_ASYNC,		/* ways out of user code, no syscall */
	STEP_N_UNEXPLAINED,	/* no branch leads there: OVF */
	STEP_N_ENDLESS,		/* loops that send no packet: OVF */
	STEP_N_OVERRUNS,	/* no room: TRUNCATED */
	STEP_N_PASSED,		/* returns to code that is not followed */
	STEP_N_BYTES,
	STEP_N_STATS,
};

/* pmu_step_aux.c */
void *step_aux_setup(struct perf_event *event, void **pages, int nr,
		     bool overwrite);
void step_aux_free(void *aux);
/* Makes event the running one; false: no AUX area, or no room in it. */
bool step_aux_open(struct step_cpu *c, struct perf_event *event);
/* All that is staged goes out, and readers see it. */
void step_aux_close(struct step_cpu *c);
/* Room for a step; false: there was none, and the event is stopped. */
bool step_aux_room(struct step_cpu *c);
/* After each step: not too much stays staged. */
void step_aux_spill(struct step_cpu *c);

/* pmu_step_flow.c */
int step_flow_init(void);
void step_flow_exit(void);
/* The followed task, if any, is not in user code from here on. */
void step_flow_leave(struct step_cpu *c);

/* pmu_step_truth.c */
int step_truth_init(void);
void step_truth_exit(void);
void step_truth_add(pid_t tid, u64 ip);
void step_count(enum step_stat what, u64 n);

#endif
