#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# auxdecode profile: counts against every instruction and branch that insn and
# branch show, and each format against a program that reads it: gcc and clang
# build with theirs, create_gcov makes its own of the same branches, perf2bolt and
# llvm-bolt, perf script beside perf inject.
. "$(dirname "$0")/lib.sh"
need_soft

dir=$SCRATCH/profile
mkdir -p "$dir"
bolt=$(find /usr/lib/llvm-*/bin/perf2bolt 2>/dev/null | sort -V | tail -n 1)
bolt=$(dirname "${bolt:-/usr/lib/llvm-16/bin/x}")

for tool in gcc-12:gcc-12 clang:clang llvm-profdata:llvm create_gcov:autofdo \
	dump_gcov:autofdo $bolt/perf2bolt:bolt $bolt/llvm-bolt:bolt perf:linux-perf; do
	have "${tool%%:*}" || { ok 1 "${tool%%:*} is there (Debian's ${tool##*:})"; finish; }
done

cat >"$dir/p.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
static int add(int a, int b) { return a + b; }
static int sub(int a, int b) { return a - b; }
static int mul(int a, int b) { return a * b; }
static int (*const ops[3])(int, int) = { add, sub, mul };
static inline int clamp(int v)
{
	if (v > 1000)
		return v % 1000;
	if (v < 0)
		return -v;
	return v;
}
__attribute__((noinline)) int work(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++) {
		if (i % 17 == 0)
			sum += ops[0](sum, i);
		else if (i % 5 == 0)
			sum = ops[i % 3](sum, i);
		else
			sum ^= i;
		sum = clamp(sum);
	}
	return sum;
}
int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 300, sum = 0;

	for (int i = 0; i < 10; i++)
		sum += work(n);
	printf("%d\n", sum);
	return 0;
}
END

# make_program NAME COMPILER OPTION...: compiled and recorded.
make_program() {
	local name=$1
	shift
	"$@" -o "$dir/$name" "$dir/p.c" 2>"$dir/$name.log" &&
		"$auxcap" -q -e soft_pt/psb_period=0/u -o "$dir/$name.data" -- "$dir/$name" \
			>"$dir/$name.out" 2>>"$dir/$name.log"
	that "$name is compiled and recorded" "$dir/$name.log" [ -s "$dir/$name.data" ]
}

profile() { # FORMAT NAME [OPTION...]
	local format=$1 name=$2
	shift 2
	rm -f "$dir/$name.$format"
	"$auxdecode" profile --to "$format" "$@" -o "$dir/$name.$format" "$dir/$name.data" \
		2>"$dir/$name.$format.err"
}

check() { # TEXT COMMAND-OF-profile_formats ARG...
	local text=$1
	shift
	python3 tests/profile_formats.py "$@" >"$dir/check" 2>&1
	ok $? "$text: $(tail -n 1 "$dir/check")" "$dir/check"
}

# exact NAME: the list of the recording is what ran.
exact() {
	local data=$dir/$1.data
	profile list "$1"
	is $? 0 "$1: a list"
	"$auxdecode" insn -F ip "$data" >"$dir/insn" 2>/dev/null
	"$auxdecode" branch -F kind,from,to "$data" >"$dir/branch" 2>/dev/null
	perf script --itrace=i0nse --show-mmap-events -i "$data" 2>/dev/null |
		grep MMAP | sed 's/ @ 0 </ @ 0 0 </' >"$dir/maps"
	python3 tests/profile_truth.py "$dir/$1.list" "$dir/insn" "$dir/branch" "$dir/maps" \
		>"$dir/check" 2>&1
	ok $? "$1: each address and branch as often as it ran: $(tail -n 1 "$dir/check")" "$dir/check"
	is "$(awk '/^range/ { n += $5 * $6 } END { print n }' "$dir/$1.list")" \
		"$("$auxdecode" count "$data" 2>/dev/null | awk '/^total/ { print $3 }')" \
		"$1: the instructions that count counts"
}

# ---- the list ----

make_program gcc gcc-12 -gdwarf-4 -O2 -no-pie
make_program pie gcc-12 -g -O2 -Wl,-q
make_program clang clang -O2 -gline-tables-only -fdebug-info-for-profiling
exact gcc
exact pie
for name in threads throw; do
	args=
	[ $name = threads ] && args='3 5'
	# shellcheck disable=SC2086
	"$auxcap" -q -e soft_pt/psb_period=0/u -o "$dir/$name.data" -- \
		"$programs/$name" $args >"$dir/$name.out" 2>&1
	exact $name
done
for j in 1 2; do
	"$auxdecode" profile -j $j --chunk-size 1 "$dir/threads.data" >"$dir/j$j" 2>/dev/null
	that "threads: the same with -j $j in small chunks" - cmp -s "$dir/j$j" "$dir/threads.list"
