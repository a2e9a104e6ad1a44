/* SPDX-License-Identifier: BSD-2-Clause */
/* LLDB's trace bundles: "@@ trace.json" and the files that it names. */
#include "tests/fuzz/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	files_open(data, len);
	return 0;
}
