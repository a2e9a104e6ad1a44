#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --pid, --comm and --module: each lets through exactly the instructions that insn
# shows with that process, name or file, alone and together, for any -j.
. "$(dirname "$0")/lib.sh"

data=$SCRATCH/f.data
"$auxcap" -q -e "soft_pt//u" -o "$data" -- \
	sh -c 'true | cat; sh -c "exec uname -s"; echo x | sort' >/dev/null 2>"$SCRATCH/err"
ok $? "a recording of several programs" "$SCRATCH/err"
"$auxdecode" insn -F pid,tid,comm,dso "$data" 2>"$SCRATCH/err" | grep -v '^#' | sort | uniq -c >"$SCRATCH/all"
that "several processes, names and files" "$SCRATCH/all" test "$(wc -l <"$SCRATCH/all")" -ge 10

insns() { # OPTION...: what count counts
	"$auxdecode" count "$@" "$data" 2>"$SCRATCH/err" | awk '$1 == "total" { print $3 }'
}
sum() { # AWK-CONDITION over n pid tid comm dso
	awk "{ n = \$1; pid = \$2; tid = \$3; comm = \$4; dso = \$5 } $1 { s += n } END { print s + 0 }" "$SCRATCH/all"
}

mapfile -t pids < <(awk '{ print $2 }' "$SCRATCH/all" | sort -u)
mapfile -t comms < <(awk '{ print $4 }' "$SCRATCH/all" | sort -u)
mapfile -t files < <(awk '{ print $5 }' "$SCRATCH/all" | sort -u)
for pid in "${pids[@]}"; do
	is "$(insns --pid "$pid")" "$(sum "pid == $pid")" "--pid of one process"
done
is "$(insns --pid "${pids[0]},${pids[1]}")" "$(sum "pid == ${pids[0]} || pid == ${pids[1]}")" "--pid A,B"
is "$(insns --pid "${pids[0]}" --pid "${pids[1]}")" "$(insns --pid "${pids[1]},${pids[0]}")" "--pid A --pid B"
for comm in "${comms[@]}"; do
	is "$(insns --comm "$comm")" "$(sum "comm == \"$comm\"")" "--comm $comm"
done
is "$(insns --comm cat --comm sort)" "$(sum 'comm == "cat" || comm == "sort"')" "--comm cat --comm sort"
shown() { # OPTION...: what insn shows
	"$auxdecode" insn -F ip "$@" "$data" 2>"$SCRATCH/err" | grep -vc '^#'
}
for file in "${files[@]}"; do
	case $file in -) continue ;; esac
	is "$(shown --module "$file")" "$(sum "dso == \"$file\"")" "--module $(basename "$file"): by its path"
	is "$(insns --module "$(basename "$file")")" "$(sum "dso == \"$file\"")" "count --module $(basename "$file")"
done
# Its brackets are no pattern: emulated programs have no such code, stepped ones do.
if [ "$(uname -m)" = x86_64 ]; then
	"$auxcap" -q -e soft_pt/step/u -o "$SCRATCH/vdso" -- "$programs/vdso" >/dev/null 2>&1
	n=$("$auxdecode" insn -F dso "$SCRATCH/vdso" 2>/dev/null | grep -c '^\[vdso\]$')
	that "code of the vdso" - test "$n" -gt 0
	is "$("$auxdecode" insn -F ip --module '[vdso]' "$SCRATCH/vdso" 2>/dev/null | grep -vc '^#')" "$n" \
		"--module [vdso]"
fi
is "$(shown --module 'ld-linux*')" "$(sum 'dso ~ "/ld-linux[^/]*$"')" "--module with a glob"
is "$(shown --module 'ld-linux*' --comm cat)" "$(sum 'dso ~ "/ld-linux[^/]*$" && comm == "cat"')" "--module and --comm"
is "$(shown --module libc.so.6 --symbol 'str*' --comm cat)" \
	"$("$auxdecode" insn -F comm,dso,sym "$data" 2>/dev/null | awk '$1 == "cat" && $2 ~ "/libc.so.6$" && $3 ~ "^str"' | wc -l)" \
	"--module and --symbol: both"

