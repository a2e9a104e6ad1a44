/* SPDX-License-Identifier: BSD-2-Clause */
/* The sinks of this directory: what a flow can be turned into, see session/sink.h. */
#ifndef DECODE_SINK_SINK_H
#define DECODE_SINK_SINK_H

#include "decode/lib/session/sink.h"

extern const struct sink_ops sink_insn, sink_branch, sink_count, sink_calls,
	sink_flame, sink_hot, sink_find_calls, sink_latency;

#endif
