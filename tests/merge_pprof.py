# SPDX-License-Identifier: BSD-2-Clause
"""merge_pprof.py PROTO-DIR sum MERGED FILE...: the merged profile has what the files
have, added up by Python's protobuf: stacks by name and place with their labels and
values. merge_pprof.py PROTO-DIR make DIR: writes profiles that no tool writes."""
import gzip
import os
import sys

sys.path.insert(0, sys.argv[1])
import export_pprof_pb2 as pb


def load(path):
    data = open(path, "rb").read()
    p = pb.Profile()
    p.ParseFromString(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return p


def mapping_of(p, m):
    s = p.string_table
    return m.memory_limit - m.memory_start, m.file_offset, s[m.build_id] or s[m.filename]


def content(p):
    """{stack and labels: values}, and what else is added up"""
    s = p.string_table
    maps = {m.id: m for m in p.mapping}
    funcs = {f.id: (s[f.name], s[f.system_name], s[f.filename], f.start_line) for f in p.function}
    places = {}
    for l in p.location:
        m = maps[l.mapping_id] if l.mapping_id else None
        places[l.id] = (mapping_of(p, m) if m else None, l.address - (m.memory_start if m else 0),
                        tuple((funcs[x.function_id], x.line) for x in l.line))
    sums = {}
    for x in p.sample:
        key = (tuple(places[i] for i in x.location_id),
               tuple((s[l.key], s[l.str], l.num, s[l.num_unit]) for l in x.label))
        old = sums.get(key, [0] * len(x.value))
        sums[key] = [a + b for a, b in zip(old, x.value, strict=True)]
    return sums


def need(cond, what):
    if not cond:
        print(what)
        sys.exit(1)


def check_unique(p):
    s = p.string_table
    need(s[0] == "" and len(set(s)) == len(s), "a string twice")
    for rows in (p.mapping, p.function, p.location):
        need([r.id for r in rows] == list(range(1, len(rows) + 1)), "ids")
    need(len({(f.name, f.system_name, f.filename, f.start_line) for f in p.function}) == len(p.function),
         "a function twice")
    need(len({mapping_of(p, m) for m in p.mapping}) == len(p.mapping), "a mapping twice")
    need(len({(l.mapping_id, l.address, tuple((x.function_id, x.line) for x in l.line)) for l in p.location}) ==
         len(p.location), "a location twice")
    need(len(content(p)) == len(p.sample), "a stack twice")


def check_sum(merged, paths):
    m, parts = load(merged), [load(x) for x in paths]
    check_unique(m)
    want = {}
    for p in parts:
        for k, v in content(p).items():
            want[k] = [a + b for a, b in zip(want.get(k, [0] * len(v)), v)]
    got = content(m)
    for k in set(want) | set(got):
        need(want.get(k) == got.get(k), f"{k}: {got.get(k)}, not {want.get(k)}")
    types = [[(p.string_table[t.type], p.string_table[t.unit]) for t in p.sample_type] for p in parts + [m]]
    need(all(t == types[0] for t in types), "sample types")
    need(m.duration_nanos == sum(p.duration_nanos for p in parts), "duration")
    comments = {p.string_table[c] for p in parts for c in p.comment}
    need({m.string_table[c] for c in m.comment} == comments, "comments")
    need(m.string_table[m.default_sample_type] == parts[0].string_table[parts[0].default_sample_type], "default")
    print(f"{len(got)} stacks of {[len(p.sample) for p in parts]}, {len(m.function)} functions, "
          f"{len(m.mapping)} mappings, sums {[sum(c) for c in zip(*got.values())]}")


def make(start, ids, order):
    """A profile of two functions in a mapping at start, ids and strings as asked for."""
    p = pb.Profile()
    s = [""] + order
    p.string_table.extend(s)
    i = s.index
    p.sample_type.add(type=i("calls"), unit=i("count"))
    p.sample_type.add(type=i("time"), unit=i("ns"))
    p.mapping.add(id=ids + 7, memory_start=start, memory_limit=start + 0x1000, file_offset=0x2000,
                  filename=i("/bin/x"), build_id=i("abcd"), has_functions=True)
    for k, name in enumerate(("f", "g")):
        p.function.add(id=ids * 3 + k, name=i(name), system_name=i(name), start_line=10 + k)
        p.location.add(id=ids * 5 - k, mapping_id=ids + 7, address=start + 16 * k)
        p.location[-1].line.add(function_id=ids * 3 + k, line=10 + k)
    p.location.add(id=1, address=0x42)
    x = p.sample.add(location_id=[ids * 5, ids * 5 - 1], value=[1, ids])
    x.label.add(key=i("thread"), str=i("f"))
    x.label.add(key=i("bytes"), num=-5, num_unit=i("ns"))
    p.sample.add(location_id=[ids * 5], value=[1 << 60, -3])
    p.sample.add(location_id=[ids * 5], value=[0, 1])
    p.sample.add(location_id=[1, ids * 5], value=[3, 3])
    p.comment.append(i("f"))
    p.duration_nanos = 1000 + ids
    p.default_sample_type = i("time")
    return p


def varint(v):
    out = b""
    v &= (1 << 64) - 1
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def unpacked(p):
    """The same with samples first, numbers one by one, and fields that nobody knows."""
    out = b""
    for x in p.sample:
        body = b"".join(b"\x08" + varint(i) for i in x.location_id)
        body += b"".join(b"\x10" + varint(v) for v in x.value) + b"\x7d\1\2\3\4"
        body += b"".join(b"\x1a" + varint(l.ByteSize()) + l.SerializeToString() for l in x.label)
        out += b"\x12" + varint(len(body)) + body
    rest = pb.Profile()
    rest.CopyFrom(p)
    del rest.sample[:]
    return b"\xa1\x06" + b"12345678" + out + rest.SerializeToString()


def make_all(to):
    strings = ["calls", "count", "time", "ns", "/bin/x", "abcd", "f", "g", "thread", "bytes"]
    a, b = make(0x400000, 3, strings), make(0x7f0000000000, 1000, strings[::-1])
    plain = a.SerializeToString()
    files = {"a": plain, "b": gzip.compress(b.SerializeToString()), "b_unpacked": unpacked(b)}
    other = make(0x400000, 3, strings)
    other.sample_type[1].unit = 1
    files["other_types"] = other.SerializeToString()
    big = make(0x400000, 3, strings)
    for x in big.sample:
        x.value[0], x.value[1] = (1 << 63) - 1, 1
    del big.sample[2:]
    files["big"] = big.SerializeToString()
    bad = make(0x400000, 3, strings)
    bad.sample[0].location_id[0] = 77
    files["bad_location"] = bad.SerializeToString()
    bad = make(0x400000, 3, strings)
    bad.sample[0].value.append(1)
    files["bad_values"] = bad.SerializeToString()
    bad = make(0x400000, 3, strings)
    bad.function[0].name = 1000
    files["bad_string"] = bad.SerializeToString()
    bad = make(0x400000, 3, strings)
    bad.location[1].id = bad.location[0].id
    files["bad_twice"] = bad.SerializeToString()
    files["bad_cut"] = plain[:-1]
    files["bad_gzip"] = files["b"][:-20]
    for name, data in files.items():
        open(os.path.join(to, name), "wb").write(data)


if sys.argv[2] == "make":
    make_all(sys.argv[3])
else:
    check_sum(sys.argv[3], sys.argv[4:])
