/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_libipt: how fast a bare libipt loop decodes a recording.
 *
 * The yardstick for auxdecode: every AUX stream of an Intel PT perf.data, the
 * executable mappings as sections in an image section cache, and nothing else:
 * no side-band, no time, no output. Right only for recordings of one process
 * whose mappings do not change; says how many instructions it saw, so that a
 * figure from a trace that does not decode is not mistaken for speed.
 *
 *	bench_libipt insn|block FILE [SYMFS]
 */
#include <intel-pt.h>

#include "tools/bench.h"

#define CACHE_LIMIT (UINT64_C(256) << 20)

struct bench {
	struct streams streams;
	struct pt_image *image;
	struct pt_image_section_cache *cache;
	const char *symfs;
	uint64_t n_insns, n_errors;
};

static int take_record(void *priv, const struct aux_event *ev,
		       struct aux_diag *diag)
{
	struct bench *b = priv;
	char path[4096];
	int isid;

	(void)diag;
	if (!mapped_file(path, b->symfs, ev))
		return 0;
	isid = pt_iscache_add_file(b->cache, path, ev->mmap.pgoff, ev->mmap.len, ev->mmap.addr);
	if (isid > 0)
		pt_image_add_cached(b->image, b->cache, isid, NULL);
	return 0;
}

static void run_insn(struct bench *b, const struct pt_config *config)
{
	struct pt_insn_decoder *d = pt_insn_alloc_decoder(config);
	struct pt_insn insn;
	struct pt_event ev;
	int status = 0;

	if (!d)
		return;
	pt_insn_set_image(d, b->image);
	while ((status = pt_insn_sync_forward(d)) >= 0) {
		for (;;) {
			while (status >= 0 && (status & pts_event_pending))
				status = pt_insn_event(d, &ev, sizeof(ev));
			if (status < 0 || (status & pts_eos))
				break;
			status = pt_insn_next(d, &insn, sizeof(insn));
			if (status < 0)
				break;
			b->n_insns++;
		}
		if (status == -pte_eos || (status >= 0 && (status & pts_eos)))
			break;
		b->n_errors++;
	}
	pt_insn_free_decoder(d);
}

static void run_block(struct bench *b, const struct pt_config *config)
{
	struct pt_block_decoder *d = pt_blk_alloc_decoder(config);
	struct pt_block block;
	struct pt_event ev;
	int status = 0;

	if (!d)
		return;
	pt_blk_set_image(d, b->image);
	while ((status = pt_blk_sync_forward(d)) >= 0) {
		for (;;) {
			while (status >= 0 && (status & pts_event_pending))
				status = pt_blk_event(d, &ev, sizeof(ev));
			if (status < 0 || (status & pts_eos))
				break;
			status = pt_blk_next(d, &block, sizeof(block));
			b->n_insns += block.ninsn;
			if (status < 0)
				break;
		}
		if (status == -pte_eos || (status >= 0 && (status & pts_eos)))
			break;
		b->n_errors++;
	}
	pt_blk_free_decoder(d);
}

int main(int argc, char **argv)
{
	static struct bench b;
	struct pt_config config;
	double start;
	uint32_t i;
	int blocks;

	if (argc < 3 || (strcmp(argv[1], "insn") && strcmp(argv[1], "block"))) {
		fputs("usage: bench_libipt insn|block FILE [SYMFS]\n", stderr);
		return 2;
	}
	blocks = !strcmp(argv[1], "block");
	b.symfs = argc > 3 ? argv[3] : "";
	b.image = pt_image_alloc(NULL);
	b.cache = pt_iscache_alloc(NULL);
	if (!b.image || !b.cache)
		return 1;
	pt_iscache_set_limit(b.cache, CACHE_LIMIT);
	if (load(&b.streams, "bench_libipt", argv[2], take_record, &b) < 0)
		return 1;
	start = seconds();
	for (i = 0; i < b.streams.n; i++) {
		pt_config_init(&config);
		config.begin = b.streams.s[i].data;
		config.end = b.streams.s[i].data + b.streams.s[i].len;
		if (!b.streams.s[i].len)
			continue;
		if (blocks)
			run_block(&b, &config);
		else
			run_insn(&b, &config);
	}
	start = seconds() - start;
	print_speed(blocks ? "libipt block" : "libipt insn", b.n_insns, start, &b.streams,
		    b.n_errors);
	return 0;
}
