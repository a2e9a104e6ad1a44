#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# Whatever happens to a recording of this machine's kernel, the file is valid:
# killed at random moments, on a full disk, its reader gone, ended by a signal, its
# program crashed; compressed and in several files. Each sample has a serial
# number: what is in a file is the first of them, without a hole.
#
#	FULL=1 tests/t_survive_kernel.sh	100 random moments, not 20
#	SEED=N tests/t_survive_kernel.sh	those of another run
# shellcheck source=kernel.sh
. "$(dirname "$0")/kernel.sh"

seed=${SEED:-1}
RANDOM=$seed
echo "# SEED=$seed"
disk=$SCRATCH/disk
mkdir -p "$disk"
cpus=$(taskset -cp $$ | sed 's/.*: //; s/[-,]/ /g')
pin=(taskset -c "${cpus%% *}")	# one ring: its records are in order

valid() { # FILE
	local rc
	timeout 300 "$auxdecode" info "$1" >"$SCRATCH/info" 2>&1
	rc=$?
	[ $rc = 0 ] || [ $rc = 3 ]
}

# first FILE...: perf reads it without a word, and what it holds are the calls from
# 0 on, each once, in order, unless records were lost; $n of them
first() {
	n=0
	timeout 300 perf script -i "$1" -F comm,event,trace >"$SCRATCH/script" 2>"$SCRATCH/perf.err" ||
		return 1
	! grep -Eqv "^$|$of_loss|^'trace' not valid for" "$SCRATCH/perf.err" || return 1
	sed -nE "s/^ *counted .*sys_enter: NR $call \(([0-9a-f]*),.*/0x\1/p" "$SCRATCH/script" |
		xargs -r printf '%d\n' >"$SCRATCH/have"
	n=$(wc -l <"$SCRATCH/have")
	[ "$(lost "$1")" = 0 ] || return 0
	seq 0 $((n - 1)) | cmp -s - "$SCRATCH/have"
}

### the reader of a pipe goes

for bytes in 100 3000 3000 8000; do
	for option in -q -z; do
		timeout 300 "$auxcap" $option -e cpu-clock -F 5000 -o - -- \
			sh -c 'i=0; while [ $i -lt 2000000 ]; do i=$((i + 1)); done' 2>"$SCRATCH/err" </dev/null |
			head -c $bytes >/dev/null
		echo "${PIPESTATUS[0]} $(grep -c 'standard output: .*Broken pipe' "$SCRATCH/err")"
	done
done >"$SCRATCH/pipes"
is "$(sort -u "$SCRATCH/pipes")" "1 1" "a pipe that nobody reads any more: status 1, and the reason"

### ended, crashed

for sig in TERM INT HUP; do
	rm -f "$data"
	"$auxcap" -z -e cpu-clock -o "$data" -- sleep 60 >/dev/null 2>"$SCRATCH/err" &
	bg=$!
	for ((i = 0; i < 6000; i++)); do
		[ "$(stat -c %s "$data" 2>/dev/null || echo 0)" -gt 1000 ] && break
		sleep 0.05
	done
	kill -$sig $bg
	rec_end 0 "SIG$sig"
	that "SIG$sig: that it was stopped is told" "$SCRATCH/err" grep -q 'stopped early' "$SCRATCH/err"
	reads "SIG$sig"
	that "SIG$sig: the file is complete" "$SCRATCH/info" grep -q '^verdict: no loss' "$SCRATCH/info"
done
# shellcheck disable=SC2016
rec 0 "a program that crashes" -z -e cpu-clock -F 5000 -- sh -c 'kill -SEGV $$'
that "a program that crashes: it is told" "$SCRATCH/err" grep -q 'killed by signal 11' "$SCRATCH/err"
reads "a program that crashes"

if [ -z "$tracepoints" ] || [ -z "$perf" ]; then
	skip "${tracepoints:+$no_perf}${tracepoints:-$no_tracepoints}" "killed, full disks, several files"
	finish
fi

### killed at random moments

