/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_crash: how a process came to its end, on one screen. What is found is decode/crash's;
 * this file shows it, as text and as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <aux/flow.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/markup.h"
#include "decode/callstack/names.h"
#include "decode/cmd/impl.h"
#include "decode/crash/crash.h"

struct crash_options {
	const char *core;
	uint64_t pid, tid, n;
};

#define LINES 12

/* table */
static const struct option_row rows[] = {
	{ .name = "core", .arg = "FILE",
	  .help = "the core file of that end: its registers, its stack, and the values\n"
		  "that follow from them",
	  OPTION_TEXT(struct crash_options, core) },
	{ .name = "pid", .arg = "PID", .max = UINT32_MAX - 1,
	  .zero = "is no process of a program",
	  .help = "the process (default: the last one that a signal ended)",
	  OPTION_NUMBER(struct crash_options, pid) },
	{ .name = "tid", .arg = "TID", .max = UINT32_MAX - 1,
	  .zero = "is no thread of a program",
	  .help = "the thread (default: the one that got the signal)",
	  OPTION_NUMBER(struct crash_options, tid) },
	{ .name = "limit", .letter = 'n', .arg = "N", .max = CRASH_LINES,
	  .zero = "shows nothing",
	  .help = "how many calls, branches and instructions (default: 12)",
	  OPTION_NUMBER(struct crash_options, n) },
	{ .name = NULL }
};

const struct cmd_own cmd_crash_own = {
	.options = rows,
	.config_size = sizeof(struct crash_options),
};

/* What a place of the program is called. */
struct shower {
	const struct cmd_options *o;
	const struct crash *c;
	struct outbuf *out;
	struct names *names;
	struct disasm *disasm;	/* NULL: there is no capstone */
};

/* ---- places ---- */

struct spot {
	char offset[24];	/* "+0x1d", "" */
	const char *name;	/* NULL: none */
	const char *dso;	/* NULL: nothing is mapped there */
	const char *file;	/* NULL: no line is known */
	uint32_t line;
};

static struct spot spot_of(const struct shower *s, uint64_t ip, uint64_t at)
{
	const struct crash *c = s->c;
	struct symbol sym = { .name = NULL };
	struct source_line line;
	struct spot p = { .offset = "" };

	if (!c->space)
		return p;
	if (!c->host.symbol(c->host.priv, c->space, at, &sym) && sym.name) {
		p.name = names_shown(s->names, sym.name);
		if (ip > sym.start)
			snprintf(p.offset, sizeof(p.offset), "+0x%" PRIx64,
				 ip - sym.start);
	}
	p.dso = sym.dso;
	if (!c->host.line(c->host.priv, c->space, at, &line)) {
		p.file = line.file;
		p.line = line.line;
	}
	return p;
}

/* "main+0x1d (crash.c:25)", or the file that is mapped there. at: where it is looked up,
 * for what a call returns to may be in the next line or function. */
static void put_spot_at(const struct shower *s, uint64_t ip, uint64_t at)
{
	struct spot p = spot_of(s, ip, at);
	const char *base;

	if (p.name)
		outbuf_clean_printf(s->out, "%s%s", p.name, p.offset);
	else if (p.dso)
		outbuf_clean_printf(s->out, "[%s]", p.dso);
	else
		outbuf_str(s->out, "[nothing is mapped there]");
	if (!p.file)
		return;
	base = strrchr(p.file, '/') ? strrchr(p.file, '/') + 1 : p.file;
	outbuf_clean_printf(s->out, " (%s:%u)", base, p.line);
}

static void put_spot(const struct shower *s, uint64_t ip)
{
	put_spot_at(s, ip, ip);
}

static void json_spot(const struct shower *s, uint64_t ip, uint64_t at)
{
	struct spot p = spot_of(s, ip, at);

	outbuf_json_text(s->out, "symbol", p.name);
	if (p.name)
		outbuf_json_text(s->out, "offset", p.offset);
	outbuf_json_text(s->out, "dso", p.dso);
	outbuf_json_text(s->out, "source", p.file);
	if (p.file)
		outbuf_json_number(s->out, "line", p.line);
}

