/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api_use FILE OTHER TID [PLUGIN]: uses libauxdecode in the ways that the examples do
 * not; t_api.sh builds it against the installed tree. FILE and OTHER are recordings,
 * TID a thread of FILE. Each line is "ok TEXT" or "not ok TEXT".
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/decode.h>

struct sum {
	uint64_t n_insns, n_events, hash, limit;
	uint32_t tid;
	int one_tid, fail;
};

static void check(int fine, const char *text)
{
	printf("%s %s\n", fine ? "ok" : "not ok", text);
}

static void add(struct sum *s, const struct aux_decode_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (ev[i].kind != AUX_FLOW_RANGE)
			continue;
		s->n_events++;
		s->n_insns += ev[i].n;
		s->hash = (s->hash + ev[i].range.first + ev[i].n + ctx->tid) *
			  UINT64_C(0x9e3779b97f4a7c15);
		s->one_tid &= ctx->tid == s->tid;
	}
}

static int flow(void *priv, const struct aux_decode_ctx *ctx,
		const struct aux_flow *ev, size_t n)
{
	struct sum *s = (struct sum *)priv;

	add(s, ctx, ev, n);
	if (s->limit && s->n_events >= s->limit)
		return s->fail ? s->fail : 1;
	return 0;
}

static struct sum pull(struct aux_decode *d)
{
	struct sum s = { .one_tid = 1 };
	struct aux_decode_batch b;
	int rc;

	while ((rc = aux_decode_next(d, &b, NULL)) > 0)
		add(&s, &b.ctx, b.events, b.n);
	s.fail = rc;
	return s;
}

static struct aux_decode *open_file(const char *path,
				    struct aux_decode_options *o)
{
	struct aux_diag diag = { .code = 0 };
	struct aux_decode *d = NULL;

	if (o)
		o->size = sizeof(*o);
	if (aux_decode_open(&d, path, o, &diag))
		printf("# %s\n", diag.text);
	return d;
}

static void *pull_file(void *path)
{
	struct aux_decode *d = open_file((const char *)path, NULL);
	struct sum *s = (struct sum *)malloc(sizeof(*s));

	*s = pull(d);
	aux_decode_close(d);
	return s;
}

static int equal(const struct sum *a, const struct sum *b)
{
	return a->n_insns == b->n_insns && a->hash == b->hash && a->n_insns;
}

/* Pulled, pushed, twice, and half. */
static struct sum check_passes(const char *path)
{
	struct aux_decode *d = open_file(path, NULL);
	struct aux_decode_stats st = { .size = sizeof(st) };
	struct aux_decode_sink sink = { .size = sizeof(sink), .flow = flow };
	struct aux_decode_batch b;
	struct aux_diag diag = { .code = 0 };
	struct sum first = pull(d), again, half = { .limit = 5 };
	struct sum pushed = { .one_tid = 1 };

	aux_decode_get_stats(d, &st);
	check(st.n_insns == first.n_insns && st.decoder, "stats agree");
	check(aux_decode_next(d, &b, NULL) == 0 && !b.n, "the end stays");
	aux_decode_rewind(d);
	again = pull(d);
	check(equal(&first, &again), "rewind: the same again");
	sink.priv = &pushed;
	check(aux_decode_run(d, &sink, &diag) == 0 && equal(&first, &pushed),
	      "pushed as pulled");
	sink.priv = &half;
	check(aux_decode_run(d, &sink, &diag) == 0 && half.n_events >= 5 &&
	      half.n_insns < first.n_insns, "1 of a sink is enough");
	half = (struct sum){ .limit = 1, .fail = -AUX_E_LIMIT };
	check(aux_decode_run(d, &sink, &diag) == -AUX_E_LIMIT &&
	      diag.code == AUX_E_LIMIT, "an error of a sink comes back");
	aux_decode_rewind(d);
	aux_decode_next(d, &b, NULL);
	pushed = (struct sum){ .one_tid = 1 };
	sink.priv = &pushed;
	aux_decode_run(d, &sink, NULL);
	check(equal(&first, &pushed), "run begins anew, in the middle of pulling");
	aux_decode_next(d, &b, NULL);
	aux_decode_close(d);	/* in the middle */
	return first;
}

