#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# A recording as the target of a debugger. Single steps of each thread, back from the end
# and forwards again, pass just the instructions that ran; breakpoints stop as often as
# their addresses ran; gdb goes through a recording as it does through the live program;
# what is missing is said; a client that sends anything does no harm.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/data truth=$SCRATCH/truth out=$SCRATCH/out err=$SCRATCH/err
remote() { python3 tests/gdb_remote.py "$@"; }
server() { local f=$1; shift; echo "$auxdecode" gdbserver --port - "$@" "$f"; }

# record EVENT COMMAND...: into $data, with its truth
record() {
	local event=$1
	shift
	"$auxcap" -e "$event" -o "$data" --truth "$truth" -- "$@" >"$out" 2>"$err"
	ok $? "recorded by $event: ${*##*/}" "$err"
}

# steps NAME: all threads, both ways
steps() {
	# shellcheck disable=SC2046
	remote walk $(server "$data") >"$SCRATCH/walk" 2>"$err"
	ok $? "$1: back and forwards are the same" "$err"
	"$truthcmp" "$truth" <"$SCRATCH/walk" >"$out" 2>&1
	ok $? "$1: and what ran, each instruction of each thread" "$out"
}

# ---- without a debugger ----
"$auxdecode" gdbserver --port x fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 2 "--port x: status 2"
that "--port x: what a port is" "$err" grep -q 'not a port, 1 to 65535, nor -' "$err"
"$auxdecode" gdbserver --port - - </dev/null >"$out" 2>"$err"
is $? 2 "both on standard input: status 2"
"$auxdecode" gdb -o "$out" fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 2 "gdb -o: status 2"
"$auxdecode" gdbserver --port - --pid 999999 --symfs fixtures/symfs fixtures/hello_cyc.data >"$out" 2>"$err" </dev/null
is $? 1 "a process that is not in it: status 1"
that "a process that is not in it: it is said" "$err" grep -q 'no instruction of process 999999 could be followed' "$err"

# ---- steps ----
"$auxdecode" gdbserver --port - fixtures/hello_cyc.data >"$out" 2>"$err" </dev/null
is $? 1 "without the code: status 1"
that "without the code: it is said, and what says more" "$err" grep -q '`auxdecode insn fixtures/hello_cyc.data` says' "$err"
"$auxdecode" insn -F tid,ip --symfs fixtures/symfs fixtures/hello_cyc.data 2>"$err" | grep -v '^#' >"$SCRATCH/want"
that "a fixture has instructions" - test -s "$SCRATCH/want"
# shellcheck disable=SC2046
remote walk $(server fixtures/hello_cyc.data --symfs fixtures/symfs) >"$SCRATCH/walk" 2>"$err"
that "of a fixture: what insn prints" "$err" cmp -s "$SCRATCH/want" "$SCRATCH/walk"

# the same trace again and again, with times that go back
"$BUILD/bench_repeat" fixtures/hello_cyc.data "$data" 20000
"$auxdecode" insn -F tid,ip --symfs fixtures/symfs "$data" 2>"$err" | grep -v '^#' >"$SCRATCH/want"
that "times that go back: there are instructions" - test "$(wc -l <"$SCRATCH/want")" -gt 5000
# shellcheck disable=SC2046
remote walk $(server "$data" --symfs fixtures/symfs) >"$SCRATCH/walk" 2>"$err"
that "times that go back: what insn prints" "$err" cmp -s "$SCRATCH/want" "$SCRATCH/walk"

