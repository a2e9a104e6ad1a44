/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: capture */
/*
 * etm_encode: every packet it writes, read back by OpenCSD's packet processor. The meaning
 * of whole packet sequences is tested in test_soft_etm.
 */
#include <stdlib.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "capture/soft/etm_encode.h"
#include "tests/unit/encoded.h"
#include "tests/unit/tap.h"
#include "tests/unit/xorshift.h"

#define IP UINT64_C(0xffff9d4710c0)

static size_t n_stopped;	/* of the pieces */
static uint8_t buf[4 * ETM_GROUP_MAX];
static ocsd_etmv4_i_pkt pk[300000];
static size_t n_pk;
static uint64_t rng = 88172645463325252;

static int take(void *ctx, const uint8_t *bytes, size_t n, bool stopped)
{
	(void)ctx;
	n_stopped += stopped;
	return keep_encoded(bytes, n);
}

static struct etm_encode_config conf;

static void start(struct etm_encoder *e)
{
	n_out = n_sunk = n_stopped = 0;
	etm_encode_init(e, &conf, buf, sizeof(buf), take, NULL);
	e->tsc = e->cc_tsc = 1000;
}

static ocsd_datapath_resp_t take_packet(const void *ctx,
					const ocsd_datapath_op_t op,
					const ocsd_trc_index_t index,
					const void *packet)
{
	(void)ctx;
	(void)index;
	if (op == OCSD_OP_DATA && n_pk < sizeof(pk) / sizeof(*pk))
		pk[n_pk++] = *(const ocsd_etmv4_i_pkt *)packet;
	return OCSD_RESP_CONT;
}

/* All packets of out; false when a byte is wrong. */
static bool read_back(void)
{
	const struct etm_regs r = etm_encode_regs(&conf);
	/* packets of ETE go through ETMv4.6, which has the same */
	const ocsd_etmv4_cfg c = {
		.reg_idr0 = r.idr0, .reg_idr2 = r.idr2,
		.reg_idr1 = conf.ete ? 0x4100f464 : r.idr1,
		.reg_configr = r.configr, .arch_ver = ARCH_V8,
		.core_prof = profile_CortexA,
	};
	dcd_tree_handle_t t = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	unsigned char id;
	uint32_t done = 0;
	size_t i;

	n_pk = 0;
	if (ocsd_dt_create_decoder(t, OCSD_BUILTIN_DCD_ETMV4I,
				   OCSD_CREATE_FLG_PACKET_PROC, &c, &id) ||
	    ocsd_dt_attach_packet_callback(t, id, OCSD_C_API_CB_PKT_SINK,
					   (void *)take_packet, NULL))
		return false;
	ocsd_dt_process_data(t, OCSD_OP_DATA, 0, (uint32_t)n_out, out, &done);
	ocsd_dt_process_data(t, OCSD_OP_EOT, 0, 0, NULL, NULL);
	ocsd_destroy_dcd_tree(t);
	for (i = 0; i < n_pk; i++)
		if ((pk[i].type & 0xfff) >= ETM4_PKT_I_NOTSYNC &&
		    pk[i].type < 0x400)
			return false;
	return done == n_out && n_pk;
}

static bool is_type(size_t i, ocsd_etmv4_i_pkt_type type)
{
	return i < n_pk && pk[i].type == type;
}

static size_t count(ocsd_etmv4_i_pkt_type type)
{
	size_t i, n = 0;

	for (i = 0; i < n_pk; i++)
		n += pk[i].type == type;
	return n;
}

static bool is_atom(ocsd_etmv4_i_pkt_type t)
{
	return t == ETM4_PKT_I_ATOM_F1 || t == ETM4_PKT_I_ATOM_F2 ||
	       t == ETM4_PKT_I_ATOM_F3 || t == ETM4_PKT_I_ATOM_F4 ||
	       t == ETM4_PKT_I_ATOM_F5 || t == ETM4_PKT_I_ATOM_F6;
}

/* ---- atoms ---- */

/* The atoms of out are the n bits of v, the oldest first. */
static bool same_atoms(uint64_t v, uint32_t n)
{
	uint32_t at = 0;
	size_t i;

	for (i = 0; i < n_pk; i++) {
		if (!is_atom(pk[i].type))
			continue;
		if (at + pk[i].atom.num > n ||
		    ((v >> at ^ pk[i].atom.En_bits) &
		     ((UINT64_C(1) << pk[i].atom.num) - 1)))
			return false;
		at += pk[i].atom.num;
	}
	return at == n;
}

