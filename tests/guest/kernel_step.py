# SPDX-License-Identifier: BSD-2-Clause
#
# The kernel of a guest, one instruction after the other, through QEMU's stub for gdb; what
# a processor with Intel PT would write of it (OS alone), and what ran. Instructions are told
# apart by capstone, packets are made as the SDM says (33.3, 33.4): none of this project's code.
#
#	kernel_step.py SOCKET DIR N
#
# DIR/kallsyms and DIR/ready are there when the guest is: then DIR/go is made, and the
# program may begin. Its umask is where the steps begin, its kill, or N steps, where they
# end. Writes DIR/step.stream and DIR/step.truth: an address for each instruction.
import os
import select
import socket
import struct
import sys
import time

import capstone
from capstone import x86_const as x86

KERNEL = 1 << 63
WITH_CODE = {8, 10, 11, 12, 13, 14, 17, 21, 29, 30}	# vectors that push an error code
CONDITIONAL = {getattr(x86, "X86_INS_" + n) for n in
               ("JA JAE JB JBE JCXZ JE JECXZ JG JGE JL JLE JNE JNO JNP JNS JO JP JRCXZ JS "
                "LOOP LOOPE LOOPNE").split()}
RETURNS = {x86.X86_INS_RET, x86.X86_INS_RETF}
FAR = {getattr(x86, "X86_INS_" + n) for n in ("IRETQ", "IRETD", "SYSRET", "SYSEXIT", "SYSCALL")}


class Stub:
    """The remote protocol of gdb, as much as is needed."""

    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        for _ in range(600):
            try:
                self.s.connect(path)
                break
            except OSError:
                time.sleep(0.1)
        self.buf = b""
        self.settle()
        # registers one by one are only for those who read what there is
        self.ask(b"qXfer:features:read:target.xml:0,ffb")

    def settle(self):
        """It has stopped, and said so once or more."""
        answer = self.ask(b"qSupported")
        while not answer.startswith(b"PacketSize"):
            answer = self.answer()

    def ask(self, text):
        self.s.sendall(b"$%s#%02x" % (text, sum(text) & 255))
        return self.answer()

    def answer(self):
        while True:
            at = self.buf.find(b"#")
            if at >= 0 and len(self.buf) >= at + 3:
                text = self.buf[:at]
                self.buf = self.buf[at + 3:]
                self.s.sendall(b"+")
                return text[text.index(b"$") + 1:]
            more = self.s.recv(65536)
            if not more:
                raise SystemExit("the guest has ended")
            self.buf += more

    def wait(self, seconds):
        """While the guest runs; an error if it has ended."""
        if select.select([self.s], [], [], seconds)[0]:
            more = self.s.recv(65536)
            if not more:
                raise SystemExit("the guest has ended")
            self.buf += more

    def go(self):
        self.s.sendall(b"$c#63")

    def register(self, n):
        return struct.unpack("<Q", bytes.fromhex(self.ask(b"p%x" % n).decode())[:8])[0]

    def memory(self, addr, n):
        text = self.ask(b"m%x,%x" % (addr, n))
        try:
            return b"" if text.startswith(b"E") else bytes.fromhex(text.decode())
        except ValueError:
            raise SystemExit("memory at %#x: %s" % (addr, text))

    def pc(self):
        return self.register(16)


class Code:
    """Instructions by address, as they are when they first run."""

    def __init__(self, stub):
        self.stub = stub
        self.known = {}
        self.reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.reader.detail = True

    def at(self, pc):
        if pc not in self.known:
            code = self.stub.memory(pc, 16) or self.stub.memory(pc, 4096 - pc % 4096)
            insn = next(self.reader.disasm(code, pc, 1), None)
            # new ones (rdpkru) are not known to every capstone; no branch is new
            self.known[pc] = self.kind(insn) if insn else ("unknown", None, None)
        return self.known[pc]

    @staticmethod
    def kind(insn):
        """(kind, address of the next, where it leads, or None)"""
        after = insn.address + insn.size
        op = insn.operands[0] if insn.operands else None
        target = op.imm & (1 << 64) - 1 if op and op.type == x86.X86_OP_IMM else None

        if insn.id in CONDITIONAL:
            return "cond", after, target
        if insn.id in (x86.X86_INS_JMP, x86.X86_INS_CALL):
            return ("direct" if target is not None else "indirect"), after, target
        if insn.id in RETURNS or insn.id in FAR:
            return "indirect", after, None
        if insn.id == x86.X86_INS_HLT:
            return "wait", after, None
        return "other", after, None


