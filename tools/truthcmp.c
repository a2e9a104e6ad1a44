/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * truthcmp: is this flow what really ran?
 *
 * Compares a truth file (capture/soft/truth.h) with a flow as text, thread by
 * thread: lines "TID HEXADDR" (auxdecode insn -F tid,ip, perf script -F
 * tid,ip); lines that start otherwise are counted as notes. One cursor per
 * thread walks the mapped truth, so memory does not grow with the recording.
 *
 * Exit status: 0 equal, 1 different, 2 usage or unreadable.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/iphash.h"
#include "capture/soft/truth.h"

#include "tools/truthcmp_flow.h"

#define N_CONTEXT 8	/* addresses shown around a difference */

struct range {
	uint64_t lo, hi;	/* [lo, hi) */
};

struct thread {
	uint32_t tid;
	/* truth: file offsets of this thread's blocks, and a cursor in them */
	uint64_t *blocks;
	size_t n_blocks, cap_blocks;
	size_t block;		/* of the cursor */
	const uint8_t *p, *end;	/* rest of the cursor's block */
	uint64_t ip;		/* the cursor's last address */
	/* what was met */
	struct iphash truth, flow;
	uint64_t n_ignored_truth, n_ignored_flow;
	uint64_t n_missing, n_holes;	/* gaps allowed: truth without flow */
	uint64_t before[N_CONTEXT];	/* ring of the last equal addresses */
	/* the first difference */
	bool differs, truth_ended;
	uint64_t at;			/* index in the flow */
	uint64_t truth_next[N_CONTEXT], flow_next[N_CONTEXT];
	unsigned int n_truth_next, n_flow_next;
};

struct compare {
	const uint8_t *data;	/* the truth file */
	uint64_t len;
	struct thread *threads;
	size_t n_threads;
	struct thread *last;	/* of the line before: mostly the same again */
	struct range *ignore;
	size_t n_ignore;
	bool expect_gaps, quiet;
	uint64_t n_notes;	/* flow lines that are no instruction */
	char first_note[160];
	uint64_t n_unknown;	/* instructions of threads the truth lacks */
	uint32_t unknown_tid;
};

