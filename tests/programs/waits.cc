/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that work, sleep, and wait for each other at a mutex; then it prints how
 * often each of its functions was called.
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define KEPT __attribute__((noinline))

static const int n_threads = 5, n_rounds = 12;
static std::mutex lock;
static volatile uint64_t total;
static thread_local unsigned calls[9];	/* in the order of names */
static unsigned sums[9];
static const char *const names[9] = { "mix", "depth", "locked", "nap", "text", "worker",
				      "light::run", "heavy::run", "mean" };

KEPT static uint64_t mix(uint64_t v)
{
	calls[0]++;
	for (int i = 0; i < 20; i++)
		v = v * 6364136223846793005u + 1;
	return v;
}

KEPT static int depth(int n)
{
	calls[1]++;
	return n ? depth(n - 1) + (int)(mix((uint64_t)n) % 3) : 0;
}

KEPT static void locked(uint64_t v)
{
	std::lock_guard<std::mutex> guard(lock);

	calls[2]++;
	total = total + mix(v);
	std::this_thread::sleep_for(std::chrono::microseconds(200));
}

KEPT static void nap()
{
	calls[3]++;
	std::this_thread::sleep_for(std::chrono::milliseconds(1));
	total = total + 1;
}

KEPT static void text(int n)
{
	std::string s;

	calls[4]++;
	for (int i = 0; i < n; i++)
		s += std::to_string(i);
	total = total + s.size();
}

struct job {
	virtual uint64_t run(uint64_t v) = 0;
	virtual ~job() {}
};

struct light : job {
	KEPT uint64_t run(uint64_t v) override
	{
		calls[6]++;
		return mix(v) + 1;
	}
};

struct heavy : job {
	KEPT uint64_t run(uint64_t v) override
	{
		calls[7]++;
		for (int i = 0; i < 50; i++)
			v ^= mix(v);
		return v;
	}
};

template <typename T> KEPT static T mean(const std::vector<T> &v)
{
	T sum = 0;

	calls[8]++;
	for (T x : v)
		sum += x;
	return v.empty() ? sum : sum / (T)v.size();
}

KEPT static void worker(int id)
{
	std::vector<double> v;
	light a;
	heavy b;
	job *jobs[2] = { &a, &b };

	calls[5]++;
	for (int i = 0; i < n_rounds; i++) {
		locked((uint64_t)i);
		total = total + jobs[(i + id) & 1]->run((uint64_t)i);
		v.push_back(depth(6));
		if (i % 4 == 0)
			nap();
		text(10);
	}
	total = total + (uint64_t)mean(v);
	std::lock_guard<std::mutex> guard(lock);
	for (int i = 0; i < 9; i++)
		sums[i] += calls[i];
}

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < n_threads; i++)
		threads.emplace_back(worker, i);
	for (std::thread &t : threads)
		t.join();
	for (int i = 0; i < 9; i++)
		printf("%s %u\n", names[i], sums[i]);
	return 0;
}
