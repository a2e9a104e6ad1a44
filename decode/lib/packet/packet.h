/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets of a trace as bytes: of Intel PT (ptpkt), of ETMv4 and ETE
 * (etmpkt), the formatter's frames that CoreSight packets come in (cs_frame),
 * and the packets of a stream as lines (packets).
 */
#ifndef DECODE_LIB_PACKET_PACKET_H
#define DECODE_LIB_PACKET_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <aux/decoder.h>

#include "common/outbuf.h"

/*
 * ptpkt: Intel PT packets: decoding, searching, and text.
 *
 * Specification: Intel SDM volume 3, chapter "Intel Processor Trace", section
 * "Trace Packets and Data Types"; every packet of the current SDM.
 */

enum ptpkt_type {
	PTPKT_BAD = 0,	/* no packet starts with these bytes */
	PTPKT_PAD,
	PTPKT_TNT,	/* short and long: payload, n bits */
	PTPKT_TIP,
	PTPKT_TIP_PGE,
	PTPKT_TIP_PGD,
	PTPKT_FUP,
	PTPKT_PIP,
	PTPKT_MODE_EXEC,
	PTPKT_MODE_TSX,
	PTPKT_TRACESTOP,
	PTPKT_CBR,
	PTPKT_TSC,
	PTPKT_MTC,
	PTPKT_TMA,
	PTPKT_CYC,
	PTPKT_VMCS,
	PTPKT_OVF,
	PTPKT_PSB,
	PTPKT_PSBEND,
	PTPKT_MNT,
	PTPKT_PTW,
	PTPKT_EXSTOP,
	PTPKT_MWAIT,
	PTPKT_PWRE,
	PTPKT_PWRX,
	PTPKT_BBP,
	PTPKT_BEP,
	PTPKT_BIP,
	PTPKT_CFE,
	PTPKT_EVD,
	PTPKT_TRIG,
	PTPKT_N_TYPES,
};

/*
 * The fields by type (all others 0):
 *
 *  TNT		count bits in payload, the oldest is bit count - 1
 *  TIP*, FUP	count IPBytes (0 to 6), payload as in the packet
 *  PIP		payload CR3, flags NR
 *  MODE_EXEC	flags CS.L (1), CS.D (2), IF (4)
 *  MODE_TSX	flags InTX (1), TXAbort (2)
 *  TMA		payload CTC, payload2 fast counter (9 bits)
 *  VMCS	payload base address
 *  PTW		count payload bytes (4, 8), flags IP bit
 *  EXSTOP, BEP	flags IP bit
 *  MWAIT	payload hints, payload2 extensions
 *  PWRE	payload C-state, payload2 sub C-state, flags HW
 *  PWRX	payload last core C-state, payload2 deepest, flags wake reason
 *  BBP		count type, payload bytes of each item (4, 8)
 *  BIP		count id, payload value
 *  CFE		count type, payload vector, flags IP bit
 *  EVD		count type, payload value
 *  TRIG		count TRBV (which triggers), payload ICNT, flags IP bit (1), ICNTV:
 *		there is an ICNT (2), MULT: several fired (4)
 *  CBR, TSC, MTC, CYC, MNT	payload
 */
struct ptpkt {
	uint8_t type;		/* enum ptpkt_type */
	uint8_t size;		/* bytes of the packet */
	uint8_t count;
	uint8_t flags;
	uint64_t payload;
	uint64_t payload2;
};

/*
 * Decodes the packet at p, of which the bytes before end may be read. Returns
 * its size, 0 if the bytes end inside of it (pkt->type is set if it is known),
 * -1 if no packet begins so (type BAD). All other fields of *pkt are set, too.
 */
int ptpkt_decode(const uint8_t *p, const uint8_t *end, struct ptpkt *pkt);

/*
 * The same where blocks (BBP to BEP, PEBS records) can occur: inside of one,
 * bytes that are short TNTs elsewhere begin BIP packets. *block is 0 outside of
 * blocks, else the size of the items. Set it to 0 before the first packet; it
 * is kept up to date.
 */
int ptpkt_next(const uint8_t *p, const uint8_t *end, unsigned *block,
	       struct ptpkt *pkt);

#define PTPKT_PSB_SIZE 16
/* First PSB at or after p, or NULL. */
const uint8_t *ptpkt_find_psb(const uint8_t *p, const uint8_t *end);

/* Where the whole packets end, of which psb is the first: before the packet, or
 * the PSB+, that end cuts. end itself where none is cut, or where bytes are no
 * packet. */
const uint8_t *ptpkt_whole_end(const uint8_t *psb, const uint8_t *end);

/* The first run of n or more zero bytes (n > 8), or NULL; *after is its end. */
const uint8_t *ptpkt_find_zeros(const uint8_t *p, const uint8_t *end, size_t n,
				const uint8_t **after);

/* Updates Last IP, *last, by an IP packet (SDM, "IP Compression"). Returns 1,
 * or 0 if the packet suppresses its IP (IPBytes 0). */
int ptpkt_ip(const struct ptpkt *pkt, uint64_t *last);

