#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The command line: exit statuses, usage errors, help against the man pages.
. "$(dirname "$0")/lib.sh"

# run WANTED-STATUS TEXT COMMAND...: also: errors go to stderr, in our form
run() {
	local want=$1 text=$2 rc
	shift 2
	timeout 300 "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null
	rc=$?
	is $rc "$want" "$text: status $want" || sed 's/^/#   /' "$SCRATCH/err"
	case $want in
	1|2)
		that "$text: says why" "$SCRATCH/err" \
			grep -Eq '^aux(cap|decode): error: |^usage: aux' "$SCRATCH/err"
		;;
	esac
}

says() { # PATTERN TEXT: on stderr of the last run
	that "$2" "$SCRATCH/err" grep -Eiq -- "$1" "$SCRATCH/err"
}

for p in "$auxcap" "$auxdecode"; do
	name=$(basename "$p")
	run 0 "$name --help" "$p" --help
	that "$name --help prints" - test -s "$SCRATCH/out"
	that "$name --help prints nothing on stderr" "$SCRATCH/err" test ! -s "$SCRATCH/err"
	run 0 "$name --version" "$p" --version
	run 2 "$name without arguments" "$p"
	run 2 "$name --nonsense" "$p" --nonsense
	sed 's/\\-/-/g; s/Fl Fl /--/g; s/Fl -/--/g' ./*/"$name.1" >"$SCRATCH/page"
	for option in $("$p" --help | grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z0-9-]+' |
			grep -oE -- '--.*' | sort -u); do
		that "$name.1 describes $option" - grep -q -- "$option" "$SCRATCH/page"
	done
	that "$name.1 has exit statuses" - grep -qi 'exit status' "$SCRATCH/page"
done

# What a command does not take is named, not passed over.
for words in 'list -e' 'doctor -q' 'doctor --truth' 'list --max-size' 'repair -z' 'repair --per-thread'; do
	read -r command option <<<"$words"
	run 2 "auxcap $words" "$auxcap" "$command" "$option" 1M "$SCRATCH/absent"
	says "takes no $option" "auxcap $words: the option is named"
done
run 2 "auxcap -n" "$auxcap" -n -- true
says 'takes no -n' "auxcap -n: the option is named"

hello=$programs/hello_asm
out=$SCRATCH/cli.data
run 2 "unknown event" "$auxcap" -e nonsense// -o "$out" -- "$hello"
run 2 "unknown term" "$auxcap" -e soft_pt/nonsense=1/u -o "$out" -- "$hello"
says 'psb_period|noretcomp' "an unknown term: the error lists the terms"
run 2 "psb_period out of range" "$auxcap" -e soft_pt/psb_period=99/u -o "$out" -- "$hello"
says 'psb_period.*[0-9]' "psb_period out of range: the error gives the legal values"
for term in step native; do
	# an arm64 machine can
	[ "$term $(uname -m)" = "step aarch64" ] && continue
	run 2 "soft_etm with $term" "$auxcap" -e "soft_etm/$term/u" -o "$out" -- "$hello"
	says "$term is not possible: .*(x86-64|this machine's processor)" "soft_etm with $term: the reason is told"
done
run 2 "no program" "$auxcap" -e soft_pt//u -o "$out"
run 1 "program that is not there" "$auxcap" -e soft_pt//u -o "$out" -- "$SCRATCH/absent"
says 'no such file' "program that is not there: the cause is told"
run 1 "program that is in no PATH" "$auxcap" -o "$out" -- no-such-program-anywhere
says 'PATH' "program that is in no PATH: where it was looked for is told"
echo true >"$SCRATCH/noexec"
run 1 "program that is not executable" "$auxcap" -o "$out" -- "$SCRATCH/noexec"
says 'chmod' "program that is not executable: what to do is told"
run 1 "program that is a directory" "$auxcap" -o "$out" -- "$SCRATCH"
says 'directory' "program that is a directory: the cause is told"
that "a program that cannot run costs no file" - test ! -e "$out"
run 1 "output that cannot be written" "$auxcap" -e soft_pt//u -o "$SCRATCH/no/such" -- "$hello"
says '-o names another' "output that cannot be written: what to do is told"
mkdir -p "$SCRATCH/no-qemu"
run 0 "qemu is missing: the code cache" env PATH="$SCRATCH/no-qemu" "$auxcap" -o "$out" -- "$hello"
"$auxdecode" info "$out" >"$SCRATCH/said" 2>&1
that "which the file says" "$SCRATCH/said" grep -q 'back end native' "$SCRATCH/said"
rm -f "$out"
run 1 "qemu is missing" env PATH="$SCRATCH/no-qemu" "$auxcap" -e soft_pt/emulate/u -o "$out" -- "$hello"
says 'apt install qemu-user.*-e soft_pt/native/u' "qemu is missing: what to do is told"
that "qemu is missing: costs no file" - test ! -e "$out"
run 0 "qemu is missing, step" env PATH="$SCRATCH/no-qemu" "$auxcap" -e soft_pt/step/ -o "$out" -- "$hello"
rm -f "$out"
if [ -z "$(no_emulation)" ] && cp "$hello" "$SCRATCH/setuid" &&
		chown 65534 "$SCRATCH/setuid" 2>/dev/null && chmod 4755 "$SCRATCH/setuid"; then
	run 1 "a set-user-ID program" "$auxcap" -e soft_pt/emulate/u -o "$out" -- "$SCRATCH/setuid"
	says 'set-user-ID.*-e soft_pt/native/u runs it' "a set-user-ID program: what runs it is told"
	run 0 "a set-user-ID program, as usual" "$auxcap" -e soft_pt//u -o "$out" -- "$SCRATCH/setuid"
	rm -f "$out"
fi
# --truth: what was there stays until there is something to put in its place.
echo precious >"$SCRATCH/truth"
sleep 100 &
asleep=$!
kill -STOP $asleep	# it runs nothing
until grep -q '^State:	T' /proc/$asleep/status; do sleep 0.05; done
for words in '-e soft_pt/nonsense/u -- true' '-e soft_pt//u --nonsense' "-e soft_pt//u -- $SCRATCH/absent" \
		"-e soft_pt//u -p $asleep -- true"; do
	# shellcheck disable=SC2086
	"$auxcap" --truth "$SCRATCH/truth" -o "$SCRATCH/truth.data" $words >/dev/null 2>"$SCRATCH/err"
	is "$(($? > 0)):$(cat "$SCRATCH/truth")" 1:precious "${words%%-- *}: fails, and the truth file stays"
done
rm "$SCRATCH/truth"
"$auxcap" -e soft_pt//u --truth "$SCRATCH/truth" -o "$SCRATCH/truth.data" -p $asleep -- true >/dev/null 2>&1
that "a truth file of nothing is not left" - test ! -e "$SCRATCH/truth"
kill -KILL $asleep
(ulimit -f 8; "$auxcap" -e soft_pt/step/u --truth "$SCRATCH/truth" -o /dev/null -- "$hello") >/dev/null 2>"$SCRATCH/err"
is $? 0 "a truth file below ulimit -f"
(ulimit -f 8; "$auxcap" -e soft_pt/step/u --truth "$SCRATCH/truth" -o /dev/null -- true) >/dev/null 2>"$SCRATCH/err"
is $? 1 "a truth file beyond ulimit -f"
says 'truth file: File too large' "a truth file beyond ulimit -f: the reason"
run 0 "a recording" "$auxcap" -e "soft_pt//u" -o "$out" -- "$hello"
cp "$out" "$SCRATCH/first"
run 0 "the output exists" "$auxcap" -e "soft_pt//u" -o "$out" -- "$hello"
that "an older recording is kept as .old" - cmp -s "$SCRATCH/first" "$out.old"

"$auxdecode" dump "$out" >"$SCRATCH/dump"
that "side-band belongs to the dummy event" "$SCRATCH/dump" \
	not grep -E ' (COMM|MMAP2|FORK|EXIT|SWITCH) .* id 1$' "$SCRATCH/dump"
that "AUX and ITRACE_START belong to the trace event" "$SCRATCH/dump" \
	not grep -E ' (AUX|ITRACE_START) .* id 2$' "$SCRATCH/dump"
for sub in insn branch count info dump raw; do
	run 0 "auxdecode $sub" "$auxdecode" $sub "$out"
	that "auxdecode $sub prints something" - test -s "$SCRATCH/out"
done
run 0 "auxdecode FILE" "$auxdecode" "$out"
cp "$SCRATCH/out" "$SCRATCH/default"
"$auxdecode" insn "$out" >"$SCRATCH/insn"
that "auxdecode FILE is auxdecode insn FILE" - cmp -s "$SCRATCH/default" "$SCRATCH/insn"
that "insn shows symbols" "$SCRATCH/insn" grep -q work "$SCRATCH/insn"
that "insn shows disassembly" "$SCRATCH/insn" grep -q syscall "$SCRATCH/insn"
"$auxdecode" insn -F tid,ip "$out" >"$SCRATCH/insn"
that "insn -F tid,ip: TID HEX, or #" "$SCRATCH/insn" \
	not grep -Evq '^#|^[0-9]+ [0-9a-f]+$' "$SCRATCH/insn"
run 2 "unknown subcommand or file" "$auxdecode" insn
run 2 "unknown column" "$auxdecode" insn -F nonsense "$out"
run 2 "bad --tid" "$auxdecode" insn --tid x "$out"
run 1 "file that is not there" "$auxdecode" insn "$SCRATCH/absent"
for j in 1 2 5; do
	"$auxdecode" insn -j $j "$out" >"$SCRATCH/j$j" 2>&1
	that "-j $j prints the same bytes" - cmp -s "$SCRATCH/j1" "$SCRATCH/j$j"
done

# Filters: what is left is a part, in order.
tid=$(awk '!/^#/ { print $1; exit }' "$SCRATCH/insn")
n=$(grep -vc '^#' "$SCRATCH/insn")
is "$("$auxdecode" insn -F tid,ip --tid "$tid" "$out" | grep -vc '^#')" "$n" "--tid of the only thread"
is "$("$auxdecode" insn -F tid,ip --tid 1 "$out" | grep -vc '^#')" 0 "--tid of another thread"
is "$("$auxdecode" insn -F ip --symbol work "$out" | grep -vc '^#')" 30 "--symbol work: what work() ran"

is "$("$auxdecode" insn -F ip --cpu 63 "$out" 2>/dev/null | grep -vc '^#')" 0 "--cpu of another CPU"
"$auxdecode" insn -F time,ip "$out" | grep -v '^#' >"$SCRATCH/timed"
last=$(awk 'END { print $1 }' "$SCRATCH/timed")
is "$("$auxdecode" insn -F ip --time "$last," "$out" | grep -vc '^#')" \
	"$(awk -v t="$last" '$1 == t' "$SCRATCH/timed" | wc -l)" "--time from the last moment on"
is "$("$auxdecode" insn -F ip -n 7 "$out" | grep -vc '^#')" 7 "-n 7"
"$auxdecode" insn "$out" -o "$SCRATCH/by-o" && "$auxdecode" insn - <"$out" >"$SCRATCH/by-stdin"
that "-o writes the same to a file" - cmp -s "$SCRATCH/by-o" "$SCRATCH/default"
that "- reads standard input" - cmp -s "$SCRATCH/by-stdin" "$SCRATCH/default"
run 0 "dump --packets" "$auxdecode" dump --packets "$out"
that "dump --packets shows packets" "$SCRATCH/out" grep -q 'tip.pge' "$SCRATCH/out"

# Decoders: built in, unknown, loaded, built for another interface.
run 2 "unknown decoder" "$auxdecode" insn --decoder nonsense "$out"
says "pt.*, bytes" "an unknown decoder: the error lists those there are"
"$auxdecode" count --decoder bytes "$out" >"$SCRATCH/bytes" 2>"$SCRATCH/err"
that "--decoder bytes lives" "$SCRATCH/err" test $? -le 3
run 1 "plugin that is not there" "$auxdecode" insn --plugin "$SCRATCH/none.so" "$out"
plugin() { # ABI FILE
	sed 's/AUX_DECODER_ABI,/'"$1"',/' decode/lib/session/decoder_bytes.c |
		${DECODE_CC:-${CC:-cc}} -DAUX_PLUGIN -Iinclude -shared -fPIC -xc -o "$2" -
}
plugin AUX_DECODER_ABI "$SCRATCH/good.so"
plugin 4711 "$SCRATCH/other.so"
"$auxdecode" count --plugin "$SCRATCH/good.so" "$out" >"$SCRATCH/loaded" 2>"$SCRATCH/err"
that "--plugin loads a decoder: as the built-in one" "$SCRATCH/err" cmp -s "$SCRATCH/bytes" "$SCRATCH/loaded"
run 1 "plugin for another interface" "$auxdecode" insn --plugin "$SCRATCH/other.so" "$out"
says '4711' "a plugin for another interface: the error gives its number"

# The disassembler is loaded by those who show text, and missed by nobody else.
if grep -q '^HAVE :=.* CAPSTONE' "$BUILD/have.mk"; then
	mkdir "$SCRATCH/lib"
	touch "$SCRATCH"/lib/libcapstone.so.{4,5,6}
	# an emulator's own libraries are to be found
	path=${DECODE_CC:+QEMU_SET_ENV=}LD_LIBRARY_PATH=$SCRATCH/lib
	run 1 "a disassembler that cannot be loaded" env "$path" "$auxdecode" insn "$out"
	says 'install the package libcapstone[4-6]: .*libcapstone\.so\.[4-6]: ' "the error names the package and the file"
	env "$path" "$auxdecode" insn -F ip "$out" >"$SCRATCH/without" 2>"$SCRATCH/err"
	"$auxdecode" insn -F ip "$out" >"$SCRATCH/with" 2>"$SCRATCH/err"
	that "without text it is not needed" - cmp -s "$SCRATCH/with" "$SCRATCH/without"
	that "and there are addresses" - test -s "$SCRATCH/without"
else
	skip "built without capstone"
fi

# A full disk and a closed pipe.
if [ -w /dev/full ]; then
	"$auxdecode" insn "$out" >/dev/full 2>"$SCRATCH/err"
	is $? 1 "standard output is full: status 1"
fi
"$auxdecode" insn "$out" 2>"$SCRATCH/err" | head -n 1 >/dev/null
that "a closed pipe is no drama" "$SCRATCH/err" not grep -Eq 'Sanitizer|rror' "$SCRATCH/err"
cp fixtures/hello_thread.data "$SCRATCH/same.data"
run 2 "insn -o the file that is read" "$auxdecode" insn -o "$SCRATCH/same.data" "$SCRATCH/same.data"
that "it is left alone" - cmp -s fixtures/hello_thread.data "$SCRATCH/same.data"

finish
