#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Exports, each read back by a parser that was not written with its writer: Python's
# json, protobuf from the published field numbers, an FXT reader from the
# specification, callgrind_annotate, sqlite3. All tell of the same events, and of as
# many instructions as count does.
. "$(dirname "$0")/lib.sh"
need_soft

python=/usr/bin/python3
out=$SCRATCH/export
mkdir -p "$out"
protoc -I tests --python_out="$out" export_perfetto.proto export_pprof.proto
ok $? "protoc compiles the published field numbers"

export_to() { # FORMAT DATA [OPTION...]
	rm -f "$out/$1"
	timeout 500 "$auxdecode" export --to "$1" -o "$out/$1" "${@:3}" "$2" >"$SCRATCH/o" 2>"$SCRATCH/err"
}

read_back() { # FORMAT [OPTION...]
	"$python" tests/export_read.py "${@:2}" "$1" "$out/$1" "$out"
}

insns_of() { # OPTION... DATA
	"$auxdecode" count "$@" 2>/dev/null | sed -n 's/^total insns \([0-9]*\) .*/\1/p'
}

# firefox TEXT DATA [OPTION...]: against count, flame and speedscope
firefox() {
	local text=$1 data=$2 by
	shift 2
	for by in insns time; do
		[ "$text $by" = "no times time" ] && by=insns
		export_to firefox "$data" --by $by "$@"
		"$auxdecode" flame --by $by "$@" "$data" >"$out/folded" 2>"$SCRATCH/err"
		read_back firefox --flame="$out/folded" --speedscope="$out/speedscope" >"$out/firefox.$by" 2>&1
		ok $? "$text: firefox by $by: whole, each stack is flame's, times are speedscope's" "$out/firefox.$by"
	done
	is "$(awk '/^weight/ { n += $4 } END { print n }' "$out/firefox.insns")" "$(insns_of "$@" "$data")" \
		"$text: instructions of firefox are those of count"
	is "$(sed -n 's/^extra Gaps: \([a-z]\)/\1/p' "$out/firefox.insns" | sort)" \
		"$(grep -o '"type":"gap".*"cause":"[^"]*"' "$out/jsonl" | sed 's/.*"cause":"\(.*\)"/\1/' |
			sort | uniq -c | awk '{ print $2 ": " $1 }')" "$text: firefox counts the gaps of jsonl"
	is "$(sed -n 's/^begin.* gap \([0-9]*\) .*/\1/p' "$out/firefox.insns")" \
		"$(grep -c '"type":"gap"' "$out/jsonl")" "$text: and each is a marker"
}

# all STATUS TEXT DATA [OPTION...]: every format, against each other and count
all() {
	local status=$1 text=$2 data=$3 f total
	shift 3
	total=$(insns_of "$@" "$data")
	for f in jsonl chrome perfetto fxt; do
		export_to $f "$data" "$@"
		is $? "$status" "$text: --to $f $*"
		read_back $f --events >"$out/$f.txt" 2>&1
		ok $? "$text: $f is read back: balanced, in order, names known" "$out/$f.txt"
		grep -v '^begin\|^total' "$out/$f.txt" >"$out/$f.events"
		is "$(sed -n 's/^total \([0-9]*\) .*/\1/p' "$out/$f.txt")" "$total" \
			"$text: instructions of $f are those of count"
		is "$(sed -n 's/^total .* self \([0-9]*\)$/\1/p' "$out/$f.txt")" "$total" \
			"$text: so is the sum of what each call took itself"
		[ $f = jsonl ] && continue
		cmp "$out/jsonl.events" "$out/$f.events" >"$out/why" 2>&1
		ok $? "$text: $f and jsonl tell of the same events" "$out/why"
	done
	export_to speedscope "$data" "$@"
	read_back speedscope --events >"$out/speedscope.txt" 2>&1
	ok $? "$text: speedscope is read back" "$out/speedscope.txt"
	grep ' [BE] ' "$out/jsonl.events" | sed 's/^[0-9]* //' | sort >"$out/a"
	grep ' [BE] ' "$out/speedscope.txt" | sed 's/^[0-9]* //' | sort | cmp - "$out/a" >"$out/why" 2>&1
	ok $? "$text: speedscope has the same slices" "$out/why"
	firefox "$text" "$data" "$@"
	export_to pprof "$data" "$@"
	is "$(read_back pprof 2>&1 | sed -n 's/^instructions count //p')" "$total" \
		"$text: instructions of pprof are those of count"
	export_to callgrind "$data" "$@"
	callgrind_annotate "$out/callgrind" >"$out/annotated" 2>&1
	is "$(sed -n 's/^ *\([0-9,]*\) .*PROGRAM TOTALS$/\1/p' "$out/annotated" | tr -d ,)" "$total" \
		"$text: callgrind_annotate's total is that of count"
	export_to sqlite "$data" "$@"
	is "$(sqlite3 "$out/sqlite" 'PRAGMA integrity_check; SELECT sum(self_insns) FROM calls;
		SELECT sum(insns) FROM threads' 2>&1 | tr '\n' ' ')" "ok $total $total " \
		"$text: sqlite's rows add up to count"
}

