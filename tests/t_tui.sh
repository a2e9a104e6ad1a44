#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# `auxdecode tui` in a terminal of tmux: what stands on the screen is what hot, flame
# and count print; keys, sizes, signals, names that would command the terminal; and
# where there is no terminal.
. "$(dirname "$0")/lib.sh"

out=$SCRATCH/out err=$SCRATCH/err screen=$SCRATCH/screen
data=$SCRATCH/threads.data
real=$(realpath "$auxdecode")
unset NO_COLOR

# ---- without a terminal ----
"$auxdecode" tui fixtures/hello_cyc.data >"$out" 2>"$err" </dev/null
is $? 2 "no terminal: status 2"
that "no terminal: which commands there are" "$err" grep -q 'is for a terminal, .*auxdecode hot ' "$err"

"$auxdecode" tui -o "$out" fixtures/hello_cyc.data 2>"$err"
is $? 2 "-o: status 2"

if ! have tmux; then
	skip "no tmux (tools/deps install test)"
	finish
fi
own=$(trap -p EXIT)
n_opened=0
T() { LC_ALL=C.UTF-8 tmux -u -f /dev/null -S "$SCRATCH/tmux$n_opened" "$@"; }
# shellcheck disable=SC2154
trap 'T kill-server 2>/dev/null; [ -z "$own" ] || rm -rf "$SCRATCH"' EXIT

# open_tui COLSxROWS ARG...: auxdecode tui in a new terminal; then its status in a line
open_tui() {
	local size=$1 words
	shift
	words=$(printf '%q ' "$real" tui "$@")
	T kill-server 2>/dev/null
	n_opened=$((n_opened + 1))
	T new-session -d -x "${size%x*}" -y "${size#*x}" \
		"trap : INT; ${setup:-} $words 2>$(printf %q "$err"); rc=\$?; stty -a; echo status \$rc; exec sleep 1000"
}
look() { T capture-pane -p >"$screen"; }
# shows PATTERN TEXT: it comes to stand on the screen, which then stays as it is
shows() {
	local i
	for ((i = 0; i < 2400; i++)); do
		look || break
		if grep -Eq -- "$1" "$screen"; then
			until cmp -s "$screen" "$screen.before"; do
				cp "$screen" "$screen.before"
				sleep 0.05
				look || break
			done
			ok 0 "$2"
			return
		fi
		sleep 0.05
	done
	ok 1 "$2 ($1)" "$screen"
}
keys() { T send-keys "$@"; }

open_tui 80x24 fixtures/hello_cyc.data
look
shows 'done|no ncurses' "it opens"
if grep -q 'no ncurses' "$err"; then
	skip "built without a library: ncurses"
	finish
fi
keys q
shows '^status 0' "q ends it"
that "and the terminal is as before" "$screen" grep -Eq '[^-]icanon' "$screen"
that "what was before is back" "$screen" not grep -q Functions "$screen"

# ---- the same numbers as hot, flame, count ----
"$auxcap" -q -e "soft_pt//u" -o "$data" -- "$programs/threads" >/dev/null 2>"$err"
ok $? "a recording" "$err"

# rows of functions: own%, own, total%, calls, name
functions() { sed -n '3,22p' "$screen" | awk 'NF > 4 { print $1, $2, $3, $4, $5 }'; }
hot() { "$auxdecode" hot -n "$1" "${@:2}" "$data" 2>/dev/null |
	awk '!/^#/ { print $2, $1, $4, $5, $7 }'; }

open_tui 80x24 "$data"
shows '^done, [0-9]+ insns, 6 threads, complete' "the status"
is "$(functions)" "$(hot 20)" "functions: the numbers of hot"
n=$("$auxdecode" count "$data" 2>/dev/null | sed -n 's/^total insns \([0-9]*\) .*/\1/p')
that "as many instructions as count" "$screen" grep -q "^done, $n insns" "$screen"
keys b
shows 'function \(ns\)' "b: by time"
is "$(functions)" "$(hot 20 --by time)" "functions by time: the numbers of hot"
keys b
shows 'function \(branches\)' "b: by branches, for there are no cycles"
is "$(functions)" "$(hot 20 --by branches)" "functions by branches: the numbers of hot"
keys b s
shows '\*total%.*\(instructions\)' "s: by total"
is "$(functions | awk '{ print $3 }')" "$(functions | awk '{ print $3 }' | sort -rn)" "ordered by total"
keys s s s
shows '\*own' "s: around to own"
name=$(functions | awk 'NR == 3 { print $5 }')
keys / "$name" Enter
shows "only with \"$name\"" "/ filters"
is "$(functions)" "$(hot 1000 | grep -F "$name" | head -n 20)" "what passes the filter, as hot has it"
keys / Escape
shows '^ *1 of ' "Esc ends the filter"
name=$(functions | awk 'NR == 1 { print $5 }')
keys Enter
shows 'place 1, by total' "Enter: a place in the call tree"
shows "^ .* $name\$" "of that function"
keys Escape
shows '\*own' "Esc goes back"
keys 5
shows '^0 gaps in the flow' "5: no gaps"
keys '?'
shows '^1 to 5, Tab' "?: help"
keys Tab
shows '\*own' "Tab: the next view, around"
# 24 rows below the tabs, a heading and two lines
keys End
shows '^ *([0-9]+) of \1' "End: the last function" # as many as there are
that "which is drawn" "$screen" grep -q "$(hot 100000 | awk 'END { print $5 }')" "$screen"
keys Home PageDown
shows '^ *20 of ' "PgDn"

