/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the blocks are: each translation becomes a numbered block in the log.
 *
 * A translation of the same bytes at the same place has the same number, so the
 * table stays small when qemu flushes its translation cache. A block whose
 * bytes came with a change of code (map.c) gets a new number even if it is
 * known: ids are positions in the log, so a thread that names the new id cannot
 * be read past the barrier before the change is applied.
 *
 * qemu translates under its mmap lock; qp.lock is held as well, because the
 * tables are also used by the system call callbacks.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/x86_insn.h"
#include "capture/qemu/impl.h"

#define USER_END (UINT64_C(1) << 47)

/* What identifies a translation: place, size and bytes. */
struct block {
	uint64_t start, end;
	uint64_t last;		/* address of the last instruction */
	uint64_t hash;		/* of the bytes */
	uint32_t n_insns;
	bool rep;
};

static struct {
	struct block *blocks;	/* SHM_MAX_BLOCKS, touched as needed */
	uint32_t n_blocks;
	uint32_t *index;	/* block id + 1, 0: free; open addressing */
	uint32_t index_size;	/* a power of two */
	/* qemu_plugin_insn_data as it is from version 3 on */
	size_t (*copy_insn)(const struct qemu_plugin_insn *insn, void *buf, size_t size);
} code;

void qp_code_init(void)
{
	code.blocks = qp_reserve(SHM_MAX_BLOCKS * sizeof(*code.blocks));
	code.index_size = 1u << 14;
	code.index = qp_reserve(code.index_size * sizeof(*code.index));
	*(void **)&code.copy_insn = dlsym(RTLD_DEFAULT, "qemu_plugin_insn_data");
	qp_map_init();
}

/* What qemu read of an instruction, which may be nothing. */
struct bytes {
	const void *p;
	size_t size;
	uint8_t copy[16];
};

/* From version 3 on the size is that of the step to the next one, read or not, and what
 * was not read is read then: it may not be there. */
static void get_bytes(const struct qemu_plugin_insn *insn, uint64_t ip, struct bytes *b)
{
	b->size = qemu_plugin_insn_size(insn);
	if (qp.api < 3) {
		b->p = qemu_plugin_insn_data(insn);
		return;
	}
	b->p = b->copy;
	if (b->size > sizeof(b->copy) || x86_is_vsyscall(ip) ||
	    (qp.machine->size && b->size != qp.machine->size))
		b->size = 0;
	b->size = code.copy_insn(insn, b->copy, b->size);
}

uint32_t qp_n_blocks(void)
{
	return code.n_blocks;
}

uint64_t qp_block_start(uint32_t id)
{
	return code.blocks[id].start;
}

bool qp_block_reaches(uint32_t id, uint64_t ip)
{
	return id < code.n_blocks && ip >= code.blocks[id].start &&
	       ip <= code.blocks[id].end;
}

bool qp_repeats(uint32_t last, uint32_t id)
{
	return last < code.n_blocks && code.blocks[last].rep &&
	       code.blocks[last].last == code.blocks[id].start;
}

static void log_block(const struct block *b, uint64_t target, uint8_t cls,
		      const uint8_t *sizes)
{
	struct shm_log_block rec = {
		.head = { .kind = SHM_LOG_BLOCK },
		.start = b->start, .end = b->end, .target = target,
		.n_insns = b->n_insns, .cls = cls, .rep = b->rep,
		.last_size = (uint8_t)(b->end - b->last),
	};
	size_t n = (b->n_insns + 7) & ~7u;

	rec.head.size = (uint32_t)(sizeof(rec) + n);
	qp_put_bytes(&qp.log->log, &rec, sizeof(rec));
	qp_put_bytes(&qp.log->log, sizes, n);
}

