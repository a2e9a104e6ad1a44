# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
#
# What the guest's scripts share: where the cache is, locks, and a private apt
# state, so that Debian's packages of any architecture and of backports can be
# fetched without root and without touching this machine's own apt.
# Invariant: what stands in the cache under its final name is complete; it is
# made under another name and renamed, by the holder of the lock.
set -u
guest_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 125
project=$(cd "$guest_dir/../.." && pwd) || exit 125
cache=${AUXKIT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/auxkit}/guest
suite=bookworm
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
me=${0##*/}

say() { echo "tools/guest/$me: $*" >&2; }
# Status 125: the lab failed, not the command that ran in it.
die() {
	say "error: $*"
	exit 125
}

# need COMMAND PACKAGE...: the commands are there, or the cure is named.
need() {
	local lacking=()
	while [ $# -ge 2 ]; do
		command -v "$1" >/dev/null 2>&1 || lacking+=("$2")
		shift 2
	done
	[ ${#lacking[@]} = 0 ] ||
		die "needs ${lacking[*]}: run tools/deps install guest"
}

# deb_arch ARCH: Debian's name of an architecture
deb_arch() {
	case $1 in
	x86_64) echo amd64 ;;
	arm64) echo arm64 ;;
	*) die "architecture $1 is not x86_64 or arm64" ;;
	esac
}

# check_kernel KERNEL ARCH. 6.12-16k has pages of 16 KB, which arm64 alone can. The newest
# is that of Debian's next release with its backports: it is built with a compiler and on libraries that this machine lacks.
check_kernel() {
	case $1:$2 in
	6.1:*|6.12:*|6.12-16k:arm64) ;;
	6.12-16k:*) die "kernel 6.12-16k is for arm64, not $2" ;;
	newest:x86_64) suite=trixie ;;
	newest:*) die "kernel newest is for x86_64, not $2" ;;
	*) die "kernel $1 is not 6.1, 6.12, 6.12-16k or newest" ;;
	esac
}

# lock NAME: one process at a time; let go at exit.
lock() {
	mkdir -p "$cache/lock" || die "cannot make the cache $cache"
	exec 9>"$cache/lock/$1" || exit 125
	flock -w 600 9 || die "another run holds $cache/lock/$1 since 10 minutes"
}

# The mirror is the one that this machine's own apt is set up with.
mirrors() {
	local uris main security
	# shellcheck disable=SC2016
	uris=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' \
		'Created-By: Packages' 'Origin: Debian' 2>/dev/null)
	main=$(echo "$uris" | awk '$2 !~ /security/ { print $1; exit }')
	security=$(echo "$uris" | awk '$2 ~ /security/ { print $1; exit }')
	main=${AUXKIT_MIRROR:-${main:-http://deb.debian.org/debian}}
	for s in "$suite" "$suite-backports"; do
		echo "deb [signed-by=$keyring] $main $s main"
	done
	echo "deb [signed-by=$keyring]" \
		"${security:-http://deb.debian.org/debian-security}" \
		"$suite-security main"
}

# apt_state DEBARCH: makes the private state of the suite, with lists at most a
# day old, and points apt to it. Call it with the lock held.
apt_state() {
	local dir=$cache/apt/$1
	[ "$suite" != trixie ] || dir+=-$suite
	export APT_CONFIG=$dir/conf
	[ -n "$(find "$dir/fresh" -mtime -1 2>/dev/null)" ] && return 0
	[ -r "$keyring" ] ||
		die "needs debian-archive-keyring ($keyring is not there)"
	rm -f "$dir/fresh"
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" || exit 125
	: >"$dir/status"
	unset APT_CONFIG
	mirrors >"$dir/sources.list"
	cat >"$dir/conf" <<-EOF
	APT::Architecture "$1";
	APT::Architectures { "$1"; };
	APT::Sandbox::User "";
	Acquire::Languages "none";
	Acquire::Retries "3";
	Acquire::http::Timeout "30";
	Dir::State "$dir";
	Dir::State::lists "$dir/lists";
	Dir::State::status "$dir/status";
	Dir::Cache "$dir/cache";
	Dir::Etc::SourceList "$dir/sources.list";
	Dir::Etc::SourceParts "/dev/null";
	Dir::Etc::Preferences "/dev/null";
	Dir::Etc::PreferencesParts "/dev/null";
	EOF
	export APT_CONFIG=$dir/conf
	apt-get update -qq >"$dir/log" 2>&1 9>&- || {
		tail -n 5 "$dir/log" >&2
		die "apt-get update failed for $suite ($1): no network?"
	}
	touch "$dir/fresh"
}

# all_depends PACKAGE[=VERSION] PATTERN: the dependencies of PACKAGE that match
all_depends() {
	apt-cache depends "$1" 2>/dev/null |
		awk -v re="$2" '$1 ~ /Depends:$/ && $2 ~ re { print $2 }'
}

# depends PACKAGE[=VERSION] PATTERN: the first of them
depends() { all_depends "$@" | head -n 1; }

# closure PACKAGE...: they and all that they need, as apt's resolver finds it for
# an empty system
closure() {
	apt-get install -s -q --no-install-recommends "$@" 2>/dev/null |
		awk '$1 == "Inst" { print $2 }'
}

# version_of PACKAGE PREFIX: its newest version that starts with PREFIX
version_of() {
	apt-cache madison "$1" 2>/dev/null |
		awk -F ' *[|] *' -v p="$2" 'index($2, p) == 1 { print $2; exit }'
}

# fetch DIR PACKAGE...: downloads into DIR, which must be a fresh one.
fetch() {
	local dir=$1
	shift
	mkdir -p "$dir" || exit 125
	(cd "$dir" && apt-get download -qq "$@" >log 2>&1 9>&-) || {
		tail -n 5 "$dir/log" >&2
		# The lists name what has left the mirror: read them anew.
		rm -f "${APT_CONFIG%/conf}/fresh"
		die "apt-get download failed: $*"
	}
}
