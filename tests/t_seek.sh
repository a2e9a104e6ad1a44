#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A part of a recording is what the whole shows there: by time, by chunks, and of
# the end; threads and processes, per CPU and per thread, Intel PT and CoreSight,
# snapshots, recordings whose times go back.
. "$(dirname "$0")/lib.sh"
need_soft

a64=$programs/aarch64
data=$SCRATCH/seek.data

# ns FILE: the times of the lines of insn
ns() { awk '!/^#/ { sub(/\./, "", $1); print $1 }' "$1"; }

# part FROM TO SIZE: the lines of the whole that are in the time
part() {
	awk -v from="$1" -v to="$2" '
		/^#/ { print; next }
		{ t = $1; sub(/\./, "", t); if (t + 0 >= from && t + 0 <= to) print }' "$SCRATCH/whole.$3"
}

# insn ARGS...: the lines, or none
insn() {
	timeout 500 "$auxdecode" insn -F time,cpu,pid,tid,ip "$@" 2>"$SCRATCH/err"
	[ $? = 0 ] || [ -s "$SCRATCH/err" ]
}

# between FILE FROM TO: for several sizes of chunks and numbers of threads
between() {
	local size j
	for size in 7000 262144; do
		part "$2" "$3" $size >"$SCRATCH/want"
		for j in 1 2 3; do
			insn --time "${2}ns,${3}ns" --chunk-size $size -j $j "$1" >"$SCRATCH/got"
			cmp "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/why" 2>&1 && continue
			[ "$(grep -vc '^#' "$SCRATCH/want")" = 0 ] && [ "$(grep -vc '^#' "$SCRATCH/got")" = 0 ] && continue
			echo "--time ${2}ns,${3}ns --chunk-size $size -j $j" >>"$SCRATCH/why"
			return 1
		done
	done
}

# times FILE: parts of all sizes
times() {
	local n at to i bad=0
	for i in 7000 262144; do
		insn --chunk-size $i "$1" >"$SCRATCH/whole.$i"
	done
	ns "$SCRATCH/whole.7000" | sort -n -u >"$SCRATCH/ns"
	n=$(wc -l <"$SCRATCH/ns")
	for i in 0 1 3 6 9; do
		at=$(sed -n "$((n * i / 10 + 1))p" "$SCRATCH/ns")
		to=$(sed -n "$((n * (i + 2) / 12 + 1))p" "$SCRATCH/ns")
		[ "$to" -ge "$at" ] || to=$at
		between "$1" "$at" "$to" && between "$1" $((at - 1)) $((at + 1)) && continue
		bad=1
		break
	done
	ok $bad "$2: any time: $n times" "$SCRATCH/why"
}

# last FILE TEXT: the end of it, which is all from its time on
last() {
	local first bad=0 d
	for d in 1us 100us 10ms; do
		insn --chunk-size 7000 --last $d "$1" >"$SCRATCH/got"
		first=$(ns "$SCRATCH/got" | sort -n | head -n 1)
		[ -n "$first" ] || continue
		part "$first" 99999999999999999999 7000 >"$SCRATCH/want"
		cmp "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/why" 2>&1 || bad=1
	done
	[ -n "$first" ] || bad=1
	ok $bad "$2: the last of it" "$SCRATCH/why"
}

# chunks FILE TEXT SIZE: each alone, together all. Many are empty.
chunks() {
	local n=0 i bad=0
	"$auxdecode" count --cpu 0 --chunk-size "$3" "$1" 2>"$SCRATCH/err" | grep '^stream 0' >"$SCRATCH/want"
	for ((i = 0; i < 80; i++)); do
		"$auxdecode" count --cpu 0 --chunk-size "$3" --chunk $i -j $((i % 2 + 1)) "$1" 2>"$SCRATCH/err" |
			grep '^stream 0' >"$SCRATCH/got" && n=$((n + $(awk '{ print $4 }' "$SCRATCH/got")))
	done
	is "$n" "$(awk '{ print $4 }' "$SCRATCH/want")" "$2: the sum of all chunks is the whole"
	"$auxdecode" count --cpu 0 --chunk-size "$3" --chunk 0-80 "$1" 2>"$SCRATCH/err" | grep '^stream 0' >"$SCRATCH/got"
	cmp "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/why" || bad=1
	ok $bad "$2: all chunks are the whole" "$SCRATCH/why"
}

# record TEXT EVENT PROGRAM [OPTION...]
record() {
	rm -f "$data"
	timeout 500 "$auxcap" -e "$2" -o "$data" "${@:4}" -- $3 >"$SCRATCH/out" 2>"$SCRATCH/log" </dev/null
	[ $? = "${STATUS:-0}" ]
	ok $? "$1 is recorded: $2 ${*:4}" "$SCRATCH/log"
}

both() {
	times "$data" "$1"
	last "$data" "$1"
}

record "threads" soft_pt/tsc,mtc,cyc,psb_period=0/u "$programs/threads" && {
	both "threads, per CPU"
	chunks "$data" "threads, per CPU" 500
}
record "threads" soft_pt/tsc,mtc,cyc,psb_period=1/u "$programs/threads" --per-thread &&
	both "threads, per thread"
record "processes" soft_pt/tsc,psb_period=0/u "$programs/forkexec" && both "processes"

if [ -x "$a64/threads" ] && [ -z "$(no_emulation)" ]; then
	record "aarch64" soft_etm/sync_period=8/u "$a64/threads" && both "aarch64"
	record "aarch64, raw" soft_etm/ete,raw/u "$a64/threads" --per-thread && both "aarch64, raw"
	record "aarch64 processes" soft_etm/sync_period=8/u "$a64/forkexec" && both "aarch64 processes"
else
	skip "hardware: no aarch64 programs, or $(no_emulation)"
fi

for same in "0.00005 50us" "1 1s" "2.5 2500ms"; do
	# shellcheck disable=SC2086
	set -- $same
	"$auxdecode" count --last "$1" "$data" >"$SCRATCH/got" 2>/dev/null
	"$auxdecode" count --last "$2" "$data" >"$SCRATCH/want" 2>/dev/null
	cmp -s "$SCRATCH/want" "$SCRATCH/got"
	ok $? "--last $1 is that of $2: seconds" "$SCRATCH/got"
done
for bad in 0 0us -1ms 5x 1,5 0.5ns ""; do
	"$auxdecode" count --last "$bad" "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 2 "--last '$bad' is refused"
done
for bad in 3-2 -1 1- x 1-2-3 ""; do
	"$auxdecode" count --chunk "$bad" "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 2 "--chunk '$bad' is refused"
done
finish
