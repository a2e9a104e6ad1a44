#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What else auxcap does with a PMU that has an AUX area.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

mkfifo commands answers
exec 5<>commands 6<>answers
ask() {
	echo "$1" >&5
	read -r -t 30 -u 6 said
	[ "$said" = ack ] || note "$1: '$said'"
}
starts() { awk -v p="^$1[.]cpu[0-9]+[.]starts" '$1 ~ p { n += $2 } END { print n + 0 }' "$sim/stat"; }

### when

# Looks, notes when, and runs until it is traced.
cat >delayed.sh <<-END
	mapfile -t lines <$sim/stat
	echo "\${EPOCHREALTIME/./}" >looked
	printf '%s\n' "\${lines[@]}" >before
	for ((i = 0; i < 40000; i++)); do
		mapfile -t lines <$sim/stat
		[[ " \${lines[*]}" != *" aux_sim.cpu"?".starts "[1-9]* ]] || break
	done
END
for delay in 800 4000 20000; do
	sim rate=2000000
	began=${EPOCHREALTIME/./}
	rec 0 "-D" -e aux_sim// -a -D $delay -- bash delayed.sh
	# A look that was too late proves nothing.
	[ $(($(cat looked) - began)) -ge $((delay * 1000)) ] || break
done
proven aux_sim "-D $delay"
is "$(starts aux_sim | sed 's/[1-9].*/some/') $(grep -c '\.starts 0' before)" "some 6" \
	"-D $delay: nothing ran before"
sim rate=2000000
"$auxcap" -o "$data" -e aux_sim// -a -D -1 --control fifo:commands,answers >"$out" 2>"$err" &
bg=$!
ask ping
is "$(starts aux_sim)" 0 "-D -1: disabled"
for ((i = 0; i < 3; i++)); do
	ask enable
	sleep 0.1
	ask disable
done
produced=$(awk '/^aux_sim.cpu[01].produced/ { n += $2 } END { print n }' "$sim/stat")
sleep 0.1
is "$(awk '/^aux_sim.cpu[01].produced/ { n += $2 } END { print n }' "$sim/stat")" "$produced" \
	"disabled: it stands still"
ask stop
rec_end 0 "enable, disable" && proven aux_sim "enabled three times"
is "$(awk '/^aux_sim.cpu[01].sessions/ { n += $2 } END { print n }' "$sim/stat")" 6 \
	"enabled three times on two CPUs"

### where to

