/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * columns: see columns.h. A context column depends on the flow_ctx (and on the
 * event's offset); all others depend on code and address alone, so that a sink
 * may keep their text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/diag.h>

#include "columns.h"
#include "gap.h"
#include "outbuf.h"

/* width: negative is left aligned. table */
static const struct {
	const char *name, *title;
	int width;
} table[COL_N] = {
	[COL_CPU] = { "cpu", "cpu", 4 },
	[COL_PID] = { "pid", "pid", 7 },
	[COL_TID] = { "tid", "tid", 7 },
	[COL_WHO] = { "pid/tid", "pid/tid", 13 },
	[COL_TIME] = { "time", "time", 17 },
	[COL_COMM] = { "comm", "comm", -15 },
	[COL_OFFSET] = { "offset", "offset", 10 },
	[COL_IP] = { "ip", "address", 16 },
	[COL_SYM] = { "sym", "symbol", -32 },
	[COL_DSO] = { "dso", "dso", -24 },
	[COL_BYTES] = { "bytes", "bytes", -30 },
	[COL_INSN] = { "insn", "instruction", -36 },
	[COL_KIND] = { "kind", "kind", -8 },
	[COL_FROM] = { "from", "from", 16 },
	[COL_FROM_SYM] = { "fromsym", "symbol", -32 },
	[COL_FROM_DSO] = { "fromdso", "dso", -24 },
	[COL_ARROW] = { "->", "->", 2 },
	[COL_TO] = { "to", "to", 16 },
	[COL_TO_SYM] = { "tosym", "symbol", -32 },
	[COL_TO_DSO] = { "todso", "dso", -24 },
};

static int find_column(const char *name, size_t len)
{
	for (int i = 0; i < COL_N; i++) {
		if (!strncmp(table[i].name, name, len) && !table[i].name[len])
			return i;
	}
	return -1;
}

/* Is the name (of len bytes) an element of the comma separated list? */
static bool in_list(const char *list, const char *name, size_t len)
{
	while (*list) {
		size_t n = strcspn(list, ",");

		if (n == len && !memcmp(list, name, len))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

static int add_list(struct columns *c, const char *list, const char *allowed,
		    struct aux_diag *diag)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		int col = find_column(list, len);

		if (col < 0 || (allowed && !in_list(allowed, list, len)))
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"no column \"%.*s\"; -F takes: %s",
					(int)len, list, allowed);
		if (c->n == COLUMNS_MAX)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"more than %d columns", COLUMNS_MAX);
		c->col[c->n++] = (uint8_t)col;
		c->has |= COLUMN_BIT(col);
		list += len + (list[len] == ',');
	}
	return 0;
}

int columns_parse(struct columns *c, const char *fields, const char *allowed,
		  const char *standard, struct aux_diag *diag)
{
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->aligned = !fields || fields[0] == '+';
	if (c->aligned)
		err = add_list(c, standard, NULL, diag);
	if (!err && fields)
		err = add_list(c, fields + (fields[0] == '+'), allowed, diag);
	if (err)
		return err;
	if (!c->n)
		return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
				"-F names no column; it takes: %s", allowed);
	while (c->n_lead < c->n && c->col[c->n_lead] < COL_IP)
		c->n_lead++;
	for (unsigned i = c->n_lead; i < c->n; i++)
		c->mixed |= c->col[i] < COL_IP;
	return 0;
}

static unsigned width_of(enum column col)
{
	return (unsigned)abs(table[col].width);
}

void columns_header(const struct columns *c, struct outbuf *out)
{
	char line[COLUMNS_MAX * 64], *p = line;

	if (!c->aligned)
		return;
	for (unsigned i = 0; i < c->n; i++) {
		const char *title = table[c->col[i]].title;
		size_t len = strlen(title), w = width_of(c->col[i]);
		size_t pad = len < w ? w - len : 0;

		if (i)
			*p++ = ' ';
		if (table[c->col[i]].width > 0) {
			memset(p, ' ', pad);
			p += pad;
		}
		memcpy(p, title, len);
		p += len;
		if (table[c->col[i]].width < 0 && i + 1 < c->n) {
			memset(p, ' ', pad);
			p += pad;
		}
	}
	if (line[0] == ' ') /* the first column is right aligned: room for it */
		line[0] = '#';
	else
		outbuf_put(out, "# ", 2);
	*p++ = '\n';
	outbuf_put(out, line, (size_t)(p - line));
}

