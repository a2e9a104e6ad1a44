#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# coverage: line and function counts against gcov's, on programs compiled with -O0
# -g and, for gcov, with --coverage too. Other formats are read back by parsers that
# know nothing of ours; merged files are what the sums say.
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_soft

here=$PWD
s=$SCRATCH/coverage
mkdir -p "$s"

# compare GCOV-JSON LCOV SOURCE: every line and function that either has.
compare() {
	python3 - "$@" <<'PY'
import json, os, sys
src = sys.argv[3]
want, want_fn, got, got_fn, cur = {}, {}, {}, {}, None
for text in open(sys.argv[1]):
    doc = json.loads(text)
    for f in doc["files"]:
        if os.path.realpath(os.path.join(doc["current_working_directory"], f["file"])) != src:
            continue
        for l in f["lines"]:
            want[l["line_number"]] = want.get(l["line_number"], 0) + l["count"]
        for fn in f["functions"]:
            want_fn[fn["name"]] = (fn["execution_count"], fn["start_line"])
for text in open(sys.argv[2]):
    key, _, rest = text.rstrip("\n").partition(":")
    if key == "SF":
        cur = rest
    if cur != src:
        continue
    if key == "DA":
        a, b = rest.split(",")
        got[int(a)] = int(b)
    elif key == "FN":
        a, b = rest.split(",", 1)
        got_fn[b] = (None, int(a))
    elif key == "FNDA":
        a, b = rest.split(",", 1)
        got_fn[b] = (int(a), got_fn[b][1])
bad = [f"line {k}: gcov {want.get(k)}, coverage {got.get(k)}"
       for k in sorted(set(want) | set(got)) if want.get(k) != got.get(k)]
bad += [f"function {k}: gcov {want_fn.get(k)}, coverage {got_fn.get(k)}"
        for k in sorted(set(want_fn) | set(got_fn)) if want_fn.get(k) != got_fn.get(k)]
print("\n".join(bad))
print(f"{len(want)} lines, {len(want_fn)} functions")
sys.exit(bool(bad) or len(want) < 10 or not want_fn)
PY
}

# gcov counts a line once more where an inlined function returns to it, coverage not always;
# in the library of gcc 14 there are such without optimization. With assertions strings are
# compiled here, not taken from the library, where those functions are not.
no_inline=(-D__always_inline__=__unused__ -D_GLIBCXX_ASSERTIONS)

