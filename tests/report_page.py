#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads what is in a page that `auxdecode report` made, and prints sums of it.

  report_page.py FILE.html              "calls N", "insns N", "thread TID INSNS", ...
  report_page.py FILE.html NAME...      "NAME CALLS" for each function
  report_page.py --commands FILE.html WHICH FUNCTION   commands that it shows, where
                                        the words stand for what is chosen there

Fails where nodes do not lie in each other, or do not add up.
"""
import base64
import json
import re
import struct
import sys
import zlib

MERGED, GOES_ON = 1, 4


def blocks(path):
    text = open(path, encoding="utf-8").read()  # so all of it is UTF-8
    for kind, z, data in re.findall(
            r'<script type="text/plain" class="block" data-kind="(\w+)" data-z="(\d)">([^<]*)<', text):
        raw = base64.b64decode(data)
        yield kind, zlib.decompress(raw) if z == "1" else raw


def varints(data):
    v = shift = 0
    for b in data:
        v |= (b & 127) << shift
        shift += 7
        if b < 128:
            yield v
            v = shift = 0
    assert shift == 0, "a number is cut"


def columns(raw):
    n, n_columns, more, _ = struct.unpack_from("<4I", raw)
    at, out = 16, []
    for _ in range(n_columns):
        size, = struct.unpack_from("<I", raw, at)
        out.append(list(varints(raw[at + 4:at + 4 + size])))
        at += 4 + size
    assert at == len(raw), "bytes are left over"
    return n, more, out


def signed(v):
    return v // 2 if v % 2 == 0 else -(v + 1) // 2


class Node:
    pass


def nodes(raw):
    n, lane, c = columns(raw)
    assert all(len(x) == n for x in c[:8]), "columns of unequal length"
    extra, away = iter(c[8]), iter(c[9])
    depth = start = 0
    for i in range(n):
        x = Node()
        depth += signed(c[0][i])
        start += c[1][i]
        x.lane, x.depth, x.start, x.end = lane, depth, start, start + c[2][i]
        x.insns, x.func, x.flags = c[3][i], c[5][i], c[6][i] >> 6 & 15
        x.count = 0 if x.flags & GOES_ON else 1
        x.away = next(away) if c[6][i] >> 14 & 1 else 0
        if c[6][i] >> 15:
            x.count = next(extra)
            x.deep, x.busy = next(extra), next(extra)
            assert x.busy <= x.end - x.start, "more time in calls than there is"
        yield x
    assert next(extra, None) is None and next(away, None) is None


def check_nesting(all_nodes, info):
    stacks = {}
    for x in all_nodes:
        s = stacks.setdefault(x.lane, [])
        assert x.depth <= len(s), "a frame without a caller"
        del s[x.depth:]
        if s:
            assert not s[-1].flags & MERGED, "a frame in merged ones"
            assert s[-1].start <= x.start and x.end <= s[-1].end, "a frame sticks out"
        s.append(x)
        assert x.end <= info["span"], "a frame behind the end"


def commands(path, which, function):
    for kind, raw in blocks(path):
        if kind == "json":
            for name, (before, after) in json.loads(raw)["commands"].items():
                print(before + (function if name in ("latency", "annotate") else which) + after)


def main(path, *wanted):
    info, tree, all_nodes = None, None, []
    for kind, raw in blocks(path):
        if kind == "json":
            info = json.loads(raw)
        elif kind == "tree":
            tree = columns(raw)[2]
        elif kind == "nodes":
            all_nodes += nodes(raw)
    check_nesting(all_nodes, info)
    calls = dict(zip(info["name"], info["calls"]))
    if wanted:
        for name in wanted:
            print(name, calls.get(name, 0))
        return
    total = info["total"]
    assert sum(tree[4]) == total["insns"] == sum(info["ownInsns"]), "instructions do not add up"
    # 1 to 5 are gaps, time when the trace was off, and time off the CPU
    n = sum(n for f, n in zip(tree[1], tree[2]) if not 1 <= f <= 5)
    assert n == total["calls"], "calls of the tree do not add up"
    assert sum(info["calls"]) == total["calls"], "calls of functions do not add up"
    assert sum(x.count for x in all_nodes) == total["calls"], "calls in the chart do not add up"
    for i, s in enumerate(info["slow"]):
        for lane, node, ticks in zip(s[::3], s[1::3], s[2::3]):
            x = [y for y in all_nodes if y.lane == lane][node] if len(all_nodes) < 5000 else None
            assert not x or x.flags & GOES_ON or (x.func == i and abs(x.end - x.start - ticks) <= 1), "a wrong slow call"
    print("calls", total["calls"])
    print("merged", total["merged"])
    print("insns", total["insns"])
    for lane in sorted(info["lanes"], key=lambda l: l["tid"]):
        if lane["tid"] >= 0:
            print("thread", lane["tid"], lane["insns"])


if __name__ == "__main__":
    if sys.argv[1] == "--commands":
        commands(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
