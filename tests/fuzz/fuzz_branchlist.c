/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as a branch list. What is taken reads back as it is written, and added
 * to itself has the same entries, of twice the counts.
 */
#include <stdlib.h>
#include <string.h>

#include "decode/profile/branchlist.h"
#include "common/outbuf.h"

#define ASSERT(c)                \
	do {                     \
		if (!(c))        \
			abort(); \
	} while (0)

static struct outbuf *write_list(struct branchlist *l)
{
	struct outbuf *out = outbuf_new(-1);

	ASSERT(out && !branchlist_sort(l));
	branchlist_write(l, out, 0);
	ASSERT(!outbuf_failed(out));
	return out;
}

static size_t size_of(const struct outbuf *out)
{
	return (size_t)(out->p - out->buf);
}

static uint64_t twice(uint64_t n)
{
	return n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n;
}

/* l is what data holds: read twice, every count is twice as large. */
static void check_merged(const struct branchlist *l, const uint8_t *data,
			 size_t len)
{
	const struct branchlist_branch *b = branchlist_branches(l);
	const struct branchlist_range *r = branchlist_ranges(l);
	struct aux_diag diag = { 0 };
	struct branchlist sum;

	branchlist_init(&sum);
	for (int i = 0; i < 2; i++)
		ASSERT(!branchlist_read(&sum, (const char *)data, len, &diag));
	ASSERT(sum.branches.n == l->branches.n && sum.ranges.n == l->ranges.n &&
	       sum.n_modules <= l->n_modules && sum.n_gaps == twice(l->n_gaps));
	ASSERT(!branchlist_sort(&sum));
	for (size_t i = 0; i < l->branches.n; i++)
		ASSERT(branchlist_branches(&sum)[i].count == twice(b[i].count));
	for (size_t i = 0; i < l->ranges.n; i++)
		ASSERT(branchlist_ranges(&sum)[i].count == twice(r[i].count));
	branchlist_fini(&sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct aux_diag diag = { 0 };
	struct outbuf *first, *again;
	struct branchlist l, back;

	branchlist_init(&l);
	branchlist_init(&back);
	if (branchlist_read(&l, (const char *)data, len, &diag) < 0) {
		ASSERT(diag.code && diag.text[0]);
	} else {
		first = write_list(&l);
		check_merged(&l, data, len);
		ASSERT(!branchlist_read(&back, first->buf, size_of(first),
					&diag));
		again = write_list(&back);
		ASSERT(size_of(first) == size_of(again) &&
		       !memcmp(first->buf, again->buf, size_of(first)));
		outbuf_free(first);
		outbuf_free(again);
	}
	branchlist_fini(&l);
	branchlist_fini(&back);
	return 0;
}