static bool send_atoms(uint64_t v, uint32_t n)
{
	struct etm_encoder e;
	uint32_t i;

	start(&e);
	etm_encode_enable(&e, IP, 1);
	for (i = 0; i < n; i++)
		etm_encode_atom(&e, v >> i & 1);
	etm_encode_disable(&e, ETM_EXC_IRQ, IP, false);
	return !etm_encode_flush(&e) && read_back() && same_atoms(v, n);
}

static void test_atoms(void)
{
	uint64_t v, seen[6] = { 0 };
	uint32_t i, n, good = 0, want = 0;

	conf = (struct etm_encode_config){ .sync_period = 12 };
	for (n = 1; n <= 9; n++)
		for (v = 0; v >> n == 0; v++, want++)
			good += send_atoms(v, n);
	is_u64(good, want, "every pattern of 1 to 9 atoms");
	good = want = 0;
	for (i = 0; i < 2000; i++, want++) {
		n = 1 + (uint32_t)(next_random(&rng) % 60);
		/* long runs, or not */
		v = next_random(&rng) | (i & 1 ? next_random(&rng) | next_random(&rng) : 0) |
		    (i & 2 ? UINT64_C(0xffffffff) << i % 32 : 0);
		v &= UINT64_MAX >> (64 - n);
		good += send_atoms(v, n);
		seen[0] += count(ETM4_PKT_I_ATOM_F1);
		seen[1] += count(ETM4_PKT_I_ATOM_F2);
		seen[2] += count(ETM4_PKT_I_ATOM_F3);
		seen[3] += count(ETM4_PKT_I_ATOM_F4);
		seen[4] += count(ETM4_PKT_I_ATOM_F5);
		seen[5] += count(ETM4_PKT_I_ATOM_F6);
	}
	is_u64(good, want, "long patterns");
	ok(seen[0] && seen[1] && seen[2] && seen[3] && seen[4] && seen[5],
	   "all six formats");
	ok(send_atoms((UINT64_C(1) << 48) - 1, 48) &&
	   count(ETM4_PKT_I_ATOM_F6) == 2, "48 E are two packets");
}

/* ---- addresses ---- */

static uint64_t next_ip(uint64_t ip)
{
	static const uint8_t bits[] = { 9, 17, 32, 48, 64 };
	unsigned n = bits[next_random(&rng) % 5];

	return ip ^ (next_random(&rng) >> (64 - n) & ~UINT64_C(3));
}

static void test_addresses(void)
{
	static uint64_t ips[5000];
	struct etm_encoder e;
	size_t i, at = 0, n = sizeof(ips) / sizeof(*ips);
	bool same = true;

	conf = (struct etm_encode_config){ .sync_period = 20 };
	start(&e);
	etm_encode_enable(&e, ips[0] = IP, 1);
	for (i = 1; i < n; i++) {
		ips[i] = i > 4 && next_random(&rng) % 3 == 0 ? ips[i - 1 - next_random(&rng) % 4] :
						     next_ip(ips[i - 1]);
		etm_encode_address(&e, ips[i]);
		if (e.pos >= e.limit)
			e.config.pieces = true, etm_encode_flush(&e);
	}
	etm_encode_disable(&e, ETM_EXC_IRQ, IP, false);
	etm_encode_flush(&e);
	ok(read_back(), "addresses");
	for (i = 0; i < n_pk && at < n; i++)
		if (pk[i].type >= ETM4_PKT_I_ADDR_MATCH &&
		    pk[i].type <= ETM4_PKT_I_ADDR_L_64IS1)
			same &= pk[i].v_addr.val == ips[at++];
	ok(same && at == n, "each is the one that was sent");
	ok(count(ETM4_PKT_I_ADDR_MATCH) > n / 8 &&
	   count(ETM4_PKT_I_ADDR_S_IS0) > n / 8 &&
	   count(ETM4_PKT_I_ADDR_L_32IS0) && count(ETM4_PKT_I_ADDR_L_64IS0),
	   "exact match, short, 32 and 64 bits");
}

