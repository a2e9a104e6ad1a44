#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# raw prints CoreSight packets by name: each packet of recorded ETMv4 and ETE traces,
# with its atoms and its address, is what OpenCSD's packet lister printed.

. "$(dirname "$0")/lib.sh"

if [ ! -e "$corpus/cases.tsv" ]; then
	skip "corpus: no recorded traces at $corpus (set AUXKIT_CORPUS)"
	finish
fi

# Both become "ID NAME ATOMS ADDRESS", by trace id.
listed() { # of the lister
	zcat "$1" | awk '
	/^Idx:[0-9]+; ID:[0-9a-f]+; \[.*\];\tI_/ {
		id = $2; sub(/^ID:/, "", id); sub(/;/, "", id)
		line = $0; sub(/^[^\t]*\t/, "", line)
		name = line; sub(/ :.*/, "", name)
		sub(/^I_SCR_/, "I_SRC_", name)
		if (name == "I_NOT_SYNC") next
		what = ""
		if (name ~ /ATOM/) { what = line; sub(/.*; */, "", what) }
		if (match(line, /Addr=0x[0-9A-Fa-f]+/)) {
			what = tolower(substr(line, RSTART + 7, RLENGTH - 7))
			sub(/^0+/, "", what)
			what = what == "" ? "0" : what
		}
		print id, name, what
	}' | sort -s -k 1,1
}
ours() {
	awk '
	/^# stream/ { id = "0"; if (match($0, /trace id 0x[0-9a-f]+/)) id = substr($0, RSTART + 11, RLENGTH - 11) }
	/^  [0-9a-f]+  I_/ {
		what = ""
		if ($2 ~ /ATOM/) what = $3
		for (i = 3; i <= NF; i++)
			if ($2 ~ /ADDR|^I_Q/ && what == "" && $i ~ /^0x/) what = substr($i, 3)
		print id, $2, what
	}' "$SCRATCH/out" | sort -s -k 1,1
}

for name in juno_r1_1 a57_single_step ete_ip ete_spec_1 src_addr q_elem tme_simple \
	trace_file_vmid test-file-mem-offsets init-short-addr juno-uname-001 \
	event_test; do
	dir=$corpus/opencsd/snapshots/$name
	[ -e "$dir" ] || dir=$corpus/opencsd/snapshots-ete/$name
	# of a snapshot with many buffers the lister took the first
	"$auxdecode" raw --stream 0 "$dir" >"$SCRATCH/out" 2>"$SCRATCH/err"
	[ "$name" = q_elem ] || "$auxdecode" raw "$dir" >"$SCRATCH/out" 2>"$SCRATCH/err"
	listed "$corpus/opencsd/ref-1.8.0/$name.ppl.gz" >"$SCRATCH/want"
	ours >"$SCRATCH/got"
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	ok $? "$name: $(wc -l <"$SCRATCH/want") packets as the lister's" "$SCRATCH/diff"
	that "$name: there are some" - test -s "$SCRATCH/want"
done

finish
