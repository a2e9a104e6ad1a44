#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --when, of the kernel's events: tracepoints, signals, crashes and ends, each with its
# snapshot, whose bytes are proven.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

moments() { "$auxdecode" dump "$data" 2>"$err" | sed -n 's/.* auxkit-moment \([0-9]*\)\/\([0-9]*\) cpu \([0-9]*\) time \([0-9]*\) took 0 label "\(.*\)"$/\1 \2 \3 \4 \5/p'; }
labels() { "$auxdecode" info "$data" 2>"$err" | grep -c ' s when "'; }
many() { perl -e 'kill 0, $$ for 1..1000'; }

sim rate=200000 unit=16
rec 0 "a tracepoint" -e intel_pt// -a -S -m ,64K --when 'raw_syscalls:sys_enter/id == 62/' -- perl -e 'kill 0, $$ for 1..1000'
moments >"$log"
is "$(wc -l <"$log")" 1000 "1,000 system calls are 1,000 moments"
is "$(labels)" 1000 "and as many snapshots"
is "$(awk '{ print $1 == $2, $5 }' "$log" | sort | uniq -c | xargs)" "1000 1 raw_syscalls:sys_enter/id" "of the program's thread"
awk '{ if ($4 < last) bad = 1; last = $4 } END { exit bad }' "$log"
ok $? "in the order of their times" "$log"
that "each label says when" "$log" [ "$(grep -cE ' ([0-9]+)([0-9]{9}) raw_syscalls.*/: [0-9]+/[0-9]+ on cpu [0-9]+ at \1\.\2$' "$log")" = 1000 ]
proven intel_pt "1,000 snapshots" -n 1000 -m 65536

rec 0 "--cooldown" -e intel_pt// -a -S -m ,64K --when 'raw_syscalls:sys_enter/id == 62/' --cooldown 1ms -- perl -e 'for (1..200) { kill 0, $$; select undef, undef, undef, 0.0003 }'
moments >"$log"
awk '{ if (last && $4 - last < 1000000) bad = 1; last = $4 } END { exit bad || NR < 2 || NR > 199 }' "$log"
ok $? "none came sooner: $(wc -l <"$log") of 200" "$log"
rec 0 "--when-count" -e intel_pt// -a -S -m ,64K --when 'raw_syscalls:sys_enter/id == 62/' --when-count 3 -- perl -e 'kill 0, $$ for 1..1000'
is "$(labels)" 3 "--when-count 3"

sim rate=200000 unit=16
rec 0 "signal=USR1" -e intel_pt// -a -S -m ,64K --when signal=USR1 -- "$programs/moments" turns
moments >"$log"
is "$(grep -cE ' signal=USR1: ([0-9]+)/\1 on cpu ' "$log")" 1000 "signal=USR1: each of 1,000"
is "$(labels)" 1000 "signal=USR1: with its snapshot"
proven intel_pt "1,000 signals" -n 1000 -m 65536
rec 0 "crash" -e intel_pt// -a -S -m ,64K --when crash --when signal=SEGV -- "$programs/crashes" handled
is "$(moments | awk '{ print $5 }' | sort | xargs)" "crash: signal=SEGV:" "crash: not of a signal that is caught"
rec 0 "exit" -e intel_pt// -a -m ,256K --when exit -- sh -c '/bin/true; /bin/true; :'
that "exit: without -S it is noted" "$log" test "$(moments | grep -c ' exit: ')" -ge 3
that "exit: info lists them" "$out" eval '"$auxdecode" info "$data" >"$out"; grep -q "^moments: " "$out"'

# ---- no memory: in a group of its own, so that the victim is known ----
mkdir -p $work/cg && mount -t cgroup2 none $work/cg && echo +memory >$work/cg/cgroup.subtree_control && mkdir $work/cg/small &&
	echo 16M >$work/cg/small/memory.max
ok $? "a group with little memory"
cat >$work/greedy <<'END'
echo $$ >"$1/cgroup.procs"
perl -e 'my @a; push @a, "x" x 1000000 while 1'
exit 0
END
for source in intel_pt//u soft_pt//u; do
	rec 0 "oom: $source" -e $source -S -m ,64K --when signal=oom -- sh $work/greedy $work/cg/small
	moments >"$log"
	is "$(wc -l <"$log")" 1 "$source: signal=oom: one moment"
	is "$(labels)" 1 "$source: with its snapshot"
	that "$source: of the victim" "$log" [ "$(dmesg | sed -n 's/.*Killed process \([0-9]*\) (perl).*/\1/p' | tail -n 1)" = "$(awk '{ print $1 }' "$log")" ]
done

# ---- core_pattern: the machine records all the time ----
cp "$auxcap" /tmp/auxcap
mkfifo /tmp/c /tmp/k
exec 7<>/tmp/c 8<>/tmp/k
rm -f "$data"
/tmp/auxcap -o "$data" -e intel_pt//u -a -S -m ,64K --control fifo:/tmp/c,/tmp/k >"$out" 2>"$err" </dev/null 7>&- 8>&- &
bg=$!
echo ping >&7
read -r <&8
echo '|/tmp/auxcap crash-handler --control fifo:/tmp/c,/tmp/k -o /tmp/work %P %I %s' >/proc/sys/kernel/core_pattern
ulimit -c unlimited
(exec "$programs/crashes" call) 7>&- 8>&- &
pid=$!
wait $pid
echo stop >&7
rec_end 0 "crash-handler"
that "crash-handler: a snapshot with who, and why" "$out" eval '"$auxdecode" info "$data" >"$out"; grep -q "crash: $pid/$pid signal 11 crashes" "$out"'
that "crash-handler: the core beside it" "$work/core.$pid" eval 'readelf -h "$work/core.$pid" 2>/dev/null | grep -q "CORE (Core file)"'
that "crash-handler: the core is its owner's alone" "$work/core.$pid" [ "$(stat -c %a "$work/core.$pid")" = 600 ]
echo core >/proc/sys/kernel/core_pattern
dmesg | grep crash-handler
kernel_quiet "triggers"
echo "done"
