/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * export_sqlite: a database: tables of what happened, views that answer
 * questions. A row is written when it is complete, by statements that are
 * prepared once, in one transaction; indexes and views come last. The file is
 * new: a failed export leaves no journal, but what is there of it.
 *
 * Calls are most of it. SQLite took 2.5 us for the row of one and its place in three
 * indexes; so they are sorted here, and their pages are written without it when all else
 * is in the file (sqlite_pages.h).
 *
 * Numbers of 64 bits go in as they are: SQLite shows addresses above 2^63
 * negative.
 */
#ifdef HAVE_SQLITE
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/outfile.h"
#include "decode/sink/columns.h"
#include "decode/export/export.h"
#include "decode/export/sorter.h"
#include "decode/export/sqlite_pages.h"

#define CALLS_MEMORY ((size_t)48 << 20)	/* of rows that wait to be sorted, */
#define INDEX_MEMORY ((size_t)16 << 20)	/* and of the entries of an index */

/*
 * The tables and views. Times are nanoseconds of the recording's clock; NULL:
 * not known. A view is the answer to one question.
 */

/* table */
static const char sqlite_tables[] =
	"CREATE TABLE recording (key TEXT PRIMARY KEY, value);"
	"CREATE TABLE threads (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER,"
	" stack INTEGER, stream INTEGER, comm TEXT, name TEXT,"
	" start INTEGER, end INTEGER, insns INTEGER);"
	"CREATE TABLE functions (id INTEGER PRIMARY KEY, name TEXT, raw TEXT,"
	" dso TEXT, addr INTEGER, size INTEGER);"
	"CREATE TABLE calls (id INTEGER PRIMARY KEY, parent INTEGER,"
	" thread INTEGER, function INTEGER, start INTEGER, end INTEGER,"
	" self_ns INTEGER, insns INTEGER, self_insns INTEGER,"
	" branches INTEGER, cycles INTEGER, site INTEGER, depth INTEGER,"
	" inner INTEGER, kind TEXT, how TEXT, guessed INTEGER, lost INTEGER,"
	" off_cpu_ns INTEGER, untraced_ns INTEGER, lost_ns INTEGER,"
	" blocked_ns INTEGER, preempted_ns INTEGER,"
	" kernel_ns INTEGER, filtered_ns INTEGER);"
	"CREATE TABLE gaps (id INTEGER PRIMARY KEY, thread INTEGER,"
	" start INTEGER, end INTEGER, cause TEXT, text TEXT,"
	" stream_offset INTEGER);"
	"CREATE TABLE untraced (id INTEGER PRIMARY KEY, thread INTEGER,"
	" start INTEGER, end INTEGER, why TEXT);"
	"CREATE TABLE off_cpu (id INTEGER PRIMARY KEY, thread INTEGER,"
	" start INTEGER, end INTEGER, why TEXT);"
	"CREATE TABLE on_cpu (id INTEGER PRIMARY KEY, thread INTEGER,"
	" cpu INTEGER, start INTEGER, end INTEGER);"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, thread INTEGER,"
	" ts INTEGER, source TEXT, name TEXT, value INTEGER, ip INTEGER);"
	"CREATE TABLE counters (id INTEGER PRIMARY KEY, thread INTEGER,"
	" ts INTEGER, name TEXT, value INTEGER);"
	"CREATE TABLE spans (id INTEGER PRIMARY KEY, thread INTEGER,"
	" name TEXT, start INTEGER, end INTEGER, lost INTEGER);"
	"CREATE TABLE fields (event INTEGER, span INTEGER, name TEXT,"
	" value INTEGER);"
	/* write_calls fills these, too */
	"CREATE INDEX calls_parent ON calls (parent);"
	"CREATE INDEX calls_function ON calls (function, start);"
	"CREATE INDEX calls_thread ON calls (thread, start);";

