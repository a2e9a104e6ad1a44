#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Loss and damage: what is missing is said, with the exit status of the man
# page; what is shown really ran; nothing crashes or hangs.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

# decode FILE [OPTION...]: the flow against $truth, gaps allowed. Sets $rc (the
# decoder's), $cmp (truthcmp's), $shown; stderr is in err, notes in notes.
decode() {
	timeout 60 "$auxdecode" insn -F tid,ip "${@:2}" "$1" >"$SCRATCH/flow" 2>"$SCRATCH/err"
	rc=$?
	grep '^#' "$SCRATCH/flow" >"$SCRATCH/notes"
	"$truthcmp" --expect-gaps "$truth" "$SCRATCH/flow" >"$SCRATCH/cmp"
	cmp=$?
	shown=$(grep -vc '^#' "$SCRATCH/flow")
}

sane() { # no crash, no hang, no sanitizer report
	! crashed "$rc" && [ "$rc" -le 3 ] && [ "$rc" != 2 ] &&
		! grep -qE 'AddressSanitizer|LeakSanitizer|runtime error' "$SCRATCH/err"
}

check() { # TEXT CONDITION...: diagnostics are everything there is
	local text=$1
	shift
	if "$@"; then
		ok 0 "$text"
	else
		{ echo "status $rc, truthcmp $cmp, $shown shown"; tail -n 12 "$SCRATCH/cmp"
		  tail -n 5 "$SCRATCH/err"; head -n 5 "$SCRATCH/notes"; } >"$SCRATCH/why"
		ok 1 "$text" "$SCRATCH/why"
	fi
}

partial() { sane && [ $cmp = 0 ] && [ $rc = 3 ] && [ -s "$SCRATCH/notes" ]; }
partial_shown() { partial && [ "$shown" -gt 0 ]; }

# Overflow: the encoder drops packets as a CPU does, and says OVF.
for terms in noretcomp=1,psb_period=0 noretcomp=0,psb_period=0,cyc=1 noretcomp=0,mtc=1; do
	record feature "$terms" --inject-overflow 2
	check_text="overflow, soft_pt/$terms/"
	if [ $status != 0 ] && [ $status != 3 ]; then
		ok 1 "$check_text: auxcap ends with $status" "$log"
		continue
	fi
	decode "$data"
	check "$check_text: a GAP, and nothing wrong shown" partial_shown
	that "$check_text: named" "$SCRATCH/notes" grep -qi overflow "$SCRATCH/notes"
done

# A file cut at 64 places.
record hello_static noretcomp=0,psb_period=0
size=$(stat -c %s "$data")
whole=$("$auxdecode" insn -F tid,ip "$data" | grep -vc '^#')
n_some=0 bad=0
: >"$SCRATCH/cuts"
for i in $(seq 0 63); do
	at=$((size * i / 64 + i % 7))
	[ $at -lt "$size" ] || at=$((size - 1))
	head -c $at "$data" >"$SCRATCH/cut.data"
	decode "$SCRATCH/cut.data"
	[ "$shown" -gt 0 ] && n_some=$((n_some + 1))
	if ! { sane && [ $cmp = 0 ] && [ $rc != 0 ]; }; then
		bad=$((bad + 1))
		echo "cut at $at of $size: status $rc, truthcmp $cmp, $shown shown: $(tail -n 1 "$SCRATCH/err")" >>"$SCRATCH/cuts"
	fi
	if [ $rc = 1 ] && ! grep -q 'error: .*@' "$SCRATCH/err"; then
		bad=$((bad + 1))
		echo "cut at $at: the error names no offset: $(tail -n 1 "$SCRATCH/err")" >>"$SCRATCH/cuts"
	fi
done
ok $bad "a file cut at 64 places: reported each time, nothing wrong shown" "$SCRATCH/cuts"
ok $((n_some < 8)) "$n_some of 64 cut files still show a part of $whole instructions"

