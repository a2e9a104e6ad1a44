#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What users of perf, uftrace, magic-trace and ptxed type first: it works, or the
# answer names the command that does it, and nothing of the user's is touched.
. "$(dirname "$0")/lib.sh"

decode=$(realpath "$auxdecode") cap=$(realpath "$auxcap") prog=$(realpath "$programs/threads")
cd "$SCRATCH" || exit 1
"$cap" -q -e "soft_pt//u" -- "$prog" >/dev/null 2>err
ok $? "a recording" err
cp perf.data other.data

same() { # FILE FILE TEXT
	that "$3" err cmp -s "$1" "$2"
}

# answers STATUS PATTERN PROGRAM WORD...
answers() {
	local want=$1 pattern=$2 rc
	shift 2
	"$@" >out 2>err </dev/null
	rc=$?
	shift
	is $rc "$want" "$*: status $want"
	that "$*: $pattern" err grep -Eq -- "$pattern" out err
}

# ---- auxdecode: what works as elsewhere ----
"$decode" count perf.data >want 2>err
for words in "count" "count -i perf.data" "count -i other.data" "count --input other.data"; do
	# shellcheck disable=SC2086
	"$decode" $words >out 2>err
	is $? 0 "auxdecode $words: status 0" || cat err
	same want out "auxdecode $words: as with the word FILE"
done
mkdir empty
answers 2 "no FILE given, and no perf.data here" env -C empty "$decode" count
answers 2 "is one too many" "$decode" count -i perf.data other.data
answers 2 "takes one FILE" "$decode" count -i perf.data -i other.data
answers 2 "wants one to be named" "$decode" repair
answers 2 "no FILE given" "$decode" diff
"$decode" diff perf.data other.data >want 2>err
"$decode" diff -i perf.data -i other.data >out 2>err
same want out "diff -i A -i B"
"$decode" find main perf.data >want 2>err
"$decode" find main >out 2>err
same want out "find FUNCTION reads perf.data"
"$decode" find -i perf.data main >out 2>err
same want out "find -i FILE FUNCTION"
answers 0 "^usage: auxdecode \[COMMAND\]" "$decode" help
answers 0 "^usage: auxdecode calls" "$decode" help calls
answers 2 "no command \"such\"" "$decode" help such
answers 0 "^auxdecode [0-9]" "$decode" version
answers 0 "^usage: auxcap" "$cap" help
answers 0 "^auxcap [0-9]" "$cap" version
cp perf.data help
answers 0 "^usage" "$decode" help
answers 0 "thread" "$decode" count ./help

# ---- columns ----
columns() { # FIELDS: the titles
	"$decode" insn -n 1 -F "$1" 2>/dev/null | sed -n 's/^#\(cpu\|pid\|tid\|  *pid\) */\1 /p' | tr -s ' '
}
is "$(columns +insn)" "$(columns +sym)" "-F +NAME of a column that is there"
that "-F +comm,+dso" - grep -q "comm dso" <(columns +comm,+dso)
that "-F -cpu takes it away" - not grep -q cpu <(columns -cpu)
that "-F -pid leaves tid" - grep -q " tid time" <(columns -pid)
answers 2 "columns to, tosym" "$decode" insn -F +addr
answers 2 "branch has the column kind" "$decode" insn -F ip,flags
answers 2 "no column \"nothing\"; -F takes" "$decode" insn -F +nothing

# ---- words of others ----
while read -r words; do
	# shellcheck disable=SC2086
	answers 2 '(`auxdecode|`auxcap|`--|--cpu|2>/dev/null|no addresses of data|nanosecond)' "$decode" $words
done <<'EOF'
export --to csv perf.data
export --to ctf perf.data
export --to json perf.data
profile --to propeller perf.data
profile --to csspgo perf.data
coverage --to cobertura perf.data
script
script perf.data
script --call-ret-trace perf.data
top
stat perf.data
evlist
header perf.data
archive perf.data
inject perf.data
sched perf.data
c2c perf.data
replay
graph perf.data
stats perf.data
tui perf.data
list
data convert perf.data
record
report --stdio
report --sort sym
report --no-children
report -g
--itrace=i100us perf.data
--itrace cr
--insn-trace
--call-trace
--graph-function main
--header-only
-D perf.data
-k vmlinux
-q perf.data
--ns
--percent-limit 1
lock contention
kvm stat
ftrace
probe main
iostat
--kind call
--reltime
--json
-x ,
--dlfilter x.so
-s x.py
--pt t --raw a.out:0x1000
--pt t --raw f:0
-ss_dir D -decode
EOF
answers 2 'no command "script": `auxdecode insn' "$decode" script -s x.py
answers 2 'no command "script": `auxdecode insn' "$decode" script --call-ret-trace other.data
answers 2 'no command "data": `auxdecode export' "$decode" data convert --to-json x
answers 2 'summary --json' "$decode" --json other.data
answers 2 "no command \"insnn\"; did you mean insn" "$decode" insnn perf.data
answers 2 "did you mean --symfs" "$decode" --synfs / perf.data
answers 0 "" "$decode" count --time 10%-90% other.data
answers 2 "the command comes first: auxdecode count" "$decode" --time 10%-90% count
answers 2 "in percent is 10%-20%" "$decode" count --time 10% other.data
answers 2 "A, is from A on" "$decode" count --time 353.5286- other.data
answers 2 "separated by commas" "$decode" insn -F ip:sym other.data

