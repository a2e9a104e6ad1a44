#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# latency and find beside durations that awk computes from the instructions: a call
# begins with the first instruction of the function behind a call, and ends with the
# one behind its ret. And what they say of calls that are not whole, of an empty
# result and of wrong options.
. "$(dirname "$0")/lib.sh"
need_soft

here=$SCRATCH/find
mkdir -p "$here"
data=$here/data

# make_data PROGRAM TERMS [ARG...]
make_data() {
	local program=$1 terms=$2
	shift 2
	STACK_TRUTH=$here/truth timeout 500 "$auxcap" -e "soft_pt/$terms/u" -o "$data" -- \
		"$programs/$program" "$@" >"$here/out" 2>"$here/log" </dev/null
	ok $? "$program, soft_pt/$terms/: recorded" "$here/log"
	"$auxdecode" insn -F tid,time,ip,sym,insn "$data" >"$here/insns" 2>"$here/log"
}

# calls_of NAME: "TID TIME NS INSNS CALLER" of each call, in the order of their ends
calls_of() {
	awk -v name="$1" '
	function ns(t,   p) { split(t, p, "."); return p[1] % 1000000 * 1000000000 + p[2] }
	/^#/ { next }
	{
		sym = $4; sub(/\+0x[0-9a-f]+$/, "", sym)
		tid = $1
		if (ret[tid]) {
			d = --depth[tid]
			began = start[tid, d]
			printf "%d %s %d %d %s\n", tid, began, ns($2) - ns(began),
				n[tid] - at[tid, d], caller[tid, d]
		}
		if ($4 == name "+0x0" && call[tid]) {
			d = depth[tid]++
			start[tid, d] = $2; at[tid, d] = n[tid]; caller[tid, d] = last[tid]
		}
		n[tid]++
		ret[tid] = sym == name && ($5 == "ret" || $5 == "repz")
		call[tid] = $5 == "call"
		last[tid] = sym
	}' "$here/insns"
}

# same_calls NAME: find shows those that awk found
same_calls() {
	calls_of "$1" >"$here/want"
	"$auxdecode" find -F tid,time,dur,insns,caller "$1" "$data" >"$here/got.all" 2>"$here/err"
	grep -v '^#' "$here/got.all" >"$here/got"
	diff "$here/want" "$here/got" >"$here/diff"
	ok $? "find $1: $(wc -l <"$here/want") calls with awk's times and instructions" "$here/diff"
	that "$1 was called" "$here/err" test -s "$here/want"
}

# number WHAT: the number behind a word in latency's output by instructions
number() { sed -nE "s/.*(^| )$1 ([0-9,]+).*/\2/p" "$here/lat" | head -n 1 | tr -d ,; }

# same_sums NAME: latency has the sums and percentiles of awk's calls, by instructions
same_sums() {
	local want p got
	calls_of "$1" | awk '{ print $4 }' | sort -n >"$here/want"
	"$auxdecode" latency --by insns "$1" "$data" >"$here/lat" 2>"$here/err"
	is "$(number calls)" "$(wc -l <"$here/want")" "latency $1: calls"
	is "$(number min)" "$(head -n 1 "$here/want")" "latency $1: min"
	is "$(number max)" "$(tail -n 1 "$here/want")" "latency $1: max"
	is "$(number mean)" "$(awk '{ s += $1 } END { print int(s / NR) }' "$here/want")" \
		"latency $1: mean"
	for p in 50 90 99 99.9; do
		want=$(awk -v p=$p '{ v[NR] = $1 } END {
			r = int(NR * p / 100); if (r < NR * p / 100 - 1e-9) r++
			print v[r ? r : 1] }' "$here/want")
		got=$(number "p$p")
		that "latency $1: p$p is $got, of sorted calls $want" "$here/lat" \
			test "${got:-0}" -ge "$want" -a $((${got:-0} * 64)) -le $((want * 65))
	done
	# the rows hold all calls, each those between its bounds
	awk -F'[ |%]+' 'FNR == NR { v[n++] = $1; next }
		/^ +[0-9,]+ - [0-9,]+ .*%/ {
			gsub(/,/, ""); split($0, w, /[ |%]+/); c = 0
			for (i = 0; i < n; i++) c += v[i] >= w[2] && v[i] < w[4]
			if (c != w[5]) { print "row:", $0, "has", c; bad = 1 }
			sum += w[5]
		}
		END { if (sum != n) { print "rows:", sum, "calls:", n; bad = 1 }; exit bad }' \
		"$here/want" "$here/lat" >"$here/diff"
	ok $? "latency $1: each row has the calls between its bounds" "$here/diff"
}

