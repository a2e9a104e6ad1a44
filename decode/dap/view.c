/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dap: what a client shows: threads, stacks, the place, instructions, memory. Bodies of
 * responses go to s->body, what is wrong with a request to s->error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/markup.h"
#include "decode/dap/impl.h"
#include "decode/lib/elf/insn.h"

#define FRAMES 256	/* callers that are looked for */
#define INLINES 16
#define INSTRUCTIONS 4096	/* in one answer */
#define BYTES 65536

static uint64_t number_of(const struct json_t *args, const char *key, uint64_t other)
{
	uint64_t v;

	return json_tree_number(json_tree_get(args, key), &v) ? v : other;
}

int dap_view_threads(struct server *s)
{
	bool first = true;
	uint32_t tid;
	size_t i = 0;

	outbuf_str(s->body, "\"threads\":[");
	while (replay_next_thread(s->replay, &i, &tid)) {
		char name[64];

		snprintf(name, sizeof(name), "%s/%u",
			 s->host.comm(s->host.priv, tid, UINT64_MAX), tid);
		outbuf_printf(s->body, "%s{\"id\":%u", first ? "" : ",", tid);
		outbuf_json_text(s->body, "name", name);
		outbuf_str(s->body, "}");
		first = false;
	}
	outbuf_str(s->body, "]");
	return 0;
}

/* ---- stacks ---- */

struct stack {
	struct server *s;
	const struct space *space;
	uint32_t tid;
	uint64_t start, levels;
	uint64_t n;		/* frames, inlined functions among them */
};

static void put_source(struct outbuf *o, const char *file, uint32_t line)
{
	const char *base;

	if (!file) {
		outbuf_str(o, ",\"line\":0,\"column\":0");
		return;
	}
	base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	outbuf_str(o, ",\"source\":{\"name\":");
	outbuf_json(o, base);
	outbuf_json_text(o, "path", file);
	outbuf_printf(o, "},\"line\":%u,\"column\":0", line);
}

static void put_frame(struct stack *st, const char *name, uint64_t ip, const char *file,
		      uint32_t line, bool inlined)
{
	struct outbuf *o = st->s->body;
	uint64_t n = st->n++;

	if (n < st->start || (st->levels && n >= st->start + st->levels))
		return;
	outbuf_printf(o, "%s{\"id\":%" PRIu64 ",\"name\":", n > st->start ? "," : "",
		      (uint64_t)st->tid << 16 | (n & 0xffff));
	outbuf_json(o, name);
	put_source(o, file, line);
	outbuf_printf(o, ",\"instructionPointerReference\":\"0x%" PRIx64 "\"%s}", ip,
		      inlined ? ",\"presentationHint\":\"subtle\"" : "");
}

/* The functions that are inlined at an address, and the one around them. at: where its
 * line is looked up. */
static void put_functions(struct stack *st, uint64_t ip, uint64_t at)
{
	struct place_line line = source_line_of(st->s, st->space, at);
	struct inline_frame v[INLINES];
	struct symbol sym = { .name = NULL };
	char text[64];
	int n = 0;

	if (st->space && st->s->host.inlines)
		n = st->s->host.inlines(st->s->host.priv, st->space, at, v, INLINES);
	n = n < INLINES ? n : INLINES;
	for (int i = 0; i < n; i++) {
		put_frame(st, v[i].name ? v[i].name : "?", ip, line.file, line.line,
			  i + 1 < n);
		line = (struct place_line){ v[i].call.file, v[i].call.line };
	}
	if (n > 0)
		return;
	snprintf(text, sizeof(text), "0x%" PRIx64, ip);
	if (st->space)
		st->s->host.symbol(st->s->host.priv, st->space, at, &sym);
	put_frame(st, sym.name ? sym.name : text, ip, line.file, line.line, false);
}

int dap_view_stack(struct server *s, const struct json_t *args)
{
	struct replay_frame *frames = calloc(FRAMES, sizeof(*frames));
	struct stack st = { .s = s, .tid = (uint32_t)number_of(args, "threadId", s->tid),
			    .start = number_of(args, "startFrame", 0),
			    .levels = number_of(args, "levels", 0) };
	struct replay_place at;
	struct replay_state state;
	int rc = frames ? dap_place(s, st.tid, &at) : -AUX_E_NOMEM, n = 0;

	outbuf_str(s->body, "\"stackFrames\":[");
	if (rc > 0)
		rc = replay_state(s->replay, &at, &state, s->diag) ? : 1;
	if (rc > 0) {
		st.space = state.space;
		put_functions(&st, state.pc, state.pc);
		n = replay_callers(s->replay, &at, frames, FRAMES, s->diag);
		for (int i = 0; i < n; i++)
			put_functions(&st, frames[i].back, frames[i].call);
	}
	outbuf_printf(s->body, "],\"totalFrames\":%" PRIu64, st.n);
	free(frames);
	return rc < 0 ? rc : n < 0 ? n : 0;
}

