/* SPDX-License-Identifier: BSD-2-Clause */
/* report: one HTML file that shows what ran; see session/sink.h. */
#ifndef DECODE_REPORT_REPORT_H
#define DECODE_REPORT_REPORT_H

#include "decode/lib/session/sink.h"

extern const struct sink_ops sink_report;

#endif
