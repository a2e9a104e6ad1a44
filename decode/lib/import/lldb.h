/* SPDX-License-Identifier: BSD-2-Clause */
/* container_lldb: what the parts that read an LLDB bundle share. */
#ifndef DECODE_LIB_IMPORT_LLDB_H
#define DECODE_LIB_IMPORT_LLDB_H

#include "decode/lib/import/builder.h"
#include "decode/lib/import/json.h"

struct lldb_bundle {
	char *dir;		/* paths are relative to it */
	struct json_t *root;
	struct container_build *b;
	struct aux_diag *diag;
};

/* Where a value stands, for messages: processes[1].threads[0]. */
struct lldb_place {
	char text[64];
};

struct lldb_place lldb_place(const struct lldb_place *in, const char *array,
			     size_t i);

#endif
