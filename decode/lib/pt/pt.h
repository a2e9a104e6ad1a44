/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Our own Intel PT decoder, as an entry of the decoder table. All that others
 * need of it is its operations; <aux/decoder.h> has their contract.
 */
#ifndef DECODE_LIB_PT_PT_H
#define DECODE_LIB_PT_PT_H

#include <aux/decoder.h>

extern const struct aux_decoder_ops aux_decoder_pt;

#endif
