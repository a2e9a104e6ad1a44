#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck disable=SC2034
#
# What the parts that run inside the guest share. Their lines are "ok - TEXT",
# "not ok - TEXT" and "# ..."; tests/t_guest.sh numbers them. The guest has
# pmu_sim; all recordings lie on its tmpfs.
set -u
export LC_ALL=C TZ=UTC PERF_CONFIG=/dev/null
auxcap=$BUILD/auxcap auxdecode=$BUILD/auxdecode auxcheck=$BUILD/auxcheck
programs=$BUILD/tests/programs
sim=/sys/kernel/debug/pmu_sim params=/sys/module/pmu_sim/parameters
work=/tmp/work
mkdir -p $work && cd $work || exit 2
data=$work/a.data err=$work/err out=$work/out st=$work/st log=$work/log
FULL=${FULL:-}
bg=

note() { printf '%s\n' "$*" | sed 's/^/# /'; }
show() { head -n "${2:-20}" "$1" | cut -c1-300 | sed 's/^/#   /'; }

# ok STATUS TEXT [FILE]: FILE's lines are the diagnostics
ok() {
	if [ "$1" = 0 ]; then
		echo "ok - $2"
		return 0
	fi
	echo "not ok - $2"
	[ -n "${3:-}" ] && [ -e "$3" ] && show "$3"
	return 1
}

that() { # TEXT FILE COMMAND...
	local text=$1 file=$2
	shift 2
	"$@"
	ok $? "$text" "$file"
}

is() { # GOT WANTED TEXT
	[ "$1" = "$2" ] && { ok 0 "$3"; return; }
	ok 1 "$3"
	note "got:  $1" | head -n 10
	note "want: $2" | head -n 10
	return 1
}

# sim NAME=VALUE...: the module as loaded, but for these; counters at zero
sim() {
	local p
	for p in rate=1000000 tick_us=1000 unit=8 align=1 head=auto payload=pattern flags=0 \
		mute=N "$@"; do
		echo "${p#*=}" >"$params/${p%%=*}" || note "pmu_sim: no $p"
	done
	echo 1 >"$sim/reset"
}

# rec WANT TEXT ARGUMENT...: one recording; WANT is its status, or a list as 0|3
rec() {
	local want=$1 text=$2 rc
	shift 2
	rm -f "$data"
	timeout -k 5 300 "$auxcap" -o "$data" "$@" >"$out" 2>"$err" </dev/null
	rc=$?
	[[ "|$want|" == *"|$rc|"* ]] && return
	ok 1 "$text: status $want" "$err"
	note "status $rc"
	return 1
}

# The same in the background, when its PMU runs: $bg. rec_end as rec.
rec_bg() { # PMU ARGUMENT...
	local pmu=$1
	shift
	rm -f "$data"
	"$auxcap" -o "$data" "$@" >"$out" 2>"$err" </dev/null &
	bg=$!
	running "$pmu" || note "$pmu did not start: $(head -n 1 "$err")"
}

running() { # PMU: some source of it makes bytes
	local i
	for ((i = 0; i < 400; i++)); do
		grep -q "^$1\.cpu[0-9]*\.starts [1-9]" "$sim/stat" && return
		[ -z "$bg" ] || kill -0 "$bg" 2>/dev/null || return 1
		sleep 0.05
	done
	return 1
}

rec_end() { # WANT TEXT
	local rc
	ended "$bg" || kill -9 "$bg"
	wait "$bg" 2>/dev/null
	rc=$?
	bg=
	[[ "|$1|" == *"|$rc|"* ]] && return
	ok 1 "$2: status $1" "$err"
	note "status $rc"
	return 1
}

ended() { # PID: waits for its end, 60 s at most
	local i
	for ((i = 0; i < 1200; i++)); do
		case $(sed -n 's/^State:\t\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) in
		'' | Z) return 0 ;;
		esac
		sleep 0.05
	done
	return 1
}

# proven PMU TEXT [OPTION...]: every byte is accounted for. $sum, $log
proven() {
	local pmu=$1 text=$2 rc
	shift 2
	cat "$sim/stat" "$sim/sessions" >"$st"
	timeout -k 5 300 "$auxcheck" -p "$pmu" "$@" "$data" "$st" >"$log" 2>&1
	rc=$?
	sum=$(grep '^total' "$log")
	tail -n 3 "$log" >"$log.end"
	grep -E '^(offence|balance|books|ledger|unmarked)' "$log" | head -n 12 >>"$log.end"
	ok $rc "$text: $(field produced)=$(field bytes)+$(field missing)" "$log.end"
}

