/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * columns: see columns.h. A context column depends on the flow_ctx (who, where,
 * when) and on the event's offset; all others depend on code and address alone,
 * so a sink may keep their text. enum column has the context columns first.
 *
 * The lead is what the context columns in front of a line show. It changes
 * seldom against the number of lines, and when it does, only from the first
 * column on whose value changed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clean.h"
#include "common/diag.h"
#include "common/options.h"

#include "decode/callstack/names.h"
#include "decode/sink/columns.h"
#include "common/outbuf.h"

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
	[COL_CGROUP] = { "cgroup", "cgroup", -24 },
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

/* -1: there is no such column. */
static int find_column(const char *name, size_t len)
{
	for (int i = 0; i < COL_N; i++) {
		if (!strncmp(table[i].name, name, len) && !table[i].name[len])
			return i;
	}
	return -1;
}

/* Whether the name (of len bytes) is an element of the comma separated list. */
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

/* What perf calls fields, and where that stands here. */
/* table */
static const struct habit fields_of_perf[] = {
	{ "flags", "branch has the column kind" },
	{ "addr", "branch has the columns to, tosym and todso" },
	{ "event period callindent", "calls prints calls and returns as a tree" },
	{ "srcline srccode", "--source prints source lines" },
	{ "ipc cyc", "hot --by cycles, latency --by cycles" },
	{ "ip:sym sym:ip", "columns are separated by commas" },
	{ "symoff", "sym has the offset" },
	{ "asm disasm", "insn is the disassembled instruction, bytes are its bytes" },
	{ NULL, NULL },
};

static int refuse_column(const char *name, size_t len, const char *allowed,
			 struct aux_diag *diag)
{
	const char *habit = NULL;
	char word[16];

	if (len < sizeof(word)) {
		memcpy(word, name, len);
		word[len] = '\0';
		habit = habit_find(fields_of_perf, word);
	}
	return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
			"no column \"%.*s\"%s%s; -F takes: %s", (int)len, name,
			habit ? ": " : "", habit ? habit : "", allowed);
}

/* "-pid" leaves tid of pid/tid, which is one column. */
static void remove_column(struct columns *c, int col)
{
	int other = col == COL_PID ? COL_TID : col == COL_TID ? COL_PID : -1;
	unsigned n = 0;

	c->has = 0;
	for (unsigned i = 0; i < c->n; i++) {
		if (c->col[i] == col)
			continue;
		if (c->col[i] == COL_WHO && other >= 0)
			c->col[i] = (uint8_t)other;
		c->has |= COLUMN_BIT(c->col[i]);
		c->col[n++] = c->col[i];
	}
	c->n = n;
}

/* Adds the columns of a list: with "+" unless it is there, with "-" it is taken
 * away. allowed NULL: our own list, not the user's. */
static int add_list(struct columns *c, const char *list, const char *allowed,
		    struct aux_diag *diag)
{
	while (*list) {
		bool away = allowed && *list == '-';
		bool also = allowed && *list == '+';
		const char *name = list + (also || away);
		size_t len = strcspn(name, ",");
		int col = find_column(name, len);

		if (col < 0 || (allowed && !in_list(allowed, name, len)))
			return refuse_column(name, len, allowed, diag);
		list = name + len + (name[len] == ',');
		if (away)
			remove_column(c, col);
		if (away || (also && c->has & COLUMN_BIT(col)))
			continue;
		if (c->n == COLUMNS_MAX)
			return diag_set(diag, AUX_E_INVAL, AUX_NO_OFFSET,
					"more than %d columns", COLUMNS_MAX);
		c->col[c->n++] = (uint8_t)col;
		c->has |= COLUMN_BIT(col);
	}
	return 0;
}

int columns_parse(struct columns *c, const char *fields, const char *allowed,
		  const char *standard, struct aux_diag *diag)
{
	int err = 0;

	memset(c, 0, sizeof(*c));
	c->aligned = !fields || fields[0] == '+' || fields[0] == '-';
	if (c->aligned)
		err = add_list(c, standard, NULL, diag);
	if (!err && fields)
		err = add_list(c, fields, allowed, diag);
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

/* The titles, with "#" in front so that programs skip the line. */
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

/* The name the thread had at that time, or its cgroup: of is a member of
 * host. */
static void put_of_thread(struct outbuf *out, const struct flow_ctx *ctx,
			  const struct sink_host *host,
			  const char *(*of)(void *, uint32_t, uint64_t))
{
	const char *text = NULL;

	if (of)
		text = of(host->priv, ctx->tid, ctx->time_ns);
	outbuf_clean(out, text && *text ? text : "-");
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
		put_of_thread(out, ctx, host, host->comm);
		return;
	case COL_CGROUP:
		put_of_thread(out, ctx, host, host->cgroup);
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

/* What each context column depends on. */
#define ON_TID	  (COLUMN_BIT(COL_TID) | COLUMN_BIT(COL_WHO) | \
		   COLUMN_BIT(COL_COMM) | COLUMN_BIT(COL_CGROUP))
#define ON_PID	  (COLUMN_BIT(COL_PID) | COLUMN_BIT(COL_WHO))
#define ON_TIME	  (COLUMN_BIT(COL_TIME) | COLUMN_BIT(COL_COMM) | \
		   COLUMN_BIT(COL_CGROUP))

