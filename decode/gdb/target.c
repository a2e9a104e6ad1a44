/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: what the debugger must know of the program to find its files: architecture,
 * executable, libraries and where they are, the auxiliary vector, threads; and the
 * memory that is known.
 */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "common/markup.h"
#include "decode/gdb/impl.h"

/* table: as the manual of GDB has the features */
static const struct machine machines[] = {
	{ "i386:x86-64", "x86_64-unknown-linux-gnu", "org.gnu.gdb.i386.core", 16, 8, {
		{ "rax rbx rcx rdx rsi rdi", 64, "int64" }, { "rbp rsp", 64, "data_ptr" },
		{ "r8 r9 r10 r11 r12 r13 r14 r15", 64, "int64" },
		{ "rip", 64, "code_ptr" },
		{ "eflags cs ss ds es fs gs", 32, "int32" } } },
	{ "i386", "i386-unknown-linux-gnu", "org.gnu.gdb.i386.core", 8, 4, {
		{ "eax ecx edx ebx", 32, "int32" }, { "esp ebp", 32, "data_ptr" },
		{ "esi edi", 32, "int32" }, { "eip", 32, "code_ptr" },
		{ "eflags cs ss ds es fs gs", 32, "int32" } } },
	{ "aarch64", "aarch64-unknown-linux-gnu", "org.gnu.gdb.aarch64.core", 32, 8, {
		{ "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 "
		  "x20 x21 x22 x23 x24 x25 x26 x27 x28 x29 x30", 64, "int" },
		{ "sp", 64, "data_ptr" }, { "pc", 64, "code_ptr" },
		{ "cpsr", 32, "int" } } },
	{ "arm", "armv7-unknown-linux-gnueabihf", "org.gnu.gdb.arm.core", 15, 4, {
		{ "r0 r1 r2 r3 r4 r5 r6 r7 r8 r9 r10 r11 r12", 32, "uint32" },
		{ "sp", 32, "data_ptr" }, { "lr", 32, "int" }, { "pc", 32, "code_ptr" },
		{ "cpsr", 32, "int" } } },
};

/* Of all x86, after those above; then of each, without which GDB takes it for no Linux. */
static const struct machine_regs x86_rest[] = {
	{ "st0 st1 st2 st3 st4 st5 st6 st7", 80, "i387_ext" },
	{ "fctrl fstat ftag fiseg fioff foseg fooff fop", 32, "int" },
};
static const struct machine_regs x86_linux[] = {
	{ "orig_rax", 64, "int" }, { "orig_eax", 32, "int" },
};
#define LINUX_FEATURE "org.gnu.gdb.i386.linux"

/* The i-th kind of registers; NULL: there are no more. */
static const struct machine_regs *kind_of(const struct machine *m, size_t i)
{
	const size_t n = sizeof(m->regs) / sizeof(m->regs[0]);
	size_t own = 0;

	while (own < n && m->regs[own].names)
		own++;
	if (i < own)
		return &m->regs[i];
	if (m >= &machines[2] || i - own > 2)
		return NULL;
	return i - own < 2 ? &x86_rest[i - own] : &x86_linux[m - machines];
}

unsigned target_register(const struct machine *m, unsigned long n)
{
	const struct machine_regs *r;

	for (size_t i = 0; (r = kind_of(m, i)); i++)
		for (const char *p = r->names; p; p = strchr(p, ' '), p += p != NULL)
			if (!n--)
				return r->bits / 8;
	return 0;
}

const struct machine *target_machine(uint16_t mode)
{
	switch (mode & AUX_FLOW_MODE_MASK) {
	case AUX_FLOW_MODE_X86_32:
	case AUX_FLOW_MODE_X86_16:
		return &machines[1];
	case AUX_FLOW_MODE_A64:
		return &machines[2];
	case AUX_FLOW_MODE_A32:
	case AUX_FLOW_MODE_T32:
		return &machines[3];
	}
	return &machines[0];
}

/* The file behind a mapping, and what is to be added to its addresses. False: it is
 * not known. */
static bool find_file(struct server *s, const struct space *space,
		      const struct mapping *m, struct elfimage **im, uint64_t *bias)
{
	uint64_t offset, addr;

	if (m->kind != MAPPING_USER || m->path[0] != '/' ||
	    codeview_image(s->codeview, space, m->start, im, &offset) < 0 ||
	    !elfimage_is_elf(*im) || !elfimage_addr(*im, offset, &addr))
		return false;
	*bias = m->start - addr;
	return true;
}

