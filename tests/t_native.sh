#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# soft_pt/native: programs that run from copies of their code. Each does what it does
# alone, and its flow is what ran; one that does the same each time ran what it runs
# one step at a time, address by address. (The truth is made from the same records as
# the trace: only the comparisons with step and with a bare run are independent of it.)
# t_hostile.sh has the programs that would rather not be recorded.
#
#	tests/t_native.sh CASE...	only these
#	REPEAT=20			as often for those with threads and signals
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/n.data truth=$SCRATCH/n.truth log=$SCRATCH/n.log
pick=" $* "
wanted() { [ "$pick" = "  " ] || [[ $pick == *" $1 "* ]]; }

# native NAME COMMAND...: as alone, and the flow is the truth
native() {
	local text=$1 rc want bare
	shift
	timeout 100 "$@" </dev/null >"$SCRATCH/bare" 2>"$SCRATCH/bare.err"
	bare=$?
	rm -f "$data" "$truth"
	timeout -k 5 300 "$auxcap" --exit-status -e soft_pt/native/u -o "$data" --truth "$truth" \
		-- "$@" </dev/null >"$SCRATCH/out" 2>"$log"
	rc=$?
	want=$bare
	is "$rc" "$want" "$text: the status that it has alone" || sed 's/^/#   /' "$log"
	that "$text: the output that it has alone" - cmp -s "$SCRATCH/bare" "$SCRATCH/out"
	that "$text: nothing is lost" "$log" grep -q 'nothing lost$' "$log"
	matches "$text"
}

# as_step NAME COMMAND...: the instructions that it runs one step at a time. native refuses
# rseq, so neither has it
as_step() {
	local text=$1 b
	shift
	for b in step native; do
		GLIBC_TUNABLES=glibc.pthread.rseq=0 timeout -k 5 500 setarch -R "$auxcap" -q -e "soft_pt/$b/u" -o "$SCRATCH/$b.data" -- \
			env -i GLIBC_TUNABLES=glibc.pthread.rseq=0 "$@" </dev/null >/dev/null 2>"$log" ||
			ok 1 "$text: $b" "$log"
		"$auxdecode" insn -F comm,ip,insn "$SCRATCH/$b.data" 2>"$SCRATCH/err" |
			grep -v '^#' >"$SCRATCH/$b.list"
	done
	that "$text: something ran" "$SCRATCH/err" test -s "$SCRATCH/step.list"
	diff "$SCRATCH/step.list" "$SCRATCH/native.list" >"$SCRATCH/diff"
	ok $? "$text: the same $(wc -l <"$SCRATCH/step.list") instructions as with step" "$SCRATCH/diff"
}

case_native() {
	case $1 in
	feature_timer) native "$1" "$programs/feature" timer ;;
	pipeline) native "$1" /bin/sh -c 'ls / | sort -r | head -3 | wc -l' ;;
	many) native "$1" /bin/sh -c 'for i in 1 2 3 4 5 6 7 8; do /bin/true & done; wait; exit 7' ;;
	compile)
		echo 'int f(int x) { return x * 3 + 1; }' >"$SCRATCH/f.c"
		native "$1" gcc -c -O2 -o "$SCRATCH/f.o" "$SCRATCH/f.c" ;;
	perl) native "$1" perl -e 'my %h; $h{$_ % 97} .= chr(65 + $_ % 26) for 1 .. 3000;
		print join(",", map { length $h{$_} } sort { $a <=> $b } keys %h), "\n"' ;;
	python) native "$1" /usr/bin/python3 -c 'import json, re
print(len(json.dumps({w: i for i, w in enumerate(re.findall(".", "auxkit" * 50))})))' ;;
	xz)
		seq 20000 >"$SCRATCH/seq"
		native "$1" xz -T2 --block-size=20000 -c "$SCRATCH/seq" ;;
	sent) native "$1" "$programs/registers" 100 ;;
	signalled) native "$1" /bin/sh -c 'kill -SEGV $$' ;;
	*) native "$1" "$programs/$1" ;;
	esac
}

needs() {
	case $1 in
	compile) echo gcc ;;
	perl | xz) echo "$1" ;;
	python) echo /usr/bin/python3 ;;
	*) echo sh ;;
	esac
}

for c in hello_asm hello_static threads feature jit forkexec vdso vsyscall dlopen throw sorts \
	stack_fiber stack_signal stack_throw pingpong pipeline many compile perl python xz signalled sent; do
	wanted "$c" || continue
	if have "$(needs "$c")"; then
		case_native "$c"
	else
		skip "no $(needs "$c") (tools/deps install run)" "$c"
	fi