static uint32_t *index_slot(const struct block *b)
{
	uint32_t mask = code.index_size - 1;
	uint32_t i = (uint32_t)((b->start * 0x9e3779b97f4a7c15u) >> 32) & mask;

	for (; code.index[i]; i = (i + 1) & mask) {
		const struct block *o = &code.blocks[code.index[i] - 1];

		if (o->start == b->start && o->end == b->end &&
		    o->n_insns == b->n_insns && o->hash == b->hash)
			break;
	}
	return &code.index[i];
}

static void grow_index(void)
{
	uint32_t *old = code.index, n = code.index_size;

	code.index_size *= 2;
	code.index = qp_reserve(code.index_size * sizeof(*code.index));
	for (uint32_t i = 0; i < n; i++)
		if (old[i])
			*index_slot(&code.blocks[old[i] - 1]) = old[i];
	munmap(old, n * sizeof(*old));
}

/* FNV-1a, 64 bits */
static uint64_t hash_bytes(uint64_t h, const uint8_t *p, size_t n)
{
	while (n--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

/* What a translation looks like; becomes b and a record of the log. */
struct shape {
	struct block b;
	uint64_t target;
	size_t n_bytes;
	uint8_t cls;
	uint8_t sizes[SHM_MAX_INSNS + 8];
};

/*
 * qemu's x86 translator ends a block before an instruction that crosses into
 * the next page, unless it is the block's first; but by then the plugin
 * interface has counted the instruction, and shows the bytes read so far. True
 * if the instruction at ip is such a one. The guest's memory may end at the
 * page, so the bytes are read with a call that fails instead of faulting.
 */
static bool crosses_page(uint64_t ip)
{
	uint64_t left = QP_PAGE - (ip & (QP_PAGE - 1));
	struct iovec local, remote;
	struct x86_insn in;
	uint8_t bytes[16];
	ssize_t n;
	int size;

	if (qp.machine->size || left >= 15)
		return false;
	local = (struct iovec){ bytes, 15 };
	remote = (struct iovec){ (void *)(uintptr_t)ip, 15 };
	n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	if (n < 15) {	/* the next page is not there, or no such call */
		n = (ssize_t)left;
		memcpy(bytes, (const void *)(uintptr_t)ip, left);
	}
	size = x86_insn_decode(bytes, (size_t)n, &in);
	return size > (int)left || (!size && n == (ssize_t)left);
}

static void drop_last(struct shape *s)
{
	s->b.n_insns--;
	s->b.end = s->b.last;
	s->b.last -= s->sizes[s->b.n_insns - 1];
	s->sizes[s->b.n_insns] = 0;
}

/*
 * Only the last instruction of a block may branch, or the consumer's record of
 * the flow would have holes. Checked where sizes are fixed; x86 would have to
 * decode every instruction.
 */
static void check_inner(const struct bytes *bytes, uint64_t ip)
{
	struct qp_insn in;

	if (qp.machine->size && qp.machine->decode(bytes->p, bytes->size, &in) &&
	    in.cls)
		qp_die("qemu made a block with a branch inside, at %#llx",
		       (long long)ip);
}

/*
 * Sizes from qemu, the kind of branch from the last instruction's bytes. An
 * instruction without bytes (vsyscall, a misaligned address) raises an
 * exception instead of running; it gets the smallest size. Returns -1 when
 * there is no instruction, or too many.
 */
static int read_shape(const struct qemu_plugin_tb *tb, struct shape *s)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct bytes bytes = { 0 };
	uint8_t least = qp.machine->size ? qp.machine->size : 1;
	struct qp_insn in;

	if (!n || n > SHM_MAX_INSNS)
		return -1;
	memset(s, 0, offsetof(struct shape, sizes));
	memset(s->sizes + n, 0, 8);
	s->b.start = s->b.end = qemu_plugin_tb_vaddr(tb);
	s->b.n_insns = (uint32_t)n;
	s->b.hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < n; i++) {
		get_bytes(qemu_plugin_tb_get_insn(tb, i), s->b.end, &bytes);
		s->n_bytes += bytes.size;
		s->b.hash = hash_bytes(s->b.hash, bytes.p, bytes.size);
		s->sizes[i] = (uint8_t)(bytes.size ? bytes.size : least);
		s->b.last = s->b.end;
		s->b.end += s->sizes[i];
		if (i < n - 1)
			check_inner(&bytes, s->b.last);
	}
	if (qp.machine->decode(bytes.p, bytes.size, &in)) {
		s->cls = in.cls;
		s->b.rep = in.rep;
		s->target = s->b.end + (uint64_t)in.disp;
	} else if (n > 1 && crosses_page(s->b.last)) {
		drop_last(s);
	}
	return 0;
}

