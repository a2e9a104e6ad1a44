/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoders: trace bytes in, flow events out.
 *
 * A decoder is pure. It gets a chunk of trace and a host, asks the host for
 * code bytes, and delivers flow events in batches. It knows no side-band, opens
 * no files and prints nothing: who runs, what is mapped and where the code
 * comes from is the host's concern.
 *
 * Threads: one decoder object is used by one thread at a time. Objects share
 * nothing, so any number of them may run in parallel.
 *
 * Call order: open; then for each chunk start, and decode until it returns 0;
 * then close. start may follow start at any time: the rest of the chunk is
 * abandoned.
 *
 * The same interface serves the built-in decoders and those that are loaded
 * with --plugin; a loaded one exports AUX_DECODER_SYMBOL.
 */
#ifndef AUX_DECODER_H
#define AUX_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <aux/error.h>
#include <aux/flow.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when any struct of this file or of flow.h changes meaning. */
#define AUX_DECODER_ABI 3

/* Values of aux_decoder_ops.trace_type: as PERF_RECORD_AUXTRACE_INFO.type. */
#define AUX_TRACE_INTEL_PT 1
#define AUX_TRACE_CS_ETM 3

/*
 * A piece of one AUX stream that starts at a sync point (or where the stream
 * starts), so that it can be decoded without what came before.
 */
struct aux_chunk {
	uint32_t size;		/* sizeof(struct aux_chunk) */
	uint32_t flags;		/* AUX_CHUNK_* */
	const uint8_t *data;	/* valid until the next start or close */
	uint64_t len;
	uint64_t stream_offset;	/* of data[0]; events add to it */
	uint64_t end_ip;	/* valid with AUX_CHUNK_HAS_END_IP */
};

/*
 * Another chunk continues this one, and its flow begins at end_ip. After the
 * last packet the decoder walks on to end_ip, through instructions that need no
 * packet, and stops there: the two flows join without a gap and without an
 * overlap. If the code does not lead there, that is a GAP.
 *
 * Without the flag the stream ends or breaks here. How far the CPU got after
 * the last packet is not known, so nothing is walked.
 */
#define AUX_CHUNK_HAS_END_IP 1

/* Code bytes, contiguous, from one backing object. */
struct aux_code {
	uint64_t start;		/* virtual address of bytes[0] */
	uint64_t end;		/* first address after it */
	const uint8_t *bytes;	/* owned by the host, valid while the host lives */
	const char *path;	/* file that holds the same bytes, or NULL */
	uint64_t path_offset;	/* of bytes[0] in path */
};

/* Whether the host accepts PATH events (flow.h) instead of RANGEs. */
enum aux_paths {
	AUX_PATHS_NONE = 0,
	AUX_PATHS_PACKET,	/* a PATH is what one packet did, at its offset */
	AUX_PATHS_JOINED,	/* or what several packets in a row did, at the
				 * offset of the first: cheaper */
};

/*
 * What a decoder may ask, and what the host wants.
 *
 * The host owns the struct, and may change generation, horizon_tsc and time_step
 * between two calls of decode, never during one. All else is constant while the
 * decoder is open.
 */
struct aux_decoder_host {
	uint32_t size;		/* sizeof(struct aux_decoder_host) */
	void *priv;		/* the host's own; passed to its functions */

	/*
	 * Fills *code with the code that contains ip in the current address
	 * space. Returns 0, or -AUX_E_NOENT if there is none. While generation
	 * is the same, so are the answers.
	 */
	int (*code)(void *priv, uint64_t ip, struct aux_code *code);

	/*
	 * Names the set of answers that code gives. After a change, cached code
	 * may be wrong; a value that returns names the same answers as before.
	 */
	uint64_t generation;

	/*
	 * The time up to which the host's answers hold: before horizon_tsc no
	 * other thread runs and nothing is mapped. In units of TIME.tsc: TSC
	 * ticks, or raw CoreSight timestamps.
	 *
	 * The rule: decode returns directly after a TIME that is at or past the
	 * horizon, or that is earlier than the TIME before it (after a gap),
	 * and it does so before it asks for any further code. The host then
	 * applies what happened up to that time, perhaps switches the address
	 * space (generation), sets the next horizon, and calls decode again.
	 * Otherwise code of the old space would be decoded with the packets of
	 * the new one.
	 *
	 * 0: return after every TIME. UINT64_MAX: nothing changes any more.
	 *
	 * Which instructions a TIME covers: those after it. An Intel PT
	 * timestamp precedes the packets that it dates, so its TIME is
	 * delivered where the packet is. A CoreSight timestamp follows them: it
	 * dates instructions that the decoder has already seen. So a CoreSight
	 * decoder looks ahead. Where the flow resumes (at the start of a chunk,
	 * at TRACE_ON, on the return to user code) it searches for the first
	 * timestamp up to the exception that ends this run of instructions, and
	 * delivers its TIME before the run. A run contains neither exec nor
	 * switch, so one time is right for all of it. A run without a timestamp
	 * has no TIME.
	 */
	uint64_t horizon_tsc;

