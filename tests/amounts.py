#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""One file, one number: computes calls, self, total, time off the CPU, not traced and lost,
and instructions of each function from every command and export that has them.

  amounts.py AUXDECODE FILE DIRECTORY    says what differs; DIRECTORY is for what is exported
"""
import base64, collections, gzip, json, re, sqlite3, subprocess, sys, zlib
tool, data, here = sys.argv[1:]
FRAMES = ("[off CPU]", "[in the kernel]", "[filtered]", "[not traced]", "[gap]")
KINDS = ("self", "offcpu", "untraced", "lost", "blocked", "preempted", "kernel", "filtered")
OTHERS = ("off CPU", "in the kernel", "filtered", "not traced", "lost in gaps")
SLICES = {"[off CPU]": 1, "[in the kernel]": 2, "[filtered]": 2, "[not traced]": 2}

def run(*args):
    out = subprocess.run([tool, *args, data], capture_output=True, text=True)
    if out.returncode not in (0, 3):
        sys.exit("auxdecode %s: %d %s" % (" ".join(args), out.returncode, out.stderr))
    return out.stdout.splitlines()

def rows(*args):
    return [l.split(" ") for l in run(*args) if not l.startswith("#")]

def table():
    return collections.defaultdict(lambda: [0] * len(KINDS))

bad = 0
def compare(what, want, got):
    global bad
    want = {k: v for k, v in want.items() if v and v not in ([0], [0] * len(KINDS))}
    got = {k: v for k, v in got.items() if v and v not in ([0], [0] * len(KINDS))}
    for k in sorted(want.keys() | got.keys()):
        if want.get(k) != got.get(k):
            bad += 1
            if bad < 20:
                print(what, k, "want", want.get(k), "got", got.get(k))
    print(what, len(want), "equal" if want == got else "differ")

# calls is what all others are compared with
times, insns, calls, total = table(), collections.Counter(), collections.Counter(), collections.Counter()
in_tree = collections.Counter()	# total, without what other stacks of the thread ran meanwhile
names, parents = {}, {}
def add_in_tree(i, n):
    seen = set()
    while i in names:
        if names[i] not in seen:
            in_tree[names[i]] += n
            seen.add(names[i])
        i = parents[i]
def is_inner(i):	# its function is among its callers
    name = names[i]
    while (i := parents[i]) in names:
        if names[i] == name:
            return True
for f in rows("calls", "-F", "event,id,parent,own,dur," + ",".join(KINDS) + ",sym"):
    name = " ".join(f[5 + len(KINDS):])
    if f[0] == "enter":
        names[f[1]], parents[f[1]] = name, f[2]
        calls[name] += 1
        continue
    for i in range(len(KINDS)):
        times[name][i] += int(f[5 + i]) if f[5 + i] != "-" else 0
    add_in_tree(f[1], sum(int(v) for v in f[5:9] if v != "-"))
    insns[name] += int(f[3]) if f[3] != "-" else 0
    if f[4] != "-" and not is_inner(f[1]):
        total[name] += int(f[4])
sums = [sum(v[i] for v in times.values()) for i in range(len(KINDS))]
print("self %d off CPU %d not traced %d lost %d blocked %d preempted %d kernel %d filtered %d" % tuple(sums))
if not any(re.match(r"# tid \d+ goes on in stack", l) for l in run("calls")):
    compare("total, as self and the rest below", total, in_tree)
print("most calls:", calls.most_common(12))
compare("blocked and preempted are off CPU", {"all": sums[1]}, {"all": sums[4] + sums[5]})
nobodys = [sums[1], sums[6], sums[7], sums[2] - sums[6] - sums[7], sums[3]]	# in the order of OTHERS
sums = sums[:4]
self_ns = {k: [v[0]] for k, v in times.items()}
# A thread may wait before its first instruction: that is in no call.
for l in run("flame", "--by", "time", "--per", "all"):
    stack, n = l.rsplit(" ", 1)
    for i, k in enumerate(FRAMES):
        nobodys[i] += int(n) if stack == k.replace(" ", "_") else 0

got, n = table(), collections.Counter()
for f in rows("find", "-F", ",".join(KINDS) + ",sym"):
    name = " ".join(f[len(KINDS):])
    for i in range(len(KINDS)):
        got[name][i] += int(f[i])
    n[name] += 1
compare("find", times, got)
compare("find, calls", calls, n)

def hot(by):
    got, other, n, in_all = collections.Counter(), {}, collections.Counter(), collections.Counter()
    at = 6
    for l in run("hot", "--by", by, "-n", "99999"):
        if l.startswith("# ") and "IPC function" in l:
            at = 7
        m = re.match(r"# (%s): (\d+) ns" % "|".join(OTHERS), l)
        if m:
            other[m[1]] = int(m[2])
        elif not l.startswith("#"):
            f = l.split()
            name = " ".join(f[at:-1])
            got[name] += int(f[0])
            in_all[name] = int(f[2]) if not n[name] else in_tree[name]	# one may be below the other
            n[name] += int(f[4])
    return got, other, n, in_all
got, other, n, in_all = hot("time")
compare("hot --by time", self_ns, {k: [v] for k, v in got.items()})
compare("hot, calls", calls, n)
compare("hot, total", in_tree, in_all)
compare("hot, what is nobody's", {"all": nobodys}, {"all": [other.get(k, 0) for k in OTHERS]})
compare("hot --by insns", insns, hot("insns")[0])
# summary has code as that of its symbol; where functions share code, that is one of them.
listed = json.loads("\n".join(run("summary", "--json", "-n", "99999")))["functions"]
often = collections.Counter(f["function"] for f in listed)
got = {f["function"]: f["instructions"] for f in listed if often[f["function"]] == 1 and
       not re.search(r"[].[]", f["dso"]) and not re.match(r"\[|(__)?mem", f["function"])}
compare("summary", {k: v for k, v in insns.items() if k in got}, got)

plain = {k.replace(" ", "_"): k for k in calls}	# folded stacks have no blanks
def leaves(by):
    got = collections.Counter()
    for l in run("flame", "--by", by, "--per", "all"):
        stack, n = l.rsplit(" ", 1)
        k = stack.split(";")[-1]
        got[plain.get(k, k)] += int(n)
        for k in set(stack.split(";")):
            in_stacks[plain.get(k, k)] += int(n)
    return got
in_stacks = collections.Counter()
got = leaves("time")
compare("flame, what is nobody's", {"all": nobodys}, {"all": [got.pop(k.replace(" ", "_"), 0) for k in FRAMES]})
got.pop("[unknown]", 0)
compare("flame --by time", self_ns, {k: [v] for k, v in got.items()})
compare("flame, total", in_tree, {k: v for k, v in in_stacks.items() if k in calls})
got = leaves("insns")
compare("flame --by insns", insns, got)

run("export", "--to", "sqlite", "-o", here + "/db")
db = sqlite3.connect(here + "/db")
got, n, c, t = table(), *(collections.Counter() for _ in range(3))
for f in db.execute("SELECT function, self_ns, off_cpu_ns, untraced_ns, lost_ns, blocked_ns, preempted_ns, kernel_ns,"
                    " filtered_ns, self_insns, calls, total_ns FROM function_times"):
    for i in range(len(KINDS)):
        got[f[0]][i] += f[i + 1]
    n[f[0]] += f[9]
    c[f[0]] += f[10]
    t[f[0]] += f[11]
compare("sqlite", times, got)
compare("sqlite, instructions", insns, n)
spans = dict(db.execute("SELECT ifnull(why, 'unknown'), sum(end - start) FROM off_cpu GROUP BY why"))
in_calls = db.execute("SELECT ifnull(sum(end - start), 0) FROM off_cpu o WHERE EXISTS (SELECT 1 FROM calls c WHERE"
                      " c.thread = o.thread AND c.start <= o.start AND o.end <= c.end)").fetchone()[0]
compare("sqlite, intervals off the CPU in calls", {"all": sum(v[1] for v in times.values())}, {"all": in_calls})
compare("sqlite, calls", calls, c)
compare("sqlite, total", total, t)

got, open_calls, c, t = table(), {}, collections.Counter(), collections.Counter()
went, away, tids = {}, collections.Counter(), {}
cpus, threads = collections.defaultdict(list), collections.defaultdict(list)
for l in run("export", "--to", "jsonl"):
    o = json.loads(l)
    if o["type"] == "track":
        tids[o["track"]] = o["tid"]
    if o["type"] == "off-cpu":
        went[o["track"]] = o
    elif o["type"] == "on-cpu":
        begin = went.pop(o["track"])
        away[begin.get("why", "unknown")] += o["ts"] - begin["ts"]
        threads[o["track"]].append((begin["ts"], o["ts"], "off CPU", "-", begin.get("why", "-")))
    elif o["type"] == "ran":
        cpus[o["cpu"]].append((o["ts"], o["ts"] + o["ns"], tids[o["track"]]))
        threads[o["track"]].append((o["ts"], o["ts"] + o["ns"], "on CPU", o["cpu"], "-"))
    stack = open_calls.setdefault(o.get("track"), [])
    if o["type"] == "call":
        stack.append(o["name"])
        c[o["name"]] += 1
    elif o["type"] == "return":
        name = stack.pop()
        for i, k in enumerate(("self_ns", "off_cpu_ns", "untraced_ns", "lost_ns", "blocked_ns", "preempted_ns", "kernel_ns",
                               "filtered_ns")):
            got[name][i] += o[k]
        if name not in stack:
            t[name] += o["ns"]
compare("jsonl", times, got)

# a thread is on a CPU or it is not, and a CPU has one thread at a time
for kind, lanes in ("threads", threads), ("CPUs", cpus):
    for lane in lanes.values():
        lane.sort()
    broken = [x for lane in lanes.values() for x in zip(lane, lane[1:])
              if x[0][1] != x[1][0] and (kind == "threads" or x[0][1] > x[1][0])]
    compare("intervals on and off the CPU, of " + kind, {"broken": []}, {"broken": broken})
compare("sqlite, on the CPU", {"all": sum(b - a for c in cpus.values() for a, b, _ in c)},
        {"all": db.execute("SELECT sum(end - start) FROM on_cpu").fetchone()[0]})
if cpus:
    run("export", "--to", "perfetto", "-o", here + "/perfetto")
    subprocess.run(["protoc", "-I", "tests", "--python_out=" + here, "export_perfetto.proto"], check=True)
    sys.path.insert(0, "tests")
    import export_read
    flow = export_read.read_perfetto(here + "/perfetto", here)
    lanes = collections.defaultdict(list)
    for name, a, b, what, who, why in flow.intervals:
        lanes[name].append((a, b, who) if name.startswith("CPU") else (a, b, what, who, why))
    compare("perfetto, lanes of CPUs", {"CPU %d" % k: v for k, v in cpus.items()},
            {k: sorted(v) for k, v in lanes.items() if k.startswith("CPU")})
    compare("perfetto, lanes of threads", {"all": sorted(x for v in threads.values() for x in v)},
            {"all": sorted(lanes["on and off the CPU"])})
compare("jsonl, intervals off the CPU", spans, away)
compare("jsonl, calls", calls, c)
compare("jsonl, total", total, t)

got, name, on = collections.Counter(), {}, None
skip = False
for l in run("export", "--to", "callgrind"):
    m = re.match(r"fn=\((\d+)\) ?(.*)", l)
    if m:
        if m[2]:
            name[m[1]] = m[2]
        on = name[m[1]]
    elif l.startswith("cfn="):
        m = re.match(r"cfn=\((\d+)\) ?(.*)", l)
        if m[2]:
            name[m[1]] = m[2]
    elif l.startswith("calls="):
        skip = True
    elif on and re.match(r"[0-9+*-]|0x", l):
        if not skip:
            got[on] += int(l.split()[4]) # address, line, Ir, Bt, ns
        skip = False
compare("callgrind", self_ns, {k: [v] for k, v in got.items()})

# pprof: a message of protobuf is fields of (number, varint or bytes)
def varint(b, at):
    v = shift = 0
    while True:
        v |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return v, at

def fields(b):
    at = 0
    while at < len(b):
        key, at = varint(b, at)
        v, at = varint(b, at)
        if key & 7 == 2:
            v, at = b[at:at + v], at + v
        elif key & 7:
            sys.exit("pprof: wire type %d" % (key & 7))
        yield key >> 3, v

def packed(b):
    out, at = [], 0
    while at < len(b):
        v, at = varint(b, at)
        out.append(v)
    return out

run("export", "--to", "pprof", "-o", here + "/pprof")
profile = list(fields(gzip.open(here + "/pprof").read()))
strings = [v.decode() for k, v in profile if k == 6]
functions = {f[1]: strings[f[2]] for f in (dict(fields(v)) for k, v in profile if k == 5)}
locations = {f[1]: functions[dict(fields(f[4]))[1]] for f in (dict(fields(v)) for k, v in profile if k == 4)}
kinds = [strings[dict(fields(v))[1]] for k, v in profile if k == 1]
got, n = collections.Counter(), collections.Counter()
for k, v in profile:
    if k == 2:
        f = dict(fields(v))
        name = locations[packed(f[1])[0]]
        values = dict(zip(kinds, packed(f[2])))
        got[name] += values["time"]
        n[name] += values["instructions"]
compare("pprof, what is nobody's", {"all": nobodys}, {"all": [got.pop(k, 0) for k in FRAMES]})
got.pop("[unknown]", 0)
compare("pprof", self_ns, {k: [v] for k, v in got.items()})
compare("pprof, instructions", insns, n)

run("report", "-o", here + "/r.html")
block = re.search(r'data-kind="json" data-z="([01])">(.*?)</script>', open(here + "/r.html").read(), re.S)
page = base64.b64decode(block[2])
page = json.loads(zlib.decompress(page, 47) if block[1] == "1" else page)
def find_list(o, key):
    if type(o) is dict:
        if type(o.get(key)) is list:
            return o[key]
        for v in o.values():
            found = find_list(v, key)
            if found:
                return found
own, ins = collections.Counter(), collections.Counter()
for k, a, b in zip(*(find_list(page, k) for k in ("name", "ownNs", "ownInsns"))):
    own[k] += a
    ins[k] += b
c, t = collections.Counter(), collections.Counter()
for k, a, b in zip(*(find_list(page, k) for k in ("name", "calls", "totalNs"))):
    c[k] += a
    t[k] = b if k not in t else in_tree[k]
compare("report", self_ns, {k: [v] for k, v in own.items()})
compare("report, calls", calls, c)
compare("report, total", in_tree, t)
compare("report, instructions", insns, ins)
sys.path.insert(0, "tests")
import report_page
info, away = None, collections.Counter()
for kind, raw in report_page.blocks(here + "/r.html"):
    if kind == "json":
        info = json.loads(raw)
    elif kind == "nodes":
        for x in report_page.nodes(raw):
            away[info["name"][x.func]] += x.away
compare("report, of single calls what is no self time", {k: [sum(v[1:4])] for k, v in times.items()},
        {k: [v / info["ticks"]] for k, v in away.items()})

# Slices, as a viewer shows them: what is below others is theirs alone.
import export_read
def slices(kind):
    path = here + "/slices"
    run("export", "--to", kind, "-o", path)
    got, n, in_all, stacks = table(), collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for track, ts, what, name in getattr(export_read, "read_" + kind)(path, None).events:
        stack = stacks[track]
        if what == "B":
            stack.append([name, ts, 0])
        elif what == "E":
            name, begin, inner = stack.pop()
            ns = ts - begin - inner
            if stack:
                stack[-1][2] += ts - begin
            i = 3 if name.startswith("[gap") else SLICES.get(name, 0)
            why = {"[in the kernel]": 6, "[filtered]": 7}.get(name)
            if not i:
                n[name] += 1
                if name not in [s[0] for s in stack]:
                    in_all[name] += ts - begin
            # off the CPU while not traced; a function without a name begins with "[" too
            while i and stack and (stack[-1][0] in SLICES or stack[-1][0].startswith("[gap")):
                stack = stack[:-1]
            if not i or stack:
                got[stack[-1][0] if i else name][i] += ns
                if why:
                    got[stack[-1][0]][why] += ns
    return got, n, in_all
for kind in ("chrome", "fxt", "speedscope") if not sums[3] else ():	# the end of a gap is drawn where code runs again
    got, n, in_all = slices(kind)
    parts = [0, 1, 2, 3, 6, 7]
    compare(kind, {k: [v[i] for i in parts] for k, v in times.items() if any(v[:4])},
            {k: [v[i] for i in parts] for k, v in got.items() if any(v)})
    compare(kind + ", calls", calls, n)
    compare(kind + ", total", total, in_all)

# latency rounds: its text is that of the sum over the calls that find calls whole
exact = not info["resolution"]
def text(ns):
    if not ns or ns < info["resolution"]:
        return "~0 ns" if exact else "<%d ns" % info["resolution"]
    if ns < 1000:
        return "%d ns" % ns
    unit, name = 1000, "us"
    for u, m in ((1000000, "ms"), (1000000000, "s")):
        if ns >= u:
            unit, name = u, m
    return "%.*f %s" % (0 if ns % unit == 0 else 1 if ns // unit >= 100 else 2 if ns // unit >= 10 else 3, ns / unit, name)
want, away, got, number = collections.Counter(), collections.Counter(), {}, {}
for f in rows("find", "-F", "state,self,offcpu,sym"):
    if f[0] == "whole":
        want[" ".join(f[3:])] += int(f[1])
        away[" ".join(f[3:])] += int(f[2]) if f[2] != "-" else 0
# those that wait themselves, too: only there does self differ from what is on top
for k in {k for c in (want, away) for k, _ in c.most_common(5)}:
    got[k] = re.search(r" self (\S+ \S+)", "\n".join(run("latency", k)))[1]
    number[k] = [json.loads("\n".join(run("latency", "--json", k)))["self"]]
compare("latency", {k: text(want[k]) for k in got}, got)
compare("latency --json", {k: [want[k]] for k in number}, number)
sys.exit(bad != 0)