static void insn_text(const struct shower *s, uint64_t ip, char *text, size_t len)
{
	const struct crash *c = s->c;
	struct aux_code code;
	size_t n;

	snprintf(text, len, "?");
	if (!c->space || !s->disasm || c->host.code(c->host.priv, c->space, ip, &code) ||
	    ip < code.start || ip >= code.end)
		return;
	n = code.end - ip < 16 ? (size_t)(code.end - ip) : 16;
	if (disasm_text(s->disasm, code.bytes + (ip - code.start), n, ip, c->mode, text,
			len) <= 0)
		snprintf(text, len, "?");
}

/* How long before the end. */
static void put_before(const struct shower *s, uint64_t time_ns)
{
	uint64_t ns = s->c->time_ns > time_ns ? s->c->time_ns - time_ns : 0;

	if (!time_ns)
		outbuf_str(s->out, "          -");
	else
		outbuf_printf(s->out, "%7" PRIu64 ".%03" PRIu64, ns / 1000, ns % 1000);
}

/* ---- text ---- */

static void put_signal(const struct shower *s, const struct aux_own_signal *sig)
{
	const char *name = crash_signal_name(sig->signo);
	const char *code = crash_code_text(sig->signo, sig->code);

	if (name)
		outbuf_str(s->out, name);
	else
		outbuf_printf(s->out, "signal %u", sig->signo);
	if (sig->flags & AUX_SIGNAL_HAS_ADDR)
		outbuf_printf(s->out, " at address 0x%" PRIx64, sig->addr);
	if (code)
		outbuf_printf(s->out, ", %s", code);
	if (sig->sender && sig->sender != s->c->pid)
		outbuf_printf(s->out, ", from process %u", sig->sender);
}

static void put_time(const struct shower *s, uint64_t ns)
{
	if (ns)
		outbuf_printf(s->out, ", at %" PRIu64 ".%09" PRIu64, ns / 1000000000,
			      ns % 1000000000);
}

static void text_end(const struct shower *s)
{
	const struct crash *c = s->c;

	outbuf_clean_printf(s->out, "%s/%u", c->host.comm(c->host.priv, c->pid, UINT64_MAX),
			    c->pid);
	if (!c->signal.signo) {
		outbuf_str(s->out, ": nothing says that a signal ended it; this is the "
				   "end of the trace");
	} else {
		outbuf_str(s->out, " was ended by ");
		put_signal(s, &c->signal);
	}
	outbuf_str(s->out, "\n");
	outbuf_clean_printf(s->out, "in thread %s/%u",
			    c->host.comm(c->host.priv, c->tid, UINT64_MAX), c->tid);
	put_time(s, c->time_ns);
	outbuf_str(s->out, "\n");
	for (size_t i = 0; i < c->n_earlier; i++) {
		outbuf_str(s->out, "  before: ");
		put_signal(s, &c->earlier[i]);
		if (c->earlier[i].flags & AUX_SIGNAL_HAS_IP) {
			outbuf_printf(s->out, ", to %u in ", c->earlier[i].tid);
			put_spot(s, c->earlier[i].ip);
		}
		outbuf_str(s->out, "\n");
	}
}

/* The values of its operands, and of the memory that it names. */
static void put_values(const struct shower *s, const struct crash_insn *in)
{
	const char *sep = "  # ";

	for (unsigned r = 0; r < INSN_REGS; r++) {
		if (!(in->operands & in->known & 1u << r))
			continue;
		outbuf_printf(s->out, "%s%s=0x%" PRIx64, sep, insn_reg_name(r, 8),
			      in->before[r]);
		sep = " ";
	}
	if (in->memory.size)
		outbuf_printf(s->out, "%s[0x%" PRIx64 "]=0x%" PRIx64, sep, in->memory.addr,
			      in->memory.value);
	else if (in->memory.has_addr)
		outbuf_printf(s->out, "%s[0x%" PRIx64 "]", sep, in->memory.addr);
}

static void text_insns(const struct shower *s)
{
	char text[160];

	outbuf_printf(s->out, "\nlast instructions%s\n", s->c->thread && !s->c->unproven ?
		      ", with what their operands were as far as that is proven" : "");
	for (size_t i = 0; i < s->c->n_insns; i++) {
		const struct crash_insn *in = &s->c->insns[i];

		insn_text(s, in->ip, text, sizeof(text));
		outbuf_printf(s->out, "%s 0x%012" PRIx64 "  %-36s", in->ran ? "  " : "=>",
			      in->ip, text);
		put_values(s, in);
		outbuf_str(s->out, "\n");
	}
}