make_data stack_recurse cyc=1
for name in fib add compare dive ackermann; do same_calls $name; done
for name in fib add dive; do same_sums $name; done

# Conditions, beside awk on the calls that are known now.
counts() { "$auxdecode" find --count "$@" "$data" 2>"$here/err" | grep -v '^#'; }
calls_of fib >"$here/fib"
limit=$(sort -n -k3 "$here/fib" | awk '{ v[NR] = $3 } END { print v[int(NR / 2)] }')
is "$(counts --longer "${limit}ns" fib)" "$(awk -v l="$limit" '$3 >= l' "$here/fib" | wc -l)" \
	"--longer ${limit}ns"
is "$(counts --shorter "${limit}ns" fib)" "$(awk -v l="$limit" '$3 < l' "$here/fib" | wc -l)" \
	"--shorter $limit"
is "$(counts --longer "$(awk -v l="$limit" 'BEGIN { printf "%d.%09d", l / 1e9, l % 1e9 }')" fib)" \
	"$(counts --longer "${limit}ns" fib)" "--longer in seconds"
is "$(counts --by insns --longer 500 fib)" "$(awk '$4 >= 500' "$here/fib" | wc -l)" \
	"--by insns --longer 500"
is "$(counts --caller main fib)" "$(grep -c 'main$' "$here/fib")" "--caller main"
is "$(counts --from main fib)" "$(wc -l <"$here/fib")" "--from main: anywhere above"
is "$(counts --caller fib --from main fib)" "$(grep -c 'fib$' "$here/fib")" "--caller fib --from main"
is "$(counts --from dive fib)" 0 "--from dive: none"
is "$(counts 'is_*')" "$(($(calls_of is_even | wc -l) + $(calls_of is_odd | wc -l)))" "a glob"
is "$(counts '/^is_(odd|even)$/')" "$(counts 'is_*')" "a regular expression"
from=$(sed -n 40p "$here/fib" | cut -d' ' -f2)
to=$(sed -n 80p "$here/fib" | cut -d' ' -f2)
[[ $from < $to ]] || { swap=$from from=$to to=$swap; }
is "$(counts --time "$from,$to" fib)" \
	"$(awk -v a="$from" -v b="$to" '$2 "" >= a "" && $2 "" <= b ""' "$here/fib" | wc -l)" \
	"--time: calls that began in it, with their callers"
is "$("$auxdecode" find -n 3 fib "$data" 2>/dev/null | grep -vc '^#')" 3 "-n 3"
"$auxdecode" find -j1 fib "$data" >"$here/one" 2>/dev/null
"$auxdecode" find -j3 --chunk-size 1 fib "$data" >"$here/three" 2>/dev/null
that "-j does not change a byte" - cmp -s "$here/one" "$here/three"

# The command that latency gives shows that call.
"$auxdecode" latency -n 1 ackermann "$data" >"$here/lat" 2>/dev/null
see=$(sed -n 's/^  auxdecode \(calls .*\)/\1/p' "$here/lat")
eval "\"\$auxdecode\" $see" >"$here/calls" 2>/dev/null
that "the command that is given shows the call" "$here/calls" grep -q ackermann "$here/calls"
is "$("$auxdecode" latency -n 3 add "$data" 2>/dev/null | grep -c '^[0-9]*\. ')" 3 "latency -n 3: the three slowest"
is "$("$auxdecode" find -F see --caller main fib "$data" 2>/dev/null | grep -v '^#' | sed 's/ --tid.*//')" \
	"auxdecode calls --time $(awk '$5 == "main" { print $2 }' "$here/fib"),$(awk '/main$/ { split($2, p, "."); printf "%d.%09d", p[1] + int((p[2] + $3) / 1e9), (p[2] + $3) % 1e9 }' "$here/fib")" \
	"find -F see: from the call's begin to its end"

