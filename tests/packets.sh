# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
#
# The packets of a native recording (Skylake, user and kernel, two CPUs) against
# the lists that perf and libipt's ptdump made. Sourced by t_corpus.sh.

pt=$corpus/quipper/src/quipper/testdata/perf.data.intel_pt-4.14
ref=$corpus/quipper/ref

# All lists become "OFFSET NAME DETAIL": TNT bits as ! and ., the IP's bytes in
# the packet, the value of TSC, CBR, MTC, PIP's CR3. PAD is left out.
from_ours() {
	awk '/^#/ || $2 == "pad" { next }
	{ gsub(/[,:]/, ""); gsub(/ 0x/, " "); d = "" }
	$2 == "tnt" { d = $4 }
	$2 ~ /^(tip|fup)/ { d = $3 == "0" ? "-" : $4 }
	$2 == "tsc" || $2 == "mtc" { d = $3 }
	$2 == "cbr" { d = sprintf("%x", $3) }
	$2 == "pip" { d = $4 }
	$2 == "tma" { d = $4 " " $6 }
	$2 == "mode.exec" { d = $3 }
	{ sub(/^0+/, "", d); print substr($1, 9), $2, d }'
}

from_ptdump() {
	awk '{ gsub(/[,?]/, ""); sub(/:$/, "", $3); d = "" }
	$2 ~ /^tnt/ { $2 = "tnt"; d = $3 }
	$2 ~ /^(tip|fup)/ { d = $3 == "0" ? "-" : substr($4, 17 - 4 * $3) }
	$2 ~ /^(tip|fup)/ && d == "" { d = $4 }
	$2 == "tsc" || $2 == "mtc" || $2 == "cbr" || $2 == "pip" { d = $3 }
	$2 == "tma" { d = $3 " " $4 }
	$2 == "mode.exec" { d = $3 }
	{ sub(/^0+/, "", d); print substr($1, 9), $2, d }'
}

from_perf() { # names and offsets alone, of both streams
	awk '/Intel Processor Trace data/ { on = 1; next } /^\.  [0-9a-f]+:/ && on {
		line = substr($0, 63)
		split(line, w, " ")
		if (w[1] == "PAD") next
		print substr($2, 1, 8), tolower(w[1]); next }
	!/^\./ { on = 0 }'
}

for cpu in 0 3; do
	"$auxdecode" raw --cpu $cpu "$pt" 2>"$SCRATCH/err" | from_ours >"$SCRATCH/got"
	zcat "$ref/intel_pt-4.14.cpu$cpu.ptdump.txt.gz" | from_ptdump >"$SCRATCH/want"
	n=$(wc -l <"$SCRATCH/got")
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	ok $? "intel_pt-4.14, CPU $cpu: $n packets as ptdump" "$SCRATCH/diff"
done
"$auxdecode" raw "$pt" 2>"$SCRATCH/err" | from_ours | cut -d' ' -f1,2 >"$SCRATCH/got"
zcat "$ref/perf.data.intel_pt-4.14.D.txt.gz" | from_perf >"$SCRATCH/want"
diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
ok $? "intel_pt-4.14: $(wc -l <"$SCRATCH/got") packets as perf" "$SCRATCH/diff"
"$auxdecode" dump "$pt" >"$SCRATCH/dump" 2>"$SCRATCH/err"
is $? 0 "intel_pt-4.14: dump ends with 0"
