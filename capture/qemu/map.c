/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where code comes from: the first block in an unknown place makes a mapping in
 * the log.
 *
 * Code is looked at when qemu translates it, not when the guest maps it: qemu
 * translates again whenever a guest writes to a page that it has translated, so
 * each version of the code that runs passes here first. Where the bytes are not
 * those of the mapped file (anonymous memory, deleted or rewritten files) the
 * whole page is saved, again whenever the bytes differ from the saved ones.
 *
 * Mappings are read from /proc/self/maps, which shows qemu's own, too; guest
 * addresses are host addresses, so a line that holds guest code is the guest's.
 * The kernel's line has no x, because qemu maps guest code without it.
 *
 * A jitdump is logged when it is mapped: its writer maps it executable to show
 * where it is, and no code ever runs there.
 *
 * All state is guarded by qp.lock.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <aux/perfdata.h>
#include "capture/qemu/impl.h"
#include "common/jitname.h"
#include "common/mapspath.h"

/* Executed memory that the log knows. */
struct region {
	uint64_t start, end;
	uint64_t base;		/* where file[0] is mapped */
	const uint8_t *file;	/* the file's bytes, or NULL */
	uint64_t file_len;
	bool split;		/* another region shares file: never unmapped */
	uint32_t kind;		/* of saved bytes, enum aux_code_kind */
};

/* A page whose bytes are in the log. bytes NULL: forgotten since; the entry
 * stays, as open addressing cannot remove one. */
struct saved_page {
	uint64_t addr;		/* 0: free */
	uint8_t *bytes;
};

static struct {
	struct region *regions;
	size_t n_regions, max_regions;
	struct saved_page *pages;	/* open addressing */
	size_t n_pages, pages_size;
	uint64_t seq;
} code;

void qp_map_init(void)
{
	code.pages_size = 1u << 8;
	code.pages = qp_reserve(code.pages_size * sizeof(*code.pages));
}

/*
 * Appends a barrier to the log and a SYNC with its number to the calling
 * thread's ring. head->size is the fixed part's size; tail is padded to 8
 * bytes.
 */
static void log_barrier(struct shm_log_head *head, const void *tail, size_t len)
{
	size_t fixed = head->size, pad = -len & 7;

	head->size += (uint32_t)(len + pad);
	head->seq = ++code.seq;
	qp_put_bytes(&qp.log->log, head, fixed);
	qp_put_bytes(&qp.log->log, tail, len & ~(size_t)7);
	if (len & 7) {
		char last[8] = { 0 };

		memcpy(last, (const char *)tail + (len & ~(size_t)7), len & 7);
		qp_put_bytes(&qp.log->log, last, 8);
	}
	qp_escape(&qp_self.shm->ring, SHM_ESC_SYNC, head->seq, 0);
}

/* ---- saved pages ---- */

static struct saved_page *find_page(uint64_t addr)
{
	size_t mask = code.pages_size - 1, i = (addr / QP_PAGE * 0x9e3779b1u) & mask;

	while (code.pages[i].addr && code.pages[i].addr != addr)
		i = (i + 1) & mask;
	return &code.pages[i];
}

static void grow_pages(void)
{
	struct saved_page *old = code.pages;
	size_t n = code.pages_size;

	code.pages_size *= 2;
	code.pages = qp_reserve(code.pages_size * sizeof(*code.pages));
	for (size_t i = 0; i < n; i++)
		if (old[i].addr)
			*find_page(old[i].addr) = old[i];
	munmap(old, n * sizeof(*old));
}

/* A whole page, although a few bytes of it run now: their neighbours will. */
static void save_page(struct saved_page *p, uint64_t addr, uint32_t kind)
{
	struct shm_log_code rec = {
		.head = { .size = sizeof(rec), .kind = SHM_LOG_CODE },
		.addr = addr, .len = QP_PAGE, .kind = kind,
	};

	if (!p->addr) {
		p->addr = addr;
		code.n_pages++;
	}
	if (!p->bytes)
		p->bytes = qp_reserve(QP_PAGE);
	memcpy(p->bytes, (const void *)addr, QP_PAGE);
	log_barrier(&rec.head, p->bytes, QP_PAGE);
	if (code.n_pages * 2 > code.pages_size)
		grow_pages();
}

