#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# auxcap list: what it prints can be copied into -e, and nothing to print is an
# error that says why.
. "$(dirname "$0")/lib.sh"

# run WANTED-STATUS COMMAND...
run() {
	local want=$1 rc
	shift
	timeout 300 "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	rc=$?
	is $rc "$want" "auxcap ${*:2}: status $want" || sed 's/^/#   /' "$SCRATCH/err"
}

has() { # PATTERN TEXT: in the output of the last run
	that "$2" "$SCRATCH/out" grep -Eq -- "$1" "$SCRATCH/out"
}

sysfs=/sys/bus/event_source/devices
if [ -d $sysfs ]; then
	run 0 "$auxcap" list
	has '^soft_pt//u ' "the software source is listed"
	has '^  page-faults .*software event, or faults' "software events, with their other names"
	has '^  cycles .*hardware event' "hardware events"
	for pmu in "$sysfs"/*; do
		name=$(basename "$pmu")
		has "^$name// .*type $(cat "$pmu/type")\>" "$name is listed with its type"
	done
	that "nothing on stderr" "$SCRATCH/err" test ! -s "$SCRATCH/err"
	for pmu in "$sysfs"/*/format; do
		[ -d "$pmu" ] || continue
		name=$(basename "$(dirname "$pmu")")
		run 0 "$auxcap" list "$name"
		for term in "$pmu"/*; do
			has "^  $name/$(basename "$term")(=N)?/ +$(cat "$term")\>" \
				"$name: its term $(basename "$term") with its bits"
		done
	done
	run 0 "$auxcap" list software//u
	has '^software// ' "the name of a PMU as -e takes it"
else
	skip "no perf events in this kernel" "auxcap list"
fi

run 0 "$auxcap" list cache
has '^  L1-dcache-load-misses ' "cache events"
run 0 "$auxcap" list software
that "each line is an event" "$SCRATCH/out" not grep -Ev '^  [a-z-]+ +software event' "$SCRATCH/out"
run 0 "$auxcap" list soft_pt//u
run 2 "$auxcap" list nonsense
that "it says what there is" "$SCRATCH/err" grep -q 'tracepoint, SUBSYSTEM' "$SCRATCH/err"
that "and prints nothing else" "$SCRATCH/out" test ! -s "$SCRATCH/out"

tracefs=$(awk '$3 == "tracefs" { print $2; exit }' /proc/mounts)
if [ -n "$tracefs" ] && [ -r "$tracefs/events/sched" ]; then
	run 0 "$auxcap" list sched:
	has '^  sched:sched_switch +tracepoint' "tracepoints of a subsystem"
	run 0 "$auxcap" list tracepoint
	has '^  sched: ' "the subsystems"
	run 1 "$auxcap" list nonsense:
	run 2 "$auxcap" list ../..:
else
	run 1 "$auxcap" list sched:
	that "why there are none" "$SCRATCH/err" grep -Eq 'mount|root' "$SCRATCH/err"
fi
finish
