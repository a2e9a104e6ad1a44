/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * pmu_sim: PMUs with an AUX area that need no trace hardware.
 *
 * Each PMU has on each CPU one source, which makes bytes at a set rate while
 * an event runs there. Every byte is counted once: produced = stored (it went
 * through the AUX area) + lost (there was no room) + skipped (injected).
 *
 * Locking: a source is touched only on its own CPU with interrupts off (the
 * scheduler's callbacks and a pinned timer in hard interrupt context), so it
 * needs no lock. Other CPUs read its counters for debugfs and may see them
 * between two steps.
 */
#ifndef TOOLS_PMU_SIM_SIM_H
#define TOOLS_PMU_SIM_SIM_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#define SIM_N_FILTER	8
#define SIM_N_SESSION	4096	/* per source; a power of two */

enum sim_kind { SIM_AUX, SIM_PT, SIM_ETM, SIM_N_KIND };
enum sim_head { SIM_HEAD_AUTO, SIM_HEAD_OFFSET, SIM_HEAD_GROWING };
enum sim_payload { SIM_PAYLOAD_AUTO, SIM_PATTERN, SIM_REPLAY };

/* A mapped AUX area. */
struct sim_buf {
	void **pages;		/* the core's, valid until free_aux */
	unsigned long size;	/* a power of two */
	bool overwrite;
	bool growing;		/* overwrite: the head is not an offset */
};

/* What one perf event needs beside the core's own fields. */
struct sim_event {
	struct list_head node;	/* in sim_events */
	struct perf_event *event;
	enum sim_kind kind;
	enum sim_head head;
	enum sim_payload payload;
	u64 rate;		/* 0: that of the module */
	u64 replay_pos;
	bool stalled;		/* stopped for want of room */
	bool stalled_paused;	/* the same, but paused: nothing gets lost */
	unsigned int stalled_cpu;
	u64 stalled_pos;	/* of the source's bytes */
	u64 stalled_ns;		/* since then: wall time, */
	u64 stalled_runtime;	/* and the task's run time */
	unsigned int n_filters;
	struct {
		u64 start, end;	/* inclusive, as in the hardware */
		u32 action;
	} filters[SIM_N_FILTER];
};

/*
 * Bytes [start, end) of the source, made between one start, or resume, and its
 * stop, or pause; and when that was, by local_clock().
 */
struct sim_session {
	u64 start, end;
	u64 start_ns, end_ns;
};

struct sim_count {
	u64 produced, stored, lost, skipped;
	u64 lost_stalled;	/* part of lost: while stopped for no room */
	u64 unmade;		/* not in produced: as lost_stalled, but others
				 * went on from there in between */
	u64 padded;		/* bytes of the AUX area that hold no payload */
	u64 starts, stops, ticks;
	u64 records;		/* PERF_RECORD_AUX asked for */
	u64 truncated, begin_failed, injected, samples;
	u64 pauses, resumes;	/* of a source that an event is on */
	u64 sessions;
};

struct sim_pmu;

/* The source of one PMU on one CPU. */
struct sim_cpu {
	struct sim_pmu *sim;
	unsigned int cpu;
	struct perf_output_handle handle;
	struct sim_buf *buf;	/* of the open handle, else NULL */
	struct perf_event *event;	/* added on this CPU, else NULL */
	unsigned long done;	/* bytes stored under the open handle */
	u64 last_ns;		/* produced up to here */
	bool busy;
	bool paused;		/* running, but nothing is made */
	unsigned int inject_seen, inject_left;
	struct hrtimer timer;
	struct sim_count n;
	struct sim_session *session;
};

struct sim_pmu {
	struct pmu pmu;
	enum sim_kind kind;
	bool registered;
	struct sim_cpu __percpu *cpus;
};

struct sim_inject {
	unsigned int gen;	/* changes with each order */
	unsigned int count;
	u64 flags, skip;
};

/* sim_main.c */
extern struct sim_pmu sim_pmus[SIM_N_KIND];
extern long (*sim_copy_aux)(struct perf_output_handle *aux,
			    struct perf_output_handle *out,
			    unsigned long from, unsigned long to);
const char *sim_name(enum sim_kind kind);
static inline struct sim_pmu *sim_of(struct pmu *pmu)
{
	return container_of(pmu, struct sim_pmu, pmu);
}

/* sim_event.c */
void sim_event_setup(struct sim_pmu *s);
void sim_event_show_filters(struct seq_file *m);

/* sim_data.c */
bool sim_data_open(struct sim_cpu *c);
void sim_data_close(struct sim_cpu *c);
void sim_data_stop(struct sim_cpu *c);
void sim_data_stall(struct sim_cpu *c);
void sim_data_advance(struct sim_cpu *c);
void sim_data_lose(struct sim_cpu *c, u64 ns);
u64 sim_data_now(void);

/* sim_param.c: module parameters, changeable at run time unless said */
extern char *sim_names;		/* fixed */
extern unsigned long sim_rate, sim_tick_us, sim_unit, sim_align;
extern unsigned int sim_flags;
extern int sim_replay_cpu;
extern bool sim_replay_loop, sim_mute;
extern enum sim_head sim_head;
extern enum sim_payload sim_payload;

/* sim_debugfs.c */
extern struct sim_inject sim_inject;
int sim_debugfs_init(void);
void sim_debugfs_exit(void);

/* sim_replay.c */
extern const struct file_operations sim_replay_fops;
u64 sim_replay_left(u64 pos, u64 want);
void sim_replay_copy(void *to, u64 pos, size_t n);
void sim_replay_free(void);

/* sim_cs_etm.c */
extern const struct attribute_group *sim_etm_attr_groups[];
int sim_etm_add_cpus(struct device *dev);
void sim_etm_remove_cpus(void);

#endif
