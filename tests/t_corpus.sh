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
# perf goes on at the next TIP after missing code, where the reference waits for a PSB
if command -v perf >/dev/null; then
	(cd "$corpus" && perf script --itrace=i0ns -F ip --symfs . -i wrapped/lldb-multi-file.perf.data) \
		2>"$SCRATCH/err" | awk '{ print $1 }' >"$SCRATCH/want"
	is "$(wc -l <"$SCRATCH/want")" 63 "lldb-multi-file: perf's instructions"
	that "lldb-multi-file: ours are perf's" "$SCRATCH/got" cmp -s "$SCRATCH/want" "$SCRATCH/got"
fi

# CoreSight from hardware. fib-2 lost trace to an overflow, fib-4 has bytes before
# its first sync point, r5-freertos a test pattern with an id of nobody's.
flow fib-1 0
flow fib-2 3
that "fib-2: the overflow" "$SCRATCH/err" grep -q '1 overflow' "$SCRATCH/err"
flow fib-3 0
flow fib-4 3
that "fib-4: bytes without sync" "$SCRATCH/err" grep -q '1 no-sync' "$SCRATCH/err"
flow r5-freertos 3
that "r5-freertos: the id of nobody's" "$SCRATCH/err" \
	grep -q '1 unknown-id' "$SCRATCH/err"
"$auxdecode" info "$corpus/$(field r5-freertos 3)" >"$SCRATCH/info"
is $? 3 "r5-freertos: info says so, too"
that "r5-freertos: which id that is" "$SCRATCH/info" \
	grep -q 'trace id 0x6f, 256 bytes: the file does not say' "$SCRATCH/info"

# addresses CASE: those of its instructions, in $SCRATCH/ips
addresses() {
	"$auxdecode" insn -F ip --symfs "$corpus/$(field "$1" 4)" \
		"$corpus/$(field "$1" 3)" 2>"$SCRATCH/err" |
		awk '!/^#/ { print $1 }' >"$SCRATCH/ips"
	is "$(wc -l <"$SCRATCH/ips")" "$(field "$1" 7)" "$1: instructions"
}

# Raw trace: the ranges that OpenCSD's lister gave.
addresses unformatted
zcat "$corpus/simpleperf/ref/snapshot-unformatted.ppl.gz" |
	sed -n 's/.*INSTR_RANGE(exec range=0x\([0-9a-f]*\):\[0x\([0-9a-f]*\)\].*/\1 \2/p' |
	while read -r from to; do
		for ((ip = 0x$from; ip < 0x$to; ip += 4)); do
			printf '%x\n' $ip
		done
	done >"$SCRATCH/want"
that "unformatted: the reference's addresses, in order" "$SCRATCH/ips" cmp -s "$SCRATCH/want" "$SCRATCH/ips"

# simpleperf's own result: how often each range ran, and each branch in the file.
addresses perf_etm
inject=$corpus/simpleperf/simpleperf/testdata/etm/perf_inject.data
sed -n 's/^\([0-9a-f]*\)-\([0-9a-f]*\):\([0-9]*\)$/\1 \2 \3/p' "$inject" |
	while read -r from to n; do
		for ((ip = 0x$from; ip <= 0x$to; ip += 4)); do
			printf '%x %d\n' $ip "$n"
		done
	done | awk '{ n[$1] += $2 } END { for (ip in n) print ip, n[ip] }' |
	sort >"$SCRATCH/want"
sed 's/.*\(....\)$/\1/' "$SCRATCH/ips" | sort | uniq -c |
	awk '{ print $2, $1 }' | sort >"$SCRATCH/got"
that "perf_etm: how often each instruction ran" "$SCRATCH/got" cmp -s "$SCRATCH/want" "$SCRATCH/got"
grep '^[0-9a-f]*->[1-9a-f]' "$inject" | sort >"$SCRATCH/want"
last=
while read -r ip; do
	[ -n "$last" ] && ((0x$ip != 0x$last + 4)) &&
		printf '%x->%x\n' $((0x$last & 0xffff)) $((0x$ip & 0xffff))
	last=$ip
done <"$SCRATCH/ips" | sort | uniq -c | awk '{ print $2 ":" $1 }' |
	grep -v '^\(1088\|10b0\|10ec\)->' | sort >"$SCRATCH/got"
that "perf_etm: its branches" "$SCRATCH/got" cmp -s "$SCRATCH/want" "$SCRATCH/got"

