/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshot directories: "@@ snapshot.ini", "@@ trace.ini" and what they name; and
 * perf's: "@@ data", "@@ data.0". */
#include "tests/fuzz/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	files_open(data, len);
	return 0;
}
