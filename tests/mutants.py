#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Changes recordings at random and runs every command of auxdecode on them.

    tests/mutants.py [--seed SEED] [-n N] [--seconds S] [--only I] [--draw K] [--keep DIR] FILE[=SYMFS]...

Mutant I of a seed is a function of the seed, I and the FILEs. Whatever was done to a
recording, a command must not die, hang, take more memory than a limit, or make a
sanitizer speak (BUILD names a build with SAN=1); its status is one that the manual
lists, with a reason on standard error where it is not 0; text holds no control
character; and what is made for others to read, they can read. A file that broke a rule
is kept in DIR, with a line that says how to run it again. The last line is a sum.
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import xml.parsers.expat

BUILD = os.environ.get("BUILD", "build")
AUXDECODE = f"{BUILD}/auxdecode"
CPU_SECONDS = 120       # of one command, without --cpu-seconds: hundreds of times what it needs
WALL_SECONDS = 900      # where it waits for something
RSS_KB = 1 << 21        # ASan's own memory is in it
BIG = 64 << 20          # of an output; more than that is not read

# name, kind of output, arguments: {f} the mutant, {g} what it was made of, {o} the output
COMMANDS = [
    ("insn", "text", "insn {f}"),
    ("insn -F", "text", "insn -F +comm,cgroup --source {f}"),
    ("insn libipt", "text", "insn --decoder libipt -F tid,ip {f}"),
    ("insn opencsd", "text", "insn --decoder opencsd -F tid,ip {f}"),
    ("branch", "text", "branch {f}"),
    ("count", "text", "count {f}"),
    ("count -j2", "text", "count -j2 {f}"),
    ("calls", "text", "calls {f}"),
    ("calls --last", "text", "calls --last 1ms --inline --source {f}"),
    ("flame", "text", "flame {f}"),
    ("flame --svg", "xml", "flame --svg -o {o} {f}"),
    ("hot", "text", "hot {f}"),
    ("hot --blocks", "text", "hot --blocks {f}"),
    ("hot --edges", "text", "hot --edges {f}"),
    ("latency", "text", "latency main {f}"),
    ("find", "text", "find main {f}"),
    ("report", "html", "report -o {o} {f}"),
    ("export perfetto", "binary", "export --to perfetto -o {o} {f}"),
    ("export chrome", "json", "export --to chrome -o {o} {f}"),
    ("export fxt", "binary", "export --to fxt -o {o} {f}"),
    ("export firefox", "json", "export --to firefox -o {o} {f}"),
    ("export speedscope", "json", "export --to speedscope -o {o} {f}"),
    ("export tenet", "directory", "export --to tenet -o {o} {f}"),
    ("export pprof", "result", "export --to pprof -o {o} {f}"),
    ("export callgrind", "text", "export --to callgrind -o {o} {f}"),
    ("export sqlite", "sqlite", "export --to sqlite -o {o} {f}"),
    ("export parquet", "directory", "export --to parquet -o {o} {f}"),
    ("export postgres", "directory", "export --to postgres -o {o} {f}"),
    ("export jsonl", "jsonl", "export --to jsonl -o {o} {f}"),
    ("profile", "result", "profile -o {o} {f}"),
    ("profile autofdo", "text", "profile --to autofdo -o {o} {f}"),
    ("profile gcov", "binary", "profile --to gcov -o {o} {f}"),
    ("profile bolt", "text", "profile --to bolt -o {o} {f}"),
    ("coverage", "text", "coverage {f}"),
    ("annotate", "text", "annotate -n 20 {f}"),
    ("annotate json", "json", "annotate -n 20 --to json -o {o} {f}"),
    ("annotate html", "text", "annotate -n 20 --to html {f}"),
    ("coverage lcov", "result", "coverage --to lcov -o {o} {f}"),
    ("coverage drcov", "result", "coverage --to drcov -o {o} {f}"),
    ("coverage sancov", "directory", "coverage --to sancov -o {o} {f}"),
    ("coverage afl", "result", "coverage --to afl -o {o} {f}"),
    ("summary", "text", "summary {f}"),
    ("diff", "text", "diff {f} {g}"),
    ("count json", "json", "count --json -o {o} {f}"),
    ("hot json", "json", "hot --json -o {o} {f}"),
    ("latency json", "json", "latency --json -o {o} main {f}"),
    ("summary json", "json", "summary --json {f}"),
    ("info json", "json", "info --json {f}"),
    ("raw", "text", "raw {f}"),
    ("info", "text", "info {f}"),
    ("dump", "text", "dump {f}"),
    ("dump --packets", "text", "dump --packets {f}"),
    ("bundle", "recording", "bundle -o {o} {f}"),
    ("cut", "recording", "cut --cpu 0 -o {o} {f}"),
    ("merge", "recording", "merge -o {o} {f} {g}"),
    ("repair", "recording", "repair -o {o} {f}"),
    ("verify", "text", "verify {f}"),
]
# Their verdict is on standard output, with the reason of such a status.
VERDICT = {("info", 3), ("summary", 3), ("diff", 3), ("info json", 3), ("summary json", 3), ("verify", 1)}
NO_CODE = {"raw", "info", "dump", "cut", "merge", "repair"}

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
REPORT = re.compile(rb"(Address|Leak|Memory|Undefined\w*)Sanitizer|runtime error:")
NASTY = [b"\x1b[2J\x1b]0;x\x07", b"a\nb c 7\nend_of_record\n", b"\"]}\\\"", b"</script><b>&lt;'",
         b"\xff\xfe\xc0\x80\xed\xa0\x80", b"\xe2\x80\xae\xe2\x80\xa8", b"%s%n%n%d", b";a;b 1",
         b"\x9b31m\xc2\x9b31m", b"../../../../tmp/x", b"]]>--><!--", b"\r\x00\t\x7f", b"," * 40, b" "]
