#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it boots a kernel of its own
#
# Real execution through the kernel's AUX area, in one boot of the guest: programs
# that pmu_step traces, recorded by auxcap and by perf, decode to exactly what
# single-stepping saw; streams of soft_pt that pmu_sim replays come through as they
# were. tests/guest/step.sh records there, all decoding is done here. FULL=1: all
# combinations; GUEST_KERNEL: see tools/guest/run -k.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=record.sh
. tests/record.sh

[ -z "${QUICK:-}" ] || { skip "takes a minute" "guest"; finish; }
[ "$(uname -m)" = x86_64 ] || { skip "hardware: pmu_step needs x86_64" "guest"; finish; }
have qemu-system-x86_64 || { skip "no QEMU: tools/deps install guest" "guest"; finish; }
out=$SCRATCH/guest err=$SCRATCH/err log=$SCRATCH/log
kernel=${GUEST_KERNEL:-6.1}
mkdir -p "$out"
# What perf says of every file on a machine like this one, ours or not.
usual='^$|kernel address maps|kptr_restrict|Kernel address maps|vmlinux|/proc/kallsyms|As no suitable kallsyms'

programs_all=(hello_static feature_few threads_few pipe forkexec)
cases=()
add() { # RECORDER MODE CASE...
	local c
	for c in "${@:3}"; do
		cases+=("$1:$2:$c")
	done
}
add auxcap cpu "${programs_all[@]}"
add auxcap thread "${programs_all[@]}"
add auxcap pid "${programs_all[@]}"
add auxcap pidthread hello_static
add auxcap snap forkexec
add auxcap cpu jitter
add auxcap pid jitter
add auxcap running attached
add auxcap runthread attached
add auxcap pid apart
add auxcap when slow
add auxcap turns turns
add auxcap cooled turns
add auxcap crash crash_call crash_smash crash_deep
! have perf || add auxcap sched waits
[ "$kernel" != newest ] || add auxcap pause paused
[ "$kernel" != newest ] || add auxcap window hits
add perf cpu hello_static threads_few forkexec
add perf thread feature_few
add perf pid threads_few
add perf pidthread hello_static
if [ -n "${FULL:-}" ]; then
	add perf cpu feature_few pipe
	add perf thread hello_static threads_few pipe forkexec
	add perf pid hello_static feature_few pipe forkexec
	add perf pidthread feature_few threads_few pipe forkexec
	add auxcap crash crash_abort crash_assert crash_ill
	add auxcap pidthread feature_few threads_few pipe forkexec
	add auxcap cpu shells dlopen throw vdso
	add auxcap snap shells
	add auxcap late thread_exec
	add auxcap all hello_static
	add perf all hello_static
fi

# The root as that program saw it.
mkdir -p "$SCRATCH/apart/mnt"
cp "$programs/hello_static" "$SCRATCH/apart/mnt/apart"
for d in bin lib lib64 usr; do ln -s "/$d" "$SCRATCH/apart/$d"; done

# Five threads, a mutex, sleep; static, for a loader's steps would take most of the time.
if have perf; then
	g++ -static -O1 -pthread -o "$out/waits" tests/programs/waits.cc 2>"$err"
	ok $? "a static program builds" "$err"
fi

# source_stream NAME CASE TERMS: a recording of soft_pt, and its one stream alone.
# The payload of an AUXTRACE is padded; up to the next one's offset it is trace.
source_stream() {
	local name=$1 i n at=() offset=()
	record "$2" "$3" --per-thread
	mv "$data" "$SCRATCH/$name.data"
	while read -r i n; do
		at+=($((i + 49))) offset+=($((n)))
	done < <("$auxdecode" dump "$SCRATCH/$name.data" 2>/dev/null |
		awk '$3 == "AUXTRACE" { print $1, $7 }')
	offset+=("$("$auxdecode" info "$SCRATCH/$name.data" |
		sed -n 's/^AUX streams: 1, \([0-9]*\) bytes.*/\1/p')")
	for i in "${!at[@]}"; do
		tail -c +"${at[i]}" "$SCRATCH/$name.data" |
			head -c $((offset[i + 1] - offset[i]))
	done >"$out/$name.stream"
	n=${offset[-1]:-0}
	is "$(stat -c %s "$out/$name.stream")" "$n" "$name: $n bytes of trace to replay"
	that "$name: not empty" "$log" test "$n" -gt 10000
}

