#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# --when: each moment is there, none else, and says what it is; with -S the trace up to it is
# in its snapshot; calls are measured whatever way others end.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/data truth=$SCRATCH/truth out=$SCRATCH/out err=$SCRATCH/err
moments=$programs/moments

# refused TEXT PATTERN OPTION...
refused() {
	local text=$1 pattern=$2
	shift 2
	"$auxcap" "$@" -o "$SCRATCH/none" -- true >"$out" 2>"$err"
	is $? 2 "$text: status 2"
	that "$text: what it may be" "$err" grep -q -e "$pattern" "$err"
}
soft="-e soft_pt//u"
# shellcheck disable=SC2086
{
	refused "no such signal" 'signal=SEGV, a number, crash, exit or oom' $soft --when signal=NONE
	refused "no time" 'no time as 200us' $soft --when 'f > 2x'
	refused "no address" 'no address as 0x401136' $soft --when 0x12z
	refused "no expression" 'no regular expression' $soft --when '/a(/'
	refused "nothing" 'wants FUNCTION' $soft --when ' > 5us'
	refused "--cooldown alone" 'go with --when' $soft --cooldown 1ms
	refused "--when-delay without -S" 'needs -S' $soft --when main --when-delay 1ms
	refused "a function that no file has" 'none of the .* files that the program maps at its start has it' -e cpu-clock --when no_such_function
	refused "a line that takes time" 'a line takes no time' $soft --when 'a.c:12 > 5us'
	refused "a probe without a name" 'usdt:PROVIDER:NAME' $soft --when usdt:shop
	refused "a function of the kernel, of soft_pt" 'needs an event of the kernel' $soft --when kprobe:vfs_read
	refused "what the kernel counts, of soft_pt" 'needs an event of the kernel' $soft --when page-faults
	refused "a tracepoint, of soft_pt" 'needs an event of the kernel' $soft --when sched:sched_switch
	refused "soft_etm" 'soft_etm has it not' -e soft_etm//u --when main
	refused "emulate" 'needs step or native' -e soft_pt/emulate/u --when main
	refused "-S by thread" 'without --per-thread' $soft -S --per-thread
}
# what the kernel starts, without it
handler() {
	local want=$1 text=$2
	shift 2
	"$auxcap" crash-handler "$@" >"$out" 2>"$err" </dev/null
	is $? "$want" "crash-handler: $text: status $want"
}
fifos=fifo:$SCRATCH/no,$SCRATCH/none
handler 2 "without a process" --control "$fifos" 1 2
handler 2 "no number" --control "$fifos" 1 2 SEGV
handler 2 "without a recorder" 1 2 11
handler 2 "no directory" --control "$fifos" -o "$SCRATCH/nowhere" 1 2 11
handler 1 "nobody reads" --control "$fifos" -o "$SCRATCH" 4194000 4194000 11
that "crash-handler: it is said" "$err" grep -q 'error: .*/none: No such file' "$err"
that "crash-handler: the core is saved nevertheless" - test -f "$SCRATCH/core.4194000"
need_soft

# record BACK-END OPTION... -- PROGRAM: into $data
record() {
	local back_end=$1
	shift
	"$auxcap" -e "soft_pt/$back_end,cyc/u" -o "$data" "$@" >"$out" 2>"$err"
	ok $? "$back_end: $*" "$err"
}
# moments: PID TID TIME TOOK, a line each
moments() { "$auxdecode" dump "$data" | sed -n 's/.* auxkit-moment \([0-9]*\)\/\([0-9]*\) cpu [0-9]* time \([0-9]*\) took \([0-9]*\) .*/\1 \2 \3 \4/p'; }
snapshots() { "$auxdecode" info "$data" | sed -n 's/^  \([0-9]*\): at \([0-9.]*\) s when "\(.*\)"$/\1 \2 \3/p'; }

