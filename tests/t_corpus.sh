#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Traces that others recorded on hardware: the hashes and packets that the
# reference decoders gave. The corpus is public but not ours to copy: without
# it (AUXKIT_CORPUS, else ../shared/corpus) these tests are skipped.
. "$(dirname "$0")/lib.sh"

if [ ! -e "$corpus/cases.tsv" ]; then
	skip "corpus: no recorded traces at $corpus (set AUXKIT_CORPUS)"
	finish
fi

field() { awk -F '\t' -v c="$1" -v n="$2" '$2 == c { print $n }' "$corpus/cases.tsv"; }

# flow CASE WANTED-STATUS: number of instructions and SHA-256 as in cases.tsv
flow() {
	local input root want_n want_hash rc
	input=$corpus/$(field "$1" 3)
	root=$corpus/$(field "$1" 4)
	want_n=$(field "$1" 7)
	want_hash=$(field "$1" 8)
	"$auxdecode" count --sha256 --symfs "$root" "$input" >"$SCRATCH/count" 2>"$SCRATCH/err"
	rc=$?
	cat "$SCRATCH/err" >>"$SCRATCH/count"
	is $rc "$2" "$1: exit status"
	that "$1: the SHA-256 of its $want_n instructions" "$SCRATCH/count" \
		grep -q "$want_hash" "$SCRATCH/count"
}

flow lldb-single 0
flow dynamorio-hello 0
flow xdc-foo 0

# lldb-multi-file: the reference's 45 in order, and the gap reported.
"$auxdecode" insn -F tid,ip --symfs "$corpus" "$corpus/wrapped/lldb-multi-file.perf.data" \
	>"$SCRATCH/flow" 2>"$SCRATCH/err"
rc=$?
is $rc 3 "lldb-multi-file: status 3, it has a gap"
zcat "$corpus/lldb/ref/multi-file.ptxed.txt.gz" | awk '/^[0-9a-f]+  / { print $2 }' |
	sed 's/^0*//' >"$SCRATCH/want"
awk '!/^#/ { print $2 }' "$SCRATCH/flow" >"$SCRATCH/got"
n=$(awk 'NR == FNR { want[++n] = $1; next } $1 == want[k + 1] { k++ } END { print k + 0 "/" n }' \
	"$SCRATCH/want" "$SCRATCH/got")
is "$n" 45/45 "lldb-multi-file: the reference's instructions, in order"
that "lldb-multi-file: a GAP line" "$SCRATCH/flow" grep -qi '^#.*gap' "$SCRATCH/flow"

# Packets of a native recording with kernel, against perf's and ptdump's list.
. tests/packets.sh
finish
