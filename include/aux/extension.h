/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What auxkit adds to perf.data: records among the data, feature sections.
 *
 * Own records have the type AUX_RECORD_EVENT_TYPE, which perf once wrote and
 * since skips without a word, in files and pipes. They stand where they belong
 * in time and survive a killed writer, as sections at the end do not. A record
 * of that type without the magic is perf's.
 */
#ifndef AUX_EXTENSION_H
#define AUX_EXTENSION_H

#include <stdint.h>

#define AUX_OWN_MAGIC 0x01004b5258554100ULL

enum aux_own_kind {
	AUX_OWN_LOSS = 1,	/* struct aux_own_loss */
	AUX_OWN_SNAPSHOT = 2,	/* struct aux_own_snapshot, then the label */
	AUX_OWN_CODE = 3,	/* struct aux_own_code, then bytes */
	AUX_OWN_SOURCE = 4,	/* text, as AUX_FEAT_AUXKIT_SOURCE */
	AUX_OWN_LEDGER = 5,	/* struct aux_ledger_entry[]: all so far */
	AUX_OWN_PIECE = 6,	/* struct aux_own_piece, then bytes */
	AUX_OWN_FILE = 8,	/* struct aux_own_file, path, then bytes */
	AUX_OWN_SYMBOLS = 9,	/* struct aux_own_symbols, path, entries, names */
	AUX_OWN_SIGNAL = 10,	/* struct aux_own_signal */
	AUX_OWN_MOMENT = 11,	/* struct aux_own_moment, then the label */
};

/* A whole record, header and padding included: perf 7.2 warns of an EVENT_TYPE
 * that is shorter than its own (id and 64 bytes of name). Readers take shorter
 * ones. */
#define AUX_OWN_RECORD_MIN 80

/* After the 8-byte record header; the record is padded to 8 and
 * AUX_OWN_RECORD_MIN. */
struct aux_own_record {
	uint64_t magic;		/* AUX_OWN_MAGIC */
	uint16_t kind;		/* enum aux_own_kind; unknown: skip */
	uint16_t version;	/* 1; what is added later comes at the end */
	uint32_t len;		/* payload bytes that follow this struct */
};

/* Something is missing that no record of the kernel tells. */
struct aux_own_loss {
	uint32_t idx;		/* queue, as AUXTRACE.idx; -1: no stream */
	uint32_t cause;		/* enum aux_ledger_cause */
	uint64_t offset;	/* in the AUX stream: the bytes from here on came
				 * after the loss; -1 unknown */
	uint64_t bytes;		/* 0: unknown */
	uint64_t first_ns, last_ns;	/* perf clock, 0 unknown */
	uint32_t cpu, tid;	/* -1: none */
};

/* The AUXTRACE records from here to the next of its kind are one snapshot. */
struct aux_own_snapshot {
	uint64_t number;	/* from 1 */
	uint64_t time_ns;	/* when it was asked for, perf clock */
	uint32_t reason;	/* enum aux_snapshot_reason */
	uint32_t label_len;	/* bytes of text that follow, no NUL */
};

enum aux_snapshot_reason {
	AUX_SNAPSHOT_SIGNAL = 1,
	AUX_SNAPSHOT_CONTROL = 2,	/* asked through the control FIFO */
	AUX_SNAPSHOT_EXIT = 3,
	AUX_SNAPSHOT_CUT = 4,	/* what a cut left of a longer recording */
	AUX_SNAPSHOT_TRIGGER = 5,	/* a moment that was waited for */
};

/*
 * A signal is delivered to a thread, or a thread has ended: which signal ended a
 * process, where and why, is in no record of perf's. Of ends there is that of each
 * process's first thread, and of each thread that a signal ended.
 */
struct aux_own_signal {
	uint64_t time_ns;	/* perf clock */
	uint32_t pid, tid;
	uint32_t what;		/* enum aux_signal_what */
	uint32_t signo;		/* as Linux numbers them; ENDED: 0 without one */
	int32_t code;		/* si_code; ENDED without a signal: exit status */
	uint32_t flags;		/* AUX_SIGNAL_* */
	uint64_t ip;		/* the instruction that did not run */
	uint64_t addr;		/* si_addr */
	uint32_t sender;	/* si_pid: the process that sent it; 0: none did */
	uint32_t reserved;
};

/*
 * A moment that the recorder waited for (auxcap --when): which trigger, whose, when, and
 * how long it took. Of a snapshot it stands directly before the record of that.
 */
