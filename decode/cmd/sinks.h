/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of all sinks, each a command of its own. */
#ifndef DECODE_CMD_SINKS_H
#define DECODE_CMD_SINKS_H

#include <stddef.h>

#include "decode/lib/session/sink.h"

/* By name, or by index (NULL after the last). */
const struct sink_ops *sink_find(const char *name);
const struct sink_ops *sink_get(size_t i);

#endif