for command in insn branch calls hot flame "latency main" "find *" "export --to jsonl" "coverage" "report -o -"; do
	# shellcheck disable=SC2086
	set -f; set -- $command; set +f
	for j in 1 3; do
		"$auxdecode" "$@" -j $j --chunk-size 4096 --pid "${pids[0]},${pids[1]}" --comm sh "$data" \
			>"$SCRATCH/out.$j" 2>"$SCRATCH/err.$j"
		echo "status $?" >>"$SCRATCH/out.$j"
	done
	diff "$SCRATCH/out.1" "$SCRATCH/out.3" >"$SCRATCH/diff"
	is $? 0 "$command: equal with -j 1 and -j 3" || head -n 20 "$SCRATCH/diff"
done
"$auxdecode" calls --comm cat "$data" 2>/dev/null | grep -v '^#' | awk '{ split($1, a, "/"); print a[1] }' | sort -u >"$SCRATCH/out"
is "$(cat "$SCRATCH/out")" "$(awk '$4 == "cat" { print $2 }' "$SCRATCH/all" | sort -u)" "calls --comm: the process alone"

# ---- nothing, and nonsense ----
"$auxdecode" insn --module nothing.so "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "--module of a file that did not run: status 1"
that "it says what ran" "$SCRATCH/err" grep -q 'nothing of "nothing.so" ran; there ran .*libc.so.6' "$SCRATCH/err"
"$auxdecode" count --comm nobody "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "--comm that no thread had: status 1"
that "the filters are shown" "$SCRATCH/err" grep -q -- "--comm nobody" "$SCRATCH/err"
for bad in "--pid x" "--pid 1,,2" "--pid -1" "--pid 4294967296"; do
	# shellcheck disable=SC2086
	"$auxdecode" count $bad "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 2 "$bad: status 2"
done

# ---- --time in percent: that of the recording, as info tells it ----
range=$("$auxdecode" info "$data" 2>/dev/null | sed -nE 's/.* ran ([0-9]+)\.([0-9]{9}) s to ([0-9]+)\.([0-9]{9}) s.*/\1\2 \3\4/p' |
	awk 'NR == 1 || $1 < a { a = $1 } $2 > b { b = $2 } END { printf "%.0f %.0f", a, b }')
from=${range% *} to=${range#* }
that "it takes some time" - test $((to - from)) -gt 100000
ns() { python3 -c 'import sys; a, b, x = map(int, sys.argv[1:]); print(a + int((b - a) * x / 1000 + .5))' "$from" "$to" "$1"; }
while read -r share a b; do
	want=$(insns --time "$([ "$a" = 0 ] || echo "$(ns "$a")ns"),$([ "$b" = 1000 ] || echo "$(ns "$b")ns")")
	is "$(insns --time "$share")" "$want" "--time $share"
done <<'END'
10%-20% 100 200
10%,20% 100 200
37.5%-90% 375 900
50%- 500 1000
-50% 0 500
,25% 0 250
10%/3 200 300
25%/4 750 1000
END
for command in insn branch calls find "latency --symbol main" flame hot annotate coverage "export --to jsonl" summary report; do
	# shellcheck disable=SC2086
	"$auxdecode" $command --time 20%-80% "$data" >"$SCRATCH/share" 2>"$SCRATCH/err"
	got=$?
	# shellcheck disable=SC2086
	"$auxdecode" $command --time "$(ns 200)ns,$(ns 800)ns" "$data" >"$SCRATCH/times" 2>"$SCRATCH/err"
	is $? $got "$command --time 20%-80%: status $got"
	sed -i "s/20%-80%/$(ns 200)ns,$(ns 800)ns/g; s/   *#/ #/" "$SCRATCH/share"
	sed -i "s/   *#/ #/" "$SCRATCH/times"	# comments stand below each other
	[ "$command" = report ] || that "$command --time 20%-80%" "$SCRATCH/share" cmp -s "$SCRATCH/share" "$SCRATCH/times"
done
for bad in 110% 10% 20%-10% 10%/0 10%/11 %-5% 5%x; do
	"$auxdecode" count --time "$bad" "$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 2 "--time $bad: wrong usage"
	that "--time $bad: says how" "$SCRATCH/err" grep -q '10%-20%' "$SCRATCH/err"
done
"$auxdecode" count --time 10%-20% - <"$data" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 2 "not of a pipe"
finish
