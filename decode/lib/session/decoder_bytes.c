/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bytes: the smallest decoder, and the template for new ones.
 *
 * Understands nothing: each chunk becomes one PAYLOAD event with its length.
 * Build it as a loadable plugin with: cc -shared -fPIC -DAUX_PLUGIN -Iinclude
 */
#include <stdlib.h>

#include <aux/decoder.h>

struct bytes {
	const struct aux_chunk *chunk;	/* NULL: given already */
};

static int open_bytes(void **dec, const struct aux_decoder_config *config,
		      const struct aux_decoder_host *host,
		      struct aux_diag *diag)
{
	(void)config;
	(void)host;
	(void)diag;
	*dec = calloc(1, sizeof(struct bytes));
	return *dec ? 0 : -AUX_E_NOMEM;
}

static int start_chunk(void *dec, const struct aux_chunk *chunk)
{
	((struct bytes *)dec)->chunk = chunk->len ? chunk : NULL;
	return 0;
}

static int decode_chunk(void *dec, struct aux_flow *out, size_t max)
{
	const struct aux_chunk *c = ((struct bytes *)dec)->chunk;

	if (!c || !max)
		return 0;
	out[0] = (struct aux_flow){ .offset = c->stream_offset,
				    .kind = AUX_FLOW_PAYLOAD,
				    .n = (uint32_t)c->len,
				    .payload = { .value = c->len } };
	((struct bytes *)dec)->chunk = NULL;
	return 1;
}

#ifdef AUX_PLUGIN
#define aux_decoder_bytes aux_decoder_plugin
#endif
extern const struct aux_decoder_ops aux_decoder_bytes;

const struct aux_decoder_ops aux_decoder_bytes = {
	.abi = AUX_DECODER_ABI,
	.size = sizeof(struct aux_decoder_ops),
	.name = "bytes",
	.help = "counts bytes; needs no library",
	.open = open_bytes,
	.start = start_chunk,
	.decode = decode_chunk,
	.close = free,
};
