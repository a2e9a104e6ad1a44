#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# In the guest: trace in samples, when snapshots were, --max-size, and that the
# rings do not wait while a new file is told what exists.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# info STATUS TEXT: $work/info
info() {
	timeout 300 "$auxdecode" info "$data" >"$work/info" 2>"$work/info.err"
	is $? "$1" "$2: auxdecode info, status $1" || show "$work/info"
}

### trace in samples

sim rate=2000000
rec 0 "--aux-sample" -e '{intel_pt//u,cpu-clock/freq=200/u}' --aux-sample=4096 -g -- bash -c 'busy 1000'
read -r kb n < <(sed -nE 's/.* ([0-9]+) KB of trace in ([0-9]+) samples, .*nothing lost$/\1 \2/p' "$err")
[ "${n:-0}" -ge 10 ] && [ "$kb" = $((n * 4)) ]
ok $? "--aux-sample: ${n:-no} samples with ${kb:-no} KB of trace, nothing lost" "$err"
info 0 "--aux-sample"
that "--aux-sample: auxdecode finds the trace in them" "$work/info" \
	grep -q "^AUX streams: .*, the newest at each of $n samples\$" "$work/info"
is "$(sed -n 's/^AUX streams: [0-9]*, \([0-9]*\) bytes.*/\1/p' "$work/info")" $((n * 4096)) \
	"--aux-sample: 4096 bytes in each"
that "--aux-sample: nothing is missing" "$work/info" grep -q '^verdict: no loss recorded' "$work/info"

### when a snapshot was: bytes without a time, so the kernel's records tell

sim rate=1000000
rec 0 "snapshot" -e intel_pt//u -Se -m ,64K -- bash -c 'busy 300'
info 0 "snapshot"
that "snapshot: the AUX records tell its time" "$work/info" \
	grep -qE '^ +stream [01], cpu [01]: [0-9]+ bytes, AUX records from [0-9.]+ s to ' "$work/info"

### --max-size: no more beyond it than what the rings hold, which is twice as much

for size in 1 4; do
	sim rate=10000000
	rec '0|3' "--max-size ${size}M" -e intel_pt// -a --max-size ${size}M -- sleep 30 &&
		proven intel_pt "--max-size ${size}M"
	n=$(stat -c %s "$data")
	[ "$n" -gt $((size << 20)) ] && [ "$n" -lt $(((3 * size + 1) << 20)) ]
	ok $? "--max-size ${size}M: $n bytes" "$err"
	grep -q 'ended by --max-size$' "$err"
	ok $? "--max-size ${size}M: told" "$err"
done

### rotation: the rings are read while a new file is told what exists

crowd=()
for ((i = 0; i < 100; i++)); do
	sleep 600 &
	crowd+=($!)
done
# A wake-up each 16 ms: some while a hundred processes are described.
sim rate=2000000
rm -f "$data".*
rec '0|3' "--switch-output beside many processes" -e intel_pt// -a -m ,256K --switch-output=2s -- sleep 7
kill "${crowd[@]}"
files=("$data".*)
mv "${files[-1]}" "$data"
unset 'files[-1]'
earlier=()
for f in "${files[@]}"; do earlier+=(-f "$f"); done
proven intel_pt "--switch-output beside many processes: $((${#files[@]} + 1)) files" "${earlier[@]}"
between=0
for f in "${files[@]}" "$data"; do
	timeout 300 "$auxdecode" dump "$f" >"$out" 2>"$err"
	grep -q ' AUXTRACE ' "$out"
	ok $? "--switch-output: there is trace in ${f##*.}" "$err"
	grep -m1 -oE ' (AUXTRACE|FINISHED_INIT)( |$)' "$out" | grep -q AUXTRACE && between=1
done
is $between 1 "--switch-output: trace is written before the description ends"
kernel_quiet "limits"
echo "done"