static void text_frames(const struct shower *s, const struct crash_frame *f, size_t n,
			int differs)
{
	for (size_t i = 0; i < n; i++) {
		outbuf_printf(s->out, "%s#%-2zu 0x%012" PRIx64 " ",
			      (int)i == differs ? "! " : "  ", i, f[i].pc);
		put_spot_at(s, f[i].pc, f[i].call);
		outbuf_str(s->out, "\n");
	}
}

static void text_stacks(const struct shower *s)
{
	const struct crash *c = s->c;

	outbuf_str(s->out, "\nstack, by the calls that ran\n");
	if (c->gap)
		outbuf_printf(s->out, "   (what ran last is not known: %s)\n",
			      advice_gap(c->gap));
	text_frames(s, c->flow, c->n_flow, c->differs);
	if (c->bad_return)
		outbuf_printf(s->out, "   it returned to 0x%" PRIx64 ", not to its caller: "
			      "the return address was overwritten\n", c->ip);
	if (!c->thread)
		return;
	if (c->differs < 0 && c->n_stack >= c->n_flow) {
		outbuf_str(s->out, "the core file's stack is the same\n");
		return;
	}
	outbuf_str(s->out, "\nstack, by the core file");
	if (c->differs >= 0)
		outbuf_printf(s->out, ": it is another one from #%d on%s",
			      c->stack_differs, c->gap ? "" : ", so what was on the "
			      "stack was overwritten");
	outbuf_str(s->out, "\n");
	text_frames(s, c->stack, c->n_stack, c->stack_differs);
	if (c->stack_end)
		outbuf_printf(s->out, "   %s\n", c->stack_end);
}

static void text_calls(const struct shower *s)
{
	outbuf_str(s->out, "\nlast calls, us before the end\n");
	for (size_t i = 0; i < s->c->n_calls; i++) {
		const struct crash_call *call = &s->c->calls[i];
		unsigned indent = call->depth < 30 ? call->depth : 30;

		put_before(s, call->time_ns);
		outbuf_printf(s->out, "  %*s", (int)(2 * indent), "");
		put_spot(s, call->to);
		outbuf_str(s->out, call->returned ? "\n" : " ..\n");
	}
}

static void text_branches(const struct shower *s)
{
	outbuf_str(s->out, "\nlast branches, us before the end\n");
	for (size_t i = 0; i < s->c->n_branches; i++) {
		const struct crash_branch *b = &s->c->branches[i];

		put_before(s, b->time_ns);
		outbuf_str(s->out, "  ");
		put_spot(s, b->from);
		outbuf_str(s->out, " -> ");
		put_spot(s, b->to);
		outbuf_str(s->out, "\n");
	}
}

static void text_registers(const struct shower *s)
{
	const struct elfcore_regs *r = s->c->thread ? &s->c->thread->regs : NULL;

	if (!r)
		return;
	outbuf_str(s->out, "\nregisters of the core file\n");
	for (unsigned i = 0; i < INSN_REGS; i++)
		outbuf_printf(s->out, "%s%-3s 0x%016" PRIx64 "%s", i % 4 ? "  " : "  ",
			      insn_reg_name(i, 8), r->gpr[i], i % 4 == 3 ? "\n" : "");
	outbuf_printf(s->out, "  rip 0x%016" PRIx64 "  eflags 0x%" PRIx64 "\n", r->rip,
		      r->eflags);
}

static void text(const struct shower *s)
{
	const struct crash *c = s->c;

	text_end(s);
	text_stacks(s);
	text_calls(s);
	text_branches(s);
	text_insns(s);
	if (c->begins)
		outbuf_str(s->out, "   before these the trace has a gap\n");
	if (c->unproven)
		outbuf_printf(s->out, "no values: %s\n", c->unproven);
	text_registers(s);
	if (c->core && elfcore_is_cut(c->core))
		outbuf_str(s->out, "the core file is cut short: some of the memory is not "
				   "in it\n");
	if (!c->core && c->dumped)
		outbuf_str(s->out, "\nthe system wrote a core file: --core FILE shows "
				   "registers and values, too\n");
}

/* ---- JSON ---- */

