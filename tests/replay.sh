#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# replay.sh NAME: one fuzz target over its corpus, fixtures/corpus/NAME: every
# input that ever mattered, each in its own process.
. "$(dirname "$0")/lib.sh"

bin=$BUILD/tests/replay_$1
for f in fixtures/corpus/"$1"/*; do
	[ -f "$f" ] || continue
	timeout 300 "$bin" "$f" >"$SCRATCH/replay" 2>&1
	ok $? "$1: $(basename "$f")" "$SCRATCH/replay"
done
[ $n_tests = 0 ] && ok 1 "$1: fixtures/corpus/$1 has no input"
finish
