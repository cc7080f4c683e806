#!/bin/sh
# Runs the replica in the folder $1, and starts it again when it fails. Exit codes 2 to 6 want a
# person: a restart would meet the same again (quorate --help).
cd "$1" || exit 1
# A supervisor that nobody knows could not be stopped: first it says which process it is.
echo $$ >replica/supervisor.pid || exit 1
child=
stopping=
trap 'stopping=yes; [ -n "$child" ] && kill -TERM "$child" 2>/dev/null' TERM INT HUP
while [ -z "$stopping" ]; do
    bin/quorate start --home replica &
    child=$!
    # Told to stop before it knew its child.
    [ -z "$stopping" ] || kill -TERM "$child" 2>/dev/null
    wait "$child"
    code=$?
    # A signal ends the wait, not the replica.
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
        code=$?
    done
    case $code in
    0 | 2 | 3 | 4 | 5 | 6) exit "$code" ;;
    esac
    [ -n "$stopping" ] || sleep 1
done