# What ran inside of the slowest call.
tree() { awk '/^ +total +(self|own) +calls/ { on = 1; next } on { sub(/  #.*/, "") } on && NF == 4 { gsub(/,/, ""); print }' "$here/lat"; }
"$auxdecode" latency --by insns -n 1 twice "$data" >"$here/lat" 2>/dev/null
is "$(tree | head -n 1 | awk '{ print $1, $3, $4 }')" \
	"$(calls_of twice | awk '{ print $4, 1, "twice" }' | sort -n | tail -n 1)" \
	"the tree's first line is the slowest call"
is "$(tree | awk '$4 == "add" || $4 == "sub" { n += $3 } END { print n }')" 2 \
	"what it called is there, with how often"
is "$(tree | awk 'NR > 1 && $1 + 0 < $2 + 0')" '' "none took more itself than in all"

# An empty result is an error that says where everything went.
empty() { # TEXT PATTERN OPTION...
	local text=$1 pattern=$2 rc
	shift 2
	"$auxdecode" "$@" "$data" >"$here/out" 2>"$here/err"
	rc=$?
	is $rc 1 "$text: exit status 1"
	that "$text: $pattern" "$here/err" grep -q -e "$pattern" "$here/err"
}
empty "no such function" 'near to it: .*ackermann' latency akermann
empty "no such function" 'near to it: .*ackermann' find akermann
n=$(wc -l <"$here/fib")
empty "too long" "nothing to show: of $n calls $n took less than --longer$" find --longer 100s fib
empty "not from there" "nothing to show: of $n calls $n not below --from$" find --from dive fib
empty "with -v a table" "^  took less than --longer *$n$" find -v --longer 100s fib
empty "no such caller" '--caller: no function "div" ran; near to it: dive' find --caller div fib
usage() { # TEXT PATTERN OPTION...
	local text=$1 pattern=$2 rc
	shift 2
	"$auxdecode" "$@" >"$here/out" 2>"$here/err"
	rc=$?
	is $rc 2 "$text: exit status 2"
	that "$text: $pattern" "$here/err" grep -q -- "$pattern" "$here/err"
}
usage "latency of nothing" 'latency wants a function' latency "$data"
usage "a bad time" '--longer wants a time' find --longer 1parsec fib "$data"
usage "a time by insns" 'wants a number' find --by insns --longer 1ms fib "$data"
usage "a bad measure" '--by is time, insns or cycles' latency --by colour fib "$data"
usage "a bad expression" 'no regular expression' find '/fib(/' "$data"
usage "a bad column" '-F of find takes' find -F colour fib "$data"

# Damage: what is then still said to be whole is a call that there was, with its
# duration and its instructions; the others are told apart.
make_data stack_recurse psb_period=0
"$auxdecode" find -F time,dur,insns,sym,state "$data" 2>/dev/null | grep ' whole$' | sort >"$here/want"
size=$(stat -c %s "$data")
n_gap=0 n_wrong=0 n_whole=0
cp "$data" "$here/undamaged"
for at in 40 50 60 70 80; do
	cp "$here/undamaged" "$data"
	yes ab | head -c 90 | tr 'ab\n' '\003\377\005' |
		dd of="$data" bs=1 seek=$((size * at / 100)) conv=notrunc status=none
	"$auxdecode" find -F time,dur,insns,sym,state "$data" >"$here/damaged" 2>"$here/err"
	grep -q '^auxdecode: [0-9]* gaps* in' "$here/err" || ok 1 "no gap at $at%" "$here/err"
	grep ' whole$' "$here/damaged" | sort >"$here/got"
	n_gap=$((n_gap + $(grep -cE ' (gap|guessed|before)$' "$here/damaged")))
	n_whole=$((n_whole + $(wc -l <"$here/got")))
	comm -13 "$here/want" "$here/got" >"$here/diff"
	n_wrong=$((n_wrong + $(wc -l <"$here/diff")))
	[ -s "$here/diff" ] && head -n 3 "$here/diff" | sed "s/^/#   $at%: /"