static void json_signal(const struct shower *s, const struct aux_own_signal *sig)
{
	struct outbuf *out = s->out;

	outbuf_printf(out, "{\"number\":%u", sig->signo);
	outbuf_json_text(out, "name", crash_signal_name(sig->signo));
	outbuf_printf(out, ",\"code\":%d", sig->code);
	outbuf_json_text(out, "meaning", crash_code_text(sig->signo, sig->code));
	outbuf_json_number(out, "tid", sig->tid);
	outbuf_json_number(out, "time_ns", sig->time_ns);
	if (sig->flags & AUX_SIGNAL_HAS_IP)
		outbuf_json_hex(out, "ip", sig->ip);
	if (sig->flags & AUX_SIGNAL_HAS_ADDR)
		outbuf_json_hex(out, "address", sig->addr);
	if (sig->sender)
		outbuf_json_number(out, "sender", sig->sender);
	outbuf_str(out, "}");
}

static void json_frames(const struct shower *s, const char *key,
			const struct crash_frame *f, size_t n)
{
	outbuf_printf(s->out, ",\n\"%s\":[", key);
	for (size_t i = 0; i < n; i++) {
		outbuf_printf(s->out, "%s\n{\"ip\":\"0x%" PRIx64 "\"", i ? "," : "",
			      f[i].pc);
		json_spot(s, f[i].pc, f[i].call);
		outbuf_str(s->out, "}");
	}
	outbuf_str(s->out, "]");
}

static void json_registers(const struct shower *s, const char *key, const uint64_t *v,
			   uint16_t which)
{
	bool first = true;

	outbuf_printf(s->out, ",\"%s\":{", key);
	for (unsigned r = 0; r < INSN_REGS; r++) {
		if (!(which & 1u << r))
			continue;
		outbuf_printf(s->out, "%s\"%s\":\"0x%" PRIx64 "\"", first ? "" : ",",
			      insn_reg_name(r, 8), v[r]);
		first = false;
	}
	outbuf_str(s->out, "}");
}

static void json_insns(const struct shower *s)
{
	char text[160];

	outbuf_str(s->out, ",\n\"instructions\":[");
	for (size_t i = 0; i < s->c->n_insns; i++) {
		const struct crash_insn *in = &s->c->insns[i];

		insn_text(s, in->ip, text, sizeof(text));
		outbuf_printf(s->out, "%s\n{\"ip\":\"0x%" PRIx64 "\"", i ? "," : "",
			      in->ip);
		outbuf_json_text(s->out, "text", text);
		outbuf_json_bool(s->out, "ran", in->ran);
		json_registers(s, "before", in->before, in->known);
		if (in->memory.has_addr)
			outbuf_json_hex(s->out, "address", in->memory.addr);
		if (in->memory.size) {
			outbuf_json_number(s->out, "size", in->memory.size);
			outbuf_json_hex(s->out, "value", in->memory.value);
		}
		outbuf_str(s->out, "}");
	}
	outbuf_str(s->out, "]");
}

static void json_calls(const struct shower *s)
{
	const struct crash *c = s->c;

	outbuf_str(s->out, ",\n\"calls\":[");
	for (size_t i = 0; i < c->n_calls; i++) {
		outbuf_printf(s->out, "%s\n{\"from\":\"0x%" PRIx64 "\",\"to\":\"0x%" PRIx64
			      "\",\"time_ns\":%" PRIu64 ",\"depth\":%u", i ? "," : "",
			      c->calls[i].from, c->calls[i].to, c->calls[i].time_ns,
			      c->calls[i].depth);
		outbuf_json_bool(s->out, "returned", c->calls[i].returned);
		json_spot(s, c->calls[i].to, c->calls[i].to);
		outbuf_str(s->out, "}");
	}
	outbuf_str(s->out, "],\n\"branches\":[");
	for (size_t i = 0; i < c->n_branches; i++)
		outbuf_printf(s->out, "%s\n{\"from\":\"0x%" PRIx64 "\",\"to\":\"0x%" PRIx64
			      "\",\"time_ns\":%" PRIu64 "}", i ? "," : "",
			      c->branches[i].from, c->branches[i].to,
			      c->branches[i].time_ns);
	outbuf_str(s->out, "]");
}

