#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# auxdecode diff: equal runs, runs that part, runs with gaps. What it says is checked
# against lists of what each recording ran, made by insn and branch.
. "$(dirname "$0")/lib.sh"
need_soft

under=()
record() { # FILE WORDS...
	local file=$1
	shift
	"${under[@]}" "$auxcap" -q -o "$file" "$@" >"$SCRATCH/recorded" 2>"$SCRATCH/err"
	that "recorded: $*" "$SCRATCH/err" test $? = 0 -o $? = 3
}
run_diff() { # WANTED-STATUS TEXT WORDS...
	local want=$1 text=$2 rc
	shift 2
	timeout 500 "$auxdecode" diff "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	rc=$?
	is $rc "$want" "$text: status $want" || head -n 20 "$SCRATCH/err" "$SCRATCH/out" | sed 's/^/#   /'
}
says() { # PATTERN TEXT [FILE]
	that "$2" "${3:-$SCRATCH/out}" grep -Eq -- "$1" "${3:-$SCRATCH/out}"
}

# ---- equal ----
# nothing in it depends on where its stack is, as string functions do
cat >"$SCRATCH/anywhere.c" <<'EOF'
static int collatz(unsigned n) { int i = 0; for (; n != 1; i++) n = n & 1 ? 3 * n + 1 : n / 2; return i; }
int (*volatile call)(unsigned) = collatz;
void _start(void)
{
	int sum = 0;
	for (unsigned i = 1; i < 50; i++)
		sum += call(i);
	__asm__ volatile("syscall" : : "a"(60), "D"(sum & 0) : "rcx", "r11", "memory");
	__builtin_unreachable();
}
EOF
${CC:-cc} -O1 -g -fPIE -static-pie -nostdlib -fno-stack-protector -fcf-protection=none \
	-fno-asynchronous-unwind-tables -o "$SCRATCH/anywhere" "$SCRATCH/anywhere.c" 2>"$SCRATCH/cc"
ok $? "a program that may be loaded anywhere" "$SCRATCH/cc"
one=$SCRATCH/one.data two=$SCRATCH/two.data
record "$one" -e soft_pt/step/u -- "$SCRATCH/anywhere"
record "$two" -e soft_pt/step/u -- "$SCRATCH/anywhere"
run_diff 0 "a recording and itself" "$one" "$one"
says '^thread [0-9]+ "anywhere" of A, thread [0-9]+ "anywhere" of B: equal, [0-9]+ instructions$' "itself: equal"
run_diff 0 "two runs of one program, wherever it was loaded" "$one" "$two"
says '^equal$' "two runs: equal, as the last line says"
echo "# loaded at: $("$auxdecode" insn -F ip -n 1 "$one" 2>/dev/null | tail -1) and $(
	"$auxdecode" insn -F ip -n 1 "$two" 2>/dev/null | tail -1)"

# ---- parting, and meeting again ----
a=$SCRATCH/a.data b=$SCRATCH/b.data
cat README.md decode/*/*.h decode/lib/*/*.h >"$SCRATCH/input"
head -c 9000 "$SCRATCH/input" >"$SCRATCH/text"
under=(setarch -R)	# at the same addresses
record "$a" -e soft_pt//u -- gzip -4 -c "$SCRATCH/text"
record "$b" -e soft_pt//u -- gzip -9 -c "$SCRATCH/text"
under=()
for x in a b; do
	"$auxdecode" insn -F ip,sym "${!x}" 2>/dev/null | grep -v '^#' >"$SCRATCH/$x.insns"
	"$auxdecode" branch -F kind,fromsym,tosym "${!x}" 2>/dev/null | grep -v '^#' >"$SCRATCH/$x.branches"
