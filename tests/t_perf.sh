#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# Our recordings in unmodified perf: the same sequence of instructions, and not
# a warning from perf report and perf script -D.
. "$(dirname "$0")/lib.sh"
need_soft
. tests/record.sh

if ! have perf || ! perf --version >/dev/null 2>&1; then
	skip "perf is not installed (tools/deps install test)"
	finish
fi

# What perf says of every file on a machine like this one, ours or not.
usual='^$|kernel address maps|kptr_restrict|Kernel address maps|vmlinux|/proc/kallsyms|As no suitable kallsyms|# To display the perf.data header info'

quiet() { # TEXT FILE: no line that is about the recording
	grep -Ev "$usual" "$2" >"$SCRATCH/said"
	that "$1" "$SCRATCH/said" test ! -s "$SCRATCH/said"
}

# same CASE TERMS GAPS [OPTION...]; GAPS: exact, or gaps where code is in no file
same() {
	local case=$1 terms=$2 gaps=$3 text="$1 soft_pt/$2/${4:+ $4}" option='' rc
	[ "$gaps" = gaps ] && option=--expect-gaps
	shift 3
	record "$case" "$terms" "$@"
	[ $status = 0 ] || { ok 1 "$text: auxcap ends with $status" "$log"; return; }
	perf script --itrace=i0ns -F tid,ip -i "$data" 2>"$SCRATCH/err" |
		"$truthcmp" ${option:+"$option"} "$truth" >"$SCRATCH/cmp"
	rc=("${PIPESTATUS[@]}")
	ok $((rc[0] | rc[1])) "$text: perf $(tail -1 "$SCRATCH/cmp")" "$SCRATCH/cmp"
	if [ "$gaps" = exact ]; then
		quiet "$text: perf script says nothing" "$SCRATCH/err"
	fi
	[ -z "${NO_DUMP:-}" ] || return
	perf script -D -i "$data" >"$SCRATCH/dump" 2>"$SCRATCH/err"
	ok $? "$text: perf script -D" "$SCRATCH/err"
	quiet "$text: perf script -D says nothing" "$SCRATCH/err"
	grep -aiE 'bad packet|failed to process|unknown' "$SCRATCH/dump" | head -n 5 >"$SCRATCH/bad"
	quiet "$text: no bad packet in the dump" "$SCRATCH/bad"
}

same hello_asm noretcomp=1,psb_period=0 exact
same hello_static noretcomp=0,psb_period=0 exact --per-thread
same hello_static step,noretcomp=0,cyc=1 exact
same threads noretcomp=0,psb_period=0,mtc=1,cyc=1 exact
same threads noretcomp=1,psb_period=1 exact --per-thread
same feature noretcomp=0,psb_period=0 exact
same feature step,noretcomp=1,psb_period=1 exact --per-thread
same jit_once noretcomp=1 gaps
same jit step,noretcomp=1 gaps
same forkexec noretcomp=0,mtc=1 exact
same dlopen noretcomp=1 exact
same vdso step,noretcomp=1 exact
same throw noretcomp=0,cyc=1 exact
same ls noretcomp=0 exact
same pipe noretcomp=1,mtc=1,cyc=1 exact
same gzip_tiny noretcomp=0,psb_period=1,cyc=1 exact
if [ -z "${QUICK:-}" ]; then
	NO_DUMP=1
	same gzip noretcomp=0 exact
	[ -n "${FULL:-}" ] && same python noretcomp=1 exact
fi

record ls noretcomp=1
perf report --stdio -i "$data" --itrace=i10us >"$SCRATCH/report" 2>"$SCRATCH/err"
ok $? "perf report" "$SCRATCH/err"
quiet "perf report says nothing" "$SCRATCH/err"
that "perf report shows the program's objects" "$SCRATCH/report" \
	grep -q 'ls .*\(libc\|ld-linux\|ls\)' "$SCRATCH/report"
perf report --header-only -i "$data" >"$SCRATCH/header" 2>"$SCRATCH/err"
ok $? "perf report --header-only" "$SCRATCH/err"
for what in hostname 'os release' arch nrcpus cpuid cmdline; do
	that "the header has: $what" "$SCRATCH/header" grep -q "^# $what" "$SCRATCH/header"
