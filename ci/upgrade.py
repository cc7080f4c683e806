#!/usr/bin/env python3
"""A rolling upgrade: upgrade.py REVISION [SECONDS], or upgrade.py --programs OLD NEW.

The first form builds the program of REVISION and that of this tree, each in a folder of its own, and
has one load for SECONDS, which must outlast the upgrade. The second one takes two programs that there
are, and has short loads one after the other for as long as the upgrade takes: a test runs it.

Four replicas of the old program carry the load, which checks its answers; one after the other is
stopped and started with the new program, and then back. Nothing may be lost, answered wrongly or
refused, and no replica's state may differ. Prints JSON; ends with 1 if anything of that fails.
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

ROOT = Path(__file__).resolve().parent.parent
WITHIN_S = 60
ROUND_S = 2


def built(source, target):
    """The program of a source tree."""
    subprocess.run(
        ["cargo", "build", "--locked", "--profile", "quick", "--bin", "quorate"],
        cwd=source, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True,
    )
    return target / "quick" / "quorate"


def old_program(revision):
    sources, target = ROOT / "target/upgrade/sources", ROOT / "target/upgrade/target"
    subprocess.run(["git", "worktree", "remove", "--force", sources], cwd=ROOT, capture_output=True)
    subprocess.run(["git", "worktree", "add", "--detach", sources, revision], cwd=ROOT, check=True)
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

    def await_ready(self, program):
        """Waits until four replicas are ready."""
        until = time.monotonic() + WITHIN_S
        while sum(replica.get("ready", False) for replica in self.status(program)) < 4:
            if time.monotonic() > until:
                sys.exit("four replicas do not get ready")
            time.sleep(0.2)

    def differing(self, program):
        """The replicas whose state differs from the others', once all four answer."""
        until = time.monotonic() + WITHIN_S
        while True:
            replicas = self.status(program)
            # One that is busy may not answer in time.
            if len(replicas) == 4 and not any("unreachable" in replica for replica in replicas):
                return [replica["replica"] for replica in replicas
                        if replica["state"]["root_differs_at"]]
            if time.monotonic() > until:
                sys.exit("four replicas do not answer")
            time.sleep(0.2)

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


class Load(threading.Thread):
    """A load of so many seconds; or, without, of rounds until `end`."""

    def __init__(self, program, home, seconds):
        # A failure elsewhere ends the program, whatever the load does.
        super().__init__(daemon=True)
        self.words = [program, "-o", "json", "load", "--home", home, "--clients", "4",
                      "--seconds", str(seconds or ROUND_S)]
        if not seconds:
            self.words += ["--warmup", "0.1"]
        self.is_over = threading.Event()
        self.reports, self.failure = [], None
        if seconds:
            self.is_over.set()

    def run(self):
        while self.failure is None:
            done = subprocess.run(self.words, capture_output=True, text=True)
            if not done.stdout:
                self.failure = done.stderr
                return
            self.reports.append(json.loads(done.stdout))
            if self.is_over.is_set():
                return

    def end(self):
        """Waits for it. Says whether it lasted until now, and what it counted."""
        is_lasting = self.is_alive()
        self.is_over.set()
        self.join()
        if self.failure is not None:
            sys.exit(f"the load failed: {self.failure}")
        return is_lasting, self.reports

    def sum(self, name):
        return sum(report[name] for report in self.reports)


def upgraded(old, new, seconds):
    """What came of it."""
    with tempfile.TemporaryDirectory(prefix="quorate-upgrade-") as folder:
        cluster = Cluster(Path(folder), old)
        try:
            cluster.await_ready(old)
            load = Load(old, cluster.net / "client", seconds)
            load.start()
            steps = []
            for program, order in [(new, range(4)), (old, reversed(range(4)))]:
                for replica in order:
                    began = time.monotonic()
                    cluster.stop(replica)
                    cluster.start(replica, program)
                    cluster.await_all(program)
                    steps.append(round(time.monotonic() - began, 1))
            is_under_load, reports = load.end()
            cluster.await_ready(old)
            differ = cluster.differing(old)
        finally:
            for replica in list(cluster.processes):
                cluster.stop(replica)
    spans = [span for report in reports for span in report["series"]]
    return {
        "steps_s": steps,
        "ended_under_load": is_under_load,
        "commands": load.sum("commands"),
        "wrong": load.sum("wrong"),
        "failed": load.sum("failed"),
        "unanswered": load.sum("unanswered"),
        "least_in_a_second": round(min(span["commands"] / span["seconds"] for span in spans)),
        "goodput": round(load.sum("goodput") / len(reports)),
        "states_differ_at": differ,
    }


def main():
    if sys.argv[1] == "--programs":
        old, new = (Path(name).resolve() for name in sys.argv[2:4])
        of, seconds = str(old), None
    else:
        of, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
        old, new = old_program(of), built(ROOT, ROOT / "target")
    verdict = {"from": of, **upgraded(old, new, seconds)}
    print(json.dumps(verdict, indent=1))
    if not verdict["ended_under_load"]:
        sys.exit("the load ended before the last step: give more SECONDS")
    if verdict["wrong"] or verdict["failed"] or verdict["unanswered"] or verdict["states_differ_at"]:
        sys.exit("something was lost")


main()
