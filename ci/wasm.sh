#!/usr/bin/env bash
# Proves that crates/core is pure: it builds for wasm32-unknown-unknown, where there is no operating
# system. A crate that brings one in (a runtime, randomness, system calls, C) does not build for it.
# The standard library's own files, clocks and threads do, as stubs that fail when called: those
# crates/core/clippy.toml forbids.
#
# Uses Debian's rustc-web and cargo-web, which can build the standard library for that target
# themselves (rustup's toolchain here has no such target). Installs them when it may. Where that
# cannot be done it says SKIPPED and succeeds, except in CI (CI set), where it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(rustc-web cargo-web rust-web-src lld)

skip() {
    echo "wasm purity: SKIPPED: $1"
    if [[ -n "${CI:-}" ]]; then
        echo "wasm purity: this must not be skipped in CI" >&2
        exit 1
    fi
    exit 0
}

installed() {
    dpkg-query --show --showformat='${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
        grep -c '^installed$' | grep -q "^${#packages[@]}\$"
}

if ! command -v dpkg-query >/dev/null; then
    skip "needs Debian's ${packages[*]}"
fi
if ! installed; then
    if [[ "$(id -u)" != 0 ]] || ! command -v apt-get >/dev/null; then
        skip "run as root: apt-get install ${packages[*]}"
    fi
    log="$(mktemp)"
    trap 'rm -f "$log"' EXIT
    if ! { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        skip "apt-get could not install ${packages[*]}"
    fi
fi

# The release profile's LTO would only cost time: nothing of this is run.
RUSTC_BOOTSTRAP=1 \
RUSTC=/usr/bin/rustc \
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld \
CARGO_PROFILE_RELEASE_LTO=off \
CARGO_TARGET_DIR=target/wasm \
    /usr/bin/cargo build --locked --release --package quorate-core \
    -Zbuild-std=std,panic_abort --target wasm32-unknown-unknown
echo "wasm purity: quorate-core builds for wasm32-unknown-unknown"
