#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --when, of functions and other places in programs and in the kernel: by uprobes and
# kprobes, each hit once and said right, and the bytes of its snapshot proven.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

moments() { "$auxdecode" dump "$data" 2>"$err" | sed -n 's/.* auxkit-moment \([0-9]*\)\/\([0-9]*\) cpu \([0-9]*\) time \([0-9]*\) took \([0-9]*\) label "\(.*\)"$/\1 \2 \3 \4 \5 \6/p'; }
labels() { "$auxdecode" info "$data" 2>"$err" | grep -c ' s when "'; }
cp "$programs/moments" $work/moments
m=$work/moments

sim rate=200000 unit=16
# ---- a function, in two threads: all of it ----
rec 0 "a function" -e intel_pt//u -S -m ,64K --when 'shop::till::ring' -- $m hits
moments >"$log"
is "$(wc -l <"$log")" 1000 "1,000 calls are 1,000 moments"
is "$(labels)" 1000 "and as many snapshots"
is "$(awk '{ print $2 }' "$log" | sort | uniq -c | awk '{ print $1 }' | xargs)" "500 500" "of the two threads that made them"
is "$(awk '{ print $1 }' "$log" | sort -u | wc -l)" 1 "of one process"
awk '{ if ($4 < last) bad = 1; last = $4 } END { exit bad }' "$log"
ok $? "in the order of their times" "$log"
that "each label says when" "$log" [ "$(grep -cE ' ([0-9]+)([0-9]{9}) 0 shop::till::ring: [0-9]+/[0-9]+ on cpu [0-9]+ at \1\.\2$' "$log")" = 1000 ]
proven intel_pt "1,000 snapshots" -n 1000 -m 65536
rec 0 "a function, -a" -e intel_pt// -a -m ,256K --when 'shop::till::ring @ '$m -- $m hits
is "$(moments | wc -l)" 1000 "-a: 1,000 of them"
rec 0 "--cooldown" -e intel_pt//u -S -m ,64K --when serve --cooldown 2ms -- $m slow
said=$work/said
cp "$err" "$said"
moments >"$log"
awk '{ if (last && $4 - last < 2000000) bad = 1; last = $4 } END { exit bad || NR < 2 || NR > 9999 }' "$log"
ok $? "--cooldown: none came sooner: $(wc -l <"$log") of 10,000" "$log"
that "all are counted" "$said" grep -q -- '--when: 10000 times' "$said"

# ---- its names ----
line=$(grep -n 'sink = sink + n;' "${BUILD%/*}/tests/programs/moments.cc" | cut -d: -f1)
for name in 'shop::till::ring(unsigned int)' _ZN4shop4till4ringEj 'shop::*::ring' "shop* @ ./moments" "moments.cc:$line" \
	"0x$(nm $m | awk '/ring/ { print $1 }')"; do
	rec 0 "$name" -e intel_pt//u -m ,256K --when "$name" -- $m hits
	is "$(moments | wc -l)" 1000 "--when '$name'"
done
strip -o $work/stripped $m
rec 0 "stripped" -e intel_pt//u -m ,256K --when "0x$(nm $m | awk '/ring/ { print $1 }')" -- $work/stripped hits
is "$(moments | wc -l)" 1000 "a stripped program, by address"
rec 2 "no such function" -e intel_pt//u --when no_such_function -- $m hits
that "what no file has is refused" "$err" grep -q 'none of the .* files that the program maps at its start has it' "$err"

