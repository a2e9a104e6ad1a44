/* SPDX-License-Identifier: BSD-2-Clause */
/* elfcore: see core.h. libdw unwinds (unwind.c). */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/array.h"
#include "common/diag.h"
#include "common/mapped.h"
#include "common/regular.h"
#include "decode/lib/elf/core_impl.h"

#define NOTE_PRSTATUS 1
#define NOTE_PRPSINFO 3
#define NOTE_SIGINFO 0x53494749
#define NOTE_FILE 0x46494c45
#define MAX_THREADS 65536
#define MAX_FILES 65536

/* ---- notes ---- */

/* struct elf_prstatus: where things are in it. */
#define PRSTATUS_PID 32
#define PRSTATUS_REGS 112
#define PRSTATUS_SIZE 336

/* struct user_regs_struct, in its order; REGS_OTHER: not of those kept. */
enum { REGS_ORIG = INSN_REGS, REGS_RIP, REGS_CS, REGS_FLAGS, REGS_SS, REGS_FS, REGS_GS,
       REGS_OTHER };
static const uint8_t regs_order[] = {
	INSN_R15, INSN_R14, INSN_R13, INSN_R12, INSN_RBP, INSN_RBX, INSN_R11, INSN_R10,
	INSN_R9, INSN_R8, INSN_RAX, INSN_RCX, INSN_RDX, INSN_RSI, INSN_RDI, REGS_ORIG,
	REGS_RIP, REGS_CS, REGS_FLAGS, INSN_RSP, REGS_SS, REGS_FS, REGS_GS,
};

static void parse_regs(struct cursor *c, struct elfcore_regs *r)
{
	for (size_t i = 0; i < sizeof(regs_order); i++) {
		uint64_t v = cursor_u64(c);

		if (regs_order[i] < INSN_REGS)
			r->gpr[regs_order[i]] = v;
		else if (regs_order[i] == REGS_RIP)
			r->rip = v;
		else if (regs_order[i] == REGS_FLAGS)
			r->eflags = v;
		else if (regs_order[i] == REGS_FS)
			r->fs_base = v;
		else if (regs_order[i] == REGS_GS)
			r->gs_base = v;
	}
}

static int parse_thread(struct elfcore *core, struct cursor c)
{
	struct elfcore_thread t = { 0 };

	if (cursor_left(&c) < PRSTATUS_SIZE || core->n_threads == MAX_THREADS)
		return 0;
	cursor_bytes(&c, PRSTATUS_PID);
	t.tid = cursor_u32(&c);
	cursor_bytes(&c, PRSTATUS_REGS - PRSTATUS_PID - 4);
	parse_regs(&c, &t.regs);
	return array_append(&core->threads, &core->n_threads, &core->cap_threads, &t,
			    sizeof(t)) ? -AUX_E_NOMEM : 0;
}

static bool says_where(uint32_t signo, int32_t code)
{
	return code > 0 && code != SI_KERNEL &&
	       (signo == SIGSEGV || signo == SIGBUS || signo == SIGILL ||
		signo == SIGFPE || signo == SIGTRAP);
}

static void parse_signal(struct elfcore *core, struct cursor c)
{
	struct elfcore_signal *s = &core->signal;
	struct cursor rest;

	s->signo = cursor_u32(&c);
	cursor_u32(&c);
	s->code = (int32_t)cursor_u32(&c);
	cursor_u32(&c);
	rest = c;
	if (says_where(s->signo, s->code)) {
		s->addr = cursor_u64(&c);
		s->has_addr = !c.bad;
	} else if (s->code <= 0) {
		s->sender = cursor_u32(&rest);
	}
}

/* Names follow the ranges, in the same order. */
static int parse_files(struct elfcore *core, struct cursor c)
{
	uint64_t n = cursor_u64(&c), page = cursor_u64(&c);
	struct cursor names;

	if (core->files || n > MAX_FILES || n > cursor_left(&c) / 24 || !n)
		return 0;
	core->files = calloc(n, sizeof(*core->files));
	if (!core->files)
		return -AUX_E_NOMEM;
	names = c;
	cursor_bytes(&names, n * 24);
	for (uint64_t i = 0; i < n; i++) {
		struct core_file f = { .start = cursor_u64(&c), .end = cursor_u64(&c) };
		const uint8_t *nul = memchr(names.p, 0, cursor_left(&names));

		f.offset = cursor_u64(&c) * page;
		if (!nul || f.start >= f.end)
			break;
		f.path = (const char *)cursor_bytes(&names, (size_t)(nul - names.p) + 1);
		core->files[core->n_files++] = f;
	}
	return 0;
}

