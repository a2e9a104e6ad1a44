/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libauxdecode: opening a recording, and its flow, pulled or pushed. The
 * contract is aux/decode.h. Its structs carry their size, and may be shorter or
 * longer than those of this build: what ours lacks must be 0 (an option that is
 * ignored would give a wrong result in silence), what theirs lacks is 0. Here
 * they become the session's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/lib/api/impl.h"
#include "decode/lib/trace/gap.h"

/*
 * A pass. What is pulled is copied: a step of the session may call flow several
 * times, and what it was called with is not valid afterwards. A step is a batch
 * of one decoder at most, so the copy is small and stays in the cache.
 */

/* The public face of a context. space is the handle of aux_decode_code() and
 * the like, valid while the recording is open. */
static struct aux_decode_ctx ctx_of(const struct flow_ctx *c)
{
	return (struct aux_decode_ctx){
		.space = (const struct aux_decode_space *)c->space,
		.space_id = c->space ? c->space->id : 0,
		.time_ns = c->time_ns, .tsc = c->tsc,
		.pid = c->pid, .tid = c->tid, .cpu = c->cpu,
		.stream = c->stream,
	};
}

/* A pass ends in end(): there is nothing to write. */
static int finish_nothing(void *sink, struct aux_diag *diag)
{
	(void)sink;
	(void)diag;
	return 0;
}

/* Ends the pass, if there is one, and drops what was not pulled yet. */
static void stop(struct aux_decode *d)
{
	session_pass_close(d->pass);
	d->pass = NULL;
	d->n_parts = d->at_part = d->n_events = 0;
}

/*
 * Begins a pass whose events go to flow, with this struct as its sink. paths:
 * 0, or SINK_TAKES_PATHS. Whether times are needed was decided when the
 * recording was opened, and stays in ops.needs. Returns 0 or an error; the
 * pass, if any, is d's.
 */
static int start(struct aux_decode *d, unsigned paths,
		 int (*flow)(void *sink, const struct flow_ctx *ctx,
			     const struct aux_flow *ev, size_t n))
{
	struct session_pass_config config;

	stop(d);
	d->error = 0;
	d->ended = false;
	d->diag = (struct aux_diag){ .offset = AUX_NO_OFFSET };
	d->ops.name = "api";
	d->ops.needs = (d->ops.needs & SINK_NEEDS_TIME) | paths;
	d->ops.flow = flow;
	d->ops.finish = finish_nothing;
	config = (struct session_pass_config){ .ops = &d->ops, .sink = d,
					       .needs = d->ops.needs,
					       .stats = &d->stats };
	return session_pass_open(&d->pass, d->session, &config, &d->diag);
}

/* The pass ended: by itself (rc 0), or by an error, which every later call
 * returns. */
static int end(struct aux_decode *d, int rc)
{
	stop(d);
	d->ended = true;
	d->error = rc;
	if (rc < 0 && !d->diag.code)
		diag_set(&d->diag, -rc, AUX_NO_OFFSET, "%s", aux_strerror(rc));
	return rc;
}

/* The sink of a pass that is pulled: appends to parts and events, whose memory
 * is used again for the next step. */
static int keep_events(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct aux_decode *d = sink;

	if (!n)
		return 0;
	if (array_grow(&d->parts, d->n_parts, &d->max_parts,
		       sizeof(*d->parts)) ||
	    array_grow(&d->events, d->n_events + n - 1, &d->max_events,
		       sizeof(*d->events)))
		return -AUX_E_NOMEM;
	d->parts[d->n_parts++] = (struct api_part){ ctx_of(ctx), d->n_events,
						    n };
	memcpy(d->events + d->n_events, ev, n * sizeof(*ev));
	d->n_events += n;
	return 0;
}

/* Between snapshots nothing was to be recorded; all other causes are losses. */
int aux_gap_is_loss(unsigned cause)
{
	return cause != GAP_SNAPSHOT;
}

static uint64_t count_gaps(const struct session_stats *st)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		n += aux_gap_is_loss(i) ? st->n_gaps[i] : 0;
	return n;
}