VALUES = [0, 1, 2, 7, 8, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
          1 << 47, 0x7fffffffffffffff, 1 << 63, 0xfffffffffffffff8, (1 << 64) - 1]


# ---- what changes ----

def records(data):
    """Offsets and sizes of the records of a perf.data file; [] where it is none."""
    if data[:8] != b"PERFILE2" or len(data) < 104:
        return []
    at, size = struct.unpack_from("<QQ", data, 40)
    end, found = min(len(data), at + size), []
    while at + 8 <= end and len(found) < 100000:
        kind, _, n = struct.unpack_from("<IHH", data, at)
        if n < 8:
            break
        if kind == 71 and at + 16 <= end:
            n += struct.unpack_from("<Q", data, at + 8)[0]
        if at + n > end:
            break
        found.append((at, n))
        at += n
    return found


def resized(data, at, delta):
    """The header and the table of features after delta bytes came to be at at."""
    start, size = struct.unpack_from("<QQ", data, 40)
    table = start + size + delta
    struct.pack_into("<Q", data, 48, size + delta)
    n = sum(bin(x).count("1") for x in data[72:104])
    for i in range(n):
        p = table + 16 * i
        if p + 8 > len(data):
            break
        old = struct.unpack_from("<Q", data, p)[0]
        if old >= at and old + delta >= 0:
            struct.pack_into("<Q", data, p, old + delta)


def place(rng, data):
    """Somewhere, half of the time where structures are."""
    if rng.random() < 0.3:
        return rng.randrange(min(len(data), 1024))
    recs = records(data) if rng.random() < 0.6 else []
    if recs:
        at, n = rng.choice(recs)
        return at + rng.randrange(min(n, 96))
    return rng.randrange(len(data))


def flip(rng, data, _):
    data[place(rng, data)] ^= 1 << rng.randrange(8)


def value(rng, data, _):
    n = rng.choice((1, 2, 4, 8))
    at = place(rng, data) & ~(n - 1)
    v = rng.choice(VALUES) if rng.random() < 0.7 else rng.getrandbits(64)
    data[at:at + n] = (v & ((1 << 8 * n) - 1)).to_bytes(n, rng.choice(("little", "big")))


