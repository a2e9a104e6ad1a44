/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* decode/callstack/names.h: which names a pattern fits. */
#include <stdio.h>

#include "decode/callstack/names.h"
#include "tests/unit/tap.h"

static bool fits(const char *pattern, const char *raw)
{
	struct names *n;
	bool is;

	if (names_new(&n, "--symbol", &pattern, 1, false, NULL))
		return false;
	is = names_fit(n, raw, NULL);
	names_free(n);
	return is;
}

/* table */
static const struct {
	const char *pattern, *raw;
	bool fits;
} cases[] = {
	{ "push", "_ZN5queue4pushEi", true },
	{ "queue::push", "_ZN5queue4pushEi", true },
	{ "::push", "_ZN5queue4pushEi", false },
	{ "sh", "_ZN5queue4pushEi", false },
	/* Go */
	{ "main.handle", "main.handle", true },
	{ "handle", "main.handle", true },
	{ "andle", "main.handle", false },
	{ "main", "main.handle", false },
	{ "Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "Store.Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "(*Store).Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "(*Store[...]).Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "main.(*Store[...]).Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "main.(*Store[go.shape.string_0]).Put", "main.(*Store[go.shape.string_0]).Put", true },
	{ "string_0", "main.(*Store[go.shape.string_0]).Put", false },
	{ "ore.Put", "main.(*Store[go.shape.string_0]).Put", false },
	{ "http.conn.serve", "net/http.(*conn).serve", true },
	{ "conn.serve", "net/http.(*conn).serve", true },
	{ "net/http.(*conn).serve", "net/http.(*conn).serve", true },
	{ "http.(*conn).serve", "net/http.(*conn).serve", true },
	{ "(*conn).serve", "net/http.conn.server", false },
	{ "func1", "main.main.func1", true },
	{ "func1.1", "main.main.func1.1", true },
	{ "main.*", "main.(*Store[go.shape.string_0]).Put", true },
	/* copies and parts of functions of C have no end of their own */
	{ "cold", "main.cold", false },
	{ "part.0", "main.part.0", false },
	{ "0", "main.part.0", false },
	{ "constprop.0", "f.constprop.0", false },
	{ "f.constprop.0", "f.constprop.0", true },
};

int main(void)
{
	char what[160];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(what, sizeof(what), "%s %s %s", cases[i].pattern,
			 cases[i].fits ? "is" : "is not", cases[i].raw);
		ok(fits(cases[i].pattern, cases[i].raw) == cases[i].fits, "%s", what);
	}
	return plan_done();
}