/* table */
static const char sqlite_views[] =
	"CREATE INDEX functions_name ON functions (name);"
	"CREATE INDEX gaps_start ON gaps (start);"
	"CREATE INDEX counters_name ON counters (name, ts);"
	"CREATE INDEX fields_event ON fields (event);"
	"CREATE INDEX fields_span ON fields (span);"
	/* which calls took longest? */
	"CREATE VIEW slowest_calls AS SELECT c.id, f.name AS function,"
	" c.end - c.start AS ns, c.self_ns, c.insns, c.start, t.name AS thread,"
	" c.guessed, c.lost FROM calls c JOIN functions f ON f.id = c.function"
	" JOIN threads t ON t.id = c.thread"
	" ORDER BY c.end - c.start DESC, c.insns DESC, c.id;"
	/* which functions took most? What runs inside of itself counts once. */
	"CREATE VIEW function_times AS SELECT f.id, f.name AS function, f.dso,"
	" count(*) AS calls, sum(c.self_ns) AS self_ns,"
	" sum(CASE WHEN c.inner THEN 0 ELSE c.end - c.start END) AS total_ns,"
	" sum(c.self_insns) AS self_insns,"
	" sum(CASE WHEN c.inner THEN 0 ELSE c.insns END) AS total_insns,"
	" min(c.end - c.start) AS min_ns, max(c.end - c.start) AS max_ns,"
	" sum(c.off_cpu_ns) AS off_cpu_ns, sum(c.untraced_ns) AS untraced_ns,"
	" sum(c.lost_ns) AS lost_ns, sum(c.blocked_ns) AS blocked_ns,"
	" sum(c.preempted_ns) AS preempted_ns, sum(c.kernel_ns) AS kernel_ns,"
	" sum(c.filtered_ns) AS filtered_ns"
	" FROM calls c JOIN functions f ON f.id = c.function GROUP BY f.id;"
	/* how often did it run, second by second? */
	"CREATE VIEW calls_per_second AS SELECT f.name AS function,"
	" c.start / 1000000000 AS second, count(*) AS calls,"
	" sum(c.self_ns) AS self_ns FROM calls c"
	" JOIN functions f ON f.id = c.function GROUP BY f.name, second;"
	/* who called it, and how often? */
	"CREATE VIEW callers AS SELECT f.name AS function, g.name AS caller,"
	" count(*) AS calls, sum(c.end - c.start) AS ns, sum(c.insns) AS insns"
	" FROM calls c JOIN functions f ON f.id = c.function"
	" LEFT JOIN calls p ON p.id = c.parent"
	" LEFT JOIN functions g ON g.id = p.function GROUP BY f.name, g.name;"
	/* where is something missing? */
	"CREATE VIEW gaps_in_time AS SELECT g.start, g.end, g.end - g.start AS"
	" ns, g.cause, g.text, t.name AS thread FROM gaps g"
	" JOIN threads t ON t.id = g.thread ORDER BY g.start, g.id;"
	/* what did the threads do? */
	"CREATE VIEW thread_times AS SELECT t.id, t.name, t.pid, t.tid,"
	" t.end - t.start AS ns, t.insns, count(c.id) AS calls"
	" FROM threads t LEFT JOIN calls c ON c.thread = t.id GROUP BY t.id;";

enum statement { PUT_GAP, PUT_OFF, PUT_AWAY, PUT_RAN, PUT_EVENT, PUT_COUNTER, PUT_SPAN,
		 PUT_FIELD, PUT_THREAD, PUT_FUNC, PUT_KEY, N_STATEMENTS };

