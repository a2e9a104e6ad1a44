/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of sinks: a new one is a file and a line here. */
#include <string.h>

#include "decode/cmd/sinks.h"
#include "decode/coverage/coverage.h"
#include "decode/export/export.h"
#include "decode/profile/profile.h"
#include "decode/report/report.h"
#include "decode/sink/sink.h"

static const struct sink_ops *const sinks[] = {
	&sink_insn,
	&sink_branch,
	&sink_count,
	&sink_coverage,
	&sink_latency,
	&sink_find_calls,
	&sink_export,
	&sink_calls,
	&sink_hot,
	&sink_flame,
	&sink_profile,
	&sink_report,
};

const struct sink_ops *sink_get(size_t i)
{
	return i < sizeof(sinks) / sizeof(sinks[0]) ? sinks[i] : NULL;
}

const struct sink_ops *sink_find(const char *name)
{
	const struct sink_ops *ops;

	for (size_t i = 0; (ops = sink_get(i)); i++)
		if (!strcmp(ops->name, name))
			return ops;
	return NULL;
}
