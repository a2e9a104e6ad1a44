#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What several threads share, under ThreadSanitizer: the rings with a thread
# that plays the kernel, the writer with several readers, the mmap page's
# seqlock.
. "$(dirname "$0")/lib.sh"

tsan() { # NAME SOURCES...
	local name=$1
	shift
	"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Iinclude -iquote capture \
		-iquote tests/unit -O1 -g -fsanitize=thread -o "$SCRATCH/$name" \
		"tests/unit/$name.c" "$@" -lelf -lpthread >"$SCRATCH/out" 2>&1
	if ! ok $? "$name is built with ThreadSanitizer" "$SCRATCH/out"; then
		return
	fi
	TSAN_OPTIONS=exitcode=66 timeout 120 "$SCRATCH/$name" >"$SCRATCH/out" 2>&1
	ok $? "$name runs without a data race" "$SCRATCH/out"
}

tsan test_ring capture/ring.c
finish
