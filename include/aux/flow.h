/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flow: what every decoder produces and every sink consumes.
 *
 * A flow is the sequence of events of one AUX stream, in the order of
 * execution. The vocabulary is the same for all vendors. Each event carries the
 * offset, in its AUX stream, of the packet that it comes from; offsets never
 * decrease. All loss and all errors are GAP events, so that no consumer can
 * miss them: between two events without a GAP, and while tracing is on, every
 * instruction that ran is in a RANGE or PATH.
 */
#ifndef AUX_FLOW_H
#define AUX_FLOW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum aux_flow_kind {
	AUX_FLOW_RANGE = 1,	/* instructions that ran, contiguous in memory */
	AUX_FLOW_ASYNC,		/* control moved without a branch: an interrupt */
	AUX_FLOW_TRACE_ON,	/* tracing starts or resumes at trace.ip */
	AUX_FLOW_TRACE_OFF,	/* a filter or a user/kernel switch ends it */
	AUX_FLOW_TIME,		/* all that follows ran at this time or later */
	AUX_FLOW_CONTEXT,	/* cr3/vmcs or contextid/vmid changed */
	AUX_FLOW_TX,		/* TSX: what = AUX_TX_* */
	AUX_FLOW_PAYLOAD,	/* a value that the program wrote: ptwrite, ITM, STM,
				 * ITE */
	AUX_FLOW_POWER,		/* power state change */
	AUX_FLOW_EVENT,		/* an event of the CPU: n = AUX_EVENT_* */
	AUX_FLOW_GAP,		/* flow is missing here: what = AUX_GAP_* */
	AUX_FLOW_PATH,		/* several RANGEs; only for a host that asked for it */
};

/* RANGE.what: the outcome of the last instruction, as far as the trace says. */
enum aux_range_end {
	AUX_END_FALL = 0,	/* no branch: an event or a limit cut the range */
	AUX_END_COND_TAKEN,
	AUX_END_COND_NOT_TAKEN,
	AUX_END_JUMP,		/* direct, unconditional */
	AUX_END_CALL,		/* direct */
	AUX_END_RET,
	AUX_END_IND_JUMP,
	AUX_END_IND_CALL,
	AUX_END_SYSCALL,	/* syscall, sysenter, int n, svc: to the kernel */
	AUX_END_FAR,		/* far branches, iret, sysret, eret */
	AUX_END_COND,		/* conditional, outcome not known to the decoder */
};

/* ASYNC.what */
enum aux_async_kind {
	AUX_ASYNC_UNKNOWN = 0,	/* interrupt, exception or signal entry */
	AUX_ASYNC_INTERRUPT,
	AUX_ASYNC_EXCEPTION,
};

/*
 * CONTEXT.what: Arm's exception level and security state, as far as the trace
 * says; 0 for Intel PT.
 */
#define AUX_CONTEXT_EL_MASK 0x03
#define AUX_CONTEXT_EL_KNOWN 0x04
#define AUX_CONTEXT_SECURE 0x08

/* PAYLOAD.what: the source of the value */
enum aux_payload_kind {
	AUX_PAYLOAD_PTWRITE = 0,	/* payload.ip with AUX_FLOW_HAS_IP */
	AUX_PAYLOAD_STM,	/* payload.ip: AUX_STM_IP(master, channel) */
	AUX_PAYLOAD_ITM,	/* payload.ip: the stimulus port */
	AUX_PAYLOAD_MARKER,	/* STM: a trigger or marker; n may be 0 */
	AUX_PAYLOAD_ITE,	/* trcit; payload.ip: the exception level */
};
#define AUX_STM_IP(master, channel) ((uint64_t)(master) << 32 | (channel))

/* TX.what */
enum aux_tx_kind { AUX_TX_BEGIN = 0, AUX_TX_COMMIT, AUX_TX_ABORT };

/* POWER.what; payload.value in parentheses */
enum aux_power_kind {
	AUX_POWER_MWAIT = 1,	/* (hints in the low half, extensions) */
	AUX_POWER_ENTRY,	/* C-state entered (state, sub-state << 8) */
	AUX_POWER_EXIT,		/* C-state left (last, deepest << 8) */
	AUX_POWER_STOPPED,	/* execution stopped (0) */
	AUX_POWER_RATIO,	/* core:bus clock ratio (ratio) */
};

