/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gdb: the server: one packet after the other, each answered from where the replay is.
 *
 * The program stands at one place. The thread that is there is the current one; others
 * are at their next instruction. Going on goes on with all threads, in the order of
 * their times; a step of one thread passes what the others did meanwhile.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/diag.h"
#include "decode/gdb/impl.h"

#define CHUNK 4096	/* bytes of an object, or of memory, in one answer */
#define FRAMES 64	/* callers that are told */

/* ---- texts ---- */

static void put_hex(struct outbuf *o, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		outbuf_printf(o, "%02x", p[i]);
}

/* Text on the debugger's console. */
static __attribute__((format(printf, 2, 3))) void
say(struct server *s, const char *fmt, ...)
{
	struct outbuf *o = outbuf_new(-1);
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!o)
		return;
	outbuf_str(o, "O");
	put_hex(o, (const uint8_t *)text, strlen(text));
	if (!outbuf_failed(o))
		link_send(&s->link, o->buf, (size_t)(o->p - o->buf));
	outbuf_free(o);
}

const char *server_gap_text(const struct server *s, unsigned cause)
{
	return s->config->gap_text ? s->config->gap_text(cause) : gap_text(cause);
}

static void put_error(struct server *s, unsigned code)
{
	outbuf_printf(s->out, "E%02x", code);
}

/* ---- where it is ---- */

int server_go(struct server *s, const struct replay_place *at)
{
	struct replay_state st;
	int err = replay_state(s->replay, at, &st, s->diag);

	if (err)
		return err;
	s->at = *at;
	s->tid = st.tid;
	s->chosen = s->stepping = 0;
	return 0;
}

/* The place of the thread that was chosen. 1, 0: it is nowhere near, or an error. */
static int find_place(struct server *s, struct replay_place *at)
{
	return replay_thread(s->replay, &s->at, s->chosen ? s->chosen : s->tid, at,
			     s->diag);
}

/* The stop that a debugger is told of. words: "swbreak:;", ... */
static int put_stop(struct server *s, const char *words)
{
	outbuf_printf(s->out, "T05%sthread:%x;", words, s->tid);
	return 0;
}

static int put_why(struct server *s, const struct replay_why *why, bool back)
{
	switch (why->stop) {
	case REPLAY_POINT:
		return put_stop(s, "swbreak:;");
	case REPLAY_EDGE:
		return put_stop(s, back ? "replaylog:begin;" : "replaylog:end;");
	case REPLAY_GAP:
		say(s, "gap in the trace: %s\n",
			   server_gap_text(s, why->cause));
		return put_stop(s, "");
	case REPLAY_INTERRUPTED:
		outbuf_printf(s->out, "T02thread:%x;", s->tid);
		return 0;
	default:
		return put_stop(s, "");
	}
}

/* ---- registers and memory ---- */

static void put_unknown(struct outbuf *o, size_t bytes)
{
	for (size_t i = 0; i < 2 * bytes; i++)
		outbuf_str(o, "x");
}

static void put_pc(struct server *s, bool known, uint64_t pc)
{
	uint8_t b[8];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(pc >> 8 * i);
	if (known)
		put_hex(s->out, b, s->machine->size);
	else
		put_unknown(s->out, s->machine->size);
}

/* 1 with the state of the chosen thread, 0: it is not known. */
static int find_state(struct server *s, struct replay_state *st)
{
	struct replay_place at;
	int rc = find_place(s, &at);

	if (rc > 0)
		rc = replay_state(s->replay, &at, st, s->diag) ? : 1;
	return rc;
}

static int on_registers(struct server *s, const char *args)
{
	struct replay_state st = { .pc = 0 };
	int rc = find_state(s, &st);

	(void)args;
	if (rc < 0)
		return rc;
	put_unknown(s->out, (size_t)s->machine->n_before * s->machine->size);
	put_pc(s, rc, st.pc);
	return 0;
}

static int on_register(struct server *s, const char *args)
{
	unsigned long n = strtoul(args, NULL, 16);
	struct replay_state st = { .pc = 0 };
	int rc = n == s->machine->n_before ? find_state(s, &st) : 0;

	if (rc < 0)
		return rc;
	if (n == s->machine->n_before)
		put_pc(s, rc, st.pc);
	else if (target_register(s->machine, n))
		put_unknown(s->out, target_register(s->machine, n));
	else
		put_error(s, 1);
	return 0;
}

