#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it is about sources, not about what is built
#
# A release: its sources are what git tracks, and the same bytes from an unpacked release
# without git, under another umask, locale and time zone; make install gives the same
# files there, too. (tools/reproducible compares whole builds.)
. "$(dirname "$0")/lib.sh"

name=auxkit-test
tools/dist $name >"$SCRATCH/first.tar.gz" 2>"$SCRATCH/err"
ok $? "tools/dist packs the sources" "$SCRATCH/err"
tar -tf "$SCRATCH/first.tar.gz" | sed "s,^$name/,," | sort >"$SCRATCH/packed"
for f in Makefile README.md LICENSE .ci/run tests/run tools/debian/control capture/auxcap.1; do
	that "with $f" "$SCRATCH/packed" grep -qxF "$f" "$SCRATCH/packed"
done
that "without what was built" - not grep -q '^build/\|^\.git/' "$SCRATCH/packed"
if [ -e .git ] && have git; then
	git -c safe.directory='*' ls-files | sort >"$SCRATCH/tracked"
	that "all that git tracks, and no more" - cmp "$SCRATCH/packed" "$SCRATCH/tracked"
fi

# Unpacked inside a repository of somebody else, where its files are not tracked.
there="$SCRATCH/another place"
mkdir -p "$there"
have git && git init -q "$there"
(umask 077; tar -xf "$SCRATCH/first.tar.gz" --no-same-permissions -C "$there")
mkdir -p "$there/$name/build"
touch "$there/$name/build/made"
(umask 077; export LC_ALL=C.UTF-8 TZ=Asia/Kathmandu HOME=/nonexistent
	"$there/$name/tools/dist" $name >"$SCRATCH/second.tar.gz" 2>"$SCRATCH/err")
ok $? "tools/dist packs an unpacked release" "$SCRATCH/err"
that "the same bytes" "$SCRATCH/err" cmp "$SCRATCH/first.tar.gz" "$SCRATCH/second.tar.gz"
mkdir "$there/$name/.git"
"$there/$name/tools/dist" $name >"$SCRATCH/third" 2>"$SCRATCH/err"
that "refused where git fails, not packed by guess" "$SCRATCH/err" test $? != 0 -a ! -s "$SCRATCH/third"
that "with the reason" "$SCRATCH/err" grep -q 'git cannot tell' "$SCRATCH/err"

# What is installed is the same under any umask, modes included.
for u in 022 077; do
	(umask $u
	 env -u MAKEFLAGS -u MFLAGS make -s BUILD="$BUILD" install DESTDIR="$SCRATCH/$u") \
		>"$SCRATCH/make" 2>&1
	ok $? "make install, umask $u" "$SCRATCH/make"
	(cd "$SCRATCH/$u" && find . -mindepth 1 -printf '%p %y %m %s %l\n' | sort) >"$SCRATCH/list-$u"
done
diff "$SCRATCH/list-022" "$SCRATCH/list-077" >"$SCRATCH/diff"
ok $? "the same files and modes ($(wc -l <"$SCRATCH/list-022"))" "$SCRATCH/diff"

# No path of this machine is in what is installed.
grep -rlF "$PWD" "$SCRATCH/022" >"$SCRATCH/paths"
that "none names the directory where it was built" "$SCRATCH/paths" test ! -s "$SCRATCH/paths"
finish