done
run_diff 3 "gzip -4 and gzip -9" -n 100000 "$a" "$b"
cp "$SCRATCH/out" "$SCRATCH/whole"
cat >"$SCRATCH/check.py" <<'EOF'
"""Plays the differences over the two lists; says what does not fit."""
import re
import sys
a, b = ([l.split()[0] for l in open(f)] for f in sys.argv[2:4])
assert len(set(a) & set(b)) > 1000, "not loaded at the same addresses"
i = j = n = 0
bad = []
for line in open(sys.argv[1]):
    m = re.match(r"@@ after (\d+) instructions of A and (\d+) of B @@", line)
    if m:
        x, y = map(int, m.groups())
        if x - i != y - j or a[i:x] != b[j:y]:
            bad.append(f"not equal before {x}, {y}")
        if x < len(a) and y < len(b) and a[x] == b[y]:
            bad.append(f"{x}, {y}: the same")
        i, j = x, y
    m = re.match(r"  (?:[AB] runs.*)(then they are equal again|to the end|and do not meet)", line)
    if m:
        n += 1
        skip = [0, 0]
        for side, count in re.findall(r"([AB]) runs (\d+) ", line):
            skip["AB".index(side)] = int(count)
        i, j = i + skip[0], j + skip[1]
        if "meet" in line:
            bad.append("they never meet again")
        if "equal" in line and a[i:i + 16] != b[j:j + 16]:
            bad.append(f"not equal again at {i}, {j}")
    m = re.match(r"(\d+) differences?$", line)
    if m and int(m.group(1)) != n:
        bad.append(f"{n} differences shown, of {m.group(1)}")
if a[i:] != b[j:]:
    bad.append("not equal in the end")
if n < 5:
    bad.append("too few differences to mean anything")
print("\n".join(bad[:10]))
sys.exit(bool(bad))
EOF
python3 "$SCRATCH/check.py" "$SCRATCH/whole" "$SCRATCH/a.insns" "$SCRATCH/b.insns" >"$SCRATCH/bad" 2>&1
ok $? "differences: equal up to each, and again behind it" "$SCRATCH/bad"

# Deltas by function: from the lists, by symbol.
deltas() { # COLUMN LIST-A LIST-B
	awk -v c="$1" '{ s = $c; sub(/\+0x[0-9a-f]+$/, "", s); n[s] += NR == FNR ? -1 : 1 }
		END { for (s in n) if (n[s] && s != "-") print n[s], s }' "$2" "$3" | sort
}
"$auxdecode" diff --only functions -n 100000 "$a" "$b" >"$SCRATCH/functions" 2>/dev/null
deltas 2 "$SCRATCH/a.insns" "$SCRATCH/b.insns" >"$SCRATCH/want"
awk '$1 ~ /^[+-][0-9]+$/ && $1 + 0 && ($7 !~ /^\[/ || $7 ~ /^\[.*\+0x/) { print $1 + 0, $7 }' "$SCRATCH/functions" |
	awk '{ n[$2] += $1 } END { for (s in n) if (n[s]) print n[s], s }' | sort >"$SCRATCH/got"
diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/differ"
ok $? "instructions by function: as insn lists them" "$SCRATCH/differ"
# code without symbols is the rest, and has functions, too
is "$(awk '$1 ~ /^[+-][0-9]+$/ { n += $1 } END { print n }' "$SCRATCH/functions")" \
	$(($(wc -l <"$SCRATCH/b.insns") - $(wc -l <"$SCRATCH/a.insns"))) "and all of them together"
# perhaps those without names: then there is nothing to compare with
that "some functions ran more" "$SCRATCH/functions" grep -qE '^ *[+-][1-9][0-9]* ' "$SCRATCH/functions"
that "the largest difference comes first" "$SCRATCH/functions" awk \
	'$1 ~ /^[+-][0-9]+$/ { v = $1 < 0 ? -$1 : $1 + 0; if (last != "" && v > last) exit 1; last = v }' "$SCRATCH/functions"
# a call: to a first instruction, by a call, or a jump from elsewhere
for x in a b; do
	awk 'function name(s) { sub(/\+0x[0-9a-f]+$/, "", s); return s }
		$3 ~ /\+0x0$/ && ($1 ~ /call$/ || ($1 ~ /jmp$/ && name($2) != name($3))) { print name($3) }' \
		"$SCRATCH/$x.branches" | sort | uniq -c | awk '{ print $2, $1 }' >"$SCRATCH/$x.calls"
