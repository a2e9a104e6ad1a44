#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Exactness: record real programs with all back ends under a covering set of
# configurations, decode, and compare with what ran, address by address.
#
#	FULL=1 tests/t_exact.sh      the whole matrix
#	tests/t_exact.sh CASE...     only these programs
. "$(dirname "$0")/lib.sh"
need_soft
. tests/record.sh

# exact CASE TERMS [OPTION...]
exact() {
	local text="$1 soft_pt/$2/${3:+ $3}"
	record "$@"
	if [ $status != 0 ]; then
		ok 1 "$text: auxcap ends with $status" "$log"
		return
	fi
	matches "$text"
}

# seams: where a stream is cut into chunks leaves no mark on the instructions of
# a thread. (Threads are merged by time, and time that CYC packets estimate
# starts anew at a cut: the last bits of it may differ.)
seams() {
	local whole cut
	whole=$("$auxdecode" insn -F tid,ip "$data" 2>&1 | sort -s -k1,1 | sha256sum)
	cut=$("$auxdecode" insn -F tid,ip --chunk-size 1 "$data" 2>&1 | sort -s -k1,1 | sha256sum)
	is "$cut" "$whole" "$1: the same in chunks as small as can be"
}

# each_cpu: who ran in one CPU's stream is the same where packets of time are read one
# by one, for insn tells times, and where they are gone over.
each_cpu() {
	local cpu got want bad=0 n=0
	for cpu in 0 1; do
		got=$("$auxdecode" count --cpu $cpu "$data" 2>/dev/null |
			sed -n 's/^thread \([0-9]*\) insns \([0-9]*\) .*/\1 \2/p' | sort)
		want=$("$auxdecode" insn -F tid,time --cpu $cpu "$data" 2>/dev/null |
			awk '!/^#/ { n[$1]++ } END { for (t in n) print t, n[t] }' | sort)
		[ "$got" = "$want" ] || bad=1
		n=$((n + $(wc -w <<<"$got") / 2))
	done
	[ $n -gt 2 ] || bad=1
	ok $bad "$1: threads on each CPU, with times and without: $n"
}

# in_order: the streams of both CPUs are merged in the order in which they are where
# every packet of time is read. Nothing is cut, so there is one worker.
in_order() {
	local got want
	got=$("$auxdecode" count -j1 --sha256 "$data" 2>/dev/null |
		sed -n 's/^total .* sha256 //p')
	want=$("$auxdecode" insn -j1 -F time,ip "$data" 2>/dev/null |
		perl -lane 'BEGIN { $\ = "" } print pack("Q<", hex($F[1])) unless /^#/' |
		sha256sum)
	is "$got" "${want%% *}" "$1: the order of all instructions, without times"
}

# Pairs of the settings (retcomp x psb x timing x streams) all occur.
covering=(
	"noretcomp=1,psb_period=0,mtc=0"
	"noretcomp=0,psb_period=1,mtc=0,cyc=1 --per-thread"
	"noretcomp=0,psb_period=0,mtc=1,cyc=1"
	"noretcomp=1,psb_period=1,mtc=1 --per-thread"
	"noretcomp=0,psb_period=1,mtc=0,defer_tip"
	"noretcomp=1,psb_period=0,mtc=1,mtc_period=0,cyc=1,cyc_thresh=3 --per-thread"
)
all=()
for ret in 0 1; do for psb in 0 1; do for time in ,mtc=0 ,mtc=1 ,mtc=0,cyc=1 ,mtc=1,cyc=1; do
	for streams in '' ' --per-thread'; do
		all+=("noretcomp=$ret,psb_period=$psb$time$streams")
	done
done; done; done

ran="hello_asm hello_static threads feature feature_timer jit_once forkexec dlopen vdso
     throw ls pipe pipeline gzip python"
stepped="hello_asm hello_static threads_few feature jit forkexec vdso"
[ -n "${FULL:-}" ] && stepped+=" threads feature_timer dlopen ls pipe gzip_tiny"

run_case() { # CASE BACKEND-TERM CONFIG
	local terms=${3%% *} option=''
	[ "$terms" = "$3" ] || option=${3#* }
	# shellcheck disable=SC2086
	exact "$1" "${2:+$2,}$terms" $option
}

pick=" $* "
wanted() { [ "$pick" = "  " ] || [[ $pick == *" $1 "* ]]; }

i=0
for case in $ran; do
	wanted "$case" || continue
	if [ -n "${FULL:-}" ]; then
		for config in "${all[@]}"; do run_case "$case" '' "$config"; done
	elif [ "$case" = gzip ] || [ "$case" = python ] || [ -n "${QUICK:-}" ]; then
		run_case "$case" '' "${covering[i % 6]}"
		run_case "$case" '' "${covering[(i + 3) % 6]}"
	else
		for config in "${covering[@]}"; do run_case "$case" '' "$config"; done
	fi
	count_matches "$case"
	[ "$case" = python ] || seams "$case"
	case $case in threads | pipeline | forkexec)
		record "$case" cyc,tsc,mtc && each_cpu "$case" && in_order "$case" ;;
	esac
	i=$((i + 1))
done
[ -z "$(no_emulation)" ] || ran=
for case in $ran; do
	wanted "$case" || continue
	run_case "$case" emulate "${covering[i % 6]}"
	i=$((i + 1))
done
for case in $stepped; do
	wanted "$case" || continue
	if [ -n "${FULL:-}" ]; then
		for config in "${covering[@]}"; do run_case "$case" step "$config"; done
	else
		run_case "$case" step "${covering[i % 6]}"
		[ -n "${QUICK:-}" ] || run_case "$case" step "${covering[(i + 3) % 6]}"
	fi
	i=$((i + 1))
done

# Races: many short processes and threads, again and again, with both processors
# busy elsewhere. REPEAT=100 for a serious search.
if wanted again; then
	timeout 900 yes >/dev/null & busy=$!
	timeout 900 yes >/dev/null & busy+=" $!"
	[ -n "${QUICK:-}" ] && REPEAT=${REPEAT:-1}
	for ((i = 0; i < ${REPEAT:-3}; i++)); do
		for case in pipe pipeline shells threads; do
			exact "$case" noretcomp=1
			exact "$case" noretcomp=1 --per-thread
		done
	done
	# shellcheck disable=SC2086
	{ kill $busy; wait $busy; } 2>/dev/null
fi
finish
