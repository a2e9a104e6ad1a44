#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it boots a kernel of its own
#
# The kernel's own code: QEMU's stub for gdb steps a guest through system calls, page faults,
# interrupts, switches of tasks and its idle loop; kernel_step.py makes of it the packets of
# a CPU that traces the kernel alone. auxcap records these there (pmu_sim), with kcore, and
# the flow is what was stepped, by our decoder and by libipt; hot counts it as kallsyms has
# it. GUEST_KERNEL: see tools/guest/run -k.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ -z "${QUICK:-}" ] || { skip "takes a minute" "guest"; finish; }
[ "$(uname -m)" = x86_64 ] || { skip "hardware: pmu_sim replays packets for x86_64" "guest"; finish; }
have qemu-system-x86_64 || { skip "no QEMU: tools/deps install guest" "guest"; finish; }
/usr/bin/python3 -c 'import capstone' 2>/dev/null ||
	{ skip "no python3-capstone: tools/deps install test" "guest"; finish; }
out=$SCRATCH/guest err=$SCRATCH/err log=$SCRATCH/log data=$SCRATCH/guest/kernel.data
kernel=${GUEST_KERNEL:-6.1} stub=$SCRATCH/gdb steps=${STEPS:-50000}
mkdir -p "$out"

# as a file of addresses
addresses() { # OPTION...
	"$auxdecode" insn "$@" -F ip "$data" 2>"$err" | sed '/^#/d; s/ //g; s/^0*//'
}

ko=$(tools/guest/module -k "$kernel" tools/pmu_sim 2>"$err" | grep '/pmu_sim\.ko$')
[ -n "$ko" ] && cp "$ko" "$SCRATCH/pmu_sim.ko"
ok $? "kernel and modules for the guest" "$err" || finish
tools/guest/run -k "$kernel" -s "$stub" -t 1500 -m 1000 -o "$out" -e BUILD="$(realpath "$BUILD")" \
	-M "$SCRATCH/pmu_sim.ko names=intel_pt payload=replay rate=1000000000 unit=1" -- \
	bash tests/guest/kernel_record.sh 1400 >"$log" 2>&1 &
guest=$!
/usr/bin/python3 tests/guest/kernel_step.py "$stub" "$out" "$steps" >"$SCRATCH/steps" 2>&1
ok $? "its kernel is stepped" "$SCRATCH/steps"
[ -z "${V:-}" ] || cat "$SCRATCH/steps"
wait $guest
ok $? "and records" "$log" || finish
that "the program beside it ended well" "$log" grep -q '^program: 0$' "$log"
that "auxcap lost nothing" "$log" grep -q '^auxcap: 0$' "$log"

addresses >"$SCRATCH/flow"
that "the flow is what was stepped" "$err" cmp "$SCRATCH/flow" "$out/step.truth"
that "it is long" "$SCRATCH/steps" [ "$(wc -l <"$out/step.truth")" -gt $((steps / 2)) ]
if [ -z "$(no_libipt)" ]; then
	addresses --decoder libipt >"$SCRATCH/flow"
	that "with libipt, too" "$err" cmp "$SCRATCH/flow" "$out/step.truth"
fi
"$auxdecode" hot -n 1000000 "$data" >"$SCRATCH/hot" 2>"$err"
/usr/bin/python3 tests/guest/kernel_own.py "$out/kallsyms" "$out/step.truth" "$SCRATCH/hot" >"$SCRATCH/own"
ok $? "hot: own instructions of functions are those that ran" "$SCRATCH/own"
[ -z "${V:-}" ] || tail -n 1 "$SCRATCH/own"
"$auxdecode" calls "$data" >"$SCRATCH/calls" 2>"$err"
that "a system call is a call" "$SCRATCH/calls" \
	grep -q 'entry_SYSCALL_64() {.*# system call$' "$SCRATCH/calls"
that "it ends where the program goes on" "$SCRATCH/calls" grep -q '} entry_SYSCALL_64 .*# to user code$' "$SCRATCH/calls"
# an interrupt in the kernel returns to the kernel
that "an interrupt is one" "$SCRATCH/calls" grep -q 'asm_sysvec_.*() {.*# interrupt$' "$SCRATCH/calls"
finish
