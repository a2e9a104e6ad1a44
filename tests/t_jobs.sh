#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Several threads print what one prints, to the byte: threads and processes, per
# CPU and per thread, Intel PT and CoreSight, limits and filters, overflows and
# damaged files, chunks large and small.
. "$(dirname "$0")/lib.sh"
need_soft

a64=$programs/aarch64
data=$SCRATCH/jobs.data
jobs=${T_JOBS:-2 3 8}

# run JOBS NAME COMMAND...: output, verdict and status, in files of that name
run() {
	timeout 500 "$auxdecode" "${@:3}" -j "$1" >"$SCRATCH/$2.out" 2>"$SCRATCH/$2.err"
	echo "status $?" >>"$SCRATCH/$2.err"
}

# same TEXT COMMAND...: for every number of jobs
same() {
	local text=$1 j bad=0
	shift
	run 1 one "$@"
	for j in $jobs; do
		run "$j" more "$@"
		cmp "$SCRATCH/one.out" "$SCRATCH/more.out" >"$SCRATCH/why" 2>&1 &&
			diff "$SCRATCH/one.err" "$SCRATCH/more.err" >"$SCRATCH/why" && continue
		echo "with -j $j: $*" >>"$SCRATCH/why"
		bad=1
		break
	done
	ok $bad "$text: $*: $(tail -n 1 "$SCRATCH/one.err")" "$SCRATCH/why"
}

# all TEXT FILE CHUNK...: each command, in each size of chunks
all() {
	local text=$1 file=$2 size
	shift 2
	for size; do
		same "$text" count --sha256 --chunk-size "$size" "$file"
		same "$text" count --chunk-size "$size" "$file"
		same "$text" insn -F +time --chunk-size "$size" "$file"
		same "$text" branch --chunk-size "$size" "$file"
		same "$text" flame --chunk-size "$size" "$file"
		same "$text" hot -n 10000 --by cycles --chunk-size "$size" "$file"
		same "$text" summary --chunk-size "$size" "$file"
		same "$text" coverage --to drcov --chunk-size "$size" "$file"
	done
}

that "a chunk size in megabytes" "$SCRATCH/one.err" \
	"$auxdecode" count --chunk-size 8M --symfs fixtures/symfs fixtures/hello_cyc.data
"$auxdecode" count --chunk-size 2G fixtures/hello_cyc.data >"$SCRATCH/out" 2>"$SCRATCH/err"
is "$? $(cat "$SCRATCH/err")" \
	'2 auxdecode: error: --chunk-size wants at most 1G, not "2G"' "and one that is too large"

# record TEXT EVENT PROGRAM [OPTION...]
record() {
	rm -f "$data"
	timeout 500 "$auxcap" -e "$2" -o "$data" "${@:4}" -- $3 >"$SCRATCH/out" 2>"$SCRATCH/log" </dev/null
	[ $? = "${STATUS:-0}" ]
	ok $? "$1 is recorded: $2 ${*:4}" "$SCRATCH/log"
}

record "threads" soft_pt/tsc,mtc,cyc,psb_period=0/u "$programs/threads" &&
	all "threads, per CPU" "$data" 1 5000 65536
record "threads" soft_pt/tsc,mtc,cyc,noretcomp=0,psb_period=1/u "$programs/threads" --per-thread &&
	all "threads, per thread" "$data" 3000 1000000
record "processes" soft_pt/tsc,psb_period=0/u "$programs/forkexec" &&
	all "processes" "$data" 1 20000
record "threads with new names" soft_pt/tsc,mtc,psb_period=0/u "$programs/renamed" && {
	same "threads with new names" flame --chunk-size 1 "$data"
	"$auxdecode" flame -j1 "$data" | sed 's/;.*//' | sort -u >"$SCRATCH/roots"
	is "$(grep -c '^renamed/' "$SCRATCH/roots") $(wc -l <"$SCRATCH/roots")" "7 7" \
		"a thread has the name that it began with" "$SCRATCH/roots"
}
# With little memory decoders keep different paths: functions without names have numbers
# by when they ran, not by the path that they were met in.
strip -o "$SCRATCH/nameless" "$programs/nameless"
record "functions without names" soft_pt/tsc,psb_period=0/u "$SCRATCH/nameless" && {
	same "functions without names" report --max-memory 1M --chunk-size 20000 "$data"
	same "functions without names" report --max-memory 2M --chunk-size 1 "$data"
	same "functions without names" hot -n 2000 --max-memory 1M "$data"
	same "functions without names" flame --max-memory 1M --chunk-size 20000 "$data"
}
# Stacks that begin below a part: what they are decides what returns, jumps and switches
# of stacks mean. hops and leaps: what looks like a return to the caller goes on in
# another stack, what looks like a tail call returns.
for program in hops leaps stack_fiber_same stack_jump_any stack_signal stack_throw; do
	[ -x "$programs/$program" ] || continue
	record "$program" soft_pt/cyc,psb_period=0/u "$programs/$program" || continue
	for size in 1 16000; do
		same "$program" flame --by cycles --chunk-size $size "$data"
		same "$program" flame --by time --per all --chunk-size $size "$data"
		same "$program" hot -n 10000 --by time --stubs --chunk-size $size "$data"
	done
	same "$program" flame --max-memory 1M --chunk-size 16000 "$data"