# ---- the call tree is that of flame ----
"$auxdecode" flame "$data" 2>/dev/null >"$SCRATCH/flame"
tid=$("$auxdecode" count "$data" 2>/dev/null | awk '$1 == "thread" { print $4, $2 }' | sort -n | awk 'END { print $2 }')
grep "/$tid;" "$SCRATCH/flame" | awk '{ n = $NF; k = split($1, v, ";"); p = ""
	for (i = 1; i <= k; i++) { p = p ";" v[i]; t[p] += n; name[p] = v[i] } }
	END { for (p in t) print t[p], name[p] }' | sort >"$SCRATCH/want"
open_tui 100x900 "$data"
shows '^done' "a large terminal"
keys 2
shows 'call tree' "the call tree"
is "$(awk '$1 ~ /\./ && $NF ~ /^threads\/|^\[unknown\]/ { print $2, $NF }' "$screen" | sort)" \
	"$(awk '{ split($1, v, ";"); t[v[1]] += $NF } END { for (r in t) print t[r], r }' "$SCRATCH/flame" | sort)" \
	"threads: the totals of flame"
keys - e
shows '- threads/' "e opens all below"
shows "$(awk 'END { print $2 }' "$SCRATCH/want")" "its functions"
awk -v root="threads/$tid" '$NF ~ "^threads/" { on = $NF == root } on && $1 ~ /\./ && $2 > 0 { print $2, $NF }' \
	"$screen" | sort >"$SCRATCH/got"
diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
ok $? "all $(wc -l <"$SCRATCH/want") nodes have the totals of flame" "$SCRATCH/diff"
keys c
shows ' [+] threads/' "c closes all below"

# ---- annotate ----
name=$(hot 1 --symbol 'w*' | awk '{ print $5 }')
"$auxdecode" annotate "$name" "$data" 2>/dev/null | grep -v '^# software' >"$SCRATCH/want"
open_tui "180x$(($(wc -l <"$SCRATCH/want") + 10))" "$data"
shows '^done' "annotate"
keys / "$name" Enter a
shows "^# $name in " "a: the function's instructions"
sed -n "3,$(($(wc -l <"$SCRATCH/want") + 2))p" "$screen" | sed 's/ *$//' >"$SCRATCH/got"
sed 's/ *$//' "$SCRATCH/want" | cut -c1-180 | diff - "$SCRATCH/got" >"$SCRATCH/diff"
ok $? "$(wc -l <"$SCRATCH/want") lines are those of annotate" "$SCRATCH/diff"

keys Home / 'call 0x' Enter
n=$(sed -n 's/^ *[0-9]* .* call 0x[0-9a-f]* <\([^>]*\)>.*/\1/p' "$SCRATCH/want" | head -n 1)
that "it calls another one" "$SCRATCH/want" test -n "$n"
keys Enter
shows "^# $n in " "Enter: the function that is called"
keys Escape
shows "^# $name in " "Esc: back"

# ---- colour ----
open_tui 80x24 "$data"
shows '^done' "colour"
T capture-pane -e -p >"$out"
that "numbers and names have colours" "$out" grep -Eq $'\e\\[[0-9;]*33m.*\e\\[[0-9;]*36m' "$out"
that "nothing is black, or has a background" "$out" not grep -Eq $'\e\\[([0-9;]*;)?(30|4[0-7])m' "$out"
setup='NO_COLOR=1' open_tui 80x24 "$data"
shows '^done' "NO_COLOR"
T capture-pane -e -p >"$out"
that "NO_COLOR: no colour" "$out" not grep -Eq $'\e\\[([0-9;]*;)?[34][0-7]m' "$out"

# ---- mouse ----
open_tui 80x24 "$data"
shows '^done' "mouse"
# mouse BUTTON COLUMN ROW: pressed and released (3), as a terminal sends it
mouse() {
	local button
	for button in "$1" 3; do
		keys -H 1b 5b 4d "$(printf %x $((button + 32)))" "$(printf %x $(($2 + 32)))" "$(printf %x $(($3 + 32)))"
	done
}
mouse 0 5 6
shows '^4 of ' "a click chooses a row"
mouse 65 5 6
shows '^7 of ' "the wheel"
mouse 0 20 1
shows 'call tree' "a click on a tab"

# ---- threads ----
open_tui 100x24 "$data"
shows '^done' "threads"
keys 3
shows '^thread +insns%' "3: threads"
is "$(sed -n '3,8p' "$screen" | awk '{ print $1 }')" \
	"$("$auxdecode" count "$data" 2>/dev/null | awk '$1 == "thread" { print $4, "threads/" $2 }' |
		sort -rn | awk '{ print $2 }')" "those of count, most instructions first"
