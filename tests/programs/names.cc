/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -O1 -fno-inline -fno-ipa-icf -g */
/*
 * Functions whose names have all that names of C++ can have: a namespace,
 * template arguments, overloads, an operator, an ABI tag. Each runs.
 */
namespace shop {

template <typename T> __attribute__((noipa)) T add(T a, T b)
{
	return a + b;
}

struct till {
	int sum;
	__attribute__((noipa)) int pay(int n) { return sum += n; }
	__attribute__((noipa)) int pay(int n, int m) { return sum += n * m; }
	__attribute__((noipa)) int operator()(int n) const { return sum - n; }
};

__attribute__((noipa, abi_tag("v2"))) int tagged(int n)
{
	return n + 2;
}

} /* namespace shop */

extern "C" __attribute__((noipa)) int plain(int n)
{
	return n * 3;
}

int main()
{
	shop::till t = { 1 };
	int n = 0;

	for (int i = 0; i < 5; i++) {
		n += shop::add<int>(i, 1) + (int)shop::add<long>(i, 2);
		n += t.pay(i) + t.pay(i, 2) + t(i);
		n += shop::tagged(n & 7) + plain(i);
	}
	return n == 0;
}
