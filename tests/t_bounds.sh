#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# Memory for files of unusual shapes: thousands of AUX streams, many busy ones, maps
# over maps. Input without an end, and input that becomes shorter while it is read.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

f="--symfs fixtures/symfs"
small=fixtures/hello_emulate.data
many=$SCRATCH/many.data

# peak LIMIT_MB TEXT COMMAND...: the memory of the command, its output in peak.out.
# The sanitizers need memory of their own: no limit then.
peak() {
	local limit=$1 text=$2
	shift 2
	[ "${SAN:-}" = 1 ] && limit=1000000
	python3 - "$limit" "$@" >"$SCRATCH/peak.out" 2>"$SCRATCH/err" <<-'E'
	import resource, subprocess, sys
	p = subprocess.run(sys.argv[2:], check=False)
	mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
	print(mb, 'MB, status', p.returncode, file=sys.stderr)
	sys.exit(mb > int(sys.argv[1]) or p.returncode not in (0, 3))
	E
	ok $? "$text: at most $limit MB" "$SCRATCH/err"
}

# the trace of each is that of a program, and of few bytes
python3 tests/many_records.py "$small" "$many" streams 4000
peak 200 "4,000 streams, one thread" "$auxdecode" count -j1 $f "$many"
cp "$SCRATCH/peak.out" "$SCRATCH/one.out"
peak 200 "4,000 streams, two threads" "$auxdecode" count -j2 $f "$many"
that "both count the same" "$SCRATCH/peak.out" cmp "$SCRATCH/one.out" "$SCRATCH/peak.out"
peak 200 "4,000 streams as instructions" "$auxdecode" insn -j2 $f "$many"
python3 tests/many_records.py "$small" "$many" streams 4000 8
peak 200 "4,000 streams of 8 bytes" "$auxdecode" count -j1 $f "$many"

python3 tests/many_records.py "$small" "$many" streams 17000 8
"$auxdecode" count $f "$many" >"$SCRATCH/out" 2>"$SCRATCH/err"
is "$? $(cat "$SCRATCH/err")" "1 auxdecode: error: $many: 17001 streams of trace need 531 MiB for \
their decoders, and the limit is 512 MiB; raise it with --max-memory" "and more than there is room for"
"$auxdecode" count --max-memory 1G $f "$many" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 3 "until there is room" || cat "$SCRATCH/err"

python3 tests/many_records.py "$small" "$many" maps 30000
peak 40 "30,000 maps, each over the one before" "$auxdecode" count -j1 $f "$many"
python3 tests/many_records.py "$small" "$many" maps 30000 1000
peak 60 "the same, each at a time of its own" "$auxdecode" count -j1 $f "$many"
"$auxdecode" count --max-memory 1M $f "$many" >"$SCRATCH/out" 2>"$SCRATCH/err"
is "$? $(cat "$SCRATCH/err")" "1 auxdecode: error: $many: what was mapped, who ran, and when, needs more \
than 16 MiB; raise it with --max-memory" "they count for --max-memory"
"$auxdecode" count --max-memory 64M $f "$many" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 0 "which can be raised" || cat "$SCRATCH/err"

record ls ""
is $status 0 "a program is recorded" || cat "$log"
python3 tests/many_records.py "$data" "$many" streams 64
for j in 1 2; do
	peak 128 "64 busy streams with --max-memory 64M, -j$j" \
		"$auxdecode" count -j$j --max-memory 64M "$many"
	tail -n 1 "$SCRATCH/peak.out" >"$SCRATCH/last.$j"
done
that "-j does not change what they count" "$SCRATCH/last.2" cmp "$SCRATCH/last.1" "$SCRATCH/last.2"

