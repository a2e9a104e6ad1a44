# SPDX-License-Identifier: BSD-2-Clause
#
# For gdb, with `auxdecode gdbserver` as its target: backtraces, finish, next and
# reverse-finish. A recording has no stack, but it has the calls: the server says who
# called, and gdb takes that in place of a stack. `auxdecode gdb` does this by itself:
#
#	(gdb) target remote :PORT
#	(gdb) python exec(gdb.execute("monitor script", to_string=True))
import struct

import gdb
import gdb.unwinder

FRAMES = 64
OUTERMOST = 0x7fffffffffffff00  # above all others. Who called it is not known, and gdb
                                # shows that as a frame at address 0


def ask(wide):
    """What runs in the selected thread, and its callers: (address, identity). The
    server has them in a page of memory that no program uses."""
    page = gdb.selected_inferior().read_memory(
        0xffffffffffe00000 if wide else 0xfffe0000, 16 + 16 * FRAMES)
    words = struct.unpack("<%dQ" % (len(page) // 8), page)
    n = words[1]
    return words[0], list(zip(words[2:2 + 2 * n:2], words[3:3 + 2 * n:2]))


def functions_at(pc):
    """The blocks of functions around an address: inlined ones first, and last the one
    that has a frame."""
    block, found = gdb.block_for_pc(pc), []
    while block is not None:
        if block.function is not None:
            found.append(block)
        block = block.superblock
    return found


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Calls(gdb.unwinder.Unwinder):
    def __init__(self):
        super().__init__("auxkit")
        self.inlined = 0    # frames of inlined functions that gdb shows on top

    def number_of(self, level, pc, now, frames):
        """Which of our frames gdb's frame is, whose levels count inlined functions, too.
        Of those at the top it shows as many as were stepped into."""
        if pc == now and level < max(len(functions_at(pc)), 1):
            self.inlined = level
            return 0
        number, level = 0, level - self.inlined
        while level > 0:
            number += 1
            level -= 1
            if number <= len(frames):
                level -= max(len(functions_at(frames[number - 1][0] - 1)), 1) - 1
        return number

    def __call__(self, pending):
        arch = pending.architecture()
        wide = "64" in arch.name()
        word = arch.integer_type(64 if wide else 32, False)
        try:
            now, frames = ask(wide)
        except gdb.MemoryError:     # some other target
            return None
        name = ("rip" if "x86-64" in arch.name() else
                "eip" if arch.name() == "i386" else "pc")
        pc = int(pending.read_register(name).cast(word))
        number = self.number_of(pending.level(), pc, now, frames)
        while len(frames) <= number:
            frames.append((0, OUTERMOST + len(frames)))
        back, identity = frames[number]
        blocks = functions_at(pc - 1 if number else pc)
        info = pending.create_unwind_info(
            FrameId(gdb.Value(identity).cast(word),
                    gdb.Value(blocks[-1].start if blocks else 0).cast(word)))
        info.add_saved_register(name, gdb.Value(back).cast(word))
        return info


gdb.unwinder.register_unwinder(None, Calls(), replace=True)
# Values are in no trace. Where gdb does not ask whether one is available it would show 0.
for setting in ("print finish off", "print frame-arguments presence",
                "print entry-values no"):
    try:
        gdb.execute("set " + setting)
    except gdb.error:   # not known to this gdb
        pass
