#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A recorder that is killed, stopped, or has no room left: nothing that reached
# the file is lost, and the ledger balances. N kills (FULL=1: 100).
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

RANDOM=${SEED:=1}
note "SEED=$SEED"
N=${N:-5}
[ -z "$FULL" ] || N=100

### kill -9

# survived I: $data is what a killed recorder left; all views of it agree
survived() {
	local raw fixed
	cat "$sim/stat" "$sim/sessions" >"$st"
	timeout 300 "$auxcheck" -t -p intel_pt "$data" "$st" >"$log" 2>&1 || return
	raw=$(field bytes)
	timeout 300 "$auxdecode" info "$data" >"$out" 2>"$err"
	[ $? = 3 ] || { note "auxdecode info of the killed file: not status 3"; return 1; }
	timeout 300 "$auxcap" repair "$data" >"$out" 2>"$err" || { show "$err"; return 1; }
	timeout 300 "$auxcheck" -t -p intel_pt "$data" "$st" >"$log" 2>&1 || return
	fixed=$(field bytes)
	((raw - fixed < 8 && fixed <= raw)) || { note "repair: $raw bytes became $fixed"; return 1; }
	total=$((total + fixed))
	[ $(($1 % 5)) != 0 ] ||
		timeout 300 perf script --no-itrace -i "$data" >"$out" 2>"$err" ||
		{ show "$err"; return 1; }
}

bad=0 total=0
for ((i = 0; i < N; i++)); do
	sim rate=5000000
	rec_bg intel_pt -e intel_pt// -a -m ,1M
	sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
	kill -9 "$bg"
	wait "$bg" 2>/dev/null
	bg=
	survived $i && continue
	bad=$((bad + 1))
	note "kill $i"
	grep -E '^(offence|verdict)' "$log" | sed 's/^/#   /'
done
is $bad 0 "kill -9 at $N random moments: $total bytes, all proven, before and after repair"

### no room

mkdir small
mount -t tmpfs -o size=6m small small
data=small/a.data
sim rate=20000000
rec '1|3' "ENOSPC" -e intel_pt// -a -m ,1M -- sleep 1 && proven intel_pt "ENOSPC"
grep -qi 'no space' "$err"
ok $? "ENOSPC: it is said" "$err"
read_by_both "ENOSPC"
umount small
data=$work/a.data

### a recorder that does not get to run

for mute in N Y; do
	sim rate=10000000 mute=$mute
	rec_bg intel_pt -e intel_pt// -a -m ,512K
	sleep 0.2
	kill -STOP "$bg"
	sleep 1
	kill -CONT "$bg"
	until_counted intel_pt lost 5000001	# told when the events run again
	kill -INT "$bg"
	rec_end 3 "SIGSTOP, mute=$mute" && proven intel_pt "SIGSTOP for 1 s, mute=$mute"
	[ "$(field lost)" -gt 5000000 ] && [ "$(($(times truncated) + $(times stalled)))" -ge 2 ]
	ok $? "SIGSTOP, mute=$mute: $(field lost) bytes lost, in the ledger" "$log"
done
read_by_both "SIGSTOP"

# The traced program crashes; the recorder is told to end.
sim rate=5000000
rec 0 "a crash" -e intel_pt//u -- bash -c 'busy 100; kill -SEGV $$' && proven intel_pt "a crash"
sim rate=5000000
rec_bg intel_pt -e intel_pt// -a -- bash -c busy_on
sleep 0.2
kill -TERM "$bg"
rec_end 0 "SIGTERM" && proven intel_pt "SIGTERM"
kernel_quiet "damage"
echo "done"