def add(rng, data, _):
    n = rng.choice((1, 2, 4, 8))
    at = place(rng, data) & ~(n - 1)
    v = int.from_bytes(data[at:at + n], "little") + rng.choice((-16, -8, -1, 1, 8, 16, 4096))
    data[at:at + n] = (v & ((1 << 8 * n) - 1)).to_bytes(n, "little")


def truncate(rng, data, _):
    del data[rng.randrange(1, len(data)):]


def remove(rng, data, _):
    at = place(rng, data)
    del data[at:at + rng.choice((1, 8, 64, 4096))]


def noise(rng, data, _):
    at, n = place(rng, data), rng.choice((1, 8, 32, 256))
    data[at:at + n] = rng.randbytes(min(n, len(data) - at))


def splice(rng, data, other):
    n = rng.choice((8, 64, 512, 4096))
    src, at = rng.randrange(len(other)), place(rng, data)
    piece = other[src:src + n]
    if rng.random() < 0.5:
        data[at:at + len(piece)] = piece
    else:
        data[at:at] = piece


def text(rng, data, _):
    found = [m.span() for m in re.finditer(rb"[ -~]{3,}", data[:1 << 20])]
    if not found:
        return
    at, end = rng.choice(found)
    new = rng.choice(NASTY) * rng.choice((1, 1, 1, 200))
    data[at:end] = (new + data[at:end])[:end - at]


def record_twice(rng, data, _):
    recs = records(data)
    if recs:
        at, n = rng.choice(recs)
        to = rng.choice(recs)[0]
        data[to:to] = data[at:at + n]
        resized(data, to, n)


def record_gone(rng, data, _):
    recs = records(data)
    if recs:
        at, n = rng.choice(recs)
        del data[at:at + n]
        resized(data, at, -n)


def record_swap(rng, data, _):
    recs = records(data)
    if len(recs) > 1:
        (a, n), (b, m) = sorted(rng.sample(recs, 2))
        data[a:b + m] = data[b:b + m] + data[a + n:b] + data[a:a + n]


def trace(rng, data, _):
    """Bytes of the trace alone: the packets."""
    recs = [(at, n) for at, n in records(data) if data[at:at + 4] == b"\x47\0\0\0" and n > 48]
    if not recs:
        return flip(rng, data, _)
    at, n = rng.choice(recs)
    for _ in range(rng.choice((1, 2, 8))):
        data[at + 48 + rng.randrange(n - 48)] = rng.choice((rng.randrange(256), 0, 0x02, 0x82, 0xf3))


CHANGES = [flip, flip, value, value, add, truncate, remove, noise, splice, text, text,
           record_twice, record_gone, record_swap, trace, trace]


def mutate(rng, data, other):
    """Returns the changed bytes and how they were changed."""
    data, how = bytearray(data), []
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        if len(data) < 16:
            break
        change = rng.choice(CHANGES)
        change(rng, data, other)
        how.append(change.__name__)
    return bytes(data), how


# ---- what is run, and judged ----

def limits(cpu):
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 32, 1 << 32))


ENV = dict(os.environ, LC_ALL="C", TZ="UTC", HOME="/nonexistent",
           ASAN_OPTIONS="detect_leaks=1:exitcode=99:quarantine_size_mb=16:allocator_may_return_null=1:"
                        "hard_rss_limit_mb=4096:abort_on_error=0",
           LSAN_OPTIONS="suppressions=tests/lsan.supp:print_suppressions=0",
           UBSAN_OPTIONS="print_stacktrace=1")