static void check_two(const char *path, const char *other, const struct sum *want)
{
	struct aux_decode *a = open_file(path, NULL), *b = open_file(other, NULL);
	struct sum sa = { .one_tid = 1 }, sb = sa, *both[4];
	struct aux_decode_batch ba, bb;
	pthread_t threads[4];
	int ra = 1, rb = 1, fine = 1;

	while (ra > 0 || rb > 0) {
		ra = aux_decode_next(a, &ba, NULL);
		rb = aux_decode_next(b, &bb, NULL);
		add(&sa, &ba.ctx, ba.events, ba.n);
		add(&sb, &bb.ctx, bb.events, bb.n);
	}
	check(equal(&sa, want) && sb.n_insns, "two recordings, in turns");
	aux_decode_close(a);
	aux_decode_close(b);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, pull_file,
			       (void *)(uintptr_t)(i & 1 ? other : path));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], (void **)&both[i]);
		fine &= equal(both[i], i & 1 ? &sb : &sa);
		free(both[i]);
	}
	check(fine, "four at once, each in a thread of its own");
}

static void check_options(const char *path, uint32_t tid, const struct sum *all)
{
	struct { struct aux_decode_options o; uint64_t more; } newer;
	struct aux_decode_options o = { .flags = AUX_DECODE_ONE_TID, .tid = tid };
	struct aux_decode *d = open_file(path, &o);
	struct aux_diag diag = { .code = 0 };
	struct sum s = { .one_tid = 1, .tid = tid }, jobs;
	struct aux_decode_batch b;

	while (aux_decode_next(d, &b, NULL) > 0)
		add(&s, &b.ctx, b.events, b.n);
	check(s.one_tid && s.n_insns && s.n_insns < all->n_insns, "one thread");
	aux_decode_close(d);
	o = (struct aux_decode_options){ .n_workers = 3, .chunk_min = 512,
					 .max_memory = 65536 };
	d = open_file(path, &o);
	jobs = pull(d);
	check(equal(&jobs, all), "three workers: the same");
	aux_decode_close(d);
	memset(&newer, 0, sizeof(newer));
	newer.o.size = sizeof(newer);
	check(aux_decode_open(&d, path, &newer.o, &diag) == 0,
	      "options of a newer header, all 0");
	aux_decode_close(d);
	newer.more = 1;
	check(aux_decode_open(&d, path, &newer.o, &diag) == -AUX_E_UNSUPPORTED &&
	      !d && diag.text[0], "options of a newer header are refused");
	o = (struct aux_decode_options){ .size = 0 };
	check(aux_decode_open(&d, path, &o, &diag) == -AUX_E_INVAL,
	      "options without a size are refused");
	check(aux_decode_open(&d, "/no/such/file", NULL, &diag) < 0 && !d &&
	      strstr(diag.text, "o such file"), "no file: says why");
	check(aux_decode_open(&d, "/no/such/file", NULL, NULL) < 0,
	      "a diag need not be");
	o = (struct aux_decode_options){ .decoder = "nonsense" };
	d = open_file(path, &o);
	check(aux_decode_next(d, &b, &diag) < 0 && strstr(diag.text, "pt"),
	      "no such decoder: those there are");
	check(aux_decode_next(d, &b, NULL) < 0, "an error stays");
	aux_decode_close(d);
}

static char *read_all(const char *path, uint64_t *n)
{
	FILE *f = fopen(path, "rb");
	char *data;

	fseek(f, 0, SEEK_END);
	*n = (uint64_t)ftell(f);
	rewind(f);
	data = (char *)malloc(*n);
	check(fread(data, 1, *n, f) == *n, "read");
	fclose(f);
	return data;
}

/* Gaps of loss in the flow, each the last of its batch; bit 31: one of them was
 * nobody's, and something came after it that was not. */
