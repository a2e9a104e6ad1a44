#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# Names that a file or a program chose, in all that is printed: a program whose path,
# functions, source, name and arguments hold terminal commands, line feeds, C1 controls,
# marks of direction and bytes that are no UTF-8 runs under auxcap. No command may let
# any of them through, to standard output or standard error, nor make lines of them.
. "$(dirname "$0")/lib.sh"

h=$SCRATCH/foreign
evil=$'e\e]0;x\aSF:\nSF:etc,w;\xc2\x9b31m\xe2\x80\xaegnp\xe2\x81\xa7.\xff\x9bz'
mkdir -p "$h"
# the path without the line feed: how the recorder writes that is another matter
place=$h/${evil//$'\n'/_}
mkdir "$place"
# one name for the function and its source, of as many bytes, which is replaced by it
export LC_ALL=C
name=$(printf '%*s' ${#evil} '' | tr ' ' W)
cat >"$h/main.c" <<C
#include <sys/prctl.h>
#line 7 "$name"
__attribute__((noinline)) int $name(int n)
{
	return n < 2 ? 1 : $name(n - 1) + $name(n - 2);
}
int main(int argc, char **argv)
{
	prctl(PR_SET_NAME, argv[1]);
	return $name(5) == 0 || argc == 0;
}
C
gcc -g -O0 -static -o "$h/plain" "$h/main.c" 2>"$SCRATCH/err"
ok $? "the program is built" "$SCRATCH/err"
python3 - "$h/plain" "$name" "$evil" "$place/prog" <<'PY'
import os, sys
path, name, evil, to = map(os.fsencode, sys.argv[1:])
b = open(path, "rb").read()
assert b.count(name) >= 2 and len(name) == len(evil)
open(to, "wb").write(b.replace(name, evil))
os.chmod(to, 0o755)
PY
ok $? "its names are hostile"
data=$h/hostile.data
"$auxcap" -e "soft_pt//u" -o "$data" -- "$place/prog" "${evil:0:14}" "$evil" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 0 "recorded" || sed 's/^/#   /' "$SCRATCH/err" | cat -v
that "the program is in it" - grep -qaF $'\xe2\x80\xaegnp' "$data"

# The host's and the event's name in the file, replaced by as many bytes of ours.
python3 - "$data" "$(uname -n)" "$(uname -r)" <<'PY'
import sys
path, *names = sys.argv[1:]
b = bytearray(open(path, "rb").read())
evil = b"\x1b[31m\x07\n\xc2\x9b\xe2\x80\xae\xff"
for name in [n.encode() + b"\0" for n in names] + [b"soft_pt//u\0", b"x86_64\0"]:
    at = 0
    while (at := b.find(name, at)) >= 0:
        n = len(name) - 1
        b[at:at + n] = (evil * 20)[:n]
        at += n
open(path, "wb").write(b)
PY
ok $? "hostile names in the header"

# clean TEXT FILE: no control character but line feed and tab, nothing of C1 or of
# direction, valid UTF-8; and no line begins with what the name put behind its line feed
clean() {
	python3 - "$2" >"$SCRATCH/py" <<'PY'
import re, sys
b = open(sys.argv[1], "rb").read()
bad = []
try:
    s = b.decode()
except UnicodeDecodeError as e:
    bad.append(f"no UTF-8: {b[max(0, e.start - 60):e.end + 20]!r}")
    s = b.decode(errors="replace")
for m in re.finditer("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", s):
    bad.append(repr(s[max(0, m.start() - 60):m.end() + 20]))
for m in re.finditer("^(SF:etc|\\[31m)", s, re.M):
    bad.append("a line of its own: " + repr(s[max(0, m.start() - 60):m.end() + 20]))
print("\n".join(bad[:5]))
sys.exit(bool(bad))
PY
	ok $? "$1" "$SCRATCH/py"
}

# run STATUS|any NAME ARGUMENTS...: both outputs of auxdecode are clean
run() {
	local want=$1 name=$2 rc
	shift 2
	"$auxdecode" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	rc=$?
	[ "$want" = any ] || is $rc "$want" "$name: status" || cat -v "$SCRATCH/err" | sed 's/^/#   /'
	clean "$name: standard output" "$SCRATCH/out"
	clean "$name: standard error" "$SCRATCH/err"
	[ "$want" = any ] || that "$name: there is output" - test -s "$SCRATCH/out" -o -s "$SCRATCH/err"
}

all() { # STATUS NAME FILE: every command that prints text
	run "$1" "$2: insn" insn -F +cpu,comm,dso,sym,bytes "$3"
	run "$1" "$2: branch" branch -F +comm "$3"
	run "$1" "$2: count" count "$3"
	run "$1" "$2: calls" calls "$3"
	run "$1" "$2: calls by column" calls -F time,comm,sym,dso "$3"
	run "$1" "$2: calls with lines" calls --source --inline "$3"
	run "$1" "$2: insn with lines" insn --source "$3"
	run "$1" "$2: flame" flame "$3"
	run "$1" "$2: flame --per all" flame --per all "$3"
	run "$1" "$2: flame svg" flame --svg "$3"
	run "$1" "$2: hot" hot "$3"
	run "$1" "$2: hot --edges" hot --edges "$3"
	run "$1" "$2: hot --blocks" hot --blocks "$3"
	run "$1" "$2: latency" latency '*gnp*' "$3"
	run "$1" "$2: find" find '*gnp*' "$3"
	run "$1" "$2: report" report "$3"
	run "$1" "$2: summary" summary "$3"
	run "$1" "$2: summary as json" summary --json "$3"
	run "$1" "$2: info as json" info --json "$3"
	run "$1" "$2: hot as json" hot --json -n 999 "$3"
	run "$1" "$2: find as json" find --json '*gnp*' "$3"
	run "$1" "$2: annotate" annotate -n 999 "$3"
	run "$1" "$2: annotate as json" annotate -n 999 --to json "$3"
	run "$1" "$2: annotate as html" annotate -n 999 --to html "$3"
	run "$1" "$2: coverage" coverage "$3"
	run "$1" "$2: lcov" coverage --to lcov "$3"
	run "$1" "$2: afl" coverage --to afl "$3"
	run "$1" "$2: profile" profile "$3"
	run "$1" "$2: autofdo" profile --to autofdo "$3"
	run "$1" "$2: bolt" profile --to bolt "$3"
	run "$1" "$2: diff" diff "$3" "$3"
	for to in chrome firefox speedscope callgrind jsonl; do
		run "$1" "$2: $to" export --to $to "$3"
	done
}
all 0 hostile "$data"
run 0 info info "$data"
run 0 dump dump "$data"
if [ -n "$(no_libipt)" ]; then
	skip "$(no_libipt)" verify
else
	run 0 verify verify "$data"
fi
run 0 raw raw "$data"
"$auxdecode" coverage --to lcov -o "$h/lcov" "$data" 2>"$SCRATCH/err"
run 0 "merge of lcov" merge -o /dev/stdout "$h/lcov" "$h/lcov"
"$auxdecode" coverage --to drcov -o "$h/drcov" "$data" 2>"$SCRATCH/err"
is $? 0 "drcov: status"
sed '/^BB Table/,$d' "$h/drcov" >"$h/drcov.head"
clean "drcov: its text" "$h/drcov.head"
is "$(grep -c '^ *[0-9]*, 0x' "$h/drcov.head")" "$(sed -n 's/^Module Table: version 2, count //p' "$h/drcov.head")" \
	"drcov: a line for each module"
that "drcov: seven columns, whatever the path" "$h/drcov.head" eval '! grep "^ *[0-9]*, 0x" "$h/drcov.head" | grep -qv "^\([^,]*,\)\{6\}[^,]*$"'
"$auxdecode" merge -o "$h/drcov2" "$h/drcov" "$h/drcov" 2>"$SCRATCH/err"
that "merge of drcov: the same" "$SCRATCH/err" cmp -s "$h/drcov" "$h/drcov2"
is "$("$auxdecode" flame --per all "$data" 2>/dev/null | grep -c '^[^ ]* [0-9]*$')" \
	"$("$auxdecode" flame --per all "$data" 2>/dev/null | wc -l)" "folded: a name has no separator in it"
"$auxdecode" profile -o "$h/list" "$data" 2>"$SCRATCH/err"
run 0 "bolt of a list" profile --to bolt "$h/list"
# the name is read back as it was
is "$("$auxdecode" profile --to bolt --module "$place/prog" "$h/list" 2>&1 | sha256sum)" \
	"$("$auxdecode" profile --to bolt "$h/list" 2>&1 | sha256sum)" "a list: a path is read back as it was"

# the same without the program: what is missing is named
rm "$place/prog"
"$auxdecode" insn "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
that "code is missing, and it says where" "$SCRATCH/err" grep -q "needed, for [0-9]* of them: " "$SCRATCH/err"
all any missing "$data"
for c in insn info dump raw count bundle; do
	"$auxdecode" $c "$place/none" >"$SCRATCH/out" 2>"$SCRATCH/err"
	clean "$c: a file that is not there: standard error" "$SCRATCH/err"
done
"$auxdecode" profile --to bolt --module none "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
clean "profile: a module that is not there" "$SCRATCH/err"
"$auxdecode" coverage --module none "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
clean "coverage: a module that is not there" "$SCRATCH/err"
finish
