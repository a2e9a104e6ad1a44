#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# `auxdecode calls`: sums against count, calls against branch, the tree against its
# rows, options, gaps where they are. What the stacks are is tested in t_stacks.sh.
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/data
out=$SCRATCH/out err=$SCRATCH/err

# rows LIST [OPTION...]
rows() {
	local list=$1
	shift
	"$auxdecode" calls -F "$list" "$@" "$data" 2>"$err" | grep -v '^#' >"$out"
}

record() {
	"$auxcap" -e "soft_pt//u" -o "$data" -- "$programs/$1" >/dev/null 2>"$err"
	ok $? "$1: recorded" "$err"
}

# What frames took on their own is all that ran, of each thread.
sums() {
	"$auxdecode" count "$data" | awk '$1 == "thread" { print $2, $4 }' | sort >"$SCRATCH/want"
	rows tid,own
	awk '{ n[$1] += $2 } END { for (t in n) print t, n[t] }' "$out" | sort >"$SCRATCH/got"
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	ok $? "$1: the calls' own instructions are those of count" "$SCRATCH/diff"
	rows event,tid,id
	awk '$1 == "enter" { n[$3]++ } $1 == "leave" { n[$3] += 2 }
		END { for (i in n) if (n[i] != 3) exit 1 }' "$out"
	ok $? "$1: each call begins once and ends once"
	rows event,tid,stack,depth
	awk '{ k = $2 " " $3 }
		$1 == "enter" && $4 != ++d[k] { exit 1 }
		$1 == "leave" && $4 != d[k]-- { exit 1 }' "$out"
	ok $? "$1: one inside of the other"
}

# Each call instruction that led to the begin of a function is a call of it.
calls_of_branches() {
	"$auxdecode" branch -F kind,from,to,tosym "$data" 2>"$err" |
		awk '($1 == "call" || $1 == "indcall") && $4 ~ /\+0x0$/ && $4 !~ /@plt/ {
			print $2, $3 }' | sort >"$SCRATCH/want"
	rows kind,from,to
	awk '$1 == "call" { print $2, $3 }' "$out" | sort >"$SCRATCH/got"
	comm -23 "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	that "$1: all $(wc -l <"$SCRATCH/want") calls to begins of functions are there" \
		"$SCRATCH/diff" test ! -s "$SCRATCH/diff"
}

for p in threads crash forkexec stack_signal stack_fiber; do
	record "$p"
	sums "$p"
	calls_of_branches "$p"
done

# The tree has what the rows have.
record stack_recurse
sums stack_recurse
"$auxdecode" calls "$data" >"$out" 2>"$err"
n_lines=$(grep -c -v '^#' "$out")
rows insns,depth
leaves=$(wc -l <"$out")
rows event
is "$((2 * leaves))" "$(wc -l <"$out")" 'a row at the begin and one at the end'
that 'the tree: one or two lines for each call' - test "$n_lines" -ge "$leaves" \
	-a "$n_lines" -le $((2 * leaves))
rows sym
main=$(grep -cx main "$out")
is "$main" 1 'main is called once'
rows depth,insns --max-depth 2
is "$(awk '$1 > 2' "$out" | wc -l)" 0 '--max-depth: no deeper ones'
all=$("$auxdecode" count "$data" | awk '/^total/ { print $3 }')
is "$(awk '$1 == 1 { n += $2 } END { print n }' "$out")" "$all" 'and nothing is left out of sums'
rows depth,sym --symbol main
is "$(tail -n 1 "$out")" "$(awk '$2 == "main"' "$out")" '--symbol main: ends with main itself'
that '--symbol main: nothing from around it' "$out" not grep -qE '_start$' "$out"
"$auxdecode" calls -n 7 "$data" 2>"$err" | grep -vc '^#' >"$out"
is "$(cat "$out")" 7 '-n 7: seven lines'
"$auxdecode" calls -F sym --stubs "$data" 2>"$err" >"$out"
that '--stubs: PLT entries are calls' "$out" grep -q '@plt$' "$out"
"$auxdecode" calls -F nonsense "$data" >"$out" 2>"$err"
is $? 2 'an unknown column is a usage error'
that 'and the columns are named' "$err" grep -q 'guessed' "$err"
"$auxdecode" calls --symbol no_such_function "$data" >"$out" 2>"$err"
is $? 1 'nothing to show is an error'
"$auxdecode" calls "$data" 2>"$err" | head -n 1 >"$out"
is "${PIPESTATUS[0]}" 0 'a pipe that closes ends it quietly' || sed 's/^/#   /' "$err"
"$auxdecode" calls --source --inline "$data" >"$out" 2>"$err"
that '--source: files and lines' "$err" grep -q 'stack_recurse\.c:[1-9]' "$out"
"$auxdecode" calls -j1 --chunk-size 3000 "$data" >"$SCRATCH/j1" 2>"$err"
"$auxdecode" calls -j3 --chunk-size 3000 "$data" >"$SCRATCH/j3" 2>"$err"
that 'threads change nothing' - cmp -s "$SCRATCH/j1" "$SCRATCH/j3"

