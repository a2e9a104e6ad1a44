#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# hot: blocks against what `insn` lists, edges against what `branch` lists, one by
# one, with our engine, the reference and several workers; functions against the
# symbols of all instructions.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

hot() { "$auxdecode" hot "$@" "$data" 2>"$SCRATCH/err"; }
all=100000000

# What there is to count: address and executions; kind, from, to and how often.
reference() {
	"$auxdecode" insn -F ip "$data" 2>/dev/null | awk '!/^#/ { n[$1]++ } END { for (k in n) print k, n[k] }' >"$SCRATCH/insns"
	"$auxdecode" branch -F kind,from,to "$data" 2>/dev/null |
		awk '!/^#/ { n[$0]++ } END { for (k in n) print k, n[k] }' | sort >"$SCRATCH/branches"
}

# Each address is in exactly as many executions of blocks as it ran; a block has as
# many instructions as there are addresses between its ends.
blocks='
import sys, bisect
want = {int(a, 16): int(n) for a, n in map(str.split, open(sys.argv[1]))}
same = sys.argv[2] == "same" # no address ever had other code
ips, got, bad = sorted(want), {}, []
for line in sys.stdin:
    if line[0] == "#":
        continue
    insns, share, runs, n, ends = line.split()[:5]
    first, last = (int(x, 16) for x in ends.split("-"))
    inside = ips[bisect.bisect_left(ips, first):bisect.bisect_right(ips, last)]
    if int(insns) != int(runs) * int(n) or (len(inside) != int(n) if same else len(inside) < int(n)):
        bad.append(line)
    if same:
        for ip in inside:
            got[ip] = got.get(ip, 0) + int(runs)
    else:
        got[first] = got.get(first, 0) + int(insns)
if same:
    bad += [(hex(ip), want[ip], got.get(ip)) for ip in ips if got.get(ip) != want[ip]]
elif sum(want.values()) != sum(got.values()):
    bad.append((sum(want.values()), sum(got.values())))
for b in bad[:20]:
    print(b)
sys.exit(len(bad) != 0 or not want)'

kinds() { awk '{ n[$1] += $4 } END { for (k in n) print k, n[k] }' | sort; }

check() { # TEXT same|other [OPTION...]
	local text=$1 code=$2
	shift 2
	hot --blocks -n $all "$@" | python3 -c "$blocks" "$SCRATCH/insns" "$code" >"$SCRATCH/diff" 2>&1
	ok $? "$text: blocks: each instruction as often as insn lists it" "$SCRATCH/diff"
	hot --edges -n $all "$@" | awk '!/^#/ { f = $4; t = $5; sub(/^0x0*/, "", f); sub(/^0x0*/, "", t); n[$3 " " f " " t] += $1 }
		END { for (k in n) print k, n[k] }' | sort >"$SCRATCH/edges"
	if [ $code = same ]; then
		diff "$SCRATCH/branches" "$SCRATCH/edges" >"$SCRATCH/diff"
	else # what two processes share is one: kind by kind
		diff <(kinds <"$SCRATCH/branches") <(kinds <"$SCRATCH/edges") >"$SCRATCH/diff"
	fi
	[ $? = 0 ] && [ -s "$SCRATCH/edges" ]
	ok $? "$text: edges: each branch as often as branch lists it ($(wc -l <"$SCRATCH/branches"))" "$SCRATCH/diff"
}

for case in hello_asm threads_few forkexec feature_few jit_once pipe ls; do
	record "$case" ''
	[ $status = 0 ] || { ok 1 "$case: auxcap ends with $status" "$log"; continue; }
	reference
	code=same
	case $case in jit_once|pipe) code=other ;; esac
	check "$case" $code
	check "$case, two workers" $code -j2 --chunk-size 4096
	if [ -n "$(no_libipt)" ]; then
		skip "$(no_libipt)" "$case, libipt"
	else
		check "$case, libipt" $code -j1 --decoder libipt
	fi