# within SHAPE N: a file with N more of something, in every command that keeps some
# of it, with 16 MB for that and 24 for the rest
kept=16M all=$((40 * 1024))
within() {
	local command status bad=0 flow="-j1 --symfs fixtures/symfs"
	local o=$SCRATCH/within
	if [ "${SAN:-}" = 1 ]; then
		skip "the sanitizers need memory of their own" "$2 $1"
		return
	fi
	python3 tests/many_records.py "$small" "$many" "$1" "$2" || bad=1
	: >"$SCRATCH/all"
	for command in "count $flow" "diff $flow $small" "verify $f" "bundle $f -o $o" \
		"cut --cpu 0 -o $o" info raw "dump --packets" "merge -o $o $many"; do
		# shellcheck disable=SC2086
		(ulimit -d $all; exec "$auxdecode" $command --max-memory $kept "$many") \
			>/dev/null 2>"$SCRATCH/err"
		status=$?
		case "$status $(cat "$SCRATCH/err")" in
		*"out of memory"*|[^013]*) bad=1 ;;
		"1 "*"raise it with --max-memory"*) ;;
		1*) bad=1 ;;
		esac
		echo "$command: $status: $(cat "$SCRATCH/err")" >>"$SCRATCH/all"
		rm -rf "$o"
	done
	ok $bad "$2 $1, or a refusal, within $kept and a constant" "$SCRATCH/all"
}
for shape in threads processes exits modules kernel_modules wide_switches starts; do
	within $shape 200000
done
for shape in comms execs switches aux pieces namespaces cgroups losses build_ids packed; do
	within $shape 600000
done
within ksymbols 20000
within pokes 200000
within attrs 100000
within event_ids 4000
within names 4000

# without an end: what was read so far is no perf.data
for input in /dev/zero -; do
	(ulimit -f 8192; "$auxdecode" count "$input") </dev/zero >"$SCRATCH/out" 2>"$SCRATCH/err"
	is "$? $(cat "$SCRATCH/err")" \
		"1 auxdecode: error: $input@0x0: not a perf.data file: no PERFILE2 at its start" \
		"$input has no end"
done

# a file that somebody cuts
fault=$SCRATCH/fault.so
cc=$(grep -o -m1 'clang' "$BUILD/flags" || echo gcc)
if [ "${SAN:-}" = 1 ]; then
	skip "a preloaded library must not come before the sanitizers" "files that are cut"
	finish
fi
"$cc" -O1 -shared -fPIC -o "$fault" tests/fault.c -ldl >"$SCRATCH/out" 2>&1
is $? 0 "the library that cuts files is built" || cat "$SCRATCH/out"
python3 tests/many_records.py "$small" "$many" streams 100

# cut FILE COMMAND...: FILE is cut when it is mapped; what was at -o stays
cut_file() {
	local file=$1 status
	shift
	echo before >"$SCRATCH/made"
	FAULT_SHRINK=$file LD_PRELOAD=$fault "$auxdecode" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	status=$?
	is "$status $(sed 's/@0x[0-9a-f]*:/@0xN:/' "$SCRATCH/err")" \
		"1 auxdecode: error: $file@0xN: the file became shorter while it was read, or cannot be read" \
		"$1 of a file that becomes shorter"
	is "$(cat "$SCRATCH/made")" before "$1: -o is as it was"
}
for command in info "count -j1 $f" "count -j2 $f" "report -o $SCRATCH/made $f" \
	"cut --cpu 0 -o $SCRATCH/made"; do
	cp "$many" "$SCRATCH/cut.data"
	cut_file "$SCRATCH/cut.data" $command "$SCRATCH/cut.data"
done
cp "$many" "$SCRATCH/cut.data"
cut_file "$SCRATCH/cut.data" merge -o "$SCRATCH/made" "$many" "$SCRATCH/cut.data"
# the program that ran, whose code is read as it is needed
gcc -O0 -static -o "$SCRATCH/cut.program" -x c - <<<"int main(void) { return 0; }" 2>"$SCRATCH/err" &&
	"$auxcap" -e soft_pt//u -o "$SCRATCH/program.data" -- "$SCRATCH/cut.program" 2>"$SCRATCH/err"
ok $? "another program is recorded" "$SCRATCH/err"
cut_file "$SCRATCH/cut.program" count -j1 "$SCRATCH/program.data"
# a killed recording
head -c -100 "$many" >"$SCRATCH/cut.data"
FAULT_SHRINK=$SCRATCH/cut.data LD_PRELOAD=$fault "$auxcap" repair "$SCRATCH/cut.data" \
	>"$SCRATCH/out" 2>"$SCRATCH/err"
is "$? $(sed 's/@0x[0-9a-f]*:/@0xN:/' "$SCRATCH/err")" \
	"1 auxcap: error: $SCRATCH/cut.data@0xN: the file became shorter while it was read, or cannot be read" \
	"auxcap repair of a file that becomes shorter"
finish
