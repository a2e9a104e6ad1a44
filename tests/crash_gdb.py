# SPDX-License-Identifier: BSD-2-Clause
#
# Runs in gdb: what `auxdecode crash --json` says of values is what gdb sees.
#
#   CRASH_JSON=FILE CRASH_FROM=FUNCTION gdb -batch -x crash_gdb.py --args PROGRAM..
#	steps a live run from the last call of FUNCTION to its signal, and compares the
#	registers and the memory before each instruction
#   CRASH_JSON=FILE gdb -batch -x crash_gdb.py PROGRAM CORE
#	compares the registers and the stack
#
# The live run is another one than the recorded one: numbers of processes, the stack
# protector's random word and the trap flag of a single step are allowed to differ, each
# for its counterpart alone.
import json
import os

import gdb

REGS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()
KEPT = 64
want = json.load(open(os.environ["CRASH_JSON"]))
signals = []
failed = 0


def say(text):
    global failed
    failed += 1
    if failed < 20:
        print("DIFFERS", text)


def number(expr):
    return int(gdb.parse_and_eval(expr).cast(gdb.lookup_type("unsigned long"))) & (1 << 64) - 1


def registers():
    frame = gdb.newest_frame()
    return {r: int(frame.read_register(r)) & (1 << 64) - 1 for r in REGS}


def memory(addr, size):
    try:
        return int.from_bytes(gdb.selected_inferior().read_memory(addr, size).tobytes(), "little")
    except gdb.MemoryError:
        return None


def check_core():
    mine = {r: int(v, 0) for r, v in want["core"]["registers"].items()}
    if mine != registers() or int(want["core"]["rip"], 0) != number("$pc"):
        say(f"registers: {mine}, gdb {registers()}")
    frames = []
    frame = gdb.newest_frame()
    while frame and len(frames) < 64:
        if frame.type() == gdb.NORMAL_FRAME or frame.type() == gdb.SIGTRAMP_FRAME:
            frames.append(frame.pc())
        try:
            frame = frame.older()
        except gdb.error:
            break
    got = [int(f["ip"], 0) for f in want["core_stack"]]
    n = min(len(got), len(frames))
    if not n or got[:n] != frames[:n] or (want["core_stack_end"] is None and len(got) < len(frames)):
        say(f"stack: {[hex(x) for x in got]}, gdb {[hex(x) for x in frames]}")
    print(f"compared {len(mine)} registers and {n} frames")


# What may differ between two runs: ours -> theirs.
def counterparts():
    inferior = gdb.selected_inferior()
    core = int(want["canary"], 0) if "canary" in want else None
    pairs = {want["pid"]: inferior.pid, want["tid"]: gdb.selected_thread().ptid[1]}
    if core is not None:
        pairs[core] = memory(number("$fs_base") + 0x28, 8)
    return pairs


def is_same(reg, mine, theirs, pairs):
    if reg == "r11":
        mine, theirs = mine & ~0x100, theirs & ~0x100
    return mine == theirs or (mine in pairs and pairs[mine] == theirs)


def check_live():
    insns = want["instructions"]
    places = {(int(i["address"], 0), i["size"]) for i in insns if "size" in i}
    steps = []
    gdb.execute("set startup-with-shell off")
    gdb.execute("break " + os.environ["CRASH_FROM"])
    gdb.execute("run")
    hits = int(os.environ.get("CRASH_HITS", "1"))
    for _ in range(hits - 1):
        gdb.execute("continue")
    gdb.execute("delete")
    gdb.execute("set scheduler-locking on")
    pairs = counterparts()
    signals.clear()
    while not signals and len(steps) < 100000:
        steps.append((number("$pc"), registers(), {p: memory(*p) for p in places}))
        del steps[:-KEPT]
        gdb.execute("stepi", to_string=True)
    if number("$pc") != steps[-1][0]:
        steps.append((number("$pc"), registers(), {p: memory(*p) for p in places}))
    if insns[-1]["ran"]:
        steps.pop()
    n = min(len(steps), len(insns))
    compared = 0
    for mine, (pc, regs, mem) in zip(insns[-n:], steps[-n:]):
        if int(mine["ip"], 0) != pc:
            say(f"instruction {mine['ip']}, gdb {pc:#x}")
            break
        for r, v in mine["before"].items():
            compared += 1
            if not is_same(r, int(v, 0), regs[r], pairs):
                say(f"{mine['ip']} {mine['text']}: {r}={v}, gdb {regs[r]:#x}")
        if "size" in mine:
            key = (int(mine["address"], 0), mine["size"])
            compared += 1
            if not is_same("", int(mine["value"], 0), mem[key], pairs):
                say(f"{mine['ip']} {mine['text']}: [{key[0]:#x}]={mine['value']}, gdb {mem[key]}")
    print(f"compared {n} instructions, {compared} values")


gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set width 0")
gdb.execute("set breakpoint pending on")
gdb.execute("set backtrace past-main on")
if "CRASH_FROM" in os.environ:
    gdb.events.stop.connect(lambda e: signals.append(e) if isinstance(e, gdb.SignalEvent) and e.stop_signal != "SIGTRAP" else None)
    check_live()
else:
    check_core()
gdb.execute(f"quit {1 if failed else 0}")
