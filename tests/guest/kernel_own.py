# SPDX-License-Identifier: BSD-2-Clause
#
# Own instructions of the kernel's functions, counted in what really ran, against auxdecode
# hot. Where control falls from one name into the next, as in assembly, the function that
# was called has both: these are not compared.
#
#	kernel_own.py KALLSYMS TRUTH HOT
import bisect
import collections
import sys


def read_symbols(path):
    lines = (line.split()[:3] for line in open(path))
    code = sorted((int(a, 16), n) for a, t, n in lines if t in "tTwW")
    addrs = [a for a, _ in code]
    aliases, named = collections.Counter(addrs), collections.Counter(n for _, n in code)
    return addrs, {n: a for a, n in code if named[n] == 1 and aliases[a] == 1}


def count(path, addrs):
    own, falls, last, before = collections.Counter(), set(), 0, 0
    for line in open(path):
        ip = int(line, 16)
        start = addrs[bisect.bisect_right(addrs, ip) - 1]
        own[start] += 1
        if start == ip and before != start and 0 < ip - last < 16:
            falls |= {start, before}
        last, before = ip, start
    return own, falls


def main():
    addrs, start_of = read_symbols(sys.argv[1])
    own, falls = count(sys.argv[2], addrs)
    compared = bad = 0
    for line in open(sys.argv[3]):
        field = line.split()
        start = start_of.get(field[6]) if len(field) > 7 and field[0] != "#" else None
        if start is None or start in falls:
            continue
        compared += 1
        if int(field[0]) != own[start]:
            bad += 1
            print("%s: %s instructions, %d ran" % (field[6], field[0], own[start]))
    print("%d functions compared, %d differ" % (compared, bad))
    sys.exit(compared < 100 or bad > 0)


main()
