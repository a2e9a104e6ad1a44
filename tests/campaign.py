#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Looks for faults for as long as it is given: each fuzz target under libFuzzer, then
tests/mutants.py on the fixtures, on fresh recordings, and on the traces of AUXKIT_CORPUS.

    make campaign [HOURS=H | SECONDS=S | N=INPUTS] [SEED=N] [ONLY="reader mutants"]

Time is divided: mutants get a fourth, the targets the same each. Corpora grow in
$BUILD/fuzz from one campaign to the next; what was found is in $BUILD/campaign. A table
is printed at the end, and by an interrupt. Status 1: something was found.
"""
import argparse
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import time

BUILD = os.environ.get("BUILD", "build")
KEEP = f"{BUILD}/campaign"
CORPUS = os.environ.get("AUXKIT_CORPUS", "../shared/corpus")
MAX_FINDS = 5           # of one target, which starts anew after each
MAX_SEED = 400 << 10    # bytes of a trace of others

# name, event, program
FRESH = [
    ("static", "soft_pt/cyc,mtc/u", ["hello_static"]),
    ("feature", "soft_pt/noretcomp=0,psb_period=0/u", ["feature", "recursion", "longjmp", "indirect"]),
    ("jit", "soft_pt//u", ["jit", "once"]),
    ("fork", "soft_pt/step/u", ["forkexec"]),
    ("throw", "soft_pt/cyc/u", ["throw"]),
    ("etm", "soft_etm//u", ["aarch64/hello_static"]),
]


def record(to):
    """Fresh recordings in a directory: those that this machine can make."""
    made = []
    for name, event, cmd in FRESH:
        data = f"{to}/{name}.data"
        program = [f"{BUILD}/tests/programs/{cmd[0]}"] + cmd[1:]
        said = subprocess.run([f"{BUILD}/auxcap", "-e", event, "-o", data, "--"] + program,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if os.path.exists(data):
            made.append(data)
        else:
            print(f"campaign: not recorded: {name}: {said.stderr.decode(errors='replace').strip()}")
    return made


def recordings():
    found = [f"{f}=fixtures/symfs" for f in sorted(glob.glob("fixtures/*.data"))]
    fresh = f"{KEEP}/fresh"
    os.makedirs(fresh, exist_ok=True)
    found += record(fresh)
    for f in sorted(glob.glob(f"{CORPUS}/**/*data*", recursive=True)):
        if os.path.isfile(f) and 0 < os.path.getsize(f) < MAX_SEED and open(f, "rb").read(7) in (b"PERFILE", b"ELIFREP"):
            found.append(f"{f}={CORPUS}")
    for ini in sorted(glob.glob(f"{CORPUS}/**/snapshot.ini", recursive=True)):
        d = os.path.dirname(ini)
        if sum(os.path.getsize(os.path.join(d, f)) for f in os.listdir(d)) < 4 * MAX_SEED:
            found.append(d)
    return found


def fuzz(name, seconds, n, seed):
    """Returns runs and finds."""
    runs, finds, end = 0, 0, time.monotonic() + (seconds or 0)
    found = f"{KEEP}/{name}"
    for d in (found, f"{BUILD}/fuzz/{name}"):
        os.makedirs(d, exist_ok=True)
    while finds < MAX_FINDS:
        left = end - time.monotonic()
        if seconds and left < 1:
            break
        argv = [f"{BUILD}/fuzz_{name}", "-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=60",
                f"-seed={seed + finds}", f"-artifact_prefix={found}/", "-verbosity=0"]
        argv += [f"-max_total_time={max(1, int(left))}"] if seconds else []
        argv += [f"-runs={n}"] if n else []
        argv += [f"{BUILD}/fuzz/{name}"] + glob.glob(f"fixtures/corpus/{name}")
        env = dict(os.environ, LSAN_OPTIONS="suppressions=tests/lsan.supp:print_suppressions=0")
        with open(f"{found}.log", "ab") as log:
            status = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, check=False).returncode
        with open(f"{found}.log", "rb") as log:
            said = log.read().decode(errors="replace")
        m = re.findall(r"stat::number_of_executed_units: *(\d+)", said)
        runs += int(m[-1]) if m else 0
        if not status:
            break
        finds += 1
        print(f"found: {name}: see {found}.log and {found}/", flush=True)
    return runs, finds


def mutants(seconds, n, seed, files):
    argv = ["tests/mutants.py", "--seed", str(seed), "--keep", f"{KEEP}/mutants"]
    argv += ["--seconds", str(seconds)] if seconds else []
    argv += ["-n", str(n)] if n else []
    env = dict(os.environ, BUILD=f"{BUILD}/san")
    p = subprocess.Popen(argv + files, stdout=subprocess.PIPE, env=env, text=True)
    runs = finds = 0
    for line in p.stdout:
        print(line, end="", flush=True)
        m = re.match(r"mutants: \d+ mutants, (\d+) runs, \d+ s, (\d+) found", line)
        if m:
            runs, finds = int(m.group(1)), int(m.group(2))
    if p.wait() not in (0, 1):
        finds += 1
        print(f"found: tests/mutants.py ends with status {p.returncode}")
    return runs, finds


def show(table):
    print(f"{'target':<12} {'runs':>12} {'seconds':>9} {'found':>6}")
    for name, runs, seconds, finds in table + [("all", *(sum(row[i] for row in table) for i in (1, 2, 3)))]:
        print(f"{name:<12} {runs:>12,} {seconds:>9.0f} {finds:>6}")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--hours", type=float)
    p.add_argument("--seconds", type=float)
    p.add_argument("-n", type=int)
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--only", default="")
    o = p.parse_args()
    seconds = o.hours * 3600 if o.hours else o.seconds
    if not seconds and not o.n:
        seconds = 600
    seed = random.SystemRandom().randrange(1, 1 << 31) if o.seed is None else o.seed
    targets = sorted(re.search(r"fuzz_(\w+)\.c$", f).group(1) for f in glob.glob("tests/fuzz/fuzz_*.c"))
    only = o.only.split() or targets + ["mutants"]
    unknown = set(only) - set(targets) - {"mutants"}
    if unknown:
        p.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(targets)}, mutants")
    targets = [t for t in targets if t in only]
    share = (0.75 if "mutants" in only else 1) / max(1, len(targets))
    print(f"campaign: seed {seed}", flush=True)
    table = []
    try:
        for name in targets:
            began = time.monotonic()
            runs, finds = fuzz(name, seconds and seconds * share, o.n, seed)
            table.append((name, runs, time.monotonic() - began, finds))
        if "mutants" in only:
            began = time.monotonic()
            runs, finds = mutants(seconds and seconds * (0.25 if targets else 1), o.n, seed, recordings())
            table.append(("mutants", runs, time.monotonic() - began, finds))
    except KeyboardInterrupt:
        print("campaign: interrupted")
    show(table)
    return any(row[3] for row in table)


if __name__ == "__main__":
    sys.exit(main())
