/* SPDX-License-Identifier: BSD-2-Clause */
/* 400 functions that call others as soon as they begin, met one after the other while it
 * runs. Without symbols they have the numbers in which they are met. */
typedef int function(int x);

#define ALONE static __attribute__((noinline, noclone))
#define PAIR(n)                                                                \
	ALONE int inner##n(int x)                                              \
	{                                                                      \
		return x & 64 ? x ^ n : x + n;                                 \
	}                                                                      \
	ALONE int outer##n(int x)                                              \
	{                                                                      \
		x = inner##n(x + n);                                           \
		return x & 32 ? inner##n(x * 5) : x;                           \
	}
#define NAME(n) outer##n,
#define TEN(m, n)                                                              \
	m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9)
#define HUNDRED(m, n)                                                          \
	TEN(m, n##0) TEN(m, n##1) TEN(m, n##2) TEN(m, n##3) TEN(m, n##4)       \
	TEN(m, n##5) TEN(m, n##6) TEN(m, n##7) TEN(m, n##8) TEN(m, n##9)

HUNDRED(PAIR, 1)
HUNDRED(PAIR, 2)
HUNDRED(PAIR, 3)
HUNDRED(PAIR, 4)

static function *const all[] = { HUNDRED(NAME, 1) HUNDRED(NAME, 2)
				 HUNDRED(NAME, 3) HUNDRED(NAME, 4) };

int main(void)
{
	unsigned x = 1, sum = 0;

	for (unsigned i = 0; i < 40000; i++) {
		x = x * 1103515245 + 12345;
		sum += (unsigned)all[(x >> 16) % (i / 100 + 1)]((int)(x >> 20 & 255));
	}
	return !sum;
}
