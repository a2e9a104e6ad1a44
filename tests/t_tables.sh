#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Tables, read back by engines that were not written with their writers: Parquet by
# hyparquet, DuckDB and ClickHouse, COPY text by a PostgreSQL server, and SQLite. All have the same
# rows, and the same answers to the same questions.
. "$(dirname "$0")/lib.sh"
need_soft

out=$SCRATCH/tables
npm=$BUILD/npm
mkdir -p "$out"

export_to() { # FORMAT DATA-OR-OPTION...
	rm -rf "${out:?}/$1"
	timeout 500 "$auxdecode" export --to "$1" -o "$out/$1" "${@:2}" >"$SCRATCH/o" 2>"$SCRATCH/err"
}

# ---- the engines ----

# A server of its own: not for root, who becomes nobody; on a socket alone.
as_user() {
	if [ "$(id -u)" = 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	else
		"$@"
	fi
}
pg_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1)
pg_bin=${pg_bin%/postgres} pg=''
start_postgres() {
	pg=$(mktemp -d /tmp/auxkit-pg-XXXXXX) || return
	chmod 755 "$pg"
	[ "$(id -u)" = 0 ] && chown 65534:65534 "$pg"
	(cd "$pg" && as_user "$pg_bin/initdb" -D "$pg/data" -U postgres -A trust -E UTF8 --locale=C -N &&
		as_user "$pg_bin/pg_ctl" -D "$pg/data" -l "$pg/log" -w -t 120 \
			-o "-c listen_addresses= -c unix_socket_directories=$pg -c fsync=off" start) \
		>"$SCRATCH/pg" 2>&1 </dev/null
}
stop_postgres() {
	[ -n "$pg" ] || return
	(cd "$pg" && as_user "$pg_bin/pg_ctl" -D "$pg/data" -m immediate -w stop) >"$SCRATCH/pg" 2>&1
	rm -rf "$pg"
}
trap 'stop_postgres; [ -n "${KEEP:-}" ] || rm -rf "$SCRATCH"' EXIT
sql() { # DATABASE [OPTION...]
	"$pg_bin/psql" -X -q -h "$pg" -U postgres -d "$1" -v ON_ERROR_STOP=1 "${@:2}"
}

no_postgres=''
if [ -x "$pg_bin/postgres" ]; then
	start_postgres
	that "PostgreSQL starts" "$SCRATCH/pg" sql postgres -o "$SCRATCH/o" -c 'SELECT 1' || no_postgres=1
else
	no_postgres=1
fi

# The packages stay in the build, so that only the first run needs the network.
no_npm=''
if ! have npm || ! have node; then
	no_npm="no npm and node (tools/deps install test)"
elif [ ! -e "$npm/.complete" ]; then
	mkdir -p "$npm"
	if (cd "$npm" && npm install --no-audit --no-fund --prefix . hyparquet@1.33.0 \
		hyparquet-compressors@1.1.2 @duckdb/node-api@1.5.6-r.1) >"$SCRATCH/npm" 2>&1 </dev/null; then
		touch "$npm/.complete"
	else
		no_npm="hardware: npm cannot install the readers: $(grep -m 1 -i error "$SCRATCH/npm" | head -c 100)"
	fi
fi
# ClickHouse is 550 MB, and not on all machines.
no_clickhouse=$no_npm
if [ -z "$no_npm" ] && [ ! -e "$npm/.clickhouse" ]; then
	if (cd "$npm" && npm install --no-audit --no-fund --prefix . chdb@3.4.0 && node -e 'import("chdb")') \
		>"$SCRATCH/npm" 2>&1 </dev/null; then
		touch "$npm/.clickhouse"
	else
		no_clickhouse="hardware: npm cannot install ClickHouse: $(grep -m 1 -i error "$SCRATCH/npm" | head -c 100)"
	fi
fi
[ -n "$no_npm" ] || cp tests/tables_read.mjs "$npm/read.mjs"
read_tables() { # WHAT ARGUMENT...: see tables_read.mjs
	node "$npm/read.mjs" "$@" 2>"$SCRATCH/err"
}

# ---- the writer alone ----