if [ "$(uname -m)" = x86_64 ]; then
	record soft_pt/native/u "$programs/threads"
	steps threads

	# shellcheck disable=SC2046
	for seed in 1 2 3; do
		remote noise $seed 1500 $(server "$data") >"$out" 2>"$err"
		ok $? "packets of anything, seed $seed: it goes on" "$err"
	done

	"$auxcap" -e soft_pt/native/u -o "$data" -- sh -c "$programs/hello_static; $programs/hello_static; :" >"$out" 2>"$err"
	"$auxdecode" gdbserver --port - "$data" >"$out" 2>"$err" </dev/null
	is $? 0 "several processes: a client that goes away at once"
	that "several processes: which there are" "$err" grep -q '3 processes: sh/[0-9]*, .*; this is the one with which the trace begins, --pid PID' "$err"
	pid=$(sed -n 's/.*hello_static\/\([0-9]*\).*/\1/p' "$err")
	# shellcheck disable=SC2046
	remote walk $(server "$data" --pid "$pid") >"$SCRATCH/walk" 2>"$err"
	"$auxdecode" insn -F tid,ip --pid "$pid" "$data" 2>"$err" | grep -v '^#' >"$SCRATCH/want"
	that "several processes: one of them, as insn has it" "$err" cmp -s "$SCRATCH/want" "$SCRATCH/walk"

	# more than one window, and addresses that ran once, sometimes, often
	"$auxcap" -e soft_pt/native/u -o "$data" -- /usr/bin/python3 -S -E -c pass >"$out" 2>"$err"
	"$auxdecode" insn -F ip "$data" 2>"$err" | grep -v '^#' | sort | uniq -c >"$SCRATCH/counts"
	awk '$1 == 1 || $1 == 7 || $1 == 60 { if (!seen[$1]++) print $2, $1, $1 }' \
		"$SCRATCH/counts" >"$SCRATCH/want"
	tail -n 1 "$SCRATCH/counts" | awk '$1 < 200 { print $2, $1, $1 }' >>"$SCRATCH/want"
	# shellcheck disable=SC2046
	remote points "$(cut -d' ' -f1 "$SCRATCH/want" | paste -sd,)" $(server "$data") >"$out" 2>"$err"
	ok $? "breakpoints stop nowhere else" "$err"
	is "$(cat "$out")" "$(cat "$SCRATCH/want")" "breakpoints stop as often as they ran, both ways"

	# shellcheck disable=SC2046
	remote interrupt $(server "$data") >"$out" 2>"$err"
	is "$(cat "$out")" "T02 edge
T02 edge" "an interrupt stops it, both ways, and it goes on"

	# a flow with holes: each stops, both ways
	"$auxcap" -e soft_pt/native,psb_period=0/u --inject-overflow 2 -o "$data" -- "$programs/replayed" >"$out" 2>"$err"
	"$auxdecode" count "$data" >"$out" 2>"$err"
	is $? 3 "holes: status 3"
	gaps=$(sed -n "s/^total.* gaps \([0-9]*\)$/\1/p" "$out")
	# shellcheck disable=SC2046
	remote gaps $(server "$data") >"$out" 2>"$err"
	is "$(cat "$out")" "$gaps $gaps" "holes: a stop for each, back and forwards, with its cause"
fi

if [ -z "$(no_emulation)" ] && [ -e "$programs/aarch64/hello_static" ]; then
	record soft_etm//u "$programs/aarch64/hello_static"
	steps "an Arm program"
fi

# ---- gdb ----
if ! have gdb; then
	skip "no gdb (tools/deps install test)"
	finish
fi
run_gdb() { timeout 120 "${GDB:-gdb}" -nx -q -batch -ex 'set confirm off' -ex 'set width 0' "$@" 2>&1; }
script='python exec(gdb.execute("monitor script", to_string=True))'

# walked NAME MOST: by gdb's own single steps from the end to the begin and forwards again
walked() {
	WALK_MOST=$2 run_gdb -ex "target remote | $(server "$data")" \
		-ex 'source tests/gdb_walk.py' >"$out"
	that "gdb, $1: both ways are the same" "$out" not grep -q '^DIFFERS' "$out"
	sed -n 's/^step //p' "$out" | "$truthcmp" "$truth" >"$SCRATCH/walk" 2>&1
	ok $? "gdb, $1: $(grep '^total' "$SCRATCH/walk")" "$SCRATCH/walk"
}

# On a quiet machine 1,000 steps take a second.
walks=(hello_asm)
[ -z "${FULL:-}" ] || walks+=(hello_static)