/* table */
static const char *const statements[N_STATEMENTS] = {
	[PUT_GAP] = "INSERT INTO gaps VALUES (NULL,?,?,?,?,?,?)",
	[PUT_OFF] = "INSERT INTO untraced VALUES (NULL,?,?,?,?)",
	[PUT_AWAY] = "INSERT INTO off_cpu VALUES (NULL,?,?,?,?)",
	[PUT_RAN] = "INSERT INTO on_cpu VALUES (NULL,?,?,?,?)",
	[PUT_EVENT] = "INSERT INTO events VALUES (NULL,?,?,?,?,?,?)",
	[PUT_COUNTER] = "INSERT INTO counters VALUES (NULL,?,?,?,?)",
	[PUT_SPAN] = "INSERT INTO spans VALUES (?,?,?,?,?,?)"
		     " ON CONFLICT (id) DO UPDATE SET end = excluded.end,"
		     " lost = excluded.lost",
	[PUT_FIELD] = "INSERT INTO fields VALUES (?,?,?,?)",
	[PUT_THREAD] = "INSERT INTO threads VALUES (?,?,?,?,?,?,?,?,?,?)",
	[PUT_FUNC] = "INSERT INTO functions VALUES (?,?,?,?,?,?)",
	[PUT_KEY] = "INSERT INTO recording VALUES (?,?)",
};

/* export_track.user. cover_ns, away_ns: when the gap or the time without trace,
 * and the time off the CPU, began. */
struct track_state {
	uint64_t first_ns, cover_ns, away_ns;
	bool seen;
};

/* The trees of calls: the table, then its indexes. */
enum { CALLS, BY_PARENT, BY_FUNCTION, BY_THREAD, N_TREES };

struct sqlite {
	struct export *x;
	struct sorter *sorters[N_TREES];
	uint32_t roots[N_TREES];	/* their first pages */
	struct outfile file;
	sqlite3 *db;
	sqlite3_stmt *put[N_STATEMENTS];
	struct export_map inner;	/* (track, function) -> frames of it */
	uint32_t *active;
	uint32_t max_active;
	bool failed;
	struct aux_diag diag;
};

/* Keeps the first error; q->diag is what finish reports. */
static int fail(struct sqlite *q)
{
	char *text = q->x->env.report->error;

	if (!q->failed) {
		snprintf(q->diag.text, sizeof(q->diag.text), "%.400s: %s",
			 q->x->env.out_path, sqlite3_errmsg(q->db));
		snprintf(text, sizeof(q->x->env.report->error), "%s", q->diag.text);
	}
	q->failed = true;
	q->diag.code = AUX_E_IO;
	q->diag.offset = AUX_NO_OFFSET;
	return -AUX_E_IO;
}

