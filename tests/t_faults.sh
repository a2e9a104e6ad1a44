#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# One call fails, memory, a write, a mapping or a rename, in every command: the result
# is whole, or there is a message and a status, and what was at -o is still there. A
# sample of the calls; with LONG=1 all of them.
. "$(dirname "$0")/lib.sh"
# what archives call would count as calls of auxdecode
auxdecode=$BUILD/auxdecode-shared

if [ "${SAN:-}" = 1 ]; then
	skip "a preloaded library must not come before the sanitizers"
	finish
fi
o=$SCRATCH/faults
most=${LONG:+0}
most=${most:-5}
mkdir -p "$o"
cc=$(grep -o -m1 'clang' "$BUILD/flags" || echo gcc)
"$cc" -O1 -shared -fPIC -o "$o/fault.so" tests/fault.c -ldl >"$SCRATCH/out" 2>&1
ok $? "the library that fails is built" "$SCRATCH/out"

# a program with names, lines and an inlined function, and without libraries
cat >"$o/p.c" <<'E2'
static int leaf(int x) { return x * 3 + 1; }
static __attribute__((noinline)) int twice(int x) { return leaf(x) + leaf(x + 1); }
__attribute__((noinline)) int work(int n)
{
	int s = 0;
	for (int i = 0; i < n; i++)
		s += i & 1 ? twice(i) : i;
	return s;
}
void _start(void)
{
	int r = 0;
	for (int i = 0; i < 9; i++)
		r += work(i);
	__asm__ volatile("syscall" : : "a"(231), "D"(r & 1) : "memory");
	__builtin_unreachable();
}
E2
gcc -g -O1 -static -nostdlib -o "$o/p" "$o/p.c" >"$SCRATCH/out" 2>&1 &&
	"$auxcap" -e soft_pt/cyc/u -o "$o/p.data" -- "$o/p" >"$SCRATCH/out" 2>&1
grep -q 'nothing lost' "$SCRATCH/out"
ok $? "a program is recorded" "$SCRATCH/out"
d=$o/p.data a=$auxdecode
head -c -200 "$d" >"$o/killed.data"
# in the middle of its records: their place and size are at byte 40
read -r at size < <(od -An -tu8 -j40 -N16 "$d")
head -c $((at + size - 100)) "$d" >"$o/early.data"
printf 'TN:\nSF:/a.c\nDA:1,1\nLF:1\nLH:1\nend_of_record\n' >"$o/in.lcov"
printf 'a;b 2\n' >"$o/in.folded"
{
	"$a" bundle -o "$o/p.bundle" "$d" && "$a" export --to pprof -o "$o/in.pprof" "$d" &&
		"$a" profile -o "$o/in.list" "$d"
} >"$SCRATCH/out" 2>&1
ok $? "inputs are made" "$SCRATCH/out"

other=libipt
[ -z "$(no_libipt)" ] || other=pt
{
	for j in 1 2; do
		for command in insn "insn --source" branch count calls flame "flame --svg -o {o}" \
			hot "hot --blocks" "hot --edges" "annotate work" "latency work" "find work" summary; do
			echo "$a $command -j$j $d"
		done
	done
	# another decoder leaves it to the sinks to find out where instructions end
	for command in branch calls "hot --edges"; do
		echo "$a $command --decoder $other $d"
	done
	# all calls of those that keep files and names of their own
	for command in "profile --to autofdo -o {o}" "profile --to perf --period 10 -o {o}" \
		"coverage --decoder $other --to lcov -o {o}" "export --to callgrind -o {o}" "verify --reference $other" info \
		summary "annotate work"; do
		echo "all $a $command $d"
	done
	echo "all $a raw --pt $o/killed.data"
	for command in "insn -F +comm -o {o}" "report -o {o}" "coverage" "coverage --to lcov -o {o}" \
		"coverage --to drcov -o {o}" "coverage --to afl -o {o}" "coverage --to sancov -o {d}" \
		"profile -o {o}" "profile --to gcov -o {o}" "profile --to bolt -o {o}" \
		"diff $d" raw dump "bundle -o {o}" "cut --cpu 0 -o {o}" "merge -o {o} $d"; do
		echo "$a $command $d"
	done
	for to in perfetto chrome fxt firefox speedscope pprof jsonl sqlite; do
		echo "$a export --to $to -o {o} $d"
	done
	for to in tenet parquet postgres; do
		echo "$a export --to $to -o {d} $d"
	done
	for in in lcov folded pprof list; do
		echo "$a merge -o {o} $o/in.$in $o/in.$in"
	done
	echo "$a repair -o {o} $o/killed.data"
	echo "$a insn $o/p.bundle"
	for command in list "list soft_pt" doctor; do
		echo "all $auxcap $command"
	done
	echo "$auxcap repair {o=$o/early.data}"
	echo "all $auxcap -e soft_pt/step/u -o {o} -- $o/p ;; $a count {o} | grep total"
	if [ -d "$corpus/lldb" ]; then
		find "$corpus/lldb" -name trace.json | sort | head -n 1 | sed "s|^|$a info |"
	fi
} >"$o/commands"
# with tracefs, so that auxcap list has more to fail at; of our own, so that no other
# test changes what list says
with_tracefs() {
	if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
		# shellcheck disable=SC2016
		unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec "$@"' sh "$@"
	else
		"$@"
	fi
}
with_tracefs python3 tests/faults.py "$o/fault.so" "$o" "$most" <"$o/commands" >"$o/results" 2>"$SCRATCH/err"
ok $? "all commands ran" "$SCRATCH/err"
checks_in "$o/results"
finish