done
STATUS=3 record "overflows" soft_pt/cyc,psb_period=0/u "$programs/feature" --inject-overflow 2
all "overflows" "$data" 1 4096

# What a trace without a loss tells does not depend on where it is cut: the times and
# events of a PSB that is met on the way to somewhere, too.
record "throws" soft_pt/tsc,mtc,mtc_period=0,psb_period=0/u "$programs/throw" &&
	for command in 'insn -F +time' 'export --to jsonl -o /dev/stdout'; do
		"$auxdecode" $command "$data" >"$SCRATCH/whole" 2>"$SCRATCH/why"
		is "$? $(($(wc -l <"$SCRATCH/whole") > 1000))" "0 1" "there is much of it: $command"
		for size in 1 5000 20000; do
			"$auxdecode" $command --chunk-size $size "$data" 2>/dev/null |
				cmp - "$SCRATCH/whole" >"$SCRATCH/why" 2>&1
			ok $? "the same in chunks of $size: $command" "$SCRATCH/why"
		done
	done

# Filters and limits end early, wherever the workers are.
record "a program" soft_pt/tsc,mtc,psb_period=0/u "$programs/threads" &&
	{
		tid=$("$auxdecode" count "$data" | sed -n 's/^thread \([0-9]*\) .*/\1/p' | tail -n 1)
		from=$("$auxdecode" insn -F time -n 20000 "$data" | tail -n 1 | tr -d ' ')
		same "one thread" insn --tid "$tid" --chunk-size 4096 "$data"
		same "one thread" count --tid "$tid" --chunk-size 4096 "$data"
		same "one CPU" count --cpu 0 --chunk-size 4096 "$data"
		# several threads in one stream, whose tree is made by all workers
		same "one CPU" flame --by time --cpu 0 --chunk-size 4096 "$data"
		same "one CPU" hot -n 10000 --by time --cpu 0 --chunk-size 4096 "$data"
		same "from a time on" count --time "$from," --chunk-size 4096 "$data"
		same "up to a time" insn --time ",$from" --chunk-size 4096 "$data"
		for n in 1 1000 12345; do
			same "a limit" insn -n $n --chunk-size 4096 "$data"
			same "a limit" branch -n $n --chunk-size 4096 "$data"
			same "a limit" count -n $n --chunk-size 4096 "$data"
		done
		same "a symbol" insn --symbol main --chunk-size 4096 "$data"
		same "little memory" insn --max-memory 100000 --chunk-size 4096 "$data"
		same "little memory" count --max-memory 100000 --chunk-size 4096 "$data"
	}

# One that asks the kernel for each byte: what runs in between is too short for trees that
# workers make, and is left to one thread, now and then.
record "system calls" soft_pt/tsc,mtc/u "dd if=/dev/zero of=/dev/null bs=1 count=20000" &&
	for command in "hot -n 10000 --by time" "flame --by time" flame; do
		same "system calls" $command "$data"
		same "system calls" $command --chunk-size 50000 "$data"
	done