void column_pad(const struct columns *c, unsigned i, struct outbuf *out,
		size_t start)
{
	size_t len = (size_t)(out->p - out->buf) - start;
	size_t w = width_of(c->col[i]);
	bool left = table[c->col[i]].width < 0;
	char *p;

	if (!c->aligned || len >= w || (left && i + 1 == c->n) ||
	    !outbuf_room(out, w - len))
		return;
	p = out->buf + start;
	if (left) {
		memset(p + len, ' ', w - len);
	} else {
		memmove(p + w - len, p, len);
		memset(p, ' ', w - len);
	}
	out->p = p + w;
}

/* Text of the trace's own files: whatever they hold, it stays one line. */
static void put_clean(struct outbuf *out, const char *text)
{
	size_t n = strlen(text);
	char *p = outbuf_room(out, n);

	if (!p)
		return;
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)text[i] < ' ' ? '?' : text[i];
	out->p = p + n;
}

static void put_comm(struct outbuf *out, const struct flow_ctx *ctx,
		     const struct sink_host *host)
{
	const char *comm = NULL;

	if (host->comm)
		comm = host->comm(host->priv, ctx->tid, ctx->time_ns);
	put_clean(out, comm && *comm ? comm : "-");
}

void column_ctx(const struct columns *c, struct outbuf *out, enum column col,
		const struct flow_ctx *ctx, const struct sink_host *host,
		uint64_t offset)
{
	char buf[64], *p = buf;

	switch (col) {
	case COL_CPU:
		if (c->aligned && ctx->cpu < 0)
			*p++ = '-';
		else
			p = fmt_sdec(p, ctx->cpu);
		break;
	case COL_PID:
		p = fmt_sdec(p, (int32_t)ctx->pid);
		break;
	case COL_TID:
		p = fmt_sdec(p, (int32_t)ctx->tid);
		break;
	case COL_WHO:
		p = fmt_sdec(p, (int32_t)ctx->pid);
		*p++ = '/';
		p = fmt_sdec(p, (int32_t)ctx->tid);
		break;
	case COL_TIME:
		if (ctx->time_ns)
			p = fmt_time(p, ctx->time_ns);
		else
			*p++ = '-';
		break;
	case COL_COMM:
		put_comm(out, ctx, host);
		return;
	case COL_OFFSET:
		*p++ = '0';
		*p++ = 'x';
		p = fmt_hex(p, offset);
		break;
	default:
		return;
	}
	outbuf_put(out, buf, (size_t)(p - buf));
}

/* Would the context columns that are shown differ now? */
static bool lead_changed(const struct lead *l, uint32_t has,
			 const struct flow_ctx *ctx, uint64_t offset)
{
	const struct flow_ctx *old = &l->ctx;

	return !l->serial ||
	       (ctx->tid != old->tid &&
		has & (COLUMN_BIT(COL_TID) | COLUMN_BIT(COL_WHO) |
		       COLUMN_BIT(COL_COMM))) ||
	       (ctx->pid != old->pid &&
		has & (COLUMN_BIT(COL_PID) | COLUMN_BIT(COL_WHO))) ||
	       (ctx->cpu != old->cpu && has & COLUMN_BIT(COL_CPU)) ||
	       (ctx->time_ns != old->time_ns &&
		has & (COLUMN_BIT(COL_TIME) | COLUMN_BIT(COL_COMM))) ||
	       (offset != l->offset && has & COLUMN_BIT(COL_OFFSET));
}

