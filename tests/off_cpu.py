#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Time off the CPU, thread by thread, as `perf sched timehist` tells it of the kernel's
sched_switch events and as auxdecode does of SWITCH records beside the trace.

  off_cpu.py TIMEHIST DB COMM    text of perf sched timehist --state, an export to sqlite

The kernel fires sched_switch before it writes the SWITCH record of the thread that leaves,
and writes that of the one that comes before it can leave again: so each of our intervals
begins in one of timehist's, and ends in the run that follows. That holds however long the
machine takes between the two.
"""
import collections
import re
import sqlite3
import sys

ROUNDED = 1000  # timehist has microseconds
PREEMPTED = "RW"  # W: R+, preempted while it was about to wait

LINE = re.compile(r"\s*(\d+)\.(\d{6}) \[\d+\]\s+(.+?)\[(\d+)(?:/\d+)?\]\s+[\d.]+\s+[\d.]+\s+(\d+)\.(\d{3})\s+(\S)")


def read_timehist(path, comm):
    """By thread: when it came, when it left, and its state then. Its last run is not in it:
    nobody is there any more to whom that event could belong."""
    runs = collections.defaultdict(list)
    for m in map(LINE.match, open(path)):
        if m and m[3].strip() == comm:
            out = int(m[1] + m[2]) * 1000
            runs[int(m[4])].append((out - int(m[5] + m[6]) * 1000, out, m[7]))
    return runs


def fits(ours, left, came, leaves):
    return (left - ROUNDED <= ours[0] <= came + ROUNDED and
            came - ROUNDED <= ours[1] <= leaves + ROUNDED)


def compare(tid, runs, ours, alive, total):
    """How many intervals of one side the other does not have."""
    bad = k = 0
    ends = [b[1] for b in runs[1:]] + [float("inf")]
    gaps = list(zip([a[1] for a in runs], [b[0] for b in runs[1:]] + [None], ends, [a[2] for a in runs]))
    for left, came, leaves, state in gaps:
        if k < len(ours) and came is None and ours[k][0] >= left - ROUNDED:
            k += 1  # before its last run
            continue
        if came is None or came <= alive[0] or left >= alive[1]:
            continue  # before its first instruction, after its last
        if k == len(ours) or not fits(ours[k], left, came, leaves):
            print(f"thread {tid}: off the CPU from {left} to {came}, says timehist", ours[k:k + 1])
            bad += 1
            continue
        if ours[k][2] == "blocked" and state in PREEMPTED:
            print(f"thread {tid}: blocked at {ours[k][0]}, timehist: {state}")
            bad += 1
        total["timehist"] += came - left
        total["ours"] += ours[k][1] - ours[k][0]
        total[ours[k][2]] += 1
        k += 1
    for o in ours[k:]:
        print(f"thread {tid}: off the CPU from {o[0]} to {o[1]}, timehist has nothing there")
    return bad + len(ours[k:])


def main():
    timehist, path, comm = sys.argv[1:]
    runs = read_timehist(timehist, comm)
    db = sqlite3.connect(path)
    threads = {tid: (begin, end) for tid, begin, end in db.execute(
        'SELECT tid, min(c.start), max(c."end") FROM calls c JOIN threads t ON t.id = c.thread GROUP BY tid')}
    ours, total, bad = collections.defaultdict(list), collections.Counter(), 0
    for tid, begin, end, why in db.execute('SELECT tid, o.start, o."end", why FROM off_cpu o JOIN threads t'
                                           " ON t.id = o.thread ORDER BY o.start"):
        if end > threads[tid][0] and begin < threads[tid][1]:
            ours[tid].append((begin, end, why))
    for tid, alive in threads.items():
        bad += compare(tid, runs[tid], ours[tid], alive, total)
    print(f"{len(threads)} threads, blocked {total['blocked']} times, preempted {total['preempted']}, "
          f"{total['ours'] / 1e6:.3f} ms, timehist {total['timehist'] / 1e6:.3f} ms")
    sys.exit(bool(bad) or len(threads) < 2 or total["blocked"] < 15)


main()