/* ---- regions ---- */

/* Linear: a program has some dozens, and this runs per translation. */
static struct region *find_region(uint64_t addr)
{
	for (size_t i = 0; i < code.n_regions; i++)
		if (addr >= code.regions[i].start && addr < code.regions[i].end)
			return &code.regions[i];
	return NULL;
}

static void drop_region(size_t i)
{
	struct region *r = &code.regions[i];

	if (r->file && !r->split)
		munmap((void *)(uintptr_t)r->file, r->file_len);
	*r = code.regions[--code.n_regions];
}

static struct region *new_region(void)
{
	if (code.n_regions == code.max_regions) {
		code.max_regions = code.max_regions * 2 + 64;
		code.regions = realloc(code.regions, code.max_regions *
					       sizeof(*code.regions));
		if (!code.regions)
			qp_die("out of memory inside qemu");
	}
	return &code.regions[code.n_regions++];
}

/* Forgets the saved bytes of a range that was unmapped or mapped anew. */
static void forget_pages(uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < code.pages_size; i++) {
		struct saved_page *p = &code.pages[i];

		if (p->bytes && p->addr >= start && p->addr < end) {
			munmap(p->bytes, QP_PAGE);
			p->bytes = NULL;
		}
	}
}

/* Removes [start, end) from region i. True: the region is gone. */
static bool cut_region(size_t i, uint64_t start, uint64_t end)
{
	struct region *r = &code.regions[i], *rest;

	if (start <= r->start && end >= r->end) {
		drop_region(i);
		return true;
	}
	if (start > r->start && end < r->end) {
		r->split = true;
		rest = new_region();
		*rest = code.regions[i];
		rest->start = end;
		r = &code.regions[i];
		r->end = start;
	} else if (start <= r->start) {
		r->start = end;
	} else {
		r->end = start;
	}
	return false;
}

void qp_unmapped(uint64_t tagged, uint64_t len)
{
	uint64_t addr = tagged & qp.address;
	uint64_t end = addr + ((len + QP_PAGE - 1) & ~(uint64_t)(QP_PAGE - 1));
	bool any = false;

	pthread_mutex_lock(&qp.lock);
	for (size_t i = 0; i < code.n_regions;) {
		struct region *r = &code.regions[i];
		bool hit = r->end > addr && r->start < end;

		any |= hit;
		if (!hit || !cut_region(i, addr, end))
			i++;
	}
	if (any)
		forget_pages(addr, end);
	pthread_mutex_unlock(&qp.lock);
}

struct map_line {
	struct shm_log_map map;
	uint64_t end;
	char path[4096];
};

static bool parse_line(const char *line, struct map_line *m)
{
	unsigned long long start, end, off, ino;
	unsigned int maj, min;
	char perms[8];
	int at = 0;

	if (sscanf(line, "%llx-%llx %7s %llx %x:%x %llu %n", &start, &end, perms,
		   &off, &maj, &min, &ino, &at) < 7)
		return false;
	m->map.addr = start;
	m->end = end;
	m->map.pgoff = off;
	m->map.maj = maj;
	m->map.min = min;
	m->map.ino = ino;
	m->map.flags = perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	m->map.prot = PROT_READ | PROT_EXEC |
		      (perms[1] == 'w' ? PROT_WRITE : 0);
	snprintf(m->path, sizeof(m->path), "%s", line + at);
	m->path[strcspn(m->path, "\n")] = 0;
	mapspath_decode(m->path, ino);
	return true;
}

/* The line of /proc/self/maps that holds addr; else its page as anonymous. */
static void look_up(uint64_t addr, struct map_line *m)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096 + 128];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = parse_line(line, m) && addr >= m->map.addr &&
			addr < m->end;
	if (f)
		fclose(f);
	if (!found) {
		*m = (struct map_line){ .end = (addr & -(uint64_t)QP_PAGE) + QP_PAGE };
		m->map.addr = addr & -(uint64_t)QP_PAGE;
		m->map.prot = PROT_READ | PROT_EXEC;
		m->map.flags = MAP_PRIVATE;
	}
	if (!m->path[0])
		snprintf(m->path, sizeof(m->path), "//anon");
}