# Wrong times have a thread run on two CPUs at once: trees of all workers are those of
# one nonetheless. Most of the damage is in the trace, some of it in the records.
record "threads" soft_pt/tsc,mtc,psb_period=0/u "$programs/threads" &&
	{
		differ=0
		for i in $(seq 40); do
			/usr/bin/python3 - "$data" "$SCRATCH/bad.data" $i <<-'EOF'
				import random, sys
				random.seed(int(sys.argv[3]))
				data = bytearray(open(sys.argv[1], 'rb').read())
				for _ in range(random.choice([1, 2, 4, 30])):
				    at = random.randrange(1024, len(data))
				    for k in range(at, min(at + random.randrange(1, 9), len(data))):
				        data[k] = random.randrange(256)
				open(sys.argv[2], 'wb').write(data)
			EOF
			for command in 'flame --by time' 'hot -n 10000 --by time' flame; do
				for jobs in 1 2; do
					timeout 60 "$auxdecode" $command -j $jobs --chunk-size 256 \
						"$SCRATCH/bad.data" >"$SCRATCH/j$jobs" 2>&1
					echo "status $?" >>"$SCRATCH/j$jobs"
				done
				cmp -s "$SCRATCH/j1" "$SCRATCH/j2" && continue
				differ=$((differ + 1))
				echo "damage $i: $command"
			done
		done >"$SCRATCH/differ"
		is "$differ" 0 "damaged times of several CPUs: as with one thread"
		cat "$SCRATCH/differ" | sed 's/^/# /'
	}

# Bytes that are wrong, and a file that ends early.
size=$(stat -c %s "$data")
for i in 1 2 3 4 5 6; do
	cp "$data" "$SCRATCH/bad.data"
	for k in 1 2 3 4 5 6 7 8; do
		at=$((size / 3 + (i * 7919 + k * 104729) * 613 % (size / 2)))
		printf '\x02\xf3\xff\x13\x99' |
			dd of="$SCRATCH/bad.data" bs=1 seek=$at conv=notrunc 2>"$SCRATCH/dd"
	done
	[ $i -gt 3 ] && truncate -s $((size * i / 7)) "$SCRATCH/bad.data"
	all "damage $i" "$SCRATCH/bad.data" 4096
done

# A stream that begins with a wrong time and no flow: what comes next is earlier, and who ran
# then, and which code, is asked for anew.
cp "$data" "$SCRATCH/late.data"
"$auxdecode" dump "$data" 2>"$SCRATCH/err" | sed -n 's/^\(0x[0-9a-f]*\) \[48\] AUXTRACE stream [0-9]* offset 0 .*/\1/p' >"$SCRATCH/chunks"
while read -r at; do
	printf '\x02\xf3\xff\x13\x99' |
		dd of="$SCRATCH/late.data" bs=1 seek=$((at + 48 + 0x17)) conv=notrunc 2>"$SCRATCH/dd"
done <"$SCRATCH/chunks"
is "$("$auxdecode" raw "$SCRATCH/late.data" 2>"$SCRATCH/err" | grep -c '^  0000000000000010  tsc 0x2')" \
	"$(wc -l <"$SCRATCH/chunks")" "all streams begin with a wrong time" "$SCRATCH/err"
same "a wrong time" count --chunk-size 4096 "$SCRATCH/late.data"
is "$("$auxdecode" count "$SCRATCH/late.data" 2>"$SCRATCH/err" | tail -n 1 | sed 's/.* gaps //')" \
	"$(wc -l <"$SCRATCH/chunks")" "each loses what comes up to its next PSB, and no more" "$SCRATCH/err"

if [ -x "$a64/feature" ] && [ -z "$(no_emulation)" ]; then
	record "aarch64" soft_etm/sync_period=8/u "$a64/threads" && all "aarch64" "$data" 1
	record "aarch64, per thread" soft_etm/ete,raw/u "$a64/threads" --per-thread &&
		all "aarch64, raw" "$data" 1
	record "aarch64 processes" soft_etm/sync_period=8/u "$a64/forkexec" && all "aarch64 processes" "$data" 1
	size=$(stat -c %s "$data")
	for k in 1 2 3 4; do
		printf '\xff\x00\x13\x99' |
			dd of="$data" bs=1 seek=$((size / 3 + k * 3001)) conv=notrunc 2>"$SCRATCH/dd"
	done
	all "aarch64, damaged" "$data" 1
else
	skip "hardware: no aarch64 programs, or $(no_emulation)"
fi

# Recorded by hardware.
if [ -d "$corpus/wrapped" ]; then
	for f in "$corpus"/wrapped/*.perf.data; do
		same "$(basename "$f")" count --symfs "$corpus" --chunk-size 1 "$f"
		same "$(basename "$f")" insn --symfs "$corpus" --chunk-size 1000 "$f"
	done
else
	skip "corpus: the recorded traces are not here"
fi
finish