def run(argv, work, cpu=CPU_SECONDS):
    """Returns status, KB, seconds; stdout and stderr are in work."""
    began = time.monotonic()
    with open(f"{work}/stdout", "wb") as out, open(f"{work}/stderr", "wb") as err:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=ENV,
                             preexec_fn=lambda: limits(cpu))
        while True:
            pid, status, use = os.wait4(p.pid, os.WNOHANG)
            if pid:
                p.returncode = os.waitstatus_to_exitcode(status)
                break
            if time.monotonic() - began > WALL_SECONDS:
                p.kill()
            time.sleep(0.002)
    return p.returncode, use.ru_maxrss, use.ru_utime + use.ru_stime


def load(path):
    with open(path, "rb") as f:
        return f.read(BIG)


def text_fault(raw, what):
    try:
        m = CONTROL.search(raw.decode("utf-8"))
    except UnicodeDecodeError as e:
        if len(raw) == BIG and e.start > BIG - 4:
            return None
        return f"{what}: no UTF-8 at {e.start}"
    return m and f"{what}: control character {m.group()!r} at {m.start()}"


def output_fault(kind, path, work):
    """None, or what is wrong with an output that the command called good."""
    if kind == "recording" or kind == "result":
        other = ["merge", "-o", f"{work}/again", path, path] if kind == "result" else ["count", path]
        status, _, _ = run([AUXDECODE] + other, work)
        return status_fault(other[0], status, work) or (
            f"merge does not take it: {load(f'{work}/stderr')[:200]!r}" if kind == "result" and status else None)
    raw = b"" if kind == "directory" else load(path)
    if len(raw) == BIG:
        return None
    try:
        if kind == "json":
            json.loads(raw)
        elif kind == "jsonl":
            for line in raw.splitlines():
                json.loads(line)
        elif kind == "xml":
            xml.parsers.expat.ParserCreate().Parse(raw, True)
        elif kind == "html":
            return text_fault(raw, "page")
        elif kind == "sqlite":
            db = sqlite3.connect(path)
            said = db.execute("pragma integrity_check").fetchall()
            db.close()
            return None if said == [("ok",)] else f"sqlite: {said}"
        elif kind == "text":
            return text_fault(raw, "output")
    except (ValueError, xml.parsers.expat.ExpatError, sqlite3.Error) as e:
        return f"{kind}: {e}"
    return None


def status_fault(name, status, work):
    err = load(f"{work}/stderr")
    m = REPORT.search(err)
    if m:
        return f"{name}: sanitizer: {err[max(0, m.start() - 100):m.start() + 400]!r}"
    if status < 0:
        return f"{name}: killed by signal {-status}"
    if status not in (0, 1, 3):
        return f"{name}: status {status}: {err[-200:]!r}"
    said = err + (load(f"{work}/stdout") if (name, status) in VERDICT else b"")
    if status and not said.strip():
        return f"{name}: status {status}, and nothing on standard error"
    return None


def judge(name, kind, argv, out, work, cpu):
    status, kb, seconds = run(argv, work, cpu)
    if seconds >= cpu or status == -signal.SIGXCPU:
        return f"{name}: takes {cpu} s of CPU or more"
    fault = status_fault(name, status, work)
    if fault:
        return fault
    if kb > RSS_KB:
        return f"{name}: {kb} KB of memory"
    if kind == "text" or out is not None:
        fault = text_fault(load(f"{work}/stdout"), "stdout") or text_fault(load(f"{work}/stderr"), "stderr")
    if not fault and out and status != 1 and os.path.exists(out):
        fault = output_fault(kind, out, work)
    return fault and f"{name}: {fault}"


# ---- mutants ----

def seeds(args):
    """[(path, symfs, [files in it])]"""
    found = []
    for arg in args:
        path, _, symfs = arg.partition("=")
        files = [path]
        if os.path.isdir(path):
            files = sorted(os.path.join(d, f) for d, _, names in os.walk(path) for f in names)
            files = [f for f in files if os.path.getsize(f) < 1 << 20] or files
        found.append((path, symfs, files))
    return found


