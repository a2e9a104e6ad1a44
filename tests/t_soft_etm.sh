#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# soft_etm: aarch64 programs, recorded as ETMv4 and ETE, framed and raw, with
# every term, decode to what ran: by us address by address, and by perf.
. "$(dirname "$0")/lib.sh"
need_emulation

a64=$programs/aarch64
data=$SCRATCH/etm.data truth=$SCRATCH/etm.truth log=$SCRATCH/etm.log

# record PROGRAM TERMS [OPTION...]; PROGRAM may have arguments, which may be
# programs
record() {
	local words terms=$2 i
	read -ra words <<<"$1"
	shift 2
	for i in "${!words[@]}"; do
		[ -x "$a64/${words[i]}" ] && words[i]=$a64/${words[i]}
	done
	rm -f "$data" "$truth"
	timeout 500 "$auxcap" -e "soft_etm/$terms/u" -o "$data" --truth "$truth" "$@" \
		-- "${words[@]}" >"$SCRATCH/out" 2>"$log" </dev/null
	status=$?
}

# exact PROGRAM TERMS [OPTION...]
exact() {
	local text="$1 soft_etm/$2/${3:+ $3}"
	record "$@"
	[ $status = 0 ] || { ok 1 "$text: auxcap ends with $status" "$log"; return; }
	matches "$text"
}

# clock_first TEXT: TIME_CONV stands in front of AUXTRACE_INFO, at which perf 7.2 makes
# its decoder; it shows nothing of a recording that has them the other way round.
clock_first() {
	"$auxdecode" dump "$data" >"$SCRATCH/dump" 2>&1
	grep -oE 'TIME_CONV|AUXTRACE_INFO' "$SCRATCH/dump" | tr '\n' ' ' >"$SCRATCH/order"
	that "$1: the clock before the decoder's description" "$SCRATCH/order" \
		grep -q '^TIME_CONV AUXTRACE_INFO' "$SCRATCH/order"
}

# same PROGRAM TERMS [OPTION...]: perf shows what ran.
same() {
	local text="$1 soft_etm/$2/${3:+ $3}"
	record "$@"
	perf script --itrace=i1i -F tid,ip -i "$data" 2>"$SCRATCH/err" |
		"$truthcmp" "$truth" >"$SCRATCH/cmp"
	ok $((status | PIPESTATUS[1])) "$text: perf $(tail -1 "$SCRATCH/cmp")" "$SCRATCH/cmp"
	perf script -D -i "$data" >"$SCRATCH/dump" 2>"$SCRATCH/err"
	ok $? "$text: perf script -D" "$SCRATCH/err"
	that "$text: no bad packet in the dump" "$SCRATCH/dump" \
		not grep -aqE 'BAD_SEQUENCE|RESERVED|I_NOT_SYNC' "$SCRATCH/dump"
}

# ---- every term, with every kind of trace ----

kinds="etmv4,framed ete,raw"
[ -n "${QUICK:-}" ] || kinds+=" ete,framed etmv4,raw"
for kind in $kinds; do
	exact hello_static "$kind"
	exact hello_dynamic "$kind,retstack"
	exact feature "$kind,cycacc"
	exact feature "$kind,branch_broadcast" --per-thread
	exact dlopen "$kind,contextid2,contextid=0,sync_period=8"
	exact threads "$kind,retstack,cycacc,cc_threshold=4"
	exact forkexec "$kind"
	count_matches "forkexec $kind"
