#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# What makes the programs pleasant: the first screen, pager and colour on a terminal,
# --help with examples, words completed by the shells.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/threads.data
"$auxcap" -q -e "soft_pt//u" -o "$data" -- "$programs/threads" >/dev/null 2>"$SCRATCH/err"
ok $? "a recording" "$SCRATCH/err"
"$auxdecode" count "$data" 2>/dev/null >"$SCRATCH/count"
"$auxdecode" insn "$data" >"$SCRATCH/insn"
unset NO_COLOR PAGER AUXDECODE_PAGER LESS
export TERM=xterm
esc=$(printf '\033')
real=$(realpath "$auxdecode")

has() { # PATTERN TEXT [FILE]
	that "$2" "${3:-$SCRATCH/out}" grep -Eq -- "$1" "${3:-$SCRATCH/out}"
}
hasnt() { # PATTERN TEXT [FILE]
	that "$2" "${3:-$SCRATCH/out}" not grep -Eq -- "$1" "${3:-$SCRATCH/out}"
}
terminal() { # COMMAND...: as on a terminal
	python3 - "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" <<'EOF'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        break
    if not piece:
        break
    out += piece
sys.stdout.buffer.write(out.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
EOF
}

# ---- the first screen ----
"$auxdecode" summary "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 0 "summary: status 0" || cat "$SCRATCH/err"
total=$(awk '$1 == "total" { print $3 }' "$SCRATCH/count")
has "^trace .* $total instructions in 6 threads" "summary: as many instructions as count"
has '^verdict +complete' "summary: a verdict"
top=$("$auxdecode" hot -n 10 "$data" 2>/dev/null | awk '!/^#/ { print $1, $5, $(NF - 1) }')
is "$(awk '/functions that ran/ { on = 1; next } !NF { on = 0 } on { print $1, $3, $4 }' "$SCRATCH/out")" "$top" \
	"summary: the functions that ran most, as hot lists them"
is "$(awk '/threads$/ && /tid/ { on = 1; next } !NF { on = 0 } on { print $3, $1 }' "$SCRATCH/out" | sort)" \
	"$(awk '$1 == "thread" { print $2, $4 }' "$SCRATCH/count" | sort)" "summary: threads, as count has them"
that "summary: fits a screen" - test "$(wc -l <"$SCRATCH/out")" -le 40
sed -n 's/^  auxdecode \([a-z]*\) .*/\1/p' "$SCRATCH/out" >"$SCRATCH/next"
that "summary: commands to go on with" - test "$(wc -l <"$SCRATCH/next")" -ge 5
while read -r command; do
	that "summary: there is $command" - eval '"$auxdecode" "$command" --help >/dev/null'
done <"$SCRATCH/next"
hasnt "$esc" "summary into a file: no colour"
"$auxcap" -q -e "soft_pt/psb_period=0/u" --inject-overflow 1 -o "$SCRATCH/gaps.data" -- "$programs/names" >/dev/null 2>&1
"$auxdecode" summary "$SCRATCH/gaps.data" >"$SCRATCH/out" 2>&1
is $? 3 "summary with gaps: status 3"
has '^verdict +parts are missing' "summary with gaps: says so"
has '^ +[0-9]+ overflow +the CPU' "summary with gaps: which, and why"
"$auxdecode" summary "$SCRATCH/absent" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "summary of nothing: status 1"
head -c 3000 "$data" >"$SCRATCH/cut.data"
"$auxdecode" summary "$SCRATCH/cut.data" >"$SCRATCH/out" 2>&1
that "summary of a cut file: lives" - not crashed $?

"$auxdecode" "$data" >"$SCRATCH/out" 2>/dev/null
that "into a file: insn, as ever" - cmp -s "$SCRATCH/out" "$SCRATCH/insn"
export AUXDECODE_PAGER=cat
terminal "$auxdecode" "$data"
is $? 0 "on a terminal: status 0"
has "^(${esc}\[1m)?verdict" "on a terminal: the first screen"
terminal "$auxdecode" insn --color never "$data"
that "insn on a terminal: insn, as ever" - cmp -s "$SCRATCH/out" "$SCRATCH/insn"
terminal "$auxdecode" summary "$SCRATCH/gaps.data"
is $? 3 "on a terminal, with gaps: status 3"

# ---- colour ----
terminal "$auxdecode" insn -n 5 "$data"
has "$esc" "insn on a terminal: colour"
sed "s/$esc\[[0-9;]*m//g" "$SCRATCH/out" >"$SCRATCH/plain"
that "and nothing but colour" - eval 'head -n "$(wc -l <"$SCRATCH/plain")" "$SCRATCH/insn" | cmp -s - "$SCRATCH/plain"'
terminal env NO_COLOR=1 "$real" insn -n 5 "$data"
hasnt "$esc" "NO_COLOR: none"
terminal env NO_COLOR=1 "$real" insn -n 5 --color always "$data"
has "$esc" "NO_COLOR, --color always: colour"
terminal env TERM=dumb "$real" insn -n 5 "$data"
hasnt "$esc" "a dumb terminal: none"
"$auxdecode" insn -n 5 --color always "$data" >"$SCRATCH/out"
has "$esc\[36m_start$esc\[0m\+0x0" "--color always into a file: names"
"$auxdecode" insn --color always "$data" >"$SCRATCH/out"
sed "s/$esc\[[0-9;]*m//g" "$SCRATCH/out" | cmp -s - "$SCRATCH/insn"
ok $? "--color always: all of it, and nothing but colour"
"$auxdecode" insn --color always "$SCRATCH/gaps.data" >"$SCRATCH/out" 2>/dev/null
is $? 3 "--color always: the status stays"
has "^$esc\[31m# gap" "gaps are red"
"$auxdecode" insn --color always -o "$SCRATCH/out" "$data"
that "--color always -o FILE: the file is not touched" - cmp -s "$SCRATCH/out" "$SCRATCH/insn"
"$auxdecode" insn --color sometimes "$data" 2>"$SCRATCH/err"
is $? 2 "--color sometimes: status 2"
"$auxdecode" diff --color always "$data" "$data" >"$SCRATCH/out"
has "$esc\[32m" "diff: colour"

# ---- pager ----
export AUXDECODE_PAGER='sed s/^/paged:/'
terminal "$auxdecode" insn -n 5 "$data"
is $? 0 "a pager: status 0"
is "$(grep -vc '^paged:' "$SCRATCH/out")" 0 "all goes through the pager"
terminal "$auxdecode" insn "$SCRATCH/gaps.data"
is $? 3 "a pager: the status is the command's"
has '^paged:.*auxdecode: [0-9]+ gaps? in the flow' "what goes to standard error, too"
terminal "$auxdecode" insn --no-pager -n 5 "$data"
hasnt paged: "--no-pager: none"
terminal env AUXDECODE_PAGER= "$real" insn -n 5 "$data"
hasnt paged: "an empty one: none"
terminal env -u AUXDECODE_PAGER PAGER='sed s/^/second:/' "$real" insn -n 5 "$data"
has ^second: "\$PAGER"
terminal env AUXDECODE_PAGER='head -n 1' "$real" insn "$data"
is $? 0 "a pager that is left early: no failure"
is "$(wc -l <"$SCRATCH/out")" 1 "and nothing behind it"
terminal env AUXDECODE_PAGER=/no/such/pager "$real" insn -n 5 "$data"
that "a pager that is not there: no crash" - not crashed $?
"$auxdecode" insn "$data" >"$SCRATCH/out"
that "into a file: no pager" - cmp -s "$SCRATCH/out" "$SCRATCH/insn"

# ---- help ----
"$auxdecode" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p' >"$SCRATCH/commands"
while read -r command; do
	"$auxdecode" "$command" --help >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 0 "$command --help: status 0"
	has "^  auxdecode $command .*[^ ]" "$command --help: an example"
	# words of examples are words that the command takes
	sed -n "s/^  auxdecode $command //p" "$SCRATCH/out" | tr ' ' '\n' | grep -oE '^--?[a-zA-Z-]+' | sort -u >"$SCRATCH/used"
	while read -r option; do
		has "(^|[ ,])$option([ ,=]|\$)" "$command --help: there is $option"
	done <"$SCRATCH/used"
	that "auxdecode.1 has $command" - grep -Eq "(Cm|,) $command\\b|Cm .*\\b$command\\b" decode/auxdecode.1
done <"$SCRATCH/commands"
"$auxdecode" sumary "$data" 2>"$SCRATCH/err"
is $? 2 "a wrong command: status 2"
has 'did you mean summary' "a wrong command: the right one" "$SCRATCH/err"

# ---- completion ----
for p in auxcap auxdecode; do
	"$BUILD/$p" --completion bash >"$SCRATCH/$p.bash"
	is $? 0 "$p --completion bash"
	for shell in bash zsh fish; do
		"$BUILD/$p" --completion $shell >"$SCRATCH/$p.$shell"
		that "$p: $shell can read it" - $shell -n "$SCRATCH/$p.$shell"
	done
	"$BUILD/$p" --completion nonsense >/dev/null 2>&1
	is $? 2 "$p --completion nonsense: status 2"
	# all options of the program are in it
	for option in $("$BUILD/$p" --help | grep -oE -- '(^|[ ,])--[a-z][a-z0-9-]+' | tr -d ' ,' | sort -u); do
		for shell in bash zsh fish; do
			word=$option
			[ $shell = fish ] && word="-l ${option#--}( |\$)"
			that "$p, $shell: $option" - grep -Eq -- "$word" "$SCRATCH/$p.$shell"
		done
	done
done
complete_bash() { # WORDS...: what bash offers for the last
	bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_$1"; printf "%s\n" "${COMPREPLY[@]}"' \
		- "$SCRATCH/$1.bash" "$@" 2>&1 | sort | tr '\n' ' '
}
touch "$SCRATCH/with blank.data"
is "$(complete_bash auxdecode summ)" "summary " "bash: a command"
is "$(complete_bash auxdecode insn --synt)" "--syntax " "bash: an option"
is "$(complete_bash auxdecode insn --syntax '')" "att intel " "bash: its values"
is "$(complete_bash auxdecode insn --syntax = a)" "att " "bash: its values behind ="
is "$(complete_bash auxdecode info --synt)" " " "bash: only what the command takes"
is "$(complete_bash auxdecode info "$SCRATCH/with")" "$SCRATCH/with blank.data " "bash: a file with a blank"
is "$(complete_bash auxdecode info -o "$SCRATCH/with")" "$SCRATCH/with blank.data " "bash: an option's file"
is "$(complete_bash auxcap doc | grep -ow doctor)" "doctor" "bash: auxcap's commands"
is "$(complete_bash auxcap record --all)" "--all-cpus --all-kernel --all-user " "bash: auxcap's options"
complete_fish() {
	fish -c "source $SCRATCH/$1.fish; complete -C '$2'" 2>&1 | cut -f1 | sort | tr '\n' ' '
}
is "$(complete_fish auxdecode 'auxdecode insn --synt')" "--syntax " "fish: an option"
is "$(complete_fish auxdecode 'auxdecode info --synt')" "" "fish: only what the command takes"
is "$(complete_fish auxdecode 'auxdecode --color al')" "always " "fish: its values"
is "$(complete_fish auxcap 'auxcap repair --dry')" "--dry-run " "fish: auxcap's options"
finish
