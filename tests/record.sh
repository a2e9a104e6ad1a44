# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
#
# The recordings that t_exact, t_perf and others make. Sourced after lib.sh.

# Input of the gzip case: text that does not compress too well, 200 KB.
gzip_input() {
	[ -e "$SCRATCH/gzip.in" ] ||
		awk 'BEGIN { x = 12345
			while (n < 200000) {
				x = (x * 16807) % 2147483647
				s = "line " x " of " (x % 977) " words\n"
				n += length(s)
				printf "%s", s
			} }' | head -c 200000 >"$SCRATCH/gzip.in"
}

python_code='
import json, re
words = re.findall(r"\w+", "the quick brown fox jumps over the lazy dog " * 20)
table = {}
for i, w in enumerate(words):
    table.setdefault(w, []).append(i)
print(len(json.dumps(sorted(table.items()))))'

# Sets the array cmd to the program of a case.
case_command() {
	case $1 in
	hello_asm|hello_static|threads|jit|forkexec|dlopen|vdso|throw|feature|jitter|attached|paused|sorts)
		cmd=("$programs/$1") ;;
	threads_few) cmd=("$programs/threads" 3 5) ;;
	hits) cmd=("$programs/moments" hits) ;;
	slow | turns) cmd=("$programs/moments" "$1") ;;
	feature_timer) cmd=("$programs/feature" timer) ;;
	feature_few) cmd=("$programs/feature" recursion longjmp altstack segv fpe trap rep
			  repfault indirect loops callret) ;;
	jit_once) cmd=("$programs/jit" once) ;;
	ls) cmd=(/bin/ls -la /) ;;
	pipe) cmd=(/bin/sh -c 'ls / | wc') ;;
	pipeline) cmd=(/bin/sh -c '("$0/forkexec"; "$0/threads" 3 50) | sort | wc -l' "$programs") ;;
	shells) cmd=(/bin/sh -c 'i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i + 1)); done') ;;
	gzip) gzip_input; cmd=(/bin/gzip -c "$SCRATCH/gzip.in") ;;
	gzip_tiny) gzip_input; head -c 3000 "$SCRATCH/gzip.in" >"$SCRATCH/gzip.tiny"
		cmd=(/bin/gzip -c "$SCRATCH/gzip.tiny") ;;
	python) cmd=(/usr/bin/python3 -c "$python_code") ;;
	*) echo "tests/record.sh: no case $1" >&2; exit 2 ;;
	esac
}

# record CASE TERMS [OPTION...]: leaves $data, $truth, $log and $status; each
# call overwrites the recording of the one before.
record() {
	local case=$1 terms=$2
	shift 2
	data=$SCRATCH/rec.data truth=$SCRATCH/rec.truth log=$SCRATCH/rec.log
	rm -f "$data" "$truth"
	case_command "$case"
	timeout "${RECORD_TIMEOUT:-500}" "$auxcap" -e "soft_pt/$terms/u" -o "$data" --truth "$truth" "$@" \
		-- "${cmd[@]}" >"$SCRATCH/rec.out" 2>"$log" </dev/null
	status=$?
}
