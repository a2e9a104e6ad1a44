/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for coverage: exceptions through frames, operators, templates, a function object. */
#include <cstdio>
#include <stdexcept>
#include <vector>
#include <string>
#include <functional>
struct base { virtual int f(int x) { return x; } virtual ~base() = default; };
struct derived : base {
	int f(int x) override
	{
		if (x > 2)
			return base::f(x) * 2;
		return 0;
	}
};
static void thrower(int n)
{
	std::string s("abc");
	if (n == 0)
		throw std::logic_error(s);
	thrower(n - 1);
}
static int catcher(int n)
{
	try {
		thrower(n);
	} catch (const std::logic_error &e) {
		return 1;
	} catch (...) {
		return 2;
	}
	return 3;
}
struct op {
	int v;
	op operator+(const op &o) const
	{
		op r = *this;
		r.v += o.v;
		return r;
	}
};
template <class T> struct stack {
	std::vector<T> v;
	void push(T x)
	{
		v.push_back(x);
	}
	T pop()
	{
		if (v.empty())
			throw std::out_of_range("empty");
		T x = v.back();
		v.pop_back();
		return x;
	}
};
static int ack(int m, int n)
{
	return m == 0 ? n + 1 : n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1));
}
void nothing(int x)
{
	if (x)
		return;
	std::puts("x");
}
int main()
{
	derived d;
	base *b = &d;
	int n = 0;
	stack<int> si;
	stack<std::string> ss;
	for (int i = 0; i < 5; i++)
		n += b->f(i);
	for (int i = 0; i < 3; i++) {
		si.push(i);
		ss.push("s");
	}
	try {
		while (true)
			n += si.pop();
	} catch (std::out_of_range &) {
		n += 7;
	}
	n += catcher(4);
	op a{1}, c{2};
	n += (a + c).v;
	n += ack(2, 2);
	nothing(1);
	nothing(0);
	std::function<int(int)> fn = [n](int x) { return x + n; };
	n = fn(3);
	switch (n % 3) {
	case 0: n++; break;
	case 1:
		n--;
		break;
	default:
		n += 2;
	}
	std::printf("%d\n", n);
}