/* EVENT.n: whose event it is, and so what the other fields are */
enum aux_event_source {
	AUX_EVENT_ETM = 0,	/* value: the number of the event */
	AUX_EVENT_CFE = 1,	/* what: AUX_CFE_*; value: the vector; ip: where,
				 * with AUX_FLOW_HAS_IP */
	AUX_EVENT_TRIG = 2,	/* a trigger fired. what: which, a bit for each;
				 * value: AUX_TRIG_*; ip as above */
	AUX_EVENT_IF = 3,	/* an instruction that is no branch changed the
				 * interrupt flag; what: its value; ip: the next
				 * instruction */
	AUX_EVENT_EVD = 8,	/* data of the CFE that follows. what:
				 * AUX_EVD_*; value: the data; ip: that of the CFE */
};

/* EVENT.what of a CFE, control flow event, as the Intel SDM numbers them */
enum aux_cfe_type {
	AUX_CFE_INTR = 1,	/* interrupt, exception or fault */
	AUX_CFE_IRET,
	AUX_CFE_SMI,
	AUX_CFE_RSM,
	AUX_CFE_SIPI,
	AUX_CFE_INIT,
	AUX_CFE_VMENTRY,
	AUX_CFE_VMEXIT,
	AUX_CFE_VMEXIT_INTR,	/* with the vector of its interrupt */
	AUX_CFE_SHUTDOWN,
	AUX_CFE_UINTR = 12,	/* user interrupt */
	AUX_CFE_UIRET,
	AUX_CFE_FRED_INT,	/* software interrupt */
	AUX_CFE_FRED_SYSCALL,
};

/* EVENT.what of an EVD, event data */
enum aux_evd_type {
	AUX_EVD_CR2 = 0,	/* the address of a page fault */
	AUX_EVD_VMXQ,		/* the exit qualification of a VM exit */
	AUX_EVD_VMXR,		/* the exit reason */
};

/* EVENT.value of a TRIG. With AUX_TRIG_HAS_COUNT: so many instructions ran since
 * the last ip that the trace gave. */
#define AUX_TRIG_COUNT_MASK 0x0ffff
#define AUX_TRIG_HAS_COUNT 0x10000
#define AUX_TRIG_SEVERAL 0x20000	/* it fired more than once */

/* GAP.what */
enum aux_gap_cause {
	AUX_GAP_OVERFLOW = 1,	/* the CPU's trace buffer overflowed (OVF) */
	AUX_GAP_NO_CODE,	/* no code bytes at the ip */
	AUX_GAP_BAD_PACKET,	/* bytes that are no packet */
	AUX_GAP_DESYNC,		/* trace and code contradict each other */
	AUX_GAP_NO_SYNC,	/* no sync point in these bytes */
	AUX_GAP_AUX_TRUNCATED,	/* the AUX buffer was full (AUX flag) */
	AUX_GAP_AUX_PARTIAL,	/* AUX flag PARTIAL */
	AUX_GAP_AUX_COLLISION,	/* AUX flag COLLISION */
	AUX_GAP_FILE,		/* the file is cut or damaged here */
	AUX_GAP_DECODER,	/* the decoder gave up: its own limit */
	AUX_GAP_AUX_LOST,	/* bytes of the AUX stream are not in the file */
	AUX_GAP_AUX_ZEROS,	/* zeros where trace should be; detail: bytes from
				 * there to where decoding resumes */
	AUX_GAP_UNKNOWN_INSN,	/* the instruction at the ip is in the space of
				 * branches and not known: where it went is not
				 * either */
	AUX_GAP_UNCOMMITTED,	/* the trace ends before it says whether the last
				 * branches happened; detail: how many at least */
	AUX_GAP_CUT,		/* the trace ends inside of a packet, or of what
				 * belongs together; detail: bytes of it */
	AUX_GAP_LOST_CALL,	/* the return at the ip leads to a call that an
				 * earlier gap hides; or which bits of the trace
				 * are those of the branch there, the code that
				 * is hidden would tell */
	AUX_GAP_UNTRACED,	/* instructions ran from the ip on of which the trace
				 * tells the number at most, and not the branches
				 * (Q element); detail: how many, 0: not told */
	AUX_GAP_N_CAUSES,
};

