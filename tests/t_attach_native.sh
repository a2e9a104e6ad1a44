#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# soft_pt/native attaches to servers and runtimes that are busy, again and again: a
# database under load, threads with locks, node, a program that waits in read. Each time
# the flow is what ran; no request fails; nothing is left behind.
#
#	tests/t_attach_native.sh CASE...	only these
#	LONG=1					50 times each, for two seconds
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/n.data truth=$SCRATCH/n.truth log=$SCRATCH/n.log
pick=" $* "
wanted() { [ "$pick" = "  " ] || [[ $pick == *" $1 "* ]]; }
if [ -n "${LONG:-}" ]; then rounds=50 seconds=2; else rounds=3 seconds=0.4; fi

# What a process has that a tracer could leave changed: descriptors, signals of each
# thread, mappings (of what files, how protected), who traces it.
state() { # PID
	local t
	ls -l "/proc/$1/fd" | sed -n 's/.* \([0-9]* -> .*\)/\1/p'
	for t in /proc/"$1"/task/*/status; do
		grep -E '^(TracerPid|Seccomp|NoNewPrivs|Sig(Pnd|Blk|Ign|Cgt)|ShdPnd)' "$t"
	done
	awk '$2 ~ /x/ || $6 ~ /memfd|deleted/ { print $1, $2, $6 }' "/proc/$1/maps"
}

quiet() { # PID: no thread of it is traced
	! grep -h '^TracerPid:' /proc/"$1"/task/*/status | grep -qv '	0$'
}

may_not='cannot trace|ptrace_scope'
# attached NAME PID [same]: same: its state is to be what it was before
attached() {
	local name=$1 pid=$2 i n=0 exact=0 left=0 insns=0
	for ((i = 0; i < rounds; i++)); do
		rm -f "$data" "$truth"
		state "$pid" >"$SCRATCH/before"
		timeout -k 5 300 "$auxcap" -e soft_pt/native/u -o "$data" --truth "$truth" \
			-p "$pid" -- sleep "$seconds" 2>"$log" </dev/null
		if [ $? = 0 ]; then
			n=$((n + 1))
		elif [ "$name" = blocked ] && grep -q 'no thread ran' "$log"; then
			n=$((n + 1)) exact=$((exact + 1))
			continue	# the machine is busy: its SYSCALL was not made again
		else
			sed 's/^/#   /' "$log"
		fi
		quiet "$pid" || left=$((left + 1))
		state "$pid" >"$SCRATCH/after"
		if [ "${3:-}" = same ] && ! diff "$SCRATCH/before" "$SCRATCH/after" >"$SCRATCH/diff"; then
			left=$((left + 1))
			sed 's/^/#   /' "$SCRATCH/diff"
		elif grep -q memfd "$SCRATCH/after"; then
			left=$((left + 1))
		fi
		"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" | "$truthcmp" -q "$truth" >"$SCRATCH/cmp"
		if [ "${PIPESTATUS[*]}" = "0 0" ]; then
			exact=$((exact + 1))
		else
			sed 's/^/#   /' "$SCRATCH/cmp" "$SCRATCH/err" | head -n 20
		fi
		insns=$((insns + $(sed -n "s/^total truth \([0-9]*\).*/\1/p" "$SCRATCH/cmp" | grep . || echo 0)))
	done
	is "$n" "$rounds" "$name: attached to, $rounds times"
	is "$exact" "$rounds" "$name: the flow is what ran, $insns instructions"
	is "$left" 0 "$name: nothing is left behind"
}