static const struct space *space_now(struct server *s)
{
	struct replay_state st;

	if (replay_state(s->replay, &s->at, &st, s->diag))
		return NULL;
	return st.space;
}

/* The program's own file: the first mapping of the process that starts somewhere and is
 * the lowest. A library has an entry, too, but the loader maps it above. */
static const struct mapping *find_program(struct server *s,
					  const struct space *space,
					  struct elfimage **im, uint64_t *bias)
{
	const struct mapping *m = space ? space_next(space, 0) : NULL;

	while (m && !find_file(s, space, m, im, bias))
		m = m->end ? space_next(space, m->end) : NULL;
	return m;
}

static void put_features(struct server *s)
{
	const struct machine_regs *r;

	outbuf_printf(s->object, "<?xml version=\"1.0\"?>\n"
		      "<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n"
		      "<target><architecture>%s</architecture>"
		      "<osabi>GNU/Linux</osabi>\n<feature name=\"%s\">\n", s->machine->name,
		      s->machine->feature);
	for (size_t i = 0; (r = kind_of(s->machine, i)); i++) {
		if (r == &x86_linux[0] || r == &x86_linux[1])
			outbuf_str(s->object, "</feature>\n<feature name=\""
				   LINUX_FEATURE "\">\n");
		for (const char *p = r->names; p; p = strchr(p, ' '), p += p != NULL)
			outbuf_printf(s->object, "<reg name=\"%.*s\" bitsize=\"%u\" "
				      "type=\"%s\"/>\n", (int)strcspn(p, " "), p,
				      r->bits, r->type);
	}
	outbuf_str(s->object, "</feature></target>\n");
}

/*
 * What the chosen thread ran up to where it is, as blocks of code that ran from their first
 * instruction to their last, the newest first: it ends with the instruction that is about
 * to run. Where something is missing it begins.
 */
#define BLOCKS_MAX 20000

static int put_blocks(struct server *s, struct replay_place at, uint32_t tid)
{
	struct replay_why why = { .stop = REPLAY_DONE };
	struct replay_block b;
	int rc = 1;

	for (unsigned n = 0; n < BLOCKS_MAX && rc > 0 && why.stop == REPLAY_DONE; n++) {
		rc = replay_block(s->replay, &at, tid, &b, &why, s->diag);
		if (rc > 0)
			outbuf_printf(s->object, "<block begin=\"0x%llx\" end=\"0x%llx\"/>\n",
				      (unsigned long long)b.first,
				      (unsigned long long)b.last);
	}
	return rc < 0 ? rc : 0;
}

static void put_btrace(struct server *s)
{
	uint32_t tid = s->chosen ? s->chosen : s->tid;
	struct replay_place at;

	outbuf_str(s->object, "<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n"
		   "<btrace version=\"1.0\">\n");
	if (s->btrace && replay_thread(s->replay, &s->at, tid, &at, s->diag) > 0)
		put_blocks(s, at, tid);
	outbuf_str(s->object, "</btrace>\n");
}

static void put_btrace_conf(struct server *s)
{
	outbuf_str(s->object, "<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
		   "<btrace-conf version=\"1.0\">\n<bts size=\"0x10000\"/>\n"
		   "</btrace-conf>\n");
}

static void put_threads(struct server *s)
{
	uint32_t tid;
	size_t i = 0;

	outbuf_str(s->object, "<?xml version=\"1.0\"?>\n<threads>\n");
	while (replay_next_thread(s->replay, &i, &tid)) {
		outbuf_printf(s->object, "<thread id=\"%x\" name=\"", tid);
		outbuf_html(s->object, s->host.comm(s->host.priv, tid, UINT64_MAX));
		outbuf_str(s->object, "\"/>\n");
	}
	outbuf_str(s->object, "</threads>\n");
}

