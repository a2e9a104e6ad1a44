/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: capture */
/*
 * etm_encode against a Cortex-A: what a program ran, as OpenCSD decodes it from a
 * recording of real hardware, is encoded again. The elements must be those of
 * the hardware, in its order, from the first to the last: only how they are
 * packed may differ.
 */
#include <stdlib.h>
#include <unistd.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "capture/soft/etm_encode.h"
#include "tests/unit/tap.h"

#define MAX 100000
#define DIR_OF "coresight-decoder/tests/fib/"

/* What packets say, one by one. */
struct element {
	ocsd_etmv4_i_pkt_type type;	/* atoms: ETM4_PKT_I_ATOM_F1 */
	uint64_t v;
};

struct list {
	struct element e[MAX];
	size_t n;
};

static struct list real, ours;
static ocsd_generic_trace_elem flow[MAX];
static size_t n_flow;

static void add(struct list *l, ocsd_etmv4_i_pkt_type type, uint64_t v)
{
	if (l->n < MAX)
		l->e[l->n++] = (struct element){ type, v };
}

/* Synchronization comes when each trace unit thinks it is due. */
static void take_packet(const void *ctx, const ocsd_datapath_op_t op,
			const ocsd_trc_index_t index, const void *packet,
			const uint32_t size, const uint8_t *data)
{
	struct list *l = (void *)(uintptr_t)ctx;
	const ocsd_etmv4_i_pkt *p = packet;
	uint32_t i;

	(void)index;
	(void)size;
	(void)data;
	if (op != OCSD_OP_DATA)
		return;
	switch ((int)p->type) {
	case ETM4_PKT_I_NOTSYNC:
	case ETM4_PKT_I_ASYNC:
	case ETM4_PKT_I_TRACE_INFO:
		break;
	case ETM4_PKT_I_CTXT:
		add(l, p->type, (uint64_t)p->context.ctxtID << 1 |
				(p->context.EL != 0));
		break;
	case ETM4_PKT_I_TIMESTAMP:
		add(l, p->type, p->ts.timestamp);
		break;
	case ETM4_PKT_I_EXCEPT:
		add(l, p->type, p->exception_info.exceptionType << 2 |
				p->exception_info.addr_interp);
		break;
	case ETM4_PKT_I_ADDR_MATCH:
	case ETM4_PKT_I_ADDR_S_IS0:
	case ETM4_PKT_I_ADDR_L_32IS0:
	case ETM4_PKT_I_ADDR_L_64IS0:
		add(l, ETM4_PKT_I_ADDR_L_64IS0, p->v_addr.val);
		break;
	case ETM4_PKT_I_TRACE_ON:
		add(l, p->type, 0);
		break;
	default:
		for (i = 0; i < p->atom.num; i++)
			add(l, ETM4_PKT_I_ATOM_F1, p->atom.En_bits >> i & 1);
		if (!p->atom.num)
			add(l, p->type, 0);
	}
}

static ocsd_datapath_resp_t take_element(const void *ctx,
					 const ocsd_trc_index_t index,
					 const uint8_t id,
					 const ocsd_generic_trace_elem *e)
{
	(void)ctx;
	(void)index;
	(void)id;
	if (n_flow < MAX)
		flow[n_flow++] = *e;
	return OCSD_RESP_CONT;
}

static dcd_tree_handle_t make_tree(bool framed, int create, struct list *l)
{
	const ocsd_etmv4_cfg c = {
		.reg_idr0 = 0x28000ea1, .reg_idr1 = 0x4100f403,
		.reg_idr2 = 0x488, .reg_configr = 0x841,
		.reg_traceidr = 0x10, .arch_ver = ARCH_V8,
		.core_prof = profile_CortexA,
	};
	dcd_tree_handle_t t = ocsd_create_dcd_tree(framed ?
				OCSD_TRC_SRC_FRAME_FORMATTED :
				OCSD_TRC_SRC_SINGLE,
				OCSD_DFRMTR_FRAME_MEM_ALIGN);
	unsigned char id;

	if (ocsd_dt_create_decoder(t, OCSD_BUILTIN_DCD_ETMV4I, create, &c,
				   &id) ||
	    ocsd_dt_attach_packet_callback(t, id, OCSD_C_API_CB_PKT_MON,
					   (void *)take_packet, l))
		exit(1);
	return t;
}

static void feed(dcd_tree_handle_t t, const uint8_t *p, size_t n)
{
	uint32_t done = 0;

	ocsd_dt_process_data(t, OCSD_OP_DATA, 0, (uint32_t)n, p, &done);
	ocsd_dt_process_data(t, OCSD_OP_EOT, 0, 0, NULL, NULL);
	ocsd_destroy_dcd_tree(t);
}

/* "cstrace.bin ID COUNT" and then "FILE START END" for each file mapped. */
static bool map_files(dcd_tree_handle_t t, const char *dir, const char *args)
{
	unsigned long long start, end;
	char file[64], path[600];
	int n = 0;

	if (sscanf(args, " %*s %*s %*s%n", &n) || !n)
		return false;
	for (args += n; sscanf(args, "%63s %llx %llx%n", file, &start, &end,
			       &n) == 3; args += n) {
		snprintf(path, sizeof(path), "%s/../%s", dir, file);
		if (ocsd_dt_add_binfile_mem_acc(t, start, OCSD_MEM_SPACE_ANY,
						path))
			return false;
	}
	return true;
}

