/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of the error codes. */
#include <stdlib.h>

#include <aux/error.h>

static const char *const texts[] = {
	[0] = "success",
	[AUX_E_NOMEM] = "out of memory",
	[AUX_E_IO] = "input or output failed",
	[AUX_E_FORMAT] = "the file contradicts its format",
	[AUX_E_TRUNCATED] = "the file is cut short",
	[AUX_E_UNSUPPORTED] = "not supported by this build",
	[AUX_E_INVAL] = "bad argument",
	[AUX_E_NOENT] = "not found",
	[AUX_E_ABI] = "made for another interface version",
	[AUX_E_LIMIT] = "over a limit",
	[AUX_E_TARGET] = "the traced program could not be run",
};

const char *aux_strerror(int code)
{
	unsigned int i = (unsigned int)abs(code);

	if (i >= sizeof(texts) / sizeof(texts[0]))
		return "unknown error";
	return texts[i];
}
