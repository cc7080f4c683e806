#!/usr/bin/env python3
"""What a backup costs, with real processes: backup.py PROGRAM [ITEMS] [SECONDS].

Four replicas on this machine hold ITEMS records (10^6) and carry YCSB A in a closed loop. Their
throughput is measured for SECONDS (20): alone, while whole backups are taken one after the other,
and alone again. The first backup is then checked, a cluster is restored from it, and one bit of
each of its files is flipped in turn, which `backup verify` must refuse and name. Prints JSON.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROGRAM = Path(sys.argv[1]).resolve()
ITEMS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
SECONDS = int(sys.argv[3]) if len(sys.argv) > 3 else 20
PAYLOAD = 128


def quorate(*arguments, **options):
    """Runs a command to its end; its JSON."""
    words = [str(PROGRAM), "-o", "json", *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1] if "\n{" in done.stdout else done.stdout)


def load(client, *more):
    return quorate(
        "load", "--home", client, "--workload", "ycsb-a", "--keys", ITEMS, "--payload", f"{PAYLOAD}B",
        "--clients", 8, "--outstanding", 8, "--seconds", SECONDS, *more,
    )


def timed(*arguments):
    began = time.monotonic()
    told = quorate(*arguments)
    return round(time.monotonic() - began, 2), told


def backups_during(work):
    """Does `work` while backups are taken one after the other; what it gives, and their times."""
    over, seconds = threading.Event(), []

    def take():
        while not over.is_set():
            seconds.append(timed("backup", "create", FOLDER / f"backup-{len(seconds)}", "--full",
                                 "--home", CLIENT)[0])

    thread = threading.Thread(target=take)
    thread.start()
    try:
        return work(), seconds
    finally:
        over.set()
        thread.join()


def flipped(backup):
    """Of each file of a backup, whether one wrong bit in its middle is refused by name."""
    verdicts = {}
    for file in sorted(path for path in backup.iterdir() if path.is_file() and path.stat().st_size):
        whole = file.read_bytes()
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:])
        done = subprocess.run([PROGRAM, "backup", "verify", backup], capture_output=True, text=True)
        verdicts[file.name] = done.returncode != 0 and file.name in done.stderr
        file.write_bytes(whole)
    return verdicts


with tempfile.TemporaryDirectory(prefix="quorate-backup-") as folder:
    FOLDER = Path(folder)
    CLIENT = FOLDER / "net" / "client"
    quorate("testnet", "init", FOLDER / "net", "-n", 4)
    log = open(FOLDER / "up.log", "w")
    cluster = subprocess.Popen([PROGRAM, "testnet", "up", FOLDER / "net"], stdout=log, stderr=log)
    try:
        time.sleep(3)
        before = load(CLIENT)
        during, seconds = backups_during(lambda: load(CLIENT, "--records-are-there"))
        after = load(CLIENT, "--records-are-there")
    finally:
        cluster.send_signal(signal.SIGTERM)
        cluster.wait(30)
    backup = FOLDER / "backup-0"
    verify_s, _ = timed("backup", "verify", backup)
    restore_s, _ = timed("restore", backup, "--new", "restored", "--out", FOLDER / "restored")
    alone = (before["goodput"] + after["goodput"]) / 2
    print(json.dumps({
        "items": ITEMS,
        "payload": PAYLOAD,
        "cores": os.cpu_count(),
        "goodput_before": round(before["goodput"]),
        "goodput_during": round(during["goodput"]),
        "goodput_after": round(after["goodput"]),
        "kept": round(during["goodput"] / alone, 3),
        "p50_ms": [before["p50_ms"], during["p50_ms"], after["p50_ms"]],
        "p99_ms": [before["p99_ms"], during["p99_ms"], after["p99_ms"]],
        "backup_seconds": seconds,
        "backup_bytes": sum(file.stat().st_size for file in backup.iterdir()),
        "verify_seconds": verify_s,
        "restore_four_homes_seconds": restore_s,
        "one_flipped_bit_is_refused_by_name": flipped(backup),
    }, indent=1))
