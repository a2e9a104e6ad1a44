#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The file of -o, for every command: a mistake on the command line, bad input and a
# full disk leave what was there as it was; success replaces all of it, and keeps the
# file's mode, links to it, and what is no regular file.
. "$(dirname "$0")/lib.sh"

o=$SCRATCH/output
mkdir -p "$o"
f="--symfs fixtures/symfs"
data=fixtures/hello_cyc.data
printf 'TN:\nSF:/a.c\nDA:1,1\nLF:1\nLH:1\nend_of_record\n' >"$o/in.lcov"
printf 'a;b 2\n' >"$o/in.folded"
"$auxdecode" profile $f -o "$o/in.list" "$data" 2>"$SCRATCH/err"
"$auxdecode" export --to pprof $f -o "$o/in.pprof" "$data" 2>"$SCRATCH/err"
is $? 0 "inputs made" || sed 's/^/#   /' "$SCRATCH/err"
head -c 5000 "$data" >"$o/in.bad"
# a killed recording, for repair: without its end
head -c -200 "$data" >"$o/in.killed"

reference=
[ -z "$(no_libipt)" ] || reference="--reference pt"

# NAME | what is to work | what is a mistake | bad input
cases="
insn|insn $f $data|insn --syntax none $data|insn $o/in.bad
branch|branch $f $data|branch -F none $data|branch $o/in.bad
count|count $f $data|count --sha256 --tid x $data|count $o/in.bad
calls|calls $f $data|calls -F none $data|calls $o/in.bad
flame|flame $f $data|flame --by none $data|flame $o/in.bad
hot|hot $f $data|hot --by none $data|hot $o/in.bad
latency|latency $f work $data|latency --by none work $data|latency work $o/in.bad
report|report $f $data|report --limit x $data|report $o/in.bad
summary|summary $f $data|summary --functions x $data|summary $o/in.bad
info|info $data|info --none $data|info $o/none
dump|dump $data|dump --limit x $data|dump $o/none
raw|raw $data|raw --limit x $data|raw $o/none
diff|diff $f $data $data|diff --only none $data $data|diff $data $o/in.bad
verify|verify $reference $f $data|verify --reference none $data|verify $o/none
annotate|annotate --to json $f $data|annotate --to none work $data|annotate --to json $o/in.bad
lcov|coverage --to drcov $f $data|coverage --to none $data|coverage --to lcov $o/in.bad
afl|coverage --to afl $f $data|coverage --to afl --tid x $data|coverage --to afl $o/in.bad
profile|profile $f $data|profile --to propeller $data|profile $o/in.bad
bolt|profile --to bolt $f $data|profile --to bolt --limit x $data|profile --to bolt $o/in.bad
profile_list|profile $o/in.list|profile --to perf $o/in.list|profile --to bolt --module none $o/in.list
profile_perf|profile --to perf --period 1 $f $data|profile --to perf --period x $data|profile --to perf $o/in.bad
bundle|bundle $f $data|bundle --none $data|bundle $o/in.bad
cut|cut --tid 10737 $data|cut $data|cut --tid 1 $o/none
merge|merge $data $data|merge $data|merge $data $o/in.folded
merge_lcov|merge $o/in.lcov $o/in.lcov|merge $o/in.lcov|merge $o/in.lcov $o/in.folded
merge_folded|merge $o/in.folded $o/in.folded|merge $o/in.folded|merge $o/in.folded $o/in.lcov
merge_list|merge $o/in.list $o/in.list|merge $o/in.list|merge $o/in.list $o/in.folded
merge_pprof|merge $o/in.pprof $o/in.pprof|merge $o/in.pprof|merge $o/in.pprof $o/in.folded
repair|repair $o/in.killed|repair --none $o/in.killed|repair $o/in.folded
"
for to in perfetto chrome fxt firefox speedscope pprof callgrind sqlite jsonl; do
	cases="$cases$to|export --to $to $f $data|export --to $to --limit x $data|export --to $to $o/in.bad
"
done

# untouched NAME TEXT: the good file is what it was, and nothing lies beside it
untouched() {
	that "$1: $2: the file is as it was" "$SCRATCH/err" cmp -s "$o/good" "$o/dir/good"
	is "$(ls -A "$o/dir")" good "$1: $2: nothing lies beside it"
}

