/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * model: a recording that is being decoded in a thread of its own, step by step,
 * and may be looked at between two steps. What is counted is what hot, flame and
 * calls count, by the same code.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/tui/impl.h"

/* Who waits gets the lock next: the decoding thread, which comes back at once
 * after each step, has to wait for the turn. */
void model_lock(struct model *m)
{
	pthread_mutex_lock(&m->turn);
	pthread_mutex_lock(&m->lock);
	pthread_mutex_unlock(&m->turn);
}

void model_unlock(struct model *m)
{
	pthread_mutex_unlock(&m->lock);
}

/* ---- the sink, in the decoding thread and with the lock ---- */

static int flow(void *sink, const struct flow_ctx *ctx, const struct aux_flow *ev,
		size_t n)
{
	struct model *m = sink;

	return flowtree_flow(&m->tree, ctx, ev, n);
}

static int finish(void *sink, struct aux_diag *diag)
{
	struct model *m = sink;

	(void)diag;
	return flowtree_finish(&m->tree);
}

static const struct sink_ops model_sink = {
	.name = "tui",
	.needs = SINK_NEEDS_TIME | SINK_TAKES_PATHS | SINK_TAKES_TIMES,
	.flow = flow,
	.finish = finish,
};

static int seen(void *priv, struct flowtree_thread *ft, uint32_t node)
{
	struct model *m = priv;

	return lanes_seen(&m->lanes, &m->tree, ft, node);
}

/* Only the first reason is kept: the verdict of other commands has all. */
static void keep_reason(struct model *m, const struct flow_ctx *ctx, uint64_t ip)
{
	char text[512] = "";

	if (m->missing || !m->config->code_text || !ctx->space)
		return;
	m->config->code_text(session_codeview(m->session), ctx->space, ip, text,
			     sizeof(text));
	m->missing = strdup(text);
}

static void on_gap(void *priv, const struct flow_ctx *ctx,
		   const struct aux_flow *ev)
{
	struct model *m = priv;
	struct model_gap g = {
		.time_ns = ctx->time_ns, .offset = ev->offset, .ip = ev->gap.ip,
		.pid = ctx->pid, .tid = ctx->tid, .stream = ctx->stream,
		.cpu = ctx->cpu, .cause = ev->what,
		.has_ip = ev->flags & AUX_FLOW_HAS_IP,
	};

	if (ev->what < GAP_N_CAUSES)
		m->n_by_cause[ev->what]++;
	if (ev->what == AUX_GAP_NO_CODE && g.has_ip)
		keep_reason(m, ctx, g.ip);
	if (m->n_gaps < MODEL_GAPS)
		array_append(&m->gaps, &m->n_gaps, &m->cap_gaps, &g, sizeof(g));
}

/* ---- the decoding thread ---- */

/* What is known before anything is decoded. */
static int prepare(struct model *m, struct session *s)
{
	const char *clock = aux_reader_source(session_reader(s), "clock");

	m->session = s;
	m->host = session_host(s);
	m->host.names = m->config->names[0];
	m->is_virtual = clock && !strcmp(clock, "virtual");
	m->lanes.timed = session_is_timed(s);
	m->tree = (struct flowtree){ .ticks = true, .seen = seen, .priv = m };
	m->state = MODEL_DECODES;
	return flowtree_init(&m->tree, &m->host, CALLTREE_PER_THREAD, 0);
}

/* Steps until the end, or until it is to stop. */
static int decode(struct model *m, struct session_pass *pass,
		  struct aux_diag *diag)
{
	int rc = 1;

	while (rc > 0 && !atomic_load(&m->stop)) {
		model_lock(m);
		rc = session_pass_step(pass, diag);
		model_unlock(m);
	}
	return rc;
}

static int open_and_decode(struct model *m, struct aux_diag *diag)
{
	const struct session_pass_config config = {
		.ops = &model_sink, .sink = m, .needs = model_sink.needs,
		.stats = &m->stats, .priv = m, .on_gap = on_gap,
	};
	struct session_pass *pass = NULL;
	struct session *s = NULL;
	int err = session_open(&s, m->config->session, diag);

	if (err)
		return err;
	model_lock(m);
	err = prepare(m, s);
	if (!err)
		err = session_pass_open(&pass, s, &config, diag);
	model_unlock(m);
	if (!err)
		err = decode(m, pass, diag);
	model_lock(m);
	if (err >= 0 && !atomic_load(&m->stop))
		err = model_sink.finish(m, diag);
	session_pass_close(pass);
	model_unlock(m);
	return err;
}

static void *run(void *priv)
{
	struct model *m = priv;
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	int err = open_and_decode(m, &diag);

	model_lock(m);
	m->state = err < 0 ? MODEL_FAILED : MODEL_DONE;
	m->error = err < 0 ? err : 0;
	m->diag = diag;
	model_unlock(m);
	return NULL;
}

/* Signals go to the thread that started it, which waits for keys and for them;
 * but for those of a fault, which stay where that is. */
int thread_start(pthread_t *thread, void *(*routine)(void *), void *priv)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	sigset_t all, before;
	int err;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(thread, NULL, routine, priv);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return err ? -AUX_E_NOMEM : 0;
}

int model_start(struct model *m, const struct tui_config *config)
{
	*m = (struct model){ .config = config, .lanes.from = UINT64_MAX };
	pthread_mutex_init(&m->turn, NULL);
	pthread_mutex_init(&m->lock, NULL);
	if (thread_start(&m->thread, run, m)) {
		pthread_mutex_destroy(&m->turn);
		pthread_mutex_destroy(&m->lock);
		return -AUX_E_NOMEM;
	}
	m->started = true;
	return 0;
}

void model_end(struct model *m)
{
	if (!m->started)
		return;
	atomic_store(&m->stop, true);
	pthread_join(m->thread, NULL);
	flowtree_fini(&m->tree);
	lanes_fini(&m->lanes);
	session_close(m->session);
	free(m->gaps);
	free(m->missing);
	pthread_mutex_destroy(&m->turn);
	pthread_mutex_destroy(&m->lock);
	m->started = false;
}

static uint64_t lost_bytes(const struct session *s)
{
	const struct losses *l = session_losses(s);
	uint64_t n = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct loss_text *t = losses_text(l->e[i].cause);

		if (t && t->verdict && t->bytes)
			n += l->e[i].bytes;
	}
	return n;
}

struct model_status model_status(struct model *m)
{
	struct model_status st;

	model_lock(m);
	st = (struct model_status){
		.state = m->state,
		.done = m->stats.aux_decoded, .wanted = m->stats.aux_wanted,
		.n_insns = m->tree.calls ? calls_n_insns(m->tree.calls) : 0,
		.n_threads = (uint32_t)(m->lanes.n + m->lanes.n_left_out),
		.lossy = m->stats.lossy,
	};
	for (unsigned i = 0; i < GAP_N_CAUSES; i++)
		st.n_gaps += i == GAP_SNAPSHOT ? 0 : m->n_by_cause[i];
	if (m->session)
		st.lost = lost_bytes(m->session);
	model_unlock(m);
	return st;
}
