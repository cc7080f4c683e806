#!/usr/bin/env bash
# Proves that the tests of the crates around the core see the bugs of ci/mutants.txt: each row's test
# passes without the bug, and fails with it. One build; QUORATE_MUTANT chooses the bug at run time.
# mutants.sh [NAME ...]: these alone; a NAME may be a pattern, as 'snow*'. Prints a table in Markdown.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg quorate_mutants" CARGO_TARGET_DIR="$PWD/target/mutants"
rows() { grep -v -e '^#' -e '^$' ci/mutants.txt | sed 's/ *| */|/g'; }

# Each name of the sources is in the list once, and the other way round.
planted="$(grep -rzoh 'planted!(\s*"[a-z0-9-]*"' crates --include='*.rs' | tr -d '\0' |
    grep -o '"[a-z0-9-]*"' | tr -d '"' | grep -vx name | sort -u)"
diff <(echo "$planted") <(rows | cut -d'|' -f1 | sort) >&2 ||
    { echo "the bugs in the sources (<) are not those in ci/mutants.txt (>)" >&2; exit 1; }

programs=(--package={quorate-crypto,quorate-journal,quorate-transport,quorate-node,quorate-gateway,quorate-payments,quorate-lab} --lib --tests)
cargo test --locked --quiet --no-run "${programs[@]}"

# run NAME PACKAGE PROGRAM TEST: prints what the test program said of itself.
run() {
    local program=(--test "$3")
    [[ "$3" != lib ]] || program=(--lib)
    QUORATE_MUTANT="$1" RUST_BACKTRACE=0 timeout 300 \
        cargo test --locked --quiet --package "quorate-$2" "${program[@]}" -- --exact "$4" 2>&1 |
        grep '^test result' || true
}

# wanted NAME PATTERN ...: whether a pattern fits, or there is none.
wanted() {
    local name="$1" pattern
    shift
    (($# > 0)) || return 0
    # shellcheck disable=SC2053 # they are patterns
    for pattern in "$@"; do [[ "$name" != $pattern ]] || return 0; done
    return 1
}

missed=0 count=0
echo "| bug | what is wrong | seen by |"
echo "|---|---|---|"
while IFS='|' read -r name package program test what; do
    wanted "$name" "$@" || continue
    count=$((count + 1)) seen="\`$package\`: \`$test\`"
    without="$(run "" "$package" "$program" "$test")" with="$(run "$name" "$package" "$program" "$test")"
    if [[ "$without" != "test result: ok. 1 passed"* ]]; then
        missed=$((missed + 1)) seen="**the test fails without it, or is not there**"
    elif [[ "$with" != "test result: FAILED. 0 passed; 1 failed"* ]]; then
        missed=$((missed + 1)) seen="**nothing**"
    fi
    echo "| \`$name\` | $what | $seen |"
done < <(rows)
echo
echo "$((count - missed)) of $count bugs seen."
((missed == 0))
