/* SPDX-License-Identifier: BSD-2-Clause */
/* decoders: those that are built in, and those loaded from a file. */
#ifndef DECODE_LIB_SESSION_DECODERS_H
#define DECODE_LIB_SESSION_DECODERS_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include <aux/decoder.h>
#include <aux/error.h>

/* The built-in ones in order of preference; NULL after the last. */
const struct aux_decoder_ops *decoders_get(size_t i);

/*
 * The decoder for a trace: by name, or (NULL) the first that takes the trace
 * type. NULL with diag when there is none.
 */
const struct aux_decoder_ops *decoders_find(const char *name,
					   uint32_t trace_type,
					   struct aux_diag *diag);

/* The conservative one of the trace type, which decodes what ops cannot; NULL:
 * that is ops itself, or there is none in this build. */
const struct aux_decoder_ops *
decoders_reference(uint32_t trace_type, const struct aux_decoder_ops *ops);

/* Whether one of them takes the trace type. */
bool decoders_has(uint32_t trace_type);

/* A decoder from a shared object. It stays loaded until decoders_unload. */
int decoders_load(void **handle, const char *path,
		 const struct aux_decoder_ops **ops, struct aux_diag *diag);
void decoders_unload(void *handle);

#endif
