/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tables: the SQL that makes tables, indexes and views, in the words that SQLite,
 * PostgreSQL, DuckDB and ClickHouse share; see tables.h. Names of columns are quoted: end
 * and inner are words of SQL. Columns that two tables have are named in views: ClickHouse
 * would call them by the table, too.
 */
#include "decode/export/tables.h"

/*
 * A view is the answer to one question. In their text
 *	@ab	means: and a and b are of one recording
 *	&a	means: and the column of a with the recording, of the view
 *	#a	means: the same, in another list
 * of which SQLite, whose files are of one recording, needs nothing.
 */
/* table */
static const struct { const char *name, *sql; } views[] = {
	/* which calls took longest? */
	{ "slowest_calls",
	  "SELECT c.id AS id, f.name AS function, c.\"end\" - c.start AS ns, c.self_ns,"
	  " c.insns AS insns, c.start AS start, t.name AS thread, c.guessed, c.lost&c FROM calls c"
	  " JOIN functions f ON f.id = c.function@cf JOIN threads t ON t.id = c.thread@ct"
	  " ORDER BY c.\"end\" - c.start DESC, c.insns DESC, c.id" },
	/* which functions took most? What runs inside of itself counts once. */
	{ "function_times",
	  "SELECT f.id AS id, f.name AS function, f.dso, s.calls, s.self_ns, s.total_ns,"
	  " s.self_insns, s.total_insns, s.min_ns, s.max_ns, s.off_cpu_ns, s.untraced_ns,"
	  " s.lost_ns, s.blocked_ns, s.preempted_ns, s.kernel_ns, s.filtered_ns&f"
	  " FROM (SELECT c.function, count(*) AS calls, sum(c.self_ns) AS self_ns,"
	  " sum(CASE WHEN c.\"inner\" = 1 THEN 0 ELSE c.\"end\" - c.start END) AS total_ns,"
	  " sum(c.self_insns) AS self_insns,"
	  " sum(CASE WHEN c.\"inner\" = 1 THEN 0 ELSE c.insns END) AS total_insns,"
	  " min(c.\"end\" - c.start) AS min_ns, max(c.\"end\" - c.start) AS max_ns,"
	  " sum(c.off_cpu_ns) AS off_cpu_ns, sum(c.untraced_ns) AS untraced_ns,"
	  " sum(c.lost_ns) AS lost_ns, sum(c.blocked_ns) AS blocked_ns,"
	  " sum(c.preempted_ns) AS preempted_ns, sum(c.kernel_ns) AS kernel_ns,"
	  " sum(c.filtered_ns) AS filtered_ns&c FROM calls c GROUP BY c.function#c) s"
	  " JOIN functions f ON f.id = s.function@fs" },
	/* how often did it run, second by second? */
	{ "calls_per_second",
	  "SELECT f.name AS function,"
	  " CAST((c.start - c.start % 1000000000) / 1000000000 AS BIGINT) AS second,"
	  " count(*) AS calls, sum(c.self_ns) AS self_ns&f FROM calls c"
	  " JOIN functions f ON f.id = c.function@cf GROUP BY f.name,"
	  " CAST((c.start - c.start % 1000000000) / 1000000000 AS BIGINT)#f" },
	/* who called it, and how often? */
	{ "callers",
	  "SELECT f.name AS function, g.name AS caller, count(*) AS calls,"
	  " sum(c.\"end\" - c.start) AS ns, sum(c.insns) AS insns&f FROM calls c"
	  " JOIN functions f ON f.id = c.function@cf"
	  " LEFT JOIN calls p ON p.id = c.parent@cp"
	  " LEFT JOIN functions g ON g.id = p.function@pg GROUP BY f.name, g.name#f" },
	/* where is something missing? */
	{ "gaps_in_time",
	  "SELECT g.start AS start, g.\"end\" AS \"end\", g.\"end\" - g.start AS ns, g.cause, g.text,"
	  " t.name AS thread&g FROM gaps g JOIN threads t ON t.id = g.thread@gt"
	  " ORDER BY g.start, g.id" },
	/* what did the threads do? */
	{ "thread_times",
	  "SELECT t.id AS id, t.name, t.pid, t.tid, t.\"end\" - t.start AS ns, t.insns,"
	  " coalesce(s.calls, 0) AS calls&t FROM threads t LEFT JOIN (SELECT c.thread,"
	  " count(*) AS calls&c FROM calls c GROUP BY c.thread#c) s"
	  " ON s.thread = t.id@st" },
};

/* Of SQLite's the first N_CALLS_INDEXES are made with the tables: sqlite.c fills them. */
/* table */
static const struct { const char *name, *on; } indexes[] = {
	{ "calls_parent", "calls (parent)" },
	{ "calls_function", "calls (function, start)" },
	{ "calls_thread", "calls (thread, start)" },
	{ "functions_name", "functions (name)" },
	{ "gaps_start", "gaps (start)" },
	{ "counters_name", "counters (name, ts)" },
	{ "fields_event", "fields (event)" },
	{ "fields_span", "fields (span)" },
};
#define N_CALLS_INDEXES 3