# Code that is not there, and code that is another: all of it, then a part.
# Where nothing at all can be shown the status is 1, and the cause is told.
mkdir -p "$SCRATCH/nowhere"
decode "$data" --symfs "$SCRATCH/nowhere"
all_missing() { sane && [ $cmp = 0 ] && [ $rc = 1 ] && [ "$shown" = 0 ] && [ -s "$SCRATCH/notes" ]; }
check "missing program: GAPs, nothing shown, status 1" all_missing
that "missing program: named" "$SCRATCH/notes" grep -q hello_static "$SCRATCH/notes"
hello=$(realpath "$programs/hello_static")
mkdir -p "$SCRATCH/symfs$(dirname "$hello")"
cp "$programs/threads" "$SCRATCH/symfs$hello"
decode "$data" --symfs "$SCRATCH/symfs"
check "program with another build id: refused" all_missing
that "program with another build id: named" "$SCRATCH/notes" grep -q 'build id' "$SCRATCH/notes"
for terms in noretcomp=1 noretcomp=0; do
	record dlopen $terms
	rm -rf "$SCRATCH/symfs"
	for f in $(awk '/r-xp/ && $6 ~ /^\// { print $6 }' /proc/self/maps | grep -E 'libc[.-]|ld-') \
		"$(realpath "$programs/dlopen")" /lib64/ld-linux-x86-64.so.2; do
		mkdir -p "$SCRATCH/symfs$(dirname "$f")"
		cp -L "$f" "$SCRATCH/symfs$f"
	done
	decode "$data" --symfs "$SCRATCH/symfs"
	check "one object missing ($terms): a GAP, the rest shown, status 3" partial_shown
	that "one object missing ($terms): named" "$SCRATCH/notes" grep -q dlobj "$SCRATCH/notes"
done

# Bits flipped: no promise of what is shown, only that we live. The reader's
# part (records, features) and the trace are hit alike.
n=${FLIPS:-40} bad=0
: >"$SCRATCH/flips"
record threads_few noretcomp=0,psb_period=0,cyc=1,mtc=1
size=$(stat -c %s "$data")
x=20231
for i in $(seq 1 "$n"); do
	cp "$data" "$SCRATCH/flip.data"
	for _ in 1 2 3; do
		x=$(((x * 16807) % 2147483647))
		# every second one close to the start, where the structures are
		at=$((i % 2 ? x % size : x % (size < 4096 ? size : 4096)))
		printf '%b' "\\x$(printf %02x $((x / 7 % 256)))" |
			dd of="$SCRATCH/flip.data" bs=1 seek=$at conv=notrunc 2>/dev/null
	done
	for sub in insn count raw dump info; do
		timeout 60 "$auxdecode" $sub "$SCRATCH/flip.data" >"$SCRATCH/flow" 2>"$SCRATCH/err"
		rc=$?
		if ! sane; then
			bad=$((bad + 1))
			cp "$SCRATCH/flip.data" "$SCRATCH/bad.$i.data"
			echo "flip $i, $sub: status $rc: $(head -c 300 "$SCRATCH/err")" >>"$SCRATCH/flips"
		fi
	done
done
ok $bad "$n files with bytes changed: no crash, no hang" "$SCRATCH/flips"

# Not recordings at all.
: >"$SCRATCH/empty"
head -c 5000 /bin/sh >"$SCRATCH/elf"
for f in "$SCRATCH/empty" "$SCRATCH/elf" "$SCRATCH/absent" "$SCRATCH"; do
	"$auxdecode" info "$f" >"$SCRATCH/out" 2>"$SCRATCH/err"
	rc=$?
	is $rc 1 "no recording: $(basename "$f"): status 1"
	that "no recording: $(basename "$f"): an error" "$SCRATCH/err" \
		grep -q '^auxdecode: error: ' "$SCRATCH/err"
done

# The recorder is killed: what had reached the file decodes.
for backend in '' 'step,'; do
	data=$SCRATCH/killed.data truth=$SCRATCH/killed.truth
	setsid "$auxcap" -e "soft_pt/${backend}noretcomp=1/u" -o "$data" --truth "$truth" \
		-- "$programs/crash" loop >/dev/null 2>"$SCRATCH/err" </dev/null &
	group=$!
	sleep 2
	kill -9 $group 2>/dev/null
	wait $group 2>/dev/null
	kill -9 -- -$group 2>/dev/null
	timeout 120 "$auxdecode" count "$data" >"$SCRATCH/count" 2>"$SCRATCH/err"
	rc=$?
	cat "$SCRATCH/count" >>"$SCRATCH/err"
	if [ -n "$backend" ] && [ $rc = 1 ]; then
		# so slow that nothing may have reached the file yet: told, too
		that "recorder killed (soft_pt/${backend}): told" "$SCRATCH/err" grep -q 'not finished' "$SCRATCH/err"
	else
		is $rc 3 "recorder killed (soft_pt/${backend}): status 3"
		that "recorder killed (soft_pt/${backend}): its file decodes" "$SCRATCH/err" \
			grep -qE '^total.* insns [0-9]{4,}' "$SCRATCH/count"
	fi
	rm -f "$data" "$truth"
done
finish
