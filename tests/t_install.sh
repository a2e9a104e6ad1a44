#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: it compiles and preloads for this machine
#
# make install and uninstall; the installed recorder finds its helper object; the
# library is found by pkg-config, for programs that are linked with -static, too.
. "$(dirname "$0")/lib.sh"

root=$SCRATCH/root
quiet_make() {
	env -u MAKEFLAGS -u MFLAGS make -s BUILD="$BUILD" ${SAN:+SAN=$SAN} "$@" >"$SCRATCH/make" 2>&1
}
quiet_make install DESTDIR="$root" PREFIX=/opt/auxkit
ok $? "make install" "$SCRATCH/make"
# so a library that is there must not be older than the rest
env -u MAKEFLAGS -u MFLAGS make -n BUILD="$BUILD" ${SAN:+SAN=$SAN} -W decode/lib/api/api.c >"$SCRATCH/plan" 2>&1
that "make alone makes the library anew, too, where there is one" "$SCRATCH/plan" \
	grep -q -e '-soname,libauxdecode.so' "$SCRATCH/plan"
that "nothing is compiled on the way" "$SCRATCH/make" not grep -qE ' -c -o |LD|CC' "$SCRATCH/make"
for f in bin/auxcap bin/auxdecode libexec/auxkit/auxkit-qemu.so share/man/man1/auxcap.1 \
	share/man/man1/auxdecode.1 share/man/man1/auxdecode-calls.1 share/man/man7/auxkit-glossary.7 \
	share/man/man7/auxkit-tutorial.7 share/man/man3/aux_self.3 include/aux/reader.h include/aux/decoder.h \
	share/man/man3/libauxdecode.3 share/man/man3/aux_cursor.3 lib/libauxdecode.so.0 lib/pkgconfig/libauxdecode.pc \
	share/doc/auxkit/README.md share/doc/auxkit/examples/count_flow.c \
	share/bash-completion/completions/auxcap share/zsh/site-functions/_auxdecode \
	share/fish/vendor_completions.d/auxcap.fish; do
	that "installed: $f" - test -f "$root/opt/auxkit/$f"
done
bin=$root/opt/auxkit/bin
# man FUNCTION finds each function of the public headers
for f in $(grep -ho 'aux_[a-z_0-9]*(' include/aux/{decode,reader,cursor,error}.h | tr -d '(' | sort -u); do
	page=$root/opt/auxkit/share/man/man3/$f.3
	to=$root/opt/auxkit/share/man/$(sed 's/^\.so //' "$page")
	that "man $f" "$page" grep -q "^\.F[no] .*$f" "$to"
done
# each command has a page, which says what auxdecode.1 and --help say
pages=0
for c in $("$bin/auxdecode" --help | awk '/^commands/ { on = 1; next } on && !NF { exit } on { print $1 }'); do
	page=$root/opt/auxkit/share/man/man1/auxdecode-$c.1
	pages=$((pages + 1))
	sed 's/Fl -/--/g; s/\\&//g' "$page" >"$SCRATCH/page"
	lost=$("$bin/auxdecode" "$c" --help | grep -oE '^ +(-., )?--[a-z0-9-]+' | grep -oE '\--[a-z0-9-]+' | while read -r o; do
		grep -q -e "$o\b" "$SCRATCH/page" || echo "$o"
	done)
	is "$lost" "" "auxdecode-$c(1) has all its options"
	that "auxdecode-$c(1) is well formed" "$SCRATCH/page" test -z "$(groff -mdoc -ww -z "$page" 2>&1)"
done
that "there are many" - test "$pages" -gt 20
"$bin/auxcap" -e "soft_pt//u" -o "$SCRATCH/data" --truth "$SCRATCH/truth" -- \
	"$programs/hello_static" >"$SCRATCH/out" 2>"$SCRATCH/err"
ok $? "the installed auxcap records" "$SCRATCH/err"
"$bin/auxdecode" insn -F tid,ip "$SCRATCH/data" 2>"$SCRATCH/err" |
	"$truthcmp" "$SCRATCH/truth" >"$SCRATCH/cmp"
ok $? "the installed auxdecode decodes it" "$SCRATCH/cmp"
if [ -f "$BUILD/auxdecode-libipt.so" ]; then
	"$bin/auxdecode" insn --decoder libipt -F tid,ip "$SCRATCH/data" 2>"$SCRATCH/err" |
		"$truthcmp" "$SCRATCH/truth" >"$SCRATCH/cmp"
	ok $? "and finds its reference decoder" "$SCRATCH/cmp"
	mv "$root/opt/auxkit/libexec/auxkit/auxdecode-libipt.so" "$SCRATCH/"
	"$bin/auxdecode" count --decoder libipt "$SCRATCH/data" >"$SCRATCH/out" 2>&1
	is $? 1 "without it: an error"
	that "without it: what is missing where" "$SCRATCH/out" grep -q \
		": auxdecode-libipt.so is a part of this program, and neither in .*/bin nor in .*/libexec/auxkit" "$SCRATCH/out"
	mv "$SCRATCH/auxdecode-libipt.so" "$root/opt/auxkit/libexec/auxkit/"