done

"$auxdecode" merge "$dir/pie.list" "$dir/gcc.list" "$dir/pie.list" -o "$dir/sum" 2>"$dir/err"
is $? 0 "lists are merged"
"$auxdecode" merge "$dir/gcc.list" "$dir/sum" -o "$dir/sum2" 2>>"$dir/err"
sums() { awk '/^branch/ { b += $7 } /^range/ { n += $5 * $6 } END { print b, n }' "$@"; }
is "$(sums "$dir/sum2")" "$(sums "$dir/pie.list" "$dir/pie.list" "$dir/gcc.list" "$dir/gcc.list")" \
	"and sums add up"
is "$(grep -c ^module "$dir/sum")" "$(cat "$dir/pie.list" "$dir/gcc.list" | sed -n 's/^module [0-9]* //p' |
	sort -u | wc -l)" "each file once"
sed 's/^range 0/range 99/' "$dir/pie.list" >"$dir/bad"
"$auxdecode" merge "$dir/pie.list" "$dir/bad" -o "$dir/sum3" 2>"$dir/err"
is $? 1 "a bad list is refused"
that "and the line named" "$dir/err" grep -q 'bad@0x.*line [0-9]* is not one' "$dir/err"
that "nothing is written" - [ ! -e "$dir/sum3" ]
head -c 5000 "$dir/pie.list" >"$dir/bad"
"$auxdecode" merge "$dir/bad" "$dir/pie.list" -o "$dir/sum3" 2>"$dir/err"
that "a cut one, too" "$dir/err" grep -q 'is cut' "$dir/err"

for format in autofdo gcov bolt; do
	profile $format pie
	"$auxdecode" profile --to $format "$dir/pie.list" -o "$dir/from-list" 2>"$dir/err"
	is $? 0 "$format of a list"
	that "as of the recording" "$dir/err" cmp "$dir/pie.$format" "$dir/from-list"
done
"$auxdecode" merge "$dir/pie.list" "$dir/pie.list" -o "$dir/twice" 2>"$dir/err"
"$auxdecode" profile --to bolt "$dir/twice" 2>"$dir/err" | awk '{ print $1, $2, $3, $4 / 2 }' >"$dir/half"
that "of two lists, twice as much" "$dir/err" \
	cmp -s "$dir/half" <(awk '{ print $1, $2, $3, $4 }' "$dir/pie.bolt")
"$auxdecode" profile --to perf "$dir/twice" -o "$dir/x" 2>"$dir/err"
is $? 2 "but no samples"

# ---- AutoFDO ----

profile gcov gcc
is $? 0 "a profile for gcc"
that "says what it left out" "$dir/gcc.gcov.err" grep -q 'left out.*libc.so.6' "$dir/gcc.gcov.err"
profile autofdo gcc
# both without the program's libraries, so that offsets are of module 0
"$auxdecode" profile --module gcc "$dir/gcc.data" 2>/dev/null >"$dir/own"
python3 tests/profile_formats.py text "$dir/own" >"$dir/text"
create_gcov -profiler text -profile "$dir/text" -binary "$dir/gcc" -gcov "$dir/google.gcov" \
	-gcov_version 1 >"$dir/log" 2>&1
dump_gcov -gcov_version 1 "$dir/google.gcov" >"$dir/google" 2>>"$dir/log"
that "create_gcov makes one of the same branches" "$dir/log" [ -s "$dir/google" ]
check "for gcc as create_gcov has it" lines "$dir/gcc.gcov" "$dir/google"
check "as text, too" lines "$dir/gcc.autofdo" "$dir/google"
check "functions are entered as often in both" heads "$dir/gcc.gcov" "$dir/gcc.autofdo"
check "totals are sums" totals "$dir/gcc.autofdo"

profile gcov pie
(cd "$dir" && gcc-12 -g -O2 -fauto-profile=pie.gcov -fdump-ipa-afdo-all -S \
	-o with.s p.c && gcc-12 -g -O2 -S -o without.s p.c) >"$dir/log" 2>&1
that "gcc builds with it, without a word" "$dir/log" [ ! -s "$dir/log" ]
that "knows how often main's loop ran" "$dir/log" \
	grep -q 'count 10 (auto FDO)' "$dir"/with.*.afdo
that "and what was called through pointers" - \
	grep -q 'hist->count [0-9]* hist->all 560' "$dir"/with.*.afdo
that "the code is other code" - not cmp -s <(grep -v '^\s*\.' "$dir/with.s") \
	<(grep -v '^\s*\.' "$dir/without.s")
(cd "$dir" && gcc-12 -g -O2 -fauto-profile=pie.gcov -o with p.c 2>"$dir/log")
is "$("$dir/with")" "$(cat "$dir/pie.out")" "which does the same"

