#!/usr/bin/env bash
# Proves that the program for production (`--no-default-features`) has nothing of the laboratory: its
# dependencies lack the crates of the laboratory, it compiles without warnings, and it refuses the
# laboratory's commands and keys by name.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo="${CARGO:-cargo}"
program=(--locked --package quorate --no-default-features)

found="$("$cargo" tree "${program[@]}" --edges normal,build --prefix none --format '{p}' |
    grep -oE '^quorate-(adversary|lab|netem|plot|sim) ' | sort -u || true)"
if [[ -n "$found" ]]; then
    echo "the production build links crates of the laboratory:" $found >&2
    exit 1
fi
"$cargo" clippy --quiet "${program[@]}" -- -D warnings
"$cargo" test --quiet "${program[@]}" --test production
echo "production: no crate of the laboratory, and its commands are refused"