if [ "$(uname -m)" = x86_64 ]; then
	for program in "${walks[@]}"; do
		record soft_pt/native/u "$programs/$program"
		walked "$program" 90000
	done
	record soft_pt/native/u "$programs/replayed"
	run_gdb -ex "source tests/gdb_steps.py" "$programs/replayed" | grep '^at ' >"$SCRATCH/live"
	# shellcheck disable=SC2046
	run_gdb -ex "target remote | $(server "$data" --at begin)" -ex "$script" \
		-ex "source tests/gdb_steps.py" | tee "$out" | grep '^at ' >"$SCRATCH/replay"
	that "gdb: 30 commands at least" "$out" test "$(wc -l <"$SCRATCH/live")" -ge 30
	that "gdb goes through the recording as through the live program" "$out" \
		cmp -s "$SCRATCH/live" "$SCRATCH/replay"

	run_gdb -ex "target remote | $(server "$data")" -ex "$script" -ex 'break fib if 1' \
		-ex 'info registers rsp' -ex 'stepi' -ex 'reverse-continue' -ex 'bt' \
		-ex 'reverse-finish' -ex 'bt' -ex 'x/i $pc' -ex 'delete' -ex 'reverse-continue' \
		-ex 'monitor where' -ex 'monitor seek 100%' -ex 'monitor gap' -ex 'monitor nonsense' >"$out"
	that "registers are unavailable" "$out" grep -q '^rsp *<unavailable>' "$out"
	that "the end is said" "$out" grep -q 'No more reverse-execution history' "$out"
	that "reverse-finish lands on the call" "$out" grep -q '^=> .*call .*<fib>' "$out"
	that "a backtrace to main" "$out" grep -q '^#[5-9] .* in main () at .*replayed.c:4' "$out"
	that "monitor where" "$out" grep -q '^process [0-9]*, thread [0-9]*, .*% of the trace' "$out"
	that "monitor gap" "$out" grep -q '^no gap after here' "$out"
	that "monitor: help for what is unknown" "$out" grep -q '^not known; where' "$out"

	# the slowest call, of each function that find has a whole call of
	record soft_pt/native,tsc,mtc,cyc/u "$programs/threads"
	for func in worker collatz pthread_mutex_lock; do
		read -r time tid < <("$auxdecode" find "$func" --sort dur --whole -n 1 -F time,tid "$data" 2>"$err" |
			tail -n 1)
		run_gdb -ex "target remote | $(server "$data")" -ex "monitor slowest $func" \
			-ex 'maintenance flush register-cache' -ex "thread find $tid" -ex 'info threads' >"$out"
		that "monitor slowest $func: where find says, $time" "$out" \
			grep -q "^process [0-9]*, thread $tid, .* $time s " "$out"
		that "monitor slowest $func: at its begin" "$out" \
			grep -qE "Thread $tid .* (0x[0-9a-f]* in )?$func \(" "$out"
	done
	run_gdb -ex "target remote | $(server "$data")" -ex 'monitor slowest nothing_of_it' \
		-ex 'monitor slowest' >"$out"
	that "monitor slowest: no such function" "$out" grep -q 'no function "nothing_of_it" ran' "$out"
	that "monitor slowest: of which" "$out" grep -q 'of which function?' "$out"
	record soft_pt/native/u "$programs/replayed"

	# gdb's own history of what ran: as insn has it, up to where it stands
	run_gdb -ex "target remote | $(server "$data")" -ex 'break fib' -ex 'reverse-continue' \
		-ex 'x/i $pc' -ex 'record btrace bts' -ex 'set record instruction-history-size 3000' \
		-ex 'record instruction-history /r' -ex 'record function-call-history /c' \
		-ex 'record stop' -ex 'stepi' -ex 'x/i $pc' >"$out"
	at=$(sed -n 's/^=> 0x0*\([0-9a-f]*\).*/\1/p' "$out" | head -n 1)
	sed -n 's/^[0-9]*\t\(=>\)\? *0x0*\([0-9a-f]*\) <.*/\2/p' "$out" >"$SCRATCH/got"
	"$auxdecode" insn -F ip "$data" 2>"$err" | grep -v '^#' >"$SCRATCH/all"
	head -n $(($(grep -nx "${at:-0}" "$SCRATCH/all" | tail -n 1 | cut -d: -f1) - 1)) "$SCRATCH/all" |
		tail -n 3000 >"$SCRATCH/want"
	that "record instruction-history: the 3,000 instructions before" "$out" \
		eval '[ "$(wc -l <"$SCRATCH/got")" = 3000 ] && cmp -s "$SCRATCH/want" "$SCRATCH/got"'
	that "record function-call-history" "$out" grep -Eq '^[0-9]+[[:space:]]+fib$' "$out"
	is "$(grep -c '^=> ' "$out")" 2 "record stop: the server's stepi again"

	# over TCP, and as `auxdecode gdb` does it
	: >"$err"	# what an earlier server said is not to be taken for this one's
	"$auxdecode" gdbserver "$data" 2>"$err" &
	pid=$!
	waits grep -q "target remote :[0-9]*'" "$err"
	port=$(sed -n "s/.*target remote :\([0-9]*\)'.*/\1/p" "$err")
	run_gdb -ex "target remote :$port" -ex 'p $pc' -ex detach >"$out"
	wait $pid
	is $? 0 "over TCP: status 0"
	that "over TCP: it stands in _exit" "$out" grep -q '_exit' "$out"
	printf '%s\n' 'bt 1' 'detach' 'quit' | GDB=gdb timeout 60 "$auxdecode" gdb "$data" >"$out" 2>&1
	is $? 0 "auxdecode gdb: status 0"
	that "auxdecode gdb: with backtraces" "$out" grep -q 'More stack frames follow' "$out"
	GDB=/bin/false "$auxdecode" gdb "$data" >"$out" 2>&1
	is $? 1 "a gdb that fails: status 1"