record() { # NAME STATUS EVENT PROGRAM [OPTION...]
	timeout 500 "$auxcap" -e "$3" -o "$SCRATCH/$1.data" "${@:5}" -- "$programs/$4" \
		>"$SCRATCH/o" 2>"$SCRATCH/log" </dev/null
	is $? "$2" "$1 is recorded: $3" || cat "$SCRATCH/log"
}

record threads 0 soft_pt/tsc,mtc,cyc,psb_period=0/u threads && all 0 threads "$SCRATCH/threads.data"
record processes 0 soft_pt//u forkexec && all 0 processes "$SCRATCH/processes.data"
record throw 0 soft_pt//u throw && all 0 "C++ exceptions" "$SCRATCH/throw.data"
record overflow 3 soft_pt/cyc,psb_period=0/u feature --inject-overflow 2 &&
	all 3 gaps "$SCRATCH/overflow.data"
grep -q '"type":"gap".*"cause":"overflow"' "$out/jsonl"
ok $? "gaps: jsonl shows them"
is "$(sqlite3 "$out/sqlite" "SELECT count(*) FROM gaps_in_time WHERE cause = 'overflow'")" \
	"$(grep -c '"type":"gap".*"cause":"overflow"' "$out/jsonl")" "gaps: sqlite has as many"
[ "$(grep -c '"end":"lost"' "$out/jsonl")" -gt 0 ]
ok $? "gaps: calls that they end are lost"
record timeless 0 soft_pt/tsc=0,mtc=0/u hello_static --per-thread &&
	all 0 "no times" "$SCRATCH/timeless.data"
is "$(head -n 1 "$out/jsonl" | "$python" -c 'import json; print(json.loads(input())["unit"])')" \
	instructions "no times: instructions stand for them, and jsonl says so"

# Filters, and threads of the decoder.
tid=$("$auxdecode" count "$SCRATCH/threads.data" | sed -n 's/^thread \([0-9]*\) .*/\1/p' | tail -n 1)
all 0 "one thread" "$SCRATCH/threads.data" --tid "$tid"
for f in perfetto firefox pprof callgrind sqlite; do
	export_to $f "$SCRATCH/threads.data" -j 1
	cp "$out/$f" "$out/first"
	export_to $f "$SCRATCH/threads.data" -j 3 --chunk-size 4096
	cmp "$out/$f" "$out/first" >"$out/why" 2>&1
	ok $? "$f: equal to the byte, however many threads decode" "$out/why"
done
export_to sqlite "$SCRATCH/threads.data"
export_to firefox "$SCRATCH/threads.data" --symbol worker
read_back firefox >"$out/why" 2>&1
is "$(awk '/^call/ && $6 == "worker" { n++; ns += $3; i += $4; own += $5 } END { print n, ns, i, own }' "$out/why")" \
	"$(sqlite3 -separator ' ' "$out/sqlite" "SELECT count(*), sum(end - start), sum(insns), sum(self_ns)
		FROM calls JOIN functions f ON f.id = function WHERE f.name = 'worker'")" \
	"firefox: with --symbol each of its calls is a marker, as sqlite has them"