# The bytes of sources whose packets raw does not name (PTM, ETMv3), out of their
# frames: as OpenCSD lists them. Those of ETMv4 are in t_packets.sh.
for id in 10 11 12 13; do
	"$auxdecode" raw "$corpus/opencsd/snapshots/TC2" 2>"$SCRATCH/err" |
		awk -v id="trace id 0x$id," '/^# stream/ { on = index($0, id) }
			on && !/^#/ { for (i = 2; i <= NF; i++) print $i }' >"$SCRATCH/got"
	zcat "$corpus/opencsd/ref-1.8.0/TC2.ppl.gz" |
		sed -n "s/^Idx:[0-9]*; ID:$id; \\[\\([^]]*\\)\\].*/\\1/p" |
		tr -s ' ' '\n' | sed -n 's/^0x//p' >"$SCRATCH/want"
	that "TC2: the bytes of its source $id" "$SCRATCH/got" \
		cmp -s "$SCRATCH/want" "$SCRATCH/got"
	that "TC2: source $id has some" - test -s "$SCRATCH/want"
done

# Nothing to decode with: the kernel's code, the AUX data itself.
etm=$corpus/simpleperf/simpleperf/testdata/etm
"$auxdecode" count "$etm/perf_kernel.data" >"$SCRATCH/out" 2>&1
is $? 1 "perf_kernel: status 1 without the kernel's code"
that "perf_kernel: the truncated records" "$SCRATCH/out" \
	grep -q '2 aux-truncated' "$SCRATCH/out"
that "perf_kernel: the code is what is missing" "$SCRATCH/out" \
	grep -q 'no-code' "$SCRATCH/out"
"$auxdecode" raw "$etm/perf_kernel.data" >"$SCRATCH/out" 2>&1
is $? 3 "perf_kernel: raw says that trace is missing"
"$auxdecode" info "$etm/perf_with_missing_aux_data.data" >"$SCRATCH/out" 2>&1
is $? 3 "perf_with_missing_aux_data: status of info"
that "perf_with_missing_aux_data: what is missing" "$SCRATCH/out" \
	grep -q '6 AUX records without their data' "$SCRATCH/out"
"$auxdecode" count "$etm/perf_with_missing_aux_data.data" >"$SCRATCH/out" 2>&1
is $? 1 "perf_with_missing_aux_data: nothing to decode"

# PTWRITE without branches: each value with its time (MTCs between the TSCs count), CPU,
# thread and address, as perf has them. A tick of the crystal clock during a PSB+ has its
# MTC in front of the TMA: the values after it are after the tick. perf knows that only
# if the MTC is in front of the TSC, too, and it had a clock before: else it stays at the
# TSC until the next MTC, here for 591 values by 3 to 13 ns.
values() {
	"$auxdecode" insn "$1" 2>"$SCRATCH/err" | sed -n 's/^# ptwrite 0x//p' |
		tr -d '(),' >"$SCRATCH/values"
}
memgaze=$corpus/memgaze/ubench-500k_O3.data
values "$memgaze"
is "$(wc -l <"$SCRATCH/values")" 85859 "memgaze: values"
is "$(grep -c 'cpu 0 pid/tid 19568/19568 at [0-9]' "$SCRATCH/values")" 85859 \
	"memgaze: each has its CPU, thread and time"
# its project changed the values that perf listed, and left the times
zcat "$corpus/memgaze/ubench-500k_O3.trace.gz" | awk '{ print substr($4, 4) }' | sort -u >"$SCRATCH/want"
awk '{ print substr($NF, 4) }' "$SCRATCH/values" | sort -u | paste -d ' ' - "$SCRATCH/want" |
	awk '{ d = $2 - $1 } d < -0.0000000135 || d > 0.0000000005 { bad++ } END { print NR, bad + 0 }' \
		>"$SCRATCH/got"