# Branches that were not taken, against the instructions.
"$auxdecode" branch --not-taken -F kind "$data" 2>"$err" | grep -cxE 'not|cond' >"$out"
"$auxdecode" insn -F insn "$data" 2>"$err" | grep -cE '^(j[a-z]+|loop[a-z]*) ' >"$SCRATCH/want"
"$auxdecode" insn -F insn "$data" 2>"$err" | grep -cE '^jmp ' >"$SCRATCH/jmp"
is "$(cat "$out")" "$(($(cat "$SCRATCH/want") - $(cat "$SCRATCH/jmp")))" \
	'--not-taken: with those taken, all conditional branches'

# Gaps stand where they are.
cp "$data" "$SCRATCH/whole"
size=$(stat -c %s "$data")
dd if=/dev/zero of="$data" bs=1 seek=$((size / 2)) count=600 conv=notrunc 2>/dev/null
"$auxdecode" calls "$data" >"$out" 2>"$err"
is $? 3 'a damaged recording: finished, with its loss told'
# where calls repeat themselves nothing else would contradict the rest
that 'the gap stands among the calls, after the last instruction' "$out" \
	grep -q '^# gap aux-zeros at offset 0x[0-9a-f]* after 0x[0-9a-f]*: ' "$out"
"$auxdecode" calls -j1 --chunk-size 3000 "$data" >"$SCRATCH/j1" 2>"$err"
"$auxdecode" calls -j3 --chunk-size 3000 "$data" >"$SCRATCH/j3" 2>"$err"
that 'the same with threads' - cmp -s "$SCRATCH/j1" "$SCRATCH/j3"

# Without names, functions are where the unwind tables say.
shown() {
	"$auxcap" -q -e soft_pt//u -o "$data" -- "$1" >"$out" 2>"$err"
	"$auxdecode" calls "$data" 2>"$err" | sed -n '/ main() {$/,/ } main$/p' >"$out"
	sed -E 's/.* ns +[0-9]+ //; s/^[ 0-9/]+\.[0-9]+//; s/ +/ /g' "$out" | tr -s ' ' | tr -d '\n'
}
is "$(shown "$programs/stripped" | sed 's/+0x[0-9a-f]*/+X/g')" \
	" main() { object_visit() # jumps on [stripped+X]() { # by a jump work() { object_dealloc() # jumps on [stripped+X]() # by a jump } } [stripped+X] } main" \
	'a stripped program: tail calls between its functions'
# And without those tables all of it is one function: that it is on the stack is no reason to
# unwind to it where a named function ends with a jump to another of it.
python3 - "$programs/stripped" "$SCRATCH/tableless" <<'END'
import struct, sys
d = bytearray(open(sys.argv[1], "rb").read())
at, size, n = struct.unpack_from("<Q", d, 32)[0], *struct.unpack_from("<HH", d, 54)
for i in range(n):
    if struct.unpack_from("<I", d, at + i * size)[0] == 0x6474e550:	# PT_GNU_EH_FRAME
        struct.pack_into("<I", d, at + i * size, 0)
open(sys.argv[2], "wb").write(d)
END
chmod +x "$SCRATCH/tableless"
is "$(shown "$SCRATCH/tableless")" \
	" main() { object_visit() # jumps on [tableless]() { # by a jump work() { object_dealloc() # jumps on [tableless]() # by a jump } } [tableless] } main" \
	'the same without unwind tables'
# The calls are those that there are with names: tail calls, parts that are elsewhere, exceptions.
tool=$(realpath "$auxcap")
for p in stack_tail stack_throw stack_throw_some stack_random names cover_more; do
	cp "$programs/$p" "$SCRATCH/full"
	strip -o "$SCRATCH/bare" "$SCRATCH/full"
	for k in full bare; do
		(cd "$SCRATCH" && setarch -R "$tool" -q -e soft_pt//u -o "$k.data" -- "./$k") >"$out" 2>"$err"
	done
	that "$p, stripped: each function as with names" "$out" eval \
		'python3 tests/stripped.py "$auxdecode" "$SCRATCH/full" "$SCRATCH/full.data" "$SCRATCH/bare" "$SCRATCH/bare.data" >"$out"'
done
finish