times=20
[ -n "${FULL:-}" ] && times=100
options=("" "-z" "-z --threads 2" "-m 4M")
bad='' n_early=0 n_cut=0 n_all=0
for ((k = 0; k < times; k++)); do
	plug
	# shellcheck disable=SC2086
	rec_bg ${options[k % 4]} "${calls[@]}" -- "${pin[@]}" "$counted" 3000
	mapfile -t kids < <(pgrep -P $bg)
	printf 'go\ngo\ngo\n' >&5
	sleep "0.$(printf '%03d' $((RANDOM % 400)))"
	kill -9 $bg
	wait $bg 2>/dev/null
	bg=
	unplug
	for kid in "${kids[@]}"; do ended "$kid"; done
	if [ "$(stat -c %s "$data")" -lt 104 ]; then
		n_early=$((n_early + 1))
		continue
	fi
	valid "$data" || bad+=" $k:info"
	raw=$(samples "$data")
	if ! "$auxcap" repair "$data" >"$SCRATCH/repair" 2>&1; then
		grep -q 'not one record' "$SCRATCH/repair" && n_early=$((n_early + 1)) || bad+=" $k:repair"
		continue
	fi
	cut=$(sed -n 's/.*, \([0-9]*\) bytes* of a cut record.*/\1/p' "$SCRATCH/repair")
	[ "${cut:-0}" -lt 65536 ] || bad+=" $k:left-$cut"
	valid "$data" || bad+=" $k:repaired"
	first "$data" || bad+=" $k:perf"
	[ "$n" -ge "$raw" ] && [ "$n" = "$(samples "$data")" ] || bad+=" $k:$raw-$n"
	if [ "$n" = 9000 ]; then n_all=$((n_all + 1)); else n_cut=$((n_cut + 1)); fi
done
is "$bad" "" "killed at $times moments: $n_early before any record, $n_all after the last, $n_cut between"

# who is idle has written all that was read
plug
rec_bg -z "${calls[@]}" -- "${pin[@]}" "$counted" 100
kid=$(pgrep -P $bg)
go 3
for ((i = 0; i < 3000; i++)); do
	[ "$(samples "$data")" = 300 ] && break
	sleep 0.1
done
kill -9 $bg
wait $bg 2>/dev/null
bg=
unplug
ended "$kid"
"$auxcap" repair -q "$data"
each "killed when idle" 0 300 "$data"

### a full disk

full() { # TEXT KB OPTION...
	local text=$1 kb=$2
	shift 2
	small_disk "$text" "$kb" || return
	plug
	"$auxcap" -o "$disk/f.data" "$@" "${calls[@]}" -- "${pin[@]}" "$counted" 3000 \
		<"$in" >"$out" 2>"$SCRATCH/err" 5>&- 6>&- 7>&- 8>&- &
	bg=$!
	for ((i = 0; i < 3000; i++)); do	# counted may be gone: nobody waits for it
		printf 'go\ngo\n' >&5
		sleep 0.1
		case $(cut -d ' ' -f 3 /proc/$bg/stat 2>/dev/null) in
		Z | '') break ;;
		esac
	done
	unplug
	rec_end 1 "$text"
	that "$text: the reason" "$SCRATCH/err" grep -q 'No space left on device (.*-o ' "$SCRATCH/err"
	that "$text: that something is lost" "$SCRATCH/err" grep -q 'lost:.*(could not be written)' "$SCRATCH/err"
	for f in "$disk"/*; do
		valid "$f"
		ok $? "$text: auxdecode reads it" "$SCRATCH/info"
	done
	files=("$disk"/*)
	# Where there was no room for as much as its head, nothing is left of a file.
	n=$(sed -n 's/.* in \([0-9]*\) files .*/\1/p' "$SCRATCH/err")
	[ "${n:-1}" = $((${#files[@]} + 1)) ] ||
		grep -q '^verdict: incomplete' "$SCRATCH/info"
	ok $? "$text: and says that it is not all" "$SCRATCH/info"
	# for the formats of the tracepoint there may have been no room any more
	cp "${files[0]}" "$data"
	"$auxcap" repair -q "$data"
	first "$data"
	ok $? "$text: $n calls, without a hole" "$SCRATCH/perf.err"
	that "$text: not few of them" - test "$n" -gt 200
	umount "$disk"
}
full "a full disk" 200
full "a full disk, -z" 60 -z
full "a full disk, several files" 400 -z --switch-output=50K

### several compressed files

plug
rec_bg -z "${calls[@]}" --switch-output=signal -- "${pin[@]}" "$counted" 1000
go
order switch
go
kill -USR2 $bg
order ping
go
order switch
unplug
rec_end 0 "several compressed files"
files=("$data".*)
is ${#files[@]} 4 "several compressed files: four"
for ((k = 0; k < 3; k++)); do
	reads "several compressed files: file $k alone" "${files[k]}"
	that "several compressed files: file $k is compressed" "$SCRATCH/info" \
		grep -q '^  COMPRESSED ' "$SCRATCH/info"
	each "several compressed files: file $k" $((k * 1000)) $((k * 1000 + 1000)) "${files[k]}"
	perf script -i "${files[k]}" --show-mmap-events 2>/dev/null |
		grep -c "PERF_RECORD_MMAP2 .* $counted$\|PERF_RECORD_MMAP2 .*/counted$" >"$SCRATCH/maps"
	that "several compressed files: file $k knows the program" - test "$(cat "$SCRATCH/maps")" -gt 0
done
finish
