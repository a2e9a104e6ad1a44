/* SPDX-License-Identifier: BSD-2-Clause */
/* needs: OPENCSD */
/* links: capture */
/*
 * soft_stream, as CoreSight: random A64 programs, recorded through soft and
 * decoded by OpenCSD, each AUX record by itself. The instructions of every
 * thread must come back, in order and complete; with injected overflow, in order
 * and with the holes reported.
 */
#include <unistd.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "tests/unit/auxfile.h"
#include "capture/soft/etm_encode.h"
#include "tests/unit/mka64.h"
#include "tests/unit/tap.h"

#define MAX_STREAMS 8
#define START_NS 1000000

/* ---- OpenCSD ---- */

struct decoded {
	const struct auxfile *f;
	const struct a64_program *p;
	uint32_t cpu, tid;
	size_t sw;		/* the next SWITCH record to look at */
	uint64_t time, ts, cc_time;
	struct slices s;
	unsigned n_bad, n_ovf, n_ts, n_cc, n_time_errors, n_resync;
};

static void add_ip(struct decoded *d, uint64_t ip)
{
	slices_add(&d->s, d->time, d->tid, ip);
}

/* The next SWITCH on this CPU to tid says when that was. */
static void take_context(struct decoded *d, const ocsd_pe_context *c)
{
	uint32_t tid = d->tid;
	size_t i;

	if (c->exception_level != ocsd_EL0)
		return;
	if (c->ctxt_id_valid)
		tid = c->context_id;
	if (c->vmid_valid)
		d->n_bad += c->ctxt_id_valid && c->vmid != tid;
	if (c->vmid_valid)
		tid = c->vmid;
	if (tid == d->tid && d->time)
		return;
	d->tid = tid;
	for (i = d->sw; i < d->f->n_sw; i++)
		if (d->f->sw[i].cpu == d->cpu && d->f->sw[i].tid == tid)
			break;
	if (i == d->f->n_sw)
		return;
	d->time = d->f->sw[i].time;
	d->sw = i + 1;
}

/* Each timestamp is no earlier than the last, nor than the switch. */
static void take_time(struct decoded *d, const ocsd_generic_trace_elem *e)
{
	d->n_ts++;
	d->n_time_errors += e->timestamp < d->ts || e->timestamp < d->time ||
			    e->timestamp < START_NS;
	d->ts = e->timestamp;
	if (!e->has_cc)
		return;
	d->n_time_errors += d->cc_time && d->cc_time !=
			    e->timestamp - e->cycle_count;
	d->cc_time = e->timestamp - e->cycle_count;
}

static ocsd_datapath_resp_t take_elem(const void *ctx, ocsd_trc_index_t index,
				      uint8_t id,
				      const ocsd_generic_trace_elem *e)
{
	struct decoded *d = (void *)(uintptr_t)ctx;
	uint64_t ip;

	(void)index;
	(void)id;
	switch (e->elem_type) {
	case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
		for (ip = e->st_addr; ip < e->en_addr; ip += 4)
			add_ip(d, ip);
		d->n_bad += (e->en_addr - e->st_addr) / 4 != e->num_instr_range;
		break;
	case OCSD_GEN_TRC_ELEM_TRACE_ON:
		if (e->trace_on_reason == TRACE_ON_OVERFLOW) {
			d->n_ovf++;
			add_ip(d, GAP);
		}
		break;
	case OCSD_GEN_TRC_ELEM_PE_CONTEXT:
		take_context(d, &e->context);
		break;
	case OCSD_GEN_TRC_ELEM_TIMESTAMP:
		take_time(d, e);
		break;
	case OCSD_GEN_TRC_ELEM_CYCLE_COUNT:
		d->n_cc++;
		d->cc_time = e->cycle_count && d->cc_time ?
				     d->cc_time + e->cycle_count : 0;
		break;
	case OCSD_GEN_TRC_ELEM_NO_SYNC:
		d->n_resync += e->unsync_eot_info != UNSYNC_INIT_DECODER &&
			       e->unsync_eot_info != UNSYNC_RESET_DECODER &&
			       e->unsync_eot_info != UNSYNC_OVERFLOW;
		break;
	case OCSD_GEN_TRC_ELEM_EO_TRACE:
		/* it lasted to the end of the record */
		if (e->unsync_eot_info == UNSYNC_OVERFLOW) {
			d->n_ovf++;
			add_ip(d, GAP);
		}
		break;
	case OCSD_GEN_TRC_ELEM_EXCEPTION:
	case OCSD_GEN_TRC_ELEM_SYNC_MARKER:
		break;
	default:
		d->n_bad++;
	}
	return OCSD_RESP_CONT;
}