fi

# Debian's packages have each file, or say that none of them does.
quiet_make install DESTDIR="$SCRATCH/deb" PREFIX=/usr LIBDIR=/usr/lib/x DOCDIR=/usr/share/doc/auxkit \
	ZSHDIR=/usr/share/zsh/vendor-completions
ok $? "make install as tools/debian/rules does" "$SCRATCH/make"
mapfile -t packaged < <(cat tools/debian/*.install tools/debian/not-installed | cut -d' ' -f1)
nowhere=$(find "$SCRATCH/deb" ! -type d -printf '%P\n' | while read -r f; do
	for p in "${packaged[@]}"; do
		# shellcheck disable=SC2053
		[[ $f == $p || $f == $p/* ]] && continue 2
	done
	echo "$f"
done)
is "$nowhere" "" "no file that is in none of Debian's packages"

# The library, where LIBDIR says; stripped.
lib=$SCRATCH/lib
quiet_make install DESTDIR="$lib" PREFIX=/usr LIBDIR=/usr/lib/x DOCDIR=/usr/doc INSTALL_STRIP=1
ok $? "make install with LIBDIR, DOCDIR and INSTALL_STRIP" "$SCRATCH/make"
that "LIBDIR" - test -f "$lib/usr/lib/x/libauxdecode.a"
that "DOCDIR" - test -f "$lib/usr/doc/examples/count_flow.c"
readelf -SW "$lib/usr/bin/auxdecode" "$lib/usr/lib/x/libauxdecode.so.0" >"$SCRATCH/sections" 2>&1
that "INSTALL_STRIP" "$SCRATCH/sections" not grep -qE 'debug_info|\.symtab' "$SCRATCH/sections"
want=$("$auxdecode" count "$SCRATCH/data" 2>/dev/null | sed -n 's/^total insns \([0-9]*\) .*/\1/p')
for how in '' --static; do
	[ -z "${SAN:-}" ] || break	# the sanitizers' libraries are not in the .pc file
	# With the archive: Debian has none of libipt, so the rest stays shared.
	[ -z "$how" ] || rm "$lib"/usr/lib/x/libauxdecode.so*
	# shellcheck disable=SC2046
	cc -o "$SCRATCH/count_flow" tools/examples/count_flow.c \
		$(PKG_CONFIG_PATH=$lib/usr/lib/x/pkgconfig PKG_CONFIG_SYSROOT_DIR=$lib \
			pkg-config $how --cflags --libs libauxdecode) >"$SCRATCH/cc" 2>&1
	ok $? "an example is linked by pkg-config $how" "$SCRATCH/cc"
	LD_LIBRARY_PATH=$lib/usr/lib/x "$SCRATCH/count_flow" "$SCRATCH/data" >"$SCRATCH/out" 2>&1
	that "and counts what auxdecode counts, $want" "$SCRATCH/out" grep -qw "$want" "$SCRATCH/out"
done
quiet_make uninstall DESTDIR="$lib" PREFIX=/usr LIBDIR=/usr/lib/x DOCDIR=/usr/doc
is "$(find "$lib" ! -type d)" "" "nothing is left behind"

# One file for a board without libraries, tried in a directory that has nothing else.
status=0
[ -n "${SAN:-}" ] ||
	env -u MAKEFLAGS -u MFLAGS make -s BUILD="$BUILD" static >"$SCRATCH/make" 2>&1 || status=$?
if [ $status != 0 ] && grep -q 'undefined reference to .eu_' "$SCRATCH/make"; then
	skip "this libelf.a calls libeu.a, which Debian 13 does not package" "make static"
elif [ -z "${SAN:-}" ]; then
	ok $status "make static" "$SCRATCH/make"
	mkdir -p "$SCRATCH/empty/proc"
	cp "$BUILD/static/auxcap" "$programs/hello_static" "$SCRATCH/empty"
	cat >"$SCRATCH/inside" <<-'END'
	mount -t proc proc "$1/proc"
	exec chroot "$1" /auxcap -e soft_pt/step/u -o /x.data -- /hello_static
	END
	if ! unshare --user --map-root-user --mount --pid --fork true 2>/dev/null; then
		skip "hardware: may not make a namespace" "auxcap in an empty directory"
	elif [ "$(uname -m)" = x86_64 ]; then
		unshare --user --map-root-user --mount --pid --fork \
			sh "$SCRATCH/inside" "$SCRATCH/empty" >"$SCRATCH/out" 2>&1
		ok $? "the static auxcap records in an empty directory" "$SCRATCH/out"
		"$auxdecode" count --symfs "$SCRATCH/empty" "$SCRATCH/empty/x.data" >"$SCRATCH/out" 2>&1
		that "without a gap" "$SCRATCH/out" grep -q 'gaps 0$' "$SCRATCH/out"
	fi
fi
quiet_make uninstall DESTDIR="$root" PREFIX=/opt/auxkit
ok $? "make uninstall" "$SCRATCH/make"
is "$(find "$root" ! -type d)" "" "nothing is left behind"
finish
