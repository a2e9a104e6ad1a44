/* SPDX-License-Identifier: BSD-2-Clause */
/* links: decode */
/* needs: IBERTY */
/* Short names: what is left out of each kind of name, and where one is cut. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"
#include "decode/callstack/names.h"

/* table */
static const struct {
	const char *raw, *text, *bare;
} kinds[] = {
	{ "main", "main", "main" },
	{ "_ZN4shop3addIiEET_S1_S1_", "shop::add<>", "shop::add<int>" },
	{ "_ZNK4shop4tillclEi", "shop::till::operator()", "shop::till::operator()" },
	{ "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc",
	  "std::operator<<<>", "std::operator<< <std::char_traits<char> >" },
	{ "_ZSteqIcSt11char_traitsIcESaIcEEbRKNSt7__cxx1112basic_stringIT_T0_T1_EES9_",
	  "std::operator==<>",
	  "std::operator==<char, std::char_traits<char>, std::allocator<char> >" },
	{ "_ZNSt3mapIiiSt4lessIiESaISt4pairIKiiEEEixERS3_", "std::map<>::operator[]",
	  "std::map<int, int, std::less<int>, std::allocator<std::pair<int const, "
	  "int> > >::operator[]" },
	{ "_ZN12_GLOBAL__N_13fooEi", "(anonymous namespace)::foo",
	  "(anonymous namespace)::foo" },
	{ "_ZZ3fooiENKUlvE_clEv", "foo()::{lambda()#1}::operator()",
	  "foo()::{lambda()#1}::operator()" },
	{ "_ZN3FoocvbEv", "Foo::operator bool", "Foo::operator bool" },
	{ "_ZN3FoossIiEEbT_", "Foo::operator<=><>", "Foo::operator<=><int>" },
	/* code made at run time has names of its own */
	{ "py::<module>:/a/b.py", "py::<module>:/a/b.py", "py::<module>:/a/b.py" },
	{ "add(int)", "add", "add" },
	{ "a<b", "a<b", "a<b" },
	{ "a(b", "a(b", "a(b" },
	{ "", "", "" },
	{ "<", "<", "<" },
	{ "operator", "operator", "operator" },
	{ "<alloc::vec::Vec<T> as core::ops::Drop>::drop",
	  "<alloc::vec::Vec<> as core::ops::Drop>::drop",
	  "<alloc::vec::Vec<T> as core::ops::Drop>::drop" },
};

/* table */
static const struct {
	const char *name;
	unsigned width;
	const char *text;
} cuts[] = {
	{ "abcdefghijklmnopqrstuvwxyz", 0, "abcdefghijklmnopqrstuvwxyz" },
	{ "abcdefghijklmnopqrstuvwxyz", 26, "abcdefghijklmnopqrstuvwxyz" },
	{ "abcdefghijklmnopqrstuvwxyz", 17, "abcde..qrstuvwxyz" },
	{ "abcdefghijklmnopqrstuvwxyz", 7, "abcdefghijklmnopqrstuvwxyz" },
	/* no character is cut in two */
	{ "abcd\xc3\xa4ghijklmnopqr\xc3\xa4tuvwxyz", 17, "abcd..r\xc3\xa4tuvwxyz" },
};

static void test_kinds(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		char *text = names_short(kinds[i].raw, NAMES_SHORT, 0);
		char *bare = names_short(kinds[i].raw, NAMES_BARE, 0);

		is_str(text, kinds[i].text, "short");
		is_str(bare, kinds[i].bare, "without arguments of the call");
		free(text);
		free(bare);
	}
}

static void test_cuts(void)
{
	for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%s", cuts[i].name);
		names_cut_middle(name, cuts[i].width);
		is_str(name, cuts[i].text, "cut");
	}
}

/* However wide: no two functions are shown as the same text. */
static void test_one_each(void)
{
	static const char *const raws[] = {
		"_ZN4shop3addIiEET_S1_S1_", "_ZN4shop3addIlEET_S1_S1_",
		"_ZN4shop4till3payEi", "_ZN4shop4till3payEii",
		"aVeryLongNameOfAFunctionOneOfTwo", "aVeryLongNameOfBFunctionOneOfTwo",
	};
	enum { N = sizeof(raws) / sizeof(*raws) };

	for (unsigned width = 16; width < 40; width += 8) {
		const char *shown[N];
		struct names *n;
		unsigned same = 0;

		names_new(&n, "--symbol", NULL, 0, false, NULL);
		for (unsigned i = 0; i < N; i++)
			shown[i] = names_cut(n, raws[i], width);
		for (unsigned i = 0; i < N; i++)
			for (unsigned k = 0; k < i; k++)
				same += !strcmp(shown[i], shown[k]);
		is_u64(same, 0, "each has a text of its own");
		is_str(names_cut(n, raws[1], width), shown[1], "which it keeps");
		names_free(n);
	}
}

int main(void)
{
	test_kinds();
	test_cuts();
	test_one_each();
	return plan_done();
}
