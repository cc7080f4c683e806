#!/usr/bin/env bash
# beside.sh "TARGETS" "OTHERS": makes TARGETS, and beside them OTHERS, which give way to them. What
# OTHERS print is shown behind all else: nobody could read the lines of both together. Fails if one
# of them fails.
set -uo pipefail
make=(make --no-print-directory --keep-going)
printed="$(mktemp)"
trap 'kill -- "-$others" 2>/dev/null; rm -f "$printed"' EXIT
# A process group of its own, for it to be ended as one.
set -m
# shellcheck disable=SC2086 # Several targets.
nice -n 15 "${make[@]}" $2 </dev/null >"$printed" 2>&1 &
others=$!
set +m
failed=0
# shellcheck disable=SC2086
"${make[@]}" $1 || failed=1
[[ ! -d /proc/$others ]] || echo "Waiting for $2, which print into $printed" >&2
wait "$others" || failed=1
cat "$printed"
exit "$failed"
