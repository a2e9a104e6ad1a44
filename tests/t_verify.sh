#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# auxdecode verify: decoders that agree, and each kind of fault (tests/mutant.c is
# a decoder with faults on demand) where it is and as what it is.
. "$(dirname "$0")/lib.sh"

out=$SCRATCH/out
mutant=$SCRATCH/mutant.so
pt=$SCRATCH/pt.data
etm=$SCRATCH/etm.data

if [ -n "$(no_libipt)" ]; then
	skip "$(no_libipt)"
	finish
fi

build() { # VENDOR LIBRARY...
	local vendor=$1
	shift
	# shellcheck disable=SC2086
	${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -shared -fPIC -I. -Iinclude \
		-DREAL="aux_decoder_$vendor" ${SAN_FLAGS:-} -o "$mutant" tests/mutant.c \
		decode/lib/"$vendor"/*.c "$@" >"$out" 2>&1
	that "a decoder with faults: $vendor" "$out" test -s "$mutant"
}

# verify FAULT FILE [OPTION...]: leaves $status
verify() {
	local file=$2
	export MUTANT=$1
	shift 2
	"$auxdecode" verify --plugin "$mutant" "$@" "$file" >"$out" 2>&1
	status=$?
}

agree() { # FAULT FILE PATTERN [OPTION...]
	local fault=$1 file=$2 pattern=$3
	shift 3
	verify "$fault" "$file" "$@"
	[ $status = 0 ] && grep -Eq "$pattern" "$out"
	ok $? "$fault${1:+ $*}: $pattern" "$out"
}

differ() { # FAULT FILE PATTERN [OPTION...]
	local fault=$1 file=$2 pattern=$3
	shift 3
	verify "$fault" "$file" "$@"
	[ $status = 1 ] && grep -Eq "^difference: stream .*, instruction [0-9]+: .*$pattern" "$out"
	ok $? "$fault${1:+ $*}: $pattern" "$out"
}

insns() { "$auxdecode" count "$1" 2>/dev/null | sed -n 's/^total insns \([0-9]*\) .*/\1/p'; }

# ---- Intel PT ----

"$auxcap" -e "soft_pt/psb_period=0,mtc=1,cyc=1/u" -o "$pt" -- "$programs/feature" >"$out" 2>&1
ok $? "a recording with signals, timing and many PSBs" "$out"
n=$(insns "$pt")
build libipt decode/lib/packet/pt_*.c include/common/*.c -lipt

agree none:1 "$pt" "^mutant and libipt agree: $n instructions, .* largest time difference 0 ns, .* 0 of 1 chunks"
agree cut:1 "$pt" "^mutant and libipt agree: $n instructions"
agree none:1 "$pt" "^mutant and libipt agree: $n instructions" --chunk-size 1
agree drop-time:200 "$pt" "1 times of one alone|difference [1-9][0-9]* ns"
agree vague:100 "$pt" "1 branches that one left open"
agree late:600 "$pt" "largest time difference [1-9][0-9]* ns"

differ first:5000 "$pt" 'mutant is at 0x[0-9a-f]+, libipt at 0x'
differ last:7000 "$pt" 'the last of [0-9]+ instructions is at'
differ count:9000 "$pt" 'mutant goes straight on|a RANGE of 2 instructions'
differ mode:10 "$pt" 'the modes differ'
differ tx:8 "$pt" 'the modes differ'
differ untaken:100 "$pt" 'end in another way'
differ kind:5 "$pt" 'end in another way'
differ drop-range:20000 "$pt" 'mutant is at'
differ twice-range:20000 "$pt" 'mutant is at'
differ drop-async:1 "$pt" 'events differ|only libipt has here: ASYNC'
differ change-async:1 "$pt" 'events differ'
differ drop-on:2 "$pt" 'only libipt has here: TRACE_ON'
differ change-on:1 "$pt" "events differ"
differ twice-off:1 "$pt" 'events differ'
differ drop-power:1 "$pt" 'only libipt has here: POWER'

differ end:1000 "$pt" 'the flow of mutant ends here'
differ end-power:3 "$pt" 'the flow of mutant ends here'
differ path:1000 "$pt" 'mutant \(PATHs\) is at'
differ pathsum:1000 "$pt" 'a PATH of 1 ranges'

# What is shown: the instructions before, the packets, both ways on.
verify first:5000 "$pt"
that "shown: what both did" "$out" grep -q '^  both:$' "$out"
that "shown: instructions with names" "$out" grep -Eq '^ +[0-9a-f]+  .*[A-Za-z0-9_.]+\+0x' "$out"
that "shown: packets" "$out" grep -Eq '^    0x[0-9a-f]+: (tnt|tip) .*<$' "$out"
that "shown: each way on" "$out" grep -Ezq 'mutant:.*libipt:' "$out"
at=$(sed -n 's/^difference: .* libipt at 0x\([0-9a-f]*\)$/\1/p' "$out")
k=$(sed -n 's/^difference: .* instruction \([0-9]*\): .*/\1/p' "$out")
is "$("$auxdecode" insn -F ip "$pt" 2>/dev/null | grep -v '^#' | sed -n "${k}p")" "${at:-none}" \
	"the instruction's number is its line in insn"

# A chunk that the decoder gives up: the rest is compared.
agree refuse:1 "$pt" ' 0 instructions, .* 1 of 1 chunks handed to libipt \(the first at 0\)'
agree refuse:3 "$pt" ' 1 of [0-9]+ chunks handed to libipt' --chunk-size 1
agree stop:1000 "$pt" ' 1 of 1 chunks handed to libipt'
agree stop:1000 "$pt" ' 1 of [0-9]{2,} chunks handed to libipt' --chunk-size 1
agree stop:3 "$pt" ' 1 of [0-9]{2,} chunks handed to libipt' --chunk-size 1
verify none:1 "$pt" --chunk-size 1
chunks=$(sed -n 's/^mutant and .* of \([0-9]*\) chunks.*/\1/p' "$out")
bad=''
for ((i = 1; i <= chunks; i++)); do
	verify "refuse:$i" "$pt" --chunk-size 1
	[ $status = 0 ] || bad+=" $i"
done
is "${chunks:-0}:$bad" "$((chunks > 9 ? chunks : 10)):" "each of $chunks chunks, given up: no difference"

# --all
verify first:5000 "$pt" --all --chunk-size 1
is $status 1 "--all: status 1"
that "--all: one difference, and all other chunks" "$out" \
	grep -Eq '^mutant and libipt differ: [0-9]{6} instructions, .* 1 difference$' "$out"
differ first:5000 "$pt" 'mutant is at' --chunk-size 1

# An overflow directly after the end of tracing: libipt 2.0 says nothing of that end, if
# MODE.Exec is before it. No CPU puts one there, and where no overflow follows that is an
# error for libipt; for 2.1 and later (2.1.2, 2.2) it always is.
# A loop; PSB+ at 0x401000, TNT, MODE.Exec, TIP.PGD, OVF, MODE.Exec, TIP.PGE, TNT.
psb='\002\202\002\202\002\202\002\202\002\202\002\202\002\202\002\202\231\001'
ip='\000\020\100\000\000\000\000\000' mode='\231\001'
printf '\377\310\165\374\303' >"$SCRATCH/loop.bin"
end_of_trace() { # BEFORE: leaves $status
	# shellcheck disable=SC2059
	printf "$psb\335$ip\002\043\006$1\301$ip\002\363$mode\321$ip\006" >"$SCRATCH/ovf.pt"
	"$auxdecode" verify --image "$SCRATCH/loop.bin:0-5@0x401000" --pt "$SCRATCH/ovf.pt" >"$out" 2>&1
	status=$?
}
cat >"$SCRATCH/v.c" <<'EOF'
#include <intel-pt.h>
int main(void) { struct pt_version v = pt_library_version(); return v.major == 2 && v.minor == 0; }
EOF
${CC:-cc} -o "$SCRATCH/v" "$SCRATCH/v.c" -lipt
end_of_trace "$mode"
if "$SCRATCH/v"; then
	is $status 1 "MODE.Exec before an end of tracing: libipt 2.1 and later stop there"
	that "... and that is shown" "$out" grep -Ezq '1e: mode.exec cs.l  <.*libipt:.*0x20: GAP ' "$out"
else
	is $status 0 "an end of tracing that an overflow hides from libipt 2.0"
	that "... is counted" "$out" grep -q ', 1 ends of tracing that one has no event of' "$out"
fi
end_of_trace ''
is $status 0 "an end of tracing before an overflow"
that "... which libipt has, too" "$out" not grep -q 'ends of tracing that one has no' "$out"

# ---- CoreSight ----

why=$(no_emulation)
if [ -n "$why" ]; then
	skip "$why" "a recording of CoreSight"
elif [ -x "$programs/aarch64/feature" ]; then
	"$auxcap" -e soft_etm/ete,cycacc,sync_period=9/u -o "$etm" -- "$programs/aarch64/feature" \
		>"$out" 2>&1
	ok $? "a recording of CoreSight" "$out"
	n=$(insns "$etm")
	build opencsd include/common/etm_lookahead.c include/common/a64_insn.c -lopencsd_c_api -lopencsd
	agree none:1 "$etm" "^mutant and opencsd agree: $n instructions, .* largest time difference 0 ns"
	agree none:1 "$etm" "^mutant and opencsd agree: $n instructions" --chunk-size 1
	differ first:500 "$etm" 'mutant is at'
	differ untaken:100 "$etm" 'end in another way'
	differ change-context:2 "$etm" 'events differ'
	differ drop-async:2 "$etm" ""
	differ late:3 "$etm" 'does not have the time'
	that "shown: bytes" "$out" grep -Eq '^    0x[0-9a-f]+:( [0-9a-f]{2})* <[0-9a-f]{2}' "$out"
	verify refuse:1 "$etm"
	that "refuse:1: handed over" "$out" grep -q ' 1 of [0-9]* chunks handed to opencsd' "$out"
fi

# ---- real traces: our engines and the references ----

clean() { # FILE [OPTION...]
	local text=$1
	shift
	"$auxdecode" verify "$@" "$corpus/$text" >"$out" 2>&1
	ok $? "$text: $(sed -n '$s/,.*//p' "$out")" "$out"
}

unset MUTANT
if [ -d "$corpus" ]; then
	tail -n +2 "$corpus/cases.tsv" | cut -f3,4 >"$SCRATCH/cases"
	while IFS=$'\t' read -r file root; do
		[ "$root" = - ] && root=.
		clean "$file" --symfs "$corpus/$root"
	done <"$SCRATCH/cases"
	clean wrapped/coresight-r5-freertos.perf.data --symfs "$corpus"
	that "ETMv3 is OpenCSD's alone: verify says that it compared nothing" "$out" \
		grep -q '^nothing was compared, etm leaves all of it to opencsd: ' "$out"
	for file in "$corpus"/opencsd/snapshots/*/; do
		clean "opencsd/snapshots/$(basename "$file")"
	done
else
	skip "corpus: $corpus is not here"
fi

# ---- the command ----

"$auxdecode" verify --decoder libipt --reference nosuch "$pt" >"$out" 2>&1
is $? 2 "no such reference: status 2"
that "... and which there are" "$out" grep -q 'there are: .*libipt' "$out"
"$auxdecode" verify --decoder libipt --progress "$pt" >/dev/null 2>"$out"
that "--progress" "$out" grep -q 'M instructions' "$out"
"$auxdecode" verify --decoder libipt --stream 7 "$pt" >"$out" 2>&1
is $? 2 "--stream: one that is not there is wrong usage"
that "--stream: and said" "$out" grep -q 'stream 7: the file has no such stream' "$out"
"$auxdecode" raw --stream 7 "$pt" >"$out" 2>&1
is $? 2 "raw --stream: the same"
that "raw --stream: and said" "$out" grep -q 'stream 7: the file has no such stream' "$out"
"$auxdecode" raw --stream 0 -n 1 "$pt" >"$out" 2>&1
is $? 0 "raw --stream: one that is there"

# ---- a file that is cut: they agree on what is there, and there was more ----
head -c $(($(wc -c <"$pt") / 2)) "$pt" >"$SCRATCH/cut.data"
"$auxdecode" verify "$SCRATCH/cut.data" >"$out" 2>"$SCRATCH/err"
is $? 3 "a cut file: status 3"
that "a cut file: the decoders agree" "$out" grep -q '^pt and libipt agree: [1-9]' "$out"
that "a cut file: where it is cut" "$SCRATCH/err" grep -Eq 'cut.data@0x[0-9a-f]+: the file ends inside' "$SCRATCH/err"
finish
