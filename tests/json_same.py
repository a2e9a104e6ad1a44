#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a command of auxdecode prints with --json with what it prints for
people: the same numbers, for the same things.

  json_same.py COMMAND JSON TEXT [STATUS]
"""
import json
import re
import sys


class Bad(Exception):
    pass


def need(cond, what):
    if not cond:
        raise Bad(what)


def same(got, want, what):
    need(got == want, f"{what}: JSON has {got}, the text {want}")


def rows(text, pattern):
    return [m.groups() for m in (re.match(pattern, line) for line in text) if m]


def count(d, text):
    pattern = (r"(thread|stream|total) ?(-?\d+)? insns (\d+) hash (\w+) branches (\d+) gaps (\d+)"
               r"(?: payloads (\d+))?(?: sha256 (\w+))?$")
    got = [(k, t.get(k), t["instructions"], t["hash"], t["branches"], t["gaps"], t["payloads"], t.get("sha256"))
           for k, table in (("thread", d["threads"]), ("stream", d["streams"]), ("total", [d["total"]])) for t in table]
    same(got, [(k, None if i is None else int(i), int(n), h, int(b), int(g), int(p or 0), s)
               for k, i, n, h, b, g, p, s in rows(text, pattern)], "tallies")


def hot(d, text):
    if "blocks" in d:
        same([(b["instructions"], b["executions"], b["length"], int(b["first"], 16), int(b["last"], 16))
              for b in d["blocks"]],
             [(int(a), int(b), int(c), int(f, 16), int(l, 16)) for a, b, c, f, l in
              rows(text, r" *(\d+) +[\d.]+ +(\d+) +(\d+) (0x\w+)-(0x\w+) ")], "blocks")
        return
    if "edges" in d:
        same([(e["count"], e["kind"], e.get("from"), e.get("to")) for e in d["edges"]],
             [(int(n), k, *(None if a == "-" else hex(int(a, 16)) for a in (f, t))) for n, k, f, t in
              rows(text, r" *(\d+) +[\d.-]+ (\w[\w-]*) +(0x\w+|-) +(0x\w+|-) ")], "edges")
        return
    same([(f["own"], f"{f['own_percent']:.2f}", f["total"], f"{f['total_percent']:.2f}", f["calls"])
          for f in d["functions"]],
         [(int(a), b, int(c), e, int(n)) for a, b, c, e, n in
          rows(text, r" *(\d+) +([\d.]+) +(\d+) +([\d.]+) +(\d+) +[\d.-]+ ")], "functions")
    tails = {"lost": "lost in gaps", "in_kernel": "in the kernel", "filtered": "filtered", "not_traced": "not traced",
             "off_cpu": "off CPU", "in_no_function": "in no function yet"}
    for key, what in tails.items():
        line = next((l for l in text if l.startswith(f"# {what}:")), "")
        for unit in ("ns", "cycles"):
            m = re.search(rf"(\d+) {unit}", line)
            same(d[key][unit] if d[key] else 0, int(m[1]) if m else 0, f"{key} {unit}")


def find(d, text):	# -F time,dur,self,offcpu,untraced,kernel,filtered,lost,pid,tid,insns,cycles,end,state,sym
    got = []
    for c in d["calls"]:
        whole, rest = divmod(c["time_ns"], 10 ** 9)
        got.append(" ".join("-" if v is None else str(v) for v in (
            f"{whole}.{rest:09d}" if c["time_ns"] else "-", c["ns"], c["self_ns"], c["off_cpu_ns"], c["untraced_ns"],
            c["kernel_ns"], c["filtered_ns"], c["lost_ns"], c["pid"], c["tid"], c["instructions"], c["cycles"], c["end"], c["state"], c["function"])))
    same(got, [l for l in text if not l.startswith("#")], "calls")
    same(d["n_found"], len(got), "n_found")


def latency(d, text):	# by instructions: no number is rounded
    whole = " ".join(text).replace(",", "")
    for key in ("calls", "total", "self", "mean", "min", "p50", "p90", "p99", "p99.9", "max"):
        m = re.search(rf" {re.escape(key)} (\d+)", whole)
        need(m, f"the text has no {key}")
        same(d[key], int(m[1]), key)
    same([(h["from"], h["calls"]) for h in d["histogram"]],
         [(int(a.replace(",", "")), int(n.replace(",", "")))
          for a, n in rows(text, r" +([\d,]+) - (?:[\d,]*) +([\d,]+) +[\d.]+% \|")], "histogram")
    same(sum(h["calls"] for h in d["histogram"]), d["calls"], "the histogram's sum")
    same([s["value"] for s in d["slowest"]],
         [int(v.replace(",", "")) for v, in rows(text, r"\d+\. ([\d,]+)")], "slowest")


def coverage(d, text):
    same([(f["lines_hit"], f["lines"], f["functions_called"], f["functions"], f["file"])
          for f in d["sources"] if f["lines_hit"]],
         [(int(a), int(b), int(c), int(e), f) for a, b, c, e, f in
          rows(text, r" *(\d+) +(\d+) +[\d.]+% +(\d+) +(\d+) +[\d.]+%  (.*)$")], "files")
    same([(f["lines_hit"], f["lines"], f["calls"], f["function"], f["line"]) for f in d["functions"]],
         [(int(a), int(b), int(n), f, int(l)) for a, b, n, f, l in
          rows(text, r" *(\d+) +(\d+) +[\d.]+% +(\d+)  (.*)  .*:(\d+)$")], "functions")


def summary(d, text):
    whole = "\n".join(text)
    m = re.search(r"(\d+) streams?, (\d+) instructions? in (\d+) threads?", whole)
    same([d["trace"][k] for k in ("streams", "instructions", "threads")], [int(v) for v in m.groups()], "trace")
    same([(f["instructions"], f"{f['percent']:.2f}", f["calls"]) for f in d["functions"]],
         [(int(a), p, int(c)) for a, p, c in rows(text, r" *(\d+) +([\d.]+) +(\d+)  \S.* \(.*\)$")], "functions")
    same([(g["n"], g["cause"]) for g in d["verdict"]["gaps"]],
         [(int(n), c) for n, c in rows(text, r" {12} *(\d+) (\S+) +\S")], "gaps")
    same(d["verdict"]["complete"], "complete: nothing is missing" in whole, "complete")
    want = rows(text, r"  (auxdecode .*?) +# ")
    same([n["command"] for n in d["next"]], [c for c, in want], "next")


def verify(d, text):
    numbers = {v for t in d["streams"] + [d["total"]] for v in t.values() if isinstance(v, int)}
    for n in re.findall(r"(\d+) (?:instr|branch|event|times|exact|ns|paths|of)", " ".join(text)):
        need(int(n) in numbers, f"JSON lacks {n}")
    need(f" {d['result']}: " in text[-1], f"result {d['result']}")
    same(d["text"], text, "text")


def diff(d, text):
    same(d["text"], text, "text")
    same([(f["instructions_b"] - f["instructions_a"], f["instructions_a"], f["instructions_b"], f["calls_a"],
           f["calls_b"]) for f in d["functions"]][:20],
         [tuple(map(int, r)) for r in rows(text, r" *([+-]\d+) +(\d+) +(\d+) +[+-]\d+ +(\d+) +(\d+)  ")], "functions")
    same([(t["a"]["tid"], t["b"]["tid"], t["a"]["instructions"]) for t in d.get("threads", []) if t["a"] and t["b"]],
         [tuple(map(int, r)) for r in
          rows(text, r"thread (\d+) .* of A, thread (\d+) .* of B: \w+, (\d+) instruction")], "pairs")
    same(d["equal"], "equal" in text, "equal")


def info(d, text):
    same(d["text"], text, "text")
    same({k: v for k, v in d["records"].items() if k not in ("total", "others")},
         {k: int(n) for k, n in rows(text[[l.startswith("records:") for l in text].index(True):], r"  ([A-Z]\w+) +(\d+)$")},
         "records")
    same(d["records"]["total"], int(rows(text, r"records: (\d+)")[0][0]), "records")
    same([(s["stream"], s["bytes"], s["pieces"], s["aux_records"]) for s in d["streams"]],
         [tuple(map(int, r)) for r in rows(text, r"  (\d+): .*?(\d+) bytes? in (\d+) pieces?, (\d+) AUX")], "streams")
    same(len(d["ledger"]), len(rows(text, r"  (stream \d+|all): ")), "ledger")
    same(d["verdict"]["complete"], text[-1] == "verdict: no loss recorded", "complete")


def main():
    command, path, text_path = sys.argv[1:4]
    try:
        d = json.load(open(path, encoding="utf-8"))
        need(d["schema"] == f"auxdecode/{command}/1", d["schema"])
        if len(sys.argv) > 4:
            same(d["status"], int(sys.argv[4]), "status")
        need(d["next"] and all(n["command"].startswith("auxdecode ") and n["what"] for n in d["next"]), "next")
        if "error" in d:
            need(d["status"] == 1, "an error with another status")
            return 0
        globals()[command](d, [l.rstrip("\n") for l in open(text_path, encoding="utf-8")
                               if not l.startswith("# software-made")])
    except (Bad, KeyError, IndexError, ValueError, TypeError) as e:
        print(f"{path}: {type(e).__name__}: {e}")
        return 1
    return 0


sys.exit(main())