done
# A module withheld: the flow goes on behind it, and what is shown ran. OpenCSD does
# not go on where the call of a return is in the missing code.
mkdir "$SCRATCH/module" && cp "$a64/dlopen" "$SCRATCH/module"
for kind in etmv4 ete,raw,retstack; do
	cp "$a64/dlobj" "$SCRATCH/module"
	record "$SCRATCH/module/dlopen" "$kind"
	rm "$SCRATCH/module/dlobj"
	"$auxdecode" insn -F tid,ip "$data" >"$SCRATCH/flow" 2>"$SCRATCH/err"
	is "$status:$?" "0:3" "$kind: a module withheld: a gap" || sed 's/^/#   /' "$log"
	"$truthcmp" --expect-gaps "$truth" "$SCRATCH/flow" >"$SCRATCH/cmp"
	ok $? "$kind: what is shown ran" "$SCRATCH/cmp"
	that "$kind: all but what is near it" "$SCRATCH/cmp" awk '/^total/ {
		for (i = 1; i < NF; i++) v[$i] = $(i + 1)
		exit !(v["missing"] > 0 && v["missing"] * 50 < v["truth"]) }' "$SCRATCH/cmp"
	"$auxdecode" verify "$data" >"$SCRATCH/out" 2>&1
	ok $? "$kind: verify has no objection" "$SCRATCH/out"
done

for ete in etmv4 ete; do
	exact threads "$ete,shared"
	exact forkexec "$ete,shared,retstack,sync_period=9"
	exact atomics "$ete,shared,cycacc,contextid2"
done
exact hello_asm timestamp=0
exact hello_asm timestamp=0,contextid=0 --per-thread
exact threads ete --per-thread
exact crash ''

# ---- an exec: other code at the same addresses, from one instruction to the next ----

printf '#!%s\n' "$(realpath "$a64/hello_static")" >"$SCRATCH/script"
chmod +x "$SCRATCH/script"
for kind in $kinds shared,sync_period=9; do
	exact "run -e run -e run hello_static" "$kind"
	exact "execs 0 execs 3 run -e hello_dynamic" "$kind"
	exact "execs 2 $SCRATCH/script" "$kind,contextid=0"
done
exact "execs 0 execs 3 run -e hello_dynamic" cycacc,retstack --per-thread
exact "execs 0 execs 3 $SCRATCH/script" timestamp=0 --per-thread
exact "execs 0 run -e hello_static" ete,raw,timestamp=0,contextid=0 --per-thread
exact "stress exec 3" shared

# ---- a long run: AUX records that the buffer's interrupt ends ----

for terms in '' ete,raw,retstack,cycacc shared,branch_broadcast; do
	exact bench "$terms"
	count_matches "bench soft_etm/$terms/"
	clock_first "bench soft_etm/$terms/"
done
that "bench: tens of millions of instructions" "$log" \
	grep -Eq 'auxcap: [2-9][0-9],[0-9]{3},[0-9]{3} instructions' "$log"
"$auxdecode" dump "$data" >"$SCRATCH/dump" 2>&1
that "bench: many AUX records" "$SCRATCH/dump" \
	test "$(grep -c '\] AUX ' "$SCRATCH/dump")" -gt 5

# ---- perf 6.1 ----

# It takes code from files only (feature runs some that is in none), and knows no
# branch in ETMv4 that Armv8.3 added (hello_asm does).
if have perf && perf --version >/dev/null 2>&1; then
	same hello_static ''
	same hello_static etmv4,raw,branch_broadcast
	same hello_dynamic ete,cycacc
	same hello_dynamic ete,raw,retstack,sync_period=8
	same dlopen retstack,cycacc,cc_threshold=8
	same dlopen ete,contextid2,contextid=0
	same threads ''
	same threads ete,raw,retstack
	same forkexec ete
	same hello_asm ete
	same hello_static timestamp=0,contextid=0 --per-thread
	same crash shared
else
	skip "perf is not installed (tools/deps install test)"
fi

# ---- what the file says ----

record hello_asm ete,cycacc,cc_threshold=77,retstack
"$auxdecode" info "$data" >"$SCRATCH/info" 2>&1
that "info: which source, and its terms" "$SCRATCH/info" \
	grep -q '^terms: cycacc,contextid1,timestamp,retstack,ete,framed,cc_threshold=77,sync_period=12$' "$SCRATCH/info"
