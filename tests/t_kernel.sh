#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# Recording from this machine's kernel what needs no PMU with an AUX area (those
# are tested in a guest): software events and tracepoints of programs, processes,
# threads and CPUs; samples lost and overwritten; groups. perf opens each file.
# shellcheck source=kernel.sh
. "$(dirname "$0")/kernel.sh"

### a program

rec 0 "launch" -e cpu-clock -F 5000 -- "$programs/forkexec"
reads "launch"
that "launch: nothing lost" "$SCRATCH/err" grep -q 'samples.*; nothing lost$' "$SCRATCH/err"
if [ -n "$perf" ]; then
	timeout 300 perf report -i "$data" --stdio >"$SCRATCH/report" 2>"$SCRATCH/perf.err"
	is "$?$(grep -v '^$' "$SCRATCH/perf.err")" 0 "launch: perf report, without a word"
	# perf archive packs what is listed
	timeout 60 perf buildid-list -i "$data" >"$SCRATCH/ids" 2>&1
	that "launch: perf knows the program's build id" "$SCRATCH/ids" \
		grep -qE '^[0-9a-f]{40} .*/forkexec$' "$SCRATCH/ids"
	sideband() { # FILE: what the kernel told, without numbers
		perf script -i "$1" --show-task-events --show-mmap-events -F time,event 2>/dev/null |
			sed -nE '/^ *0\.000000:/d; s/.*PERF_RECORD_(COMM[^:]*|FORK|EXIT|MMAP2?).*/\1/p' |
			sort | uniq -c
	}
	sideband "$data" >"$SCRATCH/ours"
	timeout 300 perf record -q -e cpu-clock -F 5000 -o "$SCRATCH/p.data" -- \
		"$programs/forkexec" >/dev/null 2>&1
	sideband "$SCRATCH/p.data" >"$SCRATCH/theirs"
	diff "$SCRATCH/ours" "$SCRATCH/theirs" >"$SCRATCH/diff"
	ok $? "launch: the same side-band as perf's: $(tr -s ' \n' ' ' <"$SCRATCH/ours")" "$SCRATCH/diff"
else
	skip "$no_perf" "side-band as perf's"
fi
rec 7 "--exit-status" --exit-status -e cpu-clock -- sh -c 'exit 7'
rec 0 "without it" -e cpu-clock -- sh -c 'exit 7'
that "the program's status is told" "$SCRATCH/err" grep -q 'exited with status 7' "$SCRATCH/err"
# shellcheck disable=SC2016
rec 137 "--exit-status of a killed program" --exit-status -e cpu-clock -- sh -c 'kill -9 $$'
rm -f "$data".*
echo precious >"$data"
timeout 300 "$auxcap" -e cpu-clock -o "$data" -- "$SCRATCH/absent" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "a program that is not there: status 1"
is "$(cat "$data" "$data".* 2>/dev/null)" precious "no file was touched"
that "it is named" "$SCRATCH/err" grep -q 'error: .*absent' "$SCRATCH/err"

# what perf writes here; those with a fault of perf's own are not asked for
if [ -n "$perf" ]; then
	theirs() { # TEXT OPTION...: of a program that forks
		local text=$1
		shift
		timeout 300 perf record -q -o "$data" "$@" -- "$programs/forkexec" >/dev/null 2>&1
		reads "perf record $text"
	}
	theirs "" -e cpu-clock -F 5000
	theirs "-z -g" -z -g -e cpu-clock -F 5000
	theirs "of several events" -e cpu-clock,page-faults,context-switches
	theirs "of a group" -e '{cpu-clock,page-faults}:S'
	if [ -n "$tracepoints" ]; then
		theirs "of a tracepoint" -e raw_syscalls:sys_enter
	else
		skip "$no_tracepoints" "perf record of a tracepoint"
	fi
	timeout 300 perf record -q -o - -e cpu-clock -- "$programs/forkexec" 2>/dev/null >"$data"
	"$auxdecode" info - <"$data" >"$SCRATCH/info" 2>"$SCRATCH/err"
	ok $? "perf record into a pipe: auxdecode info" "$SCRATCH/err"
	is "$(awk '$1 == "SAMPLE" { print $2 }' "$SCRATCH/info")" \
		"$(perf script -i - -F tid <"$data" 2>/dev/null | grep -c '^ *[0-9]')" \
		"perf record into a pipe: as many samples as perf counts"
else
	skip "$no_perf" "perf's own files"
fi

if [ -z "$tracepoints" ]; then
	skip "$no_tracepoints" "targets, losses, overwriting, groups, filters"
	finish
fi

### rounds, between which a reader may sort and forget

rec 0 "rounds" -e cpu-clock -F 20000 -- sh -c 'i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done'
"$auxdecode" dump "$data" >"$SCRATCH/dump" 2>&1
n=$(grep -c FINISHED_ROUND "$SCRATCH/dump")
that "rounds: $n of $(samples "$data") samples" "$SCRATCH/err" test "$n" -ge 2
reads "rounds"

