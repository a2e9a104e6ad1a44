/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any bytes as files of coverage, profiles of pprof, folded stacks: "@@ NAME" lines
 * divide the input into files. What is taken is merged to what is taken again, and
 * then changes no more.
 */
#include "decode/coverage/coverage.h"
#include "tests/fuzz/files.h"
#include "decode/profile/profile.h"
#include "common/outbuf.h"

/* By the first file, as `merge` does. */
static int run(const char *const *paths, size_t n, struct outbuf *out,
	       const char **which, struct aux_diag *diag)
{
	if (merge_folded_is_all(paths[0]))
		return merge_folded(paths, n, out, which, diag);
	if (!coverage_merge_is_file(paths[0]) && merge_pprof_is_file(paths[0]))
		return merge_pprof(paths, n, out, which, diag);
	if (!coverage_merge_is_file(paths[0]) && merge_folded_is_file(paths[0]))
		return merge_folded(paths, n, out, which, diag);
	return coverage_merge(paths, n, out, which, diag);
}

/* NULL: the files are refused. */
static struct outbuf *merge(const char *const *paths, size_t n)
{
	struct outbuf *out = outbuf_new(-1);
	struct aux_diag diag = { 0 };
	const char *which = NULL;

	ASSERT(out);
	if (run(paths, n, out, &which, &diag) < 0) {
		ASSERT(which && diag.code && diag.text[0]);
		outbuf_free(out);
		return NULL;
	}
	return out;
}

static size_t size_of(const struct outbuf *out)
{
	return (size_t)(out->p - out->buf);
}

static struct outbuf *merge_again(const struct outbuf *out)
{
	char path[sizeof(files_dir) + 8];
	const char *paths[] = { path };

	snprintf(path, sizeof(path), "%s/merged", files_dir);
	files_write("merged", 6, (const uint8_t *)out->buf, size_of(out));
	return merge(paths, 1);
}

static void check(const struct outbuf *first)
{
	struct outbuf *second, *third;

	if (!size_of(first) || files_n == MAX_FILES)
		return;
	second = merge_again(first);
	ASSERT(second);
	files_n--;
	third = merge_again(second);
	ASSERT(third && size_of(second) == size_of(third) &&
	       !memcmp(second->buf, third->buf, size_of(third)));
	outbuf_free(second);
	outbuf_free(third);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static char text[MAX_FILES][sizeof(files_dir) + MAX_NAME + 2];
	const char *paths[MAX_FILES];
	struct outbuf *out;
	size_t n;

	files_make(data, len);
	for (n = 0; n < files_n; n++) {
		snprintf(text[n], sizeof(text[n]), "%s/%.*s", files_dir, MAX_NAME,
			 files_names[n]);
		paths[n] = text[n];
		coverage_merge_is_file(paths[n]);
	}
	out = n ? merge(paths, n) : NULL;
	if (out)
		check(out);
	outbuf_free(out);
	return 0;
}
