#!/usr/bin/env bash
# snow-page.sh [--write]: builds the module of the demonstration page (docs/snow.html) and compares it,
# byte for byte, with the one that is committed; with --write replaces it, and the page.
#
# One version of the compiler gives the same bytes wherever the folders are; another one gives others.
# So the version stands beside the module, and the comparison is made by that version alone.
set -euo pipefail
cd "$(dirname "$0")/.."

target=wasm32-unknown-unknown
page=crates/snow/page
built=target/page/$target/page/quorate_snow.wasm
compiler=$(rustc --version)

if [[ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]]; then
    # CI builds with Debian's toolchain where it can (wasm.sh), which is another compiler.
    CI='' exec ci/skip.sh "snow page" "the toolchain lacks $target" "rustup target add $target"
fi
if [[ "${1:-}" != --write && "$compiler" != "$(<$page/compiler.txt)" ]]; then
    CI='' exec ci/skip.sh "snow page" "the module was built by $(<$page/compiler.txt), and here is $compiler" \
        "ci/snow-page.sh --write"
fi
# Panics name files, so folders are cut off.
RUSTFLAGS="--remap-path-prefix=$PWD=/quorate --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    CARGO_TARGET_DIR=target/page "${CARGO:-cargo}" rustc --locked --package quorate-snow --lib \
    --profile page --target "$target" --crate-type cdylib

if [[ "${1:-}" == --write ]]; then
    cp "$built" $page/snow.wasm
    echo "$compiler" >$page/compiler.txt
    "${CARGO:-cargo}" run --locked --package quorate-snow --example snow_page
elif ! cmp "$built" $page/snow.wasm; then
    echo "snow page: $page/snow.wasm is not what these sources give: run ci/snow-page.sh --write" >&2
    exit 1
fi
echo "snow page: $(stat --format=%s $page/snow.wasm) bytes of module, as its sources give"