rows=$SCRATCH/rows
mkdir -p "$rows"
that "rows are written" - "$BUILD/tests/test_parquet" "$rows"
if [ -z "$no_npm" ]; then
	for reader in hyparquet rows; do
		read_tables $reader "$rows/rows.parquet" >"$rows/read"
		cmp "$rows/rows.tsv" "$rows/read" >"$SCRATCH/why" 2>&1
		ok $? "writer: $reader: all rows, with extremes, NULLs and odd text" "$SCRATCH/why"
		is "$(read_tables $reader "$rows/empty.parquet" | wc -c)$(cat "$SCRATCH/err")" 0 "writer: $reader: no rows"
	done
	# least and greatest of a column, over all groups, against what is in it
	read_tables statistics "$rows/rows.parquet" >"$rows/statistics"
	is "$(awk -F '\t' '$1 == "id" { n++; if ($5 != last + 1) bad++; last = $6 } END { print n, bad + 0, last }' \
		"$rows/statistics")" "3 0 $(wc -l <"$rows/rows.tsv")" "writer: groups of ids follow each other"
	is "$(awk -F '\t' '$1 == "extreme" { print $5, $6 }' "$rows/statistics" | sort -u)" \
		"-9223372036854775808 9223372036854775807" "writer: least and greatest are those of numbers with a sign"
	is "$(awk -F '\t' '$1 == "some" { n += $4 } END { print n }' "$rows/statistics")" \
		"$(cut -f 11 "$rows/rows.tsv" | grep -c '^\\N$')" "writer: NULLs are counted"
	is "$(head -n 1 "$rows/statistics")" "auxkit.schema	1" "writer: the version of the schema is in the footer"
	is "$(cut -f 3 "$rows/statistics" | grep _ | sort -u | tr '\n' ' ')" \
		"DELTA_BINARY_PACKED RLE_DICTIONARY " "writer: dictionaries and differences are used"
else
	skip "$no_npm" "the writer's rows are read back"
fi
rm -rf "$rows"

# ---- recordings ----

tables="recordings threads functions calls gaps untraced off_cpu on_cpu events counters spans fields branches"

of_sqlite() { # QUERY
	sqlite3 -bail -cmd '.mode list' -cmd '.separator "\t" "\n"' -cmd '.nullvalue NULL' "$out/sqlite" "$1"
}

# The columns of a table, and their order, without the one that tells recordings apart.
columns() {
	if [ "$1" = recordings ]; then
		sed -n 's/^CREATE TABLE IF NOT EXISTS recordings (\(.*\));/\1/p' "$out/postgres/schema.sql"
	else
		sed -n "s/^CREATE TABLE IF NOT EXISTS $1 (\(.*\), \"recording\" bigint.*/\1/p" "$out/postgres/schema.sql"
	fi | sed 's/ bigint\| text\| NOT NULL//g'
}

# Sums of all columns: of numbers their sum and range, of text how many there are. What
# is nothing is 0: engines differ in what the sum of no rows is.
checksum() { # TABLE
	columns "$1" | tr ',' '\n' | while read -r c; do
		case $c in
		'"file"' | '"clock"' | '"unit"' | '"host"' | '"os"' | '"arch"' | '"cpu"' | '"command"' | '"comm"' | '"name"' | \
		'"raw"' | '"dso"' | '"build_id"' | '"cause"' | '"text"' | '"why"' | '"source"' | '"kind"' | '"how"' | *_dso\" | *_build_id\")
			[ "$1.$c" = 'on_cpu."cpu"' ] || { printf ", count(%s), count(DISTINCT %s), coalesce(min(%s), ''), coalesce(max(%s), '')" "$c" "$c" "$c" "$c"; continue; } ;;
		esac
		printf ', count(%s), coalesce(sum(%s %% 1000000007), 0), coalesce(min(%s), 0), coalesce(max(%s), 0)' \
			"$c" "$c" "$c" "$c"
	done
}

{
	sed -n '/^```sql$/,/^```$/p' README.md | grep -v '^```'
	cat <<-'Q'
		SELECT id, name, pid, tid, ns, insns, calls FROM thread_times ORDER BY id;
		SELECT f.name, f.build_id, f.addr, f.size, count(*) FROM calls c JOIN functions f ON f.id = c.function
		  WHERE f.size > 100 GROUP BY f.id, f.name, f.build_id, f.addr, f.size ORDER BY 5 DESC, f.id LIMIT 20;
		SELECT kind, count(*), sum(count) FROM branches GROUP BY kind ORDER BY kind;
		SELECT b.from_dso, b.from_offset, b.to_dso, b.to_offset, b.count FROM branches b ORDER BY b.count DESC, b.id LIMIT 20;
		SELECT why, count(*), sum("end" - start) FROM off_cpu WHERE why IS NOT NULL GROUP BY why ORDER BY why;
		SELECT cpu, count(*), sum("end" - start) FROM on_cpu GROUP BY cpu ORDER BY cpu;
		SELECT e.source, e.name, e.value, e.ip, t.name FROM events e JOIN threads t ON t.id = e.thread ORDER BY e.id;
		SELECT s.name, s."end" - s.start, s.lost, f.name, f.value FROM spans s LEFT JOIN fields f ON f.span = s.id
		  ORDER BY s.id, f.name;
		SELECT name, ts, value FROM counters ORDER BY id;
		SELECT kind, how, guessed, lost, depth, count(*) FROM calls GROUP BY kind, how, guessed, lost, depth
		  ORDER BY kind, how, guessed, lost, depth;
	Q
} >"$SCRATCH/queries"

