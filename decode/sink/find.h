/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * find_watch.c, for find and latency: reports the calls of functions that are
 * looked for, as they end, and what is wrong with each.
 *
 * A number is only as good as the call it was measured on. A call with a gap
 * inside, one whose begin or end is a guess, and one that began before or ended
 * after the trace have a fault; they are never counted with the whole ones.
 */
#ifndef DECODE_SINK_FIND_H
#define DECODE_SINK_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/outbuf.h"
#include "decode/callstack/callstack.h"
#include "decode/lib/session/sink.h"

/* ---- what is measured ---- */

enum find_by { FIND_BY_TIME = 0, FIND_BY_INSNS, FIND_BY_CYCLES };

#define FIND_BY_VALUES "time insns cycles"	/* as enum find_by */
#define FIND_BY_HELP "time (the default), insns or cycles"

/* "1.5ms", "20us", "3s", or a plain number (with time: seconds, as in --time).
 * option is its name, for the message. -AUX_E_INVAL with diag. */
int find_amount_parse(uint64_t *v, enum find_by by, const char *option,
		      const char *text, struct aux_diag *diag);
uint64_t find_amount(enum find_by by, const struct call_count *n);
/* "1.234 ms", "12,345"; out has room for 40 bytes. Returns out. */
char *find_amount_text(char *out, enum find_by by, uint64_t v);
/* A time that a call took, as above; below the resolution (session_resolution())
 * it is "<320 ns", and, where that is not known, none at all is "~0 ns": the trace
 * tells no more. For text only. */
char *find_took_text(char *out, enum find_by by, uint64_t v, uint64_t resolution);
#define FIND_OFF_TEXT 160

/* The time off the CPU of a count, and why: "26.6 ms, preempted", "26.6 ms", or
 * "26.6 ms: 20 ms blocked, 6.6 ms preempted"; out has room for FIND_OFF_TEXT bytes. Returns
 * out. */
char *find_off_text(char *out, const struct call_count *n);
/* More than half of its time on the CPU is in the kernel, so that it explains the
 * call, as waiting does which the recording has no switch of. */
bool find_is_kernel_mostly(const struct call_count *n);
/* "12,345"; out has room for 40 bytes. Returns out. */
char *find_number_text(char *out, uint64_t v);

/* A member, or null where nothing was measured. */
void find_json_known(struct outbuf *out, const char *key, uint64_t v, bool known);

/* ---- the calls ---- */

/* What is wrong with a call; the first that applies, in the order of
 * fault_of(). */
enum find_fault {
	FIND_WHOLE = 0,
	FIND_GAP,	/* flow is missing inside, or its end was lost */
	FIND_GUESSED,	/* the flow does not prove where it began or ended */
	FIND_RUNNING,	/* it still ran at the end of the trace, or at exec */
	FIND_BEFORE,	/* it ran before the trace began */
	FIND_UNTIMED,	/* by time or cycles: none is known */
	FIND_N_FAULTS,
};

/* "a gap inside", ... */
const char *find_fault_text(enum find_fault fault);

/* Which of the patterns a function matches: kept in call_func.user. */
#define FIND_THIS   1	/* --symbol */
#define FIND_ABOVE  2	/* --from */
#define FIND_CALLER 4	/* --caller */
#define FIND_KNOWN  8	/* the patterns were tried on it */

struct find_watch;

/* The callbacks; they return what those of calls_ops return. */
struct find_ops {
	/* frames[depth - 1] began, of any function; NULL: not wanted */
	int (*enter)(void *priv, struct call_thread *t, unsigned marks);
	/* It ends. took: in all, callees included */
	int (*leave)(void *priv, struct call_thread *t, unsigned marks,
		     enum call_end end, enum find_fault fault,
		     const struct call_count *took);
};

struct find_watch_config {
	const struct sink_env *env;
	const char *from, *caller;	/* as names.h has them; NULL: any */
	const struct find_ops *ops;
	void *priv;
	enum find_by by;
	bool all;	/* call leave for all functions, not just FIND_THIS */
};

/* config->env, ops and the strings must outlive the watch. */
int find_watch_new(struct find_watch **w,
		   const struct find_watch_config *config,
		   struct aux_diag *diag);
/* As flow in session/sink.h; counts the instructions in the sink's report. */
int find_watch_flow(struct find_watch *w, const struct flow_ctx *ctx,
		    const struct aux_flow *ev, size_t n);
/* Ends all calls that still run. */
int find_watch_finish(struct find_watch *w);
void find_watch_free(struct find_watch *w);
struct calls *find_watch_calls(struct find_watch *w);
/* 0; or, if nothing of what calls are measured in came with any call that
 * ended, -AUX_E_UNSUPPORTED with diag, which says what to record. */
int find_watch_check(const struct find_watch *w, struct aux_diag *diag);
/* FIND_* bits of a function, never 0. */
unsigned find_watch_marks(struct find_watch *w, struct call_func *f);

/* ---- hints ---- */

/* Of --from and --caller, as names_hint. */
void find_watch_hint(struct find_watch *w, char *hint, size_t len);
/* "auxdecode calls --time A,B --tid T FILE", with the user's options: what shows
 * that call. tid UINT32_MAX: unknown */
void find_put_see(struct outbuf *out, const struct sink_env *env,
		  uint64_t from_ns, uint64_t to_ns, uint32_t tid);

/* ,"command":"auxdecode calls ...": the same as a member of an object. */
void find_json_see(struct outbuf *out, const struct sink_env *env,
		   uint64_t from_ns, uint64_t to_ns, uint32_t tid);

#endif
