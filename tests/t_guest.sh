#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it boots a kernel of its own
#
# Recording from PMUs with an AUX area, on Debian's own kernel in QEMU, with the
# simulated PMUs of tools/pmu_sim: each byte that they make is proven to be in the
# file, or in the ledger. tests/guest/*.sh run inside and say what they found.
#
#   tests/t_guest.sh [PART...]      full, snapshot, when, probe, modes, limits, damage, machine, pause, causes,
#                                   static, hazard, stepped; all if none, but hazard only with
#                                   GUEST_KERNEL and stepped with GUEST_ARCH=arm64
#
# GUEST_ARCH=arm64: the arm64 build (tests/arm64 --build tests-build) in an arm64 guest, of
# whose kernel the parts need no more than a PMU.
# GUEST_KERNEL: see tools/guest/run -k. FULL=1 adds a newer kernel, and a hundred kills.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

[ -z "${QUICK:-}" ] || { skip "takes minutes" "guest"; finish; }
[ "$(uname -m)" = x86_64 ] || { skip "hardware: the guest is made on x86_64" "guest"; finish; }
arch=${GUEST_ARCH:-x86_64}
have "qemu-system-${arch/arm64/aarch64}" ||
	{ skip "no QEMU: tools/deps install guest${GUEST_ARCH:+ guest-arm}" "guest"; finish; }
build=$(realpath "$BUILD")
[ "$arch" != arm64 ] || build=$PWD/build/aarch64
parts=("$@")
[ $# -gt 0 ] || parts=(full snapshot when probe modes limits damage machine pause causes)
[ $# -gt 0 ] || [ -n "${SAN:-}" ] || parts+=(static)
[ $# -gt 0 ] || [ -z "${GUEST_KERNEL:-}" ] || parts+=(hazard)
[ $# -gt 0 ] || [ "$arch" != arm64 ] || parts+=(stepped)

# relay KERNEL: what the guest says, numbered here. Sets ended: parts that came to
# their end.
relay() {
	local line part=
	ended=
	while IFS= read -r line; do
		case $line in
		"part "*) part=${line#part } ;;
		"ok - "*) ok 0 "$1 $part: ${line#ok - }" ;;
		"not ok - "*) ok 1 "$1 $part: ${line#not ok - }" ;;
		"done") ended+=" $part" ;;
		"#"*) printf '%s\n' "$line" ;;
		*) printf '#   %s\n' "$line" ;;
		esac
	done
}

# boot KERNEL: all parts in one guest. One that dies, hangs or leaves early fails.
boot() {
	local kernel=$1 ko part
	ko=$(tools/guest/module -a "$arch" -k "$kernel" tools/pmu_sim 2>"$SCRATCH/module" |
		grep '/pmu_sim\.ko$')
	# A copy: who changes the source rebuilds it in the cache.
	[ -n "$ko" ] && cp "$ko" "$SCRATCH/pmu_sim.ko"
	ok $? "$kernel: pmu_sim builds" "$SCRATCH/module" || return
	# shellcheck disable=SC2016
	relay "$kernel" < <(
		tools/guest/run -a "$arch" -k "$kernel" -m 2000 -t "${GUEST_TIME:-$((TIMEOUT - 50))}" \
			-e "BUILD=$build" -e FULL -e SEED \
			-M "$SCRATCH/pmu_sim.ko names=aux_sim,intel_pt,cs_etm" -- bash -c '
				for part; do
					echo "part $part"
					timeout -k 5 "${FULL:+6}600" bash "tests/guest/$part.sh"
				done' bash "${parts[@]}" 2>&1
		echo "# guest: status $?")
	for part in "${parts[@]}"; do
		[[ "$ended " == *" $part "* ]]
		ok $? "$kernel $part: came to its end"
	done
}

# The recorder as one file.
if [[ " ${parts[*]} " == *" static "* ]]; then
	make=(env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make BUILD="$BUILD")
	[ "$arch" != arm64 ] || make=(tests/arm64 --build)
	"${make[@]}" static >"$SCRATCH/static" 2>&1
	ok $? "auxcap linked statically" "$SCRATCH/static" || finish
fi
kernel=${GUEST_KERNEL:-6.1} TIMEOUT=${TIMEOUT:-900}
if ! tools/guest/kernel -a "$arch" -k "$kernel" >"$SCRATCH/kernel" 2>&1; then
	# What Debian's next release offers today is not for us to promise.
	[ "$kernel" != newest ] || { skip "$(tail -n 1 "$SCRATCH/kernel")" "guest"; finish; }
	ok 1 "Debian's kernel can be had" "$SCRATCH/kernel"
	finish
fi
[ -z "${FULL:-}" ] || GUEST_TIME=5000
boot "$kernel"
[ -z "${FULL:-}" ] || boot 6.12
finish
