#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --symbol means the same in every command, whatever form of a name it is given, and
# names are shown as the source has them. What ran is counted by awk, from the mangled
# names of all instructions.
. "$(dirname "$0")/lib.sh"
need_soft

here=$SCRATCH/names
mkdir -p "$here"
data=$here/data
"$auxcap" -q -e soft_pt/tsc,cyc/u -o "$data" -- "$programs/names" >/dev/null 2>"$here/err"
ok $? "a recording" "$here/err"
"$auxdecode" insn -F sym --no-demangle "$data" 2>/dev/null | sed '/^#/d; s/+0x.*//' >"$here/raw"
"$auxdecode" insn -F sym "$data" 2>/dev/null | sed '/^#/d; s/+0x.*//' >"$here/shown"

ran() { grep -cxF -- "$1" "$here/raw"; } # MANGLED
insns() { "$auxdecode" count "$@" "$data" 2>/dev/null | awk '$1 == "total" { print $3 }'; }

add=_ZN4shop3addIiEET_S1_S1_
long=_ZN4shop3addIlEET_S1_S1_
tag=_ZN4shop6taggedB2v2Ei
for name in $add $long $tag _ZN4shop4till3payEi _ZN4shop4till3payEii _ZNK4shop4tillclEi plain; do
	that "$name ran" - test "$(ran "$name")" -gt 0
done

# ---- as shown ----
has() { that "$1" "$here/shown" grep -qxF -- "$2" "$here/shown"; }
has "insn shows a template" 'int shop::add<int>(int, int)'
has "insn shows a method" 'shop::till::pay(int, int)'
has "insn shows an operator" 'shop::till::operator()(int) const'
has "insn shows a plain name" plain
is "$(grep -c '^_ZN4shop' "$here/shown")" 0 "insn: no mangled name of the program is left"
while read -r text command; do
	# shellcheck disable=SC2086
	"$auxdecode" $command "$data" >"$here/out" 2>"$here/err"
	is $? 0 "$text: status 0"
	that "$text: shows the name of the source" "$here/out" grep -qF 'shop::till::pay(int' "$here/out"
	that "$text: none that is mangled" "$here/out" not grep -q '_ZN4shop' "$here/out"
	# shellcheck disable=SC2086
	"$auxdecode" $command --no-demangle "$data" >"$here/out" 2>/dev/null
	that "$text --no-demangle: as the file has it" "$here/out" grep -q '_ZN4shop4till3payEi' "$here/out"
	that "$text --no-demangle: nothing else" "$here/out" not grep -qF 'shop::till::pay(int' "$here/out"
done <<'END'
branch branch
calls calls
flame flame
hot hot -n 99999
blocks hot --blocks -n 99999
edges hot --edges -n 99999
coverage coverage --module names
jsonl export --to jsonl
END
"$auxdecode" coverage --module names --to lcov "$data" >"$here/out" 2>/dev/null
that "lcov keeps the linker's names" "$here/out" grep -q '^FN:[0-9]*,_ZN4shop4till3payEi$' "$here/out"
"$auxdecode" summary -n 9999 "$data" >"$here/out" 2>/dev/null
that "summary shows the name of the source" "$here/out" grep -qF 'shop::till::pay(int, int)' "$here/out"
"$auxdecode" summary -n 9999 --no-demangle "$data" >"$here/out" 2>/dev/null
that "summary --no-demangle" "$here/out" grep -qF ' _ZN4shop4till3payEii' "$here/out"

# ---- short on a terminal ----
# on_terminal COLUMNS COMMAND...
on_terminal() {
	local columns=$1
	shift
	AUXDECODE_PAGER=cat NO_COLOR=1 timeout 60 script -qec "stty cols $columns; $auxdecode $* $data" /dev/null \
		2>/dev/null </dev/null | tr -d '\r' >"$here/out"
}
for command in "hot -n 9999" calls 'find /shop/' 'latency --symbol /shop/' 'summary -n 9999'; do
	on_terminal 100 "$command"
	that "$command: short on a terminal" "$here/out" grep -qE 'shop::till::pay([^(]|\(\)|$)' "$here/out"
	that "$command: no arguments, but where two would look the same" "$here/out" not grep -qF 'shop::till::operator()(int)' "$here/out"
	that "$command: the second of two is told apart" "$here/out" grep -qF 'shop::till::pay(int' "$here/out"
	that "$command: one add has no arguments" "$here/out" grep -qF 'shop::add<>' "$here/out"
	that "$command: the other has" "$here/out" grep -qE 'shop::add<(int|long)>' "$here/out"
	on_terminal 100 "$command --full-names"
	that "$command --full-names: all of them" "$here/out" grep -qF 'int shop::add<int>(int, int)' "$here/out"
	on_terminal 100 "$command --no-demangle"
	that "$command --no-demangle: as the file has it" "$here/out" grep -q '_ZN4shop4till3payEii' "$here/out"
