#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# Many recordings in units: what units give, joined in any order by whoever ran them, is what
# one process gives, and what the commands of the same names give.
. "$(dirname "$0")/lib.sh"
need_soft

here=$SCRATCH/fleet
recs=$here/recs
mkdir -p "$recs"
auxdecode=$PWD/$auxdecode
PATH=$PATH:/usr/sbin

# ---- recordings: threads, processes, C++, gaps; and one that has many chunks ----
for p in threads forkexec waits stack_recurse names hello_static; do
	"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$recs/$p.data" -- "$programs/$p" >/dev/null 2>"$here/err"
	[ -s "$recs/$p.data" ] || ok 1 "recording $p" "$here/err"
done
"$auxcap" -q -e soft_pt/psb_period=0/u --inject-overflow 10 -o "$recs/it's torn.data" -- /bin/ls / >/dev/null 2>&1
"$auxcap" -q -e soft_pt/tsc,mtc,cyc/u -o "$here/large.data" -- \
	/usr/bin/python3 -c 'import json
for i in range(4): json.dumps(json.loads(json.dumps([{"a": [j] * 9, "b": str(j)} for j in range(300)])))' >/dev/null 2>"$here/err"
ok $? "recordings" "$here/err"

# values that a program wrote, on a CPU that has PTWRITE; the sanitizers want to be loaded first
more=()
if [ "${SAN:-}" != 1 ]; then
	"${cc_words[@]}" -shared -fPIC -o "$here/ptrace.so" tests/ptrace.c -ldl 2>"$here/err"
	PTWRITE=1 LD_PRELOAD=$here/ptrace.so "$auxcap" -q -e soft_pt/native,ptw,fup_on_ptw/u -o "$here/values.data" -- \
		"$programs/ptwrite" 100000 >/dev/null 2>"$here/err"
	ok $? "a recording of values" "$here/err"
	more=("$here/values.data")
fi

map() { "$auxdecode" map "$@" 2>"$here/err"; }
reduce() { "$auxdecode" reduce "$@" 2>"$here/err"; }
field() { awk -F '\t' '!/^#/ { print $'"$1"' }' "$here/units"; }

# ---- plan ----
"$auxdecode" plan --unit-size 1M "$recs" "$here/large.data" >"$here/units" 2>"$here/err"
ok $? "plan: files, and all recordings of a directory" "$here/err"
n=$(field 1 | wc -l)
that "plan: $n units, several of the large one" "$here/units" test "$(grep -c 'large.data$' "$here/units")" -gt 2
is "$(field 1 | sort -u | wc -l)" "$n" "plan: each has a name of its own"
mkdir "$here/elsewhere"
cp "$here/large.data" "$here/elsewhere/other name"
is "$("$auxdecode" plan --unit-size 1M "$here/elsewhere/other name" 2>/dev/null | cut -f1 | grep -v '^#')" \
	"$(grep 'large.data$' "$here/units" | cut -f1)" "plan: names follow what is recorded, not the path"
is "$("$auxdecode" plan --unit-size 1M --json "$recs" "$here/large.data" | python3 -c 'import json, sys
print("\n".join(json.loads(l)["unit"] for l in sys.stdin))')" "$(field 1)" "plan --json: the same"
is "$("$auxdecode" plan --do flame --unit-size 1M "$here/large.data" | grep -v '^#' | cut -f1)" \
	"$(grep 'large.data$' "$here/units" | cut -f1)" "plan --do flame: the same units"
is "$("$auxdecode" plan --do latency --unit-size 1M "$here/large.data" | grep -vc '^#')" 1 \
	"plan --do latency: one unit for each recording, since calls cross its chunks"
"$auxdecode" plan "$here/none" >"$here/out" 2>&1
is $? 1 "plan: a file that is not there: status 1"
# a directory has more than recordings; one that came empty, or not at all, is said
mkdir "$here/mixed" "$here/mixed/shut"
cp "$recs/threads.data" "$here/mixed/perf.data.1"
: >"$here/mixed/empty.data"
head -c 9999 /bin/ls >"$here/mixed/perf.data"
cp /bin/ls "$here/mixed/"
ln "$here/mixed/perf.data.1" "$here/mixed/shut/none.data"
"$auxdecode" plan "$here/mixed" 2>"$here/err" >"$here/out"
is "$?.$(grep -vc '^#' "$here/out")" 0.1 "plan: of a directory the recordings alone" || cat "$here/err"
is "$(grep -c 'mixed/\(empty.data\|perf.data\): does not count: no PERFILE2' "$here/err")" 2 "plan: and what is none, but named so"
is "$(wc -l <"$here/err")" 3 "plan: and no more; a copy counts once" || cat "$here/err"

# ---- units, joined, are what one process gives ----
each() { # DO [FILE]: a part for each unit of its plan
	mkdir "$here/$1"
	"$auxdecode" plan --do "$1" --unit-size 1M "$recs" "$here/large.data" "${@:2}" 2>/dev/null >"$here/$1/units"
	grep -v '^#' "$here/$1/units" | while IFS=$'\t' read -r unit _ _ file; do
		map --do "$1" --unit "$unit" -o "$here/$1/$unit.part" "$file" || [ $? = 3 ] || echo "$unit"
	done >"$here/failed"
	that "$1: each unit gives a part" "$here/failed" not test -s "$here/failed"
}
for what in count hot flame latency gaps branches profile coverage calls values; do
	files=()
	[ $what = values ] && files=("${more[@]}")
	each $what "${files[@]}"
	map --do $what -o "$here/$what/all" "$recs"/*.data "$here/large.data" "${files[@]}"
	is $? 3 "$what: all in one process; status 3: one has gaps"
	reduce -o "$here/$what/one" "$here/$what/all"
	reduce --units "$here/$what/units" -o "$here/$what/many" "$here/$what"/*.part
	is $? 3 "$what: parts joined"
	that "$what: byte for byte the same" - cmp -s "$here/$what/one" "$here/$what/many"
	# however they are grouped, and in whatever order
	python3 - "$auxdecode" "$here/$what" >"$here/out" 2>&1 <<'END'
import glob, os, random, subprocess, sys
tool, here = sys.argv[1:]
def join(out, parts, *how):
    rc = subprocess.run([tool, "reduce", *how, "-o", out, *parts], stderr=subprocess.PIPE)
    if rc.returncode not in (0, 3):
        sys.exit(rc.stderr.decode())
    return open(out, "rb").read()
parts = sorted(glob.glob(here + "/*.part"))
units = ["--units", here + "/units"]	# where the recordings are, of calls that cross units
want = join(here + "/whole", parts, "--part")
result = open(here + "/one", "rb").read()
for seed in range(2):
    random.seed(seed)
    left, n = list(parts), 0
    random.shuffle(left)
    while len(left) > 1:
        k = random.randint(2, 5)
        n += 1
        out = "%s/tree.%d.%d" % (here, seed, n)
        join(out, left[:k], "--part")
        left = left[k:] + [out]
        random.shuffle(left)
    assert open(left[0], "rb").read() == want, seed
    assert join(here + "/tree", left, *units) == result, seed
END
	ok $? "$what: the same in any order and grouping" "$here/out"
done

# ---- and what the commands say ----
sum=0
for f in "$recs"/*.data "$here/large.data"; do
	sum=$((sum + $("$auxdecode" count "$f" 2>/dev/null | sed -n 's/^total insns \([0-9]*\) .*/\1/p')))