# The modules are copied: the cache may be cleaned meanwhile.
modules() {
	local ko
	tools/guest/kernel -k "$kernel" >"$err" 2>&1 || return
	tools/guest/module -k "$kernel" tools/pmu_sim >"$log" 2>"$err" || return
	while read -r ko; do
		cp "$ko" "$out/" || return
	done <"$log"
}

# What Debian's next release offers today is not for us to promise.
if [ "$kernel" = newest ] && ! tools/guest/kernel -k newest >"$log" 2>&1; then
	skip "$(tail -n 1 "$log")" "guest"
	finish
fi
modules
ok $? "kernel and modules for the guest" "$err" || finish
source_stream untimed feature_few tsc=0,mtc=0
source_stream timed gzip_tiny noretcomp=0,psb_period=0,mtc=1,cyc=1
tools/guest/run -k "$kernel" -t 1500 -m 1000 -o "$out" -e BUILD="$BUILD" \
	-M "$out/pmu_step.ko truth_mb=48" -- bash tests/guest/step.sh \
	"$out/pmu_sim.ko" "${cases[@]}" >"$log" 2>&1
ok $? "${#cases[@]} recordings in the guest" "$log" || finish
that "its kernel did not complain" "$out/complaints" not test -s "$out/complaints"
[ -z "${V:-}" ] || cat "$log"

### what really ran

stat_of() { sed -n "s/^$2 //p" "$out/$1.stat" 2>/dev/null; }

# The stepper itself: what it saw is all, and is what its packets tell.
seen() { # NAME THREADS
	local s
	s="$(stat_of "$1" unexplained) $(stat_of "$1" endless) $(stat_of "$1" overruns)"
	is "$s $(stat_of "$1" truth_lost)" "0 0 0 0" "$1: stepped without a doubt"
}

# threads MODE CASE: how many must be in the truth; nothing: not known
threads() {
	case $1:$2 in
	thread:* | pidthread:* | pause:* | *:hello_static | *:feature_few) echo 1 ;;
	snap:* | all:*) ;;
	*:threads_few) echo 5 ;;
	*:pipe) echo 3 ;;
	*:forkexec) echo 6 ;;
	*:jitter) echo 2 ;;
	*:apart) echo 1 ;;
	*:waits) echo 6 ;;
	*:thread_exec) echo 2 ;;
	runthread:attached) echo 3 ;;
	*:attached) echo 4 ;;
	esac
}

exact() { # NAME WANTED_THREADS
	local name=$1 vdso='' root='' rc sum
	# perf does not save the vDSO, and the guest's is not ours
	[[ $name != perf-* ]] || vdso=--vdso=$out/vdso
	[[ $name != *-apart ]] || root=--symfs=$SCRATCH/apart
	# The kernel's copy of an instruction with a probe is neither here nor there.
	timeout 500 "$auxdecode" insn ${vdso:+"$vdso"} ${root:+"$root"} -F tid,ip "$out/$name.data" 2>"$err" |
		grep -v ' 7fffffffe\(0[89a-f].\|[1-9a-f]..\)$' | "$truthcmp" "$out/$name.truth" >"$log"
	rc="${PIPESTATUS[*]}"
	[ "$rc" = "0 0 0" ] || cat "$err" >>"$log"
	sum=$(grep '^total' "$log")
	[ "$rc" = "0 0 0" ]
	ok $? "$name: auxdecode: $sum" "$log"
	[ -z "$2" ] || [[ $sum == *" threads $2 "* ]]
	ok $? "$name: ${2:-any} threads" "$log"
}