done

for c in hello_asm hello_static; do
	wanted "$c" && as_step "$c" "$programs/$c"
done

# the time of each call, by CYC packets, is that of its instructions
if wanted timed; then
	for how in native step; do
		"$auxcap" -q -e "soft_pt/$how,cyc,mtc=0/u" -o "$SCRATCH/timed" -- "$programs/sorts" 3 >"$SCRATCH/out" 2>&1 </dev/null
		# all of its own but those that make system calls
		"$auxdecode" find -F insns,dur,sym --module sorts "$SCRATCH/timed" 2>"$SCRATCH/err" |
			awk '!/^#/ && $3 != "main" && $3 != "_start"' | sort >"$SCRATCH/$how"
	done
	that "timed: calls take what they take when they are stepped" "$SCRATCH/err" cmp -s "$SCRATCH/native" "$SCRATCH/step"
	that "timed: there are many" "$SCRATCH/native" test "$(wc -l <"$SCRATCH/native")" -gt 1000
	that "timed: and of many lengths" "$SCRATCH/native" test "$(cut -d' ' -f2 "$SCRATCH/native" | sort -u | wc -l)" -gt 10
fi

for c in threads feature_timer stack_threads pingpong; do
	wanted "$c" || continue
	for ((i = 0; i < ${REPEAT:-2}; i++)); do
		case_native "$c"
	done
done

### the time that calls take, which the program's threads make without being stopped

wanted waits && {
	"$auxcap" -q -e soft_pt/native/u -o "$data" -- "$programs/waits" >"$SCRATCH/out" 2>"$log"
	# a millisecond, but for how exactly two clocks can be compared
	"$auxdecode" find 'nap(*' --longer 990us "$data" >"$SCRATCH/found" 2>&1
	is "$(grep -vc '^#' "$SCRATCH/found")" "$(sed -n 's/^nap //p' "$SCRATCH/out")" "waits: each nap took its time"
}

# and no clock goes back: where the trace of a CPU says the time, it is later than before
wanted throw && {
	"$auxcap" -q -e soft_pt/native,tsc,mtc,mtc_period=0,psb_period=0/u -o "$data" -- "$programs/throw" \
		>"$SCRATCH/out" 2>"$log"
	# an MTC that comes again while it runs is of a time that was gone back to
	"$auxdecode" raw "$data" | awk '/^# stream/ { last = "" }
		$2 ~ /^tip.pg/ { mtc = "" }
		$2 == "tsc" { n++; if ($3 < last) print last, $3; last = $3 }
		$2 == "mtc" { if ($3 == mtc) print "mtc", $3; mtc = $3 }
		END { if (n < 100) print n + 0 " times" }' >"$SCRATCH/back"
	that "throw: time does not go back" "$SCRATCH/back" test ! -s "$SCRATCH/back"
}

# Nor when a thread that executes a program takes the place of the first one: after the
# end of that. Perf takes the wrong mappings else.
wanted forkexec && {
	for i in 1 2 3 4; do
		"$auxcap" -q -e soft_pt/native/u -o "$data" -- "$programs/forkexec" >"$SCRATCH/out" 2>"$log"
		"$auxdecode" dump "$data" | awk '
			$3 == "EXIT" { end[$7] = $13 }
			$3 == "FORK" && $5 == $7 && $5 == $9 { n++; if ($13 <= end[$7]) print end[$7], $0 }
			END { if (!n) print "none does" }'
	done >"$SCRATCH/back"
	that "forkexec: a thread that takes the place of the first begins after its end" "$SCRATCH/back" \
		test ! -s "$SCRATCH/back"
}

### what is mapped for it is not the program's

wanted mapped && {
	"$auxcap" -q -e soft_pt/native/u -o "$data" -- grep memfd /proc/self/maps >"$SCRATCH/out" 2>"$log"
	is "$(sed 's|.* /memfd:|/memfd:|' "$SCRATCH/out" | sort -u)" "/memfd: (deleted)" "the program sees memory without a name"
	"$auxdecode" dump "$data" >"$SCRATCH/dump" 2>&1
	that "and the recording has none of it" "$SCRATCH/dump" not grep -q memfd "$SCRATCH/dump"
}

### nothing is stepped that need not be: -v counts