/* ---- the place, as variables ---- */

#define PLACE 1	/* variablesReference */

int dap_view_scopes(struct server *s, const struct json_t *args)
{
	(void)args;
	outbuf_printf(s->body, "\"scopes\":[{\"name\":\"Trace\",\"expensive\":false,"
		      "\"variablesReference\":%d}]", PLACE);
	return 0;
}

static void put_variable(struct server *s, bool first, const char *name, const char *text)
{
	outbuf_printf(s->body, "%s{\"name\":\"%s\"", first ? "" : ",", name);
	outbuf_json_text(s->body, "value", text);
	outbuf_str(s->body, ",\"variablesReference\":0}");
}

static void time_text(uint64_t ns, char *buf, size_t len)
{
	snprintf(buf, len, "%" PRIu64 ".%09" PRIu64 " s", ns / 1000000000,
		 ns % 1000000000);
}

/* What is known where it is. Values of the program's variables are in no trace. */
int dap_view_variables(struct server *s, const struct json_t *args)
{
	struct replay_state st;
	char text[128];
	int err = replay_state(s->replay, &s->at, &st, s->diag);

	(void)args;
	if (err)
		return err;
	outbuf_str(s->body, "\"variables\":[");
	snprintf(text, sizeof(text), "0x%" PRIx64, st.pc);
	put_variable(s, true, "pc", text);
	if (st.time_ns) {
		time_text(st.time_ns, text, sizeof(text));
		put_variable(s, false, "time", text);
	}
	if (st.cpu >= 0) {
		snprintf(text, sizeof(text), "%d", st.cpu);
		put_variable(s, false, "cpu", text);
	}
	snprintf(text, sizeof(text), "%u", st.tid);
	put_variable(s, false, "thread", text);
	outbuf_str(s->body, "]");
	return 0;
}

/* ---- instructions and memory ---- */

static bool read_reference(const struct json_t *args, uint64_t *addr)
{
	const char *text = json_tree_text(json_tree_get(args, "memoryReference"));
	int64_t offset = 0;
	char *end;

	if (!text)
		return false;
	*addr = strtoull(text, &end, 0);
	if (json_tree_integer(json_tree_get(args, "offset"), &offset))
		*addr += (uint64_t)offset;
	return end != text && !*end;
}

static size_t read_code(struct server *s, const struct space *space, uint64_t addr,
			uint8_t *buf, size_t n)
{
	struct aux_code code;
	size_t done = 0, len;

	while (space && done < n &&
	       !s->host.code(s->host.priv, space, addr + done, &code) &&
	       addr + done >= code.start && addr + done < code.end) {
		len = code.end - (addr + done) < n - done ?
			      (size_t)(code.end - (addr + done)) : n - done;
		memcpy(buf + done, code.bytes + (addr + done - code.start), len);
		done += len;
	}
	return done;
}

struct listing {
	struct server *s;
	const struct space *space;
	uint16_t mode;
	bool first;
};

/* One instruction; its length, or 1 where there is none. */
static unsigned put_instruction(struct listing *l, uint64_t ip)
{
	struct outbuf *o = l->s->body;
	struct place_line line;
	uint8_t code[16];
	char text[160] = "";
	size_t n = read_code(l->s, l->space, ip, code, sizeof(code));
	int len = 0;

	if (n && l->s->disasm)
		len = disasm_text(l->s->disasm, code, n, ip, l->mode, text,
				  sizeof(text));
	else if (n)
		len = insn_length(code, n, l->mode);
	if (len <= 0)
		snprintf(text, sizeof(text), n ? "?" : "no code");
	outbuf_printf(o, "%s{\"address\":\"0x%" PRIx64 "\",\"instruction\":",
		      l->first ? "" : ",", ip);
	l->first = false;
	outbuf_json(o, text);
	if (len > 0) {
		outbuf_str(o, ",\"instructionBytes\":\"");
		for (int i = 0; i < len; i++)
			outbuf_printf(o, "%s%02x", i ? " " : "", code[i]);
		outbuf_str(o, "\"");
		line = source_line_of(l->s, l->space, ip);
		if (line.file) {
			outbuf_str(o, ",\"location\":{\"path\":");
			outbuf_json(o, line.file);
			outbuf_printf(o, "},\"line\":%u", line.line);
		}
	}
	outbuf_str(o, "}");
	return len > 0 ? (unsigned)len : 1;
}

/* Instructions before an address are those of its function, from its start on. How many
 * of them there are goes to *n; the first wanted is returned. */
