/* SPDX-License-Identifier: BSD-2-Clause */
/* In the place of the part that draws, where the build has no ncurses. */
#include "common/diag.h"
#include "decode/tui/tui.h"

int tui_run(const struct tui_config *config, int *sig, struct aux_diag *diag)
{
	(void)config;
	*sig = 0;
	return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			"this build has no ncurses (package libncurses-dev), which "
			"draws on the terminal");
}
