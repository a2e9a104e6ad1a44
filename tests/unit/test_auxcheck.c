/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxcheck's runs: the borders of runs of any length between losses, be they shorter
 * than what shows its place by itself, are those that the source made.
 */
#include "tests/unit/tap.h"
#include "tools/auxcheck_pattern.h"

enum { MOST_RUNS = 64, MOST_BYTES = 1 << 16 };

struct made {
	struct run runs[MOST_RUNS];
	size_t n;
	uint8_t bytes[MOST_BYTES];
	uint64_t len;
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (*seed >> 33) % below;
}

/* Runs of `unit` bytes' multiples, every other one short; holes between them. */
static void make(struct made *m, uint64_t *seed, uint64_t unit)
{
	uint64_t pos = draw(seed, 1 << 20) * unit, i, n;

	m->n = 4 + draw(seed, MOST_RUNS - 4);
	m->len = 0;
	for (i = 0; i < m->n; i++) {
		struct run *r = &m->runs[i];

		n = (1 + draw(seed, i % 2 ? 24 : 600)) * unit;
		if (!(i % 2) && n < SURE_RUN)
			n += SURE_RUN / unit * unit + unit;
		if (n > MOST_BYTES / MOST_RUNS)
			n = MOST_BYTES / MOST_RUNS / unit * unit;
		*r = (struct run){ .pos = pos, .end = pos + n, .at = m->len, .at_end = m->len + n };
		for (; pos < r->end; pos++)
			m->bytes[m->len++] = (uint8_t)(pos / 8 >> pos % 8 * 8);
		pos += (1 + draw(seed, 100000)) * unit;
	}
}

static void tell(struct check *c, const struct made *m)
{
	size_t i;

	c->streams = calloc(1, sizeof(*c->streams));
	if (!c->streams)
		exit(2);
	c->n_streams = 1;
	for (i = 0; i < m->n; i++)
		PUSH(&c->streams[0].records, (struct piece){ .at = m->runs[i].at,
			.end = m->runs[i].at_end, .flags = PERF_AUX_FLAG_TRUNCATED });
}

static void forget(struct check *c)
{
	free(c->streams[0].records.p);
	free(c->streams);
	free(c->runs.p);
}

/* A word shows its place; of fewer bytes only the place in the stream is known. */
static bool same(const struct run *got, const struct run *want)
{
	return got->at == want->at && got->at_end == want->at_end &&
	       (want->at_end - want->at < 8 || (got->pos == want->pos && got->end == want->end));
}

static bool borders_are_found(uint64_t seed, uint64_t unit)
{
	struct check c = { 0 };
	struct made m;
	bool good;
	size_t i;

	make(&m, &seed, unit);
	tell(&c, &m);
	take(&c, 0, m.bytes, m.len, 0);
	good = !c.garbage && c.runs.n == m.n;
	for (i = 0; i < m.n && good; i++)
		good = same(&c.runs.p[i], &m.runs[i]);
	if (!good)
		printf("# unit %u: run %u of %u, %u garbage\n", (unsigned int)unit, (unsigned int)i,
		     (unsigned int)m.n, (unsigned int)c.garbage);
	forget(&c);
	return good;
}

/* A byte that no source made is found, wherever a run is long enough to tell. */
static bool a_wrong_byte_is_found(uint64_t seed)
{
	struct check c = { 0 };
	struct made m;
	bool found;

	make(&m, &seed, 8);
	tell(&c, &m);
	m.bytes[m.runs[2].at + 11] ^= 0x40;
	take(&c, 0, m.bytes, m.len, 0);
	found = c.garbage || c.runs.n != m.n;
	forget(&c);
	return found;
}

int main(void)
{
	uint64_t i, words = 0, bytes = 0, wrong = 0;

	for (i = 0; i < 200; i++) {
		words += borders_are_found(i, 8);
		bytes += borders_are_found(i, 16);
		wrong += a_wrong_byte_is_found(i);
	}
	is_u64(words, 200, "runs of words: the borders are those that were made");
	is_u64(bytes, 200, "runs of two words: the borders are those that were made");
	is_u64(wrong, 200, "a byte that nobody made is found");
	return plan_done();
}
