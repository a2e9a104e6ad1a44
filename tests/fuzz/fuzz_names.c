/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as the names that a recording brings: of functions, files, threads, cgroups.
 * A small flow goes through every writer of text and every export. Whatever the names:
 * text holds no control characters, and what merge takes back it takes.
 */
#include <fcntl.h>

#include "common/clean.h"
#include "common/outbuf.h"
#include "decode/cmd/cmd.h"
#include "decode/coverage/coverage.h"
#include "decode/coverage/impl.h"
#include "decode/profile/profile.h"
#include "tests/fuzz/files.h"
#include "tests/unit/fakehost.h"
#include "tests/unit/fakeoptions.h"

#define N_NAMES 6

static char names[N_NAMES][512];

/* The input is cut at its zeros; what is missing is plain. */
static void take_names(const uint8_t *data, size_t len)
{
	for (unsigned i = 0; i < N_NAMES; i++) {
		const uint8_t *end = memchr(data, 0, len);
		size_t n = end ? (size_t)(end - data) : len;
		size_t kept = n < sizeof(names[0]) ? n : sizeof(names[0]) - 1;

		memcpy(names[i], data, kept);
		names[i][kept] = '\0';
		if (!kept)
			snprintf(names[i], sizeof(names[0]), "name%u", i);
		data += n + (end != NULL);
		len -= n + (end != NULL);
	}
}

static int symbol(void *priv, const struct space *space, uint64_t ip,
		  struct symbol *sym)
{
	int rc = fake_symbol(priv, space, ip, sym);

	if (sym->dso)
		sym->dso = names[2];
	if (sym->name)
		sym->name = names[sym->start != BASE];
	return rc;
}

static const char *comm(void *priv, uint32_t tid, uint64_t time)
{
	(void)priv;
	(void)tid;
	return names[3 + (time > 1500)];
}

static const char *cgroup(void *priv, uint32_t tid, uint64_t time)
{
	(void)priv;
	(void)tid;
	(void)time;
	return names[5];
}

static int line_at(void *priv, const struct space *space, uint64_t ip,
		   struct source_line *line)
{
	(void)priv;
	(void)space;
	if (ip < BASE || ip >= BASE + sizeof(fake_code))
		return -AUX_E_NOENT;
	*line = (struct source_line){ .file = names[4],
				      .line = (uint32_t)(ip - BASE) + 1 };
	return 0;
}

static int inlines(void *priv, const struct space *space, uint64_t ip,
		   struct inline_frame *frames, size_t max)
{
	for (size_t i = 0; i < 2 && i < max; i++)
		frames[i] = (struct inline_frame){ .name = names[i],
						   .linkage = names[1 - i],
						   .entry = ip, .id = i + 1 };
	if (max)
		line_at(priv, space, ip, &frames[0].call);
	return 2;
}

static const struct space space = { .id = 5, .pid = 7 };

static int feed(const struct sink_ops *ops, void *sink, uint32_t tid,
		uint64_t time)
{
	struct flow_ctx ctx = { .space = &space, .pid = 7, .tid = tid,
				.cpu = 2, .time_ns = time };
	const struct aux_flow ev[] = {
		{ .kind = AUX_FLOW_TRACE_ON, .flags = AUX_FLOW_HAS_IP,
		  .trace = { .ip = BASE } },
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		range(BASE + 9, BASE + 0xb, 2, AUX_END_COND_TAKEN, 2),
		range(BASE + 4, BASE + 4, 1, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x14, 2, AUX_END_FALL, 2),
		{ .kind = AUX_FLOW_GAP, .flags = AUX_FLOW_HAS_IP },
		range(BASE, BASE + 4, 3, AUX_END_CALL, 5),
		range(BASE + 0x10, BASE + 0x16, 3, AUX_END_RET, 1),
		{ .kind = AUX_FLOW_TRACE_OFF },
	};

	return ops->flow(sink, &ctx, ev, sizeof(ev) / sizeof(ev[0]));
}

/* What is of lines and for people and other programs. */
static void check_text(const struct outbuf *out)
{
	const char *end = out->p;
	size_t size;

	for (const char *p = out->buf; p < end; p += size) {
		size_t n = (size_t)(end - p);

		size = 1;
		if (*p != '\n' && *p != '\t')
			ASSERT(clean_char(p, n < 4 ? n : 4, &size));
	}
}

