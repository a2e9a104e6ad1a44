/* SPDX-License-Identifier: BSD-2-Clause */
/* build: -lm */
/* Lines for coverage: lists, strings, arrays of variable length, one-line bodies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
typedef struct node { struct node *next; int key; char name[40]; } node;
static node *add(node *list, int key) {
	node *n = calloc(1, sizeof *n);
	if (!n) { perror("x"); exit(1); }
	n->key = key; n->next = list;
	snprintf(n->name, sizeof n->name, "k%d", key);
	return n;
}
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static unsigned crc(const unsigned char *p, size_t n)
{
	unsigned c = ~0u;
	while (n--) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = c & 1 ? (c >> 1) ^ 0xedb88320 : c >> 1;
	}
	return ~c;
}
static int parse(const char *s, int *out)
{
	int sign = 1, v = 0;

	for (; *s == ' '; s++)
		;
	if (*s == '-') {
		sign = -1;
		s++;
	} else if (*s == '+')
		s++;
	if (!*s)
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -1;
		v = v * 10 + (*s - '0');
	}
	*out = sign * v;
	return 0;
}
static void matrix(double m[4][4])
{
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < 4; j++) {
			m[i][j] = i == j;
			if (i > j) m[i][j] = sqrt(i + j);
		}
	}
}
static int vla(int n)
{
	int v[n];
	for (int i = 0; i < n; i++)
		v[i] = rand() & 255;
	qsort(v, n, sizeof *v, cmp);
	int i = 0, j = n - 1, steps = 0;
	while (i < j) {
		int m = (i + j) / 2;
		steps++;
		if (v[m] < 100) i = m + 1; else j = m;
	}
	return steps + v[i];
}
static int hanoi(int n, int a, int b, int c)
{
	if (n == 0) return 0;
	return hanoi(n - 1, a, c, b) +
		1 +
		hanoi(n - 1, c, b, a);
}
static struct { int x, y; } origin;
static void move(int dx, int dy)
{
	origin.x += dx;
	origin.y += dy;
}
int main(void)
{
	node *list = NULL, *n;
	double m[4][4];
	int v = 0, ok = 0, bad = 0;
	const char *texts[] = { "12", " -7", "+3", "x", "", "9z" };

	for (int i = 0; i < 10; i++)
		list = add(list, i * i);
	for (n = list; n; n = n->next)
		ok += n->key > 20;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (parse(texts[i], &v) == 0)
			ok += v;
		else
			bad++;
	while (list) {
		n = list->next;
		free(list);
		list = n;
	}
	matrix(m);
	ok += (int)m[3][2] + vla(20) + hanoi(4, 1, 2, 3);
	ok += crc((const unsigned char *)"hello", 5) & 3;
	for (int i = 0, j = 10; i < j; i++, j--)
		move(i, j);
	for (;;) {
		if (ok-- < 5)
			break;
		if (ok % 2)
			continue;
		ok -= 3;
	}
	do ok++; while (ok < 3);
	int z = ok > 2 && bad < 9 ? origin.x : origin.y;
	printf("%d %d %d\n", ok, bad, z);
	return !(ok > 0);
}
