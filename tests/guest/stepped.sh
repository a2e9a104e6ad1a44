#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# soft_etm/step on an arm64 kernel: programs that are stepped on the processor decode to
# what ran, address by address. Among them exclusive loads and stores, which no single
# step gets through, generated code, children and threads, and ends by signals.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
truth=$work/a.truth

# stepped WANT PROGRAM [ARGUMENT...]
stepped() {
	local want=$1 text="${*:2}"
	local run=("$programs/$2" "${@:3}")
	timeout 500 "$auxcap" -q -e soft_etm/step/u -o "$data" --truth "$truth" -- "${run[@]}" >"$out" 2>"$err"
	is $? "$want" "$text: its status"
	"$auxdecode" insn -F tid,ip "$data" 2>"$err" | "$BUILD/truthcmp" "$truth" >"$work/cmp"
	ok "${PIPESTATUS[1]}" "$text: $(tail -n 1 "$work/cmp")" "$work/cmp"
}

stepped 0 aarch64/hello_asm
stepped 0 hello_static
stepped 0 aarch64/atomics 2 3
that "no update of an atomic is lost" "$out" grep -q 'all right' "$out"
stepped 0 jit
stepped 0 forkexec
stepped 139 crash segv
stepped 137 crash kill
echo "done"
