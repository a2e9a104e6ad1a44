/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codeview: executables from debuginfod servers, by build id. The library brings
 * a web client along, so it is loaded when it is first needed, never before.
 *
 * Specification: debuginfod_find_debuginfo(3) of elfutils.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef HAVE_DEBUGINFOD
#include <elfutils/debuginfod.h>
#endif

#include <aux/error.h>

#include "decode/lib/code/impl.h"

#ifdef HAVE_DEBUGINFOD

struct debuginfod {
	void *library;
	debuginfod_client *client;
	__typeof__(&debuginfod_find_executable) find;
	__typeof__(&debuginfod_end) end;
};

static struct debuginfod *open_library(void)
{
	struct debuginfod *d = calloc(1, sizeof(*d));
	__typeof__(&debuginfod_begin) begin = NULL;

	if (!d)
		return NULL;
	d->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return d;
	*(void **)&begin = dlsym(d->library, "debuginfod_begin");
	*(void **)&d->find = dlsym(d->library, "debuginfod_find_executable");
	*(void **)&d->end = dlsym(d->library, "debuginfod_end");
	if (begin && d->find && d->end)
		d->client = begin();
	return d;
}

int codeview_fetch(struct codeview *cv, const struct file_id *id, char **path)
{
	int fd;

	if (!cv->fetch)
		cv->fetch = open_library();
	if (!cv->fetch || !cv->fetch->client) {
		codeview_add_note(cv, "--debuginfod: libdebuginfod.so.1 cannot "
				  "be loaded, nothing is asked for");
		return -AUX_E_UNSUPPORTED;
	}
	fd = cv->fetch->find(cv->fetch->client, id->bytes, id->size, path);
	if (fd < 0)
		return -AUX_E_NOENT;
	close(fd);
	return 0;
}

void codeview_fetch_free(struct debuginfod *d)
{
	if (!d)
		return;
	if (d->client)
		d->end(d->client);
	if (d->library)
		dlclose(d->library);
	free(d);
}

#else

int codeview_fetch(struct codeview *cv, const struct file_id *id, char **path)
{
	(void)id;
	(void)path;
	codeview_add_note(cv, "--debuginfod: this build cannot ask servers");
	return -AUX_E_UNSUPPORTED;
}

void codeview_fetch_free(struct debuginfod *d)
{
	(void)d;
}

#endif
