#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# How a recording from this machine's kernel is steered, and where it goes: delay,
# control FIFO, rotation, limits, pipes, control groups, locked memory, mistakes.
# shellcheck source=kernel.sh
. "$(dirname "$0")/kernel.sh"
need_soft

### mistakes: status 2 (usage) or 1, no file, and the text names the way out

# refused WANT FIX OPTION...
refused() {
	local want=$1 fix=$2
	shift 2
	rec "$want" "refused: $*" "$@"
	that "refused: $*: $fix" "$SCRATCH/err" grep -qE "^auxcap: error: .*$fix" "$SCRATCH/err"
	that "refused: $*: no file" - test ! -e "$data"
}

refused 2 'see auxcap list' -e no-such-event -- true
refused 2 'auxcap list' -e sched:no_such_point -- true
refused 2 'legal: 1 to [0-9]+ .*max_sample_rate' -e cpu-clock -F 100000000 -- true
refused 2 '512K' -m 3X -e cpu-clock -- true
refused 2 'milliseconds or -1' -D soon -e cpu-clock -- true
refused 2 'event with an AUX area, such as intel_pt' -S -e cpu-clock -- true
refused 2 'fifo:COMMANDS' --control nonsense -e cpu-clock -- true
refused 1 'mkfifo' --control "fifo:$SCRATCH/absent" -e cpu-clock -- true
refused 2 'is no FIFO' --control "fifo:$SCRATCH/err" -e cpu-clock -- true
refused 2 'no open descriptor' --control fd:99 -e cpu-clock -- true
refused 2 'leave out -G' -G / -p $$ -e cpu-clock
refused 2 'tracepoints and for events with an AUX' -e cpu-clock --filter 'a == 1' -- true
refused 2 'stands after its event' --filter 'a == 1' -- true
refused 2 'a size .1G., a time .30s. or signal' --switch-output=often -e cpu-clock -- true
refused 2 'size as 512M' --max-size x -e cpu-clock -- true
refused 2 'soft_pt' --truth "$SCRATCH/t" -e cpu-clock -- true
refused 2 'an event of the kernel' -e soft_pt//u -a
refused 2 "'}' is missing" -e '{cpu-clock' -- true
refused 1 'no process' -p 999999999 -e cpu-clock
refused 2 'CPU' -C 4000 -e cpu-clock -- true

if [ -z "$tracepoints" ]; then
	skip "$no_tracepoints" "control, rotation, limits, pipes"
	finish
fi

### disabled at first, commands

prog_start 50 2
rec_bg "${calls[@]}" -p $prog -D -1
go
order evlist
is "$answer" "raw_syscalls:sys_enter dummy:u ack" "evlist"
order enable
is "$answer" ack "enable"
order enable
is "$answer" ack "enable, again"
from=$total
go
order disable
is "$answer" ack "disable"
to=$total
go
order snapshot
is "$answer" "error: no snapshot mode (-S)" "snapshot, where there is none"
order nonsense with words
is "$answer" "error: unknown command 'nonsense'" "a word that is no command"
printf 'pi' >&7
printf 'ng\nping' >&7
order ''
is "$answer" ack "a command in pieces"
read -r -t 30 -u 8 answer
is "$answer" ack "and the next"
order stop
rec_end 0 "-D -1 with commands"
reads "-D -1 with commands"
each "-D -1: between enable and disable" "$from" "$to" "$data"
prog_end

prog_start 50 2
go
rec_bg "${calls[@]}" -p $prog -D 1500
from=$total
go
first=$total
sleep 5
go
order stop
rec_end 0 "-D 1500"
# what was called within the delay may have been late, on a slow machine
n=$(samples "$data")
that "-D 1500: $n samples of what came after" "$SCRATCH/err" test "$n" = 100 -o "$n" = 200
[ "$n" = 200 ] || each "-D 1500" "$first" "$total" "$data"

### rotation

