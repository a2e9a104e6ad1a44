/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * api: opening a recording through libauxdecode. The contract is aux/decode.h; what
 * is here turns its structs, which may be shorter or longer than those of this
 * build, into those of the session.
 */
#include <stdlib.h>
#include <string.h>

#include "common/diag.h"

#include "decode/lib/api/impl.h"

unsigned aux_decode_version(void)
{
	return AUX_DECODE_VERSION;
}

/* What ours lacks must not be asked for. */
static int take_options(struct aux_decode_options *o,
			const struct aux_decode_options *theirs,
			struct aux_diag *diag)
{
	const uint8_t *tail = (const uint8_t *)theirs;

	*o = (struct aux_decode_options){ .size = sizeof(*o) };
	if (!theirs)
		return 0;
	if (theirs->size < offsetof(struct aux_decode_options, tid))
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"aux_decode_options.size is not set");
	for (size_t i = sizeof(*o); i < theirs->size; i++)
		if (tail[i])
			return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
					"an option that this libauxdecode "
					"(version %u) does not know: use a "
					"newer one", AUX_DECODE_VERSION);
	memcpy(o, theirs, theirs->size < sizeof(*o) ? theirs->size : sizeof(*o));
	if (o->flags & ~31u)
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"options.flags 0x%x: unknown flags", o->flags);
	if (o->time_to && o->time_to < o->time_from)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"options.time_to is before time_from");
	if (o->flags & AUX_DECODE_CHUNKS && o->chunk_to < o->chunk_from)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"options.chunk_to is before chunk_from");
	return 0;
}

static struct codeview_config code_of(const struct aux_decode_options *o)
{
	return (struct codeview_config){
		.symfs = o->symfs, .vdso = o->vdso, .vmlinux = o->vmlinux,
		.kcore = o->kcore, .kallsyms = o->kallsyms,
		.buildid_dir = o->buildid_dir,
		.debuginfod = o->flags & AUX_DECODE_DEBUGINFOD,
	};
}

static int open_session(struct aux_decode *d, const char *path,
			const struct aux_decode_options *o,
			struct aux_diag *diag)
{
	struct container_options container = {
		.pt = o->pt, .images = o->images,
		.n_images = (size_t)o->n_images, .cpu_model = o->cpu_model,
	};
	struct session_config config = {
		.path = path ? path : o->pt ? o->pt : "recording",
		.data = o->data, .n_data = (size_t)o->n_data,
		.decoder = o->decoder, .plugin = o->plugin,
		.container = &container, .code = code_of(o),
		.n_workers = o->n_workers, .chunk_min = o->chunk_min,
		.tid = o->flags & AUX_DECODE_ONE_TID ? (int64_t)o->tid : -1,
		.cpu = o->flags & AUX_DECODE_ONE_CPU ? (int64_t)o->cpu : -1,
		.time_from = o->time_from,
		.time_to = o->time_to ? o->time_to : UINT64_MAX,
		.last_ns = o->last_ns,
		.chunks = o->flags & AUX_DECODE_CHUNKS,
		.chunk_from = o->chunk_from, .chunk_to = o->chunk_to,
		.max_memory = o->max_memory, .snapshot = o->snapshot,
	};

	if (!path && !o->pt && !o->data)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"no path, no pt, no data");
	return session_open(&d->session, &config, diag);
}

static int host_code(void *priv, const struct space *space, uint64_t ip,
		     struct aux_code *code)
{
	return codeview_code(session_codeview(priv), space, ip, code);
}

int aux_decode_open(struct aux_decode **dp, const char *path,
		    const struct aux_decode_options *options,
		    struct aux_diag *diag)
{
	struct aux_diag none = { .offset = AUX_NO_OFFSET };
	struct aux_decode_options o;
	struct aux_decode *d;
	int rc;

	*dp = NULL;
	if (diag)
		*diag = none;
	rc = take_options(&o, options, diag);
	if (rc < 0)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	d->ops.needs = o.flags & AUX_DECODE_NO_TIMES ? 0 : SINK_NEEDS_TIME;
	rc = open_session(d, path, &o, diag ? diag : &none);
	if (rc < 0) {
		free(d);
		return rc;
	}
	d->host = (struct sink_host){ .priv = d->session, .code = host_code };
	*dp = d;
	return 0;
}

void aux_decode_close(struct aux_decode *d)
{
	if (!d)
		return;
	api_stop(d);
	walk_free(d->walk);
	session_close(d->session);
	free(d->parts);
	free(d->events);
	free(d);
}

struct aux_reader *aux_decode_reader(const struct aux_decode *d)
{
	return session_reader(d->session);
}

const char *aux_decode_comm(const struct aux_decode *d, uint32_t tid,
			    uint64_t time_ns)
{
	return timeline_comm(session_timeline(d->session), tid, time_ns);
}