profile autofdo clang
is $? 0 "a profile for clang"
llvm-profdata merge --sample -text "$dir/clang.autofdo" -o "$dir/clang.again" 2>"$dir/log"
is $? 0 "llvm-profdata reads it"
check "and has the same lines" lines "$dir/clang.autofdo" "$dir/clang.again"
clang -O2 -gline-tables-only -fprofile-sample-use="$dir/clang.autofdo" -S -emit-llvm \
	-o "$dir/with.ll" "$dir/p.c" 2>"$dir/log"
that "clang builds with it, without a word" "$dir/log" [ ! -s "$dir/log" ]
# LLVM adds 1
that "and knows that work was entered 10 times" "$dir/with.ll" \
	grep -q 'function_entry_count", i64 11}' "$dir/with.ll"
# as it is read: later passes of clang 18 and newer give a rotated loop other weights
clang -O2 -gline-tables-only -fprofile-sample-use="$dir/clang.autofdo" -mllvm -print-after=sample-profile \
	-S -o /dev/null "$dir/p.c" 2>"$dir/read.ll"
that "and its loop went round 3000 times" - \
	grep -q '"branch_weights", i32 3001, i32' "$dir/read.ll"

# ---- BOLT ----

profile bolt pie
is $? 0 "branches for BOLT"
$bolt/perf2bolt -pa -p "$dir/pie.bolt" -o "$dir/pie.fdata" "$dir/pie" >"$dir/log" 2>&1
is $? 0 "perf2bolt reads them"
that "all are of the program" "$dir/log" grep -q 'unknown regions: 0 (' "$dir/log"
nm "$dir/pie" >"$dir/nm"
# without its libraries: no other return has such an address
"$auxdecode" profile --module pie "$dir/pie.data" 2>/dev/null >"$dir/pie.own"
check "and counts the same branches" fdata "$dir/pie.fdata" "$dir/pie.bolt" "$dir/nm" "$dir/pie.own"
$bolt/llvm-bolt "$dir/pie" -o "$dir/bolted" -pa -p "$dir/pie.bolt" -reorder-blocks=ext-tsp \
	-dyno-stats >"$dir/log" 2>&1
is "$("$dir/bolted" 2>&1)" "$(cat "$dir/pie.out")" "llvm-bolt makes a program that does the same"
ran=$(awk '/^module/ && $5 ~ /\/pie$/ { m = $2 } /^range/ && $2 == m { n += $5 * $6 } END { print n }' \
	"$dir/pie.list")
# its own sum leaves out what it cannot optimize: PLT, start files
says=$(awk '/: executed instructions/ { print $1; exit }' "$dir/log")
that "and says that $says instructions ran, of $ran" "$dir/log" \
	[ $((ran - says)) -ge 0 -a $((ran - says)) -lt 100 ]

# ---- perf.data ----

for name in pie threads; do
	profile perf $name --period 1000
	is $? 0 "$name: samples with branches"
	perf script -F ip,brstack -i "$dir/$name.perf" >"$dir/ours" 2>"$dir/log"
	perf inject --itrace=i1000il --strip -i "$dir/$name.data" -o "$dir/inject.data" 2>>"$dir/log"
	perf script -F ip,brstack -i "$dir/inject.data" >"$dir/theirs" 2>>"$dir/log"
	[ $name = pie ] && check "$name: those that perf inject makes" brstack "$dir/ours" "$dir/theirs"
	is "$(wc -l <"$dir/ours")" "$(grep -c . "$dir/theirs")" "$name: as many"
done
perf report --stdio -i "$dir/pie.perf" >"$dir/report" 2>"$dir/log"
that "perf report shows branches between functions" "$dir/report" \
	grep -q 'work  *\[\.\] add' "$dir/report"
profile perf pie --period 500
$bolt/perf2bolt -p "$dir/pie.perf" -o "$dir/lbr.fdata" "$dir/pie" >"$dir/log" 2>&1
that "perf2bolt reads it as it reads perf record -b" "$dir/log" grep -q ' work ' "$dir/lbr.fdata"
that "no trace disagrees with the code" "$dir/log" grep -q 'function contents: 0 (' "$dir/log"
"$auxdecode" profile --to perf "$dir/pie.data" >/dev/null 2>"$dir/err"
is $? 2 "it wants -o"
sum=$(sha256sum <"$dir/pie.data")
"$auxdecode" profile --to perf -o "$dir/pie.data" "$dir/pie.data" 2>"$dir/err"
is "$(sha256sum <"$dir/pie.data")" "$sum" "and never writes over its input"

# ---- gaps, filters, another architecture ----

