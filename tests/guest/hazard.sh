#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The same hazards in every way to record: CPUs that go while a program is recorded,
# auxcap stopped or killed with snapshots, compression or several files, disks that are
# full from the first byte or for one of the files, limits, readers that leave, other
# namespaces. Each byte is in the file or in the ledger, and what ends with 0 has lost
# nothing.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

RANDOM=${SEED:=$$}
note "SEED=$SEED"
cpu1=/sys/devices/system/cpu/cpu1/online

# finish WANT TEXT: $bg ends with it; 0 means that nothing is missing
finish() {
	rec_end "$1" "$2"
	proven "$pmu" "$2, status $1" "${earlier[@]}"
	[ "$1" != 0 ] || is "$(field missing) $(grep -c 'lost:' "$err")" "0 0" \
		"$2: nothing is missing, and nothing is said to be"
}
earlier=()

# begin PMU ARGUMENT...: in the background, when its PMU runs
begin() {
	pmu=$1
	rm -f "$data"*
	rec_bg "$@"
}

# several: the newest of several files is $data, the others are $earlier
several() {
	local f files=("$data".2*)
	earlier=()
	[ -e "${files[0]}" ] || return
	if [ ! -e "$data" ]; then
		mv "${files[-1]}" "$data"
		unset 'files[-1]'
	fi
	for f in "${files[@]}"; do earlier+=(-f "$f"); done
}

### a program's CPU goes, and comes back

mkfifo here back

# A task's events stay with it, but who ran on that CPU is not known from its end
# until it is watched again.
for how in "" "--per-thread" "-Se"; do
	sim rate=300000
	# shellcheck disable=SC2086
	rm -f stop
	begin aux_sim -e aux_sim//u $how -- bash -c 'taskset -pc 1 $$ >/dev/null; busy 200
		echo >here; read -r _ <back; taskset -pc 1 $$ >/dev/null; busy_until stop'
	read -r _ <here
	echo 0 >$cpu1
	sleep 0.2
	echo 1 >$cpu1
	echo >back
	grows aux_sim 1
	ok $? "a program${how:+, $how}: traced on CPU 1 when that is back"
	: >stop
	if [ "$how" = --per-thread ]; then want=0; else want=3; fi
	finish $want "a program${how:+, $how}, CPU 1 offline"
	[ $want = 0 ] || that "a program${how:+, $how}: the verdict names it" "$err" \
		grep -q 'the CPU was offline' "$err"
done
sim rate=500000
begin intel_pt -e intel_pt// -a
for ((i = 0; i < 5; i++)); do
	sleep "0.0$((RANDOM % 10))"
	echo 0 >$cpu1
	sleep "0.0$((RANDOM % 10))"
	echo 1 >$cpu1
done
sleep 0.3
kill -INT "$bg"
finish 3 "-a, CPU 1 offline five times"
that "-a, CPU 1 offline five times: the verdict names it" "$err" grep -q 'the CPU was offline' "$err"

### auxcap does not run

for how in "" "--per-thread" "-z"; do
	sim rate=20000000
	# shellcheck disable=SC2086
	rm -f stop
	begin intel_pt -e intel_pt//u $how -m ,128K -- taskset -c 1 bash -c 'busy_until stop'
	kill -STOP "$bg"
	until_counted intel_pt truncated 1
	kill -CONT "$bg"
	: >stop
	finish 3 "a program${how:+, $how}, SIGSTOP"
done
# Until after the program's end.
sim rate=20000000
rm -f stop
begin intel_pt -e intel_pt//u -m ,128K -- bash -c 'busy_until stop'
kill -STOP "$bg"
until_counted intel_pt truncated 1
: >stop
read -r target _ <"/proc/$bg/task/$bg/children"
ended "$target"
kill -CONT "$bg"
finish 3 "a program that ends while auxcap is stopped"
# An area that is overwritten loses nothing by that but what is older.
sim rate=1000000
begin intel_pt -e intel_pt// -a -Se -m ,64K
kill -STOP "$bg"
kill -USR2 "$bg"
sleep 0.4
kill -CONT "$bg"
taken "$bg" 0x800	# SIGUSR2
kill -INT "$bg"
finish 0 "-S, SIGSTOP"
is "$(field snapshots)" 4 "-S, SIGSTOP: the snapshot asked for meanwhile, and that at the end"
# The data ring overflows: which records lack is told, too.
sim rate=100000
begin aux_sim -e aux_sim//u -e syscalls:sys_enter_umask -m 4,256K --per-thread -- bash -c 'echo >here
	read -r _ <back; for ((i = 0; i < 2000; i++)); do umask 022; done; echo >here; busy 100'
read -r _ <here
kill -STOP "$bg"
echo >back
read -r _ <here
kill -CONT "$bg"
rec_end 3 "a data ring that overflows"
# AUX records are among what is lost: which bytes are sound is not known.
proven aux_sim "a data ring that overflows" >/dev/null
is "$(field bytes) $(field missing)" "$(counted aux_sim stored) 0" "a data ring that overflows: all trace is there"
that "a data ring that overflows: the records are counted" "$err" grep -q 'lost: [0-9,]* records' "$err"
timeout 300 "$auxdecode" info "$data" >"$out" 2>&1
is $? 3 "a data ring that overflows: so says auxdecode"

