#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where code and its names come from when no ordinary file has them: logs of JIT
# compilers, the vsyscall page, files whose names have a newline. Under all back ends.
. "$(dirname "$0")/lib.sh"

work=$SCRATCH/work
data=$SCRATCH/jit.data truth=$SCRATCH/jit.truth log=$SCRATCH/jit.log
mkdir -p "$work"

need_soft
backends=$(back_ends)

# record BACKEND COMMAND...
record() {
	local backend=$1
	shift
	rm -f "$data" "$truth"
	timeout 500 "$auxcap" -e "soft_pt/$backend/u" -o "$data" --truth "$truth" \
		-- "$@" >"$SCRATCH/out" 2>"$log" </dev/null
	status=$?
}

# ---- jitdump: its mapping says where it is, though no code runs there ----

jitlog=$(realpath "$programs/jitlog")
for backend in $backends; do
	record "$backend" "$jitlog" "$work"
	"$auxdecode" dump "$data" 2>"$SCRATCH/err" >"$SCRATCH/dump"
	is "$status $(grep -c 'MMAP2.*/jit-[0-9]*\.dump' "$SCRATCH/dump")" "0 1" \
		"$backend: the mapping of a jitdump is in the recording"
	"$auxdecode" insn -F sym "$data" 2>"$SCRATCH/err" | sed -n 's/^\(jit_[a-z0-9_]*\).*/\1/p' |
		sort -u >"$SCRATCH/names"
	is "$(tr '\n' ' ' <"$SCRATCH/names")" "jit_add_0 jit_add_1 jit_add_2 jit_add_3 jit_again " \
		"$backend: the names are those of the jitdump"
	is "$("$auxdecode" calls -F time,insns,sym "$data" 2>"$SCRATCH/err" | grep -v '^#' | sort -n |
		sed -n 's/^[0-9.]* \([0-9]* jit_.*\)/\1/p' | tr '\n' ' ')" \
		"3 jit_add_0 4 jit_add_1 5 jit_add_2 6 jit_add_3 6 jit_add_3 5 jit_again " \
		"$backend: each is what was there when it was called"
	matches "$backend jitlog"
done

# ---- perf maps: /tmp/perf-PID.map is saved, and counts before this machine's ----

names() { # FILE [OPTION...]: those of the generated code, and how many instructions
	"$auxdecode" insn -F sym "$@" 2>"$SCRATCH/err" | sed -n 's/+0x[0-9a-f]*$//; /^map/p' |
		sort | uniq -c | awk '{ $1 = $1; printf "%s; ", $0 }'
}

for backend in $backends; do
	record "$backend" "$programs/jitmap"
	map=$(cat "$SCRATCH/out")
	wanted="120 map second(int); 120 map_first; 5 map_old; "
	[ -n "$map" ] && mv "$map" "$work/map"
	is "$(names "$data")" "$wanted" "$backend: a perf map names generated code"
	matches "$backend jitmap"
	record "$backend" "$programs/jitmap" fork
	map=$(cat "$SCRATCH/out")
	[ -n "$map" ] && rm -f "$map"
	is "$(names "$data")" "120 map second(int); 132 map_first; 12 map_old; " \
		"$backend: and that of a forked child"
done
"$auxdecode" bundle "$data" -o "$SCRATCH/bundle" 2>"$SCRATCH/err"
is "$(names "$SCRATCH/bundle")" "120 map second(int); 132 map_first; 12 map_old; " \
	"a bundle has the names" "$SCRATCH/err"

# One that is not in the recording, as perf makes them.
record step "$programs/jitmap" away
map=$(cat "$SCRATCH/out")
program=$(realpath "$programs/jitmap")
mkdir -p "$work/tmp" "$work${program%/*}"
cp "$program" "$work$program"
[ -n "$map" ] && mv "$map.away" "$work/$map"
is "$(names "$data")" "" "a recording without the map has no names"
is "$(names "$data" --symfs "$work")" "$wanted" "--symfs names it" "$SCRATCH/err"
"$auxdecode" bundle "$data" --symfs "$work" -o "$SCRATCH/bundle" 2>"$SCRATCH/err"
is "$(names "$SCRATCH/bundle")" "$wanted" "a bundle takes it along" "$SCRATCH/err"

# ---- node ----

