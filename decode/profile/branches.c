/* SPDX-License-Identifier: BSD-2-Clause */
/* profile: the list of branches, for sinks that make more of a flow than that. */
#include <stdlib.h>

#include "decode/profile/impl.h"

struct profile_branches {
	struct branchlist list;
	struct profile_collect collect;
};

struct profile_branches *profile_branches_new(const struct sink_host *host, bool ranges)
{
	struct profile_branches *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	branchlist_init(&p->list);
	if (profile_collect_init(&p->collect, &p->list, host)) {
		profile_branches_free(p);
		return NULL;
	}
	p->collect.no_ranges = !ranges;
	return p;
}

void profile_branches_free(struct profile_branches *p)
{
	if (!p)
		return;
	profile_collect_fini(&p->collect);
	branchlist_fini(&p->list);
	free(p);
}

int profile_branches_flow(struct profile_branches *p, const struct flow_ctx *ctx,
			  const struct aux_flow *ev, size_t n)
{
	return profile_collect_flow(&p->collect, ctx, ev, n);
}

const struct branchlist *profile_branches_finish(struct profile_branches *p, int *err)
{
	*err = profile_collect_finish(&p->collect);
	if (!*err)
		*err = branchlist_sort(&p->list);
	return *err ? NULL : &p->list;
}
