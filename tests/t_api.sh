#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# libauxdecode, as a program outside of this tree meets it: installed, found by
# pkg-config, shared and static; the examples give what auxdecode gives.
. "$(dirname "$0")/lib.sh"
need_soft

root=$SCRATCH/root
cc=${CC:-cc}
flags="-std=gnu11 -O1 -Wall -Wextra -Werror ${SAN:+-fsanitize=address,undefined}"
env -u MAKEFLAGS -u MFLAGS make -s BUILD="$BUILD" ${SAN:+SAN=$SAN} install PREFIX="$root" \
	>"$SCRATCH/make" 2>&1
ok $? "make install" "$SCRATCH/make"
export PKG_CONFIG_PATH=$root/lib/pkgconfig LD_LIBRARY_PATH=$root/lib

# What it exports: what the headers declare, the map lists, and nothing else.
sed -n 's/^\t\(aux_.*\);$/\1/p' decode/lib/api/libauxdecode.map | sort >"$SCRATCH/map"
cat include/aux/{decode,cursor,reader,error}.h | tr '\n\t' '  ' | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g; s/[;{}]/\n/g' |
	grep -v 'inline' | grep -oE '\<aux_[a-z_]+\(' | tr -d '(' | sort -u >"$SCRATCH/declared"
that "the map lists what the headers declare" "$SCRATCH/differ" \
	eval 'diff "$SCRATCH/declared" "$SCRATCH/map" >"$SCRATCH/differ"'
nm -D --defined-only "$root/lib/libauxdecode.so" | awk '$2 ~ /[A-Z]/ && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
	grep -v '^__\?\(a\|ub\)san' | sort >"$SCRATCH/exported"
that "the shared library exports that" "$SCRATCH/differ" \
	eval 'diff "$SCRATCH/map" "$SCRATCH/exported" >"$SCRATCH/differ"'
nm -g --defined-only "$root/lib/libauxdecode.a" | awk 'NF == 3 { print $3 }' |
	sort >"$SCRATCH/exported"
that "and the static one" "$SCRATCH/differ" eval 'diff "$SCRATCH/map" "$SCRATCH/exported" >"$SCRATCH/differ"'
that "its name in other programs" - eval \
	'readelf -d "$root/lib/libauxdecode.so" | grep -q "SONAME.*libauxdecode\.so\.0\]"'
nm -D --undefined-only "$root/lib/libauxdecode.so" | awk '{ sub(/@.*/, "", $2); print $2 }' >"$SCRATCH/wants"
that "it neither exits nor prints" "$SCRATCH/wants" not grep -Ex 'exit|_exit|puts|printf|perror' "$SCRATCH/wants"

build() { # NAME FILE
	# shellcheck disable=SC2046,SC2086
	$cc $flags $(pkg-config --cflags libauxdecode) "$2" $(pkg-config --libs libauxdecode) \
		-lpthread -o "$SCRATCH/$1" >"$SCRATCH/cc" 2>&1
	ok $? "$1 builds with the shared library" "$SCRATCH/cc"
	cp "$root/lib/libauxdecode.a" "$SCRATCH/"
	# shellcheck disable=SC2046,SC2086
	$cc $flags $(pkg-config --cflags libauxdecode) "$2" "$SCRATCH/libauxdecode.a" \
		$(pkg-config --static --libs libauxdecode | sed 's/-lauxdecode//') \
		-o "$SCRATCH/$1.static" >"$SCRATCH/cc" 2>&1
	ok $? "$1 builds with the static library" "$SCRATCH/cc"
	that "$1: the static one needs no libauxdecode.so" - not eval \
		'readelf -d "$SCRATCH/'"$1"'.static" | grep -q libauxdecode'
}
build count_flow tools/examples/count_flow.c
build coverage_map tools/examples/coverage_map.c
build source_lines tools/examples/source_lines.c
build api_use tests/api_use.c
build last_calls tools/examples/last_calls.c
build api_cursor tests/api_cursor.c
# The header alone. Without permission, or without perf events, it says so.
# shellcheck disable=SC2086
$cc $flags -I"$root/include" tools/examples/self_count.c -o "$SCRATCH/self_count" >"$SCRATCH/cc" 2>&1
ok $? "self_count builds with no library" "$SCRATCH/cc"
"$SCRATCH/self_count" >"$SCRATCH/out" 2>&1
that "self_count counts its own work" "$SCRATCH/out" \
	grep -Eq '^[1-9][0-9]* (instructions|ns of task clock), |perf_event_open: ' "$SCRATCH/out"

