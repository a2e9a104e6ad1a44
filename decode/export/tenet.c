/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_tenet: text traces of Tenet, the trace explorer for IDA and Binary
 * Ninja: a line for each instruction, a file for each thread. A trace of
 * control flow knows where the CPU was and nothing else, so the one register
 * of a line is the program counter, and no memory is in it.
 *
 * Lines are rendered once for each range of code and then copied. One buffer
 * serves all files: it is written out when another thread goes on, so memory
 * grows neither with the trace nor with the threads.
 *
 * Specification: github.com/gaasedelen/tenet, tracers/README.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/diag.h"
#include "common/outfile.h"
#include "decode/export/export.h"
#include "decode/lib/session/expand.h"

/* The lines of a range, kept with it. */
struct lines {
	char *text;	/* NULL: not rendered */
	size_t n;
};

/* call_thread.user */
struct tenet_thread {
	struct tenet_thread *next;
	uint32_t tid, stream;
	struct outfile file;
};

struct tenet {
	struct export *x;
	struct walk *walk;
	struct tenet_thread *threads, *current;
	struct outbuf *out;	/* of the current thread's file */
	int err;		/* why there is no more; finish says it */
	struct aux_diag diag;
};

static void drop_lines(void *user)
{
	struct lines *l = user;

	free(l->text);
}

/* Tenet has no AArch64; a viewer for it would know this name. */
static const char *register_of(uint16_t mode)
{
	switch (mode) {
	case AUX_FLOW_MODE_X86_64:
		return "rip=0x";
	case AUX_FLOW_MODE_X86_32:
	case AUX_FLOW_MODE_X86_16:
		return "eip=0x";
	default:
		return "pc=0x";
	}
}

#define LINE 24			/* bytes, at most */

static char *fmt_line(char *p, const struct walk_range *r, uint32_t i)
{
	const char *name = register_of(r->mode);
	size_t len = strlen(name);

	memcpy(p, name, len);
	p = fmt_hex(p + len, r->first + (r->off ? r->off[i] : 0));
	*p++ = '\n';
	return p;
}

static int render(struct tenet *c, const struct walk_range *r)
{
	struct lines *l = r->user;
	char *text = malloc((size_t)r->n * LINE), *p = text, *fit;

	if (!text)
		return -AUX_E_NOMEM;
	for (uint32_t i = 0; i < r->n; i++)
		p = fmt_line(p, r, i);
	l->n = (size_t)(p - text);
	fit = realloc(text, l->n);
	l->text = fit ? fit : text;
	walk_charge(c->walk, l->n);
	return 0;
}

/* finish tells of it: flow has no words. */
static int stop(struct tenet *c, int err)
{
	c->err = err;
	return 1;
}

/* ---- files ---- */

static int open_thread(struct tenet *c, struct tenet_thread *th)
{
	const char *dir = c->x->env.out_path;
	char name[40], *path;
	int n, err;

	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		return diag_set(&c->diag, AUX_E_IO, AUX_NO_OFFSET,
				"%s: %s", dir, strerror(errno));
	if ((int32_t)th->tid < 0)
		snprintf(name, sizeof(name), "stream-%u", th->stream);
	else
		snprintf(name, sizeof(name), "%u", th->tid);
	n = asprintf(&path, "%s/trace.%s.log", dir, name);
	if (n < 0)
		return -AUX_E_NOMEM;
	err = outfile_open(&th->file, path, 0666, OUTFILE_REGULAR, &c->diag);
	if (err && errno == EMFILE)
		diag_set(&c->diag, AUX_E_IO, AUX_NO_OFFSET, "%s: a file for "
			 "each thread are too many open files: ulimit -n, or "
			 "fewer threads with --tid, --pid, --comm", path);
	free(path);
	return err;
}

/* Without -o all goes to standard output, which has room for one thread. */
static int add_thread(struct tenet *c, struct call_thread *t)
{
	struct tenet_thread *th, **at = &c->threads;

	for (; *at; at = &(*at)->next) {
		if ((*at)->tid != t->tid || ((int32_t)t->tid < 0 &&
					     (*at)->stream != t->stream))
			continue;
		t->user = *at;
		return 0;
	}
	if (c->threads && !c->x->env.out_path)
		return diag_set(&c->diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"tenet has a file for each thread, and more than "
				"one ran: -o DIR, or one of them with --tid");
	th = calloc(1, sizeof(*th));
	if (!th)
		return -AUX_E_NOMEM;
	th->tid = t->tid;
	th->stream = t->stream;
	th->file = OUTFILE_NONE;
	*at = t->user = th;
	return c->x->env.out_path ? open_thread(c, th) : 0;
}