static void put_index(struct outbuf *out, enum tables_sql sql, unsigned i)
{
	outbuf_printf(out, "CREATE INDEX %s%s ON %s;\n",
		      sql == SQL_POSTGRES ? "IF NOT EXISTS " : "", indexes[i].name,
		      indexes[i].on);
}

static void put_table(struct outbuf *out, enum tables_sql sql, const struct table *t)
{
	static const char *const types[][2] = {
		[SQL_SQLITE] = { " INTEGER", " TEXT" },
		[SQL_POSTGRES] = { " bigint", " text" },
	};
	const char *separator = " (";

	outbuf_printf(out, "CREATE TABLE %s%s", sql == SQL_POSTGRES ? "IF NOT EXISTS " : "",
		      t->name);
	for (unsigned i = 0; i < t->n_columns; i++) {
		const struct table_column *c = &t->columns[i];

		outbuf_printf(out, "%s\"%s\"%s%s", separator, c->name,
			      types[sql][c->kind == COLUMN_TEXT],
			      sql == SQL_SQLITE ? !i && t->has_id ? " PRIMARY KEY" : ""
			      : c->kind == COLUMN_NUMBER ? " NOT NULL" : "");
		separator = ", ";
	}
	if (sql != SQL_SQLITE && t != &export_tables[TABLE_RECORDINGS])
		outbuf_str(out, ", \"" RECORDING_COLUMN "\" bigint NOT NULL");
	outbuf_str(out, ");\n");
}

static bool has_files(enum tables_sql sql)
{
	return sql == SQL_DUCKDB || sql == SQL_CLICKHOUSE;
}

/* A Parquet file as a table. */
static void put_file(struct outbuf *out, enum tables_sql sql, const char *name)
{
	outbuf_printf(out, "CREATE OR REPLACE VIEW %s AS SELECT * FROM ", name);
	if (sql == SQL_DUCKDB)
		outbuf_printf(out, "read_parquet('%s.parquet');\n", name);
	else
		outbuf_printf(out, "file('%s.parquet', Parquet);\n", name);
}

/* SQLite has the recording as keys and values, in a table of that name. In ClickHouse the
 * columns of a join that found nothing are NULL only when asked for. */
void tables_put_create(struct outbuf *out, enum tables_sql sql)
{
	if (sql == SQL_CLICKHOUSE)
		outbuf_str(out, "SET join_use_nulls = 1;\n");
	if (sql == SQL_SQLITE)
		outbuf_str(out, "CREATE TABLE recording (key TEXT PRIMARY KEY, value);\n");
	for (unsigned i = 0; i < TABLE_N; i++) {
		if (has_files(sql))
			put_file(out, sql, export_tables[i].name);
		else if (sql != SQL_SQLITE || i != TABLE_RECORDINGS)
			put_table(out, sql, &export_tables[i]);
	}
	for (unsigned i = 0; i < N_CALLS_INDEXES && sql == SQL_SQLITE; i++)
		put_index(out, sql, i);
}

void tables_put_indexes(struct outbuf *out, enum tables_sql sql)
{
	for (unsigned i = 0; i < TABLE_N && sql == SQL_POSTGRES; i++) {
		const struct table *t = &export_tables[i];

		if (i == TABLE_RECORDINGS)
			outbuf_printf(out, "CREATE UNIQUE INDEX IF NOT EXISTS %s_id ON %s "
				      "(id);\n", t->name, t->name);
		else if (t->has_id)
			outbuf_printf(out, "CREATE UNIQUE INDEX IF NOT EXISTS %s_id ON %s "
				      "(id, recording);\n", t->name, t->name);
	}
	for (unsigned i = sql == SQL_SQLITE ? N_CALLS_INDEXES : 0;
	     i < sizeof(indexes) / sizeof(indexes[0]) && !has_files(sql); i++)
		put_index(out, sql, i);
}

static void put_view(struct outbuf *out, enum tables_sql sql, const char *p)
{
	for (; *p; p++) {
		bool joins = *p == '@';

		if (!joins && *p != '&' && *p != '#') {
			outbuf_put(out, p, 1);
			continue;
		}
		if (sql != SQL_SQLITE && joins)
			outbuf_printf(out, " AND %c." RECORDING_COLUMN " = %c."
				      RECORDING_COLUMN, p[1], p[2]);
		else if (sql != SQL_SQLITE)
			outbuf_printf(out, ", %c." RECORDING_COLUMN "%s", p[1],
				      *p == '&' ? " AS " RECORDING_COLUMN : "");
		p += 1 + joins;
	}
}

void tables_put_views(struct outbuf *out, enum tables_sql sql)
{
	for (unsigned i = 0; i < sizeof(views) / sizeof(views[0]); i++) {
		outbuf_printf(out, "CREATE %sVIEW %s AS ",
			      sql == SQL_SQLITE ? "" : "OR REPLACE ", views[i].name);
		put_view(out, sql, views[i].sql);
		outbuf_str(out, ";\n");
	}
}
