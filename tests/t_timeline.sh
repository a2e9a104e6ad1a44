#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The timeline beside perf: who each sample is of and what is mapped at its address,
# the fields of side-band records, cgroups, namespaces beside what the processes saw in
# /proc, and patched kernel code beside what /proc/kcore had there. Recordings of others come from the corpus, one is made here.
. "$(dirname "$0")/lib.sh"

view=$BUILD/timelineview
if ! have perf || ! perf --version >/dev/null 2>&1; then
	skip "perf is not installed (tools/deps install test)"
	finish
fi

# samples_perf FILE, samples_ours FILE: "TID TIME IP COMM DSO" of each sample, in
# order. perf names some modules by their stem, and code of a JIT by the place of its
# map; we name both as they were recorded. Thread 0 is in many processes.
short_names() {
	sed -E -e 's, \(deleted\)(\)?)$,\1,' \
		-e 's,/lib/modules/[^ ]*/([^/ ]*)\.ko(\)?)$,[\1]\2,' |
		sed -E -e ':a; s,(\[[^] ]*)-([^] ]*\]\)?)$,\1_\2,; ta'
}

samples_perf() {
	perf script -G --no-itrace --ns -F pid,tid,time,comm,ip,sym,dso -i "$1" \
		2>/dev/null | short_names | sed -nE \
		-e 's,\(/tmp/perf-[0-9]+\.map\)$,(//anon),' \
		-e 's,^ *(.*[^ ]) +-?[0-9]+/(-?[0-9]+) +([0-9]+)\.([0-9]+): +([0-9a-f]+) .*\(([^(]*)\)$,\2 \3\4 \5 "\1" \6,p' |
		sed 's/^-1 \([0-9]*\) \([0-9a-f]*\) ":-1"/-1 \1 \2 ""/' | sort
}

samples_ours() {
	"$view" "$1" | sed -E -e 's,^cpu [0-9]+: -?[0-9]+ ,,' -e 's,^[^/]*/,,' |
		short_names | sort
}

# Newer perfs forget a thread's name when it exits, and show what it runs after that
# as ":TID": for those alone, the name that we have.
forgets=
case $(perf --version) in
"perf version "[0-5].* | "perf version 6."[01][.-]* | "perf version 6."[01]) ;;
*) forgets=1 ;;
esac
named_as_ours() {
	if [ "$forgets" ]; then
		awk '{ key = $1 " " $2 " " $3 }
			NR == FNR { line[key] = $0; next }
			$4 == "\":" $1 "\"" && key in line { $0 = line[key] }
			1' "$SCRATCH/ours" - | sort
	else
		cat
	fi
}

# same_samples NAME FILE N: all samples are the same, but N that perf sees otherwise
same_samples() {
	local n
	if perf script -i "$2" 2>&1 | grep -q '^incompatible file format'; then
		skip "$1: this perf reads files of so old a perf no more"
		return
	fi
	samples_ours "$2" >"$SCRATCH/ours"
	samples_perf "$2" | named_as_ours >"$SCRATCH/perf"
	n=$(wc -l <"$SCRATCH/ours")
	diff "$SCRATCH/perf" "$SCRATCH/ours" >"$SCRATCH/diff"
	is "$(grep -c '^>' "$SCRATCH/diff")" "$3" "$1: $n samples, as perf sees them" ||
		head -n 5 "$SCRATCH/diff" | sed 's/^/#   /'
	that "$1: perf has them all" "$SCRATCH/diff" \
		test "$n" = "$(wc -l <"$SCRATCH/perf")" -a "$n" -gt 0
}

quipper=$corpus/quipper/src/quipper/testdata
if [ -d "$quipper" ]; then
	for name in armv7.perf_3.14-3.8 busy.1-3.4 forkexit-3.8 hw_and_sw-3.4 i686-3.4 \
		callgraph_and_branch-3.4 piped.target-3.8 systemwide.5-3.4 \
		throttle-3.8 piped.header_feautres_group_desc-6.8 \
		ctx_switch_namespaces-4.14; do
		same_samples "$name" "$quipper/perf.data.$name" 0
	done
	# Three samples whose cpumode and address do not go together.
	same_samples lost_samples-4.4 "$quipper/perf.data.lost_samples-4.4" 3
