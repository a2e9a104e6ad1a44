#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Snapshots: by signal at random moments, by command, at the end; each exact.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

mkfifo pause commands answers
exec 8<>pause 5<>commands 6<>answers
RANDOM=${SEED:=$$}
note "SEED=$SEED"

# Some moment of the next 60 ms; no process is started for it.
some_moment() { read -r -t "0.0$((RANDOM % 6))$((RANDOM % 10))" -u 8; }

# shoot PID: SIGUSR2, and until it is taken (a second one would be merged)
shoot() {
	local i key value
	kill -USR2 "$1"
	for ((i = 0; i < 2000; i++)); do
		while read -r key value; do
			[ "$key" = ShdPnd: ] && break
		done <"/proc/$1/status" 2>/dev/null || return
		[ $((16#${value:-0} & 0x800)) = 0 ] && return
		read -r -t 0.01 -u 8
	done
	return 1
}

series() { # PID N
	local i
	for ((i = 0; i < $2; i++)); do
		some_moment
		shoot "$1" || note "signal $i was not taken"
	done
}

# Both head conventions: Intel PT's offset in the area, and CoreSight's counter.
for pmu in intel_pt// cs_etm/@tmc_etr0/; do
	name=${pmu%%/*}
	sim rate=2000000 unit=16
	rec_bg "$name" -e "$pmu" -a -Se -m ,64K
	series "$bg" 50
	kill -INT "$bg"
	rec_end 0 "$name: 50 snapshots" &&
		proven "$name" "$name: 50 snapshots by SIGUSR2, one at the end" -n 51 -m 65536 -w
	is "$(field snapshots) $(field overlap)" "102 0" "$name: of both CPUs each, no overlap"
	read_by_both "$name: 50 snapshots"
	# an offset in the area does not tell how often it was filled
	[ "$name" = intel_pt ] && continue
	awk '/^overwritten/ { split($3, l, "="); split($5, r, "="); if (l[2] != r[2]) exit 1 }' \
		"$log"
	ok $? "$name: a counting head tells exactly what was overwritten" "$log"
done
# How perf fares, with as many signals at as random moments.
sim rate=2000000
perf record -q -B -N -e intel_pt// -a -S -m,64K -o p.data >"$out" 2>&1 &
bg=$!
running intel_pt || note "perf did not start"
series "$bg" 50
kill -INT "$bg"
wait "$bg"
bg=
cat "$sim/stat" "$sim/sessions" >"$st"
timeout 300 "$auxcheck" -p intel_pt -m 65536 -w p.data "$st" >"$log" 2>&1
note "perf record -S, the same: $(field snapshots) of 100 saved, overlap $(field overlap) bytes," \
	"$(grep -c '^offence size' "$log") cut short," \
	"$(awk '/^snapshot/ && !/zeros=0 / { n++ } END { print n + 0 }' "$log") with bytes never written"

### odd sizes; an area that is never full; more CPU than one per task

sim rate=1999993 unit=1
rec_bg aux_sim -e aux_sim// -C 1 -S -m ,16K
series "$bg" 12
kill -INT "$bg"
rec_end 0 "odd sizes" && proven aux_sim "odd sizes, small area" -n 12 -w
sim rate=500000
rec_bg aux_sim -e aux_sim// -C 0 -S -m ,4M
series "$bg" 5
kill -INT "$bg"
rec_end 0 "a large area" && proven aux_sim "an area that is never full" -n 5 -m 4194304 -w
is "$(field bytes)" "$(awk -F '[ =]' '/^snapshot/ { n = $15 } END { print n }' "$log")" \
	"an area that is never full: the snapshots are the whole trace"

### by command, with labels, and at the end

ask() { # COMMAND: the answer is in $said
	echo "$1" >&5
	read -r -t 30 -u 6 said
}
bash -c busy_on &
target=$!
sim rate=2000000
rec_bg intel_pt -e intel_pt//u -p $target -Se -m ,64K --control fifo:commands,answers
for ((i = 1; i <= 10; i++)); do
	some_moment
	ask "snapshot label $i"
	[ "$said" = ack ] || note "snapshot $i: '$said'"
	[ $((i % 4)) != 0 ] || taskset -pc $((i / 4 % 2)) $target >/dev/null
done
some_moment
kill -INT "$bg"
rec_end 0 "by command" && proven intel_pt "10 by command, one at the end; of a process" -n 11
is "$(sed -n 's/^label number=\([0-9]*\) reason=\([0-9]\) .* text=/\1 \2 /p' "$log")" \
	"$(for ((i = 1; i <= 10; i++)); do echo "$i 2 label $i"; done; echo "11 3 ")" \
	"each has its label and its reason"
read_by_both "by command"
kill $target
wait $target 2>/dev/null
kernel_quiet "snapshots"
echo "done"
