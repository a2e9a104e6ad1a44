/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * session: opening a recording, and everything that is built from it once: the
 * timeline of the side-band, the view of the code, the streams of trace. All of it is
 * finished before the first chunk is decoded, and only read from then on, so that any
 * thread may decode any chunk in any order.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/import/import.h"
#include "decode/lib/session/decoders.h"
#include "decode/lib/session/impl.h"

static int keep_string(char **copy, const char *s)
{
	*copy = s ? strdup(s) : NULL;
	return s && !*copy ? -AUX_E_NOMEM : 0;
}

/* A stream of all the bytes that an AUX queue has. */
static struct stream stream_of(const struct queue *q)
{
	return (struct stream){
		.idx = q->idx, .queue = q->idx, .cpu = q->cpu, .tid = q->tid,
		.n_bytes = q->n_bytes, .n_pieces = (uint32_t)q->n_pieces,
		.q = q,
	};
}

/* What is decoded alone: of Intel PT an AUX stream, of CoreSight each trace ID in one
 * (raw: each CPU), for the sources of an ETR write into one buffer. */
static int make_streams(struct session *s)
{
	struct chunks *c = &s->chunks;
	bool cs = c->trace_type == AUX_TRACE_CS_ETM;

	if (chunks_find_sources(c) < 0)
		return -AUX_E_NOMEM;
	s->n_streams = cs ? c->n_sources : c->n;
	s->streams = calloc(s->n_streams + 1, sizeof(*s->streams));
	s->spans = calloc(s->n_streams + 1, sizeof(*s->spans));
	if (!s->streams || !s->spans)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < s->n_streams; i++) {
		s->spans[i].end.segment = SIZE_MAX;	/* all */
		if (!cs) {
			s->streams[i] = stream_of(&c->queues[i]);
			continue;
		}
		s->streams[i] = stream_of(&c->queues[c->sources[i].queue]);
		s->streams[i].idx = (uint32_t)i;
		s->streams[i].source = &c->sources[i];
	}
	return 0;
}

/* The code view. A directory that `perf record --kcore` made has a copy of the kernel's
 * memory beside the records. */
static int open_code(struct session *s, const struct session_config *config,
		     struct aux_diag *diag)
{
	struct codeview_config code = config->code;
	char *kcore = code.kcore || config->data ? NULL :
		      container_kcore(config->path);
	int rc;

	if (kcore)
		code.kcore = kcore;
	rc = codeview_new(&s->codeview, s->reader, &code, diag);
	free(kcore);
	return rc;
}

/* In the order in which one needs the other: records, who ran, code, trace, losses. On
 * an error session_close frees what there is. */
static int open_parts(struct session *s, const struct session_config *config,
		      struct aux_diag *diag)
{
	const struct saved_code *code;
	int rc;

	if (keep_string(&s->path, config->path) < 0 ||
	    keep_string(&s->decoder, config->decoder) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	if (config->plugin) {
		rc = decoders_load(&s->plugin_handle, config->plugin,
				  &s->plugin_ops, diag);
		if (rc < 0)
			return rc;
	}
	rc = config->data ? aux_reader_open_mem(&s->reader, config->data,
						config->n_data, config->path,
						diag) :
			    container_open(&s->reader, config->path,
					   config->container, diag);
	if (rc < 0)
		return rc;
	rc = timeline_new(&s->timeline, s->reader, diag);
	if (rc < 0)
		return rc;
	rc = open_code(s, config, diag);
	if (rc < 0)
		return rc;
	for (size_t i = 0; (code = timeline_saved(s->timeline, i)); i++)
		codeview_save(s->codeview, code);
	rc = chunks_read(&s->chunks, s->reader, config->snapshot, diag);
	if (rc < 0)
		return rc;
	if (make_streams(s) < 0 ||
	    losses_read(&s->losses, s->reader, &s->chunks) < 0)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	session_find_config(s);
	session_sum_losses(s);
	return session_find_last(s, diag);
}

int session_open(struct session **sp, const struct session_config *config,
		 struct aux_diag *diag)
{
	struct session *s = calloc(1, sizeof(*s));
	int rc;

	*sp = NULL;
	if (!s)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	pthread_mutex_init(&s->open_lock, NULL);
	s->config = *config;
	rc = open_parts(s, config, diag);
	if (rc < 0)
		session_close(s);
	else
		*sp = s;
	return rc;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	chunks_fini(&s->chunks);
	losses_fini(&s->losses);
	codeview_free(s->codeview);
	timeline_free(s->timeline);
	aux_reader_close(s->reader);
	decoders_unload(s->plugin_handle);
	pthread_mutex_destroy(&s->open_lock);
	free(s->streams);
	free(s->spans);
	free(s->path);
	free(s->decoder);
	free(s->plugin);
	free(s);
}

struct aux_reader *session_reader(const struct session *s)
{
	return s->reader;
}

const struct timeline *session_timeline(const struct session *s)
{
	return s->timeline;
}

struct codeview *session_codeview(const struct session *s)
{
	return s->codeview;
}

const struct losses *session_losses(const struct session *s)
{
	return &s->losses;
}

const struct chunks *session_chunks(const struct session *s)
{
	return &s->chunks;
}

bool session_is_timed(const struct session *s)
{
	return s->timed;
}

const struct aux_decoder_ops *session_plugin(const struct session *s)
{
	return s->plugin_ops;
}

void session_select_tid(struct session *s, int64_t tid)
{
	s->config.tid = tid;
}

const struct stream *session_stream(const struct session *s, size_t i)
{
	return i < s->n_streams ? &s->streams[i] : NULL;
}

/* ---- what a sink asks ---- */

static int host_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	return codeview_code(session_codeview(priv), space, ip, code);
}

static int host_symbol(void *priv, const struct space *space, uint64_t ip,
		       struct symbol *sym)
{
	return codeview_symbol(session_codeview(priv), space, ip, sym);
}

static const char *host_comm(void *priv, uint32_t tid, uint64_t time)
{
	return timeline_comm(session_timeline(priv), tid, time);
}

static int host_line(void *priv, const struct space *space, uint64_t ip,
		     struct source_line *line)
{
	return codeview_line(session_codeview(priv), space, ip, line);
}

static int host_inlines(void *priv, const struct space *space, uint64_t ip,
			struct inline_frame *frames, size_t max)
{
	return codeview_inlines(session_codeview(priv), space, ip, frames, max);
}

static int host_image(void *priv, const struct space *space, uint64_t ip,
		      struct elfimage **im, uint64_t *offset)
{
	return codeview_image(session_codeview(priv), space, ip, im, offset);
}

struct sink_host session_host(struct session *s)
{
	return (struct sink_host){
		.priv = s,
		.code = host_code,
		.symbol = host_symbol,
		.comm = host_comm,
		.line = host_line,
		.inlines = host_inlines,
		.image = host_image,
	};
}
