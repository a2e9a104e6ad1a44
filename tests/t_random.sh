#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: decoders are held against libipt, which only x86 has
#
# Random programs with random terms: the decoded flow is what ran, and both
# decoders say the same.
#
#	SEEDS="pt:12 etm:99" tests/t_random.sh	these
#	MINUTES=60 tests/t_random.sh		new ones for an hour
#	FAILED=DIR ...				keeps what failed
. "$(dirname "$0")/lib.sh"
. tests/random.sh

kinds=(pt pt etm step)
[ -n "$a64_cc" ] || kinds=(pt pt step)

if [ -n "${MINUTES:-}" ]; then
	first=${FIRST:-$EPOCHSECONDS}
	end=$((EPOCHSECONDS + MINUTES * 60))
	for ((i = 0; EPOCHSECONDS < end; i++)); do
		random_case "${kinds[i % ${#kinds[@]}]}" $((first + i))
	done
else
	seeds="pt:1 pt:2 pt:3 pt:5 pt:8 pt:13 pt:21 etm:1 etm:2 etm:3 etm:5 etm:8 step:1"
	[ -n "${QUICK:-}" ] && seeds="pt:1 pt:2 pt:3 etm:1 etm:2"
	for seed in ${SEEDS:-$seeds}; do
		[ "${seed%:*}" = etm ] && [ -z "$a64_cc" ] && continue
		if [ "${seed%:*}" = etm ] && [ -n "$(no_emulation)" ]; then
			skip "$(no_emulation)" "etm ${seed#*:}"
			continue
		fi
		random_case "${seed%:*}" "${seed#*:}"
	done
fi
finish
