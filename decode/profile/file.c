/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: writes a perf.data of samples in place of the trace. The trace's
 * event becomes one of instructions with branch stacks, under the same ids; the
 * records of the trace are dropped, all others are copied.
 *
 * Copied records end with a sample_id trailer that follows the sample_type of
 * their event. So the bits of TRAILER must stay as they were; only others may
 * be added.
 *
 * Specifications: <linux/perf_event.h>; tools/perf/Documentation/
 * perf.data-file-format.txt in the kernel's sources.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/profile/impl.h"
#include "perfdata/rewrite.h"
#include "decode/lib/session/session.h"

#define TRAILER \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | \
	 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

struct profile_file {
	struct rewrite *w;
	struct aux_reader *r;
	struct aux_diag diag;	/* of open */
	uint64_t sample_type;
	uint64_t id;		/* the first of the event */
	uint32_t pmu;		/* type of the event of the trace */
	bool swap;
	struct rewrite_bytes rec;
};

/* The event type of the trace: words of AUXTRACE_INFO, in an order of each
 * kind's own. */
static uint32_t pmu_of(const struct aux_event *ev)
{
	const uint64_t *p = ev->auxtrace_info.priv;

	if (ev->auxtrace_info.n_priv <= AUX_PT_PMU_TYPE)
		return 0;
	if (ev->auxtrace_info.trace_type == AUX_TRACE_CS_ETM)
		return (uint32_t)(p[1] >> 32);
	return (uint32_t)p[AUX_PT_PMU_TYPE];
}

static void find_pmu(struct profile_file *f)
{
	struct aux_event ev;

	aux_reader_rewind(f->r);
	while (!f->pmu && aux_reader_next(f->r, &ev, NULL) > 0)
		if (ev.type == AUX_RECORD_AUXTRACE_INFO)
			f->pmu = pmu_of(&ev);
}

static bool is_trace(const struct profile_file *f, const struct aux_attr *a)
{
	return a && f->pmu && a->attr.type == f->pmu;
}

/*
 * The event of samples that the trace's event becomes. perf report and AutoFDO
 * want PERF_SAMPLE_BRANCH_STACK with BRANCH_ANY, as if last branch records were
 * sampled.
 */
static struct aux_attr sampled(struct profile_file *f, const struct aux_attr *a,
			       const char *period)
{
	struct aux_attr new = *a;
	struct perf_event_attr *p = &new.attr;

	p->type = PERF_TYPE_HARDWARE;
	p->config = PERF_COUNT_HW_INSTRUCTIONS;
	p->config1 = p->config2 = 0;
	p->sample_type = (p->sample_type & TRAILER) | PERF_SAMPLE_IP |
			 PERF_SAMPLE_PERIOD | PERF_SAMPLE_BRANCH_STACK;
	if (!p->sample_id_all)
		p->sample_type |= PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	p->branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	p->sample_period = period ? strtoull(period, NULL, 10) : 1;
	p->freq = 0;
	p->aux_output = 0;
	p->aux_sample_size = 0;
	p->read_format &= PERF_FORMAT_ID;
	new.name = "instructions";
	f->sample_type = p->sample_type;
	f->id = a->n_ids ? a->ids[0] : 0;
	return new;
}

/* -AUX_E_UNSUPPORTED: no event is the trace's, so samples would have no
 * event. */
static int put_attrs(struct profile_file *f, const char *period)
{
	const struct aux_attr *a;
	bool found = false;

	for (size_t i = 0; (a = aux_reader_attr(f->r, i)); i++) {
		struct aux_attr new = *a;

		if (is_trace(f, a)) {
			new = sampled(f, a, period);
			found = true;
		}
		rewrite_attr(f->w, &new);
	}
	return found ? 0 : -AUX_E_UNSUPPORTED;
}

void profile_file_discard(struct profile_file *f)
{
	if (!f)
		return;
	rewrite_discard(f->w);
	free(f->rec.data);
	free(f);
}

int profile_file_open(struct profile_file **to, const struct session *session,
		      const struct sink_env *env, const char *period)
{
	struct profile_file *f = calloc(1, sizeof(*f));
	int err;

	*to = NULL;
	if (!f)
		return -AUX_E_NOMEM;
	f->r = session_reader(session);
	f->swap = aux_reader_info(f->r)->swapped;
	f->rec.swap = f->swap;
	find_pmu(f);
	err = rewrite_open(&f->w, env->out_path, env->path, f->swap,
			   &f->diag);
	if (!err)
		err = put_attrs(f, period);
	if (err)
		profile_file_discard(f);
	else
		*to = f;
	return err;
}

/* ---- Records ---- */

/* Two u32: a pair is not a u64, so each is swapped by itself. */
static void put_pair(struct rewrite_bytes *b, uint32_t first, uint32_t second)
{
	rewrite_bytes_u32(b, first);
	rewrite_bytes_u32(b, second);
}

