# SPDX-License-Identifier: BSD-2-Clause
"""api_lines.py OURS THEIRS CXX: what source_lines and addr2line -a -i -f say of the
same addresses: as many frames, each with the same function, file and line. A C++
function without a linkage name gets the nearest symbol's of addr2line; what follows
a dot of a name (".constprop.0") is the symbol table's. Where neither has a line,
addr2line may lack the name (of stubs), or have the symbol table's file."""
import re
import sys


def read(path):
    out, frames = {}, None
    for line in open(path):
        line = re.sub(r" \(discriminator \d+\)$", "", line.rstrip("\n"))
        m = re.match(r"(0x[0-9a-f]{16})( \d+)?$", line)
        if m:
            frames = out[m[1]] = []
        else:
            frames.append(re.sub(r"/(\./)+", "/", line).replace(":?", ":0"))
    return out


def equal(i, a, b, cxx, bare):
    if i % 2:
        return a == b
    return bare and b == "??" or cxx and not a.startswith("_Z") or a.split(".")[0] == b.split(".")[0]


ours, theirs = read(sys.argv[1]), read(sys.argv[2])
cxx = sys.argv[3] == "1"
bad = chains = 0
for addr, want in theirs.items():
    got = ours.get(addr, [])
    chains += len(want) > 2
    bare = got[1:] == ["??:0"] and len(want) == 2 and want[1].endswith(":0")
    if bare:
        want = [want[0], "??:0"]
    if len(got) == len(want) and all(equal(i, a, b, cxx, bare)
                                     for i, (a, b) in enumerate(zip(got, want))):
        continue
    bad += 1
    if bad <= 8:
        print(addr, got, want)
print(f"{len(theirs)} addresses, {chains} with inlined functions, {bad} differ")
sys.exit(bool(bad) or chains < 5 or set(ours) != set(theirs))
