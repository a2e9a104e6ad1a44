#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Causes of loss that no PMU makes: events that the kernel throttles, and processes
# whose maps may not be read. The verdict, the file and the status say so.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# info TEXT: status 3; $work/info
info() {
	timeout 60 "$auxdecode" info "$1" >"$work/info" 2>"$work/info.err"
	is $? 3 "$2: so says auxdecode"
}

### throttled: from the first stop to the end of the last

rates=/proc/sys/kernel/perf_event_max_sample_rate
was=$(cat $rates)
echo 2000 >$rates
rec 3 "throttled" -e cpu-clock -c 100000 -C 0 -- taskset -c 0 bash -c 'busy 500'
echo "$was" >$rates
that "throttled: the verdict names it" "$err" grep -q 'lost: .*(throttled)' "$err"
info "$data" "throttled"
# "CPU TIME OFFSET [SIZE]: PERF_RECORD_THROTTLE"
timeout 60 perf script -D -i "$data" 2>/dev/null | awk '/PERF_RECORD_(UN)?THROTTLE/ {
	if (!from) from = $2
	to = $2 }
	END { printf "%.9f s to %.9f s\n", from / 1e9, to / 1e9 }' >"$out"
is "$(grep -oE '[0-9.]+ s to [0-9.]+ s' <(grep throttled "$work/info"))" "$(cat "$out")" \
	"throttled: from the first stop to the end of the last"

### maps that may not be read: CAP_PERFMON opens events of all, but not /proc

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
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+perfmon,+ipc_lock \
	--ambient-caps=+perfmon,+ipc_lock timeout 60 $apart/auxcap -e aux_sim//u -p $target \
	--max-size 1M -o $apart/a.data >"$out" 2>"$err"
is $? 3 "maps that may not be read: status 3" || show "$err"
: >stop
wait $target
echo "$paranoid" >/proc/sys/kernel/perf_event_paranoid
that "maps that may not be read: the verdict names it" "$err" \
	grep -q '1 process (maps could not be read)' "$err"
info $apart/a.data "maps that may not be read"
that "maps that may not be read: the ledger names it" "$work/info" \
	grep -q '1 process without maps: these could not be read' "$work/info"
data=$apart/a.data
proven aux_sim "maps that may not be read"
kernel_quiet "causes"
echo "done"
