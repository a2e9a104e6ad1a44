#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Recordings that are not one perf.data file: directories of perf, LLDB bundles,
# buffers alone, snapshot directories. What they give is held against perf,
# ptxed, and the same trace in a perf.data. See also tests/unit/test_import_*.c.
. "$(dirname "$0")/lib.sh"

# run WANTED-STATUS TEXT ARGUMENT...: auxdecode; what it says to out and err
run() {
	local want=$1 text=$2 rc
	shift 2
	timeout 300 "$auxdecode" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err"
	rc=$?
	is $rc "$want" "$text: status $want" || head -n 5 "$SCRATCH/err" | sed 's/^/#   /'
}

says() { # TEXT PATTERN: on stderr of the last run
	that "$1" "$SCRATCH/err" grep -Eq -- "$2" "$SCRATCH/err"
}

gives() { # TEXT PATTERN: on stdout
	that "$1" "$SCRATCH/out" grep -Eq -- "$2" "$SCRATCH/out"
}

# ---- perf record --threads ----

# same_counts DIR TEXT: records by type as perf report -D counts them; perf does
# not count those that it unpacked.
same_counts() {
	"$auxdecode" dump "$1" 2>"$SCRATCH/err" | awk '$1 ~ /^0x/ { print $3 }' |
		grep -v '^COMPRESSED' | sort | uniq -c >"$SCRATCH/ours"
	perf report -D -i "$1" 2>/dev/null | sed -n 's/.*: PERF_RECORD_\([A-Z0-9_]*\).*/\1/p' |
		sort | uniq -c >"$SCRATCH/theirs"
	diff "$SCRATCH/ours" "$SCRATCH/theirs" >"$SCRATCH/diff"
	ok $? "$2: $(awk '{ n += $1 } END { print n + 0 }' "$SCRATCH/ours") records as perf has them" \
		"$SCRATCH/diff"
	that "$2: there are samples" - grep -q SAMPLE "$SCRATCH/ours"
}

work() { i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; }
export -f work
d=$SCRATCH/threads.data
if perf record --threads -a -e cpu-clock -F 500 -o "$d" -- bash -c work >"$SCRATCH/err" 2>&1; then
	same_counts "$d" "--threads"
	"$auxdecode" info "$d" >"$SCRATCH/out"
	gives "info says how many files" "directory of $(find "$d" -name 'data*' | wc -l) files"
	n=$("$auxdecode" dump "$d" | wc -l)
	mv "$d/data.0" "$SCRATCH/part"
	if [ -e "$d/data.1" ]; then
		run 1 "a part that is missing" dump "$d"
		says "it is named" 'data\.N are here'
	fi
	head -c -4 "$SCRATCH/part" >"$d/data.0"
	run 3 "a part that was cut" dump "$d"
	says "the part and the place are named" '@0x[0-9a-f]+: in data\.0: '
	is "$(wc -l <"$SCRATCH/out")" $((n - 1)) "all records but the one that was cut"
	if perf record -z --threads -a -e cpu-clock -F 500 -o "$d" -- bash -c work >/dev/null 2>&1; then
		same_counts "$d" "--threads -z"
	fi
else
	skip "hardware: no perf events here: $(head -n 1 "$SCRATCH/err")" "--threads"
fi

# ---- --kcore: a directory with one file ----

"$auxcap" record -e "soft_pt//" -o "$SCRATCH/one" -- "$programs/hello_asm" >/dev/null 2>&1
mkdir -p "$SCRATCH/kcore.data/kcore_dir"
cp "$SCRATCH/one" "$SCRATCH/kcore.data/data"
run 0 "a directory with --kcore's layout" count --sha256 "$SCRATCH/kcore.data"
cp "$SCRATCH/out" "$SCRATCH/want"
run 0 "its file alone" count --sha256 "$SCRATCH/one"
that "both have the same flow" "$SCRATCH/out" cmp -s "$SCRATCH/want" "$SCRATCH/out"
that "which is not empty" - grep -q 'total insns [1-9]' "$SCRATCH/want"
mkdir "$SCRATCH/empty"
run 1 "a directory of nothing" info "$SCRATCH/empty"
says "what would be read is named" 'data.*snapshot\.ini.*trace\.json'