# of calls that wait, where self and what is on top differ
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$SCRATCH/waits.data" -- "$programs/waits" >/dev/null 2>"$SCRATCH/err"
ok $? "a recording of threads that wait" "$SCRATCH/err"
export_to sqlite "$SCRATCH/waits.data"
export_to firefox "$SCRATCH/waits.data" --symbol '/./'
python3 - "$out/firefox" "$out/sqlite" >"$out/why" <<'END'
import collections, decimal, json, sqlite3, sys
doc = json.load(open(sys.argv[1]), parse_float=decimal.Decimal)
strings, got = doc["shared"]["stringArray"], collections.Counter()
for t in doc["threads"]:
    m = t["markers"]
    for name, start, end, d in zip(m["name"], m["startTime"], m["endTime"], m["data"]):
        if d["type"] == "Call":
            ns = int((decimal.Decimal(end) - decimal.Decimal(start)) * 1000000) if end is not None else 0
            got[strings[name], int(t["tid"]), ns, d["insns"], d["self"], d["offCpu"], d["totalOffCpu"]] += 1
rows, total = {}, {}
for i, up, name, tid, ns, insns, own, off in sqlite3.connect(sys.argv[2]).execute(
        'SELECT c.id, parent, f.name, tid, c."end" - c.start, c.insns, self_ns, off_cpu_ns FROM calls c'
        ' JOIN functions f ON f.id = function JOIN threads t ON t.id = thread'):
    rows[i], total[i] = (name, tid, ns, insns, own, off, up), 0
for i in rows:
    up, off = i, rows[i][5]
    while up:
        total[up] += off
        up = rows[up][6]
want = collections.Counter((*r[:6], total[i]) for i, r in rows.items())
print(len(got), list((want - got).items())[:3], list((got - want).items())[:3])
waits = [k for k in got if k[2] - k[4] > 900000]
sys.exit(want != got or len(waits) < 5)
END
ok $? "firefox: each call's self time, and off CPU with and without callees, as sqlite has them" "$out/why"
for n in 1 2 5 10 11 40 100; do
	export_to jsonl "$SCRATCH/threads.data" -n "$n"
	echo "$n $(grep -c '"type":"call"\|"type":"event"' "$out/jsonl")"
done | awk '$1 != $2' >"$out/why"
[ ! -s "$out/why" ]
ok $? "-n ends after so many" "$out/why"
read_back jsonl >"$out/why" 2>&1
ok $? "and what is open then ends" "$out/why"

# W51: names too long for a record, and names that are no text.
cp "$programs/export_names" "$SCRATCH/names"
weird=$'we"ird\\\t\001\377\303(\342\202\254<&>'
objcopy --redefine-sym rename_me="$weird" "$SCRATCH/names"
timeout 500 "$auxcap" -e soft_pt//u -o "$SCRATCH/names.data" -- "$SCRATCH/names" >"$SCRATCH/o" 2>&1 </dev/null
all_names() {
	for f in jsonl chrome perfetto speedscope fxt; do
		export_to $f "$SCRATCH/names.data" && read_back $f --events >"$out/$f.txt" 2>&1
		ok $? "names: $f is whole" "$out/$f.txt"
		"$python" - "$f" "$out/$f.txt" <<-'PY'
			import sys
			text = open(sys.argv[2], encoding="utf-8", newline="\n").read()
			weird = 'we"ird\\\t\x01\ufffd\ufffd(\u20ac<&>'
			long = "long_" + "Abcd" * 10000
			lines = text.split("\n")
			if sys.argv[1] == "fxt":
			    long = long[:31997] + "..."
			sys.exit(not (sum(l.endswith(" B " + weird) for l in lines) == 2 and
			              sum(l.endswith(" B " + long) for l in lines) == 2))
		PY
		ok $? "names: $f has both, twice"
	done
}
all_names
export_to firefox "$SCRATCH/names.data" && read_back firefox >"$out/why" 2>&1
ok $? "names: firefox is whole" "$out/why"
"$python" -c 'import json, sys
names = json.load(open(sys.argv[1], encoding="utf-8"))["shared"]["stringArray"]
sys.exit("we\"ird\\\t\x01\ufffd\ufffd(\u20ac<&>" not in names or "long_" + "Abcd" * 10000 not in names)' "$out/firefox"
ok $? "names: firefox has both"
export_to pprof "$SCRATCH/names.data" && read_back pprof >"$out/why" 2>&1
ok $? "names: pprof is whole" "$out/why"
export_to callgrind "$SCRATCH/names.data" && callgrind_annotate "$out/callgrind" >"$out/annotated" 2>&1
ok $? "names: callgrind_annotate reads it" "$out/annotated"
export_to sqlite "$SCRATCH/names.data"
is "$(sqlite3 "$out/sqlite" "SELECT max(length(name)) FROM functions")" 40005 "names: sqlite has the long one"

