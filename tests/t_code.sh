#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Code wherever it lives: a program that was recorded is moved away, and given
# back in every way there is; names from where they are; what is refused and what
# is said. Our peers: perf's build-id cache, perf inject, objdump, binutils.
. "$(dirname "$0")/lib.sh"
need_soft

work=$SCRATCH/code
mkdir -p "$work/bin"
export PERF_BUILDID_DIR=$work/no-cache
prog=$work/bin/prog
data=$work/prog.data

# A program of several functions, and one with the same name that is another.
cat >"$work/prog.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) static int inner(int n)
{
	int s = 0;
	for (int i = 0; i < n; i++)
		s += i * s ^ SEED;
	return s;
}
__attribute__((noinline)) int outer(int n) { return inner(n) + inner(n / 2); }
int main(int argc, char **argv)
{
	(void)argv;
	printf("%d %s\n", outer(argc * 20), getenv("NO_SUCH_NAME") ? "a" : "b");
	return 0;
}
END
compile() { # SEED OUTPUT
	cc -O1 -g -Wl,--build-id -DSEED="$1" -o "$2" "$work/prog.c"
}
build_id() { readelf -n "$1" | sed -n 's/.*Build ID: //p'; }

compile 7 "$prog"
id=$(build_id "$prog")
cp "$prog" "$work/kept"
that "a program is recorded" "$work/log" \
	sh -c "'$auxcap' -e soft_pt//u -o '$data' -- '$prog' >'$work/log' 2>&1"
want=$("$auxdecode" count "$data" 2>&1 | tail -n 1)
ok $? "it decodes: $want"

# decodes TEXT OPTION...: complete, and the same as at first
decodes() {
	local text=$1 got
	shift
	got=$("$auxdecode" count "$@" "$data" 2>"$work/err" | tail -n 1)
	is "$got" "$want" "$text"
}

# refused TEXT PATTERN... -- OPTION...: a gap, which says all patterns
refused() {
	local text=$1 rc bad=0
	shift
	local patterns=()
	while [ "$1" != -- ]; do patterns+=("$1"); shift; done
	shift
	"$auxdecode" count "$@" "$data" >"$work/out" 2>&1
	rc=$?
	[ $rc = 3 ] || bad=1
	for p in "${patterns[@]}"; do
		grep -qe "$p" "$work/out" || { bad=1; echo "# no \"$p\""; }
	done
	ok $bad "$text" "$work/out"
}

rm "$prog"
refused "moved away" "$id" "$prog" "mapped at" "--symfs" "--buildid-dir" --

# A root that has all the other files of the recording too.
root=$work/root
"$auxdecode" dump "$data" | sed -n 's/.* MMAP2 .* r-x \(\/[^ ]*\) |.*/\1/p' |
	sort -u | while read -r f; do
		[ "$f" = "$prog" ] && continue
		mkdir -p "$root$(dirname "$f")"
		cp -L "$f" "$root$f"
	done
mkdir -p "$root$(dirname "$prog")"
cp "$work/kept" "$root$prog"
decodes "under symfs" --symfs "$root"
mv "$root$prog" "$root/prog"
decodes "by its name alone under symfs" --symfs "$root"
tree=.build-id/${id:0:2}
mkdir -p "$root/$tree" "$root/usr/lib/debug/$tree"
mv "$root/prog" "$root/$tree/${id:2}"
decodes "in the .build-id tree of symfs" --symfs "$root"
mv "$root/$tree/${id:2}" "$root/usr/lib/debug/$tree/${id:2}"
decodes "in usr/lib/debug/.build-id of symfs" --symfs "$root"
rm "$root/usr/lib/debug/$tree/${id:2}"
refused "under symfs no more" "$root$prog" -- --symfs "$root"

# perf's cache, made by perf.
if perf --buildid-dir "$work/cache" buildid-cache -a "$work/kept" >"$work/log" 2>&1; then
	decodes "in perf's build-id cache" --buildid-dir "$work/cache"
	PERF_BUILDID_DIR=$work/cache decodes "in the cache of PERF_BUILDID_DIR"
else
	ok 1 "perf makes a build-id cache" "$work/log"
fi