/* The packet as text, without its offset: "tip.pge 3: 0x401000". Returns the
 * length as snprintf does. */
int ptpkt_text(char *buf, size_t len, const struct ptpkt *pkt);

/* The name of a type in that text. */
const char *ptpkt_name(enum ptpkt_type type);

/* The name of a type of CFE or EVD packets: "intr", "cr2". NULL: none is
 * known. */
const char *ptpkt_cfe_name(unsigned type);
const char *ptpkt_evd_name(unsigned type);

/* Errata, by what they do to packets. */
enum {
	PT_ERR_BDM70 = 1,	/* PSB+ with a stale FUP before a TIP.PGE */
	PT_ERR_BDM64 = 2,	/* wrong TNT or TIP before an abort */
	PT_ERR_SKD007 = 4,	/* CYC of two bytes cut by an OVF */
	PT_ERR_SKD022 = 8,	/* FUP at VMLAUNCH or VMRESUME means nothing */
	PT_ERR_SKD010 = 16,	/* OVF without its FUP */
	PT_ERR_SKL014 = 32,	/* TIP.PGD of a filter without its IP */
	PT_ERR_APL12 = 64,	/* OVF with a FUP too many */
	PT_ERR_APL11 = 128,	/* OVF followed by a TIP.PGD */
	PT_ERR_SKZ84 = 256,	/* wrong TMA with a byte too many */
};

/* Those of a CPU, PT_ERR_*; of one that is not known: none. */
uint16_t ptpkt_errata(const struct aux_pt_config *c);

/* ptpkt_next on a CPU with these errata: bytes that are wrong by SKD007 or SKZ84
 * are a PAD, which has their size. */
int ptpkt_next_slowly(const uint8_t *p, const uint8_t *end, unsigned errata,
		      unsigned *block, struct ptpkt *pkt);

static inline int ptpkt_next_on(const uint8_t *p, const uint8_t *end,
				unsigned errata, unsigned *block,
				struct ptpkt *pkt)
{
	int n;

	if (!*block) {
		n = ptpkt_decode(p, end, pkt);
		/* no erratum, no block */
		if (n > 0 && pkt->type != PTPKT_CYC && pkt->type != PTPKT_BBP)
			return n;
	}
	return ptpkt_next_slowly(p, end, errata, block, pkt);
}

/* After the PADs at p: runs of them align what a CPU wrote at once. */
static inline const uint8_t *ptpkt_skip_pads(const uint8_t *p,
					     const uint8_t *end)
{
	uint64_t w;

	while (end - p >= 8) {
		memcpy(&w, p, 8);
		if (w)
			break;
		p += 8;
	}
	while (p < end && !*p)
		p++;
	return p;
}

/*
 * etm_packet: one ETMv4 or ETE packet at a time, as text. Names are those of
 * OpenCSD's packet lister, so that the two can be compared line by line.
 *
 * Specification: Arm IHI 0064, "Descriptions of trace protocols"; DDI 0487,
 * "ETE protocol".
 */

#define ETMPKT_TEXT 256	/* bytes that a packet's text fits into */

/* What packets are relative to. One for each trace source. */
struct etmpkt {
	const struct aux_etm_config *config;
	bool ete;
	uint8_t version;	/* 0x42: ETMv4.2; ETE is 0x50 */
	uint8_t n_vmid, n_cid;	/* bytes in a context */
	uint64_t ip[3];		/* the last addresses, the newest first */
	uint8_t is[3];		/* their instruction sets, 0 or 1 */
	bool wide;		/* the last context is of 64 bits */
	uint32_t threshold;	/* added to each cycle count */
	uint32_t cycle_mask;	/* of those in timestamps */
	uint64_t ts;
};

/* Is there a text for packets of this source? */
bool etmpkt_knows(const struct aux_etm_config *config);
/* config outlives p. Also after bytes that are lost. */
void etmpkt_init(struct etmpkt *p, const struct aux_etm_config *config);
/*
 * The packet at data[0..len), and its text. Returns its bytes, 0: it is not all
 * there, -1: no packet of this source starts so.
 */
int etmpkt_next(struct etmpkt *p, const uint8_t *data, size_t len,
		char text[ETMPKT_TEXT]);
/* Where the next A-Sync begins in data; len: nowhere. */
size_t etmpkt_find_sync(const uint8_t *data, size_t len);

/*
 * cs_frame: CoreSight formatter frames as they lie in memory: 16 bytes each,
 * which interleave the bytes of several trace sources (Arm IHI 0029, "Trace
 * formatter").
 *
 * Frames are counted from the first byte given. Four FSYNC words in place of a
 * frame, a barrier, say that trace was lost; the current id is unknown from
 * there on. Bytes before the first id belong to no source.
 */

#define CS_FRAME_SIZE 16
#define CS_FRAME_N_IDS 128
#define CS_FRAME_NO_ID 0xff	/* before the first id */
#define CS_FRAME_ID_MIN 0x01	/* of a trace source; 0 is padding */
#define CS_FRAME_ID_MAX 0x6f	/* above: reserved, flush and trigger */