for back_end in native step; do
	# ---- a function: as often as it ran, and when ----
	record "$back_end" --when 'shop::till::ring' -- "$moments" hits
	moments >"$SCRATCH/moments"
	is "$(wc -l <"$SCRATCH/moments")" 1000 "$back_end: 1,000 calls are 1,000 moments"
	"$auxdecode" find shop::till::ring -F tid,time "$data" 2>"$err" | grep -v '^#' | sed 's/\.//' | sort >"$SCRATCH/calls"
	awk '{ print $1 }' "$SCRATCH/calls" | sort | uniq -c >"$SCRATCH/want"
	is "$(awk '{ print $2 }' "$SCRATCH/moments" | sort | uniq -c)" "$(cat "$SCRATCH/want")" "$back_end: of the threads that made them"
	awk '{ print $2, $3 }' "$SCRATCH/moments" | sort | paste - "$SCRATCH/calls" |
		awk '{ d = $2 - $4; if ($1 != $3 || d < -400 || d > 400) bad = 1 } END { exit bad || NR != 1000 }'
	ok $? "$back_end: when they began" "$SCRATCH/moments"
	# shellcheck disable=SC2016
	that "$back_end: each says what it is" "$out" [ "$("$auxdecode" dump "$data" |
		grep -cE 'auxkit-moment ([0-9]+/[0-9]+) cpu ([0-9]+) time ([0-9]+)([0-9]{9}) took 0 label "shop::till::ring: \1 on cpu \2 at \3\.\4"')" = 1000 ]

	# ---- its names ----
	[ $back_end = native ] && for name in 'shop::till::ring(unsigned int)' '_ZN4shop4till4ringEj' 'shop::*::ring' '/^shop.*ring$/' \
		"shop::till::ring @ moments" "0x$(nm "$moments" | awk '/ring/ { print $1 }')" \
		"moments.cc:$(grep -n 'sink = sink + n;' tests/programs/moments.cc | cut -d: -f1)"; do
		"$auxcap" -q -e "soft_pt/$back_end/u" -o "$data" --when "$name" -- "$moments" hits 2>"$err"
		is "$(moments | wc -l)" 1000 "$back_end: --when '$name'"
	done
	"$auxcap" -e "soft_pt/$back_end/u" -o "$data" --when 'ring @ other' --when 'no_such' -- "$moments" hits 2>"$err"
	that "$back_end: what no file has is said" "$err" grep -q 'taken 0; no file that was mapped has "ring @ other"; no file that was mapped has "no_such"' "$err"

	# ---- three kinds of moments a thousand times, each what it says ----
	record "$back_end" -S -m ,256K --when 'shop::till::ring' --when 'shop::till::ring > 1ns' --when signal=USR1 -- "$moments" turns
	"$auxdecode" dump "$data" | sed -n 's/.* auxkit-moment \([0-9]*\/[0-9]*\) cpu \([0-9]*\) time \([0-9]*\)\([0-9]\{9\}\) took [0-9]* label "\(.*\): \1 on cpu \2 at \3\.\4\(, took [0-9.]* us\)\?"$/\5\6/p' |
		sed 's/took .*/took/' | paste -d'|' - - - | sort | uniq -c >"$out"
	is "$(cat "$out")" "   1000 shop::till::ring|shop::till::ring > 1ns, took|signal=USR1" "$back_end: three triggers a thousand times, in order, with who, where and when"
	is "$(snapshots | wc -l)" 3000 "$back_end: a snapshot for each"

	# ---- calls that take longer: each in the other, with one left by longjmp before ----
	record "$back_end" --when 'again > 10us' --when 'leaves > 1us' --when 'serve > 100us' -- "$moments" jumps
	"$auxdecode" find again --longer 10us -F dur "$data" 2>"$err" | grep -v '^#' | sort -n >"$SCRATCH/want"
	moments | awk '{ print $4 }' | sort -n >"$SCRATCH/got"
	is "$(wc -l <"$SCRATCH/got")" 6 "$back_end: those that took longer, and none that was left"
	paste "$SCRATCH/want" "$SCRATCH/got" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 400 || !$1) bad = 1 } END { exit bad }'
	ok $? "$back_end: as long as the trace says" "$SCRATCH/want"

	# ---- children, and what they start ----
	record "$back_end" --when serve --when exit -- "$moments" forks
	is "$(moments | awk '{ print $1 }' | uniq -c | awk '{ print $1 }' | xargs)" "3 2" "$back_end: a child, the program that it starts, both ends"
done

# ---- libraries: also one that comes later ----
record native --when 'strlen*' --when 'dlopen*' -- "$programs/dlopen"
that "functions of libraries" "$err" test "$(moments | wc -l)" -gt 0

record native --when usdt:shop:sale -- "$moments" sales
is "$(moments | wc -l)" 50 "USDT"

# ---- a stripped program: by its file of debug information ----
mkdir -p "$SCRATCH/bin/.debug"
objcopy --only-keep-debug "$moments" "$SCRATCH/bin/.debug/moments.dbg"
strip -o "$SCRATCH/bin/moments" "$moments"
objcopy --add-gnu-debuglink="$SCRATCH/bin/.debug/moments.dbg" "$SCRATCH/bin/moments"
line=$(grep -n 'sink = sink + n;' tests/programs/moments.cc | cut -d: -f1)
for name in 'shop::till::ring' "moments.cc:$line"; do
	record native --when "$name" -- "$SCRATCH/bin/moments" hits
	is "$(moments | wc -l)" 1000 "stripped, with .gnu_debuglink: --when '$name'"