static unsigned count_losses(struct aux_decode *d)
{
	struct aux_decode_batch b;
	unsigned n = 0;
	int last = 0;

	while (aux_decode_next(d, &b, NULL) > 0)
		for (size_t i = 0; i < b.n; i++) {
			int nobody = b.ctx.stream == UINT32_MAX;

			if (last && !nobody)
				n |= 1u << 31;
			last |= nobody;
			if (b.events[i].kind == AUX_FLOW_GAP)
				n += aux_gap_is_loss(b.events[i].what) != 0;
		}
	return n;
}

static int take_losses(void *priv, const struct aux_decode_ctx *ctx,
		       const struct aux_flow *ev, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++)
		if (ev[i].kind == AUX_FLOW_GAP)
			*(unsigned *)priv += aux_gap_is_loss(ev[i].what) != 0;
	return 0;
}

/* One beginning of a recording: 1: it says that it is cut, in all ways; 0: in
 * none; -1: it is no recording any more; -2: its ways differ. */
static int says_cut(const char *data, uint64_t n)
{
	struct aux_decode_options o = { .size = sizeof(o), .data = data,
					.n_data = n };
	struct aux_decode_stats before = { .size = sizeof(before) };
	struct aux_decode_stats after = before;
	unsigned pulled, pushed = 0;
	struct aux_decode_sink sink = { .size = sizeof(sink), .priv = &pushed,
					.flow = take_losses };
	struct aux_decode *d;
	char why[200], then[200];
	int lossy;

	if (aux_decode_open(&d, NULL, &o, NULL))
		return -1;
	aux_decode_get_stats(d, &before);
	aux_decode_missing(d, why, sizeof(why));
	pulled = count_losses(d);
	aux_decode_get_stats(d, &after);
	aux_decode_missing(d, then, sizeof(then));
	aux_decode_run(d, &sink, NULL);
	aux_decode_close(d);
	lossy = before.lossy != 0;
	return lossy == (after.lossy != 0) && lossy == (pulled != 0) &&
	       lossy == (why[0] != 0) && !strcmp(why, then) &&
	       pulled == pushed && pulled == after.n_gaps ? lossy : -2;
}

/* Cut anywhere, a recording does not end as a whole one does. */
static void check_cut(const char *path)
{
	unsigned cut = 0, whole = 0, none = 0, differ = 0;
	uint64_t n;
	char *data = read_all(path, &n);

	for (uint64_t at = n - 1; at > 0; at -= at > 97 ? 97 : at)
		switch (says_cut(data, at)) {
		case 1: cut++; break;
		case 0: whole++; break;
		case -1: none++; break;
		default: differ++;
		}
	printf("# cut %u whole %u none %u differ %u\n", cut, whole, none, differ);
	check(says_cut(data, n) == 0, "a whole recording has no gap");
	check(cut > 50 && !whole && !differ && none < cut / 4,
	      "a cut one ends with one, pulled and pushed, and says why");
	free(data);
}

static void check_memory(const char *path, const struct sum *all)
{
	struct aux_decode_options o = { .flags = 0 };
	char *data = read_all(path, &o.n_data);
	struct aux_decode *d;
	struct sum s;

	o.data = data;
	d = open_file(NULL, &o);
	s = pull(d);
	check(equal(&s, all), "a recording in memory");
	aux_decode_close(d);
	free(data);
}

/* What is behind addresses. */
static void check_code(const char *path)
{
	struct aux_decode_symbol sym = { .size = sizeof(sym) };
	struct aux_decode *d = open_file(path, NULL);
	int named = 0, coded = 1, fits = 1;
	struct aux_decode_batch b;
	struct aux_code code;
	uint64_t ips[4];
	char why[200];

	while (aux_decode_next(d, &b, NULL) > 0)
		for (size_t i = 0; i < b.n; i++) {
			const struct aux_flow *ev = &b.events[i];

			if (ev->kind != AUX_FLOW_RANGE)
				continue;
			fits &= aux_decode_expand(d, b.ctx.space, ev, ips, 4) ==
				ev->n && ips[0] == ev->range.first;
			coded &= !aux_decode_code(d, b.ctx.space,
						  ev->range.first, &code) &&
				 code.start <= ev->range.first &&
				 code.end > ev->range.first;
			aux_decode_symbol(d, b.ctx.space, ev->range.first, &sym);
			named += sym.name && sym.dso &&
				 ev->range.first - sym.start < sym.n_bytes;
			aux_decode_explain(d, b.ctx.space, 16, why, sizeof(why));
		}
	check(fits, "ranges expand");
	check(coded, "code behind each range");
	check(named > 10, "names");
	check(aux_decode_symbol(d, NULL, 16, &sym) == -AUX_E_NOENT && !sym.name,
	      "nothing is mapped in no space");
	check(why[0], "why there is no code");
	aux_decode_close(d);
}

