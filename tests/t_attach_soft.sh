#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# soft_pt attaches: programs/longrun runs already, is single-stepped for a while, or runs
# from copies of its code, and goes on. It checks itself: an instruction too many, a signal that was lost or
# invented, a trap flag left behind would show. What was recorded is what ran.
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/a.data truth=$SCRATCH/a.truth err=$SCRATCH/a.err
mkfifo "$SCRATCH/in"

begin() { # starts it: $prog
	: >"$SCRATCH/out"	# what an earlier one said is not to be taken for this one's
	"$programs/longrun" <"$SCRATCH/in" >"$SCRATCH/out" 2>&1 &
	prog=$!
	exec 9>"$SCRATCH/in"
	waits grep -q ready "$SCRATCH/out"
}

untraced() { # all its threads
	! grep -h '^TracerPid:' /proc/"$prog"/task/*/status | grep -qv '	0$'
}

has() { # BYTES: so much is recorded
	[ "$(stat -c %s "$data" 2>/dev/null || echo 0)" -gt "$1" ]
}
# what is run beside it, until so much is recorded
# shellcheck disable=SC2016
beside=(sh -c 'until [ "$(stat -c %s "$0" 2>/dev/null || echo 0)" -gt "$1" ]; do sleep 0.1; done' "$data")

is_right() { # TEXT: it goes on, and ends right
	waits untraced
	ok $? "$1: it is let go"
	sleep 0.2
	exec 9>&-
	waits not kill -0 "$prog" 2>/dev/null || kill -KILL "$prog"
	wait "$prog" 2>"$SCRATCH/wait"
	is "$?:$(tail -n 1 "$SCRATCH/out")" 0:right "$1: it did all that it should"
}

exact() { # TEXT: the flow is the truth's, without a gap
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/derr" |
		"$truthcmp" "$truth" >"$SCRATCH/cmp"
	is "${PIPESTATUS[*]}" "0 0" "$1: $(sed -n 's/^total truth \([0-9]*\) .* threads \([0-9]*\) .*/\1 instructions, \2 threads/p' "$SCRATCH/cmp")" ||
		sed 's/^/#   /' "$SCRATCH/cmp" "$SCRATCH/derr" | head -n 20
}

# Whether it is allowed here at all.
begin
if ! "$auxcap" -q -e soft_pt/step/u -o "$data" -p "$prog" -- true 2>"$err" &&
		grep -q 'cannot trace\|ptrace_scope' "$err"; then
	kill -KILL "$prog"
	skip "hardware: may not attach: $(head -n 1 "$err")"
	finish
fi

kill -KILL "$prog"
wait "$prog" 2>"$SCRATCH/wait"
exec 9>&-
for back in ${BACKS:-step native}; do

begin
### a program beside it says how long

rm -f "$data"
fds=$(ls "/proc/$prog/fd")
timeout -k 5 500 "$auxcap" -e "soft_pt/$back/u" -o "$data" --truth "$truth" -p "$prog" -- "${beside[@]}" 300000 2>"$err"
is $? 0 "-p, $back" || sed 's/^/#   /' "$err"
exact "$back, -p"
"$auxdecode" info "$data" >"$SCRATCH/info"
that "$back, -p: $back is the back end" "$SCRATCH/info" grep -q "back end $back" "$SCRATCH/info"
"$auxdecode" insn -F comm,pid,sym "$data" 2>/dev/null | grep -v '^#' | sort -u >"$SCRATCH/who"
that "$back, -p: with its name, pid and symbols" "$SCRATCH/who" grep -Eq "^longrun +$prog +compute\+" "$SCRATCH/who"
is "$(ls "/proc/$prog/task" | wc -l)" 8 "$back, -p: all its threads are there"
is "$(ls "/proc/$prog/fd")" "$fds" "$back, -p: it has the descriptors that it had"
that "$back, -p: no mapping is left in it" "/proc/$prog/maps" not grep -q memfd "/proc/$prog/maps"

### again, one thread, until SIGINT

tid=$("$auxdecode" insn -F tid,sym "$data" 2>/dev/null | sed -n 's/^ *\([0-9]*\) *compute+.*/\1/p' | head -n 1)
rm -f "$data"
"$auxcap" -e "soft_pt/$back,cyc/u" -o "$data" --truth "$truth" -t "$tid" 2>"$err" 9>&- &
pid=$!
waits has 100000
kill -INT $pid
wait $pid
grep -q 'nothing lost; stopped early' "$err"
ok $? "$back, -t: SIGINT ends it" "$err"
exact "$back, -t"
is "$("$auxdecode" count "$data" 2>/dev/null | sed -n 's/^thread \([0-9]*\) .*/\1/p')" "$tid" "$back, -t: nothing but the thread"
is_right "$back, -p, then -t"

### auxcap is killed

begin
rm -f "$data"
"$auxcap" -e "soft_pt/$back/u" -o "$data" --truth "$truth" -p "$prog" 2>"$err" 9>&- &
pid=$!
waits has 150000
kill -KILL $pid
wait $pid 2>/dev/null
is_right "$back, auxcap killed"
# the process that traced completes the file
whole() { "$auxdecode" info "$data" >"$SCRATCH/info" 2>&1 && grep -q '^verdict: no loss' "$SCRATCH/info"; }
waits whole
ok $? "$back, auxcap killed: the file is complete" "$SCRATCH/info"
exact "$back, auxcap killed"

### stopped, and stays so