# ---- calls that take longer ----
sim rate=200000 unit=16
rec 0 "1,000 durations" -e intel_pt//u -S -m ,64K --when 'shop::till::ring > 1ns' -- $m hits
moments >"$log"
is "$(awk '$5 > 1' "$log" | wc -l)" 1000 "1,000 calls are measured"
is "$(labels)" 1000 "and have a snapshot each"
that "each label says how long" "$log" [ "$(grep -cE 'shop::till::ring > 1ns: ([0-9]+)/[0-9]+ on cpu [0-9]+ at [0-9.]+, took [0-9]+\.[0-9]{3} us$' "$log")" = 1000 ]
proven intel_pt "1,000 durations" -n 1000 -m 65536
rec 0 "durations" -e intel_pt//u -m ,256K --when 'again > 1ns' --when 'leaves > 1ns' -- $m jumps
moments >"$log"
is "$(grep -c again "$log")" 7 "recursion: seven calls, each measured"
is "$(grep -c leaves "$log")" 0 "one that is left by longjmp does not return"
awk '/again/ { if ($5 <= last) bad = 1; last = $5 } END { exit bad }' "$log"
ok $? "each takes longer than the one inside of it" "$log"
rec 0 "slow" -e intel_pt//u -S -m ,64K --when 'stall > 100ms' -- $m stalls
moments >"$log"
awk '$5 <= 100000000 { bad = 1 } $5 > 300000000 { n++ } END { exit bad || n != 1 }' "$log"
ok $? "one call of 10,000 is slow: one moment" "$log"
is "$(labels)" "$(wc -l <"$log")" "with its snapshot"
that "its label says how long" "$log" grep -qE ', took 3[0-9]{5}\.[0-9]{3} us$' "$log"

# ---- children, and what they start; who runs already; nobody else ----
rec 0 "forks" -e intel_pt//u -m ,256K --when serve -- $m forks
is "$(moments | awk '{ print $1 }' | uniq -c | awk '{ print $1 }' | sort | xargs)" "1 2" "a child and the program that it starts; the parent"
mkfifo go
$m waits <go &
pid=$!
exec 9>go
mkfifo ctl ack
exec 7<>ctl 8<>ack
until grep -q ' r-xp .*moments' /proc/$pid/maps; do sleep 0.05; done
rm -f "$data"
"$auxcap" -o "$data" -e intel_pt//u -m ,256K --when serve --control fifo:ctl,ack -p $pid >"$out" 2>"$err" </dev/null 7>&- 8>&- &
bg=$!
echo ping >&7
read -r <&8
$m slow
echo >&9
exec 9>&-
rec_end 0 "attached"
is "$(moments | wc -l)" 3 "-p: of that process alone"
is "$(moments | awk '{ print $1 }' | sort -u)" $pid "-p: which it is"
rec 0 "a shell's program" -e intel_pt//u -m ,256K --when "serve @ $m" -- sh -c "$m slow; $m forks"
is "$(moments | wc -l)" 10003 "what a shell starts, by its file"
# a program that its mount namespace alone has
# shellcheck disable=SC2016
unshare -m sh -c 'mount -t tmpfs none /mnt && cp "$0" /mnt/apart && exec /mnt/apart waits' $m <go &
pid=$!
exec 9>go
until grep -q ' r-xp .*apart' /proc/$pid/maps; do sleep 0.05; done
rm -f "$data"
"$auxcap" -o "$data" -e intel_pt//u -m ,256K --when serve --when 'serve @ /mnt/apart' --control fifo:ctl,ack -p $pid >"$out" 2>"$err" </dev/null 7>&- 8>&- 9>&- &
bg=$!
echo ping >&7
read -r <&8
echo >&9
exec 9>&-
rec_end 0 "in a mount namespace"
is "$(moments | awk '{ print $1, $6, $7, $8 }' | sed 's/: .*//; s/:$//' | sort | uniq -c | xargs)" "3 $pid serve 3 $pid serve @ /mnt/apart" "a program of another mount namespace, with its path and without"
# a child that ends takes nothing from its parent, on whatever CPU each ran
# shellcheck disable=SC2016
rec 0 "forty times a child" -e intel_pt//u -m ,256K --when "serve @ $m" -- sh -c 'for i in $(seq 40); do "$0" forks; done' $m
is "$(moments | wc -l)" 120 "forty times a child, and a program that it starts"
is "$(moments | awk '{ print $1 }' | uniq -c | awk '{ print $1 }' | sort | uniq -c | xargs)" "40 1 40 2" "forty times: of parents and children"

# ---- libraries ----
rec 0 "a library" -e intel_pt//u -m ,256K --when 'getppid @ libc.so.6' --when getppid -- perl -e 'getppid for 1..100'
is "$(moments | wc -l)" 200 "a function of a library, found by its name and without"

