#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The part of tests/t_guest_step.sh that runs in the guest: records what pmu_step
# single-steps, then what pmu_sim replays. It judges nothing; all goes to $OUT,
# NAME.* for each recording.
#
#	step.sh PMU_SIM.KO RECORDER:MODE:CASE...
#
# CASE apart: a program that only a mount namespace of its own has; crash_WAY: it ends so,
# with its core file, and lives it again under gdb.
# MODE: turns (four triggers, a thousand times each), cooled (one, with --cooldown), crash,
# window (--window, --per-thread), when (a call that takes long, by uprobes), cpu, thread (--per-thread), pid, pidthread, late (pidthread, when there are
# two threads), running (pid) and runthread (pidthread, when it waits for its line with
# three threads), pause (--per-thread, from umask to kill), all, snap, sched (cpu, while perf
# records the kernel's switches into NAME.sched). CASE: as in tests/record.sh, thread_exec, or
# waits: $OUT/waits.
set -u
export LC_ALL=C TZ=UTC PERF_CONFIG=/dev/null
BUILD=$(realpath "$BUILD")
auxcap=$BUILD/auxcap programs=$BUILD/tests/programs SCRATCH=/tmp/work
export programs
mkdir -p $SCRATCH || exit 2
# shellcheck source=../record.sh disable=SC2154
. tests/record.sh
busybox=/run/guest/bin/busybox
step=/sys/kernel/debug/pmu_step sim=/sys/kernel/debug/pmu_sim
event=intel_pt//u

# recorder TOOL MODE: sets rec
recorder() {
	case $1 in
	auxcap) rec=("$auxcap") ;;
	perf) rec=(perf record -B -N) ;;
	esac
	rec+=(-o "$data")
	[ "$2" = pause ] || [ "$2" = window ] || rec+=(-e "$event")
	case $2 in
	pause)
		rec+=(--per-thread -e intel_pt/aux-action=start-paused/u
			-e syscalls:sys_exit_umask/aux-action=resume/
			-e syscalls:sys_enter_kill/aux-action=pause/) ;;
	window) rec+=(--per-thread -e "$event" --window 'shop::till::ring') ;;
	thread | pidthread | late | runthread) rec+=(--per-thread) ;;
	all) rec+=(-a) ;;
	snap) rec+=(-Se) ;;
	when) rec+=(-Se -m ",4M" --when 'serve > 200ms') ;;
	turns) rec+=(-Se -m ",256K" --when 'shop::till::ring' --when 'shop::till::ring > 1ns'
		--when 'raw_syscalls:sys_enter/id == 62/' --when signal=USR1) ;;
	cooled) rec+=(-Se -m ",256K" --when 'shop::till::ring' --cooldown 20ms) ;;
	crash) rec+=(-S -m ",4M" --when crash) ;;
	esac
}

