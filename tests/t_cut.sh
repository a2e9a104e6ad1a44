#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# cut, merge and repair of auxdecode: a cut has exactly the instructions of the
# whole inside its range, cuts of a file make up the file again, and what a killed
# recorder left becomes whole.
. "$(dirname "$0")/lib.sh"
need_soft

out=$SCRATCH/cut
mkdir -p "$out"
f=$out/all.data

# Two CPUs, several processes, a PSB every 2 KB.
# shellcheck disable=SC2016
"$auxcap" -q -e soft_pt/psb_period=0/ -o "$f" -- sh -c '
	i=0; while [ $i -lt 40 ]; do i=$((i+1)); done
	"$0/threads" 3 50
	i=0; while [ $i -lt 40 ]; do i=$((i+1)); done
	"$0/forkexec"' "$programs" >/dev/null 2>"$out/log"
that "a recording" "$out/log" [ -s "$f" ]
"$auxdecode" count --sha256 "$f" >"$out/count" 2>"$out/err"
is $? 0 "is complete"
"$auxdecode" insn -F time "$f" 2>/dev/null | grep -v '^#' | tr -d ' .' >"$out/times"
first=$(sed -n 1p "$out/times") last=$(sed -n '$p' "$out/times")

# The same filter, over the cut and over the whole. No stream lines: one that has
# nothing in the range need not be in the cut.
same() { # FILTER...
	"$auxdecode" count --sha256 "$@" "$f" 2>/dev/null | grep -v ^stream >"$out/a"
	"$auxdecode" count --sha256 "$@" "$out/x.data" 2>"$out/err2" | grep -v ^stream >"$out/b"
	[ "${PIPESTATUS[0]}" = 0 ] && cmp -s "$out/a" "$out/b"
}

all=$(stat -c %s "$f")
n=0 n_same=0 n_smaller=0
for i in 0 1 2 3 4 5 6; do
	for j in 1 3 7; do
		[ $((i + j)) -le 7 ] || continue
		a=$((first + (last - first) * i / 7)) b=$((first + (last - first) * (i + j) / 7))
		# a range without an instruction is an error in both
		"$auxdecode" count --time "${a}ns,${b}ns" "$f" >/dev/null 2>&1 || continue
		n=$((n + 1))
		"$auxdecode" cut --time "${a}ns,${b}ns" "$f" -o "$out/x.data" 2>>"$out/cut.err" &&
			same --time "${a}ns,${b}ns" && n_same=$((n_same + 1))
		[ "$(stat -c %s "$out/x.data")" -lt "$all" ] && n_smaller=$((n_smaller + 1))
	done
done
that "ranges of time were cut" - [ "$n" -ge 5 ]
is "$n_same" "$n" "and hold what they should"
that "most are smaller" - [ "$n_smaller" -gt $((n / 2)) ]

n=0 n_same=0 threads=
for tid in $(awk '/^thread/ { print $2 }' "$out/count"); do
	n=$((n + 1))
	"$auxdecode" cut --tid "$tid" "$f" -o "$out/x.data" 2>>"$out/cut.err" &&
		same --tid "$tid" && n_same=$((n_same + 1))
	mv "$out/x.data" "$out/tid.$tid.data"
	threads="$threads $out/tid.$tid.data"
done
that "threads were cut" - [ "$n" -ge 6 ]
is "$n_same" "$n" "and hold what they should"

n=0 n_same=0 cpus=
for cpu in $("$auxdecode" info "$f" 2>/dev/null | sed -n 's/^  [0-9]*: cpu \([0-9]*\),.*/\1/p'); do
	n=$((n + 1))
	"$auxdecode" cut --cpu "$cpu" "$f" -o "$out/x.data" 2>>"$out/cut.err" &&
		same --cpu "$cpu" && n_same=$((n_same + 1))
	mv "$out/x.data" "$out/cpu.$cpu.data"
	cpus="$out/cpu.$cpu.data $cpus"
done
is "$n_same" "$n" "CPUs were cut, and hold what they should"

if have perf; then
	perf script -D --no-itrace -i "$out/cpu.0.data" >/dev/null 2>"$out/err"
	that "perf reads a cut without a word" "$out/err" [ ! -s "$out/err" ]
else
	skip "no perf here"
fi

"$auxdecode" cut "$f" -o "$out/no.data" 2>"$out/err"
is $? 2 "cut wants to know what"
"$auxdecode" cut --tid 1 "$f" -o "$out/no.data" 2>"$out/err"
is $? 1 "a cut of nothing is an error"
that "and no file" - [ ! -e "$out/no.data" ]
"$auxdecode" cut --cpu 0 "$f" -o "$f" 2>"$out/err"
is $? 2 "the input is not overwritten"

# ---- merge ----

