#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# Decoding with several threads, under ThreadSanitizer; LONG=1: with eight, by every
# command that takes -j, of what auxcap records under it, too.
. "$(dirname "$0")/lib.sh"
need_soft

tsan=$SCRATCH/tsan
need_tsan

env -u MAKEFLAGS -u MAKELEVEL make -j2 BUILD="$tsan" SAN= COVER_FLAGS= CFLAGS="-O1 -g -fsanitize=thread" \
	LDFLAGS=-fsanitize=thread "$tsan/tests/test_workers" "$tsan/auxdecode" \
	${LONG:+"$tsan/auxcap"} >"$SCRATCH/out" 2>&1
ok $? "it is compiled with ThreadSanitizer" "$SCRATCH/out" || finish
export TSAN_OPTIONS=exitcode=66
timeout 500 "$tsan/tests/test_workers" >"$SCRATCH/out" 2>&1
ok $? "test_workers runs without a data race" "$SCRATCH/out"

data=$SCRATCH/tsan.data jobs=3
commands=(count 'count --sha256' 'insn -F +time' branch)
if [ -n "${LONG:-}" ]; then
	jobs=8 auxcap=$tsan/auxcap
	cp "$BUILD/auxkit-qemu.so" "$tsan/"
	commands+=(calls 'flame --per all' hot 'hot --blocks' 'hot --edges' 'latency main' 'find main'
		annotate coverage 'coverage --to lcov' 'coverage --to afl' profile summary
		"report -o $SCRATCH/tsan.html")
	for to in perfetto chrome fxt firefox speedscope pprof callgrind sqlite jsonl parquet; do
		commands+=("export --to $to -o $SCRATCH/tsan.$to")
	done
fi
for event in soft_pt/tsc,psb_period=0/u soft_etm/sync_period=8/u; do
	program=$programs/threads
	if [[ $event = soft_etm* ]]; then
		program=$programs/aarch64/threads
		if ! [ -x "$program" ] || [ -n "$(no_emulation)" ]; then
			skip "hardware: no aarch64 programs, or $(no_emulation)"
			continue
		fi
	fi
	rm -f "$data"
	timeout 500 "$auxcap" -e "$event" -o "$data" -- "$program" >"$SCRATCH/out" 2>&1 </dev/null
	ok $? "$event is recorded" "$SCRATCH/out"
	for command in "${commands[@]}"; do
		# shellcheck disable=SC2086
		timeout 500 "$tsan/auxdecode" $command -j$jobs --chunk-size 4096 "$data" 2>"$SCRATCH/err" >"$SCRATCH/out"
		ok $? "$event: $command runs without a data race" "$SCRATCH/err"
	done
done
# Trees are made by all workers where a thread has a stream of its own.
rm -f "$data"
timeout 500 "$auxcap" -e soft_pt/cyc,psb_period=0/u --per-thread -o "$data" -- "$programs/threads" >"$SCRATCH/out" 2>&1 </dev/null
ok $? "threads are recorded one by one" "$SCRATCH/out"
for command in 'hot --by cycles' flame; do
	# shellcheck disable=SC2086
	timeout 500 "$tsan/auxdecode" $command -j$jobs --chunk-size 4096 "$data" 2>"$SCRATCH/err" >"$SCRATCH/out"
	ok $? "$command, by thread, runs without a data race" "$SCRATCH/err"
done
finish
