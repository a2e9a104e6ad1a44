#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it is about sources, not about what is built
#
# auxkit for arm64: it builds without a warning by `make CROSS=aarch64-linux-gnu-`, and
# its auxdecode, under qemu-aarch64, prints what that of this machine prints, byte for
# byte: of recordings that are in the project, and of new ones.
. "$(dirname "$0")/lib.sh"

[ -z "${QUICK:-}" ] || { skip "takes minutes" "cross build"; finish; }
cc=$(command -v aarch64-linux-gnu-gcc-12 || command -v aarch64-linux-gnu-gcc)
[ -n "$cc" ] || { skip "no cross compiler: tools/deps install cross" "cross build"; finish; }
have qemu-aarch64 || { skip "no qemu-aarch64: tools/deps install cross" "cross build"; finish; }
if ! tools/sysroot arm64 >/dev/null 2>"$SCRATCH/err"; then
	skip "Debian's libraries for arm64: $(tail -n 1 "$SCRATCH/err")" "cross build"
	finish
fi

# Some unit tests of what differs by machine: byte order of structures, signed characters,
# pages, instructions of both, libraries. All of them: make check-arm64.
units=(test_a64_insn test_addrspace test_cs_frame test_elf test_etm_packet test_event test_pt_events
	test_pt_packet test_reader test_sourceline test_timeline test_x86_insn)
built=build/aarch64
tests/arm64 --build all lib "${units[@]/#/$built/tests/}" >"$SCRATCH/make" 2>&1
ok $? "everything builds for arm64 without a warning" "$SCRATCH/make" || finish
for u in "${units[@]}"; do
	"$built/emulated/tests/$u" >"$SCRATCH/unit" 2>&1
	ok $? "$u of arm64: $(grep -c ^ok "$SCRATCH/unit")" "$SCRATCH/unit"
done
for f in auxcap auxdecode auxkit-qemu.so libauxdecode.so libauxdecode.a; do
	aarch64-linux-gnu-readelf -h "$built/$f" >"$SCRATCH/elf" 2>&1
	that "$f is of arm64" "$SCRATCH/elf" grep -q 'Machine:.*AArch64' "$SCRATCH/elf"
done
that "built with every library but libipt, which only x86 has" "$SCRATCH/make" \
	grep -q '^have: ELF DW CAPSTONE OPENCSD JSON NCURSES LZMA Z SQLITE DEBUGINFOD ZSTD IBERTY$' "$SCRATCH/make"

export AUXDECODE=$PWD/$built/emulated/auxdecode

bash tests/t_golden.sh >"$SCRATCH/golden" 2>&1
ok $? "the expected outputs ($(grep -c ^ok "$SCRATCH/golden"))" "$SCRATCH/golden"
"$AUXDECODE" verify fixtures/hello_cyc.data >"$SCRATCH/out" 2>&1
is $? 1 "verify fails without its reference"
that "and says why" "$SCRATCH/out" grep -q 'built without libipt' "$SCRATCH/out"

# Recordings made now: of this machine's programs and of arm64's.
files=(fixtures/hello_cyc.data fixtures/hello_thread.data)
[ -n "$(no_emulation)" ] || for p in hello_static stack_throw aarch64/hello_dynamic aarch64/threads; do
	source=soft_pt
	[[ $p != aarch64/* ]] || source=soft_etm
	[ -x "$programs/$p" ] || continue
	f=$SCRATCH/$source-${p##*/}.data
	"$auxcap" -q -e "$source//u" -o "$f" -- "$programs/$p" >"$SCRATCH/out" 2>&1
	ok $? "$source of $p" "$SCRATCH/out" && files+=("$f")
done
# And one that arm64's auxcap makes: this machine's qemu loads the plugin of this machine.
if [ -z "$(no_emulation)" ] && [ -x "$programs/aarch64/forkexec" ]; then
	data=$SCRATCH/arm64.data truth=$SCRATCH/arm64.truth
	"$built/emulated/auxcap" -q -e soft_etm//u -o "$data" --truth "$truth" -- \
		"$programs/aarch64/forkexec" >"$SCRATCH/out" 2>&1
	ok $? "auxcap of arm64 records" "$SCRATCH/out" && files+=("$data")
	matches "and auxdecode of arm64 says what ran"
	auxdecode=$BUILD/auxdecode matches "and that of this machine"
fi
# What needs libipt, or takes long and goes the same way as another.
left_out=libipt,bad-decoder,verify,bundle,coverage-drcov,profile-gcov,latency-insns,calls-inline
left_out+=,export-fxt,export-chrome,export-firefox,export-speedscope,export-callgrind,insn-chunk,calls-depth
tools/same-output "$BUILD/auxdecode" "$AUXDECODE" -j "$(nproc)" -o "$SCRATCH/same" \
	-x "$left_out" "${files[@]}" >"$SCRATCH/out" 2>&1
ok $? "arm64's auxdecode prints the same bytes: $(tail -n 1 "$SCRATCH/out")" "$SCRATCH/out"

# Descriptions of the programs are of the program, not of the machine.
"$built/emulated/auxcap" --help >"$SCRATCH/help" 2>&1
ok $? "auxcap of arm64 runs" "$SCRATCH/help"
"$built/emulated/auxcap" -e soft_pt/step/u -o "$SCRATCH/x.data" -- true >"$SCRATCH/out" 2>&1
is $? 2 "soft_pt/step is refused on arm64"
that "with the reason" "$SCRATCH/out" grep -q 'x86-64 programs on x86-64 alone' "$SCRATCH/out"
finish