void lead_update(struct lead *l, const struct columns *c,
		 const struct flow_ctx *ctx, const struct sink_host *host,
		 uint64_t offset)
{
	struct outbuf *out = l->text;

	if (!lead_changed(l, c->has, ctx, offset))
		return;
	l->ctx = *ctx;
	l->offset = offset;
	l->serial++;
	out->p = out->buf;
	for (unsigned i = 0; i < c->n_lead; i++) {
		size_t start = (size_t)(out->p - out->buf);

		column_ctx(c, out, c->col[i], ctx, host, offset);
		column_pad(c, i, out, start);
		if (i + 1 < c->n)
			outbuf_put(out, " ", 1);
	}
}

void find_symbol(const struct sink_host *host, const struct space *space,
		 uint64_t ip, struct symbol *sym)
{
	memset(sym, 0, sizeof(*sym));
	if (host->symbol && space && host->symbol(host->priv, space, ip, sym))
		sym->name = NULL; /* the dso may be known all the same */
}

/* "[libc.so.6]": for reading, where no symbol is known. */
static void put_dso_name(struct outbuf *out, const char *dso)
{
	const char *base = strrchr(dso, '/');

	if (*dso == '[') {
		put_clean(out, dso);
		return;
	}
	outbuf_put(out, "[", 1);
	put_clean(out, base ? base + 1 : dso);
	outbuf_put(out, "]", 1);
}

void column_symbol(const struct columns *c, struct outbuf *out,
		   const struct symbol *sym, uint64_t ip)
{
	char buf[24], *p = buf;

	if (!sym->name) {
		if (!c->aligned)
			outbuf_put(out, "-", 1);
		else if (sym->dso)
			put_dso_name(out, sym->dso);
		return;
	}
	put_clean(out, sym->name);
	*p++ = '+';
	*p++ = '0';
	*p++ = 'x';
	p = fmt_hex(p, ip - sym->start);
	outbuf_put(out, buf, (size_t)(p - buf));
}

void column_dso(const struct columns *c, struct outbuf *out,
		const struct symbol *sym)
{
	if (sym->dso)
		put_clean(out, sym->dso);
	else if (!c->aligned)
		outbuf_put(out, "-", 1);
}

/* By enum aux_gap_cause. table */
static const struct {
	const char *name, *text;
} causes[GAP_N_CAUSES] = {
	[AUX_GAP_OVERFLOW] = { "overflow", "the CPU produced trace faster than "
					   "it could store and dropped some" },
	[AUX_GAP_NO_CODE] = { "no-code",
			      "the code that ran is in no file given;"
			      " see --symfs and --vdso" },
	[AUX_GAP_BAD_PACKET] = { "bad-packet", "these bytes are no packet: the "
					       "trace is damaged" },
	[AUX_GAP_DESYNC] = { "desync", "trace and code contradict each other: "
				       "the file is not the one that ran, or "
				       "code changed unseen" },
	[AUX_GAP_NO_SYNC] = { "no-sync", "no sync point: these bytes cannot be "
					 "decoded" },
	[AUX_GAP_AUX_TRUNCATED] = { "aux-truncated", "the AUX buffer was full; "
						     "record with a larger one "
						     "(-m)" },
	[AUX_GAP_AUX_PARTIAL] = { "aux-partial", "the kernel says that this "
						 "piece of trace is not "
						 "complete" },
	[AUX_GAP_AUX_COLLISION] = { "aux-collision", "someone else used the "
						     "trace unit meanwhile" },
	[AUX_GAP_AUX_LOST] = { "aux-lost", "bytes of the AUX stream are not in "
					   "the file" },
	[GAP_SNAPSHOT] = { "snapshot", "not recorded between snapshots" },
	[GAP_STALLED] = { "stalled", "the trace unit had stopped" },
	[GAP_UNSAVED] = { "unsaved", "the recorder could not save what was "
				     "here" },
	[GAP_UNKNOWN_ID] = { "unknown-id", "the file does not say whose trace "
					   "this is; `auxdecode info` shows "
					   "the trace ids" },
	[AUX_GAP_FILE] = { "file", "the recording is cut or damaged here" },
	[AUX_GAP_DECODER] = { "decoder", "the decoder met a limit of its own" },
};

