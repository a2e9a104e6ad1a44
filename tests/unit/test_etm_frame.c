/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: capture */
/*
 * etm_frame: frames of several sources, taken apart by OpenCSD. The trace consists of long
 * addresses, which may hold any byte, and of atoms, which are single bytes, so that the
 * source changes at every position of a frame.
 */
#include <stdlib.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "capture/soft/etm_encode.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define N_IDS 3
#define MAX (1 << 20)

static uint8_t sent[N_IDS][MAX], got[N_IDS][MAX], frames[4 * MAX];
static size_t n_sent[N_IDS], n_got[N_IDS], n_frames;
static uint64_t rng = 88172645463325252;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)((next_random(&rng) >> 20) % n);
}

static void take_packet(const void *ctx, const ocsd_datapath_op_t op,
			const ocsd_trc_index_t index, const void *packet,
			const uint32_t size, const uint8_t *data)
{
	size_t i = (size_t)(uintptr_t)ctx;

	(void)index;
	(void)packet;
	if (op != OCSD_OP_DATA || n_got[i] + size > MAX)
		return;
	memcpy(got[i] + n_got[i], data, size);
	n_got[i] += size;
}

static dcd_tree_handle_t make_tree(void)
{
	const struct etm_encode_config ec = { 0 };
	const struct etm_regs r = etm_encode_regs(&ec);
	ocsd_etmv4_cfg c = {
		.reg_idr0 = r.idr0, .reg_idr1 = r.idr1, .reg_idr2 = r.idr2,
		.reg_configr = r.configr, .arch_ver = ARCH_V8,
		.core_prof = profile_CortexA,
	};
	dcd_tree_handle_t t = ocsd_create_dcd_tree(
		OCSD_TRC_SRC_FRAME_FORMATTED, OCSD_DFRMTR_FRAME_MEM_ALIGN);
	unsigned char id;
	uintptr_t i;

	for (i = 0; i < N_IDS; i++) {
		c.reg_traceidr = (uint32_t)(0x10 + 0x2f * i);
		if (ocsd_dt_create_decoder(t, OCSD_BUILTIN_DCD_ETMV4I,
					   OCSD_CREATE_FLG_PACKET_PROC, &c,
					   &id) ||
		    ocsd_dt_attach_packet_callback(t, id,
						   OCSD_C_API_CB_PKT_MON,
						   (void *)take_packet,
						   (const void *)i))
			return C_API_INVALID_TREE_HANDLE;
	}
	return t;
}

static size_t make_bytes(uint8_t *p, uint32_t packets)
{
	uint8_t *from = p;
	uint32_t i;

	while (packets--) {
		if (rnd(3)) {
			*p++ = (uint8_t)(0xc0 | rnd(64));
			continue;
		}
		*p++ = 0x9d;
		for (i = 0; i < 8; i++)
			*p++ = rnd(4) ? (uint8_t)rnd(256) : 0;
	}
	return (size_t)(p - from);
}

static void put(struct etm_frame *f, uint32_t i, const uint8_t *p, size_t n)
{
	memcpy(sent[i] + n_sent[i], p, n);
	n_sent[i] += n;
	n_frames += etm_frame_put(f, (uint8_t)(0x10 + 0x2f * i), p, n,
				  frames + n_frames);
}

/* pieces: their number; size: how many packets one has at most. */
static void check(const char *name, uint32_t pieces, uint32_t size,
		  uint32_t end_each)
{
	static const uint8_t sync[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80,
					1, 0 };
	dcd_tree_handle_t t = make_tree();
	struct etm_frame f = { 0 };
	uint8_t bytes[4096];
	uint32_t i, done = 0;
	bool same = true;

	memset(n_sent, 0, sizeof(n_sent));
	memset(n_got, 0, sizeof(n_got));
	n_frames = 0;
	for (i = 0; i < N_IDS; i++)
		put(&f, i, sync, sizeof(sync));
	for (i = 0; i < pieces; i++) {
		put(&f, rnd(N_IDS), bytes, make_bytes(bytes, 1 + rnd(size)));
		if (!rnd(end_each)) {
			n_frames += etm_frame_end(&f, frames + n_frames);
			n_frames += etm_frame_pad(frames + n_frames,
						  16 * rnd(3));
		}
	}
	n_frames += etm_frame_end(&f, frames + n_frames);
	ok(!etm_frame_end(&f, frames + n_frames) && n_frames % 16 == 0,
	   "%s: %zu bytes, nothing waits", name, n_frames);
	ocsd_dt_process_data(t, OCSD_OP_DATA, 0, (uint32_t)n_frames, frames,
			     &done);
	ocsd_dt_process_data(t, OCSD_OP_EOT, 0, 0, NULL, NULL);
	for (i = 0; i < N_IDS; i++)
		same &= n_got[i] == n_sent[i] &&
			!memcmp(got[i], sent[i], n_sent[i]);
	ok(done == n_frames && same, "%s: %zu, %zu, %zu bytes of three sources",
	   name, n_got[0], n_got[1], n_got[2]);
	ocsd_destroy_dcd_tree(t);
}

int main(void)
{
	check("long pieces", 200, 300, 10);
	check("a packet each", 20000, 1, 1000);
	check("small pieces", 20000, 6, 20);
	check("each piece ends", 5000, 4, 1);
	return plan_done();
}
