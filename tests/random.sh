# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
#
# Random programs, recorded with random terms, against what ran and by two
# decoders. Sourced after lib.sh; equal seeds give equal programs and terms.
#
# What is left of a failure, with FAILED=DIR: seed, program, recording, truth.
randprog=$BUILD/randprog
a64_cc=$(command -v aarch64-linux-gnu-gcc-12 || command -v aarch64-linux-gnu-gcc)

# Sets word to one of its arguments.
pick() {
	local n=$((RANDOM % $# + 1))
	word=${!n}
}

# compile SEED CC OUTPUT: with random flags, in $flags
compile() {
	pick -O0 -O1 -O2 -O2 -O3 -Os
	flags=$word
	pick '' '' -fno-plt -fcf-protection=none -fno-omit-frame-pointer -fno-inline
	[ "$2" != "${CC:-cc}" ] && [ "$word" = -fcf-protection=none ] && word=-mbranch-protection=standard
	flags+=" $word"
	pick -static -static -no-pie ''
	flags+=" $word"
	# Not the sanitizers' flags: the program is only traced.
	# shellcheck disable=SC2086
	"$randprog" "$1" >"$3.c" && $2 -std=gnu11 -D_GNU_SOURCE -w -Itests/programs $flags \
		-o "$3" "$3.c" -lpthread
}

# Random terms of soft_pt in $terms, options in $options.
pt_terms() {
	options=()
	args=()
	pick 0 0 0 1 2 3
	terms=psb_period=$word
	pick 0 0 1
	terms+=,noretcomp=$word
	pick '' mtc=0 mtc_period=0 mtc_period=5 mtc_period=9 mtc,mtc_period=3
	terms+=${word:+,$word}
	pick '' '' cyc cyc cyc,cyc_thresh=3 cyc,cyc_thresh=9
	terms+=${word:+,$word}
	pick '' '' defer_tip
	terms+=${word:+,$word}
	pick '' '' --per-thread
	options+=(${word:+"$word"})
	if [ -n "$word" ]; then
		pick '' '' tsc=0,mtc=0
		# Without times, nobody knows when code was rewritten.
		[ -n "$word" ] && args=(0 0 still) &&
			terms=psb_period=$((RANDOM % 3)),noretcomp=$((RANDOM % 2)),$word
	fi
	pick '' '' '' '' 1 2 5
	overflow=$word
	options+=(${word:+--inject-overflow "$word"})
}

etm_terms() {
	options=()
	args=()
	pick etmv4 ete
	terms=$word
	pick framed raw shared
	terms+=,$word
	[ "$word" = shared ] && terms=${terms%,*},shared
	pick '' retstack
	terms+=${word:+,$word}
	pick '' cycacc cycacc,cc_threshold=4
	terms+=${word:+,$word}
	pick '' '' branch_broadcast
	terms+=${word:+,$word}
	pick '' '' contextid2,contextid=0
	terms+=${word:+,$word}
	pick 8 8 9 12
	terms+=,sync_period=$word
	pick '' '' --per-thread
	[[ $terms == *shared* ]] && word=''
	options+=(${word:+"$word"})
	pick '' '' '' '' 1 2 5
	overflow=$word
	options+=(${word:+--inject-overflow "$word"})
}

keep_failure() { # SEED KIND
	[ -n "${FAILED:-}" ] || return
	mkdir -p "$FAILED" && cp "$SCRATCH"/random* "$FAILED" 2>/dev/null
	echo "# kept in $FAILED: $2 seed $1; its code is there, too: --symfs $FAILED/random"
}

# random_case KIND SEED: KIND is pt, step or etm
random_case() {
	local kind=$1 seed=$2 cc=${CC:-cc} prog=$SCRATCH/random text rc=() gaps='' size
	local data=$SCRATCH/random.data truth=$SCRATCH/random.truth log=$SCRATCH/random.log
	local fixed=()
	RANDOM=$((seed & 32767))
	rm -f "$SCRATCH"/random*
	[ "$kind" = etm ] && cc=$a64_cc
	if ! compile "$seed" "$cc" "$prog" >"$log" 2>&1; then
		ok 1 "$kind $seed: no program ($flags)" "$log"
		return
	fi
	case $kind in
	etm) etm_terms; event=soft_etm ;;
	pt | step)
		pt_terms
		event=soft_pt
		# Nor when a process began another program: let it be at the same place.
		[[ $terms == *tsc=0* ]] && fixed=(setarch -R)
		[ "$kind" = pt ] || terms=step,$terms
		;;
	esac
	text="$kind $seed: cc $flags, $event/$terms/u ${options[*]}"
	timeout "${RECORD_TIMEOUT:-500}" "${fixed[@]}" "$auxcap" -e "$event/$terms/u" -o "$data" \
		--truth "$truth" "${options[@]}" -- "$prog" "${args[@]}" >"$log" 2>&1 </dev/null
	status=$?
	[ "$status" = 3 ] && [ -n "$overflow" ] && gaps=--expect-gaps
	if [ $status != 0 ] && [ -z "$gaps" ]; then
		ok 1 "$text: auxcap ends with $status" "$log" || keep_failure "$seed" "$kind"
		return
	fi
	# shellcheck disable=SC2086
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/random.err" |
		"$truthcmp" $gaps "$truth" >"$SCRATCH/random.cmp"
	rc=("${PIPESTATUS[@]}")
	[ -n "$gaps" ] && [ "${rc[0]}" = 3 ] && rc[0]=0
	cat "$SCRATCH/random.err" >>"$SCRATCH/random.cmp"
	size=$(sed -n 's/^total truth \([0-9]*\) .* threads \([0-9]*\) .*/\1 instructions, \2 threads/p' \
		"$SCRATCH/random.cmp")
	ok $((rc[0] | rc[1])) "$text: $size" "$SCRATCH/random.cmp" || keep_failure "$seed" "$kind"
	for chunks in '' '--chunk-size 1'; do
		if [ "$kind" != etm ] && [ -n "$(no_libipt)" ]; then
			skip "$(no_libipt)" "$kind $seed: verify"
			break
		fi
		# shellcheck disable=SC2086
		"$auxdecode" verify $chunks "$data" >"$SCRATCH/random.verify" 2>&1
		ok $? "$kind $seed: verify${chunks:+ $chunks}" "$SCRATCH/random.verify" ||
			keep_failure "$seed" "$kind"
	done
}