done
# The other way round: nothing in a file of this perf is without a name.
if perf record -q -e cpu-clock:u -o "$SCRATCH/theirs" -- true >"$SCRATCH/log" 2>&1; then
	{ "$auxdecode" info "$SCRATCH/theirs" && "$auxdecode" dump "$SCRATCH/theirs"; } >"$SCRATCH/names" 2>&1
	that "every record and feature of perf's file has a name" "$SCRATCH/names" \
		not grep -E 'TYPE_[0-9]|feature_[0-9]' "$SCRATCH/names"
	"$auxdecode" summary "$SCRATCH/theirs" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 1 "a summary of a file without trace: status 1"
	that "and the reason" "$SCRATCH/err" \
		grep -q '^auxdecode: error: .*recorded without intel_pt' "$SCRATCH/err"
fi
perf buildid-list -i "$data" >"$SCRATCH/ids" 2>&1
that "perf buildid-list knows the program" "$SCRATCH/ids" \
	grep -q '^[0-9a-f]\{40\} .*/ls$' "$SCRATCH/ids"

# ---- buildid-list: the same lines as perf's ----
same_ids() { # TEXT FILE
	timeout 60 perf buildid-list -i "$2" 2>/dev/null | sort >"$SCRATCH/want"
	"$auxdecode" buildid-list "$2" 2>"$SCRATCH/err" | sort >"$SCRATCH/got"
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	ok $? "buildid-list, $1: $(wc -l <"$SCRATCH/want") lines as perf's" "$SCRATCH/diff"
}
same_ids "a recording by software" "$data"
python3 - "$data" "$SCRATCH/damaged" <<'END'
import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
at, size = struct.unpack_from("<QQ", b, 40)
ids = struct.unpack_from("<Q", b, at + size + (16 if b[72] & 2 else 0))[0]	# behind tracing data
struct.pack_into("<H", b, ids + 6, 3)		# the first entry is of 3 bytes
open(sys.argv[2], "wb").write(b)
END
"$auxdecode" buildid-list "$SCRATCH/damaged" >"$SCRATCH/got" 2>"$SCRATCH/err"
is $? 3 "buildid-list, a damaged list: status 3"
that "and it is told" "$SCRATCH/err" grep -q "list of build ids is damaged" "$SCRATCH/err"
same_ids "an ELF file" "$programs/hello_asm"
that "which has one" "$SCRATCH/want" grep -qE '^[0-9a-f]{40}$' "$SCRATCH/want"
"$auxcap" -q -o - -- "$programs/threads" >"$SCRATCH/piped" 2>"$SCRATCH/err" </dev/null
timeout 60 perf buildid-list -i - <"$SCRATCH/piped" 2>/dev/null | sort >"$SCRATCH/want"
"$auxdecode" buildid-list - <"$SCRATCH/piped" 2>"$SCRATCH/err" | sort >"$SCRATCH/got"
# this perf lists of a pipe with trace what it decodes, which is nothing
that "buildid-list, a pipe: all that perf lists, and the program" "$SCRATCH/got" \
	test -z "$(comm -23 "$SCRATCH/want" "$SCRATCH/got")" -a -n "$(grep '/threads$' "$SCRATCH/got")"
for how in --buildid-mmap --buildid-all; do
	if perf record -q $how -e cpu-clock:u -o "$SCRATCH/theirs" -- true >"$SCRATCH/log" 2>&1; then
		# perf lists of records those files that a sample is in
		timeout 60 perf buildid-list -i "$SCRATCH/theirs" 2>/dev/null | sort >"$SCRATCH/want"
		"$auxdecode" buildid-list "$SCRATCH/theirs" 2>"$SCRATCH/err" | sort >"$SCRATCH/got"
		comm -23 "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
		that "buildid-list, perf record $how: all that perf lists" "$SCRATCH/diff" test ! -s "$SCRATCH/diff"
		that "and the program" "$SCRATCH/got" grep -q "^$("$auxdecode" buildid-list "$(readlink -f "$(type -P true)")") .*/true$" "$SCRATCH/got"
	fi
done
finish
