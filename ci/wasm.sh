#!/usr/bin/env bash
# Proves that crates/core is pure: it compiles for wasm32-unknown-unknown, where there is no operating
# system. A crate that brings one in (a runtime, randomness, system calls, C) does not compile for it.
# The standard library's own files, clocks and threads do, as stubs that fail when called: those
# crates/core/clippy.toml forbids.
#
# Takes the toolchain's own target where rustup has added it. Else Debian's rustc-web and cargo-web,
# which build the standard library for that target themselves; in CI it installs them.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
packages=(rustc-web cargo-web rust-web-src lld)

# Prints whether the packages are installed, by Debian's account.
installed() {
    dpkg-query --show --showformat='${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
        grep -c '^installed$' | grep -q "^${#packages[@]}\$"
}

# Nothing of it is run, so no code need be made of it. The release profile does not optimise macros.
check() {
    CARGO_TARGET_DIR=target/wasm "$@" check --locked --release --package quorate-core --target "$target"
    echo "wasm purity: quorate-core compiles for $target"
}

if [[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]]; then
    check "${CARGO:-cargo}"
    exit
fi
if [[ -n "${CI:-}" && $EUID == 0 ]] && command -v apt-get >/dev/null && ! installed; then
    { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; } >/dev/null
fi
if ! installed; then
    exec ci/skip.sh "wasm purity" "the toolchain lacks $target" \
        "rustup target add $target (or apt-get install ${packages[*]})"
fi
export RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld
export CARGO_UNSTABLE_BUILD_STD=std,panic_abort
check /usr/bin/cargo