def make(rng, all_seeds, work):
    """Writes a mutant. Returns its path, what it was made of, its symfs, and how."""
    path, symfs, files = rng.choice(all_seeds)
    other = load(rng.choice(rng.choice(all_seeds)[2])) or b"\0" * 16
    victim = rng.choice(files)
    to = f"{work}/mutant"
    if os.path.isdir(path):
        shutil.copytree(path, to, dirs_exist_ok=False)
        changed = os.path.join(to, os.path.relpath(victim, path))
        os.chmod(changed, 0o600)
    else:
        changed = to
    data, how = mutate(rng, load(victim), other)
    with open(changed, "wb") as f:
        f.write(data)
    return to, path, symfs, how


def try_mutant(o, index, all_seeds, counts):
    rng = random.Random(f"{o.seed}:{index}")
    n_bad = 0
    with tempfile.TemporaryDirectory(prefix="auxkit-mutant-") as work:
        mutant, origin, symfs, how = make(rng, all_seeds, work)
        drawn = rng.sample(COMMANDS, min(o.draw, len(COMMANDS))) if o.draw else COMMANDS
        for name, kind, words in drawn:
            if (o.command and name not in o.command) or (name == "repair" and os.path.isdir(mutant)):
                continue
            if time.monotonic() > o.end:
                return n_bad, False
            out = f"{work}/out" if "{o}" in words else None
            argv = [AUXDECODE] + [w.format(f=mutant, g=origin, o=out) for w in words.split()]
            if symfs and name.split()[0] not in NO_CODE:
                argv[2:2] = ["--symfs", symfs]
            fault = judge(name, kind, argv, out, work, o.cpu_seconds)
            counts[name] = counts.get(name, 0) + 1
            if out and os.path.isdir(out):
                shutil.rmtree(out)
            elif out and os.path.exists(out):
                os.unlink(out)
            if fault:
                n_bad += 1
                keep(o, index, mutant, argv, how, origin, fault)
    return n_bad, True


def keep(o, index, mutant, argv, how, origin, fault):
    to = f"{o.keep}/{o.seed}.{index}"
    os.makedirs(o.keep, exist_ok=True)
    if not os.path.exists(to):
        (shutil.copytree if os.path.isdir(mutant) else shutil.copyfile)(mutant, to)
    line = f"{to} ({'+'.join(how)} of {origin}): {fault}\n    {' '.join(argv).replace(mutant, to)}"
    print(f"found: {line}", flush=True)
    with open(f"{o.keep}/found", "a", encoding="utf-8") as f:
        f.write(line + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("-n", type=int, default=None)
    p.add_argument("--seconds", type=float, default=None)
    p.add_argument("--only", type=int, default=None, metavar="I")
    p.add_argument("--cpu-seconds", type=int, default=CPU_SECONDS, metavar="S")
    p.add_argument("--draw", type=int, default=0, metavar="K", help="K commands of each mutant, drawn; 0: all")
    p.add_argument("--command", action="append", metavar="NAME")
    p.add_argument("--keep", default=f"{BUILD}/campaign/mutants")
    p.add_argument("files", nargs="+")
    o = p.parse_args()
    if o.seed is None:
        o.seed = random.SystemRandom().randrange(1 << 32)
    if o.n is None and o.seconds is None:
        o.n = 10
    unknown = set(o.command or []) - {c[0] for c in COMMANDS}
    if unknown:
        p.error(f"no command {', '.join(sorted(unknown))}")
    print(f"mutants: seed {o.seed}", flush=True)
    began, bad, done, counts = time.monotonic(), 0, 0, {}
    o.end = began + o.seconds if o.seconds else float("inf")
    all_seeds = seeds(o.files)
    index = o.only or 0
    while (o.n is None or index < o.n + (o.only or 0)) and time.monotonic() < o.end:
        n_bad, whole = try_mutant(o, index, all_seeds, counts)
        bad += n_bad
        done += whole
        index += 1
        if o.only is not None:
            break
    print(f"mutants: {done} mutants, {sum(counts.values())} runs, {time.monotonic() - began:.0f} s, {bad} found")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
