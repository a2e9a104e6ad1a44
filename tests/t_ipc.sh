#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# hot's cycles and instructions per cycle, against the CYC packets that perf lists,
# those that `raw` lists, and the instructions that count gives: all of them are
# some function's, or told to be nobody's. The clock of a software-made trace ticks
# once per instruction, so IPC is 1, of the program and of each function.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

# Cycles of the packets, as perf prints them (-D) and as raw does.
perf_cycles() {
	perf script -D -i "$data" 2>/dev/null | python3 -c '
import re, sys
print(sum(int(m[1], 0) for m in (re.search(r"\bCYC (0x[0-9a-f]+)\s*$", l) for l in sys.stdin) if m))'
}
raw_cycles() { "$auxdecode" raw "$data" 2>/dev/null | awk '$2 == "cyc" { n += $3 } END { printf "%d", n }'; }

# FILE of hot: cycles of its last lines that begin with "# TEXT".
told() { sed -n "s/^# $2:.*[ ,]\([0-9]*\) cycles.*/\1/p" "$1"; }

# hot by cycles, with all it says: $rows functions, $all, $gap, $off and $none
take() {
	"$auxdecode" hot --by cycles -n 100000000 "$@" "$data" >"$SCRATCH/by_cycles" 2>"$SCRATCH/err"
	status=$?
	rows=$(awk '!/^#/ { n += $1 } END { printf "%d", n }' "$SCRATCH/by_cycles")
	all=$(told "$SCRATCH/by_cycles" 'all functions')
	gap=$(told "$SCRATCH/by_cycles" 'lost in gaps') off=0 n=
	for n in 'in the kernel' 'filtered' 'not traced'; do
		n=$(told "$SCRATCH/by_cycles" "$n")
		off=$((off + ${n:-0}))
	done
	none=$(told "$SCRATCH/by_cycles" 'in no function yet')
}

check() { # TEXT STATUS [rough]
	local text=$1 want insns
	want=$(perf_cycles)
	that "$text: there are cycles" - test "$want" -gt 10000
	is "$(raw_cycles)" "$want" "$text: cycles of all packets, as perf lists them"
	take
	is "$status" "$2" "$text: status"
	is "$rows" "$all" "$text: cycles of the functions are those of all functions"
	is $((${all:-0} + ${gap:-0} + ${off:-0} + ${none:-0})) "$want" "$text: functions, gaps and what was not traced: nothing is lost"
	insns=$("$auxdecode" count "$data" 2>/dev/null | sed -n 's/^total insns \([0-9]*\).*/\1/p')
	is "$(sed -n 's/^# all functions: \([0-9]*\) instructions .*/\1/p' "$SCRATCH/by_cycles")" "$insns" \
		"$text: instructions are those of count"
	is "$(sed -n 's/^# all functions: .* IPC //p' "$SCRATCH/by_cycles")" \
		"$(awk "BEGIN { printf \"%.2f\", $insns / $all }")" "$text: IPC is the one by the other"
	awk "BEGIN { r = $insns / $all; exit r < 0.97 || r > 1.03 }"
	ok $? "$text: which is 1 ($insns instructions, $all cycles)"
	"$auxdecode" hot -n 100000000 "$data" >"$SCRATCH/by_insns" 2>/dev/null
	# name and file make a row; functions of equal name are told apart by nothing
	awk 'FNR == 1 { file++ } /^#/ { next }
		{ k = $8; for (i = 9; i <= NF; i++) k = k " " $i }
		file == 1 { cycles[k] = $1; n[k]++; next }
		n[k] == 1 { want = cycles[k] ? sprintf("%.2f", $1 / cycles[k]) : "-"
			if ($7 != want) { print want, $0; bad = 1 } rows++ }
		END { print rows; exit bad || rows < 20 }' "$SCRATCH/by_cycles" "$SCRATCH/by_insns" >"$SCRATCH/diff"
	ok $? "$text: IPC of each function is own instructions by own cycles" "$SCRATCH/diff"
	[ "${3:-}" = rough ] && return
	awk '!/^#/ && $1 >= 1000 { n++; if ($7 < 0.8 || $7 > 1.25) { print; bad = 1 } } END { print n; exit bad || n < 3 }' \
		"$SCRATCH/by_insns" >"$SCRATCH/diff"
	ok $? "$text: about 1 for each function with 1000 instructions ($(tail -n 1 "$SCRATCH/diff"))" "$SCRATCH/diff"
}

if ! have perf; then
	ok 1 "perf is there (tools/deps)"
	finish
fi
for case in threads_few feature_few ls pipe; do
	record "$case" cyc,tsc
	check "$case" 0 exact
	cp "$SCRATCH/by_cycles" "$SCRATCH/want"
	take -j2 --chunk-size 4096
	diff "$SCRATCH/want" "$SCRATCH/by_cycles" >"$SCRATCH/diff"
	ok $? "$case: the same with two workers" "$SCRATCH/diff"
done
record ls cyc,psb_period=0,mtc,cyc_thresh=4
check "ls, few CYC" 0 rough
record ls cyc,psb_period=0 --inject-overflow 3
check "overflow" 3 rough
that "overflow: cycles that were lost are told" "$SCRATCH/by_cycles" test "${gap:-0}" -gt 0

# Without cycles there is nothing to divide by.
record ls tsc,cyc=0
"$auxdecode" hot "$data" >"$SCRATCH/out" 2>/dev/null
that "no CYC: no IPC" "$SCRATCH/out" not grep -q 'IPC\|cycles' "$SCRATCH/out"
finish
