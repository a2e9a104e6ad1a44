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

static const struct machine machines[] = {
	{ "i386:x86-64", 16, 8 },
	{ "i386", 8, 4 },
	{ "aarch64", 32, 8 },
	{ "arm", 15, 4 },
};

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
	outbuf_printf(s->object, "<?xml version=\"1.0\"?>\n"
		      "<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n"
		      "<target><architecture>%s</architecture>"
		      "<osabi>GNU/Linux</osabi></target>\n", s->machine->name);
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
		{ "exec-file", put_exec },
	};

	if (!strcmp(name, "features") && strcmp(annex, "target.xml"))
		return -AUX_E_NOENT;
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