# perf's flow of the same file. After exec by a thread perf goes on with that
# thread's tid, the kernel with the leader's; and a switch is stamped after the trace
# has begun, so that perf may take the first instructions of a program for those of
# another thread: there only the sum can agree, with what perf gives to threads of
# which the snapshot has no truth.
by_perf() { # NAME CASE
	local name=$1 rc sum others
	timeout 300 perf script --itrace=i0ns -F tid,ip -i "$out/$name.data" 2>"$err" |
		"$truthcmp" "$out/$name.truth" >"$log"
	rc=("${PIPESTATUS[@]}")
	sum=$(grep '^total' "$log")
	others=$(awk '/instructions of threads that the truth lacks/ { for (i = 1; i < NF; i++)
		if ($(i + 1) == "instructions") n += $i } END { print n + 0 }' "$log")
	if [[ $2 == forkexec || $2 == thread_exec ]] && [[ $sum =~ truth\ ([0-9]+)\ flow\ ([0-9]+) ]] &&
	   { [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] ||
	     [ "${BASH_REMATCH[1]}" = $((BASH_REMATCH[2] + others)) ]; }; then
		rc[1]=0
	fi
	ok $((rc[0] | rc[1])) "$name: perf: $sum" "$log"
	grep -Ev "$usual" "$err" >"$err.said"
	that "$name: perf says nothing" "$err.said" test ! -s "$err.said"
}

judge() { # RECORDER:MODE:CASE
	local tool mode case name=${1//:/-}
	IFS=: read -r tool mode case <<<"$1"
	is "$(cat "$out/$name.status" 2>/dev/null)" 0 "$name: recorded" ||
		{ ok 1 "$name: what the recorder said" "$out/$name.log"; return; }
	seen "$name"
	exact "$name" "$(threads "$mode" "$case")"
	# perf takes this machine's vDSO for the guest's, and has no generated code; and
	# perf 6.1 gives a RET twice where the trace begins with it.
	if [[ ! $case =~ ^(vdso|jitter|attached|paused|apart|slow|turns|waits|hits|crash_.*)$ ]] && have perf; then
		by_perf "$name" "$case"
	fi
	[ "$tool" = auxcap ] || return
	"$auxdecode" info "$out/$name.data" >"$log" 2>&1
	that "$name: the books balance" "$log" grep -q '^verdict: no loss recorded' "$log"
	[ "$mode:$case" != running:attached ] || named "$name"
	[ "$case" != paused ] || parts "$name"
	[ "$mode" != when ] || slowest "$name"
	[ "$mode" != turns ] || turned "$name"
	[ "$mode" != cooled ] || cooled "$name"
	[ "$mode" != crash ] || crashed "$name" "${case#crash_}"
	[ "$mode" != sched ] || switched "$name"
	[ "$mode" != window ] || windows "$name"
}

# Each call of the function of the thread that is followed, and nothing else but what the
# kernel made the program run for its probes.
windows() { # NAME
	"$auxdecode" insn -F ip,sym "$out/$1.data" 2>"$err" | grep -v '^#' >"$log"
	is "$(awk '!/^7fffffffe/ { sub(/\+.*/, "", $2); print $2 }' "$log" | sort -u | xargs)" "shop::till::ring(unsigned" "$1: nothing but the function"
}

# moments NAME: PID TID CPU TIME TOOK LABEL
moments() { "$auxdecode" dump "$out/$1.data" 2>"$err" | sed -n 's/.* auxkit-moment \([0-9]*\)\/\([0-9]*\) cpu \([0-9]*\) time \([0-9]*\) took \([0-9]*\) label "\(.*\)"$/\1 \2 \3 \4 \5 \6/p'; }

# A call, its return, a system call, a signal, a thousand times; each with its snapshot.
turned() { # NAME
	moments "$1" >"$log"
	is "$(sed -n 's/^\([0-9]*\) \1 \([0-9]*\) \([0-9]*\)\([0-9]\{9\}\) [0-9]* \(.*\): \1\/\1 on cpu \2 at \3\.\4\(, took [0-9.]* us\)\?$/\5\6/p' "$log" |
		sed 's/took .*/took/' | paste -d'|' - - - - | sort | uniq -c)" \
		"   1000 shop::till::ring|shop::till::ring > 1ns, took|raw_syscalls:sys_enter/id == 62/|signal=USR1" \
		"$1: a thousand times four triggers, in this order, each with who, where and when"
	is "$(awk '{ print $1 }' "$log" | sort -u | wc -l) $(awk '$4 < t { n++ } { t = $4 } END { print n + 0 }' "$log")" \
		"1 0" "$1: of one process, in the order of their times"
	is "$("$auxdecode" info "$out/$1.data" 2>"$err" | grep -c ' s when "')" 4000 "$1: a snapshot for each"
}

