/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decoders: the table of those built in, and those loaded from a file.
 *
 * One line per decoder; the first one of a trace type is the default, and what
 * it cannot do goes to the reference. A loaded one must have been built for the
 * same interface: abi is the first word of its table in every version of the
 * interface, so it is looked at before anything else.
 */
#include <dlfcn.h>
#include <string.h>

#include "common/diag.h"
#include "decode/lib/pt/pt.h"
#include "decode/lib/session/decoders.h"

extern const struct aux_decoder_ops aux_decoder_libipt, aux_decoder_opencsd,
	aux_decoder_etm, aux_decoder_bytes;

/* is_reference: the vendors' libraries are complete, and what they cannot
 * decode they report as a GAP. */
static const struct {
	const struct aux_decoder_ops *ops;
	bool is_reference;
} builtin[] = {
	{ &aux_decoder_pt, false },
	{ &aux_decoder_etm, false },
#ifdef HAVE_IPT
	{ &aux_decoder_libipt, true },
#endif
#ifdef HAVE_OPENCSD
	{ &aux_decoder_opencsd, true },
#endif
	{ &aux_decoder_bytes, false },
};

#define N_BUILTIN (sizeof(builtin) / sizeof(builtin[0]))

const struct aux_decoder_ops *decoders_get(size_t i)
{
	return i < N_BUILTIN ? builtin[i].ops : NULL;
}

bool decoders_has(uint32_t trace_type)
{
	for (size_t i = 0; i < N_BUILTIN; i++)
		if (trace_type && builtin[i].ops->trace_type == trace_type)
			return true;
	return false;
}

const struct aux_decoder_ops *
decoders_reference(uint32_t trace_type, const struct aux_decoder_ops *ops)
{
	for (size_t i = 0; i < N_BUILTIN; i++)
		if (builtin[i].is_reference && builtin[i].ops != ops &&
		    trace_type && builtin[i].ops->trace_type == trace_type)
			return builtin[i].ops;
	return NULL;
}

/* "pt, etm, libipt, ...", for messages. */
static void list_names(char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = 0;
	for (size_t i = 0; i < N_BUILTIN && n < len; i++)
		n += (size_t)snprintf(buf + n, len - n, "%s%s", i ? ", " : "",
				      builtin[i].ops->name);
}

/* A decoder that other builds have: its library was not there when this was built. */
static bool is_left_out(const char *name)
{
	return !strcmp(name, "libipt") || !strcmp(name, "opencsd");
}

const struct aux_decoder_ops *decoders_find(const char *name,
					   uint32_t trace_type,
					   struct aux_diag *diag)
{
	char names[128];

	for (size_t i = 0; i < N_BUILTIN; i++) {
		const struct aux_decoder_ops *ops = builtin[i].ops;

		if (name ? !strcmp(ops->name, name) :
			   ops->trace_type == trace_type && trace_type)
			return ops;
	}
	list_names(names, sizeof(names));
	if (name && is_left_out(name)) {
		diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
			 "built without %s; there are: %s", name, names);
		return NULL;
	}
	if (name) {
		diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			 "no decoder is named %s; there are: %s", name, names);
		return NULL;
	}
	diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
		 "no decoder for this AUX data (trace type %u%s) in this "
		 "build, which has: %s", trace_type,
		 trace_type ? "" : ": the file does not say of what kind it "
				   "is", names);
	diag_why(diag, AUX_WHY_NO_DECODER, 0);
	return NULL;
}

int decoders_load(void **handle, const char *path,
		 const struct aux_decoder_ops **ops, struct aux_diag *diag)
{
	const struct aux_decoder_ops *o;
	int rc;

	*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!*handle)
		return diag_why(diag, AUX_WHY_SETTING,
				diag_set(diag, AUX_E_IO, AUX_NO_OFFSET,
					 "plugin: %s", dlerror()));
	o = dlsym(*handle, AUX_DECODER_SYMBOL);
	if (!o)
		rc = diag_set(diag, AUX_E_ABI, AUX_NO_OFFSET,
			      "plugin %s: it does not define %s", path,
			      AUX_DECODER_SYMBOL);
	else if (o->abi != AUX_DECODER_ABI)
		rc = diag_set(diag, AUX_E_ABI, AUX_NO_OFFSET,
			      "plugin %s: built for decoder interface %u, "
			      "this auxdecode has %u; rebuild it", path,
			      o->abi, AUX_DECODER_ABI);
	else if (o->size < sizeof(*o) || !o->name || !o->open || !o->start ||
		 !o->decode || !o->close)
		rc = diag_set(diag, AUX_E_ABI, AUX_NO_OFFSET,
			      "plugin %s: its table has %u bytes, %zu are "
			      "needed, all filled; rebuild it", path, o->size,
			      sizeof(*o));
	else
		rc = 0;
	if (rc < 0) {
		decoders_unload(*handle);
		*handle = NULL;
		return diag_why(diag, AUX_WHY_SETTING, rc);
	}
	*ops = o;
	return 0;
}

void decoders_unload(void *handle)
{
	if (handle)
		dlclose(handle);
}
