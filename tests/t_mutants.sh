#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: decoders are held against libipt, which only x86 has
#
# All commands on a few changed recordings, the short form of `make campaign`; and
# that tests/mutants.py sees each kind of fault.
. "$(dirname "$0")/lib.sh"

seed=${MUTANTS_SEED:-23}
inputs=()
for f in fixtures/*.data; do inputs+=("$f=fixtures/symfs"); done

BUILD=$BUILD tests/mutants.py --seed "$seed" -n "${MUTANTS:-4}" --keep "$SCRATCH/found" "${inputs[@]}" >"$SCRATCH/out" 2>&1
ok $? "$(tail -n 1 "$SCRATCH/out"), seed $seed" "$SCRATCH/out"
is "$(sed -n 's/^mutants: .* \([0-9]*\) found$/\1/p' "$SCRATCH/out")" 0 "nothing found"

# A program in the place of auxdecode, with one fault.
mkdir -p "$SCRATCH/bad"
bad() { # TEXT PATTERN NAME COMMAND: what it says of a program that does just this
	printf '#!/bin/sh\nfor a; do case $before in -o) out=$a ;; esac; before=$a; done\n%s\n' "$4" >"$SCRATCH/bad/auxdecode"
	chmod +x "$SCRATCH/bad/auxdecode"
	rm -rf "$SCRATCH/found"
	BUILD=$SCRATCH/bad tests/mutants.py --seed "$seed" --only 3 --cpu-seconds 2 --command "$3" \
		--keep "$SCRATCH/found" "${inputs[@]}" >"$SCRATCH/out" 2>&1
	is $? 1 "$1: status"
	that "$1: seen" "$SCRATCH/out" grep -q "^found: .*$3: .*$2" "$SCRATCH/out"
}
bad "a crash" "killed by signal 11" insn 'kill -SEGV $$'
bad "an endless loop" "2 s of CPU" insn 'while :; do :; done'
bad "a report of UBSan" "sanitizer" count 'echo "x.c:1:2: runtime error: shift" >&2'
bad "another status" "status 7" raw 'echo no >&2; exit 7'
bad "failed without a word" "nothing on standard error" raw 'exit 1'
bad "a control character" "control character" insn 'printf "a\\033[2J\\n"'
bad "one of two bytes" "control character" insn 'printf "a\\302\\233\\n"'
bad "no UTF-8" "no UTF-8" info 'printf "a\\377\\n"'
bad "bad JSON" "json: " "export chrome" 'echo "{" >"$out"'
bad "a bad picture" "xml: " "flame --svg" 'echo "<svg>" >"$out"'
bad "a bad recording" "nothing on standard error" cut 'case $1 in cut) : >"$out" ;; *) exit 1 ;; esac'
cp "$SCRATCH/found/$seed.3" "$SCRATCH/first"
bad "again" "status 7" raw 'echo no >&2; exit 7'
that "the same seed makes the same mutant" - cmp "$SCRATCH/first" "$SCRATCH/found/$seed.3"


printf '#!/bin/sh\nexit 0\n' >"$SCRATCH/bad/auxdecode"
BUILD=$SCRATCH/bad tests/mutants.py --seed "$seed" --only 3 --keep "$SCRATCH/found" "${inputs[@]}" >"$SCRATCH/out" 2>&1
ok $? "nothing is found where nothing is wrong" "$SCRATCH/out"
finish
