/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/*
 * ptpkt against listings that libipt's ptdump made of a recorded trace, packet by
 * packet.
 */
#include <stdlib.h>

#include <aux/reader.h>

#include "decode/lib/packet/packet.h"
#include "tests/unit/tap.h"

/* The packet as ptdump shows it, with the expanded ip in place of its bytes. */
static void ptdump_text(const struct ptpkt *pkt, uint64_t ip, char *buf,
			size_t len)
{
	char *p = buf;

	ptpkt_text(buf, len, pkt);
	switch (pkt->type) {
	case PTPKT_TNT:
		p = strchr(buf, ':') + 2;
		memmove(buf + 6, p, strlen(p) + 1);
		memcpy(buf, "tnt.8 ", 6);
		break;
	case PTPKT_TIP:
	case PTPKT_TIP_PGE:
	case PTPKT_TIP_PGD:
	case PTPKT_FUP:
		snprintf(buf, len, "%s %016" PRIx64, ptpkt_name(pkt->type), ip);
		if (!pkt->count)
			snprintf(buf, len, "%s <suppressed>",
				 ptpkt_name(pkt->type));
		break;
	case PTPKT_PIP:
		snprintf(buf, len, "pip %016" PRIx64, pkt->payload);
		break;
	case PTPKT_TMA:
		snprintf(buf, len, "tma %" PRIx64 ", %" PRIx64, pkt->payload,
			 pkt->payload2);
		break;
	case PTPKT_TSC:
	case PTPKT_MTC:
	case PTPKT_CBR:
		snprintf(buf, len, "%s %" PRIx64, ptpkt_name(pkt->type),
			 pkt->payload);
		break;
	default:
		break;
	}
}

/* "OFFSET  name  payload" with "ip X" or "cr3 X" behind: name and X. */
static uint64_t ptdump_line(char *line, char *buf, size_t len)
{
	char name[32] = "", a[80] = "", b[80] = "", c[80] = "", d[80] = "";
	uint64_t offset = strtoull(line, NULL, 16);
	int n = sscanf(line, "%*s %31s %79s %79s %79s %79s", name, a, b, c, d);

	if (!strcmp(c, "ip"))
		snprintf(buf, len, "%s %s", name, d);
	else if (!strcmp(b, "cr3"))
		snprintf(buf, len, "%s %s", name, c);
	else if (n == 3)
		snprintf(buf, len, "%s %s %s", name, a, b);
	else
		snprintf(buf, len, "%s%s%s", name, *a ? " " : "", a);
	return offset;
}

static void compare_listing(const struct aux_bytes *b, const char *path)
{
	const uint8_t *p = b->data, *end = p + b->len;
	char cmd[4200], line[256], want[200], got[200];
	unsigned n_same = 0, n_wrong = 0;
	uint64_t last = 0;
	struct ptpkt pkt;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "gzip -dc '%s'", path);
	f = popen(cmd, "r");
	while (p < end) {
		int n = ptpkt_decode(p, end, &pkt);

		if (n <= 0)
			break;
		p += n;
		if (pkt.type == PTPKT_PAD)
			continue;
		if (pkt.type == PTPKT_PSB)
			last = 0;
		if (pkt.type >= PTPKT_TIP && pkt.type <= PTPKT_FUP)
			ptpkt_ip(&pkt, &last);
		ptdump_text(&pkt, last, got, sizeof(got));
		if (!f || !fgets(line, sizeof(line), f))
			break;
		if (ptdump_line(line, want, sizeof(want)) !=
		    (uint64_t)(p - n - b->data) || strcmp(want, got)) {
			if (!n_wrong++)
				printf("# want %s, got %s\n", want, got);
		} else {
			n_same++;
		}
	}
	ok(n_same && !n_wrong && p == end && f && !fgets(line, 256, f),
	   "%s: %u packets as ptdump's", strrchr(path, '/') + 1, n_same);
	if (f)
		pclose(f);
}

static void test_ptdump(void)
{
	const char *dir = getenv("AUXKIT_CORPUS");
	char path[4096];
	struct aux_reader *r;
	struct aux_event ev;

	if (!dir)
		dir = "../shared/corpus";
	snprintf(path, sizeof(path),
		 "%s/quipper/src/quipper/testdata/perf.data.intel_pt-4.14", dir);
	if (aux_reader_open(&r, path, NULL)) {
		skip("corpus: no recorded traces: set AUXKIT_CORPUS");
		return;
	}
	while (aux_reader_next(r, &ev, NULL) == 1) {
		if (ev.type != AUX_RECORD_AUXTRACE)
			continue;
		snprintf(path, sizeof(path),
			 "%s/quipper/ref/intel_pt-4.14.cpu%u.ptdump.txt.gz", dir,
			 ev.auxtrace.h.cpu);
		compare_listing(&ev.auxtrace.payload, path);
	}
	aux_reader_close(r);
}

int main(void)
{
	test_ptdump();
	return plan_done();
}