/*
 * What the file itself lacks, as the last events of the flow: decoders see the
 * trace that there is, and of one that ends at a packet they cannot know that
 * it should go on. Such a GAP is of no thread and of no stream.
 */
static int tell_missing(struct aux_decode *d,
			int (*flow)(void *sink, const struct flow_ctx *ctx,
				    const struct aux_flow *ev, size_t n))
{
	const struct flow_ctx nobody = { .pid = UINT32_MAX, .tid = UINT32_MAX,
					 .cpu = -1, .stream = UINT32_MAX };
	struct session_stats *st = &d->stats;
	struct aux_flow gap = { .kind = AUX_FLOW_GAP };
	int rc = 0;

	if (st->cut && !st->n_gaps[AUX_GAP_FILE]) {
		gap.what = AUX_GAP_FILE;
		st->n_gaps[gap.what]++;
		rc = flow(d, &nobody, &gap, 1);
	}
	if (!rc && (st->unplaced || (st->lossy && !count_gaps(st)))) {
		gap.what = GAP_UNPLACED;
		st->n_gaps[gap.what]++;
		rc = flow(d, &nobody, &gap, 1);
	}
	return rc < 0 ? rc : 0;
}

/* Steps until there is something to pull, or the end. A step may emit
 * nothing. */
static int fill(struct aux_decode *d)
{
	int rc = 0;

	d->n_parts = d->at_part = d->n_events = 0;
	if (!d->pass)
		rc = start(d, 0, keep_events);
	while (rc == 0 && !d->n_parts) {
		rc = session_pass_step(d->pass, &d->diag);
		if (rc == 0) {
			end(d, 0);
			rc = tell_missing(d, keep_events);
			break;
		}
		rc = rc < 0 ? rc : 0;
	}
	return rc < 0 ? end(d, rc) : 0;
}

/* Returns 1 with a batch, which is valid until the next call; then 0, or the
 * error, as often as it is called. diag is filled in these cases only. */
int aux_decode_next(struct aux_decode *d, struct aux_decode_batch *batch,
		    struct aux_diag *diag)
{
	const struct api_part *p;

	*batch = (struct aux_decode_batch){ .n = 0 };
	if (d->at_part == d->n_parts && !d->ended)
		fill(d);
	if (d->at_part == d->n_parts) {
		if (diag)
			*diag = d->diag;
		return d->error;
	}
	p = &d->parts[d->at_part++];
	*batch = (struct aux_decode_batch){ p->ctx, d->events + p->from, p->n };
	return 1;
}

void aux_decode_rewind(struct aux_decode *d)
{
	stop(d);
	d->ended = false;
	d->error = 0;
	d->diag = (struct aux_diag){ .offset = AUX_NO_OFFSET };
	session_count_file(d->session, &d->stats);
}

void aux_decode_select_tid(struct aux_decode *d, int64_t tid)
{
	aux_decode_rewind(d);
	session_select_tid(d->session, tid < 0 ? -1 : tid);
}

/* The sink of aux_decode_run: the caller's. Nothing is copied; its events are
 * valid in the call only. 1, or any other positive number, ends the pass
 * without an error. */
static int forward_events(void *sink, const struct flow_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	struct aux_decode *d = sink;
	struct aux_decode_ctx c = ctx_of(ctx);
	int rc = n ? d->sink.flow(d->sink.priv, &c, ev, n) : 0;

	d->enough |= rc > 0;
	return rc > 0 ? 1 : rc;
}

/* Copies the caller's sink. A smaller one than ours lacks flow and is
 * refused. */
static int read_sink(struct aux_decode *d, const struct aux_decode_sink *sink,
		     struct aux_diag *diag)
{
	d->sink = (struct aux_decode_sink){ .size = sizeof(d->sink) };
	if (sink->size >= sizeof(d->sink))
		memcpy(&d->sink, sink, sizeof(d->sink));
	if (!d->sink.flow)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"aux_decode_sink.size or flow is not set");
	if (d->sink.flags & ~(uint32_t)AUX_DECODE_PATHS)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"sink.flags 0x%x: unknown flags",
				d->sink.flags);
	return 0;
}

