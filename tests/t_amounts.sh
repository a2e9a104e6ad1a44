#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Times and cycles of functions: refused where the trace has none, never shown as zeros.
. "$(dirname "$0")/lib.sh"
need_soft

here=$SCRATCH/amounts
python=/usr/bin/python3	# Debian's, which has protobuf
mkdir -p "$here"

# ---- a trace that has neither ----
data=$here/bare
"$auxcap" -q --per-thread -e soft_pt/tsc=0,mtc=0,cyc=0/u -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording without times" "$here/err"
refused() { # PATTERN COMMAND...
	local pattern=$1
	shift
	"$auxdecode" "$@" "$data" >"$here/out" 2>"$here/err"
	is $? 1 "$*: status 1"
	that "$*: says what to record" "$here/err" grep -q -e "$pattern" "$here/err"
	is "$(grep -vc '^#' "$here/out")" 0 "$*: and shows nothing"
}
for what in hot flame "find main" "latency main"; do
	# shellcheck disable=SC2086
	refused 'no cycles: record them with cyc (Intel PT) or cycacc (CoreSight)' $what --by cycles
done
for what in "hot --by time" "flame --by time" "latency main" "find main --longer 1us"; do
	# shellcheck disable=SC2086
	refused 'no times: record them with tsc (Intel PT) or timestamp (CoreSight)' $what
done
"$auxdecode" find -n 1 "$data" >"$here/out" 2>"$here/err"
is $? 0 "find without a time: status 0"
is "$(awk '!/^#/ { print $1, $2 }' "$here/out")" "- -" "find without a time: none is made up"
for what in hot "hot --by branches" flame "find main --by insns" "latency --by insns worker"; do
	# shellcheck disable=SC2086
	"$auxdecode" $what "$data" >"$here/out" 2>"$here/err"
	is $? 0 "$what: needs none" || cat "$here/err"
done

# ---- a trace that has both ----
data=$here/full
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording with times and cycles" "$here/err"
for what in "hot --by time" "hot --by cycles" "find worker --by cycles" "latency worker" "latency --by cycles worker"; do
	# shellcheck disable=SC2086
	"$auxdecode" $what "$data" >"$here/out" 2>"$here/err"
	is $? 0 "$what: status 0" || cat "$here/err"
	that "$what: shows something" "$here/out" grep -qv '^#' "$here/out"
done

# ---- durations that the trace cannot tell ----
data=$here/coarse
"$auxcap" -q -e soft_pt//u -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording with times 320 ns apart" "$here/err"
"$auxdecode" find -F dur '/./' "$data" 2>/dev/null | sed '/^#/d' >"$here/exact"
"$auxdecode" find '/./' "$data" 2>/dev/null | sed '/^#/d; s/^ *[^ ]* *//' | awk '{ print $1 ($2 == "ns" ? "" : "+") }' >"$here/text"
paste "$here/exact" "$here/text" | awk '$1 < 320 ? $2 != "<320" : $1 < 1000 ? $2 != $1 : $2 !~ /[+]$/' >"$here/odd"
that "find: what is below 320 ns, and no other, is <320 ns" "$here/odd" test ! -s "$here/odd"
that "and there is such" "$here/text" grep -q '<320' "$here/text"
that "exact numbers stay" "$here/exact" grep -qx 0 "$here/exact"
"$auxdecode" calls "$data" 2>/dev/null >"$here/out"
is "$(grep -cE '[^0-9]0 ns ' "$here/out")" 0 "calls: nothing takes 0 ns"
that "calls: <320 ns" "$here/out" grep -q ' <320 ns ' "$here/out"
"$auxdecode" latency --symbol '/./' "$data" 2>/dev/null | sed '/^  of the total:/d' >"$here/out"
is "$(grep -cE '[^0-9]0 ns' "$here/out")" 0 "latency: nothing takes 0 ns"
that "latency: the first row ends where the trace tells more" "$here/out" grep -qE '^ *below 500 ns' "$here/out"
"$auxdecode" report -o "$here/page" "$data" 2>"$here/err"
PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 python3 -c 'import report_page, sys
print(*(raw.decode() for kind, raw in report_page.blocks(sys.argv[1]) if kind == "json"))' "$here/page" >"$here/json"
that "report: knows that, too" "$here/err" grep -q '"resolution":320,' "$here/json"
data=$here/default
"$auxcap" -q -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording without -e" "$here/err"
if [ -d /sys/bus/event_source/devices/intel_pt ]; then
	skip "this machine has Intel PT" "without -e: exact times"