const char *gap_name(unsigned cause)
{
	if (cause >= GAP_N_CAUSES || !causes[cause].name)
		return "unknown";
	return causes[cause].name;
}

const char *gap_text(unsigned cause)
{
	if (cause >= GAP_N_CAUSES || !causes[cause].text)
		return "a cause that this build does not know";
	return causes[cause].text;
}

/* "# gap CAUSE at offset 0x.. after 0x..: " */
static void print_gap_start(struct outbuf *out, unsigned cause, uint64_t offset,
			    uint64_t after)
{
	outbuf_printf(out, "# gap %s at offset 0x%llx ", gap_name(cause),
		      (unsigned long long)offset);
	if (after)
		outbuf_printf(out, "after 0x%llx: ", (unsigned long long)after);
	else
		outbuf_str(out, "after nothing: ");
}

static void print_gap_end(struct outbuf *out, const struct flow_ctx *ctx)
{
	outbuf_printf(out, " (stream %u", ctx->stream);
	if (ctx->cpu >= 0)
		outbuf_printf(out, ", cpu %d", ctx->cpu);
	outbuf_printf(out, ", tid %d)\n", (int32_t)ctx->tid);
}

void print_gap(struct outbuf *out, const struct sink_host *host,
	       const struct flow_ctx *ctx, const struct aux_flow *ev,
	       uint64_t after)
{
	bool has_ip = ev->flags & AUX_FLOW_HAS_IP;
	char why[512] = "";

	print_gap_start(out, ev->what, ev->offset, after);
	if (ev->what == AUX_GAP_NO_CODE && has_ip && host->explain &&
	    ctx->space)
		host->explain(host->priv, ctx->space, ev->gap.ip, why,
			      sizeof(why));
	if (why[0])
		put_clean(out, why);
	else
		outbuf_str(out, gap_text(ev->what));
	if (ev->what == GAP_UNKNOWN_ID && ev->gap.detail)
		outbuf_printf(out, "; trace id 0x%llx",
			      (unsigned long long)ev->gap.detail);
	if (ev->what == AUX_GAP_OVERFLOW && has_ip)
		outbuf_printf(out, "; goes on at 0x%llx",
			      (unsigned long long)ev->gap.ip);
	else if (has_ip && ev->gap.ip && ev->gap.ip != after && !why[0])
		outbuf_printf(out, "; at 0x%llx",
			      (unsigned long long)ev->gap.ip);
	print_gap_end(out, ctx);
}

void print_mismatch(struct outbuf *out, const struct sink_host *host,
		    const struct flow_ctx *ctx, const struct aux_flow *ev,
		    int err)
{
	char why[512] = "";

	print_gap_start(out,
			err == -AUX_E_NOENT ? AUX_GAP_NO_CODE : AUX_GAP_DESYNC,
			ev->offset, 0);
	outbuf_printf(out,
		      "%u instructions from 0x%llx to 0x%llx do not fit the "
		      "code there and are not shown",
		      ev->n, (unsigned long long)ev->range.first,
		      (unsigned long long)ev->range.last);
	if (err == -AUX_E_NOENT && host->explain && ctx->space)
		host->explain(host->priv, ctx->space, ev->range.first, why,
			      sizeof(why));
	if (why[0]) {
		outbuf_str(out, ": ");
		put_clean(out, why);
	}
	print_gap_end(out, ctx);
}

uint64_t *last_ip_of(struct last_ips *l, uint32_t stream)
{
	struct last_ip *v;

	if (l->current < l->n && l->v[l->current].stream == stream)
		return &l->v[l->current].ip;
	for (l->current = 0; l->current < l->n; l->current++)
		if (l->v[l->current].stream == stream)
			return &l->v[l->current].ip;
	v = realloc(l->v, (l->n + 1) * sizeof(*v));
	if (!v)
		return NULL;
	l->v = v;
	v[l->n++] = (struct last_ip){ .stream = stream };
	return &v[l->current].ip;
}
