#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# not emulated: decoders are held against libipt, which only x86 has
#
# soft_pt/native: programs that people run, with threads, signals, code that they make
# themselves, and tracers among them. Each has the output and the status that it has
# alone, nothing is lost, and its flow is what ran.
#
#	tests/t_zoo.sh CASE...	only these
#	LONG=1			with more to do, and those with threads and signals 100 times
. "$(dirname "$0")/lib.sh"
need_soft

data=$SCRATCH/z.data truth=$SCRATCH/z.truth log=$SCRATCH/z.log
pick=" $* "
wanted() { [ "$pick" = "  " ] || [[ $pick == *" $1 "* ]]; }
# few MANY FEW: the first one with LONG=1
few() { if [ -n "${LONG:-}" ]; then echo "$1"; else echo "$2"; fi; }
same=lines	# what makes the output of two runs comparable
named=		# processes are not traced, which is told

# zoo NAME COMMAND...
zoo() {
	local text=$1 rc bare ends
	shift
	timeout -k 5 300 "$@" </dev/null >"$SCRATCH/bare" 2>"$SCRATCH/bare.err"
	bare=$?
	rm -f "$data" "$truth"
	timeout -k 5 900 "$auxcap" --exit-status -e soft_pt/native/u -o "$data" --truth "$truth" \
		-- "$@" </dev/null >"$SCRATCH/out" 2>"$log"
	rc=$?
	# 3: auxcap's own
	[ -n "$named" ] && [ $rc = 3 ] && rc=$(sed -n 's/.* exited with status \([0-9]*\)$/\1/p' "$log" |
		grep . || echo 0)
	is "$rc" "$bare" "$text: the status that it has alone" || sed 's/^/#   /' "$log"
	diff <($same "$SCRATCH/bare") <($same "$SCRATCH/out") >"$SCRATCH/diff"
	ok $? "$text: the output that it has alone" "$SCRATCH/diff"
	if [ -z "$named" ]; then
		that "$text: nothing is lost" "$log" grep -q 'nothing lost$' "$log"
		matches "$text"
		return
	fi
	that "$text: what it traces itself is named, and nothing else is lost" "$log" grep -qE \
		'^auxcap: not traced: .*: it is traced by the program that started it$|lost: [0-9]* process(es)? \(not traced\)$' "$log"
	"$auxdecode" insn -F tid,ip "$data" 2>"$SCRATCH/err" | "$truthcmp" -q "$truth" >"$SCRATCH/cmp"
	ends=("${PIPESTATUS[@]}")
	is "${ends[*]}" "3 0" "$text: what ran is in the trace" || cat "$SCRATCH/err" "$SCRATCH/cmp"
}

lines() { cat "$1"; }
words() { sed 's/[0-9.]*//g; s/  */ /g' "$1"; }

java_source() {
	cat >"$SCRATCH/Zoo.java" <<'END'
public class Zoo {
	public static void main(String[] a) throws Exception {
		int loops = Integer.parseInt(a[0]);
		Thread[] t = new Thread[20];
		long[] r = new long[20];
		for (int k = 0; k < 20; k++) {
			int q = k;
			t[k] = new Thread(() -> {
				java.util.HashMap<Integer, Integer> m = new java.util.HashMap<>();
				long s = 0;
				for (int i = 0; i < loops; i++) {
					m.merge(i % 97, i * 3 % 101, Integer::sum);
					try {
						if (i % 500 == q)
							throw new RuntimeException("x");
						s += i ^ q;
					} catch (RuntimeException e) {
						s--;
					}
				}
				for (int v : m.values())
					s += v;
				r[q] = s;
			});
			t[k].start();
		}
		long s = 0;
		for (int k = 0; k < 20; k++) {
			t[k].join();
			s += r[k];
		}
		System.out.println(s);
	}
}
END
	javac -d "$SCRATCH" "$SCRATCH/Zoo.java" 2>"$log"
}

go_source() {
	cat >"$SCRATCH/zoo.go" <<'END'
package main

import "fmt"

func work(n int, c chan<- int) {
	defer func() { c <- n + len(fmt.Sprint(recover())) }()
	m := map[int]int{}
	for i := 0; i < 2000; i++ {
		m[i%97] += i * n
	}
	var none []int
	n += m[5]
	none[n] = 1
}

func main() {
	c := make(chan int)
	for i := 0; i < 40; i++ {
		go work(i, c)
	}
	s := 0
	for i := 0; i < 40; i++ {
		s += <-c
	}
	fmt.Println(s % 1000 >= 0)
}
END
	GOCACHE=$SCRATCH/gocache GOFLAGS=-p=1 go build -o "$SCRATCH/zoo_go" "$SCRATCH/zoo.go" 2>"$log"
}