# ---- the command line ----

run 2 "--pt and a file" count --pt "$SCRATCH/one" "$SCRATCH/one"
run 2 "--image without --pt" count --image "$SCRATCH/one@0" "$SCRATCH/one"
run 2 "no such part" count --pt "$SCRATCH/one:0x10000000-0x10000001"
run 2 "a part that ends before it begins" count --pt "$SCRATCH/one:20-10"
run 2 "bytes at no address" count --pt "$SCRATCH/one" --image "$SCRATCH/one:0-16"
run 2 "no ELF image, and at no address" count --pt "$SCRATCH/one" --image "$SCRATCH/want"
run 2 "no CPU model" count --pt "$SCRATCH/one" --cpu-model 6/0x9e/10
run 1 "no such buffer" count --pt "$SCRATCH/none"
run 1 "no such image" count --pt "$SCRATCH/one" --image "$SCRATCH/none@0x1000"
says "it is named" "$SCRATCH/none: No such file"

# A part of a file, whose name has a colon, with the code from another part.
cp "$SCRATCH/one" "$SCRATCH/a:b@c"
at=$("$auxdecode" dump "$SCRATCH/one" | awk '/ AUXTRACE stream/ { print $1; exit }')
size=$("$auxdecode" dump "$SCRATCH/one" |
	sed -n 's/.* AUXTRACE stream .* size \(0x[0-9a-f]*\) .*/\1/p' | head -n 1)
part="$SCRATCH/a:b@c:$((at + 48))-$((at + 48 + size))"
run 0 "a trace inside another file" count --sha256 --pt "$part" --image "$programs/hello_asm"
is "$(sed -n 's/^total //p' "$SCRATCH/out")" "$(sed -n 's/^total //p' "$SCRATCH/want")" \
	"its flow is that of the recording"

# ---- snapshots that are wrong ----

s=$SCRATCH/snapshot
snapshot() { # writes a good one, with a raw buffer of 13 bytes
	rm -rf "$s"
	mkdir "$s"
	printf '[snapshot]\nversion=1.0\n[device_list]\na=cpu.ini\nb=etm.ini ; the source\n[trace]\nmetadata=trace.ini\n' >"$s/snapshot.ini"
	printf '[device]\nname=cpu_0\nclass=core\ntype=Cortex-A53\n[dump]\nfile=code\naddress=0x1000\n' >"$s/cpu.ini"
	printf '[device]\nname=ETM\nclass=trace_source\ntype=ETM4.0\n[regs]\nTRCCONFIGR(id:0x4)=0x1\n' >"$s/etm.ini"
	printf '[trace_buffers]\nbuffers=b0\n[b0]\nname=B\nfile=t\nformat=source_data\n[source_buffers]\nETM=B\n[core_trace_sources]\ncpu_0=ETM\n' >"$s/trace.ini"
	printf '\0\0\0\0\0\0\0\0\0\0\0\200\001' >"$s/t"
	printf '1234567890' >"$s/code"
}
# wrong TEXT FILE SED PATTERN: with that edit it is refused, and why
wrong() {
	snapshot
	sed -i "$3" "$s/$2"
	run 1 "$1" info "$s"
	says "$1: it is named" "$4"
}

