#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Times and cycles of functions: refused where the trace has none, never shown as zeros.
. "$(dirname "$0")/lib.sh"
need_emulation

here=$SCRATCH/amounts
mkdir -p "$here"

# ---- a trace that has neither ----
data=$here/bare
"$auxcap" -q --per-thread -e soft_pt/tsc=0,mtc=0,cyc=0/u -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording without times" "$here/err"
refused() { # PATTERN COMMAND...
	local pattern=$1
	shift
	"$auxdecode" "$@" "$data" >"$here/out" 2>"$here/err"
	is $? 1 "$*: status 1"
	that "$*: says what to record" "$here/err" grep -q -e "$pattern" "$here/err"
	is "$(grep -vc '^#' "$here/out")" 0 "$*: and shows nothing"
}
for what in hot flame "find main" "latency main"; do
	# shellcheck disable=SC2086
	refused 'no cycles: record them with cyc (Intel PT) or cycacc (CoreSight)' $what --by cycles
done
for what in "hot --by time" "flame --by time" "latency main" "find main --longer 1us"; do
	# shellcheck disable=SC2086
	refused 'no times: record them with tsc (Intel PT) or timestamp (CoreSight)' $what
done
"$auxdecode" find -n 1 "$data" >"$here/out" 2>"$here/err"
is $? 0 "find without a time: status 0"
is "$(awk '!/^#/ { print $1, $2 }' "$here/out")" "- -" "find without a time: none is made up"
for what in hot "hot --by branches" flame "find main --by insns" "latency --by insns worker"; do
	# shellcheck disable=SC2086
	"$auxdecode" $what "$data" >"$here/out" 2>"$here/err"
	is $? 0 "$what: needs none" || cat "$here/err"
done

# ---- a trace that has both ----
data=$here/full
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$data" -- "$programs/threads" >/dev/null 2>"$here/err"
ok $? "a recording with times and cycles" "$here/err"
for what in "hot --by time" "hot --by cycles" "find worker --by cycles" "latency worker" "latency --by cycles worker"; do
	# shellcheck disable=SC2086
	"$auxdecode" $what "$data" >"$here/out" 2>"$here/err"
	is $? 0 "$what: status 0" || cat "$here/err"
	that "$what: shows something" "$here/out" grep -qv '^#' "$here/out"
done

# ---- what gaps follow ----
data=$here/gaps
"$auxcap" -q -e soft_pt/psb_period=0/u --inject-overflow 40 -o "$data" -- "$programs/stack_recurse" >/dev/null 2>&1
places() { sed -n 's/^# gap \([a-z-]*\) at offset \([^ ]*\) after \([^:]*\):.*/\1 \2 \3/p'; }
"$auxdecode" insn -F ip "$data" 2>/dev/null | places | sort >"$here/want"
that "there are gaps after something" "$here/want" grep -q ' 0x' "$here/want"
"$auxdecode" calls "$data" 2>/dev/null | places | sort >"$here/got"
that "calls: gaps follow what they follow in insn" "$here/got" cmp -s "$here/want" "$here/got"
"$auxdecode" calls -F tid,sym "$data" 2>/dev/null | places | sort >"$here/got"
that "calls -F: the same" "$here/got" cmp -s "$here/want" "$here/got"
finish
