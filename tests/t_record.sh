#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# How recordings end, and where a program's own output goes: programs that do not
# end when told to, --overwrite=e, -o -, signals that mean nothing, --max-size.
# shellcheck source=kernel.sh
. "$(dirname "$0")/kernel.sh"
need_soft

### a program that does not listen

cat >"$SCRATCH/deaf.sh" <<'EOF'
trap '' TERM INT HUP
echo up >"$1"
while :; do sleep 0.05; done
EOF

# until_true TEXT COMMAND...: within five minutes
until_true() {
	local text=$1 i
	shift
	for ((i = 0; i < 3000; i++)); do
		"$@" >/dev/null 2>&1 && break
		sleep 0.1
	done
	[ $i -lt 3000 ]
	ok $? "$text" "$SCRATCH/err"
}

for sig in INT TERM; do
	rm -f "$SCRATCH/up"
	rec_bg -e cpu-clock -- bash "$SCRATCH/deaf.sh" "$SCRATCH/up"
	until_true "SIG$sig: the program runs" test -s "$SCRATCH/up"
	read -r kid <"/proc/$bg/task/$bg/children"
	kill -$sig $bg
	until_true "SIG$sig: the program that stays is named" grep -q 'waiting for bash' "$SCRATCH/err"
	that "SIG$sig: it stays" - test -d "/proc/$kid"
	"$auxdecode" info "$data" >"$SCRATCH/info" 2>&1
	that "SIG$sig: the recording is complete before the program ends" "$SCRATCH/info" \
		grep -q '^verdict: no loss recorded' "$SCRATCH/info"
	kill -$sig $bg
	rec_end 0 "SIG$sig, twice"
	that "SIG$sig: the second one kills the program" "$SCRATCH/err" grep -q 'bash was killed by signal 9' "$SCRATCH/err"
	that "SIG$sig: it is gone" - test ! -d "/proc/$kid"
done

# timeout(1) sends two at once, to auxcap and to its group: they are one.
cat >"$SCRATCH/slow.sh" <<'EOF'
trap 'sleep 0.5; echo saved >"$2"; exit' TERM
echo up >"$1"
while :; do sleep 0.05; done
EOF
rm -f "$SCRATCH/up"
rec_bg -e cpu-clock -- bash "$SCRATCH/slow.sh" "$SCRATCH/up" "$SCRATCH/saved"
until_true "a program that ends in its own time runs" test -s "$SCRATCH/up"
kill -TERM $bg
kill -TERM $bg
rec_end 0 "two signals at once"
is "$(cat "$SCRATCH/saved" 2>/dev/null)" saved "two signals at once: the program gets its time"

# With -p the program says how long at most.
sleep 600 &
prog=$!
rec_bg -e cpu-clock -p $prog -- sleep 600
kill $prog
rec_end 0 "-p of a process that ends before the program"
prog=
that "that the program was ended is nothing to tell" "$SCRATCH/err" not grep -q 'killed' "$SCRATCH/err"

### its output

for e in cpu-clock soft_pt//u; do
	rec 0 "-e $e: standard output" -e $e -- /bin/echo said by the program
	is "$(cat "$SCRATCH/out")" "said by the program" "-e $e: standard output is the program's"
	timeout 300 "$auxcap" -q -e $e -o - -- /bin/echo said by the program \
		>"$data" 2>"$SCRATCH/err" </dev/null
	is $? 0 "-e $e -o -: status 0"
	is "$(cat "$SCRATCH/err")" "said by the program" "-e $e -o -: the program's goes to standard error"
	"$auxdecode" info - <"$data" >"$SCRATCH/info" 2>&1
	that "-e $e -o -: and the recording is whole" "$SCRATCH/info" \
		grep -q '^verdict: no loss recorded' "$SCRATCH/info"
done

### signals that would kill: each ends the recording as SIGTERM does, or nothing

