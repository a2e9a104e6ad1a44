/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines for coverage: classes, templates, lambdas, exceptions, static objects. */
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct shape {
	virtual ~shape() { n_gone++; }
	virtual double area() const = 0;
	static int n_gone;
};

int shape::n_gone;

class square : public shape {
public:
	explicit square(double a) : a_(a)
	{
		if (a < 0)
			throw std::invalid_argument("negative");
	}
	double area() const override
	{
		return a_ * a_;
	}
private:
	double a_;
};

class circle : public shape {
public:
	explicit circle(double r) : r_(r), name_("circle")
	{
	}
	double area() const override { return 3 * r_ * r_; }
private:
	double r_;
	std::string name_;
};

template <typename T>
T largest(const std::vector<T> &v)
{
	T best = v[0];

	for (const T &x : v)
		if (best < x)
			best = x;
	return best;
}

template <int N>
int power(int x)
{
	if (N == 0)
		return 1;
	int r = 1;
	for (int i = 0; i < N; i++)
		r *= x;
	return r;
}

struct guard {
	int &n;
	explicit guard(int &m) : n(m) { n++; }
	~guard() { n--; }
};

int held;

int risky(int i)
{
	guard g(held);

	if (i % 3 == 0)
		throw std::runtime_error("three");
	if (i % 5 == 0)
		throw i;
	return i;
}

int try_all(int n)
{
	int sum = 0;

	for (int i = 1; i <= n; i++) {
		try {
			sum += risky(i);
		} catch (const std::exception &e) {
			sum += 100;
		} catch (int v) {
			sum += 1000 * v;
		}
	}
	return sum;
}

struct start {
	start() { table["a"] = 1; table["b"] = 2; }
	std::map<std::string, int> table;
};

start at_start;

}

int main(int argc, char **)
{
	std::vector<std::unique_ptr<shape>> shapes;
	std::vector<int> ints{ 4, 8, 2 };
	std::vector<double> doubles{ 1.5, .5 };
	double sum = 0;
	int n = 0;

	shapes.push_back(std::make_unique<square>(2));
	shapes.push_back(std::make_unique<circle>(1));
	try {
		shapes.push_back(std::make_unique<square>(-1));
	} catch (const std::invalid_argument &) {
		n++;
	}
	for (auto &s : shapes)
		sum += s->area();
	std::sort(ints.begin(), ints.end(), [](int a, int b) {
		return a > b;
	});
	auto add = [&](int x) {
		n += x;
		return n;
	};
	for (int x : ints) add(x);
	n += largest(ints) + (int)largest(doubles);
	n += power<2>(3) + power<3>(2);
	n += try_all(12);
	if (argc > 3)
		n += power<0>(4);
	std::string text = "n is " + std::to_string(n) +
		", sum " +
		std::to_string((int)sum);
	std::puts(text.c_str());
	shapes.clear();
	return shape::n_gone == 2 && at_start.table.size() == 2 ? 0 : 1;
}