# ---- the same by perf's names ----
for words in "-C 0" "--dso ls" "-S main" "--symbols main"; do
	# shellcheck disable=SC2086
	"$decode" hot $words other.data >out 2>err
	that "hot $words is taken" err not grep -q 'error: hot takes' err
done

# ---- what has no name, and what no number ----
"$cap" -q -e soft_pt/cyc=0/u -o coarse.data -- ls >/dev/null 2>&1
answers 0 "counts no cycles: record them with cyc" "$decode" calls -F cycles,sym -n 2 coarse.data
"$cap" -q --per-thread -e soft_pt/tsc=0,mtc=0,cyc=0/u -o bare.data -- ls >/dev/null 2>&1
answers 0 "has no times: record them with tsc" "$decode" calls -F dur,sym -n 2 bare.data
place=$("$decode" hot --module ls -n 99 coarse.data 2>/dev/null | grep -o '\[ls+0x[0-9a-f]*\]' | head -n 1)
that "code without symbols has functions by their place" - grep -q 0x - <<<"$place"
that "summary has the same" - grep -qF " $place (ls)" <("$decode" summary -n 999 coarse.data)
answers 0 "" "$decode" latency "$place" coarse.data
answers 0 "" "$decode" annotate "$place" coarse.data
that "hot --blocks has places, too" - grep -qE ' \[ls\+0x[0-9a-f]+\]\+0x[0-9a-f]+ ' <("$decode" hot --blocks --module ls coarse.data 2>/dev/null)
cp "$(type -P true)" node
"$cap" -q -o node.data -- ./node app.js 2>/dev/null
answers 1 "node --perf-basic-prof --interpreted" "$decode" find handleRequest node.data
cp node python3.11
"$cap" -q -o python.data -- ./python3.11 app.py 2>/dev/null
answers 1 "from Python 3.12 on" "$decode" find handle_request python.data

# ---- auxcap ----
# the header of an AArch64 program: no script for sh
printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0\1\0\0\0' >foreign
chmod +x foreign
answers 1 "soft_etm//u" "$cap" -o foreign.data ./foreign
answers 2 "traces all of a program .-- PROGRAM. or of what runs" "$cap" -e soft_pt//u -a -- true
rm -f perf.data
while read -r words; do
	# shellcheck disable=SC2086
	answers 2 '(`auxcap|`auxdecode|-e intel_pt//u|-e intel_pt//k|always|switch-output|-m ,SIZE|-F N|no-synth|perf, which|cs_etm//u|after =|leave it out|in braces|auxcap is recorded|--threads N|--when WHAT|`perf|`chrt)' "$cap" $words
done <<'EOF'
report
annotate
attach -p 1
-V
-b true
-j any,u true
-k mono true
--clockid mono true
-i true
--no-inherit true
-u root
--timestamp-filename true
--off-cpu true
--group true
--intr-regs true
-I true
-r 10 true
--vmlinux x true
--aio true
--exclude-perf true
--switch-output-event x true
-n true
--dry-run true
-trigger main true
-multi-snapshot true
-full-execution true
--duration 5
--app com.example
-S65536 true
-f 1000 true
-e cs-etm:u true
-e sched:* true
EOF
answers 2 '-e mem:ADDRESS:x' "$cap" -e breakpoint/bp_addr=0x401000/ -- true
answers 2 'the form is mem:ADDRESS' "$cap" -e mem:here:x -- true
answers 2 'mem:0x404040/8:w' "$cap" -e mem:0x404040/16:w -- true
answers 2 'error: --call-graph=dwarf: leave it out' "$cap" --call-graph=dwarf -e cpu-clock true
answers 2 'error: --call-graph=dwarf,8192: leave it out' "$cap" --call-graph dwarf,8192 -e cpu-clock true
answers 2 'error: --call-graph wants nothing or fp, not "sideways"' "$cap" --call-graph=sideways -e cpu-clock true
# what adds to samples is taken with traces alone
for words in -d -W -s --phys-data --switch-events --user-callchains; do
	answers 2 "takes $words with traces alone.*perf record $words" "$cap" -e cpu-clock $words true
