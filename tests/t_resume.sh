#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Code that is missing: a module, and pages that the program wrote. The flow goes
# on before the next PSB; nothing is shown that did not run, in that order, and
# more than by libipt, which goes on at a PSB only.
. "$(dirname "$0")/lib.sh"
. tests/record.sh

flow=$SCRATCH/flow out=$SCRATCH/out

# missing DECODER FILE: instructions of $truth that are not shown; nothing: what
# is shown is wrong.
missing() {
	"$auxdecode" insn --decoder "$1" -F tid,ip "$2" >"$flow" 2>"$out"
	[ $? = 3 ] || return
	"$truthcmp" --expect-gaps "$truth" "$flow" >"$out" || return
	sed -n 's/^total .* missing \([0-9]*\) .*/\1/p' "$out"
}

withheld() { # TEXT
	local early late one
	early=$(missing pt "$data")
	ok $((early > 0 ? 0 : 1)) "$1: what is shown ran, with a gap ($early missing)" "$out"
	if [ -n "$(no_libipt)" ]; then
		skip "$(no_libipt)" "$1: against libipt"
		return
	fi
	late=$(missing libipt "$data")
	# a sixth at most; it was more than a quarter without TIPs after partial TNTs
	ok $((early * 4 < late ? 0 : 1)) "$1: much more than from PSBs alone ($late missing)" "$out"
	one=$("$auxdecode" count -j1 "$data" 2>/dev/null)
	is "$("$auxdecode" count -j2 --chunk-size 1 "$data" 2>/dev/null)" "$one" \
		"$1: the same in chunks of any size, on two cores"
	"$auxdecode" verify "$data" >"$out" 2>&1
	ok $? "$1: verify has no objection" "$out"
}

mkdir "$SCRATCH/module" && cp "$programs/dlopen" "$SCRATCH/module"
for terms in noretcomp=1,psb_period=5 noretcomp=0,psb_period=5 noretcomp=0,psb_period=5,cyc=1,mtc=1 \
	noretcomp=0,psb_period=5,defer_tip noretcomp=1,psb_period=5,defer_tip; do
	cp "$programs/dlobj" "$SCRATCH/module"
	programs=$SCRATCH/module record dlopen "$terms"
	rm "$SCRATCH/module/dlobj"
	ok $status "a recording, soft_pt/$terms/" "$log"
	withheld "a module withheld, soft_pt/$terms/"
done

# Pages that the program wrote: their bytes are in the file (struct aux_own_code,
# kind 2). They are moved to where nothing ran.
record jit_once noretcomp=0,psb_period=5
ok $status "a recording of code that the program wrote" "$log"
/usr/bin/python3 - "$data" <<-'end'
	import struct, sys
	data = bytearray(open(sys.argv[1], 'rb').read())
	moved = 0
	for at in range(0, len(data) - 40, 8):
	    ns, addr, size, blob, pid, kind = struct.unpack_from('<QQQQII', data, at)
	    if kind == 2 and addr and not addr % 4096 and 0 < size <= 61440 and blob < 1000 and pid > 1:
	        struct.pack_into('<Q', data, at + 8, 0x1000)
	        moved += 1
	open(sys.argv[1], 'wb').write(data)
	sys.exit(not moved)
end
ok $? "its bytes withheld"
withheld "written code withheld"

finish