done
on_terminal 100 "find -F sym /shop/"
that "columns of -F are for programs" "$here/out" grep -qF 'int shop::add<int>(int, int)' "$here/out"
"$auxdecode" flame --svg --symbol '/shop/' -o "$here/f.svg" "$data" 2>"$here/err"
that "svg: the whole name is there" "$here/err" grep -qF '<title>int shop::add&lt;int&gt;(int, int)' "$here/f.svg"
that "svg: and a short one for narrow frames" "$here/err" grep -qF 'data-s="shop::add&lt;&gt;"' "$here/f.svg"
"$auxdecode" flame --svg --full-names --symbol '/shop/' -o "$here/f.svg" "$data" 2>"$here/err"
that "svg --full-names: no short one" "$here/err" not grep -q 'data-s=' "$here/f.svg"

# ---- one rule ----
same() { # MANGLED FORM...: each form means just this function
	local raw=$1 form
	shift
	for form; do
		is "$(insns --symbol "$form")" "$(ran "$raw")" "count --symbol '$form'"
	done
	while read -r text command; do
		# shellcheck disable=SC2086
		"$auxdecode" $command --symbol "$raw" "$data" >"$here/want" 2>"$here/err"
		is $? 0 "$text --symbol $raw: status 0" || cat "$here/err"
		for form; do
			# shellcheck disable=SC2086
			"$auxdecode" $command --symbol "$form" "$data" 2>&1 >"$here/out" | cat >"$here/err"
			cmp -s "$here/want" "$here/out"
			ok $? "$text --symbol '$form': as --symbol $raw" "$here/err"
		done
	done <<'END'
insn insn
branch branch
calls calls
find find
latency latency
flame flame
hot hot
blocks hot --blocks
edges hot --edges
coverage coverage
lcov coverage --to lcov
jsonl export --to jsonl
END
	for form; do
		"$auxdecode" export --to pprof -o "$here/one" --symbol "$raw" "$data" 2>/dev/null
		"$auxdecode" export --to pprof -o "$here/two" --symbol "$form" "$data" 2>/dev/null
		that "pprof --symbol '$form'" - cmp -s "$here/one" "$here/two"
		"$auxdecode" flame --svg --symbol "$raw" "$data" 2>/dev/null | grep -c '<rect' >"$here/one"
		"$auxdecode" flame --svg --symbol "$form" "$data" 2>/dev/null | grep -c '<rect' >"$here/two"
		that "flame --svg --symbol '$form'" - cmp -s "$here/one" "$here/two"
	done
}
same $add 'int shop::add<int>(int, int)' 'shop::add<int>' 'shop::add<in*' '/^int shop::add<int>/'
same $tag 'shop::tagged[abi:v2](int)' 'shop::tagged' 'shop::tagged[abi:v2]' 'shop::tagged(int)'
same plain 'pla?n'
is "$(insns --symbol 'shop::till::operator()')" "$(ran _ZNK4shop4tillclEi)" "an operator without its arguments"
is "$(insns --symbol 'shop::till::pay')" "$(grep -c '^_ZN4shop4till3pay' "$here/raw")" "all overloads, without arguments"
is "$(insns --symbol 'shop::till::pay(int)')" "$(ran _ZN4shop4till3payEi)" "one overload, with them"

# ---- a name without its class, or without template arguments ----
adds=$(($(ran $add) + $(ran $long))) pays=$(grep -c '^_ZN4shop4till3pay' "$here/raw")
for form in shop::add add 'shop::add<>' 'add<>'; do
	is "$(insns --symbol "$form")" "$adds" "'$form': all of the template, as terminals show it"
done
"$auxdecode" count --symbol add "$data" >/dev/null 2>"$here/err"
is "$?" 0 "a name may mean several functions"
that "which is said" "$here/err" grep -qxF 'auxdecode: "add" is 2 functions: shop::add<int>, shop::add<long>' "$here/err"
is "$(insns --symbol 'add<int>')" "$(ran $add)" "template arguments tell them apart"
for form in pay till::pay shop::till::pay; do
	is "$(insns --symbol "$form")" "$pays" "'$form': with its class or without"
