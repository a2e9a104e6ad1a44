#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# A bundle decodes to the same instructions, bytes and names as the recording did
# on its machine, when every program is gone and another stands in its place.
. "$(dirname "$0")/lib.sh"
need_soft

out=$SCRATCH/bundle
bin=$out/bin
mkdir -p "$out" "$out/empty" "$out/jit"
# Nor does a cache of build ids help.
export HOME=$out PERF_BUILDID_DIR=$out/empty
fields=+bytes,sym,dso,pid,comm

fresh_bin() {
	rm -rf "$bin"
	mkdir -p "$bin"
	cp "$programs"/{forkexec,jit,jitlog,vdso,threads,dlopen,dlobj,hello_static,untaken} "$bin/"
}

# Other files, with code, under the same names, and no log of a JIT compiler.
swap_bin() {
	local f
	rm -f "$out/jit"/*
	for f in "$bin"/*; do
		mv "$f" "$out/gone"
		cp "$programs/feature" "$f"
	done
}

same_count() { # STATUS WANTED: and the counts are equal
	[ "$1" = "$2" ] && cmp -s "$out/count" "$out/count2"
}

# NAME RECORDING BUNDLE: files mapped from the bottom up, not from the top down, make
# the same bundle.
layout() {
	if ! setarch "$(uname -m)" -L true 2>/dev/null; then
		skip "hardware: may not choose an address layout" "$1: another address layout"
		return
	fi
	setarch "$(uname -m)" -L "$auxdecode" bundle "$2" -o "$3.layout" >/dev/null 2>&1
	cmp "$3" "$3.layout" >"$out/err" 2>&1
	ok $? "$1: another address layout makes the same bytes" "$out/err"
	rm -f "$3.layout"
}

# NAME BACKEND PROGRAM...: record, bundle, swap, decode.
check() {
	local name=$1 backend=$2 f=$out/$1.data b=$out/$1.bundle rc status
	shift 2
	fresh_bin
	"$auxcap" -q -e "$backend" -o "$f" -- "$@" >/dev/null 2>"$out/rec.log"
	that "$name: recorded" "$out/rec.log" [ -s "$f" ] || return
	"$auxdecode" count --sha256 "$f" >"$out/count" 2>"$out/err"
	status=$?	# 3 when an exec killed a thread in mid-run
	that "$name: complete where it was recorded" "$out/err" \
		grep -q '^total insns [1-9].* gaps 0 ' "$out/count"
	"$auxdecode" insn -F "$fields" "$f" 2>/dev/null | sha256sum >"$out/insn"
	"$auxdecode" bundle "$f" -o "$b" 2>"$out/log"
	is $? "$status" "$name: bundled"
	layout "$name" "$f" "$b"
	swap_bin
	"$auxdecode" count --sha256 "$b" >"$out/count2" 2>"$out/err"
	rc=$?
	diff "$out/count" "$out/count2" >>"$out/err"
	that "$name: with other programs in their places" "$out/err" \
		same_count "$rc" "$status"
	"$auxdecode" count --sha256 --symfs "$out/empty" "$b" >"$out/count2" 2>"$out/err"
	rc=$?
	that "$name: with nothing of this machine" "$out/err" \
		same_count "$rc" "$status"
	"$auxdecode" insn -F "$fields" "$b" 2>"$out/err" | sha256sum >"$out/insn2"
	that "$name: the text is the same, names too" "$out/err" \
		cmp -s "$out/insn" "$out/insn2"
}

check forkexec soft_pt// "$bin/forkexec"
# The test can fail: without the bundle the flow is lost with its programs.
not "$auxdecode" count "$out/forkexec.data" >"$out/count2" 2>"$out/err"
ok $? "forkexec: the recording alone does not decode any more" "$out/err"
check untaken soft_pt// "$bin/untaken"
check threads soft_pt// "$bin/threads" 3 200
check dlopen soft_pt// "$bin/dlopen"
# Several programs at the same addresses, by fork and by exec.
# shellcheck disable=SC2016
check exec soft_pt// sh -c '"$0/hello_static"; "$0/threads" 2 20; exec "$0/vdso"' "$bin"
check vdso soft_pt/step/ "$bin/vdso"
check jit soft_pt/step/ "$bin/jit"
check jitlog soft_pt/step/ "$bin/jitlog" "$out/jit"

# perf reads it, and decodes its trace while the programs are there.
if have perf; then
	fresh_bin
	f=$out/perf.data b=$out/perf.bundle
	"$auxcap" -q -e soft_pt// -o "$f" -- "$bin/hello_static" >/dev/null 2>&1
	"$auxdecode" bundle "$f" -o "$b" 2>/dev/null
	perf script -D --no-itrace -i "$b" >/dev/null 2>"$out/err"
	that "perf script -D has nothing to say" "$out/err" [ ! -s "$out/err" ]
	perf report -D --no-itrace -i "$b" >/dev/null 2>"$out/err"
	that "nor has perf report -D" "$out/err" [ ! -s "$out/err" ]
	perf script --itrace=i0ns -F ip -i "$f" 2>/dev/null | sha256sum >"$out/ips"
	perf script --itrace=i0ns -F ip -i "$b" 2>"$out/err" | sha256sum >"$out/ips2"
	that "perf decodes its trace" "$out/err" cmp -s "$out/ips" "$out/ips2"
else
	skip "no perf here"
fi

# A bundle of a bundle, and a file of the other kind (a pipe).
"$auxdecode" bundle "$out/forkexec.bundle" -o "$out/again.bundle" 2>"$out/err"
"$auxdecode" count "$out/forkexec.bundle" >"$out/count" 2>/dev/null
"$auxdecode" count "$out/again.bundle" >"$out/count2" 2>>"$out/err"
that "a bundle can be bundled" "$out/err" cmp -s "$out/count" "$out/count2"
fresh_bin
"$auxcap" -q -e soft_pt// -o - -- "$bin/hello_static" 2>/dev/null >"$out/pipe.data" </dev/null
"$auxdecode" bundle - -o "$out/pipe.bundle" <"$out/pipe.data" >/dev/null 2>"$out/err"
rc=$?
if [ $rc = 0 ]; then
	"$auxdecode" count "$out/pipe.data" >"$out/count" 2>/dev/null
	"$auxdecode" count --symfs "$out/empty" "$out/pipe.bundle" >"$out/count2" 2>>"$out/err"
	cmp -s "$out/count" "$out/count2"
	rc=$?
fi
ok $rc "a pipe becomes a bundle" "$out/err"

# What cannot be had stays missing, and is told.
fresh_bin
"$auxcap" -q -e soft_pt// -o "$out/gone.data" -- "$bin/dlopen" >/dev/null 2>&1
rm "$bin/dlobj"
"$auxdecode" count "$out/gone.data" >"$out/count" 2>/dev/null
"$auxdecode" bundle "$out/gone.data" -o "$out/gone.bundle" >/dev/null 2>"$out/err"
is $? 3 "code that is missing gives status 3"
that "and is named" "$out/err" grep -q 'dlobj' "$out/err"
cp "$programs/dlobj" "$bin/dlobj"
"$auxdecode" count "$out/gone.bundle" >"$out/count2" 2>/dev/null
that "it is missing in the bundle, too" - cmp -s "$out/count" "$out/count2"

# Nothing is overwritten by mistake, and there is no half file.
cp "$out/perf.data" "$out/copy.data" 2>/dev/null
ln -f "$out/perf.data" "$out/link.data"
"$auxdecode" bundle "$out/perf.data" -o "$out/link.data" 2>"$out/err"
is $? 2 "the input is refused as output, under another name too"
that "and stays as it is" - cmp -s "$out/perf.data" "$out/copy.data"
"$auxdecode" bundle "$out/perf.data" -o /dev/null 2>"$out/err"
is $? 2 "a device is refused"
"$auxdecode" bundle "$out/perf.data" 2>"$out/err"
is $? 2 "-o is needed"
mkdir "$out/full"
(trap '' XFSZ; ulimit -f 4; "$auxdecode" bundle "$out/perf.data" -o "$out/full/x") 2>"$out/err"
is $? 1 "a file that cannot grow is an error"
that "which is told" "$out/err" grep -q 'full/x: cannot write: File too large' "$out/err"
is "$(ls -A "$out/full")" "" "and nothing is left behind"

# Real traces.
corpus_case() { # NAME FILE ROOT
	local name=$1 f=$corpus/$2 root=$corpus/$3
	if [ ! -e "$f" ]; then
		skip "corpus: $2 is not there" "$name"
		return
	fi
	"$auxdecode" count --sha256 --symfs "$root" "$f" >"$out/count" 2>/dev/null
	"$auxdecode" insn --symfs "$root" "$f" 2>/dev/null | sha256sum >"$out/insn"
	"$auxdecode" bundle --symfs "$root" "$f" -o "$out/corpus.bundle" 2>"$out/err"
	"$auxdecode" count --sha256 --symfs "$out/empty" "$out/corpus.bundle" >"$out/count2" 2>>"$out/err"
	"$auxdecode" insn "$out/corpus.bundle" 2>/dev/null | sha256sum >"$out/insn2"
	that "$name: from its bundle" "$out/err" \
		grep -q '^total insns [1-9]' "$out/count2"
	that "$name: as with its files" "$out/err" cmp -s "$out/count" "$out/count2"
	that "$name: the same text" "$out/err" cmp -s "$out/insn" "$out/insn2"
	rm -f "$out/corpus.bundle"
}
corpus_case libxdc-foo wrapped/libxdc-foo.perf.data .
corpus_case lldb-single wrapped/lldb-single.perf.data .
corpus_case dynamorio-hello wrapped/dynamorio-hello.perf.data \
	dynamorio/clients/drcachesim/drpt2trace/test_simple.raw
if grep -qw OPENCSD "$BUILD"/have*.mk; then
	corpus_case fib wrapped/coresight-fib-trace1.perf.data .
	corpus_case r5-freertos wrapped/coresight-r5-freertos.perf.data .
	corpus_case perf_etm simpleperf/simpleperf/testdata/etm/perf_etm.data simpleperf/symfs
fi
finish