ends() { # PID SIGNAL
	kill "-$2" "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

connected() { # SOCKET N: so many clients, this one among them
	[ "$(redis-cli -s "$1" client list 2>/dev/null | wc -l)" -ge "$2" ]
}

# Debian's redis-check-rdb is the server, too, when called so.
redis() {
	local server load socket=$SCRATCH/redis
	if ! have redis-cli || ! have redis-check-rdb; then
		skip "redis is not installed (tools/deps install test)" "redis"
		return
	fi
	(exec -a redis-server redis-check-rdb --port 0 --unixsocket "$socket" --save "" \
		--dir "$SCRATCH" >"$SCRATCH/server" 2>&1) &
	server=$!
	waits redis-cli -s "$socket" ping >/dev/null 2>&1
	redis-benchmark -s "$socket" -c 8 -t get,set -n 100000000 -l -q >"$SCRATCH/load" 2>&1 &
	load=$!
	waits connected "$socket" 9
	attached redis "$server" same
	kill -0 "$load"
	ok $? "redis: its clients still are at it" "$SCRATCH/load"
	kill "$load"
	wait "$load" 2>/dev/null
	is "$(redis-cli -s "$socket" info errorstats | grep -c ^errorstat)" 0 "redis: no request failed"
	redis-benchmark -s "$socket" -c 8 -t get,set -n 20000 -q >"$SCRATCH/load" 2>&1
	ok $? "redis: and goes on" "$SCRATCH/load"
	redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1
	wait "$server"
	is $? 0 "redis: it ends as it would"
}

# 16 threads: locks, a condition, memory that comes and goes; each counts.
threads() {
	local prog
	exec 9> >("$programs/busythreads" >"$SCRATCH/threads" 2>&1)
	prog=$!
	waits grep -qs ready "$SCRATCH/threads"
	attached threads "$prog" same
	exec 9>&-
	waits grep -q '^\(right\|wrong\)' "$SCRATCH/threads"
	is "$(tail -n 1 "$SCRATCH/threads")" right "threads: they did all that they should"
}

# JIT code, a timer, garbage.
node_js() {
	local prog
	if ! have node; then
		skip "node is not installed (tools/deps install test)" "node"
		return
	fi
	node -e 'let n = 0, sum = 0;
		const f = a => a.map(x => x * 2 + 1).reduce((x, y) => x + y, 0);
		const t = setInterval(() => { for (let i = 0; i < 200; i++) sum += f([i, i + 1, i + 2]); n++; }, 1);
		console.log("ready");
		process.on("SIGTERM", () => {
			clearInterval(t);
			console.log(sum === n * 121200 ? "right" : "wrong " + sum + " " + n);
		})' >"$SCRATCH/node" 2>&1 &
	prog=$!
	waits grep -qs ready "$SCRATCH/node"
	attached node "$prog"
	ends "$prog" TERM
	is "$(tail -n 1 "$SCRATCH/node")" right "node: it did all that it should"
}

# Attached to and let go again at once, so often that it happens at each instruction that
# copies have beside the program's own.
registers() {
	local prog i n=0
	"$programs/registers" >"$SCRATCH/registers" 2>&1 &
	prog=$!
	waits grep -qs ready "$SCRATCH/registers"
	: >"$SCRATCH/all"
	for ((i = 0; i < 40 * rounds; i++)); do
		"$auxcap" -e soft_pt/native/u -o "$data" -p "$prog" -- \
			sleep "0.0$((1 + i % 4))" 2>"$log"
		# or the machine is so busy that it did not run
		case $? in
		0) n=$((n + 1)) ;;
		1) grep -q 'no thread ran' "$log" && n=$((n + 1)) ;;
		esac
		cat "$log" >>"$SCRATCH/all"
	done
	is "$n" $((40 * rounds)) "registers: attached to, $n times" ||
		grep -v 'nothing lost$' "$SCRATCH/all" | head -n 5 | sed 's/^/#   /'
	ends "$prog" TERM
	is "$(tail -n 1 "$SCRATCH/registers")" right "registers: they are the program's"
}

# Calls that set the signal mask stop at their beginning and their end; let go there, they
# are made all the same.
calls() {
	local prog
	python3 -c 'import os, signal
go = True
def stop(*_):
	global go
	go = False
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while go:
	for i in range(10):
		old = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		new = signal.pthread_sigmask(signal.SIG_SETMASK, old)
		assert new == {signal.SIGUSR1} and not old
print("right")' >"$SCRATCH/calls" 2>&1 &
	prog=$!
	waits grep -qs ready "$SCRATCH/calls"
	attached calls "$prog"
	ends "$prog" TERM
	is "$(tail -n 1 "$SCRATCH/calls")" right "calls: each was made"
}

# A call that blocks is neither ended nor made again with another result.
blocked() {
	local prog
	mkfifo "$SCRATCH/in"
	# shellcheck disable=SC2016
	python3 -c 'import os
print("ready", flush=True)
print(os.read(0, 100))' <"$SCRATCH/in" >"$SCRATCH/blocked" 2>&1 &
	prog=$!
	exec 9>"$SCRATCH/in"
	waits grep -qs ready "$SCRATCH/blocked"
	sleep 0.2
	attached blocked "$prog" same	# the SYSCALL alone, which is made again
	rm -f "$data" "$truth"
	"$auxcap" -e soft_pt/native/u -o "$data" --truth "$truth" -p "$prog" 2>"$log" 9>&- &
	i=$!
	waits not quiet "$prog"
	echo line >&9
	exec 9>&-
	wait "$prog"
	wait "$i"
	is "$(tail -n 1 "$SCRATCH/blocked")" "b'line\\n'" "blocked: it reads what it waited for"
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" | "$truthcmp" -q "$truth" >"$SCRATCH/cmp"
	is "${PIPESTATUS[*]}" "0 0" "blocked: from there the flow is what ran" || sed 's/^/#   /' "$SCRATCH/cmp"
}

"$auxcap" -q -e soft_pt/native/u -o "$data" -p $$ -- true 2>"$log"
if grep -Eq "$may_not" "$log"; then
	skip "hardware: may not attach: $(head -n 1 "$log")"
	finish
fi
for c in redis threads node_js registers calls blocked; do
	! wanted "$c" || "$c"
done
finish
