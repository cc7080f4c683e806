#!/usr/bin/env bash
# Builds and tests services as their authors do: the bank of examples/, a crate that `quorate new`
# writes, and four replicas of the bank of which one is killed. Neither crate is a member of the
# workspace. Their builds share its target folder and its profiles, so that crates of others, once
# built for the workspace, are not built again.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo="${CARGO:-cargo}"
export CARGO_TARGET_DIR="$PWD/target"
programs="$CARGO_TARGET_DIR/debug"

# Most of a build's time would go to optimising what mostly waits.
settings=()
for crate in node service; do
    settings+=(--config "profile.dev.package.quorate-$crate.opt-level=0")
done

tested() {
    cd "$1"
    "$cargo" fmt --check
    "$cargo" clippy --quiet "${settings[@]}" --locked --all-targets -- -D warnings
    "$cargo" test --quiet "${settings[@]}" --locked
    "$cargo" build --quiet "${settings[@]}" --locked
}

(tested examples/bank)

"$cargo" build --quiet --locked --bin quorate
new="$CARGO_TARGET_DIR/new-counters"
rm -rf "$new"
"$programs/quorate" new counters --folder "$new" --path . >/dev/null
# The versions are the bank's. Only the name of the crate itself differs.
sed 's/^name = "bank"$/name = "counters"/' examples/bank/Cargo.lock >"$new/Cargo.lock"
(cd "$new" && "$cargo" metadata --quiet --offline --format-version 1 >/dev/null)
(tested "$new")

net="$(mktemp -d)"
running=
trap '[[ -z $running ]] || kill "$running" 2>/dev/null; wait; rm -rf "$net"' EXIT
"$programs/quorate" testnet init "$net" --program "$programs/bank" >/dev/null
"$programs/quorate" testnet up "$net" >"$net/up.log" 2>&1 &
running=$!

# teller EXPECTED WORD...
teller() {
    local said
    said="$("$programs/teller" "$net/client/config/cluster.toml" "${@:2}")"
    [[ $said == "$1" ]] && return
    echo "the bank said \"$said\" to \"${*:2}\", and \"$1\" is right" >&2
    tail -n 20 "$net/up.log" >&2
    exit 1
}
teller 'ok 1000' open ann
teller 'ok 1000' open bob
killed="$(sed -nE 's/.*"process":([0-9]+).*/\1/p' "$net/replica-1/data/addresses.json")"
kill -KILL "$killed"
teller 'ok 970' transfer ann bob 30
teller 'ok 1030' balance bob
teller 'error: there is no such account' ask balance eve
echo "services: the bank and a new crate build, their tests pass, and a bank with one replica killed is right"
