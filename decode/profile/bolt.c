/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * profile: pre-aggregated branches and fall-throughs for BOLT (perf2bolt -pa,
 * or llvm-bolt -pa). Lines are
 *
 *	{B|F|f} [ID:]ADDR [ID:]ADDR COUNT [MISPREDICTED]
 *
 * with addresses of the file as it is linked; ID X: outside of it. F is a
 * fall-through that a branch of the same function led to, f one entered from
 * elsewhere. The format has no comments, so gaps cannot be noted.
 * Mispredictions are not in the trace: always 0.
 *
 * Specification: bolt/include/bolt/Profile/DataAggregator.h of LLVM 16.
 */
#include "common/outbuf.h"
#include "decode/profile/impl.h"

/* X marks addresses outside of the binary, among them targets that are not
 * known. */
static void put_place(struct outbuf *out, const struct profile_module *m,
		      uint32_t module, uint64_t offset)
{
	if (module == BRANCHLIST_NOWHERE) {
		outbuf_str(out, " X:0");
		return;
	}
	outbuf_str(out, module == m->index ? " " : " X:");
	outbuf_printf(out, "%llx",
		      (unsigned long long)(module == m->index ?
				profile_module_addr(m, offset) : offset));
}

int profile_write_bolt(const struct profile_module *m, struct outbuf *out,
		       uint64_t max, struct profile_result *result,
		       struct aux_diag *diag)
{
	const struct branchlist_branch *b = branchlist_branches(m->list);
	const struct branchlist_range *r = branchlist_ranges(m->list);
	size_t n_branches = m->list->branches.n, n_ranges = m->list->ranges.n;

	(void)diag;
	for (size_t i = 0; i < n_branches; i++) {
		if ((max && result->n_lines >= max) || !b[i].count ||
		    (b[i].from_module != m->index &&
		     b[i].to_module != m->index))
			continue;
		outbuf_put(out, "B", 1);
		put_place(out, m, b[i].from_module, b[i].from);
		put_place(out, m, b[i].to_module, b[i].to);
		outbuf_printf(out, " %llu 0\n", (unsigned long long)b[i].count);
		result->n_lines++;
	}
	for (size_t i = 0; i < n_ranges; i++) {
		if ((max && result->n_lines >= max) || !r[i].count ||
		    r[i].module != m->index)
			continue;
		outbuf_put(out, r[i].outside ? "f" : "F", 1);
		put_place(out, m, r[i].module, r[i].first);
		put_place(out, m, r[i].module, r[i].last);
		outbuf_printf(out, " %llu\n", (unsigned long long)r[i].count);
		result->n_lines++;
	}
	return 0;
}