cooled() { # NAME
	moments "$1" >"$log"
	that "$1: none came sooner: $(wc -l <"$log") of 1,000" "$log" \
		awk 't && $4 - t < 20000000 { bad = 1 } { t = $4 } END { exit bad || NR < 2 || NR > 999 }' "$log"
	that "$1: all are counted" "$out/$1.log" grep -q -- '--when: 1000 times' "$out/$1.log"
}

# What ended it, and where; with the core file what gdb says of that, and of a live run
# in the same kernel.
crashed() { # NAME WAY
	local sig place=".* by_$2+0x"
	case $2 in
	abort | assert) sig=SIGABRT ;;
	ill) sig=SIGILL ;;
	*) sig=SIGSEGV ;;
	esac
	case $2 in
	assert) place='.* in_thread+0x' ;;
	call) place='0x000000000000 ' ;;
	smash) place='0x000041411234 ' ;;
	esac
	"$auxdecode" crash "$out/$1.data" >"$log" 2>"$err"
	that "$1: $(head -n 1 "$log")" "$log" grep -q "^crashes/[0-9]* was ended by $sig" "$log"
	that "$1: where, by what ran" "$log" grep -q "^  #[0-9]* *$place" "$log"
	[ "$2" != smash ] || that "$1: that the return address was overwritten" "$log" grep -q 'the return address was overwritten' "$log"
	[ -e "$out/$1.live" ] || { skip "no gdb (tools/deps install test)"; return; }
	that "$1: $(sed -n 's/^compared //p' "$out/$1.live"), as gdb sees them live" "$out/$1.live" \
		grep -q '^gdb: status 0' "$out/$1.live"
	CRASH_JSON=$out/$1.json timeout 120 gdb -nx -q -batch -x tests/crash_gdb.py "$programs/crashes" \
		"$out/$1.core" >"$log" 2>&1
	ok $? "$1: $(sed -n 's/^compared //p' "$log"), as gdb reads them from the core file" "$log"
}

# The one call of 10,000 that takes long is in its snapshot, with all its instructions and as
# long as the probes say; and what the kernel did for the probes is in no call's way.
slowest() { # NAME
	local took
	took=$("$auxdecode" dump "$out/$1.data" 2>"$err" |
		sed -n 's/.* auxkit-moment .* took \([0-9]*\) label "serve > 200ms: .*/\1/p' | sort -n | tail -n 1)
	"$auxdecode" find serve --longer 200ms -F dur,insns "$out/$1.data" 2>"$err" | grep -v '^#' | sort -n | tail -n 1 >"$log"
	that "$1: the slow call is in it, whole: $(cat "$log"), $took ns by the probes" "$log" \
		awk -v t="${took:-0}" '{ d = $1 - t; if (d < 0) d = -d; exit !($2 > 900000 && d < t / 100) }' "$log"
	that "$1: no gap" "$err" [ "$("$auxdecode" count "$out/$1.data" 2>&1 | sed -n 's/^total .* gaps \([0-9]*\)$/\1/p')" = 0 ]
	"$auxdecode" calls "$out/$1.data" 2>"$err" >"$log"
	# The snapshot itself leaves a hole, which each frame may have ended in.
	that "$1: each call ends where it returns" "$log" test "$(grep -c guessed "$log")" -lt 20
	is "$(grep -c uprobes "$log")" 0 "$1: and nothing of the kernel's page is one"
}