case_zoo() {
	local n
	case $1 in
	perl) zoo "$1" perl -e 'my %h; $h{$_ % 97} .= chr(65 + $_ % 26) for 1 .. 20000; my $n = 0;
		for (sort keys %h) { $n++ while $h{$_} =~ /A.?B/g; } print "$n\n"' ;;
	git) zoo "$1" git log --stat -n "$(few 500 5)" ;;
	gcc)
		printf '#include <stdio.h>\n#include <math.h>\nint f(int x) { printf("%%d", x); return sin(x) > x; }\n' \
			>"$SCRATCH/f.c"
		zoo "$1" gcc -O2 -S -o - "$SCRATCH/f.c" ;;
	bash) zoo "$1" bash -c 'for i in {1..20}; do echo $((i * 7919 % 101)) | (sort | tac); done | md5sum
		trap "echo usr" USR1; kill -USR1 $$; (exit 3) | cat; echo ${PIPESTATUS[0]}; wait; exit 5' ;;
	openssl)
		zoo "$1" sh -c 'seq 9999 | openssl dgst -sha512; seq 999 | openssl enc -aes-128-cbc -pbkdf2 -pass pass:x -S 00 -a'
		same=words zoo "openssl speed" openssl speed -seconds 1 -bytes 64 -evp md5
		same=lines ;;
	node) zoo "$1" node -e 'const m = new Map(); let s = 0;
		for (let i = 0; i < '"$(few 3000000 20000)"'; i++) m.set(i % 977, (m.get(i % 977) || 0) + i * 3 % 101);
		for (const v of m.values()) s += v;
		try { null.x } catch (e) { s += e.message.length }
		setTimeout(() => console.log(s, /a+b/.test("x".repeat(99) + "aab")), 5)' ;;
	java) zoo "$1" java -cp "$SCRATCH" Zoo "$(few 100000 1000)" ;;
	multiprocessing) zoo "$1" /usr/bin/python3 -c 'import multiprocessing as m
def f(x): return sum(i * x for i in range(1000))
if __name__ == "__main__":
    with m.Pool(3) as p: print(sum(p.map(f, range(30))))' ;;
	pythreads) zoo "$1" /usr/bin/python3 -c 'import threading, signal, os
n = []; signal.signal(signal.SIGALRM, lambda *a: n.append(1)); signal.setitimer(signal.ITIMER_REAL, .001, .001)
t = [threading.Thread(target=lambda: sorted(str(i) for i in range(2000))) for i in range(8)]
[x.start() for x in t]; [x.join() for x in t]
while not n: pass
signal.setitimer(signal.ITIMER_REAL, 0); print(len(t), bool(n))' ;;
	sqlite) zoo "$1" sqlite3 :memory: 'create table t(a integer, b text);
		with recursive c(i) as (select 1 union all select i + 1 from c where i < 2000)
			insert into t select i * 7919 % 10007, "x" || i from c;
		create index i on t(a); select count(*), max(x.b) from t x join t y on x.a = y.a + 1;' ;;
	tar) zoo "$1" sh -c 'tar --sort=name -cf - tests/unit | gzip -n | md5sum' ;;
	xz)
		seq "$(few 400000 30000)" >"$SCRATCH/seq"
		zoo "$1" xz -T2 --block-size=50000 -c "$SCRATCH/seq" ;;
	fresh) zoo "$1" "$programs/fresh" "$(few 2000 200)" ;;
	timer) zoo "$1" "$programs/feature" timer ;;
	throw) zoo "$1" "$programs/throw" ;;
	threads) zoo "$1" "$programs/threads" ;;
	go) zoo "$1" "$SCRATCH/zoo_go" ;;
	gdb) same=words named=1 zoo "$1" gdb -q -nx -batch -ex 'break main' -ex run -ex 'stepi 20' -ex 'info registers rsp' -ex kill \
		"$programs/hello_static" ;;
	strace) named=1 zoo "$1" strace -f -e trace=execve,exit_group,wait4 -o /dev/null /bin/sh -c '/bin/true; /bin/false' ;;
	esac
}

needs() {
	case $1 in
	perl | git | gcc | bash | openssl | node | tar | xz | go | gdb | strace) echo "$1" ;;
	sqlite) echo sqlite3 ;;
	java) echo javac ;;
	multiprocessing | pythreads) echo /usr/bin/python3 ;;
	*) echo sh ;;
	esac
}

for c in perl git gcc bash openssl node java multiprocessing pythreads sqlite tar xz fresh timer throw \
	threads go gdb strace; do
	wanted "$c" || continue
	if ! have "$(needs "$c")"; then
		skip "no $(needs "$c") (tools/deps install run)" "$c"
		continue
	fi
	case $c in
	java | go) that "$c: its program is compiled" "$log" "${c}_source" || continue ;;
	esac
	n=1
	case $c in
	bash | java | multiprocessing | pythreads | xz | fresh | timer | threads | go) n=$(few 100 1) ;;
	esac
	for ((i = 0; i < n; i++)); do
		case_zoo "$c"
	done
done
finish
