/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disasm: the only user of capstone. A handle is opened when a mode is first
 * met. The length comes from capstone only where our own decoder does not know
 * it (x86 32- and 16-bit), so text and flow cannot disagree about where the
 * next instruction starts.
 *
 * The library is loaded with the first disasm: relocating its tables takes 2
 * ms, as long as everything else at start, and most commands show no
 * instructions.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CAPSTONE
#include <dlfcn.h>
#include <pthread.h>

#include <capstone/capstone.h>
#endif

#include <aux/flow.h>

#include "common/diag.h"

#include "decode/lib/elf/impl.h"

#define MODE_SHIFT 4 /* AUX_FLOW_MODE_* to an index */
#define N_MODES	   6
#define MAX_INSN   15 /* bytes */

#ifdef HAVE_CAPSTONE

/* By mode index. table */
static const struct {
	cs_arch arch;
	cs_mode mode;
} modes[N_MODES] = {
	[AUX_FLOW_MODE_X86_64 >> MODE_SHIFT] = { CS_ARCH_X86, CS_MODE_64 },
	[AUX_FLOW_MODE_X86_32 >> MODE_SHIFT] = { CS_ARCH_X86, CS_MODE_32 },
	[AUX_FLOW_MODE_X86_16 >> MODE_SHIFT] = { CS_ARCH_X86, CS_MODE_16 },
	[AUX_FLOW_MODE_A64 >> MODE_SHIFT] = { CS_ARCH_ARM64, CS_MODE_ARM },
	[AUX_FLOW_MODE_A32 >> MODE_SHIFT] = { CS_ARCH_ARM, CS_MODE_ARM },
	[AUX_FLOW_MODE_T32 >> MODE_SHIFT] = { CS_ARCH_ARM, CS_MODE_THUMB },
};

struct disasm {
	enum disasm_syntax syntax;
	csh handles[N_MODES]; /* 0: not opened */
	bool failed[N_MODES];
	cs_insn *insn; /* one, reused */
	csh detail;    /* x86-64 with operands; 0: not opened */
	cs_insn *detailed;
	uint64_t next; /* address after the last T32 instruction */
};

#define STRING_OF(x) #x
#define LIBRARY(major) "libcapstone.so." STRING_OF(major)

/* Loaded once for the process, and kept. pthread_once orders load_capstone
 * before all readers. */
static struct {
	pthread_once_t once;
	char error[256];	/* "": loaded */
	__typeof__(&cs_open) open;
	__typeof__(&cs_close) close;
	__typeof__(&cs_option) option;
	__typeof__(&cs_malloc) malloc;
	__typeof__(&cs_free) free;
	__typeof__(&cs_disasm) disasm;
	__typeof__(&cs_disasm_iter) disasm_iter;
} capstone = { .once = PTHREAD_ONCE_INIT };

