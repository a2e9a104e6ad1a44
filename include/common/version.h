/* SPDX-License-Identifier: BSD-2-Clause */
/* The version of both programs, in one place. */
#ifndef COMMON_VERSION_H
#define COMMON_VERSION_H

#define AUXKIT_VERSION "0.1"

#endif