fi

if have lldb && [ "$(uname -m)" = x86_64 ]; then
	: >"$err"
	"$auxdecode" gdbserver --at begin "$data" 2>"$err" &
	pid=$!
	waits grep -q "target remote :[0-9]*'" "$err"
	port=$(sed -n "s/.*target remote :\([0-9]*\)'.*/\1/p" "$err")
	timeout 120 lldb --no-use-colors -b -o "target create $programs/replayed" -o "gdb-remote 127.0.0.1:$port" \
		-o 'breakpoint set -n fib' -o continue -o 'register read pc' -o stepi -o detach >"$out" 2>&1
	wait $pid
	is $? 0 "lldb: status 0"
	that "lldb: it comes to a breakpoint" "$out" grep -q 'stop reason = breakpoint 1' "$out"
	that "lldb: the place has its line" "$out" grep -q ' rip = 0x0.* replayed`fib + .* at replayed.c' "$out"
	that "lldb: a step" "$out" grep -q 'stop reason = instruction step into' "$out"
else
	skip "no lldb (tools/deps install test)"
fi

if have gdb-multiarch && [ -e "$programs/aarch64/hello_static" ] && [ -z "$(no_emulation)" ]; then
	for program in "${walks[@]}"; do
		record soft_etm//u "$programs/aarch64/$program"
		GDB=gdb-multiarch walked "an Arm program, $program" 90000
	done
	"$auxcap" -e soft_etm//u -o "$data" -- "$programs/aarch64/hello_static" >"$out" 2>"$err"
	GDB=gdb-multiarch run_gdb -ex "target remote | $(server "$data")" -ex "$script" \
		-ex 'show architecture' -ex 'reverse-stepi' -ex 'x/i $pc' -ex 'break main' \
		-ex 'reverse-continue' -ex 'bt' >"$out"
	that "an Arm program: its architecture" "$out" grep -q 'aarch64' "$out"
	that "an Arm program: back to main" "$out" grep -Eq '^#0 .*main' "$out"
fi
finish