sim rate=10000000
rec '0|3' "--switch-output" -e intel_pt// -a -m ,1M --switch-output=2M -- sleep 0.8
files=("$data".2*)
mv "${files[-1]}" "$data"
unset 'files[-1]'
earlier=()
for f in "${files[@]}"; do earlier+=(-f "$f"); done
proven intel_pt "--switch-output=2M: $((${#files[@]} + 1)) files" "${earlier[@]}"
[ ${#files[@]} -ge 1 ]
ok $? "--switch-output=2M: several files"
read_by_both "--switch-output, the first" "${files[0]}"
rm -f "${files[@]}"
sim rate=200000
timeout 300 "$auxcap" -q -e intel_pt// -a -o - -- sleep 0.3 2>"$err" | cat >"$data"
is "${PIPESTATUS[*]}" "0 0" "to a pipe" && proven intel_pt "to a pipe"
# perf script --no-itrace does not step over AUX data in a pipe.
timeout 300 perf report -D -i - <"$data" >"$out" 2>"$err"
is "$?$(grep -c 'PERF_RECORD_AUXTRACE size' "$out" | sed 's/^[1-9].*/ some/')" "0 some" \
	"to a pipe: perf reads it"
if "$auxcap" -q -z -e cpu-clock -o "$data" -- true 2>"$err"; then
	sim rate=5000000
	rec 0 "-z" -z -e intel_pt// -a -- sleep 0.3 && proven intel_pt "-z"
	read_by_both "-z"
	plain=$(stat -c %s "$data")
	sim rate=5000000
	rec 0 "--compress-aux" -z --compress-aux -e intel_pt// -a -- sleep 0.3 &&
		proven intel_pt "--compress-aux"
	[ "$(stat -c %s "$data")" -lt "$((plain / 2))" ]
	ok $? "--compress-aux: smaller by far"
	timeout 300 "$auxdecode" info "$data" >"$out" 2>"$err"
	ok $? "--compress-aux: auxdecode reads it" "$err"
else
	note "no zstd in this auxcap: $(head -n 1 "$err")"
fi

### what: filters, samples, events beside it, a cgroup

cp "$programs/counted" prog
main=$(nm prog | awk '$3 == "main" { print $1 }')
size=$(nm -S prog | awk '$4 == "main" { print $2 }')
sim rate=2000000
rec 0 "--filter" -e intel_pt//u --filter 'filter main @ /tmp/work/prog' -- \
	bash -c './prog 1; ./prog 1' && proven intel_pt "--filter"
mkfifo orders
sim rate=2000000
"$auxcap" -q -e intel_pt//u --filter 'filter main @ /tmp/work/prog' -o "$data" -- \
	"$PWD/prog" 1 <orders >"$out" 2>"$err" &
bg=$!
exec 7>orders
running intel_pt
cat $sim/filters >filters
exec 7>&-
rec_end 0 "--filter, of one program"
want=$(printf '0x%x-0x%x' $((16#$main)) $((16#$main + 16#$size - 1)))
that "--filter: the PMU got main's range $want" filters grep -q "filter $want\$" filters
sim rate=2000000
rec 0 "--aux-sample" -e '{intel_pt//u,cpu-clock/freq=500/u}' --aux-sample=4096 -- \
	bash -c 'busy 1000' && proven intel_pt "--aux-sample"
[ "$(field samples)" -ge 10 ]
ok $? "--aux-sample: $(field samples) samples of the newest bytes" "$log"
read_by_both "--aux-sample"
sim rate=2000000
rec 0 "events beside it" -e intel_pt// -e sched:sched_switch -e cpu-clock -F 500 -a -- \
	bash -c 'busy 100; sleep 0.1' && proven intel_pt "events beside it"
read_by_both "events beside it"
timeout 300 perf script --no-itrace -i "$data" -F event 2>/dev/null | sort | uniq -c >"$out"
[ "$(grep -cE 'sched:sched_switch|cpu-clock' "$out")" = 2 ]
ok $? "events beside it: $(tr -s ' \n' ' ' <"$out")"
# The perf_event controller is there once the tree has had a controller set.
group=/sys/fs/cgroup/traced
echo +pids >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group
bash -c busy_on &
target=$!
echo $target >$group/cgroup.procs
sim rate=2000000
rec 0 "-G" -e aux_sim// -a -G traced -- bash -c 'taskset -p 1 $$ >/dev/null; busy 300' &&
	proven aux_sim "-G: of one cgroup"
kill $target
wait $target 2>/dev/null
rmdir $group

### the other commands

timeout 300 "$auxcap" list >"$out" 2>"$err"
is "$?$(grep -cE '^ *(aux_sim|intel_pt|cs_etm)' "$out" | sed 's/^[1-9].*/ there/')" "0 there" \
	"auxcap list names the PMUs" || show "$out"
timeout 300 "$auxcap" list intel_pt >"$out" 2>"$err"
is "$?" 0 "auxcap list intel_pt" && that "with its terms" "$out" grep -q psb_period "$out"
timeout 300 "$auxcap" doctor >"$out" 2>"$err"
[ $? -le 1 ] && grep -q intel_pt "$out"
ok $? "auxcap doctor" "$out"
note "$(cat "$out")" | head -n 30
timeout 300 "$BUILD/tests/test_self" >"$out" 2>&1
is "$?$(grep -c '^not ok' "$out")" 00 "test_self, in the guest" || show "$out"
grep -i skip "$out" | sed 's/^/# test_self: /'

# perf's own files: auxdecode opens them
sim rate=2000000
timeout 300 perf record -q -B -N -e intel_pt//u -o p.data -- bash -c 'busy 100' >"$out" 2>&1
timeout 300 "$auxdecode" info p.data >"$out" 2>"$err"
is "$?$(grep -c 'AUX streams: [1-9]' "$out")" 01 "auxdecode reads perf's file" || show "$err"
kernel_quiet "modes"
echo "done"