done
awk '$1 ~ /^[+-][0-9]+$/ && $7 !~ /^\[/ { print $7, $5, $6 }' "$SCRATCH/functions" |
	while read -r name in_a in_b; do
		[ "$(grep -c " $name (" "$SCRATCH/functions")" = 1 ] || continue
		[ "$(awk -v s="$name" '$1 == s { print $2 }' "$SCRATCH/a.calls")" = "${in_a/#0/}" ] &&
			[ "$(awk -v s="$name" '$1 == s { print $2 }' "$SCRATCH/b.calls")" = "${in_b/#0/}" ] ||
			echo "$name $in_a $in_b"
	done >"$SCRATCH/bad"
that "calls by function: as branch lists them" "$SCRATCH/bad" test ! -s "$SCRATCH/bad"

# ---- parts, options ----
that "--only functions: no flow" - not grep -q '^@@' "$SCRATCH/functions"
run_diff 3 "--only flow" --only flow -n 2 "$a" "$b"
that "--only flow: no functions" - not grep -q 'calls' "$SCRATCH/out"
is "$(grep -c '^@@' "$SCRATCH/out")" 2 "-n 2: two differences"
for j in 1 3; do
	"$auxdecode" diff -j $j --chunk-size 4096 "$a" "$b" >"$SCRATCH/j$j" 2>/dev/null
done
that "-j does not change it" - cmp -s "$SCRATCH/j1" "$SCRATCH/j3"
record "$SCRATCH/threads.data" -e soft_pt//u -- "$programs/threads"
run_diff 0 "threads, with themselves" "$SCRATCH/threads.data" "$SCRATCH/threads.data"
n=$("$auxdecode" count "$SCRATCH/threads.data" | grep -c '^thread')
is "$(grep -c ': equal' "$SCRATCH/out")" "$n" "each thread is matched"
read -r -a tids <<<"$("$auxdecode" count "$SCRATCH/threads.data" | awk '$1 == "thread" { print $2 }' | tr '\n' ' ')"
run_diff 3 "--tid A:B" --tid "${tids[0]}:${tids[1]}" --only flow "$SCRATCH/threads.data" "$SCRATCH/threads.data"
says "^thread ${tids[0]} .*thread ${tids[1]} .*: differ" "--tid A:B: these two"
is "$(grep -c '^thread' "$SCRATCH/out")" 1 "--tid A:B: no other"
run_diff 0 "--tid T" --tid "${tids[1]}" --only flow "$SCRATCH/threads.data" "$SCRATCH/threads.data"
run_diff 1 "--tid of nobody" --tid 1 "$SCRATCH/threads.data" "$SCRATCH/threads.data"
says 'has no thread 1' "--tid of nobody: says so" "$SCRATCH/err"
run_diff 3 "threads that the other has not" "$SCRATCH/threads.data" "$one"
says 'of A alone' "threads of one alone are named"

# ---- gaps ----
record "$SCRATCH/gaps.data" -e soft_pt/psb_period=0/u --inject-overflow 2 -- gzip -4 -c "$SCRATCH/text"
run_diff 3 "with gaps" "$a" "$SCRATCH/gaps.data"
says '^\+ # gap overflow' "a gap is a difference"
says 'flow is missing' "and is told" "$SCRATCH/err"
run_diff 3 "gaps in both" "$SCRATCH/gaps.data" "$SCRATCH/gaps.data"

# ---- usage ----
run_diff 2 "one file" "$a"
says 'two FILEs' "one file: says what is wanted" "$SCRATCH/err"
run_diff 2 "standard input" "$a" -
run_diff 2 "--only nonsense" --only nonsense "$a" "$b"
run_diff 2 "--tid nonsense" --tid 1:x "$a" "$b"
run_diff 1 "a file that is not there" "$a" "$SCRATCH/absent"
echo nothing >"$SCRATCH/junk"
run_diff 1 "a file that is no recording" "$a" "$SCRATCH/junk"
finish