snapshot
run 0 "a snapshot" info "$s"
gives "is known as one" 'made from: OpenCSD or DS-5 snapshot'
cp "$SCRATCH/out" "$SCRATCH/want"
run 0 "by its snapshot.ini" info "$s/snapshot.ini"
that "says the same" - test "$(tail -n +2 "$SCRATCH/out")" = "$(tail -n +2 "$SCRATCH/want")"
run 0 "its records" dump "$s"
gives "the dump is mapped by its real name" "addr 0x1000 len 0xa pgoff 0 .* $(realpath "$s")/code"
wrong "no trace" snapshot.ini '/metadata/d' 'has no trace'
wrong "a device that is missing" snapshot.ini 's/cpu.ini/gone.ini/' 'gone\.ini: No such file'
wrong "no buffer" trace.ini 's/buffers=b0/buffers=/' 'names no trace buffer'
wrong "a buffer without a section" trace.ini 's/buffers=b0/buffers=b0,b1/' '"b1" has no section'
wrong "a buffer twice" trace.ini 's/buffers=b0/buffers=b0 b0/' 'listed twice'
wrong "a buffer's file that is missing" trace.ini 's/file=t/file=u/' '/u: No such file'
wrong "an unknown format" trace.ini 's/source_data/tape/' 'format "tape"; known are'
wrong "a dump without an address" cpu.ini '/address/d' '\[dump\] of device "cpu_0"'
wrong "a length that is none" cpu.ini 's/address/length=ten\naddress/' 'is no number'
wrong "a line that is nothing" etm.ini 's/.regs./regs/' 'etm\.ini, line 5'
snapshot
seq -f 'b%g' -s, 0 16 | sed 's/^/[trace_buffers]\nbuffers=/' >"$s/trace.ini"
for i in $(seq 0 16); do printf '[b%s]\nfile=t\nformat=source_data\n' "$i"; done >>"$s/trace.ini"
run 1 "a buffer 17 times" info "$s"
says "it is named" 'of more than 16 streams'
wrong "a buffer that is no file" trace.ini 's,file=t,file=d,' '/d: No such file'
wrong "a buffer by its full path" trace.ini 's,file=t,file=/dev/zero,' '/dev/zero lies outside .*--any-path'
wrong "a buffer above" trace.ini 's,file=t,file=../one,' '\.\./one lies outside'
wrong "a buffer above, which is not there" trace.ini 's,file=t,file=../gone,' '\.\./gone lies outside'
wrong "a device outside" snapshot.ini 's,cpu.ini,/etc/hostname,' '/etc/hostname lies outside'
wrong "the trace's description outside" snapshot.ini 's,trace.ini,../trace.ini,' 'trace\.ini lies outside'
snapshot
mv "$s/t" "$SCRATCH/secret"
ln -s "$SCRATCH/secret" "$s/t"
run 1 "a buffer by a link that leads outside" info "$s"
says "it is named" 't lies outside'
run 1 "it is not copied" bundle -o "$SCRATCH/copied" "$s"
that "nothing of it is written" - test ! -e "$SCRATCH/copied"
run 0 "with --any-path" info --any-path "$s"
# Code is looked up by its path, as in any recording, but not copied from outside.
for dump in /etc/hostname ../one x/../../one; do
	snapshot
	sed -i "s,file=code,file=$dump," "$s/cpu.ini"
	run 0 "a dump outside, $dump" info "$s"
	run 1 "such code is not copied" bundle -o "$SCRATCH/copied" "$s"
	says "it is named" "$dump lies outside .*--any-path"
	that "nothing of it is written" - test ! -e "$SCRATCH/copied"
done
snapshot
sed -i "s,file=t,file=$(realpath "$s")/t," "$s/trace.ini"
run 0 "a buffer inside, by its full path" info "$s"
# A name that ends with the number of a model is no CPU's; cpu_3 is CPU 3.
number_of() { # NAME: the CPU whose stream its trace is
	snapshot
	sed -i "s/cpu_0/$1/" "$s/cpu.ini" "$s/trace.ini"
	"$auxdecode" dump "$s" | sed -n 's/.* AUXTRACE stream .* cpu \([0-9-]*\).*/\1/p'
}
for name in Cortex-M4:0 Cortex-A53:0 cpu_3:3 Core2:2 Cortex-A53_5:5 m4:0; do
	is "$(number_of "${name%:*}")" "${name#*:}" "a core called ${name%:*} is CPU ${name#*:}"