/* flags: size of the last instruction (RANGE) and the execution mode */
#define AUX_FLOW_SIZE_MASK 0x000f	/* bytes of the last instruction, 0:
					 * not known to the decoder */
#define AUX_FLOW_MODE_MASK 0x0070
#define AUX_FLOW_MODE_X86_64 0x0000
#define AUX_FLOW_MODE_X86_32 0x0010
#define AUX_FLOW_MODE_X86_16 0x0020
#define AUX_FLOW_MODE_A64 0x0030
#define AUX_FLOW_MODE_A32 0x0040
#define AUX_FLOW_MODE_T32 0x0050
#define AUX_FLOW_IN_TX 0x0080		/* inside a transaction, speculative */
#define AUX_FLOW_HAS_IP 0x0100		/* the event's ip fields are known */
#define AUX_FLOW_HAS_TSC 0x0200		/* TIME: tsc is known */
#define AUX_FLOW_HAS_CID 0x0400		/* CONTEXT: context.cr3 is known */
#define AUX_FLOW_HAS_VMID 0x0800	/* CONTEXT: context.vmcs is known */

/*
 * One event, 32 bytes. Addresses are virtual addresses of the traced machine.
 */
struct aux_flow {
	uint64_t offset;	/* of the packet, from the start of the stream */
	uint8_t kind;		/* enum aux_flow_kind */
	uint8_t what;		/* sub-kind, see above */
	uint16_t flags;		/* AUX_FLOW_* */
	uint32_t n;		/* RANGE, PATH: instructions, >= 1. TIME: cycles
				 * since the last TIME, 0 if unknown. PAYLOAD:
				 * bytes. EVENT: AUX_EVENT_* */
	union {
		struct {
			uint64_t first;	/* address of the first instruction */
			uint64_t last;	/* address of the last instruction */
		} range;
		struct {
			uint64_t from;	/* next instruction that did not run */
			uint64_t to;	/* 0: not traced, TRACE_OFF follows */
		} async;
		struct {
			uint64_t ip;	/* valid with AUX_FLOW_HAS_IP */
			uint64_t reserved;
		} trace;
		struct {
			uint64_t ns;	/* perf clock; 0 without a conversion */
			uint64_t tsc;	/* raw, valid with AUX_FLOW_HAS_TSC */
		} time;
		struct {
			uint64_t cr3;	/* Arm: CONTEXTIDR_EL1 */
			uint64_t vmcs;	/* Arm: VMID, or CONTEXTIDR_EL2 */
		} context;
		struct {
			uint64_t ip;	/* see PAYLOAD, POWER, EVENT */
			uint64_t value;
		} payload;
		struct {
			uint64_t ip;	/* OVERFLOW: resume ip; NO_CODE: where
					 * code is missing; else last ip */
			uint64_t detail; /* decoder's own code, for messages */
		} gap;
		struct {
			struct aux_path *path;
			uint64_t reserved;
		} path;
	};
};

/*
 * A PATH stands for the RANGEs of its steps, in order, each at the PATH's
 * offset. Programs run along the same few paths again and again: a consumer may
 * keep what it derived from a step or path (a hash, a position in a text) in
 * user, which is 0 at first and never touched by the decoder again.
 *
 * Steps and paths belong to the decoder that delivered them. They live until it
 * releases them through forget (decoder.h), or is closed. The exception is a
 * path with kept 0: the path itself, though not its steps, is valid only until
 * the next call of the decoder, and its user must not be used.
 */
struct aux_step {
	const struct aux_flow *ranges;	/* RANGE events with offset 0 */
	uint32_t n_ranges;		/* >= 1 */
	uint32_t n_insns;		/* sum over its ranges */
	uint64_t user[3];
};

struct aux_path {
	struct aux_step *const *steps;
	uint32_t n_steps;		/* >= 1 */
	uint32_t n_ranges;
	uint32_t n_insns;
	uint32_t kept;
	uint64_t user[3];
};

#ifdef __cplusplus
}
#endif
#endif