is "$(cat "$SCRATCH/got")" "1913 0" "memgaze: the times of the reference"
# late: for each value by how much it is later than its TSC alone tells perf, from the packets
late() {
	"$auxdecode" raw "$memgaze" 2>"$SCRATCH/err" | /usr/bin/python3 -c '
import sys
mult, shift, ratio = map(int, sys.argv[1:])
tsc = late = 0
for line in sys.stdin:
    word = line.split()
    if word[0] == "#":
        held = "bytes" not in word or "pieces" in word
        continue
    if word[1] == "psb":
        clock, held, early, tsc, late = held, True, False, 0, 0
    elif word[1] == "tsc":
        tsc, early = int(word[2], 0), early and not clock
    elif word[1] == "mtc":
        late, early = 0, True
    elif word[1] == "tma" and early and tsc:
        ctc, fc = int(word[3], 0), int(word[5], 0)
        if ctc % 8 == 7:
            late = ((tsc + ratio - fc) * mult >> shift) - (tsc * mult >> shift)
    elif word[1].startswith("ptw"):
        print(late)
' "$@"
}
if command -v perf >/dev/null; then
	perf script --ns -i "$memgaze" --itrace=w -F time,event,ip,synth 2>/dev/null |
		awk '/ptwrite/ { sub(":", "", $1); sub("0x", "", $6); print $6, substr($1, 4) }' >"$SCRATCH/want"
	late 1433950085 31 78 >"$SCRATCH/late"
	is "$(awk '$1' "$SCRATCH/late" | wc -l)" 591 "memgaze: values after a tick that perf does not see"
	awk '{ print $1, substr($NF, 4) }' "$SCRATCH/values" | paste -d ' ' - "$SCRATCH/want" "$SCRATCH/late" |
		awk '{ d = ($2 - $4) * 1e9 - $5 } $1 != $3 || d < -0.5 || d > 0.5 { bad++ } END { print NR, bad + 0 }' \
			>"$SCRATCH/got"
	is "$(cat "$SCRATCH/got")" "85859 0" "memgaze: perf's times, value by value"
fi
tmon=$corpus/tmon/tiny_race.perf.data
values "$tmon"
is "$(sed 's/.*(*cpu //' "$SCRATCH/values" | sort | uniq -c | tr -s ' ' | tr '\n' ';')" \
	" 4 4 pid/tid 223721/223721 at 121752.730158257; 3 4 pid/tid 223721/223721 at 121752.730673450; 4 7 pid/tid 223721/223722 at 121752.730558724;" \
	"tmon: 11 values with CPU, thread and time"
for what in insn count summary calls branch 'export --to jsonl'; do
	# shellcheck disable=SC2086
	"$auxdecode" $what "$tmon" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 0 "tmon: status of $what"
	that "tmon: $what shows values" "$SCRATCH/out" grep -qE 'ptwrite|payloads 11|, 11 values' "$SCRATCH/out"
done

# A trace that is cut anywhere: what came before it is shown, and the cut is the only
# cause, also inside of a PSB+ while tracing is off.
cuts() { # CASE OFFSET LENGTH FROM TO STEP [OPTION...]
	local f=$corpus/wrapped/$1.perf.data image=$corpus/wrapped/$1.elf at=$2 len=$3 from=$4 to=$5 step=$6 n
	shift 6
	: >"$SCRATCH/causes"
	for ((n = from; n < to && n < len; n += step)); do
		"$auxdecode" count "$@" --pt "$f:$at-$((at + n))" --image "$image" 2>&1 >/dev/null |
			awk '/^ +[0-9]+ [a-z]/ { print $2 }' >>"$SCRATCH/causes"
	done
	sort -u "$SCRATCH/causes" | tr '\n' ' '
}
is "$(cuts arcus-ovf-01-poc 2792 5712 17 5712 23)" "cut " "arcus-ovf-01-poc cut: one cause"
if [ -z "$(no_libipt)" ]; then
	is "$(cuts arcus-ovf-01-poc 2792 5712 17 5712 101 --decoder libipt)" "cut " "and with libipt"
else
	skip "$(no_libipt)" "and with libipt"
fi
is "$(cuts libxdc-foo 872 29344 17 29344 431)" "cut " "libxdc-foo cut: one cause"

# A recording that does not name its CPU: errata are not worked around, which is said,
# and the model may be given.
f=$SCRATCH/anycpu.data
sed 's/GenuineIntel,/SomeoneElse_,/' "$corpus/wrapped/libxdc-avscript_32.perf.data" >"$f"
"$auxdecode" count --symfs "$corpus" "$f" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 3 "a CPU without a name: gaps"
that "and what would help" "$SCRATCH/err" grep -q 'does not name its CPU.*--cpu-model' "$SCRATCH/err"
"$auxdecode" count --sha256 --symfs "$corpus" --cpu-model 6/94/3 "$f" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 0 "its model on the command line: no gap"
that "and the flow is exact" "$SCRATCH/out" grep -q "$(field xdc-avscript32 8)" "$SCRATCH/out"

# Packets of a native recording with kernel, against perf's and ptdump's list.
. tests/packets.sh
finish