# record NAME SOURCE FLAGS...: plain and instrumented; NAME.data, NAME.json
record() {
	local name=$1 src=$2 cc=gcc dir=$s/$1
	shift 2
	case $src in *.cc) cc=g++ ;; esac
	mkdir -p "$dir"
	"$cc" -O0 -g "${no_inline[@]}" "$@" -o "$dir/plain" "$src" -lm -pthread &&
		(cd "$dir" && "$cc" -O0 -g --coverage "${no_inline[@]}" "$@" -o inst "$src" -lm -pthread &&
			{ ./inst >/dev/null 2>&1; gcov --json-format --stdout ./*.gcda >gcov.json; }) &&
		"$auxcap" -e soft_pt//u -o "$dir/t.data" -- "$dir/plain" >/dev/null 2>"$dir/log"
	[ -s "$dir/t.data" ]
}

against_gcov() { # NAME SOURCE FLAGS...
	local name=$1 src=$2 dir=$s/$1
	record "$@" || { ok 1 "recording of $name" "$dir/log"; return; }
	"$auxdecode" coverage --to lcov -o "$dir/t.info" "$dir/t.data" 2>"$dir/log"
	is $? 0 "coverage of $name"
	compare "$dir/gcov.json" "$dir/t.info" "$src" >"$dir/diff"
	ok $? "$name: $(tail -n 1 "$dir/diff"), as gcov counts them" "$dir/diff"
}

if have gcov; then
	p=$here/tests/programs
	against_gcov flow "$p/cover_flow.c"
	against_gcov flow4 "$p/cover_flow.c" -gdwarf-4
	against_gcov jumps "$p/cover_jumps.c"
	against_gcov data "$p/cover_data.c"
	against_gcov class "$p/cover_class.cc"
	against_gcov more "$p/cover_more.cc"
	against_gcov throw "$p/throw.cc"
	against_gcov threads "$p/threads.c"
else
	ok 1 "gcov comes with gcc"
fi

# A line of two functions, as inlined code has: what ran in the middle of a block of one
# counts, though a block of the other ends there. (gcov forgets the first.)
mkdir -p "$s/shared"
cat >"$s/shared/shared.c" <<'E'
int middle(int x)
{
#line 100
	x += 1;
	return 2 * x;
}
int end(int x)
{
#line 90
	if (!x)
		return 0;
#line 100
	if (x > 5) return 1;
	return 2;
}
int main(int argc, char **argv)
{
	int sum = 0;
	for (int i = 0; i < 7; i++)
		sum += middle(i) & 1;
	for (int i = 1; i < argc; i++)
		sum += end(argv[i][0] - '0') & 1;
	return sum & 1;
}
E
gcc -O0 -g -o "$s/shared/plain" "$s/shared/shared.c" 2>"$s/shared/log"
for args in '' 0 '0 3' '3 9'; do
	# shellcheck disable=SC2086
	"$auxcap" -q -e soft_pt//u -o "$s/shared/t.data" -- "$s/shared/plain" $args 2>>"$s/shared/log"
	"$auxdecode" coverage --to lcov "$s/shared/t.data" 2>>"$s/shared/log" |
		awk '/^SF:/ { own = /shared[.]c$/ } own && /^DA:100,/' >"$s/shared/got"
	n=7
	[[ $args != *3* ]] || n=8
	[[ $args != *9* ]] || n=9
	is "$(cat "$s/shared/got")" "DA:100,$n" "a line in two functions counts in both (${args:-no} arguments)"
done

d=$s/flow/t.data
cover() { "$auxdecode" coverage "$@" "$d" 2>"$s/err"; }

# the result does not depend on workers, nor on the size of chunks
for to in summary lcov drcov afl; do
	cover --to $to -j1 >"$s/j1"
	cover --to $to -j3 --chunk-size 1000 >"$s/j3"
	that "$to: the same from 1 worker and from 3" - cmp -s "$s/j1" "$s/j3"
done
cover --module plain >"$s/table"
that "summary: the source, and main" "$s/table" \
	grep -q "cover_flow.c" "$s/table"
that "summary: a function's calls" "$s/table" \
	grep -qE " 177  fib  .*cover_flow.c:[0-9]+$" "$s/table"
cover --symbol fib --to lcov >"$s/fib"
that "--symbol: one function alone" "$s/fib" grep -q "^FNDA:177,fib" "$s/fib"
that "and no other" "$s/fib" grep -q "^FNDA:0,classify" "$s/fib"

# drcov: each block begins where some branch led or ended, all insns are in them
cover --to drcov -o "$s/t.drcov"
cover --to sancov -o "$s/san"
"$auxdecode" insn -F ip,dso "$d" >"$s/insn"
cat >"$s/blocks.py" <<'PY'
import struct, subprocess, sys
drcov, sancov, insn, program = sys.argv[1:5]
raw = open(drcov, "rb").read()
head, _, rest = raw.partition(b"BB Table: ")
count, _, table = rest.partition(b" bbs\n")
lines = head.decode().splitlines()
assert lines[0] == "DRCOV VERSION: 2" and lines[1].startswith("DRCOV FLAVOR: ")
n = int(lines[2].split("count ")[1])
mods = [l.split(", ") for l in lines[4:4 + n]]
assert len(mods) == n and len(table) == 8 * int(count)
bbs = list(struct.iter_unpack("<IHH", table))
own = [int(m[0]) for m in mods if m[6] == program][0]
base = int(mods[own][1], 16)
covered = set()
for start, size, mod in bbs:
    if mod == own:
        covered.update(range(start, start + size))
ran = set()
for l in open(insn):
    if l.startswith("#"):
        continue
    ip, dso = l.split()
    if dso == program:
        ran.add(int(ip, 16) - base)
assert ran and ran <= covered, len(ran - covered)
size = {}
for l in subprocess.run(["objdump", "-d", "--no-show-raw-insn", program],
                        capture_output=True, text=True).stdout.splitlines():
    a, sep, b = l.strip().partition(":\t")
    if sep:
        size[int(a, 16)] = None
over = [a for a in size if a in covered and a not in ran]
assert not over, [hex(a) for a in over]
s = open(sancov, "rb").read()
assert struct.unpack("<Q", s[:8])[0] == 0xC0BFFFFFFFFFFF64
pcs = [x[0] for x in struct.iter_unpack("<Q", s[8:])]
assert pcs == sorted(set(pcs)) and set(pcs) <= ran
assert set(pcs) == {b[0] for b in bbs if b[2] == own}
print(len(bbs), "blocks", len(pcs), "of the program")
PY
python3 "$s/blocks.py" "$s/t.drcov" "$s"/san/plain.*.sancov "$s/insn" "$s/flow/plain" >"$s/out" 2>&1
ok $? "drcov and sancov: just the instructions that ran: $(tail -n 1 "$s/out")" "$s/out"

# AFL: edges do not depend on where things are loaded
cover --to afl >"$s/a.map"
that "afl: EDGE:COUNT lines" "$s/a.map" \
	not grep -qvE '^[0-9]{6}:[0-9]{1,3}$' "$s/a.map"
"$auxcap" -e soft_pt//u -o "$s/again.data" -- "$s/flow/plain" >/dev/null 2>&1
"$auxdecode" coverage --to afl --module plain "$d" >"$s/a1" 2>&1
"$auxdecode" coverage --to afl --module plain "$s/again.data" >"$s/a2" 2>&1
that "afl: the same from another run" "$s/a2" cmp -s "$s/a1" "$s/a2"
that "afl: and there are some" "$s/a1" test "$(wc -l <"$s/a1")" -gt 30

# ... nor on what else happens between a branch and its target, here a PSB+ with its CBR
for n in 0 5; do
	"$auxcap" -e soft_pt/psb_period=$n/u -o "$s/psb$n.data" -- seq 3000 >/dev/null 2>&1
	"$auxdecode" coverage --to afl --module libc.so.6 "$s/psb$n.data" >"$s/psb$n.map" 2>&1
done
that "afl: the same with many PSBs" "$s/psb0.map" cmp -s "$s/psb0.map" "$s/psb5.map"
that "afl: and there are some in libc" "$s/psb0.map" test "$(wc -l <"$s/psb0.map")" -gt 100

# ... and those between files are all there, also into files that were mapped after the
# branch had run before: branch lists them, dump has the mappings. Of one process.
"$auxcap" -e soft_pt//u -o "$s/ls.data" -- /bin/ls / >/dev/null 2>&1
cat >"$s/afl.py" <<'PY'
import os, re, subprocess, sys
auxdecode, data = sys.argv[1:3]
run = lambda *a: subprocess.run([auxdecode, *a, data], capture_output=True, text=True).stdout
maps = [(int(a, 16), int(n, 16), int(o, 16), path) for a, n, o, path in
        re.findall(r"MMAP2 .*? addr (\S+) len (\S+) pgoff (\S+) .*?r-x ([/\[][^|]*) \|", run("dump"))]
M = (1 << 64) - 1
def place(ip):
    for a, n, o, path in maps:
        if a <= ip < a + n and (path.startswith("/") or path == "[vdso]"):
            h = 14695981039346656037
            for c in path.rsplit("/", 1)[-1].encode():
                h = (h ^ c) * 1099511628211 & M
            return ((h ^ (ip - a + o)) * 0x9e3779b97f4a7c15 & M) >> 48, path
    return None, None
counts = {}
rows = [l.split() for l in run("branch", "--not-taken", "-F", "kind,from,to").splitlines()
        if not l.startswith("#")]
for w in rows:
    if w[0] in ("on", "off", "syscall", "async"):
        continue
    (a, file), (b, to) = (place(int(x, 16)) if x != "-" else (None, None) for x in w[1:])
    if a is not None and b is not None and file != to:
        counts[a >> 1 ^ b] = counts.get(a >> 1 ^ b, 0) + 1
want = {e: min(n, 255) for e, n in counts.items()}
got = {int(e): int(n) for e, n in (l.split(":") for l in run("coverage", "--to", "afl", "-j1").split())}
bad = [(e, want[e], got.get(e)) for e in sorted(want) if e not in got]
print("\n".join(f"edge {e}: branch {w}, coverage {g}" for e, w, g in bad[:10]))
print(f"{len(want)} edges between files, {len(bad)} are missing")
sys.exit(bool(bad) or len(want) < int(sys.argv[3]))
PY
python3 "$s/afl.py" "$auxdecode" "$s/ls.data" 50 >"$s/out" 2>&1
ok $? "afl: the edges that branch lists: $(tail -n 1 "$s/out")" "$s/out"
# ... also where a signal came between a branch and its target
"$auxcap" -e soft_pt/step/u -o "$s/signals.data" -- "$programs/stack_signal" >/dev/null 2>&1
python3 "$s/afl.py" "$auxdecode" "$s/signals.data" 5 >"$s/out" 2>&1
ok $? "afl: the same with signals: $(tail -n 1 "$s/out")" "$s/out"

# merge
cover --to lcov -o "$s/one.info"
"$auxdecode" merge -o "$s/two.info" "$s/one.info" "$s/one.info" 2>"$s/err"
is $? 0 "merge of lcov files"
awk -F'[:,]' '$1 == "DA" { print $1 ":" $2 "," 2 * $3; next }
	$1 == "FNDA" { sub(/^FNDA:[0-9]+/, "FNDA:" 2 * $2) }
	$1 == "BRDA" && $5 != "-" { print $1 ":" $2 "," $3 "," $4 "," 2 * $5; next }
	{ print }' "$s/one.info" >"$s/want.info"
that "merge of lcov files: sums" "$s/err" cmp "$s/want.info" "$s/two.info"
"$auxdecode" merge -o "$s/u.drcov" "$s/t.drcov" "$s/t.drcov" 2>"$s/err"
that "merge of drcov files: a union" "$s/err" cmp "$s/u.drcov" "$s/t.drcov"
f=$(echo "$s"/san/plain.*.sancov)
"$auxdecode" merge -o "$s/u.sancov" "$f" "$f" 2>"$s/err"
that "merge of sancov files: a union" "$s/err" cmp "$s/u.sancov" "$f"
printf '000001:3\n000002:200\n' >"$s/m1"
printf '000001:7\n000005:1\n' >"$s/m2"
"$auxdecode" merge -o "$s/m" "$s/m1" "$s/m2" 2>"$s/err"
is "$(tr '\n' ' ' <"$s/m")" "000001:7 000002:200 000005:1 " "merge of AFL maps: the larger"
"$auxdecode" merge -o "$s/m" "$s/m1" "$s/one.info" >"$s/out" 2>&1
is $? 1 "merge refuses two formats"
for f in one.info t.drcov; do
	head -c $(($(stat -c %s "$s/$f") - 11)) "$s/$f" >"$s/cut"
	"$auxdecode" merge -o "$s/m" "$s/cut" "$s/$f" >"$s/out" 2>&1
	crashed $? && ok 1 "merge of a cut $f" "$s/out"
done
is "$(grep -c "cut" "$s/out")" 1 "merge of a cut drcov file says so"

# an empty result says what is missing, and what to do
strip -o "$s/bare" "$s/flow/plain"
"$auxcap" -e soft_pt//u -o "$s/bare.data" -- "$s/bare" >/dev/null 2>&1
"$auxdecode" coverage --module bare --to lcov "$s/bare.data" >"$s/out" 2>"$s/err"
is $? 1 "no debug information is an error where lines are asked for"
that "it names the file" "$s/err" grep -q "$s/bare" "$s/err"
that "and what to do" "$s/err" grep -q -- "-dbgsym" "$s/err"
"$auxdecode" coverage --module bare "$s/bare.data" >"$s/out" 2>"$s/err"
is $? 0 "without: functions and blocks by address"
that "what would show lines is said there, too" "$s/err" grep -q -- "-dbgsym" "$s/err"
is "$(awk '!/^#/ && !/ times / { n += $1 } END { print n }' "$s/out")" \
	"$("$auxdecode" count --module bare "$s/bare.data" | awk '/^total/ { print $3 }')" "what ran in them is all that ran"
is "$(awk '/ times / { n += $1 * $4 } END { print n }' "$s/out")" \
	"$(awk '!/^#/ && !/ times / { n += $1 } END { print n }' "$s/out")" "and so it is in their blocks"
nm "$s/flow/plain" | awk '$2 ~ /[tT]/ { sub(/^0+/, "", $1); print "0x" $1 }' | sort >"$s/nm"
awk '/\(called\)$/ { print $3 }' "$s/out" | sort >"$s/got"
is "$(comm -13 "$s/nm" "$s/got")" "" "each begins where a function of the file that was stripped does"
that "there are such" "$s/got" test -s "$s/got"
"$auxdecode" coverage --to html "$d" >"$s/out" 2>"$s/err"
is $? 2 "an unknown format"
"$auxdecode" coverage --to sancov "$d" >"$s/out" 2>"$s/err"
is $? 2 "sancov without a directory"

# files of one name: a program and its library
mkdir -p "$s/one" "$s/two"
echo 'int twice(int x) { return 2 * x; }' >"$s/two/same.c"
cat >"$s/one/same.c" <<'E'
#include <dlfcn.h>
int main(int argc, char **argv)
{
	void *lib = dlopen(argv[1], RTLD_NOW);
	int (*twice)(int) = lib ? (int (*)(int))dlsym(lib, "twice") : 0;
	return twice ? twice(argc) - 4 : 1;
}
E
gcc -shared -fPIC -o "$s/two/same" "$s/two/same.c" && gcc -o "$s/one/same" "$s/one/same.c" &&
	"$auxcap" -e soft_pt//u -o "$s/same.data" -- "$s/one/same" "$s/two/same" >"$s/err" 2>&1
ok $? "a program whose library has its name" "$s/err"
"$auxdecode" coverage --to sancov -o "$s/same" "$s/same.data" 2>"$s/err"
is $? 0 "sancov of both" || cat "$s/err"
one=$(echo "$s"/same/same.*.sancov) two=$(echo "$s"/same/2/same.*.sancov)
that "a file of each" "$s/err" test -s "$one" -a -s "$two"
that "which differ" "$s/err" not cmp -s "$one" "$two"
finish
