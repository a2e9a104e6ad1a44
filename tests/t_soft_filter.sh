#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# soft_pt with --filter: what decodes is what ran inside of the ranges, address by
# address, and nothing else: functions, whole files, ranges that begin and end inside of
# blocks, in threads and in children.
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/f.data truth=$SCRATCH/f.truth log=$SCRATCH/f.log

# outside FILE OFFSET SIZE: all addresses but those where the file is mapped, for truthcmp
outside() {
	"$auxdecode" dump "$data" | python3 -c '
import re, sys
name, lo, size = sys.argv[1], int(sys.argv[2], 0), int(sys.argv[3], 0)
inside = set()
for line in sys.stdin:
    m = re.search(r"MMAP2.* addr (0x[0-9a-f]+) len (0x[0-9a-f]+) pgoff (0x[0-9a-f]+|0) .* (/\S+)", line)
    if not m or m[4] != name:
        continue
    addr, length, off = (int(m[i], 16) for i in (1, 2, 3))
    a, b = max(lo, off), min(lo + size, off + length)
    if a < b:
        inside.add((addr + a - off, addr + b - off))
at = 0
for a, b in sorted(inside):
    print("%x-%x" % (at, a))
    at = b
print("%x-ffffffffffffffff" % at)' "$(realpath "$1")" "$2" "$3" >"$SCRATCH/ranges"
}

# exact TERMS FILTER FILE OFFSET SIZE PROGRAM [ARG...]
exact() {
	local terms=$1 filter=$2 file=$3 offset=$4 size=$5 text
	shift 5
	text="$terms '$filter' of ${1##*/}"
	rm -f "$data" "$truth"
	timeout 100 "$auxcap" -e "soft_pt/$terms/u" --filter "${filter//,/ @ $file,} @ $file" -o "$data" \
		--truth "$truth" -- "$@" >"$SCRATCH/out" 2>"$log" </dev/null
	is $? 0 "$text: recorded"
	outside "$file" "$offset" "$size"
	"$auxdecode" insn -F tid,ip "$data" >"$SCRATCH/flow" 2>"$SCRATCH/err"
	is $? 0 "$text: decodes without a gap"
	that "$text: something ran there" "$SCRATCH/flow" grep -q '^[^#]' "$SCRATCH/flow"
	"$truthcmp" --ignore-ranges "$SCRATCH/ranges" "$truth" "$SCRATCH/flow" >"$SCRATCH/cmp"
	ok $? "$text: what ran" "$SCRATCH/cmp"
	is "$(grep -o 'ignored [0-9]*/[0-9]*' "$SCRATCH/cmp" | grep -vc '/0$')" 0 \
		"$text: nothing else"
}

# place FILE SYMBOL: its offset in the file, and its size
place() {
	local load
	read -r -a load < <(readelf -lW "$1" | awk '$1 == "LOAD" && / R E / { print $2, $3; exit }')
	nm -S "$1" | awk -v s="$2" '$4 == s { print $1, $2; exit }' | {
		read -r at size
		printf '%d %d\n' $((0x$at - load[1] + load[0])) $((0x$size))
	}
}

hello=$programs/hello_asm
read -r at size < <(place "$hello" work)
for terms in '' step cyc noretcomp=0 psb_period=0,noretcomp=0 cyc,noretcomp=0,defer_tip; do
	exact "$terms" 'filter work' "$hello" "$at" "$size" "$hello"
done
if [ -n "$(no_libipt)" ]; then
	skip "$(no_libipt)" 'a second decoder sees the same'
else
	that 'a second decoder sees the same' "$SCRATCH/verify" \
		sh -c '"$0" verify "$1" >"$2" 2>&1' "$auxdecode" "$data" "$SCRATCH/verify"
fi
exact '' 'filter *' "$hello" 0 0x10000 "$hello"
# From the call in the loop to its dec; then the same in two parts that touch.
exact '' 'filter 0x1007/0x7' "$hello" 0x1007 7 "$hello"
exact noretcomp=0 'filter 0x1007/0x5,filter 0x100c/0x2' "$hello" 0x1007 7 "$hello"

for terms in '' cyc noretcomp=0,psb_period=0; do
	for name in threads forkexec; do
		read -r at size < <(place "$programs/$name" main)
		exact "$terms" 'filter main' "$programs/$name" "$at" "$size" \
			"$programs/$name"
		exact "$terms" 'filter *' "$programs/$name" 0 0x1000000 "$programs/$name"
	done
done

# refused TEXT WANTED ARG...
refused() {
	local text=$1 wanted=$2
	shift 2
	rm -f "$data"
	"$auxcap" -o "$data" "$@" >"$SCRATCH/out" 2>"$log"
	is $? 2 "$text: usage"
	that "$text: says why" "$log" grep -q -- "$wanted" "$log"
	that "$text: no file" - not test -e "$data"
}
refused 'a start' 'not start' -e soft_pt//u --filter "start main @ $hello" -- "$hello"
refused 'the kernel' 'add @ FILE' -e soft_pt//u --filter 'filter 0x1000/0x10' -- "$hello"
refused 'no such function' 'no function nix' -e soft_pt//u --filter "filter nix @ $hello" -- "$hello"
refused 'without branches' 'needs branch' -e soft_pt/pt,branch=0,ptw/u \
	--filter "filter work @ $hello" -- "$hello"
finish
