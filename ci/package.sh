#!/usr/bin/env bash
# package.sh [DEB]: installs the Debian package in userlands that have nothing of ours, runs what is
# in it, and purges it. DEB: by default that of target/dist, which `make dist` fills.
#
# First in a bare userland without a network (ci/package/bare.sh), then in one that boots systemd
# (ci/package/booted.sh). Wants root, debootstrap, systemd-nspawn and a Debian mirror, and keeps the
# userlands in target/package for the next time. DEBIAN=trixie is another release, MIRROR=ADDRESS
# another mirror than debootstrap's own.
set -euo pipefail
cd "$(dirname "$0")/.."

release="${DEBIAN:-bookworm}"
mirror=(${MIRROR:+"$MIRROR"})
folder="$PWD/target/package"
inside=systemd,systemd-sysv,dbus,man-db,bash-completion

fail() {
    echo "error: $1 (remedy: $2)" >&2
    exit 1
}

((EUID == 0)) || fail "package.sh makes userlands and boots one" "run it as root"
for needed in debootstrap:debootstrap systemd-nspawn:systemd-container; do
    command -v "${needed%:*}" >/dev/null ||
        fail "there is no ${needed%:*}" "apt-get install ${needed#*:}"
done
shopt -s nullglob
packages=(target/dist/quorate_*.deb)
package="${1:-${packages[0]:-}}"
[[ -f $package ]] || fail "there is no package" "make dist, or name one: ci/package.sh FILE"

# A userland of the mirror's, made once: NAME, and more arguments for debootstrap.
userland() {
    local made="$folder/$release-$1"
    if [[ ! -d $made ]]; then
        rm -rf "$made.part"
        mkdir -p "$folder/cache"
        debootstrap --variant=minbase --cache-dir="$folder/cache" "${@:2}" "$release" "$made.part" \
            "${mirror[@]}" >"$folder/debootstrap.log" 2>&1 ||
            fail "debootstrap failed: $(tail -1 "$folder/debootstrap.log")" "see $folder/debootstrap.log"
        mv "$made.part" "$made"
    fi
    echo "$made"
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
install -D -m 0644 "$package" "$work/check/quorate.deb"
install -m 0755 ci/package/*.sh "$work/check"
install -m 0644 ci/package/check.service "$work/check"

# A fresh copy of a userland, as a container that shares no network with this machine. It registers
# with no service manager: there may be none here.
container() {
    local copy="$work/$1"
    cp -a "$2" "$copy"
    systemd-nspawn --quiet --keep-unit --register=no --private-network --resolv-conf=off \
        --link-journal=no --machine="quorate-$1-$$" --directory="$copy" \
        --bind="$work/check:/check" "${@:3}" </dev/null
}

echo "== $(basename "$package") in a bare $release without a network"
bare="$(userland bare)"
container bare "$bare" --pipe /check/bare.sh

echo
echo "== $(basename "$package") in a $release that boots systemd"
booted="$(userland booted --include="$inside")"
mkdir -p "$work/units"
ln -s /check/check.service "$work/units/check.service"
: >"$work/check/booted.log"
status=0
# The service prints to the log, and its end is the container's.
container booted "$booted" --boot --bind-ro="$work/check/check.service:/etc/systemd/system/check.service" \
    systemd.wants=check.service >"$work/console.log" 2>&1 || status=$?
cat "$work/check/booted.log"
if ((status != 0)); then
    tail -20 "$work/console.log" >&2
    fail "the booted userland ended with $status" "read above what it printed last"
fi
echo
echo "package.sh: passed"
