#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program with its names and without, recorded alike: are all counts of its functions the same?

  stripped.py AUXDECODE PROGRAM DATA BARE DATA

PROGRAM has names, BARE is the same file without; says what differs. Left out is what the
compiler's startup files bring without unwind tables.
"""
import re, subprocess, sys
tool, program, full, bare_file, bare = sys.argv[1:]
LEFT_OUT = {"register_tm_clones", "deregister_tm_clones", "frame_dummy", "_init", "_fini", "__do_global_dtors_aux"}

def lines(*args):
    return subprocess.run(args, capture_output=True, text=True).stdout.splitlines()

segments = [[int(f[i], 16) for i in (1, 2, 4)] for f in (l.split() for l in lines("readelf", "-lW", program)) if f[:1] == ["LOAD"]]
names = {}
for l in lines("nm", "-C", program):
    f = l.split(None, 2)
    if len(f) == 3 and f[1] in "tTwW":
        for offset, addr, size in segments:
            if addr <= int(f[0], 16) < addr + size:
                names.setdefault(int(f[0], 16) - addr + offset, set()).add(f[2])
shown = {n: min(v) for v in names.values() for n in v}	# one place may have several names

def by_name(data, file):
    got = {}
    for l in lines(tool, "hot", "--full-names", "-n", "99999", data):
        f = l.split()
        if l.startswith("#") or f[-1].split("/")[-1] != file.split("/")[-1]:
            continue
        name = " ".join(f[6:-1])
        place = re.match(r"\[.*\+0x([0-9a-f]+)\]$", name)
        if place:
            name = min(names.get(int(place[1], 16), [name]))
        name = shown.get(name, name)
        if name not in LEFT_OUT and name != "[" + file.split("/")[-1] + "]":
            got[name] = (int(f[0]), int(f[2]), int(f[4]))
    return got

a, b = by_name(full, program), by_name(bare, bare_file)
for k in sorted(a.keys() | b.keys()):
    if a.get(k) != b.get(k):
        print(k, a.get(k), b.get(k))
print(len(a), "functions")
sys.exit(a != b or not a)
