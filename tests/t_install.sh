#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# make install and uninstall; the installed recorder finds its helper object.
. "$(dirname "$0")/lib.sh"

root=$SCRATCH/root
quiet_make() {
	env -u MAKEFLAGS -u MFLAGS make -s BUILD="$BUILD" ${SAN:+SAN=$SAN} "$@" >"$SCRATCH/make" 2>&1
}
quiet_make install DESTDIR="$root" PREFIX=/opt/auxkit
ok $? "make install" "$SCRATCH/make"
for f in bin/auxcap bin/auxdecode libexec/auxkit/auxkit-qemu.so share/man/man1/auxcap.1 \
	share/man/man1/auxdecode.1 share/man/man3/aux_self.3 include/aux/reader.h include/aux/decoder.h; do
	that "installed: $f" - test -f "$root/opt/auxkit/$f"
done
bin=$root/opt/auxkit/bin
"$bin/auxcap" -e "soft_pt/$soft_step/u" -o "$SCRATCH/data" --truth "$SCRATCH/truth" -- \
	"$programs/hello_static" >"$SCRATCH/out" 2>"$SCRATCH/err"
ok $? "the installed auxcap records" "$SCRATCH/err"
"$bin/auxdecode" insn -F tid,ip "$SCRATCH/data" 2>"$SCRATCH/err" |
	"$truthcmp" "$SCRATCH/truth" >"$SCRATCH/cmp"
ok $? "the installed auxdecode decodes it" "$SCRATCH/cmp"
quiet_make uninstall DESTDIR="$root" PREFIX=/opt/auxkit
ok $? "make uninstall" "$SCRATCH/make"
is "$(find "$root" -type f)" "" "nothing is left behind"
finish