/* Reduces the mapping to the part around addr that no region covers yet; only
 * files have offsets to adjust. */
static void clip(struct map_line *m, uint64_t addr)
{
	for (size_t i = 0; i < code.n_regions; i++) {
		const struct region *r = &code.regions[i];

		if (r->end <= addr && r->end > m->map.addr) {
			m->map.pgoff += m->path[0] == '/' ?
					r->end - m->map.addr : 0;
			m->map.addr = r->end;
		} else if (r->start > addr && r->start < m->end) {
			m->end = r->start;
		}
	}
}

/*
 * Maps the file to compare code with it. The inode must be the one of the
 * mapping: the path may lead to another file by now (an upgrade, another
 * namespace). A file with fewer bytes than the mapping is mapped as far as it
 * goes. On failure r->file stays NULL, and the pages are saved.
 */
static void map_file(struct region *r, const struct map_line *m)
{
	struct stat st;
	void *p;
	int fd;

	if (m->path[0] != '/' || m->path[1] == '/')
		return;
	/* by now the name may be that of a FIFO */
	fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
				   O_NOCTTY);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    st.st_ino == m->map.ino &&
	    (uint64_t)st.st_size > m->map.pgoff) {
		r->file_len = (uint64_t)st.st_size - m->map.pgoff;
		if (r->file_len > m->end - m->map.addr)
			r->file_len = m->end - m->map.addr;
		p = mmap(NULL, r->file_len, PROT_READ, MAP_PRIVATE, fd,
			 (off_t)m->map.pgoff);
		r->file = p == MAP_FAILED ? NULL : p;
	}
	close(fd);
}

static void log_map(struct map_line *m)
{
	m->map.head.size = sizeof(m->map);
	m->map.head.kind = SHM_LOG_MAP;
	m->map.len = m->end - m->map.addr;
	log_barrier(&m->map.head, m->path, strlen(m->path) + 1);
}

void qp_mapped(uint64_t addr)
{
	static struct map_line m;	/* large; qp.lock is held */

	pthread_mutex_lock(&qp.lock);
	memset(&m.map, 0, sizeof(m.map));
	look_up(addr, &m);
	if (jitname_is_dump(m.path))
		log_map(&m);
	pthread_mutex_unlock(&qp.lock);
}

static struct region *add_region(uint64_t addr)
{
	static struct map_line m;	/* large; qp.lock is held */
	struct region *r;

	memset(&m.map, 0, sizeof(m.map));
	look_up(addr, &m);
	clip(&m, addr);
	r = new_region();
	*r = (struct region){ .start = m.map.addr, .end = m.end,
			      .base = m.map.addr };
	map_file(r, &m);
	r->kind = !strcmp(m.path, "[vdso]") ? AUX_CODE_VDSO :
		  m.path[0] == '/' && m.path[1] != '/' ? AUX_CODE_FILE :
		  AUX_CODE_ANON;
	log_map(&m);
	return r;
}

/* One page's part of a block. True: the log was extended. A page saved once is
 * compared with its saved bytes from then on, as readers use these. */
static bool ensure_part(uint64_t start, uint64_t end)
{
	struct region *r = find_region(start);
	uint64_t page = start & -(uint64_t)QP_PAGE;
	struct saved_page *p;
	bool news = !r;

	if (!r)
		r = add_region(start);
	p = find_page(page);
	if (p->bytes) {
		if (!memcmp(p->bytes + (start - page), (const void *)start,
			    end - start))
			return news;
	} else if (r->file && end - r->base <= r->file_len &&
		   !memcmp(r->file + (start - r->base), (const void *)start,
			   end - start)) {
		return news;
	}
	save_page(p, page, r->kind);
	return true;
}

bool qp_ensure_code(uint64_t start, uint64_t end)
{
	bool news = false;

	while (start < end) {
		uint64_t stop = (start & -(uint64_t)QP_PAGE) + QP_PAGE;

		if (stop > end)
			stop = end;
		news |= ensure_part(start, stop);
		start = stop;
	}
	return news;
}
