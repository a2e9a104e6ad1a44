#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads what `auxdecode export` writes, by the formats' own specifications, and
checks it: everything balanced and nested, times that never go back, names that
exist. Prints what tests compare: a line for each track, sums, all events as one
normal form (--events), so that formats can be compared with each other.

  export_read.py [--events] FORMAT FILE [DIR of the compiled .proto]
"""
import decimal
import gzip
import itertools
import json
import re
import struct
import sys


class Bad(Exception):
    pass


def need(cond, what):
    if not cond:
        raise Bad(what)


class Flow:
    """Tracks with open slices; what comes out is the same for every format."""

    def __init__(self):
        self.stacks, self.last, self.events, self.insns = {}, {}, [], {}
        self.n = dict(begin=0, instant=0, counter=0, span=0, lost=0, gap=0, guessed=0)
        self.self_insns = {}
        self.labels = {}
        self.intervals = []
        self.spans = {}
        self.counters = {}

    def at(self, track, ts):
        need(ts >= self.last.get(track, 0), f"time goes back on {track}: {ts}")
        self.last[track] = ts

    def begin(self, track, ts, name, cat):
        self.at(track, ts)
        self.stacks.setdefault(track, []).append((name, cat, ts))
        self.n["begin"] += 1
        self.n["gap"] += cat == "gap"
        self.events.append((track, ts, "B", name))

    def end(self, track, ts, args):
        self.at(track, ts)
        need(self.stacks.get(track), f"end without begin on {track} at {ts}")
        name, cat, _ = self.stacks[track].pop()
        if "insns" in args:
            if not any(c == "call" for _, c, _ in self.stacks[track]):
                self.insns[track] = self.insns.get(track, 0) + args["insns"]
            self.self_insns[track] = self.self_insns.get(track, 0) + args["self_insns"]
            need(args["self_insns"] <= args["insns"], f"self above total in {name}")
        self.n["lost"] += bool(args.get("lost"))
        self.n["guessed"] += bool(args.get("guessed"))
        self.events.append((track, ts, "E", name))
        return name

    def instant(self, track, ts, name, args):
        self.at(track, ts)
        self.n["instant"] += 1
        self.events.append((track, ts, "I", name))

    def counter(self, track, ts, name, value):
        self.n["counter"] += 1
        self.counters.setdefault(name, []).append((ts, value))

    def span(self, ident, ts, name, begin):
        if begin:
            need(ident not in self.spans, f"span {ident} begins twice")
            self.spans[ident] = name
            self.n["span"] += 1
        else:
            need(self.spans.pop(ident, None) == name, f"span {ident} ends unknown")
        self.events.append(("span", ts, "b" if begin else "e", name))

    def done(self):
        for track, stack in self.stacks.items():
            need(not stack, f"{track} still has {len(stack)} open")
        need(not self.spans, f"spans that are open: {self.spans}")


def read_chrome(path, _):
    flow, doc = Flow(), json.load(open(path, encoding="utf-8"), parse_float=lambda s: s)
    base = int(doc["otherData"]["base_ns"])

    def ns(v):
        whole, _, rest = str(v).partition(".")
        need(len(rest) in (0, 3), f"ts {v}")
        return int(whole) * 1000 + int(rest or 0) + base

    for e in doc["traceEvents"]:
        track, ph = (e["pid"], e["tid"]), e["ph"]
        args = e.get("args", {})
        if ph == "B":
            flow.begin(track, ns(e["ts"]), e["name"], e["cat"])
        elif ph == "E":
            flow.end(track, ns(e["ts"]), args)
        elif ph == "i":
            flow.instant(track, ns(e["ts"]), e["name"], args)
        elif ph == "C":
            flow.counter(track, ns(e["ts"]), e["name"], args["value"])
        elif ph in "be":
            flow.span(e["id"], ns(e["ts"]), e["name"], ph == "b")
        elif ph == "M":
            flow.labels[(track, e["name"])] = args["name"]
        else:
            raise Bad(f"ph {ph}")
    return flow


def read_jsonl(path, _):
    flow, ended = Flow(), False
    ids, tracks, spans = {}, {}, set()
    for n, line in enumerate(open(path, encoding="utf-8")):
        need(not ended, "lines behind the end")
        e = json.loads(line)
        t = e["type"]
        if n == 0:
            need(t == "header" and e["schema"] == "auxkit-flow" and e["version"] == 1, "header")
        elif t == "track":
            tracks[e["track"]] = e
            flow.labels[e["track"]] = e.get("comm")
        elif t == "ran":
            need(e["track"] in tracks and e["ns"] > 0 and e["cpu"] >= 0, "an interval on a CPU")
        elif t == "end":
            ended = True
            flow.total = e["insns"]
        else:
            track = e["track"]
            need(track in tracks, f"track {track} is not there yet")
            if t == "call":
                need(e["depth"] == len(flow.stacks.get(track, [])), f"depth in line {n + 1}")
                need(e["id"] not in ids, "an id twice")
                ids[e["id"]] = e["name"]
                flow.begin(track, e["ts"], e["name"], "call")
            elif t == "off":
                flow.begin(track, e["ts"], {"kernel": "[in the kernel]", "filter": "[filtered]"}.get(
                    e.get("why"), "[not traced]"), "off")
            elif t == "off-cpu":
                flow.begin(track, e["ts"], "[off CPU]", "off-cpu")
            elif t == "gap":
                flow.instant(track, e["ts"], f"[gap: {e['cause']}]", {})
                flow.begin(track, e["ts"], f"[gap: {e['cause']}]", "gap")
            elif t in ("return", "on", "gap-end", "on-cpu"):
                e["lost"] = e.get("end") in ("lost", "trace-end")
                name = flow.end(track, e["ts"], e)
                need(t != "return" or ids.pop(e["id"]) == name, "an end of another call")
            elif t == "event":
                flow.instant(track, e["ts"], e["name"], e)
            elif t == "counter":
                flow.counter(track, e["ts"], e["name"], e["value"])
            elif t in ("span", "span-end"):
                flow.span(e["id"], e["ts"], e["name"], t == "span")
                spans.add(e["id"])
            else:
                need(t == "turn" and e["from_track"] in tracks, f"type {t}")
    need(ended, "no end")
    return flow


def read_speedscope(path, _):
    flow, doc = Flow(), json.load(open(path, encoding="utf-8"))
    need(doc["$schema"].endswith("file-format-schema.json"), "schema")
    frames = doc["shared"]["frames"]
    for i, p in enumerate(doc["profiles"]):
        need(p["type"] == "evented" and p["unit"] in ("nanoseconds", "none"), "profile")
        flow.labels[i] = p["name"]
        stack = []
        for e in p["events"]:
            need(p["startValue"] <= e["at"] <= p["endValue"], "at")
            name = frames[e["frame"]]["name"]
            if e["type"] == "O":
                stack.append(e["frame"])
                flow.begin(i, e["at"], name, "gap" if name.startswith("[gap") else "call")
            else:
                need(e["type"] == "C" and stack.pop() == e["frame"], "closes another frame")
                flow.end(i, e["at"], {})
    return flow


def fxt_strings(rec, pos, ref, table):
    if not ref:
        return "", pos
    if ref & 0x8000:
        n = ref & 0x7fff
        return rec[pos:pos + n].decode("utf-8"), pos + (n + 7) // 8 * 8
    need(ref in table, f"string {ref} is not registered")
    return table[ref], pos


def fxt_args(rec, pos, n, table):
    args = {}
    for _ in range(n):
        head, = struct.unpack_from("<Q", rec, pos)
        kind, words, ref = head & 15, head >> 4 & 0xfff, head >> 16 & 0xffff
        end = pos + 8 * words
        name, at = fxt_strings(rec, pos + 8, ref, table)
        if kind == 6:
            value, at = fxt_strings(rec, at, head >> 32 & 0xffff, table)
        elif kind == 9:
            value = bool(head >> 32 & 1)
        elif kind in (1, 2):
            value = head >> 32
        else:
            need(kind in (3, 4, 5, 7, 8), f"argument type {kind}")
            value, = struct.unpack_from("<q" if kind == 3 else "<Q", rec, at)
            at += 8
        need(at == end, f"argument {name} is {words} words")
        args[name] = value
        pos = end
    return args, pos


def fxt_event(flow, rec, head, strings, threads):
    kind, n_args = head >> 16 & 15, head >> 20 & 15
    ts, = struct.unpack_from("<Q", rec, 8)
    pos, thread = 16, head >> 24 & 0xff
    if thread:
        need(thread in threads, f"thread {thread} is not registered")
        track = threads[thread]
    else:
        track = struct.unpack_from("<QQ", rec, pos)
        pos += 16
    cat, pos = fxt_strings(rec, pos, head >> 32 & 0xffff, strings)
    name, pos = fxt_strings(rec, pos, head >> 48, strings)
    args, pos = fxt_args(rec, pos, n_args, strings)
    last = None
    if kind in (1, 4, 5, 6, 7, 8, 9, 10):
        last, = struct.unpack_from("<Q", rec, pos)
        pos += 8
    need(pos == len(rec), f"event of {len(rec)} bytes has {pos}")
    if kind == 0:
        flow.instant(track, ts, name, args)
    elif kind == 1:
        flow.counter(track, ts, name, args["value"])
    elif kind == 2:
        flow.begin(track, ts, name, cat)
    elif kind == 3:
        need(flow.end(track, ts, args) == name, "ends another slice")
    else:
        need(kind in (5, 7), f"event type {kind}")
        flow.span(last, ts, name, kind == 5)


def read_fxt(path, _):
    flow, data, pos = Flow(), open(path, "rb").read(), 8
    strings, threads = {}, {}
    need(data[:8] == bytes.fromhex("1000044678541600"), "magic")
    while pos < len(data):
        head, = struct.unpack_from("<Q", data, pos)
        kind, words = head & 15, head >> 4 & 0xfff
        need(words and pos + 8 * words <= len(data), f"size at {pos}")
        rec = data[pos:pos + 8 * words]
        pos += 8 * words
        if kind == 1:
            need(struct.unpack_from("<Q", rec, 8)[0] == 10 ** 9, "ticks")
        elif kind == 2:
            index, n = head >> 16 & 0x7fff, head >> 32 & 0x7fff
            need(index and words == 1 + (n + 7) // 8 and n <= 32000, "string")
            need(not any(rec[8 + n:]), "padding")
            strings[index] = rec[8:8 + n].decode("utf-8")
        elif kind == 3:
            threads[head >> 16 & 0xff] = struct.unpack_from("<QQ", rec, 8)
        elif kind == 4:
            fxt_event(flow, rec, head, strings, threads)
        elif kind == 7:
            koid, = struct.unpack_from("<Q", rec, 8)
            name, at = fxt_strings(rec, 16, head >> 24 & 0xffff, strings)
            args, at = fxt_args(rec, at, head >> 40 & 15, strings)
            need(at == len(rec), "object")
            flow.labels[(head >> 16 & 0xff, koid)] = name
        else:
            raise Bad(f"record type {kind}")
    return flow


def perfetto_args(event, names):
    args = {}
    for a in event.debug_annotations:
        field = next(f for f, _ in a.ListFields() if f.name not in ("name", "name_iid"))
        args[a.name or names[a.name_iid]] = getattr(a, field.name)
    return args


def read_perfetto(path, proto_dir):
    sys.path.insert(0, proto_dir)
    import export_perfetto_pb2 as pb
    trace, flow = pb.Trace(), Flow()
    trace.ParseFromString(open(path, "rb").read())
    need(not trace.UnknownFields() if hasattr(trace, "UnknownFields") else True, "unknown fields")
    names, cats, keys, tracks, cleared = {}, {}, {}, {}, False
    for p in trace.packet:
        need(p.trusted_packet_sequence_id == 1, "sequence")
        cleared |= p.sequence_flags & 1
        need(cleared, "incremental state is not cleared first")
        for table, entries in ((cats, p.interned_data.event_categories),
                               (names, p.interned_data.event_names),
                               (keys, p.interned_data.debug_annotation_names)):
            for e in entries:
                need(e.iid and table.get(e.iid, e.name) == e.name, f"iid {e.iid} twice")
                table[e.iid] = e.name
        if p.HasField("track_descriptor"):
            d = p.track_descriptor
            need(not d.parent_uuid or d.parent_uuid in tracks, "a parent comes later")
            tracks[d.uuid] = d
            flow.labels[d.uuid] = d.name or d.thread.thread_name or d.process.process_name
        if not p.HasField("track_event"):
            continue
        e = p.track_event
        need(e.track_uuid in tracks, f"track {e.track_uuid}")
        track, span = e.track_uuid, e.track_uuid >> 40 == 6
        if e.track_uuid >> 40 in (7, 8):	# of CPUs, of threads: in the order of their ends
            if e.type == e.SLICE_BEGIN:
                begun = p.timestamp, names[e.name_iid], perfetto_args(e, keys)
            else:
                need(e.type == e.SLICE_END and p.timestamp > begun[0], "an interval")
                flow.intervals.append((tracks[track].name, begun[0], p.timestamp, begun[1],
                                       begun[2].get("cpu", begun[2].get("tid", "-")), begun[2].get("why", "-")))
            continue
        if e.type == e.COUNTER:
            need(tracks[track].HasField("counter"), "a counter on no counter track")
            flow.counter(track, p.timestamp, tracks[track].name,
                         e.counter_value if e.HasField("counter_value") else e.double_counter_value)
        elif span:
            flow.span(track, p.timestamp, names[e.name_iid] if e.name_iid else flow.spans.get(track),
                      e.type == e.SLICE_BEGIN)
        elif e.type == e.SLICE_BEGIN:
            flow.begin(track, p.timestamp, names[e.name_iid], cats[e.category_iids[0]])
            perfetto_args(e, keys)
        elif e.type == e.SLICE_END:
            flow.end(track, p.timestamp, perfetto_args(e, keys))
        else:
            need(e.type == e.INSTANT, "type")
            flow.instant(track, p.timestamp, names[e.name_iid], perfetto_args(e, keys))
    return flow


def read_pprof(path, proto_dir):
    sys.path.insert(0, proto_dir)
    import export_pprof_pb2 as pb
    p = pb.Profile()
    p.ParseFromString(gzip.decompress(open(path, "rb").read()))
    s = p.string_table
    need(s[0] == "" and len(set(s)) == len(s), "string table")
    types = [(s[t.type], s[t.unit]) for t in p.sample_type]
    mappings = {m.id: m for m in p.mapping}
    functions = {f.id: f for f in p.function}
    locations = {l.id: l for l in p.location}
    for table, rows in ((mappings, p.mapping), (functions, p.function), (locations, p.location)):
        need(len(table) == len(rows) and 0 not in table, "ids")
    for l in p.location:
        need(not l.mapping_id or mappings[l.mapping_id].memory_start <= l.address <
             mappings[l.mapping_id].memory_limit, "a location outside of its mapping")
        for line in l.line:
            need(line.function_id in functions, "function")
    sums = [0] * len(types)
    own = {}
    for sample in p.sample:
        need(len(sample.value) == len(types), "values")
        need(sample.location_id and all(i in locations for i in sample.location_id), "stack")
        name = s[functions[locations[sample.location_id[0]].line[0].function_id].name]
        for i, v in enumerate(sample.value):
            need(v >= 0, "a negative value")
            sums[i] += v
        own[name] = own.get(name, 0) + sample.value[1]
    for (kind, unit), v in zip(types, sums):
        print(f"{kind} {unit} {v}")
    print(f"build-ids {sum(bool(s[m.build_id]) for m in p.mapping)} of {len(p.mapping)}")
    print(f"default {s[p.default_sample_type]}")
    if "--events" in sys.argv:
        for name, v in sorted(own.items()):
            print(f"own {v} {name}")


FIREFOX_TABLES = {
    "stackTable": "frame prefix",
    "frameTable": "address inlineDepth category subcategory func nativeSymbol innerWindowID line column",
    "funcTable": "name isJS relevantForJS resource source lineNumber columnNumber",
    "resourceTable": "lib name host type",
    "nativeSymbols": "libIndex address name functionSize",
    "sources": "uuid filename",
}


def firefox_index(column, table, none=()):
    for v in column:
        need(v in none or (isinstance(v, int) and 0 <= v < table), f"index {v} of {table}")


def firefox_table(table, columns):
    need(sorted(table) == sorted(columns.split() + ["length"]), f"columns {sorted(table)}")
    for c in columns.split():
        need(len(table[c]) == table["length"], f"length of {c}")


def firefox_shared(doc):
    shared, meta = doc["shared"], doc["meta"]
    for name, columns in FIREFOX_TABLES.items():
        firefox_table(shared[name], columns)
    stacks, frames, funcs, res, native, sources = (shared[n] for n in FIREFOX_TABLES)
    strings, cats = len(shared["stringArray"]), meta["categories"]
    need(len(set(shared["stringArray"])) == strings, "a string twice")
    need([c["color"] for c in cats].count("grey") == 1 and all(c["subcategories"][0] == "Other" for c in cats),
         "categories")
    need(all(p is None or p < i for i, p in enumerate(stacks["prefix"])), "a stack before its prefix")
    firefox_index(stacks["frame"], frames["length"])
    firefox_index(frames["category"], len(cats))
    firefox_index(frames["func"], funcs["length"])
    firefox_index(frames["nativeSymbol"], native["length"], (None,))
    firefox_index(funcs["name"], strings)
    firefox_index(funcs["resource"], res["length"], (-1,))
    firefox_index(funcs["source"], sources["length"], (None,))
    firefox_index(res["lib"], len(doc["libs"]))
    firefox_index(res["name"] + native["name"] + sources["filename"], strings)
    firefox_index(native["libIndex"], len(doc["libs"]))
    for sub, cat in zip(frames["subcategory"], frames["category"]):
        need(0 <= sub < len(cats[cat]["subcategories"]), "subcategory")
    for lib in doc["libs"]:
        need(sorted(lib) == sorted("arch name path debugName debugPath breakpadId codeId".split()), "lib")
        if lib["codeId"] is not None:
            raw = bytes.fromhex(lib["codeId"]).ljust(16, b"\0")
            want = struct.pack(">IHH8s", *struct.unpack("<IHH8s", raw[:16])).hex().upper() + "0"
            need(lib["breakpadId"] == want, "breakpadId")


def firefox_stacks(doc):
    shared = doc["shared"]
    names = [shared["stringArray"][n] for n in shared["funcTable"]["name"]]
    paths = []
    for frame, prefix in zip(shared["stackTable"]["frame"], shared["stackTable"]["prefix"]):
        paths.append((() if prefix is None else paths[prefix]) + (names[shared["frameTable"]["func"][frame]],))
    return paths


def firefox_markers(doc, thread, flow, track, ms):
    strings, schemas = doc["shared"]["stringArray"], {s["name"]: s for s in doc["meta"]["markerSchema"]}
    m = thread["markers"]
    firefox_table(m, "name startTime endTime phase category data")
    for name, start, end, phase, cat, data in zip(*(m[c] for c in "name startTime endTime phase category data".split())):
        need(phase in (0, 1) and (end is None) == (phase == 0), "phase")
        need(end is None or ms(end) > ms(start), "a marker ends before it begins")
        need(0 <= cat < len(doc["meta"]["categories"]) and data["type"] in schemas, "marker")
        keys = {f["key"] for f in schemas[data["type"]]["fields"]}
        need(set(data) - {"type"} <= keys, f"fields of a marker: {data}")
        if data["type"] in ("Gap", "Loss"):
            flow.n[data["type"].lower()] = flow.n.get(data["type"].lower(), 0) + 1
        elif data["type"] == "Event":
            flow.events.append((track, ms(start), "I", strings[name]))
        elif data["type"] == "Span":
            flow.events.append(("span", ms(start), data["edge"][0], strings[name]))
        else:
            flow.calls.append((strings[name], ms(start), ms(end or start) - ms(start), data["insns"], data["self"]))


def firefox_flame(sums, path):
    """Each stack of each thread has the weight that `flame` has for it."""
    want = {}
    for line in open(path, encoding="utf-8"):
        stack, _, n = line.rstrip("\n").rpartition(" ")
        if not line.startswith("#"):
            stack = re.sub(r"^[^;]*/(\d+)(?=;|$)", r"\1", stack).replace(" ", "_")
            want[stack] = want.get(stack, 0) + int(n)
    for stack in sorted(set(want) | set(sums)):
        need(want.get(stack) == sums.get(stack), f"{stack}: flame {want.get(stack)}, here {sums.get(stack)}")
    print(f"flame: {len(want)} stacks agree")


def firefox_speedscope(spans, path):
    """Each thread begins and ends when its stacks do in speedscope's file; by time
    nothing in between is left out."""
    want = {}
    for p in json.load(open(path, encoding="utf-8"))["profiles"]:
        tid = re.search(r"/(\d+)( stack \d+)?$", p["name"])
        if tid:
            a, b = want.get(int(tid[1]), (1 << 64, 0))
            want[int(tid[1])] = (min(a, p["startValue"]), max(b, p["endValue"]))
    for tid, (a, b, weight, by_time) in spans.items():
        need(tid in want, f"speedscope has no thread {tid}")
        need(want[tid][0] <= a and b == want[tid][1], f"{tid}: {a} to {b}, speedscope {want[tid]}")
        need(not by_time or weight == want[tid][1] - want[tid][0], f"{tid}: weights {weight}, speedscope {want[tid]}")
    print(f"speedscope: {len(spans)} threads agree")


def read_firefox(path, _):
    doc = json.load(open(path, encoding="utf-8"), parse_float=decimal.Decimal)
    flow, meta = Flow(), doc["meta"]
    flow.calls = []
    need(meta["preprocessedProfileVersion"] == 60, "version")
    firefox_shared(doc)
    paths = firefox_stacks(doc)

    def ms(v):
        ns = decimal.Decimal(v) * 1000000
        need(ns == int(ns), f"{v} ms are no nanoseconds")
        return int(ns)

    sums, spans = {}, {}
    base = meta.get("startTimeAsClockMonotonicNanosecondsSinceBoot", 0)
    for track, t in enumerate(doc["threads"]):
        s = t["samples"]
        firefox_table({k: v for k, v in s.items() if k != "weightType"}, "stack timeDeltas threadCPUDelta weight")
        firefox_index(s["stack"], len(paths), (None,))
        times = list(itertools.accumulate(ms(d) for d in s["timeDeltas"]))
        need(all(ms(d) >= 0 for d in s["timeDeltas"]), "time goes back")
        by_time = s["weightType"] == "tracing-ms"
        weights = [ms(w) if by_time else w for w in s["weight"]]
        if by_time:
            for i in range(len(times) - 1):
                need(times[i] + weights[i] <= times[i + 1], f"sample {i} overlaps the next")
                need(s["threadCPUDelta"][i + 1] <= times[i + 1] - times[i], "more CPU time than time")
        flow.labels[track] = f"{t['processName']} {t['name']}/{t['tid']} pid {t['pid']}"
        if times:
            spans[t["tid"]] = (times[0] + base, times[-1] + base, sum(weights), by_time)
        totals = {}
        for stack, w in zip(s["stack"], weights):
            if stack is not None:
                totals[stack] = totals.get(stack, 0) + w
            elif w:	# in no function yet
                sums[str(t["tid"])] = sums.get(str(t["tid"]), 0) + w
        print(f"weight {t['tid']} {s['weightType']} {sum(totals.values())}")
        for stack, w in totals.items():
            path = ";".join(n.replace(";", ":") for n in paths[stack])
            path = re.sub(r"\[gap: [^]]*\]", "[gap]", path).replace(" ", "_")
            if w:
                sums[f"{t['tid']};{path}"] = sums.get(f"{t['tid']};{path}", 0) + w
        firefox_markers(doc, t, flow, track, ms)
    for c in doc.get("counters", []):
        values = list(itertools.accumulate(c["samples"]["count"]))
        need(len(values) == c["samples"]["length"] == len(c["samples"]["timeDeltas"]), "counter")
        for at, v in zip(itertools.accumulate(ms(d) for d in c["samples"]["timeDeltas"]), values):
            flow.counter(None, at + base, c["name"], v)
    for e in meta["extra"][0]["entries"]:
        print(f"extra {e['label']}: {e['value']}")
    for c in flow.calls:
        print("call", *c[1:], c[0])
    for a in sys.argv:
        if a.startswith("--flame="):
            firefox_flame(sums, a[8:])
        elif a.startswith("--speedscope="):
            firefox_speedscope(spans, a[13:])
    return flow


def main():
    args = [a for a in sys.argv[1:] if not a.startswith("--")]
    kind, path, proto = args[0], args[1], args[2] if len(args) > 2 else "."
    try:
        flow = globals()["read_" + kind](path, proto)
        if flow is None:
            return 0
        flow.done()
    except (Bad, KeyError, IndexError, UnicodeDecodeError, struct.error, ValueError) as e:
        print(f"{path}: {type(e).__name__}: {e}")
        return 1
    print("total", sum(flow.insns.values()), "self", sum(flow.self_insns.values()))
    print(" ".join(f"{k} {v}" for k, v in flow.n.items()))
    if "--labels" in sys.argv:
        for k, v in flow.labels.items():
            print("label", k, v)
    if "--counters" in sys.argv:
        for name, v in sorted(flow.counters.items()):
            print("counter", name, len(v), v[0][1], v[-1][1])
    if "--events" in sys.argv:
        tracks = {}
        for track, ts, what, name in flow.events:
            n = tracks.setdefault(track, len(tracks)) if track != "span" else "span"
            print(n, ts, what, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