/*
 * The page of callers, which auxkit.py reads as memory, for while gdb unwinds it must
 * not send packets of its own: 64-bit words, what runs and how many callers follow, and
 * for each where it goes on and a number that is the same as long as its call has not
 * returned, larger the earlier that was made. Nothing of a program is at its address.
 */
#define PAGE_64 UINT64_C(0xffffffffffe00000)
#define PAGE_32 UINT64_C(0xfffe0000)
#define PAGE_WORDS (2 + 2 * FRAMES)
#define OUTERMOST UINT64_C(0x7fffffffffffff00)	/* above all numbers */

static int make_page(struct server *s, uint64_t page[PAGE_WORDS])
{
	struct replay_frame frames[FRAMES];
	struct replay_state st = { .pc = 0 };
	struct replay_place at;
	uint64_t begin, end;
	int n = find_place(s, &at);

	if (n > 0)
		n = replay_state(s->replay, &at, &st, s->diag);
	if (!n && st.tid)
		n = replay_callers(s->replay, &at, frames, FRAMES, s->diag);
	if (n < 0)
		return n;
	replay_times(s->replay, &begin, &end);
	page[0] = st.pc;
	page[1] = (uint64_t)n;
	for (int i = 0; i < n; i++) {
		uint64_t order = frames[i].order < 4095 ? frames[i].order : 4095;

		page[2 + 2 * i] = frames[i].back;
		page[3 + 2 * i] = OUTERMOST - 1 -
				  ((frames[i].time_ns - begin) << 12 | order);
	}
	return 0;
}

/* Little-endian, whatever the program is. */
static int put_page(struct server *s, uint64_t from, uint64_t len)
{
	uint64_t page[PAGE_WORDS] = { 0 };
	int err = make_page(s, page);

	for (uint64_t i = from; !err && i < sizeof(page) && i - from < len; i++)
		outbuf_printf(s->out, "%02x",
			      (unsigned)(page[i / 8] >> 8 * (i % 8)) & 0xff);
	return err;
}

static int on_memory(struct server *s, const char *args)
{
	uint8_t buf[CHUNK];
	char *end;
	uint64_t addr = strtoull(args, &end, 16);
	uint64_t page = s->machine->size == 8 ? PAGE_64 : PAGE_32;
	size_t n, done = 0, more;

	if (*end != ',')
		return put_error(s, 1), 0;
	n = strtoull(end + 1, NULL, 16);
	if (addr >= page && addr - page < PAGE_WORDS * sizeof(uint64_t))
		return put_page(s, addr - page, n);
	n = n < sizeof(buf) ? n : sizeof(buf);
	while (done < n && (more = target_memory(s, addr + done, buf + done,
						 n - done)))
		done += more;
	if (done)
		put_hex(s->out, buf, done);
	else
		put_error(s, 1);
	return 0;
}

static int on_no_write(struct server *s, const char *args)
{
	(void)args;
	put_error(s, 1);
	return 0;
}

/* ---- breakpoints ---- */

static size_t find_point(const struct points *p, uint64_t addr)
{
	size_t i = 0;

	while (i < p->n && p->v[i] < addr)
		i++;
	return i;
}

static int set_point(struct points *p, uint64_t addr)
{
	size_t i = find_point(p, addr);

	if (i < p->n && p->v[i] == addr)
		return 0;
	if (array_grow(&p->v, p->n, &p->cap, sizeof(*p->v)))
		return -AUX_E_NOMEM;
	memmove(p->v + i + 1, p->v + i, (p->n - i) * sizeof(*p->v));
	p->v[i] = addr;
	p->n++;
	return 0;
}

static void clear_point(struct points *p, uint64_t addr)
{
	size_t i = find_point(p, addr);

	if (i == p->n || p->v[i] != addr)
		return;
	memmove(p->v + i, p->v + i + 1, (p->n - i - 1) * sizeof(*p->v));
	p->n--;
}

/* Of addresses that run alone: what data was accessed is in no trace. */
static int on_point(struct server *s, const char *args, bool set)
{
	char *end;
	uint64_t addr;
	int err = 0;

	if ((args[0] != '0' && args[0] != '1') || args[1] != ',')
		return 0;
	addr = strtoull(args + 2, &end, 16);
	if (set)
		err = set_point(&s->points, addr);
	else
		clear_point(&s->points, addr);
	if (!err)
		outbuf_str(s->out, "OK");
	return err;
}