static int parse_note(struct elfcore *core, uint32_t type, struct cursor c)
{
	switch (type) {
	case NOTE_PRSTATUS:
		return parse_thread(core, c);
	case NOTE_PRPSINFO:
		cursor_bytes(&c, 24);
		core->pid = cursor_u32(&c);
		return 0;
	case NOTE_SIGINFO:
		parse_signal(core, c);
		return 0;
	case NOTE_FILE:
		return parse_files(core, c);
	}
	return 0;
}

static int parse_notes(struct elfcore *core, struct cursor c)
{
	int err = 0;

	while (!err && cursor_left(&c) >= 12) {
		uint32_t name = cursor_u32(&c), size = cursor_u32(&c);
		uint32_t type = cursor_u32(&c);
		const uint8_t *who = cursor_bytes(&c, ((size_t)name + 3) & ~(size_t)3);
		const uint8_t *what = cursor_bytes(&c, size);

		if (c.bad)
			break;
		if (name == 5 && !memcmp(who, "CORE", 5))
			err = parse_note(core, type, cursor_init(what, size, false));
		cursor_bytes(&c, -(size_t)size & 3);
	}
	return err;
}

/* ---- segments ---- */

static int by_start(const void *a, const void *b)
{
	const struct core_segment *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* What lies past the end of the file is not there. */
static int parse_segment(struct elfcore *core, const Elf64_Phdr *p)
{
	uint64_t n = p->p_filesz;
	struct core_segment s = { .start = p->p_vaddr };

	if (p->p_offset > core->len)
		n = 0;
	else if (n > core->len - p->p_offset)
		n = core->len - p->p_offset;
	core->cut = core->cut || n < p->p_filesz;
	if (!n)
		return 0;
	if (p->p_type == PT_NOTE)
		return parse_notes(core, cursor_init(core->data + p->p_offset, n, false));
	if (p->p_type != PT_LOAD)
		return 0;
	s.bytes = core->data + p->p_offset;
	s.len = n < UINT64_MAX - s.start ? n : UINT64_MAX - s.start;
	return array_append(&core->segments, &core->n_segments, &core->cap_segments, &s,
			    sizeof(s)) ? -AUX_E_NOMEM : 0;
}

static int refuse(struct aux_diag *diag, int code, const char *why)
{
	return diag_set(diag, code, AUX_NO_OFFSET, "%s", why);
}

/* Of very many mappings their number is in the first section's header. */
static size_t count_headers(const struct elfcore *core, const Elf64_Ehdr *h)
{
	Elf64_Shdr s;

	if (h->e_phnum != PN_XNUM)
		return h->e_phnum;
	if (h->e_shoff > core->len || core->len - h->e_shoff < sizeof(s))
		return 0;
	memcpy(&s, core->data + h->e_shoff, sizeof(s));
	return s.sh_info;
}

static int parse(struct elfcore *core, struct aux_diag *diag)
{
	Elf64_Ehdr h;
	size_t n;
	int err = 0;

	if (core->len < sizeof(h) || memcmp(core->data, ELFMAG, SELFMAG))
		return refuse(diag, AUX_E_FORMAT, "no core file: it is no ELF");
	memcpy(&h, core->data, sizeof(h));
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
	    h.e_machine != EM_X86_64)
		return refuse(diag, AUX_E_UNSUPPORTED, "core files of x86-64 processes "
			      "alone are understood");
	if (h.e_type != ET_CORE)
		return refuse(diag, AUX_E_FORMAT, "no core file, but a program or library");
	n = count_headers(core, &h);
	if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phoff > core->len ||
	    n > (core->len - h.e_phoff) / sizeof(Elf64_Phdr))
		return refuse(diag, AUX_E_FORMAT, "the core file ends before its "
			      "program headers do");
	for (size_t i = 0; i < n && !err; i++) {
		Elf64_Phdr p;

		memcpy(&p, core->data + h.e_phoff + i * sizeof(p), sizeof(p));
		err = parse_segment(core, &p);
	}
	if (!err && core->n_segments)
		qsort(core->segments, core->n_segments, sizeof(*core->segments),
		      by_start);
	if (!err && !core->n_threads)
		err = refuse(diag, AUX_E_FORMAT, "the core file has no registers of any "
			     "thread");
	return err;
}

