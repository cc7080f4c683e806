#!/usr/bin/env python3
"""A rolling upgrade between two commits: upgrade.py REVISION [SECONDS].

Builds the program of REVISION and that of this tree, each in a folder of its own. Four replicas of
the old one carry a checked load; one after the other is stopped and started with the new program,
and then back. Nothing may be lost, answered wrongly or refused, and no replica's state may differ.
Prints JSON; ends with 1 if anything of that fails.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REVISION = sys.argv[1]
SECONDS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
WITHIN_S = 60


def built(source, target):
    """The program of a source tree."""
    subprocess.run(
        ["cargo", "build", "--locked", "--profile", "quick", "--bin", "quorate"],
        cwd=source, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True,
    )
    return target / "quick" / "quorate"


def old_program():
    sources, target = ROOT / "target/upgrade/sources", ROOT / "target/upgrade/target"
    subprocess.run(["git", "worktree", "remove", "--force", sources], cwd=ROOT, capture_output=True)
    subprocess.run(["git", "worktree", "add", "--detach", sources, REVISION], cwd=ROOT, check=True)
    try:
        return built(sources, target)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", sources], cwd=ROOT, check=True)


class Cluster:
    def __init__(self, folder, program):
        self.net, self.processes = folder / "net", {}
        subprocess.run([program, "testnet", "init", self.net, "-n", "4"], check=True,
                       stdout=subprocess.DEVNULL)
        for replica in range(4):
            self.start(replica, program)

    def start(self, replica, program):
        log = open(self.net / f"replica-{replica}.log", "a")
        words = [program, "start", "--home", self.net / f"replica-{replica}"]
        self.processes[replica] = subprocess.Popen(words, stdout=log, stderr=log)

    def stop(self, replica):
        process = self.processes.pop(replica)
        process.send_signal(signal.SIGTERM)
        if process.wait(WITHIN_S) != 0:
            sys.exit(f"replica {replica} ended with {process.returncode}")

    def status(self, program):
        words = [program, "-o", "json", "status", "--home", self.net / "client"]
        told = subprocess.run(words, capture_output=True, text=True).stdout
        return json.loads(told)["replicas"] if told else []

    def await_all(self, program):
        """Waits until four replicas go on together: each executes more than any had before."""
        heights = [replica.get("executed_height", 0) for replica in self.status(program)]
        goal, until = max(heights, default=0) + 1, time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            now = [replica.get("executed_height", 0) for replica in self.status(program)]
            if len(now) == 4 and min(now) >= goal:
                return
            time.sleep(0.2)
        sys.exit(f"four replicas do not go on: executed heights {now}, wanted {goal}")


def main():
    old, new = old_program(), built(ROOT, ROOT / "target")
    with tempfile.TemporaryDirectory(prefix="quorate-upgrade-") as folder:
        cluster = Cluster(Path(folder), old)
        try:
            time.sleep(3)
            load = subprocess.Popen(
                [old, "-o", "json", "load", "--home", cluster.net / "client", "--seconds",
                 str(SECONDS), "--clients", "4"],
                stdout=subprocess.PIPE, text=True,
            )
            time.sleep(5)
            steps = []
            for program, order in [(new, range(4)), (old, reversed(range(4)))]:
                for replica in order:
                    began = time.monotonic()
                    cluster.stop(replica)
                    cluster.start(replica, program)
                    cluster.await_all(program)
                    steps.append(round(time.monotonic() - began, 1))
            is_under_load = load.poll() is None
            report = json.loads(load.communicate()[0])
            differ = [replica["replica"] for replica in cluster.status(old)
                      if replica["state"]["root_differs_at"]]
        finally:
            for replica in list(cluster.processes):
                cluster.stop(replica)
    verdict = {
        "from": REVISION,
        "steps_s": steps,
        "ended_under_load": is_under_load,
        "commands": report["commands"],
        "wrong": report["wrong"],
        "failed": report["failed"],
        "unanswered": report["unanswered"],
        "least_in_a_second": round(min(span["commands"] / span["seconds"] for span in report["series"])),
        "goodput": round(report["goodput"]),
        "states_differ_at": differ,
    }
    print(json.dumps(verdict, indent=1))
    if not is_under_load:
        sys.exit("the load ended before the last step: give more SECONDS")
    if verdict["wrong"] or verdict["failed"] or verdict["unanswered"] or differ:
        sys.exit("something was lost")


main()