cat >"$work/loop.js" <<'END'
function hotWork(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }
let t = 0;
for (let k = 0; k < 1000; k++) t += hotWork(1000);
console.log(t);
END
if have node && (cd "$work" && node --perf-prof --perf-basic-prof loop.js) >"$SCRATCH/out" 2>&1; then
	for option in --perf-basic-prof --perf-prof; do
		(cd "$work" && "$OLDPWD/$auxcap" -q -e soft_pt//u -o "$data" \
			-- sh -c 'echo $$; exec node "$@"' sh $option loop.js) >"$SCRATCH/out" 2>"$log" </dev/null
		rm -f "/tmp/perf-$(head -1 "$SCRATCH/out").map"
		"$auxdecode" hot -n 100000 "$data" 2>"$SCRATCH/err" >"$SCRATCH/hot"
		that "node $option: its functions have their names" "$SCRATCH/err" \
			grep -q 'hotWork.*loop\.js.*\[jit\]$' "$SCRATCH/hot"
		"$auxdecode" find hotWork "$data" >"$SCRATCH/find" 2>"$SCRATCH/err"
		that "node $option: a function by its plain name" "$SCRATCH/err" test "$(grep -c 'hotWork.*loop\.js' "$SCRATCH/find")" -gt 0
		awk '/\[anon[^ ]*$/ { a += $1 } /\[jit\]$/ { j += $1 } END { print a + 0, j + 0
			exit !(j > 1000000 && a < j / 20) }' "$SCRATCH/hot" >"$SCRATCH/share"
		ok $? "node $option: unnamed and named: $(cat "$SCRATCH/share")" "$SCRATCH/share"
	done
else
	skip "no node here that writes perf maps" "names of node's code"
fi

# ---- CPython with a trampoline for each function: from 3.12 on, not in Debian 12 ----

cat >"$work/calls.py" <<'END'
def hot_work(n):
    return sum(range(n))
def caller():
    return [hot_work(10) for _ in range(1234)]
caller()
print(hot_work(3))
END
# trampolines PYTHON OPTION: they have the names of their functions, which were called so often
trampolines() {
	(cd "$work" && "$OLDPWD/$auxcap" -q -e soft_pt//u -o "$data" -- \
		sh -c 'echo $$; exec "$@"' sh "$1" -X "$2" calls.py) >"$SCRATCH/out" 2>"$log" </dev/null
	rm -f "/tmp/perf-$(head -1 "$SCRATCH/out").map" "/tmp/jit-$(head -1 "$SCRATCH/out").dump"
	"$auxdecode" hot -n 100000 "$data" 2>"$SCRATCH/err" |
		awk '/py::hot_work:|py::caller:/ { sub(/:[^:]*$/, "", $7); gsub(",", "", $5); print $5, $7 }' |
		sort >"$SCRATCH/calls"
	is "$(cat "$SCRATCH/calls")" $'1 py::caller\n1235 py::hot_work' "$1 -X $2: names and calls"
	for name in hot_work py::hot_work; do
		is "$("$auxdecode" find "$name" "$data" 2>"$SCRATCH/err" | grep -c ' py::hot_work:')" 1235 "$1 -X $2: --symbol $name"
	done
}
for python in python3.12 python3.13 python3.14; do
	found=$("$python" -c 'import sys, sysconfig
if sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"):
    print(sys.executable, sys.version_info.minor)' 2>/dev/null) || continue
	[ -n "$found" ] || continue
	trampolines "${found% *}" perf
	[ "${found##* }" -lt 13 ] || trampolines "${found% *}" perf_jit
done

# ---- the vsyscall page: nothing of it runs ----

"$programs/vsyscall" >/dev/null
if [ $? = 77 ]; then
	skip "hardware: the kernel has no vsyscall page" "calls of the vsyscall page"
else
	for backend in $backends; do
		record "$backend" "$programs/vsyscall"
		is "$status" 0 "$backend: calls of the vsyscall page lose nothing" "$log"
		matches "$backend vsyscall"
	done
fi

# ---- a newline in a name ----

name=$work/$(printf 'two\nlines')
cp "$programs/hello_static" "$name"
cp "$programs/hello_static" "$work/four\\012signs"
for backend in $backends; do
	record "$backend" "$name"
	matches "$backend, a program with a newline in its name"
	record "$backend" "$work/four\\012signs"
	matches "$backend, a program with \\012 in its name"
done
finish
