#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Source lines and inlined functions against addr2line of binutils, at each
# instruction of programs and of a recording: DWARF 4 and 5, optimised or not,
# compressed, in a separate debug file. (test_sourceline answers as addr2line does.)
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/lib.sh"
need_soft

s=$SCRATCH/lines
mkdir -p "$s"
tool=$BUILD/tests/test_sourceline
p=$PWD/tests/programs

# compare OURS THEIRS: files, lines, names of each frame. What addr2line has from the
# symbol table alone (no line) is not compared; of a name, what is behind a dot
# (".constprop.0") is the symbol table's. A C++ function without a linkage name (of
# an anonymous namespace) gets from addr2line the nearest symbol's, be it right or
# not. addr2line 2.40 gives with DWARF 5 the unit's own file for some functions of
# headers: lax lets that pass, a few times.
cat >"$s/compare.py" <<'PY'
import re, sys
def read(path):
    out, cur = {}, None
    for l in open(path):
        l = re.sub(r" \(discriminator \d+\)$", "", l.rstrip("\n"))
        if re.match(r"0x[0-9a-f]{16}$", l):
            cur = out.setdefault(l, [])
        else:
            cur.append(l)
    return out
def name(a, b):
    if cxx and not a.startswith("_Z"):
        return True
    return re.sub(r"\..*", "", a) == re.sub(r"\..*", "", b)
def place(a, b, lax):
    a, b = (re.sub(r"/(\./)+", "/", x).replace(":?", ":0") for x in (a, b))
    return a == b or lax and a.rpartition(":")[2] == b.rpartition(":")[2]
ours, theirs = read(sys.argv[1]), read(sys.argv[2])
cxx, lax = sys.argv[3] == "cxx", len(sys.argv) > 4
bad = n = chains = n_lax = 0
for k, b in theirs.items():
    a = ours.get(k, [])
    if b[1].endswith((":?", ":0")) and a[1:] == ["??:0"]:
        continue
    n += 1
    chains += len(b) > 2
    if a and a[0] == "??" and place(a[1], b[1], False):
        continue    # between functions: the symbol table's name
    pairs = list(zip(a, b))
    if len(a) == len(b) and all((place(x, y, False) if i % 2 else name(x, y))
                                for i, (x, y) in enumerate(pairs)):
        continue
    if lax and len(a) == len(b) and all((place(x, y, True) if i % 2 else name(x, y))
                                        for i, (x, y) in enumerate(pairs)):
        n_lax += 1
        continue
    bad += 1
    if bad <= 8:
        print(k, a, b)
print(f"{n} addresses, {chains} with inlined functions, {bad} differ")
sys.exit(bool(bad) or n < 20 or n_lax > n / 10)
PY

# Padding is nobody's: addr2line reaches into it.
addresses() { # FILE
	objdump -d --no-show-raw-insn "$1" | grep -vE "nop|xchg +%ax,%ax|data16" | sed -n 's/^ *\([0-9a-f]*\):\t.*/\1/p'
}

against() { # TEXT FILE DEBUG-FILE [lax]
	"$tool" "$2" <"$s/addrs" >"$s/ours" 2>"$s/err"
	is $? 0 "$1: lines of all addresses"
	addr2line -a -i -f -e "$3" <"$s/addrs" >"$s/theirs"
	python3 "$s/compare.py" "$s/ours" "$s/theirs" "$lang" ${4:+"$4"} >"$s/out" 2>&1
	ok $? "$1: $(tail -n 1 "$s/out")" "$s/out"
}

build() { # NAME SOURCE FLAGS...
	local name=$1 src=$2 cc=gcc
	shift 2
	lang=c
	case $src in *.cc) cc=g++ lang=cxx ;; esac
	"$cc" "$@" -o "$s/$name" "$src" -lm -pthread 2>"$s/err"
	addresses "$s/$name" >"$s/addrs"
}

for v in 4 5; do
	lax=
	[ $v = 5 ] && lax=lax
	build o0 "$p/cover_data.c" -O0 -gdwarf-$v
	against "C -O0, DWARF $v" "$s/o0" "$s/o0" $lax
	build o2 "$p/cover_data.c" -O2 -gdwarf-$v
	against "C -O2, DWARF $v" "$s/o2" "$s/o2" $lax
	build cc "$p/cover_class.cc" -O2 -gdwarf-$v
	against "C++ -O2, DWARF $v" "$s/cc" "$s/cc" $lax
done
build gz "$p/cover_class.cc" -O1 -gdwarf-4 -gz
against "compressed sections" "$s/gz" "$s/gz"
build types "$p/cover_class.cc" -O2 -gdwarf-4 -fdebug-types-section
against "type units" "$s/types" "$s/types"
build static "$p/cover_data.c" -O2 -gdwarf-4 -ffunction-sections -Wl,--gc-sections -no-pie
against "sections left out by the linker" "$s/static" "$s/static"

# a separate debug file, by .gnu_debuglink in the same directory
build whole "$p/cover_class.cc" -O2 -gdwarf-4
(cd "$s" && objcopy --only-keep-debug whole apart.debug &&
	objcopy --strip-all --add-gnu-debuglink=apart.debug whole apart)
against "separate debug file" "$s/apart" "$s/whole"

# what two files share, moved into a third by dwz
mkdir "$s/dwz"
build joint "$p/cover_data.c" -O2 -gdwarf-4
cp "$s/joint" "$s/dwz/one"
cp "$s/joint" "$s/dwz/two"
(cd "$s/dwz" && dwz -m shared.debug -r one two) 2>"$s/err"
ok $? "dwz" "$s/err"
that "names are in the shared file" "$s/err" eval 'readelf -S "$s/dwz/one" | grep -q gnu_debugaltlink'
against "a file that dwz shares" "$s/dwz/one" "$s/joint"
mv "$s/dwz/shared.debug" "$s/dwz/gone"
"$tool" "$s/dwz/one" <"$s/addrs" >"$s/ours" 2>"$s/err"
that "without that file: lines, no crash" "$s/err" grep -q 'cover_data.c:[1-9]' "$s/ours"
build whole "$p/cover_class.cc" -O2 -gdwarf-4

# each instruction of a recording
"$auxcap" -e soft_pt//u -o "$s/t.data" -- "$s/whole" >/dev/null 2>"$s/err"
"$auxdecode" coverage --to drcov --module whole -o "$s/t.drcov" "$s/t.data" 2>"$s/err"
base=$(grep -a '^ *[0-9]*, 0x' "$s/t.drcov" | sed -n 's/^ *[0-9]*, \(0x[0-9a-f]*\),.*whole$/\1/p')
"$auxdecode" insn -F ip,dso "$s/t.data" 2>/dev/null | sort -u |
	awk -v f="$s/whole" '$2 == f { print $1 }' |
	while read -r ip; do printf '%x\n' $((16#$ip - base)); done >"$s/addrs"
that "instructions of a recording" "$s/err" test "$(wc -l <"$s/addrs")" -gt 300
against "instructions of a recording" "$s/whole" "$s/whole"
finish