rec_bg "${calls[@]}" -p $prog --switch-output=signal
from=$total
# a signal is not answered: its file is
for i in 1 2 3; do
	go
	kill -USR2 $bg
	for ((t = 0; t < 3000; t++)); do
		files=("$data".*)
		[ ${#files[@]} -lt $i ] || [ ! -e "${files[0]}" ] || break
		[ -e /proc/$bg/exe ] || break 2
		sleep 0.1
	done
	order ping
done
go
order switch
is "$answer" ack "switch"
go
order stop
rec_end 0 "--switch-output=signal"
files=("$data".*)
is ${#files[@]} 5 "--switch-output=signal: five files"
that "the last has a dated name too" - test ! -e "$data"
for f in "${files[@]}"; do
	reads "--switch-output=signal: ${f##*.}" "$f"
	is "$(samples "$f")" 100 "its 100 samples"
done
each "--switch-output=signal: all files" "$from" "$total" "${files[@]}"

rec_bg "${calls[@]}" -p $prog --switch-output=32K
from=$total
for ((i = 0; i < 10; i++)); do
	go 2
	order ping
done
order stop
rec_end 0 "--switch-output=32K"
files=("$data".*)
# how far behind the recorder is when it looks decides how many
that "--switch-output=32K: ${#files[@]} files" - test ${#files[@]} -ge 2
for f in "${files[@]::${#files[@]}-1}"; do
	[ "$(stat -c %s "$f")" -ge 32768 ] || ok 1 "--switch-output=32K: $f is below that"
done
for f in "${files[0]}" "${files[-1]}"; do reads "--switch-output=32K: ${f##*.}" "$f"; done
each "--switch-output=32K: all files" "$from" "$total" "${files[@]}"

rec_bg "${calls[@]}" -p $prog --switch-output=1s
for ((i = 0; i < 300; i++)); do
	files=("$data".*)
	[ ${#files[@]} -lt 3 ] || break
	go
	sleep 0.1
done
order stop
rec_end 0 "--switch-output=1s"
that "--switch-output=1s: a file each second" - test ${#files[@]} -ge 3

# no file ends by itself, on a slow machine, too
rec_bg "${calls[@]}" -p $prog --switch-output=1h --switch-max-files 2
for ((i = 0; i < 3; i++)); do
	go
	order switch
done
go
last=$total
order switch
go
order stop
rec_end 0 "--switch-output=1h --switch-max-files 2"
files=("$data".*)
is ${#files[@]} 2 "--switch-max-files 2: two files"
each "--switch-max-files 2: the newest" "$((last - 100))" "$total" "${files[@]}"

### limits

rec_bg "${calls[@]}" -p $prog --max-size 64K
from=$total
n=0
while [ -e /proc/$bg/exe ] && [ $n -lt 100 ]; do
	go
	n=$((n + 1))
	sleep 0.05
done
rec_end 0 "--max-size 64K"
reads "--max-size 64K"
size=$(stat -c %s "$data")
that "--max-size 64K: it ends with $size bytes" "$SCRATCH/err" test "$size" -ge 60000 -a "$size" -lt 400000
each "--max-size 64K: nothing is left out before" "$from" $((from + $(samples "$data"))) "$data"

### pipes

rm -f "$data" "$data".*
"$auxcap" -o - --control "fifo:$SCRATCH/orders,$SCRATCH/acks" "${calls[@]}" -p $prog \
	2>"$SCRATCH/err" 5>&- 6>&- 7>&- 8>&- >"$data" &
bg=$!
order ping
from=$total
go
order switch
is "$answer" "error: a pipe has one recording (-o names a file)" "a pipe cannot be switched"
go
order stop
rec_end 0 "-o -"
reads "-o - into a file"
each "-o - into a file" "$from" "$total" "$data"
prog_end
refused 2 'needs a file' -o - --switch-output=1s -e cpu-clock -- true

# through a pipe that the other end reads as it comes
piped() { # TEXT COMMAND...
	local text=$1
	shift
	"$auxcap" -q -o - -e cpu-clock -F 5000 -- "$programs/forkexec" 2>"$SCRATCH/err" |
		tee "$data" | "$@" >"$SCRATCH/read" 2>"$SCRATCH/read.err"
	is "${PIPESTATUS[*]}" "0 0 0" "$text" || sed 's/^/#   /' "$SCRATCH/err" "$SCRATCH/read.err"
}
piped "auxcap -o - | auxdecode info -" timeout 300 "$auxdecode" info -
n=$(awk '$1 == "SAMPLE" { print $2 }' "$SCRATCH/read")
that "auxdecode reads $n samples out of the pipe" "$SCRATCH/read" test "${n:-0}" -gt 0
is "$(samples "$data")" "$n" "as many as out of a file of the same bytes"
if [ -n "$perf" ]; then
	is "$(perf script -i - -F tid <"$data" 2>/dev/null | wc -l)" "$n" "as many as perf"
	piped "auxcap -o - | perf script -i -" timeout 300 perf script -i - -F tid,event
	is "$(grep -v '^$' "$SCRATCH/read.err")" "" "perf script -i -, without a word"
	is "$(wc -l <"$SCRATCH/read")" "$(samples "$data")" "perf reads all samples out of the pipe"
fi
# The reader goes: nothing can be written any more, and the program is let go.
"$auxcap" -o - "${calls[@]}" -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done' \
	2>"$SCRATCH/err" | head -c 100 >/dev/null
rc=${PIPESTATUS[0]}
is "$rc" 1 "a pipe whose reader goes: status 1"
that "it is told" "$SCRATCH/err" grep -qiE 'error: .*(pipe|standard output)' "$SCRATCH/err"

### control groups

cgroups=$SCRATCH/cgroup name=auxkit-test-$$
mkdir -p "$cgroups"
if [ "$(id -u)" = 0 ] && [ -n "${KERNEL_TEST_NS:-}" ] &&
   mount -t cgroup -o perf_event none "$cgroups" 2>"$SCRATCH/cgroup.err" &&
   mkdir "$cgroups/$name"; then
	prog_start 50 2
	rec_bg "${calls[@]}" -a -G $name
	go	# outside
	echo $prog >"$cgroups/$name/cgroup.procs"
	from=$total
	go
	prog_end
	order stop
	rec_end 0 "-G"
	reads "-G"
	each "-G" "$from" "$total" "$data"
	rmdir "$cgroups/$name"
	rec 1 "-G of a group that is not there" -a -G $name -e cpu-clock
	that "and where they are is told" "$SCRATCH/err" grep -q 'no cgroup' "$SCRATCH/err"
else
	skip "hardware: no perf_event control group can be mounted" "-G"
fi
# A hierarchy whose group is still dying outlives its mount, and keeps perf's groups
# from v2 for good: until it was mounted once more.
for ((i = 0; i < 50; i++)); do
	umount "$cgroups" 2>/dev/null || break
	sleep 0.1
	grep -q '^perf_event[[:space:]]*0[[:space:]]' /proc/cgroups && break
	mount -t cgroup -o perf_event none "$cgroups" 2>/dev/null
done

### locked memory, as nobody in particular

home=$(mktemp -d /tmp/auxkit-nobody-XXXXXX)
cp "$auxcap" "$home"
chmod 777 "$home"
nobody() { # COMMAND...
	setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
}
if [ "$(id -u)" = 0 ] && have setpriv && nobody test -x "$home/auxcap" &&
   nobody "$home/auxcap" -q -e cpu-clock:u -m 1 -o "$home/n" -- true 2>/dev/null; then
	free=$(cat /proc/sys/kernel/perf_event_mlock_kb)
	ulimit -l 64
	nobody "$home/auxcap" -e cpu-clock:u -o "$home/n" -- true 2>"$SCRATCH/err"
	is $? 0 "a user without privilege, ulimit -l 64"
	nobody "$home/auxcap" -e cpu-clock:u -m 64M -o "$home/n2" -- true 2>"$SCRATCH/err"
	is $? 1 "-m 64M of such a user: status 1"
	that "with limits and ways out" "$SCRATCH/err" \
		grep -q "perf_event_mlock_kb $free .*ulimit -l 64 KB.*smaller -m" "$SCRATCH/err"
	that "and no file" - test ! -e "$home/n2"
	# all that the user may lock is in use
	nobody "$home/auxcap" -q -e cpu-clock:u -o "$home/n1" -- sleep 600 2>"$SCRATCH/err" &
	first=$!
	for ((i = 0; i < 3000; i++)); do [ -s "$home/n1" ] && break; sleep 0.1; done
	nobody "$home/auxcap" -e cpu-clock:u -o "$home/n2" -- true 2>"$SCRATCH/err"
	is $? 0 "a second recorder of the same user"
	that "says which buffers it chose, and why" "$SCRATCH/err" \
		grep -qE 'buffers of [0-9]+K for each of .*other recorders: perf_event_mlock_kb' "$SCRATCH/err"
	kill $first
	wait $first
else
	skip "hardware: no user without privilege may record here" "locked memory"
fi
rm -rf "$home"
finish
