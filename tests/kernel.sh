# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
#
# What the tests of recording from this machine's kernel share. counted makes
# system calls of which each sample carries a serial number: what is in a file,
# what is lost, and in which order, is known exactly.
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# tracefs, a small disk and a cgroup are mounted for this test alone.
if [ -z "${KERNEL_TEST_NS:-}" ] && [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	KERNEL_TEST_NS=1 SCRATCH=$SCRATCH BUILD=$BUILD unshare -m bash "$0" "$@"
	exit
fi
counted=$programs/counted
data=$SCRATCH/k.data
bg='' prog='' on=()
trap 'kill $bg $prog 2>/dev/null; exit 1' INT TERM HUP

if ! "$auxcap" -q -e cpu-clock:u -o "$data" -- true >/dev/null 2>"$SCRATCH/err"; then
	skip "hardware: no perf events here: $(head -n 1 "$SCRATCH/err")"
	finish
fi
root=/sys/kernel/tracing
[ -e $root/events ] || mount -t tracefs nodev $root 2>/dev/null
tracepoints='' no_tracepoints="hardware: no tracepoints that we may read"
[ -r $root/events/raw_syscalls/sys_enter/id ] && tracepoints=1
perf='' no_perf="perf is not installed, or may not record"
have perf && perf record -q -e cpu-clock:u -o "$data" -- true >/dev/null 2>&1 && perf=1
call=$("$counted" nr)
calls=(-e raw_syscalls:sys_enter --filter "id == $call")

# rec WANT TEXT ARGUMENT...: one recording, its status
rec() {
	local want=$1 text=$2 rc
	shift 2
	rm -f "$data" "$data".*
	timeout 300 "$auxcap" -o "$data" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	rc=$?
	is $rc "$want" "$text: status $want" || sed 's/^/#   /' "$SCRATCH/err"
}

# counted waits for its orders in descriptor 5 and answers in 6; auxcap has 7
# and 8 for the same. Nobody but us holds them, so that unplug ends counted.
rm -f "$SCRATCH"/{go,said,orders,acks}
mkfifo "$SCRATCH"/{go,said,orders,acks}
exec 7<>"$SCRATCH/orders" 8<>"$SCRATCH/acks"
in=/dev/null out=$SCRATCH/out

plug() { # what is started next is counted, or has it as a child
	exec 5<>"$SCRATCH/go" 6<>"$SCRATCH/said"
	in=$SCRATCH/go out=$SCRATCH/said
}

unplug() {
	exec 5>&- 6>&-
	in=/dev/null out=$SCRATCH/out
}

go() { # [N]: N rounds; $total calls so far
	local i
	for ((i = 0; i < ${1:-1}; i++)); do
		echo go >&5
		read -r -t 300 -u 6 total || total=none
	done
}

# counted, without a recorder: $prog
prog_start() {
	plug
	"${on[@]}" "$counted" "$@" <"$in" >"$out" 5>&- 6>&- 7>&- 8>&- &
	prog=$!
	in=/dev/null out=$SCRATCH/out
}

prog_end() {
	unplug
	wait $prog
	prog=
}

# A recording in the background, $bg, which begins before this returns.
rec_bg() {
	rm -f "$data" "$data".*
	"$auxcap" -o "$data" --control "fifo:$SCRATCH/orders,$SCRATCH/acks" "$@" \
		<"$in" >"$out" 2>"$SCRATCH/err" 5>&- 6>&- 7>&- 8>&- &
	bg=$!
	order ping
}

order() { # WORD...: $answer, all lines of it
	local line
	echo "$*" >&7
	answer=
	while read -r -t 300 -u 8 line; do
		answer="${answer:+$answer }$line"
		case $line in
		ack | error*) return ;;
		esac
	done
	answer="none ($answer)"
}

# ended PID: waits for it; a process that does not end is killed, and fails
ended() {
	local i
	for ((i = 0; i < 3000; i++)); do
		[ -e "/proc/$1/stat" ] || return 0
		[ "$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null)" = Z ] && return 0
		sleep 0.1
	done
	kill -9 "$1"
}

rec_end() { # WANT TEXT
	local rc
	ended $bg
	wait $bg
	rc=$?
	bg=
	is $rc "$1" "$2: status $1" || sed 's/^/#   /' "$SCRATCH/err"
}

# samples FILE: how many are there, as auxdecode counts
samples() { "$auxdecode" info "$1" 2>/dev/null | awk '$1 == "SAMPLE" { n = $2 } END { print n + 0 }'; }

# serials FILE...: the serial numbers of counted's calls, in the order of the
# files; as perf prints the tracepoint's fields
serials() {
	local f
	for f; do
		perf script -i "$f" -F comm,event,trace 2>/dev/null
	done | sed -nE "s/^ *counted .*sys_enter: NR $call \(([0-9a-f]*),.*/0x\1/p" |
		xargs -r printf '%d\n'
}

# each TEXT FROM TO FILE...: all serial numbers FROM <= n < TO, each once
each() {
	local text=$1 from=$2 to=$3
	shift 3
	[ -n "$perf" ] || { skip "$no_perf" "$text"; return; }
	serials "$@" | sort -n >"$SCRATCH/have"
	seq "$from" $((to - 1)) >"$SCRATCH/want"
	diff "$SCRATCH/have" "$SCRATCH/want" >"$SCRATCH/diff"
	ok $? "$text: calls $from to $((to - 1)), each once" "$SCRATCH/diff"
}

of_loss='^Warning:$|^Processed .* lost .* chunks|^Check IO/CPU overload'

# reads TEXT [FILE]: perf and auxdecode read it without a word (but of loss), and
# count alike
reads() {
	local text=$1 f=${2:-$data} n m
	timeout 300 "$auxdecode" info "$f" >"$SCRATCH/info" 2>"$SCRATCH/info.err"
	ok $(($? != 0 && $? != 3)) "$text: auxdecode info" "$SCRATCH/info.err"
	[ -n "$perf" ] || return
	timeout 300 perf script -i "$f" -F event,tid,time >"$SCRATCH/script" 2>"$SCRATCH/perf.err"
	is "$?$(grep -Ev "^$|$of_loss" "$SCRATCH/perf.err")" 0 "$text: perf script, without a word"
	m=$(wc -l <"$SCRATCH/script")
	n=$(samples "$f")
	# perf script shows a sample that reads a group once for each member
	# whose count has grown
	perf evlist -v -i "$f" 2>/dev/null | grep -q 'read_format: [A-Z|]*GROUP' &&
		m=$(perf script -D -i "$f" 2>/dev/null | grep -c 'PERF_RECORD_SAMPLE(')
	is "$m" "$n" "$text: $n samples, as perf counts"
}

# lost FILE: what LOST records tell
lost() {
	perf script -D -i "$1" 2>/dev/null |
		awk '/PERF_RECORD_LOST:/ { sub(/.*lost:/, ""); n += $1 } END { print n + 0 }'
}