done
is $n_wrong 0 "damaged in 5 places: $n_whole whole calls are true, $n_gap are told apart"
that "there are both" - test $n_whole -gt 1000 -a $n_gap -gt 5
"$auxdecode" latency dive "$data" >"$here/lat" 2>"$here/err"
is "$(sed -nE 's/^ +# not in it: ([0-9,]+) with .*/\1/p' "$here/lat" | tr -d , | awk '{ s += $1 } END { print s + 0 }')" \
	"$(grep ' dive ' "$here/damaged" | grep -vc ' whole$')" "latency tells the same ones apart"
mv "$here/undamaged" "$data"

# Calls that longjmp leaves, calls without an end.
make_data stack_jump ''
"$auxdecode" latency dig "$data" >"$here/lat" 2>"$here/err"
that "calls that longjmp left are counted, and it is said" "$here/lat" \
	grep -q 'left by longjmp or an exception' "$here/lat"
make_data stack_recurse ''
is "$("$auxdecode" find -F state leave_for_good "$data" 2>/dev/null | sort -u | grep -v '^#')" running \
	"calls of what never returns: still running"
empty "latency of them" 'none of its calls is whole, such as 6 with "still running at the end"; .auxdecode find' latency leave_for_good
"$auxdecode" latency --symbol main "$data" >"$here/lat" 2>"$here/err"
that "main does not return: not in the histogram" "$here/err" grep -q 'nothing to show' "$here/err"
# ---- --sort: as sort(1) does it ----
make_data stack_random tsc,mtc,cyc 7
"$auxdecode" find -F time,dur,self,insns,sym "$data" 2>/dev/null | grep -v '^#' >"$here/rows"
sorted() { # KEY SORT-OPTIONS
	local key=$1
	shift
	sort -s "$@" "$here/rows" >"$here/want"
	"$auxdecode" find -F time,dur,self,insns,sym --sort "$key" "$data" 2>"$here/err" | grep -v '^#' >"$here/got"
	that "find --sort $key" "$here/err" cmp -s "$here/want" "$here/got"
	"$auxdecode" find -F time,dur,self,insns,sym --sort "$key" -n 7 "$data" 2>"$here/err" | grep -v '^#' >"$here/got"
	that "find --sort $key -n 7: the first of them" "$here/err" cmp -s <(head -n 7 "$here/want") "$here/got"
}
sorted dur -k2,2nr
sorted self -k3,3nr
sorted insns -k4,4nr
sorted start -k1,1n
"$auxdecode" find --sort dur -n 3 "$data" 2>/dev/null >"$here/got"
that "for people it is said what -n left out" "$here/got" grep -qE "^# 3 of $(wc -l <"$here/rows") calls; -n shows more$" "$here/got"
is "$(grep -vc '^#' "$here/got")" 3 "and there are three"
"$auxdecode" find -n 3 "$data" 2>/dev/null >"$here/got"
that "without --sort it is said which -n takes" "$here/got" grep -q '^# the first of them, as they ended; the longest: --sort dur$' "$here/got"
"$auxdecode" find --json --sort dur -n 3 "$data" 2>/dev/null >"$here/got"
is "$(python3 -c 'import json, sys
v = [c["ns"] for c in json.load(sys.stdin)["calls"]]
print(len(v), v == sorted(v, reverse=True))' <"$here/got")" "3 True" "--json is sorted, too"

finish