done
is "$(awk -F '\t' '$5 == "all" { print $1 }' "$here/count/many")" $sum "count: the sum of what count says"
id=large
for what in hot flame latency; do map --do $what -o "$here/$what/large.part" "$here/large.data"; done
# two functions of one name in one place are one stack
added() { awk '{ n = $NF; sub(/ [0-9]+$/, ""); sum[$0] += n } END { for (s in sum) printf "%s %.0f\n", s, sum[s] }' | sort; }
reduce -o "$here/large.flame" "$here/flame/$id.part"
"$auxdecode" flame --per all "$here/large.data" 2>/dev/null | added >"$here/want"
that "flame: the stacks of flame" - cmp -s <(sort "$here/large.flame") "$here/want"
reduce --by time "$here/flame/$id.part" | sort >"$here/got"
"$auxdecode" flame --by time --per all "$here/large.data" 2>/dev/null | added >"$here/want"
that "flame: by time, too" - cmp -s "$here/got" "$here/want"
reduce -o "$here/large.hot" "$here/hot/$id.part"
"$auxdecode" hot --json -n 999999 "$here/large.data" 2>/dev/null >"$here/json"
reduce -o "$here/large.latency" "$here/latency/$id.part"
python3 - "$auxdecode" "$here" >"$here/out" 2>&1 <<'END'
import json, subprocess, sys
tool, here = sys.argv[1:]
rows = [l.rstrip("\n").split("\t") for l in open(here + "/large.hot") if not l.startswith("#")]
got = {}
for r in rows:
    if not r[9].startswith("[") or r[10] != "-":
        k = got.setdefault(r[9], [0, 0, 0])
        for i, v in enumerate((r[0], r[4], r[8])):
            k[i] += int(v)
want = {}
for f in json.load(open(here + "/json"))["functions"]:
    k = want.setdefault(f["function"], [0, 0, 0])
    for i, v in enumerate(("own", "total", "calls")):
        k[i] += f[v]
bad = [(k, want.get(k), got.get(k)) for k in sorted(want.keys() | got.keys()) if want.get(k) != got.get(k)]
print(len(want), "functions", bad[:9])
assert len(want) > 300 and not bad
# the slowest functions that have one row: their times are those of latency
rows = [l.rstrip("\n").split("\t") for l in open(here + "/large.latency") if not l.startswith("#")]
names = [r[8] for r in rows]
n = 0
for r in rows[:60]:
    if names.count(r[8]) > 1 or r[8].startswith("["):
        continue
    d = json.loads(subprocess.run([tool, "latency", "--json", r[8], here + "/large.data"], capture_output=True).stdout)
    want = [d["calls"], d["mean"], d["min"], d["p50"], d["p90"], d["p99"], d["p99.9"], d["max"]]
    got = [int(v) for v in r[:8]]
    got[1] //= got[0]
    assert got == want, (r, want)
    n += 1
    if n == 6:
        break
assert n > 3, n
END
ok $? "hot, latency: the numbers of the commands" "$here/out"
for f in "$here/large.data" "$recs/forkexec.data"; do
	map --do calls -o "$here/calls.part" "$f"
	reduce -o "$here/calls.got" "$here/calls.part"
	rm -f "$here/calls.part" "$here/calls.db"
	"$auxdecode" export --to sqlite -o "$here/calls.db" "$f" 2>"$here/err"
	# rows of one function in two files are one of the view; calls alone, no sums of none
	python3 - "$here" >"$here/out" 2>&1 <<'END'
import sqlite3, sys
here, got = sys.argv[1], {}
for l in open(here + "/calls.got"):
    if l.startswith("#"):
        continue
    calls, ns, insns, _, _, function, _, caller, _ = l.rstrip("\n").split("\t")
    k = got.setdefault((function, None if caller == "-" else caller), [0, 0, 0])
    for i, v in enumerate((calls, ns, insns)):
        k[i] += int(v)
want = {(f, c): list(v) for f, c, *v in sqlite3.connect(here + "/calls.db").execute(
    "SELECT function, caller, calls, ns, insns FROM callers")}
bad = [(k, want.get(k), got.get(k)) for k in want.keys() | got.keys() if want.get(k) != got.get(k)]
print(len(want), "pairs", bad[:9])
assert len(want) > 50 and not bad
END
	ok $? "calls: the numbers of SQL's view callers, ${f##*/}" "$here/out"
