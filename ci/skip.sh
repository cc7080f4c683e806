#!/usr/bin/env bash
# skip.sh STEP BECAUSE ENABLE: a check that this machine lacks something for. Says so, and leaves the
# line for the summary of `make test` in the file that QUORATE_SKIPPED names. Fails where CI is set:
# there nothing may be left out unnoticed.
set -euo pipefail
line="$1: skipped, because $2; to enable: $3"
echo "$line" >&2
if [[ -n "${CI:-}" ]]; then
    echo "$1: CI skips nothing" >&2
    exit 1
fi
[[ -z "${QUORATE_SKIPPED:-}" ]] || echo "$line" >>"$QUORATE_SKIPPED"