	/*
	 * Not 0: the trace itself says which thread runs. decode then also
	 * returns directly after each CONTEXT, before it asks for further code.
	 * A TIME of the run that the CONTEXT begins is delivered after the
	 * CONTEXT.
	 */
	uint32_t context_switches;

	/* enum aux_paths */
	uint32_t paths;

	/*
	 * How a decoder frees steps and paths (flow.h) that the host may still
	 * hold. Only inside of start, when it has too many, it calls
	 * forget(priv, release, what): the host calls release(what), once, as
	 * soon as it holds no event that leads to them. NULL: the host holds no
	 * event across start.
	 */
	void (*forget)(void *priv, void (*release)(void *what), void *what);

	/*
	 * How often the host wants a TIME: one less than so many ticks after
	 * the last may be left out, unless it reaches the horizon or goes back.
	 * 0: all are wanted. UINT64_MAX: none but those, and TIME.n (cycles)
	 * may be 0.
	 */
	uint64_t time_step;

	/*
	 * Bytes that the decoder may keep of what it learned of the code, about.
	 * It changes when streams begin and end; a decoder looks in start, and
	 * drops what is too much. 0: as much as it likes.
	 */
	uint64_t memory;

	/*
	 * Not 0: after an error the decoder goes on at the next sync point and
	 * nowhere before, even where the trace would allow it. So two decoders
	 * that differ in this give the same flow.
	 */
	uint32_t sync_only;
};

/*
 * For decoders that queue their events: copies up to n events of queue to out, but nothing
 * after a TIME at which decode has to return (horizon_tsc); then *stop is set. *last_tsc is
 * that of the last TIME delivered, ever. Returns how many were copied.
 */
static inline size_t aux_decoder_deliver(const struct aux_decoder_host *host,
					 const struct aux_flow *queue, size_t n,
					 struct aux_flow *out,
					 uint64_t *last_tsc, bool *stop)
{
	size_t i = 0;

	while (i < n && !*stop) {
		out[i] = queue[i];
		if (out[i].kind == AUX_FLOW_TIME) {
			*stop = out[i].time.tsc >= host->horizon_tsc ||
				out[i].time.tsc < *last_tsc;
			*last_tsc = out[i].time.tsc;
		}
		i++;
	}
	return i;
}

/* Intel PT: how the trace was recorded. All zero: nothing is known. */
struct aux_pt_config {
	uint64_t attr_config;		/* perf_event_attr.config of the PMU */
	uint32_t mtc_period;		/* log2, as in IA32_RTIT_CTL */
	uint32_t max_nonturbo_ratio;	/* nominal frequency / bus clock */
	uint32_t tsc_ctc_ratio_n;	/* CPUID.15H:EBX */
	uint32_t tsc_ctc_ratio_d;	/* CPUID.15H:EAX */
	uint8_t cpu_intel;		/* family/model/stepping are Intel's */
	uint16_t cpu_family;		/* 0: unknown, no errata */
	uint8_t cpu_model;
	uint8_t cpu_stepping;
};

/* The kind of trace source that made a CoreSight stream. */
enum aux_etm_arch {
	AUX_ETM_NONE = 0,	/* not known: no flow, only a GAP */
	AUX_ETM_V3 = 1,		/* ETMv3.x */
	AUX_ETM_PTM = 2,	/* PFTv1.x */
	AUX_ETM_V4 = 3,		/* ETMv4.x */
	AUX_ETM_ETE = 4,
	AUX_ETM_STM = 5,	/* MIPI STPv2 */
	AUX_ETM_ITM = 6,	/* Armv7-M ITM */
};

/*
 * CoreSight: one trace source, registers by their Arm names (IHI0064 for ETMv4,
 * IHI0014 for ETMv3, IHI0035 for PTM, IHI0054 for STM). The chunks of a decoder
 * hold the bytes of this source alone, without formatter frames. Registers that
 * a source does not have are 0.
 */
