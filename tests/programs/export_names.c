/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * Names that formats must survive: one of 40,000 characters, and one that the test
 * renames to what is neither text nor UTF-8.
 */
#define X10(s) s s s s s s s s s s

__attribute__((noinline)) int longest(int n) __asm__("long_" X10(X10(X10(X10("Abcd")))));
int longest(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

__attribute__((noinline)) int rename_me(int n)
{
	n = longest(n);
	__asm__ volatile("" : "+r"(n));
	return n;
}

int main(void)
{
	return rename_me(rename_me(0)) == 2 ? 0 : 1;
}
