/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reference decoders of the program, each in a file of its own.
 *
 * Few traces need them, but to load libipt, and OpenCSD with its C++ library, takes
 * longer than to decode a short trace. So in auxdecode these tables stand for theirs;
 * the first open loads the decoder's file, which lies beside the program, or in
 * ../libexec/auxkit where that is installed. It stays loaded.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/diag.h"

#include "decode/lib/session/decoders.h"

struct reference {
	const char *file;
	const struct aux_decoder_ops *ops;	/* NULL: not loaded yet */
	void *handle;
};

/* The directory of the program. */
static void find_program(char *dir, size_t len)
{
	ssize_t n = readlink("/proc/self/exe", dir, len - 1);
	char *slash;

	dir[n > 0 ? n : 0] = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
}

static int find_file(const char *name, char *path, size_t len,
		     struct aux_diag *diag)
{
	static const char *const places[] = { "", "/../libexec/auxkit" };
	char dir[4096];

	find_program(dir, sizeof(dir));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, len, "%s%s/%s", dir, places[i], name);
		if (!access(path, R_OK))
			return 0;
	}
	return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
			"%s is a part of this program, and neither in %s nor "
			"in %s%s: copy it to one of them, too, or `make install`",
			name, dir, dir, places[1]);
}

static int load(struct reference *r, struct aux_diag *diag)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char path[4096 + 64];
	int rc = 0;

	pthread_mutex_lock(&lock);
	if (!r->ops)
		rc = find_file(r->file, path, sizeof(path), diag);
	if (!r->ops && rc == 0)
		rc = diag_why(diag, AUX_WHY_NONE,	/* no --plugin */
			      decoders_load(&r->handle, path, &r->ops, diag));
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Only what open returned is given to the other functions, so ops is there. */
#define REFERENCE(NAME, TYPE, HELP)					\
	static struct reference NAME = {				\
		.file = "auxdecode-" #NAME ".so"			\
	};								\
	static int open_##NAME(void **dec,				\
			       const struct aux_decoder_config *config,	\
			       const struct aux_decoder_host *host,	\
			       struct aux_diag *diag)			\
	{								\
		int rc = load(&NAME, diag);				\
									\
		*dec = NULL;						\
		return rc < 0 ? rc :					\
				NAME.ops->open(dec, config, host, diag);\
	}								\
	static int start_##NAME(void *dec, const struct aux_chunk *c)	\
	{								\
		return NAME.ops->start(dec, c);				\
	}								\
	static int decode_##NAME(void *dec, struct aux_flow *out,	\
				 size_t max)				\
	{								\
		return NAME.ops->decode(dec, out, max);			\
	}								\
	static void close_##NAME(void *dec)				\
	{								\
		if (dec)						\
			NAME.ops->close(dec);				\
	}								\
	extern const struct aux_decoder_ops aux_decoder_##NAME;		\
	const struct aux_decoder_ops aux_decoder_##NAME = {		\
		.abi = AUX_DECODER_ABI,					\
		.size = sizeof(struct aux_decoder_ops),			\
		.name = #NAME,						\
		.help = HELP,						\
		.trace_type = TYPE,					\
		.open = open_##NAME,					\
		.start = start_##NAME,					\
		.decode = decode_##NAME,				\
		.close = close_##NAME,					\
	}

#ifdef HAVE_IPT
REFERENCE(libipt, AUX_TRACE_INTEL_PT, "Intel PT by libipt, the reference");
#endif
#ifdef HAVE_OPENCSD
REFERENCE(opencsd, AUX_TRACE_CS_ETM,
	  "CoreSight ETM, PTM, ETE and STM by OpenCSD, the reference");
#endif