# ---- USDT, the kernel's functions, events that the kernel counts ----
rec 0 "USDT" -e intel_pt//u -m ,256K --when usdt:shop:sale -- $m sales
is "$(moments | wc -l)" 50 "USDT"
rec 0 "USDT with a semaphore" -e intel_pt//u -m ,256K --when usdt:shop:refund -- $m sales
is "$(moments | wc -l)" 25 "USDT with a semaphore"
rec 0 "a function of the kernel" -e intel_pt//u -m ,256K --when kprobe:__x64_sys_getppid -- perl -e 'getppid for 1..100'
is "$(moments | wc -l)" 100 "kprobe"
rec 0 "a function of the kernel that takes long" -e intel_pt//u -m ,256K --when 'kprobe:__x64_sys_clock_nanosleep > 200ms' -- \
	sh -c 'sleep 0.01; sleep 0.3; sleep 0.01; sleep 0.4'
that "kprobe > 200ms: $(moments | wc -l)" "$err" test "$(moments | awk '$5 > 300000000' | wc -l)" = 2
rec 0 "a software event" -e intel_pt//u -m ,256K --when context-switches -- perl -e 'select undef, undef, undef, 0.01 for 1..20'
that "context-switches: $(moments | wc -l)" "$err" test "$(moments | wc -l)" -ge 20
# a breakpoint of the CPU: the program is linked to no fixed address, and loaded to this one
at() { printf '0x%x' $((0x555555554000 + 0x$(nm $m | awk -v n="$1" '$3 ~ n { print $1; exit }'))); }
rec 0 "a breakpoint" -e intel_pt//u -S -m ,64K --when "mem:$(at till4ring):x" -- setarch -R $m hits
is "$(moments | wc -l) $(labels)" "1000 1000" "mem:ADDRESS:x: each call, with its snapshot"
rec 0 "a breakpoint of data" -e intel_pt//u -m ,256K --when "mem:$(at sink)/8:w:u" -- setarch -R $m turns
is "$(moments | wc -l)" 2000 "mem:ADDRESS/8:w: each time it is written to"
# ---- only between a call and its return ----
sim rate=2000000 unit=16
rec 0 "a window" -e intel_pt//u -m ,1M --window again -- $m jumps
that "--window: how it was done is said" "$err" grep -qE -- '--window: (paused and resumed by the kernel, to the instruction|this kernel or PMU cannot pause .*switched on [1-9][0-9]* times)' "$err"
rec 2 "a window that is none" -e intel_pt//u --window 'stall > 1ms' -- $m stalls
that "--window: a function alone" "$err" grep -q 'window wants a function' "$err"
rec 2 "a window of some time" -e intel_pt//u --window 'stall + 5us' -- $m stalls
that "--window: no time" "$err" grep -q 'pauses a trace at an event, not after a time.*--when-delay' "$err"
sim rate=200000 unit=16

that "no probe is left behind" /sys/kernel/tracing/uprobe_events [ -z "$(cat /sys/kernel/tracing/uprobe_events /sys/kernel/tracing/kprobe_events)" ]

# ---- without tracefs: the kernel's PMU of probes. What a move of a thread in the middle of
# one does to it is known (capture/event/probe_tracefs.c): one thread, on one CPU.
mount --bind /proc/sys/kernel /sys/kernel/tracing
mount --bind /proc/sys/kernel /sys/kernel/debug/tracing
rec 0 "without tracefs" -e intel_pt//u -m ,256K --when "serve @ $m" -- taskset -c 1 $m slow
that "it is said what that means" "$err" grep -q 'may not be written to' "$err"
is "$(moments | wc -l)" 10000 "without tracefs: 10,000 calls"
rec 0 "without tracefs: durations" -e intel_pt//u -m ,256K --when "again @ $m > 1ns" -- taskset -c 1 $m jumps
is "$(moments | wc -l)" 7 "without tracefs: recursion"
rec 0 "without tracefs: forks" -e intel_pt//u -m ,256K --when "serve @ $m" -- taskset -c 0 $m forks
is "$(moments | awk '{ print $1 }' | uniq -c | awk '{ print $1 }' | sort | xargs)" "1 2" "without tracefs: forks"
umount /sys/kernel/tracing
kernel_quiet "probes"
echo "done"