that "info: the source" "$SCRATCH/info" grep -q '^source: soft_etm, back end emulate' "$SCRATCH/info"
that "info: the machine whose code it is" "$SCRATCH/info" grep -q '^machine: .* aarch64,' "$SCRATCH/info"

# ---- overflow ----

for terms in sync_period=8 ete,raw,sync_period=9,retstack shared,sync_period=8; do
	record feature "$terms" --inject-overflow 3
	is $status 3 "$terms: overflows were injected: status 3"
	that "$terms: counted" "$log" grep -Eq '[0-9]+ overflows? \(injected as asked\)' "$log"
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" |
		"$truthcmp" --expect-gaps "$truth" >"$SCRATCH/cmp"
	ok "${PIPESTATUS[1]}" "$terms: $(tail -1 "$SCRATCH/cmp")" "$SCRATCH/cmp"
	that "$terms: gaps are shown" "$SCRATCH/err" grep -q 'overflow' "$SCRATCH/err"
done

# ---- code that is missing calls and returns, too ----

# that the program loads: of the cross compiler, on an arm64 machine its own
libs=/usr/aarch64-linux-gnu/lib
[ "$(uname -m)" != aarch64 ] || libs=$(dirname "$(realpath /lib/ld-linux-aarch64.so.1)")
mkdir -p "$SCRATCH/symfs$libs" "$SCRATCH/symfs$a64"
cp -L "$a64"/* "$SCRATCH/symfs$a64/"
cp -L "$libs/ld-linux-aarch64.so.1" "$SCRATCH/symfs$libs/"
for terms in cycacc retstack ete,raw,retstack,sync_period=9; do
	record dlopen "$terms"
	for decoder in etm opencsd; do
		text="$terms, no libc, $decoder"
		"$auxdecode" insn -F tid,ip --decoder $decoder --symfs "$SCRATCH/symfs" "$data" \
			>"$SCRATCH/flow" 2>"$SCRATCH/err"
		is $? 3 "$text: status 3"
		"$truthcmp" --expect-gaps "$truth" "$SCRATCH/flow" >"$SCRATCH/cmp"
		ok $? "$text: $(tail -1 "$SCRATCH/cmp")" "$SCRATCH/cmp"
		that "$text: half of it is shown" "$SCRATCH/cmp" awk '/^total/ { exit $5 < $3 / 2 }' "$SCRATCH/cmp"
		that "$text: why not the rest" "$SCRATCH/flow" grep -q '^# gap no-code .*libc' "$SCRATCH/flow"
	done
done

# ---- the same bytes as a trace bundle of LLDB ----

b=$SCRATCH/bundle
mkdir "$b" && cp "$a64/hello_static" "$b/a.out"
# lldb_bundle: of $data: its one AUXTRACE, and the registers of its first block
lldb_bundle() {
	/usr/bin/python3 - "$data" "$b" <<-'end'
		import json, struct, sys
		data, regs, trace, length = open(sys.argv[1], 'rb').read(), None, b'', 0
		at, size = struct.unpack_from('<QQ', data, 40)
		last = at + size
		while at < last:
		    kind, misc, size = struct.unpack_from('<IHH', data, at)
		    if kind == 70 and regs is None:
		        regs = struct.unpack_from('<9Q', data, at + 56)
		    if kind == 11:    # PERF_RECORD_AUX: the size without padding
		        length += struct.unpack_from('<Q', data, at + 16)[0]
		    if kind == 71:
		        size += struct.unpack_from('<Q', data, at + 8)[0]
		        trace += data[at + 48:at + size]
		    at += size
		open(sys.argv[2] + '/0.trace', 'wb').write(trace[:length])
		_, config, _, idr0, idr1, idr2, idr8 = regs[:7]
		unit = {'regConfigr': config, 'regTraceidr': 0, 'regIdr0': hex(idr0), 'regIdr1': str(idr1),
		        'regIdr2': {'value': idr2}, 'regIdr8': hex(idr8), 'archVersion': 'aa64', 'coreProfile': 'Cortex-A'}
		unit.update({'regIdr%d' % i: '0x0' for i in range(9, 14)})
		thread = {'tid': 78, 'etmTrace': '0.trace'}
		module = {'file': 'a.out', 'systemPath': '/nowhere/hello', 'loadAddress': '0x400000'}
		json.dump({'type': 'arm-etm', 'traceUnits': [unit],
		           'processes': [{'pid': 77, 'threads': [thread], 'modules': [module]}]},
		          open(sys.argv[2] + '/trace.json', 'w'))
	end
}
for terms in etmv4,raw ete,raw,cycacc; do
	record hello_static "$terms"
	lldb_bundle
	"$auxdecode" count "$b" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 0 "LLDB, $terms: status"
	is "$(sed -n 's/^thread 78 insns \([0-9]*\) hash \([0-9a-f]*\) .*/\1 \2/p' "$SCRATCH/out")" \
		"$(sed -n 's/^thread [0-9]* insns \([0-9]*\) hash \([0-9a-f]*\).*/\1 \2/p' <("$auxdecode" count "$data" 2>"$SCRATCH/err"))" \
		"LLDB, $terms: what ran"
	"$auxdecode" verify "$b" >"$SCRATCH/out" 2>&1
	ok $? "LLDB, $terms: verify" "$SCRATCH/out"