static int on_set(struct server *s, const char *args)
{
	return on_point(s, args, true);
}

static int on_clear(struct server *s, const char *args)
{
	return on_point(s, args, false);
}

/* ---- going ---- */

static bool ask(void *priv)
{
	return link_is_broken(priv);
}

static int run(struct server *s, bool back)
{
	const struct replay_points points = { s->points.v, s->points.n };
	struct replay_place at = s->at;
	struct replay_why why;
	int err;

	s->link.broke = false;
	err = replay_run(s->replay, &at, &points, back, ask, &s->link, &why,
			 s->diag);
	if (!err)
		err = server_go(s, &at);
	return err ? err : put_why(s, &why, back);
}

/* A step of a thread, from where it is; on while it is in [from, to). */
static int step(struct server *s, uint32_t tid, bool back, uint64_t from, uint64_t to)
{
	struct replay_place at;
	struct replay_why why = { .stop = REPLAY_DONE };
	struct replay_state st;
	size_t i;
	int rc = replay_thread(s->replay, &s->at, tid, &at, s->diag);

	s->link.broke = false;
	if (!rc)	/* its next instruction after here is a step away */
		at = s->at;
	while (rc >= 0) {
		rc = replay_step(s->replay, &at, tid, back, &why, s->diag);
		if (!rc)
			rc = replay_state(s->replay, &at, &st, s->diag);
		if (rc || why.stop != REPLAY_DONE || st.pc < from || st.pc >= to)
			break;
		i = find_point(&s->points, st.pc);
		if (i < s->points.n && s->points.v[i] == st.pc)
			why.stop = REPLAY_POINT;
		else if (link_is_broken(&s->link))
			why.stop = REPLAY_INTERRUPTED;
		if (why.stop != REPLAY_DONE)
			break;
	}
	if (rc >= 0)
		rc = server_go(s, &at);
	return rc ? rc : put_why(s, &why, back);
}

static int on_back(struct server *s, const char *args)
{
	if (*args == 'c')
		return run(s, true);
	return *args == 's' ? step(s, s->stepping ? s->stepping : s->tid, true, 0, 0) : 0;
}

static int on_continue(struct server *s, const char *args)
{
	(void)args;
	return run(s, false);
}

static int on_step(struct server *s, const char *args)
{
	(void)args;
	return step(s, s->stepping ? s->stepping : s->tid, false, 0, 0);
}

/* The first action counts: a debugger that steps names the thread there, and lets the
 * others go on, which they do. */
static int on_vcont(struct server *s, const char *args)
{
	uint64_t from = 0, to = 0;
	const char *tid;
	char *end;

	if (!strcmp(args, "?")) {
		outbuf_str(s->out, "vCont;c;C;s;S;r");
		return 0;
	}
	if (args[0] != ';')
		return 0;
	tid = strchr(args, ':');
	if (args[1] == 'c' || args[1] == 'C')
		return run(s, false);
	if (args[1] == 'r') {
		from = strtoull(args + 2, &end, 16);
		to = *end == ',' ? strtoull(end + 1, NULL, 16) : 0;
	} else if (args[1] != 's' && args[1] != 'S') {
		return put_error(s, 1), 0;
	}
	return step(s, tid ? (uint32_t)strtoul(tid + 1, NULL, 16) : s->tid, false,
		    from, to);
}

/* ---- threads ---- */

/* "Hg": of registers and memory; "Hc": of bs and s. -1 and 0: any. */
static int on_thread(struct server *s, const char *args)
{
	long tid = strtol(args + (*args != '\0'), NULL, 16);

	*(*args == 'c' ? &s->stepping : &s->chosen) = tid > 0 ? (uint32_t)tid : 0;
	outbuf_str(s->out, "OK");
	return 0;
}

static int on_alive(struct server *s, const char *args)
{
	unsigned long wanted = strtoul(args, NULL, 16);
	uint32_t tid;
	size_t i = 0;

	while (replay_next_thread(s->replay, &i, &tid))
		if (tid == wanted) {
			outbuf_str(s->out, "OK");
			return 0;
		}
	put_error(s, 1);
	return 0;
}

/* ---- questions ---- */