static uint32_t u32_at(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static void *grow(void *p, size_t n, size_t size)
{
	p = reallocarray(p, n, size);
	if (!p) {
		perror("truthcmp");
		exit(2);
	}
	return p;
}

static struct thread *find_thread(struct compare *c, uint32_t tid)
{
	size_t i;

	if (c->last && c->last->tid == tid)
		return c->last;
	for (i = 0; i < c->n_threads; i++)
		if (c->threads[i].tid == tid)
			return c->last = &c->threads[i];
	return NULL;
}

static struct thread *add_thread(struct compare *c, uint32_t tid)
{
	struct thread *t = find_thread(c, tid);

	if (t)
		return t;
	c->threads = grow(c->threads, c->n_threads + 1, sizeof(*t));
	t = &c->threads[c->n_threads++];
	memset(t, 0, sizeof(*t));
	t->tid = tid;
	c->last = NULL;	/* the array may have moved */
	return t;
}

/* Maps the truth and notes where each thread's blocks are. */
static int load_truth(struct compare *c, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint64_t at = 16;

	if (fd < 0 || fstat(fd, &st)) {
		fprintf(stderr, "truthcmp: %s: %s\n", path, strerror(errno));
		return -1;
	}
	c->len = (uint64_t)st.st_size;
	c->data = c->len ? mmap(NULL, c->len, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
	close(fd);
	if (c->len < 16 || c->data == MAP_FAILED || memcmp(c->data, TRUTH_MAGIC, 8) ||
	    u32_at(c->data + 8) != TRUTH_VERSION) {
		fprintf(stderr, "truthcmp: %s: no truth file of version %d\n", path,
			TRUTH_VERSION);
		return -1;
	}
	while (at < c->len) {
		struct thread *t;
		uint64_t n;

		if (c->len - at < 16 || (n = u32_at(c->data + at + 8)) > c->len - at - 16) {
			fprintf(stderr, "truthcmp: %s@%#" PRIx64 ": cut inside a block\n",
				path, at);
			return -1;
		}
		t = add_thread(c, u32_at(c->data + at));
		if (t->n_blocks == t->cap_blocks) {
			t->cap_blocks = t->cap_blocks ? 2 * t->cap_blocks : 16;
			t->blocks = grow(t->blocks, t->cap_blocks, sizeof(*t->blocks));
		}
		t->blocks[t->n_blocks++] = at;
		at += 16 + n;
	}
	return 0;
}

/* The next address of a thread's truth; false at its end. */
static bool next_raw(struct compare *c, struct thread *t, uint64_t *ip)
{
	size_t n;

	while (t->p == t->end) {
		const uint8_t *b;

		if (t->block == t->n_blocks)
			return false;
		b = c->data + t->blocks[t->block++];
		t->p = b + 16;
		t->end = t->p + u32_at(b + 8);
	}
	n = truth_get(t->p, t->end, &t->ip);
	if (!n) {
		fprintf(stderr, "truthcmp: truth of tid %u: bad number\n", t->tid);
		exit(2);
	}
	t->p += n;
	*ip = t->ip;
	return true;
}

static bool ignored(const struct compare *c, uint64_t ip)
{
	size_t i;

	for (i = 0; i < c->n_ignore; i++)
		if (ip >= c->ignore[i].lo && ip < c->ignore[i].hi)
			return true;
	return false;
}

/* The same, without what is to be ignored. */
static bool next_truth(struct compare *c, struct thread *t, uint64_t *ip)
{
	while (next_raw(c, t, ip)) {
		if (!c->n_ignore || !ignored(c, *ip)) {
			iphash_add(&t->truth, *ip);
			return true;
		}
		t->n_ignored_truth++;
	}
	return false;
}

static void note_difference(struct compare *c, struct thread *t, bool have,
			    uint64_t truth_ip, uint64_t flow_ip)
{
	t->differs = true;
	t->truth_ended = !have;
	t->at = t->flow.n - 1;
	t->flow_next[t->n_flow_next++] = flow_ip;
	while (have && t->n_truth_next < N_CONTEXT) {
		t->truth_next[t->n_truth_next++] = truth_ip;
		if (t->n_truth_next < N_CONTEXT)
			have = next_truth(c, t, &truth_ip);
	}
}

/* One instruction of the flow. */
static void check_ip(struct compare *c, struct thread *t, uint64_t ip)
{
	uint64_t want = 0, skipped = 0;
	bool have;

	if (c->n_ignore && ignored(c, ip)) {
		t->n_ignored_flow++;
		return;
	}
	iphash_add(&t->flow, ip);
	if (t->differs) {
		if (t->n_flow_next < N_CONTEXT)
			t->flow_next[t->n_flow_next++] = ip;
		return;
	}
	have = next_truth(c, t, &want);
	while (have && want != ip && c->expect_gaps) {
		skipped++;
		have = next_truth(c, t, &want);
	}
	if (!have || want != ip) {
		note_difference(c, t, have, want, ip);
		return;
	}
	t->n_missing += skipped;
	t->n_holes += skipped != 0;
	t->before[(t->flow.n - 1) % N_CONTEXT] = ip;
}

static void check_line(void *ctx, const char *line)
{
	struct compare *c = ctx;
	struct thread *t;
	uint32_t tid;
	uint64_t ip;

	if (flow_parse(line, &tid, &ip)) {
		t = find_thread(c, tid);
		if (t) {
			check_ip(c, t, ip);
		} else if (!ignored(c, ip)) {
			c->unknown_tid = tid;
			c->n_unknown++;
		}
		return;
	}
	if (*flow_skip_blanks(line) == 0)
		return;
	if (!c->n_notes++)
		snprintf(c->first_note, sizeof(c->first_note), "%s", line);
}

static void report_difference(const struct thread *t)
{
	uint64_t i = t->at > N_CONTEXT ? t->at - N_CONTEXT : 0;
	unsigned int k;

	printf("# tid %u: first difference at instruction %" PRIu64 "%s\n", t->tid, t->at,
	       t->truth_ended ? ": the truth ends there" : "");
	for (; i < t->at; i++)
		printf("#     both  %" PRIx64 "\n", t->before[i % N_CONTEXT]);
	for (k = 0; k < t->n_truth_next || k < t->n_flow_next; k++) {
		printf("#     truth ");
		if (k < t->n_truth_next)
			printf("%-16" PRIx64, t->truth_next[k]);
		else
			printf("%-16s", "-");
		printf("  flow ");
		if (k < t->n_flow_next)
			printf("%" PRIx64 "\n", t->flow_next[k]);
		else
			printf("-\n");
	}
}

static void note_missing_end(struct compare *c, struct thread *t, uint64_t ip)
{
	note_difference(c, t, true, ip, 0);
	t->n_flow_next = 0;
	t->at = t->flow.n;
}

/* The rest of the truth, that the flow does not have. Returns: all well. */
static bool finish_thread(struct compare *c, struct thread *t)
{
	uint64_t ip, n = 0;

	while (next_truth(c, t, &ip)) {
		if (!t->differs && !c->expect_gaps)
			note_missing_end(c, t, ip);
		n++;
	}
	if (!t->differs && n) {
		t->n_missing += n;
		t->n_holes++;
	}
	if (!c->quiet || t->differs)
		printf("tid %u truth %" PRIu64 " %016" PRIx64 " flow %" PRIu64 " %016" PRIx64
		       " ignored %" PRIu64 "/%" PRIu64 " missing %" PRIu64 " in %" PRIu64
		       " %s\n", t->tid, t->truth.n, t->truth.value, t->flow.n, t->flow.value,
		       t->n_ignored_truth, t->n_ignored_flow, t->n_missing, t->n_holes,
		       t->differs ? "DIFFERENT" : t->n_missing ? "subsequence" : "equal");
	if (t->differs)
		report_difference(t);
	return !t->differs;
}

static int finish(struct compare *c)
{
	uint64_t n_truth = 0, n_flow = 0, n_missing = 0;
	bool good = !c->n_unknown;
	size_t i;

	for (i = 0; i < c->n_threads; i++) {
		struct thread *t = &c->threads[i];

		good &= finish_thread(c, t);
		n_truth += t->truth.n;
		n_flow += t->flow.n;
		n_missing += t->n_missing;
	}
	if (c->n_unknown)
		printf("# %" PRIu64 " instructions of threads that the truth lacks (tid %u)\n",
		       c->n_unknown, c->unknown_tid);
	if (c->n_notes)
		printf("# %" PRIu64 " other lines, the first: %s\n", c->n_notes, c->first_note);
	printf("total truth %" PRIu64 " flow %" PRIu64 " missing %" PRIu64 " threads %zu %s\n",
	       n_truth, n_flow, n_missing, c->n_threads,
	       !good ? "DIFFERENT" : n_missing ? "subsequence" : "equal");
	return good ? 0 : 1;
}

/* The truth as text, in file order. */
static int print_truth(struct compare *c)
{
	uint64_t at = 16;

	while (at < c->len) {
		struct thread *t = find_thread(c, u32_at(c->data + at));
		const uint8_t *p = c->data + at + 16;
		const uint8_t *end = p + u32_at(c->data + at + 8);
		size_t n;

		for (; p < end; p += n) {
			n = truth_get(p, end, &t->ip);
			if (!n)
				return 2;
			if (!ignored(c, t->ip))
				printf("%u %" PRIx64 "\n", t->tid, t->ip);
		}
		at = (uint64_t)(end - c->data);
	}
	return 0;
}

static int print_counts(struct compare *c)
{
	uint64_t ip;
	size_t i;

	for (i = 0; i < c->n_threads; i++) {
		struct thread *t = &c->threads[i];

		while (next_truth(c, t, &ip))
			;
		printf("%u %" PRIu64 " %016" PRIx64 "\n", t->tid, t->truth.n, t->truth.value);
	}
	return 0;
}

static int add_range(struct compare *c, const char *text)
{
	struct range r;
	char *end;

	r.lo = strtoull(text, &end, 16);
	if (end == text || *end != '-')
		return -1;
	text = end + 1;
	r.hi = strtoull(text, &end, 16);
	if (end == text || r.hi <= r.lo)
		return -1;
	c->ignore = grow(c->ignore, c->n_ignore + 1, sizeof(r));
	c->ignore[c->n_ignore++] = r;
	return 0;
}

static int add_ranges(struct compare *c, const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];
	int err = 0;

	if (!f)
		return -1;
	while (!err && fgets(line, sizeof(line), f))
		if (line[0] != '#' && line[0] != '\n')
			err = add_range(c, line);
	fclose(f);
	return err;
}

static int usage(void)
{
	fputs("usage: truthcmp [OPTIONS] TRUTH [FLOW|-]\n"
	      "  --expect-gaps         the flow may lack instructions, nothing else\n"
	      "  --ignore LO-HI        addresses that do not count (hex, HI excluded)\n"
	      "  --ignore-ranges FILE  the same, one a line\n"
	      "  --print               the truth as \"TID HEX\" lines\n"
	      "  --count               instructions and hash of each thread of the truth\n"
	      "  -q                    no line for equal threads\n", stderr);
	return 2;
}

static int run(struct compare *c, int argc, char **argv)
{
	static const struct option options[] = {
		{ "expect-gaps", no_argument, NULL, 'g' },
		{ "ignore", required_argument, NULL, 'i' },
		{ "ignore-ranges", required_argument, NULL, 'I' },
		{ "print", no_argument, NULL, 'p' },
		{ "count", no_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	char mode = 0;
	int opt, fd = 0;

	while ((opt = getopt_long(argc, argv, "q", options, NULL)) != -1) {
		if (opt == 'g')
			c->expect_gaps = true;
		else if (opt == 'q')
			c->quiet = true;
		else if (opt == 'p' || opt == 'c')
			mode = (char)opt;
		else if (opt == 'i' ? add_range(c, optarg) :
			 opt == 'I' ? add_ranges(c, optarg) : -1)
			return usage();
	}
	if (optind == argc || argc - optind > 2)
		return usage();
	if (load_truth(c, argv[optind]))
		return 2;
	if (mode)
		return mode == 'p' ? print_truth(c) : print_counts(c);
	if (argc - optind == 2 && strcmp(argv[optind + 1], "-")) {
		fd = open(argv[optind + 1], O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			fprintf(stderr, "truthcmp: %s: %s\n", argv[optind + 1], strerror(errno));
			return 2;
		}
	}
	if (flow_read(fd, check_line, c)) {
		perror("truthcmp: flow");
		return 2;
	}
	return finish(c);
}

int main(int argc, char **argv)
{
	struct compare c = { 0 };
	int status = run(&c, argc, argv);
	size_t i;

	for (i = 0; i < c.n_threads; i++)
		free(c.threads[i].blocks);
	free(c.threads);
	free(c.ignore);
	return status;
}