/* The id of s: the known one, or unless that exists and !fresh, the next. */
static uint32_t number_block(const struct shape *s, bool fresh)
{
	uint32_t *slot = index_slot(&s->b), id = code.n_blocks;

	if (*slot && !fresh)
		return *slot - 1;
	if (id == SHM_MAX_BLOCKS)
		qp_die("the program has more than %u blocks of code",
		       SHM_MAX_BLOCKS);
	code.blocks[id] = s->b;
	*slot = ++code.n_blocks;
	log_block(&s->b, s->target, s->cls, s->sizes);
	if (code.n_blocks * 2 > code.index_size)
		grow_index();
	return id;
}

/* --truth: a callback per instruction, which shares nothing with the blocks. */
static void log_truth(struct qemu_plugin_tb *tb, const struct shape *s)
{
	uint64_t ip = s->b.start;

	for (size_t i = 0; i < s->b.n_insns; i++) {
		bool rep = s->b.rep && ip == s->b.last;

		qemu_plugin_register_vcpu_insn_exec_cb(
			qemu_plugin_tb_get_insn(tb, i),
			rep ? qp_exec_rep_insn : qp_exec_insn, 0,
			(void *)(uintptr_t)ip);
		ip += s->sizes[i];
	}
}

/* Guest addresses must be host addresses (no -B offset): compares the bytes of
 * the first block with what qemu says they are. */
static void check_base(const struct qemu_plugin_tb *tb)
{
	uint8_t own[sizeof(((struct bytes *)0)->copy)] = { 0 };
	struct iovec local = { own, 0 }, remote;
	struct bytes bytes;
	ssize_t n;

	get_bytes(qemu_plugin_tb_get_insn(tb, 0), qemu_plugin_tb_vaddr(tb), &bytes);
	if (!bytes.size || bytes.size > sizeof(own))
		return;
	local.iov_len = bytes.size;
	remote = (struct iovec){ (void *)qemu_plugin_tb_vaddr(tb), bytes.size };
	n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	if (n < 0 ? errno == EFAULT : memcmp(own, bytes.p, bytes.size) != 0)
		qp_die("guest memory is not directly addressable");
}

void qp_translate(struct qemu_plugin_tb *tb)
{
	static struct shape s;	/* large; qp.lock is held */
	bool fresh = false;
	uint32_t id;

	if (!qp_self.shm)
		return;
	pthread_mutex_lock(&qp.lock);
	if (!code.n_blocks)
		check_base(tb);
	if (read_shape(tb, &s) < 0)
		qp_die("qemu made a block of %zu instructions",
		       qemu_plugin_tb_n_insns(tb));
	/* the SYNC that new code emits must follow the stop in the ring */
	qp_emit_stop(&qp_self, s.b.start);
	if (s.b.end < USER_END && s.n_bytes)
		fresh = qp_ensure_code(s.b.start, s.b.end);
	id = number_block(&s, fresh);
	qemu_plugin_register_vcpu_tb_exec_cb(
		tb, s.b.rep && s.b.n_insns == 1 ? qp_exec_rep : qp_exec_block,
		0, (void *)(uintptr_t)id);
	if (qp.truth)
		log_truth(tb, &s);
	pthread_mutex_unlock(&qp.lock);
}
