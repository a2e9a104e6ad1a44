#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: debuggers, browsers and terminals of this machine take minutes
#
# report on paper: all lanes, open or closed, and not just what fits the screen.
. "$(dirname "$0")/lib.sh"
need_soft

command -v chromium chromium-browser google-chrome >/dev/null || {
	skip "no Chromium" "report on paper"
	finish
}
"$auxcap" -q -o "$SCRATCH/data" -- "$programs/waits" >"$SCRATCH/out" 2>"$SCRATCH/err"
ok $? "a recording of six threads" "$SCRATCH/err"
"$auxdecode" report -o "$SCRATCH/page.html" "$SCRATCH/data" 2>"$SCRATCH/err"
ok $? "its report" "$SCRATCH/err"
tests/report_print.py "$SCRATCH/page.html" >"$SCRATCH/checks" 2>"$SCRATCH/err"
checks_in "$SCRATCH/checks"
[ ! -s "$SCRATCH/err" ]
ok $? "the browser was driven to the end" "$SCRATCH/err"
finish
