#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs commands with one call failing (tests/fault.c), and judges what comes out.

faults.py FAULT.so SCRATCH PER_KIND < COMMANDS

A line of COMMANDS: a command with {o} where an output goes, {d} for a directory,
{o=FILE} for an output that begins as a copy of FILE. After " ;; " a shell command may
say what stands for the output, where that is a recording and no two are equal.
For up to PER_KIND (0: all) calls of each kind, spread over the run, or for all where
the line begins with "all ":
- the status is that of the undisturbed run, and so is the output; or
- another status, with a message, and the output file is complete or as before.
Prints a line of TAP for each command.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys

KINDS = ('alloc', 'write', 'map', 'rename')
BEFORE = b'was here before\n'
ASAN_SAYS = b'ERROR: AddressSanitizer'


def comparable(text):
    """Without what differs from run to run: doctor says how full the disk is."""
    return re.sub(rb'\d+ MB free', b'N MB free', text)


class Runner:
    def __init__(self, lib, scratch):
        self.lib, self.scratch, self.before = lib, scratch, BEFORE

    def run(self, line, kind, at):
        """(status, stdout, stderr, output file or directory, calls)"""
        out = os.path.join(self.scratch, 'fault.out')
        directory = os.path.join(self.scratch, 'fault.dir')
        count = os.path.join(self.scratch, 'fault.count')
        self.before = BEFORE
        start = re.search(r'{o=([^}]*)}', line)
        if start:
            with open(start[1], 'rb') as f:
                self.before = f.read()
            line = line.replace(start[0], '{o}')
        with open(out, 'wb') as f:
            f.write(self.before)
        line, _, says = line.partition(' ;; ')
        shutil.rmtree(directory, ignore_errors=True)
        words = [w.replace('{o}', out).replace('{d}', directory) for w in shlex.split(line)]
        env = dict(os.environ, LD_PRELOAD=self.lib, FAULT_KIND=kind, FAULT_AT=str(at),
                   FAULT_COUNT=count)
        try:
            p = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, timeout=300,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        except subprocess.TimeoutExpired:
            return None, b'', b'', b'', 0
        with open(out, 'rb') as f:
            made = f.read()
        if '{d}' in line:
            made = self.read_dir(directory)
        if says:
            made = subprocess.run(['sh', '-c', says.replace('{o}', out)], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        calls = 0
        if not at:
            with open(count, encoding='ascii') as f:
                calls = int(f.read())
        return p.returncode, comparable(p.stdout), p.stderr, made, calls

    @staticmethod
    def read_dir(path):
        found = {}
        for top, _, names in os.walk(path):
            for name in names:
                with open(os.path.join(top, name), 'rb') as f:
                    found[os.path.relpath(os.path.join(top, name), path)] = f.read()
        return found


def judge(want, got, line, before):
    """What is wrong; None: nothing. A recording that ended early is a file, too."""
    status, stdout, stderr, made, _ = got
    if status is None:
        return 'hangs'
    if status < 0:
        return f'dies of signal {-status}'
    if ASAN_SAYS in stderr:
        return 'sanitizer: ' + stderr.decode(errors='replace')[:200]
    if status == want[0]:
        if stdout != want[1]:
            return f'status {status}, and other output on stdout'
        if made != want[3]:
            return f'status {status}, and another output file'
        return None
    if b'error' not in stderr and b'warning' not in stderr:
        return f'status {status} without a message'
    if '{o}' in line and ' ;; ' not in line and made not in (before, want[3]):
        return f'status {status}, and half of an output file'
    return None


def places(n, most):
    """Up to most of 1..n, the first and the last with them."""
    if not most or n <= most:
        return range(1, n + 1)
    return sorted({1 + i * (n - 1) // (most - 1) for i in range(most)})


def check(runner, line, most):
    faults, n_runs = [], 0
    if line.startswith('all '):
        line, most = line[4:], 0
    for kind in KINDS:
        want = runner.run(line, kind, 0)
        if want[0] not in (0, 3):
            return [f'without a fault: status {want[0]}: {want[2].decode(errors="replace")}'], 0
        for at in places(want[4], most):
            wrong = judge(want, runner.run(line, kind, at), line, runner.before)
            n_runs += 1
            if wrong:
                # What is told of the machine (auxcap list, doctor) may have changed
                # meanwhile: somebody mounted tracefs. Then that is what is to be equal.
                now = runner.run(line, kind, 0)
                if now[:2] != want[:2]:
                    want = now
                    wrong = judge(want, runner.run(line, kind, at), line, runner.before)
            if wrong:
                faults.append(f'{kind} {at} of {want[4]}: {wrong}')
    return faults, n_runs


def main():
    runner = Runner(sys.argv[1], sys.argv[2])
    most = int(sys.argv[3])
    for line in sys.stdin.read().splitlines():
        faults, n_runs = check(runner, line, most)
        words = shlex.split(line.removeprefix('all ').partition(' ;; ')[0])
        name = ' '.join(os.path.basename(w) for w in words)
        print('not ok' if faults else 'ok', name, f'({n_runs} faults)', flush=True)
        for f in faults[:12]:
            print('#', f, flush=True)
        if len(faults) > 12:
            print(f'# and {len(faults) - 12} more', flush=True)


main()