python3 - "$dir/pie.data" "$dir/gap.data" <<'END'
import sys
data = bytearray(open(sys.argv[1], 'rb').read())
at = len(data) * 6 // 10
data[at:at + 40] = b'\xff' * 40
open(sys.argv[2], 'wb').write(data)
END
profile list gap
is $? 3 "trace that is damaged: status 3"
that "the list says so" "$dir/gap.list" grep -q '^gaps 1$' "$dir/gap.list"
is "$(awk '/^range/ { n += $5 * $6 } END { print n }' "$dir/gap.list")" \
	"$("$auxdecode" count "$dir/gap.data" 2>/dev/null | awk '/^total/ { print $3 }')" \
	"and has all that is left"
profile autofdo gap --module "$dir/pie"
that "so does AutoFDO's text" "$dir/gap.autofdo" grep -q '^# gaps 1:' "$dir/gap.autofdo"
llvm-profdata merge --sample "$dir/gap.autofdo" -o "$dir/x" 2>"$dir/log"
is $? 0 "which is read all the same"
profile perf gap --period 1000
perf script -i "$dir/gap.perf" >"$dir/log" 2>&1
that "perf shows where" "$dir/log" grep -q 'instruction trace error type 1.*flow is missing' "$dir/log"

tid=$("$auxdecode" count "$dir/threads.data" 2>/dev/null | awk '/^thread/ { t = $2 } END { print t }')
profile list threads --tid "$tid"
is "$(awk '/^range/ { n += $5 * $6 } END { print n }' "$dir/threads.list")" \
	"$("$auxdecode" count --tid "$tid" "$dir/threads.data" 2>/dev/null | awk '/^total/ { print $3 }')" \
	"--tid: what that thread ran"
is "$("$auxdecode" profile -n 7 "$dir/pie.data" 2>/dev/null | grep -c '^[br]')" 7 "-n 7: so many lines"
is "$("$auxdecode" profile --to autofdo -n 2 "$dir/pie.data" 2>/dev/null | grep -c '^[a-z]')" 2 \
	"so many functions"

if [ -z "$(no_emulation)" ]; then
	aarch64-linux-gnu-gcc-12 -g -O2 -static -o "$dir/a64" "$dir/p.c" 2>"$dir/log" &&
		"$auxcap" -q -e soft_etm//u -o "$dir/a64.data" -- "$dir/a64" >>"$dir/log" 2>&1
	profile autofdo a64
	is $? 0 "A64: a profile"
	that "work was entered 10 times, its loop went round 3000 times" "$dir/a64.autofdo" \
		awk '!/^ / { w = /^work:[0-9]*:10$/ } w && $0 == " 5: 3000" { ok = 1 } END { exit !ok }' \
		"$dir/a64.autofdo"
	is "$("$auxdecode" profile "$dir/a64.data" 2>/dev/null | awk '/^range/ { n += $5 * $6 } END { print n }')" \
		"$("$auxdecode" count "$dir/a64.data" 2>/dev/null | awk '/^total/ { print $3 }')" \
		"the instructions that count counts"
else
	skip "$(no_emulation)" "A64: a profile"
fi

for f in wrapped/coresight-fib-trace1 wrapped/libxdc-foo wrapped/coresight-r5-freertos; do
	if [ ! -e "$corpus/$f.perf.data" ]; then
		skip "corpus: $f.perf.data is not there" "$f"
		continue
	fi
	is "$("$auxdecode" profile --symfs "$corpus" "$corpus/$f.perf.data" 2>/dev/null |
		awk '/^range/ { n += $5 * $6 } END { print n }')" \
		"$("$auxdecode" count --symfs "$corpus" "$corpus/$f.perf.data" 2>/dev/null |
		awk '/^total/ { print $3 }')" "$f, of hardware: the instructions that count counts"
done

# ---- nothing to show ----

strip -o "$dir/bare" "$dir/pie"
"$auxcap" -q -e soft_pt//u -o "$dir/bare.data" -- "$dir/bare" >/dev/null 2>&1
profile autofdo bare -v
is $? 1 "without debug information there is no profile"
that "the table says where all went" "$dir/bare.autofdo.err" \
	grep -Eq '^ *without a source line *[1-9]' "$dir/bare.autofdo.err"
that "and what to do" "$dir/bare.autofdo.err" grep -q 'compile it with -g' "$dir/bare.autofdo.err"
profile autofdo pie --module nosuch.so
is $? 1 "nor of a file that did not run"
that "which is said" "$dir/pie.autofdo.err" grep -q 'nothing of nosuch.so ran' "$dir/pie.autofdo.err"
profile nosuch pie
is $? 2 "a format that there is not"
that "is told which there are" "$dir/pie.nosuch.err" grep -q 'list, autofdo, gcov' "$dir/pie.nosuch.err"
finish