static uint32_t read_code(const void *ctx, const ocsd_vaddr_t ip,
			  const ocsd_mem_space_acc_t space,
			  const uint32_t size, uint8_t *buf)
{
	const struct decoded *d = ctx;
	size_t off = wander_offset(ip);

	(void)space;
	if (size < 4 || off == SIZE_MAX)
		return 0;
	memcpy(buf, &d->p->image[off / 4], 4);
	return 4;
}

static dcd_tree_handle_t make_tree(const struct soft_config *c, uint32_t cpu,
				   struct decoded *d)
{
	const struct etm_encode_config ec = {
		.ete = c->etm.ete, .timestamp = c->etm.timestamp,
		.contextid = c->etm.contextid, .vmid = c->etm.vmid,
		.cycacc = c->etm.cycacc, .retstack = c->etm.retstack,
		.broadcast = c->etm.broadcast,
	};
	const struct etm_regs r = etm_encode_regs(&ec);
	const ocsd_etmv4_cfg etm = {
		.reg_idr0 = r.idr0, .reg_idr1 = r.idr1, .reg_idr2 = r.idr2,
		.reg_idr8 = r.idr8, .reg_configr = r.configr,
		.reg_traceidr = 0x10 + 2 * cpu, .arch_ver = ARCH_V8r3,
		.core_prof = profile_CortexA,
	};
	const ocsd_ete_cfg ete = {
		.reg_idr0 = r.idr0, .reg_idr1 = r.idr1, .reg_idr2 = r.idr2,
		.reg_idr8 = r.idr8, .reg_configr = r.configr,
		.reg_devarch = r.devarch, .reg_traceidr = 0x10 + 2 * cpu,
		.arch_ver = ARCH_AA64, .core_prof = profile_CortexA,
	};
	dcd_tree_handle_t t = ocsd_create_dcd_tree(c->etm.raw ?
				OCSD_TRC_SRC_SINGLE :
				OCSD_TRC_SRC_FRAME_FORMATTED,
				OCSD_DFRMTR_FRAME_MEM_ALIGN);
	unsigned char id;

	if (ocsd_dt_create_decoder(t, ec.ete ? OCSD_BUILTIN_DCD_ETE :
					       OCSD_BUILTIN_DCD_ETMV4I,
				   OCSD_CREATE_FLG_FULL_DECODER,
				   ec.ete ? (const void *)&ete :
					    (const void *)&etm, &id) ||
	    ocsd_dt_set_gen_elem_outfn(t, take_elem, d) ||
	    ocsd_dt_add_callback_mem_acc(t, 0, UINT64_MAX,
					 OCSD_MEM_SPACE_ANY, read_code, d))
		return C_API_INVALID_TREE_HANDLE;
	return t;
}

static void decode_record(dcd_tree_handle_t t, const uint8_t *p, uint32_t n,
			  struct decoded *d)
{
	uint32_t done = 0, used;

	ocsd_dt_process_data(t, OCSD_OP_RESET, 0, 0, NULL, NULL);
	while (done < n) {
		used = 0;
		if (ocsd_dt_process_data(t, OCSD_OP_DATA, done, n - done,
					 p + done, &used) > OCSD_RESP_WARN_CONT) {
			d->n_bad++;
			return;
		}
		done += used;
	}
	ocsd_dt_process_data(t, OCSD_OP_EOT, 0, 0, NULL, NULL);
}

/* All records of a CPU's trace, or of a thread's. */
static void decode_stream(const struct soft_config *c, uint32_t idx,
			  uint32_t from, struct decoded *d)
{
	const struct auxfile *f = d->f;
	dcd_tree_handle_t t = make_tree(c, idx % c->n_cpus, d);
	size_t i;

	d->cpu = idx;
	d->tid = SLICES_TID;
	d->sw = 0;
	d->time = d->ts = d->cc_time = 0;
	for (i = 0; i < f->n_rec; i++) {
		if (f->idx[i] != from)
			continue;
		if (c->per_thread)
			d->tid = f->tid[i];
		d->n_bad += (f->rec[i].flags == 0x100) != c->etm.raw;
		decode_record(t, f->bytes[i], (uint32_t)f->rec[i].size, d);
	}
	ocsd_destroy_dcd_tree(t);
}

static void decode(const struct soft_config *c, const struct auxfile *f,
		   const struct a64_program *p, struct decoded *d)
{
	uint32_t i;

	memset(d, 0, sizeof(*d));
	d->f = f;
	d->p = p;
	for (i = 0; i < (c->per_thread ? MAX_STREAMS : c->n_cpus); i++)
		decode_stream(c, i, c->etm.shared ? 0 : i, d);
	slices_merge(&d->s);
}

/* ---- comparing ---- */

