/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A decoder that is another one with a fault, for the test of auxdecode verify:
 * MUTANT=FAULT:N breaks the N-th event to which FAULT applies. Built as a plugin,
 * linked with the decoder that -DREAL=... names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

extern const struct aux_decoder_ops REAL;

#define BATCH 64

struct mutant {
	void *dec;
	const struct aux_decoder_host *host;
	char fault[32];
	uint64_t at, n;
	int over;		/* it said that its flow ends */
	struct aux_flow in[BATCH], paths[BATCH];
	struct aux_step steps[BATCH], *step_of[BATCH];
	struct aux_path path[BATCH];
};

static int open_mutant(void **dec, const struct aux_decoder_config *config,
		       const struct aux_decoder_host *host, struct aux_diag *diag)
{
	const char *env = getenv("MUTANT");
	struct mutant *m = calloc(1, sizeof(*m));
	unsigned long long at = 1;

	if (!m)
		return -AUX_E_NOMEM;
	if (env)
		sscanf(env, "%31[^:]:%llu", m->fault, &at);
	m->at = at;
	m->host = host;
	*dec = m;
	return REAL.open(&m->dec, config, host, diag);
}

static void close_mutant(void *dec)
{
	struct mutant *m = dec;

	if (m)
		REAL.close(m->dec);
	free(m);
}

/* Is it the fault's turn? */
static int turn(struct mutant *m, const char *fault)
{
	return !strcmp(m->fault, fault) && ++m->n == m->at;
}

static int start_mutant(void *dec, const struct aux_chunk *chunk)
{
	struct mutant *m = dec;

	if (turn(m, "refuse"))
		return -AUX_E_UNSUPPORTED;
	return REAL.start(m->dec, chunk);
}

/* table */
static const char *const kinds[] = {
	"", "range", "async", "on", "off", "time", "context", "tx", "payload",
	"power", "event", "gap"
};

/* Returns how many events out[] has for ev. */
static size_t break_range(struct mutant *m, const struct aux_flow *ev,
			  struct aux_flow *out)
{
	out[0] = *ev;
	if (ev->n == 2 && ev->range.last - ev->range.first <= 15 &&
	    !strcmp(m->fault, "cut")) {
		out[1] = *ev;
		out[0].n = out[1].n = 1;
		out[0].what = AUX_END_FALL;
		out[0].range.last = ev->range.first;
		out[0].flags = (uint16_t)((ev->flags & ~AUX_FLOW_SIZE_MASK) |
			       (ev->range.last - ev->range.first));
		out[1].range.first = ev->range.last;
		return 2;
	}
	if (ev->n > 1 && turn(m, "first"))
		out->range.first++;
	else if (turn(m, "last"))
		out->range.last--;
	else if (turn(m, "count"))
		out->n++;
	else if (turn(m, "mode"))
		out->flags |= AUX_FLOW_MODE_X86_32;
	else if (turn(m, "tx"))
		out->flags ^= AUX_FLOW_IN_TX;
	if (ev->what == AUX_END_COND_TAKEN && turn(m, "vague"))
		out->what = AUX_END_COND;
	if (ev->what == AUX_END_COND_TAKEN && turn(m, "untaken"))
		out->what = AUX_END_COND_NOT_TAKEN;
	if (ev->what == AUX_END_IND_CALL && turn(m, "kind"))
		out->what = AUX_END_IND_JUMP;
	return 1;
}

static void make_path(struct mutant *m, size_t i, struct aux_flow *ev)
{
	m->paths[i] = *ev;
	m->paths[i].offset = 0;
	m->steps[i] = (struct aux_step){ .ranges = &m->paths[i], .n_ranges = 1,
					 .n_insns = ev->n };
	m->step_of[i] = &m->steps[i];
	m->path[i] = (struct aux_path){ .steps = &m->step_of[i], .n_steps = 1,
					.n_ranges = 1, .n_insns = ev->n };
	if (turn(m, "path"))
		m->paths[i].range.first ^= 1;
	if (turn(m, "pathsum"))
		m->path[i].n_insns++;
	ev->kind = AUX_FLOW_PATH;
	ev->path.path = &m->path[i];
}

static size_t break_event(struct mutant *m, const struct aux_flow *ev,
			  struct aux_flow *out)
{
	char name[40];

	if (ev->kind == AUX_FLOW_RANGE && break_range(m, ev, out) == 2)
		return 2;
	if (ev->kind != AUX_FLOW_RANGE)
		*out = *ev;
	snprintf(name, sizeof(name), "drop-%s", kinds[ev->kind]);
	if (turn(m, name))
		return 0;
	snprintf(name, sizeof(name), "change-%s", kinds[ev->kind]);
	if (turn(m, name))
		out->range.first += 16;
	snprintf(name, sizeof(name), "twice-%s", kinds[ev->kind]);
	if (turn(m, name)) {
		out[1] = *ev;
		return 2;
	}
	if (ev->kind == AUX_FLOW_TIME && turn(m, "late")) {
		out->time.tsc += 1000;
		out->time.ns += 1000;
	}
	return 1;
}

static int decode_mutant(void *dec, struct aux_flow *out, size_t max)
{
	struct mutant *m = dec;
	size_t n = 0;
	int rc;

	if (turn(m, "stop"))
		return -AUX_E_UNSUPPORTED;
	if (m->over || turn(m, "end"))
		return 0;
	while (!n) {
		rc = REAL.decode(m->dec, m->in,
				 max / 2 < BATCH ? max / 2 : BATCH);
		if (rc <= 0)
			return rc;
		for (int i = 0; i < rc; i++) {
			if (m->in[i].kind == AUX_FLOW_POWER && turn(m, "end-power")) {
				m->over = 1;
				return (int)n;
			}
			n += break_event(m, &m->in[i], &out[n]);
		}
	}
	for (size_t i = 0; m->host->paths && i < n && i < BATCH; i++)
		if (out[i].kind == AUX_FLOW_RANGE)
			make_path(m, i, &out[i]);
	return (int)n;
}

const struct aux_decoder_ops aux_decoder_plugin = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(aux_decoder_plugin),
	.name = "mutant",
	.help = "another decoder with a fault",
	.open = open_mutant,
	.start = start_mutant,
	.decode = decode_mutant,
	.close = close_mutant,
};