merged() { # TEXT FILE...: the whole flow again
	local text=$1
	shift
	# shellcheck disable=SC2086
	"$auxdecode" merge -o "$out/m.data" "$@" >"$out/err" 2>&1
	that "$text: merged" "$out/err" [ -s "$out/m.data" ] || return
	"$auxdecode" count --sha256 "$out/m.data" >"$out/b" 2>"$out/err"
	is $? 0 "$text: without a loss"
	diff "$out/count" "$out/b" >>"$out/err"
	ok $? "$text: the flow is that of the whole" "$out/err"
	"$auxdecode" insn "$f" 2>/dev/null | sha256sum >"$out/a"
	"$auxdecode" insn "$out/m.data" 2>/dev/null | sha256sum >"$out/b"
	that "$text: and so is the text" - cmp -s "$out/a" "$out/b"
}
# shellcheck disable=SC2086
merged "CPUs" $cpus
# shellcheck disable=SC2086
merged "threads" $threads
m=$(((first + last) / 2)) q=$((first + (last - first) / 4))
"$auxdecode" cut --time ",${q}ns" "$f" -o "$out/t1.data" 2>/dev/null
"$auxdecode" cut --time "${q}ns,${m}ns" "$f" -o "$out/t2.data" 2>/dev/null
"$auxdecode" cut --time "${m}ns," "$f" -o "$out/t3.data" 2>/dev/null
merged "parts in time, in any order" "$out/t2.data" "$out/t3.data" "$out/t1.data"
if have perf; then
	perf script -D --no-itrace -i "$out/m.data" >/dev/null 2>"$out/err"
	that "perf reads it without a word" "$out/err" [ ! -s "$out/err" ]
	perf script --itrace=i0ns -F tid,ip -i "$f" 2>/dev/null | sort | sha256sum >"$out/a"
	"$auxdecode" merge -o "$out/m2.data" "$out/cpu.0.data" "$out/cpu.1.data" 2>/dev/null
	perf script --itrace=i0ns -F tid,ip -i "$out/m2.data" 2>/dev/null | sort | sha256sum >"$out/b"
	that "and decodes what it decoded in the whole" - cmp -s "$out/a" "$out/b"
else
	skip "no perf here"
fi

"$auxcap" -q -e soft_pt// -o "$out/other.data" -- "$programs/hello_static" >/dev/null 2>&1
rm -f "$out/m.data"
"$auxdecode" merge -o "$out/m.data" "$f" "$out/other.data" 2>"$out/err"
is $? 1 "two virtual clocks are refused"
that "with the reason" "$out/err" grep -q 'other.data.*virtual clock' "$out/err"
that "and no file" - [ ! -e "$out/m.data" ]
"$auxdecode" merge -o "$out/m.data" "$f" 2>"$out/err"
is $? 2 "one file is no merge"
if [ -d "$corpus/wrapped" ]; then
	"$auxdecode" merge -o "$out/m.data" "$f" "$corpus/wrapped/lldb-single.perf.data" 2>"$out/err"
	is $? 1 "other clocks are refused"
	that "with the reason" "$out/err" grep -q 'clocks differ' "$out/err"
	"$auxdecode" merge -o "$out/m.data" "$corpus/wrapped/lldb-single.perf.data" \
		"$corpus/wrapped/coresight-r5-freertos.perf.data" 2>"$out/err"
	is $? 1 "so are other traces"
else
	skip "corpus: wrapped/ is not there"
fi

# ---- repair ----

size=$(stat -c %s "$f")
n=0 n_same=0 n_once=0
for i in 1 3 5 7 9; do
	k=$out/killed.$i.data
	# what a killed writer leaves: no size of the data, no features, cut anywhere
	head -c $((size * i / 10)) "$f" >"$k"
	dd if=/dev/zero of="$k" bs=1 seek=48 count=8 conv=notrunc 2>/dev/null
	dd if=/dev/zero of="$k" bs=1 seek=72 count=32 conv=notrunc 2>/dev/null
	cp "$k" "$out/theirs.data"
	"$auxcap" repair -q "$out/theirs.data" 2>"$out/err" || continue
	n=$((n + 1))
	"$auxdecode" repair --dry-run "$k" 2>>"$out/err"
	"$auxdecode" repair "$k" 2>>"$out/err"
	"$auxdecode" count --sha256 "$out/theirs.data" >"$out/a" 2>/dev/null
	"$auxdecode" count --sha256 "$k" >"$out/b" 2>/dev/null
	cmp -s "$out/a" "$out/b" && n_same=$((n_same + 1))
	cp "$k" "$out/theirs.data"
	"$auxdecode" repair "$k" 2>"$out/err" && grep -q 'nothing to repair' "$out/err" &&
		cmp -s "$k" "$out/theirs.data" && n_once=$((n_once + 1))
done
that "cut files are repaired" "$out/err" [ "$n" -ge 3 ]
is "$n_same" "$n" "as by auxcap repair"
is "$n_once" "$n" "once"
if have perf; then
	perf script -D --no-itrace -i "$out/killed.9.data" >/dev/null 2>"$out/err"
	that "perf reads the repaired without a word" "$out/err" [ ! -s "$out/err" ]
else
	skip "no perf here"
fi
cp "$f" "$out/whole.data"
"$auxdecode" repair "$out/whole.data" 2>"$out/err"
that "a whole file is left alone" "$out/err" cmp -s "$f" "$out/whole.data"
head -c 20000 "$f" >"$out/bad.data"
dd if=/dev/zero of="$out/bad.data" bs=1 seek=48 count=8 conv=notrunc 2>/dev/null
printf '\7\0\0\0\0\0\3\0' | dd of="$out/bad.data" bs=1 seek=600 conv=notrunc 2>/dev/null
cp "$out/bad.data" "$out/bad.copy"
"$auxcap" repair "$out/bad.copy" 2>/dev/null
theirs=$?
cp "$out/bad.data" "$out/bad.copy"
"$auxdecode" repair "$out/bad.data" 2>"$out/err"
is $? "$theirs" "damage is told from an early end, as by auxcap"
[ "$theirs" = 0 ] || that "and not touched" - cmp -s "$out/bad.data" "$out/bad.copy"
finish