static void put_u16(struct rewrite_bytes *b, uint16_t v)
{
	v = b->swap ? __builtin_bswap16(v) : v;
	rewrite_bytes_put(b, &v, sizeof(v));
}

/* The size in the header is 0 until end_record. */
static void begin_record(struct profile_file *f, uint32_t type, uint16_t misc)
{
	f->rec.len = 0;
	rewrite_bytes_u32(&f->rec, type);
	put_u16(&f->rec, misc);
	put_u16(&f->rec, 0);
}

static void end_record(struct profile_file *f)
{
	uint16_t size = (uint16_t)f->rec.len;

	size = f->swap ? __builtin_bswap16(size) : size;
	if (f->rec.oom)
		return;
	memcpy(f->rec.data + 6, &size, sizeof(size));
	rewrite_record(f->w, f->rec.data, f->rec.len);
}

/* The fields before the branch stack, in the order of PERF_RECORD_SAMPLE. */
static void put_head(struct profile_file *f, const struct profile_sample *s)
{
	struct rewrite_bytes *b = &f->rec;
	uint64_t t = f->sample_type;

	if (t & PERF_SAMPLE_IDENTIFIER)
		rewrite_bytes_u64(b, f->id);
	rewrite_bytes_u64(b, s->ip);
	if (t & PERF_SAMPLE_TID)
		put_pair(b, s->ctx->pid, s->ctx->tid);
	if (t & PERF_SAMPLE_TIME)
		rewrite_bytes_u64(b, s->ctx->time_ns);
	if (t & PERF_SAMPLE_ID)
		rewrite_bytes_u64(b, f->id);
	if (t & PERF_SAMPLE_STREAM_ID)
		rewrite_bytes_u64(b, f->id);
	if (t & PERF_SAMPLE_CPU)
		put_pair(b, (uint32_t)s->ctx->cpu, 0);
	rewrite_bytes_u64(b, s->period);
}

void profile_file_sample(struct profile_file *f, const struct profile_sample *s)
{
	struct rewrite_bytes *b = &f->rec;

	begin_record(f, PERF_RECORD_SAMPLE,
		     s->ip >> 63 ? PERF_RECORD_MISC_KERNEL
				 : PERF_RECORD_MISC_USER);
	put_head(f, s);
	rewrite_bytes_u64(b, s->n);
	for (uint32_t i = 0; i < s->n; i++) {
		rewrite_bytes_u64(b, s->stack[i].from);
		rewrite_bytes_u64(b, s->stack[i].to);
		rewrite_bytes_u64(b, 0); /* nothing is known of prediction */
	}
	end_record(f);
}

void profile_file_gap(struct profile_file *f, const struct flow_ctx *ctx,
		      const struct aux_flow *ev)
{
	static const char text[64] = "flow is missing here";
	struct rewrite_bytes *b = &f->rec;

	begin_record(f, AUX_RECORD_AUXTRACE_ERROR, 0);
	put_pair(b, 1, ev->what); /* an instruction trace error */
	put_pair(b, (uint32_t)ctx->cpu, ctx->pid);
	put_pair(b, ctx->tid, 1); /* with a time */
	rewrite_bytes_u64(b, ev->flags & AUX_FLOW_HAS_IP ? ev->gap.ip : 0);
	rewrite_bytes_u64(b, ctx->time_ns);
	rewrite_bytes_put(b, text, sizeof(text));
	end_record(f);
}

int profile_file_failed(const struct profile_file *f)
{
	return f->rec.oom ? -AUX_E_NOMEM : rewrite_failed(f->w);
}

/* ---- The other records ---- */

/*
 * FINISHED_ROUND promises that earlier times do not follow, which samples in
 * front of all other records would break; readers then sort the whole file.
 */
static bool keep(void *priv, const struct aux_event *ev)
{
	const struct profile_file *f = priv;

	switch (ev->type) {
	case AUX_RECORD_AUXTRACE_INFO:
	case AUX_RECORD_AUXTRACE_ERROR:
	case AUX_RECORD_FINISHED_ROUND:
	case PERF_RECORD_AUX:
	case PERF_RECORD_ITRACE_START:
	case PERF_RECORD_AUX_OUTPUT_HW_ID:
		return false;
	case PERF_RECORD_SAMPLE:
		return !is_trace(f, ev->attr);
	default:
		return true;
	}
}

int profile_file_close(struct profile_file *f, struct aux_diag *diag)
{
	const struct rewrite_filter filter = { .keep = keep, .priv = f,
					       .no_trace = true };
	int err;

	rewrite_copy(f->w, f->r, &filter);
	rewrite_feature(f->w, AUX_FEAT_EVENT_DESC, NULL, 0); /* made anew */
	rewrite_feature(f->w, AUX_FEAT_BRANCH_STACK, "", 0);
	err = rewrite_close(f->w, diag);
	f->w = NULL;
	profile_file_discard(f);
	return err;
}
