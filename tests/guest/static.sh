#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# auxcap as one file, in a root that has nothing but it and a program: no loader, no
# library, first neither /proc nor /sys, then both. What it records, auxdecode reads.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

root=$work/empty
mkdir -p "$root/proc" "$root/sys"
cp "$BUILD/static/auxcap" "$programs/hello_static" "$root"

# The samples that it says it has are in the file; each fault of a page is one.
recorded() { # TEXT EVENT LEAST
	local said there
	rm -f "$root/a.data"
	chroot "$root" /auxcap -e "$2" -c 1 -o /a.data -- /hello_static >"$out" 2>"$err"
	ok $? "$1: recorded" "$err"
	that "$1: the program ran" "$out" grep -q 'hello, static world' "$out"
	that "$1: nothing was lost" "$err" grep -q 'nothing lost' "$err"
	said=$(sed -n 's/^auxcap: \([0-9]*\) samples.*/\1/p' "$err")
	there=$("$auxdecode" info "$root/a.data" | awk '$1 == "SAMPLE" { print $2 }')
	is "$there" "$said" "$1: as many samples as it says"
	that "$1: $there are enough" "$err" test "${there:-0}" -ge "$3"
}

recorded "an empty root" page-faults 5
case $(uname -m) in
x86_64) step=soft_pt/step/u ;;
aarch64) step=soft_etm/step/u ;;
esac
chroot "$root" /auxcap -e "$step" -o /a.data -- /hello_static >"$out" 2>"$err"
is $? 1 "an empty root: no program is stepped without /proc"
that "an empty root: which is said" "$err" grep -q 'mount -t proc proc /proc' "$err"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
recorded "with /proc and /sys" page-faults 5
chroot "$root" /auxcap -q -e "$step" -o /a.data --truth /a.truth -- /hello_static >"$out" 2>"$err"
is $? 0 "with /proc: stepped"
"$auxdecode" insn --symfs "$root" -F tid,ip "$root/a.data" 2>"$err" | "$BUILD/truthcmp" "$root/a.truth" >"$log"
ok "${PIPESTATUS[1]}" "with /proc: $(tail -n 1 "$log")" "$log"
chroot "$root" /auxcap list >"$out" 2>"$err"
that "it lists PMUs" "$err" grep -q '^software//' "$out"
chroot "$root" /auxcap doctor >"$out" 2>"$err"
that "doctor ends" "$out" test $? -lt 2
umount "$root/proc" "$root/sys"
echo "done"
