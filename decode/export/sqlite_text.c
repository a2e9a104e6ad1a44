/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables and views of export_sqlite. Times are nanoseconds of the recording's
 * clock; NULL: not known. A view is the answer to one question. */
#ifdef HAVE_SQLITE
#include "decode/export/sqlite.h"

/* table */
const char export_sqlite_tables[] =
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
	" inner INTEGER, kind TEXT, how TEXT, guessed INTEGER, lost INTEGER);"
	"CREATE TABLE gaps (id INTEGER PRIMARY KEY, thread INTEGER,"
	" start INTEGER, end INTEGER, cause TEXT, text TEXT,"
	" stream_offset INTEGER);"
	"CREATE TABLE untraced (id INTEGER PRIMARY KEY, thread INTEGER,"
	" start INTEGER, end INTEGER);"
	"CREATE TABLE events (id INTEGER PRIMARY KEY, thread INTEGER,"
	" ts INTEGER, source TEXT, name TEXT, value INTEGER, ip INTEGER);"
	"CREATE TABLE counters (id INTEGER PRIMARY KEY, thread INTEGER,"
	" ts INTEGER, name TEXT, value INTEGER);"
	"CREATE TABLE spans (id INTEGER PRIMARY KEY, thread INTEGER,"
	" name TEXT, start INTEGER, end INTEGER, lost INTEGER);"
	"CREATE TABLE fields (event INTEGER, span INTEGER, name TEXT,"
	" value INTEGER);";

/* table */
const char export_sqlite_views[] =
	"CREATE INDEX calls_parent ON calls (parent);"
	"CREATE INDEX calls_function ON calls (function, start);"
	"CREATE INDEX calls_thread ON calls (thread, start);"
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
	" min(c.end - c.start) AS min_ns, max(c.end - c.start) AS max_ns"
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
#endif