static void test_return_stack(void)
{
	struct etm_encoder e;
	unsigned i, good = 0;

	start(&e);
	for (i = 0; i < 20; i++)
		etm_encode_call(&e, 0x1000 + i * 4);
	ok(!etm_encode_ret_pop(&e, 0x1000), "a return that does not match");
	for (i = 20; i-- > 0;)
		good += etm_encode_ret_pop(&e, 0x1000 + i * 4);
	is_u64(good, ETM_RET_DEPTH, "as many as the stack is deep");
}

/* ---- a run, as real trace units send it ---- */

static void test_run(void)
{
	struct etm_encoder e;

	conf = (struct etm_encode_config){ .sync_period = 12, .timestamp = 1,
					   .contextid = 1 };
	start(&e);
	e.tsc = UINT64_C(0x51e6fc714a80);
	etm_encode_enable(&e, IP, 0x16dfeb);
	etm_encode_atom(&e, true);
	etm_encode_event(&e);
	etm_encode_disable(&e, ETM_EXC_CALL, IP + 0x40, false);
	etm_encode_flush(&e);
	ok(read_back() && n_stopped == 1 && n_pk == 10 &&
	   is_type(0, ETM4_PKT_I_ASYNC) && is_type(1, ETM4_PKT_I_TRACE_INFO) &&
	   is_type(2, ETM4_PKT_I_TRACE_ON) && is_type(3, ETM4_PKT_I_CTXT) &&
	   is_type(4, ETM4_PKT_I_ADDR_L_64IS0) &&
	   is_type(5, ETM4_PKT_I_ATOM_F1) &&
	   is_type(6, ETM4_PKT_I_TIMESTAMP) && is_type(7, ETM4_PKT_I_EXCEPT) &&
	   is_type(9, ETM4_PKT_I_CTXT),
	   "the packets and their order are those of a Cortex-A");
	ok(pk[3].context.EL == 0 && pk[3].context.SF && pk[3].context.NS &&
	   pk[3].context.ctxtID == 0x16dfeb && pk[9].context.EL == 1,
	   "contexts");
	ok(pk[7].exception_info.exceptionType == 2 &&
	   pk[7].exception_info.addr_interp == 1 &&
	   pk[8].v_addr.val == IP + 0x40, "exception and return address");
	is_u64(pk[6].ts.timestamp, UINT64_C(0x51e6fc714a80), "timestamp");
	start(&e);
	etm_encode_enable(&e, IP, 1);
	etm_encode_disable(&e, ETM_EXC_CALL, IP + 8, false);
	etm_encode_flush(&e);
	ok(read_back() && n_pk == 9 && is_type(5, ETM4_PKT_I_EXCEPT) &&
	   is_type(8, ETM4_PKT_I_TIMESTAMP),
	   "without an atom, the timestamp follows the exception");

	conf.ete = conf.vmid = 1;
	start(&e);
	etm_encode_enable(&e, IP, 77);
	etm_encode_atom(&e, true);
	etm_encode_event(&e);
	etm_encode_disable(&e, ETM_EXC_DATA_FAULT, IP, true);
	etm_encode_flush(&e);
	ok(read_back() && is_type(3, ETM4_PKT_I_ADDR_CTXT_L_64IS0) &&
	   pk[3].context.VMID == 77 && pk[3].context.ctxtID == 77 &&
	   is_type(5, ETE_PKT_I_TS_MARKER) && is_type(6, ETM4_PKT_I_TIMESTAMP),
	   "ETE: address and context in one, marker and timestamp");
	ok(is_type(7, ETM4_PKT_I_EXCEPT) &&
	   pk[7].exception_info.addr_interp == 2 &&
	   is_type(8, ETM4_PKT_I_ADDR_MATCH) && pk[9].context.EL == 2,
	   "a fault at a branch's target; the kernel is at EL2");
}

static void test_timestamps(void)
{
	static const uint64_t ts[] = { 0x7f, 0x80, 0x3fff, 0x4000,
				       0xffffffff, UINT64_C(1) << 55,
				       UINT64_C(1) << 56, UINT64_C(1) << 63,
				       UINT64_MAX - 3, UINT64_MAX - 2 };
	struct etm_encoder e;
	unsigned i, at = 0, good = 0;

	conf = (struct etm_encode_config){ .sync_period = 20, .timestamp = 1 };
	start(&e);
	etm_encode_enable(&e, IP, 0);
	for (i = 0; i < sizeof(ts) / sizeof(*ts); i++) {
		etm_encode_atom(&e, true);
		e.tsc = ts[i];
		e.next_ts = 0;
		etm_encode_event(&e);
	}
	e.config.pieces = true;
	etm_encode_flush(&e);
	read_back();
	for (i = 0; i < n_pk; i++)
		if (pk[i].type == ETM4_PKT_I_TIMESTAMP)
			good += pk[i].ts.timestamp == ts[at++];
	is_u64(good, sizeof(ts) / sizeof(*ts), "timestamps of all lengths");
}