done
is "$(hot --blocks -j2 --chunk-size 1000 | sha256sum)" "$(hot --blocks -j1 | sha256sum)" "the same text with any number of workers"
is "$(hot --edges -j2 --chunk-size 1000 | sha256sum)" "$(hot --edges -j1 | sha256sum)" "and of edges"
is "$(hot --blocks | grep -vc '^#')" 25 "25 lines"
is "$(hot --blocks -n 7 | grep -vc '^#')" 7 "-n 7: 7 lines"
n=$(hot --blocks -n $all | grep -vc '^#')
that "what is not shown is told" "$SCRATCH/err" grep -q "^# 25 of $n blocks" <(hot --blocks)
hot --blocks -n $all | grep -v '^#' | awk '$1 > last && NR > 1 { bad = 1 } { last = $1 } END { exit bad }'
ok $? "most first"
hot --edges -n $all | awk -v insns="$SCRATCH/insns" 'BEGIN { while ((getline <insns) > 0) runs[$1] = $2 }
	/^#/ || $3 != "cond" { next }
	{ f = $4; sub(/^0x0*/, "", f); want = sprintf("%.2f", 100 * $1 / runs[f]); n++ }
	want != $2 { print; bad = 1 }
	END { exit bad || !n }' >"$SCRATCH/diff"
ok $? "the share of a conditional branch is taken by executed" "$SCRATCH/diff"

# Functions: a function's own is what ran while it was on top: nearly what lies
# inside of its symbol, but for code that one runs on into from another.
for case in ls feature_few; do
	record "$case" ''
	total=$("$auxdecode" count "$data" 2>/dev/null | sed -n 's/^total insns \([0-9]*\).*/\1/p')
	hot --stubs -n $all >"$SCRATCH/hot"
	is "$(awk '!/^#/ { s += $1 } END { printf "%d", s }' "$SCRATCH/hot")" "$total" "$case: own of all functions is all"
	"$auxdecode" insn -F sym "$data" 2>/dev/null | sed '/^#/d; s/+0x[0-9a-f]*$//; s/^-$/[none]/' |
		awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' | sort >"$SCRATCH/want"
	awk 'NR == FNR { named[$1]; next }
		!/^#/ { k = $7; if (!(k in named)) k = "[none]"; n[k] += $1 }
		END { for (k in n) print k, n[k] }' "$SCRATCH/want" "$SCRATCH/hot" |
		sort | join -a1 -a2 -e0 -o0,1.2,2.2 "$SCRATCH/want" - |
		awk '{ d = $2 - $3; if (d < 0) { d = -d; print } s += d; t += $2 }
			END { print s, t; exit s > t / 20 }' >"$SCRATCH/diff"
	ok $? "$case: own of each is what ran in its symbol: $(tail -n 1 "$SCRATCH/diff" | awk '{ printf "%.2f %% differ", 100 * $1 / $2 }')" "$SCRATCH/diff"
	"$auxdecode" flame --per all "$data" >"$SCRATCH/folded" 2>/dev/null
	awk -v hot="$SCRATCH/hot" '
		{ n = split($1, f, ";"); split("", seen)
		  for (i = 1; i <= n; i++) if (!(f[i] in seen)) { seen[f[i]] = 1; t[f[i]] += $2 } }
		END { while ((getline line <hot) > 0) {
			split(line, v, " ")
			if (line ~ /^#/ || v[7] ~ /@plt$/ || !(v[7] in t)) continue
			if (++n > 40) break
			names++
			if (t[v[7]] < v[3] * 0.98 || t[v[7]] > v[3] * 1.05) { print v[7], v[3], t[v[7]]; bad++ } }
		exit bad > names / 10 || names < 20 }' "$SCRATCH/folded" >"$SCRATCH/diff"
	ok $? "$case: total of a function is that of all stacks with it" "$SCRATCH/diff"
done
name=$(hot -n 1 | awk '!/^#/ { print $7 }')
is "$(hot --symbol "$name" | awk '!/^#/ { print $7 }')" "$name" "--symbol: one function"
is "$(hot --blocks --symbol "$name" -n $all | awk '!/^#/ { sub(/\+0x.*/, "", $6); print $6 }' | sort -u)" "$name" "--symbol: blocks in it"
hot -v --blocks --symbol no_such_function >"$SCRATCH/out"
is "$?" 1 "a symbol that nothing has: status 1"
that "and a table of what was dropped" "$SCRATCH/err" grep -q 'in other functions' "$SCRATCH/err"
for bad in '--by money' '--blocks --edges' '--blocks --by time'; do
	# shellcheck disable=SC2086
	hot $bad >"$SCRATCH/out"
	is "$?" 2 "$bad: usage"
done
finish