# stepped MOST CASE COMMAND...: at most so many instructions are
stepped() {
	local most=$1 text=$2 n
	shift 2
	timeout -k 5 300 "$auxcap" -v -e soft_pt/native/u -o "$data" -- "$@" </dev/null >/dev/null 2>"$log"
	n=$(sed -n 's/.*native: \([0-9]*\) instructions stepped.*/\1/p' "$log")
	that "$text: ${n:-no} instructions are stepped, $most at most" "$log" test "${n:-$((most + 1))}" -le "$most"
}

wanted stepped && {
	stepped 200 "code in writable memory" "$programs/jit"
	stepped 2000 "code that changes itself" "$programs/hostile" selfmod "$SCRATCH"
	stepped 100 "a static program" "$programs/hello_static"
	stepped 3000 "children by vfork" /bin/sh -c \
		'/bin/true; /bin/true; /bin/true; /bin/true; /bin/true; /bin/true; /bin/true; /bin/true; :'
}

### a program that would not have its rights if it were traced is not

# rights BACKEND HOW COMMAND...: of a user who may trace no others
rights() {
	local text="$1, $2"
	setpriv --reuid 54321 --regid 54321 --clear-groups "$place/auxcap" -e "soft_pt/$1/u" -o "$place/out/$1" -- \
		"${@:3}" >"$SCRATCH/out" 2>"$log"
	is "$? $(tr '\n' ' ' <"$SCRATCH/out")" "3 65534 54321 " "$text: a set-user-ID child has its rights" ||
		sed 's/^/#   /' "$log"
	that "$text: it is told" "$log" grep -q "not traced: $place/id (process [0-9]*): set-user-ID" "$log"
}
if wanted rights; then
	place=$(mktemp -d /tmp/auxkit-rights-XXXXXX)
	mkdir -m 777 "$place/out"
	chmod 755 "$place"
	cp "$auxcap" "$(command -v id)" "$place"
	if have setpriv && chown 65534 "$place/id" 2>/dev/null && chmod 4755 "$place/id" &&
			[ "$(setpriv --reuid 54321 --regid 54321 --clear-groups "$place/id" -u 2>/dev/null)" = 65534 ]; then
		by_name=(sh -c "'$place/id' -u; id -u")
		rights native execve "${by_name[@]}"
		rights step execve "${by_name[@]}"
		# shellcheck disable=SC2016
		have /usr/bin/python3 && rights native execveat sh -c '/usr/bin/python3 -c "import os, sys
