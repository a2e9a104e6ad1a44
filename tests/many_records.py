#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a perf.data with more of something out of a small one.

many_records.py IN OUT streams N [BYTES]  N more AUX streams, each with a copy of
                                          the first BYTES (all) of the first piece
many_records.py IN OUT maps N [STEP]      N more MMAP2 records, each over the one
                                          before but for a page, STEP ns later (0)
many_records.py IN OUT SHAPE N            N more records of a kind, see SHAPES
"""
import struct
import subprocess
import sys

MMAP2, LOST, COMM, EXIT, THROTTLE, FORK = 10, 2, 3, 4, 5, 7
AUX, ITRACE_START, SWITCH, SWITCH_CPU_WIDE, NAMESPACES, KSYMBOL, CGROUP, TEXT_POKE = 11, 12, 14, 15, 16, 17, 19, 20
ATTR, EVENT_TYPE, BUILD_ID, ID_INDEX, AUXTRACE, THREAD_MAP, COMPRESSED = 64, 65, 67, 69, 71, 73, 81
OUT_OR_EXEC = 0x2000    # PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_COMM_EXEC
KERNEL, USER = 1, 2     # PERF_RECORD_MISC_CPUMODE_MASK
MODULES = 0xffffffffc0000000


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


class Shapes:
    """Records of one kind each, 1 ns apart, of the process that IN is of."""

    def __init__(self, data, records):
        self.data = data
        self.first = {}
        for kind, r in records:
            self.first.setdefault(kind, r)
        start = self.first[ITRACE_START]
        self.pid, self.time = struct.unpack_from('<I', start, 8)[0], struct.unpack_from('<Q', start, len(start) - 24)[0]

    @staticmethod
    def plain(kind, body, misc=0):
        """Of perf itself: without a sample_id."""
        body += b'\0' * (-len(body) % 8)
        return struct.pack('<IHH', kind, misc, 8 + len(body)) + body

    def record(self, kind, body, i, misc=0):
        body += b'\0' * (-len(body) % 8)
        return self.plain(kind, body + struct.pack('<IIQIIQ', self.pid, self.pid, self.time + i, 0, 0, 1), misc)

    def task(self, kind, i, pid, tid):
        return self.record(kind, struct.pack('<IIIIQ', pid, self.pid, tid, self.pid, self.time + i), i)

    def mmap(self, i, pid, addr, path, misc=USER):
        return self.record(MMAP2, struct.pack('<IIQQQ24xII', pid, pid, addr, 4096, 0, 5, 2) + path + b'\0', i, misc)

    def comm(self, i, tid, misc=0):
        return self.record(COMM, struct.pack('<II', self.pid, tid) + b'c%d\0' % i, i, misc)

    def threads(self, i):
        return self.task(FORK, i, self.pid, 100000 + i) + self.comm(i, 100000 + i)

    def processes(self, i):
        return self.task(FORK, i, 100000 + i, 100000 + i) + self.mmap(i, 100000 + i, 0x10000000, b'/x')

    def exits(self, i):
        return self.task(EXIT, i, 100000 + i, 100000 + i)

    def comms(self, i):
        return self.comm(i, self.pid)

    def execs(self, i):
        return self.comm(i, self.pid, OUT_OR_EXEC)

    def modules(self, i):
        return self.mmap(-1, self.pid, 0x10000000 + i * 8192, b'/lib/m%d.so' % i)

    def kernel_modules(self, i):
        return self.mmap(-1, 0xffffffff, MODULES + i * 4096, b'[m%d]' % i, KERNEL)

    def switches(self, i):
        return self.record(SWITCH, b'', i, OUT_OR_EXEC * (i & 1))

    def wide_switches(self, i):
        return self.record(SWITCH_CPU_WIDE, struct.pack('<II', i + 1, i + 1), i, OUT_OR_EXEC * (i & 1))

    def starts(self, i):
        return self.record(ITRACE_START, struct.pack('<II', i, i), i)

    def ksymbols(self, i):
        return self.record(KSYMBOL, struct.pack('<QIHH', MODULES + i * 64, 64, 1, 0) + b'bpf_prog_%d\0' % i, i)

    def pokes(self, i):
        return self.record(TEXT_POKE, struct.pack('<QHH10x', MODULES + i % 9 * 64, 5, 5), i)

    def namespaces(self, i):
        return self.record(NAMESPACES, struct.pack('<IIQ112x', self.pid, self.pid, 7), i)

    def cgroups(self, i):
        return self.record(CGROUP, struct.pack('<Q', i) + b'/cg%d\0' % i, i)

    def losses(self, i):
        return self.record(LOST, struct.pack('<QQ', 1, 1), i)

    def aux(self, i):
        return self.record(AUX, struct.pack('<QQQ', 1000 + i, 1, 0), i)

    def pieces(self, i):
        head = bytearray(self.first[AUXTRACE][:48])
        struct.pack_into('<QQ', head, 8, 8, len(self.first[AUXTRACE]) - 48 + i * 8)
        return bytes(head) + bytes(8)

    def build_ids(self, i):
        return self.plain(BUILD_ID, struct.pack('<iI16xI', self.pid, i, 20) + b'/lib/m%d.so\0' % i, USER)

    def event_ids(self, i):
        return self.plain(ID_INDEX, struct.pack('<Q', 64) + b''.join(
            struct.pack('<QQQQ', 100 + i * 64 + j, j, 0xffffffff, 100000 + i * 64 + j) for j in range(64)))

    def names(self, i):
        return self.plain(THREAD_MAP, struct.pack('<Q', 64) + b''.join(
            struct.pack('<Q', 100000 + i * 64 + j) + b't%d'.ljust(16, b'\0') for j in range(64)))

    def attrs(self, i):
        at = struct.unpack_from('<Q', self.data, 24)[0]
        size = struct.unpack_from('<I', self.data, at + 4)[0]
        return self.plain(ATTR, self.data[at:at + size] + struct.pack('<Q', 1000 + i))

    def packed(self, n):
        """Records that zstd has made smaller, as perf record -z writes them."""
        raw = b''.join(self.record(THROTTLE, struct.pack('<QQQ', i * 7919, i, 1), i) for i in range(n))
        z = subprocess.run(['zstd', '-1', '-c'], input=raw, stdout=subprocess.PIPE, check=True).stdout
        for i in range(0, len(z), 65520):
            part = z[i:i + 65520]
            yield struct.pack('<IHH', COMPRESSED, 0, 8 + len(part)) + part

    def make(self, name, n):
        return self.packed(n) if name == 'packed' else map(getattr(self, name), range(n))


SHAPES = [s for s in vars(Shapes) if s not in ('plain', 'record', 'task', 'mmap', 'comm', 'make') and s[0] != '_']


def main():
    data = open(sys.argv[1], 'rb').read()
    start, size = struct.unpack_from('<QQ', data, 40)
    bits = struct.unpack_from('<4Q', data, 72)
    n_features = sum(bin(b).count('1') for b in bits)
    records = list(split(data[start:start + size]))
    shape, n = sys.argv[3], int(sys.argv[4])
    extra = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    if shape == 'streams':
        added = more_streams(records, n, extra)
    elif shape == 'maps':
        added = more_maps(records, n, extra)
    elif shape in SHAPES:
        added = Shapes(data, records).make(shape, n)
    else:
        sys.exit(f'many_records.py: no shape {shape}; there are streams, maps, {", ".join(SHAPES)}')
    added = b''.join(added)
    # at the end of the records; the features after them move
    out = bytearray(data[:start + size] + added + data[start + size:])
    struct.pack_into('<Q', out, 48, size + len(added))
    at = start + size + len(added)
    for i in range(n_features):
        offset = struct.unpack_from('<Q', out, at + 16 * i)[0]
        struct.pack_into('<Q', out, at + 16 * i, offset + len(added))
    open(sys.argv[2], 'wb').write(out)


if __name__ == '__main__':
    main()
