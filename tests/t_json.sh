#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --json of the commands that sum up: Python's json parses each, and its numbers are those
# of the text; so are the exit status, the gaps and the commands to go on with.
. "$(dirname "$0")/lib.sh"
need_soft

python=/usr/bin/python3
j=$SCRATCH/json
mkdir -p "$j"

record() { # NAME STATUS EVENT PROGRAM [OPTION...]
	timeout 500 "$auxcap" -e "$3" -o "$j/$1.data" "${@:5}" -- "$programs/$4" >"$j/out" 2>"$j/err" </dev/null
	is $? "$2" "$1 is recorded" || cat "$j/err"
}
record threads 0 soft_pt/tsc,mtc,cyc/u threads
record again 0 soft_pt/tsc,mtc,cyc/u threads
record gaps 3 soft_pt/cyc,psb_period=0/u feature --inject-overflow 1
record lines 0 soft_pt//u cover_flow

# same COMMAND [WORD...]: both outputs, the same status, the same numbers
same() {
	"$auxdecode" "$@" >"$j/text" 2>"$j/err"
	local status=$?
	"$auxdecode" "$1" --json "${@:2}" >"$j/json" 2>"$j/err.json"
	is $? $status "$*: the status with --json"
	cmp "$j/err" "$j/err.json" >"$j/why" 2>&1
	ok $? "$*: the same is said on standard error" "$j/why"
	"$python" tests/json_same.py "$1" "$j/json" "${text:-$j/text}" $status >"$j/why" 2>&1
	ok $? "$*: --json has the numbers of the text" "$j/why"
}
for d in threads gaps; do
	same count "$j/$d.data"
	same count --sha256 "$j/$d.data"
	same hot "$j/$d.data"
	same hot --by time -n 3 "$j/$d.data"
	same hot --blocks "$j/$d.data"
	same hot --edges -n 500 "$j/$d.data"
	same summary "$j/$d.data"
	same info "$j/$d.data"
	[ -n "$(no_libipt)" ] || same verify "$j/$d.data"
	"$auxdecode" find -F time,dur,self,offcpu,untraced,kernel,filtered,lost,pid,tid,insns,cycles,end,state,sym '*m*' "$j/$d.data" \
		>"$j/rows" 2>/dev/null
	text=$j/rows same find '*m*' "$j/$d.data"
done
same latency --by insns odd "$j/gaps.data"
same coverage "$j/lines.data"
same coverage --module none "$j/lines.data"
same diff "$j/threads.data" "$j/again.data"
same diff "$j/threads.data" "$j/threads.data"
same diff --only functions "$j/threads.data" "$j/again.data" 2>/dev/null

value() { "$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$j/json" "$1"; }
"$auxdecode" count --json "$j/gaps.data" >"$j/json" 2>"$j/err"
is "$(value '[(g["cause"], g["n"]) for g in d["verdict"]["gaps"]]')" \
	"[('overflow', $(sed -n 's/^ *\([0-9]*\) overflow .*/\1/p' "$j/err"))]" "the verdict has the gaps of standard error"
is "$(value '[(l["amount"], l["unit"]) for l in d["verdict"]["lost_at_capture"]]')" \
	"[($(sed -n 's/.*lost at capture: \([0-9]*\) overflows.*/\1/p' "$j/err"), 'overflows')]" "and what was lost at capture"

# What is found nowhere is an error, with a reason, in JSON too.
"$auxdecode" latency --json nosuch "$j/threads.data" >"$j/json" 2>"$j/err"
is "$? $(value '(d["status"], d["error"])')" "1 (1, 'nothing to show')" "nothing to show: status and reason"
"$auxdecode" hot --json --by cycles fixtures/hello_emulate.data >"$j/json" 2>"$j/err"
is "$? $(value 'd["status"] == 0 or "error" in d')" "$(value 'd["status"]') True" "an error is a member"
"$auxdecode" find --json -F time main "$j/threads.data" >"$j/out" 2>"$j/err"
is $? 2 "find: --json and -F together are a mistake"
"$auxdecode" coverage --json --to lcov "$j/lines.data" >"$j/out" 2>"$j/err"
is $? 2 "coverage: --json and --to together are a mistake"
"$auxdecode" count --json "$j/threads.data" >/dev/full 2>"$j/err"
is $? 1 "a full disk is an error"

# A name that a shell would take apart: the commands can be run as they are.
odd="$j/it's \"odd\" \\.data"
cp "$j/threads.data" "$odd"
"$auxdecode" summary --json "$odd" >"$j/json" 2>"$j/err"
is "$(value 'd["file"]')" "$odd" "the file's name is there as it is"
value '[n["command"] for n in d["next"] if n["command"].split()[1] in ("calls", "hot", "info")]' >"$j/out"
value '"\n".join(n["command"] for n in d["next"] if n["command"].split()[1] in ("calls", "hot", "info"))' >"$j/commands"
is "$(wc -l <"$j/commands")" 3 "commands to go on with"
mkdir -p "$j/bin"
ln -sf "$(realpath "$auxdecode")" "$j/bin/auxdecode"
PATH=$j/bin:$PATH sh -e "$j/commands" >"$j/out" 2>"$j/err"
ok $? "and a shell runs them as they are" "$j/err"
finish
