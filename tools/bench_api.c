/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_api: opens and decodes each file N times in one process, through libauxdecode, as a
 * program does that looks at thousands of short traces (a fuzzer). What is learned of the
 * code may survive from one to the next.
 *
 *	bench_api N SYMFS FILE...
 *
 * Prints the instructions of one round, and seconds for one file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <aux/decode.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int count(void *priv, const struct aux_decode_ctx *ctx,
		 const struct aux_flow *events, size_t n)
{
	uint64_t *insns = priv;

	(void)ctx;
	for (size_t i = 0; i < n; i++)
		if (events[i].kind == AUX_FLOW_RANGE)
			*insns += events[i].n;
	return 0;
}

/* Adds the file's instructions. */
static int decode(const char *path, const char *symfs, uint64_t *insns)
{
	struct aux_decode_options options = { .size = sizeof(options), .n_workers = 1,
					      .symfs = symfs };
	struct aux_decode_sink sink = { .size = sizeof(sink), .flow = count, .priv = insns };
	struct aux_diag diag = { 0 };
	struct aux_decode *d;
	int err = aux_decode_open(&d, path, &options, &diag);

	if (!err)
		err = aux_decode_run(d, &sink, &diag);
	aux_decode_close(d);
	if (err < 0)
		fprintf(stderr, "bench_api: %s: %s\n", path, diag.text);
	return err;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t insns = 0;
	double began;

	if (!n) {
		fprintf(stderr, "usage: bench_api N SYMFS FILE...\n");
		return 2;
	}
	began = now();
	for (unsigned long i = 0; i < n; i++)
		for (int k = 3; k < argc; k++)
			if (decode(argv[k], argv[2], &insns) < 0)
				return 1;
	printf("insns %llu, %.6f s for one\n", (unsigned long long)(insns / n),
	       (now() - began) / (double)n / (argc - 3));
	return 0;
}
