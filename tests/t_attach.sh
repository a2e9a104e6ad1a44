#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# Attaching to a program that runs already: for every kind of target, with and
# without a program of auxcap's own, what the file says of the target (names,
# mappings with their build ids, threads, those of before and those that come
# later) is what perf record says, which records the same program at the same time.
# shellcheck source=kernel.sh
. "$(dirname "$0")/kernel.sh"

resident=$programs/resident
mkdir -p "$SCRATCH/objects"
plug
"$resident" "$SCRATCH/objects" <"$in" >"$out" 5>&- 6>&- 7>&- 8>&- &
prog=$!
in=/dev/null out=$SCRATCH/out
read -r -t 30 -u 6 line
is "${line:-}" ready "a program with threads, a loaded object and code that it made" || finish

tell() { # ORDER: to the program, which has done it when this returns
	echo "$*" >&5
	read -r -t 60 -u 6 line
}

# perf's own recording beside ours: begun and ended by its own FIFOs.
mkfifo "$SCRATCH/pctl" "$SCRATCH/pack"
perf_bg() {
	local answer
	perf_pid=
	[ -n "$perf" ] || return
	exec 3<>"$SCRATCH/pctl" 4<>"$SCRATCH/pack"
	perf record -q -B -N --buildid-mmap --control "fifo:$SCRATCH/pctl,$SCRATCH/pack" \
		-e cpu-clock:u -F 2000 -o "$SCRATCH/p.data" "$@" </dev/null \
		>"$SCRATCH/perf.out" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- &
	perf_pid=$!
	echo ping >&3
	read -r -t 60 -u 4 answer
}

perf_end() {
	[ -n "$perf_pid" ] || return
	echo stop >&3
	ended $perf_pid
	wait $perf_pid 2>/dev/null
	exec 3>&- 4>&-
}

# told FILE: of the program, in perf's words, one line for each; its children too
told() {
	perf script -i "$1" --show-task-events --show-mmap-events -F tid,event,ip 2>/dev/null |
		sed -nE "s/^.*(PERF_RECORD_(COMM|MMAP2|FORK|EXIT).*[ (:]${prog}[/:].*)/\1/p" | sort -u
}

# as_perf TEXT: ours has every line of perf's, and of its own but FORKs of what
# was there before, which perf leaves out with -p and -t
as_perf() {
	[ -n "$perf" ] || { skip "$no_perf" "$1: as perf's"; return; }
	told "$data" >"$SCRATCH/ours"
	told "$SCRATCH/p.data" >"$SCRATCH/theirs"
	comm -13 "$SCRATCH/ours" "$SCRATCH/theirs" >"$SCRATCH/missing"
	[ -s "$SCRATCH/theirs" ] && [ ! -s "$SCRATCH/missing" ]
	ok $? "$1: all $(wc -l <"$SCRATCH/theirs") records of perf's" "$SCRATCH/missing"
	comm -23 "$SCRATCH/ours" "$SCRATCH/theirs" | grep -v PERF_RECORD_FORK >"$SCRATCH/more"
	that "$1: and no others" "$SCRATCH/more" test ! -s "$SCRATCH/more"
}

# names TEXT: the samples have the names of the code that runs. A fifth of them falls
# into dlobj_work: the rounds of work are enough for a hundred samples.
names() {
	[ -n "$perf" ] || return
	perf script -i "$data" -F comm,ip,sym 2>/dev/null |
		awk '$1 ~ /^(resident|worker)/ { n[$3]++ } END {
			for (s in n) print s, n[s] }' >"$SCRATCH/syms"
	grep -q '^resident_work ' "$SCRATCH/syms" && grep -q '^dlobj_work ' "$SCRATCH/syms"
	ok $? "$1: samples with names" "$SCRATCH/syms"
}

attach() { # TEXT ARGUMENT...
	local text=$1
	shift
	perf_bg "$@"
	rec_bg -e cpu-clock:u -F 2000 "$@"
	tell work 1000000
	tell more
	tell time
	tell work 1000000
	order stop
	rec_end 0 "$text"
	perf_end
	reads "$text"
	as_perf "$text"
	names "$text"
	"$auxdecode" dump "$data" 2>/dev/null |
		grep -q "MMAP2 pid $prog tid .*/resident "
	ok $? "$text: auxdecode finds the program's mapping"
}

tids=("/proc/$prog/task/"*)
last=${tids[-1]##*/}
attach "-p" -p $prog
attach "-p, with a program" -p $prog -- sleep 600
attach "-p --per-thread" --per-thread -p $prog
attach "-p -D 1, with a program" -D 1 -p $prog -- sleep 600
attach "-a" -a
attach "-a, with a program" -a -- sleep 600
all=$(cat /sys/devices/system/cpu/online)
attach "-C $all" -C "$all"
attach "-C $all, with a program" -C "$all" -- sleep 600

# perf -t tells of one thread; ours of its process, which maps the code
for more in "" "-- sleep 600"; do
	text="-t${more:+, with a program}"
	perf_bg -t "$last" $more
	rec_bg -e cpu-clock:u -F 2000 -t "$last" $more
	tell work 4000000
	order stop
	rec_end 0 "$text"
	perf_end
	[ -n "$perf" ] || continue
	told "$data" | grep MMAP2 >"$SCRATCH/ours"
	told "$SCRATCH/p.data" | grep MMAP2 >"$SCRATCH/theirs"
	comm -3 "$SCRATCH/ours" "$SCRATCH/theirs" >"$SCRATCH/diff"
	[ -s "$SCRATCH/theirs" ] && [ ! -s "$SCRATCH/diff" ]
	ok $? "$text: perf's $(wc -l <"$SCRATCH/theirs") mappings" "$SCRATCH/diff"
	that "$text: the thread's name" "$SCRATCH/ours" grep -q "COMM.*/$last\$" <(told "$data")
	names "$text"
done

# a launched program is described by its exec, also when -D enables the events
for more in "" "-D 1"; do
	rec 0 "launch $more" -e cpu-clock:u $more -- "$programs/threads" 3 5
	"$auxdecode" dump "$data" 2>/dev/null | grep MMAP2 | grep -c 'auxcap' >"$SCRATCH/n"
	is "$(cat "$SCRATCH/n")" 0 "launch $more: no mapping of auxcap's own"
done

### a process that is forked, then a new file: it is described there

rec_bg -e cpu-clock:u -F 2000 -p $prog --switch-output=signal
tell fork
tell work 20000
order switch
tell work 200000
order stop
rec_end 0 "a fork, then a new file"
files=("$data".*)
child=$(pgrep -P $prog)
"$auxdecode" dump "${files[-1]}" 2>/dev/null | grep "MMAP2 pid $child " >"$SCRATCH/maps"
for f in /resident /libc.so object- '\[vdso\]' //anon; do
	that "a fork, then a new file: the child's $f" "$SCRATCH/maps" grep -q -e "$f" "$SCRATCH/maps"
done
rm -f "$data".*
unplug
wait $prog
prog=
finish