record() { # FILE PROGRAM ARGUMENTS...
	local file=$1
	shift
	"$auxcap" -q -o "$file" "$@" >/dev/null 2>"$SCRATCH/err"
	that "recorded: $*" "$SCRATCH/err" test $? = 0 -o $? = 3
}
threads=$SCRATCH/threads.data
record "$threads" -e soft_pt//u -- "$programs/threads"
record "$SCRATCH/hello.data" -e soft_pt//u -- "$programs/hello_static"
record "$SCRATCH/gaps.data" -e soft_pt/psb_period=0/u --inject-overflow 2 -- "$programs/threads" 4 200

for data in "$threads" "$SCRATCH/hello.data" "$SCRATCH/gaps.data"; do
	what=$(basename "$data")
	"$auxdecode" count "$data" 2>/dev/null | grep -v '^#' >"$SCRATCH/count"
	awk '$1 == "thread" { print $2, $4, $10 }' "$SCRATCH/count" | sort >"$SCRATCH/want"
	"$auxdecode" insn -F tid,ip "$data" 2>/dev/null | grep -v '^#' >"$SCRATCH/insns"
	for how in '' .static; do
		"$SCRATCH/count_flow$how" "$data" >"$SCRATCH/out" 2>&1
		awk '$1 == "thread" { print $2, $5, $7 }' "$SCRATCH/out" | sort >"$SCRATCH/got"
		that "count_flow$how $what: as auxdecode count" "$SCRATCH/out" cmp -s "$SCRATCH/want" "$SCRATCH/got"
		"$SCRATCH/count_flow$how" --list "$data" 2>&1 | grep -Ev '^(gap|#)' >"$SCRATCH/got"
		that "count_flow$how --list $what: as auxdecode insn" "$SCRATCH/got" cmp -s "$SCRATCH/insns" "$SCRATCH/got"
	done
	# edges: branches with both ends, but for those of the kernel
	edges=$("$auxdecode" branch -F kind,from,to "$data" 2>/dev/null |
		awk '$1 ~ /^(call|cond|indcall|indjmp|jmp|ret)$/ && $2 != "-" && $3 != "-"' | wc -l)
	"$SCRATCH/coverage_map" "$data" "$SCRATCH/map1" >"$SCRATCH/out" 2>&1
	is "$(awk '$1 == "insns" { print $2, $4, $6 }' "$SCRATCH/out")" \
		"$(awk '$1 == "total" { print $3, $9 }' "$SCRATCH/count") $edges" "coverage_map $what: insns, gaps, edges"
	"$SCRATCH/coverage_map.static" "$data" "$SCRATCH/map2" >/dev/null
	that "coverage_map $what: shared and static agree" - cmp -s "$SCRATCH/map1" "$SCRATCH/map2"
done
that "a recording with gaps has some" "$SCRATCH/count" grep -q 'total.*gaps [1-9]' "$SCRATCH/count"
that "and count_flow names them" - eval \
	'"$SCRATCH/count_flow" "$SCRATCH/gaps.data" | grep -q "^gap overflow at offset 0x[0-9a-f]* in thread"'

# A cursor: what ran, forwards and back; each call, branch and line; positions.
record "$SCRATCH/cursor.data" -e soft_pt/native/u -- "$programs/replayed"
cursor() { "$SCRATCH/api_cursor" "$1" "$SCRATCH/cursor.data" "${@:2}"; }
"$auxdecode" insn -F ip,insn "$SCRATCH/cursor.data" 2>/dev/null | grep -v '^#' >"$SCRATCH/code"
awk '{ print $1 }' "$SCRATCH/code" >"$SCRATCH/insns"
for how in forwards back calls calls-back branches lines lines-back; do
	cursor $how >"$SCRATCH/cursor.$how" 2>"$SCRATCH/err"
	ok $? "cursor: $how, to the edge" "$SCRATCH/err"
done
that "cursor: forwards: as auxdecode insn" - cmp -s "$SCRATCH/insns" "$SCRATCH/cursor.forwards"
that "cursor: back: the same" - eval 'tac "$SCRATCH/cursor.back" | cmp -s - "$SCRATCH/insns"'
awk '$2 == "call" { print $1 }' "$SCRATCH/code" >"$SCRATCH/want"
that "cursor: calls: $(wc -l <"$SCRATCH/want")" "$SCRATCH/cursor.calls" cmp -s "$SCRATCH/want" "$SCRATCH/cursor.calls"
that "cursor: calls, back" - eval 'tac "$SCRATCH/cursor.calls-back" | cmp -s - "$SCRATCH/want"'
awk '$2 ~ /^(j|call|ret|syscall|loop)/ || $3 ~ /^(jmp|ret)/ { print $1 }' "$SCRATCH/code" >"$SCRATCH/want"
# the last one is where the program ended, and did not come back
that "cursor: branches: $(wc -l <"$SCRATCH/want")" "$SCRATCH/cursor.branches" \
	eval 'diff "$SCRATCH/want" "$SCRATCH/cursor.branches" >"$SCRATCH/differ"; [ "$(grep -c "^[<>]" "$SCRATCH/differ")" -le 1 ]'