static void json(const struct shower *s)
{
	const struct crash *c = s->c;
	struct outbuf *out = s->out;

	json_begin(out, s->o, session_reader(c->host.priv));
	outbuf_printf(out, ",\n\"pid\":%u,\"tid\":%u", c->pid, c->tid);
	outbuf_json_text(out, "comm", c->host.comm(c->host.priv, c->pid, UINT64_MAX));
	outbuf_str(out, ",\n\"signal\":");
	if (c->signal.signo)
		json_signal(s, &c->signal);
	else
		outbuf_str(out, "null");
	outbuf_json_text(out, "signal_from", !c->signal.signo ? NULL :
			 c->from_core ? "core" : "recording");
	outbuf_str(out, ",\n\"earlier\":[");
	for (size_t i = 0; i < c->n_earlier; i++) {
		outbuf_str(out, i ? ",\n" : "\n");
		json_signal(s, &c->earlier[i]);
	}
	outbuf_str(out, "]");
	if (c->has_ip)
		outbuf_json_hex(out, "ip", c->ip);
	outbuf_json_number(out, "time_ns", c->time_ns);
	json_frames(s, "stack", c->flow, c->n_flow);
	json_frames(s, "core_stack", c->stack, c->n_stack);
	outbuf_json_text(out, "core_stack_end", c->stack_end);
	outbuf_printf(out, ",\"differs\":%d", c->differs);
	outbuf_json_bool(out, "bad_return", c->bad_return);
	outbuf_json_text(out, "gap", c->gap ? advice_gap(c->gap) : NULL);
	json_calls(s);
	json_insns(s);
	outbuf_json_text(out, "unproven", c->unproven);
	if (c->thread) {
		outbuf_str(out, ",\n\"core\":{\"tid\":");
		outbuf_printf(out, "%u", c->thread->tid);
		json_registers(s, "registers", c->thread->regs.gpr, UINT16_MAX);
		outbuf_json_hex(out, "rip", c->thread->regs.rip);
		outbuf_json_hex(out, "eflags", c->thread->regs.eflags);
		outbuf_str(out, "}");
	}
	json_end(out, s->o, c->gap || c->begins ? CMD_GAPS : CMD_OK);
}

/* ---- the command ---- */

static int show(const struct cmd_options *o, const struct crash *c, struct outbuf *out,
		struct aux_diag *diag)
{
	struct shower s = { .o = o, .c = c, .out = out };
	int err = cmd_names(&s.names, o, diag);

	if (!err && disasm_new(&s.disasm, DISASM_INTEL, NULL))
		s.disasm = NULL;
	if (!err && o->output.json)
		json(&s);
	else if (!err)
		text(&s);
	disasm_free(s.disasm);
	names_free(s.names);
	return err;
}

static int find(const struct cmd_options *o, struct session *session, struct crash **c,
		struct aux_diag *diag)
{
	const struct crash_options *own = o->own;
	const struct crash_config config = {
		.session = session, .core = own->core,
		.pid = own->pid ? (int64_t)own->pid : -1,
		.tid = own->tid ? (int64_t)own->tid : -1,
		.n = own->n ? own->n : LINES,
	};

	return crash_find(c, &config, diag);
}

/* An error of the core file names that one. */
static const char *path_of(const struct cmd_options *o, const struct aux_diag *diag)
{
	const struct crash_options *own = o->own;

	return own->core && (strstr(diag->text, "core file") ||
			     !strncmp(diag->text, "cannot ", 7)) ? own->core : o->path;
}

int cmd_crash(const struct cmd_options *o)
{
	struct session_config config = cmd_flow_config(o);
	struct aux_diag diag = { .offset = AUX_NO_OFFSET };
	struct session *session = NULL;
	struct cmd_out out = { 0 };
	struct crash *c = NULL;
	int status = cmd_out_check(o), err;
	bool has_gap;

	if (status != CMD_OK)
		return status;
	err = session_open(&session, &config, &diag);
	if (err)
		return cmd_failed(o->path, err, &diag);
	err = find(o, session, &c, &diag);
	if (err)
		status = cmd_failed(path_of(o, &diag), err, &diag);
	if (status == CMD_OK)
		status = cmd_out_open(&out, o);
	if (status == CMD_OK) {
		err = show(o, c, out.buf, &diag);
		status = err ? cmd_failed(o->path, err, &diag) : CMD_OK;
	}
	has_gap = c && (c->gap || c->begins);
	crash_free(c);
	status = cmd_out_close(&out, o, status);
	if (status == CMD_OK && has_gap)
		status = CMD_GAPS;
	session_close(session);
	return status;
}
