#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# merge of what several runs gave: folded stacks against awk, pprof profiles against
# sums that Python's protobuf makes. (Recordings: t_cut; branch lists: t_profile;
# coverage: t_coverage.)
. "$(dirname "$0")/lib.sh"
. tests/record.sh

m=$SCRATCH/merge
mkdir -p "$m"
for case in ls feature_few; do
	record "$case" cyc
	"$auxdecode" flame --per all "$data" >"$m/$case.folded" 2>"$SCRATCH/err"
	"$auxdecode" export --to pprof -o "$m/$case.pprof" "$data" 2>"$SCRATCH/err"
	is $? 0 "$case: exported"
done

merge() { # STATUS TEXT FILE...: into $m/out
	local want=$1 text=$2
	shift 2
	rm -f "$m/out"
	"$auxdecode" merge -o "$m/out" "$@" 2>"$SCRATCH/err"
	is $? "$want" "$text: status" || sed 's/^/#   /' "$SCRATCH/err"
}

# ---- folded stacks ----
sums() { awk '!/^# /{ n = $NF; sub(/ [0-9]+$/, ""); s[$0] += n } END { for (k in s) printf "%s %d\n", k, s[k] }' "$@" | sort; }
merge 0 "folded" "$m/ls.folded" "$m/feature_few.folded"
sums "$m/ls.folded" "$m/feature_few.folded" >"$m/want"
that "folded: sums of equal stacks, each once" "$m/out" eval 'sort "$m/out" | cmp -s - "$m/want"'
merge 0 "folded, twice the same" "$m/ls.folded" "$m/ls.folded"
# functions of one name, of two files, are one stack
awk '{ n = $NF; sub(/ [0-9]+$/, ""); if (!s[$0]) v[++k] = $0; s[$0] += n }
	END { for (i = 1; i <= k; i++) printf "%s %d\n", v[i], 2 * s[v[i]] }' "$m/ls.folded" >"$m/want"
that "folded: in the order in which flame writes them" "$m/out" cmp -s "$m/want" "$m/out"
printf '# a comment\n#1;b 5\na b;c\t7\r\na;b 1\n\na.x 2\na;b 18446744073709551615' >"$m/odd"
printf 'a;b 2\na 3\n#1;b 1\n' >"$m/more"
merge 0 "folded: blanks in names, no last newline, other ends of lines" "$m/odd" "$m/more"
is "$(cat "$m/out")" $'#1;b 6\na 3\na;b 18446744073709551615\na b;c 7\na.x 2' "folded: what comes of them"
for name in TN:x SF:x 'DRCOV VERSION:' 000001:x; do
	printf '%s 5\nzz;b 1\n' "$name" >"$m/named"
	merge 0 "folded: a name that begins as another format does" "$m/named" "$m/named"
	is "$(cat "$m/out")" "$name 10"$'\n''zz;b 2' "folded: what comes of $name"
done
# more names than a command line has room for
printf '%s\n' "$m/odd" "$m/more" "" "$m/more" >"$m/names"
merge 0 "@LIST" "@$m/names"
cp "$m/out" "$m/listed"
merge 0 "the same on the command line" "$m/odd" "$m/more" "$m/more"
that "@LIST: as the names that are in it" "$m/listed" cmp -s "$m/listed" "$m/out"
merge 0 "@-, and a name" "$m/odd" @- <<<"$m/more"$'\n'"$m/more"
that "@-: as the names on standard input" "$m/out" cmp -s "$m/listed" "$m/out"
merge 1 "@LIST that is not there" "$m/odd" "@$m/absent"
that "@LIST that is not there: named" "$SCRATCH/err" grep -q 'absent: No such file' "$SCRATCH/err"
merge 1 "@LIST that is no list" "$m/odd" @/dev/zero
that "@LIST that is no list: said" "$SCRATCH/err" grep -q 'line 1 is no name of a file' "$SCRATCH/err"
echo "$m/out" >"$m/names"
merge 2 "one name is no merge" "@$m/names"
for bad in 'a;b' 'a;b 1.5' 'a;b -1' '7' 'a 99999999999999999999'; do
	printf 'x;y 1\n%s\n' "$bad" >"$m/bad"
	merge 1 "folded: '$bad'" "$m/more" "$m/bad"
	that "folded: '$bad': file and place are named" "$SCRATCH/err" grep -q 'bad@0x6: .*folded stacks' "$SCRATCH/err"
	that "folded: '$bad': nothing is written" - test ! -s "$m/out"
done

# ---- pprof ----
protoc -I tests --python_out="$m" export_pprof.proto
ok $? "protoc compiles the published field numbers"
is_sum() { # TEXT FILE...
	local text=$1
	shift
	merge 0 "pprof, $text" "$@"
	/usr/bin/python3 tests/merge_pprof.py "$m" sum "$m/out" "$@" >"$SCRATCH/py" 2>&1
	ok $? "pprof, $text: $(tail -n 1 "$SCRATCH/py" | cut -c1-120)" "$SCRATCH/py"
}
/usr/bin/python3 tests/merge_pprof.py "$m" make "$m"
ok $? "profiles made"
is_sum "two programs" "$m/ls.pprof" "$m/feature_few.pprof"
cp "$m/out" "$m/first"
is_sum "three, one merged already" "$m/first" "$m/ls.pprof" "$m/ls.pprof"
is_sum "other addresses, ids, strings" "$m/a" "$m/b"
cp "$m/out" "$m/first"
is_sum "fields in any order, not packed" "$m/a" "$m/b_unpacked"
that "pprof: the same, whatever the order of fields" - eval \
	'cmp -s <(zcat "$m/first" | wc -c) <(zcat "$m/out" | wc -c)'
merge 0 "pprof, sums that are too large" "$m/big" "$m/big"
/usr/bin/python3 tests/export_read.py pprof "$m/out" "$m" >"$SCRATCH/py" 2>&1
# of two stacks
that "pprof: they stop at the largest number" "$SCRATCH/py" grep -q '^calls count 18446744073709551614' "$SCRATCH/py"
merge 1 "pprof: other sample types" "$m/a" "$m/other_types"
that "pprof: other sample types: says so" "$SCRATCH/err" grep -q 'other_types: .*sample types' "$SCRATCH/err"
for bad in location values string twice cut gzip; do
	merge 1 "pprof: bad $bad" "$m/a" "$m/bad_$bad"
	that "pprof: bad $bad: the file is named" "$SCRATCH/err" grep -q "bad_$bad" "$SCRATCH/err"
	merge 1 "pprof: bad $bad first" "$m/bad_$bad" "$m/a"
done

# ---- kinds ----
merge 1 "folded and pprof" "$m/ls.folded" "$m/ls.pprof"
merge 1 "pprof and folded" "$m/ls.pprof" "$m/ls.folded"
merge 1 "pprof and a recording" "$m/ls.pprof" "$data"
merge 1 "a recording and folded" "$data" "$m/ls.folded"
finish
