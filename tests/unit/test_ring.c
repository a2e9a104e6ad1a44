/* SPDX-License-Identifier: BSD-2-Clause */
/* links: capture */
/*
 * Rings over memory of our own, with a thread that plays the kernel. The last
 * test is the one that t_tsan.sh runs under ThreadSanitizer.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "capture/event/ring.h"
#include "tests/unit/tap.h"

#define DATA 4096
#define AUX 12288	/* no power of two */

struct fake {
	struct perf_event_mmap_page page;
	uint8_t data[DATA] __attribute__((aligned(8)));
	uint8_t aux[AUX] __attribute__((aligned(8)));
	struct ring ring;
};

static struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->ring = (struct ring){ .page = &f->page, .data = f->data,
				 .data_size = DATA, .aux = f->aux,
				 .aux_size = AUX };
	return f;
}

static void put_bytes(uint8_t *buf, size_t size, uint64_t pos, const void *p,
		      size_t n)
{
	const uint8_t *s = p;

	while (n--)
		buf[pos++ % size] = *s++;
}

/* A record of size bytes whose payload words are all seq. */
static void make_record(uint8_t *buf, uint16_t size, uint64_t seq)
{
	struct perf_event_header h = { .type = 9, .size = size };
	size_t i;

	memcpy(buf, &h, sizeof(h));
	for (i = sizeof(h); i < size; i += 8)
		memcpy(buf + i, &seq, 8);
}

static void kernel_record(struct fake *f, uint16_t size, uint64_t seq)
{
	uint8_t buf[1024];
	uint64_t head = f->page.data_head;

	make_record(buf, size, seq);
	put_bytes(f->data, DATA, head, buf, size);
	__atomic_store_n(&f->page.data_head, head + size, __ATOMIC_RELEASE);
}

static void test_forward(void)
{
	struct fake *f = fake_new();
	struct iovec iov[2];
	uint8_t copy[1024];
	uint64_t seq = 0, want = 0;
	int turn, i;
	bool good = true, across = false;

	ok(ring_data(&f->ring, iov) == 0, "an empty ring has nothing");
	for (turn = 0; turn < 200; turn++) {
		size_t len, pos = 0;

		for (i = 0; i < 5; i++)
			kernel_record(f, (uint16_t)(16 + 8 * ((turn + i) % 90)),
				      seq++);
		len = ring_data(&f->ring, iov);
		while (pos < len) {
			const struct perf_event_header *h =
				ring_record(iov, pos, copy, sizeof(copy));
			uint64_t got;

			if (!h)
				break;
			across |= (const void *)h == copy;
			memcpy(&got, (const uint8_t *)h + h->size - 8, 8);
			good &= got == want++;
			pos += h->size;
		}
		good &= pos == len;
		ring_data_done(&f->ring, len);
		good &= f->page.data_tail == f->page.data_head;
	}
	ok(good && want == seq, "all records come once, in order");
	ok(across, "one that lies across the end is put together");
	f->page.data_head = f->page.data_tail + DATA + 8;
	ok(ring_data(&f->ring, iov) == 0, "a head too far ahead gives nothing");
	free(f);
}

static void test_record_bounds(void)
{
	struct fake *f = fake_new();
	struct perf_event_header h = { .size = 0 };
	struct iovec iov[2];
	uint8_t copy[64];

	kernel_record(f, 64, 1);
	ring_data(&f->ring, iov);
	ok(!ring_record(iov, 60, copy, sizeof(copy)), "no header there");
	ok(!ring_record(iov, 1 << 20, copy, sizeof(copy)), "nothing behind");
	memcpy(f->data, &h, sizeof(h));
	ok(!ring_record(iov, 0, copy, sizeof(copy)), "a size of 0 is none");
	h.size = 72;
	memcpy(f->data, &h, sizeof(h));
	ok(!ring_record(iov, 0, copy, sizeof(copy)),
	   "a record longer than what waits is none");
	h.size = 60;
	memcpy(f->data, &h, sizeof(h));
	ok(!ring_record(iov, 0, copy, sizeof(copy)), "an odd size is none");
	free(f);
}

static void test_aux(void)
{
	struct fake *f = fake_new();
	struct iovec iov[2];
	uint64_t pos, word = 0, want = 0;
	bool good = true, wrapped = false;
	int turn;

	for (turn = 0; turn < 300; turn++) {
		size_t n = (size_t)(turn * 40 % AUX) & ~(size_t)7, len, i, k;

		for (i = 0; i < n; i += 8, word++)
			put_bytes(f->aux, AUX, word * 8, &word, 8);
		f->page.aux_head = word * 8;
		len = ring_aux(&f->ring, iov, &pos);
		good &= len == n && pos == want * 8;
		wrapped |= iov[1].iov_len != 0;
		for (k = 0; k < 2; k++)
			for (i = 0; i < iov[k].iov_len; i += 8) {
				uint64_t got;

				memcpy(&got, (uint8_t *)iov[k].iov_base + i, 8);
				good &= got == want++;
			}
		ring_aux_done(&f->ring, len);
		good &= f->page.aux_tail == f->page.aux_head;
	}
	ok(good && want == word, "AUX bytes come once, in order");
	ok(wrapped, "across the end of an area that is no power of two");
	ring_aux_slice(&f->ring, 100, 300, iov);
	ok(iov[0].iov_base == f->aux + AUX - 200 && iov[0].iov_len == 200 &&
	   iov[1].iov_base == f->aux && iov[1].iov_len == 100,
	   "a slice that ends behind the wrap");
	ring_aux_slice(&f->ring, AUX, AUX, iov);
	ok(iov[0].iov_base == f->aux && iov[0].iov_len == AUX &&
	   !iov[1].iov_len, "a slice of everything");
	free(f);
}

