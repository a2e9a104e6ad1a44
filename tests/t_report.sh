#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# auxdecode report: what the page holds adds up to what count and branch say; it
# opens in headless Chromium, is drawn, zooms, searches, links, in short tasks; and
# nothing of what is in it can get out of it.
. "$(dirname "$0")/lib.sh"
need_soft

page=$SCRATCH/page.html
data=$SCRATCH/report.data

# record TEXT EVENT PROGRAM...
record() {
	rm -f "$data"
	timeout 500 "$auxcap" -e "$2" -o "$data" ${OPTIONS:-} -- "${@:3}" >"$SCRATCH/out" 2>"$SCRATCH/log" </dev/null
	[ $? = "${STATUS:-0}" ]
	ok $? "$1 is recorded" "$SCRATCH/log"
}

# report TEXT STATUS OPTION...: makes the page
report() {
	rm -f "$page"
	"$auxdecode" report -o "$page" "${@:3}" "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? "$2" "$1: a report, status $2"
}

# sums TEXT: of the page, and of count
sums() {
	"$auxdecode" count "$data" 2>"$SCRATCH/err" |
		awk '/^total/ { t = "insns " $3 } /^thread/ { n[$2] = $4 } END {
			print t; for (i in n) print "thread " i " " n[i] }' | sort >"$SCRATCH/want"
	tests/report_page.py "$page" >"$SCRATCH/sums" 2>"$SCRATCH/err"
	ok $? "$1: the page can be read, and adds up" "$SCRATCH/err"
	grep -E '^(insns|thread)' "$SCRATCH/sums" | sort >"$SCRATCH/got"
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/why" 2>&1
	ok $? "$1: as many instructions as count, in all and of each thread" "$SCRATCH/why"
}

# code TEXT: what the page has of code counts as annotate does
code() {
	"$auxdecode" annotate --to json -n 99999 "$data" >"$SCRATCH/annotate" 2>"$SCRATCH/err"
	PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 python3 - "$page" "$SCRATCH/annotate" >"$SCRATCH/why" 2>&1 <<'END'
import json, report_page, sys
got = next(json.loads(raw) for kind, raw in report_page.blocks(sys.argv[1]) if kind == "code")
names = next(json.loads(raw) for kind, raw in report_page.blocks(sys.argv[1]) if kind == "json")["name"]
want = {(f["name"], f["code"][0]["address"] if f["code"] else 0): f for f in json.load(open(sys.argv[2]))["functions"]}
bad = n = 0
for f in got:
    w = want[names[f["i"]], int(f["addr"], 16)]
    rows = [[i["address"] - int(f["addr"], 16), i["executed"], i.get("cycles", 0)] for i in w["code"]]
    n += len(rows)
    lines = {(f["files"][r[0]], r[1]): [r[2], r[3]] for r in f["rows"] if len(r) == 6 and r[2] >= 0}
    known = {(l["file"], l["line"]): [l["executed"], l.get("cycles", 0)] for l in w["lines"]}
    if [r[:3] for r in f["rows"] if len(r) == 5] != rows or any(known.get(k) != v for k, v in lines.items()) or \
            [f["entered"], f["insns"], f.get("cycles", 0)] != [w["entered"], w["instructions"], w.get("cycles", 0)]:
        bad += 1
        print(names[f["i"]], "differs")
print(len(got), "functions,", n, "instructions")
sys.exit(bad or len(got) < 5)
END
	ok $? "$1: code counts as in annotate: $(tail -n 1 "$SCRATCH/why")" "$SCRATCH/why"
}

# calls FUNCTION: as many as branch shows calls of it
calls() {
	want=$("$auxdecode" branch -F kind,tosym "$data" 2>"$SCRATCH/err" |
		awk -v f="$1+0x0" '$1 ~ /call/ && $2 == f' | wc -l)
	is "$(tests/report_page.py "$page" "$1")" "$1 $want" "calls of $1: $want, as branch shows"
}

# browser TEXT ARG...: each line of the checks is a test
browser() {
	local text=$1
	tests/report_browser.py "${@:2}" >"$SCRATCH/checks" 2>"$SCRATCH/err"
	checks_in "$SCRATCH/checks" "$text"
	[ ! -s "$SCRATCH/err" ]
	ok $? "$text: the browser was driven to the end" "$SCRATCH/err"
}

record "threads" soft_pt/tsc,mtc,cyc/u "$programs/threads" && {
	report "threads" 0
	sums "threads"
	code "threads"
	calls collatz
	calls worker
	"$auxdecode" report -j 1 --chunk-size 7000 -o "$SCRATCH/other.html" "$data" 2>"$SCRATCH/err"
	cmp "$page" "$SCRATCH/other.html" >"$SCRATCH/why" 2>&1
	ok $? "the page does not depend on -j" "$SCRATCH/why"
	grep -oE '(https?:)?//[a-z]+\.[a-z]+[^ "]*|(src|href)="[^#][^"]*"|url\([^)]*\)' "$page" >"$SCRATCH/why"
	[ ! -s "$SCRATCH/why" ]
	ok $? "the page names nothing outside of it" "$SCRATCH/why"
	grep -q 'Complete: nothing was lost' "$page"
	ok $? "it says that nothing was lost"
	browser "threads" check "$page" collatz
}