static void test_cycles(void)
{
	static const uint32_t over[] = { 0, 0, 3, 4, 15, 16, 127, 128, 0xfffff,
					 0x100000, 5 };
	struct etm_encoder e;
	size_t i, at = 0, good = 0, n = sizeof(over) / sizeof(*over);

	conf = (struct etm_encode_config){ .sync_period = 20, .cycacc = 1,
					   .timestamp = 1,
					   .cc_threshold = 300 };
	start(&e);
	etm_encode_enable(&e, IP, 0);
	for (i = 0; i < n; i++) {
		etm_encode_atom(&e, true);
		e.tsc += 300 + over[i];
		etm_encode_event(&e);
	}
	e.tsc += 77;
	e.next_ts = 0;
	etm_encode_event(&e);
	e.config.pieces = true;
	etm_encode_flush(&e);
	ok(read_back() && pk[1].trace_info.bits.cc_enabled &&
	   pk[1].cc_threshold == 300, "Trace Info says what is counted");
	for (i = 0; i < n_pk; i++)
		if (pk[i].type == ETM4_PKT_I_CCNT_F1 ||
		    pk[i].type == ETM4_PKT_I_CCNT_F2 ||
		    pk[i].type == ETM4_PKT_I_CCNT_F3) {
			/* the first, and what has no room, are unknown */
			bool none = !at || over[at] > 0xfffff;

			good += pk[i].cycle_count ==
				(none ? 0 : 300 + over[at]);
			at++;
		}
	ok(good == n && at == n, "%zu of %zu cycle counts", good, n);
	ok(count(ETM4_PKT_I_CCNT_F1) > 3 && count(ETM4_PKT_I_CCNT_F2) == 3 &&
	   count(ETM4_PKT_I_CCNT_F3) == 2, "all formats");
	ok(pk[n_pk - 1].type == ETM4_PKT_I_TIMESTAMP &&
	   pk[n_pk - 1].cycle_count == 77, "a timestamp has the rest");
}

/* A-sync where it is due, an interrupt where the buffer is full. */
static void test_limits(void)
{
	struct etm_encoder e;
	unsigned i;

	conf = (struct etm_encode_config){ .sync_period = 8 };
	start(&e);
	etm_encode_enable(&e, IP, 0);
	for (i = 0; i < 10000; i++) {
		etm_encode_atom(&e, true);
		etm_encode_address(&e, next_ip(IP));
		if (e.pos >= e.limit)
			etm_encode_checkpoint(&e, IP);
	}
	ok(!etm_encode_flush(&e) && e.on && n_stopped == n_sunk,
	   "only what has stopped is handed out");
	etm_encode_disable(&e, ETM_EXC_IRQ, IP, false);
	etm_encode_flush(&e);
	ok(read_back() && n_sunk > 10, "%zu bytes in %zu runs",
	   n_out, n_sunk);
	ok(count(ETM4_PKT_I_ASYNC) >= n_out / 300 &&
	   count(ETM4_PKT_I_ASYNC) == count(ETM4_PKT_I_TRACE_INFO) &&
	   count(ETM4_PKT_I_TRACE_ON) == n_sunk &&
	   count(ETM4_PKT_I_EXCEPT) == n_sunk, "%zu syncs, an exception each",
	   count(ETM4_PKT_I_ASYNC));
	start(&e);
	etm_encode_enable(&e, IP, 0);
	etm_encode_overflow(&e, IP, true);
	etm_encode_overflow(&e, IP, false);
	etm_encode_flush(&e);
	ok(read_back() && count(ETM4_PKT_I_OVERFLOW) == 2 &&
	   count(ETM4_PKT_I_ASYNC) == 2 && !e.on, "Overflow");
}

int main(void)
{
	test_atoms();
	test_addresses();
	test_return_stack();
	test_run();
	test_timestamps();
	test_cycles();
	test_limits();
	return plan_done();
}