fib=$("$auxdecode" insn -F ip,sym "$SCRATCH/cursor.data" 2>/dev/null | awk '$2 == "fib+0x0" { print $1; exit }')
n=$(grep -cx "${fib:-none}" "$SCRATCH/insns")
is "$(cursor points "${fib:-0}")" "$n $n" "cursor: a run stops as often as the address ran, both ways"
that "cursor: lines: as many as there are, $(wc -l <"$SCRATCH/cursor.lines")" - \
	test "$(wc -l <"$SCRATCH/cursor.lines")" -gt $((3 * n)) -a "$(wc -l <"$SCRATCH/cursor.lines-back")" -gt $((3 * n))
is "$(cursor edges)" "none none" "cursor: the edges of a whole recording"
n=$(stat -c %s "$SCRATCH/cursor.data")
for part in 50 99; do
	head -c $((n * part / 100)) "$SCRATCH/cursor.data" >"$SCRATCH/cut.data"
	is "$("$SCRATCH/api_cursor" edges "$SCRATCH/cut.data" 2>&1)" "none file" "cursor: the edges of one that is cut at $part %"
	"$SCRATCH/count_flow" "$SCRATCH/cut.data" >"$SCRATCH/out" 2>&1
	is $? 3 "count_flow: status 3 of one that is cut at $part %"
	that "count_flow: it says so" "$SCRATCH/out" grep -q '^gap file.*: the recording is cut' "$SCRATCH/out"
done
for example in count_flow coverage_map last_calls "source_lines $programs/replayed"; do
	read -r example words <<<"$example"
	# shellcheck disable=SC2086
	"$SCRATCH/$example" "$SCRATCH/cursor.data" $words >"$SCRATCH/out" 2>&1
	is $? 0 "$example: status 0 of a whole one"
	# shellcheck disable=SC2086
	"$SCRATCH/$example" "$SCRATCH/cut.data" $words >"$SCRATCH/out" 2>&1
	is $? 3 "$example: status 3 of the one that is cut"
	that "$example: it says so" "$SCRATCH/out" grep -qE 'missing|not whole' "$SCRATCH/out"
done
# so early that nothing of the trace is left
"$auxdecode" dump "$SCRATCH/cursor.data" 2>/dev/null | awk '/ AUXTRACE /{ print $1; exit }' >"$SCRATCH/first"
head -c $(($(tr -d ':' <"$SCRATCH/first"))) "$SCRATCH/cursor.data" >"$SCRATCH/early.data"
"$SCRATCH/last_calls" "$SCRATCH/early.data" >"$SCRATCH/out" 2>&1
is $? 1 "last_calls: status 1 where it is cut before the trace"
that "and the error names the cut" "$SCRATCH/out" grep -q 'not whole: ' "$SCRATCH/out"

# Records that were lost are missing at no place of the trace: unplaced.
python3 - "$SCRATCH/cursor.data" "$SCRATCH/lost.data" <<'END'
import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
at, size = struct.unpack_from("<QQ", b, 40)		# the header: where the data is
end, i, trailer = at + size, at, None
while i < end:
    kind, misc, n = struct.unpack_from("<IHH", b, i)
    if kind == 4:						# EXIT: 24 bytes, then the time and so on
        trailer = b[i + 32:i + n]
    i += n + (struct.unpack_from("<Q", b, i + 8)[0] if kind == 71 else 0)
lost = struct.pack("<IHHQQ", 2, 0, 24 + len(trailer), 0, 77) + trailer
struct.pack_into("<Q", b, 48, size + len(lost))
n_sections = sum(bin(v).count("1") for v in struct.unpack_from("<4Q", b, 72))
for k in range(n_sections):				# the sections move
    p = end + 16 * k
    struct.pack_into("<Q", b, p, struct.unpack_from("<Q", b, p)[0] + len(lost))
