#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Expected outputs: tests/golden/TESTLIST has a line "NAME STATUS ARGUMENTS" for
# each, tests/golden/NAME.out is what auxdecode must print. The fixtures and
# how they were made: fixtures/README.md.
#
#	make golden T=NAME      writes one anew (T=all: every one); review the diff
. "$(dirname "$0")/lib.sh"

update=
[ "${1:-}" = --update ] && update=${2:-}
if [ "${1:-}" = --update ] && [ -z "$update" ]; then
	echo "usage: make golden T=NAME (T=all)" >&2
	exit 2
fi
while read -r name want args; do
	case $name in ''|'#'*) continue ;; esac
	expected=tests/golden/$name.out
	# shellcheck disable=SC2086
	"$auxdecode" $args >"$SCRATCH/out" 2>&1 </dev/null
	rc=$?
	if [ "$update" = all ] || [ "$update" = "$name" ]; then
		cp "$SCRATCH/out" "$expected"
		echo "written: $expected"
		continue
	fi
	diff -u "$expected" "$SCRATCH/out" >"$SCRATCH/diff" 2>&1
	ok $? "$name" "$SCRATCH/diff"
	is $rc "$want" "$name: exit status"
done <tests/golden/TESTLIST
[ -n "$update" ] && exit 0
finish