# What perf says of the kernel's switches, the program of its calls, and all commands of
# each other.
switched() { # NAME
	local n fn
	mkdir -p "$SCRATCH/amounts"
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/amounts.py "$auxdecode" "$out/$1.data" "$SCRATCH/amounts" >"$log" 2>&1
	ok $? "$1: all commands agree on each function" "$log"
	perf sched timehist --state -i "$out/$1.sched" >"$SCRATCH/timehist" 2>"$err"
	PYTHONDONTWRITEBYTECODE=1 tests/off_cpu.py "$SCRATCH/timehist" "$SCRATCH/amounts/db" waits >"$log" 2>&1
	ok $? "$1: off the CPU when perf sched timehist says so: $(tail -n 1 "$log")" "$log"
	while read -r fn n; do
		is "$("$auxdecode" find -F sym --symbol "$fn" "$out/$1.data" 2>"$err" | grep -vc '^#')" "$n" \
			"$1: $n calls of $fn, as it counted itself" || cat "$err"
	done < <(grep -v '^total' "$out/$1.out")
}

# Only what is between a resume and a pause.
parts() { # NAME
	"$auxdecode" calls "$out/$1.data" 2>"$err" >"$log"
	is "$(grep -oE '(inside|outside)\(\)' "$log" | sort | uniq -c | sed 's/^ *//')" \
		"3 inside()" "$1: from each resume to its pause"
}

# Each piece of generated code has the name that the program gave it in the guest,
# whenever that was, and each call of it is there; so is the object loaded twice.
named() { # NAME
	"$auxdecode" calls "$out/$1.data" 2>"$err" >"$log"
	is "$(grep -oE '(attached|dlobj)_[a-z]+\(\)' "$log" | sort | uniq -c | sed 's/^ *//')" \
		"4 attached_apart()
4 attached_beside()
6 attached_first()
6 dlobj_work()" "$1: its generated code by name, each call"
}

for c in "${cases[@]}"; do
	judge "$c"
done

### replayed streams

packets() { "$auxdecode" raw "$@" 2>"$err" | grep -v '^#'; }
flow() { "$auxdecode" insn -F ip "$1" 2>"$err" | grep -v '^#'; }

replayed() { # STREAM NAME [OPTION...]
	local stream=$1 name=$2 n
	shift 2
	n=$(stat -c %s "$out/$stream.stream")
	is "$(cat "$out/$name.status" 2>/dev/null)" 0 "$name: recorded"
	is "$(awk '/\.stored/ { s += $2 } END { print s }' "$out/$name.stat")" "$n" \
		"$name: $n bytes through the AUX area"
	packets "$SCRATCH/$stream.data" >"$SCRATCH/want"
	packets "$@" "$out/$name.data" >"$SCRATCH/got"
	cmp "$SCRATCH/want" "$SCRATCH/got" >"$log" 2>&1 && [ -s "$SCRATCH/want" ]
	ok $? "$name: $(wc -l <"$SCRATCH/got") packets, each as in its source" "$log"
}

replayed untimed replay-thread
replayed timed replay-cpu --cpu 1
# The guest ran the same program, so its maps serve the flow, too.
flow "$SCRATCH/untimed.data" >"$SCRATCH/want"
flow "$out/replay-thread.data" >"$SCRATCH/got"
cmp "$SCRATCH/want" "$SCRATCH/got" >"$log" 2>&1 && [ -s "$SCRATCH/want" ]
ok $? "replay-thread: $(wc -l <"$SCRATCH/got") instructions, the flow of its source" "$log"
# Of kernel code, too, a page has the names.
read -ra names <"$out/kernel.names"
that "replay-kernel: functions to be named: ${names[*]}" - test ${#names[@]} -ge 4
"$auxdecode" report -o "$SCRATCH/page" "$out/replay-kernel.data" >"$log" 2>&1
is $? 0 "replay-kernel: a page of it" || cat "$log"
python3 tests/report_page.py "$SCRATCH/page" "${names[@]}" >"$log" 2>&1
is "$(awk '$2 > 0 { print $1 }' "$log" | xargs)" "${names[*]}" "replay-kernel: each function has its name there"
is "$("$auxdecode" hot "$out/replay-kernel.data" 2>/dev/null | awk '!/^#/ { print $NF }' | sort -u)" "[kernel.kallsyms]" \
	"replay-kernel: of the kernel"
finish