echo "what was there" >"$o/good"
while IFS='|' read -r name works mistake bad; do
	[ -n "$name" ] || continue
	rm -rf "$o/dir"
	mkdir "$o/dir"
	cp "$o/good" "$o/dir/good"
	# shellcheck disable=SC2086
	"$auxdecode" $mistake -o "$o/dir/good" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 2 "$name: a mistake: status"
	untouched "$name" "a mistake"
	# shellcheck disable=SC2086
	"$auxdecode" $bad -o "$o/dir/good" >"$SCRATCH/out" 2>"$SCRATCH/err"
	rc=$?
	if [ $rc = 3 ]; then	# it begins well: a result, with gaps
		ok 0 "$name: bad input: status"
		cp "$o/good" "$o/dir/good"
	else
		is "$(( rc == 1 || rc == 2 ))" 1 "$name: bad input: status"
		untouched "$name" "bad input"
	fi
	# no file may grow: messages go through a pipe
	# shellcheck disable=SC2086
	(ulimit -f 0; "$auxdecode" $works -o "$o/dir/good" 2>&1 >&3; echo "status $?") 3>&1 |
		cat >"$SCRATCH/err"
	is "$(tail -n 1 "$SCRATCH/err")" "status 1" "$name: a full disk: status" || sed 's/^/#   /' "$SCRATCH/err"
	untouched "$name" "a full disk"
	chmod 640 "$o/dir/good"
	ln -s good "$o/dir/link"
	# shellcheck disable=SC2086
	"$auxdecode" $works -o "$o/dir/link" >"$SCRATCH/out" 2>"$SCRATCH/err"
	is $? 0 "$name: works: status" || sed 's/^/#   /' "$SCRATCH/err"
	is "$(cmp -s "$o/good" "$o/dir/good"; echo $?) $(stat -c %a "$o/dir/good") $(readlink "$o/dir/link") $(wc -c <"$SCRATCH/out")" \
		"1 640 good 0" "$name: written, with the same mode, through the link"
done <<<"$cases"

# a directory of files
rm -rf "$o/dir" && mkdir "$o/dir"
"$auxdecode" coverage --to sancov $f -o "$o/dir" "$data" 2>"$SCRATCH/err"
is $? 0 "sancov: written" || sed 's/^/#   /' "$SCRATCH/err"
one=$(ls "$o/dir")
echo good >"$o/dir/$one"
(ulimit -f 0; "$auxdecode" coverage --to sancov $f -o "$o/dir" "$data" 2>&1; echo "status $?") | cat >"$SCRATCH/err"
is "$(tail -n 1 "$SCRATCH/err") $(cat "$o/dir/$one") $(ls -A "$o/dir" | wc -l)" "status 1 good 1" "sancov: a full disk"

# ---- what is not replaced ----
"$auxdecode" count $f -o "$o/new" "$data" 2>"$SCRATCH/err"
is "$(stat -c %a "$o/new")" "$(printf '%o' $((0666 & ~$(umask))))" "a new file has the mode of the umask"
# Without /proc an unnamed file cannot be given a name, so the bytes are copied.
without_proc='mount -t tmpfs none /proc && exec "$@"'
if [ "${SAN:-}" = 1 ]; then
	skip "the sanitizers read their options in /proc" "a new file without /proc"
elif unshare -m --propagation unchanged sh -c "$without_proc" sh true 2>"$SCRATCH/err"; then
	unshare -m --propagation unchanged sh -c "$without_proc" sh \
		"$auxdecode" count $f -o "$o/new2" "$data" 2>"$SCRATCH/err"
	is "$? $(stat -c %a "$o/new2")" "0 $(stat -c %a "$o/new")" "a new file without /proc: its mode"
	that "a new file without /proc: its text" - cmp -s "$o/new" "$o/new2"
else
	skip "no mount in a namespace of its own here" "a new file without /proc"
fi
echo before >"$o/app"
"$auxdecode" count $f -o /dev/stdout "$data" >>"$o/app" 2>"$SCRATCH/err"
is "$(cat "$o/app")" "before
$(cat "$o/new")" "-o /dev/stdout: where standard output stands"
is "$("$auxdecode" count $f -o /dev/stdout "$data" 2>"$SCRATCH/err" | cat)" "$(cat "$o/new")" "-o /dev/stdout: a pipe"
prog=$(realpath "$auxdecode") in=$(realpath "$data") root=$(realpath fixtures/symfs)
is "$(cd "$o" && "$prog" count --symfs "$root" -o - "$in" 2>"$SCRATCH/err" | cat; ls -- "$o"/- 2>/dev/null)" \
	"$(cat "$o/new")" "-o -: standard output, and no file of that name"