static uint64_t find_before(struct listing *l, uint64_t addr, uint64_t wanted,
			    uint64_t *n)
{
	uint64_t ring[INSTRUCTIONS], k = 0, ip;
	struct symbol sym = { .name = NULL };

	*n = 0;
	if (!l->space || l->s->host.symbol(l->s->host.priv, l->space, addr, &sym) ||
	    !sym.name || sym.start >= addr || addr - sym.start > (16u << 20))
		return addr;
	for (ip = sym.start; ip < addr;) {
		uint8_t code[16];
		size_t bytes = read_code(l->s, l->space, ip, code, sizeof(code));
		int len = bytes ? insn_length(code, bytes, l->mode) : 0;

		ring[k++ % INSTRUCTIONS] = ip;
		ip += len > 0 ? (unsigned)len : 1;
	}
	*n = k < wanted ? k : wanted;
	return *n ? ring[(k - *n) % INSTRUCTIONS] : addr;
}

/* As many as are asked for, whatever is there: that is the protocol. */
int dap_view_disassembly(struct server *s, const struct json_t *args)
{
	uint64_t count = number_of(args, "instructionCount", 0), addr, before = 0;
	struct listing l = { .s = s, .first = true };
	struct replay_state st;
	int64_t offset = 0;
	int err = replay_state(s->replay, &s->at, &st, s->diag);

	if (err)
		return err;
	l.space = st.space;
	l.mode = st.mode;
	json_tree_integer(json_tree_get(args, "instructionOffset"), &offset);
	if (!read_reference(args, &addr) || count > INSTRUCTIONS ||
	    offset < -INSTRUCTIONS || offset > INSTRUCTIONS) {
		snprintf(s->error, sizeof(s->error), "memoryReference is no address, or "
			 "more than %d instructions are asked for", INSTRUCTIONS);
		return 0;
	}
	outbuf_str(s->body, "\"instructions\":[");
	if (offset < 0) {
		addr = find_before(&l, addr, (uint64_t)-offset, &before);
		for (uint64_t i = before; i < (uint64_t)-offset && count; i++, count--) {
			outbuf_printf(s->body, "%s{\"address\":\"0x%" PRIx64 "\","
				      "\"instruction\":\"\",\"presentationHint\":"
				      "\"invalid\"}", l.first ? "" : ",",
				      addr - ((uint64_t)-offset - i));
			l.first = false;
		}
	}
	for (; offset > 0; offset--) {
		uint8_t code[16];
		size_t n = read_code(s, l.space, addr, code, sizeof(code));
		int len = n ? insn_length(code, n, l.mode) : 0;

		addr += len > 0 ? (unsigned)len : 1;
	}
	for (; count; count--)
		addr += put_instruction(&l, addr);
	outbuf_str(s->body, "]");
	return 0;
}

/* Code alone: what data was is in no trace. */
int dap_view_memory(struct server *s, const struct json_t *args)
{
	uint64_t count = number_of(args, "count", 0), addr;
	uint8_t *buf;
	size_t n;

	if (!read_reference(args, &addr)) {
		snprintf(s->error, sizeof(s->error), "memoryReference is no address");
		return 0;
	}
	count = count < BYTES ? count : BYTES;
	buf = malloc(count + 1);
	if (!buf)
		return -AUX_E_NOMEM;
	n = read_code(s, dap_space(s), addr, buf, count);
	outbuf_printf(s->body, "\"address\":\"0x%" PRIx64 "\",\"unreadableBytes\":%zu",
		      addr, (size_t)count - n);
	if (n) {
		outbuf_str(s->body, ",\"data\":\"");
		outbuf_base64(s->body, buf, n);
		outbuf_str(s->body, "\"");
	}
	free(buf);
	return 0;
}

/* ---- the console ---- */

static int seek(struct server *s, const char *words, char *text, size_t len)
{
	struct replay_place at;
	int rc = replay_seek_words(s->replay, words, &at, s->diag);

	if (rc == -AUX_E_INVAL || !rc) {
		snprintf(text, len, "%s", rc ? s->diag->text : "nothing runs there");
		return 0;
	}
	rc = rc < 0 ? rc : dap_go(s, &at);
	snprintf(text, len, "there");
	return rc ? rc : dap_stopped(s, "goto", NULL);
}

int dap_view_evaluate(struct server *s, const struct json_t *args)
{
	const char *words = json_tree_text(json_tree_get(args, "expression"));
	struct replay_state st;
	char text[512], time[48] = "";
	int err = 0;

	if (!words)
		words = "";
	if (!strncmp(words, "seek ", 5)) {
		err = seek(s, words + 5, text, sizeof(text));
	} else if (!strcmp(words, "where")) {
		err = replay_state(s->replay, &s->at, &st, s->diag);
		if (!err && st.time_ns)
			time_text(st.time_ns, time, sizeof(time));
		if (!err)
			snprintf(text, sizeof(text), "thread %u, cpu %d, %s", st.tid, st.cpu,
				 time);
	} else {
		snprintf(s->error, sizeof(s->error), "values are in no trace. There are: "
			 "where; seek SECONDS, N%%, begin or end");
		return 0;
	}
	if (err)
		return err;
	outbuf_str(s->body, "\"result\":");
	outbuf_json(s->body, text);
	outbuf_str(s->body, ",\"variablesReference\":0");
	return 0;
}
