/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * count_flow: the smallest program that uses libauxdecode. It pulls the flow of a
 * recording, counts what each thread ran, and says where flow is missing.
 *
 *	cc count_flow.c $(pkg-config --cflags --libs libauxdecode) -o count_flow
 *	count_flow [--list] perf.data
 *
 * --list shows every instruction: the thread and the address. Exits with 3 where
 * something is missing, with 1 after an error.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decode.h>

#define MAX_THREADS 4096
#define MAX_INSNS 65536

struct thread {
	uint32_t tid;
	uint64_t n_insns, n_gaps;
};

struct counts {
	struct thread threads[MAX_THREADS];
	size_t n;
	bool list;
};

static struct thread *find_thread(struct counts *c, uint32_t tid)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->threads[i].tid == tid)
			return &c->threads[i];
	if (c->n == MAX_THREADS)
		return NULL;
	c->threads[c->n].tid = tid;
	return &c->threads[c->n++];
}

/* A RANGE says first, last and how many; the library knows the code between. */
static void list_range(struct aux_decode *d, const struct aux_decode_ctx *ctx,
		       const struct aux_flow *ev)
{
	static uint64_t ips[MAX_INSNS];
	int64_t n = aux_decode_expand(d, ctx->space, ev, ips, MAX_INSNS);

	for (int64_t i = 0; i < n && i < MAX_INSNS; i++)
		printf("%" PRId32 " %" PRIx64 "\n", (int32_t)ctx->tid, ips[i]);
	if (n < 0)
		printf("# %u instructions at %" PRIx64 ": %s\n", ev->n,
		       ev->range.first, aux_strerror((int)n));
}

static void print_gap(const struct aux_decode_ctx *ctx, const struct aux_flow *ev)
{
	if (ctx->stream == UINT32_MAX) {	/* of the recording itself */
		printf("gap %s: %s\n", aux_gap_name(ev->what),
		       aux_gap_text(ev->what));
		return;
	}
	printf("gap %s at offset 0x%" PRIx64 " in thread %" PRId32 ": %s\n",
	       aux_gap_name(ev->what), ev->offset, (int32_t)ctx->tid,
	       aux_gap_text(ev->what));
}

/* All events of a batch ran in one thread: batch->ctx says in which. */
static int take_batch(struct aux_decode *d, struct counts *c,
		      const struct aux_decode_batch *batch)
{
	struct thread *t, nobody = { 0 };

	/* what the recording itself lacks is of no thread */
	t = batch->ctx.stream == UINT32_MAX ? &nobody :
					      find_thread(c, batch->ctx.tid);
	if (!t)
		return -AUX_E_LIMIT;
	for (size_t i = 0; i < batch->n; i++) {
		const struct aux_flow *ev = &batch->events[i];

		switch (ev->kind) {
		case AUX_FLOW_RANGE:
			t->n_insns += ev->n;
			if (c->list)
				list_range(d, &batch->ctx, ev);
			break;
		case AUX_FLOW_GAP:	/* never pass over these */
			t->n_gaps += aux_gap_is_loss(ev->what);
			print_gap(&batch->ctx, ev);
			break;
		default:		/* times, interrupts, ptwrite, ... */
			break;
		}
	}
	return 0;
}

static void print_counts(struct aux_decode *d, const struct counts *c)
{
	struct aux_decode_stats st = { .size = sizeof(st) };
	char missing[256];

	for (size_t i = 0; i < c->n; i++)
		printf("thread %" PRId32 " %s insns %" PRIu64 " gaps %" PRIu64
		       "\n", (int32_t)c->threads[i].tid,
		       aux_decode_comm(d, c->threads[i].tid, UINT64_MAX),
		       c->threads[i].n_insns, c->threads[i].n_gaps);
	aux_decode_get_stats(d, &st);
	aux_decode_missing(d, missing, sizeof(missing));
	printf("total insns %" PRIu64 " gaps %" PRIu64 "%s%s\n", st.n_insns,
	       st.n_gaps, *missing ? ", parts are missing: " : "", missing);
}

static bool is_lossy(struct aux_decode *d)
{
	struct aux_decode_stats st = { .size = sizeof(st) };

	return aux_decode_get_stats(d, &st) < 0 || st.lossy;
}

int main(int argc, char **argv)
{
	bool list = argc > 2 && !strcmp(argv[1], "--list");
	struct aux_diag diag = { 0 };
	struct aux_decode_batch batch;
	struct aux_decode *d;
	struct counts *c;
	int rc, status;

	if (argc != 2 + list) {
		fprintf(stderr, "usage: count_flow [--list] FILE\n");
		return 2;
	}
	/* NULL: no options, the whole recording */
	rc = aux_decode_open(&d, argv[1 + list], NULL, &diag);
	if (rc < 0) {
		fprintf(stderr, "count_flow: %s\n", diag.text);
		return 1;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		return 1;
	c->list = list;
	/* 1: a batch; 0: the end; less: an error */
	while ((rc = aux_decode_next(d, &batch, &diag)) > 0)
		if ((rc = take_batch(d, c, &batch)) < 0)
			break;
	if (rc < 0)
		fprintf(stderr, "count_flow: %s\n",
			diag.code ? diag.text : aux_strerror(rc));
	else if (!list)
		print_counts(d, c);
	status = rc < 0 ? 1 : is_lossy(d) ? 3 : 0;
	free(c);
	aux_decode_close(d);
	return status;
}