else
	skip "corpus: no recorded traces at $corpus (set AUXKIT_CORPUS)" "samples"
fi

# records_perf FILE, records_ours FILE: side-band records in one form
records_perf() {
	perf script --show-task-events --show-namespace-events --show-cgroup-events \
		--show-bpf-events -i "$1" 2>/dev/null |
		awk '/PERF_RECORD_NAMESPACES/ { getline a; getline b; print $0 a b; next } 1' |
		sed -nE \
		-e 's,.*RECORD_KSYMBOL addr (\w+) len (\w+) type (\w+) flags 0x(\w+) name (.*),KSYMBOL \1 \2 \3 \4 \5,p' \
		-e 's,.*RECORD_BPF_EVENT type (\w+)\, flags (\w+)\, id (\w+).*,BPF \1 \2 \3,p' \
		-e 's,.*RECORD_CGROUP cgroup: ([0-9]+) (.*),CGROUP \1 \2,p' \
		-e 's,.*RECORD_(FORK|EXIT)\(([0-9]+):([0-9]+)\):\(([0-9]+):([0-9]+)\).*,\1 \2 \3 \4 \5,p' \
		-e 's,.*RECORD_COMM( exec)?: (.*):([0-9]+)/([0-9]+)$,COMM\1 \3 \4 \2,p' \
		-e '/RECORD_NAMESPACES/ { s,.*NAMESPACES ([0-9]+)/([0-9]+) - nr_namespaces: ([0-9]+),NS \1 \2 \3,; s,[][\,\t],,g; s, ?[0-9]/([a-z]+: ), \1,g; s/ +/ /g; s/ $//; p }' |
		sort
}

records_ours() {
	"$auxdecode" dump "$1" | sed -E -e 's/^0x[0-9a-f]+ \[[0-9]+\] //' -e 's/ \| .*//' |
		sed -nE \
		-e 's,^KSYMBOL addr 0x(\w+) len (\w+) type (\w+) .*flags (0x)?(\w+) (\(unregister\) )?(.*),KSYMBOL \1 \2 \3 \5 \7,p' \
		-e 's,^BPF_EVENT type (\w+) \(\w+\) flags (0x)?(\w+) id (\w+) .*,BPF \1 \3 \4,p' \
		-e 's,^CGROUP id (\w+) (.*),CGROUP \1 \2,p' \
		-e 's,^(FORK|EXIT) pid (\w+) tid (\w+) ppid (\w+) ptid (\w+) .*,\1 \2 \3 \4 \5,p' \
		-e 's,^COMM pid (\w+) tid (\w+)( exec)? (.*),COMM\3 \1 \2 \4,p' \
		-e '/^NAMESPACES/ { s,^NAMESPACES pid (\w+) tid (\w+) n ,NS \1 \2 ,; p }' |
		awk '$1 != "NS" { print; next }
		{
			printf "NS %s %s %s", $2, $3, $4
			for (i = 5; i < NF; i += 2) {
				split($(i + 1), v, "/")
				sub(/^0x/, "", v[1])
				printf " %s: %s/%s%x", $i, v[1], v[2] ? "0x" : "0", v[2]
			}
			print ""
		}' | sed 's,/00,/0,g' | sort
}

cat >"$SCRATCH/load" <<'LOAD'
for i in 1 2 3 4 5; do
	(: ; exec sh -c 'cat /proc/self/maps | sort >/dev/null')
