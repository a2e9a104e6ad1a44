#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# auxkit for arm64: it builds without a warning by `make CROSS=aarch64-linux-gnu-`, and
# its auxdecode, under qemu-aarch64, prints what that of this machine prints, byte for
# byte: of recordings that are in the project, and of new ones.
. "$(dirname "$0")/lib.sh"

[ -z "${QUICK:-}" ] || { skip "takes minutes" "cross build"; finish; }
cc=$(command -v aarch64-linux-gnu-gcc-12 || command -v aarch64-linux-gnu-gcc)
[ -n "$cc" ] || { skip "no cross compiler: tools/deps install cross" "cross build"; finish; }
have qemu-aarch64 || { skip "no qemu-aarch64: tools/deps install cross" "cross build"; finish; }
if ! sysroot=$(tools/sysroot arm64 2>"$SCRATCH/err"); then
	skip "Debian's libraries for arm64: $(tail -n 1 "$SCRATCH/err")" "cross build"
	finish
fi

# Always the same directory, and never with sanitizers: a second time it takes seconds.
built=build/aarch64
[[ "${CC:-}" != "ccache "* ]] || cc="ccache $cc"
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u SAN -u BUILD -u CC nice \
	make -j"$(nproc)" CROSS=aarch64-linux-gnu- BUILD=$built SYSROOT="$sysroot" CC="$cc" \
	WERROR=1 all lib >"$SCRATCH/make" 2>&1
ok $? "everything builds for arm64 without a warning" "$SCRATCH/make" || finish
for f in auxcap auxdecode auxkit-qemu.so libauxdecode.so libauxdecode.a; do
	aarch64-linux-gnu-readelf -h "$built/$f" >"$SCRATCH/elf" 2>&1
	that "$f is of arm64" "$SCRATCH/elf" grep -q 'Machine:.*AArch64' "$SCRATCH/elf"
done
that "built with every library but libipt, which only x86 has" "$SCRATCH/make" \
	grep -q '^have: ELF DW CAPSTONE OPENCSD JSON NCURSES LZMA Z SQLITE DEBUGINFOD ZSTD IBERTY$' "$SCRATCH/make"

# The programs of arm64 as commands of this machine.
mkdir "$SCRATCH/bin"
for f in auxcap auxdecode; do
	printf '#!/bin/sh\nexec qemu-aarch64 -L %s %s "$@"\n' "$sysroot" \
		"$(realpath $built/$f)" >"$SCRATCH/bin/$f"
	chmod +x "$SCRATCH/bin/$f"
done
export AUXDECODE=$SCRATCH/bin/auxdecode

bash tests/t_golden.sh >"$SCRATCH/golden" 2>&1
ok $? "the expected outputs ($(grep -c ^ok "$SCRATCH/golden"))" "$SCRATCH/golden"
"$AUXDECODE" verify fixtures/hello_cyc.data >"$SCRATCH/out" 2>&1
is $? 1 "verify fails without its reference"
that "and says why" "$SCRATCH/out" grep -q 'built without libipt' "$SCRATCH/out"

# Recordings made now: of this machine's programs and of arm64's.
files=(fixtures/hello_cyc.data fixtures/hello_thread.data)
[ -n "$(no_emulation)" ] || for p in hello_static aarch64/hello_dynamic aarch64/threads; do
	source=soft_pt
	[[ $p != aarch64/* ]] || source=soft_etm
	[ -x "$programs/$p" ] || continue
	f=$SCRATCH/$source-${p##*/}.data
	"$auxcap" -q -e "$source//u" -o "$f" -- "$programs/$p" >"$SCRATCH/out" 2>&1
	ok $? "$source of $p" "$SCRATCH/out" && files+=("$f")
done
# What needs libipt, or takes long and goes the same way as another.
left_out=libipt,bad-decoder,verify,bundle,coverage-drcov,profile-gcov,latency-insns,calls-inline
left_out+=,export-fxt,export-chrome,export-firefox,export-speedscope,export-callgrind,insn-chunk,calls-depth
tools/same-output "$BUILD/auxdecode" "$AUXDECODE" -j "$(nproc)" -o "$SCRATCH/same" \
	-x "$left_out" "${files[@]}" >"$SCRATCH/out" 2>&1
ok $? "arm64's auxdecode prints the same bytes: $(tail -n 1 "$SCRATCH/out")" "$SCRATCH/out"

# Descriptions of the programs are of the program, not of the machine.
"$SCRATCH/bin/auxcap" --help >"$SCRATCH/help" 2>&1
ok $? "auxcap of arm64 runs" "$SCRATCH/help"
"$SCRATCH/bin/auxcap" -e soft_pt/step/u -o "$SCRATCH/x.data" -- true >"$SCRATCH/out" 2>&1
is $? 2 "soft_pt/step is refused on arm64"
that "with the reason" "$SCRATCH/out" grep -q 'x86-64 programs on x86-64 alone' "$SCRATCH/out"
finish
