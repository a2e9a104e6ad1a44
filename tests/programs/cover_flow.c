/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for coverage: loops, switches, conditions over several lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fib(int n)
{
	if (n < 2)
		return n;
	return fib(n - 1) + fib(n - 2);
}

static int classify(int c)
{
	switch (c % 7) {
	case 0:
		return 1;
	case 1:
	case 2:
		c += 3;
		break;
	case 3:
		c *= 2;
		/* fall through */
	case 5:
		c--;
		break;
	default:
		c = c > 10 ? c - 10 : -c;
	}
	return c;
}

static int never(int x)
{
	if (x)
		return 2;
	for (int i = 0; i < x; i++)
		x += i;
	return x;
}

static unsigned hash(const char *s)
{
	unsigned h = 5381;

	while (*s)
		h = h * 33 ^ (unsigned char)*s++;
	return h;
}

static int loops(int n)
{
	int i, sum = 0;

	for (i = 0; i < n; i++) sum += i;
	for (i = 0; i < n; i++)
		if (i & 1 && i % 3)
			sum -= i;
		else if (i % 5 == 0 || i == 7)
			continue;
		else
			sum += 2;
	do {
		sum++;
		i--;
	} while (i > 0 && sum < 1000);
	while (1) {
		if (sum-- < 10)
			break;
		sum /= 2;
	}
	return sum;
}

int main(int argc, char **argv)
{
	int total = 0;
	char buf[64];

	for (int i = 0; i < 30; i++)
		total += classify(i);
	total += fib(10);
	total += loops(20);
	snprintf(buf, sizeof(buf), "%d %s", total, argc > 5 ? argv[1] : "x");
	total += (int)hash(buf) & 3;
	if (argc > 5)
		total += never(argc);
	if (!buf[0] || (total > 5 && strlen(buf) > 60)
	    || argc > 9) {
		puts("strange");
		exit(3);
	}
	memset(buf, 0, sizeof(buf));
	printf("%d\n",
	       total);
	return total == 0 ? 1 : 0;
}