/* As the kernel with attr.write_backward: head counts down. */
static void kernel_backward(struct fake *f, uint16_t size, uint64_t seq)
{
	uint8_t buf[1024];
	uint64_t head = f->page.data_head - size;

	make_record(buf, size, seq);
	put_bytes(f->data, DATA, head, buf, size);
	f->page.data_head = head;
}

static void test_backward(void)
{
	struct fake *f = fake_new();
	struct iovec iov[2];
	uint8_t copy[1024];
	uint64_t seq = 0, want;
	size_t len, pos;
	bool good = true;
	int i;

	f->ring.backward = true;
	ok(ring_backward(&f->ring, iov) == 0, "backward: empty");
	kernel_backward(f, 64, seq++);
	kernel_backward(f, 128, seq++);
	ok(ring_backward(&f->ring, iov) == 192, "backward: all, before a wrap");
	for (i = 0; i < 500; i++) {
		kernel_backward(f, (uint16_t)(16 + 8 * (i % 60)), seq++);
		len = ring_backward(&f->ring, iov);
		want = seq;
		for (pos = 0; pos < len;) {
			const struct perf_event_header *h =
				ring_record(iov, pos, copy, sizeof(copy));
			uint64_t got;

			if (!h)
				break;
			memcpy(&got, (const uint8_t *)h + h->size - 8, 8);
			good &= got == --want;
			pos += h->size;
		}
		good &= pos == len && len > 0;
		/* what is left out is less than one record */
		good &= seq < 100 || len > DATA - 512;
	}
	ok(good, "backward: newest first, nothing that is overwritten");
	free(f);
}

#ifdef __SANITIZE_THREAD__
#define STRESS 20000
#else
#define STRESS 200000
#endif

/* The kernel's side of event/ring.c's drawing: it reads the tail, writes, and then
 * stores the head; without room it waits, as it would drop. */
static void *play_kernel(void *arg)
{
	struct fake *f = arg;
	uint64_t seq = 0, word = 0;

	while (seq < STRESS) {
		uint16_t size = (uint16_t)(16 + 8 * (seq % 60));
		uint64_t head = f->page.data_head;
		uint64_t tail = __atomic_load_n(&f->page.data_tail,
						__ATOMIC_ACQUIRE);

		if (head - tail + size <= DATA)
			kernel_record(f, size, seq++);
		tail = __atomic_load_n(&f->page.aux_tail, __ATOMIC_ACQUIRE);
		if (word * 8 - tail + 64 <= AUX) {
			int i;

			for (i = 0; i < 8; i++, word++)
				put_bytes(f->aux, AUX, word * 8, &word, 8);
			__atomic_store_n(&f->page.aux_head, word * 8,
					 __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

struct stress {
	uint64_t records, words;
	bool good;
};

static void read_some(struct fake *f, struct stress *s)
{
	struct iovec iov[2];
	uint8_t copy[1024];
	size_t len = ring_data(&f->ring, iov), at = 0, i, k;
	uint64_t got, pos;

	while (at < len && s->good) {
		const struct perf_event_header *h =
			ring_record(iov, at, copy, sizeof(copy));

		s->good &= h != NULL;
		if (!h)
			break;
		for (i = sizeof(*h); i < h->size; i += 8) {
			memcpy(&got, (const uint8_t *)h + i, 8);
			s->good &= got == s->records;
		}
		s->records++;
		at += h->size;
	}
	ring_data_done(&f->ring, len);
	len = ring_aux(&f->ring, iov, &pos);
	s->good &= pos == s->words * 8;
	for (k = 0; k < 2; k++)
		for (i = 0; i < iov[k].iov_len; i += 8) {
			memcpy(&got, (uint8_t *)iov[k].iov_base + i, 8);
			s->good &= got == s->words++;
		}
	ring_aux_done(&f->ring, len);
}

static void test_stress(void)
{
	struct fake *f = fake_new();
	struct stress s = { .good = true };
	pthread_t kernel;

	pthread_create(&kernel, NULL, play_kernel, f);
	while (s.records < STRESS && s.good)
		read_some(f, &s);
	if (!s.good)	/* let it end */
		__atomic_store_n(&f->page.data_tail, UINT64_MAX / 2,
				 __ATOMIC_RELAXED);
	else
		pthread_join(kernel, NULL);
	ok(s.good, "%llu records and %llu words of AUX while they are written",
	   (unsigned long long)s.records, (unsigned long long)s.words);
	if (s.good)
		free(f);
}

int main(void)
{
	test_forward();
	test_record_bounds();
	test_aux();
	test_backward();
	test_stress();
	return plan_done();
}
