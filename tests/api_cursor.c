/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api_cursor HOW perf.data [ADDRESS]: walks a recording with a cursor of libauxdecode, for
 * t_api.sh to compare with what auxdecode says of it. HOW: forwards and back (each
 * instruction's address), calls, branches, lines (the address where each stops), points (how
 * often ADDRESS stops a run, both ways), restore (positions are where they were), edges (the
 * causes with which moves end at the first instruction, and at the last).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aux/cursor.h>

static struct aux_diag diag;

static struct aux_cursor_state at(struct aux_cursor *c)
{
	struct aux_cursor_state s = { .size = sizeof(s) };

	if (aux_cursor_state(c, &s, &diag))
		exit(3);
	return s;
}

/* By unit to the edge: prints where it stops, first where it begins. */
static int walk(struct aux_cursor *c, enum aux_cursor_unit unit, int direction)
{
	struct aux_cursor_stop stop = { .size = sizeof(stop) };
	uint64_t offset = 0;
	int rc = direction == AUX_CURSOR_BACK ? aux_cursor_end(c, &diag) :
						aux_cursor_begin(c, &diag);

	if (unit == AUX_CURSOR_INSN || unit == AUX_CURSOR_LINE)
		printf("%" PRIx64 "\n", at(c).ip);
	while (rc >= 0) {
		rc = aux_cursor_move(c, unit, direction, &stop, &diag);
		if (rc || stop.why != AUX_CURSOR_DONE)
			break;
		printf("%" PRIx64 "\n", at(c).ip);
		if (direction == AUX_CURSOR_FORWARDS && at(c).offset < offset)
			return 4;
		offset = at(c).offset;
	}
	return rc < 0 || stop.why != AUX_CURSOR_EDGE;
}

static int edges(struct aux_cursor *c)
{
	struct aux_cursor_stop first = { .size = sizeof(first) }, last = first;

	if (aux_cursor_begin(c, &diag) < 0 ||
	    aux_cursor_move(c, AUX_CURSOR_INSN, AUX_CURSOR_BACK, &first, &diag) ||
	    aux_cursor_end(c, &diag) < 0 ||
	    aux_cursor_move(c, AUX_CURSOR_INSN, AUX_CURSOR_FORWARDS, &last, &diag))
		return 1;
	printf("%s %s\n", first.cause ? aux_gap_name(first.cause) : "none",
	       last.cause ? aux_gap_name(last.cause) : "none");
	return first.why != AUX_CURSOR_EDGE || last.why != AUX_CURSOR_EDGE;
}

static unsigned count(struct aux_cursor *c, uint64_t address, int direction)
{
	struct aux_cursor_stop stop = { .size = sizeof(stop) };
	unsigned n = 0;

	while (!aux_cursor_run(c, &address, 1, direction, NULL, NULL, &stop, &diag) &&
	       stop.why == AUX_CURSOR_POINT)
		n += at(c).ip == address;
	return n;
}

static int points(struct aux_cursor *c, uint64_t address)
{
	unsigned back = count(c, address, AUX_CURSOR_BACK);

	return printf("%u %u\n", back, count(c, address, AUX_CURSOR_FORWARDS)) < 0;
}

static int restore(struct aux_cursor *c)
{
	struct aux_cursor_position saved[64];
	struct aux_cursor_state was[64];
	struct aux_cursor_stop stop = { .size = sizeof(stop) };
	uint64_t from, to;

	aux_cursor_times(c, &from, &to);
	for (unsigned i = 0; i < 64; i++) {
		if (aux_cursor_time(c, from + (to - from) * i / 64, &diag) <= 0)
			return 5;
		for (unsigned k = 0; k < i; k++)
			aux_cursor_move(c, AUX_CURSOR_INSN, AUX_CURSOR_BACK, &stop, &diag);
		aux_cursor_save(c, &saved[i]);
		was[i] = at(c);
	}
	for (unsigned i = 64; i-- > 0;) {
		struct aux_cursor_state now;

		if (aux_cursor_restore(c, &saved[i], &diag))
			return 6;
		now = at(c);
		if (memcmp(&now, &was[i], sizeof(now)))
			return 7;
	}
	return 0;
}

static int bad_calls(const char *path)
{
	const struct aux_decode_options one = { .size = sizeof(one),
						.flags = AUX_DECODE_ONE_TID };
	const struct aux_cursor_position none = { { 1, 2, 3, 4 } };
	struct aux_cursor_stop stop = { .size = 0 };
	struct aux_cursor *c;

	if (aux_cursor_open(&c, path, &one, -1, &diag) != -AUX_E_INVAL || c ||
	    aux_cursor_open(&c, path, NULL, 999999999, &diag) != -AUX_E_NOENT || c ||
	    aux_cursor_open(&c, path, NULL, -1, NULL))
		return 8;
	if (aux_cursor_restore(c, &none, &diag) >= 0 ||
	    aux_cursor_move(c, AUX_CURSOR_INSN, 1, &stop, NULL) != -AUX_E_INVAL ||
	    aux_cursor_thread(c, 999999999, &diag) != 0)
		return 9;
	aux_cursor_close(c);
	aux_cursor_close(NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";
	struct aux_cursor *c;
	int rc;

	if (!strcmp(how, "bad"))
		return bad_calls(argv[2]);
	if (argc < 3 || aux_cursor_open(&c, argv[2], NULL, -1, &diag)) {
		fprintf(stderr, "%s\n", diag.text);
		return 2;
	}
	if (!strcmp(how, "forwards"))
		rc = walk(c, AUX_CURSOR_INSN, AUX_CURSOR_FORWARDS);
	else if (!strcmp(how, "back"))
		rc = walk(c, AUX_CURSOR_INSN, AUX_CURSOR_BACK);
	else if (!strcmp(how, "edges"))
		rc = edges(c);
	else if (!strcmp(how, "calls"))
		rc = walk(c, AUX_CURSOR_CALL, AUX_CURSOR_FORWARDS);
	else if (!strcmp(how, "calls-back"))
		rc = walk(c, AUX_CURSOR_CALL, AUX_CURSOR_BACK);
	else if (!strcmp(how, "branches"))
		rc = walk(c, AUX_CURSOR_BRANCH, AUX_CURSOR_FORWARDS);
	else if (!strcmp(how, "lines"))
		rc = walk(c, AUX_CURSOR_LINE, AUX_CURSOR_FORWARDS);
	else if (!strcmp(how, "lines-back"))
		rc = walk(c, AUX_CURSOR_LINE, AUX_CURSOR_BACK);
	else if (!strcmp(how, "points") && argc > 3)
		rc = points(c, strtoull(argv[3], NULL, 16));
	else
		rc = restore(c);
	aux_cursor_close(c);
	return rc;
}
