#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes an Intel PT trace of export_ptw.S, packet by packet as the SDM has them:
each PTWRITE with its value and its address.

  export_make.py ELF OUT VALUE...     values of p0, p1, ...
"""
import struct
import subprocess
import sys


def symbols(elf):
    out = subprocess.run(["nm", elf], check=True, capture_output=True, text=True).stdout
    return {f[2]: int(f[0], 16) for f in (l.split() for l in out.splitlines()) if len(f) == 3}


def ip(opcode, addr):
    return bytes([opcode | 3 << 5]) + struct.pack("<Q", addr)[:6]


def main():
    sym = symbols(sys.argv[1])
    out = bytes([0x02, 0x82] * 8)                   # PSB
    out += bytes([0x99, 0x01])                      # MODE.Exec: 64 bit
    out += ip(0x1d, sym["_start"])                  # FUP: where it is
    out += bytes([0x02, 0x23])                      # PSBEND
    for i, text in enumerate(sys.argv[3:]):
        out += bytes([0x02, 0xb2]) + struct.pack("<Q", int(text, 0))  # PTW, FUP follows
        out += ip(0x1d, sym[f"p{i}"])
    out += ip(0x0d, sym["after"])                   # TIP: the return
    out += ip(0x1d, sym["end"]) + bytes([0x01])     # FUP, TIP.PGD: it ends here
    open(sys.argv[2], "wb").write(out)


main()