# callgrind: who called whom how often, by what the program does.
callgrind_annotate --tree=caller --inclusive=yes --threshold=100 "$out/callgrind" >"$out/annotated" 2>&1
grep -q '(2x)' "$out/annotated"
ok $? "callgrind_annotate shows calls with their number" "$out/annotated"

# Payloads, and what a schema makes of them.
ptw=$programs/export_ptw
"$python" tests/export_make.py "$ptw" "$SCRATCH/ptw.pt" 0x1234507 0x020000000000fffe \
	0x0200000000000005 0x030000000000ff11 0x0100000001234500 0x77
ok $? "a trace with PTWRITEs is made"
cat >"$SCRATCH/schema" <<'S'
# what export_ptw tells
ptwrite work+0x1  span-begin request  id:8-31 kind:0-7
ptwrite *         span-end   request  tag:56-63=1 id:8-31
ptwrite *         counter    depth    value:0-15:signed tag:56-63=2
ptwrite *         event      note     a:0-7 b:8-15:signed tag:56-63=3
S
for f in jsonl chrome perfetto fxt firefox; do
	timeout 500 "$auxdecode" export --to $f -o "$out/$f" --pt "$SCRATCH/ptw.pt" --image "$ptw" \
		--schema "$SCRATCH/schema" >"$SCRATCH/o" 2>&1
	read_back $f --events --counters >"$out/$f.txt" 2>&1
	is "$(grep '^counter depth\|^span\| I ' "$out/$f.txt" | tr '\n' ';')" \
		"counter depth 2 -2 5;span 3 b request;0 8 I note;span 9 e request;0 10 I ptwrite;" \
		"payloads: $f has the counter, the span, the events"
done
timeout 500 "$auxdecode" export --to sqlite -o "$out/sqlite" --pt "$SCRATCH/ptw.pt" --image "$ptw" \
	--schema "$SCRATCH/schema" >"$SCRATCH/o" 2>&1
is "$(sqlite3 "$out/sqlite" "SELECT name, start, end, lost FROM spans; SELECT name, value FROM counters;
	SELECT name, value FROM fields WHERE span = 1" | tr '\n' ' ')" \
	"request|3|9|0 depth|-2 depth|5 id|74565 kind|7 " "payloads: sqlite has them"
printf 'ptwrite * counter a value:0-64\n' >"$SCRATCH/bad"
"$auxdecode" export --to jsonl --pt "$SCRATCH/ptw.pt" --image "$ptw" --schema "$SCRATCH/bad" >"$SCRATCH/o" 2>"$SCRATCH/err"
is $? 2 "a schema that is wrong is a mistake of the command line"
grep -q 'bad, line 1: field value: bits are LOW-HIGH, from 0 to 63' "$SCRATCH/err"
ok $? "and the message names the line" "$SCRATCH/err"
if [ -d "$corpus/opencsd/snapshots/stm-issue-27" ]; then
	printf 'stm */0x480 counter word\n' >"$SCRATCH/stm"
	"$auxdecode" export --to jsonl --schema "$SCRATCH/stm" "$corpus/opencsd/snapshots/stm-issue-27" \
		>"$out/jsonl" 2>"$SCRATCH/err"
	read_back jsonl --counters >"$out/why" 2>&1 && grep -q '^counter word' "$out/why"
	ok $? "STM by a schema" "$out/why"
else
	skip "corpus: the recorded traces are not here"
fi

