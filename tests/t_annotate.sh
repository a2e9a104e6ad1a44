#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# annotate: lines as often as gcov counts them, instructions as often as callgrind
# and the list of all instructions do, branches as in branch. In text, JSON and HTML.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_soft

here=$PWD
s=$SCRATCH/annotate
mkdir -p "$s"

# ---- lines: gcov ----
cat >"$s/gcov.py" <<'PY'
import collections, json, os, re, sys
src, want, got, fn, got_fn = sys.argv[3], collections.Counter(), collections.Counter(), {}, {}
for text in open(sys.argv[1]):
    doc = json.loads(text)
    for f in doc["files"]:
        if os.path.realpath(os.path.join(doc["current_working_directory"], f["file"])) != src:
            continue
        for l in f["lines"]:
            want[l["line_number"]] += l["count"]
        for x in f["functions"]:
            fn[x["name"]] = x["execution_count"]
for f in json.load(open(sys.argv[2]))["functions"]:
    if os.path.basename(f["module"]) != "plain":
        continue
    # complete and base object: one body, which gcov calls the base one
    name = re.sub(r"([CD])1E", r"\g<1>2E", f["linkage_name"])
    for l in f["lines"]:
        if l["file"] == src:
            got[l["line"]] += l["executed"]
    if name in fn:
        got_fn[name] = f["entered"]
