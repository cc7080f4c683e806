#!/bin/bash
# Runs in a Debian userland that booted systemd, as check.service: the units do what they promise.
set -euo pipefail
. /check/common.sh
cd /tmp
trap 'journalctl --no-pager -n 40 -u "quorate*" || :' ERR

say "dpkg -i, and what systemd says of the units"
files >before
dpkg -i /check/quorate.deb >/dev/null
systemctl cat quorate@replica-0 quorate-gateway@client | grep -E '^(# /|ExecStart|Type)'
said="$(systemd-analyze verify quorate@replica-0.service quorate-gateway@client.service 2>&1 || :)"
expect "systemd-analyze verify" "$said" ""
man --where quorate-start
bash -ic 'cd /; . /usr/share/bash-completion/bash_completion; _completion_loader quorate; complete -p quorate' \
    2>/dev/null

say "four replicas and a gateway as units"
runuser -u quorate -- quorate testnet init /var/lib/quorate -n 4 >/dev/null
replicas=(quorate@replica-{0..3})
systemctl start "${replicas[@]}"
systemctl show -p ActiveState,SubState,User,LimitNOFILE quorate@replica-0
within 60 all_ready /var/lib/quorate/client
install -d /etc/quorate
echo 'GATEWAY_OPTIONS=--listen 127.0.0.1:6381' >/etc/quorate/gateway-client
systemctl enable --quiet --now quorate-gateway@client
within 20 bash -c ': 2>/dev/null >/dev/tcp/127.0.0.1/6381'
expect "SET" "$(redis 6381 SET greeting hello)" +OK
systemctl reload quorate-gateway@client
for unit in quorate@replica-0 quorate-gateway@client; do
    systemd-analyze security --no-pager "$unit" | tail -1
done

say "a replica that is killed comes back"
systemctl kill --signal=KILL quorate@replica-1
for _ in $(seq 100); do redis 6381 INCR count >/dev/null; done
within 60 all_ready /var/lib/quorate/client
expect "restarts" "$(systemctl show -P NRestarts quorate@replica-1)" 1
expect "GET" "$(redis 6381 GET count)" 100

say "one that is refused by its configuration does not"
cp -a /var/lib/quorate/replica-0 /var/lib/quorate/bad
sed -i 's/^replica = 0/replica = 9/' /var/lib/quorate/bad/config/node.toml
! systemctl start quorate@bad 2>/dev/null
within 10 systemctl is-failed --quiet quorate@bad
expect "restarts" "$(systemctl show -P NRestarts quorate@bad)" 0
expect "exit code" "$(systemctl show -P ExecMainStatus quorate@bad)" 2

say "the package is installed again: nothing is restarted"
was="$(systemctl show -P MainPID quorate@replica-2)"
dpkg -i /check/quorate.deb >/dev/null
expect "process" "$(systemctl show -P MainPID quorate@replica-2)" "$was"
systemctl restart quorate@replica-2
within 60 all_ready /var/lib/quorate/client

say "dpkg --purge ends what runs, and leaves data alone"
dpkg --purge quorate
expect "processes" "$(readlink /proc/[0-9]*/exe | grep -c '^/usr/bin/quorate' || :)" 0
[[ -e /var/lib/quorate/replica-0/config/consensus.key ]]
files >after
left="$(diff before after | grep '^[<>]' | grep -v '^> /var/lib/quorate' || :)"
expect "left beside /var/lib/quorate" "$(echo $left)" "> /etc/quorate > /etc/quorate/gateway-client"
