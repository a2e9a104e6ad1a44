/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoder plugins: trace bytes in, flow events out.
 *
 * A plugin is pure (D4): it gets a chunk and a host, asks the host for code
 * bytes, and gives flow back in batches. It knows no side-band, no files and no
 * printing. One decoder object is used by one thread at a time; objects share
 * nothing, so many run side by side.
 *
 * Call order: open, then for each chunk start and decode until it returns 0,
 * then close. start may follow start at any time.
 */
#ifndef AUX_DECODER_H
#define AUX_DECODER_H

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
 * starts) and can be decoded alone.
 */
struct aux_chunk {
	uint32_t size;		/* sizeof(struct aux_chunk) */
	uint32_t flags;		/* AUX_CHUNK_* */
	const uint8_t *data;	/* valid until the next start or close */
	uint64_t len;
	uint64_t stream_offset;	/* of data[0]; events add to it */
	uint64_t end_ip;	/* with AUX_CHUNK_HAS_END_IP */
};

/*
 * end_ip is where the next chunk takes over: walk on to it without consuming
 * packets, then stop. Without the flag the stream ends (or breaks) here: what
 * lies behind the last packet is unknown and nothing is walked.
 */
#define AUX_CHUNK_HAS_END_IP 1

/* Code bytes, contiguous, from one backing object. */
struct aux_code {
	uint64_t start;		/* virtual address of bytes[0] */
	uint64_t end;		/* first address behind */
	const uint8_t *bytes;	/* owned by the host, valid while the host lives */
	const char *path;	/* file that holds the same bytes, or NULL */
	uint64_t path_offset;	/* of bytes[0] in path */
};

/* Does the host take PATH events (flow.h) in place of RANGEs? */
enum aux_paths {
	AUX_PATHS_NONE = 0,
	AUX_PATHS_PACKET,	/* each is of one packet, and at its offset */
	AUX_PATHS_JOINED,	/* or of several packets in a row, at the offset of
				 * the first */
};

/*
 * What a plugin may ask. The host changes generation and horizon_tsc between
 * calls of decode, never inside one.
 */
struct aux_decoder_host {
	uint32_t size;		/* sizeof(struct aux_decoder_host) */
	void *priv;		/* the host's own */
	/*
	 * Code that contains ip in the current address space. Returns 0, or
	 * -AUX_E_NOENT when there is none. Equal generation: equal answers.
	 */
	int (*code)(void *priv, uint64_t ip, struct aux_code *code);
	uint64_t generation;	/* changed: cached code may be stale. A value
				 * that comes back names the same code again */
	/*
	 * Nothing changes (who runs, what is mapped) before this TSC (or raw
	 * timestamp). decode must return right after an event that brings the
	 * time to or past it, or back (behind a gap), before it asks for any
	 * further code, so that the host can switch. 0: return after every
	 * TIME. Where a timestamp stands behind the first instructions that it
	 * is of (CoreSight), its TIME comes before these: where the flow goes
	 * on (TRACE_ON, the beginning of a chunk, back in user code), the first
	 * timestamp up to the exception that ends this run is looked for. No
	 * exec, no switch is inside of a run. A run without one has no TIME.
	 */
	uint64_t horizon_tsc;
	/*
	 * The trace itself says who runs: decode must return right after a
	 * CONTEXT, before it asks for any further code. A TIME of what it
	 * begins is told behind it.
	 */
	uint32_t context_switches;
	/*
	 * enum aux_paths. A decoder that has too many steps and paths drops them,
	 * inside of start alone: it calls forget, and the host calls
	 * release(what) once it holds no event that leads to them. NULL: it never
	 * holds one across start.
	 */
	uint32_t paths;
	void (*forget)(void *priv, void (*release)(void *what), void *what);
	/*
	 * A TIME less than so many ticks behind the last one given need not be
	 * given, unless it reaches the horizon or goes back. 0: all are wanted.
	 * UINT64_MAX: and their cycles need not be told.
	 */
	uint64_t time_step;
};

/* Intel PT: how the trace was made. All zero: nothing known. */
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

/* What made a CoreSight stream. */
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
 * CoreSight: one trace source, registers by their Arm names. The chunks of a
 * decoder hold the bytes of this source alone, without frames. What a source
 * does not have is 0.
 */
struct aux_etm_config {
	uint32_t arch;		/* enum aux_etm_arch */
	uint32_t trace_id;	/* 1 to 0x6f */
	uint32_t core_version;	/* of the PE's architecture: 7, 8, 9; 0: what
				 * goes with arch */
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

/* TSC to perf clock, perf_event_mmap_page's terms; mult 0: no conversion. */
struct aux_clock {
	uint64_t zero;
	uint64_t cycles;	/* time_cycles, for short counters */
	uint64_t mask;		/* time_mask, 0 or all ones when wide */
	uint32_t mult;
	uint16_t shift;
};

/* TSC to ns; 0 without a conversion. */
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

/* An address filter that was set on the event, for trace without IPs. */
struct aux_filter {
	uint64_t start;
	uint64_t end;		/* first address behind */
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

	/* config, host and what they point to outlive the decoder. */
	int (*open)(void **dec, const struct aux_decoder_config *config,
		    const struct aux_decoder_host *host, struct aux_diag *diag);
	/* Begins a chunk; forgets everything of the one before. */
	int (*start)(void *dec, const struct aux_chunk *chunk);
	/*
	 * Fills out[0..max), max >= 16. Returns the number of events, 0 at the
	 * end of the chunk, or -AUX_E_NOMEM. Bad trace is never an error: it
	 * is a GAP event, and decoding goes on at the next sync point.
	 *
	 * -AUX_E_UNSUPPORTED, of start or decode: the chunk needs what this
	 * decoder lacks. What it gave of the chunk is right; the host has the
	 * whole chunk decoded by another decoder and leaves that much out.
	 */
	int (*decode)(void *dec, struct aux_flow *out, size_t max);
	/* Accepts NULL and half-open objects. */
	void (*close)(void *dec);
};

/* The one symbol that a plugin loaded with --plugin exports. */
#define AUX_DECODER_SYMBOL "aux_decoder_plugin"
extern const struct aux_decoder_ops aux_decoder_plugin;

#ifdef __cplusplus
}
#endif
#endif