/* Sets capstone.error if the library or one of its functions is missing. */
static void load_capstone(void)
{
	void *library = dlopen(LIBRARY(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);
	const char *error;

	if (library) {
		*(void **)&capstone.open = dlsym(library, "cs_open");
		*(void **)&capstone.close = dlsym(library, "cs_close");
		*(void **)&capstone.option = dlsym(library, "cs_option");
		*(void **)&capstone.malloc = dlsym(library, "cs_malloc");
		*(void **)&capstone.free = dlsym(library, "cs_free");
		*(void **)&capstone.disasm = dlsym(library, "cs_disasm");
		*(void **)&capstone.disasm_iter =
			dlsym(library, "cs_disasm_iter");
		if (capstone.open && capstone.close && capstone.option &&
		    capstone.malloc && capstone.free && capstone.disasm &&
		    capstone.disasm_iter)
			return;
	}
	error = dlerror();
	snprintf(capstone.error, sizeof(capstone.error), "%s",
		 error ? error : "it lacks a function");
}

int disasm_new(struct disasm **out, enum disasm_syntax syntax,
	       struct aux_diag *diag)
{
	struct disasm *d;

	*out = NULL;
	pthread_once(&capstone.once, load_capstone);
	if (capstone.error[0])
		return diag_set(diag, AUX_E_UNSUPPORTED, AUX_NO_OFFSET,
				"the disassembler cannot be loaded; install "
				"the package libcapstone%d: %s", CS_API_MAJOR,
				capstone.error);
	d = calloc(1, sizeof(*d));
	if (!d)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	d->syntax = syntax;
	*out = d;
	return 0;
}

void disasm_free(struct disasm *d)
{
	if (!d)
		return;
	if (d->insn)
		capstone.free(d->insn, 1);
	if (d->detailed)
		capstone.free(d->detailed, 1);
	for (unsigned i = 0; i < N_MODES; i++)
		if (d->handles[i])
			capstone.close(&d->handles[i]);
	if (d->detail)
		capstone.close(&d->detail);
	free(d);
}

/* 0 when this capstone does not support the mode. */
static csh handle_of(struct disasm *d, unsigned i)
{
	if (d->handles[i] || d->failed[i])
		return d->handles[i];
	if (capstone.open(modes[i].arch, modes[i].mode, &d->handles[i])) {
		d->handles[i] = 0;
		d->failed[i] = true;
		return 0;
	}
	if (modes[i].arch == CS_ARCH_X86 && d->syntax == DISASM_ATT)
		capstone.option(d->handles[i], CS_OPT_SYNTAX,
				CS_OPT_SYNTAX_ATT);
	return d->handles[i];
}

/*
 * Capstone remembers an IT instruction in its handle, for the instructions
 * after it, and applies it to whatever is disassembled next, wherever that is.
 * Any call of cs_disasm resets this.
 */
static void reset_it_state(struct disasm *d, csh h, uint64_t ip)
{
	static const uint8_t nop[] = { 0x00, 0xbf };
	cs_insn *insn;
	size_t n;

	if (ip == d->next)
		return;
	n = capstone.disasm(h, nop, sizeof(nop), 0, 1, &insn);
	if (n)
		capstone.free(insn, n);
}

/* One instruction into d->insn; its length, or 0. */
static int run_capstone(struct disasm *d, const uint8_t *code, size_t len,
			uint64_t ip, unsigned i)
{
	csh h = handle_of(d, i);

	if (!h)
		return 0;
	if (!d->insn)
		d->insn = capstone.malloc(h);
	if (modes[i].mode == CS_MODE_THUMB)
		reset_it_state(d, h, ip);
	if (!d->insn ||
	    !capstone.disasm_iter(h, &code, &len, &ip, d->insn))
		return 0;
	d->next = ip;
	return d->insn->size;
}

const struct cs_insn *disasm_detail(struct disasm *d, const uint8_t *code, size_t len,
				    uint64_t ip)
{
	if (!d->detail) {
		if (capstone.open(CS_ARCH_X86, CS_MODE_64, &d->detail)) {
			d->detail = 0;
			return NULL;
		}
		capstone.option(d->detail, CS_OPT_DETAIL, CS_OPT_ON);
		d->detailed = capstone.malloc(d->detail);
	}
	if (!d->detailed ||
	    !capstone.disasm_iter(d->detail, &code, &len, &ip, d->detailed))
		return NULL;
	return d->detailed;
}

/* The text of d->insn. */
static void put_text(const struct disasm *d, char *text, size_t text_len)
{
	const cs_insn *insn = d->insn;

	snprintf(text, text_len, "%s%s%s", insn->mnemonic,
		 insn->op_str[0] ? " " : "", insn->op_str);
}

#else /* lengths only: text is .byte */

struct disasm {
	enum disasm_syntax syntax;
};

int disasm_new(struct disasm **out, enum disasm_syntax syntax,
	       struct aux_diag *diag)
{
	*out = calloc(1, sizeof(**out));
	if (!*out)
		return diag_set(diag, AUX_E_NOMEM, AUX_NO_OFFSET,
				"out of memory");
	(*out)->syntax = syntax;
	return 0;
}

void disasm_free(struct disasm *d)
{
	free(d);
}

static int run_capstone(struct disasm *d, const uint8_t *code, size_t len,
			uint64_t ip, unsigned i)
{
	(void)d;
	(void)code;
	(void)len;
	(void)ip;
	(void)i;
	return 0;
}

static void put_text(const struct disasm *d, char *text, size_t text_len)
{
	(void)d;
	snprintf(text, text_len, "?");
}

#endif

/* ".byte 0x0f, 0x.." */
static void text_bytes(char *text, size_t text_len, const uint8_t *code, int n)
{
	size_t used = 0;

	for (int i = 0; i < n; i++) {
		int w = snprintf(text + used, text_len - used, "%s0x%02x",
				 i ? ", " : ".byte ", code[i]);

		if (w < 0 || (size_t)w >= text_len - used)
			return;
		used += (size_t)w;
	}
}

int disasm_text(struct disasm *d, const uint8_t *code, size_t len, uint64_t ip,
		unsigned mode, char *text, size_t text_len)
{
	unsigned i = (mode & AUX_FLOW_MODE_MASK) >> MODE_SHIFT;
	int known, size = 0;

	if (text && text_len)
		text[0] = 0;
	if (i >= N_MODES)
		return 0;
	if (len > MAX_INSN)
		len = MAX_INSN;
	known = insn_length(code, len, mode);
	if (text && text_len && known > 0 &&
	    young_text(code, known, ip, mode, d->syntax, text, text_len))
		return known;
	if (text || known <= 0)
		size = run_capstone(d, code, len, ip, i);
	if (known <= 0)
		known = size;
	if (!text || !text_len || !known)
		return known;
	if (size == known)
		put_text(d, text, text_len);
	else
		text_bytes(text, text_len, code, known);
	return known;
}