load_postgres() {
	sql postgres -c 'DROP DATABASE IF EXISTS t' -c 'CREATE DATABASE t' >"$SCRATCH/o" 2>&1 &&
		(cd "$out/postgres" && sql t -f load.sql) >"$SCRATCH/o" 2>&1
}

# same TEXT DATA-OR-OPTION...: the three exports of a recording
same() {
	local f text=$1 t
	for f in sqlite parquet postgres; do
		export_to $f "${@:2}"
		is "$(ls "$out/$f" 2>/dev/null | wc -l)" "$(case $f in sqlite) echo 1 ;; parquet) echo 15 ;; *) echo 16 ;; esac)" \
			"$text: $f is written" || cat "$SCRATCH/err"
	done
	{
		cat "$SCRATCH/queries"
		for t in $tables; do
			[ "$t" = recordings ] || echo "SELECT '$t', count(*)$(checksum "$t") FROM $t;"
		done
	} >"$SCRATCH/asked"
	sqlite3 -bail -cmd '.mode list' -cmd '.separator "\t" "\n"' -cmd '.nullvalue NULL' "$out/sqlite" \
		<"$SCRATCH/asked" >"$out/answers" 2>"$SCRATCH/err"
	ok $? "$text: SQLite answers" "$SCRATCH/err"
	[ "$(wc -l <"$out/answers")" -gt 25 ]
	ok $? "$text: with $(wc -l <"$out/answers") rows"
	if [ -n "$no_postgres" ]; then
		skip "no PostgreSQL (tools/deps install test)" "$text: PostgreSQL"
	else
		load_postgres
		ok $? "$text: PostgreSQL loads it" "$SCRATCH/o"
		sql t -A -t -F $'\t' -P null=NULL -f "$SCRATCH/asked" >"$out/got" 2>&1
		diff "$out/answers" "$out/got" >"$SCRATCH/why"
		ok $? "$text: PostgreSQL has the same rows and answers" "$SCRATCH/why"
	fi
	if [ -n "$no_npm" ]; then
		skip "$no_npm" "$text: Parquet"
		return
	fi
	read_tables duckdb "$out/parquet" "$SCRATCH/asked" >"$out/got"
	[ ! -s "$SCRATCH/err" ] && diff "$out/answers" "$out/got" >"$SCRATCH/why"
	ok $? "$text: DuckDB has the same rows and answers" "$SCRATCH/why"
	if [ -n "$no_clickhouse" ]; then
		skip "$no_clickhouse" "$text: ClickHouse"
	else
		read_tables clickhouse "$out/parquet" "$SCRATCH/asked" >"$out/got"
		[ ! -s "$SCRATCH/err" ] && diff "$out/answers" "$out/got" >"$SCRATCH/why"
		ok $? "$text: ClickHouse has the same rows and answers" "$SCRATCH/why"
	fi
	# shellcheck disable=SC2046,SC2086
	(cd "$out/postgres" && cat $(printf '%s.copy ' $tables)) >"$out/answers"
	# shellcheck disable=SC2046
	read_tables hyparquet $(printf "$out/parquet/%s.parquet " $tables) >"$out/got"
	cmp "$out/answers" "$out/got" >"$SCRATCH/why" 2>&1 && [ ! -s "$SCRATCH/err" ]
	ok $? "$text: hyparquet reads what COPY has, byte for byte" "$SCRATCH/why"
}

record() { # NAME STATUS EVENT PROGRAM [OPTION...]
	timeout 500 "$auxcap" -e "$3" -o "$SCRATCH/$1.data" "${@:5}" -- "$4" \
		>"$SCRATCH/o" 2>"$SCRATCH/log" </dev/null
	is $? "$2" "$1 is recorded: $3" || cat "$SCRATCH/log"
}

record threads 0 soft_pt/tsc,mtc,cyc,psb_period=0/u "$programs/threads" && same threads "$SCRATCH/threads.data"
is "$(of_sqlite "SELECT count(*), sum(count) FROM branches")" \
	"$("$auxdecode" profile "$SCRATCH/threads.data" 2>/dev/null | awk '$1 == "branch" { n++; sum += $NF } END { print n "\t" sum }')" \
	"branches: as many as profile has"