/* NAME:read:ANNEX:OFFSET,LENGTH. What is read from its beginning is made anew. */
static int on_object(struct server *s, char *args)
{
	char *name = args, *op = strchr(name, ':'), *annex, *at, *end;
	uint64_t offset, len, size;
	int err;

	annex = op ? strchr(op + 1, ':') : NULL;
	at = annex ? strchr(annex + 1, ':') : NULL;
	if (!at)
		return 0;
	*op = *annex = *at = '\0';
	if (strcmp(op + 1, "read"))
		return 0;
	offset = strtoull(at + 1, &end, 16);
	len = *end == ',' ? strtoull(end + 1, NULL, 16) : 0;
	if (!offset || !s->object || strcmp(s->object_of, name)) {
		err = target_object(s, name, annex + 1);
		if (err == -AUX_E_NOENT)
			return 0;
		if (err == -AUX_E_UNSUPPORTED)
			return put_error(s, 1), 0;
		if (err)
			return err;
	}
	size = (uint64_t)(s->object->p - s->object->buf);
	offset = offset < size ? offset : size;
	len = len < CHUNK ? len : CHUNK;
	len = len < size - offset ? len : size - offset;
	outbuf_str(s->out, offset + len < size ? "m" : "l");
	outbuf_put(s->out, s->object->buf + offset, len);
	return 0;
}

/* A command in hexadecimal; its text is sent back so. */
static int on_monitor(struct server *s, const char *args)
{
	struct outbuf *answer = s->out, *text = outbuf_new(-1);
	char words[256];
	size_t n = 0;
	int err;

	for (; args[0] && args[1] && n + 1 < sizeof(words); args += 2) {
		char digits[3] = { args[0], args[1], '\0' };

		words[n++] = (char)strtoul(digits, NULL, 16);
	}
	words[n] = '\0';
	if (!text)
		return -AUX_E_NOMEM;
	s->out = text;
	err = monitor_run(s, words);
	s->out = answer;
	if (!err && text->p == text->buf)
		outbuf_str(answer, "OK");
	else if (!err)
		put_hex(answer, (const uint8_t *)text->buf,
			(size_t)(text->p - text->buf));
	outbuf_free(text);
	return err;
}

static const char *after(const char *text, const char *word)
{
	size_t n = strlen(word);

	return strncmp(text, word, n) ? NULL : text + n;
}

/* For LLDB. */
static void put_host(struct server *s, bool process)
{
	const char *triple = s->machine->triple;

	if (process)
		outbuf_printf(s->out, "pid:%x;ostype:linux;", replay_pid(s->replay));
	outbuf_str(s->out, "triple:");
	put_hex(s->out, (const uint8_t *)triple, strlen(triple));
	outbuf_printf(s->out, ";endian:little;ptrsize:%u;", s->machine->size);
}

static int on_query(struct server *s, char *args)
{
	char *object;
	const char *rest;
	uint32_t tid;
	size_t i = 0;

	if (after(args, "Supported")) {
		outbuf_printf(s->out, "PacketSize=%x;QStartNoAckMode+;ReverseStep+;"
			      "ReverseContinue+;swbreak+;vContSupported+;"
			      "qXfer:features:read+;qXfer:threads:read+;"
			      "qXfer:exec-file:read+;qXfer:auxv:read+;"
			      "qXfer:libraries-svr4:read+;qXfer:btrace:read+;"
			      "qXfer:btrace-conf:read+;Qbtrace:bts+;Qbtrace:off+;"
			      "Qbtrace-conf:bts:size+", GDB_PACKET);
	} else if ((object = strchr(args, ':')) && after(args, "Xfer:")) {
		return on_object(s, object + 1);
	} else if ((rest = after(args, "Rcmd,"))) {
		return on_monitor(s, rest);
	} else if (after(args, "HostInfo") || after(args, "ProcessInfo")) {
		put_host(s, *args == 'P');
	} else if (!strcmp(args, "C")) {
		outbuf_printf(s->out, "QC%x", s->tid);
	} else if (!strcmp(args, "fThreadInfo")) {
		while (replay_next_thread(s->replay, &i, &tid))
			outbuf_printf(s->out, "%s%x", s->out->p == s->out->buf ?
				      "m" : ",", tid);
	} else if (!strcmp(args, "sThreadInfo")) {
		outbuf_str(s->out, "l");
	} else if (after(args, "Attached")) {
		outbuf_str(s->out, "1");
	} else if (after(args, "Symbol:")) {
		outbuf_str(s->out, "OK");
	}
	return 0;
}