### no room

# On one CPU: of a stream of a thread it is not known from which CPU its end was.
taskset -pc 1 $$ >/dev/null
mkdir -p small
for how in "-z" "-S" "--switch-output=1M" "--per-thread"; do
	mount -t tmpfs -o size=3m small small
	big=$data data=small/a.data
	sim rate=20000000
	# shellcheck disable=SC2086
	begin intel_pt -e intel_pt//u $how -m ,1M -- bash -c 'for i in 1 2 3 4; do
		busy 100; kill -USR2 $PPID; done'
	ended "$bg" || kill -9 "$bg"
	wait "$bg"
	rc=$?
	bg=
	several
	is $rc 1 "ENOSPC, $how: status 1"
	that "ENOSPC, $how: it is said" "$err" grep -qi 'no space' "$err"
	[ ! -e "$data" ] || proven intel_pt "ENOSPC, $how" "${earlier[@]}"
	for f in "$data" "${earlier[@]}"; do
		[ -e "$f" ] || continue
		timeout 300 "$auxdecode" info "$f" >"$out" 2>"$work/info.err"
		[[ "0 3" == *$?* ]]
		ok $? "ENOSPC, $how: ${f##*/} is read" "$work/info.err"
	done
	umount small
	data=$big earlier=()
done
taskset -pc 0,1 $$ >/dev/null
# Full from the first byte on.
mount -t tmpfs -o size=4k small small
head -c 4096 /dev/zero >small/fill 2>/dev/null
sim rate=1000000
"$auxcap" -e intel_pt// -a -o small/a.data -- sleep 0.2 >"$out" 2>"$err"
is $? 1 "a full disk: status 1"
that "a full disk: it is said" "$err" grep -qi 'no space' "$err"
umount small
# A limit on the size of files is as a full disk.
sim rate=5000000
rm -f "$data"*
(ulimit -f 3000; exec "$auxcap" -e intel_pt// -a -m ,1M -o "$data" -- sleep 1) >"$out" 2>"$err"
is $? 1 "ulimit -f: status 1"
that "ulimit -f: it is said" "$err" grep -qi 'file too large' "$err"
proven intel_pt "ulimit -f"
# A reader that leaves.
sim rate=20000000
"$auxcap" -e intel_pt// -a -o - -- sleep 1 2>"$err" | head -c 100000 >"$out"
is "${PIPESTATUS[0]}" 1 "a pipe whose reader leaves: status 1"

### kill -9

for how in "-S" "-z" "--switch-output=1M" "--per-thread"; do
	sim rate=5000000
	# shellcheck disable=SC2086
	begin intel_pt -e intel_pt//u $how -m ,256K -- taskset -c 1 bash -c busy_on
	sleep "0.$((RANDOM % 3 + 2))"
	[ "$how" != -S ] || { kill -USR2 "$bg"; sleep 0.3; }
	read -r target _ <"/proc/$bg/task/$bg/children"
	kill -9 "$bg"
	wait "$bg" 2>/dev/null
	bg=
	kill -9 "$target" 2>/dev/null
	several
	proven intel_pt "kill -9, $how" -t "${earlier[@]}"
	timeout 300 "$auxdecode" info "$data" >"$out" 2>"$work/info.err"
	is $? 3 "kill -9, $how: auxdecode says that it is not whole" || show "$out"
	timeout 300 "$auxcap" repair "$data" >"$out" 2>"$work/info.err"
	ok $? "kill -9, $how: repaired" "$work/info.err"
	proven intel_pt "kill -9, $how, repaired" -t "${earlier[@]}"
	earlier=()
done
# The program is killed; auxcap is not.
sim rate=2000000
begin aux_sim -e aux_sim//u -- bash -c 'busy 200; kill -9 $$'
finish 0 "a program that kill -9 ends"

### namespaces: of auxcap, and of what it records

sim rate=2000000
rm -f "$data"*
unshare -pmf --mount-proc "$auxcap" -o "$data" -e intel_pt//u -- bash -c 'busy 200; echo $$' >"$out" 2>"$err"
is "$?" 0 "auxcap in a PID namespace" && proven intel_pt "auxcap in a PID namespace"
read_by_both "auxcap in a PID namespace"
timeout 300 perf script --show-task-events --no-itrace -i "$data" 2>/dev/null |
	grep -q "PERF_RECORD_EXIT($(cat "$out"):"
ok $? "auxcap in a PID namespace: its ids are those of its namespace" "$out"
unshare -pmf --mount-proc bash -c busy_on &
target=$! inside=
for ((i = 0; i < 100; i++)); do
	# Without a newline behind it.
	read -r inside _ <"/proc/$target/task/$target/children"
	[ -z "$inside" ] || break
	sleep 0.05
done
sim rate=2000000
begin intel_pt -e intel_pt//u -p "$inside"
sleep 0.4
kill -INT "$bg"
finish 0 "-p of a process in a PID namespace"
timeout 300 "$auxdecode" info "$data" >"$out" 2>"$work/info.err"
ok $? "-p of a process in a PID namespace: auxdecode reads it" "$work/info.err"
kill -9 "$inside" "$target"
wait "$target" 2>/dev/null
kernel_quiet "hazards"
echo "done"
