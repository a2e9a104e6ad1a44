#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a perf.data with more of something out of a small one.

many_records.py IN OUT streams N [BYTES]  N more AUX streams, each with a copy of
                                          the first BYTES (all) of the first piece
many_records.py IN OUT maps N [STEP]      N more MMAP2 records, each over the one
                                          before but for a page, STEP ns later (0)
"""
import struct
import sys

AUXTRACE, MMAP2 = 71, 10


def split(data):
    """The records of the data section: (type, bytes); AUXTRACE with its trace."""
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from('<IHH', data, at)
        end = at + size
        if kind == AUXTRACE:
            end += struct.unpack_from('<Q', data, at + 8)[0]
        yield kind, data[at:end]
        at = end


def more_streams(records, n, n_bytes):
    first = bytearray(next(r for k, r in records if k == AUXTRACE))
    size = struct.unpack_from('<H', first, 6)[0]
    trace = first[size:]
    if n_bytes:
        trace = trace[:n_bytes] + b'\0' * (n_bytes - len(trace))
    for i in range(n):
        head = first[:size]
        struct.pack_into('<Q', head, 8, len(trace))
        struct.pack_into('<I', head, 32, 100 + i)  # idx
        yield bytes(head + trace)


def more_maps(records, n, step=0):
    first = bytearray(next(r for k, r in records if k == MMAP2))
    # the sample_id that ends it: pid and tid, time, cpu, id of the event
    at = len(first) - 24
    time = struct.unpack_from('<Q', first, at)[0]
    for i in range(n):
        r = bytearray(first)
        struct.pack_into('<Q', r, at, time + i * step)
        struct.pack_into('<QQQ', r, 16, 0x10000000 + i * 4096, (n + 1) * 4096, 0)
        yield bytes(r)


def main():
    data = open(sys.argv[1], 'rb').read()
    start, size = struct.unpack_from('<QQ', data, 40)
    bits = struct.unpack_from('<4Q', data, 72)
    n_features = sum(bin(b).count('1') for b in bits)
    records = list(split(data[start:start + size]))
    n = int(sys.argv[4])
    if sys.argv[3] == 'streams':
        added = b''.join(more_streams(records, n, int(sys.argv[5]) if len(sys.argv) > 5 else 0))
    else:
        added = b''.join(more_maps(records, n, int(sys.argv[5]) if len(sys.argv) > 5 else 0))
    # at the end of the records; the features after them move
    out = bytearray(data[:start + size] + added + data[start + size:])
    struct.pack_into('<Q', out, 48, size + len(added))
    at = start + size + len(added)
    for i in range(n_features):
        offset = struct.unpack_from('<Q', out, at + 16 * i)[0]
        struct.pack_into('<Q', out, at + 16 * i, offset + len(added))
    open(sys.argv[2], 'wb').write(out)


main()
