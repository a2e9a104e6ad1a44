/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sink_export: names. Each text is kept once, however many functions have it, so a
 * format writes it once; the longest mangled name costs its own bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "decode/lib/session/session.h"
#include "decode/export/impl.h"

static uint64_t hash_text(const char *s, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 29;
}

static struct export_name **find_slot(struct export_name **slots, size_t n,
				      const char *text, size_t len)
{
	size_t i = (size_t)hash_text(text, len) & (n - 1);

	while (slots[i] && (slots[i]->len != len ||
			    memcmp(slots[i]->text, text, len)))
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int grow_slots(struct exporter *e)
{
	size_t n = e->n_slots ? 2 * e->n_slots : 1024;
	struct export_name **slots = calloc(n, sizeof(struct export_name *));

	if (!slots)
		return -AUX_E_NOMEM;
	for (size_t i = 0; i < e->n_slots; i++)
		if (e->slots[i])
			*find_slot(slots, n, e->slots[i]->text,
				   e->slots[i]->len) = e->slots[i];
	free(e->slots);
	e->slots = slots;
	e->n_slots = n;
	return 0;
}

const struct export_name *export_intern(struct export *x, const char *text)
{
	struct exporter *e = (struct exporter *)x;
	size_t raw = strlen(text), len = export_clean(NULL, text, raw);
	struct export_name *name, **slot;

	if (2 * (size_t)(x->n_names + 1) > e->n_slots && grow_slots(e))
		return NULL;
	if (len > UINT32_MAX / 2)
		return NULL;
	name = malloc(sizeof(*name) + len + 1);
	if (!name)
		return NULL;
	export_clean(name->text, text, raw);
	name->text[len] = 0;
	name->len = (uint32_t)len;
	slot = find_slot(e->slots, e->n_slots, name->text, len);
	if (*slot) {
		free(name);
		return *slot;
	}
	name->id = x->n_names++;
	*slot = name;
	return name;
}

const struct export_name *export_func_name(struct export *x,
					   struct call_func *f)
{
	char buf[512];

	if (f->user)
		return f->user;
	if (f->name) {
		f->user = (void *)export_intern(x, f->name);
	} else {
		call_func_name(f, buf, sizeof(buf));
		f->user = (void *)export_intern(x, buf);
	}
	return f->user;
}

size_t export_track_name(const struct export_track *t, char *buf, size_t len)
{
	const char *comm = t->comm ? t->comm->text : "?";
	int n;

	if ((int32_t)t->tid < 0)
		n = snprintf(buf, len, "stream %u", t->stream);
	else
		n = snprintf(buf, len, "%s/%u", comm, t->tid);
	if (t->stack && n >= 0 && (size_t)n < len)
		n += snprintf(buf + n, len - (size_t)n, " stack %u", t->stack);
	return n < 0 ? 0 : (size_t)n < len ? (size_t)n : len - 1;
}

#define MADE_UP (UINT64_C(1) << 30) /* no process has such a number */

uint64_t export_pid(const struct export_track *t)
{
	return (int32_t)t->pid < 0 ? 0 : t->pid;
}

uint64_t export_tid(const struct export_track *t)
{
	return (int32_t)t->tid < 0 || t->stack ? MADE_UP + t->id : t->tid;
}

const char *export_clock(const struct export *x)
{
	const char *clock = NULL;

	if (!x->timed)
		return "instructions";
	if (x->session)
		clock = aux_reader_source(session_reader(x->session), "clock");
	return clock && !strcmp(clock, "virtual") ? clock : "perf";
}

const char *export_kind_name(const struct call_frame *f)
{
	static const char *const names[] = {
		[CALL_BASE] = "base",	      [CALL_CALL] = "call",
		[CALL_TAIL] = "tail",	      [CALL_SIGNAL] = "signal",
		[CALL_INTERRUPT] = "interrupt", [CALL_SYSCALL] = "syscall",
		[CALL_CONTEXT] = "context",
	};

	return f->kind < sizeof(names) / sizeof(names[0]) ? names[f->kind]
							  : "unknown";
}

const char *export_end_name(enum call_end how)
{
	static const char *const names[] = {
		[CALL_END_RET] = "return",    [CALL_END_TAIL] = "tail",
		[CALL_END_UNWOUND] = "unwound", [CALL_END_KERNEL] = "kernel",
		[CALL_END_LOST] = "lost",     [CALL_END_EXEC] = "exec",
		[CALL_END_TRACE] = "trace-end",
	};

	return how < sizeof(names) / sizeof(names[0]) ? names[how] : "unknown";
}

bool export_is_cut(enum call_end how)
{
	return how == CALL_END_LOST || how == CALL_END_TRACE;
}
