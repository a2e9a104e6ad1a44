#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Other events pause and resume the trace (aux-action, Linux 6.13): nothing is made
# while it is paused, all that is made is in the file. An older kernel: the advice.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# bash makes both system calls itself, and nothing else in here does.
resume="syscalls:sys_exit_umask/aux-action=resume/"
pause="syscalls:sys_enter_kill/aux-action=pause/"

# refused TEXT ARGUMENT...: it says what is needed, before the file is touched
refused() {
	local text=$1 rc
	shift
	rm -f "$data"*		# other parts rotate theirs
	echo precious >"$data"
	timeout 300 "$auxcap" -o "$data" "$@" -- true >"$out" 2>"$err" </dev/null
	rc=$?
	[ $rc = 1 ] && grep -q 'aux-action.*needs a kernel and a PMU that can pause: Linux 6.13' "$err"
	ok $? "$text: refused, with what it needs (status $rc)" "$err"
	is "$(cat "$data"*)" precious "$text: no file was touched"
	rm -f "$data"*
}

if ! printf '%s\n6.13\n' "$(uname -r)" | sort -V | head -n 1 | grep -qx 6.13; then
	refused "start-paused" -e aux_sim/aux-action=start-paused/u
	refused "pause" -e aux_sim//u -e "$pause"
	refused "resume in braces" -e "{intel_pt//u,$resume}"
	kernel_quiet "pause"
	echo "done"
	exit
fi
refused "a PMU that cannot pause, paused" -e cs_etm/@tmc_etr0,aux-action=start-paused/u
refused "a PMU that cannot pause" -e cs_etm/@tmc_etr0/u -e "$pause"

# Says how much was made at each moment, of all CPUs.
cat >phases.sh <<-'END'
	count() {
		local lines line
		n=0
		mapfile -t lines <"$sim/stat"
		for line in "${lines[@]}"; do
			[[ $line != "$pmu".cpu*.produced* ]] || n=$((n + ${line##* }))
		done
	}
	made() { count; printf '%s ' $n >>moments; }
	# Until more was made: 60 s at most.
	busy_more() {
		local was=$n i
		for ((i = 0; i < 1000 && n <= was; i++)); do
			busy 60
			count
		done
	}
	for ((i = 0; i < rounds; i++)); do
		busy 40
		made
		umask 022
		busy_more
		made
		kill -0 $$
		made
	done
	busy 40
	made
END
export sim pmu rounds

# phases PMU ROUNDS WANT TEXT ARGUMENT...: $moments. With buffers per CPU each CPU
# has an event that is paused for itself: on stays on one.
on=(taskset -c 1)
phases() {
	local want=$3 text=$4
	pmu=$1 rounds=$2
	shift 4
	: >moments
	rec "$want" "$text" "$@" -- "${on[@]}" bash phases.sh && proven "$pmu" "$text"
	read -ra moments <moments
}

# stands_still TEXT: nothing is made before a resume and after a pause; else there is
stands_still() {
	local i was=0 bad=
	for ((i = 0; i + 2 < ${#moments[@]}; i += 3)); do
		[ "${moments[i]}" = "$was" ] || bad+=" made while paused: $was ${moments[i]}"
		[ "${moments[i + 2]}" -gt "${moments[i]}" ] || bad+=" nothing made: ${moments[i]}"
		was=${moments[i + 2]}
	done
	[ "${moments[i]:-}" = "$was" ] || bad+=" made after the last pause"
	is "$i$bad" $((3 * rounds)) "$1: made from resume to pause, and not else: ${moments[*]}"
}

for name in aux_sim intel_pt; do
	sim rate=3000000
	phases $name 4 0 "$name" -e $name/aux-action=start-paused/u -e "$resume" -e "$pause"
	stands_still "$name"
	is "$(counted $name resumes) $(counted $name pauses) $(counted $name lost)" "4 4 0" \
		"$name: four times each"
done
timeout 300 "$auxdecode" info "$data" >"$out" 2>"$err"
ok $? "intel_pt: auxdecode reads it" "$err"
timeout 300 perf script --no-itrace -i "$data" -F event 2>/dev/null | grep -c sys_ >"$out"
is "$(cat "$out")" 8 "the events that paused and resumed are in the file"
sim rate=3000000
phases intel_pt 2 0 "in braces" -e "{intel_pt/aux-action=start-paused/u,$resume,$pause}"
stands_still "in braces"

on=()
sim rate=3000000
phases aux_sim 2 0 "--per-thread" --per-thread -e aux_sim/aux-action=start-paused/u -e "$resume" -e "$pause"
stands_still "--per-thread"
on=(taskset -c 1)

# As the first round, but that it runs from the beginning.
sim rate=3000000
phases aux_sim 2 0 "not paused at first" -e aux_sim//u -e "$resume" -e "$pause"
[ "${moments[0]}" -gt 0 ] && [ "${moments[2]}" = "${moments[3]}" ] && [ "${moments[4]}" -gt "${moments[3]}" ]
ok $? "not paused at first: ${moments[*]}"
is "$(counted aux_sim resumes) $(counted aux_sim pauses)" "1 2" "not paused at first: resumed once"

# A full area: the recorder restarts the event. With one that cannot start the
# kernel leaves out its whole group, and so may miss a pause.
sim rate=60000000
phases intel_pt 6 3 "overrun" -e intel_pt/aux-action=start-paused/u -e "$resume" -e "$pause" -m ,16K
is "${moments[0]}" 0 "overrun: nothing is made before the first resume"
[ "$(field lost)" -gt 0 ] && [ "$(times truncated)" -gt 0 ]
ok $? "overrun: $(field lost) bytes lost in $(times truncated) losses, in the ledger" "$log"

# Snapshots of a paused trace: what there was.
sim rate=1000000
phases aux_sim 1 0 "snapshot at the end, paused" -e aux_sim/aux-action=start-paused/u \
	-e "$resume" -e "$pause" -Se -m ,1M
is "$(field bytes)" "${moments[3]}" "snapshot at the end, paused: all that was made"

# Of a CPU: only what happens there counts.
sim rate=1000000
phases aux_sim 2 0 "-C 1" -e aux_sim/aux-action=start-paused/ -e "$resume" -e "$pause" -C 1
stands_still "-C 1"
kernel_quiet "pause"
echo "done"