done
answers 2 'follows user code alone' "$cap" -e soft_pt//u --all-kernel true
answers 2 'leave nothing' "$cap" -e cpu-clock --all-kernel --all-user true
answers 2 'takes no --bogus|no option --bogus' "$cap" --bogus true
that "nothing was recorded" - not test -e perf.data
if [ ! -d /sys/bus/event_source/devices/intel_pt ]; then
	answers 2 "soft_pt//u .* auxcap doctor" "$cap" -e intel_pt//u true
	answers 2 "soft_pt//u .* auxcap doctor" "$cap" -e intel_pt true
	answers 1 "soft_pt//u .* auxcap doctor" "$cap" list intel_pt
fi
answers 0 "^  soft_pt/mtc_period=N/u +MTC each" "$cap" list soft_pt
answers 0 "^  soft_etm/cycacc/u" "$cap" list soft_etm

# ---- options of perf record that change nothing are taken ----
taken() { # WORD...: the recording is there, the program has its words
	rm -f x.data args
	"$cap" -e soft_pt//u -o x.data "$@" sh -c 'echo "$@" >args' sh -d --call-graph dwarf >out 2>err
	is $? 0 "auxcap $*: recorded" || cat err
	is "$(cat args 2>/dev/null)" "-d --call-graph dwarf" "auxcap $*: words behind PROGRAM are its own"
	is "$(grep -c -v 'nothing lost' err)" 0 "auxcap $*: no word of it where there is no terminal" || cat err
}
taken -s -d -T -R -W -N -B
taken -sdTRWNB -P
taken -F 99 -g -m 512,4M --threads 2
taken --call-graph dwarf
taken --call-graph=dwarf,16384 -c 1000
taken --call-graph lbr --all-user
taken --sample-cpu --no-buildid --no-buildid-cache --buildid-all --strict-freq --num-thread-synthesize 4
taken --kernel-callchains --data --phys-data
"$cap" record -q -s -d -e soft_pt//u -o x.data true >out 2>err
ok $? "auxcap record -s -d" err
said() { # PATTERN WORD...: one line on a terminal
	local pattern=$1
	shift
	script -qec "'$cap' -e soft_pt//u -o x.data $* true" /dev/null >out 2>&1 </dev/null
	is "$(grep -c 'no need of it here' out)" 1 "auxcap $*: one line on a terminal" || cat out
	that "auxcap $*: $pattern" out grep -q -- "$pattern" out
}
said '-T: no need of it here: every record has its time' -T
said '-g -F -T -s -d: no need' -F 99 -g -s -d -T
script -qec "'$cap' -q -T -e soft_pt//u -o x.data true" /dev/null >out 2>&1 </dev/null
that "-q: not a word" out not grep -q 'no need' out
"$cap" -q -e cpu-clock -T -N -R -P -o x.data true >out 2>err
ok $? "of samples, what they have anyway" err

# A program of that name is run, but not without a word; after -- it is a program.
mkdir bin
printf '#!/bin/sh\nexit 0\n' >bin/stat
chmod +x bin/stat
PATH=$PWD/bin:$PATH "$cap" -e "soft_pt//u" -o x.data stat >out 2>err
is $? 0 "a program of the name is recorded" || cat err
that "not without a word" err grep -q '"stat" is no command of auxcap' err
PATH=$PWD/bin:$PATH "$cap" -e "soft_pt//u" -o x.data -- stat >out 2>err
is $? 0 "after --, it is a program" || cat err
that "without a word" err not grep -q 'no command' err

# ---- every command that an answer names is there, and takes those options ----
python3 - "$OLDPWD" >named <<'EOF'
import re, sys
for name in "decode", "capture":
    text = open(f"{sys.argv[1]}/{name}/cmd/habits.c").read()
    text = re.sub(r'"\s*\n\s*"', "", text)
    for line in re.findall(r"`(aux(?:decode|cap) [^`]*)`", text):
        print(line.replace("FILE", "x").replace("OUT", "y").replace("NAME", "main").replace("$(pgrep -d, -u USER)", "1").replace("PID", "1"))
EOF
that "answers name commands" named test "$(wc -l <named)" -gt 40
while read -r program words; do
	case $program$words in
	auxdecode--help | auxcap--version | auxcapdoctor) continue ;;
	auxdecode*) "$decode" $words --help >out 2>err </dev/null ;;
	auxcap*) "$cap" ${words%%-- *} --help >out 2>err </dev/null ;;
	esac
	is $? 0 "answer: $program $words"
done <named
finish