os.execve(os.open(sys.argv[1], os.O_RDONLY), [\"id\", \"-u\"], os.environ)" "$0"; id -u' "$place/id"
	else
		skip "hardware: this user may not become another one" "a set-user-ID child"
	fi
	rm -rf "$place"
fi

### what it cannot do is told

for more in emulate step; do
	"$auxcap" -e "soft_pt/native,$more/u" -o "$data" -- "$programs/hello_asm" >"$log" 2>&1
	is "$?" 2 "native with $more: refused" || sed 's/^/#   /' "$log"
	that "native with $more: the text says what to do" "$log" \
		grep -q 'exclude each other' "$log"
done

# another kernel, or another CPU; it cannot be loaded before the sanitizers, which want
# to be first
shim=$SCRATCH/ptrace.so
if [ "${SAN:-}" = 1 ]; then
	shim=
else
	"${cc_words[@]}" -shared -fPIC -o "$shim" tests/ptrace.c -ldl 2>"$log"
	ok $? "another kernel: made" "$log"
fi

### PTWRITE, on a CPU that has it

if [ -z "$shim" ]; then
	skip "the sanitizers want to be loaded first" "ptwrite"
elif wanted ptwrite; then
	for b in native step; do
		rm -f "$truth"
		PTWRITE=1 LD_PRELOAD=$shim "$auxcap" --exit-status -e "soft_pt/$b,ptw,fup_on_ptw/u" -o "$data" --truth "$truth" \
			-- "$programs/ptwrite" >"$SCRATCH/out" 2>"$log"
		is "$?:$(cat "$SCRATCH/out")" "0:6666666666666666" "$b: ptwrite" || sed 's/^/#   /' "$log"
		matches "$b: ptwrite"
		"$auxdecode" insn -F ip "$data" 2>"$SCRATCH/err" | sed -n 's/^# ptwrite //p' >"$SCRATCH/values"
		is "$(cut -d' ' -f1 "$SCRATCH/values" | tr '\n' ' ')" \
			"0x1111111111111111 0x100 0x2222222222222222 0x200 0x3333333333333333 0x300 " "$b: ptwrite: its values" ||
			sed 's/^/#   /' "$SCRATCH/err"
	done
fi

### a thread that is not resumed, which is a bug of ours, is let go of and runs on

# stalled WHAT PROGRAM...: the program does what it does alone
stalled() {
	local text=$1 want ends
	want=$("${@:2}" 2>/dev/null </dev/null; echo "$?")
	rm -f "$data" "$truth"
	env "$1" LD_PRELOAD="$shim" timeout -k 5 100 "$auxcap" -e soft_pt//u -o "$data" --truth "$truth" \
		-- "${@:2}" >"$SCRATCH/out" 2>"$log" </dev/null
	is "$?" 3 "$text: status 3" || sed 's/^/#   /' "$log"
	is "$(cat "$SCRATCH/out"
		sed -n 's/.* exited with status \([0-9]*\)$/\1/p' "$log" | grep . || echo 0)" "$want" \
		"$text: the program ends as it does alone"
	that "$text: it is told" "$log" grep -q 'lost: .* (let go of, as one stood still' "$log"
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" | "$truthcmp" --expect-gaps "$truth" >"$SCRATCH/cmp"
	ends=("${PIPESTATUS[@]}")
	is "${ends[*]}" "3 0" "$text: what ran until then is there" || cat "$SCRATCH/cmp"
	that "$text: a gap, and its cause" "$SCRATCH/err" grep -q 'let go of before the end' "$SCRATCH/err"
}
if [ -z "$shim" ]; then
	skip "the sanitizers want to be loaded first" "a thread that is not resumed"
elif wanted stalled; then
	stalled LOSE_CONT=400 "$programs/pingpong" 1000
	stalled LOSE_STEP=20 sh -c 'ls / | wc -l; exit 3'
fi

### it is the first choice; where it cannot be, emulate, else step, which is told


# chosen BACKEND TEXT WORDS...: of soft_pt//u
chosen() {
	local back=$1 text=$2
	shift 2
	env "$@" "$auxcap" -e soft_pt//u -o "$data" -- "$programs/hello_asm" >"$SCRATCH/out" 2>"$log"
	is $? 0 "$text" || sed 's/^/#   /' "$log"
	"$auxdecode" info "$data" >"$SCRATCH/info" 2>&1
	that "$text: $back" "$SCRATCH/info" grep -q "back end $back" "$SCRATCH/info"
}
chosen native "nothing is asked for" PATH="$PATH"
is "$(grep -c . "$log")" 1 "nothing is asked for: nothing is told" || sed 's/^/#   /' "$log"
chosen native "no qemu" PATH="$SCRATCH"
if [ -z "$shim" ]; then
	skip "the sanitizers want to be loaded first" "a kernel that refuses"
else
	chosen step "no code in memory files, no qemu" PATH="$SCRATCH" REFUSE_MEMFD=1 LD_PRELOAD="$shim"
	that "no code in memory files, no qemu: it is told" "$log" \
		grep -q 'memory files may not be run here (Permission denied), so the program was stepped' "$log"
	env PATH="$SCRATCH" REFUSE_PTRACE=1 LD_PRELOAD="$shim" "$auxcap" -e soft_pt//u -o "$data.not" \
		-- "$programs/hello_asm" >"$SCRATCH/out" 2>"$log"
	is "$?:$(cat "$SCRATCH/out")" "1:" "neither ptrace nor qemu: an error before the program starts"
	that "neither ptrace nor qemu: it is told what helps" "$log" grep -q 'ptrace is refused here.*apt install qemu-user' "$log"
	that "neither ptrace nor qemu: there is no file" - test ! -e "$data.not"
	if [ -z "$(no_emulation)" ]; then
		chosen emulate "no ptrace" REFUSE_PTRACE=1 LD_PRELOAD="$shim"
		that "no ptrace: it is told" "$log" grep -q 'ptrace is refused here.*so the program was emulated' "$log"
	else
		skip "$(no_emulation)" "no ptrace"
	fi
fi
PATH=$SCRATCH "$auxcap" -e soft_pt/emulate/u -o "$data" -- "$programs/hello_asm" >"$SCRATCH/out" 2>"$log"
is $? 1 "emulate, where there is no qemu"
that "emulate, where there is no qemu: it is told" "$log" grep -q 'is not installed' "$log"
finish