done
"$auxdecode" count --symbol pay "$data" >/dev/null 2>"$here/err"
that "overloads are one name" "$here/err" not grep -q functions "$here/err"
is "$(insns --symbol 'pay(int)')" 0 "with arguments it is the whole name"
for form in ay ill::pay ::pay ::till::pay; do
	is "$(insns --symbol "$form")" 0 "'$form': whole words"
done
is "$(insns --symbol ::plain)" "$(ran plain)" "'::plain': of no class"
is "$(insns --symbol ::shop::till::pay)" "$pays" "'::shop::till::pay': so is this"
"$auxdecode" find --caller main add "$data" 2>/dev/null | grep -c 'shop::add' >"$here/out"
is "$(cat "$here/out")" 10 "find --caller, and of both"

# ---- several ----
both=$(($(ran $add) + $(ran plain)))
is "$(insns --symbol 'shop::add<int>' --symbol plain)" $both "count: either of two"
is "$("$auxdecode" insn -F ip --symbol 'shop::add<int>' --symbol plain "$data" 2>/dev/null | grep -vc '^#')" $both \
	"insn: either of two"
is "$("$auxdecode" hot --symbol 'shop::add<int>' --symbol plain "$data" 2>/dev/null | awk '!/^#/ { n += $1 } END { print n }')" \
	$both "hot: either of two"
is "$("$auxdecode" find --count --symbol 'shop::add<int>' --symbol plain "$data" 2>/dev/null | grep -v '^#')" 10 "find: either of two"
"$auxdecode" insn --symbol plain --symbol plian "$data" >/dev/null 2>"$here/err"
that "one of two that is unknown is named" "$here/err" grep -q 'warning: .*no function "plian" ran; near to it: plain' "$here/err"

# ---- unknown ----
for command in insn branch count calls find latency flame "flame --svg" hot "hot --blocks" "hot --edges" coverage \
	"export --to jsonl"; do
	# shellcheck disable=SC2086
	"$auxdecode" $command --symbol plian "$data" >/dev/null 2>"$here/err"
	is $? 1 "$command: an unknown name fails"
	that "$command: and near names are told first" "$here/err" eval \
		'head -n 1 "$here/err" | grep -q "nothing to show: no function \"plian\" ran; near to it: plain"'
done
"$auxdecode" latency plian "$data" >/dev/null 2>"$here/err"
that "no option is blamed that was not typed" "$here/err" not grep -q -- --symbol "$here/err"
"$auxdecode" insn --symbol '/(/' "$data" >/dev/null 2>"$here/err"
is $? 2 "no regular expression: wrong usage"
"$auxdecode" insn --symbol '' "$data" >/dev/null 2>"$here/err"
is $? 2 "an empty name: wrong usage"
# ---- what was perhaps meant, as it can be typed ----
"$auxdecode" latency shop::till::pai "$data" >"$here/out" 2>"$here/err"
that "near names without arguments" "$here/err" grep -qE 'near to it: shop::till::pay(, [^,]*)*$' "$here/err"
that "each once" "$here/err" not grep -q 'pay.*pay' "$here/err"

# ---- commands to go on with are about a function of the file ----
for command in summary hot find coverage "latency pay"; do
	# shellcheck disable=SC2086
	"$auxdecode" $command --json "$data" >"$here/json" 2>/dev/null
	python3 - "$here/json" "$auxdecode" >"$here/out" 2>&1 <<'END'
import json, shlex, subprocess, sys
bad = n = 0
for c in json.load(open(sys.argv[1]))["next"]:
    words = shlex.split(c["command"])
    if {"FUNCTION", "TIME"} & set(words):
        bad += 1
        print("a placeholder:", c["command"])
    if words[1] in ("latency", "annotate", "find") or "--symbol" in words:
        n += 1
        if subprocess.run([sys.argv[2], *words[1:]], capture_output=True).returncode and "--longer" not in words:
            bad += 1
            print("does not work:", c["command"])
sys.exit(bad or not n)
END
	ok $? "$command: commands to go on with" "$here/out"
done
"$auxdecode" summary "$data" >"$here/out" 2>/dev/null
that "summary: none as text either" "$here/out" not grep -qE 'FUNCTION|TIME' "$here/out"

finish