done
if [ ${#more[@]} = 1 ]; then
	that "values: several units" "$here/values/units" test "$(grep -c 'values.data$' "$here/values/units")" -gt 1
	"$auxdecode" insn -F ip "$here/values.data" 2>/dev/null | sed -n 's/^# ptwrite 0x\([0-9a-f]*\) .*/\1/p' >"$here/out"
	python3 - "$here" 2>"$here/err" <<'END'
import collections, sys
here = sys.argv[1]
want = collections.Counter(int(l, 16) for l in open(here + "/out"))
got = collections.Counter()
for l in open(here + "/values/one"):
    if not l.startswith("#"):
        n, source, place, dso, size, value = l.rstrip("\n").split("\t")
        assert source == "ptwrite" and place.startswith("main+0x") and dso.endswith("/ptwrite") and size in "48", l
        got[int(value, 16)] += int(n)
assert sum(want.values()) == 200000 and want == got, (len(want), len(got))
END
	ok $? "values: those of insn, and as many" "$here/err"
fi
# branch lists, tracefiles: as merge makes them of those of each recording
for what in "profile" "coverage --to lcov"; do
	list=()
	for f in "$recs"/*.data "$here/large.data"; do
		list+=("$here/${what%% *}/${#list[@]}.own")
		# shellcheck disable=SC2086
		"$auxdecode" $what -o "${list[-1]}" "$f" 2>/dev/null
		[ -s "${list[-1]}" ] || unset 'list[-1]'
	done
	"$auxdecode" merge -o "$here/want" "${list[@]}" 2>"$here/err"
	that "$what: as of ${#list[@]} recordings, merged" "$here/err" cmp -s "$here/want" "$here/${what%% *}/many"
done
that "profile: a border cuts runs, which are pieces of a part" - \
	grep -q '^piece' "$here/profile/$(grep -m2 'large.data$' "$here/profile/units" | tail -1 | cut -f1).part"
"$auxdecode" profile --to bolt --module "$(basename "$(realpath /usr/bin/python3)")" -o "$here/bolt" "$here/profile/many" 2>"$here/err"
that "profile: what BOLT reads is made of it" "$here/err" grep -q '^B ' "$here/bolt"
is "$(awk -F '\t' '/^[0-9]/ { n += $1 } END { print n }' "$here/branches/many")" \
	"$(awk '/^branch/ { n += $NF } END { print n }' "$here/profile/many")" "branches: as many as in the list"
that "branches: by function" - grep -q '	call	main+0x' "$here/branches/many"
is "$(awk -F '\t' '$3 != "cause" { n += $4 } END { print n }' "$here/gaps/many")" \
	"$("$auxdecode" insn -F ip "$recs/it's torn.data" 2>/dev/null | grep -c '^# gap')" "gaps: as many as insn shows"

# ---- an index: a copy of the side-band, so nothing depends on it ----
cp "$here/large.data" "$here/indexed.data"
"$auxdecode" dump "$here/indexed.data" >"$here/dump" 2>/dev/null
"$auxdecode" info "$here/indexed.data" >"$here/info" 2>/dev/null
unit=$("$auxdecode" plan --unit-size 1M "$here/indexed.data" | sed -n 3p | cut -f1)
as_before() { # TEXT
	"$auxdecode" dump "$here/indexed.data" >"$here/dump.now" 2>/dev/null
	"$auxdecode" info "$here/indexed.data" >"$here/info.now" 2>/dev/null
	map --do count --unit "$unit" -o "$here/unit.part" "$here/indexed.data"
	cmp -s "$here/dump" "$here/dump.now" && cmp -s "$here/info" "$here/info.now" && cmp -s "$here/unit.part" "$here/count/$unit.part"
	ok $? "$1"
	rm -f "$here/unit.part"
}
"$auxdecode" index "$here/indexed.data" 2>"$here/err"
is $? 0 "index: status 0" || cat "$here/err"
index=$here/indexed.data.auxidx
that "index: without the trace" - test "$(stat -c %s "$index")" -lt $(($(stat -c %s "$here/indexed.data") / 20))
as_before "index: records, and a unit, are the same"
strace -o "$here/trace" "$auxdecode" plan "$here/indexed.data" >/dev/null 2>&1
that "index: it is read" - grep -q 'indexed.data.auxidx' "$here/trace"
"$auxdecode" index "$here/indexed.data" 2>"$here/err"
that "index: is not made twice" "$here/err" grep -q 'has an index already' "$here/err"
touch -d '2001-01-01' "$here/indexed.data"
as_before "index: of a file that has changed since: not used"
"$auxdecode" index "$here/indexed.data" 2>"$here/err"
that "index: and made anew" "$here/err" grep -q 'indexed: ' "$here/err"
"$auxdecode" index -o "$here/indexes" "$here/large.data" 2>"$here/err"
is "$(ls "$here/indexes")" "${unit%%.*}.auxidx" "index -o DIR: by the recording's id"
map --index "$here/indexes" --do count --unit "$unit" -o "$here/unit.part" "$here/large.data"
that "map --index: the same" "$here/err" cmp -s "$here/unit.part" "$here/count/$unit.part"
rm -f "$here/unit.part"
# damaged, it is not used; made to deceive, with a sum that is right, it does no harm
cp "$index" "$here/good.auxidx"
python3 - "$auxdecode" "$here" >"$here/out" 2>&1 <<'END'
import os, random, struct, subprocess, sys
tool, here = sys.argv[1:]
data, index = here + "/indexed.data", here + "/indexed.data.auxidx"
good = open(here + "/good.auxidx", "rb").read()
def total(b):
    h, M = len(b), 2**64 - 1
    for i in range(0, len(b) - 7, 8):
        h = ((h ^ struct.unpack_from("<Q", b, i)[0]) * 0xff51afd7ed558ccd) & M
        h ^= h >> 32
    for c in b[len(b) & ~7:]:
        h = ((h ^ c) * 0x100000001b3) & M
    return h
def seal(b):
    n = struct.unpack_from("<Q", b, 32)[0]
    if n > len(b) // 16:
        return b
    h, at = total(b[56:56 + 16 * n]), 56 + 16 * n
    for i in range(n):
        size = struct.unpack_from("<Q", b, 56 + 16 * i + 8)[0]
        h ^= total(b[at:at + size]) * (2 * i + 1) & 2**64 - 1
        at += size
    struct.pack_into("<Q", b, 48, h)
    return b
assert seal(bytearray(good)) == good
def run(*words):
    p = subprocess.run([tool, *words, data], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    return p.returncode, p.stdout
want = run("plan")
random.seed(3)
n_used = 0
for i in range(40):
    bad = bytearray(good)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(bad)) if i % 3 else random.randrange(56 + 160)
        bad[at] = random.randrange(256)
    if i % 4 == 0:
        del bad[random.randrange(len(bad)):]
    open(index, "wb").write(bad)
    assert bad == good or run("plan") == want, i
    open(index, "wb").write(seal(bad))
    rc, out = run("dump")
    assert rc in (0, 1, 3), (i, rc)
    n_used += run("plan") != want
print(n_used, "deceived")
os.remove(index)
END
ok $? "index: 40 damaged ones change nothing, 40 made to deceive do no harm" "$here/out"
as_before "without index: the same"

# ---- what must not be added ----
refused() { # STATUS PATTERN WORDS...
	local status=$1 pattern=$2
	shift 2
	"$auxdecode" "$@" >"$here/out" 2>"$here/err"
	is $? "$status" "$* : status $status" || cat "$here/err"
	that "and why" "$here/err" grep -q -e "$pattern" "$here/err"
}
cd "$here/count" || exit 2
first=$(grep -m1 'large.data$' units | cut -f1).part
refused 2 'is in several parts' reduce -o x "$first" "$first"
refused 2 'have trace in common' reduce -o x all "$first"
refused 1 'a part of --do hot among' reduce -o x "$first" "$(find ../hot -name '*.part' | head -1)"
sed '1s/part 1/part 9/' "$first" >old
refused 1 'part of version 9' reduce -o x old
head -c 60 "$first" >short
refused 1 'the part ends in its head' reduce -o x short
head -c -3 all >short
refused 1 'a row of a part is cut off' reduce -o x short
refused 1 'not a part' reduce -o x "$here/large.data"
that "nothing is written then" - not test -e x
head -4 units >few
refused 2 'are of another plan' reduce --units few -o x all
refused 2 'wants -o FILE' map all
refused 2 'is no unit' map --unit abc -o x "$here/large.data"
refused 2 'this recording is' map --unit 0123456789abcdef -o x "$here/large.data"
refused 2 'calls cross the borders of chunks' map --do latency --unit "$(grep -m1 'large.data$' units | cut -f1)" -o x "$here/large.data"
head -c 20000 "$here/large.data" >"$here/cut.data"
refused 1 'the file ends inside' index "$here/cut.data"
refused 1 'No such file' index "$here/none"
"$auxdecode" index - <"$here/large.data" >"$here/out" 2>&1
is $? 1 "index: of standard input: status 1"
that "and why" "$here/out" grep -q 'only a complete perf.data file on a disk' "$here/out"
refused 2 'fleet wants run' fleet walk
refused 2 'and -o DIR' fleet run "$here/large.data"
# what is missing is said, with its share
n=$(find . -name '*.part' | wc -l)
first=$(grep -m1 'large.data$' units | cut -f1)
find . -name '*.part' ! -name "$first.part" >list
"$auxdecode" reduce --units units -o x @list 2>"$here/err"
is $? 3 "a unit is missing: status 3"
that "and which, and how much of the trace that is" "$here/err" grep -Eq "1 of $n units are missing, [0-9.]* % of the trace" "$here/err"
# work that is done is not done again
stamp=$(stat -c %Y.%i "$first.part")
"$auxdecode" map --unit "$first" -o "$first.part" "$here/large.data" 2>"$here/err"
is $? 0 "a unit that is done: status 0"
that "it is there already" "$here/err" grep -q 'there already' "$here/err"
is "$(stat -c %Y.%i "$first.part")" "$stamp" "and is left as it is"
cd "$OLDPWD" || exit 2

# ---- a damaged recording, and a list that has -o in it ----
head -c 20000 "$here/large.data" >"$here/cut.data"
for words in "count" "hot"; do
	map --do $words -o "$here/cut.part" "$here/cut.data"
	is $? 3 "map --do $words of a cut file: status 3"
	that "it says what is wrong" "$here/err" grep -q 'not finished\|damaged\|ends' "$here/err"
	reduce -o "$here/out" "$here/cut.part"
	is $? 3 "reduce: status 3, too"
	that "and says so" "$here/err" grep -q '1 unit is not complete' "$here/err"
done
echo "$here/large.data" >"$here/list"
refused 2 'is the file that is read' map -o "$here/large.data" "@$here/list"

# ---- what is carried over the borders of units ----
cd "$here/hot" || exit 2
mapfile -t of < <(grep 'large.data$' units | cut -f1)
mid=${of[1]}.part
that "hot: a unit of chunks carries rows" - grep -q '^\\0001' "$mid"
refused 2 '--units PLAN says where the recordings are' reduce -o x "${of[@]/%/.part}"
that "nothing is written then" - not test -e x
# One is missing: the recording is not in the result, and that is said.
mapfile -t others < <(grep -v '^#' units | cut -f1 | grep -v "^${of[1]}\$")
"$auxdecode" reduce --units units -o x "${others[@]/%/.part}" 2>"$here/err"
is $? 3 "hot: a unit is missing: status 3"
that "it is named" "$here/err" grep -q "unit ${of[1]} is missing" "$here/err"
that "and its recording is left out" "$here/err" grep -q 'large.data: is left out of the result: the unit is missing' "$here/err"
map --do hot -o "$here/small.part" "$recs"/*.data
reduce -o "$here/small" "$here/small.part"
that "the result is of the others" - cmp -s "$here/small" x
# The recording is another one by now, or not where the plan says.
sed "s,$here/large.data,$recs/threads.data," units >moved
refused 2 'it has changed since it was planned' reduce --units moved -o x2 "$mid" "${others[@]/%/.part}"
sed "s,$here/large.data,$here/gone.data," units >moved
"$auxdecode" reduce --units moved -o x2 "$mid" "${others[@]/%/.part}" 2>"$here/err"
is $? 1 "hot: the recording is gone: status 1" || cat "$here/err"
# Bytes of a piece that are others, or are cut: refused, or a sum of what they say.
grep '^#\|large.data$' units >large.units
reduce --units large.units -o large "${of[@]/%/.part}"
python3 - "$auxdecode" "$mid" "${of[@]/%/.part}" >"$here/out" 2>&1 <<'END'
import base64, ctypes, random, re, subprocess, sys
tool, mid, *parts = sys.argv[1:]
random.seed(1)
good = open(mid, "rb").read()
begin = good.index(b"\\0001")
lines = good[begin:].split(b"\n")
result = open("large", "rb").read()
seen = {}
def unsqueeze(raw):
    if raw[0] == 0:
        return raw[1:]
    z = ctypes.CDLL("libzstd.so.1")
    z.ZSTD_getFrameContentSize.restype = z.ZSTD_decompress.restype = ctypes.c_uint64
    n = z.ZSTD_getFrameContentSize(bytes(raw[1:]), ctypes.c_size_t(len(raw) - 1))
    out = ctypes.create_string_buffer(n)
    got = z.ZSTD_decompress(out, ctypes.c_size_t(n), bytes(raw[1:]), ctypes.c_size_t(len(raw) - 1))
    assert got == n, (got, n)
    return out.raw[:n]
def reduce(rows):
    open("bad", "wb").write(good[:begin] + b"\n".join(rows))
    return subprocess.run([tool, "reduce", "--units", "large.units", "-o", "bad.out"] + [q if q != mid else "bad" for q in parts],
                          stderr=subprocess.PIPE, timeout=120)
def change(row, **how):
    m = re.match(rb"(\S+ \S+ \S+ )(?P<number>\S+) (?P<seam>\S+) (?P<data>\S+)(\t.*)", row)
    part = {k: how.get(k, v) for k, v in m.groupdict().items()}
    return m[1] + part["number"] + b" " + part["seam"] + b" " + part["data"] + m[5]
# not compressed, as where zstd is not in the build: the same
plain = [unsqueeze(base64.b64decode(re.match(rb"\S+ \S+ \S+ \S+ \S+ (\S+)\t", l)[1])) for l in lines[:-1]]
code = lambda raw: base64.b64encode(b"\0" + bytes(raw))
p = reduce([change(l, data=code(raw)) for l, raw in zip(lines, plain)] + [b""])
assert p.returncode == 0 and open("bad.out", "rb").read() == result, p.stderr
# of another version; a piece that is missing; one that goes on where the unit before ended in a gap
p = reduce([change(lines[0], data=code(b"\x7f" + plain[0][1:]))] + lines[1:])
assert p.returncode == 1 and b"another version of auxdecode" in p.stderr, p.stderr
p = reduce([change(lines[0], number=b"0000000001")] + lines[1:])
assert p.returncode == 1 and b"damaged in the part of" in p.stderr, p.stderr
for i in range(150):
    rows = list(lines)
    k = random.randrange(len(rows) - 1)
    head, data, rest = re.match(rb"(\S+ \S+ \S+ \S+ \S+ )(\S+)(\t.*)", rows[k]).groups()
    packed = random.random() < 0.2	# else what is in the frame is changed
    raw = bytearray(base64.b64decode(data) if packed else plain[k])
    for _ in range(random.randint(1, 3)):
        # most of what is checked stands at the begin
        at = random.randrange(random.choice((40, 400, len(raw))))
        how = random.randrange(4)
        if how == 0:
            raw[at % len(raw)] = random.randrange(256)
        elif how == 1:
            raw[at % len(raw)] ^= 1 << random.randrange(8)
        elif how == 2:
            raw = raw[:at % len(raw) + 1]
        else:
            raw[at:at] = random.choice((b"\xff" * 9 + b"\x01", b"\x00", b"\xff\xff\x03"))
    rows[k] = head + (base64.b64encode(bytes(raw)) if packed else code(raw)) + rest
    if i % 10 == 0:
        rows[k] = random.choice((head + data[:-1] + rest, head + b"?" + data[1:] + rest,
                                 head.replace(b" ", b"x", 2) + data + rest, head + rest))
    p = reduce(rows)
    if p.returncode not in (0, 1, 3):
        sys.exit("%d: %s" % (p.returncode, p.stderr.decode()))
    if b"decoded as a whole" in p.stderr and open("bad.out", "rb").read() != result:
        sys.exit("decoded as a whole, and not the same")
    if p.returncode == 1 and b"another version" in p.stderr and raw[:1] != plain[k][:1]:
        continue
    if p.returncode == 1 and b"what is carried from unit to unit is damaged in the part of" not in p.stderr:
        sys.exit(p.stderr.decode())
    if i % 10 == 0 and p.returncode != 1:
        sys.exit("not refused: %r" % rows[k][:80])
    seen[p.returncode] = seen.get(p.returncode, 0) + 1
print(seen)
assert seen[1] > 30
END
ok $? "a piece with other bytes is refused, or is what it says" "$here/out"
cd "$OLDPWD" || exit 2

# Where units do not fit one another, the recording is decoded: stacks that are switched, jumps
# out of several calls; gaps where a unit ends, for code that is gone.
carried() { # NAME: the recording NAME.data, in units of 1 MB
	local what unit
	for what in hot flame calls; do
		mkdir -p "$here/$1.$what"
		"$auxdecode" plan --do $what --unit-size 1M "$here/$1.data" 2>/dev/null >"$here/$1.$what/units"
		that "$1, $what: several units" "$here/$1.$what/units" test "$(grep -vc '^#' "$here/$1.$what/units")" -gt 1
		for unit in $(grep -v '^#' "$here/$1.$what/units" | cut -f1); do
			map --do $what --unit "$unit" -o "$here/$1.$what/$unit.part" "$here/$1.data"
		done
		map --do $what -o "$here/$1.$what/all" "$here/$1.data"
		reduce -o "$here/$1.$what/one" "$here/$1.$what/all"
		reduce --units "$here/$1.$what/units" -o "$here/$1.$what/many" "$here/$1.$what"/*.part
		that "$1, $what: as one process" "$here/err" cmp -s "$here/$1.$what/one" "$here/$1.$what/many"
	done
}
record() { # NAME COMMAND...
	"$auxcap" -q -e soft_pt/tsc,mtc,cyc,noretcomp/u -o "$here/$1.data" -- "${@:2}" >/dev/null 2>"$here/err"
	ok $? "recording $1" "$here/err"
}
for p in stack_fiber_same stack_jump_any; do
	record $p bash -c "for i in {1..50}; do $programs/$p; done"
	carried $p
done
cp "$(command -v gzip)" "$here/gz"
head -c 300000 "$here/large.data" >"$here/text"
record gone "$here/gz" -c "$here/text"
rm "$here/gz"
carried gone
that "gone: decoded as a whole, and that is said" "$here/err" grep -q 'gone.data: cannot be joined from its units: decoded as a whole' "$here/err"

# ---- anything as a part ----
python3 - "$auxdecode" "$here" >"$here/out" 2>&1 <<'END'
import random, subprocess, sys
tool, here = sys.argv[1:]
random.seed(1)
part = [l.split("\t")[0] for l in open(here + "/profile/units") if l.endswith("large.data\n")][1] + ".part"
for what in "count", "latency", "flame", "profile", "coverage", "calls", "values":
    good = open(here + "/" + what + "/all", "rb").read()
    good = good[:good.index(b"\nrows")] + b"".join(l + b"\n" for l in good[good.index(b"\nrows"):].split(b"\n")[:60])
    if what == "profile":	# of each row some
        rows = [l + b"\n" for l in open(here + "/profile/" + part, "rb").read().split(b"\n")]
        good = good[:good.index(b"\nrows") + 1] + b"".join(r for w in (b"rows", b"branch", b"gaps", b"module", b"piece", b"range")
            for r in [r for r in rows if r.startswith(w)][:20])
    for i in range(120):
        bad = bytearray(good)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(bad))
            how = random.randrange(3)
            if how == 0:
                bad[at] = random.choice(b"\t\n-90\0\xffa:")
            elif how == 1:
                del bad[at:at + random.randint(1, 40)]
            else:
                bad[at:at] = bad[:random.randint(1, 60)]
        open(here + "/bad", "wb").write(bad)
        rc = subprocess.run([tool, "reduce", "-o", "/dev/null", here + "/bad"], stderr=subprocess.PIPE, timeout=60)
        assert rc.returncode in (0, 1, 2, 3), (what, i, rc)
END
ok $? "840 parts with bytes changed: read or refused" "$here/out"

# ---- fleet ----
"$auxdecode" plan --unit-size 1M "$recs" "$here/large.data" 2>/dev/null >"$here/units"
n=$(grep -vc '^#' "$here/units")
run() { "$auxdecode" fleet run --unit-size 1M "$@" "$recs" "$here/large.data" 2>"$here/err"; }
run -o "$here/local"
is $? 3 "fleet: on this machine; status 3: one has gaps"
that "fleet: the result of one process" "$here/err" cmp -s "$here/local/result" "$here/count/one"
is "$(ls "$here/local/index")" "${unit%%.*}.auxidx" "fleet: the recording of many units is indexed"
"$auxdecode" fleet status "$here/local" >"$here/out" 2>"$here/err"
is $? 0 "fleet status: all is done"
that "fleet status: says so" "$here/out" grep -q "^units *$n of $n done" "$here/out"
run --do hot -o "$here/local"
is $? 2 "fleet: another plan in the same directory is refused"
that "and nothing in it has changed" - cmp -s "$here/local/result" "$here/count/one"

# the inputs and what is done with them are in the plan, also where a name is odd
odd="$here/od\\d
name"
mkdir "$odd"
cp "$recs/threads.data" "$odd/a b.data"
"$auxdecode" fleet run --do hot -o "$here/again" "$odd" "$recs/forkexec.data" 2>"$here/err"
mv "$here/again/result" "$here/again.result"
rm "$here/again/parts/$(sed -n 2p "$here/again/units" | cut -f1).part"
"$auxdecode" fleet run --resume -o "$here/again" 2>"$here/err"
that "fleet --resume alone: one unit is missing" "$here/err" grep -q '1 of 2 units are done already' "$here/err"
that "fleet --resume alone: and the result is as before" "$here/err" cmp -s "$here/again/result" "$here/again.result"
printf '#unit\tbytes\tms\tfile\tdo=hot\nx\n' >"$here/again/units"
refused 1 'not what .auxdecode plan FILE. prints' fleet run --resume -o "$here/again"

# a recording goes away, and comes back: what is missing is said, the rest is there, and the
# same words complete it
mkdir "$here/some"
cp "$recs"/*.data "$here/some"
"$auxdecode" plan "$here/some" >"$here/out" 2>/dev/null
gone=$(grep 'threads.data$' "$here/out" | cut -f1)
cat >"$here/slow" <<END
#!/bin/sh
mv "$here/some/threads.data" "$here/away"
END
"$auxdecode" fleet run --on make --do flame -o "$here/made" "$here/some" 2>"$here/err"
is $? 0 "fleet: a Makefile"
sh "$here/slow"
make -k -j2 -C "$here/made" >"$here/out" 2>&1
is "$(find "$here/made/parts" -name '*.part' | wc -l)" 6 "fleet: make -k makes all but one that fails"
that "and no result" - not test -e "$here/made/result"
that "its log says why" - grep -q 'No such file' "$here/made/logs/$gone.log"
"$auxdecode" fleet status "$here/made" >"$here/out" 2>"$here/err"
is $? 3 "fleet status: a unit is not done: status 3"
that "fleet status: which, and why" "$here/out" grep -q "^no part $gone: .*No such file" "$here/out"
mv "$here/away" "$here/some/threads.data"
make -j2 -C "$here/made" >"$here/out" 2>&1
is $? 0 "fleet: make again, with the file back" || cat "$here/out"
map --do flame -o "$here/all" "$here/some"/*.data
reduce -o "$here/one" "$here/all"
that "fleet: the result of one process, by make" - cmp -s "$here/one" "$here/made/result"

# by whatever counts tasks
run --on parallel --per-task 3 -o "$here/tasks"
is $? 0 "fleet: a script for each task"
n=$((($(grep -vc '^#' "$here/tasks/units") + 2) / 3))
that "it says how many" "$here/err" grep -q "$n tasks of 3 units: .*/task N does one" "$here/err"
seq 0 $((n - 1)) | xargs -P 2 -n 1 "$here/tasks/task" >"$here/out" 2>&1
"$here/tasks/finish"
that "fleet: the result of one process, by xargs" "$here/out" cmp -s "$here/tasks/result" "$here/count/one"
rm "$here/tasks/result" "$(find "$here/tasks/parts" -name '*.part' | head -1)"
for i in $(seq 0 $((n - 1))); do env JOB_COMPLETION_INDEX="$i" "$here/tasks/task"; done >"$here/out" 2>&1
"$here/tasks/finish"
that "fleet: and again, by an indexed job" "$here/out" cmp -s "$here/tasks/result" "$here/count/one"

# ---- on other machines, by ssh: this one, by three names; one is not there ----
# By sshd where the machine has it; it is no dependency, as its package starts a server that
# others can reach. Else by what ssh(1) says of it: the words after the host, joined by
# spaces, go to a shell at home, and its own failures are status 255.
begin_sshd() {
	local port
	ssh-keygen -q -t ed25519 -N '' -f "$ssh/host"
	ssh-keygen -q -t ed25519 -N '' -f "$ssh/user"
	port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
	[ -d /run/sshd ] || mkdir /run/sshd 2>/dev/null
	/usr/sbin/sshd -f /dev/null -o ListenAddress=127.0.0.1 -p "$port" -h "$ssh/host" -o PidFile="$ssh/pid" \
		-o AuthorizedKeysFile="$ssh/user.pub" -o StrictModes=no -o UsePAM=no -E "$ssh/log"
	at_exit=$(trap -p EXIT)
	trap 'kill "$(cat "$ssh/pid")"' EXIT
	printf 'Host one two\nHostName 127.0.0.1\nPort %s\nIdentityFile "%s"\nUserKnownHostsFile "%s"\nStrictHostKeyChecking accept-new\nLogLevel ERROR\n' \
		"$port" "$ssh/user" "$ssh/known" >"$ssh/config"
	printf '#!/bin/sh\nexec %s -F "%s" "$@"\n' "$(command -v ssh)" "$ssh/config" >"$ssh/real"
	waits test -s "$ssh/pid"
}
end_sshd() {
	kill "$(cat "$ssh/pid")"
	trap - EXIT
	eval "$at_exit"
}
stand_in() {
	cat >"$ssh/real" <<-'END'
		#!/bin/sh
		while [ "$1" != -- ]; do shift; done
		host=$2
		shift 2
		case $host in one | two) ;; *) echo "ssh: no host $host" >&2; exit 255 ;; esac
		cd "${HOME:-/}" && exec env -i PATH=/usr/bin:/bin HOME="${HOME:-/}" sh -c "$*" </dev/null
	END
}
by_ssh() { # HOW
	run --on ssh --hosts 1/one,2/two,nowhere.invalid --per-task 2 -o "$here/ssh$1"
	is $? 3 "fleet: on two machines by $1" || cat "$here/err" "$ssh/log"
	that "fleet: the machine that is not there is said" "$here/err" grep -q 'nowhere.invalid: is not used' "$here/err"
	that "fleet: the result of one process, by $1" "$here/err" cmp -s "$here/ssh$1/result" "$here/count/one"
	rm "$here/ssh$1/result" "$here/ssh$1/parts/$(sed -n 3p "$here/ssh$1/units" | cut -f1).part"
	run --on ssh --hosts one --resume -o "$here/ssh$1"
	that "fleet --resume: one unit is missing" "$here/err" grep -q "$(($(grep -vc '^#' "$here/ssh$1/units") - 1)) of .* are done already" "$here/err"
	that "fleet --resume: and the result is complete" "$here/err" cmp -s "$here/ssh$1/result" "$here/count/one"
}
for words in "" "$recs"; do
	# shellcheck disable=SC2086
	"$auxdecode" fleet run --resume -o "$here/none" $words 2>"$here/err"
	is $? 2 "fleet --resume: of nothing: status 2"
