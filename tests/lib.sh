# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034,SC2154
#
# What script tests share: TAP output and where things are. Sourced, from the
# project's root (tests/run goes there).
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
BUILD=${BUILD:-build}
auxcap=$BUILD/auxcap
auxdecode=${AUXDECODE:-$BUILD/auxdecode}
truthcmp=$BUILD/truthcmp
programs=$BUILD/tests/programs
corpus=${AUXKIT_CORPUS:-../shared/corpus}
n_tests=0
n_failed=0

# tests/run removes its scratch directory; alone, a test removes its own.
if [ -z "${SCRATCH:-}" ]; then
	SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/auxkit-test-XXXXXX") || exit 2
	if [ -n "${KEEP:-}" ]; then
		echo "# kept: $SCRATCH"
	else
		trap 'rm -rf "$SCRATCH"' EXIT
	fi
fi
export LC_ALL=C TZ=UTC PERF_CONFIG=/dev/null

# ok STATUS TEXT [FILE]: STATUS 0 passes; else FILE's lines are the diagnostics.
ok() {
	n_tests=$((n_tests + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n_tests - $2"
		return 0
	fi
	n_failed=$((n_failed + 1))
	echo "not ok $n_tests - $2"
	[ -n "${3:-}" ] && [ -e "$3" ] && head -n "${LINES_SHOWN:-25}" "$3" | cut -c1-300 | sed 's/^/#   /'
	return 1
}

# checks_in FILE [TEXT]: what FILE says of each check, "ok WHAT" or "not ok WHAT", counts
# as one; its other lines are shown.
checks_in() {
	local line before=${2:+$2: }
	while IFS= read -r line; do
		case $line in
		"ok "*) ok 0 "$before${line#ok }" ;;
		"not ok "*) ok 1 "$before${line#not ok }" ;;
		*) printf '%s\n' "$line" ;;
		esac
	done <"$1"
}

# that TEXT FILE COMMAND...: the command succeeds; FILE as in ok, - for none.
that() {
	local text=$1 file=$2 rc
	shift 2
	"$@"
	rc=$?
	ok $rc "$text" "$file"
}

not() { ! "$@"; }

skip() { # REASON [TEXT]
	n_tests=$((n_tests + 1))
	echo "ok $n_tests - ${2:-skipped} # SKIP $1"
}

# is GOT WANTED TEXT
is() {
	if [ "$1" = "$2" ]; then
		ok 0 "$3"
	else
		ok 1 "$3"
		printf '%s\n' "got:  $1" "want: $2" | head -n 20 | sed 's/^/#   /'
		return 1
	fi
}

finish() {
	echo "1..$n_tests"
	exit $((n_failed != 0))
}

have() { command -v "$1" >/dev/null 2>&1; }

# matches TEXT: what `auxdecode insn` gives of $data is what $truth says, address by
# address.
matches() {
	local n ends
	# pipefail is not set: truthcmp's verdict is the pipe's
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" |
		"$truthcmp" -q "$truth" >"$SCRATCH/cmp"
	ends=("${PIPESTATUS[@]}")
	cat "$SCRATCH/err" >>"$SCRATCH/cmp"
	n=$(sed -n 's/^total truth \([0-9]*\) .* threads \([0-9]*\) .*/\1 instructions, \2 threads/p' "$SCRATCH/cmp")
	ok $((ends[0] | ends[1])) "$1: $n" "$SCRATCH/cmp"
}

# count_matches TEXT: `auxdecode count` agrees with $truth on $data.
count_matches() {
	local bad
	"$truthcmp" --count "$truth" | awk '$2 > 0' | sort >"$SCRATCH/want"
	"$auxdecode" count "$data" >"$SCRATCH/count" 2>&1
	bad=$?
	while read -r _ n hash; do
		grep -qw "$n" "$SCRATCH/count" && grep -qw "$hash" "$SCRATCH/count" || bad=1
	done <"$SCRATCH/want"
	ok $bad "$1: count prints the truth's counts and hashes" "$SCRATCH/count"
}

# waits COMMAND...: until it succeeds; five minutes, for machines where little runs
waits() {
	local i
	for ((i = 0; i < 3000; i++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

# small_disk TEXT KB: mounts a file system of so many KB at $disk; where that may not
# be, TEXT is skipped.
small_disk() {
	mount -t tmpfs -o size="${2}k" none "$disk" 2>/dev/null && return
	skip "hardware: may not mount" "$1"
	return 1
}

# no_soft: why soft_pt follows no program here, if so.
no_soft() {
	if [ "$(uname -m)" != x86_64 ]; then
		echo "hardware: soft_pt follows x86-64 programs"
	elif ! "$auxcap" -q -e soft_pt//u -o "$SCRATCH/no_soft" -- true 2>"$SCRATCH/why"; then
		grep -m 1 ptrace "$SCRATCH/why"
	fi
	rm -f "$SCRATCH/no_soft" "$SCRATCH/why"
}

# no_emulation: why soft_pt and soft_etm cannot emulate a program here, if so.
no_emulation() {
	if ! have qemu-x86_64; then
		echo "no qemu-x86_64 (tools/deps install run)"
	elif ! qemu-x86_64 -help 2>&1 | grep -q -e -plugin; then
		echo "qemu-user has no plugins (Debian 13 builds it without), and the back end emulate is one"
	fi
}

# no_libipt: why there is nothing to compare our PT decoder with, if so.
no_libipt() {
	"$auxdecode" verify fixtures/hello_cyc.data 2>&1 | grep -o 'built without libipt'
}

# need_soft, need_emulation: end the test, with a reason, where that is so. A test that
# needs no more than a recording asks for soft; one for which only emulation will do
# (soft_etm, addresses that are the same each time) says emulate in its events.
need_soft() { need "$(no_soft)"; }
need_emulation() { need "$(no_emulation)"; }
need() {
	[ -z "$1" ] && return
	skip "$1"
	finish
}

# back_ends: those of soft_pt that work here
back_ends() {
	[ -n "$(no_emulation)" ] || echo emulate
	printf '%s\n' native step
}

# The compiler may be two words, as ccache's.
read -ra cc_words <<<"${CC:-cc}"

# need_tsan: ends the test, with a reason, where the compiler makes no program that runs
# under ThreadSanitizer.
need_tsan() {
	echo 'int main(void) { return 0; }' >"$SCRATCH/p.c"
	"${cc_words[@]}" -fsanitize=thread -o "$SCRATCH/p" "$SCRATCH/p.c" >"$SCRATCH/out" 2>&1
	ok $? "the compiler has ThreadSanitizer" "$SCRATCH/out" || finish
	"$SCRATCH/p" 2>/dev/null && return
	skip "hardware: ThreadSanitizer does not run on this kernel"
	finish
}

# A status that no test should see: killed by a signal, or a sanitizer's report.
crashed() { [ "$1" -ge 128 ] || [ "$1" = 99 ]; }
