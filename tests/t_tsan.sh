#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# What several threads share, under ThreadSanitizer: the rings with a thread
# that plays the kernel, the recorder's readers, the thread that saves code, the
# writer, the mmap page's seqlock.
. "$(dirname "$0")/lib.sh"

flags=(-std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I. -Iinclude
	-O1 -g -fsanitize=thread)
mkdir -p "$SCRATCH/o"
need_tsan

# An archive, so that a test links only what it calls; built without libraries.
sources=(capture/{event,describe,record}/*.c include/{common,perfdata}/*.c)
printf '%s\n' "${sources[@]}" | xargs -P 2 -I '{}' sh -c '
	out=$1; shift
	exec "$@" -c -o "$out/$(basename {} .c).o" {}' sh "$SCRATCH/o" "${cc_words[@]}" "${flags[@]}" \
	>"$SCRATCH/out" 2>&1
ok $? "it is compiled with ThreadSanitizer" "$SCRATCH/out" || finish
ar rcs "$SCRATCH/lib.a" "$SCRATCH"/o/*.o

tsan() { # NAME TEXT
	"${cc_words[@]}" "${flags[@]}" -o "$SCRATCH/$1" "tests/unit/$1.c" "$SCRATCH/lib.a" -lelf -lpthread \
		>"$SCRATCH/out" 2>&1
	ok $? "$1 is built with ThreadSanitizer" "$SCRATCH/out" || return
	TSAN_OPTIONS=exitcode=66 timeout 500 "$SCRATCH/$1" >"$SCRATCH/out" 2>&1
	ok $? "$1 runs without a data race: $2" "$SCRATCH/out"
}

tsan test_ring "reader and kernel"
tsan test_recorder "readers, a holder, and the kernel"
tsan test_codesave "records, looks, and the end"
tsan test_writer_threads "writers of one file"
tsan test_self "the seqlock of the mmap page"
finish
