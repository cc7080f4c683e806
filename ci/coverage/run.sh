#!/usr/bin/env bash
# Which lines of the protocol, the pacemaker and the leaders the tests of quorate-core run.
# Prints a table; fails where ci/coverage/files.txt asks for more. Writes to target/coverage:
# lcov.info, html/index.html, and the build it measured.
#
# Needs llvm-profdata and llvm-cov no older than the LLVM of rustc. Takes them from the toolchain
# (component llvm-tools) or from the system; installs them when neither has them: as root from
# Debian, else by rustup.
set -euo pipefail
shopt -s globstar nullglob
cd "$(dirname "$0")/../.."

cargo="${CARGO:-cargo}"
out="$PWD/target/coverage"
sources="$PWD/crates/core/src"
llvm="$(rustc --version --verbose | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')"
host="$(rustc --version --verbose | sed -n 's/^host: //p')"
toolchain="$(rustc --print sysroot)/lib/rustlib/$host/bin"

# Prints the path of the LLVM tool $1, if one is there that is new enough.
tool() {
    local candidate version
    for candidate in "$toolchain/$1" "$1-$llvm" "/usr/lib/llvm-$llvm/bin/$1" "$1"; do
        version="$("$candidate" --version 2>/dev/null | sed -n 's/.*LLVM version \([0-9]*\).*/\1/p')" || continue
        if [[ -n "$version" && "$version" -ge "$llvm" ]]; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

install_tools() {
    local log
    log="$(mktemp)"
    if [[ "$(id -u)" == 0 ]] && command -v apt-get >/dev/null; then
        { apt-get update && apt-get install -y --no-install-recommends "llvm-$llvm"; } >"$log" 2>&1 || true
    elif command -v rustup >/dev/null; then
        rustup component add llvm-tools >"$log" 2>&1 || true
    fi
    if ! { tool llvm-profdata && tool llvm-cov; } >/dev/null; then
        tail -n 5 "$log" >&2
        echo "coverage: needs llvm-cov and llvm-profdata $llvm: rustup component add llvm-tools," >&2
        echo "coverage: or the package llvm-$llvm of your system" >&2
        exit 1
    fi
    rm -f "$log"
}

{ tool llvm-profdata && tool llvm-cov; } >/dev/null || install_tools
profdata="$(tool llvm-profdata)"
cov="$(tool llvm-cov)"

# Runs the tests, and leaves their binaries in `objects`.
measure() {
    export RUSTC_WORKSPACE_WRAPPER="$PWD/ci/coverage/rustc.sh" CARGO_TARGET_DIR="$out/build"
    local test=("$cargo" test --locked --package quorate-core --lib --tests) binary
    rm -rf "$out/raw" "$out/html"
    mkdir -p "$out/raw"
    "${test[@]}" --no-run 2>&1 | tee "$out/build.log" >&2
    while read -r binary; do
        objects+=(-object "$binary")
    done < <(sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$out/build.log")
    LLVM_PROFILE_FILE="$out/raw/%p-%m.profraw" "${test[@]}" --quiet
    "$profdata" merge --sparse "$out"/raw/*.profraw --output "$out/core.profdata"
}

objects=()
measure
view=(--instr-profile "$out/core.profdata" "${objects[@]}" --ignore-filename-regex '/tests(/|\.rs$)' --sources "$sources")
"$cov" export --format=lcov "${view[@]}" >"$out/lcov.info"
"$cov" show --format=html --output-dir "$out/html" "${view[@]}"

# files.txt with its globs expanded: `kind path` a line.
listed() {
    local kind pattern file found
    while read -r kind pattern; do
        case "$kind" in
        '' | '#'*) ;;
        least) echo "least $pattern" ;;
        *)
            found=0
            for file in "$sources"/$pattern; do
                [[ "$file" == */tests.rs ]] && continue
                found=1
                echo "$kind ${file#"$sources/"}"
            done
            ((found)) || { echo "coverage: ci/coverage/files.txt: no file matches $pattern" >&2; exit 1; }
            ;;
        esac
    done <ci/coverage/files.txt
}

listed >"$out/listed.txt"
awk -v prefix="$sources/" -f ci/coverage/table.awk "$out/listed.txt" "$out/lcov.info"