struct aux_own_moment {
	uint64_t time_ns;	/* perf clock */
	uint64_t took_ns;	/* of a call; 0: it is not one */
	uint32_t pid, tid;
	uint32_t cpu;		/* -1: unknown */
	uint32_t label_len;	/* bytes of text that follow, no NUL */
};

enum aux_signal_what {
	AUX_SIGNAL_DELIVERED = 1,
	AUX_SIGNAL_ENDED = 2,
};

#define AUX_SIGNAL_HAS_IP 1u
#define AUX_SIGNAL_HAS_ADDR 2u
#define AUX_SIGNAL_CORE 4u	/* ENDED: the system wrote a core file */

/*
 * Code bytes that cannot be had later, from time_ns on. Same meaning as an
 * entry of AUX_FEAT_AUXKIT_CODE, with the bytes behind it: all len of them, or
 * none: then blob names the bytes of an earlier record of this file.
 */
struct aux_own_code {
	uint64_t time_ns;
	uint64_t addr;
	uint64_t len;		/* at most AUX_OWN_CODE_MAX: longer ranges are
				 * several records */
	uint64_t blob;		/* number of these bytes, unique in the file */
	uint32_t pid;		/* whose; -1 the kernel */
	uint32_t kind;		/* enum aux_code_kind */
};
#define AUX_OWN_CODE_MAX 61440

/*
 * A part of a feature section that perf does not take from among the data: for
 * who repairs a file whose writer had no time to write its sections. All parts
 * of a section come in order, one behind the other.
 */
struct aux_own_piece {
	uint32_t bit;		/* enum aux_feature */
	uint32_t reserved;
	uint64_t offset;	/* in the section, of the bytes that follow */
	uint64_t total;		/* bytes of the section */
};

/*
 * A part of a file that will not be had later: a jitdump, a perf map (both
 * by the path that their process knows, in its namespaces), /proc/kallsyms. The
 * parts of a path come in order, one behind the other; a part with offset 0
 * begins it anew.
 */
struct aux_own_file {
	uint64_t offset;	/* in the file, of the bytes that follow */
	uint64_t total;		/* bytes of the file; 0: unknown */
	uint32_t path_len;	/* bytes of path that follow, no NUL */
	uint32_t pid;		/* whose mapping it was; -1: the kernel's */
};
#define AUX_OWN_FILE_MAX 57344	/* bytes of one part */

/*
 * Names of the code of a file that the recording brings along (bundle): behind
 * the path come n entries, then the names, each ended by NUL. A range of
 * offsets is in one entry at most; a file may have several records.
 */
struct aux_own_symbols {
	uint8_t build_id[20];
	uint32_t build_id_size;	/* as in the mapping's record; 0: not there */
	uint32_t path_len;	/* bytes of path that follow, no NUL */
	uint32_t n;		/* entries */
	uint32_t names_len;
	uint32_t reserved;
};

struct aux_own_symbol {
	uint64_t first, end;	/* offsets in the file: who asks for one of
				 * [first, end) gets this symbol */
	uint64_t start, size;	/* of the symbol; start may lie before first */
	uint64_t name;		/* place of its name among the names */
};

/*
 * AUXTRACE with compressed payload, on request only: perf refuses the file. As
 * struct aux_rec_auxtrace, whose size then is the payload's in the file (padded
 * to 8), then raw_size and zstd_size; the payload is one zstd frame of
 * zstd_size bytes. offset counts raw bytes.
 */
#define AUX_RECORD_AUXKIT_AUXTRACE_ZSTD 0x5a585541
struct aux_rec_auxtrace_zstd {
	uint64_t raw_size;
	uint64_t zstd_size;
};

/* ---- feature sections ---- */

/*
 * SOURCE: how the trace was made, "key=value\n" text. Keys: source (soft_pt,
 * kernel), backend (emulate, step), clock (virtual, hardware), tool, terms,
 * bundle. clock=virtual: times and cycles are not the hardware's. bundle=1: all
 * code that the trace needs is in the file, and files of the machine that reads
 * it do not count unless they are asked for.
 */
struct aux_feat_text {
	uint32_t version;	/* 1 */
	uint32_t len;		/* bytes of text that follow, no NUL */
};