/* Statements without parameters. */
static int run(struct sqlite *q, const char *sql)
{
	return sqlite3_exec(q->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
								      : fail(q);
}

/* ---- a row: columns in order ---- */

/* A row in the making: columns are bound in order. */
struct row {
	sqlite3_stmt *st;
	int n;
};

static struct row start_row(struct sqlite *q, enum statement which)
{
	return (struct row){ .st = q->put[which] };
}

static void put_u64(struct row *r, uint64_t v)
{
	sqlite3_bind_int64(r->st, ++r->n, (sqlite3_int64)v);
}

static void put_null(struct row *r)
{
	sqlite3_bind_null(r->st, ++r->n);
}

/* -1 is NULL. */
static void put_id(struct row *r, uint32_t v)
{
	if ((int32_t)v < 0)
		put_null(r);
	else
		put_u64(r, v);
}

static void put_name(struct row *r, const struct export_name *n)
{
	if (n)
		sqlite3_bind_text(r->st, ++r->n, n->text, (int)n->len,
				  SQLITE_STATIC);
	else
		put_null(r);
}

/* Anything; what is no UTF-8 is replaced. */
static void put_text(struct sqlite *q, struct row *r, const char *s)
{
	put_name(r, s ? export_intern(q->x, s) : NULL);
}

/* Bindings stay: each column is bound anew in each row. */
static int end_row(struct sqlite *q, struct row *r)
{
	int rc = sqlite3_step(r->st);

	sqlite3_reset(r->st);
	return rc == SQLITE_DONE ? 0 : fail(q);
}

/* ---- slices ---- */

/* The thread's row is written at the end. */
static int track_sqlite(void *format, struct export_track *t)
{
	(void)format;
	t->user = calloc(1, sizeof(struct track_state));
	return t->user ? 0 : -AUX_E_NOMEM;
}

/* How many frames of the function run on the track. NULL: out of memory. */
static uint32_t *active_of(struct sqlite *q, const struct export_track *t,
			   uint32_t func)
{
	int64_t at = export_map_find(&q->inner, t->id, func, 0);
	uint32_t *v;

	if (at < 0)
		return NULL;
	if (q->inner.max != q->max_active) {
		v = reallocarray(q->active, q->inner.max, sizeof(*v));
		if (!v)
			return NULL;
		memset(v + q->max_active, 0,
		       (q->inner.max - q->max_active) * sizeof(*v));
		q->active = v;
		q->max_active = q->inner.max;
	}
	return &q->active[at];
}

/* frame.user is when it began, as it is shown. */
static int begin_sqlite(void *format, struct export_track *t,
			const struct export_slice *s)
{
	struct sqlite *q = format;
	struct track_state *st = t->user;
	struct call_frame *f;
	uint32_t *active;

	if (!st->seen)
		st->first_ns = s->ns;
	st->seen = true;
	if (s->kind != EXPORT_FRAME) {
		*(s->kind == EXPORT_AWAY ? &st->away_ns : &st->cover_ns) = s->ns;
		return 0;
	}
	f = &s->thread->frames[s->thread->depth - 1];
	active = active_of(q, t, f->func->id);
	if (!active)
		return -AUX_E_NOMEM;
	++*active;
	/* when it began, as it is shown */
	f->user = (void *)(uintptr_t)s->ns;
	return 0;
}

static int end_away(struct sqlite *q, struct export_track *t,
		    const struct export_slice *s)
{
	struct track_state *st = t->user;
	struct row r = start_row(q, PUT_AWAY);

	put_u64(&r, t->id);
	put_u64(&r, st->away_ns);
	put_u64(&r, s->ns);
	put_text(q, &r, s->why);
	return end_row(q, &r);
}

static int ran_sqlite(void *format, struct export_track *t, uint32_t cpu,
		      uint64_t from, uint64_t to)
{
	struct sqlite *q = format;
	struct row r = start_row(q, PUT_RAN);

	put_u64(&r, t->id);
	put_u64(&r, cpu);
	put_u64(&r, from);
	put_u64(&r, to);
	return end_row(q, &r);
}

/* A gap, or time without trace. */
static int end_cover(struct sqlite *q, struct export_track *t,
		     const struct export_slice *s)
{
	struct track_state *st = t->user;
	struct row r = start_row(q, s->kind == EXPORT_GAP ? PUT_GAP : PUT_OFF);

	put_u64(&r, t->id);
	put_u64(&r, st->cover_ns);
	put_u64(&r, s->ns);
	if (s->kind == EXPORT_GAP) {
		put_text(q, &r, gap_name(s->gap->what));
		put_text(q, &r, export_gap_text(q->x, s->gap->what));
		put_u64(&r, s->gap->offset);
	} else {
		put_text(q, &r, s->why);
	}
	return end_row(q, &r);
}

static void put_some(struct pages_record *r, uint64_t v, bool known)
{
	if (known)
		pages_int(r, v);
	else
		pages_null(r);
}

/* In the order of the table's columns; the first is the row's number. away: time off the
 * CPU is known. */
static void put_call(struct pages_record *r, const struct export_track *t,
		     const struct export_slice *s, bool inner, bool away)
{
	const struct call_frame *f = s->frame;

	pages_null(r);
	put_some(r, t->depth ? f[-1].serial : 0, t->depth);
	pages_int(r, t->id);
	pages_int(r, f->func->id);
	pages_int(r, (uintptr_t)f->user);
	pages_int(r, s->ns);
	pages_int(r, call_self_ns(&s->self));
	pages_int(r, s->total.insns);
	pages_int(r, s->self.insns);
	pages_int(r, s->total.branches);
	put_some(r, s->total.cycles, s->total.cycles);
	put_some(r, f->from, f->from);
	pages_int(r, t->depth);
	pages_int(r, inner);
	pages_word(r, export_kind_name(f));
	pages_word(r, export_end_name(s->how));
	pages_int(r, s->guessed || f->flags & CALL_GUESSED);
	pages_int(r, export_is_cut(s->how));
	put_some(r, s->self.off_ns, away);
	pages_int(r, s->self.untraced_ns);
	pages_int(r, s->self.lost_ns);
	put_some(r, s->self.blocked_ns, away);
	put_some(r, s->self.preempted_ns, away);
	pages_int(r, s->self.kernel_ns);
	pages_int(r, s->self.filtered_ns);
}

/* What the indexes need of a row stands before its record. */
struct call_keys {
	uint32_t thread, function;
};

/* As with fail, of what is not SQLite's; of most errors others say enough. */
static int fail_with(struct sqlite *q, int err)
{
	q->failed = true;
	if (err != -AUX_E_UNSUPPORTED)
		return err;
	q->diag.code = AUX_E_UNSUPPORTED;
	q->diag.offset = AUX_NO_OFFSET;
	snprintf(q->diag.text, sizeof(q->diag.text),
		 "%.300s: the installed SQLite makes files of another form than is known "
		 "here: export --to jsonl or perfetto instead", q->x->env.out_path);
	return err;
}

/* The row waits to be sorted: calls end in another order than they begin. */
static int keep_call(struct sqlite *q, const struct export_track *t,
		     const struct export_slice *s, bool inner)
{
	const struct call_frame *f = s->frame;
	uint8_t data[sizeof(struct call_keys) + PAGES_RECORD];
	struct call_keys keys = { t->id, f->func->id };
	struct pages_record r;
	struct sorter_item item = {
		.key = { f->serial, t->depth ? f[-1].serial : 0, (uintptr_t)f->user },
		.data = data };
	int err;

	r.n_types = r.n_data = 0;
	put_call(&r, t, s, inner, q->x->env.host->off_cpu);
	memcpy(data, &keys, sizeof(keys));
	item.len = (uint32_t)(sizeof(keys) + pages_finish(&r, data + sizeof(keys)));
	err = sorter_put(q->sorters[CALLS], &item);
	return err ? fail_with(q, err) : 0;
}

/* inner: another frame of the function is still below, so total_ns must not
 * count this one. */
static int end_sqlite(void *format, struct export_track *t,
		      const struct export_slice *s)
{
	struct sqlite *q = format;
	uint32_t *active;

	if (s->kind == EXPORT_AWAY)
		return end_away(q, t, s);
	if (s->kind != EXPORT_FRAME)
		return end_cover(q, t, s);
	active = active_of(q, t, s->frame->func->id);
	if (!active)
		return -AUX_E_NOMEM;
	return keep_call(q, t, s, --*active > 0);
}

/* Of an event or of a span: the other is 0, and NULL in the row. */
static int put_fields(struct sqlite *q, uint64_t event, uint64_t span,
		      const struct export_field *f, uint32_t n)
{
	int err = 0;

	for (uint32_t i = 0; i < n && !err; i++) {
		struct row r = start_row(q, PUT_FIELD);

		if (event)
			put_u64(&r, event);
		else
			put_null(&r);
		if (span)
			put_u64(&r, span);
		else
			put_null(&r);
		put_text(q, &r, f[i].name);
		put_u64(&r, f[i].value);
		err = end_row(q, &r);
	}
	return err;
}

/* The row's number is needed for its fields. */
static int instant_sqlite(void *format, struct export_track *t,
			  const struct export_instant *i)
{
	struct sqlite *q = format;
	struct row r = start_row(q, PUT_EVENT);
	int err;

	put_u64(&r, t->id);
	put_u64(&r, i->ns);
	put_text(q, &r, i->category);
	put_name(&r, i->name);
	put_u64(&r, i->value);
	if (i->has_ip)
		put_u64(&r, i->ip);
	else
		put_null(&r);
	err = end_row(q, &r);
	return err ? err
		   : put_fields(q, (uint64_t)sqlite3_last_insert_rowid(q->db),
				0, i->fields, i->n_fields);
}

static int counter_sqlite(void *format, struct export_track *t,
			  const struct export_counter *c)
{
	struct sqlite *q = format;
	struct row r = start_row(q, PUT_COUNTER);

	put_u64(&r, t->id);
	put_u64(&r, c->ns);
	put_name(&r, c->name);
	put_u64(&r, (uint64_t)c->value);
	return end_row(q, &r);
}

/* Twice: when it begins, and when it ends (ON CONFLICT). */
static int span_sqlite(void *format, struct export_track *t,
		       const struct export_span *s)
{
	struct sqlite *q = format;
	struct row r = start_row(q, PUT_SPAN);
	int err;

	put_u64(&r, s->serial);
	put_u64(&r, t->id);
	put_name(&r, s->name);
	put_u64(&r, s->ns);
	put_u64(&r, s->ns);
	put_u64(&r, s->lost);
	err = end_row(q, &r);
	return err || !s->begin ? err : put_fields(q, 0, s->serial, s->fields,
						   s->n_fields);
}

/* ---- the end ---- */

/* At the end: names and times are final. */
static int put_thread(struct sqlite *q, const struct export_track *t)
{
	const struct track_state *st = t->user;
	struct row r = start_row(q, PUT_THREAD);
	char name[128];

	export_track_name(t, name, sizeof(name));
	put_u64(&r, t->id);
	put_id(&r, t->pid);
	put_id(&r, t->tid);
	put_u64(&r, t->stack);
	put_u64(&r, t->stream);
	put_name(&r, t->comm);
	put_text(q, &r, name);
	if (st->seen) {
		put_u64(&r, st->first_ns);
		put_u64(&r, t->last_ns);
	} else {
		put_null(&r);
		put_null(&r);
	}
	put_u64(&r, t->top.insns);
	return end_row(q, &r);
}

/* Names as shown and as the file has them. */
static int put_func(struct sqlite *q, struct call_func *f)
{
	struct row r = start_row(q, PUT_FUNC);

	put_u64(&r, f->id);
	put_name(&r, export_func_name(q->x, f));
	put_text(q, &r, f->raw);
	put_text(q, &r, f->dso);
	put_u64(&r, f->start);
	put_u64(&r, f->size);
	return end_row(q, &r);
}

/* text, or where that is NULL the number. */
static int put_key(struct sqlite *q, const char *key, const char *text,
		   uint64_t v)
{
	struct row r = start_row(q, PUT_KEY);

	put_text(q, &r, key);
	if (text)
		put_text(q, &r, text);
	else
		put_u64(&r, v);
	return end_row(q, &r);
}

/* What the whole is about: file, clock, unit, first and last time. */
static int put_recording(struct sqlite *q)
{
	const struct export *x = q->x;
	int err = put_key(q, "schema", NULL, 1);

	if (!err)
		err = put_key(q, "file", x->env.path ? x->env.path : "",
			      0);
	if (!err)
		err = put_key(q, "clock", export_clock(x), 0);
	if (!err)
		err = put_key(q, "unit", x->timed ? "ns" : "instructions", 0);
	if (!err)
		err = put_key(q, "start", NULL, x->first_ns);
	if (!err)
		err = put_key(q, "end", NULL, x->last_ns);
	return err ? err : put_key(q, "insns", NULL, x->env.report->n_insns);
}

static void close_db(struct sqlite *q)
{
	for (unsigned i = 0; i < N_STATEMENTS; i++) {
		sqlite3_finalize(q->put[i]);
		q->put[i] = NULL;
	}
	sqlite3_close(q->db);
	q->db = NULL;
}

/* ---- calls ---- */

static int read_roots(struct sqlite *q)
{
	/* table */
	static const char *const names[N_TREES] = { "calls", "calls_parent",
						    "calls_function", "calls_thread" };
	const char *sql = "SELECT rootpage FROM sqlite_master WHERE name = ?";
	sqlite3_stmt *st;
	int err = 0;

	if (sqlite3_prepare_v2(q->db, sql, -1, &st, NULL) != SQLITE_OK)
		return fail(q);
	for (unsigned i = 0; i < N_TREES && !err; i++) {
		sqlite3_bind_text(st, 1, names[i], -1, SQLITE_STATIC);
		if (sqlite3_step(st) != SQLITE_ROW)
			err = fail(q);
		else
			q->roots[i] = (uint32_t)sqlite3_column_int64(st, 0);
		sqlite3_reset(st);
	}
	sqlite3_finalize(st);
	return err;
}

/* Numbers as SQLite orders them, as those without a sign. */
static uint64_t order_of(uint64_t v)
{
	return v ^ UINT64_C(1) << 63;
}

/* Entries of the row for the indexes, which are sorted in turn. A parent of 0 is NULL. */
static int index_call(struct sqlite *q, const struct sorter_item *row,
		      const struct call_keys *keys)
{
	uint64_t id = row->key[0], start = order_of(row->key[2]);
	int err = sorter_put(q->sorters[BY_PARENT],
			     &(struct sorter_item){ .key = { row->key[1], id } });

	if (!err)
		err = sorter_put(q->sorters[BY_FUNCTION],
				 &(struct sorter_item){ .key = { keys->function, start, id } });
	if (!err)
		err = sorter_put(q->sorters[BY_THREAD],
				 &(struct sorter_item){ .key = { keys->thread, start, id } });
	return err;
}

static int write_table(struct sqlite *q, struct pages *p)
{
	struct sorter_item row;
	struct call_keys keys;
	int err;

	pages_begin(p, q->roots[CALLS], true);
	while ((err = sorter_next(q->sorters[CALLS], &row)) > 0) {
		memcpy(&keys, row.data, sizeof(keys));
		err = pages_put(p, row.key[0], row.data + sizeof(keys),
				row.len - sizeof(keys));
		if (!err)
			err = index_call(q, &row, &keys);
		if (err)
			return err;
	}
	return err ? err : pages_end(p);
}

static int write_index(struct sqlite *q, struct pages *p, unsigned which)
{
	uint8_t record[PAGES_RECORD];
	struct sorter_item e;
	int err;

	pages_begin(p, q->roots[which], false);
	while ((err = sorter_next(q->sorters[which], &e)) > 0) {
		struct pages_record r;

		r.n_types = r.n_data = 0;
		if (which == BY_PARENT) {
			put_some(&r, e.key[0], e.key[0]);
			pages_int(&r, e.key[1]);
		} else {
			pages_int(&r, e.key[0]);
			pages_int(&r, order_of(e.key[1]));
			pages_int(&r, e.key[2]);
		}
		err = pages_put(p, 0, record, pages_finish(&r, record));
		if (err)
			return err;
	}
	return err ? err : pages_end(p);
}

/* The database is closed. What is written is freed: the next needs the memory. */
static int write_calls(struct sqlite *q)
{
	int err;
	struct pages *p = pages_new(q->file.fd, &err);

	for (unsigned i = BY_PARENT; i < N_TREES && !err; i++) {
		q->sorters[i] = sorter_new(INDEX_MEMORY);
		err = q->sorters[i] ? 0 : -AUX_E_NOMEM;
	}
	for (unsigned i = CALLS; i < N_TREES && !err; i++) {
		err = i == CALLS ? write_table(q, p) : write_index(q, p, i);
		sorter_free(q->sorters[i]);
		q->sorters[i] = NULL;
	}
	if (!err)
		err = pages_commit(p);
	pages_free(p);
	return err ? fail_with(q, err) : 0;
}

/* Indexes come last: one sort each, instead of an insertion per row. An empty
 * database replaces nothing. */
static int finish_sqlite(void *format, struct aux_diag *diag)
{
	struct sqlite *q = format;
	int err = q->failed ? -AUX_E_IO : put_recording(q);

	for (struct export_track *t = q->x->tracks; t && !err; t = t->next)
		err = put_thread(q, t);
	for (uint32_t i = 0; i < calls_n_funcs(q->x->calls) && !err; i++)
		err = put_func(q, calls_func(q->x->calls, i));
	if (!err)
		err = run(q, sqlite_views);
	if (!err)
		err = run(q, "COMMIT");
	if (!err && outbuf_failed(q->x->out))	/* without a name, perhaps */
		err = -AUX_E_IO;
	if (!err)
		err = read_roots(q);
	if (!err && q->x->env.report->n_lines) {
		close_db(q);
		err = write_calls(q);
	}
	if (err && diag)
		*diag = q->diag;
	if (err || !q->x->env.report->n_lines)
		return err;
	return outfile_commit(&q->file, diag);
}

/* No journal and no sync: a new file that is written once needs neither. No
 * mutex: one thread writes, and each value that is bound would take it. */
static int open_file(struct sqlite *q)
{
	int err;

	if (sqlite3_open_v2(q->file.temp, &q->db, SQLITE_OPEN_READWRITE |
			    SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		return fail(q);
	err = run(q, "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;"
		     "PRAGMA locking_mode=EXCLUSIVE;PRAGMA temp_store=FILE;"
		     "PRAGMA cache_size=-16384;BEGIN");
	if (!err)
		err = run(q, sqlite_tables);
	for (unsigned i = 0; i < N_STATEMENTS && !err; i++)
		if (sqlite3_prepare_v2(q->db, statements[i], -1, &q->put[i],
				       NULL) != SQLITE_OK)
			err = fail(q);
	return err;
}

/* On failure close_sqlite is called by the sink all the same. */
static int open_sqlite(void **format, struct export *x, struct aux_diag *diag)
{
	struct sqlite *q = calloc(1, sizeof(*q));
	int err;

	*format = q;
	if (!q)
		return -AUX_E_NOMEM;
	q->x = x;
	q->sorters[CALLS] = sorter_new(CALLS_MEMORY);
	if (!q->sorters[CALLS])
		return -AUX_E_NOMEM;
	err = outfile_open(&q->file, x->env.out_path, 0666,
			   OUTFILE_REGULAR | OUTFILE_NAMED, diag);
	if (err)
		return err;
	err = open_file(q);
	if (err)
		*diag = q->diag;
	return err;
}

static void close_sqlite(void *format)
{
	struct sqlite *q = format;

	for (struct export_track *t = q->x->tracks; t; t = t->next)
		free(t->user);
	close_db(q);
	for (unsigned i = 0; i < N_TREES; i++)
		sorter_free(q->sorters[i]);
	outfile_discard(&q->file);
	export_map_fini(&q->inner);
	free(q->active);
	free(q);
}

const struct export_ops export_sqlite = {
	.name = "sqlite",
	.help = "a database, with views that answer questions; needs -o",
	.flags = EXPORT_BINARY | EXPORT_OWN_FILE,
	.open = open_sqlite,
	.track = track_sqlite,
	.begin = begin_sqlite,
	.end = end_sqlite,
	.ran = ran_sqlite,
	.instant = instant_sqlite,
	.counter = counter_sqlite,
	.span = span_sqlite,
	.finish = finish_sqlite,
	.close = close_sqlite,
};
#endif