b[end:end] = lost
open(sys.argv[2], "wb").write(b)
END
that "a record that tells of 77 lost ones" - eval \
	'[ "$("$auxdecode" dump "$SCRATCH/lost.data" 2>/dev/null | grep -c " LOST .*77")" = 1 ]'
"$SCRATCH/count_flow" "$SCRATCH/lost.data" >"$SCRATCH/out" 2>&1
is $? 3 "count_flow: status 3 of it"
that "the flow ends with a gap of no place" "$SCRATCH/out" grep -q '^gap unplaced: something is missing' "$SCRATCH/out"
that "what is missing, in words" "$SCRATCH/out" grep -q 'parts are missing: 77 records were lost' "$SCRATCH/out"
that "it counts as one, and all else is there" "$SCRATCH/out" eval \
	'[ "$(sed -n "s/^total insns \([0-9]* gaps [0-9]*\).*/\1/p" "$SCRATCH/out")" = "$(wc -l <"$SCRATCH/insns") gaps 1" ]'
"$SCRATCH/coverage_map" "$SCRATCH/lost.data" >"$SCRATCH/out" 2>&1
is $? 3 "coverage_map: status 3 of it"
that "and a sink is told so, too" "$SCRATCH/out" grep -q ' gaps 1 ' "$SCRATCH/out"
cursor restore
is $? 0 "cursor: positions are where they were"
cursor bad
is $? 0 "cursor: what cannot be is refused"
"$SCRATCH/last_calls" "$SCRATCH/cursor.data" 5 >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 0 "last_calls: status 0"
that "last_calls: five calls, then who called" "$SCRATCH/out" eval '[ "$(grep -c " -> " "$SCRATCH/out")" = 5 ] && grep -qi "^#0 .*_exit+0x" "$SCRATCH/out" && grep -q "^#[1-9] .*exit" "$SCRATCH/out"'

# Source lines and inlined functions of each instruction that ran, against addr2line;
# DWARF 4, for addr2line 2.40 has wrong files of some functions with 5. What comes of
# the symbol table alone (startup code) addr2line names alike.
for src in cover_data.c cover_class.cc; do
	case $src in *.cc) comp=g++ cxx=1 ;; *) comp=gcc cxx=0 ;; esac
	lines=$SCRATCH/${src%.*}
	$comp -O2 -gdwarf-4 -o "$lines" "tests/programs/$src" -lm -pthread 2>"$SCRATCH/cc"
	record "$SCRATCH/lines.data" -e soft_pt//u -- "$lines"
	"$auxdecode" insn -F ip,dso "$SCRATCH/lines.data" 2>/dev/null | awk -v f="$lines" '$2 == f { n++ } END { print n }' >"$SCRATCH/want"
	"$SCRATCH/source_lines" "$SCRATCH/lines.data" "$lines" >"$SCRATCH/ours" 2>"$SCRATCH/err"
	is $? 0 "source_lines $src" || cat "$SCRATCH/err"
	is "$(awk '/^0x/ && NF == 2 { n += $2 } END { print n }' "$SCRATCH/ours")" "$(cat "$SCRATCH/want")" \
		"source_lines $src: all that ran is in it"
	"$SCRATCH/source_lines.static" "$SCRATCH/lines.data" "$lines" | cmp -s - "$SCRATCH/ours"
	ok $? "source_lines $src: shared and static agree"
	sed -n 's/^\(0x[0-9a-f]*\) .*/\1/p' "$SCRATCH/ours" >"$SCRATCH/addrs"
	addr2line -a -i -f -e "$lines" <"$SCRATCH/addrs" >"$SCRATCH/theirs"
	python3 tests/api_lines.py "$SCRATCH/ours" "$SCRATCH/theirs" $cxx >"$SCRATCH/out" 2>&1
	ok $? "source_lines $src: as addr2line: $(tail -n 1 "$SCRATCH/out")" "$SCRATCH/out"
done

<decode/lib/session/decoder_bytes.c $cc -DAUX_PLUGIN -I"$root/include" -shared -fPIC -xc -o "$SCRATCH/bytes.so" - 2>"$SCRATCH/cc"
ok $? "a decoder of one's own builds with the installed headers" "$SCRATCH/cc"
tid=$(awk 'NR == 1 { print $1 }' <<<"$("$auxdecode" count "$threads" | awk '$1 == "thread" { print $2 }')")
for how in '' .static; do
	"$SCRATCH/api_use$how" "$threads" "$SCRATCH/hello.data" "$tid" "$SCRATCH/bytes.so" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 0 "api_use$how" || sed 's/^/#   /' "$SCRATCH/err"
	checks_in "$SCRATCH/out" "api_use$how"
done
finish
