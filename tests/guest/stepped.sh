#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# soft_etm/step on an arm64 kernel: programs that are stepped on the processor decode to
# what ran, address by address. Among them exclusive loads and stores, which no single
# step gets through, calls that signals break, generated code, children and threads, and
# ends by signals.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
truth=$work/a.truth

# stepped SAID PROGRAM [ARGUMENT...]: auxcap says that, beside what it counted
stepped() {
	local said=$1 text="${*:2}"
	local run=("$programs/$2" "${@:3}")
	timeout 500 "$auxcap" -e soft_etm/step/u -o "$data" --truth "$truth" -- "${run[@]}" \
		>"$out" 2>"$err"
	is $? 0 "$text: recorded"
	that "$text: auxcap says '$said'" "$err" grep -q "$said" "$err"
	"$auxdecode" insn -F tid,ip "$data" 2>"$err" | "$BUILD/truthcmp" "$truth" >"$work/cmp"
	ok "${PIPESTATUS[1]}" "$text: $(tail -n 1 "$work/cmp")" "$work/cmp"
}

stepped 'nothing lost' aarch64/hello_asm
stepped 'nothing lost' hello_static
stepped 'nothing lost' aarch64/atomics 2 3
that "no update of an atomic is lost" "$out" grep -q 'all right' "$out"
stepped 'nothing lost' aarch64/restarts
that "calls that signals broke end as alone" "$out" grep -q 'all right' "$out"
stepped 'nothing lost' jit
stepped 'nothing lost' forkexec
stepped 'nothing lost' threads 3 5
stepped 'killed by signal 11' crash segv
stepped 'killed by signal 9' crash kill
echo "done"
