#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it looks at auxcap, which is this machine's
#
# auxcap doctor on this machine: every line begins with its state, the last one
# says what works, and the status agrees. Machines that we do not have are in
# tests/unit/test_doctor.c.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

out=$SCRATCH/doctor
"$auxcap" doctor >"$out" 2>"$out.err"
rc=$?
that "no report on standard error" "$out.err" test ! -s "$out.err"
not_lines() { grep -vE '^(ok|limited|no) +[a-z0-9_-]+ +[^ ]|^ +fix: [^ ]|^works now: [^ ]' "$out"; }
that "each line begins with its state" "$out" not not_lines
is "$(grep -c '^works now: ' "$out")" 1 "one summary"
is "$(tail -n 1 "$out" | cut -c1-11)" "works now: " "which is the last line"
for topic in kernel machine perf-events permission memory lockdown kernel-names kernel-code triggers disk; do
	that "$topic is told of" "$out" grep -qE "^(ok|limited|no) +$topic " "$out"
done
if grep -q '^works now: nothing' "$out"; then
	is $rc 1 "status 1: nothing works"
else
	is $rc 0 "status 0: something works"
fi

# What it promises is kept, and what it denies fails.
if grep -q '^works now:.*-e soft_pt//u' "$out"; then
	that "soft_pt records, as promised" "$out" \
		"$auxcap" -q -e soft_pt//u -o "$SCRATCH/promised.data" -- true
fi
if grep -q '^ok .*intel_pt ' "$out"; then
	that "intel_pt records, as promised" "$out" \
		"$auxcap" -q -e intel_pt//u -o "$SCRATCH/promised.data" -- true
elif grep -q '^no .*intel_pt ' "$out"; then
	that "intel_pt fails, as foretold" "$out" \
		not "$auxcap" -q -e intel_pt//u -o "$SCRATCH/denied.data" -- true 2>"$out.err"
fi

# Without programs in PATH: no emulation, and how to get it.
PATH=/nonexistent "$auxcap" doctor >"$out" 2>&1
if [ "$(uname -m)" = x86_64 ]; then
	that "without qemu it says how to get it" "$out" \
		grep -qE '^limited +soft_pt-emulate .*not installed' "$out"
	that "with a command" "$out" grep -qE '^ +fix: .*apt install qemu-user' "$out"

	# a qemu-user as that of Debian 13
	mkdir -p "$SCRATCH/no-plugins"
	for q in qemu-x86_64 qemu-aarch64; do
		cat >"$SCRATCH/no-plugins/$q" <<-'E'
		#!/bin/sh
		case " $* " in
		*" -plugin "*)
			echo "qemu: unknown option 'plugin'" >&2
			exit 1 ;;
		esac
		echo "usage: qemu [options] program [arguments...]"
		E
		chmod +x "$SCRATCH/no-plugins/$q"
	done
	PATH=$SCRATCH/no-plugins:$PATH "$auxcap" doctor >"$out" 2>&1
	that "a qemu without plugins is none" "$out" \
		grep -qE '^limited +soft_pt-emulate +qemu-x86_64 is built without plugins' "$out"
	PATH=$SCRATCH/no-plugins:$PATH "$auxcap" -e soft_pt//u -o "$SCRATCH/none.data" -- true 2>"$out"
	is $? 0 "and a recording needs none" || cat "$out"
	PATH=$SCRATCH/no-plugins:$PATH "$auxcap" -e soft_pt/emulate/u -o "$SCRATCH/none.data" -- true 2>"$out"
	is "$? $(grep -c 'or -e soft_pt/native/u, which needs no qemu' "$out")" "1 1" \
		"emulation names what needs none" || cat "$out"
fi

# As somebody else: less is allowed, the same form.
if [ "$(id -u)" = 0 ] && have setpriv; then
	mkdir -p "$SCRATCH/bin" && cp "$auxcap" "$SCRATCH/bin" && chmod -R a+rX "$SCRATCH"
	if setpriv --reuid 54321 --regid 54321 --clear-groups "$SCRATCH/bin/auxcap" doctor >"$out" 2>&1; then
		that "the form is the same without root" "$out" not not_lines
		if [ "$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 0)" -gt 0 ]; then
			that "permission is limited" "$out" grep -qE '^(limited|no) +permission' "$out"
			that "and the fix is a command" "$out" grep -qE '^ +fix: sudo sysctl kernel.perf_event_paranoid' "$out"
		fi
	else
		skip "another user cannot run programs in the scratch directory"
	fi
else
	skip "no root, or no setpriv: we are that user"
fi

"$auxcap" doctor >/dev/full 2>/dev/null
is $? 1 "a full disk is an error"
"$auxcap" doctor surplus >/dev/null 2>&1
is $? 2 "it takes no arguments"
finish
