/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bench_tables: how fast the rows of a table become a file, of Parquet or as PostgreSQL's
 * COPY reads it, and in how much memory: calls of a made-up program, as auxdecode export
 * puts them.
 *
 *	bench_tables parquet|copy ROWS FILE
 *
 * Prints the CPU time of the writer alone, without that of making up the rows.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "decode/export/copy_file.h"
#include "decode/export/parquet_file.h"

#define DEPTH 60		/* of the program's stack, at most */
#define BATCH 4096		/* rows that are made up at a time */

/* One of the two. */
struct file {
	struct parquet_file *parquet;
	struct copy_file *copy;
};

struct program {
	uint64_t random, now, serial;
	uint64_t ids[DEPTH + 1], begins[DEPTH + 1], functions[DEPTH + 1];
	unsigned depth;
	const struct export_name *words[3];
};

static uint64_t next_random(struct program *p)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return p->random;
}

static const struct export_name *make_word(uint32_t id, const char *text)
{
	struct export_name *n = malloc(sizeof(*n) + strlen(text) + 1);

	if (!n)
		exit(1);
	n->id = id;
	n->len = (uint32_t)strlen(text);
	memcpy(n->text, text, n->len + 1);
	return n;
}

static void put(struct table_row *r, uint64_t v)
{
	r->values[r->n++].v = v;
}

static void put_null(struct table_row *r)
{
	r->nulls |= 1u << r->n;
	put(r, 0);
}

static void put_word(struct table_row *r, const struct export_name *word)
{
	r->values[r->n++].text = word;
}

/* The call that ends now. */
static void make_row(struct program *p, struct table_row *r, uint64_t random)
{
	unsigned d = p->depth;
	uint64_t ns = p->now - p->begins[d];

	r->table = TABLE_CALLS;
	r->n = r->nulls = 0;
	put(r, p->ids[d]);
	if (d)
		put(r, p->ids[d - 1]);
	else
		put_null(r);
	put(r, 0);			/* thread */
	put(r, p->functions[d]);
	put(r, p->begins[d]);
	put(r, p->now);
	put(r, random % 97);		/* self_ns */
	put(r, 3 * ns);
	put(r, random % 211);		/* self_insns */
	put(r, ns / 3);			/* branches */
	put_null(r);			/* cycles */
	put(r, 0x400000 + 64 * p->functions[d]);
	put(r, d);
	put(r, random % 16 == 0);	/* inner */
	put_word(r, p->words[0]);
	put_word(r, p->words[1 + (random % 64 == 0)]);
	for (unsigned i = r->n; i < export_tables[TABLE_CALLS].n_columns; i++)
		put(r, 0);
}

/* Runs until a call ends. */
static void run_program(struct program *p, struct table_row *r)
{
	for (;;) {
		uint64_t random = next_random(p), square = random >> 20 & 0xffff;

		p->now += random >> 8 & 63;
		if (p->depth && (p->depth == DEPTH || random & 1)) {
			p->depth--;
			make_row(p, r, random >> 30);
			return;
		}
		p->ids[p->depth] = ++p->serial;
		p->begins[p->depth] = p->now;
		p->functions[p->depth++] = (square * square >> 22) % 1000;
	}
}

static double cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int put_row(const struct file *f, const struct table_row *r)
{
	return f->copy ? copy_file_put(f->copy, r) : parquet_file_put(f->parquet, r);
}

/* The time in s of the rows; below 0: it failed. */
static double write_rows(const struct file *f, uint64_t n)
{
	static struct table_row rows[BATCH];
	struct program p = { .random = 88172645463325252u, .now = UINT64_C(1) << 45 };
	double sum = 0, began;

	p.words[0] = make_word(0, "call");
	p.words[1] = make_word(1, "return");
	p.words[2] = make_word(2, "unwound");
	while (n) {
		unsigned some = n < BATCH ? (unsigned)n : BATCH;

		for (unsigned i = 0; i < some; i++)
			run_program(&p, &rows[i]);
		began = cpu_time();
		for (unsigned i = 0; i < some; i++)
			if (put_row(f, &rows[i]))
				return -1;
		sum += cpu_time() - began;
		n -= some;
	}
	began = cpu_time();
	if (f->copy ? copy_file_finish(f->copy) : parquet_file_finish(f->parquet))
		return -1;
	return sum + cpu_time() - began;
}

int main(int argc, char **argv)
{
	const struct table *calls = &export_tables[TABLE_CALLS];
	int64_t recording = INT64_C(1234567890123456789);
	struct file f = { 0 };
	struct rusage ru;
	double seconds;
	uint64_t n;
	off_t size;
	int fd;

	if (argc != 4 || (strcmp(argv[1], "parquet") && strcmp(argv[1], "copy"))) {
		fprintf(stderr, "usage: bench_tables parquet|copy ROWS FILE\n");
		return 2;
	}
	n = strtoull(argv[2], NULL, 0);
	fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0 && !strcmp(argv[1], "copy"))
		f.copy = copy_file_new(fd, calls, &recording);
	else if (fd >= 0)
		f.parquet = parquet_file_new(fd, calls, &recording);
	seconds = f.copy || f.parquet ? write_rows(&f, n) : -1;
	if (seconds < 0) {
		perror(argv[3]);
		return 1;
	}
	copy_file_free(f.copy);
	parquet_file_free(f.parquet);
	size = lseek(fd, 0, SEEK_END);
	getrusage(RUSAGE_SELF, &ru);
	printf("%" PRIu64 " rows, %.3f s CPU, %.2f M rows/s, %.1f MB, peak %ld MiB\n", n, seconds,
	       (double)n / seconds / 1e6, (double)size / 1e6, ru.ru_maxrss / 1024);
	return close(fd) != 0;
}
