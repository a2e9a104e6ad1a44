/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT packets as text: one line each, without offset. TNT bits are '!' for
 * taken and '.' for not taken, oldest first; IPs are as in the packet.
 */
#include <inttypes.h>
#include <stdio.h>

#include "decode/lib/packet/pt_packet.h"

/* table */
static const char *const names[PTPKT_N_TYPES] = {
	[PTPKT_BAD] = "bad",
	[PTPKT_PAD] = "pad",
	[PTPKT_TNT] = "tnt",
	[PTPKT_TIP] = "tip",
	[PTPKT_TIP_PGE] = "tip.pge",
	[PTPKT_TIP_PGD] = "tip.pgd",
	[PTPKT_FUP] = "fup",
	[PTPKT_PIP] = "pip",
	[PTPKT_MODE_EXEC] = "mode.exec",
	[PTPKT_MODE_TSX] = "mode.tsx",
	[PTPKT_TRACESTOP] = "tracestop",
	[PTPKT_CBR] = "cbr",
	[PTPKT_TSC] = "tsc",
	[PTPKT_MTC] = "mtc",
	[PTPKT_TMA] = "tma",
	[PTPKT_CYC] = "cyc",
	[PTPKT_VMCS] = "vmcs",
	[PTPKT_OVF] = "ovf",
	[PTPKT_PSB] = "psb",
	[PTPKT_PSBEND] = "psbend",
	[PTPKT_MNT] = "mnt",
	[PTPKT_PTW] = "ptw",
	[PTPKT_EXSTOP] = "exstop",
	[PTPKT_MWAIT] = "mwait",
	[PTPKT_PWRE] = "pwre",
	[PTPKT_PWRX] = "pwrx",
	[PTPKT_BBP] = "bbp",
	[PTPKT_BEP] = "bep",
	[PTPKT_BIP] = "bip",
	[PTPKT_CFE] = "cfe",
	[PTPKT_EVD] = "evd",
};

const char *ptpkt_name(enum ptpkt_type type)
{
	return (unsigned)type < PTPKT_N_TYPES ? names[type] : "?";
}

static int text_tnt(char *buf, size_t len, const struct ptpkt *pkt)
{
	char bits[65];
	unsigned n = pkt->count < 64 ? pkt->count : 64;

	for (unsigned i = 0; i < n; i++)
		bits[i] = pkt->payload >> (n - 1 - i) & 1 ? '!' : '.';
	bits[n] = '\0';
	return snprintf(buf, len, "tnt %u: %s", n, bits);
}

static int text_ip(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	if (!pkt->count)
		return snprintf(buf, len, "%s 0: no ip", name);
	return snprintf(buf, len, "%s %u: %#" PRIx64, name, pkt->count,
			pkt->payload);
}

static int text_mode(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	if (pkt->type == PTPKT_MODE_TSX)
		return snprintf(buf, len, "%s%s%s", name,
				pkt->flags & 1 ? " intx" : "",
				pkt->flags & 2 ? " abrt" : "");
	return snprintf(buf, len, "%s%s%s%s", name,
			pkt->flags & 1 ? " cs.l" : "",
			pkt->flags & 2 ? " cs.d" : "",
			pkt->flags & 4 ? " if" : "");
}

/* Power, event and block packets */
static int text_event(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);
	const char *ip = pkt->flags & 1 ? " ip" : "";

	switch (pkt->type) {
	case PTPKT_MWAIT:
		return snprintf(buf, len, "%s hints %#" PRIx64 " ext %#" PRIx64,
				name, pkt->payload, pkt->payload2);
	case PTPKT_PWRE:
		return snprintf(buf, len, "%s c%" PRIu64 ".%" PRIu64 "%s", name,
				pkt->payload, pkt->payload2,
				pkt->flags ? " hw" : "");
	case PTPKT_PWRX:
		return snprintf(buf, len,
				"%s last c%" PRIu64 " deepest c%" PRIu64
				" wake %#x", name, pkt->payload, pkt->payload2,
				(unsigned)pkt->flags);
	case PTPKT_CFE:
		return snprintf(buf, len, "%s type %u vector %" PRIu64 "%s",
				name, pkt->count, pkt->payload, ip);
	case PTPKT_EVD:
		return snprintf(buf, len, "%s type %u: %#" PRIx64, name,
				pkt->count, pkt->payload);
	case PTPKT_BBP:
		return snprintf(buf, len, "%s type %u, %" PRIu64 "-byte items",
				name, pkt->count, pkt->payload);
	case PTPKT_BIP:
		return snprintf(buf, len, "%s id %u: %#" PRIx64, name,
				pkt->count, pkt->payload);
	}
	return snprintf(buf, len, "%s%s", name, ip);
}

static int text_value(char *buf, size_t len, const struct ptpkt *pkt)
{
	const char *name = ptpkt_name(pkt->type);

	switch (pkt->type) {
	case PTPKT_PIP:
		return snprintf(buf, len, "%s cr3 %#" PRIx64 "%s", name,
				pkt->payload, pkt->flags ? " nr" : "");
	case PTPKT_TMA:
		return snprintf(buf, len, "%s ctc %#" PRIx64 " fc %#" PRIx64,
				name, pkt->payload, pkt->payload2);
	case PTPKT_PTW:
		return snprintf(buf, len, "%s %u: %#" PRIx64 "%s", name,
				pkt->count, pkt->payload,
				pkt->flags ? " ip" : "");
	case PTPKT_CBR:
	case PTPKT_CYC:
		return snprintf(buf, len, "%s %" PRIu64, name, pkt->payload);
	}
	return snprintf(buf, len, "%s %#" PRIx64, name, pkt->payload);
}

int ptpkt_text(char *buf, size_t len, const struct ptpkt *pkt)
{
	switch (pkt->type) {
	case PTPKT_TNT:
		return text_tnt(buf, len, pkt);
	case PTPKT_TIP:
	case PTPKT_TIP_PGE:
	case PTPKT_TIP_PGD:
	case PTPKT_FUP:
		return text_ip(buf, len, pkt);
	case PTPKT_MODE_EXEC:
	case PTPKT_MODE_TSX:
		return text_mode(buf, len, pkt);
	case PTPKT_PIP:
	case PTPKT_TMA:
	case PTPKT_PTW:
	case PTPKT_CBR:
	case PTPKT_CYC:
	case PTPKT_TSC:
	case PTPKT_MTC:
	case PTPKT_VMCS:
	case PTPKT_MNT:
		return text_value(buf, len, pkt);
	}
	return text_event(buf, len, pkt);
}
