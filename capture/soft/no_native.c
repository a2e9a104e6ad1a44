/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In the place of step_native*.c where there is no code cache: copies are made of
 * x86-64 instructions alone, so no thread is ever in one and all are stepped.
 */
#include "capture/soft/step.h"

bool step_native_enter(struct step_thread *t)
{
	(void)t;
	return false;
}

bool step_native_stop(struct step_thread *t, int *status)
{
	(void)t, (void)status;
	return false;
}

bool step_native_drain_full(struct step *st, size_t max_records)
{
	(void)st, (void)max_records;
	return false;
}

void step_native_gone(struct step_thread *t)
{
	(void)t;
}

void step_native_drain(struct step_thread *t)
{
	(void)t;
}

void step_native_forget(struct step_process *proc, uint64_t start, uint64_t end)
{
	(void)proc, (void)start, (void)end;
}

void step_native_changed(struct step_process *proc, uint64_t page,
			 const uint8_t *before, const uint8_t *now)
{
	(void)proc, (void)page, (void)before, (void)now;
}

void step_native_called(struct step_thread *t, int64_t result)
{
	(void)t, (void)result;
}

void step_native_notes(const struct step *st)
{
	(void)st;
}

void step_native_drop(struct step_thread *t)
{
	(void)t;
}

void step_native_close(struct step_process *proc)
{
	(void)proc;
}

void step_native_remove(struct step_thread *t, int sig)
{
	(void)t, (void)sig;
}

void step_native_inherit(struct step_process *proc, const struct step_process *parent)
{
	(void)proc, (void)parent;
}