done
# unlike EDIT WHY: refused, and why
unlike() {
	lldb_bundle
	/usr/bin/python3 -c "import json; f = '$b/trace.json'; d = json.load(open(f)); u = d['traceUnits']; $1
json.dump(d, open(f, 'w'))"
	"$auxdecode" count "$b" >"$SCRATCH/out" 2>&1
	is $? 1 "LLDB, $1: refused"
	that "... and why" "$SCRATCH/out" grep -q "$2" "$SCRATCH/out"
}
unlike "del d['traceUnits']" 'traceUnits is missing'
unlike "u.append(u[0])" 'traceUnits has several units'
unlike "del u[0]['regIdr2']" 'traceUnits\[0\]\.regIdr2 is missing'
unlike "u[0]['regConfigr'] = 1 << 32" 'traceUnits\[0\]\.regConfigr is too large'
unlike "u[0]['coreProfile'] = 1" 'coreProfile is no text'
unlike "d['type'] = 'arm-pmu'" 'known are intel-pt and arm-etm'

# ---- terms that are refused, and why ----

refused() { # TERMS MODIFIERS WHY [OPTION...]
	local terms=$1 modifiers=$2 why=$3
	shift 3
	"$auxcap" -e "soft_etm/$terms/$modifiers" "$@" -o "$data" -- "$a64/hello_asm" >"$log" 2>&1
	is $? 2 "soft_etm/$terms/$modifiers${1:+ $1}: status 2"
	that "... and why" "$log" grep -q "$why" "$log"
}

rm -f "$data"
refused nonsense=1 u 'branch_broadcast'
refused preset=1 u 'no configurations'
refused strobing u 'without a pause'
refused configid=3 u 'without a pause'
refused @tmc_etr0 u 'no sinks'
refused ete,etmv4 u 'exclude each other'
refused raw,framed u 'exclude each other'
refused raw,shared u 'exclude each other'
refused cycacc,cc_threshold=2 u '4 to 4095'
refused cc_threshold=9 u 'needs cycacc'
refused sync_period=21 u '8 to 20'
refused '' k 'user code'
refused shared u 'of one thread' --per-thread
refused timestamp=0,contextid1=0 u 'need --per-thread'
that "no file was made" - test ! -e "$data"

"$auxcap" -e soft_etm// -o "$data" -- /bin/true >"$log" 2>&1
is $? 1 "a program of another machine: status 1"
that "... and why" "$log" grep -q 'not an AArch64 ELF program' "$log"
"$auxcap" list aux >"$SCRATCH/list" 2>&1
that "auxcap list shows it" "$SCRATCH/list" grep -q '^soft_etm//u ' "$SCRATCH/list"
finish
