#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The command line: exit statuses, usage errors, help against the man pages.
. "$(dirname "$0")/lib.sh"

# run WANTED-STATUS TEXT COMMAND...: also: errors go to stderr, in our form
run() {
	local want=$1 text=$2 rc
	shift 2
	timeout 60 "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	rc=$?
	is $rc "$want" "$text: status $want" || sed 's/^/#   /' "$SCRATCH/err"
	case $want in
	1|2)
		that "$text: says why" "$SCRATCH/err" \
			grep -Eq '^aux(cap|decode): error: |^usage: aux' "$SCRATCH/err"
		;;
	esac
}

says() { # PATTERN TEXT: on stderr of the last run
	that "$2" "$SCRATCH/err" grep -Eiq -- "$1" "$SCRATCH/err"
}

for p in "$auxcap" "$auxdecode"; do
	name=$(basename "$p")
	run 0 "$name --help" "$p" --help
	that "$name --help prints" - test -s "$SCRATCH/out"
	that "$name --help prints nothing on stderr" "$SCRATCH/err" test ! -s "$SCRATCH/err"
	run 0 "$name --version" "$p" --version
	run 2 "$name without arguments" "$p"
	run 2 "$name --nonsense" "$p" --nonsense
	sed 's/\\-/-/g; s/Fl Fl /--/g; s/Fl -/--/g' ./*/"$name.1" >"$SCRATCH/page"
	for option in $("$p" --help | grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z0-9-]+' |
			grep -oE -- '--.*' | sort -u); do
		that "$name.1 describes $option" - grep -q -- "$option" "$SCRATCH/page"
	done
	that "$name.1 has exit statuses" - grep -qi 'exit status' "$SCRATCH/page"
done

hello=$programs/hello_asm
out=$SCRATCH/cli.data
run 2 "unknown event" "$auxcap" -e nonsense// -o "$out" -- "$hello"
run 2 "unknown term" "$auxcap" -e soft_pt/nonsense=1/u -o "$out" -- "$hello"
says 'psb_period|noretcomp' "an unknown term: the error lists the terms"
run 2 "psb_period out of range" "$auxcap" -e soft_pt/psb_period=99/u -o "$out" -- "$hello"
says 'psb_period.*[0-9]' "psb_period out of range: the error gives the legal values"
run 2 "no program" "$auxcap" -e soft_pt//u -o "$out"
run 1 "program that is not there" "$auxcap" -e soft_pt//u -o "$out" -- "$SCRATCH/absent"
run 1 "output that cannot be written" "$auxcap" -e soft_pt//u -o "$SCRATCH/no/such" -- "$hello"
run 0 "a recording" "$auxcap" -e soft_pt//u -o "$out" -- "$hello"
cp "$out" "$SCRATCH/first"
run 0 "the output exists" "$auxcap" -e soft_pt//u -o "$out" -- "$hello"
that "an older recording is kept as .old" - cmp -s "$SCRATCH/first" "$out.old"

for sub in insn branch count info dump raw; do
	run 0 "auxdecode $sub" "$auxdecode" $sub "$out"
	that "auxdecode $sub prints something" - test -s "$SCRATCH/out"
done
run 0 "auxdecode FILE" "$auxdecode" "$out"
cp "$SCRATCH/out" "$SCRATCH/default"
"$auxdecode" insn "$out" >"$SCRATCH/insn"
that "auxdecode FILE is auxdecode insn FILE" - cmp -s "$SCRATCH/default" "$SCRATCH/insn"
that "insn shows symbols" "$SCRATCH/insn" grep -q work "$SCRATCH/insn"
that "insn shows disassembly" "$SCRATCH/insn" grep -q syscall "$SCRATCH/insn"
"$auxdecode" insn -F tid,ip "$out" >"$SCRATCH/insn"
that "insn -F tid,ip: TID HEX, or #" "$SCRATCH/insn" \
	not grep -Evq '^#|^[0-9]+ [0-9a-f]+$' "$SCRATCH/insn"
run 2 "unknown subcommand or file" "$auxdecode" insn
run 2 "unknown column" "$auxdecode" insn -F nonsense "$out"
run 2 "bad --tid" "$auxdecode" insn --tid x "$out"
run 1 "file that is not there" "$auxdecode" insn "$SCRATCH/absent"
for j in 1 2 5; do
	"$auxdecode" insn -j $j "$out" >"$SCRATCH/j$j" 2>&1
	that "-j $j prints the same bytes" - cmp -s "$SCRATCH/j1" "$SCRATCH/j$j"
done

# Filters: what is left is a part, in order.
tid=$(awk '!/^#/ { print $1; exit }' "$SCRATCH/insn")
n=$(grep -vc '^#' "$SCRATCH/insn")
is "$("$auxdecode" insn -F tid,ip --tid "$tid" "$out" | grep -vc '^#')" "$n" "--tid of the only thread"
is "$("$auxdecode" insn -F tid,ip --tid 1 "$out" | grep -vc '^#')" 0 "--tid of another thread"
is "$("$auxdecode" insn -F ip --symbol work "$out" | grep -vc '^#')" 30 "--symbol work: what work() ran"

# A full disk and a closed pipe.
if [ -w /dev/full ]; then
	"$auxdecode" insn "$out" >/dev/full 2>"$SCRATCH/err"
	is $? 1 "standard output is full: status 1"
fi
"$auxdecode" insn "$out" 2>"$SCRATCH/err" | head -n 1 >/dev/null
that "a closed pipe is no drama" "$SCRATCH/err" not grep -Eq 'Sanitizer|rror' "$SCRATCH/err"
finish