done
snapshot
rm "$s/code"
run 0 "a dump that is missing" info "$s"
gives "without a length nothing is mapped" '^records: 6$'

# ---- what others recorded ----

if [ ! -e "$corpus/cases.tsv" ]; then
	skip "corpus: no recorded traces at $corpus (set AUXKIT_CORPUS)"
	finish
fi

hash_of() { awk -F '\t' -v c="$1" '$2 == c { print $8 }' "$corpus/cases.tsv"; }
ips() { # FILE COLUMN: addresses of a listing of ptxed
	zcat "$1" | awk -v c="$2" '/^[0-9a-f]+  / { print $c }' | sed 's/^0*//'
}
# more: code is missing, and ptxed goes on at a PSB only: 18 instructions later than
# ours, which t_corpus.sh compares with perf's
same_ips() { # TEXT PTXED COLUMN ARGUMENT...
	local text=$1 list=$2 column=$3 more=${more:-}
	shift 3
	ips "$list" "$column" >"$SCRATCH/want"
	"$auxdecode" insn -F ip "$@" 2>"$SCRATCH/err" | grep -v '^#' >"$SCRATCH/got"
	[ -z "$more" ] || {
		is "$(wc -l <"$SCRATCH/got")" "$(($(wc -l <"$SCRATCH/want") + more))" "$text: all of ours"
		awk 'NR == FNR { want[++n] = $1; next } k < n && $1 == want[k + 1] { k++; print }' \
			"$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/part"
		mv "$SCRATCH/part" "$SCRATCH/got"
	}
	diff "$SCRATCH/want" "$SCRATCH/got" >"$SCRATCH/diff"
	ok $? "$text: $(wc -l <"$SCRATCH/want") instructions as ptxed's" "$SCRATCH/diff"
	that "$text: there are some" - test -s "$SCRATCH/want"
}

l=$corpus/lldb
# the packets alone do not name their CPU, one of whose errata leads astray
"$auxdecode" count --pt "$l/intelpt-trace/3842849.trace" --elf "$l/intelpt-trace/a.out" >"$SCRATCH/out" 2>"$SCRATCH/err"
is $? 1 "--pt of a CPU with errata, which is not named"
that "the option that names it is told" "$SCRATCH/err" grep -q 'no errata were worked around: --cpu-model' "$SCRATCH/err"
is "$("$auxdecode" count --pt "$l/intelpt-trace/3842849.trace" --elf "$l/intelpt-trace/a.out" --cpu-model 6/79/1 2>/dev/null | tail -n 1)" \
	"$("$auxdecode" count "$l/intelpt-trace/trace.json" 2>/dev/null | tail -n 1)" "and with it the flow is as from the bundle"
one=$l/intelpt-trace two=$l/intelpt-trace-multi-file
same_ips "LLDB, one thread" "$l/ref/intelpt-trace.ptxed.txt.gz" 2 "$one/trace.json"
same_ips "LLDB, a directory" "$l/ref/intelpt-trace.ptxed.txt.gz" 2 "$one"
more=18 same_ips "LLDB, three modules" "$l/ref/multi-file.ptxed.txt.gz" 2 "$two/multi-file-no-ld.json"
run 0 "LLDB, two threads" count "$one/trace_2threads.json"
is "$(grep -Ec '^thread 38428(49|50) insns 21 ' "$SCRATCH/out")" 2 "both have 21"
# bad NAME WHAT: refused, and what is wrong there is named
bad() {
	run 1 "LLDB, $1" count "$one/$1.json"
	says "LLDB, $1: $2" "$2"
}
if "$auxdecode" info "$one/trace.json" >/dev/null 2>&1; then
	bad trace_bad 'processes\[0\] is no object'
	bad trace_bad2 'cpuInfo\.family is no number'
	bad trace_bad3 'processes\[1\]\.pid is missing'
	bad trace_bad4 'cpuInfo\.family is missing'
	bad trace_bad5 'processes\[1\]\.pid is missing'
	bad trace_wrong_cpu 'cpuInfo\.family is too large'
	bad trace_bad_image 'no-code'
