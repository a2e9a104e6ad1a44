/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A kernel in memory for the recorder: rings that a test writes as the kernel
 * does, and an ioctl that sees what the recorder asks for. AUX bytes follow the
 * pattern of fakekernel_file.h.
 */
#ifndef TESTS_UNIT_FAKEKERNEL_H
#define TESTS_UNIT_FAKEKERNEL_H

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "capture/event/auxpmu.h"
#include "capture/record/impl.h"
#include "tests/unit/fakekernel_file.h"

#define DATA 8192
#define AUX 49152	/* twelve pages, no power of two */

static char path[64];

/* ---- the kernel ---- */

struct fake_ring {
	struct perf_event_mmap_page page;
	uint8_t data[DATA] __attribute__((aligned(8)));
	uint8_t aux[AUX] __attribute__((aligned(8)));
	uint64_t made;		/* bytes of AUX */
	uint64_t n_records;
	uint64_t time;
};

struct fake {
	struct fake_ring rings[N_RINGS];
	struct ring mapped[N_RINGS];
	struct evlist_event events[2];
	struct evlist list;
	struct evset_ring set_rings[N_RINGS];
	struct evset_fd fds[2 * N_RINGS];
	struct evset set;
	struct recorder_config config;
	struct recorder *r;
	struct writer *w;
	struct ledger ledger;
};

static struct {
	int fd;
	unsigned long request;
	unsigned long arg;
} calls[256];
static size_t n_calls;
static pthread_mutex_t calls_lock = PTHREAD_MUTEX_INITIALIZER;

/* In place of libc's. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	pthread_mutex_lock(&calls_lock);
	if (n_calls < 256 && _IOC_TYPE(request) == '$') {
		calls[n_calls].fd = fd;
		calls[n_calls].request = request;
		calls[n_calls].arg = va_arg(ap, unsigned long);
		n_calls++;
	}
	pthread_mutex_unlock(&calls_lock);
	va_end(ap);
	return 0;
}

/* That these were asked of fd, in this order, and nothing else. */
__attribute__((unused))
static bool asked(int fd, const unsigned long *requests, size_t n)
{
	size_t i;

	if (n_calls != n)
		return false;
	for (i = 0; i < n; i++)
		if (calls[i].fd != fd || calls[i].request != requests[i])
			return false;
	return true;
}

static void put_bytes(uint8_t *buf, size_t size, uint64_t pos, const void *p,
		      size_t n)
{
	const uint8_t *s = p;

	while (n--)
		buf[pos++ % size] = *s++;
}

/* A record with its trailer; time counts up. */
static void put_record(struct fake *f, uint32_t ring, uint32_t type,
		       const void *body, size_t len)
{
	struct fake_ring *k = &f->rings[ring];
	uint64_t t[4] = { 0, ++k->time, ring, f->fds[2 * ring + 1].id };
	struct perf_event_header h = { .type = type };
	uint64_t head = k->page.data_head;

	h.size = (uint16_t)(sizeof(h) + len + TRAILER);
	put_bytes(k->data, DATA, head, &h, sizeof(h));
	put_bytes(k->data, DATA, head + sizeof(h), body, len);
	put_bytes(k->data, DATA, head + sizeof(h) + len, t, TRAILER);
	k->n_records++;
	__atomic_store_n(&k->page.data_head, head + h.size, __ATOMIC_RELEASE);
}

static void put_aux_record(struct fake *f, uint32_t ring, uint64_t offset,
			   uint64_t size, uint64_t flags)
{
	uint64_t body[3] = { offset, size, flags };

	put_record(f, ring, PERF_RECORD_AUX, body, sizeof(body));
}

/* n bytes of trace, without a record of them. */
static void trace(struct fake *f, uint32_t ring, uint64_t n, bool offset_head)
{
	struct fake_ring *k = &f->rings[ring];
	uint64_t i;

	for (i = 0; i < n; i++, k->made++)
		k->aux[k->made % AUX] = pattern(ring, k->made);
	__atomic_store_n(&k->page.aux_head,
			 offset_head ? k->made % AUX : k->made,
			 __ATOMIC_RELEASE);
}

static void trace_with_record(struct fake *f, uint32_t ring, uint64_t n)
{
	uint64_t from = f->rings[ring].made;

	trace(f, ring, n, false);
	put_aux_record(f, ring, from, n, 0);
}

/* ---- the recording ---- */

static const struct auxpmu_ops fake_ops = {
	.name = "fake", .prepare = auxpmu_prepare, .snapshot = auxpmu_snapshot,
	.remember = auxpmu_remember, .release = auxpmu_release,
};
static char name_trace[] = "fake//", name_side[] = "dummy:u";

static void make_events(struct fake *f)
{
	size_t i;

	for (i = 0; i < 2; i++) {
		f->events[i].attr.size = sizeof(f->events[i].attr);
		f->events[i].attr.type = PERF_TYPE_SOFTWARE;
		f->events[i].attr.config = PERF_COUNT_SW_DUMMY;
		f->events[i].attr.sample_id_all = 1;
		f->events[i].attr.sample_type = PERF_SAMPLE_TID |
			PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			PERF_SAMPLE_IDENTIFIER;
	}
	f->events[0].name = name_trace;
	f->events[0].aux = &fake_ops;
	f->events[1].name = name_side;
	f->events[1].sideband = true;
	f->list = (struct evlist){ .events = f->events, .n = 2, .n_aux = 1,
				   .sideband = 1 };
}

static void make_rings(struct fake *f, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct evset_fd *fd = &f->fds[2 * i];

		fd[0] = (struct evset_fd){ .fd = eventfd(0, EFD_NONBLOCK),
			.id = 100 + i, .event = 0, .cpu = (int)i, .tid = -1,
			.ring = (uint32_t)i };
		fd[1] = fd[0];
		fd[1].fd = eventfd(0, EFD_NONBLOCK);
		fd[1].id = 200 + i;
		fd[1].event = 1;
		f->set_rings[i] = (struct evset_ring){ .fd = fd[0].fd,
			.aux_event = 0, .cpu = (int)i, .tid = -1 };
		f->mapped[i] = (struct ring){ .page = &f->rings[i].page,
			.data = f->rings[i].data, .data_size = DATA,
			.aux = f->rings[i].aux, .aux_size = AUX };
	}
	f->set = (struct evset){ .fds = f->fds, .n_fds = 2 * n,
				 .rings = f->set_rings, .n_rings = n };
}

static struct fake *fake_new(size_t n_rings)
{
	struct fake *f = calloc(1, sizeof(*f));

	make_events(f);
	make_rings(f, n_rings);
	f->config = (struct recorder_config){ .events = &f->list,
		.set = &f->set, .rings = f->mapped, .n_threads = 1 };
	n_calls = 0;
	return f;
}

static void begin(struct fake *f)
{
	uint64_t ids[N_RINGS];
	size_t i, n = f->set.n_rings;

	ok(!recorder_new(&f->r, &f->config, NULL), "a recorder of %zu rings", n);
	unlink(path);
	if (writer_open(&f->w, path, NULL, NULL))
		ok(0, "the file");
	for (i = 0; i < 2; i++) {
		size_t k;

		for (k = 0; k < n; k++)
			ids[k] = f->fds[2 * k + i].id;
		writer_attr_add(f->w, &f->events[i].attr, f->events[i].name,
				ids, (uint32_t)n);
	}
	recorder_set_ledger(f->r, &f->ledger);
	recorder_output(f->r, f->w);
	recorder_start(f->r, NULL);
}

static void turn(struct fake *f)
{
	struct pollfd none;

	if (recorder_poll(f->r, &none, 0, 0))
		ok(0, "a turn of the recorder");
}

static struct file end(struct fake *f)
{
	struct aux_diag diag = { 0 };
	struct file file;

	ok(!recorder_finish(f->r, &diag), "finish %s", diag.text);
	ok(!ledger_check(&f->ledger, &diag), "the ledger balances %s",
	   diag.text);
	ledger_save(&f->ledger, f->w);
	ok(!writer_close(f->w, &diag), "close %s", diag.text);
	file = load_file(path);
	return file;
}

static void fake_free(struct fake *f)
{
	size_t i;

	recorder_free(f->r);
	for (i = 0; i < f->set.n_fds; i++)
		close(f->fds[i].fd);
	ledger_fini(&f->ledger);
	free(f);
}

#endif