static int on_set_query(struct server *s, const char *args)
{
	if (!strcmp(args, "btrace:bts") || !strcmp(args, "btrace:off"))
		s->btrace = args[7] == 'b';
	else if (strcmp(args, "StartNoAckMode") && !after(args, "btrace-conf:bts:size="))
		return 0;
	outbuf_str(s->out, "OK");
	return 0;
}

/* ---- packets ---- */

static int on_why(struct server *s, const char *args)
{
	(void)args;
	return put_stop(s, "");
}

static int on_detach(struct server *s, const char *args)
{
	(void)args;
	s->ended = true;
	outbuf_str(s->out, "OK");
	return 0;
}

static int on_kill(struct server *s, const char *args)
{
	(void)args;
	s->ended = true;
	return 0;
}

static int on_v(struct server *s, const char *args)
{
	const char *rest = after(args, "Cont");

	if (rest)
		return on_vcont(s, rest);
	return after(args, "Kill") ? on_detach(s, args) : 0;
}

/* What there is no answer for gets an empty one: not supported. */
static int answer(struct server *s, char *packet)
{
	static const struct {
		char c;
		int (*run)(struct server *s, const char *args);
	} packets[] = {
		{ '?', on_why }, { 'g', on_registers }, { 'p', on_register },
		{ 'G', on_no_write }, { 'P', on_no_write }, { 'm', on_memory },
		{ 'M', on_no_write }, { 'X', on_no_write }, { 'c', on_continue },
		{ 'C', on_continue }, { 's', on_step }, { 'S', on_step },
		{ 'b', on_back }, { 'v', on_v }, { 'Z', on_set }, { 'z', on_clear },
		{ 'H', on_thread }, { 'T', on_alive }, { 'Q', on_set_query },
		{ 'D', on_detach }, { 'k', on_kill },
	};

	if (packet[0] == 'q')
		return on_query(s, packet + 1);
	for (size_t i = 0; i < sizeof(packets) / sizeof(packets[0]); i++)
		if (packets[i].c == packet[0])
			return packets[i].run(s, packet + 1);
	return 0;
}

static int serve(struct server *s)
{
	while (!s->ended && link_read(&s->link)) {
		bool no_ack = !strcmp(s->link.packet, "QStartNoAckMode");
		int err;

		s->out->p = s->out->buf;
		err = answer(s, s->link.packet);
		if (err < 0) {
			say(s, "%s\n", s->diag->text[0] ? s->diag->text :
				   aux_strerror(err));
			s->out->p = s->out->buf;
			put_error(s, (unsigned)-err);
		}
		if (outbuf_failed(s->out))
			return -AUX_E_NOMEM;
		if (s->ended && s->out->p == s->out->buf)
			break;
		if (link_send(&s->link, s->out->buf, (size_t)(s->out->p - s->out->buf)))
			break;
		s->link.no_ack |= no_ack;
	}
	return 0;
}

static int begin(struct server *s)
{
	const struct replay_config rc = { .session = s->config->session,
					  .pid = s->config->pid };
	struct replay_place at;
	struct replay_state st;
	int rc_open = replay_open(&s->replay, &rc, s->diag), n;

	if (rc_open)
		return rc_open;
	n = s->config->at_begin ? replay_first(s->replay, &at, s->diag) :
				  replay_last(s->replay, &at, s->diag);
	if (n < 0)
		return n;
	n = server_go(s, &at);
	if (!n)
		n = replay_state(s->replay, &at, &st, s->diag);
	if (!n)
		s->machine = target_machine(st.mode);
	return n;
}

int gdb_serve(const struct gdb_config *config, struct aux_diag *diag)
{
	struct server s = {
		.config = config, .diag = diag, .out = outbuf_new(-1),
		.link = { .in = config->in, .to = outbuf_new(config->out) },
		.codeview = session_codeview(config->session),
		.host = session_host(config->session),
	};
	int err = s.out && s.link.to ? begin(&s) : -AUX_E_NOMEM;

	if (!err)
		err = serve(&s);
	replay_close(s.replay);
	outbuf_free(s.out);
	outbuf_free(s.link.to);
	outbuf_free(s.object);
	free(s.points.v);
	return err;
}