int aux_decode_run(struct aux_decode *d, const struct aux_decode_sink *sink,
		   struct aux_diag *diag)
{
	unsigned paths = 0;
	int rc = read_sink(d, sink, diag);

	if (rc < 0)
		return rc;
	if (d->sink.flags & AUX_DECODE_PATHS)
		paths = SINK_TAKES_PATHS;
	d->enough = false;
	rc = start(d, paths, forward_events);
	while (rc == 0 && (rc = session_pass_step(d->pass, &d->diag)) > 0)
		rc = 0;
	if (rc == 0 && !d->enough)
		rc = tell_missing(d, forward_events);
	end(d, rc);
	if (diag)
		*diag = d->diag;
	d->ended = false;	/* next begins anew */
	return rc;
}

/* As much as the caller's struct has room for; its size stays as the caller set
 * it. */
int aux_decode_get_stats(const struct aux_decode *d,
			 struct aux_decode_stats *stats)
{
	const struct session_stats *st = &d->stats;
	struct aux_decode_stats all = {
		.lossy = st->lossy, .n_insns = st->n_insns,
		.n_gaps = count_gaps(st), .aux_bytes = st->aux_bytes,
		.aux_decoded = st->aux_decoded, .aux_wanted = st->aux_wanted,
		.lost_bytes = st->ledger_lost, .n_streams = st->n_streams,
		.n_records = st->n_records, .n_chunks = st->n_chunks,
		.n_handed = st->n_handed_whole + st->n_handed_part,
		.decoder = st->decoder,
	};
	uint32_t size = stats->size;

	if (size < 2 * sizeof(uint32_t))
		return -AUX_E_INVAL;
	all.size = size;
	memcpy(stats, &all, size < sizeof(all) ? size : sizeof(all));
	return 0;
}

uint64_t aux_decode_count_gaps(const struct aux_decode *d, unsigned cause)
{
	return cause < GAP_N_CAUSES ? d->stats.n_gaps[cause] : 0;
}

const char *aux_gap_name(unsigned cause)
{
	return gap_name(cause);
}

const char *aux_gap_text(unsigned cause)
{
	return gap_text(cause);
}

void aux_decode_missing(const struct aux_decode *d, char *buf, size_t len)
{
	const struct timeline_stats *ts =
				timeline_stats(session_timeline(d->session));
	const struct session_stats *st = &d->stats;
	uint64_t n = ts->n_lost;

	if (!len)
		return;
	if (ts->damaged && ts->damage.offset != AUX_NO_OFFSET)
		snprintf(buf, len, "at offset 0x%" PRIx64 " %s",
			 ts->damage.offset, ts->damage.text);
	else if (ts->damaged)
		snprintf(buf, len, "%s", ts->damage.text);
	else if (aux_reader_info(session_reader(d->session))->unfinished)
		snprintf(buf, len, "its writer was stopped before the end");
	else if (st->cut)
		snprintf(buf, len, "what stands after its records is damaged");
	else if (n)
		snprintf(buf, len, "%" PRIu64 " record%s lost while recording",
			 n, n == 1 ? " was" : "s were");
	else
		snprintf(buf, len, "%s", !st->lossy ? "" : count_gaps(st) ?
			 "the flow has gaps" : gap_text(GAP_UNPLACED));
}

unsigned aux_decode_version(void)
{
	return AUX_DECODE_VERSION;
}

/* Copies the caller's options. One that this build does not know must not be
 * set. */
static int read_options(struct aux_decode_options *o,
			const struct aux_decode_options *theirs,
			struct aux_diag *diag)
{
	const uint8_t *tail = (const uint8_t *)theirs;

