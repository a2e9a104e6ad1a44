/* SPDX-License-Identifier: BSD-2-Clause */
/* The program that target_open starts; used by target.c alone. */
#ifndef CAPTURE_EVENT_TARGET_CHILD_H
#define CAPTURE_EVENT_TARGET_CHILD_H

#include "capture/event/target.h"

/* Forks; the child waits on a pipe for target_start. */
int target_fork(struct target *t, const struct target_spec *spec,
		struct aux_diag *diag);

#endif
