/* SPDX-License-Identifier: BSD-2-Clause */
/* What fleet can sum up: a table. A new kind is a row here, a sink that makes its rows,
 * and what prints them. */
#include <string.h>

#include "decode/fleet/fleet.h"

/* table */
static const struct fleet_kind kinds[] = {
	{ .name = "count", .keys = "recording stream pid tid", .n_keys = 4,
	  .values = { { "insns", FLEET_SUM }, { "branches", FLEET_SUM },
		      { "gaps", FLEET_SUM }, { "values", FLEET_SUM } },
	  .n_values = 4, .ns_per_byte = 10, .sink = &fleet_sink_count,
	  .print = fleet_print_count },
	{ .name = "hot", .keys = "function dso", .n_keys = 2,
	  .values = { { "own_insns", FLEET_SUM }, { "own_ns", FLEET_SUM },
		      { "own_cycles", FLEET_SUM }, { "own_branches", FLEET_SUM },
		      { "total_insns", FLEET_SUM }, { "total_ns", FLEET_SUM },
		      { "total_cycles", FLEET_SUM }, { "total_branches", FLEET_SUM },
		      { "calls", FLEET_SUM } },
	  .n_values = 9, .compared = true, .ns_per_byte = 30,
	  .sink = &fleet_sink_hot, .carry = &fleet_sink_carry, .print = fleet_print_hot },
	{ .name = "flame", .keys = "stack", .n_keys = 1,
	  .values = { { "insns", FLEET_SUM }, { "ns", FLEET_SUM },
		      { "cycles", FLEET_SUM }, { "branches", FLEET_SUM } },
	  .n_values = 4, .compared = true, .ns_per_byte = 30,
	  .sink = &fleet_sink_flame, .carry = &fleet_sink_carry, .print = fleet_print_flame },
	{ .name = "latency", .keys = "function dso bucket", .n_keys = 3,
	  .values = { { "calls", FLEET_SUM }, { "sum_ns", FLEET_SUM },
		      { "min_ns", FLEET_MIN }, { "max_ns", FLEET_MAX } },
	  .n_values = 4, .whole = true, .compared = true, .ns_per_byte = 25,
	  .sink = &fleet_sink_latency, .print = fleet_print_latency },
	{ .name = "gaps", .keys = "recording stream cause", .n_keys = 3,
	  .values = { { "gaps", FLEET_SUM } }, .n_values = 1, .ns_per_byte = 8,
	  .sink = &fleet_sink_gaps },
	{ .name = "branches", .keys = "kind from from_dso to to_dso", .n_keys = 5,
	  .values = { { "n", FLEET_SUM } }, .n_values = 1, .compared = true, .ns_per_byte = 15,
	  .sink = &fleet_sink_branches, .print = fleet_print_first },
	{ .name = "profile", .keys = "what id path at how id2 path2 at2 from_cut to_cut",
	  .n_keys = 10, .values = { { "n", FLEET_SUM } }, .n_values = 1, .ns_per_byte = 15,
	  .sink = &fleet_sink_profile, .print = fleet_print_profile },
	{ .name = "coverage", .keys = "file what line detail", .n_keys = 4,
	  .values = { { "n", FLEET_SUM }, { "ran", FLEET_MAX } }, .n_values = 2,
	  .whole = true, .compared = true, .ns_per_byte = 15,
	  .sink = &fleet_sink_coverage, .print = fleet_print_coverage },
	{ .name = "calls", .keys = "function dso caller caller_dso", .n_keys = 4,
	  .values = { { "calls", FLEET_SUM }, { "ns", FLEET_SUM }, { "insns", FLEET_SUM },
		      { "own_ns", FLEET_SUM }, { "own_insns", FLEET_SUM } },
	  .n_values = 5, .compared = true, .ns_per_byte = 30,
	  .sink = &fleet_sink_calls, .carry = &fleet_sink_carry, .print = fleet_print_first },
	{ .name = "values", .keys = "source place dso bytes value", .n_keys = 5,
	  .values = { { "n", FLEET_SUM } }, .n_values = 1, .compared = true, .ns_per_byte = 8,
	  .sink = &fleet_sink_values, .print = fleet_print_first },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const struct fleet_kind *fleet_kind(size_t i)
{
	return i < N_KINDS ? &kinds[i] : NULL;
}

const struct fleet_kind *fleet_kind_named(const char *name)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}
