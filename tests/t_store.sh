#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A store of code by build id: recordings of several machines decode with it alone, whoever
# serves it, and what it lacks is said once.
. "$(dirname "$0")/lib.sh"
need_soft

here=$SCRATCH/store
mkdir -p "$here/bin" "$here/recs"
cp "$programs/names" "$programs/waits" "$here/bin"
id_of() { readelf -n "$1" 2>/dev/null | sed -n 's/.*Build ID: //p'; }
names=$(id_of "$here/bin/names") waits=$(id_of "$here/bin/waits")
# names is stripped, with a debug file under the root of another machine
debug=$here/root/usr/lib/debug/.build-id/${names:0:2}
mkdir -p "$debug"
objcopy --only-keep-debug "$here/bin/names" "$debug/${names:2}.debug" && strip "$here/bin/names"
ok $? "a program and its debug file"
for p in names waits; do
	"$auxcap" -q -e soft_pt//u -o "$here/recs/$p.data" -- "$here/bin/$p" >/dev/null 2>"$here/err"
	ok $? "recorded $p" "$here/err"
done
cp "$here/recs/waits.data" "$here/recs/again.data"
"$auxdecode" bundle -o "$here/recs/bundle.data" "$here/recs/waits.data" 2>/dev/null
count() { "$auxdecode" count "$@" 2>"$here/err" | sed -n 's/^total/total/p'; }
want=$(count "$here/recs/names.data")
want_waits=$(count "$here/recs/waits.data")

# ---- from recordings, while their files are there ----
"$auxdecode" store add -o "$here/store" "$here/recs/names.data" >"$here/out" 2>"$here/err"
is $? 0 "store add: a recording: status 0" || cat "$here/err"
that "its program is there, by build id" - cmp -s "$here/bin/names" "$here/store/buildid/$names/executable"
that "and libc" "$here/err" test "$(find "$here/store" -name executable | wc -l)" -gt 2
mv "$here/bin" "$here/gone"
that "without the file there are gaps" - test "$(count "$here/recs/names.data")" != "$want"
is "$(count --store "$here/store" "$here/recs/names.data")" "$want" "--store: all is there"

# ---- from a directory; what is missing, once for all of them ----
"$auxdecode" store add -o "$here/store" "$here/recs" >"$here/out" 2>"$here/err"
is $? 3 "store add: a directory of recordings: status 3, something is missing"
is "$(grep -v '^#' "$here/out" | grep "/waits$")" "$waits	2	$here/bin/waits" "what, of how many recordings; none of the bundle"
is "$(grep -c '/names$' "$here/out")" 1 "names is missing here, too"
"$auxdecode" store add -o "$here/store" "$here/gone" "$here/root" >"$here/out" 2>"$here/err"
is $? 0 "store add: a directory of files"
is "$(count --store "$here/store" "$here/recs/waits.data")" "$want_waits" "its code is used"
that "the debug file is there" - cmp -s "$debug/${names:2}.debug" "$here/store/buildid/$names/debuginfo"
"$auxdecode" coverage --store "$here/store" "$here/recs/names.data" >"$here/out" 2>"$here/err"
that "and its lines are used" "$here/out" grep -q 'names\.c' "$here/out"
"$auxdecode" store add -o "$here/store" "$here/gone" 2>"$here/err"
that "what is there is not written again" "$here/err" grep -q '^[^ ]* *[^ ]* 0 files are new' "$here/err"
"$auxdecode" fleet run --store "$here/store" -o "$here/fleet" "$here/recs" 2>"$here/err"
is $? 0 "fleet run --store: nothing is missing" || cat "$here/err"
that "a copy counts once, and that is said" "$here/err" grep -q 'waits.data: is a copy of .*again.data, which counts once' "$here/err"
is "$(awk -F '\t' '$5 == "all" { print $1 }' "$here/fleet/result")" \
	$(($(echo "$want" | cut -d' ' -f3) + 2 * $(echo "$want_waits" | cut -d' ' -f3))) "three recordings are counted"

# ---- what is not the file is not taken ----
cp -r "$here/store" "$here/lies"
cp "$here/gone/waits" "$here/lies/buildid/$names/executable"
that "a store that lies: gaps" - test "$(count --store "$here/lies" "$here/recs/names.data")" != "$want"

# ---- served ----
if ldconfig -p | grep -q libdebuginfod; then
	python3 -u -m http.server -b 127.0.0.1 -d "$here/store" 0 >"$here/http" 2>&1 &
	server=$!
	for _ in $(seq 100); do grep -q 'port' "$here/http" && break; sleep 0.1; done
	port=$(sed -n 's/.*port \([0-9]*\).*/\1/p' "$here/http")
	is "$(DEBUGINFOD_CACHE_PATH=$here/cache count --store "http://127.0.0.1:$port" "$here/recs/names.data")" "$want" \
		"--store URL: any web server serves it" || cat "$here/err" "$here/http"
	kill $server
	wait $server 2>/dev/null
fi

# ---- words ----
"$auxdecode" store add "$here/recs" 2>"$here/err"
is $? 2 "store add without -o: status 2"
"$auxdecode" store list -o "$here/store" "$here/recs" 2>"$here/err"
is $? 2 "store, and no such thing to do: status 2"
"$auxdecode" store add -o "$here/store" "$here/none" >"$here/out" 2>"$here/err"
is $? 1 "a file that is not there: status 1"
finish