### whom

prog_start 50 2
rec_bg "${calls[@]}" -p $prog
go
order stop
rec_end 0 "-p"
reads "-p"
each "-p" 0 "$total" "$data"
that "-p: two threads" "$SCRATCH/script" test "$(awk '{ print $1 }' "$SCRATCH/script" | sort -u | wc -l)" = 2
that "-p: it is told that this is not all" "$SCRATCH/err" grep -q 'stopped early' "$SCRATCH/err"

from=$total
rec_bg "${calls[@]}" -t $prog
go
order stop
rec_end 0 "-t"
is "$(samples "$data")" 50 "-t: this thread's 50 of $((total - from)) calls"

from=$total
rec_bg "${calls[@]}" -p $prog --per-thread
go
order stop
rec_end 0 "-p --per-thread"
reads "-p --per-thread"
each "-p --per-thread" "$from" "$total" "$data"

from=$total
rec_bg "${calls[@]}" -p $prog
go
prog_end
rec_end 0 "-p of a process that ends"
each "-p of a process that ends" "$from" "$total" "$data"

rec_bg "${calls[@]}" -a
prog_start 50 2
go
prog_end
order stop
rec_end 0 "-a"
reads "-a"
each "-a" 0 "$total" "$data"

cpus=$(taskset -cp $$ | sed 's/.*: //; s/[-,]/ /g')
here=${cpus%% *} there=${cpus##* }
if [ "$here" != "$there" ]; then
	rec_bg "${calls[@]}" -C "$here"
	on=(taskset -c "$here")
	prog_start 50
	on=()
	go
	taskset -cp "$there" $prog >/dev/null
	go
	prog_end
	order stop
	rec_end 0 "-C $here"
	each "-C $here: not those on CPU $there" 0 50 "$data"
else
	skip "hardware: one CPU" "-C"
fi

plug
rec_bg "${calls[@]}" -- sh -c '"$0" "$@"; exit 0' "$counted" 50 3
go
unplug
rec_end 0 "a program's child and its threads"
each "a program's child and its threads" 0 150 "$data"

plug
rec_bg "${calls[@]}" --per-thread -- "$counted" 50 3
go
unplug
rec_end 0 "--per-thread of a program"
is "$(samples "$data")" 50 "--per-thread of a program: its first thread's, no heir's"


### a ring that is too small

# held COMMAND: auxcap cannot read meanwhile
held() {
	kill -STOP $bg
	"$@"
	kill -CONT $bg
}

plug
rec_bg -m 4 "${calls[@]}" -- "$counted" 20 2
for ((i = 0; i < 50; i++)); do
	go
	order ping	# which is answered when the rings have been read
done
unplug
rec_end 0 "rings of 16 KB that wrap"
reads "rings of 16 KB that wrap"
each "rings of 16 KB that wrap" 0 2000 "$data"
that "rings of 16 KB that wrap: more data than they hold" "$SCRATCH/err" \
	test "$(stat -c %s "$data")" -gt 200000

on=(taskset -c "$here")
prog_start 50
on=()
rec_bg -m 4 "${calls[@]}" -p $prog
held go 20
order ping
go
order stop
rec_end 3 "a recorder that is held up"
prog_end
reads "a recorder that is held up"
n=$(samples "$data")
if [ -n "$perf" ]; then
	is $((n + $(lost "$data"))) "$total" "samples in the file ($n) and LOST records make the calls"
fi
that "the loss is told" "$SCRATCH/err" \
	grep -q "; lost: $((total - n)) records (data buffer full)" <(tr -d , <"$SCRATCH/err")
that "and in the file" "$SCRATCH/info" grep -q "^verdict: incomplete: $((total - n)) records lost" "$SCRATCH/info"

# The kernel puts LOST before the next record that has room. Here none comes.
plug
rec_bg -m 4 "${calls[@]}" -- "$counted" 2000 2
read -r kid <"/proc/$bg/task/$bg/children"
last_words() {
	go
	unplug
	ended "$kid"
}
held last_words
rec_end 3 "a recorder that is held up to the end"
reads "a recorder that is held up to the end"
n=$(samples "$data")
missing=$(tr -d , <"$SCRATCH/err" | sed -n 's/.*; lost: \([0-9]*\) records (data buffer full).*/\1/p')
# the end of each thread may be among them
that "a recorder that is held up to the end: $n and $missing lost of 4000" "$SCRATCH/err" \
	test $((n + ${missing:-0} >= 4000 && n + ${missing:-0} <= 4004)) = 1
that "and in the file" "$SCRATCH/info" grep -q "^verdict: incomplete: $missing records lost" "$SCRATCH/info"

### the newest only

# newest TEXT FILE TO: what is there ends with call TO - 1, and has no hole
newest() {
	local n
	[ -n "$perf" ] || { skip "$no_perf" "$1"; return; }
	serials "$2" >"$SCRATCH/have"
	n=$(wc -l <"$SCRATCH/have")
	seq $(($3 - n)) $(($3 - 1)) | diff "$SCRATCH/have" - >"$SCRATCH/diff"
	ok $((PIPESTATUS[1] | n == 0)) "$1: the newest $n calls of $3, in order" "$SCRATCH/diff"
}

on=(taskset -c "$here")
prog_start 1000
on=()
rec_bg --overwrite -m 8 "${calls[@]}" -p $prog --switch-output=signal
go 3
order snapshot "before the switch"
is "$answer" ack "--overwrite: snapshot"
order switch
go 5
kill -USR2 $bg
order ping
order switch
order snapshot
order switch
go
order stop
rec_end 0 "--overwrite"
files=("$data".*)
is ${#files[@]} 4 "--overwrite: four files"
reads "--overwrite: by command" "${files[0]}"
newest "--overwrite: by command" "${files[0]}" 3000
reads "--overwrite: by signal" "${files[1]}"
newest "--overwrite: by signal" "${files[1]}" 8000
is "$(samples "${files[2]}")" 0 "--overwrite: nothing is saved twice"
is "$(samples "${files[3]}")" 0 "--overwrite: nothing unasked"
"$auxdecode" dump "${files[0]}" >"$SCRATCH/dump" 2>&1
that "--overwrite: the snapshot has its label" "$SCRATCH/dump" grep -q 'before the switch' "$SCRATCH/dump"
prog_end

### groups

# Reads are exact where the events are: each sample is the n-th call, and sees
# n - 1 returns from it.
on=(taskset -c "$here")
prog_start 50
on=()
rec_bg -e '{raw_syscalls:sys_enter,raw_syscalls:sys_exit}:S' --filter "id == $call" -p $prog
go 2
order stop
rec_end 0 "a group"
prog_end
reads "a group"
is "$(samples "$data")" 100 "a group: one of its events samples"
if [ -n "$perf" ]; then
	perf script -D -i "$data" 2>/dev/null | sed -n 's/^\.\.\.\.\. id [0-9a-f]*, value \([0-9a-f]*\).*/\1/p' |
		paste - - >"$SCRATCH/have"
	for ((i = 1; i <= 100; i++)); do printf '%016x\t%016x\n' $i $((i - 1)); done |
		diff "$SCRATCH/have" - >"$SCRATCH/diff"
	ok $((PIPESTATUS[1])) "a group: what each of its 100 samples reads" "$SCRATCH/diff"
fi
rec 0 "a group of software events" -e '{cpu-clock,page-faults}:Su' -F 2000 -- "$programs/forkexec"
reads "a group of software events"
perf evlist -g -i "$data" >"$SCRATCH/evlist" 2>&1
that "a group of software events: perf shows it as one" "$SCRATCH/evlist" \
	grep -q '^{cpu-clock[^,]*,page-faults[^}]*}' "$SCRATCH/evlist"

### tracepoints

rec 0 "tracepoints" -e sched:sched_switch -e sched:sched_process_exec -- sh -c 'sleep 0.05; exit 0'
reads "tracepoints"
if [ -n "$perf" ]; then
	perf script -i "$data" -F event,trace >"$SCRATCH/script" 2>/dev/null
	that "tracepoints: perf prints their fields" "$SCRATCH/script" \
		grep -qE 'sched_switch: prev_comm=sleep prev_pid=[0-9]+ .* ==> next_comm=' "$SCRATCH/script"
	that "tracepoints: and of the second" "$SCRATCH/script" \
		grep -qE 'sched_process_exec: filename=.*/sleep pid=[0-9]+ old_pid=' "$SCRATCH/script"
fi
rec 0 "tracepoint --filter" -e sched:sched_process_exec --filter 'filename ~ "*/sleep"' -- \
	sh -c '/bin/ls /; sleep 0.01; exit 0'
is "$(samples "$data")" 1 "tracepoint --filter: one exec of three"
rec 2 "a bad --filter" -e sched:sched_process_exec --filter 'no_such_field == 1' -- true
that "a bad --filter is explained" "$SCRATCH/err" grep -q "refuses the filter.*format" "$SCRATCH/err"

### hardware events

if [ -d /sys/bus/event_source/devices/cpu ] &&
   [ -n "$perf" ] && perf record -q -e cycles:u -o "$data" -- true >/dev/null 2>&1; then
	rec 0 "cycles" -e cycles:u,instructions:u -- "$programs/forkexec"
	reads "cycles"
	that "cycles: there are samples" "$SCRATCH/err" test "$(samples "$data")" -gt 0
else
	skip "hardware: no hardware counters" "cycles"
fi
finish