else
	"$auxdecode" find '/./' "$data" 2>/dev/null >"$here/out"
	is "$(grep -cE ' <[0-9]+ ns ' "$here/out")" 0 "without -e: exact times"
	is "$(grep -cE ' 0 ns ' "$here/out")" 0 "and nothing takes 0 ns"
fi

# ---- what gaps follow ----
data=$here/gaps
"$auxcap" -q -e soft_pt/psb_period=0/u --inject-overflow 40 -o "$data" -- "$programs/stack_recurse" >/dev/null 2>&1
places() { sed -n 's/^# gap \([a-z-]*\) at offset \([^ ]*\) after \([^:]*\):.*/\1 \2 \3/p'; }
"$auxdecode" insn -F ip "$data" 2>/dev/null | places | sort >"$here/want"
that "there are gaps after something" "$here/want" grep -q ' 0x' "$here/want"
"$auxdecode" calls "$data" 2>/dev/null | places | sort >"$here/got"
that "calls: gaps follow what they follow in insn" "$here/got" cmp -s "$here/want" "$here/got"
"$auxdecode" calls -F tid,sym "$data" 2>/dev/null | places | sort >"$here/got"
that "calls -F: the same" "$here/got" cmp -s "$here/want" "$here/got"

# ---- one file, one number: calls, self, total, off CPU, not traced, lost, instructions ----
agree() { # TEXT
	PYTHONDONTWRITEBYTECODE=1 "$python" tests/amounts.py "$auxdecode" "$data" "$here" >"$here/out" 2>&1
	ok $? "$1: all commands agree on each function" "$here/out"
}
data=$here/full
agree "a program with threads"
that "threads that wait are off the CPU" "$here/out" grep -Eq '^self [1-9][0-9]* off CPU [1-9][0-9]* not traced [1-9]' "$here/out"
"$auxdecode" calls "$data" >"$here/out" 2>/dev/null
# which call waits is the scheduler's choice: the threads are those of find
"$auxdecode" find -F tid,offcpu "$data" 2>/dev/null | awk '!/^#/ && $2 > 0 { print $1 }' | sort >"$here/want"
sed -nE 's/^ *[0-9]+\/([0-9]+) .*# off CPU [0-9.]+ [mun]?s(, (blocked|preempted)|: [^#]*)(  #.*)?$/\1/p' "$here/out" | sort >"$here/got"
that "calls: it is shown where it happens" "$here/out" cmp -s "$here/want" "$here/got"

# ---- why nothing is traced ----
data=$here/filtered
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u --filter "filter collatz @ $programs/threads" -o "$data" -- "$programs/threads" \
	>/dev/null 2>"$here/err"
ok $? "a recording with a filter" "$here/err"
agree "what a filter leaves out"
that "it is told apart" "$here/out" grep -Eq '^self [1-9].* filtered [1-9]' "$here/out"
data=$here/full
"$auxdecode" hot --by time "$data" >"$here/out" 2>/dev/null
that "hot: system calls are in the kernel" "$here/out" grep -Eq '^# in the kernel: [1-9][0-9]* ns' "$here/out"
that "and nothing is filtered where there is no filter" "$here/out" not grep -q '^# filtered' "$here/out"
# each system call of nanosleep(2) is one stop; none is a filter's
"$auxdecode" export --to jsonl "$data" 2>/dev/null | grep -o '"type":"off".*"why":"[a-z]*"' | sed 's/.*"why"://' | sort -u >"$here/out"
is "$(cat "$here/out")" '"kernel"' "jsonl: each stop of trace says why"