mkfifo "$o/fifo"
cat "$o/fifo" >"$o/read" &
"$auxdecode" count $f -o "$o/fifo" "$data" 2>"$SCRATCH/err"
wait $!
is "$(cat "$o/read")" "$(cat "$o/new")" "-o a FIFO: written to"
that "-o a FIFO: still one" - test -p "$o/fifo"
"$auxdecode" count $f -o /dev/full "$data" 2>"$SCRATCH/err"
is $? 1 "-o /dev/full: status"
"$auxdecode" export --to sqlite $f -o /dev/null "$data" 2>"$SCRATCH/err"
is $? 2 "sqlite does not write to a device"
that "sqlite does not write to a device: says so" "$SCRATCH/err" grep -q 'not a regular file' "$SCRATCH/err"
echo old >"$o/hard"
ln "$o/hard" "$o/hard2"
"$auxdecode" count $f -o "$o/hard" "$data" 2>"$SCRATCH/err"
is "$(cat "$o/hard2")" "$(cat "$o/new")" "both names of a file show what was written"
ln -s nowhere "$o/dangling"
"$auxdecode" count $f -o "$o/dangling" "$data" 2>"$SCRATCH/err"
is "$(cat "$o/nowhere") $(readlink "$o/dangling")" "$(cat "$o/new") nowhere" "a link to no file yet"
# Root may write anywhere, unless it gives that up.
ordinary=()
[ "$(id -u)" != 0 ] || ordinary=(setpriv --bounding-set=-dac_override --inh-caps=-dac_override)
mkdir "$o/closed"
echo old >"$o/closed/file"
chmod 555 "$o/closed"
"${ordinary[@]}" "$auxdecode" count $f -o "$o/closed/file" "$data" 2>"$SCRATCH/err"
is "$(cat "$o/closed/file")" "$(cat "$o/new")" "a file in a directory that may not be written"
chmod 755 "$o/closed"
chmod 444 "$o/hard"
"${ordinary[@]}" "$auxdecode" insn $f -o "$o/hard" "$data" 2>"$SCRATCH/err"
is $? 1 "a file that may not be written: status"
is "$(cat "$o/hard2")" "$(cat "$o/new")" "a file that may not be written: as it was"
cp "$data" "$o/copy"
for c in "insn $o/copy" "export --to sqlite $o/copy" "profile --to perf $o/copy" "bundle $o/copy" \
	"diff $data $o/copy" "merge $data $o/copy"; do
	# shellcheck disable=SC2086
	"$auxdecode" $c -o "$o/copy" 2>"$SCRATCH/err" >"$SCRATCH/out"
	is "$? $(cmp "$data" "$o/copy" && echo same)" "2 same" "${c%% *}: -o is not the input"
done

# ---- auxcap ----
rm -rf "$o/dir" && mkdir "$o/dir" && cp "$o/good" "$o/dir/good"
for mistake in "-e none//" "-e soft_pt//u -a" "--nonsense" "-e soft_pt//u --truth $o/dir/good -a"; do
	# shellcheck disable=SC2086
	"$auxcap" -o "$o/dir/good" $mistake -- /bin/true >"$SCRATCH/out" 2>"$SCRATCH/err"
	is "$(($? != 0))" 1 "auxcap $mistake: a mistake"
	untouched auxcap "$mistake"
done
"$auxcap" -o "$o/dir/good" -e soft_pt//u -- /nonexistent/program >"$SCRATCH/out" 2>"$SCRATCH/err"
untouched auxcap "no such program"
"$auxcap" repair -o "$o/dir/good" "$o/in.killed" >"$SCRATCH/out" 2>"$SCRATCH/err"
ok 0 "auxcap repair -o: status $?"
that "auxcap repair -o replaces no file, or all of it" - eval 'cmp -s "$o/good" "$o/dir/good" || [ -s "$o/dir/good" ]'

# Rows that wait to be sorted, and no room for them in $TMPDIR.
disk=$SCRATCH/disk
mkdir "$disk"
if have perl && small_disk "sorting without room" 64; then
	"$auxcap" -q -e soft_pt//u -o "$SCRATCH/calls.data" -- perl -e \
		'my %t; $t{$_ % 977} += length(sprintf "%d", $_) for 0 .. 16000' >/dev/null 2>"$SCRATCH/err"
	TMPDIR=$disk "$auxdecode" export --to sqlite -o "$o/dir/calls.db" "$SCRATCH/calls.data" 2>"$SCRATCH/err"
	is $? 1 "sorting without room: status 1"
	that "sorting without room: the place and the reason" "$SCRATCH/err" \
		grep -q 'TMPDIR.*cannot be written: No space left on device' "$SCRATCH/err"
	that "sorting without room: no file" - test ! -e "$o/dir/calls.db"
	umount "$disk"
fi
finish
