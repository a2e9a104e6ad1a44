#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: decoders are held against libipt, which only x86 has
#
# Loss and damage: what is missing is said, with the exit status of the man
# page; what is shown really ran; nothing crashes or hangs.
. "$(dirname "$0")/lib.sh"
need_soft
. tests/record.sh

# decode FILE [OPTION...]: the flow against $truth, gaps allowed. Sets $rc (the
# decoder's), $cmp (truthcmp's), $shown; stderr is in err, notes in notes.
decode() {
	timeout 300 "$auxdecode" insn -F tid,ip "${@:2}" "$1" >"$SCRATCH/flow" 2>"$SCRATCH/err"
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
		timeout 300 "$auxdecode" $sub "$SCRATCH/flip.data" >"$SCRATCH/flow" 2>"$SCRATCH/err"
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

# The recorder is killed: what it observed until shortly before is in the file,
# and no program that it ran is left waiting.
killed() { # BACKEND BYTES OPTION COMMAND...: when its truth has so many bytes;
	# sets $group, $data, $truth
	local backend=$1 bytes=$2 option=$3 i
	shift 3
	data=$SCRATCH/killed.data truth=$SCRATCH/killed.truth
	rm -f "$data" "$truth"
	setsid "$auxcap" -e "soft_pt/$backend,noretcomp=1/u" -o "$data" --truth "$truth" \
		${option:+"$option"} -- "$@" >/dev/null 2>"$SCRATCH/err" </dev/null &
	group=$!
	for ((i = 0; i < 3000; i++)); do
		[ "$(stat -c %s "$truth" 2>/dev/null || echo 0)" -gt "$bytes" ] && break
		sleep 0.1
	done
	{ kill -9 $group && wait $group; } 2>/dev/null
}

# Both the trace and the truth end somewhere close to the end: what both have
# must be the same, and the rest little.
is_prefix() {
	"$truthcmp" --count "$truth" >"$SCRATCH/counts"
	awk 'NR == FNR { left[$1] = $2; next } !/^#/ && left[$1]-- > 0' \
		"$SCRATCH/counts" "$SCRATCH/flow" >"$SCRATCH/common"
	"$truthcmp" --expect-gaps "$truth" "$SCRATCH/common" >"$SCRATCH/cmp"
	cmp=$?
	sane && [ $rc = 3 ] && [ $cmp = 0 ] && [ "$shown" -gt 1000 ] &&
		! grep -Eq '^tid .* ([2-9]|[1-9][0-9]+) holes' "$SCRATCH/cmp" &&
		[ "$(sed -n 's/^total .* missing \([0-9]*\) .*/\1/p' "$SCRATCH/cmp")" -lt $((shown / 2)) ]
}

backs=$(back_ends)
for backend in $backs; do for option in '' --per-thread; do
	[ $backend = step ] && bytes=20000 || bytes=2000000
	killed $backend $bytes "$option" /bin/sh -c 'while :; do sleep 0.05; done'
	kill -9 -- -$group 2>/dev/null
	timeout 300 "$auxdecode" insn -F tid,ip "$data" >"$SCRATCH/flow" 2>"$SCRATCH/err"
	rc=$?
	grep '^#' "$SCRATCH/flow" >"$SCRATCH/notes"
	shown=$(grep -vc '^#' "$SCRATCH/flow")
	check "recorder killed ($backend${option:+ $option}): its file shows how the program began" is_prefix
	if have perf; then
		timeout 500 perf script -i "$data" --itrace=i0ns -F tid,ip >"$SCRATCH/out" 2>"$SCRATCH/err"
		# It had no time to say how many CPUs there are: perf 7.2 says so.
		is "$(wc -l <"$SCRATCH/out")$(grep -v 'missing HEADER_NRCPUS' "$SCRATCH/err" | head -n 2)" "$shown" \
			"recorder killed ($backend${option:+ $option}): perf opens it at once, sees as much"
	fi
done; done

killed native 60000000 '' "$programs/crash" loop
kill -9 -- -$group 2>/dev/null
timeout 500 "$auxdecode" count "$data" >"$SCRATCH/count" 2>"$SCRATCH/err"
is $? 3 "recorder killed in a loop: status 3"
n=$(sed -n 's/^total insns \([0-9]*\) .*/\1/p' "$SCRATCH/count")
t=$("$truthcmp" --count "$truth" | awk '{ n += $2 } END { print n }')
ok $((${n:-0} < t / 2)) "recorder killed in a loop: ${n:-no} instructions of some $t are there" "$SCRATCH/err"

gone() { # GROUP SECONDS: nothing of it runs any more
	local i
	for ((i = 0; i < $2 * 5; i++)); do
		# pid (name) state ppid pgrp: a bare system has no ps
		sed 's/^.*) //' /proc/[0-9]*/stat 2>/dev/null |
			awk -v g="$1" '$3 == g && $1 != "Z" { n = 1 } END { exit !n }' || return 0
		sleep 0.2
	done
	return 1
}
for backend in step native; do
	killed $backend 10000 '' /bin/sh -c 'while :; do sleep 0.05; done'
	that "recorder killed ($backend): what it ran is killed, too" - gone $group 300
	kill -9 -- -$group 2>/dev/null
done
rm -f "$SCRATCH/end"
gzip_input
if [ -z "$(no_emulation)" ]; then
	killed emulate 300000 '' /bin/sh -c "for i in 1 2 3 4 5 6 7 8; do gzip -c '$SCRATCH/gzip.in'; done; echo end >'$SCRATCH/end'"
	that "recorder killed (emulate): what it ran goes on" - test ! -e "$SCRATCH/end"
	that "recorder killed (emulate): what it ran comes to its end" - gone $group 300
	that "recorder killed (emulate): and does what it should" - test -s "$SCRATCH/end"
	kill -9 -- -$group 2>/dev/null
else
	skip "$(no_emulation)" "recorder killed (emulate)"
fi
rm -f "$data" "$truth"

# A program is killed from outside, in the middle: how far it was nobody saw.
for backend in $backs; do
	data=$SCRATCH/rec.data truth=$SCRATCH/rec.truth
	timeout 500 "$auxcap" -e "soft_pt/$backend/u" -o "$data" --truth "$truth" -- \
		/bin/sh -c 'echo $$ >"$0"; exec "$1" loop' "$SCRATCH/pid" "$programs/crash" \
		>/dev/null 2>"$SCRATCH/err" </dev/null &
	recorder=$!
	for ((i = 0; i < 500; i++)); do
		[ -s "$SCRATCH/pid" ] && break
		sleep 0.2
	done
	sleep 1
	kill -9 "$(cat "$SCRATCH/pid")"
	rm -f "$SCRATCH/pid"
	wait $recorder
	status=$?
	timeout 500 "$auxdecode" count "$data" >"$SCRATCH/count" 2>"$SCRATCH/err2"
	if [ $status = 3 ]; then
		that "program killed ($backend): said" "$SCRATCH/err" grep -q "last instructions" "$SCRATCH/err"
		that "program killed ($backend): auxdecode says so" "$SCRATCH/err2" grep -q "last instructions" "$SCRATCH/err2"
	else
		is $status 0 "program killed ($backend): between two blocks"
	fi
	n=$(sed -n 's/^total insns \([0-9]*\) .*/\1/p' "$SCRATCH/count")
	is "$n" "$("$truthcmp" --count "$truth" | awk '{ n += $2 } END { print n }')" \
		"program killed ($backend): all that was seen is there"
done

# Overflows that never came are no loss.
record hello_asm noretcomp=1 --inject-overflow 1000
is $status 0 "no overflow came to be injected: status 0"
that "no overflow came to be injected: nothing lost" "$log" grep -q 'nothing lost' "$log"
record feature noretcomp=1,psb_period=0 --inject-overflow 2
is $status 3 "overflows were injected: status 3"
that "overflows were injected: counted" "$log" grep -Eq '[0-9]+ overflows? \(injected as asked\)' "$log"

# A loop without a packet: not a bug of ours, and told so.
"$auxcap" -o "$SCRATCH/rec.data" -- "$programs/crash" spin >/dev/null 2>"$SCRATCH/err" </dev/null
is $? 3 "an endless loop: status 3"
that "an endless loop: said in plain words" "$SCRATCH/err" grep -q '1 endless loop.*no packet counts' "$SCRATCH/err"
"$auxdecode" info "$SCRATCH/rec.data" >"$SCRATCH/out" 2>&1
that "an endless loop: info says it" "$SCRATCH/out" grep -q '^verdict: incomplete: *1 endless loop' "$SCRATCH/out"

# Processes that cannot be followed: a 32-bit program, a set-user-ID one.
tiny32() { # exit(7), 32-bit ELF
	printf '\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\3\0\1\0\0\0\124\200\4\10\64\0\0\0'
	printf '\0\0\0\0\0\0\0\0\64\0\40\0\1\0\50\0\0\0\0\0'
	printf '\1\0\0\0\0\0\0\0\0\200\4\10\0\200\4\10\140\0\0\0\140\0\0\0\5\0\0\0\0\20\0\0'
	printf '\270\1\0\0\0\273\7\0\0\0\315\200'
}
tiny32 >"$SCRATCH/tiny32"
chmod 755 "$SCRATCH/tiny32"
"$SCRATCH/tiny32" 2>/dev/null
[ $? = 7 ] || skip "hardware: this kernel does not run 32-bit programs" "32-bit programs"
for backend in $backs; do
	data=$SCRATCH/rec.data
	"$auxcap" -e "soft_pt/$backend/u" -o "$data" -- /bin/sh -c "'$SCRATCH/tiny32'; exit 0" \
		>/dev/null 2>"$SCRATCH/err" </dev/null
	is $? 3 "a 32-bit child ($backend): status 3"
	that "a 32-bit child ($backend): named, with the reason" "$SCRATCH/err" \
		grep -Eq 'not traced: .*/tiny32 \(process [0-9]+\): .*(32-bit|x86-64)' "$SCRATCH/err"
	"$auxdecode" info "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 3 "a 32-bit child ($backend): info: status 3"
	that "a 32-bit child ($backend): info names it" "$SCRATCH/out" grep -q 'not traced: .*/tiny32' "$SCRATCH/out"
	"$auxcap" -e "soft_pt/$backend/u" -o "$SCRATCH/none.data" -- "$SCRATCH/tiny32" 2>"$SCRATCH/err"
	is $? 1 "a 32-bit program ($backend): status 1"
	that "a 32-bit program ($backend): said" "$SCRATCH/err" grep -q 'error: .*tiny32: cannot be traced: ' "$SCRATCH/err"
done
cp /bin/true "$SCRATCH/setuid"
if [ -n "$(no_emulation)" ]; then
	skip "$(no_emulation)" "a set-user-ID child (emulate)"
elif chown 1:1 "$SCRATCH/setuid" 2>/dev/null && chmod 4755 "$SCRATCH/setuid"; then
	"$auxcap" -e soft_pt/emulate/u -o "$data" -- /bin/sh -c "'$SCRATCH/setuid'; exit 0" >/dev/null 2>"$SCRATCH/err" </dev/null
	is $? 3 "a set-user-ID child (emulate): status 3"
	that "a set-user-ID child (emulate): named, with the reason" "$SCRATCH/err" \
		grep -Eq 'not traced: .*/setuid \(process [0-9]+\): set-user-ID' "$SCRATCH/err"
else
	skip "needs root" "a set-user-ID child"
fi

# A fatal signal of its own: the flow ends at the faulting instruction exactly.
for backend in $backs; do for how in segv ill; do
	data=$SCRATCH/rec.data truth=$SCRATCH/rec.truth
	"$auxcap" -e "soft_pt/$backend/u" -o "$data" --truth "$truth" -- "$programs/crash" $how \
		>/dev/null 2>"$SCRATCH/err" </dev/null
	is $? 0 "$how ($backend): nothing is lost"
	"$auxdecode" insn -F tid,ip "$data" | "$truthcmp" "$truth" >"$SCRATCH/cmp"
	ok $? "$how ($backend): all of it is shown" "$SCRATCH/cmp"
	fault=$("$auxdecode" raw "$data" 2>/dev/null | awk '$2 == "fup" { ip = $NF } END { print ip }')
	[ $how = ill ] && want=ud2 || want='mov .*byte ptr'
	addr2=$(objdump -d --no-show-raw-insn -M intel "$programs/crash" 2>/dev/null |
		grep -Ei "^ *${fault#0x}:.*($want)")
	if ! have objdump; then
		skip "objdump is not installed" "$how ($backend): the last FUP is the fault"
	else
		ok $((!${#addr2})) "$how ($backend): it ends at the faulting instruction ${fault:-(none)}" "$SCRATCH/cmp"
	fi
done; done
# The last two records of trace in the wrong order, and the file cut in the second. Its
# offsets are before the end of the first, which has the later bytes.
record gzip noretcomp=1,psb_period=0,cyc=1
python3 - "$data" "$SCRATCH/late.data" >"$SCRATCH/out" <<'EOF'
import struct
import sys
b = open(sys.argv[1], "rb").read()
at, size = struct.unpack_from("<QQ", b, 40)
end, trace, n = at + size, [], 0
while at < end:
    kind, _, n = struct.unpack_from("<IHH", b, at)
    if kind == 71:
        n += struct.unpack_from("<Q", b, at + 8)[0]
        trace.append((at, at + n))
    at += n
(a, b1), (c, d) = trace[-2:]
open(sys.argv[2], "wb").write(b[:a] + b[b1:c] + b[c:d] + b[a:a + 48 + (b1 - a - 48) // 2])
print(len(trace))
EOF
ok $? "records of trace in the wrong order: made" "$SCRATCH/out"
that "records of trace in the wrong order: several" "$SCRATCH/out" test "$(cat "$SCRATCH/out")" -gt 2
decode "$SCRATCH/late.data"
check "records of trace in the wrong order: a GAP" partial_shown
finish
