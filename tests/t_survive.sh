#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# Whatever happens to a software recording, the file is valid and says what it
# lacks: the recorder is killed at random moments, its disk is full, its reader
# goes away, it is stopped, ended, or its program crashes. The program always runs
# the same instructions: what a file holds is a beginning of a whole recording.
#
#	FULL=1 tests/t_survive.sh	100 random moments, not 20
#	SEED=N tests/t_survive.sh	those of another run
. "$(dirname "$0")/lib.sh"
need_soft

# A small disk is mounted for this test alone.
if [ -z "${SURVIVE_NS:-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	SURVIVE_NS=1 SCRATCH=$SCRATCH BUILD=$BUILD unshare -m bash "$0" "$@"
	exit
fi
seed=${SEED:-1}
RANDOM=$seed
echo "# SEED=$seed"
out=$SCRATCH/survive disk=$SCRATCH/disk
mkdir -p "$out" "$disk"
ref=$out/ref.data f=$out/f.data
# Its end waits for the end of its input. Always in the background, where the shell
# that runs it finds the same signals ignored. Not a shell: dash writes the number of
# its parent into a variable, and one digit more is 19 instructions. Always at the same
# addresses.
work=("$programs/steady")
cap=(setarch -R "$auxcap")
mkfifo "$out/input"
exec 9<>"$out/input"

insns() { sed -n 's/^total insns \([0-9]*\) hash \([0-9a-f]*\) .*/\1 \2/p' "$1"; }

# valid FILE...: auxdecode's status is 0 or 3, and each AUX byte that the ledger
# calls saved is there
valid() {
	local rc
	timeout 300 "$auxdecode" info "$1" >"$out/info" 2>&1
	rc=$?
	{ [ $rc = 0 ] || [ $rc = 3 ]; } && ! grep -q 'but the file holds' "$out/info"
}

# begins FILE: what it holds is what the program ran from its start on; $n of it
begins() {
	local rc have
	timeout 300 "$auxdecode" count "$1" >"$out/count" 2>&1
	rc=$?
	have=$(insns "$out/count")
	n=${have% *}
	if [ "${n:-0}" = 0 ]; then	# of which it makes an error
		[ $rc = 0 ] || grep -q 'nothing to show' "$out/count"
		return
	fi
	[ $rc = 0 ] || [ $rc = 3 ] || return 1
	timeout 300 "$auxdecode" count -n "$n" "$ref" >"$out/count.ref" 2>/dev/null
	[ "$have" = "$(insns "$out/count.ref")" ]
}

# perf_walks FILE: perf goes through all records without a word
perf_walks() {
	timeout 300 perf script --no-itrace --show-task-events -i "$1" >"$out/perf" 2>"$out/perf.err" &&
		! grep -qv '^$' "$out/perf.err"
}

"${cap[@]}" -q -e soft_pt//u -o "$ref" -- "${work[@]}" </dev/null >/dev/null 2>"$out/err" &
wait $!
is $? 0 "a whole recording" || sed 's/^/#   /' "$out/err"
begins "$ref"
is "$?$((n > 3000000))" 01 "which auxdecode counts"
whole=$n

### killed at random moments

times=20
[ -n "${FULL:-}" ] && times=100
options=("" "-z" "-z --compress-aux" "--truth $out/truth")
n_early=0 n_all=0 n_cut=0 bad='' sizes=0
for ((k = 0; k < times; k++)); do
	option=${options[k % 4]}
	rm -f "$f"
	# shellcheck disable=SC2086
	"${cap[@]}" -q $option -e soft_pt//u -o "$f" -- "${work[@]}" <&9 >/dev/null 2>&1 &
	pid=$!
	sleep "0.$(printf '%03d' $((50 + RANDOM % 400)))"
	mapfile -t kids < <(pgrep -P $pid)
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	[ ${#kids[@]} = 0 ] || kill -9 "${kids[@]}" 2>/dev/null
	if [ "$(stat -c %s "$f" 2>/dev/null || echo 0)" -lt 104 ]; then
		n_early=$((n_early + 1))	# before its head
		continue
	fi
	cp "$f" "$out/raw.data"
	valid "$out/raw.data" || bad+=" $k:info"
	if ! "$auxcap" repair "$f" >"$out/repair" 2>&1; then
		grep -q 'not one record' "$out/repair" && n_early=$((n_early + 1)) || bad+=" $k:repair"
		continue
	fi
	valid "$f" || bad+=" $k:repaired"
	begins "$f" || bad+=" $k:decode"
	sizes=$((sizes + n))
	if [ "$n" = "$whole" ]; then n_all=$((n_all + 1)); else n_cut=$((n_cut + 1)); fi
	if have perf && [ "$option" != "-z --compress-aux" ]; then
		timeout 300 perf script --no-itrace -i "$out/raw.data" >"$out/perf" 2>&1 ||
			bad+=" $k:perf-at-once"
		perf_walks "$f" || bad+=" $k:perf"
	fi
	if ((k % 4 == 0)); then	# nothing that was there is gone, nor was more
		m=$n
		begins "$out/raw.data" || bad+=" $k:raw"
		[ "$n" -le "$m" ] || bad+=" $k:raw-$n-repaired-$m"
	fi
done
is "$bad" "" "killed at $times moments: $n_early before any record, $n_all after the last, $n_cut between"
that "killed: most in mid-run, or the machine is slow" - test $((n_cut + n_early)) -gt 0
have perf || skip "no perf here" "killed: perf opens what is left"

### a full disk

full() { # TEXT KB OPTION...: ends with status 1, a reason and a valid file
	local text=$1 kb=$2
	shift 2
	small_disk "$text" "$kb" || return
	"${cap[@]}" "$@" -e soft_pt//u -o "$disk/f.data" -- "${work[@]}" <&9 >/dev/null 2>"$out/err" &
	wait $!
	is $? 1 "$text: status 1"
	that "$text: the reason" "$out/err" grep -q 'No space left on device (.*-o ' "$out/err"
	that "$text: what was lost" "$out/err" grep -q 'lost:.* bytes (could not be written)' "$out/err"
	valid "$disk/f.data"
	ok $? "$text: the file is valid" "$out/info"
	that "$text: and says it" "$out/info" \
		grep -q '^verdict: incomplete:.* lost, the file could not take them' "$out/info"
	that "$text: it holds $(stat -c %s "$disk/f.data") bytes" - \
		test "$(stat -c %s "$disk/f.data")" -gt $((kb * 300))
	begins "$disk/f.data"
	ok $? "$text: $n instructions" "$out/count"
	if have perf && [ "${1:-}" != --compress-aux ]; then
		perf_walks "$disk/f.data"
		ok $? "$text: perf reads it" "$out/perf.err"
	fi
	umount "$disk"
}
full "a full disk" 600
full "a full disk, -z" 600 -z
full "a full disk, --compress-aux" 300 --compress-aux

if mount -t tmpfs -o size=4k none "$disk" 2>/dev/null; then
	echo precious >"$disk/f.data"
	timeout 300 "${cap[@]}" -e soft_pt//u -o "$disk/f.data" -- true >/dev/null 2>"$out/err"
	is $? 1 "a disk that was full before"
	is "$(cat "$disk"/*)" precious "the recording of before is there, and nothing else"
	mount -o remount,ro "$disk"
	timeout 300 "${cap[@]}" -e soft_pt//u -o "$disk/f.data" -- true >/dev/null 2>"$out/err"
	is $? 1 "a disk that may not be written"
	that "it is told" "$out/err" grep -q 'error: .*Read-only.*-o ' "$out/err"
	is "$(cat "$disk"/*)" precious "nothing has changed there"
	umount "$disk"
else
	skip "hardware: may not mount" "a disk that was full before, or may not be written"
fi

### the reader of a pipe goes

for bytes in 100 3000 3000 30000; do
	for option in -q -z; do
		timeout 300 "${cap[@]}" $option -e soft_pt//u -o - -- "${work[@]}" \
			</dev/null 2>"$out/err" | head -c $bytes >/dev/null
		echo "${PIPESTATUS[0]} $(grep -c 'standard output: .*Broken pipe' "$out/err")"
	done
done >"$out/pipes"
is "$(sort -u "$out/pipes")" "1 1" "a pipe that nobody reads any more: status 1, and the reason"

### held up, ended, crashed

"${cap[@]}" -e soft_pt//u -o "$f" -- "${work[@]}" </dev/null >/dev/null 2>"$out/err" &
pid=$!
for ((i = 0; i < 4; i++)); do
	sleep 0.1
	kill -STOP $pid 2>/dev/null && sleep 0.2
	kill -CONT $pid 2>/dev/null
done
wait $pid
is $? 0 "a recorder that is held up"
begins "$f"
is "$?:$n" "0:$whole" "nothing is missing"

for sig in TERM INT HUP; do
	rm -f "$f"	# of the run before: size tells that this one has begun
	"${cap[@]}" -e soft_pt//u -o "$f" -- "${work[@]}" <&9 >/dev/null 2>"$out/err" &
	pid=$!
	for ((i = 0; i < 6000; i++)); do
		[ "$(stat -c %s "$f" 2>/dev/null || echo 0)" -gt 5000 ] && break
		sleep 0.05
	done
	kill -$sig $pid
	wait $pid
	rc=$?
	is "$rc:$(grep -c 'stopped early' "$out/err")" 0:1 "SIG$sig: status 0, and that it was stopped" ||
		sed 's/^/#   /' "$out/err"
	valid "$f"
	ok $? "SIG$sig: the file is valid" "$out/info"
	that "SIG$sig: and complete" "$out/info" grep -q '^verdict: no loss recorded' "$out/info"
	begins "$f"
	ok $? "SIG$sig: $n instructions" "$out/count"
done

for signal in SEGV KILL; do
	# shellcheck disable=SC2016
	"${cap[@]}" -z -e soft_pt//u -o "$f" -- sh -c 'kill -'$signal' $$' >/dev/null 2>"$out/err"
	rc=$?
	valid "$f"
	ok $? "a program that dies of SIG$signal: the file is valid" "$out/info"
	that "a program that dies of SIG$signal: it is told (status $rc)" "$out/err" \
		grep -q 'sh was killed by signal' "$out/err"
	"$auxcap" repair "$f" >"$out/repair" 2>&1
	that "a program that dies of SIG$signal: the file is complete" "$out/repair" \
		grep -q 'nothing to repair' "$out/repair"
done
finish
