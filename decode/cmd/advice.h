/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * advice: what the user can do about a cause, in terms of auxdecode's options. The
 * library reports causes as codes and never names an option; the sentences with the
 * fix are all here.
 */
#ifndef DECODE_CMD_ADVICE_H
#define DECODE_CMD_ADVICE_H

#include <stddef.h>
#include <stdint.h>

struct codeview;
struct space;

/* What goes directly before and after a text with this enum aux_why; never NULL. */
const char *advice_before(int why);
const char *advice_after(int why);

/* The meaning of a gap's cause, and the fix where there is one. */
const char *advice_gap(unsigned cause);

/* Why there is no code at ip, and how to supply it. buf is always terminated. */
void advice_code(struct codeview *cv, const struct space *space, uint64_t ip,
		 char *buf, size_t len);

#endif