bad = [f"line {k}: gcov {want[k]}, annotate {got[k]}" for k in sorted(want | got) if want[k] != got[k]]
bad += [f"{k}: gcov {n}, annotate {got_fn.get(k, 0)}" for k, n in fn.items() if n != got_fn.get(k, 0)]
print("\n".join(bad))
print(f"{sum(n > 0 for n in want.values())} lines that ran, {len(got_fn)} functions")
sys.exit(bool(bad) or len(got) < 10 or len(got_fn) < 3)
PY
for name in cover_flow.c cover_jumps.c cover_data.c throw.cc; do
	src=$here/tests/programs/$name dir=$s/$name cc=gcc
	[ "${name%.cc}" = "$name" ] || cc=g++
	mkdir -p "$dir"
	"$cc" -O0 -g -o "$dir/plain" "$src" -lm -pthread &&
		(cd "$dir" && "$cc" -O0 -g --coverage -o inst "$src" -lm -pthread &&
			./inst >/dev/null 2>&1; gcov --json-format --stdout ./*.gcda >gcov.json) &&
		"$auxcap" -e soft_pt//u -o "$dir/data" -- "$dir/plain" >/dev/null 2>"$dir/log"
	"$auxdecode" annotate --to json -n 99999 -o "$dir/json" "$dir/data" 2>"$dir/log"
	is $? 0 "$name: all functions as JSON" || cat "$dir/log"
	python3 "$s/gcov.py" "$dir/gcov.json" "$dir/json" "$src" >"$dir/diff"
	ok $? "$name: as gcov counts: $(tail -n 1 "$dir/diff")" "$dir/diff"
done

# ---- instructions: the flow itself, one by one ----
cat >"$s/flow.py" <<'PY'
import collections, json, sys
want, got = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    ip, sym = line.split()
    if sym != "-":
        want[int(ip, 16)] += 1
doc = json.load(open(sys.argv[2]))
for f in doc["functions"]:
    n = 0
    for i in f["code"]:
        if i["executed"]:
            got[i["address"]] += i["executed"]
        n += i["executed"]
    if n != f["instructions"]:
        print(f["name"], "instructions", f["instructions"], "sum", n)
        sys.exit(1)
bad = [f"{k:x}: insn {want[k]}, annotate {got[k]}" for k in sorted(want | got) if want[k] != got[k]]
print("\n".join(bad[:20]))
print(len(got), "instructions,", len(doc["functions"]), "functions")
sys.exit(bool(bad) or len(got) < 100)
PY
flow() { # TEXT FILE
	"$auxdecode" insn -F ip,sym "$2" 2>/dev/null | grep -v '^#' | sed 's/+0x[0-9a-f]*$//; s/ .* /_/' >"$s/insns"
	"$auxdecode" annotate --to json -n 99999 "$2" >"$s/json" 2>/dev/null
	python3 "$s/flow.py" "$s/insns" "$s/json" >"$s/diff"
	ok $? "$1: each instruction as often as insn shows it: $(tail -n 1 "$s/diff")" "$s/diff"
}
flow "a program" "$s/cover_flow.c/data"
"$auxcap" -q -e soft_pt//u -o "$s/static" -- "$programs/hello_static" >/dev/null 2>&1
flow "a static program" "$s/static"
"$auxcap" -q -e soft_pt//u -o "$s/jit" -- "$(realpath "$programs/jitlog")" "$s" >/dev/null 2>&1
flow "code that a program made" "$s/jit"
that "code of a JIT compiler has functions" "$s/json" grep -q '"name":"jit_add_0"' "$s/json"
"$auxdecode" annotate -j4 --chunk-size 4096 --to json -n 99999 "$s/cover_flow.c/data" >"$s/j4" 2>/dev/null
"$auxdecode" annotate -j1 --to json -n 99999 "$s/cover_flow.c/data" >"$s/j1" 2>/dev/null
that "the same for any -j and chunk size" "$s/j4" cmp "$s/j1" "$s/j4"

# code that is entered at two places of one instruction: with its prefix, and after it
cat >"$s/overlap.c" <<'C'
#include <stdio.h>
static int count;
int main(void)
{
	for (int i = 0; i < 10; i++) {
		int odd = i % 3 == 0;
		__asm__ volatile("test %1, %1\n\tjne 1f\n\tjmp 2f\n"
				 "1:\t.byte 0xf0\n2:\tincl %0" : "+m"(count) : "r"(odd) : "cc");
	}
	return printf("%d\n", count) != 3;
}
C
gcc -O1 -g -o "$s/overlap" "$s/overlap.c" &&
	"$auxcap" -q -e soft_pt//u -o "$s/overlap.data" -- "$s/overlap" >/dev/null 2>&1
"$auxdecode" annotate main "$s/overlap.data" >"$s/out" 2>"$s/log"
is "$(sed -nE 's/^ *([0-9]+) +[0-9a-f]+ +(lock inc|inc) dword.*/\2 \1/p' "$s/out" | tr '\n' ' ')" \
	"lock inc 4 inc 6 " "an instruction that is entered in its middle, too"
flow "such code" "$s/overlap.data"

# a symbol that is larger than any file
cat >"$s/huge.s" <<'S'
	.globl main
	.type main, @function
main:	xor %eax, %eax
	ret
	.size main, 0x7ffffffffffff000
	.section .note.GNU-stack, "", @progbits
S
gcc -o "$s/huge" "$s/huge.s" && "$auxcap" -q -e soft_pt//u -o "$s/huge.data" -- "$s/huge" >/dev/null 2>&1
timeout 60 "$auxdecode" annotate main "$s/huge.data" >"$s/out" 2>"$s/log"
is "$? $(sed -nE 's/^ *([0-9]+) +[0-9a-f]+ +(xor|ret).*/\2 \1/p' "$s/out" | head -n 2 | tr '\n' ' ')" "0 xor 1 ret 1 " \
	"a symbol of any size ends where the code does" || cat "$s/log"

# ---- instructions by line: callgrind ----
cat >"$s/callgrind.py" <<'PY'
import collections, json, re, sys
want, got, name, on, skip = collections.Counter(), collections.Counter(), {}, None, False
file, mine, line = {}, False, 0
for l in open(sys.argv[1]):
    m = re.match(r"(c?fn|c?f[lie])=\((\d+)\) ?(.*)", l)
    if m:
        table = name if m[1][-1] == "n" else file
        if m[3]:
            table[m[2]] = m[3]
        if m[1] == "fn":
            on = name[m[2]]
        elif m[1][0] == "f":
            mine = file[m[2]].endswith(sys.argv[3])
    elif l.startswith("calls="):
        skip = True
    elif on and re.match(r"[+*0-9-]", l):
        at, n = l.split()[:2]
        line = line if at == "*" else line + int(at) if at[0] in "+-" else int(at)
        if mine and not skip:
            want[line] += int(n)
        skip = False
for f in json.load(open(sys.argv[2]))["functions"]:
    for i in f["code"]:
        if i["executed"] and i.get("file", "").endswith(sys.argv[3]):
            got[i["line"]] += i["executed"]
bad = [f"line {k}: callgrind {want[k]}, annotate {got[k]}" for k in sorted(want | got) if want[k] != got[k]]
print("\n".join(bad))
print(len(got), "lines,", sum(got.values()), "instructions")
sys.exit(bool(bad) or len(got) < 10)
PY
if have valgrind; then
	dir=$s/cover_flow.c
	valgrind -q --tool=callgrind --skip-plt=no --callgrind-out-file="$s/cg" "$dir/plain" >/dev/null 2>"$s/log"
	ok $? "callgrind runs the program" "$s/log"
	python3 "$s/callgrind.py" "$s/cg" "$dir/json" cover_flow.c >"$s/diff"
	ok $? "instructions of each line as callgrind counts them: $(tail -n 1 "$s/diff")" "$s/diff"
fi

# ---- branches, callers, callees ----
cat >"$s/branches.py" <<'PY'
import collections, json, sys
taken, calls = collections.Counter(), collections.Counter()
for line in open(sys.argv[1]):
    kind, a, from_sym, to_sym = line.split()
    if kind == "cond":
        taken[int(a, 16)] += 1
    if kind in ("call", "indcall"):
        calls[from_sym.split("+")[0], to_sym.split("+")[0]] += 1
bad, n, seen = [], 0, collections.Counter()
for f in json.load(open(sys.argv[2]))["functions"]:
    for i in f["code"]:
        if "taken" in i:
            n += 1
            if i["taken"] != taken[i["address"]] or i["taken"] + i["not_taken"] != i["executed"]:
                bad.append(f"{i['address']:x}: taken {i['taken']} not {i['not_taken']} of {i['executed']}; branch: {taken[i['address']]}")
    for c in f["callees"]:
        seen[f["name"], c["name"]] += c["count"]
for k, v in calls.items():
    if "-" not in k and seen[k] < v:
        bad.append(f"{k}: {v} calls, annotate {seen[k]}")
print("\n".join(bad[:20]))
print(n, "conditional branches,", len(calls), "pairs of functions")
sys.exit(bool(bad) or n < 50 or len(calls) < 10)
PY
"$auxdecode" branch -F kind,from,fromsym,tosym "$s/static" 2>"$s/log" | grep -v '^#' >"$s/branches"
"$auxdecode" annotate --to json -n 99999 "$s/static" >"$s/json" 2>/dev/null
python3 "$s/branches.py" "$s/branches" "$s/json" >"$s/diff"
ok $? "branches and calls as in branch: $(tail -n 1 "$s/diff")" "$s/diff"

# ---- cycles: where the trace counts them ----
cat >"$s/cycles.py" <<'PY'
import json, subprocess, sys
tool, data = sys.argv[1:]
doc = json.loads(subprocess.run([tool, "annotate", "--to", "json", "-n", "99999", data],
                                capture_output=True, check=True).stdout)
hot = json.loads(subprocess.run([tool, "hot", "--by", "cycles", "--json", data], capture_output=True, check=True).stdout)
bad, sums, off = [], {}, 0
for f in doc["functions"]:
    sums[f["name"]] = sums.get(f["name"], 0) + f["cycles"]
    insns = sum(i["cycles"] for i in f["code"])
    if abs(insns - f["cycles"]) > len(f["code"]):  # each is rounded
        bad.append(f"{f['name']}: {f['cycles']} cycles, those of its instructions {insns}")
    for i in f["code"]:
        off += abs(i["cycles"] - i["executed"])
    lines = {(l["file"], l["line"]): 0 for l in f["lines"]}
    for i in f["code"]:
        if (i.get("file"), i.get("line")) in lines:
            lines[i["file"], i["line"]] += i["cycles"]
    for l in f["lines"]:
        if abs(l["cycles"] - lines[l["file"], l["line"]]) > len(f["code"]):
            bad.append(f"{l['file']}:{l['line']}: {l['cycles']} cycles, its instructions {lines[l['file'], l['line']]}")
# The virtual clock of user code has one cycle for each instruction: but for those that are shared in the wrong place,
# where the cycles of some instructions came with the packet of others.
if off > doc["instructions"] * 3 / 100:
    bad.append(f"{off} of {doc['instructions']} instructions have other cycles than their own")
# what is in no function yet is in code all the same
n = hot["all_functions"]["cycles"]
if abs(n - doc["cycles"]) > n / 50:
    bad.append(f"hot {n}, annotate {doc['cycles']}")
print("\n".join(bad[:20]))
print(len(sums), "functions,", doc["cycles"], "cycles")
sys.exit(bool(bad) or len(sums) < 5 or abs(doc["cycles"] - doc["instructions"]) > doc["instructions"] / 100)
PY
for of in "$s/cover_flow.c/plain" "$programs/threads"; do
	"$auxcap" -q -e soft_pt/cyc/u -o "$s/cyc" -- "$of" >/dev/null 2>"$s/log"
	python3 "$s/cycles.py" "$auxdecode" "$s/cyc" >"$s/diff" 2>&1
	ok $? "${of##*/}: cycles of instructions, lines and functions as in hot: $(tail -n 1 "$s/diff")" "$s/diff"
done
"$auxdecode" annotate -j4 --chunk-size 4096 --to json -n 9 "$s/cyc" >"$s/j4" 2>/dev/null
"$auxdecode" annotate -j1 --to json -n 9 "$s/cyc" >"$s/j1" 2>/dev/null
that "the same for any -j and chunk size" "$s/j4" cmp "$s/j1" "$s/j4"
"$auxdecode" annotate collatz "$s/cyc" >"$s/out" 2>"$s/log"
that "text has them" "$s/out" grep -Eq '^ +[0-9]+ +[0-9]+  threads.c:[0-9]+ ' "$s/out"
that "with the IPC" "$s/out" grep -Eq '^# [0-9]+ cycles, [0-9.]+ % of all, IPC [0-9.]+$' "$s/out"
"$auxdecode" annotate --to html collatz "$s/cyc" >"$s/out" 2>/dev/null
that "HTML, too" "$s/out" grep -q '<th>cycles</th>' "$s/out"
not grep -q '"cycles"' "$s/json"
ok $? "and nothing is made up where the trace counts none"

# ---- what is shown, and of what ----
d=$s/cover_flow.c/data
"$auxdecode" annotate classify "$d" >"$s/out" 2>"$s/log"
is $? 0 "one function" || cat "$s/log"
that "with its source" "$s/out" grep -Eq '^ +[0-9]+  cover_flow.c:[0-9]+ +[^ ]' "$s/out"
that "who called it" "$s/out" grep -q '^# called by main 30$' "$s/out"
that "and which way its branches went" "$s/out" grep -Eq '# taken [0-9]+ of [0-9]+ \([0-9.]+ %\)$' "$s/out"
"$auxdecode" annotate --lines classify "$d" 2>/dev/null | grep -v '^#' >"$s/lines"
python3 - "$s/cover_flow.c/json" "$s/lines" <<'PY'
import json, sys
want = next([(str(l["executed"]), "cover_flow.c:%d" % l["line"]) for l in f["lines"]]
            for f in json.load(open(sys.argv[1]))["functions"] if f["name"] == "classify")
got = [tuple(l.split()[:2]) for l in open(sys.argv[2])]
sys.exit(want != got)
PY
ok $? "--lines: the same counts, in the order of the source" "$s/lines"
"$auxdecode" annotate 'f*' -n 2 "$d" 2>/dev/null | grep -c '^# f' >"$s/out"
is "$(cat "$s/out")" 2 "several that fit, with -n"
"$auxdecode" annotate "$d" 2>/dev/null | sed -n 's/^# \(.*\) in .*instructions.*/\1/p' >"$s/out"
is "$(cat "$s/out")" "$("$auxdecode" hot --stubs -n 1 "$d" 2>/dev/null | awk '!/^#/ { print $(NF - 1) }')" \
	"without a name: what ran most" || "$auxdecode" hot -n 3 "$d"
"$auxdecode" annotate no_such_function "$d" >"$s/out" 2>"$s/log"
is $? 1 "a function that did not run: status 1"
that "and it is said" "$s/log" grep -q 'no function "no_such_function" ran' "$s/log"
cat >"$s/inlined.c" <<'C'
#include <stdio.h>
static inline __attribute__((always_inline)) int triple(int n)
{
	return n * 3;
}
int main(int argc, char **argv)
{
	return printf("%d\n", triple(argc) + !argv) < 0;
}
C
gcc -O1 -g -o "$s/inlined" "$s/inlined.c" && "$auxcap" -q -e soft_pt//u -o "$s/inlined.data" -- "$s/inlined" >/dev/null 2>&1
"$auxdecode" annotate triple "$s/inlined.data" >"$s/out" 2>"$s/log"
is $? 1 "a function that was inlined everywhere: status 1"
that "and where to is said" "$s/log" grep -q 'triple was inlined: its code is in that of main,' "$s/log"
# without a symbol and without unwind tables a function has no known end; its calls are there
gcc -O1 -fno-asynchronous-unwind-tables -fno-inline -o "$s/bare" -x c - <<'C'
#include <stdio.h>
int triple(int n)
{
	return n * 3;
}
int main(int argc, char **argv)
{
	return printf("%d\n", triple(argc) + triple(argc + 1) + !argv) < 0;
}
C
place=$(nm "$s/bare" | sed -n 's/^0*\([0-9a-f]*\) T triple$/[bare+0x\1]/p')
strip "$s/bare"
"$auxcap" -q -e soft_pt//u -o "$s/bare.data" -- "$s/bare" >/dev/null 2>"$s/log"
ok $? "a stripped program" "$s/log"
"$auxdecode" annotate "${place:-none}" "$s/bare.data" >"$s/out" 2>"$s/log"
is $? 1 "a function without a symbol: status 1"
that "the reason, and what shows it" "$s/log" grep -qF "$place has no symbol, and no unwind table says where it ends, if it ran; \`auxdecode calls --symbol '$place' " "$s/log"
is "$(wc -l <"$s/out")" 0 "and nothing else is shown for it"
is "$("$auxdecode" calls --symbol "$place" "$s/bare.data" 2>/dev/null | grep -cF "$place")" 2 "which it does"
"$auxdecode" annotate --to html -n 3 -o "$s/a.html" "$d" 2>"$s/log"
is $? 0 "a page" || cat "$s/log"
python3 - "$s/a.html" "$s/cover_flow.c/json" <<'PY'
import html.parser, json, sys
class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows, self.row = [], [], None
    def handle_starttag(self, tag, attrs):
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.row = [dict(attrs).get("class"), []]
        if tag == "td":
            self.row[1].append("")
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
        if tag == "tr":
            self.rows.append(self.row)
            self.row = None
    def handle_data(self, data):
        if self.row and self.row[1]:
            self.row[1][-1] += data
p = Page()
p.feed(open(sys.argv[1]).read())
assert not p.open
got = [(int(r[1][1], 16), int(r[1][0])) for r in p.rows if r[0] in ("i", "z")]
want = [(i["address"], i["executed"]) for f in json.load(open(sys.argv[2]))["functions"][:3] for i in f["code"]]
sys.exit(got != want or not want)
PY
ok $? "which is HTML, and has the same counts"
for to in text json html; do
	"$auxdecode" annotate --to $to -n 9 -F ip "$d" >/dev/null 2>"$s/log"
	is $? 2 "$to has no columns"
done
finish
