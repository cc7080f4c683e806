#!/bin/bash
# Runs in a bare Debian userland without a network: the package needs nothing that is not there.
set -euo pipefail
. /check/common.sh
cd /tmp

say "dpkg -i, with nothing else"
files >before
dpkg -i /check/quorate.deb
dpkg -s quorate | grep -E '^(Status|Version|Architecture|Depends):'
dpkg --verify quorate
quorate version
[[ $(stat -c '%U %a' /var/lib/quorate) == "quorate 750" ]]

say "manual pages and completions"
for page in /usr/share/man/man1/quorate*.1.gz; do gzip -t "$page"; done
zcat /usr/share/man/man1/quorate-start.1.gz | grep -q 'Run one replica'
ls /usr/share/man/man1/quorate*.1.gz | wc -l | xargs echo "manual pages:"
bash -c '. /usr/share/bash-completion/completions/quorate; complete -p quorate'
ls /usr/share/zsh/vendor-completions/_quorate /usr/share/fish/vendor_completions.d/quorate.fish

say "four replicas and a gateway"
quorate testnet init net -n 4 >/dev/null
pids=()
for replica in 0 1 2 3; do
    quorate start --home "net/replica-$replica" >"replica-$replica.log" 2>&1 &
    pids+=($!)
done
trap 'tail -n 5 replica-*.log >&2' ERR
within 60 all_ready net/client
quorate status --home net/client
quorate gateway --home net/client --listen 127.0.0.1:6380 >gateway.log 2>&1 &
gateway=$!
within 20 bash -c ': 2>/dev/null >/dev/tcp/127.0.0.1/6380'
expect "SET" "$(redis 6380 SET greeting hello)" +OK
for _ in $(seq 200); do redis 6380 INCR count >/dev/null; done
expect "GET" "$(redis 6380 GET count)" 200
quorate get --verified --home net/client greeting
kill "$gateway"
wait "$gateway"
kill "${pids[@]}"
for pid in "${pids[@]}"; do wait "$pid"; done
echo "all ended in good order"
trap - ERR

say "dpkg --purge leaves data alone"
touch /var/lib/quorate/data
dpkg --purge quorate
files >after
left="$(diff before after | grep '^[<>]' || :)"
expect "left" "$(echo $left)" "> /var/lib/quorate > /var/lib/quorate/data"