struct aux_etm_config {
	uint32_t arch;		/* enum aux_etm_arch */
	uint32_t trace_id;	/* 1 to 0x6f */
	uint32_t core_version;	/* the PE's architecture: 7, 8, 9; 0: the one
				 * that arch implies */
	char core_profile;	/* 'A', 'R', 'M'; 0: A */
	uint8_t pid_in_vmid;	/* the kernel's pid is CONTEXTIDR_EL2, traced
				 * as VMID; else it is the context id */
	uint8_t ts_is_clock;	/* timestamps are ticks of aux_clock */
	/* ETMv4, ETE */
	uint32_t trcconfigr, trcidr0, trcidr1, trcidr2;
	uint32_t trcidr8, trcidr9, trcidr10, trcidr11, trcidr12, trcidr13;
	uint32_t trcdevarch, trcauthstatus;
	/* ETMv3, PTM */
	uint32_t etmcr, etmidr, etmccer;
	/* STM, ITM */
	uint32_t stmtcsr, stmfeat1r, stmfeat3r, stmdevid, itmtcr;
};

/*
 * From TSC to the perf clock, in the terms of struct perf_event_mmap_page
 * (linux/perf_event.h, cap_user_time_zero); mult 0: no conversion is known.
 */
struct aux_clock {
	uint64_t zero;
	uint64_t cycles;	/* time_cycles, for short counters */
	uint64_t mask;		/* time_mask, 0 or all ones when wide */
	uint32_t mult;
	uint16_t shift;
};

/* The perf clock in ns at a TSC; 0 without a conversion. The product is split
 * as <linux/perf_event.h> says, so that it does not overflow. */
static inline uint64_t aux_clock_ns(const struct aux_clock *c, uint64_t tsc)
{
	uint64_t quot, rem;

	if (!c->mult || c->shift > 63)
		return 0;
	if (c->mask && c->mask != UINT64_MAX)
		tsc = c->cycles + ((tsc - c->cycles) & c->mask);
	quot = tsc >> c->shift;
	rem = tsc & (((uint64_t)1 << c->shift) - 1);
	return c->zero + quot * c->mult + (rem * c->mult >> c->shift);
}

/* An address filter of the event: where it switches tracing, packets may lack
 * IPs. */
struct aux_filter {
	uint64_t start;
	uint64_t end;		/* first address after it */
};

struct aux_decoder_config {
	uint32_t size;		/* sizeof(struct aux_decoder_config) */
	uint32_t n_filters;
	const struct aux_filter *filters;
	struct aux_clock clock;
	struct aux_pt_config pt;
	struct aux_etm_config etm;
	const uint64_t *metadata;	/* AUXTRACE_INFO words, host order */
	uint32_t n_metadata;
};

struct aux_decoder_ops {
	uint32_t abi;		/* AUX_DECODER_ABI, checked first */
	uint32_t size;		/* sizeof(struct aux_decoder_ops) */
	const char *name;	/* for --decoder; lower case, no spaces */
	const char *help;	/* one line */
	uint32_t trace_type;	/* AUX_TRACE_*; 0: any, only when named */

	/* *dec is the new decoder, or NULL. config, host and what they point to
	 * must outlive it. Returns 0 or -AUX_E_*, with text in diag. */
	int (*open)(void **dec, const struct aux_decoder_config *config,
		    const struct aux_decoder_host *host, struct aux_diag *diag);
	/* Begins a chunk. Nothing of the chunk before has an influence on its
	 * flow: chunks may be decoded in any order, by any decoder. */
	int (*start)(void *dec, const struct aux_chunk *chunk);
	/*
	 * Fills out[0..max), max >= 16. Returns the number of events, 0 at the
	 * end of the chunk, or -AUX_E_NOMEM. Bad trace is never an error: it is
	 * a GAP event, and decoding resumes at the next sync point.
	 *
	 * start and decode may return -AUX_E_UNSUPPORTED: the chunk needs a
	 * feature that this decoder lacks. The events delivered so far are
	 * right; the host has another decoder (the reference) decode the whole
	 * chunk, and drops that many events of it.
	 */
	int (*decode)(void *dec, struct aux_flow *out, size_t max);
	/* Frees the decoder. Accepts NULL, and what a failed open left. */
	void (*close)(void *dec);
};

/* The one symbol that a decoder loaded with --plugin exports. */
#define AUX_DECODER_SYMBOL "aux_decoder_plugin"
extern const struct aux_decoder_ops aux_decoder_plugin;

#ifdef __cplusplus
}
#endif
#endif
