#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: decoders are held against libipt, which only x86 has
#
# Programs that do what a recorder would rather they did not: programs/hostile has
# them. Under all software back ends each ends, does what it does unwatched, and its
# flow is what ran; what could not be followed is named. Then what ends a recording
# of a program that does not want to end.
#
#	tests/t_hostile.sh CASE...	only these
. "$(dirname "$0")/lib.sh"
need_soft

hostile=$programs/hostile
data=$SCRATCH/h.data truth=$SCRATCH/h.truth err=$SCRATCH/h.err

# unwatched CASE: leaves what it writes, and its status, in $want
unwatched() {
	rm -rf "$SCRATCH/dir"
	mkdir "$SCRATCH/dir"
	want=$(timeout 300 "$hostile" "$1" "$SCRATCH/dir" 2>&1; echo "status $?")
}

# watched BACKEND CASE
watched() {
	local text="$1 $2" rc got
	rm -rf "$SCRATCH/dir" "$data" "$truth"
	mkdir "$SCRATCH/dir"
	timeout -k 5 500 "$auxcap" -e "soft_pt/$1/u" -o "$data" --truth "$truth" \
		-- "$hostile" "$2" "$SCRATCH/dir" 2>"$err" | cat >"$SCRATCH/got"
	rc=${PIPESTATUS[0]}
	got=$(cat "$SCRATCH/got"
		sed -n 's/.* exited with \(status [0-9]*\)$/\1/p' "$err" | grep . || echo status 0)
	is "$got" "$want" "$text: as unwatched" || sed 's/^/#   /' "$err"
	[ $rc = 3 ] && grep -qE '^auxcap: not traced: .*\(process [0-9]*\): |; lost: .*killed in mid-run' "$err" &&
		rc="named"
	ok "$([ "$rc" = 0 ] || [ "$rc" = named ]; echo $?)" "$text: complete, or what is missing is named ($rc)" "$err"
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/derr" | "$truthcmp" "$truth" >"$SCRATCH/cmp"
	ends=("${PIPESTATUS[@]}")
	[ "${ends[0]}:$rc" = 3:named ] && ends[0]=0
	ok $((ends[0] | ends[1])) \
		"$text: $(sed -n 's/^total truth \([0-9]*\) .* threads \([0-9]*\) .*/\1 instructions, \2 threads/p' "$SCRATCH/cmp")" \
		"$SCRATCH/cmp"
}

# Of the ones that end sooner under ptrace; LONG=1 runs all of them there.
quick=" closestd seccomp pidns setuid leaderexit int3 trapflag ownpage overtext twoviews "
is_cpu() { "$hostile" list-cpu | grep -qx "$1"; }
is_case() { is_cpu "$1" || "$hostile" list | grep -qx "$1"; }

no_qemu=$(no_emulation)
backs=$(back_ends)

cases=("$@")
[ $# = 0 ] && mapfile -t cases < <("$hostile" list; "$hostile" list-cpu)
for c in "${cases[@]}"; do
	that "$c: there is such a case" - is_case "$c" || continue
	case $c in
	pidns* | userns)
		if ! unshare -p --fork true 2>/dev/null; then
			skip "hardware: may not make a pid namespace" "$c"
			continue
		fi ;;
	esac
	unwatched "$c"
	watched native "$c"
	if is_cpu "$c"; then
		watched step "$c"
		continue
	fi
	if [ -z "$no_qemu" ]; then
		watched emulate "$c"
	else
		skip "$no_qemu" "emulate $c"
	fi
	if [ -z "${LONG:-}" ] && [[ $quick != *" $c "* ]]; then
		continue
	fi
	watched step "$c"
done
[ $# = 0 ] || finish

### pids are those of this machine, not of a namespace

if unshare -p --fork true 2>/dev/null; then
	for b in $backs; do
		timeout -k 5 500 "$auxcap" -q -e "soft_pt/$b/u" -o "$data" -- \
			unshare -p --fork grep NSpid /proc/self/status >"$SCRATCH/out" 2>"$err"
		is "$?:$(awk '{ print $1, NF, $NF }' "$SCRATCH/out")" "0:NSpid: 3 1" \
			"$b: grep in a pid namespace" || sed 's/^/#   /' "$err"
		"$auxdecode" insn -F tid,comm -n 1 "$data" --tid "$(awk '{ print $2 }' "$SCRATCH/out")" \
			>"$SCRATCH/insn" 2>&1
		that "$b: and the file has it by its number here" "$SCRATCH/insn" \
			grep -Eq '^ *[0-9]+ +(unshare|grep)' "$SCRATCH/insn"
	done
else
	skip "hardware: may not make a pid namespace" "pids are those of this machine"
fi

### it ends, whatever the program wants

# ends_within SECONDS PID: it did
ends_within() {
	local i
	for ((i = 0; i < $1 * 20; i++)); do
		kill -0 "$2" 2>/dev/null || return 0
		sleep 0.05
	done
	return 1
}

for b in $backs; do
	rm -f "$SCRATCH/ready"
	# shellcheck disable=SC2016
	"$auxcap" -e "soft_pt/$b/u" -o "$data" -- /bin/sh -c \
		'trap "" TERM INT; : >"$0"; while :; do :; done' "$SCRATCH/ready" </dev/null >/dev/null 2>"$err" &
	pid=$!
	for ((i = 0; i < 3000; i++)); do [ -e "$SCRATCH/ready" ] && break; sleep 0.1; done
	kill -TERM $pid
	sleep 0.5
	kill -INT $pid 2>/dev/null
	ends_within 300 $pid
	ok $? "$b: a program that ignores SIGTERM: the second signal ends it" "$err"
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
	timeout 300 "$auxdecode" info "$data" >"$SCRATCH/out" 2>&1
	that "$b: and the file is complete" "$SCRATCH/out" grep -q '^verdict:' "$SCRATCH/out"
done

### threads that are killed wherever they are, again and again

for c in exitrace leaderexit execthread; do
	bad=
	for i in 1 2 3 4 5 6 7 8 9 10; do
		timeout -k 5 120 "$auxcap" -e soft_pt/native/u -o "$data" -- \
			"$hostile" "$c" "$SCRATCH" >/dev/null 2>"$err"
		[ $? = 124 ] && bad+=" $i: hangs"
		grep -qE '^auxcap: error:|no branch explains' "$err" && bad+=" $i: $(tail -n 1 "$err")"
	done
	is "$bad" "" "native $c: ends without an error, and no step is without a branch"
done

### few descriptors

for n in 60 250; do
	(ulimit -n $n && timeout 300 "$auxcap" -q -e "soft_pt//u" -o "$data" -- "$hostile" seccomp) \
		>"$SCRATCH/out" 2>"$err"
	is "$?:$(cat "$SCRATCH/out")" "0:done seccomp" "ulimit -n $n" || sed 's/^/#   /' "$err"
done
finish