# ---- a C++ program that knows how often its functions were called ----
data=$here/waits
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$data" -- "$programs/waits" >"$here/want" 2>"$here/err"
ok $? "a recording of threads, a mutex and sleep" "$here/err"
agree "a C++ program"
"$auxdecode" hot -n 9999 --by time "$data" 2>/dev/null | sed -nE 's/^ +[0-9]+ +[0-9.]+ +[0-9]+ +[0-9.]+ +([0-9]+) +[0-9.]+ +[0-9.-]+ (.*) [^ ]*waits$/\1 \2/p' \
	>"$here/calls"
while read -r name n; do
	is "$(sed -nE "s/^([0-9]+) (double )?$name(<double>)?\\(.*/\\1/p" "$here/calls")" "$n" "$name was called $n times"
done <"$here/want"
# each nap is a millisecond at least, none of it its own
"$auxdecode" find -F dur,self,offcpu,untraced,lost,state,caller,sym 'nap*' "$data" 2>/dev/null | grep -v '^#' >"$here/out"
is "$(wc -l <"$here/out")" 15 "find: each nap"
"$auxdecode" latency --json 'nap(*' "$data" >"$here/json" 2>/dev/null
that "latency: napping is time off the CPU or in the kernel" "$here/json" python3 - "$here/json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["calls"] == 15 and d["total"] >= 15000000, d["total"]
assert d["on_cpu_ns"] + d["off_cpu_ns"] == d["total"]
assert d["off_cpu_ns"] == d["blocked_ns"] + d["preempted_ns"]
assert d["self"] <= d["on_cpu_ns"] - d["untraced_ns"] - d["lost_ns"]
assert d["untraced_ns"] + d["off_cpu_ns"] >= 15000000
END

# ---- find: what is shown is what --sort goes by, the call's own and with callees ----
rows() { "$auxdecode" find -F tid,time,offcpu,total_offcpu,kernel,total_kernel,dur,sym "$@" "$data" 2>/dev/null | grep -v '^#'; }
rows >"$here/rows"
col=3
for key in offcpu total_offcpu kernel total_kernel dur; do
	rows --sort "$key" >"$here/got"
	sort -s -k$col,${col}nr "$here/rows" >"$here/want"
	that "find --sort $key: by that column" "$here/got" cmp -s "$here/want" "$here/got"
	col=$((col + 1))
done
that "some calls are in the kernel in their callees alone" "$here/rows" \
	awk '$5 == 0 && $6 > 0 { ok = 1 } END { exit !ok }' "$here/rows"
"$auxdecode" export --to sqlite -o "$here/waits.db" "$data" 2>"$here/err"
python3 - "$here/waits.db" "$here/rows" >"$here/odd" <<'END'
import collections, sqlite3, sys
parent, own, keys = {}, {}, {}
for i, p, tid, start, off, kernel, name in sqlite3.connect(sys.argv[1]).execute(
        "SELECT c.id, parent, tid, c.start, off_cpu_ns, kernel_ns, f.name FROM calls c JOIN functions f ON f.id = function"
        " JOIN threads t ON t.id = thread"):
    parent[i], own[i], keys[i] = p, (off, kernel), (tid, start, name)
total = {i: list(v) for i, v in own.items()}
for i, v in own.items():
    up = parent[i]
    while up:
        total[up] = [a + b for a, b in zip(total[up], v)]
        up = parent[up]
want = collections.Counter((*keys[i], own[i][0], total[i][0], own[i][1], total[i][1]) for i in own)
got = collections.Counter()
for line in open(sys.argv[2]):
    tid, t, off, all_off, kernel, all_kernel, _, name = line.rstrip("\n").split(" ", 7)
    s, ns = t.split(".")
    got[(int(tid), int(s) * 10**9 + int(ns), name, int(off), int(all_off), int(kernel), int(all_kernel))] += 1
print(list((want - got).items())[:4], list((got - want).items())[:4], len(want), len(got))
sys.exit(want != got or len(want) < 1000)
END
ok $? "a total is the sum over the call and all below it" "$here/odd"
# the text tells the two apart as the columns do
"$auxdecode" find '/./' "$data" 2>/dev/null | grep -v '^#' >"$here/text"
paste -d' ' <(awk '{ print ($3 > 0) ($4 != $3) }' "$here/rows") "$here/text" |
	awk '(/ \[off CPU / ? 1 : 0) (/ \[total off CPU / ? 1 : 0) != $1' >"$here/odd"
that "find's text: [off CPU] is the call's own, [total off CPU] with its callees" "$here/odd" test ! -s "$here/odd"

# ---- what records of switches do not say is not known ----
data=$here/alone
"$auxcap" -q --per-thread -e soft_pt/tsc,mtc,cyc/u -o "$data" -- "$programs/hello_static" >/dev/null 2>"$here/err"
ok $? "a recording without records of switches" "$here/err"
is "$("$auxdecode" dump "$data" 2>/dev/null | grep -c ' SWITCH')" 0 "there are none"
is "$("$auxdecode" find -F offcpu,blocked,preempted "$data" 2>/dev/null | grep -v '^#' | sort -u)" "- - -" "find: none is made up"
is "$("$auxdecode" calls -F offcpu,blocked,preempted "$data" 2>/dev/null | grep -v '^#' | sort -u)" "- - -" "calls: the same"
"$auxdecode" export --to sqlite -o "$here/alone.db" "$data" 2>"$here/err"
is "$(python3 -c 'import sqlite3, sys
print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(off_cpu_ns), count(blocked_ns), count(*) > 9 FROM calls").fetchone())' \
	"$here/alone.db")" "0 0 1" "sqlite: NULL"
that "find: times are there" - test "$("$auxdecode" find -F self "$data" 2>/dev/null | grep -c '^[0-9]')" -gt 9

# ---- gaps ----
data=$here/torn
"$auxcap" -q -e soft_pt/psb_period=0,tsc,mtc,cyc/u --inject-overflow 4 -o "$data" -- /bin/ls / >/dev/null 2>&1
agree "a program with gaps"
that "time in gaps is lost, and nobody's" "$here/out" grep -Eq '^self [1-9].* lost [1-9]' "$here/out"
for psb in 0 1 2; do
	for every in 1 2 3 5; do
		"$auxcap" -q -e "soft_pt/psb_period=$psb,tsc,mtc,cyc/u" --inject-overflow "$every" -o "$data" -- \
			/bin/ls / >/dev/null 2>&1
		"$auxdecode" calls "$data" 2>/dev/null >"$here/out"
		echo "$psb/$every gaps $(grep -c '^# gap' "$here/out"), stacks $(grep -c '^# tid .* goes on in stack' "$here/out")"
	done
done >"$here/stacks"
that "and all run on one stack" "$here/stacks" test "$(grep -c 'stacks 0$' "$here/stacks")" = 12
that "of which all have gaps" "$here/stacks" test "$(grep -c 'gaps [1-9]' "$here/stacks")" = 12
# While it is not clear which setjmp a longjmp led to, hot's cycles must not look at the stack.
data=$here/jumps
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$data" -- "$programs/stack_jump_any" >/dev/null 2>"$here/err"
agree "a program whose jumps are understood later"
data=$here/dynamic
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$data" -- /bin/ls / >/dev/null 2>"$here/err"
agree "a program with a PLT"
finish