/* Whether got is want, apart from what is missing at each GAP. */
static bool same(const struct list *got, const struct list *want)
{
	size_t i = 0, w = 0, gaps = 0, from, to, k;

	while (i < got->n) {
		bool gap = got->v[i] == GAP;

		i += gap;
		gaps += gap;
		for (from = i; i < got->n && got->v[i] != GAP; i++)
			;
		for (to = i; gap && w + (to - from) <= want->n; w++) {
			for (k = 0; k < to - from; k++)
				if (got->v[from + k] != want->v[w + k])
					break;
			if (k == to - from)
				break;
		}
		for (k = from; k < to; k++, w++)
			if (w >= want->n || got->v[k] != want->v[w])
				return false;
	}
	/* an overflow may last to the end */
	return w == want->n || (gaps && got->n > want->n / 2);
}

static struct auxfile file;
static struct decoded dec;
static struct a64_program program;

static void check(const char *name, const struct soft_config *c,
		  uint32_t threads, uint32_t chunks)
{
	static struct wander r;
	char path[] = "/tmp/soft_etm.XXXXXX";
	bool good, whole = true;
	uint32_t k;
	int fd = mkstemp(path);

	close(fd);
	memset(&r, 0, sizeof(r));
	r.c = &program.c;
	r.loop = 1 + rnd(6);
	a64_make(&program, true);
	good = wander_record(&r, c, "cs_etm//", threads, chunks, path) &&
	       auxfile_read(&file, path);
	ok(good, "%s: recorded", name);
	decode(c, &file, &program, &dec);
	for (k = 0; k < threads; k++) {
		whole &= c->inject_overflow ||
			 dec.s.ips[k].n == r.truth[k].n;
		if (!same(&dec.s.ips[k], &r.truth[k]) || !whole) {
			printf("# thread %u: %zu of %zu\n", k, dec.s.ips[k].n,
			       r.truth[k].n);
			good = false;
		}
	}
	ok(good && whole && !dec.n_bad && !dec.n_resync &&
	   (dec.n_ovf > 0) == (c->inject_overflow > 0) &&
	   file.n_hw_id, "%s: %zu instructions, %zu records, %u overflows",
	   name, dec.s.all.n, file.n_rec, dec.n_ovf);
	ok((dec.n_ts > 0) == c->etm.timestamp &&
	   (dec.n_cc > 0) == c->etm.cycacc && !dec.n_time_errors,
	   "%s: %u timestamps, %u cycle counts, %u bad, %u resyncs, %u late",
	   name, dec.n_ts, dec.n_cc, dec.n_bad, dec.n_resync,
	   dec.n_time_errors);
	slices_free(&dec.s);
	wander_free(&r);
	auxfile_free(&file);
	unlink(path);
}

static struct soft_config make_config(bool ete, bool raw, bool shared)
{
	return (struct soft_config){
		.trace = SOFT_TRACE_ETM,
		.etm = {
			.ete = ete, .raw = raw, .shared = shared,
			.timestamp = true, .contextid = true,
			.cc_threshold = 256, .sync_period = 12,
		},
		.n_cpus = 3, .event_id = 7, .sideband_id = 7,
		.start_ns = START_NS,
	};
}

/* All that can be asked for, in all mixtures that are legal. */
static void check_random(uint32_t n)
{
	char name[100];

	while (n--) {
		struct soft_config c = make_config(rnd(2), rnd(2), false);

		c.etm.shared = !c.etm.raw && !rnd(3);
		c.etm.vmid = rnd(2);
		c.etm.contextid = !c.etm.vmid || rnd(2);
		c.etm.timestamp = rnd(4);
		c.etm.cycacc = rnd(2);
		c.etm.retstack = rnd(2);
		c.etm.broadcast = !rnd(3);
		c.etm.cc_threshold = 4 + rnd(300);
		c.etm.sync_period = 8 + rnd(8);
		c.n_cpus = 1 + rnd(3);
		c.inject_overflow = rnd(3) ? 0 : 1 + rnd(9);
		c.per_thread = !c.etm.shared && !rnd(4);
		if (c.inject_overflow)
			c.etm.sync_period = 8 + rnd(3);
		snprintf(name, sizeof(name), "%s%s%s%s%s%s%s%s%s %u%s",
			 c.etm.ete ? "ete" : "etmv4",
			 c.etm.raw ? " raw" : "", c.etm.shared ? " shared" : "",
			 c.etm.vmid ? " vmid" : "",
			 c.etm.timestamp ? " ts" : "",
			 c.etm.cycacc ? " cc" : "",
			 c.etm.retstack ? " rs" : "",
			 c.etm.broadcast ? " bb" : "",
			 c.per_thread ? " per-thread" : "", c.n_cpus,
			 c.inject_overflow ? " lossy" : "");
		check(name, &c, 1 + rnd(WANDER_THREADS), 2000);
	}
}

int main(void)
{
	struct soft_config c = make_config(false, false, false);

	check("etmv4, as by default", &c, 5, 20000);
	c = make_config(true, true, false);
	check("ete, raw", &c, 5, 20000);
	c = make_config(false, false, true);
	c.etm.retstack = true;
	check("one sink", &c, 5, 20000);
	check_random(40);
	return plan_done();
}
