#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# flame: the sums of its stacks are those of `count`, of each thread and process;
# what --min and -n leave out is told; the picture is well-formed XML, with all the
# frames of the stacks that are wide enough.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

flame() { "$auxdecode" flame "$@" "$data" 2>"$SCRATCH/err"; }
total() { "$auxdecode" count "$@" "$data" 2>/dev/null | sed -n 's/^total insns \([0-9]*\).*/\1/p'; }
sum() { awk '{ s += $NF } END { printf "%d", s }'; }

# by_thread: "TID INSTRUCTIONS" of the stacks
by_thread() {
	awk '{ split($1, a, ";"); n = split(a[1], b, "/"); s[b[n]] += $NF }
		END { for (k in s) print k, s[k] }' | sort
}

sums() { # CASE
	"$auxdecode" count "$data" 2>/dev/null | awk '$1 == "thread" { print $2, $4 }' | sort >"$SCRATCH/want"
	flame >"$SCRATCH/folded"
	by_thread <"$SCRATCH/folded" | diff "$SCRATCH/want" - >"$SCRATCH/diff"
	ok $? "$1: each thread has as many instructions as count gives ($(wc -l <"$SCRATCH/want") threads)" "$SCRATCH/diff"
	not grep -qvE '^[^ ;]+(;[^ ;]+)* [0-9]+$' "$SCRATCH/folded"
	ok $? "$1: each line is frames, a blank, a number" "$SCRATCH/folded"
	is "$(flame -j2 --chunk-size 4096 | sha256sum)" "$(sha256sum <"$SCRATCH/folded")" \
		"$1: the same with two workers and small chunks"
}

