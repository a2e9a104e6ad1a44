#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# The truth of stacks: programs of known call structure are recorded while their own
# hooks write down every call (tests/programs/stack_truth.h), and tools/callcmp.c
# compares: the same functions, in the same order, at the same depth, per thread.
# A second witness without hooks: how often gdb's breakpoints were hit.
#
#	tests/t_stacks.sh NAME...    only these programs, without stack_
. "$(dirname "$0")/lib.sh"
need_soft

callcmp=$BUILD/callcmp
here=$SCRATCH/stacks
mkdir -p "$here"
pick=" $* "
wanted() { [ "$pick" = "  " ] || [[ $pick == *" $1 "* ]]; }

# run NAME TERMS: leaves $here/data, $here/truth.PID; args: of the program
args=()
run() {
	local program=$programs/stack_$1 before=()
	rm -f "$here"/*
	[[ $1 == plt* ]] && before=(env "LD_PRELOAD=$programs/stack_lib")
	STACK_TRUTH=$here/truth timeout 500 "$auxcap" -e "soft_pt/$2/u" -o "$here/data" -- \
		"${before[@]}" "$program" "${args[@]}" >"$here/out" 2>"$here/log" </dev/null
	ok $? "$1, soft_pt/$2/: recorded" "$here/log" || return
	that "$1: ends well" "$here/out" grep -qE 'all right$' "$here/out"
}

# stacks NAME TERMS [OPTION...]: as callcmp has them
stacks() {
	local name=$1 terms=$2
	shift 2
	wanted "$name" || return
	run "$name" "$terms" || return
	"$callcmp" "$@" "$here/data" "$here"/truth.* >"$here/cmp" 2>&1
	ok $? "$name${args[*]:+ ${args[*]}}, soft_pt/$terms/: the calls are those that ran: $(tail -n 1 "$here/cmp")" "$here/cmp"
}

# breakpoints NAME FUNCTION...: gdb counts how often control is at their begins
breakpoints() {
	local name=$1 f points=()
	shift
	wanted "$name" || return
	if ! have gdb; then
		ok 1 "$name: gdb is missing (tools/deps install test)"
		return
	fi
	run "$name" '' || return
	for f; do
		points+=(-ex "break *$f" -ex "ignore \$bpnum 1000000")
	done
	gdb -nx -batch -ex 'handle all nostop noprint pass' "${points[@]}" -ex run -ex 'info breakpoints' "$programs/stack_$name" \
		>"$here/gdb" 2>&1 </dev/null
	awk '$2 == "breakpoint" { for (i = 1; i < NF; i++) if ($i == "in") f = $(i + 1) }
		/already hit/ { print f, $4 }' "$here/gdb" | sort >"$here/want"
	"$callcmp" --counts "$here/data" | sort | uniq -c | awk '{ print $2, $1 }' |
		grep -wE "$(IFS='|'; echo "$*")" | sort >"$here/got"
	diff "$here/want" "$here/got" >"$here/diff"
	ok $? "$name: as often as gdb's breakpoints were hit: $(wc -l <"$here/want") functions" "$here/diff"
	is "$(wc -l <"$here/want")" $# "$name: gdb saw each of them"
}

for terms in '' 'noretcomp=1'; do
	stacks recurse "$terms"
	stacks jump "$terms"
	stacks signal "$terms"
	stacks fiber "$terms"
	# Which of several frames or fibers that wait at the same address goes on,
	# only registers tell: the depth is the likeliest until later returns prove it
	# right or wrong. Wrong are 6 of 292, and 67 of 405 (0 would be better).
	stacks jump_any "$terms" --enters --depths 6
	stacks fiber_same "$terms" --enters --depths 67
	stacks threads "$terms"
	# Children begin inside of the function that called fork or vfork: 3 and 2.
	stacks exec "$terms" --base 5
	stacks plt_lazy "$terms"
	[ ! -e "$programs/stack_plt_sec" ] || stacks plt_sec "$terms"	# of x86-64
	stacks plt_now "$terms"
	# The exit hook of a frame runs when an exception leaves it, too.
	stacks throw "$terms" --enters
	# No hook tells of a return here.
	stacks throw_bare "$terms" --enters
	stacks throw_some "$terms" --enters
	stacks tail "$terms" --enters
done
# Everything at random; SEEDS=40 for a serious search.
for ((seed = 1; seed <= ${SEEDS:-4}; seed++)); do
	args=("$seed")
	stacks random "noretcomp=$((seed % 2))" --enters
done
args=()
# The same from instructions that the processor itself ran.
stacks jump step
stacks fiber step
stacks tail step --enters
breakpoints tail main leaf direct indirect ping pong both grow interpret \
	do_add do_sub do_call do_end
breakpoints recurse main is_even is_odd dive ackermann fib add sub twice compare \
	sorted goodbye farewell leave_for_good
breakpoints signal main leaf work on_signal on_nested on_fault mended spin wait_in_kernel
finish
