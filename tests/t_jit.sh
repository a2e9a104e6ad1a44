#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where code and its names come from when no ordinary file has them: logs of JIT
# compilers, the vsyscall page, files whose names have a newline. Under both back ends.
. "$(dirname "$0")/lib.sh"

work=$SCRATCH/work
data=$SCRATCH/jit.data truth=$SCRATCH/jit.truth log=$SCRATCH/jit.log
mkdir -p "$work"

# record BACKEND COMMAND...
record() {
	local backend=$1
	shift
	rm -f "$data" "$truth"
	timeout 100 "$auxcap" -e "soft_pt/$backend/u" -o "$data" --truth "$truth" \
		-- "$@" >"$SCRATCH/out" 2>"$log" </dev/null
	status=$?
}

# ---- jitdump: its mapping says where it is, though no code runs there ----

jitlog=$(realpath "$programs/jitlog")
for backend in emulate step; do
	record "$backend" "$jitlog" "$work"
	"$auxdecode" dump "$data" 2>"$SCRATCH/err" >"$SCRATCH/dump"
	is "$status $(grep -c 'MMAP2.*/jit-[0-9]*\.dump' "$SCRATCH/dump")" "0 1" \
		"$backend: the mapping of a jitdump is in the recording"
	"$auxdecode" insn -F sym "$data" 2>"$SCRATCH/err" | sed -n 's/^\(jit_[a-z0-9_]*\).*/\1/p' |
		sort -u >"$SCRATCH/names"
	is "$(tr '\n' ' ' <"$SCRATCH/names")" "jit_add_0 jit_add_1 jit_add_2 jit_add_3 jit_again " \
		"$backend: the names are those of the jitdump"
	matches "$backend jitlog"
done

# ---- the vsyscall page: nothing of it runs ----

"$programs/vsyscall" >/dev/null
if [ $? = 77 ]; then
	skip "hardware: the kernel has no vsyscall page" "calls of the vsyscall page"
else
	for backend in emulate step; do
		record "$backend" "$programs/vsyscall"
		is "$status" 0 "$backend: calls of the vsyscall page lose nothing" "$log"
		matches "$backend vsyscall"
	done
fi

# ---- a newline in a name ----

name=$work/$(printf 'two\nlines')
cp "$programs/hello_static" "$name"
cp "$programs/hello_static" "$work/four\\012signs"
for backend in emulate step; do
	record "$backend" "$name"
	matches "$backend, a program with a newline in its name"
	record "$backend" "$work/four\\012signs"
	matches "$backend, a program with \\012 in its name"
done
finish
