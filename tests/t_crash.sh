#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# How a program came to its end: the signal, where, who had called; with the core file
# every value that is shown is the one that gdb sees, in the core file and in a live run.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/data out=$SCRATCH/out err=$SCRATCH/err json=$SCRATCH/json core=$SCRATCH/core
prog=$PWD/$programs/crashes

# query EXPRESSION: of the object, as j
query() { python3 -c "import json, sys
j = json.load(open(sys.argv[1]))
print(repr(($1)))" "$json"; }

# ---- bad usage ----
"$auxdecode" crash --limit 0 fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 2 "-n 0: status 2"
"$auxdecode" crash --core "$SCRATCH/none" --symfs fixtures/symfs fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 1 "no such core file: status 1"
that "no such core file: it is named" "$err" grep -q "$SCRATCH/none: cannot open: No such file" "$err"
"$auxdecode" crash --core "$programs/hello_static" --symfs fixtures/symfs fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 1 "a program as core file: status 1"
that "a program as core file: it is said" "$err" grep -q 'no core file, but a program or library' "$err"
"$auxdecode" crash --symfs fixtures/symfs fixtures/hello_cyc.data >"$out" 2>"$err"
is $? 0 "a recording without a signal: the end of the trace"
that "a recording without a signal: it is said" "$out" grep -q 'nothing says that a signal ended it' "$out"

need_soft

# ---- what the recording says ----
record() { # BACK-END WAY
	(cd "$SCRATCH" && rm -f core* && ulimit -c unlimited && ulimit -s 512 &&
		setarch -R env -i "$OLDPWD/$auxcap" -q -e "soft_pt/$1/u" -o data -- "$prog" "$2" >out 2>err)
	[ -e "$core" ] || mv "$core".[0-9]* "$core" 2>/dev/null
}

# ends WAY SIGNAL TEXT FUNCTION: the signal, and the function that it was in
ends() {
	"$auxdecode" crash "$data" >"$out" 2>"$err"
	is "$?.$(sed -n '1s/^crashes\/[0-9]* was ended by //p' "$out")" "0.$2$3" "$1: what it was"
	that "$1: where" "$out" grep -q "^  #[0-3] .* $4+0x" "$out"
	that "$1: who had called" "$out" grep -q '^  #[1-9][0-9]* .* main+0x' "$out"
}

for back_end in $(back_ends); do
	[ "$back_end" = emulate ] && continue
	record "$back_end" call
	ends "$back_end, a null pointer is called" SIGSEGV " at address 0x0, nothing is mapped there" by_call
	record "$back_end" ill
	is "$("$auxdecode" crash --json "$data" | python3 -c 'import json, sys
j = json.load(sys.stdin)
print(j["signal"]["name"], j["signal"]["address"] == j["ip"], j["stack"][0]["symbol"])')" "SIGILL True by_ill" \
		"$back_end: the address of an instruction is the program's own"
done
if [ -z "$(no_emulation)" ]; then
	record emulate abort
	"$auxdecode" crash "$data" >"$out" 2>"$err"
	that "emulated: which signal" "$out" grep -q '^crashes/[0-9]* was ended by SIGABRT' "$out"
	that "emulated: where" "$out" grep -q ' by_abort+0x' "$out"
fi
# what was attached to: its end is what ends the recording
"$programs/crash" loop &
pid=$!
"$auxcap" -q -e soft_pt//u -o "$SCRATCH/attached" -p $pid >"$out" 2>"$err" &
rec=$!
grown() { [ "$(stat -c %s "$SCRATCH/attached" 2>/dev/null || echo 0)" -gt 100000 ]; }
waits grown	# it is followed
kill $pid
wait $rec
ok $? "attached: the recording ends with it" "$err"
wait $pid 2>/dev/null
"$auxdecode" crash "$SCRATCH/attached" >"$out" 2>"$err"
that "attached: which signal ended it" "$out" grep -q '^crash/[0-9]* was ended by SIGTERM, sent by kill' "$out"
"$auxdecode" dump "$SCRATCH/attached" >"$out" 2>"$err"
that "dump shows the record" "$out" grep -q " auxkit-signal ended $pid/$pid time [0-9]* signal 15 code 0" "$out"
if have perf; then
	perf script -i "$data" --no-itrace --show-task-events >"$out" 2>"$err"
	ok $? "perf reads it" "$err"
fi

# ---- with the core file ----
case $(cat /proc/sys/kernel/core_pattern) in
core | core.%p) ;;
*)	skip "hardware: core files go elsewhere (core_pattern)"
	finish ;;
esac
record native call
if [ ! -e "$core" ]; then
	skip "hardware: the system writes no core file"
	finish