/* The context columns that would differ now, a bit each. */
static uint32_t changed_columns(const struct lead *l,
				const struct flow_ctx *ctx, uint64_t offset)
{
	const struct flow_ctx *old = &l->ctx;
	uint32_t bits = 0;

	if (!l->serial)
		return UINT32_MAX;
	bits |= ctx->tid != old->tid ? ON_TID : 0;
	bits |= ctx->pid != old->pid ? ON_PID : 0;
	bits |= ctx->time_ns != old->time_ns ? ON_TIME : 0;
	bits |= ctx->cpu != old->cpu ? COLUMN_BIT(COL_CPU) : 0;
	bits |= offset != l->offset ? COLUMN_BIT(COL_OFFSET) : 0;
	return bits;
}

void lead_update(struct lead *l, const struct columns *c,
		 const struct flow_ctx *ctx, const struct sink_host *host,
		 uint64_t offset)
{
	uint32_t changed = changed_columns(l, ctx, offset);
	struct outbuf *out = l->text;
	unsigned i = 0;

	if (!(changed & c->has) && l->serial)
		return;
	while (i < c->n_lead && !(changed & COLUMN_BIT(c->col[i])))
		i++;
	if (i < c->n_lead)
		out->p = out->buf + (l->serial ? l->start[i] : 0);
	l->ctx = *ctx;
	l->offset = offset;
	l->serial++;
	l->id = 0;
	for (; i < c->n_lead; i++) {
		size_t start = (size_t)(out->p - out->buf);

		l->start[i] = (uint32_t)start;
		column_ctx(c, out, c->col[i], ctx, host, offset);
		column_pad(c, i, out, start);
		if (i + 1 < c->n)
			outbuf_put(out, " ", 1);
	}
}

/*
 * Threads take turns, and what each of them leads its lines with comes back.
 * Texts that were seen lately have their old id again, so texts kept under it
 * can be used.
 */
uint64_t lead_id(struct lead *l)
{
	size_t len = (size_t)(l->text->p - l->text->buf);
	uint32_t hash = 2166136261;

	if (l->id)
		return l->id;
	l->id = l->serial;
	if (len > LEAD_MAX)
		return l->id;
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)l->text->buf[i]) * 16777619;
	hash = (hash ^ hash >> 16) & (LEAD_SEEN - 1);
	if (l->seen[hash].id && l->seen[hash].len == len &&
	    !memcmp(l->seen[hash].text, l->text->buf, len)) {
		l->id = l->seen[hash].id;
		return l->id;
	}
	l->seen[hash].id = l->id;
	l->seen[hash].len = len;
	memcpy(l->seen[hash].text, l->text->buf, len);
	return l->id;
}

void find_symbol(const struct sink_host *host, const struct space *space,
		 uint64_t ip, struct symbol *sym)
{
	memset(sym, 0, sizeof(*sym));
	if (host->symbol && space && host->symbol(host->priv, space, ip, sym))
		sym->name = NULL; /* the dso may be known all the same */
}

bool in_symbol(const struct sink_host *host, const struct space *space,
	       uint64_t ip)
{
	struct symbol sym;

	find_symbol(host, space, ip, &sym);
	return names_fit(host->names, sym.name, sym.dso);
}

/* "[libc.so.6]": for reading, where no symbol is known. */
static void put_dso_name(struct outbuf *out, const char *dso)
{
	const char *base = strrchr(dso, '/');

	if (*dso == '[') {
		outbuf_clean(out, dso);
		return;
	}
	outbuf_put(out, "[", 1);
	outbuf_clean(out, base ? base + 1 : dso);
	outbuf_put(out, "]", 1);
}

void column_symbol(const struct columns *c, struct outbuf *out,
		   const struct sink_host *host, const struct symbol *sym,
		   uint64_t ip)
{
	char buf[24], *p = buf;

	if (!sym->name) {
		if (!c->aligned)
			outbuf_put(out, "-", 1);
		else if (sym->dso)
			put_dso_name(out, sym->dso);
		return;
	}
	outbuf_clean(out, names_shown(host->names, sym->name));
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
		outbuf_clean(out, sym->dso);
	else if (!c->aligned)
		outbuf_put(out, "-", 1);
}

uint64_t flow_last_ip(const struct aux_flow *ev)
{
	const struct aux_path *path = ev->path.path;
	const struct aux_step *step = path->steps[path->n_steps - 1];

	return step->ranges[step->n_ranges - 1].range.last;
}

/* Streams take turns rarely, so the current one is tried first. */
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