done
# Each says which namespaces it is in. In a chroot, unshare cannot change how mounts
# propagate: it would end, in its new namespaces, before the second has said a word.
ns='echo $$ $(cd /proc/$$/ns && readlink net uts ipc pid user mnt cgroup) >>"$1"'
sh -c "$ns" sh "$1"
unshare -n -m --propagation unchanged sh -c "$ns" sh "$1" 2>/dev/null || :
LOAD
: >"$SCRATCH/ns"
data=$SCRATCH/here.data
if perf record -q -e cpu-clock --namespaces --all-cgroups -o "$data" -- \
	sh "$SCRATCH/load" "$SCRATCH/ns" >"$SCRATCH/log" 2>&1 ||
	perf record -q -e cpu-clock:u --namespaces -o "$data" -- \
	sh "$SCRATCH/load" "$SCRATCH/ns" >"$SCRATCH/log" 2>&1; then
	same_samples "recorded here" "$data" 0
	records_perf "$data" >"$SCRATCH/perf"
	records_ours "$data" >"$SCRATCH/ours"
	diff "$SCRATCH/perf" "$SCRATCH/ours" >"$SCRATCH/diff"
	ok $? "recorded here: $(wc -l <"$SCRATCH/ours") records with perf's fields" "$SCRATCH/diff"
	that "recorded here: of every kind" "$SCRATCH/ours" test \
		"$(cut -d' ' -f1 "$SCRATCH/ours" | sort -u | grep -cE '^(COMM|EXIT|FORK|NS)$')" = 4
	"$auxdecode" info "$data" >"$SCRATCH/info"
	sed -n 's/^CGROUP //p' "$SCRATCH/perf" >"$SCRATCH/want"
	sed -n '/^cgroups:/,/^[^ ]/ s/^  //p' "$SCRATCH/info" | sort >"$SCRATCH/ours"
	diff "$SCRATCH/want" "$SCRATCH/ours" >"$SCRATCH/diff"
	ok $? "recorded here: info has perf's $(wc -l <"$SCRATCH/ours") cgroups" "$SCRATCH/diff"
	# The first process left none; the second is in those that unshare made.
	sed -n '/^namespaces:/,/^[^ ]/ s/^  [^:]*: //p' "$SCRATCH/info" >"$SCRATCH/ours"
	awk 'NR == 1 { for (i = 2; i <= NF; i++) printf "%s%s", first[i] = $i, i < NF ? " " : "\n" }
		NR > 1 { text = ""
			for (i = 2; i <= NF; i++)
				if ($i != first[i])
					text = text (text ? " " : "") $i
			print text }' "$SCRATCH/ns" >"$SCRATCH/want"
	diff "$SCRATCH/want" "$SCRATCH/ours" >"$SCRATCH/diff"
	ok $? "recorded here: info has the $(wc -l <"$SCRATCH/ours") sets of namespaces" \
		"$SCRATCH/diff"
else
	skip "hardware: the kernel refuses perf events here" "recorded here"
fi

# Bytes by address at a time: "ADDR BYTE", of all mappings with bytes.
bytes_at() {
	"$view" "$1" -1 "$2" | awk '
		function hex(s,  i, v) {
			for (i = 1; i <= length(s); i++)
				v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
			return v
		}
		/ bytes / {
			# The low half is enough, and exact in a double.
			at = hex(substr($1, 9, 8))
			for (i = 0; 2 * i < length($NF); i++)
				printf "%.0f %s\n", at + i, substr($NF, 2 * i + 1, 2)
		}' | sort
}

# fixtures/pokes.kcore: "WHEN ADDR BYTES", read when recording began and ended.
for when in begin end; do
	[ $when = begin ] && time=0 || time=18446744073709551615
	bytes_at fixtures/pokes.data $time >"$SCRATCH/ours"
	awk -v w=$when '
		function hex(s,  i, v) {
			for (i = 1; i <= length(s); i++)
				v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1
			return v
		}
		$1 == w {
			at = hex(substr($2, 9, 8))
			for (i = 0; 2 * i < length($3); i++)
				printf "%.0f %s\n", at + i, substr($3, 2 * i + 1, 2)
		}' fixtures/pokes.kcore | sort -u >"$SCRATCH/kcore"
	comm -23 "$SCRATCH/kcore" "$SCRATCH/ours" >"$SCRATCH/diff"
	that "patched kernel code, $when: $(wc -l <"$SCRATCH/kcore") bytes as in memory" \
		"$SCRATCH/diff" test ! -s "$SCRATCH/diff" -a -s "$SCRATCH/kcore"
done
finish
