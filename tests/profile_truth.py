#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
#
# A branch list against what `auxdecode insn` and `auxdecode branch` show of the
# same recording, line by line, and where perf says that files were mapped:
#
#	profile_truth.py LIST INSN BRANCH MMAPS
#
# INSN: lines of one ip. BRANCH: lines "kind from to". MMAPS: perf script
# --show-mmap-events. Every address must have run as often as the ranges around it
# say, every branch as often as it was shown.
import bisect
import re
import sys
from collections import Counter

MMAP = re.compile(r'\[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) .*\]: (\S+) (.*)$')


def read_maps(path):
    maps = []
    for line in open(path):
        m = MMAP.search(line)
        if m and 'PERF_RECORD_MMAP' in line and (m[5].startswith('/') or m[5] == '[vdso]'):
            start, size, pgoff = (int(m[i], 0) for i in (1, 2, 3))
            maps.append((start, start + size, pgoff, m[5]))
    return sorted(set(maps))


class Places:
    def __init__(self, maps):
        self.maps = maps
        self.starts = [m[0] for m in maps]

    def find(self, ip):
        i = bisect.bisect_right(self.starts, ip) - 1
        if i >= 0 and ip < self.maps[i][1]:
            start, _, pgoff, path = self.maps[i]
            return path, ip - start + pgoff
        return '', ip


def read_list(path):
    modules, ranges, branches = {}, [], Counter()
    for line in open(path):
        f = line.split()
        if line.startswith('#'):
            continue
        if f[0] == 'module':
            modules[f[1]] = line.split(' ', 4)[4].rstrip('\n')
        elif f[0] == 'range':
            ranges.append((f[1], int(f[2], 16), int(f[3], 16), int(f[4]), int(f[5])))
        elif f[0] == 'branch':
            to = None if f[4] == '-' else (f[3], int(f[4], 16))
            branches[(f[1], int(f[2], 16)), to, f[5]] += int(f[6])
    return modules, ranges, branches


def count_addresses(ranges, executed):
    """How often each address that ran did, by the ranges."""
    counts, n_insns = Counter(), 0
    for module, first, last, n, count in ranges:
        inside = executed[module]
        i = bisect.bisect_left(inside, first)
        j = bisect.bisect_right(inside, last)
        if j - i != n:
            print(f'range {module} {first:x} {last:x}: {n} instructions, {j - i} ran')
        for offset in inside[i:j]:
            counts[module, offset] += count
        n_insns += n * count
    return counts, n_insns


def main():
    places = Places(read_maps(sys.argv[4]))
    modules, ranges, branches = read_list(sys.argv[1])
    number = {path: n for n, path in modules.items()}
    mapped = {m[3] for m in places.maps}
    bad = 0

    truth = Counter()
    for line in open(sys.argv[2]):
        if not line.startswith('#'):
            path, offset = places.find(int(line, 16))
            truth[number.get(path, path), offset] += 1
    executed = {n: sorted(o for m, o in truth if m == n) for n in modules}
    counts, n_insns = count_addresses(ranges, executed)
    for key in set(truth) | set(counts):
        if truth[key] != counts[key]:
            bad += 1
            if bad < 20:
                print(f'{key}: ran {truth[key]} times, the list has {counts[key]}')

    shown, unmapped = Counter(), {n for n, p in modules.items() if p not in mapped}
    for line in open(sys.argv[3]):
        f = line.split()
        if line.startswith('#') or len(f) < 3 or f[1] == '-' or f[0] in ('on', 'off', 'kind'):
            continue
        path, offset = places.find(int(f[1], 16))
        to = None
        if f[2] != '-':
            to = places.find(int(f[2], 16))
            to = (number.get(to[0], to[0]), to[1])
        shown[(number.get(path, path), offset), to, f[0]] += 1
    for key in set(shown) | set(branches):
        known = key[0][0] not in unmapped and (not key[1] or key[1][0] not in unmapped)
        # into code that was mapped later, as the recorder saw it: of no module
        late = shown[key] == branches[key] + 1 and (not key[1] or key[1][0] in modules)
        if shown[key] != branches[key] and known and not late:
            bad += 1
            if bad < 20:
                print(f'{key}: {shown[key]} shown, the list has {branches[key]}')
    if sum(shown.values()) != sum(branches.values()):
        print(f'{sum(shown.values())} branches shown, {sum(branches.values())} in the list')
        bad += 1
    print(f'{sum(truth.values())} instructions, {sum(shown.values())} branches')
    return bool(bad or n_insns != sum(truth.values()))


sys.exit(main())
