#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
#
# Readers of profiles, written from the formats' descriptions, and what they are
# held against. Each ends with status 0 when both sides agree:
#
#	lines A B		profiles by source line: .gcov of gcc, text of LLVM,
#				the text of dump_gcov, by what they begin with;
#				discriminators are left out, the largest count of
#				a line stays
#	heads A B		how often functions of A were entered, by B
#	totals TEXT		the sums in a text of LLVM are its parts' sums
#	fdata FDATA BOLT NM LIST  what perf2bolt made of pre-aggregated lines; LIST: a list
#				of branches, which says what are returns
#	brstack OURS PERF	samples with branch stacks, as perf script shows them
#	text LIST		a branch list for create_gcov -profiler text
import re
import struct
import sys
from collections import Counter


class Gcov:
    """auto-profile.cc of gcc 12: strings are bytes with their length."""

    def __init__(self, data):
        self.data, self.at, self.lines, self.heads = data, 0, Counter(), Counter()
        assert [self.u32() for _ in range(3)] == [0x67636461, 2, 0]
        assert self.u32() == 0xaa000000
        length, start = self.u32(), self.at
        self.names = [self.string() for _ in range(self.u32())]
        assert length == self.at - start
        assert self.u32() == 0xac000000
        self.u32()
        for _ in range(self.u32()):
            head = self.u64()
            self.heads[self.instance(())] = head
        assert [self.u32() for _ in range(3)] == [0xae000000, 4, 0]
        assert self.at == len(data)

    def u32(self):
        self.at += 4
        return struct.unpack_from('<I', self.data, self.at - 4)[0]

    def u64(self):
        return self.u32() | self.u32() << 32

    def string(self):
        n = self.u32()
        self.at += n
        text = self.data[self.at - n:self.at]
        assert text[-1] == 0 and 0 not in text[:-1]
        return text[:-1].decode()

    def instance(self, stack):
        name, n_places, n_inside = self.names[self.u32()], self.u32(), self.u32()
        here = stack + (name,)
        for _ in range(n_places):
            where, n_targets, count = self.u32() >> 16, self.u32(), self.u64()
            assert (here, where) not in self.lines
            self.lines[here, where] = count
            for _ in range(n_targets):
                assert self.u32() == 7 and self.u64() < len(self.names) and self.u64()
        for _ in range(n_inside):
            self.instance(here + (self.u32() >> 16,))
        return name


class Text:
    """NAME total:N head:N and LINE: COUNT of dump_gcov, NAME:N:N of LLVM."""

    def __init__(self, text):
        self.lines, self.heads, self.totals, self.targets = Counter(), Counter(), {}, {}
        stack = []
        for line in text.splitlines():
            if not line.strip() or line.startswith('#'):
                continue
            depth = len(line) - len(line.lstrip(' '))
            if line[0] != ' ':
                m = re.match(r'(\S+?)(?: total:|:)(\d+)(?: head:|:)(\d+)$', line)
                stack = [(m[1], 0)]
                self.heads[m[1]] = int(m[3])
                self.totals[(m[1],)] = int(m[2])
                continue
            while depth <= stack[-1][1]:
                stack.pop()
            m = re.match(r' *(\d+)(?:\.\d+)?: (\S.*)$', line)
            here, where, rest = self.path(stack), int(m[1]), m[2].split()
            if rest[0].isdigit():
                self.lines[here, where] = max(self.lines[here, where], int(rest[0]))
                for target in rest[1:]:
                    name, n = target.rsplit(':', 1)
                    self.targets[here, where, name] = int(n)
                continue
            name, total = re.match(r'(\S+?)(?: total)?:(\d+)$', m[2]).groups()
            stack.append(((where, name), depth))
            self.totals[self.path(stack)] = int(total)

    @staticmethod
    def path(stack):
        path = ()
        for name, _ in stack:
            path += name if isinstance(name, tuple) else (name,)
        return path