# A thread that is not the leader waits for a line, then execs.
thread_exec() {
	cmd=(python3 -c "
import os, sys, threading
def run():
    os.read(0, 1)
    os.execv(sys.argv[1], sys.argv[1:])
t = threading.Thread(target=run)
t.start()
t.join()" "$programs/hello_static")
}

# The shell that waits is in the namespace where the program is.
apart() {
	cmd=(/mnt/apart)
	# shellcheck disable=SC2016
	inside=(unshare -m sh -c 'mount -t tmpfs none /mnt && cp "$0" /mnt/apart && exec "$@"'
		"$programs/hello_static")
}

# Beside perf, which records from before the program begins until it has ended.
switches() { # FILE
	local bg rc
	rm -f $SCRATCH/{ask,answer}
	mkfifo $SCRATCH/{ask,answer}
	exec 5<>$SCRATCH/ask 6<>$SCRATCH/answer
	perf record -q -a -B -N -m 4M -e sched:sched_switch -e sched:sched_wakeup -o "$1" \
		--control "fifo:$SCRATCH/ask,$SCRATCH/answer" 5>&- 6>&- &
	bg=$!
	echo ping >&5
	read -r -t 120 -u 6 _ || echo "no answer of perf" >&2
	timeout -k 5 300 "${rec[@]}" -- "${cmd[@]}" 5>&- 6>&-
	rc=$?
	echo stop >&5
	wait $bg || echo "perf record: status $?" >&2
	exec 5>&- 6>&-
	return $rc
}

# reads PID: the shell is there
reads() {
	local i
	for ((i = 0; i < 1200; i++)); do
		[[ $(tr '\0' ' ' <"/proc/$1/cmdline") == "sh -c read "* ]] && return
		sleep 0.05
	done
	echo "the shell does not wait" >&2
}

# with_two_threads PID
with_two_threads() {
	local i tasks
	for ((i = 0; i < 1200; i++)); do
		tasks=(/proc/"$1"/task/*)
		[ ${#tasks[@]} = 2 ] && return
		sleep 0.1
	done
	echo "no second thread" >&2
}

# waits_for_line PID: three threads, and the first reads
waits_for_line() {
	local i tasks call
	for ((i = 0; i < 1200; i++)); do
		tasks=(/proc/"$1"/task/*)
		read -r call _ <"/proc/$1/syscall"
		[ "${#tasks[@]} $call" = "3 0" ] && return
		sleep 0.1
	done
	echo "it does not wait for a line" >&2
}

# The case's program waits, is attached to, and goes on when that is answered.
attach() { # MODE
	local pid bg rc
	rm -f $SCRATCH/{go,ask,answer}
	mkfifo $SCRATCH/{go,ask,answer}
	exec 5<>$SCRATCH/ask 6<>$SCRATCH/answer 7<>$SCRATCH/go
	if [ "$1" != pid ] && [ "$1" != pidthread ]; then
		"${cmd[@]}" <$SCRATCH/go 5>&- 6>&- 7>&- &
		pid=$!
		if [ "$1" = late ]; then with_two_threads $pid; else waits_for_line $pid; fi
	else
		# shellcheck disable=SC2016
		"${inside[@]}" sh -c 'read -r _ <"$0"; exec "$@"' $SCRATCH/go "${cmd[@]}" 5>&- 6>&- 7>&- &
		pid=$!
		reads $pid
	fi
	timeout -k 5 300 "${rec[@]}" --control fifo:$SCRATCH/ask,$SCRATCH/answer -p $pid \
		5>&- 6>&- 7>&- &
	bg=$!
	echo ping >&5
	read -r -t 120 -u 6 _ || echo "no answer of the recorder" >&2
	echo go >&7
	wait $pid
	wait $bg
	rc=$?
	exec 5>&- 6>&- 7>&-
	return $rc
}

# Snapshots while it runs, and one at its end.
snapshots() {
	local pid i
	"${rec[@]}" -- "${cmd[@]}" &
	pid=$!
	for ((i = 0; i < 600; i++)); do
		grep -q '^insns [1-9]' $step/stat && break
		sleep 0.05
	done
	for ((i = 0; i < 4; i++)); do
		kill -USR2 $pid 2>/dev/null || break
		sleep 0.2
	done
	wait $pid
}

# The same addresses in each run, and a stack that overflows soon.
crash() { # FILE
	(cd $SCRATCH && rm -f core* && ulimit -c unlimited && ulimit -s 512 &&
		timeout -k 5 300 setarch -R env -i "${rec[@]}" -- "${cmd[@]}") || return
	mv $SCRATCH/core* "$1.core"
}

# What is said of the end is what gdb sees when the program comes to it again, in this
# kernel: tests/crash_gdb.py. Its own debug information is of no use there, and slow.
live() { # FILE WAY
	local from=by_$2 hits=1 gdb=(gdb -nx -q -batch -iex 'set debug-file-directory /none') canary
	case $2 in
	abort | assert) from=gsignal ;;
	deep) hits=100 ;;
	esac
	# shellcheck disable=SC2016
	canary=$("${gdb[@]}" -iex 'set auto-solib-add off' -ex "core-file $1.core" \
		-ex 'printf "0x%lx\n", *(unsigned long *)($fs_base + 0x28)' 2>/dev/null | tail -n 1)
	"${auxcap%/*}/auxdecode" crash --json -n 40 --core "$1.core" "$1.data" |
		sed "1s/^{/{\"canary\":\"$canary\",/" >"$1.json"
	(ulimit -s 512 && CRASH_JSON=$1.json CRASH_FROM=$from CRASH_HITS=$hits timeout -k 5 100 \
		"${gdb[@]}" -ex 'unset environment' -x tests/crash_gdb.py --args "${cmd[@]}")
	echo "gdb: status $?"
}

one() { # RECORDER:MODE:CASE
	local tool mode case f=$SCRATCH/${1//:/-} mark
	IFS=: read -r tool mode case <<<"$1"
	data=$f.data inside=()
	case $case in
	thread_exec) thread_exec ;;
	apart) apart ;;
	waits) cmd=("$OUT/waits") ;;
	crash_*) cmd=("$programs/crashes" "${case#crash_}") ;;
	*) case_command "$case" ;;
	esac
	recorder "$tool" "$mode"
	mark=$EPOCHREALTIME
	echo 0 >$step/stat
	case $mode in
	pid* | late | run*) attach "$mode" ;;
	snap) snapshots ;;
	crash) crash "$f" ;;
	sched) switches "$f.sched" ;;
	*) timeout -k 5 300 "${rec[@]}" -- "${cmd[@]}" ;;
	esac >"$f.out" 2>"$f.log" </dev/null
	echo $? >"$f.status"
	cat $step/stat >"$f.stat"
	cat $step/truth >"$f.truth"
	[ "$mode" != crash ] || ! command -v gdb >/dev/null ||
		live "$f" "${case#crash_}" >"$f.live" 2>&1 </dev/null
	cp "$f".* "$OUT/" && rm "$f".*
	echo "# $1: $(((${EPOCHREALTIME/./} - ${mark/./}) / 1000)) ms"
}

# The guest's vDSO is not the host's: perf does not save it.
save_vdso() {
	local range
	range=$(sed -n 's/^\([0-9a-f]*-[0-9a-f]*\) .*\[vdso\]$/\1/p' /proc/$$/maps)
	dd if=/proc/$$/mem of="$OUT/vdso" bs=4096 skip=$((0x${range%-*} / 4096)) \
		count=$(((0x${range#*-} - 0x${range%-*}) / 4096)) status=none
}

# replay STREAM NAME ARGUMENT...: one stream of another recording, through the
# kernel to auxcap
replay() {
	local blob=$OUT/$1.stream f=$SCRATCH/$2
	shift 2
	cat "$blob" >$sim/replay
	echo 1 >$sim/reset
	timeout -k 5 300 "$auxcap" -o "$f.data" "$@" >"$f.out" 2>"$f.log" </dev/null
	echo $? >"$f.status"
	cat $sim/stat >"$f.stat"
	cp "$f".* "$OUT/"
}

sim_ko=$1
shift
save_vdso
echo core >/proc/sys/kernel/core_pattern
for c; do
	one "$c"
done
"$busybox" rmmod pmu_step || exit
"$busybox" insmod "$sim_ko" names=intel_pt payload=replay rate=1000000000 unit=1 || exit
replay untimed replay-thread --per-thread -e intel_pt/tsc=0/u -- "$programs/feature"
python3 tests/guest/kernel_flow.py "$OUT/kernel.stream" >"$OUT/kernel.names"
replay kernel replay-kernel --kcore --per-thread -e intel_pt/tsc=0/k -- "$programs/feature"
echo 1 >/sys/module/pmu_sim/parameters/replay_cpu
replay timed replay-cpu -a -e intel_pt/mtc=1,cyc=1/ -- sleep 0.2
dmesg | grep -E 'WARNING:|BUG:|Oops|detected stall|blocked for' >"$OUT/complaints"
:
