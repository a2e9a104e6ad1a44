/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mapped: see mapped.h. The list only grows, and what is in use of it changes by
 * single stores: a signal handler may walk it at any moment. Places are used again.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clean.h"
#include "common/mapped.h"

struct mapped {
	struct mapped *next;
	_Atomic uintptr_t start;	/* 0: free */
	uint64_t len;
	char name[MAPPED_NAME];
};

static struct mapped *_Atomic list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of writers */
static _Atomic uint64_t made;	/* bytes charged */

/* The caller holds the lock. NULL: there is none with that start. */
static struct mapped *find(uintptr_t start)
{
	struct mapped *m = atomic_load(&list);

	while (m && atomic_load(&m->start) != start)
		m = m->next;
	return m;
}

/* A free place, or a new one; the caller holds the lock. */
static struct mapped *make(void)
{
	struct mapped *m = find(0);

	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->next = atomic_load(&list);
	atomic_store(&list, m);
	return m;
}

void *mapped_open(int fd, uint64_t len, const char *name)
{
	size_t n = strlen(name);
	struct mapped *m;
	void *p;

	if (len > SIZE_MAX) {
		errno = EFBIG;
		return NULL;
	}
	p = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	pthread_mutex_lock(&lock);
	m = make();
	if (m) {
		m->len = len;
		snprintf(m->name, sizeof(m->name), "%s",
			 n < MAPPED_NAME ? name : name + n - MAPPED_NAME + 1);
		m->name[clean_text(m->name, m->name, strlen(m->name))] = 0;
		atomic_store(&m->start, (uintptr_t)p);
	}
	pthread_mutex_unlock(&lock);
	if (m)
		return p;
	munmap(p, len);
	errno = ENOMEM;
	return NULL;
}

void mapped_close(const void *p, uint64_t len)
{
	if (!p)
		return;
	pthread_mutex_lock(&lock);
	for (struct mapped *m = atomic_load(&list); m; m = m->next)
		if (atomic_load(&m->start) - (uintptr_t)p < len)
			atomic_store(&m->start, 0);
	pthread_mutex_unlock(&lock);
	munmap((void *)(uintptr_t)p, len);
}

void mapped_moved(const void *from, const void *to)
{
	struct mapped *m;

	pthread_mutex_lock(&lock);
	m = find((uintptr_t)from);
	if (m)
		atomic_store(&m->start, (uintptr_t)to);
	pthread_mutex_unlock(&lock);
}

bool mapped_charge(uint64_t size)
{
	if (atomic_fetch_add(&made, size) + size <= MAPPED_MADE_MAX)
		return true;
	mapped_discharge(size);
	return false;
}

void mapped_discharge(uint64_t size)
{
	atomic_fetch_sub(&made, size);
}

bool mapped_find(const void *at, const char **name, uint64_t *offset)
{
	uintptr_t p = (uintptr_t)at, start;

	for (struct mapped *m = atomic_load(&list); m; m = m->next) {
		start = atomic_load(&m->start);
		if (!start || p < start || p - start >= m->len)
			continue;
		*name = m->name;
		*offset = p - start;
		return true;
	}
	return false;
}

/* ---- in a signal handler ---- */

/* Appends to the n bytes of line. */
static size_t put(char *line, size_t n, size_t max, const char *s)
{
	while (*s && n < max)
		line[n++] = *s++;
	return n;
}

static size_t put_hex(char *line, size_t n, size_t max, uint64_t v)
{
	unsigned shift = 60;

	while (shift && !(v >> shift))
		shift -= 4;
	for (; n < max; shift -= 4) {
		line[n++] = "0123456789abcdef"[v >> shift & 15];
		if (!shift)
			break;
	}
	return n;
}

size_t mapped_cut(const void *at, const char *what, char *line, size_t max)
{
	const char *name;
	uint64_t offset;
	size_t n = 0;

	if (!mapped_find(at, &name, &offset))
		return 0;
	n = put(line, n, max, what);
	n = put(line, n, max, name);
	n = put(line, n, max, "@0x");
	n = put_hex(line, n, max, offset);
	return put(line, n, max,
		   ": the file became shorter while it was read, or cannot be "
		   "read\n");
}
