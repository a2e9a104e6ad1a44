/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * last_calls: how did it come to its end? Goes back from the end of a recording, from call
 * to call, and then up the stack, with a cursor of libauxdecode.
 *
 *	cc last_calls.c $(pkg-config --cflags --libs libauxdecode) -o last_calls
 *	last_calls perf.data [N]
 *
 * Prints the last N calls (10), the newest first: when, from where, to what. Then the
 * callers of what ran last. Status 3: something is missing, of the recording or between
 * those calls, so what ran last may be no end of the program.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <aux/cursor.h>

#define MAX_FRAMES 64

static void print_place(struct aux_cursor *c, const struct aux_decode_space *space,
			uint64_t ip)
{
	struct aux_decode_symbol sym = { .size = sizeof(sym) };
	struct aux_decode_frame line;
	struct aux_decode *d = aux_cursor_decode(c);

	if (aux_decode_symbol(d, space, ip, &sym) || !sym.name) {
		printf("%" PRIx64, ip);
		return;
	}
	printf("%s+0x%" PRIx64, sym.name, ip - sym.start);
	if (aux_decode_frames(d, space, ip, &line, sizeof(line), 1) > 0 && line.file)
		printf(" (%s:%" PRIu32 ")", line.file, line.line);
}

/* From a call that is about to run: where it leads, and back to it. */
static int print_call(struct aux_cursor *c, struct aux_diag *diag)
{
	struct aux_cursor_state state = { .size = sizeof(state) };
	struct aux_cursor_stop stop = { .size = sizeof(stop) };
	struct aux_cursor_position here;
	int rc = aux_cursor_state(c, &state, diag);

	if (rc)
		return rc;
	printf("%" PRIu64 ".%09" PRIu64 " thread %" PRIu32 " ", state.time_ns / 1000000000,
	       state.time_ns % 1000000000, state.tid);
	print_place(c, state.space, state.ip);
	aux_cursor_save(c, &here);
	rc = aux_cursor_move(c, AUX_CURSOR_INSN, AUX_CURSOR_FORWARDS, &stop, diag);
	if (!rc)
		rc = aux_cursor_state(c, &state, diag);
	if (rc)
		return rc;
	printf(" -> ");
	print_place(c, state.space, state.ip);
	putchar('\n');
	return aux_cursor_restore(c, &here, diag);
}

static int print_calls(struct aux_cursor *c, long n, bool *lossy, struct aux_diag *diag)
{
	struct aux_cursor_stop stop = { .size = sizeof(stop) };
	int rc = 0;

	while (n-- > 0 && !rc) {
		rc = aux_cursor_move(c, AUX_CURSOR_CALL, AUX_CURSOR_BACK, &stop, diag);
		if (rc || stop.why == AUX_CURSOR_EDGE)
			break;
		if (stop.why == AUX_CURSOR_GAP) {
			*lossy |= aux_gap_is_loss(stop.cause);
			printf("# gap %s: %s\n", aux_gap_name(stop.cause),
			       aux_gap_text(stop.cause));
		} else {
			rc = print_call(c, diag);
		}
	}
	return rc;
}

static int print_callers(struct aux_cursor *c, struct aux_diag *diag)
{
	struct aux_cursor_state state = { .size = sizeof(state) };
	struct aux_cursor_frame frames[MAX_FRAMES];
	int n = aux_cursor_end(c, diag), rc;

	if (n < 0)
		return n;
	rc = aux_cursor_state(c, &state, diag);
	if (rc)
		return rc;
	printf("#0 ");
	print_place(c, state.space, state.ip);
	n = aux_cursor_callers(c, frames, sizeof(frames[0]), MAX_FRAMES, diag);
	for (int i = 0; i < n; i++) {
		printf("\n#%d ", i + 1);
		print_place(c, state.space, frames[i].call);
	}
	putchar('\n');
	return n < 0 ? n : 0;
}

/* Whether the file itself lacks something, as a cut one does; says what. */
static bool print_missing(struct aux_cursor *c)
{
	struct aux_decode *d = aux_cursor_decode(c);
	struct aux_decode_stats st = { .size = sizeof(st) };
	char missing[256];

	aux_decode_get_stats(d, &st);
	if (!st.lossy)
		return false;
	aux_decode_missing(d, missing, sizeof(missing));
	printf("# the recording is not whole, and more may have run: %s\n", missing);
	return true;
}

int main(int argc, char **argv)
{
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct aux_cursor *c;
	bool lossy = false;
	int rc;

	if (argc < 2) {
		fprintf(stderr, "usage: last_calls perf.data [N]\n");
		return 2;
	}
	rc = aux_cursor_open(&c, argv[1], NULL, -1, &diag);
	if (!rc)
		lossy = print_missing(c);
	if (!rc)
		rc = print_calls(c, argc > 2 ? strtol(argv[2], NULL, 10) : 10, &lossy, &diag);
	if (!rc)
		rc = print_callers(c, &diag);
	if (rc)
		fprintf(stderr, "last_calls: %s: %s\n", argv[1],
			*diag.text ? diag.text : aux_strerror(rc));
	aux_cursor_close(c);
	return rc ? 1 : lossy ? 3 : 0;
}