/* Source lines: any number of frames asked for, structs of any size. */
static int frames_fit(struct aux_decode *d, const struct aux_decode_ctx *ctx,
		      uint64_t ip, int *deepest)
{
	struct aux_decode_frame all[8], one[2];
	const char *names[8], *bare = NULL;
	struct { struct aux_decode_frame f; uint64_t more; } longer[2];
	int n = aux_decode_frames(d, ctx->space, ip, all, sizeof(all[0]), 8);
	int fine = n <= 8;

	if (n < 1)
		return n == 0;
	*deepest = n > *deepest ? n : *deepest;
	memset(one, 1, sizeof(one));
	memset(longer, 1, sizeof(longer));
	fine &= aux_decode_frames(d, ctx->space, ip, NULL, 0, 0) == n &&
		aux_decode_frames(d, ctx->space, ip, one, sizeof(one[0]), 1) ==
			n && one[0].function == all[0].function &&
		one[0].line == all[0].line && one[1].line == 0x01010101;
	aux_decode_frames(d, ctx->space, ip, &longer[0].f, sizeof(longer[0]), 1);
	fine &= longer[0].f.file == all[0].file && !longer[0].more &&
		longer[1].f.line == 0x01010101;
	aux_decode_frames(d, ctx->space, ip, (struct aux_decode_frame *)names,
			  sizeof(names[0]), 8);
	for (int i = 0; i < n && fine; i++)
		fine = names[i] == all[i].function && all[i].entry <= ip;
	return fine && aux_decode_frames(d, ctx->space, ip,
					 (struct aux_decode_frame *)&bare, 1,
					 1) == -AUX_E_INVAL && !bare;
}

static void check_frames(const char *path)
{
	struct aux_decode *d = open_file(path, NULL);
	struct aux_decode_frame f = { .line = 7 };
	struct aux_decode_batch b;
	int fine = 1, deepest = 0;

	while (aux_decode_next(d, &b, NULL) > 0)
		for (size_t i = 0; i < b.n; i++)
			if (b.events[i].kind == AUX_FLOW_RANGE)
				fine &= frames_fit(d, &b.ctx,
						   b.events[i].range.last,
						   &deepest);
	check(fine && deepest, "frames: as many as there are, of any size");
	check(aux_decode_frames(d, NULL, 16, &f, sizeof(f), 1) ==
	      -AUX_E_NOENT && f.line == 7, "no frames where nothing is mapped");
	aux_decode_close(d);
}

static void check_plugin(const char *path, const char *plugin)
{
	struct aux_decode_options o = { .plugin = plugin };
	struct aux_decode_stats st = { .size = sizeof(st) };
	struct aux_decode *d = open_file(path, &o);

	pull(d);
	aux_decode_get_stats(d, &st);
	check(st.decoder && !strcmp(st.decoder, "bytes"), "a decoder of one's own");
	aux_decode_close(d);
	check(aux_decoder_find("pt", AUX_TRACE_INTEL_PT, NULL) &&
	      aux_decoder_get(0) && !aux_decoder_get(1000), "decoders by name");
}

int main(int argc, char **argv)
{
	struct sum all;

	if (argc < 4)
		return 2;
	check(aux_decode_version() == AUX_DECODE_VERSION, "version");
	all = check_passes(argv[1]);
	check_two(argv[1], argv[2], &all);
	check_options(argv[1], (uint32_t)strtoul(argv[3], NULL, 10), &all);
	check_memory(argv[1], &all);
	check_cut(argv[1]);
	check_code(argv[1]);
	check_frames(argv[1]);
	if (argc > 4)
		check_plugin(argv[1], argv[4]);
	return 0;
}