def read_profile(path):
    data = open(path, 'rb').read()
    return Gcov(data) if data[:4] == b'adcg' else Text(data.decode())


def differ(a, b):
    bad = [k for k in set(a) | set(b) if a[k] != b[k]]
    for k in sorted(bad, key=str)[:20]:
        print(k, a[k], b[k])
    print(len(a), 'and', len(b))
    return bool(bad) or not a


def lines(a, b):
    a, b = read_profile(a), read_profile(b)
    # _start is assembly, with lines and without a function
    b.lines = {k: v for k, v in b.lines.items() if k[0] != ("_start",)}
    return differ(Counter({k: v for k, v in a.lines.items() if v}),
                  Counter({k: v for k, v in b.lines.items() if v}))


def heads(a, b):
    a, b = read_profile(a).heads, read_profile(b).heads
    return differ(a, Counter({k: b[k] for k in a}))


def totals(path):
    parts = Counter()
    for line in open(path):
        m = re.match(r' +[\d.]+: (\d+)( |$)', line)
        if m:
            parts['sum'] += int(m[1])
    roots = sum(v for k, v in read_profile(path).totals.items() if len(k) == 1)
    print(roots, parts['sum'])
    return roots != parts['sum'] or not roots


def fdata(path, bolt, symbols, branches):
    start, returns = {}, set()
    for line in open(branches):
        f = line.split()
        if f[0] == 'branch' and f[5] == 'ret':
            returns.add(int(f[2], 16))
    for line in open(symbols):
        f = line.split()
        if len(f) == 3 and f[1] in 'tT':
            start[f[2]] = int(f[0], 16)
    got, want = Counter(), Counter()
    for line in open(path):
        f = line.split()
        names = [n.split('/')[0] for n in (f[1], f[4])]
        if f[0] == f[3] == '1' and all(n in start for n in names):
            place = [start[n] + int(o, 16) for n, o in zip(names, (f[2], f[5]))]
            got[tuple(place)] += int(f[7])
    for line in open(bolt):
        f = line.split()
        if f[0] == 'B' and ':' not in f[1] + f[2]:
            want[int(f[1], 16), int(f[2], 16)] += int(f[3])
    # fdata has what falls through too, and of newer BOLT (19) no returns; PLT entries have no
    # symbol
    inner = {k for k in want if k in got}
    big = [k for k in want if want[k] > 5 and k not in got and k[0] not in returns]
    print(len(inner), 'of', len(want), 'branches', big)
    return bool(big) or differ(Counter({k: want[k] for k in inner}),
                               Counter({k: got[k] for k in inner}))


def brstack(ours, perf):
    """perf shows a system call as two branches, from and to 0: no branch was taken."""
    a = [line.split() for line in open(ours)]
    b = [line.split() for line in open(perf)]
    bad, compared = len(a) != len(b), 0
    for x, y in zip(a, b):
        y = [w for w in y if not w.startswith('0x0/') and '/0x0/' not in w]
        n = min(len(x), len(y))
        compared += n - 1
        if x[:n] != y[:n] or n < 2:
            print(x[0], y[0], [i for i in range(n) if x[i] != y[i]][:5])
            bad += 1
    print(len(a), 'samples', compared, 'branches')
    return bool(bad) or not a


def text(path):
    ranges, branches = Counter(), Counter()
    for line in open(path):
        f = line.split()
        if f[:2] == ['range', '0']:
            ranges[f[2], f[3]] += int(f[5])
        elif f[:2] == ['branch', '0'] and f[3] == '0':
            branches[f[2], f[4]] += int(f[6])
    print(len(ranges))
    for (a, b), n in ranges.items():
        print(f'{a}-{b}:{n}')
    print(f'0\n{len(branches)}')
    for (a, b), n in branches.items():
        print(f'{a}->{b}:{n}')


sys.exit({f.__name__: f for f in (lines, heads, totals, fdata, brstack, text)}[sys.argv[1]](*sys.argv[2:]))
