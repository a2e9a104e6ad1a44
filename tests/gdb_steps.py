# SPDX-License-Identifier: BSD-2-Clause
#
# For gdb itself (source): the same commands, whether the program lives or is a recording.
# Prints where each leads, and who called.
import random

import gdb

COMMANDS = ["step", "next", "step", "finish", "step 3", "next", "stepi", "nexti 4"]


def where():
    names = []
    frame = gdb.selected_frame()
    while frame is not None and frame.name() != "main":
        names.append(frame.name())
        frame = frame.older()
    return ">".join(str(n) for n in names + ["main"])


def walk():
    rng = random.Random(1)
    gdb.execute("tbreak main")
    gdb.execute("run" if gdb.selected_inferior().pid == 0 else "continue", to_string=True)
    for _ in range(200):
        command = rng.choice(COMMANDS)
        if gdb.selected_frame().name() == "main" and command == "finish":
            command = "next"
        try:
            gdb.execute(command, to_string=True)
        except gdb.error as e:          # finish wants to show the value: there is none
            if "optimized out" not in str(e):
                raise
        frame = gdb.selected_frame()
        if frame.name() == "__libc_start_call_main":
            break
        print("at", command, frame.name(), frame.find_sal().line,
              "%x" % (frame.pc() & 0xfff), where())


walk()
