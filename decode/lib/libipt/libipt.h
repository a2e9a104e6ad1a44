/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intel PT through libipt, the reference, as an entry of the decoder table.
 */
#ifndef DECODE_LIB_LIBIPT_LIBIPT_H
#define DECODE_LIB_LIBIPT_LIBIPT_H

#include <aux/decoder.h>

extern const struct aux_decoder_ops aux_decoder_libipt;

#endif