begin
kill -STOP "$prog"
is_stopped() { grep -q '^State:	T' "/proc/$prog/status"; }
waits is_stopped
timeout -k 5 300 "$auxcap" -e "soft_pt/$back/u" -o "$data" -p "$prog" -- sleep 0.3 2>"$err"
is $? 1 "$back, a stopped program"
that "$back, a stopped program: it is told that nothing ran" "$err" grep -q 'nothing was recorded: no thread ran' "$err"
is_stopped
ok $? "$back, a stopped program: it still is"
kill -CONT "$prog"
is_right "$back, a stopped program"

### it ends by itself

sh -c 'read -r i; exit 5' <"$SCRATCH/in" &
prog=$!
exec 9>"$SCRATCH/in"
timeout -k 5 500 "$auxcap" -e "soft_pt/$back/u" -o "$data" --truth "$truth" -p "$prog" 2>"$err" 9>&- &
pid=$!
waits not untraced
exec 9>&-
wait $pid
is $? 0 "$back, a program that ends" || sed 's/^/#   /' "$err"
wait "$prog"
is $? 5 "$back, a program that ends: as it would"
exact "$back, a program that ends"

### -D: a program runs at its own speed, and is joined with what it has started

rm -f "$data"
: >"$SCRATCH/out"
# shellcheck disable=SC2016
timeout 300 "$auxcap" -e "soft_pt/$back/u" -o "$data" --truth "$truth" -D 500 --exit-status -- sh -c '
	(read x; "$0"; exit 2) <&3 &
	echo $! $$; wait $!; exit 6' "$programs/forkexec" \
	3<"$SCRATCH/in" >"$SCRATCH/out" 2>"$err" &
pid=$!
exec 9>"$SCRATCH/in"
waits test -s "$SCRATCH/out"
read -r below prog <"$SCRATCH/out"
traced() { grep -q '^TracerPid:	[1-9]' "/proc/$1/status"; }
waits traced "$below"
ok $? "$back, -D: what it has started is traced"
traced "$prog"
ok $? "$back, -D: and itself"
echo >&9
exec 9>&-
wait $pid
is $? 6 "$back, -D: the program's status" "$err"
that "$back, -D: nothing lost" "$err" grep -q 'nothing lost' "$err"
exact "$back, -D"
"$auxdecode" insn -F comm,sym "$data" 2>/dev/null | sort -u >"$SCRATCH/who"
that "$back, -D: a program that is started then is whole" "$SCRATCH/who" grep -Eq '^forkexec +main\+0x0' "$SCRATCH/who"
that "$back, -D: what ran before is not there" "$SCRATCH/who" not grep -Eq '^sh +main\+0x0|^sh +_dl_start\+0x0' "$SCRATCH/who"
timeout 100 "$auxcap" -e "soft_pt/$back/u" -o "$SCRATCH/b.data" -D 100000000 -- sh -c 'exit 4' 2>"$err"
is $? 1 "$back, -D: a program that ends before" "$err"
that "$back, -D: which is said" "$err" grep -q 'nothing was recorded: sh ended within the 100000000 ms of -D' "$err"
that "$back, -D: and nothing is written" "$err" not test -e "$SCRATCH/b.data"

### --max-size: the program is ended

timeout 300 "$auxcap" -e "soft_pt/$back/u" -o "$data" --truth "$truth" --max-size 200K -- sh -c 'while :; do :; done' 2>"$err"
is $? 0 "$back, --max-size: it ends" "$err"
that "$back, --max-size: which is said" "$err" grep -q 'nothing lost; ended by --max-size' "$err"
that "$back, --max-size: and nothing else" "$err" not grep -q killed "$err"
that "$back, --max-size: not before" "$err" has 204799
exact "$back, --max-size"

done

### what cannot be

begin
echo precious >"$data"
cannot() { # STATUS TEXT PATTERN ARGUMENT...
	local status=$1 text=$2 pattern=$3
	shift 3
	timeout 300 "$auxcap" -o "$data" "$@" >"$SCRATCH/o" 2>"$err"
	is $? "$status" "$text: status $status"
	that "$text: it is told" "$err" grep -Eq -- "$pattern" "$err"
	is "$(cat "$data")" precious "$text: the file stays"
}
cannot 2 "emulate" 'emulate runs a program from its start: with -p, -t and -D leave it out' -e soft_pt/emulate/u -p "$prog"
cannot 2 "soft_etm" 'soft_etm runs a program from its start' -e soft_etm//u -p "$prog"
cannot 2 "emulate, -D" 'with -p, -t and -D leave it out' -e soft_pt/emulate/u -D 5 true
cannot 2 "soft_etm, -D" 'emulates a program from its start' -e soft_etm//u -D 5 true
cannot 2 "-D -1" 'needs an event of the kernel' -e soft_pt//u -D -1 true
cannot 2 "-p and -t" 'exclude each other' -e soft_pt//u -p "$prog" -t "$prog"
cannot 1 "no such process" 'there is no process 999999999' -e soft_pt//u -p 999999999
cannot 1 "a thread of the kernel" 'belongs to the kernel|no process' -e soft_pt//u -p 2
"$auxcap" -q -e soft_pt/step/u -o "$SCRATCH/b.data" -p "$prog" 2>"$SCRATCH/b.err" 9>&- &
pid=$!
waits not untraced
cannot 1 "traced by another" 'is traced already, by process [0-9]+' -e soft_pt//u -p "$prog"
kill -INT $pid
wait $pid
is_right "after all that"
finish