/* Bytes by trace id. Initialize with {.id = CS_FRAME_NO_ID}. */
struct cs_frame_ids {
	uint8_t id;		/* of the next byte of data */
	uint64_t n[CS_FRAME_N_IDS];	/* bytes with each id */
	uint64_t n_unowned;	/* bytes without an id */
	uint64_t n_barriers;
};

/* Counts the bytes of each id. A stream may come in parts of whole frames;
 * bytes past the last whole frame are ignored. */
void cs_frame_scan(struct cs_frame_ids *ids, const uint8_t *data, size_t len);

/* Is there a barrier at data[0..16)? */
bool cs_frame_is_barrier(const uint8_t *data);

/* Data bytes before the first id, of whole frames without a barrier. */
uint64_t cs_frame_unowned(const uint8_t *data, size_t len);

/* Consecutive frames of 15 picked bytes each; or one frame with fewer. */
struct cs_frame_seg {
	uint32_t pos;		/* of the first, in the bytes picked */
	uint32_t frame;		/* index of the frame it comes from */
};

/* The bytes of one id. Owns data and segs. */
struct cs_frame_pick {
	uint8_t id;		/* whose bytes are picked */
	uint8_t now;		/* id of the next byte, or CS_FRAME_NO_ID */
	uint8_t *data;		/* [0, n) */
	size_t n, cap;
	uint64_t n_frames;	/* so far */
	struct cs_frame_seg *segs;	/* by pos */
	size_t n_segs, cap_segs;
	size_t cursor;		/* segment of the last cs_frame_run() */
};

void cs_frame_pick_init(struct cs_frame_pick *p, uint8_t id);
/* Drops the bytes; keeps the memory. */
void cs_frame_pick_reset(struct cs_frame_pick *p);
void cs_frame_pick_fini(struct cs_frame_pick *p);

/*
 * Picks from whole frames, up to a barrier. Returns how many bytes of data were
 * consumed: all but a partial frame at the end, or those before the barrier (0
 * if data begins with one: skip it, and reset). -AUX_E_NOMEM, also at 4 GiB of
 * bytes or frames.
 */
int64_t cs_frame_pick_add(struct cs_frame_pick *p, const uint8_t *data,
			  size_t len);

/* len picked bytes from pos on, of consecutive frames; the first is at
 * offset. */
struct cs_frame_run {
	size_t pos, len;
	uint64_t offset;
	uint64_t framed;	/* CS_FRAME_FRAMED; 0: the bytes have no frames */
};

#define CS_FRAME_FRAMED UINT64_C(0x88888889)	/* n * this >> 35 is n / 15 */

/* The offset in the framed bytes of the byte at pos, which is in r, exact to
 * the frame: one more per 15 bytes. */
static inline uint64_t cs_frame_at(const struct cs_frame_run *r, size_t pos)
{
	uint64_t n = pos - r->pos;

	return r->offset + n + (n * r->framed >> 35);
}

/* The run that contains pos; behind the last byte one of that byte's offset.
 * Fast when pos grows. */
struct cs_frame_run cs_frame_run(struct cs_frame_pick *p, size_t pos);

/*
 * packets: prints the packets of one AUX stream, which is fed in pieces, as
 * lines.
 *
 * A packet may continue in the next piece. Bytes before a sync point are
 * skipped and counted. Trace other than Intel PT is printed as hex.
 */

#define PACKET_MAX 16	/* bytes of the longest packet: PSB */

struct packets {
	struct outbuf *out;
	bool hex;		/* not Intel PT: no packets are parsed */
	uint64_t limit;		/* of lines; 0: none */
	uint64_t n_lines;
	uint64_t n_skipped;	/* bytes without sync, in all streams */
	uint64_t n_bad;		/* bytes that are no packet */
	/* the stream: */
	uint64_t offset;	/* of the next byte expected */
	bool synced;
	uint64_t skipped;	/* bytes since sync was lost */
	uint64_t last_ip;
	unsigned block;
	uint64_t n_pads;	/* PAD packets in a row, not printed yet */
	uint8_t carry[2 * PACKET_MAX];	/* the start of a packet that the last
					 * piece cut, room for its rest */
	size_t n_carry;
};

void packets_init(struct packets *p, struct outbuf *out, bool hex,
		  uint64_t limit);
/* Forgets the stream; the next feed may start anywhere. */
void packets_restart(struct packets *p, uint64_t offset);
/* Bytes at a stream offset; a jump in offsets restarts. */
void packets_feed(struct packets *p, const uint8_t *data, size_t len,
		  uint64_t offset);
/* Prints bytes as hex, PACKET_HEX per line; the first is at offset. */
#define PACKET_HEX 16
void packets_hex(struct packets *p, const uint8_t *data, size_t len,
		 uint64_t offset);
/* One packet that was parsed elsewhere. */
void packets_line(struct packets *p, uint64_t offset, const char *text);
/* The stream ends: reports what is left over. */
void packets_finish(struct packets *p);

static inline bool packets_full(const struct packets *p)
{
	return (p->limit && p->n_lines >= p->limit) || outbuf_failed(p->out);
}

#endif