done
that "and nothing is made" "$here/err" not test -e "$here/none"
ssh=$here/nodes
mkdir "$ssh" "$ssh/bin"
: >"$ssh/log"
printf '#!/bin/sh\nexec sh "%s" "$@"\n' "$ssh/real" >"$ssh/bin/ssh"
chmod +x "$ssh/bin/ssh"
if [ -x /usr/sbin/sshd ]; then
	begin_sshd
	PATH=$ssh/bin:$PATH by_ssh sshd
	end_sshd
fi
stand_in
PATH=$ssh/bin:$PATH
by_ssh a-shell
# a machine that goes away in the middle: what ssh says of it is status 255
printf '#!/bin/sh\ncase "$*" in *one*/task*) exit 255;; esac\nexec sh "%s" "$@"\n' "$ssh/real" >"$ssh/bin/ssh"
run --on ssh --hosts 1/one,1/two -o "$here/lost"
that "fleet: a machine is lost, and said" "$here/err" grep -q 'one: is lost: other machines do its task' "$here/err"
that "fleet: another does its tasks" "$here/err" cmp -s "$here/lost/result" "$here/count/one"
run --on ssh --hosts 1/one -o "$here/left"
is $? 1 "fleet: no machine is left: status 1, for nothing was done" || cat "$here/err"
refused 2 'no machine of --hosts can be used' fleet run --on ssh --hosts nowhere.invalid -o "$here/left" "$recs" "$here/large.data" --unit-size 1M
refused 2 'wants --hosts' fleet run --on ssh -o "$here/left" "$recs" "$here/large.data" --unit-size 1M
refused 2 'names that ssh knows' fleet run --on ssh --hosts -x -o "$here/left" "$recs" "$here/large.data" --unit-size 1M
PATH=${PATH#*:}

# ---- what tells groups apart: one function of 800 that is 3 % slower in 5 of 200 ----
python3 - "$here" <<'END'
import os, random, sys
here = sys.argv[1] + "/cohort"
os.makedirs(here)
random.seed(7)
rows = sorted("f%03d\t/usr/bin/server" % i for i in range(800))
base = [random.randint(10**5, 10**7) for _ in rows]
for rec in range(200):
    slow = rec < 5
    with open("%s/%s-%03d.part" % (here, "slow" if slow else "fast", rec), "w") as f:
        f.write("auxkit part 1\ndo\thot\nunit\t%016x\t1\t1\t1\t0\t0\t0\nrows\tfunction\tdso\t:\n" % rec)
        for i, (row, n) in enumerate(zip(rows, base)):
            own = int(n * random.gauss(1, 0.004) * (1.03 if slow and i == 321 else 1))
            f.write("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n" % ((row,) + (own, own, own, own // 6) * 2 + (n // 1000,)))
END
cohort=$here/cohort
"$auxdecode" compare --group "fast=$cohort/fast-*.part" --group "slow=$cohort/slow-*.part" >"$here/out" 2>"$here/err"
is $? 0 "compare: status 0"
is "$(sed -n 2p "$here/out" | cut -f2,7)" "+1.00	f321" "compare: the slow function is first"
is "$(cut -f7 "$here/out" | sort -u | grep -c '^f[0-9]')" 1 "compare: and is all that is shown"
that "compare: it names one of the slow recordings" "$here/out" grep -q '	[^	]*slow-00[0-4].part	f321' "$here/out"
"$auxdecode" compare --json --group "fast=$cohort/fast-*.part" --group "slow=$cohort/slow-*.part" 2>/dev/null |
	python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["found"][0]["key"].startswith("f321") and d["found"][0]["q"] < 0.05, d' 2>"$here/err"
ok $? "compare --json: the same" "$here/err"
"$auxdecode" compare --group "a=$cohort/fast-*[02468].part" --group "b=$cohort/fast-*[13579].part" >"$here/out" 2>"$here/err"
is "$(grep -vc '^#' "$here/out")" 0 "compare: nothing between two halves of the same" || cat "$here/out"
# several that tell the groups apart wholly: what differs most comes first
python3 - "$cohort" <<'END'
import sys
more = {"f000": 10, "f001": 20000, "f002": 0, "f003": -300}
for rec in range(25):
    with open("%s/tie-%s-%02d.part" % (sys.argv[1], "slow" if rec < 5 else "fast", rec), "w") as f:
        f.write("auxkit part 1\ndo\thot\nunit\t%016x\t1\t1\t1\t0\t0\t0\nrows\tfunction\tdso\t:\n" % rec)
        for name, n in more.items():
            own = 600000 + (n if rec < 5 else 0)
            f.write("%s\t/usr/bin/server\t%d\t0\t0\t0\t%d\t0\t0\t0\t7\n" % (name, own, own))
END
"$auxdecode" compare --group "fast=$cohort/tie-fast-*.part" --group "slow=$cohort/tie-slow-*.part" >"$here/out" 2>"$here/err"
is "$(grep -v '^#' "$here/out" | cut -f7 | grep -o '^f[0-9]*' | uniq | head -n 3 | paste -sd' ')" "f001 f003 f000" \
	"compare: of those that differ always, what differs most" || cat "$here/out"
# a branch that is taken in the failing ones alone
python3 - "$cohort" <<'END'
import random, sys
random.seed(5)
for rec in range(60):
    bad = rec < 8
    with open("%s/%s-%02d.part" % (sys.argv[1], "bad" if bad else "good", rec), "w") as f:
        f.write("auxkit part 1\ndo\tbranches\nunit\t%016x\t1\t1\t1\t0\t0\t0\nrows\tkind\tfrom\tfrom_dso\tto\tto_dso\t:\n" % rec)
        for i in range(300):
            if i != 77 or bad:
                f.write("cond\tf%03d+0x4\t/bin/server\tf%03d+0x20\t/bin/server\t%d\n" % (i, i, random.randint(1, 1000)))
END
"$auxdecode" compare --group "good=$cohort/good-*.part" --group "bad=$cohort/bad-*.part" >"$here/out" 2>"$here/err"
is "$(sed -n 2p "$here/out" | cut -f2,8)" "+1.00	f077+0x4" "compare: the branch of the failing ones is first" || cat "$here/out"
refused 2 'wants two groups' compare --group "a=$cohort/fast*"
refused 2 'at least 4 recordings' compare --group "a=$cohort/fast*" --group "b=$cohort/slow-000.part"
refused 2 'no such file' compare --group "a=$cohort/fast*" --group "b=$cohort/none*"
echo x >"$here/bad"
refused 1 'map FILE. makes them' compare --group "a=$here/bad" --group "b=$here/bad"
refused 2 'wants NAME=PATTERN' compare --group x --group y
refused 2 'parts of one recording' compare --group "a=$here/count/*.part" --group "b=$here/count/*.part"

# ---- Slurm: four nodes on this machine, one of which dies ----
lab=$here/lab
if ! have sbatch || ! have slurmctld; then
	ok 1 "Slurm is there (tools/deps install test)"
	finish
fi
at_exit=$(trap -p EXIT)	# lib.sh's, where the test runs alone
trap 'tools/slurm-lab down "$lab"' EXIT
tools/slurm-lab up "$lab" >"$here/out" 2>&1
ok $? "Slurm, with four nodes" "$here/out" || finish
export SLURM_CONF=$lab/slurm.conf
run --on slurm -o "$here/slurm"
is $? 0 "fleet: jobs for Slurm" || cat "$here/err"
waits test -s "$here/slurm/result"
that "fleet: the result of one process, by Slurm" "$here/slurm/finish.log" cmp -s "$here/slurm/result" "$here/count/one"
# what is missing is what a job is made of
rm "$here/slurm/parts/$(sed -n 3p "$here/slurm/units" | cut -f1).part"
"$auxdecode" fleet status "$here/slurm" >"$here/out" 2>"$here/err"
that "fleet status: a result that is not whole" "$here/out" grep -q '^result .*/result, of the units that were done then' "$here/out"
rm "$here/slurm/result" "$here/slurm/finish.log"
run --on slurm --per-task 1 -o "$here/slurm"
that "fleet: once more, of one task" "$here/err" grep -q ': 1 tasks of 1 units' "$here/err"
waits test -s "$here/slurm/result"
that "fleet: and is complete" "$here/slurm/finish.log" cmp -s "$here/slurm/result" "$here/count/one"
run --on slurm -o "$here/slurm"
is $? 0 "fleet: nothing is missing: it is joined at once" || cat "$here/err"
# a node dies in the middle: its tasks run elsewhere, or are said to be missing
"$auxdecode" fleet run --on slurm --do hot -o "$here/killed" "$recs" "$here/large.data" 2>"$here/err"
tools/slurm-lab kill "$lab" 2
waits test -s "$here/killed/finish.log"
waits test -s "$here/killed/result"
that "fleet: a node dies: the result is there" "$here/killed/finish.log" test -s "$here/killed/result"
if grep -q missing "$here/killed/finish.log"; then
	"$auxdecode" fleet run --do hot -o "$here/killed" "$recs" "$here/large.data" 2>"$here/err"
fi
that "and is, at last, that of one process" "$here/killed/finish.log" cmp -s "$here/killed/result" "$here/hot/one"
tools/slurm-lab down "$lab"
trap - EXIT
eval "$at_exit"
finish
