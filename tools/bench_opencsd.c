/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_opencsd: how fast a bare OpenCSD loop decodes a recording.
 *
 * The yardstick for auxdecode: every AUX stream of a CoreSight perf.data as it
 * lies in the file, through the library's own deformatter, the executable mappings
 * as buffers, and nothing else: no side-band, no time, no output. Right only for
 * recordings of one process whose mappings do not change; says how many
 * instructions it saw, so that a figure from a trace that does not decode is not
 * mistaken for speed.
 *
 *	bench_opencsd FILE [SYMFS]
 */
#include <opencsd/c_api/opencsd_c_api.h>

#include "decode/lib/trace/trace.h"
#include "tools/bench.h"

#define MAX_MAPPINGS 256
#define BLOCK (1u << 20)

struct mapping {
	uint64_t start, len;
	uint8_t *bytes;
};

struct bench {
	struct streams streams;
	struct mapping mappings[MAX_MAPPINGS];
	uint32_t n_mappings;
	struct csmeta meta;
	const char *symfs;
	uint64_t n_insns, n_errors;
};

static void add_mapping(struct bench *b, const struct aux_event *ev)
{
	struct mapping *m = &b->mappings[b->n_mappings];
	char path[4096];
	FILE *f;

	if (b->n_mappings == MAX_MAPPINGS || !mapped_file(path, b->symfs, ev))
		return;
	f = fopen(path, "rb");
	m->bytes = f ? malloc(ev->mmap.len) : NULL;
	if (m->bytes && !fseek(f, (long)ev->mmap.pgoff, SEEK_SET)) {
		m->start = ev->mmap.addr;
		m->len = fread(m->bytes, 1, ev->mmap.len, f);
		b->n_mappings++;
	}
	if (f)
		fclose(f);
}

static int take_record(void *priv, const struct aux_event *ev,
		       struct aux_diag *diag)
{
	struct bench *b = priv;

	if (ev->type == AUX_RECORD_AUXTRACE_INFO)
		return csmeta_read(&b->meta, ev->auxtrace_info.priv,
				   ev->auxtrace_info.n_priv, diag);
	if (ev->type == PERF_RECORD_AUX_OUTPUT_HW_ID)
		return csmeta_add_id(&b->meta, ev->aux_output_hw_id.hw_id,
				     ev->id.cpu, diag);
	add_mapping(b, ev);
	return 0;
}

static ocsd_datapath_resp_t count(const void *priv, ocsd_trc_index_t index,
				  uint8_t id, const ocsd_generic_trace_elem *e)
{
	struct bench *b = (struct bench *)(uintptr_t)priv;

	(void)index;
	(void)id;
	if (e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE)
		b->n_insns += e->num_instr_range;
	else if (e->elem_type == OCSD_GEN_TRC_ELEM_ADDR_NACC)
		b->n_errors++;
	return OCSD_RESP_CONT;
}

static ocsd_err_t add_decoder(dcd_tree_handle_t tree,
			      const struct aux_etm_config *e, uint32_t id)
{
	unsigned char csid;

	if (e->arch == AUX_ETM_ETE) {
		ocsd_ete_cfg c = { e->trcidr0, e->trcidr1, e->trcidr2,
				   e->trcidr8, e->trcdevarch, e->trcconfigr,
				   id, ARCH_AA64, profile_CortexA };

		return ocsd_dt_create_decoder(tree, OCSD_BUILTIN_DCD_ETE,
					      OCSD_CREATE_FLG_FULL_DECODER, &c,
					      &csid);
	} else if (e->arch == AUX_ETM_V4) {
		ocsd_etmv4_cfg c = { .reg_idr0 = e->trcidr0,
				     .reg_idr1 = e->trcidr1,
				     .reg_idr2 = e->trcidr2,
				     .reg_idr8 = e->trcidr8,
				     .reg_configr = e->trcconfigr,
				     .reg_traceidr = id,
				     .arch_ver = ARCH_AA64,
				     .core_prof = profile_CortexA };

		return ocsd_dt_create_decoder(tree, OCSD_BUILTIN_DCD_ETMV4I,
					      OCSD_CREATE_FLG_FULL_DECODER, &c,
					      &csid);
	} else {
		ocsd_etmv3_cfg c = { e->etmidr, e->etmcr, e->etmccer, id,
				     ARCH_V7, profile_CortexA };

		return ocsd_dt_create_decoder(tree, OCSD_BUILTIN_DCD_ETMV3,
					      OCSD_CREATE_FLG_FULL_DECODER, &c,
					      &csid);
	}
}

/* All sources are taken as alike, where records say which ids there are. */
static void add_decoders(dcd_tree_handle_t tree, struct bench *b)
{
	const struct csmeta *m = &b->meta;

	for (size_t i = 0; m->n_sources && i < m->n_ids; i++)
		add_decoder(tree, &m->sources[0].etm, m->ids[i].id);
	for (size_t i = 0; !m->n_ids && i < m->n_sources; i++)
		add_decoder(tree, &m->sources[i].etm, m->sources[i].etm.trace_id);
}

static void add_memory(dcd_tree_handle_t tree, const struct bench *b)
{
	for (uint32_t i = 0; i < b->n_mappings; i++)
		ocsd_dt_add_buffer_mem_acc(tree, b->mappings[i].start,
					   OCSD_MEM_SPACE_ANY,
					   b->mappings[i].bytes,
					   (uint32_t)b->mappings[i].len);
}

static void run(struct bench *b, const struct stream *s)
{
	dcd_tree_handle_t tree = ocsd_create_dcd_tree(
		OCSD_TRC_SRC_FRAME_FORMATTED,
		OCSD_DFRMTR_FRAME_MEM_ALIGN | OCSD_DFRMTR_RESET_ON_4X_FSYNC);
	ocsd_datapath_resp_t resp = OCSD_RESP_CONT;
	uint32_t used = 0;

	if (!tree)
		return;
	add_decoders(tree, b);
	ocsd_dt_set_gen_elem_outfn(tree, count, b);
	add_memory(tree, b);
	for (uint64_t pos = 0; pos < s->len && !OCSD_DATA_RESP_IS_FATAL(resp);
	     pos += used) {
		uint64_t n = s->len - pos < BLOCK ? s->len - pos : BLOCK;

		resp = ocsd_dt_process_data(tree, OCSD_OP_DATA,
					    (ocsd_trc_index_t)pos, (uint32_t)n,
					    s->data + pos, &used);
	}
	b->n_errors += OCSD_DATA_RESP_IS_FATAL(resp);
	ocsd_dt_process_data(tree, OCSD_OP_EOT, 0, 0, NULL, &used);
	ocsd_destroy_dcd_tree(tree);
}

int main(int argc, char **argv)
{
	static struct bench b;
	double start;

	if (argc < 2) {
		fputs("usage: bench_opencsd FILE [SYMFS]\n", stderr);
		return 2;
	}
	b.symfs = argc > 2 ? argv[2] : "";
	if (load(&b.streams, "bench_opencsd", argv[1], take_record, &b) < 0)
		return 1;
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	start = seconds();
	for (uint32_t i = 0; i < b.streams.n; i++)
		if (b.streams.s[i].len)
			run(&b, &b.streams.s[i]);
	start = seconds() - start;
	print_speed("opencsd", b.n_insns, start, &b.streams, b.n_errors);
	return 0;
}
