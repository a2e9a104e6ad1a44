# SPDX-License-Identifier: BSD-2-Clause
#
# For gdb itself (source), at the end of a recording of one thread: single steps back to
# its begin and forwards again. Prints "step TID IP" for each instruction, in order, as
# `auxdecode insn -F tid,ip` has them; or that both ways differ.
#
# What gdb says at an edge its Python cannot see: a step that leads nowhere is one. No
# instruction of the programs that are walked through jumps to itself.
import os
import re

import gdb


def pc():
    return int(gdb.parse_and_eval("(unsigned long)$pc"))


def steps(command, most):
    """Where each step leads, up to the edge of the recording."""
    places = [pc()]
    while len(places) <= most:
        gdb.execute(command, to_string=True)
        places.append(pc())
        if places[-1] == places[-2]:
            return places[:-1]
    print("DIFFERS: no edge after %d steps" % most)
    return places


def without_atomic(places):
    """As gdb steps forwards on Arm: over all between a load exclusive and its store."""
    kept, inside, texts = [], False, {}
    for ip, after in zip(places, places[1:] + [0]):
        if ip not in texts:
            texts[ip] = gdb.execute("x/i %d" % ip, to_string=True).split("\t")[1]
        if not inside:
            kept.append(ip)
        if re.match(r"lda?x[rp]", texts[ip]):
            inside = True
        if re.match(r"stl?x[rp]", texts[ip]) or after != ip + 4:
            inside = False
    return kept


def walk():
    most = int(os.environ["WALK_MOST"])
    gdb.execute("set pagination off")
    pid, tid, _ = gdb.selected_thread().ptid
    places = steps("reverse-stepi", most)[::-1]
    forwards = steps("stepi", most)
    arm = gdb.selected_frame().architecture().name().startswith("aarch64")
    if forwards != (without_atomic(places) if arm else places):
        print("DIFFERS: %d steps back, %d forwards" % (len(places), len(forwards)))
    for ip in places:
        print("step", tid or pid, "%x" % ip)


walk()