/* merge of the one file takes it. */
static void check_merge(const struct outbuf *out)
{
	char path[sizeof(files_dir) + 8];
	const char *paths[] = { path }, *which = NULL;
	struct outbuf *sum = outbuf_new(-1);
	struct aux_diag diag = { 0 };
	int rc;

	snprintf(path, sizeof(path), "%s/result", files_dir);
	files_write("result", 6, (const uint8_t *)out->buf,
		    (size_t)(out->p - out->buf));
	if (coverage_merge_is_file(path))
		rc = coverage_merge(paths, 1, sum, &which, &diag);
	else if (merge_pprof_is_file(path))
		rc = merge_pprof(paths, 1, sum, &which, &diag);
	else
		rc = merge_folded(paths, 1, sum, &which, &diag);
	ASSERT(!rc);
	outbuf_free(sum);
	files_remove();
}

/* table */
static const struct {
	const char *command, *option, *value;
	bool text, merged;
} cases[] = {
	{ "insn", "fields", "comm,cgroup,sym,dso,insn,ip", true, false },
	{ "insn", "source", NULL, true, false },
	{ "branch", NULL, NULL, true, false },
	{ "count", NULL, NULL, true, false },
	{ "calls", "source", NULL, true, false },
	{ "calls", "inline", NULL, true, false },
	{ "flame", NULL, NULL, true, true },
	{ "flame", "svg", NULL, true, false },
	{ "hot", NULL, NULL, true, false },
	{ "hot", "edges", NULL, true, false },
	{ "hot", "blocks", NULL, true, false },
	{ "report", NULL, NULL, true, false },
	{ "export", "to", "callgrind", true, false },
	{ "export", "to", "chrome", true, false },
	{ "export", "to", "jsonl", true, false },
	{ "export", "to", "firefox", true, false },
	{ "export", "to", "speedscope", true, false },
	{ "export", "to", "perfetto", false, false },
	{ "export", "to", "fxt", false, false },
	{ "export", "to", "pprof", false, true },
	{ "export", "to", "sqlite", false, false },
};

static void *config_of(const struct sink_ops *ops, unsigned i)
{
	void *config = calloc(1, ops->config_size + 1);

	ASSERT(config);
	if (ops->defaults)
		ops->defaults(config);
	if (cases[i].option)
		fake_option(ops, config, cases[i].option, cases[i].value);
	return config;
}

static void run_case(unsigned i)
{
	const struct sink_ops *ops = cmd_find(cases[i].command)->sink;
	char path[sizeof(files_dir) + 8];
	struct fake fake = { 0 };
	struct sink_host host = fake_host(&fake);
	struct sink_report report = { 0 };
	struct sink_env env = { .out = outbuf_new(-1), .host = &host,
				.report = &report, .path = names[2],
				.out_path = path, .time_to = UINT64_MAX };
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	void *config = config_of(ops, i), *sink;

	host.symbol = symbol;
	host.comm = comm;
	host.cgroup = cgroup;
	host.line = line_at;
	host.inlines = inlines;
	snprintf(path, sizeof(path), "%s/db", files_dir);
	ASSERT(env.out && !ops->open(&sink, &env, config, &diag));
	ASSERT(feed(ops, sink, 7, 1000) >= 0 && feed(ops, sink, 8, 2000) >= 0);
	ASSERT(!ops->finish(sink, &diag));
	ops->close(sink);
	if (cases[i].text)
		check_text(env.out);
	if (cases[i].merged)
		check_merge(env.out);
	outbuf_free(env.out);
	unlink(path);
	free(config);
}

/* The writers of coverage, whose names come from files of code. */
static void run_coverage(void)
{
	struct cover_lines l = { 0 };
	struct cover_line lines[] = { { 0, 1, 3 }, { 0, 2, 0 }, { 1, 1, 7 } };
	struct cover_function functions[] = {
		{ .file = 0, .name = names[0], .line = 1, .n = 2 },
		{ .file = 1, .name = names[1], .line = 1, .n = 0 },
	};
	struct cover_module modules[] = { { .path = names[2], .end = 4096 },
					  { .path = names[3], .end = 8192 } };
	struct cover_block blocks[] = { { .off = 16, .n = 1, .size = 4 },
					{ .off = 8, .n = 1, .size = 4,
					  .module = 1 } };
	struct cover_tally tally = { .modules = modules, .n_modules = 2,
				     .blocks = blocks, .n_blocks = 2 };
	char *file_names[] = { names[4], names[5] };
	struct outbuf *out = outbuf_new(-1);
	uint64_t n;

	l.files = file_names;
	l.lines = lines;
	l.functions = functions;
	l.n_files = l.n_functions = 2;
	l.n_lines = 3;
	ASSERT(out);
	cover_print_lcov(&l, out);
	check_text(out);
	check_merge(out);
	outbuf_free(out);
	out = outbuf_new(-1);
	cover_tally_sort(&tally);
	ASSERT(out && !cover_print_drcov(&tally, out, &n));
	check_merge(out);
	outbuf_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	files_start();
	take_names(data, len);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(i);
	run_coverage();
	return 0;
}
