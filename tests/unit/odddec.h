/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A decoder around the reference that does what an engine may do: it gives whole
 * paths, kept or not, drops what it kept, and gives chunks up, at once or in the
 * middle of a RANGE.
 */
#ifndef TESTS_UNIT_ODDDEC_H
#define TESTS_UNIT_ODDDEC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decoder.h>

#define ODD_RANGES 3	/* of a path */

/* How it is to behave; for all of them. */
static struct odd_ways {
	uint64_t give_up;	/* chunks whose start divided by 64 is a multiple
				 * of it; 0: none */
	uint64_t after;		/* so many events */
	bool half;		/* and half a RANGE */
	bool paths;
	const struct aux_decoder_ops *real;
} odd_ways;

static atomic_uint odd_n_stores, odd_n_given_up;

struct odd_path {
	struct odd_path *next;
	struct aux_path path;
	struct aux_step step, *steps[1];
	struct aux_flow ranges[ODD_RANGES];
};

struct odd {
	void *real;
	const struct aux_decoder_host *host;
	uint64_t n;		/* events of the chunk */
	uint64_t chunk;
	bool gives_up;
	struct odd_path *kept, *loose;
	unsigned n_paths;
};

static void odd_release(void *what)
{
	struct odd_path *p = what;

	while (p) {
		struct odd_path *next = p->next;

		/* whoever still looks at it will see it */
		memset(p, 0xa5, sizeof(*p));
		free(p);
		p = next;
	}
	atomic_fetch_sub(&odd_n_stores, 1);
}

static void odd_forget(struct odd *o)
{
	if (!o->kept)
		return;
	atomic_fetch_add(&odd_n_stores, 1);
	if (o->host->forget)
		o->host->forget(o->host->priv, odd_release, o->kept);
	else
		odd_release(o->kept);
	o->kept = NULL;
}

static int odd_open(void **dec, const struct aux_decoder_config *config,
		    const struct aux_decoder_host *host, struct aux_diag *diag)
{
	struct odd *o = calloc(1, sizeof(*o));

	*dec = o;
	if (!o)
		return -AUX_E_NOMEM;
	o->host = host;
	return odd_ways.real->open(&o->real, config, host, diag);
}

static int odd_start(void *dec, const struct aux_chunk *chunk)
{
	struct odd *o = dec;

	o->n = 0;
	o->chunk = chunk->stream_offset;
	o->gives_up = odd_ways.give_up &&
		      chunk->stream_offset / 64 % odd_ways.give_up == 0;
	odd_forget(o);
	if (o->gives_up && !odd_ways.after) {
		atomic_fetch_add(&odd_n_given_up, 1);
		return -AUX_E_UNSUPPORTED;
	}
	return odd_ways.real->start(o->real, chunk);
}

/* RANGEs in a row as one path. */
static int odd_fold(struct odd *o, struct aux_flow *ev, int n)
{
	int to = 0;

	for (int i = 0; i < n;) {
		struct odd_path *p;
		int k = 0;

		while (i + k < n && k < ODD_RANGES &&
		       ev[i + k].kind == AUX_FLOW_RANGE)
			k++;
		if (!k) {
			ev[to++] = ev[i++];
			continue;
		}
		p = calloc(1, sizeof(*p));
		if (!p)
			return -AUX_E_NOMEM;
		for (int j = 0; j < k; j++) {
			p->ranges[j] = ev[i + j];
			p->ranges[j].offset = 0;
			p->step.n_insns += ev[i + j].n;
		}
		p->step.ranges = p->ranges;
		p->step.n_ranges = (uint32_t)k;
		p->steps[0] = &p->step;
		p->path = (struct aux_path){ .steps = p->steps, .n_steps = 1,
					     .n_ranges = (uint32_t)k,
					     .n_insns = p->step.n_insns,
					     .kept = o->n_paths++ % 3 != 0 };
		p->next = o->kept;
		o->kept = p;
		ev[to++] = (struct aux_flow){ .kind = AUX_FLOW_PATH,
					      .offset = ev[i].offset,
					      .n = p->step.n_insns,
					      .path = { .path = &p->path } };
		i += k;
	}
	return to;
}

/* A path that is not kept dies here; its steps do not. */
static void odd_kill_loose(struct odd *o)
{
	for (struct odd_path *p = o->kept; p; p = p->next) {
		if (!p->path.kept) {
			memset(&p->path, 0x5a, sizeof(p->path));
			memset(p->steps, 0x5a, sizeof(p->steps));
			p->path.kept = 1;
		}
	}
}

static int odd_decode(void *dec, struct aux_flow *out, size_t max)
{
	struct odd *o = dec;
	int n;

	if (o->host->paths)
		odd_kill_loose(o);
	if (o->gives_up && o->n >= odd_ways.after)
		goto give_up;
	n = odd_ways.real->decode(o->real, out, max);
	if (n <= 0)
		return n;
	if (o->gives_up && o->n + (uint64_t)n > odd_ways.after) {
		struct aux_flow *ev = &out[odd_ways.after - o->n];

		n = (int)(odd_ways.after - o->n);
		/* Two instructions of a RANGE whose second byte is not asked
		 * for: nops, or a guess that the host never looks at. */
		if (odd_ways.half && ev->kind == AUX_FLOW_RANGE && ev->n > 1) {
			ev->n = 1;
			ev->range.last = ev->range.first;
			ev->what = AUX_END_FALL;
			n++;
		}
		o->n = odd_ways.after;
		if (!n)
			goto give_up;
	} else {
		o->n += (uint64_t)n;
	}
	return o->host->paths && odd_ways.paths ? odd_fold(o, out, n) : n;
give_up:
	atomic_fetch_add(&odd_n_given_up, 1);
	return -AUX_E_UNSUPPORTED;
}

static void odd_close(void *dec)
{
	struct odd *o = dec;

	if (!o)
		return;
	odd_ways.real->close(o->real);
	if (o->kept) {
		atomic_fetch_add(&odd_n_stores, 1);
		odd_release(o->kept);
	}
	free(o);
}

static const struct aux_decoder_ops odd_ops = {
	.abi = AUX_DECODER_ABI, .size = sizeof(struct aux_decoder_ops),
	.name = "odd", .help = "does what an engine may do",
	.trace_type = AUX_TRACE_INTEL_PT, .open = odd_open,
	.start = odd_start, .decode = odd_decode, .close = odd_close,
};

#endif