	*o = (struct aux_decode_options){ .size = sizeof(*o) };
	if (!theirs)
		return 0;
	if (theirs->size < offsetof(struct aux_decode_options, tid))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"aux_decode_options.size is not set");
	for (size_t i = sizeof(*o); i < theirs->size; i++)
		if (tail[i])
			return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
					"an option that this libauxdecode "
					"(version %u) does not know: use a "
					"newer one", AUX_DECODE_VERSION);
	memcpy(o, theirs, theirs->size < sizeof(*o) ? theirs->size : sizeof(*o));
	if (o->flags & ~63u)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"options.flags 0x%x: unknown flags", o->flags);
	if (o->time_to && o->time_to < o->time_from)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"options.time_to is before time_from");
	if (o->flags & AUX_DECODE_CHUNKS && o->chunk_to < o->chunk_from)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"options.chunk_to is before chunk_from");
	return 0;
}

static struct codeview_config code_of(const struct aux_decode_options *o)
{
	return (struct codeview_config){
		.symfs = o->symfs, .vdso = o->vdso, .vmlinux = o->vmlinux,
		.kcore = o->kcore, .kallsyms = o->kallsyms,
		.buildid_dir = o->buildid_dir,
		.debuginfod = o->flags & AUX_DECODE_DEBUGINFOD,
	};
}

/* The options as the session names them. path: NULL for data or a bare trace
 * (o->pt); it is then the name in messages. time_to 0 means no limit. */
static int open_session(struct aux_decode *d, const char *path,
			const struct aux_decode_options *o,
			struct aux_diag *diag)
{
	struct import_options import = {
		.pt = o->pt, .images = o->images,
		.n_images = (size_t)o->n_images, .cpu_model = o->cpu_model,
		.elfs = o->elfs, .n_elfs = (size_t)o->n_elfs,
		.anywhere = o->flags & AUX_DECODE_ANY_PATH,
	};
	struct session_config config = {
		.path = path ? path : o->pt ? o->pt : "recording",
		.data = o->data, .n_data = (size_t)o->n_data,
		.decoder = o->decoder, .plugin = o->plugin,
		.import = &import, .code = code_of(o),
		.n_workers = o->n_workers, .chunk_min = o->chunk_min,
		.tid = o->flags & AUX_DECODE_ONE_TID ? (int64_t)o->tid : -1,
		.cpu = o->flags & AUX_DECODE_ONE_CPU ? (int64_t)o->cpu : -1,
		.time_from = o->time_from,
		.time_to = o->time_to ? o->time_to : UINT64_MAX,
		.last_ns = o->last_ns,
		.chunks = o->flags & AUX_DECODE_CHUNKS,
		.chunk_from = o->chunk_from, .chunk_to = o->chunk_to,
		.max_memory = o->max_memory, .snapshot = o->snapshot,
	};

	if (!path && !o->pt && !o->data)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"no path, no pt, no data");
	return session_open(&d->session, &config, diag);
}

int aux_decode_open(struct aux_decode **dp, const char *path,
		    const struct aux_decode_options *options,
		    struct aux_diag *diag)
{
	struct aux_diag none = { .offset = AUX_NO_OFFSET };
	struct aux_decode_options o;
	struct aux_decode *d;
	int rc;

	*dp = NULL;
	if (diag)
		*diag = none;
	rc = read_options(&o, options, diag);
	if (rc < 0)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	d->ops.needs = o.flags & AUX_DECODE_NO_TIMES ? 0 : SINK_NEEDS_TIME;
	rc = open_session(d, path, &o, diag ? diag : &none);
	if (rc < 0) {
		free(d);
		return rc;
	}
	d->host = session_host(d->session);
	session_count_file(d->session, &d->stats);
	*dp = d;
	return 0;
}

/* The pass first: its threads use all the rest. */
void aux_decode_close(struct aux_decode *d)
{
	if (!d)
		return;
	stop(d);
	walk_free(d->walk);
	session_close(d->session);
	free(d->parts);
	free(d->events);
	free(d);
}

struct aux_reader *aux_decode_reader(const struct aux_decode *d)
{
	return session_reader(d->session);
}

const char *aux_decode_comm(const struct aux_decode *d, uint32_t tid,
			    uint64_t time_ns)
{
	return timeline_comm(session_timeline(d->session), tid, time_ns);
}
