#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A recorder killed at random moments leaves a file that perf and auxdecode open
# at once; repair completes it, perf's own killed files too, and only those.
. "$(dirname "$0")/lib.sh"
need_soft

out=$SCRATCH/repair
mkdir -p "$out"

kill_at() { # SECONDS FILE PROGRAM...: so long after the file has begun the recorder
	# dies, and what it ran
	local delay=$1 file=$2 pid i
	shift 2
	"$auxcap" -q -e soft_pt//u -o "$file" -- "$@" >/dev/null 2>&1 &
	pid=$!
	for ((i = 0; i < 6000; i++)); do
		[ -s "$file" ] && break
		sleep 0.05
	done
	sleep "$delay"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

n=0 n_open=0 n_repaired=0 n_same=0 n_idle=0 n_grew=0
for delay in 0 0.1 0.25 0.4 0.6 0.9; do
	f=$out/killed.$n.data
	# shellcheck disable=SC2016
	kill_at "$delay" "$f" sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'
	[ -s "$f" ] || continue
	n=$((n + 1))
	timeout 300 "$auxdecode" dump "$f" >"$out/dump" 2>&1
	crashed $? || n_open=$((n_open + 1))
	cp "$f" "$out/copy.data"
	"$auxcap" repair -n "$f" >"$out/dry" 2>&1
	cmp -s "$f" "$out/copy.data" && n_idle=$((n_idle + 1))
	"$auxcap" repair "$f" >"$out/repair.$n" 2>&1 && n_repaired=$((n_repaired + 1))
	if have perf; then
		perf script --no-itrace -D -i "$out/copy.data" 2>/dev/null |
			grep -c 'PERF_RECORD_AUXTRACE size' >"$out/before"
		perf script --no-itrace -D -i "$f" 2>"$out/perf.err" |
			grep -c 'PERF_RECORD_AUXTRACE size' >"$out/after"
		[ -s "$out/perf.err" ] ||
			[ "$(cat "$out/after")" -lt "$(cat "$out/before")" ] ||
			n_grew=$((n_grew + 1))
	fi
	cp "$f" "$out/copy.data"
	"$auxcap" repair "$f" >"$out/again" 2>&1 &&
		grep -q 'nothing to repair' "$out/again" &&
		cmp -s "$f" "$out/copy.data" && n_same=$((n_same + 1))
done
that "the recorder was killed in mid-run" - [ "$n" -ge 4 ]
is "$n_open" "$n" "auxdecode opens what it left"
is "$n_idle" "$n" "repair -n changes nothing"
is "$n_repaired" "$n" "repair completes it"
is "$n_same" "$n" "once"
if have perf; then
	is "$n_grew" "$n" "perf reads it without a word, and nothing is missing"
else
	skip "no perf here"
fi

perf_killed() { # OPTION...: its recording of a busy program, with more than a few KB
	local pid kids i
	rm -f "$out/perf.data"
	# shellcheck disable=SC2016
	perf record -q "$@" -m 4 -F 2000 -e cpu-clock:u -o "$out/perf.data" -- \
		sh -c 'i=0; while [ $i -lt 30000000 ]; do i=$((i+1)); done' >/dev/null 2>&1 &
	pid=$!
	for ((i = 0; i < 3000; i++)); do	# it takes its time to begin
		[ "$(stat -c %s "$out/perf.data" 2>/dev/null || echo 0)" -gt 8000 ] && break
		sleep 0.1
	done
	mapfile -t kids < <(pgrep -P "$pid")
	kill -9 "$pid" "${kids[@]}"
	wait "$pid" 2>/dev/null
}

perf_reads() { # TEXT FILE
	perf script --show-mmap-events -i "$2" >"$out/log" 2>&1
	that "$1: perf script reads it" "$out/log" grep -q PERF_RECORD_MMAP "$out/log"
	that "$1: and the samples" "$out/log" grep -q cpu-clock "$out/log"
	# A killed perf wrote no feature; how many CPUs there were is not for us to guess.
	grep -v 'is missing HEADER_NRCPUS' "$out/log" >"$out/complaints"
	that "$1: without complaint" "$out/log" not grep -qiE 'warn|error' "$out/complaints"
}

if have perf && perf record -q -e cpu-clock:u -o "$out/perf.data" -- true >/dev/null 2>&1; then
	perf_killed
	"$auxcap" repair -o "$out/mended.data" "$out/perf.data" >"$out/log" 2>&1
	is $? 0 "perf's own killed file is repaired into another"
	perf_reads "perf's own killed file" "$out/mended.data"
	# this one does not say for how much room must be made
	perf_killed -z
	"$auxcap" repair "$out/perf.data" >"$out/log" 2>&1
	is $? 0 "perf's own killed file of -z is repaired" || sed 's/^/#   /' "$out/log"
	perf_reads "perf's own killed file of -z" "$out/perf.data"
else
	skip "no perf here, or it may not record"
fi

"$auxcap" repair "$0" >"$out/log" 2>&1
is $? 1 "another file is refused"
that "with the reason" "$out/log" grep -q 'not a perf.data' "$out/log"
finish