/* LEDGER: one entry per stream and cause; bytes produced = the sum of bytes. */
enum aux_ledger_cause {
	AUX_LEDGER_SAVED = 0,
	AUX_LEDGER_TRUNCATED = 1,	/* AUX ring full */
	AUX_LEDGER_PARTIAL = 2,
	AUX_LEDGER_COLLISION = 3,
	AUX_LEDGER_LOST_RECORDS = 4,	/* data ring full; count, not bytes */
	AUX_LEDGER_OVERWRITTEN = 5,	/* snapshot mode: expected */
	AUX_LEDGER_THROTTLED = 6,
	/* from here on counts, of what the name says */
	AUX_LEDGER_NOT_TRACED = 7,	/* processes that cannot be followed */
	AUX_LEDGER_KILLED = 8,	/* threads whose last instructions are unknown */
	AUX_LEDGER_ENDLESS = 9,	/* loops that no packet counts */
	AUX_LEDGER_UNEXPLAINED = 10,	/* transitions no branch explains */
	AUX_LEDGER_INJECTED = 11,	/* overflows made on request */
	/* bytes again */
	AUX_LEDGER_STALLED = 12,	/* the PMU had stopped without a record */
	AUX_LEDGER_UNWRITTEN = 13,	/* the file could not take them */
	AUX_LEDGER_UNREAD = 14,	/* still in the ring when we had to end */
	AUX_LEDGER_OFFLINE = 15,	/* the stream's CPU had gone offline */
	AUX_LEDGER_ENDED = 16,	/* its event ended before the recording did */
	/* counts */
	AUX_LEDGER_UNDESCRIBED = 17,	/* processes whose maps are not known */
	AUX_LEDGER_AT_LEAST = 18,	/* times that OVERWRITTEN is a lower bound */
	AUX_LEDGER_HALTED = 19,	/* times the recorder was stopped: no loss */
	AUX_LEDGER_SUSPENDED = 20,	/* times the machine slept */
	AUX_LEDGER_ABANDONED = 21,	/* threads that went on unrecorded */
	AUX_LEDGER_N_CAUSES,
};

struct aux_feat_ledger {
	uint32_t version;	/* 1: entries without n; 2 */
	uint32_t n_entries;
};

struct aux_ledger_entry {
	uint32_t idx;		/* queue, as AUXTRACE.idx */
	uint32_t cause;		/* enum aux_ledger_cause */
	uint64_t bytes;		/* or the count of what the cause names; of a
				 * loss whose size nobody knows: 0 */
	uint64_t first_ns;	/* perf clock, 0 unknown */
	uint64_t last_ns;
	uint64_t n;		/* how often; version 1 has no such field */
};

/*
 * CODE: bytes that cannot be had later. Header, entries in order of time, then
 * blobs. An entry replaces what earlier entries (and files) say of its range
 * in its process from time_ns on.
 */
struct aux_feat_code {
	uint32_t version;	/* 1 */
	uint32_t n_entries;
	uint64_t blob_size;	/* bytes of blobs behind the entries */
};

enum aux_code_kind {
	AUX_CODE_VDSO = 1,
	AUX_CODE_ANON = 2,	/* anonymous or writable memory (JIT) */
	AUX_CODE_FILE = 3,	/* deleted or otherwise unreachable file */
	AUX_CODE_KERNEL = 4,
	/* No bytes, blob 0: the range changed at some time between time_ns and
	 * that of the next entry, so that nobody knows what ran there */
	AUX_CODE_UNKNOWN = 5,
};

struct aux_code_entry {
	uint64_t time_ns;
	uint64_t addr;
	uint64_t len;
	uint64_t blob_offset;	/* from the first blob byte */
	uint32_t pid;		/* whose; -1 the kernel */
	uint32_t kind;		/* enum aux_code_kind */
};

#if defined(__cplusplus)
#define AUX_ASSERT_SIZE(t, n) static_assert(sizeof(t) == (n), #t)
#else
#define AUX_ASSERT_SIZE(t, n) _Static_assert(sizeof(t) == (n), #t)
#endif

AUX_ASSERT_SIZE(struct aux_own_record, 16);
AUX_ASSERT_SIZE(struct aux_own_loss, 48);
AUX_ASSERT_SIZE(struct aux_own_snapshot, 24);
AUX_ASSERT_SIZE(struct aux_own_code, 40);
AUX_ASSERT_SIZE(struct aux_own_signal, 56);
AUX_ASSERT_SIZE(struct aux_own_moment, 32);
AUX_ASSERT_SIZE(struct aux_own_piece, 24);
AUX_ASSERT_SIZE(struct aux_own_file, 24);
AUX_ASSERT_SIZE(struct aux_own_symbols, 40);
AUX_ASSERT_SIZE(struct aux_own_symbol, 40);
AUX_ASSERT_SIZE(struct aux_ledger_entry, 40);
AUX_ASSERT_SIZE(struct aux_feat_code, 16);
AUX_ASSERT_SIZE(struct aux_code_entry, 40);

#endif