# A server of files, here a directory: asked only when told to.
export DEBUGINFOD_URLS=file://$work/server DEBUGINFOD_CACHE_PATH=$work/fetched
mkdir -p "$work/server/buildid/$id"
cp "$work/kept" "$work/server/buildid/$id/executable"
refused "no server without --debuginfod" "$id" "--debuginfod" --
is "$(find "$work/fetched" 2>/dev/null | wc -l)" 0 "and nothing was asked for"
decodes "from a debuginfod server" --debuginfod

# Another program in its place is never decoded.
compile 9 "$prog"
other=$(build_id "$prog")
refused "another build id" "$id" "$other" "$prog" --
decodes "another build id, and the right file in the cache" --buildid-dir "$work/cache"
ln -sfn "$prog" "$work/cache/$tree/${id:2}"
refused "a cache that lies" "$id" "$other" -- --buildid-dir "$work/cache"
cp "$work/kept" "$prog"

# Names.
names() { "$auxdecode" insn -F sym "$data" 2>/dev/null | sed 's/+0x.*//' | sort | uniq -c | sort -rn; }
names >"$work/names"
grep -qw inner "$work/names" && grep -qw outer "$work/names"
ok $? "names of the program" "$work/names"
objdump -d -j .plt -j .plt.sec "$prog" 2>/dev/null |
	sed -n 's/^[0-9a-f]* <\(.*@plt\)>:/\1/p' >"$work/stubs"
for s in printf@plt getenv@plt; do
	grep -qx "$s" "$work/stubs" && grep -qw "$s" "$work/names"
	ok $? "the stub $s" "$work/names"
done
cp "$work/names" "$work/all-names"
objcopy --only-keep-debug "$work/kept" "$work/bin/prog.debug"
strip -o "$prog" "$work/kept"
(cd "$work/bin" && objcopy --add-gnu-debuglink=prog.debug prog)
decodes "stripped: the build id stays"
is "$(names)" "$(cat "$work/all-names")" "names by .gnu_debuglink"
mkdir -p "$work/bin/.debug"
mv "$work/bin/prog.debug" "$work/bin/.debug"
is "$(names)" "$(cat "$work/all-names")" "names by .gnu_debuglink in .debug"
compile 9 "$work/bin/.debug/prog.debug"
names >"$work/names"
that "a debug file of another program is not used" "$work/names" \
	not grep -qw inner "$work/names"
rm -r "$work/bin/.debug"

# What a JIT compiler logged, beside perf inject.
jitlog=$(realpath "$programs/jitlog")
"$auxcap" -e soft_pt/step/u -o "$data" -- "$jitlog" "$work" >"$work/log" 2>&1
ok $? "a JIT compiler is recorded" "$work/log"
"$auxdecode" insn -F sym,bytes "$data" 2>"$work/err" |
	sed -n 's/^\(jit_[a-z0-9_]*\)+0x[0-9a-f]* \(.*\)/\1 \2/p' |
	awk '{ code[$1] = code[$1] $2 } $2 == "c3" { print $1, code[$1]; delete code[$1] }' |
	sort -u >"$work/ours"
if (cd "$work" && perf record -k mono -e dummy:u -o perf.data -- "$jitlog" . &&
    perf inject -j -i perf.data -o injected.data) >"$work/log" 2>&1; then
	for so in "$work"/jitted-*.so; do
		name=$(nm "$so" | sed -n 's/.* [Tt] \(jit_.*\)/\1/p')
		code=$(objcopy -O binary -j .text "$so" /dev/stdout | od -An -v -tx1 | tr -d ' \n')
		echo "$name $code"
	done | sort -u >"$work/theirs"
	is "$(wc -l <"$work/ours")" 5 "five functions were made and ran"
	diff "$work/ours" "$work/theirs" >"$work/diff"
	ok $? "names and code are those that perf inject makes of the log" "$work/diff"
else
	ok 1 "perf inject reads the log" "$work/log"
fi

# Compressed files, and options that name nothing.
cp "$work/kept" "$work/prog"
for option in --symfs --vdso --vmlinux --kcore --kallsyms; do
	"$auxdecode" count $option "$work/nowhere" "$data" >"$work/out" 2>&1
	is "$? $(grep -c -e "$option $work/nowhere: No such file" "$work/out")" "1 1" \
		"$option of what is not there is an error"
done
finish
