#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What happens to the machine and to auxcap while it records: a CPU that goes offline
# and comes back, auxcap stopped by a signal, a disk that is full, kill -9.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

cpu1=/sys/devices/system/cpu/cpu1/online
[ -p commands ] || mkfifo commands answers
exec 5<>commands 6<>answers
ask() {
	echo "$1" >&5
	read -r -t 30 -u 6 said
	[ "$said" = ack ] || note "$1: '$said'"
}

control=(--control "fifo:commands,answers")
begin() {
	rm -f "$data"
	"$auxcap" -o "$data" "${control[@]}" "$@" >"$out" 2>"$err" </dev/null &
	bg=$!
	ask ping
}

### a CPU goes, and comes back

for how in "-a" "-C 0,1" "-a -S"; do
	[ -w $cpu1 ] || { ok 1 "CPU 1 can be taken offline"; break; }
	sim rate=200000
	# shellcheck disable=SC2086
	begin -e aux_sim// -e cpu-clock -F 100 $how
	grows aux_sim 1
	ok $? "$how: CPU 1 is traced"
	[ "$how" != "-a -S" ] || ask snapshot
	echo 0 >$cpu1
	sleep 0.4
	read -r back _ </proc/uptime
	echo 1 >$cpu1
	sleep 0.5
	if grows aux_sim 1; then ok 0 "$how: CPU 1 is traced again"; else ok 1 "$how: CPU 1 is traced again" "$err"; fi
	taskset -c 1 bash -c 'busy 300'
	[ "$how" != "-a -S" ] || ask snapshot
	ask stop
	rec_end 3 "$how, CPU 1 offline"
	that "$how: the verdict names it" "$err" grep -q 'the CPU was offline' "$err"
	read_by_both "$how, CPU 1 offline"
	that "$how: so does the file" "$work/info" grep -q 'stream .*the CPU was offline' "$work/info"
	# The events have new ids: perf knows the samples of these, too, for an
	# id in no attr is an error or another event's.
	timeout 300 perf script --no-itrace -i "$data" -F cpu,time,event >"$st" 2>&1
	awk -v from="$back" '$1 == "[001]" && $2 + 0 > from && /cpu-clock/ { n++ }
		END { exit !n }' "$st"
	ok $? "$how: samples of CPU 1 after it came back" "$st"
	[ "$how" != "-a" ] || proven aux_sim "$how, CPU 1 offline"
done

### one that is away from before the beginning to after it: it is not traced

echo 0 >$cpu1
sim rate=200000
begin -e aux_sim// -a
echo 1 >$cpu1
sleep 0.4
ask stop
rec_end 3 "-a, CPU 1 comes later"
that "-a, CPU 1 comes later: the verdict says so" "$err" grep -q 'the CPU was offline' "$err"

### auxcap is stopped, and goes on

# full within 30 ms; not so fast that what is recorded leaves this shell no time
sim rate=5000000
begin -e aux_sim// -a -m ,128K
grows aux_sim 1
kill -STOP $bg
until_counted aux_sim truncated 2
kill -CONT $bg
taken $bg 0x20000	# SIGCONT
ask stop
rec_end 3 "SIGSTOP"
proven aux_sim "SIGSTOP"
read_by_both "SIGSTOP"
that "SIGSTOP: the ledger tells of it" "$work/info" grep -q 'the recorder itself was stopped' "$work/info"
kernel_quiet "machine"
echo "done"