# Threads that name themselves late have these names, and not the one they began with.
record "threads with new names" soft_pt/tsc,mtc,cyc/u "$programs/renamed" && {
	report "new names" 0
	is "$(PYTHONPATH=tests PYTHONDONTWRITEBYTECODE=1 python3 -c 'import re, report_page, sys
for kind, raw in report_page.blocks(sys.argv[1]):
    for m in re.findall(rb"\"stream\":\d+,\"comm\":\"([^\"]*)\"", raw) if kind == "json" else ():
        print(m.decode())' "$page" | sort | tr '\n' ,)" \
		"renamed,$(printf 'renamed %d,' 0 1 2 3 4 5)" "lanes have the names that threads gave themselves"
}

STATUS=3 OPTIONS="--inject-overflow 3" record "with a gap" soft_pt/tsc,mtc,cyc,psb_period=0/u "$programs/threads" 4 200 && {
	report "gaps" 3
	sums "gaps"
	grep -q 'Not complete' "$page" && grep -q 'overflow' "$page"
	ok $? "it says that it is not complete, and why"
	browser "gaps" check "$page" collatz
	grep -q "a gap's link leads to it" "$SCRATCH/checks"
	ok $? "gaps: there is one to go to"
}

record "python" soft_pt/tsc,mtc/u /usr/bin/python3 -c 'print(sum(i * i for i in range(200000)))' && {
	report "python" 0
	sums "python"
	browser "python" check "$page" py
	report "smaller" 0 --max-size 600K
	cp "$SCRATCH/err" "$SCRATCH/said"
	sums "smaller"
	[ "$(stat -c %s "$page")" -le $((600 * 1024)) ]
	ok $? "--max-size is kept: $(stat -c %s "$page") bytes"
	[ "$(awk '/^merged/ { print $2 }' "$SCRATCH/sums")" -gt 0 ]
	ok $? "by merging calls"
	not grep -q 'max-size' "$SCRATCH/said" && not grep -q '<dt>Size</dt>' "$page"
	ok $? "nothing is said of a size that is kept"
	browser "smaller" check "$page" py
	report "too small" 0 --max-size 20K
	cp "$SCRATCH/err" "$SCRATCH/said"
	sums "too small"
	kb=$(sed -n 's/^auxdecode: warning: the page has \([0-9]*\) KB, more than the 20 KB of --max-size.*/\1/p' "$SCRATCH/said")
	size=$(($(stat -c %s "$page") / 1024))
	test "$size" -gt 20 -a "${kb:-0}" -ge $((size - 1)) -a "${kb:-0}" -le $((size + 1))
	ok $? "a size that cannot be kept is told: $kb KB, the file has $size" "$SCRATCH/said"
	grep -q '<dt>Size</dt><dd>[0-9,]* bytes, more than the 20,480 asked for' "$page"
	ok $? "and on the page"
}

# A trace without any time is shown by instructions.
OPTIONS=--per-thread record "no times" soft_pt/tsc=0,mtc=0,cyc=0/u "$programs/hello_static" && {
	report "no times" 0
	sums "no times"
}

# Names are text, whatever is in them.
bad='</script><b class="x">"&amp;'"'"'<img src=x onerror=window.hacked=1>'
cp "$programs/threads" "$SCRATCH/threads"
if objcopy --redefine-sym "collatz=$bad" --redefine-sym $'worker=w\xff\xc3(\x01\x02' "$SCRATCH/threads" 2>"$SCRATCH/err"; then
	record "bad names" soft_pt//u "$SCRATCH/threads" && {
		cp "$data" "$SCRATCH/<b class=\"x\">'.data"
		data="$SCRATCH/<b class=\"x\">'.data"
		report "bad names" 0
		sums "bad names"
		browser "bad names" names "$page" "$bad"
	}
	data=$SCRATCH/report.data
else
	ok 1 "objcopy renames symbols" "$SCRATCH/err"
fi

python3 - "$auxdecode" "$data" >"$SCRATCH/out" 2>&1 <<'END'
import os, pty, sys
status = pty.spawn([sys.argv[1], "report", "--no-progress", sys.argv[2]])
sys.exit(os.waitstatus_to_exitcode(status))
END
is $? 2 "no page into a terminal"
grep -q 'give -o' "$SCRATCH/out"
ok $? "with what to do" "$SCRATCH/out"
"$auxdecode" report --time 1ns,2ns -o "$page" "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "an empty report is an error"
grep -q 'nothing to show' "$SCRATCH/err"
ok $? "with the table of the stages" "$SCRATCH/err"
finish
