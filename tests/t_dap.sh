#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# A recording in an editor's debugger: by lines and instructions, forwards and back,
# breakpoints on lines and functions, stacks, listings; what has no answer gets an error;
# a client that sends anything does no harm.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/data out=$SCRATCH/out err=$SCRATCH/err
client() { timeout 200 python3 tests/dap_client.py "$@"; }

"$auxdecode" dap -o "$out" fixtures/hello_cyc.data >"$out" 2>"$err" </dev/null
is $? 2 "dap -o: status 2"
"$auxdecode" dap - >"$out" 2>"$err" </dev/null
is $? 2 "dap -: status 2"
"$auxdecode" dap --port x fixtures/hello_cyc.data >"$out" 2>"$err" </dev/null
is $? 2 "--port x: status 2"
printf 'Content-Length: 99999999999\r\n\r\n' | "$auxdecode" dap fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 1 "a length that no message has: status 1"
that "a length that no message has: it is said" "$err" grep -q 'no header of a message of at most' "$err"
printf 'Content-Length: 2\r\n\r\n{}' | "$auxdecode" dap fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 0 "what is no request is passed over"
that "what is no request: the console has it" "$out" grep -q '"event":"output".*no ' "$out"
if grep -q 'this build has none' "$out"; then
	skip "built without libjansson"
	finish
fi

client noise 1 300 "$auxdecode" dap --symfs fixtures/symfs fixtures/hello_cyc.data >"$out" 2>"$err"
ok $? "requests of anything, of a fixture" "$err"

if [ "$(uname -m)" = x86_64 ]; then
	"$auxcap" -e soft_pt/native/u -o "$data" -- "$programs/replayed" >"$out" 2>"$err"
	ok $? "recorded" "$err"
	line=$(grep -n 'if (n < 2)' tests/programs/replayed.c | cut -d: -f1)
	client walk tests/programs/replayed.c "$line" "$auxdecode" dap "$data" >"$out" 2>"$err"
	ok $? "forwards, back, listings, variables, errors" "$err"
	# fib(0) to fib(11) call themselves 740 times, all told
	that "a line stops as often as it ran, both ways" "$out" grep -qx 'hits 740 740' "$out"
	that "the stack" "$out" grep -qx 'stack fib>work>main' "$out"
	that "out of it, over the rest" "$out" grep -qx "out work $(grep -n 'fib(round)' tests/programs/replayed.c | cut -d: -f1)" "$out"
	that "it ends as it should" "$out" grep -qx 'status 0' "$out"
	# the same at a port
	"$auxdecode" dap --port 0 "$data" 2>"$SCRATCH/port" &
	pid=$!
	waits grep -q 'port [0-9]' "$SCRATCH/port"
	client walk tests/programs/replayed.c "$line" python3 tests/tcp.py \
		"$(sed -n 's/.*port \([0-9]*\) of.*/\1/p' "$SCRATCH/port")" >"$out" 2>"$err"
	ok $? "at a port" "$err"
	wait $pid
	is $? 0 "at a port: status 0"
	for seed in 2 3; do
		client noise $seed 400 "$auxdecode" dap "$data" >"$out" 2>"$err"
		ok $? "requests of anything, seed $seed" "$err"
	done
fi

# what VS Code is told fits the commands that there are
that "tools/vscode is JSON, and starts dap" - python3 -c '
import json
d = json.load(open("tools/vscode/package.json"))["contributes"]["debuggers"][0]
assert d["args"] == ["dap"] and d["program"] == "auxdecode"
assert set(d["configurationAttributes"]["launch"]["properties"]) == {"recording", "pid", "at"}'
finish
