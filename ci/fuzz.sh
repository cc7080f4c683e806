#!/usr/bin/env bash
# fuzz.sh TARGET|all SECONDS [libFuzzer's arguments]: fuzzes one target, or all, each for its share of the
# time. Prints a table of what each came to; inputs that break something lie in target/fuzz/findings.
# Wants a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

target="$1" seconds="$2"
shift 2
all=$(sed -n 's/^    target("\([^"]*\)".*/\1/p' crates/fuzz/src/lib.rs)
[[ "$target" == all ]] && names="$all" || names="$target"
grep -qx "$target" <<<"all
$all" || { echo "no such target: $target; there are: all" $all >&2; exit 2; }

seconds=$((seconds / $(wc -w <<<"$names")))

fuzz="$(ci/tool.sh cargo-fuzz)" || { echo "install it: cargo install cargo-fuzz" >&2; exit 1; }
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$PWD/target/fuzz"
# The flags of .cargo/config.toml, which those of cargo-fuzz take the place of.
export RUSTFLAGS='--cfg curve25519_dalek_backend="avx512"'
[[ "$(uname -m)" == x86_64 ]] || unset RUSTFLAGS
"$fuzz" build --fuzz-dir fuzz targets
host="$(rustc --version --verbose | sed -n 's/^host: //p')"
program="$CARGO_TARGET_DIR/$host/release/targets"

found=0
table="$(mktemp)"
trap 'rm -f "$table"' EXIT
for name in $names; do
    corpus="$CARGO_TARGET_DIR/corpus/$name" findings="$CARGO_TARGET_DIR/findings/$name"
    mkdir -p "$corpus" "$findings"
    log="$CARGO_TARGET_DIR/$name.log"
    QUORATE_FUZZ_TARGET="$name" "$program" "$corpus" "crates/fuzz/corpus/$name" -max_total_time="$seconds" \
        -max_len=4096 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 -detect_leaks=0 \
        -artifact_prefix="$findings/" "$@" >"$log" 2>&1 || true
    count="$(find "$findings" -type f | wc -l)"
    executed="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    rate="$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")"
    printf '%s %s %s %s %s\n' "$name" "${rate:--}" "${executed:--}" "$seconds" "$count" >>"$table"
    ((count == 0)) || { found=1; tail -n 30 "$log" >&2; }
done
{ echo "target executions/s executions seconds findings"; cat "$table"; } | column -t
exit "$found"
