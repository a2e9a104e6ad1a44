#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Commands to go on with, which results and messages name: each can be pasted into a
# shell, keeps the options of the user's own call, and so finds the same code. The
# program's code is under --symfs alone, and each path has blanks and quotes in it.
. "$(dirname "$0")/lib.sh"

decode=$(realpath "$auxdecode") page=$(realpath tests/report_page.py)
mkdir -p "$SCRATCH/bin" "$SCRATCH/here"
ln -sf "$decode" "$SCRATCH/bin/auxdecode"
cap=$(realpath "$auxcap")
cd "$SCRATCH/here" || exit 1
PATH=$SCRATCH/bin:$PATH
root="$SCRATCH/it's the \"root\" \$HOME" data="my 'odd' \"file\".data"

cat >prog.c <<'END'
__attribute__((noinline)) int inner(int n)
{
	volatile int s = 0;
	for (int i = 0; i < n; i++)
		s += i;
	return s;
}
__attribute__((noinline)) int outer(int n) { return inner(n) + inner(n / 2); }
int main(void)
{
	int s = 0;
	for (int i = 0; i < 20; i++)
		s += outer(i * 3);
	return s == 1;
}
END
cc -O1 -g -static -Wl,--build-id -o prog prog.c
"$cap" -q -e "soft_pt//u" -o "$data" -- ./prog >err 2>&1
ok $? "a recording" err
mkdir -p "$root/$(dirname "$PWD/prog")"
mv prog "$root/$PWD/prog"
auxdecode count --no-progress "$data" >out 2>&1
is $? 1 "without --symfs code is missing"
auxdecode count --symfs "$root" "$data" >out 2>&1
is $? 0 "with --symfs it is there" || cat out

# follows TEXT N: the commands in the file "commands", at least N, one a line: each is
# run as a person would paste it, after the words in capitals got a meaning.
follows() {
	local n=0 bad=0 words rc
	while read -r words; do
		n=$((n + 1))
		words=${words//FUNCTION/outer}
		words=${words//TIME/1ns}
		words=${words//OTHER/"${quoted:?}"}
		# a screen wants a terminal; hot takes the same options
		words=${words/#auxdecode tui/auxdecode hot}
		sh -c "$words" >run.out 2>run.err </dev/null
		rc=$?
		if [ $rc != 0 ] || grep -Eq 'needed, for|no-code' run.err run.out; then
			bad=1
			echo "# $rc: $words"
			head -n 3 run.err | sed 's/^/#  /'
		fi
	done <commands
	[ $n -ge "$2" ] || { bad=1; echo "# $n commands"; }
	ok $bad "$1: $n commands find the code" commands
}
quoted="'my '\\''odd'\\'' \"file\".data'"

# Every command that has --json says what to do next; find and latency say more.
from_json() {
	python3 - out >commands <<'END'
import json, sys
def walk(v):
    if isinstance(v, dict):
        if v.get("command", "").startswith("auxdecode "):
            print(v["command"])
        v = list(v.values())
    if isinstance(v, list):
        for w in v:
            walk(w)
walk(json.load(open(sys.argv[1])))
END
}
all=(--symfs "$root" --max-memory 300M)
flow=("${all[@]}" --decoder pt --no-demangle --full-names)
tid=$(auxdecode count "$data" 2>/dev/null | awk '$1 == "thread" { print $2 }')
for words in "summary" "count" "count --comm prog --tid $tid --cpu 0 --time 0," "count --symbol outer" "hot" \
	"hot --symbol in* --symbol out*" "hot --module prog --symbol outer" "coverage --symbol outer" "latency outer" \
	"latency --comm prog --pid $tid outer" "latency --symbol outer --symbol inner" "find outer" \
	"find --last 100 outer --longer 1ns" "find --chunk 0 --tid $tid --from main inner"; do
	# shellcheck disable=SC2086
	auxdecode $words "${flow[@]}" --json "$data" >out 2>err
	is $? 0 "$words --json" || head -n 3 err
	from_json
	follows "$words --json" 2
done
auxdecode info --json --max-memory 300M "$data" >out 2>err
from_json
sed -i "s|^auxdecode summary|& --symfs '${root//\'/\'\\\\\'\'}'|" commands
follows "info --json" 2
auxdecode verify --json "${all[@]}" "$data" >out 2>err
if [ $? = 0 ]; then
	from_json
	follows "verify --json" 2
else
	skip "no second decoder" "verify --json"
fi
for words in "diff" "diff --tid $tid:$tid --cpu 0"; do
	# shellcheck disable=SC2086
	auxdecode $words --json "${all[@]}" "$data" "$data" >out 2>err
	is $? 0 "$words --json" || head -n 3 err
	from_json
	follows "$words --json" 2
done
is "$(grep -c -- "--tid $tid " commands)" 2 "diff: --tid of the first recording stays"

# The same in text.
auxdecode summary "${flow[@]}" "$data" 2>err | sed -n 's/^  \(auxdecode .*[^ ]\)  *# .*/\1/p' >commands
follows summary 7
auxdecode find "${flow[@]}" outer "$data" 2>err | sed -n 's/.*  \(auxdecode calls .*\)/\1/p' >commands
is "$(wc -l <commands)" 20 "find: a command for each call"
sed -i '4,$d' commands
follows find 3
auxdecode latency "${flow[@]}" outer "$data" 2>err | sed -n 's/^  \(auxdecode .*\)/\1/p' >commands
follows latency 3

# What the page of report shows to copy; its own words stand for what was chosen.
auxdecode report "${flow[@]}" --time 0, -o r.html "$data" 2>err
python3 "$page" --commands r.html " --tid $tid --time 0," " outer" >commands
follows report 3

# Messages name commands, too.
from_messages() { grep -oh '`auxdecode [^`]*`' err out | tr -d '`' >commands; }
auxdecode count "${flow[@]}" --tid 1 "$data" >out 2>err
is $? 1 "a thread that is not there"
from_messages
follows "nothing to show" 1
auxdecode raw --stream 99 --max-memory 300M "$data" >out 2>err
is $? 2 "raw: a stream that is not there"
from_messages
follows "raw" 1
auxdecode tui "${flow[@]}" "$data" >out 2>err </dev/null
is $? 2 "tui without a terminal"
from_messages
follows "tui" 1
auxdecode diff "${all[@]}" --tid 1 "$data" "./$data" >out 2>err
from_messages
ok 0 "diff: $(wc -l <commands) commands"
cp "$data" -- "-x.data"
auxdecode summary "${all[@]}" -i -x.data 2>err | sed -n 's/^  \(auxdecode .*[^ ]\)  *# .*/\1/p' >commands
follows "a file whose name begins with -" 7
finish