static int map_file(struct elfcore *core, const char *path, struct aux_diag *diag)
{
	struct stat st;
	int fd = regular_open(path, &st);

	if (fd < 0)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot open: %s",
				errno == EINVAL ? "no regular file" : strerror(errno));
	core->len = (uint64_t)st.st_size;
	if (core->len)
		core->data = mapped_open(fd, core->len, path);
	close(fd);
	if (core->len && !core->data)
		return diag_set(diag, AUX_E_IO, AUX_NO_OFFSET, "cannot map: %s",
				strerror(errno));
	return 0;
}

int elfcore_open(struct elfcore **out, const char *path, struct aux_diag *diag)
{
	struct elfcore *core = calloc(1, sizeof(*core));
	int err;

	*out = NULL;
	if (!core)
		return refuse(diag, AUX_E_NOMEM, "out of memory");
	err = map_file(core, path, diag);
	if (!err)
		err = parse(core, diag);
	if (err == -AUX_E_NOMEM)
		refuse(diag, AUX_E_NOMEM, "out of memory");
	if (err) {
		elfcore_close(core);
		return err;
	}
	*out = core;
	return 0;
}

void elfcore_close(struct elfcore *core)
{
	if (!core)
		return;
	if (core->data)
		mapped_close(core->data, core->len);
	free(core->threads);
	free(core->segments);
	free(core->files);
	free(core);
}

/* ---- what it says ---- */

/* Of a core file that a program made of a process that still runs, the first thread's
 * is the number that is sure to be in it. */
uint32_t elfcore_pid(const struct elfcore *core)
{
	return core->pid ? core->pid : core->threads[0].tid;
}

bool elfcore_is_cut(const struct elfcore *core)
{
	return core->cut;
}

const struct elfcore_signal *elfcore_signal(const struct elfcore *core)
{
	return &core->signal;
}

const struct elfcore_thread *elfcore_thread(const struct elfcore *core, size_t i)
{
	return i < core->n_threads ? &core->threads[i] : NULL;
}

static const struct core_segment *find_segment(const struct elfcore *core, uint64_t addr)
{
	size_t lo = 0, hi = core->n_segments;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (core->segments[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || addr - core->segments[lo - 1].start >= core->segments[lo - 1].len)
		return NULL;
	return &core->segments[lo - 1];
}

size_t elfcore_read(const struct elfcore *core, uint64_t addr, void *buf, size_t n)
{
	const struct core_segment *s;
	size_t done = 0;

	while (done < n && (s = find_segment(core, addr + done))) {
		uint64_t at = addr + done - s->start, left = s->len - at;
		size_t now = left < n - done ? (size_t)left : n - done;

		memcpy((uint8_t *)buf + done, s->bytes + at, now);
		done += now;
	}
	return done;
}

/*
 * Memory of no file is the process's own. A page of a file that the system wrote into
 * the core was written to by the process, which makes it private; but not of files that
 * are memory themselves (/dev/shm, memfd, shared anonymous memory): these are shared.
 */
bool elfcore_is_private(const struct elfcore *core, uint64_t addr, size_t n)
{
	for (size_t i = 0; i < core->n_files; i++) {
		const struct core_file *f = &core->files[i];
		size_t len = strlen(f->path);

		if (addr >= f->end || f->start >= addr + n)
			continue;
		if (f->path[0] != '/' || !strncmp(f->path, "/dev/", 5) ||
		    !strncmp(f->path, "/memfd:", 7) || !strncmp(f->path, "/SYSV", 5) ||
		    (len > 10 && !strcmp(f->path + len - 10, " (deleted)")))
			return false;
	}
	return addr < UINT64_MAX - n;
}