# Tenet: the addresses of insn, thread by thread, in files that are there whole or not
# at all.
tenet() { # TEXT DATA [OPTION...]
	rm -rf "$out/tenet"
	"$auxdecode" export --to tenet -o "$out/tenet" "${@:3}" "$2" >"$SCRATCH/o" 2>"$SCRATCH/err"
	"$auxdecode" insn -F tid,ip "${@:3}" "$2" 2>/dev/null | awk -v d="$out" \
		'!/^#/ { print "rip=0x" $2 >(d "/want." $1) }'
	for f in "$out"/want.*; do
		cmp "$f" "$out/tenet/trace.${f##*/want.}.log" >"$out/why" 2>&1
		ok $? "tenet: $1: thread ${f##*/want.} has the addresses of insn" "$out/why"
	done
	is "$(ls "$out/tenet" | wc -l)" "$(ls "$out"/want.* | wc -l)" "tenet: $1: a file for each thread"
	rm -f "$out"/want.*
}
tenet threads "$SCRATCH/threads.data"
tenet processes "$SCRATCH/processes.data"
tenet gaps "$SCRATCH/overflow.data"
tenet "one thread" "$SCRATCH/threads.data" --tid "$tid"
"$auxdecode" export --to tenet --tid "$tid" "$SCRATCH/threads.data" 2>"$SCRATCH/err" |
	cmp - "$out/tenet/trace.$tid.log" >"$out/why" 2>&1
ok $? "tenet: one thread goes to standard output, too" "$out/why"
is "$("$auxdecode" export --to tenet --tid "$tid" -n 7 "$SCRATCH/threads.data" 2>/dev/null)" \
	"$(head -n 7 "$out/tenet/trace.$tid.log")" "tenet: -n ends after so many"
"$auxdecode" export --to tenet "$SCRATCH/threads.data" >/dev/null 2>"$SCRATCH/err"
is $? 2 "tenet: several threads do not go to standard output"
grep -q 'more than one ran: -o DIR, or one of them with --tid' "$SCRATCH/err"
ok $? "tenet: and it is said what to do" "$SCRATCH/err"
echo good >"$out/tenet/trace.$tid.log"
(ulimit -f 0; "$auxdecode" export --to tenet -o "$out/tenet" "$SCRATCH/threads.data" 2>&1; echo "status $?") |
	cat >"$SCRATCH/err"
is "$(tail -n 1 "$SCRATCH/err") $(cat "$out/tenet"/*)" "status 1 good" "tenet: a full disk leaves what was there"

# What cannot be.
"$auxdecode" export "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
is $? 2 "no --to is a mistake"
grep -q 'perfetto, chrome, fxt, firefox, speedscope, pprof, callgrind, sqlite, parquet, postgres, jsonl, tenet' "$SCRATCH/err"
ok $? "which names the formats" "$SCRATCH/err"
"$auxdecode" export --to sqlite "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
is $? 2 "sqlite wants a file"
"$auxdecode" export --to jsonl --tid 1 "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
is $? 1 "an export of nothing is an error"
is "$(cat "$SCRATCH/err")" "auxdecode: error: $SCRATCH/threads.data: nothing to show: nothing ran with --tid 1; \
\`auxdecode info $SCRATCH/threads.data\` shows when and where something did" \
	"which says the reason first, then what to do"
"$auxdecode" export --to jsonl --tid 1 -v "$SCRATCH/threads.data" >"$SCRATCH/o" 2>"$SCRATCH/err"
that "-v: what each stage had" "$SCRATCH/err" grep -q 'what each stage had' "$SCRATCH/err"
script -qec "$auxdecode export --to fxt $SCRATCH/threads.data" /dev/null >"$SCRATCH/o" 2>&1 </dev/null
grep -q 'does not go onto a terminal: give -o FILE' "$SCRATCH/o"
ok $? "binary does not go onto a terminal" "$SCRATCH/o"
"$auxdecode" export --to chrome "$SCRATCH/threads.data" >/dev/full 2>"$SCRATCH/err"
is $? 1 "a full disk is an error"

# The queries of README.md answer.
export_to sqlite "$SCRATCH/threads.data"
sed -n '/^```sql$/,/^```$/p' README.md | grep -v '^```' >"$SCRATCH/queries"
[ -s "$SCRATCH/queries" ] && sqlite3 -bail "$out/sqlite" <"$SCRATCH/queries" >"$SCRATCH/answers" 2>&1
ok $? "sqlite3 answers the queries of README.md" "$SCRATCH/answers"
[ "$(grep -c . "$SCRATCH/answers")" -gt 10 ]
ok $? "and the answers are not empty" "$SCRATCH/answers"
finish
