#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Causes of loss that no PMU makes: events that the kernel throttles, and processes
# whose maps may not be read. The verdict, the file and the status say so.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# info WANT TEXT: of $data, its status; $work/info
info() {
	timeout 60 "$auxdecode" info "$data" >"$work/info" 2>"$work/info.err"
	is $? "$1" "$2: so says auxdecode"
}

### throttled: from the first stop to the end of the last

rates=/proc/sys/kernel/perf_event_max_sample_rate
was=$(cat $rates)
echo 2000 >$rates
rec 3 "throttled" -e cpu-clock -c 100000 -C 0 -- taskset -c 0 bash -c 'busy 500'
echo "$was" >$rates
that "throttled: the verdict names it" "$err" grep -q 'lost: .*(throttled)' "$err"
info 3 "throttled"
# "CPU TIME OFFSET [SIZE]: PERF_RECORD_THROTTLE". A recording may end while its event
# is stopped: its end is that of the last stop then, after the last record.
grep -oE '[0-9.]+ s to [0-9.]+ s' <(grep throttled "$work/info") >"$work/said"
timeout 60 perf script -D -i "$data" 2>/dev/null | awk -v said="$(cat "$work/said")" '
	/PERF_RECORD_(UN)?THROTTLE/ {
		if (!from) from = $2
		to = $2
		open = !/UNTHROTTLE/
	}
	END {
		split(said, s, " ")
		last = sprintf("%.9f", to / 1e9)
		if (open && s[4] > last) last = s[4]
		printf "%.9f s to %s s\n", from / 1e9, last
	}' >"$out"
is "$(cat "$work/said")" "$(cat "$out")" "throttled: from the first stop to the end of the last"

### maps that may not be read: CAP_PERFMON opens events of all, but not the maps
### in /proc; those of newer kernels it does

apart=/tmp/apart
mkdir -m 777 $apart
cp "$auxcap" $apart/auxcap
chmod 755 $apart/auxcap
paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)
echo 2 >/proc/sys/kernel/perf_event_paranoid	# Debian's 3 asks for CAP_SYS_ADMIN
rm -f stop
bash -c 'busy_until stop' &
target=$!
sim rate=1000000
caps=+perfmon,+ipc_lock
as=(setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps="$caps" --ambient-caps="$caps")
text="maps that may not be read" want=3
if "${as[@]}" cat /proc/$target/maps >"$out" 2>&1; then
	text="maps that CAP_PERFMON may read" want=0
fi
"${as[@]}" timeout 60 $apart/auxcap -e aux_sim//u -p $target --max-size 1M -o $apart/a.data \
	>"$out" 2>"$err"
is $? $want "$text: status $want" || show "$err"
: >stop
wait $target
echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid
data=$apart/a.data
proven aux_sim "$text"
info $want "$text"
if [ $want = 3 ]; then
	that "$text: the verdict names it" "$err" grep -q '1 process (maps could not be read)' "$err"
	that "$text: the ledger names it" "$work/info" \
		grep -q '1 process without maps: these could not be read' "$work/info"
else
	timeout 60 "$auxdecode" dump "$data" 2>/dev/null | grep -q "MMAP2 pid $target tid .*/bash "
	ok $? "$text: they are in the file"
fi
kernel_quiet "causes"
echo "done"
