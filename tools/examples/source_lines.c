/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * source_lines: what of a program's source ran, and how often. Each instruction that
 * ran is shown once, with the functions that are inlined there and their lines, as
 * `addr2line -a -i -f` shows them: the address (here an offset in the file) and the
 * number of times, then two lines for each function.
 *
 *	cc source_lines.c $(pkg-config --cflags --libs libauxdecode) -o source_lines
 *	source_lines perf.data /path/of/program
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decode.h>

#define MAX_INSNS  65536
#define MAX_FRAMES 32
#define N_SLOTS	   (1 << 20) /* a power of two */

/* One address; a program that is mapped elsewhere later has another space. */
struct spot {
	const struct aux_decode_space *space;
	uint64_t ip, offset, n;
};

struct spots {
	struct aux_decode *d;
	const char *dso;
	struct spot slots[N_SLOTS];
	size_t n;
};

/* NULL: it is none of the program's, or there are too many. */
static struct spot *find_spot(struct spots *s,
			      const struct aux_decode_space *space, uint64_t ip)
{
	uint64_t h = (ip ^ (uintptr_t)space) * UINT64_C(0x9e3779b97f4a7c15);
	struct aux_decode_symbol sym = { .size = sizeof(sym) };
	struct spot *v = s->slots;
	size_t at = h >> 44 & (N_SLOTS - 1);

	for (; v[at].ip; at = (at + 1) & (N_SLOTS - 1))
		if (v[at].ip == ip && v[at].space == space)
			return &v[at];
	if (s->n >= N_SLOTS / 2 ||
	    aux_decode_symbol(s->d, space, ip, &sym) < 0 || !sym.dso ||
	    strcmp(sym.dso, s->dso))
		return NULL;
	s->n++;
	v[at] = (struct spot){ space, ip, sym.dso_offset, 0 };
	return &v[at];
}

static int take_flow(void *priv, const struct aux_decode_ctx *ctx,
		     const struct aux_flow *ev, size_t n)
{
	static uint64_t ips[MAX_INSNS];
	struct spots *s = priv;

	for (size_t i = 0; i < n; i++) {
		int64_t k = -1;

		if (ev[i].kind == AUX_FLOW_RANGE)
			k = aux_decode_expand(s->d, ctx->space, &ev[i], ips,
					      MAX_INSNS);
		for (int64_t j = 0; j < k && j < MAX_INSNS; j++) {
			struct spot *p = find_spot(s, ctx->space, ips[j]);

			if (p)
				p->n++;
		}
	}
	return 0;
}

/* The innermost function comes first; each has the line that it is at: the first
 * one that of the instruction, the others that of the call that was inlined. */
static void print_spot(struct aux_decode *d, const struct spot *p)
{
	struct aux_decode_frame f[MAX_FRAMES];
	int n = aux_decode_frames(d, p->space, p->ip, f, sizeof(f[0]),
				  MAX_FRAMES);

	printf("0x%016" PRIx64 " %" PRIu64 "\n", p->offset, p->n);
	for (int i = 0; i < n && i < MAX_FRAMES; i++)
		printf("%s\n%s:%" PRIu32 "\n",
		       f[i].function ? f[i].function : "??",
		       f[i].file ? f[i].file : "??", f[i].line);
	if (n <= 0)
		printf("??\n??:0\n");
}

static int compare_spots(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void print_spots(struct spots *s)
{
	size_t n = 0;

	for (size_t i = 0; i < N_SLOTS; i++)
		if (s->slots[i].ip)
			s->slots[n++] = s->slots[i];
	qsort(s->slots, n, sizeof(s->slots[0]), compare_spots);
	for (size_t i = 0; i < n; i++)
		print_spot(s->d, &s->slots[i]);
}

int main(int argc, char **argv)
{
	struct aux_decode_options options = { .size = sizeof(options),
					      .flags = AUX_DECODE_NO_TIMES };
	struct aux_decode_sink sink = { .size = sizeof(sink),
					.flow = take_flow };
	struct aux_diag diag = { 0 };
	struct spots *s = calloc(1, sizeof(*s));
	struct aux_decode_stats st = { .size = sizeof(st) };
	int rc = s ? 0 : -AUX_E_NOMEM;

	if (argc != 3) {
		fprintf(stderr, "usage: source_lines FILE PROGRAM\n");
		free(s);
		return 2;
	}
	if (rc == 0)
		rc = aux_decode_open(&s->d, argv[1], &options, &diag);
	if (rc == 0) {
		s->dso = argv[2];
		sink.priv = s;
		rc = aux_decode_run(s->d, &sink, &diag);
		print_spots(s);
		aux_decode_get_stats(s->d, &st);
		aux_decode_close(s->d);
	}
	if (rc < 0)
		fprintf(stderr, "source_lines: %s\n",
			diag.code ? diag.text : aux_strerror(rc));
	else if (st.lossy)
		fprintf(stderr, "source_lines: parts are missing, more may have run\n");
	free(s);
	return rc < 0 ? 1 : st.lossy ? 3 : 0;
}