shows '^--time [0-9.]+,[0-9.]+: ran' "what is under the cursor"
range=$(sed -n 's/^--time \([0-9.,]*\): .*/\1/p' "$screen")
whole=$(sed -n '2s/.*insns% *//p' "$screen")
keys + + +
shows '^--time' "zooms in"
for ((i = 0; i < 100; i++)); do
	look
	[ "$(sed -n '2s/.*insns% *//p' "$screen")" = "$whole" ] || break
	sleep 0.05
done
that "another part of the time" "$screen" not grep -qF -- "$whole" "$screen"
keys 0
shows "^--time $range" "0: all of it"
keys Down Enter
shows 'only threads/' "Enter: this thread alone"
tid=$(sed -n 's/.*only threads.//p' "$screen")
is "$(functions)" "$(hot 20 --tid "$tid")" "functions of a thread: the numbers of hot --tid"
keys t
shows '^done, [^o]*complete$' "t: all threads again"

# ---- sizes ----
open_tui 40x10 "$data"
shows '^done' "40 columns, 10 rows"
is "$(functions | head -n 6 | awk '{ print $2 }')" "$(hot 6 | awk '{ print $2 }')" "40 columns: the numbers"
T resize-window -x 30 -y 8
shows '^30x8 is too small' "too small: says so"
T resize-window -x 160 -y 50
shows 'total%.*total.*calls.*\(by instructions\)' "wide: all columns"
is "$(sed -n '3,12p' "$screen" | awk '{ print $1, $2, $3, $4, $5, $6 }')" \
	"$("$auxdecode" hot -n 10 "$data" 2>/dev/null | awk '!/^#/ { print $2, $1, $4, $3, $5, $7 }')" \
	"wide: the numbers of hot"

# ---- gaps ----
"$auxcap" -q -e "soft_pt/psb_period=0/u" --inject-overflow 1 -o "$SCRATCH/gaps.data" \
	-- "$programs/threads" >/dev/null 2>&1
"$auxdecode" count "$SCRATCH/gaps.data" >/dev/null 2>"$err.gaps"
n=$(sed -n 's/^auxdecode: \([0-9]*\) gaps* in the flow.*/\1/p' "$err.gaps")
open_tui 80x24 "$SCRATCH/gaps.data"
shows "^done, .* $n gaps?" "a trace with gaps: the status counts them"
keys 5
shows "^$n gaps? in the flow" "gaps: as the verdict has them"
that "gaps: by cause" "$screen" grep -Eq '^ +[0-9]+ overflow +' "$screen"
is "$(grep -Ec '^ +[0-9.]+ +[0-9]+ +[0-9]+ +0x[0-9a-f]+ overflow' "$screen")" \
	"$("$auxdecode" insn "$SCRATCH/gaps.data" 2>/dev/null | grep -c '^# gap overflow')" "each one is listed"

# ---- foreign names ----
cp "$programs/hello_static" "$SCRATCH/evil"
objcopy --redefine-sym main=$'ev\e[31mil\tx\xe2\x80\xaey' "$SCRATCH/evil" 2>"$err"
"$auxcap" -q -e "soft_pt//u" -o "$SCRATCH/evil"$'\e'"[7m.data" -- "$SCRATCH/evil" >/dev/null 2>>"$err"
ok $? "a program with a name that commands terminals" "$err"
open_tui 80x24 "$SCRATCH/evil"$'\e'"[7m.data"
shows '^done' "it is shown"
keys / ev Enter
shows 'ev\?\[31mil\?x\?y' "a foreign name: cleaned"

# ---- how it ends ----
for sig in INT TERM HUP SEGV; do
	# the sanitizers end it with a status of their own
	[ $sig:${SAN:-} != SEGV:1 ] || continue
	open_tui 80x24 "$data"
	shows '^done' "$sig: runs"
	if [ $sig = INT ]; then
		keys C-c
	else
		kill -$sig "$(ps -o pid= --ppid "$(T display-message -p '#{pane_pid}')")"
	fi
	shows "^status $((128 + $(kill -l $sig)))" "$sig: it ends by it"
	that "$sig: the terminal is as before" "$screen" grep -Eq '[^-]icanon' "$screen"
done
setup='TERM=nonesuch' open_tui 80x24 "$data"
shows '^status 1' "an unknown terminal: status 1"
that "an unknown terminal: says so" "$err" grep -q '"nonesuch" (TERM) is not known' "$err"
setup='TERM=dumb' open_tui 80x24 "$data"
shows '^status 1' "a terminal that cannot place text: status 1"
open_tui 80x24 "$SCRATCH/absent"
shows '^status 1' "no such file: status 1"
that "no such file: says so" "$err" grep -q 'absent: cannot open' "$err"
setup='LC_ALL=C' open_tui 80x24 "$data"
shows '^done' "a locale without UTF-8"
is "$(functions)" "$(hot 20)" "a locale without UTF-8: the same"
finish