fi

same_ips "--pt" "$l/ref/intelpt-trace.ptxed.txt.gz" 2 --pt "$one/3842849.trace" \
	--image "$one/a.out" --cpu-model 6/79/1
more=18 same_ips "--pt, three images" "$l/ref/multi-file.ptxed.txt.gz" 2 --pt "$two/multi-file.trace" \
	--image "$two/a.out" --image "$two/libfoo.so@0x7ffff7bd9000" \
	--image "$two/libbar.so@0x7ffff79d7000" --cpu-model 6/79/1
dr=$corpus/dynamorio/clients/drcachesim/drpt2trace
same_ips "--pt, with times" "$dr/ref/pt.elf.ptxed.txt.gz" 3 --pt "$dr/test_simple.raw/pt.bin" \
	--image "$dr/test_simple.raw/hello" --cpu-model 6/85/4
# A bundle of CPUs: the switch record is that of the side-band beside the trace.
le() { # BYTES NUMBER: little endian
	local i
	for ((i = 0; i < $1; i++)); do
		printf '%b' "\\x$(printf %02x $(($2 >> 8 * i & 255)))"
	done
}
b=$SCRATCH/bundle
mkdir "$b"
{ le 4 15; le 2 0; le 2 32; le 4 0; le 4 0; le 4 223991; le 4 223991; le 8 1385530563021208; } >"$b/switches"
cat >"$b/trace.json" <<-END
	{ "type": "intel-pt",
	  "cpuInfo": { "vendor": "GenuineIntel", "family": 6, "model": 85, "stepping": 4 },
	  "processes": [ { "pid": 223991, "threads": [ { "tid": 223991 } ],
	    "modules": [ { "systemPath": "$(realpath "$dr")/test_simple.raw/hello", "loadAddress": "0x400000" } ] } ],
	  "cpus": [ { "id": 9, "iptTrace": "pt.bin", "contextSwitchTrace": "switches" } ],
	  "tscPerfZeroConversion": { "timeMult": 581029125, "timeShift": 31, "timeZero": 18444502336406842448 } }
END
cp "$dr/test_simple.raw/pt.bin" "$b"
same_ips "LLDB, a CPU with switches" "$dr/ref/pt.elf.ptxed.txt.gz" 3 "$b"
run 0 "LLDB, who ran there" count "$b"
gives "is the thread that the switch brought in" '^thread 223991 insns 8 '
run 0 "LLDB, when" insn -F time,ip "$b"
gives "is by the clock of the bundle" '^ *1385530\.56[0-9]*'
# Integers of LLVM's own recordings have all 64 bits: as numbers, as text, as {"value"}.
cp "$SCRATCH/out" "$SCRATCH/when"
cp "$b/trace.json" "$SCRATCH/good.json"
for zero in '"18444502336406842448"' '{ "value": 18444502336406842448 }' '"0xfff80926dc646c50"'; do
	sed "s/\"timeZero\": 18444502336406842448/\"timeZero\": $zero/" "$SCRATCH/good.json" >"$b/trace.json"
	run 0 "LLDB, timeZero $zero" insn -F time,ip "$b"
	that "LLDB, timeZero $zero: the same times" - cmp -s "$SCRATCH/out" "$SCRATCH/when"
done
sed 's/"timeZero": [0-9]*/"timeZero": 18446744073709551616/' "$SCRATCH/good.json" >"$b/trace.json"
run 1 "LLDB, an integer of 65 bits" count "$b"
says "is named" 'timeZero is no number'
# Many CPUs, and a module whose address is above 2^63 as a number.
sed -e 's/"cpus": \[ {[^}]*}/&, { "id": 18446744073709551615, "iptTrace": "pt.bin", "contextSwitchTrace": "switches" }/' \
	"$SCRATCH/good.json" >"$b/trace.json"
