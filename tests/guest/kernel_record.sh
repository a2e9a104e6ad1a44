#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The part of tests/t_guest_kernel.sh that runs in the guest: shows where its kernel is, runs
# the program while kernel_step.py steps, and records, as pmu_sim replays it, what a CPU
# would have written of that. It judges nothing.
#
#	kernel_record.sh SECONDS
set -u
programs=$BUILD/tests/programs sim=/sys/kernel/debug/pmu_sim
rec=("$BUILD/auxcap" --kcore --per-thread -e "intel_pt/tsc=0/k")

limit=$((SECONDS + $1))
# wait_for COMMAND...: until it succeeds
wait_for() {
	until "$@"; do
		[ $SECONDS -lt $limit ] || exit 1
		sleep 0.2
	done
}

# While an event of a task is open, the kernel's scheduler has other code (static keys, which
# change a second after the last one was closed). One is open from before the steps until the
# recording has ended, so that what is recorded is the code that was stepped.
"${rec[@]}" -o /tmp/first.data -- sleep 10000 >/tmp/first.out 2>&1 &
first=$!
wait_for [ -s /tmp/first.data ]
sleep 2
cat /proc/kallsyms >"$OUT/kallsyms"
: >"$OUT/ready"
wait_for [ -e "$OUT/go" ]
"$programs/kernel_calls"
echo "program: $?"
wait_for [ -e "$OUT/stepped" ]
[ -s "$OUT/step.stream" ] || exit 1
cat "$OUT/step.stream" >$sim/replay
echo 1 >$sim/reset
"${rec[@]}" -o /tmp/kernel.data -- "$programs/kernel_calls"
echo "auxcap: $?"
kill -INT $first
wait $first
cp /tmp/kernel.data "$OUT/"
