/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In the place of step*.c where programs cannot be followed on the processor itself:
 * the back ends step and native know x86-64 alone. source_pt.c refuses them before.
 */
#include "common/diag.h"

#include "capture/soft/soft.h"

static int refuse(struct aux_diag *diag)
{
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"programs are followed on the processor itself on x86-64 "
			"alone: leave out step and native");
}

int soft_step_run(struct soft *s, const struct soft_program *p, int *status,
		  struct aux_diag *diag)
{
	(void)s, (void)p, (void)status;
	return refuse(diag);
}

int soft_native_run(struct soft *s, const struct soft_program *p, int *status,
		    struct aux_diag *diag)
{
	return soft_step_run(s, p, status, diag);
}

int soft_step_check(const struct target *target, struct aux_diag *diag)
{
	(void)target;
	return refuse(diag);
}