run 1 "LLDB, a CPU of 64 bits" count "$b"
says "is named" 'cpus\[1\]\.id is too large'
sed -e 's/"cpus": \[ {[^}]*}/&, { "id": 10, "iptTrace": "pt.bin", "contextSwitchTrace": "switches" }/' \
	-e 's/"loadAddress": "0x400000" }/&, { "systemPath": "\/nowhere\/ko", "loadAddress": 18446744072635809792 }/' \
	"$SCRATCH/good.json" >"$b/trace.json"
run 0 "LLDB, two CPUs, and a module of the kernel" count "$b"
gives "the thread ran on both" '^thread 223991 insns 16 '
run 0 "LLDB, its mappings" dump "$b"
gives "the module is where it says" 'addr 0xffffffffc0000000 '
# A buffer outside of the bundle is another file of this machine.
sed "s,\"pt.bin\",\"$(realpath "$dr")/test_simple.raw/pt.bin\"," "$SCRATCH/good.json" >"$b/trace.json"
run 1 "LLDB, a buffer outside of the bundle" count "$b"
says "is not read, and the option is named" 'pt\.bin lies outside .*--any-path'
run 1 "LLDB, such a bundle is not copied" bundle -o "$SCRATCH/copied" "$b"
that "nothing is written" - test ! -e "$SCRATCH/copied"
run 0 "LLDB, with --any-path" count --any-path "$b"
gives "it is read" '^thread 223991 insns 8 '
cp "$SCRATCH/good.json" "$b/trace.json"
head -c 30 "$b/switches" >"$b/cut" && mv "$b/cut" "$b/switches"
run 1 "LLDB, switches that are cut" count "$b"
says "are named" 'switches: no record of a context switch'
sed -i '/tscPerf/s/.*/}/; s/switches" } ],/switches" } ]/' "$b/trace.json"
run 1 "LLDB, CPUs without a clock" count "$b"
says "want one" 'tscPerfZeroConversion is missing'

# All of them become one portable file.
bundles() { # TEXT TOTAL ARGUMENT...
	local text=$1 total=$2
	shift 2
	# --symfs is for the files of the machine, not for those that came along.
	run 0 "$text: --symfs does not hide its own code" count --symfs "$SCRATCH/empty" "$@"
	gives "$text: all of it" "^total insns $total "
	run 0 "$text: bundle" bundle -o "$SCRATCH/bundled" "$@"
	run 0 "$text: decoded from it" count --symfs "$SCRATCH/empty" "$SCRATCH/bundled"
	gives "$text: all of it" "^total insns $total "
}
bundles "LLDB" 21 "$one/trace.json"
if command -v perf >/dev/null; then
	perf script --itrace=i0ns -F ip -i "$SCRATCH/bundled" >"$SCRATCH/perf" 2>"$SCRATCH/err"
	is "$(tr -d ' ' <"$SCRATCH/perf")" "$("$auxdecode" insn -F ip "$SCRATCH/bundled" 2>/dev/null | tr -d ' ')" \
		"LLDB, in a bundle: perf script has the same addresses"
fi
bundles "--pt" 21 --pt "$one/3842849.trace" --image "$one/a.out" --cpu-model 6/79/1
bundles "a snapshot" 15742 "$corpus/opencsd/snapshots-ete/ete_ip"

w=$corpus/wrapped
run 0 "--pt, a part of a file, and code by its place" count --sha256 \
	--pt "$w/libxdc-foo.perf.data:$((0x338 + 48))-$((0x338 + 48 + 0x72a0))" \
	--image "$w/libxdc-foo.elf:0x1000-$((0x1b2000))@0x7ffff7819000"
gives "the hash of its instructions" "^total insns 117967 .*$(hash_of xdc-foo)"