for case in hello_asm threads_few forkexec feature_few pipe throw; do
	record "$case" ''
	[ $status = 0 ] || { ok 1 "$case: auxcap ends with $status" "$log"; continue; }
	sums "$case"
	is "$(flame --per process | sum)" "$(total)" "$case: --per process"
	is "$(flame --per all | sum)" "$(total)" "$case: --per all"
	is "$(flame --min 5 | sum)" "$(total)" "$case: --min 5: the rest is in [rest]"
	is "$(flame -n 3 | sum)" "$(total)" "$case: -n 3: so too"
	flame --by branches >"$SCRATCH/branches"
	# a thread's last one may lead nowhere: the system call that ends it, or others
	read -r most threads < <("$auxdecode" branch -F tid,kind,from,to "$data" 2>/dev/null | awk '
		/^#/ || $3 == "-" || $2 ~ /async|intr|except|off/ { next }
		{ n++; to[$1] = $4 }
		END { for (t in to) k++; printf "%d %d\n", n, k }')
	got=$(sum <"$SCRATCH/branches")
	that "$case: --by branches: those that branch shows: $got, $most" - \
		test "$got" -le "$most" -a "$got" -ge $((most - threads))
done
record threads_few ''
is "$(flame --per process | cut -d';' -f1 | sort -u | wc -l)" 1 "one process"
is "$(flame -n 3 | grep -vc '^\[rest\] ')" 3 "-n 3: three stacks"
largest=$(flame | awk '{ print $NF }' | sort -rn | head -n 3 | sort)
is "$(flame -n 3 | grep -v '^\[rest\] ' | awk '{ print $NF }' | sort)" "$largest" "the largest three"
tid=$(flame | head -n 1 | sed 's/;.*//; s,.*/,,')
is "$(flame --tid "$tid" | sum)" "$(total --tid "$tid")" "--tid"
is "$(flame --symbol main | grep -vc ';main[; ]')" 0 "--symbol: each stack has it"
is "$(flame | grep ';main[; ]' | sort | sha256sum)" "$(flame --symbol main | sort | sha256sum)" "--symbol: and all of these"
flame --symbol no_such_function >"$SCRATCH/out"
is "$?" 1 "a symbol that nothing has: status 1"
flame -v --svg --symbol no_such_function >"$SCRATCH/out"
is "$? $(wc -c <"$SCRATCH/out")" "1 0" "nor is there a picture of it"
that "and a table of what was dropped" "$SCRATCH/err" grep -q 'in other functions' "$SCRATCH/err"
for bad in '--by money' '--per cent' '--min much' '--min 101'; do
	# shellcheck disable=SC2086
	flame $bad >"$SCRATCH/out"
	is "$?" 2 "$bad: usage"
done

# Times: what passed in all threads, wherever; TRACE_OFF is a system call here.
record threads_few mtc,cyc
flame --by time >"$SCRATCH/folded"
that "--by time: time outside of the trace is told apart" "$SCRATCH/folded" \
	grep -q ';\[in_the_kernel\] [0-9]*$' "$SCRATCH/folded"
if ! flame --by cycles >"$SCRATCH/folded"; then
	that "--by cycles: what to do without them" "$SCRATCH/err" grep -q 'no cycles .*--by insns' "$SCRATCH/err"
else
	ok $(($(sum <"$SCRATCH/folded") == 0)) "--by cycles"
fi

# Damaged in its middle: what is left still adds up; lost time is in [gap].
record ls psb_period=0,mtc,cyc
size=$(stat -c %s "$data")
head -c 3000 /dev/zero | tr '\0' '\377' | dd of="$data" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
flame >"$SCRATCH/folded"
is "$?" 3 "damaged: status 3"
is "$(sum <"$SCRATCH/folded")" "$(total)" "damaged: all instructions that are left"
flame --by time >"$SCRATCH/folded"
that "damaged: time lost" "$SCRATCH/folded" grep -q ';\[gap\] [1-9][0-9]*$' "$SCRATCH/folded"
is "$("$auxdecode" flame --svg "$data" 2>/dev/null | grep -c 'class="f g".*<title>\[gap\]')" 0 "by instructions there is none"
not [ "$("$auxdecode" flame --svg --by time --min 0.000001 "$data" 2>/dev/null | grep -c 'class="f g"')" = 0 ]
ok $? "in the picture by time there is" "$SCRATCH/folded"

# The picture. Names with all that XML minds: C++ templates.
xml() { # FILE
	python3 -c 'import sys, xml.etree.ElementTree as E; E.parse(sys.argv[1])' "$1" 2>"$SCRATCH/xml"
}
for case in throw feature_few; do
	record "$case" ''
	"$auxdecode" flame --svg -o "$SCRATCH/f.svg" "$data" 2>"$SCRATCH/err"
	is "$?" 0 "$case: --svg"
	xml "$SCRATCH/f.svg"
	ok $? "$case: well-formed" "$SCRATCH/xml"
	not grep -qiE '(href|src|url\(|@import|https?://[^w]|fetch|XMLHttp)' "$SCRATCH/f.svg"
	ok $? "$case: loads nothing" "$SCRATCH/f.svg"
	grep -q "data-x=\"0\" data-w=\"$(total)\"><title>all" "$SCRATCH/f.svg"
	ok $? "$case: all of it is as wide as what ran" "$SCRATCH/f.svg"
	"$auxdecode" flame --svg --min 0.000001 -o "$SCRATCH/f.svg" "$data" 2>"$SCRATCH/err"
	flame | python3 -c '
import sys, re
import xml.etree.ElementTree as E
want = {}
for line in sys.stdin:
    stack, n = line.rsplit(" ", 1)
    names = ["all"] + stack.split(";")
    for i in range(len(names)):
        key = (i, ";".join(names[:i + 1]))
        want[key] = want.get(key, 0) + int(n)
got, path = {}, {}
ns = "{http://www.w3.org/2000/svg}"
frames = [g for g in E.parse(sys.argv[1]).iter(ns + "g") if g.get("data-w")]
base = max(float(g.find(ns + "rect").get("y")) for g in frames)
spans = []
for g in frames:
    depth = round((base - float(g.find(ns + "rect").get("y"))) / 17)
    x, w = int(g.get("data-x")), int(g.get("data-w"))
    name = g.find(ns + "title").text.split("\n")[0]
    name = re.sub(r"[\x00- \x7f]", "_", name.replace(";", ":"))
    spans.append((depth, x, w, name))
spans.sort()
at = {}
for depth, x, w, name in spans:
    up = [p for p in at.get(depth - 1, []) if p[0] <= x and x + w <= p[0] + p[1]]
    full = up[0][2] + ";" + name if up else name
    at.setdefault(depth, []).append((x, w, full))
    got[(depth, full)] = got.get((depth, full), 0) + w
bad = [(k, want.get(k), got.get(k)) for k in set(want) | set(got) if want.get(k) != got.get(k)]
for b in bad[:20]: print(b)
print(len(want), "frames")
sys.exit(len(bad) != 0 or len(want) < 50)' "$SCRATCH/f.svg" >"$SCRATCH/diff" 2>&1
	ok $? "$case: each frame of the stacks is drawn, as wide as it took, inside of its caller" "$SCRATCH/diff"
done
finish
