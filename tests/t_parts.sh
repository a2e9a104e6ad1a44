#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A recording decoded in parts (--chunk), each by a process of its own, and merged: of
# every format that merge takes, either the same bytes as of the whole, or it is said
# or refused.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

p=$SCRATCH/parts size=16384
mkdir -p "$p"
record sorts noretcomp=0,psb_period=0
is $status 0 "recorded" || sed 's/^/#   /' "$log"

n_parts=0
while "$auxdecode" count --chunk-size $size --chunk $n_parts "$data" >/dev/null 2>&1; do
	n_parts=$((n_parts + 1))
done
ok $((n_parts < 4)) "$n_parts parts"

parts() { # NAME COMMAND...: $p/NAME.whole, and the parts in list
	local name=$1 i
	shift
	list=()
	"$auxdecode" "$@" -o "$p/$name.whole" "$data" 2>"$SCRATCH/err"
	is $? 0 "$name: the whole" || sed 's/^/#   /' "$SCRATCH/err"
	for ((i = 0; i < n_parts; i++)); do
		"$auxdecode" "$@" --chunk-size $size --chunk $i -o "$p/$name.$i" "$data" 2>>"$SCRATCH/err"
		list+=("$p/$name.$i")
	done
}

merge() { # STATUS NAME OPTION... FILE...
	local want=$1 name=$2
	shift 2
	"$auxdecode" merge -o "$p/$name.merged" "$@" 2>"$SCRATCH/err"
	is $? "$want" "$name: merged" || sed 's/^/#   /' "$SCRATCH/err"
}

same() { # NAME TEXT
	diff -a "$p/$1.whole" "$p/$1.merged" >"$SCRATCH/diff" 2>&1
	ok $? "$1: $2" "$SCRATCH/diff"
}

parts drcov coverage --to drcov
merge 0 drcov "${list[@]}"
same drcov "the same as of the whole"

parts afl coverage --to afl
merge 0 afl --parts "${list[@]}"
same afl "the same as of the whole"
merge 0 afl "${list[@]}"
that "afl: without --parts the larger count" - not cmp -s "$p/afl.whole" "$p/afl.merged"

# Branch lists: in any order, and some of them first.
parts list profile
merge 0 list "${list[@]}"
same list "the same as of the whole"
that "list: nothing is left open" "$SCRATCH/err" not grep -q 'open' "$SCRATCH/err"
reversed=()
for f in "${list[@]}"; do reversed=("$f" "${reversed[@]}"); done
merge 0 list "${reversed[@]}"
same list "the same from the last to the first"
merge 0 list "${list[0]}" "${list[2]}"
that "list: a part is missing: said" "$SCRATCH/err" grep -q 'parts of a recording are open' "$SCRATCH/err"
mv "$p/list.merged" "$p/some"
merge 0 list "${list[@]:3}" "$p/some" "${list[1]}"
same list "the same when some were merged before"
merge 1 list "${list[1]}" "${list[1]}"
that "list: one part twice: refused" "$SCRATCH/err" grep -q 'the same part' "$SCRATCH/err"
# What a compiler reads is made of one part as well, if code with lines ran there.
for ((i = 0; i < n_parts; i++)); do
	"$auxdecode" profile --to autofdo --chunk-size $size --chunk $i -o "$p/afdo" "$data" 2>"$SCRATCH/err" &&
		break
done
that "a profile of one part" "$SCRATCH/err" test -s "$p/afdo"

# Lines: branches are those of the whole; the count of a line that a border cuts may be
# one more, and that is said.
parts lcov coverage --to lcov
merge 0 lcov "${list[@]}"
that "lcov: said that it is of parts" "$SCRATCH/err" grep -q 'may count once more' "$SCRATCH/err"
for f in whole merged; do
	grep -E '^(SF|BRDA|BRF|BRH)' "$p/lcov.$f" | sed 's/,-$/,0/' >"$p/$f.branches"
	grep -E '^(SF|DA)' "$p/lcov.$f" | cut -d, -f1 >"$p/$f.lines"
done
that "lcov: the same branches" - cmp "$p/whole.branches" "$p/merged.branches"
that "lcov: the same lines" - cmp "$p/whole.lines" "$p/merged.lines"
paste -d' ' <(grep '^DA' "$p/lcov.whole") <(grep '^DA' "$p/lcov.merged") |
	awk -F'[, ]' -v n="$n_parts" '$4 < $2 || $4 > $2 + 2 * n { print; bad = 1 } END { exit bad }' >"$SCRATCH/diff"
ok $? "lcov: no line counts less, none more than the borders explain" "$SCRATCH/diff"
merge 0 lcov "$p/lcov.whole" "$p/lcov.whole"
that "lcov: of whole recordings nothing is said" - test ! -s "$SCRATCH/err"

# Stacks of a part begin in the middle of calls.
parts folded flame
merge 1 folded "${list[@]}"
that "folded: refused, with what to do" "$SCRATCH/err" grep -q 'middle of calls.*decode it whole' "$SCRATCH/err"
merge 0 folded "$p/folded.whole" "$p/folded.whole"
parts pprof export --to pprof
merge 1 pprof "${list[@]}"
that "pprof: refused, with what to do" "$SCRATCH/err" grep -q 'middle of calls.*decode it whole' "$SCRATCH/err"
merge 0 pprof "$p/pprof.whole" "$p/pprof.whole"
finish
