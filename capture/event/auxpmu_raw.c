/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * auxpmu_raw: any other PMU with an AUX area. Its bytes are recorded unchanged; there
 * is no AUXTRACE_INFO, since that would name a decoder.
 */
#include "capture/event/auxpmu.h"

static int configure(struct evlist_event *ev, const struct evlist_options *o,
		     struct aux_diag *diag)
{
	(void)o;
	return pmu_config(ev->pmu, &ev->spec, evlist_aux_words, &ev->attr,
			  diag);
}

static int write_info(const struct evlist_event *ev,
		      const struct auxpmu_env *env, struct writer *w,
		      struct aux_diag *diag)
{
	struct aux_rec_time_conv tc;

	(void)ev;
	(void)diag;
	auxpmu_clock(env->page, &tc);
	return tc.cap_user_time_zero ? writer_time_conv(w, &tc) : 0;
}

const struct auxpmu_ops auxpmu_raw = {
	.name = "",
	.trace = "raw trace",
	.configure = configure,
	.info = write_info,
	.snapshot = auxpmu_snapshot,
	.release = auxpmu_release,
	.granule = 4096,
};
