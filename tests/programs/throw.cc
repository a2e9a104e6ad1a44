/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -static */
/*
 * C++ exceptions: the unwinder leaves many frames at once, without returns.
 */
#include <cstdio>
#include <stdexcept>
#include <vector>

struct guard {
	int &n;
	~guard() { n++; }
};

static int unwound;

static int dig(int depth)
{
	guard g{unwound};

	if (depth == 0)
		throw std::runtime_error("bottom");
	return dig(depth - 1) + 1;
}

int main()
{
	std::vector<int> seen;

	for (int i = 0; i < 3; i++) {
		try {
			dig(10 * i);
		} catch (const std::exception &) {
			seen.push_back(unwound);
		}
	}
	bool good = seen.size() == 3 && unwound == 33;
	std::puts(good ? "throw: all right" : "throw: wrong");
	return !good;
}
