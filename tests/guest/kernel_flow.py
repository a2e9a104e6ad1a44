# SPDX-License-Identifier: BSD-2-Clause
#
# Intel PT of functions of the running kernel: their first instruction runs, then an
# interrupt comes. No simulated PMU sees kernel code; this has its real addresses, which
# what is recorded beside it must give names to.
#
#	kernel_flow.py STREAM: writes it, prints the names
import struct
import sys

NAMES = ["vfs_read", "vfs_write", "vfs_open", "ksys_read", "ksys_write", "do_exit",
         "kernel_clone", "wake_up_process"]


def addresses():
    of, names = {}, {}
    with open("/proc/kallsyms") as f:
        for line in f:
            addr, _, name = line.split()[:3]
            of.setdefault(addr, []).append(name)
            names[name] = addr
    # of an address with two names it is not said which one is meant
    return {n: int(names[n], 16) for n in NAMES if len(of.get(names.get(n), [])) == 1}


def first_bytes(addr):
    with open("/proc/kcore", "rb") as f:
        head = f.read(64)
        at, n = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
        for i in range(n):
            f.seek(at + 56 * i)
            kind, _, offset, vaddr, _, size = struct.unpack("<IIQQQQ", f.read(40))
            if kind == 1 and vaddr <= addr < vaddr + size:
                f.seek(offset + addr - vaddr)
                return f.read(8)
    raise SystemExit("kcore has no %#x" % addr)


def first_length(addr):
    """A nop or call of five bytes for the function tracer, behind a mark for branches."""
    code = first_bytes(addr)
    if code[:4] in (b"\xf3\x0f\x1e\xfa", b"\x0f\x1f\x40\xd6", b"\x66\x0f\x1f\x00"):
        return 4
    if code[:5] == b"\x0f\x1f\x44\x00\x00" or code[:1] == b"\xe8":
        return 5
    raise SystemExit("unknown first instruction at %#x: %s" % (addr, code.hex()))


def main():
    places = [(a, first_length(a)) for a in addresses().values()]
    out = b""
    while len(out) < 20000:
        out += b"\x02\x82" * 8 + b"\x99\x01" + b"\x02\x23"      # PSB, MODE.Exec, PSBEND
        for addr, n in places:          # MODE.Exec, TIP.PGE; FUP, TIP.PGD
            out += b"\x99\x01\xd1" + struct.pack("<Q", addr)
            out += b"\xdd" + struct.pack("<Q", addr + n) + b"\x01"
    with open(sys.argv[1], "wb") as f:
        f.write(out)
    print(*addresses())


main()