# field NAME: of the last proof; produced: of the module
field() {
	case $1 in
	produced | stored | lost | skipped)
		awk -F '[ =]' -v n="$1" '$1 == "balance" { for (i = 2; i < NF; i++)
			if ($i == n) s += $(i + 1) } END { print s + 0 }' "$log" ;;
	*)
		awk -F '[ =]' -v n="$1" '$1 == "total" { for (i = 2; i < NF; i++)
			if ($i == n) print $(i + 1) }' "$log" ;;
	esac
}

# counted PMU NAME: what the module counted, of all CPUs
counted() { awk -v p="^$1[.]cpu[0-9]+[.]$2\$" '$1 ~ p { s += $2 } END { print s + 0 }' "$st"; }

# times CAUSE, bytes CAUSE: of the ledger
ledger() {
	awk -v c="cause=$2" -v f="$1" '$1 == "ledger" && $3 == c { for (i = 4; i <= NF; i++) {
		split($i, a, "="); if (a[1] == f) s += a[2] } } END { print s + 0 }' "$log"
}
times() { ledger times "$1"; }
bytes() { ledger bytes "$1"; }

# read_by_both TEXT [FILE]: perf and auxdecode read it without a word
read_by_both() {
	local text=$1 f=${2:-$data} rc
	timeout -k 5 300 perf script --no-itrace -i "$f" >"$work/script" 2>"$work/perf.err"
	rc=$?
	# What is true of a file with losses, it may say.
	grep -vE '^$|^Warning:$|^AUX data (lost|detected collision|had gaps)' \
		"$work/perf.err" >"$work/perf.said"
	[ $rc = 0 ] && [ ! -s "$work/perf.said" ]
	ok $? "$text: perf reads it" "$work/perf.said"
	timeout -k 5 300 "$auxdecode" info "$f" >"$work/info" 2>"$work/info.err"
	rc=$?
	[ $rc = 0 ] || [ $rc = 3 ]
	ok $? "$text: auxdecode reads it" "$work/info.err"
}

# until_counted PMU NAME MIN: the module has counted so much, of all CPUs
until_counted() {
	local i
	for ((i = 0; i < 1200; i++)); do
		cat "$sim/stat" >"$st"
		[ "$(counted "$1" "$2")" -ge "$3" ] && return
		sleep 0.05
	done
	note "$1: no $3 $2"
	return 1
}

# grows PMU CPU: its source stores trace, now
grows() {
	local was now i
	was=$(awk -v p="$1.cpu$2.stored" '$1 == p { print $2 }' "$sim/stat")
	for ((i = 0; i < 1200; i++)); do
		now=$(awk -v p="$1.cpu$2.stored" '$1 == p { print $2 }' "$sim/stat")
		[ "${now:-0}" -gt "${was:-0}" ] && return
		sleep 0.05
	done
	return 1
}

# taken PID MASK: none of these signals waits for the process any more
taken() {
	local i key value
	for ((i = 0; i < 1200; i++)); do
		while read -r key value; do
			[ "$key" = ShdPnd: ] && break
		done <"/proc/$1/status" 2>/dev/null || return
		[ $((16#${value:-0} & $2)) = 0 ] && return
		sleep 0.05
	done
	return 1
}

# busy_until FILE: uses the CPU until it is there
busy_until() { while [ ! -e "$1" ]; do :; done; }
export -f busy_until

# busy_on: uses the CPU until it is killed, however slow the machine is
busy_on() { while :; do :; done; }
export -f busy_on

# busy MS: uses the CPU so long
busy() {
	local end=$((${EPOCHREALTIME/./} + $1 * 1000))
	while [ "${EPOCHREALTIME/./}" -lt "$end" ]; do :; done
}
export -f busy

# The kernel must have had nothing to say.
kernel_quiet() {
	dmesg 2>/dev/null | grep -E 'WARNING:|BUG:|Oops|detected stall|blocked for' >"$log"
	[ ! -s "$log" ]
	ok $? "$1: the kernel did not complain" "$log"
}
