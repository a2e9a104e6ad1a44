/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * colour: escape sequences of ECMA-48, "Select graphic rendition"; the eight plain
 * colours alone, so that light and dark terminals both show them as they like.
 */
#include "common/term.h"

const struct colour *colour_get(bool on)
{
	static const struct colour plain = { "", "", "", "", "", "", "" };
	static const struct colour ansi = {
		.name = "\033[36m", .number = "\033[33m", .dim = "\033[2m",
		.head = "\033[1m", .bad = "\033[31m", .good = "\033[32m",
		.end = "\033[0m",
	};

	return on ? &ansi : &plain;
}