done
mv "$SCRATCH/bin/.debug/moments.dbg" "$SCRATCH/bin/"
record native --when "shop::till::ring" -- "$SCRATCH/bin/moments" hits
is "$(moments | wc -l)" 1000 "stripped, the other file beside it"
objcopy --remove-section=.note.gnu.build-id "$SCRATCH/bin/moments"
record native --when "shop::till::ring" -- "$SCRATCH/bin/moments" hits
is "$(moments | wc -l)" 1000 "stripped, without a build id: by the checksum"
echo >>"$SCRATCH/bin/moments.dbg"
record native --when "shop::till::ring" -- "$SCRATCH/bin/moments" hits
that "another checksum: it is not taken" "$err" grep -q 'no file that was mapped has "shop::till::ring"' "$err"

# ---- snapshots ----
record native -S --when 'serve > 100us' -- "$moments" slow
is "$(snapshots | wc -l)" 1 "one call of 10,000 is slow: one snapshot"
"$auxdecode" find serve --longer 100us -F dur,insns "$data" 2>"$err" | grep -v '^#' >"$out"
is "$(wc -l <"$out")" 1 "the slow call is in it, whole"
that "the slow call is in it, whole: its instructions" "$out" awk '{ exit !($2 > 900000) }' "$out"
is "$("$auxdecode" calls "$data" 2>&1 | grep -c 'still running at the end.*serve\|serve.*still running')" 0 "and it has returned"
that "the ledger balances" "$err" [ "$("$auxdecode" info "$data" | grep -c 'verdict: no loss')" = 1 ]
if have perf; then
	perf script -i "$data" --itrace=b >"$out" 2>"$err"
	that "perf finds branches in a snapshot" "$err" test "$(wc -l <"$out")" -gt 1000
fi
[ -n "$(no_libipt)" ] || that "both decoders agree on a snapshot" "$err" eval '"$auxdecode" verify "$data" >"$out" 2>"$err"'

# a small ring: the newest alone, and what each snapshot adds can be decoded by itself
record native -S -m ,64K --when 'shop::till::ring' --cooldown 10us --when-count 9 -- "$moments" hits
is "$(snapshots | wc -l)" 9 "--when-count"
snapshots | awk '{ if (last && $2 - last < 0.00001) bad = 1; last = $2 } END { exit bad }'
ok $? "--cooldown: none came sooner" "$out"
that "those that were passed over are counted" "$err" grep -q -- '--when: 1000 times, taken 9, [0-9]* within --cooldown' "$err"
for n in 2 9; do
	"$auxdecode" count --snapshot $n "$data" >"$out" 2>"$err"
	that "snapshot $n alone" "$out" grep -qE 'total insns [1-9]' "$out"
done
record native -S -m ,64K --when 'serve > 100us' --when exit -- "$moments" slow
that "what was overwritten is counted, and no loss" "$out" eval '"$auxdecode" info "$data" >"$out"; grep -q overwritten "$out" && grep -q "verdict: no loss" "$out"'
record native -S --when 'serve > 100us' --when-delay 1ms -- "$moments" slow
"$auxdecode" find serve "$data" 2>"$err" | grep -v '^#' | awk '$0 ~ /900/ { found = 1; next } found { n++ } END { exit !n }'
ok $? "--when-delay: what came after is in it, too" "$err"
"$auxcap" -e soft_pt//u -S -o "$data" --when no_such -- "$moments" slow >"$out" 2>"$err"
that "what did not come is said" "$err" grep -q 'what --when waits for did not come' "$err"
record native -Se -- "$moments" slow
is "$("$auxdecode" info "$data" | grep -c ' s at the end$')" 1 "-Se: one at the end"

# ---- signals ----
for when in signal=SEGV crash; do
	record native -S --when $when -- "$programs/crashes" call
	is "$(snapshots | wc -l)" 1 "$when: one snapshot"
	"$auxdecode" crash "$data" >"$out" 2>"$err"
	that "$when: how it came to its end is in it" "$out" grep -q '^  #1 .* by_call+0x' "$out"
done
record native --when crash --when signal=SEGV -- "$programs/crashes" handled
is "$("$auxdecode" info "$data" | sed -n 's/^  [12]: "\([^:]*\):.*/\1/p' | xargs)" "signal=SEGV crash" "a signal that is caught is no crash; info lists moments"
(
	"$auxcap" -q -e soft_pt//u -S -o "$data" -- "$programs/crash" loop 2>"$err" &
	rec=$!
	waits grep -q . "$data" 2>/dev/null
	sleep 1
	kill -USR2 $rec
	sleep 1
	kill $rec
	wait $rec
)
is "$("$auxdecode" info "$data" | grep -c ' s on a signal$')" 1 "SIGUSR2: one when it was asked for"
finish