record overflow 3 soft_pt/cyc,psb_period=0/u "$programs/feature" --inject-overflow 2 &&
	same gaps "$SCRATCH/overflow.data"
[ "$(of_sqlite "SELECT count(*) FROM gaps WHERE cause = 'overflow'")" -gt 0 ]
ok $? "gaps: there are some"

# Names that are no text, or that COPY and SQL have marks for.
cp "$programs/export_names" "$SCRATCH/names"
objcopy --redefine-sym rename_me=$'we"ird\\\t\'\001\377\303(\342\202\254<&>\r$' "$SCRATCH/names"
record names 0 soft_pt//u "$SCRATCH/names" && same names "$SCRATCH/names.data"
is "$(of_sqlite "SELECT count(*) FROM functions WHERE name LIKE 'we\"ird\\%' AND name LIKE '%<&>%'")" 1 \
	"names: the odd one is there"

# Payloads: extreme values, a counter, spans with fields, one that never ends.
"$(command -v python3)" tests/export_make.py "$programs/export_ptw" "$SCRATCH/ptw.pt" 0x1234507 0x020000000000fffe \
	0x8000000000000000 0x7fffffffffffffff 0xffffffffffffffff 0x0200000000000005
ok $? "a trace with PTWRITEs is made"
cat >"$SCRATCH/schema" <<'S'
ptwrite work+0x1  span-begin request  id:8-31 kind:0-7
ptwrite *         counter    depth    value:0-15:signed tag:56-63=2
S
same payloads --pt "$SCRATCH/ptw.pt" --image "$programs/export_ptw" --schema "$SCRATCH/schema"
is "$(of_sqlite 'SELECT value FROM events ORDER BY id' | tr '\n' ' ')" \
	"-9223372036854775808 9223372036854775807 -1 " "payloads: extreme values are as they were"
is "$(of_sqlite 'SELECT s.name, s.lost, f.name, f.value FROM spans s JOIN fields f ON f.span = s.id ORDER BY f.name' | tr '\t\n' '  ')" \
	"request 1 id 74565 request 1 kind 7 " "payloads: spans and their fields"

# Two recordings in one place.
export_to postgres "$SCRATCH/threads.data"
if [ -z "$no_postgres" ]; then
	n=$(sql t -A -t -c 'SELECT count(*) FROM calls')
	(cd "$out/postgres" && sql t -f load.sql) >"$SCRATCH/o" 2>&1
	ok $? "two recordings: PostgreSQL loads the second one" "$SCRATCH/o"
	is "$(sql t -A -t -c 'SELECT count(*) FROM slowest_calls' -c 'SELECT count(*) FROM recordings' \
		-c 'SELECT sum(calls) FROM callers' | tr '\n' ' ')" \
		"$((n + $(wc -l <"$out/postgres/calls.copy"))) 2 $((n + $(wc -l <"$out/postgres/calls.copy"))) " \
		"two recordings: views keep them apart"
	(cd "$out/postgres" && sql t -f load.sql) >"$SCRATCH/o" 2>&1
	ok $((! $?)) "two recordings: none is loaded twice"
fi

# ---- the directory ----

for f in parquet postgres; do
	export_to $f "$SCRATCH/threads.data" -j 1
	rm -rf "$out/first"
	mv "$out/$f" "$out/first"
	export_to $f "$SCRATCH/threads.data" -j 3 --chunk-size 4096
	diff -r "$out/$f" "$out/first" >"$SCRATCH/why" 2>&1
	ok $? "$f: equal to the byte, however many threads decode" "$SCRATCH/why"
	"$auxdecode" export --to $f "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
	is $? 2 "$f wants a directory"
	that "$f: says so" "$SCRATCH/err" grep -q 'their directory with -o DIR' "$SCRATCH/err"
	export_to $f "$SCRATCH/threads.data" --tid 1
	is "$? $(ls -d "$out/$f" 2>/dev/null)" "1 " "$f: nothing is written of nothing"
	export_to $f "$SCRATCH/threads.data"
	cp -r "$out/$f" "$out/before"
	"$auxdecode" export --to $f -o "$out/$f" --tid 1 "$SCRATCH/threads.data" >"$SCRATCH/o" 2>&1
	diff -r "$out/$f" "$out/before" >"$SCRATCH/why" 2>&1
	ok $? "$f: and nothing is replaced by it" "$SCRATCH/why"
	rm -rf "$out/before"
	"$auxdecode" export --to $f -o "$SCRATCH/schema" "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
	is $? 1 "$f: a file is no directory"
done
finish