static size_t load(const char *dir, const char *file, uint8_t *p, size_t max)
{
	char path[600];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "rb");
	if (f) {
		n = fread(p, 1, max - 1, f);
		fclose(f);
	}
	p[n] = 0;
	return n;
}

/* ---- again ---- */

static uint8_t out[1 << 20];
static size_t n_out;

static int take(void *ctx, const uint8_t *bytes, size_t n, bool stopped)
{
	(void)ctx;
	(void)stopped;
	memcpy(out + n_out, bytes, n);
	n_out += n;
	return 0;
}

/* The next element of one of two types, from i on. */
static const ocsd_generic_trace_elem *seek(size_t i, ocsd_gen_trc_elem_t a,
					   ocsd_gen_trc_elem_t b)
{
	for (; i < n_flow; i++)
		if (flow[i].elem_type == a || flow[i].elem_type == b)
			return &flow[i];
	return NULL;
}

/* Where it goes on behind flow[i]. */
static uint64_t next_ip(size_t i)
{
	const ocsd_generic_trace_elem *e =
		seek(i + 1, OCSD_GEN_TRC_ELEM_INSTR_RANGE,
		     OCSD_GEN_TRC_ELEM_EXCEPTION);

	if (!e)
		return 0;
	return e->elem_type == OCSD_GEN_TRC_ELEM_EXCEPTION ? e->en_addr :
							     e->st_addr;
}

static void encode_range(struct etm_encoder *e, size_t i)
{
	const ocsd_generic_trace_elem *f = &flow[i];

	if (f->last_i_type == OCSD_INSTR_OTHER)
		return;
	etm_encode_atom(e, f->last_instr_exec);
	if (f->last_i_type == OCSD_INSTR_BR_INDIRECT && f->last_instr_exec) {
		etm_encode_stamp(e);
		etm_encode_address(e, next_ip(i));
	}
	if (e->tsc >= e->event_tsc)
		etm_encode_event(e);
}

static void encode(uint32_t tid)
{
	const struct etm_encode_config c = { .timestamp = true,
					     .contextid = true,
					     .sync_period = 12 };
	static uint8_t buf[1 << 18];
	const ocsd_generic_trace_elem *ts;
	struct etm_encoder e;
	size_t i;

	n_out = 0;
	etm_encode_init(&e, &c, buf, sizeof(buf), take, NULL);
	for (i = 0; i < n_flow; i++) {
		switch ((int)flow[i].elem_type) {
		case OCSD_GEN_TRC_ELEM_TRACE_ON:
			/* no other timestamps than one a run */
			ts = seek(i, OCSD_GEN_TRC_ELEM_TIMESTAMP,
				  OCSD_GEN_TRC_ELEM_TIMESTAMP);
			e.tsc = ts ? ts->timestamp : 1;
			if (flow[i].trace_on_reason == TRACE_ON_OVERFLOW) {
				etm_encode_overflow(&e, next_ip(i), true);
				break;
			}
			/* the unit may have been stopped, with no exception */
			etm_encode_flush_atoms(&e);
			etm_encode_enable(&e, next_ip(i), tid);
			break;
		case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
			encode_range(&e, i);
			break;
		case OCSD_GEN_TRC_ELEM_EXCEPTION:
			etm_encode_disable(&e, (enum etm_exception)
					   flow[i].exception_number,
					   flow[i].en_addr, false);
			break;
		}
	}
	etm_encode_flush(&e);
}

static void check(const char *corpus, unsigned number)
{
	static uint8_t trace[1 << 16], args[4096];
	char dir[500];
	dcd_tree_handle_t t;
	uint32_t tid = 0;
	size_t i, n;

	real.n = ours.n = n_flow = 0;
	snprintf(dir, sizeof(dir), "%s/" DIR_OF "trace%u", corpus, number);
	n = load(dir, "cstrace.bin", trace, sizeof(trace));
	load(dir, "decoderargs.txt", args, sizeof(args));
	t = make_tree(true, OCSD_CREATE_FLG_FULL_DECODER, &real);
	ocsd_dt_set_gen_elem_outfn(t, take_element, NULL);
	ok(n && map_files(t, dir, (const char *)args), "trace%u is there",
	   number);
	feed(t, trace, n);
	for (i = 0; i < n_flow && !tid; i++)
		if (flow[i].elem_type == OCSD_GEN_TRC_ELEM_PE_CONTEXT)
			tid = flow[i].context.context_id;
	encode(tid);
	feed(make_tree(false, OCSD_CREATE_FLG_PACKET_PROC, &ours), out, n_out);
	for (i = 0; i < real.n && i < ours.n; i++)
		if (real.e[i].type != ours.e[i].type ||
		    real.e[i].v != ours.e[i].v)
			break;
	if (!ok(i == real.n && i == ours.n && i > 10000,
		"trace%u: all %zu elements, %zu bytes for %zu", number, real.n,
		n_out, n))
		printf("# element %zu of %zu: %x %jx, not %x %jx\n", i, ours.n,
		       ours.e[i].type, (uintmax_t)ours.e[i].v, real.e[i].type,
		       (uintmax_t)real.e[i].v);
}

int main(void)
{
	const char *corpus = getenv("AUXKIT_CORPUS");
	unsigned i;

	if (!corpus)
		corpus = "../shared/corpus";
	if (access(corpus, F_OK)) {
		skip("corpus: no recorded traces here");
		return plan_done();
	}
	for (i = 1; i <= 4; i++)
		check(corpus, i);
	return plan_done();
}
