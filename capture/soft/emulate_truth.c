/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The truth of a traced thread: the address of each instruction, logged by a
 * callback of its own, apart from the blocks. Some addresses are held back
 * until it is certain that they ran.
 */
#include <stdlib.h>
#include <string.h>

#include "capture/soft/emulate.h"

void emu_truth_put(struct emu *e, struct emu_thread *t, size_t n)
{
	if (!n)
		return;
	emu_note(e, soft_truth(e->soft, t->tid, t->held, n));
	t->n_held -= n;
	memmove(t->held, t->held + n, t->n_held * sizeof(*t->held));
}

static void take_truth(struct emu *e, struct emu_thread *t, const uint64_t *w,
		       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (w[i] == SHM_TRUTH_UNDO) {
			t->n_held -= t->n_held > 0;
			t->n_truth--;
			continue;
		}
		if (t->n_held == 4 * EMU_HELD)
			emu_truth_put(e, t, 3 * EMU_HELD);
		t->held[t->n_held++] = w[i];
		t->n_truth++;
	}
}

void emu_truth_drop(struct emu_thread *t, const struct soft_block *b)
{
	uint64_t k = t->n_truth - t->n_flow;

	if (k && k <= b->n_insns && k <= t->n_held &&
	    t->held[t->n_held - k] == b->start)
		t->n_held -= k;
}

bool emu_truth_drain(struct emu *e, struct emu_thread *t)
{
	uint64_t tail = atomic_load(&t->shm->truth.tail), words[2048];
	uint64_t head = emu_ring_head(e, &t->shm->truth);
	size_t n = (head - tail) / 8;

	if (!n || e->err)
		return false;
	if (n > sizeof(words) / 8)
		n = sizeof(words) / 8;
	if (!t->held)
		t->held = malloc(4 * EMU_HELD * sizeof(*t->held));
	if (!t->held) {
		emu_fail(e, AUX_E_NOMEM, "out of memory for truth");
		return false;
	}
	emu_ring_copy(shm_truth_data(t->shm), tail, words, n * 8);
	take_truth(e, t, words, n);
	emu_ring_advance(e, &t->shm->truth, tail + n * 8);
	return true;
}
