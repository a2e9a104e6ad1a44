#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Full trace: all targets, rates up to saturation, wraps, every kind of loss.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

### names, and of whom

for pmu in aux_sim// intel_pt// cs_etm/@tmc_etr0/; do
	name=${pmu%%/*}
	sim rate=3000000 unit=16
	rec 0 "$name -a" -e "$pmu" -a -- bash -c 'busy 200' && proven "$name" "$name -a"
	[ "$name" = aux_sim ] || read_by_both "$name -a"
	sim rate=3000000 unit=16
	rec 0 "$name launch" -e "${pmu}u" -- bash -c 'busy 200' && proven "$name" "$name launch"
done

sim rate=5000000
rec 0 "-C 1" -e aux_sim// -C 1 -- bash -c 'busy 200' && proven aux_sim "-C 1"
that "-C 1: nothing of CPU 0" "$st" grep -q '^aux_sim.cpu0.produced 0$' "$st"

# -p: two threads' worth of processes are there before, and go on after
bash -c busy_on &
target=$!
sim rate=5000000
rec_bg aux_sim -e aux_sim// -p $target
sleep 0.3
kill -INT "$bg"
rec_end 0 "-p" && proven aux_sim "-p"
sim rate=5000000
rec_bg aux_sim -e aux_sim// -t $target --per-thread
for cpu in 0 1; do
	taskset -pc $cpu $target >/dev/null
	grows aux_sim $cpu
done
kill -INT "$bg"
rec_end 0 "-t --per-thread, over CPUs" && proven aux_sim "-t --per-thread, over CPUs"
both=$(grep -c '^source cpu' "$log")
is "$both" 2 "-t --per-thread, over CPUs: one stream has both CPUs' bytes"
kill $target
wait $target 2>/dev/null

# fork and exec, inherited, hopping from CPU to CPU
cat >hop.sh <<-'END'
	for i in 0 1 0 1; do
		taskset -pc $i $$ >/dev/null
		busy 30
		(busy 30; exec bash -c 'busy 30') &
		bash -c 'busy 20'
	done
	wait
END
sim rate=4000000
rec 0 "fork, exec, migration" -e intel_pt//u -- bash hop.sh &&
	proven intel_pt "fork, exec, migration"
read_by_both "fork, exec, migration"
sim rate=4000000
rec 0 "forkexec" -e aux_sim//u -- "$programs/forkexec" && proven aux_sim "forkexec"
sim rate=4000000
rec 0 "threads" -e aux_sim//u -- "$programs/threads" && proven aux_sim "threads"

### rates, up to where nobody can follow; and on from there

for rate in 10000000 50000000 400000000; do
	sim rate=$rate
	rec '0|3' "$((rate / 1000000)) MB/s" -e aux_sim// -a -m ,2M -- sleep 0.25 &&
		proven aux_sim "$((rate / 1000000)) MB/s on 2 CPUs"
	rc=0
	grep -q '; nothing lost$' "$err" || rc=3
	# A PMU that ends on a full area says so without having lost a byte, and one that
	# cannot begin anew for want of room stops without a record. Where the host gave the guest's
	# CPU no time for 4 ms just then, that is suspected, and said, without having been so.
	is "$rc" "$({ [ $(($(field lost) + $(counted aux_sim truncated) + $(counted aux_sim begin_failed))) -gt 0 ] ||
			grep -q 'PMU had stopped silently' "$err"; } && echo 3 || echo 0)" \
		"$((rate / 1000000)) MB/s: said to be lossy exactly if it is" ||
		note "$(tail -n 1 "$err")"
done
# Small areas overflow however fast the reader is: it must go on each time.
sim rate=50000000
rec 3 "overrun" -e aux_sim// -a -m ,64K -- sleep 0.4 && proven aux_sim "overrun, 64K"
is "$(awk -F '[ =]' '/^source/ && $13 > 0 { n++ } END { print n + 0 }' "$log")" 2 \
	"overrun, 64K: on both CPUs it went on behind losses"
note "auxcap: $(field bytes) of $(field produced) bytes in $(times truncated) losses"
sim rate=50000000
timeout 300 perf record -q -B -N -e intel_pt// -a -m,64K -o p.data -- sleep 0.4 >"$out" 2>&1
cat "$sim/stat" "$sim/sessions" >"$st"
timeout 300 "$auxcheck" -p intel_pt p.data "$st" >"$log" 2>&1
note "perf record, the same: $(field bytes) of $(field produced) bytes in the file"
awk -F '[ =]' '/^source/ { print "#   cpu " $3 ": " $5 " bytes, " $11 " losses" }' "$log"

### wraps, odd sizes

sim rate=2000000 unit=1
rec '0|3' "wraps" -e aux_sim// -a -m ,16K -- sleep 0.5 && proven aux_sim "wraps of 16K, odd sizes"
sim rate=999983 unit=1 tick_us=700
rec '0|3' "odd sizes" -e intel_pt//u -m ,64K -- bash hop.sh && proven intel_pt "odd sizes, tasks"
sim rate=3000017 unit=3 tick_us=333
rec '0|3' "unit 3" -e aux_sim// -a -m ,64K -- sleep 0.3 && proven aux_sim "multiples of 3"

### what the PMU says itself

for flag in 4:partial 8:collision; do
	sim rate=2000000
	echo "${flag%:*} 3 1000" >"$sim/inject"
	rec 3 "${flag#*:}" -e intel_pt// -a -- sleep 0.3 && proven intel_pt "${flag#*:}"
	is "$(times "${flag#*:}") $(field skipped)" "6 6000" "${flag#*:}: six, of 1000 bytes each"
done
read_by_both "collision"
sim rate=60000000 mute=Y
rec 3 "stops without a word" -e aux_sim// -a -m ,64K -- sleep 0.5 &&
	proven aux_sim "stops without a word"
[ "$(times stalled)" -gt 0 ]
ok $? "stops without a word: $(times stalled) are in the ledger" "$log"

kernel_quiet "full trace"
echo "done"