fi
have gdb || { skip "no gdb (tools/deps install test)"; finish; }
# with the stack's limit as recorded: what is where depends on it
run_gdb() {
	local rc
	(ulimit -s 512 && timeout 120 "${GDB:-gdb}" -nx -q -batch "$@" >"$SCRATCH/gdb" 2>"$err" </dev/null)
	rc=$?
	grep -E '^(compared|DIFFERS)|[eE]rror' "$SCRATCH/gdb" "$err" -h >"$out"
	return $rc
}

canary() { # the stack protector's word, which is another one in each run
	"${GDB:-gdb}" -nx -q -batch -ex 'printf "0x%lx\n", *(unsigned long *)($fs_base + 0x28)' "$prog" "$core" 2>/dev/null |
		tail -n 1
}

# compared WAY FROM [HITS]: all that is shown is what gdb sees
compared() {
	record native "$1"
	"$auxdecode" crash --json -n 40 --core "$core" "$data" >"$SCRATCH/plain" 2>"$err"
	ok $? "$1: with its core file" "$err"
	python3 -c 'import json, sys
j = json.load(open(sys.argv[1]))
j["canary"] = sys.argv[2]
json.dump(j, open(sys.argv[3], "w"))' "$SCRATCH/plain" "$(canary)" "$json"
	CRASH_JSON=$json run_gdb -x tests/crash_gdb.py "$prog" "$core"
	ok $? "$1: registers and stack are what gdb reads from the core file" "$out"
	CRASH_JSON=$json CRASH_FROM=$2 CRASH_HITS=${3:-1} run_gdb -ex 'unset environment' -x tests/crash_gdb.py --args "$prog" "$1"
	ok $? "$1: $(sed -n 's/^compared //p' "$out"), as gdb sees them live" "$out"
	is "$(query 'j["unproven"]')" None "$1: values are proven"
}

compared call by_call
that "the core file has the program's memory alone" - test "$(du -k "$core" | cut -f1)" -lt 20000 -a "$(stat -c %s "$core")" -lt 20000000
is "$(query '[f["symbol"] for f in j["stack"]][:3], j["differs"]')" "([None, 'by_call', 'main'], -1)" "call: the stack"
is "$(query '[c["symbol"] for c in j["calls"]][-2:]')" "['work', None]" "call: the last calls"
is "$(query 'j["instructions"][-1]["before"]["rax"]')" "'0x0'" "call: what it called"
compared smash by_smash
is "$(query 'j["signal"]["address"], j["bad_return"], j["stack"][1]["symbol"], len(j["core_stack"])')" \
	"('0x41411234', True, 'main', 1)" "smash: where it returned to, who had called, and that the core file does not know"
compared abort gsignal
compared assert gsignal
is "$(query 'j["tid"] != j["pid"], "in_thread" in [f["symbol"] for f in j["stack"]]')" "(True, True)" "assert: its thread"
compared deep by_deep 100
that "deep: near to the stack pointer" "$json" test "$(query 'abs(int(j["signal"]["address"], 0) - int(j["core"]["registers"]["rsp"], 0)) < 16384')" = True
compared ill by_ill
compared divide by_divide
is "$(query 'j["signal"]["name"], j["signal"]["address"] == j["ip"]')" "('SIGFPE', True)" "divide: where"
compared write by_write
compared handled gsignal
is "$(query 'j["earlier"][0]["name"], j["signal"]["name"], j["differs"]')" "('SIGSEGV', 'SIGABRT', -1)" "handled: both signals, and the stack through the handler"

# ---- what does not fit ----
cp "$core" "$SCRATCH/other"
record native call
"$auxdecode" crash --core "$SCRATCH/other" "$data" >"$out" 2>"$err"
is $? 1 "the core file of another process: status 1"
that "the core file of another process: it is said" "$err" grep -q 'no instruction of process [0-9]* could be followed' "$err"
is "$("$auxdecode" crash "$data" | grep -c 'the system wrote a core file: --core')" 1 "without it: that there is one"

# ---- damaged ones ----
python3 - "$core" "$SCRATCH" <<'P'
import random, sys
data = open(sys.argv[1], "rb").read()
for i in range(24):
    r = random.Random(i)
    d = bytearray(data)
    if i % 3 == 0:
        d = d[:r.randrange(1, len(d))]
    for _ in range(1 << r.randrange(8)):
        if len(d) > 64:
            d[r.randrange(64, min(len(d), 16384))] = r.randrange(256)
    open(f"{sys.argv[2]}/bad.{i}", "wb").write(d)
P
bad=0
for i in "$SCRATCH"/bad.*; do
	timeout 60 "$auxdecode" crash --core "$i" "$data" >"$out" 2>"$err"
	crashed $? && bad=$((bad + 1))
	LC_ALL=C grep -q '[^[:print:][:space:]]' "$out" && bad=$((bad + 1))
done
is $bad 0 "damaged core files do no harm"
finish