for e in cpu-clock soft_pt//u; do
	for sig in QUIT ALRM XCPU VTALRM PROF PWR; do
		[ $e/$sig != soft_pt//u/ALRM ] || [ "$(uname -m)" = x86_64 ] || continue
		rm -f "$SCRATCH/up" "$data"
		# shellcheck disable=SC2016
		"$auxcap" -e $e -o "$data" -- bash -c 'echo up >"$0"; for i in {1..600}; do sleep 0.1; done' \
			"$SCRATCH/up" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
		bg=$!
		until_true "-e $e SIG$sig: the program runs" test -s "$SCRATCH/up"
		kill -$sig $bg
		rec_end 0 "-e $e SIG$sig"
		"$auxdecode" info "$data" >"$SCRATCH/info" 2>&1
		that "-e $e SIG$sig: the recording is complete" "$SCRATCH/info" \
			grep -q '^verdict: no loss recorded' "$SCRATCH/info"
	done
	rm -f "$SCRATCH/up" "$data"
	# shellcheck disable=SC2016
	"$auxcap" -e $e -o "$data" -- bash -c 'echo up >"$0"; sleep 1; kill -USR1 $$; exit 9' \
		"$SCRATCH/up" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
	bg=$!
	until_true "-e $e SIGUSR1: the program runs" test -s "$SCRATCH/up"
	kill -USR1 $bg
	rec_end 0 "-e $e SIGUSR1"
	that "-e $e SIGUSR1: auxcap goes on, the program has its own" "$SCRATCH/err" \
		grep -q 'killed by signal 10' "$SCRATCH/err"
	# the reader of the pipe goes away, and the program still has SIGPIPE
	rm -f "$SCRATCH/up"
	# shellcheck disable=SC2016
	{ timeout 300 "$auxcap" -e $e -o - -- bash -c 'for i in {1..20}; do sleep 0.1; done' 2>"$SCRATCH/err"
		echo $? >"$SCRATCH/status"; } | head -c 100 >/dev/null
	is "$(cat "$SCRATCH/status")" 1 "-e $e, a pipe without a reader: status 1"
	that "-e $e, a pipe without a reader: it is said" "$SCRATCH/err" grep -q 'Broken pipe' "$SCRATCH/err"
	rec 0 "-e $e: the program dies of SIGPIPE as ever" -e $e -- bash -c 'yes | head -n 1'
	is "$(cat "$SCRATCH/out")" y "-e $e: and its output is right"
done

### SIGUSR2, which asks nothing of a software source

# shellcheck disable=SC2016
"$auxcap" -e soft_pt//u -o "$data" -- bash -c 'echo up >"$0"; for i in {1..30}; do sleep 0.1; done' \
	"$SCRATCH/soft.up" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
bg=$!
until_true "soft_pt: the program runs" test -s "$SCRATCH/soft.up"
kill -USR2 $bg
rec_end 0 "SIGUSR2 with soft_pt"
that "SIGUSR2 with soft_pt: it goes on to the end" "$SCRATCH/err" \
	grep -Eq 'instructions, .* nothing lost$' "$SCRATCH/err"

### nothing, and why

rec 0 "-D of more than it takes" -D 600000 -e cpu-clock -- true
that "-D of more than it takes: is told" "$SCRATCH/err" grep -q 'the events were never enabled' "$SCRATCH/err"
rec 0 "-D 1" -D 1 -e cpu-clock -- sleep 3
that "-D 1: they were" "$SCRATCH/err" not grep -q 'never enabled' "$SCRATCH/err"
rec 2 "--switch-max-files alone" --switch-max-files 3 -e cpu-clock -- true
that "--switch-max-files alone: what it needs" "$SCRATCH/err" grep -q 'needs --switch-output' "$SCRATCH/err"

### sizes

rec 0 "--max-size 256K" --max-size 256K -e cpu-clock -F 4000 -- sh -c 'while :; do :; done'
size=$(stat -c %s "$data")
# how far behind the recorder is when it looks decides how much more: two rings
that "--max-size 256K: $size bytes" "$SCRATCH/err" test "$size" -gt 200000 -a "$size" -lt 1500000
that "--max-size 256K: it is told what ended it" "$SCRATCH/err" grep -q 'ended by --max-size$' "$SCRATCH/err"

if [ -z "$tracepoints" ]; then
	skip "$no_tracepoints" "--overwrite=e, rotation"
	finish
fi

### the newest, at the end

plug
# On one CPU: of two rings each keeps its own newest.
one_cpu=(taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')")
rec_bg --overwrite=e -m 8 "${calls[@]}" -- "${one_cpu[@]}" "$counted" 2000 1
go 3
unplug
rec_end 0 "--overwrite=e"
reads "--overwrite=e"
n=$(samples "$data")
that "--overwrite=e: $n of the $total calls" "$SCRATCH/err" test "$n" -gt 0 -a "$n" -lt "$total"
each "--overwrite=e: the newest" $((total - n)) "$total" "$data"
rec 2 "--overwrite=x" --overwrite=x "${calls[@]}" -- true

### threads that begin while their process is attached to

for ((i = 0; i < 3; i++)); do
	prog_start 50 24 400
	rec_bg "${calls[@]}" -p $prog
	go
	order stop
	rec_end 0 "new threads"
	prog_end
	is "$(samples "$data")" "$total" "new threads: all calls of each"
done

### rotation: calls go on while files change

on=("${one_cpu[@]}")
prog_start 400 2
on=()
rec_bg "${calls[@]}" -p $prog --switch-output=signal
for ((i = 0; i < 4; i++)); do
	go 2
	echo go >&5	# is answered after the switch
	order switch
	read -r -t 30 -u 6 total
done
order stop
rec_end 0 "rotation under load"
prog_end
files=("$data".*)
is ${#files[@]} 5 "rotation under load: five files"
each "rotation under load" 0 "$total" "${files[@]}"
n=0
for f in "${files[@]}"; do
	"$auxdecode" dump "$f" 2>/dev/null | grep -qE 'MMAP2? .*/counted' && n=$((n + 1))
done
is $n 5 "rotation under load: each file knows the program"
finish
