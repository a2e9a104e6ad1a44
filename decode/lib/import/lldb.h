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

/* A missing or wrong value: -AUX_E_FORMAT and a message that names it. */
int lldb_fail(const struct lldb_bundle *l, const struct lldb_place *at,
	      const char *key, const char *what);
/* A number up to max; as such, as text in any base, or as {"value": ..}. */
int lldb_number(const struct lldb_bundle *l, const struct json_t *obj,
		const struct lldb_place *at, const char *key, uint64_t max,
		uint64_t *v);
/* The text of a key; must: it has to be there. NULL in *s when it is not. */
int lldb_text(const struct lldb_bundle *l, const struct json_t *obj,
	      const struct lldb_place *at, const char *key, bool must,
	      const char **s);

/* lldb_code.c: kernel, and processes with modules and threads. */
int lldb_put_kernel(struct lldb_bundle *l);
int lldb_put_processes(struct lldb_bundle *l);

#endif