/* What is in the buffer belongs to the file of the thread before. */
static int enter_thread(struct tenet *c, struct call_thread *t)
{
	struct tenet_thread *th;
	int err = t->user ? 0 : add_thread(c, t);

	if (err)
		return err;
	th = t->user;
	if (!c->x->env.out_path)
		c->out = c->x->out;
	else if (!c->out)
		c->out = outbuf_new(th->file.fd);
	else if ((err = outbuf_flush(c->out)))
		return err;
	if (!c->out)
		return -AUX_E_NOMEM;
	if (c->x->env.out_path)
		c->out->fd = th->file.fd;
	c->current = th;
	return 0;
}

/* ---- what calls reports ---- */

/* --symbol: frame.user says whether it is inside of such a call. */
static int on_enter(void *priv, struct call_thread *t)
{
	struct call_frame *f = &t->frames[t->depth - 1];

	if (f->func->wanted || (t->depth > 1 && f[-1].user))
		f->user = priv;
	return 0;
}

static bool is_shown(const struct tenet *c, const struct call_thread *t)
{
	return !c->x->env.symbol ||
	       (t->depth && t->frames[t->depth - 1].user);
}

/* The first of the lines, up to --limit. */
static int put_some(struct tenet *c, const struct walk_range *r, uint64_t left)
{
	char buf[LINE];

	for (uint32_t i = 0; i < r->n && i < left; i++)
		outbuf_put(c->out, buf, (size_t)(fmt_line(buf, r, i) - buf));
	c->x->env.report->n_lines += left;
	return 1;
}

static int put_range(struct tenet *c, const struct call_thread *t,
		     const struct aux_flow *ev)
{
	struct sink_report *report = c->x->env.report;
	uint64_t limit = c->x->config.limit;
	struct walk_range *r;
	int err = walk_find(c->walk, t->ctx ? t->ctx->space : NULL, ev, &r);

	if (err == -AUX_E_NOMEM)
		return err;
	if (err) {
		report->n_mismatches++;
		return 0;
	}
	if (limit && limit - report->n_lines <= r->n)
		return put_some(c, r, limit - report->n_lines);
	if (!((struct lines *)r->user)->text && r->n)
		err = render(c, r);
	if (err)
		return err;
	outbuf_put(c->out, ((struct lines *)r->user)->text,
		   ((struct lines *)r->user)->n);
	report->n_lines += r->n;
	return outbuf_failed(c->out) ? -AUX_E_IO : 0;
}

static int on_run(void *priv, struct call_thread *t, const struct aux_flow *ev)
{
	struct tenet *c = priv;
	int err = 0;

	if (!is_shown(c, t)) {
		c->x->env.report->n_filtered += ev->n;
		return 0;
	}
	if (!t->user || t->user != c->current)
		err = enter_thread(c, t);
	if (!err)
		err = put_range(c, t, ev);
	if (err == -AUX_E_IO && !c->diag.code)
		diag_set(&c->diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s",
			 c->x->env.out_path ? c->x->env.out_path : "output",
			 strerror(c->out ? c->out->error : errno));
	return err < 0 ? stop(c, err) : err;
}

static const struct calls_ops to_files = {
	.enter = on_enter,
	.run = on_run,
};

/* ---- the format ---- */

/* All files get their names, or none. */
static int finish_tenet(void *format, struct aux_diag *diag)
{
	struct tenet *c = format;
	int err = c->err;

	if (!err && c->out && outbuf_flush(c->out) == -AUX_E_IO)
		err = diag_set(&c->diag, AUX_E_IO, AUX_NO_OFFSET, "%s: %s",
			       c->x->env.out_path ? c->x->env.out_path
						  : "output",
			       strerror(c->out->error));
	if (!err && walk_nomem(c->walk))
		err = -AUX_E_NOMEM;
	for (struct tenet_thread *th = c->threads; th && !err; th = th->next)
		if (c->x->env.out_path)
			err = outfile_commit(&th->file, &c->diag);
	if (err)
		*diag = c->diag;
	return err;
}

static int open_tenet(void **format, struct export *x, struct aux_diag *diag)
{
	struct walk_config wc = { .host = x->env.host,
				  .user_size = sizeof(struct lines),
				  .drop = drop_lines };
	struct tenet *c = calloc(1, sizeof(*c));

	(void)diag;
	*format = c;
	if (!c)
		return -AUX_E_NOMEM;
	c->x = x;
	c->diag.offset = AUX_NO_OFFSET;
	return walk_new(&c->walk, &wc);
}

static void close_tenet(void *format)
{
	struct tenet *c = format;

	while (c->threads) {
		struct tenet_thread *th = c->threads;

		c->threads = th->next;
		outfile_discard(&th->file);
		free(th);
	}
	if (c->x->env.out_path)
		outbuf_free(c->out);
	walk_free(c->walk);
	free(c);
}

const struct export_ops export_tenet = {
	.name = "tenet",
	.help = "text traces of Tenet (IDA, Binary Ninja): -o DIR, a file a thread",
	.flags = EXPORT_OWN_DIR,
	.calls_flags = CALLS_NEEDS_RUNS,
	.open = open_tenet,
	.raw = &to_files,
	.finish = finish_tenet,
	.close = close_tenet,
};