# ---- --elf: a program for a snapshot that has none ----
corpus=${AUXKIT_CORPUS:-../shared/corpus}/opencsd/snapshots/Snowball
if [ -d "$corpus" ]; then
	bare=$SCRATCH/bare
	cp -r "$corpus" "$bare"
	chmod -R u+w "$bare"
	python3 - "$bare" "$SCRATCH/kernel.elf" <<'END'
import glob, re, struct, sys
data = open(sys.argv[1] + "/kernel_dump.bin", "rb").read()[:0x50000]
for path in glob.glob(sys.argv[1] + "/*.ini"):
    text = open(path, newline="").read()
    open(path, "w", newline="").write(re.sub(r"\[dump\][^[]*", "", text))
ident = b"\x7fELF" + bytes([1, 1, 1]) + bytes(9)
head = ident + struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0xc0008000, 52, 0, 0x5000200, 52, 32, 1, 40, 0, 0)
segment = struct.pack("<IIIIIIII", 1, 0x1000, 0xc0008000, 0xc0008000, len(data), len(data), 5, 0x1000)
open(sys.argv[2], "wb").write((head + segment).ljust(0x1000, b"\0") + data)
END
	total() { "$auxdecode" count "$@" 2>/dev/null | grep '^total'; }
	total "$corpus" >"$SCRATCH/want"
	that "a snapshot with a dump runs code" "$SCRATCH/want" grep -q 'insns [1-9]' "$SCRATCH/want"
	run 1 "a snapshot without its dump" count "$bare"
	says "it says what to give" '--elf FILE\[@ADDR\]'
	"$auxdecode" summary "$corpus" >"$SCRATCH/out" 2>&1
	that "summary: a trace without times has none" "$SCRATCH/out" grep -q '^time *not in the trace$' "$SCRATCH/out"
	that "and no command by time to go on with" "$SCRATCH/out" not grep -q -e '--last' "$SCRATCH/out"
	that "summary: gaps name --elf" "$SCRATCH/out" not grep -q -e '--symfs' "$SCRATCH/out"
	total --elf "$SCRATCH/kernel.elf" "$bare" >"$SCRATCH/got"
	that "--elf: the same flow as with the dump" "$SCRATCH/got" cmp -s "$SCRATCH/want" "$SCRATCH/got"
	"$auxdecode" summary --elf "$SCRATCH/kernel.elf" "$bare" >"$SCRATCH/out" 2>&1
	that "summary takes what it names" "$SCRATCH/out" grep -q " $(awk '{ print $3 }' "$SCRATCH/want") instructions " "$SCRATCH/out"
	total --elf "$SCRATCH/kernel.elf@0xc0008000" "$bare" >"$SCRATCH/got"
	that "--elf FILE@ADDR: the same there" "$SCRATCH/got" cmp -s "$SCRATCH/want" "$SCRATCH/got"
	"$auxdecode" diff --elf "$SCRATCH/kernel.elf" "$corpus" "$bare" >"$SCRATCH/out" 2>"$SCRATCH/err"
	that "diff --elf: the same flow in both" "$SCRATCH/out" test "$(tail -n 1 "$SCRATCH/out")" = equal
	"$auxdecode" diff "$corpus" "$bare" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 1 "diff of a snapshot without code and without --elf"
	run 2 "diff --pt" diff --pt "$bare/snapshot.ini" "$corpus" "$bare"
	says "it says what does that" 'auxdecode bundle --pt T'
	run 1 "--elf elsewhere" count --elf "$SCRATCH/kernel.elf@0x10000" "$bare"
	run 2 "--elf: a file that is none" count --elf "$bare/snapshot.ini" "$bare"
	says "it says what it wants" '--elf wants an ELF-FILE'
else
	skip "no corpus (AUXKIT_CORPUS)" "--elf with a snapshot"
fi
run 2 "--elf with a recording" count --elf "$programs/hello_asm" "$SCRATCH/one"
says "it says what does that there" '--elf is for snapshots.*--symfs'

finish