/* Each file once: its mappings follow one another. */
static void put_libraries(struct server *s)
{
	const struct space *space = space_now(s);
	struct elfimage *im, *program = NULL, *last = NULL;
	uint64_t bias;
	const struct mapping *m = find_program(s, space, &program, &bias);
	struct elfimage_start start;
	unsigned n = 0;

	outbuf_str(s->object, "<library-list-svr4 version=\"1.0\">\n");
	for (; m; m = m->end ? space_next(space, m->end) : NULL) {
		if (!find_file(s, space, m, &im, &bias) || im == program ||
		    im == last)
			continue;
		last = im;
		elfimage_start(im, &start);
		outbuf_str(s->object, "<library name=\"");
		outbuf_html(s->object, m->path);
		outbuf_printf(s->object, "\" lm=\"0x%x\" l_addr=\"0x%llx\" "
			      "l_ld=\"0x%llx\" lmid=\"0x0\"/>\n", ++n,
			      (unsigned long long)bias,
			      (unsigned long long)(start.dynamic + bias));
	}
	outbuf_str(s->object, "</library-list-svr4>\n");
}

static void put_word(struct server *s, uint64_t v)
{
	uint8_t b[8];

	for (unsigned i = 0; i < s->machine->size; i++)
		b[i] = (uint8_t)(v >> 8 * i);
	outbuf_put(s->object, (const char *)b, s->machine->size);
}

/* Where the program's file is: the debugger has it at the addresses of the file. */
static void put_auxv(struct server *s)
{
	struct elfimage_start start;
	struct elfimage *im;
	uint64_t bias;

	if (find_program(s, space_now(s), &im, &bias)) {
		elfimage_start(im, &start);
		put_word(s, AT_ENTRY);
		put_word(s, start.entry + bias);
		put_word(s, AT_PHDR);
		put_word(s, start.headers + bias);
		put_word(s, AT_PHENT);
		put_word(s, start.header_size);
		put_word(s, AT_PHNUM);
		put_word(s, start.n_headers);
	}
	put_word(s, AT_NULL);
	put_word(s, 0);
}

static void put_exec(struct server *s)
{
	const struct mapping *m;
	struct elfimage *im;
	uint64_t bias;

	m = find_program(s, space_now(s), &im, &bias);
	if (m)
		outbuf_str(s->object, m->path);
}

int target_object(struct server *s, const char *name, const char *annex)
{
	static const struct {
		const char *name;
		void (*put)(struct server *s);
	} objects[] = {
		{ "features", put_features }, { "threads", put_threads },
		{ "libraries-svr4", put_libraries }, { "auxv", put_auxv },
		{ "exec-file", put_exec }, { "btrace", put_btrace },
		{ "btrace-conf", put_btrace_conf },
	};

	if (!strcmp(name, "features") && strcmp(annex, "target.xml"))
		return -AUX_E_NOENT;
	/* A change alone is not known: then all is asked for. */
	if (!strncmp(name, "btrace", 6) && (!s->btrace || !strcmp(annex, "delta")))
		return -AUX_E_UNSUPPORTED;
	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		if (strcmp(objects[i].name, name))
			continue;
		outbuf_free(s->object);
		s->object = outbuf_new(-1);
		if (!s->object)
			return -AUX_E_NOMEM;
		objects[i].put(s);
		snprintf(s->object_of, sizeof(s->object_of), "%s", name);
		return outbuf_failed(s->object) ? -AUX_E_NOMEM : 0;
	}
	return -AUX_E_NOENT;
}

/* ---- memory ---- */

/* Of a file's segments that are not writable, whatever part of them was mapped to run:
 * constants, program headers. */
static size_t read_file(struct server *s, const struct space *space, uint64_t addr,
			uint8_t *buf, size_t n)
{
	const struct mapping *m = space_next(space, 0);
	struct elfimage *im;
	uint64_t bias, left;
	const uint8_t *p;

	for (; m; m = m->end ? space_next(space, m->end) : NULL) {
		if (!find_file(s, space, m, &im, &bias))
			continue;
		p = elfimage_constant(im, addr - bias, &left);
		if (!p)
			continue;
		n = left < n ? (size_t)left : n;
		memcpy(buf, p, n);
		return n;
	}
	return 0;
}

size_t target_memory(struct server *s, uint64_t addr, uint8_t *buf, size_t n)
{
	const struct space *space = space_now(s);
	struct aux_code code;

	if (!space)
		return 0;
	if (s->host.code(s->host.priv, space, addr, &code) || addr < code.start ||
	    addr >= code.end)
		return read_file(s, space, addr, buf, n);
	if (code.end - addr < n)
		n = (size_t)(code.end - addr);
	memcpy(buf, code.bytes + (addr - code.start), n);
	return n;
}