class Packets:
    """Packets of Intel PT: no time, no compressed returns, whole addresses."""

    PSB = b"\x02\x82" * 8

    def __init__(self):
        self.out = bytearray()
        self.bits = []
        self.on = False
        self.synced = 0
        self.sync(None)

    def sync(self, ip):
        """PSB+; ip: where the flow is, if tracing is on."""
        self.flush()
        self.out += self.PSB + b"\x99\x01"
        if ip is not None:
            self.out += b"\xdd" + struct.pack("<Q", ip)
        self.out += b"\x02\x23"
        self.synced = len(self.out)

    def flush(self):
        if self.bits:
            value = 1
            for b in self.bits:
                value = value << 1 | b
            self.out.append(value << 1)
            self.bits = []

    def tnt(self, taken):
        self.bits.append(int(taken))
        if len(self.bits) == 6:
            self.flush()

    def tip(self, ip):
        self.flush()
        self.out += b"\xcd" + struct.pack("<Q", ip)

    def enable(self, ip):
        self.out += b"\x99\x01\xd1" + struct.pack("<Q", ip)
        self.on = True

    def disable(self):
        self.flush()
        self.out += b"\x01"
        self.on = False

    def stop(self, ip):
        """Tracing ends before the instruction at ip."""
        self.flush()
        self.out += b"\xdd" + struct.pack("<Q", ip)
        self.disable()

    def event(self, ip, handler):
        """An interrupt or a fault before the instruction at ip."""
        self.flush()
        self.out += b"\xdd" + struct.pack("<Q", ip)
        self.tip(handler)


class Flow:
    """Steps as packets and truth."""

    def __init__(self, stub, handlers):
        self.stub = stub
        self.handlers = handlers        # address: vector
        self.code = Code(stub)
        self.packets = Packets()
        self.truth = []
        self.events = 0

    def waits(self, pc):
        return pc >= KERNEL and self.code.at(pc)[0] == "wait"

    def interrupted(self, to):
        """The address at which the handler's frame goes on."""
        rsp = self.stub.register(7)
        skip = 8 if self.handlers[to] in WITH_CODE else 0
        self.events += 1
        return struct.unpack("<Q", self.stub.memory(rsp + skip, 8))[0]

    def ran(self, pc, to):
        """The instruction at pc ran, and leads to to."""
        kind, after, target = self.code.at(pc)
        p = self.packets

        self.truth.append(pc)
        if kind == "cond":
            if to not in (after, target):
                raise SystemExit("%#x leads to %#x" % (pc, to))
            p.tnt(to != after)
        elif kind == "indirect":
            if to < KERNEL:
                p.disable()
            else:
                p.tip(to)
        elif kind == "unknown":
            if not 0 < to - pc < 16:
                raise SystemExit("no instruction is known at %#x" % pc)
        elif to != (target if kind == "direct" else after):
            raise SystemExit("%#x (%s) leads to %#x" % (pc, kind, to))

    def step(self, pc, to):
        p = self.packets
        if pc < KERNEL:
            if to >= KERNEL:
                p.enable(to)
            return
        if not p.on:
            p.enable(pc)
        if to == pc:                    # a string instruction, not at its end
            return
        if to in self.handlers and self.code.at(pc)[2] != to:
            back = self.interrupted(to)
            if back != pc:
                self.ran(pc, back)
            if p.on:
                p.event(back, to)
            else:
                p.enable(to)            # on the way to the program
        else:
            self.ran(pc, to)
        if p.on and len(p.out) - p.synced > 2000:
            p.sync(to)


def symbols(path):
    with open(path) as f:
        return {name: int(addr, 16) for addr, _, name in (line.split()[:3] for line in f)}


def read_handlers(stub, table):
    of = {}
    for vector in range(256):
        gate = stub.memory(table + 16 * vector, 16)
        low, _, _, middle, high = struct.unpack("<HHHHI", gate[:12])
        of[high << 32 | middle << 16 | low] = vector
    return of


def step_kernel(stub, where, n):
    stub.go()
    while not os.path.exists(where + "/ready"):
        stub.wait(0.1)
    names = symbols(where + "/kallsyms")
    begin, end = names["__x64_sys_umask"], names["__x64_sys_kill"]
    stub.s.sendall(b"\x03")             # stop
    stub.settle()
    flow = Flow(stub, read_handlers(stub, names["idt_table"]))
    stub.ask(b"Z1,%x,1" % begin)
    open(where + "/go", "w").close()
    stub.ask(b"c")
    stub.settle()
    stub.ask(b"z1,%x,1" % begin)
    pc, steps, began = stub.pc(), 0, time.time()
    while steps < n and pc != end:
        # A timer is always due: each step takes longer than what it counts for.
        if steps % 2000 == 1999 or flow.waits(pc):
            stub.ask(b"Qqemu.sstep=1")
            stub.ask(b"s")
            stub.ask(b"Qqemu.sstep=7")  # no interrupts, no timers
        else:
            stub.ask(b"s")
        to = stub.pc()
        flow.step(pc, to)
        pc = to
        steps += 1
    if flow.packets.on:
        flow.packets.stop(pc)
    with open(where + "/step.truth", "w") as f:
        f.writelines("%x\n" % ip for ip in flow.truth)
    with open(where + "/step.part", "wb") as f:
        f.write(flow.packets.out + Packets().out)
    os.rename(where + "/step.part", where + "/step.stream")
    print("%d steps in %.0f s, %d instructions of the kernel, %d interrupts and faults, %d bytes" %
          (steps, time.time() - began, len(flow.truth), flow.events, len(flow.packets.out)))


def main():
    stub, where = Stub(sys.argv[1]), sys.argv[2]

    try:
        step_kernel(stub, where, int(sys.argv[3]))
    finally:    # even after an error the guest has to go on, and to know that this is over
        open(where + "/stepped", "w").close()
        stub.s.sendall(b"$D#44")        # detach: it runs


main()
